//! A node of the tape: one run of an op, or a variable.

use crate::Tensor;
use crate::tape::backward::Pending;
use elinvar_core::{DType, Layout, Result};
use elinvar_ops::array::Array;
use elinvar_ops::backend::Backend;
use elinvar_ops::op::{Context, Op, Saves};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Numbers nodes in the order of their creation. Whatever depends on a node has a larger number, so walking from
/// the largest number down is a topological order, and always the same one for the same program.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The number that the next node will get, or a larger one.
pub(crate) fn next_id() -> u64 {
    NEXT.load(Ordering::Relaxed)
}

/// One result of a node.
pub(crate) struct Edge<B: Backend> {
    pub(crate) node: Arc<Node<B>>,
    pub(crate) output: usize,
}

impl<B: Backend> Clone for Edge<B> {
    fn clone(&self) -> Self {
        Edge { node: self.node.clone(), output: self.output }
    }
}

/// The edges to a node's operands; `None` for operands that depend on nothing.
pub(crate) type Edges<B> = SmallVec<[Option<Edge<B>>; 2]>;

/// A function on a gradient: it may replace it by returning another.
pub type Hook<B> = Box<dyn Fn(&Tensor<B>) -> Option<Tensor<B>> + Send + Sync>;

pub(crate) struct Node<B: Backend> {
    pub(crate) id: u64,
    pub(crate) name: Option<String>,
    state: Mutex<State<B>>,
    /// Rare, so they do not make every node larger.
    extras: Mutex<Option<Box<Extras<B>>>>,
    has_extras: AtomicBool,
}

struct Extras<B: Backend> {
    /// (result, number of the hook, hook)
    hooks: Vec<(usize, u64, Arc<Hook<B>>)>,
    /// Results whose gradient is to be reported although they are no variables.
    keep: Vec<usize>,
}

pub(crate) enum State<B: Backend> {
    /// A variable: gradients end here.
    Leaf,
    /// A run of an op.
    Live(Arc<Live<B>>),
    /// What the gradient needs was given back by an earlier backward pass.
    Freed,
}

impl<B: Backend> Clone for State<B> {
    fn clone(&self) -> Self {
        match self {
            State::Leaf => State::Leaf,
            State::Live(l) => State::Live(l.clone()),
            State::Freed => State::Freed,
        }
    }
}

pub(crate) struct Live<B: Backend, R: ?Sized = dyn Recorded<B>> {
    pub(crate) inputs: Edges<B>,
    /// Last, because its size depends on the op: so all of this is one piece of memory.
    pub(crate) op: R,
}

/// The gradients by each operand, and contributions to nodes that are no operands (see `checkpoint`).
pub(crate) type Flow<B, G> = (Vec<Option<G>>, Vec<Pending<B, G>>);

/// What the tape keeps of an op's run. Two methods, because a trait object cannot be generic: gradients that
/// are just numbers, and gradients that are recorded themselves.
pub(crate) trait Recorded<B: Backend>: Send + Sync {
    fn name(&self) -> &'static str;
    fn arrays(&self, inputs: &Edges<B>, g: Vec<Option<Array<B>>>) -> Result<Flow<B, Array<B>>>;
    fn tensors(
        &self,
        node: &Arc<Node<B>>,
        inputs: &Edges<B>,
        g: Vec<Option<Tensor<B>>>,
    ) -> Result<Flow<B, Tensor<B>>>;
}

