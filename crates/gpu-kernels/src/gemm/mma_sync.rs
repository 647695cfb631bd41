//! GEMM on tensor cores (mma.sync, cooperative matrices): `Precision::Fast`, f16, bf16 and rounded
//! f32 (TF32).
//!
//! Products are exact and are accumulated in f32. A workgroup stages a K step of its rows and
//! columns in shared memory; each subgroup multiplies fragments of them and keeps its accumulators
//! in fragments. How a unit adds is up to the device; the order around it is fixed: terms go
//! through the units from first to last, a whole fragment at a time, and a row's sums depend on no
//! other row. Padding beyond m, n or k is zeros.
//!
//! Terms come through registers while the step before is computed or, where operands are aligned to
//! 16 bytes, by cp.async in a multistage pipeline.

use super::epilogue::{EpilogueStaging, GemmEpilogue};
use super::fragments::Fragments;
use super::multistage_cp_async::{self, CpAsyncPipeline};
use super::problem::{self, GemmArgs};
use super::smem_load::{self, TileLoader};
use super::{GemmProblem, StridedMatrix};
use crate::formula::{Compute, Formula};
pub use crate::launch::WorkgroupLimits;
use crate::launch::args;
use crate::launch::{Key, Work, grid};
use crate::layout::indexing;
use elinvar_core::Layout;
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Builtin, Constant, Elem, Kernel, MmaShape, Scalar};

/// How y is cut into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MmaTile {
    /// What the device multiplies.
    pub unit: MmaShape,
    /// Invocations of a subgroup.
    pub lanes: u32,
    /// Subgroups of a workgroup along m and n.
    pub subgroups: [u32; 2],
    /// Fragments of a subgroup along m and n.
    pub each: [u32; 2],
    /// Terms that are brought into shared memory at a time: a multiple of the unit's.
    pub depth: u32,
    /// Steps of so many terms that have room in shared memory at a time, brought there by copies:
    /// at least 2. 0: through registers, as also where operands are not in pieces of 16 bytes.
    pub slots: u32,
}

/// How a tile is cut, whatever the unit: subgroups and fragments of each along m and n, fragments
/// along the terms of a step, slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WarpTiling {
    /// Subgroups of a workgroup along m and n.
    pub subgroups: [u32; 2],
    /// Fragments of a subgroup along m and n.
    pub each: [u32; 2],
    /// Fragments along the terms of a step.
    pub deep: u32,
    /// Steps that have room, where copies bring them.
    pub slots: u32,
}

/// Fragments along the terms of a step, at most; others are a divisor of it.
pub(super) const MAX_K_FRAGMENTS: u32 = 2;

impl MmaTile {
    /// Rows (side 0) or columns (side 1) of a workgroup.
    pub(crate) fn size(self, side: usize) -> u32 {
        self.subgroups[side] * self.each[side] * u32::from(self.unit.shape[side])
    }
    pub(crate) fn invocations(self) -> u32 {
        self.subgroups[0] * self.subgroups[1] * self.lanes
    }
    /// From line to line of what is staged. Lines of terms are loaded as matrices: an odd number of
    /// 16 bytes apart, eight are in different banks. So do lines of rows or columns of 16-bit
    /// numbers; f32 are loaded one by one from four such lines, for which it takes 32 bytes more
    /// than a multiple of all banks.
    pub(crate) fn pitch(self, inner: u32, k_major: bool) -> u32 {
        let more = if k_major { multistage_cp_async::COPY_BYTES / self.unit.elem.size() } else { 8 };
        inner + more
    }
    /// How sums leave.
    pub(crate) fn epilogue_staging(self) -> EpilogueStaging {
        EpilogueStaging {
            subgroups: self.subgroups[0] * self.subgroups[1],
            lanes: self.lanes,
            fragment: [0, 1].map(|side| u32::from(self.unit.shape[side])),
            each: self.each,
            fragments_together: if self.each[1].is_multiple_of(2) { 2 } else { 1 },
        }
    }
    pub(crate) fn shared_bytes(self) -> u32 {
        let staged = |side| {
            // For both layouts of lines.
            let k_major = self.size(side) * self.pitch(self.depth, true);
            k_major.max(self.depth * self.pitch(self.size(side), false))
                * self.unit.elem.size()
                * self.slots.max(1)
        };
        staged(0) + staged(1) + self.epilogue_staging().elements() * 4
    }
    /// What becomes of it for these operands: terms come by copies where both are in pieces of 16
    /// bytes.
    fn for_layouts(self, operands: [&Layout; 2], k_major: [bool; 2]) -> MmaTile {
        let piece = multistage_cp_async::COPY_BYTES / self.unit.elem.size();
        let fits = |side: usize| {
            let axis = if k_major[side] == (side == 0) { 2 } else { 1 };
            let line = if k_major[side] { self.depth } else { self.size(side) };
            line.is_multiple_of(piece) && indexing::in_pieces(operands[side], axis, piece as usize)
        };
        MmaTile { slots: if fits(0) && fits(1) { self.slots } else { 0 }, ..self }
    }
}

/// What a kernel is built for: f16, bf16 or f32.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MmaConfig {
    /// As of other products.
    pub base: problem::GemmBaseConfig,
    /// How y is cut into pieces.
    pub tile: MmaTile,
    /// Elements of x, and of w, that are read at once, in the direction in which they are read.
    pub width: [u8; 2],
}

