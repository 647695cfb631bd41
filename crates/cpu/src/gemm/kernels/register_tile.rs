//! The register tile: `MR` x `NR` accumulators in registers, for any rows of A and columns of B
//! that can be read term by term.
#![allow(unsafe_code, reason = "vector loads and stores without a check for each")]

use super::a_rows::{RowMajorA, RowsOfA, TERMS_PER_STEP, each_row};
use super::blocks::PACKED_A_PITCH;
use super::prefetch::LinePrefetch;
use crate::elementwise::real::Real;
use elinvar_core::Element;
use elinvar_simd::vector::{SimdElement, Vector};

/// Rows of the tiles that may have all of the next panel fetched: there is a copy of the highest
/// tile of AVX-512 for it.
pub(super) const PREFETCH_ALL_ROWS: usize = 12;
/// How many terms ahead the right factor is fetched. No more: terms a power of two apart share a
/// set of eight lines.
const PREFETCH_TERMS: usize = 6;

/// Adds one term to a row of sums. By places and not by an iterator, which in a build without
/// optimisation copies the registers several times.
///
/// # Safety
/// The processor has the registers.
#[inline(always)]
pub(super) unsafe fn fma_row<V: Vector, const W: usize>(sums: &mut [V; W], lhs: V, rhs: &[V; W]) {
    let mut v = 0;
    while v < W {
        // SAFETY: the caller's.
        sums[v] = unsafe { lhs.fma(rhs[v], sums[v]) };
        v += 1;
    }
}

/// Where a tile's columns come from.
pub(crate) trait ColumnsOfB<V: Vector>: Copy {
    /// Does a term take so many loads that four rows do not hide them?
    const LOAD_BOUND: bool;
    /// `W` registers of the next term, for a tile of `R` rows.
    ///
    /// # Safety
    /// The processor has the registers, and there is one more term of as many.
    unsafe fn load_term<const R: usize, const W: usize>(&mut self) -> [V; W];
    /// Has something fetched that is needed later, with each so many terms.
    ///
    /// # Safety
    /// The processor has the registers.
    #[inline(always)]
    unsafe fn prefetch_next<const R: usize, const W: usize>(&mut self, _terms: usize) {}
}

/// Rows that were packed, [`PACKED_A_PITCH`] apart: as the distance is a constant, a tile of any
/// height reads them from one address register.
#[derive(Clone, Copy)]
pub(crate) struct PackedRowsA<V: Vector>(pub(crate) *const V::T);

impl<V: Vector> RowsOfA<V> for PackedRowsA<V> {
    const ONE_ADDRESS: bool = false;
    const CONST_STRIDE: bool = true;
    #[inline(always)]
    unsafe fn element(self, r: usize, t: usize) -> V::T {
        // SAFETY: the caller's.
        unsafe { *self.0.add(r * PACKED_A_PITCH + t) }
    }
    #[inline(always)]
    unsafe fn advance(&mut self, terms: usize) {
        self.0 = self.0.wrapping_add(terms);
    }
}

/// A panel.
#[derive(Clone, Copy)]
pub(crate) struct PanelB<V: Vector> {
    pub(crate) at: *const V::T,
    /// Distance of terms.
    pub(crate) next: usize,
    /// Distance of panels.
    pub(crate) across: usize,
    pub(crate) line_prefetch: LinePrefetch,
}

impl<V: Vector> ColumnsOfB<V> for PanelB<V> {
    const LOAD_BOUND: bool = false;
    #[inline(always)]
    unsafe fn load_term<const R: usize, const W: usize>(&mut self) -> [V; W] {
        // SAFETY: the caller's.
        unsafe {
            let mut rhs = [V::splat(V::T::ZERO); W];
            for (v, rhs) in rhs.iter_mut().enumerate() {
                *rhs = V::load(self.at.add(v * V::LANES));
                // A panel that was not packed has a term on each page, which no hardware foresees.
                // The tallest tiles have packed panels, or such as stay in the second-level cache.
                if R < V::TILE_ROWS {
                    V::prefetch_l1(self.at.wrapping_add(PREFETCH_TERMS * self.next + v * V::LANES));
                }
            }
            self.at = self.at.wrapping_add(self.next);
            rhs
        }
    }
    #[inline(always)]
    unsafe fn prefetch_next<const R: usize, const W: usize>(&mut self, terms: usize) {
        if R >= V::TILE_ROWS && W == 2 {
            // SAFETY: the caller's.
            unsafe { self.line_prefetch.prefetch::<V>(terms) };
        }
    }
}

