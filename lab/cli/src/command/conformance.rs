//! `elinvar-lab conformance`

use crate::args::{Conformance, Kinds};
use elinvar::{Any, Device, Result};
use elinvar_cli_support::Verdict;
use elinvar_conformance::equal::{CallKind, kinds};
use elinvar_conformance::{Options, Part, Summary, capabilities, fast, suite};
use std::io::Write;

/// Runs the suite and prints its report. Scripts read the last line, the totals.
pub fn run(args: &Conformance, out: &mut dyn Write) -> Result<Verdict> {
    if args.table {
        write!(out, "{}", capabilities::capabilities()?)?;
        return Ok(Verdict::Good);
    }
    let device = Device::parse(&args.device)?;
    let totals = if args.kinds.is_empty() { Some(cases(args, &device, out)?) } else { None };
    let mut good = totals.as_ref().is_none_or(|(_, good)| *good);
    good &= args.random == 0 || random(args, &device, out)? == 0;
    // There are none unless the environment enables validation, and then none are expected.
    let heard = elinvar::device::validation_messages();
    if !heard.is_empty() {
        writeln!(out, "{} messages of Vulkan's validation layer", heard.len())?;
    }
    if let Some((totals, _)) = totals {
        writeln!(out, "{totals}")?;
    }
    Ok(if good && heard.is_empty() { Verdict::Good } else { Verdict::Bad })
}

/// Compares all cases that are asked for; their totals, and whether all are right.
fn cases(args: &Conformance, device: &Device, out: &mut dyn Write) -> Result<(Summary, bool)> {
    let options = Options {
        golden: args.golden.clone(),
        only: args.ops.clone(),
        part: args.part,
        every: args.every,
        device: device.clone(),
    };
    let summary = suite(&options, out)?;
    let mut good = summary.is_good();
    // `Precision::Fast` uses other kernels, for which there are no golden cases.
    let first = args.part.is_none_or(Part::is_first);
    if first && (options.only.is_empty() || options.only.iter().any(|op| op == "matmul")) {
        let found = fast::products::<Any>(device, &fast::SIZES, args.every)?;
        let (tried, wrong) = (found.tried, found.wrong.len());
        writeln!(
            out,
            "products with Precision::Fast, of whole numbers: {} of {tried} are right",
            tried - wrong
        )?;
        found.wrong.iter().try_for_each(|what| writeln!(out, "  {what}"))?;
        good &= wrong == 0;
    }
    Ok((summary, good))
}

/// Draws calls and compares with the reference; returns how many differ.
fn random(args: &Conformance, device: &Device, out: &mut dyn Write) -> Result<usize> {
    let takes = |asked: &Kinds, kind: &CallKind| *asked == Kinds::All || *asked == Kinds::Only(*kind);
    let is_asked =
        |kind: &CallKind| args.kinds.is_empty() || args.kinds.iter().any(|asked| takes(asked, kind));
    let mut differ = 0;
    for kind in kinds().filter(is_asked) {
        let found = kind.check::<Any>(device, args.seed, args.round..args.round.saturating_add(args.random));
        let (same, name) = (args.random - found.len(), kind.name());
        writeln!(out, "{same} of {} random calls of {name} give the bits of the reference", args.random)?;
        found.iter().try_for_each(|what| writeln!(out, "  {what}"))?;
        differ += found.len();
    }
    Ok(differ)
}
