//! bf16 slices reinterpreted as pairs in the bits of f32, where alignment and byte order allow it.
#![allow(unsafe_code, reason = "the same bytes under another type")]

use elinvar_core::bf16;

/// Each two neighbours as the bits of an f32, the first in its lower half; None where they do not
/// are aligned as f32 have to be, or the processor has its upper half first.
pub(crate) fn as_pairs(x: &[bf16]) -> Option<&[f32]> {
    // SAFETY: any bits are an f32, and they are not written while they are borrowed.
    let (before, pairs, _) = unsafe { x.align_to::<f32>() };
    (cfg!(target_endian = "little") && before.is_empty()).then_some(pairs)
}
