//! One layer of an LSTM whose output is projected, in one direction.
//!
//! Its steps are ops of their own, and so is their gradient: the state that goes into a step is a
//! product of the one that comes out of the cell.

use super::lstm::{LstmMemory, Output};
use super::recurrent::RnnWeights;
use super::{add, linear, split, stack, unbind};
use crate::map::formula;
use crate::prelude::*;

/// The outputs [t, n, p] and the last h [n, p] and c [n, h], from the input's part of the gates [t,
/// n, 4 h] and the first states; `w_hr`: [p, h].
pub(super) fn layer<V: Value>(
    input: &V,
    start: &[V],
    w: &RnnWeights<'_, V>,
    w_hr: &V,
    backwards: bool,
) -> Result<(V, Vec<V>)> {
    let (mut h, mut c) = (start[0].clone(), start[1].clone());
    let size = w_hr.shape()[1];
    let mut steps = unbind(input, 0)?;
    if backwards {
        steps.reverse();
    }
    let mut outputs = Vec::with_capacity(steps.len());
    for step in &steps {
        let gates = add(step, &linear(&h, w.w_hh, w.b_hh)?)?;
        let gates = split::sizes(&gates, &[size; 4], 1)?;
        let [i, f, g, o] = &gates[..] else { unreachable!("four gates") };
        c = formula(LstmMemory, [i, f, g, &c])?;
        h = linear(&formula(Output, [o, &c])?, w_hr, None)?;
        outputs.push(h.clone());
    }
    if backwards {
        outputs.reverse();
    }
    Ok((stack(&outputs.iter().collect::<Vec<_>>(), 0)?, vec![h, c]))
}
