//! Numbers that workers send each other, in the bytes of the machine.

use bytemuck::Pod;
use elinvar_core::DType;
use std::borrow::Cow;

/// An element that can be sent. All workers must be of one byte order, as processors and GPUs of
/// today are.
pub trait Element: Send + Sync + Pod {
    /// Its type.
    const DTYPE: DType;
}

/// An element of which there are sums.
pub trait Number: Element {
    /// The sum of two: rounded to nearest for floats, wrapping for integers.
    #[must_use]
    fn plus(self, other: Self) -> Self;
}

macro_rules! elements {
    ($($t:ty: $dtype:ident;)*) => {$(
        impl Element for $t {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}
elements! { f32: F32; f64: F64; i64: I64; i32: I32; u8: U8; }

impl Number for f32 {
    fn plus(self, other: f32) -> f32 {
        self + other
    }
}
impl Number for f64 {
    fn plus(self, other: f64) -> f64 {
        self + other
    }
}
impl Number for i64 {
    fn plus(self, other: i64) -> i64 {
        self.wrapping_add(other)
    }
}
impl Number for i32 {
    fn plus(self, other: i32) -> i32 {
        self.wrapping_add(other)
    }
}

/// left + right, element by element, in the memory of one of them if it is there to be used.
pub(crate) fn add<'x, T: Number>(left: Cow<'x, [T]>, right: Cow<'x, [T]>) -> Cow<'x, [T]> {
    Cow::Owned(match (left, right) {
        (Cow::Owned(mut left), right) => {
            for (l, r) in left.iter_mut().zip(&*right) {
                *l = l.plus(*r);
            }
            left
        }
        (left, Cow::Owned(mut right)) => {
            for (l, r) in left.iter().zip(&mut right) {
                *r = l.plus(*r);
            }
            right
        }
        (left, right) => left.iter().zip(&*right).map(|(l, r)| l.plus(*r)).collect(),
    })
}

/// Elements from the bytes of a message: where they are, unless they begin at an odd place.
pub(crate) fn elements<T: Element>(bytes: &[u8]) -> Cow<'_, [T]> {
    let n = bytes.len() / size_of::<T>();
    let bytes = &bytes[..n * size_of::<T>()];
    bytemuck::try_cast_slice(bytes).map_or_else(
        |_| {
            let mut all = vec![T::zeroed(); n];
            bytemuck::cast_slice_mut(&mut all).copy_from_slice(bytes);
            Cow::Owned(all)
        },
        Cow::Borrowed,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_begin_anywhere() {
        let numbers = [1.5f32, -2.0, 3.25];
        let mut bytes = vec![0];
        for skipped in 0..8 {
            bytes.resize(skipped, 0);
            bytes.extend_from_slice(bytemuck::cast_slice(&numbers));
            assert_eq!(*elements::<f32>(&bytes[skipped..]), numbers, "{skipped}");
        }
    }

    #[test]
    fn sums_in_any_memory() {
        let (a, b) = ([1.0f32, 2.0], [0.5f32, -4.0]);
        let both = |x: &'static [f32]| [Cow::Borrowed(x), Cow::Owned(x.to_vec())];
        for left in both(&[1.0, 2.0]) {
            for right in both(&[0.5, -4.0]) {
                assert_eq!(*add(left.clone(), right), [a[0] + b[0], a[1] + b[1]]);
            }
        }
    }
}
