//! The commands, one file each: `run` does what the command line asks for and writes to `out`.

#[cfg(feature = "tokenizers")]
pub mod embed;
pub mod eval;
#[cfg(feature = "tokenizers")]
pub mod generate;
pub mod inspect;
pub mod launch;
pub mod train;
#[cfg(not(feature = "tokenizers"))]
mod without_tokenizers;
pub mod worker;

#[cfg(not(feature = "tokenizers"))]
pub use without_tokenizers::{embed, generate};
