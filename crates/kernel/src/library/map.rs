//! y[i] = formula(x0[i], x1[i], ..) for every element i, in row-major order of the result.
//!
//! An operand is read in one of three ways: `Dense` (row-major, as the result), `Same` (one element for all), or
//! `Strided` (by the strides of its axes, broadcast axes having stride 0). If no operand is strided, an invocation takes
//! four neighbours as a vector; the last few elements are loaded one by one into the same vector, so that there is one copy
//! of the formula. Otherwise the number of an element is taken apart into its index, by multiplication with a
//! reciprocal where numbers are below 2^30, and each operand has its own sum of index times stride.

use super::formula::{Compute, Formula, leave};
use super::numbers::{self, Numbers};
use super::{Work, grid};
use crate::build::{Builder, Val};
use crate::ir::{Access, Binary, Builtin, Elem, Kernel, Place, Scalar};
use elinvar_core::{DType, Layout};
use elinvar_ops::map::Out;

/// Invocations of a workgroup: eight warps or four wavefronts, as many as keep a multiprocessor busy in a few groups.
const GROUP: u32 = 256;
/// Numbers, and what is computed from them, stay below this in 32 bits.
const NARROW: i128 = 1 << 30;

/// How an operand is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Walk {
    /// Row-major, as the result.
    Dense,
    /// One element for all.
    Same,
    /// By strides.
    Strided,
}

/// What a kernel is built for: launches of the same form share a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Form {
    /// The dtype of the work.
    pub dtype: DType,
    /// What the operands hold, and how they are read.
    pub operands: Vec<(Elem, Walk)>,
    /// What the result holds.
    pub out: Elem,
    /// Axes that are left of the shape when neighbours that lie evenly in all operands are joined; 0 if no operand
    /// is strided.
    pub rank: usize,
    /// Elements that an invocation takes: 1 or 4.
    pub width: u8,
    /// Are there positions beyond 2^30?
    pub wide: bool,
}

/// The numbers of a launch, for a form.
#[derive(Clone, Debug)]
struct Sizes {
    len: usize,
    /// The joined shape.
    dims: Vec<usize>,
    /// Offset and joined strides of each operand.
    operands: Vec<(usize, Vec<isize>)>,
}

/// The work of a map: operands first, then the result. `None` if there are no elements.
pub fn map(formula: &dyn Formula, dtype: DType, x: &[(&Layout, DType)]) -> Option<Work> {
    let (form, sizes) = plan(formula, dtype, x, 4)?;
    Some(launch(build(formula, &form), &form, &sizes))
}

/// The same with one element per invocation, whatever the operands allow.
pub fn map_single(formula: &dyn Formula, dtype: DType, x: &[(&Layout, DType)]) -> Option<Work> {
    let (form, sizes) = plan(formula, dtype, x, 1)?;
    Some(launch(build(formula, &form), &form, &sizes))
}

/// Joins axes that lie evenly in all operands, and drops those of size 1.
fn join(x: &[(&Layout, DType)]) -> (Vec<usize>, Vec<Vec<isize>>) {
    let mut dims: Vec<usize> = Vec::new();
    let mut strides: Vec<Vec<isize>> = vec![Vec::new(); x.len()];
    for (axis, &n) in x[0].0.shape().iter().enumerate() {
        if n == 1 {
            continue;
        }
        let here: Vec<isize> = x.iter().map(|(l, _)| l.strides()[axis]).collect();
        let even = !dims.is_empty()
            && strides.iter().zip(&here).all(|(s, &h)| s.last().is_some_and(|&outer| outer == h * n as isize));
        if even {
            *dims.last_mut().expect("there is an axis") *= n;
            strides.iter_mut().zip(&here).for_each(|(s, &h)| *s.last_mut().expect("as many") = h);
        } else {
            dims.push(n);
            strides.iter_mut().zip(&here).for_each(|(s, &h)| s.push(h));
        }
    }
    (dims, strides)
}

