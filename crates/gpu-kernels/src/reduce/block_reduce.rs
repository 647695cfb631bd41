//! Block reduce: a row folded by a workgroup, in the order of `elinvar_core::order::fold` (tree
//! reduction in shared memory).
//!
//! Term i of a block of 4096 goes to lane i mod 128. A row is given to `lanes` invocations;
//! invocation t holds the lanes t, t + lanes, t + 2 lanes, .. in registers, so that the first
//! halvings of the tree are its own, and the others go through shared memory. Lanes and terms that
//! do not exist hold the fold's start, which changes no bit: a sum that started from +0 is never
//! -0, and x * 1 is x.
//!
//! Where the register budget allows, an invocation loads the terms of several rounds before it
//! combines them, in their order: bandwidth needs enough loads in flight.
//!
//! Blocks are joined pairwise as they come, by the first invocation of the row, with a stack of one
//! value per level: after block b, as many groups are joined as b ends in ones. Where a row has a
//! large workgroup for itself, four blocks are folded in parallel, each by invocations of its own,
//! and come joined to the stack: what a block lacks at the end is the fold's start.

use super::plan::PARALLEL_BLOCKS;
pub use crate::launch::{MAX_BLOCK_THREADS, RegisterBudget};
use elinvar_core::order;
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Binary, Constant, Elem, Place, Scalar};
use elinvar_ops::backend::Fold;

/// Groups of blocks that wait for a neighbour: one per level, for up to 2^32 blocks.
const STACK_LEVELS: u32 = 32;

/// Terms that an invocation loads before it combines them, at most: 16 warps of eight have 16 KiB
/// under way, which is what an H100's multiprocessor needs to be kept busy (bandwidth times
/// latency, over its multiprocessors).
const MAX_LOADS_IN_FLIGHT: u32 = 8;
/// The same where an invocation has several lanes: such workgroups are few.
const MAX_LOADS_SEVERAL_LANES: u32 = 32;

/// Invocations of a workgroup that holds few of what it reads at a time: so several are on a
/// multiprocessor.
const BLOCK_THREADS: u32 = 512;
const _: () = assert!(PARALLEL_BLOCKS * order::LANES as u32 == BLOCK_THREADS);

/// What a kernel knows about how many terms rows have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowLength {
    /// Lanes of the tree that can have a term.
    pub lanes: u32,
    /// Terms of a lane that are loaded before they are combined, a power of two; 0 if each waits
    /// for its own condition.
    pub turns: u32,
    /// May there be several blocks, or several rounds of blocks in parallel?
    pub many: bool,
    /// Blocks in parallel.
    pub parallel_blocks: u32,
}

impl RowLength {
    /// Of rows of `n` terms, or of at most `n`.
    pub fn of(n: usize, budget: RegisterBudget) -> RowLength {
        let turns = match budget {
            RegisterBudget::One => 0,
            RegisterBudget::Many => {
                n.div_ceil(order::LANES).next_power_of_two().clamp(1, MAX_LOADS_IN_FLIGHT as usize) as u32
            }
        };
        RowLength { lanes: lanes(n), turns, many: n > order::BLOCK, parallel_blocks: 1 }
    }
    /// The same for rows that are given to invocations so, with blocks in parallel if there are
    /// enough.
    pub fn parallel_blocks(self, n: usize, tile: RowTile, budget: RegisterBudget) -> RowLength {
        let alone = (tile.lanes, tile.rows) == (order::LANES as u32, 1);
        if budget == RegisterBudget::One || !alone || n <= 2 * order::BLOCK {
            return self;
        }
        RowLength {
            parallel_blocks: PARALLEL_BLOCKS,
            many: n > PARALLEL_BLOCKS as usize * order::BLOCK,
            ..self
        }
    }
    /// The same for rows whose elements stay, in so many blocks in parallel: however long, there is
    /// no loop over blocks.
    pub fn in_registers(n: usize, parallel_blocks: u32) -> RowLength {
        RowLength { many: false, parallel_blocks, ..RowLength::of(n, RegisterBudget::One) }
    }
    /// Invocations of a workgroup.
    pub fn invocations(self, tile: RowTile) -> u32 {
        tile.invocations() * self.parallel_blocks
    }
    /// What tells lengths apart in a kernel's name.
    pub fn words(self) -> String {
        let turns = if self.turns == 0 { String::new() } else { format!("t{}", self.turns) };
        let parallel_blocks =
            if self.parallel_blocks > 1 { format!("b{}", self.parallel_blocks) } else { String::new() };
        format!("{}{turns}{parallel_blocks}{}", self.lanes, if self.many { "loop" } else { "" })
    }
}

