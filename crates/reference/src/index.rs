//! Reading and writing by index.

use crate::View;
use crate::compute::{Compute, convert, elements, misuse, own, unravel};
use elinvar_core::host::with_capacity;
use elinvar_core::{Element, HostData, HostVec, Layout, Result, Shape, each_data, storage};
use elinvar_ops::backend::{Scatter, out_of_range};
use elinvar_ops::int::Int;

/// For each index, in row-major order: the offset in `layout` of the element that it names.
fn targets(op: &str, layout: &Layout, axis: usize, index: &View) -> Result<Vec<usize>> {
    let Some(buffer) = i64::slice(index.buffer) else { return Err(misuse("an index", index.buffer.dtype())) };
    let shape = index.shape();
    let mut out = with_capacity(shape.numel())?;
    if shape.numel() == 0 {
        return Ok(out);
    }
    let (size, step) = (layout.shape()[axis], layout.strides()[axis]);
    // The first element along the axis, for every position of the index.
    let first = layout.slice(axis, 0, 1, 1).broadcast_to(shape, op)?;
    for (i, (p, q)) in first.positions().zip(index.layout.positions()).enumerate() {
        let named = usize::try_from(buffer[q])
            .ok()
            .filter(|&n| n < size)
            .ok_or_else(|| out_of_range(op, buffer[q], &unravel(i, shape), axis, size))?;
        out.push(p.wrapping_add_signed(named as isize * step));
    }
    Ok(out)
}

/// y[i.., j, k..] = x[i.., index[i.., j, k..], k..]
pub fn gather(x: &View, axis: usize, index: &View) -> Result<HostData> {
    fn one<T: Element>(v: &[T], targets: &[usize]) -> Result<HostData> {
        Ok(T::wrap(convert(targets, |p| v[p])?))
    }
    let targets = targets("gather", x.layout, axis, index)?;
    each_data!(x.buffer, v => one(v, &targets))
}

/// A copy of `base` with `src` written or added at `index`.
pub fn scatter(how: Scatter, base: &View, axis: usize, index: &View, src: &View) -> Result<HostData> {
    let targets = targets("scatter", &Layout::contiguous(Shape::clone(base.shape())), axis, index)?;
    match how {
        Scatter::Set => each_data!(own(base.buffer, base.layout)?, v => set(v, &targets, src)),
        Scatter::Add => add(base, &targets, src),
    }
}

fn set<T: Element>(mut y: HostVec<T>, targets: &[usize], src: &View) -> Result<HostData> {
    let v = T::slice(src.buffer).ok_or_else(|| misuse("a scatter of another type", src.buffer.dtype()))?;
    for (&at, &x) in targets.iter().zip(&*elements(v, src.layout)?) {
        y[at] = x;
    }
    Ok(T::wrap(y))
}

