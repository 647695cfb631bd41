//! What the processor has.

/// Does the processor multiply pairs of bf16? Those that have AMX have the instructions of AVX-512
/// for it, too.
pub fn multiplies_pairs() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        std::arch::is_x86_feature_detected!("avx512bf16")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}
