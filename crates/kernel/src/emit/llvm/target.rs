//! What LLVM IR is compiled for: AMD's architectures and their properties.
//!
//! Sources: "User Guide for AMDGPU Backend" of LLVM (waves, LDS, address spaces), the ISA documents
//! of CDNA 2 and 3 and of RDNA 2, 3 and 4 (matrix instructions).

use crate::ir::{Elem, Kernel, MmaShape};

/// Bytes of LDS that a workgroup may have, on all of these architectures.
pub const LDS_BYTES: u32 = 64 << 10;

/// Invocations of a workgroup, at most, on all of them.
pub const GROUP_LIMIT: u32 = 1024;

/// An architecture, by the name that LLVM gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Arch {
    /// Vega 20: MI50, MI60.
    Gfx906,
    /// CDNA 2: MI210, MI250.
    Gfx90a,
    /// CDNA 3: MI300, MI325.
    Gfx942,
    /// RDNA 2: RX 6800, 6900.
    Gfx1030,
    /// RDNA 3: RX 7900.
    Gfx1100,
    /// RDNA 4: RX 9070.
    Gfx1201,
}

/// What an architecture multiplies fragments with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatrixUnits {
    /// Nothing.
    None,
    /// `v_mfma_*` by waves of 64, of f16, bf16 and f32.
    Mfma,
    /// `v_wmma_*` of RDNA 3 by waves of 32, of f16 and bf16: both halves of a wave hold all
    /// factors.
    Wmma,
    /// Those of RDNA 4: each half of a wave holds half of the terms.
    WmmaHalves,
}

impl Arch {
    /// All of them.
    pub const ALL: [Arch; 6] =
        [Arch::Gfx906, Arch::Gfx90a, Arch::Gfx942, Arch::Gfx1030, Arch::Gfx1100, Arch::Gfx1201];

    /// The name, as `-mcpu` has it.
    pub const fn name(self) -> &'static str {
        match self {
            Arch::Gfx906 => "gfx906",
            Arch::Gfx90a => "gfx90a",
            Arch::Gfx942 => "gfx942",
            Arch::Gfx1030 => "gfx1030",
            Arch::Gfx1100 => "gfx1100",
            Arch::Gfx1201 => "gfx1201",
        }
    }
    /// The architecture of a name, which may have features behind it (`gfx90a:sramecc+:xnack-`).
    pub fn of_name(name: &str) -> Option<Arch> {
        let plain = name.split(':').next().unwrap_or(name);
        Arch::ALL.into_iter().find(|a| a.name() == plain)
    }
    /// How many lanes waves may have; the first is for kernels that do not ask.
    pub const fn waves(self) -> &'static [u32] {
        match self {
            Arch::Gfx906 | Arch::Gfx90a | Arch::Gfx942 => &[64],
            Arch::Gfx1030 | Arch::Gfx1100 | Arch::Gfx1201 => &[32, 64],
        }
    }
    /// Does `ds_bpermute` reach all 64 lanes of a wave? Since RDNA it stays in a half.
    pub(super) const fn permutes_waves(self) -> bool {
        match self {
            Arch::Gfx906 | Arch::Gfx90a | Arch::Gfx942 => true,
            Arch::Gfx1030 | Arch::Gfx1100 | Arch::Gfx1201 => false,
        }
    }
    /// The matrix units.
    pub const fn matrix_units(self) -> MatrixUnits {
        match self {
            Arch::Gfx906 | Arch::Gfx1030 => MatrixUnits::None,
            Arch::Gfx90a | Arch::Gfx942 => MatrixUnits::Mfma,
            Arch::Gfx1100 => MatrixUnits::Wmma,
            Arch::Gfx1201 => MatrixUnits::WmmaHalves,
        }
    }
    /// The fragments that are multiplied. Of f64 there are units of 16 x 16 x 4, but none for
    /// [`MmaShape::F64_FMA_CHAIN`], which would leave half of their columns empty.
    pub const fn mma_shapes(self) -> &'static [MmaShape] {
        const F16: MmaShape = MmaShape { elem: Elem::F16, shape: [16, 16, 16] };
        const BF16: MmaShape = MmaShape { elem: Elem::BF16, shape: [16, 16, 16] };
        const F32: MmaShape = MmaShape { elem: Elem::F32, shape: [16, 16, 8] };
        match self.matrix_units() {
            MatrixUnits::None => &[],
            MatrixUnits::Mfma => &[F16, BF16, F32],
            MatrixUnits::Wmma | MatrixUnits::WmmaHalves => &[F16, BF16],
        }
    }
}

/// What is compiled for: an architecture, and how many lanes a wave has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WaveTarget {
    /// The architecture.
    pub arch: Arch,
    /// Lanes of a wave: one of [`Arch::waves`].
    pub wave: u32,
}

/// What a kernel is compiled for on an architecture: waves as large as its subgroups, if there are
/// such waves, or else those that the architecture prefers. Smaller subgroups share a wave.
pub fn target(kernel: &Kernel, arch: Arch) -> WaveTarget {
    let wanted = kernel.subgroup.filter(|lanes| arch.waves().contains(lanes));
    WaveTarget { arch, wave: wanted.unwrap_or(arch.waves()[0]) }
}
