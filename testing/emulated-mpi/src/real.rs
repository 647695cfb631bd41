//! Open MPI, which sends the messages.

#![allow(unsafe_code, reason = "functions of a C library")]

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

const NAME: &str = "libmpi.so.40";

/// A status of MPI, which only it reads.
pub type Status = c_void;

macro_rules! functions {
    ($($name:ident: $symbol:literal ($($arg:ty),*);)*) => {
        /// Its functions; handles are words.
        pub struct Functions {
            $(pub $name: unsafe extern "C" fn($($arg),*) -> c_int,)*
        }

        fn functions(library: &Library) -> Option<Functions> {
            // SAFETY: the library is MPI's, and its functions have these types.
            unsafe {
                Some(Functions { $($name: *library.get(concat!($symbol, "\0").as_bytes()).ok()?,)* })
            }
        }
    };
}

functions! {
    initialized: "MPI_Initialized" (*mut c_int);
    init: "MPI_Init_thread" (*mut c_int, *mut c_void, c_int, *mut c_int);
    finalize: "MPI_Finalize" ();
    set_handler: "MPI_Comm_set_errhandler" (usize, usize);
    error_string: "MPI_Error_string" (c_int, *mut c_char, *mut c_int);
    rank: "MPI_Comm_rank" (usize, *mut c_int);
    size: "MPI_Comm_size" (usize, *mut c_int);
    iprobe: "MPI_Iprobe" (c_int, c_int, usize, *mut c_int, *mut Status);
    get_count: "MPI_Get_count" (*const Status, usize, *mut c_int);
    recv: "MPI_Recv" (*mut c_void, c_int, usize, c_int, c_int, usize, *mut Status);
    irecv: "MPI_Irecv" (*mut c_void, c_int, usize, c_int, c_int, usize, *mut usize);
    isend: "MPI_Isend" (*const c_void, c_int, usize, c_int, c_int, usize, *mut usize);
    test: "MPI_Test" (*mut usize, *mut c_int, *mut Status);
    allreduce: "MPI_Allreduce" (*const c_void, *mut c_void, c_int, usize, usize, usize);
}

/// MPICH's handles, and the objects of Open MPI that are meant.
const HANDLES: [(usize, &[u8]); 5] = [
    (0x4400_0000, b"ompi_mpi_comm_world\0"),
    (0x4c00_010d, b"ompi_mpi_byte\0"),
    (0x4c00_040a, b"ompi_mpi_float\0"),
    (0x5400_0001, b"ompi_mpi_errors_return\0"),
    (0x5800_0003, b"ompi_mpi_op_sum\0"),
];

pub struct Real {
    pub functions: Functions,
    handles: [usize; HANDLES.len()],
}

impl Real {
    /// Open MPI's handle; one that is no handle of MPICH is its own, as when its parts call it.
    pub fn handle(&self, handle: usize) -> usize {
        let known = HANDLES.iter().position(|(theirs, _)| *theirs == handle);
        known.map_or(handle, |i| self.handles[i])
    }
}

fn load() -> Option<Real> {
    // SAFETY: what a library does when it is loaded is its own. Global, as it loads parts of itself
    // that need its symbols; it is leaked, so its functions stay.
    let library = unsafe { Library::open(Some(NAME), RTLD_NOW | RTLD_GLOBAL) }.ok()?;
    let functions = functions(&library)?;
    let mut handles = [0; HANDLES.len()];
    for (handle, (_, name)) in handles.iter_mut().zip(HANDLES) {
        // SAFETY: only the address of the object is taken.
        *handle = unsafe { library.get::<*mut c_void>(name) }.ok()?.into_raw() as usize;
    }
    std::mem::forget(library);
    Some(Real { functions, handles })
}

/// `None` if it is not installed.
pub fn real() -> Option<&'static Real> {
    static REAL: OnceLock<Option<Real>> = OnceLock::new();
    REAL.get_or_init(load).as_ref()
}
