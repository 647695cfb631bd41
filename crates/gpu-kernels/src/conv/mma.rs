//! Convolutions and their gradients by matrix units: which can be, and what is launched for them.
//!
//! Both factors are read in pieces of 16 bytes, of channels side by side, so operands that do not lie so are turned first
//! (`nhwc_transpose.rs`): what that costs is little beside the products. Terms are then counted along channels first, then along taps, both in
//! ascending order; a group's channels are as many as a multiple of 16 bytes holds, zeros behind its own. The gradient by w takes
//! its terms in the definition's order, in pieces whose length their number alone says (`length`), and adds the pieces' sums from
//! first to last.

use super::nhwc_transpose::{Turn, turn};
use super::offset_table::Span;
use super::plan::BROAD;
use super::problem::{self, Of, Staged};
use super::{Asked, Limits, PLAIN, Plan, Tile, mma_implicit_gemm, product};
use crate::formula::Formula;
use crate::gemm::mma_sync::Cut;
use crate::gemm::{mma_sync, split_k_reduce};
use crate::launch::{Key, Room, Slot, Steps, args, grid};
use crate::layout::indexing;
use elinvar_core::{DType, Layout, Shape};
use elinvar_kernel::ir::{Elem, MatrixUnit};

/// The matrix units of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Units {
    /// What they multiply.
    pub unit: MatrixUnit,
    /// Invocations of a subgroup.
    pub lanes: u32,
    /// What a workgroup has.
    pub limits: Limits,
}

/// Fewer rows of a group would leave most of a unit unused.
const FEWEST_ROWS: usize = 8;
/// Terms of a piece of the gradient by w, at least; and so many pieces, at most.
const SHORTEST: usize = 2048;
const PIECES: usize = 64;

/// The terms of a piece, of so many in all.
fn length(terms: usize) -> usize {
    SHORTEST.max(terms.div_ceil(PIECES).next_power_of_two())
}

/// So many subgroups keep a large device busy.
const BUSY: usize = 512;

/// What is known of a work before its tile is.
struct Laid {
    words: u8,
    matrix: bool,
    /// Terms of a piece, and how many pieces there are.
    length: usize,
    pieces: usize,
    span: Span,
    /// How many products of rows by columns.
    batches: usize,
    sums: [usize; 2],
    /// With what a device has beside the tables.
    units: Units,
}

impl Laid {
    /// A tile: one of those that products have, or the broad one.
    fn tile(&self) -> Option<mma_sync::Tile> {
        let (Units { unit, lanes, limits }, sums) = (self.units, self.sums);
        if let Some(broad) = mma_sync::Tile::cut(unit, lanes, BROAD, limits) {
            let size = [0, 1].map(|side| broad.size(side) as usize);
            let tiles = (0..2).map(|side| sums[side].div_ceil(size[side])).product::<usize>();
            let is_busy = 4 * self.batches * tiles >= BUSY;
            if is_busy && (size[0] / 2 + 1..=size[0]).contains(&sums[0]) {
                return Some(broad);
            }
        }
        mma_sync::Tile::of(unit, lanes, self.batches, sums, limits)
    }
    /// The cuts that are worth a try, but for that of the tile that is chosen.
    fn cuts(&self) -> Vec<Cut> {
        let Units { unit, lanes, limits } = self.units;
        let broad = mma_sync::Tile::cut(unit, lanes, BROAD, limits).map(|t| (BROAD, t));
        let all = mma_sync::Tile::tried(unit, lanes, self.sums, limits).into_iter().chain(broad);
        let chosen = self.tile();
        all.filter(|(_, tile)| Some(*tile) != chosen).map(|(cut, _)| cut).collect()
    }
}

/// An operand for matrix units.
struct Operand {
    slot: Slot,
    layout: Layout,
}

/// Does an operand lie in pieces of channels?
fn is_turned(l: &Layout, channel: usize, channels: usize, piece: usize) -> bool {
    let all = || l.strides().iter().enumerate().filter(|&(a, _)| a != channel && l.shape()[a] > 1);
    l.strides()[channel] == 1
        && channels.is_multiple_of(piece)
        && l.offset().is_multiple_of(piece)
        && all().all(|(_, s)| *s >= 0 && s.unsigned_abs().is_multiple_of(piece))
}

