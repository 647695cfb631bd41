//! `cargo xtask web`: the page that trains in a browser, as a folder to serve.
//! `cargo xtask browser`: its tests, and a conformance sample under Node.
//!
//! `web` is a workspace of its own, compiled for WebAssembly: its target directory is not that of
//! other builds, and nothing of it is compiled without these commands.

use crate::cross::{self, Std, runs, standard_library, variable};
use crate::program;
use crate::python::target;
use crate::same_weights::weights;
use crate::step::{Outcome, Scratch, ended, summary, timed};
use crate::{cargo, root};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

const TARGET: &str = "wasm32-unknown-unknown";
/// Debian's linker, of the LLVM that its compiler has.
const LINKER: &str = "wasm-ld-22";
const COMPILER: [&str; 3] = ["rustc-web", "rust-web-src", "lld-22"];
const BROWSER: [&str; 1] = ["chromium"];
const CHROMIUM: &str = "/usr/bin/chromium";
/// What drives the browser. Without a browser of its own.
const PLAYWRIGHT: &str = "playwright-core@1.64.1";
/// The vector instructions; and a stack like that of other targets' threads, as the linker's own is
/// smaller.
const FLAGS: &str = "-D warnings -C target-feature=+simd128 -C link-arg=-zstack-size=4194304";
/// Random calls of each kind of work.
const RANDOM_CALLS: &str = "20";
/// What a visitor loads at most, compressed.
const BUDGET: u64 = 4 << 20;

