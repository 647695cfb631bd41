//! Pooling over the last one to three axes: maximum (with indices) and average. The gradients are
//! in `backward.rs`.
//!
//! Windows are lookup tables, an entry for each place along an axis, so windows of any kind are one
//! kernel. Taps outside of the tensor are left out, and those inside are contiguous in the table's
//! order; so an entry says where the first of them is and how many there are.
//!
//! * A maximum walks over its window in row-major order, one result per invocation, as the
//!   definition does.
//! * An average is a fold of the window's elements in the canonical order (`reduce::block_reduce`),
//!   in which windows at the edge have fewer terms: missing ones add +0 at the end, which changes
//!   no bit. Up to 16 elements are one invocation's.
//!
//! Small windows are unrolled, several windows per invocation, so that all of their loads are in
//! flight at once. Where no window is at an edge, there are no bounds checks.

pub mod backward;

use crate::formula::Compute;
use crate::launch::args::{self, LaunchArgs};
use crate::launch::{Key, Work, grid, linear_group_id};
use crate::layout::indexing::{self, Axes};
use crate::reduce::arg_fold::{beats, compared};
use crate::reduce::block_reduce::{BlockRow, RegisterBudget, RowLength, RowTile};
use elinvar_core::{DType, Layout};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Access, Elem, Kernel, Scalar};
use elinvar_ops::backend::{ArgFold, Fold, Pool, PoolKind, Windows};

/// Invocations of a workgroup of a maximum.
const BLOCK_THREADS: u32 = 128;
/// So many terms are folded by one invocation, and written out.
const MAX_UNROLLED_TERMS: usize = 16;
/// Elements that an invocation has under way, of several windows that are written out.
const MAX_LOADS_IN_FLIGHT: usize = 16;
/// Windows of an invocation then, at most.
const MAX_WINDOWS_PER_THREAD: usize = 4;

/// What a kernel is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolConfig {
    /// What comes out.
    pub of: PoolOutput,
    /// The dtype of the operand.
    pub dtype: DType,
    /// Spatial axes.
    pub rank: usize,
    /// Joined axes of the planes.
    pub lead: usize,
    /// Are there positions beyond 2^30?
    pub wide: bool,
}

/// What comes out of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolOutput {
    /// The largest elements, and their places; of windows that are written out, or not.
    Max(Option<UnrolledWindow>),
    /// The averages.
    Average {
        /// How results are given to invocations.
        tile: RowTile,
        /// How many elements windows have.
        length: RowLength,
        /// Are windows written out, all of whose taps are inside?
        written: Option<UnrolledWindow>,
    },
}

/// How many places of each axis are written out, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnrolledWindow {
    counts: [u8; 3],
    whole: bool,
}

impl UnrolledWindow {
    /// For counts between the least and the most of each axis; `None` if they are too many to be
    /// written out.
    pub(crate) fn of(counts: &[[usize; 2]]) -> Option<UnrolledWindow> {
        let all: usize = counts.iter().map(|c| c[1]).try_fold(1usize, |n, c| n.checked_mul(c))?;
        let one = |a: usize| counts.get(a).map_or(1, |c| c[1] as u8);
        let written = || UnrolledWindow {
            counts: [0, 1, 2].map(one),
            whole: counts.iter().all(|[least, most]| least == most),
        };
        (all <= MAX_UNROLLED_TERMS).then(written)
    }
    /// Is there always something in all of them?
    pub(crate) fn is_whole(self) -> bool {
        self.whole
    }
    /// How many there are.
    pub(crate) fn count(self) -> usize {
        self.counts.iter().map(|&c| usize::from(c)).product()
    }
    /// How many windows an invocation has under way.
    pub(crate) fn each(self) -> usize {
        (MAX_LOADS_IN_FLIGHT / self.count().max(1)).clamp(1, MAX_WINDOWS_PER_THREAD)
    }
    /// The places, in row-major order.
    pub(crate) fn places(self, rank: usize) -> Vec<Vec<i64>> {
        self.counts[..rank].iter().fold(vec![Vec::new()], |all, &count| {
            all.iter().flat_map(|at| (0..i64::from(count)).map(move |t| [&at[..], &[t]].concat())).collect()
        })
    }
    /// A word for kernels.
    pub(crate) fn words(self) -> String {
        let [a, b, c] = self.counts;
        format!("_{a}x{b}x{c}{}", if self.whole { "whole" } else { "" })
    }
}

