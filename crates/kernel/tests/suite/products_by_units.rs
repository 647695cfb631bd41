//! Products by matrix units: the reference's bits where no sum is rounded, and the same bits with every tile where some are.

use crate::backend::run_work;
use elinvar_core::{DType, HostData, Layout, Precision, Shape};
use elinvar_kernel::interp::Memory;
use elinvar_kernel::ir::MatrixUnit;
use elinvar_kernel::library::contract::OfEpilogue;
use elinvar_kernel::library::matrix_units::{self, Limits, Tile};
use elinvar_ops::backend::{AddBias, Plain};
use elinvar_ops::{Backend, View};
use elinvar_reference::{Reference, ReferenceDevice};

fn layout(dims: &[usize]) -> Layout {
    Layout::contiguous(Shape::new(dims).expect("small"))
}

fn host(dtype: DType, x: impl Iterator<Item = f32>) -> HostData {
    match dtype {
        DType::F16 => HostData::F16(x.map(half::f16::from_f32).collect()),
        DType::BF16 => HostData::BF16(x.map(half::bf16::from_f32).collect()),
        DType::F32 => HostData::F32(x.collect()),
        other => panic!("{other}"),
    }
}

/// All tiles, with copies and without.
fn tiles(dtype: DType) -> Vec<Tile> {
    let unit = MatrixUnit { elem: dtype.into(), shape: [16, 16, if dtype == DType::F32 { 8 } else { 16 }] };
    let limits = |asynchronous| Limits { invocations: 1024, shared: 99 << 10, asynchronous };
    let mut all: Vec<Tile> = [false, true].into_iter().flat_map(|a| Tile::all(unit, 32, limits(a))).collect();
    // Those that are only tried are larger: the largest of them, once.
    let tried = Tile::tried(unit, 32, [512, 512], limits(true));
    all.extend(tried.into_iter().map(|(_, t)| t).filter(|t| !all.contains(t)).collect::<Vec<_>>());
    all
}

/// A product, and a sum beside it: rows, terms, columns; which factors lie along their terms.
fn product(
    dtype: DType,
    tile: Tile,
    [m, k, n]: [usize; 3],
    along: [bool; 2],
    number: &dyn Fn(usize, usize) -> f32,
) -> HostData {
    let matrix = |lies: bool, rows: usize, columns: usize| {
        if lies { layout(&[1, rows, columns]) } else { layout(&[1, columns, rows]).transpose(1, 2) }
    };
    let (x, w) = (matrix(along[0], m, k), matrix(!along[1], k, n));
    let bias = layout(&[1, m, n]);
    let e = OfEpilogue::<AddBias, 1>(AddBias);
    let work =
        matrix_units::contract(&e, dtype, &x, &w, &[(&bias, dtype)], tile).expect("there are elements");
    let numbers = |of: usize, n: usize| Memory::from_host(&host(dtype, (0..n).map(|i| number(of, i))));
    let mut buffers = vec![numbers(0, m * k), numbers(1, k * n), numbers(2, m * n), Memory::of(dtype, m * n)];
    run_work(&work, &mut buffers);
    buffers[3].to_host().expect("it has a dtype")
}

/// Whole numbers whose products and sums are exact: of x, of w or of the bias.
fn whole(of: usize, i: usize) -> f32 {
    let i = i + 3 * of;
    ((i * 7 + i / 11) % 9) as f32 - 4.0
}

#[test]
fn whole_numbers_are_exact() {
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        for (number, tile) in tiles(dtype).into_iter().enumerate() {
            // In pieces of 16 bytes and not; some of a tile, and more than one.
            for (round, [m, k, n]) in [[24, 40, 72], [40, 56, 8], [17, 33, 35]].into_iter().enumerate() {
                let along = [(number + round) % 2 == 0, (number / 2 + round) % 2 == 0];
                let got = product(dtype, tile, [m, k, n], along, &whole);
                let [x, w, bias] = [(0, m * k), (1, k * n), (2, m * n)]
                    .map(|(of, n)| host(dtype, (0..n).map(|i| whole(of, i))));
                let matrix = |lies: bool, rows: usize, columns: usize| {
                    if lies {
                        layout(&[1, rows, columns])
                    } else {
                        layout(&[1, columns, rows]).transpose(1, 2)
                    }
                };
                let layouts = [matrix(along[0], m, k), matrix(!along[1], k, n), layout(&[1, m, n])];
                let view = |buffer, layout| View { buffer, layout, dtype };
                let [x, w, bias] = [view(&x, &layouts[0]), view(&w, &layouts[1]), view(&bias, &layouts[2])];
                let want = Reference::contract(&ReferenceDevice, Precision::Exact, x, w, &AddBias, [bias]);
                assert_eq!(got, want.expect("it runs"), "{dtype} {m} x {k} x {n} {along:?} {tile:?}");
            }
        }
    }
}

/// One row that lies across its terms: the stride of an axis of one says nothing, and copies beside it read nothing.
#[test]
fn a_row_may_lie_in_any_way() {
    for dtype in [DType::F16, DType::F32] {
        for tile in tiles(dtype) {
            let (m, k, n) = (1, 64, 64);
            for along in [[false, true], [false, false], [true, false]] {
                let got = product(dtype, tile, [m, k, n], along, &whole);
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
    let uneven = |of: usize, i: usize| ((i * 37 + of) % 101) as f32 * 0.0173 - 0.9;
    // Sums that underflow to -0: what follows the last term, and makes it +0, is the same for all.
    let tiny = |of: usize, _: usize| [1e-30, -1e-30, -0.0][of];
    for dtype in [DType::BF16, DType::F32] {
        for (sizes, number) in [
            ([20, 8, 24], &uneven as &dyn Fn(usize, usize) -> f32),
            ([16, 48, 16], &uneven),
            ([16, 8, 16], &tiny),
            ([16, 16, 16], &tiny),
        ] {
            let all = tiles(dtype);
            let of = |tile| product(dtype, tile, sizes, [true, true], number);
            let first = of(all[0]);
            for &tile in &all[1..] {
                assert_eq!(bits(&of(tile)), bits(&first), "{dtype} {sizes:?} {tile:?}");
            }
        }
    }
}

/// Zeros have signs.
fn bits(x: &HostData) -> Vec<u64> {
    Memory::from_host(x).cells
}

#[test]
fn a_tile_is_chosen() {
    let unit = MatrixUnit { elem: DType::F16.into(), shape: [16; 3] };
    let limits = Limits { invocations: 1024, shared: 48 << 10, asynchronous: true };
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
        let t = Tile::of(unit, 32, batches, sums, limits).expect("there is room");
        let size = [0, 1].map(|side| t.subgroups[side] * t.each[side] * 16);
        assert_eq!(size, want, "{batches} of {sums:?}");
    }
    let none = Limits { shared: 1000, ..limits };
    assert_eq!(Tile::of(unit, 32, 1, [64, 64], none), None);
    let plain = OfEpilogue::<Plain, 0>(Plain);
    let nothing = layout(&[1, 0, 8]);
    let tile = Tile::of(unit, 32, 1, [64, 64], limits).expect("there is room");
    let work = matrix_units::contract(&plain, DType::F16, &nothing, &layout(&[1, 8, 8]), &[], tile);
    assert!(work.is_none());
}
