//! Scans, arg-folds, sorting and pooling against the reference, by bits.

use super::common::*;
use crate::data::Data;
use elinvar_core::{DType, HostData, Layout, Shape};
use elinvar_cpu::Cpu;
use elinvar_ops::backend::Compute;
use elinvar_ops::backend::{ArgFold, Pool, PoolKind, Scan, Windows};
use elinvar_reference::{Reference, ReferenceDevice};

fn check_scan(x: &(Data, Layout), f: Scan, to: DType) {
    let want = Reference::scan(&ReferenceDevice, f, reference(x), to).map(|y| y.buffer);
    for d in devices() {
        let got = Cpu::scan(&d, f, cpu(x), to).and_then(|y| row_by_row(&d, y, to));
        same(&format!("{f:?} of {} {:?} on {d:?}", x.0.dtype(), x.1), got, want.clone());
    }
}

fn check_rows(x: &(Data, Layout), kept: usize) {
    for f in [ArgFold::Max, ArgFold::Min] {
        let want = Reference::arg_fold(&ReferenceDevice, f, reference(x), kept);
        for d in devices() {
            let got = Cpu::arg_fold(&d, f, cpu(x), kept);
            same(&format!("{f:?} of {} {:?}, {kept} kept on {d:?}", x.0.dtype(), x.1), got, want.clone());
        }
    }
}

fn check_sort(x: &(Data, Layout)) {
    let n = *x.1.shape().last().expect("a row");
    // All of a row, few of it, and so many that sorting all is as good.
    for first in [n, n.min(1), n.min(10), n / 8, n / 3] {
        check_first(x, first);
    }
}

fn check_first(x: &(Data, Layout), first: usize) {
    for down in [false, true] {
        let want = Reference::sort(&ReferenceDevice, reference(x), down, first).unwrap();
        for d in devices() {
            let got = Cpu::sort(&d, cpu(x), down, first).unwrap();
            let what = format!("the first {first} of {} {:?}, {down}, on {d:?}", x.0.dtype(), x.1);
            same(&what, Ok(got.0), Ok(want.0.clone()));
            same(&what, Ok(got.1), Ok(want.1.clone()));
        }
    }
}

#[test]
fn rows_of_every_length() {
    let mut dice = Dice::new(21);
    for n in [0, 1, 2, 6, 15, 16, 17, 31, 1023, 1024, 1025, 4095, 4097, 20000, 40000] {
        for rows in [1, 3, 30, 2000] {
            if !affordable(rows * n) {
                continue;
            }
            let dtype = dice.pick(&[DType::F32, DType::F32, DType::F64]);
            let l = Layout::contiguous(Shape::new(&[rows, n]).unwrap());
            let x = (dice.data(dtype, rows * n, dice_wild(n)), l);
            check_scan(&x, Scan::Sum, dtype);
            check_scan(&x, Scan::Prod, dtype);
            if n > 0 {
                check_rows(&x, 1);
            }
            if n < 5000 && rows < 2000 {
                check_sort(&x);
            }
        }
    }
}

#[test]
fn scans_side_by_side() {
    let mut dice = Dice::new(25);
    for n in [1, 2, 7, 15, 16, 17, 33, 128, 129, 1024, 1025, 3100] {
        for columns in [31, 32, 64, 65, 130] {
            if !affordable(2 * n * columns) {
                continue;
            }
            let dtype = dice.pick(&DType::ALL);
            let upright = Layout::contiguous(Shape::new(&[2, n, columns]).unwrap()).transpose(1, 2);
            let lying = Layout::contiguous(Shape::new(&[2, columns, n]).unwrap());
            for l in [upright.clone(), upright.flip(2), lying] {
                let x = (dice.data(dtype, 2 * n * columns, dice_wild(n)), l);
                check_scan(&x, Scan::Sum, folded(dtype, true));
                check_scan(&x, Scan::Prod, folded(dtype, true));
            }
        }
    }
}

