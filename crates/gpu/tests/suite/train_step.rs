//! A captured training step has the bits of the step, and what it may not do changes nothing.

use super::{cuda, interp};
use elinvar_core::{ErrorKind, Result};
use elinvar_cpu::{Cpu, CpuDevice};
use elinvar_driver::null::Call;
use elinvar_driver::{Driver, Interp, Null, Vulkan};
use elinvar_gpu::{Gpu, GpuDevice};
use elinvar_nn::layers::{AlphaDropout, BatchNorm1d, Dropout, Linear};
use elinvar_nn::loss::cross_entropy;
use elinvar_nn::optim::schedule::CosineAnnealingLr;
use elinvar_nn::optim::*;
use elinvar_nn::train::{Measured, TrainStep};
use elinvar_nn::{Generator, Layer, Module, Sequential, Strict, Tensor};
use elinvar_ops::Backend;
use elinvar_ops::backend::Memory;
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::Stream;
use std::sync::Mutex;

/// Layers that draw, and one with running statistics.
#[derive(Module)]
struct Net<B: Backend> {
    first: Linear<B>,
    norm: BatchNorm1d<B>,
    drop: Dropout,
    alpha: AlphaDropout,
    last: Linear<B>,
}

const INPUTS: usize = 3;
const CLASSES: usize = 2;

impl<B: Backend> Net<B> {
    fn new(d: &B::Device) -> Self {
        let g = &mut Generator::new(7);
        Net {
            first: Linear::new(INPUTS, 4, g, d),
            norm: BatchNorm1d::new(4, d),
            drop: Dropout::new(0.25, g),
            alpha: AlphaDropout::new(0.25, g),
            last: Linear::new(4, CLASSES, g, d),
        }
    }
    fn loss(&self, x: &Tensor<B>, y: &Tensor<B>) -> Tensor<B> {
        let x = self.drop.forward(&self.norm.forward(&self.first.forward(x)).relu());
        cross_entropy(&self.last.forward(&self.alpha.forward(&x)), y)
    }
}

type Pair<B> = (Tensor<B>, Tensor<B>);
type Optimisers<B> = Vec<(&'static str, fn() -> Box<dyn Optimizer<B>>)>;

/// Batch of a step: the fourth is smaller, and the classes of each are others.
fn batch<B: Backend>(step: usize, d: &B::Device) -> Pair<B> {
    let n = if step % 5 == 3 { 2 } else { 4 };
    let x = (0..n * INPUTS).map(|i| ((i * 7 + step * 13) % 29) as f32 / 29.0 - 0.4);
    let y = (0..n).map(|i| ((i + step / 2) % CLASSES) as i64);
    (Tensor::from_vec(x.collect(), &[n, INPUTS], d), Tensor::from_vec(y.collect(), &[n], d))
}
fn objective<B: Backend>(net: &Net<B>, (x, y): &Pair<B>) -> Result<Measured<B>> {
    let loss = net.loss(x, y);
    Ok(Measured { samples: x.size(0), metrics: vec![("twice", &loss.detach() * 2.0)], loss })
}
fn bytes<B: Backend>(t: &Tensor<B>) -> Vec<u8> {
    t.to_host().unwrap().data().to_le_bytes()
}

/// All that a run leaves behind, as bytes and text.
fn state<B: Backend>(net: &impl Module<B>, o: &dyn Optimizer<B>) -> String {
    let (tensors, groups) = o.state_dict(net).unwrap().to_tensors();
    let both = net.state_dict().unwrap().into_iter().chain(tensors);
    let all: Vec<_> = both.map(|(name, t)| (name, t.data().to_le_bytes())).collect();
    let random: Vec<_> = net.leaves().randoms.iter().map(|(_, r)| r.state()).collect();
    format!("{all:?} {groups} {random:?}")
}

/// Steps; the losses and metrics, and the state in the end.
fn run<B: Backend>(
    net: &Net<B>,
    o: &mut dyn Optimizer<B>,
    step: &mut TrainStep<'_, B, Net<B>, Pair<B>>,
    steps: std::ops::Range<usize>,
    d: &B::Device,
) -> (Vec<Vec<u8>>, String) {
    let one = |i| step.run(o, &[batch(i, d)]).unwrap().remove(0);
    let told: Vec<Measured<B>> = steps.map(one).collect();
    let told = told.iter().flat_map(|m| [bytes(&m.loss), bytes(&m.metrics[0].1)]).collect();
    (told, state(net, o))
}

/// How a step is set up.
#[derive(Clone, Copy, Debug)]
enum Settings {
    Plain,
    /// With clipping and a schedule.
    Scheduled,
    /// With a scale that overflows, in the first step and after each two that are made.
    Scaled,
}

fn set_up<'a, B: Backend>(net: &'a Net<B>, settings: Settings) -> TrainStep<'a, B, Net<B>, Pair<B>> {
    let loud =
        |net: &Net<B>, batch: &Pair<B>| objective(net, batch).map(|m| Measured { loss: &m.loss * 1e3, ..m });
    match settings {
        Settings::Plain => TrainStep::new(net, objective),
        Settings::Scheduled => TrainStep::new(net, objective)
            .clip_grad_norm(0.05)
            .schedule(0.01, CosineAnnealingLr::new(20).unwrap())
            .starting_at(3),
        Settings::Scaled => TrainStep::new(net, loud).clip_grad_value(0.1).grad_scaler(
            GradScaler::new().init_scale(1e36).backoff_factor(1e-3).growth_factor(1e3).growth_interval(2),
        ),
    }
}

