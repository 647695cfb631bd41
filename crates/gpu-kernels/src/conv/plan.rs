//! Plan of a convolution: which kernel (direct, implicit GEMM in shared memory, tensor cores),
//! which tile, how terms are read, what the autotuner may try. The heuristics; no bit of exact work
//! depends on them.

use super::depthwise_grad_weight::GroupTiling;
use super::mma;
use super::offset_table::{TableSpan, most_taps};
use super::problem::{ConvPass, StagingConfig};
use super::{ConvProblem, FactorStrides, ImplicitGemm, SimtTile, TensorCores, WorkgroupLimits, product};
use crate::formula::Compute;
use crate::gemm::mma_sync::{MmaTile, WarpTiling};
use crate::gemm::plan::mma_lanes;
use crate::gemm::plan::split_k::worth_split_k;
use crate::launch::{Machine, Plan};
use crate::layout::indexing;
use crate::reduce::block_reduce;
use elinvar_core::{DType, Precision, order};
use elinvar_kernel::ir::Elem;
use elinvar_ops::backend::Conv;
use thresholds::*;

mod display;
pub(super) mod mma_tiles;
pub(super) mod thresholds;

/// How the work is given to invocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvPath {
    /// Each reads its terms by itself: for devices on which a barrier is expensive.
    Direct,
    /// As it suits the sizes, on a device that has so much.
    Auto(WorkgroupLimits),
    /// By tensor cores, in an order of sums that is not the definition's; as above where they gain
    /// nothing.
    TensorCore(TensorCores),
    /// With this tile, in one launch. What cannot be staged is read by each invocation for itself.
    ImplicitGemm(SimtTile),
}

/// A way to do a convolution, of those that a device has ([`super::candidates`]): for autotuning.
/// No bit depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvCandidate {
    /// The one that is taken without trying.
    Default,
    /// Each invocation reads its terms by itself.
    Direct,
    /// Terms are staged, for this tile.
    ImplicitGemm(SimtTile),
    /// By tensor cores, with a tile that is cut so.
    TensorCore(WarpTiling),
}

impl ConvCandidate {
    /// All that there are.
    pub fn all() -> impl Iterator<Item = ConvCandidate> {
        let tiles = TILES.iter().flat_map(|&(tile, _)| variants(tile));
        let cuts = std::iter::once(WIDE_TILING).chain(WarpTiling::all());
        [ConvCandidate::Default, ConvCandidate::Direct]
            .into_iter()
            .chain(tiles.map(ConvCandidate::ImplicitGemm))
            .chain(cuts.map(ConvCandidate::TensorCore))
    }
}

/// The kernel of a convolution or of a gradient of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvKernel {
    /// Tensor cores, in an order of sums that is not the definition's.
    TensorCore(MmaTile),
    /// One channel in a group: each tap is written out.
    Depthwise,
    /// The gradient by w of few filters in a group: a workgroup has a chunk of several groups.
    DepthwiseGradWeight(GroupTiling),
    /// The gradient by x of few channels: neighbours share the rows of g that they read.
    FewChannelGradInput,
    /// Direct, or implicit GEMM from shared memory if the tile has a depth.
    Tiled {
        /// Rows and columns of a workgroup.
        tile: SimtTile,
        /// Do chunks have workgroups of their own?
        split_k: bool,
    },
}

/// The path of convolutions of such numbers on a device.
pub fn path(c: &Conv, dtype: DType, machine: &Machine<'_>) -> ConvPath {
    let limits = machine.limits;
    if c.precision == Precision::Fast
        && let Some(unit) = machine.mma_shape(dtype)
    {
        return ConvPath::TensorCore(TensorCores { unit, lanes: mma_lanes(machine), limits });
    }
    if machine.is_software { ConvPath::Direct } else { ConvPath::Auto(limits) }
}

/// The path whose candidates the autotuner may try: also on a device whose barriers are expensive,
/// staged ones.
pub fn tuned_path(path: ConvPath, machine: &Machine<'_>) -> ConvPath {
    if path == ConvPath::Direct { ConvPath::Auto(machine.limits) } else { path }
}

