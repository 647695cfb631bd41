//! The backward pass over the tape.

use crate::Tensor;
use crate::autocast::autocast_off;
use crate::tape::derivative::recorded;
use crate::tape::finals::{Finals, Told};
use crate::tape::gradients::Gradients;
use crate::tape::mode;
use crate::tape::node::{Flow, Live, Node, State};
use elinvar_core::{Error, Result, Scalar, profile};
use elinvar_ops::array::Array;
use elinvar_ops::backend::Backend;
use elinvar_ops::catalogue;
use elinvar_ops::value::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a backward pass treats the graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backward {
    /// Keep the saved tensors, so that the pass can be run again. Otherwise the graph is freed
    /// during the pass.
    pub retain_graph: bool,
    /// Record the gradients themselves, so that they can be differentiated. Implies `retain_graph`.
    pub create_graph: bool,
}

impl Backward {
    /// Keeps the graph, so that the pass can be run again.
    pub fn retain_graph() -> Self {
        Backward { retain_graph: true, create_graph: false }
    }
    /// Records the gradients, so that they can be differentiated.
    pub fn create_graph() -> Self {
        Backward { retain_graph: true, create_graph: true }
    }
}

/// The gradient that arrives at an output: a tensor of its shape, or `None` for 1 at an output of
/// one element.
pub trait Seed<B: Backend> {
    /// The tensor.
    fn seed(&self) -> Option<&Tensor<B>>;
}
impl<B: Backend> Seed<B> for &Tensor<B> {
    fn seed(&self) -> Option<&Tensor<B>> {
        Some(self)
    }
}
impl<B: Backend> Seed<B> for Option<&Tensor<B>> {
    fn seed(&self) -> Option<&Tensor<B>> {
        *self
    }
}

/// The gradients of several outputs together, each with its incoming gradient (the seed; optional
/// for an output of one element, by default 1).
///
/// # Errors
/// `Autograd` if an output depends on no variable, has more than one element and no seed, or if its
/// graph was freed; `ShapeMismatch`, `DTypeMismatch`, `DeviceMismatch` if a seed does not fit;
/// `OutOfMemory`.
pub fn backward<B: Backend>(
    outputs: &[(&Tensor<B>, Option<&Tensor<B>>)],
    options: Backward,
) -> Result<Gradients<B>> {
    run(outputs, options, None)
}

/// [`backward`], which tells of each of `variables`, by its place there, while the pass goes on: as
/// soon as its gradient is final, and once. `None` is told of one on which the outputs do not
/// depend.
///
/// Gradients and their bits are those of [`backward`]. A variable's hooks run before it is told.
/// While the pass has a segment of [`crate::checkpoint`] before it, nothing is told: the segment
/// may read any variable.
///
/// # Errors
/// As [`backward`]; `InvalidArgument` if one is no variable, or is given twice; those of `told`,
/// which end the pass.
pub fn backward_each<B: Backend>(
    outputs: &[(&Tensor<B>, Option<&Tensor<B>>)],
    options: Backward,
    variables: &[&Tensor<B>],
    told: &mut Told<'_, B>,
) -> Result<Gradients<B>> {
    run(outputs, options, Some(&mut Finals::new(variables, told)?))
}

fn run<B: Backend>(
    outputs: &[(&Tensor<B>, Option<&Tensor<B>>)],
    options: Backward,
    finals: Option<&mut Finals<'_, '_, B>>,
) -> Result<Gradients<B>> {
    let _span = profile::span("backward");
    let mut found = Gradients::new();
    // Gradients run in the types of what was recorded, whatever scope there is now.
    autocast_off(|| {
        if options.create_graph {
            let seeds = seeds(outputs, |t| t)?;
            mode::enable_grad(|| walk(seeds, true, 0, &mut found, finals)).map(drop)
        } else {
            let seeds = seeds(outputs, |t| t.array().clone())?;
            walk(seeds, options.retain_graph, 0, &mut found, finals).map(drop)
        }
    })?;
    Ok(found)
}

