//! GEMM: `y[b, m, n] = epilogue(sum over k of x[b, m, k] * w[b, k, n])`, in the order of
//! `elinvar_core::order::contract`.
//!
//! This file is the SIMT kernel: an invocation holds a thread tile of y in registers and runs its
//! chains of fma. In the direct form it reads x and w from device memory; the other forms stage
//! them in shared memory (`smem_loop.rs`), through registers or by cp.async in a multistage
//! pipeline (`multistage_cp_async.rs`). The chunks of the order are a multiple of every K step, so
//! no tile crosses two.
//!
//! Where a tile reaches beyond k, x is padded with -0 and w with +0: their product is -0, and
//! adding that changes no bit of any sum (+0 would turn a sum of -0, which an underflow can leave,
//! into +0). Rows and columns beyond m and n are computed and discarded.
//!
//! * Exact: this file, `in_block_split_k`, `f64_tensor_core` (DMMA), and `split_k_reduce`, which
//!   adds the partial sums of split-K.
//! * `Precision::Fast`: `mma_sync` (tensor cores), `tma_wgmma` (Hopper) with `tma_transpose`.
//! * Choice: `plan`. Parts: `problem`, `thread_tile`, `smem_load`, `smem_loop`,
//!   `multistage_cp_async`, `fragments`, `epilogue`.

pub(crate) mod epilogue;
pub mod f64_tensor_core;
pub(crate) mod fragments;
pub mod in_block_split_k;
pub mod mma_sync;
pub(crate) mod multistage_cp_async;
pub mod plan;
pub(crate) mod problem;
pub(crate) mod smem_load;
mod smem_loop;
pub mod split_k_reduce;
pub(crate) mod thread_tile;
pub mod tma_transpose;
pub mod tma_wgmma;

pub use problem::GemmProblem;

use crate::formula::{Compute, Formula};
use crate::launch::args::{self, LaunchArgs};
use crate::launch::sequence::{BufferSlot, BufferSpec, LaunchSequence};
use crate::launch::{ComputeUnits, Key, Work, grid};
use crate::layout::indexing;
use elinvar_core::{DType, order};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Builtin, Kernel, Place};
use elinvar_kernel::lane::{Float, Term, W32, W64};
use elinvar_ops::backend::EpilogueObject;
use elinvar_ops::map::Out;
use problem::GemmArgs;
use smem_load::TileLoader;
use thread_tile::{ChunkLoop, ThreadTile};

/// How y is cut into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SimtTile {
    /// Invocations of a workgroup along m and n.
    pub group: [u32; 2],
    /// Rows and columns of an invocation.
    pub each: [u32; 2],
    /// Terms that are brought into shared memory at a time, a power of two up to 64; 0 for the
    /// plain form.
    pub depth: u32,
    /// Steps of so many terms that have room in shared memory at a time, brought there by copies
    /// that go on while others are computed with: at least 2. 0: through registers, as also where
    /// operands are not in pieces of 16 bytes.
    pub slots: u32,
}

impl SimtTile {
    /// Without shared memory: little to set up, for few rows or columns.
    pub const PLAIN: SimtTile = SimtTile { group: [8, 8], each: [4, 4], depth: 0, slots: 0 };
    /// 64 by 64 with 256 invocations: 16 sums each, for 8 loads from shared memory.
    pub const SHARED: SimtTile = SimtTile { group: [16, 16], each: [4, 4], depth: 16, slots: 0 };

    /// Rows (side 0) or columns (side 1) of a workgroup.
    pub(crate) fn size(self, side: usize) -> u32 {
        self.group[side] * self.each[side]
    }
    pub(crate) fn invocations(self) -> u32 {
        self.group[0] * self.group[1]
    }
}

/// An epilogue as a formula whose first operand is the sum; `None`: the sum itself.
#[derive(Clone, Copy, Debug)]
pub struct CatalogueEpilogue<'a>(pub Option<&'a dyn EpilogueObject>);

