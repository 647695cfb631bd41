//! The interpreter's loop, compiled for AVX2 with fma where the processor has them: otherwise each
//! fma is a call.

use crate::machine::{Fault, Group, Stop, Warp};

/// Runs a warp until it stops.
pub fn step<const L: usize>(warp: &mut Warp<L>, group: &mut Group<'_>) -> Result<Stop, Fault> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: the processor has both, as was just checked.
        return unsafe { wide(warp, group) };
    }
    warp.run(group)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn wide<const L: usize>(warp: &mut Warp<L>, group: &mut Group<'_>) -> Result<Stop, Fault> {
    warp.run(group)
}
