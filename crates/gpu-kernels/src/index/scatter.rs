//! Scatter: a copy of `base` into which `src` is written or added at `index`, along an axis, line
//! by line. Deterministic, without floating-point atomics.
//!
//! * **Set**: the last source in row-major order wins. Every source tells its number to the element
//!   that it goes to (an integer atomic maximum, whose result does not depend on the order), then
//!   every element takes its source, or its base.
//! * **Add**: sources are added one by one in row-major order. The indices of each line are sorted,
//!   stable, so that the sources of an element are contiguous and in order; the first of them adds
//!   them all to the base. Lines that share their indices (an axis of stride 0) are sorted once.
//!
//! An index out of range leaves 1 in the buffer `refused`, which is 0 before.

use super::sort::{self, KeySource};
use crate::formula::Compute;
use crate::launch::args::{self, LaunchArgs};
use crate::launch::sequence::{BufferSlot, BufferSpec, LaunchSequence};
use crate::launch::{Key, Work, grid, linear_group_id};
use crate::layout::copy;
use crate::layout::indexing::{self, Axes, JoinedAxes, is_wide};
use elinvar_core::{DType, Dims, Layout, Shape};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Access, Atomic, Elem, Kernel, Scalar};
use elinvar_kernel::lane::{Integer, KindBool, KindI32, KindI64, KindU8, Term};
use elinvar_ops::backend::Scatter;
use elinvar_ops::int::Int;

/// Invocations of a workgroup.
const BLOCK_THREADS: u32 = 256;

/// What a kernel is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScatterConfig {
    /// What is done.
    pub of: ScatterStage,
    /// The dtype of base and source.
    pub dtype: DType,
    /// Joined axes of the lines.
    pub rank: usize,
    /// Are there positions beyond 2^30?
    pub wide: bool,
}

/// What a kernel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScatterStage {
    /// Every source says its number to its element.
    Elect,
    /// Every element takes its source.
    Copy,
    /// Every element's sources are added.
    Add,
}

/// The work of a scatter. Operands: base, index (i64), src. Results: the copy, and a u32 that tells
/// of indices out of range.
pub fn scatter(
    how: Scatter,
    dtype: DType,
    base: &Layout,
    axis: usize,
    index: &Layout,
    src: &Layout,
) -> LaunchSequence<'static> {
    let len = base.shape().numel();
    let results = vec![BufferSpec::of(dtype.into(), len), BufferSpec::zeros(Elem::U32, 1)];
    let mut all = LaunchSequence { results, ..LaunchSequence::default() };
    let (y, refused) = (BufferSlot::Result(0), BufferSlot::Result(1));
    let [base_slot, index_slot, src_slot] = [0, 1, 2].map(BufferSlot::Operand);
    let lines = ScatterLines::new(dtype, base, axis, index, src);
    if index.shape().numel() == 0 || (how == Scatter::Add && len == 0) {
        if index.shape().numel() > 0 {
            // Nothing can be in range; the sort finds that out.
            sort::steps(&mut all, KeySource::Indices, &lines.sorted, 0, index_slot, None, Some(refused));
        }
        if let Some(work) = copy::copy(base, dtype, dtype) {
            all.push(work, &[base_slot, y]);
        }
        return all;
    }
    match how {
        Scatter::Set => {
            all.scratch.push(BufferSpec::zeros(Elem::U32, len));
            let said = BufferSlot::Scratch(0);
            all.push(lines.launch(ScatterStage::Elect), &[index_slot, said, refused]);
            if len > 0 {
                all.push(lines.launch(ScatterStage::Copy), &[base_slot, src_slot, said, y]);
            }
        }
        Scatter::Add => {
            if let Some(work) = copy::copy(base, dtype, dtype) {
                all.push(work, &[base_slot, y]);
            }
            let size = base.shape()[axis];
            let found = sort::steps(
                &mut all,
                KeySource::Indices,
                &lines.sorted,
                size,
                index_slot,
                None,
                Some(refused),
            );
            all.push(lines.launch(ScatterStage::Add), &[base_slot, src_slot, found[0], found[1], y]);
        }
    }
    all
}

/// The lines of a scatter: all axes but one.
struct ScatterLines {
    dtype: DType,
    /// Sizes of the axis: of base, and of index.
    size: usize,
    n: usize,
    /// Lines.
    count: usize,
    /// The indices, each line along the last axis; lines that share them are one.
    sorted: Layout,
    /// Offsets, and strides along the axis, of base, src, sorted lines, result, index.
    offsets: [usize; 5],
    steps: [isize; 5],
    /// The lines of these.
    joined: JoinedAxes,
    wide: bool,
}

