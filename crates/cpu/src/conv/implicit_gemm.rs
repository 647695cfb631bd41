//! Implicit GEMM: rows of A are output pixels whose windows are read in place from padded planes,
//! columns are output channels.
//!
//! Weights are packed once. Sums come out with channels contiguous, and are transposed when they
//! are complete.

use super::border::BorderSplit;
use super::im2col::Im2col;
use super::operands::Weights;
use super::pad::PaddedPlanes;
use super::plan::ImplicitGemmPlan;
use crate::CpuDevice;
use crate::conv::kernels::a_pixels::{
    PixelBlock, PixelRows, TermOffsets, UnseenElements, WindowStrip, multiply_pixels,
};
use crate::elementwise::real::{Real, StoredElements};
use crate::gemm::{
    BatchedMatrix, Blocking, OperandB, OutputPrefetch, TermKind, TileEpilogue, are_finite, epilogue,
    fill_tiles, has_negative_zero, k_chunks, nr, transpose_block,
};
use crate::runtime::parallel::for_each_task;
use crate::runtime::scratch::scratch;
use elinvar_core::order::CHUNK;
use elinvar_core::{HostVec, Result};
use elinvar_simd::LINE;
use elinvar_simd::isa::Isa;
use elinvar_simd::prefetch::prefetch_l1;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The convolution of batches of images and groups.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn conv_implicit_gemm<T: Real>(
    d: &CpuDevice,
    p: &Im2col<'_, T>,
    (batch, groups, o): (usize, usize, usize),
    w: Weights<'_, T>,
    kind: TermKind,
    plan: &ImplicitGemmPlan,
    after: &dyn TileEpilogue<T>,
) -> Result<HostVec<T>> {
    let (isa, wide) = (d.isa(), nr::<T>(d.isa()));
    let (k, n, step) = (p.channels * p.taps.len(), p.positions(), o.next_multiple_of(wide));
    let ns = if plan.is_parallel { f64::INFINITY } else { 0.0 };
    let unpacked = match w {
        Weights::InPlace(_) | Weights::Transposed(_) => groups,
        Weights::Prepacked(_) => 0,
    };
    let border = plan.border.as_ref();
    let is_finite = AtomicBool::new(match w {
        Weights::Prepacked(prepacked) => prepacked.is_finite,
        Weights::InPlace(_) | Weights::Transposed(_) => true,
    });
    scratch(unpacked * k * step, |packed| {
        let checked = border.is_some().then_some(&is_finite);
        pack_all(d, ns, w, [unpacked, o, p.taps.len(), k], packed, checked)?;
        let border = border.filter(|_| is_finite.load(Relaxed));
        let edges = border.map(|border| BorderTiles {
            border,
            in_place: plan.reads_in_place.then(|| PlanesInPlace::new(p, border)),
        });
        let (packed, border) = (&*packed, edges.as_ref());
        let blocking = Blocking { batch, m: o, n, rows: o, cols: plan.positions_per_task };
        fill_tiles(&blocking, |tiles| {
            for_each_task(d, ns, tiles, |tile| {
                let group = tile.batch % groups * k * step;
                // Nothing behind the last one.
                let panel = |j: usize, terms: Range<usize>| match w {
                    _ if j >= o => &[],
                    Weights::Prepacked(prepacked) => prepacked.panels(terms, j..o).data,
                    Weights::InPlace(_) | Weights::Transposed(_) => {
                        &packed[group + j * k + terms.start * wide..]
                    }
                };
                let positions = tile.cols.clone();
                scratch(positions.len() * wide, |sums| {
                    with_visible_planes(p, tile.batch, &positions, border, |seen| {
                        for j in (0..o).step_by(wide) {
                            let cols = wide.min(o - j);
                            let weights = |terms: Range<usize>| {
                                let next = match k_chunks(terms.end..k).next() {
                                    Some(next) => panel(j, next),
                                    None => panel(j + wide, 0..k.min(CHUNK)),
                                };
                                (panel(j, terms), next)
                            };
                            let mut written = tile.written((j, cols));
                            seen.times(isa, kind, &weights, (cols, wide), sums, j == 0, &mut written);
                            if seen.may_differ_without_padding(isa, (cols, wide), sums) {
                                let all = |all: &VisiblePlanes<'_, T>| {
                                    all.times(isa, kind, &weights, (cols, wide), sums, false, &mut written);
                                    Ok(())
                                };
                                with_visible_planes(p, tile.batch, &positions, None, all)?;
                            }
                            // While they are in the first-level cache.
                            tile.store_transposed_rows(isa, (j, cols), sums, wide);
                        }
                        Ok(())
                    })?;
                    epilogue::apply_to_tile(isa, after, tile);
                    Ok(())
                })?
            })
        })
    })?
}

