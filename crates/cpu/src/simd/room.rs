//! Memory for results, written once: neither zeroed first nor read.
//!
//! Zeroing costs as much as a cheap formula: both are bound by memory. A [`Room`] is written front to back and counts
//! what was written, so that nothing else decides which elements exist.

use crate::CpuDevice;
use crate::isa::Kernel;
use crate::memory::with_capacity;
use crate::parallel::try_tasks;
use elinvar_core::{Element, Result};
use std::mem::MaybeUninit;
use std::ops::{Range, RangeInclusive};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

/// Elements of a [`Block`]: six blocks of f64, for the operands of the largest formula, stay in a first-level cache.
pub(crate) const BLOCK: usize = 512;

/// Elements that a kernel computes, by number. Unlike a closure, `at` can be `#[inline(always)]`, and must be: in a
/// function of its own it would be compiled without the kernel's instruction set.
pub(crate) trait At<T>: Copy {
    /// Element `i`.
    fn at(&self, i: usize) -> T;
    /// The same, with operands cut to `n` elements, so that the compiler sees that `i < n` needs no check.
    #[must_use]
    fn cut(self, n: usize) -> Self;
}

/// A kernel that fills the room.
pub(crate) struct Compute<'a, 'r, T, A>(pub(crate) A, pub(crate) &'a mut Room<'r, T>);

impl<T: Copy, A: At<T>> Kernel for Compute<'_, '_, T, A> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let n = self.1.left();
        let elements = self.0.cut(n);
        for (i, slot) in self.1.slots[self.1.written..][..n].iter_mut().enumerate() {
            slot.write(elements.at(i));
        }
        self.1.written += n;
    }
}

/// A part of memory to be written, and how much of it was.
pub(crate) struct Room<'a, T> {
    slots: &'a mut [MaybeUninit<T>],
    /// So many slots, from the first on, hold a value.
    written: usize,
}

