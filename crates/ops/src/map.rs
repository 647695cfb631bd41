//! Elementwise ops: what they are, and how one formula becomes an op with a gradient.

use crate::array::{self, Array};
use crate::backend::Backend;
use crate::lane::Lane;
use crate::op::{Context, Op, Outputs, Saves};
use crate::trace::{Tracer, trace};
use crate::value::{Value, cast, gradient_to};
use elinvar_core::{DType, Error, Result};
pub use elinvar_lane::formula::{IntMap, Map, Out, VjpG, VjpX, VjpXY, VjpY, dual};

/// Runs a map on floats, operands broadcast.
///
/// # Errors
/// `DeviceMismatch`, `DTypeMismatch`, `ShapeMismatch`, `OutOfMemory`.
pub fn map<V: Value, M: Map<N>, const N: usize>(m: M, x: [&V; N]) -> Result<V>
where
    Pointwise<M, N>: Op,
{
    match M::OUT {
        Out::Same => V::apply(Pointwise(m), &x),
        Out::Bool => Ok(V::from_array(array::map(&m, x.map(|v| v.array()))?)),
    }
}

/// Runs a map that floats and integers have, operands broadcast.
///
/// # Errors
/// `DeviceMismatch`, `DTypeMismatch`, `ShapeMismatch`, `OutOfMemory`.
pub fn map_any<V: Value, M: Map<N> + IntMap<N>, const N: usize>(m: M, x: [&V; N]) -> Result<V>
where
    Pointwise<M, N>: Op,
{
    let arrays = x.map(|v| v.array());
    if array::one_dtype(<M as Map<N>>::NAME, &arrays)?.is_float() {
        map(m, x)
    } else {
        Ok(V::from_array(array::map_int(&m, arrays)?))
    }
}

/// Runs a map that only integers and bool have, operands broadcast.
///
/// # Errors
/// `DeviceMismatch`, `DTypeMismatch`, `ShapeMismatch`, `OutOfMemory`.
pub fn map_int<V: Value, M: IntMap<N>, const N: usize>(m: M, x: [&V; N]) -> Result<V> {
    Ok(V::from_array(array::map_int(&m, x.map(|v| v.array()))?))
}

/// A map as an op on the tape.
#[derive(Clone, Copy, Debug)]
pub struct Pointwise<M, const N: usize>(pub M);

/// Whether a map saves for its gradient is decided per dtype: a result rounded to 16 bits is too coarse to
/// compute a derivative from, so for these the operands are kept, and the result is computed anew.
fn saves<M: Map<N>, const N: usize>(dtype: DType) -> Saves {
    if dtype.is_half() && M::SAVES.outputs { Saves::INPUTS } else { M::SAVES }
}

