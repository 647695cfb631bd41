//! Copies of fewer elements than a block has.

use super::LIGHT_BLOCK;
use crate::isa::Isa;
#[cfg(target_arch = "x86_64")]
use crate::isa::Level;
#[cfg(target_arch = "x86_64")]
use crate::x86::tail_copy;
use elinvar_core::Element;
use std::mem::MaybeUninit;

/// How fewer elements than [`LIGHT_BLOCK`] are copied.
#[derive(Clone, Copy)]
pub(super) enum TailCopy {
    /// By a loop.
    Plain,
    /// By masks of AVX2.
    #[cfg(target_arch = "x86_64")]
    Masks256,
    /// By masks of AVX-512.
    #[cfg(target_arch = "x86_64")]
    Masks512,
}

impl TailCopy {
    #[cfg(target_arch = "x86_64")]
    pub(super) fn of<T>(isa: Isa) -> TailCopy {
        match isa.level() {
            Level::Avx512 if size_of::<T>() == 4 => TailCopy::Masks512,
            Level::Avx2 if size_of::<T>() == 4 => TailCopy::Masks256,
            Level::Plain | Level::Avx2 | Level::Avx512 => TailCopy::Plain,
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    #[allow(clippy::extra_unused_type_parameters, reason = "it is called alike on all architectures")]
    pub(super) fn of<T>(_: Isa) -> TailCopy {
        TailCopy::Plain
    }
    #[inline(always)]
    #[allow(unsafe_code, reason = "instructions that not every processor has")]
    pub(super) fn load<T: Element>(self, from: &[T], to: &mut [T; LIGHT_BLOCK]) {
        match self {
            TailCopy::Plain => to[..from.len()].copy_from_slice(from),
            // SAFETY: `of` makes it only from an `Isa` that has the instructions.
            #[cfg(target_arch = "x86_64")]
            TailCopy::Masks256 => unsafe { tail_copy::load_256(from, to) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            TailCopy::Masks512 => unsafe { tail_copy::load_512(from, to) },
        }
    }
    #[inline(always)]
    #[allow(unsafe_code, reason = "instructions that not every processor has")]
    pub(super) fn store<T: Element>(self, from: &[MaybeUninit<T>; LIGHT_BLOCK], to: &mut [MaybeUninit<T>]) {
        match self {
            TailCopy::Plain => to.copy_from_slice(&from[..to.len()]),
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            TailCopy::Masks256 => unsafe { tail_copy::store_256(from, to) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            TailCopy::Masks512 => unsafe { tail_copy::store_512(from, to) },
        }
    }
}
