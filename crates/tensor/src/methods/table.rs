//! The macros behind the tables of methods: a row is a signature, the name of its fallible twin,
//! and how it calls the catalogue.
//!
//! A method that takes any form of a shape or number only converts it and calls a function that is
//! not generic over that form, so that a program's calls are quick to compile.

/// `fn name, try_name(args) -> result = |x| call;` becomes a method that panics with the error's
/// sentence, and one that returns the error.
macro_rules! methods {
    ($($(#[$doc:meta])* fn $name:ident, $twin:ident($($arg:ident: $t:ty),* $(,)?) -> $ret:ty
        = |$x:ident| $run:expr;)*) => {
        impl<B: Backend> Tensor<B> {$(
            $(#[$doc])*
            ///
            /// # Panics
            /// If an operand or argument does not fit, with a sentence that says why, or if memory
            /// is exhausted.
            #[track_caller]
            pub fn $name(&self, $($arg: $t),*) -> $ret {
                self.$twin($($arg),*).or_fail()
            }
            #[doc = concat!("[`Tensor::", stringify!($name), "`], which returns its error.")]
            ///
            /// # Errors
            /// What does not fit, in a sentence, or `OutOfMemory`.
            pub fn $twin(&self, $($arg: $t),*) -> Result<$ret> {
                let $x = self;
                $run
            }
        )*}
    };
}

/// The same for functions of several tensors: `fn name, try_name(args) -> result = call;`
macro_rules! functions {
    ($($(#[$doc:meta])* fn $name:ident, $twin:ident($($arg:ident: $t:ty),* $(,)?) -> $ret:ty = $run:expr;)*) => {
        impl<B: Backend> Tensor<B> {$(
            $(#[$doc])*
            ///
            /// # Panics
            /// If an operand or argument does not fit, with a sentence that says why, or if memory
            /// is exhausted.
            #[track_caller]
            pub fn $name($($arg: $t),*) -> $ret {
                Self::$twin($($arg),*).or_fail()
            }
            #[doc = concat!("[`Tensor::", stringify!($name), "`], which returns its error.")]
            ///
            /// # Errors
            /// What does not fit, in a sentence, or `OutOfMemory`.
            pub fn $twin($($arg: $t),*) -> Result<$ret> {
                $run
            }
        )*}
    };
}

pub(super) use {functions, methods};
