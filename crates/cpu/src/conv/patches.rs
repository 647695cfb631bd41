//! The elements under the taps of a window, for all positions of the window: a matrix that is never made whole.
//!
//! Row (channel, tap), column position. A tile's part of it is packed where it is needed. Positions are walked in runs
//! along the last axis; taps that fall outside contribute +0.

use crate::gemm::{Columns, Left, Lines, PITCH, Panels, Real, Right, width};
use crate::isa::Isa;
use std::ops::Range;

/// Windows over planes. There are always three axes; missing ones have size 1.
pub(super) struct Patches<'a, T> {
    /// Planes, one after the other: for each batch, `channels` of them.
    pub(super) data: &'a [T],
    pub(super) channels: usize,
    /// Sizes of a plane, and of the grid of positions.
    pub(super) plane: [usize; 3],
    pub(super) grid: [usize; 3],
    /// How far the window moves from one position to the next.
    pub(super) step: [usize; 3],
    /// Where each tap lies in the plane at position 0.
    pub(super) taps: Vec<[isize; 3]>,
}

/// Elements that lie in the plane: so many from position `to` on, in the plane from `from` on.
#[derive(Clone, Copy)]
struct Run {
    to: usize,
    from: usize,
    len: usize,
}

impl<T: Real> Patches<'_, T> {
    /// Number of positions.
    pub(super) fn positions(&self) -> usize {
        self.grid.iter().product()
    }
    fn size(&self) -> usize {
        self.plane.iter().product()
    }
    /// If the matrix is the planes themselves: one tap that covers each element once.
    pub(super) fn is_plain(&self) -> bool {
        self.taps.len() == 1 && self.taps[0] == [0; 3] && self.step == [1; 3] && self.grid == self.plane
    }
    /// Copies the planes of a batch into larger ones, of these sizes, whose first element lies at `low` of the plane.
    pub(super) fn pad(&self, batch: usize, low: [isize; 3], sizes: [usize; 3], to: &mut [T]) {
        // The part of an axis that both have: first index in the plane, and how many.
        let both = |a: usize| {
            let first = low[a].max(0);
            let last = (low[a] + sizes[a] as isize).min(self.plane[a] as isize);
            (first as usize, (last - first).max(0) as usize)
        };
        let [(i, ni), (j, nj), (k, nk)] = [both(0), both(1), both(2)];
        let at = |a: usize, index: usize| (index as isize - low[a]) as usize;
        for c in 0..self.channels {
            let plane = &self.data[(batch * self.channels + c) * self.size()..][..self.size()];
            let to = &mut to[c * sizes.iter().product::<usize>()..];
            for i in i..i + ni {
                for j in j..j + nj {
                    let from = (i * self.plane[1] + j) * self.plane[2] + k;
                    let start = (at(0, i) * sizes[1] + at(1, j)) * sizes[2];
                    if nk > 0 {
                        to[start + at(2, k)..][..nk].copy_from_slice(&plane[from..][..nk]);
                    }
                }
            }
        }
    }
    /// Axes taken together if nothing tells them apart.
    pub(super) fn simple(mut self) -> Self {
        if self.is_plain() {
            self.plane = [1, 1, self.size()];
            self.grid = self.plane;
        }
        self
    }
    /// What of a range of positions lies in the plane under a tap, ascending.
    fn runs(&self, tap: [isize; 3], positions: Range<usize>, runs: &mut Vec<Run>) {
        runs.clear();
        let [_, g1, g2] = self.grid;
        let [p0, p1, p2] = self.plane.map(|n| n as isize);
        let step = self.step.map(|n| n as isize);
        // Positions along the last axis whose element is in the plane: 0 <= q * step + tap < p2.
        let low = (-tap[2]).max(0) as usize;
        let first = low.div_ceil(self.step[2]);
        let last = if p2 > tap[2] { ((p2 - tap[2] - 1) / step[2] + 1) as usize } else { 0 };
        let mut at = positions.start;
        while at < positions.end {
            let (row, q2) = (at / g2, at % g2);
            let len = (g2 - q2).min(positions.end - at);
            let (i0, i1) = ((row / g1) as isize * step[0] + tap[0], (row % g1) as isize * step[1] + tap[1]);
            let (begin, end) = (q2.max(first), (q2 + len).min(last));
            if begin < end && (0..p0).contains(&i0) && (0..p1).contains(&i1) {
                let from = (i0 * p1 + i1) * p2 + begin as isize * step[2] + tap[2];
                runs.push(Run {
                    to: at + begin - q2 - positions.start,
                    from: from as usize,
                    len: end - begin,
                });
            }
            at += len;
        }
    }
    /// Writes a run's elements.
    #[inline(always)]
    fn lay(&self, plane: &[T], run: Run, to: &mut [T]) {
        let to = &mut to[run.to..run.to + run.len];
        if self.step[2] == 1 {
            let from = &plane[run.from..run.from + run.len];
            // Runs are short: a call would take longer than the copy.
            for (to, from) in to.chunks_mut(8).zip(from.chunks(8)) {
                if let (Ok(to), Ok(from)) = (<&mut [T; 8]>::try_from(&mut *to), <&[T; 8]>::try_from(from)) {
                    *to = *from;
                } else {
                    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
                }
            }
        } else {
            for (to, from) in to.iter_mut().zip(plane[run.from..].iter().step_by(self.step[2])) {
                *to = *from;
            }
        }
    }
}

