//! A node of the tape: one run of an op, or a variable.

use crate::Tensor;
use crate::tape::backward::Pending;
use elinvar_core::{DType, Layout, Result, profile};
use elinvar_ops::array::Array;
use elinvar_ops::backend::Backend;
use elinvar_ops::map::Pointwise;
use elinvar_ops::op::{Context, Op, Saves};
use elinvar_ops::value::Value;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, Weak};

/// Node ids in the order of creation. A node that depends on another has a larger id, so descending
/// ids are a topological order, and always the same one for the same program.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A lower bound of the ids of all nodes created from now on.
pub(crate) fn next_id() -> u64 {
    NEXT.load(Ordering::Relaxed)
}

/// The edges to a node's operands: the nodes of which they are the results; `None` for untracked
/// operands.
///
/// The edges of up to two operands are separate fields, which are stored to the node straight from
/// registers. A list that is filled and then moved stalls on store forwarding, which is measurable
/// for a recorded op on a few elements.
pub(crate) struct Edges<B: Backend> {
    count: usize,
    pub(super) first: Edge<B>,
    pub(super) second: Edge<B>,
    pub(super) others: Option<Box<[Edge<B>]>>,
}

pub(super) type Edge<B> = Option<Arc<Node<B>>>;

impl<B: Backend> Edges<B> {
    #[inline(always)]
    pub(crate) fn of(x: &[&Tensor<B>]) -> Self {
        let edge = |t: &&Tensor<B>| t.node().cloned();
        let others = match x {
            [_, _, others @ ..] if !others.is_empty() => Some(others.iter().map(edge).collect()),
            _ => None,
        };
        Edges { count: x.len(), first: x.first().and_then(edge), second: x.get(1).and_then(edge), others }
    }
    pub(crate) fn iter(&self) -> impl Iterator<Item = Option<&Arc<Node<B>>>> {
        let Edges { count, first, second, others } = self;
        [first, second].into_iter().chain(others.iter().flatten()).map(Option::as_ref).take(*count)
    }
}

/// A function of a gradient; it may return a replacement.
pub type Hook<B> = Box<dyn Fn(&Tensor<B>) -> Option<Tensor<B>> + Send + Sync>;

/// A node has one result. If an op has several, each has a node, which passes its gradient to the
/// op's node.
pub(crate) struct Node<B: Backend> {
    pub(crate) id: u64,
    pub(crate) name: Option<Box<str>>,
    pub(super) state: RwLock<State<B>>,
    /// Rare, so boxed to keep nodes small.
    extras: Mutex<Option<Box<Extras<B>>>>,
    has_extras: AtomicBool,
}

struct Extras<B: Backend> {
    /// (number of the hook, hook)
    hooks: Vec<(u64, Arc<Hook<B>>)>,
    /// Is the gradient reported although this is not a variable?
    keep: bool,
    /// The nodes of the results, if there are several.
    results: Vec<Weak<Node<B>>>,
}

pub(crate) enum State<B: Backend> {
    /// A variable: gradients end here.
    Leaf,
    /// A run of an op. It is stored inline, so that a node is one allocation for most ops: those
    /// without attributes.
    Live(Live<B>),
    /// One result of a run that has several: the node of the run, and which of its results.
    Result(Arc<Node<B>>, usize),
    /// The saved tensors were freed by an earlier backward pass.
    Freed,
}

pub(crate) struct Live<B: Backend> {
    pub(crate) inputs: Edges<B>,
    /// `None` if the gradient needs no saved tensors, and all operands have the shape and dtype of
    /// the only result and so of its gradient.
    kept: Option<Box<Kept<B>>>,
    op: LiveOp<B>,
}

/// An op on the tape, which most often is an elementwise formula.
enum LiveOp<B: Backend> {
    Pointwise(Pointwise),
    Other(Box<dyn Recorded<B>>),
}

impl<B: Backend> LiveOp<B> {
    #[inline]
    fn of<O: Op>(op: O) -> Self {
        match op.into_pointwise() {
            Ok(formula) => LiveOp::Pointwise(formula),
            Err(op) => LiveOp::Other(Box::new(Run(op))),
        }
    }
}

/// The gradients of the operands, and contributions to nodes that are not operands (see
/// `checkpoint`).
pub(crate) type Flow<B, G> = (Vec<Option<G>>, Vec<Pending<B, G>>);

