//! The null device: does nothing, and tells what it was asked for. For tests of the layers above,
//! and for measuring what giving work to a device costs the host.

use crate::{CallGraph, Driver, Info, Interp, Slice, VendorGemm};
use elinvar_core::{Error, NativeWork, Result};
use elinvar_kernel::Kernel;
use elinvar_kernel::interp::Launch;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What a device was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// So many bytes of memory.
    Allocate(u64),
    /// A kernel of this name was translated.
    Compile(String),
    /// A kernel of this name was started, with so many workgroups.
    Launch(String, [u32; 3]),
    /// So many bytes were written.
    Write(u64),
    /// So many bytes were copied.
    Copy(u64),
    /// So many bytes were read: the host waited.
    Read(u64),
    /// The host waited.
    Wait,
    /// The time was noted.
    Timestamp,
    /// So many calls are kept.
    Graph(usize),
    /// So many calls were made at once.
    Replay(usize),
    /// Another queue was made.
    Queue,
    /// A queue, by its number, has to wait for another.
    After(u32, u32),
    /// A queue, by its number, copied so many bytes from or to pinned memory.
    Transfer(u32, u64),
}

impl Call {
    /// Does the host wait for the device?
    pub fn waits(&self) -> bool {
        match self {
            Call::Read(_) | Call::Wait => true,
            Call::Allocate(_)
            | Call::Compile(_)
            | Call::Launch(..)
            | Call::Write(_)
            | Call::Copy(_)
            | Call::Timestamp
            | Call::Graph(_)
            | Call::Replay(_)
            | Call::Queue
            | Call::After(..)
            | Call::Transfer(..) => false,
        }
    }
}

/// A device that records. Kernels are verified and then forgotten but for their names; what is read
/// is zeros.
#[derive(Debug)]
pub struct Null {
    info: Info,
    /// Which of the device's queues.
    queue: u32,
    /// Of all queues, and how many there are.
    calls: Arc<Mutex<Vec<Call>>>,
    queues: Arc<AtomicU32>,
}

impl Null {
    fn calls(&self) -> MutexGuard<'_, Vec<Call>> {
        // A list of whole entries: a panic elsewhere does not spoil it.
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn record_call(&self, call: Call) {
        self.calls().push(call);
    }
    /// What was asked for since the last time, in order.
    pub fn take(&self) -> Vec<Call> {
        std::mem::take(&mut *self.calls())
    }
}

impl Driver for Null {
    const NAME: &'static str = "null";
    /// How many bytes.
    type Memory = u64;
    /// The kernel's name.
    type Module = String;
    type Timestamp = ();
    /// How many calls.
    type Graph = usize;
    /// The number of its queue.
    type Event = u32;
    type Pinned = Vec<u8>;
    type Transfer = Vec<u8>;

    fn list() -> Result<Vec<Info>> {
        let like = |info: Info| Info { name: "null".into(), queues: true, ..info };
        Ok(Interp::list()?.into_iter().map(like).collect())
    }
    fn open(number: usize) -> Result<Null> {
        let info = crate::numbered(Self::NAME, Null::list()?, number)?;
        Ok(Null { info, queue: 0, calls: Arc::default(), queues: Arc::new(AtomicU32::new(1)) })
    }
    fn info(&self) -> &Info {
        &self.info
    }
    fn queue(&self) -> Result<Option<Null>> {
        self.record_call(Call::Queue);
        let queue = self.queues.fetch_add(1, Relaxed);
        let (calls, queues) = (self.calls.clone(), self.queues.clone());
        Ok(Some(Null { info: self.info.clone(), queue, calls, queues }))
    }
    fn record(&self) -> Result<u32> {
        Ok(self.queue)
    }
    fn after(&self, event: &u32) -> Result<()> {
        self.record_call(Call::After(self.queue, *event));
        Ok(())
    }
    fn reached(&self, _: &u32) -> Result<bool> {
        Ok(true)
    }
    fn wait_for(&self, _: &u32) -> Result<()> {
        self.record_call(Call::Wait);
        Ok(())
    }
    fn allocate(&self, bytes: u64) -> Result<u64> {
        self.record_call(Call::Allocate(bytes));
        Ok(bytes)
    }
    fn compile(&self, kernel: &Kernel) -> Result<String> {
        elinvar_kernel::verify::verify(kernel).map_err(|e| Error::unsupported(e.to_string()))?;
        self.record_call(Call::Compile(kernel.name.clone()));
        Ok(kernel.name.clone())
    }
    fn launch(
        &self,
        module: &String,
        _: &[Slice<'_, Self>],
        launch: &Launch,
        _: Option<&[u8]>,
    ) -> Result<()> {
        self.record_call(Call::Launch(module.clone(), launch.groups));
        Ok(())
    }
    fn multiply(&self, _: &VendorGemm, _: [Slice<'_, Self>; 3]) -> Result<bool> {
        // There is no vendor library.
        Ok(false)
    }
    fn write(&self, _: Slice<'_, Self>, bytes: &[u8]) -> Result<()> {
        self.record_call(Call::Write(bytes.len() as u64));
        Ok(())
    }
    fn copy(&self, _: Slice<'_, Self>, to: Slice<'_, Self>) -> Result<()> {
        self.record_call(Call::Copy(to.len));
        Ok(())
    }
    fn receive(&self, _: &Self, _: Slice<'_, Self>, _: Slice<'_, Self>) -> Result<bool> {
        Ok(false)
    }
    fn lend(&self, _: &[Slice<'_, Self>], _: NativeWork<'_>) -> Result<bool> {
        Ok(false)
    }
    fn read(&self, _: Slice<'_, Self>, bytes: &mut [u8]) -> Result<()> {
        bytes.fill(0);
        self.record_call(Call::Read(bytes.len() as u64));
        Ok(())
    }
    fn pin(&self, bytes: usize) -> Result<Vec<u8>> {
        Ok(vec![0; bytes])
    }
    fn upload(&self, from: Vec<u8>, to: Slice<'_, Self>) -> Result<Vec<u8>> {
        self.record_call(Call::Transfer(self.queue, to.len));
        Ok(from)
    }
    fn download(&self, from: Slice<'_, Self>, mut to: Vec<u8>) -> Result<Vec<u8>> {
        self.record_call(Call::Transfer(self.queue, from.len));
        to.fill(0);
        Ok(to)
    }
    fn wait(&self) -> Result<()> {
        self.record_call(Call::Wait);
        Ok(())
    }
    fn mark(&self) -> Result<()> {
        self.record_call(Call::Timestamp);
        Ok(())
    }
    fn between(&self, (): &(), (): &()) -> Result<Duration> {
        Ok(Duration::ZERO)
    }
}

impl CallGraph<Null> for usize {
    fn capture(device: &Null, calls: &[crate::Call<'_, Null>]) -> Result<Option<usize>> {
        device.record_call(Call::Graph(calls.len()));
        Ok(Some(calls.len()))
    }
    fn replay(&self, device: &Null) -> Result<()> {
        device.record_call(Call::Replay(*self));
        Ok(())
    }
}
