//! The CPU device: an instruction set, a thread pool, and limits for fusion and weight packing.
//!
//! Cheap to clone; clones share the thread pool. The environment variables that set its defaults
//! are read here.

use super::plan::{FUSE_FROM_ELEMENTS, PACK_UP_TO_BYTES};
use super::thread_pool::ThreadPool;
use elinvar_core::{Error, Precision, Result};
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

/// The environment's wish for an instruction set: `plain`, `avx2`, `avx512`.
const ISA_VARIABLE: &str = "ELINVAR_CPU_ISA";
/// The environment's wish for a number of threads.
const THREADS_VARIABLE: &str = "ELINVAR_THREADS";
/// The environment's wish for [`CpuDevice::fuse_from`].
const FUSE_VARIABLE: &str = "ELINVAR_FUSE_FROM";
/// The environment's wish for [`CpuDevice::pack_up_to`].
const PACK_VARIABLE: &str = "ELINVAR_PACK_UP_TO";

impl Inner {
    fn new(isa: Isa, threads: usize, pool: Option<Arc<ThreadPool>>) -> Inner {
        let (fuses_from, packs_up_to, precision) = (FUSE_FROM_ELEMENTS, PACK_UP_TO_BYTES, Precision::Exact);
        Inner { isa, threads, pool, fuses_from, packs_up_to, precision }
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
        let pool = (threads > 1).then(|| ThreadPool::new(threads).map(Arc::new)).transpose()?;
        Ok(CpuDevice::of(Inner::new(isa, threads, pool)))
    }
    fn of(inner: Inner) -> CpuDevice {
        CpuDevice { inner: Handle::Own(Arc::new(inner)) }
    }
    /// The device that everybody shares: the best instruction set and one thread per processor, or
    /// what the environment says by `ELINVAR_CPU_ISA`, `ELINVAR_THREADS`, `ELINVAR_FUSE_FROM` and
    /// `ELINVAR_PACK_UP_TO`.
    ///
    /// # Errors
    /// `InvalidArgument` if the environment says something that does not exist here.
    pub fn shared() -> Result<CpuDevice> {
        static SHARED: OnceLock<Result<CpuDevice>> = OnceLock::new();
        static INNER: OnceLock<Inner> = OnceLock::new();
        let shared = || {
            let own = CpuDevice::from_environment()?;
            Ok(CpuDevice { inner: Handle::Shared(INNER.get_or_init(|| own.inner.copied())) })
        };
        SHARED.get_or_init(shared).clone()
    }
    fn from_environment() -> Result<CpuDevice> {
        let said = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        let isa = match said(ISA_VARIABLE) {
            None => Isa::best(),
            Some(name) => name.parse().map_err(|e: Error| e.at(ISA_VARIABLE))?,
        };
        let threads = match said(THREADS_VARIABLE) {
            None => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            Some(n) => n.parse().ok().filter(|n| *n > 0).ok_or_else(|| {
                Error::argument(format!("{THREADS_VARIABLE} is \"{n}\", and should be a number of threads"))
            })?,
        };
        let number = |name: &str, of: &str| {
            let wrong =
                |n: &str| Error::argument(format!("{name} is \"{n}\", and should be a number of {of}"));
            said(name).map(|n| n.parse().map_err(|_| wrong(&n))).transpose()
        };
        let mut device = CpuDevice::new(isa, threads)?;
        if let Some(n) = number(FUSE_VARIABLE, "elements")? {
            device = device.fuse_from(n);
        }
        if let Some(n) = number(PACK_VARIABLE, "bytes")? {
            device = device.pack_up_to(n);
        }
        Ok(device)
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
    /// The threads, if there are more than the caller's.
    pub(crate) fn pool(&self) -> Option<&ThreadPool> {
        self.inner.pool.as_deref()
    }
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