/// Locks without caring whether another thread panicked: the data are whole at every moment.
fn lock<T>(m: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<B: Backend> Node<B> {
    pub(crate) fn new(name: Option<String>, state: State<B>) -> Arc<Self> {
        Arc::new(Node {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name,
            state: Mutex::new(state),
            extras: Mutex::new(None),
            has_extras: AtomicBool::new(false),
        })
    }
    pub(crate) fn leaf(name: Option<String>) -> Arc<Self> {
        Self::new(name, State::Leaf)
    }
    pub(crate) fn is_leaf(&self) -> bool {
        matches!(*lock(&self.state), State::Leaf)
    }
    /// What the node holds; it forgets it unless it is to retain it.
    pub(crate) fn state(&self, retain: bool) -> State<B> {
        let mut state = lock(&self.state);
        match &*state {
            State::Live(_) if !retain => std::mem::replace(&mut state, State::Freed),
            other => other.clone(),
        }
    }
    pub(crate) fn op_name(&self) -> &'static str {
        match &*lock(&self.state) {
            State::Leaf => "variable",
            State::Live(l) => l.op.name(),
            State::Freed => "freed",
        }
    }
    fn extras<T>(&self, f: impl FnOnce(&mut Extras<B>) -> T) -> T {
        self.has_extras.store(true, Ordering::Release);
        f(lock(&self.extras).get_or_insert_with(|| Box::new(Extras { hooks: vec![], keep: vec![] })))
    }
    pub(crate) fn add_hook(&self, output: usize, hook: Hook<B>) -> u64 {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.extras(|e| e.hooks.push((output, number, Arc::new(hook))));
        number
    }
    pub(crate) fn remove_hook(&self, number: u64) {
        self.extras(|e| e.hooks.retain(|h| h.1 != number));
    }
    pub(crate) fn keep_gradient(&self, output: usize) {
        self.extras(|e| e.keep.push(output));
    }
    pub(crate) fn keeps_gradient(&self, output: usize) -> bool {
        self.has_extras.load(Ordering::Acquire) && self.extras(|e| e.keep.contains(&output))
    }
    pub(crate) fn hooks(&self, output: usize) -> Vec<Arc<Hook<B>>> {
        if !self.has_extras.load(Ordering::Acquire) {
            return vec![];
        }
        self.extras(|e| e.hooks.iter().filter(|h| h.0 == output).map(|h| h.2.clone()).collect())
    }
}

/// A chain of a million nodes is freed in a loop: the compiler's own drop would recurse through it.
impl<B: Backend, R: ?Sized> Drop for Live<B, R> {
    fn drop(&mut self) {
        let mut waiting: Vec<Arc<Live<B>>> = Vec::new();
        release(&mut self.inputs, &mut waiting);
        while let Some(mut live) = waiting.pop() {
            // What somebody else holds he will free.
            if let Some(live) = Arc::get_mut(&mut live) {
                release(&mut live.inputs, &mut waiting);
            }
        }
    }
}

/// Lets go of nodes; the runs of those that nobody else holds are left in `waiting`.
fn release<B: Backend>(inputs: &mut Edges<B>, waiting: &mut Vec<Arc<Live<B>>>) {
    for edge in inputs.drain(..).flatten() {
        let Some(node) = Arc::into_inner(edge.node) else { continue };
        let state = node.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let State::Live(live) = state {
            waiting.push(live);
        }
    }
}

/// An op of the catalogue on the tape.
struct Run<O: Op, B: Backend> {
    op: O,
    kept: Kept<B>,
}

/// What a run leaves behind. Everything that does not depend on the op is done here: it is compiled once, and the
/// methods of `Run` once per op.
struct Kept<B: Backend> {
    /// Empty if the gradient reads none; so are the results. Vectors, because most ops keep nothing or little of what a
    /// list in place would make every node larger by.
    inputs: Vec<Array<B>>,
    outputs: Vec<Array<B>>,
    operands: SmallVec<[(Layout, DType); 2]>,
}

impl<B: Backend> Kept<B> {
    fn new(saves: Saves, inputs: &[&Array<B>], outputs: &[Array<B>]) -> Self {
        let operands = inputs.iter().map(|a| (a.layout().clone(), a.dtype())).collect();
        let inputs = if saves.inputs { inputs.iter().copied().cloned().collect() } else { Vec::new() };
        let outputs = if saves.outputs { outputs.to_vec() } else { Vec::new() };
        Kept { inputs, outputs, operands }
    }
    /// Runs `f` on what a gradient of numbers reads.
    fn arrays<T>(&self, edges: &Edges<B>, f: impl FnOnce(&Context<Array<B>>) -> T) -> T {
        f(&Context::new(&self.inputs, &self.outputs, &self.operands, &wanted(edges)))
    }
    /// Runs `f` on what a gradient that is recorded reads.
    fn tensors<T>(
        &self,
        node: &Arc<Node<B>>,
        edges: &Edges<B>,
        f: impl FnOnce(&Context<Tensor<B>>) -> T,
    ) -> T {
        let input = |(a, e): (&Array<B>, &Option<Edge<B>>)| Tensor::with_edge(a.clone(), e.clone());
        let output = |(output, a): (usize, &Array<B>)| {
            Tensor::with_edge(a.clone(), Some(Edge { node: node.clone(), output }))
        };
        let inputs: Vec<_> = self.inputs.iter().zip(edges).map(input).collect();
        let outputs: Vec<_> = self.outputs.iter().enumerate().map(output).collect();
        f(&Context::new(&inputs, &outputs, &self.operands, &wanted(edges)))
    }
}

