//! Instructions as the machine runs them. Operands are columns: values, one for each lane of a
//! warp, in one of three files: 32 bits, 64 bits, predicates. Constants, parameters and special
//! registers are columns too.

#![allow(missing_docs, reason = "names of arithmetic say what it is; what they leave open is documented")]

/// A column of a file.
pub type Column = u32;

/// One operand of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Narrow1 {
    Mov,
    Not,
    Neg,
    NegF,
    AbsF,
    SqrtF,
    /// A root that may be wrong by a unit in the last place.
    SqrtNear,
    /// 2^x, rounded to nearest; 0 where that would be subnormal.
    Exp2F,
    FloorF,
    CeilF,
    TruncF,
    RoundF,
    HalfToF,
    FToHalf,
    FToBf16,
    /// Rounded to ten fraction bits, ties away from zero.
    FToTf32,
    Low16,
    FToS,
    FToU,
    SToF,
    UToF,
}

/// Two operands of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Narrow2 {
    Add,
    Sub,
    Mul,
    MulHighS,
    MulHighU,
    DivS,
    DivU,
    RemS,
    RemU,
    MinS,
    MinU,
    MaxS,
    MaxU,
    And,
    Or,
    Xor,
    Shl,
    ShrS,
    ShrU,
    AddF,
    SubF,
    MulF,
    DivF,
    /// NaN if one is; zeros are ordered.
    MinF,
    MaxF,
}

/// Three operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Three {
    Mad,
    FmaF,
}

/// One operand of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wide1 {
    Mov,
    Not,
    Neg,
    NegF,
    AbsF,
    SqrtF,
    /// A root of which half of the bits are wrong.
    SqrtNear,
    FloorF,
    CeilF,
    TruncF,
    RoundF,
    FToS,
    FToU,
    SToF,
    UToF,
}

/// Two operands of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wide2 {
    Add,
    Sub,
    Mul,
    MulHighS,
    MulHighU,
    DivS,
    DivU,
    RemS,
    RemU,
    MinS,
    MinU,
    MaxS,
    MaxU,
    And,
    Or,
    Xor,
    AddF,
    SubF,
    MulF,
    DivF,
}

/// 64 bits shifted by a 32-bit amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shift {
    Left,
    RightS,
    RightU,
}

/// From 32 bits to 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Widen {
    Signed,
    Unsigned,
    FToF,
    SToF,
    UToF,
    FToS,
    FToU,
}

/// From 64 bits to 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Narrowing {
    Low,
    FToF,
    SToF,
    UToF,
    FToS,
    FToU,
}

/// Types of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Signed,
    Unsigned,
    Float,
}

/// Comparison operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    Eq,
    /// For floats: also if one is NaN.
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// One is NaN.
    Nan,
}

/// Operations on predicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Predicate {
    And,
    Or,
    Xor,
}

/// Address spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Addresses of 64 bits.
    Global,
    /// Addresses of 32 bits.
    Shared,
}

/// Atomic operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomic {
    Add,
    MinS,
    MinU,
    MaxS,
    MaxU,
    And,
    Or,
    Xor,
    Exchange,
}

/// A load or a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub space: Space,
    pub address: Column,
    pub offset: u32,
    /// What divides the address, in bytes.
    pub aligned: u8,
    /// Bytes of an element.
    pub size: u8,
    /// Is it in the 64-bit file?
    pub wide: bool,
    /// How many of `columns`.
    pub count: u8,
    pub columns: [Column; 4],
}

/// The operand types of a matrix product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor {
    F16,
    BF16,
    /// 32 bits, of which the upper 19 are used.
    Tf32,
}

impl Factor {
    pub const fn bytes(self) -> usize {
        match self {
            Factor::F16 | Factor::BF16 => 2,
            Factor::Tf32 => 4,
        }
    }
}

/// Which lane each lane reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Of each 32 lanes: ((lane & and) | or) ^ xor.
    Swizzle { and: u8, or: u8, xor: u8 },
    /// Of each four: two bits for each.
    Quad(u8),
    /// Of each this many, in reverse.
    Mirror(u8),
    /// All read this one.
    Lane(u8),
}

/// AMD's matrix units, all of 16 x 16 sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// `v_mfma_f32_16x16x16`: waves of 64.
    Mfma(Factor),
    /// `v_mfma_f32_16x16x4_f32`.
    MfmaF32,
    /// `v_wmma_f32_16x16x16` of RDNA 3: waves of 32, whose halves hold the same factors.
    Wmma(Factor),
    /// Of RDNA 4: each half holds half of the terms.
    WmmaHalves(Factor),
}

/// The left operand of a warpgroup product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// A matrix descriptor; true: transposed.
    Memory(Column, bool),
    /// As those of `Mma`, 16-bit elements.
    Registers([Column; 4]),
}

