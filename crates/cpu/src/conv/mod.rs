//! Convolution and its gradients by input and weight, as GEMM over im2col or implicit GEMM, with
//! direct, depthwise and sparse kernels for special shapes.
//!
//! The orders of terms are those of `Backend::conv` and its gradients: (channel, tap), (output
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
mod pad;

use crate::CpuDevice;
use crate::gemm;
use crate::gemm::contract::{store, stored_elements, try_map_all};
use crate::gemm::epilogue::{FusedEpilogue, NoEpilogue};
use crate::gemm::operand::copy_block;
use crate::gemm::{
    BatchedMatrix, ColumnsB, EpilogueOperand, Gemm, MatrixPlace, OperandA, OperandB, PackPlan, PanelsB,
    PrepackedB, PrepackedPanels, Real, RowsA, StoredElements, TermKind, TileEpilogue, nr, run_gemm_of_pairs,
    transpose_block,
};
use crate::layout::copy::{ContiguousElements, elements, to_contiguous};
use crate::runtime::memory::{PooledData, PooledVec, filled};
use crate::runtime::output::parallel_fill::fill_pieces;
use crate::runtime::parallel::for_each_piece;
use crate::view::View;
use elinvar_core::{HostData, HostVec, Layout, Result, Shape};
use elinvar_ops::backend::{Conv, Epilogue};
use elinvar_simd::isa::Isa;
use im2col::{Im2col, Im2colTransposed, images};
use std::ops::{Deref, Range};

/// Windows up to which it matters whether weights are packed: more are worth packing them anew each time.
const PREPACK_MAX_WINDOWS: usize = 4096;

/// Up to three numbers, one for each axis; missing axes stand in front and have `rest`.
fn three_axes<T: Copy>(x: &[T], rest: T) -> [T; 3] {
    let mut all = [rest; 3];
    all[3 - x.len()..].copy_from_slice(x);
    all
}

/// Sizes and steps along three axes.
struct ConvGeometry {
    plane: [usize; 3],
    taps: [usize; 3],
    out: [usize; 3],
    stride: [usize; 3],
    padding: [usize; 3],
    dilation: [usize; 3],
}

impl ConvGeometry {
    fn new(c: &Conv, plane: &[usize], taps: &[usize], out: &[usize]) -> ConvGeometry {
        ConvGeometry {
            plane: three_axes(plane, 1),
            taps: three_axes(taps, 1),
            out: three_axes(out, 1),
            stride: three_axes(&c.stride, 1),
            padding: three_axes(&c.padding, 0),
            dilation: three_axes(&c.dilation, 1),
        }
    }
    /// The windows of the convolution over `channels` planes of each batch.
    fn patches<'a, T: Real>(&self, isa: Isa, data: &'a [T], channels: usize) -> Im2col<'a, T> {
        let offset = |a: usize, t: usize| (t * self.dilation[a]) as isize - self.padding[a] as isize;
        let taps = grid(self.taps).map(|t| std::array::from_fn(|a| offset(a, t[a]))).collect();
        Im2col { data, channels, plane: self.plane, grid: self.out, step: self.stride, taps, isa }
            .merge_axes()
    }
}

/// All indices of a shape, row-major.
fn grid(n: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
    (0..n[0]).flat_map(move |i| (0..n[1]).flat_map(move |j| (0..n[2]).map(move |k| [i, j, k])))
}

/// The weights of a group as the left factor, the same for all images.
struct GroupWeights<'a, T> {
    matrix: BatchedMatrix<'a, T>,
    groups: usize,
}

impl<T: Real> OperandA<T> for GroupWeights<'_, T> {
    fn distinct_batches(&self) -> usize {
        self.groups
    }
    fn pack(&self, isa: Isa, batch: usize, rows: Range<usize>, terms: Range<usize>, out: &mut [T]) {
        self.matrix.pack_a(isa, batch % self.groups, rows, terms, out);
    }
    fn rows_in_place(&self, batch: usize, rows: Range<usize>) -> Option<RowsA<'_, T>> {
        self.matrix.rows_in_place(batch % self.groups, rows)
    }
    fn as_taps(&self) -> Option<&dyn gemm::TapRows<T>> {
        None
    }
}

/// Contiguous matrices, one after the other.
fn matrices<T>(data: &[T], rows: usize, cols: usize) -> BatchedMatrix<'_, T> {
    let batch = ((rows * cols) as isize, 0);
    BatchedMatrix {
        data: StoredElements::Native(data),
        offset: 0,
        inner: 1,
        batch,
        row: cols as isize,
        col: 1,
        prepacked: None,
    }
}