fn wanted<B: Backend>(edges: &Edges<B>) -> SmallVec<[bool; 2]> {
    edges.iter().map(Option::is_some).collect()
}

impl<O: Op, B: Backend> Recorded<B> for Run<O, B> {
    fn name(&self) -> &'static str {
        O::NAME
    }
    fn arrays(&self, inputs: &Edges<B>, g: Vec<Option<Array<B>>>) -> Result<Flow<B, Array<B>>> {
        self.kept.arrays(inputs, |c| Ok((self.op.backward(c, &g)?, Vec::new())))
    }
    fn tensors(
        &self,
        node: &Arc<Node<B>>,
        inputs: &Edges<B>,
        g: Vec<Option<Tensor<B>>>,
    ) -> Result<Flow<B, Tensor<B>>> {
        self.kept.tensors(node, inputs, |c| Ok((self.op.backward(c, &g)?, Vec::new())))
    }
}

/// As [`run`], for an op with one result, as most have.
pub(crate) fn run_one<O: Op, B: Backend>(op: O, x: &[&Tensor<B>]) -> Result<Tensor<B>> {
    let (few, many);
    let arrays: &[&Array<B>] = match x {
        // A list in place, without a look at how long it is.
        [first, ..] if x.len() <= FEW => {
            few = arrays_of(x, first.array());
            &few[..x.len()]
        }
        _ => {
            many = arrays(x);
            &many
        }
    };
    let output = op.forward_one(arrays)?;
    if !records(x) {
        return Ok(Tensor::from_array(output));
    }
    let kept = Kept::new(op.saves(float_dtype(arrays)), arrays, std::slice::from_ref(&output));
    let node = Node::new(None, State::Live(Arc::new(Live { inputs: edges(x), op: Run { op, kept } })));
    Ok(tracked(&node, 0, output))
}

/// Runs an op on tensors and records it if the thread records and an operand depends on a variable.
pub(crate) fn run<O: Op, B: Backend>(op: O, x: &[&Tensor<B>]) -> Result<SmallVec<[Tensor<B>; 1]>> {
    let arrays = arrays(x);
    let outputs = op.forward(&arrays)?;
    if !records(x) {
        return Ok(outputs.into_iter().map(Tensor::from_array).collect());
    }
    let kept = Kept::new(op.saves(float_dtype(&arrays)), &arrays, &outputs);
    let node = Node::new(None, State::Live(Arc::new(Live { inputs: edges(x), op: Run { op, kept } })));
    Ok(outputs.into_iter().enumerate().map(|(output, a)| tracked(&node, output, a)).collect())
}

/// Operands of most ops, at most.
const FEW: usize = 4;

fn arrays_of<'a, B: Backend>(x: &[&'a Tensor<B>], first: &'a Array<B>) -> [&'a Array<B>; FEW] {
    let mut all = [first; FEW];
    for (a, t) in all.iter_mut().zip(x) {
        *a = t.array();
    }
    all
}

fn arrays<'a, B: Backend>(x: &[&'a Tensor<B>]) -> Vec<&'a Array<B>> {
    x.iter().map(|t| t.array()).collect()
}

fn edges<B: Backend>(x: &[&Tensor<B>]) -> Edges<B> {
    x.iter().map(|t| t.edge().cloned()).collect()
}

fn records<B: Backend>(x: &[&Tensor<B>]) -> bool {
    super::is_grad_enabled() && x.iter().any(|t| t.edge().is_some())
}

fn float_dtype<B: Backend>(x: &[&Array<B>]) -> DType {
    x.iter().map(|a| a.dtype()).find(|d| d.is_float()).unwrap_or(DType::F32)
}

/// A result of a node. Indices and masks are results too, but nothing flows back through them.
fn tracked<B: Backend>(node: &Arc<Node<B>>, output: usize, a: Array<B>) -> Tensor<B> {
    let edge = a.dtype().is_float().then(|| Edge { node: node.clone(), output });
    Tensor::with_edge(a, edge)
}