/// The same steps, plain and captured.
fn equal<B: Backend>(
    d: &B::Device,
    what: &str,
    new: fn() -> Box<dyn Optimizer<B>>,
    settings: Settings,
    steps: usize,
    recordings: usize,
) {
    let (a, b, mut p, mut q) = (Net::new(d), Net::new(d), new(), new());
    let want = run(&a, &mut *p, &mut set_up(&a, settings), 0..steps, d);
    let mut captured = set_up(&b, settings).capture();
    let got = run(&b, &mut *q, &mut captured, 0..steps, d);
    assert!(got == want, "{what}, {settings:?}: {got:?}\n{want:?}");
    assert_eq!(captured.recordings(), recordings, "{what}, {settings:?}");
}

fn all<B: Backend>() -> Optimisers<B> {
    vec![
        ("sgd", || Box::new(Sgd::new(0.1))),
        ("momentum", || Box::new(Sgd::new(0.1).momentum(0.9).nesterov(true).weight_decay(0.1))),
        ("adam", || Box::new(Adam::new(0.01).amsgrad(true).weight_decay(0.1))),
        ("adamw", || Box::new(AdamW::new(0.01).group(Group::matching(|n| n.contains("bias")).lr_scale(0.5)))),
        ("adamax", || Box::new(Adamax::new(0.01))),
        ("nadam", || Box::new(NAdam::new(0.01))),
        ("radam", || Box::new(RAdam::new(0.01))),
        ("adagrad", || Box::new(Adagrad::new(0.01))),
        ("adadelta", || Box::new(Adadelta::new(0.5))),
        ("rmsprop", || Box::new(RmsProp::new(0.01).momentum(0.9))),
        ("lion", || Box::new(Lion::new(0.01))),
        ("adafactor", || Box::new(Adafactor::new(0.01).weight_decay(0.1))),
        ("muon", || {
            Box::new(
                Split::new(AdamW::new(0.01)).with(Muon::new(0.02).match_rms_adamw(), |_, s| s.rank() == 2),
            )
        }),
    ]
}

fn every_optimiser<B: Backend>(d: &B::Device, recordings: usize) {
    for (what, new) in all::<B>() {
        equal(d, what, new, Settings::Plain, 3, recordings);
    }
}

#[test]
fn every_optimiser_makes_the_same_step() {
    every_optimiser::<Gpu<Interp>>(&interp(), 1);
    if let Some(d) = super::vulkan() {
        every_optimiser::<Gpu<Vulkan>>(&d, 1);
    }
    every_optimiser::<Cpu>(&CpuDevice::default(), 0);
}

/// Batches of two shapes, a schedule, steps that are skipped.
fn settings<B: Backend>(d: &B::Device, recordings: usize) {
    let [.., (name, muon)] = all::<B>()[..] else { unreachable!("there are some") };
    equal(d, name, muon, Settings::Scheduled, 5, recordings);
    equal(d, name, muon, Settings::Scaled, 6, recordings);
    // Its numbers depend on the steps that were made before.
    equal::<B>(d, "nadam", || Box::new(NAdam::new(0.01)), Settings::Scaled, 6, recordings);
}

