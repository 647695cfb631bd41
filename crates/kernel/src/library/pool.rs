//! Pools over the last one to three axes, and the gradient of an average.
//!
//! Windows are tables, an entry for each place along an axis, so windows of any kind are one kernel. Taps outside of the
//! tensor are left out, and those inside are neighbours in the table's order; so an entry says where the first of them lies
//! and how many they are.
//!
//! * A maximum walks over its window in row-major order, one result an invocation, as the definition does.
//! * An average is a fold of the window's elements in the canonical order (see `row`), in which windows at the edge have
//!   fewer terms: what is missing adds +0 at the end, which changes no bit. Up to 16 elements are one invocation's.
//! * The gradient of an average walks, for each element, over the windows that may hold it, in row-major order.

use super::arg_fold::{beats, compared};
use super::formula::Compute;
use super::index::{self, Axes};
use super::numbers::{self, Numbers};
use super::row::{Hold, Length, Row, Tile};
use super::{Key, Work, grid, group_number};
use crate::build::{Builder, Val};
use crate::ir::{Access, Elem, Kernel, Scalar};
use elinvar_core::{DType, Layout};
use elinvar_ops::backend::{ArgFold, Fold, Pool, PoolKind, Windows};

/// Invocations of a workgroup of a maximum or a gradient.
const GROUP: u32 = 128;
/// So many terms are folded by one invocation.
const ALONE: usize = 16;

/// What a kernel is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Form {
    /// What comes out.
    pub of: Of,
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
pub enum Of {
    /// The largest elements, and their places.
    Max,
    /// The averages.
    Average {
        /// How results are given to invocations.
        tile: Tile,
        /// How many elements windows have.
        length: Length,
    },
    /// The gradient of an average.
    Grad,
}

/// The numbers that all pools begin with: `len`, then of the operand offset, axes of the planes and of a plane.
fn numbers_of(x: &Layout, rank: usize, dims: &[usize], wide: bool) -> (Vec<i64>, usize) {
    let lead = x.rank() - rank;
    let planes = index::join(&[x], 0, lead);
    let count: usize = x.shape()[..lead].iter().product();
    let len = count * dims.iter().product::<usize>();
    let mut all = vec![len as i64, x.offset() as i64];
    all.extend(index::sizes_any(&[&[count], dims].concat(), wide));
    all.extend(index::sizes(&planes.dims, wide));
    all.extend(planes.strides[0].iter().map(|&s| s as i64));
    all.extend(x.strides()[lead..].iter().map(|&s| s as i64));
    (all, planes.dims.len())
}

/// The taps of a window that lie inside: the place of the first, and how many.
fn inside(w: &Windows, i: usize, size: usize) -> (usize, usize) {
    let at = |t: usize| w.start[i] + (t * w.dilation) as isize;
    let within = |t: &usize| (0..size as isize).contains(&at(*t));
    match (0..w.len[i]).find(within) {
        Some(first) => (at(first) as usize, (first..w.len[i]).filter(within).count()),
        None => (0, 0),
    }
}

/// The work of a pool: x, the result, and for a maximum the winners' places (i64). `None` if there is no result.
pub fn pool(p: &Pool, dtype: DType, x: &Layout) -> Option<Work<'static>> {
    let rank = p.axes.len();
    let spatial = &x.shape()[x.rank() - rank..];
    let outs: Vec<usize> = p.axes.iter().map(|a| a.start.len()).collect();
    let len: usize = x.shape()[..x.rank() - rank].iter().product::<usize>() * outs.iter().product::<usize>();
    if len == 0 {
        return None;
    }
    let wide = index::is_wide(x) || index::are_many(len);
    let (mut all, lead) = numbers_of(x, rank, &outs, wide);
    let (mut table, mut most) = (Vec::new(), 1);
    for (w, &size) in p.axes.iter().zip(spatial) {
        all.extend([table.len() as i64, w.dilation as i64, size as i64]);
        let mut longest = 0;
        for i in 0..w.start.len() {
            let (first, count) = inside(w, i, size);
            table.extend([first, count, w.divisor[i]].map(|v| v as i64));
            longest = longest.max(count);
        }
        most *= longest;
    }
    let (of, per) = match p.kind {
        PoolKind::Max => (Of::Max, GROUP as usize),
        PoolKind::Avg => {
            // Most of what an element costs is to find out where it is.
            let length = Length::of(most, Hold::One);
            // A small window is one invocation's business.
            let own = if most <= ALONE { 1 } else { length.lanes };
            let tile = Tile { lanes: own, rows: GROUP / own, crossed: false };
            all.push(most as i64);
            (Of::Average { tile, length }, tile.rows as usize)
        }
    };
    let form = Form { of, dtype, rank, lead, wide };
    let (key, groups) = (Key::of("pool").with(&form), grid(len.div_ceil(per) as u64));
    Some(numbers::work_with_table(key, move || build(&form), groups, index::scalar(wide), &all, &table))
}

