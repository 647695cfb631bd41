//! Strategy: which kernels suit a device for convolution and attention.

use elinvar_core::{DType, Precision};
use elinvar_driver::{Info, Kind};
use elinvar_gpu_kernels::{Machine, attention, conv};
use elinvar_kernel::ir::{Elem, MmaShape};
use elinvar_ops::backend::{Attention, Conv};

/// How a convolution of such numbers is done.
pub(crate) fn conv_path(machine: &Machine<'_>, c: &Conv, dtype: DType) -> conv::ConvPath {
    let limits = machine.limits;
    if c.precision == Precision::Fast
        && let Some(unit) = machine.mma_shape(dtype)
    {
        return conv::ConvPath::TensorCore(conv::TensorCores { unit, lanes: machine.subgroup[1], limits });
    }
    if machine.has_cheap_barriers { conv::ConvPath::Auto(limits) } else { conv::ConvPath::Direct }
}

/// The tensor core for attention of a type, if it may be fast. Its kernel takes numbers out of
/// fragments, of subgroups of 32, which is known of those devices that have asynchronous copies.
pub(crate) fn attention_mma_shape(i: &Info, a: &Attention, dtype: DType) -> Option<MmaShape> {
    let fits = a.precision == Precision::Fast && i.cp_async && (i.subgroup[0]..=i.subgroup[1]).contains(&32);
    let is = |u: &&MmaShape| u.elem == Elem::from(dtype) && u.shape == [16; 3];
    if fits { i.mma_shapes.iter().find(is).copied() } else { None }
}

/// How exact attention is done.
pub(crate) fn attention_path(i: &Info) -> attention::AttentionPath {
    match i.kind {
        // Its barriers cost more than they save.
        Kind::Software => attention::AttentionPath::Direct,
        Kind::Discrete | Kind::Integrated | Kind::Virtual | Kind::Other => {
            attention::AttentionPath::Smem(i.shared)
        }
    }
}
