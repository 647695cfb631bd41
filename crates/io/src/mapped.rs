//! The bytes of a file: memory-mapped, so that a page is read at its first access, or in memory.
//!
//! A mapping shows the file as it is now, not as it was when it was opened. If another program
//! changes the file meanwhile:
//!
//! * *Replaced* (a new file renamed over the old name, as [`atomic_write`](crate::atomic_write)
//!   does): nothing happens, the mapping keeps the old file. (Windows does not let a mapped file be
//!   replaced: there the writer gets an error.)
//! * *Overwritten in place*: tensors that are read later have the new bytes, or a mixture. Checks
//!   stay valid, because headers are copied before they are checked and no offset is read twice.
//! * *Truncated*: an access to a page that no longer exists ends the process (SIGBUS).
//!
//! Where truncation cannot be ruled out, use the functions named `load_..`, which read the whole
//! file without mapping; a truncated file is then an error.
#![allow(unsafe_code)]

use crate::io_error;
use elinvar_core::host::with_capacity;
use elinvar_core::{Error, Result};
use memmap2::Mmap;
use std::fs::File;
use std::io::Read;
use std::ops::Deref;
use std::path::Path;

/// The bytes of a file.
#[derive(Debug)]
pub enum Bytes {
    /// Mapped.
    Mapped(Mmap),
    /// In memory.
    Owned(Vec<u8>),
}

impl Bytes {
    /// Maps a file.
    pub fn map(path: &Path) -> Result<Bytes> {
        let (file, _) = open(path)?;
        // SAFETY: `Mmap::map` requires that the file does not change while it is mapped, because a
        // `&[u8]` must not change. We only open it for reading, so this process does not change it;
        // no system can prevent other processes from doing so. The effect of a change is bounded:
        // the mapping is read-only and its length is fixed here, so no access leaves it; bytes are
        // only ever copied into integers and floats, for which every pattern is a value (a bool is
        // made by `!= 0`); and the headers, on which offsets depend, are copied before they are
        // checked.
        let map = unsafe { Mmap::map(&file) };
        Ok(Bytes::Mapped(map.map_err(|e| io_error(path, e))?))
    }

    /// Reads a file as a whole.
    pub fn read(path: &Path) -> Result<Bytes> {
        let (file, len) = open(path)?;
        let len = usize::try_from(len).map_err(|_| {
            Error::memory(format!("{}: {len} bytes cannot be addressed here", path.display()))
        })?;
        let mut bytes = with_capacity(len).map_err(|e| e.at(path.display()))?;
        // At most `len` bytes: a file that grows while it is read must not grow the buffer.
        file.take(len as u64).read_to_end(&mut bytes).map_err(|e| io_error(path, e))?;
        Ok(Bytes::Owned(bytes))
    }
}

/// The file and its length.
fn open(path: &Path) -> Result<(File, u64)> {
    let file = File::open(path).map_err(|e| io_error(path, e))?;
    let about = file.metadata().map_err(|e| io_error(path, e))?;
    if !about.is_file() {
        let kind = if about.is_dir() { "a directory" } else { "a device or a pipe" };
        return Err(Error::io(format!(
            "{}: is {kind}, not a file that can be read at any place",
            path.display()
        )));
    }
    Ok((file, about.len()))
}

impl Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Owned(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_and_read_bytes_are_equal() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        // An empty file has no pages to map, and one more byte than a page ends in a second page.
        for len in [0, 1, 4096, 4097] {
            let bytes: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(*Bytes::map(&path).unwrap(), bytes[..]);
            assert_eq!(*Bytes::read(&path).unwrap(), bytes[..]);
        }
        for missing in [Bytes::map(dir.path()), Bytes::read(dir.path()), Bytes::map(&dir.path().join("no"))] {
            let e = missing.unwrap_err();
            assert!(e.message().starts_with(&dir.path().display().to_string()), "{e}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_device_is_not_opened() {
        let e = Bytes::map(Path::new("/dev/null")).unwrap_err();
        assert_eq!(e.message(), "/dev/null: is a device or a pipe, not a file that can be read at any place");
    }

    /// A mapping outlives the name of its file, and a file that is replaced.
    #[cfg(unix)]
    #[test]
    fn a_replaced_file_stays_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "old").unwrap();
        let map = Bytes::map(&path).unwrap();
        crate::atomic_write(&path, |w| Ok(w.write_all(b"new and longer")?)).unwrap();
        assert_eq!(*map, *b"old");
    }
}
