//! Formulas as objects: compiled once, in the crate that defines them.
//!
//! A backend is generic over no formula: it takes a [`MapObject`], [`IntMapObject`], which holds a
//! formula's compiled loops for each instruction set, its plain loop (the definition of every
//! result), and its recording, from which all other readings come (kernels of GPUs, operations on
//! whole tensors).
//!
//! Generic code is compiled where it is first named; were formulas type parameters of backends,
//! that would be in every program, for every backend and instruction set. So the object of a
//! formula is made by a function that is not generic ([`CompiledMap::object`], which
//! [`compile_map!`](crate::compile_map) writes), and never inlined: its code is in the crate where
//! the macro stands.

use crate::isa::Isa;
use crate::vector_loop::{self, BlockFormula, Blocks, LoopShape};
use elinvar_core::Element;
use elinvar_lane::formula::{Hints, IntMap, Map, Out, Saves, VjpG, VjpX, VjpXY, VjpY};
use elinvar_lane::int::Int;
use elinvar_lane::lane::Lane;
use elinvar_lane::recorded::{Expression, IntExpression, Recorded, RecordedInt};
use std::any::TypeId;
use std::fmt::Debug;

/// What tells two formulas apart: the type, and the attributes if there are any.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FormulaKey {
    /// The formula's type.
    pub formula: TypeId,
    /// Its attributes, as text.
    pub attributes: Option<String>,
}

impl FormulaKey {
    /// Of a formula.
    pub fn of<F: Debug + 'static>(f: &F) -> FormulaKey {
        FormulaKey { formula: TypeId::of::<F>(), attributes: (size_of::<F>() > 0).then(|| format!("{f:?}")) }
    }
}

/// What a gradient's formula reads besides g, which is its last operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GradientReads {
    /// Nothing.
    Nothing,
    /// The operands.
    Inputs,
    /// The result.
    Output,
    /// The operands, and after them the result.
    Both,
}

/// The gradient of a formula by one operand.
#[derive(Debug)]
pub enum Gradient {
    /// g as it is.
    Passes,
    /// A formula of what it reads and g.
    Formula(Box<dyn MapObject>, GradientReads),
}

/// What is known of a formula without running it: one call of an object tells all of it.
#[derive(Clone, Copy, Debug)]
pub struct MapInfo {
    /// The op's name.
    pub name: &'static str,
    /// How many operands.
    pub arity: usize,
    /// What the result is stored as.
    pub out: Out,
    /// How a backend may run it faster.
    pub hints: Hints,
    /// What the gradient reads.
    pub saves: Saves,
}

/// An elementwise formula on floats as an object.
pub trait MapObject: BlockFormula<f32> + BlockFormula<f64> + Debug {
    /// What is known of it without running it.
    fn info(&self) -> &'static MapInfo;
    /// What tells it from others.
    fn key(&self) -> FormulaKey;
    /// The same formula, owned. (Most have no attributes, and take no memory.)
    fn boxed(&self) -> Box<dyn MapObject>;
    /// The definition, in f32: the formula at each element, one after the other.
    fn plain_f32(&self, x: &[&[f32]], y: &mut [f32]);
    /// The definition, in f64.
    fn plain_f64(&self, x: &[&[f64]], y: &mut [f64]);
    /// The formula on recorded numbers.
    fn recorded(&self, x: &[Recorded]) -> Recorded;
    /// The gradient by operand `i`, if what `saves` says is kept.
    fn gradient(&self, i: usize, saves: Saves) -> Gradient;
    /// The gradient by operand `i` on recorded numbers: of all operands, the result and g. What of
    /// these the formula does not read may be anything; the result is computed anew from the
    /// operands unless `has_output`.
    fn recorded_gradient(&self, i: usize, has_output: bool, x: &[Recorded]) -> Recorded;
}

/// An elementwise formula on integers and bool as an object.
pub trait IntMapObject:
    BlockFormula<i64> + BlockFormula<i32> + BlockFormula<u8> + BlockFormula<bool> + Debug
{
    /// What is known of it without running it. (It has no gradient, and no hints.)
    fn info(&self) -> &'static MapInfo;
    /// What tells it from others.
    fn key(&self) -> FormulaKey;
    /// The same formula, owned.
    fn boxed(&self) -> Box<dyn IntMapObject>;
    /// The definition, on i64.
    fn plain_i64(&self, x: &[&[i64]], y: &mut [i64]);
    /// The definition, on i32.
    fn plain_i32(&self, x: &[&[i32]], y: &mut [i32]);
    /// The definition, on u8.
    fn plain_u8(&self, x: &[&[u8]], y: &mut [u8]);
    /// The definition, on bool.
    fn plain_bool(&self, x: &[&[bool]], y: &mut [bool]);
    /// The formula on recorded numbers.
    fn recorded(&self, x: &[RecordedInt]) -> RecordedInt;
}

