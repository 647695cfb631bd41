//! Streams: the bits of the reference in whatever streams work is done, memory that is used again
//! in its stream and behind an event in others, and copies without a wait.
//!
//! The streams of the emulated CUDA device run as late as they can: a wait that is missing gives
//! old numbers.

use super::{cuda, interp, vulkan};
use elinvar_core::{DType, ErrorKind, Result};
use elinvar_cpu::{Cpu, CpuDevice};
use elinvar_driver::{Cuda, Driver, Null, null::Call};
use elinvar_gpu::{Gpu, GpuDevice};
use elinvar_nn::layers::Linear;
use elinvar_nn::optim::{Adam, Optimizer};
use elinvar_nn::{Layer, Module};
use elinvar_ops::Backend;
use elinvar_ops::backend::Memory;
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::{Event, Generator, Graph, Pinned, Stream, Tensor, Transfer, try_run};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::{Context, Poll, Wake};

/// Numbers of a linear congruential generator (Knuth, MMIX): their upper bits.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

fn bits<B: Backend>(x: &Tensor<B>) -> Vec<u32> {
    x.to_vec::<f32>().unwrap().iter().map(|v| v.to_bits()).collect()
}

/// A program that makes, reads, changes in place and drops tensors, each time in another stream,
/// with events where none is needed. What it reads, and all that is left.
fn mixed<B: Backend>(d: &B::Device, seed: u64) -> Vec<Vec<u32>> {
    const N: usize = 24;
    let mut dice = Dice(seed);
    let streams: Vec<Stream<B>> = (0..3).map(|_| Stream::new(d).unwrap()).collect();
    let from = |k: usize| (0..N * N).map(|i| ((i * 7 + k) % 19) as f32 / 19.0 - 0.4).collect::<Vec<f32>>();
    let mut all: Vec<Tensor<B>> = (0..4).map(|k| Tensor::from_vec(from(k), &[N, N], d)).collect();
    let (mut read, mut events) = (Vec::new(), Vec::<Event>::new());
    for step in 0..150 {
        let (a, b, to) = (dice.below(all.len()), dice.below(all.len()), dice.below(all.len()));
        let what = dice.below(9);
        let mut work = || match what {
            0 => all[to] = all[a].matmul(&all[b]) * 0.2,
            1 => all[to] = &all[a] + &all[b],
            2 => all[to] = (&all[a] * 0.5).tanh(),
            // Memory of another size, and back.
            3 => all[to] = Tensor::concat(&[&all[a], &all[b]], 0).narrow(0, N / 2, N).contiguous(),
            4 => all[to] = Tensor::from_vec(from(step), &[N, N], d),
            5 => all[to] = all[a].sum_dim(1, true) * 0.01 + &all[b],
            // In place, if no other handle has it.
            6 => all[to] = std::mem::replace(&mut all[to], Tensor::zeros([1], DType::F32, d)).fill(0.25, a),
            7 => read.push(bits(&all[a])),
            _ => {
                let mut pinned = Pinned::<B>::new(&[N, N], DType::F32, d).unwrap();
                pinned.fill_from(&from(step)).unwrap();
                let (x, copy) = pinned.upload().unwrap();
                all[to] = x;
                drop(copy);
            }
        };
        match dice.below(4) {
            3 => work(),
            i => {
                streams[i].scope(work);
                match dice.below(6) {
                    0 => events.push(streams[i].record().unwrap()),
                    1 if !events.is_empty() => streams[i].wait(&events[dice.below(events.len())]).unwrap(),
                    _ => {}
                }
            }
        }
    }
    read.extend(all.iter().map(bits));
    read
}

/// A row of it is filled: in place, as an optimiser does, if it is the only handle.
trait Fill {
    fn fill(self, value: f32, row: usize) -> Self;
}

impl<B: Backend> Fill for Tensor<B> {
    fn fill(self, value: f32, row: usize) -> Self {
        let mut array = self.array().clone();
        drop(self);
        let one = elinvar_ops::Array::full(array.device(), &array.shape().clone(), value.into(), DType::F32);
        let (one, at) = (one.unwrap(), array.layout().slice(0, row, 1, 1));
        let one = one.with_layout(one.layout().slice(0, 0, 1, 1));
        array.write(&at, &one).unwrap();
        Tensor::from_array(array)
    }
}

