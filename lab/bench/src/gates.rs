//! Gates: ratios that every version must keep, measured in one run, each pair in turns.
//!
//! A ratio of two times on one machine says what a time alone does not: whether a fast path still
//! is one. What this machine cannot judge (it has no card, or its devices are software) is listed
//! with the reason, and is neither passed nor failed.

use crate::data::Data;
use crate::harness::measure;
use crate::row::{Row, Task, Variant};
use crate::rows;
use crate::rows::training::{Made, Model, Sizes};
use elinvar::cpu::Isa;
use elinvar::{CpuDevice, Device, Result, try_run};
use std::fmt;

/// What a ratio must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// So much, or more.
    Least(f64),
    /// So much, or less.
    Most(f64),
}

impl Bound {
    /// Is it kept by this ratio, as it is printed: to a hundredth? Two measurements of one and the
    /// same work differ by less only by chance.
    pub fn holds(self, ratio: f64) -> bool {
        let printed = (ratio * 100.0).round() / 100.0;
        match self {
            Bound::Least(least) => printed >= least,
            Bound::Most(most) => printed <= most,
        }
    }

    /// The ratio of a measurement, which is made again, twice at most, if it does not keep the
    /// bound: other work on the machine spoils one measurement, a slower path spoils all of them.
    fn judge(self, mut measurement: impl FnMut() -> Result<f64>) -> Result<Outcome> {
        let mut ratio = measurement()?;
        for _ in 0..2 {
            if !self.holds(ratio) {
                ratio = measurement()?;
            }
        }
        Ok(Outcome::Ratio(ratio))
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::Least(ratio) => write!(f, ">= {ratio}"),
            Bound::Most(ratio) => write!(f, "<= {ratio}"),
        }
    }
}

/// What came of a gate.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The ratio.
    Ratio(f64),
    /// Why this machine cannot judge.
    NotJudged(String),
}

/// A ratio that must be kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// What is compared with what.
    pub name: &'static str,
    /// On which workload.
    pub workload: String,
    /// What the ratio must be.
    pub bound: Bound,
    /// What it is.
    pub outcome: Outcome,
}

impl Gate {
    /// Was it judged, and failed?
    pub fn has_failed(&self) -> bool {
        matches!(self.outcome, Outcome::Ratio(r) if !self.bound.holds(r))
    }
    fn verdict(&self) -> &'static str {
        match self.outcome {
            Outcome::NotJudged(_) => "not judged",
            Outcome::Ratio(_) if self.has_failed() => "FAILED",
            Outcome::Ratio(_) => "passed",
        }
    }
}

const VECTOR: &str = "cpu: vector over plain, one thread";
const CUDA: &str = "cuda over cpu";
const VULKAN: &str = "vulkan over cuda, one card";
const CAPTURED: &str = "captured step over plain step, time";
const HOST: &str = "step of the smallest sizes over step, time";
const PROFILED: &str = "profiled step over plain step, time";

/// Ops whose vector kernels are compared with the definition's loops: of each kind one that
/// computes more than it moves, on sizes that the loops finish in a fraction of a second.
const VECTORS: [(&str, &str); 6] = [
    ("gemm_nn", "128x128x128"),
    ("exp", "65536"),
    ("tanh", "65536"),
    ("gelu_erf", "65536"),
    ("softmax", "16x12x128x128"),
    ("attn_f", "8x12x128x64"),
];
/// Products on which a card must be far ahead.
const PRODUCTS: [(&str, &str); 2] = [("gemm_nn", "1024x1024x1024"), ("gemm_nn", "2048x2048x2048")];

/// Measures all gates, each for about this many seconds.
///
/// # Errors
/// The errors of a device that is there, and of work that must be possible.
pub fn gates(seconds: f64) -> Result<Vec<Gate>> {
    let mut all = vector(seconds)?;
    let (cuda, vulkan) = (card(Device::parse("cuda:0")), card(Device::parse("vulkan:0")));
    for (workload, shape) in PRODUCTS {
        let row = row(workload, shape);
        let cpu = Ok(Device::cpu());
        all.push(compared(CUDA, Bound::Least(10.0), &row, (&cuda, &cpu), seconds)?);
    }
    let one_card = same_card(&cuda, &vulkan);
    for (workload, shape) in PRODUCTS {
        let row = row(workload, shape);
        let other = one_card.clone().and_then(|()| vulkan.clone());
        all.push(compared(VULKAN, Bound::Least(0.5), &row, (&other, &cuda), seconds)?);
    }
    // Both steps are one device's: software will do, too. There the kernels' arithmetic takes so
    // long that what a capture saves is less than the noise, so the tensors are the smallest. The
    // processor makes the plain step, and what is left is the noise of two measurements; that a
    // recording could save nothing is told by the next gate.
    for (name, most) in [("cuda:0", 1.0), ("vulkan:0", 1.0), ("cpu", 1.05)] {
        let (bound, mut workload) = (Bound::Most(most), format!("mlp on {name}"));
        let outcome = match Device::parse(name) {
            Ok(device) => {
                let sizes = if is_software(&device)? { Sizes::Least } else { Sizes::Usual };
                if sizes == Sizes::Least {
                    workload.push_str(", smallest sizes");
                }
                bound.judge(|| captured(&device, sizes, seconds))?
            }
            Err(why) => Outcome::NotJudged(why.message().to_string()),
        };
        all.push(Gate { name: CAPTURED, workload, bound, outcome });
    }
    for model in [Model::Mlp, Model::Cnn, Model::Gpt] {
        let (bound, workload) = (Bound::Most(0.05), format!("{} on cpu", model.word()));
        all.push(Gate { name: HOST, workload, bound, outcome: bound.judge(|| host(model, seconds))? });
    }
    let (bound, mlp) = (Bound::Most(1.05), row("train_mlp", "784-512-512-10_b128"));
    let price = || mlp.price_of_profile(&Device::cpu(), seconds).map(|price| price.on / price.off);
    all.push(Gate { name: PROFILED, workload: "mlp on cpu".into(), bound, outcome: bound.judge(price)? });
    Ok(all)
}

