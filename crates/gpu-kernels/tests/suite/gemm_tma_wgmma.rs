//! Products of wgmma: the reference's bits where no sum is rounded, and the same bits with every
//! tile where some are.

use crate::backend::run_steps;
use crate::gemm::{Case, bits, layout, matrix, tiny, uneven, whole};
use elinvar_core::{DType, Shape};
use elinvar_gpu_kernels::ComputeUnits;
use elinvar_gpu_kernels::gemm::mma_sync::{self, WorkgroupLimits};
use elinvar_gpu_kernels::gemm::tma_transpose;
use elinvar_gpu_kernels::gemm::tma_wgmma::{self, WgmmaTile};
use elinvar_gpu_kernels::gemm::{CatalogueEpilogue, GemmProblem};
use elinvar_kernel::ir::MmaShape;
use elinvar_ops::backend::AddBias;
use elinvar_ops::map::Compiled;

const PLAIN: CatalogueEpilogue<'static> = CatalogueEpilogue(None);

#[test]
fn whole_numbers_are_exact() {
    // One step and several, more than there are slots; parts of a tile, and more than one; other
    // lines between those that are read; one right factor for all batches.
    let cases = [
        (0, [1, 72, 200, 80], 8, true),
        (0, [1, 8, 8, 264], 0, true),
        (1, [2, 136, 8, 136], 0, false),
        (1, [1, 16, 264, 8], 16, true),
        (2, [2, 72, 72, 136], 8, true),
        (2, [1, 8, 456, 16], 0, true),
        (3, [2, 16, 200, 72], 0, false),
        (3, [2, 72, 456, 8], 8, true),
        (3, [1, 8, 40, 8], 0, true),
    ];
    for (round, (tile, sizes, room, own)) in cases.into_iter().enumerate() {
        let (tile, along) = (WgmmaTile::ALL[tile], [round % 2 == 0, round / 2 % 2 == 0]);
        let (case, dtype) = (Case { sizes, along, room, own }, [DType::F16, DType::BF16][round % 2]);
        assert_eq!(
            case.run(dtype, &|p| tma_wgmma::contract(p, tile), &whole),
            case.want(dtype, &whole),
            "{dtype} {sizes:?} {along:?} {tile:?}"
        );
    }
}

/// Factors of f32 are rounded on their way, as others are that fragments are loaded of: so far as
/// the interpreter goes, sums are the same.
#[test]
fn f32_are_rounded_as_by_fragments() {
    let unit = MmaShape { elem: DType::F32.into(), shape: [16, 16, 8] };
    let limits = WorkgroupLimits {
        invocations: 1024,
        shared: 48 << 10,
        cp_async: true,
        compute_units: ComputeUnits::default(),
    };
    let fragments = mma_sync::MmaTile::of(unit, 32, 1, [64, 64], limits).expect("there is room");
    for (tile, sizes) in [
        (0, [1, 8, 68, 8]),
        (1, [1, 136, 4, 72]),
        (2, [2, 72, 100, 20]),
        (3, [1, 4, 300, 4]),
        (3, [2, 70, 8, 66]),
    ] {
        let (case, tile) = (Case { sizes, along: [true, true], room: 4, own: true }, WgmmaTile::ALL[tile]);
        let run = |number| case.run(DType::F32, &|p| tma_wgmma::contract(p, tile), number);
        assert_eq!(run(&whole), case.want(DType::F32, &whole), "{sizes:?} {tile:?}");
        let other = case.run(DType::F32, &|p| mma_sync::contract(p, fragments), &uneven);
        assert_eq!(bits(&run(&uneven)), bits(&other), "{sizes:?} {tile:?}");
        assert_ne!(bits(&other), bits(&case.want(DType::F32, &uneven)), "nothing is rounded");
    }
}

