//! The backend: each kind of work, as launches of the library's kernels.

mod attention;
mod conv;
mod gemm;
mod graph;
mod memory;
mod out_of_range;
mod reduce;
mod streams;

use crate::Gpu;
use crate::allocator::PieceRange;
use crate::buffer::{GpuBuffer, MaxPoolIndices};
use crate::device::GpuDevice;
use crate::fusion;
use crate::range::IntRange;
use crate::update;
use elinvar_core::philox::Stream;
use elinvar_core::{DType, HostData, Layout, Precision, Result, Scalar};
use elinvar_driver::Driver;
use elinvar_gpu_kernels::conv::{ConvPass, ConvProblem};
use elinvar_gpu_kernels::elementwise::fill;
use elinvar_gpu_kernels::elementwise::random::{self, StreamSource};
use elinvar_gpu_kernels::formula::{FloatFormula, IntFormula};
use elinvar_gpu_kernels::gemm::CatalogueEpilogue;
use elinvar_gpu_kernels::index::{gather, nonzero, scatter, sort};
use elinvar_gpu_kernels::launch::{BufferSlot, BufferSpec, LaunchSequence, Work};
use elinvar_gpu_kernels::layout::{self, copy};
use elinvar_gpu_kernels::pool;
use elinvar_kernel::ir::Elem;
use elinvar_ops::backend::*;
use elinvar_ops::fold::Folding;
use elinvar_ops::map::{IntMapObject, MapObject};
use elinvar_ops::rows::RowObject;
use elinvar_ops::update::UpdateObject;
use out_of_range::OutOfRangeFlag;
use std::sync::Arc;

pub(crate) type GpuView<'a, D> = View<'a, Gpu<D>>;

/// The memory behind views.
pub(crate) fn parts<'a, D: Driver>(x: &[GpuView<'a, D>]) -> Result<Vec<PieceRange<'a, D>>> {
    x.iter().map(|v| v.buffer.part()).collect()
}

/// The view, contiguous, as this dtype.
fn converted<D: Driver>(d: &GpuDevice<D>, x: GpuView<'_, D>, to: DType) -> Result<GpuBuffer<D>> {
    let may_transpose = layout::plan::may_transpose(x.dtype, to, &d.machine()?);
    let transposing = if may_transpose { copy::transposing_copy(x.layout, to) } else { None };
    let work = transposing.or_else(|| copy::copy(x.layout, x.dtype, to));
    one(d, work, &[x], to, x.shape().numel())
}

/// Runs a work with one result, which comes after its operands.
#[inline(never)]
pub(crate) fn one<D: Driver>(
    d: &GpuDevice<D>,
    work: Option<Work<'_>>,
    x: &[GpuView<'_, D>],
    to: DType,
    len: usize,
) -> Result<GpuBuffer<D>> {
    let y = GpuBuffer::uninit(d, to, len)?;
    if let Some(work) = work {
        let mut buffers = parts(x)?;
        buffers.push(y.part()?);
        d.run(&work, &buffers)?;
    }
    Ok(y)
}

/// Memory of its own that holds one number everywhere. Nothing is said of its range: it may be the
/// start of something else.
fn filled<D: Driver>(d: &GpuDevice<D>, value: Scalar, dtype: DType, len: usize) -> Result<GpuBuffer<D>> {
    one(d, fill::fill(value, dtype, len), &[], dtype, len)
}

/// Runs launches that follow one another; gives their results.
pub(crate) fn steps<D: Driver, const R: usize>(
    d: &GpuDevice<D>,
    all: &LaunchSequence<'_>,
    x: &[GpuView<'_, D>],
) -> Result<[GpuBuffer<D>; R]> {
    let uninit = |r: &BufferSpec| -> Result<GpuBuffer<D>> {
        let dtype = memory_of(r.elem);
        if r.zero { filled(d, Scalar::Int(0), dtype, r.len) } else { GpuBuffer::uninit(d, dtype, r.len) }
    };
    let results = all.results.iter().map(uninit).collect::<Result<Vec<_>>>()?;
    let scratch = all.scratch.iter().map(uninit).collect::<Result<Vec<_>>>()?;
    for step in &all.steps {
        let slot = |s: &BufferSlot| match *s {
            BufferSlot::Operand(i) => x[i].buffer.part(),
            BufferSlot::Result(i) => results[i].part(),
            BufferSlot::Scratch(i) => scratch[i].part(),
        };
        d.run(&step.work, &step.buffers.iter().map(slot).collect::<Result<Vec<_>>>()?)?;
    }
    Ok(results.try_into().unwrap_or_else(|_| unreachable!("a work of {R} results")))
}

/// The dtype whose memory holds such elements. (Tensors have no u32 and u64; as memory they are i32
/// and i64.)
fn memory_of(e: Elem) -> DType {
    match e {
        Elem::Bool => DType::Bool,
        Elem::U8 => DType::U8,
        Elem::I32 | Elem::U32 => DType::I32,
        Elem::I64 | Elem::U64 => DType::I64,
        Elem::F16 => DType::F16,
        Elem::BF16 => DType::BF16,
        Elem::F8(f) => f.dtype(),
        Elem::F32 => DType::F32,
        Elem::F64 => DType::F64,
    }
}

/// Layouts and dtypes of views.
pub(crate) fn layouts<'a, D: Driver>(x: &[GpuView<'a, D>]) -> Vec<(&'a Layout, DType)> {
    x.iter().map(|v| (v.layout, v.dtype)).collect()
}