impl dyn MapObject + '_ {
    /// The operations, for floats of `bits`: 32 or 64.
    pub fn record(&self, bits: u32) -> Expression {
        Expression::record_one(bits, self.arity(), &|x| self.recorded(x))
    }
    /// The operations of the gradient by operand `i`. See [`MapObject::recorded_gradient`].
    pub fn record_gradient(&self, i: usize, has_output: bool, bits: u32) -> Expression {
        Expression::record_one(bits, self.arity() + 2, &|x| self.recorded_gradient(i, has_output, x))
    }
}

impl dyn IntMapObject + '_ {
    /// The operations.
    pub fn record(&self) -> IntExpression {
        IntExpression::record_one(self.arity(), &|x| self.recorded(x))
    }
}

macro_rules! told_by_info {
    ($($object:ident)*) => {$(
        impl dyn $object + '_ {
            /// The op's name.
            #[inline]
            pub fn name(&self) -> &'static str {
                self.info().name
            }
            /// How many operands.
            #[inline]
            pub fn arity(&self) -> usize {
                self.info().arity
            }
            /// What the result is stored as.
            #[inline]
            pub fn out(&self) -> Out {
                self.info().out
            }
            /// How a backend may run it faster.
            #[inline]
            pub fn hints(&self) -> Hints {
                self.info().hints
            }
            /// What the gradient reads.
            #[inline]
            pub fn saves(&self) -> Saves {
                self.info().saves
            }
        }
    )*};
}
told_by_info! { MapObject IntMapObject }

/// A formula together with its compiled code. Without `GRADIENT` there is none of its gradient: a
/// gradient's own formula has none.
#[derive(Clone, Copy, Debug)]
pub struct Compiled<M, const N: usize, const GRADIENT: bool = true>(pub M);

/// A formula that is compiled where [`compile_map!`](crate::compile_map) names it.
pub trait CompiledMap<const N: usize>: Map<N> {
    /// The formula as an object.
    fn object(f: &Compiled<Self, N>) -> &dyn MapObject;
}

/// A formula on integers that is compiled where [`compile_int_map!`](crate::compile_int_map) names
/// it.
pub trait CompiledIntMap<const N: usize>: IntMap<N> {
    /// The formula as an object.
    fn object(f: &Compiled<Self, N>) -> &dyn IntMapObject;
}

/// `compile_map! { 1 Relu; 2 Add; }`: compiles these formulas of so many operands here.
#[macro_export]
macro_rules! compile_map {
    ($($n:literal $m:ty;)*) => {$(
        impl $crate::compiled::CompiledMap<$n> for $m {
            // Inlined, it would be compiled once more wherever it is called.
            #[inline(never)]
            fn object(f: &$crate::compiled::Compiled<Self, $n>) -> &dyn $crate::compiled::MapObject {
                f
            }
        }
    )*};
}

/// `compile_int_map! { 1 BitwiseNot; }`: compiles these formulas on integers here.
#[macro_export]
macro_rules! compile_int_map {
    ($($n:literal $m:ty;)*) => {$(
        impl $crate::compiled::CompiledIntMap<$n> for $m {
            #[inline(never)]
            fn object(f: &$crate::compiled::Compiled<Self, $n>) -> &dyn $crate::compiled::IntMapObject {
                f
            }
        }
    )*};
}

/// Operand `i` of each.
#[inline(always)]
fn at<T: Copy, const N: usize>(x: &[&[T]; N], i: usize) -> [T; N] {
    std::array::from_fn(|k| x[k][i])
}

/// The operands of a formula of `N`, each as long as the results.
fn operands<'a, T, const N: usize>(x: &[&'a [T]], n: usize) -> [&'a [T]; N] {
    let x: [&[T]; N] = x.try_into().expect("a formula is given as many operands as it has");
    x.map(|x| &x[..n])
}

/// The loop of the definition. A formula is a call: so this is in a program once for each type and
/// number of operands, and not once for each formula.
#[inline(never)]
fn each_element<T: Copy, const N: usize>(f: &dyn Fn([T; N]) -> T, x: &[&[T]], y: &mut [T]) {
    let x = operands::<T, N>(x, y.len());
    for (i, y) in y.iter_mut().enumerate() {
        *y = f(at(&x, i));
    }
}

fn plain<T: Copy + Lane<Mask = bool>, M: Map<N>, const N: usize>(m: &M, x: &[&[T]], y: &mut [T]) {
    each_element(&|x| m.lane(x), x, y);
}

fn plain_int<T: Int, M: IntMap<N>, const N: usize>(m: &M, x: &[&[T]], y: &mut [T]) {
    each_element(&|x| m.int(x), x, y);
}

