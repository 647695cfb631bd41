//! A recorded gradient as a function of its variable.
//!
//! The gradient of a piecewise linear function depends on its variable by comparisons alone, or not
//! at all, so no op leads from it back to the variable. Its own gradient is then zero, and not
//! missing: this node says so.

use crate::Tensor;
use crate::tape::backward::{Gradient, Pending};
use crate::tape::node::{Edges, Flow, Live, Node, Recorded, State};
use elinvar_core::Result;
use elinvar_ops::array::Array;
use elinvar_ops::backend::Backend;
use std::sync::Arc;

/// Operand 0, the gradient; operand 1, the variable, has the gradient zero unless it arrives on
/// another way.
struct Derivative;

/// A recorded gradient of a variable.
pub(crate) fn recorded<B: Backend>(g: Tensor<B>, variable: &Arc<Node<B>>) -> Tensor<B> {
    let variable = Tensor::with_node(g.array().clone(), Some(variable.clone()));
    let live = Live::new(Edges::of(&[&g, &variable]), Box::new(Derivative));
    Tensor::with_node(g.array().clone(), Some(Node::new(State::Live(live))))
}

fn flow<B: Backend, G: Gradient<B>>(live: &Live<B>, mut g: Vec<Option<G>>) -> Result<Flow<B, G>> {
    let g = g.swap_remove(0).expect("a node with one result is visited with its gradient");
    let variable = live.inputs.iter().nth(1).flatten().expect("operand 1 is a variable");
    let zero = Pending { node: variable.clone(), output: 0, g: g.clone(), is_zero: true };
    Ok((vec![Some(g), None], vec![zero]))
}

impl<B: Backend> Recorded<B> for Derivative {
    fn name(&self) -> &'static str {
        "gradient"
    }
    fn reaches_beyond(&self) -> bool {
        false
    }
    fn arrays(&self, live: &Live<B>, g: Vec<Option<Array<B>>>) -> Result<Flow<B, Array<B>>> {
        flow(live, g)
    }
    fn tensors(
        &self,
        live: &Live<B>,
        _: &Arc<Node<B>>,
        g: Vec<Option<Tensor<B>>>,
    ) -> Result<Flow<B, Tensor<B>>> {
        flow(live, g)
    }
}
