//! WebGPU, by the crate `wgpu`: natively over Vulkan, Direct3D 12 or Metal, whichever the system
//! has.
//!
//! A kernel is emitted as WGSL for this very device: what WGSL does not promise, or the device does
//! not do exactly, as probed when it is opened, is built from what it does. Memory is words of 4
//! bytes: a copy of other lengths takes the bytes up to the next word along, which belong to no
//! other tensor.
//!
//! A launch may not read a buffer that it writes, wherever in it: what it would read is copied to a
//! buffer of its own before. Where each tensor has a buffer of its own there are no such launches
//! ([`Info::suballocates`]).

mod device;
mod memory;
mod pipeline;
mod queue;
mod sys;
mod timestamp;

pub use memory::{Memory, Transfer};
pub use timestamp::Timestamp;

use crate::loop_limit::{Whole, cut_launches};
use crate::{Driver, Info, Slice, VendorGemm, one_queue, probe};
use device::Shared;
use elinvar_core::{Error, Result};
use elinvar_kernel::Kernel;
use elinvar_kernel::emit::wgsl::{self, Fma, Target};
use elinvar_kernel::interp::Launch;
use pipeline::Pipeline;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// An opened WebGPU device.
pub struct WebGpu {
    shared: Arc<Shared>,
    info: Info,
    target: Target,
}

/// A place in the queue: the submission that has everything before it.
#[derive(Debug)]
pub struct Event(u64);

impl WebGpu {
    /// What kernels are emitted for: the device's limits, and its arithmetic as it was probed.
    pub fn target(&self) -> &Target {
        &self.target
    }
    /// The same device, but kernels are emitted as for this one: what it is said to lack is built.
    /// For tests of what is built.
    #[must_use]
    pub fn with_target(mut self, target: Target) -> WebGpu {
        self.info.short = target.fma == Fma::Built;
        self.target = target;
        self
    }
    /// Has the device be lost, as when a driver ends. For tests of what follows.
    pub fn lose(&self) {
        self.shared.device.destroy();
        // It is said by the next look at the device, whatever that gives.
        drop(self.shared.reached(0));
    }
    /// The text of a kernel for this device.
    ///
    /// # Errors
    /// `Unsupported` if the kernel needs what the device lacks; the sentence says what.
    pub fn wgsl(&self, kernel: &Kernel) -> Result<String> {
        crate::requirements::check(Self::NAME, self.info(), kernel)?;
        wgsl::emit(kernel, &self.target)
            .map_err(|e| Error::unsupported(format!("webgpu: {e} ({})", self.info.name)))
    }

    /// What the device was found to do, as far as kernels depend on it.
    fn probe(&mut self) -> Result<()> {
        let found = probe::arithmetic(self)?;
        self.target = Target {
            fma: if found.fused { Fma::Fused } else { Fma::Built },
            division: found.division[0],
            square_root: found.square_root[0],
            adds_subnormals: found.adds_subnormals[0],
            fuses_subnormals: found.fuses_subnormals[0],
            rounds_subnormals: found.rounds_subnormals[0],
            contracts: probe::contracts(self)?,
            keeps_zeros: found.keeps_zeros,
            ..self.target
        };
        self.info.short = !found.fused;
        self.info.max_loop_iterations = probe::loop_limit(self)?;
        if let Some(lanes) = self.target.subgroup
            && !probe::lanes_are_neighbours(self, lanes)?
        {
            self.target.subgroup = None;
        }
        Ok(())
    }
}

impl fmt::Debug for WebGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WebGpu({})", self.info().name)
    }
}

impl Drop for WebGpu {
    fn drop(&mut self) {
        // What was given to it is done when its memory is gone.
        drop(self.shared.wait());
    }
}

impl Driver for WebGpu {
    const NAME: &'static str = "webgpu";
    type Memory = Memory;
    type Timestamp = Timestamp;
    // Launches are recorded into command buffers anyway, many into one.
    type Graph = Infallible;
    type Event = Event;
    // A buffer that is mapped cannot be used by the device, so there is none that both see.
    type Pinned = Vec<u8>;
    type Transfer = Transfer;

    cut_launches!();
    one_queue!();

    fn list() -> Result<Vec<Info>> {
        Ok(device::adapters()?.iter().map(device::info).collect())
    }
    fn open(number: usize) -> Result<WebGpu> {
        let adapter = crate::numbered(Self::NAME, device::adapters()?, number)?;
        let (shared, target) = Shared::open(&adapter)?;
        let info = shared.info.clone();
        let mut device = WebGpu { shared, info, target };
        device.probe()?;
        Ok(device)
    }
    fn info(&self) -> &Info {
        &self.info
    }
    fn record(&self) -> Result<Event> {
        self.shared.submit().map(Event)
    }
    fn reached(&self, event: &Event) -> Result<bool> {
        self.shared.reached(event.0)
    }
    fn wait_for(&self, event: &Event) -> Result<()> {
        self.shared.wait_for(event.0)
    }
    fn allocate(&self, bytes: u64) -> Result<Memory> {
        Memory::new(&self.shared, bytes)
    }
    fn write(&self, to: Slice<'_, Self>, bytes: &[u8]) -> Result<()> {
        self.shared.queue().write(&self.shared, to, bytes)
    }
    fn copy(&self, from: Slice<'_, Self>, to: Slice<'_, Self>) -> Result<()> {
        self.shared.queue().copy(&self.shared, from, to)
    }
    fn read(&self, from: Slice<'_, Self>, bytes: &mut [u8]) -> Result<()> {
        let from = Slice { len: bytes.len() as u64, ..from };
        Transfer::of(&self.shared, from, Vec::new())?.read(bytes)
    }
    fn pin(&self, bytes: usize) -> Result<Vec<u8>> {
        Ok(vec![0; bytes])
    }
    fn upload(&self, from: Vec<u8>, to: Slice<'_, Self>) -> Result<Transfer> {
        // The bytes are copied for the queue before this returns.
        self.write(to, &from[..to.len as usize])?;
        Ok(Transfer::done(&self.shared, from))
    }
    fn download(&self, from: Slice<'_, Self>, to: Vec<u8>) -> Result<Transfer> {
        assert!(from.len <= to.len() as u64, "what is copied fits");
        Transfer::of(&self.shared, from, to)
    }
    fn wait(&self) -> Result<()> {
        self.shared.wait()
    }
    fn mark(&self) -> Result<Timestamp> {
        Timestamp::new(&self.shared)
    }
    fn between(&self, from: &Timestamp, to: &Timestamp) -> Result<Duration> {
        from.until(to)
    }
}

impl Whole for WebGpu {
    type Compiled = Pipeline;
    fn compile_whole(&self, kernel: &Kernel) -> Result<Pipeline> {
        Pipeline::new(&self.shared, kernel, &self.wgsl(kernel)?)
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
