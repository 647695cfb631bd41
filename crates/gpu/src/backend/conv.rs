//! Convolutions of a GPU and their gradients: the plan or the tuner says which kernel does one.

use super::{GpuView, steps};
use crate::buffer::GpuBuffer;
use crate::device::GpuDevice;
use crate::tune::MEASURED;
use elinvar_core::Result;
use elinvar_core::explain::explain;
use elinvar_driver::Driver;
use elinvar_gpu_kernels::Plan;
use elinvar_gpu_kernels::conv::{self, ConvCandidate, ConvPass, ConvProblem, plan};
use std::cell::Cell;
use std::time::Duration;

/// A convolution or a gradient of one, in the way that is known to be the fastest.
pub(super) fn convolve<D: Driver>(
    d: &GpuDevice<D>,
    a: &ConvProblem<'_, '_>,
    operands: &[GpuView<'_, D>],
) -> Result<GpuBuffer<D>> {
    let machine = d.machine()?;
    let a = &a.on(machine.units());
    let path = plan::path(a.c, a.dtype, &machine);
    let tried = plan::tuned_path(path, &machine);
    let run = |way: ConvCandidate| -> Result<Option<GpuBuffer<D>>> {
        let work = match way {
            ConvCandidate::Default => Some(conv::steps(a, path)),
            ConvCandidate::Direct | ConvCandidate::ImplicitGemm(_) | ConvCandidate::TensorCore(_) => {
                conv::steps_by(a, tried, way)
            }
        };
        let Some(work) = work else { return Ok(None) };
        let [y] = steps(d, &work, operands)?;
        Ok(Some(y))
    };
    let time = |way| -> Result<Option<Duration>> {
        let is_done = Cell::new(false);
        let took = d.unrecorded(|| d.time(|| run(way).map(|y| is_done.set(y.is_some()))))?;
        Ok(is_done.get().then_some(took))
    };
    let way = d.tuner()?.conv_candidate(a, &|| conv::candidates(a, tried), &time)?;
    explain(|| {
        let (op, [x, y]) = (name(a.of), a.operands.map(|l| l.shape()));
        let what = format!("{op} {x} * {y} {} on {d}, {machine}", a.dtype);
        match way {
            ConvCandidate::Default => format!("{what}: {}", plan::kernel(a, path)),
            way => format!("{what}: {}", Plan::new(way, MEASURED)),
        }
    });
    match run(way)? {
        Some(y) => Ok(y),
        // Of one size, some can be done in a way and others not.
        None => Ok(run(ConvCandidate::Default)?.expect("there is always this way")),
    }
}

fn name(of: ConvPass) -> &'static str {
    match of {
        ConvPass::Forward => "conv",
        ConvPass::GradInput => "conv_input_grad",
        ConvPass::GradWeight => "conv_weight_grad",
    }
}
