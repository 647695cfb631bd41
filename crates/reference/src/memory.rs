//! Making, moving and converting tensors: no arithmetic except the random numbers.

use crate::View;
use crate::cell::Cell;
use crate::compute::{Compute, convert, each_float, elements, misuse, own};
use elinvar_core::host::{filled, with_capacity};
use elinvar_core::philox::{Stream, unit_f32, unit_f64};
use elinvar_core::{DType, Element, HostData, Layout, Result, Scalar, Shape, each_data, each_dtype, storage};
use elinvar_ops::backend::Random;
use elinvar_ops::lane::Lane;
use elinvar_ops::random::{self, Interval};

/// `len` copies of a value.
pub fn fill(value: Scalar, dtype: DType, len: usize) -> Result<HostData> {
    each_dtype!(dtype, T => Ok(T::wrap(filled(len, T::nearest(value))?)))
}

/// The view, contiguous. Not even a NaN's payload changes.
pub fn copy(x: &View) -> Result<HostData> {
    own(x.buffer, x.layout)
}

/// The view, contiguous, as another (or the same) dtype.
pub fn cast(x: &View, to: DType) -> Result<HostData> {
    // Elements are gathered once for each type, and not for each pair of types, which saves code
    // size.
    fn one<S: Cell>(v: &[S], layout: &Layout, to: DType) -> Result<HostData> {
        let v = elements(v, layout)?;
        each_dtype!(to, T => Ok(T::wrap(convert(&v, |x| T::nearest(x.value()))?)))
    }
    if x.buffer.dtype() == to {
        return copy(x);
    }
    each_data!(x.buffer, v => one(v, x.layout, to))
}

/// The same between storage floats and f32.
pub fn cast_halves(x: &View, to: DType) -> Result<HostData> {
    match (x.buffer.dtype(), to) {
        (from, _) if from == to => copy(x),
        (storage!(DType), DType::F32) | (DType::F32, storage!(DType)) => {
            f32::store(f32::load(x.buffer, x.layout)?.into_owned(), to)
        }
        (other, _) => Err(misuse(&format!("a cast of {other} between f32 and a storage float"), to)),
    }
}

/// A tensor of `shape` filled with `fill`, into which the parts are written one after the other.
pub fn assemble(value: Scalar, dtype: DType, shape: &Shape, parts: &[(View, Layout)]) -> Result<HostData> {
    let mut y = fill(value, dtype, shape.numel())?;
    for (part, to) in parts {
        write(&mut y, to, part)?;
    }
    Ok(y)
}

/// The elements of a view, at their places in memory of the same type.
pub fn write(y: &mut HostData, to: &Layout, x: &View) -> Result<()> {
    fn one<T: Element>(y: &mut HostData, part: &[T], from: &Layout, to: &Layout) -> Result<()> {
        let y = T::slice_mut(y).ok_or_else(|| misuse("a part of another type", T::DTYPE))?;
        for (p, q) in from.positions().zip(to.positions()) {
            y[q] = part[p];
        }
        Ok(())
    }
    each_data!(x.buffer, v => one(y, v, x.layout, to))
}

/// The random words of an element, as numbers in the type of computation.
pub trait Draw: Compute {
    /// Uniform number `i` of the stream, in 0..1: of 24 bits, or of 53 for f64.
    fn unit(s: Stream, i: u64) -> Self;
}
impl Draw for f32 {
    fn unit(s: Stream, i: u64) -> f32 {
        unit_f32(s.word(i))
    }
}
impl Draw for f64 {
    fn unit(s: Stream, i: u64) -> f64 {
        unit_f64(s.word64(i))
    }
}

/// `len` random numbers.
pub fn random(r: Random, s: Stream, dtype: DType, len: usize) -> Result<HostData> {
    match r {
        Random::Uniform { low, high } => {
            each_float!("a uniform number", dtype, C => C::store(uniform::<C>(low, high, dtype, s, len)?, dtype))
        }
        Random::Normal { mean, std } => {
            each_float!("a normal number", dtype, C => C::store(normal::<C>(mean, std, s, len)?, dtype))
        }
        Random::Bernoulli { p } => each_dtype!(dtype, T => {
            let hit = |i: u64| if dtype == DType::F64 { f64::unit(s, i) < p } else { f64::from(f32::unit(s, i)) < p };
            let mut v = with_capacity(len)?;
            v.extend((0..len as u64).map(|i| T::nearest(Scalar::Bool(hit(i)))));
            Ok(T::wrap(v))
        }),
        Random::Int { low, high } => each_dtype!(dtype, T => {
            let span = u128::from(high.wrapping_sub(low) as u64);
            let draw = |i: u64| low.wrapping_add(((u128::from(s.word64(i)) * span) >> 64) as i64);
            let mut v = with_capacity(len)?;
            v.extend((0..len as u64).map(|i| T::nearest(Scalar::Int(draw(i)))));
            Ok(T::wrap(v))
        }),
    }
}

