//! Views of a part of the elements, and their adjoint: a new tensor assembled from parts.
//!
//! Slices, picks and diagonals are layout arithmetic. Their gradient is zero outside the part, so
//! it is a tensor assembled from one part; concatenation assembles several, and its gradients are
//! views again. The two ops here are each other's gradient, so derivatives of any order are views
//! and assemblies.

use crate::array;
use crate::prelude::*;
use elinvar_core::host::with_capacity;
use smallvec::SmallVec;

/// A range of indices of an axis: `len` of them from `start` on, `step` apart. All of them exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// The first one.
    pub start: usize,
    /// The number of indices.
    pub len: usize,
    /// Distance; negative: descending from `start`.
    pub step: isize,
}

impl Run {
    /// A whole axis.
    pub fn all(size: usize) -> Run {
        Run { start: 0, len: size, step: 1 }
    }
    /// Is it the whole axis of this size, in order?
    pub fn is_all(self, size: usize) -> bool {
        self.len == size && (size <= 1 || self.step == 1)
    }
}

/// A part of a tensor that holds each of its elements at most once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A run of every axis.
    Slice(SmallVec<[Run; 4]>),
    /// One index of an axis, which is dropped.
    Select {
        /// The axis.
        axis: usize,
        /// The index.
        index: usize,
    },
    /// The diagonal of two axes, as a new last axis.
    Diagonal {
        /// Offset above the main diagonal.
        offset: isize,
        /// The axis of rows.
        a: usize,
        /// The axis of columns.
        b: usize,
    },
}

impl Part {
    /// A run of one axis, all of the others.
    pub fn run(shape: &Shape, axis: usize, run: Run) -> Part {
        let all = shape.iter().enumerate().map(|(i, &n)| if i == axis { run } else { Run::all(n) });
        Part::Slice(all.collect())
    }
    /// The layout of the part.
    pub fn layout(&self, whole: &Layout) -> Layout {
        match self {
            Part::Slice(runs) => runs.iter().enumerate().fold(whole.clone(), |l, (axis, r)| {
                if r.is_all(l.shape()[axis]) { l } else { l.slice(axis, r.start, r.len, r.step) }
            }),
            Part::Select { axis, index } => whole.select(*axis, *index),
            Part::Diagonal { offset, a, b } => whole.diagonal(*offset, *a, *b),
        }
    }
}

/// A part of a tensor, as a view.
#[derive(Clone, Debug)]
pub struct Take {
    /// Which part.
    pub part: Part,
}

impl Op for Take {
    fn name(&self) -> &'static str {
        "view"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::NOTHING
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        Ok(Outputs::from_buf([x[0].with_layout(self.part.layout(x[0].layout()))]))
    }
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("a view has one result");
        Ok(vec![Some(place(g, c.shape(0), self.part.clone())?)])
    }
}

/// A new tensor of one value, into which the operands are written as its parts. The parts do not
/// overlap.
#[derive(Clone, Debug)]
pub struct Assemble {
    /// The shape of the result.
    pub shape: Shape,
    /// The value outside of the parts.
    pub fill: Scalar,
    /// The parts of the operands; each has its operand's shape.
    pub parts: Vec<Part>,
}

impl Op for Assemble {
    fn name(&self) -> &'static str {
        "assemble"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::NOTHING
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        array::one_device("assemble", x)?;
        let whole = Layout::contiguous(self.shape.clone());
        let parts: Vec<_> = x.iter().zip(&self.parts).map(|(x, p)| (x.view(), p.layout(&whole))).collect();
        let (device, dtype) = (x[0].device(), x[0].dtype());
        let buffer = B::assemble(device, self.fill, dtype, &self.shape, &parts)?;
        Ok(Outputs::from_buf([Array::new(device, buffer, self.shape.clone(), dtype)]))
    }
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("an assembly has one result");
        let one = |(i, part): (usize, &Part)| c.want(i, || take(g, part.clone()));
        self.parts.iter().enumerate().map(one).collect()
    }
}

/// A part of `x`, as a view. The part must be inside of `x`.
///
/// # Errors
/// None of its own.
pub fn take<V: Value>(x: &V, part: Part) -> Result<V> {
    V::apply(Take { part }, &[x])
}

/// Zeros of `shape`, into which `x` is written as a part.
///
/// # Errors
/// `OutOfMemory`.
pub fn place<V: Value>(x: &V, shape: &Shape, part: Part) -> Result<V> {
    assemble(&[x], shape, Scalar::Int(0), vec![part])
}

/// A tensor of `fill`, which fits its dtype, into which each of `x` (at least one, all of one
/// dtype) is written as its part.
///
/// # Errors
/// `DeviceMismatch`, `OutOfMemory`.
pub fn assemble<V: Value>(x: &[&V], shape: &Shape, fill: Scalar, parts: Vec<Part>) -> Result<V> {
    V::apply(Assemble { shape: shape.clone(), fill, parts }, x)
}

/// Checks that all operands are of one dtype, and that there is at least one.
///
/// # Errors
/// `InvalidArgument`, `DTypeMismatch`.
pub(super) fn same_dtype<V: Value>(op: &str, x: &[&V]) -> Result<DType> {
    let Some(first) = x.first() else {
        return Err(Error::argument(format!("{op}: no operands; there must be one at least")));
    };
    match x.iter().find(|v| v.dtype() != first.dtype()) {
        None => Ok(first.dtype()),
        Some(v) => Err(Error::dtype(format!(
            "{op}: operands are {} and {}; convert one with to_dtype",
            first.dtype(),
            v.dtype()
        ))),
    }
}

/// A constant vector of these `n` numbers, on the device of `like`.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn numbers<V: Value>(like: &V, n: usize, v: impl IntoIterator<Item = i64>) -> Result<V> {
    let mut all = with_capacity(n)?;
    all.extend(v);
    Ok(V::from_array(Array::from_vec(like.device(), all, &[n])?))
}

/// Zeros of `shape`, of the dtype and on the device of `like`: one element, broadcast, so that
/// copying it for a scatter reads no memory.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn zeros<V: Value>(like: &V, shape: &Shape) -> Result<V> {
    let zero = Array::scalar(like.device(), Scalar::Int(0), like.dtype())?;
    Ok(V::from_array(zero.broadcast_to(shape, "zeros")?))
}

/// A tensor of one value, of the dtype and on the device of `like`.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn full<V: Value>(like: &V, shape: &Shape, value: Scalar) -> Result<V> {
    Ok(V::from_array(Array::full(like.device(), shape, value, like.dtype())?))
}

/// A shape with the size of one axis replaced.
///
/// # Errors
/// `OutOfMemory` if it has too many elements.
pub(super) fn resized(shape: &Shape, axis: usize, size: usize) -> Result<Shape> {
    let mut dims = Dims::from_slice(shape);
    dims[axis] = size;
    Shape::new(&dims)
}