/// Builds the page for visitors.
pub fn web() -> ExitCode {
    cross::install(&COMPILER);
    match missing().map_or_else(|| site(&[]), Err) {
        Ok(site) => {
            println!("{}: a folder to serve, such as by `python3 -m http.server`", site.display());
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the tests alone.
pub fn browser() -> ExitCode {
    install();
    summary(&[timed("wasm", &conformance), timed("web", &page_in_browser)])
}

/// Installs what the tests need, where that is possible.
pub(crate) fn install() {
    cross::install(&COMPILER);
    cross::install(&BROWSER);
}

/// `cpu` and `reference` in WebAssembly, by Node.
pub(crate) fn conformance() -> Outcome {
    if let Some(why) = missing().or_else(no_node) {
        return Outcome::Skipped(why);
    }
    run_conformance().map_or_else(Outcome::Failed, |()| Outcome::Passed)
}

/// The types of both, and no warnings: what the compiler says without writing any code.
pub(crate) fn check() -> Outcome {
    match (missing(), home()) {
        (Some(why), _) => Outcome::Skipped(why),
        (None, Ok(home)) => ended(&mut compiler("check", &home, &TESTED)),
        (None, Err(why)) => Outcome::Failed(why),
    }
}

/// The page in a browser.
pub(crate) fn page_in_browser() -> Outcome {
    if let Some(why) = missing().or_else(no_node) {
        return Outcome::Skipped(why);
    }
    if !Path::new(CHROMIUM).is_file() {
        return Outcome::Skipped(format!("no {CHROMIUM}; on Debian: apt-get install chromium"));
    }
    let modules = match playwright() {
        Ok(modules) => modules,
        Err(why) => return Outcome::Skipped(why),
    };
    let site = match expected_is_native().and_then(|()| site(&["elinvar-web-conformance"])) {
        Ok(site) => site,
        Err(why) => return Outcome::Failed(why),
    };
    let test = root().join("web/test/browser.mjs");
    ended(Command::new("node").arg(test).args([&site, Path::new(CHROMIUM), &modules]))
}

/// What is missing to compile it, and how to get it.
fn missing() -> Option<String> {
    let debian = format!("on Debian: apt-get install {}", COMPILER.join(" "));
    match standard_library(TARGET) {
        None => Some(format!(
            "no standard library of {TARGET}; `rustup target add {TARGET}` gets it, or {debian}"
        )),
        Some(Std::Source(_)) if !runs(LINKER) => Some(format!("no {LINKER}; {debian}")),
        Some(Std::Installed | Std::Source(_)) => None,
    }
}

fn no_node() -> Option<String> {
    (!runs("node")).then(|| "no node; on Debian: apt-get install nodejs".into())
}

/// The directory of these builds.
fn home() -> Result<PathBuf, String> {
    Ok(target()?.join("web"))
}

/// What the steps of a test run need, in one command, so that what they share is compiled with the
/// same features.
const TESTED: [&str; 2] = ["elinvar-web-conformance", "elinvar-web"];

/// The command that compiles what the steps of a test run need, if it can be compiled.
pub(crate) fn build() -> Option<Command> {
    if missing().is_some() || no_node().is_some() {
        return None;
    }
    // What is wrong, the steps say.
    home().ok().map(|home| compiler("build", &home, &TESTED))
}

/// Compiles packages of the workspace `web`; returns the directory of the modules.
fn compile(packages: &[&str]) -> Result<PathBuf, String> {
    let home = home()?;
    done(&mut compiler("build", &home, packages))?;
    Ok(home.join(TARGET).join("release"))
}

/// The command that builds packages of the workspace `web` into this directory, or checks them.
fn compiler(what: &str, home: &Path, packages: &[&str]) -> Command {
    let mut command = cargo(&[what, "--release", "--target", TARGET]);
    command.arg("--manifest-path").arg(root().join("web/Cargo.toml"));
    for package in packages {
        command.args(["--package", package]);
    }
    command.env("CARGO_TARGET_DIR", home).env("RUSTFLAGS", FLAGS);
    if let Some(Std::Source(rustc)) = standard_library(TARGET) {
        // Of the features, backtraces have no use here.
        command.args(["-Zbuild-std=std,panic_abort", "-Zbuild-std-features="]);
        command.env("RUSTC_BOOTSTRAP", "1").env("RUSTC", rustc).env(variable(TARGET, "LINKER"), LINKER);
    }
    command
}

/// Runs a command.
fn done(command: &mut Command) -> Result<(), String> {
    match ended(command) {
        Outcome::Passed => Ok(()),
        Outcome::Failed(why) | Outcome::Skipped(why) => {
            Err(format!("{}: {why}; what it says is above", command.get_program().display()))
        }
    }
}

/// The page as a folder: what is written in `web/page`, and the compiled module.
fn site(beside: &[&str]) -> Result<PathBuf, String> {
    let home = home()?;
    let folder = home.join("site");
    let _ = fs::remove_dir_all(&folder);
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    fs::create_dir_all(folder.join("engine")).map_err(failed)?;
    for file in fs::read_dir(root().join("web/page")).map_err(failed)? {
        let file = file.map_err(failed)?;
        fs::copy(file.path(), folder.join(file.file_name())).map_err(failed)?;
    }
    let modules = compile(&[&["elinvar-web"][..], beside].concat())?;
    // For this machine, by the compiler of everything else.
    let mut bindgen = cargo(&["run", "--package", "elinvar-web-bindgen"]);
    bindgen
        .arg("--manifest-path")
        .arg(root().join("web/Cargo.toml"))
        .env("CARGO_TARGET_DIR", home.join("host"));
    bindgen.arg("--").arg(modules.join("elinvar_web.wasm")).arg(folder.join("engine"));
    done(&mut bindgen)?;
    let size = compressed(&folder)?;
    println!("{} KB, compressed", size / 1000);
    if size > BUDGET { Err(format!("the page has {size} bytes, of {BUDGET}")) } else { Ok(folder) }
}

/// The bytes of all files, compressed as servers do it; as they are where there is no gzip.
fn compressed(folder: &Path) -> Result<u64, String> {
    let mut sum = 0;
    for file in fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))? {
        let path = file.map_err(|e| format!("{}: {e}", folder.display()))?.path();
        if path.is_dir() {
            sum += compressed(&path)?;
            continue;
        }
        let gzip = Command::new("gzip").arg("-9c").arg(&path).stderr(Stdio::null()).output();
        let plain = || fs::metadata(&path).map_or(0, |m| m.len());
        sum += gzip.ok().filter(|o| o.status.success()).map_or_else(plain, |o| o.stdout.len() as u64);
    }
    Ok(sum)
}

fn run_conformance() -> Result<(), String> {
    // With the page, which a later step tests.
    let modules = compile(&TESTED)?;
    let mut node = Command::new("node");
    node.arg(root().join("web/test/conformance.mjs"))
        .arg(modules.join("elinvar_web_conformance.wasm"))
        .arg(RANDOM_CALLS);
    let output = node.output().map_err(|e| format!("node did not start: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}{}", String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        return Err(format!("not the same bits, or it ended early: {}", output.status));
    }
    let mut there: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("weights ")) {
        if let [model, _device, hash] = line.split(' ').collect::<Vec<_>>()[..] {
            there.entry(model).or_default().push(hash);
        }
    }
    let scratch = Scratch::new("web");
    for model in ["mlp", "cnn"] {
        let want = weights(&mut program::elinvar()?, &scratch, (model, "off"), "cpu", &[])?;
        let want = want.rsplit(' ').next().unwrap_or_default();
        let got = there.remove(model).unwrap_or_default();
        if got.len() != 2 || got.iter().any(|got| *got != want) {
            return Err(format!("{model}: weights {got:?}, and {want} by the program"));
        }
    }
    Ok(())
}

/// The hashes that the page shows are those of the native program.
fn expected_is_native() -> Result<(), String> {
    let path = root().join("web/page/expected.json");
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let rows: Vec<serde_json::Value> =
        serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    let scratch = Scratch::new("web-expected");
    for row in &rows {
        let mut elinvar = program::elinvar()?;
        elinvar.args(["train", "digits", "--quiet", "--device", "cpu", "--out"]).arg(&scratch.0);
        for name in ["model", "seed", "epochs", "batch"] {
            let value = row[name].as_str().map_or_else(|| row[name].to_string(), str::to_owned);
            elinvar.arg(format!("--{name}")).arg(value);
        }
        let output = elinvar.output().map_err(|e| format!("elinvar did not start: {e}"))?;
        let want = format!("weights sha256 {}", row["sha256"].as_str().unwrap_or_default());
        if String::from_utf8_lossy(&output.stdout).lines().last() != Some(&want) {
            return Err(format!("{}: not what `elinvar train digits` gives: {row}", path.display()));
        }
    }
    Ok(())
}

/// A folder with the package that drives the browser; ELINVAR_PLAYWRIGHT names another.
fn playwright() -> Result<PathBuf, String> {
    if let Some(folder) = std::env::var_os("ELINVAR_PLAYWRIGHT") {
        return Ok(folder.into());
    }
    let folder = home()?.join("playwright");
    if folder.join("node_modules/playwright-core").is_dir() {
        return Ok(folder);
    }
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let install = ["install", "--no-audit", "--no-fund", "--no-save", PLAYWRIGHT];
    match ended(Command::new("npm").args(install).current_dir(&folder)) {
        Outcome::Passed => Ok(folder),
        Outcome::Failed(why) | Outcome::Skipped(why) => {
            Err(format!("npm could not install {PLAYWRIGHT}: {why}"))
        }
    }
}
