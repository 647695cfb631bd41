//! Tiles of products: lists from the largest to the smallest, and which of them suits a number of
//! rows and columns on a device. They are made for speed alone.

use super::split_k::{F64_MMA_GROUPS_PER_UNIT, SUBGROUPS_PER_UNIT};
use crate::gemm::SimtTile;
use crate::gemm::f64_tensor_core::F64MmaTile;
use crate::gemm::in_block_split_k::{InBlockSplitKTile, LINE_BYTES};
use crate::gemm::mma_sync::{MAX_K_FRAGMENTS, MmaTile, WarpTiling};
use crate::gemm::split_k_reduce;
use crate::gemm::tma_wgmma::WgmmaTile;
use crate::launch::WorkgroupLimits;
use elinvar_core::{DType, order};
use elinvar_kernel::ir::MmaShape;

/// The tiles that are tried. More sums for an invocation mean fewer loads for each, and fewer
/// invocations.
pub(super) const SIMT: [SimtTile; 14] = [
    SimtTile::PLAIN,
    SimtTile { group: [1, 8], each: [8, 2], depth: 0, slots: 0 },
    SimtTile { group: [2, 32], each: [8, 4], depth: 0, slots: 0 },
    SimtTile { group: [16, 16], each: [2, 2], depth: 0, slots: 0 },
    SimtTile { group: [8, 8], each: [4, 4], depth: 16, slots: 0 },
    SimtTile::SHARED,
    LARGE[0],
    LARGE[1],
    LARGE[2],
    CP_ASYNC[0],
    CP_ASYNC[1],
    CP_ASYNC[2],
    SimtTile { group: [16, 16], each: [8, 8], depth: 8, slots: 0 },
    SimtTile { group: [16, 16], each: [8, 4], depth: 8, slots: 4 },
];

/// Tiles of few loads for each product, the best first, for where there are many of them. Terms go
/// through registers, which is faster on an H100 than cp.async, or half as many terms at a time.
/// Workgroups of 128 follow each other more closely than those of 256, of which a product of 2048
/// has no more than one wave.
pub(super) const LARGE: [SimtTile; 3] = [
    SimtTile { group: [8, 16], each: [8, 8], depth: 16, slots: 0 },
    SimtTile { group: [16, 16], each: [8, 4], depth: 16, slots: 0 },
    SimtTile { group: [16, 16], each: [8, 8], depth: 16, slots: 0 },
];
/// The same with terms that copies bring: one barrier for each step instead of two, and no
/// registers for what is on its way. Of f64 they are faster, since what is on its way takes twice
/// the registers.
pub(super) const CP_ASYNC: [SimtTile; 3] = [
    SimtTile { group: [16, 16], each: [8, 8], depth: 16, slots: 3 },
    SimtTile { group: [8, 16], each: [8, 8], depth: 16, slots: 3 },
    SimtTile { group: [8, 16], each: [4, 4], depth: 16, slots: 3 },
];

impl WarpTiling {
    /// From the largest to the smallest. The first is for devices with more than 48 KiB of shared
    /// memory: half as many barriers. Of the second, 48 KiB hold three slots of as many terms as a
    /// unit takes, and registers no more than those of one step beside all sums.
    const DEFAULT_TILINGS: [WarpTiling; 5] = [
        WarpTiling { subgroups: [2, 2], each: [4, 4], deep: MAX_K_FRAGMENTS, slots: 3 },
        WarpTiling { subgroups: [2, 2], each: [4, 4], deep: 1, slots: 3 },
        WarpTiling { subgroups: [2, 2], each: [2, 2], deep: MAX_K_FRAGMENTS, slots: 3 },
        WarpTiling { subgroups: [1, 4], each: [1, 1], deep: MAX_K_FRAGMENTS, slots: 4 },
        WarpTiling { subgroups: [1, 1], each: [1, 1], deep: MAX_K_FRAGMENTS, slots: 4 },
    ];
    /// For devices with more shared memory: fewer barriers, or fewer loads from memory for each
    /// product, at the price of fewer workgroups side by side. Which of it counts more has to be
    /// tried.
    const LARGE_SMEM_TILINGS: [WarpTiling; 2] = [
        WarpTiling { subgroups: [2, 4], each: [4, 4], deep: 1, slots: 4 },
        WarpTiling { subgroups: [2, 2], each: [4, 4], deep: MAX_K_FRAGMENTS, slots: 4 },
    ];
    /// Those of the first list that a device may gain by. What comes through registers has no room
    /// for twice as many terms there.
    fn chosen(limits: WorkgroupLimits) -> impl Iterator<Item = WarpTiling> {
        WarpTiling::DEFAULT_TILINGS.into_iter().skip(usize::from(!limits.cp_async))
    }
    /// All that there are.
    pub fn all() -> impl Iterator<Item = WarpTiling> {
        WarpTiling::DEFAULT_TILINGS.into_iter().chain(WarpTiling::LARGE_SMEM_TILINGS)
    }
}

