//! From the fragments of a workgroup to the elements of a result, through an epilogue.
//!
//! Each subgroup hands over its fragments, some side by side at a time, through shared memory, where its invocations find the
//! elements that the epilogue is for.

use super::contract::Matrix;
use super::formula::{Compute, Formula};
use crate::build::{Builder, Val};
use crate::ir::{Builtin, Elem, Layout as Order, Place};

/// How many fragments, and how they are handed over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handing {
    /// Subgroups of a workgroup, and invocations of each.
    pub subgroups: u32,
    pub lanes: u32,
    /// Rows and columns of a fragment.
    pub fragment: [u32; 2],
    /// Fragments of a subgroup along m and n, and how many are handed over at a time, side by side.
    pub each: [u32; 2],
    pub together: u32,
}

impl Handing {
    /// Columns that are handed over at a time, and from row to row in shared memory: half-warps store rows that begin in different
    /// banks.
    pub fn handed(self) -> (u32, u32) {
        let columns = self.fragment[1] * self.together;
        (columns, columns + 8)
    }
    /// Elements that a subgroup hands over at a time.
    pub fn sums(self) -> u32 {
        self.fragment[0] * self.handed().1
    }
    /// Elements of shared memory, of f32.
    pub fn elements(self) -> u32 {
        self.subgroups * self.sums()
    }
}

/// Where elements belong.
pub(super) struct Finish<'k, 'f> {
    pub k: &'k Builder,
    pub handing: Handing,
    pub epilogue: &'f dyn Formula,
    pub compute: Compute,
    /// Further operands of the epilogue, and the result.
    pub extra: &'f [Matrix<'k>],
    pub y: Place,
    /// Columns of y that are stored at once.
    pub stores: u8,
    /// The first row and column of the workgroup, and of the subgroup from there.
    pub corner: [Val<'k>; 2],
    pub firsts: [Val<'k>; 2],
    /// Rows and columns of y; which batch, and is there work at all?
    pub sizes: [Val<'k>; 2],
    pub batch: Val<'k>,
    pub exists: Val<'k>,
}

impl<'k> Finish<'k, '_> {
    /// Stores what becomes of a subgroup's sums: fragments, row by row.
    pub fn store(&self, sums: &[Val<'k>]) {
        let (k, t) = (self.k, self.handing);
        let ([m, n], number) = (self.sizes, self.batch.scalar());
        let out = k.shared("sums", Elem::F32, t.elements());
        let (columns, pitch) = t.handed();
        let lane = k.builtin(Builtin::SubgroupLane);
        let mine = k.builtin(Builtin::SubgroupId) * i64::from(t.sums());
        // Neighbours of a row are stored at once where all of them are there, or none.
        let width = u32::from(self.stores);
        let (pieces, row) = (t.fragment[0] * columns / width, i64::from(columns / width));
        for (f, sums) in sums.chunks(t.together as usize).enumerate() {
            let f = f as u32 * t.together;
            let at = [f / t.each[1], f % t.each[1]];
            if f > 0 {
                // What was handed over before has been taken.
                k.barrier();
            }
            for (i, &sum) in sums.iter().enumerate() {
                let first = mine + i as i64 * i64::from(t.fragment[1]);
                k.fragment_store(Order::Rows, out, first, k.u32(pitch), sum);
            }
            k.barrier();
            for round in 0..pieces.div_ceil(t.lanes) {
                let e = lane + i64::from(round * t.lanes);
                let cell = [e / row, e % row * i64::from(width)];
                let [i, j] = [0, 1].map(|side| {
                    let within = self.firsts[side] + i64::from(at[side] * t.fragment[side]) + cell[side];
                    self.corner[side] + within.to(number)
                });
                let mut there = i.lt(m) & j.lt(n) & self.exists;
                if (round + 1) * t.lanes > pieces {
                    there = there & e.lt(k.u32(pieces));
                }
                k.if_(there, || {
                    let from = mine + cell[0] * i64::from(pitch) + cell[1];
                    let mut given = vec![k.load(out, from, self.stores)];
                    given.extend(self.extra.iter().map(|e| {
                        let each: Vec<Val> =
                            (0..width).map(|v| k.load(e.place, e.at(i, j + i64::from(v)), 1)).collect();
                        self.compute.enter(k.join(&each))
                    }));
                    let result = self.epilogue.emit(k, self.compute, &given).splat(self.stores);
                    k.store(self.y, (self.batch * m + i) * n + j, result);
                });
            }
        }
    }
}
