//! Networks that are ready to be trained, or to be loaded.

mod digits;
mod lenet;
mod lstm_lm;
mod resnet;

pub use digits::{DigitsCnn, DigitsMlp, DigitsTransformer, Recipe, digit_pairs};
pub use lenet::{LeNet, LeNetOptions};
pub use lstm_lm::{LstmLm, LstmLmOptions};
pub use resnet::{ResNet, ResNetOptions};
