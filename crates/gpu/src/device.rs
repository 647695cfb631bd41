//! A device of a driver: opened once per process and shared; its compiled kernels, by key.

use crate::allocator::{MemoryPool, Piece};
use crate::buffer::GpuBuffer;
use crate::capture::{self, CaptureId};
use crate::machine::machine;
use crate::queues::{Queue, Queues};
use crate::timeline::Timeline;
use crate::tune::{self, Tuner};
use crate::{Gpu, probe_f64_mma};
use elinvar_core::clock::Instant;
use elinvar_core::{
    Autotune, DType, DeviceKind, Error, ErrorKind, MemoryStats, Precision, Result, Scalar, Settings,
};
use elinvar_driver::{Driver, Info};
use elinvar_gpu_kernels::launch::{Key, Machine, Work};
use elinvar_kernel::ir::{Access, MmaShape};
use elinvar_ops::DeviceOf;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::mem::{Discriminant, discriminant};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

mod profiled;

/// A device, by its number. Cheap to clone; all that name one device share it.
pub struct GpuDevice<D: Driver> {
    number: usize,
    precision: Precision,
    /// The device, or why it could not be opened: every use gets that error.
    opened: Result<Arc<OpenDevice<D>>>,
}

/// What is shared by all that name a device.
pub(crate) struct OpenDevice<D: Driver> {
    /// With its first queue.
    pub(crate) driver: D,
    /// All of its queues.
    pub(crate) queues: Queues<D>,
    pub(crate) pool: Arc<MemoryPool<D>>,
    /// Kernels that were compiled.
    modules: Mutex<HashMap<Key, CompiledKernel<D>>>,
    pub(crate) launches: AtomicU64,
    timeline: Timeline<D>,
    tuner: Tuner,
    /// What it was opened with.
    settings: Settings,
    /// Do its tensor cores compute chains of fma, as was seen by trying?
    f64_fma_chain: OnceLock<bool>,
    /// Numbers that were asked for before: an op with a number as operand (`x * 2.0`) asks for it
    /// every time.
    args: Mutex<HashMap<ScalarKey, GpuBuffer<D>>>,
}

/// A kernel, and which of its buffers it writes.
pub(crate) struct CompiledKernel<D: Driver> {
    pub(crate) module: Arc<D::Module>,
    pub(crate) writes: Arc<[bool]>,
}

impl<D: Driver> Clone for CompiledKernel<D> {
    fn clone(&self) -> Self {
        CompiledKernel { module: self.module.clone(), writes: self.writes.clone() }
    }
}

/// One number in memory: what was asked for, by its bits, and its type.
type ScalarKey = (Discriminant<Scalar>, u64, DType);
/// So many are kept.
const MAX_CACHED_SCALARS: usize = 1024;

fn locked<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // Tables in which each entry is whole: a panic elsewhere does not spoil them.
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The devices that were opened, of all drivers.
static OPENED: Mutex<Vec<(TypeId, usize, Arc<dyn Any + Send + Sync>)>> = Mutex::new(Vec::new());

