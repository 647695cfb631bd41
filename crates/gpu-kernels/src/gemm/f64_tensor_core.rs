//! Exact GEMM of f64 on tensor cores (DMMA), whose fragments are chains of fma in the order of
//! contractions.
//!
//! NVIDIA's units add the products of a fragment's terms in ascending order, each by an fma: an
//! H100 does so to the bit, with subnormals, infinities and zeros of both signs. So a fragment is a
//! chain of eight terms, and the rest is as in the other kernels: chunks of 512 terms begin at +0,
//! and their sums are added first to last. A device has to be probed for this before it is given
//! this kernel.
//!
//! A workgroup stages terms of its rows and columns in shared memory; each subgroup multiplies
//! fragments of them and prefetches the next ones meanwhile. The lanes know which accumulators they
//! hold, so results are stored without going through shared memory.

use super::multistage_cp_async::{self, CpAsyncPipeline, StepParts};
use super::plan::split_k::F64_MMA_GROUPS_PER_UNIT;
use super::problem::{self, GemmArgs};
use super::smem_load::{self, TileLoader};
use super::{GemmProblem, StridedMatrix, WorkgroupTile, k_major, split_k};
use crate::formula::Formula;
use crate::launch::sequence::LaunchSequence;
use crate::launch::{ComputeUnits, Key, Work, WorkgroupLimits, args, grid};
use crate::layout::indexing;
use elinvar_core::{DType, Layout, order};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{
    Builtin, Constant, Elem, FragmentLayout as Order, Kernel, MmaShape, Place, Role, Scalar,
};

const F64_MMA: MmaShape = MmaShape::F64_FMA_CHAIN;
/// Invocations of a subgroup.
const WARP_LANES: u32 = 32;
/// Elements behind a line in shared memory: a half-warp reads four neighbours each of four lines,
/// which are in different banks if lines are four numbers of 8 bytes more apart than a multiple of
/// all banks.
const PAD_ELEMENTS: u32 = 4;

/// How y is cut into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct F64MmaTile {
    /// Subgroups of a workgroup along m and n.
    pub subgroups: [u32; 2],
    /// Fragments of a subgroup along m and n: of 16 rows, of 8 columns.
    pub each: [u32; 2],
    /// Terms that are brought into shared memory at a time: a multiple of 16 that divides a chunk.
    pub depth: u32,
    /// Steps of so many terms that have room in shared memory at a time, brought there by copies:
    /// at least 2. 0: through registers, as also where operands are not in pieces of 16 bytes.
    pub slots: u32,
}

impl F64MmaTile {
    /// Has a device room for it?
    pub fn fits(self, limits: WorkgroupLimits) -> bool {
        limits.cp_async && self.invocations() <= limits.invocations && self.shared_bytes() <= limits.shared
    }

    /// Rows (side 0) or columns (side 1) of a workgroup.
    pub fn size(self, side: usize) -> u32 {
        self.subgroups[side] * self.each[side] * u32::from(F64_MMA.shape[side])
    }
    fn invocations(self) -> u32 {
        self.subgroups[0] * self.subgroups[1] * WARP_LANES
    }
    /// What is staged of a side at a time: how many lines, and from line to line.
    fn lines(self, k_major: bool, side: usize) -> [u32; 2] {
        let (lines, inner) =
            if k_major { (self.size(side), self.depth) } else { (self.depth, self.size(side)) };
        [lines, inner + PAD_ELEMENTS]
    }
    /// Bytes of shared memory, for both layouts of lines.
    fn shared_bytes(self) -> u32 {
        let staged = |side| {
            [true, false]
                .map(|k_major| self.lines(k_major, side).into_iter().product::<u32>())
                .into_iter()
                .max()
        };
        (0..2).filter_map(staged).sum::<u32>() * self.slots.max(1) * Elem::F64.size()
    }
    /// How many neighbours of a factor are read at once.
    fn vector(self, side: usize, l: &Layout, k_major: bool) -> u8 {
        // Sizes and depths are even.
        indexing::vector(l, if k_major == (side == 0) { 2 } else { 1 }).min(2)
    }
}