/// The patches as columns: the convolution, and its gradient by x.
impl<T: Real> Right<T> for Patches<'_, T> {
    fn pack(&self, isa: Isa, batch: usize, terms: Range<usize>, cols: Range<usize>, out: &mut [T]) {
        let (w, taps, size) = (width::<T>(isa), self.taps.len(), self.size());
        let planes = &self.data[batch * self.channels * size..(batch + 1) * self.channels * size];
        let mut runs = Vec::new();
        for (panel, j) in out.chunks_exact_mut(w * terms.len()).zip(cols.clone().step_by(w)) {
            let n = w.min(cols.end - j);
            for (t, tap) in self.taps.iter().enumerate() {
                self.runs(*tap, j..j + n, &mut runs);
                let gaps = runs.iter().map(|r| r.len).sum::<usize>() < w;
                // The channels whose (channel, tap) is one of the terms.
                let channels =
                    terms.start.saturating_sub(t).div_ceil(taps)..terms.end.saturating_sub(t).div_ceil(taps);
                for c in channels {
                    let row = c * taps + t - terms.start;
                    let to = &mut panel[row * w..(row + 1) * w];
                    if gaps {
                        to.fill(T::ZERO);
                    }
                    let plane = &planes[c * size..(c + 1) * size];
                    runs.iter().for_each(|run| self.lay(plane, *run, to));
                }
            }
        }
    }
    fn direct(&self, _: Isa, _: usize, _: Range<usize>, _: Range<usize>) -> Option<Panels<'_, T>> {
        None
    }
    fn columns(&self, _: usize, _: Range<usize>) -> Option<Columns<'_, T>> {
        None
    }
}

/// The patches of all images of a group as rows (channel, tap), with terms (image, position): the gradient by w.
pub(super) struct Turned<'a, T> {
    pub(super) patches: Patches<'a, T>,
    pub(super) groups: usize,
}

impl<T: Real> Left<T> for Turned<'_, T> {
    fn distinct(&self) -> usize {
        usize::MAX
    }
    fn lines(&self, _: usize, _: Range<usize>) -> Option<Lines<'_, T>> {
        None
    }
    fn pack(&self, _: Isa, group: usize, rows: Range<usize>, terms: Range<usize>, out: &mut [T]) {
        let p = &self.patches;
        let (taps, size) = (p.taps.len(), p.size());
        let mut runs = Vec::new();
        for (image, positions, at) in images(terms, p.positions()) {
            let planes = (image * self.groups + group) * p.channels;
            for (t, tap) in p.taps.iter().enumerate() {
                p.runs(*tap, positions.clone(), &mut runs);
                let gaps = runs.iter().map(|r| r.len).sum::<usize>() < positions.len();
                let channels =
                    rows.start.saturating_sub(t).div_ceil(taps)..rows.end.saturating_sub(t).div_ceil(taps);
                for c in channels {
                    let start = (c * taps + t - rows.start) * PITCH + at;
                    let to = &mut out[start..start + positions.len()];
                    if gaps {
                        to.fill(T::ZERO);
                    }
                    let plane = &p.data[(planes + c) * size..(planes + c + 1) * size];
                    runs.iter().for_each(|run| p.lay(plane, *run, to));
                }
            }
        }
    }
}

/// Terms (image, position) image by image: the image, its positions, and how many terms came before.
pub(super) fn images(
    terms: Range<usize>,
    positions: usize,
) -> impl Iterator<Item = (usize, Range<usize>, usize)> {
    let mut at = terms.start;
    std::iter::from_fn(move || {
        (at < terms.end).then(|| {
            let (image, first) = (at / positions, at % positions);
            let len = (positions - first).min(terms.end - at);
            let before = at - terms.start;
            at += len;
            (image, first..first + len, before)
        })
    })
}
