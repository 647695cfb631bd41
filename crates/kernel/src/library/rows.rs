//! Row-wise ops: statistics of a row, then a value for each element or for the row, in one kernel.
//!
//! Each statistic is a fold of terms in the canonical order (see `row`), computed anew from the operands, so a row may
//! be of any length. What the formula does at an element is the catalogue's formula.

use super::formula::Compute;
use super::index::{self, Axes, is_wide};
use super::numbers::{self, Numbers};
use super::row::{Row, Tile, lanes};
use super::{Key, Work, grid, group_number};
use crate::build::{Builder, Val};
use crate::ir::{Access, Constant, Elem, Kernel, Place};
use crate::lane::{Float, Term, W32, W64};
use elinvar_core::{DType, Layout, order};
use elinvar_ops::backend::Fold;
use elinvar_ops::rows::{RowOut, Rows, STATS};

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
}

/// A row-wise op of the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct OfRows<R, const N: usize>(pub R);

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

impl<R: Rows<N>, const N: usize> RowFormula for OfRows<R, N> {
    fn name(&self) -> String {
        R::NAME.to_string()
    }
    fn key(&self, around: Key) -> Key {
        around.with_formula(&self.0)
    }
    fn arity(&self) -> usize {
        N
    }
    fn folds(&self) -> &'static [Fold] {
        R::FOLDS
    }
    fn out(&self) -> RowOut {
        R::OUT
    }
    fn term<'k>(&self, c: Compute, j: usize, x: &[Term<'k>], s: &[Term<'k>; STATS], n: Term<'k>) -> Term<'k> {
        each_float!(R::NAME, c, F => {
            self.0.term::<F>(j, std::array::from_fn(|i| F::new(x[i])), s.map(F::new), F::new(n)).0
        })
    }
    fn finish<'k>(
        &self,
        c: Compute,
        j: usize,
        folded: Term<'k>,
        s: &[Term<'k>; STATS],
        n: Term<'k>,
    ) -> Term<'k> {
        each_float!(R::NAME, c, F => self.0.finish::<F>(j, F::new(folded), s.map(F::new), F::new(n)).0)
    }
    fn result<'k>(&self, c: Compute, x: &[Term<'k>], s: &[Term<'k>; STATS], n: Term<'k>) -> Term<'k> {
        each_float!(R::NAME, c, F => {
            self.0.out::<F>(std::array::from_fn(|i| F::new(x[i])), s.map(F::new), F::new(n)).0
        })
    }
}

/// What a kernel is built for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Form {
    /// The dtype of the work.
    pub dtype: DType,
    /// What the operands hold.
    pub operands: Vec<Elem>,
    /// What the result holds.
    pub to: Elem,
    /// How rows are given to invocations.
    pub tile: Tile,
    /// Lanes that can have a term.
    pub lanes: u32,
    /// May rows be longer than a block?
    pub many: bool,
    /// Joined axes of the rows, and in a row.
    pub ranks: [usize; 2],
    /// Are there positions beyond 2^30?
    pub wide: bool,
}

/// The sum of the products of two operands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Products;

impl RowFormula for Products {
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

/// The work of a row-wise op: the operands, then the result. `None` if nothing comes out.
pub fn rows<'a>(
    f: &'a dyn RowFormula,
    dtype: DType,
    x: &[(&Layout, DType)],
    kept: usize,
) -> Option<Work<'a>> {
    rows_to(f, dtype, x, kept, dtype.into())
}

/// The same with a result of another type of memory.
pub(super) fn rows_to<'a>(
    f: &'a dyn RowFormula,
    dtype: DType,
    x: &[(&Layout, DType)],
    kept: usize,
    to: Elem,
) -> Option<Work<'a>> {
    let shape = x[0].0.shape();
    let count: usize = shape[..kept].iter().product();
    let n: usize = shape[kept..].iter().product();
    if count * f.out().width(n, f.folds().len()) == 0 {
        return None;
    }
    let layouts: Vec<&Layout> = x.iter().map(|(l, _)| *l).collect();
    let [outer, inner] = [index::join(&layouts, 0, kept), index::join(&layouts, kept, shape.rank())];
    let form = Form {
        dtype,
        operands: x.iter().map(|(_, d)| Elem::from(*d)).collect(),
        to,
        tile: Tile::of(n, super::fold::crossed(&outer, &inner)),
        lanes: lanes(n),
        many: n > order::BLOCK,
        ranks: [outer.dims.len(), inner.dims.len()],
        wide: layouts.iter().any(|l| is_wide(l)),
    };
    let mut all = vec![count as i64, n as i64];
    all.extend(index::sizes(&outer.dims, form.wide));
    all.extend(index::sizes(&inner.dims, form.wide));
    for (i, l) in layouts.iter().enumerate() {
        all.push(l.offset() as i64);
        all.extend(outer.strides[i].iter().chain(&inner.strides[i]).map(|&s| s as i64));
    }
    let groups = grid(count.div_ceil(form.tile.rows as usize) as u64);
    let (key, scalar) = (f.key(Key::of("rows").with(&form)), index::scalar(form.wide));
    Some(numbers::work(key, move || build(f, &form), groups, scalar, &all))
}

