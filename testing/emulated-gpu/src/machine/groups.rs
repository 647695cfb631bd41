//! Warpgroup matrix products (`wgmma`), of blocks in shared memory ("PTX ISA", 9.7.16), and TMA
//! tile copies into them (9.7.9.27).
//!
//! A product reads its operands when it is waited for, which on a device is the latest moment; if
//! they have changed since it was issued, that is a fault. Until then its accumulators hold a NaN
//! pattern, so reading them early is visible.

use super::access::lanes;
use super::matrix::{number, tf32};
use super::shared::{SharedMemory, Touch};
use super::signal::Flight;
use super::tensor::{self, TensorMap};
use super::{Fault, FaultKind, Group, LANES, Warp, full};
use crate::inst::{Column, Factor, Inst, Left};
use crate::program::PARAM_WINDOW;
use std::collections::VecDeque;

/// Bytes of the terms of an instruction, and rows of a warp.
const TERMS: usize = 32;
const ROWS: usize = 16;
/// The pattern in registers whose accumulators are in flight.
const UNWRITTEN: u32 = 0x7fdb_dbdb;

/// An issued product.
#[derive(Clone, Debug)]
struct Product {
    /// The list of its registers.
    sums: u32,
    factor: Factor,
    /// Rows and columns: their location, and their contents when issued.
    rows: Rows,
    columns: Block,
    found: [Vec<f32>; 2],
    /// Is the accumulator added (scale-d = 1)?
    adds: bool,
}

/// The location of rows.
#[derive(Clone, Copy, Debug)]
enum Rows {
    Memory(Block),
    Registers([Column; 4]),
}

/// Lines of an operand, as a matrix descriptor locates them.
#[derive(Clone, Copy, Debug)]
struct Block {
    start: u32,
    /// Bytes from 64 rows (or columns) to the next (transposed operands); from eight lines to the
    /// next.
    beside: u32,
    below: u32,
    /// Is the operand transposed: are lines of rows (or columns), one for each term?
    turned: bool,
    /// The first row (or column), and their number.
    first: usize,
    count: usize,
}

/// The products of a warp.
#[derive(Clone, Debug, Default)]
pub struct Products {
    open: Vec<Product>,
    groups: VecDeque<Vec<Product>>,
    /// Accumulators in flight, by their register list.
    sums: Vec<(u32, Vec<Vec<u32>>)>,
    fenced: bool,
    /// Was there a fence since the last commit?
    fenced_group: bool,
    /// Number of products issued: the same for all four warps.
    pub begun: u64,
}

fn wrong<T>(what: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::new(FaultKind::Illegal, what))
}

impl Block {
    fn of(description: u64, turned: bool, first: usize, count: usize) -> Result<Block, Fault> {
        let bits = |from: u32, n: u32| (description >> from & ((1 << n) - 1)) as u32;
        let block = Block {
            start: bits(0, 14) * 16,
            beside: bits(16, 14) * 16,
            below: bits(32, 14) * 16,
            turned,
            first,
            count,
        };
        // Only the 128-byte swizzle is emulated.
        if bits(62, 2) != 1 || description & !0xc000_3fff_3fff_3fff != 0 {
            return wrong(format!("the description {description:#x} of a block"));
        }
        if block.start >> 7 & 7 != 0
            || (!turned && block.start % 128 > 96)
            || (turned && !block.start.is_multiple_of(128))
        {
            return wrong(format!("a block that begins at byte {} of shared memory", block.start));
        }
        Ok(block)
    }
    /// The address of an element of this many bytes: of a row (or column), of a term. Transposed
    /// lines are of two-byte elements.
    fn at(&self, place: usize, term: usize, size: u32) -> u32 {
        let (place, term) = (place as u32, term as u32);
        let logical = if self.turned {
            place / 64 * self.beside + term / 8 * self.below + term % 8 * 128 + place % 64 * 2
        } else {
            place / 8 * self.below + place % 8 * 128 + term * size
        };
        tensor::swizzled(self.start + logical)
    }
    /// All elements, those of a row (or column) contiguous.
    fn read(&self, factor: Factor, thread: u16, shared: &mut SharedMemory) -> Result<Vec<f32>, Fault> {
        let size = factor.bytes();
        let mut all = Vec::with_capacity(self.count * TERMS / size);
        for place in self.first..self.first + self.count {
            for term in 0..TERMS / size {
                let at = shared.touch(self.at(place, term, size as u32), size, thread, Touch::Read)?;
                all.push(number(factor, shared.get(at, size) as u32));
            }
        }
        Ok(all)
    }
}

impl<const L: usize> Warp<L> {
    /// The value that all lanes agree on.
    fn uniform(&self, column: Column, what: &str) -> Result<u64, Fault> {
        let all = &self.wide[column as usize];
        if all.iter().all(|v| *v == all[0]) {
            Ok(all[0])
        } else {
            wrong(format!("{what} differs between lanes"))
        }
    }

