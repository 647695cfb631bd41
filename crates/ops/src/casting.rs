//! Which types are made into which, as types: who names [`Halves`] when a program is compiled has
//! no conversion of anything else in it.

/// The conversions that somebody may ask for.
pub trait Casting: Copy + Send + Sync + std::fmt::Debug + 'static {
    /// Any dtype to any other? Where not, f16 and bf16 to f32 and back, and no other conversion
    /// need be compiled.
    const ALL: bool;
}

/// Any dtype to any other.
#[derive(Clone, Copy, Debug)]
pub struct All;
/// f16 and bf16 to f32, and back: what an op needs that is computed in f32, as many gradients are.
/// With conversions between all types, a program that multiplies two matrices had 0.1 MiB of them.
#[derive(Clone, Copy, Debug)]
pub struct Halves;

impl Casting for All {
    const ALL: bool = true;
}
impl Casting for Halves {
    const ALL: bool = false;
}
