//! The emulated libraries of ROCm, for tests without a GPU of AMD's.

use crate::cuda;

/// Architectures that are emulated in tests: one for each width of waves.
pub const ARCHS: [&str; 2] = ["gfx942", "gfx1100"];

/// Variables that select the emulated device of an architecture. It passes as a discrete GPU, so
/// that the same code runs as on one; compiled kernels are not cached.
pub fn emulated(arch: &str) -> Result<[(&'static str, String); 5], String> {
    let library = cuda::library("emulated_hip")?;
    Ok([
        ("ELINVAR_HIP_LIBRARY", library.clone()),
        ("ELINVAR_COMGR_LIBRARY", library),
        ("ELINVAR_EMULATED_HIP_ARCH", arch.to_string()),
        ("ELINVAR_EMULATED_HIP_AS", "discrete".to_string()),
        ("ELINVAR_CACHE_DIR", cuda::NO_CACHE.to_string()),
    ])
}
