//! cuBLASLt: GEMM by NVIDIA's library, where it is installed ("cuBLAS Library", part 3, "Using the
//! cuBLASLt API").
//!
//! It comes with CUDA's toolkit, and with PyTorch, not with the driver; nothing here needs it. Its
//! matrices are column-major, so that a matrix of ours is its transpose there: y^T = w^T x^T.

use crate::VendorGemm;
use crate::streams::sys::{Address, Handle, Shared, memory};
use elinvar_core::{Error, ErrorKind, Result};
use elinvar_kernel::ir::Elem;
use libloading::Library;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;

/// Names a library in the place of the system's.
const NAME: &str = "ELINVAR_CUBLASLT_LIBRARY";
/// What it is called, newest first.
const SYSTEM: &[&str] = if cfg!(windows) {
    &["cublasLt64_13.dll", "cublasLt64_12.dll", "cublasLt64_11.dll"]
} else {
    &["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11", "libcublasLt.so"]
};
/// Bytes that it may use beside the operands: what NVIDIA advises for its newest cards.
const WORKSPACE: usize = 32 << 20;

// Numbers of `cublasStatus_t`.
const ALLOC_FAILED: c_int = 3;
const EXECUTION_FAILED: c_int = 13;
const INTERNAL_ERROR: c_int = 14;
const NOT_SUPPORTED: c_int = 15;
// Of `cublasComputeType_t`: sums in f32; with factors rounded to TF32.
const COMPUTE_32F: c_int = 68;
const COMPUTE_32F_FAST_TF32: c_int = 77;
// Of `cudaDataType`.
const R_32F: c_int = 0;
const R_16F: c_int = 2;
const R_16BF: c_int = 14;
// Of `cublasLtMatmulDescAttributes_t`, `cublasLtMatrixLayoutAttribute_t` and
// `cublasLtMatmulPreferenceAttributes_t`.
const TRANSA: c_int = 3;
const TRANSB: c_int = 4;
const BATCH_COUNT: c_int = 5;
const STRIDED_BATCH_OFFSET: c_int = 6;
const MAX_WORKSPACE_BYTES: c_int = 1;
/// The first of four: of the two factors, of the sum that is added to, of the result.
const MIN_ALIGNMENT_A_BYTES: c_int = 5;

/// `cublasLtMatmulHeuristicResult_t`: a way to do a product.
#[repr(C)]
#[derive(Clone, Copy)]
struct Way {
    algorithm: [u64; 8],
    workspace: usize,
    state: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

macro_rules! functions {
    ($($name:ident: $symbol:literal ($($arg:ty),*);)*) => {
        /// The functions that are used, with the types that the manual gives them.
        struct Functions {
            $($name: unsafe extern "system" fn($($arg),*) -> c_int,)*
        }
        impl Functions {
            /// # Safety
            /// A library that has a function of one of these names has it with these types, as
            /// NVIDIA's has, and stays loaded.
            unsafe fn of(library: &Library) -> Option<Functions> {
                // SAFETY: the caller's promise.
                unsafe { Some(Functions { $($name: *library.get(concat!($symbol, "\0").as_bytes()).ok()?,)* }) }
            }
        }
    };
}

functions! {
    create: "cublasLtCreate" (*mut Handle);
    destroy: "cublasLtDestroy" (Handle);
    operation: "cublasLtMatmulDescCreate" (*mut Handle, c_int, c_int);
    set_operation: "cublasLtMatmulDescSetAttribute" (Handle, c_int, *const c_void, usize);
    end_operation: "cublasLtMatmulDescDestroy" (Handle);
    layout: "cublasLtMatrixLayoutCreate" (*mut Handle, c_int, u64, u64, i64);
    set_layout: "cublasLtMatrixLayoutSetAttribute" (Handle, c_int, *const c_void, usize);
    end_layout: "cublasLtMatrixLayoutDestroy" (Handle);
    preference: "cublasLtMatmulPreferenceCreate" (*mut Handle);
    set_preference: "cublasLtMatmulPreferenceSetAttribute" (Handle, c_int, *const c_void, usize);
    end_preference: "cublasLtMatmulPreferenceDestroy" (Handle);
    ways: "cublasLtMatmulAlgoGetHeuristic"
        (Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_int, *mut Way, *mut c_int);
    multiply: "cublasLtMatmul"
        (Handle, Handle, *const c_void, Address, Handle, Address, Handle, *const c_void, Address, Handle, Address, Handle,
         *const [u64; 8], Address, usize, Handle);
}

/// The library, if there is one.
fn functions() -> Option<&'static Functions> {
    static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();
    FUNCTIONS
        .get_or_init(|| {
            let wanted = std::env::var_os(NAME).filter(|v| !v.is_empty()).map(PathBuf::from);
            let names = wanted.map_or_else(|| SYSTEM.iter().map(PathBuf::from).collect(), |path| vec![path]);
            // SAFETY: a library under the name of NVIDIA's, or one that the user named as such,
            // runs nothing when it is loaded but what its maker needs.
            let library = names.iter().find_map(|name| unsafe { Library::new(name) }.ok())?;
            // SAFETY: as above; it is leaked, so it stays.
            let functions = unsafe { Functions::of(&library) };
            std::mem::forget(library);
            functions
        })
        .as_ref()
}

