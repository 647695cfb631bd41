//! Reductions as types: a program that uses one of them does not link the code of the others.

use crate::backend::{Backend, Fold, View};
use elinvar_core::{DType, Result};

/// A [`Fold`] that is known at compile time.
pub trait Folding: Copy + Send + Sync + std::fmt::Debug + 'static {
    /// The same as a value.
    const FOLD: Fold;
    /// Does it reduce integers and bool, too? If not, that code need not be compiled.
    const INTEGERS: bool;
}

/// [`Fold::Sum`].
#[derive(Clone, Copy, Debug)]
pub struct Sum;
/// [`Fold::Sum`] of floats alone, as gradients are: every op that broadcasts sums its gradients,
/// and does not need integer sums for that.
#[derive(Clone, Copy, Debug)]
pub struct FloatSum;
/// [`Fold::Prod`].
#[derive(Clone, Copy, Debug)]
pub struct Prod;
/// [`Fold::Max`].
#[derive(Clone, Copy, Debug)]
pub struct Max;
/// [`Fold::Min`].
#[derive(Clone, Copy, Debug)]
pub struct Min;

impl Folding for Sum {
    const FOLD: Fold = Fold::Sum;
    const INTEGERS: bool = true;
}
impl Folding for FloatSum {
    const FOLD: Fold = Fold::Sum;
    const INTEGERS: bool = false;
}
impl Folding for Prod {
    const FOLD: Fold = Fold::Prod;
    const INTEGERS: bool = true;
}
impl Folding for Max {
    const FOLD: Fold = Fold::Max;
    const INTEGERS: bool = true;
}
impl Folding for Min {
    const FOLD: Fold = Fold::Min;
    const INTEGERS: bool = true;
}

/// [`Compute::fold`](crate::backend::Compute::fold) by a fold that is known at run time only.
///
/// # Errors
/// As [`Compute::fold`](crate::backend::Compute::fold).
pub fn by<B: Backend>(d: &B::Device, f: Fold, x: View<'_, B>, kept: usize, to: DType) -> Result<B::Buffer> {
    match f {
        Fold::Sum => B::fold::<Sum>(d, x, kept, to),
        Fold::Prod => B::fold::<Prod>(d, x, kept, to),
        Fold::Max => B::fold::<Max>(d, x, kept, to),
        Fold::Min => B::fold::<Min>(d, x, kept, to),
    }
}
