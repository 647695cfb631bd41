//! The plans of both gradients.

use super::{
    GROUPED_MAX_CHANNEL_PAIRS, GROUPED_MAX_PADDED_ELEMENTS, GROUPED_MIN_GROUPS, InputGradPath, InputGradPlan,
    NONOVERLAPPING_TRANSPOSE_MIN_TAPS, ResidueProduct, SPARSE_INPUT_GRAD_MAX_NONZERO_PERCENT,
    SPARSE_MAX_IMAGE_ELEMENTS, SPARSE_MAX_PLANE_BYTES, SPARSE_WEIGHT_GRAD_MAX_NONZERO_PERCENT,
    TAPS_IN_PLACE_MIN_ROW, TASKS_PER_THREAD, TRANSPOSE_MIN_ROWS_PER_TASK, WeightGradFactors, WeightGradGemm,
    WeightGradPath, WeightGradPlan, WindowProduct, registers, term_kind, window_product,
};
use crate::conv::grad_sparse::{SparseGrad, SparseInputGrad, SparseWeightGrad};
use crate::conv::kernels::direct::CHAINS_PER_UNIT;
use crate::conv::pad::PaddedPlanes;
use crate::conv::problem::{ConvProblem, PatchGeometry, grid, residue_grid};
use crate::gemm::{PackPlan, TAPS_PER_ADDRESS, TermKind};
use crate::machine::Machine;
use elinvar_core::order::CHUNK;

/// The plan of the gradient by x.
pub(crate) fn input_grad(p: &ConvProblem, m: &Machine) -> InputGradPlan {
    let kind = term_kind(p, m, p.outputs, p.channels);
    let sparse = if kind == TermKind::Elements { sparse_input_grad(p, m) } else { None };
    let path = if kind == TermKind::Elements && is_nonoverlapping(p) {
        let w = &p.window;
        let transposes_rows = w.taps[2] >= NONOVERLAPPING_TRANSPOSE_MIN_TAPS && w.dilation[2] == 1;
        InputGradPath::NonOverlapping { transposes_rows }
    } else {
        InputGradPath::Residues(residues(p, m, kind))
    };
    InputGradPlan { kind, sparse, path }
}

fn residues(p: &ConvProblem, m: &Machine, kind: TermKind) -> Vec<ResidueProduct> {
    let w = &p.window;
    let area = w.taps.iter().product();
    let one = |residue: [usize; 3]| {
        let meets = |a: usize, t: usize| {
            let scaled = (residue[a] + w.padding[a]) as isize - (t * w.dilation[a]) as isize;
            let stride = w.stride[a] as isize;
            (scaled % stride == 0).then_some(scaled / stride)
        };
        let (mut places, mut taps) = (Vec::new(), Vec::new());
        for (i, t) in grid(w.taps).enumerate() {
            if let (Some(a), Some(b), Some(c)) = (meets(0, t[0]), meets(1, t[1]), meets(2, t[2])) {
                places.push([a, b, c]);
                taps.push(i);
            }
        }
        let grid = residue_grid(w, residue);
        let channels = kind.terms(p.outputs);
        let patches = PatchGeometry { channels, plane: w.out, grid, step: [1; 3], taps: places }.merge_axes();
        let product = window_product(p, m, kind, &patches, p.channels);
        let reads_transposed = taps.len() == area
            && kind == TermKind::Elements
            && matches!(product, WindowProduct::ImplicitGemm(_));
        ResidueProduct { residue, taps, patches, reads_transposed, product }
    };
    // Those that some tap meets: a stride may be far larger than a window. What none meets is 0.
    let met: [Vec<usize>; 3] = std::array::from_fn(|a| {
        let of = |t: usize| (t * w.dilation[a]) as isize - w.padding[a] as isize;
        let all = (0..w.taps[a]).map(|t| of(t).rem_euclid(w.stride[a] as isize) as usize);
        let mut all: Vec<usize> = all.filter(|r| *r < w.plane[a]).collect();
        all.sort_unstable();
        all.dedup();
        all
    });
    let residue = |i: [usize; 3]| std::array::from_fn(|a| met[a][i[a]]);
    grid(std::array::from_fn(|a| met[a].len())).map(|i| one(residue(i))).collect()
}

