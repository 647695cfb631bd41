//! `cargo xtask parity` and `cargo xtask minilm`: comparisons with PyTorch, by the scripts in
//! `tools/`.
//!
//! PyTorch is installed in a virtual environment of the project's own, in the target directory.
//! `ELINVAR_PYTHON` names a Python that has the packages already; then nothing is installed.

use crate::{cargo, root};
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The error is a sentence with the cause, and a remedy if there is one.
type Result<T> = std::result::Result<T, String>;

/// The index of PyTorch for the CPU alone, which is a tenth of the default package's size.
const CPU_INDEX: &str = "https://download.pytorch.org/whl/cpu";

/// Python is called `python3` on most systems and `python` on some.
const PYTHONS: [&str; 2] = ["python3", "python"];

/// Compares training, layer by layer and optimiser by optimiser.
pub fn parity() -> ExitCode {
    exit(run("parity.py", &["--package", "elinvar-nn", "--example", "parity"], "examples/parity"))
}

/// Compares the embeddings of a sentence-embedding model.
pub fn minilm() -> ExitCode {
    exit(run("minilm.py", &["--package", "elinvar-cli", "--features", "tokenizers"], "elinvar"))
}

fn exit(ran: Result<ExitCode>) -> ExitCode {
    ran.unwrap_or_else(|fault| {
        eprintln!("xtask: {fault}");
        ExitCode::FAILURE
    })
}

/// Builds a program and passes it to a script, whose exit status is returned.
fn run(script: &str, build: &[&str], program: &str) -> Result<ExitCode> {
    let target = target()?;
    let python = python(&target)?;
    let built = cargo(&["build", "--release"]).args(build).status();
    let built = built.map_err(|e| format!("cargo did not start: {e}"))?;
    if !built.success() {
        return Err(format!("{program} could not be built ({built}); what cargo says is above"));
    }
    let program = target.join("release").join(program).with_extension(env::consts::EXE_EXTENSION);
    if !program.is_file() {
        return Err(format!("the build left no {}; is build.target set?", program.display()));
    }
    let script = root().join("tools").join(script);
    let status = command(&python).arg(&script).arg(program).status().map_err(|e| not_started(&python, &e))?;
    // Without a code, it was ended by a signal.
    Ok(status.code().map_or(ExitCode::FAILURE, |code| ExitCode::from(u8::try_from(code).unwrap_or(1))))
}

/// The target directory: this program is in its `debug`.
pub(crate) fn target() -> Result<PathBuf> {
    let own = env::current_exe().map_err(|e| format!("the path of this program is not known: {e}"))?;
    let target = own.ancestors().nth(2);
    Ok(target.ok_or_else(|| format!("{} lies in no target directory", own.display()))?.to_owned())
}

/// A Python with the packages of `tools/requirements.txt`.
fn python(target: &Path) -> Result<PathBuf> {
    if let Some(python) = env::var_os("ELINVAR_PYTHON") {
        return Ok(python.into());
    }
    let home = target.join("python");
    let python = match cfg!(windows) {
        true => home.join("Scripts/python.exe"),
        false => home.join("bin/python"),
    };
    if !python.is_file() {
        let system = PYTHONS.map(PathBuf::from).into_iter().find(|p| works(p)).ok_or(
            "there is no python3 here; install Python 3.10 or later, or let ELINVAR_PYTHON name one that has \
             what tools/requirements.txt lists",
        )?;
        eprintln!("xtask: installing PyTorch and what else it takes into {}, once", home.display());
        if !python_run(&system, &[OsStr::new("-m"), "venv".as_ref(), home.as_ref()])? {
            // An incomplete environment would be taken for a complete one the next time.
            _ = fs::remove_dir_all(&home);
            return Err(format!(
                "{} made no virtual environment in {}; some systems have its module apart, as python3-venv",
                system.display(),
                home.display()
            ));
        }
    }
    install(&python)?;
    Ok(python)
}

/// Installs missing packages; without any, it does not use the network.
fn install(python: &Path) -> Result<()> {
    let pip = |args: &[&OsStr]| {
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"].map(OsStr::new);
        python_run(python, &[&pip[..], args].concat())
    };
    let list = root().join("tools/requirements.txt");
    // One retry: a network without this index will not have it later.
    if !pip(&["--retries", "1", "--index-url", CPU_INDEX, "torch"].map(OsStr::new))? {
        eprintln!("xtask: {CPU_INDEX} gave no torch; trying the usual index");
    }
    if pip(&["--requirement".as_ref(), list.as_ref()])? {
        return Ok(());
    }
    Err(format!(
        "pip could not install what {} lists; without a network, let ELINVAR_PYTHON name a Python that has it",
        list.display()
    ))
}

fn works(python: &Path) -> bool {
    command(python).arg("--version").output().is_ok_and(|out| out.status.success())
}

/// Did it succeed?
fn python_run(python: &Path, args: &[&OsStr]) -> Result<bool> {
    let status = command(python).args(args).status().map_err(|e| not_started(python, &e))?;
    Ok(status.success())
}

fn command(python: &Path) -> Command {
    let mut command = Command::new(python);
    command.current_dir(root());
    command
}

fn not_started(python: &Path, e: &std::io::Error) -> String {
    format!("{} did not start: {e}", python.display())
}
