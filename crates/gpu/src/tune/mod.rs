//! Autotuning of GEMM and convolution: tiles and kernels, found by timing them.
//!
//! A tile changes how fast a product is, and no bit of it. Without tuning, a tile is chosen by the
//! size of the product alone. With `Settings::autotune` (`ELINVAR_TUNE=1`), the first product of
//! its kind (type, sizes up to the next power of two, which operands are K-major) is run with every
//! tile that the device can hold, and the fastest is taken from then on, also by later runs of any
//! program: it is kept in a file (`Settings::tune_cache`, or one per device and driver next to
//! compiled kernels). It is off by default, because it makes the first run slower: a kernel is
//! compiled for every tile. Where any order of sums will do (`Precision::Fast`), all kernels that
//! there are for it are timed, and the vendor's library, if one is installed; the file says which
//! was fastest. Convolutions and their gradients (`conv`) are timed with candidates that all give
//! the same bits, of either precision. `ELINVAR_TUNE=2` also prints each time on standard error.

mod conv;

use crate::gemm_fast::limits;
use elinvar_core::{Autotune, DType, Error, Layout, Result};
use elinvar_driver::{Driver, Info, Kind};
use elinvar_gpu_kernels::gemm::mma_sync::WarpTiling;
use elinvar_gpu_kernels::gemm::tma_wgmma;
use elinvar_gpu_kernels::gemm::{SimtTile, f64_tensor_core, in_block_split_k};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Products of fewer multiplications are not worth a try: they are over before they are begun.
const MIN_PRODUCTS: usize = 1 << 18;
/// How often each tile is run; the fastest run counts.
const RUNS_PER_CANDIDATE: usize = 3;

/// The tiles that are tried. More sums for an invocation mean fewer loads for each, and fewer
/// invocations.
const TILES: [SimtTile; 14] = [
    SimtTile::PLAIN,
    SimtTile { group: [1, 8], each: [8, 2], depth: 0, slots: 0 },
    SimtTile { group: [2, 32], each: [8, 4], depth: 0, slots: 0 },
    SimtTile { group: [16, 16], each: [2, 2], depth: 0, slots: 0 },
    SimtTile { group: [8, 8], each: [4, 4], depth: 16, slots: 0 },
    SimtTile::SHARED,
    LARGE_TILES[0],
    LARGE_TILES[1],
    LARGE_TILES[2],
    CP_ASYNC_TILES[0],
    CP_ASYNC_TILES[1],
    CP_ASYNC_TILES[2],
    SimtTile { group: [16, 16], each: [8, 8], depth: 8, slots: 0 },
    SimtTile { group: [16, 16], each: [8, 4], depth: 8, slots: 4 },
];

/// Tiles of few loads for each product, the best first, for where there are many of them. Terms go
/// through registers, which is faster on an H100 than cp.async, or half as many terms at a time.
/// Workgroups of 128 follow each other more closely than those of 256, of which a product of 2048
/// has no more than one wave.
const LARGE_TILES: [SimtTile; 3] = [
    SimtTile { group: [8, 16], each: [8, 8], depth: 16, slots: 0 },
    SimtTile { group: [16, 16], each: [8, 4], depth: 16, slots: 0 },
    SimtTile { group: [16, 16], each: [8, 8], depth: 16, slots: 0 },
];
/// The same with terms that copies bring: one barrier for each step instead of two, and no
/// registers for what is on its way. Of f64 they are faster, since what is on its way takes twice
/// the registers.
const CP_ASYNC_TILES: [SimtTile; 3] = [
    SimtTile { group: [16, 16], each: [8, 8], depth: 16, slots: 3 },
    SimtTile { group: [8, 16], each: [8, 8], depth: 16, slots: 3 },
    SimtTile { group: [8, 16], each: [4, 4], depth: 16, slots: 3 },
];

