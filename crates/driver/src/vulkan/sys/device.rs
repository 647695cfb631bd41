//! An opened Vulkan device: its timeline semaphore, its memory types, its pipeline cache.

use super::error::error;
use super::instance::{Physical, instance};
use super::memory::{self, Chunk};
use super::queue::Queue;
use crate::Slice;
use crate::vulkan::Vulkan;
use ash::{khr, vk};
use elinvar_core::{Error, Result};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What everything that was made by a device shares.
pub struct Shared {
    pub physical: Physical,
    pub(super) device: ash::Device,
    pub(super) cache: vk::PipelineCache,
    pub(super) types: Types,
    pub(super) timeline: vk::Semaphore,
    pub(super) raw_queue: vk::Queue,
    pub(super) family: u32,
    pub(super) calls: CallCounts,
    queue: Mutex<Queue>,
    ids: AtomicU64,
    /// Bytes of the pipeline cache when it was last written to its file.
    saved: AtomicU64,
}

/// Functions that were called to give the device work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCalls {
    /// `vkQueueSubmit`.
    pub submissions: u64,
    /// `vkCmd...`, and those that allocate and write a launch's descriptor set.
    pub commands: u64,
}

/// The same, as it is counted.
#[derive(Debug, Default)]
pub struct CallCounts {
    pub(super) submissions: AtomicU64,
    pub(super) commands: AtomicU64,
}

impl CallCounts {
    pub fn now(&self) -> HostCalls {
        HostCalls { submissions: self.submissions.load(Relaxed), commands: self.commands.load(Relaxed) }
    }
}

/// Which type of memory is for what.
#[derive(Clone, Copy, Debug)]
pub struct Types {
    /// Tensors: near the device.
    pub tensors: u32,
    /// What the host writes.
    pub up: u32,
    /// What the host reads: cached, if there is such.
    pub down: u32,
}

impl Types {
    fn of(memory: &vk::PhysicalDeviceMemoryProperties) -> Result<Types> {
        use vk::MemoryPropertyFlags as F;
        let all = &memory.memory_types[..memory.memory_type_count as usize];
        let heap = |t: &vk::MemoryType| memory.memory_heaps[t.heap_index as usize].size;
        // Of those that fit, the one in the largest heap; of equal heaps the first, as Vulkan lists
        // the faster first.
        let best = |wanted: F| {
            let fits = all.iter().enumerate().filter(|(_, t)| t.property_flags.contains(wanted));
            fits.max_by_key(|(i, t)| (heap(t), std::cmp::Reverse(*i))).map(|(i, _)| i as u32)
        };
        let none = || Error::unsupported("vulkan: the device has no memory that the host can see");
        let host = F::HOST_VISIBLE | F::HOST_COHERENT;
        let up = best(host).ok_or_else(none)?;
        Ok(Types {
            tensors: best(F::DEVICE_LOCAL).unwrap_or(up),
            up,
            down: best(host | F::HOST_CACHED).unwrap_or(up),
        })
    }
}

