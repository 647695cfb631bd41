//! Padded copies of planes, from which windows are read without bounds checks.
//!
//! With a stride, each line is split into `stride` phases, every `stride`-th element of it: what
//! neighbouring windows see under one tap is then contiguous for any stride.

use super::problem::PatchGeometry;
use crate::elementwise::real::Real;
use elinvar_simd::LINE;
use elinvar_simd::isa::{Isa, Kernel, dispatch};
use elinvar_simd::prefetch::prefetch_l1;
use std::ops::Range;

/// Copies a line. A short one is copied in less time than a call takes.
#[inline(always)]
fn copy_line<T: Copy>(from: &[T], to: &mut [T]) {
    // With lines of 112 as well, a convolution whose planes come from memory took a fifth longer.
    match from.len() {
        16..=48 => copy_line_by::<16, T>(from, to),
        8..16 => copy_line_by::<8, T>(from, to),
        4..8 => copy_line_by::<4, T>(from, to),
        _ => to.copy_from_slice(from),
    }
}

/// Copies `W` elements at a time, of which there are as many at least; the last ones overlap with
/// those before.
#[inline(always)]
fn copy_line_by<const W: usize, T: Copy>(from: &[T], to: &mut [T]) {
    for i in (0..from.len()).step_by(W) {
        let i = i.min(from.len() - W);
        to[i..i + W].copy_from_slice(&from[i..i + W]);
    }
}

/// Copies every second element, from the first on: in pairs, of which the compiler makes registers.
#[inline(always)]
fn every_second<T: Copy>(from: &[T], to: &mut [T]) {
    let Some((last, rest)) = to.split_last_mut() else { return };
    let (pairs, single) = from.as_chunks::<2>();
    rest.iter_mut().zip(pairs).for_each(|(to, pair)| *to = pair[0]);
    *last = single[0];
}

/// A part of a line that has elements of the plane.
#[derive(Clone, Copy)]
struct LinePart {
    /// Where they go.
    to: usize,
    /// Where the first one is in the plane.
    from: usize,
    count: usize,
}

/// Work of [`PaddedPlanes::fill`].
struct PadPlanes<'a, T> {
    parts: &'a [LinePart],
    step: usize,
    /// Elements of a plane.
    area: usize,
    planes: &'a [T],
    to: &'a mut [T],
    pitch: usize,
}

impl<T: Real> Kernel for PadPlanes<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let PadPlanes { parts, step, area, planes, to, pitch } = self;
        for (number, (plane, to)) in planes.chunks_exact(area).zip(to.chunks_exact_mut(pitch)).enumerate() {
            // Parts of planes are too short for hardware to foresee the next ones.
            let next = planes[number * area..].as_ptr().wrapping_add(area);
            for &LinePart { to: at, from, count } in parts {
                for line in (0..count * step).step_by(LINE / size_of::<T>()) {
                    prefetch_l1(next.wrapping_add(from + line));
                }
                let to = &mut to[at..at + count];
                match step {
                    1 => copy_line(&plane[from..from + count], to),
                    2 => every_second(&plane[from..from + 2 * count - 1], to),
                    _ => to.iter_mut().zip(plane[from..].iter().step_by(step)).for_each(|(to, x)| *to = *x),
                }
            }
        }
    }
}

/// What the windows at a box of positions see, and where it is in a padded plane.
pub(super) struct PaddedPlanes {
    /// The box: its first position.
    first: [usize; 3],
    /// Positions of the grid along the second axis and the last.
    grid: [usize; 2],
    /// Step of the windows.
    step: [usize; 3],
    /// Where the first element is in the plane.
    low: [isize; 3],
    /// Lines along the first two axes.
    lines: [usize; 2],
    /// Elements of a part of a line.
    part: usize,
    /// Where the element under each tap is, at the first position.
    pub(super) places: Vec<usize>,
}

