//! The forms that go through shared memory: a workgroup brings `depth` terms of its rows and columns there together.
//!
//! While it computes with one step's terms, the next step's are on their way: they are loaded into registers before the
//! products, and stored after them. What lies side by side in device memory is loaded as vectors; in shared memory the rows (or
//! columns) of a term lie side by side, and an invocation has four neighbours of them, which it loads at once.
//!
//! Where copies bring them, they stay side by side as they were. What lies along terms is read along them: a vector of terms of each
//! row (or column) of an invocation, whose rows are then not neighbours, so that neighbouring invocations have neighbouring lines.

use super::flow::{self, Flow};
use super::stage::{self, Stage};
use super::{Form, Plan, Tile, elem};
use crate::build::Val;
use crate::ir::{Constant, Elem, Place, Scalar};
use crate::library::index;
use elinvar_core::{DType, Layout, order};

/// Elements behind those of a term: terms that are stored one above the other lie in different banks.
const PAD: u32 = 4;

/// Rows and columns of invocations in a warp, where warps are known to be such: its loads of rows and of columns each go to few
/// places.
const WARP: [u32; 2] = [4, 8];

impl Tile {
    /// Elements of shared memory that it takes, at most.
    pub fn shared_elements(self) -> u32 {
        if self.slots == 0 {
            return (self.pitch(0) + self.pitch(1)) * self.depth;
        }
        self.slots * (self.rows() + self.columns()) * (self.depth + PAD)
    }
    /// What becomes of it for these operands: terms come by copies where both lie in pieces of 16 bytes that need no conversion.
    pub(super) fn for_layouts(self, dtype: DType, operands: [&Layout; 2], along: [bool; 2]) -> Tile {
        let width = [0, 1].map(|side| self.vector(side, operands[side], along[side]));
        let bytes = width.map(|w| u32::from(w) * dtype.size() as u32);
        let whole = elem(super::Compute::from(dtype).scalar()) == Elem::from(dtype);
        let fits = dtype.is_float() && whole && bytes.iter().all(|&b| b >= flow::BYTES);
        Tile { slots: if fits { self.slots } else { 0 }, ..self }
    }
    /// Which invocation along m and n, of its number in the workgroup.
    pub(super) fn local(self, index: Val<'_>) -> [Val<'_>; 2] {
        let [down, across] = WARP;
        let warps =
            self.slots > 0 && self.group[0].is_multiple_of(down) && self.group[1].is_multiple_of(across);
        if !warps {
            let across = i64::from(self.group[1]);
            return [index / across, index % across];
        }
        let (warp, lane) = (index / i64::from(down * across), index % i64::from(down * across));
        let aside = i64::from(self.group[1] / across);
        let [down, across] = [down, across].map(i64::from);
        [warp / aside * down + lane / across, warp % aside * across + lane % across]
    }
    /// From term to term in shared memory.
    pub(super) fn pitch(self, side: usize) -> u32 {
        self.group[side] * self.each[side] + PAD
    }
    /// How many neighbours of a factor are read at once: as many as its layout allows, and lines of a tile are made of.
    pub(super) fn vector(self, side: usize, l: &Layout, along: bool) -> u8 {
        let (axis, line) = match (side, along) {
            (0, true) => (2, self.depth),
            (0, false) => (1, self.rows()),
            (_, true) => (1, self.depth),
            (_, false) => (2, self.columns()),
        };
        let all = index::vector(l, axis);
        [4, 2]
            .into_iter()
            .find(|&w| w <= all && self.depth > 0 && line.is_multiple_of(u32::from(w)))
            .unwrap_or(1)
    }
    /// How many neighbours an invocation has side by side.
    pub(super) fn neighbours(self, side: usize, along: bool) -> u32 {
        if self.depth == 0 || (self.slots > 0 && along) {
            return 1;
        }
        [4, 2].into_iter().find(|&p| self.each[side].is_multiple_of(p)).unwrap_or(1)
    }
}

impl Form {
    /// From line to line of what copies bring. Lines of terms an odd number of 16 bytes apart lie in different banks; lines of
    /// rows or columns are read by neighbours in one go.
    fn flow_pitch(&self, side: usize) -> u32 {
        let size = self.tile.group[side] * self.tile.each[side];
        if self.along[side] { self.tile.depth + flow::BYTES / self.dtype.size() as u32 } else { size }
    }
    /// Elements of shared memory for a side.
    pub(super) fn staged(&self, side: usize) -> u32 {
        let Tile { group, each, depth, slots } = self.tile;
        if slots == 0 {
            return self.tile.pitch(side) * depth;
        }
        let size = group[side] * each[side];
        slots * flow::slot_elements(self.along[side], size, depth, self.flow_pitch(side))
    }
}

