//! Metal compute pipelines: kernels, ready to be started; and the cache of their archives.
//!
//! An archive has one kernel. It saves time and is never needed, so what goes wrong with a file is
//! not an error: the kernel is compiled, and the file is written again.

use super::api;
use super::shared::Shared;
use elinvar_core::{Error, Result};
use elinvar_kernel::Kernel;
use elinvar_kernel::interp::Launch;
use elinvar_kernel::ir::{Access, Param};
use sha2::{Digest, Sha256};
use std::fmt::{self, Write};
use std::path::PathBuf;

/// A kernel, ready to be started.
pub struct Pipeline {
    pub(super) raw: api::Compiled,
    pub(super) name: String,
    /// Which buffers are only read.
    pub(super) reads: Vec<bool>,
    pub(super) group: [u32; 3],
    params: Vec<Param>,
}

impl Pipeline {
    /// The pipeline of a kernel, from its text, which was emitted for SIMD-groups of this size.
    ///
    /// # Errors
    /// `Unsupported` if the text is refused, or the device has not enough registers for its
    /// threadgroups.
    pub fn new(shared: &Shared, kernel: &Kernel, text: &str, lanes: Option<u32>) -> Result<Pipeline> {
        let raw =
            api::Compiled::new(&shared.device, shared.traits.language, kernel, text, &path(shared, text))?;
        let refuse = |what: String| Err(Error::unsupported(format!("metal: {}: {what}", kernel.name)));
        if raw.most_threads < kernel.invocations() {
            return refuse(format!(
                "threadgroups of {} threads, and the device has registers for {}",
                kernel.invocations(),
                raw.most_threads
            ));
        }
        if kernel.subgroup.is_some() && kernel.subgroup == lanes && lanes != Some(raw.lanes) {
            return refuse(format!("it was compiled for SIMD-groups of {}", raw.lanes));
        }
        Ok(Pipeline {
            raw,
            name: kernel.name.clone(),
            reads: kernel.buffers.iter().map(|b| b.access == Access::Read).collect(),
            group: kernel.group,
            params: kernel.params.clone(),
        })
    }

    /// Are these the kernel's parameters?
    ///
    /// # Errors
    /// `InvalidArgument` if not.
    pub(super) fn check(&self, launch: &Launch) -> Result<()> {
        crate::params::check(&self.name, &self.params, &launch.params)
    }
}

/// Where the compiled form of a text is kept: by device, system and text.
fn path(shared: &Shared, text: &str) -> Option<PathBuf> {
    let t = &shared.traits;
    let mut hash = Sha256::new();
    for part in [&t.name, &t.system, text] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.update(t.language.to_le_bytes());
    let mut name = String::new();
    for b in hash.finalize() {
        let _ = write!(name, "{b:02x}");
    }
    Some(crate::cache_dir()?.join("metal").join(name).with_extension("metalarchive"))
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pipeline({})", self.name)
    }
}
