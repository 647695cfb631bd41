//! Parallel loops: output is cut into pieces, each computed by one thread, so no result depends on
//! the number of threads.
//!
//! How it can be wrong: by an error that is lost. The first error of any piece is kept and
//! returned; pieces that have not started may then be skipped.

use crate::CpuDevice;
use elinvar_core::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Makes a piece, given the index of its first element. What cuts is compiled once for each type of
/// elements, and not for each kind of work.
type PieceFn<'a, T, R> = dyn Fn(usize, &mut [T]) -> R + Sync + 'a;

/// Cuts `out` into pieces of `piece` elements (the last may be shorter) and calls
/// `f(index of its first element, piece)` for each, on several threads if the whole work is
/// estimated to take long enough; `ns` is an estimate for one element.
pub(crate) fn for_each_piece<T: Send>(
    d: &CpuDevice,
    out: &mut [T],
    piece: usize,
    ns: f64,
    f: &PieceFn<'_, T, ()>,
) {
    let piece = piece.max(1);
    match d.pool() {
        Some(pool) => pool.chunks(out, piece, out.len() as f64 * ns, &|i, part| f(i * piece, part)),
        None => out.chunks_mut(piece).enumerate().for_each(|(i, part)| f(i * piece, part)),
    }
}

/// As [`for_each_piece`], and an error of a piece; the pieces after it may be left out.
pub(crate) fn try_for_each_piece<T: Send>(
    d: &CpuDevice,
    out: &mut [T],
    piece: usize,
    ns: f64,
    f: &PieceFn<'_, T, Result<()>>,
) -> Result<()> {
    let piece = piece.max(1);
    let Some(pool) = d.pool() else {
        return out.chunks_mut(piece).enumerate().try_for_each(|(i, part)| f(i * piece, part));
    };
    let failure = FirstError::default();
    pool.chunks(out, piece, out.len() as f64 * ns, &|i, part| failure.unless(|| f(i * piece, part)));
    failure.result()
}

/// Calls `f` for each, on several threads if the whole, of `ns` nanoseconds of one, is worth it.
pub(crate) fn for_each_task<X: Send>(
    d: &CpuDevice,
    ns: f64,
    all: &mut [X],
    f: impl Fn(&mut X) -> Result<()> + Send + Sync,
) -> Result<()> {
    if let [one] = all {
        return f(one);
    }
    // `try_for_each_piece` asks for the time of one.
    try_for_each_piece(d, all, 1, ns / all.len() as f64, &|_, one| one.iter_mut().try_for_each(&f))
}

/// Calls `f` for each task, on several threads if the whole work, of `ns` nanoseconds, takes long
/// enough; gives an error of a task; the tasks after it may be left out.
pub(crate) fn try_for_each_task<X: Send>(
    d: &CpuDevice,
    tasks: Vec<X>,
    ns: f64,
    f: &(dyn Fn(X) -> Result<()> + Sync),
) -> Result<()> {
    let Some(pool) = d.pool() else { return tasks.into_iter().try_for_each(f) };
    let mut tasks: Vec<Option<X>> = tasks.into_iter().map(Some).collect();
    let failure = FirstError::default();
    pool.chunks(&mut tasks, 1, ns, &|_, task| {
        let task = task[0].take().expect("each task is done once");
        failure.unless(|| f(task));
    });
    failure.result()
}

/// Takes one of a work's tasks, if any is left.
pub(crate) type NextTask<'a, 'x, X> = dyn FnMut() -> Option<&'x mut X> + 'a;

/// Calls `f` on several threads if the whole work, of `ns` nanoseconds, takes long enough. Each
/// call takes tasks until none is left, so it can prepare once what serves all of them. It begins
/// with neighbours of its own, and then takes what others have last.
pub(crate) fn try_drain_tasks<'x, X: Send>(
    d: &CpuDevice,
    tasks: &'x mut [X],
    ns: f64,
    f: &(dyn Fn(&mut NextTask<'_, 'x, X>) -> Result<()> + Sync),
) -> Result<()> {
    let count = d.threads().min(tasks.len());
    if count < 2 || ns == 0.0 {
        let mut tasks = tasks.iter_mut();
        return f(&mut || tasks.next());
    }
    let lanes: Vec<_> =
        tasks.chunks_mut(tasks.len().div_ceil(count)).map(|lane| Mutex::new(lane.iter_mut())).collect();
    let lane = |i: usize| lanes[i].lock().unwrap_or_else(PoisonError::into_inner);
    let take = |me: usize| {
        // No thread holds two locks: those who take from each other would wait for ever.
        let own = lane(me).next();
        own.or_else(|| (1..lanes.len()).find_map(|i| lane((me + i) % lanes.len()).next_back()))
    };
    let mut threads: Vec<_> = (0..lanes.len()).collect();
    try_for_each_piece(d, &mut threads, 1, ns / lanes.len() as f64, &|_, me| f(&mut || take(me[0])))
}

/// The first error of several threads.
#[derive(Default)]
struct FirstError {
    happened: AtomicBool,
    error: Mutex<Option<Error>>,
}

impl FirstError {
    /// Does the work, unless other work has failed already.
    fn unless(&self, work: impl FnOnce() -> Result<()>) {
        if !self.happened.load(Relaxed)
            && let Err(e) = work()
        {
            self.happened.store(true, Relaxed);
            self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
        }
    }
    fn result(self) -> Result<()> {
        self.error.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;
    use std::sync::atomic::AtomicUsize;

    /// More than any work that is not shared.
    const LONG_JOB_NS: f64 = 1e9;

    #[test]
    fn tasks_in_turn_are_each_done_once_and_the_first_ones_in_order() {
        for threads in [1, 2, 3, 8] {
            let d = CpuDevice::new(Isa::best(), threads).unwrap();
            for count in [0, 1, 2, 3, 7, 64, 1000] {
                let mut tasks: Vec<(usize, usize)> = (0..count).map(|i| (i, 0)).collect();
                let calls = AtomicUsize::new(0);
                try_drain_tasks(&d, &mut tasks, LONG_JOB_NS, &|next| {
                    calls.fetch_add(1, Relaxed);
                    let lane = count.div_ceil(threads.min(count).max(1)).max(1);
                    let mut before: Option<usize> = None;
                    while let Some((i, done)) = next() {
                        *done += 1;
                        // Those of a lane come one after the other, until others' are taken from
                        // the end.
                        let behind = before.is_some_and(|b| b / lane == *i / lane && *i == b + 1);
                        let another = before.is_none_or(|b| b / lane != *i / lane);
                        let from_the_end = before.is_some_and(|b| b / lane == *i / lane && *i < b);
                        assert!(behind || another || from_the_end, "{i} after {before:?}, {threads} threads");
                        before = Some(*i);
                    }
                    Ok(())
                })
                .unwrap();
                assert!(tasks.iter().all(|&(_, done)| done == 1), "{threads} threads, {count} tasks");
                assert!(calls.into_inner() <= threads.max(1));
            }
        }
    }

    #[test]
    fn an_error_of_a_task_in_turn_is_handed_on() {
        for threads in [1, 3] {
            let d = CpuDevice::new(Isa::best(), threads).unwrap();
            let mut tasks: Vec<usize> = (0..100).collect();
            let e = try_drain_tasks(&d, &mut tasks, LONG_JOB_NS, &|next| {
                while let Some(&mut i) = next() {
                    if i == 70 {
                        return Err(Error::argument("the seventieth"));
                    }
                }
                Ok(())
            });
            assert!(e.unwrap_err().to_string().contains("the seventieth"), "{threads} threads");
        }
    }
}
