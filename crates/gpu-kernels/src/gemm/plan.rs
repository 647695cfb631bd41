//! Plans of GEMM: which kernel and tile a product takes, and what the autotuner may try instead.
//! The one home of thresholds. No bit of an exact product depends on a plan; of a fast one
//! (`Precision::Fast`) the kernel depends on all but the number of rows, so that a row has the bits
//! that it has alone.
//!
//! Large tiles load fewer terms for each product, and leave compute units idle where there are few
//! of them: so most thresholds ask how many tiles there are for each unit. They were measured on an
//! H100.
//!
//! How it can be wrong: a tile that a device has no room for. Each is asked whether it fits.

use super::f64_tensor_core::F64MmaTile;
use super::in_block_split_k::InBlockSplitKTile;
use super::mma_sync::{MmaTile, WarpTiling};
use super::tma_wgmma::WgmmaTile;
use super::{GemmProblem, SimtTile, tma_transpose};
use crate::launch::{ComputeUnits, Machine, Plan};
use elinvar_core::{DType, Layout};
use split_k::{F64_MMA_GROUPS_PER_UNIT, SIMT_GROUPS_PER_UNIT, split_k_chunks};
use std::fmt;

pub(crate) mod split_k;
mod tiles;

/// Workgroups for each compute unit from which a large SIMT tile is worth while.
const LARGE_TILES_PER_UNIT: u32 = 1;
/// Exponent of the fewest products that are worth a choice: fewer are over before they are begun.
pub const MIN_PRODUCTS_LOG2: u32 = 18;
/// Exponents of the fewest terms, and of the fewest rows and columns, for which terms are staged in
/// shared memory: of fewer, most of a tile would be padding.
const MIN_STAGED_TERMS_LOG2: u32 = 5;
const MIN_STAGED_SIDE_LOG2: u32 = 5;
/// Exponent of the fewest rows and columns of a tile that has one chunk at a time: of fewer, half
/// of the tile would be beyond the ends.
const MIN_TILE_SIDE_LOG2: u32 = 6;

/// Products that have one best path: all sizes up to the next powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GemmCase {
    /// The dtype of operands and result.
    pub dtype: DType,
    /// Batch, m, n, k: exponents of the next powers of two.
    pub sizes: [u32; 4],
    /// Are neighbouring terms contiguous in x, and in w?
    pub k_major: [bool; 2],
}

impl GemmCase {
    /// That of a product `x[b, m, k] * w[b, k, n]`.
    pub fn of(dtype: DType, x: &Layout, w: &Layout) -> GemmCase {
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
    /// Is it too small for a choice to matter?
    pub fn is_small(&self) -> bool {
        self.sizes.iter().sum::<u32>() < MIN_PRODUCTS_LOG2
    }
}

/// How an exact product is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExactGemmPath {
    /// Cut so; chunks have launches or workgroups of their own, or follow one another.
    Simt(SimtTile),
    /// With the chunks of a tile side by side in a workgroup; its size and theirs is for
    /// [`InBlockSplitKTile::of`] to say.
    InBlockSplitK,
    /// By tensor cores that compute chains of fma.
    F64Mma(F64MmaTile),
}

impl ExactGemmPath {
    /// The one that is there on each device.
    pub const PLAIN: ExactGemmPath = ExactGemmPath::Simt(SimtTile::PLAIN);
    /// All of them, the plain one first.
    pub fn all() -> impl Iterator<Item = ExactGemmPath> {
        let simt = tiles::SIMT.into_iter().map(ExactGemmPath::Simt);
        simt.chain([ExactGemmPath::InBlockSplitK]).chain(F64MmaTile::ALL.map(ExactGemmPath::F64Mma))
    }
    /// The chunks of a product `[b, m, n, k]` that have launches or workgroups of their own.
    pub fn split_k(self, sizes: [usize; 4], dtype: DType, units: ComputeUnits) -> Option<usize> {
        let (size, per_unit) = match self {
            ExactGemmPath::Simt(t) => ([t.size(0), t.size(1)], SIMT_GROUPS_PER_UNIT),
            ExactGemmPath::F64Mma(t) => ([t.size(0), t.size(1)], F64_MMA_GROUPS_PER_UNIT),
            ExactGemmPath::InBlockSplitK => return None,
        };
        split_k_chunks(sizes, dtype, size, (units, per_unit))
    }
    /// Can the device do it? `f64_fma_chain`: its tensor cores compute chains of fma.
    fn fits(self, case: &GemmCase, machine: &Machine<'_>, f64_fma_chain: bool) -> bool {
        let limits = machine.limits;
        match self {
            ExactGemmPath::F64Mma(t) => f64_fma_chain && case.dtype == DType::F64 && t.fits(limits),
            ExactGemmPath::Simt(t) => {
                (t.slots == 0 || limits.cp_async)
                    && t.invocations() <= limits.invocations
                    && t.shared_elements() * case.dtype.compute().size() as u32 <= limits.shared
            }
            ExactGemmPath::InBlockSplitK => {
                InBlockSplitKTile::of(case.dtype, case.sizes_up(), limits).is_some()
            }
        }
    }
}

