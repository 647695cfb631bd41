//! Fast GEMM: products on tensor cores in any order of sums, `Precision::Fast`.
//!
//! Where a device has TMA and wgmma, and the operands can be loaded so, or be transposed so (f32),
//! wgmma is used; else mma.sync. Which one does not depend on the number of rows, so that a row has
//! the bits that it has alone. With autotuning on (`tune`), all candidates are timed for a product
//! of some size, and the fastest is taken: other tiles, the other kernel, the vendor's library
//! (cuBLASLt).

use crate::backend::{GpuView, layouts, one, steps};
use crate::buffer::GpuBuffer;
use crate::cublaslt;
use crate::device::GpuDevice;
use crate::tune::{GemmCase, GemmImpl};
use elinvar_core::{DType, Layout, Result};
use elinvar_driver::{DEFAULT_COMPUTE_UNITS, Driver, Info};
use elinvar_gpu_kernels::ComputeUnits;
use elinvar_gpu_kernels::formula::Formula;
use elinvar_gpu_kernels::gemm::GemmProblem;
use elinvar_gpu_kernels::gemm::mma_sync::WorkgroupLimits;
use elinvar_gpu_kernels::gemm::{mma_sync, tma_transpose, tma_wgmma};
use elinvar_kernel::ir::{Elem, MmaShape};
use std::time::Duration;

/// A product that may be fast.
pub(crate) struct FastGemm<'a, D: Driver> {
    d: &'a GpuDevice<D>,
    epilogue: &'a dyn Formula,
    /// May a vendor's library do it: is there nothing but the product?
    is_plain: bool,
    /// x, w, and further operands of the epilogue.
    operands: &'a [GpuView<'a, D>],
    /// How fragments take it, by its size.
    mma: mma_sync::MmaTile,
    /// How TMA tiles take it, by its size, if they can.
    wgmma: Option<tma_wgmma::WgmmaTile>,
}

/// What a device's tensor cores multiply of such numbers, and add in any order; `None` if they do
/// not know them. Of several shapes the largest: most products for what is read. (Products of f64
/// on tensor cores are exact, and so no faster where any order will do.)
pub(crate) fn mma_shape_of(i: &Info, dtype: DType) -> Option<MmaShape> {
    let shapes = i.mma_shapes.iter().filter(|u| u.elem == Elem::from(dtype) && u.elem != Elem::F64);
    shapes.max_by_key(|u| u.shape.map(u32::from).iter().product::<u32>()).copied()
}

/// What a device has for a workgroup.
pub(crate) fn limits(i: &Info) -> WorkgroupLimits {
    WorkgroupLimits {
        invocations: i.invocations,
        shared: i.shared,
        cp_async: i.cp_async,
        compute_units: ComputeUnits(i.compute_units.unwrap_or(DEFAULT_COMPUTE_UNITS)),
    }
}

