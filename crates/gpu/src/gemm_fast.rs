//! Fast GEMM: products on tensor cores in any order of sums, `Precision::Fast`.
//!
//! Its plan (`elinvar_gpu_kernels::gemm::plan`) says which kernel and tile it is. With autotuning
//! on (`tune`), all candidates of the plan are timed for a product of some size, and the fastest is
//! taken: other tiles, the other kernel, the vendor's library.

use crate::backend::{GpuView, layouts, one, steps};
use crate::buffer::GpuBuffer;
use crate::device::GpuDevice;
use crate::tune::MEASURED;
use crate::vendor_gemm;
use elinvar_core::explain::explain;
use elinvar_core::{DType, Layout, Result};
use elinvar_driver::Driver;
use elinvar_gpu_kernels::formula::Formula;
use elinvar_gpu_kernels::gemm::GemmProblem;
use elinvar_gpu_kernels::gemm::mma_sync::{self, MmaTile};
use elinvar_gpu_kernels::gemm::plan::{self, FastGemmCandidate, FastGemmPath, GemmCase};
use elinvar_gpu_kernels::gemm::tma_transpose;
use elinvar_gpu_kernels::gemm::tma_wgmma::WgmmaTile;
use elinvar_gpu_kernels::{Machine, Plan};
use std::time::Duration;

/// A product that may be fast.
pub(crate) struct FastGemm<'a, D: Driver> {
    d: &'a GpuDevice<D>,
    epilogue: &'a dyn Formula,
    /// May a vendor's library do it: is there nothing but the product?
    is_plain: bool,
    /// x, w, and further operands of the epilogue.
    operands: &'a [GpuView<'a, D>],
    machine: Machine<'a>,
    plan: Plan<FastGemmPath>,
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
        let (machine, [x, w, ..]) = (d.machine()?, operands) else { return Ok(None) };
        let extra = layouts(&operands[2..]);
        let p = GemmProblem::new(epilogue, x.dtype, x.layout, w.layout, &extra);
        let plan = plan::fast(&p, &machine);
        Ok(plan.map(|plan| FastGemm { d, epilogue, is_plain, operands, machine, plan }))
    }

    /// The result, by the implementation that is known to be the fastest.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub(crate) fn run(&self) -> Result<GpuBuffer<D>> {
        let [x, w] = self.factors();
        let time = |choice: FastGemmCandidate| -> Result<Option<Duration>> {
            self.d.unrecorded(|| match self.run_as(choice)? {
                None => Ok(None),
                Some(_) => self.d.time(|| self.run_as(choice).map(drop)).map(Some),
            })
        };
        let case = GemmCase::of(x.dtype, x.layout, w.layout);
        let choice = self.d.tuner()?.fast_gemm(case, &|| self.candidates(), &time)?;
        explain(|| {
            let extra = layouts(&self.operands[2..]);
            let [b, m, n, k] = self.product(&extra).sizes();
            let what = format!("gemm {b}x{m}x{k}x{n} {} fast on {}, {}", x.dtype, self.d, self.machine);
            match choice {
                FastGemmCandidate::Default => format!("{what}: {}", self.plan),
                choice => format!("{what}: {}", Plan::new(choice, MEASURED)),
            }
        });
        // Of one case, some products can be done in a way and others not: those whose elements are
        // far apart, say.
        match self.run_as(choice)? {
            Some(y) => Ok(y),
            None => self.planned(),
        }
    }
    /// All ways in which it may be done, the one that is taken without trying first.
    fn candidates(&self) -> Vec<FastGemmCandidate> {
        let extra = layouts(&self.operands[2..]);
        plan::fast_candidates(&self.product(&extra), &self.machine, self.plan.path, self.is_plain)
    }
    fn factors(&self) -> [GpuView<'a, D>; 2] {
        [self.operands[0], self.operands[1]]
    }
    /// The result in some way; `None`, and nothing was done, if it cannot be done so.
    fn run_as(&self, choice: FastGemmCandidate) -> Result<Option<GpuBuffer<D>>> {
        match (choice, self.plan.path) {
            (FastGemmCandidate::Default, _) => self.planned().map(Some),
            (FastGemmCandidate::Wgmma(tile), FastGemmPath::Wgmma(_)) => self.by_wgmma(tile).map(Some),
            (FastGemmCandidate::Wgmma(_), FastGemmPath::Mma(_)) => Ok(None),
            (FastGemmCandidate::Mma(cut), _) => {
                let [x, _] = self.factors();
                let Some(unit) = self.machine.mma_shape(x.dtype) else { return Ok(None) };
                let tile = MmaTile::cut(unit, plan::mma_lanes(&self.machine), cut, self.machine.limits);
                tile.map(|tile| self.by_mma(tile)).transpose()
            }
            (FastGemmCandidate::VendorLibrary, _) if !self.is_plain => Ok(None),
            (FastGemmCandidate::VendorLibrary, _) => vendor_gemm::multiply(self.d, self.factors()),
        }
    }
    fn planned(&self) -> Result<GpuBuffer<D>> {
        match self.plan.path {
            FastGemmPath::Wgmma(tile) => self.by_wgmma(tile),
            FastGemmPath::Mma(tile) => self.by_mma(tile),
        }
    }
    fn by_wgmma(&self, tile: WgmmaTile) -> Result<GpuBuffer<D>> {
        let extra = layouts(&self.operands[2..]);
        let work =
            tma_transpose::steps(&self.product(&extra), tile).expect("TMA is a candidate only where it fits");
        let [y] = steps(self.d, &work, self.operands)?;
        Ok(y)
    }
    fn by_mma(&self, tile: MmaTile) -> Result<GpuBuffer<D>> {
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
