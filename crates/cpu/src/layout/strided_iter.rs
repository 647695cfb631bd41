//! Iteration over a strided view in row-major order, in as few and as long contiguous runs as its
//! strides allow.

use super::plan::RUN_CALL_MIN_ELEMENTS;
use elinvar_core::layout::Strides;
use elinvar_core::{Dims, Element, Layout};
use elinvar_simd::uninit::{CopyBits, UninitSlice, copy_as_bits};

/// Layouts of one shape, with neighbouring axes taken together where all of them walk on as one,
/// and no axes of size 1.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StridedIter<const K: usize = 1> {
    /// Sizes, outermost first; at least one axis.
    pub(crate) dims: Dims,
    /// Steps of the axes, for each layout.
    pub(crate) strides: [Strides; K],
    /// Where the first element is.
    pub(crate) offset: [usize; K],
}

impl StridedIter {
    pub(crate) fn new(l: &Layout) -> StridedIter {
        StridedIter::of([l])
    }
    /// The innermost axis: its size and step.
    pub(crate) fn inner(&self) -> (usize, isize) {
        let last = self.dims.len() - 1;
        (self.dims[last], self.strides[0][last])
    }
    /// The rows that the axis before the innermost counts, and their distance, if they follow one
    /// another upwards.
    pub(crate) fn row_step(&self) -> Option<(usize, usize)> {
        let outer = self.dims.len().checked_sub(2)?;
        Some((self.dims[outer], usize::try_from(self.strides[0][outer]).ok()?))
    }
    /// Are all elements in one place?
    pub(crate) fn is_one(&self) -> bool {
        self.strides[0].iter().all(|&s| s == 0) || self.dims.iter().all(|&n| n == 1)
    }
    /// Is the last axis the same for all places along the others?
    pub(crate) fn repeats_a_row(&self) -> bool {
        let last = self.dims.len() - 1;
        last > 0 && self.strides[0][..last].iter().all(|&s| s == 0)
    }
    /// Are the innermost runs short, and each repeated? Their size, and that of all copies of one.
    /// Copying what is there already takes a fifth of the time of reading each copy.
    fn repeated(&self) -> Option<(usize, usize)> {
        let (last, (n, step)) = (self.dims.len() - 1, self.inner());
        let repeats = last > 0 && self.strides[0][last - 1] == 0;
        (repeats && step == 1 && n < RUN_CALL_MIN_ELEMENTS).then(|| (n, n * self.dims[last - 1]))
    }
    /// Where the elements number `start` to `start + n` are one after the other, if they do.
    pub(crate) fn contiguous_run(&self, start: usize, n: usize) -> Option<usize> {
        let (size, step) = self.inner();
        if step != 1 || start % size + n > size {
            return None;
        }
        (n > 0).then(|| self.position(start))
    }
    /// Where element number `flat` is.
    pub(crate) fn position(&self, mut flat: usize) -> usize {
        let mut at = self.offset[0];
        for (&n, &step) in self.dims.iter().zip(&self.strides[0]).rev() {
            at = at.wrapping_add_signed((flat % n) as isize * step);
            flat /= n;
        }
        at
    }
    /// Are the elements one after the other?
    pub(crate) fn is_contiguous(&self) -> bool {
        self.dims.len() == 1 && (self.strides[0][0] == 1 || self.dims[0] == 1)
    }
}

impl<const K: usize> StridedIter<K> {
    /// Layouts of the same shape.
    pub(crate) fn of(layouts: [&Layout; K]) -> StridedIter<K> {
        let mut walk = StridedIter {
            dims: Dims::new(),
            strides: std::array::from_fn(|_| Strides::new()),
            offset: layouts.map(Layout::offset),
        };
        let shape = layouts.first().expect("one layout at least").shape();
        for (axis, &n) in shape.iter().enumerate().filter(|&(_, &n)| n != 1) {
            let steps = layouts.map(|l| l.strides()[axis]);
            let walks_on = walk
                .strides
                .iter()
                .zip(steps)
                .all(|(outer, s)| outer.last() == Some(&s.wrapping_mul(n as isize)));
            match walk.dims.last_mut() {
                Some(outer) if walks_on => {
                    *outer *= n;
                    walk.strides.iter_mut().for_each(|s| s.truncate(s.len() - 1));
                }
                _ => walk.dims.push(n),
            }
            walk.strides.iter_mut().zip(steps).for_each(|(all, s)| all.push(s));
        }
        if walk.dims.is_empty() {
            walk.dims.push(1);
            walk.strides.iter_mut().for_each(|all| all.push(1));
        }
        walk
    }
    /// Calls `f(positions of the first, steps, number)` for the runs that make up the elements
    /// number `start` to `start + len` in row-major order.
    #[inline]
    pub(crate) fn runs(&self, start: usize, len: usize, mut f: impl FnMut([usize; K], [isize; K], usize)) {
        let inner = self.dims.len() - 1;
        let size = self.dims[inner];
        let steps = self.strides.each_ref().map(|s| s[inner]);
        let mut index = Dims::from_elem(0, inner + 1);
        let (mut left, mut flat, mut at) = (len, start, self.offset);
        let walk = |at: &mut [usize; K], axis: usize, by: isize| {
            for (at, strides) in at.iter_mut().zip(&self.strides) {
                *at = at.wrapping_add_signed(by.wrapping_mul(strides[axis]));
            }
        };
        if left == 0 {
            return;
        }
        for axis in (0..=inner).rev() {
            index[axis] = flat % self.dims[axis];
            flat /= self.dims[axis];
            walk(&mut at, axis, index[axis] as isize);
        }
        loop {
            let n = (size - index[inner]).min(left);
            f(at, steps, n);
            left -= n;
            if left == 0 {
                return;
            }
            walk(&mut at, inner, -(index[inner] as isize));
            index[inner] = 0;
            for axis in (0..inner).rev() {
                index[axis] += 1;
                walk(&mut at, axis, 1);
                if index[axis] < self.dims[axis] {
                    break;
                }
                walk(&mut at, axis, -(self.dims[axis] as isize));
                index[axis] = 0;
            }
        }
    }
}

