//! Profiles: what the time of a program goes into, as a trace for a viewer and as a table by op.
//!
//! ```
//! use elinvar::prelude::*;
//!
//! let d = Device::cpu();
//! let x: Tensor = Generator::new(0).randn([64, 64], &d);
//! let (y, profile) = elinvar::profile(|| x.matmul(&x).relu().sum());
//! println!("{y} {}", profile.table(None));
//! assert!(profile.ops().iter().any(|row| row.op == "matmul" && row.calls == 1));
//! # Ok::<(), Error>(())
//! ```
//!
//! What is recorded, in all threads: calls of ops and of their gradients, backward passes, steps of
//! optimisers and of the training loop, [spans](span) of the program's own; each kind of work and
//! each copy; on GPUs each kernel by the device's clock; memory in use. While no profile is
//! recorded, each of these places costs one relaxed load.
//!
//! Work is seen where a backend is chosen at run time (`Tensor<Any>`), kernels on every GPU; of a
//! tensor whose processor backend is chosen at compile time only the calls are seen.
//!
//! Maps that a device has put off run when their result is read. Their time is that of the
//! op that asked for them last; that of a map which runs inside its reader (a sum, say) is the
//! reader's.

mod table;
mod trace;

pub use elinvar_core::profile::{Call, Cost, Event, Guard, Kind, Sample, Track, span};
pub use table::{Limits, OpRow};

use elinvar_core::Result;
use elinvar_core::profile::{Record, Session};
use elinvar_io::atomic_write;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The environment's wish for a trace, and its file.
const VARIABLE: &str = "ELINVAR_PROFILE";

/// Calls a function, and records what it does, and what other threads do meanwhile. Waits for the
/// devices that worked.
pub fn profile<T>(f: impl FnOnce() -> T) -> (T, Profile) {
    let session = Session::begin();
    let result = f();
    (result, Profile(session.end()))
}

/// What was recorded.
#[derive(Clone, PartialEq)]
pub struct Profile(Record);

impl Profile {
    /// What ran, in no order. Times are of one clock, whose zero says nothing.
    pub fn events(&self) -> &[Event] {
        &self.0.events
    }
    /// Memory in use, whenever it had changed; of devices that count it.
    pub fn memory(&self) -> &[Sample] {
        &self.0.samples
    }
    /// What a reader should know, such as a device without a clock.
    pub fn notes(&self) -> &[String] {
        &self.0.notes
    }
    /// The number of events that there was no room for: a million are kept.
    pub fn left_out(&self) -> u64 {
        self.0.left_out
    }
    /// From the beginning to the end, which waited for the devices.
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.0.end - self.0.start)
    }
    /// Where the time went, by op, the longest first.
    pub fn ops(&self) -> Vec<OpRow> {
        table::rows(&self.0)
    }
    /// [`Profile::ops`] as a table: calls, milliseconds on the host and of the work, the work's
    /// share, bytes and operations per second, and, if limits are given, how near that is to them.
    pub fn table(&self, limits: Option<&Limits>) -> String {
        table::table(&self.0, limits)
    }
    /// A trace in the JSON trace event format, for `ui.perfetto.dev` or `chrome://tracing`.
    pub fn trace(&self) -> String {
        let mut out = Vec::new();
        trace::write(&self.0, &mut out).expect("memory can be written");
        String::from_utf8(out).expect("it was written as text")
    }
    /// Writes [`Profile::trace`] to a file, as a whole or not at all.
    ///
    /// # Errors
    /// `Io` with the path.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        atomic_write(path, |out| Ok(trace::write(&self.0, out)?))
    }
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Profile({} events in {:?})", self.0.events.len(), self.duration())
    }
}

/// Records until it is finished or dropped, and then writes the trace to a file.
///
/// ```no_run
/// // At the beginning of `main`: a trace where ELINVAR_PROFILE asks for one.
/// let _trace = elinvar::profile::TraceFile::from_environment();
/// ```
#[derive(Debug)]
#[must_use = "recording ends when this is dropped"]
pub struct TraceFile {
    session: Option<Session>,
    path: PathBuf,
}

impl TraceFile {
    /// Begins to record.
    pub fn begin(path: impl Into<PathBuf>) -> TraceFile {
        TraceFile { session: Some(Session::begin()), path: path.into() }
    }
    /// Begins to record if the environment variable `ELINVAR_PROFILE` names a file.
    pub fn from_environment() -> Option<TraceFile> {
        TraceFile::named(std::env::var_os(VARIABLE))
    }
    fn named(path: Option<OsString>) -> Option<TraceFile> {
        path.filter(|path| !path.is_empty()).map(TraceFile::begin)
    }
    /// Ends, writes the file, and gives the profile.
    ///
    /// # Errors
    /// `Io` with the path; an older file of that name stays as it was.
    pub fn finish(mut self) -> Result<Profile> {
        let session = self.session.take().expect("it is taken here and in `drop` alone");
        let profile = Profile(session.end());
        profile.write(&self.path)?;
        Ok(profile)
    }
}

impl Drop for TraceFile {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else { return };
        // There is no caller to give an error to.
        if let Err(e) = Profile(session.end()).write(&self.path) {
            eprintln!("elinvar: {VARIABLE}: {e}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_asks_for_a_trace() {
        assert!(TraceFile::named(None).is_none());
        assert!(TraceFile::named(Some("".into())).is_none());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.json");
        let file = TraceFile::named(Some(path.clone().into())).unwrap();
        assert!(!path.exists());
        drop(file);
        assert!(std::fs::read_to_string(&path).unwrap().contains("traceEvents"));
    }
}
