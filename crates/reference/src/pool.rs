//! Pools over the last one to three axes.

use crate::View;
use crate::compute::{Compute, each_float, elements, unravel};
use crate::fold::is_nan;
use elinvar_core::host::{filled, with_capacity};
use elinvar_core::{Element, Error, HostData, Result, each_data, order};
use elinvar_ops::backend::{Pool, PoolKind};

/// A window: the row-major indices of its elements in the plane, and the divisor of an average.
struct Window {
    elements: Vec<usize>,
    divisor: usize,
}

/// The windows of a pool over a plane, row-major. Taps outside the plane are left out.
fn windows(p: &Pool, spatial: &[usize]) -> Result<Vec<Window>> {
    let counts: Vec<usize> = p.axes.iter().map(|a| a.start.len()).collect();
    let count = counts.iter().product();
    let mut all = with_capacity(count)?;
    for i in 0..count {
        let mut w = Window { elements: vec![0], divisor: 1 };
        for ((axis, &i), &size) in p.axes.iter().zip(&unravel(i, &counts)).zip(spatial) {
            let tap = |t: usize| axis.start[i] + (t * axis.dilation) as isize;
            let inside = || (0..axis.len[i]).map(tap).filter(|&s| s >= 0 && s < size as isize);
            // Row-major: every element so far, followed by all taps along this axis.
            w.elements =
                w.elements.iter().flat_map(|e| inside().map(move |s| e * size + s as usize)).collect();
            w.divisor *= axis.divisor[i];
        }
        all.push(w);
    }
    Ok(all)
}

/// y[.., s'] from x[.., s], and for a maximum the winner's row-major index in its plane.
pub fn pool(p: &Pool, x: &View) -> Result<(HostData, Option<HostData>)> {
    let dims = x.shape().dims();
    let (lead, spatial) = dims.split_at(dims.len() - p.axes.len());
    let (planes, plane) = (lead.iter().product(), spatial.iter().product());
    let windows = windows(p, spatial)?;
    match p.kind {
        PoolKind::Max => each_data!(x.buffer, v => max(&elements(v, x.layout)?, planes, plane, &windows)),
        PoolKind::Avg => each_float!("an average pool", x.buffer.dtype(), C => {
            let y = average::<C>(&C::load(x.buffer, x.layout)?, planes, plane, &windows)?;
            Ok((C::store(y, x.buffer.dtype())?, None))
        }),
    }
}

fn max<T: Element + PartialOrd>(
    x: &[T],
    planes: usize,
    plane: usize,
    windows: &[Window],
) -> Result<(HostData, Option<HostData>)> {
    let (mut y, mut winners) =
        (with_capacity(planes * windows.len())?, with_capacity(planes * windows.len())?);
    for x in (0..planes).map(|i| &x[i * plane..(i + 1) * plane]) {
        for w in windows {
            let better = |best: usize, e: usize| {
                if x[e] > x[best] || (is_nan(x[e]) && !is_nan(x[best])) { e } else { best }
            };
            let best = w.elements.iter().copied().reduce(better).ok_or_else(|| {
                Error::argument(
                    "max_pool: a window holds no element of the input; padding or dilation is too large",
                )
            })?;
            y.push(x[best]);
            winners.push(best as i64);
        }
    }
    Ok((T::wrap(y), Some(HostData::I64(winners.into()))))
}

fn average<C: Compute>(x: &[C], planes: usize, plane: usize, windows: &[Window]) -> Result<Vec<C>> {
    let mut y = with_capacity(planes * windows.len())?;
    for x in (0..planes).map(|i| &x[i * plane..(i + 1) * plane]) {
        y.extend(windows.iter().map(|w| {
            let sum = order::fold(w.elements.len(), C::NOTHING, |i| x[w.elements[i]], |a, b| a + b);
            sum / C::lit(w.divisor as f64)
        }));
    }
    Ok(y)
}

/// Each input element adds g / divisor of the windows that hold it, in row-major order of the
/// windows.
pub fn average_grad(p: &Pool, g: &View, spatial: &[usize]) -> Result<HostData> {
    let dims = g.shape().dims();
    let planes = dims[..dims.len() - p.axes.len()].iter().product();
    let windows = windows(p, spatial)?;
    each_float!("an average pool's gradient", g.buffer.dtype(), C => {
        let dx = spread::<C>(&C::load(g.buffer, g.layout)?, planes, spatial.iter().product(), &windows)?;
        C::store(dx, g.buffer.dtype())
    })
}