    /// A TMA or `wgmma` instruction.
    pub fn boxes(&mut self, inst: Inst, group: &mut Group<'_>) -> Result<(), Fault> {
        let thread = |warp: &Self, lane: usize| warp.first + lane as u16;
        match inst {
            Inst::SignalInit { at, offset, count } => {
                for lane in lanes(self.mask()) {
                    let [at, count] = [at, count].map(|c| self.narrow[c as usize][lane]);
                    group.shared.init_signal(at + offset, count, thread(self, lane))?;
                }
            }
            Inst::SignalFence => group.shared.fence_signals(),
            Inst::SignalExpect { at, offset, bytes } => {
                for lane in lanes(self.mask()) {
                    let [at, bytes] = [at, bytes].map(|c| self.narrow[c as usize][lane]);
                    group.shared.expect(at + offset, bytes, thread(self, lane))?;
                }
            }
            Inst::FetchBox { to, map, from, signal } => {
                for lane in lanes(self.mask()) {
                    let [to, signal] = [to, signal].map(|c| self.narrow[c as usize][lane]);
                    let from = from.map(|c| i64::from(self.narrow[c as usize][lane] as i32));
                    let flight = brought(self.wide[map as usize][lane], from, to, thread(self, lane), group)?;
                    group.shared.send(signal, flight)?;
                }
            }
            Inst::GroupFence => {
                self.together("a fence of products")?;
                self.products.fenced = true;
                self.products.fenced_group = true;
            }
            Inst::GroupMma { factor, sums, a, b, scaled } => {
                self.begin_product((factor, sums), a, b, scaled, group)?;
            }
            Inst::GroupCommit => {
                self.together("the end of a group of products")?;
                self.products.fenced_group = false;
                let open = std::mem::take(&mut self.products.open);
                self.products.groups.push_back(open);
            }
            Inst::GroupWait(open) => self.wait_products(open as usize, group)?,
            other => unreachable!("{other:?} has nothing to do with boxes"),
        }
        Ok(())
    }

    fn begin_product(
        &mut self,
        (factor, sums): (Factor, u32),
        left: Left,
        (b, b_turned): (Column, bool),
        scaled: Column,
        group: &mut Group<'_>,
    ) -> Result<(), Fault> {
        let adds = self.predicates[scaled as usize];
        if self.mask() != full(L) || (adds != 0 && adds != full(L)) {
            return wrong(
                "a product of four warps that a part of the lanes reaches, or that forgets a part of its sums",
            );
        }
        // Operand rows in registers were written by instructions, which a fence orders before the
        // products of a group.
        let held = matches!(left, Left::Registers(_));
        if !self.products.fenced || (held && !self.products.fenced_group) {
            return wrong("a product is begun without a fence behind what touched its registers");
        }
        let columns = &group.program.lists[sums as usize];
        let (warp, n) = (usize::from(self.first) / LANES % 4, 2 * columns.len());
        let rows = match left {
            Left::Registers(all) => Rows::Registers(all),
            Left::Memory(a, turned) => {
                let a = self.uniform(a, "a description of rows")?;
                Rows::Memory(Block::of(a, turned, ROWS * warp, ROWS)?)
            }
        };
        let columns_at = Block::of(self.uniform(b, "a description of columns")?, b_turned, 0, n)?;
        let found =
            [self.rows(rows, factor, group)?, columns_at.read(factor, self.first, &mut group.shared)?];
        let columns = &group.program.lists[sums as usize];
        if !self.products.sums.iter().any(|(s, _)| *s == sums) {
            let now = columns.iter().map(|&c| self.narrow[c as usize].to_vec()).collect();
            self.products.sums.push((sums, now));
        }
        columns.iter().for_each(|&c| self.narrow[c as usize] = [UNWRITTEN; L]);
        self.products.open.push(Product { sums, factor, rows, columns: columns_at, found, adds: adds != 0 });
        self.products.begun += 1;
        Ok(())
    }

    /// The elements of a warp's rows, each row contiguous.
    fn rows(&self, rows: Rows, factor: Factor, group: &mut Group<'_>) -> Result<Vec<f32>, Fault> {
        let columns = match rows {
            Rows::Memory(block) => return block.read(factor, self.first, &mut group.shared),
            Rows::Registers(columns) => columns,
        };
        let terms = TERMS / factor.bytes();
        let mut all = vec![0.0; ROWS * terms];
        for (i, &column) in columns.iter().enumerate() {
            for (lane, &both) in self.narrow[column as usize].iter().enumerate() {
                let at = (lane / 4 + 8 * (i % 2)) * terms + lane % 4 * 2 + 8 * (i / 2);
                (all[at], all[at + 1]) = (number(factor, both), number(factor, both >> 16));
            }
        }
        Ok(all)
    }

