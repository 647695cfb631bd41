//! Double buffering: the same batches in the same order, with their errors, and none past the end.

use elinvar_core::{Error, HostTensor, Result, Shape};
use elinvar_cpu::{Cpu, CpuDevice};
use elinvar_nn::data::{Dataset, Loader, Prefetch};
use elinvar_nn::layers::Linear;
use elinvar_nn::optim::Sgd;
use elinvar_nn::train::{Classification, OnDemand, Source, Trainer, evaluate_on};
use elinvar_nn::{Generator, Module};
use elinvar_ops::Backend;
use elinvar_reference::{Reference, ReferenceDevice};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Sample i is ([i, i], i % 2); some fail, and all are counted.
#[derive(Default)]
struct Counted {
    n: usize,
    fails: Vec<usize>,
    asked: AtomicUsize,
}

impl Dataset for Counted {
    type Item = (HostTensor, i64);
    fn len(&self) -> usize {
        self.n
    }
    fn get(&self, i: usize) -> Result<(HostTensor, i64)> {
        self.asked.fetch_add(1, SeqCst);
        if self.fails.contains(&i) {
            return Err(Error::format(format!("sample {i} is torn")));
        }
        Ok((HostTensor::from_vec(vec![i as f32; 2], Shape::new(&[2])?)?, i as i64 % 2))
    }
}

type Told = std::result::Result<(Vec<usize>, Vec<f32>, Vec<i64>), String>;

/// What a loop does between two batches.
const LOOPS: [&str; 5] = ["", "g", "s", "gs", "gsggss"];

fn batches<B: Backend>(loader: &Loader<Counted>, start: usize, between: &str, d: &B::Device) -> Vec<Told> {
    let mut epoch = loader.epoch::<B>(2, start, d);
    let mut all = vec![];
    while let Some(batch) = epoch.next() {
        let told = |b: elinvar_nn::data::Batch<B>| {
            (b.samples, b.x.to_vec::<f32>().unwrap(), b.y.to_vec::<i64>().unwrap())
        };
        all.push(batch.map(told).map_err(|e| e.message().to_owned()));
        between.chars().for_each(|c| if c == 'g' { epoch.gather() } else { epoch.send() });
    }
    assert!(epoch.next().is_none());
    all
}

fn equal<B: Backend>(d: &B::Device) {
    // Batches of 4, the last of 3; one has the error of a sample, and so has the last.
    for (n, fails) in [(15, vec![]), (15, vec![6]), (15, vec![0, 14]), (1, vec![]), (1, vec![0]), (0, vec![])]
    {
        let data = Arc::new(Counted { n, fails, ..Counted::default() });
        let loader = Loader::new(data, 4).unwrap().shuffle(5);
        let plain = loader.clone().double_buffer(false);
        for start in 0..5 {
            let want = batches::<Reference>(&plain, start, "", &ReferenceDevice);
            for (between, workers) in LOOPS.iter().flat_map(|b| [(b, 0), (b, 2)]) {
                let loader = loader.clone().prefetch(Prefetch::new(workers));
                assert_eq!(batches::<B>(&loader, start, between, d), want, "{n} {start} {between} {workers}");
            }
        }
    }
}

#[test]
fn batches_are_the_same_with_double_buffering() {
    equal::<Reference>(&ReferenceDevice);
    equal::<Cpu>(&CpuDevice::default());
}

/// A batch is made ahead, and not two; none past the end, or past what is asked for.
#[test]
fn nothing_is_made_that_is_not_wanted() {
    let data = Arc::new(Counted { n: 12, ..Counted::default() });
    let asked = || data.asked.swap(0, SeqCst);
    let loader = Loader::new(data.clone(), 4).unwrap();
    let d = &ReferenceDevice;
    let mut epoch = loader.epoch::<Reference>(0, 0, d);
    assert_eq!(asked(), 0);
    for wanted in [[4, 4], [0, 4], [0, 0]] {
        let batch = epoch.next();
        assert!(batch.is_some());
        let now = asked();
        for _ in 0..2 {
            epoch.gather();
            epoch.send();
        }
        assert_eq!([now, asked()], wanted);
    }
    assert!(epoch.next().is_none());
    let net = Linear::<Reference>::new(2, 2, &mut Generator::new(1), d);
    for (limit, samples) in [(None, 12), (Some(2), 8), (Some(0), 0)] {
        let score = evaluate_on(&net, &loader, &Classification::new(), limit, d).unwrap();
        assert_eq!((score.samples, asked()), (samples as u64, samples));
    }
    let mut sgd = Sgd::new(0.1);
    Trainer::new(&net, &mut sgd, &loader, Classification::new()).epochs(3).run(d).unwrap();
    assert_eq!(asked(), 36);
}

/// The error of a batch ends a run behind the step before it, whose weights are what they are
/// without.
#[test]
fn an_error_comes_with_its_batch() {
    let d = &ReferenceDevice;
    let weights = |fails: Vec<usize>, double_buffer: bool, source: fn(Loader<Counted>) -> Asked| {
        let data = Arc::new(Counted { n: 12, fails, ..Counted::default() });
        let loader = source(Loader::new(data, 4).unwrap().double_buffer(double_buffer));
        let net = Linear::<Reference>::new(2, 2, &mut Generator::new(1), d);
        let mut sgd = Sgd::new(0.1);
        let run = Trainer::new(&net, &mut sgd, &loader, Classification::new()).epochs(1).run(d);
        let weights: Vec<_> = net.state_dict().unwrap().into_values().map(|w| w.to_f64_vec()).collect();
        (run.err().map(|e| e.message().to_owned()), weights)
    };
    let all = |fails: Vec<usize>| {
        let each = [(false, Asked::Loader as fn(_) -> _), (true, Asked::Loader), (true, Asked::OwnSource)];
        let [a, b, c] = each.map(|(double_buffer, source)| weights(fails.clone(), double_buffer, source));
        assert_eq!((&a, &a), (&b, &c));
        a
    };
    let mut seen = vec![all(vec![])];
    for i in [8, 4, 0] {
        seen.push(all(vec![i]));
        assert_eq!(seen[seen.len() - 1].0, Some(format!("sample {i} is torn")));
    }
    // Each ended behind another step.
    seen.dedup_by(|a, b| a.1 == b.1);
    assert_eq!(seen.len(), 4);
}

/// A loader, and a source that makes batches by an iterator of its own.
enum Asked {
    Loader(Loader<Counted>),
    OwnSource(Loader<Counted>),
}

impl<B: Backend> Source<B> for Asked {
    type Batch = elinvar_nn::data::Batch<B>;
    fn batches(&self) -> usize {
        let (Asked::Loader(l) | Asked::OwnSource(l)) = self;
        l.batches()
    }
    fn epoch<'a>(
        &'a self,
        epoch: u64,
        start: usize,
        device: &'a B::Device,
    ) -> Box<dyn elinvar_nn::train::Feed<Self::Batch> + 'a> {
        match self {
            Asked::Loader(l) => Source::<B>::epoch(l, epoch, start, device),
            Asked::OwnSource(l) => {
                Box::new(OnDemand(l.host_epoch(epoch, start).map(move |batch| batch?.to_device::<B>(device))))
            }
        }
    }
}
