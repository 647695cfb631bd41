//! Attention and its gradient, as `docs/reference/numerics.md` ("Attention") defines them: flash
//! attention with online softmax over blocks of 64 keys.
//!
//! A workgroup takes a tile of rows (queries, or keys in the gradients by k and v) of one head. The
//! products of rows with a block of 64 others are computed in registers, a 4 by 4 thread tile each;
//! the block's scores go to shared memory and are the left factor of the next product. Tiles of
//! rows are aligned and divide 64, so all rows of a tile visit the same blocks, and only scores on
//! the diagonal are masked element by element.
//!
//! * Choice: `plan`.
//! * Exact: `forward` (running maximum, sum and y), `backward` (one kernel each for dq, dk and dv,
//!   without atomics), `smem_rows` (rows in shared memory, for both).
//! * `Precision::Fast` on Hopper: `wgmma_forward` and `wgmma_backward` (TMA and wgmma),
//!   `tma_operands` (their tensor maps), `delta` (what the gradient needs of each query).
//! * `Precision::Fast` with tensor cores: `mma_forward` and `mma_backward` (mma.sync), `split_kv`
//!   (flash decoding, for few queries).

mod backward;
mod delta;
mod forward;
pub mod mma_backward;
pub mod mma_forward;
pub mod plan;
mod smem_rows;
pub mod split_kv;
mod tma_operands;
pub mod wgmma_backward;
pub mod wgmma_forward;

pub use backward::{AttentionGrad, BackwardInputs, attention_grad};
pub use forward::attention;
pub use smem_rows::{AttentionPath, SmemRowsConfig};

use crate::elementwise::fill;
use crate::launch::args::LaunchArgs;
use crate::layout::indexing;
use elinvar_core::order::{self, ATTENTION_BLOCK};
use elinvar_core::{DType, Layout};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Access, Builtin, Compare, Constant, Elem, Place, Scalar};
use elinvar_kernel::lane::{Float, Term, W32, W64};
use elinvar_ops::lane::Lane;

/// Neighbouring invocations along a block, and along the columns of a result.
const THREADS_ACROSS: u32 = 16;
/// Rows, and places of a block, of an invocation: 64 are 16 times 4.
const THREAD_TILE: usize = 4;
/// A row of a block in shared memory, with four numbers more, so that rows begin in different
/// banks.
const SCORE_PITCH: i64 = 68;
/// Columns of a result of an invocation, at most, each 16 apart; wider results have several
/// workgroups.
const MAX_THREAD_COLUMNS: u32 = 8;

/// Invocations along rows: what fits into 16 KiB of shared memory.
fn down(s: Scalar) -> u32 {
    if s == Scalar::F64 { 4 } else { 8 }
}
/// Rows of a workgroup; they divide 64.
fn rows(s: Scalar) -> usize {
    down(s) as usize * THREAD_TILE
}

/// Columns of an invocation, for so many columns of the result; and workgroups along them.
fn columns(n: usize) -> (u32, usize) {
    let each = (n.div_ceil(THREADS_ACROSS as usize) as u32).next_power_of_two().min(MAX_THREAD_COLUMNS);
    if n == 0 { (0, 1) } else { (each, n.div_ceil((each * THREADS_ACROSS) as usize)) }
}

/// The numbers of an operand with up to four axes: offset and strides.
fn push(all: &mut Vec<i64>, l: &Layout) {
    all.push(l.offset() as i64);
    all.extend((0..4).map(|a| l.strides().get(a).map_or(0, |&s| s as i64)));
}

/// The words of a number of a type.
fn words(s: Scalar, v: f64) -> [i64; 2] {
    let bits = Constant::float(s, v).bits;
    [i64::from(bits as u32), (bits >> 32) as i64]
}

/// An operand [b, h, rows, columns].
#[derive(Clone, Copy)]
struct StridedOperand<'k> {
    place: Place,
    offset: Val<'k>,
    strides: [Val<'k>; 4],
}

