//! GEMM by TMA and wgmma (Hopper tensor cores): `Precision::Fast`, f16, bf16, or f32 that TMA
//! rounds to TF32.
//!
//! A workgroup is one or two warpgroups, each with 64 rows and all columns of the tile. A K step is
//! 64 terms (32 of f32): one swizzled 128-byte block for each 64 rows, and one for each 64 columns.
//! Shared memory has a slot for each stage of a multistage pipeline of TMA loads. An iteration
//! * waits for its own step (mbarrier), and begins its products,
//! * waits for the products of the step before, so that the tensor cores are always busy,
//! * synchronises, and loads a later step into the slot that is free now.
//!
//! All invocations do the same: there is no producer warp. That costs something where a barrier
//! takes longer than the products, as a step of the smallest tile is 128 cycles of the tensor
//! cores.
//!
//! What reaches beyond m, n or k is zeros, which TMA fills in.

use super::GemmProblem;
use super::epilogue::{EpilogueStaging, GemmEpilogue};
use super::problem::{self, GemmArgs};
use crate::formula::{Compute, Formula};
use crate::launch::args;
use crate::launch::{Key, Work, grid};
use elinvar_core::Layout;
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{
    Builtin, Constant, Elem, FragmentLayout as Order, Kernel, MmaShape, Place, Role, Scalar, TILE_ROW_BYTES,
    TensorView, TmaTile, WARPGROUP, WGMMA_BLOCK, tensor_map_error, tile_row_elements,
};

/// Rows or columns of a block.
const TILE_SIDE: u32 = WGMMA_BLOCK;
/// Invocations of a subgroup.
const WARP_LANES: u32 = 32;
/// What sums are kept in.
const FRAGMENT: [u32; 2] = [16, 16];
/// Tiles of so many rows follow each other down, before the next column of tiles: what they read is
/// in the cache for each other.
const BAND_TILES: i64 = 8;
/// Numbers that say the layout of factors.
const FACTOR_ARGS: usize = 8;

/// How y is cut into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WgmmaTile {
    /// Groups of 128 invocations, each with 64 rows.
    pub groups: u32,
    /// Columns: a multiple of 64, up to 256.
    pub columns: u32,
    /// Steps that have room in shared memory at a time: at least 2.
    pub slots: u32,
}

impl WgmmaTile {
    /// Rows (side 0) or columns (side 1) of a workgroup.
    pub const fn size(self, side: usize) -> u32 {
        if side == 0 { self.groups * TILE_SIDE } else { self.columns }
    }
    const fn invocations(self) -> u32 {
        self.groups * WARPGROUP
    }
    /// Bytes of a slot, of a side.
    const fn slot(self, side: usize) -> u32 {
        self.size(side) * TILE_ROW_BYTES
    }
    /// How sums leave.
    fn epilogue_staging(self) -> EpilogueStaging {
        EpilogueStaging {
            subgroups: self.invocations() / WARP_LANES,
            lanes: WARP_LANES,
            fragment: FRAGMENT,
            each: [1, self.columns / FRAGMENT[1]],
            // Two of the smaller tiles have to fit.
            fragments_together: if self.columns > 128 { 2 } else { 1 },
        }
    }
    /// Bytes of shared memory: those of factors, of sums, of mbarriers.
    pub fn shared_bytes(self) -> u32 {
        self.slots * (self.slot(0) + self.slot(1)) + self.epilogue_staging().elements() * 4 + self.slots * 8
    }
}

/// The layout of a factor: are neighbouring terms contiguous, where does it begin, elements from
/// line to line and from plane to plane, and how many planes there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TmaFactorLayout {
    k_major: bool,
    args: [i64; 4],
}

impl TmaFactorLayout {
    /// Of a factor with these axes: rows or columns, and terms. `None` if TMA tiles of it cannot be
    /// fetched.
    fn of(elem: Elem, l: &Layout, [places, terms]: [usize; 2]) -> Option<TmaFactorLayout> {
        let (sizes, strides) = (l.shape(), l.strides());
        let ways = [true, false].into_iter().filter(|k_major| *k_major || TensorView::is_transposable(elem));
        ways.into_iter().find_map(|k_major| {
            let (inner, line) = if k_major { (terms, places) } else { (places, terms) };
            // A single plane may be anywhere; the same one for all batches is a single plane.
            let planes = if strides[0] == 0 { 1 } else { sizes[0] };
            let lines = strides[line] as i64;
            let plane = if planes == 1 { i64::from(TILE_SIDE) } else { strides[0] as i64 };
            let offset = l.offset() as i64;
            let args = [offset, sizes[inner] as i64, sizes[line] as i64, planes as i64, lines, plane];
            let side_by_side = strides[inner] == 1 && lines >= sizes[inner] as i64;
            (side_by_side && tensor_map_error(elem, args).is_none())
                .then_some(TmaFactorLayout { k_major, args: [offset, lines, plane, planes as i64] })
        })
    }
}

