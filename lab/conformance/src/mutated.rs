//! Calls that a test suite would not make: cases with other attributes, dtypes, shapes, strides and
//! values. Each must give results, the same as the reference's, or an error; never a panic.

use crate::compare::bits;
use crate::equal::dice::{Dice, Values};
use crate::execute::by_name;
use crate::golden::Case;
use crate::guard::caught;
use crate::{second, training};
use elinvar_core::{DType, ErrorKind, HostData, HostTensor, Layout, Result, Shape};
use elinvar_devices::{Any, Device};
use elinvar_ops::Array;
use elinvar_ops::args::{Args, Attr};
use elinvar_tensor::{Backward, Tensor};
use std::collections::BTreeMap;

/// An operand: memory and a look at it.
#[derive(Clone, Debug)]
struct Operand {
    role: String,
    data: HostData,
    layout: Layout,
}

/// A call by name.
#[derive(Clone, Debug)]
pub struct Call {
    op: String,
    attrs: BTreeMap<String, Attr>,
    inputs: Vec<Operand>,
}

/// Whole numbers at which sizes, axes and counts go wrong. None is a size that a large machine's
/// memory would hold, and a small one's not.
const WHOLE: [i64; 16] =
    [0, 1, -1, 2, -2, 3, 5, 7, -7, 64, i64::MIN, i64::MAX, -1 << 32, 1 << 40, 1 << 62, i64::MIN + 1];

/// Numbers at which formulas and checks go wrong.
const NUMBERS: [f64; 14] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    -2.5,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    1e300,
    -1e-300,
    3e38,
    1e-45,
];

/// The call of a number: one of the cases with one to three changes.
pub fn draw(cases: &[Case], seed: u64, number: u64) -> Call {
    let mut dice = Dice::new(seed, number);
    let case = &cases[dice.below(cases.len())];
    let mut call = Call {
        op: case.op.clone(),
        attrs: case.attrs.clone(),
        inputs: (case.inputs.iter())
            .map(|i| Operand {
                role: i.role.clone(),
                data: i.tensor.data().clone(),
                layout: Layout::contiguous(i.tensor.shape().clone()),
            })
            .collect(),
    };
    for _ in 0..dice.between(1, 3) {
        if !call.attrs.is_empty() && (call.inputs.is_empty() || dice.once_in(2)) {
            let at = dice.below(call.attrs.len());
            let attr = call.attrs.values_mut().nth(at).expect("below their number");
            change_attr(&mut dice, attr);
        } else if !call.inputs.is_empty() {
            let at = dice.below(call.inputs.len());
            change_input(&mut dice, &mut call, at);
        }
    }
    call
}

fn change_attr(dice: &mut Dice, attr: &mut Attr) {
    if dice.once_in(8) {
        *attr = match dice.below(5) {
            0 => Attr::Null,
            1 => Attr::Bool(true),
            2 => Attr::Int(dice.pick(&WHOLE)),
            3 => Attr::Float(dice.pick(&NUMBERS)),
            _ => Attr::Str("none".into()),
        };
        return;
    }
    match attr {
        Attr::Bool(b) => *b = !*b,
        Attr::Int(n) => *n = if dice.once_in(3) { n.wrapping_add(1) } else { dice.pick(&WHOLE) },
        Attr::Float(x) => *x = dice.pick(&NUMBERS),
        Attr::Str(s) => *s = dice.pick(&["", "none", "same", "mean", "inf", "nan", "tanh", "0"]).into(),
        Attr::Null => *attr = Attr::Int(dice.pick(&WHOLE)),
        Attr::List(all) => {
            if all.is_empty() || dice.once_in(4) {
                let more = all.last().cloned().unwrap_or(Attr::Int(dice.pick(&WHOLE)));
                all.extend(vec![more; dice.pick(&[1, 2, 30])]);
            } else if dice.once_in(4) {
                all.truncate(dice.below(all.len()));
            } else {
                let at = dice.below(all.len());
                change_attr(dice, &mut all[at]);
            }
        }
    }
}

