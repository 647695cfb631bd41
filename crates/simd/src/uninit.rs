//! Uninitialised output slices, written once, front to back: neither zeroed first nor read.
//!
//! Zeroing costs as much as a cheap formula, as both are bound by memory. A [`UninitSlice`] counts
//! what was written, and the count alone decides which elements exist. This file depends on no
//! threads and no allocator.
//!
//! How it can be wrong: by counting a slot that was not written. Kernels that write through raw
//! slots use the unsafe [`UninitSlice::count`], and argue for it.

use crate::isa::Kernel;
use elinvar_core::Element;
use std::mem::MaybeUninit;

/// Elements of a [`CacheBlock`]: six blocks of f64, for the operands of the largest formula, stay in a first-level cache.
pub const BLOCK_ELEMENTS: usize = 512;

/// Elements that a kernel computes, by number. Unlike a closure, `at` can be `#[inline(always)]`, and must be: in a
/// function of its own it would be compiled without the kernel's instruction set.
pub trait ElementAt<T>: Copy {
    /// Element `i`.
    fn at(&self, i: usize) -> T;
    /// The same, with operands cut to `n` elements, so that the compiler sees that `i < n` needs no check.
    #[must_use]
    fn cut(self, n: usize) -> Self;
}

/// Elements that a kernel computes, `W` of them together.
pub trait FillChunk<T, const W: usize> {
    /// Writes all those of a window.
    fn fill(&self, number: usize, y: &mut [MaybeUninit<T>; W]);
}

/// A kernel that fills the room.
pub struct FillByElement<'a, 'r, T, A>(pub A, pub &'a mut UninitSlice<'r, T>);

impl<T: Copy, A: ElementAt<T>> Kernel for FillByElement<'_, '_, T, A> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let n = self.1.remaining();
        let elements = self.0.cut(n);
        for (i, slot) in self.1.slots[self.1.written..][..n].iter_mut().enumerate() {
            slot.write(elements.at(i));
        }
        self.1.written += n;
    }
}

/// A part of memory to be written, and how much of it was.
pub struct UninitSlice<'a, T> {
    slots: &'a mut [MaybeUninit<T>],
    /// So many slots, from the first on, hold a value.
    written: usize,
}

