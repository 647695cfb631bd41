//! Autotuning of GEMM and convolution: tiles and kernels, found by timing them.
//!
//! A tile changes how fast a product is, and no bit of it. Without tuning, the plan
//! (`elinvar_gpu_kernels::gemm::plan`) says which tile it is; it also says what there is to try.
//! With `Settings::autotune` (`ELINVAR_TUNE=1`), the first product of its kind (type, sizes up to
//! the next power of two, which operands are K-major) is run with every tile that the device can
//! hold, and the fastest is taken from then on, also by later runs of any program: it is kept in a
//! file (`Settings::tune_cache`, or one per device and driver next to compiled kernels). It is off
//! by default, because it makes the first run slower: a kernel is compiled for every tile. Where
//! any order of sums will do (`Precision::Fast`), all kernels that there are for it are timed, and
//! the vendor's library, if one is installed; the file says which was fastest. Convolutions and
//! their gradients (`conv`) are timed with candidates that all give the same bits, of either
//! precision. `ELINVAR_TUNE=2` also prints each time on standard error.

mod conv;

use elinvar_core::{Autotune, DType, Error, Result};
use elinvar_driver::{Driver, Info};
use elinvar_gpu_kernels::gemm::plan::{self, ExactGemmPath, FastGemmCandidate, GemmCase};
use elinvar_gpu_kernels::{Machine, Plan};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often each tile is run; the fastest run counts.
const RUNS_PER_CANDIDATE: usize = 3;

/// A word of the file: `f32 0 10 10 9 true false`.
fn word(case: &GemmCase) -> String {
    let [b, m, n, k] = case.sizes;
    format!("{} {b} {m} {n} {k} {} {}", case.dtype, case.k_major[0], case.k_major[1])
}

/// What was found out on a device.
#[derive(Debug)]
pub(crate) struct Tuner {
    enabled: bool,
    /// Does it say how long each way took?
    verbose: bool,
    file: Option<PathBuf>,
    /// What the device is called in the file.
    device: String,
    /// The best way, by the word of the case.
    exact: Mutex<BTreeMap<String, ExactGemmPath>>,
    /// Who does products where any order of sums will do, by the word of the case; and was that
    /// found out, or seen to be so, by this program?
    fast: Mutex<BTreeMap<String, (FastGemmCandidate, bool)>>,
    /// How convolutions are done.
    conv: Mutex<conv::TunedConvs>,
}

/// What a line on such a product begins with.
const FAST_PREFIX: &str = "fast ";

/// Why a path is taken that was timed.
pub(crate) const MEASURED: &str = "the tuner measured it as the fastest";

/// The first line of the file. A file of another version is not read: its words may mean something
/// else.
const HEADER: &str = "elinvar tiles, version 2";

/// What a line with the name of the device begins with.
const DEVICE_PREFIX: &str = "device ";

/// What a device is called in files of tuning.
pub(crate) fn device_name<D: Driver>(info: &Info) -> String {
    let plain = |s: &str| -> String {
        s.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect()
    };
    format!("{}-{}-{}", D::NAME, plain(&info.name), plain(&info.driver))
}

/// The file of a device where none is named: one for each device and driver, next to compiled
/// kernels.
pub(crate) fn default_file(device: &str) -> Option<PathBuf> {
    elinvar_driver::cache_dir().map(|dir| dir.join(format!("{device}.tiles")))
}

fn place(file: Option<&Path>) -> String {
    format!("tune_cache {}", file.unwrap_or(Path::new("")).display())
}

impl Tuner {
    /// With what a file says, for a device that is called so in files. `named`: a user named the
    /// file, so that one which cannot be used is an error; of a file of our own, nothing is needed.
    ///
    /// # Errors
    /// `Io` if the named file cannot be read, `InvalidArgument` if it is another device's.
    pub(crate) fn new(asked: Autotune, file: Option<PathBuf>, named: bool, device: String) -> Result<Tuner> {
        let text = match file.as_ref().map(std::fs::read_to_string) {
            Some(Ok(text)) => text,
            Some(Err(e)) if named && e.kind() != ErrorKind::NotFound => {
                return Err(Error::from(e).at(place(file.as_deref())));
            }
            Some(Err(_)) | None => String::new(),
        };
        if let Some(other) = text.lines().find_map(|l| l.strip_prefix(DEVICE_PREFIX))
            && other != device
        {
            return Err(Error::argument(format!(
                "{}: it is of the device {other}, and this one is {device}",
                place(file.as_deref())
            )));
        }
        let (enabled, verbose) = match asked {
            Autotune::Off => (false, false),
            Autotune::On => (true, false),
            Autotune::Print => (true, true),
        };
        Ok(Tuner { verbose, device, ..Tuner::with_file(enabled, file, &text) })
    }
    /// With what a file says.
    fn with_file(enabled: bool, file: Option<PathBuf>, text: &str) -> Tuner {
        let text = text.strip_prefix(HEADER).and_then(|rest| rest.strip_prefix('\n')).unwrap_or_default();
        // A line that is not understood is as good as none.
        let line = |l: &str| {
            let (word, name) = l.split_once(": ")?;
            let path = ExactGemmPath::all().find(|path| path.to_string() == name)?;
            Some((word.to_string(), path))
        };
        let exact = Mutex::new(text.lines().filter_map(line).collect());
        let (fast, conv) = (Mutex::new(Tuner::fast(text)), Mutex::new(conv::read(text)));
        Tuner { enabled, verbose: false, file, device: String::new(), exact, fast, conv }
    }
    /// What a file says of products whose order is free; this program has not seen it.
    fn fast(text: &str) -> BTreeMap<String, (FastGemmCandidate, bool)> {
        let line = |l: &str| {
            let (word, name) = l.strip_prefix(FAST_PREFIX)?.split_once(": ")?;
            let choice = FastGemmCandidate::all().find(|choice| choice.to_string() == name)?;
            Some((word.to_string(), (choice, false)))
        };
        text.lines().filter_map(line).collect()
    }

