//! Memory for results, written once: neither zeroed first nor read.
//!
//! Zeroing costs as much as a cheap formula: both are bound by memory. A [`Room`] is written front to back and counts
//! what was written, so that nothing else decides which elements exist.

use crate::CpuDevice;
use crate::isa::Kernel;
use crate::memory::with_capacity;
use crate::parallel::{try_pieces, try_tasks};
use elinvar_core::{Element, Result};
use std::mem::MaybeUninit;
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
const PROBE: usize = 4096;
/// Nanoseconds of work that a piece for another thread should have at least: many times what handing it over costs.
const PIECE: f64 = 20_000.0;

/// A vector of `len` elements. `f(start, room)` is to fill the room with the elements from number `start` on; it is
/// called for several parts, on several threads if the first part says that this is worth it. Parts start at multiples
/// of `unit`.
///
/// # Errors
/// `OutOfMemory`; those of `f`.
pub(crate) fn fresh<T: Element>(
    d: &CpuDevice,
    len: usize,
    unit: usize,
    f: &(dyn Fn(usize, &mut Room<'_, T>) -> Result<()> + Sync),
) -> Result<Vec<T>> {
    let mut v = with_capacity(len)?;
    let slots = &mut v.spare_capacity_mut()[..len];
    if d.threads() == 1 || len <= 2 * PROBE.next_multiple_of(unit) {
        let mut room = Room::new(slots);
        f(0, &mut room)?;
        room.assert_full();
    } else {
        parts(d, vec![slots], unit, &|start, rooms| f(start, &mut rooms[0]))?;
    }
    // SAFETY: all `len` slots were asserted to be written, by `parts` or above.
    #[allow(unsafe_code, reason = "a vector of what was written")]
    unsafe {
        v.set_len(len);
    }
    Ok(v)
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
    let mut all = (0..count).map(|_| with_capacity(len)).collect::<Result<Vec<Vec<T>>>>()?;
    parts(d, all.iter_mut().map(|v| &mut v.spare_capacity_mut()[..len]).collect(), unit, f)?;
    for v in &mut all {
        // SAFETY: `parts` asserted that all `len` slots were written.
        #[allow(unsafe_code, reason = "a vector of what was written")]
        unsafe {
            v.set_len(len);
        }
    }
    Ok(all)
}

/// Lets `f` fill memories of one length, part by part, and asserts that it did.
fn parts<T: Element>(
    d: &CpuDevice,
    mut all: Vec<&mut [MaybeUninit<T>]>,
    unit: usize,
    f: &(dyn Fn(usize, &mut [Room<'_, T>]) -> Result<()> + Sync),
) -> Result<()> {
    let part = |start: usize, slots: Vec<&mut [MaybeUninit<T>]>| -> Result<()> {
        let mut rooms: Vec<Room<'_, T>> = slots.into_iter().map(Room::new).collect();
        f(start, &mut rooms)?;
        rooms.iter().for_each(Room::assert_full);
        Ok(())
    };
    let len = all[0].len();
    let probe = PROBE.next_multiple_of(unit);
    if d.threads() == 1 || len <= 2 * probe {
        return part(0, all);
    }
    let first = all.iter_mut().map(|slots| slots.split_off_mut(..probe).expect("it is longer")).collect();
    let clock = Instant::now();
    part(0, first)?;
    let ns = (clock.elapsed().as_nanos() as f64 / probe as f64).max(0.01);
    let rest = len - probe;
    // At least two pieces per thread, so that one that was late to wake up does not decide.
    let piece = ((PIECE / ns) as usize).min(rest / (2 * d.threads())).max(PROBE).next_multiple_of(unit);
    let mut cuts: Vec<_> = all.into_iter().map(|slots| slots.chunks_mut(piece)).collect();
    let tasks = (0..rest.div_ceil(piece))
        .map(|i| (probe + i * piece, cuts.iter_mut().map(|c| c.next().expect("of one length")).collect()));
    try_tasks(d, tasks.collect(), rest as f64 * ns, |(start, slots)| part(start, slots))
}

/// As [`fresh`], in pieces of a given size; `ns` is an estimate for one element.
///
/// # Errors
/// `OutOfMemory`; those of `f`.
#[allow(unsafe_code, reason = "a vector of what was written")]
pub(crate) fn fresh_pieces<T: Element>(
    d: &CpuDevice,
    len: usize,
    piece: usize,
    ns: f64,
    f: &(dyn Fn(usize, &mut Room<'_, T>) -> Result<()> + Sync),
) -> Result<Vec<T>> {
    let mut v = with_capacity(len)?;
    try_pieces(d, &mut v.spare_capacity_mut()[..len], piece, ns, |start, slots| {
        let mut room = Room::new(slots);
        f(start, &mut room)?;
        room.assert_full();
        Ok::<(), elinvar_core::Error>(())
    })?;
    // SAFETY: the pieces are all `len` slots, and each was asserted to be written from its first slot to its last.
    unsafe { v.set_len(len) };
    Ok(v)
}

/// Two vectors of `len` elements that are made together. `f(start, room, room)` is to fill both rooms with the elements from
/// number `start` on, `piece` of them or what is left; `ns` is an estimate for one element.
///
/// # Errors
/// `OutOfMemory`; those of `f`.
#[allow(unsafe_code, reason = "vectors of what was written")]
pub(crate) fn fresh_both<A: Element, B: Element>(
    d: &CpuDevice,
    len: usize,
    piece: usize,
    ns: f64,
    f: &(dyn Fn(usize, &mut Room<'_, A>, &mut Room<'_, B>) -> Result<()> + Sync),
) -> Result<(Vec<A>, Vec<B>)> {
    let (mut a, mut b) = (with_capacity(len)?, with_capacity(len)?);
    let piece = piece.max(1);
    let mut parts = elinvar_core::host::with_capacity(len.div_ceil(piece))?;
    let slots = a.spare_capacity_mut()[..len].chunks_mut(piece);
    parts.extend(slots.zip(b.spare_capacity_mut()[..len].chunks_mut(piece)).enumerate());
    try_pieces(d, &mut parts, 1, ns * piece as f64, |_, parts| {
        for (i, (a, b)) in parts {
            let (mut a, mut b) = (Room::new(a), Room::new(b));
            f(*i * piece, &mut a, &mut b)?;
            a.assert_full();
            b.assert_full();
        }
        Ok::<(), elinvar_core::Error>(())
    })?;
    drop(parts);
    // SAFETY: the parts are all `len` slots of both, and each was asserted to be written from its first slot to its last.
    unsafe {
        a.set_len(len);
        b.set_len(len);
    }
    Ok((a, b))
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
            for (len, unit) in
                [0, 1, BLOCK, PROBE, 2 * PROBE, 2 * PROBE + 1, 100_000].map(|n| (n, [1, 7, BLOCK][n % 3]))
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