/// The first operands.
#[inline(always)]
pub(crate) fn first<T: Copy, const N: usize>(x: &[T]) -> [T; N] {
    *x.first_chunk().expect("a formula gets all its operands")
}

/// The gradient of formula `m`, over (operands.., result, g).
fn vjp<L: Lane, M: Map<N>, const N: usize>(m: &M, i: usize, has_output: bool, all: &[L]) -> L {
    let x: [L; N] = first(all);
    let y = match (has_output, M::SAVES.outputs) {
        (true, _) => all[N],
        (false, true) => m.lane(x),
        (false, false) => L::lit(f64::NAN),
    };
    m.vjp(i, x, y, all[N + 1])
}

macro_rules! block_formula {
    ($($t:ty),*) => {$(
        impl<M: Map<N>, const N: usize, const GRADIENT: bool> BlockFormula<$t> for Compiled<M, N, GRADIENT> {
            fn shape(&self, isa: Isa) -> LoopShape {
                vector_loop::float_shape::<$t, M, N>(isa)
            }
            #[allow(unsafe_code, reason = "blocks of operands by their place")]
            unsafe fn blocks(&self, isa: Isa, b: &Blocks<$t>) {
                // SAFETY: the caller's blocks.
                unsafe { vector_loop::float_blocks::<$t, M, N>(isa, self.0, b) }
            }
        }
    )*};
}
block_formula!(f32, f64);

/// What all formulas have, with or without a gradient.
macro_rules! map_object {
    ($m:ty, $n:expr) => {
        fn info(&self) -> &'static MapInfo {
            const {
                &MapInfo {
                    name: <$m>::NAME,
                    arity: $n,
                    out: <$m>::OUT,
                    hints: <$m>::HINTS,
                    saves: <$m>::SAVES,
                }
            }
        }
        fn key(&self) -> FormulaKey {
            FormulaKey::of(&self.0)
        }
        fn boxed(&self) -> Box<dyn MapObject> {
            Box::new(*self)
        }
        fn plain_f32(&self, x: &[&[f32]], y: &mut [f32]) {
            plain::<f32, $m, $n>(&self.0, x, y);
        }
        fn plain_f64(&self, x: &[&[f64]], y: &mut [f64]) {
            plain::<f64, $m, $n>(&self.0, x, y);
        }
        fn recorded(&self, x: &[Recorded]) -> Recorded {
            self.0.lane(first(x))
        }
    };
}

impl<M: Map<N>, const N: usize> MapObject for Compiled<M, N, false> {
    map_object!(M, N);
    fn gradient(&self, _: usize, _: Saves) -> Gradient {
        unreachable!("{}: a gradient's formula is asked for no gradient", M::NAME)
    }
    fn recorded_gradient(&self, _: usize, _: bool, _: &[Recorded]) -> Recorded {
        unreachable!("{}: a gradient's formula is asked for no gradient", M::NAME)
    }
}

macro_rules! with_gradient {
    ($($n:literal: $with_g:literal, $with_yg:literal, [$($i:literal)*];)*) => {$(
        impl<M: Map<$n>> MapObject for Compiled<M, $n> {
            map_object!(M, $n);
            fn gradient(&self, i: usize, saves: Saves) -> Gradient {
                match i {
                    $($i => gradient!(self, M, $n, $i, saves, $with_g, $with_yg),)*
                    _ => unreachable!("{}: a formula of {} operands", M::NAME, $n),
                }
            }
            fn recorded_gradient(&self, i: usize, has_output: bool, x: &[Recorded]) -> Recorded {
                vjp(&self.0, i, has_output, x)
            }
        }
    )*};
}

/// Is it one of these?
const fn is_among(i: usize, all: &[usize]) -> bool {
    let mut k = 0;
    while k < all.len() {
        if all[k] == i {
            return true;
        }
        k += 1;
    }
    false
}

/// Decided by constants, so that only the formulas that a gradient needs are compiled.
macro_rules! gradient {
    ($self:ident, $m:ty, $n:literal, $i:literal, $saves:ident, $with_g:literal, $with_yg:literal) => {{
        let m = $self.0;
        if const { is_among($i, <$m>::PASSES) } {
            debug_assert!(m.vjp($i, [0.5; $n], 0.25, 0.75f64) == 0.75, "{}: it does not pass g", <$m>::NAME);
            Gradient::Passes
        } else if const { <$m>::SAVES.outputs } {
            if $saves.inputs && !$saves.outputs {
                let f = Compiled::<_, $with_g, false>(VjpX::<$m, $n, $i>(m));
                Gradient::Formula(Box::new(f), GradientReads::Inputs)
            } else if const { <$m>::SAVES.inputs } {
                let f = Compiled::<_, $with_yg, false>(VjpXY::<$m, $n, $i>(m));
                Gradient::Formula(Box::new(f), GradientReads::Both)
            } else {
                let f = Compiled::<_, 2, false>(VjpY::<$m, $n, $i>(m));
                Gradient::Formula(Box::new(f), GradientReads::Output)
            }
        } else if const { <$m>::SAVES.inputs } {
            let f = Compiled::<_, $with_g, false>(VjpX::<$m, $n, $i>(m));
            Gradient::Formula(Box::new(f), GradientReads::Inputs)
        } else {
            let f = Compiled::<_, 1, false>(VjpG::<$m, $n, $i>(m));
            Gradient::Formula(Box::new(f), GradientReads::Nothing)
        }
    }};
}

