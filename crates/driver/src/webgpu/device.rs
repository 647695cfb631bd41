//! Adapters of `wgpu`, and an opened device: its limits, what its errors become, and how its loss
//! is seen.

use super::pipeline::Layouts;
use super::queue::Queue;
use crate::{Info, Kind};
use elinvar_core::ready::ready;
use elinvar_core::{Error, ErrorKind, Result};
use elinvar_kernel::emit::wgsl::{Dialect, Target};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// What everything that was made by a device shares.
pub struct Shared {
    pub info: Info,
    pub device: wgpu::Device,
    pub raw_queue: wgpu::Queue,
    /// Layouts of pipelines that were made.
    pub layouts: Mutex<HashMap<Vec<bool>, Arc<Layouts>>>,
    /// Buffers for reading that are not in use.
    pub readbacks: Mutex<Vec<wgpu::Buffer>>,
    queue: Mutex<Queue>,
    ids: AtomicU64,
    faults: Arc<Faults>,
}

/// What went wrong, and no call could return.
#[derive(Default)]
struct Faults {
    lost: OnceLock<String>,
    first: Mutex<Option<Error>>,
}

/// In a browser a program goes on when what it waits for is there, and cannot wait.
pub const IN_BROWSER: bool = cfg!(target_arch = "wasm32");

/// The system's own interface, so that a card is listed once.
const BACKENDS: wgpu::Backends = if IN_BROWSER {
    wgpu::Backends::BROWSER_WEBGPU
} else if cfg!(windows) {
    wgpu::Backends::DX12
} else if cfg!(target_vendor = "apple") {
    wgpu::Backends::METAL
} else {
    wgpu::Backends::VULKAN
};

/// The adapters of this machine, the fastest kind first.
///
/// # Errors
/// `DriverMissing` if there is none.
pub async fn adapters() -> Result<Vec<wgpu::Adapter>> {
    static INSTANCE: OnceLock<wgpu::Instance> = OnceLock::new();
    let instance = INSTANCE.get_or_init(|| {
        wgpu::Instance::new(wgpu::InstanceDescriptor {
            backends: BACKENDS,
            // Software devices say of themselves that they are not conformant.
            flags: wgpu::InstanceFlags::ALLOW_UNDERLYING_NONCOMPLIANT_ADAPTER,
            ..wgpu::InstanceDescriptor::new_without_display_handle()
        })
    });
    let mut all = instance.enumerate_adapters(BACKENDS).await;
    if all.is_empty() {
        return Err(Error::new(
            ErrorKind::DriverMissing,
            if IN_BROWSER {
                "webgpu: the browser has WebGPU, and no adapter for it on this machine"
            } else {
                "webgpu: this machine has no adapter; install the GPU's driver, or a software one (on Debian: apt-get \
                 install libvulkan1 mesa-vulkan-drivers)"
            },
        ));
    }
    // Stable: adapters of one kind stay in the order of the system.
    all.sort_by_key(|a| kind(a.get_info().device_type));
    Ok(all)
}

fn kind(t: wgpu::DeviceType) -> Kind {
    match t {
        wgpu::DeviceType::DiscreteGpu => Kind::Discrete,
        wgpu::DeviceType::IntegratedGpu => Kind::Integrated,
        wgpu::DeviceType::VirtualGpu => Kind::Virtual,
        wgpu::DeviceType::Cpu => Kind::Software,
        wgpu::DeviceType::Other => Kind::Other,
    }
}

