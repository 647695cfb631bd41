//! Walking over a view in row-major order, as few and as long runs as its strides allow.

use crate::simd::room::Room;
use elinvar_core::layout::Strides;
use elinvar_core::{Dims, Layout};

/// A layout with neighbouring axes taken together where one walks on as the other does, and no axes of size 1.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Walk {
    /// Sizes, outermost first; at least one axis.
    pub(crate) dims: Dims,
    /// Steps of the axes.
    pub(crate) strides: Strides,
    /// Where the first element lies.
    pub(crate) offset: usize,
}

impl Walk {
    pub(crate) fn new(l: &Layout) -> Walk {
        let (mut dims, mut strides) = (Dims::new(), Strides::new());
        for (&n, &s) in l.shape().iter().zip(l.strides()) {
            if n == 1 {
                continue;
            }
            match (dims.last_mut(), strides.last_mut()) {
                (Some(outer), Some(step)) if *step == s.wrapping_mul(n as isize) => {
                    *outer *= n;
                    *step = s;
                }
                _ => {
                    dims.push(n);
                    strides.push(s);
                }
            }
        }
        if dims.is_empty() {
            dims.push(1);
            strides.push(1);
        }
        Walk { dims, strides, offset: l.offset() }
    }
    /// The innermost axis: its size and step.
    pub(crate) fn inner(&self) -> (usize, isize) {
        let last = self.dims.len() - 1;
        (self.dims[last], self.strides[last])
    }
    /// Do all elements lie in one place?
    pub(crate) fn is_one(&self) -> bool {
        self.strides.iter().all(|&s| s == 0) || self.dims.iter().all(|&n| n == 1)
    }
    /// Do the elements lie one after the other?
    pub(crate) fn is_contiguous(&self) -> bool {
        self.dims.len() == 1 && (self.strides[0] == 1 || self.dims[0] == 1)
    }
    /// Calls `f(position of the first, step, number)` for the runs that make up the elements number `start` to
    /// `start + len` in row-major order.
    #[inline]
    pub(crate) fn runs(&self, start: usize, len: usize, mut f: impl FnMut(usize, isize, usize)) {
        let inner = self.dims.len() - 1;
        let (size, step) = self.inner();
        let mut index = Dims::from_elem(0, inner + 1);
        let (mut left, mut flat, mut at) = (len, start, self.offset);
        if left == 0 {
            return;
        }
        for axis in (0..=inner).rev() {
            index[axis] = flat % self.dims[axis];
            flat /= self.dims[axis];
            at = at.wrapping_add_signed(index[axis] as isize * self.strides[axis]);
        }
        loop {
            let n = (size - index[inner]).min(left);
            f(at, step, n);
            left -= n;
            if left == 0 {
                return;
            }
            at = at.wrapping_add_signed(-(index[inner] as isize * step));
            index[inner] = 0;
            for axis in (0..inner).rev() {
                index[axis] += 1;
                at = at.wrapping_add_signed(self.strides[axis]);
                if index[axis] < self.dims[axis] {
                    break;
                }
                at = at.wrapping_add_signed(-(self.dims[axis] as isize * self.strides[axis]));
                index[axis] = 0;
            }
        }
    }
}

/// Writes the elements number `start` to `start + len` of a view.
pub(crate) fn gather<T: Copy>(data: &[T], walk: &Walk, start: usize, len: usize, room: &mut Room<'_, T>) {
    walk.runs(start, len, |at, step, n| match step {
        1 => room.copy(&data[at..at + n]),
        0 => {
            let value = data[at];
            room.extend(n, |_| value);
        }
        _ => room.extend(n, |i| data[at.wrapping_add_signed(i as isize * step)]),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::room::Block;
    use elinvar_core::Shape;

    fn contiguous(dims: &[usize]) -> Layout {
        Layout::contiguous(Shape::new(dims).unwrap())
    }

    #[test]
    fn axes_are_taken_together() {
        let l = contiguous(&[4, 3, 1, 6]);
        let wide = Shape::new(&[5, 4, 3]).unwrap();
        // layout, sizes and steps after merging
        let rows: [(Layout, &[usize], &[isize]); 6] = [
            (l.clone(), &[72], &[1]),
            (l.transpose(0, 1), &[3, 4, 6], &[6, 18, 1]),
            (l.slice(0, 0, 2, 2), &[2, 18], &[36, 1]),
            (l.flip(0).flip(1), &[12, 6], &[-6, 1]),
            (contiguous(&[1, 1]).broadcast_to(&Shape::new(&[5, 4]).unwrap(), "t").unwrap(), &[20], &[0]),
            (contiguous(&[4, 1]).broadcast_to(&wide, "t").unwrap(), &[5, 4, 3], &[0, 1, 0]),
        ];
        for (l, dims, strides) in rows {
            let walk = Walk::new(&l);
            assert_eq!((&walk.dims[..], &walk.strides[..]), (dims, strides), "{l:?}");
        }
        assert!(Walk::new(&contiguous(&[])).is_contiguous() && Walk::new(&contiguous(&[])).is_one());
    }

    #[test]
    fn any_part_of_a_walk_reaches_what_the_layout_reaches() {
        let l = contiguous(&[3, 4, 5]);
        let data: Vec<usize> = (0..60).collect();
        let all = [
            l.clone(),
            l.transpose(0, 2),
            l.permute(&[1, 0, 2]).flip(2),
            l.slice(1, 3, 2, -2),
            l.slice(2, 0, 1, 1).broadcast_to(&Shape::new(&[3, 4, 5]).unwrap(), "t").unwrap(),
            l.diagonal(0, 0, 1),
        ];
        for l in all {
            let want: Vec<usize> = l.positions().collect();
            let walk = Walk::new(&l);
            for start in 0..want.len() {
                for end in start..=want.len() {
                    let mut block = Block::new();
                    let got = block.fill(end - start, |room| gather(&data, &walk, start, end - start, room));
                    assert_eq!(got, &want[start..end], "{l:?} from {start}");
                }
            }
        }
    }
}
