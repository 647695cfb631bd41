//! The conformance suite: does a backend give the required results?
//!
//! It checks two properties. The *definition* is right: the reference backend against [`golden`]
//! cases, whose results PyTorch computed in float64, within the tolerances of each case. And every
//! other backend *equals the definition*: the same cases, outputs and gradients, bit for bit.

pub mod capabilities;
pub mod compare;
pub mod edges;
pub mod equal;
pub mod execute;
pub mod fast;
pub mod filter;
pub mod golden;
pub mod guard;
pub mod index;
pub mod long;
pub mod mutated;
pub mod own;
pub mod part;
pub mod refusal;
pub mod report;
pub mod run;
pub mod sample;
pub mod second;
pub mod training;
pub mod twist;
pub mod view;

pub use part::Part;
pub use report::Summary;

use elinvar_core::{Error, Result};
use elinvar_devices::{Any, Device};
use std::io::Write;
use std::path::PathBuf;

/// The cases and the device of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// A directory of golden cases, which run in addition to the project's own cases of other ops
    /// and those of edges; without it, the built-in sample, and these.
    pub golden: Option<PathBuf>,
    /// Names of ops or parts of case ids; empty: everything.
    pub only: Vec<String>,
    /// The K-th of N parts of the cases, K from 1 on, for several parallel processes; `None`: all.
    pub part: Option<Part>,
    /// Only the K-th of every N of these, so that a part meets every op.
    pub every: Part,
    /// The device under test.
    pub device: Device,
}

impl Default for Options {
    fn default() -> Self {
        Options { golden: None, only: Vec::new(), part: None, every: Part::ALL, device: Device::reference() }
    }
}

/// Runs the suite on a device and writes the report, whose last line has the totals: `N passed,
/// N failed, N skipped`.
///
/// # Errors
/// As [`suite`].
pub fn conformance(options: &Options, out: &mut dyn Write) -> Result<Summary> {
    let summary = suite(options, out)?;
    writeln!(out, "{summary}")?;
    Ok(summary)
}

/// Runs the suite on a device and writes the report without the totals. On the reference, results
/// are compared with the expected ones within their tolerances; on any other device, also with
/// those of the reference, bit by bit.
///
/// # Errors
/// `Io` or `Format` if the golden directory is not valid, `InvalidArgument` if no case is left to
/// run.
pub fn suite(options: &Options, out: &mut dyn Write) -> Result<Summary> {
    let (device, reference) = (&options.device, Device::reference());
    let cases = cases(options)?;
    report::report(&cases, out, |case| {
        if *device == reference {
            run::run::<Any>(case, device)
        } else {
            run::run_beside::<Any, Any>(case, device, &reference)
        }
    })
}

/// The cases that the options ask for.
///
/// # Errors
/// `Io` or `Format` if the golden directory is not valid, `InvalidArgument` if no case is left to
/// run.
pub fn cases(options: &Options) -> Result<Vec<golden::Case>> {
    let filter = filter::Filter::new(&options.only);
    let mut cases = match &options.golden {
        Some(dir) => {
            let mut cases = golden::open(dir, &filter)?;
            cases.extend(own::cases(&filter, &golden::index(dir)?.ops())?);
            own::extend(&mut cases, &filter)?;
            edges::add(&mut cases, &filter)?;
            cases
        }
        None => sample::cases(&filter)?,
    };
    if cases.is_empty() {
        let asked = if options.only.is_empty() { "anything".to_string() } else { options.only.join(", ") };
        return Err(Error::argument(format!("conformance: no case matches {asked}")));
    }
    if let Some(part) = options.part {
        // In order, as cases of one op need the same kernels. With few cases, a part may be empty.
        cases = cases.drain(part.rounds(cases.len())).collect();
    }
    let mut places = 0..;
    cases.retain(|_| places.next().is_some_and(|place| options.every.has(place)));
    Ok(cases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_all_cases_in_their_order() {
        let of = |part| {
            let only = vec!["abs".into(), "exp".into()];
            cases(&Options { only, part, ..Options::default() })
                .map(|all| all.into_iter().map(|c| c.id).collect::<Vec<_>>())
        };
        let all = of(None).unwrap();
        for n in [1, 2, 3, all.len(), all.len() + 3] {
            let parts: Vec<String> = (1..=n).flat_map(|k| of(Part::new(k, n)).unwrap()).collect();
            assert_eq!(parts, all, "{n} parts");
        }
    }
}
