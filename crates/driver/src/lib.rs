//! Drivers: devices as thin as they can be, with memory, kernels and a queue.
//!
//! A [`Driver`] is one opened device and one of its queues, to which work is given in order; each
//! piece of work sees what those before it wrote, and only reads wait for it. [`Driver::queue`]
//! gives the same device with another queue: between the two, events are the only order. What a
//! driver does not know: tensors, dtypes, which memory is free, which kernel to take. All of that
//! is in the backend, once for all drivers.
//!
//! * [`cuda`]: NVIDIA's GPUs, through their driver's own library; looked for at run time.
//! * [`hip`]: AMD's GPUs, through their driver's own libraries; looked for at run time.
//! * `metal`, with the feature of this name: the GPUs of Apple's systems, and compiled there only.
//! * [`vulkan`]: any GPU of any vendor, and software devices; the loader is looked for at run time.
//! * [`webgpu`], with the feature of this name: WebGPU, by the crate `wgpu`; the only one in a
//!   browser.
//! * [`interp`]: kernels interpreted, with bounds and races checked; for tests of the layers above.
//! * [`null`]: does nothing, and tells what it was asked for.
//!
//! A new driver is a folder here, with its `unsafe` in `sys`.

#[cfg(not(target_arch = "wasm32"))]
pub mod cuda;
#[cfg(not(target_arch = "wasm32"))]
pub mod hip;
pub mod interp;
mod loop_limit;
#[cfg(all(feature = "metal", any(target_vendor = "apple", test)))]
pub mod metal;
pub mod null;
mod params;
#[allow(dead_code, reason = "some questions are those of drivers that are features, or of some systems")]
mod probe;
mod requirements;
mod shared_queue;
#[cfg(not(target_arch = "wasm32"))]
mod streams;
#[cfg(not(target_arch = "wasm32"))]
mod submitted;
#[cfg(not(target_arch = "wasm32"))]
mod sys;
mod touched;
mod vendor_gemm;
#[cfg(not(target_arch = "wasm32"))]
pub mod vulkan;
#[cfg(feature = "webgpu")]
pub mod webgpu;

#[cfg(not(target_arch = "wasm32"))]
pub use cuda::Cuda;
#[cfg(not(target_arch = "wasm32"))]
pub use hip::Hip;
pub use interp::Interp;
#[cfg(all(feature = "metal", target_vendor = "apple"))]
pub use metal::Metal;
pub use null::Null;
#[cfg(not(target_arch = "wasm32"))]
pub use streams::StreamDevice;
pub use vendor_gemm::VendorGemm;
#[cfg(not(target_arch = "wasm32"))]
pub use vulkan::Vulkan;
#[cfg(feature = "webgpu")]
pub use webgpu::WebGpu;

// Tests of a part that users of the crate do not see share modules with those of the whole.
#[cfg(test)]
extern crate self as elinvar_driver;

use elinvar_core::{Error, ErrorKind, NativeWork, Result};
use elinvar_kernel::Kernel;
use elinvar_kernel::interp::Launch;
use elinvar_kernel::ir::MmaShape;
use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::task::Waker;
use std::time::Duration;

/// Where what was found out about devices is kept between runs: `ELINVAR_CACHE_DIR`, or the user's
/// directory for such. A user whose home does not exist gets none.
pub fn cache_dir() -> Option<PathBuf> {
    let var = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    var("ELINVAR_CACHE_DIR")
        .or_else(|| Some(var("XDG_CACHE_HOME")?.join("elinvar")))
        .or_else(|| Some(var("HOME").filter(|home| home.is_dir())?.join(".cache").join("elinvar")))
}

/// What kind of device it is, from the fastest to the slowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A card with memory of its own.
    Discrete,
    /// A part of the processor, sharing its memory.
    Integrated,
    /// A part of a card, lent to a virtual machine.
    Virtual,
    /// The processor itself, playing a GPU.
    Software,
    /// Something else.
    Other,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Discrete => "discrete GPU",
            Kind::Integrated => "integrated GPU",
            Kind::Virtual => "virtual GPU",
            Kind::Software => "software",
            Kind::Other => "other",
        })
    }
}

/// Compute units where a device does not tell how many it has: those of an H100, on which all
/// thresholds that follow them were measured. It holds for software devices too, so that what is
/// tested on them is what runs there.
pub const DEFAULT_COMPUTE_UNITS: u32 = 132;

