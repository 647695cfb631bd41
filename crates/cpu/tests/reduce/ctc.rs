//! The CTC lattice against its definition element by element, and ctc_loss against the reference,
//! which takes it step by step.

use super::common::*;
use crate::data::Data;
use elinvar_core::{DType, Element, HostData, HostTensor, Layout, Shape};
use elinvar_cpu::Cpu;
use elinvar_ops::backend::{Compute, Fused, Memory};
use elinvar_ops::catalogue::reduction::Reduction;
use elinvar_ops::lane::Lane;
use elinvar_ops::map::{Compiled, Map};
use elinvar_ops::{Backend, catalogue as op};
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::Tensor;

/// Four numbers, no two of which may change places, and never the same from step to step.
#[derive(Clone, Copy, Debug)]
struct Forward;

impl Map<4> for Forward {
    const NAME: &'static str = "forward";
    #[inline(always)]
    fn lane<L: Lane>(&self, [a, b, c, may]: [L; 4]) -> L {
        let finite = |x: L| L::select(x.lt(L::lit(-1e9)), L::lit(-0.25), x);
        (finite(a) - finite(b) * L::lit(0.5)) * L::lit(0.5) + finite(c) * may
    }
}
elinvar_ops::compile_map! { 4 Forward; }

#[derive(Clone, Copy, Debug)]
struct Back;

impl Map<5> for Back {
    const NAME: &'static str = "back";
    #[inline(always)]
    fn lane<L: Lane>(&self, [sum, a, y, g, may]: [L; 5]) -> L {
        let y = L::select(y.lt(L::lit(-1e9)), L::lit(-0.5), y);
        (sum * L::lit(0.75) + (a - y) * L::lit(0.5)) + g * may
    }
}
elinvar_ops::compile_map! { 5 Back; }

/// The elements of a view, row-major.
fn elements<T: Element>(x: &(Data, Layout)) -> Vec<T> {
    T::slice(&Reference::download(&ReferenceDevice, reference(x)).unwrap()).unwrap().to_vec()
}

/// What both are by definition: x, may, front and the gradient g of the last elements.
fn defined<T: Element + Lane>(x: &[(Data, Layout); 4], ends: &[usize]) -> [HostData; 2] {
    let &[t, n, s] = &x[0].1.shape()[..] else { unreachable!() };
    let [x, may, front, g] = x.each_ref().map(elements::<T>);
    let (never, zero, one) = (T::lit(f64::NEG_INFINITY), T::lit(0.0), T::lit(1.0));
    let (mut all, mut last, mut by) = (vec![zero; t * n * s], vec![], vec![zero; t * n * s]);
    for i in 0..n {
        let at = |k: usize, j: usize| (k * n + i) * s + j;
        let mut before = front.clone();
        for k in 0..t {
            let mut next = before.clone();
            (next[0], next[1]) = (never, never);
            for j in 0..s {
                let y = Forward.lane([before[j + 2], before[j + 1], before[j], may[i * s + j]]);
                all[at(k, j)] = y;
                if k < ends[i] {
                    next[j + 2] = y + x[at(k, j)];
                }
            }
            before = next;
        }
        last.extend_from_slice(&before[2..]);
        for k in (0..ends[i]).rev() {
            for j in 0..s {
                by[at(k, j)] = if k + 1 == ends[i] {
                    g[i * s + j]
                } else {
                    let mut sum = zero;
                    for to in j..j + 3 {
                        let inside = to < s;
                        let y = if inside { all[at(k + 1, to)] } else { never };
                        let g = if inside { by[at(k + 1, to)] } else { zero };
                        let may = if inside { may[i * s + to] } else { zero };
                        sum = Back.lane([
                            sum,
                            all[at(k, j)] + x[at(k, j)],
                            y,
                            g,
                            if to < j + 2 { one } else { may },
                        ]);
                    }
                    sum
                };
            }
        }
    }
    all.extend(last);
    [T::wrap(all), T::wrap(by)]
}

