//! Every call has the bits of the library's op, and the same bits on every backend.

use crate::{TYPES, fast, free, get, noise, put, reference, same};
use elinvar_compute::BackendTranspose::{self, ConjTrans, NoTrans, Trans};
use elinvar_compute::{BinaryOp, ComputeBackend, ReduceOp, UnaryOp};
use elinvar_core::{DType, Layout, Shape};
use elinvar_ops::{Array, catalogue as op};
use elinvar_reference::{Reference, ReferenceDevice};

type Host = Array<Reference>;

/// A call on raw memory and, where there is one, what the library's op gives.
type Outcome = (String, Vec<f64>, Option<Vec<f64>>);

fn host(dtype: DType, v: &[f64], shape: &[usize]) -> Host {
    let wide = Host::from_vec(&ReferenceDevice, v.to_vec(), shape).unwrap();
    wide.cast(dtype).unwrap()
}
fn list(x: elinvar_core::Result<Host>) -> Option<Vec<f64>> {
    Some(x.unwrap().to_host().unwrap().to_f64_vec())
}

/// op(A) by rows, from a matrix stored by columns.
fn stored(dtype: DType, v: &[f64], t: BackendTranspose, rows: usize, columns: usize, ld: usize) -> Host {
    let strides = if t.is_transposed() { [ld as isize, 1] } else { [1, ld as isize] };
    let layout = Layout::strided(Shape::new(&[rows, columns]).unwrap(), &strides, 0, v.len()).unwrap();
    host(dtype, v, &[v.len()]).with_layout(layout)
}

/// Products of all kinds of storage, into memory of their own and into the midst of other memory.
fn products(raw: &dyn ComputeBackend, dtype: DType, out: &mut Vec<Outcome>) {
    let nan = f64::NAN;
    let rows = [
        // m, n, k, gaps between columns, alpha, beta
        (5, 4, 3, 0, 1.0, 0.0),
        (17, 33, 9, 0, 1.0, 0.0),
        (7, 6, 600, 2, -1.5, 0.0),
        (8, 9, 10, 1, 0.75, 0.3),
        (1, 7, 5, 0, 1.0, 1.0),
        (6, 1, 5, 3, 2.0, 1.0),
        (3, 4, 0, 0, 2.0, 0.5),
        (3, 4, 5, 1, 0.0, 2.0),
        (3, 4, 5, 1, 0.0, 0.0),
    ];
    let both = [NoTrans, Trans, ConjTrans];
    for (i, (m, n, k, gap, alpha, beta)) in rows.into_iter().enumerate() {
        let (ta, tb) = (both[i % 3], both[(i / 2) % 3]);
        let ([ar, ac], [br, bc]) = (
            if ta.is_transposed() { [k, m] } else { [m, k] },
            if tb.is_transposed() { [n, k] } else { [k, n] },
        );
        let (lda, ldb, ldc) = (ar.max(1) + gap, br.max(1) + gap, m + gap);
        let (mut a, mut b) = (noise(lda * ac.max(1), 1), noise(ldb * bc.max(1), 2));
        let mut c = noise(ldc * n, 3);
        if beta == 0.0 {
            c.iter_mut().for_each(|x| *x = nan);
        }
        if alpha == 0.0 {
            a.iter_mut().chain(&mut b).for_each(|x| *x = nan);
        }
        let (pa, pb) = (put(raw, dtype, &a).unwrap(), put(raw, dtype, &b).unwrap());
        let pc = put(raw, dtype, &c).unwrap();
        // The same C in the midst of other memory: what is around it stays.
        let around: Vec<f64> = noise(3, 4).into_iter().chain(c.clone()).chain(noise(5, 5)).collect();
        let pd = put(raw, dtype, &around).unwrap();
        let inner = pd + 3 * dtype.size() as u64;
        for to in [pc, inner] {
            raw.gemm(ta, tb, m, n, k, alpha, pa, lda, pb, ldb, beta, to, ldc).unwrap();
        }
        let product = |old: &[f64]| {
            let c = stored(dtype, old, NoTrans, m, n, ldc);
            let y = if alpha == 0.0 || k == 0 {
                let zero = Host::full(&ReferenceDevice, c.shape(), 0i64.into(), dtype).unwrap();
                if beta == 0.0 { zero } else { op::mul(&c, &host(dtype, &[beta], &[])).unwrap() }
            } else {
                let x = stored(dtype, &a, ta, m, k, lda);
                op::addmm(&c, &x, &stored(dtype, &b, tb, k, n, ldb), beta, alpha).unwrap()
            };
            let y = op::transpose(&y, 0, 1).unwrap().to_host().unwrap().to_f64_vec();
            let mut all = old.to_vec();
            for (i, x) in y.into_iter().enumerate() {
                all[i / m * ldc + i % m] = x;
            }
            all
        };
        let want = product(&c);
        let whole: Vec<f64> = noise(3, 4).into_iter().chain(want.clone()).chain(noise(5, 5)).collect();
        let name = format!("gemm {ta}{tb} {m} {n} {k} gap {gap} alpha {alpha} beta {beta}");
        out.push((name.clone(), get(raw, dtype, pc, c.len()).unwrap(), Some(want)));
        out.push((format!("{name}, inside"), get(raw, dtype, pd, around.len()).unwrap(), Some(whole)));
        free(raw, &[pa, pb, pc, pd]);
    }
}

