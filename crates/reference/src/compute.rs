//! From storage to the type of computation, and back.
//!
//! f32 and storage floats are computed in f32, f64 in f64. Loading is exact, storing rounds once to
//! nearest even. Views become contiguous row-major slices here, so that no other file handles
//! strides.

use crate::ring::Ring;
use elinvar_core::{
    DType, Dims, Element, Error, HostData, Layout, Result, each_data, host::with_capacity, match_storage,
    storage,
};
use elinvar_simd::compiled_epilogue::EpilogueFloat;
use elinvar_simd::compiled_rows::RowFloat;
use elinvar_simd::compiled_update::UpdateFloat;
use std::borrow::Cow;

/// f32 or f64: a type in which floats are computed.
pub trait Compute: RowFloat + EpilogueFloat + UpdateFloat + Ring + Element + PartialOrd {
    /// The elements of a view, row-major. bool is read as 0 or 1.
    fn load<'a>(data: &'a HostData, layout: &Layout) -> Result<Cow<'a, [Self]>>;
    /// Elements as they are stored: rounded, or `!= 0` for bool.
    fn store(v: Vec<Self>, to: DType) -> Result<HostData>;
}

impl Compute for f32 {
    fn load<'a>(data: &'a HostData, layout: &Layout) -> Result<Cow<'a, [f32]>> {
        Ok(match_storage!(HostData data; storage v: T => Cow::Owned(gather(v, layout, T::to_f32)?);
            HostData::F32(v) => elements(v, layout)?,
            HostData::Bool(v) => Cow::Owned(gather(v, layout, |b| f32::from(u8::from(b)))?),
            HostData::F64(_) | HostData::I64(_) | HostData::I32(_) | HostData::U8(_) => {
                return Err(misuse("computing in f32", data.dtype()));
            }
        ))
    }
    fn store(v: Vec<f32>, to: DType) -> Result<HostData> {
        Ok(match_storage!(DType to; storage T => T::wrap(convert(&v, T::from_f32)?);
            DType::F32 => HostData::F32(v.into()),
            DType::Bool => HostData::Bool(convert(&v, |x| x != 0.0)?.into()),
            DType::F64 | DType::I64 | DType::I32 | DType::U8 => return Err(misuse("storing f32", to)),
        ))
    }
}

impl Compute for f64 {
    fn load<'a>(data: &'a HostData, layout: &Layout) -> Result<Cow<'a, [f64]>> {
        Ok(match data {
            HostData::F64(v) => elements(v, layout)?,
            HostData::Bool(v) => Cow::Owned(gather(v, layout, |b| f64::from(u8::from(b)))?),
            HostData::F32(_) | storage!(HostData) | HostData::I64(_) | HostData::I32(_) | HostData::U8(_) => {
                return Err(misuse("computing in f64", data.dtype()));
            }
        })
    }
    fn store(v: Vec<f64>, to: DType) -> Result<HostData> {
        Ok(match to {
            DType::F64 => HostData::F64(v.into()),
            DType::Bool => HostData::Bool(convert(&v, |x| x != 0.0)?.into()),
            DType::F32 | storage!(DType) | DType::I64 | DType::I32 | DType::U8 => {
                return Err(misuse("storing f64", to));
            }
        })
    }
}

/// Runs the body with the type alias `$C` bound to the type of computation of a float dtype.
macro_rules! each_float {
    ($what:expr, $dtype:expr, $C:ident => $body:expr) => {
        match $dtype {
            elinvar_core::DType::F32 | elinvar_core::storage!(DType) => {
                type $C = f32;
                $body
            }
            elinvar_core::DType::F64 => {
                type $C = f64;
                $body
            }
            d @ (elinvar_core::DType::I64
            | elinvar_core::DType::I32
            | elinvar_core::DType::U8
            | elinvar_core::DType::Bool) => Err($crate::compute::misuse($what, d)),
        }
    };
}

