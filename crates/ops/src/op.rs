//! `Op`: the operations that the tape records.

use crate::array::Array;
use crate::backend::Backend;
use crate::map::Pointwise;
use crate::value::Value;
use elinvar_core::{DType, Layout, Result, Shape};
pub use elinvar_lane::formula::Saves;
use smallvec::SmallVec;
use std::fmt::Debug;

/// The results of an op: mostly one.
pub type Outputs<B> = SmallVec<[Array<B>; 1]>;

/// An operation that the tape can record: its forward pass, and its gradient.
///
/// An op holds its attributes. Composed ops (a loss, say) are plain functions over [`Value`] and
/// need none.
pub trait Op: Clone + Debug + Send + Sync + 'static {
    /// The op's name.
    fn name(&self) -> &'static str;

    /// The values that the gradient reads, when the first float operand is of `dtype`.
    fn saves(&self, dtype: DType) -> Saves;

    /// Checks the operands and computes the results.
    ///
    /// # Errors
    /// A sentence that begins with the op's name.
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>>;

    /// The same for an op that has one result, without the list.
    ///
    /// # Errors
    /// As [`Op::forward`].
    #[inline]
    fn forward_one<B: Backend>(&self, x: &[&Array<B>]) -> Result<Array<B>> {
        Ok(self.forward(x)?.pop().expect("an op has a result"))
    }

    /// The op as an elementwise formula, if it is one: the tape keeps these without a box of their
    /// own, which an op on a few elements would notice.
    ///
    /// # Errors
    /// The op itself, if it is another.
    fn into_pointwise(self) -> std::result::Result<Pointwise, Self> {
        Err(self)
    }

    /// The gradients by each operand that [`Context::wants`], from the gradients by each result
    /// (`None` for a result on which nothing depends; at least one is present). Each has its
    /// operand's shape and dtype.
    ///
    /// Written over [`Value`]: on arrays it only computes; on tensors it is recorded again, which
    /// gives higher derivatives.
    ///
    /// # Errors
    /// `OutOfMemory`, or `Autograd` if there is no gradient.
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>>;
}

/// The saved state of an op's forward pass, for its gradient.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a, V: Value> {
    inputs: &'a [V],
    outputs: &'a [V],
    operands: &'a [(Layout, DType)],
    wanted: &'a [bool],
}

impl<'a, V: Value> Context<'a, V> {
    /// The values that the tape saved. `inputs` and `outputs` are empty if the op does not save
    /// them; `operands`, the shapes and dtypes, may be empty if there are `inputs`. A single one of
    /// `operands` stands for all.
    pub fn new(
        inputs: &'a [V],
        outputs: &'a [V],
        operands: &'a [(Layout, DType)],
        wanted: &'a [bool],
    ) -> Self {
        Context { inputs, outputs, operands, wanted }
    }
    /// Operand `i`. The op must declare that it saves its inputs.
    pub fn x(&self, i: usize) -> &V {
        &self.inputs[i]
    }
    /// Result `i`. The op must declare that it saves its outputs.
    pub fn y(&self, i: usize) -> &V {
        &self.outputs[i]
    }
    /// Number of operands.
    pub fn len(&self) -> usize {
        self.wanted.len()
    }
    /// No operands?
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }
    /// The shape of operand `i`.
    pub fn shape(&self, i: usize) -> &Shape {
        self.operand(i).map_or_else(|| self.inputs[i].shape(), |(layout, _)| layout.shape())
    }
    /// The dtype of operand `i`.
    pub fn dtype(&self, i: usize) -> DType {
        self.operand(i).map_or_else(|| self.inputs[i].dtype(), |(_, dtype)| *dtype)
    }
    fn operand(&self, i: usize) -> Option<&(Layout, DType)> {
        match self.operands {
            [all] => Some(all),
            each => each.get(i),
        }
    }
    /// Is the gradient by operand `i` needed?
    pub fn wants(&self, i: usize) -> bool {
        self.wanted[i]
    }
    /// The gradient by operand `i`, computed only if it is needed.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn want(&self, i: usize, f: impl FnOnce() -> Result<V>) -> Result<Option<V>> {
        if self.wants(i) { f().map(Some) } else { Ok(None) }
    }
}
