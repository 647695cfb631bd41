//! Tables of plans: which path a problem takes on three devices.
//!
//! Lines of the H100 and of the software device were recorded from the code before there were
//! plans. A line that has to change says which problems take another path.

use elinvar_gpu_kernels::ComputeUnits;
use elinvar_gpu_kernels::launch::{Machine, RegisterBudget, WorkgroupLimits};
use elinvar_gpu_kernels::reduce;
use elinvar_kernel::ir::{Elem, MmaShape};

/// Hopper: 132 units, 227 KiB of shared memory, TMA and wgmma.
pub const H100: Machine<'static> = Machine {
    has_cheap_barriers: true,
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
/// A device of software (lavapipe), which tells no number of units.
pub const LAVAPIPE: Machine<'static> = Machine {
    has_cheap_barriers: false,
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
