//! `PerAxis`: a number for each spatial axis, or one for all.

use std::fmt;

/// A number for each of `AXES` spatial axes: `[3, 5]`, or `3` for all.
pub trait PerAxis<const AXES: usize> {
    /// One number per axis, in the order of the axes: [depth, height, width].
    fn per_axis(self) -> [usize; AXES];
}

impl<const AXES: usize> PerAxis<AXES> for usize {
    fn per_axis(self) -> [usize; AXES] {
        [self; AXES]
    }
}
impl<const AXES: usize> PerAxis<AXES> for [usize; AXES] {
    fn per_axis(self) -> [usize; AXES] {
        self
    }
}
impl PerAxis<2> for (usize, usize) {
    fn per_axis(self) -> [usize; 2] {
        [self.0, self.1]
    }
}
impl PerAxis<3> for (usize, usize, usize) {
    fn per_axis(self) -> [usize; 3] {
        [self.0, self.1, self.2]
    }
}

/// The form in a summary: 3x5.
pub(super) struct By<'a>(pub &'a [usize]);

impl fmt::Display for By<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, n) in self.0.iter().enumerate() {
            write!(f, "{}{n}", if i == 0 { "" } else { "x" })?;
        }
        Ok(())
    }
}
