//! The functions of NCCL that are used, loaded at run time: nothing of it is needed to build or to
//! start without it. Types are those of `nccl.h` of version 2.

#![allow(unsafe_code, reason = "the functions of a C library")]

use super::{ID_BYTES, UniqueId};
use crate::transport::Piece;
use elinvar_core::{Error, ErrorKind, NativeQueue, Result};
use libloading::Library as Loaded;
use std::env;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::sync::OnceLock;

/// Names the library in the place of the system's.
const VARIABLE: &str = "ELINVAR_NCCL_LIBRARY";
const NAMES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];
/// The first version with sends and receives: 2.7.3.
const MIN_VERSION: c_int = 2703;
/// `ncclUint8`.
const BYTE: c_int = 1;
/// `ncclInProgress`, which is no error.
const IN_PROGRESS: c_int = 7;

type Comm = *mut c_void;
type Stream = *mut c_void;

macro_rules! functions {
    ($($name:ident: $symbol:literal ($($arg:ty),*) -> $result:ty;)*) => {
        struct Functions {
            $($name: unsafe extern "C" fn($($arg),*) -> $result,)*
        }
        impl Functions {
            /// # Safety
            /// A library that has a function of one of these names has it with this type, as
            /// NVIDIA's has, and stays loaded.
            unsafe fn of(library: &Loaded) -> Result<Functions, &'static str> {
                // SAFETY: the caller's promise.
                unsafe {
                    Ok(Functions {
                        $($name: *library.get(concat!($symbol, "\0").as_bytes()).map_err(|_| $symbol)?,)*
                    })
                }
            }
        }
    };
}

functions! {
    version: "ncclGetVersion" (*mut c_int) -> c_int;
    unique_id: "ncclGetUniqueId" (*mut UniqueId) -> c_int;
    init: "ncclCommInitRank" (*mut Comm, c_int, UniqueId, c_int) -> c_int;
    destroy: "ncclCommDestroy" (Comm) -> c_int;
    abort: "ncclCommAbort" (Comm) -> c_int;
    async_error: "ncclCommGetAsyncError" (Comm, *mut c_int) -> c_int;
    send: "ncclSend" (*const c_void, usize, c_int, c_int, Comm, Stream) -> c_int;
    receive: "ncclRecv" (*mut c_void, usize, c_int, c_int, Comm, Stream) -> c_int;
    group_start: "ncclGroupStart" () -> c_int;
    group_end: "ncclGroupEnd" () -> c_int;
    error_string: "ncclGetErrorString" (c_int) -> *const c_char;
}

