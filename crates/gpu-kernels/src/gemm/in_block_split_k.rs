//! In-block split-K: GEMM of few tiles, in which a workgroup computes the K chunks of its tile in
//! parallel and adds their sums from first to last.
//!
//! With few rows there are few chains, and memory is read only as fast as terms are asked for. So
//! all chunks run at once, each with invocations of its own, in tiles small enough that there is
//! one per compute unit. Staging is as in the other shared-memory kernels, with the rows of several
//! chunks: all of the first, then all of the next.
//!
//! An iteration has the same terms of all chunks. A chunk that is shorter than the others goes on
//! with padding; one without any term has no sum, and is not added. More chunks than a workgroup
//! has at a time follow in further rounds.

use super::multistage_cp_async::{self, CpAsyncPipeline};
use super::problem::{self, GemmArgs};
use super::smem_load::{self, ElementLocation, ElementRequest, TileLoader, TileSource};
use super::split_k_reduce;
use super::thread_tile::ThreadTile;
use super::{GemmProblem, StridedMatrix, k_major};
use crate::formula::{Compute, Formula};
use crate::launch::sequence::{BufferSlot, BufferSpec, LaunchSequence};
use crate::launch::{Key, Work, WorkgroupLimits, args, grid};
use crate::layout::indexing;
use elinvar_core::order;
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Builtin, Kernel, Place};

/// Invocations that bring terms of a chunk, at least: those without a sum of their own do what
/// others do.
const MIN_CHUNK_THREADS: u32 = 32;
/// Bytes of a line of terms of a step.
pub(super) const LINE_BYTES: u32 = 128;

/// How y is cut into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InBlockSplitKTile {
    /// Those of a chunk.
    pub part: super::SimtTile,
    /// Chunks in parallel.
    pub chunks: u32,
}

impl InBlockSplitKTile {
    pub(super) fn invocations(self) -> u32 {
        self.chunks * self.lanes()
    }
    /// Invocations of a chunk.
    fn lanes(self) -> u32 {
        self.part.invocations().max(MIN_CHUNK_THREADS)
    }
    /// Numbers that the chunks hand over.
    pub(super) fn sums(self) -> u32 {
        self.chunks * self.part.size(0) * self.part.size(1)
    }
    /// Bytes of a slot, at most: lines of terms.
    pub(super) fn slot_bytes(self) -> u32 {
        self.chunks * (self.part.size(0) + self.part.size(1)) * (LINE_BYTES + multistage_cp_async::COPY_BYTES)
    }
    /// Lines, or their elements, of a side.
    fn lines(self, side: usize) -> u32 {
        self.chunks * self.part.size(side)
    }
}

/// What a kernel is built for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct InBlockSplitKConfig {
    base: problem::GemmBaseConfig,
    tile: InBlockSplitKTile,
    /// Elements of x, and of w, that are read at once.
    width: [u8; 2],
    /// May there be several rounds of chunks?
    multi_chunk: bool,
}

impl InBlockSplitKConfig {
    fn name(&self, epilogue: &dyn Formula) -> String {
        let super::SimtTile { group: [a, b], each: [c, d], depth, slots } = self.tile.part;
        let (k_major, operands) = (self.base.k_major_word(), self.base.operands_word(epilogue));
        let ([vx, vw], chunks) = (self.width, self.tile.chunks);
        let slots = if slots > 0 { format!("s{slots}") } else { String::new() };
        let multi_chunk = if self.multi_chunk { "_multi_chunk" } else { "" };
        let wide = if self.base.wide { "_wide" } else { "" };
        format!(
            "gemm_in_block_split_k_{operands}_{chunks}of{a}x{b}of{c}x{d}d{depth}{slots}_{k_major}_v{vx}{vw}{multi_chunk}{wide}"
        )
    }
}

/// The work of a contraction, with the tile that is made for its size; `None` if there is none
/// ([`InBlockSplitKTile::of`]). Operands and result are those of [`super::steps`].
pub fn steps<'a>(p: &GemmProblem<'a, '_>, limits: WorkgroupLimits) -> Option<LaunchSequence<'a>> {
    let tile = InBlockSplitKTile::of(p.dtype, p.sizes(), limits)?;
    let mut all = LaunchSequence {
        results: vec![BufferSpec::of(p.dtype.into(), p.len())],
        ..LaunchSequence::default()
    };
    if let Some(work) = contract(p, tile) {
        let operands = (0..2 + p.extra.len()).map(BufferSlot::Operand);
        all.push(work, &operands.chain([BufferSlot::Result(0)]).collect::<Vec<_>>());
    }
    Some(all)
}

