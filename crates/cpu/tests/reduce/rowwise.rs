//! Row-wise formulas against the reference, by bits.

use super::common::*;
use crate::data::Data;
use elinvar_core::{DType, Error, Layout, Result, Shape};
use elinvar_cpu::Cpu;
use elinvar_ops::Value;
use elinvar_ops::backend::Compute;
use elinvar_ops::backend::Fold;
use elinvar_ops::catalogue::softmax::Softmax;
use elinvar_ops::lane::Lane;
use elinvar_ops::map::Compiled;
use elinvar_ops::op::Context;
use elinvar_ops::rows::{RowFormula, RowObject, RowOut, Rows, STATS};
use elinvar_reference::{Reference, ReferenceDevice};

fn no_gradient<T>() -> Result<T> {
    Err(Error::autograd("a formula of a test has no gradient"))
}

/// A softmax of x * w, with a product that touches every element.
#[derive(Clone, Copy, Debug)]
struct Weighed;
impl RowFormula<2> for Weighed {
    const NAME: &'static str = "weighed";
    const FOLDS: &'static [Fold] = &[Fold::Max, Fold::Sum, Fold::Prod];
    const OUT: RowOut = RowOut::Each;
    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, [x, w]: [L; 2], s: [L; STATS], _: L) -> L {
        match k {
            0 => x * w,
            1 => (x * w - s[0]).exp(),
            _ => x.fma(L::lit(1e-3), L::lit(1.0)),
        }
    }
    #[inline(always)]
    fn out<L: Lane>(&self, [x, w]: [L; 2], s: [L; STATS], n: L) -> L {
        (x * w - s[0]).exp() / s[1] * s[2] + n
    }
}
impl Rows<2> for Weighed {
    fn backward<V: Value>(&self, _: &[usize], _: &Context<V>, _: &V) -> Result<Vec<Option<V>>> {
        no_gradient()
    }
}
elinvar_ops::compile_rows! { 2 Weighed; }

/// The spread around the mean, and the least weight.
#[derive(Clone, Copy, Debug)]
struct Spread;
impl RowFormula<3> for Spread {
    const NAME: &'static str = "spread";
    const FOLDS: &'static [Fold] = &[Fold::Sum, Fold::Sum, Fold::Min, Fold::Sum];
    const OUT: RowOut = RowOut::Once;
    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, [x, w, v]: [L; 3], s: [L; STATS], _: L) -> L {
        match k {
            0 => x,
            1 => (x - s[0]) * (x - s[0]) * w,
            2 => v,
            _ => L::select(v.gt(s[2]), x.abs().log(), x.tanh()),
        }
    }
    #[inline(always)]
    fn finish<L: Lane>(&self, k: usize, folded: L, _: [L; STATS], n: L) -> L {
        if k < 2 { folded / n } else { folded }
    }
    #[inline(always)]
    fn out<L: Lane>(&self, _: [L; 3], s: [L; STATS], n: L) -> L {
        s[1].sqrt() + s[2] + s[3] + n
    }
}
impl Rows<3> for Spread {
    fn backward<V: Value>(&self, _: &[usize], _: &Context<V>, _: &V) -> Result<Vec<Option<V>>> {
        no_gradient()
    }
}
elinvar_ops::compile_rows! { 3 Spread; }

/// A result from the last statistic's term: exp(x * w - max) / sum.
#[derive(Clone, Copy, Debug)]
struct Kept;
impl RowFormula<2> for Kept {
    const NAME: &'static str = "kept";
    const FOLDS: &'static [Fold] = &[Fold::Max, Fold::Sum];
    const OUT: RowOut = RowOut::Each;
    const KEEPS: bool = true;
    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, [x, w]: [L; 2], s: [L; STATS], _: L) -> L {
        if k == 0 { x * w } else { (x * w - s[0]).exp() }
    }
    #[inline(always)]
    fn out<L: Lane>(&self, x: [L; 2], s: [L; STATS], n: L) -> L {
        self.out_of_term(self.term(1, x, s, n), s, n)
    }
    #[inline(always)]
    fn out_of_term<L: Lane>(&self, term: L, s: [L; STATS], n: L) -> L {
        term / s[1] + n
    }
}
impl Rows<2> for Kept {
    fn backward<V: Value>(&self, _: &[usize], _: &Context<V>, _: &V) -> Result<Vec<Option<V>>> {
        no_gradient()
    }
}
elinvar_ops::compile_rows! { 2 Kept; }

