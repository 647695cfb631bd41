//! Which path a product takes: a pure function of the problem and the processor. All thresholds are
//! in [`thresholds`].
//!
//! [`plan`] is for products of matrices in memory, [`plan_gemm`] for those whose factors may be
//! anything that can be packed, as those of convolutions are. The other files of this folder run
//! what a plan says and do not decide again.
//!
//! Not decided here, because it is no function of shapes: whether weights were packed before
//! (`prepack.rs` counts their uses), whether memory for it is granted, and on how many threads
//! tasks run in the end (`runtime/parallel.rs`, which is told how long they take). Nor is what
//! compiled kernels choose among themselves: heights of register tiles, and what is prefetched.
//!
//! No plan changes a bit of a result: the order of the terms is the same on each path.
//!
//! How it can be wrong: a path that the factors do not allow, or a slow one. `tests/plans/gemm.txt`
//! lists problems and their paths.

mod blocked;
mod display;
mod planner;
pub(crate) mod thresholds;

pub(crate) use blocked::{
    AccessA, AccessB, ColumnAccess, GemmPlan, GemmProblem, PackPlan, PrivatePackingPlan, ReadA, Schedule,
    SmallMPlan, TAPS_PER_ADDRESS, TilePath, Units,
};
pub(crate) use planner::plan_gemm;

use super::kernels::TermKind;
use crate::machine::Machine;
use elinvar_core::Precision;
use elinvar_core::order::CHUNK;
use thresholds::*;

/// What the numbers of a stored factor are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    /// As they are computed.
    Native,
    F16,
    Bf16,
}

/// The layout of a batch of matrices in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MatrixLayout {
    pub(crate) storage: Storage,
    pub(crate) offset: usize,
    /// Batch `b` starts at `b / inner * batch.0 + b % inner * batch.1`.
    pub(crate) inner: usize,
    pub(crate) batch: (isize, isize),
    pub(crate) row: isize,
    pub(crate) col: isize,
    /// Of bf16: does the buffer begin where an f32 may, so that pairs can be read as f32?
    pub(crate) has_aligned_pairs: bool,
}

impl MatrixLayout {
    /// Rows as columns.
    pub(crate) fn transposed(self) -> MatrixLayout {
        MatrixLayout { row: self.col, col: self.row, ..self }
    }
    /// Do the rows of all matrices of `m` rows follow one another, or does one row stand for all?
    pub(crate) fn rows_follow(&self, m: usize) -> bool {
        self.inner == 1 && self.batch.0 == self.row * m as isize
    }
    /// Do columns of `k` terms hold pairs of bf16, side by side, that can be read as f32?
    fn holds_pairs(&self, k: usize) -> bool {
        let even = |x: isize| x % 2 == 0;
        self.row == 1
            && even(self.col)
            && even(self.batch.0)
            && even(self.batch.1)
            && self.offset.is_multiple_of(2)
            && k.is_multiple_of(2)
            && self.has_aligned_pairs
    }
    /// As a left factor. Elements are computed as they are stored or not; pairs are stored as bf16.
    fn access_a(&self, terms: TermKind, k: usize) -> AccessA {
        let rows = match terms {
            TermKind::Elements if self.storage == Storage::Native && self.col == 1 => Some(self.row),
            TermKind::Bf16Pairs if self.transposed().holds_pairs(k) => Some(self.row / 2),
            TermKind::Elements | TermKind::Bf16Pairs => None,
        };
        AccessA { rows: rows.and_then(|row| row.try_into().ok()), taps: false }
    }
    /// As a right factor.
    fn access_b(&self, terms: TermKind, k: usize) -> AccessB {
        let columns = match terms {
            TermKind::Elements if self.row != 1 => ColumnAccess::Packed,
            TermKind::Bf16Pairs if !self.holds_pairs(k) => ColumnAccess::Packed,
            TermKind::Elements if self.storage != Storage::Native || self.col < 0 => ColumnAccess::Converted,
            TermKind::Bf16Pairs if self.col < 0 => ColumnAccess::Converted,
            TermKind::Elements | TermKind::Bf16Pairs => ColumnAccess::InPlace,
        };
        let panels = self.storage == Storage::Native && self.col == 1 && self.row >= 0;
        AccessB { columns, panels, windows: None }
    }
}

/// A batch of products of matrices in memory: y[batch, m, n].
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContractProblem {
    pub(crate) batch: usize,
    pub(crate) m: usize,
    pub(crate) k: usize,
    pub(crate) n: usize,
    /// Bytes of a number as it is computed: 4 of f32, 8 of f64.
    pub(crate) bytes: usize,
    pub(crate) precision: Precision,
    pub(crate) lhs: MatrixLayout,
    pub(crate) rhs: MatrixLayout,
    /// Is there a packed copy of the right factor?
    pub(crate) is_prepacked: bool,
    /// Do the rows of each operand of the epilogue follow one another through the batch, or does
    /// one row stand for all?
    pub(crate) epilogue_follows: bool,
}

