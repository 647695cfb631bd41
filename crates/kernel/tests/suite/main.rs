//! The kernels of the library against the reference, and the language against its rules.

mod backend;
mod equal;
mod interp;
mod random;
mod spirv;
mod text;
mod verify;