/// Batches, and blocks of one matrix.
fn batches(raw: &dyn ComputeBackend, dtype: DType, out: &mut Vec<Outcome>) {
    let (m, n, k) = (4, 3, 5);
    let (a, b) = (noise(3 * m * k, 6), noise(k * n, 7));
    let (pa, pb) = (put(raw, dtype, &a).unwrap(), put(raw, dtype, &b).unwrap());
    let pc = put(raw, dtype, &noise(3 * m * n, 8)).unwrap();
    // One B for all; the C's columns lie in turn.
    raw.batched_gemm(NoTrans, NoTrans, m, n, k, 1.5, pa, m, m * k, pb, k, 0, 0.5, pc, 3 * m, m, 3).unwrap();
    let old = noise(3 * m * n, 8);
    let mut want = old.clone();
    for i in 0..3 {
        let x = stored(dtype, &a[i * m * k..][..m * k], NoTrans, m, k, m);
        let c = stored(dtype, &old[i * m..], NoTrans, m, n, 3 * m);
        let y = op::addmm(&c, &x, &stored(dtype, &b, NoTrans, k, n, k), 0.5, 1.5).unwrap();
        for (j, v) in op::transpose(&y, 0, 1).unwrap().to_host().unwrap().to_f64_vec().into_iter().enumerate()
        {
            want[i * m + j / m * 3 * m + j % m] = v;
        }
    }
    out.push(("batched_gemm".into(), get(raw, dtype, pc, 3 * m * n).unwrap(), Some(want)));
    free(raw, &[pa, pb, pc]);
    // A22 -= A21 A12 in a matrix of 7 rows, as a blocked factorisation has it.
    let (rows, cut) = (7, 3);
    let all = noise(rows * rows, 9);
    let p = put(raw, dtype, &all).unwrap();
    let at = |row: usize, column: usize| p + ((column * rows + row) * dtype.size()) as u64;
    let rest = rows - cut;
    raw.gemm(
        NoTrans,
        NoTrans,
        rest,
        rest,
        cut,
        -1.0,
        at(cut, 0),
        rows,
        at(0, cut),
        rows,
        1.0,
        at(cut, cut),
        rows,
    )
    .unwrap();
    let x = stored(dtype, &all[cut..], NoTrans, rest, cut, rows);
    let w = stored(dtype, &all[cut * rows..], NoTrans, cut, rest, rows);
    let c = stored(dtype, &all[cut * rows + cut..], NoTrans, rest, rest, rows);
    let y = op::transpose(&op::addmm(&c, &x, &w, 1.0, -1.0).unwrap(), 0, 1).unwrap();
    let mut want = all.clone();
    for (i, v) in y.to_host().unwrap().to_f64_vec().into_iter().enumerate() {
        want[(cut + i / rest) * rows + cut + i % rest] = v;
    }
    out.push(("gemm of blocks".into(), get(raw, dtype, p, all.len()).unwrap(), Some(want)));
    raw.free(p).unwrap();
}

