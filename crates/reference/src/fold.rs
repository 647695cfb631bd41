//! Folds and scans along axes, in the order of `elinvar_core::order`.

use crate::View;
use crate::cell::Cell;
use crate::compute::{Compute, convert, each_float, each_int, elements, gather, misuse, rows_of};
use elinvar_core::host::with_capacity;
use elinvar_core::{DType, Element, HostData, Result, Scalar, each_data, each_dtype, order};
use elinvar_ops::backend::{ArgFold, Fold, Scan};
use elinvar_ops::int::Int;
use elinvar_ops::lane::Lane;

/// The initial value of a fold, and its result over no elements.
pub fn start<L: Lane>(f: Fold) -> L {
    L::lit(match f {
        Fold::Sum => 0.0,
        Fold::Prod => 1.0,
        Fold::Max => f64::NEG_INFINITY,
        Fold::Min => f64::INFINITY,
    })
}

/// How a fold combines two numbers.
pub fn combine<L: Lane>(f: Fold, a: L, b: L) -> L {
    match f {
        Fold::Sum => a + b,
        Fold::Prod => a * b,
        Fold::Max => a.max(b),
        Fold::Min => a.min(b),
    }
}

/// The least and the greatest number of a type.
trait Limits {
    const LEAST: Self;
    const GREATEST: Self;
}
macro_rules! limits {
    ($($t:ty: $least:expr, $greatest:expr;)*) => {$(
        impl Limits for $t {
            const LEAST: Self = $least;
            const GREATEST: Self = $greatest;
        }
    )*};
}
limits! { i64: i64::MIN, i64::MAX; i32: i32::MIN, i32::MAX; u8: 0, 255; bool: false, true; }

/// Combines the elements of each row.
pub fn fold(f: Fold, x: &View, kept: usize, to: DType) -> Result<HostData> {
    if x.buffer.dtype().is_float() {
        return floats(f, x, kept, to);
    }
    let rows = rows_of(x.shape(), kept);
    match f {
        Fold::Sum => from_i64(fold_rows(&as_i64(x)?, rows, 0, &i64::wrapping_add)?, to),
        Fold::Prod => from_i64(fold_rows(&as_i64(x)?, rows, 1, &i64::wrapping_mul)?, to),
        Fold::Max => each_int!("a fold", to, I => {
            Ok(I::wrap(fold_rows(&own_int::<I>(x)?, rows, I::LEAST, &Int::max)?))
        }),
        Fold::Min => each_int!("a fold", to, I => {
            Ok(I::wrap(fold_rows(&own_int::<I>(x)?, rows, I::GREATEST, &Int::min)?))
        }),
    }
}

/// The same for floats alone.
pub fn floats(f: Fold, x: &View, kept: usize, to: DType) -> Result<HostData> {
    let rows = rows_of(x.shape(), kept);
    each_float!("a fold", x.buffer.dtype(), C => {
        let v = C::load(x.buffer, x.layout)?;
        C::store(fold_rows(&v, rows, start(f), &|a, b| combine(f, a, b))?, to)
    })
}

fn fold_rows<T: Copy>(v: &[T], (rows, n): (usize, usize), start: T, f: &dyn Fn(T, T) -> T) -> Result<Vec<T>> {
    let mut out = with_capacity(rows)?;
    out.extend((0..rows).map(|r| order::fold(n, start, |i| v[r * n + i], f)));
    Ok(out)
}

/// Integers and bool, row-major, as i64.
fn as_i64(x: &View) -> Result<Vec<i64>> {
    each_int!("a sum of integers", x.buffer.dtype(), I => match I::slice(x.buffer) {
        Some(v) => gather(v, x.layout, i64::from),
        None => Err(misuse("a sum of integers", x.buffer.dtype())),
    })
}

fn from_i64(v: Vec<i64>, to: DType) -> Result<HostData> {
    each_dtype!(to, T => Ok(T::wrap(convert(&v, |x| T::nearest(Scalar::Int(x)))?)))
}

fn own_int<'a, I: Int + Element>(x: &View<'a>) -> Result<std::borrow::Cow<'a, [I]>> {
    let v = I::slice(x.buffer).ok_or_else(|| misuse("a fold to another type", x.buffer.dtype()))?;
    elements(v, x.layout)
}

/// The index of the first largest or smallest element of each row; the first NaN wins; zeros are
/// equal.
pub fn arg_fold(f: ArgFold, x: &View, kept: usize) -> Result<HostData> {
    fn find<T: Element + PartialOrd>(f: ArgFold, row: &[T]) -> i64 {
        let mut best = 0;
        for (i, &v) in row.iter().enumerate() {
            let b = row[best];
            let wins = match f {
                ArgFold::Max => v > b,
                ArgFold::Min => v < b,
            };
            if wins || (is_nan(v) && !is_nan(b)) {
                best = i;
            }
        }
        best as i64
    }
    let (rows, n) = rows_of(x.shape(), kept);
    each_data!(x.buffer, v => {
        let v = elements(v, x.layout)?;
        let mut out = with_capacity(rows)?;
        out.extend((0..rows).map(|r| find(f, &v[r * n..(r + 1) * n])));
        Ok(HostData::I64(out.into()))
    })
}

