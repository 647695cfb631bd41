//! Parallel fill: allocates uninitialised output once, cuts it into contiguous pieces, and lets
//! threads write them.
//!
//! The piece size follows from a cost estimate, a hint, or a timed first piece. How it can be
//! wrong: by a piece that is not written whole. Each [`UninitSlice`] is checked to be full before
//! the vector gets its length.

use crate::CpuDevice;
use crate::runtime::memory::with_capacity;
use crate::runtime::parallel::{try_for_each_piece, try_for_each_task};
use crate::runtime::plan::{
    ALWAYS_PARALLEL_MIN_ELEMENTS, MIN_NS_PER_ELEMENT, PARALLEL_MIN_NS, PROBE_ELEMENTS, SMALL_JOB_MAX_NS,
};
use elinvar_core::clock::Instant;
use elinvar_core::{Element, HostVec, Result};
use elinvar_simd::LINE;
use elinvar_simd::uninit::{BLOCK_ELEMENTS, UninitSlice};
use std::mem::MaybeUninit;
use std::ops::RangeInclusive;

/// Fills a room with the results from a number on.
pub(crate) type FillFrom<'a, T> = dyn Fn(usize, &mut UninitSlice<'_, T>) -> Result<()> + Sync + 'a;

/// Sizes of the pieces that many elements are cut into.
const PIECE_ELEMENTS: RangeInclusive<usize> = 1 << 13..=1 << 17;

/// Lets `f` fill all of the slots.
fn fill<T: Copy>(
    slots: &mut [MaybeUninit<T>],
    f: impl FnOnce(&mut UninitSlice<'_, T>) -> Result<()>,
) -> Result<()> {
    let mut dst = UninitSlice::new(slots);
    f(&mut dst)?;
    dst.assert_full();
    Ok(())
}

/// Memory to be written once.
struct UninitVec<T> {
    v: HostVec<T>,
    len: usize,
}

impl<T: Element> UninitVec<T> {
    /// # Errors
    /// `OutOfMemory`.
    fn new(len: usize) -> Result<Self> {
        Ok(UninitVec { v: with_capacity(len)?, len })
    }
    /// All slots, each to be in one room.
    fn slots(&mut self) -> &mut [MaybeUninit<T>] {
        &mut self.v.spare_capacity_mut()[..self.len]
    }
    /// The vector.
    ///
    /// # Safety
    /// Each of the slots was in a room that was found full. None is counted: a line of counts that
    /// goes from core to core took as long as adding some thousand elements.
    #[allow(unsafe_code, reason = "a vector of what was written")]
    unsafe fn finish(mut self) -> HostVec<T> {
        // SAFETY: as above.
        unsafe { self.v.set_len(self.len) };
        self.v
    }
}

/// What is known of how long elements take to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CostHint {
    /// As long as it takes to read and write them.
    Light,
    /// Nothing: some are made to see.
    Unknown,
}

/// How a result is cut for threads.
struct FillSplit {
    /// So many elements are made already.
    done: usize,
    /// Size of the pieces of the others.
    piece: usize,
    /// An estimate for one element.
    ns: f64,
}