/// An op on the tape. Two methods, because a trait object's methods cannot be generic: gradients as
/// arrays, and gradients that are recorded themselves.
pub(crate) trait Recorded<B: Backend>: Send + Sync {
    fn name(&self) -> &'static str;
    /// May it add to gradients of nodes that are not its operands?
    fn reaches_beyond(&self) -> bool;
    fn arrays(&self, live: &Live<B>, g: Vec<Option<Array<B>>>) -> Result<Flow<B, Array<B>>>;
    fn tensors(
        &self,
        live: &Live<B>,
        node: &Arc<Node<B>>,
        g: Vec<Option<Tensor<B>>>,
    ) -> Result<Flow<B, Tensor<B>>>;
}

impl<B: Backend> Live<B> {
    /// The op's name.
    pub(crate) fn name(&self) -> &'static str {
        match &self.op {
            LiveOp::Pointwise(op) => op.name(),
            LiveOp::Other(op) => op.name(),
        }
    }
    /// A run of an op that saves its tensors itself.
    pub(crate) fn new(inputs: Edges<B>, op: Box<dyn Recorded<B>>) -> Self {
        Live { inputs, kept: None, op: LiveOp::Other(op) }
    }
    /// See [`Recorded::arrays`].
    pub(crate) fn arrays(&self, g: Vec<Option<Array<B>>>) -> Result<Flow<B, Array<B>>> {
        match &self.op {
            LiveOp::Pointwise(op) => self.with_arrays(&g, &|c| op.backward(c, &g)),
            LiveOp::Other(op) => op.arrays(self, g),
        }
    }
    /// See [`Recorded::tensors`].
    pub(crate) fn tensors(
        &self,
        node: &Arc<Node<B>>,
        g: Vec<Option<Tensor<B>>>,
    ) -> Result<Flow<B, Tensor<B>>> {
        match &self.op {
            LiveOp::Pointwise(op) => self.with_tensors(node, &g, &|c| op.backward(c, &g)),
            LiveOp::Other(op) => op.tensors(self, node, g),
        }
    }
}

/// Locks and ignores poisoning: the data are consistent at every moment.
fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T>(m: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    m.read().unwrap_or_else(PoisonError::into_inner)
}

impl<B: Backend> Node<B> {
    #[inline(always)]
    pub(crate) fn new(state: State<B>) -> Arc<Self> {
        Self::of_name(None, state)
    }
    #[inline(always)]
    fn of_name(name: Option<String>, state: State<B>) -> Arc<Self> {
        Arc::new(Node {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name: name.map(String::into_boxed_str),
            state: RwLock::new(state),
            extras: Mutex::new(None),
            has_extras: AtomicBool::new(false),
        })
    }
    pub(crate) fn leaf(name: Option<String>) -> Arc<Self> {
        Self::of_name(name, State::Leaf)
    }
    /// The node of one of a run's several results.
    fn result(run: &Arc<Self>, output: usize) -> Arc<Self> {
        // Under one lock: two threads that ask at once get the same node.
        run.extras(|e| {
            if let Some(node) = e.results.get(output).and_then(Weak::upgrade) {
                return node;
            }
            let node = Self::new(State::Result(run.clone(), output));
            if e.results.len() <= output {
                e.results.resize(output + 1, Weak::new());
            }
            e.results[output] = Arc::downgrade(&node);
            node
        })
    }
    /// The nodes of the operands. Returns whether it may add to other nodes, too.
    pub(crate) fn operands(&self, each: impl FnMut(&Arc<Self>)) -> bool {
        match &*read(&self.state) {
            State::Leaf | State::Freed => false,
            State::Result(run, _) => {
                [run].into_iter().for_each(each);
                false
            }
            State::Live(live) => {
                live.inputs.iter().flatten().for_each(each);
                matches!(&live.op, LiveOp::Other(op) if op.reaches_beyond())
            }
        }
    }
    pub(crate) fn is_leaf(&self) -> bool {
        matches!(*read(&self.state), State::Leaf)
    }
    /// Runs `f` on the node's state, which is freed afterwards unless `retain`.
    pub(crate) fn visit<T>(&self, retain: bool, f: impl FnOnce(&State<B>) -> T) -> T {
        let held = read(&self.state);
        match &*held {
            State::Live(_) | State::Result(..) if !retain => {
                drop(held);
                let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
                let state = std::mem::replace(&mut *state, State::Freed);
                f(&state)
            }
            state => f(state),
        }
    }
    pub(crate) fn op_name(&self) -> &'static str {
        match &*read(&self.state) {
            State::Leaf => "variable",
            State::Live(live) => live.name(),
            State::Result(run, _) => run.op_name(),
            State::Freed => "freed",
        }
    }
    fn extras<T>(&self, f: impl FnOnce(&mut Extras<B>) -> T) -> T {
        self.has_extras.store(true, Ordering::Release);
        let new = || Box::new(Extras { hooks: vec![], keep: false, results: vec![] });
        f(lock(&self.extras).get_or_insert_with(new))
    }
    pub(crate) fn add_hook(&self, hook: Hook<B>) -> u64 {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.extras(|e| e.hooks.push((number, Arc::new(hook))));
        number
    }
    pub(crate) fn remove_hook(&self, number: u64) {
        self.extras(|e| e.hooks.retain(|h| h.0 != number));
    }
    pub(crate) fn keep_gradient(&self) {
        self.extras(|e| e.keep = true);
    }
    pub(crate) fn keeps_gradient(&self) -> bool {
        self.has_extras.load(Ordering::Acquire) && self.extras(|e| e.keep)
    }
    pub(crate) fn hooks(&self) -> Vec<Arc<Hook<B>>> {
        if !self.has_extras.load(Ordering::Acquire) {
            return vec![];
        }
        self.extras(|e| e.hooks.iter().map(|h| h.1.clone()).collect())
    }
}