impl MmaTile {
    /// A tile for as many products of m by n sums, if the device has room for it.
    pub fn of(
        unit: MmaShape,
        lanes: u32,
        batches: usize,
        sums: [usize; 2],
        limits: WorkgroupLimits,
    ) -> Option<MmaTile> {
        let all = MmaTile::all(unit, lanes, limits);
        let fits = |t: &&MmaTile| t.is_for(sums);
        let subgroups = |t: &MmaTile| {
            let each = (t.subgroups[0] * t.subgroups[1]) as usize;
            each * batches * (0..2).map(|side| sums[side].div_ceil(t.size(side) as usize)).product::<usize>()
        };
        // The largest with which a device is busy, or else the one with the most to do side by
        // side.
        let busy = all
            .iter()
            .filter(fits)
            .find(|t| subgroups(t) >= limits.compute_units.filled_by(SUBGROUPS_PER_UNIT));
        let other = || all.iter().filter(fits).rev().max_by_key(|t| subgroups(t));
        busy.or_else(other).or(all.last()).copied()
    }

    /// The tiles that a device has room for, from the largest to the smallest. They are made for
    /// speed alone: a sum has the same bits with each of them.
    pub fn all(unit: MmaShape, lanes: u32, limits: WorkgroupLimits) -> Vec<MmaTile> {
        WarpTiling::chosen(limits).filter_map(|cut| MmaTile::cut(unit, lanes, cut, limits)).collect()
    }
    /// The tiles that are worth a try for so many sums, and how they are cut: also those that only
    /// measurement can judge.
    pub fn tried(
        unit: MmaShape,
        lanes: u32,
        sums: [usize; 2],
        limits: WorkgroupLimits,
    ) -> Vec<(WarpTiling, MmaTile)> {
        let one =
            |cut: WarpTiling| Some((cut, MmaTile::cut(unit, lanes, cut, limits).filter(|t| t.is_for(sums))?));
        let large = WarpTiling::LARGE_SMEM_TILINGS.into_iter().filter(|_| limits.cp_async);
        WarpTiling::chosen(limits).chain(large).filter_map(one).collect()
    }
    /// The tile that is cut so, if the device has room for it.
    pub fn cut(unit: MmaShape, lanes: u32, cut: WarpTiling, limits: WorkgroupLimits) -> Option<MmaTile> {
        let WorkgroupLimits { invocations, shared, cp_async, .. } = limits;
        let WarpTiling { subgroups, each, deep, slots } = cut;
        let depth = deep * u32::from(unit.shape[2]);
        let tile = MmaTile { unit, lanes, subgroups, each, depth, slots: if cp_async { slots } else { 0 } };
        (tile.invocations() <= invocations && tile.shared_bytes() <= shared).then_some(tile)
    }
    /// Are its rows and columns not mostly beyond the ends of y?
    fn is_for(self, sums: [usize; 2]) -> bool {
        (0..2).all(|side| self.size(side) as usize <= sums[side].next_multiple_of(32))
    }
}

impl WgmmaTile {
    /// From the largest to the smallest. They are made for speed alone: a sum goes through the same
    /// instructions with each of them.
    ///
    /// The first takes nearly all the shared memory of a multiprocessor of Hopper's, and half of
    /// its registers for sums; of the others two fit, so that one stores while the other
    /// multiplies.
    pub const ALL: [WgmmaTile; 4] = [
        WgmmaTile { groups: 2, columns: 256, slots: 4 },
        WgmmaTile { groups: 2, columns: 128, slots: 3 },
        WgmmaTile { groups: 1, columns: 128, slots: 4 },
        WgmmaTile { groups: 1, columns: 64, slots: 6 },
    ];

    /// A tile for as many products of m by n sums, if the device has room for it.
    pub fn of(batches: usize, sums: [usize; 2], limits: WorkgroupLimits) -> Option<WgmmaTile> {
        let all = || WgmmaTile::ALL.into_iter().filter(|t| t.shared_bytes() <= limits.shared);
        // Not those whose rows and columns are mostly beyond the ends of y.
        let fits =
            |t: &WgmmaTile| (0..2).all(|side| t.size(side) as usize <= sums[side].next_multiple_of(64));
        let count = |t: &WgmmaTile| {
            batches * (0..2).map(|side| sums[side].div_ceil(t.size(side) as usize)).product::<usize>()
        };
        all().filter(fits).find(|t| count(t) >= limits.compute_units.full_wave()).or(all().next_back())
    }
}

impl F64MmaTile {
    /// From the largest to the smallest. They are made for speed alone. The best of 25 on an H100,
    /// for products of 256 to 4096. Twice as many terms in a step gain hardly anything.
    pub const ALL: [F64MmaTile; 5] = [
        F64MmaTile { subgroups: [2, 4], each: [4, 4], depth: 16, slots: 4 },
        F64MmaTile { subgroups: [2, 4], each: [2, 4], depth: 16, slots: 4 },
        F64MmaTile { subgroups: [2, 2], each: [2, 4], depth: 16, slots: 4 },
        F64MmaTile { subgroups: [2, 2], each: [1, 4], depth: 16, slots: 4 },
        F64MmaTile { subgroups: [2, 2], each: [1, 2], depth: 16, slots: 4 },
    ];