/// How an exact product is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExactGemmPath {
    /// Cut so; chunks have launches or workgroups of their own, or follow one another.
    Simt(SimtTile),
    /// With the chunks of a tile side by side in a workgroup; its size and theirs is for the
    /// library to say.
    InBlockSplitK,
    /// By tensor cores that compute chains of fma.
    F64Mma(f64_tensor_core::F64MmaTile),
}

impl ExactGemmPath {
    const PLAIN: ExactGemmPath = ExactGemmPath::Simt(SimtTile::PLAIN);
    /// All of them, beginning with the one that is there on each device.
    fn all() -> impl Iterator<Item = ExactGemmPath> {
        TILES
            .into_iter()
            .map(ExactGemmPath::Simt)
            .chain([ExactGemmPath::InBlockSplitK])
            .chain(f64_tensor_core::F64MmaTile::ALL.map(ExactGemmPath::F64Mma))
    }
    /// As it stands in the file.
    fn word(self) -> String {
        match self {
            ExactGemmPath::Simt(t) => format!("simt {}", tile_name(&t)),
            ExactGemmPath::InBlockSplitK => "in-block split-k".to_string(),
            ExactGemmPath::F64Mma(f64_tensor_core::F64MmaTile {
                subgroups: [a, b],
                each: [c, d],
                depth,
                slots,
            }) => {
                format!("f64 tensor cores {a}x{b} of {c}x{d}, depth {depth}, {slots} slots")
            }
        }
    }
    /// Can the device do it? `f64_fma_chain`: its tensor cores compute chains of fma.
    fn fits(self, info: &Info, case: &GemmCase, f64_fma_chain: bool) -> bool {
        match self {
            ExactGemmPath::F64Mma(t) => f64_fma_chain && case.dtype == DType::F64 && t.fits(limits(info)),
            ExactGemmPath::Simt(t) => fits(info, &t, case.dtype),
            ExactGemmPath::InBlockSplitK => {
                in_block_split_k::InBlockSplitKTile::of(case.dtype, case.sizes_up(), limits(info)).is_some()
            }
        }
    }
}

/// What products have one best tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GemmCase {
    dtype: DType,
    /// Batch, m, n, k: exponents of the next powers of two.
    sizes: [u32; 4],
    /// Do neighbouring terms are contiguous in x, and in w?
    k_major: [bool; 2],
}

impl GemmCase {
    pub(crate) fn of(dtype: DType, x: &Layout, w: &Layout) -> GemmCase {
        let sizes = [x.shape()[0], x.shape()[1], w.shape()[2], x.shape()[2]];
        GemmCase {
            dtype,
            sizes: sizes.map(|n| n.max(1).next_power_of_two().ilog2()),
            k_major: [x.strides()[2].unsigned_abs() == 1, w.strides()[1].unsigned_abs() == 1],
        }
    }
    /// The sizes, or more: batch, m, n, k.
    fn sizes_up(&self) -> [usize; 4] {
        self.sizes.map(|s| 1 << s.min(31))
    }
    fn is_small(&self) -> bool {
        self.sizes.iter().sum::<u32>() < MIN_PRODUCTS.ilog2()
    }
    /// A word of the file: `f32 0 10 10 9 true false`.
    fn word(&self) -> String {
        let [b, m, n, k] = self.sizes;
        format!("{} {b} {m} {n} {k} {} {}", self.dtype, self.k_major[0], self.k_major[1])
    }
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
    fast: Mutex<BTreeMap<String, (GemmImpl, bool)>>,
    /// How convolutions are done.
    conv: Mutex<conv::TunedConvs>,
}

/// Who does a product whose order is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GemmImpl {
    /// Our kernel, as it is chosen without trying.
    Heuristic,
    /// Our kernel of TMA tiles, with this tile.
    Wgmma(tma_wgmma::WgmmaTile),
    /// Our kernel of fragments, with a tile that is cut so.
    Mma(WarpTiling),
    /// The library of the device's vendor.
    VendorLibrary,
}

