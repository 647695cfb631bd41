//! Modules: PTX, compiled and loaded.

#![allow(missing_docs, reason = "as for the driver's other functions")]
#![allow(clippy::missing_safety_doc, reason = "as above")]
#![allow(non_snake_case, reason = "as above")]

use super::api::{Handle, within};
use super::log::Log;
use crate::ptx::{Module, Refused, parse};
use crate::settings::{Settings, newest_ptx};
use emulated_gpu::device::Error;
use emulated_gpu::sys::functions::give;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

type Status = c_int;

/// Magic number of compiled modules.
const CUBIN: &[u8; 16] = b"emulated cubin\n\0";

/// Compiles a module from its text; on failure, the error and its message.
fn compile(text: &str) -> Result<Module, (Error, String)> {
    let settings = Settings::get();
    let word = settings.refuse;
    if !word.is_empty() && text.contains(word) {
        return Err((Error::INVALID_PTX, format!("ptxas fatal: texts with {word:?} are refused")));
    }
    let module = parse(text, settings.capability, newest_ptx(settings.version));
    let of_device = |mut m: Module| {
        m.program.backwards = settings.backwards;
        m
    };
    module.map(of_device).map_err(|why| {
        let error = match why {
            Refused::Text(_) | Refused::Target(_) => Error::INVALID_PTX,
            Refused::Version(_) => Error::UNSUPPORTED_PTX_VERSION,
        };
        (error, format!("ptxas fatal: {why}"))
    })
}

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
    within(|_| {
        // SAFETY: a state from `cuLinkCreate`, and as many bytes as the caller states.
        let (link, bytes) =
            unsafe { (state.cast::<Link>().as_mut(), std::slice::from_raw_parts(data.cast::<u8>(), size)) };
        let link = link.ok_or(Error::INVALID_HANDLE)?;
        // 1: PTX, whose end is a 0 that counts.
        let text = bytes.strip_suffix(&[0]).filter(|_| kind == 1).ok_or(Error::INVALID_VALUE)?;
        let text = std::str::from_utf8(text).map_err(|_| Error::INVALID_PTX)?;
        if !Settings::get().compiles {
            link.log.write("nothing is compiled");
            return Err(Error::INVALID_PTX);
        }
        let program = compile(text).map_err(|(error, why)| {
            link.log.write(&why);
            error
        })?;
        // Architecture-specific: 0x10000 and its number.
        let alone = Some(0x1_0000 + program.capability as usize);
        if program.alone && !Settings::get().guesses && link.log.target != alone {
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
        let program = compile(&text).map_err(|(error, why)| {
            log.write(&why);
            error
        })?;
        give(module, d.load(program.program) as Handle)
    })
}
