//! Instruction sets: detection at run time, and one compiled version of each kernel for each
//! (multiversioning).
//!
//! A kernel is a plain generic loop, always inlined, and compiled anew inside a function that has
//! the instruction set enabled, so that the compiler autovectorises it. All versions do the same
//! operations on the same operands and give the same bits; only the number of elements per
//! instruction differs. [`Isa`] is a token: a value exists only for an instruction set that this
//! processor has, which is what makes the `unsafe` calls sound.

#[cfg(target_arch = "x86_64")]
use elinvar_core::DType;
use elinvar_core::{Element, Error, Result};
use std::fmt;
use std::str::FromStr;

/// An instruction set of this processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isa(Level);

/// The instruction sets that code is written for, on the architecture it is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What the compiler makes of loops for any processor of this architecture. On x86-64 that is SSE2, without fma: slow,
    /// and exact.
    Plain,
    /// x86-64 with AVX2, FMA and F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ and VL.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// aarch64, all of which has NEON: like plain, with register tiles written for it.
    #[cfg(target_arch = "aarch64")]
    Neon,
}

impl Isa {
    /// The best that this processor has.
    pub fn best() -> Isa {
        *Self::all().last().expect("Plain is always there")
    }
    /// All that this processor has, the plainest first.
    pub fn all() -> Vec<Isa> {
        #[allow(unused_mut, reason = "some architectures have one")]
        let mut all = vec![Isa(Level::Plain)];
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            if has!("avx2") && has!("fma") && has!("f16c") && has!("bmi2") {
                all.push(Isa(Level::Avx2));
                if has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl") {
                    all.push(Isa(Level::Avx512));
                }
            }
        }
        #[cfg(target_arch = "aarch64")]
        all.push(Isa(Level::Neon));
        all
    }
    /// Which one it is.
    pub fn level(self) -> Level {
        self.0
    }
    /// Does the processor multiply pairs of bf16 in vector registers, sum them in f32, and gain by that? Does this instruction set allow
    /// it? Processors that have AMX do half as many operations in a second with pairs as with numbers: 123 thousand million on one of
    /// them, and 244.
    pub fn has_pairs(self) -> bool {
        match self.0 {
            Level::Plain => false,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => false,
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => std::arch::is_x86_feature_detected!("avx512bf16") && !super::amx::is_present(),
            #[cfg(target_arch = "aarch64")]
            Level::Neon => false,
        }
    }
    /// Does the processor multiply pairs of bf16 in registers that are matrices, and does this instruction set allow it?
    pub fn has_amx(self) -> bool {
        match self.0 {
            Level::Plain => false,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => false,
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => super::amx::is_permitted(),
            #[cfg(target_arch = "aarch64")]
            Level::Neon => false,
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Level::Plain => "plain",
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => "avx512",
            #[cfg(target_arch = "aarch64")]
            Level::Neon => "neon",
        })
    }
}

impl FromStr for Isa {
    type Err = Error;
    fn from_str(name: &str) -> Result<Isa> {
        let all = Isa::all();
        all.iter().copied().find(|isa| isa.to_string() == name).ok_or_else(|| {
            let names: Vec<String> = all.iter().map(Isa::to_string).collect();
            Error::argument(format!(
                "there is no instruction set \"{name}\" on this processor; it has: {}",
                names.join(", ")
            ))
        })
    }
}

/// The instruction sets for which work is compiled: a copy that is never run need not be in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsaTargets {
    /// All.
    All,
    /// All but AVX-512, which takes the copy for AVX2, as that has nothing to gain by longer registers.
    UpToAvx2,
    /// Those with an fma: all but plain x86-64. There the fma of a number is a call, beside which it matters little how numbers get to it.
    AllWithFma,
    /// Of those, AVX2 and NEON. AVX-512 takes the copy for AVX2: such work has no use for longer registers, or for more of them.
    Avx2OrNeon,
    /// AVX-512, of processors that multiply pairs of bf16 or have AMX.
    Avx512Bf16,
}

impl IsaTargets {
    /// Is there one that needs nothing but the architecture?
    pub const fn has_plain(self) -> bool {
        match self {
            IsaTargets::All | IsaTargets::UpToAvx2 => true,
            IsaTargets::AllWithFma | IsaTargets::Avx2OrNeon => cfg!(not(target_arch = "x86_64")),
            IsaTargets::Avx512Bf16 => false,
        }
    }
    /// Is there one for AVX2, or for NEON?
    pub const fn has_avx2_or_neon(self) -> bool {
        match self {
            IsaTargets::All | IsaTargets::UpToAvx2 | IsaTargets::AllWithFma | IsaTargets::Avx2OrNeon => true,
            IsaTargets::Avx512Bf16 => false,
        }
    }
    /// Is there one for AVX-512?
    #[cfg(target_arch = "x86_64")]
    pub const fn has_avx512(self) -> bool {
        match self {
            IsaTargets::All | IsaTargets::AllWithFma | IsaTargets::Avx512Bf16 => true,
            IsaTargets::UpToAvx2 | IsaTargets::Avx2OrNeon => false,
        }
    }
}

/// Work that asks for instructions of which there is no copy.
#[cold]
pub fn not_compiled_for(isa: Isa) -> ! {
    unreachable!("this work is not compiled for {isa}")
}

