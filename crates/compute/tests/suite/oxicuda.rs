//! One program over the published trait, on its own backend for the processor and on ours.

use crate::random::Dice;
use elinvar_compute::Raw;
use elinvar_cpu::{Cpu, CpuDevice};
use elinvar_reference::{Reference, ReferenceDevice};
use oxicuda_backend::BackendTranspose::{ConjTrans, NoTrans, Trans};
use oxicuda_backend::{
    BackendError, BackendKind, BackendResult, BinaryOp, ComputeBackend, CpuBackend, MixedPrecision, ReduceOp,
    UnaryOp,
};

fn put32(b: &dyn ComputeBackend, v: &[f32]) -> BackendResult<u64> {
    let p = b.alloc(v.len() * 4)?;
    b.copy_htod(p, &v.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<u8>>())?;
    Ok(p)
}
fn get32(b: &dyn ComputeBackend, p: u64, n: usize) -> BackendResult<Vec<f64>> {
    let mut all = vec![0; n * 4];
    b.copy_dtoh(&mut all, p)?;
    Ok(all.chunks_exact(4).map(|x| f64::from(f32::from_ne_bytes(x.try_into().unwrap()))).collect())
}
fn put64(b: &dyn ComputeBackend, v: &[f64]) -> BackendResult<u64> {
    let p = b.alloc(v.len() * 8)?;
    b.copy_htod(p, &v.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<u8>>())?;
    Ok(p)
}
fn get64(b: &dyn ComputeBackend, p: u64, n: usize) -> BackendResult<Vec<f64>> {
    let mut all = vec![0; n * 8];
    b.copy_dtoh(&mut all, p)?;
    Ok(all.chunks_exact(8).map(|x| f64::from_ne_bytes(x.try_into().unwrap())).collect())
}

/// Calls, and what came out.
type Outcomes = Vec<(String, Vec<f64>)>;

/// Every method of the trait.
fn program(b: &mut dyn ComputeBackend) -> BackendResult<Outcomes> {
    b.init()?;
    assert!(b.is_initialized());
    let b: &dyn ComputeBackend = b;
    let mut dice = Dice::new(5);
    let mut noise = |n: usize| (0..n).map(|_| dice.number() as f32).collect::<Vec<f32>>();
    let wide = |v: &[f32]| v.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
    let mut out = vec![];
    let (m, n, k) = (5, 4, 7);
    let (a, w, c) = (noise(m * k), noise(k * n), noise(m * n));
    for (i, ta) in [NoTrans, Trans, ConjTrans].into_iter().enumerate() {
        for tb in [NoTrans, Trans] {
            let (pa, pb, pc) = (put64(b, &wide(&a))?, put64(b, &wide(&w))?, put64(b, &wide(&c))?);
            let (lda, ldb) = (if ta == NoTrans { m } else { k }, if tb == NoTrans { k } else { n });
            b.gemm(ta, tb, m, n, k, 1.5, pa, lda, pb, ldb, i as f64 * 0.5, pc, m)?;
            out.push((format!("gemm {ta}{tb}"), get64(b, pc, m * n)?));
            b.batched_gemm(ta, tb, m, n, k, 1.0, pa, lda, 0, pb, ldb, 0, 0.0, pc, m, 0, 1)?;
            out.push((format!("batched_gemm {ta}{tb}"), get64(b, pc, m * n)?));
            for prec in [MixedPrecision::F16, MixedPrecision::Bf16] {
                let (pa, pb, pc) = (put32(b, &a)?, put32(b, &w)?, put32(b, &c)?);
                b.gemm_mixed_precision(prec, ta, tb, m, n, k, 1.5, pa, lda, pb, ldb, 0.5, pc, m)?;
                out.push((format!("gemm of {prec} {ta}{tb}"), get32(b, pc, m * n)?));
                [pa, pb, pc].into_iter().try_for_each(|p| b.free(p))?;
            }
            [pa, pb, pc].into_iter().try_for_each(|p| b.free(p))?;
        }
    }
    networks(b, &mut noise, &mut out)?;
    elements(b, &mut noise, &mut out)?;
    b.synchronize()?;
    Ok(out)
}

/// Convolutions and attention.
fn networks(
    b: &dyn ComputeBackend,
    noise: &mut dyn FnMut(usize) -> Vec<f32>,
    out: &mut Outcomes,
) -> BackendResult<()> {
    let (x, w, y) = ([2, 3, 6, 5], [4, 3, 3, 2], [2, 4, 3, 6]);
    let (stride, padding) = ([2, 1], [1, 1]);
    let [vx, vw, vy] = [x, w, y].map(|s| noise(s.iter().product()));
    let (px, pw, py) = (put32(b, &vx)?, put32(b, &vw)?, put32(b, &vy)?);
    b.conv2d_backward_data(py, &y, pw, &w, px, &x, &stride, &padding)?;
    out.push(("conv2d_backward_data".into(), get32(b, px, vx.len())?));
    b.conv2d_backward_filter(px, &x, py, &y, pw, &w, &stride, &padding)?;
    out.push(("conv2d_backward_filter".into(), get32(b, pw, vw.len())?));
    b.conv2d_forward(px, &x, pw, &w, py, &y, &stride, &padding)?;
    out.push(("conv2d_forward".into(), get32(b, py, vy.len())?));
    [px, pw, py].into_iter().try_for_each(|p| b.free(p))?;
    for (l, s, causal) in [(4, 4, false), (4, 4, true), (2, 5, true)] {
        let (batch, heads, d) = (2, 2, 6);
        let [q, k, v, o] = [l, s, s, l].map(|n| noise(batch * heads * n * d));
        let p = [put32(b, &q)?, put32(b, &k)?, put32(b, &v)?, put32(b, &o)?];
        b.attention(p[0], p[1], p[2], p[3], batch, heads, l, s, d, 0.4, causal)?;
        out.push((format!("attention {l} {s} {causal}"), get32(b, p[3], o.len())?));
        p.into_iter().try_for_each(|p| b.free(p))?;
    }
    Ok(())
}