/// The work of a contraction of floats in one launch: x, w, further operands of the epilogue, then
/// the result. `None` if y has no elements.
pub fn contract<'a>(p: &GemmProblem<'a, '_>, tile: InBlockSplitKTile) -> Option<Work<'a>> {
    if p.is_empty() {
        return None;
    }
    let (k_major, wide) = (k_major(p), p.is_wide(1));
    let piece = multistage_cp_async::COPY_BYTES / split_k_reduce::elem(p.dtype).size();
    let part = tile.part.for_layouts(p.dtype, [p.x, p.w], k_major);
    let width = [0, 1].map(|side| part.vector(side, [p.x, p.w][side], k_major[side]).min(piece as u8));
    let tile = InBlockSplitKTile { part, ..tile };
    let multi_chunk = p.sizes()[3] > order::CHUNK * tile.chunks as usize;
    let config = InBlockSplitKConfig { base: p.config(k_major, wide, &|_| false), tile, width, multi_chunk };
    let (all, tiles) = p.args([part.size(0), part.size(1)]);
    let epilogue = p.epilogue;
    let key = epilogue.key(Key::of("gemm_in_block_split_k").with(&config));
    Some(args::work(key, move || build(epilogue, &config), grid(tiles as u64), indexing::scalar(wide), &all))
}

/// A factor of which lines of several chunks are asked for: the terms of the first one of a round
/// stand for those of all.
#[derive(Clone, Copy)]
struct InterleavedChunks<'k> {
    matrix: StridedMatrix<'k>,
    tile: InBlockSplitKTile,
    multi_chunk: bool,
}

impl<'k> TileSource<'k> for InterleavedChunks<'k> {
    fn place(&self) -> Place {
        self.matrix.place
    }
    fn find(&self, stage: &TileLoader<'k, Self>, of: ElementRequest<'k>) -> ElementLocation<'k> {
        let (number, size) = (stage.limit.scalar(), self.tile.part.size(stage.side));
        let length = order::CHUNK as i64;
        let (mut place, mut term) = (of.place, of.term);
        if self.multi_chunk {
            // Each round has as many chunks.
            term = term + (of.term & of.term.like(-length)) * i64::from(self.tile.chunks - 1);
        }
        if self.tile.chunks > 1 {
            let [part, of_part] = split(place, size);
            term = term + part.to(number) * length;
            place = of_part;
        }
        let i = stage.corner + place.to(number);
        ElementLocation {
            at: if stage.side == 0 { self.matrix.at(i, term) } else { self.matrix.at(term, i) },
            of_side: Some(i.lt(stage.limit)),
            of_terms: Some(term.lt(of.end)),
        }
    }
}

/// Which of the parts of so many, and which of a part.
fn split(v: Val<'_>, by: u32) -> [Val<'_>; 2] {
    [v / i64::from(by), v % i64::from(by)]
}

/// What all parts of a kernel know.
struct InBlockSplitKMainloop<'k, 'f> {
    k: &'k Builder,
    config: &'f InBlockSplitKConfig,
    /// Of the invocation, in its chunk.
    micro: ThreadTile<'k>,
    /// Which of the chunks in parallel, and which invocation of its.
    part: Val<'k>,
    within: Val<'k>,
    index: Val<'k>,
    terms: Val<'k>,
    /// Terms at a time, between shared memory and the chains.
    piece: u32,
    /// Terms in shared memory, and the sums of chunks.
    staged: [Place; 2],
    sums: Place,
}

