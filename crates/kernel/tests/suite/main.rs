//! The kernels of the library against the reference, and the language against its rules.

mod backend;
mod edges;
mod equal;
mod interp;
mod mutations;
mod ptx;
mod ptx_machine;
mod random;
mod spirv;
mod text;
mod verify;
