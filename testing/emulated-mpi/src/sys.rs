//! The functions of the library, as C callers see them.
//!
//! Callers guarantee the pointers, as the MPI standard requires: pointers to results are valid,
//! buffers have as many bytes as they say. That is the argument for every `unsafe` block here that
//! has no other.

#![allow(unsafe_code, reason = "a C library")]
#![allow(non_snake_case, reason = "the names are MPI's")]

use crate::memory::Staged;
use crate::real::{Real, Status, real};
use emulated_gpu::machine::Memory;
use std::collections::HashMap;
use std::env;
use std::ffi::{c_char, c_int, c_void};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// The code of its own errors, which no library has, and `MPI_REQUEST_NULL`.
const OWN: c_int = 0x7ffe;
const NULL_REQUEST: c_int = 0x2c00_0000;
/// The shortest room for a text: `MPI_MAX_LIBRARY_VERSION_STRING` is 256, Open MPI's.
const TEXT: usize = 256;

/// A message under way. Open MPI's request, if it was given one, and memory of the device.
struct Request {
    real: Option<usize>,
    staged: Option<Staged>,
}

#[derive(Default)]
struct State {
    requests: HashMap<c_int, Request>,
    last: c_int,
    /// Why the last call has failed.
    why: String,
}

static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is(word: &str) -> bool {
    env::var("ELINVAR_EMULATED_MPI").is_ok_and(|text| text == word)
}

fn own(why: String) -> c_int {
    state().why = why;
    OWN
}

fn with(f: impl FnOnce(&'static Real) -> c_int) -> c_int {
    real().map_or_else(|| own("there is no libmpi.so.40".into()), f)
}

/// The address of device memory.
fn of_device(at: *const c_void) -> Option<u64> {
    let at = at.expose_provenance() as u64;
    Memory::is_address(at).then_some(at)
}

/// Writes a text as MPI does.
fn give(to: *mut c_char, length: *mut c_int, text: &str) -> c_int {
    let end = text.len().min(TEXT - 1);
    for (i, byte) in text.bytes().take(end).chain([0]).enumerate() {
        // SAFETY: shorter than any text of MPI.
        unsafe { to.add(i).write(byte as c_char) };
    }
    // SAFETY: the place is valid.
    unsafe { length.write(end as c_int) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn MPIX_GPU_query_support(kind: c_int, is_supported: *mut c_int) -> c_int {
    // CUDA is 0.
    // SAFETY: the caller's place.
    unsafe { is_supported.write(c_int::from(kind == 0 && !is("unaware"))) };
    0
}
#[unsafe(no_mangle)]
extern "C" fn MPI_Get_library_version(to: *mut c_char, length: *mut c_int) -> c_int {
    give(to, length, "emulated MPI")
}
#[unsafe(no_mangle)]
extern "C" fn MPI_Error_string(code: c_int, to: *mut c_char, length: *mut c_int) -> c_int {
    match code {
        OWN => give(to, length, &format!("emulated MPI: {}", state().why)),
        // SAFETY: the caller's places.
        code => with(|real| unsafe { (real.functions.error_string)(code, to, length) }),
    }
}
#[unsafe(no_mangle)]
extern "C" fn MPI_Initialized(flag: *mut c_int) -> c_int {
    // SAFETY: the caller's place.
    with(|real| unsafe { (real.functions.initialized)(flag) })
}
#[unsafe(no_mangle)]
extern "C" fn MPI_Init_thread(
    argc: *mut c_int,
    argv: *mut c_void,
    required: c_int,
    provided: *mut c_int,
) -> c_int {
    // SAFETY: the caller's places. The levels have the same numbers in MPICH and Open MPI.
    with(|real| unsafe { (real.functions.init)(argc, argv, required, provided) })
}
#[unsafe(no_mangle)]
extern "C" fn MPI_Finalize() -> c_int {
    // SAFETY: no arguments.
    with(|real| unsafe { (real.functions.finalize)() })
}
#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_set_errhandler(comm: usize, handler: usize) -> c_int {
    // SAFETY: handles of the library, as in all of these.
    with(|real| unsafe { (real.functions.set_handler)(real.handle(comm), real.handle(handler)) })
}
#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_rank(comm: usize, rank: *mut c_int) -> c_int {
    // SAFETY: see above.
    with(|real| unsafe { (real.functions.rank)(real.handle(comm), rank) })
}
#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_size(comm: usize, size: *mut c_int) -> c_int {
    // SAFETY: see above.
    with(|real| unsafe { (real.functions.size)(real.handle(comm), size) })
}
#[unsafe(no_mangle)]
extern "C" fn MPI_Iprobe(
    from: c_int,
    tag: c_int,
    comm: usize,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
    // SAFETY: see above.
    with(|real| unsafe { (real.functions.iprobe)(from, tag, real.handle(comm), flag, status) })
}
#[unsafe(no_mangle)]
extern "C" fn MPI_Get_count(status: *const Status, dtype: usize, count: *mut c_int) -> c_int {
    // SAFETY: see above.
    with(|real| unsafe { (real.functions.get_count)(status, real.handle(dtype), count) })
}
#[unsafe(no_mangle)]
extern "C" fn MPI_Allreduce(
    from: *const c_void,
    to: *mut c_void,
    count: c_int,
    dtype: usize,
    op: usize,
    comm: usize,
) -> c_int {
    // SAFETY: see above.
    with(|real| unsafe {
        let [dtype, op, comm] = [dtype, op, comm].map(|handle| real.handle(handle));
        (real.functions.allreduce)(from, to, count, dtype, op, comm)
    })
}
#[unsafe(no_mangle)]
extern "C" fn MPI_Recv(
    to: *mut c_void,
    count: c_int,
    dtype: usize,
    from: c_int,
    tag: c_int,
    comm: usize,
    status: *mut Status,
) -> c_int {
    if of_device(to).is_some() {
        return own("MPI_Recv into device memory, which the project does not do".into());
    }
    // SAFETY: see above.
    with(|real| unsafe {
        (real.functions.recv)(to, count, real.handle(dtype), from, tag, real.handle(comm), status)
    })
}

