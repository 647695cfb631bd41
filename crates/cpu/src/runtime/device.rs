//! The CPU device: an instruction set, a thread pool, and limits for fusion and weight packing.
//!
//! Cheap to clone; clones share the thread pool.

use super::memory_limit;
use super::plan::{FUSE_FROM_ELEMENTS, PACK_UP_TO_BYTES};
use super::thread_pool::ThreadPool;
use elinvar_core::{DeviceKind, Error, Precision, Result, Settings};
use elinvar_ops::DeviceOf;
use elinvar_simd::isa::Isa;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// The CPU backend.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu;

/// Which processor features and how many threads work is done with. Neither changes a bit of any
/// result.
///
/// Cheap to clone; clones share their threads.
#[derive(Clone)]
pub struct CpuDevice {
    inner: Handle,
}

/// Every tensor has one, so every op makes and drops one.
#[derive(Clone)]
enum Handle {
    /// The shared device: it is never freed, and its handles are not counted.
    Shared(&'static Inner),
    /// Another.
    Own(Arc<Inner>),
}

impl Deref for Handle {
    type Target = Inner;
    #[inline]
    fn deref(&self) -> &Inner {
        match self {
            Handle::Shared(inner) => inner,
            Handle::Own(inner) => inner,
        }
    }
}

struct Inner {
    isa: Isa,
    threads: usize,
    /// None for one thread: the caller's.
    pool: Option<Arc<ThreadPool>>,
    /// Elements from which maps are put off.
    fuses_from: usize,
    /// Bytes of weights that may be packed unasked.
    packs_up_to: usize,
    /// How products are computed where no scope says it.
    precision: Precision,
}

impl Inner {
    fn new(isa: Isa, threads: usize, pool: Option<Arc<ThreadPool>>) -> Inner {
        let (fuses_from, packs_up_to, precision) = (FUSE_FROM_ELEMENTS, PACK_UP_TO_BYTES, Precision::Exact);
        Inner { isa, threads, pool, fuses_from, packs_up_to, precision }
    }
    /// Is all of it the same, so that one can stand for the other?
    fn is_as(&self, other: &Inner) -> bool {
        let of = |i: &Inner| (i.isa, i.threads, i.fuses_from, i.packs_up_to, i.precision);
        of(self) == of(other)
    }
    /// The same, with the same threads.
    fn copied(&self) -> Inner {
        let &Inner { isa, threads, ref pool, fuses_from, packs_up_to, precision } = self;
        Inner { isa, threads, pool: pool.clone(), fuses_from, packs_up_to, precision }
    }
}

impl CpuDevice {
    /// A device of its own, with this instruction set and so many threads.
    ///
    /// # Errors
    /// `InvalidArgument` if there are no threads, or the system gives none.
    pub fn new(isa: Isa, threads: usize) -> Result<CpuDevice> {
        if threads == 0 {
            return Err(Error::argument("cpu: work needs one thread at least"));
        }
        Ok(CpuDevice::of(Inner::new(isa, threads, new_pool(threads)?)))
    }
    fn of(inner: Inner) -> CpuDevice {
        CpuDevice { inner: Handle::Own(Arc::new(inner)) }
    }
    /// The device that everybody shares: the best instruction set and one thread per processor, or
    /// what the environment says ([`Settings::environment`]).
    ///
    /// # Errors
    /// `InvalidArgument` if the environment says something that does not exist here.
    pub fn shared() -> Result<CpuDevice> {
        static SHARED: OnceLock<Result<CpuDevice>> = OnceLock::new();
        static INNER: OnceLock<Inner> = OnceLock::new();
        let shared = || {
            let settings = Settings::default().complete(DeviceKind::Cpu)?;
            let own = CpuDevice::of_settings(&settings, None)?;
            if let Some(limit) = settings.memory_limit {
                memory_limit::set_if_none(limit);
            }
            Ok(CpuDevice { inner: Handle::Shared(INNER.get_or_init(|| own.inner.copied())) })
        };
        SHARED.get_or_init(shared).clone()
    }
    /// A device with these settings, completed from the environment. It shares the threads of
    /// [`CpuDevice::shared`] if it has as many. All devices of a process share one memory, and so
    /// its limit: the first device that is built with a limit sets it for all.
    ///
    /// # Errors
    /// As [`Settings::complete`]; `InvalidArgument` if the processor has not the instruction set,
    /// the system gives no threads, or the limit is another than that of a device that was built
    /// before.
    pub fn build(settings: &Settings) -> Result<CpuDevice> {
        let all = settings.clone().complete(DeviceKind::Cpu)?;
        // What is wrong in the environment may be overridden here.
        let shared = CpuDevice::shared().ok();
        let built = CpuDevice::of_settings(&all, shared.as_ref())?;
        if let Some(limit) = settings.memory_limit {
            memory_limit::claim(limit)?;
        }
        Ok(match shared {
            Some(shared) if shared.inner.is_as(&built.inner) => shared,
            Some(_) | None => built,
        })
    }
    /// With these settings, and the threads of `shared` if that has as many.
    fn of_settings(s: &Settings, shared: Option<&CpuDevice>) -> Result<CpuDevice> {
        let isa = match &s.isa {
            None => Isa::best(),
            Some(name) => name.parse().map_err(|e: Error| e.at("cpu"))?,
        };
        let threads = s
            .threads
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
        let pool = match shared.filter(|shared| shared.threads() == threads) {
            Some(shared) => shared.inner.pool.clone(),
            None => new_pool(threads)?,
        };
        let mut inner = Inner::new(isa, threads, pool);
        inner.fuses_from = s.fuse_from.unwrap_or(inner.fuses_from);
        inner.packs_up_to = s.pack_up_to.unwrap_or(inner.packs_up_to);
        inner.precision = s.precision.unwrap_or(inner.precision);
        Ok(CpuDevice::of(inner))
    }
    /// The same threads, with another size from which maps are put off so that several in a row
    /// take one pass over memory (elements of the result; `usize::MAX`: never). As all else here it
    /// changes how long work takes, and no bit.
    #[must_use]
    pub fn fuse_from(self, elements: usize) -> CpuDevice {
        self.with(|inner| inner.fuses_from = elements)
    }
    /// The same threads, with another limit for weights that are packed unasked: a matrix that was
    /// the right factor of several products of up to 2048 rows, or the weights of several
    /// convolutions of up to 4096 windows, and did not change, is kept a second time in the order
    /// in which it is read, if all such copies take no more than so many bytes then (0: never), and
    /// memory is not limited. They count as memory in use, and go when the matrix changes or is
    /// dropped. Larger ones are packed when that is asked for (`Tensor::prepack`).
    #[must_use]
    pub fn pack_up_to(self, bytes: usize) -> CpuDevice {
        self.with(|inner| inner.packs_up_to = bytes)
    }
    /// The same threads, with another precision for products where no scope says it
    /// ([`Precision::scope`]).
    #[must_use]
    pub fn with_precision(self, precision: Precision) -> CpuDevice {
        self.with(|inner| inner.precision = precision)
    }
    fn with(self, change: impl FnOnce(&mut Inner)) -> CpuDevice {
        let mut inner = self.inner.copied();
        change(&mut inner);
        CpuDevice::of(inner)
    }
    /// How products are computed where no scope says it.
    pub fn precision(&self) -> Precision {
        self.inner.precision
    }
    /// Elements from which maps are put off.
    pub fn fuses_from(&self) -> usize {
        self.inner.fuses_from
    }
    /// Bytes of weights that may be packed unasked.
    pub fn packs_up_to(&self) -> usize {
        self.inner.packs_up_to
    }
    /// The instruction set.
    pub fn isa(&self) -> Isa {
        self.inner.isa
    }
    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.inner.threads
    }
    /// Numbers of f32 in a vector register.
    pub fn lanes(&self) -> usize {
        elinvar_simd::vector::lanes::<f32>(self.isa())
    }
    /// The threads, if there are more than the caller's.
    pub(crate) fn pool(&self) -> Option<&ThreadPool> {
        self.inner.pool.as_deref()
    }
}

/// Threads; none for one, which is the caller's.
fn new_pool(threads: usize) -> Result<Option<Arc<ThreadPool>>> {
    (threads > 1).then(|| ThreadPool::new(threads).map(Arc::new)).transpose()
}

impl Default for CpuDevice {
    /// The shared device; one with the best instruction set and one thread if the environment asks
    /// for something that does not exist.
    fn default() -> Self {
        CpuDevice::shared().unwrap_or_else(|_| CpuDevice::of(Inner::new(Isa::best(), 1, None)))
    }
}

/// All of them are the same memory.
impl PartialEq for CpuDevice {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for CpuDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuDevice({}, {} threads)", self.isa(), self.threads())
    }
}

impl fmt::Display for CpuDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cpu")
    }
}

impl DeviceOf for CpuDevice {
    type Backend = Cpu;
}