/// The plan of a convolution or of a gradient of one, on such a path.
pub fn kernel(a: &ConvProblem<'_, '_>, path: ConvPath) -> Plan<ConvKernel> {
    if let ConvPath::TensorCore(tensor_cores) = path
        && let Some(tile) = mma::tile(a, tensor_cores)
    {
        return Plan::new(ConvKernel::TensorCore(tile), "any order of sums will do");
    }
    ImplicitGemm::of(a).kernel(path)
}

/// Sizes and strides of parts of a number, the innermost last.
type SizesAndStrides = Vec<(usize, i64)>;

/// The elements that are evenly spaced along the innermost parts: how many, and from one to the
/// next; and the strides of the others.
fn run(digits: &SizesAndStrides) -> (usize, i64, Vec<i64>) {
    let mut all = digits.iter().rev().filter(|d| d.0 != 1).peekable();
    let Some(&(mut count, stride)) = all.next() else { return (1, 1, Vec::new()) };
    while let Some(&&(n, s)) = all.peek() {
        if s != stride * count as i64 {
            break;
        }
        count *= n;
        all.next();
    }
    (count, stride, all.map(|d| d.1).collect())
}

/// A factor as it is read: lines (rows or columns), terms, and where all of it begins.
struct OperandAccess {
    lines: SizesAndStrides,
    terms: SizesAndStrides,
    begin: Vec<i64>,
}

impl OperandAccess {
    /// How many neighbours can be read at once, along terms or along lines; lines of a tile have
    /// `line` of them.
    fn width(&self, k_major: bool, line: u32, most: u8) -> u8 {
        let (inner, outer) = if k_major { (&self.terms, &self.lines) } else { (&self.lines, &self.terms) };
        let (count, stride, others) = run(inner);
        let mut all = others.into_iter().chain(outer.iter().filter(|d| d.0 != 1).map(|d| d.1));
        let strides: Vec<i64> = all.by_ref().chain(self.begin.iter().copied()).collect();
        let fits = |w: u8| {
            let w = usize::from(w);
            stride == 1
                && (line as usize).is_multiple_of(w)
                && count.is_multiple_of(w)
                && strides.iter().all(|s| s.unsigned_abs().is_multiple_of(w as u64))
        };
        [4, 2].into_iter().find(|&w| w <= most && fits(w)).unwrap_or(1)
    }
    /// Whether to read along terms, and how many at once.
    fn direction(&self, tile: SimtTile, side: usize, most: u8, vectors: bool) -> (bool, u8) {
        let most = if vectors { most } else { 1 };
        let across = self.width(false, tile.size(side), most);
        let k_major = self.width(true, tile.depth, most);
        let [lines, terms] = [&self.lines, &self.terms].map(|d| run(d).1.unsigned_abs());
        let along_is_better = if k_major == across { lines != 1 && terms < lines } else { k_major > across };
        if along_is_better { (true, k_major) } else { (false, across) }
    }
}

