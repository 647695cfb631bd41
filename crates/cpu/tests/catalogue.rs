//! Every elementwise op of the catalogue, by name, and its gradients: the bits of the reference.

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "equal/common.rs"]
mod common;
#[path = "common/data.rs"]
mod data;
#[allow(dead_code, reason = "other tests draw more than these do")]
#[path = "../../../lab/conformance/src/equal/dice.rs"]
mod dice;
#[path = "common/formulas.rs"]
mod formulas;

use crate::common::{Operand, devices, same};
use crate::dice::{Dice, Values};
use crate::formulas::{OPS, args, kind};
use elinvar_core::{DType, Element, HostData, Result, each_dtype};
use elinvar_cpu::Cpu;
use elinvar_ops::{Array, Backend, catalogue};
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::Tensor;

fn array<B: Backend<Buffer: From<HostData>>>(d: &B::Device, x: &Operand) -> Array<B> {
    let shape = elinvar_core::Shape::new(&[x.data.len()]).unwrap();
    Array::new(d, HostData::clone(&x.data).into(), shape, x.data.dtype()).with_layout(x.layout.clone())
}

fn forward<B: Backend<Buffer: From<HostData>>>(
    d: &B::Device,
    name: &str,
    roles: &[&str],
    choice: &str,
    x: &[Operand],
) -> Result<HostData> {
    let all = x.iter().map(|x| array::<B>(d, x)).collect();
    Ok(catalogue::call(&args(name, roles, choice, all))?.remove(0).to_host()?.into_data())
}

/// The gradients of the sum of the result by all operands that have one.
fn gradients<B: Backend<Buffer: From<HostData>>>(
    d: &B::Device,
    name: &str,
    roles: &[&str],
    choice: &str,
    x: &[Operand],
) -> Result<Vec<Option<HostData>>> {
    let all: Vec<Tensor<B>> = x
        .iter()
        .map(|x| Tensor::from_array(array::<B>(d, x)))
        .map(|t| if t.dtype().is_float() { t.requires_grad() } else { t })
        .collect();
    let y = catalogue::call(&args(name, roles, choice, all.clone()))?.remove(0);
    if !y.is_tracked() {
        return Ok(vec![]);
    }
    let g = catalogue::sum(&catalogue::mul(&y, &y.detach())?, None, false)?.backward();
    all.iter().map(|x| g.get(x).map(|g| Ok(g.to_host()?.into_data())).transpose()).collect()
}

/// The same numbers as probabilities, which that op asks for: fractions, and 0 and 1.
fn probabilities(data: &HostData) -> HostData {
    let probability = |v: f64| match v.abs() {
        1.0 => 1.0,
        v if v.is_finite() => v.fract(),
        _ => 0.5,
    };
    each_dtype!(data.dtype(), T => {
        let all = T::slice(data).expect("data of its dtype").iter();
        T::wrap(all.map(|v| T::from_f64(probability(v.to_f64()))).collect::<Vec<_>>())
    })
}

/// Shapes: one that no block or vector divides, and a broadcast one with odd strides, of more
/// elements than the largest block.
fn operands(dice: &mut Dice, name: &str, roles: &[&str], dtype: DType, round: usize) -> Vec<Operand> {
    let shape: &[usize] = if round == 0 { &[1237] } else { &[9, 9, 31] };
    let values = if round == 0 { Values::Wild } else { Values::Sparse };
    roles
        .iter()
        .map(|role| {
            let dtype = kind(role, dtype);
            let mut x = if round == 0 {
                let layout = elinvar_core::Layout::contiguous(elinvar_core::Shape::new(shape).unwrap());
                Operand { data: dice.data(dtype, 1237, values).into(), layout }
            } else {
                Operand::draw(dice, dtype, shape, values)
            };
            if name == "binary_cross_entropy" {
                x.data = probabilities(&x.data).into();
            }
            x
        })
        .collect()
}

