//! The project's development commands: `cargo xtask NAME`.

mod amd;
mod apple;
mod arm;
mod book;
mod bundle;
mod capabilities;
mod cross;
mod cuda;
mod docs;
mod footprint;
mod isa;
mod metrics;
mod part;
mod program;
mod python;
mod results;
mod rocm;
mod same_weights;
mod step;
mod suites;
mod test;
mod vulkan;
mod web;

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test       what must hold before a change goes in; `all`: on Vulkan, emulated devices and in WebAssembly everything, not a third of it
  step       one step of `test` that runs the programs, by its name
  docs       links, paths, numbers and variables of the documentation, and widths of comments; a part of `test`
  code-metrics  sizes, names, imports and words of the sources, with their goals; a part of `docs`
  book       the documentation as a book, by mdBook
  amd        what is emitted for AMD's devices, compiled for all of them; registers, spills and LDS
  apple      the driver for Metal and what is above it, type-checked for Apple's systems
  arm        the tests of the device cpu, and training runs, on aarch64 with NEON, emulated by qemu
  web        the page that trains in a browser, as a folder to serve: target/web/site
  browser    the device cpu in WebAssembly: conformance under Node, and the page in Chromium
  parity     training, compared with PyTorch's, layer by layer and optimiser by optimiser
  minilm     embeddings of a sentence-embedding model, compared with PyTorch's
  footprint  build time, crates, size and memory of programs, as JSON lines: [elinvar] [gpt2] [hello]
  bundle     a folder that measures this version on a machine with an NVIDIA GPU and without Rust; `amd`: with one of AMD's
  results    the pages of benchmarks/ anew; or one more: --name NAME --page PAGE FILES...";

fn main() -> ExitCode {
    match env::args().skip(1).collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["test"] => test::test(false),
        ["test", "all"] => test::test(true),
        ["step", name] => test::step(name),
        ["docs"] => docs::docs(),
        ["code-metrics"] => metrics::metrics(),
        ["book"] => book::book(),
        ["amd"] => amd::amd(),
        ["apple"] => apple::apple(),
        ["arm"] => arm::arm(),
        ["web"] => web::web(),
        ["browser"] => web::browser(),
        ["parity"] => python::parity(),
        ["minilm"] => python::minilm(),
        ["bundle"] => bundle::bundle(bundle::NVIDIA),
        ["bundle", "amd"] => bundle::bundle(bundle::AMD),
        ["footprint", ref parts @ ..] => footprint::footprint(parts),
        ["results", ref files @ ..] => results::results(files),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Cargo in the workspace.
fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    command
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}