impl<'k> StridedOperand<'k> {
    fn read(args: &LaunchArgs<'k>, name: &str, place: Place) -> Self {
        let offset = args.get(&format!("{name}_offset"));
        StridedOperand {
            place,
            offset,
            strides: std::array::from_fn(|a| args.get(&format!("{name}_stride{a}"))),
        }
    }
    /// Where a row begins.
    fn row(&self, [b, h, i]: [Val<'k>; 3]) -> Val<'k> {
        indexing::position(self.offset, &[b, h, i], &self.strides[..3])
    }
    /// Rows of this, as factors of products.
    fn side(&self, rows: Vec<Val<'k>>) -> OperandRows<'k> {
        OperandRows { place: self.place, rows, step: self.strides[3] }
    }
}

/// Rows of an operand: where they begin, and from one number to the next.
struct OperandRows<'k> {
    place: Place,
    rows: Vec<Val<'k>>,
    step: Val<'k>,
}

/// Which invocation: its row and its place along a block.
struct ThreadCoord<'k> {
    index: Val<'k>,
    row: Val<'k>,
    across: Val<'k>,
    down: u32,
}

impl<'k> ThreadCoord<'k> {
    fn new(k: &'k Builder, s: Scalar) -> Self {
        let index = k.builtin(Builtin::LocalIndex);
        let across = i64::from(THREADS_ACROSS);
        ThreadCoord { index, row: index / across, across: index % across, down: down(s) }
    }
    /// Its rows in the workgroup's tile.
    fn rows(&self) -> [Val<'k>; THREAD_TILE] {
        std::array::from_fn(|u| self.row + u as i64 * i64::from(self.down))
    }
    /// Its places in a block.
    fn places(&self) -> [Val<'k>; THREAD_TILE] {
        std::array::from_fn(|w| self.across + w as i64 * i64::from(THREADS_ACROSS))
    }
    /// Its columns of a result: where so many neighbours begin.
    fn columns(&self, each: u32, neighbours: u32) -> Vec<Val<'k>> {
        let first = self.across * i64::from(neighbours);
        (0..each).step_by(neighbours.max(1) as usize).map(|w| first + i64::from(w * THREADS_ACROSS)).collect()
    }
    fn invocations(&self) -> u32 {
        self.down * THREADS_ACROSS
    }
}

/// How the scores of a query are made.
struct ScoreRule<'k> {
    k: &'k Builder,
    scalar: Scalar,
    scale: Val<'k>,
    mask: Option<StridedOperand<'k>>,
    causal: bool,
}

impl<'k> ScoreRule<'k> {
    fn number(&self, v: f64) -> Val<'k> {
        self.k.float(self.scalar, v)
    }
    /// x[i] by w[j], in the order of contractions; row by row of x.
    fn products(
        &self,
        n: Val<'k>,
        multi_chunk: bool,
        x: &OperandRows<'k>,
        w: &OperandRows<'k>,
    ) -> Vec<Val<'k>> {
        let k = self.k;
        let none = vec![k.int(self.scalar, 0); x.rows.len() * w.rows.len()];
        let chunk = |start: Val<'k>, end: Val<'k>| {
            k.for_(start, end, start.like(1), &none, |e, sums| {
                let load = |s: &OperandRows<'k>| -> Vec<Val<'k>> {
                    s.rows.iter().map(|&r| k.load(s.place, r + e * s.step, 1)).collect()
                };
                fma_chains(&load(x), &load(w), sums)
            })
        };
        let zero = n.like(0);
        if !multi_chunk {
            return chunk(zero, n);
        }
        let size = order::CHUNK as i64;
        k.for_(zero, n, n.like(size), &none, |start, totals| {
            let sums = chunk(start, (start + size).min(n));
            let first = start.eq(zero);
            totals.iter().zip(sums).map(|(&total, sum)| first.select(sum, total + sum)).collect()
        })
    }
    /// The score of a query at a key from their product.
    fn score(&self, product: Val<'k>, [b, h, i]: [Val<'k>; 3], j: Val<'k>) -> Val<'k> {
        let never = self.number(f64::NEG_INFINITY);
        let mut score = product * self.scale;
        if let Some(mask) = &self.mask {
            let m = self.k.load(mask.place, mask.row([b, h, i]) + j * mask.strides[3], 1);
            score = if m.scalar() == Scalar::Bool { m.select(score, never) } else { score + m };
        }
        if self.causal { j.compare(Compare::Gt, i).select(never, score) } else { score }
    }
    /// x, or 0 if it is -inf: what is subtracted in an exponent.
    fn shift(&self, x: Val<'k>) -> Val<'k> {
        x.eq(self.number(f64::NEG_INFINITY)).select(self.number(0.0), x)
    }
    fn exp(&self, x: Val<'k>) -> Val<'k> {
        match self.scalar {
            Scalar::F64 => Float::<W64>::new(Term::Value(x)).exp().0.value(self.k),
            _ => Float::<W32>::new(Term::Value(x)).exp().0.value(self.k),
        }
    }
    fn log(&self, x: Val<'k>) -> Val<'k> {
        match self.scalar {
            Scalar::F64 => Float::<W64>::new(Term::Value(x)).log().0.value(self.k),
            _ => Float::<W32>::new(Term::Value(x)).log().0.value(self.k),
        }
    }
}

/// One more term for every sum.
fn fma_chains<'k>(a: &[Val<'k>], b: &[Val<'k>], sums: &[Val<'k>]) -> Vec<Val<'k>> {
    let each = |(i, &sum): (usize, &Val<'k>)| a[i / b.len()].fma(b[i % b.len()], sum);
    sums.iter().enumerate().map(each).collect()
}

