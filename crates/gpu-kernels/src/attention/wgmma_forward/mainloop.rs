//! The loop of the forward pass over blocks of keys.

use super::super::mma_forward::exp2;
use super::super::tma_operands::{FRAGMENT_ROWS, TILE_ELEMENTS, TILE_SIDE, TmaOperand};
use super::{KEYS, VALUES, WgmmaForwardConfig};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Binary, FragmentLayout as Order, Place, Role, Scalar};
use elinvar_kernel::lane::{Float, Term, W32};
use elinvar_ops::lane::Lane;

/// What a turn leaves to the next one.
pub(super) struct WgmmaForwardState<'k> {
    /// Where the values of the last block are, and the phase of their mbarrier.
    pub(super) slot: Val<'k>,
    pub(super) phase: Val<'k>,
    pub(super) softmax: OnlineSoftmax<'k>,
    /// What the results have to be multiplied by.
    pub(super) alpha: [Val<'k>; 2],
    pub(super) weights: Vec<Val<'k>>,
    pub(super) results: Vec<Val<'k>>,
}

impl<'k> WgmmaForwardState<'k> {
    pub(super) fn carried(&self) -> Vec<Val<'k>> {
        let OnlineSoftmax { m, sum } = self.softmax;
        [&[self.slot, self.phase], &m[..], &sum, &self.alpha, &self.weights, &self.results].concat()
    }
    pub(super) fn of(config: WgmmaForwardConfig, all: &[Val<'k>]) -> WgmmaForwardState<'k> {
        let (weights, results) = all[8..].split_at((config.tile.block / FRAGMENT_ROWS) as usize);
        WgmmaForwardState {
            slot: all[0],
            phase: all[1],
            softmax: OnlineSoftmax { m: [all[2], all[3]], sum: [all[4], all[5]] },
            alpha: [all[6], all[7]],
            weights: weights.to_vec(),
            results: results.to_vec(),
        }
    }
}

/// The running maximum (or minimum) of products, and a lane's part of the sum, of two rows.
#[derive(Clone, Copy)]
pub(super) struct OnlineSoftmax<'k> {
    pub(super) m: [Val<'k>; 2],
    pub(super) sum: [Val<'k>; 2],
}

/// The rows of a subgroup's lane: row g and row g + 8 of its sixteen.
pub(super) struct WgmmaForwardMainloop<'k> {
    pub(super) k: &'k Builder,
    pub(super) config: WgmmaForwardConfig,
    pub(super) queries: Place,
    /// Keys, and values.
    pub(super) kept: [Place; 2],
    pub(super) operands: [TmaOperand<'k>; 2],
    /// Where the blocks of the invocation's 64 queries begin, in each 64 numbers.
    pub(super) rows_base: Val<'k>,
    /// Each row, among all queries.
    pub(super) each: [Val<'k>; 2],
    /// The lane's first column of eight.
    pub(super) column: Val<'k>,
    /// The lanes that have the same rows, by one bit of their number each.
    pub(super) others: [Val<'k>; 2],
    /// From products to exponents of 2.
    pub(super) scale: Val<'k>,
    /// Behind the last key that anybody sees.
    pub(super) seen: Val<'k>,
    pub(super) blocks: Val<'k>,
}

impl<'k> WgmmaForwardMainloop<'k> {
    pub(super) fn number(&self, v: f64) -> Val<'k> {
        self.k.float(Scalar::F32, v)
    }
    pub(super) fn mbarrier(&self, side: usize, slot: Val<'k>) -> Val<'k> {
        slot + i64::from(1 + side as u32 * self.config.tile.slots)
    }
    /// The next slot, and the phase of what is in it.
    fn next(&self, slot: Val<'k>, phase: Val<'k>) -> [Val<'k>; 2] {
        let k = self.k;
        let wraps = slot.eq(k.u32(self.config.tile.slots - 1));
        [wraps.select(k.u32(0), slot + 1), wraps.select(k.u32(1) - phase, phase)]
    }
    /// Fetches a block to a slot, if there is one; they are counted from the last one.
    pub(super) fn load_tiles(&self, side: usize, number: Val<'k>, slot: Val<'k>) {
        let (k, config, t) = (self.k, self.config, self.config.tile);
        k.if_(number.lt(self.blocks), || {
            let line = (self.blocks - 1 - number) * i64::from(t.block);
            let base = slot * i64::from(t.block * config.width);
            let one = |line: Val<'k>, at: u32, part: u32| {
                let to = (self.kept[side], base + i64::from(at * TILE_ELEMENTS));
                self.operands[side].tma_tile(k, to, line, part)
            };
            let high = t.block / TILE_SIDE;
            let tiles = if side == KEYS {
                (0..config.across()).map(|e| one(line, e * high, e)).collect()
            } else {
                // Columns of 64 keys side by side.
                let at =
                    |i: u32| one(line + i64::from(i / config.across() * TILE_SIDE), i, i % config.across());
                (0..high * config.across()).map(at).collect()
            };
            k.tma_load(self.mbarrier(side, slot), tiles);
        });
    }
    /// Begins the products of the rows with the keys in a slot.
    pub(super) fn scores(&self, slot: Val<'k>) -> Vec<Val<'k>> {
        let (k, config, t) = (self.k, self.config, self.config.tile);
        let none = |_| k.fragment_fill(config.fragment(Role::C), self.number(0.0));
        let sums: Vec<Val> = (0..t.block / FRAGMENT_ROWS).map(none).collect();
        let base = slot * i64::from(t.block * config.width);
        (0..config.across()).fold(sums, |sums, e| {
            let a = self.rows_base + i64::from(e * t.queries() * TILE_SIDE);
            let b = base + i64::from(e * t.block * TILE_SIDE);
            k.wgmma_ss((Order::RowMajor, self.queries, a), (Order::ColumnMajor, self.kept[KEYS], b), &sums)
        })
    }
    /// Begins to add the products of weights with the values in a slot.
    pub(super) fn results(&self, weights: &[Val<'k>], slot: Val<'k>, sums: &[Val<'k>]) -> Vec<Val<'k>> {
        let (k, config) = (self.k, self.config);
        let base = slot * i64::from(config.tile.block * config.width);
        weights.chunks(4).enumerate().fold(sums.to_vec(), |sums, (c, weights)| {
            let b = base + i64::from(c as u32 * TILE_SIDE * config.width);
            k.wgmma_rs(weights, (Order::RowMajor, self.kept[VALUES], b), &sums)
        })
    }
    pub(super) fn scaled(&self, results: &[Val<'k>], [a, b]: [Val<'k>; 2]) -> Vec<Val<'k>> {
        let (k, c) = (self.k, self.config.fragment(Role::C));
        let alphas = k.compose(&[a, a, b, b]);
        let half = |o: Val<'k>, i: u8| k.fragment_extract(o, i) * alphas;
        results.iter().map(|&o| k.fragment_compose(c, &[half(o, 0), half(o, 1)])).collect()
    }
    pub(super) fn rounded(&self, weights: &[Val<'k>]) -> Vec<Val<'k>> {
        let a = self.config.fragment(Role::A);
        weights.chunks(2).map(|w| self.k.fragment_compose(a, w)).collect()
    }

    /// The block of this number, counted from the last one.
    pub(super) fn turn(
        &self,
        number: Val<'k>,
        masked: bool,
        old: &WgmmaForwardState<'k>,
    ) -> WgmmaForwardState<'k> {
        let (k, t) = (self.k, self.config.tile);
        let [slot, phase] = self.next(old.slot, old.phase);
        k.mbarrier_wait(self.mbarrier(KEYS, slot), phase);
        let scores = self.scores(slot);
        let scaled = self.scaled(&old.results, old.alpha);
        // All have read the keys of the block before, and the values of the one before that. And
        // the scores of all warpgroups are queued before any results, and so are there while
        // results are multiplied: behind these, the barrier costs a seventh of the time.
        k.barrier();
        let before = old.slot.eq(k.u32(0)).select(k.u32(t.slots - 1), old.slot - 1);
        self.load_tiles(KEYS, number + i64::from(t.slots - 1), old.slot);
        let later = number + (i64::from(t.slots) - 2);
        self.load_tiles(VALUES, later, before);
        let results = self.results(&old.weights, old.slot, &scaled);
        k.wgmma_wait((t.block / TILE_SIDE) as u8);
        let first = masked.then(|| (self.blocks - 1 - number) * i64::from(t.block));
        let (softmax, alpha, weights) = self.weights(old.softmax, &scores, first);
        // The assembler puts a wait as early as it can, beside others of what it takes for one
        // piece. To wait for a mbarrier first, which is a loop, makes this another one, and the
        // exponentials stay in front of it.
        k.mbarrier_wait(self.mbarrier(VALUES, slot), phase);
        k.wgmma_wait(0);
        WgmmaForwardState { slot, phase, softmax, alpha, weights: self.rounded(&weights), results }
    }

    /// The maxima and sums of two rows with a block's scores, what makes the results before fit to
    /// them, and the block's weights, by eights of keys. `first`: the block's first key, where not
    /// all rows see all of it.
    pub(super) fn weights(
        &self,
        old: OnlineSoftmax<'k>,
        scores: &[Val<'k>],
        first: Option<Val<'k>>,
    ) -> (OnlineSoftmax<'k>, [Val<'k>; 2], Vec<Val<'k>>) {
        let (k, config) = (self.k, self.config);
        let never = self.number(if config.negative { f64::INFINITY } else { f64::NEG_INFINITY });
        let eighths: Vec<Val> =
            scores.iter().flat_map(|&s| [0, 1].map(|half| k.fragment_extract(s, half))).collect();
        let eighths = match first {
            None => eighths,
            Some(first) => self.hidden(&eighths, first, never),
        };
        let most = if config.negative { Binary::Min } else { Binary::Max };
        let m = [0u8, 2].map(|at| {
            // Two chains, so that one goes on while the other waits.
            let own = [at, at + 1].map(|c| {
                let all = eighths.iter().map(|e| e.extract(c));
                all.reduce(|a, b| a.binary(most, b)).expect("a block has keys")
            });
            let own = own[0].binary(most, own[1]);
            self.others.iter().fold(own, |m, &other| m.binary(most, k.shuffle(m, other)))
        });
        let m = [0, 1].map(|i| old.m[i].binary(most, m[i]));
        // Where nothing was seen so far, nothing is taken off, and weights are 2^-inf.
        let shift = m.map(|m| m.eq(never).select(self.number(0.0), m * self.scale));
        let alpha = [0, 1].map(|i| exp2(old.m[i].fma(self.scale, -shift[i])));
        let shifts = k.compose(&[shift[0], shift[0], shift[1], shift[1]]);
        let (scales, less) = (self.scale.splat(4), -shifts);
        let weights: Vec<Val> = eighths.iter().map(|e| exp2(e.fma(scales, less))).collect();
        let sum = [0, 1].map(|i| {
            let of = |c: u8| {
                let all = weights.iter().map(|w| w.extract(c));
                all.reduce(|a, b| a + b).expect("a block has keys")
            };
            old.sum[i].fma(alpha[i], of(2 * i as u8) + of(2 * i as u8 + 1))
        });
        (OnlineSoftmax { m, sum }, alpha, weights)
    }

    /// Scores by eights of keys from `first` on; others for those that a row does not see.
    fn hidden(&self, eighths: &[Val<'k>], first: Val<'k>, never: Val<'k>) -> Vec<Val<'k>> {
        let k = self.k;
        let never = never.splat(4);
        // How many keys of the block a row sees, from the lane's first column on.
        let counts = self.each.map(|row| {
            let end = if self.config.causal { self.seen.min(row + 1) } else { self.seen };
            end - first - self.column.to(Scalar::I32)
        });
        let one = |(i, &scores): (usize, &Val<'k>)| {
            let more = |count: Val<'k>, n: i64| count.like(8 * i as i64 + n).lt(count);
            let [a, b] = counts;
            let there = [more(a, 0), more(a, 1), more(b, 0), more(b, 1)];
            k.compose(&there).select(scores, never)
        };
        eighths.iter().enumerate().map(one).collect()
    }

    /// Stores results and statistics of those rows that there are.
    pub(super) fn end(
        &self,
        (softmax, results): (&OnlineSoftmax<'k>, &[Val<'k>]),
        exists: Val<'k>,
        [head, l]: [Val<'k>; 2],
        [y, lse]: [Place; 2],
    ) {
        let (k, config) = (self.k, self.config);
        let (zero, one) = (self.number(0.0), self.number(1.0));
        let total =
            softmax.sum.map(|sum| self.others.iter().fold(sum, |sum, &other| sum + k.shuffle(sum, other)));
        let inverse = total.map(|t| one / t.eq(zero).select(one, t));
        let parts: Vec<Val> =
            results.iter().flat_map(|&o| [0, 1].map(|half| k.fragment_extract(o, half))).collect();
        for i in 0..2 {
            let row = self.each[i];
            k.if_(row.lt(l) & exists, || {
                let line = (head * l + row) * i64::from(config.width);
                for (eighth, part) in parts.iter().enumerate() {
                    let first = 2 * i as u8;
                    let pair = k.compose(&[part.extract(first), part.extract(first + 1)]) * inverse[i];
                    let column = self.column + 8 * eighth as i64;
                    k.store(y, line + column.to(Scalar::I32), pair);
                }
                k.if_(self.column.eq(k.u32(0)), || {
                    let log = Float::<W32>::new(Term::Value(total[i])).log().0.value(k);
                    let m = softmax.m[i] * self.scale * self.number(std::f64::consts::LN_2);
                    k.store(lse, head * l + row, m + log);
                });
            });
        }
    }
}
