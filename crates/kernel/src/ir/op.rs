//! IR: operations, and what they compute to the bit.
//!
//! Rules for all: arithmetic works on each element of a vector by itself. Floats follow IEEE 754:
//! round to nearest even, subnormals kept, nothing contracted or reordered. NaN is one value; its
//! bits are not specified, so a kernel may look at them but must not let its results depend on
//! them. Integers wrap.

use super::constant::Constant;
use super::kernel::{Region, Value};
use super::tensor_view::TmaTile;
use super::types::{Fragment, Scalar};

/// Operations on one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unary {
    /// Integers: 0 - x, wrapping. Floats: the sign bit flipped.
    Neg,
    /// Floats: the sign bit cleared.
    Abs,
    /// Floats: correctly rounded; NaN below zero, -0 at -0.
    Sqrt,
    /// Floats: to the largest whole number not above; the sign of zero stays.
    Floor,
    /// Floats: to the smallest whole number not below; the sign stays on a zero.
    Ceil,
    /// Floats: to the nearest whole number not farther from zero; the sign stays on a zero.
    Trunc,
    /// Floats: to the nearest whole number, halves to even; the sign stays on a zero.
    Round,
    /// f32: near 2^x for x up to 127: wrong by 3e-6 of itself at most, and what is below 2^-126 may
    /// be 0. Above, it may be anything; NaN stays one. Only work that was asked for as fast may use
    /// it. (The interpreter rounds to nearest, and gives 0 below 2^-126.)
    Exp2,
    /// Bool: the other truth value. Integers: every bit flipped.
    Not,
    /// f32: to the nearest f16, ties to even, and back; beyond 65519.99.. infinity.
    RoundF16,
    /// f32: to the nearest bf16, ties to even, and back.
    RoundBF16,
}

/// Operations on two values of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binary {
    /// x + y
    Add,
    /// x - y
    Sub,
    /// x * y
    Mul,
    /// Floats: x / y, correctly rounded. Integers: cut towards zero; 0 if y is 0; the least number
    /// by -1 wraps to itself.
    Div,
    /// Integers: x - y * (x / y), with the sign of x; 0 if y is 0, and for the least number by -1.
    Rem,
    /// The smaller. Floats: NaN if either is; -0 is smaller than +0. Bool: and.
    Min,
    /// The larger. Floats: NaN if either is; +0 is larger than -0. Bool: or.
    Max,
    /// Bool and integers: bitwise.
    And,
    /// Bool and integers: bitwise.
    Or,
    /// Bool and integers: bitwise.
    Xor,
    /// Integers: x moved left; y is taken modulo the width.
    Shl,
    /// Integers: x moved right, y taken modulo the width; the sign comes in for signed types, zeros
    /// for unsigned.
    Shr,
    /// Integers: the upper half of the product (signed or unsigned as the type).
    MulHigh,
    /// Floats: the magnitude of x with the sign bit of y.
    CopySign,
}

/// Comparisons of two values of one type; the result is bool. With NaN all are false but `Ne`. For
/// bool, false is less than true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compare {
    /// x == y; zeros are equal
    Eq,
    /// x != y
    Ne,
    /// x < y
    Lt,
    /// x <= y
    Le,
    /// x > y
    Gt,
    /// x >= y
    Ge,
}

/// How the invocations of a subgroup are combined: only what has no order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduce {
    /// Integers: the sum, wrapping.
    Add,
    /// As [`Binary::Min`].
    Min,
    /// As [`Binary::Max`].
    Max,
    /// Bool and integers.
    And,
    /// Bool and integers.
    Or,
}

/// What an atomic does with an i32 or u32 in memory. Its result is what was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Atomic {
    /// Adds, wrapping.
    Add,
    /// Keeps the smaller.
    Min,
    /// Keeps the larger.
    Max,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// Puts the operand there.
    Exchange,
}

/// What an invocation knows about itself; u32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Builtin {
    /// Which workgroup, along an axis.
    GroupId(u8),
    /// How many workgroups, along an axis.
    GroupCount(u8),
    /// Which invocation of its workgroup, along an axis.
    LocalId(u8),
    /// x + X (y + Y z) of the local ids.
    LocalIndex,
    /// Which invocation of its subgroup.
    SubgroupLane,
    /// Which subgroup of its workgroup.
    SubgroupId,
}

/// Memory: a buffer or a piece of shared memory, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// A buffer.
    Buffer(u32),
    /// Shared memory.
    Shared(u32),
}

/// The layout of a fragment in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FragmentLayout {
    /// Rows of neighbours, `stride` elements from row to row.
    RowMajor,
    /// Columns of neighbours, `stride` elements from column to column.
    ColumnMajor,
}

