//! Row-wise ops (softmax, layer norm, RMS norm and their gradients): statistics of a row, then a
//! value for each element or for the row, in one kernel.
//!
//! Each statistic is a fold of terms in the canonical order (`block_reduce`), computed anew from
//! the operands, so a row may be of any length. With registers for it, the elements of a shorter
//! row are read once and stay (`register_row`); an operand that is the same for all rows, as
//! weights are, does not: it comes out of a cache. The formula at an element is the catalogue's.

use super::block_reduce::{BlockRow, RegisterBudget, RowLength, RowTile};
use super::register_row::{Elements, RegisterRow};
use crate::formula::Compute;
use crate::launch::args::{self, LaunchArgs};
use crate::launch::{Key, Work, grid, linear_group_id};
use crate::layout::indexing::{self, Axes, is_wide};
use elinvar_core::{DType, Layout};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Access, Constant, Elem, Kernel, Place};
use elinvar_kernel::lane::{Float, Term, W32, W64};
use elinvar_ops::backend::Fold;
use elinvar_ops::lane::Lane;
use elinvar_ops::recorded::Expression;
use elinvar_ops::rows::{RowObject, RowOut, STATS};

/// A row-wise formula that writes its instructions into a kernel.
pub trait RowFormula {
    /// A word for kernels.
    fn name(&self) -> String;
    /// The key of a kernel that this formula is in, from the key of what is around it.
    fn key(&self, around: Key) -> Key;
    /// How many operands.
    fn arity(&self) -> usize;
    /// The folds, in order.
    fn folds(&self) -> &'static [Fold];
    /// What comes out.
    fn out(&self) -> RowOut;
    /// The term of statistic `j` at an element.
    fn term<'k>(&self, c: Compute, j: usize, x: &[Term<'k>], s: &[Term<'k>; STATS], n: Term<'k>) -> Term<'k>;
    /// Statistic `j` from its fold.
    fn finish<'k>(
        &self,
        c: Compute,
        j: usize,
        folded: Term<'k>,
        s: &[Term<'k>; STATS],
        n: Term<'k>,
    ) -> Term<'k>;
    /// The result at an element, or for a row.
    fn result<'k>(&self, c: Compute, x: &[Term<'k>], s: &[Term<'k>; STATS], n: Term<'k>) -> Term<'k>;
    /// The result at an element from the term of the last statistic there, if it can be told.
    fn result_of_term<'k>(
        &self,
        _: Compute,
        _: Term<'k>,
        _: &[Term<'k>; STATS],
        _: Term<'k>,
    ) -> Option<Term<'k>> {
        None
    }
}

/// A row-wise op of the catalogue.
#[derive(Debug)]
pub struct CatalogueRows(pub Box<dyn RowObject>);

/// Runs the body with `$float` bound to the lane of a float type.
macro_rules! each_float {
    ($name:expr, $c:expr, $float:ident => $body:expr) => {
        match $c {
            Compute::F32 => {
                type $float<'k> = Float<'k, W32>;
                $body
            }
            Compute::F64 => {
                type $float<'k> = Float<'k, W64>;
                $body
            }
            Compute::I64 | Compute::I32 | Compute::U8 | Compute::Bool => {
                unreachable!("{}: a formula on floats, not {:?}", $name, $c)
            }
        }
    };
}

impl CatalogueRows {
    /// What an expression of (operands.., statistics.., n) is for these.
    fn replay<'k>(
        &self,
        c: Compute,
        record: impl FnOnce(u32) -> Expression,
        x: &[Term<'k>],
        s: &[Term<'k>; STATS],
        n: Term<'k>,
    ) -> Term<'k> {
        each_float!(self.0.name(), c, F => {
            let all: Vec<F> = x.iter().chain(s).chain([&n]).map(|&v| F::new(v)).collect();
            record(F::BITS).replay_one(&all).0
        })
    }
}