impl ScatterLines {
    fn new(dtype: DType, base: &Layout, axis: usize, index: &Layout, src: &Layout) -> Self {
        let rank = index.rank();
        let others: Vec<usize> = (0..rank).filter(|&a| a != axis).collect();
        let dims: Dims = others.iter().map(|&a| index.shape()[a]).collect();
        let shape = Shape::new(&dims).expect("a part of a shape");
        let mut shared = index.clone();
        for &a in &others {
            if index.shape()[a] > 1 && index.strides()[a] == 0 {
                shared = shared.slice(a, 0, 1, 1);
            }
        }
        let order: Vec<usize> = others.iter().copied().chain([axis]).collect();
        let sorted = shared.permute(&order);
        let n = index.shape()[axis];
        // Row-major strides of the sorted lines, 0 along the axes that were left out.
        let rows = Layout::contiguous(Shape::clone(sorted.shape()));
        let own: Vec<isize> = (0..others.len())
            .map(|i| if sorted.shape()[i] == shape[i] { rows.strides()[i] } else { 0 })
            .collect();
        let y = Layout::contiguous(Shape::clone(base.shape()));
        // Offsets are added apart.
        let line = |l: &Layout| -> Layout {
            let strides: Vec<isize> = others.iter().map(|&a| l.strides()[a]).collect();
            unchecked(&shape, &strides)
        };
        let all = [line(base), line(src), unchecked(&shape, &own), line(&y), line(index)];
        let joined = indexing::join(&all.each_ref(), 0, shape.rank());
        let step = |l: &Layout| l.strides()[axis];
        ScatterLines {
            dtype,
            size: base.shape()[axis],
            n,
            count: shape.numel(),
            sorted,
            offsets: [base.offset(), src.offset(), 0, 0, index.offset()],
            steps: [step(base), step(src), 1, step(&y), step(index)],
            joined,
            wide: [base, index, src].into_iter().any(is_wide),
        }
    }

    fn launch(&self, of: ScatterStage) -> Work<'static> {
        let config = ScatterConfig { of, dtype: self.dtype, rank: self.joined.dims.len(), wide: self.wide };
        // Turns of a search among n.
        let turns = usize::BITS - self.n.leading_zeros();
        let mut all = [self.count, self.size, self.n, turns as usize].map(|v| v as i64).to_vec();
        all.extend(indexing::sizes(&self.joined.dims, self.wide));
        for &o in config.operands() {
            all.extend([self.offsets[o] as i64, self.steps[o] as i64]);
            all.extend(self.joined.strides[o].iter().map(|&s| s as i64));
        }
        let places = self.count * if of == ScatterStage::Copy { self.size } else { self.n };
        let groups = grid((places as u64).div_ceil(u64::from(BLOCK_THREADS)));
        let key = Key::of("scatter").with(&config);
        args::work(key, move || build(&config), groups, indexing::scalar(self.wide), &all)
    }
}

/// A layout for its strides, whatever memory it may reach.
fn unchecked(shape: &Shape, strides: &[isize]) -> Layout {
    let negative: isize =
        (shape.iter().zip(strides)).map(|(&n, &s)| (n.max(1) as isize - 1) * s.min(0)).sum();
    Layout::strided(shape.clone(), strides, negative.unsigned_abs(), usize::MAX)
        .expect("every element is behind the first of memory")
}

/// Base, src, sorted lines, result, index: their numbers in [`ScatterLines`].
const BASE: usize = 0;
const SRC: usize = 1;
const SORTED: usize = 2;
const RESULT: usize = 3;
const INDEX: usize = 4;

impl ScatterConfig {
    /// What a kernel looks at.
    fn operands(&self) -> &'static [usize] {
        match self.of {
            ScatterStage::Elect => &[INDEX, RESULT],
            ScatterStage::Copy => &[BASE, SRC, RESULT],
            ScatterStage::Add => &[BASE, SRC, SORTED, RESULT],
        }
    }
    fn name(&self) -> String {
        let of = match self.of {
            ScatterStage::Elect => "say".to_string(),
            ScatterStage::Copy => format!("take_{}", self.dtype),
            ScatterStage::Add => format!("add_{}", self.dtype),
        };
        format!("scatter_{of}_{}{}", self.rank, if self.wide { "_wide" } else { "" })
    }
}

/// The numbers of an operand: where it begins, from element to element of a line, and from line to
/// line.
struct LineStrides<'k> {
    first: Val<'k>,
    step: Val<'k>,
    strides: Vec<Val<'k>>,
}

impl<'k> LineStrides<'k> {
    fn at(&self, line: &[Val<'k>], i: Val<'k>) -> Val<'k> {
        indexing::position(self.first, line, &self.strides) + i * self.step
    }
}

