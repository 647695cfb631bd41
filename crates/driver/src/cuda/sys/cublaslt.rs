//! cuBLASLt, NVIDIA's library of products ("cuBLAS Library", part 3, "Using the cuBLASLt API").

use crate::streams::sys::{BlasLtLibrary, BlasLtStatus};
use crate::sys::Wanted;
use std::sync::OnceLock;

/// The library, with the numbers of `cublasLt.h`.
pub static CUBLASLT: BlasLtLibrary = BlasLtLibrary {
    wanted: Wanted {
        driver: "cuda",
        variable: "ELINVAR_CUBLASLT_LIBRARY",
        names: if cfg!(windows) {
            &["cublasLt64_13.dll", "cublasLt64_12.dll", "cublasLt64_11.dll"]
        } else {
            &["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11", "libcublasLt.so"]
        },
        install: "install NVIDIA's cuBLAS",
        what: "cuBLASLt",
        named: OnceLock::new(),
    },
    prefix: "cublasLt",
    status: BlasLtStatus { out_of_memory: 3, lost: &[13, 14], not_supported: 15 },
    compute: 68,
    // With factors rounded to TF32.
    compute_f32: &[77],
    transposed: [3, 4],
    order: [0, 1],
    batch: [5, 6],
    alignments: Some([5, 6, 7, 8]),
    algorithm_words: 8,
    loaded: OnceLock::new(),
};
