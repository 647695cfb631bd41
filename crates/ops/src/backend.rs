//! The interface of a backend: about twenty-five kinds of work (primitives), none of them an op.
//!
//! The device and the buffer are associated types. Elementwise and row-wise formulas are objects,
//! compiled where they are defined and not where a backend is used; rarer kinds of formulas are
//! type parameters. No method has a default body, so that a new kind of work walks every backend
//! past the compiler.
//!
//! Rules that hold for all methods:
//! * Inputs are [`View`]s: any strides, offsets, overlaps. Outputs are new buffers, contiguous,
//!   row-major (or as [`Placed`] says).
//! * Shapes and dtypes were checked by the caller ([`crate::array`] and the op); a backend may
//!   assert them. Errors that only a backend can detect (memory, indices in a buffer, the device)
//!   are returned.
//! * f16 and bf16 are loaded exactly to f32, computed there, and rounded once at the store.
//! * The result's bits are those of `reference`, see `docs/reference/numerics.md`.

use crate::casting::Casting;
use crate::fold::Folding;
use crate::map::{IntMapObject, Map, MapObject};
use crate::rows::{ColumnsObject, RowObject};
use crate::update::Update;
use elinvar_core::philox::Stream;
use elinvar_core::{DType, Error, HostData, Layout, MemoryStats, Precision, Result, Scalar, Shape};
pub use elinvar_lane::formula::{AddBias, Epilogue, Fold, Plain};
use std::fmt::{Debug, Display};

/// A strided view of a buffer.
pub struct View<'a, B: Backend> {
    /// The memory.
    pub buffer: &'a B::Buffer,
    /// The layout of the elements in it.
    pub layout: &'a Layout,
    /// The type of the elements.
    pub dtype: DType,
}

impl<B: Backend> View<'_, B> {
    /// The shape of the view.
    pub fn shape(&self) -> &Shape {
        self.layout.shape()
    }
}

impl<B: Backend> Clone for View<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Backend> Copy for View<'_, B> {}

/// A result with a layout chosen by the backend, if it is not row-major: work along axes that are
/// not innermost in memory may store its result in the layout of its operand, so that neither is
/// transposed.
pub struct Placed<B> {
    /// The memory, without gaps.
    pub buffer: B,
    /// The layout of the elements, if not row-major.
    pub layout: Option<Layout>,
}

impl<B> Placed<B> {
    /// The same with the buffer mapped.
    pub fn map<C>(self, f: impl FnOnce(B) -> C) -> Placed<C> {
        Placed { buffer: f(self.buffer), layout: self.layout }
    }
}

/// The result of [`Backend::rows_and_columns`]: the values, and the sums.
pub type RowsAndColumns<B> = (Placed<B>, Vec<B>);

impl<B> From<B> for Placed<B> {
    /// A row-major result.
    fn from(buffer: B) -> Self {
        Placed { buffer, layout: None }
    }
}

/// Memory that an update modifies in place. It is not shared: this `&mut` is the only access to it.
pub struct Changed<'a, B: Backend> {
    /// The memory. The values are its first elements, row-major.
    pub buffer: &'a mut B::Buffer,
    /// Their dtype.
    pub dtype: DType,
}

