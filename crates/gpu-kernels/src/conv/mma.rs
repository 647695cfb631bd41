//! Convolution and its gradients on tensor cores (mma.sync): which problems qualify, and the
//! launches for them.
//!
//! Both factors are read in vectors of 16 bytes along channels (NHWC), so other operands are
//! transposed first (`nhwc_transpose.rs`): a small part of the cost of the products. Terms are then
//! counted along channels first, then along taps, both ascending; a group's channels are padded
//! with zeros to a multiple of 16 bytes. The gradient by w takes its terms in the definition's
//! order, in pieces whose length depends on their number alone (`length`), and adds the pieces'
//! sums from first to last.

use super::nhwc_transpose::{NhwcView, to_nhwc};
use super::offset_table::TableSpan;
use super::plan::mma_tiles;
use super::plan::thresholds::MIN_MMA_ROWS;
use super::problem::{self, ConvPass, StagingConfig};
use super::{ConvProblem, ImplicitGemm, PLAIN, SimtTile, WorkgroupLimits, mma_implicit_gemm, product};
use crate::formula::Formula;
use crate::gemm::mma_sync::WarpTiling;
use crate::gemm::{mma_sync, split_k_reduce};
use crate::launch::{BufferSlot, BufferSpec, Key, LaunchSequence, args, grid};
use crate::layout::indexing;
use elinvar_core::{DType, Layout, Shape};
use elinvar_kernel::ir::{Elem, MmaShape};

/// The tensor cores of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorCores {
    /// What they multiply.
    pub unit: MmaShape,
    /// Invocations of a subgroup.
    pub lanes: u32,
    /// What a workgroup has.
    pub limits: WorkgroupLimits,
}

/// Terms of a piece of the gradient by w, at least; and so many pieces, at most.
const MIN_PIECE_TERMS: usize = 2048;
const MAX_PIECES: usize = 64;

/// The terms of a piece, of so many in all.
fn length(terms: usize) -> usize {
    MIN_PIECE_TERMS.max(terms.div_ceil(MAX_PIECES).next_power_of_two())
}

/// What is known of a work before its tile is.
struct MmaPlan {
    words: u8,
    matrix: bool,
    /// Terms of a piece, and how many pieces there are.
    length: usize,
    pieces: usize,
    span: TableSpan,
    /// How many products of rows by columns.
    batches: usize,
    sums: [usize; 2],
    /// With what a device has beside the tables.
    tensor_cores: TensorCores,
}

impl MmaPlan {
    fn tile(&self) -> Option<mma_sync::MmaTile> {
        mma_tiles::tile(self.tensor_cores, self.batches, self.sums)
    }
}

/// An operand for tensor cores.
struct NhwcOperand {
    slot: BufferSlot,
    layout: Layout,
}

/// Is an operand in pieces of channels?
fn needs_transpose(l: &Layout, channel: usize, channels: usize, piece: usize) -> bool {
    let all = || l.strides().iter().enumerate().filter(|&(a, _)| a != channel && l.shape()[a] > 1);
    l.strides()[channel] == 1
        && channels.is_multiple_of(piece)
        && l.offset().is_multiple_of(piece)
        && all().all(|(_, s)| *s >= 0 && s.unsigned_abs().is_multiple_of(piece))
}

/// An operand as it is or turned, by a launch more.
fn transposed(
    all: &mut LaunchSequence<'_>,
    slot: BufferSlot,
    l: &Layout,
    dtype: DType,
    [channel, groups]: [usize; 2],
) -> NhwcOperand {
    let piece = 16 / dtype.size();
    let channels = l.shape()[channel] / groups;
    if needs_transpose(l, channel, channels, piece) {
        return NhwcOperand { slot, layout: l.clone() };
    }
    let (outer, padded) = (1 - channel, channels.next_multiple_of(piece));
    let positions = &l.shape()[2..];
    let dims = [&[l.shape()[outer]], positions, &[groups * padded]].concat();
    let to = BufferSlot::Scratch(all.scratch.len());
    all.scratch.push(BufferSpec::of(dtype.into(), product(&dims)));
    all.push(to_nhwc(l, dtype, NhwcView { outer, channel, channels, padded }), &[slot, to]);
    // As the axes were.
    let last = dims.len() - 1;
    let axes = [if channel == 0 { [last, 0] } else { [0, last] }.to_vec(), (1..last).collect()].concat();
    let shape = Shape::new(&dims).expect("as large as memory that is there");
    NhwcOperand { slot: to, layout: Layout::contiguous(shape).permute(&axes) }
}

