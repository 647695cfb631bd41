//! `cargo xtask test`: all checks of a change, in one command.
//!
//! Every step runs, even after one has failed, so that one run reports everything. Steps that
//! cannot run on this machine are listed as skipped, with the reason; they are never counted as
//! passed.

use crate::isa::{ISA, ISAS};
use crate::part::{self, Part};
use crate::same_weights::same_weights;
use crate::step::{Beside, Outcome, Row, end_with, ended, read_outcome, side_by_side, summary, timed};
use crate::{cuda, program, rocm, root, suites, vulkan, web};
use std::env;
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::OnceLock;

/// Default paths of the directory of golden cases, relative to the project, unless `ELINVAR_GOLDEN`
/// names one.
const GOLDEN: [&str; 2] = ["../golden", "../shared/golden"];

/// WebAssembly is compiled and run in the part that has this place, and only type-checked in the
/// others: compiling it takes as long as all programs of tests.
const WEB: usize = 0;

fn of_other_commits() -> Outcome {
    Outcome::Skipped("WebAssembly runs with the first part alone; `wasm` is its type check".into())
}

/// Runs all steps; on devices in software everything, or a part that is another for other commits.
pub fn test(all: bool) -> ExitCode {
    let part = match (all, Part::asked()) {
        (true, _) => Part::ALL,
        (false, Ok(asked)) => asked.unwrap_or_else(Part::of_commit),
        (false, Err(why)) => {
            eprintln!("xtask: {why}");
            return ExitCode::from(2);
        }
    };
    println!("{}", part.sentence());
    vulkan::install();
    // The programs take longest to build, and the compiler often leaves a core idle.
    let programs = Beside::start(&mut program::build());
    let mut rows = Vec::new();
    let mut step = |name: &str, run: &dyn Fn() -> Outcome| rows.push(timed(name, run));
    step("format", &|| cargo(&["fmt", "--all", "--check"], &[]));
    step("clippy", &|| {
        cargo(&["clippy", "--workspace", "--all-features", "--all-targets", "--", "-D", "warnings"], &[])
    });
    step("docs", &|| {
        let vars = [vec![("RUSTDOCFLAGS", "-D warnings")], clippys_checks()].concat();
        cargo(&["doc", "--workspace", "--all-features", "--no-deps"], &vars)
    });
    step("documentation", &crate::docs::check);
    // Tests that wait for processes or for one thread leave time to compile what runs last.
    let modules = part.has(WEB).then(web::build).flatten().map(|mut command| Beside::start(&mut command));
    step("tests", &|| suites::run(part));
    // All other steps compile with all features, these programs with none.
    step("programs", &|| programs.ended_without_warnings());
    let without = || match part.has(WEB) {
        true => Outcome::Skipped("nothing compiles it here; `wasm` says what is missing".into()),
        false => of_other_commits(),
    };
    step("web, modules", &|| modules.as_ref().map_or_else(without, Beside::ended));
    rows.extend(in_processes(part));
    // Alone: a page has a time limit for what it shows.
    rows.push(timed("web", &|| if part.has(WEB) { web::page_in_browser() } else { of_other_commits() }));
    println!("\n{}", part.sentence());
    summary(&rows)
}

/// The steps that run the programs, each in a process of its own, side by side.
fn in_processes(part: Part) -> Vec<Row> {
    let command = |step: &Step| {
        let mut xtask = Command::new(env::current_exe().map_err(|e| e.to_string())?);
        xtask.args(["step", step.name]).env(part::VARIABLE, part.text());
        Ok((step.name.to_string(), xtask))
    };
    match steps().iter().map(command).collect::<Result<Vec<_>, String>>() {
        Ok(commands) => side_by_side(commands, read_outcome),
        Err(why) => vec![timed("steps", &|| Outcome::Failed(why.clone()))],
    }
}

