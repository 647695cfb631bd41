//! How graphs are freed: without recursion, from several threads at once.

use crate::tape::node::{Edge, Edges, Live, Node, State};
use elinvar_ops::backend::Backend;
use smallvec::SmallVec;
use std::sync::{Arc, PoisonError, RwLock};

/// Long chains of nodes are freed in a loop: the derived drop would recurse and overflow the stack.
impl<B: Backend> Drop for Live<B> {
    fn drop(&mut self) {
        let mut waiting = SmallVec::new();
        take(&mut self.inputs, &mut waiting);
        while let Some(mut node) = waiting.pop() {
            match Arc::get_mut(&mut node) {
                Some(node) => release(&mut node.state, &mut waiting),
                // There is a weak reference (`Arc::get_mut` needs none), which may be upgraded
                // concurrently.
                None => let_go(node, &mut waiting),
            }
        }
    }
}

/// Nodes without other owners.
type Waiting<B> = SmallVec<[Arc<Node<B>>; 4]>;

/// Takes the edges out of a node that is being dropped.
fn release<B: Backend>(state: &mut RwLock<State<B>>, waiting: &mut Waiting<B>) {
    let state = state.get_mut().unwrap_or_else(PoisonError::into_inner);
    match state {
        State::Live(live) => take(&mut live.inputs, waiting),
        State::Result(..) => {
            if let State::Result(run, _) = std::mem::replace(state, State::Freed) {
                waiting.push(run);
            }
        }
        State::Leaf | State::Freed => {}
    }
}

fn take<B: Backend>(inputs: &mut Edges<B>, waiting: &mut Waiting<B>) {
    let mut one = |edge: &mut Edge<B>| match edge.take() {
        Some(node) if Arc::strong_count(&node) == 1 => waiting.push(node),
        Some(node) => let_go(node, waiting),
        None => {}
    };
    one(&mut inputs.first);
    one(&mut inputs.second);
    inputs.others.iter_mut().flatten().for_each(one);
}

/// It has other owners; if they drop it concurrently, exactly one of them gets the node here.
fn let_go<B: Backend>(node: Arc<Node<B>>, waiting: &mut Waiting<B>) {
    if let Some(mut node) = Arc::into_inner(node) {
        release(&mut node.state, waiting);
    }
}