impl ImplicitGemm {
    /// The outer part, and the axes; or the axes first.
    fn digits(
        outer: (usize, isize),
        axes: impl Iterator<Item = (usize, i64)>,
        last: bool,
    ) -> SizesAndStrides {
        let outer = (outer.0, outer.1 as i64);
        if last { axes.chain([outer]).collect() } else { std::iter::once(outer).chain(axes).collect() }
    }
    fn terms_last(&self) -> bool {
        self.channels_last && self.of != ConvPass::GradWeight
    }
    fn axes<'a>(&'a self, f: &'a FactorStrides) -> impl Iterator<Item = (usize, i64)> + 'a {
        f.strides[3..].iter().map(|&s| s as i64).enumerate()
    }
    fn left_side(&self) -> OperandAccess {
        let s = &self.left.strides;
        let terms = self.axes(&self.left).map(|(a, s)| (self.terms[a + 1], s));
        OperandAccess {
            lines: vec![(self.rows, s[1] as i64)],
            terms: ImplicitGemm::digits((self.terms[0], s[2]), terms, self.terms_last()),
            begin: vec![self.left.offset as i64, if self.groups > 1 { s[0] as i64 } else { 0 }],
        }
    }
    fn right_side(&self) -> OperandAccess {
        let s = &self.right.strides;
        let lines = self.axes(&self.right).map(|(a, s)| (self.columns[a + 1], s * self.windows[a][0]));
        let terms = self.axes(&self.right).map(|(a, s)| (self.terms[a + 1], s * self.windows[a][2]));
        let from = self.axes(&self.right).map(|(a, s)| s * self.windows[a][1]).sum();
        OperandAccess {
            lines: ImplicitGemm::digits(
                (self.columns[0], s[1]),
                lines,
                self.channels_last && !self.terms_last(),
            ),
            terms: ImplicitGemm::digits((self.terms[0], s[2]), terms, self.terms_last()),
            begin: vec![self.right.offset as i64, from, if self.groups > 1 { s[0] as i64 } else { 0 }],
        }
    }
    /// From term to term of the left factor, if all of its terms are evenly spaced.
    pub(super) fn left_step(&self) -> Option<i64> {
        let (_, step, others) = run(&self.left_side().terms);
        (self.class_count() == 1 && others.is_empty()).then_some(step)
    }
    /// Taps of all axes together, whose places inside or outside are known bit by bit.
    fn taps(&self) -> usize {
        let taps = if self.of == ConvPass::GradWeight { &self.columns } else { &self.terms };
        if self.padded { taps[1..].iter().sum() } else { 0 }
    }
    pub(super) fn words(&self) -> Option<u8> {
        [1, 3].into_iter().find(|&words| self.taps() <= most_taps(words))
    }
    /// Columns of the result that are contiguous.
    pub(super) fn stored(&self) -> usize {
        let digits: SizesAndStrides =
            self.columns.iter().copied().zip(self.result[2..].iter().copied()).collect();
        let (count, stride, _) = run(&digits);
        let in_order = !self.channels_last || self.terms_last();
        if self.class_count() == 1 && stride == 1 && in_order { count } else { 1 }
    }

    /// A tile with its terms brought by copies, if they need no conversion.
    pub(super) fn with_cp_async(&self, tile: SimtTile) -> SimtTile {
        let whole = block_reduce::elem(Compute::from(self.dtype).scalar()) == Elem::from(self.dtype);
        SimtTile { slots: if whole { tile.slots } else { 0 }, ..tile }
    }

    /// How terms are staged for a tile; `None` if they cannot be, or are not.
    pub(super) fn staged(&self, tile: SimtTile) -> Option<StagingConfig> {
        if tile.depth == 0 || self.void || self.wide || indexing::are_many(self.len) {
            return None;
        }
        let tile = self.with_cp_async(tile);
        // A copy of f64 brings two.
        let most = if tile.slots > 0 { (16 / self.dtype.size()) as u8 } else { 4 };
        let matrix = self.left_step().is_some();
        let one_class = self.class_count() == 1;
        let left = self.left_side().direction(tile, 0, most, one_class);
        let right = self.right_side().direction(tile, 1, most, one_class && !self.padded);
        let k_major = [left.0, right.0];
        let stores = [4, 2].into_iter().find(|&p| {
            tile.neighbours(1, k_major[1]).is_multiple_of(u32::from(p))
                && self.stored().is_multiple_of(usize::from(p))
        });
        Some(StagingConfig {
            k_major,
            width: [left.1, right.1],
            matrix,
            words: self.words()?,
            // Of a class there are terms for each of the outer part.
            whole: self.terms[0].is_multiple_of(tile.depth as usize)
                || one_class && product(&self.terms).is_multiple_of(tile.depth as usize),
            stores: stores.unwrap_or(1),
        })
    }

    /// Bytes of shared memory that a tile takes.
    fn shared_bytes(&self, tile: SimtTile, words: u8) -> u32 {
        let tile = self.with_cp_async(tile);
        let chunks = if tile.slots > 0 && self.chunks() > 1 { 2 } else { 1 };
        tile.shared_elements() * self.dtype.compute().size() as u32
            + 4 * TableSpan::chunks(chunks).elements(words, self.left_step().is_some())
    }

