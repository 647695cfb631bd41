//! Gradients that are sent while the backward pass goes on: the bits of those that are sent behind
//! it, and that they are sent meanwhile.

mod support;

use elinvar_core::{DType, Error, Result};
use elinvar_cpu::Cpu;
use elinvar_distributed::Group;
use elinvar_io::weights_hash;
use elinvar_nn::data::{Batch, Loader};
use elinvar_nn::layers::Linear;
use elinvar_nn::loss::CrossEntropy;
use elinvar_nn::models::{DigitsCnn, DigitsMlp};
use elinvar_nn::optim::AdamW;
use elinvar_nn::train::{Callback, Classification, Measured, Objective, Step, Trainer};
use elinvar_nn::{Backend, Generator, Layer, Module, Tensor};
use elinvar_tensor::checkpoint;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use support::{cpu, on, pairs};

#[derive(Clone, Copy)]
struct How {
    shards: usize,
    bucket: usize,
    accumulate: usize,
    amp: Option<DType>,
    zero1: bool,
    samples: usize,
}

const PLAIN: How = How { shards: 8, bucket: 1, accumulate: 1, amp: None, zero1: false, samples: 45 };

/// The hash of the weights, and the messages and bytes that were sent.
fn train<M: Module<Cpu>>(
    net: &M,
    objective: impl Objective<Cpu, M, Batch<Cpu>>,
    group: &Group,
    how: How,
) -> Result<(String, [u64; 2])> {
    let loader = Loader::new(pairs(how.samples), 16)?.shuffle(5);
    let mut adam = AdamW::new(3e-3);
    let mut run = Trainer::new(net, &mut adam, &loader, objective).epochs(1).clip_grad_norm(1.0);
    run = run.shards(how.shards).accumulate(how.accumulate).group(group).bucket_bytes(how.bucket);
    if let Some(half) = how.amp {
        run = run.amp(half);
    }
    if how.zero1 {
        run = run.zero1();
    }
    run.run(&cpu())?;
    let sent = group.traffic();
    Ok((weights_hash(&net.state_dict()?), [sent.messages, sent.bytes]))
}

fn mlp(group: &Group, how: How) -> Result<(String, [u64; 2])> {
    let net = DigitsMlp::<Cpu>::new(&mut Generator::new(1), &cpu());
    train(&net, Classification::new(), group, how)
}

/// The same hash for each of the buckets and numbers of workers. Returns what worker 0 has sent.
fn one_hash(
    workers: &[usize],
    buckets: &[usize],
    run: impl Fn(&Group, usize) -> Result<(String, [u64; 2])> + Sync,
) -> Vec<[u64; 2]> {
    let want = run(&Group::alone(), 1).unwrap().0;
    let mut sent = vec![];
    for &n in workers {
        for &bucket in buckets {
            let all = on(n, |g| run(g, bucket).unwrap());
            assert!(all.iter().all(|one| one.0 == want), "{n} workers, buckets of {bucket} bytes");
            sent.push(all[0].1);
        }
    }
    sent
}

#[test]
fn buckets_change_no_bit() {
    // Behind the pass; each parameter by itself; some together; all together.
    let sizes = [0, 1, 3000, 25 << 20];
    let workers = [2, 3];
    let sent = one_hash(&workers, &sizes, |g, bucket| mlp(g, How { bucket, ..PLAIN }));
    for (workers, of_one) in workers.iter().zip(sent.chunks(sizes.len())) {
        let [messages, bytes] = [0, 1].map(|k| of_one.iter().map(|s| s[k]).collect::<Vec<_>>());
        assert!(messages[1] > messages[2] && messages[2] > messages[3], "{messages:?}");
        // More workers send small sums to all others, to save a round.
        assert!(*workers > 2 || bytes.iter().all(|n| *n == bytes[0]), "{bytes:?}");
    }
    let half = How { accumulate: 2, amp: Some(DType::F16), ..PLAIN };
    for how in [half, How { zero1: true, ..PLAIN }, How { zero1: true, ..half }] {
        one_hash(&[3], &[1, 3000], |g, bucket| mlp(g, How { bucket, ..how }));
    }
    // As many shards as workers, so that all of each worker's gradients are of its last pass.
    one_hash(&[2], &[1], |g, bucket| mlp(g, How { bucket, shards: 2, ..PLAIN }));
    let cnn = |g: &Group, bucket| {
        let net = DigitsCnn::<Cpu>::new(&mut Generator::new(1), &cpu());
        train(&net, Classification::new(), g, How { bucket, samples: 29, ..PLAIN })
    };
    one_hash(&[2], &[1], cnn);
}

