//! Gradient by x of few channels (images of three colours, say): each invocation has neighbours
//! along the last axis.
//!
//! There are too few rows to amortise the address of a column's elements. But neighbours of a
//! class, under the taps of a line, read neighbours of one line of g, and each of those serves
//! several taps. So an invocation loads a line's elements once, and the line's weights, which are
//! uniform in a workgroup, and has all products of them unrolled while the next line is prefetched.
//! Where a chunk of the order of sums ends in the midst of a line, each tap is checked.

use super::plan::thresholds::MIN_ROWS;
use super::problem::{ConvArgs, ConvConfig, ConvPass, OutputColumn};
use super::{ImplicitGemm, PLAIN, product};
use crate::formula::{Compute, Formula};
use crate::gemm::SimtTile;
use crate::launch::{Key, Work, args, grid};
use crate::layout::indexing;
use elinvar_core::order;
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Builtin, Constant, Kernel, Scalar};

/// Invocations of a workgroup.
const BLOCK_THREADS: u32 = 64;
/// Sums of an invocation, at most: with the totals of chunks they take as many registers twice.
const MAX_ACCUMULATORS: usize = 32;
/// Taps of a line that are written out, at most.
const MAX_UNROLLED_TAPS: usize = 8;

/// What a kernel is built for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FewChannelConfig {
    config: ConvConfig,
    /// Taps of a line, at most; of a class there may be fewer.
    taps: u32,
    /// Do neighbours along the last axis of g are contiguous?
    even: bool,
    /// May an element of a line be outside? Where nothing is padded, those of neighbours beyond
    /// the last column.
    checked: bool,
}

impl ImplicitGemm {
    /// Can, and should, neighbours along the last axis share what they read?
    pub(super) fn is_few_channels(&self) -> bool {
        let Some(&[_, _, by, _]) = self.windows.last() else { return false };
        self.of == ConvPass::GradInput
            && self.rows < MIN_ROWS
            && self.terms[0] > 1
            && by == -1
            && self.taps_of_line() <= MAX_UNROLLED_TAPS
            && !self.void
            && !self.wide
            && !indexing::are_many(self.len)
            && self.len > 0
    }
    fn taps_of_line(&self) -> usize {
        let (taps, class) = (self.terms.last(), self.classes.last());
        taps.zip(class).map_or(0, |(&taps, c)| taps.div_ceil(c[4] as usize))
    }

    /// The launch: left, right, result.
    pub(super) fn few_channel_launch(&self) -> Work<'static> {
        let rank = self.windows.len();
        let strip = if self.rows * 8 <= MAX_ACCUMULATORS { 8 } else { 4 };
        let config = ConvConfig {
            of: self.of,
            channels_last: false,
            dtype: self.dtype,
            extra: Vec::new(),
            tile: SimtTile {
                group: [1, BLOCK_THREADS],
                each: [self.rows as u32, strip as u32],
                depth: 0,
                slots: 0,
            },
            rank,
            padded: self.padded,
            masked: false,
            void: false,
            multi_chunk: product(&self.terms) > order::CHUNK,
            split_k: false,
            staged: None,
            wide: false,
        };
        // A column is a strip of them.
        let mut strips = self.clone();
        strips.columns[rank] = self.columns[rank].div_ceil(strip);
        let tiles = [1, product(&strips.columns).div_ceil(BLOCK_THREADS as usize)];
        let (all, groups) = strips.args(&config, self.class_count(), tiles, &[]);
        let even = self.right.strides.last() == Some(&1);
        let checked = self.padded || !self.columns[rank].is_multiple_of(strip);
        let line = FewChannelConfig { config, taps: self.taps_of_line() as u32, even, checked };
        let key = PLAIN.key(Key::of("conv_few_channel_grad_input").with(&line));
        args::work(key, move || build(&line), grid(groups as u64), indexing::scalar(false), &all)
    }
}