/// The work of a contraction: x, w, further operands of the epilogue, then the result. `None` if y
/// has no elements.
pub fn contract<'a>(p: &GemmProblem<'a, '_>, tile: MmaTile) -> Option<Work<'a>> {
    if p.is_empty() {
        return None;
    }
    let (x, w) = (p.x, p.w);
    let k_major = [x.strides()[2] == 1, w.strides()[1] == 1];
    let (tile, wide) = (tile.for_layouts([x, w], k_major), p.is_wide(1));
    let width = [
        indexing::vector(x, if k_major[0] { 2 } else { 1 }),
        indexing::vector(w, if k_major[1] { 1 } else { 2 }),
    ];
    let config = MmaConfig { base: p.config(k_major, wide, &|_| true), tile, width };
    let (all, tiles) = p.args([tile.size(0), tile.size(1)]);
    let (groups, epilogue) = (grid(tiles as u64), p.epilogue);
    let (key, scalar) = (epilogue.key(Key::of("gemm_mma").with(&config)), indexing::scalar(wide));
    Some(args::work(key, move || build(epilogue, &config), groups, scalar, &all))
}

impl MmaConfig {
    fn name(&self, epilogue: &dyn Formula) -> String {
        let MmaTile { unit, lanes, subgroups: [a, b], each: [c, d], depth, slots } = self.tile;
        let [m, n, k] = unit.shape;
        let (k_major, operands) = (self.base.k_major_word(), self.base.operands_word(epilogue));
        let ([vx, vw], vy) = (self.width, self.base.stores);
        let slots = if slots > 0 { format!("s{slots}") } else { String::new() };
        let wide = if self.base.wide { "_wide" } else { "" };
        format!(
            "gemm_mma_{operands}_{m}x{n}x{k}_{lanes}of{a}x{b}of{c}x{d}d{depth}{slots}_{k_major}_w{vx}{vw}{vy}{wide}"
        )
    }
}

/// What all parts of a kernel know.
struct MmaMainloop<'k, 'f> {
    k: &'k Builder,
    config: &'f MmaConfig,
    /// Sizes of the result, by side, and how many terms.
    sizes: [Val<'k>; 2],
    terms: Val<'k>,
    /// x and w.
    factors: [StridedMatrix<'k>; 2],
    /// Where the terms of rows and columns are staged.
    staged: Fragments<'k>,
    /// The first row and column of the workgroup.
    corner: [Val<'k>; 2],
    /// Which invocation.
    index: Val<'k>,
}

/// The kernel of a form.
pub fn build(epilogue: &dyn Formula, config: &MmaConfig) -> Kernel {
    let t = config.tile;
    let k = Builder::new(&config.name(epilogue), [t.invocations(), 1, 1]);
    k.subgroup(t.lanes);
    let elem = Elem::from(config.base.dtype);
    let h = GemmArgs::read(&k, &config.base, elem, 4 * 2);
    let (group, in_batch) = h.group();
    let asked = group / in_batch;
    let (batch, exists) = (asked.min(h.batches - 1), asked.lt(h.batches));
    let corner = h.corner(group % in_batch, [t.size(0), t.size(1)]);
    let (factors, extra) = (h.factors(batch), h.extra(batch));
    let staged = Fragments::new(&k, t, elem, config.base.k_major);
    let index = k.builtin(Builtin::LocalIndex);
    let p = MmaMainloop { k: &k, config, sizes: h.sizes, terms: h.terms, factors, staged, corner, index };

    let sums = p.sums();
    let finish = GemmEpilogue {
        k: &k,
        epilogue,
        compute: Compute::from(config.base.dtype),
        extra: &extra,
        y: h.y,
        sizes: h.sizes,
        batch,
        exists,
    };
    t.epilogue_staging().store(&k, &finish, (corner, p.staged.firsts()), config.base.stores, &sums);
    k.finish()
}

impl<'k> MmaMainloop<'k, '_> {
    /// The sums of a subgroup: fragments, row by row.
    fn sums(&self) -> Vec<Val<'k>> {
        let (k, t) = (self.k, self.config.tile);
        let (none, firsts) = (self.staged.none(), self.staged.firsts());
        let stages = [0, 1].map(|side| TileLoader {
            k,
            side,
            index: self.index,
            invocations: t.invocations(),
            size: t.size(side),
            depth: t.depth,
            k_major: self.config.base.k_major[side],
            width: if t.slots > 0 {
                (multistage_cp_async::COPY_BYTES / t.unit.elem.size()) as u8
            } else {
                self.config.width[side]
            },
            from: self.factors[side],
            corner: self.corner[side],
            limit: self.sizes[side],
            padding: Constant::float(Scalar::F32, 0.0),
        });
        let compute =
            |_: Val<'k>, bases: [Val<'k>; 2], sums: &[Val<'k>]| self.staged.step(bases, firsts, sums);
        let begin = self.terms.like(0);
        // In all tiles as many products follow the last term, of zeros, which make a sum of -0
        // another.
        let most = i64::from(t.unit.shape[2]) * i64::from(MAX_K_FRAGMENTS);
        let padded_end = (self.terms + (most - 1)) / most * most;
        if t.slots > 0 {
            let pitch = [0, 1].map(|side| self.staged.pitch(side));
            let flow = CpAsyncPipeline {
                stages,
                to: self.staged.places,
                pitch,
                slots: t.slots,
                end: self.terms,
                padded_end,
            };
            flow.open(begin);
            return flow.steps([begin, padded_end], k.u32(0), &none, &compute).1;
        }
        // As it is in memory.
        let bring = |side: usize, loaded: &[Val<'k>]| {
            let pitch = i64::from(self.staged.pitch(side));
            stages[side].store(loaded, &|place, term, v| {
                let at =
                    if self.config.base.k_major[side] { place * pitch + term } else { term * pitch + place };
                k.store(self.staged.places[side], at, v);
            });
        };
        let zero = k.u32(0);
        smem_load::steps(&stages, [begin, padded_end], self.terms, &none, &bring, &|sums| {
            compute(zero, [zero; 2], sums)
        })
    }
}
