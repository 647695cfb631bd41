//! Short lists of numbers: sizes, strides, axes.
//!
//! Every op creates some, so creation must be cheap: up to four numbers are stored inline.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};

/// Numbers that are stored inline. Most tensors have at most four axes.
const PLACES: usize = 4;

/// A short list.
pub struct Small<T> {
    /// How many of `places` are used; 0 if the list is on the heap.
    len: u8,
    places: [T; PLACES],
    /// All numbers, if there are more than `PLACES`.
    #[allow(clippy::box_collection, reason = "one word instead of three, and mostly nothing")]
    more: Option<Box<Vec<T>>>,
}

impl<T: Copy + Default> Small<T> {
    /// An empty list.
    #[inline]
    pub fn new() -> Self {
        Small { len: 0, places: [T::default(); PLACES], more: None }
    }
    /// A copy of a slice.
    #[inline]
    pub fn from_slice(v: &[T]) -> Self {
        let mut all = Small::new();
        if v.len() <= PLACES {
            all.places[..v.len()].copy_from_slice(v);
            all.len = v.len() as u8;
        } else {
            all.more = Some(Box::new(v.to_vec()));
        }
        all
    }
    /// `n` copies of a number.
    #[inline]
    pub fn from_elem(value: T, n: usize) -> Self {
        if n <= PLACES {
            Small { len: n as u8, places: [value; PLACES], more: None }
        } else {
            Small { more: Some(Box::new(vec![value; n])), ..Small::new() }
        }
    }
    /// Appends a number.
    #[inline]
    pub fn push(&mut self, value: T) {
        match &mut self.more {
            Some(all) => all.push(value),
            None if usize::from(self.len) < PLACES => {
                self.places[usize::from(self.len)] = value;
                self.len += 1;
            }
            None => self.spill().push(value),
        }
    }
    /// Moves all numbers to the heap.
    #[cold]
    fn spill(&mut self) -> &mut Vec<T> {
        let all = self.places[..usize::from(self.len)].to_vec();
        self.len = 0;
        self.more.insert(Box::new(all))
    }
    /// Inserts a number in front of index `at`.
    ///
    /// # Panics
    /// If `at` is beyond the end.
    #[inline]
    pub fn insert(&mut self, at: usize, value: T) {
        self.push(value);
        // A loop, because `rotate_right` is an out-of-line call, which costs more than moving a few
        // numbers.
        let behind = &mut self[at..];
        for i in (1..behind.len()).rev() {
            behind[i] = behind[i - 1];
        }
        behind[0] = value;
    }
    /// Removes and returns the number at index `at`.
    ///
    /// # Panics
    /// If `at` is not below the length.
    pub fn remove(&mut self, at: usize) -> T {
        let value = self[at];
        self[at..].rotate_left(1);
        self.truncate(self.len() - 1);
        value
    }
    /// Appends numbers.
    pub fn extend_from_slice(&mut self, v: &[T]) {
        self.extend(v.iter().copied());
    }
    /// Keeps only the numbers for which `keep` is true.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        let mut kept = 0;
        for i in 0..self.len() {
            if keep(&self[i]) {
                self[kept] = self[i];
                kept += 1;
            }
        }
        self.truncate(kept);
    }
    /// Keeps only the first `n`.
    pub fn truncate(&mut self, n: usize) {
        match &mut self.more {
            Some(all) => all.truncate(n),
            None => self.len = self.len.min(n.min(PLACES) as u8),
        }
    }
}

impl<T: Copy> Clone for Small<T> {
    #[inline]
    fn clone(&self) -> Self {
        Small { len: self.len, places: self.places, more: self.more.clone() }
    }
}

impl<T: Copy + Default> Default for Small<T> {
    fn default() -> Self {
        Small::new()
    }
}

impl<T> Deref for Small<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        match &self.more {
            None => &self.places[..usize::from(self.len)],
            Some(all) => all,
        }
    }
}

impl<T> DerefMut for Small<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.more {
            None => &mut self.places[..usize::from(self.len)],
            Some(all) => all,
        }
    }
}

impl<T: PartialEq> PartialEq for Small<T> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (&self.more, &other.more) {
            // One by one: comparing a few numbers inline is cheaper than a call of `memcmp`.
            (None, None) => {
                let len = usize::from(self.len);
                self.len == other.len && (0..PLACES).all(|i| i >= len || self.places[i] == other.places[i])
            }
            _ => self[..] == other[..],
        }
    }
}

impl<T: Eq> Eq for Small<T> {}

impl<T: Hash> Hash for Small<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self[..].hash(state);
    }
}

impl<T: fmt::Debug> fmt::Debug for Small<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self[..].fmt(f)
    }
}

impl<T: Copy + Default> From<&[T]> for Small<T> {
    fn from(v: &[T]) -> Self {
        Small::from_slice(v)
    }
}

impl<T: Copy + Default> Extend<T> for Small<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, all: I) {
        all.into_iter().for_each(|value| self.push(value));
    }
}

impl<T: Copy + Default> FromIterator<T> for Small<T> {
    #[inline]
    fn from_iter<I: IntoIterator<Item = T>>(all: I) -> Self {
        let mut list = Small::new();
        list.extend(all);
        list
    }
}

impl<'a, T> IntoIterator for &'a Small<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;
    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, T> IntoIterator for &'a mut Small<T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;
    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl<T: Copy + Default> IntoIterator for Small<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;
    #[allow(clippy::unnecessary_to_owned, reason = "both branches give the iterator of a vector")]
    fn into_iter(self) -> Self::IntoIter {
        match self.more {
            None => self.places[..usize::from(self.len)].to_vec().into_iter(),
            Some(all) => all.into_iter(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_behaves_like_vec() {
        for n in 0..9usize {
            let mut v: Vec<usize> = (0..n).collect();
            let mut s: Small<usize> = (0..n).collect();
            assert_eq!((&s[..], Small::from_slice(&v)), (&v[..], s.clone()));
            assert_eq!(Small::from_elem(7, n)[..], vec![7; n]);
            for at in [n, n / 2, 0] {
                v.insert(at, 100 + at);
                s.insert(at, 100 + at);
                assert_eq!(s[..], v);
            }
            for at in [n, 0] {
                assert_eq!((s.remove(at), &s[..]), (v.remove(at), &v[..]));
            }
            for keep in [n + 5, n, n / 2] {
                v.truncate(keep);
                s.truncate(keep);
                assert_eq!(s[..], v);
            }
            s.extend_from_slice(&[1, 2, 3]);
            v.extend_from_slice(&[1, 2, 3]);
            s.retain(|x| x % 2 == 0 || *x == 3);
            v.retain(|x| x % 2 == 0 || *x == 3);
            assert_eq!(s.into_iter().collect::<Vec<_>>(), v);
        }
    }

    #[test]
    fn equality_ignores_inline_or_heap_storage() {
        for kept in 0..6usize {
            for cut_from in [4, 6, 9] {
                // Truncated numbers stay in memory behind the end, and a list that was once long
                // stays on the heap: neither may matter.
                let mut x: Small<usize> = (0..cut_from).collect();
                x.truncate(kept);
                let y: Small<usize> = (0..kept.min(cut_from)).collect();
                assert_eq!(x, y);
                let mut longer = y.clone();
                longer.push(100);
                assert_ne!(x, longer);
                if let Some(last) = x.last_mut() {
                    *last += 1;
                    assert_ne!(x, y);
                }
            }
        }
    }
}