fn build(epilogue: &dyn Formula, config: &InBlockSplitKConfig) -> Kernel {
    let (t, dtype, k_major) = (config.tile, config.base.dtype, config.base.k_major);
    let k = Builder::new(&config.name(epilogue), [t.invocations(), 1, 1]);
    let h = GemmArgs::read(&k, &config.base, dtype.into(), 4 * 2);
    let (group, in_batch) = h.group();
    let asked = group / in_batch;
    let (batch, exists) = (asked.min(h.batches - 1), asked.lt(h.batches));
    let size = [t.part.size(0), t.part.size(1)];
    let corner = h.corner(group % in_batch, size);
    let (factors, extra) = (h.factors(batch), h.extra(batch));

    let index = k.builtin(Builtin::LocalIndex);
    let [part, within] = split(index, t.lanes());
    let mine = if t.lanes() > t.part.invocations() { split(within, t.part.invocations())[1] } else { within };
    // What comes by registers is as copies bring it, and is read in the same way.
    let read = super::SimtTile { slots: t.part.slots.max(1), ..t.part };
    let micro = ThreadTile { k: &k, dtype, tile: read, k_major, index: mine };
    let smem_elem = split_k_reduce::elem(dtype);
    let piece = multistage_cp_async::COPY_BYTES / smem_elem.size();
    let staged = [(0, "rows"), (1, "columns")].map(|(side, name)| {
        let slot = multistage_cp_async::slot_elements(
            k_major[side],
            t.lines(side),
            t.part.depth,
            pitch(config, piece, side),
        );
        k.shared(name, smem_elem, t.part.slots.max(1) * slot)
    });
    let sums = k.shared("sums", smem_elem, t.sums());
    let plan = InBlockSplitKMainloop {
        k: &k,
        config,
        micro,
        part,
        within,
        index,
        terms: h.terms,
        piece,
        staged,
        sums,
    };
    let stages = [0, 1].map(|side| TileLoader {
        k: &k,
        side,
        index,
        invocations: t.invocations(),
        size: t.lines(side),
        depth: t.part.depth,
        k_major: k_major[side],
        width: config.width[side],
        from: InterleavedChunks { matrix: factors[side], tile: t, multi_chunk: config.multi_chunk },
        corner: corner[side],
        limit: h.sizes[side],
        padding: micro.padding(side),
    });

    let c = Compute::from(dtype);
    let [m, n] = h.sizes;
    for (cell, total) in plan.cells().into_iter().zip(plan.totals(stages)) {
        let [row, column] = split(cell, size[1]);
        let (i, j) = (corner[0] + row.to(h.number), corner[1] + column.to(h.number));
        let there = cell.lt(k.u32(size[0] * size[1])) & i.lt(m) & j.lt(n) & exists;
        k.if_(there, || {
            let mut given = vec![total.to(c.scalar())];
            given.extend(extra.iter().map(|e| c.enter(k.load(e.place, e.at(i, j), 1))));
            k.store(h.y, (batch * m + i) * n + j, epilogue.emit(&k, c, &given));
        });
    }
    k.finish()
}

/// From line to line in shared memory. Lines of terms an odd number of 16 bytes apart are in
/// different banks.
fn pitch(config: &InBlockSplitKConfig, piece: u32, side: usize) -> u32 {
    if config.base.k_major[side] { config.tile.part.depth + piece } else { config.tile.lines(side) }
}

