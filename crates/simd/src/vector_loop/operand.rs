//! Operands of a formula's loop: elements, or one number for all of them or for each row.

use super::BLOCK;
use elinvar_core::Element;
use std::mem::MaybeUninit;

/// An operand of a formula, for one row of elements or several of the same length.
#[derive(Clone, Copy)]
pub struct OperandSlice<'a, T> {
    /// The elements, a window of copies, or the numbers of rows.
    data: &'a [T],
    kind: SliceKind,
    /// Elements of a row, if there are several.
    pub(super) len: usize,
    /// From a row to the next, in `data`.
    step: usize,
}

/// A word, like all of a piece: where it is copied, a byte and its neighbour are read as one,
/// and that waits until all stores before it, results among them, have reached the cache. (Of four
/// maps in one pass that was a tenth.)
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
enum SliceKind {
    /// Elements.
    Elements,
    /// A window of copies of one number.
    Splat,
    /// A number for each row.
    RowScalars,
}

/// Rows that a formula is called on at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowsShape {
    /// Elements of each.
    pub len: usize,
    /// How many rows.
    pub count: usize,
}

impl<'a, T: Element> OperandSlice<'a, T> {
    /// Nothing.
    pub const EMPTY: OperandSlice<'a, T> =
        OperandSlice { data: &[], kind: SliceKind::Elements, len: usize::MAX, step: 0 };
    /// Elements.
    pub fn of(data: &'a [T]) -> Self {
        OperandSlice { data, ..OperandSlice::EMPTY }
    }
    /// One number for all elements: [`BLOCK`] copies of it, or more.
    pub fn number(copies: &'a [T]) -> Self {
        OperandSlice { data: copies, kind: SliceKind::Splat, ..OperandSlice::EMPTY }
    }
    /// Some of these elements, which are no rows.
    pub fn part(&self, start: usize, n: usize) -> Self {
        match self.kind {
            SliceKind::Elements => OperandSlice::of(&self.data[start..][..n]),
            SliceKind::Splat | SliceKind::RowScalars => *self,
        }
    }
    /// Rows that start `step` apart in `data`.
    pub fn rows(data: &'a [T], rows: RowsShape, step: usize) -> Self {
        OperandSlice { data, kind: SliceKind::Elements, len: rows.len, step }
    }
    /// A number for each row, `step` apart in `data`.
    pub fn numbers(data: &'a [T], rows: RowsShape, step: usize) -> Self {
        OperandSlice { data, kind: SliceKind::RowScalars, len: rows.len, step }
    }
    /// The same number for all elements of rows.
    pub fn number_of(copies: &'a [T], rows: RowsShape) -> Self {
        OperandSlice { len: rows.len, ..OperandSlice::number(copies) }
    }
    /// Row `i` of `n` elements: where it begins, and 1, or 0 for a number. `copies` holds those of
    /// a row's own number.
    #[inline]
    pub(super) fn line(
        &self,
        i: usize,
        n: usize,
        need: usize,
        copies: &mut Splat<MaybeUninit<T>>,
    ) -> (*const T, usize) {
        match self.kind {
            SliceKind::Elements => (self.data[i * self.step..][..n].as_ptr(), 1),
            SliceKind::Splat => {
                assert!(self.data.len() >= need, "an operand has fewer copies than a block");
                (self.data.as_ptr(), 0)
            }
            SliceKind::RowScalars => {
                copies.0[..need].fill(MaybeUninit::new(self.data[i * self.step]));
                (copies.0.as_ptr().cast(), 0)
            }
        }
    }
}

/// A window of copies of a number. It begins with a cache line: a register across two lines is
/// loaded twice, and of four such operands that was half of the time of a batch norm's values.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Splat<T, const W: usize = BLOCK>(pub [T; W]);