/// A matrix as the library has it: rows, columns, how far apart columns are, and matrices of a
/// batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Stored {
    rows: usize,
    columns: usize,
    leading: i64,
    batch: i64,
    transposed: bool,
}

impl Stored {
    /// A factor of sizes [down, across] whose neighbours are so far apart: as it is, if elements
    /// are contiguous downwards, else transposed.
    fn of([down, across]: [usize; 2], [batch, along_down, along_across]: [i64; 3]) -> Option<Stored> {
        let wide = |rows: usize, columns: usize, leading: i64| {
            // Of one column, the distance to the next does not matter.
            if columns == 1 { rows as i64 } else { leading }
        };
        let fits = |side_by_side: i64, rows: usize, columns: usize, leading: i64| {
            let leading = wide(rows, columns, leading);
            ((side_by_side == 1 || rows == 1) && leading >= rows as i64).then_some((rows, columns, leading))
        };
        let plain = fits(along_down, down, across, along_across).map(|s| (s, false));
        let transposed_layout = || fits(along_across, across, down, along_down).map(|s| (s, true));
        let ((rows, columns, leading), transposed) = plain.or_else(transposed_layout)?;
        (batch >= 0).then_some(Stored { rows, columns, leading, batch, transposed })
    }
}

/// What a product is known by: itself, and what the addresses of factors and result are multiples
/// of.
type Key = (VendorGemm, [u32; 3]);

/// A description that the library made. It goes when it is dropped.
struct Made {
    raw: Handle,
    end: unsafe extern "system" fn(Handle) -> c_int,
}

impl Made {
    /// What `make` makes, and `end` is to end.
    ///
    /// # Errors
    /// What the library reports.
    fn new(
        what: &str,
        end: unsafe extern "system" fn(Handle) -> c_int,
        make: impl FnOnce(*mut Handle) -> c_int,
    ) -> Result<Made> {
        let mut raw = std::ptr::null_mut();
        Functions::check(make(&raw mut raw), what)?;
        Ok(Made { raw, end })
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // SAFETY: the function for what was made, which is not used any more. A description is not
        // read by work that is under way.
        unsafe { (self.end)(self.raw) };
    }
}

// SAFETY: a handle of a description, which is not changed any more and may be used by any thread.
unsafe impl Send for Made {}

/// A product that the library can do.
struct MatmulPlan {
    operation: Made,
    layouts: [Made; 3],
    way: Way,
}

/// The library on a device.
pub struct CublasLt {
    functions: &'static Functions,
    handle: Handle,
    /// In whose order the workspace is used.
    stream: Handle,
    workspace: Address,
    /// `None`: the library cannot do it.
    plans: HashMap<Key, Option<MatmulPlan>>,
}

// SAFETY: a handle that any thread may use once the context is its own; it is used under the
// queue's lock.
unsafe impl Send for CublasLt {}

impl Functions {
    fn check(status: c_int, what: &str) -> Result<()> {
        let kind = match status {
            0 => return Ok(()),
            ALLOC_FAILED => ErrorKind::OutOfMemory,
            EXECUTION_FAILED | INTERNAL_ERROR => ErrorKind::DeviceLost,
            // A library that does not fit the driver or the device, too: products are done without
            // it.
            _ => ErrorKind::Unsupported,
        };
        Err(Error::new(kind, format!("cuda: cuBLASLt: {what}: status {status}")))
    }
    fn layout(&self, elem: c_int, count: usize, s: &Stored) -> Result<Made> {
        let (count, batch) = (count as i32, s.batch);
        // SAFETY: the place for the result is valid.
        let layout = Made::new("a matrix", self.end_layout, |to| unsafe {
            (self.layout)(to, elem, s.rows as u64, s.columns as u64, s.leading)
        })?;
        // SAFETY: the layout was just made; the values have the sizes that are said.
        unsafe {
            let set =
                (self.set_layout)(layout.raw, BATCH_COUNT, (&raw const count).cast(), size_of_val(&count));
            Functions::check(set, "a batch")?;
            let set = (self.set_layout)(
                layout.raw,
                STRIDED_BATCH_OFFSET,
                (&raw const batch).cast(),
                size_of_val(&batch),
            );
            Functions::check(set, "a batch")?;
        }
        Ok(layout)
    }
}

