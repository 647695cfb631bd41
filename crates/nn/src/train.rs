//! A small training loop for classifiers, with evaluation and predictions.
//!
//! The same seed gives the same weights, bit for bit: initial weights, order of the samples and dropout come from
//! seeds, and every op gives the same bits on every device. The sums behind the report are kept on the device, so
//! that a step waits for the device only if the caller asks for its numbers.

use crate::Layer;
use crate::loader::{Loader, Pairs};
use crate::loss::CrossEntropy;
use crate::optim::Optimizer;
use elinvar_core::{Error, HostTensor, Result};
use elinvar_ops::Backend;
use elinvar_tensor::{Tensor, no_grad, try_run};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Settings of a training run.
#[derive(Clone, Debug)]
pub struct FitOptions {
    /// How often every sample is seen.
    pub epochs: usize,
    /// Samples in a batch.
    pub batch_size: usize,
    /// Seed of the order of the samples.
    pub seed: u64,
    /// Leave out a last batch that is not full?
    pub drop_last: bool,
    /// How much of an even distribution is mixed into the targets.
    pub label_smoothing: f64,
    /// How the learning rate goes on from the optimiser's.
    pub decay: Decay,
}

/// How the learning rate goes from the optimiser's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decay {
    /// It stays.
    Constant,
    /// In a straight line to 0 after the last step.
    Linear,
}

impl Decay {
    /// The factor of the learning rate in a step of so many.
    fn factor(self, step: u64, steps: u64) -> f64 {
        match self {
            Decay::Constant => 1.0,
            Decay::Linear => (steps - step) as f64 / steps as f64,
        }
    }
}

impl Default for FitOptions {
    fn default() -> Self {
        FitOptions {
            epochs: 10,
            batch_size: 32,
            seed: 0,
            drop_last: false,
            label_smoothing: 0.0,
            decay: Decay::Constant,
        }
    }
}

/// What a training run tells while it runs.
#[derive(Debug)]
pub enum Progress<'a, B: Backend> {
    /// A step was made.
    Step(Step<'a, B>),
    /// An epoch is over.
    Epoch(&'a EpochReport),
}

/// A step of a training run.
#[derive(Debug)]
pub struct Step<'a, B: Backend> {
    /// The epoch, from 0.
    pub epoch: usize,
    /// Number of the step, from 0.
    pub step: u64,
    /// Number of steps in the whole run.
    pub steps: u64,
    /// Samples in the batch.
    pub samples: usize,
    /// The learning rate of this step.
    pub lr: f64,
    loss: &'a Tensor<B>,
    correct: &'a Tensor<B>,
}

impl<B: Backend> Step<'_, B> {
    /// The batch's mean loss, before the step. Waits for the device.
    ///
    /// # Errors
    /// What the device reports.
    pub fn loss(&self) -> Result<f64> {
        number(self.loss)
    }
    /// The part of the batch that was classified right, before the step. Waits for the device.
    ///
    /// # Errors
    /// What the device reports.
    pub fn accuracy(&self) -> Result<f64> {
        Ok(number(self.correct)? / self.samples as f64)
    }
}

/// An epoch of a training run.
#[derive(Clone, Debug, PartialEq)]
pub struct EpochReport {
    /// The epoch, from 0.
    pub epoch: usize,
    /// Over the samples of the epoch, each as it was before its step.
    pub train: Score,
    /// Over the test samples, after the epoch.
    pub test: Option<Score>,
}

/// How well samples are classified.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Score {
    /// Mean cross entropy.
    pub loss: f64,
    /// Number of samples whose most likely class is the right one.
    pub correct: usize,
    /// Number of samples.
    pub samples: usize,
}

impl Score {
    /// The part that is classified right; NaN of no samples.
    pub fn accuracy(&self) -> f64 {
        self.correct as f64 / self.samples as f64
    }
}

/// A training run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The epochs that came to their end.
    pub epochs: Vec<EpochReport>,
    /// Did the caller stop the run?
    pub stopped: bool,
}

