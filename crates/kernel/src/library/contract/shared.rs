//! The form that goes through shared memory: a workgroup brings `depth` terms of its rows and columns there together.
//!
//! While it computes with one step's terms, the next step's are on their way: they are loaded into registers before the
//! products, and stored after them. What lies side by side in device memory is loaded as vectors; in shared memory the rows (or
//! columns) of a term lie side by side, and an invocation has four neighbours of them, which it loads at once.

use super::{Matrix, Plan, Tile};
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

/// What an invocation loads of a step.
type Loaded<'k> = Vec<Val<'k>>;

impl<'k> Plan<'k, '_> {
    /// The terms `start..end`, brought into shared memory `depth` at a time.
    pub(super) fn shared(
        &self,
        start: Val<'k>,
        end: Val<'k>,
        none: &[Val<'k>],
        to: [Place; 2],
    ) -> Vec<Val<'k>> {
        let k = self.k;
        let Tile { depth, .. } = self.form.tile;
        let load = |first: Val<'k>| [self.load_step(0, first, end), self.load_step(1, first, end)].concat();
        let (count, loads) = (none.len(), self.rounds(0).len());
        let carried = [none, &load(start)].concat();
        let step = start.like(i64::from(depth));
        let all = k.for_(start, end, step, &carried, |first, carried| {
            let (sums, loaded) = carried.split_at(count);
            let (x, w) = loaded.split_at(loads);
            self.store_step(0, to[0], x);
            self.store_step(1, to[1], w);
            k.barrier();
            let next = load(first + step);
            let mut sums = sums.to_vec();
            for t in 0..depth {
                let [a, b] = [0, 1].map(|side| self.terms_of(side, to[side], t));
                sums = self.chains(&a, &b, &sums);
            }
            // The next terms are written over these.
            k.barrier();
            [sums, next].concat()
        });
        all[..count].to_vec()
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

    /// The loads of a step: for each, which row or column and which term the invocation has, and whether it has one at all.
    fn rounds(&self, side: usize) -> Vec<(Val<'k>, Val<'k>, Option<Val<'k>>)> {
        let tile = self.form.tile;
        let width = u32::from(self.form.width[side]);
        let (size, depth, invocations) = (tile.group[side] * tile.each[side], tile.depth, tile.invocations());
        // Vectors, and how many of them make a line.
        let (count, line) = (size * depth / width, if self.form.along[side] { depth } else { size } / width);
        let round = |r: u32| {
            let e = self.index + i64::from(r * invocations);
            // The last round may have more invocations than elements.
            let has = ((r + 1) * invocations > count).then(|| e.lt(self.k.u32(count)));
            let (outer, inner) = (e / i64::from(line), e % i64::from(line) * i64::from(width));
            // What lies side by side in memory is read by neighbours.
            let (place, term) = if self.form.along[side] { (outer, inner) } else { (inner, outer) };
            (place, term, has)
        };
        (0..count.div_ceil(invocations)).map(round).collect()
    }

    /// Loads terms from `first` on; what is not there is padding.
    fn load_step(&self, side: usize, first: Val<'k>, end: Val<'k>) -> Loaded<'k> {
        let (k, form) = (self.k, self.form);
        let (limit, width) = (if side == 0 { self.m } else { self.n }, form.width[side]);
        let padding = if side == 0 { form.padding() } else { Constant::int(form.scalar(), 0) };
        let one = |(place, term, has): (Val<'k>, Val<'k>, Option<Val<'k>>)| {
            let (i, t) = (self.corner[side] + place.to(limit.scalar()), first + term.to(limit.scalar()));
            // Sizes along which several are read are multiples of so many: all of them are there, or none.
            let mut there = i.lt(limit) & t.lt(end);
            if let Some(has) = has {
                there = there & has;
            }
            let from: &Matrix<'k> = if side == 0 { &self.x } else { &self.w };
            let at = || if side == 0 { from.at(i, t) } else { from.at(t, i) };
            let load = || vec![k.load(from.place, at(), width).to(form.scalar())];
            k.if_else(there, load, || vec![k.constant(padding).splat(width)])[0]
        };
        self.rounds(side).into_iter().map(one).collect()
    }

    /// Stores what was loaded: the rows or columns of a term side by side.
    fn store_step(&self, side: usize, to: Place, loaded: &[Val<'k>]) {
        let (k, form) = (self.k, self.form);
        let (width, pitch) = (form.width[side], i64::from(form.tile.pitch(side)));
        for ((place, term, has), &v) in self.rounds(side).into_iter().zip(loaded) {
            let store = || {
                if width == 1 || !form.along[side] {
                    return k.store(to, term * pitch + place, v);
                }
                for i in 0..width {
                    k.store(to, (term + i64::from(i)) * pitch + place, v.extract(i));
                }
            };
            match has {
                Some(has) => k.if_(has, store),
                None => store(),
            }
        }
    }
}