impl PaddedPlanes {
    /// For some positions of the grid, at least one; if they are in several rows along the last
    /// axis, for all of those rows.
    pub(super) fn new(p: &PatchGeometry, positions: Range<usize>) -> PaddedPlanes {
        let (step, [_, g1, g2]) = (p.step, p.grid);
        let (start, end) = (positions.start, positions.end.max(positions.start + 1) - 1);
        let (first, last) = (start / g2, end / g2);
        let across = if first == last { (start % g2, end % g2) } else { (0, g2 - 1) };
        let outer = (first / g1, last / g1);
        let inner = if outer.0 == outer.1 { (first % g1, last % g1) } else { (0, g1 - 1) };
        let reach: [(isize, isize); 3] = std::array::from_fn(|a| p.reach(a));
        let low = reach.map(|(low, _)| low);
        let span = |a: usize, n: usize| (n - 1) * step[a] + (reach[a].1 - low[a]) as usize + 1;
        let lines = [span(0, outer.1 - outer.0 + 1), span(1, inner.1 - inner.0 + 1)];
        let part = span(2, across.1 - across.0 + 1).div_ceil(step[2]);
        let places = p
            .taps
            .iter()
            .map(|t| {
                let [i, j, k] = std::array::from_fn(|a| (t[a] - low[a]) as usize);
                (i * lines[1] + j) * part * step[2] + k % step[2] * part + k / step[2]
            })
            .collect();
        let first = [outer.0, inner.0, across.0];
        let low = std::array::from_fn(|a| low[a] + (first[a] * step[a]) as isize);
        PaddedPlanes { first, grid: [g1, g2], step, low, lines, part, places }
    }
    /// Elements of a padded plane.
    pub(super) fn size(&self) -> usize {
        self.lines[0] * self.lines[1] * self.line()
    }
    /// If it is a plane as it is.
    pub(super) fn is_plane(&self, size: [usize; 3]) -> bool {
        let [i, j] = self.lines;
        self.step == [1; 3] && self.low == [0; 3] && [i, j, self.line()] == size
    }
    fn line(&self) -> usize {
        self.part * self.step[2]
    }
    /// Where the element under a tap at place 0 is, at position `k` of row `row` of the grid.
    pub(super) fn position(&self, row: usize, k: usize) -> usize {
        let i = (row / self.grid[0] - self.first[0]) * self.step[0];
        let j = (row % self.grid[0] - self.first[1]) * self.step[1];
        (i * self.lines[1] + j) * self.line() + k - self.first[2]
    }
    /// The parts of a plane of this size, whose elements are every `step`-th of a line.
    fn parts(&self, size: [usize; 3]) -> Vec<LinePart> {
        let mut parts = Vec::with_capacity(self.lines[0] * self.lines[1]);
        let inside =
            |a: usize, i: usize| usize::try_from(self.low[a] + i as isize).ok().filter(|i| *i < size[a]);
        let step = self.step[2];
        for i in 0..self.lines[0] {
            let Some(from_i) = inside(0, i) else { continue };
            for j in 0..self.lines[1] {
                let Some(from_j) = inside(1, j) else { continue };
                let line = (i * self.lines[1] + j) * self.line();
                let from = (from_i * size[1] + from_j) * size[2];
                for phase in 0..step {
                    // Element `m` of the part is number `low + phase + m * step` of the line.
                    let low = self.low[2] + phase as isize;
                    let skip = if low < 0 { (-low) as usize } else { 0 }.div_ceil(step);
                    let start = (low + (skip * step) as isize) as usize;
                    if start < size[2] && skip < self.part {
                        let count = ((size[2] - start - 1) / step + 1).min(self.part - skip);
                        parts.push(LinePart {
                            to: line + phase * self.part + skip,
                            from: from + start,
                            count,
                        });
                    }
                }
            }
        }
        parts
    }
    /// Writes the elements of planes, which follow one another, to where they belong in padded
    /// ones, which begin `pitch` apart. What surrounds them is not written.
    pub(super) fn fill<T: Real>(&self, isa: Isa, size: [usize; 3], planes: &[T], to: &mut [T], pitch: usize) {
        let (parts, step, area) = (&*self.parts(size), self.step[2], size.iter().product());
        // Windows may see padding alone, and planes may have no elements.
        if parts.is_empty() {
            return;
        }
        dispatch(isa, PadPlanes { parts, step, area, planes, to, pitch });
    }
    /// The same of one plane, where `to` has `pitch` numbers for each element, of which
    /// `turn(first, count, to)` is to write the first ones for the `count` elements that follow one
    /// another from `first` on.
    pub(super) fn fill_wide<T: Real>(
        &self,
        size: [usize; 3],
        pitch: usize,
        to: &mut [T],
        mut turn: impl FnMut(usize, usize, &mut [T]),
    ) {
        let step = self.step[2];
        for LinePart { to: at, from, count } in self.parts(size) {
            if step == 1 {
                turn(from, count, &mut to[at * pitch..(at + count) * pitch]);
                continue;
            }
            for m in 0..count {
                turn(from + m * step, 1, &mut to[(at + m) * pitch..(at + m + 1) * pitch]);
            }
        }
    }
    /// The parts of a plane of this size whose elements are neighbours, which they are with windows
    /// one step apart: the first element, how many there are, and where the first one is in the
    /// padded plane.
    pub(super) fn lines(&self, size: [usize; 3]) -> impl Iterator<Item = (usize, usize, usize)> {
        assert!(self.step[2] == 1, "elements of a line are neighbours");
        self.parts(size).into_iter().map(|LinePart { to, from, count }| (from, count, to))
    }
    /// Positions of the grid as runs that follow one another in memory: the first one, where it
    /// is, how many.
    pub(super) fn runs(&self, positions: Range<usize>, mut f: impl FnMut(usize, usize, usize)) {
        let mut at = positions.start;
        while at < positions.end {
            let (row, k) = (at / self.grid[1], at % self.grid[1]);
            let count = (self.grid[1] - k).min(positions.end - at);
            f(at, self.position(row, k), count);
            at += count;
        }
    }
}
