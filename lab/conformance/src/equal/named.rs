//! Random calls, by name, of the ops that are compositions of many kinds of work: linear algebra
//! and Fourier transforms. Shapes, types and attributes are mostly such as fit, and sometimes not:
//! then both sides must refuse them.

use super::call::Operand;
use super::dice::{Dice, Values};
use super::{agree, draw};
use crate::guard::caught;
use elinvar_core::{DType, Result, Shape};
use elinvar_ops::args::{Args, Attr};
use elinvar_ops::{Array, Backend, catalogue};
use elinvar_reference::Reference;
use std::collections::BTreeMap;

/// The operands of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    /// Square matrices.
    Square,
    /// Any matrices.
    Matrix,
    /// Square matrices and right-hand sides.
    System,
    /// Square matrices that were factored, exchanges and right-hand sides.
    Factored,
    /// Any matrices and right-hand sides.
    Least,
    /// Matrices and factors of reflections.
    Reflections,
    /// Several matrices.
    Chain,
    /// Pairs, to be transformed along one axis.
    Pairs,
    /// Real numbers, to be transformed along one axis.
    Reals,
    /// The same, along several axes.
    PairsOfAxes,
    /// The same, along several axes.
    RealsOfAxes,
    /// A signal.
    Signal,
    /// Transforms of windows of a signal.
    Windows,
}

const TABLE: [(&str, Takes); 41] = [
    ("cholesky", Takes::Square),
    ("cholesky_ex", Takes::Square),
    ("inv", Takes::Square),
    ("inv_ex", Takes::Square),
    ("lu", Takes::Matrix),
    ("lu_factor", Takes::Matrix),
    ("lu_factor_ex", Takes::Matrix),
    ("ldl_factor", Takes::Square),
    ("ldl_factor_ex", Takes::Square),
    ("det", Takes::Square),
    ("slogdet", Takes::Square),
    ("qr", Takes::Matrix),
    ("eigh", Takes::Square),
    ("eigvalsh", Takes::Square),
    ("svd", Takes::Matrix),
    ("svdvals", Takes::Matrix),
    ("pinv", Takes::Matrix),
    ("matrix_exp", Takes::Square),
    ("matrix_power", Takes::Square),
    ("matrix_norm", Takes::Matrix),
    ("solve", Takes::System),
    ("solve_triangular", Takes::System),
    ("lu_solve", Takes::Factored),
    ("ldl_solve", Takes::Factored),
    ("lstsq", Takes::Least),
    ("householder_product", Takes::Reflections),
    ("multi_dot", Takes::Chain),
    ("fft", Takes::Pairs),
    ("ifft", Takes::Pairs),
    ("irfft", Takes::Pairs),
    ("rfft", Takes::Reals),
    ("fft2", Takes::PairsOfAxes),
    ("ifft2", Takes::PairsOfAxes),
    ("irfft2", Takes::PairsOfAxes),
    ("fftn", Takes::PairsOfAxes),
    ("ifftn", Takes::PairsOfAxes),
    ("irfftn", Takes::PairsOfAxes),
    ("rfft2", Takes::RealsOfAxes),
    ("rfftn", Takes::RealsOfAxes),
    ("stft", Takes::Signal),
    ("istft", Takes::Windows),
];

/// The names of the ops of which calls are drawn.
pub fn ops() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(name, _)| *name)
}

/// A call of an op by its name.
#[derive(Clone, Debug)]
pub struct NamedCall {
    /// The op.
    pub op: &'static str,
    /// Operands by role.
    pub inputs: Vec<(String, Operand)>,
    /// Attributes.
    pub attrs: BTreeMap<String, Attr>,
}

impl NamedCall {
    /// Runs it.
    ///
    /// # Errors
    /// Those of the op.
    pub fn run<B: Backend>(&self, device: &B::Device) -> Result<Vec<elinvar_core::HostTensor>> {
        let mut inputs = Vec::with_capacity(self.inputs.len());
        for (role, x) in &self.inputs {
            let flat = Shape::new(&[x.data.len()])?;
            let host = elinvar_core::HostTensor::new(flat, x.data.clone())?;
            inputs.push((role.clone(), Array::<B>::from_host(device, host)?.with_layout(x.layout.clone())));
        }
        let args = Args { op: self.op.to_string(), inputs, attrs: self.attrs.clone() };
        catalogue::call(&args)?.iter().map(Array::to_host).collect()
    }
}

/// Runs this many calls of an op on a backend, and tells of each whose result differs from the
/// reference's.
pub fn equal<B: Backend>(device: &B::Device, op: &str, seed: u64, rounds: usize) -> Vec<String> {
    (0..rounds).filter_map(|round| check::<B>(device, op, seed, round).err()).collect()
}