impl Formula for CatalogueEpilogue<'_> {
    fn name(&self) -> String {
        self.0.map_or("plain", EpilogueObject::name).to_string()
    }
    fn key(&self, around: Key) -> Key {
        around.with(&self.0.map(EpilogueObject::key))
    }
    fn arity(&self) -> usize {
        1 + self.0.map_or(0, EpilogueObject::arity)
    }
    fn out(&self) -> Out {
        Out::Same
    }
    fn is_light(&self) -> bool {
        // Which it is, its hints do not tell.
        self.0.is_none()
    }
    fn emit<'k>(&self, k: &'k Builder, c: Compute, x: &[Val<'k>]) -> Val<'k> {
        let Some(e) = self.0 else { return x[0] };
        match c {
            Compute::F32 => {
                let x: Vec<Float<'k, W32>> = x.iter().map(|&x| Float::new(Term::Value(x))).collect();
                e.record(32).replay_one(&x).0.value(k)
            }
            Compute::F64 => {
                let x: Vec<Float<'k, W64>> = x.iter().map(|&x| Float::new(Term::Value(x))).collect();
                e.record(64).replay_one(&x).0.value(k)
            }
            Compute::I64 | Compute::I32 | Compute::U8 | Compute::Bool => {
                unreachable!("{}: integers take no epilogue", e.name())
            }
        }
    }
}

/// What a kernel is built for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SimtConfig {
    /// As of other products.
    pub base: problem::GemmBaseConfig,
    /// How y is cut into pieces.
    pub tile: SimtTile,
    /// Elements of x, and of w, that the shared form reads at once, in the direction in which they
    /// are read.
    pub width: [u8; 2],
    /// May there be several chunks of terms?
    pub multi_chunk: bool,
    /// Does each chunk have workgroups of its own, and its sums a place of their own?
    pub split_k: bool,
}

/// The work of a contraction. Operands: x, w, further operands of the epilogue. Result: y. Where y
/// has few tiles and each of them several chunks of terms, the chunks are computed side by side,
/// and joined afterwards.
pub fn steps<'a>(p: &GemmProblem<'a, '_>, tile: SimtTile, units: ComputeUnits) -> LaunchSequence<'a> {
    split_k(p, [tile.size(0), tile.size(1)], (units, plan::split_k::SIMT_GROUPS_PER_UNIT), &|p, split_k| {
        launch(p, tile, split_k)
    })
}

/// The launches of a contraction by tiles of so many rows and columns, of which so many keep each
/// compute unit busy. `launch` makes the work of one, or, of the sums of so many chunks.
fn split_k<'a>(
    p: &GemmProblem<'a, '_>,
    size: [u32; 2],
    (units, per_unit): (ComputeUnits, u32),
    launch: &dyn Fn(&GemmProblem<'a, '_>, Option<usize>) -> Option<Work<'a>>,
) -> LaunchSequence<'a> {
    const PLAIN: CatalogueEpilogue<'static> = CatalogueEpilogue(None);
    let (len, dtype) = (p.len(), p.dtype);
    let mut all =
        LaunchSequence { results: vec![BufferSpec::of(dtype.into(), len)], ..LaunchSequence::default() };
    let others: Vec<BufferSlot> = (0..p.extra.len()).map(|i| BufferSlot::Operand(2 + i)).collect();
    let factors = [BufferSlot::Operand(0), BufferSlot::Operand(1)];
    let Some(chunks) = plan::split_k::split_k_chunks(p.sizes(), dtype, size, (units, per_unit)) else {
        if let Some(work) = launch(p, None) {
            all.push(work, &[&factors, &others[..], &[BufferSlot::Result(0)]].concat());
        }
        return all;
    };
    let plain = GemmProblem { epilogue: &PLAIN, extra: &[], ..*p };
    if let Some(work) = launch(&plain, Some(chunks)) {
        let sums = BufferSlot::Scratch(0);
        all.scratch.push(BufferSpec::of(split_k_reduce::elem(dtype), chunks * len));
        all.push(work, &[factors[0], factors[1], sums]);
        let join = split_k_reduce::join(p.epilogue, dtype, chunks, len, p.extra, units);
        all.push(join, &[&[sums], &others[..], &[BufferSlot::Result(0)]].concat());
    }
    all
}

