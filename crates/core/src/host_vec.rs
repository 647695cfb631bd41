//! The vector of [`HostData`](crate::HostData), whose first element can be aligned to a cache line.
//!
//! A 64-byte register load that crosses a cache line costs two loads. The system's allocator places
//! large blocks 16 bytes after a line, so every such load of a large tensor would cross one. A
//! `Vec` cannot request more than the alignment of its element type, but it can hold a few hidden
//! elements in front of the first one.

use crate::{Element, Result, host};
use std::fmt;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

/// Bytes of a cache line, and of the largest register.
pub const LINE: usize = 64;

/// Contiguous elements in host memory. Used like a `Vec`, and made of one without copying (`from`).
pub struct HostVec<T> {
    /// The padding elements, then the elements.
    all: Vec<T>,
    /// The number of padding elements.
    start: usize,
}

impl<T> HostVec<T> {
    /// An empty vector; nothing is allocated.
    pub const fn new() -> Self {
        HostVec { all: Vec::new(), start: 0 }
    }
    /// The elements as a `Vec`. They are moved to the start of the allocation if there is padding.
    pub fn into_vec(mut self) -> Vec<T> {
        self.all.drain(..self.start);
        self.all
    }
    /// The whole allocation, with unspecified contents.
    pub fn into_memory(self) -> Vec<T> {
        self.all
    }
    /// The capacity in elements, without the padding.
    pub fn capacity(&self) -> usize {
        self.all.capacity() - self.start
    }
    /// The size of the allocation in bytes, used or not.
    #[inline]
    pub fn allocated(&self) -> usize {
        self.all.capacity() * size_of::<T>()
    }
    /// Appends an element.
    pub fn push(&mut self, v: T) {
        self.all.push(v);
    }
    /// Keeps at most the first `len` elements.
    pub fn truncate(&mut self, len: usize) {
        self.all.truncate(self.start + len);
    }
    /// Removes all elements.
    pub fn clear(&mut self) {
        self.truncate(0);
    }
    /// The unused capacity.
    pub fn spare_capacity_mut(&mut self) -> &mut [MaybeUninit<T>] {
        self.all.spare_capacity_mut()
    }
    /// Sets the number of elements.
    ///
    /// # Safety
    /// `len` is at most the capacity, and the first `len` elements are initialised.
    #[inline]
    #[allow(unsafe_code, reason = "memory that was written through `spare_capacity_mut`")]
    pub unsafe fn set_len(&mut self, len: usize) {
        // SAFETY: the padding was initialised when the vector was made; the function's contract
        // covers the other `len` elements.
        unsafe { self.all.set_len(self.start + len) };
    }
}

impl<T: Copy> HostVec<T> {
    /// Appends copies of these elements.
    pub fn extend_from_slice(&mut self, v: &[T]) {
        self.all.extend_from_slice(v);
    }
    /// Truncates to `len` elements, or appends copies of `v` up to `len`.
    pub fn resize(&mut self, len: usize, v: T) {
        self.all.resize(self.start + len, v);
    }
}

impl<T: Element> HostVec<T> {
    /// The extra capacity, in elements, that guarantees that the first element can be aligned to a
    /// cache line.
    pub const SLACK: usize = LINE / size_of::<T>() - 1;

    /// An empty vector with capacity for `len` elements, the first of which is aligned to a cache
    /// line.
    ///
    /// # Errors
    /// `OutOfMemory` if the allocation is refused.
    pub fn with_capacity(len: usize) -> Result<Self> {
        host::with_capacity(len.saturating_add(Self::SLACK + 1)).map(Self::at_line)
    }
    /// An empty vector in the memory of `v`. The first element is aligned to a cache line if there
    /// is capacity for [`Self::SLACK`] elements.
    #[inline]
    pub fn at_line(mut v: Vec<T>) -> Self {
        v.clear();
        // `align_offset` may fail (`usize::MAX`); such memory is used without padding.
        let start = v.as_ptr().align_offset(LINE);
        let start = if start <= Self::SLACK && v.capacity() > Self::SLACK { start } else { 0 };
        v.resize(start, T::ZERO);
        HostVec { all: v, start }
    }
}

impl<T> Default for HostVec<T> {
    fn default() -> Self {
        HostVec::new()
    }
}

impl<T> From<Vec<T>> for HostVec<T> {
    #[inline]
    fn from(all: Vec<T>) -> Self {
        HostVec { all, start: 0 }
    }
}

