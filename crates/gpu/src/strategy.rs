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
