//! Libraries with the interface of cuBLASLt: which it is, its functions, and what its numbers mean.

use super::functions::{Address, Handle};
use crate::sys::Wanted;
use elinvar_core::{Error, ErrorKind, Result};
use elinvar_kernel::ir::Elem;
use libloading::Library;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

// What the vendors agree on: elements (`cudaDataType`, `hipDataType`), and the limit of a workspace
// among preferences.
pub const R_32F: c_int = 0;
const R_16F: c_int = 2;
const R_16BF: c_int = 14;
pub const MAX_WORKSPACE_BYTES: c_int = 1;

/// A vendor's library, and the numbers of its header.
pub struct BlasLtLibrary {
    /// How it is looked for.
    pub wanted: Wanted,
    /// What the names of its functions begin with.
    pub prefix: &'static str,
    /// What its functions return.
    pub status: BlasLtStatus,
    /// Types of computation with sums in f32: of factors of 16 bits, and of f32, those to try
    /// first in front.
    pub compute: c_int,
    pub compute_f32: &'static [c_int],
    /// Attributes of an operation: is a factor transposed?
    pub transposed: [c_int; 2],
    /// The values of these: as it is, and transposed.
    pub order: [i32; 2],
    /// Attributes of a matrix: how many in a batch, and how far apart.
    pub batch: [c_int; 2],
    /// Attributes of preferences: what addresses are multiples of, of the two factors, of the sum
    /// that is added to, of the result.
    pub alignments: Option<[c_int; 4]>,
    /// Words of 8 bytes of an algorithm, which a [`Way`] begins with.
    pub algorithm_words: usize,
    /// Its functions, once they were looked for; none if it is not installed.
    pub loaded: OnceLock<Option<BlasLtFunctions>>,
}

/// Numbers of results. All others, those of a library that does not fit the driver or the device
/// too, mean that products are done without it.
pub struct BlasLtStatus {
    pub out_of_memory: c_int,
    pub lost: &'static [c_int],
    pub not_supported: c_int,
}

/// A way to do a product, `cublasLtMatmulHeuristicResult_t`: the words of the algorithm, those of
/// its workspace in bytes, one whose first half is a result, and what is not looked at.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Way(pub [u64; WAY_WORDS]);

/// Words of the longest: of NVIDIA's 12 are used.
pub const WAY_WORDS: usize = 16;

impl Way {
    /// Bytes of workspace that it needs.
    pub fn workspace(&self, library: &BlasLtLibrary) -> usize {
        self.0[library.algorithm_words] as usize
    }
    /// Can it be done? 0, or why not: the half in front, on these machines.
    pub fn state(&self, library: &BlasLtLibrary) -> c_int {
        self.0[library.algorithm_words + 1] as c_int
    }
}

macro_rules! functions {
    ($($name:ident: $symbol:literal ($($arg:ty),*);)*) => {
        /// The functions that are used, with the types that the manuals give them.
        pub struct BlasLtFunctions {
            $(pub $name: unsafe extern "system" fn($($arg),*) -> c_int,)*
        }
        impl BlasLtFunctions {
            /// # Safety
            /// A library that has a function of one of these names has it with these types, as
            /// the vendor's has, and stays loaded.
            unsafe fn of(library: &Library, prefix: &str) -> Option<BlasLtFunctions> {
                let symbol = |name: &str| format!("{prefix}{name}\0").into_bytes();
                // SAFETY: the caller's promise.
                unsafe { Some(BlasLtFunctions { $($name: *library.get(&symbol($symbol)).ok()?,)* }) }
            }
        }
    };
}

functions! {
    create: "Create" (*mut Handle);
    destroy: "Destroy" (Handle);
    operation: "MatmulDescCreate" (*mut Handle, c_int, c_int);
    set_operation: "MatmulDescSetAttribute" (Handle, c_int, *const c_void, usize);
    end_operation: "MatmulDescDestroy" (Handle);
    layout: "MatrixLayoutCreate" (*mut Handle, c_int, u64, u64, i64);
    set_layout: "MatrixLayoutSetAttribute" (Handle, c_int, *const c_void, usize);
    end_layout: "MatrixLayoutDestroy" (Handle);
    preference: "MatmulPreferenceCreate" (*mut Handle);
    set_preference: "MatmulPreferenceSetAttribute" (Handle, c_int, *const c_void, usize);
    end_preference: "MatmulPreferenceDestroy" (Handle);
    ways: "MatmulAlgoGetHeuristic"
        (Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_int, *mut Way, *mut c_int);
    multiply: "Matmul"
        (Handle, Handle, *const c_void, Address, Handle, Address, Handle, *const c_void, Address, Handle, Address, Handle,
         *const u64, Address, usize, Handle);
}

impl BlasLtLibrary {
    /// Its functions, if it is installed.
    pub fn functions(&self) -> Option<&BlasLtFunctions> {
        let load = || {
            let (_, library) = self.wanted.load().ok()?;
            // SAFETY: a library under the name of the vendor's, or one that the user named as such,
            // has its functions; it is leaked, so it stays.
            let functions = unsafe { BlasLtFunctions::of(&library, self.prefix) };
            std::mem::forget(library);
            functions
        };
        self.loaded.get_or_init(load).as_ref()
    }
    /// The number of elements; `None` if it does not multiply them.
    pub fn elem(elem: Elem) -> Option<c_int> {
        match elem {
            Elem::F32 => Some(R_32F),
            Elem::F16 => Some(R_16F),
            Elem::BF16 => Some(R_16BF),
            Elem::F8(_)
            | Elem::F64
            | Elem::Bool
            | Elem::U8
            | Elem::I32
            | Elem::U32
            | Elem::I64
            | Elem::U64 => None,
        }
    }
    /// Types of computation for such elements, the one to try first in front.
    pub fn compute(&self, elem: Elem) -> &[c_int] {
        if elem == Elem::F32 { self.compute_f32 } else { std::slice::from_ref(&self.compute) }
    }
    /// What a function returned.
    ///
    /// # Errors
    /// What it reports.
    pub fn check(&self, status: c_int, what: &str) -> Result<()> {
        let kind = match status {
            0 => return Ok(()),
            s if s == self.status.out_of_memory => ErrorKind::OutOfMemory,
            s if self.status.lost.contains(&s) => ErrorKind::DeviceLost,
            _ => ErrorKind::Unsupported,
        };
        Err(Error::new(
            kind,
            format!("{}: {}: {what}: status {status}", self.wanted.driver, self.wanted.what),
        ))
    }
}
