//! Row-wise ops on a few long rows, with several workgroups per row: the same bits as in `rowwise`,
//! in several launches.
//!
//! For each statistic, a workgroup folds a block of a row, and the blocks are joined as neighbours;
//! the results are made by as many workgroups as there are pieces of rows. What is passed from
//! launch to launch is the result of the folds; every kernel finishes the statistics that it needs
//! from them.

use super::block_reduce::{BlockRow, RegisterBudget, RowLength, RowTile, elem};
use super::fold;
use super::plan::RowwisePath;
use super::rowwise::{RowFormula, rows};
use crate::formula::Compute;
use crate::launch::args::{self, LaunchArgs};
use crate::launch::sequence::{BufferSlot, BufferSpec, LaunchSequence};
use crate::launch::{Key, Work, grid, linear_group_id};
use crate::layout::indexing::{self, Axes, is_wide};
use elinvar_core::{DType, Layout, order};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Access, Builtin, Constant, Elem, Kernel, Place};
use elinvar_kernel::lane::Term;
use elinvar_ops::rows::{RowOut, STATS};

/// Invocations of a workgroup that makes results, and how many elements each of them takes.
const BLOCK_THREADS: u32 = 256;
const ELEMENTS_PER_THREAD: i64 = 4;

/// What a kernel is built for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MultiBlockRowwiseConfig {
    /// The dtype of the work.
    pub dtype: DType,
    /// What the operands hold.
    pub operands: Vec<Elem>,
    /// The statistic whose terms are folded; `None` if the results are made.
    pub fold: Option<usize>,
    /// What an invocation may hold.
    pub budget: RegisterBudget,
    /// Joined axes of the rows, and in a row.
    pub ranks: [usize; 2],
    /// Are there positions beyond 2^30?
    pub wide: bool,
}

/// The work of a row-wise op. Operands: those of the op. Result: a value for each element or for
/// each row.
pub fn steps<'a>(
    f: &'a dyn RowFormula,
    dtype: DType,
    x: &[(&Layout, DType)],
    kept: usize,
    path: RowwisePath,
    budget: RegisterBudget,
) -> LaunchSequence<'a> {
    let shape = x[0].0.shape();
    let count: usize = shape[..kept].iter().product();
    let n: usize = shape[kept..].iter().product();
    let len = count * f.out().width(n, f.folds().len());
    let mut all =
        LaunchSequence { results: vec![BufferSpec::of(dtype.into(), len)], ..LaunchSequence::default() };
    let operands: Vec<BufferSlot> = (0..x.len()).map(BufferSlot::Operand).collect();
    if let RowwisePath::WholeRows { in_registers } = path {
        if let Some(work) = rows(f, dtype, x, kept, budget, in_registers) {
            all.push(work, &[&operands[..], &[BufferSlot::Result(0)]].concat());
        }
        return all;
    }
    if len == 0 {
        return all;
    }
    let scalar = Compute::from(dtype).scalar();
    let between = elem(scalar);
    let blocks = n.div_ceil(order::BLOCK);
    let mut folded: Vec<BufferSlot> = Vec::new();
    for (j, &fold) in f.folds().iter().enumerate() {
        let at = all.scratch.len();
        all.scratch.extend([BufferSpec::of(between, count * blocks), BufferSpec::of(between, count)]);
        let (parts, whole) = (BufferSlot::Scratch(at), BufferSlot::Scratch(at + 1));
        let buffers = [&operands[..], &folded, &[parts]].concat();
        all.push(launch(f, dtype, x, kept, (Some(j), budget)), &buffers);
        fold::joins(&mut all, (fold, scalar), between, [count, blocks], parts, whole);
        folded.push(whole);
    }
    let buffers = [&operands[..], &folded, &[BufferSlot::Result(0)]].concat();
    all.push(launch(f, dtype, x, kept, (None, budget)), &buffers);
    all
}

