//! Texts of MSL, compiled, and their archives.

use super::device::Device;
use elinvar_core::{Error, Result};
use elinvar_kernel::Kernel;
use elinvar_kernel::emit::msl::ENTRY;
use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::{NSObjectProtocol, ProtocolObject};
use objc2::sel;
use objc2_foundation::{NSArray, NSString, NSURL};
use objc2_metal::{
    MTLBinaryArchive, MTLBinaryArchiveDescriptor, MTLCompileOptions, MTLComputePipelineDescriptor,
    MTLComputePipelineState, MTLDevice, MTLLanguageVersion, MTLLibrary, MTLMathFloatingPointFunctions,
    MTLMathMode, MTLPipelineOption,
};
use std::path::{Path, PathBuf};

/// A pipeline of Metal.
pub struct Compiled {
    pub(super) raw: Retained<ProtocolObject<dyn MTLComputePipelineState>>,
    /// Threads of a threadgroup, at most, with the registers that it takes.
    pub most_threads: u32,
    /// Of a SIMD-group.
    pub lanes: u32,
}

/// Nothing is computed in another way than the text says.
fn options(language: u32) -> Retained<MTLCompileOptions> {
    let options = MTLCompileOptions::new();
    options.setLanguageVersion(match language {
        ..310 => MTLLanguageVersion::Version3_0,
        310.. => MTLLanguageVersion::Version3_1,
    });
    // From macOS 15 and iOS 18 on.
    if options.respondsToSelector(sel!(setMathMode:)) {
        options.setMathMode(MTLMathMode::Safe);
        options.setMathFloatingPointFunctions(MTLMathFloatingPointFunctions::Precise);
    } else {
        #[expect(deprecated, reason = "what systems before have")]
        options.setFastMathEnabled(false);
    }
    options
}

impl Compiled {
    /// The pipeline of a kernel, from its text; its archive is read from this file, or else written
    /// to it.
    ///
    /// # Errors
    /// `Unsupported` with what Metal's compiler says.
    pub fn new(
        device: &Device,
        language: u32,
        kernel: &Kernel,
        text: &str,
        archive: &Option<PathBuf>,
    ) -> Result<Compiled> {
        autoreleasepool(|_| {
            let refused = |what: &str| Error::unsupported(format!("metal: {}: {what}", kernel.name));
            let source = NSString::from_str(text);
            let library = device.0.newLibraryWithSource_options_error(&source, Some(&options(language)));
            let library =
                library.map_err(|e| refused(&first_lines(&e.localizedDescription().to_string())))?;
            let function = library.newFunctionWithName(&NSString::from_str(ENTRY));
            let function = function.ok_or_else(|| refused("its library has no function"))?;
            let descriptor = MTLComputePipelineDescriptor::new();
            descriptor.setLabel(Some(&NSString::from_str(&kernel.name)));
            descriptor.setComputeFunction(Some(&function));
            if let Some(path) = archive
                && let Some(archive) = open(device, path).or_else(|| make(device, &descriptor, path))
            {
                descriptor.setBinaryArchives(Some(&NSArray::from_retained_slice(&[archive])));
            }
            // What is not in the archive is compiled.
            let made = device.0.newComputePipelineStateWithDescriptor_options_reflection_error(
                &descriptor,
                MTLPipelineOption::None,
                None,
            );
            let raw = made.map_err(|e| refused(&first_lines(&e.localizedDescription().to_string())))?;
            let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
            let most_threads = narrow(raw.maxTotalThreadsPerThreadgroup());
            let lanes = narrow(raw.threadExecutionWidth());
            Ok(Compiled { raw, most_threads, lanes })
        })
    }
}

type Archive = Retained<ProtocolObject<dyn MTLBinaryArchive>>;

/// The archive in a file, if there is one that Metal takes.
fn open(device: &Device, path: &Path) -> Option<Archive> {
    if !path.is_file() {
        return None;
    }
    let descriptor = MTLBinaryArchiveDescriptor::new();
    descriptor.setUrl(Some(&*NSURL::from_file_path(path)?));
    device.0.newBinaryArchiveWithDescriptor_error(&descriptor).ok()
}

/// An archive with a pipeline, which is written to a file, if that can be.
fn make(device: &Device, pipeline: &MTLComputePipelineDescriptor, path: &Path) -> Option<Archive> {
    let descriptor = MTLBinaryArchiveDescriptor::new();
    let archive = device.0.newBinaryArchiveWithDescriptor_error(&descriptor).ok()?;
    archive.addComputePipelineFunctionsWithDescriptor_error(pipeline).ok()?;
    save(&archive, path);
    Some(archive)
}

/// Whole or not at all: others may read it meanwhile. What goes wrong costs time alone.
fn save(archive: &Archive, path: &Path) {
    let Some(folder) = path.parent().filter(|folder| std::fs::create_dir_all(folder).is_ok()) else { return };
    let Ok(place) = tempfile_in(folder) else { return };
    let Some(url) = NSURL::from_file_path(&place) else { return };
    let written = archive.serializeToURL_error(&url).is_ok() && std::fs::rename(&place, path).is_ok();
    if !written {
        let _ = std::fs::remove_file(&place);
    }
}

/// A name in a folder that no other process and no other thread uses.
fn tempfile_in(folder: &Path) -> std::io::Result<PathBuf> {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!("{}-{}.new", std::process::id(), NEXT.fetch_add(1, Relaxed));
    let path = folder.join(name);
    // A process of the same number may have left it behind.
    match std::fs::remove_file(&path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e),
        Ok(()) | Err(_) => Ok(path),
    }
}

/// What a compiler says first.
fn first_lines(said: &str) -> String {
    said.lines().take(3).collect::<Vec<_>>().join("; ")
}
