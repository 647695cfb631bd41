//! `elinvar conformance`

use crate::Verdict;
use crate::args::Conformance;
use elinvar::{Device, Result};
use elinvar_conformance::{Options, capabilities, conformance};
use std::io::Write;

/// Runs the suite and prints its report.
pub fn run(args: &Conformance, out: &mut dyn Write) -> Result<Verdict> {
    if args.table {
        write!(out, "{}", capabilities::capabilities()?)?;
        return Ok(Verdict::Good);
    }
    let device = Device::parse(&args.device)?;
    let options = Options { golden: args.golden.clone(), only: args.ops.clone(), device };
    let summary = conformance(&options, out)?;
    Ok(if summary.is_good() { Verdict::Good } else { Verdict::Bad })
}
