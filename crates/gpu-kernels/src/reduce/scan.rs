//! Scan (prefix sum, product, maximum): `y[row, i]` = the row's elements 0..=i combined, in the
//! order of `elinvar_core::order::scan`.
//!
//! A workgroup takes a few rows, block by block. An invocation scans a group of 16 elements in
//! registers, by steps of 1, 2, 4, 8; the first invocation of a row chains the last elements of the
//! groups; then each group gets the chain of those before it on its left, and all get the end of
//! the blocks before, further to the left.
//!
//! Elements go through shared memory, so that loads and stores are coalesced, along a row or across
//! rows that are contiguous.
//!
//! A few long rows are scanned block by block in parallel; then the ends of the blocks are chained,
//! and each block gets the chain of those before it.

use super::block_reduce::elem;
use super::fold;
use super::plan::ReducePath;
use crate::formula::Compute;
use crate::launch::args::{self, LaunchArgs};
use crate::launch::sequence::{BufferSlot, BufferSpec, LaunchSequence};
use crate::launch::{Key, Work, grid, linear_group_id};
use crate::layout::indexing::{self, Axes, is_wide};
use elinvar_core::order::{SCAN_BLOCK, SCAN_GROUP};
use elinvar_core::{DType, Layout};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Access, Binary, Elem, Kernel, Place, Scalar};
use elinvar_ops::backend::Scan;

/// Invocations of a workgroup whose rows are one after the other, and of one whose rows are
/// contiguous: four of whole blocks, or of 64-bit numbers two, so that its elements fit 18 KiB.
const ROW_THREADS: u32 = 128;
const COLUMN_THREADS: u32 = 256;

/// How rows are given to the invocations of a workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ScanTile {
    /// Groups of a row's block, at most as many as the order has: a power of two. One of fewer is
    /// the only one.
    groups: u32,
    rows: u32,
    /// Are neighbours in a workgroup neighbours in a column? So it should be if rows are contiguous
    /// in memory.
    crossed: bool,
}

impl ScanTile {
    fn of(n: usize, crossed: bool, scalar: Scalar) -> ScanTile {
        let groups = n.clamp(1, SCAN_BLOCK).div_ceil(SCAN_GROUP).next_power_of_two() as u32;
        let invocations = if crossed { COLUMN_THREADS * 32 / scalar.bits() } else { ROW_THREADS };
        ScanTile { groups, rows: invocations / groups, crossed }
    }
    fn invocations(self) -> u32 {
        self.groups * self.rows
    }
    /// From row to row in shared memory. Groups are 17 apart, so that those of neighbours are in
    /// different banks; with rows side by side, four of them and eight groups.
    fn pitch(self) -> u32 {
        self.groups * (SCAN_GROUP as u32 + 1) + if self.crossed { 8 } else { 0 }
    }
}

/// The work of a scan along the last axis. Operand: x. Result: its prefixes.
pub fn steps(f: Scan, x: &Layout, dtype: DType, to: DType, path: ReducePath) -> LaunchSequence<'static> {
    let len = x.shape().numel();
    let mut all =
        LaunchSequence { results: vec![BufferSpec::of(to.into(), len)], ..LaunchSequence::default() };
    let n = x.shape().last().copied().unwrap_or(1);
    let (rows, blocks) = (len.checked_div(n).unwrap_or(0), n.div_ceil(SCAN_BLOCK));
    let scalar = scalar(dtype);
    if path == ReducePath::WholeRows {
        if let Some(work) = scan(f, x, dtype, to) {
            all.push(work, &[BufferSlot::Operand(0), BufferSlot::Result(0)]);
        }
        return all;
    }
    let Some(first) = launch(f, x, dtype, elem(scalar), true) else { return all };
    all.scratch = vec![BufferSpec::of(elem(scalar), len), BufferSpec::of(elem(scalar), rows * blocks)];
    let [scanned, before] = [0, 1].map(BufferSlot::Scratch);
    all.push(first, &[BufferSlot::Operand(0), scanned]);
    let wide = indexing::are_many(len);
    let sizes = [rows, n, blocks].map(|v| v as i64);
    let chain = move || chain(f, scalar, wide);
    let key = Key::of("scan_chain").with(&(f, scalar, wide));
    let number = indexing::scalar(wide);
    all.push(args::work(key, chain, grid(rows as u64), number, &sizes), &[scanned, before]);
    let to = Elem::from(to);
    let groups = grid(len.div_ceil(JOIN_THREADS as usize) as u64);
    let key = Key::of("scan_spread").with(&(f, scalar, to, wide));
    let spread = move || spread(f, scalar, to, wide);
    all.push(args::work(key, spread, groups, number, &sizes), &[scanned, before, BufferSlot::Result(0)]);
    all
}