/// Trains a classifier: logits [n, classes] of x: [n, ..], against classes y: \[n\] of i64.
///
/// Sets the mode, and leaves the model in evaluation mode. `progress` is told of every step and every epoch, and may stop
/// the run. The optimiser's learning rate is where the decay starts, and what it is again in the end.
///
/// # Errors
/// Those of the model, the loss and the optimiser; `InvalidArgument` if there is nothing to train on, or the loss is no
/// number any more.
pub fn fit<B: Backend, M: Layer<B>>(
    model: &M,
    optimizer: &mut dyn Optimizer<B>,
    train: &Arc<Pairs>,
    test: Option<&Pairs>,
    options: &FitOptions,
    device: &B::Device,
    progress: &mut dyn FnMut(Progress<'_, B>) -> ControlFlow<()>,
) -> Result<Report> {
    let lr = optimizer.lr();
    let result = run(model, optimizer, train, test, options, device, progress);
    optimizer.set_lr(lr);
    model.eval();
    result
}

fn run<B: Backend, M: Layer<B>>(
    model: &M,
    optimizer: &mut dyn Optimizer<B>,
    train: &Arc<Pairs>,
    test: Option<&Pairs>,
    options: &FitOptions,
    device: &B::Device,
    progress: &mut dyn FnMut(Progress<'_, B>) -> ControlFlow<()>,
) -> Result<Report> {
    let loader =
        Loader::new(train.clone(), options.batch_size)?.shuffle(options.seed).drop_last(options.drop_last);
    if loader.batches() == 0 {
        return Err(Error::argument(format!(
            "fit: {} samples make no batch of {}",
            train.len(),
            options.batch_size
        )));
    }
    let criterion = CrossEntropy::new().label_smoothing(options.label_smoothing);
    let steps = (options.epochs as u64).saturating_mul(loader.batches() as u64);
    let lr = optimizer.lr();
    let (mut report, mut step) = (Report::default(), 0);
    for epoch in 0..options.epochs {
        model.train();
        let mut sums = Sums::default();
        for batch in loader.epoch::<B>(epoch as u64, 0, device) {
            let batch = batch?;
            let samples = batch.samples.len();
            let (loss, correct, gradients) = try_run(|| {
                let logits = model.forward(&batch.x);
                let loss = criterion.of(&logits, &batch.y);
                let gradients = loss.backward();
                (loss.detach(), correct(&logits, &batch.y), gradients)
            })?;
            optimizer.set_lr(lr * options.decay.factor(step, steps));
            optimizer.step(model, &gradients)?;
            try_run(|| sums.add(&loss, &correct, samples))?;
            let lr = optimizer.lr();
            let told = Step { epoch, step, steps, samples, lr, loss: &loss, correct: &correct };
            if progress(Progress::Step(told)).is_break() {
                report.stopped = true;
                return Ok(report);
            }
            step += 1;
        }
        let score = sums.score()?;
        if !score.loss.is_finite() {
            return Err(Error::argument(format!(
                "fit: the loss of epoch {epoch} is {}; a smaller learning rate may help",
                score.loss
            )));
        }
        let test = test.map(|t| evaluate(model, t, options.batch_size, device)).transpose()?;
        report.epochs.push(EpochReport { epoch, train: score, test });
        let last = report.epochs.last().expect("it was pushed a line ago");
        if progress(Progress::Epoch(last)).is_break() {
            report.stopped = true;
            break;
        }
    }
    Ok(report)
}

/// How well a classifier does on samples it should not learn from. Leaves the model in evaluation mode.
///
/// # Errors
/// Those of the model; `InvalidArgument` if the batch size is 0.
pub fn evaluate<B: Backend, M: Layer<B>>(
    model: &M,
    pairs: &Pairs,
    batch_size: usize,
    device: &B::Device,
) -> Result<Score> {
    model.eval();
    let mut sums = Sums::default();
    each_batch(pairs.len(), batch_size, |samples| {
        let batch = pairs.batch::<B>(samples, device)?;
        try_run(|| {
            no_grad(|| {
                let logits = model.forward(&batch.x);
                let loss = CrossEntropy::new().of(&logits, &batch.y);
                sums.add(&loss, &correct(&logits, &batch.y), batch.samples.len());
            });
        })
    })?;
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
/// Those of the model; `InvalidArgument` if the batch size is 0; `ShapeMismatch` if x is a single number.
pub fn predict<B: Backend, M: Layer<B>>(
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

/// How many of the most likely classes are the right ones: i64, shape [].
fn correct<B: Backend>(logits: &Tensor<B>, y: &Tensor<B>) -> Tensor<B> {
    logits.detach().argmax(Some(-1), false).eq(y).sum()
}

/// Sums over batches, on the device.
struct Sums<B: Backend> {
    /// Sum of the losses of the samples, and number of right classes.
    sums: Option<(Tensor<B>, Tensor<B>)>,
    samples: usize,
}

impl<B: Backend> Default for Sums<B> {
    fn default() -> Self {
        Sums { sums: None, samples: 0 }
    }
}

impl<B: Backend> Sums<B> {
    fn add(&mut self, mean_loss: &Tensor<B>, correct: &Tensor<B>, samples: usize) {
        let loss = mean_loss.detach() * samples as f64;
        self.samples += samples;
        self.sums = Some(match self.sums.take() {
            None => (loss, correct.clone()),
            Some((l, c)) => (l + loss, c + correct),
        });
    }
    fn score(&self) -> Result<Score> {
        let Some((loss, correct)) = &self.sums else {
            return Ok(Score { loss: f64::NAN, ..Score::default() });
        };
        let loss = number(loss)? / self.samples as f64;
        Ok(Score { loss, correct: number(correct)? as usize, samples: self.samples })
    }
}

/// The only element.
fn number<B: Backend>(t: &Tensor<B>) -> Result<f64> {
    Ok(t.to_host()?.to_f64_vec()[0])
}
