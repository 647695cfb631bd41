//! Shared-memory tiles of SIMT GEMM: sizes, pitches and bank conflicts of a tile whose K steps a
//! workgroup stages together.
//!
//! While a step is computed, the next one is in flight: loaded into registers before the products
//! and stored after them, or copied by cp.async. Contiguous elements are loaded as vectors; in
//! shared memory the rows (or columns) of a term are contiguous, and an invocation loads four of
//! them at once.
//!
//! Where cp.async brings them, the layout stays as it was. K-major operands are read along their
//! terms: a vector of terms of each row (or column) of an invocation, whose rows are then not
//! neighbours, so that neighbouring invocations have neighbouring lines.

use super::{SimtTile, multistage_cp_async};
use crate::layout::indexing;
use crate::reduce::block_reduce::elem;
use elinvar_core::{DType, Layout};
use elinvar_kernel::builder::Val;
use elinvar_kernel::ir::Elem;

/// Elements behind those of a term: terms that are stored one above the other are in different
/// banks.
const PAD_ELEMENTS: u32 = 4;

/// Rows and columns of invocations in a warp, where warps are known to be such: its loads of rows
/// and of columns each go to few places.
const WARP_SHAPE: [u32; 2] = [4, 8];

impl SimtTile {
    /// Elements of shared memory that it takes, at most.
    pub fn shared_elements(self) -> u32 {
        if self.slots == 0 {
            return (self.pitch(0) + self.pitch(1)) * self.depth;
        }
        self.slots * (self.size(0) + self.size(1)) * (self.depth + PAD_ELEMENTS)
    }
    /// What becomes of it for these operands: terms come by copies where both are in pieces of 16
    /// bytes that need no conversion.
    pub(super) fn for_layouts(self, dtype: DType, operands: [&Layout; 2], k_major: [bool; 2]) -> SimtTile {
        let width = [0, 1].map(|side| self.vector(side, operands[side], k_major[side]));
        let bytes = width.map(|w| u32::from(w) * dtype.size() as u32);
        let whole = elem(super::Compute::from(dtype).scalar()) == Elem::from(dtype);
        let fits = dtype.is_float() && whole && bytes.iter().all(|&b| b >= multistage_cp_async::COPY_BYTES);
        SimtTile { slots: if fits { self.slots } else { 0 }, ..self }
    }
    /// Which invocation along m and n, of its number in the workgroup.
    pub(super) fn local(self, index: Val<'_>) -> [Val<'_>; 2] {
        let [down, across] = WARP_SHAPE;
        let warps =
            self.slots > 0 && self.group[0].is_multiple_of(down) && self.group[1].is_multiple_of(across);
        if !warps {
            let across = i64::from(self.group[1]);
            return [index / across, index % across];
        }
        let (warp, lane) = (index / i64::from(down * across), index % i64::from(down * across));
        let aside = i64::from(self.group[1] / across);
        let [down, across] = [down, across].map(i64::from);
        [warp / aside * down + lane / across, warp % aside * across + lane % across]
    }
    /// From term to term in shared memory.
    pub(super) fn pitch(self, side: usize) -> u32 {
        self.group[side] * self.each[side] + PAD_ELEMENTS
    }
    /// How many neighbours of a factor are read at once: as many as its layout allows, and lines of
    /// a tile are made of.
    pub(super) fn vector(self, side: usize, l: &Layout, k_major: bool) -> u8 {
        let (axis, line) = match (side, k_major) {
            (0, true) => (2, self.depth),
            (0, false) => (1, self.size(0)),
            (_, true) => (1, self.depth),
            (_, false) => (2, self.size(1)),
        };
        let all = indexing::vector(l, axis);
        [4, 2]
            .into_iter()
            .find(|&w| w <= all && self.depth > 0 && line.is_multiple_of(u32::from(w)))
            .unwrap_or(1)
    }
    /// How many neighbours an invocation has side by side.
    pub(crate) fn neighbours(self, side: usize, k_major: bool) -> u32 {
        if self.depth == 0 || (self.slots > 0 && k_major) {
            return 1;
        }
        [4, 2].into_iter().find(|&p| self.each[side].is_multiple_of(p)).unwrap_or(1)
    }
}