/// Two heads, of which a batch uses one, by its first sample; and a layer that nothing uses.
#[derive(Module)]
struct Heads {
    frozen: Linear<Cpu>,
    body: Linear<Cpu>,
    heads: Vec<Linear<Cpu>>,
    idle: Linear<Cpu>,
}

impl Heads {
    fn new() -> Self {
        let (g, d) = (&mut Generator::new(1), cpu());
        let net = Heads {
            frozen: Linear::new(64, 32, g, &d),
            body: Linear::new(32, 8, g, &d),
            heads: (0..2).map(|_| Linear::new(8, 10, g, &d)).collect(),
            idle: Linear::new(3, 3, g, &d),
        };
        net.frozen.parameters().iter().for_each(|p| p.freeze());
        net
    }
    fn measure(&self, b: &Batch<Cpu>) -> Result<Measured<Cpu>> {
        let first = self.frozen.forward(&b.x.flatten(1, 3));
        let body =
            Linear { weight: self.body.weight.share(), bias: self.body.bias.as_ref().map(|p| p.share()) };
        // Recomputed in the backward pass.
        let h = checkpoint(move |x| Ok(body.forward(&x[0]).relu()), &[&first])?;
        let head = b.y.to_vec::<i64>()?[0] as usize % 2;
        let loss = CrossEntropy::new().of(&self.heads[head].forward(&h), &b.y);
        Ok(Measured { loss, samples: b.x.size(0), metrics: vec![] })
    }
}

#[test]
fn parameters_that_are_frozen_idle_or_used_by_some_shards() {
    let run = |g: &Group, bucket| train(&Heads::new(), Heads::measure, g, How { bucket, ..PLAIN });
    let sent = one_hash(&[2, 4], &[0, 1], run);
    // What is frozen is not sent; what is idle is.
    let idle = 4 * Heads::new().idle.parameters().iter().map(|p| p.get().numel() as u64).sum::<u64>();
    let steps = 3;
    assert!(sent[1][1] <= sent[0][1] + steps * idle, "{sent:?}");
}

/// In each backward pass, when it comes to the first layer: has a message gone since it began?
fn messages_seen(shards: usize, bucket: usize, wait: Duration) -> Vec<Vec<bool>> {
    on(2, |g| {
        let net = DigitsMlp::<Cpu>::new(&mut Generator::new(1), &cpu());
        let (before, seen) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(vec![])));
        let first = net.parameters()[0].get();
        let (group, at_begin, saw) = (g.clone(), before.clone(), seen.clone());
        first.register_hook(move |_| {
            let end = Instant::now() + wait;
            let has_gone = || group.traffic().messages > at_begin.load(Ordering::SeqCst);
            while !has_gone() && Instant::now() < end {
                thread::sleep(Duration::from_millis(1));
            }
            saw.lock().unwrap().push(has_gone());
            None
        });
        let group = g.clone();
        let objective = move |net: &DigitsMlp<Cpu>, b: &Batch<Cpu>| {
            before.store(group.traffic().messages, Ordering::SeqCst);
            Classification::new().measure(net, b)
        };
        let loader = Loader::new(pairs(16), 16).unwrap();
        let mut adam = AdamW::new(3e-3);
        let run = Trainer::new(&net, &mut adam, &loader, objective).epochs(1).shards(shards).group(g);
        run.bucket_bytes(bucket).run(&cpu()).unwrap();
        drop(first);
        std::mem::take(&mut *seen.lock().unwrap())
    })
}

