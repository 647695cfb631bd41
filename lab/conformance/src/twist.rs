//! A mutant backend: it runs another backend and may change the results.
//!
//! Without a change it must pass everything that the other passes. With one it must fail: a suite
//! that passes a backend which writes nothing, or one wrong bit, proves nothing.

use elinvar_core::philox::Stream;
use elinvar_core::{DType, HostData, Layout, MemoryStats, Precision, Result, Scalar, Shape, bf16, f16};
use elinvar_ops::backend::{
    ArgFold, Attention, Backend, Capture, Changed, Compute, Conv, Epilogue, Memory, Placed, Pool, Random,
    Recorded, RowsAndColumns, Scan, Scatter, UpdateItem, View,
};
use elinvar_ops::casting::Casting;
use elinvar_ops::fold::Folding;
use elinvar_ops::map::{IntMapObject, Map, MapObject, Out};
use elinvar_ops::rows::{ColumnsObject, RowObject};
use elinvar_ops::update::Update;
use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// The kinds of work of a backend, except those about time and memory, which have no values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// [`Memory::upload`]
    Upload,
    /// [`Memory::download`]
    Download,
    /// [`Memory::fill`]
    Fill,
    /// [`Compute::random`]
    Random,
    /// [`Memory::copy`]
    Copy,
    /// [`Memory::assemble`]
    Assemble,
    /// [`Compute::map`]
    Map,
    /// [`Compute::map_int`]
    MapInt,
    /// [`Compute::fold`]
    Fold,
    /// [`Compute::arg_fold`]
    ArgFold,
    /// [`Compute::scan`]
    Scan,
    /// [`Compute::rows`]
    Rows,
    /// [`Compute::sort`]
    Sort,
    /// [`Compute::contract`]
    Contract,
    /// [`Compute::conv`]
    Conv,
    /// [`Compute::conv_input_grad`]
    ConvInputGrad,
    /// [`Compute::conv_weight_grad`]
    ConvWeightGrad,
    /// [`Compute::pool`]
    Pool,
    /// [`Compute::avg_pool_grad`]
    AvgPoolGrad,
    /// [`Compute::attention`]
    Attention,
    /// [`Compute::attention_grad`]
    AttentionGrad,
    /// [`Compute::gather`]
    Gather,
    /// [`Compute::scatter`]
    Scatter,
    /// [`Compute::nonzero`]
    Nonzero,
    /// [`Compute::update`]
    Update,
}

impl Work {
    /// All of them.
    pub const ALL: [Work; 25] = [
        Work::Upload,
        Work::Download,
        Work::Fill,
        Work::Random,
        Work::Copy,
        Work::Assemble,
        Work::Map,
        Work::MapInt,
        Work::Fold,
        Work::ArgFold,
        Work::Scan,
        Work::Rows,
        Work::Sort,
        Work::Contract,
        Work::Conv,
        Work::ConvInputGrad,
        Work::ConvWeightGrad,
        Work::Pool,
        Work::AvgPoolGrad,
        Work::Attention,
        Work::AttentionGrad,
        Work::Gather,
        Work::Scatter,
        Work::Nonzero,
        Work::Update,
    ];
    /// Is it a transfer between host and device?
    pub const fn is_transfer(self) -> bool {
        matches!(self, Work::Upload | Work::Download)
    }
}

/// The change of the results.
#[derive(Clone)]
pub struct Twist {
    name: &'static str,
    touches: Arc<dyn Fn(Work) -> bool + Send + Sync>,
    change: fn(HostData) -> HostData,
}

