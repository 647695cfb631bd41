//! Multistage pipeline of cp.async: terms of rows and columns on their way to shared memory,
//! bypassing registers, several K steps ahead (prefetch).
//!
//! Shared memory has a slot (stage) for each step. An iteration waits for its own step, which is
//! also when all invocations are done with the step before; that one's slot takes the copies of a
//! later step. So an iteration has one barrier.
//!
//! Contiguous elements of device memory stay contiguous in shared memory: lines of terms, one for
//! each row (or column), where terms are contiguous (K-major), else lines of rows (or columns), one
//! for each term.

use super::StridedMatrix;
use super::smem_load::{ElementRequest, TileLoader, TileSource};
use elinvar_kernel::builder::Val;
use elinvar_kernel::ir::{Place, Scalar};

/// Steps of both sides.
pub(crate) struct CpAsyncPipeline<'k, S = StridedMatrix<'k>> {
    pub stages: [TileLoader<'k, S>; 2],
    /// Where to, and from line to line there, in elements.
    pub to: [Place; 2],
    pub pitch: [u32; 2],
    /// How many steps there is room for: at least two.
    pub slots: u32,
    /// Behind the last term, and where steps end: there or later, with padding in between.
    pub end: Val<'k>,
    pub padded_end: Val<'k>,
}

/// Bytes of a copy: the most that there are, and no fewer go past the cache of a multiprocessor.
pub(crate) const COPY_BYTES: u32 = 16;

/// Elements of a slot.
pub(crate) fn slot_elements(k_major: bool, size: u32, depth: u32, pitch: u32) -> u32 {
    pitch * if k_major { size } else { depth }
}

/// What a step makes of the sums.
pub(crate) type StepFn<'a, 'k> = dyn Fn(Val<'k>, [Val<'k>; 2], &[Val<'k>]) -> Vec<Val<'k>> + 'a;

/// A step in parts, each of which is read before the one before it is computed with.
pub(crate) struct StepParts<'a, 'k> {
    pub count: u32,
    /// What is read of a part: where both sides' terms of the step begin, which part.
    pub read: &'a dyn Fn([Val<'k>; 2], u32) -> Vec<Val<'k>>,
    /// What it makes of the sums.
    pub compute: &'a dyn Fn(&[Val<'k>], &[Val<'k>]) -> Vec<Val<'k>>,
}

