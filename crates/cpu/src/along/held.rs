//! Folds of terms while these are in registers: the canonical lanes are two windows.
//!
//! How it can be wrong: at the end of a row, where the terms of what stands behind it must not take part. In their place comes
//! what lanes start from, which changes none. And by NaN, which an extreme does not see: they are looked for beside it.

use super::float::Float;
use super::terms::{Terms, WINDOW, ahead};
use crate::simd::reading::Folding;
use elinvar_core::order::LANES;
use elinvar_ops::backend::Fold;
use elinvar_ops::lane::Mask;

/// Parts that a window is read in, at most.
const PARTS: usize = WINDOW / 16;

/// The fold of the first `n` terms, at most a block. If they are to be kept, whole windows of them are written to `kept`. For
/// each window, as much is fetched of what lies ahead of the places.
#[inline(always)]
pub(super) fn fold<T: Float, M: Folding<T>, const KEEP: bool, const P: usize>(
    f: Fold,
    x: impl Terms<T>,
    n: usize,
    kept: &mut [T],
    places: [*const T; P],
) -> T {
    let parts = const { WINDOW / M::AT_ONCE };
    let extreme = matches!(f, Fold::Max | Fold::Min);
    let mut nan = M::Mask::all_lanes(false);
    let mut lanes = [[M::splat(T::start(f)); PARTS]; LANES / WINDOW];
    let whole = n / LANES * (LANES / WINDOW);
    let mut window = 0;
    while window < whole {
        for lanes in &mut lanes {
            ahead(places, window);
            let w = x.window(window);
            for (part, lane) in lanes[..parts].iter_mut().enumerate() {
                let term = x.at::<M>(&w, part * M::AT_ONCE);
                if KEEP {
                    term.store(&mut kept[window * WINDOW + part * M::AT_ONCE..]);
                }
                if extreme {
                    nan = nan | term.is_nan();
                }
                *lane = M::two(f, *lane, term);
            }
            window += 1;
        }
    }
    for lanes in &mut lanes {
        if window * WINDOW < n {
            let w = x.window(window);
            for (part, lane) in lanes[..parts].iter_mut().enumerate() {
                let at = window * WINDOW + part * M::AT_ONCE;
                let term = x.at::<M>(&w, part * M::AT_ONCE);
                if KEEP {
                    term.store(&mut kept[at..]);
                }
                let term = term.first(n.saturating_sub(at), T::start(f));
                if extreme {
                    nan = nan | term.is_nan();
                }
                *lane = M::two(f, *lane, term);
            }
            window += 1;
        }
    }
    let [mut left, right] = lanes;
    for (left, right) in left[..parts].iter_mut().zip(right) {
        *left = M::two(f, *left, right);
    }
    let mut count = parts;
    while count > 1 {
        count /= 2;
        for part in 0..count {
            left[part] = M::two(f, left[part], left[part + count]);
        }
    }
    if extreme && M::any(nan) { T::lit(f64::NAN) } else { left[0].folded(f) }
}
