//! std: the square root of the variance. Its gradient is 0 where it is 0.
//!
//! Distances from the mean whose squares would overflow or become subnormal are multiplied by a
//! power of two before they are squared, and the root by its inverse: so that the root of a
//! variance beyond the range of the type is right.

use super::{sum, var};
use crate::math::exact_power;
use crate::prelude::*;
use crate::rows::STATS;

/// Statistics: the mean, the power of two c by which distances are multiplied, then the sum of ((x
/// - mean) c)^2.
#[derive(Clone, Copy, Debug)]
pub struct Std {
    /// The variance under the root.
    pub var: var::Var,
}

/// The power of two for numbers of which this is the largest: 1 unless their squares, or sums of
/// them, could leave the range of the type.
#[inline(always)]
fn level<L: Lane>(largest: L) -> L {
    // Of f32, numbers from 2^40 to 2^128 become 2^-40 to 2^48, and those from 2^-149 to 2^-40
    // become 2^-69 to 2^40.
    let (bound, power) = if L::bits() == 32 { (40, 80) } else { (300, 600) };
    let is_small = largest.lt(L::lit(exact_power(-bound))) & largest.gt(L::lit(0.0));
    let up = L::select(is_small, L::lit(exact_power(power)), L::lit(1.0));
    L::select(largest.gt(L::lit(exact_power(bound))), L::lit(exact_power(-power)), up)
}

/// g / y, but 0 at y = 0.
#[derive(Clone, Copy, Debug)]
struct Slope;

impl Map<2> for Slope {
    const NAME: &'static str = "std";
    #[inline(always)]
    fn lane<L: Lane>(&self, [y, g]: [L; 2]) -> L {
        L::select(y.eq(L::lit(0.0)), L::lit(0.0), g / y)
    }
}
compile_map! { 2 Slope; }

impl RowFormula<1> for Std {
    const NAME: &'static str = "std";
    const FOLDS: &'static [Fold] = &[Fold::Sum, Fold::Max, Fold::Sum];
    const PLAIN: bool = true;
    const OUT: RowOut = RowOut::Once;
    const SAVES: Saves = Saves::BOTH;

    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, [x]: [L; 1], s: [L; STATS], _: L) -> L {
        let distance = x - s[0];
        match k {
            0 => x,
            1 => distance.abs(),
            _ => (distance * s[1]) * (distance * s[1]),
        }
    }
    #[inline(always)]
    fn finish<L: Lane>(&self, k: usize, folded: L, _: [L; STATS], n: L) -> L {
        match k {
            0 => folded / n,
            1 => level(folded),
            _ => folded,
        }
    }
    #[inline(always)]
    fn out<L: Lane>(&self, _: [L; 1], s: [L; STATS], n: L) -> L {
        self.var.mean_square(s[2], n).sqrt() / s[1]
    }
}
impl Rows<1> for Std {
    fn backward<V: Value>(&self, axes: &[usize], c: &Context<V>, g: &V) -> Result<Vec<Option<V>>> {
        let scale = 1.0 / var::divisor(c.shape(0), axes, self.var.correction);
        let slope = map(Slope, [c.y(0), g])?;
        Ok(vec![Some(var::centered(axes, c.x(0), &slope, scale)?)])
    }
}
compile_rows! { 1 Std; }

/// The standard deviation over `dims` (all axes if `None` or empty): the square root of the
/// variance.
///
/// # Errors
/// `InvalidArgument` if there is no such axis; `DTypeMismatch` if x is not of floats;
/// `OutOfMemory`.
pub fn std_<V: Value>(x: &V, dims: Option<&[isize]>, correction: f64, keepdim: bool) -> Result<V> {
    let axes = sum::axes("std", x.shape(), dims)?;
    let y = rows(Std { var: var::Var { correction } }, &axes, [x])?;
    sum::drop_axes(y, &axes, keepdim)
}

/// By name: operand x; attributes dim (null, an axis or a list), correction and keepdim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let dims = a.maybe("dim", Args::dims)?;
    Ok(vec![std_(a.input("x")?, dims.as_deref(), a.f64("correction")?, a.bool("keepdim")?)?])
}