/// Runs the body with the type alias `$I` bound to the Rust type of an integer dtype or bool.
macro_rules! each_int {
    ($what:expr, $dtype:expr, $I:ident => $body:expr) => {
        match $dtype {
            elinvar_core::DType::I64 => {
                type $I = i64;
                $body
            }
            elinvar_core::DType::I32 => {
                type $I = i32;
                $body
            }
            elinvar_core::DType::U8 => {
                type $I = u8;
                $body
            }
            elinvar_core::DType::Bool => {
                type $I = bool;
                $body
            }
            d @ (elinvar_core::DType::F32 | elinvar_core::DType::F64 | elinvar_core::storage!(DType)) => {
                Err($crate::compute::misuse($what, d))
            }
        }
    };
}
pub(crate) use {each_float, each_int};

/// An op was asked for in a dtype that it does not support. Callers check dtypes, so this is a bug
/// in elinvar.
pub fn misuse(what: &str, dtype: DType) -> Error {
    Error::dtype(format!(
        "reference: {what} is not defined for {dtype}; the op should have converted it first"
    ))
}

/// The elements of a view, row-major: borrowed if the view is contiguous.
pub fn elements<'a, T: Copy>(data: &'a [T], layout: &Layout) -> Result<Cow<'a, [T]>> {
    let n = layout.shape().numel();
    if n > 0 && layout.is_contiguous() {
        Ok(Cow::Borrowed(&data[layout.offset()..layout.offset() + n]))
    } else {
        Ok(Cow::Owned(gather(data, layout, |x| x)?))
    }
}

/// The elements of a view, row-major, each through `f`.
pub fn gather<S: Copy, T>(data: &[S], layout: &Layout, f: impl Fn(S) -> T) -> Result<Vec<T>> {
    let n = layout.shape().numel();
    let mut out = with_capacity(n)?;
    if n > 0 && layout.is_contiguous() {
        out.extend(data[layout.offset()..layout.offset() + n].iter().map(|&x| f(x)));
    } else {
        out.extend(layout.positions().map(|p| f(data[p])));
    }
    Ok(out)
}

/// Each element through `f`.
pub fn convert<S: Copy, T>(v: &[S], f: impl Fn(S) -> T) -> Result<Vec<T>> {
    let mut out = with_capacity(v.len())?;
    out.extend(v.iter().map(|&x| f(x)));
    Ok(out)
}

/// The elements of a view, row-major, in their own type.
pub fn own(data: &HostData, layout: &Layout) -> Result<HostData> {
    fn wrap<T: Element>(v: &[T], layout: &Layout) -> Result<HostData> {
        Ok(T::wrap(gather(v, layout, |x| x)?))
    }
    each_data!(data, v => wrap(v, layout))
}

/// The number of rows, and of elements in each, if the first `kept` axes are the rows and the
/// others make up a row.
pub fn rows_of(dims: &[usize], kept: usize) -> (usize, usize) {
    (dims[..kept].iter().product(), dims[kept..].iter().product())
}

