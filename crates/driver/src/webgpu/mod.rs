//! WebGPU, by the crate `wgpu`: natively over Vulkan, Direct3D 12 or Metal, whichever the system
//! has; in a browser, the browser's.
//!
//! **A browser lets no program wait.** Opening is a future there ([`WebGpu::prepare`]), reads are
//! transfers that wake a task, what waits is an error, and what was wrong with a call is told by a
//! later one.
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
use crate::{Driver, Info, Slice, VendorGemm, one_queue, probe, shared_queue};
use device::{IN_BROWSER, Shared};
use elinvar_core::ready::ready;
use elinvar_core::{Error, ErrorKind, Result};
use elinvar_kernel::Kernel;
use elinvar_kernel::emit::wgsl::{self, Fma, Target};
use elinvar_kernel::interp::Launch;
use pipeline::Pipeline;
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
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

    /// [`Driver::open`] that waits for nothing.
    ///
    /// # Errors
    /// As [`Driver::open`].
    pub async fn open_async(number: usize) -> Result<WebGpu> {
        let adapter = crate::numbered(Self::NAME, device::adapters().await?, number)?;
        let (shared, target) = Shared::open(&adapter).await?;
        let info = shared.info.clone();
        let mut device = WebGpu { shared, info, target };
        device.probe().await?;
        Ok(device)
    }
    /// Opens the browser's adapter, which takes a while that no program may wait for there:
    /// [`Driver::open`] gives it from then on. Elsewhere there is nothing to prepare.
    ///
    /// # Errors
    /// As [`Driver::open`].
    pub async fn prepare() -> Result<()> {
        // If it was lost since, there may be another one.
        if IN_BROWSER && WebGpu::prepared().is_err() {
            let device = WebGpu::open_async(0).await?;
            *prepared().lock().unwrap_or_else(PoisonError::into_inner) = Some(device);
        }
        Ok(())
    }
    /// The browser's adapter: all who open it share a device and its queue.
    fn prepared() -> Result<WebGpu> {
        let prepared = prepared().lock().unwrap_or_else(PoisonError::into_inner);
        let Some(WebGpu { shared, info, target }) = &*prepared else {
            let text =
                "webgpu: a browser's adapter is opened by `Device::webgpu_async`, before anything else";
            return Err(Error::new(ErrorKind::DriverMissing, text));
        };
        shared.is_there()?;
        Ok(WebGpu { shared: shared.clone(), info: info.clone(), target: *target })
    }

    /// What the device was found to do, as far as kernels depend on it.
    async fn probe(&mut self) -> Result<()> {
        let found = probe::arithmetic(self).await?;
        let contracts = probe::contracts(self).await?;
        // Mesa 25.0 contracts, and gets a long formula of such sums wrong; small numbers are not
        // converted exactly where they are not added so.
        let wide = self.shared.has_wide_numbers() && !contracts && found.adds_subnormals[0];
        self.target = Target {
            fma: match found.fused {
                true => Fma::Fused,
                false if wide => Fma::BuiltOfF64,
                false => Fma::Built,
            },
            division: found.division[0],
            square_root: found.square_root[0],
            adds_subnormals: found.adds_subnormals[0],
            fuses_subnormals: found.fuses_subnormals[0],
            rounds_subnormals: found.rounds_subnormals[0],
            contracts,
            keeps_zeros: found.keeps_zeros,
            ..self.target
        };
        if self.target.fma == Fma::BuiltOfF64 && !probe::fuses(self).await? {
            self.target.fma = Fma::Built;
        }
        self.info.short = self.target.fma == Fma::Built;
        self.info.max_loop_iterations = probe::loop_limit(self).await?;
        if let Some(lanes) = self.target.subgroup
            && !probe::lanes_are_neighbours(self, lanes).await?
        {
            self.target.subgroup = None;
        }
        Ok(())
    }
}

/// The browser's adapter, once it is opened.
fn prepared() -> &'static Mutex<Option<WebGpu>> {
    static PREPARED: Mutex<Option<WebGpu>> = Mutex::new(None);
    &PREPARED
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
    const WAITS: bool = !IN_BROWSER;
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
    shared_queue!();

    fn list() -> Result<Vec<Info>> {
        if IN_BROWSER {
            return Ok(vec![WebGpu::prepared()?.info.clone()]);
        }
        Ok(ready(device::adapters())?.iter().map(device::info).collect())
    }
    fn open(number: usize) -> Result<WebGpu> {
        if IN_BROWSER {
            return crate::numbered(Self::NAME, vec![WebGpu::prepared()?], number);
        }
        ready(WebGpu::open_async(number))
    }
    fn record(&self) -> Result<Event> {
        self.shared.submit().map(Event)
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
}

impl Whole for WebGpu {
    type Compiled = Pipeline;
    async fn fetch(&self, from: Slice<'_, Self>, bytes: &mut [u8]) -> Result<()> {
        if !IN_BROWSER {
            return self.read(from, bytes);
        }
        let from = Slice { len: bytes.len() as u64, ..from };
        let transfer = Transfer::of(&self.shared, from, Vec::new())?;
        std::future::poll_fn(|context| transfer.poll_done(context.waker())).await?;
        transfer.read(bytes)
    }
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