#[test]
fn settings_and_shapes_on_every_device() {
    settings::<Gpu<Interp>>(&interp(), 2);
    settings::<Gpu<elinvar_driver::Cuda>>(&cuda(), 2);
    if let Some(d) = super::vulkan() {
        settings::<Gpu<Vulkan>>(&d, 2);
    }
    settings::<Cpu>(&CpuDevice::default(), 0);
    settings::<Reference>(&ReferenceDevice, 0);
}

type G = Gpu<Interp>;

/// Steps that are recorded in one stream and replayed in others, while what they change in place is
/// read in one more, at once or put off.
fn in_streams<B: Backend>(d: &B::Device, recordings: usize) {
    let streams = [0; 3].map(|_| Stream::<B>::new(d).unwrap());
    let (a, b, mut p, mut q) = (Net::<B>::new(d), Net::<B>::new(d), Adam::new(0.01), Adam::new(0.01));
    let mut plain = TrainStep::new(&a, objective);
    let mut captured = TrainStep::new(&b, objective).capture();
    let [x, y] = [&a, &b].map(|net| &net.last.weight);
    let (mut want, mut got) = (Vec::new(), Vec::new());
    for i in 0..12 {
        let there = streams[2].scope(|| batch(i, d));
        want.push(plain.run(&mut p, &[batch(i, d)]).unwrap().remove(0).loss);
        got.push(streams[i % 2].scope(|| captured.run(&mut q, &[there])).unwrap().remove(0).loss);
        want.push(x.get().detach().cumsum(0));
        got.push(streams[(i + 1) % 3].scope(|| y.get().detach().cumsum(0)));
        if i == 8 {
            want.push(x.get().detach() * 2.0);
            got.push(streams[1].scope(|| y.get().detach() * 2.0));
        }
    }
    let all = |told: &[Tensor<B>]| told.iter().map(bytes).collect::<Vec<_>>();
    let (want, got) = (all(&want), all(&got));
    assert_eq!(got.iter().zip(&want).position(|(a, b)| a != b), None, "of {} results", want.len());
    assert!(state(&a, &p) == state(&b, &q));
    assert_eq!(captured.recordings(), recordings);
}

#[test]
fn steps_are_replayed_in_any_stream() {
    in_streams::<Gpu<_>>(&cuda(), 2);
    in_streams::<Gpu<_>>(&interp(), 2);
    if let Some(d) = super::vulkan() {
        in_streams::<Gpu<Vulkan>>(&d, 2);
    }
    in_streams::<Cpu>(&CpuDevice::default(), 0);
}

/// A captured run that is saved, and goes on elsewhere.
fn resumed<B: Backend>(d: &B::Device) {
    let (a, b, c) = (Net::<B>::new(d), Net::<B>::new(d), Net::<B>::new(d));
    let (mut p, mut q, mut r) = (Adam::new(0.01), Adam::new(0.01), Adam::new(0.5));
    let want = run(&a, &mut p, &mut set_up(&a, Settings::Plain), 0..8, d).1;
    run(&b, &mut q, &mut set_up(&b, Settings::Plain).capture(), 0..4, d);
    c.load_state_dict(&b.state_dict().unwrap(), Strict::Yes).unwrap();
    r.load_state_dict(&c, &q.state_dict(&b).unwrap()).unwrap();
    b.leaves().randoms.iter().zip(&c.leaves().randoms).for_each(|((_, b), (_, c))| c.set_state(b.state()));
    assert!(run(&c, &mut r, &mut set_up(&c, Settings::Plain).capture(), 4..8, d).1 == want);
}

#[test]
fn a_run_that_is_resumed_has_the_same_bits() {
    resumed::<G>(&interp());
    if let Some(d) = super::vulkan() {
        resumed::<Gpu<Vulkan>>(&d);
    }
    resumed::<Cpu>(&CpuDevice::default());
}