/// Begins a message by `begin`, which is told Open MPI's memory and where its request belongs.
fn begun(
    staged: Result<Option<Staged>, String>,
    at: *mut c_void,
    request: *mut c_int,
    begin: impl FnOnce(*mut c_void, *mut usize) -> c_int,
) -> c_int {
    let mut staged = match staged {
        Ok(staged) => staged,
        Err(why) => return own(why),
    };
    let mut theirs = 0;
    let code = begin(staged.as_mut().map_or(at, |staged| staged.bytes.as_mut_ptr().cast()), &raw mut theirs);
    if code != 0 {
        return code;
    }
    let mut state = state();
    state.last += 1;
    let number = state.last;
    state.requests.insert(number, Request { real: (theirs != 0).then_some(theirs), staged });
    // SAFETY: the place is valid.
    unsafe { request.write(number) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Isend(
    from: *const c_void,
    count: c_int,
    dtype: usize,
    to: c_int,
    tag: c_int,
    comm: usize,
    request: *mut c_int,
) -> c_int {
    with(|real| {
        let staged = of_device(from).map(|at| Staged::to_send(at, count as usize)).transpose();
        let is_of_device = of_device(from).is_some();
        begun(staged, from.cast_mut(), request, |from, request| {
            if is_of_device && is("silent") {
                return 0;
            }
            let count = if is_of_device && is("short") { count - 1 } else { count };
            let (dtype, comm) = (real.handle(dtype), real.handle(comm));
            // SAFETY: the bytes are the caller's, or staged ones, which stay until the message is
            // done.
            unsafe { (real.functions.isend)(from, count, dtype, to, tag, comm, request) }
        })
    })
}
#[unsafe(no_mangle)]
extern "C" fn MPI_Irecv(
    to: *mut c_void,
    count: c_int,
    dtype: usize,
    from: c_int,
    tag: c_int,
    comm: usize,
    request: *mut c_int,
) -> c_int {
    with(|real| {
        let staged = of_device(to).map(|at| Staged::to_receive(at, count as usize)).transpose();
        begun(staged, to, request, |to, request| {
            let (dtype, comm) = (real.handle(dtype), real.handle(comm));
            // SAFETY: as above.
            unsafe { (real.functions.irecv)(to, count, dtype, from, tag, comm, request) }
        })
    })
}
#[unsafe(no_mangle)]
extern "C" fn MPI_Test(request: *mut c_int, flag: *mut c_int, status: *mut Status) -> c_int {
    with(|real| {
        // SAFETY: the place is valid.
        let number = unsafe { request.read() };
        let Some(mut message) = state().requests.remove(&number) else {
            return own(format!("MPI_Test of request {number}, which there is not"));
        };
        // SAFETY: the places are valid; the request is one that Open MPI has given.
        let code = unsafe {
            flag.write(0);
            match &mut message.real {
                Some(theirs) => (real.functions.test)(&raw mut *theirs, flag, status),
                None => 0,
            }
        };
        // SAFETY: it was written above.
        if code != 0 || unsafe { flag.read() } == 0 {
            state().requests.insert(number, message);
            return code;
        }
        // SAFETY: the place is valid.
        unsafe { request.write(NULL_REQUEST) };
        message.staged.map_or(Ok(()), |staged| staged.finish()).map_or_else(own, |()| 0)
    })
}
