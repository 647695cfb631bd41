//! The functions of the driver's library, as C callers see them.
//!
//! Callers guarantee the pointers, as NVIDIA's manual requires: pointers to results are valid,
//! strings end with 0, arrays have the stated number of elements. That is the argument for every
//! `unsafe` block here that has no other.

#![allow(
    missing_docs,
    reason = "the names and arguments are NVIDIA's, who describes them in the driver API's manual"
)]
#![allow(clippy::missing_safety_doc, reason = "as above")]
#![allow(non_snake_case, reason = "as above")]

use super::log::Log;
use super::raw::HostBytes;
use crate::device::{Device, Error, MOST_SHARED, Operation, Work};
use crate::machine::{Launch, tensor};
use crate::settings::Settings;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

type Status = c_int;
pub(super) type Handle = *mut c_void;

/// The one device; several indices may name it.
static DEVICE: Mutex<Option<Device>> = Mutex::new(None);
static INITIALIZED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The context of this thread: 0 or the index of a device, plus 1.
    static CONTEXT: Cell<usize> = const { Cell::new(0) };
}

/// Magic number of compiled modules.
const CUBIN: &[u8; 16] = b"emulated cubin\n\0";

fn status(r: Result<(), Error>) -> Status {
    r.map_or_else(|e| e.0, |()| 0)
}
/// Requires `cuInit`.
fn initialized(f: impl FnOnce(&mut Device) -> Result<(), Error>) -> Status {
    if !INITIALIZED.load(Relaxed) {
        return Error::NOT_INITIALIZED.0;
    }
    let mut device = DEVICE.lock().unwrap_or_else(PoisonError::into_inner);
    status(f(device.get_or_insert_with(|| Device::new(*Settings::get()))))
}
/// Requires a context, and a device without a sticky error.
pub(super) fn within(f: impl FnOnce(&mut Device) -> Result<(), Error>) -> Status {
    if CONTEXT.get() == 0 {
        return Error::INVALID_CONTEXT.0;
    }
    initialized(|d| {
        d.check()?;
        f(d)
    })
}
/// Writes a result.
fn give<T>(to: *mut T, v: T) -> Result<(), Error> {
    if to.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: see above.
    unsafe { to.write(v) };
    Ok(())
}

/// Is the device only emulated? 1 unless it passes as a discrete GPU.
#[unsafe(no_mangle)]
pub extern "C" fn elinvar_emulated_cuda() -> c_int {
    c_int::from(Settings::get().software)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(flags: c_uint) -> Status {
    if flags != 0 {
        return Error::INVALID_VALUE.0;
    }
    if Settings::get().devices == 0 {
        return Error::NO_DEVICE.0;
    }
    INITIALIZED.store(true, Relaxed);
    0
}
#[unsafe(no_mangle)]
pub extern "C" fn cuDriverGetVersion(version: *mut c_int) -> Status {
    status(give(version, Settings::get().version))
}
#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetCount(count: *mut c_int) -> Status {
    initialized(|d| give(count, d.settings().devices))
}
fn known(d: &Device, number: c_int) -> Result<(), Error> {
    if (0..d.settings().devices).contains(&number) { Ok(()) } else { Err(Error::INVALID_DEVICE) }
}
#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> Status {
    initialized(|d| {
        known(d, ordinal)?;
        give(device, ordinal)
    })
}
#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int) -> Status {
    initialized(|d| {
        known(d, device)?;
        let text = format!("emulated sm_{}", d.settings().capability);
        let room = usize::try_from(len).unwrap_or(0);
        if text.len() >= room || name.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        for (i, b) in text.bytes().chain([0]).enumerate() {
            // SAFETY: the caller has `len` bytes there, and the text with its end is shorter.
            unsafe { name.add(i).write(b as c_char) };
        }
        Ok(())
    })
}
#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) -> Status {
    initialized(|d| {
        known(d, device)?;
        give(bytes, d.settings().memory as usize)
    })
}
#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) -> Status {
    initialized(|d| {
        known(d, device)?;
        let capability = d.settings().capability as c_int;
        give(
            value,
            match attribute {
                // Threads of a workgroup; its sides; the sides of a grid.
                1..=3 => 1024,
                4 => 64,
                5 => i32::MAX,
                6 | 7 => 65535,
                // Shared memory of a workgroup; lanes of a warp.
                8 => MOST_SHARED as c_int,
                97 => d.settings().shared() as c_int,
                10 => 32,
                // Multiprocessors: an H100's, so that tiles are chosen as for one.
                16 => 132,
                // Part of the processor; unified addresses.
                18 => 0,
                41 => 1,
                75 => capability / 10,
                76 => capability % 10,
                115 => c_int::from(d.settings().pools),
                _ => return Err(Error::INVALID_VALUE),
            },
        )
    })
}
#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) -> Status {
    initialized(|d| {
        known(d, device)?;
        give(context, (device as usize + 1) as Handle)
    })
}
#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> Status {
    initialized(|d| known(d, device))
}
#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(context: Handle) -> Status {
    initialized(|d| {
        if context as usize > d.settings().devices as usize {
            return Err(Error::INVALID_CONTEXT);
        }
        CONTEXT.set(context as usize);
        Ok(())
    })
}
#[unsafe(no_mangle)]
pub extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> Status {
    within(|d| {
        give(free, d.free_bytes() as usize)?;
        give(total, d.settings().memory as usize)
    })
}

