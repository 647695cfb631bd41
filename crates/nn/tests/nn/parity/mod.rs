//! Resuming PyTorch's training: for every kind of layer and every optimiser, from a file written by
//! PyTorch.
//!
//! `cargo xtask parity` compares in both directions with the installed PyTorch; here the file is
//! the one written by `python tools/parity.py --write-sample` (with torch 2.15).

mod run;
mod tasks;

use elinvar_io::{Safetensors, read_safetensors};
use elinvar_reference::{Reference, ReferenceDevice};
use run::{BOUND, Part, Run};
use std::collections::BTreeMap;
use std::io::Read;

const D: ReferenceDevice = ReferenceDevice;
type B = Reference;
type T = elinvar_nn::Tensor<B>;

fn sample() -> Safetensors {
    let packed: &[u8] = include_bytes!("../../data/parity.safetensors.gz");
    let mut bytes = vec![];
    flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    read_safetensors(&mut &bytes[..], bytes.len() as u64).unwrap()
}

#[test]
fn pytorchs_training_is_resumed() {
    let (sample, tasks) = (sample(), tasks::all());
    let names: Vec<&str> = tasks.iter().map(|t| t.name).collect();
    let mut known: Vec<String> = serde_json::from_str(&sample.metadata["tasks"]).unwrap();
    known.sort();
    let mut sorted = names.clone();
    sorted.sort();
    assert_eq!(known, sorted, "the same tasks on both sides");

    let ours = run::answer(&tasks, &sample);
    let faults: BTreeMap<_, _> = ours.metadata.iter().filter(|(k, _)| k.ends_with("/fault")).collect();
    assert!(faults.is_empty(), "{faults:#?}");
    for name in names {
        assert!(ours.tensors.contains_key(&format!("{name}/losses")), "{name}");
    }
}

/// The comparison detects an optimiser that loses its state.
#[test]
fn without_the_optimisers_state_losses_differ() {
    let sample = sample();
    for task in tasks::all() {
        let theirs = Part::new(task.name, &sample);
        let forgetful = Run::load_model(&task, (task.configured)(), &theirs, &theirs).unwrap();
        let worst = run::difference(&forgetful.go_on().unwrap(), &theirs.losses("losses").unwrap()).unwrap();
        assert!(worst > 10.0 * BOUND, "{}: {worst:e}", task.name);
    }
}