/// Whatever the layout of f32, they are transposed where they have to be, and sums are those of
/// factors that lay along their terms.
#[test]
fn what_does_not_lie_along_its_terms_is_turned() {
    const EPILOGUE: CatalogueEpilogue<'static> = CatalogueEpilogue(Some(&Compiled::<_, 1>(AddBias)));
    let dtype = DType::F32;
    let unit = MmaShape { elem: dtype.into(), shape: [16, 16, 8] };
    let limits = WorkgroupLimits {
        invocations: 1024,
        shared: 48 << 10,
        cp_async: true,
        compute_units: ComputeUnits::default(),
    };
    let fragments = mma_sync::MmaTile::of(unit, 32, 1, [64, 64], limits).expect("there is room");
    for (round, sizes) in
        [[1, 1, 68, 8], [1, 9, 70, 5], [2, 70, 33, 72], [2, 3, 1, 130]].into_iter().enumerate()
    {
        for turned in 0..4 {
            let along = [turned & 1 == 0, turned & 2 == 0];
            let case = Case { sizes, along, room: [4, 1, 0][(round + turned) % 3], own: turned % 2 == 0 };
            let (layouts, tile) = (case.layouts(), WgmmaTile::ALL[3]);
            let extra = [(&layouts[2], dtype)];
            let p = GemmProblem::new(&EPILOGUE, dtype, &layouts[0], &layouts[1], &extra);
            let even = sizes[2].is_multiple_of(4) && case.room.is_multiple_of(4);
            let run = |number: &dyn Fn(usize, usize) -> f32| {
                let steps = tma_transpose::steps(&p, tile).expect("it can be done so");
                assert!(!even || steps.steps.len() == 1 + along.iter().filter(|a| !**a).count());
                let numbers = case.numbers(dtype, number);
                run_steps(&steps, &numbers.each_ref()).remove(0).to_host().expect("f32")
            };
            assert_eq!(run(&whole), case.want(dtype, &whole), "{sizes:?} {along:?}");
            let fragments = case.run(dtype, &|p| mma_sync::contract(p, fragments), &uneven);
            assert_eq!(bits(&run(&uneven)), bits(&fragments), "{sizes:?} {along:?}");
            assert!(
                tma_transpose::fits(&GemmProblem { x: &layouts[0].slice(1, 0, 1, 1), ..p }),
                "a row alone"
            );
        }
    }
    // What needs no turning is left to TMA tiles.
    let even = matrix(true, [1, 64, 64], 0);
    for (x, fits) in [(even.clone(), true), (matrix(true, [1, 64, 64], 4), false)] {
        assert_eq!(tma_transpose::fits(&GemmProblem::new(&PLAIN, DType::F16, &x, &even, &[])), fits);
    }
    let nothing = matrix(true, [1, 64, 0], 0);
    assert!(!tma_transpose::fits(&GemmProblem::new(
        &PLAIN,
        dtype,
        &nothing,
        &matrix(true, [1, 0, 64], 0),
        &[]
    )));
    assert!(!tma_transpose::fits(&GemmProblem::new(&PLAIN, DType::F64, &even, &even, &[])));
    let none = layout(&[1, 0, 64]);
    let steps = tma_transpose::steps(&GemmProblem::new(&PLAIN, dtype, &none, &even, &[]), WgmmaTile::ALL[3]);
    assert!(steps.is_none_or(|all| all.steps.is_empty()));
}

#[test]
fn tiles_change_no_bit() {
    let f32 = |tile| {
        let case = Case { sizes: [1, 24, 72, 24], along: [true, true], room: 0, own: true };
        bits(&case.run(DType::F32, &|p| tma_wgmma::contract(p, tile), &uneven))
    };
    assert!(WgmmaTile::ALL.iter().all(|tile| f32(*tile) == f32(WgmmaTile::ALL[0])));
    for (sizes, number) in [
        ([1, 24, 72, 24], &uneven as &dyn Fn(usize, usize) -> f32),
        ([1, 8, 64, 8], &tiny),
        ([1, 8, 8, 8], &tiny),
    ] {
        let case = Case { sizes, along: [true, true], room: 0, own: true };
        let run = |tile| case.run(DType::BF16, &|p| tma_wgmma::contract(p, tile), number);
        let all = WgmmaTile::ALL.map(|tile| bits(&run(tile)));
        assert!(all.iter().all(|y| *y == all[0]), "{sizes:?}");
    }
}

