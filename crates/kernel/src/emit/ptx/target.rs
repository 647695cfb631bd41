//! What PTX is compiled for: capabilities, and what a kernel needs.

use crate::ir::{Elem, Kernel, Type};

/// What is compiled for: a compute capability, and with it the oldest version of PTX that knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// As in `sm_75`.
    pub capability: u32,
    /// As in `.version 6.3`.
    pub version: (u32, u32),
    /// Is it for devices of this capability alone, with what no others have? As in `sm_90a`.
    pub arch_specific: bool,
}

/// The oldest devices that are supported (Turing). What is compiled for them runs on all later
/// ones.
pub const SM75: Target = Target { capability: 75, version: (6, 3), arch_specific: false };

/// The oldest devices whose tensor cores are used (Ampere): what kernels with fragments are
/// compiled for.
pub const SM80_MMA: Target = Target { capability: 80, version: (7, 0), arch_specific: false };

/// The oldest devices with one instruction for fragments of f64 (Hopper); those since Ampere take
/// four. An H100 multiplies 66e12 times and adds in a second by the former, 33e12 by the latter,
/// and 26e12 by fma.
pub const SM90_F64_MMA: Target = Target { capability: 90, version: (7, 8), arch_specific: false };

/// The oldest devices that copy to shared memory while a kernel goes on (Ampere).
pub const SM80_CP_ASYNC: Target = Target { capability: 80, version: (7, 0), arch_specific: false };

/// The oldest devices with a smaller and a larger f32 that know NaN and the order of zeros
/// (Ampere).
pub(super) const SM80_MINMAX_NAN: Target = Target { capability: 80, version: (7, 0), arch_specific: false };

/// The devices that fetch TMA tiles and multiply them in shared memory (Hopper). Later ones do it
/// in other ways.
pub const SM90A_WGMMA: Target = Target { capability: 90, version: (8, 0), arch_specific: true };

/// What a kernel is compiled for on a device of this capability: the oldest devices that have what
/// it uses, so that there is one text for as many as possible. Copies are used where the device has
/// them.
pub fn target(kernel: &Kernel, capability: u32) -> Target {
    let needs = kernel.features();
    if needs.tma {
        return SM90A_WGMMA;
    }
    if needs.fragments {
        let double = kernel.values.iter().any(|t| matches!(t, Type::Fragment(f) if f.elem == Elem::F64));
        return if double && capability >= SM90_F64_MMA.capability { SM90_F64_MMA } else { SM80_MMA };
    }
    if needs.cp_async && capability >= SM80_CP_ASYNC.capability { SM80_CP_ASYNC } else { SM75 }
}
