//! Memory for results, written once: neither zeroed first nor read.
//!
//! Zeroing costs as much as a cheap formula: both are bound by memory. A [`Room`] is written front to back and counts
//! what was written, so that nothing else decides which elements exist.

use crate::CpuDevice;
use crate::runtime::memory::with_capacity;
use crate::runtime::parallel::{try_pieces, try_tasks};
use crate::runtime::thread_pool::{SMALL, WORTH};
use crate::simd::LINE;
use crate::simd::isa::Kernel;
use elinvar_core::{Element, HostVec, Result};
use std::mem::MaybeUninit;
use std::ops::RangeInclusive;
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

/// Elements that a kernel computes, `W` of them together.
pub(crate) trait Windows<T, const W: usize> {
    /// Writes all those of a window.
    fn fill(&self, number: usize, y: &mut [MaybeUninit<T>; W]);
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
    pub(crate) fn unwritten(&mut self) -> &mut [MaybeUninit<T>] {
        &mut self.slots[self.written..]
    }
    /// The next `n` slots were written.
    #[inline(always)]
    pub(crate) fn count(&mut self, n: usize) {
        self.written += n;
    }
    pub(crate) fn assert_full(&self) {
        assert_eq!(self.left(), 0, "cpu: a part of a result was left out");
    }
    pub(crate) fn new(slots: &'a mut [MaybeUninit<T>]) -> Self {
        Room { slots, written: 0 }
    }
    /// Elements that are there, to be written over.
    #[allow(unsafe_code, reason = "slots that hold a value")]
    pub(crate) fn over(elements: &'a mut [T]) -> Self {
        // SAFETY: what has a value may be looked at as what may have none, and a `Room` writes nothing but values.
        Room::new(unsafe { &mut *(std::ptr::from_mut(elements) as *mut [MaybeUninit<T>]) })
    }
    /// Where the next element goes.
    #[inline(always)]
    pub(crate) fn place(&self) -> *const T {
        self.slots.as_ptr().cast::<T>().wrapping_add(self.written)
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
    /// Writes the next `n` windows, from number 0 on. They are counted together: a count in memory for each is a chain of loads and
    /// stores that wait for each other.
    #[inline(always)]
    pub(crate) fn windows<const W: usize>(&mut self, n: usize, f: &impl Windows<T, W>) {
        let slots = &mut self.slots[self.written..].as_chunks_mut::<W>().0[..n];
        for (number, slots) in slots.iter_mut().enumerate() {
            f.fill(number, slots);
        }
        self.written += n * W;
    }
    /// Writes the next `n` elements, fewer than `W`: the first of a window.
    #[inline(always)]
    pub(crate) fn some_of<const W: usize>(&mut self, n: usize, number: usize, f: &impl Windows<T, W>) {
        let mut all = [MaybeUninit::uninit(); W];
        f.fill(number, &mut all);
        self.slots[self.written..][..n].copy_from_slice(&all[..n]);
        self.written += n;
    }
    /// Writes the first `n` elements of so many windows, one after the other. Where there is room for it a window is written whole: what comes too
    /// much of it is written over.
    #[inline(always)]
    pub(crate) fn heads<const W: usize>(&mut self, count: usize, n: usize, f: &impl Windows<T, W>) {
        assert!(n <= W, "cpu: a window has not so many elements");
        let slots = &mut self.slots[self.written..];
        for number in 0..count {
            let slots = &mut slots[number * n..];
            if let Some(slots) = slots.first_chunk_mut() {
                f.fill(number, slots);
            } else {
                let mut all = [MaybeUninit::uninit(); W];
                f.fill(number, &mut all);
                slots[..n].copy_from_slice(&all[..n]);
            }
        }
        self.written += count * n;
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
    /// Lets `f` write the next elements, and `g` change them.
    #[inline]
    #[allow(unsafe_code, reason = "reading what was written")]
    pub(crate) fn made(&mut self, f: impl FnOnce(&mut Room<'_, T>), g: impl FnOnce(&mut [T])) {
        let mut room = Room::new(&mut self.slots[self.written..]);
        f(&mut room);
        let n = room.written;
        // SAFETY: a `Room` counts what its methods have written, from its first slot on.
        g(unsafe { room.slots[..n].assume_init_mut() });
        self.written += n;
    }
    /// Writes a copy of `part`, the last element first.
    #[inline(always)]
    pub(crate) fn reversed(&mut self, part: &[T]) {
        let slots = &mut self.slots[self.written..][..part.len()];
        slots.iter_mut().zip(part.iter().rev()).for_each(|(slot, &x)| _ = slot.write(x));
        self.written += part.len();
    }
    /// Writes `n` elements more: the last `period` again and again.
    ///
    /// # Panics
    /// If there are no so many.
    pub(crate) fn again(&mut self, period: usize, n: usize) {
        let first = self.written.checked_sub(period).expect("elements that were written");
        let (end, slots) = (self.written + n, &mut self.slots[..self.written + n]);
        while self.written < end {
            // Twice as many each time, of whole periods.
            let some = (self.written - first).min(end - self.written);
            slots.copy_within(first..first + some, self.written);
            self.written += some;
        }
    }
    /// Writes a copy of `part`.
    #[inline(always)]
    pub(crate) fn copy(&mut self, part: &[T]) {
        self.slots[self.written..][..part.len()].write_copy_of_slice(part);
        self.written += part.len();
    }
}

/// Work that moves elements from one place to another and does nothing else with them. What it writes are copies of `data`: it knows
/// nothing of `B` from which it could make another.
pub(crate) trait Moving {
    /// Writes to the room. It must be `#[inline(never)]`, or there would be a copy for each type again.
    fn run<B: Copy>(self, data: &[B], room: &mut Room<'_, B>);
}

/// Moves elements as bits: the work is compiled for each of their four sizes, and not for each of eight types, which was 35 KB more.
#[allow(unsafe_code, reason = "elements as bits")]
pub(crate) fn moving<T: Element>(data: &[T], room: &mut Room<'_, T>, work: impl Moving) {
    fn bits<T: Element, B: Copy>(data: &[T], room: &mut Room<'_, T>, work: impl Moving) {
        assert!(
            size_of::<T>() == size_of::<B>() && align_of::<T>() == align_of::<B>(),
            "bits of another size"
        );
        let slots = room.unwritten();
        // SAFETY: numbers of the same size and alignment, all of whose bits are there, so they are `B`s; and each `B` that is
        // written is a copy of one of them.
        let (data, slots) = unsafe {
            let slots =
                std::slice::from_raw_parts_mut(slots.as_mut_ptr().cast::<MaybeUninit<B>>(), slots.len());
            (std::slice::from_raw_parts(data.as_ptr().cast::<B>(), data.len()), slots)
        };
        let mut moved = Room::new(slots);
        work.run(data, &mut moved);
        room.written += moved.written;
    }
    match const { size_of::<T>() } {
        1 => bits::<T, u8>(data, room, work),
        2 => bits::<T, u16>(data, room, work),
        4 => bits::<T, u32>(data, room, work),
        8 => bits::<T, u64>(data, room, work),
        size => unreachable!("no elements have {size} bytes"),
    }
}

/// Room for a few elements that are read again soon. It begins with a cache line, for the largest registers fill one: what lies
/// across two is loaded twice.
#[repr(C, align(64))]
pub(crate) struct Block<T, const MOST: usize = BLOCK> {
    slots: [MaybeUninit<T>; MOST],
    /// So many slots, from the first on, hold a value.
    written: usize,
    /// The name of the number that these are copies of, if they are.
    number: Option<usize>,
}

impl<T: Copy> Block<T> {
    pub(crate) const fn new() -> Self {
        Block::of_any_size()
    }
}

impl<T: Copy, const MOST: usize> Block<T, MOST> {
    pub(crate) const fn of_any_size() -> Self {
        Block { slots: [MaybeUninit::uninit(); MOST], written: 0, number: None }
    }
    /// Lets `f` write up to `n` elements, at most `MOST`, and gives those that it wrote.
    #[inline(always)]
    pub(crate) fn fill(&mut self, n: usize, f: impl FnOnce(&mut Room<'_, T>)) -> &[T] {
        (self.written, self.number) = (0, None);
        let mut room = Room::new(&mut self.slots[..n]);
        f(&mut room);
        self.written = room.written;
        self.held()
    }
    /// `n` copies of this number, unless it holds as many of the one with the same `name`.
    #[inline]
    pub(crate) fn copies(&mut self, name: usize, n: usize, number: impl FnOnce() -> T) {
        if self.number != Some(name) || self.written < n {
            let number = number();
            self.fill(n, |room| room.extend(n, |_| number));
            self.number = Some(name);
        }
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

/// Lets `f` fill all of the slots.
fn fill<T: Copy>(slots: &mut [MaybeUninit<T>], f: impl FnOnce(&mut Room<'_, T>) -> Result<()>) -> Result<()> {
    let mut room = Room::new(slots);
    f(&mut room)?;
    room.assert_full();
    Ok(())
}

/// Memory to be written once.
struct Fresh<T> {
    v: HostVec<T>,
    len: usize,
}

impl<T: Element> Fresh<T> {
    /// # Errors
    /// `OutOfMemory`.
    fn new(len: usize) -> Result<Self> {
        Ok(Fresh { v: with_capacity(len)?, len })
    }
    /// All slots, each to be in one room.
    fn slots(&mut self) -> &mut [MaybeUninit<T>] {
        &mut self.v.spare_capacity_mut()[..self.len]
    }
    /// The vector.
    ///
    /// # Safety
    /// Each of the slots was in a room that was found full. None is counted: a line of counts that goes from core to core took
    /// as long as adding some thousand elements.
    #[allow(unsafe_code, reason = "a vector of what was written")]
    unsafe fn finish(mut self) -> HostVec<T> {
        // SAFETY: as above.
        unsafe { self.v.set_len(self.len) };
        self.v
    }
}

/// What is known of how long elements take to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// As long as it takes to read and write them.
    Light,
    /// Nothing: some are made to see.
    Unknown,
}

/// How a result is cut for threads.
struct Cut {
    /// So many elements are made already.
    done: usize,
    /// Size of the pieces of the others.
    piece: usize,
    /// An estimate for one element.
    ns: f64,
}

impl Cut {
    /// `make(n)` makes the first `n` elements: all of a few, or some of more, to see how long they take. What is cut anywhere
    /// is cut where cache lines begin, the first of them after `to_line` elements. Compiled once, and not for each type.
    fn new(
        d: &CpuDevice,
        len: usize,
        unit: usize,
        to_line: usize,
        work: Work,
        make: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Cut> {
        let (mut done, mut ns) = (if unit == 1 { to_line } else { 0 }, LEAST);
        let is_little = work == Work::Light && len as f64 * LEAST < WORTH;
        if is_little || is_alone(d, len, unit) {
            done = if len < MANY { len } else { done };
            make(done)?;
            return Ok(Cut { done, piece: len.max(1), ns });
        }
        if len < MANY && work == Work::Unknown {
            done += PROBE.next_multiple_of(unit);
            let clock = Instant::now();
            make(done)?;
            ns = clock.elapsed().as_nanos() as f64 / done as f64;
        } else if done > 0 {
            make(done)?;
        }
        let rest = len - done;
        let takes = rest as f64 * ns;
        let piece = if takes < WORTH {
            rest
        } else if takes < SMALL {
            rest.div_ceil(d.threads())
        } else if len < MANY {
            // Several for each thread: one that is late should not be waited for.
            rest / (2 * d.threads())
        } else {
            (rest / (8 * d.threads())).clamp(*PIECES.start(), *PIECES.end())
        };
        let unit = if unit == 1 { LINE } else { unit };
        Ok(Cut { done, piece: piece.next_multiple_of(unit).max(unit), ns })
    }
}

/// Elements before the first that begins a cache line. A store across two lines takes two; and memory that the system gave
/// for one large tensor each begins at the same place within a line, so that what is read lies well then, too.
fn to_line<T>(slots: &[MaybeUninit<T>]) -> usize {
    // An element that lies across two lines has no such place.
    Some(slots.as_ptr().align_offset(LINE)).filter(|n| n * size_of::<T>() < LINE).unwrap_or(0)
}

/// Whether a result is one part.
fn is_alone(d: &CpuDevice, len: usize, unit: usize) -> bool {
    d.threads() == 1 || len <= 2 * PROBE.next_multiple_of(unit)
}

/// A vector of `len` elements. `f(start, room)` is to fill the room with the elements from number `start` on; it is
/// called for several parts, on several threads if there are many, or if the first part says that this is worth it. Parts
/// start at multiples of `unit`; with 1, where cache lines begin.
///
/// # Errors
/// `OutOfMemory`; those of `f`.
pub(crate) fn fresh<T: Element>(
    d: &CpuDevice,
    len: usize,
    unit: usize,
    f: &(dyn Fn(usize, &mut Room<'_, T>) -> Result<()> + Sync),
) -> Result<HostVec<T>> {
    fresh_of(d, len, unit, Work::Unknown, f)
}

/// As [`fresh`], if something is known of the work.
///
/// # Errors
/// `OutOfMemory`; those of `f`.
pub(crate) fn fresh_of<T: Element>(
    d: &CpuDevice,
    len: usize,
    unit: usize,
    work: Work,
    f: &(dyn Fn(usize, &mut Room<'_, T>) -> Result<()> + Sync),
) -> Result<HostVec<T>> {
    let mut all = Fresh::new(len)?;
    let slots = all.slots();
    let to_line = to_line(slots);
    let Cut { done, piece, ns } =
        Cut::new(d, len, unit, to_line, work, &mut |n| fill(&mut slots[..n], |room| f(0, room)))?;
    try_pieces(d, &mut slots[done..], piece, ns, &|start, part| fill(part, |room| f(done + start, room)))?;
    // SAFETY: the first `done` slots, then all pieces of the others, were each in a room of `fill`, which returned well.
    #[allow(unsafe_code, reason = "a vector of what was written")]
    Ok(unsafe { all.finish() })
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
) -> Result<HostVec<T>> {
    let mut all = Fresh::new(len)?;
    try_pieces(d, all.slots(), piece, ns, &|start, part| fill(part, |room| f(start, room)))?;
    // SAFETY: all pieces were each in a room of `fill`, which returned well.
    #[allow(unsafe_code, reason = "a vector of what was written")]
    Ok(unsafe { all.finish() })
}

/// As [`fresh`], by the caller alone, for results that are too few for threads.
///
/// # Errors
/// `OutOfMemory`.
#[allow(unsafe_code, reason = "a vector of what was written")]
#[inline(always)]
pub(crate) fn fresh_few<T: Element>(len: usize, f: impl FnOnce(&mut Room<'_, T>)) -> Result<HostVec<T>> {
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

/// Two vectors, cut into pieces of these sizes side by side: `f(i, rooms)` is to fill those of piece `i`; all of it takes about
/// `ns` nanoseconds.
///
/// # Errors
/// `OutOfMemory`; those of `f`.
pub(crate) fn fresh_two<A: Element, B: Element>(
    d: &CpuDevice,
    sizes: &[[usize; 2]],
    ns: f64,
    f: &(dyn Fn(usize, &mut Room<'_, A>, &mut Room<'_, B>) -> Result<()> + Sync),
) -> Result<(HostVec<A>, HostVec<B>)> {
    let mut a = Fresh::new(sizes.iter().map(|s| s[0]).sum())?;
    let mut b = Fresh::new(sizes.iter().map(|s| s[1]).sum())?;
    let (mut left, mut right) = (a.slots(), b.slots());
    let parts = sizes.iter().map(|s| (first(&mut left, s[0]), first(&mut right, s[1])));
    let parts = parts.enumerate().collect();
    try_tasks(d, parts, ns, &|(i, (left, right))| fill(left, |x| fill(right, |y| f(i, x, y))))?;
    // SAFETY: the sizes are those of the vectors, and each part of that size was in a room of `fill`, which returned well.
    #[allow(unsafe_code, reason = "a vector of what was written")]
    Ok(unsafe { (a.finish(), b.finish()) })
}

/// Slots.
type Part<'a, T> = &'a mut [MaybeUninit<T>];

/// Takes the first `n` slots off a part.
fn first<'a, T>(slots: &mut Part<'a, T>, n: usize) -> Part<'a, T> {
    slots.split_off_mut(..n).expect("a part is within the whole")
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
) -> Result<Vec<HostVec<T>>> {
    let mut all = (0..count).map(|_| Fresh::new(len)).collect::<Result<Vec<_>>>()?;
    let make = |start: usize, parts: Vec<Part<'_, T>>| {
        let mut rooms: Vec<_> = parts.into_iter().map(Room::new).collect();
        f(start, &mut rooms)?;
        rooms.iter().for_each(Room::assert_full);
        Ok(())
    };
    let mut parts: Vec<Part<'_, T>> = all.iter_mut().map(Fresh::slots).collect();
    let mut split = |n: usize| -> Vec<_> { parts.iter_mut().map(|part| first(part, n)).collect() };
    let Cut { done, piece, ns } = Cut::new(d, len, unit, 0, Work::Unknown, &mut |n| make(0, split(n)))?;
    let rest = len - done;
    let tasks =
        (0..rest).step_by(piece).map(|start| (done + start, split(piece.min(rest - start)))).collect();
    try_tasks(d, tasks, rest as f64 * ns, &|(start, parts)| make(start, parts))?;
    // SAFETY: the first `done` slots of each, then all pieces of the others, were each in a room that `make` found full.
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
