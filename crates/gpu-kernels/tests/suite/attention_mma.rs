//! Attention by tensor cores: near the definition, computed in f64, and equal to it where nothing
//! is rounded.

use crate::backend::{run_steps, run_work};
use elinvar_core::philox::{Stream, unit_f32};
use elinvar_core::{DType, HostData, Layout, Shape};
use elinvar_gpu_kernels::attention::{mma_forward, plan, split_kv};
use elinvar_gpu_kernels::launch::Work;
use elinvar_kernel::interp::Memory;
use elinvar_kernel::ir::{Elem, MmaShape};
use elinvar_ops::View;
use elinvar_ops::backend::Attention;
use elinvar_ops::backend::Compute;
use elinvar_reference::{Reference, ReferenceDevice};

/// Batch, heads, heads of keys, queries, keys, width.
pub type Sizes = [usize; 6];

pub struct Case {
    pub dtype: DType,
    pub sizes: Sizes,
    pub a: Attention,
    /// q, k, v, as they are one after the other.
    pub numbers: [Vec<f32>; 3],
}

pub fn layout(dims: &[usize]) -> Layout {
    Layout::contiguous(Shape::new(dims).expect("small"))
}

pub fn noise(stream: u64, n: usize, most: f32) -> Vec<f32> {
    let s = Stream { seed: 23, stream };
    (0..n as u64).map(|i| (unit_f32(s.word(i)) * 2.0 - 1.0) * most).collect()
}

fn half(dtype: DType, x: f32) -> f32 {
    if dtype == DType::F16 { half::f16::from_f32(x).to_f32() } else { half::bf16::from_f32(x).to_f32() }
}

fn host(dtype: DType, x: &[f32]) -> HostData {
    if dtype == DType::F16 {
        HostData::F16(x.iter().map(|&x| half::f16::from_f32(x)).collect())
    } else {
        HostData::BF16(x.iter().map(|&x| half::bf16::from_f32(x)).collect())
    }
}

pub fn floats(x: &HostData) -> Vec<f32> {
    match x {
        HostData::F16(x) => x.iter().map(|x| x.to_f32()).collect(),
        HostData::BF16(x) => x.iter().map(|x| x.to_f32()).collect(),
        HostData::F32(x) => x.to_vec(),
        other => panic!("{}", other.dtype()),
    }
}

impl Case {
    pub fn layouts(&self) -> [Layout; 3] {
        let [b, h, j, l, s, d] = self.sizes;
        [layout(&[b, h, l, d]), layout(&[b, j, s, d]), layout(&[b, j, s, d])]
    }
    /// y and lse as a device is given the work: of few queries and many keys, in parts.
    fn by_steps(&self) -> [HostData; 2] {
        let layouts = self.layouts();
        let [q, k, v] = &layouts;
        let few = plan::is_few_queries(&self.a, [q, k, v]);
        let steps = if few { split_kv::steps } else { mma_forward::steps };
        let all = steps(&self.a, self.dtype, [q, k, v]);
        assert_eq!(all.steps.len(), if few { 2 } else { 1 });
        let operands = self.numbers.each_ref().map(|x| host(self.dtype, x));
        let got = run_steps(&all, &operands.each_ref());
        [0, 1].map(|i| got[i].to_host().expect("it has a dtype"))
    }
    /// y and lse by the units' kernel, in the interpreter and on a machine for PTX.
    fn by_units(&self) -> [HostData; 2] {
        let layouts = self.layouts();
        self.by(&mma_forward::attention(&self.a, self.dtype, layouts.each_ref()).expect("there are queries"))
    }
    /// The same by some kernel.
    pub fn by(&self, work: &Work<'_>) -> [HostData; 2] {
        let [b, h, _, l, _, d] = self.sizes;
        let mut buffers: Vec<Memory> =
            self.numbers.iter().map(|x| Memory::from_host(&host(self.dtype, x))).collect();
        buffers.extend([Memory::of(self.dtype, b * h * l * d), Memory::of(DType::F32, b * h * l)]);
        run_work(work, &mut buffers);
        [3, 4].map(|i| buffers[i].to_host().expect("it has a dtype"))
    }
    pub fn by_definition(&self) -> [HostData; 2] {
        let (layouts, all) = (self.layouts(), self.numbers.each_ref().map(|x| host(self.dtype, x)));
        let view = |i: usize| View { buffer: &all[i], layout: &layouts[i], dtype: self.dtype };
        let (y, lse) = Reference::attention(&ReferenceDevice, &self.a, view(0), view(1), view(2), None)
            .expect("it is an attention");
        [y, lse]
    }

