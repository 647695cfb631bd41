//! `cargo xtask bundle`: everything that a machine with a GPU of NVIDIA's or AMD's, and without
//! Rust, needs to check and measure this version.
//!
//! A folder, and its archive: the programs, the golden cases, a script that runs everything in less
//! than nine minutes and writes one file, and the script that measures PyTorch, where that is
//! installed.

use crate::step::Outcome;
use crate::test::golden;
use crate::{program, root};
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Whose GPUs a bundle is for.
#[derive(Clone, Copy)]
pub struct Vendor {
    /// The folder's name.
    name: &'static str,
    /// The device that is checked, which the script reads from a file.
    device: &'static str,
}

/// NVIDIA's GPUs.
pub const NVIDIA: Vendor = Vendor { name: "elinvar-cuda", device: "cuda:0" };
/// AMD's GPUs.
pub const AMD: Vendor = Vendor { name: "elinvar-rocm", device: "rocm:0" };

/// Maximum bytes of the archive: the limit of a mail or a small upload.
const MOST: u64 = 60 << 20;
/// The programs.
const PROGRAMS: [&str; 2] = ["elinvar", "elinvar-lab"];
/// Scripts of `tools/bundle`.
const SCRIPTS: [&str; 3] = ["run.sh", "torch_rows.py", "torch_models.py"];

/// Makes the bundle, and prints its path.
pub fn bundle(vendor: Vendor) -> ExitCode {
    match make(vendor) {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}

fn make(Vendor { name, device }: Vendor) -> Result<String, String> {
    let golden = match golden() {
        Ok(dir) => dir,
        Err(Outcome::Failed(why) | Outcome::Skipped(why)) => return Err(why),
        Err(Outcome::Passed) => unreachable!("a directory that was found is given"),
    };
    let built = program::built_to_measure()?;
    let all = crate::python::target()?.join("bundle");
    let dir = all.join(name);
    if dir.exists() {
        fs::remove_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    }
    for program in PROGRAMS {
        copy(&built.join(program), &dir.join(program))?;
    }
    for script in SCRIPTS {
        copy(&root().join("tools/bundle").join(script), &dir.join(script))?;
    }
    let named = dir.join("device");
    fs::write(&named, format!("{device}\n")).map_err(|e| format!("{}: {e}", named.display()))?;
    for entry in fs::read_dir(&golden).map_err(|e| format!("{}: {e}", golden.display()))? {
        let entry = entry.map_err(|e| e.to_string())?;
        if entry.path().is_file() {
            copy(&entry.path(), &dir.join("golden").join(entry.file_name()))?;
        }
    }
    let packed = all.join(format!("{name}.tar.gz"));
    let tar = Command::new("tar").arg("-czf").arg(&packed).arg("-C").arg(&all).arg(name).status();
    let tar = tar.map_err(|e| format!("tar did not start: {e}"))?;
    let size = fs::metadata(&packed).map_or(0, |m| m.len());
    if !tar.success() || size == 0 {
        return Err(format!("{} could not be packed ({tar})", packed.display()));
    }
    if size > MOST {
        return Err(format!("{} has {size} bytes, more than {MOST}", packed.display()));
    }
    let mib = size as f64 / f64::from(1 << 20);
    Ok(format!("{} ({mib:.1} MiB): unpack it there, and run {name}/run.sh", packed.display()))
}

/// Copies a file with permissions for others to read and run it.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let parent = to.parent().unwrap_or(to);
    fs::create_dir_all(parent).map_err(|e| format!("{}: {e}", parent.display()))?;
    fs::copy(from, to).map(drop).map_err(|e| format!("{}: {e}", from.display()))
}
