//! Products of matrices: packed blocks, tiles in registers, threads over tiles.
//!
//! A contraction, and each kind of convolution, is a batch of products `y[m, n] = sum over k of a[m, k] * b[k, n]` whose
//! factors are packed by [`Left`] and [`Right`]. The order of the terms (`elinvar_core::order::contract`) is also the
//! shape of the loops: a chunk of 512 terms is packed, a tile of the result chains it in registers from 0, and adds it
//! to the result; the first chunk is stored. What runs side by side are elements of the result, so no block
//! size and no number of threads changes a bit.
//!
//! How it can be wrong: by a result element that no tile, or two tasks, write. The tests have sizes around every block.

use super::epilogue::Finish;
use super::kernels::{After, Cut, Lines, PITCH, Panels, TermKind, Tile, fill, height, width};
use super::operand::{Left, Right, Windows};
use super::{Real, epilogue, small_m};
use crate::CpuDevice;
use crate::conv::kernels::a_taps::THREE;
use crate::runtime::parallel::{try_drain_tasks, try_for_each_piece};
use crate::runtime::scratch::scratch;
use crate::simd::LINE;
use crate::simd::isa::Isa;
use elinvar_core::order::CHUNK;
use elinvar_core::{HostVec, Result};
use std::ops::Range;

/// Rows of a packed left block: with a chunk of terms it takes 300 KiB of the 1 MiB that a core's L2 has, and leaves room
/// for two panels and the result. With a third more, products of 1024 in f64 took 3 % longer.
pub(crate) const fn rows<T>() -> usize {
    576 / size_of::<T>()
}
/// Columns of a right block that a task packs for itself: 512 KiB.
const fn cols<T>() -> usize {
    1024 / size_of::<T>()
}
/// Elements of a right block that is packed for all tasks, but at least a chunk of terms of all columns: of f32 8 MiB, in L3, which
/// others use as well. Several chunks of fewer columns: each chunk but the last then adds to sums in the second-level cache instead of
/// the result, which took 2.8 % off a product of 2048. Of f64, one chunk of 1024 columns is 4 MiB already, and two were no gain.
const fn shared<T>() -> usize {
    if size_of::<T>() == 4 { 2 << 20 } else { 512 << 10 }
}
/// Panels that a task packs for itself, one after the other, and multiplies while they are in its second-level cache.
pub(crate) const TOGETHER: usize = 2;
/// Columns of which a block takes no more, of one chunk of terms and of several: those of several are added to one another in a core's L2.
const WIDE: [usize; 2] = [4096, 1024];
/// Rows up to which columns that lie in memory are not packed: eight rows, 1024 columns and as many terms took three quarters of
/// the time of packed ones; thirty-two took three times as long.
pub(crate) const SKINNY: usize = 8;
/// Bytes of a right factor that stays close without being packed: half of a core's L2.
const CLOSE: usize = 512 << 10;
/// The left factor and the result together have so many times as many numbers as the right one from which a product is tall: 400 rows, 400
/// columns and 100 terms took 196 microseconds shared, and 148 so; 1024, 256 and 256 took 675, and 630.
const TALL: usize = 4;
/// Columns for each thread from which threads share the columns of a product, and not its rows. A core waits for what another has just
/// packed: 1000 x 1000 x 1000 took 12.0 milliseconds by rows when the cores were far apart, and 9.9 so, and as long when they were not.
/// With fewer columns, packing all rows on each thread takes what it saves.
const MANY_COLUMNS: usize = 128;
/// Bytes of a task's result up to which rows that are taps, of which nothing is packed, come twice as many together, and the right factor from
/// the third-level cache half as often: the gradient by 64 x 64 weights of 3 x 3 took 4.93 milliseconds, and 4.85 so.
const SUMS: usize = 256 << 10;
/// Rows of the lowest tile whose sums are enough to hide how long an fma takes.
const STEP: usize = 4;
/// Tasks, or panels, for each thread of which one more or less is little.
pub(crate) const MANY: usize = 8;
/// Tasks for each thread where a task costs next to nothing by itself: whoever comes late, or is held up, is helped.
pub(crate) const FINE: usize = 4;
/// Multiplications below which work is not shared: 2 to 4 microseconds of one thread.
pub(crate) const WORTH: usize = 1 << 18;
/// The same of a whole product: to look at a caller's product costs another core one line of its cache after the other. 64 x 64 x 64 took
/// 3.1 microseconds shared on an Intel Xeon, in minutes when its cores are far apart 4.9, and take 2.7 to 3.0 alone; 80 x 80 x 80 take 5.4
/// alone, and 4.9 or 7.7 shared. (On Zen 5, 64 x 64 x 64 took 2.45 alone, and 1.80 or 3.4 shared.)
const ALONE: usize = 3 << 17;
/// Multiplications that one thread does in a nanosecond, about.
pub(crate) const PER_NS: f64 = 64.0;

