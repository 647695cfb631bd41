//! Plans as a line of text: for `ELINVAR_EXPLAIN`, and for the tables of `tests/plans`.

use super::blocked::{GemmPlan, ReadA, Schedule, SmallMPlan, TilePath, Units};
use super::{DotPlan, Orientation, Path, Plan, SplitKPlan, TinyPlan};
use crate::gemm::kernels::Blocking;
use std::collections::BTreeMap;
use std::fmt;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.orientation {
            Orientation::AsGiven => "",
            Orientation::Transposed => "transposed ",
            Orientation::Folded => "folded ",
        })?;
        write!(f, "{}", self.path)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Tiny(TinyPlan { piece, ns }) => write!(f, "tiny piece={piece} ns={ns:.2}"),
            Path::Dot(DotPlan { run, task, ns }) => write!(f, "dots run={run} task={task} ns={ns:.2}"),
            Path::SplitK(SplitKPlan { chunks, rest, by_chunk }) => {
                let by = if *by_chunk { "chunk" } else { "product" };
                write!(f, "split-k chunks={chunks} by={by} rest={rest}")
            }
            Path::Gemm(gemm) => gemm.fmt(f),
            Path::Bf16 { a_in_place, b_in_place, gemm } => {
                write!(f, "{}", gemm.units)?;
                f.write_str(if *a_in_place { " a-pairs" } else { "" })?;
                f.write_str(if *b_in_place { " b-pairs " } else { " " })?;
                gemm.fmt(f)
            }
        }
    }
}

impl fmt::Display for GemmPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Blocking { batch, m, n, rows, cols } = self.blocking;
        match self.schedule {
            Schedule::NoTerms => f.write_str("no-terms")?,
            Schedule::SmallM(SmallMPlan { few, kc, accumulators }) => {
                let kernel = if few { "few" } else { "tiles" };
                write!(f, "small-m {kernel} kc={kc} accumulators={accumulators}")?;
            }
            Schedule::PrivatePacking(private) => {
                let mut tiles = BTreeMap::new();
                for (i, j) in (0..m).step_by(rows).flat_map(|i| (0..n).step_by(cols).map(move |j| (i, j))) {
                    let path = private.tile(rows.min(m - i), cols.min(n - j)).to_string();
                    *tiles.entry(path).or_insert(0) += batch;
                }
                f.write_str("private")?;
                tiles.iter().try_for_each(|(path, count)| write!(f, " {path}*{count}"))?;
            }
            Schedule::SharedA { windows } => {
                f.write_str(if windows { "shared-a windows" } else { "shared-a" })?
            }
            Schedule::SharedB { nc, kc } => write!(f, "shared-b nc={nc} kc={kc}{}", self.a)?,
            Schedule::PerProduct => write!(f, "per-product{}", self.a)?,
            Schedule::Prepacked { in_turn } => {
                write!(f, "prepacked{}{}", if in_turn { " in-turn" } else { "" }, self.a)?
            }
        }
        write!(f, " tile={rows}x{cols} ns={:.2}", self.ns)
    }
}

impl fmt::Display for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Units::Fma => "elements",
            Units::Bf16Pairs => "bf16-pairs",
            Units::Amx => "amx",
        })
    }
}

impl fmt::Display for ReadA {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReadA::InPlace => " a-in-place",
            ReadA::Taps => " taps",
            ReadA::Pack => "",
        })
    }
}

impl fmt::Display for TilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            TilePath::Gemv { pack_a: false } => f.write_str("gemv"),
            TilePath::Gemv { pack_a: true } => f.write_str("gemv-packed"),
            TilePath::InPlace => f.write_str("in-place"),
            TilePath::Pack { pack_a, direct } => {
                f.write_str(if pack_a { "pack-ab" } else { "pack-b" })?;
                if direct > 0 { write!(f, "-direct{direct}") } else { Ok(()) }
            }
        }
    }
}