impl Shared {
    /// Opens a device.
    ///
    /// # Errors
    /// `Unsupported` if it lacks what every kernel needs; what the driver reports.
    pub fn open(mut physical: Physical) -> Result<Shared> {
        let i = instance()?;
        let name = &physical.info.name;
        if physical.version < vk::API_VERSION_1_2 {
            return Err(Error::unsupported(format!("vulkan: {name} has no Vulkan 1.2; a newer driver may")));
        }
        let (Some(family), true) = (physical.family, physical.timeline) else {
            return Err(Error::unsupported(format!(
                "vulkan: {name} has no queue for computations, or no timeline semaphores"
            )));
        };
        // Conversions from and to f16 are arithmetic on it.
        physical.info.half &= physical.half_arithmetic;
        let info = &physical.info;
        let features = vk::PhysicalDeviceFeatures::default().shader_float64(info.f64).shader_int64(info.i64);
        let mut f11 = vk::PhysicalDeviceVulkan11Features::default().storage_buffer16_bit_access(info.half);
        let mut f12 = vk::PhysicalDeviceVulkan12Features::default()
            .storage_buffer8_bit_access(info.bytes)
            .shader_float16(info.half)
            .vulkan_memory_model(!info.mma_shapes.is_empty())
            .timeline_semaphore(true);
        let mut matrices = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default().cooperative_matrix(true);
        let extensions = [khr::cooperative_matrix::NAME.as_ptr()];
        let priorities = [1.0];
        let queues =
            [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&priorities)];
        let mut create = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_features(&features)
            .push_next(&mut f11)
            .push_next(&mut f12);
        if !info.mma_shapes.is_empty() {
            create = create.enabled_extension_names(&extensions).push_next(&mut matrices);
        }
        // SAFETY: the instance lives as long as the process; the device was listed by it, and has
        // the features, the family and the extensions that are asked for. What was made before
        // something fails is destroyed by `Drop` below, or here.
        unsafe {
            let types = Types::of(&i.raw.get_physical_device_memory_properties(physical.raw))?;
            let device = i
                .raw
                .create_device(physical.raw, &create, None)
                .map_err(|e| error(&format!("opening {name}"), e))?;
            let raw_queue = device.get_device_queue(family, 0);
            let made = (|| {
                let mut kind = vk::SemaphoreTypeCreateInfo::default()
                    .semaphore_type(vk::SemaphoreType::TIMELINE)
                    .initial_value(0);
                let timeline = device
                    .create_semaphore(&vk::SemaphoreCreateInfo::default().push_next(&mut kind), None)?;
                let pool = vk::CommandPoolCreateInfo::default()
                    .queue_family_index(family)
                    .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
                match device.create_command_pool(&pool, None) {
                    Ok(pool) => Ok((timeline, pool)),
                    Err(e) => {
                        device.destroy_semaphore(timeline, None);
                        Err(e)
                    }
                }
            })();
            let (timeline, pool) = made.map_err(|e: vk::Result| {
                device.destroy_device(None);
                error(&format!("opening {name}"), e)
            })?;
            let mut shared = Shared {
                device,
                cache: vk::PipelineCache::null(),
                types,
                timeline,
                raw_queue,
                family,
                calls: CallCounts::default(),
                queue: Mutex::new(Queue::new(pool)),
                ids: AtomicU64::new(1),
                saved: AtomicU64::new(0),
                physical,
            };
            shared.load_cache();
            Ok(shared)
        }
    }

    /// The queue, locked. Nothing that holds this device may be dropped meanwhile.
    pub fn queue(&self) -> MutexGuard<'_, Queue> {
        // A panic inside leaves at worst work that is never submitted.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// What it was called for until now.
    pub fn host_calls(&self) -> HostCalls {
        self.calls.now()
    }
    pub(super) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Relaxed)
    }

    /// Submits what was recorded, and waits for all that was submitted.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn wait(&self) -> Result<()> {
        let last = self.queue().submit(self)?;
        self.wait_for(last)?;
        self.queue().reap(self)
    }
    /// The submission that has everything that was given to the queue until now.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn record(&self) -> Result<u64> {
        self.queue().submit(self)
    }
    /// Is a submission done?
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn reached(&self, submission: u64) -> Result<bool> {
        Ok(self.done()? >= submission)
    }
    /// Waits for a submission.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn wait_for(&self, submission: u64) -> Result<()> {
        let (semaphores, values) = ([self.timeline], [submission]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        // SAFETY: the device and its timeline are alive.
        unsafe { self.device.wait_semaphores(&info, u64::MAX) }.map_err(|e| error("waiting", e))
    }
    /// The last submission that is done.
    pub(super) fn done(&self) -> Result<u64> {
        // SAFETY: as above.
        unsafe { self.device.get_semaphore_counter_value(self.timeline) }
            .map_err(|e| error("asking what is done", e))
    }

    /// Memory for uploads, at least this large.
    pub(super) fn chunk(&self, bytes: u64, memory_type: u32) -> Result<Chunk> {
        Chunk::new(self, bytes, memory_type)
    }

    // The cache of pipelines. It saves time and is never needed, so what goes wrong with its file
    // is not an error.

    fn cache_path(&self) -> Option<PathBuf> {
        Some(crate::cache_dir()?.join(format!("{}.pipelines", self.physical.cache_name)))
    }
    fn load_cache(&mut self) {
        let bytes = self.cache_path().and_then(|p| std::fs::read(p).ok()).unwrap_or_default();
        self.saved.store(bytes.len() as u64, Relaxed);
        let make = |bytes: &[u8]| {
            let info = vk::PipelineCacheCreateInfo::default().initial_data(bytes);
            // SAFETY: the device is alive. Drivers check the header of the data, which names device
            // and driver; files are named by the same, and are only ever replaced as a whole.
            unsafe { self.device.create_pipeline_cache(&info, None) }
        };
        self.cache = make(&bytes).or_else(|_| make(&[])).unwrap_or(vk::PipelineCache::null());
    }
    /// Writes the cache to its file if it has grown.
    pub fn save_cache(&self) {
        if self.cache == vk::PipelineCache::null() {
            return;
        }
        // SAFETY: the cache belongs to this device.
        let Ok(bytes) = (unsafe { self.device.get_pipeline_cache_data(self.cache) }) else { return };
        if bytes.len() as u64 <= self.saved.load(Relaxed) {
            return;
        }
        let Some(path) = self.cache_path() else { return };
        let dir = path.parent().unwrap_or(&path);
        let written = std::fs::create_dir_all(dir).map_err(Error::from).and_then(|()| {
            elinvar_io::atomic_write(&path, |file| file.write_all(&bytes).map_err(Error::from))
        });
        if written.is_ok() {
            self.saved.store(bytes.len() as u64, Relaxed);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: nothing else has this device: what it made holds it. It is idle (or lost) before
        // anything is destroyed.
        unsafe {
            // Idle or lost: both allow what follows.
            let _ = self.device.device_wait_idle();
            self.save_cache();
            let queue = std::mem::replace(
                self.queue.get_mut().unwrap_or_else(PoisonError::into_inner),
                Queue::new(vk::CommandPool::null()),
            );
            queue.destroy(self);
            self.device.destroy_pipeline_cache(self.cache, None);
            self.device.destroy_semaphore(self.timeline, None);
            self.device.destroy_device(None);
        }
    }
}

/// Destroys a chunk that is not used any more.
pub(super) fn destroy_chunk(shared: &Shared, chunk: Chunk) {
    memory::destroy(shared, chunk.raw);
}

impl Shared {
    /// Brings memory to the host, after everything that was recorded; waits for it.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn read(&self, from: Slice<'_, Vulkan>, bytes: &mut [u8]) -> Result<()> {
        let (chunk, number) = self.queue().fetch(self, from)?;
        match self.wait_for(number) {
            Ok(()) => {
                chunk.read(bytes);
                self.queue().give_back(self, chunk);
                Ok(())
            }
            Err(e) => {
                self.queue().bury_memory(self, chunk.raw);
                Err(e)
            }
        }
    }
}