fn plan(formula: &dyn Formula, dtype: DType, x: &[(&Layout, DType)], most: u8) -> Option<(Form, Sizes)> {
    let len = x[0].0.shape().numel();
    if len == 0 {
        return None;
    }
    let (dims, strides) = join(x);
    let walk = |s: &[isize]| match s {
        _ if s.iter().all(|&s| s == 0) => Walk::Same,
        [1] => Walk::Dense,
        _ => Walk::Strided,
    };
    // Joined axes are more than one only if an operand is neither dense nor a single element.
    let dense = |l: &Layout, s: &[isize]| if l.is_contiguous() { Walk::Dense } else { walk(s) };
    let operands: Vec<(Elem, Walk)> = (x.iter().zip(&strides))
        .map(|((l, d), s)| (Elem::from(*d), if len == 1 { Walk::Same } else { dense(l, s) }))
        .collect();
    let strided = operands.iter().any(|o| o.1 == Walk::Strided);
    let reach = |(l, _): &(&Layout, DType)| {
        let far: i128 =
            l.shape().iter().zip(l.strides()).map(|(&n, &s)| (n as i128 - 1) * s.unsigned_abs() as i128).sum();
        l.offset() as i128 + far
    };
    let wide = x.iter().map(reach).max()? >= NARROW || len as i128 >= NARROW;
    // A vector is loaded from a multiple of its width.
    let aligned = (x.iter().zip(&operands)).all(|((l, _), o)| o.1 != Walk::Dense || l.offset() % 4 == 0);
    let width = if strided || !aligned || len == 1 { 1 } else { most };
    let out = match formula.out() {
        Out::Same => Elem::from(dtype),
        Out::Bool => Elem::Bool,
    };
    let rank = if strided { dims.len() } else { 0 };
    let form = Form { dtype, operands, out, rank, width, wide };
    let operands = x.iter().zip(strides).map(|((l, _), s)| (l.offset(), s)).collect();
    Some((form, Sizes { len, dims, operands }))
}

impl Form {
    fn scalar(&self) -> Scalar {
        if self.wide { Scalar::I64 } else { Scalar::I32 }
    }
    /// Numbers of a launch: the length; size and reciprocal of each axis but the first; offset (and strides) of each
    /// operand.
    fn count(&self) -> usize {
        let strided = self.operands.iter().filter(|o| o.1 == Walk::Strided).count();
        1 + self.rank.saturating_sub(1) * self.per_axis() + self.operands.len() + strided * self.rank
    }
    /// Numbers per axis: in 64 bits a division is a division.
    fn per_axis(&self) -> usize {
        if self.wide { 1 } else { 3 }
    }
    /// A word for the kernel of this form.
    fn name(&self, formula: &dyn Formula) -> String {
        let walks: String = (self.operands.iter())
            .map(|(e, w)| {
                let w = match w {
                    Walk::Dense => "d",
                    Walk::Same => "s",
                    Walk::Strided => "r",
                };
                format!("_{e}{w}")
            })
            .collect();
        let wide = if self.wide { "_wide" } else { "" };
        format!("map_{}{walks}_{}_r{}w{}{wide}", formula.name(), self.out, self.rank, self.width)
    }
}

/// n / d as the upper half of n times the first number, moved right by the second, for n below 2^31.
///
/// With l = ceil(log2 d) the reciprocal is 2^(31 + l) / d rounded up, below 2^32; its error, less than d <= 2^l, times n
/// stays below 2^(31 + l).
fn reciprocal(d: usize) -> (u32, u32) {
    let l = usize::BITS - (d - 1).leading_zeros();
    ((1u128 << (31 + l)).div_ceil(d as u128) as u32, l - 1)
}

fn launch(kernel: Kernel, form: &Form, sizes: &Sizes) -> Work {
    let mut numbers = vec![sizes.len as i64];
    if form.rank > 0 {
        for &n in &sizes.dims[1..] {
            numbers.push(n as i64);
            if !form.wide {
                let (times, shift) = reciprocal(n);
                numbers.extend([i64::from(times as i32), i64::from(shift)]);
            }
        }
    }
    for ((_, walk), (offset, strides)) in form.operands.iter().zip(&sizes.operands) {
        numbers.push(*offset as i64);
        if *walk == Walk::Strided {
            numbers.extend(strides.iter().map(|&s| s as i64));
        }
    }
    assert_eq!(numbers.len(), form.count(), "{}: as many numbers as the kernel asks for", kernel.name);
    let groups = (sizes.len as u64).div_ceil(u64::from(GROUP) * u64::from(form.width));
    numbers::work(kernel, grid(groups), form.scalar(), &numbers)
}

/// The number of the first element of an invocation.
fn first<'k>(k: &'k Builder, scalar: Scalar, width: u8) -> Val<'k> {
    let group = k.group_id(1).to(scalar) * k.builtin(Builtin::GroupCount(0)).to(scalar) + k.group_id(0).to(scalar);
    let i = group * i64::from(GROUP) + k.local_id(0).to(scalar);
    if width == 1 { i } else { i * i64::from(width) }
}

