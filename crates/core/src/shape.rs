//! Sizes of a tensor's axes.

use crate::Small;
use crate::{Error, Result};
use std::fmt;
use std::ops::Deref;

/// A short list of sizes.
pub type Dims = Small<usize>;

/// The sizes of a tensor's axes, outermost first. Rank 0 is a scalar with one element; sizes may
/// be 0.
///
/// The product of all sizes fits into `isize`, so offsets can be computed without a check.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Shape(Dims);

impl Shape {
    /// A shape of these sizes.
    ///
    /// # Errors
    /// `OutOfMemory` if the number of elements does not fit into memory addresses.
    pub fn new(sizes: &[usize]) -> Result<Self> {
        // A size of 0 must not hide an overflow that appears when that axis is removed.
        sizes
            .iter()
            .filter(|&&s| s != 0)
            .try_fold(1usize, |n, &s| n.checked_mul(s))
            .filter(|&n| n <= (isize::MAX / 16) as usize)
            .map(|_| Shape(Dims::from_slice(sizes)))
            .ok_or_else(|| {
                Error::memory(format!("shape {} has more elements than can be addressed", show(sizes)))
            })
    }
    /// The same with one more axis of size 1 at a position.
    ///
    /// # Panics
    /// If the position is beyond the last axis.
    #[inline]
    pub(crate) fn with_one(&self, axis: usize) -> Self {
        let mut sizes = self.0.clone();
        sizes.insert(axis, 1);
        Shape(sizes)
    }
    /// The shape of a scalar.
    pub fn scalar() -> Self {
        Shape(Dims::new())
    }
    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.0.len()
    }
    /// Number of elements.
    #[inline]
    pub fn numel(&self) -> usize {
        self.0.iter().product()
    }
    /// The sizes.
    pub fn dims(&self) -> &[usize] {
        &self.0
    }
    /// Axis `dim`, which may count from the end (-1 is the last), as a number in `0..rank`. For a
    /// scalar, 0 and -1 are accepted, as in PyTorch, and give 0.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such axis.
    pub fn axis(&self, op: &str, dim: isize) -> Result<usize> {
        axis(op, dim, self.rank().max(1), self)
    }
    /// Several axes, checked by [`Shape::axis`] and to be distinct, in the order given.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such axis or one is named twice.
    pub fn axes(&self, op: &str, dims: &[isize]) -> Result<Dims> {
        let mut out = Dims::new();
        for &d in dims {
            let a = self.axis(op, d)?;
            if out.contains(&a) {
                return Err(Error::argument(format!("{op}: axis {d} is named twice in {dims:?}")));
            }
            out.push(a);
        }
        Ok(out)
    }
    /// NumPy's broadcast of two shapes: aligned at the last axis, sizes equal or 1.
    ///
    /// # Errors
    /// `ShapeMismatch` if they do not broadcast.
    pub fn broadcast(&self, other: &Shape, op: &str) -> Result<Shape> {
        if self == other {
            return Ok(self.clone());
        }
        let rank = self.rank().max(other.rank());
        let mut out = Dims::from_elem(1, rank);
        for (i, o) in out.iter_mut().enumerate() {
            let size = |s: &Shape| if i + s.rank() >= rank { s.0[i + s.rank() - rank] } else { 1 };
            *o = match (size(self), size(other)) {
                (a, b) if a == b => a,
                (1, b) => b,
                (a, 1) => a,
                (a, b) => {
                    return Err(Error::shape(format!(
                        "{op}: shapes {self} and {other} do not broadcast: {a} and {b} at axis {} must be \
                         equal, or one of them 1",
                        i as isize - rank as isize
                    )));
                }
            };
        }
        Shape::new(&out)
    }
    /// This shape without the axes marked, or with size 1 there if `keepdim`.
    pub fn without(&self, axes: &[usize], keepdim: bool) -> Shape {
        let keep = |(i, &s): (usize, &usize)| match (axes.contains(&i), keepdim) {
            (false, _) => Some(s),
            (true, true) => Some(1),
            (true, false) => None,
        };
        Shape(self.0.iter().enumerate().filter_map(keep).collect())
    }
}

/// Axis `dim` of `rank` axes, which may count from the end, as a number in `0..rank`.
///
/// # Errors
/// `InvalidArgument` if there is no such axis.
pub fn axis(op: &str, dim: isize, rank: usize, shape: &Shape) -> Result<usize> {
    let a = if dim < 0 { dim + rank as isize } else { dim };
    if (0..rank as isize).contains(&a) {
        Ok(a as usize)
    } else {
        Err(Error::argument(format!(
            "{op}: axis {dim} does not exist in shape {shape}; it must be in {}..={}",
            -(rank as isize),
            rank as isize - 1
        )))
    }
}

impl Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl TryFrom<&[usize]> for Shape {
    type Error = Error;
    fn try_from(sizes: &[usize]) -> Result<Self> {
        Shape::new(sizes)
    }
}

fn show(sizes: &[usize]) -> String {
    format!("{sizes:?}")
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show(&self.0))
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show(&self.0))
    }
}
