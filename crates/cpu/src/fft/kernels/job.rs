//! What the rows of a transform have in common, and where they are.

use crate::fft::plan::Cut;
use crate::fft::tables::{Half, Transform};
use elinvar_ops::backend::FourierKind;
use elinvar_ops::catalogue::fourier::Direction;
use elinvar_simd::isa::Isa;
use elinvar_simd::vector::SimdElement;

/// Lanes of the widest registers.
const MAX_LANES: usize = 16;

/// Rows of a tensor: where elements are.
#[derive(Clone, Copy)]
pub(in crate::fft) struct Source<'a, T> {
    /// The memory.
    pub(in crate::fft) x: &'a [T],
    /// The first element.
    pub(in crate::fft) offset: usize,
    /// Rows that are equally far apart, after which others follow; `usize::MAX` if all are.
    pub(in crate::fft) inner: usize,
    /// Distance of such runs, of rows, of elements of a row, and of the parts of an element.
    pub(in crate::fft) strides: [isize; 4],
}

impl<'a, T: Copy> Source<'a, T> {
    /// Where a row begins.
    #[inline(always)]
    fn start(&self, row: usize) -> usize {
        let [outer, rows, ..] = self.strides;
        let place = (row / self.inner) as isize * outer + (row % self.inner) as isize * rows;
        self.offset.wrapping_add_signed(place)
    }
    /// The parts of elements 0 to `n` of rows from `row` on, each into two planes of so many
    /// numbers (the second part first if `swapped`).
    #[inline(always)]
    pub(super) fn parts(&self, row: usize, n: usize, lines: &mut [T], plane: usize, swapped: bool) {
        let [_, rows, step, part] = self.strides;
        let count = lines.len() / (2 * plane);
        let [first, second] = if swapped { [plane, 0] } else { [0, plane] };
        if count > 1 && rows.abs() < step.abs() {
            // Elements of rows that are neighbours together: they are in one cache line.
            let mut starts = [0; MAX_LANES];
            for (r, start) in starts[..count].iter_mut().enumerate() {
                *start = self.start(row + r);
            }
            for i in 0..n {
                for (r, start) in starts[..count].iter().enumerate() {
                    let at = start.wrapping_add_signed(i as isize * step);
                    let to = 2 * plane * r + i;
                    lines[to + first] = self.x[at];
                    lines[to + second] = self.x[at.wrapping_add_signed(part)];
                }
            }
            return;
        }
        for (r, line) in lines.chunks_exact_mut(2 * plane).enumerate() {
            let at = self.start(row + r);
            let (a, b) = line.split_at_mut(plane);
            let (x, y) = if swapped { (&mut b[..n], &mut a[..n]) } else { (&mut a[..n], &mut b[..n]) };
            if step == 2 && part == 1 {
                let pairs = self.x[at..][..2 * n].as_chunks::<2>().0;
                for ((x, y), pair) in x.iter_mut().zip(y).zip(pairs) {
                    [*x, *y] = *pair;
                }
                continue;
            }
            for (i, (x, y)) in x.iter_mut().zip(y).enumerate() {
                let at = at.wrapping_add_signed(i as isize * step);
                [*x, *y] = [self.x[at], self.x[at.wrapping_add_signed(part)]];
            }
        }
    }
    /// Real numbers of a row.
    #[inline(always)]
    pub(super) fn reals(&self, row: usize, to: &mut [T]) {
        let (at, step) = (self.start(row), self.strides[2]);
        for (i, to) in to.iter_mut().enumerate() {
            *to = self.x[at.wrapping_add_signed(i as isize * step)];
        }
    }
    /// Are the parts of what is transformed neighbours, one after the other, in rows equally far
    /// apart?
    pub(super) fn neighbours_are_pairs(&self, kind: FourierKind) -> bool {
        let [_, _, step, part] = self.strides;
        self.inner == usize::MAX && if kind == FourierKind::Real { step == 1 } else { step == 2 && part == 1 }
    }
    /// Where the first of `count` rows from `row` on begins, each of `numbers` neighbours, and how
    /// far apart they are.
    ///
    /// # Panics
    /// If they are not in memory.
    pub(super) fn block(&self, row: usize, count: usize, numbers: usize) -> (*const T, isize) {
        assert!(self.inner == usize::MAX, "cpu: rows that are not equally far apart");
        let (rows, ends) = (self.strides[1], [row, row + count - 1].map(|row| self.start(row)));
        let is_inside = |at: usize| at.checked_add(numbers).is_some_and(|end| end <= self.x.len());
        assert!(ends.into_iter().all(is_inside), "cpu: rows leave their buffer");
        (self.x.as_ptr().wrapping_add(ends[0]), rows)
    }
    /// Pairs of neighbours as elements.
    pub(super) fn paired(self) -> Self {
        let [outer, rows, step, _] = self.strides;
        Source { strides: [outer, rows, 2 * step, step], ..self }
    }
}

/// What all rows have in common.
pub(in crate::fft) struct Job<'a, T> {
    pub(in crate::fft) isa: Isa,
    pub(in crate::fft) kind: FourierKind,
    /// The length, of complex or real numbers.
    pub(in crate::fft) n: usize,
    /// What results are multiplied by, if by anything.
    pub(in crate::fft) scale: Option<T>,
    pub(in crate::fft) source: Source<'a, T>,
    pub(in crate::fft) transform: &'a Transform<T>,
    /// For real numbers of even length.
    pub(in crate::fft) half: Option<&'a Half<T>>,
    pub(in crate::fft) cut: Cut,
}

impl<T: SimdElement> Job<'_, T> {
    /// Numbers of a row of the result.
    pub(in crate::fft) fn row_len(&self) -> usize {
        match self.kind {
            FourierKind::Complex(_) => 2 * self.n,
            FourierKind::Real => 2 * (self.n / 2 + 1),
            FourierKind::InverseReal => self.n,
        }
    }
    /// Is it an inverse transform?
    pub(super) fn is_inverse(&self) -> bool {
        match self.kind {
            FourierKind::Complex(direction) => direction == Direction::Inverse,
            FourierKind::Real => false,
            FourierKind::InverseReal => true,
        }
    }
    /// Are several rows read together: for registers, or because their elements are neighbours?
    pub(in crate::fft) fn is_abreast(&self) -> bool {
        let [_, rows, step, _] = self.source.strides;
        self.cut == Cut::Lines || rows.abs() < step.abs()
    }
}