/// A piece of work that is compiled for each instruction set. `run` must be `#[inline(always)]`, and so must be what it
/// calls in its loops.
///
/// The copies are methods, not functions beside the trait: the compiler works on several parts of a crate at once and puts
/// a copy into the part where its type stands. All copies of one function would be in one part.
pub trait Kernel: Sized {
    /// What it gives.
    type Out;
    /// For which instruction sets.
    const TARGETS: IsaTargets = IsaTargets::All;
    /// The work.
    fn run(self) -> Self::Out;
    /// The copy for processors of which nothing is known but their architecture.
    #[inline(never)]
    fn plain(self) -> Self::Out {
        self.run()
    }
    /// The copy for AVX2.
    ///
    /// # Safety
    /// The processor must have these features.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,f16c,bmi2")]
    #[allow(unsafe_code, reason = "compiled for an instruction set")]
    unsafe fn avx2(self) -> Self::Out {
        self.run()
    }
    /// The copy for AVX-512.
    ///
    /// # Safety
    /// The processor must have these features.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi2")]
    #[allow(unsafe_code, reason = "compiled for an instruction set")]
    unsafe fn avx512(self) -> Self::Out {
        self.run()
    }
    /// The copy for AVX-512 that multiplies pairs of bf16.
    ///
    /// # Safety
    /// The processor must have these features.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi2")]
    #[allow(unsafe_code, reason = "compiled for an instruction set")]
    unsafe fn pairs(self) -> Self::Out {
        self.run()
    }
}

/// Runs a kernel in the copy for this instruction set.
#[inline]
#[allow(unsafe_code, reason = "calling a function that needs an instruction set")]
pub fn dispatch<K: Kernel>(isa: Isa, kernel: K) -> K::Out {
    match isa.level() {
        #[cfg(not(target_arch = "aarch64"))]
        Level::Plain if const { K::TARGETS.has_plain() } => kernel.plain(),
        // All code of this architecture may use NEON, so one copy does for both.
        #[cfg(target_arch = "aarch64")]
        Level::Plain | Level::Neon if const { K::TARGETS.has_plain() } => kernel.plain(),
        // SAFETY: an `Isa` of this level is made by `Isa::all` alone, which found the features on this processor.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 if const { K::TARGETS.has_avx2_or_neon() } => unsafe { kernel.avx2() },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 if const { K::TARGETS.has_avx512() } => unsafe { kernel.avx512() },
        // SAFETY: as above; `Isa::all` makes this level only where it found the features of AVX2 too.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { kernel.avx2() },
        #[cfg(target_arch = "x86_64")]
        Level::Plain | Level::Avx2 => not_compiled_for(isa),
        #[cfg(not(target_arch = "x86_64"))]
        _ => not_compiled_for(isa),
    }
}

/// Runs a kernel in a copy that may multiply pairs of bf16.
///
/// # Panics
/// If the processor does not.
#[cfg(target_arch = "x86_64")]
#[inline]
#[allow(unsafe_code, reason = "calling a function that needs an instruction set")]
pub fn dispatch_pairs<K: Kernel>(isa: Isa, kernel: K) -> K::Out {
    assert!(isa.has_pairs(), "{isa} multiplies no pairs");
    // SAFETY: the line above: an `Isa` with pairs has AVX-512, which `Isa::all` found, and the instruction was found too.
    unsafe { kernel.pairs() }
}

/// Runs a kernel that holds a formula of the catalogue, or pools, on elements of type `T`.
///
/// There are hundreds of formulas, and pools for every type; what counts of each is the time to compile it and its bytes. So f32, which
/// networks are made of, has a copy for AVX2 and one for AVX-512; all else has one for AVX2 (but elementary functions of f64,
/// which [`super::dispatch::run_lanes`] runs). There is none for plain x86-64,
/// where an fma is a call: there the reference's loops are as fast, and callers take those ([`Isa::has_formulas`]). Other
/// architectures have one copy of everything.
#[inline]
#[allow(unsafe_code, reason = "calling a function that needs an instruction set")]
pub fn dispatch_formula<T: Element, K: Kernel>(isa: Isa, kernel: K) -> K::Out {
    #[cfg(target_arch = "x86_64")]
    match isa.level() {
        Level::Plain => unreachable!("the reference's loops run formulas on plain x86-64"),
        // SAFETY: an `Isa` of this level is made by `Isa::all` alone, which found the features on this processor.
        Level::Avx2 => unsafe { kernel.avx2() },
        Level::Avx512 => {
            if const { matches!(T::DTYPE, DType::F32) } {
                // SAFETY: as above.
                unsafe { kernel.avx512() }
            } else {
                // SAFETY: as above; `Isa::all` makes this level only where it found the features of AVX2 too.
                unsafe { kernel.avx2() }
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    dispatch(isa, kernel)
}

/// As [`dispatch_formula`], of work of which there is a plain copy too.
#[inline]
pub fn dispatch_formula_or_plain<T: Element, K: Kernel>(isa: Isa, kernel: K) -> K::Out {
    if isa.level() == Level::Plain { kernel.plain() } else { dispatch_formula::<T, K>(isa, kernel) }
}

impl Isa {
    /// Has it an fma? On plain x86-64 that of each number is a call. There, what is written for speed alone is not compiled.
    pub fn has_fma(self) -> bool {
        IsaTargets::AllWithFma.has_plain() || self.level() != Level::Plain
    }
    /// Are formulas compiled for it? Where not, the reference's loops run them.
    pub fn has_formulas(self) -> bool {
        self.has_fma()
    }
}