#[test]
fn extremes_side_by_side() {
    let mut dice = Dice::new(29);
    // Equal elements, zeros of both signs, NaN at first and later; numbers that are all different.
    let all: [&[f64]; 4] = [&[-1.0, 0.5, 2.0], &[-1.0, -0.0, 0.0], &[f64::NAN, f64::INFINITY, 1.0], &[]];
    for n in [1, 2, 10, 16, 17, 31, 32, 33, 65, 100] {
        for columns in [7, 8, 31, 33, 64, 65, 200, 1100] {
            if !affordable(2 * n * columns) {
                continue;
            }
            let values = dice.pick(&all);
            let dtype = if values.is_empty() { dice.pick(&DType::ALL) } else { DType::F32 };
            let data = match values {
                [] => dice.data(dtype, 2 * n * columns, true),
                _ => HostData::F32((0..2 * n * columns).map(|_| dice.pick(values) as f32).collect()).into(),
            };
            let upright = Layout::contiguous(Shape::new(&[2, n, columns]).unwrap()).transpose(1, 2);
            let lying = Layout::contiguous(Shape::new(&[2, columns, n]).unwrap());
            for l in [upright.clone(), upright.flip(2), upright.slice(1, 1, columns - 2, 1), lying] {
                check_rows(&(data.clone(), l), 2);
            }
        }
    }
}

#[test]
fn whole_numbers_that_are_near_and_far() {
    let mut dice = Dice::new(30);
    // The difference fits 32 bits, just and not quite; equal ones; both ends of all.
    for (least, most) in
        [(5, 5), (-3, 900), (-7, u32::MAX as i64 - 7), (-7, u32::MAX as i64 - 6), (i64::MIN, i64::MAX)]
    {
        for n in [3, 2500, 70_000] {
            if n > 10_000 && cfg!(debug_assertions) && least != -3 {
                continue;
            }
            let number = |dice: &mut Dice| {
                let high = dice.below(1 << 32) as i128;
                let all = most as i128 - least as i128 + 1;
                (least as i128 + ((high << 31 | dice.below(1 << 31) as i128) % all)) as i64
            };
            let mut v: Vec<i64> = (0..n).map(|_| number(&mut dice)).collect();
            (v[n / 2], v[n - 1]) = (most, least);
            let x = (HostData::I64(v.into()).into(), Layout::contiguous(Shape::new(&[n]).unwrap()));
            check_first(&x, n);
            check_first(&x, n / 2);
        }
    }
}

#[test]
fn few_of_many() {
    let mut dice = Dice::new(31);
    // Around the elements that are looked at together, and as many as lanes are asked for; equal
    // ones, and ascending ones.
    for n in [512, 575, 576, 577, 1000] {
        for first in [1, 10, 32, 33, 64] {
            let dtype = dice.pick(&[DType::F32, DType::F32, DType::F64, DType::I32, DType::U8, DType::BF16]);
            let l = Layout::contiguous(Shape::new(&[3, n]).unwrap());
            check_first(&(dice.data(dtype, 3 * n, n % 2 == 0), l.clone()), first);
            let few = (0..3 * n).map(|_| dice.pick(&[0.0f32, -0.0, f32::NAN, 1.0]));
            check_first(&(HostData::F32(few.collect()).into(), l.clone()), first);
            check_first(&(HostData::F32((0..3 * n).map(|i| i as f32).collect()).into(), l), first);
        }
    }
}

#[test]
fn short_rows_side_by_side() {
    let mut dice = Dice::new(29);
    // Around the rows that go together, and around those of a task.
    for (n, rows) in
        (1..=17).map(|n| (n, 2 + n * 7 % 33)).chain([(2, 1023), (3, 1025), (10, 1024), (16, 1041)])
    {
        for dtype in DType::ALL {
            let l = Layout::contiguous(Shape::new(&[rows, n]).unwrap());
            let x = (dice.data(dtype, rows * n, true), l);
            for first in [n, 1, n.div_ceil(2)] {
                check_first(&x, first);
            }
        }
        // Many equals, and rows that are not one after the other.
        let l = Layout::contiguous(Shape::new(&[n, rows]).unwrap()).transpose(0, 1);
        let few = (0..rows * n).map(|_| dice.pick(&[0.0f32, -0.0, 1.0, f32::NAN, f32::INFINITY, -1.0]));
        check_first(&(HostData::F32(few.collect()).into(), l), n);
    }
}