impl Twist {
    /// `change` is applied to the results where `touches` is true. `touches` is called once per
    /// call.
    pub fn new(
        name: &'static str,
        touches: impl Fn(Work) -> bool + Send + Sync + 'static,
        change: fn(HostData) -> HostData,
    ) -> Self {
        Twist { name, touches: Arc::new(touches), change }
    }
    /// No change.
    pub fn echo() -> Self {
        Self::new("echo", |_| false, |data| data)
    }
    /// Every call returns Ok and nothing is ever written, not even on downloads.
    pub fn lazy() -> Self {
        Self::new("lazy", |_| true, zeros)
    }
    /// Transfers work, but every computation returns Ok and writes nothing.
    pub fn idle() -> Self {
        Self::new("idle", |work| !work.is_transfer(), zeros)
    }
    /// One kind of work returns Ok and writes nothing.
    pub fn without(work: Work) -> Self {
        Self::new("without", move |w| w == work, zeros)
    }
    /// The lowest bit of the last element is wrong in the results of one kind of work.
    pub fn wrong_bit(work: Work) -> Self {
        Self::new("wrong bit", move |w| w == work, flip)
    }
    /// No change, but every call is reported to `count`.
    pub fn counting(count: impl Fn(Work) + Send + Sync + 'static) -> Self {
        let told = move |work| {
            count(work);
            false
        };
        Self::new("counting", told, |data| data)
    }
}

impl fmt::Debug for Twist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A new buffer of the same size and dtype.
fn zeros(data: HostData) -> HostData {
    HostData::full(data.dtype(), data.len(), Scalar::Int(0)).expect("there was memory for one as large")
}

fn flip(mut data: HostData) -> HostData {
    match &mut data {
        HostData::F32(v) => v.iter_mut().next_back().map(|x| *x = f32::from_bits(x.to_bits() ^ 1)),
        HostData::F64(v) => v.iter_mut().next_back().map(|x| *x = f64::from_bits(x.to_bits() ^ 1)),
        HostData::F16(v) => v.iter_mut().next_back().map(|x| *x = f16::from_bits(x.to_bits() ^ 1)),
        HostData::BF16(v) => v.iter_mut().next_back().map(|x| *x = bf16::from_bits(x.to_bits() ^ 1)),
        HostData::I64(v) => v.iter_mut().next_back().map(|x| *x ^= 1),
        HostData::I32(v) => v.iter_mut().next_back().map(|x| *x ^= 1),
        HostData::U8(v) => v.iter_mut().next_back().map(|x| *x ^= 1),
        HostData::Bool(v) => v.iter_mut().next_back().map(|x| *x ^= true),
    };
    data
}

/// A device of a mutant backend: one of the inner backend, and the change of its results.
///
/// The change is a value and not a type, so that all ops are compiled once for all mutants.
#[derive(Clone, Debug)]
pub struct TwistedDevice<D> {
    /// The inner device.
    pub inner: D,
    /// The change of the results.
    pub twist: Twist,
}

impl<D: Default> Default for TwistedDevice<D> {
    fn default() -> Self {
        TwistedDevice { inner: D::default(), twist: Twist::echo() }
    }
}

impl<D: PartialEq> PartialEq for TwistedDevice<D> {
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner && self.twist.name == other.twist.name
    }
}

impl<D: fmt::Display> fmt::Display for TwistedDevice<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.inner, self.twist.name)
    }
}

/// Backend `B` with changed results.
#[derive(Clone, Copy, Debug, Default)]
pub struct Twisted<B>(PhantomData<B>);

impl<D: Default> TwistedDevice<D> {
    /// The default device, with this change.
    pub fn new(twist: Twist) -> Self {
        TwistedDevice { inner: D::default(), twist }
    }
}

type Device<B> = TwistedDevice<<B as Memory>::Device>;

fn after<B: Backend>(
    d: &Device<B>,
    work: Work,
    buffer: B::Buffer,
    dtype: DType,
    len: usize,
) -> Result<B::Buffer> {
    if (d.twist.touches)(work) { change::<B>(d, buffer, dtype, len) } else { Ok(buffer) }
}

fn change<B: Backend>(d: &Device<B>, buffer: B::Buffer, dtype: DType, len: usize) -> Result<B::Buffer> {
    let view = View { buffer: &buffer, layout: &Layout::contiguous(Shape::new(&[len])?), dtype };
    let data = B::download(&d.inner, view)?;
    B::upload(&d.inner, (d.twist.change)(data))
}

