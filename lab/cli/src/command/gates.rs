//! `elinvar-lab gates`

use crate::args::Gates;
use elinvar::Result;
use elinvar_bench::gates;
use elinvar_cli_support::Verdict;
use std::io::Write;

/// Prints a line for each gate.
pub fn run(args: &Gates, out: &mut dyn Write) -> Result<Verdict> {
    let all = gates(args.seconds)?;
    let has_failed = all.iter().any(elinvar_bench::Gate::has_failed);
    write!(out, "{}", elinvar_bench::Gates(all))?;
    Ok(if has_failed { Verdict::Bad } else { Verdict::Good })
}
