//! einsum: Einstein's summation: a letter for each axis of the operands; letters that the result
//! does not name are summed over.
//!
//! Operands are contracted from left to right, two at a time, each time over the letters that no
//! later operand needs. A contraction is a batched matrix product; without letters to contract, it
//! is an elementwise product.

use super::matmul::Matmul;
use super::{diagonal, mul, permute, reshape, sum, view};
use crate::autocast;
use crate::prelude::*;
use crate::value::{broadcast, cast};

/// A letter of the equation, or an axis under an ellipsis, numbered from the last one up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    /// Axes of an ellipsis come before letters.
    Ellipsis(std::cmp::Reverse<usize>),
    Letter(char),
}

/// A tensor with a label for each axis.
struct Term<V> {
    value: V,
    labels: Vec<Label>,
}

/// The sum that `equation` names, such as "ij,jk->ik": letters (upper and lower case) for the axes
/// of each operand, and for those of the result. A letter that is repeated in an operand takes its
/// diagonal; "..." stands for any number of axes that broadcast; without "->" the result has the
/// ellipsis, then the letters that occur once, in alphabetical order. Spaces do not matter. Axes of
/// size 1 broadcast. Storage floats run in f32 and are rounded once. Sums of one operand of
/// integers or bool are i64, as those of `sum`; products of several wrap in the operands' type, as
/// those of `matmul`.
///
/// # Errors
/// `InvalidArgument` if the equation is malformed; `ShapeMismatch` if it does not fit the operands;
/// `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn einsum<V: Value>(equation: &str, x: &[&V]) -> Result<V> {
    // One operand is summed and transposed, and not contracted with another.
    if x.len() > 1 && V::autocast().is_some() {
        return autocast::run_all("einsum", x, |x| einsum(equation, x));
    }
    let dtype = view::same_dtype("einsum", x)?;
    let (inputs, output) = parse(equation, &x.iter().map(|v| v.shape()).collect::<Vec<_>>())?;
    let mut terms = Vec::with_capacity(x.len());
    for (v, labels) in x.iter().zip(inputs) {
        terms.push(diagonals(Term { value: cast(*v, dtype.compute())?, labels })?);
    }
    let mut rest = terms.into_iter();
    let mut result = rest.next().expect("there is one operand at least");
    while let Some(next) = rest.next() {
        let needed = |l: &Label| output.contains(l) || rest.as_slice().iter().any(|t| t.labels.contains(l));
        result = contract(result, next, needed)?;
    }
    // Of several operands nothing is left to be summed.
    let result = sum_out(result, |l| output.contains(l))?;
    let dtype = if dtype.is_float() { dtype } else { result.value.dtype() };
    let place = |l: &Label| {
        result.labels.iter().position(|m| m == l).expect("every letter of the result was checked")
    };
    let order: Dims = output.iter().map(place).collect();
    cast(&permute::to_axes(&result.value, &order)?, dtype)
}

