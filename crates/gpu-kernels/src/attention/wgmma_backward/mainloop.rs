//! The loop of the backward pass over blocks of the other side.

use super::super::mma_forward::exp2;
use super::super::tma_operands::{FRAGMENT_ROWS, TILE_ELEMENTS, TILE_SIDE, TmaOperand, fragment};
use super::WgmmaBackwardConfig;
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Builtin, FragmentLayout as Order, Place, Role, Scalar, TmaTile, WARPGROUP};

/// What a turn leaves to the next one.
pub(super) struct WgmmaBackwardState<'k> {
    /// Where the next block is, and the phase of its mbarrier.
    pub(super) slot: Val<'k>,
    pub(super) phase: Val<'k>,
    /// What is fetched next: of which head, which block.
    pub(super) next: [Val<'k>; 2],
    pub(super) sums: Vec<Val<'k>>,
}

impl<'k> WgmmaBackwardState<'k> {
    pub(super) fn carried(&self) -> Vec<Val<'k>> {
        [&[self.slot, self.phase], &self.next[..], &self.sums].concat()
    }
    pub(super) fn of(all: &[Val<'k>]) -> WgmmaBackwardState<'k> {
        WgmmaBackwardState { slot: all[0], phase: all[1], next: [all[2], all[3]], sums: all[4..].to_vec() }
    }
}

/// What all turns know.
pub(super) struct WgmmaBackwardMainloop<'k> {
    pub(super) k: &'k Builder,
    pub(super) config: WgmmaBackwardConfig,
    /// Queries and gradients, or keys and values.
    pub(super) rows: [Place; 2],
    pub(super) others: [Place; 2],
    /// What queries of a block have, where it is put, and where it comes from.
    pub(super) statistics: Option<(Place, [Place; 2])>,
    pub(super) right: [TmaOperand<'k>; 2],
    pub(super) batch: Val<'k>,
    /// The first head of others, of how many in a batch, and how many are gone through.
    pub(super) first_head: Val<'k>,
    pub(super) heads: Val<'k>,
    pub(super) last_head: Val<'k>,
    /// The blocks of each head.
    pub(super) begin: Val<'k>,
    pub(super) end: Val<'k>,
    /// Queries.
    pub(super) l: Val<'k>,
    /// Where the blocks of the invocation's 64 rows begin.
    pub(super) rows_base: Val<'k>,
    pub(super) each: [Val<'k>; 2],
    pub(super) column: Val<'k>,
    pub(super) exponents: Val<'k>,
    /// Of rows that are queries: what is taken off, and D.
    pub(super) of_rows: Option<[[Val<'k>; 2]; 2]>,
    /// Behind the last of the others that anybody sees.
    pub(super) seen: Val<'k>,
}

impl<'k> WgmmaBackwardMainloop<'k> {
    /// The first block that is fetched.
    pub(super) fn first(&self) -> Val<'k> {
        if self.config.is_by_queries() { self.end - 1 } else { self.begin }
    }
    /// Fetches a block to a slot, if there is one; gives the one after it.
    pub(super) fn load_tiles(&self, [head, block]: [Val<'k>; 2], slot: Val<'k>) -> [Val<'k>; 2] {
        let (k, config, t) = (self.k, self.config, self.config.tile);
        let by_queries = config.is_by_queries();
        let there = if by_queries {
            self.begin.like(-1).lt(block)
        } else {
            head.lt(self.last_head) & block.lt(self.end)
        };
        let line = block * i64::from(t.block);
        let own = self.first_head + head;
        k.if_(there, || {
            let base = slot * i64::from(t.block * config.width);
            let tiles = (0..2).flat_map(|side| {
                let from = self.right[side].head(self.batch, self.heads, own);
                (0..config.across()).map(move |e| {
                    let to = (self.others[side], base + i64::from(e * t.block * TILE_SIDE));
                    from.tma_tile(k, to, line, e)
                })
            });
            k.tma_load(slot + 1, tiles.collect::<Vec<TmaTile>>());
        });
        if let Some((place, from)) = self.statistics {
            // One invocation for each number, if there are so many; behind the last query, zeros.
            let index = k.builtin(Builtin::LocalIndex);
            let invocations = t.groups * WARPGROUP;
            let apart = if invocations >= 2 * t.block { t.block } else { 0 };
            for (i, from) in from.into_iter().enumerate() {
                for first in (0..t.block).step_by(invocations as usize) {
                    let rows_base = index - i64::from(i as u32 * apart) + i64::from(first);
                    k.if_(rows_base.lt(k.u32(t.block)), || {
                        let row = line + rows_base.to(Scalar::I32);
                        let to = slot * i64::from(2 * t.block) + (rows_base + i64::from(i as u32 * t.block));
                        let at = ((self.batch * self.heads + own) * self.l + row).max(row.like(0));
                        k.cp_async((place, to), (from, at), 1, row.lt(self.l) & there);
                    });
                }
            }
            k.cp_async_commit();
        }
        if by_queries {
            return [head, block - 1];
        }
        let ends = (block + 1).lt(self.end);
        [ends.select(head, head + 1), ends.select(block + 1, self.begin)]
    }
    pub(super) fn next(&self, slot: Val<'k>, phase: Val<'k>) -> [Val<'k>; 2] {
        let k = self.k;
        let wraps = slot.eq(k.u32(self.config.tile.slots - 1));
        [wraps.select(k.u32(0), slot + 1), wraps.select(k.u32(1) - phase, phase)]
    }

    /// Turns with these blocks, by their numbers.
    pub(super) fn all(
        &self,
        [from, to]: [Val<'k>; 2],
        block: impl Fn(Val<'k>) -> Val<'k>,
        masked: bool,
        state: WgmmaBackwardState<'k>,
    ) -> WgmmaBackwardState<'k> {
        let k = self.k;
        let carried = k.for_(from, to, from.like(1), &state.carried(), |i, carried| {
            self.turn([masked, true], block(i), WgmmaBackwardState::of(carried)).carried()
        });
        // What is carried into another loop is copied.
        k.wgmma_wait(0);
        WgmmaBackwardState::of(&carried)
    }

    /// Begins the products of rows with a block of a side.
    fn products(&self, side: usize, slot: Val<'k>) -> Vec<Val<'k>> {
        let (k, config, t) = (self.k, self.config, self.config.tile);
        let none = |_| k.fragment_fill(fragment(config.dtype, Role::C), k.float(Scalar::F32, 0.0));
        let sums: Vec<Val> = (0..t.block / FRAGMENT_ROWS).map(none).collect();
        let base = slot * i64::from(t.block * config.width);
        (0..config.across()).fold(sums, |sums, e| {
            let a = self.rows_base + i64::from(e * config.rows() * TILE_SIDE);
            let b = base + i64::from(e * t.block * TILE_SIDE);
            k.wgmma_ss(
                (Order::RowMajor, self.rows[side], a),
                (Order::ColumnMajor, self.others[side], b),
                &sums,
            )
        })
    }
    /// Begins to add the products of weights with a block of a side.
    fn add(&self, weights: &[Val<'k>], side: usize, slot: Val<'k>, sums: &[Val<'k>]) -> Vec<Val<'k>> {
        let (k, config, t) = (self.k, self.config, self.config.tile);
        let a = fragment(config.dtype, Role::A);
        let rounded: Vec<Val> = weights.chunks(2).map(|w| k.fragment_compose(a, w)).collect();
        let base = slot * i64::from(t.block * config.width);
        // Blocks of 64 columns are as far apart as there are others: of 64 others they are
        // contiguous, else they are taken one by one.
        let each = if t.block == TILE_SIDE { sums.len() } else { (TILE_SIDE / FRAGMENT_ROWS) as usize };
        let columns = sums.chunks(each).enumerate().flat_map(|(e, sums)| {
            rounded.chunks(4).enumerate().fold(sums.to_vec(), |sums, (c, weights)| {
                let b = base + i64::from(e as u32 * t.block * TILE_SIDE + c as u32 * TILE_ELEMENTS);
                k.wgmma_rs(weights, (Order::RowMajor, self.others[side], b), &sums)
            })
        });
        columns.collect()
    }

    /// The sums with those of a block. `masked`: not all rows go with all of it; `fetches`: what
    /// comes later is fetched.
    pub(super) fn turn(
        &self,
        [masked, fetches]: [bool; 2],
        block: Val<'k>,
        old: WgmmaBackwardState<'k>,
    ) -> WgmmaBackwardState<'k> {
        let (k, config, t) = (self.k, self.config, self.config.tile);
        let WgmmaBackwardState { slot, phase, next, sums } = old;
        let late = config.is_by_queries();
        if !late {
            k.mbarrier_wait(slot + 1, phase);
        }
        let scores = self.products(0, slot);
        let slopes = self.products(1, slot);
        if self.statistics.is_some() {
            k.cp_async_wait((t.slots - 2) as u8);
        }
        k.wgmma_wait(config.across() as u8);
        // All have read the block before this one, and what was copied for this one is there for
        // all.
        let next = if fetches {
            k.barrier();
            let before = slot.eq(k.u32(0)).select(k.u32(t.slots - 1), slot - 1);
            self.load_tiles(next, before)
        } else {
            next
        };
        let [later, later_phase] = self.next(slot, phase);
        let first = block * i64::from(t.block);
        let args = |sums: &[Val<'k>]| -> Vec<Val<'k>> {
            sums.iter().flat_map(|&s| [0, 1].map(|half| k.fragment_extract(s, half))).collect()
        };
        let weights: Vec<Val> = args(&scores)
            .into_iter()
            .enumerate()
            .map(|(i, score)| {
                let less = self.statistic(0, i, slot);
                let p = exp2(score.fma(self.exponents.splat(4), -less));
                if masked { self.there(first, i).select(p, k.float(Scalar::F32, 0.0).splat(4)) } else { p }
            })
            .collect();
        let half = sums.len() / if late { 1 } else { 2 };
        let (ds, dv) = sums.split_at(half);
        let dv = if late { Vec::new() } else { self.add(&weights, 1, slot, dv) };
        if late {
            // The assembler puts a wait as early as it can; with a loop in front of it, it stays
            // behind the exponentials (see `wgmma_forward.rs`).
            k.if_(self.begin.lt(block), || k.mbarrier_wait(later + 1, later_phase));
        }
        let added = if t.block == TILE_SIDE { 1 } else { config.across() * t.block / TILE_SIDE };
        k.wgmma_wait(if late { 0 } else { added as u8 });
        let slopes: Vec<Val> = args(&slopes)
            .into_iter()
            .enumerate()
            .map(|(i, slope)| weights[i] * (slope - self.statistic(1, i, slot)))
            .collect();
        let ds = self.add(&slopes, 0, slot, ds);
        WgmmaBackwardState { slot: later, phase: later_phase, next, sums: [ds, dv].concat() }
    }

    /// What is taken off (0), or D (1), for the four numbers of an eighth of a block.
    fn statistic(&self, which: usize, eighth: usize, slot: Val<'k>) -> Val<'k> {
        let k = self.k;
        if let Some(rows) = self.of_rows {
            let [a, b] = rows.map(|r| r[which]);
            return k.compose(&[a, a, b, b]);
        }
        let (place, _) = self.statistics.expect("rows or columns are queries");
        let block = self.config.tile.block;
        let at =
            slot * i64::from(2 * block) + self.column + i64::from(which as u32 * block + 8 * eighth as u32);
        let two = k.load(place, at, 2);
        let [a, b] = [0, 1].map(|i| two.extract(i));
        k.compose(&[a, b, a, b])
    }

    /// Do the rows go with the others of an eighth of a block that begins at `first`?
    fn there(&self, first: Val<'k>, eighth: usize) -> Val<'k> {
        let by_queries = self.config.is_by_queries();
        let from = first + self.column.to(Scalar::I32);
        let column = |n: i64| from + (8 * eighth as i64 + n);
        let one = |row: Val<'k>, column: Val<'k>| {
            let (query, key) = if by_queries { (row, column) } else { (column, row) };
            let sees = key.lt(query + 1);
            match (by_queries, self.config.causal) {
                // Queries behind the last one are zeros, and have no part in sums.
                (false, _) => sees,
                (true, true) => column.lt(self.seen) & sees,
                (true, false) => column.lt(self.seen),
            }
        };
        let ([a, b], [x, y]) = (self.each, [column(0), column(1)]);
        self.k.compose(&[one(a, x), one(a, y), one(b, x), one(b, y)])
    }

    /// Stores the rows that there are.
    pub(super) fn store(
        &self,
        sums: &[Val<'k>],
        exists: Val<'k>,
        (head, count): (Val<'k>, Val<'k>),
        results: &[Place],
    ) {
        let (k, config) = (self.k, self.config);
        let scale = self.exponents * k.float(Scalar::F32, std::f64::consts::LN_2);
        for (n, (place, sums)) in
            results.iter().zip(sums.chunks((config.width / FRAGMENT_ROWS) as usize)).enumerate()
        {
            let parts: Vec<Val> = (sums.iter())
                .flat_map(|&o| [0, 1].map(|half| k.fragment_extract(o, half)))
                .map(|x| if n == 0 { x * scale } else { x })
                .collect();
            for (i, row) in self.each.into_iter().enumerate() {
                k.if_(row.lt(count) & exists, || {
                    let line = (head * count + row) * i64::from(config.width);
                    for (eighth, part) in parts.iter().enumerate() {
                        let first = 2 * i as u8;
                        let pair = k.compose(&[part.extract(first), part.extract(first + 1)]);
                        let column = self.column + 8 * eighth as i64;
                        k.store(*place, line + column.to(Scalar::I32), pair);
                    }
                });
            }
        }
    }
}
