//! Modules: kernels, compiled.

use super::device::Shared;
use super::functions::Handle;
use super::kernel_cache;
use elinvar_core::Result;
use elinvar_kernel::Kernel;
use elinvar_kernel::ir::{Elem, Param, TensorView};
use std::fmt;
use std::sync::Arc;

/// A kernel, ready to be started.
pub struct Module {
    shared: Arc<Shared>,
    raw: Handle,
    pub(crate) function: Handle,
    pub(crate) name: String,
    pub(super) group: [u32; 3],
    /// Bytes of shared memory that a launch asks for.
    pub(crate) dynamic: u32,
    pub(super) buffers: usize,
    pub(super) params: Vec<Param>,
    /// Of how many axes it is told the workgroups, behind its parameters.
    pub(crate) group_counts: usize,
    /// The tensor views, and the elements of their buffers.
    pub(crate) views: Vec<(TensorView, Elem)>,
}

// SAFETY: handles that any thread may use once the context is its own.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Module {
    /// The module of a kernel, from its text: compiled, or as it was kept.
    ///
    /// # Errors
    /// `OutOfMemory`; `Unsupported` if the driver refuses it, with what its compiler says.
    pub fn new(
        shared: &Arc<Shared>,
        kernel: &Kernel,
        text: &str,
        compile: impl FnOnce() -> Result<Vec<u8>>,
    ) -> Result<Module> {
        shared.enter()?;
        let path = kernel_cache::path(shared, text);
        let kept = kernel_cache::load(&path).and_then(|code| load(shared, &code).ok());
        let raw = match kept {
            Some(raw) => raw,
            None => {
                let code = compile()?;
                let raw = load(shared, &code).map_err(|e| e.at(shared.api.say(&kernel.name)))?;
                kernel_cache::save(&path, &code);
                raw
            }
        };
        let mut module = Module {
            shared: shared.clone(),
            raw,
            function: std::ptr::null_mut(),
            name: kernel.name.clone(),
            group: kernel.group,
            dynamic: 0,
            buffers: kernel.buffers.len(),
            params: kernel.params.clone(),
            group_counts: 0,
            views: (kernel.views.iter())
                .map(|v| (v.clone(), kernel.buffers[v.buffer as usize].elem))
                .collect(),
        };
        let to = &raw mut module.function;
        // SAFETY: the module was just loaded; the name ends with 0, and the place for the result is
        // valid.
        let found = unsafe { (shared.api.table.function)(to, raw, c"main".as_ptr()) };
        shared.api.check(found, || format!("{}: its entry", kernel.name))?;
        Ok(module)
    }
}

/// Loads what was compiled.
fn load(shared: &Shared, code: &[u8]) -> Result<Handle> {
    let mut raw = std::ptr::null_mut();
    // SAFETY: the bytes are what this driver's compiler made for this device, as their hash and
    // their file's name say; the driver copies what it needs.
    let loaded = unsafe {
        let (none, nothing) = (std::ptr::null(), std::ptr::null());
        (shared.api.table.load_module)(&raw mut raw, code.as_ptr().cast(), 0, none, nothing)
    };
    shared.api.check(loaded, || "loading a module".into())?;
    Ok(raw)
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Module({})", self.name)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // Work that uses it may be under way. What goes wrong here was reported by a wait.
        let _ = self.shared.wait_for_all();
        // SAFETY: the module is not used any more.
        unsafe { (self.shared.api.table.unload_module)(self.raw) };
    }
}