/// The work of an average's gradient: g, then the gradient by x, of spatial sizes `spatial`. `None` if that has no elements.
pub fn avg_pool_grad(p: &Pool, dtype: DType, g: &Layout, spatial: &[usize]) -> Option<Work<'static>> {
    let rank = p.axes.len();
    let len: usize =
        g.shape()[..g.rank() - rank].iter().product::<usize>() * spatial.iter().product::<usize>();
    if len == 0 {
        return None;
    }
    let wide = index::is_wide(g) || index::are_many(len);
    let (mut all, lead) = numbers_of(g, rank, spatial, wide);
    let mut table = Vec::new();
    for (w, &size) in p.axes.iter().zip(spatial) {
        // The first and behind the last window that holds an element.
        let mut held = vec![[0i64; 2]; size];
        for i in 0..w.start.len() {
            let (first, count) = inside(w, i, size);
            for t in 0..count {
                let [from, to] = &mut held[first + t * w.dilation];
                *from = if *to == 0 { i as i64 } else { *from };
                *to = i as i64 + 1;
            }
        }
        all.extend([table.len() as i64, w.dilation as i64, size as i64]);
        table.extend(held.into_iter().flatten());
        all.push(table.len() as i64);
        for i in 0..w.start.len() {
            table.extend([w.start[i] as i64, w.len[i] as i64, w.divisor[i] as i64]);
        }
    }
    let form = Form { of: Of::Grad, dtype, rank, lead, wide };
    let (key, groups) = (Key::of("pool").with(&form), grid(len.div_ceil(GROUP as usize) as u64));
    Some(numbers::work_with_table(key, move || build(&form), groups, index::scalar(wide), &all, &table))
}

