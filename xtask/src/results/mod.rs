//! `cargo xtask results`: a page of measurements, ours beside those of other libraries and of the machine.

mod gpu;
mod lines;
mod page;
mod target;

use crate::root;
use lines::Lines;
use std::env;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

const USAGE: &str = "usage: cargo xtask results --name NAME [--page PAGE] FILES...
       cargo xtask results --gpu FILE --page PAGE

  NAME    the device in short, such as cpu-amd-zen4-2c: the raw lines are kept in results/NAME-DATE.jsonl
  PAGE    the page is results/PAGE.md, and what bounds its rows is read from PAGE-bounds.md beside it; without it README.md, and
          bounds.md
  FILES   JSON lines: of `elinvar bench --all` and `cargo xtask footprint`, of other libraries, of the machine's limits.
          Of lines about the same, the last counts
  FILE    what the folder of `cargo xtask bundle` wrote on a machine with an NVIDIA GPU; it is kept in results/, too";

/// Reads files of lines, keeps them, and writes the page.
pub fn results(args: &[&str]) -> ExitCode {
    let (name, place, files) = match args {
        ["--gpu", file, "--page", page] => return told(write_gpu(file, &Place::named(page))),
        ["--name", name, "--page", page, files @ ..] => (name, Place::named(page), files),
        ["--name", name, files @ ..] => (name, Place::first(), files),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    if files.is_empty() {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    }
    told(write(name, &place, files))
}

/// Says what came of it.
fn told(done: Result<String, String>) -> ExitCode {
    match done {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(fault) => {
            eprintln!("xtask: {fault}");
            ExitCode::FAILURE
        }
    }
}

/// Where a page is, in `results/`.
struct Place {
    page: String,
    /// What bounds its rows, as somebody found out.
    bounds: String,
}

impl Place {
    /// What is seen first.
    fn first() -> Self {
        Place { page: "README.md".into(), bounds: "bounds.md".into() }
    }
    fn named(name: &str) -> Self {
        Place { page: format!("{name}.md"), bounds: format!("{name}-bounds.md") }
    }
}

fn write(name: &str, place: &Place, files: &[&str]) -> Result<String, String> {
    for part in [name, &place.page] {
        if part.is_empty() || !part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
            return Err(format!(
                "\"{part}\" is to be part of a file's name: letters, digits, - _ and . are fine"
            ));
        }
    }
    let mut lines = Lines::default();
    for file in files {
        // A path is meant from where the command was given, which cargo keeps as the working directory.
        let text = fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
        lines.read(file, &text)?;
    }
    let date = date(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() / 86400));
    let (dir, raw) = (root().join("results"), format!("{name}-{date}.jsonl"));
    let bounds = fs::read_to_string(dir.join(&place.bounds)).unwrap_or_default();
    let page = page::page(&lines, &page::Head { machine: machine(), date, raw: raw.clone(), bounds })?;
    fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    put(&dir.join(&raw), &lines.text())?;
    put(&dir.join(&place.page), &page)?;
    Ok(format!("{} and {raw}", dir.join(&place.page).display()))
}

/// The page of what a machine with an NVIDIA GPU found out, and its file beside it.
fn write_gpu(file: &str, place: &Place) -> Result<String, String> {
    let text = fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
    let run = gpu::Run::parse(&text).map_err(|e| format!("{file}: {e}"))?;
    let raw = Path::new(file).file_name().and_then(|n| n.to_str()).ok_or("the file's name is no text")?;
    let dir = root().join("results");
    let bounds = fs::read_to_string(dir.join(&place.bounds)).unwrap_or_default();
    put(&dir.join(raw), &text)?;
    put(&dir.join(&place.page), &run.page(raw, &bounds))?;
    Ok(format!("{} and {raw}, of {}", dir.join(&place.page).display(), run.day()))
}

fn put(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

/// Processor, number of them, memory: of the machine on which the page is made, which should be the one that measured.
fn machine() -> String {
    let field = |file: &str, name: &str| {
        let text = fs::read_to_string(file).ok()?;
        let line = text.lines().find(|l| l.split(':').next().is_some_and(|n| n.trim() == name))?;
        Some(line.split_once(':')?.1.trim().to_string())
    };
    let cpu = field("/proc/cpuinfo", "model name").unwrap_or_else(|| env::consts::ARCH.into());
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let kib = field("/proc/meminfo", "MemTotal").and_then(|m| m.split(' ').next()?.parse::<f64>().ok());
    let memory = kib.map_or_else(String::new, |kib| format!(", {:.0} GiB", kib / f64::from(1 << 20)));
    format!("{cpu}, {cores} cores{memory}, {}", env::consts::OS)
}

/// The day that lies so many days after 1970-01-01, in the Gregorian calendar.
fn date(days: u64) -> String {
    let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    let (mut day, mut year) = (days, 1970);
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    format!("{year}-{:02}-{:02}", month + 1, day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_as_the_calendar_does() {
        // date -u -d @$((DAYS * 86400)) +%F
        for (days, want) in [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (11016, "2000-02-29"),
            (19782, "2024-02-29"),
            (20088, "2024-12-31"),
            (20089, "2025-01-01"),
        ] {
            assert_eq!(date(days), want, "{days}");
        }
    }

    #[test]
    fn a_name_must_fit_a_file() {
        for (name, page) in [("../x", "y"), ("x", "../y"), ("", "y")] {
            let e = write(name, &Place::named(page), &["f"]).unwrap_err();
            assert!(e.contains("part of a file's name"), "{e}");
        }
    }
}
