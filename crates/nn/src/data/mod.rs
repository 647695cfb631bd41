//! Data sets that come with the library, so that a first training run needs no download.

mod digits;

pub use digits::{Digits, digits};
