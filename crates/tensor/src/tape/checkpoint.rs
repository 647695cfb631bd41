//! Gradient checkpointing: a segment whose intermediate results are not kept, but recomputed in the
//! backward pass.

use crate::Tensor;
use crate::autocast::{autocast_dtype, isolated};
use crate::tape::backward::{Gradient, Pending, walk};
use crate::tape::gradients::Gradients;
use crate::tape::mode::{enable_grad, is_grad_enabled, no_grad};
use crate::tape::node::{Edges, Flow, Live, Node, Recorded, State, next_id};
use elinvar_core::{DType, Error, Result};
use elinvar_ops::array::Array;
use elinvar_ops::backend::Backend;
use elinvar_ops::value::Value;
use smallvec::SmallVec;
use std::sync::Arc;

struct Segment<B: Backend, F> {
    f: F,
    inputs: SmallVec<[Array<B>; 2]>,
    /// The type of the autocast scope in which it ran.
    half: Option<DType>,
}

/// Runs `f` on the inputs without keeping its intermediate results; the backward pass runs it
/// again. Trades time for memory.
///
/// `f` must give the same results both times: the two runs have the same operands, and random ops
/// inside must draw from a fixed stream, not from a generator that advances. Variables that `f`
/// captures get their gradients as well. Both runs are in the [`crate::autocast`] scope of the
/// call.
///
/// # Errors
/// Those of `f`; `Autograd` if `f`'s result is not of floats.
pub fn checkpoint<B: Backend>(
    f: impl Fn(&[Tensor<B>]) -> Result<Tensor<B>> + Send + Sync + 'static,
    inputs: &[&Tensor<B>],
) -> Result<Tensor<B>> {
    let here: Vec<Tensor<B>> = inputs.iter().map(|t| t.detached()).collect();
    let half = autocast_dtype();
    let y = isolated(half, || no_grad(|| f(&here)))?;
    if !is_grad_enabled() {
        return Ok(y);
    }
    if !y.dtype().is_float() {
        return Err(Error::autograd(format!("checkpoint: the segment gave {}, not floats", y.dtype())));
    }
    let edges = Edges::of(inputs);
    let segment = Segment { f, inputs: inputs.iter().map(|t| t.array().clone()).collect(), half };
    let node = Node::new(State::Live(Live::new(edges, Box::new(segment))));
    Ok(Tensor::with_node(y.array().clone(), Some(node)))
}

impl<B: Backend, F: Fn(&[Tensor<B>]) -> Result<Tensor<B>> + Send + Sync> Segment<B, F> {
    /// Records the segment now and walks back over it, down to the nodes that existed before. Their
    /// gradients, of operands and captured tensors alike, go to the outer walk.
    fn again<G: Gradient<B>>(&self, edges: &Edges<B>, g: Vec<Option<G>>, retain: bool) -> Result<Flow<B, G>> {
        let floor = next_id();
        let inputs: Vec<Tensor<B>> = self
            .inputs
            .iter()
            .zip(edges.iter())
            .map(|(a, e)| Tensor::with_node(a.clone(), e.cloned()))
            .collect();
        // Conversions of weights from elsewhere are nodes that the outer walk may have left behind.
        let y = isolated(self.half, || enable_grad(|| (self.f)(&inputs)))?;
        let none = vec![None; self.inputs.len()];
        let (Some(node), Some(g)) = (y.node(), g.into_iter().next().flatten()) else {
            return Ok((none, vec![]));
        };
        let seed = Pending { node: node.clone(), output: 0, g, is_zero: false };
        let mut found = Gradients::new();
        Ok((none, walk(vec![seed], retain, floor, &mut found, None)?))
    }
}

impl<B: Backend, F: Fn(&[Tensor<B>]) -> Result<Tensor<B>> + Send + Sync> Recorded<B> for Segment<B, F> {
    fn name(&self) -> &'static str {
        "checkpoint"
    }
    fn reaches_beyond(&self) -> bool {
        true
    }
    fn arrays(&self, live: &Live<B>, g: Vec<Option<Array<B>>>) -> Result<Flow<B, Array<B>>> {
        self.again(&live.inputs, g, false)
    }
    fn tensors(
        &self,
        live: &Live<B>,
        _: &Arc<Node<B>>,
        g: Vec<Option<Tensor<B>>>,
    ) -> Result<Flow<B, Tensor<B>>> {
        self.again(&live.inputs, g, true)
    }
}