/// A panel, if all of the next one is fetched meanwhile: it is needed soon, as few rows are
/// multiplied by each. (32 rows by weights that came from the third-level cache took 0.8 of the
/// time so, on an Intel Xeon. As many lines in all tiles cost those that need none 5 %.)
#[derive(Clone, Copy)]
pub(super) struct PrefetchingPanelB<V: Vector>(PanelB<V>);

impl<V: Vector> ColumnsOfB<V> for PrefetchingPanelB<V> {
    const LOAD_BOUND: bool = false;
    #[inline(always)]
    unsafe fn load_term<const R: usize, const W: usize>(&mut self) -> [V; W] {
        // SAFETY: the caller's.
        unsafe { self.0.load_term::<R, W>() }
    }
    #[inline(always)]
    unsafe fn prefetch_next<const R: usize, const W: usize>(&mut self, terms: usize) {
        if const { W == 2 } {
            // SAFETY: the caller's.
            unsafe { self.0.line_prefetch.prefetch_lines_of_panel::<V>(terms) };
        }
    }
}

/// Heights of tiles whose rows have one address, where there are registers for the highest.
const ONE_ADDRESS_HEIGHTS: [usize; 9] = [14, 12, 8, 7, 6, 5, 4, 2, 1];
/// Those of tiles of one register, which end a product's rows, and of f64: each height is some
/// hundred bytes to 3 KB of every program that multiplies.
const ONE_REGISTER_HEIGHTS: [usize; 5] = [14, 8, 4, 2, 1];
/// Rows up to which it is looked up how they are cut into such tiles; of more, the first are a tile
/// of the highest.
const HEIGHT_LOOKUP_MAX_ROWS: usize = 42;

/// What a tile takes, in rows: four are the fewest chains that hide one another, and to begin and
/// to end it takes about as long as one.
const fn tile_cost(rows: usize) -> usize {
    1 + if rows < 4 { 4 } else { rows }
}

/// For each number of rows the height of their first tile, where all tiles together take the least.
const FIRST_HEIGHT: [usize; HEIGHT_LOOKUP_MAX_ROWS + 1] = first_heights(&ONE_ADDRESS_HEIGHTS);
const FIRST_ONE_REGISTER_HEIGHT: [usize; HEIGHT_LOOKUP_MAX_ROWS + 1] = first_heights(&ONE_REGISTER_HEIGHTS);

const fn first_heights(heights: &[usize]) -> [usize; HEIGHT_LOOKUP_MAX_ROWS + 1] {
    let (mut first, mut least) = ([0; HEIGHT_LOOKUP_MAX_ROWS + 1], [0; HEIGHT_LOOKUP_MAX_ROWS + 1]);
    let mut n = 1;
    while n <= HEIGHT_LOOKUP_MAX_ROWS {
        least[n] = usize::MAX;
        let mut i = 0;
        while i < heights.len() {
            let high = heights[i];
            if high <= n && tile_cost(high) + least[n - high] < least[n] {
                (first[n], least[n]) = (high, tile_cost(high) + least[n - high]);
            }
            i += 1;
        }
        n += 1;
    }
    first
}

/// Rows of the next tile of some whose rows have one address, where there are registers for the
/// highest.
#[inline(always)]
fn next_height<T>(rows: usize, is_wide: bool) -> usize {
    let first =
        if const { has_extra_tiles::<T>() } && is_wide { &FIRST_HEIGHT } else { &FIRST_ONE_REGISTER_HEIGHT };
    first.get(rows).copied().unwrap_or(ONE_ADDRESS_HEIGHTS[0])
}

/// Is it f32, of which networks are made? Of it there are tiles of more kinds.
pub(super) const fn has_extra_tiles<T>() -> bool {
    size_of::<T>() <= size_of::<f32>()
}

/// What tiles of so many rows take, which have one address, where the highest has `highest`: about
/// as much as so many rows of the highest ones.
pub(crate) fn tile_costs<T: Real>(highest: usize, rows: usize) -> usize {
    let (mut lhs, mut all) = (rows, 0);
    while lhs > 0 {
        let high = match lhs {
            n if highest >= 12 => next_height::<T>(n, true),
            n => n.min(highest),
        };
        (lhs, all) = (lhs - high, all + tile_cost(high));
    }
    all
}

/// A tile: from `c` on its part of the result.
#[derive(Clone, Copy)]
pub(crate) struct RegisterTile<V: Vector, A, B> {
    pub(crate) a: A,
    pub(crate) b: B,
    pub(crate) k: usize,
    pub(crate) c: *mut V::T,
    pub(crate) step: usize,
    pub(crate) cols: usize,
    /// As in [`MicroBlock`].
    pub(crate) before: Option<(*const V::T, usize)>,
}

