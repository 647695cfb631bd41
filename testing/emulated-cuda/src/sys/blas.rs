//! The functions of cuBLASLt that the project loads.

#![allow(
    missing_docs,
    reason = "the names and arguments are NVIDIA's, who describes them in cuBLAS's manual"
)]
#![allow(clippy::missing_safety_doc, reason = "as above")]
#![allow(non_snake_case, reason = "as above")]

use super::api::{Handle, within};
use emulated_gpu::product_functions;
use emulated_gpu::sys::products::Numbers;

const CUBLASLT: Numbers = Numbers {
    invalid_value: 7,
    execution_failed: 13,
    not_supported: 15,
    compute: [68, 77],
    transposed: [3, 4],
    order: [0, 1],
    batch: [5, 6],
    workspace: 1,
    alignments: &[5, 6, 7, 8],
    algorithm_words: 8,
};

product_functions! {
    within, CUBLASLT;
    library: cublasLtCreate cublasLtDestroy;
    operations: cublasLtMatmulDescCreate cublasLtMatmulDescSetAttribute cublasLtMatmulDescDestroy;
    matrices: cublasLtMatrixLayoutCreate cublasLtMatrixLayoutSetAttribute cublasLtMatrixLayoutDestroy;
    preferences: cublasLtMatmulPreferenceCreate cublasLtMatmulPreferenceSetAttribute
        cublasLtMatmulPreferenceDestroy;
    products: cublasLtMatmulAlgoGetHeuristic cublasLtMatmul;
    tf32: true;
}