    /// Who does a product whose order is free? All of `candidates`, of which `Default` is the
    /// first, are run to find out; `time` says nothing of a way in which this cannot be done.
    ///
    /// # Errors
    /// Those of `time`.
    pub(crate) fn fast_gemm(
        &self,
        case: GemmCase,
        candidates: &dyn Fn() -> Vec<FastGemmCandidate>,
        time: &dyn Fn(FastGemmCandidate) -> Result<Option<Duration>>,
    ) -> Result<FastGemmCandidate> {
        let known = self.lock_fast().get(&word(&case)).copied();
        let choice = match known {
            Some((choice, true)) => return Ok(choice),
            None if !self.enabled => return Ok(FastGemmCandidate::Default),
            // The library that the file speaks of may be gone.
            Some((FastGemmCandidate::VendorLibrary, false))
                if time(FastGemmCandidate::VendorLibrary)?.is_none() =>
            {
                FastGemmCandidate::Default
            }
            Some((choice, false)) => choice,
            None => self.fastest(
                &word(&case),
                &candidates(),
                &|choice: FastGemmCandidate| choice.to_string(),
                time,
            )?,
        };
        self.lock_fast().insert(word(&case), (choice, true));
        if known.is_none() {
            self.save();
        }
        Ok(choice)
    }
    fn lock_conv(&self) -> MutexGuard<'_, conv::TunedConvs> {
        self.conv.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn lock_fast(&self) -> MutexGuard<'_, BTreeMap<String, (FastGemmCandidate, bool)>> {
        self.fast.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How a product is done, whose time in some way `run` finds out. `f64_fma_chain` finds out
    /// whether tensor cores compute chains of fma.
    ///
    /// # Errors
    /// Those of `run` and `f64_fma_chain`.
    pub(crate) fn exact_gemm(
        &self,
        machine: &Machine<'_>,
        case: GemmCase,
        f64_fma_chain: &dyn Fn() -> Result<bool>,
        run: &dyn Fn(ExactGemmPath) -> Result<Duration>,
    ) -> Result<Plan<ExactGemmPath>> {
        if case.is_small() {
            return Ok(plan::exact(&case, machine, false));
        }
        let lock = || self.exact.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().get(&word(&case)).copied();
        // Where barriers are expensive, nothing but a tuner would take tensor cores.
        let asks = case.dtype == DType::F64 && (self.enabled || known.is_some() || !machine.is_software);
        let f64_fma_chain = asks && f64_fma_chain()?;
        match known {
            // A file may be of another time, and bits do not depend on it.
            Some(ExactGemmPath::F64Mma(_)) if !f64_fma_chain => {}
            Some(path) => return Ok(Plan::new(path, MEASURED)),
            None if !self.enabled => {}
            None => {
                let there = plan::exact_candidates(&case, machine, f64_fma_chain);
                let name = |path: ExactGemmPath| path.to_string();
                let path = self.fastest(&word(&case), &there, &name, &|path| run(path).map(Some))?;
                lock().insert(word(&case), path);
                self.save();
                return Ok(Plan::new(path, MEASURED));
            }
        }
        Ok(plan::exact(&case, machine, f64_fma_chain))
    }

    /// The fastest of some ways to do `what`, of which the first can be done: each is run a few
    /// times, in turns. `time` says nothing of a way in which this cannot be done.
    ///
    /// # Errors
    /// Those of `time`.
    fn fastest<T: Copy>(
        &self,
        what: &str,
        candidates: &[T],
        name: &dyn Fn(T) -> String,
        time: &dyn Fn(T) -> Result<Option<Duration>>,
    ) -> Result<T> {
        let mut there = Vec::new();
        // With nothing to choose from, there is nothing to try.
        for &candidate in candidates.iter().filter(|_| candidates.len() > 1) {
            // The first run of each prepares it.
            if time(candidate)?.is_some() {
                there.push((candidate, Duration::MAX));
            }
        }
        for _ in 0..if there.len() > 1 { RUNS_PER_CANDIDATE } else { 0 } {
            for (candidate, least) in &mut there {
                *least = (*least).min(time(*candidate)?.unwrap_or(Duration::MAX));
            }
        }
        for (candidate, least) in there.iter().filter(|_| self.verbose) {
            eprintln!("tried {what}: {}: {:.1} us", name(*candidate), least.as_secs_f64() * 1e6);
        }
        Ok(there
            .into_iter()
            .min_by_key(|(_, least)| *least)
            .map_or(candidates[0], |(candidate, _)| candidate))
    }

    /// Writes what is known. It saves time and is never needed, so that what goes wrong is not an
    /// error.
    fn save(&self) {
        let Some(file) = &self.file else { return };
        let mut text = format!("{HEADER}\n");
        if !self.device.is_empty() {
            let _ = writeln!(text, "{DEVICE_PREFIX}{}", self.device);
        }
        for (word, path) in self.exact.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let _ = writeln!(text, "{word}: {path}");
        }
        for (word, (choice, _)) in self.lock_fast().iter() {
            let _ = writeln!(text, "{FAST_PREFIX}{word}: {choice}");
        }
        conv::write(&self.lock_conv(), &mut text);
        let dir = file.parent().unwrap_or(file);
        if std::fs::create_dir_all(dir).is_ok() {
            let _ = elinvar_io::atomic_write(file, |f| f.write_all(text.as_bytes()).map_err(Error::from));
        }
    }
}

#[cfg(test)]
mod tests;