/// An op of the catalogue on the tape.
struct Run<O: Op>(O);

/// The saved tensors of a run. Everything that does not depend on the op is done here, so that it
/// is compiled once, and not once per op as the methods of `Run`.
struct Kept<B: Backend> {
    /// Empty if the gradient reads none; likewise the results.
    inputs: SmallVec<[Array<B>; 2]>,
    outputs: SmallVec<[Array<B>; 2]>,
    /// Shapes and dtypes of the operands; empty if the inputs are kept, or all have those of the
    /// only result.
    operands: SmallVec<[(Layout, DType); 2]>,
    are_as_result: bool,
}

impl<B: Backend> Kept<B> {
    /// `None` if only the incoming gradient is needed, whose shape and dtype the operands have: not
    /// cloning two layouts is measurable for an op on a few elements.
    fn of(saves: Saves, arrays: &[&Array<B>], outputs: &[Array<B>]) -> Option<Box<Self>> {
        let is_as = |y: &Array<B>| {
            arrays.iter().all(|a| a.dtype() == y.dtype() && a.layout().has_shape_of(y.layout()))
        };
        let are_as_result = !saves.inputs && matches!(outputs, [y] if is_as(y));
        if are_as_result && !saves.outputs {
            return None;
        }
        let (mut kept, mut operands) = (SmallVec::new(), SmallVec::new());
        if saves.inputs {
            kept.extend(arrays.iter().map(|&a| a.clone()));
        } else if !are_as_result {
            operands.extend(arrays.iter().map(|a| (a.layout().clone(), a.dtype())));
        }
        let outputs = if saves.outputs { outputs.iter().cloned().collect() } else { SmallVec::new() };
        Some(Box::new(Kept { inputs: kept, outputs, operands, are_as_result }))
    }
}

impl<B: Backend> Live<B> {
    /// The saved values of a gradient: inputs, results, and shapes and dtypes of the operands, of a
    /// run whose result has the gradient `g`.
    fn kept<'a, V: Value>(
        &'a self,
        g: &[Option<V>],
        room: &'a mut Option<(Layout, DType)>,
    ) -> (&'a [Array<B>], &'a [Array<B>], &'a [(Layout, DType)]) {
        let (inputs, outputs, operands, are_as_result) = match self.kept.as_deref() {
            Some(kept) => (&kept.inputs[..], &kept.outputs[..], &kept.operands[..], kept.are_as_result),
            None => (&[][..], &[][..], &[][..], true),
        };
        let operands = match g {
            _ if !are_as_result => operands,
            [Some(g)] => std::slice::from_ref(room.insert((g.array().layout().clone(), g.dtype()))),
            _ => unreachable!("a node whose one result has no gradient is not visited"),
        };
        (inputs, outputs, operands)
    }
    /// Calls `f` on the saved values as arrays. Compiled once for all ops, so never inlined.
    #[inline(never)]
    fn with_arrays(
        &self,
        g: &[Option<Array<B>>],
        f: &dyn Fn(&Context<Array<B>>) -> Result<Vec<Option<Array<B>>>>,
    ) -> Result<Flow<B, Array<B>>> {
        let (mut room, wanted) = (None, wanted(&self.inputs));
        let (inputs, outputs, operands) = self.kept(g, &mut room);
        Ok((f(&Context::new(inputs, outputs, operands, &wanted))?, Vec::new()))
    }
    /// The same on tensors, for gradients that are recorded.
    #[inline(never)]
    fn with_tensors(
        &self,
        node: &Arc<Node<B>>,
        g: &[Option<Tensor<B>>],
        f: &dyn Fn(&Context<Tensor<B>>) -> Result<Vec<Option<Tensor<B>>>>,
    ) -> Result<Flow<B, Tensor<B>>> {
        let (mut room, wanted) = (None, wanted(&self.inputs));
        let (inputs, outputs, operands) = self.kept(g, &mut room);
        let input = |(a, e): (&Array<B>, Option<&Arc<Node<B>>>)| Tensor::with_node(a.clone(), e.cloned());
        let inputs: Vec<_> = inputs.iter().zip(self.inputs.iter()).map(input).collect();
        let outputs = results(node, outputs.iter().cloned());
        Ok((f(&Context::new(&inputs, &outputs, operands, &wanted))?, Vec::new()))
    }
}

