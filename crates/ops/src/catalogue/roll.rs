//! roll: elements shifted along axes, wrapping around.

use super::{concat, flatten, narrow, reshape};
use crate::prelude::*;

/// `x` with its elements moved by `shifts[i]` places along `dims[i]`, one axis after the other;
/// without `dims`, all elements in row-major order by the one shift.
///
/// # Errors
/// `InvalidArgument` if there is no such axis or the lists differ in length; `OutOfMemory`.
pub fn roll<V: Value>(x: &V, shifts: &[isize], dims: Option<&[isize]>) -> Result<V> {
    let Some(dims) = dims else {
        let [shift] = shifts else {
            return Err(Error::argument(format!(
                "roll: shifts {shifts:?} without axes; there must be one shift"
            )));
        };
        let flat = flatten::all(x)?;
        return reshape::to_shape(&one(&flat, *shift, 0)?, x.shape());
    };
    if shifts.len() != dims.len() {
        return Err(Error::argument(format!(
            "roll: {} shifts {shifts:?} for {} axes {dims:?}; there must be one for each",
            shifts.len(),
            dims.len()
        )));
    }
    let mut y = x.clone();
    for (&shift, &dim) in shifts.iter().zip(dims) {
        let axis = x.shape().axis("roll", dim)?;
        if axis < x.shape().rank() {
            y = one(&y, shift, axis)?;
        }
    }
    Ok(y)
}

fn one<V: Value>(x: &V, shift: isize, axis: usize) -> Result<V> {
    let n = x.shape()[axis];
    if n == 0 {
        return Ok(x.clone());
    }
    match shift.rem_euclid(n as isize) as usize {
        0 => Ok(x.clone()),
        by => concat(&[&narrow::run(x, axis, n - by, by)?, &narrow::run(x, axis, 0, n - by)?], axis as isize),
    }
}

/// By name: operand x; attributes shifts and dims (null: the flattened tensor).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let dims = a.maybe("dims", Args::dims)?;
    Ok(vec![roll(a.input("x")?, &a.dims("shifts")?, dims.as_deref())?])
}
