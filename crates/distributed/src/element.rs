//! Numbers that workers send each other, in the bytes of the machine.

use elinvar_core::DType;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// An element that can be sent. All workers must be of one byte order, as processors and GPUs of
/// today are.
pub trait Element: Copy + Send + IntoBytes + FromBytes + Immutable + 'static {
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

/// left + right, element by element.
pub(crate) fn add<T: Number>(mut left: Vec<T>, right: Vec<T>) -> Vec<T> {
    for (l, r) in left.iter_mut().zip(right) {
        *l = l.plus(r);
    }
    left
}

/// Elements from the bytes of a message.
pub(crate) fn elements<T: Element>(bytes: &[u8]) -> Vec<T> {
    let n = bytes.len() / size_of::<T>();
    let mut all = vec![T::new_zeroed(); n];
    all.as_mut_bytes().copy_from_slice(&bytes[..n * size_of::<T>()]);
    all
}
