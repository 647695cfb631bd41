//! Steps of a check: what comes of one, several side by side, and the table at the end.

use std::cell::RefCell;
use std::env;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The outcome of a step.
pub(crate) enum Outcome {
    Passed,
    Failed(String),
    Skipped(String),
}

impl Outcome {
    /// The word for it, and why.
    fn words(&self) -> (&'static str, Option<&str>) {
        match self {
            Outcome::Passed => ("ok", None),
            Outcome::Failed(why) => ("failed", Some(why)),
            Outcome::Skipped(why) => ("skipped", Some(why)),
        }
    }
}

pub(crate) struct Row {
    name: String,
    outcome: Outcome,
    took: Duration,
}

/// Runs a step.
pub(crate) fn timed(name: &str, run: &dyn Fn() -> Outcome) -> Row {
    println!("\n== {name}");
    let start = Instant::now();
    let outcome = run();
    Row { name: name.to_string(), outcome, took: start.elapsed() }
}

/// What a step in a process of its own says last: its outcome, for [`read_outcome`].
const OUTCOME: &str = "== outcome: ";

/// Ends the process of a step.
pub(crate) fn end_with(outcome: &Outcome) -> ExitCode {
    let (word, why) = outcome.words();
    println!("\n{OUTCOME}{word} {}", why.unwrap_or_default());
    if matches!(outcome, Outcome::Failed(_)) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The outcome of a process that ended with [`end_with`].
pub(crate) fn read_outcome(status: Outcome, said: &str) -> Outcome {
    let last = said.lines().rev().find_map(|line| line.strip_prefix(OUTCOME));
    match (status, last.and_then(|line| line.split_once(' '))) {
        (Outcome::Passed, Some(("ok", _))) => Outcome::Passed,
        (Outcome::Passed, Some(("skipped", why))) => Outcome::Skipped(why.into()),
        (Outcome::Failed(_), Some(("failed", why))) => Outcome::Failed(why.into()),
        (Outcome::Failed(why), _) => Outcome::Failed(why),
        (Outcome::Passed | Outcome::Skipped(_), _) => Outcome::Failed("it did not say its outcome".into()),
    }
}

/// Runs commands, a few at a time: most of them use one core. What each says is shown when it has
/// ended; `read` makes its outcome of its exit status and of that.
pub(crate) fn side_by_side(
    commands: Vec<(String, Command)>,
    read: impl Fn(Outcome, &str) -> Outcome + Sync,
) -> Vec<Row> {
    // Each may have as many threads as there are cores.
    const MOST: usize = 4;
    fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
        of.lock().unwrap_or_else(PoisonError::into_inner)
    }
    let workers = thread::available_parallelism().map_or(1, |n| n.get().clamp(2, MOST));
    let queue = Mutex::new(commands.into_iter().enumerate());
    let rows = Mutex::new(Vec::new());
    let work = || {
        let next = || lock(&queue).next();
        while let Some((place, (name, mut command))) = next() {
            let start = Instant::now();
            let (status, said) = Beside::start(&mut command).waited_for();
            let took = start.elapsed();
            let mut rows = lock(&rows);
            println!("\n== {name} ({:.1} s)\n{}", took.as_secs_f64(), said.trim_end());
            rows.push((place, Row { name, outcome: read(status, &said), took }));
        }
    };
    thread::scope(|s| (0..workers).for_each(|_| drop(s.spawn(work))));
    let mut rows = rows.into_inner().unwrap_or_else(PoisonError::into_inner);
    rows.sort_by_key(|(place, _)| *place);
    rows.into_iter().map(|(_, row)| row).collect()
}

/// Several steps as one, which fails if one of them does.
pub(crate) fn joined(rows: &[Row]) -> Outcome {
    let failed = |row: &Row| match &row.outcome {
        Outcome::Failed(why) => Some(format!("{}: {why}", row.name)),
        Outcome::Passed | Outcome::Skipped(_) => None,
    };
    let failed: Vec<String> = rows.iter().filter_map(failed).collect();
    if failed.is_empty() { Outcome::Passed } else { Outcome::Failed(failed.join("; ")) }
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

/// A background command, until a step waits for it.
pub(crate) struct Beside {
    /// The process and the file of its output, or the error that prevented it.
    started: std::io::Result<(RefCell<Child>, Scratch)>,
}

impl Beside {
    pub(crate) fn start(command: &mut Command) -> Beside {
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
    pub(crate) fn ended(&self) -> Outcome {
        let (outcome, said) = self.waited_for();
        print!("{said}");
        outcome
    }
    /// The same of a build, whose warnings are errors. (As an option of the compiler, `-D warnings`
    /// would make other programs of it than users build.)
    pub(crate) fn ended_without_warnings(&self) -> Outcome {
        let (outcome, said) = self.waited_for();
        print!("{said}");
        match outcome {
            Outcome::Passed if said.lines().any(|line| line.starts_with("warning")) => {
                Outcome::Failed("there are warnings".into())
            }
            outcome => outcome,
        }
    }
    /// Waits; the outcome, and the output.
    fn waited_for(&self) -> (Outcome, String) {
        let (child, said) = match &self.started {
            Ok(started) => started,
            Err(e) => return (Outcome::Failed(format!("it did not start: {e}")), String::new()),
        };
        let status = child.borrow_mut().wait();
        match std::fs::read(&said.0) {
            Ok(bytes) => (judged(status), String::from_utf8_lossy(&bytes).into_owned()),
            Err(e) => (Outcome::Failed(format!("what it said cannot be read: {e}")), String::new()),
        }
    }
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
        let (word, why) = outcome.words();
        *match outcome {
            Outcome::Passed => &mut passed,
            Outcome::Failed(_) => &mut failed,
            Outcome::Skipped(_) => &mut skipped,
        } += 1;
        let why = why.map(|w| format!("  {w}")).unwrap_or_default();
        println!("{name:15} {word:8} {:7.1} s{why}", took.as_secs_f64());
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