// Streams and events

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamCreate(stream: *mut Handle, _flags: c_uint) -> Status {
    within(|d| give(stream, d.stream() as Handle))
}
#[unsafe(no_mangle)]
pub extern "C" fn cuStreamDestroy_v2(stream: Handle) -> Status {
    within(|d| d.end_stream(stream as u64))
}
#[unsafe(no_mangle)]
pub extern "C" fn cuStreamSynchronize(stream: Handle) -> Status {
    within(|d| d.finish(stream as u64))
}
#[unsafe(no_mangle)]
pub extern "C" fn cuEventCreate(event: *mut Handle, _flags: c_uint) -> Status {
    within(|d| give(event, d.event() as Handle))
}
#[unsafe(no_mangle)]
pub extern "C" fn cuEventDestroy_v2(event: Handle) -> Status {
    within(|d| d.end_event(event as u64))
}
#[unsafe(no_mangle)]
pub extern "C" fn cuEventRecord(event: Handle, stream: Handle) -> Status {
    within(|d| d.push(stream as u64, Operation::Record(event as u64)))
}
#[unsafe(no_mangle)]
pub extern "C" fn cuEventQuery(event: Handle) -> Status {
    within(|d| if d.passed(event as u64)? { Ok(()) } else { Err(Error::NOT_READY) })
}
#[unsafe(no_mangle)]
pub extern "C" fn cuEventSynchronize(event: Handle) -> Status {
    within(|d| d.wait(event as u64))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint) -> Status {
    within(|d| {
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        d.push(stream as u64, Operation::Await(event as u64))
    })
}
#[unsafe(no_mangle)]
pub extern "C" fn cuEventElapsedTime(milliseconds: *mut f32, from: Handle, to: Handle) -> Status {
    within(|d| give(milliseconds, d.elapsed(from as u64, to as u64)?))
}

// Graphs

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamBeginCapture_v2(stream: Handle, mode: c_uint) -> Status {
    // The three modes differ in what other threads may do during a capture; here all is allowed.
    within(|d| if mode > 2 { Err(Error::INVALID_VALUE) } else { d.begin_capture(stream as u64) })
}
#[unsafe(no_mangle)]
pub extern "C" fn cuStreamEndCapture(stream: Handle, graph: *mut Handle) -> Status {
    within(|d| give(graph, d.end_capture(stream as u64)? as Handle))
}
#[unsafe(no_mangle)]
pub extern "C" fn cuGraphInstantiateWithFlags(ready: *mut Handle, graph: Handle, flags: u64) -> Status {
    within(|d| {
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        give(ready, d.instantiate(graph as u64)? as Handle)
    })
}
#[unsafe(no_mangle)]
pub extern "C" fn cuGraphLaunch(ready: Handle, stream: Handle) -> Status {
    within(|d| d.launch_graph(ready as u64, stream as u64))
}
#[unsafe(no_mangle)]
pub extern "C" fn cuGraphDestroy(graph: Handle) -> Status {
    within(|d| d.end_graph(graph as u64, false))
}
#[unsafe(no_mangle)]
pub extern "C" fn cuGraphExecDestroy(ready: Handle) -> Status {
    within(|d| d.end_graph(ready as u64, true))
}

// Memory

