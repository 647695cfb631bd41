//! The commands, one file each: `run` does what the command line asks for and writes to `out`.

pub mod embed;
pub mod eval;
pub mod generate;
pub mod inspect;
pub mod train;
