//! Tables of plans: which path a problem takes on four devices.
//!
//! Lines of devices of 132 units were recorded from the code before there were plans. A line that
//! has to change says which problems take another path.

use elinvar_core::{DType, Layout, Precision, Shape};
use elinvar_gpu_kernels::ComputeUnits;
use elinvar_gpu_kernels::conv::{ConvPass, ConvProblem};
use elinvar_gpu_kernels::formula::Compute;
use elinvar_gpu_kernels::gemm::plan::GemmCase;
use elinvar_gpu_kernels::gemm::{CatalogueEpilogue, GemmProblem};
use elinvar_gpu_kernels::launch::{Machine, RegisterBudget, WorkgroupLimits};
use elinvar_gpu_kernels::{attention, conv, elementwise, gemm, reduce};
use elinvar_kernel::ir::{Elem, MmaShape};
use elinvar_ops::backend::{Attention, Conv};

/// Hopper: 132 units, 227 KiB of shared memory, TMA and wgmma.
pub const H100: Machine<'static> = Machine {
    is_software: false,
    needs_short_kernels: false,
    buffers: 1 << 20,
    limits: WorkgroupLimits {
        invocations: 1024,
        shared: 227 << 10,
        cp_async: true,
        compute_units: ComputeUnits(132),
    },
    registers: RegisterBudget::Many,
    subgroup: [32, 32],
    has_tma: true,
    mma_shapes: &[
        MmaShape { elem: Elem::F16, shape: [16; 3] },
        MmaShape { elem: Elem::BF16, shape: [16; 3] },
        MmaShape { elem: Elem::F32, shape: [16, 16, 8] },
        MmaShape::F64_FMA_CHAIN,
    ],
};
/// A small GPU of Ampere's: 16 units, 99 KiB of shared memory, tensor cores without TMA.
pub const SMALL: Machine<'static> = Machine {
    limits: WorkgroupLimits { shared: 99 << 10, compute_units: ComputeUnits(16), ..H100.limits },
    has_tma: false,
    ..H100
};
/// The H100 by Vulkan: 48 KiB of shared memory, no asynchronous copies, cooperative matrices.
pub const VULKAN: Machine<'static> = Machine {
    limits: WorkgroupLimits { shared: 48 << 10, cp_async: false, ..H100.limits },
    has_tma: false,
    mma_shapes: &[
        MmaShape { elem: Elem::F16, shape: [16; 3] },
        MmaShape { elem: Elem::BF16, shape: [16; 3] },
    ],
    ..H100
};
/// A device of software (lavapipe), which tells no number of units.
pub const LAVAPIPE: Machine<'static> = Machine {
    is_software: true,
    needs_short_kernels: false,
    buffers: 32,
    limits: WorkgroupLimits { shared: 32 << 10, cp_async: false, ..H100.limits },
    registers: RegisterBudget::One,
    subgroup: [8, 8],
    has_tma: false,
    mma_shapes: &[],
};

