//! Row-wise formulas as objects: compiled once, in the crate that defines them, for the reasons of
//! [`crate::compiled`].

use crate::compiled::{Compiled, FormulaKey, first};
use crate::dispatch::SimdFloat;
use crate::row_loop::{self, ColumnLoops, RowLoops};
use elinvar_lane::formula::{Columns, Fold, RowFormula, RowOut, STATS, Saves};
use elinvar_lane::lane::Lane;
use elinvar_lane::recorded::{Expression, Recorded};
use std::fmt::Debug;

/// The definition of a row-wise formula's parts, in numbers of one type. `s` are a row's
/// statistics, of which those that are not, or not yet, are 0; `n` is the number of its elements.
pub trait PlainRows<T> {
    /// The terms of statistic `k`, at each element of a row.
    fn term(&self, k: usize, x: &[&[T]], s: [T; STATS], n: T, terms: &mut [T]);
    /// Statistic `k` from its fold.
    fn finish(&self, k: usize, folded: T, s: [T; STATS], n: T) -> T;
    /// The results at each element of a row.
    fn each(&self, x: &[&[T]], s: [T; STATS], n: T, y: &mut [T]);
    /// The result of a row.
    fn once(&self, s: [T; STATS], n: T) -> T;
}

/// A row-wise formula as an object.
pub trait RowObject: RowLoops<f32> + RowLoops<f64> + PlainRows<f32> + PlainRows<f64> + Debug {
    /// The op's name.
    fn name(&self) -> &'static str;
    /// How many operands.
    fn arity(&self) -> usize;
    /// The folds, in order.
    fn folds(&self) -> &'static [Fold];
    /// What comes out.
    fn out(&self) -> RowOut;
    /// What the gradient reads.
    fn saves(&self) -> Saves;
    /// Are the terms of the first statistic the elements of the first operand?
    fn is_plain(&self) -> bool;
    /// Are the results made from the last statistic's terms?
    fn keeps_terms(&self) -> bool;
    /// What tells it from others.
    fn key(&self) -> FormulaKey;
    /// The same formula, owned.
    fn boxed(&self) -> Box<dyn RowObject>;
    /// The term of statistic `k` on recorded numbers.
    fn recorded_term(&self, k: usize, x: &[Recorded], s: [Recorded; STATS], n: Recorded) -> Recorded;
    /// Statistic `k` from its fold on recorded numbers.
    fn recorded_finish(&self, k: usize, folded: Recorded, s: [Recorded; STATS], n: Recorded) -> Recorded;
    /// The result at an element, or for a row (then the operands may be anything), on recorded
    /// numbers.
    fn recorded_out(&self, x: &[Recorded], s: [Recorded; STATS], n: Recorded) -> Recorded;
    /// The result from the last statistic's term on recorded numbers, if
    /// [`RowObject::has_out_of_term`].
    fn recorded_out_of_term(&self, term: Recorded, s: [Recorded; STATS], n: Recorded) -> Recorded;
    /// Is the result a formula of the last statistic's term ([`RowFormula::KEEPS`])?
    fn has_out_of_term(&self) -> bool;
}

/// Records a formula of `operands` numbers, the statistics and the length.
fn record(
    bits: u32,
    operands: usize,
    formula: &dyn Fn(&[Recorded], [Recorded; STATS], Recorded) -> Recorded,
) -> Expression {
    Expression::record_one(bits, operands + STATS + 1, &|all| {
        let (x, rest) = all.split_at(operands);
        formula(x, first(rest), rest[STATS])
    })
}

impl dyn RowObject + '_ {
    /// The operations of the term of statistic `k`, for floats of `bits`: 32 or 64; of (operands..,
    /// statistics.., n).
    pub fn record_term(&self, k: usize, bits: u32) -> Expression {
        record(bits, self.arity(), &|x, s, n| self.recorded_term(k, x, s, n))
    }
    /// Those of statistic `k`, of (fold, statistics.., n).
    pub fn record_finish(&self, k: usize, bits: u32) -> Expression {
        record(bits, 1, &|x, s, n| self.recorded_finish(k, x[0], s, n))
    }
    /// Those of the result at an element, or for a row (then the operands may be anything), of
    /// (operands.., statistics.., n).
    pub fn record_out(&self, bits: u32) -> Expression {
        record(bits, self.arity(), &|x, s, n| self.recorded_out(x, s, n))
    }
    /// Those of the result from the last statistic's term, of (term, statistics.., n), if it keeps
    /// these.
    pub fn record_out_of_term(&self, bits: u32) -> Option<Expression> {
        self.has_out_of_term().then(|| record(bits, 1, &|x, s, n| self.recorded_out_of_term(x[0], s, n)))
    }
}

/// A row-wise formula with sums over the rows as an object.
pub trait ColumnsObject: ColumnLoops<f32> + ColumnLoops<f64> + Debug {
    /// The formula without the sums.
    fn rows(&self) -> &dyn RowObject;
    /// How many sums there are.
    fn sums(&self) -> usize;
}

/// A row-wise formula that is compiled where [`compile_rows!`](crate::compile_rows) names it.
pub trait CompiledRows<const N: usize>: RowFormula<N> {
    /// The formula as an object.
    fn object(f: &Compiled<Self, N>) -> &dyn RowObject;
}