fn spread<C: Compute>(g: &[C], planes: usize, plane: usize, windows: &[Window]) -> Result<Vec<C>> {
    let mut dx = filled(planes * plane, C::NOTHING)?;
    for i in 0..planes {
        let dx = &mut dx[i * plane..(i + 1) * plane];
        for (w, &g) in windows.iter().zip(&g[i * windows.len()..(i + 1) * windows.len()]) {
            let share = g / C::lit(w.divisor as f64);
            for &e in &w.elements {
                dx[e] = dx[e] + share;
            }
        }
    }
    Ok(dx)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{layout, view};
    use elinvar_core::f16;
    use elinvar_ops::backend::Windows;

    const NAN: f32 = f32::NAN;

    /// Windows of `kernel` taps, `stride` apart, over an axis with `padding` on its left.
    fn axis(n: usize, kernel: usize, stride: usize, padding: isize, dilation: usize) -> Windows {
        Windows {
            start: (0..n).map(|i| (i * stride) as isize - padding).collect(),
            len: vec![kernel; n],
            divisor: vec![kernel; n],
            dilation,
        }
    }
    fn f32s(v: &[f32]) -> HostData {
        HostData::F32(v.to_vec().into())
    }

    #[test]
    fn maxima() {
        // axis, row, maxima, winners
        let rows: [(Windows, &[f32], &[f32], &[i64]); 6] = [
            (axis(2, 2, 2, 0, 1), &[1.0, 3.0, 2.0, 2.0], &[3.0, 2.0], &[1, 2]),
            (axis(3, 2, 2, 1, 1), &[-1.0, 3.0, 2.0, -2.0], &[-1.0, 3.0, -2.0], &[0, 1, 3]),
            (axis(2, 2, 1, 0, 2), &[1.0, 9.0, 2.0, 3.0], &[2.0, 9.0], &[2, 1]),
            (axis(1, 4, 1, 0, 1), &[1.0, NAN, 5.0, NAN], &[NAN], &[1]),
            (axis(1, 2, 1, 0, 1), &[-0.0, 0.0], &[-0.0], &[0]), // equal: the first
            (axis(1, 2, 1, 0, 1), &[f32::NEG_INFINITY, f32::NEG_INFINITY], &[f32::NEG_INFINITY], &[0]),
        ];
        for (a, row, want, winners) in rows {
            let p = Pool { kind: PoolKind::Max, axes: vec![a] };
            let (y, i) = pool(&p, &view(&f32s(row), &layout(&[1, row.len()]))).unwrap();
            assert_eq!(format!("{y:?}"), format!("{:?}", f32s(want)), "{p:?}");
            assert_eq!(i, Some(HostData::I64(winners.to_vec().into())), "{p:?}");
        }
        let p = Pool { kind: PoolKind::Max, axes: vec![axis(1, 2, 1, 1, 2)] };
        assert!(pool(&p, &view(&f32s(&[1.0]), &layout(&[1, 1]))).is_err());
    }

    #[test]
    fn two_axes_of_a_strided_view() {
        let x = HostData::I32((0..12).collect());
        let p = Pool { kind: PoolKind::Max, axes: vec![axis(2, 2, 1, 0, 1), axis(2, 2, 2, 0, 1)] };
        let (y, i) = pool(&p, &view(&x, &layout(&[4, 3]).transpose(0, 1))).unwrap();
        assert_eq!(
            (y, i.unwrap()),
            (HostData::I32([4, 10, 5, 11].into()), HostData::I64([5, 7, 9, 11].into()))
        );
        let (y, _) = pool(&p, &view(&HostData::F32([].into()), &layout(&[0, 3, 4]))).unwrap();
        assert_eq!(y, f32s(&[]));
    }

    #[test]
    fn averages_and_their_gradient() {
        let x = f32s(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        let counting = Windows { divisor: vec![1, 2, 2], ..axis(3, 2, 2, 1, 1) };
        // axis, averages, gradient of their sum weighted 1, 10, 100
        let rows: [(Windows, &[f32], &[f32]); 3] = [
            (axis(3, 2, 2, 1, 1), &[0.5, 2.5, 4.5], &[0.5, 5.0, 5.0, 50.0, 50.0]),
            (counting, &[1.0, 2.5, 4.5], &[1.0, 5.0, 5.0, 50.0, 50.0]),
            (
                Windows { start: vec![0, 1, 3], len: vec![2, 3, 2], divisor: vec![2, 3, 2], dilation: 1 },
                &[1.5, 3.0, 4.5],
                &[0.5, 0.5 + 10.0 / 3.0, 10.0 / 3.0, 10.0 / 3.0 + 50.0, 50.0],
            ),
        ];
        for (a, want, grad) in rows {
            let p = Pool { kind: PoolKind::Avg, axes: vec![a] };
            assert_eq!(pool(&p, &view(&x, &layout(&[1, 5]))).unwrap(), (f32s(want), None), "{p:?}");
            let dx = average_grad(&p, &view(&f32s(&[1.0, 10.0, 100.0]), &layout(&[1, 3])), &[5]).unwrap();
            assert_eq!(dx, f32s(grad), "{p:?}");
        }
    }

    #[test]
    fn three_axes() {
        let x = HostData::F64((0..16).map(f64::from).collect());
        let p = Pool {
            kind: PoolKind::Avg,
            axes: vec![axis(1, 2, 1, 0, 1), axis(1, 2, 1, 0, 1), axis(2, 2, 2, 0, 1)],
        };
        let (y, _) = pool(&p, &view(&x, &layout(&[1, 2, 2, 4]))).unwrap();
        assert_eq!(y, HostData::F64([6.5, 8.5].into()));
    }

    #[test]
    fn halves_are_summed_in_f32() {
        let h = |v: f32| f16::from_f32(v);
        let x = HostData::F16([h(60000.0), h(60000.0)].into());
        let p = Pool { kind: PoolKind::Avg, axes: vec![axis(1, 2, 1, 0, 1)] };
        assert_eq!(pool(&p, &view(&x, &layout(&[2]))).unwrap().0, HostData::F16([h(60000.0)].into()));
    }
}
