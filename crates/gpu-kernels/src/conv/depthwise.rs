//! Depthwise convolution (one channel in a group), and its gradient by x where the stride is 1:
//! each plane by itself.
//!
//! Rows share nothing, and there is little to multiply: what counts is how often an element is
//! read. An invocation computes a few results in a column, with its neighbours next to it, so that
//! loads are coalesced and a row that was read serves several results. Taps and steps are part of
//! the kernel and fully unrolled.

use super::problem::ConvStrides;
use super::{ConvPass, FactorStrides, ImplicitGemm, product};
use crate::formula::{Compute, Formula};
use crate::launch::args::{self, LaunchArgs};
use crate::launch::{Key, Work, grid, linear_group_id};
use crate::layout::indexing::{self, Axes};
use elinvar_core::DType;
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Access, Builtin, Constant, Elem, Kernel, Place, Scalar};
use std::collections::BTreeMap;

/// Invocations of a workgroup.
const BLOCK_THREADS: u32 = 128;
/// Results of an invocation, one above the other, at most.
const MAX_OUTPUTS_PER_THREAD: usize = 8;
/// Taps that are written out, at most: those of 7 by 7.
const MAX_UNROLLED_TAPS: usize = 49;

/// What a kernel is built for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct DepthwiseConfig {
    /// With the left factor behind the right one, as operands of a convolution are?
    of: ConvPass,
    dtype: DType,
    extra: Vec<Elem>,
    /// Per axis: taps, what a step of the result moves the coordinate by, and what a tap does.
    axes: Vec<[i64; 3]>,
    /// Results of an invocation, along the last axis but one.
    strip: usize,
    padded: bool,
}

impl ImplicitGemm {
    /// Is this a work for planes?
    pub(super) fn is_depthwise(&self) -> bool {
        self.of != ConvPass::GradWeight
            && self.terms[0] == 1
            && product(&self.terms[1..]) <= MAX_UNROLLED_TAPS
            && self.class_count() == 1
            && !self.void
            && !self.wide
            && !indexing::are_many(self.len)
            && self.len > 0
    }

    /// The work of planes: left and right in the order of the kernel, further operands, result.
    pub(super) fn depthwise_launch<'a>(
        &self,
        epilogue: &'a dyn Formula,
        extra: Vec<Elem>,
        further: &[FactorStrides],
    ) -> Work<'a> {
        let rank = self.windows.len();
        let taps = self.terms[1..].iter().zip(&self.windows);
        let config = DepthwiseConfig {
            of: self.of,
            dtype: self.dtype,
            extra,
            axes: taps.map(|(&t, &[by, _, step, _])| [t as i64, by, step]).collect(),
            strip: if rank > 1 {
                self.columns[rank - 1].next_power_of_two().min(MAX_OUTPUTS_PER_THREAD)
            } else {
                1
            },
            padded: self.padded,
        };
        let mut dims = [&[self.columns[0], self.groups, self.rows], &self.columns[1..]].concat();
        if rank > 1 {
            dims[rank + 1] = dims[rank + 1].div_ceil(config.strip);
        }
        let count = product(&dims);
        let mut all = vec![count as i64];
        all.extend(indexing::sizes_any(&dims, false));
        // Where the coordinate of the first result's first tap is: in the gradient by x, as far
        // inside as there is padding.
        let begin = |a: usize| match self.of {
            ConvPass::GradInput => self.classes[a][2],
            ConvPass::Forward | ConvPass::GradWeight => self.windows[a][1],
        };
        all.extend((0..rank).flat_map(|a| [begin(a), self.windows[a][3], self.columns[a + 1] as i64]));
        all.extend([&[0], &self.result[..]].concat());
        for f in [&self.left, &self.right].into_iter().chain(further) {
            all.push(f.offset as i64);
            all.extend(f.strides.iter().map(|&s| s as i64));
        }
        let key = epilogue.key(Key::of("conv_depthwise").with(&config));
        let groups = grid(count.div_ceil(BLOCK_THREADS as usize) as u64);
        args::work(key, move || build(epilogue, &config), groups, indexing::scalar(false), &all)
    }
}