fn seeds<B: Backend, G>(
    outputs: &[(&Tensor<B>, Option<&Tensor<B>>)],
    f: impl Fn(Tensor<B>) -> G,
) -> Result<Vec<Pending<B, G>>> {
    let one = |(y, seed): &(&Tensor<B>, Option<&Tensor<B>>)| {
        let Some(node) = y.node() else {
            return Err(Error::autograd(
                "backward: the output depends on no variable; make one with requires_grad(), and mind no_grad and \
                 detach",
            ));
        };
        let seed = match seed {
            None if y.shape().numel() == 1 => {
                Tensor::from_array(Array::full(y.device(), y.shape(), Scalar::Float(1.0), y.dtype())?)
            }
            None => {
                return Err(Error::autograd(format!(
                    "backward: the output has shape {}, and only an output of one element can do without a seed; \
                     reduce it with sum() or mean(), or give a seed with backward_with",
                    y.shape()
                )));
            }
            Some(s) => (*s).clone(),
        };
        if seed.shape() != y.shape() {
            return Err(Error::shape(format!(
                "backward: seed of shape {} for an output of shape {}",
                seed.shape(),
                y.shape()
            )));
        }
        if seed.dtype() != y.dtype() {
            return Err(Error::dtype(format!(
                "backward: seed of {} for an output of {}",
                seed.dtype(),
                y.dtype()
            )));
        }
        elinvar_ops::array::one_device("backward", &[seed.array(), y.array()])?;
        Ok(Pending { node: node.clone(), output: 0, g: f(seed), is_zero: false })
    };
    outputs.iter().map(one).collect()
}

/// A gradient that is to be added to a node.
pub(crate) struct Pending<B: Backend, G> {
    pub(crate) node: Arc<Node<B>>,
    /// The index of the result that it belongs to, if the node is of an op with several results.
    pub(crate) output: usize,
    pub(crate) g: G,
    /// Only the shape of `g` counts: the gradient of this variable is zero unless others arrive.
    pub(crate) is_zero: bool,
}

/// Gradients as arrays, or as tensors that are recorded again (`create_graph`).
pub(crate) trait Gradient<B: Backend>: Value<B = B> {
    fn backward(live: &Live<B>, node: &Arc<Node<B>>, g: Vec<Option<Self>>) -> Result<Flow<B, Self>>;
    fn into_tensor(self) -> Tensor<B>;
    fn from_tensor(t: Tensor<B>) -> Self;
    /// The gradient of this variable, as it is reported.
    fn of_variable(self, variable: &Arc<Node<B>>) -> Tensor<B>;
}

impl<B: Backend> Gradient<B> for Array<B> {
    fn backward(live: &Live<B>, _: &Arc<Node<B>>, g: Vec<Option<Self>>) -> Result<Flow<B, Self>> {
        live.arrays(g)
    }
    fn into_tensor(self) -> Tensor<B> {
        Tensor::from_array(self)
    }
    fn from_tensor(t: Tensor<B>) -> Self {
        t.array().clone()
    }
    fn of_variable(self, _: &Arc<Node<B>>) -> Tensor<B> {
        Tensor::from_array(self)
    }
}

impl<B: Backend> Gradient<B> for Tensor<B> {
    fn backward(live: &Live<B>, node: &Arc<Node<B>>, g: Vec<Option<Self>>) -> Result<Flow<B, Self>> {
        live.tensors(node, g)
    }
    fn into_tensor(self) -> Tensor<B> {
        self
    }
    fn from_tensor(t: Tensor<B>) -> Self {
        t
    }
    fn of_variable(self, variable: &Arc<Node<B>>) -> Tensor<B> {
        recorded(self, variable)
    }
}

struct Waiting<B: Backend, G> {
    node: Arc<Node<B>>,
    g: Vec<Option<G>>,
    /// Of the shape of a gradient that is zero if there is no other.
    zero: Option<G>,
}

/// The nodes that a pass has still to visit, by id.
type Left<B, G> = BTreeMap<u64, Waiting<B, G>>;

/// Walks the graph from the seeds. Nodes are visited in descending order of their ids, so a node's
/// gradients are complete when it is reached, and the gradients of several uses of one value are
/// added latest use first: always in the same order.
///
/// Nodes below `floor` are not visited; their gradients are returned. `finals` has its variables
/// visited earlier, which adds nothing to other nodes.
pub(crate) fn walk<B: Backend, G: Gradient<B>>(
    seeds: Vec<Pending<B, G>>,
    retain: bool,
    floor: u64,
    found: &mut Gradients<B>,
    mut finals: Option<&mut Finals<'_, '_, B>>,
) -> Result<Vec<Pending<B, G>>> {
    let mut waiting: Left<B, G> = BTreeMap::new();
    for p in seeds {
        arrive(&mut waiting, p)?;
    }
    loop {
        if let Some(finals) = finals.as_deref_mut() {
            visit_finals(&mut waiting, retain, found, finals)?;
        }
        let Some((id, _)) = waiting.last_key_value() else { break };
        if *id < floor {
            break;
        }
        let (_, next) = waiting.pop_last().expect("it was there three lines ago");
        visit(next, retain, &mut waiting, found)?;
    }
    let rest = |w: Waiting<B, G>| {
        let Waiting { node, g, zero } = w;
        let mut all = vec![];
        for (output, g) in g.into_iter().enumerate() {
            if let Some(g) = g {
                all.push(Pending { node: node.clone(), output, g, is_zero: false });
            }
        }
        all.extend(zero.map(|g| Pending { node: node.clone(), output: 0, g, is_zero: true }));
        all
    };
    Ok(waiting.into_values().flat_map(rest).collect())
}