/// Which factor is packed once for all tasks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Share {
    /// Neither: each task packs its blocks.
    Nothing,
    /// The left one, whole.
    Left,
    /// The right one, a block of it after the other: each thread packs columns, and begins with them.
    Right,
    /// Neither: each thread makes products of its own.
    Products,
    /// The right one is there already, packed.
    Kept,
}

/// What is shared of factors that lie in memory, of sizes b, m, k, n.
pub(crate) fn share<T: Real>(d: &CpuDevice, [batch, m, k, n]: [usize; 4]) -> Share {
    let (threads, rows) = (d.threads(), rows::<T>());
    // With one block of rows there is nobody to share with; nor is there a need to, of what is read as it lies.
    if m <= rows || is_close::<T>(k, n) && m <= rows * threads {
        Share::Nothing
    } else if batch > 1 && is_even(batch, threads) && k.saturating_mul(n) <= shared::<T>() {
        Share::Products
    } else if is_tall::<T>(d, [m, k, n]) {
        Share::Nothing
    } else {
        Share::Right
    }
}

/// Does a product have so many rows that each task had better pack the right factor for itself? Then a thread has the rows that it had in
/// the op before, and what it packs, no other reads.
fn is_tall<T: Real>(d: &CpuDevice, [m, k, n]: [usize; 3]) -> bool {
    let others = m.saturating_mul(k.saturating_add(n));
    d.threads() > 1
        && m >= n
        && m >= rows::<T>() * d.threads()
        && others >= TALL.saturating_mul(k).saturating_mul(n)
}

/// Do so many parts keep all threads busy to the end?
fn is_even(parts: usize, threads: usize) -> bool {
    parts.is_multiple_of(threads) || parts >= MANY * threads
}

/// A batch of products.
pub(crate) struct Job<'a, T> {
    pub(crate) batch: usize,
    pub(crate) m: usize,
    pub(crate) k: usize,
    pub(crate) n: usize,
    pub(crate) left: &'a dyn Left<T>,
    pub(crate) right: &'a dyn Right<T>,
    pub(crate) finish: &'a dyn Finish<T>,
    pub(crate) share: Share,
    /// What the factors pack.
    pub(crate) kind: TermKind,
}

/// y[batch, m, n]
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn product<T: Real>(d: &CpuDevice, job: &Job<'_, T>) -> Result<HostVec<T>> {
    let cut = job.cut(d);
    fill(&cut, |tiles| match job.share {
        _ if job.k == 0 => {
            tiles.iter_mut().for_each(|tile| {
                tile.clear();
                job.finish(d, tile);
            });
            Ok(())
        }
        Share::Nothing if const { small_m::has_broad::<T>() } && job.is_broad() => job.broad(d, tiles),
        Share::Nothing => job.alone(d, tiles),
        Share::Left => job.with_left(d, tiles),
        Share::Right => job.with_right(d, &cut, tiles),
        Share::Products => job.in_turn(d, &cut, tiles),
        Share::Kept => job.with_kept(d, tiles),
    })
}

