//! What a formula is: an elementwise op, the step of an optimiser, the epilogue of a product.
//!
//! A formula is a type that carries the attributes, and a function over [`Lane`] (or [`Int`]) that
//! has several readings. Ops with gradients, and kernels compiled from formulas, are defined above
//! this crate.

use crate::int::Int;
use crate::lane::{Lane, dual::Dual};
use std::fmt::Debug;

/// What an op's gradient reads, and the tape therefore keeps alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saves {
    /// The operands.
    pub inputs: bool,
    /// The results.
    pub outputs: bool,
}

impl Saves {
    /// Only shapes.
    pub const NOTHING: Saves = Saves { inputs: false, outputs: false };
    /// The operands.
    pub const INPUTS: Saves = Saves { inputs: true, outputs: false };
    /// The results.
    pub const OUTPUTS: Saves = Saves { inputs: false, outputs: true };
    /// Both.
    pub const BOTH: Saves = Saves { inputs: true, outputs: true };
}

/// How a fold combines two numbers; order: [`elinvar_core::order::fold`] for sums and products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fold {
    /// a + b, from 0. For bool: counts.
    Sum,
    /// a * b, from 1.
    Prod,
    /// The larger; NaN wins, +0 is larger than -0. Starts from -inf (floats), the least value
    /// (integers), false (bool).
    Max,
    /// The smaller; NaN wins. Starts from +inf (floats), the largest value (integers), true (bool).
    Min,
}

/// The dtype in which a map's result is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Out {
    /// The operands' dtype.
    Same,
    /// bool: the formula gives 0 or 1. Such a map has no gradient.
    Bool,
}

/// Hints on how to run a formula, which a fast backend cannot derive from it. Hints change no
/// result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    /// Bound by memory bandwidth: a few operations, and no elementary function.
    pub light: bool,
    /// The first operand is an angle, and the formula takes the sine, cosine or tangent of it and
    /// of nothing else. A backend that has checked that a block of angles is below
    /// [`moderate_bound`](crate::math::moderate_bound) may use a reading whose
    /// [`Lane::are_moderate`] is true.
    pub angles: bool,
}

impl Hints {
    /// No hint.
    pub const NONE: Hints = Hints { light: false, angles: false };
    /// Bound by memory.
    pub const LIGHT: Hints = Hints { light: true, ..Hints::NONE };
    /// Trigonometric function of an angle.
    pub const ANGLES: Hints = Hints { angles: true, ..Hints::NONE };
}

/// An elementwise op on floats: a formula over `N` operands, and its gradient.
///
/// `&self` carries the attributes (a slope, a bound). Write a formula over [`Lane`] and the op runs
/// on every backend, with every derivative.
pub trait Map<const N: usize>: Copy + Debug + Send + Sync + 'static {
    /// The op's name.
    const NAME: &'static str;
    /// The dtype in which the result is stored.
    const OUT: Out = Out::Same;
    /// The values that the gradient reads.
    const SAVES: Saves = Saves::INPUTS;
    /// How it is best run. It changes no result.
    const HINTS: Hints = Hints::NONE;

    /// Operands for which [`Map::vjp`] is `g` itself. The tape then shares `g` instead of running a
    /// kernel that copies it.
    const PASSES: &'static [usize] = &[];

    /// The formula.
    fn lane<L: Lane>(&self, x: [L; N]) -> L;

    /// `g` times the derivative by operand `i`, at operands `x` and result `y`. An op may override
    /// it with a better formula than the dual reading, and declare in [`Map::SAVES`] that it does
    /// not read the operands (then `x` is NaN) or that it reads the result (otherwise `y` is NaN).
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, x: [L; N], _y: L, g: L) -> L {
        g * dual(self, i, x)
    }
}

/// The derivative of a map by operand `i`, from the dual reading of its formula.
#[inline(always)]
pub fn dual<L: Lane, M: Map<N>, const N: usize>(m: &M, i: usize, x: [L; N]) -> L {
    // A loop: `map` of an array is a call that is not inlined everywhere.
    let mut d = [Dual { value: x[0], slope: L::lit(0.0) }; N];
    for (d, x) in d.iter_mut().zip(x) {
        d.value = x;
    }
    d[i].slope = L::lit(1.0);
    m.lane(d).slope
}

/// An elementwise op on integers and bool.
pub trait IntMap<const N: usize>: Copy + Debug + Send + Sync + 'static {
    /// The op's name.
    const NAME: &'static str;
    /// The dtype in which the result is stored.
    const OUT: Out = Out::Same;
    /// The formula.
    fn int<I: Int>(&self, x: [I; N]) -> I;
}

/// The gradient of map `M` by operand `I` as a map of (g): for ops whose derivative is a constant.
#[derive(Clone, Copy, Debug)]
pub struct VjpG<M, const N: usize, const I: usize>(pub M);
/// The gradient of map `M` by operand `I` as a map of (operands.., g).
#[derive(Clone, Copy, Debug)]
pub struct VjpX<M, const N: usize, const I: usize>(pub M);
/// The gradient of map `M` by operand `I` as a map of (result, g).
#[derive(Clone, Copy, Debug)]
pub struct VjpY<M, const N: usize, const I: usize>(pub M);
/// The gradient of map `M` by operand `I` as a map of (operands.., result, g).
#[derive(Clone, Copy, Debug)]
pub struct VjpXY<M, const N: usize, const I: usize>(pub M);

/// A formula that updates `M` tensors elementwise from `R` others: in a step of an optimiser,
/// (parameter, states..) from (gradient, scalars of the step..).
pub trait Update<const M: usize, const R: usize>: Copy + Debug + Send + Sync + 'static {
    /// Its name.
    const NAME: &'static str;
    /// The new values, from the old ones and those that are only read.
    fn lane<L: Lane>(&self, x: [L; M], read: [L; R]) -> [L; M];
}

