//! `elinvar train text FILE`
//!
//! The last tenth of the text is set aside; what is learnt are stretches of the rest that begin
//! anywhere, drawn by the seed. An epoch is a tenth of the steps.

use super::run::RunDir;
use crate::args::TrainText;
use crate::command::eval::hash as print_hash;
use crate::command::generate::{sampler, write_on};
use crate::command::worker::Worker;
use crate::metrics::Metrics;
use crate::progress::{Progress, TOKENS, Watch};
use elinvar::nn::data::{BpeOptions, Text, Tokenize, Tokenizer};
use elinvar::nn::loader::Loader;
use elinvar::nn::models::{Gpt2, Gpt2Config};
use elinvar::nn::optim::schedule::{CosineAnnealingLr, Warmup};
use elinvar::nn::optim::{AdamW, Group};
use elinvar::nn::train::{NextToken, Trainer, evaluate_on};
use elinvar::nn::{Module, StateDict};
use elinvar::{Any, Error, Generator, HostTensor, Result, Shape, io};
use elinvar_cli_support::Verdict;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

/// The part of the text that is learnt.
const LEARN: f64 = 0.9;
/// How often the held-out part is looked at.
const EPOCHS: u32 = 10;
/// Blocks of the held-out part that are looked at each time, at most: what a small text has.
const TEST_BLOCKS: usize = 64;

/// Trains, saves, tells and writes a sample.
pub fn run(args: &TrainText, worker: &Worker, out: &mut dyn Write) -> Result<Verdict> {
    let Worker { group, device } = worker;
    let sampler = sampler(&args.sampling);
    let text = Text::open(&args.file)?;
    let stem = args.file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut run_dir = RunDir::open(&args.run, &format!("out/text-{stem}"), group)?;
    let hash = text_hash(&text)?;
    let stored = run_dir.checkpoint.as_ref().map(|c| c.settings().get("data").cloned().unwrap_or_default());
    if stored.is_some_and(|stored| stored != hash) {
        return Err(Error::argument(format!(
            "{}: the training there is not one on the text of {}",
            run_dir.path().display(),
            args.file.display()
        )));
    }
    run_dir.setting("data", Some(hash), String::new)?;
    let vocab = run_dir.setting("vocab", args.vocab, || 512)?;
    let layers = run_dir.setting("layers", args.layers, || 2)? as usize;
    let heads = run_dir.setting("heads", args.heads, || 4)? as usize;
    let width = run_dir.setting("width", args.width, || 64)? as usize;
    let context = run_dir.setting("context", args.context, || 64)? as usize;
    let dropout = run_dir.setting("dropout", args.dropout, || 0.0)?;
    let steps = run_dir.setting("steps", args.steps, || 500)?;
    let batch = run_dir.setting("batch", args.batch, || 8)? as usize;
    let lr = run_dir.setting("lr", args.run.lr, || 3e-3)?;
    let amp = run_dir.newer_setting("amp", args.run.amp)?.dtype();
    let seed = run_dir.setting("seed", args.run.seed, || 0)?;
    let shards = run_dir.newer_setting("shards", args.run.shards)?.0;
    run_dir.agree()?;

    let tokenizer = Tokenizer::train_bpe(&[text.as_str()], &BpeOptions::new(vocab as usize))?;
    let (learn, test) = text.tokens(&tokenizer)?.split(LEARN)?;
    let blocks = learn.blocks_by(context, 1).map_err(|e| e.at(args.file.display()))?;
    // A text of a few lines has nothing to set aside; then there is no test.
    let test = test.blocks(context).ok().map(|t| Loader::new(Arc::new(t), 16)).transpose()?;

    let epochs = EPOCHS.min(steps);
    let per_epoch = steps.div_ceil(epochs) as usize;
    let total = per_epoch as u64 * u64::from(epochs);
    let loader = Loader::new(Arc::new(blocks), batch)?.draw(per_epoch * batch, seed)?;
    let config = Gpt2Config::new(layers, heads, width, context, tokenizer.vocab_size()).dropout(dropout);
    let net: Gpt2<Any> = Gpt2::new(config, &mut Generator::new(seed), device)?;
    // Norms, biases and positions are no directions that should shrink.
    let plain =
        Group::matching(|name| name.ends_with("bias") || name.contains("ln_") || name.starts_with("wpe"));
    let mut optimizer = AdamW::new(lr).betas(0.9, 0.99).weight_decay(0.1).group(plain.weight_decay(0.0));
    let warmup = total / 20;

    let file = run_dir.file("metrics.jsonl");
    let mut metrics = match worker.is_first() {
        true => Some(Metrics::open(&file, run_dir.checkpoint.as_ref(), "nats per token, log scale")?),
        false => None,
    };
    let quiet = args.run.quiet || !worker.is_first();
    let mut progress = Progress::new(per_epoch as u64, u64::from(epochs), TOKENS, quiet);
    let test_batches = Some(TEST_BLOCKS.div_ceil(16));
    let mut trainer = Trainer::new(&net, &mut optimizer, &loader, NextToken)
        .epochs(epochs as usize)
        .schedule(Warmup::new(warmup, CosineAnnealingLr::with_min(total - warmup, lr / 10.0)?))
        .clip_grad_norm(1.0)
        .checkpoints(run_dir.checkpoints())
        .shards(shards)
        .group(group);
    if let Some(metrics) = &mut metrics {
        trainer = trainer.callback(Watch::new(metrics, &mut progress, per_epoch as u64));
    }
    if let Some(test) = &test {
        trainer =
            trainer.validate(|net: &Gpt2<Any>| evaluate_on(net, test, &NextToken, test_batches, device));
    }
    trainer = run_dir.applied(&args.run, amp, trainer);
    let from = run_dir.checkpoint_step;
    let report = trainer.run(device)?;
    progress.finish();
    let Some(metrics) = metrics else { return Ok(Verdict::Good) };
    if group.size() > 1 && !quiet {
        eprintln!("{}", worker.told(total - from, shards));
    }

    net.save_pretrained(run_dir.path())?;
    tokenizer.save(run_dir.file("tokenizer.json"))?;
    metrics.draw(
        &run_dir.file("curve.svg"),
        &format!("{stem}, {} weights, seed {seed}", net.num_parameters()),
    )?;
    writeln!(
        out,
        "{}: config.json model.safetensors tokenizer.json metrics.jsonl curve.svg",
        run_dir.path().display()
    )?;
    if args.sample > 0 {
        // From the text's own beginning, as a reader would.
        let prompt: String = text.as_str().chars().take(20).collect();
        writeln!(out)?;
        write_on(&net, &tokenizer, &prompt, args.sample as usize, sampler, out)?;
        writeln!(out)?;
    }
    if let Some(score) = report.epochs.last().and_then(|e| e.validation.as_ref()) {
        writeln!(out, "test loss {:.4} nats per token", score.loss)?;
    }
    let weights: StateDict = net.state_dict()?;
    print_hash(&weights, shards, out)?;
    Ok(Verdict::Good)
}

/// What tells one text from another.
fn text_hash(text: &Text) -> Result<String> {
    let bytes = text.as_str().as_bytes().to_vec();
    let shape = Shape::new(&[bytes.len()])?;
    let one = BTreeMap::from([("text".to_owned(), HostTensor::from_vec(bytes, shape)?)]);
    Ok(format!("text {}", io::weights_hash(&one)))
}
