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
mod mma;
mod mma_implicit_gemm;
pub(crate) mod nhwc_transpose;
mod offset_table;
mod plan;
mod problem;
mod smem_implicit_gemm;

pub use crate::gemm::SimtTile;
pub use crate::gemm::mma_sync::WorkgroupLimits;
pub use mma::TensorCores;
pub use plan::{ConvCandidate, ConvPath};
pub use problem::{ConvConfig, ConvPass, StagingConfig};

use crate::formula::Formula;
use crate::gemm::CatalogueEpilogue;
use crate::gemm::split_k_reduce;
use crate::launch::sequence::{BufferSlot, BufferSpec, LaunchSequence};
use crate::launch::{ComputeUnits, Key, Work, args, grid};
use crate::layout::indexing;
use elinvar_core::{DType, Layout, order};
use elinvar_kernel::ir::Elem;
use elinvar_ops::backend::Conv;

/// A factor: offset, and strides of the group, of the row or the outer part of the column, of the
/// outer part of the term, and of each spatial axis.
#[derive(Clone, Debug)]
struct FactorStrides {
    offset: usize,
    strides: Vec<isize>,
}

/// A work, before its tile is chosen.
#[derive(Clone, Debug)]
struct ImplicitGemm {
    of: ConvPass,
    dtype: DType,
    groups: usize,
    rows: usize,
    /// The column: its outer part, then the axes.
    columns: Vec<usize>,
    /// The term: its outer part, then the axes; taps in the gradient by x.
    terms: Vec<usize>,
    left: FactorStrides,
    right: FactorStrides,
    /// Per axis: what a step of the column moves the coordinate by, where it begins, what a step of
    /// the term moves it by, and the size of the right factor.
    windows: Vec<[i64; 4]>,
    /// In the gradient by x, per axis: stride, dilation, padding, the size of the result, and taps
    /// from one that meets the grid to the next.
    classes: Vec<[i64; 5]>,
    /// May a coordinate be outside?
    padded: bool,
    /// Has the right factor no elements?
    void: bool,
    /// Strides of the result: group, row, outer part of the column, axes.
    result: Vec<i64>,
    /// Elements of the result.
    len: usize,
    wide: bool,
    /// As in [`ConvConfig`]; and how many of a column's outer parts are stored then, of those that
    /// memory has.
    channels_last: bool,
    outers: usize,
    /// As in [`ConvProblem`].
    compute_units: ComputeUnits,
}

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

/// A layout's strides in a factor: of the group (`size` steps of axis `axis`), of the axes `first`
/// and `second`, of the rest.
fn factor(l: &Layout, size: usize, axis: usize, [first, second]: [usize; 2]) -> FactorStrides {
    let s = l.strides();
    let mut strides = vec![size as isize * s[axis], s[first], s[second]];
    strides.extend(&s[2..]);
    FactorStrides { offset: l.offset(), strides }
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
            candidates(a, how).contains(&way).then(|| plan.tiled(a, tile, true))
        }
    }
}

/// Workgroups of 64 invocations that keep a compute unit busy, and of those that stage terms in
/// shared memory, which are larger.
const GROUPS_PER_UNIT: u32 = 8;
const STAGED_GROUPS_PER_UNIT: u32 = 2;
/// What follows a gradient: nothing.
const PLAIN: CatalogueEpilogue<'static> = CatalogueEpilogue(None);