/// Visits the variables to which no node that is left adds anything, and tells of them.
fn visit_finals<B: Backend, G: Gradient<B>>(
    waiting: &mut Left<B, G>,
    retain: bool,
    found: &mut Gradients<B>,
    finals: &mut Finals<'_, '_, B>,
) -> Result<()> {
    loop {
        let newest = waiting.last_key_value().map_or(0, |(id, _)| *id);
        let Some(id) = finals.next(newest, || waiting.values().map(|w| w.node.clone()).collect()) else {
            return Ok(());
        };
        if let Some(variable) = waiting.remove(&id) {
            visit(variable, retain, waiting, found)?;
        }
        finals.tell(id, found)?;
    }
}

/// Visits a node that has all its gradients.
fn visit<B: Backend, G: Gradient<B>>(
    Waiting { node, mut g, zero }: Waiting<B, G>,
    retain: bool,
    waiting: &mut Left<B, G>,
    found: &mut Gradients<B>,
) -> Result<()> {
    if let (Some(like), true) = (zero, g.iter().all(Option::is_none)) {
        let like = like.array();
        let zeros = Array::full(like.device(), like.shape(), Scalar::Int(0), like.dtype())?;
        g = vec![Some(G::from_array(zeros))];
    }
    // Hooks see gradients of results, of which such a node has one.
    if let [slot] = &mut g[..]
        && let Some(here) = slot
    {
        for hook in node.hooks() {
            if let Some(other) = hook(&here.clone().into_tensor()) {
                // Ops take the shape of their operands from the gradient.
                if (other.shape(), other.dtype()) != (here.shape(), here.dtype()) {
                    return Err(Error::autograd(format!(
                        "a hook was given a gradient {} {} and returned one {} {}",
                        here.dtype(),
                        here.shape(),
                        other.dtype(),
                        other.shape()
                    )));
                }
                *here = G::from_tensor(other);
            }
        }
        if node.keeps_gradient() {
            found.insert(node.id, node.name.as_deref(), here.clone().into_tensor());
        }
    }
    node.visit(retain, |state| {
        let live = match state {
            State::Leaf => {
                let here = g.swap_remove(0).expect("a variable has one result");
                found.insert(node.id, node.name.as_deref(), here.of_variable(&node));
                return Ok(());
            }
            State::Result(run, output) => {
                let g = g.swap_remove(0).expect("a result has one gradient");
                return arrive(waiting, Pending { node: run.clone(), output: *output, g, is_zero: false });
            }
            State::Live(live) => live,
            State::Freed => {
                return Err(Error::autograd(
                    "backward: this part of the graph was freed by an earlier backward pass; run that one with \
                     retain_graph",
                ));
            }
        };
        let (inputs, others) = {
            let _call = profile::gradient(|| live.name());
            G::backward(live, &node, g)?
        };
        for (g, node) in inputs.into_iter().zip(live.inputs.iter()) {
            if let (Some(g), Some(node)) = (g, node) {
                arrive(waiting, Pending { node: node.clone(), output: 0, g, is_zero: false })?;
            }
        }
        others.into_iter().try_for_each(|p| arrive(waiting, p))
    })
}

fn arrive<B: Backend, G: Gradient<B>>(waiting: &mut Left<B, G>, p: Pending<B, G>) -> Result<()> {
    let w = waiting.entry(p.node.id).or_insert_with(|| Waiting { node: p.node, g: vec![], zero: None });
    if p.is_zero {
        w.zero = Some(p.g);
        return Ok(());
    }
    if w.g.len() <= p.output {
        w.g.resize(p.output + 1, None);
    }
    let slot = &mut w.g[p.output];
    *slot = Some(match slot.take() {
        Some(so_far) => {
            let _call = profile::gradient(|| "accumulate");
            catalogue::add(&so_far, &p.g)?
        }
        None => p.g,
    });
    Ok(())
}
