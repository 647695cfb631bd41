//! The run-time backend: one enum for devices, one for buffers, and a match on the device that
//! hands every call on.
//!
//! A new backend is one line in `backends!` and its line in [`crate::devices`].

use elinvar_core::{DType, NativeWork, Result};
use elinvar_cpu::Cpu;
use elinvar_ops::backend::{
    Backend, Capture, Delegate, DeviceOf, Kind, Memory, PinnedObject, Recorded, StreamObject, Streams,
    TransferObject, View, delegate,
};
use elinvar_reference::Reference;
use std::fmt;
use std::sync::Arc;

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

        /// Hands a call on to the backend of the device.
        macro_rules! by_device {
            ($d:ident $call:tt) => {
                match $d {
                    $($(#[$when])? Device::$Variant(inner) => elinvar_ops::hand_over!($Backend, inner, $d $call),)*
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
    #[cfg(feature = "rocm")]
    Rocm: elinvar_gpu::Rocm;
    #[cfg(feature = "vulkan")]
    Vulkan: elinvar_gpu::Vulkan;
    #[cfg(feature = "webgpu")]
    WebGpu: elinvar_gpu::WebGpu;
    #[cfg(all(feature = "metal", target_vendor = "apple"))]
    Metal: elinvar_gpu::Metal;
}

/// Memory of the backend that holds it. Every caller checks that operands share a device.
fn pick<B: Member>(buffer: &AnyBuffer) -> &B::Buffer {
    B::pick(buffer).expect("operands of one op live on one device")
}

/// A view of `Any` as a view of the backend that holds it.
fn to<B: Member>(x: View<'_, Any>) -> View<'_, B> {
    delegate::view(&x)
}

impl<B: Member> Delegate<B> for Any {
    #[inline]
    fn inner(buffer: &AnyBuffer) -> &B::Buffer {
        pick::<B>(buffer)
    }
    #[inline]
    fn inner_mut(buffer: &mut AnyBuffer) -> &mut B::Buffer {
        B::pick_mut(buffer).expect("operands of one op live on one device")
    }
    #[inline]
    fn results<const N: usize>(
        _: &Device,
        _: Kind,
        y: [B::Buffer; N],
        _: impl FnOnce() -> [(DType, usize); N],
    ) -> Result<[AnyBuffer; N]> {
        Ok(y.map(B::wrap))
    }
}

elinvar_ops::delegate_backend! {
    impl [] Memory for Any, by by_device, except [receive] {
        type Device = Device;
        type Buffer = AnyBuffer;
        const NAME: &'static str = "any";
        fn receive(d: &Device, from: &Device, x: View<'_, Self>) -> Result<Option<AnyBuffer>> {
            on!(d, B, d => match <B as Member>::device(from) {
                Some(from) => Ok(B::receive(d, from, to::<B>(x))?.map(B::wrap)),
                // Between backends, elements are copied through host memory.
                None => Ok(None),
            })
        }
    }
    impl [] Compute for Any, by by_device, except [] {}
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
    fn make_unique(d: &Device, buffer: &mut AnyBuffer) -> Result<()> {
        on!(d, B, d => {
            let inner = <B as Member>::pick_mut(buffer);
            B::make_unique(d, inner.expect("a tensor's memory is of its device"))
        })
    }
}

impl Streams for Any {
    fn stream(d: &Device) -> Result<Arc<dyn StreamObject>> {
        on!(d, B, d => B::stream(d))
    }
    fn current_stream(d: &Device) -> Result<Arc<dyn StreamObject>> {
        on!(d, B, d => B::current_stream(d))
    }
    fn pin(d: &Device, bytes: usize) -> Result<Box<dyn PinnedObject>> {
        on!(d, B, d => B::pin(d, bytes))
    }
    fn upload_pinned(
        d: &Device,
        from: Box<dyn PinnedObject>,
        dtype: DType,
        len: usize,
    ) -> Result<(AnyBuffer, Box<dyn TransferObject>)> {
        on!(d, B, d => {
            let (buffer, transfer) = delegate::upload_pinned::<B>(d, from, dtype, len)?;
            Ok((<B as Member>::wrap(buffer), transfer))
        })
    }
    fn download_pinned(
        d: &Device,
        x: View<'_, Self>,
        pinned: Box<dyn PinnedObject>,
    ) -> Result<Box<dyn TransferObject>> {
        on!(d, B, d => delegate::download_pinned::<B>(d, to::<B>(x), pinned))
    }
    fn lend(
        d: &Device,
        reads: &[View<'_, Self>],
        writes: &[(DType, usize)],
        work: NativeWork<'_>,
    ) -> Result<Option<Vec<AnyBuffer>>> {
        on!(d, B, d => {
            let reads: Vec<_> = reads.iter().map(|x| to::<B>(*x)).collect();
            let y = B::lend(d, &reads, writes, work)?;
            Ok(y.map(|y| y.into_iter().map(<B as Member>::wrap).collect()))
        })
    }
}
