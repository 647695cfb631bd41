//! Products in blocks, as problems and as plans. Factors are seen as what can be read of them, so
//! they may be matrices in memory or the operands of a convolution.

use crate::gemm::kernels::{Blocking, TermKind};

/// Rows that are taps and have one address: neighbouring taps see neighbouring elements.
pub(crate) const TAPS_PER_ADDRESS: usize = 3;

/// Which factor is packed once for all tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PackPlan {
    /// Neither: each task packs its blocks.
    PerTask,
    /// The left one, whole.
    SharedA,
    /// The right one, a block of it after the other: each thread packs columns, and begins with
    /// them.
    SharedB,
    /// Neither: each thread makes products of its own.
    PerProduct,
    /// The right one is there already, packed.
    Prepacked,
}

/// How a left factor can be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccessA {
    /// Distance of rows whose terms are neighbours in memory.
    pub(crate) rows: Option<usize>,
    /// Are rows taps of windows that are better read in padded planes than packed?
    pub(crate) taps: bool,
}

/// How a right factor can be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccessB {
    pub(crate) columns: ColumnAccess,
    /// Are neighbours of a row side by side, as if packed?
    pub(crate) panels: bool,
    /// If columns are windows that are better read in padded planes than packed: how many are taken
    /// together.
    pub(crate) windows: Option<usize>,
}

/// Whether the terms of columns are neighbours in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnAccess {
    /// They are not.
    Packed,
    /// They are, but are converted on their way, or columns go backwards.
    Converted,
    /// They are, and are computed as they are stored.
    InPlace,
}

/// A batch of products whose factors can be packed: y[batch, m, n].
#[derive(Clone, Copy, Debug)]
pub(crate) struct GemmProblem {
    pub(crate) batch: usize,
    pub(crate) m: usize,
    /// Terms: elements, or pairs.
    pub(crate) k: usize,
    pub(crate) n: usize,
    /// Bytes of a number as it is computed.
    pub(crate) bytes: usize,
    /// What the factors pack.
    pub(crate) kind: TermKind,
    pub(crate) a: AccessA,
    pub(crate) b: AccessB,
}

/// What is multiplied, and by what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Units {
    /// Elements, in vector registers.
    Fma,
    /// Pairs of bf16, in vector registers.
    Bf16Pairs,
    /// Pairs of bf16, in registers that are matrices.
    Amx,
}

impl Units {
    /// What factors hold.
    pub(crate) fn terms(self) -> TermKind {
        match self {
            Units::Fma => TermKind::Elements,
            Units::Bf16Pairs | Units::Amx => TermKind::Bf16Pairs,
        }
    }
}

/// Where rows of the left factor come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadA {
    InPlace,
    /// Tiles whose rows begin and end where taps do read them in padded planes; others pack them.
    Taps,
    Pack,
}

/// What is run for a [`GemmProblem`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct GemmPlan {
    pub(crate) units: Units,
    pub(crate) blocking: Blocking,
    /// Nanoseconds of one thread; 0 if it is too little to be shared.
    pub(crate) ns: f64,
    pub(crate) a: ReadA,
    /// Are the rows that come next prefetched? They are in memory.
    pub(crate) prefetches_a: bool,
    pub(crate) schedule: Schedule,
    /// What led to the schedule.
    pub(crate) why: &'static str,
}

/// Who packs what, and in which order tiles are made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Schedule {
    /// There are no terms, or no results: sums are zeros.
    NoTerms,
    SmallM(SmallMPlan),
    /// Each task packs its blocks, or reads factors where they are.
    PrivatePacking(PrivatePackingPlan),
    /// The left factor is packed whole, once.
    SharedA {
        /// Are columns read in padded planes? Otherwise each task packs its own.
        windows: bool,
    },
    /// Blocks of `nc` columns and `kc` terms of the right factor are packed by all threads.
    SharedB {
        nc: usize,
        kc: usize,
    },
    /// Each thread makes products, and packs the right factor of each whole.
    PerProduct,
    /// The right factor is packed already.
    Prepacked {
        /// Are tiles taken in turn? The columns behind a tile's are prefetched, so they should come
        /// next.
        in_turn: bool,
    },
}

/// Few rows by columns that are in memory: the transposed product, whose left factor is the
/// columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SmallMPlan {
    /// Are rows so few that they have a kernel of their own? Otherwise the microkernel multiplies
    /// them.
    pub(crate) few: bool,
    /// Terms of all rows that are packed at once.
    pub(crate) kc: usize,
    /// Columns whose sums wait together: those of a tile if there are more terms than `kc`.
    pub(crate) accumulators: usize,
}

/// How the tiles of a product are made whose tasks pack for themselves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrivatePackingPlan {
    /// Tiles of no more rows, and no fewer columns, read columns where they are.
    pub(super) gemv_max_rows: usize,
    pub(super) gemv_min_cols: usize,
    /// Are their rows read in place?
    pub(super) gemv_a_in_place: bool,
    /// Are rows read in place in other tiles?
    pub(super) a_in_place: bool,
    /// Are whole panels read in place, and how many columns have they?
    pub(super) direct_b: bool,
    pub(super) nr: usize,
}

/// How a tile is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TilePath {
    /// Few rows by columns that are read in place.
    Gemv { pack_a: bool },
    /// Both factors are read in place.
    InPlace,
    /// Rows are packed or not; of the right factor, so many columns are read in place.
    Pack { pack_a: bool, direct: usize },
}

impl PrivatePackingPlan {
    /// A tile of so many rows and columns.
    pub(crate) fn tile(&self, rows: usize, cols: usize) -> TilePath {
        if rows <= self.gemv_max_rows && cols >= self.gemv_min_cols {
            return TilePath::Gemv { pack_a: !self.gemv_a_in_place };
        }
        let direct = if self.direct_b { cols / self.nr * self.nr } else { 0 };
        if self.a_in_place && direct == cols {
            return TilePath::InPlace;
        }
        TilePath::Pack { pack_a: !self.a_in_place, direct }
    }
}
