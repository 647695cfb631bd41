//! What stands in for the commands that read or make a `tokenizer.json` in a program that was built
//! without the feature `tokenizers`: one sentence that says so.

use elinvar::{Error, Result};
use elinvar_cli_support::Verdict;

pub mod embed {
    use super::*;
    use crate::args::Embed;
    use std::io::Write;

    pub fn run(_: &Embed, _: &mut dyn Write) -> Result<Verdict> {
        refused("embed")
    }
}

pub mod generate {
    use super::*;
    use crate::args::Generate;
    use std::io::Write;

    pub fn run(_: &Generate, _: &mut dyn Write) -> Result<Verdict> {
        refused("generate")
    }
}

pub mod text {
    use super::*;
    use crate::args::TrainText;
    use crate::command::worker::Worker;
    use std::io::Write;

    pub fn run(_: &TrainText, _: &Worker, _: &mut dyn Write) -> Result<Verdict> {
        refused("train text")
    }
}

fn refused(command: &str) -> Result<Verdict> {
    Err(Error::unsupported(format!(
        "{command}: this program was built without tokenizers; `cargo run --release --features tokenizers -- {command} \
         ...` builds one that has them"
    )))
}
