//! Gradient shards: what a step with them is, and that it is the same for any number of workers.

mod support;

use elinvar_core::{DType, Error, Result};
use elinvar_cpu::{Cpu, CpuDevice};
use elinvar_distributed::Group;
use elinvar_io::weights_hash;
use elinvar_nn::data::{Chars, Loader, Text};
use elinvar_nn::layers::{Linear, TransformerEncoderLayer, TransformerOptions};
use elinvar_nn::models::{DigitsCnn, DigitsMlp, Gpt2, Gpt2Config};
use elinvar_nn::optim::{AdamW, Optimizer, Sgd};
use elinvar_nn::train::{
    Callback, Checkpoint, Checkpoints, Classification, NextToken, Objective, OnDemand, Report, Source, Step,
    Trainer,
};
use elinvar_nn::{Backend, Generator, Layer, Module, Tensor};
use elinvar_reference::{Reference, ReferenceDevice};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use support::{cpu, on, pairs};

const SHARDS: usize = 8;

/// Ends a run after a step.
struct StopAt(u64);

impl<B: Backend> Callback<B> for StopAt {
    fn step(&mut self, step: &Step<'_, B>) -> Result<ControlFlow<()>> {
        Ok(if step.step == self.0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

/// How a run is to be different from the plain one.
#[derive(Clone, Copy, Default)]
struct How<'a> {
    shards: Option<usize>,
    accumulate: Option<usize>,
    amp: Option<DType>,
    /// The optimiser's states are parted.
    zero1: bool,
    /// Worker 0 ends the run here.
    stop: Option<u64>,
    file: Option<&'a Path>,
}

fn train<B: Backend, M: Module<B>, S: Source<B>>(
    net: &M,
    source: &S,
    objective: impl Objective<B, M, S::Batch>,
    group: &Group,
    how: How<'_>,
    device: &B::Device,
) -> Result<(String, Report)> {
    let mut adam = AdamW::new(3e-3);
    let mut trainer = Trainer::new(net, &mut adam, source, objective)
        .epochs(2)
        .clip_grad_norm(1.0)
        .accumulate(how.accumulate.unwrap_or(1))
        .shards(how.shards.unwrap_or(SHARDS))
        .group(group);
    if let Some(half) = how.amp {
        trainer = trainer.amp(half);
    }
    if how.zero1 {
        trainer = trainer.zero1();
    }
    if let (Some(step), 0) = (how.stop, group.rank()) {
        trainer = trainer.callback(StopAt(step));
    }
    if let Some(file) = how.file {
        let of_worker_0 = (group.rank() == 0 && file.exists()).then(|| Checkpoint::load(file)).transpose()?;
        trainer = trainer.checkpoints(Checkpoints::new(file).every_steps(1));
        if let Some(checkpoint) = Checkpoint::shared(of_worker_0, group)? {
            trainer = trainer.resume(checkpoint);
        }
    }
    let report = trainer.run(device)?;
    Ok((weights_hash(&net.state_dict()?), report))
}

fn with_loader<B: Backend, M: Layer<B> + Module<B>>(
    net: &M,
    samples: usize,
    group: &Group,
    how: How<'_>,
    device: &B::Device,
) -> Result<(String, Report)> {
    let loader = Loader::new(pairs(samples), 16)?.shuffle(5);
    train(net, &loader, Classification::new().label_smoothing(0.1), group, how, device)
}

fn mlp<B: Backend>(group: &Group, how: How<'_>, device: &B::Device) -> Result<(String, Report)> {
    // The last batch has 13 samples.
    with_loader(&DigitsMlp::<B>::new(&mut Generator::new(1), device), 45, group, how, device)
}

fn cnn(group: &Group, how: How<'_>) -> Result<(String, Report)> {
    let net = DigitsCnn::<Cpu>::new(&mut Generator::new(1), &cpu());
    with_loader(&net, 29, group, how, &cpu())
}

/// Rows of the image as words, with dropout in attention and in both branches.
#[derive(Module)]
struct Words {
    words: Linear<Cpu>,
    layer: TransformerEncoderLayer<Cpu>,
    head: Linear<Cpu>,
}

impl Layer<Cpu> for Words {
    fn forward(&self, x: &Tensor<Cpu>) -> Tensor<Cpu> {
        let read = self.layer.forward(&self.words.forward(&x.flatten(1, 2)));
        self.head.forward(&read.mean_dim(1, false))
    }
}

fn transformer(group: &Group) -> Result<(String, Report)> {
    let (g, d) = (&mut Generator::new(1), cpu());
    let options = TransformerOptions::new(16, 2).feedforward(32).dropout(0.2).batch_first(true);
    let net = Words {
        words: Linear::new(8, 16, g, &d),
        layer: options.encoder_layer(g, &d),
        head: Linear::new(16, 10, g, &d),
    };
    with_loader(&net, 32, group, How::default(), &d)
}

fn text(group: &Group, how: How<'_>) -> Result<(String, Report)> {
    let text = Text::new("to be or not to be, that is the question ".repeat(4))?;
    let chars = Chars::new(&text);
    let blocks = text.tokens(&chars)?.blocks_by(8, 1)?;
    let loader = Loader::new(Arc::new(blocks), 8)?.draw(24, 3)?;
    let config = Gpt2Config::new(1, 2, 16, 8, 32).dropout(0.1);
    let net: Gpt2<Cpu> = Gpt2::new(config, &mut Generator::new(1), &cpu())?;
    train(&net, &loader, NextToken, group, how, &cpu())
}

/// The same hash and report on every worker of every group.
fn one_result(workers: &[usize], run: impl Fn(&Group) -> Result<(String, Report)> + Sync) -> String {
    let want = run(&Group::alone()).unwrap();
    for &n in workers {
        for got in on(n, &run) {
            assert_eq!(got.unwrap(), want, "{n} workers");
        }
    }
    want.0
}

#[test]
fn any_number_of_workers_gives_one_result() {
    one_result(&[2, 3, 4, 8], |g| mlp::<Cpu>(g, How::default(), &cpu()));
    one_result(&[2, 4], |g| cnn(g, How::default()));
    one_result(&[2, 4], transformer);
    one_result(&[2, 3, 4], |g| text(g, How::default()));
}

#[test]
fn parted_states_give_the_same_result() {
    let zero = How { zero1: true, ..How::default() };
    let half = How { accumulate: Some(2), amp: Some(DType::F16), ..zero };
    let runs: [&(dyn Fn(&Group, How<'_>) -> Result<(String, Report)> + Sync); 4] = [
        &|g, how| mlp::<Cpu>(g, how, &cpu()),
        &|g, how| mlp::<Cpu>(g, How { accumulate: half.accumulate, amp: half.amp, ..how }, &cpu()),
        &|g, how| cnn(g, how),
        &|g, how| text(g, how),
    ];
    for (i, run) in runs.into_iter().enumerate() {
        let whole = run(&Group::alone(), How::default()).unwrap().0;
        assert_eq!(one_result(&[2, 3, 4], |g| run(g, zero)), whole, "run {i}");
    }
    // More workers than parameters: some have nothing to update.
    let few = |g: &Group, zero1: bool| -> Result<(String, Report)> {
        let d = cpu();
        let net = Flat(Linear::new(64, 10, &mut Generator::new(1), &d));
        with_loader(&net, 32, g, How { zero1, ..How::default() }, &d)
    };
    assert_eq!(one_result(&[2, 4], |g| few(g, true)), few(&Group::alone(), false).unwrap().0);
}

#[derive(Module)]
struct Flat(Linear<Cpu>);

impl Layer<Cpu> for Flat {
    fn forward(&self, x: &Tensor<Cpu>) -> Tensor<Cpu> {
        self.0.forward(&x.flatten(1, 3))
    }
}

#[test]
fn each_worker_has_the_states_of_its_own_parameters() {
    let state = |g: &Group, zero1: bool| {
        let net = DigitsMlp::<Cpu>::new(&mut Generator::new(1), &cpu());
        let loader = Loader::new(pairs(32), 16).unwrap();
        let mut adam = AdamW::new(3e-3);
        // The second run goes on with what the first one has left.
        for _ in 0..2 {
            let run = Trainer::new(&net, &mut adam, &loader, Classification::new()).epochs(1);
            let run = run.shards(4).group(g);
            if zero1 { run.zero1() } else { run }.run(&cpu()).unwrap();
        }
        adam.state_dict(&net).unwrap().state
    };
    let mut want = state(&Group::alone(), false);
    for of_one in on(3, |g| state(g, true)) {
        assert!(!of_one.is_empty());
        for (name, keys) in of_one {
            assert_eq!(want.remove(&name), Some(keys), "{name}");
        }
    }
    assert!(want.is_empty(), "{:?}", want.keys());
}

#[test]
fn accumulated_batches_and_scaled_gradients_too() {
    let how = How { accumulate: Some(2), amp: Some(DType::F16), ..How::default() };
    let half = one_result(&[2, 3], |g| mlp::<Cpu>(g, how, &cpu()));
    assert_ne!(half, mlp::<Cpu>(&Group::alone(), How { amp: None, ..how }, &cpu()).unwrap().0);
}

#[test]
fn devices_may_be_mixed() {
    one_result(&[2], |g| match g.rank() {
        0 => mlp::<Cpu>(g, How::default(), &cpu()),
        _ => mlp::<Reference>(g, How::default(), &ReferenceDevice),
    });
}

#[test]
fn another_number_of_shards_is_another_result_and_one_is_none() {
    let run = |shards: usize| {
        mlp::<Cpu>(&Group::alone(), How { shards: Some(shards), ..How::default() }, &cpu()).unwrap().0
    };
    assert_ne!(run(8), run(4));
    let net = DigitsMlp::<Cpu>::new(&mut Generator::new(1), &cpu());
    let loader = Loader::new(pairs(45), 16).unwrap().shuffle(5);
    let mut adam = AdamW::new(3e-3);
    let objective = Classification::new().label_smoothing(0.1);
    Trainer::new(&net, &mut adam, &loader, objective).epochs(2).clip_grad_norm(1.0).run(&cpu()).unwrap();
    assert_eq!(run(1), weights_hash(&net.state_dict().unwrap()));
}

/// One step, written out: each shard alone, neighbours first, one multiplication.
#[test]
fn a_step_is_what_the_definition_says() {
    type T = Tensor<Reference>;
    let d = ReferenceDevice;
    let new = || DigitsMlp::<Reference>::new(&mut Generator::new(1), &d);
    let data = pairs(13);
    let net = new();
    let mut rate = Sgd::new(0.5);
    let loader = Loader::new(data.clone(), 13).unwrap();
    let how = Trainer::new(&net, &mut rate, &loader, Classification::new()).epochs(1).shards(4);
    let report = how.run(&d).unwrap();

    let by_hand = new();
    let params = by_hand.named_parameters();
    let shard = |k: usize| -> (Vec<T>, T) {
        let samples: Vec<usize> = (13 * k / 4..13 * (k + 1) / 4).collect();
        let n = samples.len() as f64;
        let batch = data.batch::<Reference>(samples, &d).unwrap();
        let loss = Classification::new().measure(&by_hand, &batch).unwrap().loss * n;
        let mut g = loss.backward();
        (params.iter().map(|(_, p)| g.take(&p.get()).unwrap()).collect(), loss.detach())
    };
    let plus = |a: (Vec<T>, T), b: (Vec<T>, T)| {
        (a.0.iter().zip(&b.0).map(|(a, b)| a + b).collect::<Vec<T>>(), a.1 + b.1)
    };
    let (sum, loss) = plus(plus(shard(0), shard(1)), plus(shard(2), shard(3)));
    let mut g = elinvar_nn::Gradients::new();
    for ((_, p), sum) in params.iter().zip(sum) {
        g.set(&p.get(), sum * (1.0 / 13.0));
    }
    Sgd::new(0.5).step(&by_hand, &g).unwrap();
    let hash = |net: &DigitsMlp<Reference>| weights_hash(&net.state_dict().unwrap());
    assert_eq!(hash(&net), hash(&by_hand));
    let mean = (loss * (1.0 / 13.0) * 13.0).to_vec::<f32>().unwrap()[0];
    assert_eq!(report.epochs[0].train.loss, f64::from(mean) / 13.0);
    assert_eq!(report.epochs[0].train.samples, 13);
}

#[test]
fn a_run_goes_on_with_another_number_of_workers() {
    let want = mlp::<Cpu>(&Group::alone(), How::default(), &cpu()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let rows = [[2, 1], [1, 4], [4, 3], [3, 2], [2, 4]];
    for (k, [first, second]) in rows.into_iter().enumerate() {
        let file = dir.path().join(format!("{k}.safetensors"));
        // With and without parted states.
        let [zero_first, zero_second] = [[false, true], [true, false], [true, true]][k % 3];
        let stop = 1 + k as u64 % 3;
        let stopped = How { stop: Some(stop), file: Some(&file), zero1: zero_first, ..How::default() };
        for got in on(first, |g| mlp::<Cpu>(g, stopped, &cpu())) {
            assert!(got.unwrap().1.stopped);
        }
        let whole = dir.path().join(format!("{k}-alone.safetensors"));
        let alone = How { file: Some(&whole), zero1: false, ..stopped };
        mlp::<Cpu>(&Group::alone(), alone, &cpu()).unwrap();
        assert!(std::fs::read(&file).unwrap() == std::fs::read(&whole).unwrap(), "checkpoint {k}");
        let on_with = How { file: Some(&file), zero1: zero_second, ..How::default() };
        for got in on(second, |g| mlp::<Cpu>(g, on_with, &cpu())) {
            let (hash, report) = got.unwrap();
            assert_eq!((hash, report.epochs), (want.0.clone(), want.1.epochs.clone()));
        }
        let other = How { shards: Some(4), ..on_with };
        let e = mlp::<Cpu>(&Group::alone(), other, &cpu()).unwrap_err();
        assert!(e.message().contains("the checkpoint's run has 8 gradient shards, and this one 4"), "{e}");
    }
}

/// Batches that are not cut.
struct Whole(Loader);

impl Source<Cpu> for Whole {
    type Batch = elinvar_nn::data::Batch<Cpu>;
    fn batches(&self) -> usize {
        self.0.batches()
    }
    fn epoch<'a>(
        &'a self,
        epoch: u64,
        start: usize,
        device: &'a CpuDevice,
    ) -> Box<dyn elinvar_nn::train::Feed<Self::Batch> + 'a> {
        Box::new(OnDemand(self.0.epoch(epoch, start, device)))
    }
}

#[test]
fn what_does_not_fit_is_a_sentence_on_every_worker() {
    let mlp = |g: &Group, seed: u64, samples: usize, how: How<'_>| {
        let net = DigitsMlp::<Cpu>::new(&mut Generator::new(seed), &cpu());
        with_loader(&net, samples, g, how, &cpu()).map(drop)
    };
    let plain = How::default();
    let rows: [(&str, &(dyn Fn(&Group) -> Result<()> + Sync)); 9] = [
        ("2 workers share 1 gradient shards", &|g| mlp(g, 1, 45, How { shards: Some(1), ..plain })),
        ("6 gradient shards; their number must be a power of two", &|g| {
            mlp(g, 1, 45, How { shards: Some(6), ..plain })
        }),
        ("a batch of 13 samples is cut into 16 gradient shards", &|g| {
            mlp(g, 1, 45, How { shards: Some(16), ..plain })
        }),
        ("worker 1 has another set of settings", &|g| {
            mlp(g, 1, 45, How { shards: Some([8, 4][g.rank()]), ..plain })
        }),
        ("worker 1 has another set of settings", &|g| mlp(g, 1, 45, How { zero1: g.rank() == 1, ..plain })),
        ("worker 1 has another set of data", &|g| mlp(g, 1, [45, 61][g.rank()], plain)),
        ("worker 1 has another weights", &|g| mlp(g, [1, 2][g.rank()], 45, plain)),
        ("worker 1 has another model", &|g| match g.rank() {
            0 => mlp(g, 1, 29, plain),
            _ => {
                let net = DigitsCnn::<Cpu>::new(&mut Generator::new(1), &cpu());
                with_loader(&net, 29, g, plain, &cpu()).map(drop)
            }
        }),
        ("this source of batches is not cut", &|g| {
            let net = DigitsMlp::<Cpu>::new(&mut Generator::new(1), &cpu());
            let source = Whole(Loader::new(pairs(16), 16)?);
            train(&net, &source, Classification::new(), g, plain, &cpu()).map(drop)
        }),
    ];
    for (sentence, run) in rows {
        let told: Vec<Error> = on(2, run).into_iter().map(Result::unwrap_err).collect();
        assert!(told.iter().any(|e| e.message().contains(sentence)), "{sentence}: {told:?}");
    }
    let net = DigitsMlp::<Cpu>::new(&mut Generator::new(1), &cpu());
    let (mut adam, loader) = (AdamW::new(1e-3), Loader::new(pairs(16), 16).unwrap());
    let captured = Trainer::new(&net, &mut adam, &loader, Classification::new()).shards(2).capture();
    let e = captured.run(&cpu()).unwrap_err();
    assert!(e.message().contains("a captured step is not cut"), "{e}");
}

/// A worker that fails in the middle ends the others at once.
#[test]
fn an_error_of_one_worker_ends_all() {
    let told = on(3, |g| {
        let net = DigitsMlp::<Cpu>::new(&mut Generator::new(1), &cpu());
        let loader = Loader::new(pairs(45), 16)?.shuffle(5);
        let me = g.rank();
        let objective = move |net: &DigitsMlp<Cpu>, batch: &elinvar_nn::data::Batch<Cpu>| match me {
            1 => Err(Error::argument("no more")),
            _ => Classification::new().measure(net, batch),
        };
        train(&net, &loader, objective, g, How::default(), &cpu())
    });
    let told: Vec<String> = told.into_iter().map(|r| r.unwrap_err().to_string()).collect();
    assert!(told[1].contains("no more"), "{told:?}");
    assert!(told[0].contains("worker") && told[0].contains("has left"), "{told:?}");
}

/// A sum of all gradients costs each of two workers as many numbers as it has.
#[test]
fn few_bytes_are_sent() {
    let sent = on(2, |g| {
        mlp::<Cpu>(g, How::default(), &cpu()).unwrap();
        g.traffic()
    });
    let net = DigitsMlp::<Cpu>::new(&mut Generator::new(1), &cpu());
    let weights: usize = net.parameters().iter().map(|p| p.get().numel()).sum();
    let steps = 6;
    for one in sent {
        // Besides gradients: the loss, counts of terms, whether to go on, and what is compared.
        let most = (steps * (4 * weights + 200) + 1000) as u64;
        assert!(one.bytes <= most, "{} of {most}", one.bytes);
    }
}