/// What a driver tells about a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Its name.
    pub name: String,
    /// What kind of device it is.
    pub kind: Kind,
    /// The driver and its version.
    pub driver: String,
    /// Bytes of memory for tensors; none if the device does not tell.
    pub memory: Option<u64>,
    /// Bytes of the largest piece of memory that a kernel can be given.
    pub largest: u64,
    /// What every piece of memory that a kernel is given begins at a multiple of, in bytes.
    pub alignment: u64,
    /// Invocations that run in step: as few, and as many.
    pub subgroup: [u32; 2],
    /// Compute units: streaming multiprocessors, by NVIDIA's word. None if the device does not
    /// tell, or has none to speak of, as software has; kernels are then chosen as for
    /// [`DEFAULT_COMPUTE_UNITS`].
    pub compute_units: Option<u32>,
    /// Bytes of memory that a workgroup may share.
    pub shared: u32,
    /// Invocations of a workgroup, at most.
    pub invocations: u32,
    /// Buffers of a kernel, at most.
    pub buffers: u32,
    /// Has it 64-bit floats?
    pub f64: bool,
    /// Has it 64-bit integers?
    pub i64: bool,
    /// Can it load and store 16-bit floats?
    pub half: bool,
    /// Can it load and store bytes?
    pub bytes: bool,
    /// May a launch read one part of a piece of memory and write another? Elsewhere the driver
    /// copies what is read, so every tensor should have a piece of its own.
    pub suballocates: bool,
    /// Passes that the loops of an invocation may take, all together, where there is an end to
    /// them: a loop of n iterations takes n + 1 ([`elinvar_kernel::loops`] tells more). A launch of
    /// more is cut into several, and what cannot be cut is refused.
    pub max_loop_iterations: Option<u64>,
    /// Should kernels be short? Where a fused multiply-add is built from integers, a formula is
    /// thousands of instructions, and compilers are slow with them, or fail.
    pub short: bool,
    /// Does it copy to shared memory while a kernel goes on? Elsewhere such copies are loads and
    /// stores, and nothing is gained.
    pub cp_async: bool,
    /// Has it several queues that work side by side?
    pub queues: bool,
    /// Does it fetch TMA tiles to shared memory, and multiply them there?
    pub tma: bool,
    /// What its tensor cores multiply; none without such.
    pub mma_shapes: Vec<MmaShape>,
}

/// Some bytes of a device's memory.
#[derive(Debug)]
pub struct Slice<'a, D: Driver> {
    /// The memory.
    pub memory: &'a D::Memory,
    /// Where they begin.
    pub offset: u64,
    /// How many.
    pub len: u64,
}

impl<D: Driver> Clone for Slice<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<D: Driver> Copy for Slice<'_, D> {}

/// Something that a queue is given.
#[derive(Debug)]
pub enum Call<'a, D: Driver> {
    /// As [`Driver::launch`] takes it.
    Launch {
        /// The kernel.
        module: &'a D::Module,
        /// Its buffers.
        buffers: Vec<Slice<'a, D>>,
        /// How many workgroups there are, and their parameters.
        launch: &'a Launch,
        /// The numbers that are too many for parameters.
        args: Option<&'a [u8]>,
    },
    /// As [`Driver::multiply`] takes it; it was asked before whether it can be done.
    Multiply {
        /// Sizes and strides.
        product: VendorGemm,
        /// x, w and y.
        operands: [Slice<'a, D>; 3],
    },
    /// As [`Driver::copy`] takes it.
    Copy {
        /// The source.
        from: Slice<'a, D>,
        /// The target.
        to: Slice<'a, D>,
    },
}

/// Calls that a device keeps, to make them again and again.
pub trait CallGraph<D: Driver>: Sized + Send + Sync + fmt::Debug {
    /// Has the device keep calls, which are not made yet. `None` if it cannot: then the calls are
    /// made one by one each time.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    fn capture(device: &D, calls: &[Call<'_, D>]) -> Result<Option<Self>>;
    /// Makes all calls, in their order. Their modules and memory must still be there.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    fn replay(&self, device: &D) -> Result<()>;
}

