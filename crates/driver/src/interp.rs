//! The interpreter as a device: slow, exact, and it finds races and accesses out of bounds.

use crate::loop_limit::{Whole, cut_launches};
use crate::{Driver, Info, Kind, Slice, VendorGemm, one_queue};
use elinvar_core::{Error, Result};
use elinvar_kernel::Kernel;
use elinvar_kernel::emit::spirv;
use elinvar_kernel::interp::{self, Flushes, Launch, Quirks};
use elinvar_kernel::ir::{Access, Elem, MmaShape};
use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A device that interprets kernels.
#[derive(Debug)]
pub struct Interp {
    info: Info,
    /// What it lacks, and as which Vulkan device it has that built.
    lacks: Option<(spirv::Device, Flushes)>,
    queue: Mutex<()>,
}

impl Interp {
    /// The same device, but kernels should be short ([`Info::short`]).
    #[must_use]
    pub fn with_short_kernels(mut self) -> Interp {
        self.info.short = true;
        self
    }

    /// The same device, but it ends loops after so many passes: a launch of more is cut, and what
    /// is cut wrongly is an error.
    #[must_use]
    pub fn with_loop_limit(mut self, passes: u64) -> Interp {
        self.info.max_loop_iterations = Some(passes);
        self
    }

    /// The same device, but these operations of f32 flush subnormal numbers; kernels are what they
    /// are for a Vulkan device that was found to do so.
    #[must_use]
    pub fn with_flushes(mut self, device: spirv::Device, flushes: Flushes) -> Interp {
        self.lacks = Some((device, flushes));
        self
    }
}

/// Memory of the interpreter.
#[derive(Debug)]
pub struct InterpMemory(Mutex<Vec<u8>>);

impl InterpMemory {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        // A panic here leaves at worst wrong elements.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slice<'_, Interp> {
    fn take(&self) -> Vec<u8> {
        self.memory.bytes()[self.offset as usize..(self.offset + self.len) as usize].to_vec()
    }
    fn put(&self, bytes: &[u8]) {
        self.memory.bytes()[self.offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }
}

/// Bytes as the elements of a buffer; what is left at the end is ignored.
fn cells(elem: Elem, bytes: &[u8]) -> interp::Memory {
    let cell = |c: &[u8]| {
        let mut all = [0; 8];
        all[..c.len()].copy_from_slice(c);
        u64::from_le_bytes(all)
    };
    interp::Memory { elem, cells: bytes.chunks_exact(elem.size() as usize).map(cell).collect() }
}

fn bytes(memory: &interp::Memory) -> Vec<u8> {
    let size = memory.elem.size() as usize;
    memory.cells.iter().flat_map(|c| c.to_le_bytes().into_iter().take(size)).collect()
}

impl Driver for Interp {
    const NAME: &'static str = "interp";
    type Memory = InterpMemory;
    type Timestamp = Instant;
    type Graph = Infallible;
    type Event = ();
    type Pinned = Vec<u8>;
    type Transfer = Vec<u8>;

    cut_launches!();
    one_queue!();