/// A tensor's part in an update. See [`Backend::update`].
pub struct UpdateItem<'a, B: Backend, const M: usize, const R: usize> {
    /// The common shape.
    pub shape: Shape,
    /// The dtype of computation: f32 or f64.
    pub dtype: DType,
    /// The operands that change: floats whose dtype of computation is `dtype`.
    pub changes: [Changed<'a, B>; M],
    /// The operands that are read: views of `shape` of such floats, or of bool (read as 0 or 1).
    pub reads: [View<'a, B>; R],
}

impl<'a, B: Backend, const M: usize, const R: usize> UpdateItem<'a, B, M, R> {
    /// The same, for the inner backend.
    pub fn of<C: Backend>(
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

/// Which element an [`Backend::arg_fold`] looks for.
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
    /// high - low is computed in f64, then it and low are rounded to the type of computation.
    Uniform {
        /// Lower end, included.
        low: f64,
        /// Upper end, excluded (but rounding may reach it).
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

/// The error of a gather or scatter for an index that is not in `0..size`; `position` is its
/// position among the indices.
pub fn out_of_range(op: &str, index: i64, position: &[usize], axis: usize, size: usize) -> Error {
    Error::argument(format!(
        "{op}: index {index} at position {position:?} is out of range for axis {axis} of size {size}"
    ))
}

/// A device that names its backend, so that a tensor's backend follows from its device.
pub trait DeviceOf {
    /// The backend of this device.
    type Backend: Backend<Device = Self>;
}

/// Work to be captured: it passes each result buffer to the callback that it gets.
pub type Recorded<'a, B> =
    dyn FnMut(&mut dyn FnMut(&<B as Backend>::Buffer) -> Result<()>) -> Result<()> + 'a;

/// A backend: where tensors are stored and computed.
pub trait Backend: Sized + Clone + Copy + Debug + Default + Send + Sync + 'static {
    /// A device of this backend, as a handle. Cheap to clone.
    type Device: DeviceOf<Backend = Self>
        + Clone
        + Debug
        + Display
        + PartialEq
        + Default
        + Send
        + Sync
        + 'static;
    /// Device memory that holds elements of one dtype. Freed when dropped.
    type Buffer: Debug + Send + Sync + 'static;
    /// Captured work, to be replayed. Keeps everything it needs alive until it is dropped.
    type Graph: Debug + Send + Sync + 'static;
    /// The backend's name, as in `--device NAME`.
    const NAME: &'static str;

    // Memory

    /// Copies host memory to the device.
    fn upload(d: &Self::Device, data: HostData) -> Result<Self::Buffer>;
    /// Copies a view to the host, in row-major order, and waits for it.
    fn download(d: &Self::Device, x: View<'_, Self>) -> Result<HostData>;
    /// Copies a view on one device, made contiguous, to another device of this backend, without
    /// passing through the host. `None` if devices of this backend cannot do that, or if it is the
    /// same device.
    fn receive(d: &Self::Device, from: &Self::Device, x: View<'_, Self>) -> Result<Option<Self::Buffer>>;
    /// Waits until this buffer is computed. Work that a backend has deferred until its result is
    /// read is run here.
    fn finish(d: &Self::Device, buffer: &Self::Buffer) -> Result<()>;
    /// Waits until all work submitted to the device is done.
    fn synchronize(d: &Self::Device) -> Result<()>;
    /// Memory used by this device's tensors.
    ///
    /// # Errors
    /// `Unsupported` if the backend does not count it.
    fn memory_stats(d: &Self::Device) -> Result<MemoryStats>;
    /// Limits the memory of this device's tensors, in bytes; allocations beyond it fail with
    /// `OutOfMemory`.
    ///
    /// # Errors
    /// `Unsupported` if the backend does not count it.
    fn set_memory_limit(d: &Self::Device, limit: Option<u64>) -> Result<()>;
    /// Returns cached memory that no tensor uses to the system.
    fn release_memory(d: &Self::Device) -> Result<()>;
    /// Prepacks a matrix \[k, n\]: keeps a copy of it, packed in the order in which products read
    /// their right operand, until its memory is freed or changed. Products with a view of the same
    /// elements at the same addresses then read the copy; no bit of them changes. Returns whether
    /// there is such a copy now: a backend need not keep one.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn prepack(d: &Self::Device, w: View<'_, Self>) -> Result<bool>;
    /// `len` copies of a value.
    fn fill(d: &Self::Device, value: Scalar, dtype: DType, len: usize) -> Result<Self::Buffer>;
    /// `len` random numbers.
    fn random(d: &Self::Device, r: Random, s: Stream, dtype: DType, len: usize) -> Result<Self::Buffer>;
    /// The view, contiguous, bit for bit.
    fn copy(d: &Self::Device, x: View<'_, Self>) -> Result<Self::Buffer>;
    /// The view, contiguous, as another (or the same) dtype. Floats round once to nearest even
    /// (also i64 to bf16 and f64 to f16, which must not pass through a rounded f32), and overflow
    /// to infinity; float to integer truncates towards zero and saturates (NaN: 0); integer to
    /// integer wraps; to bool: `x != 0`. The same dtype keeps every bit.
    ///
    /// # Errors
    /// `OutOfMemory`; a backend may refuse conversions that `C` does not include.
    fn cast<C: Casting>(d: &Self::Device, x: View<'_, Self>, to: DType) -> Result<Self::Buffer>;
    /// A new tensor of `shape` filled with `fill`, into which the parts are written one after the
    /// other; each part's layout is a view into the new tensor, of the part's shape.
    fn assemble(
        d: &Self::Device,
        fill: Scalar,
        dtype: DType,
        shape: &Shape,
        parts: &[(View<'_, Self>, Layout)],
    ) -> Result<Self::Buffer>;

    // Capture

    /// Runs `work` and captures the work that it submits to this device in this thread, without
    /// running it. `None`, and `work` was not run, if replaying would save nothing on this backend:
    /// the caller then runs the function each time.
    ///
    /// `work` creates inputs by [`Backend::input`], and passes each result buffer to the callback
    /// that it gets.
    ///
    /// # Errors
    /// Those of `work`; `Unsupported` if it reads values; `InvalidArgument` if tensors outlive it
    /// that are not results.
    fn record(d: &Self::Device, work: &mut Recorded<'_, Self>) -> Result<Option<Self::Graph>>;
    /// A contiguous copy of `x`, for captured work to read. `before`: the buffer of the same input
    /// in an earlier capture, so that known properties of the values hold for both.
    fn input(d: &Self::Device, x: View<'_, Self>, before: Option<&Self::Buffer>) -> Result<Self::Buffer>;
    /// Replays captured work, after each input was overwritten by a view of its size. `false`, and
    /// nothing was done, if the capture depends on other values (such as the range of an index).
    fn replay(d: &Self::Device, g: &Self::Graph, inputs: &[(View<'_, Self>, &Self::Buffer)]) -> Result<bool>;
    /// An identifier of this memory, unique as long as it is held by this buffer or by captured
    /// work.
    fn memory_id(d: &Self::Device, buffer: &Self::Buffer) -> Result<usize>;

    // Elementwise

    /// A float formula at every element. All views have one shape; each is of `dtype` or bool
    /// (read as 0 or 1). The result is of `dtype`, or bool if the formula says so.
    fn map(d: &Self::Device, f: &dyn MapObject, x: &[View<'_, Self>], dtype: DType) -> Result<Self::Buffer>;
    /// An integer formula at every element. All views have one shape; each is of `dtype` or bool.
    fn map_int(
        d: &Self::Device,
        f: &dyn IntMapObject,
        x: &[View<'_, Self>],
        dtype: DType,
    ) -> Result<Self::Buffer>;
    /// An update of several tensors: at every element of every item, the formula maps the operands
    /// that change and those that are read to new values of the former, each rounded to its dtype
    /// once.
    ///
    /// # Errors
    /// After an error no element of any item has changed.
    fn update<U: Update<M, R>, const M: usize, const R: usize>(
        d: &Self::Device,
        u: &U,
        items: Vec<UpdateItem<'_, Self, M, R>>,
    ) -> Result<()>;

    // Along axes. The view's first `kept` axes stay, the others are joined in row-major order.

    /// Combines the elements of each row. `to` is the dtype of the result: i64 for sums and
    /// products of integers and bool; the dtype itself, or f32 for f16 and bf16, otherwise.
    fn fold<F: Folding>(d: &Self::Device, x: View<'_, Self>, kept: usize, to: DType) -> Result<Self::Buffer>;
    /// The index (i64) of an element in each row; rows are not empty.
    fn arg_fold(d: &Self::Device, f: ArgFold, x: View<'_, Self>, kept: usize) -> Result<Self::Buffer>;
    /// Prefix sums or products along the last axis. `to` as in `fold`. The result may have the
    /// layout of `x`.
    fn scan(d: &Self::Device, f: Scan, x: View<'_, Self>, to: DType) -> Result<Placed<Self::Buffer>>;
    /// A row-wise formula: statistics of each row, then a value for each element or for each row.
    /// All views have one shape and are of `dtype` or bool. Values for each element may lie as
    /// operands do.
    fn rows(
        d: &Self::Device,
        f: &dyn RowObject,
        x: &[View<'_, Self>],
        kept: usize,
        dtype: DType,
    ) -> Result<Placed<Self::Buffer>>;
    /// A row-wise formula with a value for each element as in `rows`, of f32 or f64, and the first
    /// `sums` of its sums over the rows: of each of these, a number for each element of a row,
    /// summed in the order in which a fold takes rows. `None` where a backend does not take both in
    /// one pass, or has none for operands that lie so: then each is an op of its own, to the same
    /// bits.
    fn rows_and_columns(
        d: &Self::Device,
        f: &dyn ColumnsObject,
        x: &[View<'_, Self>],
        kept: usize,
        dtype: DType,
        sums: usize,
    ) -> Result<Option<RowsAndColumns<Self::Buffer>>>;
    /// The steps of a lattice (CTC dynamic programme): for each sample `i` of x [t, n, s] the first
    /// `ends[i]` steps, of f32 or f64, as all operands are.
    ///
    /// An element of a step is y + x, where y is the formula of four values: the elements of the
    /// previous step at its position, one and two before it, and its value of may [n, s]. For the
    /// first step the previous elements, with the two in front of a row, are front \[s + 2\]; for
    /// later steps the ones in front are -inf. A sample that has ended keeps its elements.
    ///
    /// Returns the y of all steps, followed by the last elements: [t + 1, n, s]. `None` where a
    /// backend does not fuse the steps: then each is a few ops, with the same bits.
    fn lattice<F: Map<4>>(
        d: &Self::Device,
        f: &F,
        x: [View<'_, Self>; 3],
        ends: &[usize],
    ) -> Result<Option<Self::Buffer>>;
    /// The gradient of [`Backend::lattice`] by x [t, n, s], from (x, may, the result of the forward
    /// pass, the gradient g [n, s] of the last elements).
    ///
    /// At a sample's last step it is g; at an earlier step it is the formula applied three times:
    /// for the element's own position and the two after it, of (the result of the previous
    /// application, or +0; the element; y there in the next step; the gradient there; may there, or
    /// 1 for the first two). Beyond the end of a row y is -inf, and gradients and may are +0. Steps
    /// after a sample's end have +0.
    fn lattice_grad<F: Map<5>>(
        d: &Self::Device,
        f: &F,
        x: [View<'_, Self>; 4],
        ends: &[usize],
    ) -> Result<Option<Self::Buffer>>;
    /// Sorts each row along the last axis, stable, also when descending; NaN is the largest, zeros
    /// are equal. Returns the `first` values of each row, at most all, and their original positions
    /// (i64).
    fn sort(
        d: &Self::Device,
        x: View<'_, Self>,
        descending: bool,
        first: usize,
    ) -> Result<(Self::Buffer, Self::Buffer)>;

    // Products

    /// The default precision of products on this device, outside of any scope that sets it.
    fn precision(d: &Self::Device) -> Precision;
    /// y[b, m, n] = epilogue(sum over k of x[b, m, k] * w[b, k, n]); order:
    /// [`elinvar_core::order::contract`].
    ///
    /// Both views have rank 3 and the same b (strides may be 0); the epilogue's operands have shape
    /// [b, m, n]. Integers wrap and take no epilogue but `Plain`. [`Precision::Fast`] allows
    /// another order and flushed subnormals; a backend that has nothing faster stays exact.
    fn contract<E: Epilogue<N>, const N: usize>(
        d: &Self::Device,
        p: Precision,
        x: View<'_, Self>,
        w: View<'_, Self>,
        e: &E,
        extra: [View<'_, Self>; N],
    ) -> Result<Self::Buffer>;
    /// y[n, o, s'] = epilogue(sum over (c, taps) of x[n, c, s] * w[o, c, tap]), cross-correlation,
    /// terms in row-major order of (c, taps); padding contributes terms with x = +0. `out`: the
    /// spatial sizes of y.
    fn conv<E: Epilogue<N>, const N: usize>(
        d: &Self::Device,
        c: &Conv,
        x: View<'_, Self>,
        w: View<'_, Self>,
        out: &[usize],
        e: &E,
        extra: [View<'_, Self>; N],
    ) -> Result<Self::Buffer>;
    /// The gradient of [`Backend::conv`] by x, of shape [n, c, spatial]: for each input element the
    /// terms g * w over (o, taps) in row-major order, over those taps that meet the stride's grid;
    /// a tap that meets it outside of g contributes a term with g = +0. This is also the forward
    /// pass of the transposed convolution.
    fn conv_input_grad(
        d: &Self::Device,
        c: &Conv,
        g: View<'_, Self>,
        w: View<'_, Self>,
        spatial: &[usize],
    ) -> Result<Self::Buffer>;
    /// The gradient of [`Backend::conv`] by w, of shape [o, c / groups, taps]: terms x * g over
    /// (n, s') in row-major order; padding contributes terms with x = +0.
    fn conv_weight_grad(
        d: &Self::Device,
        c: &Conv,
        x: View<'_, Self>,
        g: View<'_, Self>,
        taps: &[usize],
    ) -> Result<Self::Buffer>;
    /// y[.., s'] from x[.., s], and for `Max` the winner's row-major index in its plane (i64).
    fn pool(d: &Self::Device, p: &Pool, x: View<'_, Self>) -> Result<(Self::Buffer, Option<Self::Buffer>)>;
    /// The gradient of an average pool: each input element adds g / divisor of the windows that
    /// hold it, in row-major order of the windows. (A max pool's gradient is a scatter.)
    fn avg_pool_grad(
        d: &Self::Device,
        p: &Pool,
        g: View<'_, Self>,
        spatial: &[usize],
    ) -> Result<Self::Buffer>;
    /// o[b, h, l, v] and the row statistics lse[b, h, l] (f32, or f64 for f64) from q[b, h, l, d],
    /// k[b, j, s, d], v[b, j, s, v]; query head i uses key head i / (h / j). The mask, if any, has
    /// shape [b, h, l, s] and is bool (true: takes part) or of q's dtype (added to the scaled
    /// scores). A query that sees no key has o = 0 and lse = -inf. Order:
    /// `docs/reference/numerics.md`, "Attention".
    fn attention(
        d: &Self::Device,
        a: &Attention,
        q: View<'_, Self>,
        k: View<'_, Self>,
        v: View<'_, Self>,
        mask: Option<View<'_, Self>>,
    ) -> Result<(Self::Buffer, Self::Buffer)>;
    /// The gradients of [`Backend::attention`] by q, k and v, from its inputs, its results and the
    /// gradient g of o.
    fn attention_grad(
        d: &Self::Device,
        a: &Attention,
        q: View<'_, Self>,
        k: View<'_, Self>,
        v: View<'_, Self>,
        mask: Option<View<'_, Self>>,
        o: View<'_, Self>,
        lse: View<'_, Self>,
        g: View<'_, Self>,
    ) -> Result<(Self::Buffer, Self::Buffer, Self::Buffer)>;

    // By index

    /// y[i.., j, k..] = x[i.., index[i.., j, k..], k..]: x and index (i64) agree in all axes but
    /// `axis`.
    ///
    /// # Errors
    /// `InvalidArgument` if an index is not in `0..size`.
    fn gather(
        d: &Self::Device,
        x: View<'_, Self>,
        axis: usize,
        index: View<'_, Self>,
    ) -> Result<Self::Buffer>;
    /// A copy of `base` into which `src` is written or added at `index`: y[.., index[.., j, ..],
    /// ..] from src[.., j, ..]. `src` has the shape of `index`; `base` agrees with it in all axes
    /// but `axis`. Sums of f16 and bf16 run in f32 and are rounded once.
    ///
    /// # Errors
    /// `InvalidArgument` if an index is not in `0..size`.
    fn scatter(
        d: &Self::Device,
        how: Scatter,
        base: View<'_, Self>,
        axis: usize,
        index: View<'_, Self>,
        src: View<'_, Self>,
    ) -> Result<Self::Buffer>;
    /// The row-major positions (i64) of the elements that are not zero (NaN is not), ascending, and
    /// their count.
    fn nonzero(d: &Self::Device, x: View<'_, Self>) -> Result<(Self::Buffer, usize)>;
}