fn dice_wild(n: usize) -> bool {
    n.is_multiple_of(2)
}

#[test]
fn any_memory_and_type() {
    let mut dice = Dice::new(22);
    for _ in 0..rounds(60) {
        let rank = 1 + dice.below(3);
        let mut dims: Vec<usize> = (0..rank).map(|_| dice.pick(&[1, 2, 3, 5])).collect();
        let long = dice.below(rank);
        dims[long] = dice.pick(&[1, 17, 63, 500, 2000]);
        let dtype = dice.pick(&DType::ALL);
        let wild = dice.below(2) == 0;
        let x = dice.operand(dtype, &dims, wild);
        check_scan(&x, dice.pick(&[Scan::Sum, Scan::Prod]), folded(dtype, true));
        check_rows(&x, dice.below(rank + 1));
        check_sort(&x);
    }
}

#[test]
fn many_equals_keep_their_order() {
    let mut dice = Dice::new(23);
    // Long enough for several threads in one row.
    let n = 70_000;
    let few = (0..n).map(|_| dice.pick(&[0.0f32, -0.0, 1.0, f32::NAN, f32::INFINITY, -1.0])).collect();
    let x = (HostData::F32(few).into(), Layout::contiguous(Shape::new(&[n]).unwrap()));
    check_sort(&x);
    check_rows(&x, 0);
}

#[test]
fn pools() {
    let mut dice = Dice::new(24);
    for round in 0..rounds(80) {
        let axes = 1 + dice.below(3);
        let mut dims = vec![1 + dice.below(3), 1 + dice.below(4)];
        let mut p = Pool { kind: dice.pick(&[PoolKind::Max, PoolKind::Avg]), axes: Vec::new() };
        let largest = [80, 24, 9][axes - 1];
        for _ in 0..axes {
            let size = 1 + dice.below(largest);
            let kernel = 1 + dice.below(size.min(7));
            let (stride, dilation, padding) =
                (1 + dice.below(3), 1 + dice.below(2), dice.below(kernel / 2 + 1));
            let reach = dilation * (kernel - 1) + 1;
            let windows = (size + 2 * padding).checked_sub(reach).map_or(0, |left| left / stride + 1);
            p.axes.push(Windows {
                start: (0..windows).map(|i| (i * stride) as isize - padding as isize).collect(),
                len: vec![kernel; windows],
                divisor: (0..windows).map(|i| kernel.max(1) + i % 2).collect(),
                dilation,
            });
            dims.push(size);
        }
        let dtype = match p.kind {
            PoolKind::Max => dice.pick(&DType::ALL),
            PoolKind::Avg => dice.pick(&DType::FLOATS),
        };
        let wild = dice.below(2) == 0;
        let x = dice.operand(dtype, &dims, wild);
        let want = Reference::pool(&ReferenceDevice, &p, reference(&x));
        let mut g_dims = dims[..2].to_vec();
        g_dims.extend(p.axes.iter().map(|a| a.start.len()));
        let g = dice.operand(if dtype.is_float() { dtype } else { DType::F32 }, &g_dims, wild);
        let want_g = Reference::avg_pool_grad(&ReferenceDevice, &p, reference(&g), &dims[2..]);
        for d in devices() {
            let what = format!("round {round}: {p:?} of {dtype} {:?} on {d:?}", x.1);
            match (Cpu::pool(&d, &p, cpu(&x)), &want) {
                (Ok((y, winners)), Ok((want, want_winners))) => {
                    same(&what, Ok(y), Ok(want.clone()));
                    let winners = winners.as_ref().map(|w| w.data().unwrap());
                    assert_eq!(winners, want_winners.as_ref(), "{what}");
                }
                (Err(a), Err(b)) => assert_eq!(a.kind(), b.kind(), "{what}"),
                (got, want) => panic!("{what}: {got:?} where the reference gives {want:?}"),
            }
            same(&what, Cpu::avg_pool_grad(&d, &p, cpu(&g), &dims[2..]), want_g.clone());
        }
    }
}

