//! The loops of a GEMM around the microkernel: packing plan (who packs A and B), blocking (`mc`,
//! `nc`), and threads over tiles.
//!
//! A and B are packed through [`OperandA`] and [`OperandB`]. The canonical order of terms
//! (`elinvar_core::order::contract`) is also the shape of the loops: a chunk of `KC` = 512 terms is
//! packed, a tile of the result accumulates it in registers from 0 and adds it to the result; the
//! first chunk is stored. Only elements of the result are computed in parallel.
//!
//! How it can be wrong: by an element that no tile, or two tasks, write. The tests have sizes
//! around every block.

use super::epilogue::TileEpilogue;
use super::kernels::{
    Blocking, NextOperands, OutputTile, PACKED_A_PITCH, PanelsB, RowsA, TermKind, fill_tiles, mr, nr,
};
use super::operand::{OperandA, OperandB, WindowColumns};
use super::{Real, epilogue, small_m};
use crate::CpuDevice;
use crate::conv::kernels::a_taps::TAPS_PER_ADDRESS;
use crate::runtime::parallel::{try_drain_tasks, try_for_each_piece};
use crate::runtime::scratch::scratch;
use elinvar_core::order::CHUNK;
use elinvar_core::{HostVec, Result};
use elinvar_simd::LINE;
use elinvar_simd::isa::Isa;
use std::ops::Range;

/// Rows of a packed left block: with a chunk of terms it takes 300 KiB of the 1 MiB that a core's L2 has, and leaves room
/// for two panels and the result. With a third more, products of 1024 in f64 took 3 % longer.
pub(crate) const fn mc<T>() -> usize {
    576 / size_of::<T>()
}
/// Columns of a right block that a task packs for itself: 512 KiB.
const fn nc<T>() -> usize {
    1024 / size_of::<T>()
}
/// Elements of a right block that is packed for all tasks, but at least a chunk of terms of all columns: of f32 8 MiB, in L3, which
/// others use as well. Several chunks of fewer columns: each chunk but the last then adds to sums in the second-level cache instead of
/// the result, which took 2.8 % off a product of 2048. Of f64, one chunk of 1024 columns is 4 MiB already, and two were no gain.
const fn shared_b_elements<T>() -> usize {
    if size_of::<T>() == 4 { 2 << 20 } else { 512 << 10 }
}
/// Panels that a task packs for itself, one after the other, and multiplies while they are in its second-level cache.
pub(crate) const PANELS_PER_PACK: usize = 2;
/// Columns of which a block takes no more, of one chunk of terms and of several: those of several are added to one another in a core's L2.
const NC_MAX_COLUMNS: [usize; 2] = [4096, 1024];
/// Rows up to which columns that lie in memory are not packed: eight rows, 1024 columns and as many terms took three quarters of
/// the time of packed ones; thirty-two took three times as long.
pub(crate) const GEMV_MAX_ROWS: usize = 8;
/// Bytes of a right factor that stays close without being packed: half of a core's L2.
const B_IN_L2_MAX_BYTES: usize = 512 << 10;
/// The left factor and the result together have so many times as many numbers as the right one from which a product is tall: 400 rows, 400
/// columns and 100 terms took 196 microseconds shared, and 148 so; 1024, 256 and 256 took 675, and 630.
const TALL_RATIO: usize = 4;
/// Columns for each thread from which threads share the columns of a product, and not its rows. A core waits for what another has just
/// packed: 1000 x 1000 x 1000 took 12.0 milliseconds by rows when the cores were far apart, and 9.9 so, and as long when they were not.
/// With fewer columns, packing all rows on each thread takes what it saves.
const SPLIT_COLUMNS_MIN_PER_THREAD: usize = 128;
/// Bytes of a task's result up to which rows that are taps, of which nothing is packed, come twice as many together, and the right factor from
/// the third-level cache half as often: the gradient by 64 x 64 weights of 3 x 3 took 4.93 milliseconds, and 4.85 so.
const TAPS_RESULT_MAX_BYTES: usize = 256 << 10;
/// Rows of the lowest tile whose sums are enough to hide how long an fma takes.
const MIN_TILE_ROWS: usize = 4;
/// Tasks, or panels, for each thread of which one more or less is little.
pub(crate) const EVEN_TASKS_PER_THREAD: usize = 8;
/// Tasks for each thread where a task costs next to nothing by itself: whoever comes late, or is held up, is helped.
pub(crate) const FINE_TASKS_PER_THREAD: usize = 4;
/// Multiplications below which work is not shared: 2 to 4 microseconds of one thread.
pub(crate) const PARALLEL_MIN_FMAS: usize = 1 << 18;
/// The same of a whole product: to look at a caller's product costs another core one line of its cache after the other. 64 x 64 x 64 took
/// 3.1 microseconds shared on an Intel Xeon, in minutes when its cores are far apart 4.9, and take 2.7 to 3.0 alone; 80 x 80 x 80 take 5.4
/// alone, and 4.9 or 7.7 shared. (On Zen 5, 64 x 64 x 64 took 2.45 alone, and 1.80 or 3.4 shared.)
const PARALLEL_MIN_FMAS_OF_GEMM: usize = 3 << 17;
/// Multiplications that one thread does in a nanosecond, about.
pub(crate) const FMAS_PER_NS: f64 = 64.0;