#[unsafe(no_mangle)]
pub extern "C" fn cuMemAlloc_v2(at: *mut u64, bytes: usize) -> Status {
    within(|d| give(at, d.allocate(bytes as u64)?))
}
#[unsafe(no_mangle)]
pub extern "C" fn cuMemFree_v2(at: u64) -> Status {
    within(|d| {
        d.finish_all()?;
        d.release(at)
    })
}
#[unsafe(no_mangle)]
pub extern "C" fn cuMemAllocAsync(at: *mut u64, bytes: usize, _stream: Handle) -> Status {
    within(|d| {
        if !d.settings().pools {
            return Err(Error::NOT_SUPPORTED);
        }
        give(at, d.allocate(bytes as u64)?)
    })
}
#[unsafe(no_mangle)]
pub extern "C" fn cuMemFreeAsync(at: u64, stream: Handle) -> Status {
    within(|d| d.push(stream as u64, Operation::Free(at)))
}
#[unsafe(no_mangle)]
pub extern "C" fn cuMemHostAlloc(at: *mut Handle, bytes: usize, _flags: c_uint) -> Status {
    within(|d| give(at, d.pin(bytes)?))
}
#[unsafe(no_mangle)]
pub extern "C" fn cuMemFreeHost(at: Handle) -> Status {
    within(|d| d.unpin(at as usize))
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    to: u64,
    from: *const c_void,
    bytes: usize,
    s: Handle,
) -> Status {
    // SAFETY: the caller keeps the bytes until the stream has done this.
    let host = unsafe { HostBytes::new(from.cast_mut(), bytes) };
    within(|d| d.push(s as u64, Operation::Up(host, to)))
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, s: Handle) -> Status {
    // SAFETY: as above.
    let host = unsafe { HostBytes::new(to, bytes) };
    within(|d| d.push(s as u64, Operation::Down(from, host)))
}
#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, s: Handle) -> Status {
    within(|d| d.push(s as u64, Operation::Work(Work::Across { from, to, bytes: bytes as u64 })))
}

/// All devices share one memory here.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyPeerAsync(
    to: u64,
    to_context: Handle,
    from: u64,
    from_context: Handle,
    bytes: usize,
    s: Handle,
) -> Status {
    within(|d| {
        let contexts = 1..=d.settings().devices as usize;
        if ![to_context, from_context].iter().all(|&c| contexts.contains(&(c as usize))) {
            return Err(Error::INVALID_CONTEXT);
        }
        d.push(s as u64, Operation::Work(Work::Across { from, to, bytes: bytes as u64 }))
    })
}

// Modules

