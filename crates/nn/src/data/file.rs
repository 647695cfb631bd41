//! Opening untrusted files.

use elinvar_core::{Error, Result, host};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// Opens a regular file: a device or a pipe may be endless.
pub(crate) fn open(path: &Path) -> Result<File> {
    let open = || {
        let file = File::open(path)?;
        Ok::<_, std::io::Error>((file.metadata()?.is_file(), file))
    };
    // Opening a pipe may block forever, so the file type is checked first.
    match fs::metadata(path) {
        Ok(m) if !m.is_file() => {
            return Err(Error::io(format!("{}: not a regular file", path.display())));
        }
        Ok(_) => {}
        Err(e) => return Err(Error::from(e).at(path.display())),
    }
    match open() {
        Ok((true, file)) => Ok(file),
        Ok((false, _)) => Err(Error::io(format!("{}: not a regular file", path.display()))),
        Err(e) => Err(Error::from(e).at(path.display())),
    }
}

/// All bytes of a regular file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let mut file = open(path)?;
    let len = file.metadata().map_err(|e| Error::from(e).at(path.display()))?.len();
    let mut bytes =
        host::with_capacity(usize::try_from(len).unwrap_or(usize::MAX)).map_err(|e| e.at(path.display()))?;
    file.read_to_end(&mut bytes).map_err(|e| Error::from(e).at(path.display()))?;
    Ok(bytes)
}

/// Appends an element, or gives an error when memory is exhausted.
pub(crate) fn push<T>(v: &mut Vec<T>, value: T) -> Result<()> {
    v.try_reserve(1).map_err(|_| {
        Error::memory(format!(
            "out of memory: more than {} elements do not fit into this machine's memory",
            v.len()
        ))
    })?;
    v.push(value);
    Ok(())
}