fn launch<'a>(
    f: &'a dyn RowFormula,
    dtype: DType,
    x: &[(&Layout, DType)],
    kept: usize,
    (fold, budget): (Option<usize>, RegisterBudget),
) -> Work<'a> {
    let shape = x[0].0.shape();
    let count: usize = shape[..kept].iter().product();
    let n: usize = shape[kept..].iter().product();
    let layouts: Vec<&Layout> = x.iter().map(|(l, _)| *l).collect();
    let [outer, inner] = [indexing::join(&layouts, 0, kept), indexing::join(&layouts, kept, shape.rank())];
    let config = MultiBlockRowwiseConfig {
        dtype,
        operands: x.iter().map(|(_, d)| Elem::from(*d)).collect(),
        fold,
        budget,
        ranks: [outer.dims.len(), inner.dims.len()],
        wide: layouts.iter().any(|l| is_wide(l)),
    };
    let pieces = match (fold, f.out()) {
        (Some(_), _) => n.div_ceil(order::BLOCK),
        (None, RowOut::Each) => n.div_ceil((i64::from(BLOCK_THREADS) * ELEMENTS_PER_THREAD) as usize),
        (None, RowOut::Once | RowOut::Statistics) => 1,
    };
    let mut all = vec![count as i64, n as i64, pieces as i64];
    all.extend(indexing::sizes(&outer.dims, config.wide));
    all.extend(indexing::sizes(&inner.dims, config.wide));
    for (i, l) in layouts.iter().enumerate() {
        all.push(l.offset() as i64);
        all.extend(outer.strides[i].iter().chain(&inner.strides[i]).map(|&s| s as i64));
    }
    let key = f.key(Key::of("multi_block_rowwise").with(&config));
    let scalar = indexing::scalar(config.wide);
    args::work(key, move || build(f, &config), grid((count * pieces) as u64), scalar, &all)
}

impl MultiBlockRowwiseConfig {
    fn name(&self, f: &dyn RowFormula) -> String {
        let elems: String = self.operands.iter().map(|e| format!("_{e}")).collect();
        let [a, b] = self.ranks;
        let stage = self.fold.map_or_else(|| "results".to_string(), |j| format!("fold{j}"));
        let wide = if self.wide { "_wide" } else { "" };
        let budget = match self.budget {
            RegisterBudget::One => "",
            RegisterBudget::Many => "_many",
        };
        format!("multi_block_rowwise_{}_{stage}{elems}_{}_{a}_{b}{budget}{wide}", f.name(), self.dtype)
    }
}