fn uniform<C: Draw>(low: f64, high: f64, dtype: DType, s: Stream, len: usize) -> Result<Vec<C>> {
    let interval = Interval::of(low, high, dtype).numbers().map(C::lit);
    let mut v = with_capacity(len)?;
    v.extend((0..len as u64).map(|i| random::uniform(C::unit(s, i), interval)));
    Ok(v)
}

fn normal<C: Draw>(mean: f64, std: f64, s: Stream, len: usize) -> Result<Vec<C>> {
    let (mean, std) = (C::lit(mean), C::lit(std));
    let mut v = with_capacity(len)?;
    v.extend((0..len as u64).map(|i| {
        let (first, second) = (C::unit(s, i & !1), C::unit(s, i | 1));
        let radius = (C::lit(-2.0) * (C::lit(1.0) - first).log()).sqrt();
        let angle = C::lit(std::f64::consts::TAU) * second;
        let turned = if i % 2 == 0 { Lane::cos(angle) } else { Lane::sin(angle) };
        (radius * turned).fma(std, mean)
    }));
    Ok(v)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reference;
    use crate::tests::{layout, view};
    use elinvar_ops::backend::Memory;

    const S: Stream = Stream { seed: 42, stream: 7 };

    #[test]
    fn a_download_is_row_major() {
        let x = HostData::I32((0..6).collect());
        let l = layout(&[2, 3]);
        let rows = [
            (l.clone(), vec![0, 1, 2, 3, 4, 5]),
            (l.transpose(0, 1).flip(0), vec![2, 5, 1, 4, 0, 3]),
            (l.slice(1, 0, 0, 1), vec![]),
        ];
        for (l, want) in rows {
            assert_eq!(
                Reference::download(&crate::ReferenceDevice, view(&x, &l)).unwrap(),
                HostData::I32(want.into())
            );
        }
    }

    #[test]
    fn a_copy_of_the_same_type_keeps_every_bit() {
        let odd = f32::from_bits(0x7fc0_1234);
        let y = copy(&view(&HostData::F32([odd, -0.0].into()), &layout(&[2]))).unwrap();
        let HostData::F32(y) = y else { panic!("another type") };
        assert_eq!([y[0].to_bits(), y[1].to_bits()], [0x7fc0_1234, 0x8000_0000]);
    }

    #[test]
    fn a_copy_converts_between_all_types() {
        for from in DType::ALL {
            for to in DType::ALL {
                let x = fill(Scalar::Int(1), from, 3).unwrap();
                let y = cast(&view(&x, &layout(&[3]).flip(0)), to).unwrap();
                assert_eq!(y, fill(Scalar::Int(1), to, 3).unwrap(), "{from} to {to}");
            }
        }
    }

    #[test]
    fn fill_takes_the_nearest_value() {
        assert_eq!(fill(Scalar::Float(0.1), DType::F32, 2).unwrap(), HostData::F32(vec![0.1; 2].into()));
        assert_eq!(fill(Scalar::Float(-1.9), DType::I64, 1).unwrap(), HostData::I64([-1].into()));
        assert_eq!(fill(Scalar::Float(f64::NAN), DType::Bool, 1).unwrap(), HostData::Bool([true].into()));
        assert_eq!(fill(Scalar::Int(0), DType::U8, 0).unwrap(), HostData::U8([].into()));
        let huge = fill(Scalar::Int(0), DType::F64, usize::MAX / 32).unwrap_err();
        assert_eq!(huge.kind(), elinvar_core::ErrorKind::OutOfMemory);
    }

    #[test]
    fn later_parts_cover_earlier_ones() {
        let shape = Shape::new(&[2, 3]).unwrap();
        let whole = layout(&[2, 3]);
        let a = HostData::U8([1, 2].into());
        let b = HostData::U8([9].into());
        let [column, row, one] = [layout(&[2, 1]), layout(&[1, 2]), layout(&[1, 1])];
        let parts = [
            (view(&a, &column), whole.slice(1, 1, 1, 1)),
            (view(&a, &row), whole.slice(0, 1, 1, 1).slice(1, 2, 2, -1)), // backwards
            (view(&b, &one), whole.slice(0, 0, 1, 1).slice(1, 0, 1, 1)),
        ];
        let y = assemble(Scalar::Int(7), DType::U8, &shape, &parts).unwrap();
        assert_eq!(y, HostData::U8([9, 1, 7, 7, 2, 1].into()));
        assert!(assemble(Scalar::Int(7), DType::I32, &shape, &parts).is_err());
    }

    fn floats(r: Random, dtype: DType, n: usize) -> Vec<f64> {
        let y = random(r, S, dtype, n).unwrap();
        assert_eq!(y.dtype(), dtype);
        each_data!(y, v => v.into_iter().map(|x| x.to_f64()).collect())
    }
    fn moments(v: &[f64]) -> (f64, f64) {
        let mean = v.iter().sum::<f64>() / v.len() as f64;
        (mean, v.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / v.len() as f64)
    }

    #[test]
    fn element_i_depends_on_i_alone() {
        let all = [
            Random::Uniform { low: -1.0, high: 3.0 },
            Random::Normal { mean: 1.0, std: 2.0 },
            Random::Bernoulli { p: 0.3 },
            Random::Int { low: -3, high: 5 },
        ];
        for r in all {
            for d in [DType::F32, DType::F64, DType::F16] {
                let (long, short) = (floats(r, d, 101), floats(r, d, 6));
                assert_eq!(short, long[..6], "{r:?} {d}");
                assert!(floats(r, d, 0).is_empty());
            }
        }
    }

    #[test]
    fn uniform_numbers_are_the_words_scaled() {
        let want: Vec<f32> = (0..5).map(|i| unit_f32(S.word(i)).mul_add(4.0, -1.0)).collect();
        let r = Random::Uniform { low: -1.0, high: 3.0 };
        assert_eq!(random(r, S, DType::F32, 5).unwrap(), HostData::F32(want.into()));
        let want: Vec<f64> = (0..5).map(|i| unit_f64(S.word64(i)).mul_add(4.0, -1.0)).collect();
        assert_eq!(random(r, S, DType::F64, 5).unwrap(), HostData::F64(want.into()));
        assert!(random(r, S, DType::I32, 5).is_err());
    }

    #[test]
    fn distributions_have_their_moments() {
        // r, mean, variance; 20000 draws leave about 0.7 % of a standard deviation in the mean.
        let rows = [
            (Random::Uniform { low: 0.0, high: 1.0 }, 0.5, 1.0 / 12.0),
            (Random::Normal { mean: 1.0, std: 2.0 }, 1.0, 4.0),
            (Random::Bernoulli { p: 0.3 }, 0.3, 0.21),
            (Random::Int { low: -3, high: 5 }, 0.5, 5.25),
        ];
        for (r, mean, variance) in rows {
            for d in [DType::F32, DType::F64] {
                let (m, v) = moments(&floats(r, d, 20_000));
                assert!((m - mean).abs() < 0.03 * f64::sqrt(variance), "{r:?} {d}: mean {m}");
                assert!((v / variance - 1.0).abs() < 0.05, "{r:?} {d}: variance {v}");
            }
        }
    }

    #[test]
    fn bounds_of_whole_numbers_are_kept() {
        let r = Random::Int { low: i64::MIN, high: i64::MAX };
        let HostData::I64(v) = random(r, S, DType::I64, 100).unwrap() else { panic!("another type") };
        assert!(v.iter().any(|&x| x < i64::MIN / 2) && v.iter().any(|&x| x > i64::MAX / 2));
        let v = floats(Random::Int { low: 3, high: 4 }, DType::U8, 10);
        assert_eq!(v, [3.0; 10]);
        for (p, want) in [(0.0, 0.0), (1.0, 1.0)] {
            assert_eq!(floats(Random::Bernoulli { p }, DType::Bool, 50), [want; 50]);
        }
    }
}
