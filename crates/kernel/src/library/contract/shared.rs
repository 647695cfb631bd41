//! The form that goes through shared memory: a workgroup brings `depth` terms of its rows and columns there together.
//!
//! While it computes with one step's terms, the next step's are on their way: they are loaded into registers before the
//! products, and stored after them. What lies side by side in device memory is loaded as vectors; in shared memory the rows (or
//! columns) of a term lie side by side, and an invocation has four neighbours of them, which it loads at once.

use super::stage::{self, Stage};
use super::{Plan, Tile};
use crate::build::Val;
use crate::ir::{Constant, Place, Scalar};
use crate::library::index;
use elinvar_core::Layout;

/// Elements behind those of a term: terms that are stored one above the other lie in different banks.
const PAD: u32 = 4;

impl Tile {
    /// Elements of shared memory that it takes.
    pub fn shared_elements(self) -> u32 {
        (self.pitch(0) + self.pitch(1)) * self.depth
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
    pub(super) fn neighbours(self, side: usize) -> u32 {
        if self.depth == 0 {
            return 1;
        }
        [4, 2].into_iter().find(|&p| self.each[side].is_multiple_of(p)).unwrap_or(1)
    }
}

impl<'k> Plan<'k, '_> {
    /// The terms `start..end`, brought into shared memory `depth` at a time.
    pub(super) fn shared(
        &self,
        start: Val<'k>,
        end: Val<'k>,
        none: &[Val<'k>],
        to: [Place; 2],
    ) -> Vec<Val<'k>> {
        let (k, form) = (self.k, self.form);
        let stages = [0, 1].map(|side| Stage {
            k,
            side,
            index: self.index,
            invocations: form.tile.invocations(),
            size: form.tile.group[side] * form.tile.each[side],
            depth: form.tile.depth,
            along: form.along[side],
            width: form.width[side],
            from: [self.x, self.w][side],
            corner: self.corner[side],
            limit: [self.m, self.n][side],
            padding: if side == 0 { form.padding() } else { Constant::int(form.scalar(), 0) },
        });
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
        let (p, across) = (tile.neighbours(side), tile.group[side]);
        let local = self.local[side].to(Scalar::U32) * i64::from(p) + i64::from(t * tile.pitch(side));
        let several = (0..tile.each[side] / p).flat_map(|piece| {
            let v = self.k.load(from, local + i64::from(piece * across * p), p as u8);
            (0..p).map(move |i| if p == 1 { v } else { v.extract(i as u8) })
        });
        several.collect()
    }
}
