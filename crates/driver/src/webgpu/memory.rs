//! WebGPU buffers for tensors, and reads: copies to buffers that the host maps.

use super::WebGpu;
use super::device::{IN_BROWSER, Shared};
use crate::Slice;
use elinvar_core::{Error, Result};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// Bytes of a buffer for reading, at least; what all sizes are multiples of.
const MIN_READ_BYTES: u64 = 64 << 10;
/// Larger buffers for reading are not kept, and no more of them.
const MAX_KEPT_BYTES: u64 = 16 << 20;
const MAX_KEPT: usize = 4;

/// Memory for tensors.
pub struct Memory {
    pub(super) buffer: wgpu::Buffer,
    /// Numbers memory within its device.
    pub(super) id: u64,
}

impl Memory {
    /// So many bytes, on the device.
    ///
    /// # Errors
    /// `OutOfMemory`, also beyond the device's limits.
    pub fn new(shared: &Shared, bytes: u64) -> Result<Memory> {
        let info = &shared.info;
        if bytes > info.largest {
            return Err(Error::memory(format!(
                "webgpu: a piece of {bytes} bytes, and {} allows at most {} in one piece",
                info.name, info.largest
            )));
        }
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let make = || buffer(shared, bytes, usage);
        let buffer = make().or_else(|e| {
            // What was dropped may still wait for work that is not done.
            if IN_BROWSER {
                return Err(e);
            }
            shared.wait()?;
            make().map_err(|_| e)
        })?;
        Ok(Memory { buffer, id: shared.next_id() })
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} bytes)", self.buffer.size())
    }
}

/// A buffer of whole words.
///
/// # Errors
/// `OutOfMemory`.
pub fn buffer(shared: &Shared, bytes: u64, usage: wgpu::BufferUsages) -> Result<wgpu::Buffer> {
    let size = bytes.next_multiple_of(4).max(16);
    let descriptor = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
    shared.scoped(&format!("{bytes} bytes of memory"), || shared.device.create_buffer(&descriptor))
}

/// A copy that is under way: bytes on their way to the host, or the caller's memory alone.
pub struct Transfer {
    shared: Arc<Shared>,
    pinned: Vec<u8>,
    under_way: Option<Read>,
}

struct Read {
    buffer: wgpu::Buffer,
    /// Bytes of the words that were copied before those that were asked for.
    skipped: u64,
    len: u64,
    submission: u64,
    /// What became of mapping it.
    mapped: Arc<Mutex<Mapped>>,
}

/// What became of mapping a buffer, and who is to be told.
#[derive(Default)]
struct Mapped {
    result: Option<Result<(), wgpu::BufferAsyncError>>,
    waker: Option<Waker>,
}

fn locked(mapped: &Mutex<Mapped>) -> MutexGuard<'_, Mapped> {
    mapped.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Transfer {
    /// One that is done.
    pub(super) fn done(shared: &Arc<Shared>, pinned: Vec<u8>) -> Transfer {
        Transfer { shared: shared.clone(), pinned, under_way: None }
    }
    /// Begins to copy memory to the host.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub(super) fn of(shared: &Arc<Shared>, from: Slice<'_, WebGpu>, pinned: Vec<u8>) -> Result<Transfer> {
        if from.len == 0 {
            return Ok(Transfer::done(shared, pinned));
        }
        let skipped = from.offset % 4;
        let words = (skipped + from.len).next_multiple_of(4);
        let buffer = readback(shared, words)?;
        let whole = Slice { offset: from.offset - skipped, len: words, ..from };
        let submission = shared.queue().fetch(shared, whole, &buffer)?;
        let mapped: Arc<Mutex<Mapped>> = Arc::default();
        let told = mapped.clone();
        buffer.map_async(wgpu::MapMode::Read, 0..words, move |result| {
            let mut told = locked(&told);
            told.result = Some(result);
            let waker = told.waker.take();
            drop(told);
            waker.into_iter().for_each(Waker::wake);
        });
        let under_way = Some(Read { buffer, skipped, len: from.len, submission, mapped });
        Ok(Transfer { shared: shared.clone(), pinned, under_way })
    }

    /// Waits for the bytes, and copies them.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub(super) fn read(mut self, bytes: &mut [u8]) -> Result<()> {
        let Some(read) = self.under_way.take() else { return Ok(()) };
        if !read.is_mapped() {
            self.shared.wait_for(read.submission)?;
            // If another thread has waited for the work, the host is told of the bytes at the next
            // look.
            self.shared.reached(read.submission)?;
        }
        read.take(&self.shared, bytes)
    }

    /// Ready when the bytes are there; the task is woken then, which natively needs someone who
    /// looks at the device.
    pub(super) fn poll_done(&self, waker: &Waker) -> Poll<Result<()>> {
        let Some(read) = &self.under_way else { return Poll::Ready(Ok(())) };
        if let Err(e) = self.shared.check() {
            return Poll::Ready(Err(e));
        }
        let mut mapped = locked(&read.mapped);
        if mapped.result.is_some() {
            return Poll::Ready(Ok(()));
        }
        mapped.waker = Some(waker.clone());
        Poll::Pending
    }
}

impl Read {
    fn is_mapped(&self) -> bool {
        locked(&self.mapped).result.is_some()
    }
    /// Copies bytes that the host has.
    ///
    /// # Errors
    /// `DeviceLost`.
    fn take(self, shared: &Shared, bytes: &mut [u8]) -> Result<()> {
        let result = locked(&self.mapped).result.take();
        let lost = |why: String| shared.is_there().err().unwrap_or_else(|| shared.lost(&why));
        match result {
            Some(Ok(())) => {}
            Some(Err(e)) => return Err(lost(e.to_string())),
            None => return Err(lost("the copy was not done".into())),
        }
        let words = (self.skipped + self.len).next_multiple_of(4);
        let view = self.buffer.get_mapped_range(0..words).map_err(|e| lost(e.to_string()))?;
        bytes[..self.len as usize]
            .copy_from_slice(&view[self.skipped as usize..(self.skipped + self.len) as usize]);
        drop(view);
        self.buffer.unmap();
        let mut kept = shared.readbacks.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MAX_KEPT && self.buffer.size() <= MAX_KEPT_BYTES {
            kept.push(self.buffer);
        }
        Ok(())
    }
}

/// A buffer that the host can map, of so many bytes at least.
fn readback(shared: &Shared, bytes: u64) -> Result<wgpu::Buffer> {
    let mut kept = shared.readbacks.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(i) = kept.iter().position(|b| b.size() >= bytes) {
        return Ok(kept.swap_remove(i));
    }
    drop(kept);
    let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
    buffer(shared, bytes.next_multiple_of(MIN_READ_BYTES), usage)
}

impl crate::PendingCopy<Vec<u8>> for Transfer {
    fn wait(mut self) -> Result<Vec<u8>> {
        let mut pinned = std::mem::take(&mut self.pinned);
        self.read(&mut pinned)?;
        Ok(pinned)
    }
    fn poll_done(&self, waker: &Waker) -> Option<Result<bool>> {
        // Natively, a thread looks at the device.
        IN_BROWSER.then(|| match Transfer::poll_done(self, waker) {
            Poll::Ready(done) => done.map(|()| true),
            Poll::Pending => Ok(false),
        })
    }
}

impl fmt::Debug for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.under_way.as_ref().map_or(0, |r| r.len);
        write!(f, "Transfer({bytes} bytes)")
    }
}
