//! Conversions between element types: through the exact value of an element, rounded once.

use elinvar_core::{Element, Scalar, rounding};

/// An element type as source and target of conversions. [`Scalar`] holds the value of any element
/// exactly.
pub trait Cell: Element {
    /// The value, exactly.
    fn value(self) -> Scalar;
    /// The element nearest to a value: floats round to nearest even and overflow to infinity (to
    /// NaN if the type has none); to integers, floats are truncated towards zero and saturate (NaN:
    /// 0), and integers wrap; bool is `!= 0`.
    fn nearest(v: Scalar) -> Self;
}

macro_rules! cell {
    ($($t:ty, $value:expr, $float:expr, $int:expr;)*) => {$(
        impl Cell for $t {
            #[inline]
            fn value(self) -> Scalar { ($value)(self) }
            #[inline]
            fn nearest(v: Scalar) -> Self {
                match v {
                    Scalar::Float(v) => ($float)(v),
                    Scalar::Int(v) => ($int)(v),
                    Scalar::Bool(v) => ($int)(i64::from(v)),
                }
            }
        }
    )*};
}
cell! {
    f32,  |v| Scalar::Float(f64::from(v)),   |v| v as f32,             |v| v as f32;
    f64,  Scalar::Float,                     |v| v,                    |v| v as f64;
    i64,  Scalar::Int,                       |v| v as i64,             |v| v;
    i32,  |v| Scalar::Int(i64::from(v)),     |v| v as i32,             |v| v as i32;
    u8,   |v| Scalar::Int(i64::from(v)),     |v| v as u8,              |v| v as u8;
    bool, Scalar::Bool,                      |v| v != 0.0,             |v| v != 0;
}
macro_rules! storage_cells {
    (() half { $($h:ident: $ht:ident $hr:tt)* } byte { $($b:ident: $bt:ident $br:tt)* }) => {
        storage_cells! { @ $($ht)* $($bt)* }
    };
    (@ $($t:ident)*) => {
        cell! {$(
            elinvar_core::$t, |v| Scalar::Float(Element::to_f64(v)), rounding::storage_from_f64,
                |v| rounding::storage_from_f64(rounding::odd_f64(v));
        )*}
    };
}
elinvar_core::storage_floats!([storage_cells]());

#[cfg(test)]
mod tests {
    use super::*;
    use elinvar_core::{bf16, f16};
    use std::fmt::Debug;

    fn rows<S: Cell, T: Cell + Debug>(rows: &[(S, T)]) {
        for &(x, want) in rows {
            let got = T::nearest(x.value());
            // As text: NaN is NaN there, and zeros keep their signs.
            assert_eq!(format!("{got:?}"), format!("{want:?}"), "{x:?} as {}", T::DTYPE);
        }
    }
    fn h(x: f32) -> f16 {
        f16::from_f32(x)
    }
    fn b(x: f32) -> bf16 {
        bf16::from_f32(x)
    }

    #[test]
    fn floats_to_integers_cut_and_saturate() {
        rows(&[
            (f32::NAN, 0i32),
            (2.9, 2),
            (-2.9, -2),
            (-0.0, 0),
            (1e10, i32::MAX),
            (-1e10, i32::MIN),
            (f32::INFINITY, i32::MAX),
            (2147483520.0, 2147483520),
        ]);
        rows(&[(f32::NAN, 0u8), (255.9, 255), (256.0, 255), (-1.0, 0), (-0.9, 0)]);
        rows(&[(1e300, i64::MAX), (-1e300, i64::MIN), (9007199254740993.0, 9007199254740992i64)]);
        rows(&[(h(65504.0), 65504i32), (f16::INFINITY, i32::MAX), (f16::NAN, 0)]);
        rows(&[(b(1e38), i64::MAX), (b(-1.5), -1)]);
    }

    #[test]
    fn integers_wrap() {
        rows(&[(300i64, 44u8), (-1, 255), (1 << 40, 0)]);
        rows(&[(1i64 << 31, i32::MIN), (-1, -1), ((1 << 32) + 5, 5)]);
        rows(&[(255u8, 255i32), (0, 0)]);
        rows(&[(-7i32, -7i64)]);
    }

    #[test]
    fn floats_round_once() {
        rows(&[
            (16777217.0f64, 16777216.0f32), // a tie, to even
            (16777219.0, 16777220.0),
            (1e39, f32::INFINITY),
            (1e-46, 0.0),
            (-1e-46, -0.0),
            (1e-45, 1e-45), // subnormals stay
            (f64::NAN, f32::NAN),
        ]);
        rows(&[(65520.0f64, f16::INFINITY), (1.0 + 2f64.powi(-11) + 2f64.powi(-40), h(1.0009765625))]);
        rows(&[(65520.0f32, f16::INFINITY), (6e-8, f16::from_bits(1)), (2.9e-8, f16::ZERO)]);
        rows(&[(h(1.0009765625), b(1.0)), (f16::INFINITY, bf16::INFINITY), (h(-0.0), b(-0.0))]);
        rows(&[(b(1e38), f16::INFINITY), (b(1e-38), f16::ZERO)]);
        rows(&[(16777217i64, 16777216.0f32), (i64::MAX, 9.223372036854775807e18)]);
        rows(&[(9007199254740993i64, 9007199254740992.0f64)]);
        // 2^62 + 2^54 is the middle of two bf16; one more is above it, though not in f32.
        rows(&[
            ((1i64 << 62) + (1 << 54), b(4.611686e18)),
            ((1 << 62) + (1 << 54) + 1, bf16::from_bits(0x5e81)),
        ]);
        rows(&[(65519i64, h(65504.0)), (65520, f16::INFINITY), (-2049, h(-2048.0))]);
    }

    #[test]
    fn truth() {
        rows(&[(f32::NAN, true), (-0.0, false), (1e-45, true)]);
        rows(&[(256i64, true), (0, false)]);
        rows(&[(true, 1u8), (false, 0)]);
        rows(&[(true, h(1.0)), (false, h(0.0))]);
    }
}
