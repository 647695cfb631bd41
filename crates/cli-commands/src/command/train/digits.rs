//! `elinvar train digits`
//!
//! What can go wrong before the work starts is tried before it starts: the device, the directory,
//! the data. The files that are written in the end replace older ones as a whole; metrics.jsonl
//! grows line by line.

use super::run::RunDir;
use crate::args::{Model, TrainDigits};
use crate::command::eval::result;
use crate::command::worker::Worker;
use crate::metrics::Metrics;
use crate::network::{Network, TEST_PART, describe};
use crate::plot::digit_sheet;
use crate::progress::{Progress, SAMPLES, Watch};
use elinvar::nn::Module;
use elinvar::nn::data::digits;
use elinvar::nn::layers::convert_sync_batchnorm;
use elinvar::nn::loader::Loader;
use elinvar::nn::models::digit_pairs;
use elinvar::nn::optim::schedule::LinearLr;
use elinvar::nn::train::{Classification, Trainer, evaluate, predict};
use elinvar::{Error, Result, io};
use elinvar_cli_support::Verdict;
use std::io::Write;
use std::sync::Arc;

/// Trains, saves and tells.
pub fn run(args: &TrainDigits, worker: &Worker, out: &mut dyn Write) -> Result<Verdict> {
    let Worker { group, device } = worker;
    let default_dir = format!("out/digits-{}", args.model.unwrap_or_default());
    let mut run_dir = RunDir::open(&args.run, &default_dir, group)?;
    let data = run_dir.setting("data", None, || "digits".to_owned())?;
    if data != "digits" {
        return Err(Error::argument(format!(
            "{}: this is a training on {data}, not on digits",
            run_dir.path().display()
        )));
    }
    let model = run_dir.setting("model", args.model, Model::default)?;
    let recipe = model.recipe();
    let seed = run_dir.setting("seed", args.run.seed, || 0)?;
    let epochs = run_dir.setting("epochs", args.epochs, || recipe.epochs as u32)? as usize;
    let batch = run_dir.setting("batch", args.batch, || recipe.batch_size as u32)? as usize;
    let lr = run_dir.setting("lr", args.run.lr, || recipe.lr)?;
    let amp = run_dir.newer_setting("amp", args.run.amp)?.dtype();
    let shards = run_dir.newer_setting("shards", args.run.shards)?.0;
    let sync = run_dir.newer_setting("sync-batch-norm", args.sync_batch_norm)?;
    run_dir.agree()?;

    let (train, test) = digits()?.split(seed, TEST_PART)?;
    let (train_pairs, test_pairs) = (Arc::new(digit_pairs(&train)?), digit_pairs(&test)?);
    let loader = Loader::new(train_pairs, batch)?.shuffle(seed);
    let net = Network::new(model, seed, device);
    if sync && convert_sync_batchnorm(&net) == 0 {
        return Err(Error::argument(format!("--sync-batch-norm: {model} has no batch norm; cnn has")));
    }
    let mut optimizer = recipe.optimizer(lr);
    let steps = loader.batches() as u64;
    let total = steps * epochs as u64;

    let file = run_dir.file("metrics.jsonl");
    let label = "cross entropy, log scale (train: smoothed)";
    let open = || Metrics::open(&file, run_dir.checkpoint.as_ref(), label);
    let mut metrics = worker.is_first().then(open).transpose()?;
    let quiet = args.run.quiet || !worker.is_first();
    let mut progress = Progress::new(steps, epochs as u64, SAMPLES, quiet);
    let mut trainer = Trainer::new(
        &net,
        &mut optimizer,
        &loader,
        Classification::new().label_smoothing(recipe.label_smoothing),
    )
    .epochs(epochs)
    .schedule(LinearLr::new(1.0, 0.0, total)?)
    .validate(|net: &Network| evaluate(net, &test_pairs, test.len(), device))
    .checkpoints(run_dir.checkpoints())
    .shards(shards)
    .group(group);
    if let Some(metrics) = &mut metrics {
        trainer = trainer.callback(Watch::new(metrics, &mut progress, steps));
    }
    trainer = run_dir.applied(&args.run, amp, trainer);
    let from = run_dir.checkpoint_step;
    trainer.run(device)?;
    progress.finish();
    let Some(metrics) = metrics else { return Ok(Verdict::Good) };
    if group.size() > 1 && !quiet {
        eprintln!("{}", worker.told(total - from, shards));
    }

    let weights = net.state_dict()?;
    let read = predict(&net, test_pairs.x(), test.len(), device)?;
    let read: Vec<i64> = read.iter().map(|p| p.class as i64).collect();
    let right = read.iter().zip(&test.labels).filter(|(a, b)| a == b).count();

    io::save_safetensors(run_dir.file("weights.safetensors"), &weights, &describe(model, seed))?;
    metrics.draw(&run_dir.file("curve.svg"), &format!("digits, {model}, seed {seed}"))?;
    digit_sheet(&run_dir.file("wrong.svg"), &test.pixels, &test.labels, &read)?;
    writeln!(out, "{}: weights.safetensors metrics.jsonl curve.svg wrong.svg", run_dir.path().display())?;
    result(right as f64 / test.len() as f64, &weights, shards, out)?;
    Ok(Verdict::Good)
}
