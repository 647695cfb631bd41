//! What the processor has.

/// Does the processor multiply pairs of bf16 in vector registers, and gain by that? One with AMX does not gain.
pub fn multiplies_pairs() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        // Leaf 7 of `CPUID` says AMX_BF16 in bit 22 of EDX, also where the system knows nothing of it.
        let amx = std::arch::x86_64::__cpuid_count(7, 0).edx & 1 << 22 != 0;
        std::arch::is_x86_feature_detected!("avx512bf16") && !amx
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}
