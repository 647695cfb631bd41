//! Vulkan: any GPU of any vendor, and software devices.
//!
//! The loader is looked for at run time, so a program starts without it, and says what is missing
//! when a device is asked for. A kernel is emitted as SPIR-V for this very device: what the
//! device's arithmetic cannot do exactly, as probed when it is opened, is built from what it can.

mod sys;

pub use sys::{
    Graph, HostCalls, Memory, PinnedMemory, Timestamp, Transfer, use_validation, validation_messages,
};

use crate::loop_limit::{Whole, cut_launches};
use crate::{Driver, Info, Slice, VendorGemm, one_queue, pinned_transfers, probe, shared_queue};
use elinvar_core::ready::ready;
use elinvar_core::{Error, Result};
use elinvar_kernel::Kernel;
use elinvar_kernel::emit::spirv;
use elinvar_kernel::interp::Launch;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;
use sys::{Pipeline, Shared};

/// The cache of pipelines is written to its file when it has grown by this part: a program of many
/// kernels writes it some twenty times, and one of a few does write it.
const SAVE_GROWTH: u32 = 4;

/// An opened Vulkan device.
pub struct Vulkan {
    shared: Arc<Shared>,
    info: Info,
    arithmetic: spirv::Device,
    /// Pipelines that were made, and so many when the cache was written.
    pipelines: [AtomicU32; 2],
}

impl fmt::Debug for Vulkan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vulkan({})", self.info().name)
    }
}

/// A place in the queue: the submission that has everything before it.
#[derive(Debug)]
pub struct Event(u64);

impl Vulkan {
    /// What the device's arithmetic does, as its properties say and as it was probed.
    pub fn arithmetic(&self) -> &spirv::Device {
        &self.arithmetic
    }
    /// Functions of Vulkan that were called to give this device work, since it was opened.
    pub fn host_calls(&self) -> HostCalls {
        self.shared.host_calls()
    }
    /// The same device, but launches are cut as if it ended loops after so many passes.
    #[must_use]
    pub fn with_loop_limit(mut self, passes: u64) -> Vulkan {
        self.info.max_loop_iterations = Some(passes);
        self
    }
    /// The same device, but kernels are emitted as if its arithmetic were this: what it is said to
    /// lack is built. For tests of what is built, and of devices that lack it.
    #[must_use]
    pub fn with_arithmetic(mut self, arithmetic: spirv::Device) -> Vulkan {
        self.info.short = !arithmetic.fused && !arithmetic.wide;
        self.arithmetic = arithmetic;
        self
    }
}

impl Drop for Vulkan {
    fn drop(&mut self) {
        // What was given to it is done when its memory is gone.
        drop(self.shared.wait());
    }
}

impl Driver for Vulkan {
    const NAME: &'static str = "vulkan";
    type Memory = Memory;
    type Timestamp = Timestamp;
    type Graph = Graph;
    type Event = Event;
    type Pinned = PinnedMemory;
    type Transfer = Transfer;

    cut_launches!();
    one_queue!();
    shared_queue!();
    pinned_transfers!();

    fn list() -> Result<Vec<Info>> {
        Ok(sys::physical()?.into_iter().map(|p| p.info).collect())
    }
    fn open(number: usize) -> Result<Vulkan> {
        let physical = crate::numbered(Self::NAME, sys::physical()?, number)?;
        let arithmetic = physical.floats;
        let shared = Arc::new(Shared::open(physical)?);
        let info = shared.physical.info.clone();
        let mut device = Vulkan { shared, info, arithmetic, pipelines: [const { AtomicU32::new(0) }; 2] };
        let found = ready(probe::arithmetic(&device))?;
        device.arithmetic = spirv::Device {
            fused: found.fused,
            division: found.division,
            square_root: found.square_root,
            compares_subnormals: found.compares_subnormals,
            adds_subnormals: found.adds_subnormals,
            fuses_subnormals: found.fuses_subnormals,
            rounds_subnormals: found.rounds_subnormals,
            converts_subnormals: found.converts_subnormals,
            keeps_zeros: found.keeps_zeros,
            ..arithmetic
        };
        device.info.short = !device.arithmetic.fused && !device.arithmetic.wide;
        device.info.max_loop_iterations = ready(probe::loop_limit(&device))?;
        Ok(device)
    }
    fn record(&self) -> Result<Event> {
        self.shared.record().map(Event)
    }
}

impl Whole for Vulkan {
    type Compiled = Pipeline;
    fn compile_whole(&self, kernel: &Kernel) -> Result<Pipeline> {
        crate::requirements::check(Self::NAME, self.info(), kernel)?;
        let words = spirv::emit(kernel, &self.arithmetic)
            .map_err(|e| Error::unsupported(format!("vulkan: {e} ({})", self.info().name)))?;
        let module = Pipeline::new(&self.shared, kernel, &words, !self.arithmetic.keeps_zeros)?;
        let [made, saved] = &self.pipelines;
        let all = made.fetch_add(1, Relaxed) + 1;
        if (all - saved.load(Relaxed).min(all)) * SAVE_GROWTH >= all {
            saved.store(all, Relaxed);
            self.shared.save_cache();
        }
        Ok(module)
    }
    fn launch_whole(
        &self,
        module: &Pipeline,
        buffers: &[Slice<'_, Self>],
        launch: &Launch,
        args: Option<&[u8]>,
    ) -> Result<()> {
        self.shared.queue().launch(&self.shared, module, buffers, launch, args)
    }
}
