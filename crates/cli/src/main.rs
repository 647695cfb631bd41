//! The program `elinvar`.

use std::process::ExitCode;

fn main() -> ExitCode {
    elinvar_cli_commands::main()
}