/// Can a product be done so? If it can, a row of it can be done so alone, if it is in x as it did
/// among others.
pub fn fits(p: &GemmProblem<'_, '_>) -> bool {
    let (args, elem) = (problem::BASE_ARGS + FACTOR_ARGS + 4 * p.extra.len(), Elem::from(p.dtype));
    TensorView::is_loadable(elem)
        && !p.is_wide(1)
        // Views are made of parameters.
        && !args::need_buffer(Scalar::I32, args)
        && TmaFactorLayout::of(elem, p.x, [1, 2]).is_some()
        && TmaFactorLayout::of(elem, p.w, [2, 1]).is_some()
}

/// What a kernel is built for: f16, bf16, or f32 that are rounded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WgmmaConfig {
    /// As of other products.
    pub base: problem::GemmBaseConfig,
    /// How y is cut into pieces.
    pub tile: WgmmaTile,
}

/// The work of a contraction: x, w, further operands of the epilogue, then the result. `None` if y
/// has no elements, or if it cannot be done so ([`fits`]).
pub fn contract<'a>(p: &GemmProblem<'a, '_>, tile: WgmmaTile) -> Option<Work<'a>> {
    if p.is_empty() || !fits(p) {
        return None;
    }
    let elem = Elem::from(p.dtype);
    let layouts = [TmaFactorLayout::of(elem, p.x, [1, 2])?, TmaFactorLayout::of(elem, p.w, [2, 1])?];
    let config = WgmmaConfig { base: p.config(layouts.map(|l| l.k_major), false, &|_| true), tile };
    let ([b, m, n, k], tiles) = (p.sizes(), p.tiles([tile.size(0), tile.size(1)]));
    let mut all: Vec<i64> = [b, m, n, k, tiles[0], tiles[1]].map(|v| v as i64).to_vec();
    all.extend(layouts.iter().flat_map(|l| l.args));
    for (l, _) in p.extra {
        all.push(l.offset() as i64);
        all.extend(l.strides().iter().map(|&s| s as i64));
    }
    let epilogue = p.epilogue;
    let key = epilogue.key(Key::of("gemm_wgmma").with(&config));
    let groups = grid((b * tiles[0] * tiles[1]) as u64);
    Some(args::work(key, move || build(epilogue, &config), groups, Scalar::I32, &all))
}

impl WgmmaConfig {
    fn name(&self, epilogue: &dyn Formula) -> String {
        let (k_major, operands) = (self.base.k_major_word(), self.base.operands_word(epilogue));
        let (WgmmaTile { slots, .. }, [m, n]) = (self.tile, [0, 1].map(|side| self.tile.size(side)));
        format!("gemm_wgmma_{operands}_{m}x{n}s{slots}_{k_major}_w{}", self.base.stores)
    }
}

/// A factor in a kernel.
#[derive(Clone, Copy)]
struct StagedOperand<'k> {
    view: u32,
    k_major: bool,
    /// Where its slots are, and elements of a slot.
    staged: Place,
    slot: u32,
    /// Its TMA tiles in a slot.
    tiles: u32,
    /// The workgroup's first row or column, and which plane.
    corner: Val<'k>,
    plane: Val<'k>,
}

/// What fetching and multiplying know.
struct WgmmaMainloop<'k> {
    k: &'k Builder,
    tile: WgmmaTile,
    sides: [StagedOperand<'k>; 2],
    /// Terms of a step.
    step: u32,
    /// Where steps end.
    padded_end: Val<'k>,
}

