//! Row-wise formulas: term, fold, finish, for each statistic in turn; then the result.

use crate::View;
use crate::compute::{Compute, each_float, rows_of};
use crate::fold::{combine, start};
use crate::map::{floats, slices_of};
use elinvar_core::host::{filled, with_capacity};
use elinvar_core::{DType, HostData, Result, order};
use elinvar_ops::backend::Fold;
use elinvar_ops::rows::{RowObject, RowOut, STATS};

/// A row-wise formula over views of one shape, of which the first `kept` axes are the rows.
pub fn rows(f: &dyn RowObject, x: &[View], kept: usize, dtype: DType) -> Result<HostData> {
    each_float!(f.name(), dtype, C => {
        let (count, n) = rows_of(x[0].shape(), kept);
        let x = floats::<C>(x)?;
        C::store(compute::<C>(f, &slices_of(&x), count, n)?, dtype)
    })
}

fn compute<C: Compute>(f: &dyn RowObject, x: &[&[C]], rows: usize, n: usize) -> Result<Vec<C>> {
    let (length, plain) = (C::lit(n as f64), C::plain_rows(f));
    let mut buffer = filled(n, C::ZERO)?;
    let mut y = with_capacity(rows * f.out().width(n, f.folds().len()))?;
    for row in 0..rows {
        let x: Vec<&[C]> = x.iter().map(|x| &x[row * n..][..n]).collect();
        // Statistics that a formula has not, or not yet, are 0.
        let mut s = [C::ZERO; STATS];
        for (k, &by) in f.folds().iter().enumerate() {
            plain.term(k, &x, s, length, &mut buffer);
            s[k] = plain.finish(k, fold(by, &buffer), s, length);
        }
        match f.out() {
            RowOut::Each => {
                plain.each(&x, s, length, &mut buffer);
                y.extend_from_slice(&buffer);
            }
            RowOut::Once => y.push(plain.once(s, length)),
            RowOut::Statistics => y.extend_from_slice(&s[..f.folds().len()]),
        }
    }
    Ok(y)
}