/// Elementwise calls, in place and not, and reductions.
fn elements(raw: &dyn ComputeBackend, dtype: DType, out: &mut Vec<Outcome>) {
    let special = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-40, -3.5];
    let v: Vec<f64> = special.into_iter().chain(noise(60, 10)).collect();
    let w: Vec<f64> = noise(62, 11).into_iter().chain([-0.0, 0.0, 1.0, f64::NAN, 2.0]).collect();
    let n = v.len();
    let (x, y) = (host(dtype, &v, &[n]), host(dtype, &w, &[n]));
    for &f in UnaryOp::ALL {
        let want = list(match f {
            UnaryOp::Relu => op::relu(&x),
            UnaryOp::Sigmoid => op::sigmoid(&x),
            UnaryOp::Tanh => op::tanh(&x),
            UnaryOp::Exp => op::exp(&x),
            UnaryOp::Log => op::log(&x),
            UnaryOp::Sqrt => op::sqrt(&x),
            UnaryOp::Abs => op::abs(&x),
            UnaryOp::Neg => op::neg(&x),
        });
        let (p, q) = (put(raw, dtype, &v).unwrap(), put(raw, dtype, &w).unwrap());
        raw.unary(f, p, q, n).unwrap();
        raw.unary(f, p, p, n).unwrap();
        for p in [p, q] {
            out.push((f.to_string(), get(raw, dtype, p, n).unwrap(), want.clone()));
            raw.free(p).unwrap();
        }
    }
    for &f in BinaryOp::ALL {
        let want = list(match f {
            BinaryOp::Add => op::add(&x, &y),
            BinaryOp::Sub => op::sub(&x, &y),
            BinaryOp::Mul => op::mul(&x, &y),
            BinaryOp::Div => op::div(&x, &y),
            BinaryOp::Max => op::maximum(&x, &y),
            BinaryOp::Min => op::minimum(&x, &y),
        });
        // All in one piece of memory, over the second operand, then into the memory behind it.
        let p = put(raw, dtype, &[v.clone(), w.clone(), vec![7.0; n]].concat()).unwrap();
        let [_, q, r] = [0, 1, 2].map(|i| p + (i * n * dtype.size()) as u64);
        raw.binary(f, p, q, r, n).unwrap();
        raw.binary(f, p, q, q, n).unwrap();
        for q in [q, r] {
            out.push((format!("{f} of two"), get(raw, dtype, q, n).unwrap(), want.clone()));
        }
        out.push((format!("the operand of {f}"), get(raw, dtype, p, n).unwrap(), list(Ok(x.clone()))));
        raw.free(p).unwrap();
    }
    for (shape, axis) in
        [(vec![3, 5, 4], 1), (vec![4097], 0), (vec![2, 300], 1), (vec![2, 0, 3], 1), (vec![6, 1], 0)]
    {
        let n: usize = shape.iter().product();
        let v = noise(n, 12);
        let x = host(dtype, &v, &shape);
        let (p, dims) = (put(raw, dtype, &[v, vec![0.0]].concat()).unwrap(), [axis as isize]);
        for &f in ReduceOp::ALL {
            if shape.contains(&0) && matches!(f, ReduceOp::Max | ReduceOp::Min) {
                continue;
            }
            let want = list(match f {
                ReduceOp::Sum => op::sum(&x, Some(&dims), false),
                ReduceOp::Mean => op::mean(&x, Some(&dims), false),
                ReduceOp::Max => op::amax(&x, Some(&dims), false),
                ReduceOp::Min => op::amin(&x, Some(&dims), false),
            });
            let len = want.as_ref().unwrap().len();
            let q = put(raw, dtype, &vec![9.0; len]).unwrap();
            raw.reduce(f, p, q, &shape, axis).unwrap();
            out.push((format!("{f} {shape:?} {axis}"), get(raw, dtype, q, len).unwrap(), want));
            raw.free(q).unwrap();
        }
        raw.free(p).unwrap();
    }
}

