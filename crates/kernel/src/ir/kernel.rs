//! IR: a kernel, its buffers, parameters and shared memory, its body, and the features that it
//! needs.

use super::op::{Op, Place};
use super::tensor_view::{TILE_ROW_ALIGN, TILE_ROW_BYTES, TensorView};
use super::types::{Elem, Scalar, Type};

/// A value: a number into [`Kernel::values`]. Defined once, by an instruction or as an argument of
/// a region; it can be used after that, in the same region and in those inside of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub u32);

/// What a kernel may do with a buffer. Buffers that are written share no memory with any other
/// buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Loads only. It is not written to while the kernel runs.
    Read,
    /// Stores only.
    Write,
    /// Loads, stores and atomics.
    ReadWrite,
}

impl Access {
    /// May be loaded from?
    pub const fn reads(self) -> bool {
        matches!(self, Access::Read | Access::ReadWrite)
    }
    /// May be stored to?
    pub const fn writes(self) -> bool {
        matches!(self, Access::Write | Access::ReadWrite)
    }
    /// The word in the text form.
    pub const fn name(self) -> &'static str {
        match self {
            Access::Read => "read",
            Access::Write => "write",
            Access::ReadWrite => "read_write",
        }
    }
}

/// Device memory that a kernel is given. Its length is known at launch only.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Buffer {
    /// A word.
    pub name: String,
    /// What it holds.
    pub elem: Elem,
    /// What may be done with it.
    pub access: Access,
}

/// A scalar that a launch gives to all invocations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Param {
    /// A word.
    pub name: String,
    /// Its type: not bool, which has no agreed size in a parameter block.
    pub scalar: Scalar,
}

/// Memory that the invocations of a workgroup share. It holds nothing in the beginning; to load
/// what was not stored is a mistake of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shared {
    /// A word.
    pub name: String,
    /// What it holds: not bool.
    pub elem: Elem,
    /// How many.
    pub len: u32,
}

/// Instructions in order, and what they yield to the instruction that holds the region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Region {
    /// Values that come in: a loop's index and what it carries.
    pub args: Vec<Value>,
    /// What is done.
    pub insts: Vec<Inst>,
    /// Values that go out.
    pub yields: Vec<Value>,
}

/// An instruction and the values that it defines.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Inst {
    /// What is done.
    pub op: Op,
    /// What comes out: nothing, one value, or what a branch or a loop yields.
    pub results: Vec<Value>,
}

/// A program that every invocation of every workgroup of a launch runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// A word.
    pub name: String,
    /// Invocations of a workgroup along x, y, z.
    pub group: [u32; 3],
    /// How many invocations a subgroup has, if the kernel needs to know: neighbours in the order of
    /// x + X (y + Y z), all subgroups full. Kernels that use subgroup operations or fragments say
    /// it.
    pub subgroup: Option<u32>,
    /// How many workgroups should have room on a multiprocessor at a time, at the price of numbers
    /// that wait in memory; `None`: as many as there happen to be. Where it matters, a loop's
    /// carried numbers that no turn of an inner loop reads wait so.
    pub min_blocks_per_sm: Option<u32>,
    /// Buffers, in the order of their bindings.
    pub buffers: Vec<Buffer>,
    /// Parameters, in the order of their block.
    pub params: Vec<Param>,
    /// Buffers as tensors of which TMA tiles are fetched.
    pub views: Vec<TensorView>,
    /// Shared memory.
    pub shared: Vec<Shared>,
    /// How many mbarriers there are, for TMA tiles that are fetched.
    pub mbarriers: u32,
    /// The type of each value.
    pub values: Vec<Type>,
    /// What is done.
    pub body: Region,
}

/// Where shared memory is, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedLayout {
    /// Where each piece begins: at a multiple of 16, and of [`TILE_ROW_ALIGN`] lines if it holds
    /// TMA tiles.
    pub pieces: Vec<u64>,
    /// Where the mbarriers begin, each of 8 bytes.
    pub mbarriers: u64,
    /// All bytes.
    pub bytes: u64,
}