impl<'k> InBlockSplitKMainloop<'k, '_> {
    /// Which elements of the tile are the invocation's, once the chunks are joined; some may be
    /// behind the last one.
    fn cells(&self) -> Vec<Val<'k>> {
        let t = self.config.tile;
        let rounds = (t.sums() / t.chunks).div_ceil(t.invocations());
        (0..rounds).map(|r| self.index + i64::from(r * t.invocations())).collect()
    }

    /// The sums of all chunks, of the invocation's elements.
    fn totals(&self, stages: [TileLoader<'k, InterleavedChunks<'k>>; 2]) -> Vec<Val<'k>> {
        let (k, t, terms) = (self.k, self.config.tile, self.terms);
        let length = order::CHUNK as i64;
        let none = self.micro.none();
        let (begin, slot) = (terms.like(0), k.u32(0));
        // Terms of the first chunk of each round.
        let padded_end = if self.config.multi_chunk {
            let all = i64::from(t.chunks) * length;
            terms / all * length + (terms % all).min(terms.like(length))
        } else {
            terms.min(terms.like(length))
        };
        let pitches = [0, 1].map(|side| pitch(self.config, self.piece, side));
        let multistage = t.part.slots > 0;
        let flow = CpAsyncPipeline {
            stages,
            to: self.staged,
            pitch: pitches,
            slots: t.part.slots,
            end: terms,
            padded_end,
        };
        let round = |from: Val<'k>, to: Val<'k>, slot: Val<'k>| -> (Val<'k>, Vec<Val<'k>>) {
            if multistage {
                return flow.steps([from, to], slot, &none, &|_, bases, sums| self.step(bases, sums));
            }
            let put = |side: usize, loaded: &[Val<'k>]| {
                let (stage, pitch) = (&flow.stages[side], i64::from(pitches[side]));
                stage.store(loaded, &|place, term, v| {
                    let at = if stage.k_major { place * pitch + term } else { term * pitch + place };
                    k.store(self.staged[side], at, v);
                });
            };
            let compute = |sums: &[Val<'k>]| self.step([k.u32(0), k.u32(0)], sums);
            (slot, smem_load::steps(&flow.stages, [from, to], terms, &none, &put, &compute))
        };
        if multistage {
            flow.open(begin);
        }
        if !self.config.multi_chunk {
            let (_, sums) = round(begin, padded_end, slot);
            return self.join(begin, &sums, None);
        }
        let zero = none[0];
        let carried = [vec![slot], self.cells().iter().map(|_| zero).collect()].concat();
        let all = k.for_(begin, padded_end, begin.like(length), &carried, |first, carried| {
            let (slot, sums) = round(first, (first + length).min(padded_end), carried[0]);
            [vec![slot], self.join(first, &sums, Some(&carried[1..]))].concat()
        });
        all[1..].to_vec()
    }

    /// The totals after a round, of the invocation's elements: `sums` are its chunk's, of other
    /// elements.
    fn join(&self, first: Val<'k>, sums: &[Val<'k>], before: Option<&[Val<'k>]>) -> Vec<Val<'k>> {
        let (k, t) = (self.k, self.config.tile);
        let (rows, columns) = (t.part.size(0), t.part.size(1));
        let number = |side: usize| self.micro.places(side, k.u32(0));
        let hand_over = || {
            let mine = self.part * i64::from(rows * columns);
            let all = number(0).into_iter().flat_map(|i| number(1).into_iter().map(move |j| (i, j)));
            for ((i, j), &sum) in all.zip(sums) {
                k.store(self.sums, mine + i * i64::from(columns) + j, sum);
            }
        };
        if t.lanes() > t.part.invocations() {
            k.if_(self.within.lt(k.u32(t.part.invocations())), hand_over);
        } else {
            hand_over();
        }
        // The next round's sums come after barriers of its own.
        k.barrier();
        let is_first = first.eq(first.like(0));
        let last = k.u32(rows * columns - 1);
        let total = |(cell, at): (usize, Val<'k>)| {
            let at = if (rows * columns).is_multiple_of(t.invocations()) { at } else { at.min(last) };
            let of = |part: u32| k.load(self.sums, at + i64::from(part * rows * columns), 1);
            let sum = of(0);
            let start = before.map_or(sum, |before| is_first.select(sum, before[cell] + sum));
            (1..t.chunks).fold(start, |total, part| {
                let begins = first * i64::from(t.chunks) + i64::from(part) * order::CHUNK as i64;
                begins.lt(self.terms).select(total + of(part), total)
            })
        };
        self.cells().into_iter().enumerate().map(total).collect()
    }

    /// The sums with the terms of a step, which begin at `bases`.
    fn step(&self, bases: [Val<'k>; 2], sums: &[Val<'k>]) -> Vec<Val<'k>> {
        (0..self.config.tile.part.depth).step_by(self.piece as usize).fold(sums.to_vec(), |sums, t| {
            let [a, b] = [0, 1].map(|side| self.arrived(side, bases[side], t));
            a.iter().zip(&b).fold(sums, |sums, (a, b)| self.micro.fma_chains(a, b, &sums))
        })
    }

    /// Some terms from `t` on of the invocation's rows or columns: of each term, all of them.
    fn arrived(&self, side: usize, base: Val<'k>, t: u32) -> Vec<Vec<Val<'k>>> {
        let (k, tile, from) = (self.k, self.micro.tile, self.staged[side]);
        let (pitch, k_major) = (pitch(self.config, self.piece, side), self.config.base.k_major[side]);
        let line = self.part * i64::from(tile.size(side));
        let places = self.micro.places(side, line);
        if k_major {
            let lines: Vec<Val> = (places.iter())
                .map(|&i| k.load(from, base + i * i64::from(pitch) + i64::from(t), self.piece as u8))
                .collect();
            return (0..self.piece).map(|i| lines.iter().map(|v| v.extract(i as u8)).collect()).collect();
        }
        let p = tile.neighbours(side, k_major);
        let term = |t: u32| {
            let several = places.chunks(p as usize).flat_map(|some| {
                let v = k.load(from, base + some[0] + i64::from(t * pitch), p as u8);
                (0..p).map(move |i| if p == 1 { v } else { v.extract(i as u8) })
            });
            several.collect()
        };
        (t..t + self.piece).map(term).collect()
    }
}
