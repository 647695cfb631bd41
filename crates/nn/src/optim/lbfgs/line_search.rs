//! The strong Wolfe line search of `Lbfgs`: the numbers are the host's.

use super::vector;
use elinvar_core::Result;
use elinvar_ops::Backend;
use elinvar_ops::array::Array;

/// A place on the line.
#[derive(Clone, Debug)]
pub(super) struct Point<B: Backend> {
    /// How far along the direction.
    pub t: f64,
    pub loss: f64,
    /// The derivative along the direction.
    pub slope: f64,
    pub gradient: Array<B>,
}

/// Sufficient decrease, and sufficient flatness.
const C1: f64 = 1e-4;
const C2: f64 = 0.9;
/// Brackets below this are not divided further.
const TOLERANCE_CHANGE: f64 = 1e-9;

/// A place that fulfils the conditions, or the best one that was found, and the number of
/// evaluations; from `start`, first at `t`, then at `most` others.
pub(super) fn strong_wolfe<B: Backend>(
    evaluate: &mut dyn FnMut(f64) -> Result<(f64, Array<B>)>,
    start: Point<B>,
    t: f64,
    d: &Array<B>,
    most: usize,
) -> Result<(Point<B>, usize)> {
    let mut evaluations = 0;
    let mut at = |t: f64| -> Result<Point<B>> {
        let (loss, gradient) = evaluate(t)?;
        evaluations += 1;
        Ok(Point { t, loss, slope: vector::dot(&gradient, d)?, gradient })
    };
    let is_too_high = |p: &Point<B>| p.loss > start.loss + C1 * p.t * start.slope;
    let is_flat = |p: &Point<B>| p.slope.abs() <= -C2 * start.slope;
    let size = vector::largest(d)?;

    let mut before = start.clone();
    let mut here = at(t)?;
    let mut n = 0;
    // A bracket, or the place itself.
    let mut bracket = loop {
        if n == most {
            break (start.clone(), here);
        }
        if is_too_high(&here) || (n > 1 && here.loss >= before.loss) {
            break (before, here);
        }
        if is_flat(&here) {
            return Ok((here, evaluations));
        }
        if here.slope >= 0.0 {
            break (before, here);
        }
        let bounds = (here.t + 0.01 * (here.t - before.t), here.t * 10.0);
        let t = cubic(&before, &here, bounds);
        before = std::mem::replace(&mut here, at(t)?);
        n += 1;
    };

    let ordered = |(a, b): (Point<B>, Point<B>)| if a.loss <= b.loss { (a, b) } else { (b, a) };
    // (low, high): the losses of both.
    bracket = ordered(bracket);
    let (mut low, mut high) = bracket;
    let mut is_stuck = false;
    while n < most && (high.t - low.t).abs() * size >= TOLERANCE_CHANGE {
        let (left, right) = (low.t.min(high.t), low.t.max(high.t));
        let (first, second) = if low.t <= high.t { (&low, &high) } else { (&high, &low) };
        let mut t = cubic(first, second, (left, right));
        // A place at the end of a bracket hardly makes it smaller.
        let margin = 0.1 * (right - left);
        if (right - t).min(t - left) < margin {
            if is_stuck || t >= right || t <= left {
                t = if (t - right).abs() < (t - left).abs() { right - margin } else { left + margin };
                is_stuck = false;
            } else {
                is_stuck = true;
            }
        } else {
            is_stuck = false;
        }
        let here = at(t)?;
        n += 1;
        if is_too_high(&here) || here.loss >= low.loss {
            (low, high) = ordered((low, here));
            continue;
        }
        let done = is_flat(&here);
        if !done && here.slope * (high.t - low.t) >= 0.0 {
            high = low;
        }
        low = here;
        if done {
            break;
        }
    }
    Ok((low, evaluations))
}

/// The minimum of the cubic through two places and their slopes, within bounds.
fn cubic<B: Backend>(a: &Point<B>, b: &Point<B>, (least, most): (f64, f64)) -> f64 {
    let d1 = a.slope + b.slope - 3.0 * (a.loss - b.loss) / (a.t - b.t);
    let square = d1 * d1 - a.slope * b.slope;
    // NaN is none, either.
    if square.is_nan() || square < 0.0 {
        return (least + most) / 2.0;
    }
    let d2 = square.sqrt();
    let t = if a.t <= b.t {
        b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2.0 * d2))
    } else {
        a.t - (a.t - b.t) * ((a.slope + d2 - d1) / (a.slope - b.slope + 2.0 * d2))
    };
    t.max(least).min(most)
}
