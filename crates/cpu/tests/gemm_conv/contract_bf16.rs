//! Contractions in `Precision::Fast` (bf16 dot products): reproducible for any number of threads
//! and any batch, and close to exact.

use crate::data::Numbers;
use crate::tools::{Dice, Operand, devices, same};
use elinvar_core::{DType, Element, HostData, Precision, Shape, bf16};
use elinvar_cpu::{Cpu, CpuDevice, Isa};
use elinvar_ops::backend::{AddBias, CompiledEpilogue, Compute};
use elinvar_ops::map::Compiled;

fn fast(d: &CpuDevice, x: &Operand, w: &Operand) -> HostData {
    Cpu::contract(d, Precision::Fast, x.cpu(), w.cpu(), None, &[]).unwrap().numbers().clone()
}

fn f64s(x: &HostData) -> Vec<f64> {
    elinvar_core::each_data!(x, v => v.iter().map(|x| Element::to_f64(*x)).collect())
}

fn exact(d: &CpuDevice, x: &Operand, w: &Operand) -> HostData {
    Cpu::contract(d, Precision::Exact, x.cpu(), w.cpu(), None, &[]).unwrap().numbers().clone()
}

/// The same numbers [b, rows, cols], lying otherwise: turned, or with a gap after each row.
fn lies(x: &Operand, how: usize) -> Operand {
    let [b, rows, cols] = *x.layout.shape().dims() else { panic!("a batch of matrices") };
    let HostData::BF16(data) = &*x.data else { panic!("not bf16") };
    let at = |i: usize, r: usize, c: usize| data[(i * rows + r) * cols + c];
    let turned = how == 1;
    let gap = if how == 2 { 3 } else { 0 };
    let (down, across) = if turned { (cols, rows) } else { (rows, cols) };
    let mut v = Vec::new();
    for i in 0..b {
        for r in 0..down {
            v.extend((0..across).map(|c| if turned { at(i, c, r) } else { at(i, r, c) }));
            v.extend((0..gap).map(|_| bf16::NAN));
        }
    }
    let mut y = Operand::contiguous(HostData::BF16(v.into()), &[b, down, across + gap]);
    y.layout = y.layout.slice(2, 0, across, 1);
    if turned {
        y.layout = y.layout.transpose(1, 2);
    }
    y
}

/// Rows `from..to` of a batch of matrices, in memory of their own.
fn part(x: &Operand, axis: usize, from: usize, to: usize) -> Operand {
    Operand { data: x.data.clone(), layout: x.layout.slice(axis, from, to - from, 1) }
}

#[test]
fn it_depends_on_nothing_but_the_row_and_the_column() {
    let (mut dice, on) = (Dice::new(41), devices());
    for [b, m, k, n] in
        [[1, 40, 70, 50], [1, 17, 1029, 33], [2, 9, 2050, 40], [1, 210, 130, 70], [1, 3, 2, 9]]
    {
        let x = Operand::contiguous(dice.data(DType::BF16, b * m * k, false), &[b, m, k]);
        let w = Operand::contiguous(dice.data(DType::BF16, b * k * n, false), &[b, k, n]);
        for isa in Isa::with_kernels() {
            let all = fast(&CpuDevice::new(isa, 1).unwrap(), &x, &w);
            let HostData::BF16(all) = &all else { panic!("not bf16") };
            for d in on.iter().filter(|d| d.isa() == isa) {
                for how in 0..9 {
                    let y = fast(d, &lies(&x, how % 3), &lies(&w, how / 3));
                    same(&y, &HostData::BF16(all.clone()), &format!("{d:?} {b}x{m}x{n}x{k} lying {how}"));
                }
            }
            let d = CpuDevice::new(isa, 2).unwrap();
            for how in 0..9 {
                let (x, w) = (lies(&x, how % 3), lies(&w, how / 3));
                for (from, to) in [(0, 1), (m - 1, m), (1, 3), (0, m.min(9)), (0, m.min(13))] {
                    for (left, right) in [(0, n), (0, 1), (n - 8, n), (1, n)] {
                        let y = fast(&d, &part(&x, 1, from, to), &part(&w, 2, left, right));
                        let want: Vec<_> = (0..b)
                            .flat_map(|i| (from..to).map(move |r| (i * m + r) * n))
                            .flat_map(|row| all[row + left..row + right].iter().copied())
                            .collect();
                        let what =
                            format!("{d:?} {b}x{m}x{n}x{k} rows {from}..{to}, columns {left}..{right}");
                        same(&y, &HostData::BF16(want.into()), &what);
                    }
                }
            }
        }
    }
}