impl GemmImpl {
    /// As it stands in the file.
    fn word(self) -> String {
        match self {
            GemmImpl::Heuristic => "default".to_string(),
            GemmImpl::Wgmma(t) => format!("wgmma {}x{}", t.size(0), t.size(1)),
            GemmImpl::Mma(cut) => format!("mma {}", tiling_name(cut)),
            GemmImpl::VendorLibrary => "vendor library".to_string(),
        }
    }
    /// All of them.
    fn all() -> impl Iterator<Item = GemmImpl> {
        let tma = tma_wgmma::WgmmaTile::ALL.into_iter().map(GemmImpl::Wgmma);
        [GemmImpl::Heuristic, GemmImpl::VendorLibrary]
            .into_iter()
            .chain(tma)
            .chain(WarpTiling::all().map(GemmImpl::Mma))
    }
}

/// What a line on such a product begins with.
const FAST_PREFIX: &str = "fast ";

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
            let path = ExactGemmPath::all().find(|path| path.word() == name)?;
            Some((word.to_string(), path))
        };
        let exact = Mutex::new(text.lines().filter_map(line).collect());
        let (fast, conv) = (Mutex::new(Tuner::fast(text)), Mutex::new(conv::read(text)));
        Tuner { enabled, verbose: false, file, device: String::new(), exact, fast, conv }
    }
    /// What a file says of products whose order is free; this program has not seen it.
    fn fast(text: &str) -> BTreeMap<String, (GemmImpl, bool)> {
        let line = |l: &str| {
            let (word, name) = l.strip_prefix(FAST_PREFIX)?.split_once(": ")?;
            let choice = GemmImpl::all().find(|choice| choice.word() == name)?;
            Some((word.to_string(), (choice, false)))
        };
        text.lines().filter_map(line).collect()
    }

    /// Who does a product whose order is free? All of `candidates`, of which `Ours` is the first,
    /// are run to find out; `time` says nothing of a way in which this cannot be done.
    ///
    /// # Errors
    /// Those of `time`.
    pub(crate) fn fast_gemm(
        &self,
        case: GemmCase,
        candidates: &dyn Fn() -> Vec<GemmImpl>,
        time: &dyn Fn(GemmImpl) -> Result<Option<Duration>>,
    ) -> Result<GemmImpl> {
        let known = self.lock_fast().get(&case.word()).copied();
        let choice = match known {
            Some((choice, true)) => return Ok(choice),
            None if !self.enabled => return Ok(GemmImpl::Heuristic),
            // The library that the file speaks of may be gone.
            Some((GemmImpl::VendorLibrary, false)) if time(GemmImpl::VendorLibrary)?.is_none() => {
                GemmImpl::Heuristic
            }
            Some((choice, false)) => choice,
            None => self.fastest(&case.word(), &candidates(), &GemmImpl::word, time)?,
        };
        self.lock_fast().insert(case.word(), (choice, true));
        if known.is_none() {
            self.save();
        }
        Ok(choice)
    }
    fn lock_conv(&self) -> MutexGuard<'_, conv::TunedConvs> {
        self.conv.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn lock_fast(&self) -> MutexGuard<'_, BTreeMap<String, (GemmImpl, bool)>> {
        self.fast.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How a product is done, whose time in some way `run` finds out. `f64_fma_chain` finds out
    /// whether tensor cores compute chains of fma.
    ///
    /// # Errors
    /// Those of `run` and `f64_fma_chain`.
    pub(crate) fn exact_gemm(
        &self,
        info: &Info,
        case: GemmCase,
        f64_fma_chain: &dyn Fn() -> Result<bool>,
        run: &dyn Fn(ExactGemmPath) -> Result<Duration>,
    ) -> Result<ExactGemmPath> {
        if case.is_small() {
            return Ok(ExactGemmPath::PLAIN);
        }
        let lock = || self.exact.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().get(&case.word()).copied();
        // What does not take units on a device of software need not know.
        let asks =
            case.dtype == DType::F64 && (self.enabled || known.is_some() || info.kind != Kind::Software);
        let f64_fma_chain = asks && f64_fma_chain()?;
        match known {
            // A file may be of another time, and bits do not depend on it.
            Some(ExactGemmPath::F64Mma(_)) if !f64_fma_chain => {
                return Ok(by_size(info, &case, f64_fma_chain));
            }
            Some(path) => return Ok(path),
            None if !self.enabled => return Ok(by_size(info, &case, f64_fma_chain)),
            None => {}
        }
        let there: Vec<ExactGemmPath> =
            ExactGemmPath::all().filter(|path| path.fits(info, &case, f64_fma_chain)).collect();
        let path = self.fastest(&case.word(), &there, &ExactGemmPath::word, &|path| run(path).map(Some))?;
        lock().insert(case.word(), path);
        self.save();
        Ok(path)
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
            let _ = writeln!(text, "{word}: {}", path.word());
        }
        for (word, (choice, _)) in self.lock_fast().iter() {
            let _ = writeln!(text, "{FAST_PREFIX}{word}: {}", choice.word());
        }
        conv::write(&self.lock_conv(), &mut text);
        let dir = file.parent().unwrap_or(file);
        if std::fs::create_dir_all(dir).is_ok() {
            let _ = elinvar_io::atomic_write(file, |f| f.write_all(text.as_bytes()).map_err(Error::from));
        }
    }
}