impl CublasLt {
    /// The library on a device, for one stream; `None` if it is not installed.
    ///
    /// # Errors
    /// `OutOfMemory`; what the library reports.
    pub fn new(shared: &Shared, stream: Handle) -> Result<Option<CublasLt>> {
        let Some(functions) = functions() else { return Ok(None) };
        shared.enter()?;
        let workspace = memory::allocate(shared, stream, WORKSPACE as u64)?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the place for the result is valid, and the device's context is the thread's.
        let started = unsafe { (functions.create)(&raw mut handle) };
        if let Err(e) = Functions::check(started, "starting") {
            memory::free_in(shared, stream, workspace);
            return Err(e);
        }
        Ok(Some(CublasLt { functions, handle, stream, workspace, plans: HashMap::new() }))
    }
    /// Gives back what it has. The stream has nothing to do.
    pub fn destroy(self, shared: &Shared) {
        let CublasLt { functions, handle, stream, workspace, plans } = self;
        memory::free_in(shared, stream, workspace);
        drop(plans);
        // SAFETY: the handle was made by this library, and it is not used any more.
        unsafe { (functions.destroy)(handle) };
    }
    /// Gives a product to a stream. `false`: the library cannot do it.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn multiply(&mut self, stream: Handle, p: &VendorGemm, [x, w, y]: [Address; 3]) -> Result<bool> {
        let key = (*p, [x, w, y].map(|at| 1 << at.trailing_zeros().min(8)));
        if !self.plans.contains_key(&key) {
            let plan = self.plan(&key)?;
            self.plans.insert(key, plan);
        }
        let Some(Some(MatmulPlan { operation, layouts, way })) = self.plans.get(&key) else {
            return Ok(false);
        };
        let [a, b, c] = layouts.each_ref().map(|l| l.raw);
        let (one, zero) = (1f32, 0f32);
        // SAFETY: everything was made by this library for this product; operands and workspace are
        // in their memory, which is given back in the stream's order.
        let given = unsafe {
            let (alpha, beta) = ((&raw const one).cast(), (&raw const zero).cast());
            let (algorithm, workspace) = (&raw const way.algorithm, self.workspace);
            (self.functions.multiply)(
                self.handle,
                operation.raw,
                alpha,
                w,
                a,
                x,
                b,
                beta,
                y,
                c,
                y,
                c,
                algorithm,
                workspace,
                way.workspace,
                stream,
            )
        };
        Functions::check(given, "a product")?;
        Ok(true)
    }
    fn plan(&self, (p, alignments): &Key) -> Result<Option<MatmulPlan>> {
        let f = self.functions;
        let (elem, compute) = match p.elem {
            Elem::F32 => (R_32F, COMPUTE_32F_FAST_TF32),
            Elem::F16 => (R_16F, COMPUTE_32F),
            Elem::BF16 => (R_16BF, COMPUTE_32F),
            Elem::F8(_)
            | Elem::F64
            | Elem::Bool
            | Elem::U8
            | Elem::I32
            | Elem::U32
            | Elem::I64
            | Elem::U64 => return Ok(None),
        };
        let [b, m, n, k] = p.sizes;
        let largest = [b, m, n, k].into_iter().max().unwrap_or(0);
        // Of the library's first factor, w^T, n goes downwards.
        let first = Stored::of([n, k], [p.w[0], p.w[2], p.w[1]]);
        let second = Stored::of([k, m], [p.x[0], p.x[2], p.x[1]]);
        let (Some(first), Some(second), true) = (first, second, largest <= i32::MAX as usize) else {
            return Ok(None);
        };
        let result =
            Stored { rows: n, columns: m, leading: n as i64, batch: (m * n) as i64, transposed: false };
        // SAFETY: the place for the result is valid.
        let make = |to| unsafe { (f.operation)(to, compute, R_32F) };
        let operation = Made::new("an operation", f.end_operation, make)?;
        for (side, factor) in [(TRANSA, &first), (TRANSB, &second)] {
            let transposed = i32::from(factor.transposed);
            // SAFETY: the operation was just made; the value has the size that is said.
            let set = unsafe {
                let value = (&raw const transposed).cast();
                (f.set_operation)(operation.raw, side, value, size_of_val(&transposed))
            };
            Functions::check(set, "an operation")?;
        }
        let layouts = [f.layout(elem, b, &first)?, f.layout(elem, b, &second)?, f.layout(elem, b, &result)?];
        let [a, b, c] = layouts.each_ref().map(|l| l.raw);
        // SAFETY: the place for the result is valid.
        let preference = Made::new("a preference", f.end_preference, |to| unsafe { (f.preference)(to) })?;
        let [x, w, y] = *alignments;
        let (workspace, mut way, mut found) = (WORKSPACE as u64, Way::NONE, 0);
        let prefer = |attribute: c_int, value: *const c_void, size: usize| {
            // SAFETY: the preference was just made; the value has the size that is said.
            let set = unsafe { (f.set_preference)(preference.raw, attribute, value, size) };
            Functions::check(set, "a preference")
        };
        prefer(MAX_WORKSPACE_BYTES, (&raw const workspace).cast(), size_of_val(&workspace))?;
        for (i, alignment) in [w, x, y, y].iter().enumerate() {
            let value = std::ptr::from_ref(alignment).cast();
            prefer(MIN_ALIGNMENT_A_BYTES + i as c_int, value, size_of_val(alignment))?;
        }
        let (ways, count) = (&raw mut way, &raw mut found);
        // SAFETY: all descriptions were just made, and there is room for one result.
        let asked =
            unsafe { (f.ways)(self.handle, operation.raw, a, b, c, c, preference.raw, 1, ways, count) };
        match asked {
            0 if found > 0 && way.state == 0 => Ok(Some(MatmulPlan { operation, layouts, way })),
            0 | NOT_SUPPORTED => Ok(None),
            other => Functions::check(other, "looking for a way").map(|()| None),
        }
    }
}