#[test]
fn it_is_close() {
    let (mut dice, on) = (Dice::new(42), devices());
    let mut differs = false;
    for (m, k, n) in [(5, 1, 9), (13, 700, 40), (3, 4100, 33), (1, 4096, 64)] {
        let x = Operand::contiguous(dice.data(DType::BF16, m * k, false), &[1, m, k]);
        let w = Operand::contiguous(dice.data(DType::BF16, k * n, false), &[1, k, n]);
        let (xs, ws) = (f64s(&x.data), f64s(&w.data));
        let terms = |i: usize| (0..k).map(|t| xs[i / n * k + t] * ws[t * n + i % n]).collect::<Vec<f64>>();
        let terms: Vec<Vec<f64>> = (0..m * n).map(terms).collect();
        let sums: Vec<f64> = terms.iter().map(|t| t.iter().sum()).collect();
        // A bias takes most of the sum away, and shows what the rounding of the result would hide.
        let bias: Vec<bf16> = sums.iter().map(|s| bf16::from_f64(-s)).collect();
        let extra = Operand::contiguous(HostData::BF16(bias.clone().into()), &[1, m, n]);
        for d in &on {
            let run = |p| {
                Cpu::contract(
                    d,
                    p,
                    x.cpu(),
                    w.cpu(),
                    Some(AddBias::object(&Compiled(AddBias))),
                    &[extra.cpu()],
                )
                .unwrap()
            };
            let (y, exact) = (run(Precision::Fast), run(Precision::Exact));
            differs |= y.numbers() != exact.numbers();
            for (i, y) in f64s(y.numbers()).into_iter().enumerate() {
                let size: f64 = terms[i].iter().map(|x| x.abs()).sum();
                let want = sums[i] + bias[i].to_f64();
                // Products of bf16 are exact in f32. Each of k terms is added with two roundings at
                // most, then the chunks and the bias are; the store rounds to 8 bits.
                let bound = (2 * k + 16) as f64 * 2f64.powi(-24) * size + 2f64.powi(-8) * want.abs();
                assert!((y - want).abs() <= bound, "{d:?} {m}x{n}x{k} [{i}]: {y}, not {want}");
            }
        }
    }
    #[cfg(target_arch = "x86_64")]
    assert_eq!(
        differs,
        std::arch::is_x86_feature_detected!("avx512bf16"),
        "where pairs are multiplied, by whatever registers, some sums round otherwise; elsewhere none does"
    );
    #[cfg(not(target_arch = "x86_64"))]
    assert!(!differs, "no processor but x86 multiplies pairs here");
}

#[test]
fn what_gains_nothing_stays_exact() {
    let (mut dice, on) = (Dice::new(43), devices());
    for dtype in [DType::F32, DType::F64, DType::F16, DType::I32] {
        let x = Operand::contiguous(dice.data(dtype, 6 * 600, false), &[1, 6, 600]);
        let w = Operand::contiguous(dice.data(dtype, 600 * 20, false), &[1, 600, 20]);
        for d in &on {
            same(&fast(d, &x, &w), &exact(d, &x, &w), &format!("{d:?} {dtype}"));
        }
    }
}

#[test]
fn epilogues_batches_and_nothing_to_sum() {
    let (mut dice, on) = (Dice::new(44), devices());
    for [b, m, k, n] in [[3, 4, 64, 24], [2, 1, 33, 5], [1, 2, 0, 3], [2, 0, 4, 3]] {
        let x = Operand::contiguous(dice.data(DType::BF16, b * m * k, false), &[b, m, k]);
        let mut w = Operand::contiguous(dice.data(DType::BF16, k * n, false), &[1, k, n]);
        w.layout = w.layout.broadcast_to(&Shape::new(&[b, k, n]).unwrap(), "test").unwrap();
        let bias = Operand::contiguous(HostData::BF16(vec![bf16::ONE; b * m * n].into()), &[b, m, n]);
        for d in &on {
            let got = Cpu::contract(
                d,
                Precision::Fast,
                x.cpu(),
                w.cpu(),
                Some(AddBias::object(&Compiled(AddBias))),
                &[bias.cpu()],
            )
            .unwrap();
            assert_eq!((got.numbers().dtype(), got.numbers().len()), (DType::BF16, b * m * n));
            let want = Cpu::contract(
                d,
                Precision::Exact,
                x.cpu(),
                w.cpu(),
                Some(AddBias::object(&Compiled(AddBias))),
                &[bias.cpu()],
            )
            .unwrap();
            let (got, want) = (f64s(got.numbers()), f64s(want.numbers()));
            let close = got.iter().zip(&want).all(|(a, b)| (a - b).abs() <= 0.02 * b.abs() + 1e-3);
            assert!(close, "{d:?}: {got:?}, not {want:?}");
        }
    }
}
