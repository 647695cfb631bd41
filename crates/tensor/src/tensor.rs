//! The tensor type: an array, and its node on the tape.

use crate::autocast::converted;
use crate::fail::OrFail;
use crate::sizes::Integer;
use crate::tape::node::{Node, records, run, run_one};
use crate::tape::{Backward, Gradients, Hook, Seed, backward};
use elinvar_core::{DType, Error, HostTensor, Result, Shape};
use elinvar_ops::array::Array;
use elinvar_ops::autocast::of_scope;
use elinvar_ops::backend::Backend;
use elinvar_ops::op::Op;
use elinvar_ops::value::Value;
use std::any::Any;
use std::sync::{Arc, Weak};

/// A tensor on a device of backend `B`. Cheap to clone and immutable.
///
/// Methods have PyTorch's and NumPy's names. They panic with a sentence on a programming error
/// (shapes that do not fit), as indexing does in std; [`crate::try_run`] gives the error back
/// instead.
pub struct Tensor<B: Backend> {
    array: Array<B>,
    /// The node of which it is the result, if it is tracked. Both fields are one pointer, so that a
    /// tensor is returned in registers.
    node: Option<Arc<Node<B>>>,
}

impl<B: Backend> Clone for Tensor<B> {
    fn clone(&self) -> Self {
        Tensor { array: self.array.clone(), node: self.node.clone() }
    }
}

impl<B: Backend> Value for Tensor<B> {
    type B = B;
    const TRACKS: bool = true;
    fn array(&self) -> &Array<B> {
        &self.array
    }
    fn from_array(a: Array<B>) -> Self {
        Self::with_node(a, None)
    }
    fn apply_many<O: Op>(op: O, x: &[&Self]) -> Result<Vec<Self>> {
        Ok(run(op, x)?.into_vec())
    }
    fn apply<O: Op>(op: O, x: &[&Self]) -> Result<Self> {
        run_one(op, x)
    }
    fn records(x: &[&Self]) -> bool {
        records(x)
    }
    #[inline]
    fn autocast() -> Option<DType> {
        of_scope()
    }
    fn autocast_to(&self, to: DType) -> Result<Self> {
        converted(self, to)
    }
}

impl<B: Backend> Tensor<B> {
    #[inline]
    pub(crate) fn with_node(array: Array<B>, node: Option<Arc<Node<B>>>) -> Self {
        Tensor { array, node }
    }
    #[inline]
    pub(crate) fn node(&self) -> Option<&Arc<Node<B>>> {
        self.node.as_ref()
    }