impl<'a, D: Driver> FastGemm<'a, D> {
    /// A product of x and w, which are the first operands; `None` if the device has nothing that is
    /// fast for it.
    ///
    /// # Errors
    /// Why the device could not be opened.
    pub(crate) fn new(
        d: &'a GpuDevice<D>,
        epilogue: &'a dyn Formula,
        is_plain: bool,
        operands: &'a [GpuView<'a, D>],
    ) -> Result<Option<FastGemm<'a, D>>> {
        let (info, [x, w, ..]) = (d.info()?, operands) else { return Ok(None) };
        let (batches, sums) = (x.shape()[0], [x.shape()[1], w.shape()[2]]);
        let Some(unit) = mma_shape_of(info, x.dtype) else { return Ok(None) };
        let mma = mma_sync::MmaTile::of(unit, info.subgroup[1], batches, sums, limits(info));
        let Some(mma) = mma else { return Ok(None) };
        let extra = layouts(&operands[2..]);
        let can = || {
            info.tma && tma_transpose::fits(&GemmProblem::new(epilogue, x.dtype, x.layout, w.layout, &extra))
        };
        let wgmma = tma_wgmma::WgmmaTile::of(batches, sums, limits(info)).filter(|_| can());
        Ok(Some(FastGemm { d, epilogue, is_plain, operands, mma, wgmma }))
    }

    /// The result, by the implementation that is known to be the fastest.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub(crate) fn run(&self) -> Result<GpuBuffer<D>> {
        let [x, w] = self.factors();
        let info = self.d.info()?;
        let time = |choice: GemmImpl| -> Result<Option<Duration>> {
            self.d.unrecorded(|| match self.run_as(choice)? {
                None => Ok(None),
                Some(_) => self.d.time(|| self.run_as(choice).map(drop)).map(Some),
            })
        };
        let case = GemmCase::of(x.dtype, x.layout, w.layout);
        let choice = self.d.tuner()?.fast_gemm(case, &|| self.candidates(info), &time)?;
        // Of one case, some products can be done in a way and others not: those whose elements are
        // far apart, say.
        match self.run_as(choice)? {
            Some(y) => Ok(y),
            None => self.heuristic(),
        }
    }
    /// All ways in which it may be done, the one that is taken without trying first.
    fn candidates(&self, info: &Info) -> Vec<GemmImpl> {
        let mut all = vec![GemmImpl::Heuristic];
        if let Some(chosen) = self.wgmma {
            let others = |t: &tma_wgmma::WgmmaTile| *t != chosen && t.shared_bytes() <= info.shared;
            all.extend(tma_wgmma::WgmmaTile::ALL.into_iter().filter(others).map(GemmImpl::Wgmma));
        }
        let [x, w] = self.factors();
        let sums = [x.shape()[1], w.shape()[2]];
        let (unit, lanes) = (self.mma.unit, self.mma.lanes);
        let tried = mma_sync::MmaTile::tried(unit, lanes, sums, limits(info));
        let others = tried.into_iter().filter(|(_, t)| self.wgmma.is_some() || *t != self.mma);
        all.extend(others.map(|(cut, _)| GemmImpl::Mma(cut)));
        if self.is_plain {
            all.push(GemmImpl::VendorLibrary);
        }
        all
    }
    fn factors(&self) -> [GpuView<'a, D>; 2] {
        [self.operands[0], self.operands[1]]
    }
    /// The result in some way; `None`, and nothing was done, if it cannot be done so.
    fn run_as(&self, choice: GemmImpl) -> Result<Option<GpuBuffer<D>>> {
        match choice {
            GemmImpl::Heuristic => self.heuristic().map(Some),
            GemmImpl::Wgmma(tile) if self.wgmma.is_some() => self.by_wgmma(tile).map(Some),
            GemmImpl::Wgmma(_) => Ok(None),
            GemmImpl::Mma(cut) => {
                let (unit, lanes) = (self.mma.unit, self.mma.lanes);
                let tile = mma_sync::MmaTile::cut(unit, lanes, cut, limits(self.d.info()?));
                tile.map(|tile| self.by_mma(tile)).transpose()
            }
            GemmImpl::VendorLibrary if !self.is_plain => Ok(None),
            GemmImpl::VendorLibrary => cublaslt::multiply(self.d, self.factors()),
        }
    }
    fn heuristic(&self) -> Result<GpuBuffer<D>> {
        match self.wgmma {
            Some(tile) => self.by_wgmma(tile),
            None => self.by_mma(self.mma),
        }
    }
    fn by_wgmma(&self, tile: tma_wgmma::WgmmaTile) -> Result<GpuBuffer<D>> {
        let extra = layouts(&self.operands[2..]);
        let work =
            tma_transpose::steps(&self.product(&extra), tile).expect("TMA is a candidate only where it fits");
        let [y] = steps(self.d, &work, self.operands)?;
        Ok(y)
    }
    fn by_mma(&self, tile: mma_sync::MmaTile) -> Result<GpuBuffer<D>> {
        let extra = layouts(&self.operands[2..]);
        let p = self.product(&extra);
        one(self.d, mma_sync::contract(&p, tile), self.operands, p.dtype, p.len())
    }
    fn product<'l>(&self, extra: &'l [(&'l Layout, DType)]) -> GemmProblem<'a, 'l>
    where
        'a: 'l,
    {
        let [x, w] = self.factors();
        GemmProblem::new(self.epilogue, x.dtype, x.layout, w.layout, extra)
    }
}