/// The labels of the operands' axes, and those of the result's.
fn parse(equation: &str, shapes: &[&Shape]) -> Result<(Vec<Vec<Label>>, Vec<Label>)> {
    let wrong = |why: String| Error::argument(format!("einsum: {equation:?}: {why}"));
    let text: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = match text.split_once("->") {
        Some((l, r)) => (l, Some(r)),
        None => (text.as_str(), None),
    };
    let specs: Vec<&str> = left.split(',').collect();
    if specs.len() != shapes.len() {
        return Err(wrong(format!("{} operands are named, and there are {}", specs.len(), shapes.len())));
    }
    let mut inputs = Vec::with_capacity(specs.len());
    let mut sizes: Vec<(Label, usize)> = Vec::new();
    let mut dots: usize = 0;
    for (i, (spec, shape)) in specs.iter().zip(shapes).enumerate() {
        let letters = spec.replacen("...", "", 1).chars().count();
        let under = if spec.contains("...") { shape.rank().checked_sub(letters) } else { Some(0) };
        let labels = match under {
            Some(under) => labels(spec, under).map_err(wrong)?,
            None => Vec::new(),
        };
        if under.is_none() || labels.len() != shape.rank() {
            return Err(Error::shape(format!(
                "einsum: {equation:?}: operand {i} has shape {shape}, which {spec:?} does not fit: a letter is needed for \
                 each axis"
            )));
        }
        dots = dots.max(under.unwrap_or(0));
        for (&l, &n) in labels.iter().zip(shape.iter()) {
            match sizes.iter_mut().find(|(m, _)| *m == l) {
                None => sizes.push((l, n)),
                Some((_, m)) if *m == 1 => *m = n,
                Some((_, m)) if *m == n || n == 1 => {}
                Some((_, m)) => {
                    return Err(Error::shape(format!(
                        "einsum: {equation:?}: axis {} is {m} in one place and {n} in operand {i}; they must be equal, or \
                         one of them 1",
                        name(l)
                    )));
                }
            }
        }
        inputs.push(labels);
    }
    let output = match right {
        Some(spec) => labels(spec, if spec.contains("...") { dots } else { 0 }).map_err(wrong)?,
        None => {
            let all = || inputs.iter().flatten();
            let mut once: Vec<Label> = all()
                .filter(|&l| matches!(l, Label::Ellipsis(_)) || all().filter(|&m| m == l).count() == 1)
                .copied()
                .collect();
            once.sort();
            once.dedup();
            once
        }
    };
    for (i, l) in output.iter().enumerate() {
        if output[..i].contains(l) {
            return Err(wrong(format!("the result names {} twice", name(*l))));
        }
        if !inputs.iter().flatten().any(|m| m == l) {
            return Err(wrong(format!("the result names {}, which no operand has", name(*l))));
        }
    }
    Ok((inputs, output))
}

fn name(l: Label) -> String {
    match l {
        Label::Letter(c) => c.to_string(),
        Label::Ellipsis(_) => "...".to_owned(),
    }
}

/// The labels of one operand, or its error. `under` axes are under its ellipsis.
fn labels(spec: &str, under: usize) -> Result<Vec<Label>, String> {
    let letters = |s: &str| {
        let one = |c: char| {
            if c.is_ascii_alphabetic() { Ok(Label::Letter(c)) } else { Err(format!("{c:?} is no letter")) }
        };
        s.chars().map(one).collect::<Result<Vec<_>, _>>()
    };
    let Some((before, after)) = spec.split_once("...") else { return letters(spec) };
    let mut all = letters(before)?;
    all.extend((0..under).rev().map(|i| Label::Ellipsis(std::cmp::Reverse(i))));
    all.extend(letters(after)?);
    Ok(all)
}

/// Repeated labels of one operand replaced by their diagonal.
fn diagonals<V: Value>(mut t: Term<V>) -> Result<Term<V>> {
    let twice = |labels: &[Label]| {
        (0..labels.len())
            .find_map(|i| Some((i, i + 1 + labels[i + 1..].iter().position(|l| *l == labels[i])?)))
    };
    while let Some((i, j)) = twice(&t.labels) {
        let (a, b) = (t.value.shape()[i], t.value.shape()[j]);
        if a != b {
            return Err(Error::shape(format!(
                "einsum: axes {i} and {j} of an operand are both {}, and have sizes {a} and {b}; they must be equal",
                name(t.labels[i])
            )));
        }
        t.value = diagonal(&t.value, 0, i as isize, j as isize)?;
        t.labels.remove(j);
        let l = t.labels.remove(i);
        t.labels.push(l);
    }
    Ok(t)
}

/// Sums over the labels that are not to be kept.
fn sum_out<V: Value>(t: Term<V>, keep: impl Fn(&Label) -> bool) -> Result<Term<V>> {
    let gone: Vec<isize> = (0..t.labels.len()).filter(|&i| !keep(&t.labels[i])).map(|i| i as isize).collect();
    if gone.is_empty() {
        return Ok(t);
    }
    let value = sum(&t.value, Some(&gone), false)?;
    Ok(Term { value, labels: t.labels.into_iter().filter(keep).collect() })
}

