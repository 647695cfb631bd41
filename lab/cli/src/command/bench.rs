//! `elinvar-lab bench`

use crate::args::Bench;
use elinvar::{Device, Error, ErrorKind, Result};
use elinvar_bench::{
    Counts, Figure, Model, OURS, Row, START, Term, VERSION, limits, memory_of, rows, threads,
};
use elinvar_cli_support::{Bar, Verdict};
use serde::Serialize;
use std::env;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};

/// Comma-separated texts, for scripts that run the benchmarks of several libraries.
const ONLY: &str = "BENCH_ONLY";

/// Prints a line for each row that is wanted.
pub fn run(args: &Bench, out: &mut dyn Write) -> Result<Verdict> {
    if args.count {
        let device = args.device.as_deref().map(Device::parse).transpose()?;
        write!(out, "{}", Counts::of(&models(&args.only)?, device.as_ref())?)?;
        return Ok(Verdict::Good);
    }
    let name = args.device.as_deref().unwrap_or("cpu");
    let device = elinvar_bench::device(name, args.threads.map(|n| n as usize))?;
    if let Some(workload) = &args.memory_of {
        writeln!(out, "{}", memory_of(workload, &device)?)?;
        return Ok(Verdict::Good);
    }
    let rows = wanted(&args.only)?;
    if args.profile {
        return profiles(&rows, &device, args.seconds, out);
    }
    if args.list {
        for row in &rows {
            writeln!(out, "{}", row.name())?;
        }
        return Ok(Verdict::Good);
    }
    let trained: Vec<&Row> = rows.iter().filter(|row| args.all && row.trains()).collect();
    let mut progress = Progress::new(rows.len() + trained.len());
    let mut verdict = Verdict::Good;
    for row in &rows {
        progress.next(&row.name());
        for variant in row.variants(&device) {
            match unharmed(|| row.measure(variant, &device, args.seconds)) {
                Ok(line) => progress.print(out, &line)?,
                // A device that cannot run a row has no line for it.
                Err(e) if e.kind() == ErrorKind::Unsupported => progress.say(&format!("left out: {e}")),
                Err(e) => {
                    progress.say(&format!("FAILED {} {}: {e}", variant.peer(), row.name()));
                    verdict = Verdict::Bad;
                }
            }
        }
    }
    if !trained.is_empty() {
        let start = held(START, &device)?;
        for row in trained {
            let workload = format!("peak_memory_{}", row.workload);
            progress.next(&workload);
            let value = ((held(&row.workload, &device)? - start) * 10.0).round() / 10.0;
            let threads = threads(&device);
            let figure = Figure { peer: OURS, version: VERSION, workload, value, unit: "MiB", threads };
            progress.print(out, &figure)?;
        }
    }
    Ok(verdict)
}

/// The models of these names; all, if there are none.
fn models(names: &[String]) -> Result<Vec<Model>> {
    if names.is_empty() {
        return Ok(Model::ALL.to_vec());
    }
    let of = |name: &String| {
        let found = Model::ALL.into_iter().find(|m| m.word() == name);
        found.ok_or_else(|| {
            let all = Model::ALL.map(Model::word).join(", ");
            Error::argument(format!("bench: no model {name} to count; there are {all}"))
        })
    };
    names.iter().map(of).collect()
}

/// Prints the profile of each row, and what it costs.
fn profiles(rows: &[Row], device: &Device, seconds: f64, out: &mut dyn Write) -> Result<Verdict> {
    let limits = limits(device)?;
    let (bytes, flops) = (limits.bytes_per_second / 1e9, limits.flops_per_second / 1e9);
    writeln!(out, "{device}: {bytes:.1} GB/s by a copy, {flops:.1} GFLOP/s by a product of f32")?;
    for row in rows {
        let (price, profile) = (row.price_of_profile(device, seconds)?, row.profiled(device)?);
        let (off, on) = (price.off * 1e3, price.on * 1e3);
        let more = (price.on / price.off - 1.0) * 100.0;
        writeln!(out, "\n{}: {off:.3} ms, {on:.3} ms with a profile ({more:+.1} %)", row.name())?;
        write!(out, "{}", profile.table(Some(&limits)))?;
        out.flush()?;
    }
    Ok(Verdict::Good)
}

/// The rows that the command line or the environment asks for.
fn wanted(only: &[String]) -> Result<Vec<Row>> {
    let mut terms: Vec<Term> = if only.is_empty() {
        let said = env::var(ONLY).unwrap_or_default();
        said.split(',').filter(|text| !text.is_empty()).map(|text| Term::Text(text.into())).collect()
    } else {
        only.iter().map(|text| Term::of(text)).collect()
    };
    if terms.is_empty() {
        terms.push(Term::Text(String::new()));
    }
    let mut rows = rows();
    if let Some(term) = terms.iter().find(|term| !rows.iter().any(|row| term.takes(row))) {
        return Err(Error::argument(format!(
            "bench: no row has {term}; `elinvar-lab bench --list` lists them"
        )));
    }
    rows.retain(|row| terms.iter().any(|term| term.takes(row)));
    Ok(rows)
}

/// The result of `measure`. A panic in one row does not end the others; the panic hook has printed
/// its message.
fn unharmed<T>(measure: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(measure))
        .unwrap_or_else(|_| Err(Error::argument("a mistake in the program")))
}

/// Peak memory, in MiB, of a child process that runs a few steps of this workload.
fn held(workload: &str, device: &Device) -> Result<f64> {
    let told = Command::new(env::current_exe()?)
        .args(["bench", "--memory-of", workload, "--device", &device.to_string()])
        .args(["--threads", &threads(device).to_string()])
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8_lossy(&told.stdout);
    let value = text.trim().parse().ok().filter(|_| told.status.success());
    value.ok_or_else(|| {
        Error::io(format!("bench: the process that measures {workload} ended with {}", told.status))
    })
}

/// The current row and the number left, on standard error: a bar on a terminal, else a line for
/// each row.
struct Progress {
    bar: Bar,
    row: usize,
    rows: usize,
}

impl Progress {
    fn new(rows: usize) -> Progress {
        Progress { bar: Bar::new(rows as u64, true), row: 0, rows }
    }
    fn next(&mut self, name: &str) {
        self.row += 1;
        if self.bar.is_hidden() {
            self.say(&format!("[{}/{}] {name}", self.row, self.rows));
        }
        self.bar.label(format!("{}/{}  {name}", self.row, self.rows));
        self.bar.at(self.row as u64 - 1);
    }
    fn say(&self, line: &str) {
        // A closed standard error is not an error.
        self.bar.aside(|| _ = writeln!(std::io::stderr(), "{line}"));
    }
    fn print(&self, out: &mut dyn Write, line: &impl Serialize) -> Result<()> {
        let line = serde_json::to_string(line).map_err(|e| Error::format(e.to_string()))?;
        Ok(self.bar.aside(|| writeln!(out, "{line}").and_then(|()| out.flush()))?)
    }
}