impl<D: Driver> GpuDevice<D> {
    /// The device of this number, as [`Driver::list`] counts; opened if it is not open yet.
    ///
    /// # Errors
    /// `DriverMissing`, `UnknownDevice`, `Unsupported`; `InvalidArgument` if the environment sets
    /// what does not fit.
    pub fn open(number: usize) -> Result<GpuDevice<D>> {
        GpuDevice::build(number, &Settings::default())
    }
    /// The device of this number with these settings, completed from the environment. A process
    /// opens a device once and shares it, with the memory, pool and tuning of its first use;
    /// another limit of its memory is taken if it was built with none. The precision is the
    /// handle's.
    ///
    /// # Errors
    /// Those of [`GpuDevice::open`] and [`Settings::complete`]; `InvalidArgument` if the device is
    /// open with other settings, or if its pool is larger than it is; `OutOfMemory` if its pool
    /// cannot be had. Nothing has changed then.
    pub fn build(number: usize, settings: &Settings) -> Result<GpuDevice<D>> {
        let all = settings.clone().complete(kind::<D>())?;
        let precision = all.precision.unwrap_or_default();
        let name = format!("{}:{number}", D::NAME);
        let mut open = locked(&OPENED);
        let known = open.iter().find(|(t, n, _)| *t == TypeId::of::<D>() && *n == number);
        let opened = match known.and_then(|(_, _, o)| o.clone().downcast::<OpenDevice<D>>().ok()) {
            Some(opened) => {
                settings.agree(&name, &opened.settings)?;
                opened
            }
            None => {
                let opened =
                    Arc::new(OpenDevice::new(D::open(number)?, all, &name).map_err(|e| e.at(&name))?);
                open.push((TypeId::of::<D>(), number, opened.clone()));
                opened
            }
        };
        if let Some(limit) = settings.memory_limit {
            opened.pool.claim_limit(&name, limit)?;
        }
        Ok(GpuDevice { number, precision, opened: Ok(opened) })
    }
    /// A device of its own, with a queue and memory of its own, and the settings of the
    /// environment.
    pub fn new(driver: D, number: usize) -> GpuDevice<D> {
        let fails = |e| GpuDevice { number, precision: Precision::Exact, opened: Err(e) };
        GpuDevice::with_settings(driver, number, &Settings::default()).unwrap_or_else(fails)
    }
    /// The same with these settings, completed from the environment.
    ///
    /// # Errors
    /// As [`Settings::complete`]; `InvalidArgument` if its pool is larger than the device,
    /// `OutOfMemory` if it cannot be had.
    pub fn with_settings(driver: D, number: usize, settings: &Settings) -> Result<GpuDevice<D>> {
        let all = settings.clone().complete(kind::<D>())?;
        let precision = all.precision.unwrap_or_default();
        let name = format!("{}:{number}", D::NAME);
        let opened = OpenDevice::new(driver, all, &name).map_err(|e| e.at(&name))?;
        Ok(GpuDevice { number, precision, opened: Ok(Arc::new(opened)) })
    }
    /// What the device was opened with: its settings, the environment's, and what they leave open.
    ///
    /// # Errors
    /// Why it could not be opened.
    pub fn settings(&self) -> Result<&Settings> {
        Ok(&self.opened()?.settings)
    }
    /// The same device, with another precision for products where no scope says it
    /// ([`Precision::scope`]).
    #[must_use]
    pub fn with_precision(self, precision: Precision) -> GpuDevice<D> {
        GpuDevice { precision, ..self }
    }
    /// How products are computed where no scope says it.
    pub fn precision(&self) -> Precision {
        self.precision
    }
    /// What is known of it.
    ///
    /// # Errors
    /// Why it could not be opened.
    pub fn info(&self) -> Result<&Info> {
        Ok(self.opened()?.driver.info())
    }
    /// The device as plans see it.
    ///
    /// # Errors
    /// Why it could not be opened.
    pub(crate) fn machine(&self) -> Result<Machine<'_>> {
        Ok(machine(self.info()?))
    }
    /// The driver, with the device's first queue.
    ///
    /// # Errors
    /// Why it could not be opened.
    pub fn driver(&self) -> Result<&D> {
        Ok(&self.opened()?.driver)
    }
    /// How many kernels were compiled for it.
    ///
    /// # Errors
    /// Why it could not be opened.
    pub fn kernels(&self) -> Result<usize> {
        Ok(locked(&self.opened()?.modules).len())
    }
    /// How many kernels were started on it.
    ///
    /// # Errors
    /// Why it could not be opened.
    pub fn launches(&self) -> Result<u64> {
        Ok(self.opened()?.launches.load(Relaxed))
    }
    pub(crate) fn opened(&self) -> Result<&Arc<OpenDevice<D>>> {
        self.opened.as_ref().map_err(Clone::clone)
    }

    pub(crate) fn tuner(&self) -> Result<&Tuner> {
        Ok(&self.opened()?.tuner)
    }

    /// Are sums of f64 by its tensor cores chains of fma? Of a device that has such units it is
    /// tried, the first time that it is needed.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub(crate) fn has_f64_fma_chain(&self) -> Result<bool> {
        let o = self.opened()?;
        if !o.driver.info().mma_shapes.contains(&MmaShape::F64_FMA_CHAIN) {
            return Ok(false);
        }
        if let Some(&known) = o.f64_fma_chain.get() {
            return Ok(known);
        }
        let seen = self.unrecorded(|| probe_f64_mma::is_fma_chain(self))?;
        Ok(*o.f64_fma_chain.get_or_init(|| seen))
    }

    // Memory

    /// Memory for so many bytes.
    pub(crate) fn take(&self, bytes: usize) -> Result<Piece<D>> {
        let o = self.opened()?;
        match capture::with(o, |r| r.memory.clone()) {
            Some(memory) => memory.take(&o.pool, &o.current(), bytes as u64),
            None => o.pool.take(&o.current(), bytes as u64),
        }
    }
    pub(crate) fn stats(&self) -> Result<MemoryStats> {
        Ok(self.opened()?.pool.stats())
    }
    pub(crate) fn set_limit(&self, limit: Option<u64>) -> Result<()> {
        self.opened()?.pool.set_limit(limit);
        Ok(())
    }
    pub(crate) fn release(&self) -> Result<()> {
        let o = self.opened()?;
        locked(&o.args).clear();
        o.pool.release();
        o.wait()
    }

    /// A number in memory: the one that was made before, or what `make` makes.
    pub(crate) fn number(
        &self,
        value: Scalar,
        dtype: DType,
        make: impl FnOnce() -> Result<GpuBuffer<D>>,
    ) -> Result<GpuBuffer<D>> {
        let o = self.opened()?;
        let bits = match value {
            Scalar::Float(v) => v.to_bits(),
            Scalar::Int(v) => v as u64,
            Scalar::Bool(v) => u64::from(v),
        };
        let number = (discriminant(&value), bits, dtype);
        if let Some(known) = locked(&o.args).get(&number) {
            return Ok(known.share());
        }
        // The next caller may not be part of what is recorded now.
        let made = self.unrecorded(make)?;
        let mut all = locked(&o.args);
        // A program that asks for ever new numbers has no use for the old ones.
        if all.len() >= MAX_CACHED_SCALARS {
            all.clear();
        }
        all.insert(number, made.share());
        Ok(made)
    }

    // Work

    /// How long work takes: by the device's clock, or by the host's if it has none.
    pub(crate) fn time(&self, work: impl Fn() -> Result<()>) -> Result<Duration> {
        let o = self.opened()?;
        let mark = || match o.scope() {
            Some(queue) => queue.driver(o).mark(),
            None => o.driver.mark(),
        };
        match mark() {
            Ok(from) => {
                work()?;
                o.driver.between(&from, &mark()?)
            }
            Err(e) if e.kind() == ErrorKind::Unsupported => {
                o.wait()?;
                let from = Instant::now();
                work()?;
                o.wait()?;
                Ok(from.elapsed())
            }
            Err(e) => Err(e),
        }
    }
    /// Compiles the kernel of a work, so that starting it cannot fail for that.
    pub(crate) fn prepare(&self, work: &Work<'_>) -> Result<()> {
        self.opened()?.module(work).map(drop)
    }
    // Queues

    /// The queue whose scope this thread is in; `None`: the first.
    pub(crate) fn scope(&self) -> Option<Arc<Queue<D>>> {
        self.opened().ok()?.scope()
    }
    /// Runs `f` in the scope of a queue, or of the first.
    pub(crate) fn within<T>(&self, queue: Option<&Arc<Queue<D>>>, f: impl FnOnce() -> T) -> T {
        match self.opened() {
            Ok(o) => o.within(queue, f),
            // Whatever it asks of the device fails.
            Err(_) => f(),
        }
    }

    // Recording

    /// What this thread records on this device.
    pub(crate) fn recording(&self) -> Option<CaptureId> {
        capture::with(self.opened().ok()?, |r| r.id.clone())
    }
    /// Can this thread do work now that belongs to a recording, or to none? Not if it records
    /// another.
    pub(crate) fn is_recorded(&self, mine: Option<&CaptureId>) -> bool {
        self.recording().is_none_or(|now| mine.is_some_and(|mine| mine.is(&now)))
    }
    /// Runs `f` as if this thread recorded nothing.
    pub(crate) fn unrecorded<T>(&self, f: impl FnOnce() -> T) -> T {
        capture::unrecorded(f)
    }
    /// # Errors
    /// `Unsupported` if this thread records, and the memory was there before: its tensor would get
    /// memory of the recording.
    pub(crate) fn may_move(&self, piece: &Arc<Piece<D>>) -> Result<()> {
        let stays = capture::with(self.opened()?, |r| !piece.is_of(&r.memory));
        if stays == Some(true) {
            return Err(Error::unsupported(format!(
                "{}: a function that is recorded changes memory in place that a deferred tensor still reads",
                D::NAME
            )));
        }
        Ok(())
    }
    /// # Errors
    /// `Unsupported` if this thread records: numbers are not there before the work is done.
    pub(crate) fn may_wait(&self) -> Result<()> {
        if self.recording().is_some() {
            return Err(Error::unsupported(format!(
                "{}: a function that is recorded cannot ask for numbers, and here they are needed: of indices whose range \
                 is not known it must be seen that they are in range",
                D::NAME
            )));
        }
        Ok(())
    }
}