/// sums[u, w] = fma(left[u, t], right[t, w], sums[u, w]) for the places `0..count` of a block; left
/// in shared memory, right where `row` says, at `columns`.
fn accumulate<'k>(
    k: &'k Builder,
    local: &ThreadCoord<'k>,
    left: Place,
    count: Val<'k>,
    right: (Place, &dyn Fn(Val<'k>) -> Val<'k>),
    columns: &[Val<'k>],
    sums: &[Val<'k>],
) -> Vec<Val<'k>> {
    let rows = local.rows();
    k.for_(count.like(0), count, count.like(1), sums, |t, sums| {
        let a = rows.map(|r| k.load(left, r * SCORE_PITCH + t.to(Scalar::U32), 1));
        let first = (right.1)(t);
        let b: Vec<Val> = columns.iter().map(|&c| k.load(right.0, first + c, 1)).collect();
        fma_chains(&a, &b, sums)
    })
}

/// What the mask holds.
fn mask_elem(mask: Option<(&Layout, DType)>) -> Option<Elem> {
    mask.map(|(_, d)| Elem::from(d))
}

fn buffer(k: &Builder, name: &str, elem: Elem) -> Place {
    k.buffer(name, elem, Access::Read)
}

/// A number of a launch from its words.
fn scale<'k>(args: &LaunchArgs<'k>, s: Scalar) -> Val<'k> {
    fill::number(s, ["scale_low", "scale_high"].map(|n| args.get(n)))
}

/// Keys that the queries of a tile from `i` on visit.
fn visited<'k>(causal: bool, i: Val<'k>, keys: Val<'k>) -> Val<'k> {
    let block = ATTENTION_BLOCK as i64;
    if causal { keys.min((i / block + 1) * block) } else { keys }
}

/// In which order workgroups take tiles of rows.
#[derive(Clone, Copy)]
enum TileOrder {
    /// Head by head: neighbours read the same.
    ByHead,
    /// The first tiles of all heads first, or the last ones: those with the most to do, so that the
    /// end is short.
    Ascending,
    Descending,
}

impl TileOrder {
    /// Of a form: where all tiles have as much to do, head by head.
    fn of(causal: bool, staged: bool, longest: TileOrder) -> TileOrder {
        if causal && staged { longest } else { TileOrder::ByHead }
    }
}

/// What a workgroup does: which head, which tile of rows, and which part of their columns.
struct TileAssignment<'k> {
    /// The last row of a grid may have workgroups too many: they do as another one does, and store
    /// nothing.
    exists: Val<'k>,
    head: Val<'k>,
    tile: Val<'k>,
    part: Val<'k>,
}

impl<'k> TileAssignment<'k> {
    fn new(unit: Val<'k>, [heads, tiles, across]: [Val<'k>; 3], order: TileOrder) -> Self {
        let (whole, part) = (unit / across, unit % across);
        let by_tile = || {
            let asked = whole / heads;
            (asked.lt(tiles), whole % heads, asked.min(tiles - 1))
        };
        let (exists, head, tile) = match order {
            TileOrder::ByHead => {
                let asked = unit / (tiles * across);
                (asked.lt(heads), asked.min(heads - 1), whole % tiles)
            }
            TileOrder::Ascending => by_tile(),
            TileOrder::Descending => {
                let (exists, head, tile) = by_tile();
                (exists, head, tiles - 1 - tile)
            }
        };
        TileAssignment { exists, head, tile, part }
    }
}
