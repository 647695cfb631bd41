//! Pooling backward: each element of the larger tensor gathers from the windows that may hold it,
//! in row-major order.
//!
//! * Average: adds g / divisor of the windows that hold the element.
//! * Maximum: a scatter-add at the winners' places. If the places are known to be a pool's winners,
//!   the windows in which an element can have won are known and no sort is needed: the element
//!   checks those, and adds what it won.
//!
//! Which windows those are is a lookup table: along each axis, for each place, the first and one
//! past the last. A few windows are unrolled, for several elements, so that all loads are in flight
//! at once.

use super::{UnrolledWindow, inside};
use crate::formula::Compute;
use crate::launch::args::{self, LaunchArgs};
use crate::launch::{Key, Work, grid, linear_group_id};
use crate::layout::indexing::{self, Axes};
use elinvar_core::{DType, Layout};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Access, Elem, Kernel, Place};
use elinvar_ops::backend::{Pool, Windows};

/// Invocations of a workgroup.
const BLOCK_THREADS: u32 = 128;

/// What a kernel is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PoolBackwardConfig {
    of: PoolGrad,
    dtype: DType,
    /// Spatial axes.
    rank: usize,
    /// Joined axes of the planes.
    lead: usize,
    /// Windows of an element that are written out; `None` if they are walked over.
    written: Option<UnrolledWindow>,
    wide: bool,
}

/// Which gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum PoolGrad {
    /// Of averages; `sure`: do all windows between an element's first and last one hold it?
    Average { sure: bool },
    /// Of maxima.
    Max,
}

/// An operand: where it begins, its strides over the planes, and over windows or elements along
/// each spatial axis.
struct WindowOperand {
    offset: usize,
    axes: Vec<isize>,
}

/// Along an axis: for each place the first and behind the last window that holds it; do all in
/// between?
fn window_ranges(w: &Windows, size: usize) -> (Vec<[i64; 2]>, bool) {
    let mut window_ranges = vec![[0i64; 2]; size];
    let mut times = vec![0i64; size];
    for i in 0..w.start.len() {
        let (first, count) = inside(w, i, size);
        for t in 0..count {
            let [from, to] = &mut window_ranges[first + t * w.dilation];
            *from = if *to == 0 { i as i64 } else { *from };
            *to = i as i64 + 1;
            times[first + t * w.dilation] += 1;
        }
    }
    let sure = window_ranges.iter().zip(&times).all(|([from, to], &times)| to - from == times);
    (window_ranges, sure)
}

/// The work of an average's gradient: g, then the gradient by x, of spatial sizes `spatial`. `None`
/// if that has no elements.
pub fn average(p: &Pool, dtype: DType, g: &Layout, spatial: &[usize]) -> Option<Work<'static>> {
    let lead = g.rank() - p.axes.len();
    let of_g = WindowOperand { offset: g.offset(), axes: g.strides()[lead..].to_vec() };
    let sure = p.axes.iter().zip(spatial).all(|(w, &size)| window_ranges(w, size).1);
    launch(PoolGrad::Average { sure }, p, dtype, [&[g], &[]], lead, spatial, &[of_g])
}

/// The work of a scatter that adds at the winners of a maximum over tensors of spatial sizes
/// `spatial`: `base`, with those as one axis, the winners, and `g`, both with a pool's results as
/// one axis; then the sums. `None` if there are no elements.
pub fn maximum(
    p: &Pool,
    dtype: DType,
    base: &Layout,
    [winners, g]: [&Layout; 2],
    spatial: &[usize],
) -> Option<Work<'static>> {
    let lead = g.rank() - 1;
    let outs: Vec<usize> = p.axes.iter().map(|a| a.start.len()).collect();
    // The last axis, taken apart.
    let apart = |l: &Layout, dims: &[usize]| {
        let k_major = |a: usize| l.strides()[lead] * dims[a + 1..].iter().product::<usize>() as isize;
        WindowOperand { offset: l.offset(), axes: (0..dims.len()).map(k_major).collect() }
    };
    let operands = [apart(winners, &outs), apart(g, &outs), apart(base, spatial)];
    launch(PoolGrad::Max, p, dtype, [&[winners, g], &[base]], lead, spatial, &operands)
}

