//! Tensors one after the other along an axis, and parts that leave gaps or lie over each other.

use crate::common::{Operand, devices, same};
use crate::dice::{Dice, Values};
use elinvar_core::{DType, Layout, Scalar, Shape};
use elinvar_cpu::Cpu;
use elinvar_ops::Backend;
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
