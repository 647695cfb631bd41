//! Evaluation of a model: scores and predictions, without gradients, in evaluation mode.

use super::score::Sums;
use super::{Classification, Objective, Score, Source};
use crate::loader::Pairs;
use crate::reads::Reads;
use crate::{Layer, Module};
use elinvar_core::ready::ready;
use elinvar_core::{Error, HostTensor, Result};
use elinvar_ops::Backend;
use elinvar_tensor::{no_grad, try_run};

/// Loss and accuracy of a classifier on a data set. Leaves the model in evaluation mode.
///
/// # Errors
/// Those of the model; `InvalidArgument` if the batch size is 0.
pub fn evaluate<B: Backend, M: Layer<B> + ?Sized>(
    model: &M,
    pairs: &Pairs,
    batch_size: usize,
    device: &B::Device,
) -> Result<Score> {
    ready(sums_of(model, pairs, batch_size, device)?.score(Reads::Waited))
}

/// [`evaluate`] that does not block.
///
/// # Errors
/// As [`evaluate`].
pub async fn evaluate_async<B: Backend, M: Layer<B> + ?Sized>(
    model: &M,
    pairs: &Pairs,
    batch_size: usize,
    device: &B::Device,
) -> Result<Score> {
    sums_of(model, pairs, batch_size, device)?.score(Reads::Awaited).await
}

fn sums_of<B: Backend, M: Layer<B> + ?Sized>(
    model: &M,
    pairs: &Pairs,
    batch_size: usize,
    device: &B::Device,
) -> Result<Sums<B>> {
    model.eval();
    let (objective, mut sums) = (Classification::<B>::new(), Sums::default());
    for samples in batches(pairs.len(), batch_size)? {
        let batch = pairs.batch::<B>(samples, device)?;
        try_run(|| no_grad(|| objective.measure(model, &batch).map(|m| sums.add(&m))))??;
    }
    Ok(sums)
}

/// The score of an objective on an epoch of a source: on the first `batches` of it, or all. Leaves
/// the model in evaluation mode.
///
/// # Errors
/// Those of the source and the model.
pub fn evaluate_on<B: Backend, M: Module<B> + ?Sized, S: Source<B>>(
    model: &M,
    source: &S,
    objective: &impl Objective<B, M, S::Batch>,
    batches: Option<usize>,
    device: &B::Device,
) -> Result<Score> {
    model.eval();
    let mut sums = Sums::default();
    let (mut epoch, wanted) = (source.epoch(0, 0, device), batches.unwrap_or(usize::MAX));
    for i in 0..wanted {
        let Some(batch) = epoch.next().transpose()? else { break };
        try_run(|| no_grad(|| objective.measure(model, &batch).map(|m| sums.add(&m))))??;
        if i + 1 < wanted {
            epoch.gather();
            epoch.send();
        }
    }
    ready(sums.score(Reads::Waited))
}

/// A class with its probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The most likely class.
    pub class: usize,
    /// Its probability, according to the model.
    pub probability: f64,
}

/// The most likely classes of x: [n, ..]. Leaves the model in evaluation mode.
///
/// # Errors
/// Those of the model; `InvalidArgument` if the batch size is 0; `ShapeMismatch` if x has rank 0.
pub fn predict<B: Backend, M: Layer<B> + ?Sized>(
    model: &M,
    x: &HostTensor,
    batch_size: usize,
    device: &B::Device,
) -> Result<Vec<Prediction>> {
    ready(predict_in(Reads::Waited, model, x, batch_size, device))
}

/// [`predict`] that does not block.
///
/// # Errors
/// As [`predict`].
pub async fn predict_async<B: Backend, M: Layer<B> + ?Sized>(
    model: &M,
    x: &HostTensor,
    batch_size: usize,
    device: &B::Device,
) -> Result<Vec<Prediction>> {
    predict_in(Reads::Awaited, model, x, batch_size, device).await
}

async fn predict_in<B: Backend, M: Layer<B> + ?Sized>(
    reads: Reads,
    model: &M,
    x: &HostTensor,
    batch_size: usize,
    device: &B::Device,
) -> Result<Vec<Prediction>> {
    model.eval();
    let x = Pairs::new(x.clone(), x.clone())?;
    let mut all = vec![];
    for samples in batches(x.len(), batch_size)? {
        let batch = x.batch::<B>(samples, device)?;
        let both = try_run(|| no_grad(|| model.forward(&batch.x).softmax(-1).max_dim(-1, false)))?;
        let both = reads.all(|read| Ok([read(both.0.array())?, read(both.1.array())?])).await?;
        let [probabilities, classes] = both.map(|t| t.to_f64_vec());
        let each = probabilities.into_iter().zip(classes);
        all.extend(each.map(|(probability, class)| Prediction { class: class as usize, probability }));
    }
    Ok(all)
}

/// The samples of each batch.
fn batches(n: usize, batch_size: usize) -> Result<impl Iterator<Item = Vec<usize>>> {
    if batch_size == 0 {
        return Err(Error::argument("batches of 0 samples never end; ask for 1 at least"));
    }
    Ok((0..n).step_by(batch_size).map(move |from| (from..n.min(from + batch_size)).collect()))
}
