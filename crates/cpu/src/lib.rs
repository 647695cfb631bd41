//! The CPU backend: the bits of the reference, with vector instructions and threads.
//!
//! Memory is that of the reference (`HostData`), so what is not written for speed yet runs the reference's own loops on
//! the same memory, by name: each such line below says `Reference::`.
//!
//! * [`Isa`]: which instructions; found out at run time, one compiled copy of each kernel for each.
//! * [`CpuDevice`]: an instruction set and a number of threads. Neither changes a bit.

mod conv;
mod device;
mod gemm;
mod isa;
mod parallel;

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
    fn download(_: &CpuDevice, x: View<'_, Self>) -> Result<HostData> {
        Reference::download(&ReferenceDevice, to(x))
    }
    fn synchronize(_: &CpuDevice) -> Result<()> {
        Reference::synchronize(&ReferenceDevice)
    }
    fn fill(_: &CpuDevice, value: Scalar, dtype: DType, len: usize) -> Result<HostData> {
        Reference::fill(&ReferenceDevice, value, dtype, len)
    }
    fn random(_: &CpuDevice, r: Random, s: Stream, dtype: DType, len: usize) -> Result<HostData> {
        Reference::random(&ReferenceDevice, r, s, dtype, len)
    }
    fn copy(_: &CpuDevice, x: View<'_, Self>, dtype: DType) -> Result<HostData> {
        Reference::copy(&ReferenceDevice, to(x), dtype)
    }
    fn assemble(
        _: &CpuDevice,
        fill: Scalar,
        dtype: DType,
        shape: &Shape,
        parts: &[(View<'_, Self>, Layout)],
    ) -> Result<HostData> {
        Reference::assemble(
            &ReferenceDevice,
            fill,
            dtype,
            shape,
            &parts.iter().map(|(v, l)| (to(v.clone()), l.clone())).collect::<Vec<_>>(),
        )
    }
    fn map<M: Map<N>, const N: usize>(
        _: &CpuDevice,
        m: &M,
        x: [View<'_, Self>; N],
        dtype: DType,
    ) -> Result<HostData> {
        Reference::map(&ReferenceDevice, m, x.map(to), dtype)
    }
    fn map_int<M: IntMap<N>, const N: usize>(
        _: &CpuDevice,
        m: &M,
        x: [View<'_, Self>; N],
        dtype: DType,
    ) -> Result<HostData> {
        Reference::map_int(&ReferenceDevice, m, x.map(to), dtype)
    }
    fn fold(_: &CpuDevice, f: Fold, x: View<'_, Self>, kept: usize, dtype: DType) -> Result<HostData> {
        Reference::fold(&ReferenceDevice, f, to(x), kept, dtype)
    }
    fn arg_fold(_: &CpuDevice, f: ArgFold, x: View<'_, Self>, kept: usize) -> Result<HostData> {
        Reference::arg_fold(&ReferenceDevice, f, to(x), kept)
    }
    fn scan(_: &CpuDevice, f: Scan, x: View<'_, Self>, dtype: DType) -> Result<HostData> {
        Reference::scan(&ReferenceDevice, f, to(x), dtype)
    }
    fn rows<R: Rows<N>, const N: usize>(
        _: &CpuDevice,
        r: &R,
        x: [View<'_, Self>; N],
        kept: usize,
        dtype: DType,
    ) -> Result<HostData> {
        Reference::rows(&ReferenceDevice, r, x.map(to), kept, dtype)
    }
    fn sort(_: &CpuDevice, x: View<'_, Self>, descending: bool) -> Result<(HostData, HostData)> {
        Reference::sort(&ReferenceDevice, to(x), descending)
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
    fn pool(_: &CpuDevice, p: &Pool, x: View<'_, Self>) -> Result<(HostData, Option<HostData>)> {
        Reference::pool(&ReferenceDevice, p, to(x))
    }
    fn avg_pool_grad(_: &CpuDevice, p: &Pool, g: View<'_, Self>, spatial: &[usize]) -> Result<HostData> {
        Reference::avg_pool_grad(&ReferenceDevice, p, to(g), spatial)
    }
    fn attention(
        _: &CpuDevice,
        a: &Attention,
        q: View<'_, Self>,
        k: View<'_, Self>,
        v: View<'_, Self>,
        mask: Option<View<'_, Self>>,
    ) -> Result<(HostData, HostData)> {
        Reference::attention(&ReferenceDevice, a, to(q), to(k), to(v), mask.map(to))
    }
    fn attention_grad(
        _: &CpuDevice,
        a: &Attention,
        q: View<'_, Self>,
        k: View<'_, Self>,
        v: View<'_, Self>,
        mask: Option<View<'_, Self>>,
        o: View<'_, Self>,
        lse: View<'_, Self>,
        g: View<'_, Self>,
    ) -> Result<(HostData, HostData, HostData)> {
        Reference::attention_grad(
            &ReferenceDevice,
            a,
            to(q),
            to(k),
            to(v),
            mask.map(to),
            to(o),
            to(lse),
            to(g),
        )
    }
    fn gather(_: &CpuDevice, x: View<'_, Self>, axis: usize, index: View<'_, Self>) -> Result<HostData> {
        Reference::gather(&ReferenceDevice, to(x), axis, to(index))
    }
    fn scatter(
        _: &CpuDevice,
        how: Scatter,
        base: View<'_, Self>,
        axis: usize,
        index: View<'_, Self>,
        src: View<'_, Self>,
    ) -> Result<HostData> {
        Reference::scatter(&ReferenceDevice, how, to(base), axis, to(index), to(src))
    }
    fn nonzero(_: &CpuDevice, x: View<'_, Self>) -> Result<(HostData, usize)> {
        Reference::nonzero(&ReferenceDevice, to(x))
    }
}
