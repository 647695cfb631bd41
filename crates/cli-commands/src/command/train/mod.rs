//! `elinvar train`: a network and its data in a directory, from which a run that was stopped goes
//! on.

mod digits;
mod run;
#[cfg(feature = "tokenizers")]
mod text;

use crate::args::{Train, What};
#[cfg(not(feature = "tokenizers"))]
use crate::command::without_tokenizers::text;
use crate::command::worker;
use elinvar::Result;
use elinvar_cli_support::Verdict;
use std::io::Write;

/// Trains, saves and tells.
pub fn run(args: &Train, out: &mut dyn Write) -> Result<Verdict> {
    match &args.what {
        What::Digits(digits) => worker::each(&digits.run.device, out, |w, out| digits::run(digits, w, out)),
        What::Text(text) => worker::each(&text.run.device, out, |w, out| text::run(text, w, out)),
    }
}
