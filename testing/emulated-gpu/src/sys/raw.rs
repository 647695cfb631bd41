//! Memory that workgroups on several threads share: raw bytes, accessed by relaxed atomics, as on a
//! device.

#![allow(clippy::len_without_is_empty, reason = "memory without bytes is never asked for")]

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

/// The alignment of every allocation.
const ALIGNMENT: usize = 256;
/// The fill byte of new memory: not zero, so that relying on zeros is detected.
const FRESH: u8 = 0xa5;

/// An allocation.
#[derive(Debug)]
pub struct Raw {
    at: NonNull<u8>,
    layout: Layout,
    len: usize,
}

// SAFETY: the bytes are accessed through atomics, or by copies, during which no workgroup runs.
unsafe impl Send for Raw {}
// SAFETY: as above.
unsafe impl Sync for Raw {}

macro_rules! accesses {
    ($load:ident, $store:ident, $Atomic:ident, $T:ident) => {
        /// Loads a value; `at` was checked for bounds and alignment by [`Raw::place`].
        #[inline(always)]
        pub fn $load(&self, at: Place) -> $T {
            // SAFETY: `Place` is made by `Raw::place` of this piece only, which checked bounds and
            // alignment.
            unsafe { $Atomic::from_ptr(self.at.as_ptr().add(at.0).cast()) }.load(Relaxed)
        }
        /// Stores a value.
        #[inline(always)]
        pub fn $store(&self, at: Place, v: $T) {
            // SAFETY: as above.
            unsafe { $Atomic::from_ptr(self.at.as_ptr().add(at.0).cast()) }.store(v, Relaxed)
        }
    };
}

/// An offset in an allocation, checked for an access of one size.
#[derive(Clone, Copy, Debug)]
pub struct Place(usize);

impl Raw {
    /// Allocates this many bytes; `None` if the system has no memory.
    pub fn new(len: usize) -> Option<Raw> {
        let layout = Layout::from_size_align(len.max(1), ALIGNMENT).ok()?;
        // SAFETY: the size is not 0; the bytes are written before they are read.
        let at = unsafe {
            let at = NonNull::new(alloc(layout))?;
            at.as_ptr().write_bytes(FRESH, layout.size());
            at
        };
        Some(Raw { at, layout, len })
    }
    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Its address on the host.
    pub fn host(&self) -> *mut c_void {
        self.at.as_ptr().cast()
    }
    /// Is an access of `size` bytes (a power of two) at `offset` in bounds and aligned?
    #[inline(always)]
    pub fn place(&self, offset: u64, size: u64) -> Option<Place> {
        let inside = offset.checked_add(size).is_some_and(|end| end <= self.len as u64);
        (inside && offset & (size - 1) == 0).then_some(Place(offset as usize))
    }
    accesses!(load8, store8, AtomicU8, u8);
    accesses!(load16, store16, AtomicU16, u16);
    accesses!(load32, store32, AtomicU32, u32);
    accesses!(load64, store64, AtomicU64, u64);

    /// A word for atomic operations.
    pub fn atomic32(&self, at: Place) -> &AtomicU32 {
        // SAFETY: as for loads; the place lives as long as `self`.
        unsafe { AtomicU32::from_ptr(self.at.as_ptr().add(at.0).cast()) }
    }

    /// Copies bytes from another allocation, or from this one.
    pub fn copy_from(&self, offset: usize, from: &Raw, from_offset: usize, bytes: usize) {
        assert!(
            offset + bytes <= self.len && from_offset + bytes <= from.len,
            "the caller has checked bounds"
        );
        // SAFETY: just checked; `copy_from` allows overlaps. No workgroup runs while the device
        // copies.
        unsafe { self.at.as_ptr().add(offset).copy_from(from.at.as_ptr().add(from_offset), bytes) }
    }
    /// Reads bytes from an offset on.
    pub fn read(&self, offset: usize, to: &mut [u8]) {
        assert!(offset + to.len() <= self.len, "the caller has checked bounds");
        // SAFETY: just checked; `to` is borrowed exclusively. No workgroup writes these bytes
        // during a copy.
        unsafe { to.as_mut_ptr().copy_from(self.at.as_ptr().add(offset), to.len()) }
    }
    /// Sets all bytes.
    pub fn fill(&self, byte: u8) {
        // SAFETY: the whole allocation, which `self` owns.
        unsafe { self.at.as_ptr().write_bytes(byte, self.len) }
    }
    /// Reads and writes all bytes: for tests.
    pub fn to_vec(&self) -> Vec<u8> {
        (0..self.len as u64).filter_map(|i| Some(self.load8(self.place(i, 1)?))).collect()
    }
    /// Writes all of it.
    pub fn write(&self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.len, "as many bytes as there are");
        for (i, &b) in bytes.iter().enumerate() {
            if let Some(place) = self.place(i as u64, 1) {
                self.store8(place, b);
            }
        }
    }
}

/// Host bytes that a deferred operation will read or write.
#[derive(Clone, Copy, Debug)]
pub struct HostBytes {
    at: *mut u8,
    len: usize,
}

// SAFETY: see `HostBytes::new`.
unsafe impl Send for HostBytes {}

impl HostBytes {
    /// Bytes of a caller.
    ///
    /// # Safety
    /// They are valid, and not otherwise used, until the operation that gets them is done: the
    /// contract of an asynchronous copy.
    pub unsafe fn new(at: *mut c_void, len: usize) -> HostBytes {
        HostBytes { at: at.cast(), len }
    }
    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }
    /// The address of the first.
    pub fn address(&self) -> usize {
        self.at as usize
    }
    /// Copies to device memory.
    pub fn copy_to(&self, to: &Raw, offset: usize) {
        assert!(offset + self.len <= to.len, "the caller has checked bounds");
        // SAFETY: just checked for `to`; see `new` for the host's.
        unsafe { to.at.as_ptr().add(offset).copy_from(self.at, self.len) }
    }
    /// Copies from device memory.
    pub fn copy_from(&self, from: &Raw, offset: usize) {
        assert!(offset + self.len <= from.len, "the caller has checked bounds");
        // SAFETY: as above.
        unsafe { self.at.copy_from(from.at.as_ptr().add(offset), self.len) }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // Overwritten, so that a use after free is more likely to be detected.
        self.fill(FRESH ^ 0xff);
        // SAFETY: it was allocated with this layout, and this is its owner.
        unsafe { dealloc(self.at.as_ptr(), self.layout) }
    }
}