/// The library, loaded.
pub struct Library {
    functions: Functions,
    version: c_int,
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// A communicator of the library. Any thread may use it once its device is the thread's.
#[derive(Clone, Copy, Debug)]
pub struct Communicator(Comm);

// SAFETY: a handle, which NCCL lets any thread use; who may use it until when is said at the
// functions that take it.
unsafe impl Send for Communicator {}
// SAFETY: as above.
unsafe impl Sync for Communicator {}

impl Library {
    /// The one library of this process.
    ///
    /// # Errors
    /// `DriverMissing` with what to install; `Unsupported` if it is too old.
    pub fn load() -> Result<&'static Library> {
        static LIBRARY: OnceLock<Result<Library>> = OnceLock::new();
        LIBRARY.get_or_init(load).as_ref().map_err(Clone::clone)
    }
    /// Its name and version.
    pub fn name(&self) -> String {
        let v = self.version;
        // 2.9 and later have two digits for the second number.
        let [major, minor, patch] =
            if v < 10000 { [v / 1000, v / 100 % 10, v % 100] } else { [v / 10000, v / 100 % 100, v % 100] };
        format!("NCCL {major}.{minor}.{patch}")
    }
    /// What the workers of a new communicator are to have in common.
    ///
    /// # Errors
    /// What the library reports.
    pub fn unique_id(&self) -> Result<UniqueId> {
        let mut id = UniqueId([0; ID_BYTES]);
        // SAFETY: the place for the result is valid.
        self.judged(unsafe { (self.functions.unique_id)(&raw mut id) }, "ncclGetUniqueId").map(|()| id)
    }
    /// Waits for all workers of a communicator. The device is the calling thread's.
    ///
    /// # Errors
    /// What the library reports.
    pub fn join(&self, id: UniqueId, rank: usize, workers: usize) -> Result<Communicator> {
        let mut comm = std::ptr::null_mut();
        // SAFETY: the place for the result is valid; the id is the library's own.
        let code = unsafe { (self.functions.init)(&raw mut comm, workers as c_int, id, rank as c_int) };
        self.judged(code, "ncclCommInitRank").map(|()| Communicator(comm))
    }
    /// Gives sends and receives to a queue, all at once: its addresses are those of what is sent,
    /// then those of what is received.
    ///
    /// # Errors
    /// What the library reports.
    ///
    /// # Safety
    /// The communicator was neither destroyed nor aborted before; the addresses are of as many
    /// bytes as their pieces.
    pub unsafe fn give(
        &self,
        comm: Communicator,
        queue: NativeQueue<'_>,
        sends: &[Piece],
        receives: &[Piece],
    ) -> Result<()> {
        let f = &self.functions;
        let stream: Stream = std::ptr::with_exposed_provenance_mut(queue.stream);
        let (out, into) = queue.addresses.split_at(sends.len());
        // SAFETY: no arguments.
        self.judged(unsafe { (f.group_start)() }, "ncclGroupStart")?;
        let mut given = Ok(());
        for (piece, at) in sends.iter().zip(out).filter(|(piece, _)| piece.bytes > 0) {
            let at = std::ptr::with_exposed_provenance(*at as usize);
            // SAFETY: the caller's promises; the queue is lent, and its device is the thread's.
            let code = unsafe { (f.send)(at, piece.bytes, BYTE, piece.worker as c_int, comm.0, stream) };
            given = given.and(self.judged(code, "ncclSend"));
        }
        for (piece, at) in receives.iter().zip(into).filter(|(piece, _)| piece.bytes > 0) {
            let at = std::ptr::with_exposed_provenance_mut(*at as usize);
            // SAFETY: as above.
            let code = unsafe { (f.receive)(at, piece.bytes, BYTE, piece.worker as c_int, comm.0, stream) };
            given = given.and(self.judged(code, "ncclRecv"));
        }
        // A group that was begun is ended in any case.
        // SAFETY: no arguments.
        let ended = self.judged(unsafe { (f.group_end)() }, "ncclGroupEnd");
        given.and(ended)
    }
    /// An error of work that was given before.
    ///
    /// # Errors
    /// What the library reports.
    ///
    /// # Safety
    /// The communicator was neither destroyed nor aborted before.
    pub unsafe fn check(&self, comm: Communicator) -> Result<()> {
        let mut code = 0;
        // SAFETY: the caller's promise; the place for the result is valid.
        self.judged(unsafe { (self.functions.async_error)(comm.0, &raw mut code) }, "ncclCommGetAsyncError")?;
        if code == IN_PROGRESS { Ok(()) } else { self.judged(code, "a send or receive") }
    }
    /// Ends a communicator, of which all work is done.
    ///
    /// # Safety
    /// It was neither destroyed nor aborted before, and is not used any more.
    pub unsafe fn destroy(&self, comm: Communicator) {
        // SAFETY: the caller's promise. What it says is of no use.
        unsafe { (self.functions.destroy)(comm.0) };
    }
    /// Ends a communicator, with what it still does. A call that another thread makes with it
    /// returns.
    ///
    /// # Safety
    /// It was neither destroyed nor aborted before, and no other call of it begins.
    pub unsafe fn abort(&self, comm: Communicator) {
        // SAFETY: the caller's promise. What it says is of no use.
        unsafe { (self.functions.abort)(comm.0) };
    }
    fn judged(&self, code: c_int, what: &str) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: it takes any number, and gives a text that stays, or nothing.
        let text = unsafe {
            let text = (self.functions.error_string)(code);
            if text.is_null() { c"unknown" } else { CStr::from_ptr(text) }
        };
        Err(Error::io(format!("distributed: NCCL: {what}: {}", text.to_string_lossy())))
    }
}

fn load() -> Result<Library> {
    let named = env::var(VARIABLE).ok().filter(|name| !name.is_empty());
    let names = named.as_deref().map_or(NAMES.to_vec(), |name| vec![name]);
    let missing = |why: String| {
        Error::new(
            ErrorKind::DriverMissing,
            format!(
                "distributed: no NCCL: {why}; install it (Debian: libnccl2 of NVIDIA, PyPI: nvidia-nccl-cu13), or name it by {VARIABLE}"
            ),
        )
    };
    let mut why = String::new();
    for name in names {
        // SAFETY: what a library does when it is loaded is its own; these are NCCL, or the one that
        // the user names as such.
        let library = match unsafe { Loaded::new(name) } {
            Ok(library) => library,
            Err(_) if !why.is_empty() => continue,
            Err(e) => {
                why = format!("{name} cannot be loaded ({})", plain(&e));
                continue;
            }
        };
        // SAFETY: a library of this name has NCCL's functions; it is leaked, so it stays.
        let functions = unsafe { Functions::of(&library) };
        std::mem::forget(library);
        let functions = functions.map_err(|symbol| missing(format!("{name} has no function {symbol}")))?;
        let mut version = 0;
        // SAFETY: the place for the result is valid.
        unsafe { (functions.version)(&raw mut version) };
        let nccl = Library { functions, version };
        if version < MIN_VERSION {
            return Err(Error::unsupported(format!(
                "distributed: {} has no sends and receives; 2.7.3 has",
                nccl.name()
            )));
        }
        return Ok(nccl);
    }
    Err(missing(why))
}

/// What the system said, in one line.
fn plain(e: &libloading::Error) -> String {
    let source = std::error::Error::source(e);
    let text = source.map_or_else(|| e.to_string(), ToString::to_string);
    text.lines().next().unwrap_or("").to_string()
}
