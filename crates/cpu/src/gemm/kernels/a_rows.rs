//! The A operand of a register tile, element by element: row-major, column-major or packed,
//! addressed so that few registers hold row pointers.
#![allow(unsafe_code, reason = "loads without a check for each")]

use elinvar_simd::vector::Vector;

/// The body for each row, written out: sums stay in registers only if every index of theirs is a
/// constant before the compiler decides where they live, and it does not unroll a loop as long as
/// this by itself.
///
/// `up to` is the most that there may be, so that no more is written. Conditions are constants, so
/// that what a number of rows has not is gone before it is compiled; one body in another is
/// otherwise most of the build.
macro_rules! each_row {
    ($rows:expr, up to 2, $r:ident => $body:block) => {
        each_row!(@ $rows, 2, $r, $body, 0 1)
    };
    ($rows:expr, up to 4, $r:ident => $body:block) => {
        each_row!(@ $rows, 4, $r, $body, 0 1 2 3)
    };
    ($rows:expr, up to 8, $r:ident => $body:block) => {
        each_row!(@ $rows, 8, $r, $body, 0 1 2 3 4 5 6 7)
    };
    ($rows:expr, up to 14, $r:ident => $body:block) => {
        each_row!(@ $rows, 14, $r, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13)
    };
    (@ $rows:expr, $most:literal, $r:ident, $body:block, $($i:literal)*) => {
        const { assert!($rows <= $most, "more rows than are written out") };
        $(if const { $rows > $i } {
            let $r = $i;
            $body
        })*
    };
}
pub(crate) use each_row;

/// Terms that loops over them go on by, where a [`RowsOfA`] is even.
pub(crate) const TERMS_PER_STEP: usize = 4;

/// Where a tile's rows come from.
pub(crate) trait RowsOfA<V: Vector>: Copy {
    /// Do all rows have one address, so that fourteen rows have registers enough? Rows of windows
    /// are often as many.
    const ONE_ADDRESS: bool;
    /// Do [`TERMS_PER_STEP`] terms of a run have addresses that differ by constants, so that these
    /// are counted up once for all of them?
    const CONST_STRIDE: bool;
    /// Terms up to the end of a run, the next one first; more than there are, if they have no runs.
    #[inline(always)]
    fn run(self) -> usize {
        usize::MAX
    }
    /// Term `t` of row `r` from the next one on; of rows that are not even the next one, 0.
    ///
    /// # Safety
    /// There is such a row, and such a term.
    unsafe fn element(self, r: usize, t: usize) -> V::T;
    /// Before the numbers of a term, of rows that are not even.
    ///
    /// # Safety
    /// There is such a term.
    #[inline(always)]
    unsafe fn begin_term(&mut self) {}
    /// Before the number of a row, of rows that are not even; they come in order.
    #[inline(always)]
    fn row(&mut self, _r: usize) {}
    /// Between two terms of several. Where a row's number is another's of a term before, the
    /// compiler would keep it in a register, of which there are none left.
    #[inline(always)]
    fn between_terms(self) {}
    /// Goes on by so many terms, one or [`TERMS_PER_STEP`].
    ///
    /// # Safety
    /// There were as many, in this run.
    unsafe fn advance(&mut self, terms: usize);
}

/// The same address, about which the compiler knows nothing: it would compute each row's from the
/// one before, by as many additions for each term, which take the places of multiplications on
/// processors that do both in the same units.
#[inline(always)]
#[cfg_attr(target_arch = "x86_64", allow(clippy::pointers_in_nomem_asm_block, reason = "the address alone"))]
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_mut, reason = "it is as it was"))]
pub(crate) fn opaque_address<T>(mut p: *const T) -> *const T {
    // SAFETY: nothing is done.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("/* {0} */", inout(reg) p, options(pure, nomem, nostack, preserves_flags))
    };
    p
}

/// Rows whose terms are neighbours, as they are in memory. An address takes one register or two, so
/// three rows are read from one address.
#[derive(Clone, Copy)]
pub(crate) struct RowMajorA<V: Vector> {
    /// Rows 0, 3, 6 and 9.
    at: [*const V::T; 4],
    /// Distance of rows.
    row_stride: usize,
}

impl<V: Vector> RowMajorA<V> {
    #[inline(always)]
    pub(crate) fn new(first: *const V::T, row_stride: usize) -> Self {
        RowMajorA { at: [0, 3, 6, 9].map(|r| first.wrapping_add(r * row_stride)), row_stride }
    }
}

impl<V: Vector> RowsOfA<V> for RowMajorA<V> {
    const ONE_ADDRESS: bool = false;
    const CONST_STRIDE: bool = true;
    #[inline(always)]
    unsafe fn element(self, r: usize, t: usize) -> V::T {
        // SAFETY: the caller's.
        unsafe { *self.at[r / 3].add(r % 3 * self.row_stride + t) }
    }
    #[inline(always)]
    unsafe fn advance(&mut self, terms: usize) {
        self.at = self.at.map(|p| opaque_address(p.wrapping_add(terms)));
    }
}

/// Rows that are neighbours, term by term.
#[derive(Clone, Copy)]
pub(crate) struct ColumnMajorA<V: Vector> {
    at: *const V::T,
    /// Distance of terms.
    row_stride: usize,
}

impl<V: Vector> ColumnMajorA<V> {
    #[inline(always)]
    pub(crate) fn new(first: *const V::T, row_stride: usize) -> Self {
        ColumnMajorA { at: first, row_stride }
    }
}

impl<V: Vector> RowsOfA<V> for ColumnMajorA<V> {
    const ONE_ADDRESS: bool = true;
    const CONST_STRIDE: bool = false;
    #[inline(always)]
    unsafe fn element(self, r: usize, t: usize) -> V::T {
        // SAFETY: the caller's.
        unsafe { *self.at.add(t * self.row_stride + r) }
    }
    #[inline(always)]
    unsafe fn advance(&mut self, terms: usize) {
        self.at = self.at.wrapping_add(terms * self.row_stride);
    }
}
