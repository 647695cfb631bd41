//! Transposes operands for TMA and wgmma: GEMM of any layout, where f32 (TF32) factors have to be
//! K-major.
//!
//! wgmma multiplies f32 along K only. A transpose costs a pass over memory, a small part of a
//! product of many rows; one of few rows pays it too, since its bits have to be those that its rows
//! have among others. No element changes, so the bits are those of a K-major factor.

use super::GemmProblem;
use super::tma_wgmma::{self, WgmmaTile};
use crate::conv::nhwc_transpose::{NhwcView, to_nhwc};
use crate::launch::sequence::{BufferSlot, BufferSpec, LaunchSequence};
use elinvar_core::{Layout, Shape};
use elinvar_kernel::ir::{Elem, TensorView};

/// Lines begin at multiples of so many f32: 16 bytes.
const ROW_ALIGN_ELEMENTS: usize = 4;

/// A factor, `[b, rows, k]` or `[b, k, columns]`.
struct TransposedFactor {
    /// Its layout in the end.
    layout: Layout,
    /// The factor as `[planes, k, lines]`, if it is turned.
    from: Option<Layout>,
}

/// A shape that is known to be small enough, since operands have one that is hardly smaller.
fn layout(dims: [usize; 3]) -> Option<Layout> {
    Shape::new(&dims).ok().map(Layout::contiguous)
}

/// Lines of terms as they are turned: `[planes, lines, k]`, each line at a multiple of
/// [`ROW_ALIGN_ELEMENTS`].
fn lines(planes: usize, lines: usize, k: usize) -> Option<Layout> {
    Some(layout([planes, lines, k.next_multiple_of(ROW_ALIGN_ELEMENTS)])?.slice(2, 0, k, 1))
}

impl TransposedFactor {
    /// `None` if a turned one would be too large.
    fn of(p: &GemmProblem<'_, '_>, side: usize) -> Option<TransposedFactor> {
        let [b, .., k] = p.sizes();
        let given = [p.x, p.w][side];
        let as_it_is = || TransposedFactor { layout: given.clone(), from: None };
        if TensorView::is_transposable(Elem::from(p.dtype)) {
            return Some(as_it_is());
        }
        // Beside a factor of which TMA tiles can be fetched.
        let good = lines(1, 1, k)?;
        let good = good.broadcast_to(&Shape::new(&[b, 1, k]).ok()?, "factor").ok()?;
        let other = good.transpose(1, 2);
        let (x, w) = if side == 0 { (given, &other) } else { (&good, given) };
        if tma_wgmma::fits(&GemmProblem { x, w, extra: &[], ..*p }) {
            return Some(as_it_is());
        }
        let from = if side == 0 { given.transpose(1, 2) } else { given.clone() };
        // The same plane for all batches is turned once.
        let from = if from.strides()[0] == 0 { from.slice(0, 0, 1, 1) } else { from };
        let transposed = lines(from.shape()[0], from.shape()[2], k)?;
        let transposed = if side == 0 { transposed } else { transposed.transpose(1, 2) };
        let layout = transposed.broadcast_to(given.shape(), "factor").ok()?;
        Some(TransposedFactor { layout, from: Some(from) })
    }
}

/// Both factors, if a product can be done so.
fn factors(p: &GemmProblem<'_, '_>) -> Option<[TransposedFactor; 2]> {
    // A product of no terms has nothing to fetch.
    if p.is_wide(1) || p.sizes()[3] == 0 || !TensorView::is_loadable(Elem::from(p.dtype)) {
        return None;
    }
    let both = [TransposedFactor::of(p, 0)?, TransposedFactor::of(p, 1)?];
    tma_wgmma::fits(&GemmProblem { x: &both[0].layout, w: &both[1].layout, ..*p }).then_some(both)
}

/// Can a product be done so? If it can, so can one of its rows alone.
pub fn fits(p: &GemmProblem<'_, '_>) -> bool {
    factors(p).is_some()
}

/// The work of a contraction; `None` if it cannot be done so ([`fits`]). Operands: x, w, further
/// operands of the epilogue. Result: y.
pub fn steps<'a>(p: &GemmProblem<'a, '_>, tile: WgmmaTile) -> Option<LaunchSequence<'a>> {
    let both = factors(p)?;
    let mut all = LaunchSequence {
        results: vec![BufferSpec::of(p.dtype.into(), p.len())],
        ..LaunchSequence::default()
    };
    let product = GemmProblem { x: &both[0].layout, w: &both[1].layout, ..*p };
    let Some(work) = tma_wgmma::contract(&product, tile) else { return Some(all) };
    let mut slots: Vec<BufferSlot> = (0..2 + p.extra.len()).map(BufferSlot::Operand).collect();
    for (side, factor) in both.iter().enumerate() {
        if let Some(from) = &factor.from {
            let [planes, k, lines] = [0, 1, 2].map(|axis| from.shape()[axis]);
            let padded = k.next_multiple_of(ROW_ALIGN_ELEMENTS);
            let transposed = BufferSlot::Scratch(all.scratch.len());
            all.scratch.push(BufferSpec::of(p.dtype.into(), planes * lines * padded));
            let how = NhwcView { outer: 0, channel: 1, channels: k, padded };
            all.push(to_nhwc(from, p.dtype, how), &[BufferSlot::Operand(side), transposed]);
            slots[side] = transposed;
        }
    }
    slots.push(BufferSlot::Result(0));
    all.push(work, &slots);
    Some(all)
}
