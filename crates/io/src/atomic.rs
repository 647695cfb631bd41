//! A file is replaced as a whole or not at all.
//!
//! The bytes go into a new file in the same directory (a rename is atomic only within one file system), that
//! file is synced, renamed over the old one, and the directory is synced. A crash, a full disk or Ctrl-C at any
//! moment leaves the old file as it was; what a killed process can leave behind is a `.NAME.PID-N.part` beside it.

use crate::io_error;
use elinvar_core::{Error, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Large tensors are written in pieces of this size: fewer system calls, and small beside the tensors.
const BUFFER: usize = 1 << 20;

/// Writes a file through `content`; it takes the place of an older one only when all of it is on disk.
///
/// A symbolic link is followed, and the permissions of a file that is replaced are kept.
///
/// # Errors
/// `Io` with the path, if the directory is missing or not writable, the disk is full, or the path names something
/// other than a regular file; and whatever `content` returns. The file is then untouched.
pub fn atomic_write(
    path: impl AsRef<Path>,
    content: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    let path = path.as_ref();
    let (target, permissions) = match fs::metadata(path) {
        // Renaming over a device such as /dev/null would replace the device.
        Ok(m) if !m.is_file() => {
            return Err(Error::io(format!("{}: exists and is not a regular file", path.display())));
        }
        Ok(m) => (fs::canonicalize(path).map_err(|e| io_error(path, e))?, Some(m.permissions())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => (path.to_path_buf(), None),
        Err(e) => return Err(io_error(path, e)),
    };
    let part = Part::create(&target).map_err(|e| io_error(path, e))?;
    let mut out = BufWriter::with_capacity(BUFFER, &part.file);
    content(&mut out).map_err(|e| e.at(path.display()))?;
    out.flush().map_err(|e| io_error(path, e))?;
    drop(out);
    if let Some(permissions) = permissions {
        part.file.set_permissions(permissions).map_err(|e| io_error(path, e))?;
    }
    part.replace(&target).map_err(|e| io_error(path, e))
}

/// Creates the directory if it is missing and tries to write in it, so that a long run does not fail at its end.
///
/// # Errors
/// `Io` with the path, if it cannot be created or written to.
pub fn writable_dir(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    fs::create_dir_all(path).map_err(|e| io_error(path, e))?;
    Part::create(&path.join("writable")).map(drop).map_err(|e| io_error(path, e))
}

/// A file in the making; removed unless it has replaced its target.
struct Part {
    file: File,
    path: PathBuf,
    finished: bool,
}

impl Part {
    fn create(target: &Path) -> io::Result<Part> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = target.file_name().ok_or_else(|| io::Error::other("the path names no file"))?;
        loop {
            let mut part = std::ffi::OsString::from(".");
            part.push(name);
            part.push(format!(".{}-{}.part", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
            let path = target.with_file_name(part);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(Part { file, path, finished: false }),
                // Left behind by a killed process that had our number.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn replace(mut self, target: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, target)?;
        self.finished = true;
        sync_dir(target)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.finished {
            // Nothing can be done about a failure here, and the error that led here is on its way already.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Makes the rename itself last through a power cut.
#[cfg(unix)]
fn sync_dir(target: &Path) -> io::Result<()> {
    let parent = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match File::open(parent)?.sync_all() {
        // Some network file systems have no such thing for directories.
        Err(e) if matches!(e.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        result => result,
    }
}

/// Other systems give no handle on a directory; their rename is as lasting as they make it.
#[cfg(not(unix))]
fn sync_dir(_target: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use elinvar_core::ErrorKind;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn replaces_as_a_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        atomic_write(&path, |w| Ok(w.write_all(b"old")?)).unwrap();
        let e = atomic_write(&path, |w| {
            w.write_all(&[b'x'; 3 * BUFFER])?;
            Err(Error::io("the disk is full"))
        })
        .unwrap_err();
        assert_eq!(e.message(), format!("{}: the disk is full", path.display()));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        atomic_write(&path, |w| Ok(w.write_all(b"new")?)).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(dir.path()), ["a.txt"]);
    }

    #[test]
    fn a_panic_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        std::panic::catch_unwind(|| atomic_write(&path, |_| panic!("on purpose"))).unwrap_err();
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn a_path_that_cannot_be_written_is_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        fs::create_dir(dir.path().join("dir")).unwrap();
        // Below a directory that is missing, below a file, a directory, and no name at all.
        for bad in ["missing/a", "file/a", "dir", "dir/.."] {
            let path = dir.path().join(bad);
            let e = atomic_write(&path, |_| Ok(())).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Io, "{bad}");
            assert!(e.message().starts_with(&path.display().to_string()), "{bad}: {e}");
        }
        let below_file = dir.path().join("file/out");
        let e = writable_dir(&below_file).unwrap_err();
        assert!(
            e.kind() == ErrorKind::Io && e.message().starts_with(&below_file.display().to_string()),
            "{e}"
        );
        assert_eq!(names(dir.path()), ["dir", "file"]);
    }

    #[test]
    fn a_directory_is_made_and_left_clean() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        writable_dir(&path).unwrap();
        writable_dir(&path).unwrap();
        assert!(names(&path).is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn links_and_permissions_stay() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        fs::write(&real, "old").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
        symlink(&real, &link).unwrap();
        atomic_write(&link, |w| Ok(w.write_all(b"new")?)).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&real).unwrap(), b"new");
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[cfg(unix)]
    #[test]
    fn a_device_is_not_replaced() {
        let e = atomic_write("/dev/null", |_| Ok(())).unwrap_err();
        assert_eq!(e.message(), "/dev/null: exists and is not a regular file");
    }
}