/// Devices that keep no calls: there is no queue to fill, or it is filled as fast call by call.
impl<D: Driver> CallGraph<D> for Infallible {
    fn capture(_: &D, _: &[Call<'_, D>]) -> Result<Option<Infallible>> {
        Ok(None)
    }
    fn replay(&self, _: &D) -> Result<()> {
        match *self {}
    }
}

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use shared_queue::pinned_transfers;
pub(crate) use shared_queue::{one_queue, shared_queue};

/// The device of a number among all that there are, of which there is one at least.
///
/// # Errors
/// `UnknownDevice`.
pub(crate) fn numbered<T>(driver: &str, all: Vec<T>, number: usize) -> Result<T> {
    let last = all.len().saturating_sub(1);
    all.into_iter().nth(number).ok_or_else(|| {
        let what = if last == 0 { String::new() } else { format!(" to {driver}:{last}") };
        let text = format!("there is no {driver}:{number}; this machine has {driver}:0{what}");
        Error::new(ErrorKind::UnknownDevice, text)
    })
}

/// Bytes of the host that a device copies from and to by itself.
pub trait Pinned: AsRef<[u8]> + AsMut<[u8]> + Send + Sync + fmt::Debug + 'static {}

impl<T: AsRef<[u8]> + AsMut<[u8]> + Send + Sync + fmt::Debug + 'static> Pinned for T {}

/// A copy that is under way, with the pinned memory that it needs. Dropped, it is waited for.
pub trait PendingCopy<P>: Send + Sync + fmt::Debug + 'static {
    /// Waits for the copy; gives the memory back.
    ///
    /// # Errors
    /// `DeviceLost`.
    fn wait(self) -> Result<P>;
    /// Is the copy done? If not, the task is woken when it is. `None` if the device wakes no task:
    /// then a thread has to wait.
    ///
    /// # Errors
    /// `DeviceLost`.
    fn poll_done(&self, _waker: &Waker) -> Option<Result<bool>> {
        None
    }
}

/// Devices that have copied when they have been asked to.
impl PendingCopy<Vec<u8>> for Vec<u8> {
    fn wait(self) -> Result<Vec<u8>> {
        Ok(self)
    }
}