/// The numbers that all pools begin with: `len`, then of the operand offset, axes of the planes and
/// of a plane.
fn args_of(x: &Layout, rank: usize, dims: &[usize], wide: bool) -> (Vec<i64>, usize) {
    let lead = x.rank() - rank;
    let planes = indexing::join(&[x], 0, lead);
    let count: usize = x.shape()[..lead].iter().product();
    let len = count * dims.iter().product::<usize>();
    let mut all = vec![len as i64, x.offset() as i64];
    all.extend(indexing::sizes_any(&[&[count], dims].concat(), wide));
    all.extend(indexing::sizes(&planes.dims, wide));
    all.extend(planes.strides[0].iter().map(|&s| s as i64));
    all.extend(x.strides()[lead..].iter().map(|&s| s as i64));
    (all, planes.dims.len())
}

/// The taps of a window that are inside: the place of the first, and how many.
pub(crate) fn inside(w: &Windows, i: usize, size: usize) -> (usize, usize) {
    let at = |t: usize| w.start[i] + (t * w.dilation) as isize;
    let within = |t: &usize| (0..size as isize).contains(&at(*t));
    match (0..w.len[i]).find(within) {
        Some(first) => (at(first) as usize, (first..w.len[i]).filter(within).count()),
        None => (0, 0),
    }
}

/// The work of a pool: x, the result, and for a maximum the winners' places (i64). `None` if there
/// is no result.
pub fn pool(p: &Pool, dtype: DType, x: &Layout) -> Option<Work<'static>> {
    let rank = p.axes.len();
    let spatial = &x.shape()[x.rank() - rank..];
    let outs: Vec<usize> = p.axes.iter().map(|a| a.start.len()).collect();
    let len: usize = x.shape()[..x.rank() - rank].iter().product::<usize>() * outs.iter().product::<usize>();
    if len == 0 {
        return None;
    }
    let wide = indexing::is_wide(x) || indexing::are_many(len);
    let (mut all, lead) = args_of(x, rank, &outs, wide);
    let (mut table, mut most, mut counts) = (Vec::new(), 1, Vec::new());
    for (w, &size) in p.axes.iter().zip(spatial) {
        all.extend([table.len() as i64, w.dilation as i64, size as i64]);
        let [mut shortest, mut longest] = [usize::MAX, 0];
        for i in 0..w.start.len() {
            let (first, count) = inside(w, i, size);
            table.extend([first, count, w.divisor[i]].map(|v| v as i64));
            longest = longest.max(count);
            shortest = shortest.min(count);
        }
        most *= longest;
        counts.push([shortest, longest]);
    }
    let written = UnrolledWindow::of(&counts);
    let (of, per) = match p.kind {
        PoolKind::Max => {
            (PoolOutput::Max(written), BLOCK_THREADS as usize * written.map_or(1, UnrolledWindow::each))
        }
        PoolKind::Avg => {
            // Most of what an element costs is to find out where it is.
            let length = RowLength::of(most, RegisterBudget::One);
            // A small window is one invocation's business.
            let own = if most <= MAX_UNROLLED_TERMS { 1 } else { length.lanes };
            let tile = RowTile { lanes: own, rows: BLOCK_THREADS / own, crossed: false };
            all.push(most as i64);
            // With fewer terms, the others' lanes hold what changes no bit; which they are has to
            // be the same for all.
            let written = written.filter(|w| w.whole && own == 1);
            let each = written.map_or(1, UnrolledWindow::each);
            (PoolOutput::Average { tile, length, written }, tile.rows as usize * each)
        }
    };
    let config = PoolConfig { of, dtype, rank, lead, wide };
    let (key, groups) = (Key::of("pool").with(&config), grid(len.div_ceil(per) as u64));
    Some(args::work_with_table(key, move || build(&config), groups, indexing::scalar(wide), &all, &table))
}