/// The kernel of a form.
fn build(epilogue: &dyn Formula, config: &DepthwiseConfig) -> Kernel {
    let rank = config.axes.len();
    let k = Builder::new(&config.name(epilogue), [BLOCK_THREADS, 1, 1]);
    let elem = Elem::from(config.dtype);
    let places = ["a", "b"].map(|name| k.buffer(name, elem, Access::Read));
    let [left_place, right_place] =
        if config.of == ConvPass::Forward { [places[1], places[0]] } else { places };
    let extras: Vec<Place> = (config.extra.iter().enumerate())
        .map(|(i, &e)| k.buffer(&format!("e{i}"), e, Access::Read))
        .collect();
    let y = k.buffer("y", elem, Access::Write);
    let number = indexing::scalar(false);
    let count = 1 + indexing::count(rank + 3, false) + 3 * rank + (3 + extras.len()) * (4 + rank);
    let args = LaunchArgs::new(&k, number, count);
    let all = args.get("count");
    let size_axes = Axes::read_any(&args, "size", rank + 3, false);
    let axes: Vec<[Val; 3]> =
        (0..rank).map(|a| ["from", "size", "results"].map(|what| args.get(&format!("{what}{a}")))).collect();
    let result = ConvStrides::read(&args, "y", rank);
    let left = ConvStrides::read(&args, "left", rank);
    let right = ConvStrides::read(&args, "right", rank);
    let further: Vec<ConvStrides> =
        (0..extras.len()).map(|i| ConvStrides::read(&args, &format!("e{i}"), rank)).collect();

    let unit =
        linear_group_id(&k, number) * i64::from(BLOCK_THREADS) + k.builtin(Builtin::LocalIndex).to(number);
    let exists = unit.lt(all);
    let at = size_axes.index(unit.min(all - 1));
    let [outer, group, row] = [at[0], at[1], at[2]];
    let mut first = at[3..].to_vec();
    let strip_axis = rank.checked_sub(2);
    if let Some(a) = strip_axis {
        first[a] = first[a] * config.strip as i64;
    }
    let c = Compute::from(config.dtype);
    let mut window = InputTaps {
        k: &k,
        config,
        place: right_place,
        right: &right,
        base: right.first + group * right.group + outer * right.one,
        start: (0..rank).map(|a| first[a] * config.axes[a][1] + axes[a][0]).collect(),
        sizes: axes.iter().map(|a| a[1]).collect(),
        scalar: c.scalar(),
        rows: BTreeMap::new(),
        known: BTreeMap::new(),
    };
    let filter = left.first + group * left.group + row * left.one;
    let mut sums = vec![k.constant(Constant::int(c.scalar(), 0)); config.strip];
    for tap in taps(&config.axes) {
        let of_tap = tap.iter().zip(&left.axes).fold(filter, |at, (&t, &s)| at + s * t);
        let weight = k.load(left_place, of_tap, 1);
        for (r, sum) in sums.iter_mut().enumerate() {
            let moved = |a: usize| {
                let down = if Some(a) == strip_axis { r as i64 * config.axes[a][1] } else { 0 };
                down + tap[a] * config.axes[a][2]
            };
            let v = window.at((0..rank).map(moved).collect());
            *sum = v.fma(weight, *sum);
        }
    }
    for (r, &sum) in sums.iter().enumerate() {
        let mut at = first.clone();
        let mut there = exists;
        if let Some(a) = strip_axis {
            at[a] = at[a] + r as i64;
            if r > 0 {
                there = there & at[a].lt(axes[a][2]);
            }
        }
        k.if_(there, || {
            let place = [group, row, outer];
            let mut given = vec![sum];
            given.extend(extras.iter().zip(&further).map(|(&e, s)| c.enter(k.load(e, s.at(place, &at), 1))));
            k.store(y, result.at(place, &at), epilogue.emit(&k, c, &given));
        });
    }
    k.finish()
}

/// All taps, the last axis fastest.
fn taps(axes: &[[i64; 3]]) -> Vec<Vec<i64>> {
    axes.iter().fold(vec![Vec::new()], |all, &[count, ..]| {
        all.iter().flat_map(|tap| (0..count).map(move |t| [&tap[..], &[t]].concat())).collect()
    })
}

impl DepthwiseConfig {
    fn name(&self, epilogue: &dyn Formula) -> String {
        let of = if self.of == ConvPass::Forward { "depthwise" } else { "depthwise_input_grad" };
        let extra: String = self.extra.iter().map(|e| format!("_{e}")).collect();
        let sign = |v: i64| if v < 0 { format!("m{}", -v) } else { v.to_string() };
        let axes: String =
            self.axes.iter().map(|&[t, by, step]| format!("_{t}by{by}move{}", sign(step))).collect();
        let padded = if self.padded { "_padded" } else { "" };
        format!("{of}_{}_{}{extra}{axes}_s{}{padded}", epilogue.name(), self.dtype, self.strip)
    }
}

/// The elements around an invocation's results, each loaded once.
struct InputTaps<'k, 'f> {
    k: &'k Builder,
    config: &'f DepthwiseConfig,
    place: Place,
    right: &'f ConvStrides<'k>,
    base: Val<'k>,
    /// The coordinate of the first result's first tap.
    start: Vec<Val<'k>>,
    sizes: Vec<Val<'k>>,
    scalar: Scalar,
    /// By axis and what is added to the coordinate: where that is, and whether it is inside.
    rows: BTreeMap<(usize, i64), (Val<'k>, Val<'k>)>,
    known: BTreeMap<Vec<i64>, Val<'k>>,
}

impl<'k> InputTaps<'k, '_> {
    /// The element so far from the first one; +0 outside.
    fn at(&mut self, moved: Vec<i64>) -> Val<'k> {
        if let Some(&v) = self.known.get(&moved) {
            return v;
        }
        let k = self.k;
        let mut at = self.base;
        let mut inside: Option<Val<'k>> = None;
        for (a, &by) in moved.iter().enumerate() {
            let (start, size, stride) = (self.start[a], self.sizes[a], self.right.axes[a]);
            let (offset, is) = *self.rows.entry((a, by)).or_insert_with(|| {
                let coordinate = start + by;
                // Below 0 is far above as unsigned.
                (coordinate * stride, coordinate.bitcast(Scalar::U32).lt(size.bitcast(Scalar::U32)))
            });
            at = at + offset;
            inside = Some(inside.map_or(is, |before| before & is));
        }
        let inside = inside.expect("there is an axis");
        let zero = k.constant(Constant::int(self.scalar, 0));
        let v = if self.config.padded || self.config.strip > 1 {
            // What is outside reads some element, and is 0 whatever that is.
            inside.select(k.load(self.place, inside.select(at, self.right.first), 1), zero)
        } else {
            k.load(self.place, at, 1)
        };
        self.known.insert(moved, v);
        v
    }
}