/// Runs one call.
///
/// # Errors
/// The difference.
pub fn check<B: Backend>(device: &B::Device, op: &str, seed: u64, round: usize) -> Result<(), String> {
    let place = format!("named::check({op}, seed {seed}, round {round})");
    let Some(number) = TABLE.iter().position(|(name, _)| *name == op) else {
        return Err(format!("{place}: no calls are drawn of this op"));
    };
    let mut dice = Dice::new(seed, (1 << 40) | (number as u64) << 32 | round as u64);
    let call = drawn(&mut dice, TABLE[number].0, TABLE[number].1);
    let results = (caught(|| call.run::<B>(device)), caught(|| call.run::<Reference>(&Default::default())));
    agree::<B>(device, &format!("{call:?}"), results).map_err(|what| format!("{place}: {call:?}: {what}"))
}

/// What is drawn of a call before its operands.
struct Kind {
    dtype: DType,
    values: Values,
    lead: Vec<usize>,
}

fn drawn(dice: &mut Dice, op: &'static str, takes: Takes) -> NamedCall {
    let floats =
        [DType::F32, DType::F32, DType::F32, DType::F64, DType::F64, DType::F64, DType::F16, DType::I64];
    let lead = (0..dice.pick(&[0, 0, 1, 1, 2])).map(|_| dice.pick(&[1, 2, 2, 3, 0])).collect();
    let kind = Kind { dtype: dice.pick(&floats), values: dice.values(), lead };
    let mut call = NamedCall { op, inputs: Vec::new(), attrs: BTreeMap::new() };
    match takes {
        Takes::Square
        | Takes::Matrix
        | Takes::System
        | Takes::Factored
        | Takes::Least
        | Takes::Reflections => {
            let m = size(dice);
            let square = !matches!(takes, Takes::Matrix | Takes::Least | Takes::Reflections);
            let n = if square && !dice.once_in(20) { m } else { size(dice) };
            let n = if takes == Takes::Reflections { n.min(m) } else { n };
            call.operand(dice, "x", &kind, kind.dtype, &[m, n]);
            beside(&mut call, dice, takes, &kind, [m, n]);
        }
        Takes::Chain => {
            let mut rows = size(dice);
            for i in 0..dice.between(2, 5) {
                let columns = size(dice);
                let plain = Kind { lead: Vec::new(), ..kind };
                call.operand(dice, &format!("x{i}"), &plain, kind.dtype, &[rows, columns]);
                rows = if dice.once_in(30) { columns + 1 } else { columns };
            }
        }
        Takes::Pairs | Takes::Reals | Takes::PairsOfAxes | Takes::RealsOfAxes => {
            let pairs = matches!(takes, Takes::Pairs | Takes::PairsOfAxes);
            let several = matches!(takes, Takes::PairsOfAxes | Takes::RealsOfAxes);
            let mut shape =
                if several { vec![length(dice).min(40), dice.between(1, 12)] } else { vec![length(dice)] };
            if pairs {
                shape.push(if dice.once_in(30) { 3 } else { 2 });
            }
            call.operand(dice, "x", &kind, kind.dtype, &shape);
            transform(&mut call, dice, several);
        }
        Takes::Signal | Takes::Windows => {
            let n_fft = dice.between(1, 33);
            let plain = Kind { lead: kind.lead.iter().take(1).copied().collect(), ..kind };
            let frames = dice.between(0, 5);
            let shape = match takes {
                Takes::Signal => vec![n_fft + frames * dice.between(1, 9)],
                _ => vec![n_fft / 2 + 1, frames, 2],
            };
            call.operand(dice, "x", &plain, kind.dtype, &shape);
            call.set("n_fft", Attr::Int(n_fft as i64));
            if dice.once_in(2) {
                call.set("hop_length", Attr::Int(dice.between(0, n_fft) as i64));
            }
            if dice.once_in(3) {
                let window = Kind { lead: Vec::new(), ..plain };
                call.operand(dice, "window", &window, kind.dtype, &[n_fft]);
            }
            call.flags(dice, &["center", "normalized", "onesided"]);
        }
    }
    call
}

