//! How products and convolutions are cut into pieces, found out by trying.
//!
//! A tile changes how fast a product is, and no bit of it. Without tuning, a tile is chosen by the size of the product alone.
//! With `ELINVAR_TUNE=1`, the first product of its kind (type, sizes up to the next power of two, which factors are read along)
//! is run with every tile that the device can hold, and the fastest is taken from then on, also by later runs of any program: it
//! is kept in a file beside the compiled pipelines, one per device and driver. It is off by default, because it makes the
//! first run slower: a kernel is compiled for every tile. Where any order of sums will do (`Precision::Fast`), all kernels that
//! there are for it are tried, and the library of the device's vendor, if one is installed; the file says who was fastest. Convolutions and
//! their gradients (`windows`) are tried in ways that all give the same bits, of either precision.

mod windows;

use elinvar_core::{DType, Error, Layout, Result};
use elinvar_driver::{Driver, Info, Kind};
use elinvar_kernel::library::boxes;
use elinvar_kernel::library::contract::Tile;
use elinvar_kernel::library::matrix_units::Cut;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Products of fewer multiplications are not worth a try: they are over before they are begun.
const SMALL: usize = 1 << 18;
/// How often each tile is run; the fastest run counts.
const RUNS: usize = 3;

/// The tiles that are tried. More sums for an invocation mean fewer loads for each, and fewer invocations.
const TILES: [Tile; 11] = [
    Tile::PLAIN,
    Tile { group: [1, 8], each: [8, 2], depth: 0, slots: 0 },
    Tile { group: [2, 32], each: [8, 4], depth: 0, slots: 0 },
    Tile { group: [16, 16], each: [2, 2], depth: 0, slots: 0 },
    Tile { group: [8, 8], each: [4, 4], depth: 16, slots: 0 },
    Tile::SHARED,
    LARGE[1],
    LARGE[0],
    FLOWING[1],
    FLOWING[0],
    Tile { group: [8, 16], each: [4, 4], depth: 16, slots: 3 },
];

/// Tiles of few loads for each product, for where there are many of them.
const LARGE: [Tile; 2] = [
    Tile { group: [16, 16], each: [8, 8], depth: 8, slots: 0 },
    Tile { group: [16, 16], each: [8, 4], depth: 16, slots: 0 },
];
/// The same, with terms that copies bring: one barrier for each step instead of two, and no registers for what is on its way. Four
/// slots of the largest are 48 KiB.
const FLOWING: [Tile; 2] = [
    Tile { group: [16, 16], each: [8, 8], depth: 8, slots: 4 },
    Tile { group: [16, 16], each: [8, 4], depth: 8, slots: 4 },
];
/// So many workgroups keep a large device busy.
const BUSY: u64 = 128;

/// What products have one best tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Case {
    dtype: DType,
    /// Batch, m, n, k: exponents of the next powers of two.
    sizes: [u32; 4],
    /// Do neighbouring terms lie side by side in x, and in w?
    along: [bool; 2],
}

impl Case {
    pub(crate) fn of(dtype: DType, x: &Layout, w: &Layout) -> Case {
        let sizes = [x.shape()[0], x.shape()[1], w.shape()[2], x.shape()[2]];
        Case {
            dtype,
            sizes: sizes.map(|n| n.max(1).next_power_of_two().ilog2()),
            along: [x.strides()[2].unsigned_abs() == 1, w.strides()[1].unsigned_abs() == 1],
        }
    }
    fn is_small(&self) -> bool {
        self.sizes.iter().sum::<u32>() < SMALL.ilog2()
    }
    /// A word of the file: `f32 0 10 10 9 true false`.
    fn word(&self) -> String {
        let [b, m, n, k] = self.sizes;
        format!("{} {b} {m} {n} {k} {} {}", self.dtype, self.along[0], self.along[1])
    }
}

/// What was found out on a device.
#[derive(Debug)]
pub(crate) struct Tuner {
    tries: bool,
    file: Option<PathBuf>,
    /// The best tile, by the word of the case: its place among the tiles.
    best: Mutex<BTreeMap<String, usize>>,
    /// Who does products where any order of sums will do, by the word of the case; and was that found out, or seen to be so, by
    /// this program?
    free: Mutex<BTreeMap<String, (Who, bool)>>,
    /// How convolutions are done.
    ways: Mutex<windows::Known>,
}