impl<'a, T: Copy> Room<'a, T> {
    /// The slots that are still to be written, by kernels of this module, which then [count](Room::count) them.
    #[inline(always)]
    pub(super) fn unwritten(&mut self) -> &mut [MaybeUninit<T>] {
        &mut self.slots[self.written..]
    }
    /// The next `n` slots were written.
    #[inline(always)]
    pub(super) fn count(&mut self, n: usize) {
        self.written += n;
    }
    fn assert_full(&self) {
        assert_eq!(self.left(), 0, "cpu: a part of a result was left out");
    }
    fn new(slots: &'a mut [MaybeUninit<T>]) -> Self {
        Room { slots, written: 0 }
    }
    /// How many elements are still to be written.
    #[inline(always)]
    pub(crate) fn left(&self) -> usize {
        self.slots.len() - self.written
    }
    /// Writes the next `n` elements: `f(0)`, `f(1)`, ...
    #[inline(always)]
    pub(crate) fn extend(&mut self, n: usize, mut f: impl FnMut(usize) -> T) {
        for (i, slot) in self.slots[self.written..][..n].iter_mut().enumerate() {
            slot.write(f(i));
        }
        self.written += n;
    }
    /// Lets `f` fill the next `n` elements.
    #[inline]
    pub(crate) fn part(&mut self, n: usize, f: impl FnOnce(&mut Room<'_, T>)) {
        let mut room = Room::new(&mut self.slots[self.written..][..n]);
        f(&mut room);
        room.assert_full();
        self.written += n;
    }
    /// The next `n` elements, written as `zero`, to be overwritten in any order.
    #[allow(unsafe_code, reason = "reading what was written")]
    pub(crate) fn zeroed(&mut self, n: usize, zero: T) -> &mut [T] {
        let part = &mut self.slots[self.written..][..n];
        part.fill(MaybeUninit::new(zero));
        self.written += n;
        // SAFETY: each of these slots was written by `fill`.
        unsafe { part.assume_init_mut() }
    }
    /// The next elements, written as a copy of `part`, to be changed in any order.
    #[allow(unsafe_code, reason = "reading what was written")]
    pub(crate) fn copied(&mut self, part: &[T]) -> &mut [T] {
        let slots = &mut self.slots[self.written..][..part.len()];
        slots.write_copy_of_slice(part);
        self.written += part.len();
        // SAFETY: each of these slots was written from `part`, which is as long.
        unsafe { slots.assume_init_mut() }
    }
    /// Writes a copy of `part`.
    #[inline(always)]
    pub(crate) fn copy(&mut self, part: &[T]) {
        self.slots[self.written..][..part.len()].write_copy_of_slice(part);
        self.written += part.len();
    }
}

/// Room for a few elements that are read again soon.
pub(crate) struct Block<T, const MOST: usize = BLOCK> {
    slots: [MaybeUninit<T>; MOST],
    /// So many slots, from the first on, hold a value.
    written: usize,
}

impl<T: Copy> Block<T> {
    pub(crate) const fn new() -> Self {
        Block::of_any_size()
    }
}

impl<T: Copy, const MOST: usize> Block<T, MOST> {
    pub(crate) const fn of_any_size() -> Self {
        Block { slots: [MaybeUninit::uninit(); MOST], written: 0 }
    }
    /// Lets `f` write up to `n` elements, at most `MOST`, and gives those that it wrote.
    #[inline(always)]
    pub(crate) fn fill(&mut self, n: usize, f: impl FnOnce(&mut Room<'_, T>)) -> &[T] {
        self.written = 0;
        let mut room = Room::new(&mut self.slots[..n]);
        f(&mut room);
        self.written = room.written;
        self.held()
    }
    /// What was written last.
    #[inline(always)]
    #[allow(unsafe_code, reason = "reading what was written")]
    pub(crate) fn held(&self) -> &[T] {
        // SAFETY: `written` is 0 or what a `Room` over the same slots counted, and its methods write each slot before
        // they count it.
        unsafe { self.slots[..self.written].assume_init_ref() }
    }
}

/// Elements that are made alone to see how long one takes.
const PROBE: usize = 2048;
/// Elements that are worth several threads whatever is done to them: copying so many takes four microseconds.
const MANY: usize = 1 << 15;
/// Nanoseconds that an element takes at least.
const LEAST: f64 = 0.12;
/// Sizes of the pieces that many elements are cut into.
const PIECES: RangeInclusive<usize> = 1 << 13..=1 << 17;

/// Memory to be written once, and how much of it was.
struct Fresh<T> {
    v: Vec<T>,
    len: usize,
    written: AtomicUsize,
}

/// Room in it, and where to count what was written.
type Part<'a, T> = (Room<'a, T>, &'a AtomicUsize);

impl<T: Element> Fresh<T> {
    /// # Errors
    /// `OutOfMemory`.
    fn new(len: usize) -> Result<Self> {
        Ok(Fresh { v: with_capacity(len)?, len, written: AtomicUsize::new(0) })
    }
    /// Room for the elements from `first` on, in parts of `piece` elements (the last may be shorter); each is to be
    /// [closed](close).
    fn parts(&mut self, elements: Range<usize>, piece: usize) -> impl Iterator<Item = Part<'_, T>> {
        let slots = &mut self.v.spare_capacity_mut()[..self.len][elements];
        let written = &self.written;
        slots.chunks_mut(piece.max(1)).map(move |slots| (Room::new(slots), written))
    }
    /// What was written.
    #[allow(unsafe_code, reason = "a vector of what was written")]
    fn finish(mut self) -> Vec<T> {
        assert_eq!(*self.written.get_mut(), self.len, "cpu: a part of a result was left out");
        // SAFETY: `written` is the sum of the slots of rooms that were found full by `close`. The callers in this file
        // give out each slot in one room, so all `len` of them are written.
        unsafe { self.v.set_len(self.len) };
        self.v
    }
}

/// Counts a room that is full.
fn close<T: Copy>((room, written): Part<'_, T>) {
    room.assert_full();
    written.fetch_add(room.slots.len(), Relaxed);
}

/// A vector of `len` elements. `f(start, room)` is to fill the room with the elements from number `start` on; it is
/// called for several parts, on several threads if there are many, or if the first part says that this is worth it. Parts
/// start at multiples of `unit`.
///
/// # Errors
/// `OutOfMemory`; those of `f`.
pub(crate) fn fresh<T: Element>(
    d: &CpuDevice,
    len: usize,
    unit: usize,
    f: &(dyn Fn(usize, &mut Room<'_, T>) -> Result<()> + Sync),
) -> Result<Vec<T>> {
    // One is what most results are, and small ones pay for every step that is taken here.
    if is_alone(d, len, unit) {
        let mut all = Fresh::new(len)?;
        all.parts(0..len, len).try_for_each(|mut part| f(0, &mut part.0).map(|()| close(part)))?;
        return Ok(all.finish());
    }
    let mut all = fresh_many(d, len, unit, 1, &|start, rooms| f(start, &mut rooms[0]))?;
    Ok(all.pop().expect("one was asked for"))
}

/// As [`fresh`], by the caller alone, for results that are too few for threads.
///
/// # Errors
/// `OutOfMemory`.
#[allow(unsafe_code, reason = "a vector of what was written")]
pub(crate) fn fresh_few<T: Element>(len: usize, f: impl FnOnce(&mut Room<'_, T>)) -> Result<Vec<T>> {
    let mut v = with_capacity(len)?;
    let mut room = Room::new(&mut v.spare_capacity_mut()[..len]);
    f(&mut room);
    room.assert_full();
    // SAFETY: the room over the first `len` slots is full, and its methods write each slot before they count it.
    unsafe { v.set_len(len) };
    Ok(v)
}

/// Is a result of so many elements one for [`fresh_few`]?
pub(crate) fn is_few(d: &CpuDevice, len: usize) -> bool {
    is_alone(d, len, BLOCK)
}

/// As [`fresh`], `count` vectors at once: `f(start, rooms)` is to fill all rooms.
///
/// # Errors
/// `OutOfMemory`; those of `f`.
pub(crate) fn fresh_many<T: Element>(
    d: &CpuDevice,
    len: usize,
    unit: usize,
    count: usize,
    f: &(dyn Fn(usize, &mut [Room<'_, T>]) -> Result<()> + Sync),
) -> Result<Vec<Vec<T>>> {
    let mut all = (0..count).map(|_| Fresh::new(len)).collect::<Result<Vec<_>>>()?;
    let make = |start: usize, parts: Vec<Part<'_, T>>| {
        let (mut rooms, written): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        f(start, &mut rooms)?;
        rooms.into_iter().zip(written).for_each(close);
        Ok(())
    };
    let (mut done, mut ns) = (0, LEAST);
    if len == 0 {
        // Nothing is no part of anything.
    } else if is_alone(d, len, unit) {
        make(0, all.iter_mut().flat_map(|v| v.parts(0..len, len)).collect())?;
        done = len;
    } else if len < MANY {
        done = PROBE.next_multiple_of(unit);
        let clock = Instant::now();
        make(0, all.iter_mut().flat_map(|v| v.parts(0..done, done)).collect())?;
        ns = clock.elapsed().as_nanos() as f64 / done as f64;
    }
    let rest = len - done;
    // Several for each thread: one that is late should not be waited for.
    let piece = match done {
        0 => (rest / (8 * d.threads())).clamp(*PIECES.start(), *PIECES.end()),
        _ => rest / (2 * d.threads()),
    };
    let piece = piece.next_multiple_of(unit).max(unit);
    let mut cuts: Vec<_> = all.iter_mut().map(|v| v.parts(done..len, piece)).collect();
    let tasks = (0..rest.div_ceil(piece))
        .map(|i| (done + i * piece, cuts.iter_mut().map(|c| c.next().expect("of one length")).collect()))
        .collect();
    try_tasks(d, tasks, rest as f64 * ns, |(start, parts)| make(start, parts))?;
    drop(cuts);
    Ok(all.into_iter().map(Fresh::finish).collect())
}

/// Whether a result is one part.
fn is_alone(d: &CpuDevice, len: usize, unit: usize) -> bool {
    d.threads() == 1 || len <= 2 * PROBE.next_multiple_of(unit)
}

/// As [`fresh`], in pieces of a given size; `ns` is an estimate for one element.
///
/// # Errors
/// `OutOfMemory`; those of `f`.
pub(crate) fn fresh_pieces<T: Element>(
    d: &CpuDevice,
    len: usize,
    piece: usize,
    ns: f64,
    f: &(dyn Fn(usize, &mut Room<'_, T>) -> Result<()> + Sync),
) -> Result<Vec<T>> {
    let mut all = Fresh::new(len)?;
    let tasks = all.parts(0..len, piece).enumerate().collect();
    try_tasks(d, tasks, len as f64 * ns, |(i, mut part): (usize, Part<'_, T>)| {
        f(i * piece, &mut part.0).map(|()| close(part))
    })?;
    Ok(all.finish())
}

/// Two vectors of `len` elements that are made together. `f(start, room, room)` is to fill both rooms with the elements from
/// number `start` on, `piece` of them or what is left; `ns` is an estimate for one element.
///
/// # Errors
/// `OutOfMemory`; those of `f`.
pub(crate) fn fresh_both<A: Element, B: Element>(
    d: &CpuDevice,
    len: usize,
    piece: usize,
    ns: f64,
    f: &(dyn Fn(usize, &mut Room<'_, A>, &mut Room<'_, B>) -> Result<()> + Sync),
) -> Result<(Vec<A>, Vec<B>)> {
    let (mut all_a, mut all_b) = (Fresh::new(len)?, Fresh::new(len)?);
    let tasks = all_a.parts(0..len, piece).zip(all_b.parts(0..len, piece)).enumerate().collect();
    try_tasks(d, tasks, len as f64 * ns, |(i, (mut a, mut b)): (usize, (Part<'_, A>, Part<'_, B>))| {
        f(i * piece, &mut a.0, &mut b.0)?;
        close(a);
        close(b);
        Ok(())
    })?;
    Ok((all_a.finish(), all_b.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;
    use elinvar_core::Error;

    #[test]
    fn both_of_two_are_made_once_and_in_place() {
        for (threads, len, piece) in [(1, 10, 3), (2, 0, 5), (2, 100_000, 64), (3, 1000, 2000)] {
            let d = CpuDevice::new(Isa::best(), threads).unwrap();
            let made = fresh_both(&d, len, piece, 10.0, &|start, a, b| {
                a.extend(a.left(), |i| (start + i) as i32);
                b.extend(b.left(), |i| (start + i) as f64);
                Ok(())
            });
            let (a, b) = made.unwrap();
            assert!(a.into_iter().eq(0..len as i32) && b.iter().enumerate().all(|(i, &x)| x == i as f64));
            let refused = fresh_both::<u8, u8>(&d, 9, 2, 1.0, &|_, _, _| Err(Error::argument("no")));
            assert!(refused.is_err());
        }
    }

    #[test]
    fn every_element_is_made_once_and_in_its_place() {
        for threads in [1, 2, 3, 8] {
            let d = CpuDevice::new(Isa::best(), threads).unwrap();
            for (len, unit) in [0, 1, BLOCK, PROBE, 2 * PROBE, 2 * PROBE + 1, MANY, 100_000]
                .map(|n| (n, [1, 7, BLOCK][n % 3]))
            {
                let v = fresh(&d, len, unit, &|start, room| {
                    assert!(start.is_multiple_of(unit));
                    room.extend(room.left(), |i| (start + i) as i32);
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
        let _ = fresh(&d, 3, 1, &|_, room: &mut Room<'_, u8>| {
            room.copy(&[1, 2]);
            Ok(())
        });
    }

    #[test]
    fn an_error_is_handed_on() {
        let d = CpuDevice::new(Isa::best(), 2).unwrap();
        let v = fresh::<u8>(&d, 100_000, 1, &|_, _| Err(Error::argument("no")));
        assert!(v.is_err());
        assert!(fresh::<i64>(&d, usize::MAX / 32, 1, &|_, _| Ok(())).is_err());
    }
}
