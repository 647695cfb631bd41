//! Work on several threads: output is cut into pieces, each made by one thread, so no result depends on their number.

use crate::CpuDevice;
use rayon::prelude::*;

/// Below this many nanoseconds of work, waking threads costs more than it saves: a wake-up takes about ten microseconds.
const WORTH: f64 = 40_000.0;

/// Cuts `out` into pieces of `piece` elements (the last may be shorter) and calls `f(index of its first element, piece)`
/// for each, on several threads if the whole work is estimated to take long enough; `ns` is an estimate for one element.
pub(crate) fn pieces<T: Send>(
    d: &CpuDevice,
    out: &mut [T],
    piece: usize,
    ns: f64,
    f: impl Fn(usize, &mut [T]) + Sync,
) {
    let piece = piece.max(1);
    match d.pool() {
        Some(pool) if out.len() > piece && out.len() as f64 * ns > WORTH => pool.install(|| {
            out.par_chunks_mut(piece).enumerate().for_each(|(i, part)| f(i * piece, part));
        }),
        _ => out.chunks_mut(piece).enumerate().for_each(|(i, part)| f(i * piece, part)),
    }
}

/// As [`pieces`], and the first error of a piece.
pub(crate) fn try_pieces<T: Send, E: Send>(
    d: &CpuDevice,
    out: &mut [T],
    piece: usize,
    ns: f64,
    f: impl Fn(usize, &mut [T]) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let piece = piece.max(1);
    match d.pool() {
        Some(pool) if out.len() > piece && out.len() as f64 * ns > WORTH => pool
            .install(|| out.par_chunks_mut(piece).enumerate().try_for_each(|(i, part)| f(i * piece, part))),
        _ => out.chunks_mut(piece).enumerate().try_for_each(|(i, part)| f(i * piece, part)),
    }
}

/// Calls `f` for each task, on several threads if the whole work, of `ns` nanoseconds, takes long enough; gives the first
/// error.
pub(crate) fn try_tasks<X: Send, E: Send>(
    d: &CpuDevice,
    tasks: Vec<X>,
    ns: f64,
    f: impl Fn(X) -> Result<(), E> + Sync,
) -> Result<(), E> {
    match d.pool() {
        Some(pool) if tasks.len() > 1 && ns > WORTH => {
            pool.install(|| tasks.into_par_iter().try_for_each(&f))
        }
        _ => tasks.into_iter().try_for_each(f),
    }
}