/// The epilogue of a contraction: a map of the sum and `N` further operands, applied before the
/// result is stored.
pub trait Epilogue<const N: usize>: Copy + Debug + Send + Sync + 'static {
    /// Name for kernels.
    const NAME: &'static str;
    /// From the finished sum and the operands at this element to what is stored.
    fn lane<L: Lane>(&self, sum: L, x: [L; N]) -> L;
}

/// sum + bias.
#[derive(Clone, Copy, Debug)]
pub struct AddBias;
impl Epilogue<1> for AddBias {
    const NAME: &'static str = "bias";
    #[inline(always)]
    fn lane<L: Lane>(&self, sum: L, [bias]: [L; 1]) -> L {
        sum + bias
    }
}

macro_rules! vjps {
    ($($n:literal: $with_g:literal, $with_yg:literal, [$($x:ident),*];)*) => {$(
        impl<M: Map<$n>, const I: usize> Map<1> for VjpG<M, $n, I> {
            const NAME: &'static str = M::NAME;
            const HINTS: Hints = Hints::LIGHT;
            #[inline(always)]
            fn lane<L: Lane>(&self, [g]: [L; 1]) -> L {
                self.0.vjp(I, [L::lit(f64::NAN); $n], L::lit(f64::NAN), g)
            }
        }
        impl<M: Map<$n>, const I: usize> Map<2> for VjpY<M, $n, I> {
            const NAME: &'static str = M::NAME;
            const HINTS: Hints = Hints::LIGHT;
            #[inline(always)]
            fn lane<L: Lane>(&self, [y, g]: [L; 2]) -> L {
                self.0.vjp(I, [L::lit(f64::NAN); $n], y, g)
            }
        }
        impl<M: Map<$n>, const I: usize> Map<$with_g> for VjpX<M, $n, I> {
            const NAME: &'static str = M::NAME;
            const HINTS: Hints = M::HINTS;
            #[inline(always)]
            fn lane<L: Lane>(&self, [$($x),*, g]: [L; $with_g]) -> L {
                let y = if M::SAVES.outputs { self.0.lane([$($x),*]) } else { L::lit(f64::NAN) };
                self.0.vjp(I, [$($x),*], y, g)
            }
        }
        impl<M: Map<$n>, const I: usize> Map<$with_yg> for VjpXY<M, $n, I> {
            const NAME: &'static str = M::NAME;
            const HINTS: Hints = M::HINTS;
            #[inline(always)]
            fn lane<L: Lane>(&self, [$($x),*, y, g]: [L; $with_yg]) -> L {
                self.0.vjp(I, [$($x),*], y, g)
            }
        }
    )*};
}
vjps! {
    1: 2, 3, [x0];
    2: 3, 4, [x0, x1];
    3: 4, 5, [x0, x1, x2];
    4: 5, 6, [x0, x1, x2, x3];
}

/// Most statistics that a row-wise op may have.
pub const STATS: usize = 4;

/// The output of a row-wise op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOut {
    /// A value for each element.
    Each,
    /// A value for each row.
    Once,
    /// All statistics of each row, along the last axis.
    Statistics,
}

impl RowOut {
    /// Output values per row of `n` elements with this many statistics.
    pub fn width(self, n: usize, statistics: usize) -> usize {
        match self {
            RowOut::Each => n,
            RowOut::Once => 1,
            RowOut::Statistics => statistics,
        }
    }
}

/// The formulas of a row-wise op, over `N` operands of one shape: statistics of a row, then a value
/// for each element or for the row.
pub trait RowFormula<const N: usize>: Copy + Debug + Send + Sync + 'static {
    /// The op's name.
    const NAME: &'static str;
    /// The folds, in the order in which they run; each sees the statistics before it. At most
    /// [`STATS`].
    const FOLDS: &'static [Fold];
    /// The output.
    const OUT: RowOut;
    /// The values that the gradient reads.
    const SAVES: Saves = Saves::INPUTS;

    /// The term that statistic `k` folds, at one element. `n` is the number of elements in a row.
    fn term<L: Lane>(&self, k: usize, x: [L; N], s: [L; STATS], n: L) -> L;
    /// Statistic `k` from its fold.
    #[inline(always)]
    fn finish<L: Lane>(&self, _k: usize, folded: L, _s: [L; STATS], _n: L) -> L {
        folded
    }
    /// The result at one element, or for a row (then `x` is NaN). Not called for
    /// [`RowOut::Statistics`].
    fn out<L: Lane>(&self, x: [L; N], s: [L; STATS], n: L) -> L;

    /// Are the terms of the first statistic the elements of the first operand, unchanged? A backend
    /// may then fold the operand in place.
    const PLAIN: bool = false;

    /// Is [`RowFormula::out`] equal to [`RowFormula::out_of_term`] of the last statistic's term at
    /// the same element? A backend may then keep the terms instead of computing them again.
    const KEEPS: bool = false;
    /// The result at one element from the last statistic's term there, if [`RowFormula::KEEPS`].
    #[inline(always)]
    fn out_of_term<L: Lane>(&self, term: L, _s: [L; STATS], _n: L) -> L {
        term
    }
}

/// A row-wise op with a value for each element that also sums terms over the rows: the gradient of
/// a parameter that all rows share, such as a norm's weight, together with the gradient of the
/// rows.
pub trait Columns<const N: usize>: RowFormula<N> {
    /// How many sums there are.
    const SUMS: usize;
    /// The term of sum `k` at one element.
    fn column<L: Lane>(&self, k: usize, x: [L; N], s: [L; STATS], n: L) -> L;
}