#[test]
fn windows_that_are_far_apart() {
    let mut dice = Dice::new(28);
    // Wide windows in rows of one, of a few, and of more than registers have lanes; side by side,
    // with gaps, over each other; eight lines and others.
    for (size, kernel, stride) in [
        ([56, 56], [8, 8], [8, 8]),
        ([7, 35], [7, 8], [7, 9]),
        ([9, 90], [3, 5], [2, 5]),
        ([16, 16], [16, 8], [1, 8]),
    ]
    .into_iter()
    .chain([([8, 80], [4, 16], [4, 4]), ([20, 20], [20, 4], [1, 4]), ([3, 40], [1, 8], [1, 4])])
    {
        let axis = |i: usize| {
            let windows = (size[i] - kernel[i]) / stride[i] + 1;
            Windows {
                start: (0..windows).map(|w| (w * stride[i]) as isize).collect(),
                len: vec![kernel[i]; windows],
                divisor: vec![kernel[i]; windows],
                dilation: 1,
            }
        };
        for (kind, dtype) in [
            (PoolKind::Max, DType::F32),
            (PoolKind::Max, DType::F16),
            (PoolKind::Avg, DType::F32),
            (PoolKind::Avg, DType::F64),
        ] {
            let p = Pool { kind, axes: vec![axis(0), axis(1)] };
            let (planes, n) = (3, size[0] * size[1]);
            let l = Layout::contiguous(Shape::new(&[planes, size[0], size[1]]).unwrap());
            let some = |dice: &mut Dice, few: &[f32]| -> Data {
                let few = (0..planes * n).map(|_| dice.pick(few)).collect();
                HostData::F32(few).into()
            };
            // Any numbers; many equals; zeros of both signs alone; what is greater than nothing.
            let mut all = vec![dice.data(dtype, planes * n, false), dice.data(dtype, planes * n, true)];
            if dtype == DType::F32 {
                all.push(some(&mut dice, &[0.0, 1.0, 2.0]));
                all.push(some(&mut dice, &[0.0, -0.0]));
                all.push(some(&mut dice, &[-0.0]));
                all.push(some(&mut dice, &[f32::NEG_INFINITY, f32::NEG_INFINITY, -1.0]));
            }
            for data in all {
                let x = (data, l.clone());
                let (want, places) = Reference::pool(&ReferenceDevice, &p, reference(&x)).unwrap();
                for d in devices() {
                    let what = format!("{kind:?} of {dtype}, {kernel:?} by {stride:?} of {size:?} on {d:?}");
                    let (y, winners) = Cpu::pool(&d, &p, cpu(&x)).unwrap();
                    same(&what, Ok(y), Ok(want.clone()));
                    assert_eq!(winners.as_ref().map(|w| w.data().unwrap()), places.as_ref(), "{what}");
                }
            }
        }
    }
}

#[test]
fn averages_of_whole_planes() {
    let mut dice = Dice::new(27);
    for sizes in [[1, 1], [2, 3], [7, 7], [1, 90], [64, 64], [70, 70]] {
        let n: usize = sizes.iter().product();
        // Planes for several blocks, and one more.
        let planes = 2 * 4096 / n + 3;
        let whole =
            |size: usize| Windows { start: vec![0], len: vec![size], divisor: vec![size + 1], dilation: 1 };
        let p = Pool { kind: PoolKind::Avg, axes: sizes.map(whole).to_vec() };
        let dtype = dice.pick(&[DType::F32, DType::F64, DType::F16]);
        let (x, g) = (
            dice.operand(dtype, &[planes, sizes[0], sizes[1]], true),
            dice.operand(dtype, &[planes, 1, 1], true),
        );
        let (want, _) = Reference::pool(&ReferenceDevice, &p, reference(&x)).unwrap();
        let want_g = Reference::avg_pool_grad(&ReferenceDevice, &p, reference(&g), &sizes).unwrap();
        for d in devices() {
            let what = format!("{planes} planes of {sizes:?} of {dtype} on {d:?}");
            same(&what, Cpu::pool(&d, &p, cpu(&x)).map(|(y, _)| y), Ok(want.clone()));
            same(&what, Cpu::avg_pool_grad(&d, &p, cpu(&g), &sizes), Ok(want_g.clone()));
        }
    }
}

