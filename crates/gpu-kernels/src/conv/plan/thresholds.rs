//! The tiles of convolutions and the thresholds among them, each with its unit and its reason.

use crate::gemm::SimtTile;
use crate::gemm::mma_sync::WarpTiling;

/// For the usual 64 filters: twice as many columns are computed with what is loaded of them.
pub(in crate::conv) const WIDE_TILING: WarpTiling =
    WarpTiling { subgroups: [2, 2], each: [2, 4], deep: 1, slots: 3 };

/// Tiles with staged terms, from the largest to the smallest, and what part of a device's peak each
/// is good for, as a guess: the part of all instructions that are products, times what latency
/// leaves.
pub(super) const TILES: [(SimtTile, f64); 10] = [
    (LARGEST_TILES[0], 1.0),
    (LARGEST_TILES[1], 0.95),
    (tile([16, 16], [8, 4]), 0.95),
    (FORWARD_TILE, 0.85),
    (tile([8, 16], [8, 4]), 0.8),
    (tile([4, 32], [8, 4]), 0.78),
    (tile([8, 16], [4, 4]), 0.6),
    (tile([8, 8], [4, 4]), 0.5),
    (tile([16, 16], [4, 2]), 0.4),
    (tile([8, 16], [4, 2]), 0.4),
];
/// Those with the most sums.
pub(super) const LARGEST_TILES: [SimtTile; 2] = [tile([16, 16], [8, 8]), tile([8, 16], [8, 8])];
/// For forwards: 64 rows by 96 columns cut many a result into as many tiles as a device has room
/// for at a time.
pub(super) const FORWARD_TILE: SimtTile = SimtTile { group: [8, 24], each: [8, 4], depth: 16, slots: 3 };
/// What the largest is good for where twice as many workgroups of half its size are faster:
/// anywhere but in gradients by w.
pub(super) const HALF_TILE_GAIN: f64 = 0.9;
const fn tile(group: [u32; 2], each: [u32; 2]) -> SimtTile {
    SimtTile { group, each, depth: 8, slots: 3 }
}
/// A tile with terms that copies bring, and with those that go through registers, as many at a time
/// and twice as many.
pub(super) fn variants(tile: SimtTile) -> [SimtTile; 3] {
    [tile, SimtTile { slots: 0, ..tile }, SimtTile { slots: 0, depth: 2 * tile.depth, ..tile }]
}
/// What is left of it where another launch adds the sums of chunks.
pub(super) const SPLIT_K_EFFICIENCY: f64 = 0.95;
/// Workgroups of 64 invocations that keep a compute unit busy.
pub(super) const GROUPS_PER_UNIT: u32 = 8;
/// The same of workgroups that stage terms in shared memory, which are larger.
pub(super) const STAGED_GROUPS_PER_UNIT: u32 = 2;
/// Workgroups of eight rows for each invocation from which such are taken for direct convolution:
/// half of what keeps a compute unit busy, as each has twice the work.
pub(super) const TALL_GROUPS_PER_UNIT: u32 = GROUPS_PER_UNIT / 2;
/// Invocations that keep a compute unit busy.
pub(super) const THREADS_PER_UNIT: u32 = 256;
/// Fewer rows of a group would leave most of a tensor core unused.
pub(in crate::conv) const MIN_MMA_ROWS: usize = 8;
/// Fewer rows share too little of what a column's terms cost.
pub(in crate::conv) const MIN_ROWS: usize = 8;
/// Fewer products are over before a tile is staged.
pub(super) const MIN_PRODUCTS: usize = 1 << 12;