/// The kernel: left, right, result.
fn build(line: &FewChannelConfig) -> Kernel {
    let config = &line.config;
    let even = if line.even { "_even" } else { "" };
    let checked = if line.checked { "_checked" } else { "" };
    let name = format!("few_channel{}{even}{checked}_{}", line.taps, config.name(&PLAIN));
    let k = Builder::new(&name, [BLOCK_THREADS, 1, 1]);
    emit(&k, &ConvArgs::read(&k, config), line);
    k.finish()
}

fn emit<'k>(k: &'k Builder, h: &ConvArgs<'k>, line: &FewChannelConfig) {
    let config = &line.config;
    let [rows, strip] = config.tile.each.map(i64::from);
    let index = k.builtin(Builtin::LocalIndex).to(h.number);
    let first = h.column(h.tile[1] * i64::from(BLOCK_THREADS) + index);
    let last = config.rank - 1;
    let (taps, counts) = (i64::from(line.taps), &h.terms.counts);

    // Neighbours: where the first one's coordinate is under tap 0, and which element of a line
    // the last tap reads of it.
    let mut axes = first.axes.clone();
    axes[last] = axes[last] * strip;
    let mut start = first.start.clone();
    start[last] = axes[last] * h.by(last) + h.start(last);
    let from = start[last] - (taps - 1);
    let unsigned = |v: Val<'k>| v.bitcast(Scalar::U32);
    let inside = |a: usize, at: Val<'k>| unsigned(at).lt(unsigned(h.terms.sizes[a]));
    let element = |j: i64| -> Val<'k> {
        let stride = h.right.axes[last];
        if line.even { stride.like(j) } else { stride * j }
    };
    let elements: Vec<(Val, Val)> =
        (0..strip + taps - 1).map(|j| (element(j), inside(last, from + j))).collect();
    let right = h.right.first + h.group * h.right.group + first.outer * h.right.one;
    let right = right + from * h.right.axes[last];
    let [begin, every, _] = h.terms.axes[last];
    let of_row: Vec<Val> = (0..rows).map(|r| h.left_group() + h.left.one * r).collect();

    let scalar = Compute::from(config.dtype).scalar();
    let zero = k.constant(Constant::int(scalar, 0));
    let none = vec![zero; (rows * strip) as usize];
    // What is added to the first chunk changes no bit of it.
    let nothing = k.constant(Constant::float(scalar, -0.0));
    let mut init = none.clone();
    if config.multi_chunk {
        init.extend(vec![nothing; none.len()]);
    }
    let (sums_and_totals, here) = (init.len(), index.like(0));
    // Which line it is: outer part and taps of all axes but the last; then the terms that the chunk
    // has room for.
    init.extend(vec![here; config.rank]);
    init.push(here.like(order::CHUNK as i64));

    let taps_here = counts[config.rank];
    let count = none.len();
    let all_lines = counts[1..config.rank].iter().fold(counts[0], |n, &c| n * c);
    // Where no tap of a class meets the grid, there is no line to be loaded.
    let lines = here.lt(taps_here).select(all_lines, here);
    // What a line is read of: its elements of g, and its weights. Taps that a class has not are the
    // last one.
    let of_tap: Vec<Val<'k>> =
        (0..taps).map(|t| (begin + every * (taps_here - 1).min(here.like(t))) * h.left.axes[last]).collect();
    let load_line = |at: &[Val<'k>]| -> Vec<Val<'k>> {
        let axis = |a: usize| start[a] + at[a + 1] * h.terms.axes[a][2];
        let there = (0..last).map(|a| inside(a, axis(a))).reduce(|a, b| a & b);
        let place = (0..last).fold(right + at[0] * h.right.two, |p, a| p + axis(a) * h.right.axes[a]);
        let one = |&(far, is): &(Val<'k>, Val<'k>)| {
            let load = || vec![k.load(h.places[1], place + far, 1)];
            let is = match there {
                Some(there) if config.padded => there & is,
                _ => is,
            };
            if line.checked { k.if_else(is, load, || vec![zero])[0] } else { load()[0] }
        };
        let mut all: Vec<Val<'k>> = elements.iter().map(one).collect();
        let offset = (0..last).fold(at[0] * h.left.two, |p, a| {
            let [begin, every, _] = h.terms.axes[a];
            p + (begin + at[a + 1] * every) * h.left.axes[a]
        });
        for &tap in &of_tap {
            all.extend(of_row.iter().map(|&r| k.load(h.places[0], r + offset + tap, 1)));
        }
        all
    };
    // The end of a chunk: sums begin anew.
    let closed = |all: &[Val<'k>]| -> Vec<Val<'k>> {
        let (sums, totals) = all.split_at(count);
        none.iter().copied().chain(totals.iter().zip(sums).map(|(&t, &s)| t + s)).collect()
    };
    let places = config.rank + 1;
    let first_line = k.if_else(
        here.lt(lines),
        || load_line(&init[sums_and_totals..][..config.rank]),
        || vec![zero; elements.len() + (taps * rows) as usize],
    );
    init.extend(first_line);
    let done = k.for_(here, lines, here.like(1), &init, |_, carried| {
        let (fma_chains, rest) = carried.split_at(sums_and_totals);
        let (at, left) = (&rest[..config.rank], rest[config.rank]);
        let (g, weights) = rest[places..].split_at(elements.len());
        // The next line, which is on its way meanwhile; behind the last one there is none, and that
        // is loaded again.
        let mut after = at.to_vec();
        let mut more = here.like(1);
        for a in (1..config.rank).rev() {
            let moved = at[a] + more;
            let wraps = moved.eq(counts[a]);
            after[a] = wraps.select(moved.like(0), moved);
            more = wraps.to(moved.scalar());
        }
        after[0] = (at[0] + more).min(counts[0] - 1);
        let next_line = load_line(&after);
        // The products of a tap, for each row and neighbour.
        let tap = |t: i64, fma_chains: &[Val<'k>]| -> Vec<Val<'k>> {
            let mut new = fma_chains.to_vec();
            for (r, &w) in weights[(t * rows) as usize..][..rows as usize].iter().enumerate() {
                for p in 0..strip {
                    let sum = &mut new[r * strip as usize + p as usize];
                    *sum = g[(p - t + taps - 1) as usize].fma(w, *sum);
                }
            }
            new
        };
        // All taps that there are. Of most classes all are written out but one.
        let all = |fma_chains: &[Val<'k>], each: &dyn Fn(i64, &[Val<'k>]) -> Vec<Val<'k>>| {
            (0..taps).fold(fma_chains.to_vec(), |fma_chains, t| {
                k.if_else(taps_here.like(t).lt(taps_here), || each(t, &fma_chains), || fma_chains.clone())
            })
        };
        let new = if config.multi_chunk {
            let together = || [all(fma_chains, &tap), vec![left - taps_here]].concat();
            // The chunk ends before this line, or in the midst of it.
            let one_by_one = || {
                let init = [fma_chains, &[left]].concat();
                all(&init, &|t, all| {
                    let (fma_chains, left) = all.split_at(sums_and_totals);
                    let full = left[0].eq(left[0].like(0));
                    let anew = || [closed(fma_chains), vec![left[0].like(order::CHUNK as i64)]].concat();
                    let now = k.if_else(full, anew, || all.to_vec());
                    let (fma_chains, left) = now.split_at(sums_and_totals);
                    [tap(t, fma_chains), vec![left[0] - 1]].concat()
                })
            };
            k.if_else(left.lt(taps_here), one_by_one, together)
        } else {
            [all(fma_chains, &tap), vec![left]].concat()
        };
        let (fma_chains, spare) = new.split_at(sums_and_totals);
        [fma_chains, &after, spare, &next_line].concat()
    });
    let sums = if config.multi_chunk { closed(&done[..sums_and_totals]).split_off(count) } else { done };
    for r in 0..rows {
        for p in 0..strip {
            let mut axes = axes.clone();
            axes[last] = axes[last] + p;
            let column = OutputColumn { axes, start: start.clone(), ..first.clone() };
            let row = h.rows.like(r);
            h.store(k, &PLAIN, row, std::slice::from_ref(&column), &[sums[(r * strip + p) as usize]]);
        }
    }
}
