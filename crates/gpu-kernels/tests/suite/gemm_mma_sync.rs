//! Products by tensor cores: the reference's bits where no sum is rounded, and the same bits with
//! every tile where some are.

use crate::gemm::{Case, bits, host, layout, tiny, uneven, whole};
use elinvar_core::{DType, HostData};
use elinvar_gpu_kernels::ComputeUnits;
use elinvar_gpu_kernels::gemm::mma_sync::{self, MmaTile, WorkgroupLimits};
use elinvar_gpu_kernels::gemm::{CatalogueEpilogue, GemmProblem};
use elinvar_kernel::ir::MmaShape;

/// All tiles, with copies and without.
fn tiles(dtype: DType) -> Vec<MmaTile> {
    let unit = MmaShape { elem: dtype.into(), shape: [16, 16, if dtype == DType::F32 { 8 } else { 16 }] };
    let limits = |cp_async| WorkgroupLimits {
        invocations: 1024,
        shared: 99 << 10,
        cp_async,
        compute_units: ComputeUnits::default(),
    };
    let mut all: Vec<MmaTile> =
        [false, true].into_iter().flat_map(|a| MmaTile::all(unit, 32, limits(a))).collect();
    // Those that are only tried are larger: the largest of them, once.
    let tried = MmaTile::tried(unit, 32, [512, 512], limits(true));
    all.extend(tried.into_iter().map(|(_, t)| t).filter(|t| !all.contains(t)).collect::<Vec<_>>());
    all
}

/// Rows, terms, columns; which factors are along their terms.
fn case([m, k, n]: [usize; 3], along: [bool; 2]) -> Case {
    Case { sizes: [1, m, k, n], along, room: 0, own: true }
}

fn product(case: &Case, dtype: DType, tile: MmaTile, number: &dyn Fn(usize, usize) -> f32) -> HostData {
    case.run(dtype, &|p| mma_sync::contract(p, tile), number)
}

#[test]
fn whole_numbers_are_exact() {
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        for (number, tile) in tiles(dtype).into_iter().enumerate() {
            // In pieces of 16 bytes and not; some of a tile, and more than one.
            for (round, sizes) in [[24, 40, 72], [40, 56, 8], [17, 33, 35]].into_iter().enumerate() {
                let along = [(number + round) % 2 == 0, (number / 2 + round) % 2 == 0];
                let case = case(sizes, along);
                let got = product(&case, dtype, tile, &whole);
                assert_eq!(got, case.want(dtype, &whole), "{dtype} {sizes:?} {along:?} {tile:?}");
            }
        }
    }
}

/// One row whose terms are not contiguous: the stride of an axis of one says nothing, and copies
/// beside it read nothing.
#[test]
fn a_row_may_lie_in_any_way() {
    for dtype in [DType::F16, DType::F32] {
        for tile in tiles(dtype) {
            let (m, k, n) = (1, 64, 64);
            for along in [[false, true], [false, false], [true, false]] {
                let got = product(&case([m, k, n], along), dtype, tile, &whole);
                let of = |i: usize, j: usize| {
                    let w = |t: usize| if along[1] { j * k + t } else { t * n + j };
                    (0..k).map(|t| whole(0, i * k + t) * whole(1, w(t))).sum::<f32>() + whole(2, i * n + j)
                };
                let want = host(dtype, (0..m * n).map(|at| of(at / n, at % n)));
                assert_eq!(got, want, "{dtype} {along:?} {tile:?}");
            }
        }
    }
}

#[test]
fn tiles_change_no_bit() {
    for dtype in [DType::BF16, DType::F32] {
        for (sizes, number) in [
            ([20, 8, 24], &uneven as &dyn Fn(usize, usize) -> f32),
            ([16, 48, 16], &uneven),
            ([16, 8, 16], &tiny),
            ([16, 16, 16], &tiny),
        ] {
            let case = case(sizes, [true, true]);
            let all = tiles(dtype);
            let of = |tile| product(&case, dtype, tile, number);
            let first = of(all[0]);
            for &tile in &all[1..] {
                assert_eq!(bits(&of(tile)), bits(&first), "{dtype} {sizes:?} {tile:?}");
            }
        }
    }
}

#[test]
fn a_tile_is_chosen() {
    let unit = MmaShape { elem: DType::F16.into(), shape: [16; 3] };
    let limits = WorkgroupLimits {
        invocations: 1024,
        shared: 48 << 10,
        cp_async: true,
        compute_units: ComputeUnits::default(),
    };
    // How many, of how many sums, and the rows and columns of the tile.
    let rows = [
        (1, [4096, 4096], [128, 128]),
        (1, [1024, 1024], [64, 64]),
        (16, [1024, 1024], [128, 128]),
        (1, [16, 4096], [16, 64]),
        (1, [8, 8], [16, 16]),
        (1, [256, 256], [16, 64]),
        (8, [256, 256], [64, 64]),
    ];
    for (batches, sums, want) in rows {
        let t = MmaTile::of(unit, 32, batches, sums, limits).expect("there is room");
        let size = [0, 1].map(|side| t.subgroups[side] * t.each[side] * 16);
        assert_eq!(size, want, "{batches} of {sums:?}");
    }
    let none = WorkgroupLimits { shared: 1000, ..limits };
    assert_eq!(MmaTile::of(unit, 32, 1, [64, 64], none), None);
    let plain = CatalogueEpilogue(None);
    let nothing = layout(&[1, 0, 8]);
    let tile = MmaTile::of(unit, 32, 1, [64, 64], limits).expect("there is room");
    let work =
        mma_sync::contract(&GemmProblem::new(&plain, DType::F16, &nothing, &layout(&[1, 8, 8]), &[]), tile);
    assert!(work.is_none());
}
