//! The targets of rows.

use super::lines::Row;

/// A row's target: the speed-up over the best peer, and sometimes a fraction of the machine's peak.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    pub ratio: f64,
    /// Fraction of the peak.
    pub peak: Option<f64>,
}

/// Of large products, where overheads are negligible.
const PEAK: f64 = 0.95;

/// The first row of the table that matches counts.
const RATIOS: [(&str, f64); 9] = [
    ("maxpool_", 1.5),
    ("batchnorm_", 1.5),
    ("cumsum_", 1.5),
    ("attn_", 1.3),
    ("train_mlp", 1.2),
    ("train_cnn", 1.5),
    ("train_gpt", 2.0),
    ("bert_", 1.2),
    ("", 1.0),
];
const DEPTHWISE: f64 = 1.5;

/// The target of a row.
pub fn target(row: &Row) -> Target {
    let (workload, shape) = (row.key.workload.as_str(), row.key.shape.as_str());
    let groups = shape.rsplit_once("_g").and_then(|(_, g)| g.parse::<usize>().ok());
    let ratio = match groups {
        Some(2..) if workload.starts_with("conv2d_") => DEPTHWISE,
        _ => RATIOS.iter().find(|(start, _)| workload.starts_with(start)).map_or(1.0, |r| r.1),
    };
    let large = ["1024x1024x1024", "2048x2048x2048"].contains(&shape);
    let exact = ["f32", "f64"].contains(&row.key.dtype.as_str());
    Target { ratio, peak: (workload.starts_with("gemm_") && large && exact).then_some(PEAK) }
}

impl Target {
    /// Is it met by a row with this `ratio` to the best peer and this part of the limit? `None` if
    /// a required measurement is missing.
    pub fn met(self, ratio: Option<f64>, part: Option<f64>) -> Option<bool> {
        let near = self.peak.map_or(Some(true), |peak| Some(part? >= peak));
        Some(ratio? >= self.ratio && near?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines::Key;
    use super::*;

    #[test]
    fn every_kind_of_row_has_its_target() {
        for (workload, shape, dtype, ratio, peak) in [
            ("gemm_nn", "1024x1024x1024", "f32", 1.0, Some(0.95)),
            ("gemm_nn", "2048x2048x2048", "f32", 1.0, Some(0.95)),
            ("gemm_tn", "1024x1024x1024", "f32", 1.0, Some(0.95)),
            ("gemm_nn", "1024x1024x1024", "f64", 1.0, Some(0.95)),
            ("gemm_nn", "1024x1024x1024", "bf16", 1.0, None),
            ("gemm_nn", "512x512x512", "f32", 1.0, None),
            ("conv2d_fb", "n8_c144_k144_h56_r3_s1_p1_g144", "f32", 1.5, None),
            ("conv2d_f", "n8_c64_k64_h56_r3_s1_p1_g1", "f32", 1.0, None),
            ("maxpool_fb", "8x64x112x112_k2s2", "f32", 1.5, None),
            ("batchnorm_f", "8x64x56x56", "f32", 1.5, None),
            ("cumsum_axis1", "4096x1024", "f32", 1.5, None),
            ("attn_f", "8x12x128x64", "f32", 1.3, None),
            ("train_mlp", "s", "f32", 1.2, None),
            ("train_cnn", "s", "f32", 1.5, None),
            ("train_gpt", "L4_d256_h8_s128_v512_b8", "f32", 2.0, None),
            ("bert_fwd", "s", "f32", 1.2, None),
            ("tiny_add", "4", "f32", 1.0, None),
        ] {
            let key = Key { workload: workload.into(), shape: shape.into(), dtype: dtype.into(), threads: 2 };
            let row = Row { key, group: String::new(), flops: 0.0, bytes: 0.0 };
            assert_eq!(target(&row), Target { ratio, peak }, "{workload} {shape} {dtype}");
        }
    }

    #[test]
    fn a_target_is_met_missed_or_not_known() {
        let (plain, near) = (Target { ratio: 1.5, peak: None }, Target { ratio: 1.0, peak: Some(0.95) });
        for (target, ratio, part, want) in [
            (plain, Some(1.5), None, Some(true)),
            (plain, Some(1.4), Some(1.0), Some(false)),
            (plain, None, Some(1.0), None),
            (near, Some(1.0), Some(0.95), Some(true)),
            (near, Some(2.0), Some(0.94), Some(false)),
            (near, Some(2.0), None, None),
        ] {
            assert_eq!(target.met(ratio, part), want, "{target:?} {ratio:?} {part:?}");
        }
    }
}
