//! Concatenation along an axis, and parts that leave gaps or overlap.

use crate::common::{Operand, devices, same};
use crate::dice::{Dice, Values};
use elinvar_core::{DType, Layout, Scalar, Shape};
use elinvar_cpu::Cpu;
use elinvar_ops::backend::Memory;
use elinvar_reference::{Reference, ReferenceDevice};

fn check(what: &str, dtype: DType, shape: &Shape, parts: &[(Operand, Layout)]) {
    let fill = Scalar::Int(1);
    let host: Vec<_> = parts.iter().map(|(x, to)| (x.reference(), to.clone())).collect();
    let want = Reference::assemble(&ReferenceDevice, fill, dtype, shape, &host);
    let cpu: Vec<_> = parts.iter().map(|(x, to)| (x.cpu(), to.clone())).collect();
    for d in devices() {
        let got = Cpu::assemble(&d, fill, dtype, shape, &cpu);
        same(&got, &want, &format!("{what}: {dtype} {shape} on {d:?}"));
    }
}

#[test]
fn parts_along_an_axis() {
    for round in 0..60 {
        let mut dice = Dice::new(7, round);
        let dtype = dice.pick(&DType::ALL);
        let rank = dice.between(1, 3);
        let axis = dice.below(rank);
        let mut shape: Vec<usize> = (0..rank).map(|_| dice.pick(&[1, 2, 7, 33])).collect();
        let sizes: Vec<usize> = (0..dice.between(1, 4)).map(|_| dice.pick(&[0, 1, 1, 3, 70, 300])).collect();
        shape[axis] = sizes.iter().sum();
        let whole = Shape::new(&shape).unwrap();
        let to = Layout::contiguous(whole.clone());
        let mut at = 0;
        let mut parts = Vec::new();
        for size in sizes {
            shape[axis] = size;
            let x = Operand::draw(&mut dice, dtype, &shape, Values::Wild);
            parts.push((x, to.slice(axis, at, size, 1)));
            at += size;
        }
        if dice.once_in(2) {
            parts.reverse();
        }
        check("all", dtype, &whole, &parts);
        // One is missing, or comes twice.
        let part = parts.pop().expect("a part");
        check("a gap", dtype, &whole, &parts);
        parts.push(part);
        let (_, place) = &parts[0];
        let again = Operand::draw(&mut dice, dtype, place.shape(), Values::Wild);
        parts.push((again, place.clone()));
        check("twice", dtype, &whole, &parts);
    }
}

#[test]
fn a_few_wide_rows() {
    // Several threads share a row: of parts that end within their shares, that are in rows of their
    // own, and that are turned.
    let mut dice = Dice::new(9, 0);
    for (rows, sizes) in [
        (1, &[70_000, 1, 60_000][..]),
        (1, &[40_000, 40_000]),
        (2, &[20_000, 64, 30_000]),
        (3, &[0, 5000, 33_000]),
    ] {
        let total = sizes.iter().sum();
        let whole = Shape::new(&[rows, total]).unwrap();
        let to = Layout::contiguous(whole.clone());
        for dtype in [DType::F32, DType::U8] {
            let mut at = 0;
            let mut parts = Vec::new();
            for &size in sizes {
                let len = rows * size * 2;
                let data = dice.data(dtype, len, Values::Wild).into();
                let wide = Layout::contiguous(Shape::new(&[rows, 2 * size]).unwrap());
                let layout = match parts.len() {
                    0 => wide.slice(1, size, size, 1),
                    1 => Layout::contiguous(Shape::new(&[size, rows]).unwrap()).transpose(0, 1),
                    _ => wide.slice(1, 0, size, 2),
                };
                parts.push((Operand { data, layout }, to.slice(1, at, size, 1)));
                at += size;
            }
            check("wide rows", dtype, &whole, &parts);
        }
    }
}

#[test]
fn a_part_in_the_midst_of_a_value() {
    for round in 0..80 {
        let mut dice = Dice::new(8, round);
        let dtype = dice.pick(&DType::ALL);
        let rank = dice.between(1, 4);
        let around: Vec<[usize; 2]> =
            (0..rank).map(|_| dice.pick(&[[0, 0], [1, 1], [0, 2], [3, 0]])).collect();
        let shape: Vec<usize> = (0..rank).map(|_| dice.pick(&[1, 2, 5, 17, 40])).collect();
        // Enough planes for several threads, sometimes.
        let shape = if round % 4 == 0 && rank > 2 { [&[30][..], &shape[1..]].concat() } else { shape };
        if shape.iter().product::<usize>() > 30_000 {
            continue;
        }
        let whole: Vec<usize> = shape.iter().zip(&around).map(|(n, [a, b])| a + n + b).collect();
        let whole = Shape::new(&whole).unwrap();
        let mut to = Layout::contiguous(whole.clone());
        for (axis, ([before, _], &n)) in around.iter().zip(&shape).enumerate() {
            to = to.slice(axis, *before, n, 1);
        }
        let x = Operand::draw(&mut dice, dtype, &shape, Values::Wild);
        let lies = Operand {
            data: dice.data(dtype, shape.iter().product(), Values::Wild).into(),
            layout: Layout::contiguous(Shape::new(&shape).unwrap()),
        };
        // Every second place along an axis, and backwards: those are no frames.
        let odd = Layout::contiguous(whole.clone()).flip(rank - 1);
        let all = Operand::draw(&mut dice, dtype, &whole, Values::Wild);
        check("anything", dtype, &whole, &[(x, to.clone())]);
        check("rows", dtype, &whole, &[(lies, to)]);
        check("backwards", dtype, &whole, &[(all, odd)]);
    }
}