#[test]
fn a_tile_is_chosen() {
    let limits = |shared| WorkgroupLimits {
        invocations: 1024,
        shared,
        cp_async: true,
        compute_units: ComputeUnits::default(),
    };
    // How many, of how many sums, and the rows and columns of the tile.
    let rows = [
        (1, [4096, 4096], [128, 256]),
        (1, [2048, 2048], [128, 256]),
        (1, [1024, 1024], [64, 128]),
        (16, [1024, 1024], [128, 256]),
        (1, [1, 4096], [64, 64]),
        (1, [8, 8], [64, 64]),
        (8, [512, 512], [128, 128]),
    ];
    for (batches, sums, want) in rows {
        let t = WgmmaTile::of(batches, sums, limits(227 << 10)).expect("there is room");
        assert_eq!([0, 1].map(|side| t.size(side)), want, "{batches} of {sums:?}");
    }
    assert_eq!(WgmmaTile::of(1, [64, 64], limits(48 << 10)), None);
    assert!(WgmmaTile::ALL.iter().all(|t| t.shared_bytes() <= 227 << 10));
    // Two of the smaller ones, each beside the kilobyte that the device keeps for itself.
    assert!(WgmmaTile::ALL[1..].iter().all(|t| 2 * (t.shared_bytes() + 1024) <= 228 << 10));
}

/// What cannot be fetched is left to others.
#[test]
fn what_lies_unevenly_is_not_fetched() {
    let even = matrix(true, [1, 64, 64], 0);
    let rows = [
        (even.clone(), even.clone(), true),
        // Lines of 68 elements; lines that begin in the middle of 16 bytes; elements that are not
        // side by side.
        (matrix(true, [1, 64, 64], 4), even.clone(), false),
        (layout(&[1, 64, 80]).slice(2, 4, 64, 1), even.clone(), false),
        (even.clone(), layout(&[1, 64, 64, 8]).select(3, 0), false),
        (
            even.clone(),
            layout(&[1, 64, 1]).broadcast_to(&Shape::new(&[1, 64, 64]).unwrap(), "w").unwrap(),
            false,
        ),
        // A row alone, of lines that cannot be fetched together.
        (matrix(true, [1, 64, 64], 4).slice(1, 0, 1, 1), even.clone(), false),
        (matrix(true, [1, 64, 0], 0), matrix(true, [1, 0, 64], 0), false),
    ];
    for (i, (x, w, fits)) in rows.into_iter().enumerate() {
        assert_eq!(
            tma_wgmma::fits(&GemmProblem::new(&PLAIN, DType::F16, &x, &w, &[])),
            fits,
            "row {i}: {x:?} {w:?}"
        );
    }
    // Of f32, both are along their terms, in pieces of four.
    let turned = even.transpose(1, 2);
    let four = matrix(true, [1, 64, 64], 4);
    for (x, w, fits) in
        [(&even, &even, false), (&even, &turned, true), (&turned, &turned, false), (&four, &turned, true)]
    {
        assert_eq!(tma_wgmma::fits(&GemmProblem::new(&PLAIN, DType::F32, x, w, &[])), fits, "{x:?} {w:?}");
    }
    assert!(!tma_wgmma::fits(&GemmProblem::new(&PLAIN, DType::F64, &even, &turned, &[])));
    let many = [(&even, DType::F16); 5];
    assert!(tma_wgmma::fits(&GemmProblem::new(&PLAIN, DType::F16, &even, &even, &many[..4])));
    assert!(!tma_wgmma::fits(&GemmProblem::new(&PLAIN, DType::F16, &even, &even, &many)));
    let nothing = layout(&[1, 0, 64]);
    assert!(
        tma_wgmma::contract(&GemmProblem::new(&PLAIN, DType::F16, &nothing, &even, &[]), WgmmaTile::ALL[0])
            .is_none()
    );
}
