//! Plans are those of `tests/plans/pool.tsv`.

use super::{AveragePlan, AverageRow, average, average_grad, average_row, max};
use crate::plan_table::{check, sizes};
use crate::pool::windows::PoolPlane;
use elinvar_core::DType;
use elinvar_ops::backend::{Pool, PoolKind, Windows};

/// `k3x3 s2x2 p1x1 d1x1`, and perhaps ` ceil` or ` exclude-pad`; or `to 7x7`, which divides a plane
/// evenly.
fn pool(spatial: &[usize], text: &str) -> Pool {
    let words: Vec<_> = text.split(' ').collect();
    let kind = PoolKind::Avg;
    if words[0] == "to" {
        let axis = |(&n, out): (&usize, usize)| {
            let start = |i: usize| i * n / out;
            let len: Vec<usize> = (0..out).map(|i| ((i + 1) * n).div_ceil(out) - start(i)).collect();
            let first = (0..out).map(|i| start(i) as isize).collect();
            Windows { start: first, divisor: len.clone(), len, dilation: 1 }
        };
        return Pool { kind, axes: spatial.iter().zip(sizes(words[1])).map(axis).collect() };
    }
    let [k, s, p, d] = [0, 1, 2, 3].map(|i| sizes::<usize>(&words[i][1..]));
    let (ceil, excludes) = (words.contains(&"ceil"), words.contains(&"exclude-pad"));
    let axis = |a: usize| {
        let (n, k, s, p, d) = (spatial[a], k[a], s[a], p[a], d[a]);
        let reach = (k - 1) * d + 1;
        let mut out = (n + 2 * p + if ceil { s - 1 } else { 0 } - reach) / s + 1;
        if ceil && (out - 1) * s >= n + p {
            out -= 1;
        }
        let mut all = Windows { start: Vec::new(), len: Vec::new(), divisor: Vec::new(), dilation: d };
        for i in 0..out {
            let start = (i * s) as isize - p as isize;
            let first = if start >= 0 { start } else { start.rem_euclid(d as isize) };
            let last = (start + (reach - 1) as isize).min(n as isize - 1);
            let end = (start + k as isize).min((n + p) as isize);
            let inside = end.min(n as isize) - start.max(0);
            all.start.push(first);
            all.len.push((last - first) as usize / d + 1);
            all.divisor.push(if excludes { inside } else { end - start }.max(1) as usize);
        }
        all
    };
    Pool { kind, axes: (0..spatial.len()).map(axis).collect() }
}

/// The paths of all rows of windows, those that are alike one after the other counted.
fn rows(plane: &PoolPlane, plan: &AveragePlan) -> String {
    let AveragePlan::Windows { even, .. } = plan else { return String::new() };
    let columns = plane.axes[2].get(even.from).map_or(0, |c| c.count);
    let lines = plane.axes[0].iter().flat_map(|a| plane.axes[1].iter().map(|b| a.count * b.count));
    let path = |taps: usize| match average_row(*even, plane.dilation[2], taps, columns) {
        AverageRow::Columns => "columns",
        AverageRow::Wide => "wide",
        AverageRow::Narrow => "narrow",
        AverageRow::Single => "single",
    };
    let all: Vec<_> = lines.map(path).collect();
    let counted: Vec<_> =
        all.chunk_by(|a, b| a == b).map(|same| format!("{}*{}", same.len(), same[0])).collect();
    format!(" rows={}", counted.join(","))
}

#[test]
fn plans_are_those_of_the_table() {
    check(include_str!("../../../tests/plans/pool.tsv"), |fields, _| {
        let &[op, dtype, spatial, windows] = fields else { panic!("four fields of a problem") };
        let dtype = match dtype {
            "f32" => DType::F32,
            "f16" => DType::F16,
            "bf16" => DType::BF16,
            "f64" => DType::F64,
            "i64" => DType::I64,
            "i32" => DType::I32,
            "u8" => DType::U8,
            _ => DType::Bool,
        };
        let spatial = sizes(spatial);
        let plane = PoolPlane::new(&pool(&spatial, windows), &spatial).expect("little memory");
        match op {
            "max" => max(&plane, dtype).to_string(),
            "avg" => {
                let plan = average(&plane);
                format!("{plan}{}", rows(&plane, &plan))
            }
            _ => average_grad(&plane).to_string(),
        }
    });
}