/// Writes the elements number `start` to `start + len` of a view.
pub(crate) fn gather_runs<T: Element>(
    data: &[T],
    walk: &StridedIter,
    start: usize,
    len: usize,
    dst: &mut UninitSlice<'_, T>,
) {
    copy_as_bits(data, dst, GatherRuns { walk, start, len });
}

struct GatherRuns<'a> {
    walk: &'a StridedIter,
    start: usize,
    len: usize,
}

impl CopyBits for GatherRuns<'_> {
    #[inline(never)]
    fn run<B: Copy>(self, data: &[B], dst: &mut UninitSlice<'_, B>) {
        let GatherRuns { walk, mut start, mut len } = self;
        let some = |start: usize, len: usize, dst: &mut UninitSlice<'_, B>| {
            walk.runs(start, len, |[at], [step], n| match step {
                1 => dst.copy(&data[at..at + n]),
                0 => {
                    let value = data[at];
                    dst.extend(n, |_| value);
                }
                -1 => dst.copy_reversed(&data[at + 1 - n..=at]),
                _ => dst.extend(n, |i| data[at.wrapping_add_signed(i as isize * step)]),
            });
        };
        let Some((n, all)) = walk.repeated() else { return some(start, len, dst) };
        while len > 0 {
            let number = start % all;
            let left = (all - number).min(len);
            if number == 0 && left == all {
                some(start, n, dst);
                dst.repeat_tail(n, all - n);
            } else {
                some(start, left, dst);
            }
            start += left;
            len -= left;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use elinvar_core::Shape;
    use elinvar_simd::uninit::CacheBlock;

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
            let walk = StridedIter::new(&l);
            assert_eq!((&walk.dims[..], &walk.strides[0][..]), (dims, strides), "{l:?}");
        }
        assert!(
            StridedIter::new(&contiguous(&[])).is_contiguous() && StridedIter::new(&contiguous(&[])).is_one()
        );
    }

    #[test]
    fn any_part_of_a_walk_reaches_what_the_layout_reaches() {
        let l = contiguous(&[3, 4, 5]);
        let data: Vec<i64> = (0..60).collect();
        let all = [
            l.clone(),
            l.transpose(0, 2),
            l.permute(&[1, 0, 2]).flip(2),
            l.slice(1, 3, 2, -2),
            l.slice(2, 0, 1, 1).broadcast_to(&Shape::new(&[3, 4, 5]).unwrap(), "t").unwrap(),
            l.diagonal(0, 0, 1),
            // Short runs, each repeated.
            contiguous(&[3, 1, 4]).broadcast_to(&Shape::new(&[3, 5, 4]).unwrap(), "t").unwrap(),
            contiguous(&[3, 4, 1, 5])
                .slice(3, 1, 3, 1)
                .broadcast_to(&Shape::new(&[3, 4, 2, 3]).unwrap(), "t")
                .unwrap(),
        ];
        for l in all {
            let want: Vec<i64> = l.positions().map(|at| at as i64).collect();
            let walk = StridedIter::new(&l);
            for start in 0..want.len() {
                for end in start..=want.len() {
                    let mut block = CacheBlock::new();
                    let got =
                        block.fill(end - start, |dst| gather_runs(&data, &walk, start, end - start, dst));
                    assert_eq!(got, &want[start..end], "{l:?} from {start}");
                }
            }
        }
    }
}
