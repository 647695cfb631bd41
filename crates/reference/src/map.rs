//! Elementwise work: a formula at every element.

use crate::View;
use crate::compute::{Compute, convert, each_float, each_int, elements, gather, misuse};
use elinvar_core::host::filled;
use elinvar_core::{DType, Element, HostData, Layout, Result, storage};
use elinvar_ops::int::Int;
use elinvar_ops::map::{IntMapObject, MapObject, Out};
use elinvar_simd::compiled::{FormulaFloat, FormulaInt};
use std::borrow::Cow;

/// A float formula at every element.
pub fn map(f: &dyn MapObject, x: &[View], dtype: DType) -> Result<HostData> {
    each_float!(f.name(), dtype, C => {
        let x = floats::<C>(x)?;
        let mut y = filled(x[0].len(), C::ZERO)?;
        C::plain(f, &slices_of(&x), &mut y);
        C::store(y, stored(f.out(), dtype))
    })
}

/// An integer formula at every element.
pub fn map_int(f: &dyn IntMapObject, x: &[View], dtype: DType) -> Result<HostData> {
    each_int!(f.name(), dtype, I => {
        let x = ints::<I>(x)?;
        let mut y = filled(x[0].len(), I::ZERO)?;
        I::plain(f, &slices_of(&x), &mut y);
        store_int(y, f.out())
    })
}

/// The operands as slices.
pub fn slices_of<'a, T: Element>(x: &'a [Cow<'_, [T]>]) -> Vec<&'a [T]> {
    x.iter().map(|x| &**x).collect()
}

/// The elements of views, row-major, in the type of computation.
pub fn floats<'a, C: Compute>(x: &[View<'a>]) -> Result<Vec<Cow<'a, [C]>>> {
    x.iter().map(|v| C::load(v.buffer, v.layout)).collect()
}

fn ints<'a, I: Int<Mask = bool> + Element>(x: &[View<'a>]) -> Result<Vec<Cow<'a, [I]>>> {
    x.iter().map(|v| load_int::<I>(v.buffer, v.layout)).collect()
}

fn stored(out: Out, dtype: DType) -> DType {
    match out {
        Out::Same => dtype,
        Out::Bool => DType::Bool,
    }
}

fn store_int<I: Int<Mask = bool> + Element>(y: Vec<I>, out: Out) -> Result<HostData> {
    Ok(match out {
        Out::Same => I::wrap(y),
        Out::Bool => HostData::Bool(convert(&y, Int::is_true)?.into()),
    })
}