/// The row of a workload and a shape, of f32.
fn row(workload: &str, shape: &str) -> Row {
    let is_it = |r: &Row| r.workload == workload && r.shape == shape && r.dtype == elinvar::DType::F32;
    rows().into_iter().find(is_it).unwrap_or_else(|| panic!("the rows have {workload} {shape}"))
}

fn vector(seconds: f64) -> Result<Vec<Gate>> {
    let all = Isa::all();
    let one = |isa: Isa| CpuDevice::new(isa, 1).map(Device::Cpu);
    let vector = match all.last() {
        Some(&best) if all.len() > 1 => Ok(one(best)?),
        _ => Err("this processor has no instruction set that kernels are compiled for".to_string()),
    };
    let plain = Ok(one(all[0])?);
    VECTORS
        .into_iter()
        .map(|(workload, shape)| {
            compared(VECTOR, Bound::Least(2.0), &row(workload, shape), (&vector, &plain), seconds)
        })
        .collect()
}

/// A device, or why it cannot be judged.
type Judged = std::result::Result<Device, String>;

/// A card: software devices have other speeds than what they stand for.
fn card(device: Result<Device>) -> Judged {
    let why = |e: elinvar::Error| e.message().to_string();
    let device = device.map_err(why)?;
    if is_software(&device).map_err(why)? {
        return Err(format!("{device} is software, and no card"));
    }
    Ok(device)
}

/// Is it a GPU that the processor plays?
fn is_software(device: &Device) -> Result<bool> {
    let kind = match device {
        Device::Cuda(d) => d.info()?.kind,
        Device::Vulkan(d) => d.info()?.kind,
        _ => return Ok(false),
    };
    Ok(kind == elinvar_driver::Kind::Software)
}

/// Are both the same card?
fn same_card(cuda: &Judged, vulkan: &Judged) -> std::result::Result<(), String> {
    let (cuda, vulkan) = (cuda.as_ref()?, vulkan.as_ref()?);
    let name = |d: &Device| match d {
        Device::Cuda(d) => d.info().map(|i| i.name.clone()).unwrap_or_default(),
        Device::Vulkan(d) => d.info().map(|i| i.name.clone()).unwrap_or_default(),
        _ => String::new(),
    };
    let (a, b) = (name(cuda), name(vulkan));
    if a == b { Ok(()) } else { Err(format!("cuda:0 is {a}, and vulkan:0 is {b}")) }
}

/// How many times as fast the first device is as the second one.
fn compared(
    name: &'static str,
    bound: Bound,
    row: &Row,
    (fast, slow): (&Judged, &Judged),
    seconds: f64,
) -> Result<Gate> {
    let workload = format!("{} {}", row.workload, row.shape);
    let gate = |outcome| Gate { name, workload, bound, outcome };
    let (fast, slow) = match (fast, slow) {
        (Ok(fast), Ok(slow)) => (fast, slow),
        (Err(why), _) | (_, Err(why)) => return Ok(gate(Outcome::NotJudged(why.clone()))),
    };
    let (mut first, mut second) = (row.task(Variant::Ours, fast)?, row.task(Variant::Ours, slow)?);
    let outcome = bound.judge(|| row.run(|| in_turns(&mut second, &mut first, seconds)))?;
    Ok(gate(outcome))
}

/// The time of the first work as a multiple of that of the second one: of each the best of two
/// rounds, in turns.
fn in_turns(a: &mut Task, b: &mut Task, seconds: f64) -> Result<f64> {
    let mut best = [f64::INFINITY; 2];
    for _ in 0..2 {
        for (work, best) in [&mut *a, &mut *b].into_iter().zip(&mut best) {
            *best = best.min(measure(seconds / 4.0, work)?.median);
        }
    }
    Ok(best[0] / best[1])
}