/// An instruction.
///
/// **Memory.** An index counts elements and is of any integer type. To reach beyond the end of
/// memory is a mistake of the kernel: nothing is said about what a device does. A vector of `w`
/// elements begins at a multiple of `w`. Between two barriers no element of memory may be stored to
/// by one invocation and loaded or stored to by another of the same workgroup; between workgroups
/// never within a launch. Atomics do not disturb each other.
///
/// **cp.async** copies are asynchronous. From its `CpAsync` on, the elements that a copy brings may
/// not be accessed; the invocation's `CpAsyncWait` ends that, and the elements then count as stored
/// by it there, so that others see them after a barrier. A kernel ends with no copy under way.
///
/// **TMA** tiles are loaded by the workgroup, asynchronously: from its `TmaLoad` on a tile may not
/// be accessed, and the `MbarrierWait` of its mbarrier ends that, for all invocations, without a
/// barrier. The layout of a tile in shared memory is opaque (swizzled): shared memory to which
/// tiles are loaded is for them alone, and wgmma (`WgmmaSs`, `WgmmaRs`) alone reads it. Products
/// are asynchronous, too: until a `WgmmaWait` has waited for one, its operands may not change and
/// its accumulators may not be read. A kernel ends with none under way.
///
/// **Uniform.** What is marked so must be reached by all invocations of a workgroup or by none:
/// inside of branches and loops whose conditions and bounds are the same for all of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// A number.
    Const(Constant),
    /// A parameter of the launch, by number.
    Param(u32),
    /// What an invocation knows about itself.
    Builtin(Builtin),
    /// An operation on one value.
    Unary(Unary, Value),
    /// An operation on two values of one type.
    Binary(Binary, Value, Value),
    /// A comparison of two values of one type.
    Compare(Compare, Value, Value),
    /// Floats: a * b + c with one rounding.
    Fma(Value, Value, Value),
    /// The second where the first (bool) is true, else the third. Both are there; only one counts.
    Select(Value, Value, Value),
    /// To another scalar type. Float to float: nearest even, overflow to infinity. Integer to
    /// float: nearest even. Float to integer: cut towards zero, saturating; NaN gives 0. Integer to
    /// integer: wraps, or is widened with its own sign. Bool to number: 0 or 1. Number to bool: x
    /// != 0 (true for NaN).
    Convert(Scalar, Value),
    /// Float to an integer of the same width and signed: cut towards zero if it then fits,
    /// otherwise any integer. Cheaper than `Convert`, for formulas that know the range or throw the
    /// result away.
    FpToSi(Value),
    /// The same bits as a type of the same width; not of bool.
    Bitcast(Scalar, Value),
    /// A vector of `width` copies.
    Splat(u8, Value),
    /// A vector of these scalars.
    Compose(Vec<Value>),
    /// One number of a vector.
    Extract(Value, u8),
    /// Elements at an index, widened to the type that is computed with: one, or a vector of 2 or 4.
    Load(Place, Value, u8),
    /// Stores a value at an index: rounded to nearest even for storage floats, cut to eight bits
    /// for bytes.
    Store(Place, Value, Value),
    /// Changes one i32 or u32 in memory as if alone; gives what was there.
    Atomic(Atomic, Place, Value, Value),
    /// Waits for all invocations of the workgroup; what they stored before (in shared memory and in
    /// buffers) is seen by all of them after. Uniform.
    Barrier,
    /// Begins to copy elements of a read-only buffer to shared memory of such elements: 4, 8 or 16
    /// bytes, which begin at multiples of as many in both. Where the condition is false, zeros are
    /// brought, and the buffer is not looked at.
    CpAsync {
        /// Shared memory.
        to: Place,
        /// Where the elements go.
        at: Value,
        /// A buffer.
        from: Place,
        /// Where the elements are.
        index: Value,
        /// How many.
        count: u8,
        /// A condition.
        there: Value,
    },
    /// Makes one group of the copies that were begun since the last group; of none, too. Uniform.
    CpAsyncCommit,
    /// Waits until at most so many of the last groups are under way. Uniform.
    CpAsyncWait(u8),
    /// The value of another lane of the subgroup: of lane (operand modulo the subgroup's size).
    /// Uniform.
    Shuffle(Value, Value),
    /// The value of one lane of the subgroup, whose number is a constant below the subgroup's size.
    /// Uniform.
    Broadcast(Value, u8),
    /// All lanes of the subgroup combined. Uniform.
    Reduce(Reduce, Value),
    /// A fragment from memory: where it begins, elements from row to row (or column to column).
    /// Both are the same for all lanes of the subgroup. Uniform.
    FragmentLoad(Fragment, FragmentLayout, Place, Value, Value),
    /// A fragment that is one number everywhere. Uniform.
    FragmentFill(Fragment, Value),
    /// c + a * b of fragments. Of f64: the chain of fma over k that begins with c, in ascending
    /// order, to the bit; a device on which that was not seen to be so must not be given it. Of
    /// others, products are exact; in which order they are added, and how sums are rounded on the
    /// way, is the device's business, so only work that was asked for as fast may use it. (The
    /// interpreter chains fma over k, too.) Uniform.
    FragmentMulAdd(Value, Value, Value),
    /// The numbers that a lane has of eight columns of sums, from column 8 i on: with g = lane / 4
    /// and t = 2 (lane % 4), those of (row g, column t), (g, t + 1), (g + 8, t), (g + 8, t + 1).
    /// For fragments of 16 rows in subgroups of 32, which not every device spreads so. Uniform.
    FragmentExtract(Value, u8),
    /// The fragment of such numbers, a vector of four for each eight columns: sums, or a left
    /// factor of 16-bit floats, to which they are rounded. Uniform.
    FragmentCompose(Fragment, Vec<Value>),
    /// A fragment to memory: place, where it begins, elements from row to row, what. Uniform.
    FragmentStore(FragmentLayout, Place, Value, Value, Value),
    /// Begins to load tiles of tensor views to shared memory (`cp.async.bulk.tensor`): when all of
    /// them have arrived, the phase of the mbarrier is over. There are two phases, 0 and 1, in
    /// turn, and the first is 0. Nothing else may be under way for the mbarrier. Uniform, also in
    /// its operands.
    TmaLoad {
        /// Which mbarrier.
        mbarrier: Value,
        /// The tiles.
        tiles: Vec<TmaTile>,
    },
    /// Waits until a phase (0 or 1) of an mbarrier is over: it is, if the mbarrier is in the other
    /// one. To wait for a phase in which nothing is under way is to wait for ever, and a mistake.
    /// Uniform, also in its operands.
    MbarrierWait(Value, Value),
    /// Begins products of blocks in shared memory (`wgmma`, both factors from shared memory). Each
    /// [`super::WARPGROUP`] of the workgroup has 64 rows, of which each subgroup of 32 has the next
    /// 16, and multiplies 64 terms of them (32 of f32) with as many columns as there are
    /// accumulators. Of rows one block is read, which begins at `a`; of columns one block for each
    /// 64, one behind the other from `b` on. A block begins at a multiple of
    /// [`super::WGMMA_BLOCK_BYTES`] and has 64 lines of [`super::TILE_ROW_BYTES`] bytes: of rows by
    /// terms (`RowMajor` for a, `ColumnMajor` for b: K-major), or, if they are of 16 bits, of
    /// terms. Accumulators are fragments of 16 columns each, side by side; nothing else reads the
    /// old ones. How a device adds is as in `FragmentMulAdd`. Uniform; `a` and `b` are the same for
    /// a warpgroup.
    WgmmaSs {
        /// Where the rows are, and the layout of a block of them.
        a: (FragmentLayout, Place, Value),
        /// Where the columns are, and the layout of a block of them.
        b: (FragmentLayout, Place, Value),
        /// c, which becomes c + a * b.
        sums: Vec<Value>,
    },
    /// The same with rows from registers (`wgmma`, left factor from registers): four fragments of
    /// 16-bit floats, side by side, are the 64 terms of a subgroup's 16 rows. Until the product was
    /// waited for they may not be made anew, as a loop's next iteration would. Uniform.
    WgmmaRs {
        /// The rows.
        a: [Value; 4],
        /// Where the columns are, and the layout of a block of them.
        b: (FragmentLayout, Place, Value),
        /// c, which becomes c + a * b.
        sums: Vec<Value>,
    },
    /// Waits until at most so many of the last wgmma products are under way. Uniform.
    WgmmaWait(u8),
    /// The first region where the condition (one bool) is true, else the second. What a region
    /// yields are the results.
    If(Value, Region, Region),
    /// A counted loop.
    For {
        /// The first index.
        start: Value,
        /// The loop runs while the index is below this.
        end: Value,
        /// What is added to the index; it is above 0, and adding it does not wrap.
        step: Value,
        /// What is carried into the first turn.
        init: Vec<Value>,
        /// A turn: its arguments are the index and what is carried, and it yields what the next
        /// turn gets. What the last turn yields are the results (without a turn, `init`).
        body: Region,
    },
}