impl RowFormula for CatalogueRows {
    fn name(&self) -> String {
        self.0.name().to_string()
    }
    fn key(&self, around: Key) -> Key {
        around.with(&self.0.key())
    }
    fn arity(&self) -> usize {
        self.0.arity()
    }
    fn folds(&self) -> &'static [Fold] {
        self.0.folds()
    }
    fn out(&self) -> RowOut {
        self.0.out()
    }
    fn term<'k>(&self, c: Compute, j: usize, x: &[Term<'k>], s: &[Term<'k>; STATS], n: Term<'k>) -> Term<'k> {
        self.replay(c, |bits| self.0.record_term(j, bits), x, s, n)
    }
    fn finish<'k>(
        &self,
        c: Compute,
        j: usize,
        folded: Term<'k>,
        s: &[Term<'k>; STATS],
        n: Term<'k>,
    ) -> Term<'k> {
        self.replay(c, |bits| self.0.record_finish(j, bits), &[folded], s, n)
    }
    fn result<'k>(&self, c: Compute, x: &[Term<'k>], s: &[Term<'k>; STATS], n: Term<'k>) -> Term<'k> {
        self.replay(c, |bits| self.0.record_out(bits), x, s, n)
    }
    fn result_of_term<'k>(
        &self,
        c: Compute,
        term: Term<'k>,
        s: &[Term<'k>; STATS],
        n: Term<'k>,
    ) -> Option<Term<'k>> {
        let bits = c.scalar().bits();
        let of_term = self.0.record_out_of_term(bits)?;
        Some(self.replay(c, |_| of_term, &[term], s, n))
    }
}

/// What a kernel is built for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowwiseConfig {
    /// The dtype of the work.
    pub dtype: DType,
    /// What the operands hold.
    pub operands: Vec<Elem>,
    /// What the result holds.
    pub to: Elem,
    /// How rows are given to invocations.
    pub tile: RowTile,
    /// How long rows are.
    pub length: RowLength,
    /// How many elements of them are held, and of which operands; `None` if none are.
    in_registers: Option<(RegisterRow, Vec<bool>)>,
    /// Joined axes of the rows, and in a row.
    pub ranks: [usize; 2],
    /// Are there positions beyond 2^30?
    pub wide: bool,
}

/// The sum of the products of two operands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowDot;

impl RowFormula for RowDot {
    fn name(&self) -> String {
        "products".to_string()
    }
    fn key(&self, around: Key) -> Key {
        around.with_formula(self)
    }
    fn arity(&self) -> usize {
        2
    }
    fn folds(&self) -> &'static [Fold] {
        &[Fold::Sum]
    }
    fn out(&self) -> RowOut {
        RowOut::Once
    }
    fn term<'k>(&self, c: Compute, _: usize, x: &[Term<'k>], _: &[Term<'k>; STATS], _: Term<'k>) -> Term<'k> {
        each_float!("products", c, F => (F::new(x[0]) * F::new(x[1])).0)
    }
    fn finish<'k>(
        &self,
        _: Compute,
        _: usize,
        folded: Term<'k>,
        _: &[Term<'k>; STATS],
        _: Term<'k>,
    ) -> Term<'k> {
        folded
    }
    fn result<'k>(&self, _: Compute, _: &[Term<'k>], s: &[Term<'k>; STATS], _: Term<'k>) -> Term<'k> {
        s[0]
    }
}

/// The work of a row-wise op: the operands, then the result. `may_stay`: elements of a row are kept
/// in registers, where there is room. `None` if nothing comes out.
pub fn rows<'a>(
    f: &'a dyn RowFormula,
    dtype: DType,
    x: &[(&Layout, DType)],
    kept: usize,
    budget: RegisterBudget,
    may_stay: bool,
) -> Option<Work<'a>> {
    rows_to(f, dtype, x, kept, dtype.into(), budget, may_stay)
}

