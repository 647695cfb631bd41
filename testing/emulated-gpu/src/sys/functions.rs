//! C functions of drivers with streams. Vendors give them other names, and the same arguments; an
//! address is a number of 64 bits or a pointer, which C passes alike.

use crate::device::{Device, Done, Error, Properties};
use crate::machine::{Launch, tensor};
use crate::program::Program;
use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// The state behind a library's functions: the one device; several indices may name it.
#[allow(missing_debug_implementations, reason = "a device has nothing to show")]
pub struct Driver {
    device: Mutex<Option<Device>>,
    initialized: AtomicBool,
    properties: fn() -> Properties,
}

impl Driver {
    /// Before it was initialised.
    pub const fn new(properties: fn() -> Properties) -> Driver {
        Driver { device: Mutex::new(None), initialized: AtomicBool::new(false), properties }
    }
    /// Initialises it.
    pub fn start(&self) {
        self.initialized.store(true, Relaxed);
    }
    /// Calls a function, if it was initialised.
    pub fn with(&self, f: impl FnOnce(&mut Device) -> Done) -> c_int {
        if !self.initialized.load(Relaxed) {
            return Error::NOT_INITIALIZED.0;
        }
        let mut device = self.device.lock().unwrap_or_else(PoisonError::into_inner);
        status(f(device.get_or_insert_with(|| Device::new((self.properties)()))))
    }
}

/// A result as a number.
pub fn status(r: Done) -> c_int {
    r.map_or_else(|e| e.0, |()| 0)
}

/// Writes a result. The caller of a C function guarantees that there is room for it.
///
/// # Errors
/// Without a place for it.
#[allow(clippy::not_unsafe_ptr_arg_deref, reason = "every caller passes on a place for a result from C")]
pub fn give<T>(to: *mut T, v: T) -> Done {
    if to.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: a C function's caller passes places for results that are null or valid.
    unsafe { to.write(v) };
    Ok(())
}

/// Writes a text with its end.
///
/// # Errors
/// Without room for it.
///
/// # Safety
/// There is room for `len` characters.
pub unsafe fn give_text(to: *mut c_char, len: usize, text: &str) -> Done {
    if text.len() >= len || to.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    for (i, b) in text.bytes().chain([0]).enumerate() {
        // SAFETY: the text with its end is shorter than `len`.
        unsafe { to.add(i).write(b as c_char) };
    }
    Ok(())
}

/// A launch of a program, from one pointer for each parameter.
///
/// # Errors
/// If the sizes are not the program's, or the parameters are packed: a driver aligns offsets in a
/// packed block to the block's own address, so some of them are not aligned in it.
///
/// # Safety
/// There are as many pointers as parameters, each to as many bytes as its parameter has.
pub unsafe fn launch(
    program: &Program,
    [groups, threads]: [[u32; 3]; 2],
    dynamic: u32,
    params: *const *const u8,
    packed: bool,
) -> Done<Launch> {
    let fits = groups.iter().all(|&n| n > 0) && groups[1] <= 65535 && groups[2] <= 65535;
    let mut block = vec![0; program.param_bytes];
    if !fits || program.group != threads || packed || (params.is_null() && !block.is_empty()) {
        return Err(Error::INVALID_VALUE);
    }
    let blobs = (0..program.blobs).map(|i| (i * tensor::BYTES, tensor::BYTES));
    let places = blobs.chain(program.params.iter().map(|p| (p.offset, p.size)));
    for (i, (offset, size)) in places.enumerate() {
        // SAFETY: the caller's promise.
        unsafe { block[offset..][..size].as_mut_ptr().copy_from_nonoverlapping(*params.add(i), size) };
    }
    Ok(Launch { groups, dynamic, params: block })
}