/// Who does a product whose order is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// Our kernel, as it is chosen without trying.
    Ours,
    /// Our kernel of boxes, with this tile.
    Boxes(boxes::Tile),
    /// Our kernel of fragments, with a tile that is cut so.
    Fragments(Cut),
    /// The library of the device's vendor.
    Vendor,
}

impl Who {
    /// As it stands in the file.
    fn word(self) -> String {
        match self {
            Who::Ours => "our kernel".to_string(),
            Who::Boxes(t) => format!("our kernel, boxes for {} x {}", t.size(0), t.size(1)),
            Who::Fragments(cut) => format!("our kernel, {}", name_of_cut(cut)),
            Who::Vendor => "the vendor's library".to_string(),
        }
    }
    /// All of them.
    fn all() -> impl Iterator<Item = Who> {
        let boxes = boxes::Tile::ALL.into_iter().map(Who::Boxes);
        [Who::Ours, Who::Vendor].into_iter().chain(boxes).chain(Cut::all().map(Who::Fragments))
    }
}

/// What a line on such a product begins with.
const FREE: &str = "fast ";

impl Tuner {
    pub(crate) fn new<D: Driver>(info: &Info) -> Tuner {
        let tries = std::env::var_os("ELINVAR_TUNE").is_some_and(|v| v == "1");
        let plain = |s: &str| -> String {
            s.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect()
        };
        let name = format!("{}-{}-{}.tiles", D::NAME, plain(&info.name), plain(&info.driver));
        let file = elinvar_driver::cache_dir().map(|dir| dir.join(name));
        let text = file.as_ref().and_then(|f| std::fs::read_to_string(f).ok()).unwrap_or_default();
        Tuner::with_file(tries, file, &text)
    }
    /// With what a file says.
    fn with_file(tries: bool, file: Option<PathBuf>, text: &str) -> Tuner {
        // A line that is not understood is as good as none.
        let line = |l: &str| {
            let (word, tile) = l.split_once(": ")?;
            let place = TILES.iter().position(|t| name_of(t) == tile)?;
            Some((word.to_string(), place))
        };
        let best = Mutex::new(text.lines().filter_map(line).collect());
        let (free, ways) = (Mutex::new(Tuner::free(text)), Mutex::new(windows::read(text)));
        Tuner { tries, file, best, free, ways }
    }
    /// What a file says of products whose order is free; this program has not seen it.
    fn free(text: &str) -> BTreeMap<String, (Who, bool)> {
        let line = |l: &str| {
            let (word, name) = l.strip_prefix(FREE)?.split_once(": ")?;
            let who = Who::all().find(|who| who.word() == name)?;
            Some((word.to_string(), (who, false)))
        };
        text.lines().filter_map(line).collect()
    }

    /// Who does a product whose order is free? All of `ways`, of which `Ours` is the first, are run to find out; `time` says nothing
    /// of a way in which this cannot be done.
    ///
    /// # Errors
    /// Those of `time`.
    pub(crate) fn who(
        &self,
        case: Case,
        ways: &dyn Fn() -> Vec<Who>,
        time: &dyn Fn(Who) -> Result<Option<Duration>>,
    ) -> Result<Who> {
        let known = self.lock_who().get(&case.word()).copied();
        let who = match known {
            Some((who, true)) => return Ok(who),
            None if !self.tries => return Ok(Who::Ours),
            // The library that the file speaks of may be gone.
            Some((Who::Vendor, false)) if time(Who::Vendor)?.is_none() => Who::Ours,
            Some((who, false)) => who,
            None => fastest(&ways(), time)?,
        };
        self.lock_who().insert(case.word(), (who, true));
        if known.is_none() {
            self.save();
        }
        Ok(who)
    }
    fn lock_ways(&self) -> MutexGuard<'_, windows::Known> {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn lock_who(&self) -> MutexGuard<'_, BTreeMap<String, (Who, bool)>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tile for a product, whose time with a tile `run` finds out.
    ///
    /// # Errors
    /// Those of `run`.
    pub(crate) fn tile(
        &self,
        info: &Info,
        case: Case,
        run: &dyn Fn(Tile) -> Result<Duration>,
    ) -> Result<Tile> {
        if case.is_small() {
            return Ok(Tile::PLAIN);
        }
        let known = |place: &usize| TILES[*place];
        let lock = || self.best.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tile) = lock().get(&case.word()).map(known) {
            return Ok(tile);
        }
        if !self.tries {
            return Ok(by_size(info, &case));
        }
        let there = TILES.iter().enumerate().filter(|(_, t)| fits(info, t, case.dtype));
        let places: Vec<usize> = there.map(|(place, _)| place).collect();
        // The plain one is there on each device.
        let place = fastest(&places, &|place| run(TILES[place]).map(Some))?;
        lock().insert(case.word(), place);
        self.save();
        Ok(TILES[place])
    }

    /// Writes what is known. It saves time and is never needed, so that what goes wrong is not an error.
    fn save(&self) {
        let Some(file) = &self.file else { return };
        let mut text = String::new();
        for (word, &place) in self.best.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let _ = writeln!(text, "{word}: {}", name_of(&TILES[place]));
        }
        for (word, (who, _)) in self.lock_who().iter() {
            let _ = writeln!(text, "{FREE}{word}: {}", who.word());
        }
        windows::write(&self.lock_ways(), &mut text);
        let dir = file.parent().unwrap_or(file);
        if std::fs::create_dir_all(dir).is_ok() {
            let _ = elinvar_io::atomic_write(file, |f| f.write_all(text.as_bytes()).map_err(Error::from));
        }
    }
}

