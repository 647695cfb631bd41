//! What a captured training step consists of: a batch as tensors, the key of a recording, the
//! recording.

use super::Measured;
use crate::capture::{Cell, SharedGenerator, Slots};
use crate::data::Batch;
use crate::optim::StepTable;
use elinvar_core::{DType, Precision, Shape};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use elinvar_ops::recording::{Place, Watch};
use elinvar_tensor::{Tensor, autocast_dtype};
use std::collections::BTreeSet;

/// A batch of tensors alone: what a captured step can be given. A captured step depends on shapes,
/// dtypes and elements of the tensors, and on nothing else of the batch.
pub trait TensorBatch<B: Backend> {
    /// The tensors, in an order.
    fn tensors(&self) -> Vec<Tensor<B>>;
    /// The same batch of other tensors: as many, in the same order.
    #[must_use]
    fn with_tensors(&self, tensors: Vec<Tensor<B>>) -> Self;
}

impl<B: Backend> TensorBatch<B> for Tensor<B> {
    fn tensors(&self) -> Vec<Tensor<B>> {
        vec![self.clone()]
    }
    fn with_tensors(&self, mut tensors: Vec<Tensor<B>>) -> Self {
        tensors.swap_remove(0)
    }
}

impl<B: Backend> TensorBatch<B> for Vec<Tensor<B>> {
    fn tensors(&self) -> Vec<Tensor<B>> {
        self.clone()
    }
    fn with_tensors(&self, tensors: Vec<Tensor<B>>) -> Self {
        tensors
    }
}

/// The two tensors of a batch.
fn two<B: Backend>(tensors: Vec<Tensor<B>>) -> (Tensor<B>, Tensor<B>) {
    let Ok([x, y]) = <[_; 2]>::try_from(tensors) else { unreachable!("a batch of two tensors") };
    (x, y)
}

impl<B: Backend> TensorBatch<B> for (Tensor<B>, Tensor<B>) {
    fn tensors(&self) -> Vec<Tensor<B>> {
        vec![self.0.clone(), self.1.clone()]
    }
    fn with_tensors(&self, tensors: Vec<Tensor<B>>) -> Self {
        two(tensors)
    }
}

impl<B: Backend> TensorBatch<B> for Batch<B> {
    fn tensors(&self) -> Vec<Tensor<B>> {
        vec![self.x.clone(), self.y.clone()]
    }
    fn with_tensors(&self, tensors: Vec<Tensor<B>>) -> Self {
        let (x, y) = two(tensors);
        Batch { x, y, samples: self.samples.clone() }
    }
}

/// [`TensorBatch`] of a type of batch, as functions.
pub(super) struct Access<B: Backend, D> {
    pub(super) tensors: fn(&D) -> Vec<Tensor<B>>,
    pub(super) with_tensors: fn(&D, Vec<Tensor<B>>) -> D,
}

impl<B: Backend, D> Clone for Access<B, D> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<B: Backend, D> Copy for Access<B, D> {}

impl<B: Backend, D: TensorBatch<B>> Access<B, D> {
    pub(super) fn new() -> Self {
        Access { tensors: D::tensors, with_tensors: D::with_tensors }
    }
}

/// For which batches, and in which scopes, a step was recorded.
#[derive(Debug, PartialEq)]
pub(super) struct Key {
    batches: Vec<Vec<(Shape, DType)>>,
    precision: Option<Precision>,
    half: Option<DType>,
}

impl Key {
    pub(super) fn new<B: Backend>(batches: &[Vec<Tensor<B>>]) -> Key {
        let one = |b: &Vec<Tensor<B>>| b.iter().map(|x| (x.shape().clone(), x.dtype())).collect();
        Key {
            batches: batches.iter().map(one).collect(),
            precision: Precision::of_scope(),
            half: autocast_dtype(),
        }
    }
}

/// A recorded step.
pub(super) struct Recorded<B: Backend> {
    pub key: Key,
    pub work: B::Graph,
    pub device: B::Device,
    pub inputs: Vec<Array<B>>,
    /// The results, which the next replay overwrites.
    pub told: Vec<Measured<B>>,
    pub skip: Option<Tensor<B>>,
    pub watches: Vec<Watch>,
    /// Name, identity, and whether it is trained.
    pub parameters: Vec<(String, usize, bool)>,
    pub updated: BTreeSet<String>,
    pub table: StepTable<B>,
    pub streams: Slots<B>,
    pub draws: Vec<SharedGenerator>,
    pub buffers: Vec<Cell<B>>,
    /// Where the optimiser's states are, and the scaler's.
    pub states: Vec<Place>,
    pub scaler: ScalerState,
    /// Where the counter of steps is, if there is a scaler.
    pub counter: Option<[Place; 2]>,
}

/// Where a scaler's state is, if there is one.
pub(super) type ScalerState = Option<[Place; 2]>;