#[test]
fn every_formula_on_every_dtype() {
    for &(names, roles, choices) in OPS {
        for name in names.split_whitespace() {
            assert!(catalogue::NAMES.contains(&name), "{name}");
            let mut ran = 0;
            for (choice, dtype) in choices.iter().flat_map(|c| DType::ALL.map(|d| (c, d))) {
                for round in 0..2 {
                    let mut dice = Dice::new(7, (ran * 2 + round) as u64);
                    let x = operands(&mut dice, name, roles, dtype, round);
                    let want = forward::<Reference>(&ReferenceDevice, name, roles, choice, &x);
                    ran += usize::from(want.is_ok());
                    for d in devices() {
                        let got = forward::<Cpu>(&d, name, roles, choice, &x);
                        same(&got, &want, &format!("{name} {choice} {dtype} {d:?}"));
                    }
                }
            }
            assert!(ran >= 2, "{name} ran {ran} times");
        }
    }
}

/// Windows of angles that are all moderate, and windows with one that is not, or is as large as
/// moderate ones can be.
#[test]
fn angles_around_the_bound() {
    let len = 2 * 192 + 77;
    for (dtype, bound) in [(DType::F32, 131_072.0f64), (DType::F64, 1_073_741_824.0)] {
        let below =
            if dtype == DType::F32 { f64::from((bound as f32).next_down()) } else { bound.next_down() };
        let odd = [below, bound, 1e3 * bound, f64::NAN];
        // At the end of a window, in the middle of one, and in what is left.
        for (at, odd) in [191, 192 + 100, len - 1].into_iter().flat_map(|at| odd.map(|o| (at, o))) {
            let mut dice = Dice::new(9, at as u64);
            let mut x: Vec<f64> =
                f64::unwrap(dice.data(DType::F64, len, Values::Tame)).unwrap().into_iter().collect();
            x.iter_mut().for_each(|x| *x *= bound / 4.0);
            x[at] = odd;
            let data = if dtype == DType::F32 {
                HostData::F32(x.iter().map(|x| *x as f32).collect())
            } else {
                HostData::F64(x.into())
            };
            let layout = elinvar_core::Layout::contiguous(elinvar_core::Shape::new(&[len]).unwrap());
            let x = [Operand { data: data.into(), layout }];
            for name in ["sin", "cos", "tan"] {
                let want = forward::<Reference>(&ReferenceDevice, name, &["x"], "", &x);
                let slopes = gradients::<Reference>(&ReferenceDevice, name, &["x"], "", &x).unwrap();
                for d in devices() {
                    let what = format!("{name} of {odd} among {dtype} at {at} {d:?}");
                    same(&forward::<Cpu>(&d, name, &["x"], "", &x), &want, &what);
                    let got = gradients::<Cpu>(&d, name, &["x"], "", &x).unwrap();
                    for (got, want) in got.into_iter().zip(&slopes) {
                        same(&Ok(got.unwrap()), &Ok(want.clone().unwrap()), &format!("gradient of {what}"));
                    }
                }
            }
        }
    }
}

#[test]
fn gradients_of_every_formula() {
    let mut seen = 0;
    for &(names, roles, choices) in OPS {
        for (name, choice) in names.split_whitespace().flat_map(|n| choices.iter().map(move |c| (n, c))) {
            for dtype in [DType::F32, DType::F64, DType::BF16] {
                let mut dice = Dice::new(8, 1);
                let x = operands(&mut dice, name, roles, dtype, 1);
                let want = gradients::<Reference>(&ReferenceDevice, name, roles, choice, &x);
                for d in devices() {
                    let what = format!("gradient of {name} {choice} {dtype} {d:?}");
                    match (gradients::<Cpu>(&d, name, roles, choice, &x), &want) {
                        (Err(got), Err(want)) => assert_eq!(got.kind(), want.kind(), "{what}"),
                        (Ok(got), Ok(want)) => {
                            assert_eq!(got.len(), want.len(), "{what}");
                            for (got, want) in got.into_iter().zip(want) {
                                assert_eq!(got.is_some(), want.is_some(), "{what}");
                                if let (Some(got), Some(want)) = (got, want) {
                                    same(&Ok(got), &Ok(want.clone()), &what);
                                    seen += 1;
                                }
                            }
                        }
                        (got, want) => panic!("{what}: {got:?}, not {want:?}"),
                    }
                }
            }
        }
    }
    assert!(seen > 1000, "{seen}");
}
