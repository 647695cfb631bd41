//! The run-time backend: one enum for devices, one for buffers, one match per kind of work.
//!
//! A new backend is one line in `backends!` and its line in [`crate::devices`].

use elinvar_core::philox::Stream;
use elinvar_core::{DType, HostData, Layout, MemoryStats, Precision, Result, Scalar, Shape};
use elinvar_cpu::Cpu;
use elinvar_ops::backend::*;
use elinvar_ops::casting::Casting;
use elinvar_ops::fold::Folding;
use elinvar_ops::map::{IntMapObject, Map, MapObject};
use elinvar_ops::rows::{ColumnsObject, RowObject};
use elinvar_ops::update::Update;
use elinvar_reference::Reference;
use smallvec::SmallVec;
use std::fmt;

/// A backend that is chosen at run time, by the device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Any;

impl DeviceOf for Device {
    type Backend = Any;
}

/// A backend that is one of `Any`'s.
trait Member: Backend {
    fn device(d: &Device) -> Option<&Self::Device>;
    fn pick(b: &AnyBuffer) -> Option<&Self::Buffer>;
    fn pick_mut(b: &mut AnyBuffer) -> Option<&mut Self::Buffer>;
    fn wrap(b: Self::Buffer) -> AnyBuffer;
    fn pick_graph(g: &AnyGraph) -> Option<&Self::Graph>;
    fn wrap_graph(g: Self::Graph) -> AnyGraph;
}