impl PoolConfig {
    fn name(&self) -> String {
        let of = match self.of {
            PoolOutput::Max(written) => {
                format!("max_pool{}", written.map_or(String::new(), UnrolledWindow::words))
            }
            PoolOutput::Average { tile, length, written } => {
                let written = written.map_or(String::new(), UnrolledWindow::words);
                format!("avg_pool_l{}of{}{written}", tile.lanes, length.words())
            }
        };
        let wide = if self.wide { "_wide" } else { "" };
        format!("{of}_{}_{}d_{}{wide}", self.dtype, self.rank, self.lead)
    }
    fn count(&self) -> usize {
        let more = match self.of {
            PoolOutput::Max(_) => 0,
            PoolOutput::Average { .. } => 1,
        };
        let axes = indexing::count(self.rank + 1, self.wide) + indexing::count(self.lead, self.wide);
        2 + axes + self.lead + self.rank + 3 * self.rank + more
    }
}

/// A spatial axis in a kernel.
struct Axis<'k> {
    /// Of the operand.
    stride: Val<'k>,
    /// Where its entries begin in the table.
    table: Val<'k>,
    dilation: Val<'k>,
    size: Val<'k>,
}

/// What all pools know.
struct PoolBody<'k> {
    k: &'k Builder,
    args: LaunchArgs<'k>,
    len: Val<'k>,
    offset: Val<'k>,
    places: Axes<'k>,
    planes: Axes<'k>,
    plane_strides: Vec<Val<'k>>,
    axes: Vec<Axis<'k>>,
    /// Terms of the largest window, of an average.
    most: Option<Val<'k>>,
}

/// The kernel of a form.
pub fn build(config: &PoolConfig) -> Kernel {
    let invocations = match config.of {
        PoolOutput::Max(_) => BLOCK_THREADS,
        PoolOutput::Average { tile, .. } => tile.invocations(),
    };
    let k = Builder::new(&config.name(), [invocations, 1, 1]);
    let x = k.buffer("x", config.dtype.into(), Access::Read);
    let y = k.buffer("y", config.dtype.into(), Access::Write);
    let winners =
        matches!(config.of, PoolOutput::Max(_)).then(|| k.buffer("winners", Elem::I64, Access::Write));
    let p = PoolBody::read(&k, config);
    let s = p.len.scalar();
    let c = Compute::from(config.dtype);
    let alone = || linear_group_id(&k, s) * i64::from(BLOCK_THREADS) + k.local_id(0).to(s);
    // Those of an invocation that has several windows: neighbours have neighbours.
    let several = |written: UnrolledWindow| -> Vec<Val> {
        let first =
            linear_group_id(&k, s) * (i64::from(BLOCK_THREADS) * written.each() as i64) + k.local_id(0).to(s);
        (0..written.each() as i64).map(|e| first + e * i64::from(BLOCK_THREADS)).collect()
    };
    match config.of {
        PoolOutput::Max(Some(written)) => {
            let all = several(written);
            let winners = winners.expect("a maximum has them");
            let loaded: Vec<_> = all.iter().map(|&i| p.taps(written, i, &|at| k.load(x, at, 1))).collect();
            for (&i, taps) in all.iter().zip(&loaded) {
                let mut best: Option<[Val; 2]> = None;
                for &(v, place, there) in taps {
                    let v = v.to(compared(config.dtype));
                    let [most, at] = best.unwrap_or([v.like(0), place.like(-1)]);
                    let wins = at.lt(at.like(0)) | beats(ArgFold::Max, v, most);
                    let wins = there.map_or(wins, |there| there & wins);
                    best = Some(match (best, there) {
                        (None, None) => [v, place],
                        _ => [wins.select(v, most), wins.select(place, at)],
                    });
                }
                let [most, at] = best.unwrap_or_else(|| [k.int(compared(config.dtype), 0), k.int(s, -1)]);
                k.if_(i.lt(p.len), || {
                    k.store(y, i, most.to(Elem::from(config.dtype).scalar()));
                    k.store(winners, i, at.to(Scalar::I64));
                });
            }
        }
        PoolOutput::Max(None) => {
            let i = alone();
            k.if_(i.lt(p.len), || {
                let (base, windows) = p.windows(i);
                let none = [k.int(compared(config.dtype), 0), k.int(s, -1)];
                let best = p.walk(&windows, base, i.like(0), &none, &|at, place, best| {
                    let v = k.load(x, at, 1).to(none[0].scalar());
                    let wins = best[1].lt(place.like(0)) | beats(ArgFold::Max, v, best[0]);
                    vec![wins.select(v, best[0]), wins.select(place, best[1])]
                });
                k.store(y, i, best[0].to(Elem::from(config.dtype).scalar()));
                k.store(winners.expect("a maximum has them"), i, best[1].to(Scalar::I64));
            });
        }
        PoolOutput::Average { length, written: Some(written), .. } => {
            let all = several(written);
            let loaded: Vec<_> = all.iter().map(|&i| p.taps(written, i, &|at| k.load(x, at, 1))).collect();
            for (&i, taps) in all.iter().zip(&loaded) {
                let zero = k.int(c.scalar(), 0);
                let mut sums: Vec<Val> = taps.iter().map(|&(v, ..)| zero + v).collect();
                sums.resize(length.lanes as usize, zero);
                let (_, windows) = p.windows(i.min(p.len - 1));
                let divisor = windows[1..].iter().fold(windows[0].divisor, |n, w| n * w.divisor);
                k.if_(i.lt(p.len), || k.store(y, i, halved(sums) / divisor.to(c.scalar())));
            }
        }
        PoolOutput::Average { tile, length, written: None } if tile.lanes == 1 => {
            let i = alone();
            k.if_(i.lt(p.len), || {
                let (base, windows) = p.windows(i);
                let sum = p.small_sum(&windows, base, c.scalar(), length.lanes, &|at| k.load(x, at, 1));
                let divisor = windows[1..].iter().fold(windows[0].divisor, |n, w| n * w.divisor);
                k.store(y, i, sum / divisor.to(c.scalar()));
            });
        }
        PoolOutput::Average { tile, length, written: None } => {
            let most = p.most.expect("an average has it");
            let r = BlockRow::new(&k, tile, length, most.scalar(), c.scalar());
            let i = linear_group_id(&k, s) * i64::from(tile.rows) + r.row.to(s);
            let (base, windows) = p.windows(i.min(p.len - 1));
            let count = windows[1..].iter().fold(windows[0].count, |n, w| n * w.count);
            let sum = r.fold(Fold::Sum, most, &|t| {
                let there = || {
                    let (mut left, mut at) = (t, base);
                    for (w, axis) in windows.iter().zip(&p.axes).rev() {
                        at = at + (w.first + left % w.count * axis.dilation) * axis.stride;
                        left = left / w.count;
                    }
                    vec![k.load(x, at, 1)]
                };
                k.if_else(t.lt(count), there, || vec![k.int(c.scalar(), 0)])[0]
            });
            let divisor = windows[1..].iter().fold(windows[0].divisor, |n, w| n * w.divisor);
            let leads = i.lt(p.len) & r.lane.eq(r.lane.like(0));
            k.if_(leads, || k.store(y, i, sum / divisor.to(c.scalar())));
        }
    }
    k.finish()
}

