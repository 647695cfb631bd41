//! Convolution and its gradients by input and weight, as GEMM over im2col or implicit GEMM, with
//! direct, depthwise and sparse kernels for special shapes.
//!
//! The orders of terms are those of `Compute::conv` and its gradients: (channel, tap), (output
//! channel, tap), (image, position). With a stride, the gradient by input is several products:
//! input elements that meet the stride's grid through the same taps make one. If windows do not
//! overlap, all of these are one.

mod bf16;
mod border;
mod depthwise;
mod direct;
mod grad_input_nonoverlapping;
mod grad_sparse;
mod grad_weight_grouped;
mod im2col;
mod implicit_gemm;
pub(crate) mod kernels;
mod operands;
mod pad;
mod plan;
mod problem;

use crate::CpuDevice;
use crate::elementwise::real::{Real, stored_elements};
use crate::gemm::contract::store;
use crate::gemm::epilogue::{FusedEpilogue, NoEpilogue};
use crate::gemm::{
    EpilogueOperand, Gemm, MatrixPlace, OperandB, PackPlan, PrepackedB, TermKind, TileEpilogue,
    run_gemm_of_pairs, transpose_block,
};
use crate::machine::Machine;
use crate::runtime::memory::{PooledVec, filled};
use crate::runtime::output::parallel_fill::fill_pieces;
use crate::runtime::parallel::for_each_piece;
use crate::view::View;
use elinvar_core::explain::explain;
use elinvar_core::{DType, HostData, HostVec, Result, Shape};
use elinvar_ops::backend::{Conv, EpilogueObject};
use im2col::{Im2col, Im2colTransposed};
use operands::{
    GradPlanes, GroupWeights, Weights, flattened, load, load_planes, matrices, transpose_weights,
};
use plan::{
    Im2colRead, InputGradPath, PrepackedWeights, ResidueProduct, WeightGradFactors, WeightGradPath,
    WindowProduct,
};
use problem::{ConvProblem, PatchGeometry};

/// f32 or f64, whose convolutions are compiled here, once for each: what calls them is generic over
/// an epilogue and compiled in every crate that uses one, and would take all kernels along.
pub(crate) trait ConvFloat: Real {
    /// Weights times windows.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn conv_gemm(
        d: &CpuDevice,
        gemm: &ConvGemm<'_, Self>,
        epilogue: &dyn TileEpilogue<Self>,
    ) -> Result<HostVec<Self>>;
}

macro_rules! compiled_here {
    ($($t:ty)*) => {$(
        impl ConvFloat for $t {
            fn conv_gemm(
                d: &CpuDevice,
                gemm: &ConvGemm<'_, $t>,
                epilogue: &dyn TileEpilogue<$t>,
            ) -> Result<HostVec<$t>> {
                run_conv_gemm(d, gemm, epilogue)
            }
        }
    )*};
}
compiled_here! { f32 f64 }

/// Gives the packed copy of weights, if there is one; whether it would be worth having one, and
/// where they are.
pub(crate) type PrepackedLookup<'a> = dyn Fn(bool, MatrixPlace) -> Result<Option<&'a PrepackedB>> + 'a;