/// The functions whose arguments vendors agree on: each by its name with one of them. The first
/// argument calls a closure with the device of this thread's context.
#[macro_export]
macro_rules! driver_functions {
    (
        $within:path;
        streams: $create_stream:ident $destroy_stream:ident $finish_stream:ident;
        events: $create_event:ident $destroy_event:ident $record:ident $query:ident $finish_event:ident
            $await_event:ident $elapsed:ident;
        graphs: $begin_capture:ident $end_capture:ident $instantiate:ident $launch_graph:ident
            $destroy_graph:ident $destroy_ready:ident;
        memory: $allocate:ident $free:ident $allocate_async:ident $free_async:ident $pin:ident $unpin:ident;
        copies: $up:ident $down:ident $across:ident;
        modules: $unload:ident $function:ident $launch:ident;
        pools: $pools:expr;
    ) => {
        use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
        use $crate::device::{Error, Operation, Work};
        use $crate::sys::functions::{give, launch};
        use $crate::sys::raw::HostBytes;

        type Status = c_int;
        pub(super) type Handle = *mut c_void;

        #[unsafe(no_mangle)]
        pub extern "C" fn $create_stream(stream: *mut Handle, _flags: c_uint) -> Status {
            $within(|d| give(stream, d.stream() as Handle))
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $destroy_stream(stream: Handle) -> Status {
            $within(|d| d.end_stream(stream as u64))
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $finish_stream(stream: Handle) -> Status {
            $within(|d| d.finish(stream as u64))
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $create_event(event: *mut Handle, _flags: c_uint) -> Status {
            $within(|d| give(event, d.event() as Handle))
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $destroy_event(event: Handle) -> Status {
            $within(|d| d.end_event(event as u64))
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $record(event: Handle, stream: Handle) -> Status {
            $within(|d| d.push(stream as u64, Operation::Record(event as u64)))
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $query(event: Handle) -> Status {
            $within(|d| if d.passed(event as u64)? { Ok(()) } else { Err(Error::NOT_READY) })
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $finish_event(event: Handle) -> Status {
            $within(|d| d.wait(event as u64))
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $await_event(stream: Handle, event: Handle, flags: c_uint) -> Status {
            $within(|d| match flags {
                0 => d.push(stream as u64, Operation::Await(event as u64)),
                _ => Err(Error::INVALID_VALUE),
            })
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $elapsed(milliseconds: *mut f32, from: Handle, to: Handle) -> Status {
            $within(|d| give(milliseconds, d.elapsed(from as u64, to as u64)?))
        }

        #[unsafe(no_mangle)]
        pub extern "C" fn $begin_capture(stream: Handle, mode: c_uint) -> Status {
            // The three modes differ in what other threads may do during a capture; here all is
            // allowed.
            $within(|d| if mode > 2 { Err(Error::INVALID_VALUE) } else { d.begin_capture(stream as u64) })
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $end_capture(stream: Handle, graph: *mut Handle) -> Status {
            $within(|d| give(graph, d.end_capture(stream as u64)? as Handle))
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $instantiate(ready: *mut Handle, graph: Handle, flags: u64) -> Status {
            $within(|d| match flags {
                0 => give(ready, d.instantiate(graph as u64)? as Handle),
                _ => Err(Error::INVALID_VALUE),
            })
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $launch_graph(ready: Handle, stream: Handle) -> Status {
            $within(|d| d.launch_graph(ready as u64, stream as u64))
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $destroy_graph(graph: Handle) -> Status {
            $within(|d| d.end_graph(graph as u64, false))
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $destroy_ready(ready: Handle) -> Status {
            $within(|d| d.end_graph(ready as u64, true))
        }

        #[unsafe(no_mangle)]
        pub extern "C" fn $allocate(at: *mut u64, bytes: usize) -> Status {
            $within(|d| give(at, d.allocate(bytes as u64)?))
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $free(at: u64) -> Status {
            $within(|d| {
                d.finish_all()?;
                d.release(at)
            })
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $allocate_async(at: *mut u64, bytes: usize, _stream: Handle) -> Status {
            $within(|d| match $pools {
                true => give(at, d.allocate(bytes as u64)?),
                false => Err(Error::NOT_SUPPORTED),
            })
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $free_async(at: u64, stream: Handle) -> Status {
            $within(|d| d.push(stream as u64, Operation::Free(at)))
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $pin(at: *mut Handle, bytes: usize, _flags: c_uint) -> Status {
            $within(|d| give(at, d.pin(bytes)?))
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $unpin(at: Handle) -> Status {
            $within(|d| d.unpin(at as usize))
        }
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $up(to: u64, from: *const c_void, bytes: usize, s: Handle) -> Status {
            // SAFETY: the caller keeps the bytes until the stream has done this.
            let host = unsafe { HostBytes::new(from.cast_mut(), bytes) };
            $within(|d| d.push(s as u64, Operation::Up(host, to)))
        }
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $down(to: *mut c_void, from: u64, bytes: usize, s: Handle) -> Status {
            // SAFETY: as above.
            let host = unsafe { HostBytes::new(to, bytes) };
            $within(|d| d.push(s as u64, Operation::Down(from, host)))
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $across(to: u64, from: u64, bytes: usize, s: Handle) -> Status {
            $within(|d| d.push(s as u64, Operation::Work(Work::Across { from, to, bytes: bytes as u64 })))
        }

        #[unsafe(no_mangle)]
        pub extern "C" fn $unload(module: Handle) -> Status {
            $within(|d| d.unload(module as u64))
        }
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $function(to: *mut Handle, module: Handle, name: *const c_char) -> Status {
            $within(|d| {
                // SAFETY: a text that ends with 0.
                let name = unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| Error::NOT_FOUND)?;
                give(to, d.entry(module as u64, name)? as Handle)
            })
        }
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $launch(
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
            $within(|d| {
                let program = d.program(function as u64)?.clone();
                let sizes = [[groups_x, groups_y, groups_z], [threads_x, threads_y, threads_z]];
                d.may_share(function as u64, shared)?;
                // SAFETY: one pointer for each parameter, to as many bytes as it has.
                let launch = unsafe { launch(&program, sizes, shared, params.cast(), !extra.is_null())? };
                d.push(stream as u64, Operation::Work(Work::Launch(program, launch)))
            })
        }
    };
}