/// A window along an axis.
struct AxisWindow<'k> {
    /// Place of the first tap inside, and how many taps are inside.
    first: Val<'k>,
    count: Val<'k>,
    divisor: Val<'k>,
}

/// What is done at an element of a window: from its position, its place in the plane, and what is
/// carried.
type TapFn<'k, 'f> = dyn Fn(Val<'k>, Val<'k>, &[Val<'k>]) -> Vec<Val<'k>> + 'f;

impl<'k> PoolBody<'k> {
    fn read(k: &'k Builder, config: &PoolConfig) -> Self {
        let args = LaunchArgs::with_table(k, indexing::scalar(config.wide), config.count());
        let (len, offset) = (args.get("len"), args.get("offset"));
        let places = Axes::read_any(&args, "place", config.rank + 1, config.wide);
        let planes = Axes::read(&args, "plane", config.lead, config.wide);
        let plane_strides = indexing::strides(&args, "plane_stride", config.lead);
        let strides = indexing::strides(&args, "stride", config.rank);
        let axis = |(a, stride): (usize, Val<'k>)| {
            let [table, dilation, size] = ["table", "dilation", "size"].map(|n| args.get(&format!("{n}{a}")));
            Axis { stride, table, dilation, size }
        };
        let axes = strides.into_iter().enumerate().map(axis).collect();
        let most = matches!(config.of, PoolOutput::Average { .. }).then(|| args.get("most"));
        PoolBody { k, args, len, offset, places, planes, plane_strides, axes, most }
    }
    /// Where the plane of element `i` begins in the operand, and the element's place along each
    /// axis.
    fn place(&self, i: Val<'k>) -> (Val<'k>, Vec<Val<'k>>) {
        let mut at = self.places.index(i);
        let axes = at.split_off(1);
        (indexing::position(self.offset, &self.planes.index(at[0]), &self.plane_strides), axes)
    }
    /// Where the plane of result `i` begins, and its window.
    fn windows(&self, i: Val<'k>) -> (Val<'k>, Vec<AxisWindow<'k>>) {
        let (base, at) = self.place(i);
        let window = |(&i, axis): (&Val<'k>, &Axis<'k>)| {
            let entry = axis.table + i * 3;
            let [first, count, divisor] = [0, 1, 2].map(|e| self.args.entry(entry + e));
            AxisWindow { first, count, divisor }
        };
        (base, at.iter().zip(&self.axes).map(window).collect())
    }
    /// Visits the elements of a window in row-major order.
    fn walk(
        &self,
        left: &[AxisWindow<'k>],
        at: Val<'k>,
        place: Val<'k>,
        carried: &[Val<'k>],
        visit: &TapFn<'k, '_>,
    ) -> Vec<Val<'k>> {
        let Some((w, rest)) = left.split_first() else { return visit(at, place, carried) };
        let axis = &self.axes[self.axes.len() - left.len()];
        self.k.for_(w.count.like(0), w.count, w.count.like(1), carried, |t, carried| {
            let s = w.first + t * axis.dilation;
            self.walk(rest, at + s * axis.stride, place * axis.size + s, carried, visit)
        })
    }
    /// The sum of a window of at most `lanes` elements, each in a lane of its own: lanes without
    /// one hold +0.
    fn small_sum(
        &self,
        windows: &[AxisWindow<'k>],
        base: Val<'k>,
        scalar: Scalar,
        lanes: u32,
        load: &dyn Fn(Val<'k>) -> Val<'k>,
    ) -> Val<'k> {
        let k = self.k;
        let zero = k.int(scalar, 0);
        let count = windows[1..].iter().fold(windows[0].count, |n, w| n * w.count);
        // The tap along each axis, from element to element.
        let mut taps: Vec<Val> = windows.iter().map(|w| w.count.like(0)).collect();
        let mut sums = Vec::new();
        for e in 0..i64::from(lanes) {
            let there = || {
                let places = taps.iter().zip(windows).zip(&self.axes);
                let at =
                    places.fold(base, |at, ((&t, w), axis)| at + (w.first + t * axis.dilation) * axis.stride);
                // Every lane of a fold starts from +0.
                vec![zero + load(at)]
            };
            sums.push(k.if_else(count.like(e).lt(count), there, || vec![zero])[0]);
            let mut more = count.like(1);
            for (t, w) in taps.iter_mut().zip(windows).rev() {
                let moved = *t + more;
                let over = moved.eq(w.count);
                *t = over.select(moved.like(0), moved);
                more = over.to(moved.scalar());
            }
        }
        halved(sums)
    }
    /// The elements of a result's window, in row-major order: each with its place in the plane, and
    /// whether it is there, if that is not sure. Results beyond the last have the last one's.
    fn taps(
        &self,
        written: UnrolledWindow,
        i: Val<'k>,
        load: &dyn Fn(Val<'k>) -> Val<'k>,
    ) -> Vec<(Val<'k>, Val<'k>, Option<Val<'k>>)> {
        let (base, windows) = self.windows(i.min(self.len - 1));
        let one = |taps: Vec<i64>| {
            let (mut at, mut place, mut there) = (base, i.like(0), None::<Val<'k>>);
            for ((&t, w), axis) in taps.iter().zip(&windows).zip(&self.axes) {
                let s = w.first + axis.dilation * t;
                (at, place) = (at + s * axis.stride, place * axis.size + s);
                if !written.whole {
                    let is = w.count.like(t).lt(w.count);
                    there = Some(there.map_or(is, |before| before & is));
                }
            }
            // What is not there reads the first element of the plane.
            (load(there.map_or(at, |there| there.select(at, base))), place, there)
        };
        written.places(windows.len()).into_iter().map(one).collect()
    }
}

/// The sum of lanes, by halves.
fn halved<'k>(mut sums: Vec<Val<'k>>) -> Val<'k> {
    while sums.len() > 1 {
        let half = sums.split_off(sums.len() / 2);
        sums = sums.iter().zip(half).map(|(&a, b)| a + b).collect();
    }
    sums[0]
}