/// What a kernel is built for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct F64MmaConfig {
    base: problem::GemmBaseConfig,
    tile: F64MmaTile,
    /// Elements of x, and of w, that are read at once, in the direction in which they are read.
    width: [u8; 2],
    /// May there be several chunks of terms?
    multi_chunk: bool,
    /// Does each chunk have workgroups of its own, and its sums a place of their own?
    split_k: bool,
}

impl F64MmaConfig {
    fn name(&self, epilogue: &dyn Formula) -> String {
        let F64MmaTile { subgroups: [a, b], each: [c, d], depth, slots } = self.tile;
        let (k_major, operands) = (self.base.k_major_word(), self.base.operands_word(epilogue));
        let ([vx, vw], vy) = (self.width, self.base.stores);
        let slots = if slots > 0 { format!("s{slots}") } else { String::new() };
        let multi_chunk = if self.multi_chunk { "_multi_chunk" } else { "" };
        let multi_chunk = if self.split_k { "_split_k" } else { multi_chunk };
        let wide = if self.base.wide { "_wide" } else { "" };
        format!(
            "gemm_f64_mma_{operands}_{a}x{b}of{c}x{d}d{depth}{slots}_{k_major}_v{vx}{vw}{vy}{multi_chunk}{wide}"
        )
    }
}

/// The work of a contraction of f64. Operands and result are those of [`super::steps`].
pub fn steps<'a>(p: &GemmProblem<'a, '_>, tile: F64MmaTile, units: ComputeUnits) -> LaunchSequence<'a> {
    split_k(p, [tile.size(0), tile.size(1)], (units, F64_MMA_GROUPS_PER_UNIT), &|p, split_k| {
        launch(p, tile, split_k)
    })
}

/// The work of a contraction of f64 in one launch: x, w, further operands of the epilogue, then the
/// result. `None` if y has no elements.
pub fn contract<'a>(p: &GemmProblem<'a, '_>, tile: F64MmaTile) -> Option<Work<'a>> {
    launch(p, tile, None)
}

/// One launch. With `split_k`, the sums of so many chunks come out instead.
fn launch<'a>(p: &GemmProblem<'a, '_>, tile: F64MmaTile, split_k: Option<usize>) -> Option<Work<'a>> {
    assert_eq!(p.dtype, DType::F64, "these units are for f64");
    if p.is_empty() {
        return None;
    }
    let (k_major, wide) = (k_major(p), p.is_wide(split_k.unwrap_or(1)));
    let width = [0, 1].map(|side| tile.vector(side, [p.x, p.w][side], k_major[side]));
    // Where there are no terms, nothing is copied that could be read.
    let cp_async = p.sizes()[3] > 0
        && width.iter().all(|&w| u32::from(w) * Elem::F64.size() == multistage_cp_async::COPY_BYTES);
    let config = F64MmaConfig {
        base: p.config(k_major, wide, &|n| n <= 2),
        tile: F64MmaTile { slots: if cp_async { tile.slots } else { 0 }, ..tile },
        width,
        multi_chunk: p.sizes()[3] > order::CHUNK && split_k.is_none(),
        split_k: split_k.is_some(),
    };
    let (mut all, tiles) = p.args([tile.size(0), tile.size(1)]);
    let groups = grid((split_k.unwrap_or(1) * tiles) as u64);
    all.extend(split_k.map(|chunks| chunks as i64));
    let epilogue = p.epilogue;
    let (key, scalar) = (epilogue.key(Key::of("gemm_f64_mma").with(&config)), indexing::scalar(wide));
    Some(args::work(key, move || build(epilogue, &config), groups, scalar, &all))
}

