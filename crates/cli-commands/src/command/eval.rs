//! `elinvar eval`

use crate::args::Eval;
use crate::network::{Network, TEST_PART, described};
use elinvar::nn::data::digits;
use elinvar::nn::models::digit_pairs;
use elinvar::nn::train::evaluate;
use elinvar::nn::{Module, StateDict, Strict};
use elinvar::{Device, Result, io};
use elinvar_cli_support::Verdict;
use std::io::Write;

/// Loads the weights and prints what `train` printed in the end.
pub fn run(args: &Eval, out: &mut dyn Write) -> Result<Verdict> {
    let device = Device::parse(&args.device)?;
    let file = io::load_safetensors(&args.weights)?;
    let at = |e: elinvar::Error| e.at(args.weights.display());
    let (model, seed) = described(&file.metadata, args.model, args.seed).map_err(at)?;
    let net = Network::new(model, seed, &device);
    net.load_state_dict(&file.tensors, Strict::Yes).map_err(at)?;
    let (_, test) = digits()?.split(seed, TEST_PART)?;
    let score = evaluate(&net, &digit_pairs(&test)?, test.len(), &device)?;
    let accuracy = score.accuracy().expect("a classification measures it");
    result(accuracy, &file.tensors, 1, out)?;
    Ok(Verdict::Good)
}

/// The two lines with which a training ends.
pub fn result(accuracy: f64, weights: &StateDict, shards: usize, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "test accuracy {:.2} %", 100.0 * accuracy)?;
    hash(weights, shards, out)
}

/// The hash of weights; with the number of gradient shards, on which they depend, if there are
/// several.
pub fn hash(weights: &StateDict, shards: usize, out: &mut dyn Write) -> Result<()> {
    let of = if shards == 1 { String::new() } else { format!(" ({shards} gradient shards)") };
    Ok(writeln!(out, "weights sha256 {}{of}", io::weights_hash(weights))?)
}
