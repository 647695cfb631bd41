//! `cargo xtask results`: pages of measurements, ours beside those of other libraries and of the
//! machine.
//!
//! `benchmarks/pages.json` lists the pages: which raw file each is made of, on which machine and
//! day. A page holds nothing that is not in its raw file, so all of them can be written anew at any
//! time, and `cargo xtask docs` checks that they are what this would write. What bounds the rows is
//! prose and stands in `docs/performance/log`.

mod gpu;
mod lines;
mod page;
mod target;

use crate::root;
use lines::Lines;
use serde::{Deserialize, Serialize};
use std::env;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

const USAGE: &str = "usage: cargo xtask results
       cargo xtask results --name NAME --page PAGE FILES...
       cargo xtask results --gpu FILE --page PAGE

  Without arguments: every page of benchmarks/ anew, from the raw files that lie beside it.

  NAME    the device in short, such as cpu-amd-zen4-2c: the raw lines are kept in benchmarks/NAME-DATE.jsonl
  PAGE    the page is benchmarks/PAGE.md, with a row in benchmarks/pages.json
  FILES   JSON lines: of `elinvar-lab bench --all` and `cargo xtask footprint`, of other libraries, of the
          machine's limits. Of lines about the same, the last counts
  FILE    what the folder of `cargo xtask bundle` wrote on a machine with an NVIDIA GPU; it is kept, too";

/// The folder of raw files and pages.
const DIR: &str = "benchmarks";
/// The list of pages in it.
const LIST: &str = "pages.json";
/// The page that links to all others.
const INDEX: &str = "README.md";

/// Reads files of lines, keeps them, and writes the page; or writes all pages anew.
pub fn results(args: &[&str]) -> ExitCode {
    let done = match args {
        [] => write_all(),
        ["--gpu", file, "--page", page] => add_gpu(file, page),
        ["--name", name, "--page", page, files @ ..] if !files.is_empty() => add(name, page, files),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
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

/// A page of `benchmarks/`: a row of the list.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Entry {
    /// The page's file, without `.md`.
    page: String,
    title: String,
    /// Of a page of a processor: what measured. A GPU's file says it itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    machine: String,
    date: String,
    /// The file of raw lines beside the page: `.jsonl` of a processor, `.json` of a GPU.
    raw: String,
    /// The file of `docs/performance/log` that explains the rows.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    log: String,
}

/// How many rows of a table there are, how many are ahead, and the geometric mean of the ratios.
pub struct Score {
    pub title: String,
    pub rows: usize,
    pub ahead: usize,
    pub mean: f64,
}

impl Entry {
    fn named(page: &str, raw: String, date: String, machine: String) -> Self {
        Entry { page: page.into(), title: page.into(), machine, date, raw, log: String::new() }
    }
    /// The page, and what the index says of it.
    fn page(&self) -> Result<(String, Vec<Score>), String> {
        let path = root().join(DIR).join(&self.raw);
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let at = |e: String| format!("{}: {e}", path.display());
        let log = match self.log.as_str() {
            "" => String::new(),
            log => format!("What bounds the rows: [log](../docs/performance/log/{log}).\n\n"),
        };
        if self.raw.ends_with(".json") {
            let run = gpu::Run::parse(&text).map_err(at)?;
            return Ok((run.page(&self.raw, &log), run.scores()));
        }
        let mut lines = Lines::default();
        lines.read(&self.raw, &text)?;
        let (title, machine, date) = (self.title.clone(), self.machine.clone(), self.date.clone());
        let head = page::Head { title, machine, date, raw: self.raw.clone(), log };
        page::page(&lines, &head).map_err(at)
    }
}

/// The files that are generated, by their names in `benchmarks/`.
pub fn generated() -> Result<Vec<(String, String)>, String> {
    let entries = entries()?;
    let (mut files, mut rows) = (Vec::new(), String::new());
    for entry in &entries {
        let (text, scores) = entry.page()?;
        for Score { title, rows: all, ahead, mean } in scores {
            rows += &format!(
                "| [{}]({}.md){title} | {} | {all} | {ahead} | {mean:.2} |\n",
                entry.title, entry.page, entry.date
            );
        }
        files.push((format!("{}.md", entry.page), text));
    }
    let index = format!(
        "# Benchmarks\n\n\
         Generated by `cargo xtask results` from the raw files beside it; [how it is measured](../docs/performance/method.md). \
         *Ahead*: rows that take no longer than the best of the other libraries that were measured. *Mean*: the geometric \
         mean of *peer / ours*; above 1 ours is faster.\n\n\
         | page | date | rows compared | ahead | mean |\n|---|---|---|---|---|\n{rows}\n\
         What the training runs end with: [training.md](training.md).\n"
    );
    files.push((INDEX.into(), index));
    Ok(files)
}

fn entries() -> Result<Vec<Entry>, String> {
    let path = root().join(DIR).join(LIST);
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))
}

