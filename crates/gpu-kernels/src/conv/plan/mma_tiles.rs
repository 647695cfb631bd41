//! Tiles of convolutions on tensor cores: those of products, or a wide one.

use super::super::TensorCores;
use super::thresholds::WIDE_TILING;
use crate::gemm::mma_sync::{MmaTile, WarpTiling};
use crate::gemm::plan::split_k::SUBGROUPS_PER_UNIT;

/// A tile for `batches` products of so many rows and columns, if the device has room for one.
pub(in crate::conv) fn tile(
    TensorCores { unit, lanes, limits }: TensorCores,
    batches: usize,
    sums: [usize; 2],
) -> Option<MmaTile> {
    if let Some(wide) = MmaTile::cut(unit, lanes, WIDE_TILING, limits) {
        let size = [0, 1].map(|side| wide.size(side) as usize);
        let tiles = (0..2).map(|side| sums[side].div_ceil(size[side])).product::<usize>();
        let subgroups = wide.subgroups.iter().product::<u32>() as usize * batches * tiles;
        let is_busy = subgroups >= limits.compute_units.filled_by(SUBGROUPS_PER_UNIT);
        if is_busy && (size[0] / 2 + 1..=size[0]).contains(&sums[0]) {
            return Some(wide);
        }
    }
    MmaTile::of(unit, lanes, batches, sums, limits)
}

/// The cuts that are worth a try, but for that of the tile that is chosen.
pub(in crate::conv) fn cuts(
    TensorCores { unit, lanes, limits }: TensorCores,
    sums: [usize; 2],
    chosen: MmaTile,
) -> Vec<WarpTiling> {
    let wide = MmaTile::cut(unit, lanes, WIDE_TILING, limits).map(|tile| (WIDE_TILING, tile));
    let all = MmaTile::tried(unit, lanes, sums, limits).into_iter().chain(wide);
    all.filter(|(_, tile)| *tile != chosen).map(|(cut, _)| cut).collect()
}