/// An operand as it is or turned, by a launch more.
fn turned(
    all: &mut Steps<'_>,
    slot: Slot,
    l: &Layout,
    dtype: DType,
    [channel, groups]: [usize; 2],
) -> Operand {
    let piece = 16 / dtype.size();
    let channels = l.shape()[channel] / groups;
    if is_turned(l, channel, channels, piece) {
        return Operand { slot, layout: l.clone() };
    }
    let (outer, padded) = (1 - channel, channels.next_multiple_of(piece));
    let positions = &l.shape()[2..];
    let dims = [&[l.shape()[outer]], positions, &[groups * padded]].concat();
    let to = Slot::Scratch(all.scratch.len());
    all.scratch.push(Room::of(dtype.into(), product(&dims)));
    all.push(turn(l, dtype, Turn { outer, channel, channels, padded }), &[slot, to]);
    // As the axes were.
    let last = dims.len() - 1;
    let axes = [if channel == 0 { [last, 0] } else { [0, last] }.to_vec(), (1..last).collect()].concat();
    let shape = Shape::new(&dims).expect("as large as memory that is there");
    Operand { slot: to, layout: Layout::contiguous(shape).permute(&axes) }
}

/// Is there something that matrix units would gain by, of operands that are not too large?
fn suits(units: Units, dtype: DType, rows: usize, terms: usize, l: [&Layout; 2]) -> bool {
    units.unit.elem == Elem::from(dtype)
        && rows >= FEWEST_ROWS
        && terms > 0
        && l.iter().all(|l| {
            l.shape().numel() > 0 && !indexing::is_wide(l) && !indexing::are_many(8 * l.shape().numel())
        })
}

/// See [`super::steps`]; with a tile that is cut so, or the one that suits. `None` if the exact kernels do it, or if there is no room.
pub(super) fn steps<'a>(a: &Asked<'a, '_>, units: Units, cut: Option<Cut>) -> Option<Steps<'a>> {
    let (all, factors, plan) = planned(a, units)?;
    plan.by_units(all, factors, a, units, cut)
}

/// The cuts of tiles that may be tried; `None` if the exact kernels do it.
pub(super) fn cuts(a: &Asked<'_, '_>, units: Units) -> Option<Vec<Cut>> {
    let (.., plan) = planned(a, units)?;
    let laid = plan.laid(units).filter(|_| plan.len > 0)?;
    laid.tile().map(|_| laid.cuts())
}

/// The launches that turn operands, the factors then, as the kernel binds them, and what is left to do.
fn planned<'a>(a: &Asked<'_, '_>, units: Units) -> Option<(Steps<'a>, [Slot; 2], Plan)> {
    let ([x, y], groups) = (a.operands, a.c.groups);
    // Rows and outer parts of terms (of the gradient by w, of columns); the channels of operands, and their groups.
    let (rows, outers, channels) = match a.of {
        Of::Forward => (y.shape()[0] / groups, y.shape()[1], [[1, groups], [1, 1]]),
        Of::Input => (y.shape()[1], y.shape()[0], [[1, groups], [0, groups]]),
        Of::Weight => (y.shape()[1] / groups, x.shape()[1] / groups, [[1, groups]; 2]),
    };
    if !suits(units, a.dtype, rows, outers, a.operands) {
        return None;
    }
    let mut all = Steps::default();
    let [x, y] = [0, 1].map(|i| turned(&mut all, Slot::Operand(i), a.operands[i], a.dtype, channels[i]));
    let lies = Asked { operands: [&x.layout, &y.layout], ..*a };
    let plan = match a.of {
        Of::Forward | Of::Input => Plan::of(&lies),
        // Channels that fill a piece up are no rows, and no columns of the result.
        Of::Weight => Plan::weight(&lies, [rows, outers]),
    };
    Some((all, a.factors([x.slot, y.slot]), Plan { channels_last: true, ..plan }))
}

