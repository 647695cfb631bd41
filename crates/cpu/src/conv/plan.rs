//! Which path a convolution or a gradient takes: functions of a problem and a machine alone, and
//! all thresholds.
//!
//! Three directions, one plan each. What multiplies weights by windows ([`WindowProduct`]) is
//! shared by the convolution and by its gradient by x, which is a convolution for each set of input
//! elements that meet the stride's grid through the same taps.
//!
//! Two things are not decided here, as they depend on numbers: a gradient most of whose elements
//! are zero takes the sparse path if a sample says so and all numbers allow it, and the border of
//! [`WindowProduct::ImplicitGemm`] is split only if the weights are finite. And how the products of
//! im2col are cut is the plan of `gemm`.
//!
//! How it can be wrong: by another path than before, which no test of results sees.
//! `tests/plans/conv.tsv` says which path each of several hundred problems takes.

mod display;
mod grads;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;

pub(super) use grads::{input_grad, weight_grad};

use super::border::BorderSplit;
use super::grad_sparse::{SparseInputGrad, SparseWeightGrad};
use super::pad::PaddedPlanes;
use super::problem::{ComputeType, ConvProblem, PatchGeometry};
use crate::conv::kernels::depthwise3x3::{DepthwiseWindows, TAPS_PER_AXIS};
use crate::conv::kernels::direct::{CHAINS_PER_UNIT, MAX_RESULTS_PER_POSITION};
use crate::gemm::{EVEN_TASKS_PER_THREAD, PARALLEL_MIN_FMAS, PackPlan, TermKind, tile_costs};
use crate::machine::Machine;

/// Windows up to which weights are worth being kept packed: for more, packing them each time is
/// little beside the product.
const PREPACK_MAX_WINDOWS: usize = 4096;

/// Output channels from which pairing the planes of bf16 is little beside multiplying them.
const PAIRING_MIN_OUTPUTS: usize = 8;

/// Elements of a depthwise convolution's piece of work: 256 KiB of f32.
const DEPTHWISE_TASK_ELEMENTS: usize = 1 << 16;

/// Output channels of a group, at most, for which the direct path makes several passes over a
/// padded band: packing patches, and tiles of so few rows, cost more.
const DIRECT_MAX_OUTPUTS: usize = 16;
/// Terms up to which the direct path is taken even where planes are the matrix and need no packing.
const DIRECT_MAX_IDENTITY_TERMS: usize = 16;
/// Elements of a padded row of all channels, at most: for more the memory is worth more than the
/// time.
const DIRECT_MAX_ROW_ELEMENTS: usize = 1 << 22;
/// Padded elements that are made at once, if a row takes no more: 256 KiB of f32, a part of a
/// second-level cache.
const DIRECT_BAND_ELEMENTS: usize = 1 << 16;
/// Results of a piece of work of the direct path.
const DIRECT_TASK_ELEMENTS: usize = 1 << 16;
/// Pieces of work for each thread, at least, where batches are cut: threads come out even.
const TASKS_PER_THREAD: usize = 4;

/// Terms from which the sums of an implicit GEMM are worth being turned at the end.
const IMPLICIT_GEMM_MIN_TERMS: usize = 256;
/// Rows of a register tile, at least: fewer leave sums without anything to hide their latency.
const IMPLICIT_GEMM_MIN_TILE_ROWS: usize = 6;
/// Rows of a register tile from which they are taller so than otherwise. With fewer, what is gained
/// is that no register of windows is of two rows.
const TALL_TILE_ROWS: usize = 12;
/// Rows of the highest tile.
const MAX_TILE_ROWS: usize = 14;
/// Padded elements of a task, and sums of a panel: 384 KiB of f32 each at most, so that both stay
/// in a core's second-level cache.
const IMPLICIT_GEMM_MAX_TASK_ELEMENTS: usize = 96 << 10;
/// Parts of an image, at most: with more, what is padded for each would be read too often.
const MAX_PARTS_PER_IMAGE: usize = 64;
/// Positions for each output channel from which planes are read in place. Windows at corners are
/// tiles of their own then, as nothing is above and below a plane: with fewer positions a copy with
/// padding takes less.
const IN_PLACE_MIN_POSITIONS_PER_OUTPUT: usize = 2;