impl<'a, T: Copy> UninitSlice<'a, T> {
    /// The slots that are still to be written, by kernels, which then [count](UninitSlice::count) them.
    #[inline(always)]
    pub fn unwritten(&mut self) -> &mut [MaybeUninit<T>] {
        &mut self.slots[self.written..]
    }
    /// The next `n` slots were written.
    ///
    /// # Safety
    /// Each of the next `n` slots of [`UninitSlice::unwritten`] was written.
    #[inline(always)]
    #[allow(unsafe_code, reason = "slots that were written elsewhere")]
    pub unsafe fn count(&mut self, n: usize) {
        self.written += n;
    }
    /// Checks that each slot was written.
    ///
    /// # Panics
    /// If one was not.
    pub fn assert_full(&self) {
        assert_eq!(self.remaining(), 0, "cpu: a part of a result was left out");
    }
    /// Slots of which none is written yet.
    pub fn new(slots: &'a mut [MaybeUninit<T>]) -> Self {
        UninitSlice { slots, written: 0 }
    }
    /// Elements that are there, to be written over.
    #[allow(unsafe_code, reason = "slots that hold a value")]
    pub fn over(elements: &'a mut [T]) -> Self {
        // SAFETY: what has a value may be looked at as what may have none, and a `UninitSlice` writes nothing but values.
        UninitSlice::new(unsafe { &mut *(std::ptr::from_mut(elements) as *mut [MaybeUninit<T>]) })
    }
    /// Where the next element goes.
    #[inline(always)]
    pub fn place(&self) -> *const T {
        self.slots.as_ptr().cast::<T>().wrapping_add(self.written)
    }
    /// How many elements are still to be written.
    #[inline(always)]
    pub fn remaining(&self) -> usize {
        self.slots.len() - self.written
    }
    /// Writes the next `n` elements: `f(0)`, `f(1)`, ...
    #[inline(always)]
    pub fn extend(&mut self, n: usize, mut f: impl FnMut(usize) -> T) {
        for (i, slot) in self.slots[self.written..][..n].iter_mut().enumerate() {
            slot.write(f(i));
        }
        self.written += n;
    }
    /// Writes the next `n` windows, from number 0 on. They are counted together: a count in memory for each is a chain of loads and
    /// stores that wait for each other.
    #[inline(always)]
    pub fn chunks<const W: usize>(&mut self, n: usize, f: &impl FillChunk<T, W>) {
        let slots = &mut self.slots[self.written..].as_chunks_mut::<W>().0[..n];
        for (number, slots) in slots.iter_mut().enumerate() {
            f.fill(number, slots);
        }
        self.written += n * W;
    }
    /// Writes the next `n` elements, fewer than `W`: the first of a window.
    #[inline(always)]
    pub fn partial_chunk<const W: usize>(&mut self, n: usize, number: usize, f: &impl FillChunk<T, W>) {
        let mut all = [MaybeUninit::uninit(); W];
        f.fill(number, &mut all);
        self.slots[self.written..][..n].copy_from_slice(&all[..n]);
        self.written += n;
    }
    /// Writes the first `n` elements of so many windows, one after the other. Where there is room for it a window is written whole: what comes too
    /// much of it is written over.
    #[inline(always)]
    pub fn chunk_prefixes<const W: usize>(&mut self, count: usize, n: usize, f: &impl FillChunk<T, W>) {
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
    pub fn part(&mut self, n: usize, f: impl FnOnce(&mut UninitSlice<'_, T>)) {
        let mut dst = UninitSlice::new(&mut self.slots[self.written..][..n]);
        f(&mut dst);
        dst.assert_full();
        self.written += n;
    }
    /// The next `n` elements, written as `zero`, to be overwritten in any order.
    #[allow(unsafe_code, reason = "reading what was written")]
    pub fn zeroed(&mut self, n: usize, zero: T) -> &mut [T] {
        let part = &mut self.slots[self.written..][..n];
        part.fill(MaybeUninit::new(zero));
        self.written += n;
        // SAFETY: each of these slots was written by `fill`.
        unsafe { part.assume_init_mut() }
    }
    /// The next elements, written as a copy of `part`, to be changed in any order.
    #[allow(unsafe_code, reason = "reading what was written")]
    pub fn copied(&mut self, part: &[T]) -> &mut [T] {
        let slots = &mut self.slots[self.written..][..part.len()];
        slots.write_copy_of_slice(part);
        self.written += part.len();
        // SAFETY: each of these slots was written from `part`, which is as long.
        unsafe { slots.assume_init_mut() }
    }
    /// Lets `f` write the next elements, and `g` change them.
    #[inline]
    #[allow(unsafe_code, reason = "reading what was written")]
    pub fn write_then(&mut self, f: impl FnOnce(&mut UninitSlice<'_, T>), g: impl FnOnce(&mut [T])) {
        let mut dst = UninitSlice::new(&mut self.slots[self.written..]);
        f(&mut dst);
        let n = dst.written;
        // SAFETY: a `UninitSlice` counts what its methods have written, from its first slot on.
        g(unsafe { dst.slots[..n].assume_init_mut() });
        self.written += n;
    }
    /// Writes a copy of `part`, the last element first.
    #[inline(always)]
    pub fn copy_reversed(&mut self, part: &[T]) {
        let slots = &mut self.slots[self.written..][..part.len()];
        slots.iter_mut().zip(part.iter().rev()).for_each(|(slot, &x)| _ = slot.write(x));
        self.written += part.len();
    }
    /// Writes `n` elements more: the last `period` again and again.
    ///
    /// # Panics
    /// If there are no so many.
    pub fn repeat_tail(&mut self, period: usize, n: usize) {
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
    pub fn copy(&mut self, part: &[T]) {
        self.slots[self.written..][..part.len()].write_copy_of_slice(part);
        self.written += part.len();
    }
}

/// Work that moves elements from one place to another and does nothing else with them. What it writes are copies of `data`: it knows
/// nothing of `B` from which it could make another.
pub trait CopyBits {
    /// Writes to the room. It must be `#[inline(never)]`, or there would be a copy for each type again.
    fn run<B: Copy>(self, data: &[B], dst: &mut UninitSlice<'_, B>);
}

/// Moves elements as bits: the work is compiled for each of their four sizes, and not for each of eight types, which was 35 KB more.
#[allow(unsafe_code, reason = "elements as bits")]
pub fn copy_as_bits<T: Element>(data: &[T], dst: &mut UninitSlice<'_, T>, work: impl CopyBits) {
    fn bits<T: Element, B: Copy>(data: &[T], dst: &mut UninitSlice<'_, T>, work: impl CopyBits) {
        assert!(
            size_of::<T>() == size_of::<B>() && align_of::<T>() == align_of::<B>(),
            "bits of another size"
        );
        let slots = dst.unwritten();
        // SAFETY: numbers of the same size and alignment, all of whose bits are there, so they are `B`s; and each `B` that is
        // written is a copy of one of them.
        let (data, slots) = unsafe {
            let slots =
                std::slice::from_raw_parts_mut(slots.as_mut_ptr().cast::<MaybeUninit<B>>(), slots.len());
            (std::slice::from_raw_parts(data.as_ptr().cast::<B>(), data.len()), slots)
        };
        let mut moved = UninitSlice::new(slots);
        work.run(data, &mut moved);
        dst.written += moved.written;
    }
    match const { size_of::<T>() } {
        1 => bits::<T, u8>(data, dst, work),
        2 => bits::<T, u16>(data, dst, work),
        4 => bits::<T, u32>(data, dst, work),
        8 => bits::<T, u64>(data, dst, work),
        size => unreachable!("no elements have {size} bytes"),
    }
}

/// Room for a few elements that are read again soon. It begins with a cache line, for the largest registers fill one: what lies
/// across two is loaded twice.
#[repr(C, align(64))]
pub struct CacheBlock<T, const CAPACITY: usize = BLOCK_ELEMENTS> {
    slots: [MaybeUninit<T>; CAPACITY],
    /// So many slots, from the first on, hold a value.
    written: usize,
    /// The name of the number that these are copies of, if they are.
    number: Option<usize>,
}

impl<T: Copy> CacheBlock<T> {
    /// An empty block of the usual capacity.
    pub const fn new() -> Self {
        CacheBlock::with_any_capacity()
    }
}

impl<T: Copy, const CAPACITY: usize> CacheBlock<T, CAPACITY> {
    /// An empty block of any capacity.
    pub const fn with_any_capacity() -> Self {
        CacheBlock { slots: [MaybeUninit::uninit(); CAPACITY], written: 0, number: None }
    }
    /// Lets `f` write up to `n` elements, at most `CAPACITY`, and gives those that it wrote.
    #[inline(always)]
    pub fn fill(&mut self, n: usize, f: impl FnOnce(&mut UninitSlice<'_, T>)) -> &[T] {
        (self.written, self.number) = (0, None);
        let mut dst = UninitSlice::new(&mut self.slots[..n]);
        f(&mut dst);
        self.written = dst.written;
        self.written()
    }
    /// `n` copies of this number, unless it holds as many of the one with the same `name`.
    #[inline]
    pub fn copies(&mut self, name: usize, n: usize, number: impl FnOnce() -> T) {
        if self.number != Some(name) || self.written < n {
            let number = number();
            self.fill(n, |dst| dst.extend(n, |_| number));
            self.number = Some(name);
        }
    }
    /// What was written last.
    #[inline(always)]
    #[allow(unsafe_code, reason = "reading what was written")]
    pub fn written(&self) -> &[T] {
        // SAFETY: `written` is 0 or what a `UninitSlice` over the same slots counted, and its methods write each slot before
        // they count it.
        unsafe { self.slots[..self.written].assume_init_ref() }
    }
}