impl<'k, S: TileSource<'k>> CpAsyncPipeline<'k, S> {
    /// Begins the first steps, from term `start` on.
    pub fn open(&self, start: Val<'k>) {
        let (k, depth) = (self.stages[0].k, self.stages[0].depth);
        for step in 0..self.slots - 1 {
            self.begin(start + i64::from(step * depth), k.u32(step));
        }
    }

    /// A group of the copies of a step.
    fn begin(&self, first: Val<'k>, slot: Val<'k>) {
        let k = self.stages[0].k;
        k.if_(first.lt(self.padded_end), || {
            for side in 0..2 {
                let base = slot * i64::from(self.slot(side));
                self.stages[side].copy([first, self.end], (self.to[side], base, self.pitch[side]));
            }
        });
        k.cp_async_commit();
    }

    /// Goes through the terms `start..end`, of which `open` has begun the first steps: `compute`
    /// makes the new sums of a step's first term, where both sides' terms begin, and the old sums.
    /// `slot` is the first step's; gives that of the step that follows, and the last sums.
    pub fn steps(
        &self,
        [start, end]: [Val<'k>; 2],
        slot: Val<'k>,
        none: &[Val<'k>],
        compute: &StepFn<'_, 'k>,
    ) -> (Val<'k>, Vec<Val<'k>>) {
        let (k, depth) = (self.stages[0].k, self.stages[0].depth);
        let last = k.u32(self.slots - 1);
        let carried = [&[slot][..], none].concat();
        let all = k.for_(start, end, start.like(i64::from(depth)), &carried, |first, carried| {
            let (slot, sums) = (carried[0], &carried[1..]);
            // As many groups as there are steps between this one and the last that was begun.
            k.cp_async_wait((self.slots - 2) as u8);
            k.barrier();
            let zero = slot.like(0);
            let before = slot.eq(zero).select(last, slot - 1);
            self.begin(first + i64::from((self.slots - 1) * depth), before);
            let sums = compute(first, self.bases(slot), sums);
            let next = slot.eq(last).select(zero, slot + 1);
            [&[next][..], &sums[..]].concat()
        });
        (all[0], all[1..].to_vec())
    }

    /// Begins all steps that there is room for, from term `start` on, which is there, and reads the
    /// first part of the first: what [`CpAsyncPipeline::read_ahead`] goes on with.
    pub fn open_read_ahead(&self, start: Val<'k>, parts: &StepParts<'_, 'k>) -> Vec<Val<'k>> {
        let (k, last) = (self.stages[0].k, self.slots - 1);
        self.open(start);
        self.arrive(start + i64::from(last * self.stages[0].depth), k.u32(last));
        let slot = k.u32(0);
        [vec![slot], (parts.read)(self.bases(slot), 0)].concat()
    }

    /// As [`CpAsyncPipeline::steps`], with the first part of the next step read before the last
    /// part of a step is computed with: so there is something to do while memory answers, also
    /// behind the barrier. Where there is no next step, the last one is read again, and not used.
    /// Takes what goes on, and gives that of the step that follows, and the last sums.
    pub fn read_ahead(
        &self,
        [start, end]: [Val<'k>; 2],
        on: &[Val<'k>],
        none: &[Val<'k>],
        parts: &StepParts<'_, 'k>,
    ) -> (Vec<Val<'k>>, Vec<Val<'k>>) {
        let (k, depth) = (self.stages[0].k, self.stages[0].depth);
        let last = k.u32(self.slots - 1);
        let carried = [on, none].concat();
        let all = k.for_(start, end, start.like(i64::from(depth)), &carried, |first, carried| {
            let slot = carried[0];
            let (mut part, mut sums) = (carried[1..on.len()].to_vec(), carried[on.len()..].to_vec());
            for number in 1..parts.count {
                let following = (parts.read)(self.bases(slot), number);
                sums = (parts.compute)(&part, &sums);
                part = following;
            }
            // All have read the step, so its slot is free.
            self.arrive(first + i64::from(self.slots * depth), slot);
            let next = slot.eq(last).select(slot.like(0), slot + 1);
            let there = (first + i64::from(depth)).lt(self.padded_end);
            let following = (parts.read)(self.bases(there.select(next, slot)), 0);
            sums = (parts.compute)(&part, &sums);
            [vec![next], following, sums].concat()
        });
        (all[..on.len()].to_vec(), all[on.len()..].to_vec())
    }

    /// Waits for the next step, and for all others that read the one before; then begins the step
    /// from term `first` on.
    fn arrive(&self, first: Val<'k>, slot: Val<'k>) {
        let k = self.stages[0].k;
        // As many groups as there are steps between the next one and the last that was begun.
        k.cp_async_wait((self.slots - 2) as u8);
        k.barrier();
        self.begin(first, slot);
    }

    fn bases(&self, slot: Val<'k>) -> [Val<'k>; 2] {
        [0, 1].map(|side| slot * i64::from(self.slot(side)))
    }
    fn slot(&self, side: usize) -> u32 {
        let s = &self.stages[side];
        slot_elements(s.k_major, s.size, s.depth, self.pitch[side])
    }
}

impl<'k, S: TileSource<'k>> TileLoader<'k, S> {
    /// Begins copies of the terms from `first` on to shared memory: where, from which element on,
    /// from line to line. What is not there is padding.
    pub fn copy(&self, [first, end]: [Val<'k>; 2], (to, base, pitch): (Place, Val<'k>, u32)) {
        let (k, number) = (self.k, self.limit.scalar());
        let pitch = i64::from(pitch);
        for (round, (place, term, has)) in self.rounds().into_iter().enumerate() {
            let line = if self.k_major { place * pitch + term } else { term * pitch + place };
            let to = (to, base + line.to(Scalar::U32));
            let found =
                self.from.find(self, ElementRequest { round, place, term: first + term.to(number), end });
            let from = (self.from.place(), found.at);
            let always = || k.constant(true.into());
            let of_side = found.of_side.unwrap_or_else(always);
            let all = || match found.of_terms {
                None => k.cp_async(to, from, self.width, of_side),
                Some(of_terms) if self.padding.bits == 0 => {
                    k.cp_async(to, from, self.width, of_side & of_terms);
                }
                // Copies can bring zeros and nothing else. Past the last row or column that will
                // do: they are not read.
                Some(of_terms) => k.if_or(
                    of_terms,
                    || k.cp_async(to, from, self.width, of_side),
                    || k.store(to.0, to.1, k.constant(self.padding).splat(self.width)),
                ),
            };
            match has {
                Some(has) => k.if_(has, all),
                None => all(),
            }
        }
    }
}
