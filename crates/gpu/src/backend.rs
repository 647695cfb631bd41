//! Each kind of work, as launches of the library's kernels.

use crate::buffer::GpuBuffer;
use crate::chain;
use crate::device::{GpuDevice, not_there};
use crate::Gpu;
use elinvar_core::philox::Stream;
use elinvar_core::{DType, HostData, Layout, MemoryStats, Precision, Result, Scalar, Shape};
use elinvar_driver::{Driver, Kind, Slice};
use elinvar_kernel::library::contract::{self, OfEpilogue, Tile};
use elinvar_kernel::library::formula::{Floats, Ints};
use elinvar_kernel::library::rows::OfRows;
use elinvar_kernel::library::{Work, copy, fold, gather, rows, scan};
use elinvar_ops::backend::*;
use elinvar_ops::map::{IntMap, Map};
use elinvar_ops::rows::{RowOut, Rows};
use elinvar_ops::update::Update;
use std::sync::Arc;

type Look<'a, D> = View<'a, Gpu<D>>;

/// The memory behind views.
fn slices<'a, D: Driver>(x: &[Look<'a, D>]) -> Result<Vec<Slice<'a, D>>> {
    x.iter().map(|v| v.buffer.slice()).collect()
}

/// Runs a work with one result, which comes after its operands.
fn one<D: Driver>(
    d: &GpuDevice<D>,
    work: Option<Work<'_>>,
    x: &[Look<'_, D>],
    to: DType,
    len: usize,
) -> Result<GpuBuffer<D>> {
    let y = GpuBuffer::room(d, to, len)?;
    if let Some(work) = work {
        let mut buffers = slices(x)?;
        buffers.push(y.slice()?);
        d.run(&work, &buffers)?;
    }
    Ok(y)
}

/// Layouts and dtypes of views.
fn looks<'a, D: Driver>(x: &[Look<'a, D>]) -> Vec<(&'a Layout, DType)> {
    x.iter().map(|v| (v.layout, v.dtype)).collect()
}

/// How products are cut into pieces on a device.
fn tile<D: Driver>(d: &GpuDevice<D>, m: usize, n: usize, k: usize) -> Result<Tile> {
    // A software device pays for each barrier what a real one pays for a hundred products.
    let shares = d.info()?.kind != Kind::Software;
    Ok(if shares && m >= 32 && n >= 32 && k >= 32 { Tile::SHARED } else { Tile::PLAIN })
}

impl<D: Driver> Backend for Gpu<D> {
    type Device = GpuDevice<D>;
    type Buffer = GpuBuffer<D>;
    const NAME: &'static str = D::NAME;