/// What a device must have to run a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// 64-bit floats.
    pub f64: bool,
    /// 64-bit integers.
    pub i64: bool,
    /// Buffers of 16-bit floats.
    pub half: bool,
    /// Buffers of bytes.
    pub bytes: bool,
    /// Subgroup operations.
    pub subgroups: bool,
    /// Matrix fragments.
    pub fragments: bool,
    /// Copies that go on while the kernel does. Where a device has none, they are loads and stores.
    pub cp_async: bool,
    /// TMA tiles, fetched to shared memory and multiplied there.
    pub tma: bool,
    /// Bytes of shared memory.
    pub shared: u32,
    /// Invocations of a workgroup.
    pub invocations: u32,
}

impl Kernel {
    /// The type of a value.
    ///
    /// # Panics
    /// If there is no such value.
    pub fn ty(&self, v: Value) -> Type {
        self.values[v.0 as usize]
    }
    /// Invocations of a workgroup.
    pub fn invocations(&self) -> u32 {
        self.group.iter().product()
    }
    /// Where pieces of shared memory are, one behind the other.
    pub fn shared_places(&self) -> SharedLayout {
        let tiles = self.holds_tiles();
        let mut end: u64 = 0;
        let pieces = self.shared.iter().zip(tiles).map(|(s, tiles)| {
            let at =
                end.next_multiple_of(if tiles { u64::from(TILE_ROW_ALIGN * TILE_ROW_BYTES) } else { 16 });
            end = at + (u64::from(s.elem.size()) * u64::from(s.len)).next_multiple_of(16);
            at
        });
        let pieces = pieces.collect();
        SharedLayout { pieces, mbarriers: end, bytes: end + u64::from(self.mbarriers) * 8 }
    }
    /// Which pieces of shared memory hold TMA tiles.
    pub fn holds_tiles(&self) -> Vec<bool> {
        let mut all = vec![false; self.shared.len()];
        self.body.each_inst(&mut |inst| {
            let Op::TmaLoad { tiles, .. } = &inst.op else { return };
            for tma_tile in tiles {
                if let Place::Shared(i) = tma_tile.to
                    && let Some(mark) = all.get_mut(i as usize)
                {
                    *mark = true;
                }
            }
        });
        all
    }
    /// Bytes of shared memory.
    pub fn shared_bytes(&self) -> u64 {
        self.shared_places().bytes
    }
    /// What a device must have to run this kernel.
    pub fn features(&self) -> Features {
        let mut f = Features {
            shared: self.shared_bytes().min(u64::from(u32::MAX)) as u32,
            invocations: self.invocations(),
            subgroups: self.subgroup.is_some(),
            ..Features::default()
        };
        let mut scalar = |s: Scalar| match s {
            Scalar::F64 => f.f64 = true,
            Scalar::I64 | Scalar::U64 => f.i64 = true,
            Scalar::Bool | Scalar::I32 | Scalar::U32 | Scalar::F32 => {}
        };
        self.values.iter().filter_map(|t| t.scalar()).for_each(&mut scalar);
        self.params.iter().for_each(|p| scalar(p.scalar));
        let elems = self.buffers.iter().map(|b| b.elem).chain(self.shared.iter().map(|s| s.elem));
        for e in elems {
            match e {
                Elem::F16 | Elem::BF16 => f.half = true,
                Elem::Bool | Elem::U8 | Elem::F8(_) => f.bytes = true,
                Elem::I64 | Elem::U64 => f.i64 = true,
                Elem::F64 => f.f64 = true,
                Elem::I32 | Elem::U32 | Elem::F32 => {}
            }
        }
        self.body.each_inst(&mut |inst| {
            f.cp_async |= matches!(inst.op, Op::CpAsync { .. });
            f.tma |= matches!(inst.op, Op::TmaLoad { .. } | Op::WgmmaSs { .. } | Op::WgmmaRs { .. });
        });
        f.fragments = self.values.iter().any(|t| matches!(t, Type::Fragment(_)));
        f
    }
}
