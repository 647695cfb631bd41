//! `cargo xtask test`: all checks of a change, in one command.
//!
//! Every step runs, even after one has failed, so that one run reports everything. Steps that
//! cannot run on this machine are listed as skipped, with the reason; they are never counted as
//! passed.

use crate::{cuda, program, rocm, root, vulkan, web};
use std::cell::RefCell;
use std::env;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Default paths of the directory of golden cases, relative to the project, unless `ELINVAR_GOLDEN`
/// names one.
const GOLDEN: [&str; 2] = ["../golden", "../shared/golden"];

/// The outcome of a step.
pub(crate) enum Outcome {
    Passed,
    Failed(String),
    Skipped(String),
}

pub(crate) struct Row {
    name: &'static str,
    outcome: Outcome,
    took: Duration,
}

/// Runs all steps.
pub fn test() -> ExitCode {
    vulkan::install();
    // The programs take longest to build, and tests often leave a core idle.
    let programs = Beside::start(&mut crate::cargo(&program::BUILD));
    let mut rows = Vec::new();
    let mut step = |name: &'static str, run: &dyn Fn() -> Outcome| rows.push(timed(name, run));
    step("format", &|| cargo(&["fmt", "--all", "--check"], &[]));
    step("clippy", &|| {
        cargo(&["clippy", "--workspace", "--all-features", "--all-targets", "--", "-D", "warnings"], &[])
    });
    step("docs", &|| {
        cargo(&["doc", "--workspace", "--all-features", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")])
    });
    step("documentation", &crate::docs::check);
    // Tests that wait for processes or for one thread leave time to compile what runs last.
    let web = web::build().map(|mut command| Beside::start(&mut command));
    step("tests", &|| {
        cargo(&["test", "--workspace", "--all-features", "--no-fail-fast"], &[vulkan::UNOPTIMIZED])
    });
    step("aarch64, check", &crate::arm::check);
    step("apple, check", &crate::apple::check);
    // All other steps compile with all features, these programs with none.
    step("programs", &|| programs.ended_without_warnings());
    step("program, no features", &|| {
        program::is_stripped()
            .and_then(|()| program::says_what_is_missing())
            .map_or_else(Outcome::Failed, |()| Outcome::Passed)
    });
    step("golden sample", &|| conformance("reference", &[], &[]));
    step("golden cases", &|| on_golden("reference", &[]));
    for isa in ISAS {
        step(isa.golden, &|| isa.on(|vars| on_golden("cpu", vars)));
        // Optimised, as users run it; the tests before are debug builds, and take other code paths
        // for some formulas.
        step(isa.random, &|| isa.on(|vars| conformance("cpu", &["--random", "40"], vars)));
    }
    // Without kernels the reference does all the work: a sample sees that it is asked.
    step("cpu, plain", &|| conformance("cpu", &[], &[(ISA, "plain")]));
    step("cpu, maps put off", &|| on_golden("cpu", &[(FUSE, "0")]));
    // The tests of the GPU backend, which ran before, are skipped by themselves without a device.
    step("vulkan", &|| vulkan::there().unwrap_or_else(vulkan_on_golden));
    step("vulkan, random calls", &|| {
        vulkan::there()
            .unwrap_or_else(|| conformance("vulkan:0", &["--random", "10"], &[vulkan::UNOPTIMIZED]))
    });
    step("vulkan, validated", &|| {
        let watched = || conformance("vulkan:0", &[], &[(vulkan::VALIDATE, "1"), vulkan::UNOPTIMIZED]);
        vulkan::there().or_else(vulkan::layer).unwrap_or_else(watched)
    });
    step("vulkan, kernels watched", &|| vulkan::there().or_else(vulkan::layer).unwrap_or_else(watch_kernels));
    step("webgpu", &|| vulkan::there().unwrap_or_else(webgpu_on_golden));
    step("cuda, emulated", &|| emulated(cuda::emulated(), |vars| on_golden("cuda:0", vars)));
    step("cuda, emulated, random calls", &|| {
        emulated(cuda::emulated(), |vars| conformance("cuda:0", &["--random", "40"], vars))
    });
    for (arch, sample, random) in [
        (rocm::ARCHS[0], "rocm, emulated gfx942", "rocm, emulated gfx942, random calls"),
        (rocm::ARCHS[1], "rocm, emulated gfx1100", "rocm, emulated gfx1100, random calls"),
    ] {
        step(sample, &|| emulated(rocm::emulated(arch), |vars| conformance("rocm:0", &[], vars)));
        step(random, &|| {
            emulated(rocm::emulated(arch), |vars| conformance("rocm:0", &["--random", "5"], vars))
        });
    }
    step("capabilities", &crate::capabilities::check);
    step("cuda", &|| cuda::there().unwrap_or_else(|| on_golden("cuda:0", &[])));
    step("same weights", &same_weights);
    step("wasm", &|| match web.as_ref().map_or(Outcome::Passed, Beside::ended) {
        Outcome::Passed => web::conformance(),
        other @ (Outcome::Failed(_) | Outcome::Skipped(_)) => other,
    });
    step("web", &web::page_in_browser);
    summary(&rows)
}

/// Runs a step.
pub(crate) fn timed(name: &'static str, run: &dyn Fn() -> Outcome) -> Row {
    println!("\n== {name}");
    let start = Instant::now();
    let outcome = run();
    Row { name, outcome, took: start.elapsed() }
}

/// Selects the instruction set of the device `cpu`.
pub(crate) const ISA: &str = "ELINVAR_CPU_ISA";
/// Selects the number of its threads.
pub(crate) const THREADS: &str = "ELINVAR_THREADS";

/// Selects the number of elements from which it defers maps.
const FUSE: &str = "ELINVAR_FUSE_FROM";

/// An instruction set of the device `cpu`, and the steps that run the golden cases and random calls
/// on it.
struct OnIsa {
    isa: &'static str,
    golden: &'static str,
    random: &'static str,
}

const ISAS: [OnIsa; 3] = [
    OnIsa { isa: "avx2", golden: "cpu, avx2", random: "cpu, avx2, random calls" },
    OnIsa { isa: "avx512", golden: "cpu, avx512", random: "cpu, avx512, random calls" },
    OnIsa { isa: "neon", golden: "cpu, neon", random: "cpu, neon, random calls" },
];

impl OnIsa {
    /// The program refuses an instruction set that the processor does not have, with this sentence;
    /// any other error is a fault.
    fn is_there(&self) -> Result<bool, String> {
        let devices = program::lab()?.arg("devices").env(ISA, self.isa).output();
        let devices = devices.map_err(|e| format!("elinvar-lab did not start: {e}"))?;
        let said = String::from_utf8_lossy(&devices.stderr);
        match devices.status.success() {
            true => Ok(true),
            false if said.contains("there is no instruction set") => Ok(false),
            false => Err(format!(
                "`elinvar-lab devices` with {ISA}={} ends with {}: {said}",
                self.isa, devices.status
            )),
        }
    }
    /// A step on it, if the processor has it.
    fn on(&self, step: impl FnOnce(&[(&str, &str)]) -> Outcome) -> Outcome {
        match self.is_there() {
            Ok(true) => step(&[(ISA, self.isa)]),
            Ok(false) => Outcome::Skipped(format!("this processor has no {}", self.isa)),
            Err(why) => Outcome::Failed(why),
        }
    }
}

/// Compares a device with the expected results and, bit for bit, with the reference.
fn conformance(device: &str, args: &[&str], vars: &[(&str, &str)]) -> Outcome {
    suite(device, args, vars).map_or_else(Outcome::Failed, |mut suite| ended(&mut suite))
}

/// The command that does.
fn suite(device: &str, args: &[&str], vars: &[(&str, &str)]) -> Result<Command, String> {
    let mut lab = program::lab()?;
    lab.args(["conformance", "--device", device]).args(args).envs(vars.iter().copied());
    Ok(lab)
}

/// A step on the emulated device.
fn emulated<const N: usize>(
    device: Result<[(&'static str, String); N], String>,
    step: impl FnOnce(&[(&str, &str)]) -> Outcome,
) -> Outcome {
    match device {
        Ok(vars) => step(&vars.each_ref().map(|(name, value)| (*name, value.as_str()))),
        Err(why) => Outcome::Failed(why),
    }
}

fn vulkan_on_golden() -> Outcome {
    match golden() {
        Ok(dir) => in_parts("vulkan:0", &["--golden", &dir.to_string_lossy()], &[vulkan::UNOPTIMIZED]),
        Err(outcome) => outcome,
    }
}

/// A part of the golden cases on WebGPU, over the same device. By the program that the tests have
/// built with all features: `wgpu` takes longer to optimise than this takes to run.
fn webgpu_on_golden() -> Outcome {
    const PART: &str = "1/64";
    let run = || {
        let dir = golden()?;
        let mut lab = program::lab_with_all_features().map_err(Outcome::Failed)?;
        lab.args(["conformance", "--device", "webgpu:0", "--part", PART, "--golden"]).arg(dir);
        Ok(ended(&mut lab))
    };
    run().unwrap_or_else(|outcome| outcome)
}

/// The same as [`conformance`], half of the cases in each of two processes: on a software device
/// most of the time goes into compiling kernels, which is single-threaded.
fn in_parts(device: &str, args: &[&str], vars: &[(&str, &str)]) -> Outcome {
    let start = |part| Ok(Beside::start(&mut suite(device, &[&["--part", part], args].concat(), vars)?));
    let parts: Vec<Beside> = match ["1/2", "2/2"].into_iter().map(start).collect() {
        Ok(parts) => parts,
        Err(why) => return Outcome::Failed(why),
    };
    // All are waited for, also after one has failed.
    let ended: Vec<Outcome> = parts.iter().map(Beside::ended).collect();
    ended.into_iter().find(|o| !matches!(o, Outcome::Passed)).unwrap_or(Outcome::Passed)
}

fn on_golden(device: &str, vars: &[(&str, &str)]) -> Outcome {
    match golden() {
        Ok(dir) => conformance(device, &["--golden", &dir.to_string_lossy()], vars),
        Err(outcome) => outcome,
    }
}

/// Kernels with their own address arithmetic, under validation of each access, which is about a
/// hundred times slower. First, a check that a wrong access is detected.
fn watch_kernels() -> Outcome {
    const OPS: [&str; 8] =
        ["matmul", "conv2d", "max_pool2d", "attention", "scatter_add", "sort", "cumsum", "layer_norm"];
    let vars = [(vulkan::VALIDATE, "gpu")];
    // Of the whole workspace, as the tests were built: for one package, much would be rebuilt with
    // fewer features.
    let seen = ["test", "--workspace", "--all-features", "--test", "vulkan", "--", "bounds"];
    match cargo(&seen, &vars) {
        Outcome::Passed => {}
        other @ (Outcome::Failed(_) | Outcome::Skipped(_)) => return other,
    }
    let ops: Vec<&str> = OPS.iter().flat_map(|op| ["--op", op]).collect();
    in_parts("vulkan:0", &ops, &vars)
}

/// Short training runs end with the same weights on every device, instruction set and number of
/// threads.
fn same_weights() -> Outcome {
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
}

/// All of them: for each model the reference's first.
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
    for isa in ISAS {
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
    Ok(runs)
}

fn compare_weights() -> Result<(), String> {
    let runs = training_runs()?;
    let (next, hashes) = (AtomicUsize::new(0), Mutex::new(vec![None; runs.len()]));
    let work = || {
        while let Some((i, run)) = Some(next.fetch_add(1, Relaxed)).and_then(|i| Some((i, runs.get(i)?))) {
            let TrainingRun { model, amp, device, with, vars } = run;
            let scratch = Scratch::new(&format!("weights-{i}"));
            let got = program::elinvar().and_then(|mut elinvar| {
                weights(elinvar.envs(vars.iter().cloned()), &scratch, (model, amp), device)
            });
            println!("{model:12} {amp:5} {device:10} {with:18} {}", got.as_deref().unwrap_or("failed"));
            hashes.lock().unwrap_or_else(PoisonError::into_inner)[i] = Some(got);
        }
    };
    // Two at a time: most of them use one core.
    thread::scope(|s| [0, 1].map(|_| s.spawn(work)).into_iter().for_each(|worker| drop(worker.join())));
    let mut want = String::new();
    for (run, got) in runs.iter().zip(hashes.into_inner().unwrap_or_else(PoisonError::into_inner)) {
        let got = got.ok_or_else(|| format!("{} on {} was not run", run.model, run.device))??;
        if run.device == "reference" {
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
) -> Result<String, String> {
    let train = ["train", "digits", "--quiet", "--epochs", "1", "--batch", "64", "--seed", "1"];
    program.args(train).args(["--model", model, "--amp", amp, "--device", device, "--out"]).arg(&scratch.0);
    let o =
        program.output().map_err(|e| format!("{} did not start: {e}", program.get_program().display()))?;
    let text = String::from_utf8_lossy(&o.stdout).into_owned();
    match text.lines().last().filter(|l| o.status.success() && l.starts_with("weights sha256 ")) {
        Some(line) => Ok(line.to_owned()),
        None => Err(format!("{model} on {device}: {}", String::from_utf8_lossy(&o.stderr))),
    }
}

/// The path of a directory or a file for this run, removed at the end.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        Scratch(env::temp_dir().join(format!("elinvar-{name}-{}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If it cannot be removed, it is left to the system's cleaning of its temporary directory.
        let _ = match self.0.is_dir() {
            true => std::fs::remove_dir_all(&self.0),
            false => std::fs::remove_file(&self.0),
        };
    }
}

/// The directory of golden cases, or the reason there is none.
pub(crate) fn golden() -> Result<PathBuf, Outcome> {
    let is_golden = |dir: &PathBuf| dir.join("index.json").is_file();
    if let Some(dir) = env::var_os("ELINVAR_GOLDEN") {
        let dir = PathBuf::from(dir);
        return if is_golden(&dir) {
            Ok(dir)
        } else {
            Err(Outcome::Failed(format!("ELINVAR_GOLDEN is {}, where there is no index.json", dir.display())))
        };
    }
    GOLDEN.iter().map(|dir| root().join(dir)).find(is_golden).ok_or_else(|| {
        Outcome::Skipped(format!("no directory {} and ELINVAR_GOLDEN is not set", GOLDEN.join(" or ")))
    })
}

/// A background command, until a step waits for it.
struct Beside {
    /// The process and the file of its output, or the error that prevented it.
    started: std::io::Result<(RefCell<Child>, Scratch)>,
}

impl Beside {
    fn start(command: &mut Command) -> Beside {
        let mut start = || {
            static COUNT: AtomicUsize = AtomicUsize::new(0);
            let said = Scratch::new(&format!("beside-{}.log", COUNT.fetch_add(1, Relaxed)));
            let log = File::create(&said.0)?;
            let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
            Ok((RefCell::new(child), said))
        };
        Beside { started: start() }
    }
    /// Waits, and reports the output.
    fn ended(&self) -> Outcome {
        self.waited_for().0
    }
    /// The same of a build, whose warnings are errors. (As an option of the compiler, `-D warnings`
    /// would make other programs of it than users build.)
    fn ended_without_warnings(&self) -> Outcome {
        match self.waited_for() {
            (Outcome::Passed, said) if said.lines().any(|line| line.starts_with("warning")) => {
                Outcome::Failed("there are warnings".into())
            }
            (outcome, _) => outcome,
        }
    }
    /// Waits, and reports the output, which comes with the outcome.
    fn waited_for(&self) -> (Outcome, String) {
        let (child, said) = match &self.started {
            Ok(started) => started,
            Err(e) => return (Outcome::Failed(format!("it did not start: {e}")), String::new()),
        };
        let status = child.borrow_mut().wait();
        match std::fs::read_to_string(&said.0) {
            Ok(text) => {
                print!("{text}");
                (judged(status), text)
            }
            Err(e) => (Outcome::Failed(format!("what it said cannot be read: {e}")), String::new()),
        }
    }
}

fn cargo(args: &[&str], vars: &[(&str, &str)]) -> Outcome {
    ended(crate::cargo(args).envs(vars.iter().copied()))
}

/// Runs a command; its exit status is the outcome.
pub(crate) fn ended(command: &mut Command) -> Outcome {
    judged(command.status())
}

fn judged(status: std::io::Result<ExitStatus>) -> Outcome {
    match status {
        Ok(status) if status.success() => Outcome::Passed,
        Ok(status) => Outcome::Failed(status.to_string()),
        Err(e) => Outcome::Failed(format!("it did not start: {e}")),
    }
}

/// A line for each step, then the count, which is the last line.
pub(crate) fn summary(rows: &[Row]) -> ExitCode {
    println!("\n== summary");
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for Row { name, outcome, took } in rows {
        let (word, count, why) = match outcome {
            Outcome::Passed => ("ok", &mut passed, None),
            Outcome::Failed(why) => ("failed", &mut failed, Some(why)),
            Outcome::Skipped(why) => ("skipped", &mut skipped, Some(why)),
        };
        *count += 1;
        let why = why.map(|w| format!("  {w}")).unwrap_or_default();
        println!("{name:15} {word:8} {:7.1} s{why}", took.as_secs_f64());
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