/// The kernel of a form.
pub fn build(epilogue: &dyn Formula, config: &WgmmaConfig) -> Kernel {
    let t = config.tile;
    let k = Builder::new(&config.name(epilogue), [t.invocations(), 1, 1]);
    k.subgroup(WARP_LANES);
    k.mbarriers(t.slots);
    let elem = Elem::from(config.base.dtype);
    let h = GemmArgs::read(&k, &config.base, elem, FACTOR_ARGS);
    let layouts = ["x", "w"]
        .map(|side| ["offset", "line", "plane", "planes"].map(|name| h.args.get(&format!("{side}_{name}"))));

    let (group, in_batch) = h.group();
    let asked = group / in_batch;
    let (batch, exists) = (asked.min(h.batches - 1), asked.lt(h.batches));
    let (tile, [tiles_m, tiles_n]) = (group % in_batch, h.tiles);
    let band = tiles_n * BAND_TILES;
    let top = tile / band * BAND_TILES;
    let (height, within) = ((tiles_m - top).min(tile.like(BAND_TILES)), tile % band);
    let corner = [(top + within % height) * i64::from(t.size(0)), within / height * i64::from(t.size(1))];

    let (sizes, terms) = (h.sizes, h.terms);
    let sides = [0, 1].map(|side| {
        let (k_major, [offset, line, plane, planes]) = (config.base.k_major[side], layouts[side]);
        let name = ["x", "w"][side];
        let (sizes, lines, tiles) = if k_major {
            ([terms, sizes[side], planes], t.size(side), 1)
        } else {
            ([sizes[side], terms, planes], TILE_SIDE, t.size(side) / TILE_SIDE)
        };
        StagedOperand {
            view: k.view(&format!("{name}_view"), h.places[side], lines, offset, sizes, [line, plane]),
            k_major,
            staged: k.shared(["rows", "columns"][side], elem, t.slots * t.slot(side) / elem.size()),
            slot: t.slot(side) / elem.size(),
            tiles,
            corner: corner[side],
            plane: batch.min(planes - 1),
        }
    });
    let step = tile_row_elements(elem);
    let padded_end = (terms + i64::from(step - 1)) / i64::from(step) * i64::from(step);
    let sums = WgmmaMainloop { k: &k, tile: t, sides, step, padded_end }.sums();

    let extra = h.extra(batch);
    let subgroup = k.builtin(Builtin::SubgroupId);
    let compute = Compute::from(config.base.dtype);
    let finish = GemmEpilogue { k: &k, epilogue, compute, extra: &extra, y: h.y, sizes, batch, exists };
    let firsts = [subgroup * i64::from(FRAGMENT[0]), subgroup.like(0)];
    t.epilogue_staging().store(&k, &finish, (corner, firsts), config.base.stores, &sums);
    k.finish()
}

impl<'k> WgmmaMainloop<'k> {
    /// Fetches the step that begins at a term to a slot, if there are terms.
    fn load_tiles(&self, first: Val<'k>, slot: Val<'k>) {
        let k = self.k;
        k.if_(first.lt(self.padded_end), || {
            let tiles = |s: &StagedOperand<'k>| -> Vec<TmaTile> {
                let base = slot * i64::from(s.slot);
                let one = |i: u32| {
                    let place = s.corner + i64::from(i * TILE_SIDE);
                    let from = if s.k_major { [first, place, s.plane] } else { [place, first, s.plane] };
                    k.tma_tile(s.staged, base + i64::from(i * TILE_SIDE * self.step), s.view, from)
                };
                (0..s.tiles).map(one).collect()
            };
            k.tma_load(slot, self.sides.iter().flat_map(tiles).collect());
        });
    }

    /// The sums of a subgroup, side by side.
    fn sums(&self) -> Vec<Val<'k>> {
        let (k, t) = (self.k, self.tile);
        let unit = MmaShape { elem: k.elem(self.sides[0].staged), shape: [16; 3] };
        let none = k.fragment_fill(unit.fragment(Role::C), k.constant(Constant::float(Scalar::F32, 0.0)));
        let begin = self.padded_end.like(0);
        for step in 0..t.slots - 1 {
            self.load_tiles(begin + i64::from(step * self.step), k.u32(step));
        }
        let mine = k.builtin(Builtin::LocalIndex) / i64::from(WARPGROUP);
        let mine = mine * i64::from(TILE_SIDE * self.step);
        let (zero, one, last) = (k.u32(0), k.u32(1), k.u32(t.slots - 1));
        let none = vec![none; (t.columns / FRAGMENT[1]) as usize];
        let carried = [&[zero, zero][..], &none].concat();
        let all =
            k.for_(begin, self.padded_end, begin.like(i64::from(self.step)), &carried, |first, carried| {
                let (slot, phase, sums) = (carried[0], carried[1], &carried[2..]);
                k.mbarrier_wait(slot, phase);
                let [x, w] = self.sides;
                let a = (
                    if x.k_major { Order::RowMajor } else { Order::ColumnMajor },
                    x.staged,
                    slot * i64::from(x.slot) + mine,
                );
                let b = (
                    if w.k_major { Order::ColumnMajor } else { Order::RowMajor },
                    w.staged,
                    slot * i64::from(w.slot),
                );
                let sums = k.wgmma_ss(a, b, sums);
                k.wgmma_wait(1);
                k.barrier();
                let before = slot.eq(zero).select(last, slot - 1);
                self.load_tiles(first + i64::from((t.slots - 1) * self.step), before);
                // The next round of slots is in the other phase.
                let wraps = slot.eq(last);
                let next = wraps.select(zero, slot + 1);
                let phase = wraps.select(one - phase, phase);
                [&[next, phase][..], &sums[..]].concat()
            });
        k.wgmma_wait(0);
        all[2..].to_vec()
    }
}