/// The sum of x, and that of x times its distance from it.
#[derive(Clone, Copy, Debug)]
struct Moments;
impl RowFormula<1> for Moments {
    const NAME: &'static str = "moments";
    const FOLDS: &'static [Fold] = &[Fold::Sum, Fold::Sum];
    const OUT: RowOut = RowOut::Statistics;
    const PLAIN: bool = true;
    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, [x]: [L; 1], s: [L; STATS], _: L) -> L {
        if k == 0 { x } else { x * (x - s[0]) }
    }
    #[inline(always)]
    fn out<L: Lane>(&self, _: [L; 1], s: [L; STATS], _: L) -> L {
        s[1]
    }
}
impl Rows<1> for Moments {
    fn backward<V: Value>(&self, _: &[usize], _: &Context<V>, _: &V) -> Result<Vec<Option<V>>> {
        no_gradient()
    }
}
elinvar_ops::compile_rows! { 1 Moments; }

fn check<R: RowFormula<N>, const N: usize>(
    what: &str,
    r: &R,
    x: &[(Data, Layout); N],
    kept: usize,
    t: DType,
) {
    let r: &dyn RowObject = &Compiled::<R, N>(*r);
    let want = Reference::rows(&ReferenceDevice, r, &x.each_ref().map(reference), kept, t).map(|y| y.buffer);
    for d in devices() {
        let got = Cpu::rows(&d, r, &x.each_ref().map(cpu), kept, t).and_then(|y| row_by_row(&d, y, t));
        let layouts = x.each_ref().map(|x| &x.1);
        same(&format!("{what}: {} {t} {layouts:?}, {kept} kept, on {d:?}", R::NAME), got, want.clone());
    }
}

#[test]
fn rows_of_every_length() {
    let mut dice = Dice::new(5);
    for n in [0, 1, 10, 16, 63, 64, 65, 127, 128, 129, 1000, 1024, 1025, 4095, 4097, 8193, 20000] {
        for rows in [1, 3, 40] {
            if !affordable(rows * n) {
                continue;
            }
            let l = Layout::contiguous(Shape::new(&[rows, n]).unwrap());
            let mut x = || (dice.data(DType::F32, rows * n, rows == 3), l.clone());
            check("rows", &Weighed, &[x(), x()], 1, DType::F32);
            check("rows", &Kept, &[x(), x()], 1, DType::F32);
            check("rows", &Softmax, &[x()], 1, DType::F32);
            check("rows", &Spread, &[x(), x(), x()], 1, DType::F32);
            if n == 0 {
                continue;
            }
            // A number for each row, and one row for all.
            let each = |shape: &[usize]| {
                Layout::contiguous(Shape::new(shape).unwrap()).broadcast_to(l.shape(), "t").unwrap()
            };
            let numbers = (x().0, each(&[rows, 1]));
            check("numbers", &Kept, &[x(), numbers.clone()], 1, DType::F32);
            check("numbers", &Spread, &[x(), (x().0, each(&[n])), numbers], 1, DType::F32);
        }
    }
}

#[test]
fn any_memory_and_type() {
    let mut dice = Dice::new(6);
    for round in 0..rounds(60) {
        let rank = dice.below(5);
        let mut dims: Vec<usize> = (0..rank).map(|_| dice.pick(&[1, 2, 3, 5])).collect();
        if rank > 0 {
            let long = dice.below(rank);
            dims[long] = dice.pick(&[0, 1, 17, 63, 129, 500, 2000]);
        }
        if !affordable(dims.iter().product()) {
            continue;
        }
        let t = dice.pick(&DType::FLOATS);
        let (wild, kept) = (dice.below(2) == 0, dice.below(rank + 1));
        let mask = dice.pick(&[t, DType::Bool]);
        let (x, w) = (dice.operand(t, &dims, wild), dice.operand(mask, &dims, wild));
        let v = dice.operand(t, &dims, wild);
        check(&format!("round {round}"), &Spread, &[x.clone(), w.clone(), v], kept, t);
        check(&format!("round {round}"), &Weighed, &[x.clone(), w.clone()], kept, t);
        check(&format!("round {round}"), &Kept, &[x, w], kept, t);
    }
}

