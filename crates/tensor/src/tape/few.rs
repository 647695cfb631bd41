//! None, one or two of something, where they lie; more, elsewhere.

use std::ops::Deref;

/// A list that a node of the tape is made with, once. One or two elements are its own fields, not memory that is filled by and by and
/// moved then: values that go to the node straight from registers. (Moved, each waits for its stores: a fifth of a recorded op on four
/// numbers.)
pub(crate) enum Few<T> {
    None,
    One([T; 1]),
    Two([T; 2]),
    Many(Box<[T]>),
}

impl<T> Few<T> {
    /// What `f` makes of some things.
    #[inline(always)]
    pub(crate) fn of<S>(all: &[S], f: impl Fn(&S) -> T) -> Self {
        match all {
            [] => Few::None,
            [a] => Few::One([f(a)]),
            [a, b] => Few::Two([f(a), f(b)]),
            all => Few::Many(all.iter().map(f).collect()),
        }
    }
    /// Gives `f` each of them, and is empty then.
    #[inline(always)]
    pub(crate) fn drain(&mut self, mut f: impl FnMut(T)) {
        match std::mem::replace(self, Few::None) {
            Few::None => {}
            Few::One([a]) => f(a),
            Few::Two([a, b]) => {
                f(a);
                f(b);
            }
            Few::Many(all) => all.into_iter().for_each(f),
        }
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        match self {
            Few::None => &[],
            Few::One(all) => all,
            Few::Two(all) => all,
            Few::Many(all) => all,
        }
    }
}
