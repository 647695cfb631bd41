//! The numbers of a training run: into metrics.jsonl while it runs, and into the learning curve at its end.

use crate::plot::{Ink, Panel, Series, learning_curve};
use elinvar::nn::train::{EpochReport, Step};
use elinvar::{Any, Result, io::JsonLines};
use serde::Serialize;
use std::path::Path;

/// After each step.
#[derive(Serialize)]
struct StepRecord {
    /// From 1.
    step: u64,
    /// How many epochs are done, with a fraction.
    epoch: f64,
    loss: f64,
    accuracy: f64,
    lr: f64,
}

/// After each epoch.
#[derive(Serialize)]
struct EpochRecord {
    /// From 1.
    epoch: usize,
    train_loss: f64,
    train_accuracy: f64,
    test_loss: Option<f64>,
    test_accuracy: Option<f64>,
}

/// The numbers so far.
pub struct Metrics {
    file: JsonLines,
    batches: Vec<(f64, f64)>,
    epochs: Vec<EpochReport>,
}

impl Metrics {
    /// No numbers yet, and an empty file.
    pub fn create(path: &Path) -> Result<Metrics> {
        Ok(Metrics { file: JsonLines::create(path)?, batches: Vec::new(), epochs: Vec::new() })
    }

    /// Notes a step and returns its loss.
    pub fn step(&mut self, step: &Step<'_, Any>, steps_per_epoch: u64) -> Result<f64> {
        let (loss, done) = (step.loss()?, step.step + 1);
        let epoch = done as f64 / steps_per_epoch as f64;
        self.file.write(&StepRecord { step: done, epoch, loss, accuracy: step.accuracy()?, lr: step.lr })?;
        self.batches.push((epoch, loss));
        Ok(loss)
    }

    /// Notes an epoch.
    pub fn epoch(&mut self, report: &EpochReport) -> Result<()> {
        self.epochs.push(report.clone());
        self.file.write(&EpochRecord {
            epoch: report.epoch + 1,
            train_loss: report.train.loss,
            train_accuracy: report.train.accuracy(),
            test_loss: report.test.map(|s| s.loss),
            test_accuracy: report.test.map(|s| s.accuracy()),
        })
    }

    /// Draws the learning curve.
    pub fn draw(&self, path: &Path, title: &str) -> Result<()> {
        let loss = Panel {
            label: "cross entropy, log scale",
            log: true,
            series: vec![
                Series { name: "train, each batch", ink: LIGHT, width: 1.0, points: self.batches.clone() },
                Series {
                    name: "train, mean of epoch",
                    ink: TRAIN,
                    width: 2.0,
                    points: self.points(|e| Some(e.train.loss)),
                },
                Series {
                    name: "test",
                    ink: TEST,
                    width: 2.0,
                    points: self.points(|e| e.test.map(|s| s.loss)),
                },
            ],
        };
        let percent = |of: fn(&EpochReport) -> Option<f64>| self.points(|e| of(e).map(|a| 100.0 * a));
        let accuracy = Panel {
            label: "accuracy, %",
            log: false,
            series: vec![
                Series {
                    name: "train",
                    ink: TRAIN,
                    width: 2.0,
                    points: percent(|e| Some(e.train.accuracy())),
                },
                Series {
                    name: "test",
                    ink: TEST,
                    width: 2.0,
                    points: percent(|e| e.test.map(|s| s.accuracy())),
                },
            ],
        };
        learning_curve(path, title, "epoch", &[loss, accuracy])
    }

    /// A number of each epoch, at the epoch's end.
    fn points(&self, of: impl Fn(&EpochReport) -> Option<f64>) -> Vec<(f64, f64)> {
        self.epochs.iter().filter_map(|e| Some((e.epoch as f64 + 1.0, of(e)?))).collect()
    }
}

const LIGHT: Ink = Ink(0xbf_db_fe);
const TRAIN: Ink = Ink(0x25_63_eb);
const TEST: Ink = Ink(0xea_58_0c);
