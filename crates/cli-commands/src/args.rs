//! The command line: every command, option and default. What it says here is what `--help` says.

use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};
use elinvar::DType;
use elinvar_cli_support::completions::Completions;
use elinvar_cli_support::positive;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Tensors, exact gradients and neural networks that give the same bits on every device
#[derive(Debug, Parser)]
#[command(name = "elinvar", version)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Train(Train),
    Launch(Launch),
    Eval(Eval),
    Generate(Generate),
    Embed(Embed),
    Inspect(Inspect),
    /// List the devices of this machine, and whether each computes exactly
    Devices,
    Completions(Completions),
}

/// Train a network and save its weights, metrics and pictures
#[derive(Args, Debug)]
pub struct Train {
    #[command(subcommand)]
    pub what: What,
}

/// Start workers on this machine, which share a training
///
/// `elinvar launch -n 4 -- train digits --shards 8` starts `elinvar train digits --shards 8` four
/// times. If one of them dies, the others end, and the exit status is 1. On clusters, mpirun, srun
/// and torchrun start the same workers.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct Launch {
    /// How many
    #[arg(short = 'n', long, value_name = "N", value_parser = value_parser!(u32).range(1..=1024))]
    pub workers: u32,
    /// What each of them does
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// What can be learnt.
#[derive(Debug, Subcommand)]
pub enum What {
    Digits(TrainDigits),
    Text(TrainText),
}

/// Learn to read the handwritten digits that come with the program
///
/// The last two lines of standard output are the accuracy on the test part and the SHA-256 of the
/// weights, which is the same on every device.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct TrainDigits {
    /// The network [default: mlp]
    #[arg(long, value_enum)]
    pub model: Option<Model>,
    /// How often every image is seen [default: 30 for mlp, 12 for cnn, 20 for transformer]
    #[arg(long, value_parser = value_parser!(u32).range(1..))]
    pub epochs: Option<u32>,
    /// Images per step [default: 16 for mlp and transformer, 32 for cnn]
    #[arg(long, value_parser = value_parser!(u32).range(1..))]
    pub batch: Option<u32>,
    /// Batch norm over all gradient shards of a step, instead of each [default: false]
    ///
    /// PyTorch's SyncBatchNorm. It changes the weights; how many workers there are does not.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub sync_batch_norm: Option<bool>,
    #[command(flatten)]
    pub run: Run,
}

/// Learn to write like a text: a GPT-2 style model of its bytes or byte pairs
///
/// Writes a directory in the layout of Hugging Face (config.json, model.safetensors,
/// tokenizer.json) that `elinvar generate` reads, and ends with a sample.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct TrainText {
    /// A UTF-8 file
    pub file: PathBuf,
    /// Tokens of the vocabulary: 256 bytes, more by byte-pair encoding [default: 512]
    #[arg(long, value_parser = value_parser!(u32).range(256..=65536))]
    pub vocab: Option<u32>,
    /// Blocks of the model [default: 2]
    #[arg(long, value_parser = value_parser!(u32).range(1..=96))]
    pub layers: Option<u32>,
    /// Attention heads of a block; they divide the width [default: 4]
    #[arg(long, value_parser = value_parser!(u32).range(1..=128))]
    pub heads: Option<u32>,
    /// Features of a token [default: 64]
    #[arg(long, value_parser = value_parser!(u32).range(1..=16384))]
    pub width: Option<u32>,
    /// Tokens that the model sees at once [default: 64]
    #[arg(long, value_parser = value_parser!(u32).range(2..=32768))]
    pub context: Option<u32>,
    /// Part of the features that are dropped while training [default: 0]
    #[arg(long, value_parser = below_one, allow_negative_numbers = true)]
    pub dropout: Option<f64>,
    /// Steps of training [default: 500]
    #[arg(long, value_parser = value_parser!(u32).range(1..))]
    pub steps: Option<u32>,
    /// Stretches of text per step [default: 8]
    #[arg(long, value_parser = value_parser!(u32).range(1..))]
    pub batch: Option<u32>,
    /// Tokens of the sample that is written in the end
    #[arg(long, default_value_t = 200)]
    pub sample: u32,
    #[command(flatten)]
    pub sampling: Sampling,
    #[command(flatten)]
    pub run: Run,
}

/// What every training has.
#[derive(Args, Debug)]
pub struct Run {
    /// Where it runs; see `elinvar devices`. Of a list (cpu,vulkan:0) each device is a worker
    #[arg(long, default_value = "cpu")]
    pub device: String,
    /// Parts of a batch, whose gradients are added in a tree [default: 1]
    ///
    /// A power of two, from the number of workers on.
    ///
    /// The weights depend on it, and not on how many workers there are.
    #[arg(long, value_name = "G")]
    pub shards: Option<Shards>,
    /// Each of several workers has the optimiser's states of a share of the weights (ZeRO-1)
    ///
    /// The weights have the same bits, and the run goes on with or without it.
    #[arg(long)]
    pub zero1: bool,
    /// Bytes of gradients that workers send at once during the backward pass [default: 25 MiB]
    ///
    /// The first are sent from 1 MiB on. With 0 all are sent when the pass is done.
    ///
    /// The weights have the same bits.
    #[arg(long, value_name = "BYTES")]
    pub bucket_bytes: Option<usize>,
    /// Decides the split of the data, the first weights and the order of the batches [default: 0]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Learning rate of AdamW at its highest [default: 0.003; 0.005 for cnn]
    #[arg(long, value_parser = positive, allow_negative_numbers = true)]
    pub lr: Option<f64>,
    /// Products, convolutions and attention in 16 bits; weights stay f32 [default: off]
    #[arg(long, value_enum)]
    pub amp: Option<Amp>,
    /// Record a step once, and replay it: fewer calls on a GPU, the same weights
    #[arg(long)]
    pub capture: bool,
    /// Directory for everything that is written [default: out/digits-MODEL or out/text-FILE]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Go on from the directory's checkpoint, to the same weights as without a stop
    #[arg(long)]
    pub resume: bool,
    /// Steps between checkpoints [default: one after each epoch, and each minute]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub checkpoint_steps: Option<u64>,
    /// No progress on standard error
    #[arg(long)]
    pub quiet: bool,
}