/// The kernel of a form: the operands, the folds of the statistics so far, and what comes out.
pub fn build(f: &dyn RowFormula, config: &MultiBlockRowwiseConfig) -> Kernel {
    let tile = RowTile { lanes: order::LANES as u32, rows: 1, crossed: false };
    let group = if config.fold.is_some() { tile.invocations() } else { BLOCK_THREADS };
    let k = Builder::new(&config.name(f), [group, 1, 1]);
    let c = Compute::from(config.dtype);
    let places: Vec<Place> = (config.operands.iter().enumerate())
        .map(|(i, &e)| k.buffer(&format!("x{i}"), e, Access::Read))
        .collect();
    let known = config.fold.unwrap_or(f.folds().len());
    let folded: Vec<Place> =
        (0..known).map(|j| k.buffer(&format!("folded{j}"), elem(c.scalar()), Access::Read)).collect();
    let out = if config.fold.is_some() { elem(c.scalar()) } else { config.dtype.into() };
    let y = k.buffer("y", out, Access::Write);
    let [a, b] = config.ranks;
    let sizes = indexing::count(a, config.wide) + indexing::count(b, config.wide);
    let args = LaunchArgs::new(&k, indexing::scalar(config.wide), 3 + sizes + places.len() * (1 + a + b));
    let [rows, n, pieces] = ["rows", "n", "pieces"].map(|name| args.get(name));
    let outer = Axes::read(&args, "row", a, config.wide);
    let inner = Axes::read(&args, "in", b, config.wide);
    // The last row of a grid may have workgroups too many: they go along, and store nothing.
    let unit = linear_group_id(&k, rows.scalar());
    let inside = unit.min(rows * pieces - 1);
    let exists = unit.lt(rows * pieces);
    let (row, piece) = (inside / pieces, inside % pieces);
    let at = outer.index(row);
    let operands: Vec<(Place, Val, Vec<Val>)> = (places.iter().enumerate())
        .map(|(i, &place)| {
            let offset = args.get(&format!("offset{i}"));
            let first =
                indexing::position(offset, &at, &indexing::strides(&args, &format!("row_stride{i}"), a));
            (place, first, indexing::strides(&args, &format!("in_stride{i}"), b))
        })
        .collect();
    let element = |i: Val<'_>| {
        let at = inner.index(i);
        let load = |(place, first, strides): &(Place, Val<'_>, Vec<Val<'_>>)| {
            Term::Value(c.enter(k.load(*place, indexing::position(*first, &at, strides), 1)))
        };
        operands.iter().map(load).collect::<Vec<Term>>()
    };
    let count = Term::Value(n.to(c.scalar()));
    let mut s = [Term::Number(Constant::int(c.scalar(), 0)); STATS];
    for (j, &place) in folded.iter().enumerate() {
        s[j] = f.finish(c, j, Term::Value(k.load(place, row, 1)), &s, count);
    }
    let t = k.builtin(Builtin::LocalIndex).to(n.scalar());
    match (config.fold, f.out()) {
        (Some(j), _) => {
            let size = order::BLOCK as i64;
            let length = RowLength::of(order::BLOCK, config.budget);
            let r = BlockRow::new(&k, tile, length, n.scalar(), c.scalar());
            let begin = piece * size;
            // The last block may be shorter.
            let m = (n - begin).min(n.like(size));
            let result = r.fold(f.folds()[j], m, &|i| f.term(c, j, &element(begin + i), &s, count).value(&k));
            let leads = exists & t.eq(t.like(0));
            k.if_(leads, || k.store(y, unit, result));
        }
        (None, RowOut::Each) => {
            let first = piece * (i64::from(BLOCK_THREADS) * ELEMENTS_PER_THREAD) + t;
            let places: Vec<Val> =
                (0..ELEMENTS_PER_THREAD).map(|e| first + e * i64::from(BLOCK_THREADS)).collect();
            let store =
                |i: Val<'_>, x: &[Term<'_>]| k.store(y, row * n + i, f.result(c, x, &s, count).value(&k));
            let one_by_one = || {
                for &i in &places {
                    k.if_(exists & i.lt(n), || store(i, &element(i)));
                }
            };
            match config.budget {
                RegisterBudget::One => one_by_one(),
                RegisterBudget::Many => {
                    let whole =
                        exists & !n.lt((piece + 1) * (i64::from(BLOCK_THREADS) * ELEMENTS_PER_THREAD));
                    let together = || {
                        let x: Vec<Vec<Term>> = places.iter().map(|&i| element(i)).collect();
                        places.iter().zip(&x).for_each(|(&i, x)| store(i, x));
                    };
                    k.if_or(whole, together, one_by_one);
                }
            }
        }
        (None, RowOut::Once) => {
            let leads = exists & t.eq(t.like(0));
            let none = vec![Term::Number(Constant::float(c.scalar(), f64::NAN)); f.arity()];
            k.if_(leads, || k.store(y, row, f.result(c, &none, &s, count).value(&k)));
        }
        (None, RowOut::Statistics) => {
            let leads = exists & t.eq(t.like(0));
            let width = f.folds().len() as i64;
            k.if_(leads, || (0..width).for_each(|j| k.store(y, row * width + j, s[j as usize].value(&k))));
        }
    }
    k.finish()
}