/// Calls `f` for each, on several threads if the whole, of `ns` nanoseconds of one, is worth it.
pub(crate) fn each<X: Send>(
    d: &CpuDevice,
    ns: f64,
    all: &mut [X],
    f: impl Fn(&mut X) -> Result<()> + Send + Sync,
) -> Result<()> {
    if let [one] = all {
        return f(one);
    }
    // `try_for_each_piece` asks for the time of one.
    try_for_each_piece(d, all, 1, ns / all.len() as f64, &|_, one| one.iter_mut().try_for_each(&f))
}

/// The size of pieces, a multiple of `unit`, at most about `most`, that come out even for so many threads.
pub(crate) fn even(whole: usize, most: usize, unit: usize, threads: usize) -> usize {
    let pieces = whole.div_ceil(most.max(1)).next_multiple_of(threads).max(1);
    whole.div_ceil(pieces).next_multiple_of(unit).max(unit)
}

/// The size of pieces, a multiple of `unit`, at most `most` and at least half of it, of which the thread that has most has least: where there are
/// few for each thread. 128 rows by 1152 weights of 384 terms took 0.55 milliseconds in pieces of 256, half of one missing, and 0.50 in whole
/// ones of 192.
pub(crate) fn fair(all: usize, most: usize, unit: usize, threads: usize) -> usize {
    let (units, most) = (all.div_ceil(unit), (most / unit).max(1));
    let busiest = |size: &usize| (units.div_ceil(*size).div_ceil(threads) * size, usize::MAX - size);
    (most.div_ceil(2)..=most).min_by_key(busiest).unwrap_or(most) * unit
}

