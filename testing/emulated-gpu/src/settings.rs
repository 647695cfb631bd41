//! Reads properties of an emulated device from the environment.

use std::str::FromStr;

/// The value of a variable. One that is not understood is reported on standard error and ignored.
pub fn read<T: FromStr>(name: &str, otherwise: T) -> T {
    let Ok(text) = std::env::var(name) else { return otherwise };
    text.parse().unwrap_or_else(|_| {
        eprintln!("emulated GPU: {name} is {text:?}, which is not understood");
        otherwise
    })
}
