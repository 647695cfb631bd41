//! Slicing: ranges, steps, single indices, new axes, lists, index tensors and masks, in PyTorch's
//! meaning.
//!
//! `x.i((.., 1..3, -1))` is NumPy's `x[:, 1:3, -1]`. Ranges and single indices make views; index
//! tensors and masks copy.

use crate::Tensor;
use crate::fail::OrFail;
use elinvar_ops::backend::Backend;
use elinvar_ops::catalogue as op;
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// The selection along one axis.
#[derive(Clone, Debug)]
pub enum Index<B: Backend> {
    /// One index, from the end if negative; the axis is removed.
    At(isize),
    /// `start..stop` in steps, as Python's `start:stop:step`; a missing bound is that of the axis.
    Range {
        /// First index; from the end if negative.
        start: Option<isize>,
        /// First index not taken; from the end if negative.
        stop: Option<isize>,
        /// Step; negative goes backwards. Not 0.
        step: isize,
    },
    /// A new axis of size 1.
    NewAxis,
    /// All axes that are not indexed otherwise.
    Ellipsis,
    /// A mask without axes: a new axis of size 1 or 0.
    Truth(bool),
    /// Indices, from the end if negative.
    List(Vec<i64>),
    /// Indices (i64 or i32; from the end if negative), or a mask (bool, for as many axes as its
    /// rank).
    Tensor(Tensor<B>),
}

/// Every `by`-th index of a range: `step(.., 2)`, `step(.., -1)`, `step(1..9, 3)`.
pub fn step<B: Backend>(range: impl Into<Index<B>>, by: isize) -> Index<B> {
    match range.into() {
        Index::Range { start, stop, .. } => Index::Range { start, stop, step: by },
        other => other,
    }
}

macro_rules! index_from {
    ($($t:ty),*) => {$(
        impl<B: Backend> From<$t> for Index<B> {
            fn from(i: $t) -> Self {
                Index::At(place(i))
            }
        }
        impl<B: Backend> From<Range<$t>> for Index<B> {
            fn from(r: Range<$t>) -> Self {
                Index::Range { start: Some(place(r.start)), stop: Some(place(r.end)), step: 1 }
            }
        }
        impl<B: Backend> From<RangeFrom<$t>> for Index<B> {
            fn from(r: RangeFrom<$t>) -> Self {
                Index::Range { start: Some(place(r.start)), stop: None, step: 1 }
            }
        }
        impl<B: Backend> From<RangeTo<$t>> for Index<B> {
            fn from(r: RangeTo<$t>) -> Self {
                Index::Range { start: None, stop: Some(place(r.end)), step: 1 }
            }
        }
        impl<B: Backend> From<RangeInclusive<$t>> for Index<B> {
            fn from(r: RangeInclusive<$t>) -> Self {
                Index::Range { start: Some(place(*r.start())), stop: after(place(*r.end())), step: 1 }
            }
        }
        impl<B: Backend> From<RangeToInclusive<$t>> for Index<B> {
            fn from(r: RangeToInclusive<$t>) -> Self {
                Index::Range { start: None, stop: after(place(r.end)), step: 1 }
            }
        }
    )*};
}
index_from!(isize, usize, i32, i64);

/// As an isize; what is beyond that is beyond every axis, too, and stays so.
fn place<T: Copy + PartialOrd + Default + TryInto<isize>>(i: T) -> isize {
    i.try_into().unwrap_or(if i < T::default() { isize::MIN } else { isize::MAX })
}

/// The stop of an inclusive range: the index after -1 is the end.
fn after(last: isize) -> Option<isize> {
    if last == -1 { None } else { Some(last.saturating_add(1)) }
}

impl<B: Backend> From<RangeFull> for Index<B> {
    fn from(_: RangeFull) -> Self {
        Index::Range { start: None, stop: None, step: 1 }
    }
}
impl<B: Backend> From<&Tensor<B>> for Index<B> {
    fn from(t: &Tensor<B>) -> Self {
        Index::Tensor(t.clone())
    }
}
impl<B: Backend> From<Tensor<B>> for Index<B> {
    fn from(t: Tensor<B>) -> Self {
        Index::Tensor(t)
    }
}

