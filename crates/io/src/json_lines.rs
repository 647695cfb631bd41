//! Metrics as JSON lines: one record per line, each flushed, so that a run can be watched, and an
//! interrupted run keeps its records.

use crate::io_error;
use elinvar_core::{Error, Result};
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A file of JSON lines, open for writing.
#[derive(Debug)]
pub struct JsonLines {
    file: File,
    path: PathBuf,
}

impl JsonLines {
    /// A new, empty file; an older one of this name is emptied.
    ///
    /// # Errors
    /// `Io` with the path, if it cannot be created.
    pub fn create(path: impl AsRef<Path>) -> Result<JsonLines> {
        let path = path.as_ref().to_path_buf();
        let file = File::create(&path).map_err(|e| io_error(&path, e))?;
        Ok(JsonLines { file, path })
    }

    /// Opens a file for appending; it is created if it is missing.
    ///
    /// # Errors
    /// `Io` with the path, if it cannot be opened.
    pub fn append(path: impl AsRef<Path>) -> Result<JsonLines> {
        let path = path.as_ref().to_path_buf();
        let file = File::options().append(true).create(true).open(&path).map_err(|e| io_error(&path, e))?;
        Ok(JsonLines { file, path })
    }

    /// Appends one record as one line. Non-finite numbers become `null`, because JSON has no
    /// others.
    ///
    /// # Errors
    /// `Io` with the path, if the disk is full or gone; `Format` if the record cannot be written as
    /// JSON, such as a map whose keys are not strings.
    pub fn write(&mut self, record: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(record)
            .map_err(|e| Error::format(format!("{}: a record is not JSON: {e}", self.path.display())))?;
        line.push(b'\n');
        // One system call per line, so that concurrent readers see whole lines.
        self.file.write_all(&line).map_err(|e| io_error(&self.path, e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use elinvar_core::ErrorKind;
    use std::collections::BTreeMap;

    #[derive(Serialize)]
    struct Record {
        step: u32,
        loss: f32,
        note: &'static str,
    }

    #[test]
    fn lines_can_be_read_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let mut lines = JsonLines::create(&path).unwrap();
        lines.write(&Record { step: 1, loss: 0.5, note: "two\nlines" }).unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "{\"step\":1,\"loss\":0.5,\"note\":\"two\\nlines\"}\n"
        );
        lines.write(&Record { step: 2, loss: f32::NAN, note: "" }).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().nth(1), Some("{\"step\":2,\"loss\":null,\"note\":\"\"}"));
        drop(lines);
        JsonLines::append(&path).unwrap().write(&3).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().nth(2), Some("3"));
        assert!(JsonLines::create(&path).is_ok() && std::fs::read(&path).unwrap().is_empty());
    }

    #[test]
    fn errors_name_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("missing/metrics.jsonl");
        let e = JsonLines::create(&path).unwrap_err();
        assert!(e.kind() == ErrorKind::Io && e.message().starts_with(&path.display().to_string()), "{e}");
        let path = dir.path().join("metrics.jsonl");
        let e = JsonLines::create(&path).unwrap().write(&BTreeMap::from([([1, 2], 3)])).unwrap_err();
        assert!(e.kind() == ErrorKind::Format && e.message().starts_with(&path.display().to_string()), "{e}");
        assert!(std::fs::read(&path).unwrap().is_empty(), "a record that fails leaves no half line");
    }
}
