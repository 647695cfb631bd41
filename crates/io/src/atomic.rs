//! A file is replaced as a whole or not at all.
//!
//! The bytes go into a new file in the same directory (a rename is atomic only within one file
//! system), that file is synced, renamed over the old one, and the directory is synced. A crash, a
//! full disk or Ctrl-C at any moment leaves the old file as it was; a killed process can leave a
//! `.NAME.PID-N.part` in the same directory.

use crate::io_error;
use elinvar_core::{Error, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The buffer of the writer, in bytes: large enough for few system calls, small compared to
/// tensors.
const BUFFER: usize = 1 << 20;

/// Writes a file through `content`; it replaces an older one only when all of it is on disk.
///
/// A symbolic link is followed, and the permissions of a file that is replaced are kept.
///
/// # Errors
/// `Io` with the path, if the directory is missing or not writable, the disk is full, or the path
/// names something other than a regular file; and whatever `content` returns. The file is then
/// untouched.
pub fn atomic_write(
    path: impl AsRef<Path>,
    content: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    replace(path.as_ref(), content, |mut file, bytes| file.write(bytes))
}

/// [`atomic_write`] with a custom write function, by which tests simulate a full disk.
fn replace(
    path: &Path,
    content: impl FnOnce(&mut dyn Write) -> Result<()>,
    write: impl FnMut(&File, &[u8]) -> io::Result<usize>,
) -> Result<()> {
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
    let mut out = BufWriter::with_capacity(BUFFER, Through { file: &part.file, write });
    let written = content(&mut out).map_err(|e| e.at(path.display()));
    let written = written.and_then(|()| out.flush().map_err(|e| io_error(path, e)));
    // Dropping the writer would try to flush the buffer again.
    drop(out.into_parts());
    written?;
    if let Some(permissions) = permissions {
        part.file.set_permissions(permissions).map_err(|e| io_error(path, e))?;
    }
    part.replace(&target).map_err(|e| io_error(path, e))
}

/// The new file, below the buffer.
struct Through<'a, F> {
    file: &'a File,
    write: F,
}

impl<F: FnMut(&File, &[u8]) -> io::Result<usize>> Write for Through<'_, F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (self.write)(self.file, bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Creates the directory if it is missing and tries to write in it, so that a long run does not
/// fail at its end.
///
/// # Errors
/// `Io` with the path, if it cannot be created or written to; the message names the cause.
pub fn writable_dir(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    fs::create_dir_all(path).map_err(|e| cannot_be_made(path, &e))?;
    Part::create(&path.join("writable")).map(drop).map_err(|e| {
        Error::io(format!(
            "{}: nothing can be written in this directory ({e}); allow it, or choose another directory",
            path.display()
        ))
    })
}

/// The reason why a directory cannot be created. The system's error is often about another
/// directory than the requested one.
fn cannot_be_made(path: &Path, e: &io::Error) -> Error {
    // The nearest existing ancestor: the first new directory would be created in it, or it is not a
    // directory.
    let near = path.ancestors().find(|p| p.as_os_str().is_empty() || fs::symlink_metadata(p).is_ok());
    let near = near.filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Error::io(match fs::metadata(near) {
        Ok(m) if m.is_dir() => format!(
            "{}: this directory cannot be created in {} ({e}); choose another one",
            path.display(),
            near.display()
        ),
        Ok(_) => format!(
            "{}: this directory cannot be created, for {} is a file; choose another name, or move the file away",
            path.display(),
            near.display()
        ),
        Err(link) => format!(
            "{}: this directory cannot be created, for {} leads nowhere ({link}); choose another name, or remove it",
            path.display(),
            near.display()
        ),
    })
}

/// An incomplete file; removed on drop unless it has replaced its target.
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
                // Left behind by a killed process with the same id.
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
            // A failure is ignored: the error that led here is already being returned.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Makes the rename itself durable.
#[cfg(unix)]
fn sync_dir(target: &Path) -> io::Result<()> {
    let parent = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match File::open(parent)?.sync_all() {
        // Some network file systems cannot sync directories.
        Err(e) if matches!(e.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        result => result,
    }
}

/// Other systems give no handle on a directory; the durability of a rename is theirs.
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

    /// A disk with space for `left` bytes: the last write before it is full is partial, as on a
    /// real one.
    fn room(mut left: usize) -> impl FnMut(&File, &[u8]) -> io::Result<usize> {
        move |mut file, bytes| match left.min(bytes.len()) {
            0 if !bytes.is_empty() => Err(io::ErrorKind::StorageFull.into()),
            n => {
                left -= n;
                file.write(&bytes[..n])
            }
        }
    }

    #[test]
    fn a_full_disk_leaves_the_old_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        fs::write(&path, b"old").unwrap();
        let len = 2 * BUFFER + 10;
        let content = |w: &mut dyn Write| {
            // Small pieces, so that the buffer is full in the middle of one, and one larger than
            // the buffer.
            for _ in 0..BUFFER / 8 + 1 {
                w.write_all(b"12345678")?;
            }
            Ok(w.write_all(&vec![b'x'; len - (BUFFER + 8)])?)
        };
        // At the first byte, within the first buffer, at its edge, in the second, and at the very
        // last byte.
        for n in [0, 1, BUFFER - 1, BUFFER, BUFFER + 1, 2 * BUFFER, len - 1] {
            let e = replace(&path, content, room(n)).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Io, "{n}");
            assert!(e.message().starts_with(&path.display().to_string()), "{n}: {e}");
            assert_eq!(fs::read(&path).unwrap(), b"old", "{n}");
            assert_eq!(names(dir.path()), ["a.txt"], "{n}");
        }
        replace(&path, content, room(len)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), len as u64);
        assert_eq!(names(dir.path()), ["a.txt"]);
    }

    /// The operating system's own behaviour: every write to this device fails as on a full disk.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_device_that_is_full_leaves_the_old_file() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        fs::write(&path, b"old").unwrap();
        let e = replace(&path, |w| Ok(w.write_all(b"new")?), |_, bytes| (&full).write(bytes)).unwrap_err();
        assert!(e.message().contains("No space left on device"), "{e}");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(dir.path()), ["a.txt"]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_directory_that_cannot_be_created_is_an_error() {
        let e = writable_dir("/proc/x/y").unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Io);
        let start = "/proc/x/y: this directory cannot be created in /proc (";
        assert!(e.message().starts_with(start) && e.message().ends_with("; choose another one"), "{e}");
    }

    #[cfg(unix)]
    #[test]
    fn a_dangling_link_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path().join("gone"), &link).unwrap();
        let e = writable_dir(link.join("out")).unwrap_err();
        assert!(e.message().contains(&format!("for {} leads nowhere", link.display())), "{e}");
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
        for bad in ["file", "file/out", "file/out/deeper"] {
            let path = dir.path().join(bad);
            let e = writable_dir(&path).unwrap_err();
            let why = format!(
                "{}: this directory cannot be created, for {} is a file; choose another name, or move the file away",
                path.display(),
                dir.path().join("file").display()
            );
            assert_eq!((e.kind(), e.message()), (ErrorKind::Io, why.as_str()));
        }
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