/// A row-wise formula with sums that is compiled where [`compile_columns!`](crate::compile_columns)
/// names it.
pub trait CompiledColumns<const N: usize>: Columns<N> {
    /// The formula as an object.
    fn object(f: &Compiled<Self, N>) -> &dyn ColumnsObject;
}

/// `compile_rows! { 1 Softmax; 3 Normalize; }`: compiles these row-wise formulas of so many
/// operands here.
#[macro_export]
macro_rules! compile_rows {
    ($($n:literal $r:ty;)*) => {$(
        impl $crate::compiled_rows::CompiledRows<$n> for $r {
            // Inlined, it would be compiled once more wherever it is called.
            #[inline(never)]
            fn object(f: &$crate::compiled::Compiled<Self, $n>) -> &dyn $crate::compiled_rows::RowObject {
                f
            }
        }
    )*};
}

/// `compile_columns! { 3 NormalizeGrad; }`: compiles the sums over rows of these formulas here.
#[macro_export]
macro_rules! compile_columns {
    ($($n:literal $r:ty;)*) => {$(
        impl $crate::compiled_rows::CompiledColumns<$n> for $r {
            #[inline(never)]
            fn object(f: &$crate::compiled::Compiled<Self, $n>) -> &dyn $crate::compiled_rows::ColumnsObject {
                f
            }
        }
    )*};
}

impl<T: Lane<Mask = bool>, R: RowFormula<N>, const N: usize> PlainRows<T> for Compiled<R, N> {
    fn term(&self, k: usize, x: &[&[T]], s: [T; STATS], n: T, terms: &mut [T]) {
        for (i, term) in terms.iter_mut().enumerate() {
            *term = self.0.term(k, std::array::from_fn(|operand| x[operand][i]), s, n);
        }
    }
    fn finish(&self, k: usize, folded: T, s: [T; STATS], n: T) -> T {
        self.0.finish(k, folded, s, n)
    }
    fn each(&self, x: &[&[T]], s: [T; STATS], n: T, y: &mut [T]) {
        for (i, y) in y.iter_mut().enumerate() {
            *y = self.0.out(std::array::from_fn(|operand| x[operand][i]), s, n);
        }
    }
    fn once(&self, s: [T; STATS], n: T) -> T {
        self.0.out([T::lit(f64::NAN); N], s, n)
    }
}

impl<R: RowFormula<N>, const N: usize> RowObject for Compiled<R, N> {
    fn name(&self) -> &'static str {
        R::NAME
    }
    fn arity(&self) -> usize {
        N
    }
    fn folds(&self) -> &'static [Fold] {
        R::FOLDS
    }
    fn out(&self) -> RowOut {
        R::OUT
    }
    fn saves(&self) -> Saves {
        R::SAVES
    }
    fn is_plain(&self) -> bool {
        R::PLAIN
    }
    fn keeps_terms(&self) -> bool {
        row_loop::keeps_terms::<R, N>()
    }
    fn key(&self) -> FormulaKey {
        FormulaKey::of(&self.0)
    }
    fn boxed(&self) -> Box<dyn RowObject> {
        Box::new(*self)
    }
    fn recorded_term(&self, k: usize, x: &[Recorded], s: [Recorded; STATS], n: Recorded) -> Recorded {
        self.0.term(k, first(x), s, n)
    }
    fn recorded_finish(&self, k: usize, folded: Recorded, s: [Recorded; STATS], n: Recorded) -> Recorded {
        self.0.finish(k, folded, s, n)
    }
    fn recorded_out(&self, x: &[Recorded], s: [Recorded; STATS], n: Recorded) -> Recorded {
        self.0.out(first(x), s, n)
    }
    fn recorded_out_of_term(&self, term: Recorded, s: [Recorded; STATS], n: Recorded) -> Recorded {
        self.0.out_of_term(term, s, n)
    }
    fn has_out_of_term(&self) -> bool {
        R::KEEPS
    }
}

impl<R: Columns<N>, const N: usize> ColumnsObject for Compiled<R, N> {
    fn rows(&self) -> &dyn RowObject {
        self
    }
    fn sums(&self) -> usize {
        R::SUMS
    }
}

/// A type on which row-wise formulas run.
pub trait RowFloat: SimdFloat {
    /// The formula's loops.
    fn loops(f: &dyn RowObject) -> &dyn RowLoops<Self>;
    /// The loops of its sums over rows.
    fn column_loops(f: &dyn ColumnsObject) -> &dyn ColumnLoops<Self>;
    /// The formula's definition.
    fn plain_rows(f: &dyn RowObject) -> &dyn PlainRows<Self>;
}

macro_rules! row_float {
    ($($t:ty)*) => {$(
        impl RowFloat for $t {
            fn loops(f: &dyn RowObject) -> &dyn RowLoops<$t> {
                f
            }
            fn column_loops(f: &dyn ColumnsObject) -> &dyn ColumnLoops<$t> {
                f
            }
            fn plain_rows(f: &dyn RowObject) -> &dyn PlainRows<$t> {
                f
            }
        }
    )*};
}
row_float! { f32 f64 }