/// What happens between two steps is seen, and values that are held stay what they are.
#[test]
fn changes_between_steps_are_seen() {
    let d = interp();
    let change = |i: usize, net: &Net<G>, o: &mut Adam<G>| -> Vec<Tensor<G>> {
        match i {
            // A parameter, and what is deferred and reads one.
            2 => vec![net.last.weight.get().detach(), net.norm.weight.as_ref().unwrap().get().detach() * 2.0],
            3 => vec![net.norm.running_mean.as_ref().unwrap().get()],
            4 => {
                net.first.freeze();
                vec![]
            }
            5 => {
                net.first.unfreeze();
                let bias = net.last.bias.as_ref().unwrap();
                bias.set(&(bias.get().detach() * 0.5)).unwrap();
                vec![]
            }
            6 => {
                let all = o.state_dict(net).unwrap();
                o.load_state_dict(net, &all).unwrap();
                net.eval();
                vec![]
            }
            _ => vec![],
        }
    };
    let (a, b) = (Net::<G>::new(&d), Net::<G>::new(&d));
    let (mut p, mut q) = (Adam::new(0.01), Adam::new(0.01));
    let (mut plain, mut captured) = (set_up(&a, Settings::Plain), set_up(&b, Settings::Plain).capture());
    let mut held = vec![];
    for i in 0..8 {
        let kept = (change(i, &a, &mut p), change(i, &b, &mut q));
        let pair = &[batch(5 * i, &d)];
        let want = plain.run(&mut p, pair).unwrap();
        let got = captured.run(&mut q, pair).unwrap();
        assert_eq!(bytes(&got[0].loss), bytes(&want[0].loss), "step {i}");
        assert!(state(&a, &p) == state(&b, &q), "step {i}");
        held.push(kept);
    }
    for (want, got) in held {
        assert_eq!(want.iter().map(bytes).collect::<Vec<_>>(), got.iter().map(bytes).collect::<Vec<_>>());
    }
}

/// A step that fails changes nothing, whether it is the first or a later one, and the next one is
/// as good as any.
/// `records`: what makes the plain step does not mind what its objective keeps.
fn refused<B: Backend>(d: &B::Device, records: bool) {
    type F<B> = Box<dyn Fn(&Net<B>, &Pair<B>) -> Result<Measured<B>> + Sync>;
    let kept = Mutex::new(vec![]);
    let loss = |loss: Tensor<B>| Ok(Measured { loss, samples: 1, metrics: vec![] });
    let all: Vec<(&str, ErrorKind, F<B>)> = vec![
        (
            "reading numbers",
            ErrorKind::Unsupported,
            Box::new(move |net, (x, y)| loss(net.loss(x, y) * x.sum().to_vec::<f32>()?[0])),
        ),
        (
            "none of the 6 parameters has a gradient",
            ErrorKind::Autograd,
            Box::new(move |net, (x, y)| {
                net.loss(x, y);
                loss(x.sum().requires_grad())
            }),
        ),
        (
            "drawing random numbers on the host",
            ErrorKind::Unsupported,
            Box::new(move |net, (x, y)| {
                let [(_, random), ..] = net.leaves().randoms[..] else { unreachable!("it has two") };
                random.draw(|g| g.state())?;
                loss(net.loss(x, y))
            }),
        ),
        (
            "keeps a tensor",
            ErrorKind::InvalidArgument,
            Box::new(move |net, (x, y)| {
                kept.lock().unwrap().push(x.exp());
                loss(net.loss(x, y))
            }),
        ),
    ];
    // What a step may do that is made anew each time.
    let plain = ["keeps a tensor", "drawing random numbers on the host"];
    for (what, kind, bad) in all.into_iter().filter(|(what, ..)| records || !plain.contains(what)) {
        let is_bad = Mutex::new(false);
        let f = |net: &Net<B>, pair: &Pair<B>| {
            if *is_bad.lock().unwrap() { bad(net, pair) } else { objective(net, pair) }
        };
        let (a, b) = (Net::<B>::new(d), Net::<B>::new(d));
        let (mut p, mut q) = (Adam::new(0.01), Adam::new(0.01));
        let (mut plain, mut captured) = (TrainStep::new(&a, objective), TrainStep::new(&b, f).capture());
        for i in 0..4 {
            // The second step is recorded; the fourth is of another shape.
            if i % 2 == 1 {
                *is_bad.lock().unwrap() = true;
                let before = state(&b, &q);
                let e = captured.run(&mut q, &[batch(i, d)]).map(|_| ()).expect_err(what);
                assert!(e.kind() == kind && e.message().contains(what), "{what}: {e}");
                assert!(state(&b, &q) == before, "{what}");
                *is_bad.lock().unwrap() = false;
            }
            plain.run(&mut p, &[batch(i, d)]).unwrap();
            captured.run(&mut q, &[batch(i, d)]).unwrap();
            assert!(state(&a, &p) == state(&b, &q), "{what}, step {i}");
        }
    }
}

