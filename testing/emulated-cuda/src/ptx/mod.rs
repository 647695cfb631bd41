//! A module's text, decoded once.

mod boxes;
mod decode;
mod files;
pub mod inst;
mod module;

pub(crate) use boxes::PARAM_WINDOW;

use inst::{Column, Inst};
use std::fmt;

/// What a thread knows about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// Its place in its workgroup.
    Thread(u8),
    /// Its workgroup's place.
    Group(u8),
    /// How many workgroups there are.
    Groups(u8),
    /// How many threads a workgroup has.
    Threads(u8),
    /// Its place in its warp.
    Lane,
}

/// A parameter of the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// Where it lies in the block of parameters.
    pub offset: usize,
    /// Its bytes.
    pub size: usize,
    /// The column that it is in.
    pub column: Column,
}

/// A module with one entry.
#[derive(Clone, Debug)]
pub struct Program {
    /// The name of the entry.
    pub entry: String,
    /// As in `sm_75`.
    pub capability: u32,
    /// Is it for devices of that capability alone, as in `sm_90a`?
    pub alone: bool,
    /// Threads of a workgroup.
    pub group: [u32; 3],
    /// What is done.
    pub(crate) insts: Vec<Inst>,
    /// The line of the text that an instruction comes from.
    pub(crate) lines: Vec<u32>,
    /// Columns of instructions that have many.
    pub(crate) lists: Vec<Vec<Column>>,
    /// Columns of each file.
    pub(crate) narrow: usize,
    pub(crate) wide: usize,
    pub(crate) predicates: usize,
    /// Columns that hold one number.
    pub(crate) constants32: Vec<(Column, u32)>,
    pub(crate) constants64: Vec<(Column, u64)>,
    pub(crate) specials: Vec<(Column, Special)>,
    /// Parameters in their order.
    pub params: Vec<Param>,
    /// How many parameters there are that are no numbers: they are not among `params`, and come
    /// before them.
    pub blobs: usize,
    /// Bytes of the block of parameters.
    pub param_bytes: usize,
    /// Bytes of shared memory that it declares.
    pub shared: usize,
    /// Has it shared memory whose size a launch says?
    pub dynamic: bool,
    /// What all accesses to shared memory are multiples of, in bytes.
    pub(crate) granule: usize,
    /// Does the device add products of f64 from the last term to the first? None is known that
    /// does; whoever relies on the order should see it.
    pub(crate) backwards: bool,
    text: String,
}

impl Program {
    /// The line of the text that an instruction comes from, and its number.
    pub(crate) fn line(&self, at: usize) -> (u32, &str) {
        let number = self.lines.get(at).copied().unwrap_or(0);
        (number, self.text.lines().nth(number as usize).unwrap_or("").trim())
    }
    /// The first comment of the text: emitters put the kernel's name there.
    pub(crate) fn title(&self) -> &str {
        self.text.lines().next().and_then(|l| l.strip_prefix("// ")).unwrap_or(&self.entry)
    }
}

/// Why a text is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is not understood: a sentence with the line.
    Text(String),
    /// It is of a version of PTX that is too new.
    Version((u32, u32)),
    /// It is for a newer device, or for another alone.
    Target(u32),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Text(why) => f.write_str(why),
            Refused::Version((a, b)) => write!(f, "PTX .version {a}.{b} is not supported by this driver"),
            Refused::Target(sm) => write!(f, "PTX .target sm_{sm} is for other devices than this"),
        }
    }
}

/// Decodes a text, for a device of this capability whose driver takes PTX up to this version.
///
/// # Errors
/// [`Refused`], as NVIDIA's compiler would; also for instructions that nobody has needed yet.
pub fn parse(text: &str, capability: u32, version: (u32, u32)) -> Result<Program, Refused> {
    module::program(text, capability, version)
}
