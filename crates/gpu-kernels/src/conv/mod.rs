//! Convolution and its two gradients as implicit GEMM: contractions whose right factor is read
//! through windows (im2col in place, never stored).
//!
//! All three are one problem: for a group, a row and a column, a chain of fma in the order of
//! `elinvar_core::order::contract` over terms (t0, t) in row-major order. The left factor is a
//! matrix with a stride for the row and for each part of a term. The right factor is found, along
//! each spatial axis, at a coordinate that the column and the term give together; outside of the
//! tensor it is +0, and takes part.
//!
//! | | row | column | term | left | right, at coordinate |
//! |---|---|---|---|---|---|
//! | conv | o | (n, p) | (c, t) | w | x at p * stride - padding + t * dilation |
//! | gradient by x | c | (n, s) | (o, t) | w | g at (s + padding - t * dilation) / stride |
//! | gradient by w | o | (c, t) | (n, p) | g | x at t * dilation - padding + p * stride |
//!
//! In the gradient by x, a position takes the taps that meet the stride's grid. All positions of a
//! class, s modulo stride, take the same: every (stride / gcd(stride, dilation))-th tap from a
//! first one on. A workgroup works on one class.
//!
//! Sizes, strides, padding and dilation are arguments of the launch; only the number of spatial
//! axes is in the kernel's configuration.
//!
//! * `plan`: which path, with which tile. `problem`: configuration, launch arguments, columns and
//!   terms, which all kernels share.
//! * `direct`, `smem_implicit_gemm` with `offset_table`, `depthwise`, `depthwise_grad_weight`,
//!   `few_channel_grad_input`: exact.
//! * `mma`, `mma_implicit_gemm`, `nhwc_transpose`: tensor cores, `Precision::Fast`.

mod depthwise;
mod depthwise_grad_weight;
mod direct;
mod few_channel_grad_input;
mod implicit_gemm;
mod mma;
mod mma_implicit_gemm;
pub(crate) mod nhwc_transpose;
mod offset_table;
pub mod plan;
mod problem;
mod smem_implicit_gemm;

pub use crate::gemm::SimtTile;
pub use crate::gemm::mma_sync::WorkgroupLimits;
use implicit_gemm::{FactorStrides, ImplicitGemm, PLAIN};
pub use mma::TensorCores;
pub use plan::{ConvCandidate, ConvKernel, ConvPath};
pub use problem::{ConvConfig, ConvPass, StagingConfig};

use crate::formula::Formula;
use crate::launch::ComputeUnits;
use crate::launch::sequence::LaunchSequence;
use elinvar_core::{DType, Layout};
use elinvar_ops::backend::Conv;

fn product(all: &[usize]) -> usize {
    all.iter().product()
}

/// Row-major strides of sizes.
fn row_major(dims: &[usize]) -> Vec<i64> {
    let mut strides = vec![1; dims.len()];
    for i in (1..dims.len()).rev() {
        strides[i - 1] = strides[i] * dims[i] as i64;
    }
    strides
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Where x is under tap 0 of output 0, and whether a window reaches beyond x.
fn windows(c: &Conv, spatial: &[usize], taps: &[usize], out: &[usize]) -> bool {
    (0..spatial.len()).any(|a| {
        let last = (out[a].max(1) - 1) * c.stride[a] + (taps[a].max(1) - 1) * c.dilation[a];
        c.padding[a] > 0 || last >= spatial[a]
    })
}

/// One of the three that is asked for.
#[derive(Clone, Copy)]
pub struct ConvProblem<'a, 'l> {
    /// Which.
    pub of: ConvPass,
    /// The layout of windows.
    pub c: &'l Conv,
    /// The dtype of operands and result.
    pub dtype: DType,
    /// x and w; g and w, of the gradient by x; x and g, of the gradient by w.
    pub operands: [&'l Layout; 2],
    /// The result's spatial sizes; the gradient by w's taps.
    pub sizes: &'l [usize],
    /// What follows a convolution. Nothing follows a gradient.
    pub epilogue: &'a dyn Formula,
    /// Further operands of that: views of the result's shape.
    pub extra: &'l [(&'l Layout, DType)],
    /// Those of the device: how many workgroups keep it busy.
    pub compute_units: ComputeUnits,
}