impl ImplicitGemm {
    fn of(a: &ConvProblem<'_, '_>) -> ImplicitGemm {
        let [x, g] = a.operands;
        match a.of {
            ConvPass::Forward => ImplicitGemm::forward(a),
            ConvPass::GradInput => ImplicitGemm::input(a),
            ConvPass::GradWeight => ImplicitGemm::weight(a, [g, x].map(|l| l.shape()[1] / a.c.groups)),
        }
    }
    fn forward(a: &ConvProblem<'_, '_>) -> ImplicitGemm {
        let ConvProblem { c, dtype, operands: [x, w], sizes: out, extra, .. } = *a;
        let (spatial, taps) = (&x.shape()[2..], &w.shape()[2..]);
        let (n, channels, outs) = (x.shape()[0], w.shape()[1], w.shape()[0]);
        let rows = outs / c.groups;
        let y = row_major(&[&[n, outs], out].concat());
        ImplicitGemm {
            of: ConvPass::Forward,
            dtype,
            groups: c.groups,
            rows,
            columns: [&[n], out].concat(),
            terms: [&[channels], taps].concat(),
            left: factor(w, rows, 0, [0, 1]),
            right: factor(x, channels, 1, [0, 1]),
            windows: (0..out.len())
                .map(|a| {
                    [c.stride[a] as i64, -(c.padding[a] as i64), c.dilation[a] as i64, spatial[a] as i64]
                })
                .collect(),
            classes: Vec::new(),
            padded: windows(c, spatial, taps, out),
            void: x.shape().numel() == 0,
            result: [&[rows as i64 * y[1], y[1], y[0]], &y[2..]].concat(),
            len: n * outs * product(out),
            channels_last: false,
            outers: n,
            compute_units: a.compute_units,
            wide: [x, w].into_iter().chain(extra.iter().map(|(l, _)| *l)).any(indexing::is_wide),
        }
    }
    /// The gradient by x.
    fn input(a: &ConvProblem<'_, '_>) -> ImplicitGemm {
        let ConvProblem { c, dtype, operands: [g, w], sizes: spatial, .. } = *a;
        let (out, taps) = (&g.shape()[2..], &w.shape()[2..]);
        let (n, channels, outs) = (g.shape()[0], w.shape()[1], w.shape()[0] / c.groups);
        let y = row_major(&[&[n, channels * c.groups], spatial].concat());
        let step = |a: usize| gcd(c.stride[a], c.dilation[a]);
        let plain = |a: usize| taps[a] == 1 && c.stride[a] == 1 && c.padding[a] == 0 && out[a] >= spatial[a];
        ImplicitGemm {
            of: ConvPass::GradInput,
            dtype,
            groups: c.groups,
            rows: channels,
            columns: std::iter::once(n)
                .chain((0..out.len()).map(|a| spatial[a].div_ceil(c.stride[a])))
                .collect(),
            terms: [&[outs], taps].concat(),
            left: factor(w, outs, 0, [1, 0]),
            right: factor(g, outs, 1, [0, 1]),
            windows: (0..out.len())
                .map(|a| [1, 0, -((c.dilation[a] / step(a)) as i64), out[a] as i64])
                .collect(),
            classes: (0..out.len())
                .map(|a| [c.stride[a], c.dilation[a], c.padding[a], spatial[a], c.stride[a] / step(a)])
                .map(|all| all.map(|v| v as i64))
                .collect(),
            padded: !(0..out.len()).all(plain),
            void: g.shape().numel() == 0,
            result: [&[channels as i64 * y[1], y[1], y[0]], &y[2..]].concat(),
            len: n * channels * c.groups * product(spatial),
            channels_last: false,
            outers: n,
            compute_units: a.compute_units,
            wide: indexing::is_wide(g) || indexing::is_wide(w),
        }
    }
    /// The gradient by w, of so many filters and channels of a group; x and g may have more, which
    /// are left out.
    fn weight(a: &ConvProblem<'_, '_>, [rows, channels]: [usize; 2]) -> ImplicitGemm {
        let ConvProblem { c, dtype, operands: [x, g], sizes: taps, .. } = *a;
        let (spatial, out) = (&x.shape()[2..], &g.shape()[2..]);
        let (n, outs) = (x.shape()[0], rows * c.groups);
        let [in_x, in_g] = [x, g].map(|l| l.shape()[1] / c.groups);
        let y = row_major(&[&[outs, channels], taps].concat());
        ImplicitGemm {
            of: ConvPass::GradWeight,
            dtype,
            groups: c.groups,
            rows,
            columns: [&[in_x], taps].concat(),
            terms: [&[n], out].concat(),
            left: factor(g, in_g, 1, [1, 0]),
            right: factor(x, in_x, 1, [1, 0]),
            windows: (0..out.len())
                .map(|a| {
                    [c.dilation[a] as i64, -(c.padding[a] as i64), c.stride[a] as i64, spatial[a] as i64]
                })
                .collect(),
            classes: Vec::new(),
            padded: windows(c, spatial, taps, out),
            void: x.shape().numel() == 0,
            result: [&[rows as i64 * y[0], y[0], y[1]], &y[2..]].concat(),
            len: outs * channels * product(taps),
            channels_last: false,
            outers: channels,
            compute_units: a.compute_units,
            wide: indexing::is_wide(x) || indexing::is_wide(g),
        }
    }
    /// Further operands of a convolution's epilogue.
    fn further(&self, extra: &[(&Layout, DType)]) -> Vec<FactorStrides> {
        extra.iter().map(|(l, _)| factor(l, self.rows, 1, [1, 0])).collect()
    }
    /// Taps of a term, at most: in the gradient by x those that a class meets.
    fn taps_met(&self) -> usize {
        let every = |a: usize| self.classes.get(a).map_or(1, |c| c[4] as usize);
        (1..self.terms.len()).map(|a| self.terms[a].div_ceil(every(a - 1))).product()
    }
    fn class_count(&self) -> usize {
        self.classes.iter().map(|c| c[0] as usize).product()
    }
    /// Do chunks have workgroups of their own? With strides, those of the gradient by x are not the
    /// same for all positions. Without split-K, deep layers of small planes leave too few
    /// workgroups, with several chunks each.
    fn worth_split_k(&self, tile: SimtTile) -> bool {
        let per_unit = if tile.depth > 0 { STAGED_GROUPS_PER_UNIT } else { GROUPS_PER_UNIT };
        let busy = self.compute_units.filled_by(per_unit);
        self.class_count() == 1
            && split_k_reduce::worth_split_k(self.workgroups(tile), busy, self.chunks(), self.len)
    }
    fn workgroups(&self, tile: SimtTile) -> usize {
        self.tiles(tile).iter().product::<usize>() * self.groups * self.class_count()
    }
    fn tiles(&self, t: SimtTile) -> [usize; 2] {
        let sizes = [self.rows, product(&self.columns)];
        [0, 1].map(|side| sizes[side].div_ceil(t.size(side) as usize))
    }