/// Runs one of these steps.
pub fn step(name: &str) -> ExitCode {
    match steps().into_iter().find(|step| step.name == name) {
        Some(step) => end_with(&(step.run)()),
        None => {
            let names: Vec<&str> = steps().iter().map(|step| step.name).collect();
            eprintln!("xtask: no step {name}; there are: {}", names.join("; "));
            ExitCode::from(2)
        }
    }
}

/// What runs the programs, or checks what no other step compiles.
struct Step {
    name: &'static str,
    run: Box<dyn Fn() -> Outcome>,
}

/// All of them; those that take longest come first.
fn steps() -> Vec<Step> {
    let mut all = Vec::new();
    let mut step = |name, run: Box<dyn Fn() -> Outcome>| all.push(Step { name, run });
    step("same weights", Box::new(same_weights));
    // One pass is both, where the layer is there.
    let is_validated = vulkan::layer().is_none();
    step(
        if is_validated { "vulkan, validated" } else { "vulkan" },
        Box::new(move || vulkan::there().unwrap_or_else(|| vulkan_on_golden(is_validated))),
    );
    if !is_validated {
        step(
            "vulkan, validated",
            Box::new(|| vulkan::there().or_else(vulkan::layer).expect("it is missing")),
        );
    }
    step("apple, check", Box::new(crate::apple::check));
    step("aarch64, check", Box::new(crate::arm::check));
    // The tests of the GPU backend, which ran before, are skipped by themselves without a device.
    step(
        "vulkan, kernels watched",
        Box::new(|| vulkan::there().or_else(vulkan::layer).unwrap_or_else(watch_kernels)),
    );
    // Those tests draw calls of each kind of work; the program, of linear algebra and Fourier
    // transforms, too.
    step(
        "vulkan, random calls",
        Box::new(|| vulkan::there().unwrap_or_else(|| some_random("vulkan:0", 10, &[vulkan::UNOPTIMIZED]))),
    );
    step("capabilities", Box::new(crate::capabilities::check));
    step(
        "wasm",
        Box::new(|| match Part::of_step() {
            Ok(part) if part.has(WEB) => web::conformance(),
            Ok(_) => web::check(),
            Err(why) => Outcome::Failed(why),
        }),
    );
    step("webgpu", Box::new(|| vulkan::there().unwrap_or_else(webgpu_on_golden)));
    step("cuda", Box::new(|| cuda::there().unwrap_or_else(|| on_golden("cuda:0", &[]))));
    step("cuda, emulated", Box::new(|| emulated(cuda::emulated(), |vars| on_golden("cuda:0", vars))));
    step(
        "cuda, emulated, random calls",
        Box::new(|| emulated(cuda::emulated(), |vars| some_random("cuda:0", 40, vars))),
    );
    for (arch, sample, calls) in [
        (rocm::ARCHS[0], "rocm, emulated gfx942", "rocm, emulated gfx942, random calls"),
        (rocm::ARCHS[1], "rocm, emulated gfx1100", "rocm, emulated gfx1100, random calls"),
    ] {
        step(
            sample,
            Box::new(move || emulated(rocm::emulated(arch), |vars| conformance("rocm:0", &[], vars))),
        );
        step(calls, Box::new(move || emulated(rocm::emulated(arch), |vars| some_random("rocm:0", 5, vars))));
    }
    step("golden sample", Box::new(|| conformance("reference", &[], &[])));
    step("golden cases", Box::new(|| on_golden("reference", &[])));
    for isa in &ISAS {
        step(isa.golden, Box::new(|| isa.on(|vars| on_golden("cpu", vars))));
        // Optimised, as users run it; the tests before are debug builds, and take other code paths
        // for some formulas.
        step(isa.random, Box::new(|| isa.on(|vars| random("cpu", 0..40, vars))));
    }
    // Without kernels the reference does all the work: a sample sees that it is asked.
    step("cpu, plain", Box::new(|| conformance("cpu", &[], &[(ISA, "plain")])));
    step("cpu, maps put off", Box::new(|| on_golden("cpu", &[(FUSE, "0")])));
    step(
        "program, no features",
        Box::new(|| {
            program::is_small()
                .and_then(|()| program::says_what_is_missing())
                .map_or_else(Outcome::Failed, |()| Outcome::Passed)
        }),
    );
    all
}

