//! `Pair`: a number for height and width, or one for both.

/// Height and width: `[3, 5]`, or `3` for both.
pub trait Pair {
    /// [height, width]
    fn pair(self) -> [usize; 2];
}

impl Pair for usize {
    fn pair(self) -> [usize; 2] {
        [self, self]
    }
}
impl Pair for [usize; 2] {
    fn pair(self) -> [usize; 2] {
        self
    }
}
impl Pair for (usize, usize) {
    fn pair(self) -> [usize; 2] {
        [self.0, self.1]
    }
}
