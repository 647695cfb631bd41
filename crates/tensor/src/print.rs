//! Printing in NumPy's format: aligned columns, eight digits, long tensors abbreviated to their
//! edges.

use crate::Tensor;
use elinvar_core::{HostData, HostTensor, Result, Shape, each_data, match_storage};
use elinvar_ops::array::Array;
use elinvar_ops::backend::Backend;
use elinvar_ops::catalogue;
use std::fmt::{self, Display, LowerExp};

/// Digits after the point.
const PRECISION: usize = 8;
/// Elements above which only the edges are shown.
const THRESHOLD: usize = 1000;
/// Elements shown at each end of a long axis.
const EDGE: usize = 3;
/// Characters in a line.
const WIDTH: usize = 75;

/// Axes of a tensor above which it is printed flat, with its shape: a bracket is a call. NumPy has
/// no more axes, and neither has a page.
const MOST_AXES: usize = 64;

/// A number of digits, as in `{:.2}`, is that of every float.
impl<B: Backend> Display for Tensor<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match text(self.array(), f.precision(), 0, " ") {
            Ok(text) => f.write_str(&text),
            Err(e) => write!(f, "<{e}>"),
        }
    }
}

impl<B: Backend> fmt::Debug for Tensor<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match text(self.array(), f.precision(), 7, ", ") {
            Ok(text) => write!(f, "tensor({text}")?,
            Err(e) => write!(f, "tensor(<{e}>")?,
        }
        write!(f, ", shape={}, dtype={}, device={}", self.shape(), self.dtype(), self.device())?;
        match self.op_name() {
            Some(op) => write!(f, ", from {op})"),
            None => f.write_str(")"),
        }
    }
}

fn text<B: Backend>(
    x: &Array<B>,
    precision: Option<usize>,
    indent: usize,
    separator: &str,
) -> Result<String> {
    let shape = x.shape();
    if shape.rank() > MOST_AXES {
        let flat = catalogue::reshape(x, &[shape.numel() as isize])?;
        return Ok(format!("{} (shape {shape})", text(&flat, precision, indent, separator)?));
    }
    Ok(render(shape, &shown_elements(x)?, precision, indent, separator))
}

/// The elements that are shown. Of a large tensor only the edges are read, whatever it is a view
/// of.
fn shown_elements<B: Backend>(x: &Array<B>) -> Result<HostTensor> {
    let mut layout = x.layout().clone();
    if x.shape().numel() > THRESHOLD {
        for axis in (0..x.shape().rank()).rev().filter(|&axis| x.shape()[axis] > 2 * EDGE) {
            // The two edges of an axis are windows, of which the second begins where the last does.
            layout = layout.unfold(axis, EDGE, x.shape()[axis] - EDGE)?;
            let within = layout.rank() - 1;
            let order: Vec<usize> = (0..=axis).chain([within]).chain(axis + 1..within).collect();
            layout = layout.permute(&order);
        }
    }
    x.with_layout(layout).to_host()
}

/// The elements in brackets; lines after the first are indented by `indent`. `host` holds those
/// that are shown of a tensor of this shape.
fn render(
    shape: &Shape,
    host: &HostTensor,
    precision: Option<usize>,
    indent: usize,
    separator: &str,
) -> String {
    if shape.numel() == 0 {
        return if shape.rank() <= 1 { "[]".into() } else { format!("[] (shape {shape})") };
    }
    let words = match precision {
        Some(digits) if host.dtype().is_float() => rounded(host, digits),
        _ => words(host.data(), &(0..host.data().len()).collect::<Vec<_>>()),
    };
    if shape.rank() == 0 && host.dtype().is_float() && words[0].ends_with('.') {
        return format!("{}0", words[0]);
    }
    let mut out = String::new();
    let mut next = words.iter();
    block(shape, shape.numel() > THRESHOLD, 0, indent, separator, &mut next, &mut out);
    out
}

/// Floats with this number of digits after the point, as words of equal width.
fn rounded(host: &HostTensor, digits: usize) -> Vec<String> {
    let word = |v: f64| if v.is_nan() { "nan".into() } else { format!("{v:.digits$}") };
    let all: Vec<String> = host.to_f64_vec().into_iter().map(word).collect();
    let width = all.iter().map(String::len).max().unwrap_or(0);
    all.into_iter().map(|w| format!("{w:>width$}")).collect()
}

/// Which indices of an axis are shown; `None` is the ellipsis.
fn shown(n: usize, cut: bool) -> Vec<Option<usize>> {
    if cut && n > 2 * EDGE {
        (0..EDGE).map(Some).chain([None]).chain((n - EDGE..n).map(Some)).collect()
    } else {
        (0..n).map(Some).collect()
    }
}

