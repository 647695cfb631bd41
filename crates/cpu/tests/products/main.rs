//! Products of matrices and convolutions: the reference's bits, for every instruction set and number of threads.

#[path = "../common/data.rs"]
mod data;
mod contract;
mod conv;
mod tools;