impl Form {
    fn name(&self) -> String {
        let of = match self.of {
            Of::Max => "max_pool".to_string(),
            Of::Average { tile, length } => format!("avg_pool_l{}of{}", tile.lanes, length.words()),
            Of::Grad => "avg_pool_grad".to_string(),
        };
        let wide = if self.wide { "_wide" } else { "" };
        format!("{of}_{}_{}d_{}{wide}", self.dtype, self.rank, self.lead)
    }
    fn count(&self) -> usize {
        let more = match self.of {
            Of::Max => 0,
            Of::Average { .. } => 1,
            Of::Grad => self.rank,
        };
        let axes = index::count(self.rank + 1, self.wide) + index::count(self.lead, self.wide);
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
    /// Of the larger tensor.
    size: Val<'k>,
    /// In a gradient: where the entries of windows begin.
    windows: Val<'k>,
}

/// What all pools know.
struct Plan<'k> {
    k: &'k Builder,
    numbers: Numbers<'k>,
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
pub fn build(form: &Form) -> Kernel {
    let invocations = match form.of {
        Of::Max | Of::Grad => GROUP,
        Of::Average { tile, .. } => tile.invocations(),
    };
    let k = Builder::new(&form.name(), [invocations, 1, 1]);
    let x = k.buffer("x", form.dtype.into(), Access::Read);
    let y = k.buffer("y", form.dtype.into(), Access::Write);
    let winners = (form.of == Of::Max).then(|| k.buffer("winners", Elem::I64, Access::Write));
    let p = Plan::read(&k, form);
    let s = p.len.scalar();
    let c = Compute::from(form.dtype);
    let alone = || group_number(&k, s) * i64::from(GROUP) + k.local_id(0).to(s);
    match form.of {
        Of::Max => {
            let i = alone();
            k.if_(i.lt(p.len), || {
                let (base, windows) = p.windows(i);
                let none = [k.int(compared(form.dtype), 0), k.int(s, -1)];
                let best = p.walk(&windows, base, i.like(0), &none, &|at, place, best| {
                    let v = k.load(x, at, 1).to(none[0].scalar());
                    let wins = best[1].lt(place.like(0)) | beats(ArgFold::Max, v, best[0]);
                    vec![wins.select(v, best[0]), wins.select(place, best[1])]
                });
                k.store(y, i, best[0].to(Elem::from(form.dtype).scalar()));
                k.store(winners.expect("a maximum has them"), i, best[1].to(Scalar::I64));
            });
        }
        Of::Average { tile, length } if tile.lanes == 1 => {
            let i = alone();
            k.if_(i.lt(p.len), || {
                let (base, windows) = p.windows(i);
                let sum = p.small_sum(&windows, base, c.scalar(), length.lanes, &|at| k.load(x, at, 1));
                let divisor = windows[1..].iter().fold(windows[0].divisor, |n, w| n * w.divisor);
                k.store(y, i, sum / divisor.to(c.scalar()));
            });
        }
        Of::Average { tile, length } => {
            let most = p.most.expect("an average has it");
            let r = Row::new(&k, tile, length, most.scalar(), c.scalar());
            let i = group_number(&k, s) * i64::from(tile.rows) + r.row.to(s);
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
        Of::Grad => {
            let i = alone();
            k.if_(i.lt(p.len), || {
                let (base, at) = p.place(i);
                let sum = p.held(&at, 0, base, i.like(1), k.int(c.scalar(), 0), &|at, divisor, sum| {
                    sum + k.load(x, at, 1) / divisor.to(c.scalar())
                });
                k.store(y, i, sum);
            });
        }
    }
    k.finish()
}

/// A window along an axis.
struct Window<'k> {
    /// Place of the first tap inside, and how many taps are inside.
    first: Val<'k>,
    count: Val<'k>,
    divisor: Val<'k>,
}

/// What is done at an element of a window: from its position, its place in the plane, and what is carried.
type Visit<'k, 'f> = dyn Fn(Val<'k>, Val<'k>, &[Val<'k>]) -> Vec<Val<'k>> + 'f;

impl<'k> Plan<'k> {
    fn read(k: &'k Builder, form: &Form) -> Self {
        let numbers = Numbers::with_table(k, index::scalar(form.wide), form.count());
        let (len, offset) = (numbers.get("len"), numbers.get("offset"));
        let places = Axes::read_any(&numbers, "place", form.rank + 1, form.wide);
        let planes = Axes::read(&numbers, "plane", form.lead, form.wide);
        let plane_strides = index::strides(&numbers, "plane_stride", form.lead);
        let strides = index::strides(&numbers, "stride", form.rank);
        let axis = |(a, stride): (usize, Val<'k>)| {
            let [table, dilation, size] =
                ["table", "dilation", "size"].map(|n| numbers.get(&format!("{n}{a}")));
            let windows = if form.of == Of::Grad { numbers.get(&format!("windows{a}")) } else { table };
            Axis { stride, table, dilation, size, windows }
        };
        let axes = strides.into_iter().enumerate().map(axis).collect();
        let most = matches!(form.of, Of::Average { .. }).then(|| numbers.get("most"));
        Plan { k, numbers, len, offset, places, planes, plane_strides, axes, most }
    }
    /// Where the plane of element `i` begins in the operand, and the element's place along each axis.
    fn place(&self, i: Val<'k>) -> (Val<'k>, Vec<Val<'k>>) {
        let mut at = self.places.index(i);
        let axes = at.split_off(1);
        (index::position(self.offset, &self.planes.index(at[0]), &self.plane_strides), axes)
    }
    /// Where the plane of result `i` begins, and its window.
    fn windows(&self, i: Val<'k>) -> (Val<'k>, Vec<Window<'k>>) {
        let (base, at) = self.place(i);
        let window = |(&i, axis): (&Val<'k>, &Axis<'k>)| {
            let entry = axis.table + i * 3;
            let [first, count, divisor] = [0, 1, 2].map(|e| self.numbers.entry(entry + e));
            Window { first, count, divisor }
        };
        (base, at.iter().zip(&self.axes).map(window).collect())
    }
    /// Visits the elements of a window in row-major order.
    fn walk(
        &self,
        left: &[Window<'k>],
        at: Val<'k>,
        place: Val<'k>,
        carried: &[Val<'k>],
        visit: &Visit<'k, '_>,
    ) -> Vec<Val<'k>> {
        let Some((w, rest)) = left.split_first() else { return visit(at, place, carried) };
        let axis = &self.axes[self.axes.len() - left.len()];
        self.k.for_(w.count.like(0), w.count, w.count.like(1), carried, |t, carried| {
            let s = w.first + t * axis.dilation;
            self.walk(rest, at + s * axis.stride, place * axis.size + s, carried, visit)
        })
    }
    /// The sum of a window of at most `lanes` elements, each in a lane of its own: lanes without one hold +0.
    fn small_sum(
        &self,
        windows: &[Window<'k>],
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
        while sums.len() > 1 {
            let half = sums.split_off(sums.len() / 2);
            sums = sums.iter().zip(half).map(|(&a, b)| a + b).collect();
        }
        sums[0]
    }
    /// Visits the windows that hold an element, in row-major order, with their divisors.
    fn held(
        &self,
        element: &[Val<'k>],
        a: usize,
        at: Val<'k>,
        divisor: Val<'k>,
        sum: Val<'k>,
        visit: &dyn Fn(Val<'k>, Val<'k>, Val<'k>) -> Val<'k>,
    ) -> Val<'k> {
        let Some(&s) = element.get(a) else { return visit(at, divisor, sum) };
        let axis = &self.axes[a];
        let entry = axis.table + s * 2;
        let (from, to) = (self.numbers.entry(entry), self.numbers.entry(entry + 1));
        self.k.for_(from, to, s.like(1), &[sum], |i, sum| {
            let entry = axis.windows + i * 3;
            let [start, len, own] = [0, 1, 2].map(|e| self.numbers.entry(entry + e));
            let away = s - start;
            let tap = away / axis.dilation;
            let holds = !away.lt(away.like(0)) & tap.lt(len) & (tap * axis.dilation).eq(away);
            let deeper =
                || vec![self.held(element, a + 1, at + i * axis.stride, divisor * own, sum[0], visit)];
            self.k.if_else(holds, deeper, || sum.to_vec())
        })[0]
    }
}