/// The launch, for operands over windows and over elements.
fn launch(
    of: PoolGrad,
    p: &Pool,
    dtype: DType,
    layouts: [&[&Layout]; 2],
    lead: usize,
    spatial: &[usize],
    operands: &[WindowOperand],
) -> Option<Work<'static>> {
    let rank = p.axes.len();
    let layouts = layouts.concat();
    let planes: usize = layouts[0].shape()[..lead].iter().product();
    let len = planes * spatial.iter().product::<usize>();
    if len == 0 {
        return None;
    }
    let wide = layouts.iter().any(|l| indexing::is_wide(l)) || indexing::are_many(len);
    let joined = indexing::join(&layouts, 0, lead);
    let mut all = vec![len as i64];
    all.extend(indexing::sizes_any(&[&[planes], spatial].concat(), wide));
    all.extend(indexing::sizes(&joined.dims, wide));
    for (o, strides) in operands.iter().zip(&joined.strides) {
        all.push(o.offset as i64);
        all.extend(strides.iter().chain(&o.axes).map(|&s| s as i64));
    }
    let (mut table, mut counts) = (Vec::new(), Vec::new());
    for (w, &size) in p.axes.iter().zip(spatial) {
        let (window_ranges, _) = window_ranges(w, size);
        let windows = || window_ranges.iter().map(|[from, to]| (to - from) as usize);
        counts.push([windows().min(), windows().max()].map(|n| n.unwrap_or(0)));
        all.push(table.len() as i64);
        table.extend(window_ranges.into_iter().flatten());
        if matches!(of, PoolGrad::Average { .. }) {
            all.extend([table.len() as i64, w.dilation as i64]);
            table.extend(
                (0..w.start.len()).flat_map(|i| [w.start[i] as i64, w.len[i] as i64, w.divisor[i] as i64]),
            );
        }
    }
    let may_be = of != PoolGrad::Average { sure: false };
    let written = UnrolledWindow::of(&counts).filter(|_| may_be);
    let config = PoolBackwardConfig { of, dtype, rank, lead: joined.dims.len(), written, wide };
    let each = written.map_or(1, UnrolledWindow::each);
    let groups = grid(len.div_ceil(BLOCK_THREADS as usize * each) as u64);
    let key = Key::of("pool_grad").with(&config);
    Some(args::work_with_table(key, move || build(&config), groups, indexing::scalar(wide), &all, &table))
}

impl PoolBackwardConfig {
    fn name(&self) -> String {
        let of = match self.of {
            PoolGrad::Average { .. } => "avg",
            PoolGrad::Max => "max",
        };
        let written = self.written.map_or(String::new(), UnrolledWindow::words);
        let wide = if self.wide { "_wide" } else { "" };
        format!("{of}_pool_grad_{}_{}d_{}{written}{wide}", self.dtype, self.rank, self.lead)
    }
    fn operands(&self) -> usize {
        match self.of {
            PoolGrad::Average { .. } => 1,
            PoolGrad::Max => 3,
        }
    }
    fn count(&self) -> usize {
        let of_axis = match self.of {
            PoolGrad::Average { .. } => 3,
            PoolGrad::Max => 1,
        };
        1 + indexing::count(self.rank + 1, self.wide)
            + indexing::count(self.lead, self.wide)
            + self.operands() * (1 + self.lead + self.rank)
            + of_axis * self.rank
    }
}

/// A spatial axis in a kernel: where its places' entries begin in the table, and of averages those
/// of windows, and the dilation.
struct Axis<'k> {
    places: Val<'k>,
    of_windows: Option<[Val<'k>; 2]>,
}

/// An operand in a kernel.
struct PoolStrides<'k> {
    first: Val<'k>,
    planes: Vec<Val<'k>>,
    axes: Vec<Val<'k>>,
}

/// An element: where its plane begins in each operand, its place along each axis, and there the
/// first and behind the last window.
struct Element<'k> {
    planes: Vec<Val<'k>>,
    at: Vec<Val<'k>>,
    windows: Vec<[Val<'k>; 2]>,
}

/// A window: where it is in the operands over windows, what averages divide by, and whether it is
/// one of the element's, if that is not sure.
struct GradWindow<'k> {
    at: Vec<Val<'k>>,
    divisor: Option<Val<'k>>,
    there: Option<Val<'k>>,
}

/// What a kernel knows.
struct PoolBackwardBody<'k, 'f> {
    k: &'k Builder,
    config: &'f PoolBackwardConfig,
    args: LaunchArgs<'k>,
    len: Val<'k>,
    places: Axes<'k>,
    planes: Axes<'k>,
    operands: Vec<PoolStrides<'k>>,
    axes: Vec<Axis<'k>>,
    c: Compute,
    memory: Vec<Place>,
}