/// Is there something that tensor cores would gain by, of operands that are not too large?
fn worth_tensor_cores(
    tensor_cores: TensorCores,
    dtype: DType,
    rows: usize,
    terms: usize,
    l: [&Layout; 2],
) -> bool {
    tensor_cores.unit.elem == Elem::from(dtype)
        && rows >= MIN_MMA_ROWS
        && terms > 0
        && l.iter().all(|l| {
            l.shape().numel() > 0 && !indexing::is_wide(l) && !indexing::are_many(8 * l.shape().numel())
        })
}

/// See [`super::steps`]; with a tile that is cut so, or the one that suits. `None` if the exact
/// kernels do it, or if there is no room.
pub(super) fn steps<'a>(
    a: &ConvProblem<'a, '_>,
    tensor_cores: TensorCores,
    cut: Option<WarpTiling>,
) -> Option<LaunchSequence<'a>> {
    let (all, factors, plan) = planned(a, tensor_cores)?;
    plan.with_tensor_cores(all, factors, a, tensor_cores, cut)
}

/// The tile that suits; `None` if the exact kernels do it, or if there is no room.
pub(super) fn tile(a: &ConvProblem<'_, '_>, tensor_cores: TensorCores) -> Option<mma_sync::MmaTile> {
    let (.., plan) = planned(a, tensor_cores)?;
    plan.mma_plan(tensor_cores)?.tile()
}

/// The cuts of tiles that may be tried; `None` if the exact kernels do it.
pub(super) fn cuts(a: &ConvProblem<'_, '_>, tensor_cores: TensorCores) -> Option<Vec<WarpTiling>> {
    let (.., plan) = planned(a, tensor_cores)?;
    let mma_plan = plan.mma_plan(tensor_cores).filter(|_| plan.len > 0)?;
    mma_plan.tile().map(|chosen| mma_tiles::cuts(mma_plan.tensor_cores, mma_plan.sums, chosen))
}

/// The launches that turn operands, the factors then, as the kernel binds them, and what is left to
/// do.
fn planned<'a>(
    a: &ConvProblem<'_, '_>,
    tensor_cores: TensorCores,
) -> Option<(LaunchSequence<'a>, [BufferSlot; 2], ImplicitGemm)> {
    let ([x, y], groups) = (a.operands, a.c.groups);
    // Rows and outer parts of terms (of the gradient by w, of columns); the channels of operands,
    // and their groups.
    let (rows, outers, channels) = match a.of {
        ConvPass::Forward => (y.shape()[0] / groups, y.shape()[1], [[1, groups], [1, 1]]),
        ConvPass::GradInput => (y.shape()[1], y.shape()[0], [[1, groups], [0, groups]]),
        ConvPass::GradWeight => (y.shape()[1] / groups, x.shape()[1] / groups, [[1, groups]; 2]),
    };
    if !worth_tensor_cores(tensor_cores, a.dtype, rows, outers, a.operands) {
        return None;
    }
    let mut all = LaunchSequence::default();
    let [x, y] =
        [0, 1].map(|i| transposed(&mut all, BufferSlot::Operand(i), a.operands[i], a.dtype, channels[i]));
    let problem = ConvProblem { operands: [&x.layout, &y.layout], ..*a };
    let plan = match a.of {
        ConvPass::Forward | ConvPass::GradInput => ImplicitGemm::of(&problem),
        // Channels that fill a piece up are no rows, and no columns of the result.
        ConvPass::GradWeight => ImplicitGemm::weight(&problem, [rows, outers]),
    };
    Some((all, a.factors([x.slot, y.slot]), ImplicitGemm { channels_last: true, ..plan }))
}

impl ImplicitGemm {
    /// `None` if there are too many taps, or tables leave no room.
    fn mma_plan(&self, tensor_cores: TensorCores) -> Option<MmaPlan> {
        let words = self.words()?;
        let (terms, matrix) = (product(&self.terms), self.left_step().is_some());
        let by_terms = self.of != ConvPass::GradWeight;
        let length = if by_terms { terms } else { length(terms) };
        let pieces = terms.div_ceil(length.max(1));
        let (window, grain) = if by_terms { (512, 16 / self.dtype.size() as u32) } else { (128, 1) };
        let span = TableSpan { window, windows: if length > 128 { 2 } else { 1 }, grain };
        let tables = 4 * span.elements(words, matrix);
        let limits = WorkgroupLimits {
            shared: tensor_cores.limits.shared.checked_sub(tables)?,
            // All of its terms come by copies, which on some devices are loads and stores.
            cp_async: true,
            ..tensor_cores.limits
        };
        let batches = self.groups * self.class_count() * pieces;
        let sums = [self.rows, product(&self.columns)];
        Some(MmaPlan {
            words,
            matrix,
            length,
            pieces,
            span,
            batches,
            sums,
            tensor_cores: TensorCores { limits, ..tensor_cores },
        })
    }

