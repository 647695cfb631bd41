//! Instructions as the machine has them. Operands are columns: 32 numbers, one for each lane of a
//! warp, in one of three files: of 32 bits, of 64 bits, of predicates. Constants, parameters and
//! what a thread knows about itself are columns too.

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
    /// 2^x, to the nearest; 0 where that would be subnormal.
    Exp2F,
    FloorF,
    CeilF,
    TruncF,
    RoundF,
    HalfToF,
    FToHalf,
    FToBf16,
    /// To ten bits behind the point, ties away from zero.
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
    /// NaN if one is; zeros have an order.
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

/// 64 bits moved by an amount of 32.
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

/// How numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Signed,
    Unsigned,
    Float,
}

/// What is asked of two numbers.
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

/// Where memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Addresses of 64 bits.
    Global,
    /// Addresses of 32 bits.
    Shared,
}

/// What an atomic does with what is there.
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
    /// Bytes of a number.
    pub size: u8,
    /// Of a file of 64 bits?
    pub wide: bool,
    /// How many of `columns`.
    pub count: u8,
    pub columns: [Column; 4],
}

/// The types of factors of a product of matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor {
    F16,
    BF16,
    /// Of 32 bits, of which the upper 19 count.
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

/// Rows that four warps multiply together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// A description of where they are, turned or not.
    Memory(Column, bool),
    /// As those of `Mma`, of 16-bit numbers.
    Registers([Column; 4]),
}

/// An instruction. Results come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inst {
    /// A place that branches go to.
    Join,
    /// To an instruction: always, or where a predicate is (not) true.
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
    /// a * b + c with factors of 32 bits; true: signed ones.
    MadWide(bool, [Column; 4]),
    Widen(Widen, Column, Column),
    Narrow(Narrowing, Column, Column),
    /// 64 bits from two halves: result, low, high.
    Pack([Column; 3]),
    /// 32 bits from two halves: result, low, high.
    Halves([Column; 3]),
    /// Two numbers, each to the nearest of 16 bits: result, high, low.
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
    /// Result, what is exchanged, lane; true: the lane is to be combined with the own one.
    Shuffle(bool, [Column; 3]),
    /// d = a * b + c of 16 x 8 x 16 (x 8 for factors of 32 bits): registers of d, a, b, c.
    Mma(Factor, [Column; 4], [Column; 4], [Column; 2], [Column; 4]),
    /// The same of f64: 16 x 8 x 8.
    MmaDouble([Column; 4], [Column; 4], [Column; 2], [Column; 4]),
    /// Of f64, 8 x 8 x 4.
    MmaSmall([Column; 2], Column, Column, [Column; 2]),
    /// 8 x 8 matrices of 16 bits from shared memory: transposed or not, how many, registers,
    /// address, offset.
    LoadMatrix {
        transposed: bool,
        count: u8,
        to: [Column; 4],
        address: Column,
        offset: u32,
    },
    /// Bytes from global memory (address, offset) to shared memory (address, offset), at the latest
    /// when they are waited for. So many of them are read, and zeros stand for the others.
    CopyAsync {
        to: Column,
        to_offset: u32,
        from: Column,
        from_offset: u32,
        bytes: u8,
        read: Column,
    },
    /// Makes a barrier in memory (address, bytes after it) for so many.
    SignalInit {
        at: Column,
        offset: u32,
        count: Column,
    },
    /// Tells the engine of barriers.
    SignalFence,
    /// Arrives at a barrier (address, bytes after it), and announces bytes.
    SignalExpect {
        at: Column,
        offset: u32,
        bytes: Column,
    },
    /// Is the phase of a barrier over?
    SignalWait {
        to: Column,
        at: Column,
        parity: Column,
    },
    /// A box of a tensor, by its map, from an index on, to shared memory under a barrier.
    FetchBox {
        to: Column,
        map: Column,
        from: [Column; 3],
        signal: Column,
    },
    /// Orders what touches registers before the products of four warps that do.
    GroupFence,
    /// sums = sums * (0 or 1) + a * b of 64 rows, 16 terms and as many columns as the list of sums
    /// has twice.
    GroupMma {
        factor: Factor,
        /// The number of a list.
        sums: u32,
        a: Left,
        /// A description of where they are, turned or not.
        b: (Column, bool),
        /// Do the sums that are there count?
        scaled: Column,
    },
    /// Closes a group of products.
    GroupCommit,
    /// Waits until at most so many groups of products are open.
    GroupWait(u32),
    /// Closes a group of copies.
    CommitCopies,
    /// Waits until at most so many groups of copies are open.
    WaitCopies(u32),
}