#[test]
fn windows_that_are_not_alike() {
    let mut dice = Dice::new(26);
    for round in 0..rounds(60) {
        let mut p = Pool { kind: PoolKind::Max, axes: Vec::new() };
        let mut dims = vec![2];
        for _ in 0..2 {
            let size = 40 + dice.below(30);
            let (mut axis, mut at) =
                (Windows { start: vec![], len: vec![], divisor: vec![], dilation: 1 }, 0);
            // Stretches of windows with the same step and number of taps.
            while at + 4 < size {
                let (step, len) = (dice.below(4), 1 + dice.below(4));
                for _ in 0..1 + dice.below(24) {
                    if at + len > size {
                        break;
                    }
                    axis.start.push(at as isize);
                    axis.len.push(len);
                    axis.divisor.push(1);
                    at += step;
                }
                at += usize::from(step == 0);
            }
            p.axes.push(axis);
            dims.push(size);
        }
        let dtype = dice.pick(&[DType::F32, DType::F64, DType::I64, DType::U8]);
        let x = dice.operand(dtype, &dims, round % 2 == 0);
        let (want, places) = Reference::pool(&ReferenceDevice, &p, reference(&x)).unwrap();
        for d in devices() {
            let (y, winners) = Cpu::pool(&d, &p, cpu(&x)).unwrap();
            let what = format!("round {round}: {p:?} of {dtype} {:?} on {d:?}", x.1);
            same(&what, Ok(y), Ok(want.clone()));
            let winners = winners.as_ref().map(|w| w.data().unwrap());
            assert_eq!(winners, places.as_ref(), "{what}");
        }
    }
}

#[test]
fn rows_across_memory() {
    let mut dice = Dice::new(25);
    for n in [2, 17, 100] {
        for columns in [8, 17, 40] {
            let l = Layout::contiguous(Shape::new(&[2, n, columns]).unwrap()).transpose(1, 2);
            let dtype = dice.pick(&DType::ALL);
            let x = (dice.data(dtype, 2 * n * columns, true), l);
            check_scan(&x, Scan::Sum, folded(dtype, true));
            check_rows(&x, 2);
            check_sort(&x);
        }
    }
}

#[test]
fn windows_two_apart() {
    let mut dice = Dice::new(28);
    // Of zeros of both signs the first wins, and a NaN of all; without them the order of
    // comparisons is free.
    let all: [&[f64]; 4] = [&[-1.0, 0.5, 2.0], &[-1.0, 0.0], &[-1.0, -0.0, 0.0], &[-2.0, 1.0, f64::NAN]];
    for (kernel, padding) in [(2, 0), (3, 0), (3, 1), (4, 1)] {
        for width in [9, 17, 33, 34, 64, 75] {
            for values in all {
                let axis = |size: usize| {
                    let windows = (size + 2 * padding - kernel) / 2 + 1;
                    Windows {
                        start: (0..windows).map(|i| (2 * i) as isize - padding as isize).collect(),
                        len: vec![kernel; windows],
                        divisor: vec![1; windows],
                        dilation: 1,
                    }
                };
                let p = Pool { kind: PoolKind::Max, axes: vec![axis(7), axis(width)] };
                let data = (0..2 * 7 * width).map(|_| dice.pick(values) as f32).collect();
                let layout = Layout::contiguous(Shape::new(&[2, 7, width]).unwrap());
                let x = (Data::from(HostData::F32(data)), layout);
                let (want, _) = Reference::pool(&ReferenceDevice, &p, reference(&x)).unwrap();
                for d in devices() {
                    let (y, _) = Cpu::pool(&d, &p, cpu(&x)).unwrap();
                    same(
                        &format!("{kernel}, {padding}, {width}, {values:?} on {d:?}"),
                        Ok(y),
                        Ok(want.clone()),
                    );
                }
            }
        }
    }
}
