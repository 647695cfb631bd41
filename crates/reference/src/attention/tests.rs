//! Against the textbook formula in f64; and the rules for which the textbook has none.

use super::*;
use crate::tests::{layout, noise, view};
use elinvar_core::{DType, Layout, Shape, each_data};

const INF: f64 = f64::INFINITY;

fn wide(v: &HostData) -> Vec<f64> {
    use elinvar_core::Element;
    each_data!(v, v => v.iter().map(|x| x.to_f64()).collect())
}

/// One attention, its operands as f64, for the oracle.
struct Case {
    why: &'static str,
    z: Sizes,
    a: Attention,
    mask: Option<HostData>,
    spread: f32,
}

fn cases() -> Vec<Case> {
    let z = |b, h, j, l, s, d, v| Sizes { b, h, j, l, s, d, v };
    let a = |scale, causal| Attention::exact(scale, causal);
    let keep = |n: usize, period: usize| Some(HostData::Bool((0..n).map(|i| i % period != 0).collect()));
    let add = |n: usize, period: usize| {
        let v = noise(n, 77).into_iter().enumerate();
        Some(HostData::F64(v.map(|(i, v)| if i % period == 0 { -INF } else { f64::from(v) }).collect()))
    };
    let case = |why, z, a, mask| Case { why, z, a, mask, spread: 1.0 };
    vec![
        case("one block", z(2, 2, 2, 3, 5, 4, 3), a(0.5, false), None),
        case("whole blocks", z(1, 1, 1, 2, 128, 8, 8), a(0.35, false), None),
        case("a ragged last block", z(1, 2, 1, 3, 131, 4, 2), a(1.0, false), None),
        case("causal over blocks, grouped", z(2, 4, 2, 140, 140, 3, 2), a(1.0, true), None),
        case("causal, more queries than keys", z(1, 1, 1, 70, 3, 4, 4), a(1.0, true), None),
        case("causal, more keys than queries", z(1, 1, 1, 3, 70, 4, 4), a(1.0, true), None),
        case("truth mask with empty rows", z(1, 3, 1, 4, 5, 4, 3), a(0.5, false), keep(60, 1)),
        case("truth mask", z(1, 2, 1, 4, 70, 4, 3), a(0.5, false), keep(560, 3)),
        case("added mask, causal", z(1, 2, 2, 80, 75, 4, 3), a(0.5, true), add(12000, 4)),
        case("no keys", z(1, 2, 1, 2, 0, 4, 3), a(0.5, false), None),
        case("no queries", z(1, 2, 1, 0, 2, 4, 3), a(0.5, false), None),
        case("no numbers in a query", z(1, 1, 1, 2, 3, 0, 2), a(0.5, false), None),
        Case { spread: 30.0, ..case("scores of hundreds", z(1, 1, 1, 3, 70, 4, 3), a(0.5, false), None) },
    ]
}

