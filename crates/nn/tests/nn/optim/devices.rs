//! Steps on the CPU backend have the bits of the reference, also when the parameters' memory is
//! shared.

use elinvar_core::{DType, HostData, HostTensor, Shape};
use elinvar_cpu::{Cpu, CpuDevice, Isa};
use elinvar_nn::ema::{Average, BufferAverage, Ema};
use elinvar_nn::optim::{
    Adadelta, Adafactor, Adagrad, Adam, AdamW, Adamax, Asgd, Group, Lion, Muon, NAdam, Optimizer,
    OptimizerState, RAdam, RmsProp, Rprop, Sgd, clip_grad_norm,
};
use elinvar_nn::{Backend, Gradients, Module, Param, StateDict, Tensor};
use elinvar_reference::{Reference, ReferenceDevice};

/// Every optimiser, with the settings that change its formula, and whether it is for matrices only.
fn optimizers<B: Backend>() -> Vec<(&'static str, bool, Box<dyn Optimizer<B>>)> {
    let no_decay = || Group::matching(|name| name.ends_with('1')).weight_decay(0.0).lr_scale(0.5);
    vec![
        ("sgd", false, Box::new(Sgd::new(0.1).weight_decay(0.1).maximize(true))),
        ("sgd momentum", false, Box::new(Sgd::new(0.1).momentum(0.9).nesterov(true))),
        ("adam", false, Box::new(Adam::new(0.1).weight_decay(0.1).group(no_decay()))),
        ("adam amsgrad", false, Box::new(Adam::new(0.1).amsgrad(true))),
        ("adamw", false, Box::new(AdamW::new(0.1).group(no_decay()))),
        ("rmsprop", false, Box::new(RmsProp::new(0.1))),
        ("rmsprop momentum", false, Box::new(RmsProp::new(0.1).momentum(0.5))),
        ("rmsprop both", false, Box::new(RmsProp::new(0.1).momentum(0.5).centered(true))),
        ("adagrad", false, Box::new(Adagrad::new(0.1).lr_decay(0.5))),
        ("asgd", false, Box::new(Asgd::new(0.1).lambd(0.1).t0(1.0))),
        ("rprop", false, Box::new(Rprop::new(0.1))),
        ("adafactor", false, Box::new(Adafactor::new(0.1).weight_decay(0.1))),
        ("adadelta", false, Box::new(Adadelta::new(1.0))),
        ("adamax", false, Box::new(Adamax::new(0.1))),
        ("nadam", false, Box::new(NAdam::new(0.1))),
        ("radam", false, Box::new(RAdam::new(0.1).betas(0.5, 0.6).decoupled_weight_decay(true))),
        ("lion", false, Box::new(Lion::new(0.1).weight_decay(0.1))),
        ("muon", true, Box::new(Muon::new(0.1))),
    ]
}

/// Numbers of many magnitudes and both signs.
fn host(shape: &[usize], dtype: DType, seed: usize) -> HostTensor {
    let shape = Shape::new(shape).unwrap();
    let mut data = HostData::full(dtype, shape.numel(), 0.0.into()).unwrap();
    let of = |i: usize| {
        let k = (i * 7919 + seed * 104_729) % 1009;
        (k as f64 - 504.0) / 256.0 * [1.0, 1e-3, 0.0, 30.0][(i + seed) % 4]
    };
    elinvar_core::each_data!(&mut data, v => v.iter_mut().enumerate().for_each(|(i, x)| {
        *x = elinvar_core::Element::from_f64(of(i));
    }));
    HostTensor::new(shape, data).unwrap()
}

/// Weights and states after some steps. If shared, there are other handles on the parameters during
/// each step, and a gradient shares a parameter's memory.
fn run<B: Backend>(
    d: &B::Device,
    o: &mut dyn Optimizer<B>,
    (shapes, dtype, shared, steps): (&[Vec<usize>], DType, bool, usize),
) -> (StateDict, OptimizerState) {
    let tensor = |s: &Vec<usize>, seed| Tensor::<B>::from_host(host(s, dtype, seed), d).unwrap();
    let all: Vec<Param<B>> = shapes.iter().enumerate().map(|(i, s)| Param::new(tensor(s, i))).collect();
    let mut ema = Ema::new(Average::Exponential { decay: 0.75 }, BufferAverage::Copied).unwrap();
    for step in 0..steps {
        let values: Vec<Tensor<B>> = all.iter().map(Param::get).collect();
        let before = shared.then(|| all.state_dict().unwrap());
        let mut g = Gradients::new();
        for (i, (value, s)) in values.iter().zip(shapes).enumerate() {
            let own = shared && i % 3 == 2;
            g.set(value, if own { value.detach() } else { tensor(s, 100 * step + i) });
        }
        let held = shared.then_some(values);
        // Clips all gradients by their common norm.
        clip_grad_norm(&all, &mut g, 1.0).unwrap();
        o.step(&all, &g).unwrap();
        ema.update(&all).unwrap();
        for (i, old) in held.iter().flatten().enumerate() {
            assert_eq!(old.to_host().unwrap(), before.as_ref().unwrap()[&i.to_string()]);
        }
    }
    let mut weights = all.state_dict().unwrap();
    ema.apply(&all).unwrap();
    weights.extend(all.state_dict().unwrap().into_iter().map(|(n, t)| (format!("ema.{n}"), t)));
    (weights, o.state_dict(&all).unwrap())
}

/// The bytes of all weights and states.
fn bytes((weights, state): (StateDict, OptimizerState)) -> Vec<(String, Vec<u8>)> {
    let all = weights.into_iter().chain(state.to_tensors().0);
    all.map(|(name, t)| (name, t.data().to_le_bytes())).collect()
}

/// All optimisers on these shapes; those for matrices only on other shapes.
fn compare(
    shapes: &[Vec<usize>],
    matrices: &[Vec<usize>],
    dtypes: &[DType],
    threads: &[usize],
    steps: usize,
) {
    let devices: Vec<_> = threads.iter().map(|n| CpuDevice::new(Isa::best(), *n).unwrap()).collect();
    for &dtype in dtypes {
        for shared in [false, true] {
            for i in 0..optimizers::<Reference>().len() {
                let (what, flat, mut o) = optimizers::<Reference>().remove(i);
                let case = (if flat { matrices } else { shapes }, dtype, shared, steps);
                let want = bytes(run(&ReferenceDevice, &mut *o, case));
                for d in &devices {
                    let mut o = optimizers::<Cpu>().remove(i).2;
                    let got = bytes(run(d, &mut *o, case));
                    for (got, want) in got.iter().zip(&want) {
                        assert!(got == want, "{what} {dtype} shared {shared} {d:?}: {}", want.0);
                    }
                    assert_eq!(got.len(), want.len());
                }
            }
        }
    }
}

#[test]
fn every_optimizer_steps_as_on_the_reference() {
    // Around the sizes of vectors, tiles and blocks.
    let sizes = [0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 511, 512, 513, 1025].map(|n| vec![n]);
    let matrices = [vec![3, 5], vec![17, 16], vec![16, 2, 9]];
    let all = [&sizes[..], &matrices[..], &[vec![]]].concat();
    compare(&all, &matrices, &[DType::F32, DType::F64, DType::F16, DType::BF16], &[1], 3);
}

#[test]
fn threads_change_no_bit_of_a_step() {
    // Together just enough elements to use several threads: more would be slow in debug builds.
    let sizes = [vec![230, 290], vec![16385], vec![10], vec![513]];
    compare(&sizes, &[vec![17, 16], vec![9, 20]], &[DType::F32], &[2, 3], 1);
}