/// Elements, reductions, rows.
fn elements(
    b: &dyn ComputeBackend,
    noise: &mut dyn FnMut(usize) -> Vec<f32>,
    out: &mut Outcomes,
) -> BackendResult<()> {
    let v = noise(60);
    let (p, q) = (put32(b, &v)?, put32(b, &noise(60))?);
    for op in [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Mean] {
        for axis in 0..3 {
            b.reduce(op, p, q, &[3, 4, 5], axis)?;
            out.push((format!("{op} {axis}"), get32(b, q, 60 / [3, 4, 5][axis])?));
        }
    }
    for op in [
        UnaryOp::Relu,
        UnaryOp::Sigmoid,
        UnaryOp::Tanh,
        UnaryOp::Exp,
        UnaryOp::Abs,
        UnaryOp::Neg,
        UnaryOp::Sqrt,
        UnaryOp::Log,
    ] {
        // Of positive numbers, where others have no result.
        let from = if matches!(op, UnaryOp::Sqrt | UnaryOp::Log) { q } else { p };
        b.unary(UnaryOp::Exp, p, q, 60)?;
        b.unary(op, from, q, 60)?;
        out.push((op.to_string(), get32(b, q, 60)?));
    }
    for op in [BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Div, BinaryOp::Max, BinaryOp::Min] {
        b.unary(UnaryOp::Exp, p, q, 60)?;
        b.binary(op, p, q, q, 60)?;
        out.push((op.to_string(), get32(b, q, 60)?));
    }
    b.softmax(p, q, &[3, 4, 5], 1)?;
    out.push(("softmax".into(), get32(b, q, 60)?));
    b.gather(p, &[4, 0, 4], q, 6, 10)?;
    out.push(("gather".into(), get32(b, q, 30)?));
    b.scatter(q, &[1, 5, 1], p, 6, 10)?;
    out.push(("scatter".into(), get32(b, p, 60)?));
    [p, q].into_iter().try_for_each(|p| b.free(p))?;
    // What is refused is refused by both.
    let bad = [b.free(p), b.unary(UnaryOp::Exp, p, q, 4), b.copy_htod(q, &[0; 4])];
    assert!(bad.iter().all(|r| matches!(r, Err(BackendError::InvalidArgument(_)))), "{bad:?}");
    assert!(b.alloc(0).is_err());
    Ok(())
}

#[test]
fn a_program_runs_on_the_published_backend_and_on_ours() {
    let want = program(&mut CpuBackend::new()).unwrap();
    let mut ours = [vec![], vec![]];
    let mut raw = Raw::<Cpu>::as_published(CpuDevice::default());
    ours[0] = program(&mut raw).unwrap();
    assert_eq!(raw.usage(), elinvar_compute::Usage::default());
    let raw = &mut Raw::<Reference>::as_published(ReferenceDevice);
    ours[1] = program(raw).unwrap();
    for ((name, got), (_, want)) in ours[0].iter().zip(&want) {
        // The published backend adds without fma and takes exp from the platform: a few roundings
        // of f32 (2^-24) of numbers below 100, and of f64 in its products of f64.
        let bound = if name.starts_with("gemm N") || name.starts_with("batched") { 1e-13 } else { 2e-5 };
        let close = |(x, y): (&f64, &f64)| (x - y).abs() <= bound * y.abs().max(1.0);
        assert!(got.len() == want.len() && got.iter().zip(want).all(close), "{name}\n{got:?}\n{want:?}");
    }
    assert_eq!(ours[0].len(), want.len());
    // Ours have the same bits.
    for ((name, a), (_, b)) in ours[0].iter().zip(&ours[1]) {
        assert!(crate::same(a, b), "{name}");
    }
}

#[test]
fn what_the_published_trait_asks_of_a_device() {
    let raw = Raw::<Cpu>::as_published(CpuDevice::default());
    let b: &dyn ComputeBackend = &raw;
    assert_eq!(BackendKind::from_name(b.name()), Some(BackendKind::Cpu));
    let devices = b.available_devices().unwrap();
    assert_eq!((devices.len(), devices[0].ordinal), (1, 0));
    assert!(b.capabilities().unified_memory);
    assert_eq!(b.recommended_tile_for(32, 32, 32), oxicuda_backend::TileShape::new(16, 16, 16));
    assert_eq!(b.alloc(4), Err(BackendError::NotInitialized));
    assert_eq!(
        BackendError::from(elinvar_compute::BackendError::OutOfMemory).to_string(),
        "out of device memory"
    );
}