impl<T, const N: usize> From<[T; N]> for HostVec<T> {
    fn from(all: [T; N]) -> Self {
        Vec::from(all).into()
    }
}

impl<T> From<HostVec<T>> for Vec<T> {
    fn from(v: HostVec<T>) -> Self {
        v.into_vec()
    }
}

impl<T> Deref for HostVec<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        // `start` never exceeds the length, so the default is never used; `get` avoids the code of
        // a panic.
        self.all.get(self.start..).unwrap_or_default()
    }
}

impl<T> DerefMut for HostVec<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        self.all.get_mut(self.start..).unwrap_or_default()
    }
}

impl<T: Clone> Clone for HostVec<T> {
    fn clone(&self) -> Self {
        self.to_vec().into()
    }
}

impl<T: PartialEq> PartialEq for HostVec<T> {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

impl<T: fmt::Debug> fmt::Debug for HostVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self[..].fmt(f)
    }
}

impl<T> FromIterator<T> for HostVec<T> {
    fn from_iter<I: IntoIterator<Item = T>>(all: I) -> Self {
        Vec::from_iter(all).into()
    }
}

impl<T> Extend<T> for HostVec<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, more: I) {
        self.all.extend(more);
    }
}

impl<T> IntoIterator for HostVec<T> {
    type Item = T;
    type IntoIter = std::iter::Skip<std::vec::IntoIter<T>>;
    fn into_iter(self) -> Self::IntoIter {
        self.all.into_iter().skip(self.start)
    }
}

impl<'a, T> IntoIterator for &'a HostVec<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, T> IntoIterator for &'a mut HostVec<T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_never_visible() {
        for room in [0, 5, 15, 16, 100] {
            let mut v = HostVec::at_line(Vec::<f32>::with_capacity(room));
            assert!(v.is_empty());
            v.extend([1.0, 2.0]);
            v.push(3.0);
            v.extend_from_slice(&[4.0]);
            assert_eq!(v[..], [1.0, 2.0, 3.0, 4.0]);
            assert_eq!(v, HostVec::from(vec![1.0, 2.0, 3.0, 4.0]));
            assert_eq!(format!("{v:?}"), "[1.0, 2.0, 3.0, 4.0]");
            v.resize(5, 9.0);
            v.truncate(6);
            assert_eq!((v.len(), v[4], v.clone().into_vec().len()), (5, 9.0, 5));
            assert_eq!(v.iter().sum::<f32>(), 19.0);
            assert_eq!((&v).into_iter().chain(v.clone().iter()).count(), 10);
            for x in &mut v {
                *x += 1.0;
            }
            assert_eq!(v.into_iter().collect::<Vec<_>>(), [2.0, 3.0, 4.0, 5.0, 10.0]);
        }
    }

    #[test]
    fn the_first_element_is_aligned_to_a_cache_line() {
        let v = HostVec::<f32>::with_capacity(100).unwrap();
        assert!(v.capacity() >= 100 && v.all[v.start..].as_ptr().addr().is_multiple_of(LINE));
        assert!(HostVec::<f32>::with_capacity(usize::MAX).is_err());
        for room in [16, 17, 1000, 100_000] {
            let mut v = HostVec::at_line(Vec::<f32>::with_capacity(room));
            assert_eq!(v.spare_capacity_mut().as_ptr().addr() % LINE, 0, "{room}");
            assert!(v.capacity() >= room - HostVec::<f32>::SLACK);
            v.extend((0..room - HostVec::<f32>::SLACK).map(|i| i as f32));
            assert_eq!(v.as_ptr().addr() % LINE, 0, "{room}");
            let v = v.into_vec();
            assert!(v.iter().enumerate().all(|(i, &x)| x == i as f32));
        }
        // Elements of one byte and of eight.
        assert_eq!(
            HostVec::at_line(Vec::<u8>::with_capacity(200)).spare_capacity_mut().as_ptr().addr() % LINE,
            0
        );
        assert_eq!(
            HostVec::at_line(Vec::<f64>::with_capacity(20)).spare_capacity_mut().as_ptr().addr() % LINE,
            0
        );
        assert_eq!(HostVec::<u8>::SLACK, 63);
    }

    #[test]
    fn allocated_counts_the_whole_allocation() {
        let v = HostVec::at_line(Vec::<f64>::with_capacity(100));
        assert!(v.allocated() >= 800 && v.into_memory().capacity() >= 100);
        assert_eq!(HostVec::<f64>::new().allocated(), 0);
    }
}
