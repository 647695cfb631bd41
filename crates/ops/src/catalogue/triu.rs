//! triu: the upper triangle of matrices, 0 elsewhere.

use super::{reshape, view};
use crate::array;
use crate::prelude::*;
use elinvar_core::host;

/// The elements of the last two axes on one side of a diagonal, and on it; 0 elsewhere. Linear, so
/// it is its own gradient.
#[derive(Clone, Copy, Debug)]
struct Triangle {
    diagonal: isize,
    upper: bool,
}

/// x on that side of the diagonal, else 0: operands x, the column at which the diagonal meets its
/// row, and its own column. One pass over x, instead of a comparison and a select.
#[derive(Clone, Copy, Debug)]
struct Side {
    upper: bool,
}

impl Map<3> for Side {
    const NAME: &'static str = "triangle";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, meets, column]: [L; 3]) -> L {
        let inside = if self.upper { meets.le(column) } else { column.le(meets) };
        L::select(inside, x, L::lit(0.0))
    }
}
compile_map! { 3 Side; }

impl Op for Triangle {
    fn name(&self) -> &'static str {
        "triangle"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::NOTHING
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        let x = x[0];
        let (rows, cols) = sides(x.shape()).expect("it has rows and columns");
        // A diagonal that meets a row outside of the matrix is clamped to the number of columns.
        let meets = |row: usize| (row as isize).saturating_add(self.diagonal).clamp(-1, cols as isize) as f64;
        let numbers = |v: Vec<f64>, shape: &[usize]| Array::from_f64s(x.device(), v, shape, x.dtype());
        let meets = numbers(host::collected((0..rows).map(meets))?, &[rows, 1])?;
        let columns = numbers(host::collected((0..cols).map(|column| column as f64))?, &[cols])?;
        Ok(Outputs::from_buf([array::map(&Side { upper: self.upper }, [x, &meets, &columns])?]))
    }
    fn backward<V: Value>(&self, _: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("a triangle has one result");
        Ok(vec![Some(V::apply(*self, &[g])?)])
    }
}

/// Rows and columns.
fn sides(s: &Shape) -> Option<(usize, usize)> {
    if let [.., rows, cols] = s[..] { Some((rows, cols)) } else { None }
}

/// The elements of the last two axes of `x` on one side of a diagonal; 0 elsewhere.
///
/// # Errors
/// `ShapeMismatch` if x has fewer than two axes; `OutOfMemory`.
pub(super) fn triangle<V: Value>(op: &str, x: &V, diagonal: isize, upper: bool) -> Result<V> {
    /// Sizes whose column numbers are exact in f32.
    const EXACT: usize = 1 << 24;
    let Some((rows, cols)) = sides(x.shape()) else {
        return Err(Error::shape(format!(
            "{op}: shape {} has no two axes; a matrix has rows and columns",
            x.shape()
        )));
    };
    if matches!(x.dtype(), DType::F32 | DType::F64) && rows.max(cols) < EXACT {
        return V::apply(Triangle { diagonal, upper }, &[x]).map_err(|e| e.at(op));
    }
    let meets = (0..rows as i64).map(|r| r.saturating_add(diagonal as i64));
    let meets = reshape::to_shape(&view::numbers(x, rows, meets)?, &Shape::new(&[rows, 1])?)?;
    let column = view::numbers(x, cols, 0..cols as i64)?;
    let inside = if upper { super::le(&meets, &column)? } else { super::le(&column, &meets)? };
    super::where_(&inside, x, &view::zeros(x, &Shape::scalar())?)
}

/// The elements of the last two axes of `x` on and above the diagonal that is `diagonal` above the
/// main one; 0 below.
///
/// # Errors
/// `ShapeMismatch` if x has fewer than two axes; `OutOfMemory`.
pub fn triu<V: Value>(x: &V, diagonal: isize) -> Result<V> {
    triangle("triu", x, diagonal, true)
}

/// By name: operand x; attribute diagonal.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![triu(a.input("x")?, a.dim("diagonal")?)?])
}