/// How the next token is drawn.
#[derive(Args, Debug)]
pub struct Sampling {
    /// Below 1 the likely becomes likelier; 0 takes the likeliest
    #[arg(long, default_value_t = 0.8, value_parser = not_negative, allow_negative_numbers = true)]
    pub temperature: f64,
    /// Only the K likeliest tokens
    #[arg(long, value_name = "K", value_parser = value_parser!(u32).range(1..))]
    pub top_k: Option<u32>,
    /// Only the likeliest tokens that have this probability together
    #[arg(long, value_name = "P", value_parser = up_to_one, allow_negative_numbers = true)]
    pub top_p: Option<f64>,
    /// Decides what is drawn
    #[arg(long, default_value_t = 0)]
    pub sample_seed: u64,
}

/// Write text with a trained model
///
/// The directory is one that `elinvar train text` wrote, or a GPT-2 or Llama model in the layout of
/// Hugging Face (config.json, model.safetensors or its shards, tokenizer.json).
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct Generate {
    /// Directory of the model
    pub model: PathBuf,
    /// What the text begins with
    #[arg(long, default_value = "\n")]
    pub prompt: String,
    /// How many tokens to write
    #[arg(long, default_value_t = 200)]
    pub tokens: u32,
    /// Record a token's step once, and replay it: fewer calls on a GPU, the same text
    #[arg(long)]
    pub capture: bool,
    /// Where it runs; see `elinvar devices`
    #[arg(long, default_value = "cpu")]
    pub device: String,
    #[command(flatten)]
    pub sampling: Sampling,
}

/// Print what sentences mean as vectors of length 1
///
/// The directory is a BERT model in the layout of Hugging Face (config.json, model.safetensors,
/// tokenizer.json); the vector is the mean over the tokens, as Sentence Transformers has it.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct Embed {
    /// Directory of the model
    pub model: PathBuf,
    /// Sentences [default: the lines of standard input]
    pub text: Vec<String>,
    /// Print the cosines between all sentences instead of a line of JSON for each
    #[arg(long)]
    pub similarity: bool,
    /// Where it runs; see `elinvar devices`
    #[arg(long, default_value = "cpu")]
    pub device: String,
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
    #[arg(long, default_value = "cpu")]
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

/// The type of mixed precision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Amp {
    /// Everything in f32
    #[default]
    Off,
    /// bfloat16
    Bf16,
    /// IEEE half precision
    F16,
}

impl Amp {
    /// What is computed in 16 bits, in which type.
    pub fn dtype(self) -> Option<DType> {
        match self {
            Amp::Off => None,
            Amp::Bf16 => Some(DType::BF16),
            Amp::F16 => Some(DType::F16),
        }
    }
}

impl fmt::Display for Amp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Amp::Off => "off",
            Amp::Bf16 => "bf16",
            Amp::F16 => "f16",
        })
    }
}

impl FromStr for Amp {
    type Err = String;
    fn from_str(text: &str) -> Result<Amp, String> {
        <Amp as ValueEnum>::from_str(text, false)
    }
}

/// A number of gradient shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shards(pub usize);

impl Default for Shards {
    fn default() -> Self {
        Shards(1)
    }
}

impl fmt::Display for Shards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Shards {
    type Err = String;
    fn from_str(text: &str) -> Result<Shards, String> {
        match text.parse::<usize>() {
            Ok(n) if n.is_power_of_two() => Ok(Shards(n)),
            _ => Err("it must be a power of two, such as 8".into()),
        }
    }
}

/// The networks for digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Model {
    /// Three linear layers
    #[default]
    Mlp,
    /// Two convolutions and two linear layers
    Cnn,
    /// Rows of the image as words, and two blocks of attention
    Transformer,
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Model::Mlp => "mlp",
            Model::Cnn => "cnn",
            Model::Transformer => "transformer",
        })
    }
}

impl FromStr for Model {
    type Err = String;
    fn from_str(text: &str) -> Result<Model, String> {
        <Model as ValueEnum>::from_str(text, false)
    }
}

fn not_negative(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(v) if v >= 0.0 && v.is_finite() => Ok(v),
        _ => Err("it must be 0 or a positive number".into()),
    }
}

fn up_to_one(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(v) if v > 0.0 && v <= 1.0 => Ok(v),
        _ => Err("it must be a number above 0 and up to 1".into()),
    }
}

fn below_one(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(v) if (0.0..1.0).contains(&v) => Ok(v),
        _ => Err("it must be 0 or more and less than 1".into()),
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

    /// Nothing breaks long lines.
    #[test]
    fn help_has_short_lines() {
        fn look(mut command: clap::Command) {
            let help = command.render_long_help().to_string();
            let long = help.lines().find(|line| line.chars().count() > 100);
            assert_eq!(long, None, "{}", command.get_name());
            command.get_subcommands().cloned().for_each(look);
        }
        look(Cli::command());
    }
}
