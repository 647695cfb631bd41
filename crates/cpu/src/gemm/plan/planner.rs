//! The plan of products in blocks: who packs what, how the result is cut into tiles, and how tiles
//! are made.
//!
//! How it can be wrong: tiles that do not come out even for all threads, which takes time, but is
//! never wrong.

use super::blocked::*;
use super::thresholds::*;
use crate::gemm::kernels::{Blocking, COLUMN_GROUP, GEMV_MIN_COLUMNS, PREFETCH_ROWS, TermKind};
use crate::machine::{Machine, rows_use_distinct_sets};
use elinvar_core::order::CHUNK;

/// What is run for products in blocks; `pack` says what is shared of factors that are not in
/// memory as matrices, or were packed before.
pub(crate) fn plan_gemm(p: &GemmProblem, pack: Option<PackPlan>, machine: &Machine) -> GemmPlan {
    let units = match p.kind {
        TermKind::Elements => Units::Fma,
        TermKind::Bf16Pairs if p.bytes == size_of::<f32>() && machine.has_amx() => Units::Amx,
        TermKind::Bf16Pairs => Units::Bf16Pairs,
    };
    let mut p = *p;
    if units == Units::Amx {
        // It sums in an order of its own, so it does all products of pairs, and it reads packed
        // blocks alone.
        p.a = AccessA { rows: None, taps: false };
        p.b = AccessB { columns: ColumnAccess::Packed, panels: false, windows: None };
    }
    let (pack, why) = match pack {
        Some(PackPlan::Prepacked) => (PackPlan::Prepacked, "the right factor was packed before"),
        Some(pack) => (pack, "as the factors of the convolution ask"),
        None => pack_plan(&p, machine),
    };
    Planner { p, machine, units, pack, why, ns: p.ns() }.plan()
}

/// What is shared of factors that are in memory.
fn pack_plan(p: &GemmProblem, machine: &Machine) -> (PackPlan, &'static str) {
    let (threads, rows) = (machine.threads, p.mc());
    let b_numbers = p.k.saturating_mul(p.n);
    if p.m <= rows {
        (PackPlan::PerTask, "one block of rows: there are no others to share with")
    } else if p.b_fits_l2(machine) && p.m <= rows * threads {
        (PackPlan::PerTask, "the right factor stays in the second-level cache as it is")
    } else if p.batch > 1 && is_even(p.batch, threads) && b_numbers <= p.shared_b_numbers(machine) {
        (PackPlan::PerProduct, "the batch comes out even for all threads")
    } else if p.is_tall(machine) {
        // A thread has the rows that it had in the op before, and what it packs, no other reads.
        (PackPlan::PerTask, "many rows by a small right factor")
    } else {
        (PackPlan::SharedB, "many rows read each block of the right factor")
    }
}

/// Do so many parts keep all threads busy to the end?
fn is_even(parts: usize, threads: usize) -> bool {
    parts.is_multiple_of(threads) || parts >= EVEN_TASKS_PER_THREAD * threads
}

impl GemmProblem {
    /// Rows of a packed block of A (MC).
    fn mc(&self) -> usize {
        MC_BYTES / self.bytes
    }
    /// Columns of the block of B that a task packs for itself (NC).
    fn nc(&self) -> usize {
        NC_BYTES / self.bytes
    }
    /// Columns of a block, at most.
    fn nc_max(&self) -> usize {
        NC_MAX_COLUMNS[usize::from(self.k > CHUNK)]
    }
    /// Numbers of the block of B that is packed for all tasks.
    fn shared_b_numbers(&self, machine: &Machine) -> usize {
        let part = SHARED_B_PART_OF_L3[usize::from(self.bytes > size_of::<f32>())];
        machine.l3_bytes / part / self.bytes
    }
    /// Does the right factor stay in the second-level cache as it is?
    fn b_fits_l2(&self, machine: &Machine) -> bool {
        self.k.saturating_mul(self.n) <= machine.l2_bytes / UNPACKED_B_PART_OF_L2 / self.bytes
    }
    /// Are there so many rows that each task is faster with a right factor that it packs for
    /// itself?
    fn is_tall(&self, machine: &Machine) -> bool {
        let others = self.m.saturating_mul(self.k.saturating_add(self.n));
        machine.threads > 1
            && self.m >= self.n
            && self.m >= self.mc() * machine.threads
            && others >= TALL_RATIO.saturating_mul(self.k).saturating_mul(self.n)
    }
    /// Nanoseconds of one thread; 0 if it is too little to be shared.
    fn ns(&self) -> f64 {
        let packed = FMAS_PER_PACKED_NUMBER * (self.m + self.n);
        let each = self.m.saturating_mul(self.n).saturating_add(packed);
        let all = self.batch.saturating_mul(self.k).saturating_mul(each);
        if all > PARALLEL_MIN_FMAS_OF_GEMM { all as f64 / FMAS_PER_NS } else { 0.0 }
    }
}

