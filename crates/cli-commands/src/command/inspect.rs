//! `elinvar inspect`
//!
//! Tensors are read one at a time, and only if their numbers are asked for: the headers alone tell
//! the rest.

use crate::args::Inspect;
use elinvar::io::{StoredType, TensorFile, TensorInfo};
use elinvar::{Error, HostData, Result, Scalar};
use elinvar_cli_support::Verdict;
use serde::Serialize;
use std::io::Write;

/// Prints a line for each tensor, then the totals and the metadata.
pub fn run(args: &Inspect, out: &mut dyn Write) -> Result<Verdict> {
    let file = TensorFile::open(&args.path)?;
    let measure = |info: &TensorInfo| -> Result<Option<Stats>> {
        match info.dtype {
            StoredType::Known(_) if args.stats => {
                let tensor = file.tensor(&info.name).map_err(|e| e.at(args.path.display()))?;
                Ok(Some(stats(tensor.data())))
            }
            StoredType::Known(_) | StoredType::Other(_) => Ok(None),
        }
    };
    if args.json {
        for info in file.tensors() {
            let line = serde_json::to_string(&Line::new(info, measure(info)?))
                .map_err(|e| Error::format(format!("{}: {e}", info.name)))?;
            writeln!(out, "{line}")?;
        }
        return Ok(Verdict::Good);
    }
    let head: &[&str] = match args.stats {
        true => &["name", "dtype", "shape", "bytes", "min", "max", "mean", "NaN"],
        false => &["name", "dtype", "shape", "bytes"],
    };
    let mut rows = vec![head.iter().map(|h| h.to_string()).collect::<Vec<_>>()];
    for info in file.tensors() {
        rows.push(cells(info, args.stats, measure(info)?.as_ref()));
    }
    table(&rows, out)?;
    let tensors = file.tensors();
    // Of i128, because no header can make it overflow.
    let parameters: i128 = tensors.iter().map(|t| t.shape.numel() as i128).sum();
    let bytes: i128 = tensors.iter().map(|t| i128::from(t.bytes)).sum();
    writeln!(out, "total: {} tensors, {parameters} parameters, {bytes} bytes", tensors.len())?;
    for (key, value) in file.metadata() {
        writeln!(out, "metadata {}: {}", plain(&key), plain(&value))?;
    }
    Ok(Verdict::Good)
}

/// What the numbers of a tensor are. NaN counts for nothing but its own number.
#[derive(Debug, PartialEq)]
struct Stats {
    /// None if there is no number.
    min: Option<Scalar>,
    max: Option<Scalar>,
    /// Of f64 sums in the order of the elements.
    mean: Option<f64>,
    nan: usize,
}

fn stats(data: &HostData) -> Stats {
    elinvar::core::match_storage!(HostData data; storage v: T => of_floats(v.iter().map(|&x| T::to_f64(x)));
        HostData::F32(v) => of_floats(v.iter().map(|x| f64::from(*x))),
        HostData::F64(v) => of_floats(v.iter().copied()),
        HostData::I64(v) => of_ints(v.iter().copied()),
        HostData::I32(v) => of_ints(v.iter().map(|x| i64::from(*x))),
        HostData::U8(v) => of_ints(v.iter().map(|x| i64::from(*x))),
        HostData::Bool(v) => of_ints(v.iter().map(|x| i64::from(*x))),
    )
}

fn of_floats(values: impl Iterator<Item = f64>) -> Stats {
    let (mut nan, mut n, mut sum) = (0, 0_usize, 0.0);
    let mut ends: Option<(f64, f64)> = None;
    for v in values {
        if v.is_nan() {
            nan += 1;
            continue;
        }
        n += 1;
        sum += v;
        let (min, max) = ends.get_or_insert((v, v));
        // Compared here, for of 0 and -0 `f64::min` gives either one.
        if v < *min {
            *min = v;
        }
        if v > *max {
            *max = v;
        }
    }
    Stats {
        min: ends.map(|(min, _)| Scalar::Float(min)),
        max: ends.map(|(_, max)| Scalar::Float(max)),
        mean: (n > 0).then(|| sum / n as f64),
        nan,
    }
}

fn of_ints(values: impl ExactSizeIterator<Item = i64> + Clone) -> Stats {
    let n = values.len();
    // Exact, and of i128, which no tensor's sum leaves.
    let sum: i128 = values.clone().map(i128::from).sum();
    Stats {
        min: values.clone().min().map(Scalar::Int),
        max: values.max().map(Scalar::Int),
        mean: (n > 0).then(|| sum as f64 / n as f64),
        nan: 0,
    }
}

