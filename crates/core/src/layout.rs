//! The layout of a view in a buffer: shape, strides, offset.
//!
//! Views (transpose, slice, expand, flip) are arithmetic on these numbers and never touch a device.
//! Strides count elements, may be negative (flip) and may be 0 (broadcast).

use crate::shape::Dims;
use crate::{Error, Result, Shape, Small};
use smallvec::SmallVec;
use std::fmt;
use std::sync::OnceLock;
use triomphe::Arc;

/// Strides in elements, one per axis.
pub type Strides = Small<isize>;

/// Shape, strides and offset of a view into a buffer. Clones share them, because copying them is a
/// measurable part of an op on a few elements.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Layout(Arc<Places>);

#[derive(Debug, PartialEq, Eq, Hash)]
struct Places {
    shape: Shape,
    strides: Strides,
    offset: usize,
    /// [`Layout::is_contiguous`], cached because it is called often.
    contiguous: bool,
}

/// Is it row-major without gaps?
fn is_contiguous(shape: &Shape, strides: &Strides) -> bool {
    let mut step = 1isize;
    for (&n, &s) in shape.iter().zip(strides).rev() {
        if n == 0 {
            return true;
        }
        if n != 1 && s != step {
            return false;
        }
        step *= n as isize;
    }
    true
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Layout {
    fn of(shape: Shape, strides: Strides, offset: usize) -> Self {
        let contiguous = is_contiguous(&shape, &strides);
        Layout(Arc::new(Places { shape, strides, offset, contiguous }))
    }
    /// Row-major, from the start of the buffer.
    #[inline]
    pub fn contiguous(shape: Shape) -> Self {
        Layout(Arc::new(Layout::places(shape, 0)))
    }
    #[inline]
    fn places(shape: Shape, offset: usize) -> Places {
        let mut strides = Strides::from_elem(0, shape.rank());
        let mut step = 1isize;
        for (s, &size) in strides.iter_mut().zip(shape.iter()).rev() {
            *s = step;
            step *= size.max(1) as isize;
        }
        Places { shape, strides, offset, contiguous: true }
    }
    /// The layout of one element, of shape [].
    pub fn scalar() -> Self {
        static SCALAR: OnceLock<Layout> = OnceLock::new();
        SCALAR.get_or_init(|| Layout::contiguous(Shape::scalar())).clone()
    }
    /// Any strides.
    ///
    /// # Errors
    /// `InvalidArgument` if an element would be outside of a buffer of `len` elements.
    pub fn strided(shape: Shape, strides: &[isize], offset: usize, len: usize) -> Result<Self> {
        let l = Layout::of(shape, strides.into(), offset);
        let fits = l.strides().len() == l.rank()
            && l.bounds_checked()
                .is_some_and(|(lo, hi)| l.shape().numel() == 0 || (lo >= 0 && hi < len as i128));
        if fits {
            Ok(l)
        } else {
            Err(Error::argument(format!(
                "as_strided: shape {}, strides {strides:?}, offset {offset} reach outside of {len} elements",
                l.shape()
            )))
        }
    }
    fn bounds_checked(&self) -> Option<(i128, i128)> {
        let mut lo = self.0.offset as i128;
        let mut hi = lo;
        for (&n, &s) in self.0.shape.iter().zip(&self.0.strides) {
            let reach = (n.max(1) as i128 - 1).checked_mul(s as i128)?;
            if reach < 0 { lo = lo.checked_add(reach)? } else { hi = hi.checked_add(reach)? }
        }
        Some((lo, hi))
    }
    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.0.shape
    }
    /// The strides, in elements.
    pub fn strides(&self) -> &[isize] {
        &self.0.strides
    }
    /// The offset of the first element.
    pub fn offset(&self) -> usize {
        self.0.offset
    }
    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.0.shape.rank()
    }
    /// Is it row-major without gaps? (The offset is arbitrary.)
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.0.contiguous
    }
    /// Are the shapes equal?
    #[inline]
    pub fn has_shape_of(&self, other: &Layout) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.shape == other.0.shape
    }
    /// Is element `i` in row-major order the buffer's element `i`: contiguous, with offset 0?
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.0.contiguous && self.0.offset == 0
    }
    /// Are all elements the same one?
    pub fn is_one(&self) -> bool {
        self.0.shape.iter().zip(&self.0.strides).all(|(&n, &s)| n == 1 || s == 0)
    }
    /// Is any element reached twice, by a stride of 0?
    pub fn is_broadcast(&self) -> bool {
        self.0.shape.iter().zip(&self.0.strides).any(|(&n, &s)| n > 1 && s == 0)
    }
    /// The position in the buffer of the element at `index`.
    pub fn position(&self, index: &[usize]) -> usize {
        let step: isize = index.iter().zip(&self.0.strides).map(|(&i, &s)| i as isize * s).sum();
        self.0.offset.wrapping_add_signed(step)
    }

    /// The axes in another order: axis `i` of the result is axis `axes[i]` of this.
    pub fn permute(&self, axes: &[usize]) -> Layout {
        let dims: Dims = axes.iter().map(|&a| self.0.shape[a]).collect();
        Layout::of(
            Shape::new(&dims).expect("the same sizes in another order"),
            axes.iter().map(|&a| self.0.strides[a]).collect(),
            self.0.offset,
        )
    }
    /// Two axes swapped.
    pub fn transpose(&self, a: usize, b: usize) -> Layout {
        let mut axes: Dims = (0..self.rank()).collect();
        axes.swap(a, b);
        self.permute(&axes)
    }
    /// Every `step`-th of `len` elements of an axis from `start` on; a negative step walks down
    /// from `start`. The caller makes sure that they exist.
    pub fn slice(&self, axis: usize, start: usize, len: usize, step: isize) -> Layout {
        let (mut strides, mut offset) = (self.0.strides.clone(), self.0.offset);
        if len > 0 {
            offset = offset.wrapping_add_signed(start as isize * strides[axis]);
        }
        strides[axis] *= step;
        Layout::of(replace(&self.0.shape, axis, len), strides, offset)
    }
    /// One index of an axis; the axis is removed.
    pub fn select(&self, axis: usize, index: usize) -> Layout {
        let mut strides = self.0.strides.clone();
        let step = strides.remove(axis);
        let offset = self.0.offset.wrapping_add_signed(index as isize * step);
        Layout::of(self.0.shape.without(&[axis], false), strides, offset)
    }
    /// An axis reversed.
    pub fn flip(&self, axis: usize) -> Layout {
        match self.0.shape[axis] {
            0 => self.clone(),
            n => self.slice(axis, n - 1, n, -1),
        }
    }
    /// A new axis of size 1 in front of axis `axis` (or at the end).
    pub fn unsqueeze(&self, axis: usize) -> Layout {
        let Places { shape, strides, offset, contiguous } = &*self.0;
        let step = if axis < self.rank() { strides[axis] * shape[axis] as isize } else { 1 };
        let mut strides = strides.clone();
        strides.insert(axis, step);
        // An axis of size 1 does not change contiguity, so it is not computed again (a matrix
        // product unsqueezes twice).
        Layout(Arc::new(Places {
            shape: shape.with_one(axis),
            strides,
            offset: *offset,
            contiguous: *contiguous,
        }))
    }
    /// Without an axis of size 1.
    pub fn squeeze(&self, axis: usize) -> Layout {
        debug_assert_eq!(self.0.shape[axis], 1);
        self.select(axis, 0)
    }
    /// Broadcast to a larger shape: axes of size 1 are repeated by stride 0, new axes are in front.
    ///
    /// # Errors
    /// `ShapeMismatch` if the shape does not broadcast to `to`.
    pub fn broadcast_to(&self, to: &Shape, op: &str) -> Result<Layout> {
        if *to == self.0.shape {
            return Ok(self.clone());
        }
        let new = to.rank().checked_sub(self.rank());
        let fits = |new: usize| self.0.shape.iter().zip(&to[new..]).all(|(&a, &b)| a == b || a == 1);
        match new {
            Some(new) if fits(new) => {
                let mut strides = Strides::from_elem(0, to.rank());
                for (i, (&n, &s)) in self.0.shape.iter().zip(&self.0.strides).enumerate() {
                    strides[new + i] = if n == to[new + i] { s } else { 0 };
                }
                Ok(Layout::of(to.clone(), strides, self.0.offset))
            }
            _ => Err(Error::shape(format!("{op}: shape {} does not broadcast to {to}", self.0.shape))),
        }
    }
    /// The same elements in row-major order under another shape, if strides can express it; `None`
    /// if the elements would have to move.
    pub fn reshape(&self, to: &Shape) -> Option<Layout> {
        if self.0.shape.numel() != to.numel() {
            return None;
        }
        if to.numel() == 0 || self.is_contiguous() {
            if self.0.shape == *to {
                return Some(self.clone());
            }
            return Some(Layout(Arc::new(Layout::places(to.clone(), self.0.offset))));
        }
        // Walk groups of axes with equal products; inside a group the old axes must be evenly
        // strided.
        let old: SmallVec<[(usize, isize); 6]> = self
            .0
            .shape
            .iter()
            .copied()
            .zip(self.0.strides.iter().copied())
            .filter(|&(n, _)| n != 1)
            .collect();
        let mut strides = Strides::from_elem(0, to.rank());
        let (mut i, mut j) = (0, 0);
        while i < old.len() {
            let (mut have, mut want, from, first) = (old[i].0, 1, i, j);
            while j < to.rank() && (want < have || (want == have && to[j] == 1)) || want != have {
                if want < have {
                    want *= to[j];
                    j += 1;
                } else if want > have {
                    i += 1;
                    have *= old[i].0;
                } else {
                    break;
                }
            }
            let even = |k: usize| old[k].1 == old[k + 1].1 * old[k + 1].0 as isize;
            if !(from..i).all(even) {
                return None;
            }
            let mut step = old[i].1;
            for k in (first..j).rev() {
                strides[k] = step;
                step *= to[k] as isize;
            }
            i += 1;
        }
        Some(Layout::of(to.clone(), strides, self.0.offset))
    }
    /// The diagonal of axes `a` and `b`, `offset` above the main one, as a new last axis.
    pub fn diagonal(&self, offset: isize, a: usize, b: usize) -> Layout {
        let (rows, cols) = (self.0.shape[a] as isize, self.0.shape[b] as isize);
        let n = (rows - (-offset).max(0)).min(cols - offset.max(0)).max(0) as usize;
        let start =
            if n == 0 { 0 } else { (-offset).max(0) * self.0.strides[a] + offset.max(0) * self.0.strides[b] };
        let keep = || (0..self.rank()).filter(|&i| i != a && i != b);
        let mut dims: Dims = keep().map(|i| self.0.shape[i]).collect();
        let mut strides: Strides = keep().map(|i| self.0.strides[i]).collect();
        dims.push(n);
        strides.push(self.0.strides[a] + self.0.strides[b]);
        Layout::of(
            Shape::new(&dims).expect("a diagonal is no larger than its matrix"),
            strides,
            self.0.offset.wrapping_add_signed(start),
        )
    }
    /// Windows of `size` elements, `step` apart, along an axis; the window becomes a new last axis.
    ///
    /// # Errors
    /// `OutOfMemory` if there are more window elements than can be addressed.
    pub fn unfold(&self, axis: usize, size: usize, step: usize) -> Result<Layout> {
        let mut dims = Dims::from_slice(&self.0.shape);
        dims[axis] = if size > dims[axis] { 0 } else { (dims[axis] - size) / step + 1 };
        dims.push(size);
        let mut strides = self.0.strides.clone();
        strides.push(self.0.strides[axis]);
        strides[axis] *= step as isize;
        Ok(Layout::of(Shape::new(&dims)?, strides, self.0.offset))
    }
    /// The positions of all elements in row-major order.
    pub fn positions(&self) -> Positions<'_> {
        Positions {
            layout: self,
            index: Dims::from_elem(0, self.rank()),
            position: self.0.offset,
            left: self.0.shape.numel(),
        }
    }
}

