//! The gradient of attention by tensor cores: near the definition, computed in f64.

use crate::backend::run_steps;
use elinvar_core::philox::{Stream, unit_f32};
use elinvar_core::{DType, HostData, Layout, Shape};
use elinvar_gpu_kernels::attention::{BackwardInputs, mma_backward};
use elinvar_gpu_kernels::launch::LaunchSequence;
use elinvar_ops::backend::Attention;

/// Batch, heads, heads of keys, queries, keys, width.
pub type Sizes = [usize; 6];

pub fn layout(dims: &[usize]) -> Layout {
    Layout::contiguous(Shape::new(dims).expect("small"))
}

/// Numbers of a type, and what they are.
fn noise(dtype: DType, stream: u64, n: usize, most: f32) -> (HostData, Vec<f64>) {
    let s = Stream { seed: 29, stream };
    host(dtype, (0..n as u64).map(|i| (unit_f32(s.word(i)) * 2.0 - 1.0) * most).collect())
}

fn host(dtype: DType, x: Vec<f32>) -> (HostData, Vec<f64>) {
    if dtype == DType::F16 {
        let x: Vec<half::f16> = x.into_iter().map(half::f16::from_f32).collect();
        let wide = x.iter().map(|x| x.to_f64()).collect();
        return (HostData::F16(x.into()), wide);
    }
    let x: Vec<half::bf16> = x.into_iter().map(half::bf16::from_f32).collect();
    let wide = x.iter().map(|x| x.to_f64()).collect();
    (HostData::BF16(x.into()), wide)
}

fn floats(x: &HostData) -> Vec<f64> {
    match x {
        HostData::F16(x) => x.iter().map(|x| x.to_f64()).collect(),
        HostData::BF16(x) => x.iter().map(|x| x.to_f64()).collect(),
        other => panic!("{}", other.dtype()),
    }
}

/// Sums and what they may be wrong by.
struct Sums {
    what: &'static str,
    sums: Vec<f64>,
    bounds: Vec<f64>,
}

impl Sums {
    fn new(what: &'static str, n: usize) -> Sums {
        Sums { what, sums: vec![0.0; n], bounds: vec![0.0; n] }
    }
    /// A weight times a row, to another row: the weight is rounded, and comes from something of a
    /// size.
    fn add(&mut self, row: usize, (weight, from): (f64, f64), right: &[f64], eps: f64) {
        for (e, r) in right.iter().enumerate() {
            let at = row * right.len() + e;
            self.sums[at] += weight * r;
            let error = eps * weight.abs() + 4e-5 * from + 2f64.powi(-24);
            self.bounds[at] += error * r.abs();
        }
    }
    fn check(&self, got: &[f64], factor: f64, eps: f64, case: &str) {
        for (at, &got) in got.iter().enumerate() {
            let want = self.sums[at] * factor;
            let bound = 1.05 * (self.bounds[at] * factor.abs() + eps * want.abs() + 2f64.powi(-24));
            let far = (got - want).abs();
            assert!(far <= bound, "{case}: {} {at}: {got}, {want} +- {bound:e}", self.what);
        }
    }
}

/// How a gradient is computed.
pub type How = fn(&Attention, DType, &BackwardInputs<'_>) -> LaunchSequence<'static>;

pub fn check(how: How, dtype: DType, sizes: Sizes, a: &Attention, seed: u64) {
    let [b, h, j, l, s, d] = sizes;
    let case = format!("{dtype} {sizes:?} {a:?}");
    let eps = if dtype == DType::F16 { 2f64.powi(-11) } else { 2f64.powi(-8) };
    let (q_data, q) = noise(dtype, seed, b * h * l * d, 2.0);
    let (k_data, k) = noise(dtype, seed + 1, b * j * s * d, 2.0);
    let (v_data, v) = noise(dtype, seed + 2, b * j * s * d, 2.0);
    let (g_data, g) = noise(dtype, seed + 3, b * h * l * d, 1.0);
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let line = |x: &[f64], row: usize| x[row * d..][..d].to_vec();
    let kept = |head: usize| head / h * j + head % h / (h / j);
    let seen = |i: usize| if a.causal { s.min(i + 1) } else { s };
    let score = |row: usize, t: usize| dot(&line(&q, row), &line(&k, kept(row / l) * s + t)) * a.scale;
    // What the forward leaves.
    let (mut o, mut lse) = (Vec::new(), Vec::new());
    for row in 0..b * h * l {
        let scores: Vec<f64> = (0..seen(row % l)).map(|t| score(row, t)).collect();
        let m = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scores.iter().map(|s| (s - m).exp()).sum();
        lse.push((m + sum.ln()) as f32);
        for e in 0..d {
            let of = |(t, score): (usize, &f64)| (score - m).exp() / sum * v[(kept(row / l) * s + t) * d + e];
            o.push(scores.iter().enumerate().map(of).sum::<f64>() as f32);
        }
    }
    let (o_data, o) = host(dtype, o);
    let lse_data = HostData::F32(lse.clone().into());
    let lse = |row: usize| f64::from(lse[row]);

    let [mut dq, mut dk, mut dv] =
        [("dq", b * h * l * d), ("dk", b * j * s * d), ("dv", b * j * s * d)].map(|(w, n)| Sums::new(w, n));
    for row in 0..b * h * l {
        let (query, slope) = (line(&q, row), line(&g, row));
        let sum = dot(&slope, &line(&o, row));
        for t in 0..seen(row % l) {
            let key = kept(row / l) * s + t;
            let p = (score(row, t) - lse(row)).exp();
            let dp = dot(&slope, &line(&v, key));
            let (ds, from) = (p * (dp - sum), p * (dp.abs() + sum.abs()));
            dq.add(row, (ds, from), &line(&k, key), eps);
            dk.add(key, (ds, from), &query, eps);
            dv.add(key, (p, p), &slope, eps);
        }
    }

    let (of_q, of_k, of_lse) = (layout(&[b, h, l, d]), layout(&[b, j, s, d]), layout(&[b, h, l]));
    let given = BackwardInputs { q: &of_q, k: &of_k, v: &of_k, o: &of_q, lse: &of_lse, g: &of_q, mask: None };
    let steps = how(a, dtype, &given);
    let got = run_steps(&steps, &[&q_data, &k_data, &v_data, &o_data, &lse_data, &g_data]);
    let got: Vec<Vec<f64>> = got.iter().map(|m| floats(&m.to_host().expect("it has a dtype"))).collect();
    dq.check(&got[0], a.scale, eps, &case);
    dk.check(&got[1], a.scale, eps, &case);
    dv.check(&got[2], 1.0, eps, &case);
}

#[test]
fn the_gradient_is_near_the_definition() {
    let rows: [(Sizes, bool, f64); 7] = [
        ([1, 1, 1, 1, 1, 32], false, 0.3),
        ([2, 2, 1, 70, 70, 32], true, 0.2),
        ([1, 1, 1, 40, 110, 32], false, -0.2),
        ([1, 4, 2, 33, 70, 64], false, 0.125),
        ([1, 2, 1, 100, 100, 64], true, 0.125),
        ([1, 1, 1, 66, 90, 128], true, 0.09),
        // Keys that no query sees.
        ([1, 1, 1, 20, 150, 64], true, 0.125),
    ];
    for (n, (sizes, causal, scale)) in rows.into_iter().enumerate() {
        for dtype in [DType::F16, DType::BF16] {
            check(mma_backward::attention_grad, dtype, sizes, &Attention::exact(scale, causal), 4 * n as u64);
        }
    }
}