macro_rules! pointwise {
    ($($n:literal: [$($x:ident),*] = $all:tt, [$($i:literal),*];)*) => {$(
        impl<M: Map<$n>> Op for Pointwise<M, $n> {
            const NAME: &'static str = M::NAME;
            fn saves(&self, dtype: DType) -> Saves {
                saves::<M, $n>(dtype)
            }
            fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
                Ok(Outputs::from_buf([self.forward_one(x)?]))
            }
            #[inline]
            fn forward_one<B: Backend>(&self, x: &[&Array<B>]) -> Result<Array<B>> {
                let [$($x),*] = x else { unreachable!("a map of {} operands", $n) };
                array::map(&self.0, [*$($x),*])
            }
            fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
                let g = g[0].as_ref().expect("a map has one result");
                let saves = saves::<M, $n>(g.dtype());
                let mut all = Vec::with_capacity($n);
                for i in 0..$n {
                    all.push(if !c.wants(i) {
                        None
                    } else {
                        let full = if const { V::TRACKS } {
                            traced_vjp(&self.0, i, saves, c, g)?
                        } else {
                            match i {
                                $($i => fused_vjp!(self, c, g, saves, M, $n, $i, $all),)*
                                _ => unreachable!("a map of {} operands", $n),
                            }
                        };
                        Some(gradient_to(&full, c.shape(i))?)
                    });
                }
                Ok(all)
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

macro_rules! fused_vjp {
    ($self:ident, $c:ident, $g:ident, $saves:ident, $m:ty, $n:literal, $i:literal, [$($x:ident),*]) => {{
        let mut k = 0..$n;
        $(let $x = k.next().expect("one number per operand");)*
        let g = $g.array();
        // Decided by constants, so that only the kernels that a map needs are compiled.
        let from_inputs = || array::map(&VjpX::<$m, $n, $i>($self.0), [$($c.x($x).array()),*, g]);
        if const { is_among($i, <$m>::PASSES) } {
            debug_assert!($self.0.vjp($i, [0.5; $n], 0.25, 0.75f64) == 0.75, "{}: it does not pass g", <$m>::NAME);
            $g.clone()
        } else {
            V::from_array(if const { <$m>::SAVES.outputs } {
                if $saves.inputs && !$saves.outputs {
                    from_inputs()?
                } else if const { <$m>::SAVES.inputs } {
                    array::map(&VjpXY::<$m, $n, $i>($self.0), [$($c.x($x).array()),*, $c.y(0).array(), g])?
                } else {
                    array::map(&VjpY::<$m, $n, $i>($self.0), [$c.y(0).array(), g])?
                }
            } else if const { <$m>::SAVES.inputs } {
                from_inputs()?
            } else {
                array::map(&VjpG::<$m, $n, $i>($self.0), [g])?
            })
        }
    }};
}

pointwise! {
    1: [x0] = [x0], [0];
    2: [x0, x1] = [x0, x1], [0, 1];
    3: [x0, x1, x2] = [x0, x1, x2], [0, 1, 2];
    4: [x0, x1, x2, x3] = [x0, x1, x2, x3], [0, 1, 2, 3];
}

/// A formula that is part of an op, or of its gradient: one kernel where nothing is recorded, and the same ops one after the other where
/// it is, so that it needs no gradient kernels of its own.
///
/// # Errors
/// `DeviceMismatch`, `DTypeMismatch`, `ShapeMismatch`, `OutOfMemory`.
pub(crate) fn formula<V: Value, M: Map<N>, const N: usize>(m: M, x: [&V; N]) -> Result<V> {
    if !const { V::TRACKS } {
        return array::map(&m, x.map(|v| v.array())).map(V::from_array);
    }
    struct Whole<'a, M, V, const N: usize> {
        m: M,
        x: [&'a V; N],
    }
    impl<M: Map<N>, V: Value, const N: usize> Tracer<V> for Whole<'_, M, V, N> {
        fn run<L: Lane>(&self, enter: impl Fn(&V) -> L) -> L {
            self.m.lane(self.x.map(enter))
        }
    }
    trace(x[0].device(), x[0].dtype(), &Whole { m, x })
}

/// The gradient formula run on tensors instead of numbers: each step is an op with a gradient of its own.
fn traced_vjp<V: Value, M: Map<N>, const N: usize>(
    m: &M,
    i: usize,
    saves: Saves,
    c: &Context<V>,
    g: &V,
) -> Result<V> {
    let dtype = g.dtype();
    let wide = |v: &V| if v.dtype().is_half() { cast(v, DType::F32) } else { Ok(v.clone()) };
    let x: Vec<V> = if saves.inputs { (0..N).map(|k| wide(c.x(k))).collect::<Result<_>>()? } else { vec![] };
    let y = if saves.outputs { Some(wide(c.y(0))?) } else { None };
    let g = wide(g)?;
    struct Vjp<'a, M, V, const N: usize> {
        m: &'a M,
        i: usize,
        x: Vec<V>,
        y: Option<V>,
        g: V,
    }
    impl<M: Map<N>, V: Value, const N: usize> Tracer<V> for Vjp<'_, M, V, N> {
        fn run<L: Lane>(&self, enter: impl Fn(&V) -> L) -> L {
            let nan = L::lit(f64::NAN);
            let x: [L; N] = std::array::from_fn(|k| self.x.get(k).map_or(nan, &enter));
            let y = match &self.y {
                Some(y) => enter(y),
                None if M::SAVES.outputs => self.m.lane(x),
                None => nan,
            };
            self.m.vjp(self.i, x, y, enter(&self.g))
        }
    }
    let out = trace(g.device(), g.dtype(), &Vjp { m, i, x, y, g: g.clone() })?;
    // The formula may have left out g's shape: a derivative that is 0 everywhere, say.
    let shape = g.shape().broadcast(out.shape(), M::NAME).map_err(|e: Error| e.at("gradient"))?;
    cast(&crate::value::broadcast(&out, &shape)?, dtype)
}
