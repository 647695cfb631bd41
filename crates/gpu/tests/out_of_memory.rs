//! A CUDA device without memory left, in the middle of training: an error, the weights as they were, and with a smaller batch it
//! goes on. In a process of its own: the emulated device is one for all.

use elinvar_core::ErrorKind;
use elinvar_driver::{Cuda, Driver, cuda::use_library};
use elinvar_gpu::{Gpu, GpuDevice};
use elinvar_nn::layers::Linear;
use elinvar_nn::optim::{Adam, Optimizer};
use elinvar_nn::{Layer, Module};
use elinvar_ops::Backend;
use elinvar_reference::Reference;
use elinvar_tensor::{Generator, Graph, Tensor, try_run};

const FEATURES: usize = 64;

fn rows<B: Backend>(n: usize, d: &B::Device) -> Tensor<B> {
    let value = |i: usize| (i % 37) as f32 / 37.0 - 0.5;
    Tensor::from_vec((0..n * FEATURES).map(value).collect::<Vec<f32>>(), &[n, FEATURES], d)
}
fn step<B: Backend>(
    model: &Linear<B>,
    adam: &mut Adam<B>,
    n: usize,
    d: &B::Device,
) -> elinvar_core::Result<()> {
    let gradients = try_run(|| model.forward(&rows(n, d)).exp().sum().backward())?;
    adam.step(model, &gradients)
}
fn weights<B: Backend>(model: &Linear<B>) -> Vec<Vec<f32>> {
    model.parameters().iter().map(|p| p.get().to_vec().unwrap()).collect()
}

#[test]
fn training_goes_on_with_a_smaller_batch() {
    use_library(&emulated_cuda::library().expect("it was built for this test")).unwrap();
    let d = GpuDevice::new(Cuda::open(0).unwrap(), 0);
    let reference = elinvar_reference::ReferenceDevice;
    let model = Linear::<Gpu<Cuda>>::new(FEATURES, FEATURES, &mut Generator::new(1), &d);
    let same = Linear::<Reference>::new(FEATURES, FEATURES, &mut Generator::new(1), &reference);
    let (mut a, mut b) = (Adam::new(0.01), Adam::new(0.01));
    step(&model, &mut a, 32, &d).unwrap();
    step(&same, &mut b, 32, &reference).unwrap();

    // Somebody else takes all but some MiB.
    let driver = d.driver().unwrap();
    let theirs = driver.allocate(driver.info().memory - (24 << 20)).unwrap();
    let e = step(&model, &mut a, 1 << 16, &d).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::OutOfMemory, "{e}");
    let x = rows::<Gpu<Cuda>>(1 << 15, &d);
    let e = Graph::record(&[&x], |x| Ok(vec![(0..8).fold(x[0].clone(), |y, _| y.cumsum(0))])).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::OutOfMemory, "{e}");
    drop(x);
    assert_eq!(weights(&model), weights(&same));
    step(&model, &mut a, 48, &d).unwrap();
    step(&same, &mut b, 48, &reference).unwrap();
    assert_eq!(weights(&model), weights(&same));

    drop(theirs);
    step(&model, &mut a, 1 << 8, &d).unwrap();
    step(&same, &mut b, 1 << 8, &reference).unwrap();
    assert_eq!(weights(&model), weights(&same));
}
