//! scatter_reduce: elements reduced along an axis at given indices: sum, product, mean, maximum or
//! minimum.
//!
//! Sums run one by one in row-major order of the index. Products and extremes have no scatter of
//! their own: sources are sorted by their target, stably, reduced by doubling within the group of
//! each target, and the last of each group is written.

use super::scatter::{self, checked};
use super::slice::{self, Run};
use super::{
    add, cast, div::div, doubling, eq, flatten, floor_divide, gather, logical_and, masked_fill, maximum, minimum, mul,
    reshape, scatter_add, sort, view, where_,
};
use crate::prelude::*;

/// How elements with one target are reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    /// Their sum.
    Sum,
    /// Their product.
    Prod,
    /// Their sum, divided by their number; of integers, rounded down.
    Mean,
    /// The largest; NaN wins. Equal elements share the gradient.
    Amax,
    /// The smallest; NaN wins. Equal elements share the gradient.
    Amin,
}

impl Reduce {
    /// From the word for it.
    ///
    /// # Errors
    /// `InvalidArgument` if there is none.
    pub fn parse(op: &str, word: &str) -> Result<Reduce> {
        Ok(match word {
            "sum" => Reduce::Sum,
            "prod" => Reduce::Prod,
            "mean" => Reduce::Mean,
            "amax" | "max" => Reduce::Amax,
            "amin" | "min" => Reduce::Amin,
            other => {
                return Err(Error::argument(format!(
                    "{op}: reduce is {other}; it must be sum, prod, mean, amax or amin"
                )));
            }
        })
    }
}

/// A product or an extreme of operand 2 per index, operand 1 of the same shape, in a copy of
/// operand 0.
#[derive(Clone, Copy, Debug)]
struct ScatterReduce {
    how: Reduce,
    axis: usize,
    include_self: bool,
}

impl ScatterReduce {
    fn pair<V: Value>(self, x: &V, y: &V) -> Result<V> {
        match self.how {
            Reduce::Prod => mul(x, y),
            Reduce::Amax => maximum(x, y),
            Reduce::Amin => minimum(x, y),
            Reduce::Sum | Reduce::Mean => unreachable!("sums are composed"),
        }
    }

    /// The gradients by x and src before elements that do not take part are left out.
    fn product_gradients<V: Value>(self, c: &Context<V>, g: &V) -> Result<(V, V)> {
        let (x, index, src, dim) = (c.x(0), c.x(1), c.x(2), self.axis as isize);
        let at = |v: &V| gather(v, dim, index);
        let run = |x: &V, src: &V| V::apply(self, &[x, index, src]);
        let zero = |v: &V| eq(v, &v.scalar_like(0.0)?);
        let one = Scalar::Int(1);
        // The factor of an element is the product of the others: the result divided by it, and
        // computed again with 1 in its place where it is zero, if it is the only zero.
        let safe = masked_fill(x, &zero(x)?, one)?;
        let dx = mul(g, &div(&run(&safe, src)?, &safe)?)?;
        let is_zero = zero(src)?;
        let none = view::zeros(g, x.shape())?.detached();
        let zeros = at(&scatter_add(&none, dim, index, &cast(&is_zero, g.dtype())?)?)?;
        let alone = logical_and(&is_zero, &eq(&zeros, &zeros.scalar_like(1.0)?)?)?;
        let without = run(x, &masked_fill(src, &alone, one)?)?;
        let product = c.y(0);
        let divided = div(&at(&mul(g, product)?)?, &masked_fill(src, &is_zero, one)?)?;
        Ok((dx, where_(&alone, &at(&mul(g, &without)?)?, &divided)?))
    }

    fn extreme_gradients<V: Value>(self, c: &Context<V>, g: &V) -> Result<(V, V)> {
        let (x, index, src, dim) = (c.x(0), c.x(1), c.x(2), self.axis as isize);
        let y = c.y(0);
        let own = cast(&eq(x, y)?, g.dtype())?;
        let theirs = cast(&eq(src, &gather(y, dim, index)?)?, g.dtype())?;
        let start = if self.include_self { own.clone() } else { scatter::value(&own, dim, index, Scalar::Int(0))? };
        let winners = scatter_add(&start, dim, index, &theirs)?;
        let share = div(g, &masked_fill(&winners, &eq(&winners, &winners.scalar_like(0.0)?)?, Scalar::Int(1))?)?;
        Ok((mul(&own, &share)?, mul(&theirs, &gather(&share, dim, index)?)?))
    }
}