#[test]
fn what_a_captured_step_may_not_do_changes_nothing() {
    refused::<G>(&interp(), true);
    if let Some(d) = super::vulkan() {
        refused::<Gpu<Vulkan>>(&d, true);
    }
    refused::<Cpu>(&CpuDevice::default(), false);
}

/// An index out of range is the error that it is in a plain step, and changes nothing.
#[test]
fn an_index_out_of_range_is_seen() {
    let d = interp();
    let (a, b) = (Net::<G>::new(&d), Net::<G>::new(&d));
    let (mut p, mut q) = (Adam::new(0.01), Adam::new(0.01));
    let (mut plain, mut captured) = (set_up(&a, Settings::Plain), set_up(&b, Settings::Plain).capture());
    for i in 0..4 {
        let (x, y) = batch(5 * i, &d);
        if i > 0 {
            let before = state(&b, &q);
            let e = captured.run(&mut q, &[(x.clone(), &y + 7)]).unwrap_err();
            assert!(e.kind() == ErrorKind::InvalidArgument && e.message().contains("out of range"), "{e}");
            assert!(state(&b, &q) == before);
        }
        plain.run(&mut p, &[(x.clone(), y.clone())]).unwrap();
        captured.run(&mut q, &[(x, y)]).unwrap();
        assert!(state(&a, &p) == state(&b, &q), "step {i}");
    }
}

/// However far the recording comes before memory is exhausted.
fn without_memory<B: Backend>(d: &B::Device) {
    let (a, b) = (Net::<B>::new(d), Net::<B>::new(d));
    let (mut p, mut q) = (Adam::new(0.01), Adam::new(0.01));
    let (mut plain, mut captured) = (set_up(&a, Settings::Plain), set_up(&b, Settings::Plain).capture());
    let pair = |i: usize| [batch::<B>(5 * i, d)];
    plain.run(&mut p, &pair(0)).unwrap();
    captured.run(&mut q, &pair(0)).unwrap();
    let (before, pair) = (state(&b, &q), pair(1));
    let mut failures = 0;
    for more in (0..).map(|i| i * 3 * 256) {
        B::set_memory_limit(d, Some(B::memory_stats(d).unwrap().in_use + more)).unwrap();
        let result = captured.run(&mut q, &pair);
        B::set_memory_limit(d, None).unwrap();
        let Err(e) = result else { break };
        assert_eq!(e.kind(), ErrorKind::OutOfMemory, "{e}");
        assert!(state(&b, &q) == before, "{more} bytes");
        failures += 1;
    }
    assert!(failures > 4, "{failures}");
    plain.run(&mut p, &pair).unwrap();
    assert!(state(&a, &p) == state(&b, &q));
}

#[test]
fn nothing_is_lost_without_memory() {
    without_memory::<G>(&interp());
    if let Some(d) = super::vulkan() {
        without_memory::<Gpu<Vulkan>>(&d);
    }
}

/// A batch, and a stream, of another device.
#[test]
fn another_device_is_seen() {
    let (d, other) = (interp(), interp());
    let (a, b) = (Net::<G>::new(&d), Net::<G>::new(&d));
    let (mut p, mut q) = (Adam::new(0.01), Adam::new(0.01));
    let (mut plain, mut captured) = (set_up(&a, Settings::Plain), set_up(&b, Settings::Plain).capture());
    let stream = Stream::<G>::new(&other).unwrap();
    for i in 0..4 {
        let before = state(&b, &q);
        let e = captured.run(&mut q, &[batch(5 * i, &other)]).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::DeviceMismatch, "{e}");
        assert!(state(&b, &q) == before, "step {i}");
        plain.run(&mut p, &[batch(5 * i, &d)]).unwrap();
        // Work of this device goes to its own queue, whatever scope of another one it is in.
        stream.scope(|| captured.run(&mut q, &[batch(5 * i, &d)])).unwrap();
        assert!(state(&a, &p) == state(&b, &q), "step {i}");
    }
}

