//! Interpreter: TMA tile loads, mbarriers and wgmma.
//!
//! A tile arrives when its mbarrier is waited for and not before, which on a device is the latest
//! moment. A product is computed when it begins, but until it has been waited for its operands may
//! not change and its accumulators may not be read; so it does not matter when a device computes
//! it.

use super::{Checked, Fault, Machine, Problem};
use crate::arith;
use crate::interp::race::{AccessKind, Accessor};
use crate::ir::{
    Elem, FragmentLayout, Op, Place, Scalar, TILE_ROW_ALIGN, TmaTile, Value, WARPGROUP, WGMMA_BLOCK,
    tensor_map_error, tile_row_elements,
};
use std::collections::VecDeque;

/// Elements of shared memory: which memory, from where, how many.
type SharedRange = (u32, usize, usize);

/// What is on its way under a mbarrier: where to, and the elements.
type PendingTma = Vec<(u32, usize, Vec<u64>)>;

/// What a product reads: pieces of shared memory, by those who work together, and values.
#[derive(Default)]
struct WgmmaReads {
    pieces: Vec<(usize, SharedRange)>,
    values: Vec<Value>,
}

/// Mbarriers, and products under way.
#[derive(Default)]
pub struct TmaWgmmaState {
    /// In which phase each mbarrier is, and what is on its way in it.
    mbarriers: Vec<(u64, Option<PendingTma>)>,
    /// What each product that is under way reads.
    products: VecDeque<WgmmaReads>,
    /// How many were begun.
    begun: u64,
    /// The product that made a value, counted from 1; 0: none.
    makers: Vec<u64>,
}

impl TmaWgmmaState {
    /// A workgroup begins.
    pub fn new(mbarriers: usize, values: usize) -> TmaWgmmaState {
        let mbarriers = (0..mbarriers).map(|_| (0, None)).collect();
        TmaWgmmaState { mbarriers, makers: vec![0; values], ..TmaWgmmaState::default() }
    }
    /// That no product under way reads a value, which is made anew.
    pub fn is_free(&self, v: Value) -> Result<(), Problem> {
        if !self.products.iter().any(|p| p.values.contains(&v)) {
            return Ok(());
        }
        Err(Problem { lane: 0, what: format!("%{} is made anew while a product reads it", v.0) })
    }
    /// Values are others from now on, all at once.
    pub fn hand_over(&mut self, from: &[Value], to: &[Value]) {
        let makers: Vec<u64> = from.iter().map(|v| self.makers[v.0 as usize]).collect();
        for (&to, maker) in to.iter().zip(makers) {
            self.makers[to.0 as usize] = maker;
        }
    }
}