/// Which factor is packed once for all tasks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PackPlan {
    /// Neither: each task packs its blocks.
    PerTask,
    /// The left one, whole.
    SharedA,
    /// The right one, a block of it after the other: each thread packs columns, and begins with them.
    SharedB,
    /// Neither: each thread makes products of its own.
    PerProduct,
    /// The right one is there already, packed.
    Prepacked,
}

/// What is shared of factors that lie in memory, of sizes b, m, k, n.
pub(crate) fn pack_plan<T: Real>(d: &CpuDevice, [batch, m, k, n]: [usize; 4]) -> PackPlan {
    let (threads, rows) = (d.threads(), mc::<T>());
    // With one block of rows there is nobody to share with; nor is there a need to, of what is read as it lies.
    if m <= rows || b_fits_l2::<T>(k, n) && m <= rows * threads {
        PackPlan::PerTask
    } else if batch > 1 && is_even(batch, threads) && k.saturating_mul(n) <= shared_b_elements::<T>() {
        PackPlan::PerProduct
    } else if is_tall::<T>(d, [m, k, n]) {
        PackPlan::PerTask
    } else {
        PackPlan::SharedB
    }
}

/// Does a product have so many rows that each task had better pack the right factor for itself? Then a thread has the rows that it had in
/// the op before, and what it packs, no other reads.
fn is_tall<T: Real>(d: &CpuDevice, [m, k, n]: [usize; 3]) -> bool {
    let others = m.saturating_mul(k.saturating_add(n));
    d.threads() > 1
        && m >= n
        && m >= mc::<T>() * d.threads()
        && others >= TALL_RATIO.saturating_mul(k).saturating_mul(n)
}

/// Do so many parts keep all threads busy to the end?
fn is_even(parts: usize, threads: usize) -> bool {
    parts.is_multiple_of(threads) || parts >= EVEN_TASKS_PER_THREAD * threads
}

/// A batch of products.
pub(crate) struct Gemm<'a, T> {
    pub(crate) batch: usize,
    pub(crate) m: usize,
    pub(crate) k: usize,
    pub(crate) n: usize,
    pub(crate) lhs: &'a dyn OperandA<T>,
    pub(crate) rhs: &'a dyn OperandB<T>,
    pub(crate) epilogue: &'a dyn TileEpilogue<T>,
    pub(crate) pack_plan: PackPlan,
    /// What the factors pack.
    pub(crate) kind: TermKind,
}

/// y[batch, m, n]
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn run_gemm<T: Real>(d: &CpuDevice, gemm: &Gemm<'_, T>) -> Result<HostVec<T>> {
    let blocking = gemm.blocking(d);
    fill_tiles(&blocking, |tiles| match gemm.pack_plan {
        _ if gemm.k == 0 => {
            tiles.iter_mut().for_each(|tile| {
                tile.clear();
                gemm.run_epilogue(d, tile);
            });
            Ok(())
        }
        PackPlan::PerTask if const { small_m::has_small_m::<T>() } && gemm.is_small_m() => {
            gemm.run_small_m(d, tiles)
        }
        PackPlan::PerTask => gemm.private_packing(d, tiles),
        PackPlan::SharedA => gemm.shared_a(d, tiles),
        PackPlan::SharedB => gemm.shared_b(d, &blocking, tiles),
        PackPlan::PerProduct => gemm.per_product(d, &blocking, tiles),
        PackPlan::Prepacked => gemm.prepacked_b(d, tiles),
    })
}