impl<V: Vector, A, B> RegisterTile<V, A, B> {
    /// A register's sums of row `r`, added to those of the chunks before.
    ///
    /// # Safety
    /// The processor has the registers, and what was summed before has such a row, and a whole
    /// register `v` in it.
    #[inline(always)]
    unsafe fn with_before(&self, r: usize, v: usize, sum: V) -> V {
        match self.before {
            // SAFETY: the caller's.
            Some((at, step)) => unsafe { V::load(at.add(r * step + v * V::LANES)).add(sum) },
            None => sum,
        }
    }
}

impl<V: Vector> RegisterTile<V, RowMajorA<V>, PanelB<V>> {
    /// The same with all of the next panel fetched.
    #[inline(always)]
    pub(super) fn with_panel_prefetch(self) -> RegisterTile<V, RowMajorA<V>, PrefetchingPanelB<V>> {
        let RegisterTile { a, b, k, c, step, cols, before } = self;
        RegisterTile { a, b: PrefetchingPanelB(b), k, c, step, cols, before }
    }
    /// Computes `R` rows of `P` whole panels; gives `R`.
    ///
    /// # Safety
    /// As `wide`, for each of the panels, and all of their columns are in the result.
    #[inline(always)]
    pub(super) unsafe fn side<const R: usize, const P: usize>(self) -> usize {
        // SAFETY: row r < R and term t < k are in the block, and so does register v of panel p < P.
        unsafe {
            let mut sums = [[[V::splat(V::T::ZERO); 2]; P]; R];
            for t in 0..self.k {
                let b = self.b.at.add(t * self.b.next);
                each_row!(R, up to 2, r => {
                    let lhs = V::splat(self.a.element(r, t));
                    each_row!(P, up to 4, p => {
                        for (v, sum) in sums[r][p].iter_mut().enumerate() {
                            *sum = lhs.fma(V::load(b.add(p * self.b.across + v * V::LANES)), *sum);
                        }
                    });
                });
            }
            each_row!(R, up to 2, r => {
                for (i, sum) in sums[r].iter().flatten().enumerate() {
                    self.with_before(r, i, *sum).store(self.c.add(r * self.step + i * V::LANES));
                }
            });
        }
        R
    }
}

impl<V: Vector, A: RowsOfA<V>, B: ColumnsOfB<V>> RegisterTile<V, A, B> {
    /// Computes some of `tile_rows` rows; gives how many: as many as fit, in steps, so that few are
    /// not computed as many.
    ///
    /// # Safety
    /// As `wide`, for all of the rows.
    #[inline(always)]
    pub(crate) unsafe fn next(self, rows: usize) -> usize {
        // SAFETY: the caller's.
        unsafe {
            match rows {
                _ if const { V::TILE_ROWS == 1 } => self.wide::<1>(),
                n if const { A::ONE_ADDRESS && V::TILE_ROWS >= 12 } => {
                    let high = next_height::<V::T>(n, self.cols > V::LANES);
                    match high {
                        14 => self.wide::<14>(),
                        8 => self.wide::<8>(),
                        4 => self.wide::<4>(),
                        2 => self.wide::<2>(),
                        12 if const { has_extra_tiles::<V::T>() } => self.of::<12, 2>(),
                        7 if const { has_extra_tiles::<V::T>() } => self.of::<7, 2>(),
                        6 if const { has_extra_tiles::<V::T>() } => self.of::<6, 2>(),
                        5 if const { has_extra_tiles::<V::T>() } => self.of::<5, 2>(),
                        _ => self.wide::<1>(),
                    }
                }
                n if const { V::TILE_ROWS >= 12 } && n >= 12 && !(B::LOAD_BOUND && n == 16) => {
                    self.wide::<12>()
                }
                n if const { V::TILE_ROWS >= 8 } && n >= 8 => self.wide::<8>(),
                // Two rows are too few chains: eight are four and four. (Tiles of five rows took
                // longer than six and four.)
                8 if const { V::TILE_ROWS == 6 } => self.wide::<4>(),
                n if const { V::TILE_ROWS >= 6 } && n >= 6 => self.wide::<6>(),
                n if n >= 4 => self.wide::<4>(),
                n if n >= 2 => self.wide::<2>(),
                _ => self.wide::<1>(),
            }
        }
    }

    /// Computes `R` rows, one or two registers wide; gives `R`.
    ///
    /// # Safety
    /// The processor has the instructions; there are `R` rows, and `k` terms of as many registers
    /// as the columns take.
    #[inline(always)]
    pub(crate) unsafe fn wide<const R: usize>(self) -> usize {
        // SAFETY: the caller's.
        unsafe { if self.cols > V::LANES { self.of::<R, 2>() } else { self.of::<R, 1>() } }
    }

