//! `elinvar-lab conformance`

use crate::args::Conformance;
use elinvar::{Any, Device, Result};
use elinvar_cli_support::Verdict;
use elinvar_conformance::equal::{Plan, draw, equal, named};
use elinvar_conformance::{Options, capabilities, fast, suite};
use std::io::Write;

/// Runs the suite and prints its report. Scripts read the last line, the totals.
pub fn run(args: &Conformance, out: &mut dyn Write) -> Result<Verdict> {
    if args.table {
        write!(out, "{}", capabilities::capabilities()?)?;
        return Ok(Verdict::Good);
    }
    let device = Device::parse(&args.device)?;
    let options = Options { golden: args.golden.clone(), only: args.ops.clone(), part: args.part, device };
    let summary = suite(&options, out)?;
    let mut good = summary.is_good();
    // `Precision::Fast` uses other kernels, for which there are no golden cases.
    let first = args.part.is_none_or(|(k, _)| k == 1);
    if first && (options.only.is_empty() || options.only.iter().any(|op| op == "matmul")) {
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
    good &= args.random == 0 || random(args, &options.device, out)? == 0;
    // There are none unless the environment enables validation, and then none are expected.
    let heard = elinvar::device::validation_messages();
    if !heard.is_empty() {
        writeln!(out, "{} messages of Vulkan's validation layer", heard.len())?;
    }
    writeln!(out, "{summary}")?;
    Ok(if good && heard.is_empty() { Verdict::Good } else { Verdict::Bad })
}

/// Draws calls and compares with the reference; returns how many differ.
fn random(args: &Conformance, device: &Device, out: &mut dyn Write) -> Result<usize> {
    let mut differ = 0;
    for work in draw::WORKS {
        let plan = Plan { seed: args.seed, rounds: args.random, works: vec![work], ..Plan::default() };
        let found = equal::<Any>(device, &plan);
        let same = args.random - found.len();
        writeln!(out, "{same} of {} random calls of {work:?} give the bits of the reference", args.random)?;
        found.iter().try_for_each(|difference| writeln!(out, "  {}", difference.what))?;
        differ += found.len();
    }
    for op in named::ops() {
        let found = named::equal::<Any>(device, op, args.seed, args.random);
        let same = args.random - found.len();
        writeln!(out, "{same} of {} random calls of {op} give the bits of the reference", args.random)?;
        found.iter().try_for_each(|what| writeln!(out, "  {what}"))?;
        differ += found.len();
    }
    Ok(differ)
}