/// Convolutions and attention.
fn networks(raw: &dyn ComputeBackend, dtype: DType, out: &mut Vec<Outcome>) {
    let rows = [([2, 3, 7, 6], [4, 3, 3, 2], [2, 1], [1, 0]), ([1, 1, 5, 5], [2, 1, 5, 5], [1, 3], [2, 2])];
    for (x, w, stride, padding) in rows {
        let area = |s: &[usize]| s.iter().product::<usize>();
        let (vx, vw) = (noise(area(&x), 13), noise(area(&w), 14));
        let conv =
            op::conv2d(&host(dtype, &vx, &x), &host(dtype, &vw, &w), None, &stride, &padding.into(), &[1], 1)
                .unwrap();
        let y = conv.shape().dims().to_vec();
        let [px, pw] = [&vx, &vw].map(|v| put(raw, dtype, v).unwrap());
        let py = put(raw, dtype, &vec![9.0; area(&y)]).unwrap();
        raw.conv2d_forward(px, &x, pw, &w, py, &y, &stride, &padding).unwrap();
        out.push((format!("conv {x:?} {w:?}"), get(raw, dtype, py, area(&y)).unwrap(), list(Ok(conv))));
        free(raw, &[px, pw, py]);
    }
    for (l, s, causal) in
        [(5, 5, false), (70, 70, true), (1, 9, true), (3, 7, true), (4, 2, true), (4, 0, false)]
    {
        let (b, h, d) = (2, 3, 8);
        let [q, k, v] = [(l, 15), (s, 16), (s, 17)].map(|(n, seed)| noise(b * h * n * d, seed));
        let [x, y, z] = [(&q, l), (&k, s), (&v, s)].map(|(v, n)| host(dtype, v, &[b, h, n, d]));
        let seen: Vec<bool> = (0..l * s).map(|i| i % s + l <= i / s + s).collect();
        let mask = Host::from_vec(&ReferenceDevice, seen, &[l, s]).unwrap();
        let mask = Some(&mask).filter(|_| causal && l != s);
        let want = op::scaled_dot_product_attention(&x, &y, &z, mask, causal && l == s, Some(0.3), false);
        let p = [&q, &k, &v].map(|v| put(raw, dtype, &[&v[..], &[0.0]].concat()).unwrap());
        let o = put(raw, dtype, &vec![9.0; b * h * l * d]).unwrap();
        raw.attention(p[0], p[1], p[2], o, b, h, l, s, d, 0.3, causal).unwrap();
        out.push((
            format!("attention {l} {s} {causal}"),
            get(raw, dtype, o, b * h * l * d).unwrap(),
            list(want),
        ));
        free(raw, &[p[0], p[1], p[2], o]);
    }
}

fn all(raw: &dyn ComputeBackend, dtype: DType) -> Vec<Outcome> {
    let mut out = vec![];
    products(raw, dtype, &mut out);
    batches(raw, dtype, &mut out);
    // A software Vulkan device takes half a minute to compile the elementary functions of f64.
    if (raw.name(), dtype) != ("vulkan", DType::F64) {
        elements(raw, dtype, &mut out);
        networks(raw, dtype, &mut out);
    }
    raw.synchronize().unwrap();
    out
}

#[test]
fn calls_have_the_bits_of_ops_on_every_backend() {
    for dtype in TYPES {
        let raw = reference(dtype);
        for backend in [&raw as &dyn ComputeBackend].into_iter().chain(fast(dtype).iter().map(|b| &**b)) {
            let got = all(backend, dtype);
            for (name, got, want) in got {
                let want = want.expect("every call has an op");
                assert!(same(&got, &want), "{} {dtype}: {name}\n{got:?}\n{want:?}", backend.name());
            }
        }
        assert_eq!(raw.usage(), elinvar_compute::Usage::default());
    }
}