/// The fastest of some ways, of which the first can be done: each is run a few times, in turns. `time` says nothing of a way in which this
/// cannot be done.
///
/// # Errors
/// Those of `time`.
fn fastest<T: Copy>(ways: &[T], time: &dyn Fn(T) -> Result<Option<Duration>>) -> Result<T> {
    let mut there = Vec::new();
    // With nothing to choose from, there is nothing to try.
    for &way in ways.iter().filter(|_| ways.len() > 1) {
        // The first run of each prepares it.
        if time(way)?.is_some() {
            there.push((way, Duration::MAX));
        }
    }
    for _ in 0..if there.len() > 1 { RUNS } else { 0 } {
        for (way, least) in &mut there {
            *least = (*least).min(time(*way)?.unwrap_or(Duration::MAX));
        }
    }
    Ok(there.into_iter().min_by_key(|(_, least)| *least).map_or(ways[0], |(way, _)| way))
}

fn name_of_cut(Cut { subgroups: [a, b], each: [c, d], deep, slots }: Cut) -> String {
    format!("fragments {a}x{b} of {c}x{d}, {deep} deep, {slots} slots")
}

fn name_of(t: &Tile) -> String {
    let [[a, b], [c, d]] = [t.group, t.each];
    let slots = if t.slots > 0 { format!(", {} slots", t.slots) } else { String::new() };
    format!("{a}x{b} of {c}x{d}, depth {}{slots}", t.depth)
}

/// Can the device hold it?
fn fits(info: &Info, t: &Tile, dtype: DType) -> bool {
    (t.slots == 0 || info.asynchronous)
        && t.group[0] * t.group[1] <= info.invocations
        && t.shared_elements() * dtype.compute().size() as u32 <= info.shared
}

/// The tile that is taken without trying.
fn by_size(info: &Info, case: &Case) -> Tile {
    // A software device pays for each barrier what a real one pays for a hundred products.
    if info.kind == Kind::Software || case.sizes[1..].iter().any(|&s| s < 5) {
        return Tile::PLAIN;
    }
    let sums = case.sizes[..3].iter().sum::<u32>();
    let busy = |t: &Tile| (1u64 << sums) / u64::from(t.group[0] * t.each[0] * t.group[1] * t.each[1]) >= BUSY;
    // Sums of f64 take two registers each.
    let mut large = FLOWING.into_iter().chain(LARGE).filter(|_| case.dtype != DType::F64);
    let tile = large.find(|t| busy(t) && fits(info, t, case.dtype)).unwrap_or(Tile::SHARED);
    if fits(info, &tile, case.dtype) { tile } else { Tile::PLAIN }
}

#[cfg(test)]
mod tests {
    use super::*;
    use elinvar_core::Shape;
    use elinvar_driver::Interp;
    use std::cell::RefCell;

