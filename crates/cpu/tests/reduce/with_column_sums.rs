//! Row-wise values fused with column sums, against the reference's values and its sums of terms
//! alone.

use super::common::*;
use crate::data::Data;
use elinvar_core::{DType, HostData, Layout, Shape};
use elinvar_cpu::{Cpu, CpuDevice};
use elinvar_ops::backend::{Compute, Fold, Fused, FusedResults};
use elinvar_ops::catalogue::normalize::{Normalize, NormalizeGrad, Products};
use elinvar_ops::catalogue::rms_norm::{RmsNorm, RmsNormGrad};
use elinvar_ops::fold;
use elinvar_ops::map::Compiled;
use elinvar_ops::rows::{Columns, ColumnsObject, RowFormula};
use elinvar_reference::{Reference, ReferenceDevice};

const EPS: f64 = 1e-5;

/// x, g and a weight, of which rows are to be the last axis.
type Operands = [(Data, Layout); 3];

fn reference_rows<R: RowFormula<N>, const N: usize>(
    r: &R,
    x: [&(Data, Layout); N],
    kept: usize,
    t: DType,
) -> HostData {
    Reference::rows(&ReferenceDevice, &Compiled::<R, N>(*r), &x.map(reference), kept, t).unwrap().buffer
}

/// The sums of `x` (times `y`) over rows of `n` elements.
fn sums(x: &(Data, Layout), y: Option<HostData>, n: usize, t: DType) -> HostData {
    let across =
        |l: Layout| l.reshape(&Shape::new(&[l.shape().numel() / n, n]).unwrap()).unwrap().transpose(0, 1);
    let g = (x.0.clone(), across(x.1.clone()));
    match y {
        None => fold::by::<Reference>(&ReferenceDevice, Fold::Sum, reference(&g), 1, t).unwrap(),
        Some(y) => {
            let y = (Data::from(y), across(Layout::contiguous(x.1.shape().clone())));
            reference_rows(&Products, [&g, &y], 1, t)
        }
    }
}

/// `normal`: x normalized. `done`: is it to be done at once?
fn check<R: Columns<3>>(what: &str, r: &R, normal: HostData, x: &Operands, t: DType, done: bool) {
    let (kept, n) = (x[0].1.rank() - 1, *x[0].1.shape().last().unwrap());
    let values = reference_rows(r, x.each_ref(), kept, t);
    let want = [sums(&x[1], Some(normal), n, t), sums(&x[1], None, n, t)];
    for d in devices() {
        for count in 1..=R::SUMS {
            let what =
                format!("{what}: {} {t} {:?}, {count} sums, on {d:?}", R::NAME, x.each_ref().map(|x| &x.1));
            let both = at_once(&d, &Compiled::<R, 3>(*r), x, kept, t, count);
            // Without formulas of its own it has the reference's, each alone.
            let done = done && d.isa().has_kernels();
            let Some(mut sums) = both else {
                assert!(!done, "{what}: not at once");
                continue;
            };
            let y = sums.remove(0);
            assert!(done && sums.len() == count, "{what}: at once");
            same(&what, row_by_row(&d, y, t), Ok(values.clone()));
            for (sum, want) in sums.into_iter().zip(&want) {
                same(&what, Ok(sum.buffer), Ok(want.clone()));
            }
        }
    }
}

fn norms(what: &str, x: &Operands, t: DType, done: bool) {
    let kept = x[0].1.rank() - 1;
    let normal = reference_rows(&Normalize { eps: EPS }, [&x[0]], kept, t);
    check(what, &NormalizeGrad { eps: EPS }, normal, x, t, done);
}

#[test]
fn gradients_of_norms() {
    let mut dice = Dice::new(21);
    // Rows of whole windows and others, in as many as a lane's first, last, and next block's first.
    for (rows, n) in [
        (128, 64),
        (129, 65),
        (150, 80),
        (260, 130),
        (300, 64),
        (1000, 192),
        (130, 1000),
        (129, 4096),
        (4096, 64),
        (4097, 70),
        (4250, 65),
        (12300, 64),
    ] {
        if cfg!(debug_assertions) && rows * n > 20_000 {
            continue;
        }
        for t in [DType::F32, DType::F64] {
            if t == DType::F64 && rows * n > 100_000 {
                continue;
            }
            let wild = rows == 129 || rows == 4250;
            let all = Layout::contiguous(Shape::new(&[rows, n]).unwrap());
            let mut x = |wild| (dice.data(t, rows * n, wild), all.clone());
            let (x, g) = (x(wild), x(wild));
            let one = Layout::contiguous(Shape::new(&[n]).unwrap()).broadcast_to(all.shape(), "t").unwrap();
            let all = [x, g, (dice.data(t, n, false), one)];
            norms("shared", &all, t, true);
            let normal = reference_rows(&RmsNorm { eps: EPS }, [&all[0]], 1, t);
            check("shared", &RmsNormGrad { eps: EPS }, normal, &all, t, true);
        }
    }
}

#[test]
fn rows_that_lie_otherwise() {
    let mut dice = Dice::new(22);
    let t = DType::F32;
    let of = |shape: &[usize]| Layout::contiguous(Shape::new(shape).unwrap());
    let mut some = |l: Layout, len: usize| (dice.data(t, len, false), l);
    // Of two axes, in the midst of a buffer, with a weight for each element.
    let l = of(&[9, 15, 66]);
    let len = l.shape().numel();
    let amid = of(&[11, 15, 66]).slice(0, 1, 9, 1);
    let x = [some(l.clone(), len), some(amid.clone(), 11 * 15 * 66), some(l.clone(), len)];
    norms("amid", &x, t, true);
    // What is not row by row, or of too few, too short or too long rows, is done op by op.
    let turned = of(&[15, 9, 66]).transpose(0, 1);
    let x = [some(l.clone(), len), some(turned, len), some(l.clone(), len)];
    assert!(none(&x, 2));
    let number = of(&[1, 1, 1]).broadcast_to(l.shape(), "t").unwrap();
    let x = [some(l.clone(), len), some(number, 1), some(l, len)];
    assert!(none(&x, 2));
    for shape in [[127, 64], [200, 63], [128, 4097]] {
        let l = of(&shape);
        let len = l.shape().numel();
        let x = [some(l.clone(), len), some(l.clone(), len), some(l, len)];
        assert!(none(&x, 1), "{shape:?}");
    }
}

/// The values and the sums, if they are computed at once.
fn at_once(
    d: &CpuDevice,
    f: &dyn ColumnsObject,
    x: &Operands,
    kept: usize,
    dtype: DType,
    sums: usize,
) -> Option<FusedResults<Cpu>> {
    let work = Fused::RowsAndColumns { f, kept, dtype, sums };
    Cpu::fused(d, &work, &x.each_ref().map(cpu)).unwrap()
}

/// Is it left to the ops?
fn none(x: &Operands, kept: usize) -> bool {
    let r = NormalizeGrad { eps: EPS };
    devices().iter().all(|d| at_once(d, &Compiled::<_, 3>(r), x, kept, DType::F32, 2).is_none())
}

#[test]
fn halves_are_left_to_the_ops() {
    let mut dice = Dice::new(23);
    let l = Layout::contiguous(Shape::new(&[200, 64]).unwrap());
    let x = [(); 3].map(|()| (dice.data(DType::F16, 200 * 64, false), l.clone()));
    let r = NormalizeGrad { eps: EPS };
    for d in devices() {
        let both = at_once(&d, &Compiled::<_, 3>(r), &x, 1, DType::F16, 2);
        assert!(both.is_none(), "{d:?}");
    }
}
