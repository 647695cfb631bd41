//! Evaluation of a model: scores and predictions, without gradients, in evaluation mode.

use super::score::Sums;
use super::{Classification, Objective, Score, Source};
use crate::loader::Pairs;
use crate::{Layer, Module};
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
    model.eval();
    let (objective, mut sums) = (Classification::<B>::new(), Sums::default());
    each_batch(pairs.len(), batch_size, |samples| {
        let batch = pairs.batch::<B>(samples, device)?;
        try_run(|| no_grad(|| objective.measure(model, &batch).map(|m| sums.add(&m))))?
    })?;
    sums.score()
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
    sums.score()
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
    model.eval();
    let x = Pairs::new(x.clone(), x.clone())?;
    let mut all = vec![];
    each_batch(x.len(), batch_size, |samples| {
        let batch = x.batch::<B>(samples, device)?;
        let (probability, class) =
            try_run(|| no_grad(|| model.forward(&batch.x).softmax(-1).max_dim(-1, false)))?;
        let (probability, class) = (probability.to_host()?.to_f64_vec(), class.to_vec::<i64>()?);
        all.extend(
            probability
                .into_iter()
                .zip(class)
                .map(|(probability, class)| Prediction { class: class as usize, probability }),
        );
        Ok(())
    })?;
    Ok(all)
}

fn each_batch(n: usize, batch_size: usize, mut f: impl FnMut(Vec<usize>) -> Result<()>) -> Result<()> {
    if batch_size == 0 {
        return Err(Error::argument("batches of 0 samples never end; ask for 1 at least"));
    }
    (0..n).step_by(batch_size).try_for_each(|from| f((from..n.min(from + batch_size)).collect()))
}
