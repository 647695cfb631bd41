//! Folds (sum, product, max, min) against the reference, by bits.

use super::common::*;
use crate::data::Data;
use elinvar_core::{DType, Layout, Shape};
use elinvar_cpu::Cpu;
use elinvar_ops::backend::Fold;
use elinvar_ops::fold;
use elinvar_reference::{Reference, ReferenceDevice};

const FOLDS: [Fold; 4] = [Fold::Sum, Fold::Prod, Fold::Max, Fold::Min];

fn check(what: &str, f: Fold, x: &(Data, Layout), kept: usize, to: DType) {
    let want = fold::by::<Reference>(&ReferenceDevice, f, reference(x), kept, to);
    for d in devices() {
        let got = fold::by::<Cpu>(&d, f, cpu(x), kept, to);
        same(
            &format!("{what}: {f:?} of {} {:?}, {kept} kept, on {d:?}", x.0.dtype(), x.1),
            got,
            want.clone(),
        );
    }
}

#[test]
fn rows_of_every_length() {
    let mut dice = Dice::new(1);
    for n in
        [0, 1, 2, 3, 15, 16, 17, 31, 33, 64, 65, 127, 128, 129, 255, 4095, 4096, 4097, 8193, 12289, 20000]
    {
        for rows in [1, 3, 40] {
            if !affordable(rows * n) {
                continue;
            }
            for wild in [false, true] {
                let f = dice.pick(&FOLDS);
                let x = (
                    dice.data(DType::F32, rows * n, wild),
                    Layout::contiguous(Shape::new(&[rows, n]).unwrap()),
                );
                check("rows", Fold::Sum, &x, 1, DType::F32);
                check("rows", f, &x, 1, DType::F32);
                // Halves are summed as they are read.
                let t = if wild { DType::F16 } else { DType::BF16 };
                let x = (dice.data(t, rows * n, wild), x.1);
                check("rows", Fold::Sum, &x, 1, t);
            }
        }
    }
}

#[test]
fn columns_of_every_length() {
    let mut dice = Dice::new(2);
    for n in [1, 2, 3, 5, 31, 64, 127, 128, 129, 300, 4095, 4097, 8200, 20000] {
        for columns in [7, 8, 9, 64, 65, 130, 600] {
            if !affordable(columns * n / 4) {
                continue;
            }
            let f = dice.pick(&FOLDS);
            let dtype = dice.pick(&DType::FLOATS);
            let l = Layout::contiguous(Shape::new(&[n, columns]).unwrap()).transpose(0, 1);
            let x = (dice.data(dtype, columns * n, n % 2 == 0), l);
            check("columns", Fold::Sum, &x, 1, dtype);
            check("columns", f, &x, 1, dtype);
        }
    }
}

#[test]
fn lanes_of_columns_that_threads_share() {
    let mut dice = Dice::new(7);
    // Blocks of many terms and of fewer than there are shares; columns beyond those that go at
    // once.
    for (n, columns) in [(129, 129), (300, 1000), (136, 1100), (4099, 130), (8300, 129), (12_300, 130)] {
        if cfg!(debug_assertions) && n * columns > 300_000 {
            continue;
        }
        let l = Layout::contiguous(Shape::new(&[n, columns]).unwrap()).transpose(0, 1);
        for t in [DType::F32, dice.pick(&[DType::F64, DType::I64, DType::BF16, DType::F16])] {
            let x = (dice.data(t, n * columns, n == 300), l.clone());
            for f in [Fold::Sum, dice.pick(&FOLDS)] {
                check("lanes", f, &x, 1, folded(t, matches!(f, Fold::Sum | Fold::Prod)));
            }
        }
    }
}

#[test]
fn any_memory_and_type() {
    let mut dice = Dice::new(3);
    for round in 0..rounds(150) {
        let rank = dice.below(5);
        let mut dims: Vec<usize> = (0..rank).map(|_| dice.pick(&[1, 2, 3, 5, 9])).collect();
        if rank > 0 {
            let long = dice.below(rank);
            dims[long] = dice.pick(&[0, 1, 17, 63, 129, 1000, 4097]);
        }
        let dtype = dice.pick(&DType::ALL);
        let (wild, f, kept) = (dice.below(2) == 0, dice.pick(&FOLDS), dice.below(rank + 1));
        if !affordable(dims.iter().product()) {
            continue;
        }
        let x = dice.operand(dtype, &dims, wild);
        let to = folded(dtype, matches!(f, Fold::Sum | Fold::Prod));
        check(&format!("round {round}"), f, &x, kept, to);
        if dtype.is_storage() {
            check(&format!("round {round}"), f, &x, kept, DType::F32);
        }
    }
}

#[test]
fn negative_zeros_sum_to_zero() {
    for n in [1, 5, 200, 5000] {
        let x = (full(DType::F32, 16 * n, -0.0).into(), Layout::contiguous(Shape::new(&[16, n]).unwrap()));
        check("zeros", Fold::Sum, &x, 1, DType::F32);
        check("zeros", Fold::Max, &x, 1, DType::F32);
        let turned = (x.0, Layout::contiguous(Shape::new(&[n, 16]).unwrap()).transpose(0, 1));
        check("zeros", Fold::Sum, &turned, 1, DType::F32);
    }
}

#[test]
fn rows_in_parts() {
    channels_of_images(4, |dice, l, wild| {
        for t in [DType::F32, DType::F64, DType::BF16] {
            let x = (dice.data(t, l.shape().numel(), wild), l.clone());
            check("parts", Fold::Sum, &x, 1, t);
            check("parts", dice.pick(&FOLDS), &x, 1, t);
        }
    });
}