/// What all parts of a kernel know.
struct F64MmaMainloop<'k, 'f> {
    k: &'k Builder,
    config: &'f F64MmaConfig,
    /// Sizes of the result, by side, and how many terms.
    sizes: [Val<'k>; 2],
    terms: Val<'k>,
    /// x and w.
    factors: [StridedMatrix<'k>; 2],
    /// Where their terms are staged.
    staged: [Place; 2],
    /// The first row and column of the workgroup, and of the subgroup from there.
    corner: [Val<'k>; 2],
    firsts: [Val<'k>; 2],
}

fn build(epilogue: &dyn Formula, config: &F64MmaConfig) -> Kernel {
    let t = config.tile;
    let k = Builder::new(&config.name(epilogue), [t.invocations(), 1, 1]);
    k.subgroup(WARP_LANES);
    let h = GemmArgs::read(&k, &config.base, Elem::F64, 4 * 2 + usize::from(config.split_k));
    let work = WorkgroupTile::read(&k, &h, epilogue, DType::F64, [t.size(0), t.size(1)], config.split_k);
    let staged = [(0, "rows"), (1, "columns")].map(|(side, name)| {
        let [lines, pitch] = t.lines(config.base.k_major[side], side);
        k.shared(name, Elem::F64, lines * pitch * t.slots.max(1))
    });
    let (subgroup, across) = (k.builtin(Builtin::SubgroupId), i64::from(t.subgroups[1]));
    let place = [subgroup / across, subgroup % across];
    let firsts = [0, 1].map(|side| place[side] * i64::from(t.each[side] * u32::from(F64_MMA.shape[side])));
    let (factors, corner) = (work.factors, work.corner);
    let p = F64MmaMainloop { k: &k, config, sizes: h.sizes, terms: h.terms, factors, staged, corner, firsts };

    let sums = p.sums(work.chunk);
    let lane = k.builtin(Builtin::SubgroupLane);
    let [g, pair] = [lane / 4, lane % 4 * 2];
    for (f, sums) in sums.iter().enumerate() {
        let [u, v] = [f as u32 / t.each[1], f as u32 % t.each[1]];
        for below in 0..2 {
            let i = p.place(0, g, 16 * u + 8 * below);
            let column = |next: u32| p.place(1, pair, 8 * v + next);
            let two = [0, 1].map(|next| (column(next), sums.extract((2 * below + next) as u8)));
            for some in two.chunks(usize::from(config.base.stores)) {
                let (columns, sums): (Vec<Val>, Vec<Val>) = some.iter().copied().unzip();
                work.store(i, &columns, &sums);
            }
        }
    }
    k.finish()
}

impl<'k> F64MmaMainloop<'k, '_> {
    /// A row or column of the result, from the subgroup's first on.
    fn place(&self, side: usize, of: Val<'k>, more: u32) -> Val<'k> {
        let corner = self.corner[side];
        corner + (self.firsts[side] + of + i64::from(more)).to(corner.scalar())
    }

    /// The sums of a subgroup, as its lanes have them: fragments, row by row. `of`: of this chunk
    /// alone.
    fn sums(&self, of: Option<Val<'k>>) -> Vec<Val<'k>> {
        let (k, t, terms) = (self.k, self.config.tile, self.terms);
        let length = order::CHUNK as i64;
        let begin = of.map_or(terms.like(0), |of| of * length);
        let end = of.map_or(terms, |_| (begin + length).min(terms));
        let stages = self.stages();
        let pitch = [0, 1].map(|side| t.lines(self.config.base.k_major[side], side)[1]);
        let none = self.none();
        let flow = CpAsyncPipeline { stages, to: self.staged, pitch, slots: t.slots, end, padded_end: end };
        let parts = StepParts {
            count: t.depth / u32::from(F64_MMA.shape[2]),
            read: &|bases, part| self.fragments(bases, part),
            compute: &|fragments, sums| self.multiply(fragments, sums),
        };
        let zero = k.u32(0);
        // The sums of a chunk, and what goes on with the next.
        let chunk = |from: Val<'k>, to: Val<'k>, on: &[Val<'k>]| -> (Vec<Val<'k>>, Vec<Val<'k>>) {
            if t.slots > 0 {
                return flow.read_ahead([from, to], on, &none, &parts);
            }
            let bring = |side: usize, loaded: &[Val<'k>]| {
                let (stage, pitch) = (&flow.stages[side], i64::from(pitch[side]));
                stage.store(loaded, &|place, term, v| {
                    let at = if stage.k_major { place * pitch + term } else { term * pitch + place };
                    k.store(self.staged[side], at, v);
                });
            };
            let compute = |sums: &[Val<'k>]| {
                let part = |sums: Vec<Val<'k>>, part| self.multiply(&self.fragments([zero; 2], part), &sums);
                (0..parts.count).fold(sums.to_vec(), part)
            };
            (Vec::new(), smem_load::steps(&flow.stages, [from, to], to, &none, &bring, &compute))
        };
        let on = if t.slots > 0 { flow.open_read_ahead(begin, &parts) } else { Vec::new() };
        let args = |sums: &[Val<'k>]| -> Vec<Val<'k>> {
            sums.iter().map(|&sum| k.fragment_extract(sum, 0)).collect()
        };
        if !self.config.multi_chunk {
            return args(&chunk(begin, end, &on).1);
        }
        // To add to -0 changes no bit of any sum.
        let nothing = k.constant(Constant::float(Scalar::F64, -0.0)).splat(4);
        let carried = [&on[..], &vec![nothing; none.len()]].concat();
        let all = k.for_(begin, end, end.like(length), &carried, |start, carried| {
            let (before, totals) = carried.split_at(on.len());
            let (on, sums) = chunk(start, (start + length).min(end), before);
            let totals = totals.iter().zip(args(&sums)).map(|(&total, sum)| total + sum);
            on.into_iter().chain(totals).collect()
        });
        all[on.len()..].to_vec()
    }

    fn stages(&self) -> [TileLoader<'k>; 2] {
        let (k, t, base) = (self.k, self.config.tile, &self.config.base);
        let index = k.builtin(Builtin::LocalIndex);
        [0, 1].map(|side| TileLoader {
            k,
            side,
            index,
            invocations: t.invocations(),
            size: t.size(side),
            depth: t.depth,
            k_major: base.k_major[side],
            width: self.config.width[side],
            from: self.factors[side],
            corner: self.corner[side],
            limit: self.sizes[side],
            // Products of what stands beyond the last term are -0, which change no sum.
            padding: Constant::float(Scalar::F64, if side == 0 { -0.0 } else { 0.0 }),
        })
    }

    /// The sums of no terms.
    fn none(&self) -> Vec<Val<'k>> {
        let zero = self.k.constant(Constant::float(Scalar::F64, 0.0));
        let [down, across] = self.config.tile.each;
        vec![self.k.fragment_fill(F64_MMA.fragment(Role::C), zero); (down * across) as usize]
    }

    /// The fragments of eight terms of a step: of rows, then of columns. Where the step begins in
    /// shared memory by side, which terms.
    fn fragments(&self, bases: [Val<'k>; 2], part: u32) -> Vec<Val<'k>> {
        let at = part * u32::from(F64_MMA.shape[2]);
        let of = |side: usize| {
            let each = 0..self.config.tile.each[side];
            each.map(move |u| self.fragment(side, bases[side], [u, at]))
        };
        of(0).chain(of(1)).collect()
    }
    /// The sums with those of such fragments.
    fn multiply(&self, fragments: &[Val<'k>], sums: &[Val<'k>]) -> Vec<Val<'k>> {
        let (a, b) = fragments.split_at(self.config.tile.each[0] as usize);
        let one = |(f, &sum): (usize, &Val<'k>)| self.k.fragment_mul_add(a[f / b.len()], b[f % b.len()], sum);
        sums.iter().enumerate().map(one).collect()
    }

    /// Fragment `u` of a side, from term `at` of a step that begins at `base`.
    fn fragment(&self, side: usize, base: Val<'k>, [u, at]: [u32; 2]) -> Val<'k> {
        let (k, k_major) = (self.k, self.config.base.k_major[side]);
        let role = [Role::A, Role::B][side];
        let pitch = self.config.tile.lines(k_major, side)[1];
        let place = self.firsts[side] + i64::from(u * u32::from(F64_MMA.shape[side]));
        let within =
            if k_major { place * i64::from(pitch) + i64::from(at) } else { place + i64::from(at * pitch) };
        // Rows of the left factor run over terms, and rows of the right one over columns.
        let order = if k_major == (role == Role::A) { Order::RowMajor } else { Order::ColumnMajor };
        k.fragment_load(F64_MMA.fragment(role), order, self.staged[side], base + within, k.u32(pitch))
    }
}