/// Files of `benchmarks/` that are not what the generator writes.
pub fn stale() -> Result<Vec<String>, String> {
    let differs = |(name, text): &(String, String)| {
        fs::read_to_string(root().join(DIR).join(name)).ok().as_ref() != Some(text)
    };
    Ok(generated()?.into_iter().filter(differs).map(|(name, _)| format!("{DIR}/{name}")).collect())
}

fn write_all() -> Result<String, String> {
    let files = generated()?;
    for (name, text) in &files {
        put(name, text)?;
    }
    Ok(format!("{} pages in {DIR}/", files.len()))
}

/// Puts a page into the list, in the place of the one that it follows, and writes all.
fn list(entry: Entry) -> Result<String, String> {
    let mut all = entries()?;
    let said = format!("{DIR}/{}.md and {}", entry.page, entry.raw);
    match all.iter_mut().find(|other| other.page == entry.page) {
        Some(other) => *other = Entry { title: other.title.clone(), log: other.log.clone(), ..entry },
        None => all.push(entry),
    }
    put(LIST, &(serde_json::to_string_pretty(&all).map_err(|e| e.to_string())? + "\n"))?;
    write_all()?;
    Ok(said)
}

fn is_name(part: &str) -> Result<(), String> {
    if part.is_empty() || !part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
        return Err(format!(
            "\"{part}\" is to be part of a file's name: letters, digits, - _ and . are fine"
        ));
    }
    Ok(())
}

fn add(name: &str, page: &str, files: &[&str]) -> Result<String, String> {
    is_name(name)?;
    is_name(page)?;
    let mut lines = Lines::default();
    for file in files {
        // A path is meant from where the command was given, which cargo keeps as the working
        // directory.
        let text = fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
        lines.read(file, &text)?;
    }
    let date = date(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() / 86400));
    let raw = format!("{name}-{date}.jsonl");
    put(&raw, &lines.text())?;
    list(Entry::named(page, raw, date, machine()))
}

/// The page of what a machine with an NVIDIA GPU found out, and its file beside it.
fn add_gpu(file: &str, page: &str) -> Result<String, String> {
    is_name(page)?;
    let text = fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
    let run = gpu::Run::parse(&text).map_err(|e| format!("{file}: {e}"))?;
    let raw = Path::new(file).file_name().and_then(|n| n.to_str()).ok_or("the file's name is no text")?;
    put(raw, &text)?;
    list(Entry::named(page, raw.into(), run.day().into(), String::new()))
}

fn put(name: &str, text: &str) -> Result<(), String> {
    let path = root().join(DIR).join(name);
    fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
}

/// Processor, number of them, memory: of the machine on which the page is made, which should be the
/// one that measured.
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
            let e = add(name, page, &["f"]).unwrap_err();
            assert!(e.contains("part of a file's name"), "{e}");
        }
    }

    #[test]
    fn every_page_can_be_written_from_its_raw_file() {
        let files = generated().unwrap();
        assert_eq!(files.len(), entries().unwrap().len() + 1);
        let (name, index) = files.last().unwrap();
        assert_eq!(name, INDEX);
        for entry in entries().unwrap() {
            assert!(index.contains(&format!("[{}]({}.md)", entry.title, entry.page)), "{index}");
        }
    }
}