/// The kernel of a form.
pub fn build(formula: &dyn Formula, form: &Form) -> Kernel {
    let k = Builder::new(&form.name(formula), [GROUP, 1, 1]);
    let operands: Vec<Place> = (form.operands.iter().enumerate())
        .map(|(i, (e, _))| k.buffer(&format!("x{i}"), *e, Access::Read))
        .collect();
    let y = k.buffer("y", form.out, Access::Write);
    let numbers = Numbers::new(&k, form.scalar(), form.count());
    let len = numbers.get("len");
    let axes: Vec<[Val; 3]> = (1..form.rank)
        .map(|a| {
            let size = numbers.get(&format!("size{a}"));
            if form.wide {
                return [size; 3];
            }
            let times = numbers.get(&format!("times{a}")).bits(Scalar::U32);
            [size, times, numbers.get(&format!("shift{a}")).bits(Scalar::U32)]
        })
        .collect();
    let places: Vec<(Val, Vec<Val>)> = (form.operands.iter().enumerate())
        .map(|(i, (_, walk))| {
            let offset = numbers.get(&format!("offset{i}"));
            let axes = if *walk == Walk::Strided { form.rank } else { 0 };
            (offset, (0..axes).map(|a| numbers.get(&format!("stride{i}_{a}"))).collect())
        })
        .collect();

    let i = first(&k, form.scalar(), form.width);
    let c = Compute::from(form.dtype);
    k.if_(i.lt(len), || {
        let index = unravel(form, i, &axes);
        // Are all elements of the vector there?
        let whole = (form.width > 1).then(|| !len.lt(i + i64::from(form.width)));
        let x: Vec<Val> = (operands.iter().zip(&form.operands).zip(&places))
            .map(|((&p, (_, walk)), (offset, strides))| {
                let v = match walk {
                    Walk::Same => k.load(p, *offset, 1).splat(form.width),
                    Walk::Dense => load(&k, p, *offset + i, i, len, whole, form.width),
                    Walk::Strided => {
                        let at = index.iter().zip(strides).fold(*offset, |at, (&i, &s)| at + i * s);
                        k.load(p, at, 1)
                    }
                };
                c.enter(v)
            })
            .collect();
        let v = leave(formula.emit(&k, c, &x), formula.out(), c, form.width);
        store(&k, y, i, len, whole, v, form.width);
    });
    k.finish()
}

/// The index of element `i`, axis by axis.
fn unravel<'k>(form: &Form, i: Val<'k>, axes: &[[Val<'k>; 3]]) -> Vec<Val<'k>> {
    if form.rank == 0 {
        return Vec::new();
    }
    let mut left = i;
    let mut index = Vec::new();
    for &[size, times, shift] in axes.iter().rev() {
        let q = if form.wide {
            left / size
        } else {
            (left.bits(Scalar::U32).binary(Binary::MulHigh, times) >> shift).bits(Scalar::I32)
        };
        index.push(left - q * size);
        left = q;
    }
    index.push(left);
    index.reverse();
    index
}

/// Elements from `at` on; those past the end of the tensor repeat the first.
fn load<'k>(
    k: &'k Builder,
    p: Place,
    at: Val<'k>,
    i: Val<'k>,
    len: Val<'k>,
    whole: Option<Val<'k>>,
    width: u8,
) -> Val<'k> {
    let Some(whole) = whole else { return k.load(p, at, 1) };
    let one_by_one = || {
        let all: Vec<Val> = (0..i64::from(width))
            .map(|e| {
                let there = (i + e).lt(len);
                k.load(p, there.select(at + e, at), 1)
            })
            .collect();
        vec![k.compose(&all)]
    };
    k.if_else(whole, || vec![k.load(p, at, width)], one_by_one)[0]
}

/// Stores the elements that the tensor has.
fn store<'k>(
    k: &'k Builder,
    y: Place,
    i: Val<'k>,
    len: Val<'k>,
    whole: Option<Val<'k>>,
    v: Val<'k>,
    width: u8,
) {
    let Some(whole) = whole else { return k.store(y, i, v) };
    k.if_(whole, || k.store(y, i, v));
    k.if_(!whole, || {
        for e in 0..width {
            let at = i + i64::from(e);
            k.if_(at.lt(len), || k.store(y, at, v.extract(e)));
        }
    });
}
