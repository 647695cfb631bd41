//! Products whose chunks are side by side in a workgroup: the reference's bits.

use crate::gemm::{Case, bits, noise, tiny};
use elinvar_core::DType;
use elinvar_gpu_kernels::ComputeUnits;
use elinvar_gpu_kernels::gemm::mma_sync::WorkgroupLimits;
use elinvar_gpu_kernels::gemm::{self, in_block_split_k};

fn limits(cp_async: bool) -> WorkgroupLimits {
    WorkgroupLimits {
        invocations: 1024,
        shared: if cp_async { 227 << 10 } else { 48 << 10 },
        cp_async,
        compute_units: ComputeUnits::default(),
    }
}

fn check(case: &Case, dtype: DType, tile: in_block_split_k::InBlockSplitKTile) {
    for number in [&noise as &dyn Fn(usize, usize) -> f32, &tiny] {
        let got = case.run(dtype, &|p| in_block_split_k::contract(p, tile), number);
        let (sizes, along) = (case.sizes, case.along);
        assert_eq!(bits(&got), bits(&case.want(dtype, number)), "{dtype} {sizes:?} {along:?} {tile:?}");
    }
}

/// Few rows and more, columns that no tile divides, terms around the edges of a chunk, lines that
/// do not begin at 16 bytes.
#[test]
fn few_rows() {
    let terms = [0, 1, 511, 512, 513, 1500, 4, 68];
    let columns = [20, 33, 8, 1, 64, 5];
    for (round, m) in [1, 2, 7, 8, 9, 31, 32, 33].into_iter().enumerate() {
        for (turned, k) in [0, 1, 2, 3].into_iter().map(|t| (t, terms[(round + 3 * t) % terms.len()])) {
            // Long ones take long.
            let n = if m * k > 8000 { 12 } else { columns[(round + turned) % columns.len()] };
            let dtype = [DType::F32, DType::F32, DType::F16, DType::F64][(round + turned) % 4];
            let (along, room) = ([turned & 1 == 0, turned & 2 == 0], [0, 4, 1][(round + turned) % 3]);
            let case = Case { sizes: [1 + turned % 2, m, k, n], along, room, own: round % 2 == 0 };
            let tile = in_block_split_k::InBlockSplitKTile::of(
                dtype,
                [1 + turned % 2, m, n, k],
                limits(round % 3 > 0),
            );
            check(&case, dtype, tile.expect("there is room"));
        }
    }
}

/// All layouts, by copies and by registers; more chunks than are side by side, the last of them
/// short, alone, or with others.
#[test]
fn chunks_come_in_rounds() {
    let tiles = [([1, 4], [2, 1], 2), ([4, 8], [1, 1], 2), ([2, 2], [2, 4], 1), ([1, 8], [1, 1], 4)];
    for (round, k) in [4, 508, 512, 516, 1024, 1028, 1500, 2052, 2600].into_iter().enumerate() {
        for turned in 0..4 {
            let (group, each, chunks) = tiles[(round + turned) % tiles.len()];
            let slots = [2, 3, 0][(round + turned) % 3];
            let part = gemm::SimtTile { group, each, depth: 32, slots };
            let along = [turned & 1 == 0, turned & 2 == 0];
            let case = Case { sizes: [1, 4, k, 8], along, room: 0, own: true };
            check(&case, DType::F32, in_block_split_k::InBlockSplitKTile { part, chunks });
        }
    }
}

#[test]
fn a_tile_is_chosen() {
    // b, m, n, k; rows and columns of a tile, rows and columns of an invocation, chunks.
    let rows = [
        ([1, 1, 1024, 1024], [1, 8], [1, 1], 2),
        ([1, 8, 1024, 1024], [8, 8], [1, 1], 2),
        ([1, 32, 1024, 1024], [16, 16], [2, 1], 2),
        ([1, 1, 4096, 4096], [1, 32], [1, 1], 8),
        ([1, 8, 4096, 4096], [8, 32], [4, 2], 8),
        ([1, 32, 4096, 4096], [32, 32], [8, 4], 8),
        ([1, 1, 50000, 700], [1, 64], [1, 1], 2),
        ([1, 4096, 1, 4096], [32, 1], [1, 1], 8),
        ([1, 512, 512, 512], [64, 32], [4, 2], 1),
        ([1, 1024, 1024, 1024], [64, 64], [8, 4], 2),
        ([200, 7, 5, 0], [8, 8], [1, 1], 1),
    ];
    for (sizes, size, each, chunks) in rows {
        let t =
            in_block_split_k::InBlockSplitKTile::of(DType::F32, sizes, limits(true)).expect("there is room");
        let got = [0, 1].map(|side| t.part.group[side] * t.part.each[side]);
        assert_eq!((got, t.part.each, t.chunks), (size, each, chunks), "{sizes:?}");
        assert!(t.part.slots >= 2, "{sizes:?}");
        let narrow =
            in_block_split_k::InBlockSplitKTile::of(DType::F64, sizes, limits(false)).expect("there is room");
        assert_eq!(narrow.part.slots, 0);
    }
    assert_eq!(in_block_split_k::InBlockSplitKTile::of(DType::I32, [1, 1, 1024, 1024], limits(true)), None);
    let none = WorkgroupLimits { shared: 0, ..limits(true) };
    assert_eq!(in_block_split_k::InBlockSplitKTile::of(DType::F32, [1, 1, 1024, 1024], none), None);
}
