//! The cell of a plain recurrent net, over its activation: what `rnn_tanh` and `rnn_relu` have in
//! common.

use super::recurrence::{Back, Cell, Gates, Step};
use crate::prelude::*;
use std::fmt::Debug;
use std::marker::PhantomData;

/// What a plain recurrent net does with the sum of a step.
pub(super) trait Activation: Copy + Debug + Send + Sync + 'static {
    /// The op's name.
    const NAME: &'static str;
    /// The value at x.
    fn value<V: Value>(x: &V) -> Result<V>;
    /// The gradient by x, from that by the value y.
    fn back<V: Value>(g: &V, y: &V) -> Result<V>;
}

/// One gate, the state h.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elman<A>(PhantomData<A>);

impl<A: Activation> Cell for Elman<A> {
    const NAME: &'static str = A::NAME;
    const GATES: usize = 1;
    const STATES: usize = 1;
    const KEPT: usize = 0;
    const APART: bool = false;
    fn step<V: Value>(gates: &Gates<V>, _: &[V], _: bool) -> Result<Step<V>> {
        let after = gates.parts::<Self>()?.iter().map(A::value).collect::<Result<_>>()?;
        Ok(Step { after, kept: vec![] })
    }
    fn back<V: Value>(step: &Step<V>, _: &[V], g: &[Option<V>]) -> Result<Back<V>> {
        let g = g[0].as_ref().expect("its only state has the only gradient");
        let gate = A::back(g, &step.after[0])?;
        Ok(Back { input: vec![Some(gate)], state: vec![], before: vec![None] })
    }
}