impl<'k> Plan<'k, '_> {
    fn stage(&self, side: usize) -> Stage<'k> {
        let Form { tile, along, width, .. } = self.form;
        Stage {
            k: self.k,
            side,
            index: self.index,
            invocations: tile.invocations(),
            size: tile.group[side] * tile.each[side],
            depth: tile.depth,
            along: along[side],
            // Of f64, two are 16 bytes.
            width: if tile.slots > 0 {
                (flow::BYTES / self.form.dtype.size() as u32) as u8
            } else {
                width[side]
            },
            from: [self.x, self.w][side],
            corner: self.corner[side],
            limit: [self.m, self.n][side],
            padding: if side == 0 { self.form.padding() } else { Constant::int(self.form.scalar(), 0) },
        }
    }

    /// All terms (or, `of`: those of this chunk), brought into shared memory by copies.
    pub(super) fn flowing(&self, of: Option<Val<'k>>, none: &[Val<'k>], to: [Place; 2]) -> Vec<Val<'k>> {
        let (k, length) = (self.k, order::CHUNK as i64);
        let begin = of.map_or(self.terms.like(0), |of| of * length);
        let end = of.map_or(self.terms, |_| (begin + length).min(self.terms));
        let pitch = [0, 1].map(|side| self.form.flow_pitch(side));
        let flow =
            Flow { stages: [0, 1].map(|side| self.stage(side)), to, pitch, slots: self.form.tile.slots, end };
        let compute = |_: Val<'k>, bases: [Val<'k>; 2], sums: &[Val<'k>]| {
            let width = flow.stages[0].width;
            (0..self.form.tile.depth).step_by(usize::from(width)).fold(sums.to_vec(), |sums, t| {
                let [a, b] = [0, 1].map(|side| self.arrived(side, to[side], bases[side], t, width));
                a.iter().zip(&b).fold(sums, |sums, (a, b)| self.chains(a, b, &sums))
            })
        };
        flow.open(begin);
        let slot = k.u32(0);
        if !self.form.many {
            return flow.steps([begin, end], slot, none, &compute).1;
        }
        let carried = [&[slot][..], none].concat();
        let all = k.for_(begin, end, end.like(length), &carried, |start, carried| {
            let (slot, totals) = (carried[0], &carried[1..]);
            let chunk = [start, (start + length).min(end)];
            let (slot, sums) = flow.steps(chunk, slot, none, &compute);
            [&[slot][..], &self.join(start, totals, &sums)[..]].concat()
        });
        all[1..].to_vec()
    }

    /// `width` terms from `t` on of what copies have brought of an invocation's rows or columns.
    fn arrived(&self, side: usize, from: Place, base: Val<'k>, t: u32, width: u8) -> Vec<Vec<Val<'k>>> {
        let (k, Form { tile, along, .. }) = (self.k, self.form);
        let (across, pitch) = (tile.group[side], self.form.flow_pitch(side));
        let p = tile.neighbours(side, along[side]);
        let local = self.local[side].to(Scalar::U32);
        if along[side] {
            let first = base + local * i64::from(pitch) + i64::from(t);
            let lines: Vec<Val> = (0..tile.each[side])
                .map(|u| k.load(from, first + i64::from(u * across * pitch), width))
                .collect();
            return (0..width).map(|i| lines.iter().map(|v| v.extract(i)).collect()).collect();
        }
        let first = base + local * i64::from(p);
        let term = |t: u32| {
            let several = (0..tile.each[side] / p).flat_map(|piece| {
                let v = k.load(from, first + i64::from(t * pitch + piece * across * p), p as u8);
                (0..p).map(move |i| v.extract(i as u8))
            });
            several.collect()
        };
        (t..t + u32::from(width)).map(term).collect()
    }

    /// The terms `start..end`, brought into shared memory `depth` at a time.
    pub(super) fn shared(
        &self,
        start: Val<'k>,
        end: Val<'k>,
        none: &[Val<'k>],
        to: [Place; 2],
    ) -> Vec<Val<'k>> {
        let (k, form) = (self.k, self.form);
        let stages = [0, 1].map(|side| self.stage(side));
        // The rows or columns of a term side by side.
        let bring = |side: usize, loaded: &[Val<'k>]| {
            let pitch = i64::from(form.tile.pitch(side));
            stages[side].store(loaded, &|place, term, v| {
                if !form.along[side] {
                    return k.store(to[side], term * pitch + place, v);
                }
                for i in 0..form.width[side] {
                    let one = if form.width[side] == 1 { v } else { v.extract(i) };
                    k.store(to[side], (term + i64::from(i)) * pitch + place, one);
                }
            });
        };
        stage::steps(&stages, [start, end], none, &bring, &|sums| {
            (0..form.tile.depth).fold(sums.to_vec(), |sums, t| {
                let [a, b] = [0, 1].map(|side| self.terms_of(side, to[side], t));
                self.chains(&a, &b, &sums)
            })
        })
    }

    /// Term `t` of an invocation's rows or columns.
    fn terms_of(&self, side: usize, from: Place, t: u32) -> Vec<Val<'k>> {
        let tile = self.form.tile;
        let (p, across) = (tile.neighbours(side, self.form.along[side]), tile.group[side]);
        let local = self.local[side].to(Scalar::U32) * i64::from(p) + i64::from(t * tile.pitch(side));
        let several = (0..tile.each[side] / p).flat_map(|piece| {
            let v = self.k.load(from, local + i64::from(piece * across * p), p as u8);
            (0..p).map(move |i| if p == 1 { v } else { v.extract(i as u8) })
        });
        several.collect()
    }
}