/// Invocations of the kernels that join blocks.
const JOIN_THREADS: u32 = 256;

fn op(f: Scan) -> (&'static str, Binary) {
    match f {
        Scan::Sum => ("sum", Binary::Add),
        Scan::Prod => ("prod", Binary::Mul),
    }
}

/// The type in which elements are combined.
fn scalar(dtype: DType) -> Scalar {
    match Compute::from(dtype) {
        Compute::F32 => Scalar::F32,
        Compute::F64 => Scalar::F64,
        Compute::I64 | Compute::I32 | Compute::U8 | Compute::Bool => Scalar::I64,
    }
}

/// The kernel that chains what the blocks of a row end with: a workgroup brings them into shared
/// memory, and its first invocation does what has an order.
pub fn chain(f: Scan, scalar: Scalar, wide: bool) -> Kernel {
    let (word, op) = op(f);
    let name = format!("scan_chain_{word}_{scalar}{}", if wide { "_wide" } else { "" });
    let k = Builder::new(&name, [JOIN_THREADS, 1, 1]);
    let x = k.buffer("x", elem(scalar), Access::Read);
    let before = k.buffer("before", elem(scalar), Access::Write);
    let s = indexing::scalar(wide);
    let args = LaunchArgs::new(&k, s, 3);
    let [rows, n, blocks] = ["rows", "n", "blocks"].map(|n| args.get(n));
    let shared = k.shared("ends", elem(scalar), JOIN_THREADS);
    // The last row of a grid may have workgroups too many: they go along, and store nothing.
    let asked = linear_group_id(&k, s);
    let row = asked.min(rows - 1);
    let t = k.local_id(0);
    let zero = k.int(scalar, 0);
    let (first, step) = (n.like(0), n.like(i64::from(JOIN_THREADS)));
    k.for_(first, blocks, step, &[zero], |from, carried| {
        let b = from + t.to(s);
        let end = ((b + 1) * SCAN_BLOCK as i64).min(n) - 1;
        let load = || vec![k.load(x, row * n + end, 1)];
        let own = k.if_else(b.lt(blocks), load, || vec![zero])[0];
        k.store(shared, t, own);
        k.barrier();
        // In the place of its end, a block gets what stands before it.
        k.if_(t.eq(k.u32(0)), || {
            let some = SCAN_GROUP as u32;
            k.for_(k.u32(0), k.u32(JOIN_THREADS), k.u32(some), carried, |i, c| {
                let mut sum = c[0];
                let is_first = from.eq(first) & i.eq(k.u32(0));
                in_turn(&k, shared, i, some, &mut |e, own| {
                    let before = sum;
                    let next = sum.binary(op, own);
                    sum = if e == 0 { is_first.select(own, next) } else { next };
                    before
                });
                vec![sum]
            });
        });
        k.barrier();
        let mine = k.load(shared, t, 1);
        let there = b.lt(blocks) & asked.lt(rows);
        k.if_(there, || k.store(before, row * blocks + b, mine));
        // What the last block ended with is not in its place any more.
        let last = k.load(shared, k.u32(JOIN_THREADS - 1), 1);
        let end = ((from + i64::from(JOIN_THREADS)) * SCAN_BLOCK as i64).min(n) - 1;
        let next = last.binary(op, k.load(x, row * n + end, 1));
        // The next ends are written over these.
        k.barrier();
        vec![next]
    });
    k.finish()
}

/// Replaces some neighbours in shared memory, first to last: a power of two, at a multiple of as
/// many. All are loaded before the first is looked at; one after the other, each would wait for the
/// memory.
fn in_turn<'k>(
    k: &'k Builder,
    place: Place,
    first: Val<'k>,
    count: u32,
    with: &mut dyn FnMut(u32, Val<'k>) -> Val<'k>,
) {
    let width = (16 / k.elem(place).size()).min(count);
    let pieces: Vec<(u32, Val)> = (0..count)
        .step_by(width as usize)
        .map(|e| (e, k.load(place, first + i64::from(e), width as u8)))
        .collect();
    for (e, piece) in pieces {
        let new: Vec<Val> = (0..width).map(|i| with(e + i, piece.extract(i as u8))).collect();
        k.store(place, first + i64::from(e), k.join(&new));
    }
}