/// Two terms as one, summed over the labels that are no longer needed.
fn contract<V: Value>(x: Term<V>, y: Term<V>, needed: impl Fn(&Label) -> bool) -> Result<Term<V>> {
    // Sums of integers are i64; here they wrap in the operands' type, as contractions do.
    let wrapped = |t: Term<V>, dtype| Ok::<_, Error>(Term { value: cast(&t.value, dtype)?, ..t });
    let dtype = x.value.dtype();
    let x = wrapped(sum_out(x, |l| needed(l) || y.labels.contains(l))?, dtype)?;
    let y = wrapped(sum_out(y, |l| needed(l) || x.labels.contains(l))?, dtype)?;
    let (both, left): (Vec<Label>, Vec<Label>) = x.labels.iter().partition(|l| y.labels.contains(l));
    let (batch, inner): (Vec<Label>, Vec<Label>) = both.into_iter().partition(needed);
    let right: Vec<Label> = y.labels.iter().filter(|l| !x.labels.contains(l)).copied().collect();
    let labels = [&batch[..], &left, &right].concat();
    let value = if inner.is_empty() {
        let x = spread(&x, &[&batch, &left, &right])?;
        let y = spread(&y, &[&batch, &left, &right])?;
        mul(&x, &y)?
    } else {
        let (x, y) = (spread(&x, &[&batch, &left, &inner])?, spread(&y, &[&batch, &inner, &right])?);
        let (b, l, i) = (batch.len(), left.len(), inner.len());
        // Shared labels must be of one size now, not 1 in one of them.
        let common = |n: usize, m: usize| n.max(m) * usize::from(n != 0 && m != 0);
        let shared = |at: usize, other: usize, n: usize| -> Dims {
            (0..n).map(|k| common(x.shape()[at + k], y.shape()[other + k])).collect()
        };
        let (bs, is) = (shared(0, 0, b), shared(b + l, b, i));
        let (ls, rs) = (Dims::from_slice(&x.shape()[b..b + l]), Dims::from_slice(&y.shape()[b + i..]));
        let size = |d: &Dims| d.iter().product::<usize>();
        let x = broadcast(&x, &joined(&[&bs, &ls, &is])?)?;
        let y = broadcast(&y, &joined(&[&bs, &is, &rs])?)?;
        let x = reshape::to_shape(&x, &Shape::new(&[size(&bs), size(&ls), size(&is)])?)?;
        let y = reshape::to_shape(&y, &Shape::new(&[size(&bs), size(&is), size(&rs)])?)?;
        reshape::to_shape(&V::apply(Matmul::with(&x), &[&x, &y])?, &joined(&[&bs, &ls, &rs])?)?
    };
    Ok(Term { value, labels })
}

fn joined(parts: &[&Dims]) -> Result<Shape> {
    Shape::new(&parts.iter().flat_map(|p| p.iter().copied()).collect::<Dims>())
}

/// The axes of a term in the order of these labels; an axis of size 1 for a label that it does not
/// have.
fn spread<V: Value>(t: &Term<V>, groups: &[&[Label]]) -> Result<V> {
    let place = |l: &Label| t.labels.iter().position(|m| m == l);
    let order: Dims = groups.iter().flat_map(|g| g.iter()).filter_map(place).collect();
    let dims: Dims =
        groups.iter().flat_map(|g| g.iter()).map(|l| place(l).map_or(1, |a| t.value.shape()[a])).collect();
    reshape::to_shape(&permute::to_axes(&t.value, &order)?, &Shape::new(&dims)?)
}

/// By name: operands x0, x1, ..; attribute equation.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![einsum(a.str("equation")?, &a.all("x"))?])
}
