//! `devices`

use crate::Verdict;
use elinvar::{Result, machine};
use std::io::Write;

/// Prints a line for each device: its name, whether its results are exact, and what it is. Then a
/// line for each that is not usable, and for each kind of which there are none, with the reason.
///
/// # Errors
/// What the processor reports, and those of writing.
pub fn run(out: &mut dyn Write) -> Result<Verdict> {
    let machine = machine()?;
    let rows: Vec<[String; 3]> = machine
        .devices
        .into_iter()
        .map(|d| [d.device.to_string(), d.exactness.to_string(), d.description])
        .collect();
    let width = |c: usize| rows.iter().map(|r| r[c].chars().count()).max().unwrap_or(0);
    let (name, exactness) = (width(0), width(1));
    for [a, b, c] in &rows {
        writeln!(out, "{a:name$}  {b:exactness$}  {c}")?;
    }
    for why in machine.missing {
        writeln!(out, "no {why}")?;
    }
    Ok(Verdict::Good)
}
