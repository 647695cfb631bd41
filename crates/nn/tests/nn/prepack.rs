//! Models with prepacked weights, and `Precision::Fast`, on the CPU, which supports both.

use elinvar_core::{DType, Precision};
use elinvar_cpu::{Cpu, CpuDevice};
use elinvar_nn::layers::*;
use elinvar_nn::optim::{Optimizer, Sgd};
use elinvar_nn::{Generator, Layer, Module, Sequential, Tensor};
use elinvar_reference::{Reference, ReferenceDevice};

fn bits(x: &Tensor<Cpu>) -> Vec<u32> {
    x.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

fn net<B: elinvar_nn::Backend>(d: &B::Device) -> Sequential<B> {
    let g = &mut Generator::new(5);
    Sequential::new()
        .with(Linear::new(40, 64, g, d))
        .with(Tanh)
        .with(Linear::without_bias(64, 48, g, d))
        .with(Linear::new(48, 3, g, d))
}

#[test]
fn a_prepacked_model_gives_the_same_bits_and_learns_as_before() {
    let d = CpuDevice::default();
    let (plain, packed) = (net::<Cpu>(&d), net::<Cpu>(&d));
    // The last weight is too small to be packed.
    assert_eq!((packed.prepack().unwrap(), net::<Reference>(&ReferenceDevice).prepack().unwrap()), (2, 0));
    assert_eq!(packed.leaves().params.len(), 5, "a factor is not a second parameter");
    let mut optimizers = [&plain, &packed].map(|_| Sgd::new(0.1).momentum(0.9));
    for round in 0..3 {
        let x = Generator::new(round).randn([7, 40], &d);
        let y = [&plain, &packed].map(|m| m.forward(&x));
        assert_eq!(bits(&y[0]), bits(&y[1]), "round {round}");
        for (m, (y, o)) in [&plain, &packed].into_iter().zip(y.iter().zip(&mut optimizers)) {
            let g = (y * y).sum().backward();
            o.step(m, &g).unwrap();
        }
        // The step dropped their copies.
        if round == 1 {
            assert_eq!(packed.prepack().unwrap(), 2);
        }
    }
}

#[test]
fn a_prepacked_convolution_gives_the_same_bits() {
    let net = |d: &CpuDevice| {
        let g = &mut Generator::new(6);
        Sequential::new()
            .with(Conv2d::<Cpu>::new(32, 64, 3, g, d))
            .with(ReLU)
            .with(Conv2dOptions::new(64, 96, 1).bias(false).init(g, d))
            // Grouped convolutions are not packed.
            .with(Conv2dOptions::new(96, 96, 3).groups(3).init(g, d))
    };
    for isa in elinvar_cpu::Isa::with_kernels() {
        let d = CpuDevice::new(isa, 2).unwrap().pack_up_to(0);
        let (plain, packed) = (net(&d), net(&d));
        assert_eq!(packed.prepack().unwrap(), 2);
        for (seed, shape) in [(1, [1, 32, 14, 14]), (2, [5, 32, 9, 12])] {
            let x = Generator::new(seed).randn(shape, &d);
            assert_eq!(bits(&plain.forward(&x)), bits(&packed.forward(&x)), "{isa} {shape:?}");
        }
    }
}

#[test]
fn a_gradient_has_the_precision_of_its_forward() {
    let d = CpuDevice::default();
    let halves = |seed: u64, shape: [usize; 2]| {
        Generator::new(seed).randn(shape, &d).to_dtype(DType::BF16).requires_grad()
    };
    let (x, w) = (halves(1, [30, 1500]), halves(2, [1500, 40]));
    let seed = halves(3, [30, 40]).detach();

    let run = |forward: Precision, backward: Precision| {
        let y = forward.scope(|| x.matmul(&w));
        let all = backward.scope(|| y.backward_with(&seed, Default::default()));
        let gradients = [&x, &w].map(|v| all.get(v).unwrap().to_host().unwrap().into_data());
        (y.to_host().unwrap().into_data(), gradients)
    };
    use Precision::{Exact, Fast};
    assert!(run(Fast, Exact) == run(Fast, Fast));
    assert!(run(Exact, Fast) == run(Exact, Exact));
    let of_device = |d: CpuDevice| {
        let y = Tensor::<Cpu>::from_host(x.to_host().unwrap(), &d).unwrap();
        y.matmul(&Tensor::from_host(w.to_host().unwrap(), &d).unwrap()).to_host().unwrap().into_data()
    };
    let slow = CpuDevice::default();
    assert!(of_device(slow.clone()) == run(Exact, Exact).0);
    assert!(of_device(slow.clone().with_precision(Fast)) == run(Fast, Fast).0);
    assert!(Exact.scope(|| of_device(slow.with_precision(Fast))) == run(Exact, Exact).0);
}