/// One tensor as JSON. What is not finite is null, for JSON has no other word.
#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    dtype: String,
    shape: &'a [usize],
    bytes: u64,
    #[serde(flatten)]
    stats: Option<StatsLine>,
}

#[derive(Serialize)]
struct StatsLine {
    min: Option<Number>,
    max: Option<Number>,
    mean: Option<f64>,
    nan: usize,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Number {
    Float(f64),
    Int(i64),
}

impl<'a> Line<'a> {
    fn new(info: &'a TensorInfo, stats: Option<Stats>) -> Line<'a> {
        let number = |s: Scalar| match s {
            Scalar::Float(v) => Number::Float(v),
            Scalar::Int(v) => Number::Int(v),
            Scalar::Bool(v) => Number::Int(v.into()),
        };
        Line {
            name: &info.name,
            dtype: info.dtype.to_string(),
            shape: info.shape.dims(),
            bytes: info.bytes,
            stats: stats.map(|s| StatsLine {
                min: s.min.map(number),
                max: s.max.map(number),
                mean: s.mean,
                nan: s.nan,
            }),
        }
    }
}

fn cells(info: &TensorInfo, measured: bool, stats: Option<&Stats>) -> Vec<String> {
    let mut cells = vec![
        plain(&info.name),
        plain(&info.dtype.to_string()),
        info.shape.to_string(),
        info.bytes.to_string(),
    ];
    if measured {
        let scalar = |v: Scalar| match v {
            Scalar::Float(v) => short(v),
            Scalar::Int(_) | Scalar::Bool(_) => v.to_string(),
        };
        let cell = |v: Option<String>| v.unwrap_or_else(|| "-".into());
        cells.push(cell(stats.and_then(|s| s.min).map(scalar)));
        cells.push(cell(stats.and_then(|s| s.max).map(scalar)));
        cells.push(cell(stats.and_then(|s| s.mean).map(short)));
        cells.push(cell(stats.map(|s| s.nan.to_string())));
    }
    cells
}

/// Six digits are enough to look at.
fn short(v: f64) -> String {
    format!("{:?}", format!("{v:.5e}").parse().unwrap_or(v))
}

/// A file's text in one line of a terminal: what would move the cursor is escaped.
fn plain(text: &str) -> String {
    match text.contains(char::is_control) {
        true => text.escape_debug().to_string(),
        false => text.to_string(),
    }
}

/// Columns of equal width; text to the left, and numbers, which are all from the fourth on, to the
/// right.
fn table(rows: &[Vec<String>], out: &mut dyn Write) -> Result<()> {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |c: usize| rows.iter().map(|r| r[c].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(c, (cell, &width))| match c {
            0..3 => format!("{cell:width$}"),
            _ => format!("{cell:>width$}"),
        });
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stats_of_every_kind() {
        let float = |min, max, mean, nan| Stats {
            min: Some(Scalar::Float(min)),
            max: Some(Scalar::Float(max)),
            mean: Some(mean),
            nan,
        };
        let int = |min, max, mean| Stats {
            min: Some(Scalar::Int(min)),
            max: Some(Scalar::Int(max)),
            mean: Some(mean),
            nan: 0,
        };
        let none = |nan| Stats { min: None, max: None, mean: None, nan };
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let rows = [
            (HostData::F32([1.0, f32::NAN, -3.0, 0.5].into()), float(-3.0, 1.0, -0.5, 1)),
            (HostData::F64([inf, 1.0].into()), float(1.0, inf, inf, 0)),
            (HostData::F64([nan, nan].into()), none(2)),
            (HostData::F64([].into()), none(0)),
            // Numbers that f64 does not have, and a sum that i64 does not have.
            (
                HostData::I64([i64::MAX, i64::MAX - 1].into()),
                int(i64::MAX - 1, i64::MAX, 9.223372036854775807e18),
            ),
            (HostData::U8([1, 2, 255].into()), int(1, 255, 86.0)),
            (HostData::Bool([true, false, true, true].into()), int(0, 1, 0.75)),
            (HostData::I32([].into()), none(0)),
        ];
        for (data, want) in rows {
            assert_eq!(stats(&data), want, "{data:?}");
        }
    }

    #[test]
    fn six_digits() {
        let rows = [(0.1_f32.into(), "0.1"), (-1.0, "-1.0"), (1e300, "1e300"), (1.0 / 3.0, "0.333333")];
        for (v, text) in rows {
            assert_eq!(short(v), text);
        }
        assert_eq!((short(f64::NEG_INFINITY), short(-0.0)), ("-inf".into(), "-0.0".into()));
    }
}
