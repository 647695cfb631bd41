//! The kinds of work.

use super::{
    ArgFold, Attention, Conv, Epilogue, Memory, Placed, Pool, Random, RowsAndColumns, Scan, Scatter,
    UpdateItem, View,
};
use crate::fold::Folding;
use crate::map::{IntMapObject, Map, MapObject};
use crate::rows::{ColumnsObject, RowObject};
use crate::update::Update;
use elinvar_core::philox::Stream;
use elinvar_core::{DType, Precision, Result};

/// What is computed. See [the rules](super).
pub trait Compute: Memory {
    /// `len` random numbers.
    fn random(d: &Self::Device, r: Random, s: Stream, dtype: DType, len: usize) -> Result<Self::Buffer>;

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
    /// The gradient of [`Compute::lattice`] by x [t, n, s], from (x, may, the result of the forward
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
    /// The gradient of [`Compute::conv`] by x, of shape [n, c, spatial]: for each input element the
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
    /// The gradient of [`Compute::conv`] by w, of shape [o, c / groups, taps]: terms x * g over
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
    /// The gradients of [`Compute::attention`] by q, k and v, from its inputs, its results and the
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
