//! A kernel, decoded once.

use crate::inst::{Column, Inst};

/// The base of parameters in the generic address space.
pub const PARAM_WINDOW: u64 = 0xa000_0000_0000_0000;

/// Special registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// Thread index in the workgroup.
    Thread(u8),
    /// Workgroup index.
    Group(u8),
    /// Number of workgroups.
    Groups(u8),
    /// Threads of a workgroup.
    Threads(u8),
    /// Lane index in the warp.
    Lane,
}

/// A parameter of the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// Offset in the parameter block.
    pub offset: usize,
    /// Its bytes.
    pub size: usize,
    /// Its column.
    pub column: Column,
}

/// A program with one entry.
#[derive(Clone, Debug)]
pub struct Program {
    /// The name of the entry.
    pub entry: String,
    /// Lanes of a warp: 32 or 64.
    pub lanes: usize,
    /// Threads of a workgroup.
    pub group: [u32; 3],
    /// The instructions.
    pub insts: Vec<Inst>,
    /// The source line of each instruction.
    pub lines: Vec<u32>,
    /// Operand lists of instructions with many operands.
    pub lists: Vec<Vec<Column>>,
    /// Columns of 32 bits.
    pub narrow: usize,
    /// Columns of 64 bits.
    pub wide: usize,
    /// Columns of predicates.
    pub predicates: usize,
    /// Columns of constants.
    pub constants32: Vec<(Column, u32)>,
    /// Of 64 bits.
    pub constants64: Vec<(Column, u64)>,
    /// Predicates.
    pub constants1: Vec<(Column, bool)>,
    /// Columns of special registers.
    pub specials: Vec<(Column, Special)>,
    /// Parameters in their order.
    pub params: Vec<Param>,
    /// Number of byte-array parameters: they are not in `params`, and precede them.
    pub blobs: usize,
    /// Bytes of the block of parameters.
    pub param_bytes: usize,
    /// Bytes of shared memory that it declares.
    pub shared: usize,
    /// Has it dynamic shared memory?
    pub dynamic: bool,
    /// The common divisor of all shared memory accesses, in bytes.
    pub granule: usize,
    /// Does the device add f64 products from the last term to the first? No known device does; it
    /// makes code that relies on the order fail.
    pub backwards: bool,
    /// Does a float that does not fit an integer give any number, instead of the nearest?
    pub open_conversions: bool,
    /// The text that it was decoded from.
    pub text: String,
}

impl Program {
    /// The source line of an instruction, and its number.
    pub(crate) fn line(&self, at: usize) -> (u32, &str) {
        let number = self.lines.get(at).copied().unwrap_or(0);
        (number, self.text.lines().nth(number as usize).unwrap_or("").trim())
    }
    /// The first comment of the text: emitters put the kernel's name there.
    pub(crate) fn title(&self) -> &str {
        let first = self.text.lines().next().unwrap_or("");
        first.strip_prefix("// ").or_else(|| first.strip_prefix("; ")).unwrap_or(&self.entry)
    }
}
