//! cast: the same values as another dtype. Floats round to nearest even, and overflow to infinity;
//! float to integer truncates towards zero and saturates (NaN: 0); integers wrap; to bool: x != 0.

use crate::casting::{All, Casting};
use crate::prelude::*;

/// As dtype `to`, from float to float; the gradient is cast back.
#[derive(Clone, Copy, Debug)]
pub struct Cast<C> {
    /// The dtype of the result.
    pub to: DType,
    /// The set of conversions that is compiled.
    pub of: C,
}

impl<C: Casting> Op for Cast<C> {
    fn name(&self) -> &'static str {
        "cast"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::NOTHING
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        Ok(Outputs::from_buf([x[0].cast_by::<C>(self.to)?]))
    }
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("a cast has one result");
        let to = c.dtype(0);
        Ok(vec![c.want(0, || floats(g, to, self.of))?])
    }
}

/// `x` as dtype `to`, from float to float; `x` itself if it is of that dtype already. Links the
/// conversions of the given set alone.
pub(crate) fn floats<V: Value>(x: &V, to: DType, of: impl Casting) -> Result<V> {
    if x.dtype() == to { Ok(x.clone()) } else { V::apply(Cast { to, of }, &[x]) }
}

/// `x` as dtype `to`. Between floats it has a gradient; from or to integers and bool the result is
/// a constant.
///
/// # Errors
/// `OutOfMemory`.
pub fn cast<V: Value>(x: &V, to: DType) -> Result<V> {
    if x.dtype().is_float() && to.is_float() {
        V::apply(Cast { to, of: All }, &[x])
    } else {
        Ok(V::from_array(x.array().cast(to)?))
    }
}

/// By name: operand x; attribute to, the name of a dtype.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let name = a.str("to")?;
    let to = DType::parse(name)
        .ok_or_else(|| Error::argument(format!("cast: there is no dtype {name:?}; try f32, bf16 or i64")))?;
    Ok(vec![cast(a.input("x")?, to)?])
}