fn change_input(dice: &mut Dice, call: &mut Call, at: usize) {
    let count = call.inputs.len();
    let x = &mut call.inputs[at];
    let mut shape: Vec<usize> = x.layout.shape().to_vec();
    let (rank, dtype) = (shape.len(), x.data.dtype());
    match dice.below(10) {
        0 => return drop(call.inputs.remove(at)),
        1 => {
            let Operand { data, layout, .. } = call.inputs[dice.below(count)].clone();
            (call.inputs[at].data, call.inputs[at].layout) = (data, layout);
            return;
        }
        2 => {
            let other = dice.below(count);
            let (a, b) = (call.inputs[at].role.clone(), call.inputs[other].role.clone());
            (call.inputs[at].role, call.inputs[other].role) = (b, a);
            return;
        }
        3 => {
            let to = dice.pick(&DType::ALL);
            let len = x.data.len();
            x.data = dice.data(to, len, Values::Few);
            return;
        }
        4 => {
            let len = x.data.len();
            x.data = dice.data(dtype, len, Values::Wild);
            return;
        }
        5 if rank > 0 => shape[dice.below(rank)] = dice.pick(&[0, 1, 2, 7]),
        6 => shape.insert(dice.below(rank + 1), dice.pick(&[0, 1, 2])),
        7 if rank > 0 => drop(shape.remove(dice.below(rank))),
        8 => shape.splice(0..0, vec![1; 30]).for_each(drop),
        _ => {
            // The same shape: repeated, or reversed memory.
            let shape = Shape::new(&shape).expect("a tensor has it");
            if dice.once_in(2) {
                let one = Layout::contiguous(Shape::scalar());
                x.layout = one.broadcast_to(&shape, "mutated").expect("a scalar fits every shape");
                x.data = dice.data(dtype, 1, Values::Tame);
            } else if rank > 0 {
                x.layout = Layout::contiguous(shape).flip(dice.below(rank));
                x.data = dice.data(dtype, x.layout.shape().numel(), Values::Tame);
            }
            return;
        }
    }
    if let Ok(shape) = Shape::new(&shape)
        && shape.numel() < 100_000
    {
        x.data = dice.data(dtype, shape.numel(), Values::Sparse);
        x.layout = Layout::contiguous(shape);
    }
}

/// The results, then the gradients of the sum of each by all operands.
fn run(call: &Call, device: &Device) -> Result<Vec<HostTensor>> {
    let mut inputs = Vec::new();
    for i in &call.inputs {
        let memory = HostTensor::new(Shape::new(&[i.data.len()])?, i.data.clone())?;
        let x = Tensor::<Any>::from_array(Array::from_host(device, memory)?.with_layout(i.layout.clone()));
        inputs.push((i.role.clone(), if x.dtype().is_float() { x.requires_grad() } else { x }));
    }
    let variables: Vec<Tensor<Any>> = inputs.iter().map(|(_, x)| x.clone()).collect();
    let y = by_name(&Args { op: call.op.clone(), inputs, attrs: call.attrs.clone() })?;
    let mut all = y.iter().map(Tensor::to_host).collect::<Result<Vec<_>>>()?;
    for y in y.iter().filter(|y| y.is_tracked() && y.dtype().is_float()) {
        let g = y.try_sum()?.try_backward_with(None, Backward::retain_graph())?;
        for g in variables.iter().filter_map(|x| g.get(x)) {
            all.push(g.to_host()?);
        }
    }
    Ok(all)
}

/// What is wrong with a call on a device: a panic, or something else than the reference's.
///
/// # Errors
/// It, in words.
pub fn check(call: &Call, device: &Device, reference: &Device) -> Result<bool, String> {
    let got = caught(|| run(call, device)).map_err(|p| format!("{call:?}\n{p}"))?;
    if got.as_ref().is_err_and(|e| e.kind() == ErrorKind::OutOfMemory) {
        // The reference has no limit.
        return Ok(false);
    }
    let want = caught(|| run(call, reference)).map_err(|p| format!("{call:?}\nreference: {p}"))?;
    match (got, want) {
        (Err(got), Err(want)) if got.kind() == want.kind() => Ok(false),
        (Ok(got), Ok(want)) if got.len() == want.len() => {
            let differs = got.iter().zip(&want).find_map(|(got, want)| bits(got, want).err());
            differs.map_or(Ok(true), |e| Err(format!("{call:?}\n{e}")))
        }
        (got, want) => {
            let say = |r: Result<Vec<HostTensor>>| {
                r.map_or_else(|e| format!("{e:?}"), |r| format!("{} results", r.len()))
            };
            Err(format!("{call:?}\n{}, and the reference: {}", say(got), say(want)))
        }
    }
}

/// May calls be made of this case? Those of optimisers and second gradients are no calls by name.
pub fn is_call(case: &Case) -> bool {
    case.op != second::NAME && !training::has(&case.op)
}
