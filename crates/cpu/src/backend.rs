//! `impl Backend for Cpu`: each kind of work as a call of one of the op families of this crate.
//!
//! Dispatch by dtype happens here; strategy and blocking are chosen in the families. Where no
//! kernels are compiled ([`Isa::has_kernels`](elinvar_simd::isa::Isa::has_kernels)), the reference
//! does all the work.

use crate::elementwise::wide_operands::{WideOperands, exact};
use crate::elementwise::{random, update};
use crate::index::{gather, scatter};
use crate::layout::copy;
use crate::lazy::buffer::CpuBuffer;
use crate::lazy::map;
use crate::view::{View, host_view, reference_view};
use crate::{Cpu, CpuDevice, attention, conv, fft, gemm, lazy, linalg, pool, reduce, sort};
use elinvar_core::philox::Stream;
use elinvar_core::{DType, HostData, Precision, Result, storage};
use elinvar_ops::array::Array;
use elinvar_ops::backend::{self, *};
use elinvar_ops::fold::Folding;
use elinvar_ops::map::{IntMapObject, MapObject};
use elinvar_ops::random::stream_in;
use elinvar_ops::rows::RowObject;
use elinvar_ops::update::UpdateObject;
use elinvar_reference::{Reference, ReferenceDevice};
use smallvec::SmallVec;

mod memory;

/// The drop of a tensor's memory, compiled in this crate. A generic function that is never inlined,
/// as the counter's own drop is not, is compiled once, in the first crate that needs it; and a
/// program that takes it from there gets all object files which that one refers to, of whose
/// functions the linker keeps the tables for unwinding. That was the crate that knows GPUs too: a
/// program for the CPU alone had 0.1 MiB of their tables in it.
#[used]
static DROP: fn(Array<Cpu>) = drop;

/// All views, of numbers that are there; those of most work fit without an allocation.
fn views<'a>(x: &[BackendView<'a>]) -> Result<SmallVec<[View<'a>; 5]>> {
    x.iter().map(host_view).collect()
}

/// A view of numbers that are there, for the reference.
fn for_reference<'a>(x: &BackendView<'a>) -> Result<backend::View<'a, Reference>> {
    host_view(x).map(reference_view)
}

/// Views, for the reference.
fn reference_views<'a>(x: &[BackendView<'a>]) -> Result<Vec<backend::View<'a, Reference>>> {
    x.iter().map(for_reference).collect()
}

/// The result of a kernel, as a tensor's memory.
fn into_buffer(y: Result<HostData>) -> Result<CpuBuffer> {
    y.map(CpuBuffer::new)
}

/// A view as the trait has it.
type BackendView<'a> = backend::View<'a, Cpu>;

/// Items of an update, as the reference has them: what changes is memory with a single owner, and
/// what is read is there.
fn host_items<'a>(items: Vec<UpdateItem<'a, Cpu>>) -> Result<Vec<UpdateItem<'a, Reference>>> {
    let item = |i: UpdateItem<'a, Cpu>| {
        let change = |x: Changed<'a, Cpu>| Ok(Changed { buffer: x.buffer.data_mut()?, dtype: x.dtype });
        let changes = i.changes.into_iter().map(change).collect::<Result<_>>()?;
        let reads = i.reads.iter().map(for_reference).collect::<Result<_>>()?;
        Ok(UpdateItem { shape: i.shape, dtype: i.dtype, changes, reads })
    };
    items.into_iter().map(item).collect()
}

