//! Double buffering: the bits of a run without, copies by a second stream, and none that is not
//! computed with.

use super::{cuda, interp, vulkan};
use elinvar_core::{HostTensor, Result, Shape};
use elinvar_driver::{Driver, Null, null::Call};
use elinvar_gpu::{Gpu, GpuDevice};
use elinvar_nn::data::{Loader, Pairs};
use elinvar_nn::layers::Linear;
use elinvar_nn::optim::Adam;
use elinvar_nn::train::{Callback, Checkpoint, Checkpoints, Classification, Step, Trainer, evaluate_on};
use elinvar_nn::{Generator, Module};
use elinvar_ops::Backend;
use elinvar_reference::{Reference, ReferenceDevice};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Five batches of up to 4 samples; the last has 3.
fn loader(double_buffer: bool) -> Loader {
    let x = (0..19 * 6).map(|i| ((i * 7) % 23) as f32 / 23.0 - 0.4).collect();
    let y = (0..19).map(|i| i % 3).collect::<Vec<i64>>();
    let host = |sizes: &[usize]| Shape::new(sizes).unwrap();
    let x = HostTensor::from_vec::<f32>(x, host(&[19, 6])).unwrap();
    let pairs = Pairs::new(x, HostTensor::from_vec(y, host(&[19])).unwrap()).unwrap();
    Loader::new(Arc::new(pairs), 4).unwrap().shuffle(3).double_buffer(double_buffer)
}
const BATCHES: usize = 5;

/// Notes the losses, and ends the run after a step.
struct Until {
    last: u64,
    reads: bool,
    losses: Arc<Mutex<Vec<u64>>>,
}