fn tiling_name(WarpTiling { subgroups: [a, b], each: [c, d], deep, slots }: WarpTiling) -> String {
    format!("{a}x{b} of {c}x{d}, {deep} deep, {slots} slots")
}

fn tile_name(t: &SimtTile) -> String {
    let [[a, b], [c, d]] = [t.group, t.each];
    let slots = if t.slots > 0 { format!(", {} slots", t.slots) } else { String::new() };
    format!("{a}x{b} of {c}x{d}, depth {}{slots}", t.depth)
}

/// Can the device hold it?
fn fits(info: &Info, t: &SimtTile, dtype: DType) -> bool {
    (t.slots == 0 || info.cp_async)
        && t.group[0] * t.group[1] <= info.invocations
        && t.shared_elements() * dtype.compute().size() as u32 <= info.shared
}

/// What is taken without trying.
fn by_size(info: &Info, case: &GemmCase, f64_fma_chain: bool) -> ExactGemmPath {
    // A software device pays for each barrier what a real one pays for a hundred products.
    if info.kind == Kind::Software || case.sizes[3] < 5 {
        return ExactGemmPath::PLAIN;
    }
    let sums = case.sizes[..3].iter().sum::<u32>();
    let count = |t: &SimtTile| (1u64 << sums) / u64::from(t.group[0] * t.each[0] * t.group[1] * t.each[1]);
    // Half of a tile's rows or columns would be beyond the ends.
    let few = case.sizes[1..3].iter().any(|&s| s < 6);
    // The largest tiles would leave multiprocessors without work, and copies bring terms as they
    // are.
    let largest = if case.dtype == DType::F64 { CP_ASYNC_TILES[1] } else { LARGE_TILES[2] };
    let busy = limits(info).compute_units.filled_by(1) as u64;
    let idle = || count(&largest) < busy && info.cp_async && case.dtype.compute() == case.dtype;
    if f64_fma_chain
        && !few
        && let Some(tile) = f64_tensor_core::F64MmaTile::of(case.sizes_up(), limits(info))
    {
        return ExactGemmPath::F64Mma(tile);
    }
    if (few || idle()) && ExactGemmPath::InBlockSplitK.fits(info, case, f64_fma_chain) {
        return ExactGemmPath::InBlockSplitK;
    }
    if case.sizes[1..3].iter().any(|&s| s < 5) {
        return ExactGemmPath::PLAIN;
    }
    let mut large = if case.dtype == DType::F64 { CP_ASYNC_TILES } else { LARGE_TILES }.into_iter();
    let tile = large.find(|t| count(t) >= busy && fits(info, t, case.dtype)).unwrap_or(SimtTile::SHARED);
    if fits(info, &tile, case.dtype) { ExactGemmPath::Simt(tile) } else { ExactGemmPath::PLAIN }
}

#[cfg(test)]
mod tests;
