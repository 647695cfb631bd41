//! Attention in `Precision::Fast` (bf16 dot products): reproducible, independent of what else is in
//! the batch, and close to exact.

use super::common::*;
use crate::data::{Data, Numbers};
use crate::processor::multiplies_pairs;
use elinvar_core::{DType, Element, HostData, Layout, Precision, Shape, bf16};
use elinvar_cpu::{Cpu, CpuDevice};
use elinvar_ops::backend::Attention;
use elinvar_ops::backend::Compute;

type Operand = (Data, Layout);

/// Sizes b, h, j, l, s, d, v.
type Sizes = [usize; 7];

fn attention(precision: Precision, causal: bool) -> Attention {
    Attention { precision, ..Attention::exact(0.2, causal) }
}

/// q, k and v.
fn operands(dice: &mut Dice, [b, h, j, l, s, d, v]: Sizes, dtype: DType) -> [Operand; 3] {
    [[b, h, l, d], [b, j, s, d], [b, j, s, v]].map(|dims| {
        let shape = Shape::new(&dims).unwrap();
        (dice.data(dtype, shape.numel(), false), Layout::contiguous(shape))
    })
}

fn run(
    on: &CpuDevice,
    a: &Attention,
    [q, k, v]: &[Operand; 3],
    mask: Option<&Operand>,
) -> (HostData, HostData) {
    let (o, lse) = Cpu::attention(on, a, cpu(q), cpu(k), cpu(v), mask.map(cpu)).unwrap();
    (o.numbers().clone(), lse.numbers().clone())
}

/// The gradients by q, k and v; given are the results, and a gradient of those.
fn gradients(
    on: &CpuDevice,
    a: &Attention,
    [q, k, v]: &[Operand; 3],
    [o, lse, g]: &[Operand; 3],
    mask: Option<&Operand>,
) -> [HostData; 3] {
    let all =
        Cpu::attention_grad(on, a, cpu(q), cpu(k), cpu(v), mask.map(cpu), cpu(o), cpu(lse), cpu(g)).unwrap();
    [all.0, all.1, all.2].map(|x| x.numbers().clone())
}

fn whole(data: HostData, dims: &[usize]) -> Operand {
    (data.into(), Layout::contiguous(Shape::new(dims).unwrap()))
}

/// The results of the exact forward, and a gradient of those.
fn given(
    dice: &mut Dice,
    [b, h, _, l, _, _, v]: Sizes,
    causal: bool,
    all: &[Operand; 3],
    mask: Option<&Operand>,
) -> [Operand; 3] {
    let (o, lse) = run(&devices()[0], &attention(Precision::Exact, causal), all, mask);
    let g = HostData::clone(&dice.data(DType::BF16, b * h * l * v, false));
    [whole(o, &[b, h, l, v]), whole(lse, &[b, h, l]), whole(g, &[b, h, l, v])]
}

fn f64s(x: &HostData) -> Vec<f64> {
    elinvar_core::each_data!(x, v => v.iter().map(|x| Element::to_f64(*x)).collect())
}

/// The same numbers with heads side by side, as a layer has them.
fn side_by_side((data, layout): &Operand) -> Operand {
    let [b, h, rows, n] = *layout.shape().dims() else { panic!("heads of rows") };
    let HostData::BF16(x) = &**data else { panic!("not bf16") };
    let at = |b: usize, r: usize, h_: usize, i: usize| x[((b * h + h_) * rows + r) * n + i];
    let mut y = Vec::new();
    for b in 0..b {
        for r in 0..rows {
            for h in 0..h {
                y.extend((0..n).map(|i| at(b, r, h, i)));
            }
        }
    }
    let layout = Layout::contiguous(Shape::new(&[b, rows, h, n]).unwrap()).transpose(1, 2);
    (HostData::BF16(y.into()).into(), layout)
}

/// The last batch alone.
fn last((data, layout): &Operand) -> Operand {
    let batches = layout.shape()[0];
    (data.clone(), layout.slice(0, batches - 1, 1, 1))
}

const SIZES: [Sizes; 7] = [
    [2, 4, 2, 70, 200, 64, 64],
    [1, 2, 2, 64, 64, 16, 16],
    [2, 3, 1, 130, 97, 33, 20], // a last number and last keys without a partner
    [1, 1, 1, 3, 1, 1, 1],
    [2, 1, 1, 40, 33, 8, 5],
    [1, 2, 1, 5, 700, 7, 17],
    [1, 1, 1, 9, 70, 1100, 3], // a second chunk of pairs
];

