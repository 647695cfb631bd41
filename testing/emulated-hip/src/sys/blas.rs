//! The functions of hipBLASLt that the project loads.

#![allow(
    missing_docs,
    reason = "the names and arguments are AMD's, who describes them in \"hipBLASLt API Reference\""
)]
#![allow(clippy::missing_safety_doc, reason = "as above")]
#![allow(non_snake_case, reason = "as above")]

use super::hip::{Handle, within};
use crate::settings::Settings;
use emulated_gpu::product_functions;
use emulated_gpu::sys::products::Numbers;

const HIPBLASLT: Numbers = Numbers {
    invalid_value: 3,
    execution_failed: 5,
    not_supported: 7,
    compute: [2, 6],
    transposed: [0, 1],
    order: [111, 112],
    batch: [0, 1],
    workspace: 1,
    alignments: &[],
    algorithm_words: 3,
};

product_functions! {
    within, HIPBLASLT;
    library: hipblasLtCreate hipblasLtDestroy;
    operations: hipblasLtMatmulDescCreate hipblasLtMatmulDescSetAttribute hipblasLtMatmulDescDestroy;
    matrices: hipblasLtMatrixLayoutCreate hipblasLtMatrixLayoutSetAttribute hipblasLtMatrixLayoutDestroy;
    preferences: hipblasLtMatmulPreferenceCreate hipblasLtMatmulPreferenceSetAttribute
        hipblasLtMatmulPreferenceDestroy;
    products: hipblasLtMatmulAlgoGetHeuristic hipblasLtMatmul;
    tf32: Settings::get().arch == "gfx942";
}