impl<D: Driver> Compute for Gpu<D> {
    fn random(
        d: &Self::Device,
        r: Random,
        s: Stream,
        at: Option<GpuView<'_, D>>,
        dtype: DType,
        len: usize,
    ) -> Result<Self::Buffer> {
        let source =
            at.as_ref().map_or(StreamSource::Given(s), |at| StreamSource::Memory(at.layout.offset()));
        let work = random::random(r, source, dtype, len);
        let range = match r {
            Random::Int { low, high } => Some([low, high - 1]),
            Random::Bernoulli { .. } => Some([0, 1]),
            Random::Uniform { .. } | Random::Normal { .. } => None,
        };
        Ok(one(d, work, at.as_slice(), dtype, len)?.within(range))
    }
    fn map(d: &Self::Device, f: &dyn MapObject, x: &[GpuView<'_, D>], dtype: DType) -> Result<Self::Buffer> {
        fusion::defer(d, Arc::new(FloatFormula(f.boxed())), x, dtype)
    }
    fn map_int(
        d: &Self::Device,
        f: &dyn IntMapObject,
        x: &[GpuView<'_, D>],
        dtype: DType,
    ) -> Result<Self::Buffer> {
        let ranges: Vec<IntRange> = x.iter().map(|v| IntRange::of(v.dtype, v.buffer.node.range)).collect();
        let range = f.record().replay_one(&ranges);
        Ok(fusion::defer(d, Arc::new(IntFormula(f.boxed())), x, dtype)?.within(range.known(dtype)))
    }
    fn update(d: &Self::Device, u: &dyn UpdateObject, items: Vec<UpdateItem<'_, Self>>) -> Result<()> {
        update::update(d, u, items)
    }
    fn fold<F: Folding>(d: &Self::Device, x: GpuView<'_, D>, kept: usize, to: DType) -> Result<Self::Buffer> {
        reduce::fold(d, F::FOLD, x, kept, to)
    }
    fn arg_fold(d: &Self::Device, f: ArgFold, x: GpuView<'_, D>, kept: usize) -> Result<Self::Buffer> {
        reduce::arg_fold(d, f, x, kept)
    }
    fn scan(d: &Self::Device, f: Scan, x: GpuView<'_, D>, to: DType) -> Result<Placed<Self::Buffer>> {
        Ok(reduce::scan(d, f, x, to)?.into())
    }
    fn rows(
        d: &Self::Device,
        f: &dyn RowObject,
        x: &[GpuView<'_, D>],
        kept: usize,
        dtype: DType,
    ) -> Result<Placed<Self::Buffer>> {
        Ok(reduce::rows(d, f, x, kept, dtype)?.into())
    }
    fn fused(_: &Self::Device, f: &Fused<'_>, _: &[GpuView<'_, D>]) -> Result<Option<FusedResults<Self>>> {
        match f {
            // A launch for each: sums over rows are shared by workgroups in another way than rows
            // are.
            Fused::RowsAndColumns { .. } => Ok(None),
            // A few launches for each step.
            Fused::Lattice { .. } | Fused::LatticeGrad { .. } | Fused::Fourier { .. } => Ok(None),
            // A few launches for each round or column.
            Fused::Rotations { .. } | Fused::LuFactor | Fused::TriangularInverse { .. } => Ok(None),
        }
    }
    fn sort(
        d: &Self::Device,
        x: GpuView<'_, D>,
        descending: bool,
        first: usize,
    ) -> Result<(Self::Buffer, Self::Buffer)> {
        let [y, places] = steps(d, &sort::sort(x.layout, x.dtype, descending), &[x])?;
        let n = x.shape().last().copied().unwrap_or(1);
        let range = Some([0, n as i64 - 1]);
        if first == n {
            return Ok((y, places.within(range)));
        }
        // All are sorted, and the first ones copied.
        let layout = Layout::contiguous(x.shape().clone()).slice(x.shape().rank() - 1, 0, first, 1);
        let some = |buffer, dtype| Self::copy(d, View { buffer, layout: &layout, dtype });
        Ok((some(&y, x.dtype)?, some(&places, DType::I64)?.within(range)))
    }
    fn precision(d: &Self::Device) -> Precision {
        d.precision()
    }
    fn contract(
        d: &Self::Device,
        p: Precision,
        x: GpuView<'_, D>,
        w: GpuView<'_, D>,
        e: Option<&dyn EpilogueObject>,
        extra: &[GpuView<'_, D>],
    ) -> Result<Self::Buffer> {
        gemm::contract(d, p, [x, w], e, extra)
    }
    fn conv(
        d: &Self::Device,
        c: &Conv,
        x: GpuView<'_, D>,
        w: GpuView<'_, D>,
        out: &[usize],
        e: Option<&dyn EpilogueObject>,
        extra: &[GpuView<'_, D>],
    ) -> Result<Self::Buffer> {
        let (e, of_extra) = (CatalogueEpilogue(e), layouts(extra));
        let operands: Vec<GpuView<'_, D>> = [x, w].iter().chain(extra).copied().collect();
        conv::convolve(
            d,
            &ConvProblem::forward(&e, c, x.dtype, [x.layout, w.layout], out, &of_extra),
            &operands,
        )
    }
    fn conv_input_grad(
        d: &Self::Device,
        c: &Conv,
        g: GpuView<'_, D>,
        w: GpuView<'_, D>,
        spatial: &[usize],
    ) -> Result<Self::Buffer> {
        conv::convolve(
            d,
            &ConvProblem::gradient(ConvPass::GradInput, c, g.dtype, [g.layout, w.layout], spatial),
            &[g, w],
        )
    }
    fn conv_weight_grad(
        d: &Self::Device,
        c: &Conv,
        x: GpuView<'_, D>,
        g: GpuView<'_, D>,
        taps: &[usize],
    ) -> Result<Self::Buffer> {
        conv::convolve(
            d,
            &ConvProblem::gradient(ConvPass::GradWeight, c, x.dtype, [x.layout, g.layout], taps),
            &[x, g],
        )
    }
    fn pool(d: &Self::Device, p: &Pool, x: GpuView<'_, D>) -> Result<(Self::Buffer, Option<Self::Buffer>)> {
        let planes: usize = x.shape()[..x.shape().rank() - p.axes.len()].iter().product();
        let len = planes * p.axes.iter().map(|a| a.start.len()).product::<usize>();
        let plane: usize = x.shape()[x.shape().rank() - p.axes.len()..].iter().product();
        let y = GpuBuffer::uninit(d, x.dtype, len)?;
        let max_pool_indices = match p.kind {
            PoolKind::Max => {
                let spatial = x.shape()[x.shape().rank() - p.axes.len()..].to_vec();
                let max_pool_indices =
                    GpuBuffer::uninit(d, DType::I64, len)?.within(Some([0, plane as i64 - 1]));
                Some(max_pool_indices.with_max_pool_indices(MaxPoolIndices { pool: p.clone(), spatial }))
            }
            PoolKind::Avg => None,
        };
        if let Some(work) = pool::pool(p, x.dtype, x.layout) {
            let mut buffers = vec![x.buffer.part()?, y.part()?];
            if let Some(max_pool_indices) = &max_pool_indices {
                buffers.push(max_pool_indices.part()?);
            }
            d.run(&work, &buffers)?;
        }
        Ok((y, max_pool_indices))
    }
    fn avg_pool_grad(
        d: &Self::Device,
        p: &Pool,
        g: GpuView<'_, D>,
        spatial: &[usize],
    ) -> Result<Self::Buffer> {
        let planes: usize = g.shape()[..g.shape().rank() - p.axes.len()].iter().product();
        let len = planes * spatial.iter().product::<usize>();
        one(d, pool::backward::average(p, g.dtype, g.layout, spatial), &[g], g.dtype, len)
    }
    fn attention(
        d: &Self::Device,
        a: &Attention,
        q: GpuView<'_, D>,
        k: GpuView<'_, D>,
        v: GpuView<'_, D>,
        mask: Option<GpuView<'_, D>>,
    ) -> Result<(Self::Buffer, Self::Buffer)> {
        attention::forward(d, a, [q, k, v], mask)
    }
    fn attention_grad(
        d: &Self::Device,
        a: &Attention,
        q: GpuView<'_, D>,
        k: GpuView<'_, D>,
        v: GpuView<'_, D>,
        mask: Option<GpuView<'_, D>>,
        o: GpuView<'_, D>,
        lse: GpuView<'_, D>,
        g: GpuView<'_, D>,
    ) -> Result<(Self::Buffer, Self::Buffer, Self::Buffer)> {
        let [q, k, v] = attention::backward(d, a, [q, k, v, o, lse, g], mask)?;
        Ok((q, k, v))
    }
    fn gather(
        d: &Self::Device,
        x: GpuView<'_, D>,
        axis: usize,
        index: GpuView<'_, D>,
    ) -> Result<Self::Buffer> {
        let y = GpuBuffer::uninit(d, x.dtype, index.shape().numel())?;
        if let Some(work) = gather::gather(x.layout, x.dtype, axis, index.layout) {
            let refused = OutOfRangeFlag::new(d, &index, x.shape()[axis])?;
            d.run(&work, &[x.buffer.part()?, index.buffer.part()?, y.part()?, refused.buffer.part()?])?;
            refused.check(d, "gather", &index, axis, x.shape()[axis])?;
        }
        Ok(y)
    }
    fn scatter(
        d: &Self::Device,
        how: Scatter,
        base: GpuView<'_, D>,
        axis: usize,
        index: GpuView<'_, D>,
        src: GpuView<'_, D>,
    ) -> Result<Self::Buffer> {
        if let Some(max_pool_indices) = &index.buffer.node.max_pool_indices
            && how == Scatter::Add
            && max_pool_indices.fit(&base, axis, &index)
        {
            let (p, spatial) = (&max_pool_indices.pool, &max_pool_indices.spatial);
            let work =
                pool::backward::maximum(p, base.dtype, base.layout, [index.layout, src.layout], spatial);
            return one(d, work, &[base, index, src], base.dtype, base.shape().numel());
        }
        let work = scatter::scatter(how, base.dtype, base.layout, axis, index.layout, src.layout);
        let [y, buffer] = steps(d, &work, &[base, index, src])?;
        OutOfRangeFlag::seen(buffer, &index, base.shape()[axis]).check(
            d,
            "scatter",
            &index,
            axis,
            base.shape()[axis],
        )?;
        Ok(y)
    }
    fn nonzero(d: &Self::Device, x: GpuView<'_, D>) -> Result<(Self::Buffer, usize)> {
        let len = x.shape().numel();
        let [y, count] = steps(d, &nonzero::nonzero(x.layout, x.dtype), &[x])?;
        let HostData::I64(count) = count.download(d, 1)? else { unreachable!("a count is i64") };
        Ok((y.within(Some([0, len as i64 - 1])), count[0] as usize))
    }
}
