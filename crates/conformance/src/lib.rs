//! The conformance suite: does a backend give the results that it must?
//!
//! Two questions are asked. Is the *definition* right: the reference backend against [`golden`] cases, whose
//! results PyTorch computed in float64, within the tolerances of each case. And does every other backend *equal
//! the definition*: the same cases, outputs and gradients, bit for bit.

pub mod capabilities;
pub mod compare;
pub mod equal;
pub mod execute;
pub mod fast;
pub mod filter;
pub mod golden;
pub mod guard;
pub mod index;
pub mod own;
pub mod report;
pub mod run;
pub mod sample;
pub mod second;
pub mod training;
pub mod twist;
pub mod ulp;
pub mod view;

pub use report::Summary;

use elinvar_core::{Error, Result};
use elinvar_devices::{Any, Device};
use std::io::Write;
use std::path::PathBuf;

/// What is to run, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// A directory of golden cases, which run beside the project's own of other ops; without it, the sample that the
    /// program carries, and these.
    pub golden: Option<PathBuf>,
    /// Names of ops or parts of case ids; empty: everything.
    pub only: Vec<String>,
    /// The device under test.
    pub device: Device,
}

impl Default for Options {
    fn default() -> Self {
        Options { golden: None, only: Vec::new(), device: Device::reference() }
    }
}

/// Runs the suite on a device and writes the report. On the reference, results are compared with the expected
/// ones within their tolerances; on any other device, also with those of the reference, bit by bit.
///
/// # Errors
/// `Io` or `Format` if the golden directory is not in order, `InvalidArgument` if no case is left to run.
pub fn conformance(options: &Options, out: &mut dyn Write) -> Result<Summary> {
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
/// `Io` or `Format` if the golden directory is not in order, `InvalidArgument` if no case is left to run.
pub fn cases(options: &Options) -> Result<Vec<golden::Case>> {
    let filter = filter::Filter::new(&options.only);
    let cases = match &options.golden {
        Some(dir) => {
            let mut cases = golden::open(dir, &filter)?;
            cases.extend(own::cases(&filter, &golden::index(dir)?.ops())?);
            cases
        }
        None => sample::cases(&filter)?,
    };
    if cases.is_empty() {
        let asked = if options.only.is_empty() { "anything".to_string() } else { options.only.join(", ") };
        return Err(Error::argument(format!("conformance: no case matches {asked}")));
    }
    Ok(cases)
}
