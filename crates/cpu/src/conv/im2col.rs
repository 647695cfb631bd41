//! im2col: the patch matrix, rows (channel, tap) by positions, packed tile by tile and never
//! materialised.
//!
//! A tile's part is packed where it is needed: the lines that it sees are padded, and then every
//! row is a few whole registers. The transposed form serves the gradient by weight.

use super::pad::PaddedPlanes;
use super::problem::PatchGeometry;
use crate::conv::kernels::a_pixels::WindowRun;
use crate::conv::kernels::a_taps::{TapsA, add_taps};
use crate::conv::kernels::b_windows::{WindowRegister, WindowsB, add_windows};
use crate::elementwise::real::Real;
use crate::gemm::{OperandA, OperandB, OutputTile, PACKED_A_PITCH, PanelsB, TAPS_PER_ADDRESS, TermKind, nr};
use crate::runtime::scratch::scratch;
use elinvar_core::order::CHUNK;
use elinvar_simd::isa::{Isa, Kernel, dispatch};
use elinvar_simd::vector::lanes;
use std::ops::{Deref, Range};

/// Planes, and the windows over them.
pub(super) struct Im2col<'a, T> {
    /// Planes, one after the other: for each batch as many as channels.
    pub(super) data: &'a [T],
    pub(super) geometry: &'a PatchGeometry,
    /// Columns that a GEMM reads in place, in padded planes, with all of their terms; nothing if
    /// they are packed.
    pub(super) columns_in_place: Option<usize>,
    /// What planes are read with.
    pub(super) isa: Isa,
}

impl<T> Deref for Im2col<'_, T> {
    type Target = PatchGeometry;
    fn deref(&self) -> &PatchGeometry {
        self.geometry
    }
}

impl<T: Real> Im2col<'_, T> {
    /// A plane of a batch.
    pub(super) fn at(&self, batch: usize, channel: usize) -> &[T] {
        &self.data[(batch * self.channels + channel) * self.size()..][..self.size()]
    }
    /// Some planes of a batch.
    pub(super) fn planes(&self, batch: usize, channels: Range<usize>) -> &[T] {
        &self.data[(batch * self.channels + channels.start) * self.size()..][..channels.len() * self.size()]
    }
    /// Pads what `positions` see of some channels of a batch, and gives it to `f`.
    pub(super) fn padded<R>(
        &self,
        batch: usize,
        channels: Range<usize>,
        positions: &Range<usize>,
        f: impl FnOnce(&PaddedPlanes, &[T]) -> R,
    ) -> R {
        let padded = PaddedPlanes::new(self, positions.clone());
        let size = padded.size();
        let done = scratch(channels.len() * size, |x| {
            x.fill(T::ZERO);
            padded.fill(self.isa, self.plane, self.planes(batch, channels), x, size);
            f(&padded, x)
        });
        done.expect("padding some rows takes little memory")
    }
}

/// Elements that follow one another in planes and in what is packed.
#[derive(Clone, Copy)]
struct RowPiece {
    /// Where they go, in a row.
    to: usize,
    /// Where they are, under a tap at place 0.
    from: usize,
    len: usize,
}

/// Rows (channel, tap) of what is packed, made of the same pieces of padded planes.
struct CopyPieces<'a, T> {
    x: &'a [T],
    /// Where each row's tap and channel begin.
    places: &'a [usize],
    pieces: &'a [RowPiece],
    out: &'a mut [T],
    /// Distance of rows.
    pitch: usize,
    /// How many elements may be written at once: a piece may so be followed by that many less one.
    /// 0: none may.
    most: usize,
}

impl<T: Real> Kernel for CopyPieces<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        match self.pieces.iter().map(|p| p.len).max().unwrap_or(0).min(self.most) {
            0 => self.by::<0>(),
            1..=8 => self.by::<8>(),
            9..=16 => self.by::<16>(),
            _ => self.by::<32>(),
        }
    }
}