    /// In f64, with a bound for each number.
    fn check(&self) {
        self.is_near(self.by_units());
    }
    pub fn is_near(&self, got: [HostData; 2]) {
        let [b, h, j, l, s, d] = self.sizes;
        let what = format!("{} {:?} {:?}", self.dtype, self.sizes, self.a);
        let [y, lse] = got.each_ref().map(floats);
        let eps = if self.dtype == DType::F16 { 2f64.powi(-11) } else { 2f64.powi(-8) };
        let number = |i: usize, at: usize| f64::from(half(self.dtype, self.numbers[i][at]));
        for (head, i) in (0..b * h).flat_map(|head| (0..l).map(move |i| (head, i))) {
            let (row, kept) = (head * l + i, head / h * j + head % h / (h / j));
            let seen = if self.a.causal { s.min(i + 1) } else { s };
            let scores: Vec<f64> = (0..seen)
                .map(|t| {
                    let product = |e| number(0, row * d + e) * number(1, (kept * s + t) * d + e);
                    (0..d).map(product).sum::<f64>() * self.a.scale
                })
                .collect();
            let m = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|s| (s - m).exp()).collect();
            let sum: f64 = weights.iter().sum();
            let want = m + sum.ln();
            let got = f64::from(lse[row]);
            assert!((got - want).abs() <= 2e-5 * (1.0 + want.abs()), "{what}: lse of {row}: {got}, {want}");
            for e in 0..d {
                let of = |f: &dyn Fn(f64) -> f64| -> f64 {
                    let term = |(t, w): (usize, &f64)| w * f(number(2, (kept * s + t) * d + e));
                    weights.iter().enumerate().map(term).sum::<f64>() / sum
                };
                // A weight is rounded, and so is the result; what is small is rounded to what there
                // is.
                let (want, sizes) = (of(&|v| v), of(&f64::abs));
                let bound = 2.1 * eps * sizes + 1e-5 * sizes + seen as f64 * 2f64.powi(-24);
                let got = f64::from(y[row * d + e]);
                assert!((got - want).abs() <= bound, "{what}: y[{row}, {e}]: {got}, {want} +- {bound:e}");
            }
        }
    }
}

#[test]
fn attention_is_near_the_definition() {
    let rows: [(Sizes, bool, f64); 8] = [
        ([1, 1, 1, 1, 1, 32], false, 0.2),
        ([2, 2, 1, 70, 70, 32], true, 0.3),
        ([1, 1, 1, 130, 200, 32], false, -0.4),
        ([1, 2, 2, 33, 129, 64], false, 0.125),
        ([1, 1, 1, 150, 150, 64], true, 0.125),
        ([1, 2, 1, 66, 100, 128], true, 0.09),
        ([1, 1, 1, 20, 65, 128], false, 0.09),
        // Queries before which there are more keys than they see, and after which there are none.
        ([1, 1, 1, 140, 30, 64], true, 0.5),
    ];
    for (n, (sizes, causal, scale)) in rows.into_iter().enumerate() {
        for dtype in [DType::F16, DType::BF16] {
            let [b, h, j, l, s, d] = sizes;
            let numbers = [
                noise(3 * n as u64, b * h * l * d, 2.0),
                noise(3 * n as u64 + 1, b * j * s * d, 2.0),
                noise(3 * n as u64 + 2, b * j * s * d, 3.0),
            ];
            Case { dtype, sizes, a: Attention::exact(scale, causal), numbers }.check();
        }
    }
}

