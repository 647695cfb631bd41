//! The report: a line per op, its failures below it, and the totals.

use crate::golden::Case;
use crate::run::Outcome;
use elinvar_core::Result;
use std::fmt;
use std::io::Write;

/// Counts of cases by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// As expected.
    pub passed: usize,
    /// Not as expected.
    pub failed: usize,
    /// Not run.
    pub skipped: usize,
}

impl Summary {
    fn count(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Failed(_) => self.failed += 1,
            Outcome::Skipped(_) => self.skipped += 1,
        }
    }
    fn add(&mut self, o: Summary) {
        self.passed += o.passed;
        self.failed += o.failed;
        self.skipped += o.skipped;
    }
    /// No case failed. (Cases that were skipped are counted in the report, not here.)
    pub fn is_good(&self) -> bool {
        self.failed == 0
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// Runs all cases, which are grouped by op, and writes the report as they finish, without the
/// totals.
///
/// # Errors
/// `Io` if the report cannot be written.
pub fn report(cases: &[Case], out: &mut dyn Write, run: impl Fn(&Case) -> Outcome) -> Result<Summary> {
    let width = cases.iter().map(|c| c.op.len()).max().unwrap_or(0);
    let mut total = Summary::default();
    for op in cases.chunk_by(|a, b| a.op == b.op) {
        let mut of_op = Summary::default();
        let mut notes = Vec::new();
        let mut reasons: Vec<String> = Vec::new();
        for case in op {
            let outcome = run(case);
            of_op.count(&outcome);
            match outcome {
                Outcome::Passed => {}
                Outcome::Failed(why) => notes.push(format!("    {}: {why}", case.id)),
                Outcome::Skipped(why) => {
                    if !reasons.contains(&why) {
                        reasons.push(why);
                    }
                }
            }
        }
        let mut parts = Vec::new();
        if of_op.passed > 0 {
            parts.push(format!("{} passed", of_op.passed));
        }
        if of_op.failed > 0 {
            parts.push(format!("{} failed", of_op.failed));
        }
        if of_op.skipped > 0 {
            parts.push(format!("{} skipped ({})", of_op.skipped, reasons.join("; ")));
        }
        writeln!(out, "{:width$}   {}", op[0].op, parts.join(", "))?;
        for note in notes {
            writeln!(out, "{note}")?;
        }
        total.add(of_op);
    }
    Ok(total)
}
