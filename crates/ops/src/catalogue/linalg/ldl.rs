//! LDL factors of symmetric matrices, with the pivots of Bunch and Kaufman (1977), as LAPACK's
//! sytrf chooses them and stores them.
//!
//! A step takes one column, or two by a block of 2 x 2 on the diagonal of D; in the latter case the
//! next step of that matrix changes nothing. So all matrices of a batch take as many steps as they
//! have columns, and choose by select what each step is.

use super::lu::ordered;
use super::{assembled, block, rows_of, turned};
use crate::array;
use crate::catalogue::{abs, add, amax, argmax, concat, eq, expand, gather, mul, narrow, ne, neg, reshape};
use crate::catalogue::{tril, unsqueeze, view, where_};
use crate::prelude::*;
use crate::value::cast;

/// What a step is, as a number in a tensor.
mod kind {
    /// The second of two columns.
    pub const DONE: f64 = -1.0;
    /// One column, whose pivot is on the diagonal.
    pub const OWN: f64 = 0.0;
    /// One column, whose pivot is on the diagonal of the row of the largest element.
    pub const OTHER: f64 = 1.0;
    /// Two columns.
    pub const TWO: f64 = 2.0;
}

/// (1 + sqrt(17)) / 8: with it, elements grow least in two steps of one column and one of two.
const ALPHA: f64 = 0.640_388_203_202_208;

/// The kind of a step: operands are the pivot on the diagonal, the largest element below it, the
/// largest one beside the diagonal in the row of that, what is on the diagonal there (all
/// magnitudes), and 1 if the column is done.
#[derive(Clone, Copy, Debug)]
struct Choose;

impl Map<5> for Choose {
    const NAME: &'static str = "ldl_choose";
    #[inline(always)]
    fn lane<L: Lane>(&self, [own, below, beside, other, done]: [L; 5]) -> L {
        let alpha = L::lit(ALPHA);
        let two = L::select(other.ge(alpha * beside), L::lit(kind::OTHER), L::lit(kind::TWO));
        let grows = own.ge(alpha * below * (below / beside));
        let one = L::select(own.ge(alpha * below) | grows, L::lit(kind::OWN), two);
        L::select(done.eq(L::lit(0.0)), one, L::lit(kind::DONE))
    }
}
compile_map! { 5 Choose; }

/// Factors in the first column: operands are a row's elements of the first two columns, the block
/// of D (its first, lower and last element) and the kind of the step.
#[derive(Clone, Copy, Debug)]
struct First;

impl Map<6> for First {
    const NAME: &'static str = "ldl_first";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y, d, e, f, kind]: [L; 6]) -> L {
        let (zero, one) = (L::lit(0.0), L::lit(1.0));
        let (d11, d22) = (f / e, d / e);
        let pair = (d11 * x - y) / (e * (d11 * d22 - one));
        let single = L::select(d.eq(zero), zero, x / d);
        L::select(kind.eq(L::lit(kind::TWO)), pair, L::select(kind.lt(zero), zero, single))
    }
}
compile_map! { 6 First; }

/// Factors in the second column, 0 if a step takes one: operands as of [`First`].
#[derive(Clone, Copy, Debug)]
struct Second;

impl Map<6> for Second {
    const NAME: &'static str = "ldl_second";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y, d, e, f, kind]: [L; 6]) -> L {
        let (d11, d22) = (f / e, d / e);
        let pair = (d22 * y - x) / (e * (d11 * d22 - L::lit(1.0)));
        L::select(kind.eq(L::lit(kind::TWO)), pair, L::lit(0.0))
    }
}
compile_map! { 6 Second; }

/// What a step leaves: operands are an element, those of its row in the first two columns, the
/// factors of its column, and the kind of the step.
#[derive(Clone, Copy, Debug)]
struct Eliminate;

impl Map<6> for Eliminate {
    const NAME: &'static str = "ldl_step";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, a, l, b, m, kind]: [L; 6]) -> L {
        let one = (-a).fma(l, x);
        let two = (-b).fma(m, one);
        let rest = L::select(kind.eq(L::lit(kind::TWO)), two, one);
        L::select(kind.lt(L::lit(0.0)), x, rest)
    }
}
compile_map! { 6 Eliminate; }

/// The column of the result: operands are the element, its factor, its row, and the kind.
#[derive(Clone, Copy, Debug)]
struct Column;

impl Map<4> for Column {
    const NAME: &'static str = "ldl_column";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, l, row, kind]: [L; 4]) -> L {
        let kept = row.eq(L::lit(0.0)) | kind.lt(L::lit(0.0));
        let of_d = row.eq(L::lit(1.0)) & kind.eq(L::lit(kind::TWO));
        L::select(kept | of_d, x, l)
    }
}
compile_map! { 4 Column; }

/// The first column that the next step sees: operands are what is left there, the element of the
/// second column, its factor, its row, and the kind.
#[derive(Clone, Copy, Debug)]
struct Next;

impl Map<5> for Next {
    const NAME: &'static str = "ldl_next";
    #[inline(always)]
    fn lane<L: Lane>(&self, [rest, x, m, row, kind]: [L; 5]) -> L {
        let of_pair = L::select(row.eq(L::lit(1.0)), x, m);
        L::select(kind.eq(L::lit(kind::TWO)), of_pair, rest)
    }
}
compile_map! { 5 Next; }

