//! What a formula is: an elementwise op, the step of an optimiser, what follows a product.
//!
//! A formula is a type that carries its attributes, and a function over [`Lane`] (or [`Int`]) that
//! is read in many ways. How it becomes an op with a gradient, and which kernels are compiled of
//! it, is not said here.

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
    /// The larger; NaN wins, +0 is larger than -0. From -inf (floats), the least value (integers),
    /// false.
    Max,
    /// The smaller; NaN wins. From +inf (floats), the largest value (integers), true.
    Min,
}

/// What a map's result is stored as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Out {
    /// The operands' dtype.
    Same,
    /// bool: the formula gives 0 or 1. Such a map has no gradient.
    Bool,
}

/// How a formula had better be run: what a fast backend cannot see in it. Hints change no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    /// It is computed as fast as its operands come from memory: a few operations, and no elementary
    /// function.
    pub light: bool,
    /// Low register pressure: so few of its values are alive at once that six registers of elements
    /// go through it side by side, instead of four. It is measured.
    pub slim: bool,
    /// The first operand is an angle whose sine, cosine or tangent it takes, and the only one. A
    /// backend that sees that a block of them is below
    /// [`moderate_bound`](crate::math::moderate_bound) may read the formula in a way that says so
    /// ([`Lane::are_moderate`]).
    pub angles: bool,
}

impl Hints {
    /// Nothing is known.
    pub const NONE: Hints = Hints { light: false, slim: false, angles: false };
    /// Bound by memory.
    pub const LIGHT: Hints = Hints { light: true, ..Hints::NONE };
    /// Low register pressure.
    pub const SLIM: Hints = Hints { slim: true, ..Hints::NONE };
    /// Of an angle.
    pub const ANGLES: Hints = Hints { angles: true, ..Hints::NONE };
}

/// An elementwise op on floats: a formula over `N` operands, and its gradient.
///
/// `&self` carries the attributes (a slope, a bound). Write a formula over [`Lane`] and the op runs
/// on every backend, with every derivative.
pub trait Map<const N: usize>: Copy + Debug + Send + Sync + 'static {
    /// The op's name.
    const NAME: &'static str;
    /// What the result is stored as.
    const OUT: Out = Out::Same;
    /// What the gradient reads.
    const SAVES: Saves = Saves::INPUTS;
    /// How it had better be run. It changes no result.
    const HINTS: Hints = Hints::NONE;

    /// Operands of which [`Map::vjp`] is `g` as it is. Then it is not computed: a copy of `g` for
    /// each operand of a sum was half of its gradient.
    const PASSES: &'static [usize] = &[];

    /// The formula.
    fn lane<L: Lane>(&self, x: [L; N]) -> L;

    /// `g` times the derivative by operand `i`, at operands `x` and result `y`. An op may write a
    /// better one than the dual reading, and say in [`Map::SAVES`] if it does without the operands
    /// (then `x` is NaN) or uses the result (otherwise `y` is NaN).
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, x: [L; N], _y: L, g: L) -> L {
        g * dual(self, i, x)
    }
}

/// The derivative of a map by operand `i`, from the dual reading of its formula.
#[inline(always)]
pub fn dual<L: Lane, M: Map<N>, const N: usize>(m: &M, i: usize, x: [L; N]) -> L {
    let mut d = x.map(|value| Dual { value, slope: L::lit(0.0) });
    d[i].slope = L::lit(1.0);
    m.lane(d).slope
}

/// An elementwise op on integers and bool.
pub trait IntMap<const N: usize>: Copy + Debug + Send + Sync + 'static {
    /// The op's name.
    const NAME: &'static str;
    /// What the result is stored as.
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

/// A formula that changes `M` numbers by `R` others: in a step of an optimiser, (parameter,
/// states..) by (gradient, numbers of the step..).
pub trait Update<const M: usize, const R: usize>: Copy + Debug + Send + Sync + 'static {
    /// Its name.
    const NAME: &'static str;
    /// The new numbers, from the old ones and those that are only read.
    fn lane<L: Lane>(&self, x: [L; M], read: [L; R]) -> [L; M];
}

/// What follows a contraction before the result is stored: a map of the sum and `N` further
/// operands.
pub trait Epilogue<const N: usize>: Copy + Debug + Send + Sync + 'static {
    /// Name for kernels.
    const NAME: &'static str;
    /// From the finished sum and the operands at this element to what is stored.
    fn lane<L: Lane>(&self, sum: L, x: [L; N]) -> L;
}

/// Nothing follows.
#[derive(Clone, Copy, Debug)]
pub struct Plain;
impl Epilogue<0> for Plain {
    const NAME: &'static str = "plain";
    #[inline(always)]
    fn lane<L: Lane>(&self, sum: L, _: [L; 0]) -> L {
        sum
    }
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

/// What a row-wise op gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOut {
    /// A value for each element.
    Each,
    /// A value for each row.
    Once,
    /// All statistics of each row, side by side.
    Statistics,
}

impl RowOut {
    /// Values that come out of a row of `n` elements with so many statistics.
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
    /// What comes out.
    const OUT: RowOut;
    /// What the gradient reads.
    const SAVES: Saves = Saves::INPUTS;

    /// The term that statistic `k` folds, at one element. `n` is the number of elements in a row.
    fn term<L: Lane>(&self, k: usize, x: [L; N], s: [L; STATS], n: L) -> L;
    /// Statistic `k` from its fold.
    #[inline(always)]
    fn finish<L: Lane>(&self, _k: usize, folded: L, _s: [L; STATS], _n: L) -> L {
        folded
    }
    /// The result at one element, or for a row (then `x` is NaN). Of [`RowOut::Statistics`] it is
    /// not asked for.
    fn out<L: Lane>(&self, x: [L; N], s: [L; STATS], n: L) -> L;

    /// Are the terms of the first statistic the elements of the first operand, as they are? A
    /// backend may then fold these where they lie.
    const PLAIN: bool = false;

    /// Is [`RowFormula::out`] what [`RowFormula::out_of_term`] says, of the last statistic's term
    /// at the same element? A backend may then keep the terms instead of computing them anew.
    const KEEPS: bool = false;
    /// The result at one element from the last statistic's term there, if [`RowFormula::KEEPS`].
    #[inline(always)]
    fn out_of_term<L: Lane>(&self, term: L, _s: [L; STATS], _n: L) -> L {
        term
    }
}

/// A row-wise op with a value for each element, of whose elements there are sums over the rows as
/// well: the gradient by what all rows share, such as a norm's weight, beside that by the rows.
pub trait Columns<const N: usize>: RowFormula<N> {
    /// How many sums there are.
    const SUMS: usize;
    /// The term of sum `k` at one element.
    fn column<L: Lane>(&self, k: usize, x: [L; N], s: [L; STATS], n: L) -> L;
}
