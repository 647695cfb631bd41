//! The functions of the library, as C callers see them.
//!
//! Callers guarantee the pointers, as NCCL's manual requires: pointers to results are valid, and a
//! communicator is one that `ncclCommInitRank` gave. Communicators are never freed, so one that is
//! used after its end is found.

#![allow(unsafe_code, reason = "a C library")]
#![allow(non_snake_case, reason = "the names are NVIDIA's")]

use crate::mesh::{Mesh, listen};
use emulated_gpu::client::Driver;
use std::cell::RefCell;
use std::collections::HashMap;
use std::env;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;

/// The version that it passes as: 2.23.4.
const VERSION: c_int = 22304;
const ID_BYTES: usize = 128;

// Numbers of `ncclResult_t`.
const UNHANDLED_CUDA_ERROR: c_int = 1;
const SYSTEM_ERROR: c_int = 2;
const INVALID_ARGUMENT: c_int = 4;
const INVALID_USAGE: c_int = 5;
const REMOTE_ERROR: c_int = 6;
/// `ncclUint8`.
const BYTE: c_int = 1;

/// `ncclUniqueId`: here the port at which worker 0 listens.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct UniqueId([u8; ID_BYTES]);

/// `ncclComm`.
pub struct Comm {
    mesh: Mesh,
    rank: usize,
    ended: AtomicBool,
}

/// A send or receive of a group.
struct Piece {
    comm: &'static Comm,
    stream: usize,
    worker: usize,
    at: u64,
    bytes: usize,
    sends: bool,
}

thread_local! {
    /// How many groups are open, and what they have.
    static GROUP: RefCell<(usize, Vec<Piece>)> = const { RefCell::new((0, Vec::new())) };
}

/// The listeners of ids that no worker 0 has taken yet, by port.
static LISTENERS: LazyLock<Mutex<HashMap<u16, TcpListener>>> = LazyLock::new(Mutex::default);

fn driver() -> Result<&'static Driver, c_int> {
    Driver::get().ok_or(UNHANDLED_CUDA_ERROR)
}

fn cuda(status: c_int) -> Result<(), c_int> {
    if status == 0 { Ok(()) } else { Err(UNHANDLED_CUDA_ERROR) }
}

fn code(done: Result<(), c_int>) -> c_int {
    done.err().unwrap_or(0)
}

fn of_io(e: &io::Error) -> c_int {
    match e.kind() {
        ErrorKind::InvalidData => INVALID_USAGE,
        ErrorKind::InvalidInput => INVALID_ARGUMENT,
        ErrorKind::Interrupted => REMOTE_ERROR,
        _ => SYSTEM_ERROR,
    }
}

fn fails(how: &str) -> bool {
    env::var("ELINVAR_EMULATED_NCCL").is_ok_and(|text| text == how)
}

