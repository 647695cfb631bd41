//! Convolutions and their gradients by matrix units: which can be, and what is launched for them.
//!
//! Both factors are read in pieces of 16 bytes, of channels side by side, so operands that do not lie so are turned first
//! (`turn.rs`): what that costs is little beside the products. Terms are then counted along channels first, then along taps, both in
//! ascending order; a group's channels are as many as a multiple of 16 bytes holds, zeros behind its own. The gradient by w takes
//! its terms in the definition's order, in pieces whose length their number alone says (`length`), and adds the pieces' sums from
//! first to last.

use super::head::{self, Of, Staged};
use super::table::Span;
use super::turn::{Turn, turn};
use super::{Asked, Limits, PLAIN, Plan, Tile, product, units};
use crate::ir::{Elem, MatrixUnit};
use crate::library::formula::Formula;
use crate::library::{Key, Room, Slot, Steps, chunks, grid, index, matrix_units, numbers};
use elinvar_core::{DType, Layout, Shape};

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

/// A tile for as many products of rows by columns: those that products have, and one for the usual 64 filters, of which twice as many
/// columns are computed with what is loaded of them.
fn tile(units: Units, batches: usize, sums: [usize; 2]) -> Option<matrix_units::Tile> {
    let Units { unit, lanes, limits } = units;
    let terms = u32::from(unit.shape[2]);
    let broad = matrix_units::Tile { unit, lanes, subgroups: [2, 2], each: [2, 4], depth: terms, slots: 3 };
    let size = [0, 1].map(|side| broad.size(side) as usize);
    let subgroups = 4 * batches * (0..2).map(|side| sums[side].div_ceil(size[side])).product::<usize>();
    let fits = broad.invocations() <= limits.invocations && broad.shared_bytes() <= limits.shared;
    if fits && subgroups >= BUSY && (size[0] / 2 + 1..=size[0]).contains(&sums[0]) {
        return Some(broad);
    }
    matrix_units::Tile::of(unit, lanes, batches, sums, limits)
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
        && l.iter()
            .all(|l| l.shape().numel() > 0 && !index::is_wide(l) && !index::are_many(8 * l.shape().numel()))
}

/// See [`super::steps`]; `None` if the exact kernels do it.
pub(super) fn steps<'a>(a: &Asked<'a, '_>, units: Units) -> Option<Steps<'a>> {
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
    plan.by_units(all, a.factors([x.slot, y.slot]), a, units)
}

impl Plan {
    /// The launches after those that turn operands. The slots are those of the two factors, as the kernel binds them.
    fn by_units<'a>(
        mut self,
        mut all: Steps<'a>,
        factors: [Slot; 2],
        a: &Asked<'a, '_>,
        units: Units,
    ) -> Option<Steps<'a>> {
        let (epilogue, extra, further) = (a.epilogue, a.extra, self.further(a.extra));
        self.channels_last = true;
        all.results = vec![Room::of(self.dtype.into(), self.len)];
        if self.len == 0 {
            return Some(Steps { results: all.results, ..Steps::default() });
        }
        let words = self.words()?;
        let terms = product(&self.terms);
        let matrix = self.left_step().is_some();
        let by_terms = self.of != Of::Weight;
        let piece = 16 / self.dtype.size();
        let length = if by_terms { terms } else { length(terms) };
        let pieces = terms.div_ceil(length.max(1));
        let apart = (pieces > 1).then_some(pieces);
        let span = |windows| {
            let (window, grain) = if by_terms { (512, piece as u32) } else { (128, 1) };
            Span { window, windows, grain }
        };
        let span = span(if length > 128 { 2 } else { 1 });
        let tables = 4 * span.elements(words, matrix);
        let batches = self.groups * self.class_count() * pieces;
        let sums = [self.rows, product(&self.columns)];
        let limits = Limits { shared: units.limits.shared.checked_sub(tables)?, ..units.limits };
        // All of its terms come by copies, which on some devices are loads and stores.
        let limits = Limits { asynchronous: true, ..limits };
        let tile = tile(Units { limits, ..units }, batches, sums)?;
        let stores = [4, 2].into_iter().find(|&p| self.stored().is_multiple_of(p)).unwrap_or(1);
        let base = head::Form {
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
                whole: terms.is_multiple_of(units::whole_terms(units.unit)),
                stores: stores as u8,
            }),
            wide: false,
        };
        let form = units::Form { base, tile, span };
        let tiles = [0, 1].map(|side| sums[side].div_ceil(tile.size(side) as usize));
        let outermost = apart.unwrap_or(self.class_count());
        let (mut given, groups) =
            self.numbers(&form.base, outermost, tiles, if apart.is_some() { &[] } else { &further });
        if apart.is_some() {
            given.push(length as i64);
        }
        let groups = grid(groups as u64);
        let scalar = index::scalar(false);
        let mut buffers = factors.to_vec();
        let others: Vec<Slot> = (0..extra.len()).map(|i| Slot::Operand(2 + i)).collect();
        if apart.is_none() {
            let key = epilogue.key(Key::of("conv by units").with(&form));
            let work = numbers::work(key, move || units::build(epilogue, &form), groups, scalar, &given);
            buffers.extend(others);
            buffers.push(Slot::Result(0));
            all.push(work, &buffers);
            return Some(all);
        }
        let key = PLAIN.key(Key::of("conv by units").with(&form));
        let work = numbers::work(key, move || units::build(&PLAIN, &form), groups, scalar, &given);
        let sums = Slot::Scratch(all.scratch.len());
        all.scratch.push(Room::of(chunks::elem(self.dtype), pieces * self.len));
        buffers.push(sums);
        all.push(work, &buffers);
        let join = chunks::join(epilogue, self.dtype, pieces, self.len, extra);
        all.push(join, &[&[sums], &others[..], &[Slot::Result(0)]].concat());
        Some(all)
    }
}
