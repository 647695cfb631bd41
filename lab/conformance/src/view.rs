//! Inputs that are views: a base tensor and the steps from it to the operand.
//!
//! The steps are taken in two ways. As layout arithmetic, which gives the strided operand itself;
//! and through the catalogue, so that a tape records them and the gradient is that of the base.

use crate::index::Step;
use elinvar_core::{Dims, Error, Layout, Result, Shape};
use elinvar_ops::Value;
use elinvar_ops::args::{Args, Attr};
use elinvar_ops::catalogue;
use std::collections::BTreeMap;

/// The layout after a step.
///
/// # Errors
/// `InvalidArgument` or `ShapeMismatch` if the step does not fit the layout.
pub fn layout(l: &Layout, step: &Step) -> Result<Layout> {
    let axis = |dim: isize| {
        let axis = l.shape().axis("view", dim)?;
        if axis < l.rank() { Ok(axis) } else { Err(Error::argument("view: a scalar has no axes")) }
    };
    Ok(match step {
        Step::Permute { dims } => {
            let axes = l.shape().axes("view", dims)?;
            if axes.len() != l.rank() {
                return Err(Error::argument(format!("view: permute {dims:?} of shape {}", l.shape())));
            }
            l.permute(&axes)
        }
        Step::Slice { dim, start, stop, step } => {
            let axis = axis(*dim)?;
            let size = l.shape()[axis];
            let (start, stop) = (clip(start.unwrap_or(0), size), stop.map_or(size, |s| clip(s, size)));
            let signed = isize::try_from(*step).ok().filter(|s| *s > 0);
            let Some(signed) = signed else {
                return Err(Error::argument(format!("view: slice with step {step}")));
            };
            let len = stop.saturating_sub(start).div_ceil(*step);
            l.slice(axis, if len == 0 { 0 } else { start }, len, signed)
        }
        Step::Expand { shape } => l.broadcast_to(&expanded(l.shape(), shape)?, "view")?,
        Step::Select { dim, index } => {
            let axis = axis(*dim)?;
            let size = l.shape()[axis];
            let i = if *index < 0 { index.checked_add_unsigned(size) } else { Some(*index) };
            match i.and_then(|i| usize::try_from(i).ok()).filter(|i| *i < size) {
                Some(i) => l.select(axis, i),
                None => {
                    return Err(Error::argument(format!("view: index {index} of an axis of size {size}")));
                }
            }
        }
    })
}

/// An index as in Python's slices: from the end if negative, clamped to `0..=size`.
fn clip(i: isize, size: usize) -> usize {
    if i < 0 { size.saturating_sub(i.unsigned_abs()) } else { i.unsigned_abs().min(size) }
}

/// The shape that `asked` stands for, in which -1 keeps a size.
fn expanded(shape: &Shape, asked: &[isize]) -> Result<Shape> {
    let new = asked.len().saturating_sub(shape.rank());
    let mut dims = Dims::new();
    for (i, &s) in asked.iter().enumerate() {
        dims.push(match usize::try_from(s) {
            Ok(s) => s,
            Err(_) if s == -1 && i >= new => shape[i - new],
            Err(_) => return Err(Error::argument(format!("view: expand {shape} to {asked:?}"))),
        });
    }
    Shape::new(&dims)
}

/// The step through the catalogue, so that it can be recorded.
///
/// # Errors
/// Those of the op.
pub fn recorded<V: Value>(x: &V, step: &Step) -> Result<V> {
    let ints = |v: &[isize]| Attr::List(v.iter().map(|&i| Attr::Int(i as i64)).collect());
    let maybe = |v: &Option<isize>| v.map_or(Attr::Null, |i| Attr::Int(i as i64));
    let (op, attrs): (&str, Vec<(&str, Attr)>) = match step {
        Step::Permute { dims } => ("permute", vec![("dims", ints(dims))]),
        Step::Slice { dim, start, stop, step } => {
            let axis = x.shape().axis("view", *dim)?;
            let mut slices = vec![Attr::Null; x.shape().rank()];
            let part = Attr::List(vec![maybe(start), maybe(stop), Attr::Int(*step as i64)]);
            match slices.get_mut(axis) {
                Some(s) => *s = part,
                None => return Err(Error::argument("view: a scalar has no axes")),
            }
            ("slice", vec![("slices", Attr::List(slices))])
        }
        Step::Expand { shape } => ("expand", vec![("shape", ints(shape))]),
        Step::Select { dim, index } => {
            ("select", vec![("dim", Attr::Int(*dim as i64)), ("index", Attr::Int(*index as i64))])
        }
    };
    call1(op, vec![("x", x.clone())], attrs)
}

/// An op with one result, by its name.
///
/// # Errors
/// Those of the op.
pub fn call1<V: Value>(op: &str, inputs: Vec<(&str, V)>, attrs: Vec<(&str, Attr)>) -> Result<V> {
    let args = Args {
        op: op.to_string(),
        inputs: inputs.into_iter().map(|(role, v)| (role.to_string(), v)).collect(),
        attrs: attrs.into_iter().map(|(name, a)| (name.to_string(), a)).collect::<BTreeMap<_, _>>(),
    };
    let mut results = catalogue::call(&args)?;
    match results.len() {
        1 => Ok(results.remove(0)),
        n => Err(Error::argument(format!("{op}: {n} results where one was wanted"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_reach_the_elements_that_pytorch_reaches() {
        let base = Layout::contiguous(Shape::new(&[3, 4]).unwrap());
        let rows: [(Step, &[usize], &[usize]); 6] = [
            (Step::Permute { dims: vec![1, -2] }, &[4, 3], &[0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]),
            (Step::Slice { dim: 1, start: Some(1), stop: None, step: 2 }, &[3, 2], &[1, 3, 5, 7, 9, 11]),
            (Step::Slice { dim: 0, start: Some(-1), stop: Some(9), step: 1 }, &[1, 4], &[8, 9, 10, 11]),
            (Step::Slice { dim: 0, start: Some(2), stop: Some(1), step: 1 }, &[0, 4], &[]),
            (Step::Select { dim: -1, index: -1 }, &[3], &[3, 7, 11]),
            (Step::Expand { shape: vec![2, -1, 4] }, &[2, 3, 4], &[]),
        ];
        for (step, shape, positions) in rows {
            let l = layout(&base, &step).unwrap();
            assert_eq!(l.shape().dims(), shape, "{step:?}");
            if !matches!(step, Step::Expand { .. }) {
                assert_eq!(l.positions().collect::<Vec<_>>(), positions, "{step:?}");
            }
        }
    }

    #[test]
    fn steps_that_do_not_fit_are_errors() {
        let base = Layout::contiguous(Shape::new(&[3, 4]).unwrap());
        for step in [
            Step::Permute { dims: vec![0] },
            Step::Permute { dims: vec![0, 2] },
            Step::Permute { dims: vec![0, 0] },
            Step::Slice { dim: 2, start: None, stop: None, step: 1 },
            Step::Slice { dim: 0, start: None, stop: None, step: 0 },
            Step::Slice { dim: 0, start: None, stop: None, step: usize::MAX },
            Step::Select { dim: 0, index: 3 },
            Step::Select { dim: 0, index: isize::MIN },
            Step::Expand { shape: vec![3] },
            Step::Expand { shape: vec![-1, 3, 4] },
            Step::Expand { shape: vec![3, -2] },
        ] {
            assert!(layout(&base, &step).is_err(), "{step:?}");
        }
        let scalar = Layout::contiguous(Shape::scalar());
        assert!(layout(&scalar, &Step::Select { dim: 0, index: 0 }).is_err());
    }
}
