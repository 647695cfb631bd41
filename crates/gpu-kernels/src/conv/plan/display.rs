//! Plans as lines, for `ELINVAR_EXPLAIN`, for the table of the tests, and for the tuner's file.

use super::{ConvCandidate, ConvKernel};
use std::fmt;

impl fmt::Display for ConvKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConvKernel::TensorCore(t) => {
                let ([a, b], [c, d]) = (t.subgroups, t.each);
                write!(f, "tensor cores {a}x{b} of {c}x{d}, depth {}, {} slots", t.depth, t.slots)
            }
            ConvKernel::Depthwise => f.write_str("depthwise"),
            ConvKernel::DepthwiseGradWeight(_) => f.write_str("depthwise weight gradient"),
            ConvKernel::FewChannelGradInput => f.write_str("few-channel input gradient"),
            ConvKernel::Tiled { tile, split_k } => {
                let kernel = if tile.depth > 0 { "implicit gemm" } else { "direct" };
                write!(f, "{kernel} {tile}{}", if *split_k { ", split-k" } else { "" })
            }
        }
    }
}

/// As in the tuner's file.
impl fmt::Display for ConvCandidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConvCandidate::Default => f.write_str("default"),
            ConvCandidate::Direct => f.write_str("direct"),
            ConvCandidate::ImplicitGemm(tile) => write!(f, "implicit gemm {tile}"),
            ConvCandidate::TensorCore(cut) => write!(f, "tensor cores {cut}"),
        }
    }
}
