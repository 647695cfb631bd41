//! Convolutions in `Precision::Fast` (bf16 dot products): close to exact, exact for small integers,
//! and the same bits for any number of threads.

use crate::conv::{draw, two};
use crate::data::Numbers;
use crate::processor::multiplies_pairs;
use crate::tools::{Dice, Operand, devices, same};
use elinvar_core::{DType, HostData, Precision, bf16};
use elinvar_cpu::{Cpu, CpuDevice, Isa};
use elinvar_ops::backend::Compute;
use elinvar_ops::backend::Conv;

/// Whole numbers whose sums are exact in any order, so that there is one right result.
fn whole(dice: &mut Dice, shape: &[usize], awkward: bool) -> Operand {
    let Operand { data, layout } = if awkward {
        dice.operand(DType::BF16, shape, false)
    } else {
        Operand::contiguous(dice.data(DType::BF16, shape.iter().product(), false), shape)
    };
    let numbers = (0..data.len()).map(|_| bf16::from_f64(dice.below(7) as f64 - 3.0)).collect();
    Operand { data: HostData::BF16(numbers).into(), layout }
}

#[test]
fn fast_ones_of_whole_numbers_are_right() {
    let (mut dice, on) = (Dice::new(17), devices());
    for round in 0..80 {
        let mut case = draw(&mut dice);
        case.c.precision = Precision::Fast;
        case.channels = dice.pick(&[2, 3, 8, 17, 70]);
        case.outs = dice.pick(&[5, 8, 16, 33, 64]);
        let d = [on[round % on.len()].clone(), on[round * 7 % on.len()].clone()];
        let awkward = dice.once_in(2);
        case.check_of(&d, |shape| whole(&mut dice, shape, awkward));
    }
    // More than a chunk of pairs; rows of windows that registers fit, tiles of windows, one tap.
    for (channels, outs, plane, taps, stride) in
        [(130, 64, 14, 3, 1), (130, 40, 20, 3, 1), (1030, 64, 7, 1, 1), (3, 64, 30, 7, 2), (65, 24, 33, 3, 2)]
    {
        let mut case = two(2, channels, outs, plane, taps, stride);
        case.c.precision = Precision::Fast;
        case.check_of(&[on[on.len() - 2].clone()], |shape| whole(&mut dice, shape, false));
    }
}

#[test]
fn fast_ones_are_close_and_the_same_for_all_threads_and_alone() {
    let (mut dice, on) = (Dice::new(18), devices());
    let mut differs = false;
    for (channels, outs, plane, taps, stride, groups) in [
        (130, 64, 14, 3, 1, 1),
        (64, 40, 20, 3, 1, 2),
        (200, 64, 7, 1, 1, 1),
        (3, 64, 30, 7, 2, 1),
        (65, 24, 33, 3, 2, 1),
    ] {
        let mut case = two(3, channels, outs, plane, taps, stride);
        case.c.groups = groups;
        let mut make = |shape: &[usize]| {
            Operand::contiguous(dice.data(DType::BF16, shape.iter().product(), false), shape)
        };
        let x = make(&[3, groups * channels, plane, plane]);
        let w = make(&[groups * outs, channels, taps, taps]);
        let g = make(&[&[3, groups * outs], &case.out()[..]].concat());
        let run = |d: &CpuDevice, precision: Precision, images: std::ops::Range<usize>| {
            let c = Conv { precision, ..case.c.clone() };
            let some = |v: &Operand| {
                let layout = v.layout.slice(0, images.start, images.len(), 1);
                Operand { data: v.data.clone(), layout }
            };
            let (x, g) = (some(&x), some(&g));
            let y = Cpu::conv(d, &c, x.cpu(), w.cpu(), &case.out(), None, &[]).unwrap();
            let dx = Cpu::conv_input_grad(d, &c, g.cpu(), w.cpu(), &case.plane).unwrap();
            let dw = Cpu::conv_weight_grad(d, &c, x.cpu(), g.cpu(), &case.taps).unwrap();
            [y, dx, dw].map(|y| y.numbers().clone())
        };
        for isa in Isa::with_kernels() {
            // Without vectors none is fast, and unoptimised each takes seconds: two of them will
            // do.
            if isa.to_string() == "plain" && plane > 7 && channels > 3 {
                continue;
            }
            let all = run(&CpuDevice::new(isa, 1).unwrap(), Precision::Fast, 0..3);
            for d in on.iter().filter(|d| d.isa() == isa && d.threads() == 3) {
                let (again, alone) = (run(d, Precision::Fast, 0..3), run(d, Precision::Fast, 1..2));
                let exact = run(d, Precision::Exact, 0..3);
                for i in 0..3 {
                    let what = format!("{} on {d:?}: {case:?}", ["y", "dx", "dw"][i]);
                    same(&again[i], &all[i], &what);
                    let HostData::BF16(whole) = &all[i] else { panic!("not bf16") };
                    if i < 2 {
                        let one = whole.len() / 3;
                        same(&alone[i], &HostData::BF16(whole[one..2 * one].to_vec().into()), &what);
                    }
                    differs |= again[i] != exact[i];
                    let HostData::BF16(exact) = &exact[i] else { panic!("not bf16") };
                    // Numbers are of size 1, and a sum has so many terms; results have 8 bits.
                    let positions = case.out().iter().product::<usize>();
                    let terms = [taps * taps * channels, taps * taps * outs, 3 * positions][i] as f64;
                    for (fast, exact) in whole.iter().zip(exact) {
                        let (fast, exact) = (fast.to_f64(), exact.to_f64());
                        let bound =
                            (2.0 * terms + 8.0) * 2f64.powi(-24) * terms + 2f64.powi(-7) * exact.abs();
                        assert!((fast - exact).abs() <= bound, "{what}: {fast}, not {exact}");
                    }
                }
            }
        }
    }
    let pairs = on.iter().any(|d| d.isa().to_string() == "avx512") && multiplies_pairs();
    assert_eq!(differs, pairs, "where pairs are multiplied, some sums round otherwise; elsewhere none does");
}