/// How rows are given to the invocations of a workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowTile {
    /// Invocations of a row: a power of two up to 128.
    pub lanes: u32,
    /// Rows of a workgroup.
    pub rows: u32,
    /// Are neighbours in a workgroup neighbours in a column? So it should be if rows are contiguous
    /// in memory.
    pub crossed: bool,
}

impl RowTile {
    /// A good one for rows of `n` elements.
    pub fn of(n: usize, crossed: bool, budget: RegisterBudget) -> RowTile {
        let lanes = lanes(n);
        if crossed {
            // 32 neighbours of f32 are a line of 128 bytes; eight invocations a row are 16 lanes
            // each. There may be no more workgroups than multiprocessors, so where there is much to
            // be brought they are as large as they may be.
            let most = match budget {
                RegisterBudget::One => 8,
                RegisterBudget::Many => BLOCK_THREADS / 32,
            };
            return RowTile { lanes: lanes.min(most), rows: 32, crossed };
        }
        RowTile { lanes, rows: 128 / lanes, crossed }
    }
    /// Invocations of a workgroup.
    pub fn invocations(self) -> u32 {
        self.lanes * self.rows
    }
}

/// Lanes of the tree that can have a term.
pub fn lanes(n: usize) -> u32 {
    n.clamp(1, order::LANES).next_power_of_two() as u32
}

/// Where a fold starts.
pub fn start(f: Fold, s: Scalar) -> Constant {
    match f {
        Fold::Sum => Constant::int(s, 0),
        Fold::Prod => Constant::int(s, 1),
        Fold::Max if s.is_float() => Constant::float(s, f64::NEG_INFINITY),
        Fold::Min if s.is_float() => Constant::float(s, f64::INFINITY),
        // The least of a signed type; saturating is what `float` does.
        Fold::Max => Constant::float(s, f64::NEG_INFINITY),
        Fold::Min => Constant::float(s, f64::INFINITY),
    }
}

/// How a fold combines.
pub fn combine(f: Fold) -> Binary {
    match f {
        Fold::Sum => Binary::Add,
        Fold::Prod => Binary::Mul,
        Fold::Max => Binary::Max,
        Fold::Min => Binary::Min,
    }
}

/// The elements of shared memory that hold a scalar.
pub fn elem(s: Scalar) -> Elem {
    match s {
        Scalar::Bool | Scalar::U32 => Elem::U32,
        Scalar::I32 => Elem::I32,
        Scalar::I64 => Elem::I64,
        Scalar::U64 => Elem::U64,
        Scalar::F32 => Elem::F32,
        Scalar::F64 => Elem::F64,
    }
}

/// A row of a workgroup.
pub struct BlockRow<'k> {
    pub(crate) k: &'k Builder,
    pub(crate) tile: RowTile,
    pub(crate) length: RowLength,
    /// Which invocation of the row, in the type of numbers.
    pub lane: Val<'k>,
    /// Which row of the workgroup, u32.
    pub row: Val<'k>,
    /// Where this invocation's number is in shared memory.
    mine: Val<'k>,
    /// Which of the blocks in parallel, in the type of numbers.
    part: Option<Val<'k>>,
    scalar: Scalar,
    shared: Place,
    /// The stack of blocks, if rows may be longer than one.
    stack: Option<Place>,
}

impl<'k> BlockRow<'k> {
    /// The row of an invocation. Elements are counted in `number`, terms are of type `scalar`.
    pub fn new(k: &'k Builder, tile: RowTile, length: RowLength, number: Scalar, scalar: Scalar) -> Self {
        let whole = k.builtin(elinvar_kernel::ir::Builtin::LocalIndex);
        let all = i64::from(tile.invocations());
        let (part, index) =
            if length.parallel_blocks > 1 { (Some(whole / all), whole % all) } else { (None, whole) };
        let (lane, row) = if tile.crossed {
            (index / i64::from(tile.rows), index % i64::from(tile.rows))
        } else {
            (index % i64::from(tile.lanes), index / i64::from(tile.lanes))
        };
        let shared = k.shared("lanes", elem(scalar), length.invocations(tile));
        let stack = length.many.then(|| k.shared("blocks", elem(scalar), STACK_LEVELS * tile.rows));
        let mine = lane * i64::from(tile.rows) + row;
        let mine = part.map_or(mine, |part| part * all + mine);
        let part = part.map(|part| part.to(number));
        BlockRow { k, tile, length, lane: lane.to(number), row, mine, part, scalar, shared, stack }
    }