/// The kernel that gives every element what stands before its block.
pub fn spread(f: Scan, scalar: Scalar, to: Elem, wide: bool) -> Kernel {
    let (word, op) = op(f);
    let name = format!("scan_spread_{word}_{scalar}_{to}{}", if wide { "_wide" } else { "" });
    let k = Builder::new(&name, [JOIN_THREADS, 1, 1]);
    let x = k.buffer("x", elem(scalar), Access::Read);
    let before = k.buffer("before", elem(scalar), Access::Read);
    let y = k.buffer("y", to, Access::Write);
    let s = indexing::scalar(wide);
    let args = LaunchArgs::new(&k, s, 3);
    let [rows, n, blocks] = ["rows", "n", "blocks"].map(|n| args.get(n));
    let i = linear_group_id(&k, s) * i64::from(JOIN_THREADS) + k.local_id(0).to(s);
    k.if_(i.lt(rows * n), || {
        let (row, block) = (i / n, i % n / SCAN_BLOCK as i64);
        let v = k.load(x, i, 1);
        let joined = k.load(before, row * blocks + block, 1).binary(op, v);
        k.store(y, i, block.eq(block.like(0)).select(v, joined).to(to.scalar()));
    });
    k.finish()
}

/// The work of a scan along the last axis in one launch: the operand, then the result. `None` if
/// there are no elements.
pub fn scan(f: Scan, x: &Layout, dtype: DType, to: DType) -> Option<Work<'static>> {
    launch(f, x, dtype, to.into(), false)
}

fn launch(f: Scan, x: &Layout, dtype: DType, to: Elem, multi_block: bool) -> Option<Work<'static>> {
    if x.shape().numel() == 0 {
        return None;
    }
    let kept = x.rank().saturating_sub(1);
    let n = x.shape().get(kept).copied().unwrap_or(1);
    let stride = x.strides().get(kept).copied().unwrap_or(0);
    let rows: usize = x.shape()[..kept].iter().product();
    let wide = is_wide(x);
    let outer = indexing::join(&[x], 0, kept);
    let inner = indexing::join(&[x], kept, x.rank());
    let crossed = !multi_block && fold::crossed(&outer, &inner);
    let tile = ScanTile::of(n, crossed, scalar(dtype));
    let mut all = vec![rows as i64, n as i64, x.offset() as i64, stride as i64];
    all.extend(indexing::sizes(&outer.dims, wide));
    all.extend(outer.strides[0].iter().map(|&s| s as i64));
    let config = ScanConfig { f, dtype, to, tile, rank: outer.dims.len(), multi_block, wide };
    let key = Key::of("scan").with(&config);
    let build = move || build(&config);
    let groups = if multi_block { rows * n.div_ceil(SCAN_BLOCK) } else { rows }.div_ceil(tile.rows as usize);
    Some(args::work(key, build, grid(groups as u64), indexing::scalar(wide), &all))
}

/// What a kernel is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ScanConfig {
    f: Scan,
    dtype: DType,
    to: Elem,
    tile: ScanTile,
    /// Joined axes of the rows.
    rank: usize,
    /// Is it for blocks of rows that know nothing of each other?
    multi_block: bool,
    wide: bool,
}

impl ScanConfig {
    fn name(&self) -> String {
        let ScanConfig { f, dtype, to, tile: ScanTile { groups, rows, crossed }, rank, multi_block, wide } =
            *self;
        let flags = [(crossed, "_crossed"), (multi_block, "_multi_block"), (wide, "_wide")];
        let flags: String = flags.iter().filter(|f| f.0).map(|f| f.1).collect();
        format!("scan_{}_{dtype}_{to}_{groups}of{rows}_{rank}{flags}", op(f).0)
    }
}

/// The kernel of a form.
fn build(config: &ScanConfig) -> Kernel {
    let k = Builder::new(&config.name(), [config.tile.invocations(), 1, 1]);
    write(&k, config);
    k.finish()
}