/// Gives the packed copy of weights, if there is one; whether it would be worth having one, and where they lie.
pub(crate) type PrepackedLookup<'a> = dyn Fn(bool, MatrixPlace) -> Result<Option<&'a PrepackedB>> + 'a;

/// y[n, o, s'] = epilogue(sum over (c, taps) of x[n, c, s] * w[o, c, tap])
///
/// # Errors
/// `OutOfMemory`; `DTypeMismatch` if the views are not of one dtype, which the op sees to.
pub(crate) fn conv<T: Real, E: Epilogue<N>, const N: usize>(
    d: &CpuDevice,
    c: &Conv,
    x: &View<'_>,
    (w, packed): (&View<'_>, &PrepackedLookup<'_>),
    out: &[usize],
    e: &E,
    extra: &[View<'_>; N],
) -> Result<HostData> {
    let (xs, ws) = (x.shape(), w.shape());
    let window = ConvGeometry::new(c, &xs[2..], &ws[2..], out);
    let (images, o, positions) = (xs[0], ws[0] / c.groups, out.iter().product());
    // Operands of the epilogue as [n, o, s'].
    let flat = Shape::new(&[images, ws[0], positions])?;
    let extra = extra.iter().map(|v| flattened(d, v, &flat)).collect::<Result<Vec<_>>>()?;
    let extra = try_map_all(&std::array::from_fn::<_, N, _>(|i| i), |i| {
        let (data, l) = &extra[*i];
        let s = l.strides();
        let batch = (s[0], o as isize * s[1]);
        Ok(EpilogueOperand {
            data: stored_elements::<T>(data)?,
            offset: l.offset(),
            inner: c.groups,
            batch,
            row: s[1],
            col: s[2],
            prepacked: None,
        })
    })?;
    let (channels, kind) = (ws[1], bf16::kind(d, c.precision, [x, w], ws[1], o));
    let xv = load_planes::<T>(d, x, kind, channels, xs[2..].iter().product())?;
    let wv = load_planes::<T>(d, w, kind, channels, ws[2..].iter().product())?;
    let patches = window.patches(d.isa(), &xv, kind.terms(channels));
    let k = ws[1..].iter().product();
    let together = implicit_gemm_positions(d, kind, &patches, images * c.groups, o);
    let prepacked =
        if kind == TermKind::Elements && c.groups == 1 && w.layout.is_contiguous() && together.is_some() {
            let place = MatrixPlace::of_transposed(w.layout.offset(), o, k);
            packed(images * positions <= PREPACK_MAX_WINDOWS, place)?.and_then(|p| p.at(d.isa(), place))
        } else {
            None
        };
    let w = prepacked.map_or(Weights::InPlace(&wv), Weights::Prepacked);
    let gemm = ConvGemm { patches, images, groups: c.groups, o, w, kind, together };
    let y = T::conv_gemm(d, &gemm, &FusedEpilogue { e, extra })?;
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
    /// What [`implicit_gemm_positions`] says of it.
    together: Option<usize>,
}

/// Positions of a task, if [`implicit_gemm::conv_implicit_gemm`] is what windows are best multiplied by. AMX multiplies packed panels alone.
fn implicit_gemm_positions<T: Real>(
    d: &CpuDevice,
    kind: TermKind,
    p: &Im2col<'_, T>,
    batch: usize,
    o: usize,
) -> Option<usize> {
    if kind == TermKind::Bf16Pairs && d.isa().has_amx() {
        None
    } else {
        implicit_gemm::positions_per_task(d, p, batch, o)
    }
}

/// Where the weights of a convolution come from. What does not lie as it is used is for those that [`implicit_gemm::conv_implicit_gemm`] does.
#[derive(Clone, Copy)]
pub(crate) enum Weights<'a, T> {
    /// [group, o, (channel, tap)]
    InPlace(&'a [T]),
    /// [group, channel, o, tap]: those of the convolution whose gradient by x this one is.
    Transposed(&'a [T]),
    /// Panels of one group.
    Prepacked(PrepackedPanels<'a, T>),
}

/// For [`Real::conv_gemm`] alone.
pub(crate) fn run_conv_gemm<T: Real>(
    d: &CpuDevice,
    gemm: &ConvGemm<'_, T>,
    epilogue: &dyn TileEpilogue<T>,
) -> Result<HostVec<T>> {
    let ConvGemm { ref patches, images, groups, o, w, kind, together } = *gemm;
    if let (Weights::InPlace(w), TermKind::Elements) = (w, kind) {
        if let Some(windows) = depthwise::of(patches) {
            return depthwise::depthwise(d, patches, windows, images * groups, groups, o, w, epilogue);
        }
        if together.is_none() && direct::is_direct(patches, o) {
            return direct::conv_direct(d, patches, images * groups, groups, o, w, epilogue);
        }
    }
    if let Some(together) = together {
        return implicit_gemm::conv_implicit_gemm(
            d,
            patches,
            (images * groups, groups, o),
            w,
            kind,
            together,
            epilogue,
        );
    }
    let Weights::InPlace(w) = w else { unreachable!("weights that are not turned are for panels alone") };
    let (k, n) = (patches.channels * patches.taps.len(), patches.positions());
    let lhs = GroupWeights { matrix: matrices(w, o, k), groups };
    let planes = matrices(patches.data, patches.channels, n);
    let rhs: &dyn OperandB<T> = if patches.is_identity() { &planes } else { patches };
    run_gemm_of_pairs(
        d,
        &Gemm {
            batch: images * groups,
            m: o,
            k,
            n,
            lhs: &lhs,
            rhs,
            epilogue,
            pack_plan: PackPlan::SharedA,
            kind,
        },
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
    let window = ConvGeometry::new(c, spatial, &ws[2..], &gs[2..]);
    let (images, channels, o) = (gs[0], ws[1], ws[0] / c.groups);
    let kind = bf16::kind(d, c.precision, [g, w], o, channels);
    let (gv, wv) = (load_planes::<T>(d, g, kind, o, gs[2..].iter().product())?, load::<T>(d, w)?);
    if kind == TermKind::Elements
        && c.groups == 1
        && window.stride == [1; 3]
        && let Some(dx) = grad_sparse::input_grad(d, &window, &gv, &wv, [images, o, channels])?
    {
        return store(d, dx, g.buffer.dtype());
    }
    if kind == TermKind::Elements && grad_input_nonoverlapping::is_nonoverlapping(&window) {
        let dx =
            grad_input_nonoverlapping::input_grad(d, &window, &gv, &wv, [images, c.groups, o, channels])?;
        return store(d, dx, g.buffer.dtype());
    }
    let mut parts = Vec::new();
    for residue in grid(std::array::from_fn(|a| window.stride[a].min(window.plane[a]))) {
        // Elements residue, residue + stride, ...: they meet the grid through the same taps.
        let meets = |a: usize, t: usize| {
            let scaled = (residue[a] + window.padding[a]) as isize - (t * window.dilation[a]) as isize;
            let stride = window.stride[a] as isize;
            (scaled % stride == 0).then_some(scaled / stride)
        };
        let (mut taps, mut which) = (Vec::new(), Vec::new());
        for (i, t) in grid(window.taps).enumerate() {
            if let (Some(a), Some(b), Some(c)) = (meets(0, t[0]), meets(1, t[1]), meets(2, t[2])) {
                taps.push([a, b, c]);
                which.push(i);
            }
        }
        let count = |a: usize| (window.plane[a] - residue[a]).div_ceil(window.stride[a]);
        let across = std::array::from_fn(count);
        let patches = Im2col {
            data: &gv[..],
            channels: kind.terms(o),
            plane: window.out,
            grid: across,
            step: [1; 3],
            taps,
            isa: d.isa(),
        }
        .merge_axes();
        let area = window.taps.iter().product();
        let all = which.len() == area && kind == TermKind::Elements;
        let transposed;
        let together = implicit_gemm_positions(d, kind, &patches, images * c.groups, channels);
        let w = if all && together.is_some() {
            Weights::Transposed(&wv)
        } else {
            let numbers = PooledVec::of(transpose_weights(d, &wv, [c.groups, o, channels, area], &which)?);
            transposed = match kind {
                TermKind::Elements => numbers,
                TermKind::Bf16Pairs => bf16::of_numbers(d, &numbers, o, which.len())?,
            };
            Weights::InPlace(&transposed)
        };
        let gemm = ConvGemm { patches, images, groups: c.groups, o: channels, w, kind, together };
        let dx = run_conv_gemm(d, &gemm, &NoEpilogue)?;
        if window.stride == [1; 3] {
            return store(d, dx, g.buffer.dtype());
        }
        parts.push((residue, across, PooledVec::of(dx)));
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

/// w[group, c, (o, tap)] of w[group, o, c, tap], for some of the taps.
///
/// # Errors
/// `OutOfMemory`.
fn transpose_weights<T: Real>(
    d: &CpuDevice,
    w: &[T],
    [groups, o, channels, area]: [usize; 4],
    which: &[usize],
) -> Result<HostVec<T>> {
    /// Channels of a piece of work: what is read of them lies together.
    const CHANNELS_PER_PIECE: usize = 16;
    let row = o * which.len();
    fill_pieces(d, groups * channels * row, CHANNELS_PER_PIECE * row, 0.5, &|start, dst| {
        let mut line = start / row;
        while dst.remaining() > 0 {
            let (group, first) = (line / channels, line % channels);
            let some = (channels - first).min(dst.remaining() / row);
            let to = dst.zeroed(some * row, T::ZERO);
            let from = &w[group * o * channels * area..][..o * channels * area];
            if area == 1 {
                transpose_block(d.isa(), from, first as isize, channels as isize, some, o, to, row);
            } else {
                for (o, from) in from.chunks_exact(channels * area).enumerate() {
                    let from = from.chunks_exact(area).skip(first);
                    for (to, from) in to.chunks_exact_mut(row).zip(from) {
                        let to = &mut to[o * which.len()..][..which.len()];
                        to.iter_mut().zip(which).for_each(|(to, t)| *to = from[*t]);
                    }
                }
            }
            line += some;
        }
        Ok(())
    })
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
    /// Rows that a thread turns at once, at least: a cache line of what it reads.
    const MIN_ROWS_PER_TASK: usize = 16;
    let (xs, gs) = (x.shape(), g.shape());
    let window = ConvGeometry::new(c, &xs[2..], taps, &gs[2..]);
    let (channels, o) = (xs[1] / c.groups, gs[1] / c.groups);
    // Terms are positions, of which a pair would have another partner under the next tap; so images make pairs.
    let kind = bf16::kind(d, c.precision, [x, g], xs[0], o);
    let images = kind.terms(xs[0]);
    let xv = load_planes::<T>(d, x, kind, xs[0], xs[1..].iter().product())?;
    let gv = load_planes::<T>(d, g, kind, xs[0], gs[1..].iter().product())?;
    let patches = window.patches(d.isa(), &xv, channels);
    if kind == TermKind::Elements && grad_weight_grouped::is_grouped(&patches, c.groups, o) {
        let dw = grad_weight_grouped::weight_grad(d, &patches, &gv, images, c.groups, o)?;
        return store(d, dw, x.buffer.dtype());
    }
    if kind == TermKind::Elements
        && c.groups == 1
        && let Some(dw) = grad_sparse::weight_grad(d, &patches, &gv, images, o)?
    {
        return store(d, dw, x.buffer.dtype());
    }
    let (m, positions) = (channels * patches.taps.len(), patches.positions());
    // With one group, its right factor is turned once: 14 x 14 windows of 256 channels took 12.5 ms so, and 12.0 like this.
    let pack_plan = if c.groups == 1 { PackPlan::SharedB } else { PackPlan::PerTask };
    let (batch, k) = (c.groups, images * positions);
    if patches.is_identity() && channels <= o {
        // Both factors are planes. Of these x is the smaller one to turn, and the product comes out as it should lie.
        let (plane, taps) = (patches.plane, vec![[0; 3]]);
        let g = Im2col { data: &gv[..], channels: o, plane, grid: plane, step: [1; 3], taps, isa: d.isa() };
        let lhs = Im2colTransposed { patches: g, groups: c.groups };
        let rhs = GradPlanes { data: &xv, groups: c.groups, o: channels, positions };
        let epilogue = &NoEpilogue;
        let gemm = Gemm { batch, m: o, k, n: channels, lhs: &lhs, rhs: &rhs, epilogue, pack_plan, kind };
        return store(d, run_gemm_of_pairs(d, &gemm)?, x.buffer.dtype());
    }
    // dw turned: the patches' terms lie in memory as left rows want them, and g is the smaller one to turn.
    let lhs = Im2colTransposed { patches, groups: c.groups };
    let rhs = GradPlanes { data: &gv, groups: c.groups, o, positions };
    let gemm = Gemm { batch, m, k, n: o, lhs: &lhs, rhs: &rhs, epilogue: &NoEpilogue, pack_plan, kind };
    let transposed = PooledVec::of(run_gemm_of_pairs(d, &gemm)?);
    let some = (o / (4 * d.threads())).max(MIN_ROWS_PER_TASK);
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

/// g of all images of a group: rows are terms (image, position), columns output channels.
struct GradPlanes<'a, T> {
    data: &'a [T],
    groups: usize,
    o: usize,
    positions: usize,
}

impl<T: Real> OperandB<T> for GradPlanes<'_, T> {
    fn pack(&self, isa: Isa, group: usize, terms: Range<usize>, cols: Range<usize>, out: &mut [T]) {
        let w = nr::<T>(isa);
        let data = StoredElements::Native(self.data);
        for (panel, j) in out.chunks_exact_mut(w * terms.len()).zip(cols.clone().step_by(w)) {
            let n = w.min(cols.end - j);
            if n < w {
                panel.fill(T::ZERO);
            }
            for (image, positions, at) in images(terms.clone(), self.positions) {
                let plane = (image * self.groups + group) * self.o + j;
                let from = (plane * self.positions + positions.start) as isize;
                let step = (1, self.positions as isize);
                copy_block(isa, &data, from, step, positions.len(), n, &mut panel[at * w..], w);
            }
        }
    }
    fn panels_in_place(&self, _: Isa, _: usize, _: Range<usize>, _: Range<usize>) -> Option<PanelsB<'_, T>> {
        None
    }
    fn prepacked_panels(&self, _: Range<usize>, _: Range<usize>) -> Option<PanelsB<'_, T>> {
        None
    }
    fn as_windows(&self, _: Isa) -> Option<&dyn gemm::WindowColumns<T>> {
        None
    }
    fn columns_in_place(&self, _: usize, _: Range<usize>) -> Option<ColumnsB<'_, T>> {
        None
    }
}

/// A view as another shape; its elements are copied if strides cannot say that.
fn flattened<'a>(
    d: &CpuDevice,
    v: &View<'a>,
    shape: &Shape,
) -> Result<(BorrowedOrCopied<&'a HostData, PooledData>, Layout)> {
    Ok(match v.layout.reshape(shape) {
        Some(l) => (BorrowedOrCopied::InPlace(v.buffer), l),
        None => (
            BorrowedOrCopied::Copied(PooledData::new(to_contiguous(d, v)?)),
            Layout::contiguous(shape.clone()),
        ),
    })
}

/// Numbers that lie in memory as they are wanted, or a copy, whose memory goes back to the cache.
enum BorrowedOrCopied<A, B> {
    InPlace(A),
    Copied(B),
}

impl<T: ?Sized, A: Deref<Target = T>, B: Deref<Target = T>> Deref for BorrowedOrCopied<A, B> {
    type Target = T;
    fn deref(&self) -> &T {
        match self {
            BorrowedOrCopied::InPlace(a) => a,
            BorrowedOrCopied::Copied(b) => b,
        }
    }
}

/// The elements of a view, row-major, in the type in which is computed.
fn load<'a, T: Real>(d: &CpuDevice, v: &View<'a>) -> Result<BorrowedOrCopied<&'a [T], PooledVec<T>>> {
    let l = &v.layout;
    let copied = |v: HostVec<T>| BorrowedOrCopied::Copied(PooledVec::of(v));
    Ok(match stored_elements::<T>(v.buffer)? {
        StoredElements::Native(data) => match elements(d, data, l)? {
            ContiguousElements::InPlace(data) => BorrowedOrCopied::InPlace(data),
            ContiguousElements::Copied(data) => copied(data),
        },
        StoredElements::F16(data) => copied(widened(d, StoredElements::F16(&elements(d, data, l)?), l)?),
        StoredElements::BF16(data) => copied(widened(d, StoredElements::BF16(&elements(d, data, l)?), l)?),
    })
}