/// The plan of an exact product. `f64_fma_chain`: the device's tensor cores compute chains of fma.
pub fn exact(case: &GemmCase, machine: &Machine<'_>, f64_fma_chain: bool) -> Plan<ExactGemmPath> {
    let simt = |tile, why| Plan::new(ExactGemmPath::Simt(tile), why);
    if machine.is_software {
        return Plan::new(ExactGemmPath::PLAIN, "barriers are expensive");
    }
    if case.is_small() {
        return Plan::new(ExactGemmPath::PLAIN, "few products");
    }
    if case.sizes[3] < MIN_STAGED_TERMS_LOG2 {
        return Plan::new(ExactGemmPath::PLAIN, "too few terms to stage");
    }
    let (limits, dtype) = (machine.limits, case.dtype);
    let count = |t: &SimtTile| {
        let sums = case.sizes[..3].iter().sum::<u32>();
        (1u64 << sums) / (u64::from(t.size(0)) * u64::from(t.size(1)))
    };
    let fits = |t: &SimtTile| ExactGemmPath::Simt(*t).fits(case, machine, f64_fma_chain);
    let is_narrow = |log2| case.sizes[1..3].iter().any(|&s| s < log2);
    let few = is_narrow(MIN_TILE_SIDE_LOG2);
    let busy = limits.compute_units.filled_by(LARGE_TILES_PER_UNIT) as u64;
    if f64_fma_chain
        && !few
        && let Some(tile) = F64MmaTile::of(case.sizes_up(), limits)
    {
        return Plan::new(ExactGemmPath::F64Mma(tile), "tensor cores compute chains of fma");
    }
    // The largest tiles would leave compute units without work, and copies bring terms as they are.
    let largest = if dtype == DType::F64 { tiles::CP_ASYNC[1] } else { tiles::LARGE[2] };
    let idle = count(&largest) < busy && limits.cp_async && dtype.compute() == dtype;
    if (few || idle) && ExactGemmPath::InBlockSplitK.fits(case, machine, f64_fma_chain) {
        let why = if few { "few rows or columns" } else { "too few tiles for all compute units" };
        return Plan::new(ExactGemmPath::InBlockSplitK, why);
    }
    if is_narrow(MIN_STAGED_SIDE_LOG2) {
        return Plan::new(ExactGemmPath::PLAIN, "few rows or columns");
    }
    let mut large = if dtype == DType::F64 { tiles::CP_ASYNC } else { tiles::LARGE }.into_iter();
    match large.find(|t| count(t) >= busy && fits(t)) {
        Some(tile) => simt(tile, "large tiles keep all compute units busy"),
        None if fits(&SimtTile::SHARED) => simt(SimtTile::SHARED, "too few large tiles"),
        None => Plan::new(ExactGemmPath::PLAIN, "no room for a tile in shared memory"),
    }
}

/// What the autotuner may try for an exact product, the plain path first. All of them give the same
/// bits.
pub fn exact_candidates(case: &GemmCase, machine: &Machine<'_>, f64_fma_chain: bool) -> Vec<ExactGemmPath> {
    ExactGemmPath::all().filter(|path| path.fits(case, machine, f64_fma_chain)).collect()
}

/// How a product whose order is free is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastGemmPath {
    /// By TMA and wgmma, of operands that are transposed before if they have to be.
    Wgmma(WgmmaTile),
    /// By mma.sync or cooperative matrices.
    Mma(MmaTile),
}

/// What the autotuner may take for a product whose order is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastGemmCandidate {
    /// The planned path.
    Default,
    /// wgmma with this tile.
    Wgmma(WgmmaTile),
    /// mma.sync with a tile that is cut so.
    Mma(WarpTiling),
    /// The library of the device's vendor.
    VendorLibrary,
}

