//! Products of matrices and convolutions: the reference's bits, for every instruction set and number of threads.

mod apart;
mod contract;
mod conv;
mod conv_fast;
#[path = "../common/data.rs"]
mod data;
mod fast;
mod prepacked;
#[path = "../common/processor.rs"]
mod processor;
mod recurrent;
mod tools;