/// y[n, o, s'] = epilogue(sum over (c, taps) of x[n, c, s] * w[o, c, tap])
///
/// # Errors
/// `OutOfMemory`; `DTypeMismatch` if the views are not of one dtype, which the op sees to.
pub(crate) fn conv<T: ConvFloat>(
    d: &CpuDevice,
    c: &Conv,
    x: &View<'_>,
    (w, packed): (&View<'_>, &PrepackedLookup<'_>),
    out: &[usize],
    e: Option<&dyn EpilogueObject>,
    extra: &[View<'_>],
) -> Result<HostData> {
    let (xs, ws) = (x.shape(), w.shape());
    let is_contiguous = w.layout.is_contiguous();
    let problem = ConvProblem::new::<T>(c, [xs, ws], out, dtypes(x, w), is_contiguous);
    let plan = plan::forward(&problem, &Machine::of(d));
    explain(|| format!("conv {xs} * {ws} -> {plan}"));
    let &ConvProblem { images, outputs: o, .. } = &problem;
    let positions = plan.patches.positions();
    // Operands of the epilogue as [n, o, s'].
    let flat = Shape::new(&[images, ws[0], positions])?;
    let flat = extra.iter().map(|v| flattened(d, v, &flat)).collect::<Result<Vec<_>>>()?;
    let mut extra = Vec::with_capacity(flat.len());
    for (data, l) in &flat {
        let s = l.strides();
        extra.push(EpilogueOperand {
            data: stored_elements::<T>(data)?,
            offset: l.offset(),
            inner: c.groups,
            batch: (s[0], o as isize * s[1]),
            row: s[1],
            col: s[2],
            prepacked: None,
        });
    }
    let (channels, kind) = (ws[1], plan.kind);
    let xv = load_planes::<T>(d, x, kind, channels, xs[2..].iter().product())?;
    let wv = load_planes::<T>(d, w, kind, channels, ws[2..].iter().product())?;
    let prepacked = match plan.weights {
        PrepackedWeights::No => None,
        PrepackedWeights::IfKept | PrepackedWeights::Worth => {
            let place = MatrixPlace::of_transposed(w.layout.offset(), o, ws[1..].iter().product());
            packed(plan.weights == PrepackedWeights::Worth, place)?.and_then(|p| p.at(d.isa(), place))
        }
    };
    let w = prepacked.map_or(Weights::InPlace(&wv), Weights::Prepacked);
    let patches = im2col(d, &xv, &plan.patches, &plan.product);
    let gemm = ConvGemm { patches, images, groups: c.groups, o, w, kind, product: &plan.product };
    let fused = e.map(|e| FusedEpilogue { e: T::epilogue_row(e), extra: &extra });
    let epilogue = fused.as_ref().map_or(&NoEpilogue as &dyn TileEpilogue<T>, |e| e);
    let y = T::conv_gemm(d, &gemm, epilogue)?;
    store(d, y, x.buffer.dtype())
}

/// For each image and group: weights [o, (channel, tap)] times patches.
pub(crate) struct ConvGemm<'a, T> {
    patches: Im2col<'a, T>,
    images: usize,
    groups: usize,
    o: usize,
    w: Weights<'a, T>,
    kind: TermKind,
    product: &'a WindowProduct,
}

/// Planes and their windows, as a product reads them.
fn im2col<'a, T: Real>(
    d: &CpuDevice,
    data: &'a [T],
    geometry: &'a PatchGeometry,
    product: &WindowProduct,
) -> Im2col<'a, T> {
    let columns_in_place = match product {
        WindowProduct::Im2col(Im2colRead::InPlace { columns }) => Some(*columns),
        WindowProduct::Im2col(Im2colRead::Planes | Im2colRead::Packed)
        | WindowProduct::Depthwise3x3 { .. }
        | WindowProduct::Direct(_)
        | WindowProduct::ImplicitGemm(_) => None,
    };
    Im2col { data, geometry, columns_in_place, isa: d.isa() }
}

/// The types of two operands.
fn dtypes(a: &View<'_>, b: &View<'_>) -> [DType; 2] {
    [a.buffer.dtype(), b.buffer.dtype()]
}

/// For [`ConvFloat::conv_gemm`], and for gradients.
fn run_conv_gemm<T: Real>(
    d: &CpuDevice,
    gemm: &ConvGemm<'_, T>,
    epilogue: &dyn TileEpilogue<T>,
) -> Result<HostVec<T>> {
    let ConvGemm { ref patches, images, groups, o, w, kind, product } = *gemm;
    let batch = images * groups;
    if let WindowProduct::ImplicitGemm(plan) = product {
        let sizes = (batch, groups, o);
        return implicit_gemm::conv_implicit_gemm(d, patches, sizes, w, kind, plan, epilogue);
    }
    let Weights::InPlace(w) = w else { unreachable!("other weights are for an implicit GEMM alone") };
    let read = match product {
        &WindowProduct::Depthwise3x3 { windows, planes_per_task } => {
            let plan = (windows, planes_per_task);
            return depthwise::depthwise(d, patches, plan, (batch, groups), o, w, epilogue);
        }
        &WindowProduct::Direct(plan) => {
            return direct::conv_direct(d, patches, plan, (batch, groups, o), w, epilogue);
        }
        WindowProduct::Im2col(read) => *read,
        WindowProduct::ImplicitGemm(_) => unreachable!("it has returned"),
    };
    let (k, n) = (patches.channels * patches.taps.len(), patches.positions());
    let lhs = GroupWeights { matrix: matrices(w, o, k), groups };
    let planes = matrices(patches.data, patches.channels, n);
    let rhs: &dyn OperandB<T> = if read == Im2colRead::Planes { &planes } else { patches };
    run_gemm_of_pairs(
        d,
        &Gemm { batch, m: o, k, n, lhs: &lhs, rhs, epilogue, pack_plan: PackPlan::SharedA, kind },
    )
}