fn mixed_on<D: Driver>(d: &GpuDevice<D>) {
    for seed in 0..6 {
        let want = mixed::<Reference>(&ReferenceDevice, seed);
        let got = mixed::<Gpu<D>>(d, seed);
        let wrong = got.iter().zip(&want).position(|(a, b)| a != b);
        assert_eq!(wrong, None, "seed {seed}, of {} results", want.len());
    }
}

/// The processor does work when it is asked for, and the same program runs there.
#[test]
fn streams_have_the_bits_of_the_reference_on_cpu() {
    for seed in 0..6 {
        let want = mixed::<Reference>(&ReferenceDevice, seed);
        assert!(mixed::<Cpu>(&CpuDevice::default(), seed) == want, "seed {seed}");
    }
    assert!(trains::<Cpu>(&CpuDevice::default()) == trains::<Reference>(&ReferenceDevice));
    copies::<Cpu>(&CpuDevice::default(), true).unwrap();
}

#[test]
fn streams_have_the_bits_of_the_reference_on_cuda() {
    mixed_on(&cuda());
    // Pieces of regions, which are merged and cut anew, and never too many of them.
    let settings = elinvar_core::Settings {
        pool_initial: Some(24 << 10),
        pool_growth: Some(8 << 10),
        pool_maximum: Some(256 << 10),
        ..Default::default()
    };
    mixed_on(&GpuDevice::with_settings(Cuda::open(0).unwrap(), 0, &settings).unwrap());
}
#[test]
fn streams_have_the_bits_of_the_reference_interpreted() {
    mixed_on(&interp());
}
#[test]
fn streams_have_the_bits_of_the_reference_on_vulkan() {
    if let Some(d) = vulkan() {
        mixed_on(&d);
    }
}

/// A loader in one stream, training in another, and evaluation by recorded work in a third.
fn trains<B: Backend>(d: &B::Device) -> Vec<Vec<u32>> {
    let [load, eval] = [0, 1].map(|_| Stream::<B>::new(d).unwrap());
    let model = Linear::<B>::new(12, 12, &mut Generator::new(1), d);
    let mut adam = Adam::new(0.01);
    let x = |step: usize| (0..96).map(|i| ((i * 5 + step) % 23) as f32 / 23.0 - 0.5).collect::<Vec<f32>>();
    let held = Tensor::from_vec(x(99), &[8, 12], d);
    let weight = model.parameters()[0].get().detach();
    let graph = Graph::record(&[&held], move |x| Ok(vec![x[0].matmul(&weight).exp().sum()])).unwrap();
    let mut pinned = Pinned::<B>::new(&[8, 12], DType::F32, d).unwrap();
    let mut all = Vec::new();
    for step in 0..5 {
        pinned.fill_from(&x(step)).unwrap();
        let (batch, copy) = load.scope(|| pinned.upload()).unwrap();
        let loss = model.forward(&batch).exp().softmax(1).square().sum();
        let gradients = try_run(|| loss.backward()).unwrap();
        adam.step(&model, &gradients).unwrap();
        all.push(loss.detach());
        all.push(eval.scope(|| graph.run(&[&batch])).unwrap().remove(0));
        pinned = copy.wait().unwrap();
    }
    all.extend(model.parameters().iter().map(|p| p.get().detach()));
    all.iter().map(bits).collect()
}

#[test]
fn training_in_streams_has_the_bits_of_the_reference() {
    let want = trains::<Reference>(&ReferenceDevice);
    assert!(trains::<Gpu<_>>(&cuda()) == want);
    assert!(trains::<Gpu<_>>(&interp()) == want);
}

fn null() -> GpuDevice<Null> {
    GpuDevice::new(Null::open(0).unwrap(), 0)
}
fn calls(d: &GpuDevice<Null>) -> Vec<Call> {
    d.driver().unwrap().take()
}
fn large(d: &GpuDevice<Null>) -> Tensor<Gpu<Null>> {
    Tensor::zeros([1 << 20], DType::F32, d).contiguous()
}
fn allocations(d: &GpuDevice<Null>) -> usize {
    calls(d).iter().filter(|c| matches!(c, Call::Allocate(_))).count()
}