/// A captured step is one launch of a graph, and a copy of each input, table and result.
#[test]
fn a_step_is_one_launch() {
    let d = GpuDevice::new(Null::open(0).unwrap(), 0);
    let net = Net::<Gpu<Null>>::new(&d);
    for settings in [Settings::Plain, Settings::Scheduled] {
        let mut adam = Adam::new(0.01);
        let mut step = set_up(&net, settings).capture();
        let pair = [batch(0, &d)];
        (0..2).for_each(|_| drop(step.run(&mut adam, &pair).unwrap()));
        let driver = d.driver().unwrap();
        driver.take();
        let used = Gpu::<Null>::memory_stats(&d).unwrap().in_use;
        drop(step.run(&mut adam, &pair).unwrap());
        assert_eq!(Gpu::<Null>::memory_stats(&d).unwrap().in_use, used);
        let calls = driver.take();
        let count = |f: fn(&Call) -> bool| calls.iter().filter(|c| f(c)).count();
        assert_eq!(count(|c| matches!(c, Call::Replay(n) if *n > 20)), 1, "{calls:?}");
        // Two tables, two inputs; loss and metric are copied by kernels.
        assert_eq!(count(|c| matches!(c, Call::Write(_))), 2, "{calls:?}");
        assert_eq!(count(|c| matches!(c, Call::Copy(_))), 4, "{calls:?}");
        assert_eq!(calls.len(), 9, "nothing is read, and nothing waits: {calls:?}");
    }
}

/// With a scaler, too, the host does not look at numbers, but once in as many steps as the table
/// has rows: which of them were skipped.
#[test]
fn a_scaled_step_reads_nothing() {
    let d = GpuDevice::new(Null::open(0).unwrap(), 0);
    let (net, mut adam, pair) = (Net::<Gpu<Null>>::new(&d), Adam::new(0.01), [batch(0, &d)]);
    let mut step = set_up(&net, Settings::Scaled).capture();
    let mut waits = |steps: usize| {
        (0..steps).for_each(|_| drop(step.run(&mut adam, &pair).unwrap()));
        d.driver().unwrap().take().iter().filter(|c| c.waits()).count()
    };
    waits(2);
    assert_eq!([waits(63), waits(64), waits(64)], [0, 1, 1]);
}

/// Steps that a scaler skips now and then, more than the table has rows, by optimisers that count
/// their steps; the captured ones go on elsewhere in the middle.
fn scaled<B: Backend>(d: &B::Device, steps: usize) {
    type New<B> = fn() -> Box<dyn Optimizer<B>>;
    fn fit<B: Backend>(net: &Linear<B>, x: &Tensor<B>) -> Result<Measured<B>> {
        let loss = (net.forward(x) - 3.0).square().sum();
        Ok(Measured { loss, samples: 1, metrics: vec![] })
    }
    fn made<B: Backend>(net: &Linear<B>) -> TrainStep<'_, B, Linear<B>, Tensor<B>> {
        TrainStep::new(net, fit).schedule(0.01, CosineAnnealingLr::new(500).unwrap()).grad_scaler(
            GradScaler::new().init_scale(1e38).backoff_factor(0.1).growth_factor(10.0).growth_interval(3),
        )
    }
    let net = || Linear::<B>::new(1, 1, &mut Generator::new(1), d);
    let all: [New<B>; 2] = [|| Box::new(Adam::new(0.01)), || Box::new(NAdam::new(0.01))];
    for new in all {
        let (a, b, c, mut p, mut q, mut r) = (net(), net(), net(), new(), new(), new());
        let (mut plain, mut first) = (made(&a), made(&b).capture());
        let mut second = made(&c).starting_at(steps as u64 / 2).capture();
        let mut skipped = 0;
        for i in 0..steps {
            if i == steps / 2 {
                c.load_state_dict(&b.state_dict().unwrap(), Strict::Yes).unwrap();
                r.load_state_dict(&c, &q.state_dict(&b).unwrap()).unwrap();
                let saved = first.scaler().unwrap().state().unwrap();
                second.scaler().unwrap().load_state(saved).unwrap();
            }
            let (net, o, captured) =
                if i < steps / 2 { (&b, &mut q, &mut first) } else { (&c, &mut r, &mut second) };
            // Of one that is skipped, nothing changes.
            let is_bad = i % 50 == 31;
            let x = Tensor::from_vec(vec![if is_bad { f32::INFINITY } else { 0.5 }], &[1, 1], d);
            let tensors = |o: &dyn Optimizer<B>| {
                let (of_optimizer, _) = o.state_dict(net).unwrap().to_tensors();
                let both = net.state_dict().unwrap().into_iter().chain(of_optimizer);
                both.map(|(name, t)| (name, t.data().to_le_bytes())).collect::<Vec<_>>()
            };
            let before = is_bad.then(|| tensors(&**o));
            plain.run(&mut *p, std::slice::from_ref(&x)).unwrap();
            captured.run(&mut **o, &[x]).unwrap();
            if i % 49 == 0 || is_bad || i + 1 == steps {
                let (want, got) = (state(&a, &*p), state(net, &**o));
                assert!(got == want, "step {i}: {got}\n{want}");
                assert!(before.is_none_or(|before| before == tensors(&**o)), "step {i}");
                let scales = [plain.scaler(), captured.scaler()].map(|s| s.unwrap().state().unwrap());
                assert_eq!(scales[0], scales[1], "step {i}");
            }
            skipped += usize::from(is_bad);
        }
        assert!(skipped > 1);
    }
}