impl Case {
    fn layouts(&self) -> [Layout; 4] {
        let z = &self.z;
        [
            layout(&[z.b, z.h, z.l, z.d]),
            layout(&[z.b, z.j, z.s, z.d]),
            layout(&[z.b, z.j, z.s, z.v]),
            layout(&[z.b, z.h, z.l, z.s]),
        ]
    }
    fn operands(&self) -> [Vec<f64>; 4] {
        let [q, k, v, _] = self.layouts().map(|l| l.shape().numel());
        let z = &self.z;
        [q, k, v, z.b * z.h * z.l * z.v]
            .map(|n| n)
            .into_iter()
            .enumerate()
            .map(|(i, n)| {
                let spread = if i < 2 { self.spread } else { 1.0 };
                noise(n, i as u64).iter().map(|&x| f64::from(x * spread)).collect()
            })
            .collect::<Vec<_>>()
            .try_into()
            .unwrap()
    }
    /// y, lse, dq, dk, dv by the textbook, in f64.
    fn oracle(&self) -> [Vec<f64>; 5] {
        let z = self.z;
        let [q, k, v, g] = self.operands();
        let mut y = vec![0.0; z.b * z.h * z.l * z.v];
        let mut lse = vec![-INF; z.b * z.h * z.l];
        let (mut dq, mut dk, mut dv) = (vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; v.len()]);
        for row in 0..z.b * z.h * z.l {
            let (b, h, i) = (row / z.l / z.h, row / z.l % z.h, row % z.l);
            let key = |s: usize| (b * z.j + h * z.j / z.h) * z.s + s;
            let dot = |x: &[f64], xr: usize, w: &[f64], wr: usize, n: usize| -> f64 {
                (0..n).map(|e| x[xr * n + e] * w[wr * n + e]).sum()
            };
            let scores: Vec<f64> = (0..z.s)
                .map(|s| {
                    let score = dot(&q, row, &k, key(s), z.d) * self.a.scale;
                    let masked = match &self.mask {
                        None => score,
                        Some(HostData::Bool(m)) => {
                            if m[row * z.s + s] {
                                score
                            } else {
                                -INF
                            }
                        }
                        Some(m) => score + wide(m)[row * z.s + s],
                    };
                    if self.a.causal && s > i { -INF } else { masked }
                })
                .collect();
            let m = scores.iter().copied().fold(-INF, f64::max);
            let total: f64 = scores.iter().map(|s| if m == -INF { 0.0 } else { (s - m).exp() }).sum();
            lse[row] = m + total.ln();
            let p: Vec<f64> =
                scores.iter().map(|s| if m == -INF { 0.0 } else { (s - m).exp() / total }).collect();
            for e in 0..z.v {
                y[row * z.v + e] = (0..z.s).map(|s| p[s] * v[key(s) * z.v + e]).sum();
            }
            let weighted = dot(&g, row, &y, row, z.v);
            for s in 0..z.s {
                let ds = p[s] * (dot(&g, row, &v, key(s), z.v) - weighted) * self.a.scale;
                for e in 0..z.d {
                    dq[row * z.d + e] += ds * k[key(s) * z.d + e];
                    dk[key(s) * z.d + e] += ds * q[row * z.d + e];
                }
                for e in 0..z.v {
                    dv[key(s) * z.v + e] += p[s] * g[row * z.v + e];
                }
            }
        }
        [y, lse, dq, dk, dv]
    }
    /// The same by this module.
    fn run(&self, dtype: DType) -> [HostData; 5] {
        let as_dtype = |v: Vec<f64>| {
            let x = HostData::F64(v.into());
            crate::memory::cast(&view(&x, &layout(&[x.len()])), dtype).unwrap()
        };
        let [q, k, v, g] = self.operands().map(as_dtype);
        let mask = self.mask.as_ref().map(|m| match m {
            HostData::Bool(_) => m.clone(),
            m => as_dtype(wide(m)),
        });
        let [ql, kl, vl, ml] = self.layouts();
        let (qv, kv, vv) = (view(&q, &ql), view(&k, &kl), view(&v, &vl));
        let mv = mask.as_ref().map(|m| view(m, &ml));
        let (y, lse) = attention(&self.a, &qv, &kv, &vv, mv.as_ref()).unwrap();
        let yl = layout(&[self.z.b, self.z.h, self.z.l, self.z.v]);
        let ll = layout(&[self.z.b, self.z.h, self.z.l]);
        let r = Results { o: view(&y, &yl), lse: view(&lse, &ll), g: view(&g, &yl) };
        let (dq, dk, dv) = attention_grad(&self.a, &qv, &kv, &vv, mv.as_ref(), &r).unwrap();
        assert_eq!((y.dtype(), lse.dtype(), dk.dtype()), (dtype, dtype.compute(), dtype));
        [y, lse, dq, dk, dv]
    }
}

#[test]
fn it_is_the_textbook_up_to_rounding() {
    for c in cases() {
        let want = c.oracle();
        // Rounding scores of `spread^2` changes weights by as much; the operands are exact in f32.
        let room = f64::from(c.spread * c.spread);
        for (dtype, tolerance) in [(DType::F64, 1e-13), (DType::F32, 1e-5)] {
            let got = c.run(dtype);
            for ((got, want), name) in got.iter().zip(&want).zip(["y", "lse", "dq", "dk", "dv"]) {
                assert_eq!(got.len(), want.len(), "{}: {name}", c.why);
                for (i, (got, want)) in wide(got).iter().zip(want).enumerate() {
                    let close = (got - want).abs() <= tolerance * room * want.abs().max(1.0);
                    assert!(got == want || close, "{}, {dtype}: {name}[{i}] is {got}, not {want}", c.why);
                }
            }
        }
    }
}

#[test]
fn halves_are_computed_in_f32_and_rounded_once() {
    for c in cases() {
        for dtype in [DType::F16, DType::BF16] {
            let round = |v: Vec<f64>| {
                let x = HostData::F64(v.into());
                let half = crate::memory::cast(&view(&x, &layout(&[x.len()])), dtype).unwrap();
                wide(&half)
            };
            // The same operands, rounded beforehand, in f32: the forward agrees after rounding.
            let [ql, kl, vl, _] = c.layouts();
            let [q, k, v, _] =
                c.operands().map(|v| HostData::F32(round(v).iter().map(|&x| x as f32).collect()));
            let mask = c.mask.as_ref().map(|m| match m {
                HostData::Bool(_) => m.clone(),
                m => HostData::F32(round(wide(m)).iter().map(|&x| x as f32).collect()),
            });
            let ml = c.layouts()[3].clone();
            let mv = mask.as_ref().map(|m| view(m, &ml));
            let (y, lse) =
                attention(&c.a, &view(&q, &ql), &view(&k, &kl), &view(&v, &vl), mv.as_ref()).unwrap();
            let half = c.run(dtype);
            assert_eq!(wide(&half[0]), round(wide(&y)), "{}", c.why);
            assert_eq!(half[1], lse, "{}", c.why);
        }
    }
}