impl<'a, 'l> ConvProblem<'a, 'l> {
    /// A convolution of x and w, with what follows it.
    pub fn forward(
        epilogue: &'a dyn Formula,
        c: &'l Conv,
        dtype: DType,
        operands: [&'l Layout; 2],
        sizes: &'l [usize],
        extra: &'l [(&'l Layout, DType)],
    ) -> Self {
        ConvProblem {
            of: ConvPass::Forward,
            c,
            dtype,
            operands,
            sizes,
            epilogue,
            extra,
            compute_units: ComputeUnits::default(),
        }
    }
    /// The gradient by x or by w.
    pub fn gradient(
        of: ConvPass,
        c: &'l Conv,
        dtype: DType,
        operands: [&'l Layout; 2],
        sizes: &'l [usize],
    ) -> ConvProblem<'static, 'l> {
        ConvProblem {
            of,
            c,
            dtype,
            operands,
            sizes,
            epilogue: &PLAIN,
            extra: &[],
            compute_units: ComputeUnits::default(),
        }
    }
    /// The same on a device of so many compute units.
    pub fn on(self, compute_units: ComputeUnits) -> Self {
        ConvProblem { compute_units, ..self }
    }
    /// How many multiplications it takes.
    pub fn products(&self) -> usize {
        let [x, y] = self.operands.map(Layout::shape);
        let of_window = |channels: usize, taps: &[usize]| channels.saturating_mul(product(taps));
        match self.of {
            ConvPass::Forward => {
                let outputs = x[0].saturating_mul(y[0]).saturating_mul(product(self.sizes));
                outputs.saturating_mul(of_window(y[1], &y[2..]))
            }
            ConvPass::GradInput => x.numel().saturating_mul(of_window(y[1], &y[2..])),
            ConvPass::GradWeight => y.numel().saturating_mul(of_window(x[1] / self.c.groups, self.sizes)),
        }
    }
    /// Which operands are the two factors, in the order in which the kernel binds them.
    fn factors<T>(&self, [a, b]: [T; 2]) -> [T; 2] {
        match self.of {
            ConvPass::Forward => [a, b],
            ConvPass::GradInput | ConvPass::GradWeight => [b, a],
        }
    }
}

/// The work of one of the three. Operands: the two, further operands of the epilogue. Result: y, or
/// the gradient.
pub fn steps<'a>(a: &ConvProblem<'a, '_>, how: ConvPath) -> LaunchSequence<'a> {
    if let ConvPath::TensorCore(groups) = how
        && let Some(all) = mma::steps(a, groups, None)
    {
        return all;
    }
    ImplicitGemm::of(a).steps(a, how)
}

/// The ways that a device has for it, of which `ConvCandidate::Default` is the first. All of them
/// give the same bits.
pub fn candidates(a: &ConvProblem<'_, '_>, how: ConvPath) -> Vec<ConvCandidate> {
    if let ConvPath::TensorCore(groups) = how
        && let Some(cuts) = mma::cuts(a, groups)
    {
        return std::iter::once(ConvCandidate::Default)
            .chain(cuts.into_iter().map(ConvCandidate::TensorCore))
            .collect();
    }
    ImplicitGemm::of(a).candidates(how)
}

/// The work as [`steps`] has it, in one of the ways that there are. `None` if it cannot be done so:
/// what is a way for some convolutions of a size is none for others, of another layout.
pub fn steps_by<'a>(
    a: &ConvProblem<'a, '_>,
    how: ConvPath,
    way: ConvCandidate,
) -> Option<LaunchSequence<'a>> {
    match (way, how) {
        (ConvCandidate::Default, _) => Some(steps(a, how)),
        (ConvCandidate::TensorCore(cut), ConvPath::TensorCore(groups)) => mma::steps(a, groups, Some(cut)),
        (ConvCandidate::TensorCore(_), ConvPath::Direct | ConvPath::Auto(_) | ConvPath::ImplicitGemm(_)) => {
            None
        }
        (ConvCandidate::Direct | ConvCandidate::ImplicitGemm(_), _) => {
            let plan = ImplicitGemm::of(a);
            let tile = if let ConvCandidate::ImplicitGemm(tile) = way { tile } else { plan.plain_tile() };
            // Where tensor cores do it, their order of sums is the one that it has.
            candidates(a, how).contains(&way).then(|| plan.tiled(a, tile, plan.worth_split_k(tile)))
        }
    }
}