/// The work of a contraction in one launch: x, w, further operands of the epilogue, then the
/// result. `None` if y has no elements.
pub fn contract<'a>(p: &GemmProblem<'a, '_>, tile: SimtTile) -> Option<Work<'a>> {
    launch(p, tile, None)
}

/// Do neighbouring terms are contiguous in x, and in w?
fn k_major(p: &GemmProblem<'_, '_>) -> [bool; 2] {
    [p.x.strides()[2].unsigned_abs() == 1, p.w.strides()[1].unsigned_abs() == 1]
}

/// One launch. With `split_k`, the sums of so many chunks come out instead.
fn launch<'a>(p: &GemmProblem<'a, '_>, tile: SimtTile, split_k: Option<usize>) -> Option<Work<'a>> {
    if p.is_empty() {
        return None;
    }
    let (x, w, k_major) = (p.x, p.w, k_major(p));
    let tile = tile.for_layouts(p.dtype, [x, w], k_major);
    let wide = p.is_wide(split_k.unwrap_or(1));
    let config = SimtConfig {
        base: p.config(k_major, wide, &|n| tile.neighbours(1, k_major[1]).is_multiple_of(u32::from(n))),
        tile,
        width: [tile.vector(0, x, k_major[0]), tile.vector(1, w, k_major[1])],
        multi_chunk: p.sizes()[3] > order::CHUNK && split_k.is_none(),
        split_k: split_k.is_some(),
    };
    let (mut all, tiles) = p.args([tile.size(0), tile.size(1)]);
    let groups = grid((split_k.unwrap_or(1) * tiles) as u64);
    if let Some(chunks) = split_k {
        all.push(chunks as i64);
    }
    let epilogue = p.epilogue;
    let (key, scalar) = (epilogue.key(Key::of("gemm_simt").with(&config)), indexing::scalar(wide));
    Some(args::work(key, move || build(epilogue, &config), groups, scalar, &all))
}

impl SimtConfig {
    fn name(&self, epilogue: &dyn Formula) -> String {
        let SimtTile { group: [a, b], each: [c, d], depth, slots } = self.tile;
        let (k_major, operands) = (self.base.k_major_word(), self.base.operands_word(epilogue));
        let ([vx, vw], vy) = (self.width, self.base.stores);
        let vectors = if depth > 0 { format!("_v{vx}{vw}{vy}") } else { String::new() };
        let slots = if slots > 0 { format!("s{slots}") } else { String::new() };
        let multi_chunk = if self.multi_chunk { "_multi_chunk" } else { "" };
        let multi_chunk = if self.split_k { "_split_k" } else { multi_chunk };
        let wide = if self.base.wide { "_wide" } else { "" };
        format!("gemm_simt_{operands}_{a}x{b}of{c}x{d}d{depth}{slots}_{k_major}{vectors}{multi_chunk}{wide}")
    }
}

/// An operand with three axes, in a kernel.
#[derive(Clone, Copy)]
pub(crate) struct StridedMatrix<'k> {
    pub place: Place,
    /// Where this batch begins.
    first: Val<'k>,
    strides: [Val<'k>; 2],
}

impl<'k> StridedMatrix<'k> {
    pub fn read(args: &LaunchArgs<'k>, name: &str, place: Place, batch: Val<'k>) -> Self {
        let offset = args.get(&format!("{name}_offset"));
        let [b, row, column] = std::array::from_fn(|a| args.get(&format!("{name}_stride{a}")));
        StridedMatrix { place, first: offset + batch * b, strides: [row, column] }
    }
    /// A matrix that begins somewhere, with strides from row to row and from column to column.
    pub fn new(place: Place, first: Val<'k>, strides: [Val<'k>; 2]) -> Self {
        StridedMatrix { place, first, strides }
    }
    /// Rows that begin somewhere, of numbers side by side.
    pub fn rows(place: Place, first: Val<'k>, stride: Val<'k>) -> Self {
        StridedMatrix { place, first, strides: [stride, stride.like(1)] }
    }
    pub fn at(&self, i: Val<'k>, j: Val<'k>) -> Val<'k> {
        self.first + i * self.strides[0] + j * self.strides[1]
    }
}