/// The kind whose settings a driver's devices have. Those for tests have CUDA's.
fn kind<D: Driver>() -> DeviceKind {
    DeviceKind::ALL.into_iter().find(|kind| kind.to_string() == D::NAME).unwrap_or(DeviceKind::Cuda)
}

impl<D: Driver> OpenDevice<D> {
    /// # Errors
    /// `InvalidArgument` if a pool is larger than the device, `OutOfMemory` if it cannot be had.
    fn new(driver: D, mut settings: Settings, name: &str) -> Result<OpenDevice<D>> {
        settings.check_pool(&driver.info().name, driver.info().memory)?;
        let pool = MemoryPool::new(&settings, driver.info().suballocates);
        if let Some(bytes) = settings.pool_initial {
            pool.preallocate(&driver, bytes).map_err(|e| e.at("pool_initial"))?;
        }
        if !D::WAITS {
            settings.autotune = Some(Autotune::Off);
        }
        let autotune = *settings.autotune.get_or_insert_default();
        let device = tune::device_name::<D>(driver.info());
        let is_named = settings.tune_cache.is_some();
        settings.tune_cache = settings.tune_cache.or_else(|| tune::default_file(&device));
        Ok(OpenDevice {
            tuner: Tuner::new(autotune, settings.tune_cache.clone(), is_named, device)?,
            driver,
            queues: Queues::default(),
            pool,
            settings,
            modules: Mutex::default(),
            launches: AtomicU64::new(0),
            timeline: Timeline::new(name),
            f64_fma_chain: OnceLock::new(),
            args: Mutex::default(),
        })
    }
    pub(crate) fn module(&self, work: &Work<'_>) -> Result<CompiledKernel<D>> {
        if let Some(compiled) = locked(&self.modules).get(&work.key) {
            return Ok(compiled.clone());
        }
        // Two threads may compile the same kernel; the first one stays.
        let kernel = work.kernel();
        let writes = kernel.buffers.iter().map(|b| b.access != Access::Read).collect();
        let module = Arc::new(self.driver.compile(&kernel)?);
        self.timeline.name_module(&module, &kernel.name);
        let compiled = CompiledKernel { module, writes };
        Ok(locked(&self.modules).entry(work.key).or_insert(compiled).clone())
    }
}