    /// Computes `R` rows, `W` registers wide; gives `R`.
    ///
    /// # Safety
    /// As `wide`, and the columns take as many registers.
    #[inline(always)]
    unsafe fn of<const R: usize, const W: usize>(self) -> usize {
        // SAFETY: the caller's.
        unsafe { self.run::<R, W>() };
        R
    }

    /// # Safety
    /// As `wide`.
    #[inline(always)]
    pub(super) unsafe fn run<const R: usize, const W: usize>(self) {
        // SAFETY: row r < R and term t < k are in the block, and so do W <= 2 registers of the
        // panel; of the result, `cols` columns of R rows are touched.
        unsafe {
            // Is the loop written out for several terms? So are the highest tiles, and those next
            // to them, which end most blocks.
            let several =
                const { V::TILE_ROWS > 1 && A::CONST_STRIDE && 3 * R >= 2 * V::TILE_ROWS && W == 2 };
            // The result's lines are fetched while the terms are summed: rows that are a power of
            // two apart are never foreseen, and what is only stored is fetched as well. A row with
            // each few terms, if there are enough: a core waits for some lines at once, and the
            // factors' own are among them.
            let mut far = if several && self.k >= TERMS_PER_STEP * R { R } else { 0 };
            let mut line = self.c;
            if far == 0 {
                each_row!(R, up to 14, r => {
                    for v in 0..W {
                        V::prefetch_l2(self.c.wrapping_add(r * self.step + v * V::LANES).cast());
                    }
                });
            }
            let mut sums = [[V::splat(V::T::ZERO); W]; R];
            let (mut a, mut b) = (self.a, self.b);
            let mut lhs = self.k;
            while lhs > 0 {
                // Most rows have one run.
                let run = a.run().min(lhs);
                let fours = if several { run / TERMS_PER_STEP } else { 0 };
                for _ in 0..fours {
                    if far > 0 {
                        for v in 0..W {
                            V::prefetch_l2(line.wrapping_add(v * V::LANES).cast());
                        }
                        (line, far) = (line.wrapping_add(self.step), far - 1);
                    }
                    b.prefetch_next::<R, W>(TERMS_PER_STEP);
                    each_row!(TERMS_PER_STEP, up to 4, t => {
                        let rhs = b.load_term::<R, W>();
                        each_row!(R, up to 14, r => {
                            let lhs = V::splat(a.element(r, t));
                            fma_row(&mut sums[r], lhs, &rhs);
                        });
                        a.between_terms();
                    });
                    a.advance(TERMS_PER_STEP);
                }
                for _ in fours * TERMS_PER_STEP..run {
                    a.begin_term();
                    b.prefetch_next::<R, W>(1);
                    let rhs = b.load_term::<R, W>();
                    each_row!(R, up to 14, r => {
                        a.row(r);
                        let lhs = V::splat(a.element(r, 0));
                        fma_row(&mut sums[r], lhs, &rhs);
                    });
                    a.advance(1);
                }
                lhs -= run;
            }
            if self.cols == W * V::LANES {
                each_row!(R, up to 14, r => {
                    for (v, sum) in sums[r].iter().enumerate() {
                        self.with_before(r, v, *sum).store(self.c.add(r * self.step + v * V::LANES));
                    }
                });
            } else {
                let mut rows = [[V::T::ZERO; MAX_TILE_COLUMNS]; R];
                each_row!(R, up to 14, r => {
                    for (v, sum) in sums[r].iter().enumerate() {
                        sum.store(rows[r].as_mut_ptr().add(v * V::LANES));
                    }
                });
                store_edge(&rows, self.c, self.step, self.cols, self.before);
            }
        }
    }
}

/// Two registers, of the widest.
const MAX_TILE_COLUMNS: usize = 32;

/// Stores or adds the first `cols` numbers of each row. Written out in tiles, row by row, it would
/// be most of their code.
///
/// # Safety
/// `c` points to as many rows of the result, `step` apart, that no other thread reads or writes
/// meanwhile; so does `before`, and they have been written.
#[inline(never)]
unsafe fn store_edge<T: SimdElement>(
    rows: &[[T; MAX_TILE_COLUMNS]],
    c: *mut T,
    step: usize,
    cols: usize,
    before: Option<(*const T, usize)>,
) {
    for (r, row) in rows.iter().enumerate() {
        for (j, sum) in row[..cols].iter().enumerate() {
            // SAFETY: the caller's.
            unsafe {
                let sum = before.map_or(*sum, |(at, step)| at.add(r * step + j).read() + *sum);
                c.add(r * step + j).write(sum);
            }
        }
    }
}