impl<T: Real> CopyPieces<'_, T> {
    /// Copies `W` elements at a time. More than a piece has may be written: what follows it is
    /// written later, and behind the last nothing is read. With 0, nothing more is.
    #[inline(always)]
    fn by<const W: usize>(self) {
        for (row, &place) in self.places.iter().enumerate() {
            for piece in self.pieces {
                let (mut to, mut from) = (row * self.pitch + piece.to, place + piece.from);
                let end = to + piece.len;
                while to < end {
                    match (self.out.get_mut(to..to + W), self.x.get(from..from + W)) {
                        (Some(to), Some(from)) if W > 0 => to.copy_from_slice(from),
                        _ => {
                            self.out[to..end].copy_from_slice(&self.x[from..from + (end - to)]);
                            break;
                        }
                    }
                    (to, from) = (to + W, from + W);
                }
            }
        }
    }
}

/// Where the rows (channel, tap) of a range begin in padded planes, the first of which is of
/// channel `first`.
fn places(padded: &PaddedPlanes, rows: Range<usize>, first: usize) -> Vec<usize> {
    let (taps, size) = (padded.places.len(), padded.size());
    rows.map(|row| (row / taps - first) * size + padded.places[row % taps]).collect()
}

/// The patches as columns: the convolution, and its gradient by x.
impl<T: Real> OperandB<T> for Im2col<'_, T> {
    fn pack(&self, isa: Isa, batch: usize, terms: Range<usize>, cols: Range<usize>, out: &mut [T]) {
        if terms.is_empty() || cols.is_empty() {
            return;
        }
        let (w, taps) = (nr::<T>(isa), self.taps.len());
        let channels = terms.start / taps..(terms.end - 1) / taps + 1;
        for positions in self.pieces(cols.clone()) {
            // What another piece has written stays.
            let most = if positions == cols { w } else { 0 };
            self.padded(batch, channels.clone(), &positions, |padded, x| {
                let places = places(padded, terms.clone(), channels.start);
                let mut pieces = Vec::new();
                for (i, j) in cols.clone().step_by(w).enumerate() {
                    pieces.clear();
                    let some = j.max(positions.start)..positions.end.min(j + w);
                    padded.runs(some, |at, from, len| pieces.push(RowPiece { to: at - j, from, len }));
                    if !pieces.is_empty() {
                        let (out, pitch) = (&mut out[i * w * places.len()..], w);
                        dispatch(isa, CopyPieces { x, places: &places, pieces: &pieces, out, pitch, most });
                    }
                }
            });
        }
    }
    fn windows(&self) -> Option<usize> {
        self.columns_in_place
    }
    fn add_windows(&self, isa: Isa, tile: &mut OutputTile<'_, T>, kind: TermKind, lhs: &[T]) {
        let (cols, chunk) = (tile.cols.clone(), tile.rows.len() * PACKED_A_PITCH);
        if cols.is_empty() {
            return;
        }
        let (n, row) = (lanes::<T>(isa), self.grid[2]);
        let padded = PaddedPlanes::new(self, cols.clone());
        let size = padded.size();
        let unit = |first: usize| {
            let from = padded.position(first / row, first % row);
            let cut = (row - first % row).min(n);
            // Where no column that is wanted is in the next row, that row need not be there.
            let next = cut < n && first + cut < cols.end;
            let rest = if next { padded.position(first / row + 1, 0) - cut } else { from };
            WindowRegister { from, rest, cut: if next { cut } else { n } }
        };
        let units: Vec<_> = cols.clone().step_by(n).map(unit).collect();
        let places: Vec<_> =
            (0..self.channels).flat_map(|c| padded.places.iter().map(move |p| c * size + p)).collect();
        // A register may reach over the end of the last row.
        let done = scratch(self.channels * size + n, |x| {
            x.fill(T::ZERO);
            padded.fill(isa, self.plane, self.planes(tile.batch, 0..self.channels), x, size);
            for (i, places) in places.chunks(CHUNK).enumerate() {
                add_windows(tile, isa, kind, &lhs[i * chunk..], WindowsB { x, places, units: &units });
            }
        });
        done.expect("padding some rows takes little memory");
    }
}

/// The patches of all images of a group as rows (channel, tap), with terms (image, position): the
/// gradient by w.
pub(super) struct Im2colTransposed<'a, T> {
    pub(super) patches: Im2col<'a, T>,
    pub(super) groups: usize,
    /// Are tiles read in the planes, without being packed?
    pub(super) reads_taps_in_place: bool,
}