    /// Which kernel does it, without tensor cores.
    pub(super) fn kernel(&self, how: ConvPath) -> Plan<ConvKernel> {
        let exactly = matches!(how, ConvPath::ImplicitGemm(_));
        if self.is_depthwise() && !exactly {
            return Plan::new(ConvKernel::Depthwise, "one channel in a group");
        }
        if let ConvPath::Auto(limits) | ConvPath::TensorCore(TensorCores { limits, .. }) = how {
            if let Some(cut) = self.depthwise_grad_weight_tiling(limits) {
                return Plan::new(ConvKernel::DepthwiseGradWeight(cut), "few filters in a group");
            }
            if self.is_few_channels() {
                return Plan::new(ConvKernel::FewChannelGradInput, "few channels");
            }
        }
        let tile = self.tile(how);
        let why = match how {
            ConvPath::Direct => "barriers are expensive",
            ConvPath::ImplicitGemm(_) => "this tile was asked for",
            ConvPath::Auto(_) | ConvPath::TensorCore(_) if tile.depth > 0 => "terms are shared in a tile",
            ConvPath::Auto(_) | ConvPath::TensorCore(_) => "too few rows or products to share terms",
        };
        Plan::new(ConvKernel::Tiled { tile, split_k: self.worth_split_k(tile) && !exactly }, why)
    }

    /// Do chunks have workgroups of their own? With strides, those of the gradient by x are not the
    /// same for all positions. Without split-K, deep layers of small planes leave too few
    /// workgroups, with several chunks each.
    pub(super) fn worth_split_k(&self, tile: SimtTile) -> bool {
        let per_unit = if tile.depth > 0 { STAGED_GROUPS_PER_UNIT } else { GROUPS_PER_UNIT };
        let busy = self.compute_units.filled_by(per_unit);
        self.class_count() == 1 && worth_split_k(self.workgroups(tile), busy, self.chunks(), self.len)
    }
    pub(super) fn tile(&self, how: ConvPath) -> SimtTile {
        match how {
            ConvPath::Direct => self.plain_tile(),
            ConvPath::ImplicitGemm(tile) => tile,
            ConvPath::Auto(limits) | ConvPath::TensorCore(TensorCores { limits, .. }) => {
                self.staged_tile(limits).unwrap_or_else(|| self.plain_tile())
            }
        }
    }

    /// The tile that is good for most, of those that a device has room for; `None` if staging does
    /// not pay.
    fn staged_tile(&self, limits: WorkgroupLimits) -> Option<SimtTile> {
        let words = self.words()?;
        let sizes = [self.rows, product(&self.columns)];
        let products = self.len.saturating_mul(product(&self.terms)) / self.class_count();
        if self.rows < MIN_ROWS || products < MIN_PRODUCTS {
            return None;
        }
        let full = self.compute_units.filled_by(THREADS_PER_UNIT) as f64;
        let goodness = |&(tile, peak): &(SimtTile, f64)| {
            let used = |side: usize| {
                let size = tile.size(side) as usize;
                sizes[side] as f64 / sizes[side].next_multiple_of(size) as f64
            };
            // As many as chunks that are whole: where the last one has few terms, its workgroups
            // are soon done.
            let chunks = product(&self.terms) as f64 / order::CHUNK as f64;
            let (split_k, joined) =
                if self.worth_split_k(tile) { (chunks, SPLIT_K_EFFICIENCY) } else { (1.0, 1.0) };
            let busy = self.workgroups(tile) as f64 * split_k * f64::from(tile.invocations());
            peak * used(0) * used(1) * (busy / full).min(1.0) * joined
        };
        let all = TILES.iter().map(|&(tile, peak)| {
            let slots = if limits.cp_async && self.gains_by_copies(tile) { tile.slots } else { 0 };
            let peak = if tile == LARGEST_TILES[0] && self.of != ConvPass::GradWeight {
                HALF_TILE_GAIN
            } else {
                peak
            };
            // Of gradients by w, whose terms are positions, 16 at a time are faster than eight.
            let depth =
                if self.of == ConvPass::GradWeight && slots == 0 { 2 * tile.depth } else { tile.depth };
            (self.with_cp_async(SimtTile { slots, depth, ..tile }), peak)
        });
        let best = all
            .filter(|(tile, _)| self.of == ConvPass::Forward || tile.group != FORWARD_TILE.group)
            .filter(|(tile, _)| self.fits(*tile, limits, words))
            .max_by(|a, b| goodness(a).total_cmp(&goodness(b)));
        best.map(|(tile, _)| tile).filter(|&tile| self.staged(tile).is_some())
    }

