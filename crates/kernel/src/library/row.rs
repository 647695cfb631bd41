//! A row folded by a workgroup, in the order of `elinvar_core::order::fold`.
//!
//! Term i of a block of 4096 goes to lane i mod 128. A row is given to `lanes` invocations; invocation t holds the
//! lanes t, t + lanes, t + 2 lanes, .. in registers, so that the first halvings of the tree are its own business, and the
//! others go through shared memory. Lanes and terms that do not exist hold what the fold starts from, which changes no
//! bit: a sum that started from +0 is never -0, and x * 1 is x.
//!
//! Blocks are joined pairwise as they come, by the first invocation of the row, with a stack of one number per level: after
//! block b, as many groups are joined as b ends in ones.

use crate::build::{Builder, Val};
use crate::ir::{Binary, Constant, Elem, Place, Scalar};
use elinvar_core::order;
use elinvar_ops::backend::Fold;

/// Groups of blocks that wait for a neighbour: one per level, for up to 2^32 blocks.
const LEVELS: u32 = 32;

/// How rows are given to the invocations of a workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Invocations of a row: a power of two up to 128.
    pub lanes: u32,
    /// Rows of a workgroup.
    pub rows: u32,
    /// Are neighbours in a workgroup neighbours in a column? So it should be if rows are side by side in memory.
    pub crossed: bool,
}

impl Tile {
    /// A good one for rows of `n` elements.
    pub fn of(n: usize, crossed: bool) -> Tile {
        let lanes = lanes(n);
        if crossed {
            // 32 neighbours of f32 are a line of 128 bytes; eight invocations a row are 16 lanes each.
            return Tile { lanes: lanes.min(8), rows: 32, crossed };
        }
        Tile { lanes, rows: 128 / lanes, crossed }
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
pub struct Row<'k> {
    k: &'k Builder,
    tile: Tile,
    /// Lanes that can have a term.
    lanes: u32,
    /// Which invocation of the row, in the type of numbers.
    pub lane: Val<'k>,
    /// Which row of the workgroup, u32.
    pub row: Val<'k>,
    /// How many elements a row has; the same for all rows.
    n: Val<'k>,
    /// Where this invocation's number is in shared memory.
    mine: Val<'k>,
    scalar: Scalar,
    shared: Place,
    /// The stack of blocks, if rows may be longer than one.
    stack: Option<Place>,
}

impl<'k> Row<'k> {
    /// The row of an invocation. Terms are of type `scalar`; `lanes` as of [`lanes`]; `many`: may there be several blocks?
    pub fn new(k: &'k Builder, tile: Tile, lanes: u32, n: Val<'k>, scalar: Scalar, many: bool) -> Self {
        let index = k.builtin(crate::ir::Builtin::LocalIndex);
        let (lane, row) = if tile.crossed {
            (index / i64::from(tile.rows), index % i64::from(tile.rows))
        } else {
            (index % i64::from(tile.lanes), index / i64::from(tile.lanes))
        };
        let shared = k.shared("lanes", elem(scalar), tile.invocations());
        let stack = many.then(|| k.shared("blocks", elem(scalar), LEVELS * tile.rows));
        let mine = lane * i64::from(tile.rows) + row;
        Row { k, tile, lanes, lane: lane.to(n.scalar()), row, n, mine, scalar, shared, stack }
    }

    /// The fold of the row's terms, for all of its invocations. The whole workgroup comes here.
    pub fn fold(&self, f: Fold, term: &dyn Fn(Val<'k>) -> Val<'k>) -> Val<'k> {
        let k = self.k;
        let op = combine(f);
        match self.stack {
            None => self.block(f, self.n.like(0), self.n, term),
            Some(stack) => {
                let level = |l: Val<'k>| l * i64::from(self.tile.rows) + self.row;
                let size = order::BLOCK as i64;
                let blocks = (self.n + (size - 1)) / size;
                let leads = self.lane.eq(self.lane.like(0));
                k.each(blocks.like(0), blocks, blocks.like(1), |b| {
                    let first = b * size;
                    self.block(f, first, (self.n - first).min(self.n.like(size)), term);
                    k.if_(leads, || {
                        let b = b.to(Scalar::U32);
                        let carry = k.load(self.shared, self.row, 1);
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
                    let all = k.for_(k.u32(0), k.u32(LEVELS), k.u32(1), &init, |l, c| {
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
        let result = k.load(self.shared, self.row, 1);
        // The next fold writes there.
        k.barrier();
        result
    }

    /// The fold of `m` terms from `first` on, at most a block, into the shared memory of the row's first invocation.
    fn block(&self, f: Fold, first: Val<'k>, m: Val<'k>, term: &dyn Fn(Val<'k>) -> Val<'k>) {
        let k = self.k;
        let op = combine(f);
        let mine = (self.lanes / self.tile.lanes) as usize;
        let none = k.constant(start(f, self.scalar));
        let step = m.like(order::LANES as i64);
        let mut sums = k.for_(m.like(0), m, step, &vec![none; mine], |j, sums| {
            let one = |(u, &sum): (usize, &Val<'k>)| {
                let i = j + self.lane + (u as i64) * i64::from(self.tile.lanes);
                k.if_else(i.lt(m), || vec![sum.binary(op, term(first + i))], || vec![sum])[0]
            };
            sums.iter().enumerate().map(one).collect()
        });
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

/// In how many ones a u32 ends, if not in 32: the exponent of the power of two above them, which f32 holds exactly.
fn trailing_ones(b: Val<'_>) -> Val<'_> {
    let power = (b + 1) & !b;
    (power.to(Scalar::F32).bits(Scalar::U32) >> 23) - 127
}
