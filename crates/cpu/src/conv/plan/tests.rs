//! Plans are those of `tests/plans/conv.tsv`.

use super::{forward, input_grad, weight_grad};
use crate::conv::problem::ConvProblem;
use crate::plan_table::{check, sizes};
use elinvar_core::{DType, Precision};
use elinvar_ops::backend::Conv;

#[test]
fn plans_are_those_of_the_table() {
    check(include_str!("../../../tests/plans/conv.tsv"), |fields, machine| {
        let &[direction, dtype, precision, x, w, out, stride, padding, dilation, groups] = fields else {
            panic!("ten fields of a problem");
        };
        let dtype = match dtype {
            "f32" => DType::F32,
            "f64" => DType::F64,
            "f16" => DType::F16,
            _ => DType::BF16,
        };
        let conv = Conv {
            stride: sizes(stride),
            padding: sizes(padding),
            dilation: sizes(dilation),
            groups: groups.parse().expect("a number"),
            precision: if precision == "fast" { Precision::Fast } else { Precision::Exact },
        };
        let shapes = [&sizes(x)[..], &sizes(w)];
        let problem = match dtype {
            DType::F64 => ConvProblem::new::<f64>(&conv, shapes, &sizes(out), [dtype; 2], true),
            _ => ConvProblem::new::<f32>(&conv, shapes, &sizes(out), [dtype; 2], true),
        };
        match direction {
            "forward" => forward(&problem, machine).to_string(),
            "input-grad" => input_grad(&problem, machine).to_string(),
            _ => weight_grad(&problem, machine).to_string(),
        }
    });
}