/// The same with a result of another type of memory.
pub(crate) fn rows_to<'a>(
    f: &'a dyn RowFormula,
    dtype: DType,
    x: &[(&Layout, DType)],
    kept: usize,
    to: Elem,
    budget: RegisterBudget,
    may_stay: bool,
) -> Option<Work<'a>> {
    let shape = x[0].0.shape();
    let count: usize = shape[..kept].iter().product();
    let n: usize = shape[kept..].iter().product();
    if count * f.out().width(n, f.folds().len()) == 0 {
        return None;
    }
    let layouts: Vec<&Layout> = x.iter().map(|(l, _)| *l).collect();
    let [outer, inner] = [indexing::join(&layouts, 0, kept), indexing::join(&layouts, kept, shape.rank())];
    let tile = RowTile::of(n, super::fold::crossed(&outer, &inner), budget);
    // There may be one row only, in which nothing is read again for others.
    let varies = outer.strides.iter().map(|s| s.is_empty() || s.iter().any(|&s| s != 0));
    let varies: Vec<bool> = varies.collect();
    let in_registers = if may_stay { in_registers(f, dtype, n, tile, &varies, budget) } else { None };
    let length = match in_registers {
        Some(in_registers) => RowLength::in_registers(n, in_registers.parallel_blocks()),
        None => RowLength::of(n, budget).parallel_blocks(n, tile, budget),
    };
    let config = RowwiseConfig {
        dtype,
        operands: x.iter().map(|(_, d)| Elem::from(*d)).collect(),
        to,
        tile,
        length,
        in_registers: in_registers.map(|h| (h, varies)),
        ranks: [outer.dims.len(), inner.dims.len()],
        wide: layouts.iter().any(|l| is_wide(l)),
    };
    let mut all = vec![count as i64, n as i64];
    all.extend(indexing::sizes(&outer.dims, config.wide));
    all.extend(indexing::sizes(&inner.dims, config.wide));
    for (i, l) in layouts.iter().enumerate() {
        all.push(l.offset() as i64);
        all.extend(outer.strides[i].iter().chain(&inner.strides[i]).map(|&s| s as i64));
    }
    let groups = grid(count.div_ceil(config.tile.rows as usize) as u64);
    let (key, scalar) = (f.key(Key::of("rowwise").with(&config)), indexing::scalar(config.wide));
    Some(args::work(key, move || build(f, &config), groups, scalar, &all))
}

/// How many elements of a row are held, of the operands that vary from row to row; `None` if
/// nothing would be read twice.
fn in_registers(
    f: &dyn RowFormula,
    dtype: DType,
    n: usize,
    tile: RowTile,
    varies: &[bool],
    budget: RegisterBudget,
) -> Option<RegisterRow> {
    let passes = f.folds().len() + usize::from(f.out() == RowOut::Each);
    let operands = varies.iter().filter(|&&v| v).count() as u32;
    let words = Compute::from(dtype).scalar().bits() / 32;
    if passes < 2 { None } else { RegisterRow::of(n, tile, operands.max(1) * words, budget) }
}

impl RowwiseConfig {
    fn name(&self, f: &dyn RowFormula) -> String {
        let RowTile { lanes, rows, crossed } = self.tile;
        let elems: String = self.operands.iter().map(|e| format!("_{e}")).collect();
        let [a, b] = self.ranks;
        let crossed = if crossed { "_crossed" } else { "" };
        let in_registers = self.in_registers.as_ref().map_or(String::new(), |(in_registers, of)| {
            let of: String = of.iter().map(|&is| if is { 'h' } else { 's' }).collect();
            format!("{}{of}", in_registers.words())
        });
        let wide = if self.wide { "_wide" } else { "" };
        format!(
            "rowwise_{}{elems}_{}_{}_l{lanes}of{}r{rows}_{a}_{b}{crossed}{in_registers}{wide}",
            f.name(),
            self.dtype,
            self.to,
            self.length.words()
        )
    }
}