/// An instruction. Results come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inst {
    /// A branch target.
    Join,
    /// Branch to an instruction: always, or where a predicate is (not) true.
    Branch {
        to: u32,
        guard: Option<(Column, bool)>,
    },
    Return,
    Barrier,
    Narrow1(Narrow1, Column, Column),
    Narrow2(Narrow2, [Column; 3]),
    Narrow3(Three, [Column; 4]),
    Wide1(Wide1, Column, Column),
    Wide2(Wide2, [Column; 3]),
    Wide3(Three, [Column; 4]),
    Shift(Shift, [Column; 3]),
    /// a * b + c with 32-bit factors; true: signed ones.
    MadWide(bool, [Column; 4]),
    Widen(Widen, Column, Column),
    Narrow(Narrowing, Column, Column),
    /// 64 bits from two halves: result, low, high.
    Pack([Column; 3]),
    /// 32 bits from two halves: result, low, high.
    Halves([Column; 3]),
    /// Two values, each rounded to 16 bits: result, high, low.
    HalvesOf(Factor, [Column; 3]),
    /// Two halves of 64 bits: low, high, whole.
    Unpack([Column; 3]),
    Compare32(Compare, Kind, [Column; 3]),
    Compare64(Compare, Kind, [Column; 3]),
    /// Result, where true, where false, predicate.
    Select32([Column; 4]),
    Select64([Column; 4]),
    Predicate(Predicate, [Column; 3]),
    NotPredicate(Column, Column),
    MovPredicate(Column, Column),
    Load(Access),
    Store(Access),
    /// Result, address, operand; bytes after the address.
    Atomic(Atomic, Space, [Column; 3], u32),
    /// Result, value; which lane each lane reads.
    Route(Route, Column, Column),
    /// Result, value, four times the number of a lane, among this many neighbours.
    Permute(u8, [Column; 3]),
    /// d = a * b + c of a wave: lists of registers of d, a, b, c.
    Matrix(Unit, [u32; 4]),
    /// A dividend and a divisor: neither is the divisor 0, nor overflows the quotient.
    Divides32 {
        signed: bool,
        all: [Column; 2],
    },
    Divides64 {
        signed: bool,
        all: [Column; 2],
    },
    /// A shift amount is below this.
    Amount(u8, Column),
    /// Result, value, lane; true: the lane is a mask that is xored with the own one.
    Shuffle(bool, [Column; 3]),
    /// d = a * b + c of 16 x 8 x 16 (x 8 for 32-bit operands): registers of d, a, b, c.
    Mma(Factor, [Column; 4], [Column; 4], [Column; 2], [Column; 4]),
    /// The same of f64: 16 x 8 x 8.
    MmaDouble([Column; 4], [Column; 4], [Column; 2], [Column; 4]),
    /// Of f64, 8 x 8 x 4.
    MmaSmall([Column; 2], Column, Column, [Column; 2]),
    /// 8 x 8 matrices of 16 bits from shared memory: transposed or not, count, registers, address,
    /// offset.
    LoadMatrix {
        transposed: bool,
        count: u8,
        to: [Column; 4],
        address: Column,
        offset: u32,
    },
    /// Copies bytes from global memory (address, offset) to shared memory (address, offset), at the
    /// latest when they are waited for. Bytes beyond the source size are zeros.
    CopyAsync {
        to: Column,
        to_offset: u32,
        from: Column,
        from_offset: u32,
        bytes: u8,
        read: Column,
    },
    /// Initialises an mbarrier (address, offset) with an arrival count.
    SignalInit {
        at: Column,
        offset: u32,
        count: Column,
    },
    /// Makes mbarriers visible to the TMA unit.
    SignalFence,
    /// Arrives at an mbarrier (address, offset), and adds expected bytes.
    SignalExpect {
        at: Column,
        offset: u32,
        bytes: Column,
    },
    /// Is the phase of an mbarrier complete?
    SignalWait {
        to: Column,
        at: Column,
        parity: Column,
    },
    /// Copies a tile of a tensor, by its map, from an index on, to shared memory, completing on an
    /// mbarrier.
    FetchBox {
        to: Column,
        map: Column,
        from: [Column; 3],
        signal: Column,
    },
    /// Orders register accesses before the warpgroup products that follow.
    GroupFence,
    /// sums = sums * (0 or 1) + a * b of 64 rows, 16 terms and twice as many columns as the list of
    /// sums is long.
    GroupMma {
        factor: Factor,
        /// The index of a register list.
        sums: u32,
        a: Left,
        /// A matrix descriptor; true: transposed.
        b: (Column, bool),
        /// Is the accumulator added?
        scaled: Column,
    },
    /// Commits a group of products.
    GroupCommit,
    /// Waits until at most this many groups of products are pending.
    GroupWait(u32),
    /// Commits a group of copies.
    CommitCopies,
    /// Waits until at most this many groups of copies are pending.
    WaitCopies(u32),
}