/// Memory that is dropped is used again at once in its stream; in another one only when that has
/// waited, and if there is no other memory.
#[test]
fn memory_is_used_again_in_its_stream() {
    let d = null();
    let [a, b] = [0, 1].map(|_| Stream::<Gpu<Null>>::new(&d).unwrap());
    let on = |s: &Stream<Gpu<Null>>| {
        s.scope(|| large(&d).block_until_ready().unwrap());
        allocations(&d)
    };
    assert_eq!([on(&a), on(&a)], [1, 0]);
    assert_eq!([on(&b), on(&b), on(&a)], [1, 0, 0]);
    // Now both pieces are as good as its own.
    b.wait(&a.record().unwrap()).unwrap();
    let two = |s: &Stream<Gpu<Null>>| {
        let kept = s.scope(|| [0, 1].map(|_| large(&d)));
        kept.iter().for_each(|x| x.block_until_ready().unwrap());
        allocations(&d)
    };
    assert_eq!([two(&b), two(&b)], [0, 0]);
    // At the limit of the pool it is better to wait than to fail.
    let settings = elinvar_core::Settings { pool_maximum: Some(4 << 20), ..Default::default() };
    let d = GpuDevice::<Null>::with_settings(Null::open(0).unwrap(), 0, &settings).unwrap();
    let stream = Stream::<Gpu<Null>>::new(&d).unwrap();
    drop(large(&d));
    stream.scope(|| large(&d).block_until_ready().unwrap());
    assert_eq!(Gpu::<Null>::memory_stats(&d).unwrap().in_use, 0);
}

/// Between streams there are as many waits as are needed, and none between readers.
#[test]
fn who_waits_for_whom() {
    let d = null();
    let [a, b] = [0, 1].map(|_| Stream::<Gpu<Null>>::new(&d).unwrap());
    assert_eq!(
        calls(&d),
        [Call::Queue, Call::After(1, 0), Call::Queue, Call::After(2, 1), Call::After(2, 0)]
    );
    let x = large(&d);
    let read = |s: &Stream<Gpu<Null>>| {
        s.scope(|| x.sum().block_until_ready().unwrap());
        let waits = |c: &Call| matches!(c, Call::After(..));
        calls(&d).into_iter().filter(waits).collect::<Vec<Call>>()
    };
    x.block_until_ready().unwrap();
    assert_eq!(calls(&d).iter().filter(|c| matches!(c, Call::After(..))).count(), 0);
    assert_eq!(read(&a), [Call::After(1, 0)]);
    assert_eq!([read(&a), read(&b), read(&a), read(&b)].concat(), [Call::After(2, 0)]);
    // What was waited for by an event is not waited for again.
    let y = a.scope(|| x.cumsum(0));
    a.scope(|| y.block_until_ready().unwrap());
    calls(&d);
    b.wait(&a.record().unwrap()).unwrap();
    assert_eq!(calls(&d), [Call::After(2, 1)]);
    b.scope(|| y.sum().block_until_ready().unwrap());
    assert!(!calls(&d).iter().any(|c| matches!(c, Call::After(..))));
    // A stream that is gone leaves its queue to the next.
    drop(b);
    let _next = Stream::<Gpu<Null>>::new(&d).unwrap();
    assert!(!calls(&d).contains(&Call::Queue));
}

fn refuses<A: Backend, B: Backend>(a: &A::Device, b: &B::Device, want: &str) {
    let event = Stream::<B>::new(b).unwrap().record().unwrap();
    let e = Stream::<A>::new(a).unwrap().wait(&event).unwrap_err();
    assert_eq!((e.kind(), e.message()), (ErrorKind::DeviceMismatch, want));
}

