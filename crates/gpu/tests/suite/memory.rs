//! Memory: counted, kept, limited; and what happens when there is no more.

use super::out_of_memory::Short;
use elinvar_core::{DType, ErrorKind, HostData, Scalar, Shape};
use elinvar_driver::{Cuda, Interp};
use elinvar_gpu::{Gpu, GpuDevice};
use elinvar_nn::layers::Linear;
use elinvar_nn::optim::{Optimizer, Sgd};
use elinvar_nn::{Layer, Module};
use elinvar_ops::Array;
use elinvar_ops::backend::Memory;
use elinvar_ops::lane::Lane;
use elinvar_ops::update::{Part, Update, update};
use elinvar_tensor::{Generator, Tensor, try_run};
use std::sync::atomic::Ordering::Relaxed;

type B = Gpu<Short>;

fn device(bytes: u64) -> GpuDevice<Short> {
    GpuDevice::new(Short::new(bytes), 0)
}

fn floats(d: &GpuDevice<Short>, n: usize) -> elinvar_core::Result<Array<B>> {
    Array::from_vec(d, vec![1.0f32; n], &[n])
}

#[test]
fn memory_is_used_again() {
    let d = device(64 << 20);
    let first = floats(&d, 1 << 18).unwrap();
    let stats = B::memory_stats(&d).unwrap();
    assert_eq!((stats.in_use, stats.from_system, stats.from_cache), (1 << 20, 1, 0), "{stats}");
    drop(first);
    let stats = B::memory_stats(&d).unwrap();
    assert_eq!((stats.in_use, stats.cached, stats.peak), (0, 1 << 20, 1 << 20), "{stats}");
    let again = floats(&d, (1 << 18) - 5).unwrap();
    let stats = B::memory_stats(&d).unwrap();
    assert_eq!((stats.in_use, stats.from_system, stats.from_cache), (1 << 20, 1, 1), "{stats}");
    drop(again);
    // Small tensors share a block.
    let small: Vec<_> = (0..100).map(|_| floats(&d, 10).unwrap()).collect();
    assert_eq!(B::memory_stats(&d).unwrap().from_system, 2);
    drop(small);
    B::release_memory(&d).unwrap();
    assert_eq!(B::memory_stats(&d).unwrap().cached, 0);
    assert_eq!(d.driver().unwrap().left.load(Relaxed), 64 << 20, "all of it was given back");
}

#[test]
fn what_is_kept_is_given_back_before_memory_is_out() {
    let d = device(3 << 20);
    drop(floats(&d, 1 << 18).unwrap());
    // 2 MiB are left beside the piece that is kept, and 2.5 are asked for.
    let large = floats(&d, 5 << 17).unwrap();
    assert_eq!(large.to_host().unwrap().shape().numel(), 5 << 17);
    let e = floats(&d, 1 << 18).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::OutOfMemory, "{e}");
    drop(large);
    floats(&d, 1 << 18).unwrap();
}

#[test]
fn a_limit_is_a_limit() {
    let d = device(64 << 20);
    B::set_memory_limit(&d, Some(1 << 20)).unwrap();
    let x = floats(&d, 1 << 17).unwrap();
    let e = floats(&d, 1 << 18).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::OutOfMemory, "{e}");
    B::set_memory_limit(&d, None).unwrap();
    floats(&d, 1 << 18).unwrap();
    assert_eq!(x.to_host().unwrap().shape().numel(), 1 << 17);
}

/// Memory runs out somewhere in a training step: an error, nothing has changed, and with more
/// memory it goes on.
#[test]
fn memory_may_run_out_anywhere_in_a_step() {
    let step = |model: &Linear<B>, x: &Tensor<B>| {
        let gradients = try_run(|| model.forward(x).exp().sum().backward())?;
        Sgd::new(0.1).step(model, &gradients)
    };
    let make = || {
        let d = device(64 << 20);
        let model = Linear::<B>::new(16, 16, &mut Generator::new(1), &d);
        let x = Tensor::<B>::from_vec(vec![0.5f32; 16 * 2048], &[2048, 16], &d);
        (d, model, x)
    };
    let weights = |model: &Linear<B>| -> Vec<Vec<f32>> {
        model.parameters().iter().map(|p| p.get().to_vec().unwrap()).collect()
    };
    let (_, model, x) = make();
    step(&model, &x).unwrap();
    let want = weights(&model);

    let mut errors = 0;
    for extra in 0..12u64 {
        let (d, model, x) = make();
        let before = weights(&model);
        B::release_memory(&d).unwrap();
        let left = &d.driver().unwrap().left;
        let had = left.swap(extra * (128 << 10), Relaxed);
        let first = step(&model, &x);
        left.fetch_add(had, Relaxed);
        if let Err(e) = first {
            assert_eq!(e.kind(), ErrorKind::OutOfMemory, "{e}");
            errors += 1;
            assert_eq!(weights(&model), before);
            step(&model, &x).unwrap();
        }
        assert_eq!(weights(&model), want);
    }
    assert!(errors > 2, "it ran out {errors} times");
}

