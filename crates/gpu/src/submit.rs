//! Giving work to a thread's queue, or to what the thread records.

use crate::allocator::PieceRange;
use crate::capture;
use crate::device::{CompiledKernel, GpuDevice, OpenDevice};
use crate::queues::{Queue, Touch};
use crate::timeline::Timed;
use elinvar_core::{Error, ErrorKind, NativeWork, Result};
use elinvar_driver::{Call, Driver, Slice, VendorGemm};
use elinvar_gpu_kernels::launch::Work;
use elinvar_kernel::ir::Constant;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl<D: Driver> GpuDevice<D> {
    /// Starts a work with its buffers, or records it.
    #[inline(never)]
    pub(crate) fn run(&self, work: &Work<'_>, buffers: &[PieceRange<'_, D>]) -> Result<()> {
        let o = self.opened()?;
        let CompiledKernel { module, writes } = o.module(work)?;
        let mut args = work.args.as_deref().map(bytes);
        let recorded = capture::with(o, |r| {
            r.launch(module.clone(), buffers.iter().zip(&*writes), &work.launch, args.take());
        });
        if recorded.is_some() {
            return Ok(());
        }
        let touched = buffers.iter().zip(&*writes).map(|(b, &writes)| (b.piece.uses(), writes));
        let buffers = buffers.iter().map(PieceRange::slice).collect();
        let launch: Call<'_, D> =
            Call::Launch { module: &module, buffers, launch: &work.launch, args: args.as_deref() };
        o.give(touched, |queue| o.submit(queue, &launch))
    }
    /// Has the vendor's library do a product, and records it if this thread records; `false` if it
    /// does not do this one. Whether it does is seen by doing it: while work is recorded, of
    /// whatever numbers are there.
    pub(crate) fn multiply(&self, product: VendorGemm, operands: [PieceRange<'_, D>; 3]) -> Result<bool> {
        let o = self.opened()?;
        let touched = operands.iter().zip([false, false, true]).map(|(p, writes)| (p.piece.uses(), writes));
        let slices = operands.map(|p| p.slice());
        let what = || o.told(&Call::Multiply { product, operands: slices });
        let done =
            o.give(touched, |queue| o.timed(queue, what, &mut |driver| driver.multiply(&product, slices)))?;
        if done {
            capture::with(o, |r| r.multiply(product, operands));
        }
        Ok(done)
    }
    /// Copies as many bytes as the target has, or records that.
    pub(crate) fn copy(&self, from: PieceRange<'_, D>, to: PieceRange<'_, D>) -> Result<()> {
        let o = self.opened()?;
        match capture::with(o, |r| r.copy(&from, &to)) {
            Some(()) => Ok(()),
            None => {
                let copy = Call::Copy { from: from.slice(), to: to.slice() };
                o.give(copied(&from, &to), |queue| o.submit(queue, &copy))
            }
        }
    }
    /// Writes bytes to the first of a piece.
    pub(crate) fn write(&self, to: PieceRange<'_, D>, bytes: &[u8]) -> Result<()> {
        let (o, uses) = (self.opened()?, to.piece.uses());
        let to = Slice { len: bytes.len() as u64, ..to.slice() };
        o.give([(uses, true)].into_iter(), |queue| {
            o.timed(queue, || Timed::copy("write", to.len), &mut |driver| driver.write(to, bytes))
        })
    }
    /// Reads the first bytes of a piece; waits for them.
    pub(crate) fn read(&self, from: PieceRange<'_, D>, bytes: &mut [u8]) -> Result<()> {
        let (o, uses) = (self.opened()?, from.piece.uses());
        let from = Slice { len: bytes.len() as u64, ..from.slice() };
        o.read([(uses, false)].into_iter(), |queue| {
            o.timed(queue, || Timed::copy("read", from.len), &mut |driver| driver.read(from, bytes))
        })
    }
    /// Waits for the numbers of a piece.
    pub(crate) fn wait_for(&self, piece: PieceRange<'_, D>) -> Result<()> {
        let o = self.opened()?;
        o.read([(piece.piece.uses(), false)].into_iter(), |queue| queue.driver(o).wait())
    }
    /// Copies from another device as many bytes as the target has; `false` if there is no way.
    pub(crate) fn receive(
        &self,
        other: &GpuDevice<D>,
        from: PieceRange<'_, D>,
        to: PieceRange<'_, D>,
    ) -> Result<bool> {
        let (here, there) = (self.opened()?, other.opened()?);
        let what = || Timed::copy("receive", to.slice().len);
        here.give([(to.piece.uses(), true)].into_iter(), |mine| {
            there.give([(from.piece.uses(), false)].into_iter(), |theirs| {
                let theirs = theirs.driver(there);
                here.timed(mine, what, &mut |mine| mine.receive(theirs, from.slice(), to.slice()))
            })
        })
    }
    /// Has another library give work to this thread's queue that reads these pieces and writes
    /// those; `false`, and nothing was done, if there are no such libraries for the device.
    pub(crate) fn lend(
        &self,
        reads: &[PieceRange<'_, D>],
        writes: &[PieceRange<'_, D>],
        work: NativeWork<'_>,
    ) -> Result<bool> {
        let o = self.opened()?;
        let touched = (reads.iter().map(|p| (p.piece.uses(), false)))
            .chain(writes.iter().map(|p| (p.piece.uses(), true)));
        let slices: Vec<_> = reads.iter().chain(writes).map(PieceRange::slice).collect();
        o.give(touched, |queue| {
            o.timed(queue, || Timed::copy("lend", slices.iter().map(|s| s.len).sum()), &mut |driver| {
                driver.lend(&slices, work)
            })
        })
    }
    /// Begins a copy of pinned memory to the first bytes of a piece.
    pub(crate) fn upload(&self, from: D::Pinned, to: PieceRange<'_, D>, bytes: u64) -> Result<D::Transfer> {
        let (o, uses, to) = (self.opened()?, to.piece.uses(), Slice { len: bytes, ..to.slice() });
        let mut from = Some(from);
        o.give([(uses, true)].into_iter(), |queue| {
            o.timed(queue, || Timed::copy("upload", bytes), &mut |driver| {
                driver.upload(from.take().expect("it is copied once"), to)
            })
        })
    }
    /// Begins a copy of the first bytes of a piece to pinned memory.
    pub(crate) fn download(&self, from: PieceRange<'_, D>, bytes: u64, to: D::Pinned) -> Result<D::Transfer> {
        let (o, uses, from) = (self.opened()?, from.piece.uses(), Slice { len: bytes, ..from.slice() });
        let mut to = Some(to);
        o.give([(uses, false)].into_iter(), |queue| {
            o.timed(queue, || Timed::copy("download", bytes), &mut |driver| {
                driver.download(from, to.take().expect("it is copied once"))
            })
        })
    }
}

impl<D: Driver> OpenDevice<D> {
    /// Gives a call to a queue.
    pub(crate) fn submit(self: &Arc<Self>, queue: &Queue<D>, call: &Call<'_, D>) -> Result<()> {
        let submit = || self.timed(queue, || self.told(call), &mut |driver| self.start(driver, call));
        submit().or_else(|e| match e.kind() {
            // A launch needs a little memory of its own: what is kept for tensors, or still in use
            // by work before it, may be what is missing. Several launches that belong together
            // should not end in the middle.
            ErrorKind::OutOfMemory => {
                self.pool.release();
                queue.driver(self).wait()?;
                submit()
            }
            _ => Err(e),
        })
    }
    fn start(&self, driver: &D, call: &Call<'_, D>) -> Result<()> {
        match call {
            Call::Launch { module, buffers, launch, args } => {
                self.launches.fetch_add(1, Relaxed);
                driver.launch(module, buffers, launch, *args)
            }
            Call::Multiply { product, operands } => {
                if !driver.multiply(product, *operands)? {
                    return Err(Error::unsupported(format!("{}: no library computes {product:?}", D::NAME)));
                }
                Ok(())
            }
            Call::Copy { from, to } => driver.copy(*from, *to),
        }
    }
}

/// What a copy touches.
fn copied<'a, D: Driver>(
    from: &PieceRange<'a, D>,
    to: &PieceRange<'a, D>,
) -> impl Iterator<Item = Touch<'a>> + Clone {
    [(from.piece.uses(), false), (to.piece.uses(), true)].into_iter()
}

/// Numbers as the buffer of a kernel has them.
fn bytes(args: &[Constant]) -> Vec<u8> {
    let each = |c: &Constant| c.bits.to_le_bytes().into_iter().take(c.scalar.bits() as usize / 8);
    args.iter().flat_map(each).collect()
}