fn block<'a>(
    shape: &[usize],
    cut: bool,
    depth: usize,
    indent: usize,
    separator: &str,
    words: &mut impl Iterator<Item = &'a String>,
    out: &mut String,
) {
    let mut word = || words.next().expect("one word per element shown").as_str();
    if depth == shape.len() {
        return out.push_str(word());
    }
    let margin = " ".repeat(indent + depth + 1);
    out.push('[');
    let items = shown(shape[depth], cut);
    if depth + 1 == shape.len() {
        let mut column = indent + depth + 1;
        for (k, item) in items.iter().enumerate() {
            let w = item.map_or("...", |_| word());
            if k > 0 {
                // A line ends where the next word and its separator would not fit.
                if column + separator.len() + w.chars().count() >= WIDTH {
                    out.push_str(separator.trim_end());
                    out.push('\n');
                    out.push_str(&margin);
                    column = margin.len();
                } else {
                    out.push_str(separator);
                    column += separator.len();
                }
            }
            out.push_str(w);
            column += w.chars().count();
        }
    } else {
        for (k, item) in items.iter().enumerate() {
            if k > 0 {
                out.push_str(separator.trim_end());
                out.push_str(&"\n".repeat(shape.len() - depth - 1));
                out.push_str(&margin);
            }
            match item {
                Some(_) => block(shape, cut, depth + 1, indent, separator, words, out),
                None => out.push_str("..."),
            }
        }
    }
    out.push(']');
}

/// The elements at these positions, as words of equal width.
fn words(data: &HostData, places: &[usize]) -> Vec<String> {
    let right = |all: Vec<String>| {
        let width = all.iter().map(String::len).max().unwrap_or(0);
        all.into_iter().map(|w| format!("{w:>width$}")).collect()
    };
    match_storage!(HostData data;
        storage v: T => halves(places.iter().map(|&i| T::to_f32(v[i])).collect());
        HostData::F64(v) => floats(places.iter().map(|&i| &v[i] as &dyn Float).collect()),
        HostData::F32(v) => floats(places.iter().map(|&i| &v[i] as &dyn Float).collect()),
        HostData::Bool(v) => {
            right(places.iter().map(|&i| if v[i] { "True" } else { "False" }.into()).collect())
        }
        HostData::I64(_) | HostData::I32(_) | HostData::U8(_) => {
            each_data!(data, v => right(places.iter().map(|&i| format!("{:?}", v[i])).collect()))
        }
    )
}

/// A number that is printed. Used as a trait object, so that the code that prints columns is
/// compiled once and not per float type.
trait Float: Display + LowerExp {
    fn wide(&self) -> f64;
}
impl Float for f32 {
    fn wide(&self) -> f64 {
        f64::from(*self)
    }
}
impl Float for f64 {
    fn wide(&self) -> f64 {
        *self
    }
}

fn halves(all: Vec<f32>) -> Vec<String> {
    floats(all.iter().map(|v| v as &dyn Float).collect())
}

fn floats(all: Vec<&dyn Float>) -> Vec<String> {
    let sizes = all.iter().map(|v| v.wide().abs()).filter(|v| v.is_finite() && *v != 0.0);
    let (large, small) = sizes.fold((0.0f64, f64::INFINITY), |(l, s), v| (l.max(v), s.min(v)));
    // NumPy's rule for scientific notation.
    let scientific = large >= 1e8 || (large > 0.0 && (small < 1e-4 || large / small > 1000.0));
    let parts: Vec<(String, String)> = all
        .into_iter()
        .map(|v| {
            let wide = v.wide();
            if wide.is_nan() {
                ("nan".into(), String::new())
            } else if wide.is_infinite() {
                (if wide > 0.0 { "inf" } else { "-inf" }.into(), String::new())
            } else if scientific {
                mantissa(v)
            } else {
                fixed(v)
            }
        })
        .collect();
    let right = parts.iter().map(|p| p.1.split('e').next().map_or(0, str::len)).max().unwrap_or(0);
    // Words without digits (nan, inf) may extend over the fraction column.
    let power = if scientific { 4 } else { 0 };
    let before = |p: &(String, String)| {
        if p.1.is_empty() { p.0.len().saturating_sub(right + power) } else { p.0.len() }
    };
    let left = parts.iter().map(before).max().unwrap_or(0);
    parts
        .into_iter()
        .map(|(whole, rest)| match rest.split_once('e') {
            Some((digits, power)) => format!("{whole:>left$}{digits:0<right$}e{power}"),
            None if rest.is_empty() => format!("{whole:>width$}", width = left + right + power),
            None => format!("{whole:>left$}{rest:<right$}"),
        })
        .collect()
}