/// An operand: where a row of it begins, and the strides in a row.
struct RowOperand<'k> {
    place: Place,
    first: Val<'k>,
    strides: Vec<Val<'k>>,
}

/// The kernel of a form.
pub fn build(f: &dyn RowFormula, config: &RowwiseConfig) -> Kernel {
    let k = Builder::new(&config.name(f), [config.length.invocations(config.tile), 1, 1]);
    let c = Compute::from(config.dtype);
    let places: Vec<Place> = (config.operands.iter().enumerate())
        .map(|(i, &e)| k.buffer(&format!("x{i}"), e, Access::Read))
        .collect();
    let y = k.buffer("y", config.to, Access::Write);
    let [a, b] = config.ranks;
    let sizes = indexing::count(a, config.wide) + indexing::count(b, config.wide);
    let args = LaunchArgs::new(&k, indexing::scalar(config.wide), 2 + sizes + places.len() * (1 + a + b));
    let (rows, n) = (args.get("rows"), args.get("n"));
    let outer = Axes::read(&args, "row", a, config.wide);
    let inner = Axes::read(&args, "in", b, config.wide);

    let r = BlockRow::new(&k, config.tile, config.length, n.scalar(), c.scalar());
    let row = linear_group_id(&k, rows.scalar()) * i64::from(config.tile.rows) + r.row.to(rows.scalar());
    let at = outer.index(row.min(rows - 1));
    let operands: Vec<RowOperand> = (places.iter().enumerate())
        .map(|(i, &place)| {
            let offset = args.get(&format!("offset{i}"));
            let first =
                indexing::position(offset, &at, &indexing::strides(&args, &format!("row_stride{i}"), a));
            RowOperand { place, first, strides: indexing::strides(&args, &format!("in_stride{i}"), b) }
        })
        .collect();
    let length = Term::Value(n.to(c.scalar()));
    // Statistics that a formula has not, or not yet, are 0.
    let s = [Term::Number(Constant::int(c.scalar(), 0)); STATS];
    let all = RowwiseBody { k: &k, f, c, operands, inner, r, n, length, s, exists: row.lt(rows), row, y };
    match &config.in_registers {
        Some((in_registers, of)) => all.in_registers(*in_registers, of),
        None => all.anew(),
    }
    k.finish()
}