impl FillSplit {
    /// `make(n)` makes the first `n` elements: all of a few, or some of more, to see how long they
    /// take. What is cut anywhere is cut where cache lines begin, the first of them after `to_line`
    /// elements. Compiled once, and not for each type.
    fn new(
        d: &CpuDevice,
        len: usize,
        unit: usize,
        to_line: usize,
        work: CostHint,
        make: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<FillSplit> {
        let (mut done, mut ns) = (if unit == 1 { to_line } else { 0 }, MIN_NS_PER_ELEMENT);
        let is_little = work == CostHint::Light && len as f64 * MIN_NS_PER_ELEMENT < PARALLEL_MIN_NS;
        if is_little || is_one_piece(d, len, unit) {
            done = if len < ALWAYS_PARALLEL_MIN_ELEMENTS { len } else { done };
            make(done)?;
            return Ok(FillSplit { done, piece: len.max(1), ns });
        }
        if len < ALWAYS_PARALLEL_MIN_ELEMENTS && work == CostHint::Unknown {
            done += PROBE_ELEMENTS.next_multiple_of(unit);
            let clock = Instant::now();
            make(done)?;
            ns = clock.elapsed().as_nanos() as f64 / done as f64;
        } else if done > 0 {
            make(done)?;
        }
        let rest = len - done;
        let takes = rest as f64 * ns;
        let piece = if takes < PARALLEL_MIN_NS {
            rest
        } else if takes < SMALL_JOB_MAX_NS {
            rest.div_ceil(d.threads())
        } else if len < ALWAYS_PARALLEL_MIN_ELEMENTS {
            // Several for each thread: one that is late should not be waited for.
            rest / (2 * d.threads())
        } else {
            (rest / (8 * d.threads())).clamp(*PIECE_ELEMENTS.start(), *PIECE_ELEMENTS.end())
        };
        let unit = if unit == 1 { LINE } else { unit };
        Ok(FillSplit { done, piece: piece.next_multiple_of(unit).max(unit), ns })
    }
}

/// Elements before the first that begins a cache line. A store across two lines takes two; and
/// memory that the system gave for one large tensor each begins at the same place within a line, so
/// that what is read is aligned then, too.
fn to_line<T>(slots: &[MaybeUninit<T>]) -> usize {
    // An element that is across two lines has no such place.
    Some(slots.as_ptr().align_offset(LINE)).filter(|n| n * size_of::<T>() < LINE).unwrap_or(0)
}

/// Whether a result is one part.
fn is_one_piece(d: &CpuDevice, len: usize, unit: usize) -> bool {
    d.threads() == 1 || len <= 2 * PROBE_ELEMENTS.next_multiple_of(unit)
}

/// A vector of `len` elements. `f(start, dst)` is to fill the room with the elements from number
/// `start` on; it is called for several parts, on several threads if there are many, or if the
/// first part says that this is worth it. Parts start at multiples of `unit`; with 1, where cache
/// lines begin.
///
/// # Errors
/// `OutOfMemory`; those of `f`.
pub(crate) fn parallel_fill<T: Element>(
    d: &CpuDevice,
    len: usize,
    unit: usize,
    f: &(dyn Fn(usize, &mut UninitSlice<'_, T>) -> Result<()> + Sync),
) -> Result<HostVec<T>> {
    parallel_fill_hinted(d, len, unit, CostHint::Unknown, f)
}

/// As [`parallel_fill`], if something is known of the work.
///
/// # Errors
/// `OutOfMemory`; those of `f`.
pub(crate) fn parallel_fill_hinted<T: Element>(
    d: &CpuDevice,
    len: usize,
    unit: usize,
    work: CostHint,
    f: &(dyn Fn(usize, &mut UninitSlice<'_, T>) -> Result<()> + Sync),
) -> Result<HostVec<T>> {
    let mut all = UninitVec::new(len)?;
    let slots = all.slots();
    let to_line = to_line(slots);
    let FillSplit { done, piece, ns } =
        FillSplit::new(d, len, unit, to_line, work, &mut |n| fill(&mut slots[..n], |dst| f(0, dst)))?;
    try_for_each_piece(d, &mut slots[done..], piece, ns, &|start, part| {
        fill(part, |dst| f(done + start, dst))
    })?;
    // SAFETY: the first `done` slots, then all pieces of the others, were each in a room of `fill`,
    // which returned well.
    #[allow(unsafe_code, reason = "a vector of what was written")]
    Ok(unsafe { all.finish() })
}

/// As [`parallel_fill`], in pieces of a given size; `ns` is an estimate for one element.
///
/// # Errors
/// `OutOfMemory`; those of `f`.
pub(crate) fn fill_pieces<T: Element>(
    d: &CpuDevice,
    len: usize,
    piece: usize,
    ns: f64,
    f: &(dyn Fn(usize, &mut UninitSlice<'_, T>) -> Result<()> + Sync),
) -> Result<HostVec<T>> {
    let mut all = UninitVec::new(len)?;
    try_for_each_piece(d, all.slots(), piece, ns, &|start, part| fill(part, |dst| f(start, dst)))?;
    // SAFETY: all pieces were each in a room of `fill`, which returned well.
    #[allow(unsafe_code, reason = "a vector of what was written")]
    Ok(unsafe { all.finish() })
}

/// As [`parallel_fill`], by the caller alone, for results that are too few for threads.
///
/// # Errors
/// `OutOfMemory`.
#[allow(unsafe_code, reason = "a vector of what was written")]
#[inline(always)]
pub(crate) fn serial_fill<T: Element>(
    len: usize,
    f: impl FnOnce(&mut UninitSlice<'_, T>),
) -> Result<HostVec<T>> {
    let mut v = with_capacity(len)?;
    let mut dst = UninitSlice::new(&mut v.spare_capacity_mut()[..len]);
    f(&mut dst);
    dst.assert_full();
    // SAFETY: the room over the first `len` slots is full, and its methods write each slot before
    // they count it.
    unsafe { v.set_len(len) };
    Ok(v)
}

/// Is a result of so many elements one for [`serial_fill`]?
pub(crate) fn is_serial(d: &CpuDevice, len: usize) -> bool {
    is_one_piece(d, len, BLOCK_ELEMENTS)
}

/// Two vectors, cut into pieces of these sizes side by side: `f(i, rooms)` is to fill those of
/// piece `i`; all of it takes about `ns` nanoseconds.
///
/// # Errors
/// `OutOfMemory`; those of `f`.
pub(crate) fn fill_two<A: Element, B: Element>(
    d: &CpuDevice,
    sizes: &[[usize; 2]],
    ns: f64,
    f: &(dyn Fn(usize, &mut UninitSlice<'_, A>, &mut UninitSlice<'_, B>) -> Result<()> + Sync),
) -> Result<(HostVec<A>, HostVec<B>)> {
    let mut a = UninitVec::new(sizes.iter().map(|s| s[0]).sum())?;
    let mut b = UninitVec::new(sizes.iter().map(|s| s[1]).sum())?;
    let (mut left, mut right) = (a.slots(), b.slots());
    let parts = sizes.iter().map(|s| (split_off(&mut left, s[0]), split_off(&mut right, s[1])));
    let parts = parts.enumerate().collect();
    try_for_each_task(d, parts, ns, &|(i, (left, right))| fill(left, |x| fill(right, |y| f(i, x, y))))?;
    // SAFETY: the sizes are those of the vectors, and each part of that size was in a room of
    // `fill`, which returned well.
    #[allow(unsafe_code, reason = "a vector of what was written")]
    Ok(unsafe { (a.finish(), b.finish()) })
}

/// Slots.
type Slots<'a, T> = &'a mut [MaybeUninit<T>];

/// Takes the first `n` slots off a part.
fn split_off<'a, T>(slots: &mut Slots<'a, T>, n: usize) -> Slots<'a, T> {
    slots.split_off_mut(..n).expect("a part is within the whole")
}

/// As [`parallel_fill`], `count` vectors at once: `f(start, rooms)` is to fill all rooms.
///
/// # Errors
/// `OutOfMemory`; those of `f`.
pub(crate) fn parallel_fill_many<T: Element>(
    d: &CpuDevice,
    len: usize,
    unit: usize,
    count: usize,
    f: &(dyn Fn(usize, &mut [UninitSlice<'_, T>]) -> Result<()> + Sync),
) -> Result<Vec<HostVec<T>>> {
    let mut all = (0..count).map(|_| UninitVec::new(len)).collect::<Result<Vec<_>>>()?;
    let make = |start: usize, parts: Vec<Slots<'_, T>>| {
        let mut rooms: Vec<_> = parts.into_iter().map(UninitSlice::new).collect();
        f(start, &mut rooms)?;
        rooms.iter().for_each(UninitSlice::assert_full);
        Ok(())
    };
    let mut parts: Vec<Slots<'_, T>> = all.iter_mut().map(UninitVec::slots).collect();
    let mut split = |n: usize| -> Vec<_> { parts.iter_mut().map(|part| split_off(part, n)).collect() };
    let FillSplit { done, piece, ns } =
        FillSplit::new(d, len, unit, 0, CostHint::Unknown, &mut |n| make(0, split(n)))?;
    let rest = len - done;
    let tasks =
        (0..rest).step_by(piece).map(|start| (done + start, split(piece.min(rest - start)))).collect();
    try_for_each_task(d, tasks, rest as f64 * ns, &|(start, parts)| make(start, parts))?;
    // SAFETY: the first `done` slots of each, then all pieces of the others, were each in a room
    // that `make` found full.
    #[allow(unsafe_code, reason = "vectors of what was written")]
    Ok(all.into_iter().map(|fresh| unsafe { fresh.finish() }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;
    use elinvar_core::Error;

    #[test]
    fn every_element_is_made_once_and_in_its_place() {
        for threads in [1, 2, 3, 8] {
            let d = CpuDevice::new(Isa::best(), threads).unwrap();
            for (len, unit) in [
                0,
                1,
                BLOCK_ELEMENTS,
                PROBE_ELEMENTS,
                2 * PROBE_ELEMENTS,
                2 * PROBE_ELEMENTS + 1,
                ALWAYS_PARALLEL_MIN_ELEMENTS,
                100_000,
            ]
            .map(|n| (n, [1, 7, BLOCK_ELEMENTS][n % 3]))
            {
                let v = parallel_fill(&d, len, unit, &|start, dst| {
                    assert!(start.is_multiple_of(unit));
                    dst.extend(dst.remaining(), |i| (start + i) as i32);
                    Ok(())
                });
                assert!(v.unwrap().into_iter().eq(0..len as i32), "{len} elements, {threads} threads");
            }
        }
    }

    #[test]
    #[should_panic(expected = "left out")]
    fn what_is_left_out_is_noticed() {
        let d = CpuDevice::new(Isa::best(), 1).unwrap();
        let _ = parallel_fill(&d, 3, 1, &|_, dst: &mut UninitSlice<'_, u8>| {
            dst.copy(&[1, 2]);
            Ok(())
        });
    }

    #[test]
    fn an_error_is_handed_on() {
        let d = CpuDevice::new(Isa::best(), 2).unwrap();
        let v = parallel_fill::<u8>(&d, 100_000, 1, &|_, _| Err(Error::argument("no")));
        assert!(v.is_err());
        assert!(parallel_fill::<i64>(&d, usize::MAX / 32, 1, &|_, _| Ok(())).is_err());
    }
}
