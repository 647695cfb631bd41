//! Tensors, exact gradients and neural networks that give **the same bits on every device**.
//!
//! ```
//! use elinvar::prelude::*;
//!
//! let d = Device::default();
//! let mut rng = Generator::new(0);
//! let (x, w): (Tensor, Tensor) = (rng.randn([32, 8], &d), rng.randn([8, 1], &d));
//! let w = w.requires_grad();
//! let loss = (x.matmul(&w).tanh() - 0.5).square().mean();
//! let g = loss.backward();
//! println!("{loss:.4} {}", g.get(&w).unwrap());
//! ```
//!
//! The guide is `docs/guide` of the repository; every example of it is run as a test of this crate.
//!
//! | subject | here | guide |
//! |---|---|---|
//! | tensors | [`Tensor`], [`Generator`], [`options`], [`try_run`] | `tensors.md` |
//! | gradients | [`Tensor::backward`], [`Gradients`], [`no_grad`], [`checkpoint`], [`check_gradient`] | `autograd.md` |
//! | networks | [`nn::Module`], [`nn::Layer`], [`nn::layers`] | `modules.md` |
//! | training | [`nn::optim`], [`nn::loader`], [`nn::train::Trainer`] | `training.md` |
//! | mixed precision | [`autocast`], [`nn::optim::GradScaler`] | `training.md` |
//! | models, text generation | [`nn::models`], [`nn::generate`] | `models.md` |
//! | files | [`io`] | `io.md` |
//! | raw memory and kernels, by address | `compute` (a feature) | `raw.md` |
//! | several workers, on one machine or many | [`distributed::Group`] | `distributed.md` |
//! | profiles | [`profile()`], [`Profile`], [`profile::TraceFile`] | `profiling.md` |
//! | devices, memory, recorded work, streams | [`Device`], [`DeviceBuilder`], [`devices`], [`machine`], [`Graph`], [`Stream`], [`Pinned`], [`Precision`] | `devices.md` |
//!
//! `Tensor` alone is `Tensor<Any>`: the backend is chosen at run time, by the device. A backend of
//! your own is an implementation of [`Backend`]; `examples/own_backend.rs` is a small one.

/// Raw memory and kernels behind an object-safe trait. All of the crate `elinvar-compute`.
#[cfg(feature = "compute")]
pub use elinvar_compute as compute;
pub use elinvar_core as core;
pub use elinvar_core::storage::types::*;
pub use elinvar_core::{
    Autotune, DType, DeviceKind, Element, Error, ErrorKind, HostData, HostTensor, HostVec, MemoryStats,
    Precision, Result, Scalar, Setting, Settings, Shape, Validation, bf16, f16,
};
pub use elinvar_cpu as cpu;
pub use elinvar_cpu::{Cpu, CpuDevice};
pub use elinvar_devices as device;
pub use elinvar_devices::{
    Any, Device, DeviceBuilder, DeviceInfo, Exactness, Machine, MatrixUnit, Properties, devices, machine,
};
/// Workers that compute one result: groups, sums whose bits do not depend on their number. All of
/// the crate `elinvar-distributed`.
pub use elinvar_distributed as distributed;
pub use elinvar_io as io;
pub use elinvar_ops as ops;
pub use elinvar_ops::{Array, Backend, DeviceOf, Door, Value};
pub use elinvar_reference::{Reference, ReferenceDevice};
pub use elinvar_tensor::{
    Axes, Backward, Event, Generator, Gradients, Graph, HookHandle, Index, Integer, IntoPadding, MaybeAxes,
    MaybeAxis, MaybeNumber, Operand, Pinned, Seed, Sizes, Stream, TensorData, Told, Transfer, autocast,
    autocast_dtype, autocast_off, backward, backward_each, check_gradient, checkpoint, enable_grad,
    is_grad_enabled, no_grad, numerical_gradient, step, try_autocast, try_run,
};

pub mod profile;
pub use profile::{Profile, profile};

/// The types of arguments that are neither tensors nor numbers.
pub mod options {
    pub use elinvar_ops::catalogue::conv::Padding;
    pub use elinvar_ops::catalogue::div::Rounding;
    pub use elinvar_ops::catalogue::fourier::Norm;
    pub use elinvar_ops::catalogue::fourier::windows::Window;
    pub use elinvar_ops::catalogue::gelu::Approximate;
    pub use elinvar_ops::catalogue::grid_sample::{Padding as GridPadding, Sampling};
    pub use elinvar_ops::catalogue::interpolate::{Interpolation, Target};
    pub use elinvar_ops::catalogue::matrix_norm::MatrixOrd;
    pub use elinvar_ops::catalogue::multi_head_attention::{HeadWeights, MhaParts, MhaWeights};
    pub use elinvar_ops::catalogue::pad::Mode as PadMode;
    pub use elinvar_ops::catalogue::qr::QrMode;
    pub use elinvar_ops::catalogue::recurrent::{RnnOptions, RnnWeights};
    pub use elinvar_ops::catalogue::reduction::Reduction;
    pub use elinvar_ops::catalogue::stft::Frames;
    pub use elinvar_ops::catalogue::unfold::Patches;
}

/// Networks: modules and layers, losses, optimisers, data, a training loop. All of the crate
/// `elinvar-nn`.
pub mod nn {
    // The trait comes with everything else; the derive macro must name this crate, because its
    // users may not depend on `elinvar-nn`.
    pub use elinvar_derive::FaceModule as Module;
    pub use elinvar_nn::*;
}

/// A tensor; its backend is chosen at run time by the device, unless it is named.
pub type Tensor<B = Any> = elinvar_tensor::Tensor<B>;

/// The usual imports of a program: `use elinvar::prelude::*;`.
pub mod prelude {
    pub use crate::{
        Any, Backend, Backward, Cpu, CpuDevice, DType, Device, Error, ErrorKind, Generator, Gradients, Index,
        Precision, Reference, ReferenceDevice, Scalar, Tensor, autocast, backward, check_gradient,
        checkpoint, devices, no_grad, step, try_run,
    };
    // The trait and the derive macro.
    #[cfg(feature = "tokenizers")]
    pub use crate::nn::data::{Tokenize, Tokenizer};
    pub use crate::nn::{Layer, Module};
}

/// The README and the guide, so that their examples are tests.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../../../README.md")]
    mod readme {}
    #[doc = include_str!("../../../docs/guide/tensors.md")]
    mod tensors {}
    #[doc = include_str!("../../../docs/guide/autograd.md")]
    mod autograd {}
    #[doc = include_str!("../../../docs/guide/modules.md")]
    mod modules {}
    #[doc = include_str!("../../../docs/guide/training.md")]
    mod training {}
    #[doc = include_str!("../../../docs/guide/models.md")]
    mod models {}
    #[doc = include_str!("../../../docs/guide/io.md")]
    mod io {}
    #[doc = include_str!("../../../docs/guide/devices.md")]
    mod devices {}
    #[doc = include_str!("../../../docs/guide/distributed.md")]
    mod distributed {}
    #[doc = include_str!("../../../docs/guide/profiling.md")]
    mod profiling {}
    #[cfg(feature = "compute")]
    #[doc = include_str!("../../../docs/guide/raw.md")]
    mod raw {}
}