    /// The launches after those that turn operands. The slots are those of the two factors, as the
    /// kernel binds them.
    fn with_tensor_cores<'a>(
        self,
        mut all: LaunchSequence<'a>,
        factors: [BufferSlot; 2],
        a: &ConvProblem<'a, '_>,
        tensor_cores: TensorCores,
        cut: Option<WarpTiling>,
    ) -> Option<LaunchSequence<'a>> {
        let (epilogue, extra, further) = (a.epilogue, a.extra, self.further(a.extra));
        all.results = vec![BufferSpec::of(self.dtype.into(), self.len)];
        if self.len == 0 {
            return Some(LaunchSequence { results: all.results, ..LaunchSequence::default() });
        }
        let mma_plan = self.mma_plan(tensor_cores)?;
        let tile = match cut {
            None => mma_plan.tile(),
            Some(cut) => mma_sync::MmaTile::cut(
                tensor_cores.unit,
                tensor_cores.lanes,
                cut,
                mma_plan.tensor_cores.limits,
            ),
        }?;
        let MmaPlan { words, matrix, length, pieces, span, sums, .. } = mma_plan;
        let (by_terms, piece) = (self.of != ConvPass::GradWeight, 16 / self.dtype.size());
        let split_k = (pieces > 1).then_some(pieces);
        let stores = [4, 2].into_iter().find(|&p| self.stored().is_multiple_of(p)).unwrap_or(1);
        let base = problem::ConvConfig {
            of: self.of,
            channels_last: true,
            dtype: self.dtype,
            extra: if split_k.is_some() { Vec::new() } else { extra.iter().map(|e| e.1.into()).collect() },
            // Only for the name.
            tile: SimtTile { group: tile.subgroups, each: tile.each, depth: tile.depth, slots: tile.slots },
            rank: self.windows.len(),
            padded: self.padded,
            masked: false,
            void: false,
            multi_chunk: false,
            split_k: split_k.is_some(),
            staged: Some(StagingConfig {
                k_major: [by_terms; 2],
                width: [piece as u8; 2],
                matrix,
                words,
                whole: product(&self.terms).is_multiple_of(mma_implicit_gemm::whole_terms(tensor_cores.unit)),
                stores: stores as u8,
            }),
            wide: false,
        };
        let config = mma_implicit_gemm::ConvMmaConfig { base, tile, span };
        let tiles = [0, 1].map(|side| sums[side].div_ceil(tile.size(side) as usize));
        let outermost = split_k.unwrap_or(self.class_count());
        let (mut given, groups) =
            self.args(&config.base, outermost, tiles, if split_k.is_some() { &[] } else { &further });
        if split_k.is_some() {
            given.push(length as i64);
        }
        let groups = grid(groups as u64);
        let scalar = indexing::scalar(false);
        let mut buffers = factors.to_vec();
        let others: Vec<BufferSlot> = (0..extra.len()).map(|i| BufferSlot::Operand(2 + i)).collect();
        if split_k.is_none() {
            let key = epilogue.key(Key::of("conv_mma").with(&config));
            let work =
                args::work(key, move || mma_implicit_gemm::build(epilogue, &config), groups, scalar, &given);
            buffers.extend(others);
            buffers.push(BufferSlot::Result(0));
            all.push(work, &buffers);
            return Some(all);
        }
        let key = PLAIN.key(Key::of("conv_mma").with(&config));
        let work = args::work(key, move || mma_implicit_gemm::build(&PLAIN, &config), groups, scalar, &given);
        let sums = BufferSlot::Scratch(all.scratch.len());
        all.scratch.push(BufferSpec::of(split_k_reduce::elem(self.dtype), pieces * self.len));
        buffers.push(sums);
        all.push(work, &buffers);
        let join = split_k_reduce::join(epilogue, self.dtype, pieces, self.len, extra, self.compute_units);
        all.push(join, &[&[sums], &others[..], &[BufferSlot::Result(0)]].concat());
        Some(all)
    }
}
