//! Sets of conversions as types: a program that uses [`Halves`] alone does not link conversions of
//! other types.

/// A set of conversions.
pub trait Casting: Copy + Send + Sync + std::fmt::Debug + 'static {
    /// All dtypes? If not, storage floats to f32 and back: no other conversion need be compiled.
    const ALL: bool;
}

/// Any dtype to any other.
#[derive(Clone, Copy, Debug)]
pub struct All;
/// Storage floats to f32, and back: all that an op needs that is computed in f32, as many gradients
/// are. Small programs then do not link the conversions between all types.
#[derive(Clone, Copy, Debug)]
pub struct Halves;

impl Casting for All {
    const ALL: bool = true;
}
impl Casting for Halves {
    const ALL: bool = false;
}
