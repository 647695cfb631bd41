//! The attributes of requests to a backend.

use super::{Memory, View};
use elinvar_core::{DType, Precision, Shape};

/// Memory that an update modifies in place. It is not shared: this `&mut` is the only access to it.
pub struct Changed<'a, B: Memory> {
    /// The memory. The values are its first elements, row-major.
    pub buffer: &'a mut B::Buffer,
    /// Their dtype.
    pub dtype: DType,
}

/// A tensor's part in an update. See [`Compute::update`](super::Compute::update).
pub struct UpdateItem<'a, B: Memory, const M: usize, const R: usize> {
    /// The common shape.
    pub shape: Shape,
    /// The dtype of computation: f32 or f64.
    pub dtype: DType,
    /// The operands that change: floats whose dtype of computation is `dtype`.
    pub changes: [Changed<'a, B>; M],
    /// The operands that are read: views of `shape` of such floats, or of bool (read as 0 or 1).
    pub reads: [View<'a, B>; R],
}

impl<'a, B: Memory, const M: usize, const R: usize> UpdateItem<'a, B, M, R> {
    /// The same, for the inner backend.
    pub fn of<C: Memory>(
        self,
        buffer: impl Fn(&'a mut B::Buffer) -> &'a mut C::Buffer,
        view: impl Fn(View<'a, B>) -> View<'a, C>,
    ) -> UpdateItem<'a, C, M, R> {
        UpdateItem {
            shape: self.shape,
            dtype: self.dtype,
            changes: self.changes.map(|x| Changed { buffer: buffer(x.buffer), dtype: x.dtype }),
            reads: self.reads.map(view),
        }
    }
}

/// Which element an [`Compute::arg_fold`](super::Compute::arg_fold) looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArgFold {
    /// The first largest; the first NaN wins; zeros are equal, whatever their sign.
    Max,
    /// The first smallest; the first NaN wins; zeros are equal, whatever their sign.
    Min,
}

/// What a scan accumulates. Order: [`elinvar_core::order::scan`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scan {
    /// Prefix sums.
    Sum,
    /// Prefix products.
    Prod,
}

/// How a scatter treats repeated indices and the values of the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scatter {
    /// The last source in row-major order stays.
    Set,
    /// Sources are added to the base one by one in row-major order of the index; for bool, by or.
    Add,
}

/// A random distribution. Element `i` takes word `i` of the stream (for f64, words `2 i, 2 i + 1`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Random {
    /// Floats in `low..high`: low + u * (high - low) with one fma, u of 24 bits (53 for f64);
    /// high - low is computed in f64, then it and low are rounded to the type of computation. A
    /// number that would be rounded out of the interval is the last one of the dtype inside
    /// ([`crate::random::uniform`]).
    Uniform {
        /// Lower end, included.
        low: f64,
        /// Upper end, excluded.
        high: f64,
    },
    /// Floats, normally distributed, by Box and Muller: elements 2 j and 2 j + 1 come from uniforms
    /// u and v of words 2 j and 2 j + 1 as r cos(2 pi v) and r sin(2 pi v), r = sqrt(-2
    /// log(1 - u)); times std plus mean with one fma. For f64, u and v are of 64-bit words
    /// (4 j, 4 j + 1) and (4 j + 2, 4 j + 3).
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        std: f64,
    },
    /// 1 (or true) with probability p: u < p. Any dtype; u has 24 bits (53 for f64), so exactly:
    /// the integer u * 2^24 is below ceil(p * 2^24).
    Bernoulli {
        /// Probability of 1.
        p: f64,
    },
    /// Whole numbers in `low..high`, by multiplication of a 64-bit word (words 2 i and 2 i + 1) and
    /// shift.
    Int {
        /// Lowest value.
        low: i64,
        /// One more than the highest value.
        high: i64,
    },
}

/// Stride, padding, dilation and groups of a convolution; one entry per spatial axis (1 to 3).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Conv {
    /// Step between windows.
    pub stride: Vec<usize>,
    /// Zeros on both sides.
    pub padding: Vec<usize>,
    /// Distance between taps.
    pub dilation: Vec<usize>,
    /// Channel groups; input and output channels are divided by it.
    pub groups: usize,
    /// [`Precision::Fast`] allows another order and flushed subnormals; a backend that has nothing
    /// faster stays exact.
    pub precision: Precision,
}

/// How a pool combines a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolKind {
    /// Largest element; NaN wins; the first among equals (zeros are equal). The caller ensures that
    /// every window holds an element of the input.
    Max,
    /// Sum over the window (canonical fold order, row-major, elements outside left out) divided by
    /// a count.
    Avg,
}

/// The windows of a pool along one spatial axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Windows {
    /// Per output index: first input index, which may be in the padding (negative).
    pub start: Vec<isize>,
    /// Per output index: number of taps; those outside the input are left out.
    pub len: Vec<usize>,
    /// Per output index: this axis's factor of the divisor of an average.
    pub divisor: Vec<usize>,
    /// Distance between taps.
    pub dilation: usize,
}

/// A pool over the last one to three axes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pool {
    /// How a window is combined.
    pub kind: PoolKind,
    /// Windows per spatial axis.
    pub axes: Vec<Windows>,
}

/// Attention's attributes. Definition: `docs/reference/numerics.md`, "Attention".
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Factor of the scores.
    pub scale: f64,
    /// Query `i` sees keys `0..=i` only.
    pub causal: bool,
    /// [`Precision::Fast`] allows 16-bit weights, exponentials accurate to that precision, and
    /// another order of sums, in the gradient, too; a backend that has nothing faster stays exact.
    pub precision: Precision,
}

impl Attention {
    /// With the exact precision of the definition.
    pub const fn exact(scale: f64, causal: bool) -> Attention {
        Attention { scale, causal, precision: Precision::Exact }
    }
}
