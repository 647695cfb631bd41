//! The innermost loops: a tile of the result in registers, blocks of numbers turned on their side, and the memory that
//! threads fill together. The only `unsafe` of the contractions is here.
//!
//! How it can be wrong: by reading or writing beside a block. Each function checks the lengths of what it is given, once,
//! before its loop.

mod ahead;
#[cfg(target_arch = "x86_64")]
mod amx;
mod dots;
mod few;
mod halves;
mod narrow;
mod output;
mod pairs;
mod pixels;
mod skinny;
mod stored;
mod taps;
mod tile;
mod turn;
mod windows;

pub(crate) use ahead::{After, Written};
pub(crate) use dots::{Dots, dots};
pub(crate) use few::{FEW, Few, GROUP, few, panel};
pub(crate) use halves::halves;
pub(crate) use narrow::{Narrow, narrow};
pub(crate) use output::{Cut, Tile, fill};
pub(crate) use pairs::as_pairs;
pub(crate) use pixels::{Fresh, Picks, Pixels, Places, Rows, Run, Strip, pixels};
pub(crate) use skinny::{LEAST, Lines};
pub(crate) use taps::{THREE, Taps};
pub(crate) use tile::{Kind, PITCH, Panels, efforts, height, multiply_into, width};
pub(crate) use turn::turn;
pub(crate) use windows::{Seen, Unit};
