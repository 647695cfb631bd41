//! The pictures of a training run, as PNG files: the learning curve and the digits that were read
//! wrongly.
//!
//! Drawn with `tiny-skia` and a font inside the program, so nothing has to be installed to make or
//! see them.

mod canvas;
mod curve;
mod digits;
mod ticks;

pub use canvas::Ink;
pub use curve::{Panel, Series, learning_curve};
pub use digits::digit_sheet;