    /// Are copies faster than registers for what is on its way? Copies of windows bring one number
    /// each. On an H100 gradients of 64 to 512 channels took 1.4 to 2 times as long with them, and
    /// forwards the larger workgroups 1.1 times; the smaller 0.9, but of one chunk (three channels
    /// by 7 x 7) 1.3.
    fn gains_by_copies(&self, tile: SimtTile) -> bool {
        self.dtype == DType::F64
            || (self.of == ConvPass::Forward && tile == LARGEST_TILES[1] && self.chunks() > 1)
    }

    fn fits(&self, tile: SimtTile, limits: WorkgroupLimits, words: u8) -> bool {
        // Sums of f64 take two registers each; and what is on its way through registers takes some,
        // too.
        let most = match (self.dtype, tile.slots) {
            (DType::F64, 0) => 8,
            (DType::F64, _) => 16,
            _ => 64,
        };
        tile.each[0] * tile.each[1] <= most
            && tile.invocations() <= limits.invocations
            && self.shared_bytes(tile, words) <= limits.shared
    }

    /// See [`super::candidates`]: those without tensor cores.
    pub(super) fn candidates(&self, how: ConvPath) -> Vec<ConvCandidate> {
        let (ConvPath::Auto(limits) | ConvPath::TensorCore(TensorCores { limits, .. })) = how else {
            return vec![ConvCandidate::Default];
        };
        // Planes are always the best that there is, and so is what is made for few rows.
        if self.is_depthwise()
            || self.depthwise_grad_weight_tiling(limits).is_some()
            || self.is_few_channels()
            || self.len == 0
        {
            return vec![ConvCandidate::Default];
        }
        let chosen = self.staged_tile(limits);
        let mut all = vec![ConvCandidate::Default];
        all.extend(chosen.map(|_| ConvCandidate::Direct));
        let Some(words) = self.words() else { return all };
        let sizes = [self.rows, product(&self.columns)];
        let is_way = |tile: &SimtTile| {
            // Not mostly beyond the ends of the result; with copies where the device and the type
            // have such.
            (0..2).all(|side| tile.size(side) as usize <= sizes[side].next_multiple_of(32))
                && (tile.slots == 0 || limits.cp_async && self.with_cp_async(*tile).slots > 0)
                && Some(*tile) != chosen
                && self.fits(*tile, limits, words)
                && self.staged(*tile).is_some()
        };
        let tiles = TILES.iter().flat_map(|&(tile, _)| variants(tile));
        all.extend(tiles.filter(is_way).map(ConvCandidate::ImplicitGemm));
        all
    }

    /// A tile without staging that fits: neighbours along columns, which are contiguous in memory.
    pub(super) fn plain_tile(&self) -> SimtTile {
        let tile = |each: u32| {
            let across = self.rows.div_ceil(each as usize).next_power_of_two().min(4) as u32;
            SimtTile { group: [across, 64 / across], each: [each, 4], depth: 0, slots: 0 }
        };
        // Eight rows share what it takes to find their columns' elements, where enough workgroups
        // are left.
        let large = tile(8);
        if self.rows >= 32
            && self.tiles(large).iter().product::<usize>() * self.groups
                >= self.compute_units.filled_by(TALL_GROUPS_PER_UNIT)
        {
            return large;
        }
        tile(if self.rows >= 4 { 4 } else { self.rows.max(1) as u32 })
    }

    pub(super) fn chunks(&self) -> usize {
        product(&self.terms).div_ceil(order::CHUNK)
    }
}