/// An opened device, and one of its queues.
///
/// All methods may be called from several threads; the order of the queue is the order of the
/// calls. Memory and modules are the device's: all of its queues may use them, in an order that
/// events make.
pub trait Driver: Sized + Send + Sync + fmt::Debug + 'static {
    /// The word before the number in a device's name.
    const NAME: &'static str;
    /// May the host wait for the device? A browser lets no program wait: reads are futures there,
    /// and nothing is measured.
    const WAITS: bool = true;
    /// Memory of the device. Freed when dropped, but not before the work that was given to the
    /// device's queues until then is done.
    type Memory: Send + Sync + fmt::Debug;
    /// A kernel, ready to be started.
    type Module: Send + Sync + fmt::Debug;
    /// A place in the queue, with the time at which the device came there.
    type Timestamp: Send + Sync + fmt::Debug;
    /// Calls that the device keeps; `Infallible` if it keeps none.
    type Graph: CallGraph<Self>;
    /// A place in a queue, for which others can wait.
    type Event: Send + Sync + fmt::Debug;
    /// Memory of the host that the device reaches.
    type Pinned: Pinned;
    /// A copy from or to such memory.
    type Transfer: PendingCopy<Self::Pinned>;

    /// The devices of this machine, the fastest kind first; `open` counts in this order.
    ///
    /// # Errors
    /// `DriverMissing` with what to install if there is no driver.
    fn list() -> Result<Vec<Info>>;
    /// Opens a device.
    ///
    /// # Errors
    /// `DriverMissing`, `UnknownDevice`; `Unsupported` if it lacks what every kernel needs.
    fn open(number: usize) -> Result<Self>;
    /// What is known of this device.
    fn info(&self) -> &Info;

    /// The same device with a queue of its own, and memory and modules in common. `None` if the
    /// device has one queue. When it is dropped, it waits for its work.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    fn queue(&self) -> Result<Option<Self>>;
    /// The place behind everything that was given to the queue until now.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    fn record(&self) -> Result<Self::Event>;
    /// What the queue is given from now on comes behind an event of one of the device's queues.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    fn after(&self, event: &Self::Event) -> Result<()>;
    /// Did the device come to an event?
    ///
    /// # Errors
    /// `DeviceLost`.
    fn reached(&self, event: &Self::Event) -> Result<bool>;
    /// Waits until the device comes to an event.
    ///
    /// # Errors
    /// `DeviceLost`.
    fn wait_for(&self, event: &Self::Event) -> Result<()>;

    /// Memory for this queue; others use it behind an event of this one. Nothing is said about what
    /// it holds.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn allocate(&self, bytes: u64) -> Result<Self::Memory>;
    /// Translates a kernel.
    ///
    /// # Errors
    /// `Unsupported` if the kernel needs what the device lacks; the sentence says what.
    fn compile(&self, kernel: &Kernel) -> Result<Self::Module>;
    /// Starts a kernel with these buffers, in the kernel's order, and behind them, if there are
    /// any, the numbers that are too many for parameters, as bytes.
    ///
    /// # Errors
    /// `DeviceLost`, `OutOfMemory`.
    fn launch(
        &self,
        module: &Self::Module,
        buffers: &[Slice<'_, Self>],
        launch: &Launch,
        args: Option<&[u8]>,
    ) -> Result<()>;
    /// A product of x and w to y, by a library of the device's vendor. `false`, and nothing was
    /// done, if there is none or it cannot do this product; that is always so, or never.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    fn multiply(&self, product: &VendorGemm, operands: [Slice<'_, Self>; 3]) -> Result<bool>;
    /// Writes bytes to memory, in the queue's order. The bytes may be changed when this returns.
    ///
    /// # Errors
    /// `DeviceLost`, `OutOfMemory`.
    fn write(&self, to: Slice<'_, Self>, bytes: &[u8]) -> Result<()>;
    /// Copies as many bytes as the target has, in the queue's order.
    ///
    /// # Errors
    /// `DeviceLost`, `OutOfMemory`.
    fn copy(&self, from: Slice<'_, Self>, to: Slice<'_, Self>) -> Result<()>;
    /// Copies as many bytes as the target, which is this device's, has from memory of another
    /// device, after all that the other device was given, and before all that it will be. `false`,
    /// and nothing was done, if there is no way but by the host.
    ///
    /// # Errors
    /// `DeviceLost`, `OutOfMemory`.
    fn receive(&self, other: &Self, from: Slice<'_, Self>, to: Slice<'_, Self>) -> Result<bool>;
    /// Has `work` give work to the queue by another library of the device's vendor, which is told
    /// where these parts of memory are. `false`, and nothing was done, if there are no such
    /// libraries.
    ///
    /// # Errors
    /// Those of `work`; `DeviceLost`.
    fn lend(&self, parts: &[Slice<'_, Self>], work: NativeWork<'_>) -> Result<bool>;
    /// Reads bytes from memory, after everything that was given to the queue; waits for them.
    ///
    /// # Errors
    /// `DeviceLost`, `OutOfMemory`.
    fn read(&self, from: Slice<'_, Self>, bytes: &mut [u8]) -> Result<()>;
    /// So many bytes of pinned memory, all 0.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn pin(&self, bytes: usize) -> Result<Self::Pinned>;
    /// Copies as many bytes as the target has from pinned memory, in the queue's order, and does
    /// not wait for it.
    ///
    /// # Errors
    /// `DeviceLost`, `OutOfMemory`.
    fn upload(&self, from: Self::Pinned, to: Slice<'_, Self>) -> Result<Self::Transfer>;
    /// Copies memory to the first bytes of pinned memory, in the queue's order, and does not wait
    /// for it.
    ///
    /// # Errors
    /// `DeviceLost`, `OutOfMemory`.
    fn download(&self, from: Slice<'_, Self>, to: Self::Pinned) -> Result<Self::Transfer>;
    /// Waits for everything that was given to the queue.
    ///
    /// # Errors
    /// `DeviceLost`.
    fn wait(&self) -> Result<()>;

    /// Notes the time at which everything that was given to the queue until now is done.
    ///
    /// # Errors
    /// `Unsupported` if the device has no clock; `DeviceLost`, `OutOfMemory`.
    fn mark(&self) -> Result<Self::Timestamp>;
    /// The time from one mark to a later one, by the device's clock; waits until the device has
    /// come to both.
    ///
    /// # Errors
    /// `DeviceLost`.
    fn between(&self, from: &Self::Timestamp, to: &Self::Timestamp) -> Result<Duration>;
}