/// What all parts of a kernel know.
struct SimtMainloop<'k, 'f> {
    k: &'k Builder,
    config: &'f SimtConfig,
    micro: ThreadTile<'k>,
    /// Sizes of y, by side, and how many terms.
    sizes: [Val<'k>; 2],
    terms: Val<'k>,
    /// x and w.
    factors: [StridedMatrix<'k>; 2],
    /// The first row and column of the workgroup.
    corner: [Val<'k>; 2],
    /// Which invocation.
    index: Val<'k>,
}

/// The kernel of a form.
pub fn build(epilogue: &dyn Formula, config: &SimtConfig) -> Kernel {
    let (k, tile) = (Builder::new(&config.name(epilogue), [config.tile.invocations(), 1, 1]), config.tile);
    let dtype = config.base.dtype;
    let out = if config.split_k { split_k_reduce::elem(dtype) } else { dtype.into() };
    let h = GemmArgs::read(&k, &config.base, out, 4 * 2 + usize::from(config.split_k));
    let work = WorkgroupTile::read(&k, &h, epilogue, dtype, [tile.size(0), tile.size(1)], config.split_k);
    let index = k.builtin(Builtin::LocalIndex);
    let micro = ThreadTile { k: &k, dtype, tile, k_major: config.base.k_major, index };
    let (factors, corner) = (work.factors, work.corner);
    let p = SimtMainloop { k: &k, config, micro, sizes: h.sizes, terms: h.terms, factors, corner, index };

    let sums = p.sums(work.chunk);
    let [rows, columns] = [0, 1].map(|side| p.micro.places(side, p.corner[side]));
    let width = usize::from(config.base.stores);
    for (u, &i) in rows.iter().enumerate() {
        for (v, some) in columns.chunks(width).enumerate() {
            work.store(i, some, &sums[u * columns.len() + v * width..][..some.len()]);
        }
    }
    k.finish()
}

/// What a workgroup of a contraction has to do, and where its sums go.
struct WorkgroupTile<'k, 'f> {
    k: &'k Builder,
    epilogue: &'f dyn Formula,
    compute: Compute,
    /// x and w, and further operands of the epilogue.
    factors: [StridedMatrix<'k>; 2],
    extra: Vec<StridedMatrix<'k>>,
    y: Place,
    batches: Val<'k>,
    sizes: [Val<'k>; 2],
    /// Its batch, and its first row and column.
    batch: Val<'k>,
    corner: [Val<'k>; 2],
    /// The chunk that is all that it has: one that there is, and as it is counted.
    chunk: Option<Val<'k>>,
    asked: Option<Val<'k>>,
    /// Is there work for it at all?
    exists: Val<'k>,
}

impl<'k, 'f> WorkgroupTile<'k, 'f> {
    /// With tiles of so many rows and columns. `split_k`: behind the numbers of the head it is said
    /// how many chunks there are.
    fn read(
        k: &'k Builder,
        h: &GemmArgs<'k>,
        epilogue: &'f dyn Formula,
        dtype: DType,
        size: [u32; 2],
        split_k: bool,
    ) -> Self {
        let batches = h.batches;
        let (group, in_batch) = h.group();
        let asked = group / in_batch;
        let batch = if split_k { asked % batches } else { asked.min(batches - 1) };
        let corner = h.corner(group % in_batch, size);
        let (factors, extra) = (h.factors(batch), h.extra(batch));
        // Which chunk, and how many there are.
        let chunk = split_k.then(|| (asked / batches, h.args.get("chunks")));
        let exists = match chunk {
            Some((chunk, chunks)) => chunk.lt(chunks),
            None => asked.lt(batches),
        };
        let (y, sizes, compute) = (h.y, h.sizes, Compute::from(dtype));
        let of = chunk.map(|(c, chunks)| c.min(chunks - 1));
        let asked = chunk.map(|(c, _)| c);
        WorkgroupTile {
            k,
            epilogue,
            compute,
            factors,
            extra,
            y,
            batches,
            sizes,
            batch,
            corner,
            chunk: of,
            asked,
            exists,
        }
    }

    /// Stores what becomes of the sums of neighbours of row `i`: all of them are there, or none.
    fn store(&self, i: Val<'k>, some: &[Val<'k>], sums: &[Val<'k>]) {
        let (k, c, [m, n], j) = (self.k, self.compute, self.sizes, some[0]);
        let there = i.lt(m) & j.lt(n) & self.exists;
        k.if_(there, || {
            let sums: Vec<Val> = sums.iter().map(|s| s.to(c.scalar())).collect();
            let sum = k.join(&sums);
            if let Some(chunk) = self.asked {
                return k.store(self.y, ((chunk * self.batches + self.batch) * m + i) * n + j, sum);
            }
            let mut given = vec![sum];
            given.extend(self.extra.iter().map(|e| {
                let each: Vec<Val> = some.iter().map(|&j| k.load(e.place, e.at(i, j), 1)).collect();
                c.enter(k.join(&each))
            }));
            let result = self.epilogue.emit(k, c, &given).splat(some.len() as u8);
            k.store(self.y, (self.batch * m + i) * n + j, result);
        });
    }
}

impl<'k> SimtMainloop<'k, '_> {
    /// The sums of an invocation, row by row. `of`: of this chunk alone.
    fn sums(&self, of: Option<Val<'k>>) -> Vec<Val<'k>> {
        let SimtTile { depth, slots, .. } = self.config.tile;
        let none = self.micro.none();
        let chunks = ChunkLoop { terms: self.terms, multi_chunk: self.config.multi_chunk, of, before: None };
        if depth == 0 {
            return self.micro.chunks(&chunks, &none, &|start, end| self.plain(start, end, &none));
        }
        let places = self.micro.shared();
        let stages = [0, 1].map(|side| self.stage(side));
        if slots > 0 {
            return self.micro.multistage(stages, places, &chunks, &none);
        }
        self.micro.staged(&stages, places, &chunks, &none)
    }

    fn stage(&self, side: usize) -> TileLoader<'k> {
        let SimtConfig { ref base, tile, width, .. } = *self.config;
        TileLoader {
            k: self.k,
            side,
            index: self.index,
            invocations: tile.invocations(),
            size: tile.group[side] * tile.each[side],
            depth: tile.depth,
            k_major: base.k_major[side],
            // Of f64, two are 16 bytes.
            width: if tile.slots > 0 {
                (multistage_cp_async::COPY_BYTES / base.dtype.size() as u32) as u8
            } else {
                width[side]
            },
            from: self.factors[side],
            corner: self.corner[side],
            limit: self.sizes[side],
            padding: self.micro.padding(side),
        }
    }

    /// The terms `start..end` from device memory.
    fn plain(&self, start: Val<'k>, end: Val<'k>, none: &[Val<'k>]) -> Vec<Val<'k>> {
        let k = self.k;
        let places = |side: usize| -> Vec<Val<'k>> {
            // Rows and columns past the last one are the last one.
            let last = self.sizes[side];
            self.micro.places(side, self.corner[side]).iter().map(|i| i.min(last - 1)).collect()
        };
        let (rows, columns) = (places(0), places(1));
        k.for_(start, end, start.like(1), none, |t, sums| {
            let a: Vec<Val> = rows.iter().map(|&i| self.load(&self.factors[0], i, t)).collect();
            let b: Vec<Val> = columns.iter().map(|&j| self.load(&self.factors[1], t, j)).collect();
            self.micro.fma_chains(&a, &b, sums)
        })
    }

    fn load(&self, from: &StridedMatrix<'k>, i: Val<'k>, j: Val<'k>) -> Val<'k> {
        self.k.load(from.place, from.at(i, j), 1).to(self.micro.scalar())
    }
}
