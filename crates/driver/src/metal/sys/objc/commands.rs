//! Command buffers: recorded, committed, done.

use super::buffer::Buffer;
use super::device::Device;
use super::pipeline::Compiled;
use crate::metal::sys::Outcome;
use elinvar_core::{Error, ErrorKind};
use elinvar_kernel::interp::Launch;
use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::ProtocolObject;
use objc2_foundation::NSError;
use objc2_metal::{
    MTLBarrierScope, MTLBlitCommandEncoder, MTLCommandBuffer, MTLCommandBufferError,
    MTLCommandBufferErrorDomain, MTLCommandBufferStatus, MTLCommandEncoder, MTLCommandQueue,
    MTLComputeCommandEncoder, MTLDevice, MTLDispatchType, MTLSize,
};
use std::ptr::NonNull;
use std::sync::{Mutex, OnceLock, PoisonError, TryLockError};

/// A queue of command buffers, which the device starts in the order in which they are committed.
pub struct CommandQueue(Retained<ProtocolObject<dyn MTLCommandQueue>>);

impl CommandQueue {
    pub fn new(device: &Device) -> Option<CommandQueue> {
        autoreleasepool(|_| device.0.newCommandQueue()).map(CommandQueue)
    }
}

/// A command buffer. It may be handed from thread to thread, one of which uses it at a time.
struct CommandBuffer(Retained<ProtocolObject<dyn MTLCommandBuffer>>);

// SAFETY: Metal asks that one thread at a time uses a command buffer, not that it is always the
// same one; nothing of it is kept per thread. Here it is owned, and not `Sync`.
unsafe impl Send for CommandBuffer {}

/// What commands are being encoded, if any: launches or copies. An encoder has to be ended before
/// the next one of its command buffer is made, and before it is dropped.
enum Encoder {
    None,
    Launches(Retained<ProtocolObject<dyn MTLComputeCommandEncoder>>),
    Copies(Retained<ProtocolObject<dyn MTLBlitCommandEncoder>>),
}

/// A command buffer that is recorded.
pub struct Commands {
    buffer: CommandBuffer,
    encoder: Encoder,
}

// SAFETY: an encoder is a part of its command buffer, and of it the same holds: one thread at a
// time. It is reached by `&mut self` alone.
unsafe impl Send for Commands {}

impl Commands {
    /// Waits, if very many are under way; `None` if there is no memory for one.
    pub fn new(queue: &CommandQueue) -> Option<Commands> {
        // This kind keeps what its commands use until it is done.
        let buffer = autoreleasepool(|_| queue.0.commandBuffer())?;
        Some(Commands { buffer: CommandBuffer(buffer), encoder: Encoder::None })
    }

    fn end(&mut self) {
        autoreleasepool(|_| match std::mem::replace(&mut self.encoder, Encoder::None) {
            Encoder::None => {}
            Encoder::Launches(e) => e.endEncoding(),
            Encoder::Copies(e) => e.endEncoding(),
        });
    }
    /// An encoder whose launches may overlap.
    fn launches(&mut self) -> Retained<ProtocolObject<dyn MTLComputeCommandEncoder>> {
        if let Encoder::Launches(e) = &self.encoder {
            return e.clone();
        }
        self.end();
        let e = self.buffer.0.computeCommandEncoderWithDispatchType(MTLDispatchType::Concurrent);
        let e = e.expect("a command buffer that is not committed gives an encoder when none is open");
        self.encoder = Encoder::Launches(e.clone());
        e
    }
    fn copies(&mut self) -> Retained<ProtocolObject<dyn MTLBlitCommandEncoder>> {
        if let Encoder::Copies(e) = &self.encoder {
            return e.clone();
        }
        self.end();
        let e = self.buffer.0.blitCommandEncoder();
        let e = e.expect("a command buffer that is not committed gives an encoder when none is open");
        self.encoder = Encoder::Copies(e.clone());
        e
    }

    /// What follows sees what those before have written, and begins after they have read.
    pub fn barrier(&mut self) {
        match &self.encoder {
            Encoder::Launches(e) => e.memoryBarrierWithScope(MTLBarrierScope::Buffers),
            // Between encoders, Metal keeps the order of what touches the same buffer.
            Encoder::Copies(_) => self.end(),
            Encoder::None => {}
        }
    }