/// Whole parts and a piece of one; one part more than there is; keys that one part alone sees
/// something of.
#[test]
fn parts_are_joined() {
    let rows: [(Sizes, f64, DType); 4] = [
        ([2, 2, 1, 1, 1030, 32], 0.3, DType::F16),
        ([1, 2, 2, 16, 513, 64], 0.125, DType::BF16),
        ([1, 1, 1, 3, 1024, 128], 0.09, DType::F16),
        // Not many keys: one launch.
        ([1, 1, 1, 2, 512, 64], 0.125, DType::F16),
    ];
    for (n, (sizes, scale, dtype)) in rows.into_iter().enumerate() {
        let [b, h, j, l, s, d] = sizes;
        let mut keys = noise(3 * n as u64 + 40, b * j * s * d, 2.0);
        // Some keys count for much more than others, in the last part.
        keys[(s - 3) * d..(s - 2) * d].iter_mut().for_each(|k| *k *= 4.0);
        let numbers = [
            noise(3 * n as u64 + 41, b * h * l * d, 2.0),
            keys,
            noise(3 * n as u64 + 42, b * j * s * d, 3.0),
        ];
        let c = Case { dtype, sizes, a: Attention::exact(scale, false), numbers };
        let got = c.by_steps();
        c.is_near(got);
    }
    // A row has the bits that it has alone.
    let (d, s) = (64, 600);
    let numbers = [noise(1, 5 * d, 2.0), noise(2, s * d, 2.0), noise(3, s * d, 1.0)];
    let case = |queries: std::ops::Range<usize>| {
        let q = numbers[0][queries.start * d..queries.end * d].to_vec();
        let (sizes, a) = ([1, 1, 1, queries.len(), s, d], Attention::exact(0.125, false));
        Case { dtype: DType::F16, sizes, a, numbers: [q, numbers[1].clone(), numbers[2].clone()] }.by_steps()
    };
    let [y, lse] = case(0..5).each_ref().map(floats);
    let [one_y, one_lse] = case(3..4).each_ref().map(floats);
    assert_eq!((&y[3 * d..4 * d], lse[3]), (&one_y[..], one_lse[0]));
    // What is not a number stays none, in its row.
    let mut bad = numbers.clone();
    bad[0][d + 7] = f32::NAN;
    let a = Attention::exact(0.125, false);
    let [y, lse] = Case { dtype: DType::F16, sizes: [1, 1, 1, 5, s, d], a, numbers: bad }.by_steps();
    let (y, lse) = (floats(&y), floats(&lse));
    for i in 0..5 {
        assert_eq!(lse[i].is_nan(), i == 1, "row {i}");
        assert!(y[i * d..(i + 1) * d].iter().all(|v| v.is_nan() == (i == 1)), "row {i}");
    }
    // Few queries that are not causal, and no others.
    let layouts = [layout(&[1, 1, 4, 64]), layout(&[1, 1, 600, 64]), layout(&[1, 1, 600, 64])];
    let all = layouts.each_ref();
    assert!(plan::is_few_queries(&Attention::exact(1.0, false), all));
    assert!(!plan::is_few_queries(&Attention::exact(1.0, true), all));
    let many = layout(&[1, 1, 17, 64]);
    assert!(!plan::is_few_queries(&Attention::exact(1.0, false), [&many, all[1], all[2]]));
}

