//! The macro behind the method tables: a row is a signature that forwards to a function of the
//! catalogue.

/// `fn name(args) -> Result type = path;` becomes a method that panics with the error's sentence.
macro_rules! methods {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $t:ty),*) -> $ret:ty = $path:path;)*) => {
        impl<B: Backend> Tensor<B> {$(
            $(#[$doc])*
            ///
            /// # Panics
            /// If an argument is invalid, with a sentence that says why, or if memory is exhausted.
            #[track_caller]
            pub fn $name(&self, $($arg: $t),*) -> $ret {
                $path(self, $($arg),*).or_fail()
            }
        )*}
    };
}
pub(super) use methods;

/// One axis or several, each of which may count from the end: `-1`, `[0, 1]`, a slice.
pub trait Axes {
    /// The axes.
    fn list(self) -> Vec<isize>;
}
impl Axes for isize {
    fn list(self) -> Vec<isize> {
        vec![self]
    }
}
impl Axes for i32 {
    fn list(self) -> Vec<isize> {
        vec![self as isize]
    }
}
impl<const N: usize> Axes for [isize; N] {
    fn list(self) -> Vec<isize> {
        self.to_vec()
    }
}
impl<const N: usize> Axes for [i32; N] {
    fn list(self) -> Vec<isize> {
        self.iter().map(|&d| d as isize).collect()
    }
}
impl Axes for &[isize] {
    fn list(self) -> Vec<isize> {
        self.to_vec()
    }
}