#[test]
fn a_query_that_sees_no_key_gives_zero() {
    let c = Case {
        why: "",
        z: Sizes { b: 1, h: 1, j: 1, l: 2, s: 2, d: 1, v: 1 },
        a: Attention::exact(1.0, false),
        mask: Some(HostData::Bool([false, false, true, false].into())),
        spread: 1.0,
    };
    let [y, lse, dq, dk, dv] = c.run(DType::F32).map(|v| wide(&v));
    let [_, _, v, g] = c.operands();
    assert_eq!((y[0], lse[0], dq[0]), (0.0, -INF, 0.0));
    assert_eq!((y[1], dq[1], dk[1], dv[0]), (v[0], 0.0, 0.0, g[1])); // one key weighs exactly 1
}

#[test]
fn causal_is_a_mask_while_all_keys_are_in_one_block() {
    let z = Sizes { b: 1, h: 2, j: 1, l: 6, s: 7, d: 4, v: 3 };
    let triangle = (0..z.h * z.l * z.s).map(|i| i % z.s <= i / z.s % z.l).collect();
    let case = |causal, mask| Case { why: "", z, a: Attention::exact(0.5, causal), mask, spread: 1.0 };
    assert_eq!(case(true, None).run(DType::F32), case(false, Some(HostData::Bool(triangle))).run(DType::F32));
}

#[test]
fn a_query_depends_on_no_other_and_on_no_key_beyond_its_block() {
    let z = Sizes { b: 1, h: 1, j: 1, l: 140, s: 140, d: 3, v: 2 };
    let c = Case { why: "", z, a: Attention::exact(1.0, true), mask: None, spread: 1.0 };
    let [q, k, v, _] = c.operands().map(|v| HostData::F64(v.into()));
    let [ql, kl, vl, _] = c.layouts();
    let full = attention(&c.a, &view(&q, &ql), &view(&k, &kl), &view(&v, &vl), None).unwrap();
    for (l, s) in [(1, 64), (64, 64), (65, 128), (128, 128)] {
        let cut = |l: &Layout, n: usize| l.slice(2, 0, n, 1);
        let (ql, kl, vl) = (cut(&ql, l), cut(&kl, s), cut(&vl, s));
        let part = attention(&c.a, &view(&q, &ql), &view(&k, &kl), &view(&v, &vl), None).unwrap();
        assert_eq!(wide(&part.0), wide(&full.0)[..l * z.v], "{l} queries, {s} keys");
        assert_eq!(wide(&part.1), wide(&full.1)[..l], "{l} queries, {s} keys");
    }
}

#[test]
fn strided_operands() {
    let c = &cases()[0];
    let [q, k, v, _] = c.operands();
    // [b, l, h, d] seen as [b, h, l, d], as a projection gives it.
    let turned = |x: &[f64], l: &Layout| {
        let t = l.transpose(1, 2);
        let data = HostData::F64(t.positions().map(|p| x[p]).collect());
        (data, Layout::contiguous(Shape::clone(t.shape())).transpose(1, 2))
    };
    let [ql, kl, vl, _] = c.layouts();
    let ((qt, qtl), (kt, ktl), (vt, vtl)) = (turned(&q, &ql), turned(&k, &kl), turned(&v, &vl));
    let got = attention(&c.a, &view(&qt, &qtl), &view(&kt, &ktl), &view(&vt, &vtl), None).unwrap();
    assert_eq!(got.0, c.run(DType::F64)[0]);
}

#[test]
fn scores_that_are_not_finite() {
    let l = layout(&[1, 1, 1, 1]);
    let two = layout(&[1, 1, 2, 1]);
    let a = Attention::exact(1.0, false);
    let one = HostData::F32([1.0].into());
    // keys, values, is the result NaN?
    let rows = [
        ([f32::NAN, 0.0], [1.0, 1.0], true),
        ([f32::INFINITY, 0.0], [1.0, 1.0], true),
        ([f32::NEG_INFINITY, 0.0], [1.0, 1.0], false),
        ([f32::NEG_INFINITY, 0.0], [f32::INFINITY, 1.0], true), // 0 * inf
        ([f32::NEG_INFINITY, f32::NEG_INFINITY], [1.0, 1.0], false),
    ];
    for (k, v, nan) in rows {
        let (k, v) = (HostData::F32(k.to_vec().into()), HostData::F32(v.to_vec().into()));
        let (y, _) = attention(&a, &view(&one, &l), &view(&k, &two), &view(&v, &two), None).unwrap();
        assert_eq!(wide(&y)[0].is_nan(), nan, "{k:?} {v:?}");
    }
}
