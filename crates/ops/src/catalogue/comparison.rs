//! Shared by the six comparisons: with a number.
//!
//! Integers and bool are compared exactly with any number, also with one that their dtype cannot
//! hold: 100u8 > -1 and 3i32 < 3.5 are true, and 44u8 == 300 is false.

use super::{eq, ge, gt, le, lt, ne};
use crate::prelude::*;

/// Which comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// x == y
    Eq,
    /// x != y
    Ne,
    /// x < y
    Lt,
    /// x <= y
    Le,
    /// x > y
    Gt,
    /// x >= y
    Ge,
}

/// What a comparison with a number comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Meaning {
    /// The same for every element.
    All(bool),
    /// The comparison with this number, which the dtype can hold.
    With(Scalar),
}

impl Comparison {
    /// The comparison of y with x: its operands changed places.
    fn turned(self) -> Self {
        match self {
            Comparison::Eq => Comparison::Eq,
            Comparison::Ne => Comparison::Ne,
            Comparison::Lt => Comparison::Gt,
            Comparison::Le => Comparison::Ge,
            Comparison::Gt => Comparison::Lt,
            Comparison::Ge => Comparison::Le,
        }
    }
    fn run<V: Value>(self, x: &V, y: &V) -> Result<V> {
        match self {
            Comparison::Eq => eq(x, y),
            Comparison::Ne => ne(x, y),
            Comparison::Lt => lt(x, y),
            Comparison::Le => le(x, y),
            Comparison::Gt => gt(x, y),
            Comparison::Ge => ge(x, y),
        }
    }
    fn meaning(self, dtype: DType, y: Scalar) -> Meaning {
        let Some((low, high)) = dtype.range() else { return Meaning::With(y) };
        let Some((floor, is_whole)) = y.floor() else { return Meaning::All(self == Comparison::Ne) };
        let (low, high) = (i128::from(low), i128::from(high));
        // In the range of the dtype, which is within that of i64.
        let with = |v: i128| Meaning::With(Scalar::Int(v as i64));
        match self {
            Comparison::Eq | Comparison::Ne if is_whole && (low..=high).contains(&floor) => with(floor),
            Comparison::Eq | Comparison::Ne => Meaning::All(self == Comparison::Ne),
            // Of the numbers of the dtype, those up to y are those up to its floor.
            Comparison::Le | Comparison::Gt if floor >= high => Meaning::All(self == Comparison::Le),
            Comparison::Le | Comparison::Gt if floor < low => Meaning::All(self == Comparison::Gt),
            Comparison::Le | Comparison::Gt => with(floor),
            // Those below y are those below its ceiling.
            Comparison::Lt | Comparison::Ge => match floor.saturating_add((!is_whole).into()) {
                ceil if ceil > high => Meaning::All(self == Comparison::Lt),
                ceil if ceil <= low => Meaning::All(self == Comparison::Ge),
                ceil => with(ceil),
            },
        }
    }
}

/// `x` compared with a number, elementwise, as bool. Integers and bool are compared exactly; floats
/// with the number rounded to their dtype, as everywhere.
///
/// # Errors
/// `OutOfMemory`.
pub fn with_number<V: Value>(c: Comparison, x: &V, y: Scalar) -> Result<V> {
    match c.meaning(x.dtype(), y) {
        Meaning::With(y) => c.run(x, &x.scalar_like(y)?),
        Meaning::All(v) => {
            Ok(V::from_array(Array::full(x.device(), x.shape(), Scalar::Bool(v), DType::Bool)?))
        }
    }
}

/// By name: operands x and y, or x and the attribute scalar on its side.
pub(super) fn call<V: Value>(a: &Args<V>, c: Comparison) -> Result<Vec<V>> {
    let x = a.input("x")?;
    Ok(vec![match a.optional("y") {
        Some(y) => c.run(x, y)?,
        None => with_number(if a.on_the_left()? { c.turned() } else { c }, x, a.scalar("scalar")?)?,
    }])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every u8 and bool with numbers around the ends of their ranges, against f64, which holds all
    /// of them.
    #[test]
    fn comparisons_are_those_of_the_numbers() {
        let numbers = [
            -1e300,
            -300.0,
            -1.0,
            -0.5,
            -0.0,
            0.0,
            0.5,
            1.0,
            1.5,
            2.0,
            44.0,
            254.5,
            255.0,
            255.5,
            256.0,
            300.0,
            1e300,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
        ];
        type F = fn(f64, f64) -> bool;
        let rows: [(Comparison, F); 6] = [
            (Comparison::Eq, |x, y| x == y),
            (Comparison::Ne, |x, y| x != y),
            (Comparison::Lt, |x, y| x < y),
            (Comparison::Le, |x, y| x <= y),
            (Comparison::Gt, |x, y| x > y),
            (Comparison::Ge, |x, y| x >= y),
        ];
        for (c, f) in rows {
            for (dtype, most) in [(DType::U8, 255), (DType::Bool, 1)] {
                for y in numbers {
                    for x in (0..=most).map(f64::from) {
                        let got = match c.meaning(dtype, Scalar::Float(y)) {
                            Meaning::All(v) => v,
                            Meaning::With(n) => {
                                n.fits(dtype).unwrap();
                                f(x, n.to_f64())
                            }
                        };
                        assert_eq!(got, f(x, y), "{x} {c:?} {y} in {dtype}");
                        assert_eq!(rows[c.turned() as usize].1(y, x), f(x, y), "{y} and {x} {c:?}");
                    }
                }
            }
        }
        // Beyond f64: i64 with the float next to its largest number.
        let top = Scalar::Float(2f64.powi(63));
        assert_eq!(Comparison::Lt.meaning(DType::I64, top), Meaning::All(true));
        assert_eq!(Comparison::Eq.meaning(DType::I64, top), Meaning::All(false));
        let low = Scalar::Float(-(2f64.powi(63)));
        assert_eq!(Comparison::Lt.meaning(DType::I64, low), Meaning::All(false));
        assert_eq!(Comparison::Le.meaning(DType::I64, low), Meaning::With(Scalar::Int(i64::MIN)));
        assert_eq!(Comparison::Ge.meaning(DType::I32, Scalar::Int(1 << 32)), Meaning::All(false));
    }
}
