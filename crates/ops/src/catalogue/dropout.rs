//! dropout: random elements set to 0, the others scaled up so that the mean stays.
//!
//! The mask is a function of the stream and of an element's position alone: the same on every
//! device, and the gradient draws it again instead of saving it.

use crate::array;
use crate::prelude::*;
use elinvar_core::philox::Stream;

/// x / (1 - p) where the mask is true, else 0.
#[derive(Clone, Copy, Debug)]
struct Keep {
    scale: f64,
}

impl Map<2> for Keep {
    const NAME: &'static str = "dropout";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, mask]: [L; 2]) -> L {
        L::select(mask.to_mask(), x * L::lit(self.scale), L::lit(0.0))
    }
}
compile_map! { 2 Keep; }

/// Drops each element with probability p.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    /// The probability.
    pub p: f64,
    /// The random bits.
    pub stream: Stream,
}

impl Op for Dropout {
    fn name(&self) -> &'static str {        "dropout"    }
    fn saves(&self, _: DType) -> Saves {
        Saves::NOTHING
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        let x = x[0];
        let keep = 1.0 - self.p;
        let r = Random::Bernoulli { p: keep };
        let mask = B::random(x.device(), r, self.stream, DType::Bool, x.shape().numel())?;
        let mask = Array::new(x.device(), mask, x.shape().clone(), DType::Bool);
        Ok(Outputs::from_iter([array::map(&Keep { scale: 1.0 / keep }, [x, &mask])?]))
    }
    /// Linear in x: the gradient goes through the same mask.
    fn backward<V: Value>(&self, _: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("dropout has one result");
        Ok(vec![Some(V::apply(*self, &[g])?)])
    }
}

/// In training each element of `x` is 0 with probability `p`, else x / (1 - p); element `i`
/// (row-major) uses draw `i` of the stream. Otherwise `x` itself. A dropped NaN or infinity is 0,
/// too.
///
/// # Errors
/// `InvalidArgument` if `p` is not in 0..=1; `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn dropout<V: Value>(x: &V, p: f64, stream: Stream, training: bool) -> Result<V> {
    if !(0.0..=1.0).contains(&p) {
        return Err(Error::argument(format!("dropout: p is {p}; a probability is in 0..=1")));
    }
    if !training || p == 0.0 {
        return Ok(x.clone());
    }
    V::apply(Dropout { p, stream }, &[x])
}

/// By name: operand x; attributes p, training, and seed and stream, which choose the random bits.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let stream = Stream { seed: a.int("seed")? as u64, stream: a.int("stream")? as u64 };
    Ok(vec![dropout(a.input("x")?, a.f64("p")?, stream, a.bool("training")?)?])
}