/// What an adapter tells. Lanes have to be as many as the adapter's, or they exchange numbers
/// through shared memory.
pub fn info(adapter: &wgpu::Adapter) -> Info {
    let (i, l) = (adapter.get_info(), adapter.limits());
    let lanes = lanes(&i);
    Info {
        name: if i.name.is_empty() { "an adapter without a name".into() } else { i.name },
        kind: kind(i.device_type),
        driver: format!("{} {}, WebGPU over {}", i.driver, i.driver_info, i.backend),
        // WebGPU does not tell.
        memory: None,
        largest: l.max_storage_buffer_binding_size.min(l.max_buffer_size) / 4 * 4,
        alignment: u64::from(l.min_storage_buffer_offset_alignment.max(16)),
        subgroup: [lanes.unwrap_or(EMULATED_LANES); 2],
        compute_units: None,
        shared: l.max_compute_workgroup_storage_size,
        invocations: l.max_compute_invocations_per_workgroup.min(l.max_compute_workgroup_size_x),
        buffers: l.max_storage_buffers_per_shader_stage,
        f64: false,
        // Built: of words, and packed into words.
        i64: true,
        half: true,
        bytes: true,
        suballocates: false,
        max_loop_iterations: None,
        short: false,
        cp_async: false,
        queues: false,
        tma: false,
        mma_shapes: Vec::new(),
    }
}

/// No part of WebGPU, and only where it is over another interface.
const WIDE_NUMBERS: wgpu::Features = wgpu::Features::SHADER_F64.union(wgpu::Features::SHADER_INT64);

/// Lanes of kernels where a device's subgroups are of no fixed size: as many as most GPUs have.
const EMULATED_LANES: u32 = 32;

fn lanes(i: &wgpu::AdapterInfo) -> Option<u32> {
    (i.subgroup_min_size == i.subgroup_max_size && i.subgroup_min_size > 0).then_some(i.subgroup_min_size)
}

