//! Is a result the expected one? The five rules of the golden format, and equality of bits.
//!
//! How it can be wrong: by accepting a wrong result. Every comparison below therefore tests for the
//! allowed and refuses the rest; a NaN on either side of `<=` refuses.

use crate::golden::Expected;
use elinvar_core::{DType, HostData, HostTensor, Shape, each_data, match_storage, storage};
use std::fmt;

/// How a result differs from the expected one.
#[derive(Clone, Debug, PartialEq)]
pub enum Mismatch {
    /// Another shape.
    Shape {
        /// Actual.
        got: Vec<usize>,
        /// Expected.
        want: Vec<usize>,
    },
    /// Another dtype.
    DType {
        /// Actual.
        got: DType,
        /// Expected.
        want: DType,
    },
    /// Other elements; the first of them is shown.
    Element {
        /// Its index.
        index: Vec<usize>,
        /// Actual.
        got: String,
        /// Expected.
        want: String,
        /// The tolerance; `None` if they are compared exactly.
        tolerance: Option<f64>,
        /// How many elements differ.
        wrong: usize,
        /// Number of elements.
        of: usize,
    },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mismatch::Shape { got, want } => write!(f, "shape {got:?}, expected {want:?}"),
            Mismatch::DType { got, want } => write!(f, "dtype {got}, expected {want}"),
            Mismatch::Element { index, got, want, tolerance, wrong, of } => {
                write!(f, "element {index:?} is {got}, expected {want}")?;
                if let Some(t) = tolerance {
                    write!(f, " +- {t:e}")?;
                }
                write!(f, " ({wrong} of {of} elements differ)")
            }
        }
    }
}

/// Compares a result with what a case expects.
///
/// # Errors
/// The first difference.
pub fn compare(got: &HostTensor, want: &Expected) -> Result<(), Mismatch> {
    frame(got, want.tensor.shape(), want.dtype)?;
    match want.tensor.data() {
        HostData::F64(reference) => {
            let tolerance = |r: f64| want.atol + want.rtol * r.abs();
            let close = |g: f64, r: f64| {
                if r.is_nan() {
                    g.is_nan()
                } else if r.is_infinite() {
                    g == r
                } else if r == 0.0 && want.signed_zero && g == 0.0 {
                    g.is_sign_negative() == r.is_sign_negative()
                } else {
                    g.is_finite() && (g - r).abs() <= tolerance(r)
                }
            };
            let fits: Vec<bool> =
                got.to_f64_vec().iter().zip(reference).map(|(&g, &r)| close(g, r)).collect();
            first(got.shape(), &fits, |i| {
                let r = reference[i];
                let exact = (want.rtol == 0.0 && want.atol == 0.0) || !r.is_finite();
                let got = each_data!(got.data(), v => format!("{:?}", v[i]));
                (got, format!("{r:?}"), (!exact).then(|| tolerance(r)))
            })
        }
        HostData::F32(_) | storage!(HostData) => {
            // The reader refuses expectations of these types.
            Err(Mismatch::DType { got: got.dtype(), want: DType::F64 })
        }
        HostData::I64(_) | HostData::I32(_) | HostData::U8(_) | HostData::Bool(_) => bits(got, &want.tensor),
    }
}

/// Compares bit by bit; NaN is one value.
///
/// # Errors
/// The first difference.
pub fn bits(got: &HostTensor, want: &HostTensor) -> Result<(), Mismatch> {
    frame(got, want.shape(), want.dtype())?;
    let fits: Vec<bool> = words(got.data()).iter().zip(words(want.data())).map(|(g, w)| *g == w).collect();
    first(got.shape(), &fits, |i| (show(got.data(), i), show(want.data(), i), None))
}

fn frame(got: &HostTensor, shape: &Shape, dtype: DType) -> Result<(), Mismatch> {
    if got.shape() != shape {
        return Err(Mismatch::Shape { got: got.shape().to_vec(), want: shape.to_vec() });
    }
    if got.dtype() != dtype {
        return Err(Mismatch::DType { got: got.dtype(), want: dtype });
    }
    Ok(())
}

