//! Instruction sets: detection at run time, and one compiled version of each kernel for each
//! (multiversioning).
//!
//! A kernel is a plain generic loop, always inlined, and compiled again inside a function that has
//! the instruction set enabled, so that the compiler autovectorises it. All versions do the same
//! operations on the same operands and give the same bits; only the number of elements per
//! instruction differs. [`Isa`] is a token: a value exists only for an instruction set that this
//! processor has, which is what makes the `unsafe` calls sound.

#[cfg(target_arch = "x86_64")]
use elinvar_core::DType;
use elinvar_core::{Element, Error, Result};
use std::fmt;
use std::str::FromStr;

/// An instruction set of this processor. A value is a proof that the processor has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isa(Level);

/// The instruction sets that code is written for, on the architecture it is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The baseline of this architecture, for any processor of it. Where there is another level, no
    /// kernels are compiled for this one ([`Isa::has_kernels`]).
    Plain,
    /// x86-64 with AVX2, FMA and F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ and VL.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// aarch64, which always has NEON.
    #[cfg(target_arch = "aarch64")]
    Neon,
    /// WebAssembly that was compiled with its vector instructions. A module that has them is
    /// refused as a whole by an engine that has not, so nothing is left to find out at run time.
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    Simd128,
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
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        all.push(Isa(Level::Simd128));
        all
    }
    /// Which one it is.
    pub fn level(self) -> Level {
        self.0
    }
    /// Does the processor have the bf16 dot product (`vdpbf16ps`), does this instruction set allow
    /// it, and is it faster than f32? Processors that have AMX run `vdpbf16ps` at half the f32
    /// rate, so not there.
    pub fn has_pairs(self) -> bool {
        match self.0 {
            Level::Plain => false,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => false,
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => std::arch::is_x86_feature_detected!("avx512bf16") && !super::amx::is_present(),
            #[cfg(target_arch = "aarch64")]
            Level::Neon => false,
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            Level::Simd128 => false,
        }
    }
    /// Could [`Isa::has_amx`] be true? To find out whether it is, the system has to be asked, which
    /// changes the state of all threads.
    pub fn may_have_amx(self) -> bool {
        match self.0 {
            Level::Plain => false,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => false,
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => cfg!(target_os = "linux") && super::amx::is_present(),
            #[cfg(target_arch = "aarch64")]
            Level::Neon => false,
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            Level::Simd128 => false,
        }
    }
    /// Does the processor have AMX tiles with bf16 products, and does this instruction set allow
    /// them?
    pub fn has_amx(self) -> bool {
        match self.0 {
            Level::Plain => false,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => false,
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => super::amx::is_permitted(),
            #[cfg(target_arch = "aarch64")]
            Level::Neon => false,
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            Level::Simd128 => false,
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
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            Level::Simd128 => "simd128",
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

/// The instruction sets for which a kernel is compiled: a copy that is never run need not be
/// linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsaTargets {
    /// All of [`Isa::has_kernels`].
    All,
    /// AVX2, NEON and simd128. AVX-512 takes the copy for AVX2: for kernels that gain nothing from
    /// longer registers, or from more of them.
    UpToAvx2,
    /// AVX-512, on processors with bf16 dot products or AMX.
    Avx512Bf16,
}

impl IsaTargets {
    /// Is there a copy for AVX2, or for the baseline of another architecture?
    pub const fn has_avx2_or_neon(self) -> bool {
        match self {
            IsaTargets::All | IsaTargets::UpToAvx2 => true,
            IsaTargets::Avx512Bf16 => false,
        }
    }
    /// Is there one for AVX-512?
    #[cfg(target_arch = "x86_64")]
    pub const fn has_avx512(self) -> bool {
        match self {
            IsaTargets::All | IsaTargets::Avx512Bf16 => true,
            IsaTargets::UpToAvx2 => false,
        }
    }
}

/// Is there no level but [`Level::Plain`] on this architecture? On plain x86-64 an fma is a call
/// for each element, beside which a vector loop gains nothing; and every aarch64, and every engine
/// that loads a module with simd128, has the better level.
pub(crate) const PLAIN_HAS_KERNELS: bool = cfg!(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    all(target_arch = "wasm32", target_feature = "simd128")
)));

/// A kernel was dispatched to an instruction set for which it has no copy.
#[cold]
pub fn not_compiled_for(isa: Isa) -> ! {
    unreachable!("this work is not compiled for {isa}")
}

