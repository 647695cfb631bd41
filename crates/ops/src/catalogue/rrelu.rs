//! rrelu: leaky_relu with a random slope for each element in training, and their mean otherwise.

use super::{gt, leaky_relu, mul, where_};
use crate::prelude::*;
use crate::random::{check, check_stream, draw_at};
use elinvar_core::philox::Stream;

/// Where slopes come from.
#[derive(Clone, Copy, Debug)]
pub enum Slopes<'a, V> {
    /// Their mean: not training.
    Mean,
    /// A stream; element `i` (row-major) has its number `i`.
    Drawn(Stream),
    /// A stream on the device, i32 \[4\] (see [`Stream::to_words`]): the same bits.
    DrawnAt(&'a V),
}

/// x where it is above 0, else x times a number that is uniform in `lower..upper`, or (lower +
/// upper) / 2.
///
/// # Errors
/// `InvalidArgument` if the bounds are not finite and in order; `DTypeMismatch` if x is not of
/// floats; `OutOfMemory`.
pub fn rrelu<V: Value>(x: &V, lower: f64, upper: f64, slopes: Slopes<'_, V>) -> Result<V> {
    let r = Random::Uniform { low: lower, high: upper };
    check("rrelu", r, x.dtype().compute())?;
    if let Slopes::Mean = slopes {
        return leaky_relu(x, (lower + upper) / 2.0);
    }
    widen([x], |[x]| {
        let drawn = match slopes {
            Slopes::DrawnAt(at) => {
                check_stream("rrelu", at.array())?;
                crate::array::one_device("rrelu", &[x.array(), at.array()])?;
                draw_at("rrelu", r, at.array(), x.shape(), x.dtype())?
            }
            Slopes::Drawn(stream) => {
                let all = V::B::random(x.device(), r, stream, None, x.dtype(), x.shape().numel())?;
                Array::new(x.device(), all, x.shape().clone(), x.dtype())
            }
            Slopes::Mean => unreachable!("returned above"),
        };
        where_(&gt(&x.detached(), &x.scalar_like(0i64)?)?, x, &mul(x, &V::from_array(drawn))?)
    })
}

/// By name: operand x; attributes lower (absent: 1/8), upper (absent: 1/3) and training (absent:
/// false); for it seed and stream, which choose the random numbers, or an operand stream.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let bound = |name, absent| Ok::<_, Error>(a.maybe(name, Args::f64)?.unwrap_or(absent));
    let slopes = if !a.maybe("training", Args::bool)?.unwrap_or(false) {
        Slopes::Mean
    } else if let Some(at) = a.optional("stream") {
        Slopes::DrawnAt(at)
    } else {
        Slopes::Drawn(Stream { seed: a.int("seed")? as u64, stream: a.int("stream")? as u64 })
    };
    Ok(vec![rrelu(a.input("x")?, bound("lower", 0.125)?, bound("upper", 1.0 / 3.0)?, slopes)?])
}