impl Machine<'_> {
    /// An instruction that has to do with TMA tiles; the whole workgroup is here.
    pub(super) fn tma(&mut self, op: &Op, results: &[Value]) -> Checked {
        match op {
            Op::TmaLoad { mbarrier, tiles } => self.tma_load(*mbarrier, tiles),
            Op::MbarrierWait(mbarrier, phase) => self.mbarrier_wait(*mbarrier, *phase),
            Op::WgmmaSs { a, b, sums } => self.wgmma_ss([*a, *b], sums, results),
            Op::WgmmaRs { a, b, sums } => self.wgmma_rs(*a, *b, sums, results),
            Op::WgmmaWait(open) => self.wgmma_wait(usize::from(*open)),
            _ => unreachable!("it has nothing to do with TMA tiles"),
        }
    }

    fn mbarrier(&self, v: Value) -> Result<usize, Problem> {
        let (at, count) = (self.index(v, 0), self.tma.mbarriers.len());
        if at < 0 || at >= count as i128 {
            return Err(Problem { lane: 0, what: format!("mbarrier {at} of {count}") });
        }
        Ok(at as usize)
    }

    fn tma_load(&mut self, mbarrier: Value, tiles: &[TmaTile]) -> Checked {
        let number = self.mbarrier(mbarrier)?;
        let problem = |what: String| Err(Problem { lane: 0, what });
        if self.tma.mbarriers[number].1.is_some() {
            return problem(format!("something is under way for mbarrier {number} already"));
        }
        let mut flight = PendingTma::new();
        for f in tiles {
            let Place::Shared(to) = f.to else { unreachable!("the verifier has seen it") };
            let view = &self.kernel.views[f.view as usize];
            let line = tile_row_elements(self.memory(f.to).elem);
            let [lines, elements] = [view.lines, view.lines * line].map(|n| n as usize);
            let at = self.reach(f.to, f.at, 0, elements, (TILE_ROW_ALIGN * line) as usize)?;
            let cells = self.brought(f, lines)?;
            let who = self.who(0);
            for i in at..at + elements {
                if let Some(what) = self.shared_traces[to as usize][i].begin(who) {
                    return problem(format!("element {i}: {what}"));
                }
            }
            flight.push((to, at, cells));
        }
        self.tma.mbarriers[number].1 = Some(flight);
        Ok(())
    }

    /// The elements of a TMA tile.
    fn brought(&self, f: &TmaTile, lines: usize) -> Result<Vec<u64>, Problem> {
        let view = &self.kernel.views[f.view as usize];
        let problem = |what: String| Problem { lane: 0, what };
        let number = |i: u32| {
            let c = self.launch.params[i as usize];
            if c.scalar == Scalar::I32 { i64::from(c.bits as u32 as i32) } else { c.bits as i64 }
        };
        let numbers = view.param_ids().map(number);
        let memory = &self.buffers[view.buffer as usize];
        let (elem, memory) = (memory.elem, &memory.cells);
        if let Some(what) = tensor_map_error(elem, numbers) {
            return Err(problem(format!("view {}: {what}: {numbers:?}", view.name)));
        }
        let [offset, inner, rows, planes, line_step, plane_step] = numbers;
        let [first, line, plane] = f.from.map(|v| self.index(v, 0) as i64);
        let line_elements = tile_row_elements(elem);
        let round = |cell: u64| if elem == Elem::F32 { arith::tf32(cell) } else { cell };
        let mut cells = Vec::with_capacity(lines * line_elements as usize);
        for l in line..line + lines as i64 {
            for i in first..first + i64::from(line_elements) {
                let there = (0..inner).contains(&i) && (0..rows).contains(&l) && (0..planes).contains(&plane);
                if !there {
                    cells.push(0);
                    continue;
                }
                let at = offset + i + l * line_step + plane * plane_step;
                let cell = usize::try_from(at).ok().and_then(|at| memory.get(at));
                let beyond = || problem(format!("view {}: index {at} of {}", view.name, memory.len()));
                cells.push(round(*cell.ok_or_else(beyond)?));
            }
        }
        Ok(cells)
    }

    fn mbarrier_wait(&mut self, mbarrier: Value, phase: Value) -> Checked {
        let (number, phase) = (self.mbarrier(mbarrier)?, self.index(phase, 0));
        let problem = |what: String| Err(Problem { lane: 0, what });
        if !(0..2).contains(&phase) {
            return problem(format!("phase {phase}; there are 0 and 1"));
        }
        let (now, flight) = &mut self.tma.mbarriers[number];
        if i128::from(*now % 2) != phase {
            return Ok(());
        }
        let Some(flight) = flight.take() else {
            return problem(format!("waits for ever: nothing is under way for mbarrier {number}"));
        };
        *now += 1;
        // Everybody has waited, so everybody may look at once: as if stored before any barrier.
        let who = Accessor { epoch: u32::MAX, ..self.who(0) };
        for (to, at, cells) in flight {
            for (i, cell) in (at..).zip(cells) {
                self.shared_traces[to as usize][i].arrive(who);
                self.shared[to as usize].cells[i] = cell;
            }
        }
        Ok(())
    }

    /// Where a block begins for those who work together, of which `first` is the first.
    fn block(&self, place: Place, at: Value, first: usize, blocks: usize) -> Result<SharedRange, Problem> {
        let Place::Shared(i) = place else { unreachable!("the verifier has seen it") };
        let block = (WGMMA_BLOCK * tile_row_elements(self.memory(place).elem)) as usize;
        let len = blocks * block;
        let begin = self.reach(place, at, first, len, block)?;
        let others = first..first + WARPGROUP as usize;
        if let Some(lane) = others.into_iter().find(|&l| self.index(at, l) != begin as i128) {
            return Err(Problem { lane, what: "a block begins elsewhere for others that work on it".into() });
        }
        Ok((i, begin, len))
    }

    /// Notes that several read a piece.
    fn read_together(&mut self, (memory, at, len): SharedRange, first: usize) -> Checked {
        for i in at..at + len {
            for lane in [first, first + WARPGROUP as usize - 1] {
                self.touch(Place::Shared(memory), i, lane, AccessKind::Load)?;
            }
        }
        Ok(())
    }

    fn wgmma_ss(
        &mut self,
        blocks: [(FragmentLayout, Place, Value); 2],
        sums: &[Value],
        results: &[Value],
    ) -> Checked {
        let [(a_lies, a, a_at), (b_lies, b, b_at)] = blocks;
        let (fma, side) = (arith::fma(Scalar::F32, true).expect("floats"), WGMMA_BLOCK as usize);
        let elem = self.memory(a).elem;
        // Where lines are of rows or columns, there are as many terms as of those in a line.
        let (decode, line) = (arith::decode(elem), tile_row_elements(elem) as usize);
        let mut new: Vec<Vec<u64>> = sums.iter().map(|&v| self.slot(v).to_vec()).collect();
        let mut reads = Vec::new();
        for (group, first) in (0..self.n).step_by(WARPGROUP as usize).enumerate() {
            let rows = self.block(a, a_at, first, 1)?;
            let columns = self.block(b, b_at, first, sums.len() * 16 / side)?;
            for piece in [rows, columns] {
                self.read_together(piece, first)?;
                reads.push((first, piece));
            }
            let number =
                |(memory, at, _): SharedRange, i: usize| decode(self.shared[memory as usize].cells[at + i]);
            for (f, new) in new.iter_mut().enumerate() {
                for (row, column) in (0..side).flat_map(|i| (0..16).map(move |j| (i, j))) {
                    let j = 16 * f + column;
                    let sum = &mut new[(group * side + row) * 16 + column];
                    *sum = (0..line).fold(*sum, |sum, t| {
                        let a =
                            if a_lies == FragmentLayout::RowMajor { row * line + t } else { t * line + row };
                        let (block, j) = (j / side * side * line, j % side);
                        let b = block
                            + if b_lies == FragmentLayout::ColumnMajor { j * line + t } else { t * line + j };
                        fma(number(rows, a), number(columns, b), sum)
                    });
                }
            }
        }
        self.begun(WgmmaReads { pieces: reads, values: Vec::new() }, new, results);
        Ok(())
    }

    fn wgmma_rs(
        &mut self,
        a: [Value; 4],
        (b_lies, b, b_at): (FragmentLayout, Place, Value),
        sums: &[Value],
        results: &[Value],
    ) -> Checked {
        let (fma, side) = (arith::fma(Scalar::F32, true).expect("floats"), WGMMA_BLOCK as usize);
        let elem = self.memory(b).elem;
        let (decode, line) = (arith::decode(elem), tile_row_elements(elem) as usize);
        let mut new: Vec<Vec<u64>> = sums.iter().map(|&v| self.slot(v).to_vec()).collect();
        let mut pieces = Vec::new();
        for (group, first) in (0..self.n).step_by(WARPGROUP as usize).enumerate() {
            let columns = self.block(b, b_at, first, sums.len() * 16 / side)?;
            self.read_together(columns, first)?;
            pieces.push((first, columns));
            let (memory, at, _) = columns;
            let cells = &self.shared[memory as usize].cells;
            // Rows and terms of a fragment, subgroup after subgroup.
            let rows = a.map(|v| self.slot(v));
            for (f, new) in new.iter_mut().enumerate() {
                for (row, column) in (0..side).flat_map(|i| (0..16).map(move |j| (i, j))) {
                    let (row, j) = (group * side + row, 16 * f + column);
                    let sum = &mut new[row * 16 + column];
                    *sum = (0..line).fold(*sum, |sum, t| {
                        let (block, j) = (j / side * side * line, j % side);
                        let b = block
                            + if b_lies == FragmentLayout::ColumnMajor { j * line + t } else { t * line + j };
                        fma(rows[t / 16][row * 16 + t % 16], decode(cells[at + b]), sum)
                    });
                }
            }
        }
        self.begun(WgmmaReads { pieces, values: a.to_vec() }, new, results);
        Ok(())
    }

    /// A product was begun, and its sums will be these.
    fn begun(&mut self, reads: WgmmaReads, new: Vec<Vec<u64>>, results: &[Value]) {
        for &(_, (memory, at, len)) in &reads.pieces {
            self.shared_traces[memory as usize][at..at + len].iter_mut().for_each(|t| t.hold());
        }
        self.tma.products.push_back(reads);
        self.tma.begun += 1;
        for (&r, new) in results.iter().zip(new) {
            self.put(r, new);
            self.tma.makers[r.0 as usize] = self.tma.begun;
        }
    }

    fn wgmma_wait(&mut self, open: usize) -> Checked {
        while self.tma.products.len() > open {
            for (first, piece) in self.tma.products.pop_front().unwrap_or_default().pieces {
                let (memory, at, len) = piece;
                self.shared_traces[memory as usize][at..at + len].iter_mut().for_each(|t| t.release());
                self.read_together(piece, first)?;
            }
        }
        Ok(())
    }

    /// That no product of which this is a sum is under way.
    pub(super) fn is_done(&self, v: Value) -> Checked {
        let done = self.tma.begun - self.tma.products.len() as u64;
        if self.tma.makers[v.0 as usize] <= done {
            return Ok(());
        }
        Err(Problem { lane: 0, what: format!("%{} are sums of a product that was not waited for", v.0) })
    }

    /// That nothing is under way where a workgroup ends.
    pub(super) fn no_tma_pending(&self) -> Result<(), Fault> {
        let tma = self.tma.mbarriers.iter().any(|(_, flight)| flight.is_some());
        if !tma && self.tma.products.is_empty() {
            return Ok(());
        }
        let what = if tma { "TMA tiles" } else { "products" };
        Err(Fault(format!("{}: the kernel ends while {what} are under way", self.kernel.name)))
    }
}
