//! One formula for everything that changes in a step: the parameter and its states.
//!
//! An optimiser is a function of numbers: so many in, so many out. How that function gets to a device is decided here
//! and nowhere else, in [`each`], so that another way of running it changes no optimiser.

use super::Rule;
use elinvar_core::Result;
use elinvar_ops::Backend;
use elinvar_ops::array::{self, Array};
use elinvar_ops::lane::Lane;
use elinvar_ops::map::Map;
use std::fmt::Debug;

/// An elementwise formula of `N` numbers that gives `M`: in a step, (parameter, gradient, states.., scalars..) gives
/// (parameter, states..).
pub trait Update<const N: usize, const M: usize>: Copy + Debug + Send + Sync + 'static {
    /// Its name.
    const NAME: &'static str;
    /// The formula.
    fn lane<L: Lane>(&self, x: [L; N]) -> [L; M];
}

/// Result `I` of an update, as a map. What the other results alone need is left out by the compiler.
#[derive(Clone, Copy, Debug)]
struct Pick<U, const M: usize, const I: usize>(U);

impl<U: Update<N, M>, const N: usize, const M: usize, const I: usize> Map<N> for Pick<U, M, I> {
    const NAME: &'static str = U::NAME;
    #[inline(always)]
    fn lane<L: Lane>(&self, x: [L; N]) -> L {
        self.0.lane(x)[I]
    }
}

/// An update on arrays: for every [`Update`] of up to five results.
pub trait Run<const N: usize, const M: usize>: Update<N, M> {
    /// All results; operands are broadcast.
    ///
    /// # Errors
    /// `DeviceMismatch`, `DTypeMismatch`, `ShapeMismatch`, `OutOfMemory`.
    fn run<B: Backend>(&self, x: [&Array<B>; N]) -> Result<[Array<B>; M]>;
}

macro_rules! run {
    ($($m:literal: $($i:literal)*;)*) => {$(
        impl<U: Update<N, $m>, const N: usize> Run<N, $m> for U {
            fn run<B: Backend>(&self, x: [&Array<B>; N]) -> Result<[Array<B>; $m]> {
                Ok([$(array::map(&Pick::<U, $m, $i>(*self), x)?),*])
            }
        }
    )*};
}
run! {
    1: 0;
    2: 0 1;
    3: 0 1 2;
    4: 0 1 2 3;
    5: 0 1 2 3 4;
}

/// A parameter's part in a step, in the type in which it is computed.
#[derive(Debug)]
pub struct Work<B: Backend> {
    /// The parameter's name.
    pub name: String,
    /// The parameter; afterwards, its new value.
    pub x: Array<B>,
    /// The gradient.
    pub g: Array<B>,
    /// The states in the order of [`Rule::keeps`]; afterwards, the new ones.
    pub states: Vec<Array<B>>,
    /// The numbers of this step, of shape []: shrink, then those of [`Rule::scalars`].
    pub scalars: Vec<Array<B>>,
}

/// Runs an update of (parameter, gradient, states.., scalars..) to (parameter, states..) on every parameter.
///
/// # Errors
/// Those of [`Run::run`], with the parameter's name.
///
/// # Panics
/// If a parameter has another number of states or scalars than the update.
pub fn each<B: Backend, U: Run<N, M>, const N: usize, const M: usize>(
    update: &U,
    all: &mut [Work<B>],
) -> Result<()> {
    for w in all {
        let operands: Vec<&Array<B>> = [&w.x, &w.g].into_iter().chain(&w.states).chain(&w.scalars).collect();
        assert_eq!(operands.len(), N, "{} is a formula of {N} operands", U::NAME);
        assert_eq!(w.states.len() + 1, M, "{} is a formula of {M} results", U::NAME);
        let operands: [&Array<B>; N] = std::array::from_fn(|i| operands[i]);
        let mut new = update.run(operands).map_err(|e| e.at(&w.name))?.into_iter();
        w.x = new.next().expect("an update gives the parameter first");
        w.states = new.collect();
    }
    Ok(())
}

/// A rule's formula with what all rules have in common: the direction, and weight decay that joins the gradient.
#[derive(Clone, Copy, Debug)]
pub struct Step<R> {
    /// The rule.
    pub rule: R,
    /// Up instead of down.
    pub maximize: bool,
    /// How much of the parameter is added to the gradient.
    pub decay: f64,
}

impl<R: Rule, const N: usize, const M: usize> Update<N, M> for Step<R> {
    const NAME: &'static str = R::NAME;
    #[inline(always)]
    fn lane<L: Lane>(&self, x: [L; N]) -> [L; M] {
        let g = if self.maximize { -x[1] } else { x[1] };
        let g = if self.decay == 0.0 { g } else { L::lit(self.decay).fma(x[0], g) };
        // x: parameter, gradient, M - 1 states, shrink, other scalars.
        let mut y: [L; M] = std::array::from_fn(|i| x[if i == 0 { 0 } else { i + 1 }]);
        let (param, states) = y.split_at_mut(1);
        param[0] = self.rule.lane(x[0] * x[M + 1], g, states, &x[M + 2..]);
        y
    }
}