    fn wait_products(&mut self, open: usize, group: &mut Group<'_>) -> Result<(), Fault> {
        self.together("a wait for products")?;
        if !self.products.open.is_empty() {
            return wrong("products are waited for while some are in no group");
        }
        while self.products.groups.len() > open {
            for product in self.products.groups.pop_front().unwrap_or_default() {
                self.multiply(&product, group)?;
            }
        }
        // Accumulators of finished products go back to their registers.
        let going: Vec<u32> = self.products.groups.iter().flatten().map(|p| p.sums).collect();
        let (stay, done) =
            std::mem::take(&mut self.products.sums).into_iter().partition(|(list, _)| going.contains(list));
        self.products.sums = stay;
        for (list, sums) in done {
            for (&column, sums) in group.program.lists[list as usize].iter().zip(sums) {
                self.narrow[column as usize].copy_from_slice(&sums);
            }
            self.products.fenced = false;
        }
        Ok(())
    }

    /// sums\[16, n\] += a\[16, 16\] * b\[16, n\], or 8 terms of TF32. With g = lane / 4 and t = 2
    /// (lane % 4), a lane holds of each eight columns (row g, column t), (g, t + 1), (g + 8, t),
    /// (g + 8, t + 1). The order in which a device adds is unspecified; here products are added in
    /// the order of k, each sum rounded.
    fn multiply(&mut self, p: &Product, group: &mut Group<'_>) -> Result<(), Fault> {
        let (a, b) =
            (self.rows(p.rows, p.factor, group)?, p.columns.read(p.factor, self.first, &mut group.shared)?);
        let same = |x: &[f32], y: &[f32]| x.iter().zip(y).all(|(x, y)| x.to_bits() == y.to_bits());
        if !same(&a, &p.found[0]) || !same(&b, &p.found[1]) {
            return wrong("shared memory, or a register, was changed while a product was reading it");
        }
        let terms = TERMS / p.factor.bytes();
        let found = self.products.sums.iter_mut().find(|(list, _)| *list == p.sums);
        let (_, sums) = found.expect("they were put there when the product was begun");
        for (i, sums) in sums.iter_mut().enumerate() {
            for (lane, sum) in sums.iter_mut().enumerate() {
                let row = lane / 4 + i / 2 % 2 * 8;
                let column = i / 4 * 8 + lane % 4 * 2 + i % 2;
                let before = if p.adds { f32::from_bits(*sum) } else { 0.0 };
                let (x, w) = (&a[row * terms..][..terms], &b[column * terms..][..terms]);
                let all = x.iter().zip(w).fold(before, |sum, (x, w)| sum + x * w);
                *sum = if all.is_nan() { 0x7fff_ffff } else { all.to_bits() };
            }
        }
        Ok(())
    }

    /// Checks that no product is in flight where a warp ends.
    pub fn no_products(&self) -> Result<(), Fault> {
        if self.products.open.is_empty() && self.products.groups.is_empty() {
            return Ok(());
        }
        wrong("a warp ends while its products are under way")
    }
}

/// A TMA tile, read now: the tensor must not change before the copy arrives.
fn brought(map: u64, from: [i64; 3], to: u32, thread: u16, group: &Group<'_>) -> Result<Flight, Fault> {
    let place = map.checked_sub(PARAM_WINDOW).and_then(|at| usize::try_from(at).ok());
    let bytes =
        place.filter(|at| at.is_multiple_of(64)).and_then(|at| group.params.get(at..at + tensor::BYTES));
    let Some(bytes) = bytes else { return wrong(format!("a tensor map at {map:#x}")) };
    let map = TensorMap::of(bytes)?;
    if !to.is_multiple_of(128) {
        let what = format!("a box goes to byte {to} of shared memory, no multiple of 128");
        return Err(Fault::new(FaultKind::Misaligned, what));
    }
    let mut pieces = Vec::with_capacity(map.box_bytes() / 16);
    let [i, line, plane] = from;
    let lines = (0..map.shape[2]).flat_map(|p| (0..map.shape[1]).map(move |l| (p, l)));
    for (number, (p, l)) in lines.enumerate() {
        let part = map.line([i, line + l as i64, plane + p as i64]);
        let mut all = [0; tensor::LINE];
        if part.there > 0 {
            let Some((raw, at)) = group.memory.range(part.address, part.there as u64) else {
                return wrong(format!(
                    "a box reads {} bytes at {:#x}, beyond what is allocated",
                    part.there, part.address
                ));
            };
            raw.read(at, &mut all[part.before..part.before + part.there]);
        }
        for four in all.chunks_exact_mut(4).filter(|_| map.rounds) {
            let bits = u32::from_le_bytes(std::array::from_fn(|b| four[b]));
            four.copy_from_slice(&tf32(bits).to_le_bytes());
        }
        for (piece, bytes) in all.chunks_exact(16).enumerate() {
            let at = tensor::swizzled(to + (number * tensor::LINE + piece * 16) as u32);
            pieces.push((at, std::array::from_fn(|b| bytes[b])));
        }
    }
    Ok(Flight { pieces, thread })
}
