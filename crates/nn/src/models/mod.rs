//! Networks that are ready to be trained, or to be loaded.

mod digits;

pub use digits::{DigitsCnn, DigitsMlp, DigitsTransformer, Recipe, digit_pairs};