impl Compute for Cpu {
    fn random(
        d: &CpuDevice,
        r: Random,
        s: Stream,
        at: Option<BackendView<'_>>,
        dtype: DType,
        len: usize,
    ) -> Result<CpuBuffer> {
        let s = at.map_or(Ok(s), |at| stream_in(at.buffer.data()?, at.layout))?;
        if !d.isa().has_kernels() {
            return into_buffer(Reference::random(&ReferenceDevice, r, s, None, dtype, len));
        }
        into_buffer(random::random(d, r, s, dtype, len))
    }
    fn map(d: &CpuDevice, f: &dyn MapObject, x: &[BackendView<'_>], dtype: DType) -> Result<CpuBuffer> {
        if !d.isa().has_kernels() {
            return into_buffer(Reference::map(&ReferenceDevice, f, &reference_views(x)?, dtype));
        }
        map::map(d, f, x, dtype)
    }
    fn map_int(
        d: &CpuDevice,
        f: &dyn IntMapObject,
        x: &[BackendView<'_>],
        dtype: DType,
    ) -> Result<CpuBuffer> {
        if !d.isa().has_kernels() {
            return into_buffer(Reference::map_int(&ReferenceDevice, f, &reference_views(x)?, dtype));
        }
        map::map_int(d, f, x, dtype)
    }
    fn update(d: &CpuDevice, u: &dyn UpdateObject, items: Vec<UpdateItem<'_, Self>>) -> Result<()> {
        let items = host_items(items)?;
        if !d.isa().has_kernels() {
            return Reference::update(&ReferenceDevice, u, items);
        }
        update::update(d, u, items)
    }
    fn fold<F: Folding>(d: &CpuDevice, x: BackendView<'_>, kept: usize, dtype: DType) -> Result<CpuBuffer> {
        if !d.isa().has_kernels() {
            return into_buffer(Reference::fold::<F>(&ReferenceDevice, for_reference(&x)?, kept, dtype));
        }
        let x = host_view(&x)?;
        into_buffer(match F::FOLD {
            Fold::Sum if const { !F::INTEGERS } => reduce::float_sum(d, &x, kept, dtype),
            Fold::Sum => reduce::sum(d, &x, kept, dtype),
            Fold::Prod => reduce::prod(d, &x, kept, dtype),
            Fold::Max => reduce::max(d, &x, kept, dtype),
            Fold::Min => reduce::min(d, &x, kept, dtype),
        })
    }
    fn arg_fold(d: &CpuDevice, f: ArgFold, x: BackendView<'_>, kept: usize) -> Result<CpuBuffer> {
        if !d.isa().has_kernels() {
            return into_buffer(Reference::arg_fold(&ReferenceDevice, f, for_reference(&x)?, kept));
        }
        into_buffer(reduce::arg_fold(d, f, &host_view(&x)?, kept))
    }
    fn scan(d: &CpuDevice, f: Scan, x: BackendView<'_>, dtype: DType) -> Result<Placed<CpuBuffer>> {
        if !d.isa().has_kernels() {
            return Ok(Reference::scan(&ReferenceDevice, f, for_reference(&x)?, dtype)?.map(CpuBuffer::new));
        }
        Ok(reduce::scan(d, f, &host_view(&x)?, dtype)?.map(CpuBuffer::new))
    }
    fn rows(
        d: &CpuDevice,
        f: &dyn RowObject,
        x: &[BackendView<'_>],
        kept: usize,
        dtype: DType,
    ) -> Result<Placed<CpuBuffer>> {
        let y = if d.isa().has_kernels() {
            reduce::rowwise(d, f, &views(x)?, kept, dtype)
        } else {
            Reference::rows(&ReferenceDevice, f, &reference_views(x)?, kept, dtype)
        };
        Ok(y?.map(CpuBuffer::new))
    }
    fn fused(d: &CpuDevice, f: &Fused<'_>, x: &[BackendView<'_>]) -> Result<Option<FusedResults<Self>>> {
        if !d.isa().has_kernels() {
            return Ok(None);
        }
        let one = |y: HostData| Some(vec![CpuBuffer::new(y).into()]);
        let x = views(x)?;
        match (*f, &x[..]) {
            (Fused::RowsAndColumns { f, kept, dtype, sums }, x) => {
                let both = reduce::rows_and_columns(d, f, x, kept, dtype, sums)?;
                let all = |(y, sums): (_, Vec<_>)| {
                    [y].into_iter().chain(sums).map(|y| CpuBuffer::new(y).into()).collect()
                };
                Ok(both.map(all))
            }
            (Fused::Lattice { f, ends }, [x, may, front]) => {
                reduce::lattice(d, f, [x, may, front], ends).map(one)
            }
            (Fused::LatticeGrad { f, ends }, [x, may, all, g]) => {
                reduce::lattice_grad(d, f, [x, may, all, g], ends).map(one)
            }
            (Fused::Rotations { r, rounds }, [x]) => Ok(linalg::rotations(d, x, r, rounds)?.and_then(one)),
            (Fused::TriangularInverse { unit }, [x]) => linalg::triangular_inverse(d, x, unit).map(one),
            (Fused::LuFactor, [x]) => {
                let all = linalg::lu_factor(d, x)?;
                Ok(Some(all.into_iter().map(|y| CpuBuffer::new(y).into()).collect()))
            }
            (
                Fused::Lattice { .. }
                | Fused::LatticeGrad { .. }
                | Fused::Rotations { .. }
                | Fused::LuFactor
                | Fused::TriangularInverse { .. },
                _,
            ) => {
                unreachable!("{}: the op passes its operands", f.name())
            }
            (Fused::Fourier { kind, n, scale }, x) => fft::fourier(d, kind, n, scale, &x[0]).map(one),
        }
    }
    fn sort(
        d: &CpuDevice,
        x: BackendView<'_>,
        descending: bool,
        first: usize,
    ) -> Result<(CpuBuffer, CpuBuffer)> {
        if !d.isa().has_kernels() {
            let (values, places) = Reference::sort(&ReferenceDevice, for_reference(&x)?, descending, first)?;
            return Ok((CpuBuffer::new(values), CpuBuffer::new(places)));
        }
        let (values, places) = sort::sort(d, &host_view(&x)?, descending, first)?;
        Ok((CpuBuffer::new(values), CpuBuffer::new(places)))
    }
    fn precision(d: &CpuDevice) -> Precision {
        d.precision()
    }
    fn contract(
        d: &CpuDevice,
        p: Precision,
        x: BackendView<'_>,
        w: BackendView<'_>,
        e: Option<&dyn EpilogueObject>,
        extra: &[BackendView<'_>],
    ) -> Result<CpuBuffer> {
        if !d.isa().has_kernels() {
            let (x, w) = (for_reference(&x)?, for_reference(&w)?);
            return into_buffer(Reference::contract(&ReferenceDevice, p, x, w, e, &reference_views(extra)?));
        }
        if let Some(wide) = WideOperands::of(d, x.dtype, [x, w], extra)? {
            let [x, w] = wide.factors();
            return wide.narrow(d, &Self::contract(d, Precision::Exact, x, w, e, &wide.extra())?);
        }
        let packed = match (x.shape().dims(), w.layout.strides()) {
            // One matrix for all of the batch.
            (&[b, m, _], &[step, ..]) if b == 1 || step == 0 && b > 0 => {
                w.buffer.prepacked(d, gemm::use_weight(b * m), gemm::MatrixPlace::of(w.layout))?
            }
            _ => None,
        };
        let (x, w, extra) = (host_view(&x)?, host_view(&w)?, views(extra)?);
        into_buffer(match x.dtype {
            DType::F32 | storage!(DType) => {
                gemm::contract::contract::<f32>(d, p, &x, (&w, packed), e, &extra)
            }
            DType::F64 => gemm::contract::contract::<f64>(d, p, &x, (&w, packed), e, &extra),
            DType::I64 | DType::I32 | DType::U8 | DType::Bool => {
                let own = |v: backend::View<'_, Reference>| {
                    copy::to_contiguous(d, &View { buffer: v.buffer, layout: v.layout, dtype: v.dtype })
                };
                Reference::contract_integers(reference_view(x), reference_view(w), e, &own)
            }
        })
    }
    fn conv(
        d: &CpuDevice,
        c: &Conv,
        x: BackendView<'_>,
        w: BackendView<'_>,
        out: &[usize],
        e: Option<&dyn EpilogueObject>,
        extra: &[BackendView<'_>],
    ) -> Result<CpuBuffer> {
        if !d.isa().has_kernels() {
            let (x, w) = (for_reference(&x)?, for_reference(&w)?);
            return into_buffer(Reference::conv(&ReferenceDevice, c, x, w, out, e, &reference_views(extra)?));
        }
        if let Some(wide) = WideOperands::of(d, x.dtype, [x, w], extra)? {
            let [x, w] = wide.factors();
            return wide.narrow(d, &Self::conv(d, &exact(c), x, w, out, e, &wide.extra())?);
        }
        let packed = |worth: bool, place| w.buffer.prepacked(d, worth.into(), place);
        let (x, w, extra) = (host_view(&x)?, host_view(&w)?, views(extra)?);
        let w = (&w, &packed as &conv::PrepackedLookup<'_>);
        into_buffer(match x.dtype {
            DType::F64 => conv::conv::<f64>(d, c, &x, w, out, e, &extra),
            // What is not of floats is refused there.
            DType::F32 | storage!(DType) | DType::I64 | DType::I32 | DType::U8 | DType::Bool => {
                conv::conv::<f32>(d, c, &x, w, out, e, &extra)
            }
        })
    }
    fn conv_input_grad(
        d: &CpuDevice,
        c: &Conv,
        g: BackendView<'_>,
        w: BackendView<'_>,
        spatial: &[usize],
    ) -> Result<CpuBuffer> {
        if !d.isa().has_kernels() {
            let (g, w) = (for_reference(&g)?, for_reference(&w)?);
            return into_buffer(Reference::conv_input_grad(&ReferenceDevice, c, g, w, spatial));
        }
        if let Some(wide) = WideOperands::of(d, g.dtype, [g, w], &[])? {
            let [g, w] = wide.factors();
            return wide.narrow(d, &Self::conv_input_grad(d, &exact(c), g, w, spatial)?);
        }
        let (g, w) = (host_view(&g)?, host_view(&w)?);
        into_buffer(match g.dtype {
            DType::F64 => conv::input_grad::<f64>(d, c, &g, &w, spatial),
            // What is not of floats is refused there.
            DType::F32 | storage!(DType) | DType::I64 | DType::I32 | DType::U8 | DType::Bool => {
                conv::input_grad::<f32>(d, c, &g, &w, spatial)
            }
        })
    }
    fn conv_weight_grad(
        d: &CpuDevice,
        c: &Conv,
        x: BackendView<'_>,
        g: BackendView<'_>,
        taps: &[usize],
    ) -> Result<CpuBuffer> {
        if !d.isa().has_kernels() {
            let (x, g) = (for_reference(&x)?, for_reference(&g)?);
            return into_buffer(Reference::conv_weight_grad(&ReferenceDevice, c, x, g, taps));
        }
        if let Some(wide) = WideOperands::of(d, x.dtype, [x, g], &[])? {
            let [x, g] = wide.factors();
            return wide.narrow(d, &Self::conv_weight_grad(d, &exact(c), x, g, taps)?);
        }
        let (x, g) = (host_view(&x)?, host_view(&g)?);
        into_buffer(match x.dtype {
            DType::F64 => conv::weight_grad::<f64>(d, c, &x, &g, taps),
            // What is not of floats is refused there.
            DType::F32 | storage!(DType) | DType::I64 | DType::I32 | DType::U8 | DType::Bool => {
                conv::weight_grad::<f32>(d, c, &x, &g, taps)
            }
        })
    }
    fn pool(d: &CpuDevice, p: &Pool, x: BackendView<'_>) -> Result<(CpuBuffer, Option<CpuBuffer>)> {
        if !d.isa().has_kernels() {
            let (y, places) = Reference::pool(&ReferenceDevice, p, for_reference(&x)?)?;
            return Ok((CpuBuffer::new(y), places.map(CpuBuffer::new)));
        }
        pool::pool(d, p, &x)
    }
    fn avg_pool_grad(d: &CpuDevice, p: &Pool, g: BackendView<'_>, spatial: &[usize]) -> Result<CpuBuffer> {
        if !d.isa().has_kernels() {
            return into_buffer(Reference::avg_pool_grad(&ReferenceDevice, p, for_reference(&g)?, spatial));
        }
        into_buffer(pool::avg_pool_grad(d, p, &host_view(&g)?, spatial))
    }
    fn attention(
        d: &CpuDevice,
        a: &Attention,
        q: BackendView<'_>,
        k: BackendView<'_>,
        v: BackendView<'_>,
        mask: Option<BackendView<'_>>,
    ) -> Result<(CpuBuffer, CpuBuffer)> {
        let mask = mask.as_ref().map(host_view).transpose()?;
        if !d.isa().has_kernels() {
            let ([q, k], v) = ([for_reference(&q)?, for_reference(&k)?], for_reference(&v)?);
            let (o, lse) = Reference::attention(&ReferenceDevice, a, q, k, v, mask.map(reference_view))?;
            return Ok((CpuBuffer::new(o), CpuBuffer::new(lse)));
        }
        let (o, lse) = attention::attention(d, a, host_view(&q)?, host_view(&k)?, host_view(&v)?, mask)?;
        Ok((CpuBuffer::new(o), CpuBuffer::new(lse)))
    }
    fn attention_grad(
        d: &CpuDevice,
        a: &Attention,
        q: BackendView<'_>,
        k: BackendView<'_>,
        v: BackendView<'_>,
        mask: Option<BackendView<'_>>,
        o: BackendView<'_>,
        lse: BackendView<'_>,
        g: BackendView<'_>,
    ) -> Result<(CpuBuffer, CpuBuffer, CpuBuffer)> {
        let mask = mask.as_ref().map(host_view).transpose()?;
        if !d.isa().has_kernels() {
            let ([q, k], [v, g]) =
                ([for_reference(&q)?, for_reference(&k)?], [for_reference(&v)?, for_reference(&g)?]);
            let ([o, lse], mask) = ([for_reference(&o)?, for_reference(&lse)?], mask.map(reference_view));
            let (q, k, v) = Reference::attention_grad(&ReferenceDevice, a, q, k, v, mask, o, lse, g)?;
            return Ok((CpuBuffer::new(q), CpuBuffer::new(k), CpuBuffer::new(v)));
        }
        let results = attention::GradInputs { o: host_view(&o)?, lse: host_view(&lse)?, g: host_view(&g)? };
        let (q, k, v) =
            attention::attention_grad(d, a, host_view(&q)?, host_view(&k)?, host_view(&v)?, mask, results)?;
        Ok((CpuBuffer::new(q), CpuBuffer::new(k), CpuBuffer::new(v)))
    }
    fn gather(d: &CpuDevice, x: BackendView<'_>, axis: usize, index: BackendView<'_>) -> Result<CpuBuffer> {
        if !d.isa().has_kernels() {
            let (x, index) = (for_reference(&x)?, for_reference(&index)?);
            return into_buffer(Reference::gather(&ReferenceDevice, x, axis, index));
        }
        if let Some(y) = lazy::gather::defer(d, &x, axis, &index)? {
            return Ok(y);
        }
        let (x, index) = (host_view(&x)?, host_view(&index)?);
        into_buffer(match gather::gather(d, &x, axis, &index)? {
            Some(y) => Ok(y),
            // An index is out of range: the reference says which.
            None => Reference::gather(&ReferenceDevice, reference_view(x), axis, reference_view(index)),
        })
    }
    fn scatter(
        d: &CpuDevice,
        how: Scatter,
        base: BackendView<'_>,
        axis: usize,
        index: BackendView<'_>,
        src: BackendView<'_>,
    ) -> Result<CpuBuffer> {
        if !d.isa().has_kernels() {
            let ([base, index], src) =
                ([for_reference(&base)?, for_reference(&index)?], for_reference(&src)?);
            return into_buffer(Reference::scatter(&ReferenceDevice, how, base, axis, index, src));
        }
        let (base, index) = (host_view(&base)?, host_view(&index)?);
        if how == Scatter::Add
            && let Some(y) = scatter::scatter_of_map(d, &base, axis, &index, &src)?
        {
            return into_buffer(Ok(y));
        }
        let src = host_view(&src)?;
        into_buffer(match scatter::scatter(d, how, &base, axis, &index, &src)? {
            Some(y) => Ok(y),
            // An index is out of range: the reference says which.
            None => Reference::scatter(
                &ReferenceDevice,
                how,
                reference_view(base),
                axis,
                reference_view(index),
                reference_view(src),
            ),
        })
    }
    fn nonzero(d: &CpuDevice, x: BackendView<'_>) -> Result<(CpuBuffer, usize)> {
        if !d.isa().has_kernels() {
            let (places, n) = Reference::nonzero(&ReferenceDevice, for_reference(&x)?)?;
            return Ok((CpuBuffer::new(places), n));
        }
        let (places, n) = gather::nonzero(d, &host_view(&x)?)?;
        Ok((CpuBuffer::new(places), n))
    }
}

// Running a function again costs what its work costs: there is no queue to fill.
elinvar_ops::without_capture! { impl [] Cpu }
elinvar_ops::host_streams! { impl [] Cpu }
