//! Where the elements of a view lie in a buffer: shape, strides, offset.
//!
//! Views (transpose, slice, expand, flip) are arithmetic on these numbers and never touch a device.
//! Strides count elements, may be negative (flip) and may be 0 (broadcast).

use crate::shape::Dims;
use crate::{Error, Result, Shape, Small};
use smallvec::SmallVec;

/// Strides in elements, one per axis.
pub type Strides = Small<isize>;

/// Shape, strides and offset of a view into a buffer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    shape: Shape,
    strides: Strides,
    offset: usize,
}

impl Layout {
    /// Row-major, from the start of the buffer.
    pub fn contiguous(shape: Shape) -> Self {
        let mut strides = Strides::from_elem(0, shape.rank());
        let mut step = 1isize;
        for (s, &size) in strides.iter_mut().zip(shape.iter()).rev() {
            *s = step;
            step *= size.max(1) as isize;
        }
        Layout { shape, strides, offset: 0 }
    }
    /// Any strides.
    ///
    /// # Errors
    /// `InvalidArgument` if an element would lie outside of a buffer of `len` elements.
    pub fn strided(shape: Shape, strides: &[isize], offset: usize, len: usize) -> Result<Self> {
        let l = Layout { shape, strides: strides.into(), offset };
        let fits = l.strides.len() == l.shape.rank()
            && l.bounds_checked()
                .is_some_and(|(lo, hi)| l.shape.numel() == 0 || (lo >= 0 && hi < len as i128));
        if fits {
            Ok(l)
        } else {
            Err(Error::argument(format!(
                "as_strided: shape {}, strides {strides:?}, offset {offset} reach outside of {len} elements",
                l.shape
            )))
        }
    }
    fn bounds_checked(&self) -> Option<(i128, i128)> {
        let mut lo = self.offset as i128;
        let mut hi = lo;
        for (&n, &s) in self.shape.iter().zip(&self.strides) {
            let reach = (n.max(1) as i128 - 1).checked_mul(s as i128)?;
            if reach < 0 { lo = lo.checked_add(reach)? } else { hi = hi.checked_add(reach)? }
        }
        Some((lo, hi))
    }
    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }
    /// The strides, in elements.
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }
    /// The offset of the first element.
    pub fn offset(&self) -> usize {
        self.offset
    }
    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.shape.rank()
    }
    /// Row-major without gaps? (The offset may be anything.)
    pub fn is_contiguous(&self) -> bool {
        let mut step = 1isize;
        for (&n, &s) in self.shape.iter().zip(&self.strides).rev() {
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
    /// Is any element reached twice, by a stride of 0?
    pub fn is_broadcast(&self) -> bool {
        self.shape.iter().zip(&self.strides).any(|(&n, &s)| n > 1 && s == 0)
    }
    /// Where the element at `index` lies.
    pub fn position(&self, index: &[usize]) -> usize {
        let step: isize = index.iter().zip(&self.strides).map(|(&i, &s)| i as isize * s).sum();
        self.offset.wrapping_add_signed(step)
    }

    /// The axes in another order: axis `i` of the result is axis `axes[i]` of this.
    pub fn permute(&self, axes: &[usize]) -> Layout {
        let dims: Dims = axes.iter().map(|&a| self.shape[a]).collect();
        Layout {
            shape: Shape::new(&dims).expect("the same sizes in another order"),
            strides: axes.iter().map(|&a| self.strides[a]).collect(),
            offset: self.offset,
        }
    }
    /// Two axes swapped.
    pub fn transpose(&self, a: usize, b: usize) -> Layout {
        let mut axes: Dims = (0..self.rank()).collect();
        axes.swap(a, b);
        self.permute(&axes)
    }
    /// Every `step`-th of `len` elements of an axis from `start` on; a negative step walks down from `start`.
    /// The caller makes sure that they exist.
    pub fn slice(&self, axis: usize, start: usize, len: usize, step: isize) -> Layout {
        let mut l = self.clone();
        l.shape = replace(&self.shape, axis, len);
        if len > 0 {
            l.offset = self.offset.wrapping_add_signed(start as isize * self.strides[axis]);
        }
        l.strides[axis] = self.strides[axis] * step;
        l
    }
    /// An axis without its other elements: the axis goes away.
    pub fn select(&self, axis: usize, index: usize) -> Layout {
        let mut l = self.clone();
        l.offset = self.offset.wrapping_add_signed(index as isize * self.strides[axis]);
        l.shape = self.shape.without(&[axis], false);
        l.strides.remove(axis);
        l
    }
    /// An axis backwards.
    pub fn flip(&self, axis: usize) -> Layout {
        match self.shape[axis] {
            0 => self.clone(),
            n => self.slice(axis, n - 1, n, -1),
        }
    }
    /// A new axis of size 1 in front of axis `axis` (or at the end).
    pub fn unsqueeze(&self, axis: usize) -> Layout {
        let mut dims = Dims::from_slice(&self.shape);
        dims.insert(axis, 1);
        let mut l = self.clone();
        l.strides.insert(
            axis,
            if axis < self.rank() { self.strides[axis] * self.shape[axis] as isize } else { 1 },
        );
        l.shape = Shape::new(&dims).expect("one more axis of size 1");
        l
    }
    /// Without an axis of size 1.
    pub fn squeeze(&self, axis: usize) -> Layout {
        debug_assert_eq!(self.shape[axis], 1);
        self.select(axis, 0)
    }
    /// Broadcast to a larger shape: axes of size 1 are repeated by stride 0, new axes stand in front.
    ///
    /// # Errors
    /// `ShapeMismatch` if the shape does not broadcast to `to`.
    pub fn broadcast_to(&self, to: &Shape, op: &str) -> Result<Layout> {
        if *to == self.shape {
            return Ok(self.clone());
        }
        let new = to.rank().checked_sub(self.rank());
        let fits = |new: usize| self.shape.iter().zip(&to[new..]).all(|(&a, &b)| a == b || a == 1);
        match new {
            Some(new) if fits(new) => {
                let mut strides = Strides::from_elem(0, to.rank());
                for (i, (&n, &s)) in self.shape.iter().zip(&self.strides).enumerate() {
                    strides[new + i] = if n == to[new + i] { s } else { 0 };
                }
                Ok(Layout { shape: to.clone(), strides, offset: self.offset })
            }
            _ => Err(Error::shape(format!("{op}: shape {} does not broadcast to {to}", self.shape))),
        }
    }
    /// The same elements in row-major order under another shape, if strides can say it; `None` if the elements
    /// would have to move.
    pub fn reshape(&self, to: &Shape) -> Option<Layout> {
        if self.shape.numel() != to.numel() {
            return None;
        }
        if to.numel() == 0 || self.is_contiguous() {
            return Some(Layout { offset: self.offset, ..Layout::contiguous(to.clone()) });
        }
        // Walk groups of axes with equal products; inside a group the old axes must lie evenly.
        let old: SmallVec<[(usize, isize); 6]> =
            self.shape.iter().copied().zip(self.strides.iter().copied()).filter(|&(n, _)| n != 1).collect();
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
        Some(Layout { shape: to.clone(), strides, offset: self.offset })
    }
    /// The diagonal of axes `a` and `b`, `offset` above the main one, as a new last axis.
    pub fn diagonal(&self, offset: isize, a: usize, b: usize) -> Layout {
        let (rows, cols) = (self.shape[a] as isize, self.shape[b] as isize);
        let n = (rows - (-offset).max(0)).min(cols - offset.max(0)).max(0) as usize;
        let start =
            if n == 0 { 0 } else { (-offset).max(0) * self.strides[a] + offset.max(0) * self.strides[b] };
        let keep = || (0..self.rank()).filter(|&i| i != a && i != b);
        let mut dims: Dims = keep().map(|i| self.shape[i]).collect();
        let mut strides: Strides = keep().map(|i| self.strides[i]).collect();
        dims.push(n);
        strides.push(self.strides[a] + self.strides[b]);
        Layout {
            shape: Shape::new(&dims).expect("a diagonal is no larger than its matrix"),
            strides,
            offset: self.offset.wrapping_add_signed(start),
        }
    }
    /// Windows of `size` elements, `step` apart, along an axis; the window becomes a new last axis.
    ///
    /// # Errors
    /// `OutOfMemory` if there are more window elements than can be addressed.
    pub fn unfold(&self, axis: usize, size: usize, step: usize) -> Result<Layout> {
        let mut dims = Dims::from_slice(&self.shape);
        dims[axis] = if size > dims[axis] { 0 } else { (dims[axis] - size) / step + 1 };
        dims.push(size);
        let mut strides = self.strides.clone();
        strides.push(self.strides[axis]);
        strides[axis] *= step as isize;
        Ok(Layout { shape: Shape::new(&dims)?, strides, offset: self.offset })
    }
    /// The positions of all elements in row-major order.
    pub fn positions(&self) -> Positions<'_> {
        Positions {
            layout: self,
            index: Dims::from_elem(0, self.rank()),
            position: self.offset,
            left: self.shape.numel(),
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
        let (shape, strides) = (&self.layout.shape, &self.layout.strides);
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
