//! NVIDIA's compiler: modules of kernels from PTX, by the driver's linker.

use crate::streams::sys::{Module, Shared};
use elinvar_core::{Error, Result};
use elinvar_kernel::Kernel;
use elinvar_kernel::emit::ptx;
use std::ffi::{CString, c_int, c_void};
use std::sync::Arc;

/// Bytes for what the compiler has to say.
const LOG_BYTES: usize = 8 << 10;
// Numbers of `CUjit_option`, and of `CUjitInputType`.
const ERROR_LOG_BUFFER: c_int = 5;
const ERROR_LOG_BUFFER_SIZE_BYTES: c_int = 6;
const TARGET: c_int = 9;
const PTX: c_int = 1;
/// Of `CUjit_target`: sm_90a.
const COMPUTE_90A: usize = 0x1_0000 + 90;
/// Of `CUfunction_attribute`: bytes of shared memory that launches may ask for.
const MAX_DYNAMIC_SHARED_SIZE_BYTES: c_int = 8;

/// The module of a kernel, from its text: compiled, or as it was kept.
///
/// # Errors
/// `OutOfMemory`; `Unsupported` if the driver refuses it, with what its compiler says.
pub fn module(shared: &Arc<Shared>, kernel: &Kernel, text: &str) -> Result<Module> {
    let compiled = || {
        compile(shared, kernel, text, None).or_else(|e| {
            // Does a linker that takes its target from the device think of all that a device of
            // this capability has? What is written about it does not say, so if it refuses, it is
            // told.
            let told = kernel.features().tma.then_some(COMPUTE_90A).ok_or(e.clone())?;
            compile(shared, kernel, text, Some(told)).map_err(|_| e)
        })
    };
    let mut module = Module::new(shared, kernel, text, compiled)?;
    module.dynamic = ptx::dynamic_shared(kernel);
    if let (Some(t), true) = (&shared.api.nvidia, module.dynamic > 0) {
        // The device has so much: the requirements were looked at.
        let (f, bytes) = (module.function, module.dynamic as c_int);
        // SAFETY: the function was just found.
        let set = unsafe { (t.set_attribute)(f, MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes) };
        shared.api.check(set, || format!("{}: {bytes} bytes of shared memory", kernel.name))?;
    }
    Ok(module)
}

/// The driver's compiler's output for a text, and for a target that is not the device's as it is
/// known to the driver.
fn compile(shared: &Shared, kernel: &Kernel, text: &str, target: Option<usize>) -> Result<Vec<u8>> {
    let Some(t) = &shared.api.nvidia else { return Err(Error::unsupported("cuda: another driver")) };
    let text = CString::new(text).map_err(|_| Error::unsupported("cuda: a text has no zeros"))?;
    let text = text.as_bytes_with_nul();
    let mut log = vec![0u8; LOG_BYTES];
    let options = [ERROR_LOG_BUFFER, ERROR_LOG_BUFFER_SIZE_BYTES, TARGET];
    let number = std::ptr::without_provenance_mut;
    let values: [*mut c_void; 3] = [log.as_mut_ptr().cast(), number(LOG_BYTES), number(target.unwrap_or(0))];
    let (mut state, mut cubin, mut size) = (std::ptr::null_mut(), std::ptr::null_mut(), 0usize);
    // SAFETY: options, their values, the log and the text live as long as the state, which is
    // destroyed below; the places for results are valid. What the compiler made belongs to the
    // state, and is copied before.
    let made = unsafe {
        let count = if target.is_some() { 3 } else { 2 };
        let begun = (t.link_create)(count, options.as_ptr(), values.as_ptr(), &raw mut state);
        shared.api.check(begun, || kernel.name.clone())?;
        let (name, none) = (c"kernel.ptx".as_ptr(), std::ptr::null());
        let (data, len) = (text.as_ptr().cast(), text.len());
        let mut said = (t.link_add)(state, PTX, data, len, name, 0, none, std::ptr::null());
        if said == 0 {
            said = (t.link_complete)(state, &raw mut cubin, &raw mut size);
        }
        let made = match said {
            0 => Ok(std::slice::from_raw_parts(cubin.cast::<u8>().cast_const(), size).to_vec()),
            other => Err(other),
        };
        (t.link_destroy)(state);
        made
    };
    made.map_err(|status| {
        let said = String::from_utf8_lossy(&log);
        let said = said.trim_end_matches('\0').split('\0').next().unwrap_or("").trim().replace('\n', "; ");
        let refused = shared.api.check(status, || format!("{}: its compiler", kernel.name));
        match refused {
            Err(e) if said.is_empty() => e,
            Err(e) => Error::new(e.kind(), format!("{} ({said})", e.message())),
            Ok(()) => Error::unsupported(said),
        }
    })
}