impl<T: Real> Job<'_, T> {
    /// Nanoseconds of one thread; 0 if it is too little to be shared.
    pub(super) fn ns(&self) -> f64 {
        // Packing a number takes about as long as four multiplications.
        let packed = 4 * (self.m + self.n);
        let each = self.m.saturating_mul(self.n).saturating_add(packed);
        let all = self.batch.saturating_mul(self.k).saturating_mul(each);
        if all > ALONE { all as f64 / PER_NS } else { 0.0 }
    }

    /// Columns of a block, at most.
    fn wide(&self) -> usize {
        WIDE[usize::from(self.k > CHUNK)]
    }

    /// Threads that the batch does not feed. With a shared right factor one product is made after the other.
    pub(super) fn threads(&self, d: &CpuDevice) -> usize {
        match self.share {
            _ if self.ns() == 0.0 => 1,
            Share::Right => d.threads(),
            Share::Nothing | Share::Left | Share::Products | Share::Kept => {
                d.threads().div_ceil(self.batch.max(1))
            }
        }
    }

    /// Those of them that have columns of their own; the others share these, and have rows of their own.
    fn across(&self, d: &CpuDevice) -> usize {
        let threads = self.threads(d);
        let panels = self.n.div_ceil(width::<T>(d.isa()));
        match self.share {
            // Columns are packed by each task that has them: they are cut, unless there are fewer than rows, none is packed, or a
            // thread would have many more than another.
            Share::Nothing
                if self.n <= self.m || is_close::<T>(self.k, self.n) || !is_even(panels, threads) =>
            {
                1
            }
            Share::Nothing | Share::Left | Share::Products => threads,
            // What has to be turned on its way takes longer to pack than the columns take to read that another has packed: 768 x 256 of 1024
            // terms took 1.17 milliseconds by columns, and 1.11 so. A panel more for one thread costs more than that, too: 512 x 784 of 128 terms
            // takes 0.96 by rows.
            Share::Right if self.is_turned() && (self.m > self.n || !panels.is_multiple_of(threads)) => 1,
            Share::Right => threads.min(self.n / MANY_COLUMNS).max(1),
            Share::Kept => 1,
        }
    }

    /// Tiles that fit the caches, and enough of them for all threads.
    fn cut(&self, d: &CpuDevice) -> Cut {
        if self.is_broad() {
            return self.cut_broad(d);
        }
        let threads = self.threads(d);
        // A small product is one tile. (To cut others takes a dozen divisions.)
        if threads == 1 && self.share == Share::Nothing && self.m <= rows::<T>() && self.n <= cols::<T>() {
            return Cut { batch: self.batch, m: self.m, n: self.n, rows: self.m.max(1), cols: self.n.max(1) };
        }
        let (h, w) = (height::<T>(d.isa()), width::<T>(d.isa()));
        let taps = self.left.taps().is_some();
        let is_tall = is_tall::<T>(d, [self.m, self.k, self.n]);
        let (rows, cols) = match self.share {
            Share::Nothing if is_tall => (2 * rows::<T>(), self.wide()),
            // Each task packs the rows.
            Share::Nothing => (rows::<T>(), cols::<T>()),
            Share::Left => (self.m, self.right.windows(d.isa()).map_or(cols::<T>(), Windows::together)),
            Share::Right if taps && 2 * rows::<T>() * self.n <= SUMS / size_of::<T>() => {
                (2 * rows::<T>(), self.wide())
            }
            Share::Right | Share::Products => (rows::<T>(), self.wide()),
            // Few rows are packed as often as there are tiles side by side.
            Share::Kept if self.m <= rows::<T>() => (rows::<T>(), cols::<T>()),
            Share::Kept => (rows::<T>(), self.wide()),
        };
        let across = self.across(d);
        let down = threads.div_ceil(across);
        if threads > 1 && (self.share == Share::Kept || across > 1) && self.is_light(d) {
            // What follows a product goes through a tile row by row: rows of one panel took a thirtieth of a BERT model's time.
            let few = (self.n / (FINE * threads)).max(TOGETHER * w);
            let cols = fair(self.n, cols.min(few), w, threads);
            return Cut { batch: self.batch, m: self.m, n: self.n, rows: self.m, cols };
        }
        // Rows are cut finer if they are enough for all; otherwise columns.
        let (down, across) = if self.m >= 2 * h * down { (down, across) } else { (1, down * across) };
        // A thread that waits for another's last rows loses more than a tile of fewer rows does.
        let unit = if down > 1 { h.min(STEP) } else { h };
        // Rows that are taps are read where they lie in threes alone.
        let unit = if taps { unit.next_multiple_of(THREE) } else { unit };
        let rows = even(self.m, rows, unit, down);
        let cols = match self.share {
            Share::Kept if across == 1 && cols < self.n => fair(self.n, cols, w, 1),
            _ => even(self.n, cols, w, across),
        };
        Cut { batch: self.batch, m: self.m, n: self.n, rows, cols }
    }

    /// Does a tile of all rows cost next to nothing by itself? They are one block, and read where they lie. Fewer rows by packed weights wait for
    /// memory, which foresees what comes in tiles of more columns: 16 rows took 2 to 11 % longer.
    fn is_light(&self, d: &CpuDevice) -> bool {
        let least = match self.share {
            Share::Kept => 2 * height::<T>(d.isa()),
            Share::Nothing => SKINNY,
            Share::Left | Share::Right | Share::Products => return false,
        };
        (least + 1..=rows::<T>()).contains(&self.m) && self.lying(0, &(0..self.m)).is_some()
    }

    /// Do rows of the left factor lie across?
    fn is_turned(&self) -> bool {
        self.kind == TermKind::Elements && self.left.lines(0, 0..self.m).is_none()
    }

    /// Panels of `k` terms that were just packed.
    pub(super) fn panels<'a>(&self, isa: Isa, data: &'a [T], k: usize) -> Panels<'a, T> {
        let step = width::<T>(isa);
        Panels { data, step, across: step * k, kind: self.kind, after: After::NOTHING }
    }

    /// Rows of the left factor where they lie, if tiles can read them there.
    pub(super) fn lying(&self, batch: usize, rows: &Range<usize>) -> Option<Lines<'_, T>> {
        let lines = if self.kind == TermKind::Elements { self.left.lines(batch, rows.clone()) } else { None };
        lines.filter(|lines| are_apart(lines.step.wrapping_mul(size_of::<T>())))
    }

    /// Rows of the left factor: where they lie, if tiles can read them there, or packed into the room.
    pub(super) fn left<'r>(
        &'r self,
        isa: Isa,
        batch: usize,
        rows: &Range<usize>,
        terms: &Range<usize>,
        room: &'r mut [T],
    ) -> Lines<'r, T> {
        if let Some(Lines { data, step }) = self.lying(batch, rows) {
            return Lines { data: &data[terms.start..], step };
        }
        self.left.pack(isa, batch, rows.clone(), terms.clone(), room);
        Lines { data: room, step: PITCH }
    }

    /// What a task multiplies after some of the terms `all` of some rows: the next of these terms, or the first of the rows below.
    fn next(
        &self,
        rows: &Range<usize>,
        terms: &Range<usize>,
        all: &Range<usize>,
    ) -> Option<(Range<usize>, Range<usize>)> {
        let below = rows.end..self.m.min(rows.end + rows.len());
        match chunks(terms.end..all.end).next() {
            Some(terms) => Some((rows.clone(), terms)),
            None if below.is_empty() => None,
            None => chunks(all.clone()).next().map(|terms| (below, terms)),
        }
    }

    /// These rows and terms, with their panel, as what comes next; the rows if they lie in memory.
    fn after<'r>(
        &'r self,
        batch: usize,
        (rows, terms): (Range<usize>, Range<usize>),
        panel: &'r [T],
    ) -> After<'r, T> {
        let lines = if self.kind == TermKind::Elements { self.left.lines(batch, rows.clone()) } else { None };
        let panel = After { panel, ..After::NOTHING };
        lines.map_or(panel, |Lines { data, step }| After {
            lines: Lines { data: &data[terms.start..], step },
            rows: rows.len(),
            k: terms.len(),
            ..panel
        })
    }

    /// Each task packs rows of the left factor; the right one is packed.
    fn with_kept(&self, d: &CpuDevice, tiles: &mut [Tile<'_, T>]) -> Result<()> {
        let isa = d.isa();
        let one = |tile: &mut Tile<'_, T>| {
            let (b, rows, cols) = (tile.batch, tile.rows.clone(), tile.cols.clone());
            scratch(rows.len() * PITCH, |left| {
                for terms in chunks(0..self.k) {
                    let left = self.left(isa, b, &rows, &terms, left);
                    let kept = |terms, cols| self.right.kept(terms, cols).expect("it is packed");
                    let mut right = kept(terms.clone(), cols.clone());
                    // What the thread multiplies then: these columns' next terms, or the columns behind them.
                    if let Some(terms) = chunks(terms.end..self.k).next() {
                        right.after.panel = kept(terms, cols.clone()).data;
                    } else if rows.len() == self.m && cols.end < self.n {
                        right.after.panel = kept(0..self.k.min(CHUNK), cols.end..self.n).data;
                    }
                    tile.add(isa, left, right, terms.len());
                }
                self.finish(d, tile);
            })
        };
        if !self.is_light(d) {
            return each(d, self.ns(), tiles, one);
        }
        // In turn: the columns behind a tile's are fetched, so they should come next.
        try_drain_tasks(d, tiles, self.ns(), &|next| {
            while let Some(tile) = next() {
                one(tile)?;
            }
            Ok(())
        })
    }

    /// The left factor is packed whole; each task packs columns of the right one.
    fn with_left(&self, d: &CpuDevice, tiles: &mut [Tile<'_, T>]) -> Result<()> {
        let (isa, w) = (d.isa(), width::<T>(d.isa()));
        let distinct = self.left.distinct().min(self.batch);
        let (count, size) = (self.k.div_ceil(CHUNK), self.m * PITCH);
        scratch(distinct * count * size, |left| {
            let mut parts: Vec<_> = left.chunks_exact_mut(size).enumerate().collect();
            each(d, self.ns(), &mut parts, |(i, left)| {
                let t = *i % count * CHUNK;
                self.left.pack(isa, *i / count, 0..self.m, t..self.k.min(t + CHUNK), left);
                Ok(())
            })?;
            let left = &*left;
            let windows = self.right.windows(isa);
            each(d, self.ns(), tiles, |tile| {
                let (b, cols) = (tile.batch, tile.cols.clone());
                let left = &left[b % distinct * count * size..];
                if let Some(windows) = windows {
                    windows.add(isa, tile, self.kind, left);
                    self.finish(d, tile);
                    return Ok(());
                }
                scratch(self.k.min(CHUNK) * cols.len().next_multiple_of(w), |right| {
                    for (i, terms) in chunks(0..self.k).enumerate() {
                        self.right.pack(isa, b, terms.clone(), cols.clone(), right);
                        let left = Lines { data: &left[i * size + tile.rows.start * PITCH..], step: PITCH };
                        tile.add(isa, left, self.panels(isa, right, terms.len()), terms.len());
                    }
                    self.finish(d, tile);
                })
            })
        })?
    }

    /// A block of the right factor after the other is packed by all threads; each task packs rows of the left one.
    fn with_right(&self, d: &CpuDevice, cut: &Cut, tiles: &mut [Tile<'_, T>]) -> Result<()> {
        // Columns of tiles that are packed together, and then as many chunks as fit.
        let wide = (self.wide() * self.across(d) / cut.cols).max(1) * cut.cols;
        let wide = wide.min(self.n.next_multiple_of(cut.cols));
        let deep = (shared::<T>() / wide / CHUNK).max(1) * CHUNK;
        let down = self.m.div_ceil(cut.rows);
        scratch(deep.min(self.k) * wide, |right| {
            for product in tiles.chunks_mut(down * self.n.div_ceil(cut.cols)) {
                for phase in product.chunks_mut(wide / cut.cols * down) {
                    for from in (0..self.k).step_by(deep) {
                        self.phase(d, self.ns(), phase, from..self.k.min(from + deep), right)?;
                    }
                }
            }
            Ok(())
        })?
    }

    /// Each thread makes products: what one packed, no other reads.
    fn in_turn(&self, d: &CpuDevice, cut: &Cut, tiles: &mut [Tile<'_, T>]) -> Result<()> {
        let (down, across) = (self.m.div_ceil(cut.rows), self.n.div_ceil(cut.cols));
        let mut products: Vec<_> = tiles.chunks_mut(down * across).collect();
        each(d, self.ns(), &mut products, |product| {
            scratch(self.k * self.n.next_multiple_of(cut.cols), |right| {
                self.phase(d, 0.0, product, 0..self.k, right)
            })?
        })
    }

    /// Some terms of some columns of tiles, `ns` nanoseconds of one thread.
    fn phase(
        &self,
        d: &CpuDevice,
        ns: f64,
        tiles: &mut [Tile<'_, T>],
        all: Range<usize>,
        right: &mut [T],
    ) -> Result<()> {
        let (isa, w) = (d.isa(), width::<T>(d.isa()));
        let (b, across) = (tiles[0].batch, tiles[0].cols.start..tiles[tiles.len() - 1].cols.end);
        let padded = across.len().next_multiple_of(w);
        let right = &mut right[..all.len() * padded];
        // Chunk after chunk, panel after panel. A thread takes a few panels of a chunk, and begins with what lies before it: columns
        // that it also begins to multiply. So parts are collected by tiles' columns. (A sort of them was 17 KB.)
        const PANELS: usize = 4;
        let wide = tiles[0].cols.len();
        let mut parts: Vec<_> = (0..across.len().div_ceil(wide)).map(|_| Vec::new()).collect();
        let mut rest = &mut *right;
        for terms in chunks(all.clone()) {
            for j in across.clone().step_by(PANELS * w) {
                let cols = j..across.end.min(j + PANELS * w);
                let (part, after) = rest.split_at_mut(terms.len() * cols.len().next_multiple_of(w));
                parts[(j - across.start) / wide].push((terms.clone(), cols, part));
                rest = after;
            }
        }
        let mut parts: Vec<_> = parts.into_iter().flatten().collect();
        each(d, ns, &mut parts, |(terms, cols, part)| {
            self.right.pack(isa, b, terms.clone(), cols.clone(), part);
            Ok(())
        })?;
        let right = &*right;
        each(d, ns, tiles, |tile| {
            let rows = tile.rows.clone();
            let cols = tile.cols.start - across.start;
            let data = |terms: &Range<usize>| {
                let before = (terms.start - all.start) * padded;
                &right[before + cols * terms.len()..]
            };
            let panels = |terms: &Range<usize>| {
                let next = self.next(&rows, terms, &all);
                let after = next.map_or(After::NOTHING, |next| {
                    let panel = data(&next.1);
                    self.after(b, next, panel)
                });
                Panels { after, ..self.panels(isa, data(terms), terms.len()) }
            };
            let threes = [rows.start, rows.end].iter().all(|row| row.is_multiple_of(THREE));
            if let Some(taps) = self.left.taps().filter(|_| threes) {
                for terms in chunks(all.clone()) {
                    let panels = panels(&terms);
                    taps.add(isa, tile, terms, panels);
                }
            } else {
                // What a chunk adds to waits in the task's own second-level cache: rows of the result are often a power of two
                // apart, and share its sets.
                let several = all.len() > CHUNK;
                let room = if several { tile.waiting() } else { 0 };
                scratch(rows.len() * PITCH, |left| {
                    scratch(room, |room| {
                        for terms in chunks(all.clone()) {
                            let ends = (terms.start == all.start, terms.end == all.end);
                            let left = self.left(isa, b, &rows, &terms, left);
                            let right = panels(&terms);
                            tile.add_in_turn(isa, left, right, terms.len(), room, ends);
                        }
                    })
                })??;
            }
            if all.end == self.k {
                self.finish(d, tile);
            }
            Ok(())
        })
    }

    /// What follows the sums of a tile.
    pub(super) fn finish(&self, d: &CpuDevice, tile: &mut Tile<'_, T>) {
        epilogue::finish(d.isa(), self.finish, tile);
    }
}

/// Does a right factor of `k` times `n` numbers stay in the second-level cache as it is?
pub(crate) fn is_close<T>(k: usize, n: usize) -> bool {
    k.saturating_mul(n) <= CLOSE / size_of::<T>()
}

/// Rows of the highest tile.
const HIGHEST: usize = 12;
/// Sets and ways of a first-level cache.
const SETS: usize = 64;
const WAYS: u8 = 8;

/// Can a tile read rows so many bytes apart where they lie? A line of each stays in the first-level cache while its terms are read;
/// of rows 4 KiB apart, all lines would share a set.
pub(crate) fn are_apart(bytes: usize) -> bool {
    let mut lines = [0u8; SETS];
    // Two ways are left to the columns, which pass through. (Each small product asks: looking at all sets afterwards took twice as long.)
    (0..HIGHEST).all(|r| {
        let set = &mut lines[r.wrapping_mul(bytes) / LINE % SETS];
        *set += 1;
        *set <= WAYS - 2
    })
}

/// Terms, chunk by chunk. They begin where a chunk begins.
pub(crate) fn chunks(terms: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    terms.clone().step_by(CHUNK).map(move |t| t..terms.end.min(t + CHUNK))
}