#[test]
fn it_depends_on_nothing_but_its_query_and_its_head() {
    let mut dice = Dice::new(51);
    for sizes in SIZES {
        for causal in [false, true] {
            let a = attention(Precision::Fast, causal);
            let all = operands(&mut dice, sizes, DType::BF16);
            let results = given(&mut dice, sizes, causal, &all, None);
            let mut first: Vec<(String, (HostData, HostData), [HostData; 3])> = Vec::new();
            for on in devices() {
                let isa = on.isa().to_string();
                let what = format!("{sizes:?} causal {causal} {on:?}");
                let got = run(&on, &a, &all, None);
                let beside = [side_by_side(&all[0]), side_by_side(&all[1]), side_by_side(&all[2])];
                assert_eq!(run(&on, &a, &beside, None), got, "{what}: heads side by side");
                let alone = run(&on, &a, &[last(&all[0]), last(&all[1]), last(&all[2])], None);
                let tail = |x: &HostData| {
                    let x = f64s(x);
                    x[x.len() - x.len() / sizes[0]..].to_vec()
                };
                assert_eq!(f64s(&alone.0), tail(&got.0), "{what}: a batch alone");
                assert_eq!(f64s(&alone.1), tail(&got.1), "{what}: a batch alone, its statistics");
                let slopes = gradients(&on, &a, &all, &results, None);
                let others = [side_by_side(&results[0]), results[1].clone(), side_by_side(&results[2])];
                assert_eq!(
                    gradients(&on, &a, &beside, &others, None),
                    slopes,
                    "{what}: gradients, side by side"
                );
                let alone =
                    gradients(&on, &a, &all.each_ref().map(last), &results.each_ref().map(last), None);
                for (alone, all) in alone.iter().zip(&slopes) {
                    assert_eq!(f64s(alone), tail(all), "{what}: gradients of a batch alone");
                }
                match first.iter().find(|(name, ..)| *name == isa) {
                    Some((_, one, gradients)) => {
                        assert_eq!((&got, &slopes), (one, gradients), "{what}: other threads");
                    }
                    None => first.push((isa, got, slopes)),
                }
            }
        }
    }
}

#[test]
fn it_is_close() {
    let (mut dice, mut differs) = (Dice::new(52), false);
    for sizes @ [b, h, j, l, s, d, v] in SIZES {
        for causal in [false, true] {
            let all = operands(&mut dice, sizes, DType::BF16);
            let shape = Shape::new(&[b, h, l, s]).unwrap();
            let mask = (dice.data(DType::F32, shape.numel(), false), Layout::contiguous(shape));
            let [q, k, x] = [&all[0], &all[1], &all[2]].map(|x| f64s(&x.0));
            let m = f64s(&mask.0);
            for on in devices() {
                let got = run(&on, &attention(Precision::Fast, causal), &all, Some(&mask));
                differs |= got != run(&on, &attention(Precision::Exact, causal), &all, Some(&mask));
                let (o, lse) = (f64s(&got.0), f64s(&got.1));
                for row in 0..b * h * l {
                    let (head, i) = (row / l, row % l);
                    let kv = head / h * j + head % h / (h / j);
                    let seen = if causal { s.min(i + 1) } else { s };
                    let score = |t: usize| {
                        let products = (0..d).map(|c| q[row * d + c] * k[(kv * s + t) * d + c]);
                        products.sum::<f64>() * 0.2 + m[row * s + t]
                    };
                    let weights: Vec<f64> = (0..seen).map(|t| score(t).exp()).collect();
                    let total: f64 = weights.iter().sum();
                    assert!((lse[row] - total.ln()).abs() < 1e-4, "{on:?} {sizes:?} [{row}]: {}", lse[row]);
                    for c in 0..v {
                        let terms =
                            weights.iter().enumerate().map(|(t, w)| w / total * x[(kv * s + t) * v + c]);
                        let (want, size) =
                            terms.fold((0.0, 0.0), |(sum, size), x| (sum + x, size + f64::abs(x)));
                        // Each weight is rounded to 8 bits, and so is the result; all else is f32.
                        let bound =
                            (2f64.powi(-8) + 1e-5) * size + 2f64.powi(-8) * (want.abs() + size / 128.0);
                        let y = o[row * v + c];
                        assert!((y - want).abs() <= bound, "{on:?} {sizes:?} [{row}, {c}]: {y}, not {want}");
                    }
                }
            }
        }
    }
    assert_eq!(
        differs,
        multiplies_pairs(),
        "where pairs are multiplied, some weights are rounded; elsewhere none is"
    );
}

/// What the gradient by an element of q, k or v is, in f64: its terms' sum, and the sum of their
/// sizes.
struct Slopes {
    by: [Vec<(f64, f64)>; 3],
}