    /// The array, without the tape.
    pub fn array(&self) -> &Array<B> {
        &self.array
    }
    /// The array, for in-place updates by an optimiser for example. Other handles on this tensor
    /// keep the old elements. A variable stays the same variable until [`Tensor::renew`].
    pub fn array_mut(&mut self) -> &mut Array<B> {
        &mut self.array
    }
    /// Makes a variable a new one, without gradients so far, and any other tensor a constant: its
    /// history is dropped.
    pub fn renew(&mut self) {
        self.node = self.is_variable().then(|| Node::leaf(self.name().map(str::to_owned)));
    }
    /// The sizes of the axes.
    pub fn shape(&self) -> &Shape {
        self.array().shape()
    }
    /// The sizes of the axes, as a slice.
    pub fn dims(&self) -> &[usize] {
        self.shape()
    }
    /// The size of one axis, which may count from the end.
    ///
    /// # Panics
    /// If there is no such axis.
    #[track_caller]
    pub fn size(&self, dim: impl Integer) -> usize {
        if self.rank() == 0 {
            crate::fail::fail(Error::argument("size: a scalar has no axes"))
        }
        self.shape()[self.shape().axis("size", dim.to_isize()).or_fail()]
    }
    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.shape().rank()
    }
    /// Number of elements.
    pub fn numel(&self) -> usize {
        self.shape().numel()
    }
    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.array().dtype()
    }
    /// The device of the tensor.
    pub fn device(&self) -> &B::Device {
        self.array().device()
    }
    /// Is it row-major without gaps?
    pub fn is_contiguous(&self) -> bool {
        self.array().layout().is_contiguous()
    }

    /// Does it depend on a variable, or is it one?
    pub fn is_tracked(&self) -> bool {
        self.node.is_some()
    }
    /// Is it a variable itself?
    pub fn is_variable(&self) -> bool {
        self.node.as_ref().is_some_and(|node| node.is_leaf())
    }
    /// A new variable with these elements, for which gradients can be computed. The tensor's
    /// history is dropped.
    ///
    /// # Panics
    /// If the elements are not floats: only those have gradients.
    #[track_caller]
    pub fn requires_grad(&self) -> Tensor<B> {
        self.variable(None).or_fail()
    }
    /// A new variable with these elements and a name, which [`Gradients::by_name`] finds.
    ///
    /// # Panics
    /// If the elements are not floats.
    #[track_caller]
    pub fn named(&self, name: &str) -> Tensor<B> {
        self.variable(Some(name.to_owned())).or_fail()
    }
    fn variable(&self, name: Option<String>) -> Result<Tensor<B>> {
        if !self.dtype().is_float() {
            return Err(Error::autograd(format!(
                "requires_grad: a tensor of {} has no gradients, only floats do",
                self.dtype()
            )));
        }
        Ok(Self::with_node(self.array.clone(), Some(Node::leaf(name))))
    }
    /// The number of the variable or result on the tape, of which a program has each once; later
    /// ones have larger numbers.
    pub fn node_id(&self) -> Option<u64> {
        self.node.as_ref().map(|node| node.id)
    }
    /// The variable's name.
    pub fn name(&self) -> Option<&str> {
        self.node.as_ref().and_then(|node| node.name.as_deref())
    }
    /// The op that computed it, if it was recorded.
    pub fn op_name(&self) -> Option<&'static str> {
        self.node.as_ref().map(|node| node.op_name())
    }
    /// The same elements, not tracked.
    pub fn detach(&self) -> Tensor<B> {
        Self::from_array(self.array().clone())
    }

    /// The gradients of this tensor, which has one element, with respect to all variables on which
    /// it depends. Frees the graph.
    ///
    /// # Panics
    /// If it depends on no variable, has more than one element, or if its graph was freed already.
    #[track_caller]
    pub fn backward(&self) -> Gradients<B> {
        backward(&[(self, None)], Backward::default()).or_fail()
    }
    /// [`Tensor::backward`], which returns its error.
    ///
    /// # Errors
    /// `Autograd` if the tensor depends on no variable, has more than one element, or if its graph
    /// was freed already; `OutOfMemory`.
    pub fn try_backward(&self) -> Result<Gradients<B>> {
        backward(&[(self, None)], Backward::default())
    }
    /// The gradients with options, and of the sum of `seed * self` for an output of any shape:
    /// `y.backward_with(&seed, Backward::default())`, `loss.backward_with(None,
    /// Backward::retain_graph())`.
    ///
    /// # Panics
    /// As [`Tensor::backward`], or if the seed has another shape, dtype or device.
    #[track_caller]
    pub fn backward_with(&self, seed: impl Seed<B>, options: Backward) -> Gradients<B> {
        backward(&[(self, seed.seed())], options).or_fail()
    }
    /// [`Tensor::backward_with`], which returns its error.
    ///
    /// # Errors
    /// As [`backward`].
    pub fn try_backward_with(&self, seed: impl Seed<B>, options: Backward) -> Result<Gradients<B>> {
        backward(&[(self, seed.seed())], options)
    }
    /// The gradients with respect to some variables, recorded, so that they can be differentiated
    /// again. `None` for a variable on which this tensor does not depend.
    ///
    /// # Panics
    /// As [`Tensor::backward`].
    #[track_caller]
    pub fn grad(&self, variables: &[&Tensor<B>]) -> Vec<Option<Tensor<B>>> {
        self.try_grad(variables).or_fail()
    }
    /// [`Tensor::grad`], which returns its error.
    ///
    /// # Errors
    /// As [`Tensor::try_backward`].
    pub fn try_grad(&self, variables: &[&Tensor<B>]) -> Result<Vec<Option<Tensor<B>>>> {
        let all = backward(&[(self, None)], Backward::create_graph())?;
        Ok(variables.iter().map(|v| all.get(v).cloned()).collect())
    }
    /// Calls `hook` with the gradient of this tensor whenever a backward pass has completed it; a
    /// tensor that the hook returns replaces the gradient; another shape or dtype is an error of
    /// the pass.
    ///
    /// # Panics
    /// If the tensor depends on no variable: it has no gradient.
    #[track_caller]
    pub fn register_hook(
        &self,
        hook: impl Fn(&Tensor<B>) -> Option<Tensor<B>> + Send + Sync + 'static,
    ) -> HookHandle<B> {
        let node = self.node_for("register_hook").or_fail();
        let hook: Hook<B> = Box::new(hook);
        HookHandle { number: node.add_hook(hook), node: Arc::downgrade(node) }
    }
    /// Makes backward passes report the gradient of this tensor although it is not a variable.
    ///
    /// # Panics
    /// If the tensor depends on no variable.
    #[track_caller]
    pub fn retain_grad(&self) {
        self.node_for("retain_grad").or_fail().keep_gradient();
    }
    fn node_for(&self, op: &str) -> Result<&Arc<Node<B>>> {
        self.node.as_ref().ok_or_else(|| {
            Error::autograd(format!(
                "{op}: the tensor depends on no variable, so no gradient will ever arrive"
            ))
        })
    }

    /// The elements on the host. Waits for the device.
    ///
    /// # Errors
    /// What the device reports.
    pub fn to_host(&self) -> Result<HostTensor> {
        self.array().to_host()
    }
    /// Waits until the elements are computed. Reading them waits anyway; this is for measuring
    /// time, or for reporting an error here and not later.
    ///
    /// # Errors
    /// What the device reports; `OutOfMemory`.
    pub fn block_until_ready(&self) -> Result<()> {
        self.array().block_until_ready()
    }
    /// Packs a copy of this matrix \[k, n\] in the layout in which matrix products read their right
    /// operand, which makes `x.matmul(&w)` faster: for weights that are used often and do not
    /// change. `linear` reads its weight \[out, in\] transposed, so there it is
    /// `weight.t().prepack()`, and a convolution of one group
    /// `weight.flatten(1, -1).t().prepack()`. No bit of any result changes. The copy is dropped
    /// when the tensor's memory is freed, or updated by an optimiser. Returns whether a copy was
    /// made: not every device supports it.
    ///
    /// # Panics
    /// If the tensor is not a matrix, or memory is exhausted.
    #[track_caller]
    pub fn prepack(&self) -> bool {
        self.array().prepack().or_fail()
    }
    /// Copies a tensor of host memory to the device.
    ///
    /// # Errors
    /// `OutOfMemory`, or what the device reports.
    pub fn from_host(host: HostTensor, device: &B::Device) -> Result<Tensor<B>> {
        Ok(Self::from_array(Array::from_host(device, host)?))
    }
    /// A tensor that is not tracked.
    pub fn from_array(array: Array<B>) -> Tensor<B> {
        Self::with_node(array, None)
    }
    /// A copy on another device, possibly of another backend, not tracked.
    ///
    /// # Errors
    /// `OutOfMemory`, or what the devices report.
    pub fn copy_to<C: Backend>(&self, device: &C::Device) -> Result<Tensor<C>> {
        // Devices of one backend may have a shorter path than through the host.
        if let Some(device) = (device as &dyn Any).downcast_ref::<B::Device>()
            && *device != *self.device()
        {
            let there: Box<dyn Any> = Box::new(Tensor::from_array(self.array().on(device)?));
            if let Ok(there) = there.downcast::<Tensor<C>>() {
                return Ok(*there);
            }
        }
        Tensor::from_host(self.to_host()?, device)
    }
}

/// A registered hook; it stays registered when the handle is dropped.
pub struct HookHandle<B: Backend> {
    node: Weak<Node<B>>,
    number: u64,
}

impl<B: Backend> HookHandle<B> {
    /// Removes the hook.
    pub fn remove(self) {
        if let Some(node) = self.node.upgrade() {
            node.remove_hook(self.number);
        }
    }
}
