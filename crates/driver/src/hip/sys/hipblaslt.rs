//! hipBLASLt, AMD's library of products ("hipBLASLt API Reference"). No card has run it yet.

use crate::streams::sys::{BlasLtLibrary, BlasLtStatus};
use crate::sys::Wanted;
use std::sync::OnceLock;

/// The library, with the numbers of `hipblaslt.h` since ROCm 6. (That of ROCm 5 has others, and
/// refuses these.)
pub static HIPBLASLT: BlasLtLibrary = BlasLtLibrary {
    wanted: Wanted {
        driver: "rocm",
        variable: "ELINVAR_HIPBLASLT_LIBRARY",
        names: if cfg!(windows) {
            &["libhipblaslt.dll", "hipblaslt.dll"]
        } else {
            &["libhipblaslt.so.1", "libhipblaslt.so.0", "libhipblaslt.so"]
        },
        install: "install ROCm's hipBLASLt",
        what: "hipBLASLt",
        named: OnceLock::new(),
    },
    prefix: "hipblasLt",
    status: BlasLtStatus { out_of_memory: 2, lost: &[5], not_supported: 7 },
    compute: 2,
    // With factors rounded to TF32, which few devices have; of whole f32.
    compute_f32: &[6, 2],
    transposed: [0, 1],
    order: [111, 112],
    batch: [0, 1],
    alignments: None,
    algorithm_words: 3,
    loaded: OnceLock::new(),
};
