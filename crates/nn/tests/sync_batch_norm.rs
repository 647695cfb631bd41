//! Batch norm over all gradient shards of a step: what it is, and that it is the same for any
//! number of workers.

mod support;

use elinvar_core::{DType, Error, Result};
use elinvar_cpu::Cpu;
use elinvar_distributed::Group;
use elinvar_io::weights_hash;
use elinvar_nn::data::{Batch, Loader};
use elinvar_nn::layers::{BatchNorm1d, Dropout, Linear, convert_sync_batchnorm};
use elinvar_nn::loss::CrossEntropy;
use elinvar_nn::models::DigitsCnn;
use elinvar_nn::optim::{AdamW, Optimizer, Sgd};
use elinvar_nn::train::{Classification, Measured, Trainer};
use elinvar_nn::{Backend, Generator, Gradients, Layer, Module, Param, Tensor};
use elinvar_reference::{Reference, ReferenceDevice};
use support::{cpu, on, pairs};

#[derive(Module)]
struct Net<B: Backend> {
    first: Linear<B>,
    norm: BatchNorm1d<B>,
    dropout: Dropout,
    last: Linear<B>,
}

impl<B: Backend> Net<B> {
    fn new(dropout: f64, d: &B::Device) -> Self {
        let g = &mut Generator::new(3);
        Net {
            first: Linear::new(64, 6, g, d),
            norm: BatchNorm1d::new(6, d).sync(),
            dropout: Dropout::new(dropout, g),
            last: Linear::new(6, 10, g, d),
        }
    }
}

impl<B: Backend> Layer<B> for Net<B> {
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        let h = self.norm.forward(&self.first.forward(&x.flatten(1, 3))).relu();
        self.last.forward(&self.dropout.forward(&h))
    }
}

#[derive(Clone, Copy, Default)]
struct How {
    shards: usize,
    accumulate: usize,
    amp: Option<DType>,
    zero1: bool,
}

fn train<B: Backend, M: Layer<B> + Module<B>>(
    net: &M,
    group: &Group,
    how: How,
    d: &B::Device,
) -> Result<String> {
    let loader = Loader::new(pairs(45), 16)?.shuffle(5);
    let mut adam = AdamW::new(3e-3);
    let run = Trainer::new(net, &mut adam, &loader, Classification::new()).epochs(2).clip_grad_norm(1.0);
    let mut run = run.shards(how.shards).accumulate(how.accumulate.max(1)).group(group);
    if let Some(half) = how.amp {
        run = run.amp(half);
    }
    if how.zero1 {
        run = run.zero1();
    }
    run.run(d)?;
    weights_hash_of(net)
}

fn weights_hash_of<B: Backend>(net: &dyn Module<B>) -> Result<String> {
    Ok(weights_hash(&net.state_dict()?))
}

#[test]
fn any_number_of_workers_gives_one_result() {
    let plain = How { shards: 8, ..How::default() };
    let half = How { amp: Some(DType::F16), accumulate: 2, ..plain };
    let mut seen = vec![];
    for how in [plain, half, How { amp: Some(DType::BF16), zero1: true, ..plain }] {
        let run = |g: &Group| train::<Cpu, _>(&Net::new(0.2, &cpu()), g, how, &cpu()).unwrap();
        let want = run(&Group::alone());
        for workers in [2, 3, 4, 8] {
            assert!(on(workers, run).iter().all(|got| *got == want), "{workers} workers");
        }
        assert!(!seen.contains(&want));
        seen.push(want);
    }
    // On other devices, too.
    let mixed = on(2, |g| match g.rank() {
        0 => train::<Cpu, _>(&Net::new(0.2, &cpu()), g, plain, &cpu()).unwrap(),
        _ => train::<Reference, _>(&Net::new(0.2, &ReferenceDevice), g, plain, &ReferenceDevice).unwrap(),
    });
    assert_eq!(mixed, [seen[0].clone(), seen[0].clone()]);
}

#[test]
fn a_whole_model_is_converted() {
    let run = |g: &Group, sync: bool| {
        let net = DigitsCnn::<Cpu>::new(&mut Generator::new(1), &cpu());
        if sync {
            assert_eq!(convert_sync_batchnorm(&net), 2);
            assert!(net.summary().contains("sync"), "{}", net.summary());
        }
        train(&net, g, How { shards: 4, ..How::default() }, &cpu()).unwrap()
    };
    let want = run(&Group::alone(), true);
    assert_ne!(want, run(&Group::alone(), false), "the shards have other statistics than the batch");
    assert!(on(3, |g| run(g, true)).iter().all(|got| *got == want));
    // A batch that is not cut is a batch norm as always.
    let one = |sync: bool| {
        let net = DigitsCnn::<Cpu>::new(&mut Generator::new(1), &cpu());
        if sync {
            convert_sync_batchnorm(&net);
        }
        train(&net, &Group::alone(), How { shards: 1, ..How::default() }, &cpu()).unwrap()
    };
    assert_eq!(one(true), one(false));
}

