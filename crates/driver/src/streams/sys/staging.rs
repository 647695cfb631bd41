//! Pinned host memory for uploads and downloads.

use super::device::Shared;
use super::functions::Handle;
use elinvar_core::Result;

/// Bytes of a slot: enough for a copy to run at full speed.
pub const SLOT_BYTES: usize = 1 << 20;
/// While the device copies from some, the host writes to others.
const SLOTS: usize = 8;

/// Memory of the host, fixed in its place, and an event that says when the device is done with it.
pub struct Pinned {
    at: *mut u8,
    bytes: usize,
    event: Handle,
}

// SAFETY: plain memory and a handle that any thread may use; the value is their only owner.
unsafe impl Send for Pinned {}
// SAFETY: as above; through a shared reference the memory is only read.
unsafe impl Sync for Pinned {}

impl Pinned {
    pub fn new(shared: &Shared, bytes: usize) -> Result<Pinned> {
        let t = &shared.api.table;
        let (mut at, mut event) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the places for the results are valid. 2: an event without a time. Memory that
        // gets no event is freed.
        unsafe {
            shared.api.check((t.allocate_host)(&raw mut at, bytes, 0), || {
                format!("{bytes} bytes of pinned memory")
            })?;
            if let Err(e) = shared.api.check((t.create_event)(&raw mut event, 2), || "an event".into()) {
                (t.free_host)(at);
                return Err(e);
            }
        }
        Ok(Pinned { at: at.cast(), bytes, event })
    }
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    pub fn address(&self, offset: usize) -> *mut u8 {
        assert!(offset <= self.bytes, "an offset lies inside");
        // SAFETY: just checked.
        unsafe { self.at.add(offset) }
    }
    /// All bytes are 0.
    pub fn clear(&mut self) {
        // SAFETY: as many bytes are there, and no one else uses them.
        unsafe { self.at.write_bytes(0, self.bytes) }
    }
    /// The bytes, which have a value. The device must not be writing them.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: as many bytes are there, set by `clear` at least; they are not written while they
        // are borrowed, as a copy to them has the value itself.
        unsafe { std::slice::from_raw_parts(self.at, self.bytes) }
    }
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the borrow is the only one.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.bytes) }
    }
    /// Writes for the device. It must not be using these bytes.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.bytes, "what is written fits");
        // SAFETY: just checked.
        unsafe { self.at.add(offset).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
    }
    /// Reads what the device wrote. It must be done with it.
    pub fn read(&self, bytes: &mut [u8]) {
        assert!(bytes.len() <= self.bytes, "what is read is there");
        // SAFETY: just checked.
        unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(self.at, bytes.len()) }
    }
    /// The device is done with it when it comes here, in a stream.
    pub fn mark(&self, shared: &Shared, stream: Handle) -> Result<()> {
        // SAFETY: event and stream belong to this device.
        let marked = unsafe { (shared.api.table.record_event)(self.event, stream) };
        shared.api.check(marked, || "marking a place in the stream".into())
    }
    /// Waits for the mark.
    pub fn wait(&self, shared: &Shared) -> Result<()> {
        // SAFETY: the event belongs to this device.
        shared.api.check(unsafe { (shared.api.table.wait_event)(self.event) }, || "waiting".into())
    }
    /// Gives it back. The device is done with it.
    pub fn destroy(self, shared: &Shared) {
        // SAFETY: it is not used any more.
        unsafe {
            (shared.api.table.destroy_event)(self.event);
            (shared.api.table.free_host)(self.at.cast());
        }
    }
}

/// Slots that go up, one after the other.
#[derive(Default)]
pub struct Ring {
    slots: Vec<Slot>,
    current: usize,
}

struct Slot {
    pinned: Pinned,
    used: usize,
    /// Was it marked, so that it has to be waited for?
    marked: bool,
}

impl Ring {
    /// Puts at most a slot's bytes where the device reaches them, for the stream that all slots are
    /// for.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn put(&mut self, shared: &Shared, stream: Handle, bytes: &[u8]) -> Result<*const u8> {
        if self.slots.is_empty() {
            self.slots.push(Slot { pinned: Pinned::new(shared, SLOT_BYTES)?, used: 0, marked: false });
        }
        let mut at = self.slots[self.current].used.next_multiple_of(16);
        if at + bytes.len() > SLOT_BYTES {
            let full = &mut self.slots[self.current];
            full.pinned.mark(shared, stream)?;
            full.marked = true;
            self.advance(shared)?;
            at = 0;
        }
        let slot = &mut self.slots[self.current];
        slot.pinned.write(at, bytes);
        slot.used = at + bytes.len();
        Ok(slot.pinned.address(at))
    }
    /// Goes to a slot that the device is done with: a new one, as long as there are few.
    fn advance(&mut self, shared: &Shared) -> Result<()> {
        if self.slots.len() < SLOTS {
            // If the system has no more of such memory, those that are there have to do.
            if let Ok(pinned) = Pinned::new(shared, SLOT_BYTES) {
                self.slots.push(Slot { pinned, used: 0, marked: false });
                self.current = self.slots.len() - 1;
                return Ok(());
            }
        }
        self.current = (self.current + 1) % self.slots.len();
        let slot = &mut self.slots[self.current];
        if slot.marked {
            slot.pinned.wait(shared)?;
        }
        (slot.used, slot.marked) = (0, false);
        Ok(())
    }
    pub fn destroy(self, shared: &Shared) {
        self.slots.into_iter().for_each(|s| s.pinned.destroy(shared));
    }
}
