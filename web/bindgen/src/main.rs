//! `elinvar-web-bindgen MODULE FOLDER`: writes a compiled module, and the JavaScript that loads it,
//! into a folder. `wasm-bindgen` as a library, so that there is no tool to install.

use std::env;
use std::process::ExitCode;
use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let [module, folder] = &args[..] else {
        eprintln!("usage: elinvar-web-bindgen MODULE FOLDER");
        return ExitCode::from(2);
    };
    let mut bindgen = Bindgen::new();
    let written = bindgen.input_path(module).typescript(false).web(true).and_then(|b| b.generate(folder));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{module}: {e:#}");
            ExitCode::FAILURE
        }
    }
}
