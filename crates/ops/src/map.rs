//! Elementwise ops: how a formula becomes an op with a gradient.

use crate::array::{self, Array};
use crate::autocast::{casts, is_mixed, within};
use crate::backend::Backend;
use crate::op::{Context, Op, Outputs};
use crate::trace::trace;
use crate::value::{Value, broadcast, cast, gradient_to};
use elinvar_core::profile::{self, Guard};
use elinvar_core::{DType, Error, Result, Shape};
pub use elinvar_lane::formula::{Hints, IntMap, Map, Out, Saves, VjpG, VjpX, VjpXY, VjpY, dual};
pub use elinvar_simd::compiled::{
    Compiled, CompiledIntMap, CompiledMap, FormulaKey, Gradient, GradientReads, IntMapObject, MapObject,
};
use smallvec::SmallVec;

/// Runs a map on floats, operands broadcast.
///
/// # Errors
/// `DeviceMismatch`, `DTypeMismatch`, `ShapeMismatch`, `OutOfMemory`.
pub fn map<V: Value, M: CompiledMap<N>, const N: usize>(m: M, x: [&V; N]) -> Result<V> {
    let f = Compiled(m);
    map_object(M::object(&f), &x, &arrays_of(x))
}

/// Runs a map that floats and integers have, operands broadcast.
///
/// # Errors
/// `DeviceMismatch`, `DTypeMismatch`, `ShapeMismatch`, `OutOfMemory`.
pub fn map_any<V: Value, M: CompiledMap<N> + CompiledIntMap<N>, const N: usize>(
    m: M,
    x: [&V; N],
) -> Result<V> {
    let f = Compiled(m);
    // What the operands of neither kind have in common, either path reports.
    if has_float(&x) {
        map_object(<M as CompiledMap<N>>::object(&f), &x, &arrays_of(x))
    } else {
        map_int_object(<M as CompiledIntMap<N>>::object(&f), &arrays_of(x))
    }
}

/// Runs a map that only integers and bool have, operands broadcast.
///
/// # Errors
/// `DeviceMismatch`, `DTypeMismatch`, `ShapeMismatch`, `OutOfMemory`.
pub fn map_int<V: Value, M: CompiledIntMap<N>, const N: usize>(m: M, x: [&V; N]) -> Result<V> {
    map_int_object(M::object(&Compiled(m)), &arrays_of(x))
}

/// The operands of the largest map fit without an allocation.
type Arrays<'a, B> = SmallVec<[&'a Array<B>; 4]>;

fn arrays<'a, V: Value>(x: &[&'a V]) -> Arrays<'a, V::B> {
    x.iter().map(|v| v.array()).collect()
}

/// The same without a list. Written once here, it is not compiled for each formula.
#[inline]
fn arrays_of<V: Value, const N: usize>(x: [&V; N]) -> [&Array<V::B>; N] {
    x.map(|v| v.array())
}

fn has_float<V: Value>(x: &[&V]) -> bool {
    x.iter().any(|v| v.dtype().is_float())
}

/// As [`map`], of values and their arrays.
fn map_object<V: Value>(f: &dyn MapObject, x: &[&V], arrays: &[&Array<V::B>]) -> Result<V> {
    if V::autocast().is_some() && is_mixed(x) {
        return promoted(f, x);
    }
    // Without a record the formula need not be kept.
    if f.out() == Out::Bool || !V::records(x) {
        let _call = called::<V>(|| f.name());
        return Ok(V::from_array(array::map_object(f, arrays)?));
    }
    V::apply(Pointwise(f.boxed()), x)
}

/// In an autocast scope, with the operands as one type.
#[cold]
fn promoted<V: Value>(f: &dyn MapObject, x: &[&V]) -> Result<V> {
    let operands: SmallVec<[Option<&V>; 4]> = x.iter().copied().map(Some).collect();
    let Some(casts) = casts(f.name(), &operands) else { unreachable!("there was a scope a moment ago") };
    let all = x.iter().map(|v| casts.on(*v)).collect::<Result<SmallVec<[V; 4]>>>()?;
    let all: SmallVec<[&V; 4]> = all.iter().collect();
    within(None, || map_object(f, &all, &arrays(&all)))
}

/// As [`map_int`].
fn map_int_object<V: Value>(f: &dyn IntMapObject, arrays: &[&Array<V::B>]) -> Result<V> {
    let _call = called::<V>(|| f.name());
    Ok(V::from_array(array::map_int_object(f, arrays)?))
}

/// For profiles: the call of an op that need not be kept. Arrays are what other ops compute with,
/// and such work is theirs.
#[inline(always)]
fn called<V: Value>(name: impl FnOnce() -> &'static str) -> Option<Guard> {
    const { V::TRACKS }.then(|| profile::op(name))
}

/// A map as an op on the tape.
#[derive(Debug)]
pub struct Pointwise(Box<dyn MapObject>);

