//! The conformance suite: does a backend give the results that it must?
//!
//! Two questions are asked. Is the *definition* right: the reference backend against [`golden`] cases, whose
//! results PyTorch computed in float64, within the tolerances of each case. And does every other backend *equal
//! the definition*: the same cases, outputs and gradients, bit for bit.

pub mod capabilities;
pub mod compare;
pub mod equal;
pub mod execute;
pub mod filter;
pub mod golden;
pub mod guard;
pub mod index;
pub mod report;
pub mod run;
pub mod sample;
pub mod second;
pub mod twist;
pub mod ulp;
pub mod view;

pub use report::Summary;

use elinvar_core::{Error, Result};
use elinvar_ops::Backend;
use elinvar_reference::Reference;
use std::io::Write;
use std::path::PathBuf;

/// What is to run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// A directory of golden cases; without it, the sample that the program carries.
    pub golden: Option<PathBuf>,
    /// Names of ops or parts of case ids; empty: everything.
    pub only: Vec<String>,
}

/// Runs the suite on the reference backend and writes the report.
///
/// # Errors
/// `Io` or `Format` if the golden directory is not in order, `InvalidArgument` if no case is left to run.
pub fn conformance(options: &Options, out: &mut dyn Write) -> Result<Summary> {
    let device = <Reference as Backend>::Device::default();
    let cases = cases(options)?;
    report::report(&cases, out, |case| run::run::<Reference>(case, &device))
}

/// The cases that the options ask for.
///
/// # Errors
/// `Io` or `Format` if the golden directory is not in order, `InvalidArgument` if no case is left to run.
pub fn cases(options: &Options) -> Result<Vec<golden::Case>> {
    let filter = filter::Filter::new(&options.only);
    let cases = match &options.golden {
        Some(dir) => golden::open(dir, &filter)?,
        None => sample::cases(&filter)?,
    };
    if cases.is_empty() {
        return Err(Error::argument(format!("conformance: no case matches {}", options.only.join(", "))));
    }
    Ok(cases)
}