/// A product in blocks of which it is known who packs what.
struct Planner<'a> {
    p: GemmProblem,
    machine: &'a Machine,
    units: Units,
    pack: PackPlan,
    why: &'static str,
    ns: f64,
}

impl Planner<'_> {
    fn plan(self) -> GemmPlan {
        let small_m = self.is_small_m();
        let (blocking, why) = if small_m {
            (self.small_m_blocking(), "few rows by columns whose terms are neighbours")
        } else {
            (self.blocking(), self.why)
        };
        let a = match self.p.a {
            _ if self.reads_a_in_place() => ReadA::InPlace,
            AccessA { taps: true, .. } => ReadA::Taps,
            AccessA { taps: false, .. } => ReadA::Pack,
        };
        let schedule = match self.pack {
            _ if [self.p.batch, self.p.m, self.p.k, self.p.n].contains(&0) => Schedule::NoTerms,
            PackPlan::PerTask if small_m => Schedule::SmallM(self.small_m(&blocking)),
            PackPlan::PerTask => Schedule::PrivatePacking(self.private_packing()),
            PackPlan::SharedA => Schedule::SharedA { windows: self.p.b.windows.is_some() },
            PackPlan::SharedB => self.shared_b(&blocking),
            PackPlan::PerProduct => Schedule::PerProduct,
            PackPlan::Prepacked => Schedule::Prepacked { in_turn: self.is_light() },
        };
        let prefetches_a = self.p.kind == TermKind::Elements && self.p.a.rows.is_some();
        GemmPlan { units: self.units, blocking, ns: self.ns, a, prefetches_a, schedule, why }
    }

    fn mr(&self) -> usize {
        self.machine.mr_of(self.p.bytes)
    }
    fn nr(&self) -> usize {
        self.machine.nr_of(self.p.bytes)
    }
    /// Rows of the left factor are read in place if tiles can read them there.
    fn reads_a_in_place(&self) -> bool {
        self.p.kind == TermKind::Elements
            && self.p.a.rows.is_some_and(|row| rows_use_distinct_sets(row.wrapping_mul(self.p.bytes)))
    }

    /// Are there so many rows that columns in memory are better read number by number, if they are
    /// so? Rows and results are transposed then, which are to be less than the columns. Or columns
    /// are so few that registers of them are not full, of many terms.
    ///
    /// Of f64 there are no kernels for it: they were a fiftieth of a small program, for what
    /// networks do not do.
    fn is_small_m(&self) -> bool {
        let &GemmProblem { m, k, n, .. } = &self.p;
        self.p.bytes <= size_of::<f32>()
            && self.pack == PackPlan::PerTask
            && self.p.kind == TermKind::Elements
            && SMALL_M_ROWS.contains(&m)
            && k > 0
            && (m * (k + n) < k * n || n < NARROW_MAX_COLUMNS && k >= NARROW_MIN_TERMS)
            && self.p.b.columns == ColumnAccess::InPlace
    }
    /// Numbers of rows that are packed at once.
    fn small_m_numbers(&self) -> usize {
        self.machine.l2_bytes / SMALL_M_ROWS_PART_OF_L2 / self.p.bytes
    }
    /// Are there so few rows that they have a kernel of their own?
    fn is_few(&self) -> bool {
        self.machine.has_kernels
            && PREFETCH_ROWS.contains(&self.p.m)
            && self.p.k * self.p.m <= self.small_m_numbers()
    }
    /// Terms of all rows that are packed at once.
    fn small_m_kc(&self) -> usize {
        let padded = self.p.m.next_multiple_of(self.nr());
        ((self.small_m_numbers() / padded / CHUNK).max(1) * CHUNK).min(self.p.k)
    }
    fn small_m(&self, blocking: &Blocking) -> SmallMPlan {
        let few = self.is_few();
        let kc = if few { self.p.k } else { self.small_m_kc() };
        // If there are more terms, the sums of all columns of a tile wait for them.
        let accumulators = if kc < self.p.k { blocking.cols.min(self.p.n) } else { COLUMN_GROUP };
        SmallMPlan { few, kc, accumulators }
    }
    /// Tiles of all rows and some columns, or, of columns that are too few, of all columns and some
    /// rows.
    fn small_m_blocking(&self) -> Blocking {
        let &GemmProblem { batch, m, n, .. } = &self.p;
        let (w, threads) = (self.nr(), self.threads());
        let (mut rows, mut cols) = (m, n);
        let few = self.is_few();
        if threads > 1 && n < w * threads && m >= 2 * w && !few {
            rows = even_piece(m, m, w, threads);
        } else if threads > 1 {
            // With all terms a thread packs rows once for all of its tiles.
            let once = few || self.small_m_kc() == self.p.k;
            let tiles = if once { FINE_TASKS_PER_THREAD * threads } else { threads };
            cols = balanced_piece(n, n.div_ceil(tiles).next_multiple_of(w), w, threads);
        }
        Blocking { batch, m, n, rows, cols }
    }

    /// Threads that the batch does not feed. With a shared right factor one product is made after
    /// the other.
    fn threads(&self) -> usize {
        match self.pack {
            _ if self.ns == 0.0 => 1,
            PackPlan::SharedB => self.machine.threads,
            PackPlan::PerTask | PackPlan::SharedA | PackPlan::PerProduct | PackPlan::Prepacked => {
                self.machine.threads.div_ceil(self.p.batch.max(1))
            }
        }
    }

    /// Those of them that have columns of their own; the others share these, and have rows of their
    /// own.
    fn threads_across(&self) -> usize {
        let threads = self.threads();
        let panels = self.p.n.div_ceil(self.nr());
        match self.pack {
            // Columns are packed by each task that has them: they are cut, unless there are fewer
            // than rows, none is packed, or a thread would have many more than another.
            PackPlan::PerTask
                if self.p.n <= self.p.m || self.p.b_fits_l2(self.machine) || !is_even(panels, threads) =>
            {
                1
            }
            PackPlan::PerTask | PackPlan::SharedA | PackPlan::PerProduct => threads,
            // What has to be transposed on its way takes longer to pack than the columns take to
            // read that another has packed. A panel more for one thread costs more than that, too.
            PackPlan::SharedB
                if self.is_a_transposed() && (self.p.m > self.p.n || !panels.is_multiple_of(threads)) =>
            {
                1
            }
            PackPlan::SharedB => threads.min(self.p.n / SPLIT_COLUMNS_MIN_PER_THREAD).max(1),
            PackPlan::Prepacked => 1,
        }
    }
    /// Are the terms of the left factor's rows not contiguous?
    fn is_a_transposed(&self) -> bool {
        self.p.kind == TermKind::Elements && self.p.a.rows.is_none()
    }

    /// Tiles that fit the caches, and enough of them for all threads.
    fn blocking(&self) -> Blocking {
        let &GemmProblem { batch, m, n, .. } = &self.p;
        let (threads, mc, nc) = (self.threads(), self.p.mc(), self.p.nc());
        // A small product is one tile. (To cut others takes a dozen divisions.)
        if threads == 1 && self.pack == PackPlan::PerTask && m <= mc && n <= nc {
            return Blocking { batch, m, n, rows: m.max(1), cols: n.max(1) };
        }
        let (h, w, nc_max) = (self.mr(), self.nr(), self.p.nc_max());
        let result_numbers = self.machine.l2_bytes / TAPS_RESULT_PART_OF_L2 / self.p.bytes;
        let (rows, cols) = match self.pack {
            PackPlan::PerTask if self.p.is_tall(self.machine) => (2 * mc, nc_max),
            // Each task packs the rows.
            PackPlan::PerTask => (mc, nc),
            PackPlan::SharedA => (m, self.p.b.windows.unwrap_or(nc)),
            PackPlan::SharedB if self.p.a.taps && 2 * mc * n <= result_numbers => (2 * mc, nc_max),
            PackPlan::SharedB | PackPlan::PerProduct => (mc, nc_max),
            // Few rows are packed as often as there are tiles side by side.
            PackPlan::Prepacked if m <= mc => (mc, nc),
            PackPlan::Prepacked => (mc, nc_max),
        };
        let across = self.threads_across();
        let down = threads.div_ceil(across);
        if threads > 1 && (self.pack == PackPlan::Prepacked || across > 1) && self.is_light() {
            // The epilogue goes through a tile row by row, so rows should be longer than one panel.
            let few = (n / (FINE_TASKS_PER_THREAD * threads)).max(PANELS_PER_PACK * w);
            let cols = balanced_piece(n, cols.min(few), w, threads);
            return Blocking { batch, m, n, rows: m, cols };
        }
        // Rows are cut finer if they are enough for all; otherwise columns.
        let (down, across) = if m >= 2 * h * down { (down, across) } else { (1, down * across) };
        // A thread that waits for another's last rows loses more than a tile of fewer rows does.
        let unit = if down > 1 { h.min(MIN_TILE_ROWS) } else { h };
        // Rows that are taps are read in place in threes alone.
        let unit = if self.p.a.taps { unit.next_multiple_of(TAPS_PER_ADDRESS) } else { unit };
        let rows = even_piece(m, rows, unit, down);
        let cols = match self.pack {
            PackPlan::Prepacked if across == 1 && cols < n => balanced_piece(n, cols, w, 1),
            _ => even_piece(n, cols, w, across),
        };
        Blocking { batch, m, n, rows, cols }
    }
    /// Does a tile of all rows cost next to nothing by itself? They are one block, and read where
    /// they are. Fewer rows by packed weights wait for memory, which foresees what comes in tiles
    /// of more columns.
    fn is_light(&self) -> bool {
        let least = match self.pack {
            PackPlan::Prepacked => 2 * self.mr(),
            PackPlan::PerTask => GEMV_MAX_ROWS,
            PackPlan::SharedA | PackPlan::SharedB | PackPlan::PerProduct => return false,
        };
        (least + 1..=self.p.mc()).contains(&self.p.m) && self.reads_a_in_place()
    }

    fn private_packing(&self) -> PrivatePackingPlan {
        let is_pairs = self.p.kind == TermKind::Bf16Pairs;
        let gemv = self.machine.has_kernels && self.p.b.columns != ColumnAccess::Packed;
        // What is used by few tiles, or stays in the second-level cache as it is, is not worth
        // packing.
        let few = self.p.m <= 2 * self.mr() || self.p.b_fits_l2(self.machine);
        PrivatePackingPlan {
            gemv_max_rows: if gemv { GEMV_MAX_ROWS } else { 0 },
            gemv_min_cols: if is_pairs { GEMV_MIN_COLUMNS } else { 0 },
            gemv_a_in_place: self.p.a.rows.is_some(),
            a_in_place: self.reads_a_in_place(),
            // Panels of pairs are not in memory: two terms of a column are no neighbours there.
            direct_b: few && !is_pairs && self.p.b.panels,
            nr: self.nr(),
        }
    }

    fn shared_b(&self, blocking: &Blocking) -> Schedule {
        // Columns of tiles that are packed together, and then as many chunks as fit.
        let nc = (self.p.nc_max() * self.threads_across() / blocking.cols).max(1) * blocking.cols;
        let nc = nc.min(self.p.n.next_multiple_of(blocking.cols));
        let kc = (self.p.shared_b_numbers(self.machine) / nc / CHUNK).max(1) * CHUNK;
        Schedule::SharedB { nc, kc }
    }
}

/// The size of pieces, a multiple of `unit`, at most about `most`, that come out even for so many
/// threads.
fn even_piece(whole: usize, most: usize, unit: usize, threads: usize) -> usize {
    let pieces = whole.div_ceil(most.max(1)).next_multiple_of(threads).max(1);
    whole.div_ceil(pieces).next_multiple_of(unit).max(unit)
}

/// The size of pieces, a multiple of `unit`, at most `most` and at least half of it, of which the
/// thread that has most has least: where there are few for each thread.
fn balanced_piece(all: usize, most: usize, unit: usize, threads: usize) -> usize {
    let (units, most) = (all.div_ceil(unit), (most / unit).max(1));
    let busiest = |size: &usize| (units.div_ceil(*size).div_ceil(threads) * size, usize::MAX - size);
    (most.div_ceil(2)..=most).min_by_key(busiest).unwrap_or(most) * unit
}