/// One sentence each.
#[test]
fn a_stream_of_another_device_is_refused() {
    let event = |a: &str, b: &str| format!("{a}: an event of {b}; a stream takes those of its own device");
    let (d, other, i) = (cuda(), cuda(), interp());
    type Emulated = Gpu<Cuda>;
    refuses::<Emulated, Emulated>(&d, &other, &event("cuda:0", "cuda:0"));
    refuses::<Emulated, Gpu<elinvar_driver::Interp>>(&d, &i, &event("cuda:0", "interp:0"));
    refuses::<Reference, Emulated>(&ReferenceDevice, &d, &event("reference", "cuda:0"));
    refuses::<Emulated, Reference>(&d, &ReferenceDevice, &event("cuda:0", "reference"));
    // A tensor of another device does not go into pinned memory of this one.
    let x = Tensor::<Emulated>::zeros([4], DType::F32, &other);
    let e = Pinned::<Emulated>::new(&[4], DType::F32, &d).unwrap().download(&x).unwrap_err();
    assert_eq!(
        (e.kind(), e.message()),
        (
            ErrorKind::DeviceMismatch,
            "cuda:0: pinned memory of cuda:0; a stream takes those of its own device"
        )
    );
    let whole = |sizes: &[usize], dtype| Pinned::<Emulated>::new(sizes, dtype, &other).unwrap().download(&x);
    assert_eq!(whole(&[2, 2], DType::F32).unwrap_err().kind(), ErrorKind::ShapeMismatch);
    assert_eq!(whole(&[4], DType::F64).unwrap_err().kind(), ErrorKind::DTypeMismatch);
    let mut odd = Pinned::<Emulated>::new(&[2], DType::Bool, &d).unwrap();
    odd.bytes_mut()[1] = 2;
    assert_eq!(odd.upload().unwrap_err().kind(), ErrorKind::Format);
}

struct Count(AtomicU32);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Polls until it is ready, whenever it was woken.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let count = Arc::new(Count(AtomicU32::new(1)));
    let (waker, mut future) = (count.clone().into(), pin!(future));
    loop {
        if count.0.swap(0, Relaxed) == 0 {
            std::thread::yield_now();
            continue;
        }
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
    }
}

fn copies<B: Backend>(d: &B::Device, has_f64: bool) -> Result<()> {
    for dtype in DType::ALL.into_iter().filter(|dtype| has_f64 || *dtype != DType::F64) {
        let mut pinned = Pinned::<B>::new(&[3, 5], dtype, d)?;
        pinned.bytes_mut().iter_mut().zip(0..).for_each(|(b, i)| *b = i % 2);
        let want = pinned.bytes().to_vec();
        let stream = Stream::<B>::new(d)?;
        let (x, up) = stream.scope(|| pinned.upload())?;
        assert_eq!(x.to_host()?.data().to_le_bytes(), want, "{dtype}");
        let back: Transfer<B> = block_on(up)?.download(&x.t().contiguous().t())?;
        let event = back.event().clone();
        assert_eq!(block_on(back)?.bytes(), want, "{dtype}");
        assert!(event.is_done()?);
        event.synchronize()?;
        stream.synchronize()?;
    }
    // Elements as futures: of a view, of another dtype, and what does not fit.
    let x: Tensor<B> = Tensor::new([[1.0f32, 2.0], [3.0, 4.5]], d);
    assert_eq!(block_on(x.t().to_vec_async::<f32>())?, [1.0, 3.0, 2.0, 4.5]);
    assert_eq!(block_on(x.t().to_host_async())?, x.t().to_host()?);
    assert_eq!(block_on(x.narrow(0, 1, 1).narrow(1, 1, 1).item_async::<i64>())?, 4);
    assert_eq!(block_on(x.item_async::<f32>()).unwrap_err().kind(), ErrorKind::ShapeMismatch);
    assert_eq!(block_on(x.to_vec_async::<i64>()).unwrap_err().kind(), ErrorKind::DTypeMismatch);
    // A forgotten copy keeps its memory; nothing else happens.
    let (x, copy) = Pinned::<B>::new(&[2], DType::F32, d)?.upload()?;
    std::mem::forget(copy);
    assert_eq!(x.to_vec::<f32>()?, [0.0; 2]);
    Ok(())
}

#[test]
fn copies_are_futures() {
    copies::<Reference>(&ReferenceDevice, true).unwrap();
    copies::<Gpu<_>>(&interp(), true).unwrap();
    copies::<Gpu<_>>(&cuda(), true).unwrap();
    if let Some(d) = vulkan() {
        copies::<Gpu<_>>(&d, true).unwrap();
    }
    #[cfg(all(feature = "metal", target_vendor = "apple"))]
    if let Some(d) = super::metal() {
        copies::<Gpu<_>>(&d, true).unwrap();
    }
    #[cfg(feature = "webgpu")]
    if let Some(d) = super::webgpu() {
        copies::<Gpu<_>>(&d, false).unwrap();
    }
}
