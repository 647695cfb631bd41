//! GEMM and convolution: the reference's bits, for every instruction set and number of threads.

mod contract;
mod contract_bf16;
mod conv;
mod conv_bf16;
mod conv_nonoverlapping;
#[path = "../common/data.rs"]
mod data;
mod prepacked;
#[path = "../common/processor.rs"]
mod processor;
mod recurrent;
mod tools;