/// The first mismatch, and the number of mismatches.
fn first(
    shape: &Shape,
    fits: &[bool],
    show: impl Fn(usize) -> (String, String, Option<f64>),
) -> Result<(), Mismatch> {
    match fits.iter().position(|f| !f) {
        None => Ok(()),
        Some(flat) => {
            let (got, want, tolerance) = show(flat);
            let wrong = fits.iter().filter(|f| !**f).count();
            Err(Mismatch::Element {
                index: unravel(flat, shape),
                got,
                want,
                tolerance,
                wrong,
                of: fits.len(),
            })
        }
    }
}

fn unravel(mut flat: usize, shape: &Shape) -> Vec<usize> {
    let mut index = vec![0; shape.rank()];
    for axis in (0..shape.rank()).rev() {
        index[axis] = flat % shape[axis];
        flat /= shape[axis];
    }
    index
}

/// Every element as a word that is equal exactly where the elements are equal; all NaNs give one
/// word.
pub fn words(data: &HostData) -> Vec<u64> {
    match_storage!(HostData data;
        storage v: T => {
            v.iter().map(|x: &T| if x.is_nan() { u64::MAX } else { x.to_bits().into() }).collect()
        };
        HostData::F64(v) => v.iter().map(|x| if x.is_nan() { u64::MAX } else { x.to_bits() }).collect(),
        HostData::F32(v) => {
            v.iter().map(|x| if x.is_nan() { u64::MAX } else { x.to_bits().into() }).collect()
        }
        HostData::I64(v) => v.iter().map(|x| *x as u64).collect(),
        HostData::I32(v) => v.iter().map(|x| *x as u64).collect(),
        HostData::U8(v) => v.iter().map(|x| (*x).into()).collect(),
        HostData::Bool(v) => v.iter().map(|x| (*x).into()).collect(),
    )
}