/// The kernel of a form.
fn build(config: &PoolBackwardConfig) -> Kernel {
    let k = Builder::new(&config.name(), [BLOCK_THREADS, 1, 1]);
    let elem = Elem::from(config.dtype);
    let read = |name: &str, e: Elem| k.buffer(name, e, Access::Read);
    // In the order of a scatter.
    let memory = match config.of {
        PoolGrad::Average { .. } => vec![read("g", elem)],
        PoolGrad::Max => {
            let base = read("base", elem);
            vec![read("winners", Elem::I64), read("g", elem), base]
        }
    };
    let y = k.buffer("y", elem, Access::Write);
    let p = PoolBackwardBody::read(&k, config, memory);
    let number = p.len.scalar();
    let each = config.written.map_or(1, UnrolledWindow::each) as i64;
    let first = linear_group_id(&k, number) * (i64::from(BLOCK_THREADS) * each) + k.local_id(0).to(number);
    let all: Vec<Val> = (0..each).map(|e| first + e * i64::from(BLOCK_THREADS)).collect();
    let sums: Vec<Val> = match config.written {
        Some(written) => {
            let elements: Vec<Element> = all.iter().map(|&i| p.element(i.min(p.len - 1))).collect();
            let loaded: Vec<_> = elements.iter().map(|e| (p.start(e), p.loaded(e, written))).collect();
            let each = elements.iter().zip(loaded);
            each.map(|(e, (start, loaded))| loaded.iter().fold(start, |sum, (w, v)| p.more(e, w, v, sum)))
                .collect()
        }
        None => {
            let e = p.element(all[0].min(p.len - 1));
            let at = |o: usize| e.planes[o];
            let first = GradWindow {
                at: (0..p.over_windows()).map(at).collect(),
                divisor: p.axes[0].of_windows.map(|[d, _]| d.like(1)),
                there: None,
            };
            vec![p.walk(&e, 0, first, p.start(&e))]
        }
    };
    for (&i, &sum) in all.iter().zip(&sums) {
        k.if_(i.lt(p.len), || k.store(y, i, sum.to(elem.scalar())));
    }
    k.finish()
}

impl<'k, 'f> PoolBackwardBody<'k, 'f> {
    fn read(k: &'k Builder, config: &'f PoolBackwardConfig, memory: Vec<Place>) -> Self {
        let args = LaunchArgs::with_table(k, indexing::scalar(config.wide), config.count());
        let len = args.get("len");
        let places = Axes::read_any(&args, "place", config.rank + 1, config.wide);
        let planes = Axes::read(&args, "plane", config.lead, config.wide);
        let operand = |o: usize| PoolStrides {
            first: args.get(&format!("offset{o}")),
            planes: indexing::strides(&args, &format!("plane_stride{o}"), config.lead),
            axes: indexing::strides(&args, &format!("stride{o}"), config.rank),
        };
        let operands = (0..config.operands()).map(operand).collect();
        let axis = |a: usize| {
            let get = |name: &str| args.get(&format!("{name}{a}"));
            let places = get("places");
            let of_windows =
                matches!(config.of, PoolGrad::Average { .. }).then(|| [get("windows"), get("dilation")]);
            Axis { places, of_windows }
        };
        let axes = (0..config.rank).map(axis).collect();
        let c = Compute::from(config.dtype);
        PoolBackwardBody { k, config, args, len, places, planes, operands, axes, c, memory }
    }
    /// How many operands have an element for each window.
    fn over_windows(&self) -> usize {
        match self.config.of {
            PoolGrad::Average { .. } => 1,
            PoolGrad::Max => 2,
        }
    }

