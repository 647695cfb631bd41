//! What the processor has, found out otherwise than the backend finds it out.

/// Does the processor multiply pairs of bf16 in vector registers, and gain by that? One with AMX does not gain.
pub fn multiplies_pairs() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let features = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        std::arch::is_x86_feature_detected!("avx512bf16") && !features.contains(" amx_bf16")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}