    #[test]
    fn the_fastest_way_is_kept() {
        let layout = Layout::contiguous(Shape::new(&[1, 128, 128]).unwrap());
        let case = Case::of(DType::F16, &layout, &layout);
        let dir = std::env::temp_dir().join(format!("elinvar-ways-{}", std::process::id()));
        let file = Some(dir.join("tiles"));
        let tuner = |tries| {
            let text = std::fs::read_to_string(dir.join("tiles")).unwrap_or_default();
            Tuner::with_file(tries, file.clone(), &text)
        };
        let tile = boxes::Tile::ALL[2];
        let cut = Cut::all().next().unwrap();
        let ways = [Who::Ours, Who::Boxes(tile), Who::Fragments(cut), Who::Vendor];
        let (all, one) = (|| ways.to_vec(), || ways[..1].to_vec());
        let never = |who: Who| -> Result<Option<Duration>> { panic!("{who:?} is tried") };
        // Without trying, as it is; with one way alone, too.
        assert_eq!(tuner(false).who(case, &all, &never).unwrap(), Who::Ours);
        assert_eq!(tuner(true).who(case, &one, &never).unwrap(), Who::Ours);
        std::fs::remove_dir_all(&dir).unwrap();
        let tried = RefCell::new(Vec::new());
        let time = |who: Who| {
            tried.borrow_mut().push(who);
            let there = |ms| Ok(Some(Duration::from_millis(ms)));
            match who {
                Who::Ours => there(5),
                Who::Boxes(_) => there(3),
                Who::Fragments(_) => there(9),
                Who::Vendor => Ok(None),
            }
        };
        let t = tuner(true);
        assert_eq!(t.who(case, &all, &time).unwrap(), Who::Boxes(tile));
        // All but what cannot be done, and that once.
        assert_eq!(tried.borrow().len(), 3 * (RUNS + 1) + 1);
        assert_eq!(t.who(case, &all, &never).unwrap(), Who::Boxes(tile));
        // Another program finds it in the file.
        assert_eq!(tuner(false).who(case, &all, &never).unwrap(), Who::Boxes(tile));
        let text = std::fs::read_to_string(dir.join("tiles")).unwrap();
        assert_eq!(text, "fast f16 0 7 7 7 true false: our kernel, boxes for 64 x 128\n");
        // What it speaks of may be gone.
        std::fs::write(
            dir.join("tiles"),
            text.replace("our kernel, boxes for 64 x 128", "the vendor's library"),
        )
        .unwrap();
        assert_eq!(tuner(false).who(case, &all, &time).unwrap(), Who::Ours);
        assert!(Who::all().all(|who| Who::all().filter(|other| other.word() == who.word()).count() == 1));
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn the_fastest_tile_is_kept() {
        let info = Interp::list().unwrap().remove(0);
        let layout = Layout::contiguous(Shape::new(&[1, 128, 128]).unwrap());
        let case = Case::of(DType::F32, &layout, &layout);
        let dir = std::env::temp_dir().join(format!("elinvar-tiles-{}", std::process::id()));
        let file = Some(dir.join("tiles"));
        let tuner = |tries| Tuner::with_file(tries, file.clone(), "");
        let never = |_: Tile| -> Result<Duration> { panic!("nothing is tried") };
        assert_eq!(tuner(false).tile(&info, case, &never).unwrap(), Tile::PLAIN);
        let small = Layout::contiguous(Shape::new(&[1, 4, 4]).unwrap());
        assert_eq!(
            tuner(true).tile(&info, Case::of(DType::F32, &small, &small), &never).unwrap(),
            Tile::PLAIN
        );

        let tried = RefCell::new(Vec::new());
        let run = |t: Tile| {
            tried.borrow_mut().push(t);
            Ok(Duration::from_millis(if t == TILES[2] { 1 } else { 20 }))
        };
        let t = tuner(true);
        assert_eq!(t.tile(&info, case, &run).unwrap(), TILES[2]);
        assert_eq!(
            tried.borrow().len(),
            TILES.iter().filter(|t| fits(&info, t, DType::F32)).count() * (RUNS + 1)
        );
        assert_eq!(t.tile(&info, case, &never).unwrap(), TILES[2]);
        let text = std::fs::read_to_string(file.as_ref().unwrap()).unwrap();
        assert_eq!(text, "f32 0 7 7 7 true false: 2x32 of 8x4, depth 0\n");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