/// The part before the point, and the point with the digits after it: the shortest that round-trip,
/// at most eight.
fn fixed(v: &dyn Float) -> (String, String) {
    let mut s = format!("{v}");
    if s.split_once('.').is_some_and(|(_, d)| d.len() > PRECISION) {
        s = format!("{v:.PRECISION$}");
    }
    let (whole, digits) = s.split_once('.').unwrap_or((&s, ""));
    (whole.into(), format!(".{}", digits.trim_end_matches('0')))
}

fn mantissa(v: &dyn Float) -> (String, String) {
    let mut s = format!("{v:e}");
    if s.split_once('e').is_some_and(|(m, _)| m.split_once('.').is_some_and(|(_, d)| d.len() > PRECISION)) {
        s = format!("{v:.PRECISION$e}");
    }
    let (m, power) = s.split_once('e').expect("the format writes an exponent");
    let (whole, digits) = m.split_once('.').unwrap_or((m, ""));
    let power: i32 = power.parse().expect("the format writes an integer");
    let sign = if power < 0 { '-' } else { '+' };
    (whole.into(), format!(".{}e{sign}{:02}", digits.trim_end_matches('0'), power.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use elinvar_core::{DType, Element};
    use elinvar_reference::{Reference, ReferenceDevice};

    type T = Tensor<Reference>;

    fn show<E: Element>(v: Vec<E>, shape: &[usize]) -> String {
        T::from_vec(v, shape, &ReferenceDevice).to_string()
    }

    #[test]
    fn digits_are_those_that_are_asked_for() {
        let x = T::new([[1.0f32, -2.346], [f32::NAN, f32::INFINITY]], &ReferenceDevice);
        assert_eq!(format!("{x:.2}"), "[[ 1.00 -2.35]\n [  nan   inf]]");
        assert_eq!(format!("{:.3}", x.i((0, 1))), "-2.346");
        assert_eq!(format!("{:.0}", T::new(2.5f64, &ReferenceDevice)), "2");
        assert_eq!(format!("{:.2}", T::new([1i64, 20], &ReferenceDevice)), "[ 1 20]");
    }

    /// The expanded view has more elements than could be read.
    #[test]
    fn only_the_edges_are_read() {
        let x = T::arange(0, 2000, 1, &ReferenceDevice).reshape([1, 2000]).expand([1i64 << 40, -1]);
        let row = "[   0    1    2 ... 1997 1998 1999]";
        let want = format!("[{row}\n {row}\n {row}\n ...\n {row}\n {row}\n {row}]");
        assert_eq!(x.to_string(), want);
        let deep = T::ones([1], DType::F32, &ReferenceDevice).reshape(vec![1; 100_000]);
        assert!(deep.to_string().starts_with("[1.] (shape [1, 1,"));
    }

    /// Each right side was printed by NumPy 2.
    #[test]
    fn prints_what_numpy_prints() {
        assert_eq!(show(vec![1.0f32, 2.5, -3.0], &[3]), "[ 1.   2.5 -3. ]");
        assert_eq!(show(vec![1i64, -20, 300, 4], &[2, 2]), "[[  1 -20]\n [300   4]]");
        assert_eq!(show(vec![true, false], &[2]), "[ True False]");
        assert_eq!(show(vec![0.1f32, 1.0 / 3.0], &[2]), "[0.1        0.33333334]");
        assert_eq!(show(vec![0.1f64, 1.0 / 3.0], &[2]), "[0.1        0.33333333]");
        assert_eq!(show(vec![1e-5f64, 1500.0], &[2]), "[1.0e-05 1.5e+03]");
        assert_eq!(show(vec![f32::NAN, 1.5, f32::NEG_INFINITY], &[3]), "[ nan  1.5 -inf]");
        assert_eq!(show(vec![2.0f32], &[]), "2.0");
        assert_eq!(show(vec![0i64; 8], &[2, 2, 2]), "[[[0 0]\n  [0 0]]\n\n [[0 0]\n  [0 0]]]");
        assert_eq!(show(Vec::<f32>::new(), &[0]), "[]");
        let long = show((0..2000i64).collect(), &[2000]);
        assert_eq!(long, "[   0    1    2 ... 1997 1998 1999]");
        let lines = show((0..30i64).collect(), &[30]);
        assert_eq!(
            lines,
            "[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23\n 24 25 26 27 28 29]"
        );
    }
}