/// Packs the weights of all groups: panel after panel, in each chunk after chunk, as they are read.
/// Clears `is_finite` if some number is not.
fn pack_all<T: Real>(
    d: &CpuDevice,
    ns: f64,
    w: Weights<'_, T>,
    [groups, o, taps, k]: [usize; 4],
    packed: &mut [T],
    is_finite: Option<&AtomicBool>,
) -> Result<()> {
    let (isa, wide) = (d.isa(), nr::<T>(d.isa()));
    let (mut parts, mut rest) = (Vec::new(), packed);
    for group in 0..groups {
        for j in (0..o).step_by(wide) {
            for terms in k_chunks(0..k) {
                let (part, after) = rest.split_at_mut(terms.len() * wide);
                parts.push((group, terms, j..o.min(j + wide), part));
                rest = after;
            }
        }
    }
    for_each_task(d, ns, &mut parts, |(group, terms, cols, part)| {
        pack(isa, w, (o, taps, k), *group, terms, cols, part);
        if let Some(is_finite) = is_finite {
            is_finite.fetch_and(are_finite(isa, part), Relaxed);
        }
        Ok(())
    })
}

/// Packs a panel of weights: some output channels of `o` in a group, some terms of `k`.
fn pack<T: Real>(
    isa: Isa,
    w: Weights<'_, T>,
    (o, taps, k): (usize, usize, usize),
    group: usize,
    terms: &Range<usize>,
    cols: &Range<usize>,
    out: &mut [T],
) {
    let (matrix, step) = match w {
        Weights::InPlace(w) => (w, (1, k)),
        Weights::Transposed(w) if taps == 1 => (w, (o, 1)),
        Weights::Transposed(w) => return pack_crossed(isa, &w[group * o * k..], (o, taps), terms, cols, out),
        Weights::Prepacked(_) => unreachable!("they are packed"),
    };
    transposed(matrix, o * k, step).pack(isa, group, terms.clone(), cols.clone(), out);
}

/// Weights with terms down and output channels across: the size of a group, and the distances of
/// rows and of columns.
fn transposed<T>(w: &[T], group: usize, (row, col): (usize, usize)) -> BatchedMatrix<'_, T> {
    let batch = (group as isize, 0);
    let (row, col) = (row as isize, col as isize);
    BatchedMatrix { data: StoredElements::Native(w), offset: 0, inner: 1, batch, row, col, prepacked: None }
}

/// Packs a panel of w[channel, o, tap], whose terms are (channel, tap).
fn pack_crossed<T: Real>(
    isa: Isa,
    w: &[T],
    (o, taps): (usize, usize),
    terms: &Range<usize>,
    cols: &Range<usize>,
    out: &mut [T],
) {
    let wide = nr::<T>(isa);
    if cols.len() < wide {
        out.fill(T::ZERO);
    }
    let mut at = terms.start;
    while at < terms.end {
        let (channel, tap) = (at / taps, at % taps);
        let count = (taps - tap).min(terms.end - at);
        let from = (channel * o + cols.start) * taps + tap;
        let out = &mut out[(at - terms.start) * wide..];
        transpose_block(isa, w, from as isize, taps as isize, count, cols.len(), out, wide);
        at += count;
    }
}

/// Windows without the terms that are padding, and where they are read.
struct BorderTiles<'a> {
    border: &'a BorderSplit,
    /// Terms in planes as they are, if they are read there.
    in_place: Option<PlanesInPlace<'a>>,
}

/// Planes as they are: nothing is copied, where no padding is read.
struct PlanesInPlace<'a> {
    places: TermOffsets<'a>,
    /// Where the nearest tap is at position 0, which has place 0.
    least: isize,
    fresh: UnseenElements,
}

impl<'a> PlanesInPlace<'a> {
    fn new<T: Real>(p: &Im2col<'_, T>, border: &'a BorderSplit) -> Self {
        let [_, p1, p2] = p.plane.map(|size| size as isize);
        let taps: Vec<_> = p.taps.iter().map(|[i, j, k]| (i * p1 + j) * p2 + k).collect();
        let least = taps.iter().copied().min().unwrap_or(0);
        let size: usize = p.plane.iter().product();
        let places = (0..p.channels).flat_map(|c| taps.iter().map(move |tap| c * size + tap.abs_diff(least)));
        let ([_, _, across], (low, high)) = (p.plane, p.reach(1));
        let on = (high.abs_diff(low) + 1) * across;
        let fresh = UnseenElements { on, count: across, area: size, taps: p.taps.len() };
        PlanesInPlace { places: TermOffsets::new(places.collect(), &border.picks).of_sets(), least, fresh }
    }
    /// Where the window at column `k` of row `row` of positions sees a term at place 0.
    fn position<T: Real>(&self, p: &Im2col<'_, T>, row: usize, k: usize) -> isize {
        let [_, p1, p2] = p.plane;
        let [i, j] = [row / p.grid[1] * p.step[0], row % p.grid[1] * p.step[1]];
        ((i * p1 + j) * p2 + k * p.step[2]) as isize + self.least
    }
}