fn replace(shape: &Shape, axis: usize, len: usize) -> Shape {
    let mut dims = Dims::from_slice(shape);
    dims[axis] = len;
    Shape::new(&dims).expect("a slice is no larger than its whole")
}

/// Walks the positions of a layout in row-major order.
#[derive(Clone, Debug)]
pub struct Positions<'a> {
    layout: &'a Layout,
    index: Dims,
    position: usize,
    left: usize,
}

impl Iterator for Positions<'_> {
    type Item = usize;
    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let here = self.position;
        let (shape, strides) = (&self.layout.0.shape, &self.layout.0.strides);
        for axis in (0..self.index.len()).rev() {
            self.index[axis] += 1;
            self.position = self.position.wrapping_add_signed(strides[axis]);
            if self.index[axis] < shape[axis] {
                break;
            }
            self.position =
                self.position.wrapping_add_signed(-(strides[axis].wrapping_mul(shape[axis] as isize)));
            self.index[axis] = 0;
        }
        Some(here)
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Positions<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(s: &[usize]) -> Shape {
        Shape::new(s).unwrap()
    }
    fn all(l: &Layout) -> Vec<usize> {
        l.positions().collect()
    }

    #[test]
    fn unsqueeze_equals_a_layout_built_anew() {
        for (sizes, strides, offset) in [
            (&[2, 3][..], &[3, 1][..], 0),
            (&[2, 3], &[1, 2], 1),
            (&[4, 1, 3], &[3, 7, 1], 2),
            (&[2, 0], &[5, -1], 0),
            (&[], &[], 3),
            (&[2, 2, 2, 2], &[8, 4, 2, 1], 0),
        ] {
            let l = Layout::of(shape(sizes), strides.into(), offset);
            for axis in 0..=sizes.len() {
                let more = l.unsqueeze(axis);
                let mut with_one = sizes.to_vec();
                with_one.insert(axis, 1);
                assert_eq!(more.shape(), &shape(&with_one));
                let anew = Layout::of(more.shape().clone(), more.strides().into(), offset);
                assert_eq!((more.is_contiguous(), all(&more)), (anew.is_contiguous(), all(&l)));
            }
        }
    }

    #[test]
    fn views_reach_the_elements_that_numpy_reaches() {
        let l = Layout::contiguous(shape(&[2, 3]));
        assert_eq!(all(&l), [0, 1, 2, 3, 4, 5]);
        assert_eq!(all(&l.transpose(0, 1)), [0, 3, 1, 4, 2, 5]);
        assert_eq!(all(&l.flip(1)), [2, 1, 0, 5, 4, 3]);
        assert_eq!(all(&l.slice(1, 0, 2, 2)), [0, 2, 3, 5]);
        assert_eq!(all(&l.select(0, 1)), [3, 4, 5]);
        assert_eq!(all(&l.diagonal(1, 0, 1)), [1, 5]);
        assert_eq!(all(&l.diagonal(-1, 0, 1)), [3]);
        assert_eq!(all(&l.unfold(1, 2, 1).unwrap()), [0, 1, 1, 2, 3, 4, 4, 5]);
        assert_eq!(all(&l.select(0, 0).broadcast_to(&shape(&[2, 3]), "t").unwrap()), [0, 1, 2, 0, 1, 2]);
        assert_eq!(all(&Layout::contiguous(Shape::scalar())), [0]);
        assert!(all(&Layout::contiguous(shape(&[2, 0, 3]))).is_empty());
    }

    #[test]
    fn reshape_is_a_view_exactly_when_the_order_of_elements_allows() {
        let l = Layout::contiguous(shape(&[4, 6]));
        let t = l.transpose(0, 1);
        assert!(t.reshape(&shape(&[24])).is_none());
        let split = t.reshape(&shape(&[2, 3, 2, 2])).unwrap();
        assert_eq!(all(&split), all(&t));
        let s = l.slice(0, 0, 2, 2);
        assert_eq!(all(&s.reshape(&shape(&[2, 1, 3, 2])).unwrap()), all(&s));
        assert!(s.reshape(&shape(&[3, 4])).is_none());
        let f = l.flip(1).reshape(&shape(&[4, 2, 3, 1])).unwrap();
        assert_eq!(all(&f), all(&l.flip(1)));
        let b = Layout::contiguous(shape(&[1, 3])).broadcast_to(&shape(&[2, 3]), "t").unwrap();
        assert!(b.reshape(&shape(&[6])).is_none());
        assert_eq!(all(&b.reshape(&shape(&[2, 3, 1])).unwrap()), all(&b));
    }

    #[test]
    fn a_strided_view_may_not_leave_its_buffer() {
        assert!(Layout::strided(shape(&[2, 2]), &[2, 1], 0, 4).is_ok());
        assert!(Layout::strided(shape(&[2, 2]), &[2, 1], 1, 4).is_err());
        assert!(Layout::strided(shape(&[2, 2]), &[-2, 1], 2, 4).is_ok());
        assert!(Layout::strided(shape(&[2, 2]), &[-2, 1], 1, 4).is_err());
        assert!(Layout::strided(shape(&[3]), &[isize::MAX], 0, 4).is_err());
        assert!(Layout::strided(shape(&[0]), &[7], 9, 4).is_ok());
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        assert!(Shape::new(&[usize::MAX, 2]).is_err());
        assert!(Shape::new(&[0, usize::MAX, usize::MAX]).is_err());
    }
}
