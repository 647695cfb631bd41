//! Sorting, and finding what is not zero.

use crate::View;
use crate::compute::{elements, rows_of};
use crate::fold::is_nan;
use elinvar_core::host::{filled, with_capacity};
use elinvar_core::{Element, HostData, Result, each_data};
use std::cmp::Ordering;

/// NaN is the largest and equal to NaN; zeros are equal.
fn compare<T: PartialOrd + Copy>(a: T, b: T) -> Ordering {
    match (is_nan(a), is_nan(b)) {
        (false, false) => a.partial_cmp(&b).expect("numbers are ordered"),
        (a, b) => a.cmp(&b),
    }
}

/// Sorts positions, stable. Takes a closure by reference, so that the standard library's long sort
/// is compiled once and not for each type and direction.
fn put_in_order(places: &mut [usize], compare: &dyn Fn(usize, usize) -> Ordering) {
    places.sort_by(|&a, &b| compare(a, b));
}

/// Sorts each row along the last axis, stable, also when descending: the `first` values of each,
/// and the positions they came from.
pub fn sort(x: &View, descending: bool, first: usize) -> Result<(HostData, HostData)> {
    fn one<T: Element + PartialOrd>(
        v: &[T],
        n: usize,
        descending: bool,
        first: usize,
    ) -> Result<(HostData, HostData)> {
        let len = v.len() / n.max(1) * first;
        let (mut values, mut indices) = (with_capacity(len)?, with_capacity(len)?);
        let mut from: Vec<usize> = filled(n, 0)?;
        // Rows of zero elements have no elements.
        for row in v.chunks(n.max(1)) {
            from.iter_mut().enumerate().for_each(|(i, f)| *f = i);
            if descending {
                put_in_order(&mut from, &|a, b| compare(row[b], row[a]));
            } else {
                put_in_order(&mut from, &|a, b| compare(row[a], row[b]));
            }
            values.extend(from[..first].iter().map(|&i| row[i]));
            indices.extend(from[..first].iter().map(|&i| i as i64));
        }
        Ok((T::wrap(values), HostData::I64(indices.into())))
    }
    let (_, n) = rows_of(x.shape(), x.layout.rank().saturating_sub(1));
    each_data!(x.buffer, v => one(&elements(v, x.layout)?, n, descending, first))
}

/// The row-major positions of the elements that are not zero (NaN is not), ascending, and their
/// count.
pub fn nonzero(x: &View) -> Result<(HostData, usize)> {
    fn one<T: Element>(v: &[T]) -> Result<(HostData, usize)> {
        let found = || v.iter().enumerate().filter(|&(_, &x)| x != T::ZERO);
        let mut out = with_capacity(found().count())?;
        out.extend(found().map(|(i, _)| i as i64));
        let n = out.len();
        Ok((HostData::I64(out.into()), n))
    }
    each_data!(x.buffer, v => one(&elements(v, x.layout)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{layout, view};
    use elinvar_core::bf16;

    const NAN: f32 = f32::NAN;

    #[test]
    fn nan_is_the_largest_and_equals_keep_their_order() {
        // row, ascending, descending
        let rows: [(&[f32], &[i64], &[i64]); 5] = [
            (&[3.0, 1.0, 2.0], &[1, 2, 0], &[0, 2, 1]),
            (&[NAN, 1.0, f32::INFINITY, NAN], &[1, 2, 0, 3], &[0, 3, 2, 1]),
            (&[0.0, -0.0, 0.0], &[0, 1, 2], &[0, 1, 2]),
            (&[2.0, 1.0, 2.0, 1.0], &[1, 3, 0, 2], &[0, 2, 1, 3]),
            (&[], &[], &[]),
        ];
        for (row, up, down) in rows {
            let x = HostData::F32(row.to_vec().into());
            for (want, descending) in [(up, false), (down, true)] {
                let (v, i) = sort(&view(&x, &layout(&[row.len()])), descending, row.len()).unwrap();
                assert_eq!(i, HostData::I64(want.to_vec().into()), "{row:?} {descending}");
                let moved: Vec<u32> = want.iter().map(|&i| row[i as usize].to_bits()).collect();
                let HostData::F32(v) = v else { panic!("another type") };
                assert_eq!(v.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), moved);
            }
        }
    }

    #[test]
    fn rows_of_a_view_and_other_types() {
        let x = HostData::U8([3, 1, 2, 0].into());
        let (v, i) = sort(&view(&x, &layout(&[2, 2]).transpose(0, 1)), false, 2).unwrap();
        assert_eq!((v, i), (HostData::U8([2, 3, 0, 1].into()), HostData::I64([1, 0, 1, 0].into())));
        let x = HostData::Bool([true, false].into());
        let (v, _) = sort(&view(&x, &layout(&[2])), false, 2).unwrap();
        assert_eq!(v, HostData::Bool([false, true].into()));
        let x = HostData::BF16([bf16::NAN, bf16::ONE].into());
        let (_, i) = sort(&view(&x, &layout(&[2])), false, 2).unwrap();
        assert_eq!(i, HostData::I64([1, 0].into()));
        let x = HostData::I64([5].into());
        assert_eq!(sort(&view(&x, &layout(&[])), true, 1).unwrap(), (x.clone(), HostData::I64([0].into())));
    }

    #[test]
    fn what_is_not_zero() {
        let rows = [
            (HostData::F32([0.0, -0.0, NAN, 1e-45].into()), vec![2, 3]),
            (HostData::I64([0, 0, 0, 0].into()), vec![]),
            (HostData::Bool([true, false, true, false].into()), vec![0, 1]),
        ];
        for (x, want) in rows {
            let l = if x.dtype() == elinvar_core::DType::Bool {
                layout(&[2, 2]).transpose(0, 1)
            } else {
                layout(&[4])
            };
            assert_eq!(nonzero(&view(&x, &l)).unwrap(), (HostData::I64(want.clone().into()), want.len()));
        }
    }
}