/// The time of a captured step as a multiple of that of the step that is not.
fn captured(device: &Device, sizes: Sizes, seconds: f64) -> Result<f64> {
    try_run(|| {
        let made = |made| Model::Mlp.step_of(sizes, made, &mut Data::new(device.clone()));
        in_turns(&mut made(Made::Captured)?, &mut made(Made::Plain)?, seconds)
    })?
}

/// The time of a step whose tensors have the fewest numbers as a multiple of that of the step: more
/// than all that a recording could save on the processor, as the kernels' least time is in it.
fn host(model: Model, seconds: f64) -> Result<f64> {
    let cpu = Device::cpu();
    let made = |sizes| model.step_of(sizes, Made::Plain, &mut Data::new(cpu.clone()));
    try_run(|| in_turns(&mut made(Sizes::Least)?, &mut made(Sizes::Usual)?, seconds))?
}

/// Gates as rows of a table, and how many of them passed.
pub struct Gates(pub Vec<Gate>);

impl fmt::Display for Gates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |of: fn(&Gate) -> usize| self.0.iter().map(of).max().unwrap_or(0);
        let (name, work) = (width(|g| g.name.len()), width(|g| g.workload.len()));
        for g in &self.0 {
            let (is, why) = match &g.outcome {
                Outcome::Ratio(ratio) => (format!("{ratio:.2}"), ""),
                Outcome::NotJudged(why) => ("-".into(), &**why),
            };
            let bound = g.bound.to_string();
            let verdict = g.verdict();
            let line = format!("{:name$}  {:work$}  {bound:>7}  {is:>7}  {verdict}", g.name, g.workload);
            writeln!(f, "{line}{}{why}", if why.is_empty() { "" } else { ": " })?;
        }
        let judged: Vec<&Gate> = self.0.iter().filter(|g| matches!(g.outcome, Outcome::Ratio(_))).collect();
        let failed = judged.iter().filter(|g| g.has_failed()).count();
        let not = self.0.len() - judged.len();
        writeln!(f, "{} passed, {failed} failed, {not} not judged", judged.len() - failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(bound: Bound, outcome: Outcome) -> Gate {
        Gate { name: "a over b", workload: "w".into(), bound, outcome }
    }

    #[test]
    fn a_gate_passes_fails_or_is_not_judged() {
        for (bound, ratio, failed) in [
            (Bound::Least(2.0), 2.0, false),
            (Bound::Least(2.0), 1.99, true),
            (Bound::Most(1.0), 1.004, false),
            (Bound::Most(1.0), 1.01, true),
            (Bound::Least(2.0), f64::NAN, true),
            (Bound::Most(1.0), f64::NAN, true),
        ] {
            assert_eq!(gate(bound, Outcome::Ratio(ratio)).has_failed(), failed, "{bound} {ratio}");
        }
        assert!(!gate(Bound::Least(2.0), Outcome::NotJudged("no card".into())).has_failed());
    }

    #[test]
    fn what_does_not_keep_its_bound_is_measured_three_times() {
        for (ratios, outcome) in
            [([0.9, 2.0, 2.0], 0.9), ([2.0, 0.9, 2.0], 0.9), ([2.0, 2.0, 0.9], 0.9), ([2.0, 3.0, 4.0], 4.0)]
        {
            let mut all = ratios.into_iter();
            let judged = Bound::Most(1.0).judge(|| Ok(all.next().expect("three measurements"))).unwrap();
            assert_eq!(judged, Outcome::Ratio(outcome));
        }
    }

    #[test]
    fn the_table_is_aligned_and_counts() {
        let all = vec![
            gate(Bound::Least(10.0), Outcome::Ratio(12.5)),
            gate(Bound::Most(1.0), Outcome::Ratio(1.25)),
            gate(Bound::Least(0.5), Outcome::NotJudged("no card".into())),
        ];
        assert_eq!(
            Gates(all).to_string(),
            "a over b  w    >= 10    12.50  passed\n\
             a over b  w     <= 1     1.25  FAILED\n\
             a over b  w   >= 0.5        -  not judged: no card\n\
             1 passed, 1 failed, 1 not judged\n"
        );
    }

    /// A device without a queue makes the plain step: the ratio says nothing, but the steps are
    /// made.
    #[test]
    fn a_captured_step_runs() {
        let ratio = captured(&Device::cpu(), Sizes::Least, 1e-3).unwrap();
        assert!(ratio > 0.0 && ratio.is_finite());
    }

    #[test]
    fn the_smallest_steps_run() {
        for model in [Model::Mlp, Model::Cnn, Model::Gpt] {
            let mut step = model.step_of(Sizes::Least, Made::Plain, &mut Data::new(Device::cpu())).unwrap();
            step().unwrap();
        }
    }

    /// What is compared must be among the rows.
    #[test]
    fn every_workload_is_a_row() {
        for (workload, shape) in VECTORS.into_iter().chain(PRODUCTS) {
            assert_eq!(row(workload, shape).workload, workload);
        }
    }
}
