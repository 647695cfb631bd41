//! What a Metal device has and lacks, as far as emitted text depends on it.

use crate::emit::statements::Helper;
use crate::ir::Features;
use crate::pass::{Lanes, Legalize};

/// What was found out about a device, by its limits and by probing its arithmetic.
///
/// What nothing is built from, and so must have been seen to hold before any float is computed:
/// sums, products and multiply-adds of normal f32 round once, to nearest even (the specification
/// allows rounding towards zero, too), zeros keep their signs, infinities and NaN are those of IEEE
/// 754, and conversions from integers round to nearest even.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MslTarget {
    /// Version of the language times 100: 300 for Metal 3.0, 310 for 3.1.
    pub language: u32,
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
    /// Do comparisons, and what changes only the sign?
    pub compares_subnormals: bool,
    /// Are conversions between f32 and f16 rounded to nearest even, with the subnormal numbers of
    /// f16?
    pub halves: bool,
    /// May a product and a sum become a multiply-add, whatever the text says? Then products are
    /// disguised.
    pub contracts: bool,
    /// The size of SIMD-groups, if lanes are neighbours in the order of the local index. Otherwise
    /// lanes exchange numbers through threadgroup memory.
    pub subgroup: Option<u32>,
    /// Has it `simdgroup_matrix` (GPU families Apple7 and later)?
    pub matrices: bool,
    /// Buffers of a kernel, at most; one more holds the parameters.
    pub buffers: u32,
    /// Bytes of threadgroup memory, at most (`maxThreadgroupMemoryLength`).
    pub shared: u32,
    /// Threads of a threadgroup, at most.
    pub invocations: u32,
}

impl MslTarget {
    /// What Apple's GPUs of family Apple7 (M1) and later are known for: subnormal f32 are flushed,
    /// whatever the compiler is told. A driver probes rather than to believe it.
    pub const APPLE: MslTarget = MslTarget {
        language: 310,
        division: false,
        square_root: false,
        adds_subnormals: false,
        fuses_subnormals: false,
        rounds_subnormals: false,
        compares_subnormals: false,
        halves: true,
        contracts: false,
        subgroup: Some(32),
        matrices: true,
        // Of 31.
        buffers: 30,
        shared: 32 << 10,
        invocations: 1024,
    };
    /// Arithmetic that lacks nothing.
    pub const EXACT: MslTarget = MslTarget {
        division: true,
        square_root: true,
        adds_subnormals: true,
        fuses_subnormals: true,
        rounds_subnormals: true,
        compares_subnormals: true,
        ..MslTarget::APPLE
    };
    /// Metal 3.0, and no more than its specification promises of arithmetic.
    pub const BARE: MslTarget = MslTarget {
        language: 300,
        halves: false,
        contracts: true,
        subgroup: None,
        matrices: false,
        ..MslTarget::APPLE
    };

    /// For work that was asked for as fast, which products of fragments are: the device's
    /// arithmetic as it is.
    pub(super) fn of(self, features: Features) -> MslTarget {
        if !features.fragments {
            return self;
        }
        let MslTarget { language, halves, subgroup, matrices, buffers, shared, invocations, .. } = self;
        MslTarget { language, halves, subgroup, matrices, buffers, shared, invocations, ..MslTarget::EXACT }
    }

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
            comparisons: !self.compares_subnormals,
            rounding: !self.rounds_subnormals,
            reductions: true,
            cp_async: true,
            half_rounding: !self.halves,
            storage: !self.halves,
            lanes: if lanes == self.subgroup { Lanes::Numbered } else { Lanes::Shared },
            ..Legalize::default()
        }
    }
    /// What is built in the body of a function.
    pub(super) fn legalize_helper(&self) -> Legalize {
        Legalize {
            division: true,
            shifts: true,
            comparisons: !self.compares_subnormals,
            quotient: true,
            root: true,
            sums: !self.adds_subnormals,
            fma: !self.fuses_subnormals,
            ..Legalize::default()
        }
    }
    /// Is an operation a call of a function?
    pub(super) fn builds(&self, helper: Helper) -> bool {
        match helper {
            Helper::Add | Helper::Sub | Helper::Mul => !self.adds_subnormals,
            Helper::Div => !self.division,
            Helper::Sqrt => !self.square_root,
            Helper::Fma => !self.fuses_subnormals,
            // There are 64-bit integers.
            Helper::MulHigh | Helper::MulHighSigned => false,
        }
    }
}