fn wanted<B: Backend>(edges: &Edges<B>) -> SmallVec<[bool; 2]> {
    edges.iter().map(|edge| edge.is_some()).collect()
}

impl<O: Op, B: Backend> Recorded<B> for Run<O> {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn reaches_beyond(&self) -> bool {
        false
    }
    fn arrays(&self, live: &Live<B>, g: Vec<Option<Array<B>>>) -> Result<Flow<B, Array<B>>> {
        live.with_arrays(&g, &|c| self.0.backward(c, &g))
    }
    fn tensors(
        &self,
        live: &Live<B>,
        node: &Arc<Node<B>>,
        g: Vec<Option<Tensor<B>>>,
    ) -> Result<Flow<B, Tensor<B>>> {
        live.with_tensors(node, &g, &|c| self.0.backward(c, &g))
    }
}

/// As [`run`], for an op with one result, as most have.
pub(crate) fn run_one<O: Op, B: Backend>(op: O, x: &[&Tensor<B>]) -> Result<Tensor<B>> {
    let _call = profile::op(|| op.name());
    let (few, many);
    let arrays: &[&Array<B>] = match x {
        // A fixed-size list on the stack, without a check of its length.
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
    let saves = op.saves(float_dtype(arrays));
    Ok(tracked(output, |output| live(x, LiveOp::of(op), saves, arrays, std::slice::from_ref(output))))
}

/// Runs an op on tensors and records it if the thread records and an operand depends on a variable.
pub(crate) fn run<O: Op, B: Backend>(op: O, x: &[&Tensor<B>]) -> Result<SmallVec<[Tensor<B>; 1]>> {
    let _call = profile::op(|| op.name());
    let arrays = arrays(x);
    let outputs = op.forward(&arrays)?;
    if !records(x) {
        return Ok(outputs.into_iter().map(Tensor::from_array).collect());
    }
    let saves = op.saves(float_dtype(&arrays));
    Ok(results(&live(x, LiveOp::of(op), saves, &arrays, &outputs), outputs))
}

/// The node of an op's run.
fn live<B: Backend>(
    x: &[&Tensor<B>],
    op: LiveOp<B>,
    saves: Saves,
    arrays: &[&Array<B>],
    outputs: &[Array<B>],
) -> Arc<Node<B>> {
    let kept = Kept::of(saves, arrays, outputs);
    Node::new(State::Live(Live { inputs: Edges::of(x), kept, op }))
}

/// The results of a node as tensors.
fn results<B: Backend>(
    node: &Arc<Node<B>>,
    arrays: impl IntoIterator<Item = Array<B>, IntoIter: ExactSizeIterator>,
) -> SmallVec<[Tensor<B>; 1]> {
    let arrays = arrays.into_iter();
    let only = arrays.len() == 1;
    let one = |(output, a)| tracked(a, |_| if only { node.clone() } else { Node::result(node, output) });
    arrays.enumerate().map(one).collect()
}

/// The maximal number of operands of most ops.
const FEW: usize = 4;

#[inline(always)]
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

/// Is an op on these operands recorded?
pub(crate) fn records<B: Backend>(x: &[&Tensor<B>]) -> bool {
    super::is_grad_enabled() && x.iter().any(|t| t.node().is_some())
}

fn float_dtype<B: Backend>(x: &[&Array<B>]) -> DType {
    x.iter().map(|a| a.dtype()).find(|d| d.is_float()).unwrap_or(DType::F32)
}

/// A result of a node. Indices and masks are results too, but have no gradient.
fn tracked<B: Backend>(a: Array<B>, node: impl FnOnce(&Array<B>) -> Arc<Node<B>>) -> Tensor<B> {
    let node = a.dtype().is_float().then(|| node(&a));
    Tensor::with_node(a, node)
}