impl Form {
    fn name(&self, f: &dyn RowFormula) -> String {
        let Tile { lanes, rows, crossed } = self.tile;
        let elems: String = self.operands.iter().map(|e| format!("_{e}")).collect();
        let [a, b] = self.ranks;
        let crossed = if crossed { "_crossed" } else { "" };
        let many = if self.many { "_many" } else { "" };
        let wide = if self.wide { "_wide" } else { "" };
        format!(
            "rows_{}{elems}_{}_{}_l{lanes}of{}r{rows}_{a}_{b}{crossed}{many}{wide}",
            f.name(),
            self.dtype,
            self.to,
            self.lanes
        )
    }
}

/// An operand: where a row of it begins, and the strides in a row.
struct Operand<'k> {
    place: Place,
    first: Val<'k>,
    strides: Vec<Val<'k>>,
}

/// The kernel of a form.
pub fn build(f: &dyn RowFormula, form: &Form) -> Kernel {
    let k = Builder::new(&form.name(f), [form.tile.invocations(), 1, 1]);
    let c = Compute::from(form.dtype);
    let places: Vec<Place> = (form.operands.iter().enumerate())
        .map(|(i, &e)| k.buffer(&format!("x{i}"), e, Access::Read))
        .collect();
    let y = k.buffer("y", form.to, Access::Write);
    let [a, b] = form.ranks;
    let sizes = index::count(a, form.wide) + index::count(b, form.wide);
    let numbers = Numbers::new(&k, index::scalar(form.wide), 2 + sizes + places.len() * (1 + a + b));
    let (rows, n) = (numbers.get("rows"), numbers.get("n"));
    let outer = Axes::read(&numbers, "row", a, form.wide);
    let inner = Axes::read(&numbers, "in", b, form.wide);

    let r = Row::new(&k, form.tile, form.lanes, n, c.scalar(), form.many);
    let row = group_number(&k, rows.scalar()) * i64::from(form.tile.rows) + r.row.to(rows.scalar());
    let at = outer.index(row.min(rows - 1));
    let operands: Vec<Operand> = (places.iter().enumerate())
        .map(|(i, &place)| {
            let offset = numbers.get(&format!("offset{i}"));
            let first = index::position(offset, &at, &index::strides(&numbers, &format!("row_stride{i}"), a));
            Operand { place, first, strides: index::strides(&numbers, &format!("in_stride{i}"), b) }
        })
        .collect();
    let element = |i: Val<'_>| {
        let at = inner.index(i);
        let load = |o: &Operand<'_>| {
            Term::Value(c.enter(k.load(o.place, index::position(o.first, &at, &o.strides), 1)))
        };
        operands.iter().map(load).collect::<Vec<Term>>()
    };

    let length = Term::Value(n.to(c.scalar()));
    // Statistics that a formula has not, or not yet, are 0.
    let mut s = [Term::Number(Constant::int(c.scalar(), 0)); STATS];
    for (j, &fold) in f.folds().iter().enumerate() {
        let folded = r.fold(fold, &|i| f.term(c, j, &element(i), &s, length).value(&k));
        s[j] = f.finish(c, j, Term::Value(folded), &s, length);
    }
    k.if_(row.lt(rows), || match f.out() {
        RowOut::Once => k.if_(r.lane.eq(r.lane.like(0)), || {
            let none = vec![Term::Number(Constant::float(c.scalar(), f64::NAN)); f.arity()];
            k.store(y, row, f.result(c, &none, &s, length).value(&k));
        }),
        RowOut::Statistics => k.if_(r.lane.eq(r.lane.like(0)), || {
            let width = f.folds().len() as i64;
            (0..width).for_each(|j| k.store(y, row * width + j, s[j as usize].value(&k)));
        }),
        RowOut::Each => {
            k.each(r.lane, n, n.like(i64::from(form.tile.lanes)), |i| {
                k.store(y, row * n + i, f.result(c, &element(i), &s, length).value(&k));
            });
        }
    });
    k.finish()
}