    fn upload(d: &Self::Device, data: HostData) -> Result<Self::Buffer> {
        GpuBuffer::upload(d, &data)
    }
    fn download(d: &Self::Device, x: Look<'_, D>) -> Result<HostData> {
        let len = x.shape().numel();
        if x.layout.offset() == 0 && x.layout.is_contiguous() {
            return x.buffer.download(d, len);
        }
        Self::copy(d, x, x.dtype)?.download(d, len)
    }
    fn finish(d: &Self::Device, buffer: &Self::Buffer) -> Result<()> {
        buffer.slice()?;
        d.driver()?.wait()
    }
    fn synchronize(d: &Self::Device) -> Result<()> {
        d.driver()?.wait()
    }
    fn memory_stats(d: &Self::Device) -> Result<MemoryStats> {
        d.stats()
    }
    fn set_memory_limit(d: &Self::Device, limit: Option<u64>) -> Result<()> {
        d.set_limit(limit)
    }
    fn release_memory(d: &Self::Device) -> Result<()> {
        d.release()
    }
    fn prepack(_: &Self::Device, _: Look<'_, D>) -> Result<bool> {
        // Kernels read any strides at one speed, so there is nothing to gain from a copy.
        Ok(false)
    }
    fn fill(d: &Self::Device, value: Scalar, dtype: DType, len: usize) -> Result<Self::Buffer> {
        let _ = (d, value, dtype, len);
        not_there("fill")
    }
    fn random(d: &Self::Device, r: Random, s: Stream, dtype: DType, len: usize) -> Result<Self::Buffer> {
        let _ = (d, r, s, dtype, len);
        not_there("random")
    }
    fn copy(d: &Self::Device, x: Look<'_, D>, to: DType) -> Result<Self::Buffer> {
        let len = x.shape().numel();
        let mut y = one(d, copy::copy(x.layout, x.dtype, to), &[x], to, len)?;
        if x.dtype == to
            && let Some(node) = Arc::get_mut(&mut y.node)
        {
            node.range = x.buffer.node.range;
        }
        Ok(y)
    }
    fn assemble(
        d: &Self::Device,
        fill: Scalar,
        dtype: DType,
        shape: &Shape,
        parts: &[(Look<'_, D>, Layout)],
    ) -> Result<Self::Buffer> {
        let _ = (d, fill, dtype, shape, parts);
        not_there("assemble")
    }

    fn map<M: Map<N>, const N: usize>(
        d: &Self::Device,
        m: &M,
        x: [Look<'_, D>; N],
        dtype: DType,
    ) -> Result<Self::Buffer> {
        chain::put_off(d, Arc::new(Floats(*m)), &x, dtype)
    }
    fn map_int<M: IntMap<N>, const N: usize>(
        d: &Self::Device,
        m: &M,
        x: [Look<'_, D>; N],
        dtype: DType,
    ) -> Result<Self::Buffer> {
        chain::put_off(d, Arc::new(Ints(*m)), &x, dtype)
    }
    fn update<U: Update<M, R>, const M: usize, const R: usize>(
        d: &Self::Device,
        u: &U,
        items: Vec<UpdateItem<'_, Self, M, R>>,
    ) -> Result<()> {
        let _ = (d, u, items);
        not_there("update")
    }

    fn fold(d: &Self::Device, f: Fold, x: Look<'_, D>, kept: usize, to: DType) -> Result<Self::Buffer> {
        let len = x.shape()[..kept].iter().product();
        one(d, fold::fold(f, x.layout, x.dtype, kept, to, None), &[x], to, len)
    }
    fn arg_fold(d: &Self::Device, f: ArgFold, x: Look<'_, D>, kept: usize) -> Result<Self::Buffer> {
        let _ = (d, f, x, kept);
        not_there("arg_fold")
    }
    fn scan(d: &Self::Device, f: Scan, x: Look<'_, D>, to: DType) -> Result<Self::Buffer> {
        one(d, scan::scan(f, x.layout, x.dtype, to), &[x], to, x.shape().numel())
    }
    fn rows<F: Rows<N>, const N: usize>(
        d: &Self::Device,
        f: &F,
        x: [Look<'_, D>; N],
        kept: usize,
        dtype: DType,
    ) -> Result<Self::Buffer> {
        let shape = x[0].shape();
        let len = match F::OUT {
            RowOut::Each => shape.numel(),
            RowOut::Once => shape[..kept].iter().product(),
        };
        one(d, rows::rows(&OfRows::<F, N>(*f), dtype, &looks(&x), kept), &x, dtype, len)
    }
    fn sort(d: &Self::Device, x: Look<'_, D>, descending: bool) -> Result<(Self::Buffer, Self::Buffer)> {
        let _ = (d, x, descending);
        not_there("sort")
    }

    fn precision(_: &Self::Device) -> Precision {
        Precision::Exact
    }
    fn contract<E: Epilogue<N>, const N: usize>(
        d: &Self::Device,
        _: Precision,
        x: Look<'_, D>,
        w: Look<'_, D>,
        e: &E,
        extra: [Look<'_, D>; N],
    ) -> Result<Self::Buffer> {
        let (b, m, k, n) = (x.shape()[0], x.shape()[1], x.shape()[2], w.shape()[2]);
        let e = OfEpilogue::<E, N>(*e);
        let work = contract::contract(&e, x.dtype, x.layout, w.layout, &looks(&extra), tile(d, m, n, k)?);
        let operands: Vec<Look<'_, D>> = [x, w].into_iter().chain(extra).collect();
        one(d, work, &operands, x.dtype, b * m * n)
    }
    fn conv<E: Epilogue<N>, const N: usize>(
        d: &Self::Device,
        c: &Conv,
        x: Look<'_, D>,
        w: Look<'_, D>,
        out: &[usize],
        e: &E,
        extra: [Look<'_, D>; N],
    ) -> Result<Self::Buffer> {
        let _ = (d, c, x, w, out, e, extra);
        not_there("conv")
    }
    fn conv_input_grad(
        d: &Self::Device,
        c: &Conv,
        g: Look<'_, D>,
        w: Look<'_, D>,
        spatial: &[usize],
    ) -> Result<Self::Buffer> {
        let _ = (d, c, g, w, spatial);
        not_there("conv_input_grad")
    }
    fn conv_weight_grad(
        d: &Self::Device,
        c: &Conv,
        x: Look<'_, D>,
        g: Look<'_, D>,
        taps: &[usize],
    ) -> Result<Self::Buffer> {
        let _ = (d, c, x, g, taps);
        not_there("conv_weight_grad")
    }
    fn pool(d: &Self::Device, p: &Pool, x: Look<'_, D>) -> Result<(Self::Buffer, Option<Self::Buffer>)> {
        let _ = (d, p, x);
        not_there("pool")
    }
    fn avg_pool_grad(
        d: &Self::Device,
        p: &Pool,
        g: Look<'_, D>,
        spatial: &[usize],
    ) -> Result<Self::Buffer> {
        let _ = (d, p, g, spatial);
        not_there("avg_pool_grad")
    }
    fn attention(
        d: &Self::Device,
        a: &Attention,
        q: Look<'_, D>,
        k: Look<'_, D>,
        v: Look<'_, D>,
        mask: Option<Look<'_, D>>,
    ) -> Result<(Self::Buffer, Self::Buffer)> {
        let _ = (d, a, q, k, v, mask);
        not_there("attention")
    }
    fn attention_grad(
        d: &Self::Device,
        a: &Attention,
        q: Look<'_, D>,
        k: Look<'_, D>,
        v: Look<'_, D>,
        mask: Option<Look<'_, D>>,
        o: Look<'_, D>,
        lse: Look<'_, D>,
        g: Look<'_, D>,
    ) -> Result<(Self::Buffer, Self::Buffer, Self::Buffer)> {
        let _ = (d, a, q, k, v, mask, o, lse, g);
        not_there("attention_grad")
    }

    fn gather(
        d: &Self::Device,
        x: Look<'_, D>,
        axis: usize,
        index: Look<'_, D>,
    ) -> Result<Self::Buffer> {
        let y = GpuBuffer::room(d, x.dtype, index.shape().numel())?;
        if let Some(work) = gather::gather(x.layout, x.dtype, axis, index.layout) {
            let refused = Refused::new(d, &index, x.shape()[axis])?;
            d.run(&work, &[x.buffer.slice()?, index.buffer.slice()?, y.slice()?, refused.buffer.slice()?])?;
            refused.check(d, "gather", &index, axis, x.shape()[axis])?;
        }
        Ok(y)
    }
    fn scatter(
        d: &Self::Device,
        how: Scatter,
        base: Look<'_, D>,
        axis: usize,
        index: Look<'_, D>,
        src: Look<'_, D>,
    ) -> Result<Self::Buffer> {
        let _ = (d, how, base, axis, index, src);
        not_there("scatter")
    }
    fn nonzero(d: &Self::Device, x: Look<'_, D>) -> Result<(Self::Buffer, usize)> {
        let _ = (d, x);
        not_there("nonzero")
    }
}

/// Where a kernel says that an index was out of range.
struct Refused<D: Driver> {
    buffer: GpuBuffer<D>,
    /// Nobody needs to ask: the indices are known to be in range.
    known: bool,
}

impl<D: Driver> Refused<D> {
    fn new(d: &GpuDevice<D>, index: &Look<'_, D>, size: usize) -> Result<Self> {
        let known = index.buffer.node.range.is_some_and(|[low, high]| low >= 0 && high < size as i64);
        Ok(Refused { buffer: GpuBuffer::upload(d, &HostData::I32(vec![0]))?, known })
    }
    /// # Errors
    /// `InvalidArgument` if an index was out of range.
    fn check(self, d: &GpuDevice<D>, op: &str, index: &Look<'_, D>, axis: usize, size: usize) -> Result<()> {
        if self.known || self.buffer.download(d, 1)? == HostData::I32(vec![0]) {
            return Ok(());
        }
        let HostData::I64(all) = Gpu::<D>::download(d, *index)? else { unreachable!("indices are i64") };
        let bad = all.iter().position(|&i| i < 0 || i >= size as i64).expect("the kernel has met one");
        let mut rest = bad;
        let mut position: Vec<usize> = Vec::new();
        for &n in index.shape().iter().rev() {
            position.insert(0, rest % n);
            rest /= n;
        }
        Err(out_of_range(op, all[bad], &position, axis, size))
    }
}
