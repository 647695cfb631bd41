//! Which path attention takes, and its gradient: pure functions of the problem and the processor,
//! and the home of their thresholds.
//!
//! The walk over blocks of 64 keys is fixed by the definition. What is decided is what is
//! multiplied, whether keys and values are made ready before or while they pass, which rows are
//! copied, and what a task is. No plan changes a bit of an exact result.
//!
//! Not decided here: on how many threads tasks run in the end (`runtime/parallel.rs`, which is told
//! how long they take).
//!
//! How it can be wrong: rows that are read in place but are not contiguous, or a slow path.
//! `tests/plans/attention.txt` lists problems and their paths.

use super::rows::{AttentionSizes, TILE};
use super::tile_kernel::COLUMN_MULTIPLE;
use crate::gemm::Units;
use crate::machine::Machine;
use elinvar_core::Precision;
use std::fmt;

/// Rows so many bytes apart, or a multiple, share so few sets of a first-level cache that a block
/// of them pushes itself out.
const SET_CONFLICT_STRIDE: usize = 1024;
/// Multiplications of a tile with a block that one thread does in a nanosecond, about.
const FMAS_PER_NS: f64 = 100.0;

/// Attention, or its gradient.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttentionProblem {
    pub(crate) sizes: AttentionSizes,
    /// Bytes of a number as it is computed: 4 of f32, 8 of f64.
    pub(crate) bytes: usize,
    pub(crate) precision: Precision,
    pub(crate) causal: bool,
    /// Are all operands of products of bf16?
    pub(crate) halves: bool,
    /// Distances of the rows of heads that are read in place.
    pub(crate) q_rows: Option<usize>,
    pub(crate) k_rows: Option<usize>,
    pub(crate) v_rows: Option<usize>,
    /// Of the gradient of the output, if it is asked for.
    pub(crate) g_rows: Option<usize>,
}

impl AttentionProblem {
    /// The sizes, as b x h/j x l/s x d/v, and the mask, for people.
    pub(crate) fn shape(&self) -> String {
        let AttentionSizes { b, h, j, l, s, d, v } = self.sizes;
        format!("{b}x{h}/{j}x{l}/{s}x{d}/{v}{}", if self.causal { " causal" } else { "" })
    }
}

/// What is run forwards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForwardPlan {
    pub(crate) units: Units,
    pub(crate) keys_and_values: KeysAndValues,
    /// Heads whose queries are a tile together.
    pub(crate) heads_per_tile: usize,
    /// Tiles of queries, each a task, and nanoseconds of all.
    pub(crate) tiles: usize,
    pub(crate) ns: f64,
}

/// Where blocks of keys and values come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeysAndValues {
    /// They are made ready when they are visited, once.
    Streamed,
    /// They were made ready before, as several tiles of queries visit each. Are rows of values
    /// copied?
    Kept { copies_values: bool },
}

/// What is run for the gradient.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackwardPlan {
    pub(crate) units: Units,
    /// Which rows are copied: of queries, of the gradient of the output, of keys.
    pub(crate) copies_q: bool,
    pub(crate) copies_g: bool,
    pub(crate) copies_k: bool,
    pub(crate) tasks: BackwardTasks,
    /// How many tasks, and nanoseconds of each.
    pub(crate) count: usize,
    pub(crate) ns: f64,
    /// Are the sums of g * y folded in registers? Otherwise row by row.
    pub(crate) delta_in_registers: bool,
}

/// What a task of the gradient is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BackwardTasks {
    /// All queries and keys of a key head: both sides gather their sums on one walk.
    KeyHeads,
    /// Tiles of queries, and blocks of keys: scores are computed twice, but there are enough tasks.
    Tiles,
}

/// The plan of attention.
pub(crate) fn forward(p: &AttentionProblem, machine: &Machine) -> ForwardPlan {
    let (units, z) = (units(p, machine), &p.sizes);
    let is_streamed = units == Units::Fma && is_one_tile(p);
    let (keys_and_values, heads_per_tile) = if is_streamed {
        (KeysAndValues::Streamed, z.group())
    } else {
        (KeysAndValues::Kept { copies_values: copies(z.v, p.v_rows, p.bytes) }, 1)
    };
    let tiles = z.b * z.h / heads_per_tile * z.l.div_ceil(TILE);
    let ns = tile_ns(z) * (z.s.div_ceil(TILE) * tiles) as f64;
    ForwardPlan { units, keys_and_values, heads_per_tile, tiles, ns }
}