/// The elements of a view of integers or bool, row-major; bool is read as 0 or 1.
pub fn load_int<'a, I: Int<Mask = bool> + Element>(
    data: &'a HostData,
    layout: &Layout,
) -> Result<Cow<'a, [I]>> {
    if let Some(v) = I::slice(data) {
        return elements(v, layout);
    }
    match data {
        HostData::Bool(v) => Ok(Cow::Owned(gather(v, layout, I::from_mask)?)),
        HostData::F32(_)
        | HostData::F64(_)
        | storage!(HostData)
        | HostData::I64(_)
        | HostData::I32(_)
        | HostData::U8(_) => Err(misuse("an integer formula with another operand", data.dtype())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{layout, view};
    use elinvar_core::{Shape, bf16, f16};
    use elinvar_ops::lane::Lane;
    use elinvar_ops::map::{Compiled, IntMap, Map};

    #[derive(Clone, Copy, Debug)]
    struct MulAdd;
    impl Map<3> for MulAdd {
        const NAME: &'static str = "mul_add";
        fn lane<L: Lane>(&self, [a, b, c]: [L; 3]) -> L {
            a * b + c
        }
    }
    elinvar_ops::compile_map! { 3 MulAdd; }
    #[derive(Clone, Copy, Debug)]
    struct Less;
    impl Map<2> for Less {
        const NAME: &'static str = "less";
        const OUT: Out = Out::Bool;
        fn lane<L: Lane>(&self, [a, b]: [L; 2]) -> L {
            L::from_mask(a.lt(b))
        }
    }
    elinvar_ops::compile_map! { 2 Less; }
    impl IntMap<2> for Less {
        const NAME: &'static str = "less";
        const OUT: Out = Out::Bool;
        fn int<I: Int>(&self, [a, b]: [I; 2]) -> I {
            I::from_mask(a.lt(b))
        }
    }
    elinvar_ops::compile_int_map! { 2 Less; }
    #[derive(Clone, Copy, Debug)]
    struct Sum;
    impl IntMap<2> for Sum {
        const NAME: &'static str = "sum";
        fn int<I: Int>(&self, [a, b]: [I; 2]) -> I {
            a.add(b)
        }
    }
    elinvar_ops::compile_int_map! { 2 Sum; }

    #[test]
    fn strides_broadcasts_and_bool_operands() {
        let a = HostData::F32([1.0, 2.0, 3.0, 4.0].into());
        let b = HostData::F32([10.0, 100.0].into());
        let c = HostData::Bool([true].into());
        let s = Shape::new(&[2, 2]).unwrap();
        let l = layout(&[2, 2]);
        let wide = |l: Layout| l.broadcast_to(&s, "t").unwrap();
        let [turned, flipped, one] = [l.transpose(0, 1), wide(layout(&[2]).flip(0)), wide(layout(&[]))];
        let x = [view(&a, &turned), view(&b, &flipped), view(&c, &one)];
        let y = map(&Compiled::<_, 3>(MulAdd), &x, DType::F32).unwrap();
        assert_eq!(y, HostData::F32([101.0, 31.0, 201.0, 41.0].into()));
    }

    #[test]
    fn every_float_type_computes_in_its_type() {
        // 1 + 2^-12 is lost in f16 and bf16 unless the product and the sum stay in f32.
        let (a, b, c) = (1.0 + 2f64.powi(-7), 2f64.powi(-5), -(2f64.powi(-5)));
        for d in [DType::F32, DType::F64, DType::F16, DType::BF16] {
            let x = [a, b, c].map(|v| HostData::full(d, 1, v.into()).unwrap());
            let l = layout(&[1]);
            let y = map(&Compiled::<_, 3>(MulAdd), &[view(&x[0], &l), view(&x[1], &l), view(&x[2], &l)], d)
                .unwrap();
            assert_eq!(y, HostData::full(d, 1, 2f64.powi(-12).into()).unwrap(), "{d}");
        }
        assert_eq!(
            (f16::from_f64(2f64.powi(-12)).to_f64(), bf16::from_f64(1.0 + 2f64.powi(-7)).to_f64()),
            (2f64.powi(-12), 1.0 + 2f64.powi(-7))
        );
    }

    #[test]
    fn comparisons_give_bool() {
        let l = layout(&[3]);
        let (a, b) = (HostData::F64([1.0, 2.0, f64::NAN].into()), HostData::F64([2.0, 1.0, 1.0].into()));
        let y = map(&Compiled::<_, 2>(Less), &[view(&a, &l), view(&b, &l)], DType::F64).unwrap();
        assert_eq!(y, HostData::Bool([true, false, false].into()));
        let (a, b) = (HostData::U8([1, 2, 0].into()), HostData::Bool([true, false, true].into()));
        let y = map_int(&Compiled::<_, 2>(Less), &[view(&a, &l), view(&b, &l)], DType::U8).unwrap();
        assert_eq!(y, HostData::Bool([false, false, true].into()));
    }

    #[test]
    fn integers_wrap_in_their_width() {
        let l = layout(&[2]);
        let rows = [
            (HostData::U8([255, 1].into()), HostData::U8([254, 2].into())),
            (HostData::I32([i32::MAX, 1].into()), HostData::I32([-2, 2].into())),
            (HostData::I64([i64::MIN, 1].into()), HostData::I64([0, 2].into())),
            (HostData::Bool([true, false].into()), HostData::Bool([true, false].into())),
        ];
        for (x, want) in rows {
            let y = map_int(&Compiled::<_, 2>(Sum), &[view(&x, &l), view(&x, &l)], x.dtype()).unwrap();
            assert_eq!(y, want);
        }
    }

    #[test]
    fn nothing_gives_nothing_and_wrong_types_are_refused() {
        let e = HostData::F32([].into());
        let l = layout(&[0, 2]);
        assert_eq!(
            map(&Compiled::<_, 2>(Less), &[view(&e, &l), view(&e, &l)], DType::F32).unwrap(),
            HostData::Bool([].into())
        );
        assert!(map(&Compiled::<_, 2>(Less), &[view(&e, &l), view(&e, &l)], DType::I64).is_err());
        assert!(map_int(&Compiled::<_, 2>(Sum), &[view(&e, &l), view(&e, &l)], DType::F32).is_err());
        assert!(map_int(&Compiled::<_, 2>(Sum), &[view(&e, &l), view(&e, &l)], DType::I64).is_err());
    }
}