impl<B: Backend> From<bool> for Index<B> {
    fn from(v: bool) -> Self {
        Index::Truth(v)
    }
}
impl<B: Backend> From<Vec<i64>> for Index<B> {
    fn from(v: Vec<i64>) -> Self {
        Index::List(v)
    }
}
impl<B: Backend> From<&[i64]> for Index<B> {
    fn from(v: &[i64]) -> Self {
        Index::List(v.to_vec())
    }
}
impl<B: Backend, const N: usize> From<[i64; N]> for Index<B> {
    fn from(v: [i64; N]) -> Self {
        Index::List(v.to_vec())
    }
}

/// One index, or a tuple of up to six.
pub trait Indices<B: Backend> {
    /// The indices, one per axis.
    fn list(self) -> Vec<Index<B>>;
}

impl<B: Backend, I: Into<Index<B>>> Indices<B> for I {
    fn list(self) -> Vec<Index<B>> {
        vec![self.into()]
    }
}
impl<B: Backend> Indices<B> for Vec<Index<B>> {
    fn list(self) -> Vec<Index<B>> {
        self
    }
}
macro_rules! tuple {
    ($($i:ident),*) => {
        impl<B: Backend, $($i: Into<Index<B>>),*> Indices<B> for ($($i,)*) {
            #[allow(non_snake_case)]
            fn list(self) -> Vec<Index<B>> {
                let ($($i,)*) = self;
                vec![$($i.into()),*]
            }
        }
    };
}
tuple!(I0);
tuple!(I0, I1);
tuple!(I0, I1, I2);
tuple!(I0, I1, I2, I3);
tuple!(I0, I1, I2, I3, I4);
tuple!(I0, I1, I2, I3, I4, I5);

impl<B: Backend> Tensor<B> {
    /// A part of the tensor: `x.i(0)`, `x.i((.., 1..3))`, `x.i((Index::Ellipsis, -1))`,
    /// `x.i(&mask)`, `x.i((step(.., 2), &places))`, `x.i([3, 0, 0])`.
    ///
    /// Several index tensors are broadcast together, as in PyTorch: their axes are replaced by the
    /// common shape of the tensors, in place if they are neighbours, in front if not.
    ///
    /// # Panics
    /// If an index or axis does not exist, a step is 0, or an index tensor is not of i64, i32 or
    /// bool.
    #[track_caller]
    pub fn i(&self, indices: impl Indices<B>) -> Tensor<B> {
        op::index(self, &items(indices.list())).or_fail()
    }
    /// A copy in which a part (see [`Tensor::i`]) is replaced by `src`, which is broadcast to it.
    /// Where indices repeat, the last element stays.
    ///
    /// # Panics
    /// If an index or axis does not exist, or the shapes do not broadcast.
    #[track_caller]
    pub fn slice_assign(&self, indices: impl Indices<B>, src: &Tensor<B>) -> Tensor<B> {
        op::index_put::run("slice_assign", self, &items(indices.list()), src, false).or_fail()
    }
    /// [`Tensor::slice_assign`], or, if `accumulate`, a copy in which `values` are added to the
    /// part. Where indices repeat, they add one by one, in order.
    ///
    /// # Panics
    /// If an index or axis does not exist, or the shapes do not broadcast.
    #[track_caller]
    pub fn index_put(&self, indices: impl Indices<B>, values: &Tensor<B>, accumulate: bool) -> Tensor<B> {
        op::index_put(self, &items(indices.list()), values, accumulate).or_fail()
    }
}

/// The indices as the catalogue names them.
fn items<B: Backend>(list: Vec<Index<B>>) -> Vec<op::index::Item<Tensor<B>>> {
    use op::index::Item;
    let one = |i| match i {
        Index::At(p) => Item::At(p),
        Index::Range { start, stop, step } => Item::Range(op::slice::Range { start, stop, step }),
        Index::NewAxis => Item::NewAxis,
        Index::Ellipsis => Item::Ellipsis,
        Index::Truth(v) => Item::Truth(v),
        Index::List(v) => Item::List(v),
        Index::Tensor(t) => Item::Tensor(t),
    };
    list.into_iter().map(one).collect()
}
