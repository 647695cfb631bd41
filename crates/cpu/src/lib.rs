//! The CPU backend: the bits of the reference, with vector instructions and threads.
//!
//! Memory is that of the reference (`HostData`), so what is not written for speed yet runs the reference's own loops on
//! the same memory, by name: each such line below says `Reference::`.
//!
//! * [`Isa`]: which instructions; found out at run time, one compiled copy of each kernel for each.
//! * [`CpuDevice`]: an instruction set and a number of threads. Neither changes a bit.

mod along;
mod attention;
mod conv;
mod convert;
mod copy;
mod device;
mod gemm;
mod index;
mod isa;
mod lane;
mod map;
mod operand;
mod parallel;
mod pool;
mod random;
mod simd;
mod simd_tile;
mod walk;

pub use device::CpuDevice;
pub use isa::Isa;

use elinvar_core::philox::Stream;
use elinvar_core::{DType, HostData, Layout, Result, Scalar, Shape};
use elinvar_ops::backend::*;
use elinvar_ops::map::{IntMap, Map};
use elinvar_ops::rows::Rows;
use elinvar_reference::{Reference, ReferenceDevice};

/// The CPU backend.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu;

/// A view, for the reference.
fn to(v: View<'_, Cpu>) -> View<'_, Reference> {
    View { buffer: v.buffer, layout: v.layout, dtype: v.dtype }
}

impl Backend for Cpu {
    type Device = CpuDevice;
    type Buffer = HostData;
    const NAME: &'static str = "cpu";

    fn upload(_: &CpuDevice, data: HostData) -> Result<HostData> {
        Reference::upload(&ReferenceDevice, data)
    }
    fn download(d: &CpuDevice, x: View<'_, Self>) -> Result<HostData> {
        copy::own(d, &x)
    }
    fn synchronize(_: &CpuDevice) -> Result<()> {
        Reference::synchronize(&ReferenceDevice)
    }
    fn fill(d: &CpuDevice, value: Scalar, dtype: DType, len: usize) -> Result<HostData> {
        copy::fill(d, value, dtype, len)
    }
    fn random(d: &CpuDevice, r: Random, s: Stream, dtype: DType, len: usize) -> Result<HostData> {
        random::random(d, r, s, dtype, len)
    }
    fn copy(d: &CpuDevice, x: View<'_, Self>, dtype: DType) -> Result<HostData> {
        copy::copy(d, &x, dtype)
    }
    fn assemble(
        d: &CpuDevice,
        fill: Scalar,
        dtype: DType,
        shape: &Shape,
        parts: &[(View<'_, Self>, Layout)],
    ) -> Result<HostData> {
        copy::assemble(d, fill, dtype, shape, parts)
    }
    fn map<M: Map<N>, const N: usize>(
        d: &CpuDevice,
        m: &M,
        x: [View<'_, Self>; N],
        dtype: DType,
    ) -> Result<HostData> {
        if !d.isa().has_formulas() {
            return Reference::map(&ReferenceDevice, m, x.map(to), dtype);
        }
        map::map(d, m, &x, dtype)
    }
    fn map_int<M: IntMap<N>, const N: usize>(
        d: &CpuDevice,
        m: &M,
        x: [View<'_, Self>; N],
        dtype: DType,
    ) -> Result<HostData> {
        if !d.isa().has_formulas() {
            return Reference::map_int(&ReferenceDevice, m, x.map(to), dtype);
        }
        map::map_int(d, m, &x, dtype)
    }
    fn fold(d: &CpuDevice, f: Fold, x: View<'_, Self>, kept: usize, dtype: DType) -> Result<HostData> {
        along::fold(d, f, &x, kept, dtype)
    }
    fn arg_fold(d: &CpuDevice, f: ArgFold, x: View<'_, Self>, kept: usize) -> Result<HostData> {
        along::arg_fold(d, f, &x, kept)
    }
    fn scan(d: &CpuDevice, f: Scan, x: View<'_, Self>, dtype: DType) -> Result<HostData> {
        along::scan(d, f, &x, dtype)
    }
    fn rows<R: Rows<N>, const N: usize>(
        d: &CpuDevice,
        r: &R,
        x: [View<'_, Self>; N],
        kept: usize,
        dtype: DType,
    ) -> Result<HostData> {
        if !d.isa().has_formulas() {
            return Reference::rows(&ReferenceDevice, r, x.map(to), kept, dtype);
        }
        along::rows(d, r, &x, kept, dtype)
    }
    fn sort(d: &CpuDevice, x: View<'_, Self>, descending: bool) -> Result<(HostData, HostData)> {
        along::sort(d, &x, descending)
    }
    fn contract<E: Epilogue<N>, const N: usize>(
        d: &CpuDevice,
        x: View<'_, Self>,
        w: View<'_, Self>,
        e: &E,
        extra: [View<'_, Self>; N],
    ) -> Result<HostData> {
        match x.dtype {
            DType::F32 | DType::F16 | DType::BF16 => {
                gemm::contract::contract::<f32, E, N>(d, &x, &w, e, &extra)
            }
            DType::F64 => gemm::contract::contract::<f64, E, N>(d, &x, &w, e, &extra),
            DType::I64 | DType::I32 | DType::U8 | DType::Bool => {
                Reference::contract(&ReferenceDevice, to(x), to(w), e, extra.map(to))
            }
        }
    }
    fn conv<E: Epilogue<N>, const N: usize>(
        d: &CpuDevice,
        c: &Conv,
        x: View<'_, Self>,
        w: View<'_, Self>,
        out: &[usize],
        e: &E,
        extra: [View<'_, Self>; N],
    ) -> Result<HostData> {
        match x.dtype {
            DType::F64 => conv::conv::<f64, E, N>(d, c, &x, &w, out, e, &extra),
            // What is not of floats is refused there.
            DType::F32 | DType::F16 | DType::BF16 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => {
                conv::conv::<f32, E, N>(d, c, &x, &w, out, e, &extra)
            }
        }
    }
    fn conv_input_grad(
        d: &CpuDevice,
        c: &Conv,
        g: View<'_, Self>,
        w: View<'_, Self>,
        spatial: &[usize],
    ) -> Result<HostData> {
        match g.dtype {
            DType::F64 => conv::input_grad::<f64>(d, c, &g, &w, spatial),
            // What is not of floats is refused there.
            DType::F32 | DType::F16 | DType::BF16 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => {
                conv::input_grad::<f32>(d, c, &g, &w, spatial)
            }
        }
    }
    fn conv_weight_grad(
        d: &CpuDevice,
        c: &Conv,
        x: View<'_, Self>,
        g: View<'_, Self>,
        taps: &[usize],
    ) -> Result<HostData> {
        match x.dtype {
            DType::F64 => conv::weight_grad::<f64>(d, c, &x, &g, taps),
            // What is not of floats is refused there.
            DType::F32 | DType::F16 | DType::BF16 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => {
                conv::weight_grad::<f32>(d, c, &x, &g, taps)
            }
        }
    }
    fn pool(d: &CpuDevice, p: &Pool, x: View<'_, Self>) -> Result<(HostData, Option<HostData>)> {
        pool::pool(d, p, &x)
    }
    fn avg_pool_grad(d: &CpuDevice, p: &Pool, g: View<'_, Self>, spatial: &[usize]) -> Result<HostData> {
        pool::avg_pool_grad(d, p, &g, spatial)
    }
    fn attention(
        d: &CpuDevice,
        a: &Attention,
        q: View<'_, Self>,
        k: View<'_, Self>,
        v: View<'_, Self>,
        mask: Option<View<'_, Self>>,
    ) -> Result<(HostData, HostData)> {
        attention::attention(d, a, q, k, v, mask)
    }
    fn attention_grad(
        d: &CpuDevice,
        a: &Attention,
        q: View<'_, Self>,
        k: View<'_, Self>,
        v: View<'_, Self>,
        mask: Option<View<'_, Self>>,
        o: View<'_, Self>,
        lse: View<'_, Self>,
        g: View<'_, Self>,
    ) -> Result<(HostData, HostData, HostData)> {
        attention::attention_grad(d, a, q, k, v, mask, attention::Results { o, lse, g })
    }
    fn gather(d: &CpuDevice, x: View<'_, Self>, axis: usize, index: View<'_, Self>) -> Result<HostData> {
        if let Some(y) = index::gather(d, &x, axis, &index)? {
            return Ok(y);
        }
        // An index is out of range: the reference says which.
        Reference::gather(&ReferenceDevice, to(x), axis, to(index))
    }
    fn scatter(
        d: &CpuDevice,
        how: Scatter,
        base: View<'_, Self>,
        axis: usize,
        index: View<'_, Self>,
        src: View<'_, Self>,
    ) -> Result<HostData> {
        if let Some(y) = index::scatter(d, how, &base, axis, &index, &src)? {
            return Ok(y);
        }
        // An index is out of range: the reference says which.
        Reference::scatter(&ReferenceDevice, how, to(base), axis, to(index), to(src))
    }
    fn nonzero(d: &CpuDevice, x: View<'_, Self>) -> Result<(HostData, usize)> {
        index::nonzero(d, &x)
    }
}