with_gradient! {
    1: 2, 3, [0];
    2: 3, 4, [0 1];
    3: 4, 5, [0 1 2];
    4: 5, 6, [0 1 2 3];
}

macro_rules! without_gradient {
    ($($n:literal)*) => {$(
        impl<M: Map<$n>> MapObject for Compiled<M, $n> {
            map_object!(M, $n);
            fn gradient(&self, _: usize, _: Saves) -> Gradient {
                unreachable!("{}: no op is a formula of {} operands", M::NAME, $n)
            }
            fn recorded_gradient(&self, _: usize, _: bool, _: &[Recorded]) -> Recorded {
                unreachable!("{}: no op is a formula of {} operands", M::NAME, $n)
            }
        }
    )*};
}
without_gradient! { 5 6 }

macro_rules! int_block_formula {
    ($($t:ty),*) => {$(
        impl<M: IntMap<N>, const N: usize> BlockFormula<$t> for Compiled<M, N> {
            fn shape(&self, _: Isa) -> LoopShape {
                LoopShape { operands: N, block: vector_loop::BLOCK, light: false }
            }
            #[allow(unsafe_code, reason = "blocks of operands by their place")]
            unsafe fn blocks(&self, isa: Isa, b: &Blocks<$t>) {
                // SAFETY: the caller's blocks.
                unsafe { vector_loop::int_blocks::<$t, M, N>(isa, self.0, b) }
            }
        }
    )*};
}
int_block_formula!(i64, i32, u8, bool);

impl<M: IntMap<N>, const N: usize> IntMapObject for Compiled<M, N> {
    fn info(&self) -> &'static MapInfo {
        const { &MapInfo { name: M::NAME, arity: N, out: M::OUT, hints: Hints::NONE, saves: Saves::NOTHING } }
    }
    fn key(&self) -> FormulaKey {
        FormulaKey::of(&self.0)
    }
    fn boxed(&self) -> Box<dyn IntMapObject> {
        Box::new(*self)
    }
    fn plain_i64(&self, x: &[&[i64]], y: &mut [i64]) {
        plain_int::<i64, M, N>(&self.0, x, y);
    }
    fn plain_i32(&self, x: &[&[i32]], y: &mut [i32]) {
        plain_int::<i32, M, N>(&self.0, x, y);
    }
    fn plain_u8(&self, x: &[&[u8]], y: &mut [u8]) {
        plain_int::<u8, M, N>(&self.0, x, y);
    }
    fn plain_bool(&self, x: &[&[bool]], y: &mut [bool]) {
        plain_int::<bool, M, N>(&self.0, x, y);
    }
    fn recorded(&self, x: &[RecordedInt]) -> RecordedInt {
        self.0.int(first(x))
    }
}

/// A type on which float formulas run.
pub trait FormulaFloat: Element {
    /// The formula's loops.
    fn blocks(f: &dyn MapObject) -> &dyn BlockFormula<Self>;
    /// The formula's definition.
    fn plain(f: &dyn MapObject, x: &[&[Self]], y: &mut [Self]);
}

/// A type on which integer formulas run.
pub trait FormulaInt: Element {
    /// The formula's loops.
    fn blocks(f: &dyn IntMapObject) -> &dyn BlockFormula<Self>;
    /// The formula's definition.
    fn plain(f: &dyn IntMapObject, x: &[&[Self]], y: &mut [Self]);
}

macro_rules! formula_type {
    ($($trait:ident $object:ident $t:ty, $plain:ident;)*) => {$(
        impl $trait for $t {
            fn blocks(f: &dyn $object) -> &dyn BlockFormula<$t> {
                f
            }
            fn plain(f: &dyn $object, x: &[&[$t]], y: &mut [$t]) {
                f.$plain(x, y);
            }
        }
    )*};
}
formula_type! {
    FormulaFloat MapObject f32, plain_f32;
    FormulaFloat MapObject f64, plain_f64;
    FormulaInt IntMapObject i64, plain_i64;
    FormulaInt IntMapObject i32, plain_i32;
    FormulaInt IntMapObject u8, plain_u8;
    FormulaInt IntMapObject bool, plain_bool;
}
