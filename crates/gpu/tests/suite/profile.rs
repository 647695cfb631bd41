//! What a profile has of a device: each launch, by the device's clock, with the op that it is for.

use super::out_of_memory::Short;
use elinvar_core::DType;
use elinvar_core::profile::{Event, Kind, Session, Track};
use elinvar_driver::{Cuda, Driver, Interp, Null};
use elinvar_gpu::{Gpu, GpuDevice};
use elinvar_nn::Layer;
use elinvar_nn::loss::cross_entropy;
use elinvar_nn::models::Mlp;
use elinvar_nn::optim::{Adam, Optimizer};
use elinvar_tensor::{Generator, Graph, Pinned, Stream, Tensor};

/// Other tests of this program run meanwhile, so a device has a number that none of them has.
fn recorded<D: Driver>(d: &GpuDevice<D>, f: impl FnOnce()) -> Vec<Event> {
    let session = Session::begin();
    f();
    let mut events = session.end().events;
    events.retain(|e| matches!(&e.track, Track::Queue(name, _) if **name == d.to_string()));
    events
}

fn step<D: Driver>(d: &GpuDevice<D>) {
    let model = Mlp::<Gpu<D>>::new(&[8, 16, 4], &mut Generator::new(1), d).unwrap();
    let mut adam = Adam::new(0.001);
    let x = Tensor::<Gpu<D>>::from_vec(vec![0.5f32; 32 * 8], &[32, 8], d);
    let labels = Tensor::<Gpu<D>>::from_vec((0..32).map(|i| i % 4).collect::<Vec<i64>>(), &[32], d);
    let before = d.launches().unwrap();
    let mut loss = None;
    let events = recorded(d, || {
        let here = cross_entropy(&model.forward(&x), &labels);
        adam.step(&model, &here.backward()).unwrap();
        loss = Some(here.to_vec::<f32>().unwrap());
    });
    let kernels: Vec<&Event> = events.iter().filter(|e| e.kind == Kind::Kernel).collect();
    assert_eq!(kernels.len() as u64, d.launches().unwrap() - before, "{events:#?}");
    let of = |call: &str| kernels.iter().filter(|e| e.call.to_string() == call).count();
    for call in ["linear", "linear (gradient)", "cross_entropy", "cross_entropy (gradient)"] {
        assert!(of(call) > 0, "{call}: {events:#?}");
    }
    assert!(kernels.iter().any(|e| e.name.starts_with("update")), "{events:#?}");
    assert!(kernels.iter().all(|e| e.name != "kernel" && e.cost.bytes > 0), "{events:#?}");
    // The loss is read, and the labels' range was known.
    assert!(events.iter().any(|e| e.kind == Kind::Copy && e.name == "read" && e.cost.bytes == 4));
    // One after the other, as a queue does.
    assert!(events.windows(2).all(|e| e[0].start + e[0].duration <= e[1].start), "{events:#?}");
}

#[test]
fn every_launch_of_a_step_is_seen() {
    step(&GpuDevice::new(Interp::open(0).unwrap(), 77));
    step(&GpuDevice::new(Null::open(0).unwrap(), 77));
    super::cuda();
    step(&GpuDevice::new(Cuda::open(0).unwrap(), 77));
    if let Some(d) = super::vulkan() {
        drop(d);
        step(&GpuDevice::new(elinvar_driver::Vulkan::open(0).unwrap(), 77));
    }
}

#[test]
fn a_device_without_a_clock_is_timed_by_the_host_and_says_so() {
    let d = GpuDevice::new(Short::without_clock(), 79);
    step(&d);
    let session = Session::begin();
    Tensor::<Gpu<Short>>::from_vec(vec![0.5f32; 8], &[8], &d).sum().to_vec::<f32>().unwrap();
    let notes = session.end().notes;
    assert!(notes.iter().any(|n| n.starts_with("short:79: times by the host's clock")), "{notes:?}");
}

/// A map that is put off has the op that asked for it, and not the one that reads it.
#[test]
fn a_map_that_is_put_off_is_its_ops() {
    let d = GpuDevice::new(Interp::open(0).unwrap(), 80);
    let x = Tensor::<Gpu<Interp>>::from_vec(vec![0.5f32; 64], &[64], &d);
    let y = recorded(&d, || drop(x.exp().tanh().to_vec::<f32>().unwrap()));
    let kernels: Vec<String> =
        y.iter().filter(|e| e.kind == Kind::Kernel).map(|e| e.call.to_string()).collect();
    assert_eq!(kernels, ["tanh"], "both in one kernel, which the last one asked for");
}