/// The kernel of a form.
pub fn build(config: &ScatterConfig) -> Kernel {
    let k = Builder::new(&config.name(), [BLOCK_THREADS, 1, 1]);
    let elem = Elem::from(config.dtype);
    let read = |name: &str, e: Elem| k.buffer(name, e, Access::Read);
    let change = |name: &str| k.buffer(name, Elem::U32, Access::ReadWrite);
    let places = match config.of {
        ScatterStage::Elect => vec![read("index", Elem::I64), change("said"), change("refused")],
        ScatterStage::Copy => vec![read("base", elem), read("src", elem), read("said", Elem::U32)],
        ScatterStage::Add => {
            vec![read("base", elem), read("src", elem), read("keys", Elem::U32), read("from", Elem::U32)]
        }
    };
    let y = (config.of != ScatterStage::Elect).then(|| k.buffer("y", elem, Access::Write));
    let number = indexing::scalar(config.wide);
    let operands = config.operands();
    let count = 4 + indexing::count(config.rank, config.wide) + operands.len() * (2 + config.rank);
    let args = LaunchArgs::new(&k, number, count);
    let [lines, size, n, turns] = ["lines", "size", "n", "turns"].map(|name| args.get(name));
    let axes = Axes::read(&args, "line", config.rank, config.wide);
    let of: Vec<LineStrides> = (operands.iter())
        .map(|o| {
            let (first, step) = (args.get(&format!("offset{o}")), args.get(&format!("step{o}")));
            LineStrides { first, step, strides: indexing::strides(&args, &format!("stride{o}"), config.rank) }
        })
        .collect();
    // Neighbours are in neighbouring lines, which often are contiguous.
    let e = linear_group_id(&k, number) * i64::from(BLOCK_THREADS) + k.local_id(0).to(number);
    let along = if config.of == ScatterStage::Copy { size } else { n };
    k.if_(e.lt(lines * along), || {
        let (i, line) = (e / lines, axes.index(e % lines));
        match config.of {
            ScatterStage::Elect => {
                let named = k.load(places[0], of[0].at(&line, i), 1);
                let there = !named.lt(named.like(0)) & named.lt(size.to(Scalar::I64));
                let say = || {
                    let at = of[1].at(&line, named.to(number));
                    k.atomic(Atomic::Max, places[1], at, i.to(Scalar::U32) + 1);
                };
                k.if_or(there, say, || {
                    k.atomic(Atomic::Or, places[2], k.u32(0), k.u32(1));
                });
            }
            ScatterStage::Copy => {
                let at = of[2].at(&line, i);
                let said = k.load(places[2], at, 1);
                let source = || vec![k.load(places[1], of[1].at(&line, (said - 1).to(number)), 1)];
                let own = || vec![k.load(places[0], of[0].at(&line, i), 1)];
                let v = k.if_else(said.eq(k.u32(0)), own, source)[0];
                k.store(y.expect("it has a result"), at, v);
            }
            ScatterStage::Add => {
                let first = of[2].at(&line, i);
                let key = k.load(places[2], first, 1);
                let before = i.like(0).lt(i);
                let other = k.if_else(before, || vec![k.load(places[2], first - 1, 1)], || vec![key])[0];
                let leads = !before | !other.eq(key);
                let there = leads & key.to(Scalar::I64).lt(size.to(Scalar::I64));
                k.if_(there, || {
                    // Behind the last of its sources.
                    let line_at = first - i;
                    let end = k.for_(i.like(0), turns, i.like(1), &[i, n], |_, c| {
                        let (low, high) = (c[0], c[1]);
                        let open = low.lt(high);
                        let middle = (low + high) / 2;
                        let same = || vec![k.load(places[2], line_at + middle, 1).eq(key)];
                        let same = k.if_else(open, same, || vec![k.constant(false.into())])[0];
                        vec![same.select(middle + 1, low), (open & !same).select(middle, high)]
                    })[0];
                    // So it is; a bound on the loop's iterations that can be seen.
                    let end = end.min(n);
                    let target = key.to(number);
                    let c = Compute::from(config.dtype);
                    let start = c.enter(k.load(places[0], of[0].at(&line, target), 1));
                    let sum = k.for_(i, end, i.like(1), &[start], |j, sum| {
                        let from = k.load(places[3], line_at + j, 1).to(number);
                        vec![plus(c, sum[0], c.enter(k.load(places[1], of[1].at(&line, from), 1)))]
                    })[0];
                    k.store(y.expect("it has a result"), of[3].at(&line, target), sum);
                });
            }
        }
    });
    k.finish()
}

/// The sum of two elements: integers wrap, bool is or.
fn plus<'k>(c: Compute, a: Val<'k>, b: Val<'k>) -> Val<'k> {
    macro_rules! kind {
        ($kind:ty) => {
            Integer::<'k, $kind>::new(Term::Value(a)).add(Integer::new(Term::Value(b))).0.value(a.builder())
        };
    }
    match c {
        Compute::F32 | Compute::F64 => a + b,
        Compute::I64 => kind!(KindI64),
        Compute::I32 => kind!(KindI32),
        Compute::U8 => kind!(KindU8),
        Compute::Bool => kind!(KindBool),
    }
}