/// Not equal to itself?
#[allow(clippy::eq_op)]
pub fn is_nan<T: PartialEq>(v: T) -> bool {
    v != v
}

/// Prefix sums or products along the last axis.
pub fn scan(f: Scan, x: &View, to: DType) -> Result<HostData> {
    let (_, n) = rows_of(x.shape(), x.layout.rank().saturating_sub(1));
    if x.buffer.dtype().is_float() {
        return each_float!("a scan", x.buffer.dtype(), C => {
            let mut v = C::load(x.buffer, x.layout)?.into_owned();
            scan_rows(&mut v, n, |a, b| match f {
                Scan::Sum => a + b,
                Scan::Prod => a * b,
            });
            C::store(v, to)
        });
    }
    let mut v = as_i64(x)?;
    scan_rows(&mut v, n, |a, b| match f {
        Scan::Sum => a.wrapping_add(b),
        Scan::Prod => a.wrapping_mul(b),
    });
    from_i64(v, to)
}

fn scan_rows<T: Copy>(v: &mut [T], n: usize, f: impl Fn(T, T) -> T) {
    // Rows of zero elements have no elements.
    for row in v.chunks_mut(n.max(1)) {
        order::scan(row, &f);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{layout, view};
    use elinvar_core::f16;

    const NAN: f32 = f32::NAN;
    const INF: f32 = f32::INFINITY;

    fn show(v: &HostData) -> String {
        format!("{v:?}")
    }

    #[test]
    fn folds_of_floats() {
        // row, sum, product, max, min
        let rows: [(&[f32], f32, f32, f32, f32); 6] = [
            (&[], 0.0, 1.0, -INF, INF),
            (&[-0.0], 0.0, -0.0, -0.0, -0.0), // a sum starts from +0
            (&[0.0, -0.0], 0.0, -0.0, 0.0, -0.0),
            (&[1.0, NAN, 3.0], NAN, NAN, NAN, NAN),
            (&[1.5, -2.0, 4.0], 3.5, -12.0, 4.0, -2.0),
            (&[-INF, 1.0], -INF, -INF, 1.0, -INF),
        ];
        for (row, sum, prod, max, min) in rows {
            for (f, want) in [(Fold::Sum, sum), (Fold::Prod, prod), (Fold::Max, max), (Fold::Min, min)] {
                let x = HostData::F32(row.to_vec().into());
                let y = fold(f, &view(&x, &layout(&[row.len()])), 0, DType::F32).unwrap();
                assert_eq!(show(&y), show(&HostData::F32([want].into())), "{f:?} of {row:?}");
                let wide = HostData::F64(row.iter().map(|&v| f64::from(v)).collect());
                let y = fold(f, &view(&wide, &layout(&[row.len()])), 0, DType::F64).unwrap();
                assert_eq!(
                    show(&y),
                    show(&HostData::F64([f64::from(want)].into())),
                    "{f:?} of {row:?} in f64"
                );
            }
        }
    }

    #[test]
    fn folds_of_integers() {
        let l = layout(&[3]);
        let none = layout(&[0]);
        let rows = [
            (HostData::U8([200, 100, 2].into()), Fold::Sum, DType::I64, HostData::I64([302].into())),
            (HostData::U8([200, 100, 2].into()), Fold::Prod, DType::I64, HostData::I64([40000].into())),
            (HostData::U8([200, 100, 2].into()), Fold::Max, DType::U8, HostData::U8([200].into())),
            (HostData::Bool([true, false, true].into()), Fold::Sum, DType::I64, HostData::I64([2].into())),
            (
                HostData::Bool([true, false, true].into()),
                Fold::Max,
                DType::Bool,
                HostData::Bool([true].into()),
            ),
            (
                HostData::Bool([true, false, true].into()),
                Fold::Min,
                DType::Bool,
                HostData::Bool([false].into()),
            ),
            (
                HostData::I32([i32::MAX, 1, -5].into()),
                Fold::Sum,
                DType::I64,
                HostData::I64([2147483643].into()),
            ),
            (HostData::I32([7, 1, -5].into()), Fold::Min, DType::I32, HostData::I32([-5].into())),
            (HostData::I64([i64::MAX, 1, 0].into()), Fold::Sum, DType::I64, HostData::I64([i64::MIN].into())),
            (HostData::I64([i64::MAX, 1, 0].into()), Fold::Max, DType::I64, HostData::I64([i64::MAX].into())),
        ];
        for (x, f, to, want) in rows {
            assert_eq!(fold(f, &view(&x, &l), 0, to).unwrap(), want, "{f:?} of {x:?}");
        }
        // Empty folds.
        let rows = [
            (DType::I32, Fold::Max, HostData::I32([i32::MIN].into())),
            (DType::I64, Fold::Min, HostData::I64([i64::MAX].into())),
            (DType::U8, Fold::Min, HostData::U8([255].into())),
            (DType::Bool, Fold::Min, HostData::Bool([true].into())),
            (DType::Bool, Fold::Max, HostData::Bool([false].into())),
        ];
        for (d, f, want) in rows {
            let x = HostData::full(d, 0, 0.into()).unwrap();
            assert_eq!(fold(f, &view(&x, &none), 0, d).unwrap(), want, "{f:?} of no {d}");
        }
    }

    #[test]
    fn rows_are_the_last_axes_of_any_view() {
        let x = HostData::I64((1..=6).collect());
        let l = layout(&[2, 3]);
        let rows = [
            (l.clone(), 1, vec![6, 15]),
            (l.transpose(0, 1), 1, vec![5, 7, 9]),
            (l.flip(1), 0, vec![21]),
            (l.clone(), 2, vec![1, 2, 3, 4, 5, 6]), // each element a row
            (l.slice(0, 0, 0, 1), 1, vec![]),
            (l.slice(1, 0, 0, 1), 1, vec![0, 0]),
        ];
        for (l, kept, want) in rows {
            assert_eq!(
                fold(Fold::Sum, &view(&x, &l), kept, DType::I64).unwrap(),
                HostData::I64(want.into()),
                "{l:?}"
            );
        }
    }

    #[test]
    fn halves_sum_in_f32_and_round_at_the_end() {
        let x = HostData::F16([f16::from_f32(2048.0), f16::ONE, f16::ONE].into());
        let whole = layout(&[3]);
        let v = view(&x, &whole);
        assert_eq!(fold(Fold::Sum, &v, 0, DType::F32).unwrap(), HostData::F32([2050.0].into()));
        assert_eq!(
            fold(Fold::Sum, &v, 0, DType::F16).unwrap(),
            HostData::F16([f16::from_f32(2050.0)].into())
        );
        assert_eq!(
            fold(Fold::Max, &v, 0, DType::F16).unwrap(),
            HostData::F16([f16::from_f32(2048.0)].into())
        );
    }

    #[test]
    fn a_long_sum_has_the_canonical_order() {
        let v: Vec<f32> = (0..10_000).map(|i| 1.0 / (i as f32 + 1.0)).collect();
        let want = order::fold(v.len(), 0.0, |i| v[i], |a, b| a + b);
        let x = HostData::F32(v.into());
        let y = fold(Fold::Sum, &view(&x, &layout(&[10_000])), 0, DType::F32).unwrap();
        assert_eq!(y, HostData::F32([want].into()));
    }

    #[test]
    fn the_first_of_equals_wins() {
        // row, index of the largest, of the smallest
        let rows: [(&[f32], i64, i64); 6] = [
            (&[1.0, 3.0, 3.0, 1.0], 1, 0),
            (&[1.0, NAN, 3.0, NAN], 1, 1),
            (&[-0.0, 0.0], 0, 0), // zeros are equal
            (&[0.0, -0.0], 0, 0),
            (&[-INF, -INF], 0, 0),
            (&[2.0, 1.0, -INF, INF], 3, 2),
        ];
        for (row, max, min) in rows {
            let x = HostData::F32(row.to_vec().into());
            let whole = layout(&[1, row.len()]);
            let v = view(&x, &whole);
            assert_eq!(arg_fold(ArgFold::Max, &v, 1).unwrap(), HostData::I64([max].into()), "max of {row:?}");
            assert_eq!(arg_fold(ArgFold::Min, &v, 1).unwrap(), HostData::I64([min].into()), "min of {row:?}");
        }
        let x = HostData::Bool([false, true, true, false].into());
        let whole = layout(&[2, 2]);
        let v = view(&x, &whole);
        assert_eq!(arg_fold(ArgFold::Max, &v, 1).unwrap(), HostData::I64([1, 0].into()));
        assert_eq!(arg_fold(ArgFold::Min, &v, 0).unwrap(), HostData::I64([0].into()));
    }

    #[test]
    fn scans() {
        let l = layout(&[2, 2]);
        let rows = [
            (
                HostData::F32([1.0, 2.0, 3.0, 4.0].into()),
                Scan::Sum,
                DType::F32,
                HostData::F32([1.0, 4.0, 2.0, 6.0].into()),
            ),
            (
                HostData::F64([1.0, 2.0, 3.0, 4.0].into()),
                Scan::Prod,
                DType::F64,
                HostData::F64([1.0, 3.0, 2.0, 8.0].into()),
            ),
            (
                HostData::U8([200, 2, 100, 4].into()),
                Scan::Sum,
                DType::I64,
                HostData::I64([200, 300, 2, 6].into()),
            ),
            (
                HostData::Bool([true, false, true, true].into()),
                Scan::Sum,
                DType::I64,
                HostData::I64([1, 2, 0, 1].into()),
            ),
        ];
        for (x, f, to, want) in rows {
            assert_eq!(scan(f, &view(&x, &l.transpose(0, 1)), to).unwrap(), want);
        }
        let one = HostData::F32([5.0].into());
        assert_eq!(scan(Scan::Sum, &view(&one, &layout(&[])), DType::F32).unwrap(), one);
        let none = HostData::F32([].into());
        assert_eq!(scan(Scan::Sum, &view(&none, &layout(&[2, 0])), DType::F32).unwrap(), none);
    }
}