/// Recorded work is one call where the driver keeps it, and what it is made of elsewhere. Recording
/// it is not running it.
#[test]
fn a_replay_is_seen_and_a_recording_is_not() {
    fn names<D: Driver>(d: &GpuDevice<D>) -> (usize, Vec<String>) {
        let x = Tensor::<Gpu<D>>::from_vec(vec![0.5f32; 64], &[8, 8], d);
        x.block_until_ready().unwrap();
        let mut graph = None;
        let recording = recorded(d, || {
            let g = Graph::record(&[&x], |x| Ok(vec![x[0].matmul(&x[0]).sum()])).unwrap();
            graph = Some(g);
        });
        let launched = recording.iter().filter(|e| e.name.starts_with("gemm")).count();
        let graph = graph.unwrap();
        let run = recorded(d, || drop(graph.run(&[&x]).unwrap()));
        (launched, run.iter().filter(|e| e.kind == Kind::Kernel).map(|e| e.name.to_string()).collect())
    }
    // The result is copied out of the memory that the next run writes.
    let (launched, kept) = names(&GpuDevice::new(Null::open(0).unwrap(), 78));
    assert_eq!((launched, &*kept[0]), (0, "graph of 2 calls"), "{kept:?}");
    let (launched, calls) = names(&GpuDevice::new(Interp::open(0).unwrap(), 78));
    assert_eq!((launched, calls.len()), (0, kept.len() + 1), "{calls:?}");
    if let Some(d) = super::vulkan() {
        drop(d);
        let (launched, kept) = names(&GpuDevice::new(elinvar_driver::Vulkan::open(0).unwrap(), 78));
        assert_eq!((launched, &*kept[0], kept.len()), (0, "graph of 2 calls", 2), "{kept:?}");
    }
}

/// Each stream has a track of its own, by one clock: work of two overlaps unless one waits.
#[test]
fn each_stream_has_a_track() {
    type B = Gpu<Cuda>;
    super::cuda();
    let d = GpuDevice::new(Cuda::open(0).unwrap(), 81);
    let [a, b] = [0; 2].map(|_| Stream::<B>::new(&d).unwrap());
    let x = Tensor::<B>::from_vec(vec![0.5f32; 24 * 24], &[24, 24], &d);
    let graph = Graph::record(&[&x], |x| Ok(vec![x[0].matmul(&x[0]).cumsum(0)])).unwrap();
    x.block_until_ready().unwrap();
    let kernels = |f: &dyn Fn()| -> Vec<(u32, String, std::ops::Range<u64>)> {
        let kernel = |e: &Event| match e.track {
            Track::Queue(_, number) if e.kind == Kind::Kernel => {
                Some((number, e.name.to_string(), e.start..e.start + e.duration))
            }
            _ => None,
        };
        recorded(&d, f).iter().filter_map(kernel).collect()
    };
    let both = |wait: bool| {
        let y = a.scope(|| x.matmul(&x));
        if wait {
            b.wait(&a.record().unwrap()).unwrap();
        }
        let z = b.scope(|| x.matmul(&x));
        [y, z].iter().for_each(|y| y.block_until_ready().unwrap());
    };
    for wait in [false, true] {
        let seen = kernels(&|| both(wait));
        let [(1, _, first), (2, _, second)] = &seen[..] else { panic!("{seen:?}") };
        assert_eq!(first.end <= second.start, wait, "{first:?} {second:?}");
        assert!(first.start < first.end && second.start < second.end, "{first:?} {second:?}");
    }
    // What reads another stream's work comes behind it; the wait is not part of its time.
    let seen = kernels(&|| {
        let y = a.scope(|| x.matmul(&x).matmul(&x));
        b.scope(|| y.cumsum(0)).block_until_ready().unwrap();
    });
    let [(1, _, _), (1, _, first), (2, _, second)] = &seen[..] else { panic!("{seen:?}") };
    assert!(first.end <= second.start, "{seen:?}");
    // A replay is on the track of the stream that replays it, and so is a copy without a wait.
    let seen = kernels(&|| drop(b.scope(|| graph.run(&[&x])).unwrap()));
    assert!(seen.iter().any(|e| e.0 == 2 && e.1 == "graph of 2 calls"), "{seen:?}");
    let pinned = Pinned::<B>::new(&[8], DType::F32, &d).unwrap();
    let events = recorded(&d, || {
        let (y, copy) = a.scope(|| pinned.upload()).unwrap();
        copy.wait().unwrap().download(&y).unwrap().wait().unwrap();
    });
    let seen: Vec<(&str, &Track, u64)> = events.iter().map(|e| (&*e.name, &e.track, e.cost.bytes)).collect();
    let track = |number| Track::Queue("cuda:81".into(), number);
    assert_eq!(seen, [("upload", &track(1), 32), ("download", &track(0), 32)]);
}