#[test]
fn scaled_steps_have_the_same_bits() {
    scaled::<G>(&interp(), 150);
    if let Some(d) = super::vulkan() {
        scaled::<Gpu<Vulkan>>(&d, 1000);
    }
    scaled::<Cpu>(&CpuDevice::default(), 200);
}

/// On Vulkan a captured step is one submission, which has the copies of inputs and tables, too.
#[test]
fn a_step_is_one_submission() {
    let Some(d) = super::vulkan() else { return };
    let (net, mut adam, pair) = (Net::<Gpu<Vulkan>>::new(&d), Adam::new(0.01), [batch(0, &d)]);
    let driver = d.driver().unwrap();
    let mut counts = [false, true].map(|captured| {
        let mut step = set_up(&net, Settings::Scheduled);
        if captured {
            step = step.capture();
        }
        let mut told = vec![];
        (0..2).for_each(|_| told.extend(step.run(&mut adam, &pair).unwrap()));
        driver.wait().unwrap();
        let before = driver.host_calls();
        (0..10).for_each(|_| told.extend(step.run(&mut adam, &pair).unwrap()));
        let after = driver.host_calls();
        [after.submissions - before.submissions, after.commands - before.commands]
    });
    let [plain, captured] = &mut counts;
    assert_eq!(captured[0], 10);
    // Copies of two inputs, two tables and to them, two results by kernels, and barriers.
    assert!(captured[1] <= 10 * 30, "{counts:?}");
    assert!(captured[1] * 10 <= plain[1], "{counts:?}");
}

/// A thousand steps of a small network that draws, which goes on elsewhere in the middle.
#[test]
fn a_thousand_steps() {
    type Small = Sequential<G>;
    let d = interp();
    let new = || {
        let g = &mut Generator::new(1);
        let first = Small::new().with(Linear::new(1, 2, g, &d));
        first.with(Dropout::new(0.5, g)).with(Linear::new(2, 1, g, &d))
    };
    let fit = |net: &Small, x: &Tensor<G>| {
        let loss = (net.forward(x) - 3.0).square().sum();
        Ok(Measured { loss, samples: 1, metrics: vec![] })
    };
    let x = [Tensor::<G>::from_vec(vec![0.5f32], &[1, 1], &d)];
    let (a, b, c) = (new(), new(), new());
    let (mut p, mut q, mut r) = (Adam::new(0.01), Adam::new(0.01), Adam::new(0.01));
    let mut plain = TrainStep::new(&a, fit);
    (0..1000).for_each(|_| drop(plain.run(&mut p, &x).unwrap()));
    let mut first = TrainStep::new(&b, fit).capture();
    (0..500).for_each(|_| drop(first.run(&mut q, &x).unwrap()));
    c.load_state_dict(&b.state_dict().unwrap(), Strict::Yes).unwrap();
    for ((_, to), (_, from)) in c.leaves().randoms.iter().zip(&b.leaves().randoms) {
        to.set_state(from.state());
    }
    r.load_state_dict(&c, &q.state_dict(&b).unwrap()).unwrap();
    let mut second = TrainStep::new(&c, fit).capture();
    (0..500).for_each(|_| drop(second.run(&mut r, &x).unwrap()));
    assert!(state(&a, &p) == state(&c, &r));
    assert_eq!((first.recordings(), second.recordings()), (1, 1));
}
