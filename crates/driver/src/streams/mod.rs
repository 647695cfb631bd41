//! Devices with streams: what the drivers of NVIDIA and AMD have in common. Their functions do the
//! same under other names, so what is done with them is written once.

pub mod sys;

use crate::Driver;
use sys::{Memory, Module};

/// A driver of such devices.
pub trait Streams: Driver<Memory = Memory, Module = Module> {}