/// A kernel up to where its row begins.
struct RowwiseBody<'k, 'f> {
    k: &'k Builder,
    f: &'f dyn RowFormula,
    c: Compute,
    operands: Vec<RowOperand<'k>>,
    /// The axes of a row.
    inner: Axes<'k>,
    r: BlockRow<'k>,
    /// How many elements a row has; as a number of the formula, too.
    n: Val<'k>,
    length: Term<'k>,
    /// The statistics so far.
    s: [Term<'k>; STATS],
    /// Which row; is there one?
    row: Val<'k>,
    exists: Val<'k>,
    y: Place,
}

impl<'k> RowwiseBody<'k, '_> {
    fn load(&self, o: &RowOperand<'k>, at: &[Val<'k>]) -> Term<'k> {
        let place = indexing::position(o.first, at, &o.strides);
        Term::Value(self.c.enter(self.k.load(o.place, place, 1)))
    }
    fn term(&self, j: usize, x: &[Term<'k>]) -> Val<'k> {
        self.f.term(self.c, j, x, &self.s, self.length).value(self.k)
    }
    fn finish(&mut self, j: usize, folded: Val<'k>) {
        self.s[j] = self.f.finish(self.c, j, Term::Value(folded), &self.s, self.length);
    }
    fn result(&self, x: &[Term<'k>]) -> Val<'k> {
        self.f.result(self.c, x, &self.s, self.length).value(self.k)
    }

    /// Elements are read for each statistic, and for the results.
    fn anew(mut self) {
        let element = |all: &Self, i: Val<'k>| {
            let at = all.inner.index(i);
            all.operands.iter().map(|o| all.load(o, &at)).collect::<Vec<Term>>()
        };
        for (j, &fold) in self.f.folds().iter().enumerate() {
            let folded = self.r.fold(fold, self.n, &|i| self.term(j, &element(&self, i)));
            self.finish(j, folded);
        }
        let n = self.n;
        let results = || {
            let store = |i: Val<'k>, v: Val<'k>| self.k.store(self.y, self.row * n + i, v);
            let (mut from, lanes) = self.r.of_row();
            let turns = i64::from(self.r.length.turns);
            if turns > 1 {
                // As for folds, some are loaded before the first is stored.
                let whole = n & -(lanes * turns);
                self.k.each(n.like(0), whole, n.like(lanes * turns), |first| {
                    let places: Vec<Val> = (0..turns).map(|u| first + from + u * lanes).collect();
                    let x: Vec<Vec<Term>> = places.iter().map(|&i| element(&self, i)).collect();
                    places.iter().zip(&x).for_each(|(&i, x)| store(i, self.result(x)));
                });
                from = whole + from;
            }
            self.k.each(from, n, n.like(lanes), |i| store(i, self.result(&element(&self, i))));
        };
        self.store(results);
    }

    /// Elements of some operands are read once.
    fn in_registers(mut self, in_registers: RegisterRow, of: &[bool]) {
        let all = Elements::new(&self.r, in_registers, self.n);
        let at: Vec<Vec<Val>> = all.loaded.iter().map(|&i| self.inner.index(i)).collect();
        let read = |(o, &is): (&RowOperand<'k>, &bool)| -> Vec<Term<'k>> {
            if is { at.iter().map(|at| self.load(o, at)).collect() } else { Vec::new() }
        };
        let registers: Vec<Vec<Term>> = self.operands.iter().zip(of).map(read).collect();
        let element = |code: &Self, e: usize| {
            let one = |(o, in_registers): (&RowOperand<'k>, &Vec<Term<'k>>)| {
                in_registers.get(e).copied().unwrap_or_else(|| code.load(o, &at[e]))
            };
            code.operands.iter().zip(&registers).map(one).collect::<Vec<Term>>()
        };
        let mut terms: Vec<Val> = Vec::new();
        for (j, &fold) in self.f.folds().iter().enumerate() {
            terms = (0..at.len()).map(|e| self.term(j, &element(&self, e))).collect();
            let folded = all.fold(&self.r, fold, &terms);
            self.finish(j, folded);
        }
        let result = |e: usize| {
            let term = terms.get(e).map(|&t| Term::Value(t));
            let kept = term.and_then(|t| self.f.result_of_term(self.c, t, &self.s, self.length));
            kept.map_or_else(|| self.result(&element(&self, e)), |v| v.value(self.k))
        };
        // Not from where elements were loaded: a register for each of those would be kept until
        // here.
        let first = self.row * self.n + self.r.first();
        let store = |e: usize| {
            let store = || self.k.store(self.y, first + all.offset_of[e], result(e));
            match all.there[e] {
                Some(there) => self.k.if_(there, store),
                None => store(),
            }
        };
        self.store(|| (0..at.len()).for_each(store));
    }

    /// Stores what comes out of a row that exists: each element in its own way.
    fn store(&self, each: impl FnOnce()) {
        let (k, leads) = (self.k, self.r.leads());
        k.if_(self.exists, || match self.f.out() {
            RowOut::Once => k.if_(leads, || {
                let none = vec![Term::Number(Constant::float(self.c.scalar(), f64::NAN)); self.f.arity()];
                k.store(self.y, self.row, self.result(&none));
            }),
            RowOut::Statistics => k.if_(leads, || {
                let width = self.f.folds().len() as i64;
                (0..width).for_each(|j| k.store(self.y, self.row * width + j, self.s[j as usize].value(k)));
            }),
            RowOut::Each => each(),
        });
    }
}
