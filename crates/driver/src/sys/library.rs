//! Libraries of drivers: found at run time, under a name that the user gave or the system's.

use elinvar_core::{Error, ErrorKind, Result};
use libloading::Library;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A library, as it is looked for.
pub struct Wanted {
    /// The driver's name, before what is said.
    pub driver: &'static str,
    /// Names a library in the place of the system's.
    pub variable: &'static str,
    /// What it is called, the one to take first.
    pub names: &'static [&'static str],
    /// What to do where it is missing.
    pub install: &'static str,
    /// Whose it is and what.
    pub what: &'static str,
    /// The one that the program named.
    pub named: OnceLock<PathBuf>,
}

impl Wanted {
    /// That it is not there, why, and what to do.
    pub fn missing(&self, why: &str) -> Error {
        let Wanted { driver, variable, install, .. } = self;
        let text = format!("{driver}: {why}; {install}, or name its library with {variable}");
        Error::new(ErrorKind::DriverMissing, text)
    }
    /// That a library under its name is another one.
    pub fn lacks(&self, name: &Path, symbol: &str) -> Error {
        self.missing(&format!("{} has no function {symbol}, so it is not {}", name.display(), self.what))
    }
    /// Names the library that is loaded in the place of the system's; the environment's goes before
    /// it.
    ///
    /// # Errors
    /// `InvalidArgument` if another one was named before.
    pub fn name(&self, path: &Path) -> Result<()> {
        let named = self.named.get_or_init(|| path.to_path_buf());
        if named == path {
            return Ok(());
        }
        let (driver, named, path) = (self.driver, named.display(), path.display());
        let text = format!("{driver}: the library {named} was named before, so {path} cannot be");
        Err(Error::argument(text))
    }
    /// Loads it: what the environment names, else what the program named, else the system's.
    ///
    /// # Errors
    /// `DriverMissing` with what to install.
    pub fn load(&self) -> Result<(PathBuf, Library)> {
        let wanted = std::env::var_os(self.variable).filter(|v| !v.is_empty()).map(PathBuf::from);
        let names = match wanted.or_else(|| self.named.get().cloned()) {
            Some(path) => vec![path],
            None => self.names.iter().map(PathBuf::from).collect(),
        };
        let mut why = String::new();
        for name in names {
            // SAFETY: a library under the name of the vendor's, or one that the user named as such,
            // runs nothing when it is loaded but what its maker needs.
            match unsafe { Library::new(&name) } {
                Ok(library) => return Ok((name, library)),
                Err(e) if why.is_empty() => {
                    why = format!("{} cannot be loaded ({})", name.display(), plain(&e))
                }
                Err(_) => {}
            }
        }
        Err(self.missing(&why))
    }
}

/// What the system said, in one line.
fn plain(e: &libloading::Error) -> String {
    let source = std::error::Error::source(e);
    let text = source.map_or_else(|| e.to_string(), ToString::to_string);
    text.lines().next().unwrap_or("").to_string()
}
