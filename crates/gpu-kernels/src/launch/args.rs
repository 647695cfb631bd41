//! Launch arguments: sizes, strides and offsets that a launch gives to a kernel.
//!
//! As parameters if they fit ([`MAX_PARAM_BYTES`]), else in a small buffer, the last one of the
//! kernel. A lookup table, of which a kernel reads an entry by a computed index, is in such a
//! buffer, behind the other arguments if those do not fit.
//!
//! How it can be wrong: kernel and launch list the arguments in the same order, and nothing else
//! holds them together; only the count is checked.

use super::{Key, Work};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::interp::Launch;
use elinvar_kernel::ir::{Access, Constant, Elem, Kernel, Place, Scalar};
use elinvar_kernel::verify::MAX_PARAM_BYTES;
use std::cell::Cell;

/// The numbers of a kernel, while it is built.
pub struct LaunchArgs<'k> {
    k: &'k Builder,
    scalar: Scalar,
    buffer: Option<Place>,
    /// Where a table begins in the buffer, if there is one.
    table: usize,
    next: Cell<usize>,
    count: usize,
}

/// Do so many numbers need a buffer?
pub fn need_buffer(scalar: Scalar, count: usize) -> bool {
    count * scalar.bits() as usize / 8 > MAX_PARAM_BYTES
}

impl<'k> LaunchArgs<'k> {
    /// So many numbers of a type. Comes after all other buffers of the kernel, and before
    /// everything else.
    pub fn new(k: &'k Builder, scalar: Scalar, count: usize) -> Self {
        let elem = match scalar {
            Scalar::I64 => Elem::I64,
            Scalar::U64 => Elem::U64,
            Scalar::U32 => Elem::U32,
            Scalar::I32 | Scalar::Bool | Scalar::F32 | Scalar::F64 => Elem::I32,
        };
        let buffer = need_buffer(scalar, count).then(|| k.buffer("numbers", elem, Access::Read));
        LaunchArgs { k, scalar, buffer, table: count, next: Cell::new(0), count }
    }
    /// The same with a table beside them; see [`work_with_table`].
    pub fn with_table(k: &'k Builder, scalar: Scalar, count: usize) -> Self {
        let elem = if scalar == Scalar::I64 { Elem::I64 } else { Elem::I32 };
        let buffer = Some(k.buffer("numbers", elem, Access::Read));
        let table = if need_buffer(scalar, count) { count } else { 0 };
        LaunchArgs { k, scalar, buffer, table, next: Cell::new(0), count }
    }
    /// An entry of the table.
    ///
    /// # Panics
    /// If there is no table.
    pub fn entry(&self, i: Val<'k>) -> Val<'k> {
        self.k.load(self.buffer.expect("there is a table"), i + self.table as i64, 1)
    }
    /// The next number.
    pub fn get(&self, name: &str) -> Val<'k> {
        let i = self.next.replace(self.next.get() + 1);
        assert!(i < self.count, "{name} is number {i} of {}", self.count);
        match self.buffer {
            Some(b) if self.table > 0 => self.k.load(b, self.k.u32(i as u32), 1),
            Some(_) | None => self.k.param(name, self.scalar),
        }
    }
}

/// A kernel with its launch, given its numbers, of i32 or i64, in the order in which the kernel
/// asks for them, and a table.
pub fn work_with_table<'a>(
    key: Key,
    build: impl Fn() -> Kernel + 'a,
    groups: [u32; 3],
    scalar: Scalar,
    args: &[i64],
    table: &[i64],
) -> Work<'a> {
    let each = |all: &[i64]| all.iter().map(|&v| Constant::int(scalar, v)).collect::<Vec<_>>();
    let (params, mut args) =
        if need_buffer(scalar, args.len()) { (Vec::new(), each(args)) } else { (each(args), Vec::new()) };
    args.extend(each(table));
    Work { key, build: Box::new(build), launch: Launch { groups, params }, args: Some(args) }
}

/// A kernel with its launch, given its numbers in the order in which the kernel asks for them.
pub fn work<'a>(
    key: Key,
    build: impl Fn() -> Kernel + 'a,
    groups: [u32; 3],
    scalar: Scalar,
    args: &[i64],
) -> Work<'a> {
    let build = Box::new(build);
    let all: Vec<Constant> = args.iter().map(|&v| Constant::int(scalar, v)).collect();
    if need_buffer(scalar, all.len()) {
        return Work { key, build, launch: Launch { groups, params: Vec::new() }, args: Some(all) };
    }
    Work { key, build, launch: Launch { groups, params: all }, args: None }
}