/// Compares the lines of a table, of fields between tabs: a problem, the names of machines, the
/// path.
fn check(table: &str, path: impl Fn(&[&str], &Machine<'_>) -> String) {
    let mut wrong = Vec::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [problem @ .., machines, expected] = &fields[..] else { panic!("too few fields: {line}") };
        for name in machines.split(' ') {
            let machine = match name {
                "h100" => H100,
                "small" => SMALL,
                "vulkan" => VULKAN,
                "lavapipe" => LAVAPIPE,
                name => panic!("no machine is called {name}"),
            };
            let path = path(problem, &machine);
            if path != *expected {
                wrong.push(format!("{}\t{name}\t{path}", problem.join("\t")));
            }
        }
    }
    assert!(wrong.is_empty(), "{} paths differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// `2x3x9`.
fn sizes<const N: usize>(text: &str) -> [usize; N] {
    let all: Vec<usize> = text.split('x').map(|n| n.parse().expect("a number")).collect();
    all.try_into().expect("as many numbers as a problem has sizes")
}

#[test]
fn reductions() {
    check(include_str!("../plans/reduce.tsv"), |problem, machine| {
        let [rows, n] = sizes(problem[1]);
        match problem[0] {
            "fold" => reduce::plan::fold(rows, n, machine).path.to_string(),
            "arg_fold" => reduce::plan::arg_fold(rows, n, machine).path.to_string(),
            "scan" => reduce::plan::scan(rows, n, machine).path.to_string(),
            "rowwise" => reduce::plan::rowwise(rows, n, machine).path.to_string(),
            op => panic!("no plan for {op}"),
        }
    });
}

/// Sizes and a layout: `2x3x9`, or with `^` behind it the last two axes exchanged in memory.
fn layout(text: &str) -> Layout {
    let (text, is_transposed) = text.strip_suffix('^').map_or((text, false), |text| (text, true));
    let mut dims: Vec<usize> = text.split('x').map(|n| n.parse().expect("a number")).collect();
    let last = dims.len() - 1;
    if is_transposed {
        dims.swap(last - 1, last);
    }
    let l = Layout::contiguous(Shape::new(&dims).expect("small"));
    if is_transposed { l.transpose(last - 1, last) } else { l }
}

fn dtype(text: &str) -> DType {
    DType::ALL.into_iter().find(|d| d.to_string() == text).expect("a dtype")
}

fn precision(text: &str) -> Precision {
    match text {
        "exact" => Precision::Exact,
        "fast" => Precision::Fast,
        text => panic!("{text} is no precision"),
    }
}

const PLAIN: CatalogueEpilogue<'static> = CatalogueEpilogue(None);

#[test]
fn products() {
    check(include_str!("../plans/gemm.tsv"), |problem, machine| {
        let [is, d, x, w] = problem else { panic!("{problem:?}") };
        let (dtype, x, w) = (dtype(d), layout(x), layout(w));
        let p = GemmProblem::new(&PLAIN, dtype, &x, &w, &[]);
        let fast = || gemm::plan::fast(&p, machine).map(|plan| plan.path.to_string());
        // Probed where it is of use: of f64, on devices that have the units.
        let has_f64_mma = dtype == DType::F64 && machine.mma_shapes.contains(&MmaShape::F64_FMA_CHAIN);
        let f64_fma_chain = match *is {
            "fast" => return fast().unwrap_or_else(|| "none".to_string()),
            "exact" => has_f64_mma,
            "exact, no f64 tensor cores" => false,
            is => panic!("{is} is no precision"),
        };
        let path = gemm::plan::exact(&GemmCase::of(dtype, &x, &w), machine, f64_fma_chain).path;
        let chunks = path.split_k(p.sizes(), dtype, machine.units());
        format!("{path}{}", chunks.map(|n| format!(", split-k {n}")).unwrap_or_default())
    });
}

#[test]
fn convolutions() {
    check(include_str!("../plans/conv.tsv"), |problem, machine| {
        let [of, is, d, x, w, stride, groups] = problem else { panic!("{problem:?}") };
        let (dtype, x, w) = (dtype(d), layout(x), layout(w));
        let (stride, groups): (usize, usize) =
            (stride.parse().expect("a number"), groups.parse().expect("a number"));
        let (spatial, taps) = (&x.shape()[2..], &w.shape()[2..]);
        // Padded by half of the taps.
        let out: Vec<usize> =
            spatial.iter().zip(taps).map(|(n, t)| (n + t / 2 * 2 - t) / stride + 1).collect();
        let c = Conv {
            stride: vec![stride; taps.len()],
            padding: taps.iter().map(|t| t / 2).collect(),
            dilation: vec![1; taps.len()],
            groups,
            precision: precision(is),
        };
        let g = Layout::contiguous(
            Shape::new(&[&[x.shape()[0], w.shape()[0]], &out[..]].concat()).expect("small"),
        );
        let a = match *of {
            "forward" => ConvProblem::forward(&PLAIN, &c, dtype, [&x, &w], &out, &[]),
            "input" => ConvProblem::gradient(ConvPass::GradInput, &c, dtype, [&g, &w], spatial),
            "weight" => ConvProblem::gradient(ConvPass::GradWeight, &c, dtype, [&x, &g], taps),
            of => panic!("{of} is no pass"),
        };
        let path = conv::plan::path(&c, dtype, machine);
        conv::plan::kernel(&a.on(machine.units()), path).path.to_string()
    });
}

#[test]
fn attentions() {
    check(include_str!("../plans/attention.tsv"), |problem, machine| {
        let [of, is, d, q, k, causal, mask] = problem else { panic!("{problem:?}") };
        let (dtype, q, k) = (dtype(d), layout(q), layout(k));
        let a = Attention { precision: precision(is), ..Attention::exact(0.125, *causal == "causal") };
        let masked = *mask == "mask";
        if *of == "forward" {
            return attention::plan::forward(&a, dtype, [&q, &k, &k], masked, machine).path.to_string();
        }
        let [b, h, l, _] = sizes(problem[3]);
        let lse = Layout::contiguous(Shape::new(&[b, h, l]).expect("small"));
        let seen = Layout::contiguous(Shape::new(&[b, h, l, k.shape()[2]]).expect("small"));
        // The gradient of a sum is one number for all.
        let one = Layout::contiguous(Shape::new(&[1, 1, 1, 1]).expect("small"));
        let one = one.broadcast_to(q.shape(), "g").expect("it fits");
        let g = if *of == "backward of a sum" { &one } else { &q };
        let mask = masked.then_some((&seen, DType::Bool));
        let given = attention::BackwardInputs { q: &q, k: &k, v: &k, o: &q, lse: &lse, g, mask };
        attention::plan::backward(&a, dtype, &given, machine).path.to_string()
    });
}

#[test]
fn fused_maps() {
    let short = Machine { needs_short_kernels: true, ..H100 };
    assert_eq!(elementwise::plan::MAX_FUSED_MAPS, 16);
    for (machine, heavy, recomputes) in [(H100, 1, true), (LAVAPIPE, 1, false), (short, 12, false)] {
        assert_eq!(elementwise::plan::weight(&machine, true), 1, "{machine}");
        assert_eq!(elementwise::plan::weight(&machine, false), heavy, "{machine}");
        assert_eq!(elementwise::plan::recomputes_broadcasts(&machine), recomputes, "{machine}");
    }
    for (machine, of_f64) in [(H100, 4), (SMALL, 4), (LAVAPIPE, 1), (short, 1)] {
        let most = |compute, is_light| elementwise::plan::kernel(&machine, compute, is_light).most;
        assert_eq!(most(Compute::F64, false), of_f64, "{machine}");
        let of_others = if machine.needs_short_kernels { 1 } else { 4 };
        for (compute, is_light) in [(Compute::F64, true), (Compute::F32, false), (Compute::I64, false)] {
            assert_eq!(most(compute, is_light), of_others, "{machine}: {compute:?}");
        }
    }
    for (buffers, operands) in [(32, 8), (10, 8), (8, 6), (4, 2), (1, 0)] {
        assert_eq!(elementwise::plan::max_operands(&Machine { buffers, ..LAVAPIPE }), operands, "{buffers}");
    }
    let worth = elementwise::plan::is_worth_recomputing;
    assert!(worth(64, 1 << 20) && worth(1 << 12, 1 << 21));
    assert!(!worth(64, 64) && !worth(4097, 1 << 20) && !worth(64, (1 << 21) + 1));
}