/// A communicator that is not at its end.
fn used(comm: *mut Comm) -> Result<&'static Comm, c_int> {
    // SAFETY: null, or one of `ncclCommInitRank`, none of which is freed.
    let comm = unsafe { comm.as_ref() }.ok_or(INVALID_ARGUMENT)?;
    if comm.ended.load(SeqCst) { Err(INVALID_ARGUMENT) } else { Ok(comm) }
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetVersion(version: *mut c_int) -> c_int {
    // SAFETY: the place is valid.
    unsafe { version.write(VERSION) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetErrorString(result: c_int) -> *const c_char {
    let text: &'static CStr = match result {
        0 => c"no error",
        UNHANDLED_CUDA_ERROR => c"unhandled cuda error",
        SYSTEM_ERROR => c"unhandled system error",
        INVALID_ARGUMENT => c"invalid argument",
        INVALID_USAGE => c"invalid usage",
        REMOTE_ERROR => c"remote process exited or there was a network error",
        _ => c"unknown result code",
    };
    text.as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetUniqueId(id: *mut UniqueId) -> c_int {
    let Ok((listener, port)) = listen() else { return SYSTEM_ERROR };
    LISTENERS.lock().unwrap_or_else(PoisonError::into_inner).insert(port, listener);
    let mut bytes = [0; ID_BYTES];
    bytes[..2].copy_from_slice(&port.to_le_bytes());
    // SAFETY: the place is valid.
    unsafe { id.write(UniqueId(bytes)) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommInitRank(comm: *mut *mut Comm, workers: c_int, id: UniqueId, rank: c_int) -> c_int {
    let join = || {
        let (rank, workers) = (rank as usize, workers as usize);
        if rank >= workers {
            return Err(INVALID_ARGUMENT);
        }
        let (driver, mut event) = (driver()?, std::ptr::null_mut());
        // SAFETY: the place is valid, and the event is destroyed once. It needs a device.
        unsafe {
            cuda((driver.create_event)(&raw mut event, 0))?;
            cuda((driver.destroy_event)(event))?;
        }
        if fails("join") {
            return Err(SYSTEM_ERROR);
        }
        let port = u16::from_le_bytes([id.0[0], id.0[1]]);
        let listener = match rank {
            0 => LISTENERS.lock().unwrap_or_else(PoisonError::into_inner).remove(&port),
            _ => None,
        };
        if (rank == 0) != listener.is_some() {
            return Err(INVALID_ARGUMENT);
        }
        let mesh = Mesh::meet(rank, workers, port, listener).map_err(|e| of_io(&e))?;
        Ok(Box::into_raw(Box::new(Comm { mesh, rank, ended: AtomicBool::new(false) })))
    };
    match join() {
        Ok(made) => {
            // SAFETY: the place is valid.
            unsafe { comm.write(made) };
            0
        }
        Err(code) => code,
    }
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommDestroy(comm: *mut Comm) -> c_int {
    code(used(comm).map(|comm| comm.ended.store(true, SeqCst)))
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommAbort(comm: *mut Comm) -> c_int {
    code(used(comm).map(|comm| {
        comm.ended.store(true, SeqCst);
        comm.mesh.aborted.store(true, SeqCst);
    }))
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommGetAsyncError(comm: *mut Comm, error: *mut c_int) -> c_int {
    code(used(comm).map(|_| {
        // SAFETY: the place is valid.
        unsafe { error.write(0) }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn ncclGroupStart() -> c_int {
    GROUP.with_borrow_mut(|group| group.0 += 1);
    0
}

#[unsafe(no_mangle)]
extern "C" fn ncclGroupEnd() -> c_int {
    let pieces = GROUP.with_borrow_mut(|group| match group.0 {
        0 => Err(INVALID_USAGE),
        1 => {
            group.0 = 0;
            Ok(std::mem::take(&mut group.1))
        }
        _ => {
            group.0 -= 1;
            Ok(Vec::new())
        }
    });
    code(pieces.and_then(|pieces| run(&pieces)))
}

fn add(comm: *mut Comm, piece: impl FnOnce(&'static Comm) -> Piece, dtype: c_int) -> c_int {
    let piece = match used(comm) {
        Ok(comm) if dtype == BYTE => piece(comm),
        _ => return INVALID_ARGUMENT,
    };
    if piece.worker == piece.comm.rank {
        return INVALID_USAGE;
    }
    GROUP.with_borrow_mut(|group| group.1.push(piece));
    // By itself it is a group.
    ncclGroupStart();
    ncclGroupEnd()
}

#[unsafe(no_mangle)]
extern "C" fn ncclSend(
    at: *const c_void,
    bytes: usize,
    dtype: c_int,
    worker: c_int,
    comm: *mut Comm,
    stream: *mut c_void,
) -> c_int {
    let (at, worker, stream) = (at.addr() as u64, worker as usize, stream.expose_provenance());
    add(comm, |comm| Piece { comm, stream, worker, at, bytes, sends: true }, dtype)
}

#[unsafe(no_mangle)]
extern "C" fn ncclRecv(
    at: *mut c_void,
    bytes: usize,
    dtype: c_int,
    worker: c_int,
    comm: *mut Comm,
    stream: *mut c_void,
) -> c_int {
    let (at, worker, stream) = (at.addr() as u64, worker as usize, stream.expose_provenance());
    add(comm, |comm| Piece { comm, stream, worker, at, bytes, sends: false }, dtype)
}

/// Does all sends and receives of a group. NVIDIA's would give them to the stream and not wait;
/// what the stream was given before is done first there, too.
fn run(pieces: &[Piece]) -> Result<(), c_int> {
    let driver = driver()?;
    let stream_of = |p: &Piece| std::ptr::with_exposed_provenance_mut::<c_void>(p.stream);
    let mut held: Vec<Vec<u8>> = pieces.iter().map(|p| vec![0; p.bytes]).collect();
    for (p, bytes) in pieces.iter().zip(&mut held).filter(|(p, _)| p.sends) {
        // SAFETY: the caller's memory has as many bytes, and this is waited for.
        unsafe {
            cuda((driver.down)(bytes.as_mut_ptr().cast(), p.at, p.bytes, stream_of(p)))?;
            cuda((driver.wait)(stream_of(p)))?;
        }
    }
    let silent = fails("silent");
    let done: io::Result<()> = thread::scope(|s| {
        let mut workers: Vec<usize> = pieces.iter().map(|p| p.worker).collect();
        workers.sort_unstable();
        workers.dedup();
        // All that goes to one worker is in order; so is what comes from it.
        let mut threads = vec![];
        let (mut out, mut into) = (vec![], vec![]);
        for (p, bytes) in pieces.iter().zip(&mut held) {
            if p.sends { out.push((p, &*bytes)) } else { into.push((p, bytes)) }
        }
        for worker in workers {
            let mine: Vec<_> = out.iter().filter(|(p, _)| p.worker == worker).copied().collect();
            let mut theirs = vec![];
            for (p, bytes) in into.extract_if(.., |(p, _)| p.worker == worker) {
                theirs.push((p, bytes));
            }
            if !silent {
                threads.push(
                    s.spawn(move || mine.iter().try_for_each(|(p, bytes)| p.comm.mesh.send(worker, bytes))),
                );
            }
            threads.push(s.spawn(move || {
                theirs.into_iter().try_for_each(|(p, bytes)| p.comm.mesh.receive(worker, bytes))
            }));
        }
        let ended = threads.into_iter().map(|t| t.join().unwrap_or_else(|_| Err(ErrorKind::Other.into())));
        ended.collect::<Vec<_>>().into_iter().collect()
    });
    done.map_err(|e| of_io(&e))?;
    for (p, bytes) in pieces.iter().zip(&held).filter(|(p, _)| !p.sends) {
        // SAFETY: as above.
        unsafe {
            cuda((driver.up)(p.at, bytes.as_ptr().cast(), p.bytes, stream_of(p)))?;
            cuda((driver.wait)(stream_of(p)))?;
        }
    }
    Ok(())
}
