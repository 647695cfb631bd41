//! A convolution or one of its gradients as an implicit GEMM: sizes, strides of both factors, and
//! its work.

use super::{
    ConvConfig, ConvKernel, ConvPass, ConvPath, ConvProblem, SimtTile, gcd, product, row_major, windows,
};
use super::{direct, smem_implicit_gemm};
use crate::formula::Formula;
use crate::gemm::{CatalogueEpilogue, split_k_reduce};
use crate::launch::sequence::{BufferSlot, BufferSpec, LaunchSequence};
use crate::launch::{ComputeUnits, Key, Work, args, grid};
use crate::layout::indexing;
use elinvar_core::{DType, Layout, order};
use elinvar_kernel::ir::Elem;

/// A factor: offset, and strides of the group, of the row or the outer part of the column, of the
/// outer part of the term, and of each spatial axis.
#[derive(Clone, Debug)]
pub(super) struct FactorStrides {
    pub(super) offset: usize,
    pub(super) strides: Vec<isize>,
}

/// A work, before its tile is chosen.
#[derive(Clone, Debug)]
pub(super) struct ImplicitGemm {
    pub(super) of: ConvPass,
    pub(super) dtype: DType,
    pub(super) groups: usize,
    pub(super) rows: usize,
    /// The column: its outer part, then the axes.
    pub(super) columns: Vec<usize>,
    /// The term: its outer part, then the axes; taps in the gradient by x.
    pub(super) terms: Vec<usize>,
    pub(super) left: FactorStrides,
    pub(super) right: FactorStrides,
    /// Per axis: what a step of the column moves the coordinate by, where it begins, what a step of
    /// the term moves it by, and the size of the right factor.
    pub(super) windows: Vec<[i64; 4]>,
    /// In the gradient by x, per axis: stride, dilation, padding, the size of the result, and taps
    /// from one that meets the grid to the next.
    pub(super) classes: Vec<[i64; 5]>,
    /// May a coordinate be outside?
    pub(super) padded: bool,
    /// Has the right factor no elements?
    pub(super) void: bool,
    /// Strides of the result: group, row, outer part of the column, axes.
    pub(super) result: Vec<i64>,
    /// Elements of the result.
    pub(super) len: usize,
    pub(super) wide: bool,
    /// As in [`ConvConfig`]; and how many of a column's outer parts are stored then, of those that
    /// memory has.
    pub(super) channels_last: bool,
    pub(super) outers: usize,
    /// As in [`ConvProblem`].
    pub(super) compute_units: ComputeUnits,
}

/// A layout's strides in a factor: of the group (`size` steps of axis `axis`), of the axes `first`
/// and `second`, of the rest.
fn factor(l: &Layout, size: usize, axis: usize, [first, second]: [usize; 2]) -> FactorStrides {
    let s = l.strides();
    let mut strides = vec![size as isize * s[axis], s[first], s[second]];
    strides.extend(&s[2..]);
    FactorStrides { offset: l.offset(), strides }
}

/// What follows a gradient: nothing.
pub(super) const PLAIN: CatalogueEpilogue<'static> = CatalogueEpilogue(None);

impl ImplicitGemm {
    pub(super) fn of(a: &ConvProblem<'_, '_>) -> ImplicitGemm {
        let [x, g] = a.operands;
        match a.of {
            ConvPass::Forward => ImplicitGemm::forward(a),
            ConvPass::GradInput => ImplicitGemm::input(a),
            ConvPass::GradWeight => ImplicitGemm::weight(a, [g, x].map(|l| l.shape()[1] / a.c.groups)),
        }
    }
    pub(super) fn forward(a: &ConvProblem<'_, '_>) -> ImplicitGemm {
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
    pub(super) fn input(a: &ConvProblem<'_, '_>) -> ImplicitGemm {
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
    pub(super) fn weight(a: &ConvProblem<'_, '_>, [rows, channels]: [usize; 2]) -> ImplicitGemm {
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
    pub(super) fn further(&self, extra: &[(&Layout, DType)]) -> Vec<FactorStrides> {
        extra.iter().map(|(l, _)| factor(l, self.rows, 1, [1, 0])).collect()
    }
    /// Taps of a term, at most: in the gradient by x those that a class meets.
    pub(super) fn taps_met(&self) -> usize {
        let every = |a: usize| self.classes.get(a).map_or(1, |c| c[4] as usize);
        (1..self.terms.len()).map(|a| self.terms[a].div_ceil(every(a - 1))).product()
    }
    pub(super) fn class_count(&self) -> usize {
        self.classes.iter().map(|c| c[0] as usize).product()
    }
    pub(super) fn workgroups(&self, tile: SimtTile) -> usize {
        self.tiles(tile).iter().product::<usize>() * self.groups * self.class_count()
    }
    pub(super) fn tiles(&self, t: SimtTile) -> [usize; 2] {
        let sizes = [self.rows, product(&self.columns)];
        [0, 1].map(|side| sizes[side].div_ceil(t.size(side) as usize))
    }

    /// The launches.
    pub(super) fn steps<'a>(self, a: &ConvProblem<'a, '_>, how: ConvPath) -> LaunchSequence<'a> {
        match self.kernel(how).path {
            ConvKernel::Depthwise => {
                let (extra, further) = (a.extra, self.further(a.extra));
                let mut all = self.none();
                let elems = extra.iter().map(|(_, d)| Elem::from(*d)).collect();
                let others = (0..extra.len()).map(|i| BufferSlot::Operand(2 + i));
                let factors = a.factors([0, 1]).map(BufferSlot::Operand);
                let buffers = factors.into_iter().chain(others).chain([BufferSlot::Result(0)]);
                let work = self.depthwise_launch(a.epilogue, elems, &further);
                all.push(work, &buffers.collect::<Vec<_>>());
                all
            }
            ConvKernel::DepthwiseGradWeight(cut) => self.in_chunks(a, self.chunks() > 1, |chunks| {
                Some(self.depthwise_grad_weight_launch(cut, chunks))
            }),
            ConvKernel::FewChannelGradInput => self.in_chunks(a, false, |_| Some(self.few_channel_launch())),
            ConvKernel::Tiled { tile, split_k } => self.tiled(a, tile, split_k),
            ConvKernel::TensorCore(_) => unreachable!("tensor cores have launches of their own"),
        }
    }
    /// No launches yet.
    pub(super) fn none(&self) -> LaunchSequence<'static> {
        LaunchSequence {
            results: vec![BufferSpec::of(self.dtype.into(), self.len)],
            ..LaunchSequence::default()
        }
    }
    /// The launches with a tile. With `split_k`, a few long chains: their chunks are computed side
    /// by side, and added in order afterwards.
    pub(super) fn tiled<'a>(
        &self,
        a: &ConvProblem<'a, '_>,
        tile: SimtTile,
        split_k: bool,
    ) -> LaunchSequence<'a> {
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
    pub(super) fn in_chunks<'a>(
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
            let join =
                split_k_reduce::join(a.epilogue, self.dtype, chunks, self.len, a.extra, self.compute_units);
            all.push(join, &[&[sums], &others[..], &[BufferSlot::Result(0)]].concat());
        }
        all
    }

    /// One launch: left, right, further operands, result. With `split_k`, the sums of so many
    /// chunks come out instead.
    pub(super) fn launch<'a>(
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
    pub(super) fn args(
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