/// Do windows have nothing in common, begin with the plane, and leave no element behind them that
/// another window would begin with?
fn is_nonoverlapping(p: &ConvProblem) -> bool {
    let w = &p.window;
    let is_apart = |a: usize| {
        let reach = (w.taps[a] - 1) * w.dilation[a] + 1;
        w.padding[a] == 0 && reach <= w.stride[a] && w.plane[a] <= w.out[a] * w.stride[a]
    };
    // With a step of one element in each direction there is one tap, and nothing to scatter.
    w.stride != [1; 3] && (0..3).all(is_apart)
}

fn sparse_input_grad(p: &ConvProblem, m: &Machine) -> Option<SparseInputGrad> {
    let (lanes, window) = (registers(p.compute, m).lanes, &p.window);
    let is_empty = p.images * p.outputs * window.out.iter().product::<usize>() == 0;
    if p.groups != 1 || window.stride != [1; 3] || is_empty || p.channels < lanes {
        return None;
    }
    let grad = SparseGrad::of(&window.patches(p.channels))?;
    if grad.padded_size() * lanes * p.compute.bytes() > SPARSE_MAX_PLANE_BYTES {
        return None;
    }
    // An image, or some channels of one, if there are few.
    let cuts = p.images < TASKS_PER_THREAD * m.threads && p.channels.is_multiple_of(lanes);
    let channels_per_task = if cuts { lanes } else { p.channels };
    Some(SparseInputGrad {
        grad,
        channels_per_task,
        max_nonzero_percent: SPARSE_INPUT_GRAD_MAX_NONZERO_PERCENT,
    })
}

/// The plan of the gradient by w.
pub(crate) fn weight_grad(p: &ConvProblem, m: &Machine) -> WeightGradPlan {
    // Terms are positions, of which a pair would have another partner under the next tap; so images
    // make pairs.
    let kind = term_kind(p, m, p.images, p.outputs);
    let patches = p.window.patches(p.channels);
    if kind == TermKind::Elements && is_grouped(p, &patches) {
        return WeightGradPlan { kind, patches, path: WeightGradPath::GroupedLanes };
    }
    let sparse = if kind == TermKind::Elements { sparse_weight_grad(p, m, &patches) } else { None };
    let factors = if patches.is_identity() && p.channels <= p.outputs {
        WeightGradFactors::GradientsByPlanes
    } else {
        let is_long = (TAPS_IN_PLACE_MIN_ROW..=CHUNK).contains(&patches.grid[2]);
        WeightGradFactors::PatchesByGradients {
            reads_taps_in_place: patches.has_taps_in_rows_of::<TAPS_PER_ADDRESS>() && is_long,
            transposed_rows_per_task: (p.outputs / (TASKS_PER_THREAD * m.threads))
                .max(TRANSPOSE_MIN_ROWS_PER_TASK),
        }
    };
    // With one group, its right factor is packed once for all tasks.
    let pack_plan = if p.groups == 1 { PackPlan::SharedB } else { PackPlan::PerTask };
    WeightGradPlan {
        kind,
        patches,
        path: WeightGradPath::Gemm(Box::new(WeightGradGemm { sparse, factors, pack_plan })),
    }
}

fn is_grouped(p: &ConvProblem, patches: &PatchGeometry) -> bool {
    (1..=GROUPED_MAX_CHANNEL_PAIRS).contains(&(p.channels * p.outputs))
        && p.groups >= GROUPED_MIN_GROUPS
        && patches.positions() > 0
        && !patches.taps.is_empty()
        && PaddedPlanes::new(patches, 0..patches.positions()).size() * CHAINS_PER_UNIT
            <= GROUPED_MAX_PADDED_ELEMENTS
}

fn sparse_weight_grad(p: &ConvProblem, m: &Machine, patches: &PatchGeometry) -> Option<SparseWeightGrad> {
    let lanes = registers(p.compute, m).lanes;
    let is_empty = p.images * p.outputs * patches.positions() == 0;
    if p.groups != 1 || is_empty || p.channels < lanes {
        return None;
    }
    let grad = SparseGrad::of(patches)?;
    let image = p.channels.div_ceil(lanes) * grad.padded_size() * lanes;
    // Each task turns all planes.
    (image <= SPARSE_MAX_IMAGE_ELEMENTS).then(|| SparseWeightGrad {
        grad,
        outputs_per_task: p.outputs.div_ceil(m.threads),
        max_nonzero_percent: SPARSE_WEIGHT_GRAD_MAX_NONZERO_PERCENT,
    })
}