/// What some positions see.
struct VisiblePlanes<'a, T> {
    /// Planes.
    x: &'a [T],
    places: &'a TermOffsets<'a>,
    /// The positions, as rows of tiles.
    strips: Vec<WindowStrip>,
    fresh: Option<UnseenElements>,
}

impl<T: Real> VisiblePlanes<'_, T> {
    /// The sums of all terms with `cols` output channels, each position's `step` apart. `weights`
    /// gives the panel of some terms, and what is multiplied after it; `written` is where the sums
    /// will go.
    fn times<'w>(
        &self,
        isa: Isa,
        kind: TermKind,
        weights: &dyn Fn(Range<usize>) -> (&'w [T], &'w [T]),
        (cols, step): (usize, usize),
        sums: &mut [T],
        is_fresh: bool,
        written: &mut OutputPrefetch,
    ) where
        T: 'w,
    {
        let VisiblePlanes { x, places, ref strips, fresh } = *self;
        let fresh = fresh.filter(|_| is_fresh);
        for terms in k_chunks(0..places.terms()) {
            let (panel, next) = weights(terms.clone());
            let (a, first) = (PixelRows { x, places, terms: terms.clone(), strips, fresh }, terms.start == 0);
            let c = &mut *sums;
            multiply_pixels(
                isa,
                PixelBlock { a, panel, next, cols, c, step, first, kind, written: &mut *written },
            );
        }
    }
    /// Could padding have made other numbers of some sums?
    fn may_differ_without_padding(&self, isa: Isa, (cols, step): (usize, usize), sums: &[T]) -> bool {
        let mut picked = self.strips.iter().filter(|strip| strip.picks.is_some()).flat_map(WindowStrip::rows);
        picked.any(|row| has_negative_zero(isa, &sums[row * step..][..cols]))
    }
}

/// Gives `f` what some positions see.
///
/// # Errors
/// `OutOfMemory`; those of `f`.
fn with_visible_planes<T: Real>(
    p: &Im2col<'_, T>,
    batch: usize,
    positions: &Range<usize>,
    edges: Option<&BorderTiles<'_>>,
    f: impl FnOnce(&VisiblePlanes<'_, T>) -> Result<()>,
) -> Result<()> {
    let planes = p.planes(batch, 0..p.channels);
    if p.is_identity() {
        let n = p.positions();
        let places = TermOffsets::new((0..p.channels).map(|c| c * n).collect(), &[]);
        let (from, count) = (positions.start as isize, positions.len());
        let strips = vec![WindowStrip { from, row_stride: 1, count, to: 0, down: 1, picks: None }];
        return f(&VisiblePlanes { x: planes, places: &places, strips, fresh: None });
    }
    if let Some(BorderTiles { border, in_place: Some(in_place) }) = edges {
        let strips = border.strips(p, |row, k| in_place.position(p, row, k), positions, false);
        // The first windows' lines, which no tile before has fetched: without, both gradients of 64
        // channels of 56 x 56 took 3 % longer.
        let UnseenElements { on, area, .. } = in_place.fresh;
        let first = strips.first().map_or(0, |strip| strip.from);
        for c in 0..p.channels {
            for line in (0..on).step_by(LINE / size_of::<T>()) {
                prefetch_l1(planes.as_ptr().wrapping_offset(first).wrapping_add(c * area + line));
            }
        }
        return f(&VisiblePlanes {
            x: planes,
            places: &in_place.places,
            strips,
            fresh: Some(in_place.fresh),
        });
    }
    let see = |padded: &PaddedPlanes, x: &[T]| {
        let size = padded.size();
        let places = (0..p.channels).flat_map(|c| padded.places.iter().map(move |place| c * size + place));
        let sets = edges.map_or(&[][..], |edges| &edges.border.picks);
        let places = TermOffsets::new(places.collect(), sets);
        let strips = match edges {
            Some(edges) => edges.border.strips(p, |row, k| padded.position(row, k) as isize, positions, true),
            None => {
                let mut all = Vec::new();
                padded.runs(positions.clone(), |at, from, count| {
                    let (from, to) = (from as isize, at - positions.start);
                    all.push(WindowStrip { from, row_stride: 1, count, to, down: 1, picks: None });
                });
                all
            }
        };
        f(&VisiblePlanes { x, places: &places, strips, fresh: None })
    };
    let whole = PaddedPlanes::new(p, 0..p.positions());
    if whole.is_plane(p.plane) {
        // Planes are their own padded ones.
        return see(&whole, planes);
    }
    p.padded(batch, 0..p.channels, positions, see)
}