/// Padded elements of a block of columns that a GEMM reads in place: 384 KiB of f32, where a core's
/// second-level cache holds a chunk of weights as well.
const IN_PLACE_MAX_PADDED_ELEMENTS: usize = 96 << 10;
/// Columns of such a block: the most that fit are taken.
const IN_PLACE_COLUMNS: [usize; 4] = [1024, 512, 256, 128];
/// Windows of a row from which taps are read in place: going to the next row is little beside them.
const TAPS_IN_PLACE_MIN_ROW: usize = 12;

/// Rows of the transposed gradient by w that a thread turns at once, at least: a cache line of what
/// it reads.
const TRANSPOSE_MIN_ROWS_PER_TASK: usize = 16;
/// Taps of a row from which a transpose of the row's sums takes less than writing each of them step
/// by step.
const NONOVERLAPPING_TRANSPOSE_MIN_TAPS: usize = 8;

/// Pairs of channels in a group up to which groups side by side take less than tiles.
const GROUPED_MAX_CHANNEL_PAIRS: usize = 4;
/// Groups from which on they do: a quarter of a register.
const GROUPED_MIN_GROUPS: usize = 4;
/// Padded elements of a plane of [`CHAINS_PER_UNIT`] groups, at most, that are worth the memory.
const GROUPED_MAX_PADDED_ELEMENTS: usize = 1 << 22;

/// Bytes of a padded plane of a register's channels, at most: its sums are in a second-level cache,
/// with those of the chunks before.
const SPARSE_MAX_PLANE_BYTES: usize = 96 << 10;
/// Padded elements of an image, at most, of which each thread has its own: more would be worth more
/// than the time.
const SPARSE_MAX_IMAGE_ELEMENTS: usize = 4 << 20;
/// Nonzero elements of a hundred of the gradient, at most, for which the sparse path of each
/// gradient is taken; the mechanism samples them. The gradient by w keeps its sums in registers,
/// and gains with more.
const SPARSE_INPUT_GRAD_MAX_NONZERO_PERCENT: usize = 30;
const SPARSE_WEIGHT_GRAD_MAX_NONZERO_PERCENT: usize = 40;

/// Elements of a task that pairs planes of bf16.
pub(super) const PAIRING_TASK_ELEMENTS: usize = 4096;
/// Channels of a task that transposes weights: what is read of them is together.
pub(super) const TRANSPOSE_WEIGHTS_TASK_CHANNELS: usize = 16;

/// How the convolution is computed.
pub(crate) struct ForwardPlan {
    pub(super) kind: TermKind,
    /// Windows over planes, or over pairs of planes.
    pub(super) patches: PatchGeometry,
    pub(super) weights: PrepackedWeights,
    pub(super) product: WindowProduct,
}

/// May weights be packed ahead?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PrepackedWeights {
    /// They are read in place.
    No,
    /// Panels are taken if there are any, and are not worth being made.
    IfKept,
    /// They are worth being made.
    Worth,
}

/// How weights [group, output, term] are multiplied by windows.
pub(super) enum WindowProduct {
    /// One channel in a group, 3 x 3 taps, one step apart: planes are read in place.
    Depthwise3x3 { windows: DepthwiseWindows, planes_per_task: usize },
    /// Few output channels: chains over padded bands.
    Direct(DirectPlan),
    /// Windows are rows, output channels columns: tiles read padded planes, or planes in place.
    ImplicitGemm(ImplicitGemmPlan),
    /// A GEMM whose right factor is the patches.
    Im2col(Im2colRead),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct DirectPlan {
    /// Output channels of a pass over a band; passes are alike.
    pub(super) outputs_per_pass: usize,
    /// Images and groups of a piece of work: they share what is zero around their planes.
    pub(super) batches_per_task: usize,
    /// Rows of positions, and positions of them, of a padded band.
    pub(super) band: [usize; 2],
}

pub(super) struct ImplicitGemmPlan {
    /// Whole rows of positions, unless windows are the planes' elements.
    pub(super) positions_per_task: usize,
    /// Is there enough work for several threads?
    pub(super) is_parallel: bool,
    /// Windows that see padding apart from those that do not, if that takes less; for weights that
    /// are finite.
    pub(super) border: Option<BorderSplit>,
    /// With a border split: are planes read in place, without a padded copy?
    pub(super) reads_in_place: bool,
}

/// How a GEMM reads the patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Im2colRead {
    /// Planes are the matrix.
    Planes,
    /// In padded planes, so many columns at a time.
    InPlace { columns: usize },
    /// Tile by tile they are packed.
    Packed,
}