/// dx[n, c, s]: terms g * w over (o, taps), over those taps that meet the stride's grid.
///
/// # Errors
/// As [`conv`].
pub(crate) fn input_grad<T: Real>(
    d: &CpuDevice,
    c: &Conv,
    g: &View<'_>,
    w: &View<'_>,
    spatial: &[usize],
) -> Result<HostData> {
    let (gs, ws) = (g.shape(), w.shape());
    let xs = [&[gs[0], ws[1] * c.groups], spatial].concat();
    let is_contiguous = w.layout.is_contiguous();
    let problem = ConvProblem::new::<T>(c, [&xs, ws], &gs[2..], dtypes(g, w), is_contiguous);
    let plan = plan::input_grad(&problem, &Machine::of(d));
    explain(|| format!("conv_input_grad {gs} * {ws} -> {plan}"));
    let &ConvProblem { images, channels, outputs: o, ref window, .. } = &problem;
    let kind = plan.kind;
    let (gv, wv) = (load_planes::<T>(d, g, kind, o, gs[2..].iter().product())?, load::<T>(d, w)?);
    if let Some(sparse) = &plan.sparse
        && let Some(dx) = grad_sparse::input_grad(d, sparse, &gv, &wv, [images, o, channels])?
    {
        return store(d, dx, g.buffer.dtype());
    }
    let residues = match &plan.path {
        InputGradPath::NonOverlapping { transposes_rows } => {
            let sizes = [images, c.groups, o, channels];
            let dx = grad_input_nonoverlapping::input_grad(d, window, &gv, &wv, *transposes_rows, sizes)?;
            return store(d, dx, g.buffer.dtype());
        }
        InputGradPath::Residues(residues) => residues,
    };
    let mut parts = Vec::new();
    for ResidueProduct { residue, taps, patches, reads_transposed, product } in residues {
        let across = problem::residue_grid(window, *residue);
        let area = window.taps.iter().product();
        let transposed;
        let w = if *reads_transposed {
            Weights::Transposed(&wv)
        } else {
            let numbers = PooledVec::of(transpose_weights(d, &wv, [c.groups, o, channels, area], taps)?);
            transposed = match kind {
                TermKind::Elements => numbers,
                TermKind::Bf16Pairs => bf16::of_numbers(d, &numbers, o, taps.len())?,
            };
            Weights::InPlace(&transposed)
        };
        let patches = im2col(d, &gv, patches, product);
        let gemm = ConvGemm { patches, images, groups: c.groups, o: channels, w, kind, product };
        let dx = run_conv_gemm(d, &gemm, &NoEpilogue)?;
        if window.stride == [1; 3] {
            return store(d, dx, g.buffer.dtype());
        }
        parts.push((*residue, across, PooledVec::of(dx)));
    }
    let size: usize = window.plane.iter().product();
    let mut dx = filled(images * c.groups * channels * size, T::ZERO)?;
    for_each_piece(d, &mut dx, size, 1.0, &|at, plane| {
        for (residue, across, part) in &parts {
            let n: usize = across.iter().product();
            let part = &part[at / size * n..(at / size + 1) * n];
            let [_, p1, p2] = window.plane;
            let [s0, s1, s2] = window.stride;
            for (row, part) in part.chunks_exact(across[2]).enumerate() {
                let (i, j) = (row / across[1] * s0 + residue[0], row % across[1] * s1 + residue[1]);
                let to = plane[(i * p1 + j) * p2..(i * p1 + j + 1) * p2][residue[2]..].iter_mut().step_by(s2);
                to.zip(part).for_each(|(to, from)| *to = *from);
            }
        }
    });
    store(d, dx, g.buffer.dtype())
}

