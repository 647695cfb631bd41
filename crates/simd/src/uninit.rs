//! Uninitialised output slices, written once, front to back: neither zeroed first nor read.
//!
//! Zeroing costs as much as a cheap formula, as both are bound by memory. A [`UninitSlice`] counts
//! the elements written, and the count alone decides which elements are initialised. Independent of
//! threads and allocators.
//!
//! How it can be wrong: by counting a slot that was not written. Kernels that write through raw
//! slots use the unsafe [`UninitSlice::count`], and justify each call.

use crate::isa::Kernel;
use elinvar_core::Element;
use std::mem::MaybeUninit;

/// Elements of a [`CacheBlock`]: six blocks of f64, for the operands of the largest formula, fit in
/// L1.
pub const BLOCK_ELEMENTS: usize = 512;

/// Elements that a kernel computes, by index. Unlike a closure, `at` can be `#[inline(always)]`,
/// and must be: as a separate function it would be compiled without the kernel's instruction set.
pub trait ElementAt<T>: Copy {
    /// Element `i`.
    fn at(&self, i: usize) -> T;
    /// The same, with operands cut to `n` elements, so that the compiler sees that `i < n` needs no
    /// bounds check.
    #[must_use]
    fn cut(self, n: usize) -> Self;
}

/// Elements that a kernel computes, `W` of them together.
pub trait FillChunk<T, const W: usize> {
    /// Writes the elements of chunk `number`.
    fn fill(&self, number: usize, y: &mut [MaybeUninit<T>; W]);
}

/// A kernel that fills the slice element by element.
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

/// Memory to be written, and the number of elements written.
pub struct UninitSlice<'a, T> {
    slots: &'a mut [MaybeUninit<T>],
    /// The first `written` slots hold a value.
    written: usize,
}

impl<'a, T: Copy> UninitSlice<'a, T> {
    /// The slots that are not yet written, for kernels, which then [count](UninitSlice::count)
    /// them.
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
    /// Initialised elements, to be overwritten.
    #[allow(unsafe_code, reason = "slots that hold a value")]
    pub fn over(elements: &'a mut [T]) -> Self {
        // SAFETY: initialised memory may be viewed as `MaybeUninit`, and a `UninitSlice` writes
        // only values to it.
        UninitSlice::new(unsafe { &mut *(std::ptr::from_mut(elements) as *mut [MaybeUninit<T>]) })
    }
    /// The next slot.
    #[inline(always)]
    pub fn place(&self) -> *const T {
        self.slots.as_ptr().cast::<T>().wrapping_add(self.written)
    }
    /// The number of elements not yet written.
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
    /// Writes the next `n` windows, from number 0 on. They are counted together: updating a count
    /// in memory for each would be a chain of dependent loads and stores.
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
    /// Writes the first `n` elements of `count` windows, one after the other. Where there is room,
    /// a window is written whole, and the next one overwrites the excess.
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
    /// The next elements, written as a copy of `part`, to be modified in any order.
    #[allow(unsafe_code, reason = "reading what was written")]
    pub fn copied(&mut self, part: &[T]) -> &mut [T] {
        let slots = &mut self.slots[self.written..][..part.len()];
        slots.write_copy_of_slice(part);
        self.written += part.len();
        // SAFETY: each of these slots was written from `part`, which is as long.
        unsafe { slots.assume_init_mut() }
    }
    /// Lets `f` write the next elements, and `g` modify them.
    #[inline]
    #[allow(unsafe_code, reason = "reading what was written")]
    pub fn write_then(&mut self, f: impl FnOnce(&mut UninitSlice<'_, T>), g: impl FnOnce(&mut [T])) {
        let mut dst = UninitSlice::new(&mut self.slots[self.written..]);
        f(&mut dst);
        let n = dst.written;
        // SAFETY: a `UninitSlice` counts only slots that its methods have written, from the first
        // on.
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
    /// Writes `n` elements more: the last `period` repeatedly.
    ///
    /// # Panics
    /// If fewer than `period` elements were written.
    pub fn repeat_tail(&mut self, period: usize, n: usize) {
        let first = self.written.checked_sub(period).expect("elements that were written");
        let (end, slots) = (self.written + n, &mut self.slots[..self.written + n]);
        while self.written < end {
            // Doubles each time, in whole periods.
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

/// Work that only copies elements. It can write only copies of `data`, as it has no other way to
/// make a `B`.
pub trait CopyBits {
    /// Writes to the slice. It must be `#[inline(never)]`, or it would again be compiled for each
    /// type.
    fn run<B: Copy>(self, data: &[B], dst: &mut UninitSlice<'_, B>);
}

/// Copies elements as bits: the work is compiled for each of their four sizes, and not for each of
/// eight types, to save code size.
#[allow(unsafe_code, reason = "elements as bits")]
pub fn copy_as_bits<T: Element>(data: &[T], dst: &mut UninitSlice<'_, T>, work: impl CopyBits) {
    fn bits<T: Element, B: Copy>(data: &[T], dst: &mut UninitSlice<'_, T>, work: impl CopyBits) {
        assert!(
            size_of::<T>() == size_of::<B>() && align_of::<T>() == align_of::<B>(),
            "bits of another size"
        );
        let slots = dst.unwritten();
        // SAFETY: types of the same size and alignment, with all bits initialised, so they are
        // valid `B`s; and each `B` that is written is a copy of one of them.
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

/// A buffer for a few elements that are read again soon. Aligned to a cache line, which the largest
/// registers fill: a load that crosses two lines counts as two.
#[repr(C, align(64))]
pub struct CacheBlock<T, const CAPACITY: usize = BLOCK_ELEMENTS> {
    slots: [MaybeUninit<T>; CAPACITY],
    /// The first `written` slots hold a value.
    written: usize,
    /// The identity of the scalar that the elements are copies of, if they are.
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
    /// Lets `f` write up to `n` elements, at most `CAPACITY`, and returns those that it wrote.
    #[inline(always)]
    pub fn fill(&mut self, n: usize, f: impl FnOnce(&mut UninitSlice<'_, T>)) -> &[T] {
        (self.written, self.number) = (0, None);
        let mut dst = UninitSlice::new(&mut self.slots[..n]);
        f(&mut dst);
        self.written = dst.written;
        self.written()
    }
    /// `n` copies of this scalar, unless the buffer already holds as many of the one with the same
    /// `name`.
    #[inline]
    pub fn copies(&mut self, name: usize, n: usize, number: impl FnOnce() -> T) {
        if self.number != Some(name) || self.written < n {
            let number = number();
            self.fill(n, |dst| dst.extend(n, |_| number));
            self.number = Some(name);
        }
    }
    /// The elements written last.
    #[inline(always)]
    #[allow(unsafe_code, reason = "reading what was written")]
    pub fn written(&self) -> &[T] {
        // SAFETY: `written` is 0 or what a `UninitSlice` over the same slots counted, and its
        // methods write each slot before they count it.
        unsafe { self.slots[..self.written].assume_init_ref() }
    }
}
