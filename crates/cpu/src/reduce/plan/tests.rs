//! Plans are those of `tests/plans/reduce.tsv`.

use super::{Problem, arg_fold, fold, scan};
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
        let problem = Problem { shape: &shape, strides: &strides, kept, is_native };
        match op {
            "fold" => fold(problem, machine).to_string(),
            "scan" => scan(problem, machine).to_string(),
            _ => arg_fold(problem, machine).to_string(),
        }
    });
}