impl Way {
    const NONE: Way =
        Way { algorithm: [0; 8], workspace: 0, state: NOT_SUPPORTED, waves: 0.0, reserved: [0; 4] };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[test]
    fn what_was_made_is_ended_once() {
        static ENDED: AtomicUsize = AtomicUsize::new(0);
        extern "system" fn end(handle: Handle) -> c_int {
            ENDED.fetch_add(handle.addr(), Relaxed);
            0
        }
        let make = |status: c_int| {
            Made::new("a description", end, |to| {
                // SAFETY: the place for the result, which is valid.
                unsafe { to.write(std::ptr::without_provenance_mut(7)) };
                status
            })
        };
        assert!(make(NOT_SUPPORTED).is_err());
        assert_eq!(ENDED.load(Relaxed), 0, "what was not made is not ended");
        drop(make(0).unwrap());
        assert_eq!(ENDED.load(Relaxed), 7);
    }

    #[test]
    fn a_factor_is_stored_by_columns() {
        let stored =
            |sizes, strides| Stored::of(sizes, strides).map(|s| (s.rows, s.columns, s.leading, s.transposed));
        // w of [k = 4, n = 6], row-major, seen as [n, k]: its rows are contiguous downwards.
        assert_eq!(stored([6, 4], [0, 1, 6]), Some((6, 4, 6, false)));
        // Each row a part of a longer one.
        assert_eq!(stored([6, 4], [24, 1, 10]), Some((6, 4, 10, false)));
        // w of [n, k] row-major.
        assert_eq!(stored([6, 4], [24, 4, 1]), Some((4, 6, 4, true)));
        // One row, one column.
        assert_eq!(stored([1, 4], [0, 9, 1]), Some((1, 4, 1, false)));
        assert_eq!(stored([6, 1], [0, 1, 0]), Some((6, 1, 6, false)));
        // Every second element; backwards; the same row again and again; a batch backwards.
        assert_eq!(stored([6, 4], [0, 2, 12]), None);
        assert_eq!(stored([6, 4], [0, -1, 6]), None);
        assert_eq!(stored([6, 4], [0, 1, 0]), None);
        assert_eq!(stored([6, 4], [-24, 1, 6]), None);
    }
}
