//! Shapes, axes and places as they are typed: numbers of any integer type, arrays, slices, vectors
//! and tuples of them.
//!
//! Every method takes them in one form, so a size of type `usize`, an axis of -1 and a literal all
//! compile without a suffix. The conversions are generic and tiny; what is computed is not.

use elinvar_core::{Dims, Error, Result, Shape, Small};

/// A number of any integer type: an axis, a place, one size. What does not fit into `isize` becomes
/// its largest or smallest value, which no axis has.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a number of an axis or place",
    note = "integers of any type are, such as `0`, `-1` and `x.rank() - 1`"
)]
pub trait Integer: Copy {
    /// As `isize`.
    fn to_isize(self) -> isize;
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Integer for $t {
            #[inline]
            fn to_isize(self) -> isize {
                #[allow(unused_comparisons, reason = "of unsigned types")]
                isize::try_from(self).unwrap_or(if self < 0 { isize::MIN } else { isize::MAX })
            }
        }
        // By type, because another crate could implement `Integer` for a reference.
        impl Sizes for $t {
            fn sizes(&self) -> Small<isize> {
                Small::from_slice(&[self.to_isize()])
            }
        }
    )*};
}
// i32 is among them, because it is the type of a literal that nothing else decides.
integers!(isize, usize, i64, u64, i32, u32, i16, u16, i8, u8);

/// A shape: `[2, 3]`, `(n, 3)`, a slice, a vector, a [`Shape`], a single size for one axis, `()`
/// for a scalar. -1 stands for a size that the method finds itself (see there).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a shape",
    note = "arrays, slices, vectors and tuples of integers are, such as `[2, 3]`, `(n, -1)` and `x.dims()`"
)]
pub trait Sizes {
    /// The numbers as they were given.
    fn sizes(&self) -> Small<isize>;
    /// The shape.
    ///
    /// # Errors
    /// `InvalidArgument` if a size is negative; `OutOfMemory` if there are more elements than can
    /// be addressed.
    fn to_shape(&self) -> Result<Shape> {
        Shape::new(&counts("shape", &self.sizes())?)
    }
}

/// Several axes or places, or a single one: `-1`, `[0, 1]`, a slice, a vector, a tuple. All that is
/// a shape is also a list of axes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of axes",
    note = "integers, and arrays, slices, vectors and tuples of them are, such as `-1` and `[0, 2]`"
)]
pub trait Axes {
    /// The axes.
    fn axes(&self) -> Small<isize>;
}

impl<S: Sizes + ?Sized> Axes for S {
    fn axes(&self) -> Small<isize> {
        self.sizes()
    }
}

/// An axis, or none: `-1`, `None`, `Some(0)`.
pub trait MaybeAxis {
    /// The axis.
    fn axis(self) -> Option<isize>;
}

impl<T: Integer> MaybeAxis for T {
    fn axis(self) -> Option<isize> {
        Some(self.to_isize())
    }
}
// For one type only, so that `None` has a type.
impl MaybeAxis for Option<isize> {
    fn axis(self) -> Option<isize> {
        self
    }
}

/// Axes, or none: `[0, 1]`, `-1`, `None`.
pub trait MaybeAxes {
    /// The axes.
    fn maybe_axes(&self) -> Option<Small<isize>>;
}

impl<S: Axes> MaybeAxes for S {
    fn maybe_axes(&self) -> Option<Small<isize>> {
        Some(self.axes())
    }
}
impl MaybeAxes for Option<isize> {
    fn maybe_axes(&self) -> Option<Small<isize>> {
        self.map(|axis| Small::from_slice(&[axis]))
    }
}

fn list<T: Integer>(all: &[T]) -> Small<isize> {
    all.iter().map(|n| n.to_isize()).collect()
}

impl<T: Integer, const N: usize> Sizes for [T; N] {
    fn sizes(&self) -> Small<isize> {
        list(self)
    }
}
impl<T: Integer> Sizes for [T] {
    fn sizes(&self) -> Small<isize> {
        list(self)
    }
}
impl<T: Integer> Sizes for Vec<T> {
    fn sizes(&self) -> Small<isize> {
        list(self)
    }
}
impl<T: Integer + Default> Sizes for Small<T> {
    fn sizes(&self) -> Small<isize> {
        list(self)
    }
}
impl Sizes for Shape {
    fn sizes(&self) -> Small<isize> {
        list(self.dims())
    }
    fn to_shape(&self) -> Result<Shape> {
        Ok(self.clone())
    }
}
impl<S: Sizes + ?Sized> Sizes for &S {
    fn sizes(&self) -> Small<isize> {
        (**self).sizes()
    }
    fn to_shape(&self) -> Result<Shape> {
        (**self).to_shape()
    }
}
impl Sizes for () {
    fn sizes(&self) -> Small<isize> {
        Small::new()
    }
}

macro_rules! tuples {
    ($($($t:ident $i:tt),+;)*) => {$(
        impl<$($t: Integer),+> Sizes for ($($t,)+) {
            fn sizes(&self) -> Small<isize> {
                Small::from_slice(&[$(self.$i.to_isize()),+])
            }
        }
    )*};
}
tuples! {
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, E 4;
    A 0, B 1, C 2, D 3, E 4, F 5;
}

/// Numbers none of which may be negative.
///
/// # Errors
/// `InvalidArgument`.
pub(crate) fn counts(op: &str, sizes: &[isize]) -> Result<Dims> {
    let mut all = Dims::new();
    for &n in sizes {
        let n = usize::try_from(n)
            .map_err(|_| Error::argument(format!("{op}: {n} among {sizes:?}; a size cannot be negative")))?;
        all.push(n);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What must compile, and what it means.
    #[test]
    fn shapes_and_axes_are_typed_in_any_form() {
        fn sizes(s: impl Sizes) -> Vec<isize> {
            s.sizes().to_vec()
        }
        fn axes(s: impl Axes) -> Vec<isize> {
            s.axes().to_vec()
        }
        let (n, m, v) = (2usize, -1isize, vec![2usize, 3]);
        let shape = Shape::new(&[2, 3]).unwrap();
        for got in [
            sizes([2, 3]),
            sizes(&[2, 3][..]),
            sizes([n, 3]),
            sizes((n, 3)),
            sizes((2u8, 3i64)),
            sizes(&v),
            sizes(v.clone()),
            sizes(&v[..]),
            sizes(&shape),
            sizes(shape.dims()),
            sizes(Small::from_slice(&[2usize, 3])),
            axes([2, 3]),
            axes((n, 3i32)),
        ] {
            assert_eq!(got, [2, 3]);
        }
        for got in [sizes(-1), sizes(m), sizes([-1]), axes(-1), axes([m]), axes((-1,))] {
            assert_eq!(got, [-1]);
        }
        assert_eq!((sizes(n), sizes(()), sizes(usize::MAX)), (vec![2], vec![], vec![isize::MAX]));
        assert_eq!(sizes([u64::MAX, 0]), [isize::MAX, 0]);
        let maybe = |a: Option<isize>| a;
        assert_eq!((maybe(MaybeAxis::axis(-1)), maybe(MaybeAxis::axis(None::<isize>))), (Some(-1), None));
    }

    #[test]
    fn a_negative_size_is_told() {
        let e = [2, -1].to_shape().unwrap_err();
        assert_eq!(e.message(), "shape: -1 among [2, -1]; a size cannot be negative");
        assert_eq!([usize::MAX, 2].to_shape().unwrap_err().kind(), elinvar_core::ErrorKind::OutOfMemory);
    }
}
