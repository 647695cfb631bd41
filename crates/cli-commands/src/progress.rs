//! How far a training run is, on standard error: a bar on a terminal, a line per epoch elsewhere,
//! nothing if quiet.

use crate::metrics::Metrics;
use elinvar::nn::train::{Callback, Checkpoint, EpochReport, Step};
use elinvar::{Any, Result};
use elinvar_cli_support::Bar;
use std::io::Write;
use std::ops::ControlFlow;
use std::time::Instant;

/// What a classifier counts.
pub const SAMPLES: &str = "samples";
/// What a language model counts.
#[cfg(feature = "tokenizers")]
pub const TOKENS: &str = "tokens";

/// The report of a running training.
pub struct Progress {
    bar: Bar,
    /// Lines instead of the bar?
    lines: bool,
    start: Instant,
    samples: usize,
    /// [`SAMPLES`] or [`TOKENS`].
    unit: &'static str,
    epochs: u64,
    epoch: u64,
    done: u64,
    test: String,
}

impl Progress {
    /// At the start of so many steps in each of so many epochs.
    pub fn new(steps: u64, epochs: u64, unit: &'static str, quiet: bool) -> Progress {
        let bar = Bar::new(steps * epochs, !quiet);
        let lines = !quiet && bar.is_hidden();
        let start = Instant::now();
        Progress { bar, lines, start, samples: 0, unit, epochs, epoch: 1, done: 0, test: String::new() }
    }

    fn resumed(&mut self, from: &Checkpoint) {
        self.done = from.position().step;
        self.epoch = from.position().epoch as u64 + 1;
        self.bar.resume(self.done);
    }

    fn step(&mut self, loss: f64, samples: usize) {
        self.samples += samples;
        self.done += 1;
        let (speed, Progress { epoch, epochs, test, unit, .. }) = (self.speed(), &*self);
        self.bar.label(format!("epoch {epoch}/{epochs}  loss {loss:.4}{test}  {speed:.0} {unit}/s"));
        self.bar.at(self.done);
    }

    fn epoch(&mut self, report: &EpochReport) {
        let done = report.epoch as u64 + 1;
        self.test = match &report.validation {
            None => String::new(),
            Some(score) => {
                match score.accuracy().filter(|_| self.unit == SAMPLES) {
                    Some(a) => format!("  test accuracy {:.2} %", 100.0 * a),
                    // The next token of a text is often anybody's guess: how good the guesses are
                    // tells more.
                    None => format!("  test loss {:.4}", score.loss),
                }
            }
        };
        self.epoch = (done + 1).min(self.epochs);
        if self.lines {
            let (loss, speed) = (report.train.loss, self.speed());
            // A closed standard error is no fault.
            let _ = writeln!(
                std::io::stderr(),
                "epoch {done}/{}  loss {loss:.4}{}  {speed:.0} {}/s",
                self.epochs,
                self.test,
                self.unit
            );
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.clear();
    }

    fn speed(&self) -> f64 {
        self.samples as f64 / self.start.elapsed().as_secs_f64().max(1e-9)
    }
}

/// Tells both the metrics and the progress of a run.
pub struct Watch<'a> {
    metrics: &'a mut Metrics,
    progress: &'a mut Progress,
    steps_per_epoch: u64,
}

impl<'a> Watch<'a> {
    /// Of a run with so many steps in each epoch.
    pub fn new(metrics: &'a mut Metrics, progress: &'a mut Progress, steps_per_epoch: u64) -> Self {
        Watch { metrics, progress, steps_per_epoch }
    }
}

impl Callback<Any> for Watch<'_> {
    fn step(&mut self, step: &Step<'_, Any>) -> Result<ControlFlow<()>> {
        let loss = self.metrics.step(step, self.steps_per_epoch)?;
        self.progress.step(loss, step.samples);
        Ok(ControlFlow::Continue(()))
    }
    fn epoch(&mut self, report: &EpochReport) -> Result<ControlFlow<()>> {
        self.metrics.epoch(report)?;
        self.progress.epoch(report);
        Ok(ControlFlow::Continue(()))
    }
    fn resumed(&mut self, from: &Checkpoint) -> Result<()> {
        self.progress.resumed(from);
        Ok(())
    }
}