    fn list() -> Result<Vec<Info>> {
        Ok(vec![Info {
            name: "interpreter".into(),
            kind: Kind::Software,
            driver: "elinvar".into(),
            memory: Some(1 << 30),
            largest: 1 << 30,
            alignment: 16,
            subgroup: [1, 64],
            compute_units: None,
            shared: 32 << 10,
            invocations: 1024,
            buffers: 64,
            f64: true,
            i64: true,
            half: true,
            bytes: true,
            suballocates: true,
            max_loop_iterations: None,
            short: false,
            cp_async: true,
            // It does, but what is worth it fills more shared memory than this.
            tma: false,
            queues: false,
            mma_shapes: [(Elem::F16, 16), (Elem::BF16, 16), (Elem::F32, 8)]
                .map(|(elem, terms)| MmaShape { elem, shape: [16, 16, terms] })
                .to_vec(),
        }])
    }
    fn open(number: usize) -> Result<Interp> {
        let info = crate::numbered(Self::NAME, Interp::list()?, number)?;
        Ok(Interp { info, lacks: None, queue: Mutex::new(()) })
    }
    fn info(&self) -> &Info {
        &self.info
    }
    // Work is done when it has been given to the queue.
    fn record(&self) -> Result<()> {
        Ok(())
    }
    fn reached(&self, (): &()) -> Result<bool> {
        Ok(true)
    }
    fn wait_for(&self, (): &()) -> Result<()> {
        Ok(())
    }
    fn allocate(&self, bytes: u64) -> Result<InterpMemory> {
        if bytes > self.info.largest {
            return Err(Error::memory(format!("interp:0: {bytes} bytes in one piece")));
        }
        // Not zeros, so that no test relies on them.
        Ok(InterpMemory(Mutex::new(vec![0xa5; bytes as usize])))
    }
    fn write(&self, to: Slice<'_, Self>, bytes: &[u8]) -> Result<()> {
        to.put(bytes);
        Ok(())
    }
    fn copy(&self, from: Slice<'_, Self>, to: Slice<'_, Self>) -> Result<()> {
        to.put(&from.take()[..to.len as usize]);
        Ok(())
    }
    fn read(&self, from: Slice<'_, Self>, bytes: &mut [u8]) -> Result<()> {
        bytes.copy_from_slice(&from.take()[..bytes.len()]);
        Ok(())
    }
    fn pin(&self, bytes: usize) -> Result<Vec<u8>> {
        Ok(vec![0; bytes])
    }
    fn upload(&self, from: Vec<u8>, to: Slice<'_, Self>) -> Result<Vec<u8>> {
        to.put(&from[..to.len as usize]);
        Ok(from)
    }
    fn download(&self, from: Slice<'_, Self>, mut to: Vec<u8>) -> Result<Vec<u8>> {
        to[..from.len as usize].copy_from_slice(&from.take());
        Ok(to)
    }
    fn wait(&self) -> Result<()> {
        Ok(())
    }
    // Work is done when it has been given to the queue, so the host's clock is the device's.
    fn mark(&self) -> Result<Instant> {
        Ok(Instant::now())
    }
    fn between(&self, from: &Instant, to: &Instant) -> Result<Duration> {
        Ok(to.saturating_duration_since(*from))
    }
}

impl Whole for Interp {
    type Compiled = Kernel;
    fn compile_whole(&self, kernel: &Kernel) -> Result<Kernel> {
        if let Some((device, _)) = &self.lacks {
            return spirv::legal(kernel, device).map_err(|e| Error::unsupported(e.to_string()));
        }
        elinvar_kernel::verify::verify(kernel).map_err(|e| Error::unsupported(e.to_string()))?;
        Ok(kernel.clone())
    }
    fn launch_whole(
        &self,
        module: &Kernel,
        buffers: &[Slice<'_, Self>],
        launch: &Launch,
        args: Option<&[u8]>,
    ) -> Result<()> {
        let _queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let given: Vec<Vec<u8>> = buffers.iter().map(Slice::take).chain(args.map(<[u8]>::to_vec)).collect();
        let mut memory: Vec<interp::Memory> =
            given.iter().zip(&module.buffers).map(|(bytes, b)| cells(b.elem, bytes)).collect();
        let lacks = Quirks {
            max_loop_iterations: self.info.max_loop_iterations,
            flushes: self.lacks.map_or_else(Flushes::default, |(_, flushes)| flushes),
            ..Quirks::default()
        };
        interp::run_with_quirks(module, launch, &mut memory, lacks)
            .map_err(|e| Error::unsupported(e.to_string()))?;
        for ((slice, m), b) in buffers.iter().zip(&memory).zip(&module.buffers) {
            if b.access != Access::Read {
                slice.put(&bytes(m));
            }
        }
        Ok(())
    }
}