    fn element(&self, i: Val<'k>) -> Element<'k> {
        let mut at = self.places.index(i);
        let places = at.split_off(1);
        let plane = self.planes.index(at[0]);
        let entry = |(axis, &s): (&Axis<'k>, &Val<'k>)| {
            let entry = axis.places + s * 2;
            [self.args.entry(entry), self.args.entry(entry + 1)]
        };
        let windows = self.axes.iter().zip(&places).map(entry).collect();
        let planes = self.operands.iter().map(|o| indexing::position(o.first, &plane, &o.planes)).collect();
        Element { planes, at: places, windows }
    }

    /// What sums begin with.
    fn start(&self, e: &Element<'k>) -> Val<'k> {
        match self.config.of {
            PoolGrad::Average { .. } => self.k.int(self.c.scalar(), 0),
            PoolGrad::Max => {
                let at = indexing::position(e.planes[2], &e.at, &self.operands[2].axes);
                self.c.enter(self.k.load(self.memory[2], at, 1))
            }
        }
    }

    /// One entry of a window's along an axis: where it begins, how many taps it has, what it
    /// divides by.
    fn of_window(&self, a: usize, i: Val<'k>, entry: i64) -> Option<Val<'k>> {
        self.axes[a].of_windows.map(|[windows, _]| self.args.entry(windows + i * 3 + entry))
    }

    /// All windows of an element, written out, and what they have in the operands.
    fn loaded(&self, e: &Element<'k>, written: UnrolledWindow) -> Vec<(GradWindow<'k>, Vec<Val<'k>>)> {
        let one = |which: Vec<i64>| {
            let mut w =
                GradWindow { at: e.planes[..self.over_windows()].to_vec(), divisor: None, there: None };
            let mut places = Vec::new();
            for (&t, &[from, to]) in which.iter().zip(&e.windows) {
                let i = from + t;
                if !written.is_whole() {
                    let is = i.lt(to);
                    w.there = Some(w.there.map_or(is, |before| before & is));
                }
                places.push(i);
            }
            for (a, &i) in places.iter().enumerate() {
                // What is not there reads the first of the plane.
                let i = w.there.map_or(i, |there| there.select(i, i.like(0)));
                for (at, o) in w.at.iter_mut().zip(&self.operands) {
                    *at = *at + i * o.axes[a];
                }
                let own = self.of_window(a, i, 2);
                w.divisor = w.divisor.map_or(own, |before| own.map(|own| before * own));
            }
            let loaded = self.values(&w);
            (w, loaded)
        };
        written.places(self.config.rank).into_iter().map(one).collect()
    }

    fn values(&self, w: &GradWindow<'k>) -> Vec<Val<'k>> {
        w.at.iter().zip(&self.memory).map(|(&at, &place)| self.k.load(place, at, 1)).collect()
    }

    /// The sum after a window.
    fn more(&self, e: &Element<'k>, w: &GradWindow<'k>, loaded: &[Val<'k>], sum: Val<'k>) -> Val<'k> {
        match self.config.of {
            PoolGrad::Average { .. } => {
                let divisor = w.divisor.expect("a window of an average has one");
                let more = sum + self.c.enter(loaded[0]) / divisor.to(self.c.scalar());
                w.there.map_or(more, |there| there.select(more, sum))
            }
            PoolGrad::Max => {
                let sizes = |a: usize| self.places.size(a + 1);
                let place = (1..e.at.len()).fold(e.at[0], |place, a| place * sizes(a) + e.at[a]);
                let won = loaded[0].to(place.scalar()).eq(place);
                let won = w.there.map_or(won, |there| there & won);
                won.select(sum + self.c.enter(loaded[1]), sum)
            }
        }
    }

    /// The sum after all windows along the axes from `a` on.
    fn walk(&self, e: &Element<'k>, a: usize, w: GradWindow<'k>, sum: Val<'k>) -> Val<'k> {
        let Some(&s) = e.at.get(a) else { return self.more(e, &w, &self.values(&w), sum) };
        let [from, to] = e.windows[a];
        self.k.for_(from, to, s.like(1), &[sum], |i, sum| {
            let deeper = || {
                let at = w.at.iter().zip(&self.operands).map(|(&at, o)| at + i * o.axes[a]).collect();
                let divisor = w.divisor.map(|d| self.of_window(a, i, 2).map_or(d, |own| d * own));
                vec![self.walk(e, a + 1, GradWindow { at, divisor, there: None }, sum[0])]
            };
            // The winner is in the window. With gaps between its taps, or windows in no order,
            // others may not.
            let (PoolGrad::Average { sure: false }, Some([_, dilation])) =
                (self.config.of, self.axes[a].of_windows)
            else {
                return deeper();
            };
            let entry = |e: i64| self.of_window(a, i, e).expect("windows of averages have entries");
            let away = s - entry(0);
            let tap = away / dilation;
            let holds = !away.lt(away.like(0)) & tap.lt(entry(1)) & (tap * dilation).eq(away);
            self.k.if_else(holds, deeper, || sum.to_vec())
        })[0]
    }
}