    /// A tile for `[b, m, n, k]`, if the device has room for one: the largest with which it is
    /// busy, or else the smallest.
    pub fn of([b, m, n, _]: [usize; 4], limits: WorkgroupLimits) -> Option<F64MmaTile> {
        let all = || F64MmaTile::ALL.into_iter().filter(|t| t.fits(limits));
        let count = |t: &F64MmaTile| {
            b * m.div_ceil(t.size(0) as usize).saturating_mul(n.div_ceil(t.size(1) as usize))
        };
        all()
            .find(|t| count(t) >= limits.compute_units.filled_by(F64_MMA_GROUPS_PER_UNIT))
            .or(all().next_back())
    }
}

/// Rows and columns of a tile: not fewer, where there are more, and not more.
const MIN_TILE_SIDE: u32 = 8;
const MAX_TILE_SIDE: u32 = 64;
/// Chunks in parallel, at most.
const MAX_CHUNKS: usize = 8;
/// Invocations of a workgroup, if its sums are enough for them; with more sums each, they read
/// fewer terms for every product.
const BLOCK_THREADS: u32 = 256;
/// Rows and columns of an invocation, at most.
const MAX_THREAD_TILE: [u32; 2] = [8, 4];
/// Bytes that are under way at a time, and steps: beyond them nothing becomes faster.
const IN_FLIGHT_BYTES: u32 = 144 << 10;
const MAX_STAGES: u32 = 8;

impl InBlockSplitKTile {
    /// The tile for `[b, m, n, k]`; `None` if a device has no room for any, or numbers are no
    /// floats.
    pub fn of(dtype: DType, [b, m, n, k]: [usize; 4], limits: WorkgroupLimits) -> Option<InBlockSplitKTile> {
        let mut size = [m, n].map(|s| (s.max(1).next_power_of_two() as u32).min(MAX_TILE_SIDE));
        let count = |size: [u32; 2]| b * m.div_ceil(size[0] as usize) * n.div_ceil(size[1] as usize);
        let large = |size: &[u32; 2]| size[0].max(size[1]) > MIN_TILE_SIDE;
        let halve = |size: &mut [u32; 2]| size[usize::from(size[1] >= size[0])] /= 2;
        let busy = limits.compute_units.filled_by(1);
        while count(size) < busy && large(&size) {
            halve(&mut size);
        }
        let mut chunks = k.div_ceil(order::CHUNK).max(1).next_power_of_two().min(MAX_CHUNKS) as u32;
        loop {
            // Of more workgroups than multiprocessors two should fit, beside the kilobyte that a
            // device keeps for each.
            let shared =
                if count(size) > busy { (limits.shared / 2).saturating_sub(1024) } else { limits.shared };
            match InBlockSplitKTile::cut(dtype, size, chunks, WorkgroupLimits { shared, ..limits }) {
                None if chunks > 1 => chunks /= 2,
                None if large(&size) => halve(&mut size),
                tile => return tile,
            }
        }
    }

    /// The tile of so many rows and columns, if a device has room for it.
    fn cut(dtype: DType, size: [u32; 2], chunks: u32, limits: WorkgroupLimits) -> Option<InBlockSplitKTile> {
        if !dtype.is_float() {
            return None;
        }
        let most = limits.invocations.min(BLOCK_THREADS);
        let mut each = [1, 1];
        while chunks * size[0] * size[1] / (each[0] * each[1]) > most {
            let capacity = [0, 1].map(|side| each[side] < MAX_THREAD_TILE[side].min(size[side]));
            // Those of squares read the fewest terms.
            let side = usize::from(capacity[1] && (each[1] < each[0] || !capacity[0]));
            if !capacity[side] {
                return None;
            }
            each[side] *= 2;
        }
        let group = [0, 1].map(|side| size[side] / each[side]);
        let smem_elem = split_k_reduce::elem(dtype).size();
        let part = SimtTile { group, each, depth: LINE_BYTES / smem_elem, slots: 0 };
        let tile = InBlockSplitKTile { part, chunks };
        let slot = tile.slot_bytes();
        let capacity = limits.shared.checked_sub(tile.sums() * smem_elem)? / slot;
        let slots =
            if limits.cp_async { capacity.min((IN_FLIGHT_BYTES / slot).clamp(2, MAX_STAGES)) } else { 0 };
        let fits = capacity > 0 && tile.invocations() <= limits.invocations;
        // One slot is what terms go through that come by registers.
        fits.then_some(InBlockSplitKTile {
            part: SimtTile { slots: if slots > 1 { slots } else { 0 }, ..part },
            chunks,
        })
    }
}