/// Selects the number of elements from which it defers maps.
const FUSE: &str = "ELINVAR_FUSE_FROM";

/// Compares a device with the expected results and, bit for bit, with the reference.
fn conformance(device: &str, args: &[&str], vars: &[(&str, &str)]) -> Outcome {
    suite(device, args, vars).map_or_else(Outcome::Failed, |mut suite| ended(&mut suite))
}

/// Compares so many random calls of each kind with the reference, and no cases.
fn random(device: &str, calls: Range<usize>, vars: &[(&str, &str)]) -> Outcome {
    let (count, first) = (calls.len().to_string(), calls.start.to_string());
    conformance(device, &["--kind", "all", "--random", &count, "--round", &first], vars)
}

/// The same on a device in software: the part of these calls that is asked for.
fn some_random(device: &str, calls: usize, vars: &[(&str, &str)]) -> Outcome {
    Part::of_step().map_or_else(Outcome::Failed, |part| random(device, part.rounds(calls), vars))
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

/// The part of all golden cases, or without them of the sample inside the program.
fn vulkan_on_golden(validated: bool) -> Outcome {
    let part = match Part::of_step() {
        Ok(part) => part.text(),
        Err(why) => return Outcome::Failed(why),
    };
    let validation = validated.then_some((vulkan::VALIDATE, "1"));
    let vars: Vec<_> = [vulkan::UNOPTIMIZED].into_iter().chain(validation).collect();
    match golden() {
        Ok(dir) => in_parts("vulkan:0", &["--every", &part, "--golden", &dir.to_string_lossy()], &vars),
        Err(Outcome::Skipped(_)) => in_parts("vulkan:0", &["--every", &part], &vars),
        Err(outcome) => outcome,
    }
}

/// A part of the golden cases on WebGPU, over the same device. By the program that the tests have
/// built with all features: `wgpu` takes longer to optimise than this takes to run.
fn webgpu_on_golden() -> Outcome {
    const PART: &str = "1/21";
    let run = || {
        let dir = golden()?;
        let mut lab = program::lab_with_all_features().map_err(Outcome::Failed)?;
        let every = Part::of_step().map_err(Outcome::Failed)?.text();
        lab.args(["conformance", "--device", "webgpu:0", "--part", PART, "--every", &every, "--golden"])
            .arg(dir);
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
    let watched = |part: Part| {
        let ops = OPS.iter().enumerate().filter(|(place, _)| part.has(*place));
        in_parts("vulkan:0", &ops.flat_map(|(_, op)| ["--op", op]).collect::<Vec<_>>(), &vars)
    };
    Part::of_step().map_or_else(Outcome::Failed, watched)
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

/// Variables by which Cargo takes for documentation what `cargo clippy` has just checked, instead
/// of checking all crates again: those that Clippy sets itself (`src/main.rs` of Clippy). Without
/// Clippy's compiler, or where it sets others, the crates are checked twice.
fn clippys_checks() -> Vec<(&'static str, &'static str)> {
    static DRIVER: OnceLock<Option<String>> = OnceLock::new();
    let driver = DRIVER.get_or_init(|| {
        let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let o = Command::new(rustc).args(["--print", "sysroot"]).output().ok()?;
        let sysroot = PathBuf::from(String::from_utf8(o.stdout).ok()?.trim());
        let driver = sysroot.join("bin").join("clippy-driver").with_extension(env::consts::EXE_EXTENSION);
        driver.is_file().then(|| driver.to_str().map(Into::into))?
    });
    let args = ("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
    driver.iter().flat_map(|driver| [("RUSTC_WORKSPACE_WRAPPER", driver.as_str()), args]).collect()
}

fn cargo(args: &[&str], vars: &[(&str, &str)]) -> Outcome {
    ended(crate::cargo(args).envs(vars.iter().copied()))
}
