//! Plans are those of `tests/plans/reduce.tsv`.

use super::{ReduceProblem, arg_fold, column_layout, fold, rowwise_columns, scan};
use crate::machine::Machine;
use crate::plan_table::{check, sizes};

#[test]
fn plans_are_those_of_the_table() {
    check(include_str!("../../../tests/plans/reduce.tsv"), |fields, machine| {
        let &[op, dtype, shape, strides, kept] = fields else { panic!("five fields of a problem") };
        let (shape, strides) = (sizes(shape), sizes(strides));
        // Halves are computed in f32; scans of whole numbers in i64.
        let is_native = match op {
            "scan" => matches!(dtype, "f32" | "f64" | "i64"),
            _ => !matches!(dtype, "f16" | "bf16"),
        };
        let kept = kept.parse().expect("a number of axes");
        let problem = ReduceProblem { shape: &shape, strides: &strides, kept, is_native };
        match op {
            "fold" => fold(problem, machine).to_string(),
            "scan" => scan(problem, machine).to_string(),
            _ => arg_fold(problem, machine).to_string(),
        }
    });
}

#[test]
fn row_wise_formulas_take_rows_side_by_side_as_the_table_says() {
    use super::RowwiseColumns::{Blocks, Chunks};
    let rows = [
        // rows, elements of each, does the formula read them once, threads
        (64, 128, false, 8, Some(Chunks), "a softmax over channels"),
        (64, 4096, false, 8, Some(Chunks), "as long as stays in a cache"),
        (64, 4097, false, 8, None, "too long to be read twice"),
        (64, 128, true, 8, Some(Chunks), "a logsumexp whose lanes are all held"),
        (1023, 129, true, 8, Some(Blocks), "fewer chunks than two for each thread"),
        (1024, 129, true, 8, Some(Chunks), "as many"),
        (1024, 4096, true, 8, Some(Chunks), "a block"),
        (1024, 4097, true, 8, Some(Blocks), "more than a block"),
    ];
    for (count, n, reads_once, threads, want, why) in rows {
        let layout = column_layout(&[count, n], &[&[1, count as isize]], 1, 1).expect("columns");
        assert_eq!(rowwise_columns(&layout.grid, reads_once, &Machine::avx512(threads)), want, "{why}");
    }
}
