//! Numbers that a launch gives to a kernel: sizes, strides, offsets.
//!
//! As parameters if they fit ([`MOST_PARAMS`]), else in a small buffer, the last one of the kernel. Kernel and launch ask
//! for them in the same order, and that is all that holds them together; the count is checked. Tables, of which a kernel reads
//! an entry by a number that it computes, stand in the buffer behind the other numbers.

use super::{Key, Work};
use crate::build::{Builder, Val};
use crate::interp::Launch;
use crate::ir::{Access, Constant, Elem, Kernel, Place, Scalar};
use crate::verify::MOST_PARAMS;
use std::cell::Cell;

/// The numbers of a kernel, while it is built.
pub struct Numbers<'k> {
    k: &'k Builder,
    scalar: Scalar,
    buffer: Option<Place>,
    next: Cell<usize>,
    count: usize,
}

/// Do so many numbers need a buffer?
pub fn need_buffer(scalar: Scalar, count: usize) -> bool {
    count * scalar.bits() as usize / 8 > MOST_PARAMS
}

impl<'k> Numbers<'k> {
    /// So many numbers of a type. Comes after all other buffers of the kernel, and before everything else.
    pub fn new(k: &'k Builder, scalar: Scalar, count: usize) -> Self {
        let elem = match scalar {
            Scalar::I64 => Elem::I64,
            Scalar::U64 => Elem::U64,
            Scalar::U32 => Elem::U32,
            Scalar::I32 | Scalar::Bool | Scalar::F32 | Scalar::F64 => Elem::I32,
        };
        let buffer = need_buffer(scalar, count).then(|| k.buffer("numbers", elem, Access::Read));
        Numbers { k, scalar, buffer, next: Cell::new(0), count }
    }
    /// The same with a table behind them; see [`work_with_table`].
    pub fn with_table(k: &'k Builder, scalar: Scalar, count: usize) -> Self {
        let elem = if scalar == Scalar::I64 { Elem::I64 } else { Elem::I32 };
        let buffer = Some(k.buffer("numbers", elem, Access::Read));
        Numbers { k, scalar, buffer, next: Cell::new(0), count }
    }
    /// An entry of the table.
    ///
    /// # Panics
    /// If there is no table.
    pub fn entry(&self, i: Val<'k>) -> Val<'k> {
        self.k.load(self.buffer.expect("there is a table"), i + self.count as i64, 1)
    }
    /// The next number.
    pub fn get(&self, name: &str) -> Val<'k> {
        let i = self.next.replace(self.next.get() + 1);
        assert!(i < self.count, "{name} is number {i} of {}", self.count);
        match self.buffer {
            Some(b) => self.k.load(b, self.k.u32(i as u32), 1),
            None => self.k.param(name, self.scalar),
        }
    }
}

/// A kernel with its launch, given its numbers, of i32 or i64, in the order in which the kernel asks for them, and a table.
pub fn work_with_table<'a>(
    key: Key,
    build: impl Fn() -> Kernel + 'a,
    groups: [u32; 3],
    scalar: Scalar,
    numbers: &[i64],
    table: &[i64],
) -> Work<'a> {
    let all = numbers.iter().chain(table).map(|&v| Constant::int(scalar, v)).collect();
    let launch = Launch { groups, params: Vec::new() };
    Work { key, build: Box::new(build), launch, numbers: Some(all) }
}

/// A kernel with its launch, given its numbers in the order in which the kernel asks for them.
pub fn work<'a>(
    key: Key,
    build: impl Fn() -> Kernel + 'a,
    groups: [u32; 3],
    scalar: Scalar,
    numbers: &[i64],
) -> Work<'a> {
    let build = Box::new(build);
    let all: Vec<Constant> = numbers.iter().map(|&v| Constant::int(scalar, v)).collect();
    if need_buffer(scalar, all.len()) {
        return Work { key, build, launch: Launch { groups, params: Vec::new() }, numbers: Some(all) };
    }
    Work { key, build, launch: Launch { groups, params: all }, numbers: None }
}
