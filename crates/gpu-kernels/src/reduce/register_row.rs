//! Rows in registers: a row whose elements stay in the registers of its invocations, so that all
//! folds and the result read it once.
//!
//! Which elements are an invocation's follows from the order of folds (`block_reduce`). Registers
//! have no index, so the code is unrolled over them, and a kernel is for rows of a number of
//! rounds: every number up to eight, then a few in each power of two. Missing elements at the end
//! are loaded and computed as the last element, and left out of the folds.

use super::block_reduce::{BlockRow, RegisterBudget, RowTile, combine, lanes, start};
use elinvar_core::order;
use elinvar_kernel::builder::Val;
use elinvar_ops::backend::Fold;

/// Registers of 32 bits that may hold elements. A softmax of 4096 elements, which holds 32, takes
/// 48 registers in all, and one of 8000 takes 96 (ptxas for sm_90), so that ten and five workgroups
/// of 128 fit on a multiprocessor: enough is under way.
const MAX_ROW_REGISTERS: u32 = 64;

/// Blocks of a row that may be held in parallel, each with 128 invocations that hold its 4096
/// elements: a workgroup of 1024 has 64 registers for each, and half of them for elements. Two
/// rounds of four blocks would read the row for the mean and again for the squares.
const MAX_PARALLEL_BLOCKS: u32 = 8;
const MAX_ROW_REGISTERS_PARALLEL: u32 = 256;

/// Turns of a block.
const ROUNDS_PER_BLOCK: u32 = (order::BLOCK / order::LANES) as u32;

/// How many elements of a row an invocation holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegisterRow {
    /// Turns through the lanes.
    turns: u32,
    /// Turns, of the first ones, in which all lanes have an element, whatever the row.
    sure: u32,
    /// Blocks in parallel, each of so many turns.
    parallel_blocks: u32,
}

impl RegisterRow {
    /// Of rows of `n` elements; `None` if they are not to be held. An element takes so many
    /// registers.
    pub fn of(n: usize, tile: RowTile, registers: u32, budget: RegisterBudget) -> Option<RegisterRow> {
        if n > 2 * order::BLOCK {
            return RegisterRow::of_blocks(n, tile, registers, budget);
        }
        let turns = u32::try_from(n.div_ceil(order::LANES)).ok().filter(|&t| t > 0)?;
        // Of a kernel's turns, less than a fifth are for nothing in a row.
        let step = (turns.next_power_of_two() / 8).max(1);
        let turns = turns.checked_next_multiple_of(step)?;
        let fits =
            turns.checked_mul(lanes(n) / tile.lanes * registers).is_some_and(|all| all <= MAX_ROW_REGISTERS);
        let whole = n == turns as usize * order::LANES;
        let sure = if whole { turns } else { turns - step };
        (budget == RegisterBudget::Many && fits).then_some(RegisterRow { turns, sure, parallel_blocks: 1 })
    }
    /// Of longer rows, whose blocks are contiguous.
    fn of_blocks(n: usize, tile: RowTile, registers: u32, budget: RegisterBudget) -> Option<RegisterRow> {
        let alone = (tile.lanes, tile.rows) == (order::LANES as u32, 1);
        let parallel_blocks = u32::try_from(n.div_ceil(order::BLOCK).next_power_of_two()).ok()?;
        let fits = parallel_blocks <= MAX_PARALLEL_BLOCKS
            && registers
                .checked_mul(parallel_blocks * ROUNDS_PER_BLOCK)
                .is_some_and(|all| all <= MAX_ROW_REGISTERS_PARALLEL);
        let sure = if n == parallel_blocks as usize * order::BLOCK { ROUNDS_PER_BLOCK } else { 0 };
        (budget == RegisterBudget::Many && alone && fits).then_some(RegisterRow {
            turns: ROUNDS_PER_BLOCK,
            sure,
            parallel_blocks,
        })
    }
    /// Blocks in parallel.
    pub fn parallel_blocks(self) -> u32 {
        self.parallel_blocks
    }
    /// A word for kernels.
    pub fn words(self) -> String {
        format!("_registers{}of{}", self.sure, self.turns)
    }
}

/// The elements of an invocation, by number.
pub struct Elements<'k> {
    in_registers: RegisterRow,
    /// How far behind the invocation's first each is in the row, or would be.
    pub offset_of: Vec<i64>,
    /// Is it there? `None` if it surely is.
    pub there: Vec<Option<Val<'k>>>,
    /// The place where it is, or the row's last one.
    pub loaded: Vec<Val<'k>>,
}

impl<'k> Elements<'k> {
    /// Those of a row of `n` elements.
    pub fn new(row: &BlockRow<'k>, in_registers: RegisterRow, n: Val<'k>) -> Self {
        let own = row.own();
        let offset_of: Vec<i64> =
            (0..in_registers.turns * own).map(|e| row.offset_of(e / own, e % own)).collect();
        let first = row.first();
        let places: Vec<Val> = offset_of.iter().map(|&offset_of| first + offset_of).collect();
        let is_sure = |e: u32| e / own < in_registers.sure;
        let there: Vec<Option<Val>> =
            (0..).zip(&places).map(|(e, i)| (!is_sure(e)).then(|| i.lt(n))).collect();
        let loaded = (0..).zip(&places).map(|(e, &i)| if is_sure(e) { i } else { i.min(n - 1) }).collect();
        Elements { in_registers, offset_of, there, loaded }
    }

    /// The fold of the row's terms, of which these are the invocation's, for all invocations of the
    /// row. The whole workgroup comes here.
    pub fn fold(&self, row: &BlockRow<'k>, f: Fold, terms: &[Val<'k>]) -> Val<'k> {
        let (op, own) = (combine(f), row.own() as usize);
        let none = row.k.constant(start(f, terms[0].scalar()));
        let all: Vec<(&Val, &Option<Val>)> = terms.iter().zip(&self.there).collect();
        let block = |block: &[(&Val<'k>, &Option<Val<'k>>)]| {
            let mut sums = vec![none; own];
            for (e, &(&term, there)) in block.iter().enumerate() {
                let sum = &mut sums[e % own];
                let more = sum.binary(op, term);
                *sum = there.map_or(more, |there| there.select(more, *sum));
            }
            row.join(op, sums);
            row.close(op);
            row.result()
        };
        // There are two blocks at most, which are neighbours.
        debug_assert!(
            self.in_registers.turns <= 2 * ROUNDS_PER_BLOCK,
            "more than two blocks are joined in another order"
        );
        let blocks = all.chunks(ROUNDS_PER_BLOCK as usize * own).map(block);
        blocks.reduce(|left, right| left.binary(op, right)).expect("there is a turn")
    }
}