impl Shared {
    /// Opens a device, with all that its adapter can do, and says what kernels are emitted for
    /// until the device is probed: for arithmetic that lacks nothing.
    ///
    /// # Errors
    /// `Unsupported` if the adapter refuses.
    pub async fn open(adapter: &wgpu::Adapter) -> Result<(Arc<Shared>, Target)> {
        let (info, limits) = (info(adapter), adapter.limits());
        let wanted = wgpu::Features::TIMESTAMP_QUERY | wgpu::Features::SUBGROUP | WIDE_NUMBERS;
        // A browser's times are reads that cannot be waited for.
        let features = if IN_BROWSER { wgpu::Features::empty() } else { adapter.features() & wanted };
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("elinvar"),
            required_features: features,
            required_limits: limits.clone(),
            memory_hints: wgpu::MemoryHints::MemoryUsage,
            ..wgpu::DeviceDescriptor::default()
        };
        let (device, raw_queue) = adapter
            .request_device(&descriptor)
            .await
            .map_err(|e| Error::unsupported(refusal(&info.name, &e.to_string())))?;
        let faults = Arc::new(Faults::default());
        let seen = faults.clone();
        device.set_device_lost_callback(move |_, why| {
            // The first reason is the one.
            let _ = seen.lost.set(why);
        });
        let seen = faults.clone();
        device.on_uncaptured_error(Arc::new(move |e| {
            let mut first = seen.first.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert_with(|| error("work before", &e));
        }));
        let target = Target {
            dialect: if IN_BROWSER { Dialect::Tint } else { Dialect::Naga },
            subgroup: lanes(&adapter.get_info()).filter(|_| features.contains(wgpu::Features::SUBGROUP)),
            buffers: info.buffers,
            shared: info.shared,
            invocations: limits.max_compute_invocations_per_workgroup,
            group: [
                limits.max_compute_workgroup_size_x,
                limits.max_compute_workgroup_size_y,
                limits.max_compute_workgroup_size_z,
            ],
            ..Target::EXACT
        };
        let queue = Mutex::new(Queue::new(&device, &limits));
        let shared = Shared {
            info,
            device,
            raw_queue,
            layouts: Mutex::default(),
            readbacks: Mutex::default(),
            queue,
            ids: AtomicU64::new(1),
            faults,
        };
        Ok((Arc::new(shared), target))
    }

    /// The queue, locked.
    pub fn queue(&self) -> MutexGuard<'_, Queue> {
        // A panic inside leaves at worst work that is never submitted.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
    pub fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Relaxed)
    }
    /// Has it f64 and i64, to build a fused multiply-add from?
    pub fn has_wide_numbers(&self) -> bool {
        self.device.features().contains(WIDE_NUMBERS)
    }
    pub fn has_clock(&self) -> bool {
        self.device.features().contains(wgpu::Features::TIMESTAMP_QUERY)
    }

    /// Runs calls of `wgpu`, and gives the error that they caused. A browser tells it later: it is
    /// the error of a call that comes then.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`; `Unsupported` with what validation says.
    pub fn scoped<T>(&self, what: &str, f: impl FnOnce() -> T) -> Result<T> {
        use wgpu::ErrorFilter as E;
        if IN_BROWSER {
            let value = f();
            return self.check().map(|()| value);
        }
        let [memory, validation, internal] =
            [E::OutOfMemory, E::Validation, E::Internal].map(|e| self.device.push_error_scope(e));
        let value = f();
        let errors = [ready(internal.pop()), ready(validation.pop()), ready(memory.pop())];
        self.check()?;
        match errors.into_iter().flatten().next() {
            Some(e) => Err(error(what, &e)),
            None => Ok(value),
        }
    }
    /// # Errors
    /// `DeviceLost` if it is.
    pub fn is_there(&self) -> Result<()> {
        self.faults.lost.get().map_or(Ok(()), |why| Err(self.lost(why)))
    }
    /// That it is lost, in one sentence, whatever tells it first: its callback, or a read that
    /// failed.
    pub fn lost(&self, why: &str) -> Error {
        Error::new(ErrorKind::DeviceLost, format!("webgpu: {} was lost: {why}", self.info.name))
    }
    /// # Errors
    /// `DeviceLost` if it is; what went wrong in work that was given before.
    pub fn check(&self) -> Result<()> {
        self.is_there()?;
        match self.faults.first.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(e) => Err(e),
            None => Ok(()),
        }
    }

    /// Submits what was recorded; gives the number of the last submission.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn submit(&self) -> Result<u64> {
        self.queue().submit(self)
    }
    /// Submits what was recorded, and waits for all that was submitted.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn wait(&self) -> Result<()> {
        let last = self.submit()?;
        self.wait_for(last)
    }
    /// Is a submission done?
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn reached(&self, submission: u64) -> Result<bool> {
        self.poll(wgpu::PollType::Poll)?;
        Ok(self.queue().done() >= submission)
    }
    /// Waits for a submission.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn wait_for(&self, submission: u64) -> Result<()> {
        let index = self.queue().index(submission);
        let Some(index) = index else { return self.check() };
        if IN_BROWSER {
            self.check()?;
            return Err(Error::unsupported(
                "webgpu: a browser lets no program wait for the device; read by `to_vec_async`, `item_async` or \
                 `to_host_async`",
            ));
        }
        self.poll(wgpu::PollType::Wait { submission_index: Some(index), timeout: None })
    }
    fn poll(&self, how: wgpu::PollType) -> Result<()> {
        let polled = self.device.poll(how);
        self.check()?;
        match polled {
            Ok(_) => Ok(()),
            Err(e) => Err(Error::new(ErrorKind::DeviceLost, format!("webgpu: {}: {e}", self.info.name))),
        }
    }
}

/// Why an adapter is not opened. A browser's reason is an exception, and its trace begins in the
/// next line.
fn refusal(name: &str, said: &str) -> String {
    let exception = said.strip_prefix("JsValue(").and_then(|said| said.lines().next());
    format!("webgpu: {name}: {}", exception.map_or(said, |line| line.trim_end_matches(')')))
}

/// An error of `wgpu`.
fn error(what: &str, e: &wgpu::Error) -> Error {
    match e {
        wgpu::Error::OutOfMemory { .. } => Error::memory(format!("webgpu: {what}: {e}")),
        wgpu::Error::Validation { description, .. } | wgpu::Error::Internal { description, .. } => {
            Error::unsupported(format!("webgpu: {what}: {description}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::refusal;

    #[test]
    fn a_refusal_is_a_sentence() {
        for (said, gives) in [
            ("not enough limits", "webgpu: card: not enough limits"),
            ("JsValue(OperationError: too few\nundefined)", "webgpu: card: OperationError: too few"),
            ("JsValue(\"no\")", "webgpu: card: \"no\""),
        ] {
            assert_eq!(refusal("card", said), gives);
        }
    }
}
