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
    // There are none unless the environment asks for them, and then there should be none.
    let heard = elinvar::device::validation_messages();
    if !heard.is_empty() {
        writeln!(out, "{} messages of Vulkan's validation layer", heard.len())?;
    }
    Ok(if summary.is_good() && heard.is_empty() { Verdict::Good } else { Verdict::Bad })
}