    /// The launches.
    fn steps<'a>(self, a: &ConvProblem<'a, '_>, how: ConvPath) -> LaunchSequence<'a> {
        let exactly = matches!(how, ConvPath::ImplicitGemm(_));
        if self.is_depthwise() && !exactly {
            let (extra, further) = (a.extra, self.further(a.extra));
            let mut all = self.none();
            let elems = extra.iter().map(|(_, d)| Elem::from(*d)).collect();
            let others = (0..extra.len()).map(|i| BufferSlot::Operand(2 + i));
            let factors = a.factors([0, 1]).map(BufferSlot::Operand);
            let buffers = factors.into_iter().chain(others).chain([BufferSlot::Result(0)]);
            all.push(self.depthwise_launch(a.epilogue, elems, &further), &buffers.collect::<Vec<_>>());
            return all;
        }
        if let ConvPath::Auto(limits) | ConvPath::TensorCore(TensorCores { limits, .. }) = how
            && let Some(cut) = self.depthwise_grad_weight_tiling(limits)
        {
            return self.in_chunks(a, self.chunks() > 1, |chunks| {
                Some(self.depthwise_grad_weight_launch(cut, chunks))
            });
        }
        if matches!(how, ConvPath::Auto(_) | ConvPath::TensorCore(_)) && self.is_few_channels() {
            return self.in_chunks(a, false, |_| Some(self.few_channel_launch()));
        }
        self.tiled(a, self.tile(how), !exactly)
    }
    /// No launches yet.
    fn none(&self) -> LaunchSequence<'static> {
        LaunchSequence {
            results: vec![BufferSpec::of(self.dtype.into(), self.len)],
            ..LaunchSequence::default()
        }
    }
    /// The launches with a tile; `several`: there may be more than one.
    fn tiled<'a>(&self, a: &ConvProblem<'a, '_>, tile: SimtTile, several: bool) -> LaunchSequence<'a> {
        // A few long chains: their chunks are computed side by side, and added in order afterwards.
        let split_k = self.worth_split_k(tile) && several;
        let (epilogue, further) = (a.epilogue, self.further(a.extra));
        self.in_chunks(a, split_k, |chunks| match chunks {
            Some(_) => self.launch(&PLAIN, Vec::new(), &[], tile, chunks),
            None => {
                let elems = a.extra.iter().map(|(_, d)| Elem::from(*d)).collect();
                self.launch(epilogue, elems, &further, tile, None)
            }
        })
    }
    /// One launch, or with `split_k` one that makes the sums of so many chunks, and one that joins
    /// them.
    fn in_chunks<'a>(
        &self,
        a: &ConvProblem<'a, '_>,
        split_k: bool,
        launch: impl Fn(Option<usize>) -> Option<Work<'a>>,
    ) -> LaunchSequence<'a> {
        let (mut all, chunks) = (self.none(), self.chunks());
        let mut buffers = a.factors([0, 1]).map(BufferSlot::Operand).to_vec();
        let others: Vec<BufferSlot> = (0..a.extra.len()).map(|i| BufferSlot::Operand(2 + i)).collect();
        if !split_k {
            if let Some(work) = launch(None) {
                buffers.extend(others);
                buffers.push(BufferSlot::Result(0));
                all.push(work, &buffers);
            }
            return all;
        }
        if let Some(work) = launch(Some(chunks)) {
            let sums = BufferSlot::Scratch(0);
            all.scratch.push(BufferSpec::of(split_k_reduce::elem(self.dtype), chunks * self.len));
            buffers.push(sums);
            all.push(work, &buffers);
            let join = split_k_reduce::join(a.epilogue, self.dtype, chunks, self.len, a.extra);
            all.push(join, &[&[sums], &others[..], &[BufferSlot::Result(0)]].concat());
        }
        all
    }

    /// One launch: left, right, further operands, result. With `split_k`, the sums of so many
    /// chunks come out instead.
    fn launch<'a>(
        &self,
        epilogue: &'a dyn Formula,
        extra: Vec<Elem>,
        further: &[FactorStrides],
        tile: SimtTile,
        split_k: Option<usize>,
    ) -> Option<Work<'a>> {
        if self.len == 0 {
            return None;
        }
        let made = self.len * split_k.unwrap_or(1);
        let wide = self.wide || indexing::are_many(made);
        let staged = self.staged(tile);
        let tile =
            if staged.is_some() { self.with_cp_async(tile) } else { SimtTile { depth: 0, slots: 0, ..tile } };
        let config = ConvConfig {
            of: self.of,
            channels_last: false,
            dtype: self.dtype,
            extra,
            tile,
            rank: self.windows.len(),
            padded: self.padded,
            masked: staged.is_none()
                && self.padded
                && self.of != ConvPass::GradWeight
                && self.taps_met() <= 32,
            void: self.void,
            multi_chunk: product(&self.terms) > order::CHUNK && split_k.is_none(),
            split_k: split_k.is_some(),
            staged: staged.clone(),
            wide,
        };
        let outermost = split_k.unwrap_or(self.class_count());
        let (all, groups) = self.args(&config, outermost, self.tiles(tile), further);
        let groups = grid(groups as u64);
        let key = epilogue.key(Key::of("conv").with(&config));
        let scalar = indexing::scalar(config.wide);
        Some(args::work(
            key,
            move || {
                if config.staged.is_some() {
                    smem_implicit_gemm::build(epilogue, &config)
                } else {
                    direct::build(epilogue, &config)
                }
            },
            groups,
            scalar,
            &all,
        ))
    }

    /// The numbers of a launch, as `ConvArgs` asks for them, and its workgroups: over so many
    /// chunks or classes, and tiles.
    fn args(
        &self,
        config: &ConvConfig,
        outermost: usize,
        tiles: [usize; 2],
        further: &[FactorStrides],
    ) -> (Vec<i64>, usize) {
        let mut all: Vec<i64> =
            [outermost, self.groups, tiles[0], tiles[1], self.rows, product(&self.columns)]
                .map(|v| v as i64)
                .to_vec();
        if config.columns_last() {
            let dims = [&[1], &self.columns[1..], &self.columns[..1]].concat();
            all.extend(indexing::sizes_any(&dims, config.wide));
        } else {
            all.extend(indexing::sizes_any(&self.columns, config.wide));
        }
        all.extend(self.terms.iter().map(|&t| t as i64));
        all.extend(self.windows.iter().flatten());
        all.extend(self.classes.iter().flatten());
        all.extend(&self.result);
        if config.split_k {
            all.push(self.len as i64);
        }
        for f in [&self.left, &self.right].into_iter().chain(further) {
            all.push(f.offset as i64);
            all.extend(f.strides.iter().map(|&s| s as i64));
        }
        if config.staged.is_some() {
            all.push(self.left_step().unwrap_or(0));
        }
        if config.columns_last() {
            all.push(self.outers as i64);
        }
        (all, outermost * self.groups * tiles[0] * tiles[1])
    }
}