#[test]
fn steps() {
    let mut dice = Dice::new(71);
    // Samples that end a window, or reach into the next by one or two elements; several groups of a
    // thread; one element; none.
    for [t, n, s] in [
        [1, 1, 1],
        [2, 3, 2],
        [5, 1, 61],
        [4, 1, 62],
        [3, 2, 63],
        [6, 4, 30],
        [3, 16, 41],
        [2, 30, 101],
        [2, 3, 1100],
        [0, 2, 3],
        [3, 0, 3],
    ] {
        for dtype in [DType::F32, DType::F64] {
            for round in 0..3 {
                let ends: Vec<usize> =
                    (0..n).map(|_| if round == 0 { t } else { dice.below(t + 1) }).collect();
                let mut some = |dims: &[usize]| match round {
                    2 => dice.operand(dtype, dims, false),
                    _ => {
                        let l = Layout::contiguous(Shape::new(dims).unwrap());
                        (dice.data(dtype, l.shape().numel(), false), l)
                    }
                };
                let x = [some(&[t, n, s]), some(&[n, s]), some(&[s + 2]), some(&[n, s])];
                let [all, by] = match dtype {
                    DType::F32 => defined::<f32>(&x, &ends),
                    _ => defined::<f64>(&x, &ends),
                };
                let kept = (Data::from(all.clone()), Layout::contiguous(Shape::new(&[t + 1, n, s]).unwrap()));
                for d in devices() {
                    let what = format!("{t} steps of {n} x {s} {dtype}, round {round}, on {d:?}");
                    let (f, g) = (Compiled::<_, 4>(Forward), Compiled::<_, 5>(Back));
                    let forward = Fused::Lattice { f: &f, ends: &ends };
                    let got = Cpu::fused(&d, &forward, &[&x[0], &x[1], &x[2]].map(cpu)).unwrap();
                    let backward = Fused::LatticeGrad { f: &g, ends: &ends };
                    let got_by = Cpu::fused(&d, &backward, &[&x[0], &x[1], &kept, &x[3]].map(cpu)).unwrap();
                    // Without formulas of its own it has the reference's, each step alone.
                    let done = d.isa().has_kernels();
                    assert_eq!((got.is_some(), got_by.is_some()), (done, done), "{what}");
                    if let (Some(mut got), Some(mut got_by)) = (got, got_by) {
                        assert_eq!((got.len(), got_by.len()), (1, 1), "{what}");
                        same(&format!("{what}, forwards"), Ok(got.remove(0).buffer), Ok(all.clone()));
                        same(&format!("{what}, backwards"), Ok(got_by.remove(0).buffer), Ok(by.clone()));
                    }
                }
            }
        }
    }
}

/// The losses and the gradient by the log-probabilities.
fn ctc<B: Backend>(
    d: &B::Device,
    x: &HostTensor,
    labels: &[i64],
    [times, counts]: [&[i64]; 2],
) -> [HostTensor; 2] {
    let n = times.len();
    let of = |v: &[i64], dims: &[usize]| {
        let host = HostTensor::new(Shape::new(dims).unwrap(), i64::wrap(v.to_vec())).unwrap();
        Tensor::<B>::from_host(host, d).unwrap()
    };
    let x = Tensor::<B>::from_host(x.clone(), d).unwrap().requires_grad();
    let (labels, times, counts) = (of(labels, &[n, labels.len() / n]), of(times, &[n]), of(counts, &[n]));
    let losses = op::ctc_loss(&x, &labels, &times, &counts, 0, Reduction::None, true).unwrap();
    let g = losses.backward_with(&losses.sin(), Default::default());
    [losses.to_host().unwrap(), g.get(&x).unwrap().to_host().unwrap()]
}

#[test]
fn ctc_losses() {
    let mut dice = Dice::new(72);
    for ([t, n, labels], dtype) in [
        ([9, 5, 3], DType::F32),
        ([14, 3, 7], DType::F64),
        ([40, 4, 16], DType::F32),
        ([3, 2, 0], DType::F32),
        ([12, 3, 5], DType::BF16),
    ] {
        let classes = 6;
        for wild in [false, true] {
            let numbers = dice.data(DType::F64, t * n * classes, false);
            let mut x: Vec<f64> = f64::slice(&numbers).unwrap().iter().map(|x| -x.abs()).collect();
            if wild {
                // Of the second sample alone, so that others would show if a number came across.
                (x[classes], x[(n + 1) * classes + 1]) = (f64::NAN, f64::INFINITY);
            }
            let shape = Shape::new(&[t, n, classes]).unwrap();
            let x = HostTensor::new(shape, f64::wrap(x)).unwrap();
            let x = Tensor::<Reference>::from_host(x, &ReferenceDevice).unwrap().to_dtype(dtype);
            let x = x.to_host().unwrap();
            let targets: Vec<i64> = (0..n * labels).map(|_| 1 + dice.below(classes - 1) as i64).collect();
            let times: Vec<i64> = (0..n).map(|i| if i == 0 { t } else { dice.below(t + 1) } as i64).collect();
            let counts: Vec<i64> =
                (0..n).map(|i| if i == 0 { labels } else { dice.below(labels + 1) } as i64).collect();
            let want = ctc::<Reference>(&ReferenceDevice, &x, &targets, [&times, &counts]);
            for d in devices() {
                let got = ctc::<Cpu>(&d, &x, &targets, [&times, &counts]);
                for (got, want) in got.iter().zip(&want) {
                    let what = format!("{t} x {n}, {labels} labels, {dtype}, wild {wild}, on {d:?}");
                    same(&what, Ok(got.data().clone()), Ok(want.data().clone()));
                }
            }
        }
    }
}