/// Equal weights of a power of two keys, of whole values: nothing is rounded but the logarithm,
/// which is the definition's.
#[test]
fn a_mean_is_the_definitions() {
    for (dtype, d, s) in [(DType::F16, 32, 64), (DType::BF16, 64, 128), (DType::F16, 128, 8)] {
        let v = (0..s * d).map(|i| (i * 7 % 16) as f32 - 8.0).collect();
        let numbers = [vec![0.0; 40 * d], noise(1, s * d, 1.0), v];
        let a = Attention::exact(0.5, false);
        let c = Case { dtype, sizes: [1, 1, 1, 40, s, d], a, numbers };
        assert_eq!(c.by_units(), c.by_definition(), "{dtype} {d} {s}");
    }
    // Nothing to see.
    let numbers = [noise(1, 64, 1.0), Vec::new(), Vec::new()];
    let a = Attention::exact(0.5, true);
    let c = Case { dtype: DType::F16, sizes: [1, 1, 1, 2, 0, 32], a, numbers };
    assert_eq!(c.by_units(), c.by_definition());
}

/// A row has the bits that it has alone; so it has in a causal tile, where blocks that it sees
/// nothing of follow.
#[test]
fn rows_know_nothing_of_each_other() {
    let d = 64;
    let numbers = [noise(1, 150 * d, 2.0), noise(2, 150 * d, 2.0), noise(3, 150 * d, 1.0)];
    let case = |queries: std::ops::Range<usize>, keys: usize, causal| {
        let part = |i: usize, r: std::ops::Range<usize>| numbers[i][r.start * d..r.end * d].to_vec();
        let sizes = [1, 1, 1, queries.len(), keys, d];
        let numbers = [part(0, queries), part(1, 0..keys), part(2, 0..keys)];
        Case { dtype: DType::F16, sizes, a: Attention::exact(0.125, causal), numbers }.by_units()
    };
    let [y, lse] = case(0..150, 150, false).each_ref().map(floats);
    let [one_y, one_lse] = case(77..78, 150, false).each_ref().map(floats);
    assert_eq!((&y[77 * d..78 * d], lse[77]), (&one_y[..], one_lse[0]));
    let [y, lse] = case(0..150, 150, true).each_ref().map(floats);
    let [one_y, one_lse] = case(77..78, 78, false).each_ref().map(floats);
    assert_eq!((&y[77 * d..78 * d], lse[77]), (&one_y[..], one_lse[0]));
}

/// NaN stays NaN, and changes no other row.
#[test]
fn a_nan_fills_its_row() {
    let (d, n) = (32, 70);
    let mut numbers = [noise(1, n * d, 1.0), noise(2, n * d, 1.0), noise(3, n * d, 1.0)];
    numbers[0][5 * d + 3] = f32::NAN;
    let a = Attention::exact(0.2, false);
    let [y, lse] = Case { dtype: DType::F16, sizes: [1, 1, 1, n, n, d], a, numbers }.by_units();
    let (y, lse) = (floats(&y), floats(&lse));
    for i in 0..n {
        assert_eq!(lse[i].is_nan(), i == 5);
        assert!(y[i * d..(i + 1) * d].iter().all(|v| v.is_nan() == (i == 5)), "row {i}");
    }
}

#[test]
fn what_does_not_fit() {
    let unit = MmaShape { elem: Elem::F16, shape: [16; 3] };
    let good = layout(&[1, 2, 8, 64]);
    let of = |dims: &[usize]| layout(dims);
    let fits = |unit, dtype, all: [&Layout; 3], masked| mma_forward::fits(unit, dtype, all, masked);
    assert!(fits(unit, DType::F16, [&good; 3], false));
    assert!(!fits(unit, DType::F16, [&good; 3], true), "a mask");
    assert!(!fits(unit, DType::BF16, [&good; 3], false), "another type");
    assert!(!fits(MmaShape { shape: [16, 8, 16], ..unit }, DType::F16, [&good; 3], false), "another shape");
    assert!(!fits(unit, DType::F16, [&of(&[1, 2, 8, 48]); 3], false), "a width of 48");
    assert!(!fits(unit, DType::F16, [&good, &good, &of(&[1, 2, 8, 32])], false), "narrow values");
    let turned = of(&[1, 2, 64, 8]).transpose(2, 3);
    assert!(!fits(unit, DType::F16, [&good, &turned, &good], false), "keys that lie across");
}