impl<D: Driver> Clone for GpuDevice<D> {
    fn clone(&self) -> Self {
        GpuDevice { number: self.number, precision: self.precision, opened: self.opened.clone() }
    }
}

/// Devices are equal if they are the same opened device.
impl<D: Driver> PartialEq for GpuDevice<D> {
    fn eq(&self, other: &Self) -> bool {
        match (&self.opened, &other.opened) {
            (Ok(a), Ok(b)) => Arc::ptr_eq(a, b),
            (Err(_), Err(_)) => self.number == other.number,
            (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
        }
    }
}

/// Device number 0. If it cannot be opened, whatever is asked of it fails with the reason.
impl<D: Driver> Default for GpuDevice<D> {
    fn default() -> Self {
        match GpuDevice::open(0) {
            Ok(device) => device,
            Err(e) => GpuDevice { number: 0, precision: Precision::Exact, opened: Err(e) },
        }
    }
}

impl<D: Driver> fmt::Display for GpuDevice<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", D::NAME, self.number)
    }
}

impl<D: Driver> fmt::Debug for GpuDevice<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.opened {
            Ok(o) => write!(f, "{self} ({})", o.driver.info().name),
            Err(e) => write!(f, "{self} ({e})"),
        }
    }
}

impl<D: Driver> DeviceOf for GpuDevice<D> {
    type Backend = Gpu<D>;
}
