//! What a WebGPU device has and lacks, as far as emitted text depends on it.

use crate::emit::statements::Helper;
use crate::pass::{Lanes, Legalize};

/// Which compiler takes the text. They differ in how a module says that it uses subgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// naga, of wgpu: it is not told, and refuses the words in which Tint is.
    Naga,
    /// Tint, of Dawn and Chromium: `enable subgroups;`.
    Tint,
}

/// What becomes of a fused multiply-add.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fma {
    /// The device's `fma` rounds once.
    Fused,
    /// It rounds twice, as WGSL allows: built from integers.
    Built,
    /// It rounds twice, and the device has numbers of 64 bits, for which naga has words: built from
    /// f64.
    BuiltOfF64,
    /// The device's `fma`, whatever it rounds. Only for work that was asked for as fast
    /// (`Precision::Fast`).
    AsItIs,
}

/// What was found out about a device, by its limits and by probing its arithmetic.
///
/// What nothing is built from, and so must have been seen to hold before any float is computed:
/// sums and products of f32 are rounded to nearest even, and are as IEEE 754 has them for
/// infinities and NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The compiler.
    pub dialect: Dialect,
    /// The fused multiply-add.
    pub fma: Fma,
    /// Are quotients of f32 correctly rounded?
    pub division: bool,
    /// Are square roots?
    pub square_root: bool,
    /// Do sums, differences and products keep subnormal numbers?
    pub adds_subnormals: bool,
    /// Does the multiply-add?
    pub fuses_subnormals: bool,
    /// Does rounding to whole numbers tell them from 0?
    pub rounds_subnormals: bool,
    /// May a product and a sum become a multiply-add, or sums and products be reordered, as WGSL
    /// allows? Then each is disguised.
    pub contracts: bool,
    /// Is 0 + x what it should be where x is -0? Where a compiler takes it for x, or a choice
    /// between 0 and -1 for a negation, constants are disguised.
    pub keeps_zeros: bool,
    /// The size of subgroups, if it is always the same, and lanes are neighbours in the order of
    /// the local index. Otherwise lanes exchange numbers through shared memory.
    pub subgroup: Option<u32>,
    /// Storage buffers of a kernel, at most (`maxStorageBuffersPerShaderStage`).
    pub buffers: u32,
    /// Bytes of shared memory, at most (`maxComputeWorkgroupStorageSize`).
    pub shared: u32,
    /// Invocations of a workgroup, at most (`maxComputeInvocationsPerWorkgroup`).
    pub invocations: u32,
    /// Invocations along each axis, at most (`maxComputeWorkgroupSizeX` and so on).
    pub group: [u32; 3],
}

impl Target {
    /// No more than the specification promises, and its default limits.
    pub const WEBGPU: Target = Target {
        dialect: Dialect::Tint,
        fma: Fma::Built,
        division: false,
        square_root: false,
        adds_subnormals: false,
        fuses_subnormals: false,
        rounds_subnormals: false,
        contracts: true,
        keeps_zeros: false,
        subgroup: None,
        buffers: 8,
        shared: 16 << 10,
        invocations: 256,
        group: [256, 256, 64],
    };
    /// Arithmetic that lacks nothing; the limits are those of the specification.
    pub const EXACT: Target = Target {
        fma: Fma::Fused,
        division: true,
        square_root: true,
        adds_subnormals: true,
        fuses_subnormals: true,
        rounds_subnormals: true,
        contracts: false,
        keeps_zeros: true,
        ..Target::WEBGPU
    };

    /// What is built in kernels. Operations that take many instructions to build stay, and become
    /// calls of functions ([`Helper`]).
    pub(super) fn legalize(&self, lanes: Option<u32>) -> Legalize {
        Legalize {
            division: true,
            shifts: true,
            extremes: true,
            exp2: true,
            saturation: true,
            copy_sign: true,
            comparisons: true,
            rounding: !self.rounds_subnormals,
            reductions: true,
            cp_async: true,
            int64: true,
            int_to_float: true,
            half_rounding: true,
            storage: true,
            lanes: if lanes == self.subgroup { Lanes::Numbered } else { Lanes::Shared },
            ..Legalize::default()
        }
    }
    /// What is built in the body of a function.
    pub(super) fn legalize_helper(&self) -> Legalize {
        Legalize {
            division: true,
            shifts: true,
            comparisons: true,
            fused: matches!(self.fma, Fma::Built | Fma::BuiltOfF64),
            wide: self.fma == Fma::BuiltOfF64,
            quotient: true,
            root: true,
            sums: !self.adds_subnormals,
            fma: !self.fuses_subnormals,
            high_products: true,
            ..Legalize::default()
        }
    }
    /// Is an operation a call of a function?
    pub(super) fn builds(&self, helper: Helper) -> bool {
        match helper {
            Helper::Add | Helper::Sub | Helper::Mul => !self.adds_subnormals,
            Helper::Div => !self.division,
            Helper::Sqrt => !self.square_root,
            Helper::Fma => match self.fma {
                Fma::Fused => !self.fuses_subnormals,
                Fma::Built | Fma::BuiltOfF64 => true,
                Fma::AsItIs => false,
            },
            Helper::MulHigh | Helper::MulHighSigned => true,
        }
    }
}
