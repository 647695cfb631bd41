//! `cargo xtask book`: `docs/` as a book, if mdBook is installed.

use crate::root;
use std::io::ErrorKind;
use std::process::{Command, ExitCode};

/// Builds the book into `target/book`. Without mdBook it prints how to install it, and succeeds:
/// every page is readable as it is.
pub fn book() -> ExitCode {
    match Command::new("mdbook").arg("build").arg(root().join("docs")).status() {
        Ok(status) if status.success() => {
            println!("{}", root().join("target/book/index.html").display());
            ExitCode::SUCCESS
        }
        Ok(status) => {
            eprintln!("xtask: mdbook: {status}");
            ExitCode::FAILURE
        }
        Err(e) if e.kind() == ErrorKind::NotFound => {
            println!(
                "mdBook is not installed: `cargo install mdbook` gets it, and then this builds target/book."
            );
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("xtask: mdbook did not start: {e}");
            ExitCode::FAILURE
        }
    }
}