/// The same view, of the inner backend.
fn inner<'a, B: Backend>(x: View<'a, Twisted<B>>) -> View<'a, B> {
    View { buffer: x.buffer, layout: x.layout, dtype: x.dtype }
}

fn inners<'a, B: Backend>(x: &[View<'a, Twisted<B>>]) -> Vec<View<'a, B>> {
    x.iter().copied().map(inner).collect()
}

fn rows_of(shape: &Shape, kept: usize) -> usize {
    shape[..kept].iter().product()
}

impl<D: elinvar_ops::DeviceOf> elinvar_ops::DeviceOf for TwistedDevice<D> {
    type Backend = Twisted<D::Backend>;
}

impl<B: Backend> Memory for Twisted<B> {
    type Device = TwistedDevice<B::Device>;
    type Buffer = B::Buffer;
    const NAME: &'static str = "twisted";
    fn upload(d: &Self::Device, data: HostData) -> Result<B::Buffer> {
        B::upload(&d.inner, if (d.twist.touches)(Work::Upload) { (d.twist.change)(data) } else { data })
    }
    fn download(d: &Self::Device, x: View<'_, Self>) -> Result<HostData> {
        let data = B::download(&d.inner, inner(x))?;
        Ok(if (d.twist.touches)(Work::Download) { (d.twist.change)(data) } else { data })
    }
    fn receive(_: &Self::Device, _: &Self::Device, _: View<'_, Self>) -> Result<Option<B::Buffer>> {
        // Goes through the host, where the change is applied.
        Ok(None)
    }
    fn finish(d: &Self::Device, buffer: &B::Buffer) -> Result<()> {
        B::finish(&d.inner, buffer)
    }
    fn synchronize(d: &Self::Device) -> Result<()> {
        B::synchronize(&d.inner)
    }
    fn memory_stats(d: &Self::Device) -> Result<MemoryStats> {
        B::memory_stats(&d.inner)
    }
    fn set_memory_limit(d: &Self::Device, limit: Option<u64>) -> Result<()> {
        B::set_memory_limit(&d.inner, limit)
    }
    fn release_memory(d: &Self::Device) -> Result<()> {
        B::release_memory(&d.inner)
    }
    fn prepack(d: &Self::Device, w: View<'_, Self>) -> Result<bool> {
        B::prepack(&d.inner, inner(w))
    }
    fn fill(d: &Self::Device, value: Scalar, dtype: DType, len: usize) -> Result<B::Buffer> {
        after::<B>(d, Work::Fill, B::fill(&d.inner, value, dtype, len)?, dtype, len)
    }
    fn copy(d: &Self::Device, x: View<'_, Self>) -> Result<B::Buffer> {
        let (to, len) = (x.dtype, x.shape().numel());
        after::<B>(d, Work::Copy, B::copy(&d.inner, inner(x))?, to, len)
    }
    fn cast<C: Casting>(d: &Self::Device, x: View<'_, Self>, to: DType) -> Result<B::Buffer> {
        let len = x.shape().numel();
        after::<B>(d, Work::Copy, B::cast::<C>(&d.inner, inner(x), to)?, to, len)
    }
    fn assemble(
        d: &Self::Device,
        fill: Scalar,
        dtype: DType,
        shape: &Shape,
        parts: &[(View<'_, Self>, Layout)],
    ) -> Result<B::Buffer> {
        let parts: Vec<_> = parts.iter().map(|(x, l)| (inner(*x), l.clone())).collect();
        let buffer = B::assemble(&d.inner, fill, dtype, shape, &parts)?;
        after::<B>(d, Work::Assemble, buffer, dtype, shape.numel())
    }
}

impl<B: Backend> Compute for Twisted<B> {
    fn precision(d: &Self::Device) -> Precision {
        B::precision(&d.inner)
    }
    fn random(d: &Self::Device, r: Random, s: Stream, dtype: DType, len: usize) -> Result<B::Buffer> {
        after::<B>(d, Work::Random, B::random(&d.inner, r, s, dtype, len)?, dtype, len)
    }
    fn map(d: &Self::Device, f: &dyn MapObject, x: &[View<'_, Self>], dtype: DType) -> Result<B::Buffer> {
        let len = x[0].shape().numel();
        after::<B>(d, Work::Map, B::map(&d.inner, f, &inners(x), dtype)?, stored(f.out(), dtype), len)
    }
    fn map_int(
        d: &Self::Device,
        f: &dyn IntMapObject,
        x: &[View<'_, Self>],
        dtype: DType,
    ) -> Result<B::Buffer> {
        let len = x[0].shape().numel();
        after::<B>(d, Work::MapInt, B::map_int(&d.inner, f, &inners(x), dtype)?, stored(f.out(), dtype), len)
    }
    fn update<U: Update<M, R>, const M: usize, const R: usize>(
        d: &Self::Device,
        u: &U,
        items: Vec<UpdateItem<'_, Self, M, R>>,
    ) -> Result<()> {
        let mut items: Vec<UpdateItem<'_, B, M, R>> =
            items.into_iter().map(|i| i.of(std::convert::identity, inner)).collect();
        // The same items again, for the call: the buffers that it changes are accessed through
        // `items` afterwards.
        let again = items.iter_mut().map(|i| UpdateItem {
            shape: i.shape.clone(),
            dtype: i.dtype,
            changes: i.changes.each_mut().map(|x| Changed { buffer: &mut *x.buffer, dtype: x.dtype }),
            reads: i.reads,
        });
        B::update(&d.inner, u, again.collect())?;
        if (d.twist.touches)(Work::Update) {
            for (Changed { buffer, dtype }, len) in
                items.into_iter().flat_map(|i| i.changes.map(|x| (x, i.shape.numel())))
            {
                let view = View { buffer: &*buffer, layout: &Layout::contiguous(Shape::new(&[len])?), dtype };
                let data = B::download(&d.inner, view)?;
                *buffer = B::upload(&d.inner, (d.twist.change)(data))?;
            }
        }
        Ok(())
    }
    fn fold<F: Folding>(d: &Self::Device, x: View<'_, Self>, kept: usize, to: DType) -> Result<B::Buffer> {
        let len = rows_of(x.shape(), kept);
        after::<B>(d, Work::Fold, B::fold::<F>(&d.inner, inner(x), kept, to)?, to, len)
    }
    fn arg_fold(d: &Self::Device, f: ArgFold, x: View<'_, Self>, kept: usize) -> Result<B::Buffer> {
        let len = rows_of(x.shape(), kept);
        after::<B>(d, Work::ArgFold, B::arg_fold(&d.inner, f, inner(x), kept)?, DType::I64, len)
    }
    fn scan(d: &Self::Device, f: Scan, x: View<'_, Self>, to: DType) -> Result<Placed<B::Buffer>> {
        let len = x.shape().numel();
        let Placed { buffer, layout } = B::scan(&d.inner, f, inner(x), to)?;
        Ok(Placed { buffer: after::<B>(d, Work::Scan, buffer, to, len)?, layout })
    }
    fn rows(
        d: &Self::Device,
        f: &dyn RowObject,
        x: &[View<'_, Self>],
        kept: usize,
        dtype: DType,
    ) -> Result<Placed<B::Buffer>> {
        let n = x[0].shape()[kept..].iter().product();
        let len = rows_of(x[0].shape(), kept) * f.out().width(n, f.folds().len());
        let Placed { buffer, layout } = B::rows(&d.inner, f, &inners(x), kept, dtype)?;
        Ok(Placed { buffer: after::<B>(d, Work::Rows, buffer, dtype, len)?, layout })
    }
    fn rows_and_columns(
        _: &Self::Device,
        _: &dyn ColumnsObject,
        _: &[View<'_, Self>],
        _: usize,
        _: DType,
        _: usize,
    ) -> Result<Option<RowsAndColumns<B::Buffer>>> {
        // Composed from separate calls, to which the change is applied.
        Ok(None)
    }
    fn lattice<F: Map<4>>(
        _: &Self::Device,
        _: &F,
        _: [View<'_, Self>; 3],
        _: &[usize],
    ) -> Result<Option<B::Buffer>> {
        // Composed from separate steps, to which the change is applied.
        Ok(None)
    }
    fn lattice_grad<F: Map<5>>(
        _: &Self::Device,
        _: &F,
        _: [View<'_, Self>; 4],
        _: &[usize],
    ) -> Result<Option<B::Buffer>> {
        // As above.
        Ok(None)
    }
    fn sort(
        d: &Self::Device,
        x: View<'_, Self>,
        descending: bool,
        first: usize,
    ) -> Result<(B::Buffer, B::Buffer)> {
        let rows = rows_of(x.shape(), x.shape().rank().saturating_sub(1));
        let (len, dtype) = (rows * first, x.dtype);
        let (values, indices) = B::sort(&d.inner, inner(x), descending, first)?;
        Ok(if (d.twist.touches)(Work::Sort) {
            (change::<B>(d, values, dtype, len)?, change::<B>(d, indices, DType::I64, len)?)
        } else {
            (values, indices)
        })
    }
    fn contract<E: Epilogue<N>, const N: usize>(
        d: &Self::Device,
        p: Precision,
        x: View<'_, Self>,
        w: View<'_, Self>,
        e: &E,
        extra: [View<'_, Self>; N],
    ) -> Result<B::Buffer> {
        let (len, dtype) = (x.shape()[0] * x.shape()[1] * w.shape()[2], x.dtype);
        let buffer = B::contract(&d.inner, p, inner(x), inner(w), e, extra.map(inner))?;
        after::<B>(d, Work::Contract, buffer, dtype, len)
    }
    fn conv<E: Epilogue<N>, const N: usize>(
        d: &Self::Device,
        c: &Conv,
        x: View<'_, Self>,
        w: View<'_, Self>,
        out: &[usize],
        e: &E,
        extra: [View<'_, Self>; N],
    ) -> Result<B::Buffer> {
        let (len, dtype) = (x.shape()[0] * w.shape()[0] * out.iter().product::<usize>(), x.dtype);
        let buffer = B::conv(&d.inner, c, inner(x), inner(w), out, e, extra.map(inner))?;
        after::<B>(d, Work::Conv, buffer, dtype, len)
    }
    fn conv_input_grad(
        d: &Self::Device,
        c: &Conv,
        g: View<'_, Self>,
        w: View<'_, Self>,
        spatial: &[usize],
    ) -> Result<B::Buffer> {
        let channels = w.shape()[1] * c.groups;
        let (len, dtype) = (g.shape()[0] * channels * spatial.iter().product::<usize>(), g.dtype);
        let buffer = B::conv_input_grad(&d.inner, c, inner(g), inner(w), spatial)?;
        after::<B>(d, Work::ConvInputGrad, buffer, dtype, len)
    }
    fn conv_weight_grad(
        d: &Self::Device,
        c: &Conv,
        x: View<'_, Self>,
        g: View<'_, Self>,
        taps: &[usize],
    ) -> Result<B::Buffer> {
        let channels = x.shape()[1] / c.groups;
        let (len, dtype) = (g.shape()[1] * channels * taps.iter().product::<usize>(), x.dtype);
        let buffer = B::conv_weight_grad(&d.inner, c, inner(x), inner(g), taps)?;
        after::<B>(d, Work::ConvWeightGrad, buffer, dtype, len)
    }
    fn pool(d: &Self::Device, p: &Pool, x: View<'_, Self>) -> Result<(B::Buffer, Option<B::Buffer>)> {
        let dtype = x.dtype;
        let planes = rows_of(x.shape(), x.shape().rank() - p.axes.len());
        let len = planes * p.axes.iter().map(|a| a.start.len()).product::<usize>();
        let (y, winners) = B::pool(&d.inner, p, inner(x))?;
        Ok(if (d.twist.touches)(Work::Pool) {
            let winners = winners.map(|w| change::<B>(d, w, DType::I64, len)).transpose()?;
            (change::<B>(d, y, dtype, len)?, winners)
        } else {
            (y, winners)
        })
    }
    fn avg_pool_grad(d: &Self::Device, p: &Pool, g: View<'_, Self>, spatial: &[usize]) -> Result<B::Buffer> {
        let dtype = g.dtype;
        let planes = rows_of(g.shape(), g.shape().rank() - p.axes.len());
        let len = planes * spatial.iter().product::<usize>();
        after::<B>(d, Work::AvgPoolGrad, B::avg_pool_grad(&d.inner, p, inner(g), spatial)?, dtype, len)
    }
    fn attention(
        d: &Self::Device,
        a: &Attention,
        q: View<'_, Self>,
        k: View<'_, Self>,
        v: View<'_, Self>,
        mask: Option<View<'_, Self>>,
    ) -> Result<(B::Buffer, B::Buffer)> {
        let dtype = q.dtype;
        let rows = rows_of(q.shape(), 3);
        let len = rows * v.shape()[3];
        let (o, lse) = B::attention(&d.inner, a, inner(q), inner(k), inner(v), mask.map(inner))?;
        Ok(if (d.twist.touches)(Work::Attention) {
            (change::<B>(d, o, dtype, len)?, change::<B>(d, lse, dtype.compute(), rows)?)
        } else {
            (o, lse)
        })
    }
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
    ) -> Result<(B::Buffer, B::Buffer, B::Buffer)> {
        let (dtype, lens) = (q.dtype, [q.shape().numel(), k.shape().numel(), v.shape().numel()]);
        let (q, k, v) = (inner(q), inner(k), inner(v));
        let (dq, dk, dv) =
            B::attention_grad(&d.inner, a, q, k, v, mask.map(inner), inner(o), inner(lse), inner(g))?;
        Ok(if (d.twist.touches)(Work::AttentionGrad) {
            (
                change::<B>(d, dq, dtype, lens[0])?,
                change::<B>(d, dk, dtype, lens[1])?,
                change::<B>(d, dv, dtype, lens[2])?,
            )
        } else {
            (dq, dk, dv)
        })
    }
    fn gather(d: &Self::Device, x: View<'_, Self>, axis: usize, index: View<'_, Self>) -> Result<B::Buffer> {
        let (len, dtype) = (index.shape().numel(), x.dtype);
        after::<B>(d, Work::Gather, B::gather(&d.inner, inner(x), axis, inner(index))?, dtype, len)
    }
    fn scatter(
        d: &Self::Device,
        how: Scatter,
        base: View<'_, Self>,
        axis: usize,
        index: View<'_, Self>,
        src: View<'_, Self>,
    ) -> Result<B::Buffer> {
        let (len, dtype) = (base.shape().numel(), base.dtype);
        let buffer = B::scatter(&d.inner, how, inner(base), axis, inner(index), inner(src))?;
        after::<B>(d, Work::Scatter, buffer, dtype, len)
    }
    fn nonzero(d: &Self::Device, x: View<'_, Self>) -> Result<(B::Buffer, usize)> {
        let (buffer, count) = B::nonzero(&d.inner, inner(x))?;
        Ok((after::<B>(d, Work::Nonzero, buffer, DType::I64, count)?, count))
    }
}

impl<B: Backend> Capture for Twisted<B> {
    type Graph = Infallible;
    fn record(_: &Self::Device, _: &mut Recorded<'_, Self>) -> Result<Option<Infallible>> {
        // Captured work would bypass the change.
        Ok(None)
    }
    fn input(d: &Self::Device, x: View<'_, Self>, _: Option<&B::Buffer>) -> Result<B::Buffer> {
        Self::copy(d, x)
    }
    fn replay(_: &Self::Device, g: &Infallible, _: &[(View<'_, Self>, &B::Buffer)]) -> Result<bool> {
        match *g {}
    }
    fn memory_id(d: &Self::Device, buffer: &B::Buffer) -> Result<usize> {
        B::memory_id(&d.inner, buffer)
    }
}

/// The dtype in which a map's result is stored.
fn stored(out: Out, dtype: DType) -> DType {
    match out {
        Out::Same => dtype,
        Out::Bool => DType::Bool,
    }
}