/// A module that is being linked.
struct Link {
    log: Log,
    cubin: Vec<u8>,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLinkCreate_v2(
    count: c_uint,
    options: *const c_int,
    values: *const Handle,
    state: *mut Handle,
) -> Status {
    within(|_| {
        // SAFETY: see above.
        let log = unsafe { Log::of(count, options, values) };
        give(state, Box::into_raw(Box::new(Link { log, cubin: Vec::new() })).cast())
    })
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLinkAddData_v2(
    state: Handle,
    kind: c_int,
    data: *const c_void,
    size: usize,
    _name: *const c_char,
    _count: c_uint,
    _options: *const c_int,
    _values: *const Handle,
) -> Status {
    within(|d| {
        // SAFETY: a state from `cuLinkCreate`, and as many bytes as the caller states.
        let (link, bytes) =
            unsafe { (state.cast::<Link>().as_mut(), std::slice::from_raw_parts(data.cast::<u8>(), size)) };
        let link = link.ok_or(Error::INVALID_HANDLE)?;
        // 1: PTX, whose end is a 0 that counts.
        let text = bytes.strip_suffix(&[0]).filter(|_| kind == 1).ok_or(Error::INVALID_VALUE)?;
        let text = std::str::from_utf8(text).map_err(|_| Error::INVALID_PTX)?;
        if !d.settings().compiles {
            link.log.write("nothing is compiled");
            return Err(Error::INVALID_PTX);
        }
        let program = d.compile(text).map_err(|(error, why)| {
            link.log.write(&why);
            error
        })?;
        // Architecture-specific: 0x10000 and its number.
        let alone = Some(0x1_0000 + program.capability as usize);
        if program.alone && !d.settings().guesses && link.log.target != alone {
            link.log
                .write("ptxas fatal: a target of one capability alone cannot be compiled for the device's");
            return Err(Error::INVALID_PTX);
        }
        link.cubin = [CUBIN, &(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
        Ok(())
    })
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLinkComplete(state: Handle, cubin: *mut Handle, size: *mut usize) -> Status {
    within(|_| {
        // SAFETY: as above.
        let link = unsafe { state.cast::<Link>().as_mut() }.ok_or(Error::INVALID_HANDLE)?;
        give(cubin, link.cubin.as_mut_ptr().cast())?;
        give(size, link.cubin.len())
    })
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLinkDestroy(state: Handle) -> Status {
    if !state.is_null() {
        // SAFETY: a state from `cuLinkCreate`; the caller does not use it again.
        drop(unsafe { Box::from_raw(state.cast::<Link>()) });
    }
    0
}

/// The text of a module image: a compiled one, or PTX.
///
/// # Safety
/// It is one of both.
unsafe fn text_of(image: *const c_void) -> Result<String, Error> {
    let bytes = image.cast::<u8>();
    // SAFETY: a text is compared up to its terminating 0; a compiled module is longer than its
    // magic number.
    let compiled = unsafe { CUBIN.iter().enumerate().all(|(i, b)| bytes.add(i).read() == *b) };
    let text = if compiled {
        // SAFETY: the magic number is followed by the length of the text, and the text.
        unsafe {
            let len = bytes.add(CUBIN.len()).cast::<u64>().read_unaligned();
            std::slice::from_raw_parts(bytes.add(CUBIN.len() + 8), len as usize).to_vec()
        }
    } else {
        // SAFETY: a text ends with 0.
        unsafe { CStr::from_ptr(image.cast()) }.to_bytes().to_vec()
    };
    String::from_utf8(text).map_err(|_| Error::INVALID_IMAGE)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut Handle,
    image: *const c_void,
    count: c_uint,
    options: *const c_int,
    values: *const Handle,
) -> Status {
    within(|d| {
        if image.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: see above.
        let (log, text) = unsafe { (Log::of(count, options, values), text_of(image)?) };
        if !text.contains(".version") {
            return Err(Error::INVALID_IMAGE);
        }
        let program = d.compile(&text).map_err(|(error, why)| {
            log.write(&why);
            error
        })?;
        give(module, d.load(program) as Handle)
    })
}
#[unsafe(no_mangle)]
pub extern "C" fn cuModuleUnload(module: Handle) -> Status {
    within(|d| d.unload(module as u64))
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(to: *mut Handle, module: Handle, name: *const c_char) -> Status {
    within(|d| {
        // SAFETY: a text that ends with 0.
        let name = unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| Error::NOT_FOUND)?;
        give(to, d.entry(module as u64, name)? as Handle)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFuncSetAttribute(function: Handle, attribute: c_int, value: c_int) -> Status {
    within(|d| {
        let bytes = u32::try_from(value).map_err(|_| Error::INVALID_VALUE)?;
        match attribute {
            // Bytes of dynamic shared memory.
            8 => d.allow_shared(function as u64, bytes),
            _ => Err(Error::INVALID_VALUE),
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernel(
    function: Handle,
    groups_x: c_uint,
    groups_y: c_uint,
    groups_z: c_uint,
    threads_x: c_uint,
    threads_y: c_uint,
    threads_z: c_uint,
    shared: c_uint,
    stream: Handle,
    params: *mut Handle,
    extra: *mut Handle,
) -> Status {
    within(|d| {
        let program = d.program(function as u64)?.clone();
        let groups = [groups_x, groups_y, groups_z];
        let fits = groups.iter().all(|&n| n > 0) && groups_y <= 65535 && groups_z <= 65535;
        if !fits || program.group != [threads_x, threads_y, threads_z] {
            return Err(Error::INVALID_VALUE);
        }
        d.may_share(function as u64, shared)?;
        let mut block = vec![0; program.param_bytes];
        // A packed argument buffer is refused: a real driver aligns its offsets to the address of
        // the buffer, so parameters with an alignment of 64 are not aligned in it.
        if !extra.is_null() || (params.is_null() && !block.is_empty()) {
            return Err(Error::INVALID_VALUE);
        }
        let blobs = (0..program.blobs).map(|i| (i * tensor::BYTES, tensor::BYTES));
        let places = blobs.chain(program.params.iter().map(|p| (p.offset, p.size)));
        for (i, (offset, size)) in places.enumerate() {
            // SAFETY: one pointer for each parameter, to as many bytes as it has.
            unsafe {
                let from = (*params.add(i)).cast::<u8>();
                block[offset..][..size].as_mut_ptr().copy_from_nonoverlapping(from, size);
            }
        }
        let launch = Launch { groups, dynamic: shared, params: block };
        d.push(stream as u64, Operation::Work(Work::Launch(program, launch)))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGetErrorName(error: c_int, text: *mut *const c_char) -> Status {
    match Error(error).name() {
        Some(name) => status(give(text, name.as_ptr())),
        None => Error::INVALID_VALUE.0,
    }
}
