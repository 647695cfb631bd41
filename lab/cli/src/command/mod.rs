//! The commands, one file each: `run` does what the command line asks for and writes to `out`.

pub mod bench;
pub mod conformance;
pub mod gates;
pub mod schedule;
pub mod sums;
pub mod ulp;
