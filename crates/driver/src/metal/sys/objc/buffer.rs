//! Buffers of shared storage: one memory for host and device.

use objc2::rc::Retained;
use objc2::runtime::ProtocolObject;
use objc2_metal::MTLBuffer;

/// A buffer; a clone is the same one.
#[derive(Clone)]
pub struct Buffer(pub(super) Retained<ProtocolObject<dyn MTLBuffer>>);

// SAFETY: references of Objective-C are counted atomically, so the last one may be dropped by any
// thread. Length and address of a buffer do not change; its bytes are reached by `unsafe` functions
// alone, whose callers know who else does so.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    pub fn len(&self) -> u64 {
        self.0.length() as u64
    }
    /// Where its bytes are, as long as it lives. All of them have a value: Metal makes them 0.
    pub fn at(&self) -> *mut u8 {
        // Not null: the storage is shared.
        self.0.contents().as_ptr().cast()
    }
    /// Writes bytes.
    ///
    /// # Safety
    /// They lie in the buffer; meanwhile no other thread reads or writes them, and the device uses
    /// the buffer at most to read others.
    pub unsafe fn write(&self, offset: u64, bytes: &[u8]) {
        // SAFETY: the caller's range lies in the buffer, which has this address; memory that is
        // borrowed by Rust is another one, as the bytes of buffers are lent as pinned memory alone,
        // and then copied from the borrow.
        unsafe { self.at().add(offset as usize).copy_from(bytes.as_ptr(), bytes.len()) }
    }
    /// Reads bytes.
    ///
    /// # Safety
    /// They lie in the buffer; meanwhile neither another thread nor the device writes them.
    pub unsafe fn read(&self, offset: u64, bytes: &mut [u8]) {
        // SAFETY: as in `write`; the target is borrowed by the caller alone.
        unsafe { bytes.as_mut_ptr().copy_from(self.at().add(offset as usize), bytes.len()) }
    }
}