#[test]
fn buckets_go_while_the_pass_goes_on() {
    let (long, short) = (Duration::from_secs(30), Duration::from_millis(150));
    assert_eq!(messages_seen(2, 1, long), [[true], [true]]);
    // Of several shards of a worker, in the pass of the last one.
    assert_eq!(messages_seen(4, 1, short), [[false, true], [false, true]]);
    assert_eq!(messages_seen(4, 0, short), [[false, false], [false, false]]);
}

/// Freezes a parameter of worker 1 in the middle of a run.
struct Freeze<'n>(&'n DigitsMlp<Cpu>, usize);

impl<B: Backend> Callback<B> for Freeze<'_> {
    fn step(&mut self, _: &Step<'_, B>) -> Result<ControlFlow<()>> {
        if self.1 == 1 {
            self.0.parameters()[2].freeze();
        }
        Ok(ControlFlow::Continue(()))
    }
}

#[test]
fn what_goes_wrong_in_the_middle_is_a_sentence_on_every_worker() {
    /// What worker 1 does in its backward pass.
    fn with_hook(
        g: &Group,
        hook: impl Fn(&Tensor<Cpu>) -> Option<Tensor<Cpu>> + Send + Sync + 'static,
    ) -> Result<()> {
        let net = DigitsMlp::<Cpu>::new(&mut Generator::new(1), &cpu());
        let first = net.parameters()[0].get();
        if g.rank() == 1 {
            first.register_hook(hook);
        }
        train(&net, Classification::new(), g, PLAIN).map(drop)
    }
    type Row<'r> = (&'r str, &'r str, &'r (dyn Fn(&Group) -> Result<()> + Sync));
    let rows: [Row<'_>; 5] = [
        ("must make the same calls", "worker", &|g| {
            let net = DigitsMlp::<Cpu>::new(&mut Generator::new(1), &cpu());
            let loader = Loader::new(pairs(45), 16)?;
            let mut adam = AdamW::new(3e-3);
            let run = Trainer::new(&net, &mut adam, &loader, Classification::new()).epochs(1).shards(2);
            run.group(g).bucket_bytes(1).callback(Freeze(&net, g.rank())).run(&cpu()).map(drop)
        }),
        ("worker 1 has another model", "worker 1 has another model", &|g| {
            let net = DigitsMlp::<Cpu>::new(&mut Generator::new(1), &cpu());
            if g.rank() == 1 {
                net.parameters()[2].freeze();
            }
            train(&net, Classification::new(), g, PLAIN).map(drop)
        }),
        ("worker 1 has another set of settings", "worker 1 has another set of settings", &|g| {
            mlp(g, How { bucket: 1 + g.rank(), ..PLAIN }).map(drop)
        }),
        ("sent nothing within the time limit", "worker 0 has left", &|g| {
            let g = g.clone().time_limit(Duration::from_millis(if g.rank() == 0 { 300 } else { 20_000 }));
            with_hook(&g, |_| {
                thread::sleep(Duration::from_millis(1500));
                None
            })
        }),
        ("worker 1 has left", "a hook was given a gradient f32", &|g| with_hook(g, |g| Some(g.sum()))),
    ];
    for (first, second, run) in rows {
        let told: Vec<Error> = on(2, run).into_iter().map(Result::unwrap_err).collect();
        let any = |sentence: &str| told.iter().any(|e| e.message().contains(sentence));
        assert!(any(first) && any(second), "{first}: {told:?}");
    }
    // A panic that is no error of a tensor: the others learn of it.
    let told = on(2, |g| {
        let run = || with_hook(g, |_| panic!("in the middle"));
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        let failed = |_| Error::argument("panicked");
        let result = caught.map_err(failed).and_then(|r| r);
        result.inspect_err(|e| g.fail(e)).map_err(|e| e.to_string())
    });
    assert!(told[1].as_ref().unwrap_err().contains("panicked"), "{told:?}");
    assert!(told[0].as_ref().unwrap_err().contains("worker 1 has left"), "{told:?}");
}