impl<T: Real> OperandA<T> for Im2colTransposed<'_, T> {
    fn distinct_batches(&self) -> usize {
        usize::MAX
    }
    fn has_taps(&self) -> bool {
        self.reads_taps_in_place
    }
    fn add_taps(&self, isa: Isa, tile: &mut OutputTile<'_, T>, terms: Range<usize>, rhs: PanelsB<'_, T>) {
        let (p, group, rows) = (&self.patches, tile.batch, tile.rows.clone());
        if rows.is_empty() || terms.is_empty() {
            return;
        }
        let taps = p.taps.len();
        let channels = rows.start / taps..(rows.end - 1) / taps + 1;
        let parts: Vec<_> = images(terms, p.positions()).map(|(image, some, _)| (image, some)).collect();
        let first_rows = rows.clone().step_by(TAPS_PER_ADDRESS);
        let (mut threes, mut runs) = (Vec::new(), Vec::new());
        let whole = PaddedPlanes::new(p, 0..p.positions());
        if whole.is_plane(p.plane) {
            for (image, some) in parts {
                let before = (image * self.groups + group) * p.channels * p.size();
                whole.runs(some, |_, from, count| runs.push(WindowRun { from: before + from, count }));
            }
            threes.extend(first_rows.map(|row| row / taps * p.size() + whole.places[row % taps]));
            add_taps(tile, isa, TapsA { x: p.data, threes: &threes, runs: &runs }, rhs);
            return;
        }
        // Whole rows, and a plane has the same room in each part: so its taps have the same places
        // in all of them.
        let row = p.grid[2];
        let rows = |some: &Range<usize>| some.start / row * row..some.end.next_multiple_of(row);
        let padded = |(image, some)| (image, PaddedPlanes::new(p, rows(&some)), some);
        let parts: Vec<_> = parts.into_iter().map(padded).collect();
        let size = parts.iter().map(|(_, padded, _)| padded.size()).max().expect("there are terms");
        let done = scratch(parts.len() * channels.len() * size, |x| {
            x.fill(T::ZERO);
            for (n, ((image, padded, some), x)) in
                parts.iter().zip(x.chunks_exact_mut(channels.len() * size)).enumerate()
            {
                let planes = p.planes(image * self.groups + group, channels.clone());
                padded.fill(p.isa, p.plane, planes, x, size);
                let before = n * channels.len() * size;
                padded
                    .runs(some.clone(), |_, from, count| runs.push(WindowRun { from: before + from, count }));
            }
            let places = &parts[0].1.places;
            threes.extend(first_rows.map(|row| (row / taps - channels.start) * size + places[row % taps]));
            add_taps(tile, isa, TapsA { x, threes: &threes, runs: &runs }, rhs);
        });
        done.expect("padding some rows takes little memory");
    }
    fn pack(&self, isa: Isa, group: usize, rows: Range<usize>, terms: Range<usize>, out: &mut [T]) {
        let p = &self.patches;
        if rows.is_empty() || terms.is_empty() {
            return;
        }
        let taps = p.taps.len();
        let channels = rows.start / taps..(rows.end - 1) / taps + 1;
        for (image, positions, at) in images(terms, p.positions()) {
            let batch = image * self.groups + group;
            if p.is_identity() {
                for (channel, out) in rows.clone().zip(out.chunks_mut(PACKED_A_PITCH)) {
                    out[at..at + positions.len()].copy_from_slice(&p.at(batch, channel)[positions.clone()]);
                }
                continue;
            }
            for some in p.pieces(positions.clone()) {
                p.padded(batch, channels.clone(), &some, |padded, x| {
                    let places = places(padded, rows.clone(), channels.start);
                    let mut pieces = Vec::new();
                    padded.runs(some.clone(), |k, from, len| {
                        pieces.push(RowPiece { to: at + k - positions.start, from, len });
                    });
                    let (places, pieces, out, pitch) = (&places, &pieces, &mut *out, PACKED_A_PITCH);
                    dispatch(isa, CopyPieces { x, places, pieces, out, pitch, most: PACKED_A_PITCH - CHUNK });
                });
            }
        }
    }
}

/// Terms (image, position) image by image: the image, its positions, and how many terms came
/// before.
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
