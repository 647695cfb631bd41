//! Elinvar's side of `tools/parity.py`, which `cargo xtask parity` runs: continues PyTorch's
//! training from one file, and writes training for PyTorch to continue to another.

#[path = "../tests/nn/parity/run.rs"]
mod run;
#[path = "../tests/nn/parity/tasks.rs"]
mod tasks;

use elinvar_core::{Error, Result};
use elinvar_io::{load_safetensors, save_safetensors};
use elinvar_reference::{Reference, ReferenceDevice};

const D: ReferenceDevice = ReferenceDevice;
type B = Reference;
type T = elinvar_nn::Tensor<B>;

fn main() -> Result<()> {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let [theirs, ours] = &args[..] else {
        return Err(Error::argument("usage: parity PYTORCH.safetensors ELINVAR.safetensors"));
    };
    let answer = run::answer(&tasks::all(), &load_safetensors(theirs)?);
    save_safetensors(ours, &answer.tensors, &answer.metadata)
}
