//! `elinvar train`
//!
//! What can go wrong before the work starts is tried before it starts: the device, the directory, the data. The files
//! that are written in the end replace older ones as a whole; metrics.jsonl grows line by line.

use super::eval::result;
use crate::Verdict;
use crate::args::{Data, Model, Train};
use crate::metrics::Metrics;
use crate::network::{Network, TEST_PART, describe};
use crate::plot::digit_sheet;
use crate::progress::Progress;
use elinvar::nn::Module;
use elinvar::nn::data::digits;
use elinvar::nn::models::digit_pairs;
use elinvar::nn::optim::AdamW;
use elinvar::nn::train::{self, Decay, FitOptions, fit, predict};
use elinvar::{Device, Error, Result, io};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

/// After so many epochs the test accuracy does not rise any more.
fn usual_epochs(model: Model) -> u32 {
    match model {
        Model::Mlp => 30,
        Model::Cnn => 10,
    }
}

/// Trains, saves and tells.
pub fn run(args: &Train, out: &mut dyn Write) -> Result<Verdict> {
    let Data::Digits = args.data;
    let device = Device::parse(&args.device)?;
    let dir = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("out/digits-{}", args.model)));
    io::writable_dir(&dir)?;
    let mut metrics = Metrics::create(&dir.join("metrics.jsonl"))?;
    let (train, test) = digits()?.split(args.seed, TEST_PART)?;
    let (train_pairs, test_pairs) = (Arc::new(digit_pairs(&train)?), digit_pairs(&test)?);

    let net = Network::new(args.model, args.seed, &device);
    let mut optimizer = AdamW::new(args.lr);
    let options = FitOptions {
        epochs: args.epochs.unwrap_or(usual_epochs(args.model)) as usize,
        batch_size: args.batch as usize,
        seed: args.seed,
        decay: Decay::Linear,
        ..FitOptions::default()
    };
    let steps = train.len().div_ceil(options.batch_size) as u64;
    let mut progress = Progress::new(steps, options.epochs as u64, args.quiet);
    let mut failed: Option<Error> = None;
    let mut see = |told: train::Progress<'_, _>| {
        let noted = match told {
            train::Progress::Step(step) => {
                metrics.step(&step, steps).map(|loss| progress.step(loss, step.samples))
            }
            train::Progress::Epoch(epoch) => metrics.epoch(epoch).map(|()| progress.epoch(epoch)),
        };
        match noted {
            Ok(()) => ControlFlow::Continue(()),
            Err(e) => {
                failed = Some(e);
                ControlFlow::Break(())
            }
        }
    };
    fit(&net, &mut optimizer, &train_pairs, Some(&test_pairs), &options, &device, &mut see)?;
    if let Some(e) = failed {
        return Err(e);
    }
    progress.finish();

    let weights = net.state_dict()?;
    let read = predict(&net, test_pairs.x(), test.len(), &device)?;
    let read: Vec<i64> = read.iter().map(|p| p.class as i64).collect();
    let right = read.iter().zip(&test.labels).filter(|(a, b)| a == b).count();

    io::save_safetensors(dir.join("weights.safetensors"), &weights, &describe(args.model, args.seed))?;
    metrics.draw(&dir.join("curve.png"), &format!("digits, {}, seed {}", args.model, args.seed))?;
    digit_sheet(&dir.join("wrong.png"), &test.pixels, &test.labels, &read)?;
    writeln!(out, "{}: weights.safetensors metrics.jsonl curve.png wrong.png", dir.display())?;
    result(right as f64 / test.len() as f64, &weights, out)?;
    Ok(Verdict::Good)
}