impl<B: Backend> Callback<B> for Until {
    fn step(&mut self, step: &Step<'_, B>) -> Result<ControlFlow<()>> {
        if self.reads {
            self.losses.lock().unwrap().push(step.loss()?.to_bits());
        }
        Ok(if step.step == self.last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

/// How a run is made.
#[derive(Clone, Copy, Debug)]
struct Run {
    double_buffer: bool,
    captured: bool,
    accumulate: usize,
    /// The last step.
    last: u64,
    reads: bool,
}

const PLAIN: Run = Run { double_buffer: true, captured: false, accumulate: 1, last: u64::MAX, reads: true };

/// Two epochs, or until the last step; goes on from a checkpoint if there is one.
fn run<B: Backend>(r: Run, checkpoint: Option<&Path>, d: &B::Device) -> (Vec<u64>, Vec<Vec<u8>>) {
    let model = Linear::<B>::new(6, 3, &mut Generator::new(1), d);
    let (mut adam, loader, losses) = (Adam::new(0.02), loader(r.double_buffer), Arc::default());
    let watch = Until { last: r.last, reads: r.reads, losses: Arc::clone(&losses) };
    let mut trainer = Trainer::new(&model, &mut adam, &loader, Classification::new())
        .epochs(2)
        .accumulate(r.accumulate)
        .callback(watch);
    if r.captured {
        trainer = trainer.capture();
    }
    if let Some(path) = checkpoint {
        trainer = trainer.checkpoints(Checkpoints::new(path).every_steps(1));
        if path.exists() {
            trainer = trainer.resume(Checkpoint::load(path).unwrap());
        }
    }
    trainer.run(d).unwrap();
    let weights = model.state_dict().unwrap().into_values().map(|w| w.data().to_le_bytes()).collect();
    let losses = losses.lock().unwrap().clone();
    (losses, weights)
}

fn equal<B: Backend>(d: &B::Device) {
    for accumulate in [1, 2] {
        let plain = Run { double_buffer: false, accumulate, ..PLAIN };
        let want = run::<Reference>(plain, None, &ReferenceDevice);
        for captured in [false, true] {
            let r = Run { double_buffer: true, captured, ..plain };
            assert!(run::<B>(r, None, d) == want, "{r:?}");
        }
    }
    // Cut off in the middle of an epoch, and gone on with.
    let want = run::<Reference>(PLAIN, None, &ReferenceDevice);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.safetensors");
    let mut losses = run::<B>(Run { last: 2, ..PLAIN }, Some(&path), d).0;
    let (rest, weights) = run::<B>(PLAIN, Some(&path), d);
    losses.extend(rest);
    assert!((losses, weights) == want);
}

#[test]
fn double_buffered_runs_have_the_bits_of_the_reference() {
    equal::<Reference>(&ReferenceDevice);
    equal::<Gpu<_>>(&cuda());
    equal::<Gpu<_>>(&interp());
    if let Some(d) = vulkan() {
        equal::<Gpu<_>>(&d);
    }
}

fn calls(d: &GpuDevice<Null>) -> Vec<Call> {
    d.driver().unwrap().take()
}
/// Copies from pinned memory, each with its queue.
fn copies(d: &GpuDevice<Null>) -> Vec<u32> {
    let queue = |c: Call| match c {
        Call::Transfer(queue, _) => Some(queue),
        _ => None,
    };
    calls(d).into_iter().filter_map(queue).collect()
}

/// Two copies a batch, all by the second queue, and none for a batch that is not computed with.
#[test]
fn copies_go_by_a_stream_of_their_own() {
    let null = || GpuDevice::<Null>::new(Null::open(0).unwrap(), 0);
    for (r, batches) in [
        (PLAIN, 2 * BATCHES),
        (Run { captured: true, ..PLAIN }, 2 * BATCHES),
        (Run { accumulate: 2, ..PLAIN }, 2 * BATCHES),
        // Ended by a callback, in the middle of an epoch and at its end.
        (Run { last: 2, ..PLAIN }, 3),
        (Run { last: 4, ..PLAIN }, BATCHES),
        (Run { accumulate: 2, last: 1, ..PLAIN }, 4),
        (Run { double_buffer: false, ..PLAIN }, 0),
    ] {
        let d = null();
        run::<Gpu<Null>>(r, None, &d);
        assert_eq!(copies(&d), vec![1; 2 * batches], "{r:?}");
    }
    let d = null();
    let model = Linear::<Gpu<Null>>::new(6, 3, &mut Generator::new(1), &d);
    for (wanted, batches) in [(Some(0), 0), (Some(2), 2), (Some(BATCHES), BATCHES), (None, BATCHES)] {
        let score = evaluate_on(&model, &loader(true), &Classification::new(), wanted, &d);
        assert_eq!(copies(&d), vec![1; 2 * batches], "{wanted:?} {score:?}");
    }
}

/// While nothing is read, the host never waits; the copy of a batch is begun behind the step before
/// the last; and memory does not grow.
#[test]
fn copies_are_ordered_and_take_no_more_memory() {
    let d = GpuDevice::<Null>::new(Null::open(0).unwrap(), 0);
    type B = Gpu<Null>;
    let many = Pairs::new(
        HostTensor::from_vec(vec![0.5f32; 400 * 600], Shape::new(&[400, 600]).unwrap()).unwrap(),
        HostTensor::from_vec(vec![1i64; 400], Shape::new(&[400]).unwrap()).unwrap(),
    );
    let loader = Loader::new(Arc::new(many.unwrap()), 10).unwrap();
    let mut batches = loader.epoch::<B>(0, 0, &d);
    let mut step = 0;
    while let Some(batch) = batches.next() {
        let batch = batch.unwrap();
        let y = (&batch.x * 2.0).matmul(&batch.x.t());
        y.block_until_ready().unwrap();
        drop((batch, y));
        let before = calls(&d);
        let waits: Vec<&Call> = before.iter().filter(|c| matches!(c, Call::After(..))).collect();
        // The stream begins behind all before it; a step waits once for both tensors.
        let want = [&Call::After(1, 0), &Call::After(0, 1)];
        assert_eq!(waits, want[usize::from(step > 0)..]);
        batches.gather();
        assert_eq!(calls(&d), []);
        batches.send();
        let sent = calls(&d);
        if step > 4 && step < 39 {
            assert!(!sent.iter().chain(&before).any(|c| matches!(c, Call::Allocate(_))), "{step}: {sent:?}");
            assert_eq!(sent[0], Call::After(1, 0), "{step}: {sent:?}");
        }
        assert!(!sent.iter().any(Call::waits));
        step += 1;
    }
    assert_eq!((step, copies(&d)), (40, vec![]));
}