impl Op for ScatterReduce {
    fn name(&self) -> &'static str {
        "scatter_reduce"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::BOTH
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        let [base, index, src] = [x[0], x[1], x[2]];
        // Also the check of the indices.
        let own = gather(base, self.axis as isize, index).map_err(|e| e.at("scatter_reduce"))?;
        let strides = Layout::contiguous(base.shape().clone());
        let mut at: Array<B> = view::numbers(base, 1, [0])?;
        for (axis, &n) in index.shape().iter().enumerate() {
            let stride = strides.strides()[axis] as i64;
            let along = if axis == self.axis {
                mul(index, &index.scalar_like(stride)?)?
            } else {
                let mut dims = Dims::from_elem(1, index.shape().rank());
                dims[axis] = n;
                let row: Array<B> = view::numbers(base, n, (0..n as i64).map(|i| i * stride))?;
                row.reshape(&Shape::new(&dims)?)?
            };
            at = add(&at, &along)?;
        }
        let (targets, order) = sort(&flatten::all(&at)?, 0, false)?;
        let sources = gather(&flatten::all(src)?, 0, &order)?;
        let [_, mut reduced] = doubling::scan([targets.clone(), sources], 0, |early, late| {
            let same = eq(&early[0], &late[0])?;
            Ok([late[0].clone(), where_(&same, &self.pair(&early[1], &late[1])?, &late[1])?])
        })?;
        if self.include_self {
            reduced = self.pair(&gather(&flatten::all(&own)?, 0, &order)?, &reduced)?;
        }
        // Of equal targets the last is written, which is the whole group's.
        let y = super::scatter(&flatten::all(base)?, 0, &targets, &reduced)?;
        Ok(Outputs::from_iter([reshape::to_shape(&y, base.shape())?]))
    }
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("scatter_reduce has one result");
        let (mut dx, dsrc) = match self.how {
            Reduce::Prod => self.product_gradients(c, g)?,
            Reduce::Amax | Reduce::Amin => self.extreme_gradients(c, g)?,
            Reduce::Sum | Reduce::Mean => unreachable!("sums are composed"),
        };
        if !self.include_self {
            dx = scatter::value(&dx, self.axis as isize, c.x(1), Scalar::Int(0))?;
        }
        Ok(vec![Some(dx), None, Some(dsrc)])
    }
}

/// Reduces `src` into a copy of `x`; all with an axis at least, the index as large as `src`.
///
/// # Errors
/// As [`scatter_reduce`].
pub(super) fn run<V: Value>(
    op: &str,
    [x, at, src]: [&V; 3],
    axis: usize,
    how: Reduce,
    include_self: bool,
) -> Result<V> {
    let dim = axis as isize;
    let emptied = |x: &V| if include_self { Ok(x.clone()) } else { scatter::value(x, dim, at, Scalar::Int(0)) };
    let sum = |x: &V, src: &V| scatter_add(&emptied(x)?, dim, at, src);
    let y = match how {
        Reduce::Sum => sum(x, src),
        Reduce::Mean if x.dtype().is_float() => widen([x, src], |[x, src]| {
            let ones = |v: &V| v.full_like(1.0);
            div(&sum(x, src)?, &sum(&ones(x)?, &ones(src)?)?)
        }),
        Reduce::Mean => {
            let ones = |v: &V| v.full_like(1i64);
            floor_divide(&sum(x, src)?, &sum(&ones(x)?, &ones(src)?)?)
        }
        Reduce::Prod | Reduce::Amax | Reduce::Amin => widen([x, src], |[x, src]| {
            V::apply(ScatterReduce { how, axis, include_self }, &[x, at, src])
        }),
    };
    y.map_err(|e| e.at(op))
}

/// A copy of `x` in which each element that `index` names along `dim` (as for `scatter`) is the
/// reduction of the elements of `src` with this target, and of itself if `include_self`. Elements
/// that no index names stay.
///
/// # Errors
/// As [`scatter`](fn@super::scatter).
pub fn scatter_reduce<V: Value>(
    x: &V,
    dim: isize,
    index: &V,
    src: &V,
    reduce: Reduce,
    include_self: bool,
) -> Result<V> {
    let Some((axis, [base, at, from])) = checked("scatter_reduce", x, dim, index, src)? else {
        return Ok(x.clone());
    };
    let used: Vec<Run> = at.shape().iter().map(|&n| Run::all(n)).collect();
    let from = slice::runs(&from, &used)?;
    let y = run("scatter_reduce", [&base, &at, &from], axis, reduce, include_self)?;
    reshape::to_shape(&y, x.shape())
}

/// By name: operands x, index and src; attributes dim, reduce (sum, prod, mean, amax or amin) and
/// include_self (absent: true).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let reduce = Reduce::parse(&a.op, a.str("reduce")?)?;
    let include_self = a.maybe("include_self", Args::bool)?.unwrap_or(true);
    let (x, index, src) = (a.input("x")?, a.input("index")?, a.input("src")?);
    Ok(vec![scatter_reduce(x, a.dim("dim")?, index, src, reduce, include_self)?])
}