/// LD and the exchanges (i32) of [b, n, n], of which the lower triangle is read; n is not 0.
pub(in crate::catalogue) fn factor<B: Backend>(a: &Array<B>) -> Result<[Array<B>; 2]> {
    let &[b, n, _] = &a.shape()[..] else { unreachable!("matrices") };
    let lower = tril(a, 0)?;
    let mut x = add(&lower, &turned(&tril(a, -1)?)?)?;
    let counted: Array<B> = view::numbers(a, n, 0..n as i64)?;
    let rows = cast(&counted, a.dtype())?;
    let mut done = expand(&x.scalar_like(0.0)?, &Shape::new(&[b, 1])?)?;
    let mut last = expand(&counted.scalar_like(0i64)?, &Shape::new(&[b, 1])?)?;
    let (mut columns, mut pivots) = (Vec::with_capacity(n), Vec::with_capacity(n));
    for k in 0..n {
        let left = n - k;
        let own = counted.scalar_like(k as i64 + 1)?;
        let again = ne(&done, &done.scalar_like(0.0)?)?;
        if left == 1 {
            columns.push((x.clone(), k));
            pivots.push(where_(&again, &last, &own)?);
            break;
        }
        let number = narrow(&counted, 0, 0, left)?;
        let (kind, at) = chosen(&x, &done, &number)?;
        let is = |v: f64| eq(&kind, &kind.scalar_like(v)?);
        let (two, zero) = (is(kind::TWO)?, number.scalar_like(0i64)?);
        let stays = crate::catalogue::lt(&kind, &kind.scalar_like(kind::OTHER)?)?;
        let second = where_(&stays, &zero, &at)?;
        let first = where_(&two, &number.scalar_like(1i64)?, &zero)?;
        let order = super::exchanges::orders(&first, &second, left)?;
        let order = reshape::to_shape(&order, &Shape::new(&[b, left])?)?;
        let by_rows = ordered(&x, &order)?;
        let wide = expand(&unsqueeze(&order, 1)?, &Shape::new(&[b, left, left])?)?;
        x = gather(&by_rows, 2, &wide)?;
        let numbered = add(&second, &own)?;
        last = where_(&again, &last, &where_(&two, &neg(&numbered)?, &numbered)?)?;
        pivots.push(last.clone());

        let kind = unsqueeze(&kind, 2)?;
        let (first, second) = (block(&x, 0..left, 0..1)?, block(&x, 0..left, 1..2)?);
        let [d, e] = [rows_of(&first, 0..1)?, rows_of(&first, 1..2)?];
        let of = [&first, &second, &d, &e, &rows_of(&second, 1..2)?, &kind];
        let (l, m) = (array::map(&First, of)?, array::map(&Second, of)?);
        let row = reshape::to_shape(&narrow(&rows, 0, 0, left)?, &Shape::new(&[left, 1])?)?;
        columns.push((array::map(&Column, [&first, &l, &row, &kind])?, k));
        let below = |v: &Array<B>| rows_of(v, 1..left);
        let (l, m) = (below(&l)?, below(&m)?);
        let parts = [
            &block(&x, 1..left, 1..left)?,
            &below(&first)?,
            &turned(&l)?,
            &below(&second)?,
            &turned(&m)?,
            &kind,
        ];
        let rest = array::map(&Eliminate, parts)?;
        let row = narrow(&row, 0, 1, left - 1)?;
        let next = [&block(&rest, 0..left - 1, 0..1)?, &below(&second)?, &m, &row, &kind];
        let next = array::map(&Next, next)?;
        x = if left == 2 { next } else { concat(&[&next, &block(&rest, 0..left - 1, 1..left - 1)?], 2)? };
        done = cast(&two, a.dtype())?;
    }
    let all = columns.iter().map(|(c, k)| (c, *k, *k)).collect::<Vec<_>>();
    let pivots = concat(&pivots.iter().collect::<Vec<_>>(), 1)?;
    Ok([assembled(&all, n, n)?, pivots.cast(DType::I32)?])
}

/// The kind of the next step of [b, s, s], and the row of the largest element below the diagonal in
/// column 0: [b, 1] each.
fn chosen<B: Backend>(x: &Array<B>, done: &Array<B>, number: &Array<B>) -> Result<(Array<B>, Array<B>)> {
    let &[b, left, _] = &x.shape()[..] else { unreachable!("matrices") };
    let flat = |v: &Array<B>, n: usize| reshape::to_shape(v, &Shape::new(&[b, n])?);
    let below = abs(&flat(&block(x, 1..left, 0..1)?, left - 1)?)?;
    let at = argmax(&below, Some(1), true)?;
    let most = gather(&below, 1, &at)?;
    let at = add(&at, &at.scalar_like(1i64)?)?;
    let row = abs(&flat(&ordered(x, &at)?, left)?)?;
    let other = gather(&row, 1, &at)?;
    let beside = amax(&mul(&row, &cast(&ne(number, &at)?, x.dtype())?)?, Some(&[1]), true)?;
    let own = abs(&flat(&block(x, 0..1, 0..1)?, 1)?)?;
    Ok((array::map(&Choose, [&own, &most, &beside, &other, done])?, at))
}

/// LD and the exchanges of matrices [b, n, n].
#[derive(Clone, Copy, Debug)]
pub(in crate::catalogue) struct LdlFactor;

impl Op for LdlFactor {
    fn name(&self) -> &'static str {
        "ldl_factor"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::NOTHING
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        Ok(Outputs::from_iter(factor(x[0])?))
    }
    fn backward<V: Value>(&self, _: &Context<V>, _: &[Option<V>]) -> Result<Vec<Option<V>>> {
        Err(Error::autograd("ldl_factor: its results have no gradient, as in PyTorch; take those of solve"))
    }
}