/// How the gradient by x is computed.
pub(crate) struct InputGradPlan {
    pub(super) kind: TermKind,
    /// Tried first: taken if a sample of the gradient is mostly zeros, and the result is certain to
    /// have the right bits.
    pub(super) sparse: Option<SparseInputGrad>,
    pub(super) path: InputGradPath,
}

pub(super) enum InputGradPath {
    /// Each element is under one tap of one window at most: one product, whose rows are scattered.
    NonOverlapping { transposes_rows: bool },
    /// A product for each residue of the stride.
    Residues(Vec<ResidueProduct>),
}

/// Input elements residue, residue + stride, ...: they meet the grid through the same taps.
pub(super) struct ResidueProduct {
    pub(super) residue: [usize; 3],
    /// Numbers of their taps.
    pub(super) taps: Vec<usize>,
    pub(super) patches: PatchGeometry,
    /// Are the weights read transposed as they are packed? Or else a transposed copy is made.
    pub(super) reads_transposed: bool,
    pub(super) product: WindowProduct,
}

/// How the gradient by w is computed.
pub(crate) struct WeightGradPlan {
    pub(super) kind: TermKind,
    pub(super) patches: PatchGeometry,
    pub(super) path: WeightGradPath,
}

pub(super) enum WeightGradPath {
    /// Many groups of few channels: groups are side by side in registers.
    GroupedLanes,
    Gemm(Box<WeightGradGemm>),
}

