//! Threads, leaks, limits of memory.

use crate::{cuda, fast, free, get, opened, put};
use elinvar_compute::{BackendError, BinaryOp, ComputeBackend, Raw, UnaryOp, Usage};
use elinvar_core::DType;
use elinvar_driver::Cuda;
use elinvar_gpu::Gpu;
use elinvar_ops::backend::Memory;
use elinvar_reference::{Reference, ReferenceDevice};
use std::sync::mpsc;

#[test]
fn several_threads_use_one_backend() {
    for raw in fast(DType::F32) {
        let raw = &*raw;
        let shared = put(raw, DType::F32, &[0.0; 400]).unwrap();
        std::thread::scope(|scope| {
            for t in 0..4u64 {
                scope.spawn(move || {
                    // Memory of its own, and a part of what all share.
                    let mine = shared + t * 400;
                    for round in 0..6 {
                        let v: Vec<f64> = (0..100).map(|i| (t * 1000 + round * 100 + i) as f64).collect();
                        let p = put(raw, DType::F32, &v).unwrap();
                        raw.unary(UnaryOp::Neg, p, mine, 100).unwrap();
                        raw.binary(BinaryOp::Sub, mine, p, p, 100).unwrap();
                        let want: Vec<f64> = v.iter().map(|x| -2.0 * x).collect();
                        assert_eq!(get(raw, DType::F32, p, 100).unwrap(), want);
                        let want: Vec<f64> = v.iter().map(|x| -x).collect();
                        assert_eq!(get(raw, DType::F32, mine, 100).unwrap(), want, "{}", raw.name());
                        raw.free(p).unwrap();
                    }
                });
            }
        });
        raw.free(shared).unwrap();
    }
}

#[test]
fn what_is_not_freed_is_reported() {
    let report = |free: bool| {
        let raw = opened::<Reference>(ReferenceDevice, DType::F64);
        let (told, reports) = mpsc::channel();
        raw.on_leak(move |left| told.send(left).unwrap());
        let (p, _) = (raw.alloc(100).unwrap(), raw.alloc(29).unwrap());
        raw.free(p).unwrap();
        let q = raw.alloc(1).unwrap();
        assert_eq!(raw.usage(), Usage { allocations: 2, bytes: 30 });
        if free {
            raw.free(q).unwrap();
        }
        drop(raw);
        reports.try_recv().ok()
    };
    assert_eq!(report(false), Some(Usage { allocations: 2, bytes: 30 }));
    assert_eq!(report(true), Some(Usage { allocations: 1, bytes: 29 }));
    let clean = opened::<Reference>(ReferenceDevice, DType::F64);
    clean.on_leak(|_| panic!("all was freed"));
}

/// Without a function that is told, debug builds print it.
#[test]
fn a_leak_is_printed() {
    let said = crate::alone(&["life::leaks"], &[]);
    assert_eq!(said.contains("2 allocations of 129 bytes"), cfg!(debug_assertions), "{said}");
}

#[test]
#[ignore = "a child of another test"]
fn leaks() {
    let raw = opened::<Reference>(ReferenceDevice, DType::F64);
    raw.alloc(100).unwrap();
    raw.alloc(29).unwrap();
}

#[test]
fn the_limit_of_a_device_is_an_error() {
    let device = cuda();
    let raw = opened::<Gpu<Cuda>>(device.clone(), DType::F32);
    let p = raw.alloc(1 << 20).unwrap();
    Gpu::<Cuda>::set_memory_limit(&device, Some(3 << 20)).unwrap();
    assert_eq!(raw.alloc(8 << 20), Err(BackendError::OutOfMemory));
    // What is there still works.
    raw.copy_htod(p, &2f32.to_ne_bytes()).unwrap();
    raw.unary(UnaryOp::Exp, p, p, 2).unwrap();
    assert_eq!(get(&raw, DType::F32, p, 2).unwrap()[1], 1.0);
    raw.free(p).unwrap();
}

#[test]
fn types_of_the_published_backend() {
    // Products of f64, all else of f32; bytes become what a call takes them for.
    let mut raw = Raw::<Reference>::as_published(ReferenceDevice);
    raw.init().unwrap();
    let (a, b) = (put(&raw, DType::F64, &[1.5, 2.0]).unwrap(), put(&raw, DType::F64, &[4.0, 0.5]).unwrap());
    let c = put(&raw, DType::F64, &[0.0]).unwrap();
    let n = elinvar_compute::BackendTranspose::NoTrans;
    raw.gemm(n, n, 1, 1, 2, 1.0, a, 1, b, 2, 0.0, c, 1).unwrap();
    assert_eq!(get(&raw, DType::F64, c, 1).unwrap(), [7.0]);
    // The same bytes as two f32.
    let before = get(&raw, DType::F32, c, 2).unwrap();
    raw.unary(UnaryOp::Neg, c, c, 2).unwrap();
    let after: Vec<f64> = before.iter().map(|x| -x).collect();
    assert_eq!(get(&raw, DType::F32, c, 2).unwrap(), after);
    let f = put(&raw, DType::F32, &[1.0, -2.0, 3.0]).unwrap();
    raw.unary(UnaryOp::Relu, f, f, 3).unwrap();
    assert_eq!(get(&raw, DType::F32, f, 3).unwrap(), [1.0, 0.0, 3.0]);
    free(&raw, &[a, b, c, f]);
}

#[test]
fn a_recording_has_no_raw_calls() {
    use elinvar_tensor::{Graph, Tensor};
    let device = cuda();
    let raw = std::sync::Arc::new(opened::<Gpu<Cuda>>(device.clone(), DType::F32));
    let p = put(&*raw, DType::F32, &[1.0; 4]).unwrap();
    let x = Tensor::<Gpu<Cuda>>::from_vec(vec![1.0f32; 4], &[4], &device);
    let inner = raw.clone();
    let recorded = Graph::record(&[&x], move |x| {
        let refused = inner.unary(UnaryOp::Exp, p, p, 4);
        assert!(matches!(refused, Err(BackendError::Unsupported(_))), "{refused:?}");
        Ok(vec![x[0].exp()])
    });
    recorded.unwrap();
    assert_eq!(get(&*raw, DType::F32, p, 4).unwrap(), [1.0; 4]);
    raw.free(p).unwrap();
}