/// The plan of its gradient.
pub(crate) fn backward(p: &AttentionProblem, machine: &Machine) -> BackwardPlan {
    let z = &p.sizes;
    let (heads, kv_heads) = (z.b * z.h, z.b * z.j);
    let (tasks, count) = if kv_heads >= machine.threads {
        (BackwardTasks::KeyHeads, kv_heads)
    } else {
        (BackwardTasks::Tiles, heads * z.l.div_ceil(TILE) + kv_heads * z.s.div_ceil(TILE))
    };
    let products = z.h / z.j.max(1) * z.l.div_ceil(TILE) * z.s.div_ceil(TILE);
    BackwardPlan {
        units: units(p, machine),
        copies_q: copies(z.d, p.q_rows, p.bytes),
        copies_g: copies(z.v, p.g_rows, p.bytes),
        copies_k: copies(z.d, p.k_rows, p.bytes),
        tasks,
        count,
        ns: tile_ns(z) * products as f64,
        delta_in_registers: z.v <= TILE,
    }
}

/// What is multiplied, and by what.
fn units(p: &AttentionProblem, machine: &Machine) -> Units {
    if p.precision == Precision::Exact || !p.halves {
        Units::Fma
    } else if machine.has_amx() {
        Units::Amx
    } else if machine.has_bf16() {
        Units::Bf16Pairs
    } else {
        Units::Fma
    }
}

/// Does one tile visit each block, of values that are whole registers? Queries of several heads
/// have no diagonal in common.
fn is_one_tile(p: &AttentionProblem) -> bool {
    let z = &p.sizes;
    let one = z.l * z.group() <= TILE && (z.group() == 1 || !p.causal);
    one && z.v.is_multiple_of(COLUMN_MULTIPLE)
}

/// Are rows of `n` numbers copied, which products of tiles read again and again? They are read
/// where they are if they are whole registers, unless they would share sets of a first-level cache.
fn copies(n: usize, rows: Option<usize>, bytes: usize) -> bool {
    let in_place =
        |row_stride: usize| row_stride == n || !(row_stride * bytes).is_multiple_of(SET_CONFLICT_STRIDE);
    !n.is_multiple_of(COLUMN_MULTIPLE) || !rows.is_some_and(in_place)
}

/// Nanoseconds for a product of a tile with a block.
fn tile_ns(z: &AttentionSizes) -> f64 {
    (TILE * TILE * (z.d + z.v)) as f64 / FMAS_PER_NS
}

impl ForwardPlan {
    /// What led to it.
    pub(crate) fn why(&self) -> &'static str {
        match self.keys_and_values {
            KeysAndValues::Streamed => "one tile of queries visits each block of keys",
            KeysAndValues::Kept { .. } => "keys and values are made ready for all tiles of queries",
        }
    }
}

impl BackwardPlan {
    /// What led to it.
    pub(crate) fn why(&self) -> &'static str {
        match self.tasks {
            BackwardTasks::KeyHeads => "key heads are enough for all threads",
            BackwardTasks::Tiles => "there are fewer key heads than threads",
        }
    }
}

impl fmt::Display for ForwardPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ForwardPlan { units, keys_and_values, heads_per_tile, tiles, ns } = self;
        let source = match keys_and_values {
            KeysAndValues::Streamed => "streamed".to_string(),
            KeysAndValues::Kept { copies_values } => format!("{} kept", there_or_copied(*copies_values)),
        };
        write!(f, "{units} {source} heads={heads_per_tile} tiles={tiles} ns={ns:.2}")
    }
}

impl fmt::Display for BackwardPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BackwardPlan { units, count, ns, .. } = self;
        let [q, g, k] = [self.copies_q, self.copies_g, self.copies_k].map(there_or_copied);
        let tasks = match self.tasks {
            BackwardTasks::KeyHeads => "key-heads",
            BackwardTasks::Tiles => "tiles",
        };
        let delta = if self.delta_in_registers { "registers" } else { "rows" };
        write!(f, "{units} {q} {g} {k} {tasks} items={count} ns={ns:.2} delta={delta}")
    }
}

fn there_or_copied(copied: bool) -> &'static str {
    if copied { "copied" } else { "there" }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::plan_table;

    #[test]
    fn attention_takes_the_paths_of_the_table() {
        plan_table::compare(include_str!("../../tests/plans/attention.txt"), |fields, machine| {
            let &[_, dtype, precision, sizes, causal, rows, direction] = fields else { panic!("{fields:?}") };
            let &[b, h, j, l, s, d, v] = &plan_table::numbers(sizes)[..] else {
                panic!("seven sizes: {sizes}")
            };
            let sizes = AttentionSizes { b, h, j, l, s, d, v };
            if sizes.empty() {
                return "reference".to_string();
            }
            let is_native = dtype == "f32" || dtype == "f64";
            let rows: Vec<Option<usize>> =
                rows.split(',').map(|stride| stride.parse().ok().filter(|_| is_native)).collect();
            let p = AttentionProblem {
                sizes,
                bytes: if dtype == "f64" { 8 } else { 4 },
                precision: if precision == "fast" { Precision::Fast } else { Precision::Exact },
                causal: causal == "causal",
                halves: dtype == "bf16",
                q_rows: rows[0],
                k_rows: rows[1],
                v_rows: rows[2],
                g_rows: rows[3],
            };
            match direction {
                "forward" => forward(&p, machine).to_string(),
                _ => backward(&p, machine).to_string(),
            }
        });
    }
}