/// The row-major index at position `flat` of a shape.
pub fn unravel(mut flat: usize, dims: &[usize]) -> Dims {
    let mut index = Dims::from_elem(0, dims.len());
    for (i, &n) in index.iter_mut().zip(dims).rev() {
        *i = flat % n;
        flat /= n;
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;
    use elinvar_core::{Shape, bf16};

    fn contiguous(dims: &[usize]) -> Layout {
        Layout::contiguous(Shape::new(dims).unwrap())
    }

    #[test]
    fn views_become_rows() {
        let data = [0, 1, 2, 3, 4, 5];
        let l = contiguous(&[2, 3]);
        let rows = [
            (l.clone(), vec![0, 1, 2, 3, 4, 5]),
            (l.transpose(0, 1), vec![0, 3, 1, 4, 2, 5]),
            (l.flip(1), vec![2, 1, 0, 5, 4, 3]),
            (l.slice(0, 1, 1, 1), vec![3, 4, 5]),
            (l.slice(0, 2, 0, 1), vec![]),
            (contiguous(&[1]).broadcast_to(&Shape::new(&[3]).unwrap(), "t").unwrap(), vec![0, 0, 0]),
            (contiguous(&[]), vec![0]),
        ];
        for (layout, want) in rows {
            assert_eq!(elements(&data, &layout).unwrap().into_owned(), want, "{layout:?}");
            assert_eq!(gather(&data, &layout, |x| x).unwrap(), want, "{layout:?}");
        }
        assert!(matches!(elements(&data, &l.slice(0, 1, 1, 1)).unwrap(), Cow::Borrowed(_)));
    }

    #[test]
    fn halves_are_loaded_exactly_and_stored_to_the_nearest() {
        // stored as f16, and as bf16
        let rows = [
            (1.0f32, 1.0f32, 1.0f32),
            (1.0 + 2f32.powi(-11), 1.0, 1.0), // a tie in f16: to even
            (1.0 + 3.0 * 2f32.powi(-11), 1.0 + 2f32.powi(-9), 1.0),
            (1.0 + 2f32.powi(-8), 1.0 + 2f32.powi(-8), 1.0), // a tie in bf16: to even
            (1.0 + 3.0 * 2f32.powi(-8), 1.0 + 3.0 * 2f32.powi(-8), 1.0 + 2f32.powi(-6)),
            (65519.0, 65504.0, 65536.0),
            (65520.0, f32::INFINITY, 65536.0), // beyond f16
            (-1e38, f32::NEG_INFINITY, -1e38), // beyond f16 but not bf16
            (f32::MAX, f32::INFINITY, f32::INFINITY),
            (2f32.powi(-24), 2f32.powi(-24), 2f32.powi(-24)), // the least f16
            (2f32.powi(-25), 0.0, 2f32.powi(-25)),            // half of it: a tie, to even
            (2f32.powi(-133), 0.0, 2f32.powi(-133)),          // the least bf16
            (-0.0, -0.0, -0.0),
        ];
        for (x, half, brain) in rows {
            for (dtype, want) in [(DType::F16, half), (DType::BF16, brain), (DType::F32, x)] {
                let stored = f32::store(vec![x], dtype).unwrap();
                let back = f32::load(&stored, &contiguous(&[1])).unwrap()[0];
                let want =
                    if dtype == DType::BF16 && x == -1e38 { bf16::from_f32(want).to_f32() } else { want };
                assert_eq!(
                    f32::to_bits(back),
                    f32::to_bits(want),
                    "{x:e} as {dtype}: {back:e}, not {want:e}"
                );
            }
        }
    }

    #[test]
    fn truth_is_one_and_anything_but_zero_is_true() {
        let b = HostData::Bool([true, false].into());
        assert_eq!(*f32::load(&b, &contiguous(&[2])).unwrap(), [1.0, 0.0]);
        assert_eq!(*f64::load(&b, &contiguous(&[2])).unwrap(), [1.0, 0.0]);
        let stored = f32::store(vec![0.0, -0.0, 1e-45, f32::NAN], DType::Bool).unwrap();
        assert_eq!(stored, HostData::Bool([false, false, true, true].into()));
    }

    #[test]
    fn other_types_are_refused() {
        for d in [DType::I64, DType::I32, DType::U8, DType::F64] {
            let data = HostData::full(d, 1, 1.into()).unwrap();
            assert!(f32::load(&data, &contiguous(&[1])).is_err(), "{d}");
            assert!(f32::store(vec![1.0], d).is_err(), "{d}");
        }
    }

    #[test]
    fn a_number_becomes_an_index() {
        assert_eq!(unravel(5, &[2, 3])[..], [1, 2]);
        assert_eq!(unravel(0, &[])[..], []);
        assert_eq!(rows_of(&[2, 3, 4], 1), (2, 12));
        assert_eq!(rows_of(&[2, 0], 1), (2, 0));
        assert_eq!(rows_of(&[], 0), (1, 1));
    }
}
