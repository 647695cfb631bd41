//! The pictures of a training run, as SVG files, which every browser shows: the learning curve and
//! the digits that were read wrongly.

mod canvas;
mod curve;
mod digits;
mod ticks;

pub use canvas::Ink;
pub use curve::{Panel, Series, learning_curve};
pub use digits::digit_sheet;