/// x + 1, in place.
#[derive(Clone, Copy, Debug)]
struct Increment;
impl Update<1, 0> for Increment {
    const NAME: &'static str = "increment";
    fn lane<L: Lane>(&self, [x]: [L; 1], _: [L; 0]) -> [L; 1] {
        [x + L::lit(1.0)]
    }
}
elinvar_ops::compile_update! { 1 0 Increment; }

/// An update does not change what was put off before it.
#[test]
fn what_was_put_off_keeps_the_old_numbers() {
    let d = super::interp();
    let mut x = Array::<Gpu<Interp>>::from_vec(&d, vec![1.0f32, 2.0], &[2]).unwrap();
    let later = elinvar_ops::catalogue::neg(&x).unwrap();
    update(&Increment, &mut [Part::new([&mut x], [])]).unwrap();
    assert_eq!(*later.to_host().unwrap().data(), HostData::F32([-1.0, -2.0].into()));
    assert_eq!(*x.to_host().unwrap().data(), HostData::F32([2.0, 3.0].into()));
}

/// All small parameters of a model change in one launch, and as they would one by one.
#[test]
fn a_step_of_many_parameters_is_one_launch() {
    let d = super::interp();
    let mut all: Vec<Array<Gpu<Interp>>> = (1..9)
        .map(|n| Array::from_vec(&d, (0..37 * n).map(|i| (i * n) as f32).collect(), &[37 * n]).unwrap())
        .collect();
    all.push(Array::from_vec(&d, vec![0.5f32], &[1]).unwrap());
    let before = d.launches().unwrap();
    let mut parts: Vec<Part<'_, _>> = all.iter_mut().map(|x| Part::new([x], [])).collect();
    update(&Increment, &mut parts).unwrap();
    assert_eq!(d.launches().unwrap(), before + 1);
    for (n, x) in (1..9).zip(&all) {
        let want: Vec<f32> = (0..37 * n).map(|i| (i * n) as f32 + 1.0).collect();
        assert_eq!(*x.to_host().unwrap().data(), HostData::F32(want.into()));
    }
    assert_eq!(*all[8].to_host().unwrap().data(), HostData::F32([1.5].into()));
}

/// Tensors of two devices in one op: an error, and both go on.
#[test]
fn two_devices_do_not_mix() {
    let (a, b) = (super::cuda(), super::cuda());
    let on = |d| Tensor::<Gpu<Cuda>>::from_vec(vec![1.0f32, 2.0, 3.0], &[3], d);
    let (x, y) = (on(&a), on(&b));
    let e = try_run(|| (&x * 2.0) + (&y * 3.0)).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::DeviceMismatch, "{e}");
    let moved: Tensor<Gpu<Cuda>> = (&y * 3.0).copy_to(&a).unwrap();
    assert_eq!((x * 2.0 + moved).to_vec::<f32>().unwrap(), [5.0, 10.0, 15.0]);
    assert_eq!(y.sum().to_vec::<f32>().unwrap(), [6.0]);
}

/// One number that was filled in is kept for the next request, so what changes it has a
/// copy.
#[test]
fn a_number_that_is_kept_does_not_change() {
    let d = super::interp();
    let two = || {
        let one = Shape::new(&[1]).unwrap();
        Array::<Gpu<Interp>>::full(&d, &one, Scalar::Float(2.0), DType::F32).unwrap()
    };
    let mut x = two();
    let launches = d.launches().unwrap();
    let y = two();
    assert_eq!(d.launches().unwrap(), launches, "it was there");
    update(&Increment, &mut [Part::new([&mut x], [])]).unwrap();
    let number = |x: &Array<Gpu<Interp>>| x.to_host().unwrap().into_data();
    let want = |v: f32| HostData::F32([v].into());
    assert_eq!([number(&x), number(&y), number(&two())], [want(3.0), want(2.0), want(2.0)]);
}

/// A tensor that is larger than what the device takes in one piece is refused, with its limit.
#[cfg(feature = "webgpu")]
#[test]
fn a_tensor_beyond_webgpus_largest_binding_is_refused() {
    use elinvar_driver::Driver;
    type W = Gpu<elinvar_driver::WebGpu>;
    let Some(d) = super::webgpu() else { return };
    let largest = d.driver().unwrap().info().largest;
    let full =
        |n: u64| Array::<W>::full(&d, &Shape::new(&[n as usize]).unwrap(), Scalar::Float(1.0), DType::F32);
    let e = full(largest / 4 + 1).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::OutOfMemory, "{e}");
    assert!(e.message().contains(&format!("allows at most {largest} in one piece")), "{e}");
    // And the device goes on.
    assert_eq!(full(3).unwrap().to_host().unwrap().to_f64_vec(), [1.0; 3]);
}