/// A kernel that is compiled for each instruction set. `run` must be `#[inline(always)]`, and so
/// must everything that it calls in its loops.
///
/// The copies are methods, not free functions: rustc puts a method's copy into the codegen unit of
/// its type, so the copies are compiled in parallel. All copies of a free function would be in one
/// unit.
pub trait Kernel: Sized {
    /// The result.
    type Out;
    /// The instruction sets it is compiled for.
    const TARGETS: IsaTargets = IsaTargets::All;
    /// The work.
    fn run(self) -> Self::Out;
    /// The copy for the baseline of the architecture.
    #[cfg(not(target_arch = "x86_64"))]
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
    /// The copy for AVX-512 with bf16 dot products.
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
///
/// # Panics
/// If there is none ([`Isa::has_kernels`]).
#[inline]
#[allow(unsafe_code, reason = "calling a function that needs an instruction set")]
pub fn dispatch<K: Kernel>(isa: Isa, kernel: K) -> K::Out {
    #[cfg(target_arch = "x86_64")]
    match isa.level() {
        // SAFETY: an `Isa` of this level is made by `Isa::all` alone, which found the features on
        // this processor.
        Level::Avx2 if const { K::TARGETS.has_avx2_or_neon() } => unsafe { kernel.avx2() },
        // SAFETY: as above.
        Level::Avx512 if const { K::TARGETS.has_avx512() } => unsafe { kernel.avx512() },
        // SAFETY: as above; `Isa::all` makes this level only where it found the features of AVX2
        // too.
        Level::Avx512 => unsafe { kernel.avx2() },
        Level::Plain | Level::Avx2 => not_compiled_for(isa),
    }
    // The vector instructions are part of the baseline of this architecture, so one copy does.
    #[cfg(not(target_arch = "x86_64"))]
    if const { K::TARGETS.has_avx2_or_neon() } { kernel.plain() } else { not_compiled_for(isa) }
}

/// Runs a kernel in a copy that may use bf16 dot products.
///
/// # Panics
/// If the processor does not have them.
#[cfg(target_arch = "x86_64")]
#[inline]
#[allow(unsafe_code, reason = "calling a function that needs an instruction set")]
pub fn dispatch_pairs<K: Kernel>(isa: Isa, kernel: K) -> K::Out {
    assert!(isa.has_pairs(), "{isa} multiplies no pairs");
    // SAFETY: the assertion above: an `Isa` with pairs has AVX-512, which `Isa::all` found, and the
    // bf16 instruction was found too.
    unsafe { kernel.pairs() }
}

/// Runs a kernel that evaluates a formula of the catalogue, or a pool, on elements of type `T`.
///
/// There are hundreds of formulas, and pools for every type, so compile time and code size decide.
/// f32, the common type, has a copy for AVX2 and one for AVX-512; other types have one for AVX2
/// (except elementary functions of f64, which [`super::dispatch::run_lanes`] runs). Other
/// architectures have one copy of everything.
#[inline]
#[allow(unsafe_code, reason = "calling a function that needs an instruction set")]
pub fn dispatch_formula<T: Element, K: Kernel>(isa: Isa, kernel: K) -> K::Out {
    #[cfg(target_arch = "x86_64")]
    match isa.level() {
        Level::Plain => not_compiled_for(isa),
        // SAFETY: an `Isa` of this level is made by `Isa::all` alone, which found the features on
        // this processor.
        Level::Avx2 => unsafe { kernel.avx2() },
        Level::Avx512 => {
            if const { matches!(T::DTYPE, DType::F32) } {
                // SAFETY: as above.
                unsafe { kernel.avx512() }
            } else {
                // SAFETY: as above; `Isa::all` makes this level only where it found the features of
                // AVX2 too.
                unsafe { kernel.avx2() }
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    dispatch(isa, kernel)
}

impl Isa {
    /// Are kernels compiled for it? For [`Level::Plain`] only where it is all there is: elsewhere
    /// the reference's loops do all its work.
    pub fn has_kernels(self) -> bool {
        PLAIN_HAS_KERNELS || self.level() != Level::Plain
    }
    /// Those of this processor for which kernels are compiled.
    pub fn with_kernels() -> Vec<Isa> {
        Isa::all().into_iter().filter(|isa| isa.has_kernels()).collect()
    }
}
