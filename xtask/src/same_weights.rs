//! Short training runs end with the same weights on every device, instruction set and number of
//! threads.

use crate::isa::{ISA, ISAS, THREADS};
use crate::part::Part;
use crate::step::{Outcome, Scratch};
use crate::{cuda, program, rocm, vulkan};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;

pub(crate) fn same_weights() -> Outcome {
    compare_weights().map_or_else(Outcome::Failed, |()| Outcome::Passed)
}

/// A short training run of a model on a device.
struct TrainingRun {
    model: &'static str,
    /// The type of mixed precision.
    amp: &'static str,
    device: &'static str,
    /// Its configuration, as text.
    with: String,
    vars: Vec<(&'static str, String)>,
    /// Options of all runs that are compared.
    options: &'static [&'static str],
    /// Are these the weights that the runs after it must have?
    is_first: bool,
}

/// A worker on the processor and one on a GPU: with batch norm over all shards, and with gradients
/// that are sent one by one.
const SHARED: [(&str, &str, &[&str]); 2] = [
    ("cnn", "cpu,vulkan:0", &["--shards", "8", "--sync-batch-norm"]),
    ("mlp", "vulkan:0,cpu", &["--shards", "8", "--bucket-bytes", "1"]),
];

/// All of them: of those that are compared, the one that has the right weights first.
fn training_runs() -> Result<Vec<TrainingRun>, String> {
    let mut devices = vec![("reference", String::new(), vec![(THREADS, String::from("1"))])];
    match vulkan::there() {
        None => devices.push(("vulkan:0", String::new(), Vec::new())),
        Some(_) => println!("vulkan:0 left out: this machine has none"),
    }
    devices.push(("cuda:0", String::from("emulated"), cuda::emulated()?.to_vec()));
    for arch in rocm::ARCHS {
        devices.push(("rocm:0", format!("emulated {arch}"), rocm::emulated(arch)?.to_vec()));
    }
    for isa in &ISAS {
        if !isa.is_there()? {
            println!("{} left out: this processor has none", isa.isa);
            continue;
        }
        // Without an fma instruction, each of these takes as long as the reference.
        let slow = isa.isa == "plain" && cfg!(target_arch = "x86_64");
        for threads in if slow { &["2"][..] } else { &["1", "2", "3", "8"] } {
            let vars = vec![(ISA, isa.isa.to_string()), (THREADS, threads.to_string())];
            devices.push(("cpu", format!("{:6} {threads} threads", isa.isa), vars));
        }
    }
    let run = |(model, amp)| {
        let of = move |(device, with, vars): &(&'static str, String, Vec<_>)| TrainingRun {
            model,
            amp,
            device,
            with: with.clone(),
            vars: vars.clone(),
            options: &[],
            is_first: *device == "reference",
        };
        devices.iter().map(of).collect::<Vec<_>>()
    };
    let mut runs: Vec<_> =
        [("mlp", "off"), ("cnn", "off"), ("transformer", "off")].into_iter().flat_map(run).collect();
    // Threads divide the work of 16 bits as they do that of f32.
    let mixed = [("mlp", "bf16"), ("cnn", "f16"), ("transformer", "bf16")].into_iter().flat_map(run);
    let others = |r: &TrainingRun| match r.device {
        "cpu" => r.vars.contains(&(THREADS, String::from("2"))),
        "rocm:0" => false,
        _ => true,
    };
    runs.extend(mixed.filter(others));
    if vulkan::there().is_none() {
        runs.extend(SHARED.iter().flat_map(|&(model, devices, options)| {
            ["cpu", devices].map(|device| TrainingRun {
                model,
                amp: "off",
                device,
                with: options.join(" "),
                vars: Vec::new(),
                options,
                is_first: device == "cpu",
            })
        }));
    }
    // Of devices in software a part, each compared with the run on `reference` or `cpu` before it.
    let part = Part::of_step()?;
    let mut places = 0..;
    runs.retain(|r| matches!(r.device, "reference" | "cpu") || places.next().is_some_and(|at| part.has(at)));
    Ok(runs)
}

fn compare_weights() -> Result<(), String> {
    let runs = training_runs()?;
    let (next, hashes) = (AtomicUsize::new(0), Mutex::new(vec![None; runs.len()]));
    let work = || {
        while let Some((i, run)) = Some(next.fetch_add(1, Relaxed)).and_then(|i| Some((i, runs.get(i)?))) {
            let TrainingRun { model, amp, device, with, vars, options, .. } = run;
            let scratch = Scratch::new(&format!("weights-{i}"));
            let got = program::elinvar().and_then(|mut elinvar| {
                elinvar.envs(vars.iter().cloned());
                weights(&mut elinvar, &scratch, (model, amp), device, options)
            });
            println!("{model:12} {amp:5} {device:12} {with:18} {}", got.as_deref().unwrap_or("failed"));
            hashes.lock().unwrap_or_else(PoisonError::into_inner)[i] = Some(got);
        }
    };
    // Two at a time: most of them use one core.
    thread::scope(|s| [0, 1].map(|_| s.spawn(work)).into_iter().for_each(|worker| drop(worker.join())));
    let mut want = String::new();
    for (run, got) in runs.iter().zip(hashes.into_inner().unwrap_or_else(PoisonError::into_inner)) {
        let got = got.ok_or_else(|| format!("{} on {} was not run", run.model, run.device))??;
        if run.is_first {
            want = got;
        } else if got != want {
            return Err(format!(
                "{} {} on {} {} has other weights",
                run.model, run.amp, run.device, run.with
            ));
        }
    }
    Ok(())
}

/// The last line of a short training run, with the hash of its weights: of a model in this type of
/// mixed precision.
pub(crate) fn weights(
    program: &mut Command,
    scratch: &Scratch,
    (model, amp): (&str, &str),
    device: &str,
    options: &[&str],
) -> Result<String, String> {
    let train = ["train", "digits", "--quiet", "--epochs", "1", "--batch", "64", "--seed", "1"];
    program.args(train).args(["--model", model, "--amp", amp, "--device", device]).args(options);
    program.arg("--out").arg(&scratch.0);
    let o =
        program.output().map_err(|e| format!("{} did not start: {e}", program.get_program().display()))?;
    let text = String::from_utf8_lossy(&o.stdout).into_owned();
    match text.lines().last().filter(|l| o.status.success() && l.starts_with("weights sha256 ")) {
        Some(line) => Ok(line.to_owned()),
        None => Err(format!("{model} on {device}: {}", String::from_utf8_lossy(&o.stderr))),
    }
}