/// Sums of storage floats run in f32 and are rounded once.
fn add(base: &View, targets: &[usize], src: &View) -> Result<HostData> {
    fn sum<T: Element>(mut y: Vec<T>, targets: &[usize], x: &[T], plus: impl Fn(T, T) -> T) -> Vec<T> {
        for (&at, &x) in targets.iter().zip(x) {
            y[at] = plus(y[at], x);
        }
        y
    }
    fn floats<C: Compute>(base: &View, targets: &[usize], src: &View) -> Result<HostData> {
        let y = C::load(base.buffer, base.layout)?.into_owned();
        let x = C::load(src.buffer, src.layout)?;
        C::store(sum(y, targets, &x, |a, b| a + b), base.buffer.dtype())
    }
    fn ints<I: Int + Element>(base: &[I], l: &Layout, targets: &[usize], src: &View) -> Result<HostData> {
        let x =
            I::slice(src.buffer).ok_or_else(|| misuse("a scatter of another type", src.buffer.dtype()))?;
        let y = elements(base, l)?.into_owned();
        Ok(I::wrap(sum(y, targets, &elements(x, src.layout)?, Int::add)))
    }
    match base.buffer {
        HostData::F32(_) | storage!(HostData) => floats::<f32>(base, targets, src),
        HostData::F64(_) => floats::<f64>(base, targets, src),
        HostData::I64(v) => ints(v, base.layout, targets, src),
        HostData::I32(v) => ints(v, base.layout, targets, src),
        HostData::U8(v) => ints(v, base.layout, targets, src),
        HostData::Bool(v) => ints(v, base.layout, targets, src),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{layout, view};
    use elinvar_core::f16;

    fn i64s(v: &[i64]) -> HostData {
        HostData::I64(v.to_vec().into())
    }

    #[test]
    fn gathers() {
        let x = HostData::F32((0..6).map(|v| v as f32).collect());
        let l = layout(&[2, 3]);
        // view of x, axis, index, its shape, result
        let rows: [(Layout, usize, &[i64], &[usize], &[f32]); 6] = [
            (l.clone(), 1, &[2, 0, 1, 1], &[2, 2], &[2.0, 0.0, 4.0, 4.0]),
            (l.clone(), 0, &[1, 0, 1], &[1, 3], &[3.0, 1.0, 5.0]),
            (l.transpose(0, 1), 0, &[2, 0], &[1, 2], &[2.0, 3.0]),
            (l.flip(1), 1, &[0, 2], &[2, 1], &[2.0, 3.0]),
            (
                l.select(1, 0).unsqueeze(0).broadcast_to(&Shape::new(&[2, 2]).unwrap(), "t").unwrap(),
                1,
                &[1, 0],
                &[2, 1],
                &[3.0, 0.0],
            ),
            (l.slice(1, 0, 0, 1), 1, &[], &[2, 0], &[]),
        ];
        for (xl, axis, index, dims, want) in rows {
            let i = i64s(index);
            let y = gather(&view(&x, &xl), axis, &view(&i, &layout(dims))).unwrap();
            assert_eq!(y, HostData::F32(want.to_vec().into()), "{xl:?}");
        }
        let i = i64s(&[1]);
        let wide = layout(&[1, 1]).broadcast_to(&Shape::new(&[2, 4]).unwrap(), "t").unwrap();
        let y = gather(&view(&x, &l), 1, &view(&i, &wide)).unwrap();
        assert_eq!(y, HostData::F32([1.0, 1.0, 1.0, 1.0, 4.0, 4.0, 4.0, 4.0].into()));
    }

    #[test]
    fn an_index_out_of_range_is_named() {
        let x = HostData::U8(vec![0; 10].into());
        for bad in [7, 5, -1, i64::MAX, i64::MIN] {
            let i = i64s(&[0, 0, 0, 0, 0, bad]);
            let e = gather(&view(&x, &layout(&[5, 2])), 0, &view(&i, &layout(&[3, 2]))).unwrap_err();
            let want = format!("index {bad} at position [2, 1] is out of range for axis 0 of size 5");
            assert_eq!(e.message(), format!("gather: {want}"));
            let src = HostData::U8(vec![0; 6].into());
            let whole = layout(&[3, 2]);
            let v = view(&src, &whole);
            let e = scatter(Scatter::Add, &view(&x, &layout(&[5, 2])), 0, &view(&i, &layout(&[3, 2])), &v)
                .unwrap_err();
            assert_eq!(e.message(), format!("scatter: {want}"));
        }
        // An axis of size 0 has no element to name.
        let none = HostData::U8([].into());
        let i = i64s(&[0, 0]);
        assert!(gather(&view(&none, &layout(&[0, 2])), 0, &view(&i, &layout(&[1, 2]))).is_err());
        let i = HostData::I32([0].into());
        assert!(gather(&view(&x, &layout(&[10])), 0, &view(&i, &layout(&[1]))).is_err());
    }

    #[test]
    fn scatters_in_row_major_order() {
        let l = layout(&[3]);
        let i = i64s(&[2, 0, 2, 2]);
        let il = layout(&[4]);
        // base, source, after setting, after adding
        let rows = [
            (
                HostData::F32([1.0, 2.0, 1e8].into()),
                HostData::F32([1.0, 5.0, -1e8, 3.0].into()),
                HostData::F32([5.0, 2.0, 3.0].into()),
                HostData::F32([6.0, 2.0, 3.0].into()), // 1e8 + 1 is 1e8: one after the other
            ),
            (
                HostData::I64([1, 2, i64::MAX].into()),
                HostData::I64([1, 5, 1, 3].into()),
                HostData::I64([5, 2, 3].into()),
                HostData::I64([6, 2, i64::MIN + 4].into()),
            ),
            (
                HostData::U8([250, 2, 3].into()),
                HostData::U8([1, 10, 1, 3].into()),
                HostData::U8([10, 2, 3].into()),
                HostData::U8([4, 2, 8].into()),
            ),
            (
                HostData::Bool([false, true, false].into()),
                HostData::Bool([true, false, true, false].into()),
                HostData::Bool([false, true, false].into()),
                HostData::Bool([false, true, true].into()),
            ),
        ];
        for (base, src, set, added) in rows {
            for (how, want) in [(Scatter::Set, set), (Scatter::Add, added)] {
                let y = scatter(how, &view(&base, &l), 0, &view(&i, &il), &view(&src, &il)).unwrap();
                assert_eq!(y, want, "{how:?}");
            }
        }
    }

    #[test]
    fn halves_are_added_in_f32() {
        let h = |v: &[f32]| HostData::F16(v.iter().map(|&x| f16::from_f32(x)).collect());
        let (base, src) = (h(&[2048.0, 7.0]), h(&[1.0, 1.0]));
        let i = i64s(&[0, 0]);
        let l = layout(&[2]);
        let y = scatter(Scatter::Add, &view(&base, &l), 0, &view(&i, &l), &view(&src, &l)).unwrap();
        assert_eq!(y, h(&[2050.0, 7.0]));
    }

    #[test]
    fn strided_base_and_source_along_any_axis() {
        let base = HostData::I32([0, 1, 2, 3, 4, 5].into());
        let src = HostData::I32([10, 20, 30].into());
        let i = i64s(&[1, 0, 1]);
        // base^T is [[0, 3], [1, 4], [2, 5]]; row r gets src (from the back) at column i[r].
        let y = scatter(
            Scatter::Add,
            &view(&base, &layout(&[2, 3]).transpose(0, 1)),
            1,
            &view(&i, &layout(&[3, 1])),
            &view(&src, &layout(&[3, 1]).flip(0)),
        );
        assert_eq!(y.unwrap(), HostData::I32([0, 33, 21, 4, 2, 15].into()));
        let none = HostData::I32([].into());
        let e = i64s(&[]);
        let y = scatter(
            Scatter::Set,
            &view(&src, &layout(&[3])),
            0,
            &view(&e, &layout(&[0])),
            &view(&none, &layout(&[0])),
        );
        assert_eq!(y.unwrap(), src);
    }
}
