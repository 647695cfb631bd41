//! The attributes of requests to a backend.

use super::{Memory, View};
use crate::catalogue::fourier::Direction;
use crate::map::MapObject;
use crate::rows::ColumnsObject;
use elinvar_core::{DType, Precision, Shape};
use smallvec::SmallVec;

/// Memory that an update modifies in place. It is not shared: this `&mut` is the only access to it.
pub struct Changed<'a, B: Memory> {
    /// The memory. The values are its first elements, row-major.
    pub buffer: &'a mut B::Buffer,
    /// Their dtype.
    pub dtype: DType,
}

/// A tensor's part in an update. See [`Compute::update`](super::Compute::update).
pub struct UpdateItem<'a, B: Memory> {
    /// The common shape.
    pub shape: Shape,
    /// The dtype of computation: f32 or f64.
    pub dtype: DType,
    /// The operands that change: floats whose dtype of computation is `dtype`.
    pub changes: SmallVec<[Changed<'a, B>; 4]>,
    /// The operands that are read: views of `shape` of such floats, or of bool (read as 0 or 1).
    pub reads: SmallVec<[View<'a, B>; 6]>,
}

impl<'a, B: Memory> UpdateItem<'a, B> {
    /// The same, for another backend.
    pub fn of<C: Memory>(
        self,
        buffer: impl Fn(&'a mut B::Buffer) -> &'a mut C::Buffer,
        view: impl Fn(View<'a, B>) -> View<'a, C>,
    ) -> UpdateItem<'a, C> {
        let change = |x: Changed<'a, B>| Changed { buffer: buffer(x.buffer), dtype: x.dtype };
        UpdateItem::new(
            self.shape,
            self.dtype,
            self.changes.into_iter().map(change),
            self.reads.into_iter().map(view),
        )
    }
    /// Of operands that change, and operands that are read.
    pub fn new(
        shape: Shape,
        dtype: DType,
        changes: impl IntoIterator<Item = Changed<'a, B>>,
        reads: impl IntoIterator<Item = View<'a, B>>,
    ) -> Self {
        UpdateItem {
            shape,
            dtype,
            changes: changes.into_iter().collect(),
            reads: reads.into_iter().collect(),
        }
    }
}

/// Work that a backend may do in one pass, and that is otherwise composed of other work, to the
/// same bits: see [`Compute::fused`](super::Compute::fused). A variant says what its operands are,
/// and what comes out.
#[derive(Clone, Copy, Debug)]
pub enum Fused<'a> {
    /// A row-wise formula with a value for each element as in
    /// [`Compute::rows`](super::Compute::rows), of f32 or f64, and the first `sums` of its sums
    /// over the rows: of each of these, a number for each element of a row, summed in the order in
    /// which a fold takes rows.
    ///
    /// Operands: those of the formula. Results: the values, which may be as operands do, then the
    /// sums.
    RowsAndColumns {
        /// The formula.
        f: &'a dyn ColumnsObject,
        /// Axes that stay, as in `rows`.
        kept: usize,
        /// The dtype of the values.
        dtype: DType,
        /// How many of the formula's sums are asked for.
        sums: usize,
    },
    /// The steps of a lattice (CTC dynamic programme): for each sample `i` of x [t, n, s] the first
    /// `ends[i]` steps, of f32 or f64, as all operands are.
    ///
    /// An element of a step is y + x, where y is the formula of four values: the elements of the
    /// previous step at its position, one and two before it, and its value of may [n, s]. For the
    /// first step the previous elements, with the two in front of a row, are front \[s + 2\]; for
    /// later steps the ones in front are -inf. A sample that has ended keeps its elements.
    ///
    /// Operands: x, may, front. Result: the y of all steps, followed by the last elements:
    /// [t + 1, n, s].
    Lattice {
        /// The formula, of four values.
        f: &'a dyn MapObject,
        /// Steps of each sample.
        ends: &'a [usize],
    },
    /// The gradient of a lattice by x [t, n, s].
    ///
    /// At a sample's last step it is g; at an earlier step it is the formula applied three times:
    /// for the element's own position and the two after it, of (the result of the previous
    /// application, or +0; the element; y there in the next step; the gradient there; may there, or
    /// 1 for the first two). Beyond the end of a row y is -inf, and gradients and may are +0. Steps
    /// after a sample's end have +0.
    ///
    /// Operands: x, may, the result of the forward pass, the gradient g [n, s] of the last
    /// elements. Result: [t, n, s].
    LatticeGrad {
        /// The formula, of five values.
        f: &'a dyn MapObject,
        /// Steps of each sample.
        ends: &'a [usize],
    },
    /// Discrete Fourier transforms of rows, of f32 or f64. Tables are those of
    /// [`Table`](crate::catalogue::fourier::tables::Table), rounded to the dtype.
    ///
    /// A product of a number with one of two tables, `turn(x, cos, sin)`, is for each part fma(the
    /// other part, sin of this part, the part * cos).
    ///
    /// A forward transform of pairs has the levels of [`plan`](crate::catalogue::fourier::plan). At
    /// a level r, with l the product of the levels before it and m = n / (r l), element (j, q, k),
    /// in the order of [m, r, l], comes of the r numbers x\[j + m t, k\], x in the order of
    /// [r m, l]; if l > 1 each is turned by `TwiddleCos` and `TwiddleSin` of (t, k), of level 2
    /// only the second. Then, for r = 2, each part is fma(the second, 1 or -1, the first) for q = 0
    /// and 1; for another r it is a chain of fma from +0 with row (part, q) of `Planes`, over
    /// (part, t). Without a smooth length (`Bluestein`) it is: numbers turned by `ChirpCos` and
    /// `ChirpSin`, zeros up to m, a forward transform, turned by `SpectrumRe` and `SpectrumCross`,
    /// an inverse transform, of which the first n numbers are turned by `ChirpCos` and `ChirpSin`.
    ///
    /// An inverse transform is a forward one of the numbers with their parts swapped, swapped.
    /// Results are multiplied by `scale` unless it is 1.
    ///
    /// Of real numbers, n odd: that of the numbers with the imaginary part +0; the first n / 2 + 1.
    /// n even: z is the transform of n / 2 pairs of neighbours, z\[n / 2\] = z\[0\]; with z' the
    /// elements in reverse order, e = fma(z', (1, -1), z), o = fma(z', (-1, 1), z), and
    /// e + turn(o, `HalfSin`, `HalfCos`), multiplied by `scale` / 2 unless that is 1.
    ///
    /// To real numbers: imaginary parts of elements 0 and, for n even, n / 2 are read as +0. n odd:
    /// the inverse transform of x and, for elements after n / 2, (1, -1) times those before in
    /// reverse order; its real parts. n even: the inverse transform of e + turn(o, `HalfSin`,
    /// `HalfCos` of an inverse), without element n / 2, with e and o made of x as above of z.
    ///
    /// Rows are two axes, before and after the one that is transformed. Operand: [before, after, n,
    /// 2], [before, after, n] or [before, after, n / 2 + 1, 2]. Result: [before, after, n, 2],
    /// [before, after, n / 2 + 1, 2] or [before, after, n], row-major.
    Fourier {
        /// Between which numbers.
        kind: FourierKind,
        /// The length.
        n: usize,
        /// What results are multiplied by.
        scale: f64,
    },
    /// Rounds of one-sided Jacobi rotations of the rows of x [b, n, w], of f32 or f64.
    ///
    /// Round i takes the pairs of neighbouring rows from row i % 2 on; a row without a neighbour
    /// stays. Of the first r elements of a pair (x, y) the sums of x x, y y and x y, products
    /// rounded, in the order of a fold ([`elinvar_core::order`]) give the tangent, its cosine and
    /// sine; then x becomes `rotated(x, y, cos, sin)`, and y `rotated(y, x, cos, -sin)`: formulas
    /// of [`crate::factor_steps::rotation`], element by element. So a rotation exchanges the rows.
    ///
    /// Operand: x. Result: [b, n, w].
    Rotations {
        /// Elements of a row that are made orthogonal, at most w.
        r: usize,
        /// How many rounds.
        rounds: usize,
    },
    /// LU factors with partial pivoting of x [b, m, n], of f32 or f64, of at most 64 columns.
    ///
    /// Up to 8 columns are taken one after the other: the pivot is the element of largest magnitude
    /// as [`ArgFold::Max`] finds it; its row is exchanged with the first one that is left; then
    /// come the formulas of [`crate::factor_steps::elimination`], of the column and of all after
    /// it. More columns are split: the first h are m if n > m, else n / 2 rounded up to a multiple
    /// of 8. Their factors exchange whole rows; then the first h rows of the rest are the product
    /// of L^-1 and themselves, and the rows below are themselves less the product of L and those,
    /// which are factored in turn. Products are contractions ([`elinvar_core::order`]), of the
    /// zeros of L^-1 too.
    ///
    /// L^-1 is that of [`Fused::TriangularInverse`].
    ///
    /// Operand: x. Results: L below the diagonal and U on and above it, [b, m, n]; of each row of
    /// L U the row of x that it is, i64 [b, m]; with which row each of the first min(m, n) was
    /// exchanged, counted from it, i64.
    LuFactor,
    /// Inverses of lower triangular matrices x [b, n, n], of f32 or f64, of at most 64 rows. What
    /// is above the diagonal is not read.
    ///
    /// Diagonal blocks of 8 are inverted by substitution: row k of I, or of what is left of it, is
    /// taken from those below it (`substituted` of [`crate::factor_steps::elimination`]), and at
    /// the end divided by the diagonal. Blocks of s are joined to blocks of 2 s, up to a size of 8,
    /// 16, 32 or 64 with ones beyond n on the diagonal: below are -(D' (C A')), of the inverses A'
    /// and D' and the block C of x, products being contractions ([`elinvar_core::order`]) of whole
    /// blocks.
    ///
    /// Operand: x. Result: [b, n, n], with 0 above the diagonal blocks.
    TriangularInverse {
        /// Is the diagonal taken for ones? Then nothing is divided.
        unit: bool,
    },
}

/// Between which numbers a Fourier transform is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FourierKind {
    /// Complex ones, in pairs.
    Complex(Direction),
    /// Real numbers to half their spectrum, in pairs.
    Real,
    /// Half a spectrum, in pairs, to real numbers.
    InverseReal,
}

impl Fused<'_> {
    /// One word for it, as profiles name it.
    pub const fn name(&self) -> &'static str {
        match self {
            Fused::RowsAndColumns { .. } => "rows_and_columns",
            Fused::Lattice { .. } => "lattice",
            Fused::LatticeGrad { .. } => "lattice_grad",
            Fused::Fourier { .. } => "fourier",
            Fused::Rotations { .. } => "rotations",
            Fused::LuFactor => "lu_factor",
            Fused::TriangularInverse { .. } => "triangular_inverse",
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