fn fold<C: Compute>(f: Fold, terms: &[C]) -> C {
    order::fold(terms.len(), start(f), |i| terms[i], |a, b| combine(f, a, b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{layout, noise, view};
    use elinvar_core::{Error, Shape, f16};
    use elinvar_ops::Value;
    use elinvar_ops::lane::Lane;
    use elinvar_ops::op::Context;
    use elinvar_ops::rows::{RowFormula, Rows};
    use elinvar_simd::compiled::Compiled;

    fn no_gradient<T>() -> Result<T> {
        Err(Error::autograd("a formula of a test has no gradient"))
    }

    /// Weighted mean squared distance from the mean, in two passes; and the largest weight.
    #[derive(Clone, Copy, Debug)]
    struct Spread;
    impl RowFormula<2> for Spread {
        const NAME: &'static str = "spread";
        const FOLDS: &'static [Fold] = &[Fold::Sum, Fold::Sum, Fold::Max];
        const OUT: RowOut = RowOut::Once;
        fn term<L: Lane>(&self, k: usize, [x, w]: [L; 2], s: [L; STATS], _: L) -> L {
            match k {
                0 => x,
                1 => (x - s[0]) * (x - s[0]) * w,
                _ => w,
            }
        }
        fn finish<L: Lane>(&self, k: usize, folded: L, _: [L; STATS], n: L) -> L {
            if k < 2 { folded / n } else { folded }
        }
        fn out<L: Lane>(&self, _: [L; 2], s: [L; STATS], n: L) -> L {
            s[1] + s[2] * L::lit(100.0) + n * L::lit(1000.0)
        }
    }
    impl Rows<2> for Spread {
        fn backward<V: Value>(&self, _: &[usize], _: &Context<V>, _: &V) -> Result<Vec<Option<V>>> {
            no_gradient()
        }
    }
    elinvar_ops::compile_rows! { 2 Spread; }

    /// Each element less the row's minimum, over its sum.
    #[derive(Clone, Copy, Debug)]
    struct Share;
    impl RowFormula<1> for Share {
        const NAME: &'static str = "share";
        const FOLDS: &'static [Fold] = &[Fold::Min, Fold::Sum];
        const OUT: RowOut = RowOut::Each;
        fn term<L: Lane>(&self, k: usize, [x]: [L; 1], s: [L; STATS], _: L) -> L {
            if k == 0 { x } else { x - s[0] }
        }
        fn out<L: Lane>(&self, [x]: [L; 1], s: [L; STATS], _: L) -> L {
            (x - s[0]) / s[1]
        }
    }
    impl Rows<1> for Share {
        fn backward<V: Value>(&self, _: &[usize], _: &Context<V>, _: &V) -> Result<Vec<Option<V>>> {
            no_gradient()
        }
    }
    elinvar_ops::compile_rows! { 1 Share; }

    #[test]
    fn a_value_for_each_row() {
        let x = HostData::F32([1.0, 3.0, 10.0, 20.0].into());
        let w = HostData::Bool([true].into());
        let wl = layout(&[1, 1]).broadcast_to(&Shape::new(&[2, 2]).unwrap(), "t").unwrap();
        let rows_ = [
            (layout(&[2, 2]), vec![2101.0, 2125.0]),
            (layout(&[2, 2]).transpose(0, 1), vec![2120.25, 2172.25]),
        ];
        for (l, want) in rows_ {
            let y = rows(&Compiled::<_, 2>(Spread), &[view(&x, &l), view(&w, &wl)], 1, DType::F32).unwrap();
            assert_eq!(y, HostData::F32(want.into()), "{l:?}");
        }
    }

    #[test]
    fn a_value_for_each_element() {
        let x = HostData::F64([1.0, 2.0, 4.0, 0.0, 3.0, 1.0].into());
        let y = rows(&Compiled::<_, 1>(Share), &[view(&x, &layout(&[2, 3]))], 1, DType::F64).unwrap();
        assert_eq!(y, HostData::F64([0.0, 0.25, 0.75, 0.0, 0.75, 0.25].into()));
        let y = rows(&Compiled::<_, 1>(Share), &[view(&x, &layout(&[2, 3]).flip(1))], 0, DType::F64).unwrap();
        assert_eq!(y, HostData::F64([4.0, 2.0, 1.0, 1.0, 3.0, 0.0].map(|v| v / 11.0).to_vec().into()));
        let half = HostData::F16([0.0, 1.0, 2.0].map(f16::from_f32).to_vec().into());
        let y = rows(&Compiled::<_, 1>(Share), &[view(&half, &layout(&[3]))], 0, DType::F16).unwrap();
        assert_eq!(y, HostData::F16([0.0, 1.0 / 3.0, 2.0 / 3.0].map(f16::from_f32).to_vec().into()));
    }

    #[test]
    fn rows_without_elements() {
        let none = HostData::F32([].into());
        let l = layout(&[2, 0]);
        let w = rows(&Compiled::<_, 2>(Spread), &[view(&none, &l), view(&none, &l)], 1, DType::F32).unwrap();
        let HostData::F32(w) = w else { panic!("another type") };
        assert!(w.len() == 2 && w[0].is_nan()); // 0 / 0
        assert_eq!(rows(&Compiled::<_, 1>(Share), &[view(&none, &l)], 1, DType::F32).unwrap(), none);
        assert_eq!(
            rows(&Compiled::<_, 1>(Share), &[view(&none, &layout(&[0, 2]))], 1, DType::F32).unwrap(),
            none
        );
        assert!(rows(&Compiled::<_, 1>(Share), &[view(&none, &l)], 1, DType::I32).is_err());
    }

    #[test]
    fn the_folds_have_the_canonical_order() {
        let v = noise(9000, 5);
        let low = v.iter().fold(f32::INFINITY, |a, &b| a.min(b));
        let sum = order::fold(v.len(), 0.0, |i| v[i] - low, |a, b| a + b);
        let want: Vec<f32> = v.iter().map(|x| (x - low) / sum).collect();
        let x = HostData::F32(v.into());
        assert_eq!(
            rows(&Compiled::<_, 1>(Share), &[view(&x, &layout(&[9000]))], 0, DType::F32).unwrap(),
            HostData::F32(want.into())
        );
    }
}
