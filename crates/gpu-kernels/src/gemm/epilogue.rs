//! Epilogue of tensor-core GEMM: accumulator fragments through shared memory to the result, with
//! bias, activation or any formula.
//!
//! Each subgroup writes some of its fragments at a time to shared memory, where its invocations
//! find the elements that the epilogue is applied to and store them coalesced.

use super::StridedMatrix;
use crate::formula::{Compute, Formula};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Builtin, Elem, FragmentLayout as Order, Place};

/// How many fragments, and how they are handed over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EpilogueStaging {
    /// Subgroups of a workgroup, and invocations of each.
    pub subgroups: u32,
    pub lanes: u32,
    /// Rows and columns of a fragment.
    pub fragment: [u32; 2],
    /// Fragments of a subgroup along m and n, and how many are handed over at a time, side by side.
    pub each: [u32; 2],
    pub fragments_together: u32,
}

impl EpilogueStaging {
    /// Columns that are handed over at a time, and from row to row in shared memory: half-warps
    /// store rows that begin in different banks.
    pub fn staged_shape(self) -> (u32, u32) {
        let columns = self.fragment[1] * self.fragments_together;
        (columns, columns + 8)
    }
    /// Elements that a subgroup hands over at a time.
    pub fn sums(self) -> u32 {
        self.fragment[0] * self.staged_shape().1
    }
    /// Elements of shared memory, of f32.
    pub fn elements(self) -> u32 {
        self.subgroups * self.sums()
    }

    /// Stores what becomes of a subgroup's sums: fragments, row by row, `width` columns at once.
    /// `corner`, `firsts`: the first row and column of the workgroup, and of the subgroup from
    /// there.
    pub fn store<'k, T: EpilogueTarget<'k>>(
        self,
        k: &'k Builder,
        target: &T,
        (corner, firsts): ([Val<'k>; 2], [Val<'k>; 2]),
        width: u8,
        sums: &[Val<'k>],
    ) {
        let out = k.shared("sums", Elem::F32, self.elements());
        let (columns, pitch) = self.staged_shape();
        let lane = k.builtin(Builtin::SubgroupLane);
        let mine = k.builtin(Builtin::SubgroupId) * i64::from(self.sums());
        // Pieces of a row of fragments, and of all of their rows.
        let row = columns / u32::from(width);
        let pieces = self.fragment[0] * row;
        for (f, sums) in sums.chunks(self.fragments_together as usize).enumerate() {
            let f = f as u32 * self.fragments_together;
            let at = [f / self.each[1], f % self.each[1]];
            if f > 0 {
                // What was handed over before has been taken.
                k.barrier();
            }
            for (i, &sum) in sums.iter().enumerate() {
                let first = mine + i as i64 * i64::from(self.fragment[1]);
                k.fragment_store(Order::RowMajor, out, first, k.u32(pitch), sum);
            }
            k.barrier();
            let places = FragmentPlaces { fragment: self.fragment, at, corner, firsts };
            // Where a lane has the same columns in all rounds, they may be found once.
            let fixed = (T::COLUMNS_ONCE && self.lanes.is_multiple_of(row)).then(|| {
                let across = lane % i64::from(row) * i64::from(width);
                (across, target.columns(&places, across, width))
            });
            for round in 0..pieces.div_ceil(self.lanes) {
                let e = lane + i64::from(round * self.lanes);
                let found;
                let (down, across, columns) = match &fixed {
                    Some((across, columns)) => {
                        let rows = i64::from(round * (self.lanes / row));
                        (lane / i64::from(row) + rows, *across, columns)
                    }
                    None => {
                        let (down, across) = (e / i64::from(row), e % i64::from(row) * i64::from(width));
                        found = target.columns(&places, across, width);
                        (down, across, &found)
                    }
                };
                // The last round may have more lanes than pieces.
                let has = ((round + 1) * self.lanes > pieces).then(|| e.lt(k.u32(pieces)));
                let load = || k.load(out, mine + down * i64::from(pitch) + across, width);
                target.store(&EpiloguePiece { places: &places, down, has, width, load: &load }, columns);
            }
        }
    }
}

/// Where the numbers of some fragments belong.
pub(crate) struct FragmentPlaces<'k> {
    fragment: [u32; 2],
    /// Which fragments of the subgroup.
    at: [u32; 2],
    corner: [Val<'k>; 2],
    firsts: [Val<'k>; 2],
}

impl<'k> FragmentPlaces<'k> {
    /// The row or column of the result, of one in the fragments.
    pub fn of(&self, side: usize, cell: Val<'k>) -> Val<'k> {
        let within = self.firsts[side] + i64::from(self.at[side] * self.fragment[side]) + cell;
        self.corner[side] + within.to(self.corner[side].scalar())
    }
}

/// Neighbours of a row of fragments that an invocation stores at once.
pub(crate) struct EpiloguePiece<'k, 'p> {
    pub places: &'p FragmentPlaces<'k>,
    /// Which row of the fragments.
    pub down: Val<'k>,
    /// Is it one at all?
    pub has: Option<Val<'k>>,
    pub width: u8,
    /// The sums.
    pub load: &'p dyn Fn() -> Val<'k>,
}

/// What is made of sums, and where that belongs.
pub(crate) trait EpilogueTarget<'k> {
    /// What is known of neighbouring columns.
    type Columns;
    /// Is that found once for as many rows as have the same columns?
    const COLUMNS_ONCE: bool;
    /// Of the columns from one in the fragments on.
    fn columns(&self, places: &FragmentPlaces<'k>, across: Val<'k>, width: u8) -> Self::Columns;
    /// Stores a piece, where it is there.
    fn store(&self, piece: &EpiloguePiece<'k, '_>, columns: &Self::Columns);
}

/// The result of a product.
pub(crate) struct GemmEpilogue<'k, 'f> {
    pub k: &'k Builder,
    pub epilogue: &'f dyn Formula,
    pub compute: Compute,
    /// Further operands of the epilogue, and the result.
    pub extra: &'f [StridedMatrix<'k>],
    pub y: Place,
    /// Rows and columns of y; which batch, and is there work at all?
    pub sizes: [Val<'k>; 2],
    pub batch: Val<'k>,
    pub exists: Val<'k>,
}

impl<'k> EpilogueTarget<'k> for GemmEpilogue<'k, '_> {
    /// The first of them in the fragments.
    type Columns = Val<'k>;
    const COLUMNS_ONCE: bool = false;
    fn columns(&self, _: &FragmentPlaces<'k>, across: Val<'k>, _: u8) -> Val<'k> {
        across
    }
    fn store(&self, piece: &EpiloguePiece<'k, '_>, across: &Val<'k>) {
        let (k, [m, n]) = (self.k, self.sizes);
        let (i, j) = (piece.places.of(0, piece.down), piece.places.of(1, *across));
        // Neighbours of a row are stored at once where all of them are there, or none.
        let mut there = i.lt(m) & j.lt(n) & self.exists;
        if let Some(has) = piece.has {
            there = there & has;
        }
        k.if_(there, || {
            let mut given = vec![(piece.load)()];
            given.extend(self.extra.iter().map(|e| {
                let each: Vec<Val> =
                    (0..piece.width).map(|v| k.load(e.place, e.at(i, j + i64::from(v)), 1)).collect();
                self.compute.enter(k.join(&each))
            }));
            let result = self.epilogue.emit(k, self.compute, &given).splat(piece.width);
            k.store(self.y, (self.batch * m + i) * n + j, result);
        });
    }
}