/// Calls `f` for each, on several threads if the whole, of `ns` nanoseconds of one, is worth it.
pub(crate) fn for_each_task<X: Send>(
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
pub(crate) fn even_piece(whole: usize, most: usize, unit: usize, threads: usize) -> usize {
    let pieces = whole.div_ceil(most.max(1)).next_multiple_of(threads).max(1);
    whole.div_ceil(pieces).next_multiple_of(unit).max(unit)
}

/// The size of pieces, a multiple of `unit`, at most `most` and at least half of it, of which the thread that has most has least: where there are
/// few for each thread. 128 rows by 1152 weights of 384 terms took 0.55 milliseconds in pieces of 256, half of one missing, and 0.50 in whole
/// ones of 192.
pub(crate) fn balanced_piece(all: usize, most: usize, unit: usize, threads: usize) -> usize {
    let (units, most) = (all.div_ceil(unit), (most / unit).max(1));
    let busiest = |size: &usize| (units.div_ceil(*size).div_ceil(threads) * size, usize::MAX - size);
    (most.div_ceil(2)..=most).min_by_key(busiest).unwrap_or(most) * unit
}

impl<T: Real> Gemm<'_, T> {
    /// Nanoseconds of one thread; 0 if it is too little to be shared.
    pub(super) fn ns(&self) -> f64 {
        // Packing a number takes about as long as four multiplications.
        let packed = 4 * (self.m + self.n);
        let each = self.m.saturating_mul(self.n).saturating_add(packed);
        let all = self.batch.saturating_mul(self.k).saturating_mul(each);
        if all > PARALLEL_MIN_FMAS_OF_GEMM { all as f64 / FMAS_PER_NS } else { 0.0 }
    }

    /// Columns of a block, at most.
    fn max_columns(&self) -> usize {
        NC_MAX_COLUMNS[usize::from(self.k > CHUNK)]
    }

    /// Threads that the batch does not feed. With a shared right factor one product is made after the other.
    pub(super) fn threads(&self, d: &CpuDevice) -> usize {
        match self.pack_plan {
            _ if self.ns() == 0.0 => 1,
            PackPlan::SharedB => d.threads(),
            PackPlan::PerTask | PackPlan::SharedA | PackPlan::PerProduct | PackPlan::Prepacked => {
                d.threads().div_ceil(self.batch.max(1))
            }
        }
    }

    /// Those of them that have columns of their own; the others share these, and have rows of their own.
    fn threads_across(&self, d: &CpuDevice) -> usize {
        let threads = self.threads(d);
        let panels = self.n.div_ceil(nr::<T>(d.isa()));
        match self.pack_plan {
            // Columns are packed by each task that has them: they are cut, unless there are fewer than rows, none is packed, or a
            // thread would have many more than another.
            PackPlan::PerTask
                if self.n <= self.m || b_fits_l2::<T>(self.k, self.n) || !is_even(panels, threads) =>
            {
                1
            }
            PackPlan::PerTask | PackPlan::SharedA | PackPlan::PerProduct => threads,
            // What has to be turned on its way takes longer to pack than the columns take to read that another has packed: 768 x 256 of 1024
            // terms took 1.17 milliseconds by columns, and 1.11 so. A panel more for one thread costs more than that, too: 512 x 784 of 128 terms
            // takes 0.96 by rows.
            PackPlan::SharedB
                if self.is_a_transposed() && (self.m > self.n || !panels.is_multiple_of(threads)) =>
            {
                1
            }
            PackPlan::SharedB => threads.min(self.n / SPLIT_COLUMNS_MIN_PER_THREAD).max(1),
            PackPlan::Prepacked => 1,
        }
    }

    /// Tiles that fit the caches, and enough of them for all threads.
    fn blocking(&self, d: &CpuDevice) -> Blocking {
        if self.is_small_m() {
            return self.small_m_blocking(d);
        }
        let threads = self.threads(d);
        // A small product is one tile. (To cut others takes a dozen divisions.)
        if threads == 1 && self.pack_plan == PackPlan::PerTask && self.m <= mc::<T>() && self.n <= nc::<T>() {
            return Blocking {
                batch: self.batch,
                m: self.m,
                n: self.n,
                rows: self.m.max(1),
                cols: self.n.max(1),
            };
        }
        let (h, w) = (mr::<T>(d.isa()), nr::<T>(d.isa()));
        let taps = self.lhs.as_taps().is_some();
        let is_tall = is_tall::<T>(d, [self.m, self.k, self.n]);
        let (rows, cols) = match self.pack_plan {
            PackPlan::PerTask if is_tall => (2 * mc::<T>(), self.max_columns()),
            // Each task packs the rows.
            PackPlan::PerTask => (mc::<T>(), nc::<T>()),
            PackPlan::SharedA => {
                (self.m, self.rhs.as_windows(d.isa()).map_or(nc::<T>(), WindowColumns::together))
            }
            PackPlan::SharedB if taps && 2 * mc::<T>() * self.n <= TAPS_RESULT_MAX_BYTES / size_of::<T>() => {
                (2 * mc::<T>(), self.max_columns())
            }
            PackPlan::SharedB | PackPlan::PerProduct => (mc::<T>(), self.max_columns()),
            // Few rows are packed as often as there are tiles side by side.
            PackPlan::Prepacked if self.m <= mc::<T>() => (mc::<T>(), nc::<T>()),
            PackPlan::Prepacked => (mc::<T>(), self.max_columns()),
        };
        let across = self.threads_across(d);
        let down = threads.div_ceil(across);
        if threads > 1 && (self.pack_plan == PackPlan::Prepacked || across > 1) && self.is_light(d) {
            // What follows a product goes through a tile row by row: rows of one panel took a thirtieth of a BERT model's time.
            let few = (self.n / (FINE_TASKS_PER_THREAD * threads)).max(PANELS_PER_PACK * w);
            let cols = balanced_piece(self.n, cols.min(few), w, threads);
            return Blocking { batch: self.batch, m: self.m, n: self.n, rows: self.m, cols };
        }
        // Rows are cut finer if they are enough for all; otherwise columns.
        let (down, across) = if self.m >= 2 * h * down { (down, across) } else { (1, down * across) };
        // A thread that waits for another's last rows loses more than a tile of fewer rows does.
        let unit = if down > 1 { h.min(MIN_TILE_ROWS) } else { h };
        // Rows that are taps are read where they lie in threes alone.
        let unit = if taps { unit.next_multiple_of(TAPS_PER_ADDRESS) } else { unit };
        let rows = even_piece(self.m, rows, unit, down);
        let cols = match self.pack_plan {
            PackPlan::Prepacked if across == 1 && cols < self.n => balanced_piece(self.n, cols, w, 1),
            _ => even_piece(self.n, cols, w, across),
        };
        Blocking { batch: self.batch, m: self.m, n: self.n, rows, cols }
    }

    /// Does a tile of all rows cost next to nothing by itself? They are one block, and read where they lie. Fewer rows by packed weights wait for
    /// memory, which foresees what comes in tiles of more columns: 16 rows took 2 to 11 % longer.
    fn is_light(&self, d: &CpuDevice) -> bool {
        let least = match self.pack_plan {
            PackPlan::Prepacked => 2 * mr::<T>(d.isa()),
            PackPlan::PerTask => GEMV_MAX_ROWS,
            PackPlan::SharedA | PackPlan::SharedB | PackPlan::PerProduct => return false,
        };
        (least + 1..=mc::<T>()).contains(&self.m) && self.a_in_place(0, &(0..self.m)).is_some()
    }

    /// Do rows of the left factor lie across?
    fn is_a_transposed(&self) -> bool {
        self.kind == TermKind::Elements && self.lhs.rows_in_place(0, 0..self.m).is_none()
    }

    /// Panels of `k` terms that were just packed.
    pub(super) fn panels<'a>(&self, isa: Isa, data: &'a [T], k: usize) -> PanelsB<'a, T> {
        let step = nr::<T>(isa);
        PanelsB { data, step, across: step * k, kind: self.kind, after: NextOperands::NONE }
    }

    /// Rows of the left factor where they lie, if tiles can read them there.
    pub(super) fn a_in_place(&self, batch: usize, rows: &Range<usize>) -> Option<RowsA<'_, T>> {
        let lines =
            if self.kind == TermKind::Elements { self.lhs.rows_in_place(batch, rows.clone()) } else { None };
        lines.filter(|lines| rows_use_distinct_sets(lines.step.wrapping_mul(size_of::<T>())))
    }

    /// Rows of the left factor: where they lie, if tiles can read them there, or packed into the room.
    pub(super) fn a_block<'r>(
        &'r self,
        isa: Isa,
        batch: usize,
        rows: &Range<usize>,
        terms: &Range<usize>,
        dst: &'r mut [T],
    ) -> RowsA<'r, T> {
        if let Some(RowsA { data, step }) = self.a_in_place(batch, rows) {
            return RowsA { data: &data[terms.start..], step };
        }
        self.lhs.pack(isa, batch, rows.clone(), terms.clone(), dst);
        RowsA { data: dst, step: PACKED_A_PITCH }
    }

    /// What a task multiplies after some of the terms `all` of some rows: the next of these terms, or the first of the rows below.
    fn next(
        &self,
        rows: &Range<usize>,
        terms: &Range<usize>,
        all: &Range<usize>,
    ) -> Option<(Range<usize>, Range<usize>)> {
        let below = rows.end..self.m.min(rows.end + rows.len());
        match k_chunks(terms.end..all.end).next() {
            Some(terms) => Some((rows.clone(), terms)),
            None if below.is_empty() => None,
            None => k_chunks(all.clone()).next().map(|terms| (below, terms)),
        }
    }

    /// These rows and terms, with their panel, as what comes next; the rows if they lie in memory.
    fn next_operands<'r>(
        &'r self,
        batch: usize,
        (rows, terms): (Range<usize>, Range<usize>),
        panel: &'r [T],
    ) -> NextOperands<'r, T> {
        let lines =
            if self.kind == TermKind::Elements { self.lhs.rows_in_place(batch, rows.clone()) } else { None };
        let panel = NextOperands { panel, ..NextOperands::NONE };
        lines.map_or(panel, |RowsA { data, step }| NextOperands {
            lines: RowsA { data: &data[terms.start..], step },
            rows: rows.len(),
            k: terms.len(),
            ..panel
        })
    }

    /// Each task packs rows of the left factor; the right one is packed.
    fn prepacked_b(&self, d: &CpuDevice, tiles: &mut [OutputTile<'_, T>]) -> Result<()> {
        let isa = d.isa();
        let one = |tile: &mut OutputTile<'_, T>| {
            let (b, rows, cols) = (tile.batch, tile.rows.clone(), tile.cols.clone());
            scratch(rows.len() * PACKED_A_PITCH, |lhs| {
                for terms in k_chunks(0..self.k) {
                    let lhs = self.a_block(isa, b, &rows, &terms, lhs);
                    let prepacked =
                        |terms, cols| self.rhs.prepacked_panels(terms, cols).expect("it is packed");
                    let mut rhs = prepacked(terms.clone(), cols.clone());
                    // What the thread multiplies then: these columns' next terms, or the columns behind them.
                    if let Some(terms) = k_chunks(terms.end..self.k).next() {
                        rhs.after.panel = prepacked(terms, cols.clone()).data;
                    } else if rows.len() == self.m && cols.end < self.n {
                        rhs.after.panel = prepacked(0..self.k.min(CHUNK), cols.end..self.n).data;
                    }
                    tile.add(isa, lhs, rhs, terms.len());
                }
                self.run_epilogue(d, tile);
            })
        };
        if !self.is_light(d) {
            return for_each_task(d, self.ns(), tiles, one);
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
    fn shared_a(&self, d: &CpuDevice, tiles: &mut [OutputTile<'_, T>]) -> Result<()> {
        let (isa, w) = (d.isa(), nr::<T>(d.isa()));
        let distinct = self.lhs.distinct_batches().min(self.batch);
        let (count, size) = (self.k.div_ceil(CHUNK), self.m * PACKED_A_PITCH);
        scratch(distinct * count * size, |lhs| {
            let mut parts: Vec<_> = lhs.chunks_exact_mut(size).enumerate().collect();
            for_each_task(d, self.ns(), &mut parts, |(i, lhs)| {
                let t = *i % count * CHUNK;
                self.lhs.pack(isa, *i / count, 0..self.m, t..self.k.min(t + CHUNK), lhs);
                Ok(())
            })?;
            let lhs = &*lhs;
            let windows = self.rhs.as_windows(isa);
            for_each_task(d, self.ns(), tiles, |tile| {
                let (b, cols) = (tile.batch, tile.cols.clone());
                let lhs = &lhs[b % distinct * count * size..];
                if let Some(windows) = windows {
                    windows.add(isa, tile, self.kind, lhs);
                    self.run_epilogue(d, tile);
                    return Ok(());
                }
                scratch(self.k.min(CHUNK) * cols.len().next_multiple_of(w), |rhs| {
                    for (i, terms) in k_chunks(0..self.k).enumerate() {
                        self.rhs.pack(isa, b, terms.clone(), cols.clone(), rhs);
                        let lhs = RowsA {
                            data: &lhs[i * size + tile.rows.start * PACKED_A_PITCH..],
                            step: PACKED_A_PITCH,
                        };
                        tile.add(isa, lhs, self.panels(isa, rhs, terms.len()), terms.len());
                    }
                    self.run_epilogue(d, tile);
                })
            })
        })?
    }

    /// A block of the right factor after the other is packed by all threads; each task packs rows of the left one.
    fn shared_b(&self, d: &CpuDevice, blocking: &Blocking, tiles: &mut [OutputTile<'_, T>]) -> Result<()> {
        // Columns of tiles that are packed together, and then as many chunks as fit.
        let wide = (self.max_columns() * self.threads_across(d) / blocking.cols).max(1) * blocking.cols;
        let wide = wide.min(self.n.next_multiple_of(blocking.cols));
        let deep = (shared_b_elements::<T>() / wide / CHUNK).max(1) * CHUNK;
        let down = self.m.div_ceil(blocking.rows);
        scratch(deep.min(self.k) * wide, |rhs| {
            for product in tiles.chunks_mut(down * self.n.div_ceil(blocking.cols)) {
                for phase in product.chunks_mut(wide / blocking.cols * down) {
                    for from in (0..self.k).step_by(deep) {
                        self.one_phase(d, self.ns(), phase, from..self.k.min(from + deep), rhs)?;
                    }
                }
            }
            Ok(())
        })?
    }

    /// Each thread makes products: what one packed, no other reads.
    fn per_product(&self, d: &CpuDevice, blocking: &Blocking, tiles: &mut [OutputTile<'_, T>]) -> Result<()> {
        let (down, across) = (self.m.div_ceil(blocking.rows), self.n.div_ceil(blocking.cols));
        let mut products: Vec<_> = tiles.chunks_mut(down * across).collect();
        for_each_task(d, self.ns(), &mut products, |product| {
            scratch(self.k * self.n.next_multiple_of(blocking.cols), |rhs| {
                self.one_phase(d, 0.0, product, 0..self.k, rhs)
            })?
        })
    }

    /// Some terms of some columns of tiles, `ns` nanoseconds of one thread.
    fn one_phase(
        &self,
        d: &CpuDevice,
        ns: f64,
        tiles: &mut [OutputTile<'_, T>],
        all: Range<usize>,
        rhs: &mut [T],
    ) -> Result<()> {
        let (isa, w) = (d.isa(), nr::<T>(d.isa()));
        let (b, across) = (tiles[0].batch, tiles[0].cols.start..tiles[tiles.len() - 1].cols.end);
        let padded = across.len().next_multiple_of(w);
        let rhs = &mut rhs[..all.len() * padded];
        // Chunk after chunk, panel after panel. A thread takes a few panels of a chunk, and begins with what lies before it: columns
        // that it also begins to multiply. So parts are collected by tiles' columns. (A sort of them was 17 KB.)
        const PANELS_PER_TASK: usize = 4;
        let wide = tiles[0].cols.len();
        let mut parts: Vec<_> = (0..across.len().div_ceil(wide)).map(|_| Vec::new()).collect();
        let mut rest = &mut *rhs;
        for terms in k_chunks(all.clone()) {
            for j in across.clone().step_by(PANELS_PER_TASK * w) {
                let cols = j..across.end.min(j + PANELS_PER_TASK * w);
                let (part, after) = rest.split_at_mut(terms.len() * cols.len().next_multiple_of(w));
                parts[(j - across.start) / wide].push((terms.clone(), cols, part));
                rest = after;
            }
        }
        let mut parts: Vec<_> = parts.into_iter().flatten().collect();
        for_each_task(d, ns, &mut parts, |(terms, cols, part)| {
            self.rhs.pack(isa, b, terms.clone(), cols.clone(), part);
            Ok(())
        })?;
        let rhs = &*rhs;
        for_each_task(d, ns, tiles, |tile| {
            let rows = tile.rows.clone();
            let cols = tile.cols.start - across.start;
            let data = |terms: &Range<usize>| {
                let before = (terms.start - all.start) * padded;
                &rhs[before + cols * terms.len()..]
            };
            let panels = |terms: &Range<usize>| {
                let next = self.next(&rows, terms, &all);
                let after = next.map_or(NextOperands::NONE, |next| {
                    let panel = data(&next.1);
                    self.next_operands(b, next, panel)
                });
                PanelsB { after, ..self.panels(isa, data(terms), terms.len()) }
            };
            let threes = [rows.start, rows.end].iter().all(|row| row.is_multiple_of(TAPS_PER_ADDRESS));
            if let Some(taps) = self.lhs.as_taps().filter(|_| threes) {
                for terms in k_chunks(all.clone()) {
                    let panels = panels(&terms);
                    taps.add(isa, tile, terms, panels);
                }
            } else {
                // What a chunk adds to waits in the task's own second-level cache: rows of the result are often a power of two
                // apart, and share its sets.
                let several = all.len() > CHUNK;
                let dst = if several { tile.accumulator_len() } else { 0 };
                scratch(rows.len() * PACKED_A_PITCH, |lhs| {
                    scratch(dst, |dst| {
                        for terms in k_chunks(all.clone()) {
                            let ends = (terms.start == all.start, terms.end == all.end);
                            let lhs = self.a_block(isa, b, &rows, &terms, lhs);
                            let rhs = panels(&terms);
                            tile.add_chunk_of_several(isa, lhs, rhs, terms.len(), dst, ends);
                        }
                    })
                })??;
            }
            if all.end == self.k {
                self.run_epilogue(d, tile);
            }
            Ok(())
        })
    }

    /// What follows the sums of a tile.
    pub(super) fn run_epilogue(&self, d: &CpuDevice, tile: &mut OutputTile<'_, T>) {
        epilogue::apply_to_tile(d.isa(), self.epilogue, tile);
    }
}

/// Does a right factor of `k` times `n` numbers stay in the second-level cache as it is?
pub(crate) fn b_fits_l2<T>(k: usize, n: usize) -> bool {
    k.saturating_mul(n) <= B_IN_L2_MAX_BYTES / size_of::<T>()
}

/// Rows of the highest tile.
const MAX_TILE_ROWS: usize = 12;
/// Sets and ways of a first-level cache.
const L1_SETS: usize = 64;
const L1_WAYS: u8 = 8;

/// Can a tile read rows so many bytes apart where they lie? A line of each stays in the first-level cache while its terms are read;
/// of rows 4 KiB apart, all lines would share a set.
pub(crate) fn rows_use_distinct_sets(bytes: usize) -> bool {
    let mut lines = [0u8; L1_SETS];
    // Two ways are left to the columns, which pass through. (Each small product asks: looking at all sets afterwards took twice as long.)
    (0..MAX_TILE_ROWS).all(|r| {
        let set = &mut lines[r.wrapping_mul(bytes) / LINE % L1_SETS];
        *set += 1;
        *set <= L1_WAYS - 2
    })
}

/// Terms, chunk by chunk. They begin where a chunk begins.
pub(crate) fn k_chunks(terms: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    terms.clone().step_by(CHUNK).map(move |t| t..terms.end.min(t + CHUNK))
}
