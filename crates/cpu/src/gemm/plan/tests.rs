//! Plans compared with tables of the paths that problems took before there were plans.

use super::*;
use crate::plan_table::{compare, numbers};

/// A product of matrices.
const PRODUCTS: &str = include_str!("../../../tests/plans/gemm.txt");
/// A product of operands that are packed from something else.
const OPERANDS: &str = include_str!("../../../tests/plans/gemm_operands.txt");

fn layout(dtype: &str, strides: &str) -> MatrixLayout {
    let storage = match dtype {
        "f16" => Storage::F16,
        "bf16" => Storage::Bf16,
        _ => Storage::Native,
    };
    let &[row, col, batch] = &numbers(strides)[..] else { panic!("three strides: {strides}") };
    MatrixLayout { storage, offset: 0, inner: 1, batch: (batch, 0), row, col, has_aligned_pairs: true }
}

fn problem(fields: &[&str]) -> ContractProblem {
    let &[_, dtype, precision, sizes, a, b, prepacked, extra] = fields else { panic!("{fields:?}") };
    let &[batch, m, k, n] = &numbers(sizes)[..] else { panic!("four sizes: {sizes}") };
    let precision = if precision == "fast" { Precision::Fast } else { Precision::Exact };
    let extra = match extra {
        "-" => None,
        "bias" => Some("0,1,0".to_string()),
        "per-batch" => Some(format!("0,1,{n}")),
        "full" => Some(format!("{n},1,{}", m * n)),
        extra => panic!("{extra}"),
    };
    let epilogue_follows = extra.is_none_or(|strides| layout(dtype, &strides).rows_follow(m));
    let (lhs, rhs) = (layout(dtype, a), layout(dtype, b));
    let (bytes, is_prepacked) = (if dtype == "f64" { 8 } else { 4 }, prepacked == "1");
    ContractProblem { batch, m, k, n, bytes, precision, lhs, rhs, is_prepacked, epilogue_follows }
}

#[test]
fn products_take_the_paths_of_the_table() {
    compare(PRODUCTS, |fields, machine| {
        let problem = problem(fields);
        let plan = plan(&problem, machine);
        let Path::SplitK(split) = plan.path else { return plan.to_string() };
        // The table has the paths of its parts, too.
        let problem = orient(problem).1;
        let part = |p: &ContractProblem| plan_exact(p, machine);
        let (text, _) = plan.path.to_string().split_once(" rest").map(|(a, b)| (a.to_string(), b)).unwrap();
        let orientation = plan.to_string().replace(&plan.path.to_string(), "");
        let chunks = format!("{orientation}{text} ({})", part(&split.chunks_of(&problem)));
        match split.rest {
            0 => chunks,
            rest => format!("{chunks} rest={rest} ({})", part(&split.rest_of(&problem))),
        }
    });
}

#[test]
fn operands_that_are_packed_take_the_paths_of_the_table() {
    compare(OPERANDS, |fields, machine| {
        let &[_, dtype, kind, sizes, pack, a, b] = fields else { panic!("{fields:?}") };
        let &[batch, m, k, n] = &numbers(sizes)[..] else { panic!("four sizes: {sizes}") };
        let kind = if kind == "pairs" { TermKind::Bf16Pairs } else { TermKind::Elements };
        let pack = match pack {
            "shared-a" => PackPlan::SharedA,
            "shared-b" => PackPlan::SharedB,
            "per-task" => PackPlan::PerTask,
            pack => panic!("{pack}"),
        };
        let rows = a.strip_prefix("rows:").map(|n| n.parse().unwrap());
        let a = AccessA { rows, taps: a == "taps" };
        let windows = b.strip_prefix("windows:").map(|n| n.parse().unwrap());
        let b = AccessB { columns: ColumnAccess::Packed, panels: false, windows };
        let bytes = if dtype == "f64" { 8 } else { 4 };
        plan_gemm(&GemmProblem { batch, m, k, n, bytes, kind, a, b }, Some(pack), machine).to_string()
    });
}

#[test]
fn tiles_cover_what_a_plan_says() {
    let p = PrivatePackingPlan {
        gemv_max_rows: 8,
        gemv_min_cols: 0,
        gemv_a_in_place: false,
        a_in_place: true,
        direct_b: true,
        nr: 32,
    };
    for ((rows, cols), want) in [
        ((8, 100), TilePath::Gemv { pack_a: true }),
        ((9, 96), TilePath::InPlace),
        ((9, 100), TilePath::Pack { pack_a: false, direct: 96 }),
        ((9, 31), TilePath::Pack { pack_a: false, direct: 0 }),
    ] {
        assert_eq!(p.tile(rows, cols), want, "{rows} x {cols}");
    }
}

#[test]
fn products_of_few_rows_count_less_for_packing_weights() {
    for (rows, want) in [(1, 1), (192, 1), (193, 4), (2048, 4), (2049, 0)] {
        assert_eq!(use_weight(rows), want, "{rows} rows");
    }
}

#[test]
fn nothing_has_a_plan_too() {
    for zero in 0..4 {
        for kind in [TermKind::Elements, TermKind::Bf16Pairs] {
            for pack in [
                None,
                Some(PackPlan::PerTask),
                Some(PackPlan::SharedA),
                Some(PackPlan::SharedB),
                Some(PackPlan::PerProduct),
                Some(PackPlan::Prepacked),
            ] {
                let mut sizes = [2, 200, 700, 300];
                sizes[zero] = 0;
                let [batch, m, k, n] = sizes;
                let a = AccessA { rows: None, taps: false };
                let b = AccessB { columns: ColumnAccess::Packed, panels: false, windows: None };
                let p = GemmProblem { batch, m, k, n, bytes: 4, kind, a, b };
                let plan = plan_gemm(&p, pack, &Machine::avx512_bf16(8));
                assert!(matches!(plan.schedule, Schedule::NoTerms), "{sizes:?}: {plan}");
            }
        }
    }
}
