//! A conformance sample in WebAssembly, for Node: the golden cases that are part of the program and
//! random calls on `cpu`, `==` the reference, and the weights of short trainings.
//!
//! Without `wasm-bindgen`: the host gives two functions, and calls one. A panic ends the module,
//! with its sentence printed before.
#![cfg(target_arch = "wasm32")]
#![allow(unsafe_code, reason = "functions of the host, and functions for it")]

mod train;

use elinvar::core::clock;
use elinvar::{Any, Device, Result};
use elinvar_conformance::equal::{Plan, equal};
use elinvar_conformance::{Options, conformance};
use std::io::{self, Write};
use std::time::Duration;

#[link(wasm_import_module = "host")]
unsafe extern "C" {
    /// Prints UTF-8 text.
    fn print(text: *const u8, len: usize);
    /// Milliseconds since any moment.
    fn now() -> f64;
}

/// What the host prints.
struct Host;

impl Write for Host {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        // SAFETY: the host reads these bytes, which are there until it returns.
        unsafe { print(text.as_ptr(), text.len()) };
        Ok(text.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs everything with so many random calls of each kind of work; 0 if all is well, else 1.
#[unsafe(no_mangle)]
pub extern "C" fn run(random_calls: usize) -> u32 {
    // SAFETY: the host has the function.
    clock::set_clock(|| Duration::from_secs_f64(unsafe { now() } / 1000.0));
    std::panic::set_hook(Box::new(|info| {
        let _ = writeln!(Host, "{info}");
    }));
    match all(random_calls) {
        Ok(is_good) => u32::from(!is_good),
        Err(e) => {
            let _ = writeln!(Host, "{e}");
            1
        }
    }
}

fn all(random_calls: usize) -> Result<bool> {
    let mut good = true;
    for device in [Device::reference(), Device::parse("cpu")?] {
        writeln!(Host, "golden cases on {device}")?;
        // The report is for a person; of a whole run the totals do.
        let mut report = Vec::new();
        let summary = conformance(&Options { device, ..Options::default() }, &mut report)?;
        if summary.is_good() {
            writeln!(Host, "{summary}")?;
        } else {
            Host.write_all(&report)?;
            good = false;
        }
    }
    let plan = Plan { rounds: 0..random_calls, largest: 4000, ..Plan::default() };
    let differences = equal::<Any>(&Device::builder("cpu").isa("simd128").build()?, &plan);
    writeln!(Host, "{random_calls} random calls of each kind on simd128: {} differ", differences.len())?;
    for d in &differences {
        writeln!(Host, "    {}", d.what)?;
        good = false;
    }
    for model in train::MODELS {
        for device in train::DEVICES {
            writeln!(Host, "weights {model} {device} {}", train::weights(model, device)?)?;
        }
    }
    Ok(good)
}
