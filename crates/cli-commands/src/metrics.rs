//! The numbers of a training run: into metrics.jsonl while it runs, and into the learning curve at
//! its end.
//!
//! A run that is resumed keeps the lines up to its checkpoint and drops those after it, so that its
//! file is in the end that of a run that was never stopped.

use crate::plot::{Ink, Panel, Series, learning_curve};
use elinvar::nn::train::{Checkpoint, EpochReport, Step};
use elinvar::{Any, Result, io, io::JsonLines};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader};
use std::path::Path;

/// After each step.
#[derive(Serialize, Deserialize)]
struct StepRecord {
    /// From 1.
    step: u64,
    /// How many epochs are done, with a fraction.
    epoch: f64,
    loss: f64,
    accuracy: Option<f64>,
    lr: f64,
}

/// After each epoch.
#[derive(Serialize)]
struct EpochRecord {
    /// From 1.
    epoch: usize,
    train_loss: f64,
    train_accuracy: Option<f64>,
    test_loss: Option<f64>,
    test_accuracy: Option<f64>,
}

/// The numbers so far.
pub struct Metrics {
    file: JsonLines,
    batches: Vec<(f64, f64)>,
    epochs: Vec<EpochReport>,
    /// What the loss is, for its axis.
    loss: &'static str,
}

impl Metrics {
    /// A new file; or, on from a checkpoint, the lines of the file up to it.
    pub fn open(path: &Path, from: Option<&Checkpoint>, loss: &'static str) -> Result<Metrics> {
        let Some(from) = from else {
            return Ok(Metrics { file: JsonLines::create(path)?, batches: vec![], epochs: vec![], loss });
        };
        let (step, epochs) = (from.position().step, from.history().to_vec());
        let (mut kept, mut batches) = (Vec::new(), vec![]);
        let (mut steps_left, mut epochs_left) = (step, epochs.len());
        if let Ok(file) = std::fs::File::open(path) {
            // A line that cannot be read is the last one of a run that was killed.
            for line in BufReader::new(file).lines().map_while(std::result::Result::ok) {
                match serde_json::from_str::<StepRecord>(&line) {
                    Ok(record) if steps_left > 0 => {
                        batches.push((record.epoch, record.loss));
                        steps_left -= 1;
                    }
                    // No step: an epoch.
                    Err(_) if epochs_left > 0 => epochs_left -= 1,
                    _ => break,
                }
                kept.push(line);
            }
        }
        io::atomic_write(path, |w| kept.iter().try_for_each(|line| Ok(writeln!(w, "{line}")?)))?;
        Ok(Metrics { file: JsonLines::append(path)?, batches, epochs, loss })
    }

    /// Notes a step and returns its loss.
    pub fn step(&mut self, step: &Step<'_, Any>, steps_per_epoch: u64) -> Result<f64> {
        let (loss, done) = (step.loss()?, step.step + 1);
        let epoch = done as f64 / steps_per_epoch as f64;
        let accuracy = step.metric("accuracy")?;
        self.file.write(&StepRecord { step: done, epoch, loss, accuracy, lr: step.lr })?;
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
            test_loss: report.validation.as_ref().map(|s| s.loss),
            test_accuracy: report.validation.as_ref().and_then(|s| s.accuracy()),
        })
    }

    /// Draws the learning curve.
    pub fn draw(&self, path: &Path, title: &str) -> Result<()> {
        let loss = Panel {
            label: self.loss,
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
                    points: self.points(|e| e.validation.as_ref().map(|s| s.loss)),
                },
            ],
        };
        let percent = |of: fn(&EpochReport) -> Option<f64>| self.points(|e| of(e).map(|a| 100.0 * a));
        let accuracy = Panel {
            label: "accuracy, %",
            log: false,
            series: vec![
                Series { name: "train", ink: TRAIN, width: 2.0, points: percent(|e| e.train.accuracy()) },
                Series {
                    name: "test",
                    ink: TEST,
                    width: 2.0,
                    points: percent(|e| e.validation.as_ref().and_then(|s| s.accuracy())),
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
