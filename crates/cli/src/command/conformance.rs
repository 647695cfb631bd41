//! `elinvar conformance`

use crate::Verdict;
use crate::args::Conformance;
use elinvar::{Any, Device, Result};
use elinvar_conformance::{Options, capabilities, conformance, fast};
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
    let mut good = summary.is_good();
    // What is asked for as fast goes through other kernels, for which there are no golden cases.
    if options.only.is_empty() || options.only.iter().any(|op| op == "matmul") {
        let found = fast::products::<Any>(&options.device, &fast::SIZES)?;
        let (tried, wrong) = (found.tried, found.wrong.len());
        writeln!(
            out,
            "products with Precision::Fast, of whole numbers: {} of {tried} are right",
            tried - wrong
        )?;
        found.wrong.iter().try_for_each(|what| writeln!(out, "  {what}"))?;
        good &= wrong == 0;
    }
    // There are none unless the environment asks for them, and then there should be none.
    let heard = elinvar::device::validation_messages();
    if !heard.is_empty() {
        writeln!(out, "{} messages of Vulkan's validation layer", heard.len())?;
    }
    Ok(if good && heard.is_empty() { Verdict::Good } else { Verdict::Bad })
}