impl FastGemmCandidate {
    /// All of them.
    pub fn all() -> impl Iterator<Item = FastGemmCandidate> {
        [FastGemmCandidate::Default, FastGemmCandidate::VendorLibrary]
            .into_iter()
            .chain(WgmmaTile::ALL.into_iter().map(FastGemmCandidate::Wgmma))
            .chain(WarpTiling::all().map(FastGemmCandidate::Mma))
    }
}

/// Invocations of a subgroup of a device's tensor cores.
pub fn mma_lanes(machine: &Machine<'_>) -> u32 {
    machine.subgroup[1]
}

/// The plan of a product on tensor cores in any order of sums; `None` if the device has nothing
/// that is fast for it.
pub fn fast(p: &GemmProblem<'_, '_>, machine: &Machine<'_>) -> Option<Plan<FastGemmPath>> {
    let [b, m, n, _] = p.sizes();
    let (unit, limits) = (machine.mma_shape(p.dtype)?, machine.limits);
    let mma = MmaTile::of(unit, mma_lanes(machine), b, [m, n], limits)?;
    let wgmma = || WgmmaTile::of(b, [m, n], limits).filter(|_| tma_transpose::fits(p));
    Some(match machine.has_tma.then(wgmma).flatten() {
        Some(tile) => Plan::new(FastGemmPath::Wgmma(tile), "TMA can load both factors"),
        None if machine.has_tma => Plan::new(FastGemmPath::Mma(mma), "TMA cannot load the factors"),
        None => Plan::new(FastGemmPath::Mma(mma), "no TMA"),
    })
}

/// What the autotuner may try for a product whose order is free and whose plan is `path`, the plan
/// first. `is_plain`: nothing follows the product, so that a vendor's library can do it.
pub fn fast_candidates(
    p: &GemmProblem<'_, '_>,
    machine: &Machine<'_>,
    path: FastGemmPath,
    is_plain: bool,
) -> Vec<FastGemmCandidate> {
    let ([_, m, n, _], limits) = (p.sizes(), machine.limits);
    let mut all = vec![FastGemmCandidate::Default];
    if let FastGemmPath::Wgmma(chosen) = path {
        let others = |t: &WgmmaTile| *t != chosen && t.shared_bytes() <= limits.shared;
        all.extend(WgmmaTile::ALL.into_iter().filter(others).map(FastGemmCandidate::Wgmma));
    }
    if let Some(unit) = machine.mma_shape(p.dtype) {
        let tried = MmaTile::tried(unit, mma_lanes(machine), [m, n], limits).into_iter();
        let others = tried.filter(|(_, tile)| path != FastGemmPath::Mma(*tile));
        all.extend(others.map(|(cut, _)| FastGemmCandidate::Mma(cut)));
    }
    if is_plain {
        all.push(FastGemmCandidate::VendorLibrary);
    }
    all
}

impl fmt::Display for ExactGemmPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExactGemmPath::Simt(t) => write!(f, "simt {t}"),
            ExactGemmPath::InBlockSplitK => f.write_str("in-block split-k"),
            ExactGemmPath::F64Mma(F64MmaTile { subgroups: [a, b], each: [c, d], depth, slots }) => {
                write!(f, "f64 tensor cores {a}x{b} of {c}x{d}, depth {depth}, {slots} slots")
            }
        }
    }
}

impl fmt::Display for FastGemmPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FastGemmPath::Wgmma(t) => write!(f, "wgmma {}x{}", t.size(0), t.size(1)),
            FastGemmPath::Mma(t) => {
                let ([a, b], [c, d]) = (t.subgroups, t.each);
                write!(f, "mma {a}x{b} of {c}x{d}, depth {}, {} slots", t.depth, t.slots)
            }
        }
    }
}

/// As in the tuner's file.
impl fmt::Display for FastGemmCandidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FastGemmCandidate::Default => f.write_str("default"),
            FastGemmCandidate::Wgmma(t) => write!(f, "wgmma {}x{}", t.size(0), t.size(1)),
            FastGemmCandidate::Mma(cut) => write!(f, "mma {cut}"),
            FastGemmCandidate::VendorLibrary => f.write_str("vendor library"),
        }
    }
}

impl fmt::Display for SimtTile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([a, b], [c, d]) = (self.group, self.each);
        write!(f, "{a}x{b} of {c}x{d}, depth {}", self.depth)?;
        if self.slots > 0 { write!(f, ", {} slots", self.slots) } else { Ok(()) }
    }
}

impl fmt::Display for WarpTiling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WarpTiling { subgroups: [a, b], each: [c, d], deep, slots } = self;
        write!(f, "{a}x{b} of {c}x{d}, {deep} deep, {slots} slots")
    }
}