/// The way in which a product is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Orientation {
    AsGiven,
    /// One column: the result is in memory like one row, and a row of lanes is what tiles are
    /// good at.
    Transposed,
    /// A batch with one right factor is one product.
    Folded,
}

/// What is run for a problem.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) orientation: Orientation,
    /// The sizes b, m, k, n as they are seen then.
    pub(crate) sizes: [usize; 4],
    pub(crate) path: Path,
}

/// Paths for products of matrices in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Path {
    /// Many products of a few numbers each, without tiles.
    Tiny(TinyPlan),
    /// Many products of a row and a column, side by side in registers.
    Dot(DotPlan),
    /// Chunks of terms are products of their own, each with a plan of its own, whose results are
    /// added.
    SplitK(SplitKPlan),
    /// Elements, in blocks.
    Gemm(GemmPlan),
    /// Pairs of bf16, in blocks.
    Bf16 {
        /// Are the pairs of a factor read in place?
        a_in_place: bool,
        b_in_place: bool,
        gemm: GemmPlan,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct TinyPlan {
    /// Results of a task.
    pub(crate) piece: usize,
    /// Nanoseconds of a result.
    pub(crate) ns: f64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct DotPlan {
    /// Dots whose vectors are equally far apart, and those of a task.
    pub(crate) run: usize,
    pub(crate) task: usize,
    /// Nanoseconds of all.
    pub(crate) ns: f64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SplitKPlan {
    /// Whole chunks, and terms behind them.
    pub(crate) chunks: usize,
    pub(crate) rest: usize,
    /// Does all of the batch come chunk by chunk? Otherwise all chunks of a product come side by
    /// side.
    pub(crate) by_chunk: bool,
}

impl SplitKPlan {
    /// All whole chunks of the terms of problems, as products of their own.
    pub(crate) fn chunks_of(&self, p: &ContractProblem) -> ContractProblem {
        let factor = |x: &MatrixLayout, step: isize| {
            let chunk = step * CHUNK as isize;
            let (inner, batch) = match self.by_chunk {
                true => (p.batch, (chunk, x.batch.0)),
                false => (self.chunks, (x.batch.0, chunk)),
            };
            MatrixLayout { inner, batch, ..*x }
        };
        let (lhs, rhs) = (factor(&p.lhs, p.lhs.col), factor(&p.rhs, p.rhs.row));
        ContractProblem { batch: p.batch * self.chunks, k: CHUNK, lhs, rhs, is_prepacked: false, ..*p }
    }
    /// The terms behind them.
    pub(crate) fn rest_of(&self, p: &ContractProblem) -> ContractProblem {
        let factor = |x: &MatrixLayout, step: isize| {
            let offset = x.offset.wrapping_add_signed(step * (self.chunks * CHUNK) as isize);
            MatrixLayout { offset, ..*x }
        };
        let (lhs, rhs) = (factor(&p.lhs, p.lhs.col), factor(&p.rhs, p.rhs.row));
        ContractProblem { k: self.rest, lhs, rhs, is_prepacked: false, ..*p }
    }
}

impl Path {
    /// What led to it.
    pub(crate) fn why(&self) -> &'static str {
        match self {
            Path::Tiny(_) => "many products, each of fewer numbers than a tile",
            Path::Dot(_) => "many dots: one for each lane",
            Path::SplitK(_) => "few results of many terms: chunks are products of their own",
            Path::Gemm(gemm) | Path::Bf16 { gemm, .. } => gemm.why,
        }
    }
}

/// What is run for a problem.
pub(crate) fn plan(p: &ContractProblem, machine: &Machine) -> Plan {
    let (orientation, p) = orient(*p);
    let path = plan_fast(&p, machine).unwrap_or_else(|| plan_exact(&p, machine));
    Plan { orientation, sizes: [p.batch, p.m, p.k, p.n], path }
}

/// The problem as it is best seen.
fn orient(p: ContractProblem) -> (Orientation, ContractProblem) {
    if p.n == 1 && p.m > 1 {
        let (lhs, rhs) = (p.rhs.transposed(), p.lhs.transposed());
        return (
            Orientation::Transposed,
            ContractProblem { m: 1, n: p.m, lhs, rhs, is_prepacked: false, ..p },
        );
    }
    let one_factor = p.rhs.inner == 1 && p.rhs.batch.0 == 0;
    if p.batch > 1 && one_factor && p.lhs.rows_follow(p.m) && p.epilogue_follows {
        return (Orientation::Folded, ContractProblem { batch: 1, m: p.batch * p.m, ..p });
    }
    (Orientation::AsGiven, p)
}

/// Pairs of bf16, if both factors are of bf16, they may be rounded so, and the processor multiplies
/// them.
fn plan_fast(p: &ContractProblem, machine: &Machine) -> Option<Path> {
    let halves = p.lhs.storage == Storage::Bf16 && p.rhs.storage == Storage::Bf16;
    if p.precision == Precision::Exact || !halves || !machine.has_bf16() {
        return None;
    }
    let kind = TermKind::Bf16Pairs;
    let (a, b) = (p.lhs.access_a(kind, p.k), p.rhs.access_b(kind, p.k));
    let (a_in_place, b_in_place) = (p.lhs.transposed().holds_pairs(p.k), p.rhs.holds_pairs(p.k));
    let &ContractProblem { batch, m, n, bytes, .. } = p;
    let gemm = GemmProblem { batch, m, k: p.k.div_ceil(2), n, bytes, kind, a, b };
    Some(Path::Bf16 { a_in_place, b_in_place, gemm: plan_gemm(&gemm, None, machine) })
}

/// Elements, as the problem is. (The chunks of split-K are planned so, too.)
pub(crate) fn plan_exact(p: &ContractProblem, machine: &Machine) -> Path {
    if let Some(split) = plan_split_k(p, machine) {
        return Path::SplitK(split);
    }
    if let Some(dot) = plan_dot(p, machine) {
        return Path::Dot(dot);
    }
    if let Some(tiny) = plan_tiny(p, machine) {
        return Path::Tiny(tiny);
    }
    let kind = TermKind::Elements;
    let (a, b) = (p.lhs.access_a(kind, p.k), p.rhs.access_b(kind, p.k));
    let &ContractProblem { batch, m, k, n, bytes, .. } = p;
    let pack = p.is_prepacked.then_some(PackPlan::Prepacked);
    Path::Gemm(plan_gemm(&GemmProblem { batch, m, k, n, bytes, kind, a, b }, pack, machine))
}

/// Split-K, if there are so few results, and so many terms, that these are better shared.
fn plan_split_k(p: &ContractProblem, machine: &Machine) -> Option<SplitKPlan> {
    let (chunks, threads, is_dot) = (p.k / CHUNK, machine.threads, (p.m, p.n) == (1, 1));
    // Columns that were packed before are not packed for each chunk.
    if chunks < 2 || p.is_prepacked && !is_dot || p.lhs.inner != 1 || p.rhs.inner != 1 {
        return None;
    }
    // Of two vectors there is a single chain, each step of which waits for the one before.
    let is_worth_it = is_dot || {
        let tiles = p.m.div_ceil(machine.mr_of(p.bytes)) * p.n.div_ceil(machine.nr_of(p.bytes));
        let results = p.m.saturating_mul(p.n);
        p.batch < threads
            && results.saturating_mul(p.k) > PARALLEL_MIN_FMAS
            && (p.batch * tiles < threads
                || results <= SPLIT_K_MAX_RESULTS && chunks >= SPLIT_K_CHUNKS_PER_THREAD * threads)
    };
    // All chunks of a product side by side, or all products of a chunk. If all terms follow one
    // another, both are.
    let follow =
        |x: &MatrixLayout, step: isize| x.batch.0 == step * p.k as isize && p.k.is_multiple_of(CHUNK);
    let by_chunk = p.batch >= NO_SPLIT_MIN_BATCH && !(follow(&p.lhs, p.lhs.col) && follow(&p.rhs, p.rhs.row));
    is_worth_it.then_some(SplitKPlan { chunks, rest: p.k % CHUNK, by_chunk })
}

/// Products of vectors of at most a chunk, whose terms are neighbours, stored alike.
fn plan_dot(p: &ContractProblem, machine: &Machine) -> Option<DotPlan> {
    let fits = (p.m, p.n) == (1, 1) && p.batch > 1 && (1..=CHUNK).contains(&p.k) && machine.has_kernels;
    if !fits || p.lhs.col != 1 || p.rhs.row != 1 || p.lhs.storage != p.rhs.storage {
        return None;
    }
    // Neighbours of a run are equally far apart.
    let inner = |x: &MatrixLayout| if x.batch.0 == x.batch.1 * x.inner as isize { 1 } else { x.inner };
    let run = match inner(&p.lhs).max(inner(&p.rhs)) {
        1 => p.batch,
        inner => inner,
    };
    let task = p.batch.div_ceil(DOT_TASKS_PER_THREAD * machine.threads);
    let task = task.next_multiple_of(DOT_TASK_UNIT).min(DOT_TASK_MAX);
    let ns = (p.batch * p.k) as f64 * DOT_COST_FACTOR / FMAS_PER_NS;
    Some(DotPlan { run, task, ns })
}

/// Many products of a few numbers each, such as rotations: a tile for each costs more than what it
/// multiplies.
fn plan_tiny(p: &ContractProblem, machine: &Machine) -> Option<TinyPlan> {
    let native = p.lhs.storage == Storage::Native && p.rhs.storage == Storage::Native;
    let results = p.m.saturating_mul(p.n);
    let fits = p.batch >= TINY_MIN_BATCH
        && (1..=TINY_MAX_RESULTS).contains(&results)
        && (1..=TINY_MAX_TERMS).contains(&p.k);
    if !native || !fits || !machine.has_kernels || p.is_prepacked {
        return None;
    }
    let (piece, ns) = (TINY_PRODUCTS_PER_TASK * results, p.k as f64 * TINY_COST_FACTOR / FMAS_PER_NS);
    Some(TinyPlan { piece, ns })
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