/// One step of two shards, written out.
#[test]
fn a_step_is_what_the_definition_says() {
    type T = Tensor<Reference>;
    let d = ReferenceDevice;
    const N: usize = 13;
    let data = pairs(N);
    let net = Net::<Reference>::new(0.0, &d);
    let loader = Loader::new(data.clone(), N).unwrap();
    let objective = |net: &Net<Reference>, b: &Batch<Reference>| {
        let h = net.norm.forward(&net.first.forward(&b.x.flatten(1, 3))).relu();
        let loss = CrossEntropy::new().of(&net.last.forward(&h), &b.y);
        Ok(Measured { loss, samples: b.x.size(0), metrics: vec![] })
    };
    Trainer::new(&net, &mut Sgd::new(0.5), &loader, objective).epochs(1).shards(2).run(&d).unwrap();

    let by_hand = Net::<Reference>::new(0.0, &d);
    let halves = [0..N / 2, N / 2..N].map(|r| data.batch::<Reference>(r.collect(), &d).unwrap());
    let share = 1.0 / N as f64;
    let x = [0, 1].map(|k: usize| by_hand.first.forward(&halves[k].x.flatten(1, 3)));
    let over_both = |a: [T; 2]| &a[0].sum_dim(0, true) + &a[1].sum_dim(0, true);
    let sum = over_both(x.clone());
    // Each shard makes its own mean of the sum, so that gradients meet at the sum.
    let centered = [0, 1].map(|k: usize| &x[k] - &(&sum * share));
    let squares = over_both([&centered[0] * &centered[0], &centered[1] * &centered[1]]);
    let (weight, bias) = (by_hand.norm.weight.as_ref().unwrap(), by_hand.norm.bias.as_ref().unwrap());
    let loss = [0, 1].map(|k: usize| {
        let scale = (&squares * share + 1e-5).rsqrt() * weight.get().reshape([1, 6]);
        let y = &centered[k] * &scale + bias.get().reshape([1, 6]);
        let logits = by_hand.last.forward(&y.relu());
        CrossEntropy::new().of(&logits, &halves[k].y) * halves[k].y.numel() as f64
    });
    let found = (&loss[0] + &loss[1]).backward();
    let mut mean = Gradients::new();
    for p in by_hand.parameters() {
        mean.set(&p.get(), found.get(&p.get()).unwrap() * share);
    }
    let running = |old: f64, new: &T| (new.detach() * 0.1 + 0.9 * old).reshape([6]);
    let variance = squares.detach() * share * (N as f64 / (N - 1) as f64);
    let new_mean = running(0.0, &(&sum * share)).to_vec::<f32>().unwrap();
    let new_variance = running(1.0, &variance).to_vec::<f32>().unwrap();
    Sgd::new(0.5).step(&by_hand, &mean).unwrap();

    for ((name, a), (_, b)) in net.named_parameters().into_iter().zip(by_hand.named_parameters()) {
        let bits = |p: &Param<Reference>| p.get().to_vec::<f32>().unwrap();
        assert_eq!(bits(a), bits(b), "{name}");
    }
    let buffer =
        |b: &Option<elinvar_nn::Buffer<Reference>>| b.as_ref().unwrap().get().to_vec::<f32>().unwrap();
    assert_eq!(buffer(&net.norm.running_mean), new_mean);
    assert_eq!(buffer(&net.norm.running_var), new_variance);
    assert_eq!(net.norm.num_batches_tracked.as_ref().unwrap().get().to_vec::<i64>().unwrap(), [1]);
}

/// What a shard does that others do not.
#[derive(Clone, Copy, PartialEq)]
enum Odd {
    Fails,
    SumsMore,
    SumsLess,
}

#[test]
fn shards_that_make_other_sums_or_fail_are_told() {
    let told = |workers: usize, place: usize, odd: Odd| {
        on(workers, |g| {
            let net = Net::<Cpu>::new(0.0, &cpu());
            let loader = Loader::new(pairs(16), 16)?;
            let mut adam = AdamW::new(1e-3);
            let objective = move |net: &Net<Cpu>, b: &Batch<Cpu>| {
                // Each shard has two samples.
                let samples = vec![2 * place, 2 * place + 1];
                let at_place = pairs(16).batch::<Cpu>(samples, &cpu())?.x.to_vec::<f32>()?;
                let features = net.first.forward(&b.x.flatten(1, 3));
                if b.x.to_vec::<f32>()? == at_place {
                    match odd {
                        Odd::Fails => return Err(Error::argument("no more")),
                        Odd::SumsMore => drop(net.norm.forward(&features)),
                        Odd::SumsLess => {
                            let loss = CrossEntropy::new().of(&net.last.forward(&features), &b.y);
                            return Ok(Measured { loss, samples: 2, metrics: vec![] });
                        }
                    }
                }
                let loss = CrossEntropy::new().of(&net.forward(&b.x), &b.y);
                Ok(Measured { loss, samples: 2, metrics: vec![] })
            };
            let run = Trainer::new(&net, &mut adam, &loader, objective).epochs(1).shards(8).group(g);
            run.run(&cpu()).map(drop)
        })
    };
    for place in [0, 3, 7] {
        for (odd, sentence) in [
            (Odd::Fails, "no more"),
            (Odd::SumsMore, "a gradient shard has f32 ["),
            (Odd::SumsLess, "more often than another one"),
        ] {
            let alone = told(1, place, odd).remove(0).unwrap_err();
            assert!(alone.message().contains(sentence), "{place}: {alone}");
            assert!(told(2, place, odd).iter().all(Result::is_err), "{place}: {sentence}");
        }
    }
}

/// Of one sample in each shard there is no variance; of the batch there is.
#[test]
fn shards_of_one_sample() {
    let run = |sync: bool| {
        let net = Net::<Cpu>::new(0.0, &cpu());
        let loader = Loader::new(pairs(8), 8)?;
        if !sync {
            net.leaves().across.iter().for_each(|a| a.set(false));
        }
        let mut adam = AdamW::new(1e-3);
        Trainer::new(&net, &mut adam, &loader, Classification::new())
            .epochs(1)
            .shards(8)
            .run(&cpu())
            .map(drop)
    };
    run(true).unwrap();
    assert!(run(false).unwrap_err().message().contains("has one element"));
}
