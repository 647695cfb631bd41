//! What a Vulkan device has and lacks, as far as emitted code depends on it.

use crate::ir::{Binary, Kernel, Op, Scalar};
use crate::pass::{Lanes, Legalize};

/// What was found out about a device, by its properties and by probing its arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Is f32's (and f64's) fma fused?
    pub fused: bool,
    /// Has it f64?
    pub wide: bool,
    /// Are divisions of f32 correctly rounded, and of f64?
    pub division: [bool; 2],
    /// Are square roots of f32 correctly rounded, and of f64?
    pub square_root: [bool; 2],
    /// Do comparisons of f32, and of f64, and what changes only the sign, tell subnormal numbers
    /// from 0? NVIDIA's driver flushes there, though it keeps them in arithmetic if it is asked to.
    pub compares_subnormals: [bool; 2],
    /// Do sums, differences and products of f32, and of f64, keep subnormal numbers?
    pub adds_subnormals: [bool; 2],
    /// Does the fma of f32, and of f64?
    pub fuses_subnormals: [bool; 2],
    /// Is rounding of f32, and of f64, to whole numbers right, also of them, and the sign of zeros?
    pub rounds_subnormals: [bool; 2],
    /// Do conversions between f32 and f64 keep those of f32?
    pub converts_subnormals: bool,
    /// Is 0 + x what it should be where x is -0? Mesa 22.3's compiler for processors takes it for
    /// x, whatever it was told, and 0 * x for 0. On such a device, a kernel has one more push
    /// constant, an f32 at the next multiple of 4 after its parameters, that must be +0: a zero
    /// that no compiler knows.
    pub keeps_zeros: bool,
    /// Does it offer `SignedZeroInfNanPreserve` for 32 bits, and for 64?
    pub keeps_nan: [bool; 2],
    /// Does it offer `RoundingModeRTE` for 16, 32 and 64 bits?
    pub rounds_to_even: [bool; 3],
    /// Does it offer `DenormPreserve` for 32 bits, and for 64?
    pub keeps_subnormals: [bool; 2],
}

impl Device {
    /// One that lacks nothing.
    pub const FULL: Device = Device {
        fused: true,
        wide: true,
        division: [true; 2],
        square_root: [true; 2],
        compares_subnormals: [true; 2],
        adds_subnormals: [true; 2],
        fuses_subnormals: [true; 2],
        rounds_subnormals: [true; 2],
        converts_subnormals: true,
        keeps_zeros: true,
        keeps_nan: [true; 2],
        rounds_to_even: [true; 3],
        keeps_subnormals: [true; 2],
    };

    /// What is built for it.
    pub fn legalize(&self) -> Legalize {
        Legalize {
            division: true,
            shifts: true,
            extremes: true,
            wide_extremes: true,
            exp2: true,
            saturation: true,
            copy_sign: true,
            fused: !self.fused,
            wide: self.wide,
            quotient: !self.division[0],
            wide_quotient: !self.division[1],
            root: !self.square_root[0],
            wide_root: !self.square_root[1],
            comparisons: !self.compares_subnormals[0],
            wide_comparisons: !self.compares_subnormals[1],
            sums: !self.adds_subnormals[0],
            fma: !self.fuses_subnormals[0],
            wide_fma: !self.fuses_subnormals[1],
            rounding: !self.rounds_subnormals[0],
            wide_rounding: !self.rounds_subnormals[1],
            conversions: !self.converts_subnormals,
            reductions: true,
            cp_async: true,
            int64: false,
            high_products: false,
            int_to_float: false,
            half_rounding: false,
            storage: false,
            lanes: Lanes::Native,
        }
    }
}

/// What of a kernel's arithmetic flushes subnormal numbers on a device that has nothing to build it
/// from.
pub(super) fn flushed(k: &Kernel, device: &Device) -> Option<&'static str> {
    let mut found = None;
    k.body.each_inst(&mut |inst| {
        let (Op::Binary(Binary::Add | Binary::Sub | Binary::Mul, a, _) | Op::Fma(a, ..)) = inst.op else {
            return;
        };
        if k.values[a.0 as usize].scalar() == Some(Scalar::F64) && !device.adds_subnormals[1] {
            found = Some("the device takes subnormal numbers for 0 in sums of f64");
        }
    });
    found
}