macro_rules! backends {
    ($($(#[$when:meta])? $Variant:ident: $Backend:ty;)*) => {
        /// A device of one of this build's backends.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Device {
            $($(#[$when])?
            #[doc = concat!("A device of `", stringify!($Backend), "`.")]
            $Variant(<$Backend as Memory>::Device),)*
        }

        /// Memory of one of this build's backends.
        #[derive(Debug)]
        pub enum AnyBuffer {
            $($(#[$when])?
            #[doc = concat!("Memory of `", stringify!($Backend), "`.")]
            $Variant(<$Backend as Memory>::Buffer),)*
        }

        /// Recorded work of one of this build's backends.
        #[derive(Debug)]
        pub enum AnyGraph {
            $($(#[$when])?
            #[doc = concat!("Recorded work of `", stringify!($Backend), "`.")]
            $Variant(<$Backend as Capture>::Graph),)*
        }

        $($(#[$when])?
        impl Member for $Backend {
            fn device(d: &Device) -> Option<&Self::Device> {
                match d {
                    Device::$Variant(d) => Some(d),
                    _ => None,
                }
            }
            fn pick(b: &AnyBuffer) -> Option<&Self::Buffer> {
                match b {
                    AnyBuffer::$Variant(b) => Some(b),
                    _ => None,
                }
            }
            fn pick_mut(b: &mut AnyBuffer) -> Option<&mut Self::Buffer> {
                match b {
                    AnyBuffer::$Variant(b) => Some(b),
                    _ => None,
                }
            }
            fn wrap(b: Self::Buffer) -> AnyBuffer {
                AnyBuffer::$Variant(b)
            }
            fn pick_graph(g: &AnyGraph) -> Option<&Self::Graph> {
                match g {
                    AnyGraph::$Variant(g) => Some(g),
                    _ => None,
                }
            }
            fn wrap_graph(g: Self::Graph) -> AnyGraph {
                AnyGraph::$Variant(g)
            }
        })*

        impl fmt::Display for Device {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $($(#[$when])? Device::$Variant(d) => d.fmt(f),)*
                }
            }
        }

        /// Runs the body with `$B` the backend of the device `$d`.
        macro_rules! on {
            ($device:expr, $B:ident, $d:ident => $body:expr) => {
                match $device {
                    $($(#[$when])? Device::$Variant($d) => {
                        type $B = $Backend;
                        $body
                    })*
                }
            };
        }
    };
}

backends! {
    Cpu: Cpu;
    Reference: Reference;
    #[cfg(feature = "cuda")]
    Cuda: elinvar_gpu::Cuda;
    #[cfg(feature = "vulkan")]
    Vulkan: elinvar_gpu::Vulkan;
}

/// Memory of the backend that holds it. Every caller checks that operands share a device.
fn pick<B: Member>(buffer: &AnyBuffer) -> &B::Buffer {
    B::pick(buffer).expect("operands of one op live on one device")
}

/// A view of `Any` as a view of the backend that holds it.
fn to<B: Member>(v: View<'_, Any>) -> View<'_, B> {
    View { buffer: pick::<B>(v.buffer), layout: v.layout, dtype: v.dtype }
}

/// The operands of a formula; up to four need no allocation.
fn all<'a, B: Member>(x: &[View<'a, Any>]) -> SmallVec<[View<'a, B>; 4]> {
    x.iter().map(|&v| to::<B>(v)).collect()
}

/// Memory of `Any` as that of the backend that holds it.
fn to_mut<B: Member>(b: &mut AnyBuffer) -> &mut B::Buffer {
    B::pick_mut(b).expect("operands of one op live on one device")
}

// Functions that are generic over formulas are never inlined, so that the compiler shares one
// instance of them, and of all backend code behind them, in the first crate that needs it.
// Otherwise every crate of a program would compile its own copy.
impl Memory for Any {
    type Device = Device;
    type Buffer = AnyBuffer;
    const NAME: &'static str = "any";
    fn upload(d: &Device, data: HostData) -> Result<AnyBuffer> {
        on!(d, B, d => B::upload(d, data).map(B::wrap))
    }
    fn download(d: &Device, x: View<'_, Self>) -> Result<HostData> {
        on!(d, B, d => B::download(d, to::<B>(x)))
    }
    fn receive(d: &Device, from: &Device, x: View<'_, Self>) -> Result<Option<AnyBuffer>> {
        on!(d, B, d => match <B as Member>::device(from) {
            Some(from) => Ok(B::receive(d, from, to::<B>(x))?.map(B::wrap)),
            // Between backends, elements are copied through host memory.
            None => Ok(None),
        })
    }
    fn finish(d: &Device, buffer: &AnyBuffer) -> Result<()> {
        on!(d, B, d => B::finish(d, pick::<B>(buffer)))
    }
    fn synchronize(d: &Device) -> Result<()> {
        on!(d, B, d => B::synchronize(d))
    }
    fn memory_stats(d: &Device) -> Result<MemoryStats> {
        on!(d, B, d => B::memory_stats(d))
    }
    fn set_memory_limit(d: &Device, limit: Option<u64>) -> Result<()> {
        on!(d, B, d => B::set_memory_limit(d, limit))
    }
    fn release_memory(d: &Device) -> Result<()> {
        on!(d, B, d => B::release_memory(d))
    }
    fn prepack(d: &Device, w: View<'_, Self>) -> Result<bool> {
        on!(d, B, d => B::prepack(d, to::<B>(w)))
    }
    fn fill(d: &Device, value: Scalar, dtype: DType, len: usize) -> Result<AnyBuffer> {
        on!(d, B, d => B::fill(d, value, dtype, len).map(B::wrap))
    }
    fn copy(d: &Device, x: View<'_, Self>) -> Result<AnyBuffer> {
        on!(d, B, d => B::copy(d, to::<B>(x)).map(B::wrap))
    }
    #[inline(never)]
    fn cast<C: Casting>(d: &Device, x: View<'_, Self>, dtype: DType) -> Result<AnyBuffer> {
        on!(d, B, d => B::cast::<C>(d, to::<B>(x), dtype).map(B::wrap))
    }
    fn assemble(
        d: &Device,
        fill: Scalar,
        dtype: DType,
        shape: &Shape,
        parts: &[(View<'_, Self>, Layout)],
    ) -> Result<AnyBuffer> {
        on!(d, B, d => {
            let parts: Vec<_> = parts.iter().map(|(v, l)| (to::<B>(*v), l.clone())).collect();
            B::assemble(d, fill, dtype, shape, &parts).map(B::wrap)
        })
    }
}

impl Compute for Any {
    fn random(d: &Device, r: Random, s: Stream, dtype: DType, len: usize) -> Result<AnyBuffer> {
        on!(d, B, d => B::random(d, r, s, dtype, len).map(B::wrap))
    }
    #[inline(never)]
    fn map(d: &Device, f: &dyn MapObject, x: &[View<'_, Self>], dtype: DType) -> Result<AnyBuffer> {
        on!(d, B, d => match x {
            [x] => B::map(d, f, &[to::<B>(*x)], dtype),
            [x, y] => B::map(d, f, &[to::<B>(*x), to::<B>(*y)], dtype),
            _ => B::map(d, f, &all(x), dtype),
        }.map(B::wrap))
    }
    #[inline(never)]
    fn map_int(d: &Device, f: &dyn IntMapObject, x: &[View<'_, Self>], dtype: DType) -> Result<AnyBuffer> {
        on!(d, B, d => B::map_int(d, f, &all(x), dtype).map(B::wrap))
    }
    #[inline(never)]
    fn update<U: Update<M, R>, const M: usize, const R: usize>(
        d: &Device,
        u: &U,
        items: Vec<UpdateItem<'_, Self, M, R>>,
    ) -> Result<()> {
        on!(d, B, d => B::update(d, u, items.into_iter().map(|i| i.of(to_mut::<B>, to::<B>)).collect()))
    }
    #[inline(never)]
    fn fold<F: Folding>(d: &Device, x: View<'_, Self>, kept: usize, dtype: DType) -> Result<AnyBuffer> {
        on!(d, B, d => B::fold::<F>(d, to::<B>(x), kept, dtype).map(B::wrap))
    }
    fn arg_fold(d: &Device, f: ArgFold, x: View<'_, Self>, kept: usize) -> Result<AnyBuffer> {
        on!(d, B, d => B::arg_fold(d, f, to::<B>(x), kept).map(B::wrap))
    }
    fn scan(d: &Device, f: Scan, x: View<'_, Self>, dtype: DType) -> Result<Placed<AnyBuffer>> {
        on!(d, B, d => B::scan(d, f, to::<B>(x), dtype).map(|y| y.map(B::wrap)))
    }
    fn rows(
        d: &Device,
        f: &dyn RowObject,
        x: &[View<'_, Self>],
        kept: usize,
        dtype: DType,
    ) -> Result<Placed<AnyBuffer>> {
        on!(d, B, d => B::rows(d, f, &all(x), kept, dtype).map(|y| y.map(B::wrap)))
    }
    fn rows_and_columns(
        d: &Device,
        f: &dyn ColumnsObject,
        x: &[View<'_, Self>],
        kept: usize,
        dtype: DType,
        sums: usize,
    ) -> Result<Option<RowsAndColumns<AnyBuffer>>> {
        on!(d, B, d => {
            let both = B::rows_and_columns(d, f, &all(x), kept, dtype, sums)?;
            Ok(both.map(|(y, sums)| (y.map(B::wrap), sums.into_iter().map(B::wrap).collect())))
        })
    }
    #[inline(never)]
    fn lattice<F: Map<4>>(
        d: &Device,
        f: &F,
        x: [View<'_, Self>; 3],
        ends: &[usize],
    ) -> Result<Option<AnyBuffer>> {
        on!(d, B, d => Ok(B::lattice(d, f, x.map(to::<B>), ends)?.map(B::wrap)))
    }
    #[inline(never)]
    fn lattice_grad<F: Map<5>>(
        d: &Device,
        f: &F,
        x: [View<'_, Self>; 4],
        ends: &[usize],
    ) -> Result<Option<AnyBuffer>> {
        on!(d, B, d => Ok(B::lattice_grad(d, f, x.map(to::<B>), ends)?.map(B::wrap)))
    }
    fn sort(d: &Device, x: View<'_, Self>, descending: bool, first: usize) -> Result<(AnyBuffer, AnyBuffer)> {
        on!(d, B, d => B::sort(d, to::<B>(x), descending, first).map(|(v, i)| (B::wrap(v), B::wrap(i))))
    }
    fn precision(d: &Device) -> Precision {
        on!(d, B, d => B::precision(d))
    }
    #[inline(never)]
    fn contract<E: Epilogue<N>, const N: usize>(
        d: &Device,
        p: Precision,
        x: View<'_, Self>,
        w: View<'_, Self>,
        e: &E,
        extra: [View<'_, Self>; N],
    ) -> Result<AnyBuffer> {
        on!(d, B, d => B::contract(d, p, to::<B>(x), to::<B>(w), e, extra.map(to::<B>)).map(B::wrap))
    }
    #[inline(never)]
    fn conv<E: Epilogue<N>, const N: usize>(
        d: &Device,
        c: &Conv,
        x: View<'_, Self>,
        w: View<'_, Self>,
        out: &[usize],
        e: &E,
        extra: [View<'_, Self>; N],
    ) -> Result<AnyBuffer> {
        on!(d, B, d => B::conv(d, c, to::<B>(x), to::<B>(w), out, e, extra.map(to::<B>)).map(B::wrap))
    }
    fn conv_input_grad(
        d: &Device,
        c: &Conv,
        g: View<'_, Self>,
        w: View<'_, Self>,
        spatial: &[usize],
    ) -> Result<AnyBuffer> {
        on!(d, B, d => B::conv_input_grad(d, c, to::<B>(g), to::<B>(w), spatial).map(B::wrap))
    }
    fn conv_weight_grad(
        d: &Device,
        c: &Conv,
        x: View<'_, Self>,
        g: View<'_, Self>,
        taps: &[usize],
    ) -> Result<AnyBuffer> {
        on!(d, B, d => B::conv_weight_grad(d, c, to::<B>(x), to::<B>(g), taps).map(B::wrap))
    }
    fn pool(d: &Device, p: &Pool, x: View<'_, Self>) -> Result<(AnyBuffer, Option<AnyBuffer>)> {
        on!(d, B, d => B::pool(d, p, to::<B>(x)).map(|(v, i)| (B::wrap(v), i.map(B::wrap))))
    }
    fn avg_pool_grad(d: &Device, p: &Pool, g: View<'_, Self>, spatial: &[usize]) -> Result<AnyBuffer> {
        on!(d, B, d => B::avg_pool_grad(d, p, to::<B>(g), spatial).map(B::wrap))
    }
    fn attention(
        d: &Device,
        a: &Attention,
        q: View<'_, Self>,
        k: View<'_, Self>,
        v: View<'_, Self>,
        mask: Option<View<'_, Self>>,
    ) -> Result<(AnyBuffer, AnyBuffer)> {
        on!(d, B, d => {
            B::attention(d, a, to::<B>(q), to::<B>(k), to::<B>(v), mask.map(to::<B>))
                .map(|(o, lse)| (B::wrap(o), B::wrap(lse)))
        })
    }
    fn attention_grad(
        d: &Device,
        a: &Attention,
        q: View<'_, Self>,
        k: View<'_, Self>,
        v: View<'_, Self>,
        mask: Option<View<'_, Self>>,
        o: View<'_, Self>,
        lse: View<'_, Self>,
        g: View<'_, Self>,
    ) -> Result<(AnyBuffer, AnyBuffer, AnyBuffer)> {
        on!(d, B, d => {
            let [q, k, v, o, lse, g] = [q, k, v, o, lse, g].map(to::<B>);
            B::attention_grad(d, a, q, k, v, mask.map(to::<B>), o, lse, g)
                .map(|(q, k, v)| (B::wrap(q), B::wrap(k), B::wrap(v)))
        })
    }
    fn gather(d: &Device, x: View<'_, Self>, axis: usize, index: View<'_, Self>) -> Result<AnyBuffer> {
        on!(d, B, d => B::gather(d, to::<B>(x), axis, to::<B>(index)).map(B::wrap))
    }
    fn scatter(
        d: &Device,
        how: Scatter,
        base: View<'_, Self>,
        axis: usize,
        index: View<'_, Self>,
        src: View<'_, Self>,
    ) -> Result<AnyBuffer> {
        on!(d, B, d => {
            B::scatter(d, how, to::<B>(base), axis, to::<B>(index), to::<B>(src)).map(B::wrap)
        })
    }
    fn nonzero(d: &Device, x: View<'_, Self>) -> Result<(AnyBuffer, usize)> {
        on!(d, B, d => B::nonzero(d, to::<B>(x)).map(|(b, n)| (B::wrap(b), n)))
    }
}

impl Capture for Any {
    type Graph = AnyGraph;
    fn record(d: &Device, work: &mut Recorded<'_, Self>) -> Result<Option<AnyGraph>> {
        on!(d, B, d => {
            let mut work = |keep: &mut dyn FnMut(&<B as Memory>::Buffer) -> Result<()>| {
                work(&mut |b: &AnyBuffer| keep(pick::<B>(b)))
            };
            Ok(B::record(d, &mut work)?.map(<B as Member>::wrap_graph))
        })
    }
    fn input(d: &Device, x: View<'_, Self>, before: Option<&AnyBuffer>) -> Result<AnyBuffer> {
        on!(d, B, d => B::input(d, to::<B>(x), before.map(pick::<B>)).map(B::wrap))
    }
    fn replay(d: &Device, g: &AnyGraph, inputs: &[(View<'_, Self>, &AnyBuffer)]) -> Result<bool> {
        on!(d, B, d => {
            let g = <B as Member>::pick_graph(g).expect("work is done where it was recorded");
            let inputs: Vec<_> = inputs.iter().map(|(x, b)| (to::<B>(*x), pick::<B>(b))).collect();
            B::replay(d, g, &inputs)
        })
    }
    fn memory_id(d: &Device, buffer: &AnyBuffer) -> Result<usize> {
        on!(d, B, d => B::memory_id(d, pick::<B>(buffer)))
    }
}
