//! Devices with a pool: what it takes from the device, when it grows, and where it ends; with the
//! bits of a device without.

use super::out_of_memory::Short;
use elinvar_core::{Autotune, DType, ErrorKind, Precision, Result, Settings};
use elinvar_driver::{Cuda, Driver, Interp, Null, Vulkan, null::Call};
use elinvar_gpu::{Gpu, GpuDevice};
use elinvar_nn::layers::Linear;
use elinvar_nn::optim::{Adam, Optimizer};
use elinvar_nn::{Layer, Module};
use elinvar_ops::backend::Memory;
use elinvar_ops::{Array, Backend};
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::{Generator, Tensor, try_run};
use std::sync::atomic::Ordering::Relaxed;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn pool(initial: Option<u64>, maximum: Option<u64>, growth: Option<u64>) -> Settings {
    Settings { pool_initial: initial, pool_maximum: maximum, pool_growth: growth, ..Settings::default() }
}

fn bytes<D: Driver>(d: &GpuDevice<D>, n: u64) -> Result<Array<Gpu<D>>> {
    Array::from_vec(d, vec![1u8; n as usize], &[n as usize])
}

/// What the device is asked for while tensors of so many bytes are made, one after the other, and
/// all kept.
#[test]
fn a_pool_takes_memory_in_steps() {
    let rows: [(Settings, &[u64], &[u64]); 7] = [
        // Without: blocks of small ones, and large ones alone.
        (pool(None, None, None), &[100, 100, 3 * MIB], &[MIB, 3 * MIB]),
        (pool(Some(4 * MIB), None, None), &[100, 3 * MIB], &[4 * MIB]),
        // What it began with is full: as without.
        (pool(Some(4 * MIB), None, None), &[3 * MIB, 2 * MIB], &[4 * MIB, 2 * MIB]),
        (pool(None, None, Some(4 * MIB)), &[100, 3 * MIB, 3 * MIB], &[4 * MIB, 4 * MIB]),
        // What is larger than a step has what it needs.
        (pool(None, None, Some(4 * MIB)), &[6 * MIB, 256], &[6 * MIB, 4 * MIB]),
        (pool(Some(MIB), None, Some(4 * MIB)), &[MIB, 256], &[MIB, 4 * MIB]),
        // The last step is what is left.
        (pool(None, Some(5 * MIB), Some(4 * MIB)), &[4 * MIB, MIB / 2], &[4 * MIB, MIB]),
    ];
    for (settings, tensors, want) in rows {
        let d = GpuDevice::<Null>::with_settings(Null::open(0).unwrap(), 0, &settings).unwrap();
        let all: Vec<_> = tensors.iter().map(|&n| bytes(&d, n).unwrap()).collect();
        let asked: Vec<u64> = d.driver().unwrap().take().iter().filter_map(allocated).collect();
        assert_eq!(asked, want, "{settings:?}");
        let stats = Gpu::<Null>::memory_stats(&d).unwrap();
        assert_eq!(stats.from_system, want.len() as u64);
        assert!(stats.in_use + stats.cached <= want.iter().sum(), "{stats}");
        drop(all);
        assert_eq!(Gpu::<Null>::memory_stats(&d).unwrap().in_use, 0);
    }
}

fn allocated(call: &Call) -> Option<u64> {
    match call {
        Call::Allocate(bytes) => Some(*bytes),
        _ => None,
    }
}

#[test]
fn a_pool_ends_at_its_maximum_and_keeps_what_it_began_with() {
    let settings = pool(Some(2 * MIB), Some(4 * MIB), Some(MIB));
    let d = GpuDevice::with_settings(Short::new(64 * MIB), 0, &settings).unwrap();
    let taken = || 64 * MIB - d.driver().unwrap().left.load(Relaxed);
    assert_eq!(taken(), 2 * MIB);
    let (a, b) = (bytes(&d, 2 * MIB).unwrap(), bytes(&d, 2 * MIB).unwrap());
    let e = bytes(&d, 1).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::OutOfMemory);
    assert_eq!(
        e.message(),
        "short: 256 bytes more than pool_maximum, 4194304 bytes, allows (4.0 MiB in use, 4.0 at most, 0.0 cached)"
    );
    drop(a);
    // What is free is cut anew, and merged again.
    let small: Vec<_> = (0..32).map(|_| bytes(&d, 64 * KIB).unwrap()).collect();
    bytes(&d, 1).unwrap_err();
    drop(small);
    let large = bytes(&d, 2 * MIB).unwrap();
    drop((b, large));
    assert_eq!(taken(), 4 * MIB);
    Gpu::<Short>::release_memory(&d).unwrap();
    assert_eq!(taken(), 2 * MIB);
    let stats = Gpu::<Short>::memory_stats(&d).unwrap();
    assert_eq!((stats.in_use, stats.cached), (0, 2 * MIB), "{stats}");
    let left = d.driver().unwrap().left.clone();
    drop(d);
    assert_eq!(left.load(Relaxed), 64 * MIB, "all of it was given back");
}

#[test]
fn a_step_too_large_for_the_device_is_taken_smaller() {
    let settings = pool(None, None, Some(32 * MIB));
    let d = GpuDevice::with_settings(Short::new(8 * MIB), 0, &settings).unwrap();
    let all: Vec<_> = (0..8).map(|_| bytes(&d, MIB).unwrap()).collect();
    assert_eq!(bytes(&d, 1).unwrap_err().kind(), ErrorKind::OutOfMemory);
    drop(all);
    bytes(&d, 8 * MIB).unwrap();
}

