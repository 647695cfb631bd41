//! Matrix products of a GPU: the plan or the tuner says which kernel does one.

use super::{GpuView, layouts, steps};
use crate::buffer::GpuBuffer;
use crate::device::GpuDevice;
use crate::gemm_fast::FastGemm;
use elinvar_core::explain::explain;
use elinvar_core::{Precision, Result};
use elinvar_driver::Driver;
use elinvar_gpu_kernels::Plan;
use elinvar_gpu_kernels::gemm::plan::{ExactGemmPath, GemmCase};
use elinvar_gpu_kernels::gemm::{self, CatalogueEpilogue, GemmProblem, SimtTile, in_block_split_k};
use elinvar_ops::backend::EpilogueObject;

/// epilogue(x * w, extra..).
pub(super) fn contract<D: Driver>(
    d: &GpuDevice<D>,
    p: Precision,
    [x, w]: [GpuView<'_, D>; 2],
    e: Option<&dyn EpilogueObject>,
    extra: &[GpuView<'_, D>],
) -> Result<GpuBuffer<D>> {
    let (is_plain, e) = (e.is_none(), CatalogueEpilogue(e));
    let operands: Vec<GpuView<'_, D>> = [x, w].iter().chain(extra).copied().collect();
    if p == Precision::Fast
        && let Some(fast) = FastGemm::new(d, &e, is_plain, &operands)?
    {
        return fast.run();
    }
    let (machine, extra) = (d.machine()?, layouts(extra));
    let (limits, units) = (machine.limits, machine.units());
    let p = GemmProblem::new(&e, x.dtype, x.layout, w.layout, &extra);
    let run = |path: ExactGemmPath| {
        let work = match path {
            ExactGemmPath::Simt(tile) => gemm::steps(&p, tile, units),
            ExactGemmPath::F64Mma(tile) => gemm::f64_tensor_core::steps(&p, tile, units),
            ExactGemmPath::InBlockSplitK => {
                in_block_split_k::steps(&p, limits).unwrap_or_else(|| gemm::steps(&p, SimtTile::PLAIN, units))
            }
        };
        steps(d, &work, &operands)
    };
    let tried = |path: ExactGemmPath| d.unrecorded(|| d.time(|| run(path).map(drop)));
    let case = GemmCase::of(x.dtype, x.layout, w.layout);
    let plan = d.tuner()?.exact_gemm(&machine, case, &|| d.has_f64_fma_chain(), &tried)?;
    explain(|| {
        let sizes @ [b, m, n, k] = p.sizes();
        let chunks = plan.path.split_k(sizes, x.dtype, units);
        let split_k = chunks.map(|chunks| format!(", split-k of {chunks} chunks")).unwrap_or_default();
        let Plan { path, why } = plan;
        format!("gemm {b}x{m}x{k}x{n} {} on {d}, {machine}: {path}{split_k}: {why}", x.dtype)
    });
    let [y] = run(plan.path)?;
    Ok(y)
}