/// The other operands of linear algebra, and the attributes.
fn beside(call: &mut NamedCall, dice: &mut Dice, takes: Takes, kind: &Kind, [m, n]: [usize; 2]) {
    let columns = dice.between(0, 4);
    // The other operand's batches broadcast, or do not fit.
    let lead = if dice.once_in(4) { vec![1; kind.lead.len()] } else { kind.lead.clone() };
    let other = Kind { lead, values: kind.values, dtype: kind.dtype };
    match takes {
        Takes::System | Takes::Factored => {
            if takes == Takes::Factored {
                let len = kind.lead.iter().product::<usize>() * n;
                let wrong = dice.once_in(20);
                // Of `ldl_factor` pairs are negative.
                let is_ldl = call.op == "ldl_solve";
                let row = |dice: &mut Dice, i: usize| match dice.below(8) {
                    0 if wrong => dice.pick(&[0, i32::MIN, i32::MAX, n as i32 + 1]),
                    1 | 2 if is_ldl || wrong => -(dice.between(1 + i, n) as i32),
                    _ => dice.between(1 + i, n) as i32,
                };
                let all = (0..len).map(|i| row(dice, i % n)).collect();
                let shape: Vec<usize> = kind.lead.iter().copied().chain([n]).collect();
                call.inputs
                    .push(("pivots".to_string(), draw::packed(elinvar_core::HostData::I32(all), &shape)));
            }
            let left = !dice.once_in(3);
            let shape = if left { [n, columns] } else { [columns, n] };
            call.operand(dice, "y", &other, kind.dtype, &shape);
            call.set("upper", Attr::Bool(dice.once_in(2)));
            call.set("left", Attr::Bool(left));
            call.flags(dice, &["unitriangular", "adjoint", "hermitian"]);
        }
        Takes::Least => {
            call.operand(dice, "y", &other, kind.dtype, &[m, columns]);
            let driver = dice.pick(&["gels", "gelsy", "gelsd", "gelss"]);
            call.set("driver", Attr::Str(driver.to_string()));
            if dice.once_in(3) {
                call.set("rcond", Attr::Float(dice.pick(&[0.0, 1e-3, 0.5, -1.0, f64::NAN])));
            }
        }
        Takes::Reflections => {
            let k = dice.between(0, n);
            call.operand(dice, "tau", kind, kind.dtype, &[k]);
        }
        _ => {
            call.set("n", Attr::Int(dice.between(0, 9) as i64 - 4));
            let ord = dice.pick(&["fro", "nuc", "inf", "-inf", "1", "2", "-2"]);
            call.set("ord", ord.parse().map_or(Attr::Str(ord.to_string()), Attr::Int));
            let mode = dice.pick(&["reduced", "complete", "r"]);
            call.set("mode", Attr::Str(mode.to_string()));
            call.set("UPLO", Attr::Str(dice.pick(&["L", "U"]).to_string()));
            call.flags(dice, &["upper", "pivot", "full_matrices", "hermitian", "keepdim"]);
        }
    }
}

/// The attributes of transforms.
fn transform(call: &mut NamedCall, dice: &mut Dice, several: bool) {
    let norm = dice.pick(&["backward", "ortho", "forward"]);
    call.set("norm", Attr::Str(norm.to_string()));
    let length = |dice: &mut Dice| Attr::Int(if dice.once_in(9) { 0 } else { length(dice).min(70) as i64 });
    if several && dice.once_in(3) {
        call.set("s", Attr::List(vec![length(dice), length(dice)]));
        call.set("dim", Attr::List(vec![Attr::Int(-1), Attr::Int(-2)]));
    } else if !several {
        if dice.once_in(3) {
            call.set("n", length(dice));
        }
        call.set("dim", Attr::Int(dice.pick(&[-1, -1, 0, -2])));
    }
}

/// Rows or columns: around the edges of leaves and halves, mostly few.
fn size(dice: &mut Dice) -> usize {
    match dice.below(40) {
        0 => dice.between(10, 34),
        1 => 0,
        _ => dice.pick(&[1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 9]),
    }
}

/// Elements to be transformed.
fn length(dice: &mut Dice) -> usize {
    match dice.below(20) {
        0 => dice.pick(&[128, 210, 251, 256, 360, 511]),
        1 => 0,
        _ => dice.between(1, 70),
    }
}

impl NamedCall {
    fn set(&mut self, name: &str, value: Attr) {
        self.attrs.insert(name.to_string(), value);
    }
    fn flags(&mut self, dice: &mut Dice, names: &[&str]) {
        for name in names {
            if dice.once_in(2) {
                self.set(name, Attr::Bool(dice.once_in(2)));
            }
        }
    }
    /// An operand of these batches, strided.
    fn operand(&mut self, dice: &mut Dice, role: &str, kind: &Kind, dtype: DType, rest: &[usize]) {
        let shape: Vec<usize> = kind.lead.iter().chain(rest).copied().collect();
        self.inputs.push((role.to_string(), draw::operand(dice, dtype, &shape, kind.values)));
    }
}
