//! dropout: random elements set to 0, the others scaled up so that the mean stays.
//!
//! The mask is a function of the stream and of an element's position alone: the same on every
//! device, and the gradient draws it again instead of saving it.

use crate::array;
use crate::prelude::*;
use crate::random::{check_stream, draw_at};
use elinvar_core::philox::Stream;
use std::any::Any;
use std::sync::Arc;

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
    fn name(&self) -> &'static str {
        "dropout"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::NOTHING
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        let x = x[0];
        let r = Random::Bernoulli { p: 1.0 - self.p };
        let mask = B::random(x.device(), r, self.stream, None, DType::Bool, x.shape().numel())?;
        let mask = Array::new(x.device(), mask, x.shape().clone(), DType::Bool);
        Ok(Outputs::from_iter([kept(self.p, x, &mask)?]))
    }
    /// Linear in x: the gradient goes through the same mask.
    fn backward<V: Value>(&self, _: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("dropout has one result");
        Ok(vec![Some(V::apply(*self, &[g])?)])
    }
}

fn kept<B: Backend>(p: f64, x: &Array<B>, mask: &Array<B>) -> Result<Array<B>> {
    array::map(&Keep { scale: 1.0 / (1.0 - p) }, [x, mask])
}

/// [`Dropout`] with a stream on the device, i32 \[4\]. An attribute and no operand, so that the
/// tape saves it without x.
#[derive(Clone, Debug)]
struct DropoutAt {
    p: f64,
    /// An [`Array`] of the backend of x.
    stream: Arc<dyn Any + Send + Sync>,
}

impl Op for DropoutAt {
    fn name(&self) -> &'static str {
        "dropout"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::NOTHING
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        let (x, r) = (x[0], Random::Bernoulli { p: 1.0 - self.p });
        let at = self.stream.downcast_ref::<Array<B>>().expect("it was made for this backend");
        array::one_device("dropout", &[x, at])?;
        let mask = draw_at("dropout", r, at, x.shape(), DType::Bool)?;
        Ok(Outputs::from_iter([kept(self.p, x, &mask)?]))
    }
    fn backward<V: Value>(&self, _: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("dropout has one result");
        Ok(vec![Some(V::apply(self.clone(), &[g])?)])
    }
}

/// In training each element of `x` is 0 with probability `p`, else x / (1 - p); element `i`
/// (row-major) uses draw `i` of the stream. Otherwise `x` itself. A dropped NaN or infinity is 0,
/// too.
///
/// # Errors
/// `InvalidArgument` if `p` is not in 0..=1; `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn dropout<V: Value>(x: &V, p: f64, stream: Stream, training: bool) -> Result<V> {
    if !drops(p, training)? {
        return Ok(x.clone());
    }
    V::apply(Dropout { p, stream }, &[x])
}

/// [`dropout`] with a stream that is on the device, i32 \[4\] (see [`Stream::to_words`]): the same
/// bits. Work that is captured draws the numbers of the stream that is there when it is replayed.
///
/// # Errors
/// As [`dropout`]; `DTypeMismatch`, `ShapeMismatch` if `stream` is none; `DeviceMismatch`.
pub fn dropout_at<V: Value>(x: &V, p: f64, stream: &V, training: bool) -> Result<V> {
    check_stream("dropout", stream.array())?;
    if !drops(p, training)? {
        return Ok(x.clone());
    }
    V::apply(DropoutAt { p, stream: Arc::new(stream.array().clone()) }, &[x])
}

fn drops(p: f64, training: bool) -> Result<bool> {
    if !(0.0..=1.0).contains(&p) {
        return Err(Error::argument(format!("dropout: p is {p}; a probability is in 0..=1")));
    }
    Ok(training && p > 0.0)
}

/// By name: operand x; attributes p and training; seed and stream, which choose the random bits, or
/// an operand stream.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    if let Some(at) = a.optional("stream") {
        return Ok(vec![dropout_at(a.input("x")?, a.f64("p")?, at, a.bool("training")?)?]);
    }
    let stream = Stream { seed: a.int("seed")? as u64, stream: a.int("stream")? as u64 };
    Ok(vec![dropout(a.input("x")?, a.f64("p")?, stream, a.bool("training")?)?])
}
