//! Plans as lines, for `ELINVAR_EXPLAIN` and for the table of the tests: the path, and the fields
//! that depend on sizes.

use super::{
    DirectPlan, ForwardPlan, Im2colRead, InputGradPath, InputGradPlan, PrepackedWeights, ResidueProduct,
    WeightGradFactors, WeightGradPath, WeightGradPlan, WindowProduct,
};
use crate::gemm::{PackPlan, TermKind};
use std::fmt;

/// As a word before the path.
fn prefix(kind: TermKind) -> &'static str {
    match kind {
        TermKind::Elements => "",
        TermKind::Bf16Pairs => "bf16-pairs ",
    }
}

impl fmt::Display for ForwardPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weights = match self.weights {
            PrepackedWeights::No => "in-place",
            PrepackedWeights::IfKept => "prepacked-if-kept",
            PrepackedWeights::Worth => "prepack",
        };
        write!(f, "{}weights={weights} {}", prefix(self.kind), self.product)
    }
}

impl fmt::Display for WindowProduct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WindowProduct::Depthwise3x3 { planes_per_task, .. } => {
                write!(f, "depthwise3x3 planes_per_task={planes_per_task}")
            }
            WindowProduct::Direct(DirectPlan {
                outputs_per_pass,
                batches_per_task,
                band: [rows, columns],
            }) => {
                write!(
                    f,
                    "direct outputs_per_pass={outputs_per_pass} batches_per_task={batches_per_task} \
                     band={rows}x{columns}"
                )
            }
            WindowProduct::ImplicitGemm(plan) => {
                let threads = if plan.is_parallel { "parallel" } else { "serial" };
                write!(f, "implicit-gemm positions_per_task={} {threads} ", plan.positions_per_task)?;
                match &plan.border {
                    None => f.write_str("border=none"),
                    Some(border) => {
                        let read = if plan.reads_in_place { "in-place" } else { "padded" };
                        write!(f, "border={read}/{}-sets", border.picks.len())
                    }
                }
            }
            WindowProduct::Im2col(Im2colRead::Planes) => f.write_str("im2col b=planes"),
            WindowProduct::Im2col(Im2colRead::InPlace { columns }) => {
                write!(f, "im2col b=in-place/{columns}")
            }
            WindowProduct::Im2col(Im2colRead::Packed) => f.write_str("im2col b=packed"),
        }
    }
}

impl fmt::Display for InputGradPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(sparse) = &self.sparse {
            write!(f, "sparse-grad(channels_per_task={}) else ", sparse.channels_per_task)?;
        }
        match &self.path {
            InputGradPath::NonOverlapping { transposes_rows } => {
                write!(f, "nonoverlapping rows={}", if *transposes_rows { "transposed" } else { "strided" })
            }
            InputGradPath::Residues(all) => {
                f.write_str(prefix(self.kind))?;
                let text = |one: &ResidueProduct| {
                    let weights = if one.reads_transposed { "transposed" } else { "copied" };
                    format!("taps={} weights={weights} {}", one.taps.len(), one.product)
                };
                let all: Vec<_> = all.iter().map(text).collect();
                // Those that are alike one after the other, counted.
                for (i, same) in all.chunk_by(|a, b| a == b).enumerate() {
                    write!(f, "{}{}*({})", if i > 0 { " " } else { "" }, same.len(), same[0])?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for WeightGradPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WeightGradPath::Gemm(gemm) = &self.path else { return f.write_str("grouped-lanes") };
        if let Some(sparse) = &gemm.sparse {
            write!(f, "sparse-grad(outputs_per_task={}) else ", sparse.outputs_per_task)?;
        }
        f.write_str(prefix(self.kind))?;
        let packing = if gemm.pack_plan == PackPlan::SharedB { "shared-b" } else { "per-task" };
        match gemm.factors {
            WeightGradFactors::GradientsByPlanes => {
                write!(f, "gemm a=gradients b=planes packing={packing}")
            }
            WeightGradFactors::PatchesByGradients { reads_taps_in_place, transposed_rows_per_task } => {
                let a = match (self.patches.is_identity(), reads_taps_in_place) {
                    (true, _) => "planes",
                    (false, true) => "in-place",
                    (false, false) => "packed",
                };
                write!(
                    f,
                    "gemm a=im2col/{a} b=gradients packing={packing} \
                     transposed_rows_per_task={transposed_rows_per_task}"
                )
            }
        }
    }
}