fn write<'k>(k: &'k Builder, config: &ScanConfig) {
    let ScanConfig { f, dtype, to, tile, rank, multi_block, wide } = *config;
    let (_, op) = op(f);
    let scalar = scalar(dtype);
    let ScanTile { groups, rows: in_group, crossed } = tile;
    let x = k.buffer("x", dtype.into(), Access::Read);
    let y = k.buffer("y", to, Access::Write);
    let number = indexing::scalar(wide);
    let args = LaunchArgs::new(k, number, 4 + indexing::count(rank, wide) + rank);
    let [rows, n, offset, stride] = ["rows", "n", "offset", "stride"].map(|n| args.get(n));
    let axes = Axes::read(&args, "row", rank, wide);
    let strides = indexing::strides(&args, "row_stride", rank);
    let (pitch, each) = (i64::from(tile.pitch()), SCAN_GROUP as i64);
    let smem = k.shared("elements", elem(scalar), tile.pitch() * in_group);
    let last = k.shared("last", elem(scalar), tile.invocations());

    let size = SCAN_BLOCK as i64;
    let blocks = (n + (size - 1)) / size;
    let first_unit = linear_group_id(k, number) * i64::from(in_group);
    // A row of the workgroup, if there is one; and of a row whose blocks stand apart, where its
    // block begins.
    let unit = |of: Val<'k>| {
        let unit = first_unit + of.to(number);
        if multi_block { (unit / blocks, unit % blocks * size) } else { (unit, n.like(0)) }
    };
    let index = k.local_id(0);
    let [across, along] = [
        (index % i64::from(in_group), index / i64::from(in_group)),
        (index / i64::from(groups), index % i64::from(groups)),
    ];
    let (q, t) = if crossed { across } else { along };
    let (asked, begin) = unit(q);
    let from = indexing::position(offset, &axes.index(asked.min(rows - 1)), &strides);
    // Whose elements it stores: always neighbours in a row.
    let (stored_row, stored) = along;
    let (asked_to_store, stored_begin) = unit(stored_row);
    let leads = t.eq(k.u32(0));
    let zero = k.int(scalar, 0);
    // The place of an element in shared memory, from its place in a block.
    let padded = |row: Val<'k>, e: Val<'k>| row * pitch + e + e / each;
    // A block, which begins there for who loads and for who stores; and what those before it ended
    // with, if there are any.
    let scan = |block: Val<'k>, to_store: Val<'k>, carried: Option<[Val<'k>; 2]>| {
        let places: Vec<Val> = (0..each).map(|e| t + e * i64::from(groups)).collect();
        // No branch: all loads are under way at once. What is behind the end of the row is not
        // used.
        let load = |&e: &Val<'k>| {
            let i = block + e.to(number);
            let v = k.load(x, from + i.min(n - 1) * stride, 1).to(scalar);
            i.lt(n).select(v, zero)
        };
        let loaded: Vec<Val> = places.iter().map(load).collect();
        places.iter().zip(&loaded).for_each(|(&e, &v)| k.store(smem, padded(q, e), v));
        k.barrier();
        let own = q * pitch + t * (each + 1);
        let mut v: Vec<Val> = (0..each).map(|e| k.load(smem, own + e, 1)).collect();
        let mut d = 1;
        while d < SCAN_GROUP {
            for e in (d..SCAN_GROUP).rev() {
                v[e] = v[e - d].binary(op, v[e]);
            }
            d *= 2;
        }
        let ends = q * i64::from(groups);
        k.store(last, ends + t, v[SCAN_GROUP - 1]);
        k.barrier();
        // What stands behind the end of the row is chained, too, and not read.
        k.if_(leads, || {
            let mut sum: Option<Val> = None;
            for some in (0..groups).step_by(SCAN_GROUP) {
                in_turn(k, last, ends + i64::from(some), groups.min(SCAN_GROUP as u32), &mut |_, own| {
                    let next = sum.map_or(own, |sum| sum.binary(op, own));
                    sum = Some(next);
                    next
                });
            }
        });
        k.barrier();
        let before = k.load(last, ends + leads.select(t, t - 1), 1);
        let whole = k.load(last, ends + i64::from(groups - 1), 1);
        let joined = |v: Val<'k>| match carried {
            Some([later, carried]) => later.select(carried.binary(op, v), v),
            None => v,
        };
        for (e, v) in (0..).zip(&v) {
            k.store(smem, own + e, joined(leads.select(*v, before.binary(op, *v))));
        }
        k.barrier();
        for e in (0..each).map(|e| stored + e * i64::from(groups)) {
            let i = to_store + e.to(number);
            let there = i.lt(n) & asked_to_store.lt(rows);
            let v = k.load(smem, padded(stored_row, e), 1);
            k.if_(there, || k.store(y, asked_to_store * n + i, v.to(to.scalar())));
        }
        joined(whole)
    };
    if multi_block {
        scan(begin, stored_begin, None);
    } else {
        // All rows of a workgroup have as many blocks.
        k.for_(begin, n, n.like(size), &[zero], |block, carried| {
            let carried = scan(block, block, Some([begin.lt(block), carried[0]]));
            // The next block's elements are written over these: along rows, by who has read them.
            if crossed {
                k.barrier();
            }
            vec![carried]
        });
    }
}