pub(super) struct WeightGradGemm {
    /// As for the gradient by x.
    pub(super) sparse: Option<SparseWeightGrad>,
    pub(super) factors: WeightGradFactors,
    pub(super) pack_plan: PackPlan,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum WeightGradFactors {
    /// Both are planes, and x is the smaller one to turn: g times x.
    GradientsByPlanes,
    /// Patches times g: the result comes out transposed.
    PatchesByGradients { reads_taps_in_place: bool, transposed_rows_per_task: usize },
}

/// What is known of registers for a type.
#[derive(Clone, Copy)]
struct Registers {
    lanes: usize,
    mr: usize,
    nr: usize,
}

fn registers(t: ComputeType, m: &Machine) -> Registers {
    match t {
        ComputeType::F32 => Registers { lanes: m.lanes::<f32>(), mr: m.mr::<f32>(), nr: m.nr::<f32>() },
        ComputeType::F64 => Registers { lanes: m.lanes::<f64>(), mr: m.mr::<f64>(), nr: m.nr::<f64>() },
    }
}

/// Elements or pairs of bf16, where so many planes could be paired, and each position has so many
/// results.
fn term_kind(p: &ConvProblem, m: &Machine, planes: usize, results: usize) -> TermKind {
    if p.is_fast_bf16 && planes >= 2 && results >= PAIRING_MIN_OUTPUTS && m.has_bf16() {
        TermKind::Bf16Pairs
    } else {
        TermKind::Elements
    }
}

/// The plan of a convolution.
pub(crate) fn forward(p: &ConvProblem, m: &Machine) -> ForwardPlan {
    let kind = term_kind(p, m, p.channels, p.outputs);
    let patches = p.window.patches(kind.terms(p.channels));
    let product = window_product(p, m, kind, &patches, p.outputs);
    let may_be_packed = kind == TermKind::Elements
        && p.groups == 1
        && p.is_weight_contiguous
        && matches!(product, WindowProduct::ImplicitGemm(_));
    let weights = if !may_be_packed {
        PrepackedWeights::No
    } else if p.images * patches.positions() <= PREPACK_MAX_WINDOWS {
        PrepackedWeights::Worth
    } else {
        PrepackedWeights::IfKept
    };
    ForwardPlan { kind, patches, weights, product }
}

/// How weights of `outputs` output channels are multiplied by patches, for all images and groups.
fn window_product(
    p: &ConvProblem,
    m: &Machine,
    kind: TermKind,
    patches: &PatchGeometry,
    outputs: usize,
) -> WindowProduct {
    let (r, batch) = (registers(p.compute, m), p.images * p.groups);
    if kind == TermKind::Elements
        && let Some(windows) = depthwise_windows(patches, batch)
    {
        let most = (batch * outputs / (TASKS_PER_THREAD * m.threads)).max(1);
        let planes_per_task = (DEPTHWISE_TASK_ELEMENTS / patches.positions()).clamp(1, most);
        return WindowProduct::Depthwise3x3 { windows, planes_per_task };
    }
    // AMX multiplies packed panels alone.
    if !(kind == TermKind::Bf16Pairs && m.has_amx())
        && let Some(positions_per_task) = implicit_gemm_positions(r, m, patches, batch, outputs)
    {
        let fmas = batch * patches.positions() * outputs * patches.terms();
        // Of windows that are a plane's elements a task has no whole rows, and of pairs no sums of
        // terms one by one.
        let border = if kind == TermKind::Elements && !patches.is_identity() {
            let cost = |rows: usize| match p.compute {
                ComputeType::F32 => tile_costs::<f32>(r.mr, rows),
                ComputeType::F64 => tile_costs::<f64>(r.mr, rows),
            };
            BorderSplit::of(patches, positions_per_task / patches.grid[2], cost)
        } else {
            None
        };
        return WindowProduct::ImplicitGemm(ImplicitGemmPlan {
            positions_per_task,
            is_parallel: fmas > PARALLEL_MIN_FMAS,
            border,
            reads_in_place: patches.step[2] == 1
                && patches.positions() > IN_PLACE_MIN_POSITIONS_PER_OUTPUT * outputs,
        });
    }
    if kind == TermKind::Elements && is_direct(patches, outputs) {
        return WindowProduct::Direct(direct(m, patches, batch, outputs));
    }
    WindowProduct::Im2col(im2col_read(r, patches))
}

/// The windows of a depthwise convolution of 3 x 3 taps, one step apart.
fn depthwise_windows(p: &PatchGeometry, batch: usize) -> Option<DepthwiseWindows> {
    let taps: &[[isize; 3]; TAPS_PER_AXIS * TAPS_PER_AXIS] = p.taps[..].try_into().ok()?;
    let flat = p.plane[0] == 1 && p.grid[0] == 1;
    if p.channels != 1 || !flat || p.step != [1; 3] || batch * p.size() == 0 || p.positions() == 0 {
        return None;
    }
    let row = taps[0][1];
    let up = taps[TAPS_PER_AXIS][1] < row;
    let columns = [taps[0][2], taps[1][2], taps[2][2]];
    let is_grid = taps.iter().enumerate().all(|(t, tap)| {
        let (i, j) = ((t / TAPS_PER_AXIS) as isize, t % TAPS_PER_AXIS);
        *tap == [0, if up { row - i } else { row + i }, columns[j]]
    });
    // Columns far beside the plane would need as much room beside it.
    let in_reach = columns.iter().all(|c| c.unsigned_abs() <= p.plane[2]);
    let (plane, out) = ([p.plane[1], p.plane[2]], [p.grid[1], p.grid[2]]);
    (is_grid && in_reach).then_some(DepthwiseWindows { plane, out, row, up, columns })
}

/// Positions of a task of an implicit GEMM, if there are enough output channels for a panel, and
/// registers for tall tiles.
fn implicit_gemm_positions(
    r: Registers,
    m: &Machine,
    p: &PatchGeometry,
    batch: usize,
    outputs: usize,
) -> Option<usize> {
    if r.mr < IMPLICIT_GEMM_MIN_TILE_ROWS
        || p.terms() < IMPLICIT_GEMM_MIN_TERMS
        || outputs < r.nr
        || !outputs.is_multiple_of(r.nr / 2)
    {
        return None;
    }
    if r.mr < TALL_TILE_ROWS && !p.is_identity() && p.grid[2].is_multiple_of(r.nr / 2) {
        return None;
    }
    let (n, most) = (p.positions(), IMPLICIT_GEMM_MAX_TASK_ELEMENTS / r.nr);
    let least = m.threads.div_ceil(batch.max(1));
    if p.is_identity() {
        let some = most.min(IMPLICIT_GEMM_MAX_TASK_ELEMENTS / p.channels).max(MAX_TILE_ROWS);
        let parts = n.div_ceil(some).max(least);
        return Some(n.div_ceil(parts).next_multiple_of(MAX_TILE_ROWS));
    }
    // Whole rows of windows.
    let row = p.grid[2];
    let fits = |parts: usize| {
        let some = p.rows().div_ceil(parts) * row;
        // They may begin with any row.
        let padded = PaddedPlanes::new(p, 0..some).size().saturating_mul(p.channels);
        (some <= most && padded <= IMPLICIT_GEMM_MAX_TASK_ELEMENTS).then_some(some)
    };
    // As many for each thread, if that fits.
    let comes_out_even = |parts: &usize| {
        let tasks = batch * p.rows().div_ceil(p.rows().div_ceil(*parts));
        tasks.is_multiple_of(m.threads) || tasks >= EVEN_TASKS_PER_THREAD * m.threads
    };
    let parts = least..=MAX_PARTS_PER_IMAGE.min(p.rows());
    parts.clone().filter(comes_out_even).chain(parts).find_map(fits)
}

/// Is a convolution with so many output channels in a group one of few?
fn is_direct(p: &PatchGeometry, outputs: usize) -> bool {
    let terms = p.terms();
    if !(1..=DIRECT_MAX_OUTPUTS).contains(&outputs) || terms == 0 || p.positions() == 0 {
        return false;
    }
    let is_one_pass = outputs < MAX_RESULTS_PER_POSITION;
    // Planes that are the matrix themselves need no packing.
    let saves_packing = terms <= DIRECT_MAX_IDENTITY_TERMS && is_one_pass || !p.is_identity();
    // A unit that reaches far beyond a row is computed for nothing: a quarter of it at most.
    let row = p.grid[2];
    let fills_units = is_one_pass || 4 * row >= 3 * row.next_multiple_of(CHAINS_PER_UNIT);
    saves_packing
        && fills_units
        && PaddedPlanes::new(p, 0..1).size().saturating_mul(p.channels) <= DIRECT_MAX_ROW_ELEMENTS
}

fn direct(m: &Machine, p: &PatchGeometry, batch: usize, outputs: usize) -> DirectPlan {
    let [_, g1, g2] = p.grid;
    let most = (batch / (TASKS_PER_THREAD * m.threads)).max(1);
    let row = PaddedPlanes::new(p, 0..g2).size() * p.channels;
    let columns = if row <= DIRECT_BAND_ELEMENTS {
        g2
    } else {
        (g2 / (row / DIRECT_BAND_ELEMENTS + 1)).max(1).next_multiple_of(16 * CHAINS_PER_UNIT)
    };
    DirectPlan {
        outputs_per_pass: outputs.div_ceil(outputs.div_ceil(MAX_RESULTS_PER_POSITION)),
        batches_per_task: (DIRECT_TASK_ELEMENTS / (outputs * p.positions())).clamp(1, most),
        band: [(DIRECT_BAND_ELEMENTS / row).clamp(1, g1), columns],
    }
}

fn im2col_read(r: Registers, p: &PatchGeometry) -> Im2colRead {
    if p.is_identity() {
        return Im2colRead::Planes;
    }
    // A register sees two rows of windows at most.
    if p.positions() == 0 || p.grid[2] < r.lanes {
        return Im2colRead::Packed;
    }
    let fits = |columns: &usize| {
        // They may begin anywhere in a row.
        let some = 0..(columns + p.grid[2] - 1).min(p.positions());
        PaddedPlanes::new(p, some).size().saturating_mul(p.channels) <= IN_PLACE_MAX_PADDED_ELEMENTS
    };
    match IN_PLACE_COLUMNS.into_iter().find(fits) {
        Some(columns) => Im2colRead::InPlace { columns },
        None => Im2colRead::Packed,
    }
}
