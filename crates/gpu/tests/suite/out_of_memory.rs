//! A driver that runs out of memory when it is told to.

use elinvar_core::{Error, NativeWork, Result};
use elinvar_driver::{Driver, Info, Interp, Kind, Slice, VendorGemm};
use elinvar_kernel::Kernel;
use elinvar_kernel::interp::Launch;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The interpreter with so many bytes.
#[derive(Debug)]
pub struct Short {
    inner: Interp,
    info: Info,
    pub left: Arc<AtomicU64>,
    has_clock: bool,
}

/// Memory that is counted.
#[derive(Debug)]
pub struct Counted {
    inner: <Interp as Driver>::Memory,
    bytes: u64,
    left: Arc<AtomicU64>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.left.fetch_add(self.bytes, Relaxed);
    }
}

impl Short {
    pub fn new(bytes: u64) -> Short {
        let inner = Interp::open(0).unwrap();
        Short { info: inner.info().clone(), inner, left: Arc::new(AtomicU64::new(bytes)), has_clock: true }
    }
    /// One that has no clock.
    pub fn without_clock() -> Short {
        Short { has_clock: false, ..Short::new(1 << 30) }
    }
    /// One that says of itself that it is a graphics card.
    pub fn card() -> Short {
        let mut card = Short::new(1 << 30);
        card.info.kind = Kind::Discrete;
        card
    }
}

fn inner<'a>(s: &Slice<'a, Short>) -> Slice<'a, Interp> {
    Slice { memory: &s.memory.inner, offset: s.offset, len: s.len }
}

impl Driver for Short {
    const NAME: &'static str = "short";
    type Memory = Counted;
    type Module = <Interp as Driver>::Module;
    type Timestamp = <Interp as Driver>::Timestamp;
    type Graph = Infallible;
    type Event = ();
    type Pinned = Vec<u8>;
    type Transfer = Vec<u8>;

    fn list() -> Result<Vec<Info>> {
        Interp::list()
    }
    fn open(_: usize) -> Result<Short> {
        Ok(Short::new(1 << 20))
    }
    fn info(&self) -> &Info {
        &self.info
    }
    fn queue(&self) -> Result<Option<Short>> {
        Ok(None)
    }
    fn record(&self) -> Result<()> {
        Ok(())
    }
    fn after(&self, (): &()) -> Result<()> {
        Ok(())
    }
    fn reached(&self, (): &()) -> Result<bool> {
        Ok(true)
    }
    fn wait_for(&self, (): &()) -> Result<()> {
        Ok(())
    }
    fn allocate(&self, bytes: u64) -> Result<Counted> {
        let take = self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes));
        take.map_err(|left| Error::memory(format!("{bytes} bytes, and {left} are left")))?;
        Ok(Counted { inner: self.inner.allocate(bytes)?, bytes, left: self.left.clone() })
    }
    fn compile(&self, kernel: &Kernel) -> Result<Self::Module> {
        self.inner.compile(kernel)
    }
    fn launch(&self, m: &Self::Module, b: &[Slice<'_, Self>], l: &Launch, n: Option<&[u8]>) -> Result<()> {
        self.inner.launch(m, &b.iter().map(inner).collect::<Vec<_>>(), l, n)
    }
    fn multiply(&self, _: &VendorGemm, _: [Slice<'_, Self>; 3]) -> Result<bool> {
        // There is no vendor library.
        Ok(false)
    }
    fn write(&self, to: Slice<'_, Self>, bytes: &[u8]) -> Result<()> {
        self.inner.write(inner(&to), bytes)
    }
    fn copy(&self, from: Slice<'_, Self>, to: Slice<'_, Self>) -> Result<()> {
        self.inner.copy(inner(&from), inner(&to))
    }
    fn receive(&self, _: &Self, _: Slice<'_, Self>, _: Slice<'_, Self>) -> Result<bool> {
        Ok(false)
    }
    fn lend(&self, _: &[Slice<'_, Self>], _: NativeWork<'_>) -> Result<bool> {
        Ok(false)
    }
    fn read(&self, from: Slice<'_, Self>, bytes: &mut [u8]) -> Result<()> {
        self.inner.read(inner(&from), bytes)
    }
    fn pin(&self, bytes: usize) -> Result<Vec<u8>> {
        self.inner.pin(bytes)
    }
    fn upload(&self, from: Vec<u8>, to: Slice<'_, Self>) -> Result<Vec<u8>> {
        self.inner.upload(from, inner(&to))
    }
    fn download(&self, from: Slice<'_, Self>, to: Vec<u8>) -> Result<Vec<u8>> {
        self.inner.download(inner(&from), to)
    }
    fn wait(&self) -> Result<()> {
        self.inner.wait()
    }
    fn mark(&self) -> Result<Self::Timestamp> {
        if !self.has_clock {
            return Err(Error::unsupported("short: it has no clock"));
        }
        self.inner.mark()
    }
    fn between(&self, from: &Self::Timestamp, to: &Self::Timestamp) -> Result<Duration> {
        self.inner.between(from, to)
    }
}
