//! Vulkan buffers with memory of their own, for tensors and for staging between host and device.

use super::device::Shared;
use super::error::error;
use ash::vk;
use elinvar_core::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// Memory for tensors.
pub struct Memory {
    pub(super) shared: Arc<Shared>,
    pub(super) raw: Raw,
    /// Numbers memory within its device.
    pub(super) id: u64,
    bytes: u64,
}

/// A buffer and the memory behind it.
#[derive(Clone, Copy)]
pub struct Raw {
    pub buffer: vk::Buffer,
    pub memory: vk::DeviceMemory,
}

impl Memory {
    /// So many bytes, on the device.
    ///
    /// # Errors
    /// `OutOfMemory`, also beyond the device's limits.
    pub fn new(shared: &Arc<Shared>, bytes: u64) -> Result<Memory> {
        let info = &shared.physical.info;
        if bytes > info.largest {
            return Err(Error::memory(format!(
                "vulkan: a piece of {bytes} bytes, and {} allows at most {} in one piece",
                info.name, info.largest
            )));
        }
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST;
        let make = || raw(shared, bytes, usage, shared.types.tensors);
        let raw = make().or_else(|e| {
            // What was dropped may still wait for work that is not done.
            shared.wait()?;
            make().map_err(|_| e)
        })?;
        Ok(Memory { shared: shared.clone(), raw, id: shared.next_id(), bytes })
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} bytes)", self.bytes)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.shared.queue().bury_memory(&self.shared, self.raw);
    }
}

/// A buffer with memory of a type.
pub fn raw(shared: &Shared, bytes: u64, usage: vk::BufferUsageFlags, memory_type: u32) -> Result<Raw> {
    let d = &shared.device;
    let info =
        vk::BufferCreateInfo::default().size(bytes).usage(usage).sharing_mode(vk::SharingMode::EXCLUSIVE);
    // SAFETY: the device is alive; a buffer that gets no memory is destroyed again before anything
    // refers to it.
    unsafe {
        let buffer = d.create_buffer(&info, None).map_err(|e| error("making a buffer", e))?;
        let needs = d.get_buffer_memory_requirements(buffer);
        let bound = (|| {
            if needs.memory_type_bits & (1 << memory_type) == 0 {
                return Err(Error::unsupported("vulkan: no memory of the wanted type can hold a buffer"));
            }
            let info =
                vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(memory_type);
            let memory =
                d.allocate_memory(&info, None).map_err(|e| error(&format!("{bytes} bytes of memory"), e))?;
            if let Err(e) = d.bind_buffer_memory(buffer, memory, 0) {
                d.free_memory(memory, None);
                return Err(error("giving a buffer its memory", e));
            }
            Ok(memory)
        })();
        match bound {
            Ok(memory) => Ok(Raw { buffer, memory }),
            Err(e) => {
                d.destroy_buffer(buffer, None);
                Err(e)
            }
        }
    }
}

/// Memory that host and device see, always mapped: for uploads, downloads and the numbers of
/// launches.
pub struct Chunk {
    pub raw: Raw,
    pub bytes: u64,
    at: *mut u8,
}

// SAFETY: the mapping is plain memory, reached through `&mut` or by one thread that knows that the
// device is done with it.
unsafe impl Send for Chunk {}
// SAFETY: as above; through a shared reference the mapping is only read.
unsafe impl Sync for Chunk {}

impl Chunk {
    pub fn new(shared: &Shared, bytes: u64, memory_type: u32) -> Result<Chunk> {
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST;
        let raw = raw(shared, bytes, usage, memory_type)?;
        // SAFETY: the memory is of a type that the host sees, is not mapped yet, and has this many
        // bytes.
        let at =
            unsafe { shared.device.map_memory(raw.memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()) };
        match at {
            Ok(at) => Ok(Chunk { raw, bytes, at: at.cast() }),
            Err(e) => {
                destroy(shared, raw);
                Err(error("mapping memory", e))
            }
        }
    }
    /// All bytes are 0.
    pub fn clear(&mut self) {
        // SAFETY: the mapping has as many bytes, and no one else uses them.
        unsafe { self.at.write_bytes(0, self.bytes as usize) }
    }
    /// The bytes, which have a value. The device must not be writing them.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the mapping has as many bytes, set by `clear` at least; they are not written
        // while they are borrowed, as a copy to them has the value itself.
        unsafe { std::slice::from_raw_parts(self.at, self.bytes as usize) }
    }
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the borrow is the only one.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.bytes as usize) }
    }
    /// Writes for the device. It must not be using these bytes.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        assert!(offset + bytes.len() as u64 <= self.bytes, "a chunk is as large as what is written to it");
        // SAFETY: the range was just checked to be inside of the mapping.
        unsafe {
            self.at.add(offset as usize).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }
    /// Reads what the device wrote. It must be done with it.
    pub fn read(&self, bytes: &mut [u8]) {
        assert!(bytes.len() as u64 <= self.bytes, "a chunk is as large as what is read from it");
        // SAFETY: the range was just checked to be inside of the mapping.
        unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(self.at, bytes.len()) }
    }
}

/// Destroys a buffer that is not used any more.
pub fn destroy(shared: &Shared, raw: Raw) {
    // SAFETY: the caller says that it is not used any more; freeing memory ends its mapping.
    unsafe {
        shared.device.destroy_buffer(raw.buffer, None);
        shared.device.free_memory(raw.memory, None);
    }
}
