//! The command line: every command, option and default. What it says here is what `--help` says.

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};
use clap_complete::Shell;
use elinvar_conformance::ulp;
use std::fmt;
use std::path::PathBuf;

/// Tensors, exact gradients and neural networks that give the same bits on every device
#[derive(Debug, Parser)]
#[command(name = "elinvar", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Train(Train),
    Eval(Eval),
    Inspect(Inspect),
    /// List the devices of this machine, and whether each computes exactly
    Devices,
    Ulp(Ulp),
    Conformance(Conformance),
    Completions(Completions),
}

/// Train a network and save its weights, metrics and pictures
///
/// The last two lines of standard output are the accuracy on the test part and the SHA-256 of the weights, which is
/// the same on every device.
#[derive(Args, Debug)]
pub struct Train {
    /// What it learns: the handwritten digits that come with the program
    pub data: Data,
    /// The network
    #[arg(long, value_enum, default_value_t = Model::Mlp)]
    pub model: Model,
    /// Where it runs; see `elinvar devices`
    #[arg(long, default_value = "best")]
    pub device: String,
    /// Decides the split of the data, the first weights and the order of the batches
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// How often every image is seen [default: 30 for mlp, 10 for cnn]
    #[arg(long, value_parser = value_parser!(u32).range(1..))]
    pub epochs: Option<u32>,
    /// Images per step
    #[arg(long, default_value_t = 32, value_parser = value_parser!(u32).range(1..))]
    pub batch: u32,
    /// Learning rate of AdamW at the start; it falls in a straight line to 0
    #[arg(long, default_value_t = 3e-3, value_parser = positive, allow_negative_numbers = true)]
    pub lr: f64,
    /// Directory for weights.safetensors, metrics.jsonl, curve.png and wrong.png [default: out/digits-MODEL]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// No progress on standard error
    #[arg(long)]
    pub quiet: bool,
}

/// Measure the accuracy of saved weights on the test part
#[derive(Args, Debug)]
pub struct Eval {
    /// A file that `elinvar train` wrote
    pub weights: PathBuf,
    /// The network [default: what the file says]
    #[arg(long, value_enum)]
    pub model: Option<Model>,
    /// Where it runs; see `elinvar devices`
    #[arg(long, default_value = "best")]
    pub device: String,
    /// The seed by which the test part was set aside [default: what the file says]
    #[arg(long)]
    pub seed: Option<u64>,
}

/// List the tensors of a file: names, element types, shapes, sizes
///
/// It reads safetensors, models in several safetensors files, .npz and .npy.
#[derive(Args, Debug)]
pub struct Inspect {
    /// A file, an index (.json), or a directory with model.safetensors or its index
    #[arg(value_name = "FILE|DIR")]
    pub path: PathBuf,
    /// Read the elements, too: smallest, largest, mean, and how many are NaN
    #[arg(long)]
    pub stats: bool,
    /// Print a line of JSON for each tensor instead
    #[arg(long)]
    pub json: bool,
}

/// Measure how far the elementary functions are from the truth, on all 2^32 inputs
///
/// Prints a table in Markdown; the exit status is 1 if a function leaves its bound.
#[derive(Args, Debug)]
pub struct Ulp {
    /// One function, or all of them
    #[arg(default_value = ALL, value_parser = functions(), hide_possible_values = true)]
    pub function: String,
    /// Threads that share the inputs [default: one for each processor]
    #[arg(long, value_parser = value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
}

/// Compare what the ops give with what they must give
///
/// The exit status is 1 if a case fails.
#[derive(Args, Debug)]
pub struct Conformance {
    /// Directory with index.json and OP.safetensors; without it, the sample inside the program
    #[arg(long, value_name = "DIR")]
    pub golden: Option<PathBuf>,
    /// Where it runs; see `elinvar devices`
    #[arg(long, default_value = "best")]
    pub device: String,
    /// An op's name, or a part of case names; may be repeated
    #[arg(long = "op", value_name = "NAME")]
    pub ops: Vec<String>,
    /// Print how each backend runs each op, as a table in Markdown, instead
    #[arg(long, conflicts_with_all = ["golden", "ops"])]
    pub table: bool,
}

/// Print a script that completes this program's commands in a shell
#[derive(Args, Debug)]
pub struct Completions {
    pub shell: Shell,
}

/// What can be learnt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Data {
    Digits,
}

/// The networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Model {
    /// Three linear layers
    Mlp,
    /// Two convolutions and two linear layers
    Cnn,
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Model::Mlp => "mlp",
            Model::Cnn => "cnn",
        })
    }
}

/// The word for every elementary function.
pub const ALL: &str = "all";

fn functions() -> PossibleValuesParser {
    PossibleValuesParser::new(std::iter::once(ALL).chain(ulp::functions().iter().map(|f| f.name)))
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(v) if v > 0.0 && v.is_finite() => Ok(v),
        _ => Err("it must be a positive number, such as 0.001".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_in_order() {
        Cli::command().debug_assert();
    }
}