/// An element as text, in the digits of its own type; floats also as bits, since decimals may hide
/// a difference.
fn show(data: &HostData, i: usize) -> String {
    let value = each_data!(data, v => format!("{:?}", v[i]));
    if data.dtype().is_float() { format!("{value} (0x{:x})", words(data)[i]) } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use elinvar_core::{bf16, f16};

    fn want(v: &[f64], signed_zero: bool) -> Expected {
        let tensor = HostTensor::from_vec(v.to_vec(), Shape::new(&[v.len()]).unwrap()).unwrap();
        Expected { tensor, dtype: DType::F32, rtol: 1e-6, atol: 1e-9, signed_zero }
    }
    fn got(v: &[f32]) -> HostTensor {
        HostTensor::from_vec(v.to_vec(), Shape::new(&[v.len()]).unwrap()).unwrap()
    }
    const INF: f32 = f32::INFINITY;

    #[test]
    fn values_pass_within_the_tolerance_and_only_there() {
        for (g, w, passes) in [
            (1.0, 1.0, true),
            (1.000001, 1.0, true),  // 9.5e-7
            (1.00001, 1.0, false),  // ten times the tolerance
            (0.0, 1e-9, true),      // absolute tolerance
            (1.2e-8, 1e-9, false),  // ten times the absolute tolerance
            (f32::NAN, 1.0, false), // NaN instead of a number
            (1.0, f64::NAN, false), // a number instead of NaN
            (f32::NAN, f64::NAN, true),
            (-f32::NAN, f64::NAN, true),
            (INF, f64::INFINITY, true),
            (-INF, f64::INFINITY, false),
            (f32::MAX, f64::INFINITY, false),
            (INF, 1e30, false),
            (f32::NAN, f64::INFINITY, false),
            (INF, f64::NAN, false),
            (-0.0, 0.0, true), // the sign of zero is not compared
            (0.0, -0.0, true),
        ] {
            assert_eq!(compare(&got(&[g]), &want(&[w], false)).is_ok(), passes, "{g} against {w}");
        }
    }

    #[test]
    fn the_sign_of_zero_counts_where_the_case_says_so() {
        for (g, w, passes) in [
            (0.0, 0.0, true),
            (-0.0, -0.0, true),
            (-0.0, 0.0, false),
            (0.0, -0.0, false),
            (1e-10, -0.0, true), // not a zero: the tolerance decides
            (1e-7, 0.0, false),
            (-1.0, 1.0, false),
        ] {
            assert_eq!(compare(&got(&[g]), &want(&[w], true)).is_ok(), passes, "{g} against {w}");
        }
    }

    #[test]
    fn shape_and_dtype_must_be_the_expected_ones() {
        let w = want(&[1.0, 2.0], false);
        assert!(compare(&got(&[1.0, 2.0]), &w).is_ok());
        assert!(matches!(compare(&got(&[1.0]), &w), Err(Mismatch::Shape { .. })));
        let column = HostTensor::from_vec(vec![1.0f32, 2.0], Shape::new(&[2, 1]).unwrap()).unwrap();
        assert!(matches!(compare(&column, &w), Err(Mismatch::Shape { .. })));
        let double = HostTensor::from_vec(vec![1.0f64, 2.0], Shape::new(&[2]).unwrap()).unwrap();
        assert!(matches!(compare(&double, &w), Err(Mismatch::DType { .. })));
        let int = HostTensor::from_vec(vec![1i64, 2], Shape::new(&[2]).unwrap()).unwrap();
        assert!(matches!(compare(&int, &w), Err(Mismatch::DType { .. })));
    }

    #[test]
    fn integers_are_compared_exactly_beyond_what_f64_can_hold() {
        let tensor = |v: i64| HostTensor::from_vec(vec![v], Shape::new(&[1]).unwrap()).unwrap();
        let w =
            |v| Expected { tensor: tensor(v), dtype: DType::I64, rtol: 1.0, atol: 1.0, signed_zero: false };
        assert!(compare(&tensor(i64::MAX), &w(i64::MAX)).is_ok());
        assert!(compare(&tensor(i64::MAX - 1), &w(i64::MAX)).is_err());
    }

    #[test]
    fn a_failure_names_the_first_wrong_element() {
        let shape = Shape::new(&[2, 3]).unwrap();
        let w = HostTensor::from_vec(vec![0.0f64, 1.0, 2.0, 3.0, 4.0, 5.0], shape.clone()).unwrap();
        let w = Expected { tensor: w, dtype: DType::F32, rtol: 0.0, atol: 0.5, signed_zero: false };
        let g = HostTensor::from_vec(vec![0.0f32, 1.0, 2.0, 3.0, 4.75, 6.0], shape).unwrap();
        let text = compare(&g, &w).unwrap_err().to_string();
        assert_eq!(text, "element [1, 1] is 4.75, expected 4.0 +- 5e-1 (2 of 6 elements differ)");
    }

    #[test]
    fn bits_are_compared_with_nan_as_one_value() {
        assert!(bits(&got(&[f32::NAN]), &got(&[-f32::NAN])).is_ok());
        assert!(bits(&got(&[0.0]), &got(&[-0.0])).is_err());
        assert!(bits(&got(&[1.0]), &got(&[1.0000001])).is_err());
        let half = |v: f32| HostTensor::from_vec(vec![f16::from_f32(v)], Shape::new(&[1]).unwrap()).unwrap();
        let brain =
            |v: f32| HostTensor::from_vec(vec![bf16::from_f32(v)], Shape::new(&[1]).unwrap()).unwrap();
        assert!(bits(&half(1.5), &half(1.5)).is_ok());
        assert!(bits(&half(0.0), &half(-0.0)).is_err());
        assert!(bits(&half(f32::NAN), &half(-f32::NAN)).is_ok());
        assert!(bits(&brain(1.5), &half(1.5)).is_err());
        assert!(bits(&brain(f32::NAN), &brain(INF)).is_err());
    }

    #[test]
    fn nothing_is_equal_to_nothing_of_the_same_shape() {
        let none = HostTensor::from_vec(Vec::<f32>::new(), Shape::new(&[0]).unwrap()).unwrap();
        assert!(compare(&none, &want(&[], true)).is_ok());
        assert!(bits(&none, &none).is_ok());
    }
}
