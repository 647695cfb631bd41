//! The command line: every command, option and default. What it says here is what `--help` says.

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, value_parser};
use elinvar_cli_support::completions::Completions;
use elinvar_cli_support::positive;
use elinvar_conformance::Part;
use elinvar_conformance::equal::{self, CallKind};
use elinvar_ulp as ulp;
use std::path::PathBuf;

/// Does elinvar compute what it should, how accurately, and how fast?
#[derive(Debug, Parser)]
#[command(name = "elinvar-lab", version)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Conformance(Conformance),
    Bench(Bench),
    Gates(Gates),
    Ulp(Ulp),
    Schedule(Schedule),
    Sums(Sums),
    /// List the devices of this machine, and whether each computes exactly
    Devices,
    Completions(Completions),
}

/// Simulate a training step on many workers, by a model of its messages
///
/// Prints the model and a table in Markdown: the time of the sums, what is sent, the speedup.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct Schedule {
    /// Gradient shards, a power of two: up to so many workers
    #[arg(long, default_value_t = 64)]
    pub shards: usize,
    /// Parameters, of f32
    #[arg(long, default_value_t = 25_000_000, value_parser = parameters())]
    pub parameters: usize,
    /// Milliseconds that a shard's gradients take
    #[arg(long, default_value_t = 50.0, value_parser = positive)]
    pub compute: f64,
    /// Microseconds that a message is on its way
    #[arg(long, default_value_t = 20.0, value_parser = positive)]
    pub latency: f64,
    /// Microseconds that a message takes a link besides its bytes
    #[arg(long, default_value_t = 5.0, value_parser = positive)]
    pub overhead: f64,
    /// Gigabytes a second of a link, each way
    #[arg(long, default_value_t = 12.5, value_parser = positive)]
    pub bandwidth: f64,
    /// Bytes of a bucket of gradients; with 0, all are sent when the shards are done
    #[arg(long, default_value_t = elinvar::nn::train::BUCKET_BYTES)]
    pub bucket_bytes: usize,
}

/// Measure a sum over all workers against MPI_Allreduce of the same library
///
/// `mpirun -n 2 elinvar-lab sums` prints a table in Markdown. The exit status is 1 if the sum has
/// other bits than that of one worker.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct Sums {
    /// Sizes, in KiB of f32
    #[arg(default_values_t = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536], value_parser = kib())]
    pub kib: Vec<usize>,
    /// How often each is summed
    #[arg(long, default_value_t = 11, value_parser = value_parser!(u32).range(1..=10_000))]
    pub times: u32,
}

fn kib() -> impl clap::builder::TypedValueParser<Value = usize> {
    use clap::builder::TypedValueParser;
    value_parser!(u64).range(1..=1 << 20).map(|n| n as usize)
}

fn parameters() -> impl clap::builder::TypedValueParser<Value = usize> {
    use clap::builder::TypedValueParser;
    value_parser!(u64).range(1..=1 << 40).map(|n| n as usize)
}

/// Measure how far the elementary functions are from the truth, on all 2^32 inputs
///
/// Prints a table in Markdown; the exit status is 1 if a function leaves its bound.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct Ulp {
    /// One function, or all of them
    #[arg(default_value = ALL, value_parser = functions(), hide_possible_values = true)]
    pub function: String,
    /// Threads that share the inputs [default: one for each processor]
    #[arg(long, value_parser = value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
}

/// What calls are drawn of: one kind, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    All,
    Only(CallKind),
}

/// By its name.
fn kinds(name: &str) -> Result<Kinds, String> {
    if name == ALL {
        return Ok(Kinds::All);
    }
    equal::kinds().find(|kind| kind.name() == name).map(Kinds::Only).ok_or_else(|| {
        let all: Vec<String> = equal::kinds().map(|kind| kind.name()).collect();
        format!("calls are drawn of {ALL}, or of {}", all.join(", "))
    })
}