#[test]
fn rows_across_memory() {
    let mut dice = Dice::new(9);
    for n in [2, 3, 15, 16, 17, 40, 1025] {
        for columns in [8, 9, 16, 17, 100] {
            // [b, n, columns] in memory, and a row is n elements.
            let l = Layout::contiguous(Shape::new(&[3, n, columns]).unwrap()).transpose(1, 2);
            let t = dice.pick(&[DType::F32, DType::F64, DType::BF16]);
            let x = (dice.data(t, 3 * n * columns, n % 2 == 0), l.clone());
            let w = (dice.data(t, 3 * n * columns, false), if columns == 9 { l.flip(2) } else { l.flip(1) });
            check("across", &Weighed, &[x.clone(), w.clone()], 2, t);
            check("across", &Spread, &[x.clone(), w, x], 1, t);
        }
    }
}

#[test]
fn rows_side_by_side() {
    use std::array::from_ref;
    let mut dice = Dice::new(12);
    for n in [1, 2, 3, 15, 16, 17, 100, 127, 128, 129, 300, 2049] {
        for columns in [31, 32, 63, 64, 65, 130, 200] {
            if !affordable(3 * n * columns) {
                continue;
            }
            let t = dice.pick(&[DType::F32, DType::F32, DType::F64, DType::F16]);
            let mask = dice.pick(&[t, DType::Bool]);
            // [b, n, columns] and [b, columns, n] in memory.
            let upright = Layout::contiguous(Shape::new(&[3, n, columns]).unwrap()).transpose(1, 2);
            let lying = Layout::contiguous(Shape::new(&[3, columns, n]).unwrap());
            for (l, other) in [(&upright, &lying), (&lying, &upright)] {
                let wild = dice.below(2) == 0;
                let mut x = |t| (dice.data(t, 3 * n * columns, wild), l.clone());
                let (x, w, v) = (x(t), x(mask), x(t));
                check("beside", &Moments, from_ref(&x), 2, t);
                check("beside", &Kept, &[x.clone(), w.clone()], 2, t);
                check("beside", &Softmax, from_ref(&x), 2, t);
                check("beside", &Spread, &[x.clone(), w, v.clone()], 2, t);
                // Operands of other layouts: across, one number for each row, for each place in a
                // row, and for all.
                let part = |shape: &[usize]| {
                    let part = Layout::contiguous(Shape::new(shape).unwrap());
                    (v.0.clone(), part.broadcast_to(l.shape(), "t").unwrap())
                };
                check("across", &Weighed, &[x.clone(), (v.0.clone(), other.clone())], 2, t);
                check("numbers", &Kept, &[x.clone(), part(&[3, columns, 1])], 2, t);
                check("places", &Weighed, &[x.clone(), part(&[n])], 2, t);
                check("one", &Spread, &[x, part(&[1, 1]), part(&[columns, 1])], 2, t);
            }
        }
    }
}

#[test]
fn rows_side_by_side_of_several_axes() {
    let mut dice = Dice::new(13);
    for [a, b, c, d] in [[3, 2, 5, 70], [20, 3, 9, 32], [2, 1, 300, 65], [7, 40, 2, 3], [40, 2, 120, 33]] {
        let l = Layout::contiguous(Shape::new(&[a, b, c, d]).unwrap());
        // Rows along one axis or two, beside columns along one or two.
        for (order, kept) in
            [([1, 3, 0, 2], 2), ([0, 2, 3, 1], 3), ([3, 0, 1, 2], 1), ([2, 3, 0, 1], 2), ([1, 2, 3, 0], 3)]
        {
            let l = l.permute(&order);
            let t = dice.pick(&[DType::F32, DType::F32, DType::F64, DType::BF16]);
            let mut x = || (dice.data(t, a * b * c * d, false), l.clone());
            let (x, w) = (x(), x());
            check("axes", &Softmax, std::array::from_ref(&x), kept, t);
            check("axes", &Moments, std::array::from_ref(&x), kept, t);
            check("axes", &Weighed, &[x.clone(), w.clone()], kept, t);
            check("axes", &elinvar_ops::catalogue::normalize::Products, &[x, w], kept, t);
        }
    }
}