impl Plan {
    /// `None` if there are too many taps, or tables leave no room.
    fn laid(&self, units: Units) -> Option<Laid> {
        let words = self.words()?;
        let (terms, matrix) = (product(&self.terms), self.left_step().is_some());
        let by_terms = self.of != Of::Weight;
        let length = if by_terms { terms } else { length(terms) };
        let pieces = terms.div_ceil(length.max(1));
        let (window, grain) = if by_terms { (512, 16 / self.dtype.size() as u32) } else { (128, 1) };
        let span = Span { window, windows: if length > 128 { 2 } else { 1 }, grain };
        let tables = 4 * span.elements(words, matrix);
        let limits = Limits {
            shared: units.limits.shared.checked_sub(tables)?,
            // All of its terms come by copies, which on some devices are loads and stores.
            asynchronous: true,
            ..units.limits
        };
        let batches = self.groups * self.class_count() * pieces;
        let sums = [self.rows, product(&self.columns)];
        Some(Laid { words, matrix, length, pieces, span, batches, sums, units: Units { limits, ..units } })
    }

    /// The launches after those that turn operands. The slots are those of the two factors, as the kernel binds them.
    fn by_units<'a>(
        self,
        mut all: Steps<'a>,
        factors: [Slot; 2],
        a: &Asked<'a, '_>,
        units: Units,
        cut: Option<Cut>,
    ) -> Option<Steps<'a>> {
        let (epilogue, extra, further) = (a.epilogue, a.extra, self.further(a.extra));
        all.results = vec![Room::of(self.dtype.into(), self.len)];
        if self.len == 0 {
            return Some(Steps { results: all.results, ..Steps::default() });
        }
        let laid = self.laid(units)?;
        let tile = match cut {
            None => laid.tile(),
            Some(cut) => mma_sync::Tile::cut(units.unit, units.lanes, cut, laid.units.limits),
        }?;
        let Laid { words, matrix, length, pieces, span, sums, .. } = laid;
        let (by_terms, piece) = (self.of != Of::Weight, 16 / self.dtype.size());
        let apart = (pieces > 1).then_some(pieces);
        let stores = [4, 2].into_iter().find(|&p| self.stored().is_multiple_of(p)).unwrap_or(1);
        let base = problem::Form {
            of: self.of,
            channels_last: true,
            dtype: self.dtype,
            extra: if apart.is_some() { Vec::new() } else { extra.iter().map(|e| e.1.into()).collect() },
            // Only for the name.
            tile: Tile { group: tile.subgroups, each: tile.each, depth: tile.depth, slots: tile.slots },
            rank: self.windows.len(),
            padded: self.padded,
            masked: false,
            void: false,
            many: false,
            apart: apart.is_some(),
            staged: Some(Staged {
                along: [by_terms; 2],
                width: [piece as u8; 2],
                matrix,
                words,
                whole: product(&self.terms).is_multiple_of(mma_implicit_gemm::whole_terms(units.unit)),
                stores: stores as u8,
            }),
            wide: false,
        };
        let form = mma_implicit_gemm::Form { base, tile, span };
        let tiles = [0, 1].map(|side| sums[side].div_ceil(tile.size(side) as usize));
        let outermost = apart.unwrap_or(self.class_count());
        let (mut given, groups) =
            self.numbers(&form.base, outermost, tiles, if apart.is_some() { &[] } else { &further });
        if apart.is_some() {
            given.push(length as i64);
        }
        let groups = grid(groups as u64);
        let scalar = indexing::scalar(false);
        let mut buffers = factors.to_vec();
        let others: Vec<Slot> = (0..extra.len()).map(|i| Slot::Operand(2 + i)).collect();
        if apart.is_none() {
            let key = epilogue.key(Key::of("conv by units").with(&form));
            let work =
                args::work(key, move || mma_implicit_gemm::build(epilogue, &form), groups, scalar, &given);
            buffers.extend(others);
            buffers.push(Slot::Result(0));
            all.push(work, &buffers);
            return Some(all);
        }
        let key = PLAIN.key(Key::of("conv by units").with(&form));
        let work = args::work(key, move || mma_implicit_gemm::build(&PLAIN, &form), groups, scalar, &given);
        let sums = Slot::Scratch(all.scratch.len());
        all.scratch.push(Room::of(split_k_reduce::elem(self.dtype), pieces * self.len));
        buffers.push(sums);
        all.push(work, &buffers);
        let join = split_k_reduce::join(epilogue, self.dtype, pieces, self.len, extra);
        all.push(join, &[&[sums], &others[..], &[Slot::Result(0)]].concat());
        Some(all)
    }
}