impl Clone for Pointwise {
    fn clone(&self) -> Self {
        Pointwise(self.0.boxed())
    }
}

impl Pointwise {
    /// Of a formula.
    pub fn of<M: CompiledMap<N>, const N: usize>(m: M) -> Self {
        Pointwise(M::object(&Compiled(m)).boxed())
    }
}

/// Whether a map saves for its gradient is decided per dtype: a result rounded for storage is too
/// coarse to compute a derivative from, so for these the operands are kept, and the result is
/// computed anew.
fn saves(f: &dyn MapObject, dtype: DType) -> Saves {
    let saves = f.saves();
    if dtype.is_storage() && saves.outputs { Saves::INPUTS } else { saves }
}

impl Op for Pointwise {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn saves(&self, dtype: DType) -> Saves {
        saves(&*self.0, dtype)
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        Ok(Outputs::from_buf([self.forward_one(x)?]))
    }
    #[inline]
    fn forward_one<B: Backend>(&self, x: &[&Array<B>]) -> Result<Array<B>> {
        array::map_object(&*self.0, x)
    }
    fn into_pointwise(self) -> std::result::Result<Pointwise, Self> {
        Ok(self)
    }
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("a map has one result");
        let n = self.0.arity();
        let saves = saves(&*self.0, g.dtype());
        let mut all = Vec::with_capacity(n);
        for i in 0..n {
            all.push(if !c.wants(i) {
                None
            } else {
                let full = if const { V::TRACKS } {
                    traced_gradient(&*self.0, i, saves, c, g)?
                } else {
                    fused_gradient(&*self.0, i, saves, c, g)?
                };
                Some(gradient_to(&full, c.shape(i))?)
            });
        }
        Ok(all)
    }
}

/// The gradient by operand `i` as one kernel.
fn fused_gradient<V: Value>(f: &dyn MapObject, i: usize, saves: Saves, c: &Context<V>, g: &V) -> Result<V> {
    let n = f.arity();
    let (f, reads) = match f.gradient(i, saves) {
        Gradient::Passes => return Ok(g.clone()),
        Gradient::Formula(f, reads) => (f, reads),
    };
    let mut x: SmallVec<[&Array<V::B>; 6]> = SmallVec::new();
    if matches!(reads, GradientReads::Inputs | GradientReads::Both) {
        x.extend((0..n).map(|k| c.x(k).array()));
    }
    if matches!(reads, GradientReads::Output | GradientReads::Both) {
        x.push(c.y(0).array());
    }
    x.push(g.array());
    array::map_object(&*f, &x).map(V::from_array)
}

/// A formula that is part of an op, or of its gradient: one kernel where nothing is recorded, and
/// the same ops one after the other where it is, so that it needs no gradient kernels of its own.
///
/// # Errors
/// `DeviceMismatch`, `DTypeMismatch`, `ShapeMismatch`, `OutOfMemory`.
pub(crate) fn formula<V: Value, M: CompiledMap<N>, const N: usize>(m: M, x: [&V; N]) -> Result<V> {
    formula_object(M::object(&Compiled(m)), &x)
}

/// As [`formula`].
fn formula_object<V: Value>(f: &dyn MapObject, x: &[&V]) -> Result<V> {
    if !const { V::TRACKS } {
        return array::map_object(f, &arrays(x)).map(V::from_array);
    }
    let operands: SmallVec<[Option<&V>; 6]> = x.iter().copied().map(Some).collect();
    trace(x[0].device(), x[0].dtype(), &|bits| f.record(bits), &operands)
}

/// The gradient formula run on tensors instead of numbers: each step is an op with a gradient of
/// its own.
fn traced_gradient<V: Value>(f: &dyn MapObject, i: usize, saves: Saves, c: &Context<V>, g: &V) -> Result<V> {
    let dtype = g.dtype();
    let wide = |v: &V| if v.dtype().is_storage() { cast(v, DType::F32) } else { Ok(v.clone()) };
    let mut x: SmallVec<[Option<V>; 6]> = SmallVec::new();
    for k in 0..f.arity() {
        x.push(if saves.inputs { Some(wide(c.x(k))?) } else { None });
    }
    x.push(if saves.outputs { Some(wide(c.y(0))?) } else { None });
    let g = wide(g)?;
    x.push(Some(g.clone()));
    let operands: SmallVec<[Option<&V>; 6]> = x.iter().map(Option::as_ref).collect();
    let record = |bits| f.record_gradient(i, saves.outputs, bits);
    let out = trace(g.device(), g.dtype(), &record, &operands)?;
    // The formula may have left out g's shape: a derivative that is 0 everywhere, say.
    let shape: Shape = g.shape().broadcast(out.shape(), f.name()).map_err(|e: Error| e.at("gradient"))?;
    cast(&broadcast(&out, &shape)?, dtype)
}