/// dw[o, c, tap]: terms x * g over (n, s').
///
/// # Errors
/// As [`conv`].
pub(crate) fn weight_grad<T: Real>(
    d: &CpuDevice,
    c: &Conv,
    x: &View<'_>,
    g: &View<'_>,
    taps: &[usize],
) -> Result<HostData> {
    let (xs, gs) = (x.shape(), g.shape());
    let ws = [&[gs[1], xs[1] / c.groups], taps].concat();
    let problem = ConvProblem::new::<T>(c, [xs, &ws], &gs[2..], dtypes(x, g), true);
    let plan = plan::weight_grad(&problem, &Machine::of(d));
    explain(|| format!("conv_weight_grad {xs} * {gs} -> {plan}"));
    let &ConvProblem { channels, outputs: o, .. } = &problem;
    let kind = plan.kind;
    let images = kind.terms(xs[0]);
    let xv = load_planes::<T>(d, x, kind, xs[0], xs[1..].iter().product())?;
    let gv = load_planes::<T>(d, g, kind, xs[0], gs[1..].iter().product())?;
    let planes = |data, geometry| Im2col { data, geometry, columns_in_place: None, isa: d.isa() };
    let patches = planes(&xv[..], &plan.patches);
    let gemm = match plan.path {
        WeightGradPath::GroupedLanes => {
            let dw = grad_weight_grouped::weight_grad(d, &patches, &gv, images, c.groups, o)?;
            return store(d, dw, x.buffer.dtype());
        }
        WeightGradPath::Gemm(gemm) => gemm,
    };
    if let Some(sparse) = &gemm.sparse
        && let Some(dw) = grad_sparse::weight_grad(d, sparse, &patches, &gv, images, o)?
    {
        return store(d, dw, x.buffer.dtype());
    }
    let (m, positions) = (plan.patches.terms(), plan.patches.positions());
    let (batch, k, groups, pack_plan) = (c.groups, images * positions, c.groups, gemm.pack_plan);
    let epilogue = &NoEpilogue;
    let (reads_taps_in_place, some) = match gemm.factors {
        WeightGradFactors::GradientsByPlanes => {
            let geometry = plan.patches.clone().with_channels(o);
            let lhs =
                Im2colTransposed { patches: planes(&gv[..], &geometry), groups, reads_taps_in_place: false };
            let rhs = GradPlanes { data: &xv, groups, o: channels, positions };
            let gemm = Gemm { batch, m: o, k, n: channels, lhs: &lhs, rhs: &rhs, epilogue, pack_plan, kind };
            return store(d, run_gemm_of_pairs(d, &gemm)?, x.buffer.dtype());
        }
        WeightGradFactors::PatchesByGradients { reads_taps_in_place, transposed_rows_per_task } => {
            (reads_taps_in_place, transposed_rows_per_task)
        }
    };
    // The patches' terms are in memory as left rows want them, and g is the smaller one to turn.
    let lhs = Im2colTransposed { patches, groups, reads_taps_in_place };
    let rhs = GradPlanes { data: &gv, groups, o, positions };
    let gemm = Gemm { batch, m, k, n: o, lhs: &lhs, rhs: &rhs, epilogue, pack_plan, kind };
    let transposed = PooledVec::of(run_gemm_of_pairs(d, &gemm)?);
    let dw = fill_pieces(d, transposed.len(), some * m, 0.5, &|start, dst| {
        let mut row = start / m;
        while dst.remaining() > 0 {
            let (group, first) = (row / o, row % o);
            let some = (o - first).min(dst.remaining() / m);
            let dw = dst.zeroed(some * m, T::ZERO);
            let from = &transposed[group * m * o..][..m * o];
            transpose_block(d.isa(), from, first as isize, o as isize, some, m, dw, m);
            row += some;
        }
        Ok(())
    })?;
    store(d, dw, x.buffer.dtype())
}