    /// Is this the row's first invocation?
    pub fn leads(&self) -> Val<'k> {
        let leads = self.lane.eq(self.lane.like(0));
        self.part.map_or(leads, |part| leads & part.eq(part.like(0)))
    }
    /// Which invocation of the row it is, of how many.
    pub fn of_row(&self) -> (Val<'k>, i64) {
        let lanes = i64::from(self.tile.lanes);
        let which = self.part.map_or(self.lane, |part| part * lanes + self.lane);
        (which, lanes * i64::from(self.length.parallel_blocks))
    }

    /// Where the invocation's first element is, if blocks go side by side and there is one round of
    /// them.
    pub(crate) fn first(&self) -> Val<'k> {
        self.part.map_or(self.lane, |part| part * order::BLOCK as i64 + self.lane)
    }

    /// The fold of the row's `n` terms, for all of its invocations. The whole workgroup comes here;
    /// rows may differ in how many terms they have only if none has more than a block.
    pub fn fold(&self, f: Fold, n: Val<'k>, term: &dyn Fn(Val<'k>) -> Val<'k>) -> Val<'k> {
        let k = self.k;
        let op = combine(f);
        match self.stack {
            None if self.length.parallel_blocks == 1 => self.block(f, n.like(0), n, term),
            None => {
                self.round(f, n.like(0), n, term);
                self.close(op);
            }
            Some(stack) => {
                let level = |l: Val<'k>| l * i64::from(self.tile.rows) + self.row;
                // Of blocks, or of rounds of them.
                let size = order::BLOCK as i64 * i64::from(self.length.parallel_blocks);
                let blocks = (n + (size - 1)) / size;
                let leads = self.leads();
                k.each(blocks.like(0), blocks, blocks.like(1), |b| {
                    self.round(f, b * size, n, term);
                    k.if_(leads, || {
                        let b = b.to(Scalar::U32);
                        let carry = self.joined(op);
                        let ones = trailing_ones(b);
                        let joined = k.for_(k.u32(0), ones, k.u32(1), &[carry], |l, c| {
                            vec![k.load(stack, level(l), 1).binary(op, c[0])]
                        });
                        k.store(stack, level(ones), joined[0]);
                    });
                    k.barrier();
                });
                // What found no neighbour: the later, smaller groups join first.
                k.if_(leads, || {
                    let blocks = blocks.to(Scalar::U32);
                    let none = k.constant(start(f, self.scalar));
                    let init = [none, k.constant(false.into())];
                    let all = k.for_(k.u32(0), k.u32(STACK_LEVELS), k.u32(1), &init, |l, c| {
                        let waits = (blocks >> l) & 1;
                        k.if_else(
                            waits.eq(k.u32(1)),
                            || {
                                let left = k.load(stack, level(l), 1);
                                vec![c[1].select(left.binary(op, c[0]), left), k.constant(true.into())]
                            },
                            || c.to_vec(),
                        )
                    });
                    k.store(self.shared, self.row, all[0]);
                });
                k.barrier();
            }
        }
        self.result()
    }

    /// The folds of the block that begins with a term, or of as many as go side by side, of `n`
    /// terms.
    fn round(&self, f: Fold, first: Val<'k>, n: Val<'k>, term: &dyn Fn(Val<'k>) -> Val<'k>) {
        let size = order::BLOCK as i64;
        let of = |first: Val<'k>| (n - first).min(n.like(size));
        match self.part {
            None => self.block(f, first, of(first), term),
            Some(part) => {
                let first = first + part * size;
                self.block(f, first, of(first).max(n.like(0)), term);
            }
        }
    }

    /// Joins the blocks of the only round, into the shared memory of the row's first invocation.
    pub(crate) fn close(&self, op: Binary) {
        if self.length.parallel_blocks > 1 {
            self.k.if_(self.leads(), || self.k.store(self.shared, self.row, self.joined(op)));
            self.k.barrier();
        }
    }

    /// What a round was folded to, for the row's first invocation.
    fn joined(&self, op: Binary) -> Val<'k> {
        let of = |part: u32| match part {
            0 => self.k.load(self.shared, self.row, 1),
            // Those that end a round with no terms hold what a fold starts from.
            _ => self.k.load(self.shared, self.k.u32(part * self.tile.invocations()), 1),
        };
        let mut all: Vec<Val> = (0..self.length.parallel_blocks).map(of).collect();
        while all.len() > 1 {
            all = all.chunks(2).map(|pair| pair[0].binary(op, pair[1])).collect();
        }
        all[0]
    }

    /// What is in the shared memory of the row's first invocation, for all of its invocations.
    pub(crate) fn result(&self) -> Val<'k> {
        let result = self.k.load(self.shared, self.row, 1);
        // The next fold writes there.
        self.k.barrier();
        result
    }

    /// Lanes of an invocation.
    pub(crate) fn own(&self) -> u32 {
        self.length.lanes / self.tile.lanes
    }
    /// From an invocation's first element to the one that it has in a lane of its own in a turn.
    pub(crate) fn offset_of(&self, turn: u32, lane: u32) -> i64 {
        i64::from(turn) * order::LANES as i64 + i64::from(lane * self.tile.lanes)
    }

    /// The fold of `m` terms from `first` on, at most a block, into the shared memory of the row's
    /// first invocation.
    fn block(&self, f: Fold, first: Val<'k>, m: Val<'k>, term: &dyn Fn(Val<'k>) -> Val<'k>) {
        let k = self.k;
        let op = combine(f);
        let own = self.own();
        let none = vec![k.constant(start(f, self.scalar)); own as usize];
        let lanes = order::LANES as i64;
        let step = |turns: u32| m.like(i64::from(turns) * lanes);
        let at = |j: Val<'k>, e: u32| j + self.lane + self.offset_of(e / own, e % own);
        let sums = if self.length.turns == 0 {
            k.for_(m.like(0), m, step(1), &none, |j, sums| {
                let one = |(u, &sum): (u32, &Val<'k>)| {
                    let i = at(j, u);
                    k.if_else(i.lt(m), || vec![sum.binary(op, term(first + i))], || vec![sum])[0]
                };
                (0..).zip(sums).map(one).collect()
            })
        } else {
            let together = |j: Val<'k>, turns: u32, sums: &[Val<'k>], may_end: bool| {
                let places: Vec<Val> = (0..turns * own).map(|e| at(j, e)).collect();
                // Beyond the end the last term is loaded again, so that no load waits for a
                // condition.
                let load = |&i: &Val<'k>| term(first + if may_end { i.min(m - 1) } else { i });
                let loaded: Vec<Val> = places.iter().map(load).collect();
                let mut sums = sums.to_vec();
                for (e, (&i, &v)) in places.iter().zip(&loaded).enumerate() {
                    let sum = &mut sums[e % own as usize];
                    let more = sum.binary(op, v);
                    *sum = if may_end { i.lt(m).select(more, *sum) } else { more };
                }
                sums
            };
            // Turns in which all lanes have a term; at the end fewer at a time, as some are for
            // nothing.
            let all = self.length.turns.min(MAX_LOADS_SEVERAL_LANES / own).max(1);
            let some = all.min(MAX_LOADS_IN_FLIGHT / 2);
            let (whole, sums) = if i64::from(self.length.lanes) == lanes {
                let whole = m & -(i64::from(all) * lanes);
                (whole, k.for_(m.like(0), whole, step(all), &none, |j, sums| together(j, all, sums, false)))
            } else {
                (m.like(0), none)
            };
            k.for_(whole, m, step(some), &sums, |j, sums| together(j, some, sums, true))
        };
        self.join(op, sums);
    }

    /// The tree over the lanes, from an invocation's own sums, into the shared memory of the row's
    /// first invocation.
    pub(crate) fn join(&self, op: Binary, mut sums: Vec<Val<'k>>) {
        let k = self.k;
        while sums.len() > 1 {
            let half = sums.split_off(sums.len() / 2);
            sums = sums.iter().zip(&half).map(|(a, b)| a.binary(op, *b)).collect();
        }
        k.store(self.shared, self.mine, sums[0]);
        k.barrier();
        let mut half = i64::from(self.tile.lanes / 2);
        while half > 0 {
            k.if_(self.lane.lt(self.lane.like(half)), || {
                let left = k.load(self.shared, self.mine, 1);
                let right = k.load(self.shared, self.mine + half * i64::from(self.tile.rows), 1);
                k.store(self.shared, self.mine, left.binary(op, right));
            });
            k.barrier();
            half /= 2;
        }
    }
}

/// In how many ones a u32 ends, if not in 32: the exponent of the power of two above them, which
/// f32 holds exactly.
fn trailing_ones(b: Val<'_>) -> Val<'_> {
    let power = (b + 1) & !b;
    let ones = (power.to(Scalar::F32).bitcast(Scalar::U32) >> 23) - 127;
    // So it is; a bound on the loop's iterations that can be seen.
    ones.min(ones.like(i64::from(STACK_LEVELS) - 1))
}