    /// Records a launch of a kernel with its buffers, each from a place on, and the struct of its
    /// parameters behind them.
    ///
    /// # Safety
    /// They are the kernel's, and its accesses are in bounds; the struct has at most 4,096 bytes.
    /// No work since the last barrier writes what it touches, or touches what it writes.
    pub unsafe fn launch(
        &mut self,
        pipeline: &Compiled,
        buffers: &[(&Buffer, u64)],
        params: &[u8],
        launch: &Launch,
        group: [u32; 3],
    ) {
        let size = |[x, y, z]: [u32; 3]| MTLSize { width: x as usize, height: y as usize, depth: z as usize };
        autoreleasepool(|_| {
            let encoder = self.launches();
            encoder.setComputePipelineState(&pipeline.raw);
            for (i, (buffer, offset)) in buffers.iter().enumerate() {
                // SAFETY: the caller says that the offset lies in the buffer, and that the kernel
                // has one of this number; the encoder keeps the buffer.
                unsafe { encoder.setBuffer_offset_atIndex(Some(&buffer.0), *offset as usize, i) };
            }
            // SAFETY: a slice is not null; its bytes are copied before this returns. They are the
            // struct that the kernel has behind its buffers.
            unsafe {
                let at = NonNull::from(params).cast();
                encoder.setBytes_length_atIndex(at, params.len(), buffers.len());
            }
            encoder.dispatchThreadgroups_threadsPerThreadgroup(size(launch.groups), size(group));
        });
    }

    /// Records a copy.
    ///
    /// # Safety
    /// Places and length are multiples of 4; the ranges lie in their buffers and do not overlap. No
    /// work since the last barrier writes the first, or touches the second.
    pub unsafe fn copy(&mut self, from: (&Buffer, u64), to: (&Buffer, u64), bytes: u64) {
        autoreleasepool(|_| {
            let encoder = self.copies();
            // SAFETY: as the caller says; the encoder keeps both buffers.
            unsafe {
                encoder.copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size(
                    &from.0.0,
                    from.1 as usize,
                    &to.0.0,
                    to.1 as usize,
                    bytes as usize,
                );
            }
        });
    }

    /// Gives it to the device.
    pub fn commit(mut self) -> Committed {
        autoreleasepool(|_| {
            self.end();
            self.buffer.0.commit();
            let buffer = CommandBuffer(self.buffer.0.clone());
            Committed { buffer: Mutex::new(Some(buffer)), outcome: OnceLock::new() }
        })
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        self.end();
    }
}

/// A command buffer that was committed.
pub struct Committed {
    /// Dropped when it is done, and with it what it kept. Locked by the one thread that uses it.
    buffer: Mutex<Option<CommandBuffer>>,
    outcome: OnceLock<Outcome>,
}

impl Committed {
    /// Waits until it is done.
    pub fn wait(&self) {
        // A panic meanwhile leaves it as it was.
        let mut buffer = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        autoreleasepool(|_| {
            if let Some(CommandBuffer(raw)) = buffer.take() {
                raw.waitUntilCompleted();
                self.outcome.get_or_init(|| outcome(&raw));
            }
        });
    }
    /// What became of it, if it is done. A thread that waits for it will say so.
    pub fn outcome(&self) -> Option<Outcome> {
        if self.outcome.get().is_none() {
            let mut buffer = match self.buffer.try_lock() {
                Ok(buffer) => buffer,
                Err(TryLockError::Poisoned(e)) => e.into_inner(),
                Err(TryLockError::WouldBlock) => return None,
            };
            autoreleasepool(|_| {
                let ended = [MTLCommandBufferStatus::Completed, MTLCommandBufferStatus::Error];
                if let Some(CommandBuffer(raw)) = buffer.take_if(|b| ended.contains(&b.0.status())) {
                    self.outcome.get_or_init(|| outcome(&raw));
                }
            });
        }
        self.outcome.get().cloned()
    }
}

/// What became of a command buffer that is done.
fn outcome(raw: &ProtocolObject<dyn MTLCommandBuffer>) -> Outcome {
    let failed = raw.status() == MTLCommandBufferStatus::Error;
    let error = failed.then(|| match raw.error() {
        Some(e) => error(&e),
        None => Error::new(ErrorKind::DeviceLost, "metal: work was not done; no reason is given"),
    });
    Outcome { end: raw.GPUEndTime(), error }
}

/// Why work was not done.
fn error(e: &NSError) -> Error {
    // SAFETY: a constant of the framework, set when it is loaded.
    let domain = unsafe { MTLCommandBufferErrorDomain };
    let code = MTLCommandBufferError(usize::try_from(e.code()).unwrap_or(usize::MAX));
    let known = e.domain().isEqualToString(domain);
    let (kind, why) = match code {
        MTLCommandBufferError::OutOfMemory if known => (ErrorKind::OutOfMemory, "memory is exhausted"),
        MTLCommandBufferError::DeviceRemoved if known => (ErrorKind::DeviceLost, "the device was removed"),
        MTLCommandBufferError::Timeout if known => {
            (ErrorKind::DeviceLost, "it took longer than the system allows")
        }
        MTLCommandBufferError::PageFault if known => (ErrorKind::DeviceLost, "an access out of bounds"),
        _ => (ErrorKind::DeviceLost, "the device reports a fault"),
    };
    Error::new(kind, format!("metal: work was not done: {why} ({})", e.localizedDescription()))
}