/// Compare what the ops give with what they must give
///
/// The exit status is 1 if a case fails.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct Conformance {
    /// Directory with index.json and OP.safetensors, in addition to our own cases; without it, the
    /// sample inside the program
    #[arg(long, value_name = "DIR")]
    pub golden: Option<PathBuf>,
    /// Where it runs; see `elinvar-lab devices`
    #[arg(long, default_value = "cpu")]
    pub device: String,
    /// An op's name, or a part of case names; may be repeated
    #[arg(long = "op", value_name = "NAME")]
    pub ops: Vec<String>,
    /// Only the K-th of N parts of the cases, for N parallel processes: most of the time goes
    /// into compiling kernels
    #[arg(long, value_name = "K/N")]
    pub part: Option<Part>,
    /// Only the K-th of every N cases: a part that meets every op; and such a part of the products
    /// with `Precision::Fast`
    #[arg(long, value_name = "K/N", default_value = "1/1", hide_default_value = true)]
    pub every: Part,
    /// Afterwards also draw this many calls of each kind of work, and of each op of linear algebra
    /// and Fourier transforms, with random shapes, strides and values, of which the device must
    /// give the bits of the reference
    #[arg(long, value_name = "CALLS", default_value_t = 0)]
    pub random: usize,
    /// Another number draws other calls
    #[arg(long, default_value_t = 0, requires = "random")]
    pub seed: u64,
    /// The first of the calls of each kind: with --random 1, one call alone
    #[arg(long, default_value_t = 0, requires = "random")]
    pub round: usize,
    /// Draw calls of this kind of work, of this op of linear algebra or Fourier transforms, or of
    /// all, and compare no cases; may be repeated
    #[arg(
        long = "kind",
        value_name = "NAME",
        requires = "random",
        conflicts_with_all = ["golden", "ops", "part", "every"],
        value_parser = kinds
    )]
    pub kinds: Vec<Kinds>,
    /// Print how each backend runs each op, as a table in Markdown, instead
    #[arg(long, conflicts_with_all = ["golden", "ops", "part", "random"])]
    pub table: bool,
}

/// Measure how fast the ops are, as a line of JSON each
///
/// Each row is a workload on a shape, measured by rules that benchmarks of other libraries follow,
/// too; the lines of all of them make a page by `cargo xtask results`. The exit status is 1 if a
/// row fails.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct Bench {
    /// Groups (gemm, elementwise, reductions, conv, attention, training, inference, overhead; ops:
    /// single ops of every kind; large: what fills a GPU; models: GPT-2 of 124 million parameters),
    /// or texts that occur in "group|workload|shape|dtype" [default: what BENCH_ONLY says, with
    /// commas between; else all groups but ops, large and models]; with --count, names of models
    #[arg(value_name = "GROUP|TEXT")]
    pub only: Vec<String>,
    /// Threads of the device [default: one for each processor]
    #[arg(long, env = "BENCH_THREADS", value_parser = value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// Where it runs; see `elinvar-lab devices` [default: cpu; with --count a device that computes
    /// nothing]
    #[arg(long)]
    pub device: Option<String>,
    /// Seconds of measuring for each row, after its warm-up
    #[arg(long, env = "BENCH_SECS", default_value_t = 0.5, value_parser = positive, allow_negative_numbers = true)]
    pub seconds: f64,
    /// Also measure how much memory the steps of training take
    #[arg(long)]
    pub all: bool,
    /// List the rows instead
    #[arg(long)]
    pub list: bool,
    /// Instead of its line, print of each row the table of its profile, against this device's
    /// measured limits, and what profiling it costs
    #[arg(long, conflicts_with_all = ["all", "list"])]
    pub profile: bool,
    /// Count what steps of training ask of a GPU, instead: kernels, launches, bytes moved. Of the
    /// models mlp, cnn, gpt and bert
    #[arg(long, conflicts_with_all = ["all", "list", "profile"])]
    pub count: bool,
    /// Print how many MiB this process holds at most that runs a few steps of a workload
    #[arg(long, hide = true)]
    pub memory_of: Option<String>,
}

/// Check ratios that every version must keep, in one run
///
/// Vector kernels over plain loops, GPUs over the processor, captured steps over plain ones, a
/// profile's cost. What this machine cannot judge is listed with the reason. The exit status is 1
/// if a gate fails.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct Gates {
    /// Seconds of measuring for each gate, after its warm-up
    #[arg(long, default_value_t = 0.5, value_parser = positive, allow_negative_numbers = true)]
    pub seconds: f64,
}

/// The word for every elementary function.
pub const ALL: &str = "all";

fn functions() -> PossibleValuesParser {
    PossibleValuesParser::new(std::iter::once(ALL).chain(ulp::functions().iter().map(|f| f.name)))
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