/// The elements of a view, batches of planes, as they are multiplied: as [`load`], or in pairs of planes.
fn load_planes<'a, T: Real>(
    d: &CpuDevice,
    v: &View<'a>,
    kind: TermKind,
    planes: usize,
    size: usize,
) -> Result<BorrowedOrCopied<&'a [T], PooledVec<T>>> {
    match kind {
        TermKind::Elements => load(d, v),
        TermKind::Bf16Pairs => bf16::of_view(d, v, planes, size).map(BorrowedOrCopied::Copied),
    }
}

/// All elements of 16 bits, of this layout's number, as what is computed in.
fn widened<T: Real>(d: &CpuDevice, halves: StoredElements<'_, T>, l: &Layout) -> Result<HostVec<T>> {
    const CHUNK_ELEMENTS: usize = elinvar_core::order::CHUNK;
    let mut all = filled(l.shape().numel(), T::ZERO)?;
    for_each_piece(d, &mut all, 16 * CHUNK_ELEMENTS, 0.2, &|at, piece| {
        for (i, line) in piece.chunks_mut(CHUNK_ELEMENTS).enumerate() {
            let n = line.len();
            copy_block(d.isa(), &halves, (at + i * CHUNK_ELEMENTS) as isize, (0, 1), 1, n, line, n);
        }
    });
    Ok(all)
}
