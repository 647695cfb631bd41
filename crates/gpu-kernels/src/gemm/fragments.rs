//! Tensor-core fragments of terms that are staged in shared memory, loaded (ldmatrix) and
//! multiplied by subgroups.

use super::mma_sync::MmaTile;
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Builtin, Constant, Elem, FragmentLayout as Order, Place, Role, Scalar};

/// Shared memory for both sides, with a slot for each step that a tile keeps under way.
pub(crate) struct Fragments<'k> {
    k: &'k Builder,
    tile: MmaTile,
    /// Do neighbouring terms are contiguous, by side?
    k_major: [bool; 2],
    pub places: [Place; 2],
}

impl<'k> Fragments<'k> {
    pub fn new(k: &'k Builder, tile: MmaTile, elem: Elem, k_major: [bool; 2]) -> Self {
        let places = [0, 1].map(|side| {
            let (lines, inner) = lines(tile, k_major, side);
            let pitch = tile.pitch(inner, k_major[side]);
            k.shared(["rows", "columns"][side], elem, lines * pitch * tile.slots.max(1))
        });
        Fragments { k, tile, k_major, places }
    }
    /// From line to line of what is staged of a side.
    pub fn pitch(&self, side: usize) -> u32 {
        self.tile.pitch(lines(self.tile, self.k_major, side).1, self.k_major[side])
    }
    /// The first row and column of the subgroup, from the workgroup's.
    pub fn firsts(&self) -> [Val<'k>; 2] {
        let t = self.tile;
        let subgroup = self.k.builtin(Builtin::SubgroupId);
        let across = i64::from(t.subgroups[1]);
        let place = [subgroup / across, subgroup % across];
        [0, 1].map(|side| place[side] * i64::from(t.each[side] * u32::from(t.unit.shape[side])))
    }
    /// The sums of no terms of a subgroup: fragments, row by row.
    pub fn none(&self) -> Vec<Val<'k>> {
        let (k, t) = (self.k, self.tile);
        let zero = k.constant(Constant::float(Scalar::F32, 0.0));
        vec![k.fragment_fill(t.unit.fragment(Role::C), zero); (t.each[0] * t.each[1]) as usize]
    }
    /// The sums with those of a step: where it begins in shared memory by side, the subgroup's
    /// firsts, the sums before.
    pub fn step(&self, bases: [Val<'k>; 2], firsts: [Val<'k>; 2], sums: &[Val<'k>]) -> Vec<Val<'k>> {
        let (k, t) = (self.k, self.tile);
        let mut sums = sums.to_vec();
        for part in 0..t.depth / u32::from(t.unit.shape[2]) {
            let at = part * u32::from(t.unit.shape[2]);
            let [a, b] = [0, 1].map(|side| -> Vec<Val<'k>> {
                let first = (bases[side], firsts[side]);
                (0..t.each[side]).map(|u| self.fragment(side, first, [u, at])).collect()
            });
            for (f, sum) in sums.iter_mut().enumerate() {
                *sum = k.fragment_mul_add(a[f / b.len()], b[f % b.len()], *sum);
            }
        }
        sums
    }
    /// Fragment `u` of a side, from term `at` of what is staged; where that begins, and the
    /// subgroup's first row or column in it.
    fn fragment(&self, side: usize, (base, first): (Val<'k>, Val<'k>), [u, at]: [u32; 2]) -> Val<'k> {
        let (k, t, k_major) = (self.k, self.tile, self.k_major[side]);
        let role = [Role::A, Role::B][side];
        let pitch = i64::from(self.pitch(side));
        let place = first + i64::from(u * u32::from(t.unit.shape[side]));
        let begin =
            base + if k_major { place * pitch + i64::from(at) } else { place + i64::from(at) * pitch };
        // Rows of the left factor run over terms, and rows of the right one over columns.
        let order = if k_major == (role == Role::A) { Order::RowMajor } else { Order::ColumnMajor };
        k.fragment_load(t.unit.fragment(role), order, self.places[side], begin, k.u32(pitch as u32))
    }
}

/// What is staged of a side at a time: how many lines, and how many numbers in each.
fn lines(tile: MmaTile, k_major: [bool; 2], side: usize) -> (u32, u32) {
    if k_major[side] { (tile.size(side), tile.depth) } else { (tile.depth, tile.size(side)) }
}