#[test]
fn a_number_for_each_part_of_a_row() {
    // Weights of channels in groups of several: of long rows, parts of whole windows and others, of
    // enough elements to be one number, and fewer.
    let mut dice = Dice::new(14);
    for (channels, plane) in [(20, 255), (17, 256), (14, 300), (6, 1000), (3, 1600), (9, 1024), (2, 4100)] {
        if !affordable(2 * channels * plane) {
            continue;
        }
        let l = Layout::contiguous(Shape::new(&[2, channels, plane]).unwrap());
        let each =
            Layout::contiguous(Shape::new(&[channels, 1]).unwrap()).broadcast_to(l.shape(), "t").unwrap();
        let t = dice.pick(&[DType::F32, DType::F32, DType::F64, DType::BF16]);
        let x = (dice.data(t, 2 * channels * plane, plane == 255), l);
        let (w, v) = ((dice.data(t, channels, false), each.clone()), (dice.data(t, channels, false), each));
        check("weights", &Weighed, &[x.clone(), w.clone()], 1, t);
        check("weights", &Kept, &[x.clone(), w.clone()], 1, t);
        check("weights", &Spread, &[w, v, x], 1, t);
    }
}

#[test]
fn products_with_normalized_rows() {
    // The gradient of a weight for each row: one pass has the bits of the two ops.
    use elinvar_ops::catalogue::normalize::{NormalProducts, Normalize, Products};
    let mut dice = Dice::new(10);
    let eps = 1e-5;
    for n in [1, 17, 130, 1024, 5000, 9000] {
        // A channel's elements in three images.
        let l = Layout::contiguous(Shape::new(&[3, 4, n]).unwrap()).transpose(0, 1);
        let mut x = || (dice.data(DType::F32, 12 * n, n == 17), l.clone());
        let (x, g) = (x(), x());
        let y = Reference::rows(
            &ReferenceDevice,
            &Compiled::<_, 1>(Normalize { eps }),
            &[reference(&x)],
            1,
            DType::F32,
        )
        .unwrap();
        let y = (Data::from(y.buffer), Layout::contiguous(l.shape().clone()));
        let both = [reference(&g), reference(&y)];
        let want = Reference::rows(&ReferenceDevice, &Compiled::<_, 2>(Products), &both, 1, DType::F32)
            .map(|y| y.buffer);
        for d in devices() {
            let got =
                Cpu::rows(&d, &Compiled::<_, 2>(NormalProducts { eps }), &[cpu(&x), cpu(&g)], 1, DType::F32)
                    .map(|y| y.buffer);
            same(&format!("{n} on {d:?}"), got, want.clone());
        }
    }
}

#[test]
fn rows_in_parts() {
    channels_of_images(11, |dice, l, wild| {
        for t in [DType::F32, DType::F64, DType::BF16] {
            let x = (dice.data(t, l.shape().numel(), wild), l.clone());
            check("parts", &Moments, &[x], 1, t);
        }
    });
}

#[test]
fn sums_of_columns() {
    // Formulas of one sum, whose rows are columns in memory.
    use elinvar_ops::catalogue::mean::Mean;
    use elinvar_ops::catalogue::norm::{Norm, Real};
    use elinvar_ops::catalogue::normalize::Products;
    let mut dice = Dice::new(12);
    for n in [0, 1, 2, 127, 129, 1025, 5000] {
        for columns in [8, 63, 64, 65, 130, 600] {
            if !affordable(n * columns / 4) {
                continue;
            }
            let l = Layout::contiguous(Shape::new(&[n, columns]).unwrap());
            let across = l.transpose(0, 1);
            let t = dice.pick(&[DType::F32, DType::F32, DType::F64, DType::BF16]);
            let x = (dice.data(t, n * columns, n == 129), across.clone());
            let alone = [x];
            check("columns", &Mean, &alone, 1, t);
            check("columns", &Norm(Real(3.0)), &alone, 1, t);
            let [x] = alone;
            let w = (dice.data(t, n * columns, false), across.flip(1));
            check("columns", &Products, &[x.clone(), w], 1, t);
            if n == 0 {
                continue;
            }
            // A number for each column, and one for each of their elements.
            let of = |shape: &[usize]| {
                let l = Layout::contiguous(Shape::new(shape).unwrap());
                l.broadcast_to(across.shape(), "t").unwrap()
            };
            let each = (dice.data(t, columns, false), of(&[columns, 1]));
            check("columns", &Products, &[x.clone(), each], 1, t);
            let one = (dice.data(DType::Bool, n, false), of(&[n]));
            check("columns", &Products, &[x.clone(), one.clone()], 1, t);
            check("columns", &Products, &[one, x], 1, t);
            // Rows side by side in two groups.
            let l = Layout::contiguous(Shape::new(&[2, n, columns]).unwrap()).transpose(1, 2);
            let (x, y) = (dice.data(t, 2 * n * columns, false), dice.data(t, 2 * n * columns, false));
            check("groups", &Products, &[(x, l.clone()), (y, l)], 2, t);
        }
    }
}