impl Slopes {
    /// From q, k, v, o, lse and g; the mask is of numbers.
    fn new(
        [b, h, j, l, s, d, v]: Sizes,
        causal: bool,
        [q, k, x, o, lse, g]: [&[f64]; 6],
        m: &[f64],
    ) -> Slopes {
        let none = |n: usize| vec![(0.0, 0.0); n];
        let mut by = [none(b * h * l * d), none(b * j * s * d), none(b * j * s * v)];
        let mut add = |which: usize, at: usize, term: f64| {
            let (sum, size) = &mut by[which][at];
            (*sum, *size) = (*sum + term, *size + term.abs());
        };
        for row in 0..b * h * l {
            let (head, i) = (row / l, row % l);
            let kv = head / h * j + head % h / (h / j);
            let weighted: f64 = (0..v).map(|c| g[row * v + c] * o[row * v + c]).sum();
            for t in 0..if causal { s.min(i + 1) } else { s } {
                let key = kv * s + t;
                let score: f64 = (0..d).map(|c| q[row * d + c] * k[key * d + c]).sum::<f64>() * 0.2;
                let p = (score + m[row * s + t] - lse[row]).exp();
                let dp: f64 = (0..v).map(|c| g[row * v + c] * x[key * v + c]).sum();
                let ds = p * (dp - weighted) * 0.2;
                for c in 0..d {
                    add(0, row * d + c, ds * k[key * d + c]);
                    add(1, key * d + c, ds * q[row * d + c]);
                }
                (0..v).for_each(|c| add(2, key * v + c, p * g[row * v + c]));
            }
        }
        Slopes { by }
    }
}

#[test]
fn gradients_are_close() {
    let (mut dice, mut differs) = (Dice::new(55), false);
    for sizes @ [b, h, _, l, s, ..] in SIZES {
        for causal in [false, true] {
            let all = operands(&mut dice, sizes, DType::BF16);
            let shape = Shape::new(&[b, h, l, s]).unwrap();
            let mask = (dice.data(DType::F32, shape.numel(), false), Layout::contiguous(shape));
            let results = given(&mut dice, sizes, causal, &all, Some(&mask));
            let [q, k, x] = all.each_ref().map(|x| f64s(&x.0));
            let [o, lse, g] = results.each_ref().map(|x| f64s(&x.0));
            let want = Slopes::new(sizes, causal, [&q, &k, &x, &o, &lse, &g], &f64s(&mask.0));
            for on in devices() {
                let fast = attention(Precision::Fast, causal);
                let got = gradients(&on, &fast, &all, &results, Some(&mask));
                differs |=
                    got != gradients(&on, &attention(Precision::Exact, causal), &all, &results, Some(&mask));
                for (which, got) in got.iter().enumerate() {
                    for (at, (got, (want, size))) in f64s(got).into_iter().zip(&want.by[which]).enumerate() {
                        // What is multiplied last is rounded to 8 bits, and so is the result; all
                        // else is f32.
                        let bound = (2f64.powi(-8) + 1e-4) * size
                            + 2f64.powi(-8) * (want.abs() + size / 128.0)
                            + 1e-6;
                        let off = (got - want).abs();
                        assert!(
                            off <= bound,
                            "{on:?} {sizes:?} by {which} [{at}]: {got}, not {want}, of {size}"
                        );
                    }
                }
            }
        }
    }
    assert_eq!(differs, multiplies_pairs());
}

#[test]
fn what_is_no_number_stays_so() {
    let mut dice = Dice::new(53);
    let mut all = operands(&mut dice, [1, 1, 1, 3, 70, 16, 16], DType::BF16);
    let HostData::BF16(mut k) = HostData::clone(&all[1].0) else { panic!("not bf16") };
    k[66 * 16 + 5] = bf16::NAN;
    all[1].0 = HostData::BF16(k).into();
    for on in devices() {
        let (o, lse) = run(&on, &attention(Precision::Fast, false), &all, None);
        assert!(f64s(&o).iter().chain(&f64s(&lse)).all(|x| x.is_nan()), "{on:?}");
    }
    // Who sees no key gets zeros.
    let all = operands(&mut dice, [1, 1, 1, 3, 70, 16, 16], DType::BF16);
    let hidden = Shape::new(&[1, 1, 3, 70]).unwrap();
    let mask = (Data::from(HostData::Bool(vec![false; 210].into())), Layout::contiguous(hidden));
    for on in devices() {
        let (o, lse) = run(&on, &attention(Precision::Fast, false), &all, Some(&mask));
        assert!(f64s(&o).iter().all(|&x| x == 0.0), "{on:?}");
        assert!(f64s(&lse).iter().all(|&x| x == f64::NEG_INFINITY), "{on:?}");
    }
}

#[test]
fn other_types_are_exact() {
    let mut dice = Dice::new(54);
    for dtype in [DType::F16, DType::F32, DType::F64] {
        let all = operands(&mut dice, [1, 2, 1, 40, 100, 24, 24], dtype);
        for on in devices() {
            let got = run(&on, &attention(Precision::Fast, true), &all, None);
            assert_eq!(got, run(&on, &attention(Precision::Exact, true), &all, None), "{dtype} {on:?}");
            let results = [whole(got.0, &[1, 2, 40, 24]), whole(got.1, &[1, 2, 40]), all[0].clone()];
            let [fast, exact] = [Precision::Fast, Precision::Exact]
                .map(|p| gradients(&on, &attention(p, true), &all, &results, None));
            assert_eq!(fast, exact, "gradients, {dtype} {on:?}");
        }
    }
}
