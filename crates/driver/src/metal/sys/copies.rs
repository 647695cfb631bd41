//! Copies of the Metal queue: what the host writes, between memory, from and to pinned memory.
//!
//! What the host writes is written in place if no work that is under way touches the buffer.
//! (That it touches other bytes of it is not enough: what host and device write at once becomes
//! undefined as a whole.) Otherwise it is copied by the device, in order. The device copies whole
//! words; what is not, the host copies when all work is done.

use super::api::Buffer;
use super::memory::Memory;
use super::queue::{Queue, WORD, inside, touch};
use super::shared::Shared;
use super::transfer::PinnedMemory;
use crate::Slice;
use crate::metal::Metal;
use crate::touched::Touch;
use elinvar_core::Result;

/// All of the memory that a slice is of, to be written.
fn whole(s: &Slice<'_, Metal>) -> Touch {
    Touch { memory: s.memory.id, offset: 0, len: s.memory.bytes.max(1), writes: true }
}
/// May the device copy from or to here?
fn is_word(at: u64) -> bool {
    at.is_multiple_of(WORD)
}

impl Queue {
    /// Writes bytes to memory: in place, if the device does not use it.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn write(&mut self, shared: &Shared, to: Slice<'_, Metal>, bytes: &[u8]) -> Result<()> {
        let to = Slice { len: bytes.len() as u64, ..to };
        assert!(inside(&to), "what is written is there");
        self.check()?;
        if self.touches(&whole(&to)) {
            if is_word(to.offset) {
                let (chunk, at) = self.stage(shared, bytes)?;
                return self.copy_buffers((&chunk, at), None, &to);
            }
            self.finish()?;
        }
        // SAFETY: the range was checked; no work touches the memory, and none can be given to the
        // queue, nor can another thread read or write it, while the queue is locked.
        unsafe { to.memory.buffer.write(to.offset, bytes) };
        Ok(())
    }
    /// Records a copy of as many bytes as the target has.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn copy(&mut self, shared: &Shared, from: Slice<'_, Metal>, to: Slice<'_, Metal>) -> Result<()> {
        let from = Slice { len: to.len, ..from };
        assert!(inside(&from) && inside(&to), "what is copied is there, and fits");
        if !is_word(from.offset) || !is_word(to.offset) {
            return self.copy_by_host(&from, &to);
        }
        let touched = touch(&from, false);
        let apart = from.memory.id != to.memory.id
            || from.offset + to.len.next_multiple_of(WORD) <= to.offset
            || to.offset + to.len.next_multiple_of(WORD) <= from.offset;
        if apart {
            return self.copy_buffers((&from.memory.buffer, from.offset), Some(touched), &to);
        }
        // Metal does not say what becomes of ranges that overlap.
        let between = Memory::between(shared, to.len)?;
        let half = Slice { memory: &between, offset: 0, len: to.len };
        self.copy_buffers((&from.memory.buffer, from.offset), Some(touched), &half)?;
        self.copy_buffers((&between.buffer, 0), Some(touch(&half, false)), &to)
    }
    /// Copies from a buffer, some bytes of which it touches, whole words.
    fn copy_buffers(
        &mut self,
        (from, at): (&Buffer, u64),
        reads: Option<Touch>,
        to: &Slice<'_, Metal>,
    ) -> Result<()> {
        if to.len == 0 {
            return Ok(());
        }
        let touches: Vec<Touch> = reads.into_iter().chain([touch(to, true)]).collect();
        let bytes = to.len.next_multiple_of(WORD);
        let commands = self.order(&touches)?;
        // SAFETY: both ranges lie in their buffers, which end with whole words, begin with words,
        // and do not overlap: they are of two buffers, or were seen to be apart. What was recorded
        // before and touches them is behind a barrier.
        unsafe { commands.copy((from, at), (&to.memory.buffer, to.offset), bytes) };
        Ok(())
    }
    /// Places that no command can copy.
    fn copy_by_host(&mut self, from: &Slice<'_, Metal>, to: &Slice<'_, Metal>) -> Result<()> {
        self.finish()?;
        let mut bytes = vec![0; to.len as usize];
        // SAFETY: the ranges were checked; all work is done, and none can be given to the queue,
        // nor can another thread read or write memory, while the queue is locked.
        unsafe {
            from.memory.buffer.read(from.offset, &mut bytes);
            to.memory.buffer.write(to.offset, &bytes);
        }
        Ok(())
    }

    /// Records that a buffer's first bytes are copied to memory, and submits; gives the number of
    /// the submission.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn upload(&mut self, from: &PinnedMemory, to: Slice<'_, Metal>) -> Result<u64> {
        assert!(inside(&to), "what is written is there");
        if is_word(to.offset) {
            let reads = Touch { memory: from.id, offset: 0, len: to.len, writes: false };
            self.copy_buffers((&from.buffer, 0), Some(reads), &to)?;
        } else {
            self.finish()?;
            let bytes = &from.as_ref()[..to.len as usize];
            // SAFETY: as in `copy_by_host`.
            unsafe { to.memory.buffer.write(to.offset, bytes) };
        }
        self.submit()?;
        Ok(self.last())
    }
    /// Records that memory is copied to a buffer's first bytes, and submits; gives the number of
    /// the submission. Bytes behind them stay as they are.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn download(&mut self, from: Slice<'_, Metal>, to: &PinnedMemory) -> Result<u64> {
        assert!(inside(&from), "what is read is there");
        if is_word(from.offset) && is_word(from.len) {
            if from.len > 0 {
                let writes = Touch { memory: to.id, offset: 0, len: from.len, writes: true };
                let commands = self.order(&[touch(&from, false), writes])?;
                // SAFETY: both ranges lie in their buffers, which are two, and are whole words.
                // What was recorded before and touches them is behind a barrier.
                unsafe { commands.copy((&from.memory.buffer, from.offset), (&to.buffer, 0), from.len) };
            }
        } else {
            self.finish()?;
            let mut bytes = vec![0; from.len as usize];
            // SAFETY: as in `copy_by_host`; the caller's memory is its own, and at least as long.
            unsafe {
                from.memory.buffer.read(from.offset, &mut bytes);
                to.buffer.write(0, &bytes);
            }
        }
        self.submit()?;
        Ok(self.last())
    }
}
