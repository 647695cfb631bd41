//! The kinds of work.

use super::{
    ArgFold, Attention, Conv, EpilogueObject, Fused, Memory, Placed, Pool, Random, Scan, Scatter, UpdateItem,
    View,
};
use crate::fold::Folding;
use crate::map::{IntMapObject, MapObject};
use crate::rows::RowObject;
use crate::update::UpdateObject;
use elinvar_core::philox::Stream;
use elinvar_core::{DType, Precision, Result};

/// The results of [`Compute::fused`].
pub type FusedResults<B> = Vec<Placed<<B as Memory>::Buffer>>;

/// What is computed. See [the rules](super).
pub trait Compute: Memory {
    /// `len` random numbers of a stream: of `s`, or, if there is `at`, of the one that it holds in
    /// memory, i32 \[4\], contiguous, as [`Stream::to_words`] has it. So work that is captured
    /// draws other numbers each time it is replayed.
    fn random(
        d: &Self::Device,
        r: Random,
        s: Stream,
        at: Option<View<'_, Self>>,
        dtype: DType,
        len: usize,
    ) -> Result<Self::Buffer>;

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
    fn update(d: &Self::Device, u: &dyn UpdateObject, items: Vec<UpdateItem<'_, Self>>) -> Result<()>;

    // Along axes. The view's first `kept` axes stay, the others are joined in row-major order.

    /// Combines the elements of each row. `to` is the dtype of the result: i64 for sums and
    /// products of integers and bool; the dtype itself, or f32 for storage floats, otherwise.
    fn fold<F: Folding>(d: &Self::Device, x: View<'_, Self>, kept: usize, to: DType) -> Result<Self::Buffer>;
    /// The index (i64) of an element in each row; rows are not empty.
    fn arg_fold(d: &Self::Device, f: ArgFold, x: View<'_, Self>, kept: usize) -> Result<Self::Buffer>;
    /// Prefix sums or products along the last axis. `to` as in `fold`. The result may have the
    /// layout of `x`.
    fn scan(d: &Self::Device, f: Scan, x: View<'_, Self>, to: DType) -> Result<Placed<Self::Buffer>>;
    /// A row-wise formula: statistics of each row, then a value for each element or for each row.
    /// All views have one shape and are of `dtype` or bool. Values for each element may be as
    /// operands do.
    fn rows(
        d: &Self::Device,
        f: &dyn RowObject,
        x: &[View<'_, Self>],
        kept: usize,
        dtype: DType,
    ) -> Result<Placed<Self::Buffer>>;
    /// Work that this backend may have in one pass: its meaning, operands and results are said at
    /// the variants of [`Fused`]. `None` where it has not, for these operands or at all: then the
    /// op is composed of other work, to the same bits.
    fn fused(d: &Self::Device, f: &Fused<'_>, x: &[View<'_, Self>]) -> Result<Option<FusedResults<Self>>>;
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
    /// [b, m, n]. Integers wrap and take no epilogue. [`Precision::Fast`] allows another order and
    /// flushed subnormals; a backend that has nothing faster stays exact.
    fn contract(
        d: &Self::Device,
        p: Precision,
        x: View<'_, Self>,
        w: View<'_, Self>,
        e: Option<&dyn EpilogueObject>,
        extra: &[View<'_, Self>],
    ) -> Result<Self::Buffer>;
    /// y[n, o, s'] = epilogue(sum over (c, taps) of x[n, c, s] * w[o, c, tap]), cross-correlation,
    /// terms in row-major order of (c, taps); padding contributes terms with x = +0. `out`: the
    /// spatial sizes of y.
    fn conv(
        d: &Self::Device,
        c: &Conv,
        x: View<'_, Self>,
        w: View<'_, Self>,
        out: &[usize],
        e: Option<&dyn EpilogueObject>,
        extra: &[View<'_, Self>],
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
    /// but `axis`. Sums of storage floats run in f32 and are rounded once.
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

/// How a backend hands this work on: as the table of memory, in `memory.rs`. A new kind of work has
/// its row here.
#[doc(hidden)]
#[macro_export]
macro_rules! compute_table {
    ([$($then:tt)*] $($given:tt)*) => {
        $($then)*! {
            ($($given)*)
            values {
                Random random [] (
                    r: ($crate::t::Random), s: ($crate::t::Stream), at: maybe, dtype: ($crate::t::DType), len: (usize)
                ) -> one [(dtype, len)];
                Map map [] (f: (&dyn $crate::t::MapObject), x: views, dtype: ($crate::t::DType))
                    -> one [(stored(f.out(), dtype), x[0].shape().numel())];
                MapInt map_int [] (f: (&dyn $crate::t::IntMapObject), x: views, dtype: ($crate::t::DType))
                    -> one [(stored(f.out(), dtype), x[0].shape().numel())];
                Update update [] (
                    u: (&dyn $crate::t::UpdateObject), items: (Vec<$crate::t::UpdateItem<'_, Self>>)
                ) -> hand ($crate::t::Result<()>);
                Fold fold [F: $crate::t::Folding] (x: view, kept: (usize), to: ($crate::t::DType))
                    -> one [(to, area(&x.shape()[..kept]))];
                ArgFold arg_fold [] (f: ($crate::t::ArgFold), x: view, kept: (usize))
                    -> one [(DType::I64, area(&x.shape()[..kept]))];
                Scan scan [] (f: ($crate::t::Scan), x: view, to: ($crate::t::DType))
                    -> placed [(to, x.shape().numel())];
                Rows rows [] (
                    f: (&dyn $crate::t::RowObject), x: views, kept: (usize), dtype: ($crate::t::DType)
                ) -> placed [{
                    let (rows, row) = x[0].shape().split_at(kept);
                    (dtype, area(rows) * f.out().width(area(row), f.folds().len()))
                }];
                Sort sort [] (x: view, descending: (bool), first: (usize)) -> two [
                    (x.dtype, first * area(x.shape().split_last().map_or(&[], |(_, rows)| rows))),
                    (DType::I64, first * area(x.shape().split_last().map_or(&[], |(_, rows)| rows)))
                ];
                Contract contract [] (
                    p: ($crate::t::Precision), x: view, w: view,
                    e: (Option<&dyn $crate::t::EpilogueObject>), extra: views
                ) -> one [(x.dtype, area(&x.shape()[..2]) * w.shape()[2])];
                Conv conv [] (
                    c: (&$crate::t::Conv), x: view, w: view, out: (&[usize]),
                    e: (Option<&dyn $crate::t::EpilogueObject>), extra: views
                ) -> one [(x.dtype, x.shape()[0] * w.shape()[0] * area(out))];
                ConvInputGrad conv_input_grad [] (
                    c: (&$crate::t::Conv), g: view, w: view, spatial: (&[usize])
                ) -> one [(g.dtype, g.shape()[0] * w.shape()[1] * c.groups * area(spatial))];
                ConvWeightGrad conv_weight_grad [] (
                    c: (&$crate::t::Conv), x: view, g: view, taps: (&[usize])
                ) -> one [(x.dtype, g.shape()[1] * (x.shape()[1] / c.groups) * area(taps))];
                Pool pool [] (p: (&$crate::t::Pool), x: view)
                    -> hand ($crate::t::Result<(Self::Buffer, Option<Self::Buffer>)>);
                AvgPoolGrad avg_pool_grad [] (p: (&$crate::t::Pool), g: view, spatial: (&[usize]))
                    -> one [(g.dtype, area(&g.shape()[..g.shape().rank() - p.axes.len()]) * area(spatial))];
                Attention attention [] (a: (&$crate::t::Attention), q: view, k: view, v: view, mask: maybe)
                    -> two [
                        (q.dtype, area(&q.shape()[..3]) * v.shape()[3]),
                        (q.dtype.compute(), area(&q.shape()[..3]))
                    ];
                AttentionGrad attention_grad [] (
                    a: (&$crate::t::Attention), q: view, k: view, v: view, mask: maybe, o: view, lse: view,
                    g: view
                ) -> three [
                    (q.dtype, q.shape().numel()), (q.dtype, k.shape().numel()), (q.dtype, v.shape().numel())
                ];
                Gather gather [] (x: view, axis: (usize), index: view)
                    -> one [(x.dtype, index.shape().numel())];
                Scatter scatter [] (
                    how: ($crate::t::Scatter), base: view, axis: (usize), index: view, src: view
                ) -> one [(base.dtype, base.shape().numel())];
                Nonzero nonzero [] (x: view) -> hand ($crate::t::Result<(Self::Buffer, usize)>);
            }
            others {
                precision [] () -> plain ($crate::t::Precision);
                fused [] (f: (&$crate::t::Fused<'_>), x: views)
                    -> hand ($crate::t::Result<Option<$crate::t::FusedResults<Self>>>);
            }
        }
    };
}