/// One sentence each, and no device; the next one opens.
#[test]
fn a_pool_that_does_not_fit_is_refused() {
    let open = |s: &Settings| GpuDevice::with_settings(Short::new(64 * MIB), 0, s).map(drop);
    let rows = [
        (
            pool(Some(2048 * MIB), None, None),
            ErrorKind::InvalidArgument,
            "short:0: pool_initial is 2147483648 bytes, more than the 1073741824 of the device interpreter",
        ),
        (
            pool(None, Some(2048 * MIB), None),
            ErrorKind::InvalidArgument,
            "short:0: pool_maximum is 2147483648 bytes, more than the 1073741824 of the device interpreter",
        ),
        // Others have taken memory before.
        (
            pool(Some(128 * MIB), None, None),
            ErrorKind::OutOfMemory,
            "short:0: pool_initial: 134217728 bytes, and 67108864 are left",
        ),
    ];
    for (settings, kind, want) in rows {
        let e = open(&settings).unwrap_err();
        assert_eq!((e.kind(), e.message()), (kind, want));
    }
    open(&Settings::default()).unwrap();
}

#[test]
fn other_settings_of_a_device() {
    let settings = Settings {
        memory_limit: Some(MIB),
        precision: Some(Precision::Fast),
        autotune: Some(Autotune::Off),
        ..Settings::default()
    };
    let d = GpuDevice::with_settings(Interp::open(0).unwrap(), 0, &settings).unwrap();
    assert_eq!(d.precision(), Precision::Fast);
    assert_eq!(bytes(&d, MIB + 1).unwrap_err().kind(), ErrorKind::OutOfMemory);
    bytes(&d, MIB).unwrap();
}

/// A file of tuning says whose it is.
#[test]
fn a_file_of_tuning_is_one_devices() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.tiles");
    let settings = |on| Settings {
        autotune: Some(Autotune::from(on)),
        tune_cache: Some(file.clone()),
        ..Settings::default()
    };
    let open = |on| GpuDevice::with_settings(Interp::open(0).unwrap(), 0, &settings(on));
    let product = |d: &GpuDevice<Interp>| {
        let x = Tensor::<Gpu<Interp>>::ones([64, 64], DType::F32, d);
        x.matmul(&x).to_vec::<f32>().unwrap()
    };
    assert_eq!(product(&open(false).unwrap()), [64.0; 64 * 64]);
    assert!(!file.exists(), "nothing was tried");
    assert_eq!(product(&open(true).unwrap()), [64.0; 64 * 64]);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.starts_with("elinvar tiles, version 2\ndevice interp-interpreter-elinvar\nf32 0 6 6 6 "),
        "{text}"
    );
    assert_eq!(product(&open(false).unwrap()), [64.0; 64 * 64]);

    let place = format!("tune_cache {}", file.display());
    std::fs::write(&file, text.replace("interp-interpreter", "cuda-card")).unwrap();
    let e = open(false).unwrap_err();
    assert_eq!(
        (e.kind(), e.message()),
        (
            ErrorKind::InvalidArgument,
            &*format!(
                "interp:0: {place}: it is of the device cuda-card-elinvar, and this one is interp-interpreter-elinvar"
            )
        )
    );
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    let e = open(true).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Io);
    assert!(e.message().starts_with(&format!("interp:0: {place}: ")), "{e}");
}

/// A few steps of training: losses and weights.
fn train<B: Backend>(d: &B::Device) -> Vec<Vec<u32>> {
    let model = Linear::<B>::new(24, 24, &mut Generator::new(1), d);
    let mut adam = Adam::new(0.01);
    let mut all = Vec::new();
    for step in 1..5 {
        let n = 16 * step;
        let x: Vec<f32> = (0..n * 24).map(|i| (i % 37) as f32 / 37.0 - 0.5).collect();
        let x = Tensor::from_vec(x, &[n, 24], d);
        let loss = model.forward(&x).exp().softmax(1).square().sum();
        let gradients = try_run(|| loss.backward()).unwrap();
        adam.step(&model, &gradients).unwrap();
        all.push(loss.detach());
    }
    all.extend(model.parameters().iter().map(|p| p.get().detach()));
    all.iter().map(|x| x.to_vec::<f32>().unwrap().iter().map(|v| v.to_bits()).collect()).collect()
}

fn trains_on_a_pool<D: Driver>(open: impl Fn() -> D) {
    let want = train::<Reference>(&ReferenceDevice);
    let all = [
        pool(Some(64 * KIB), None, Some(128 * KIB)),
        pool(Some(8 * MIB), Some(8 * MIB), None),
        pool(None, None, Some(64 * KIB)),
    ];
    for settings in all {
        let d = GpuDevice::with_settings(open(), 0, &settings).unwrap();
        assert!(train::<Gpu<D>>(&d) == want, "{settings:?}");
        let stats = Gpu::<D>::memory_stats(&d).unwrap();
        assert!(stats.from_cache > 10 * stats.from_system, "{stats:?}");
    }
}

#[test]
fn a_pool_has_the_bits_of_the_reference_interpreted() {
    trains_on_a_pool(|| Interp::open(0).unwrap());
}
#[test]
fn a_pool_has_the_bits_of_the_reference_on_cuda() {
    super::cuda();
    trains_on_a_pool(|| Cuda::open(0).unwrap());
}
#[test]
fn a_pool_has_the_bits_of_the_reference_on_vulkan() {
    if super::vulkan().is_some() {
        trains_on_a_pool(|| Vulkan::open(0).unwrap());
    }
}
