//! Groups of processes whose CUDA devices send each other what they have: on emulated devices, by a
//! stand-in for NCCL. This program starts itself, once for each worker.

use elinvar_core::{DType, Error, Result};
use elinvar_cpu::{Cpu, CpuDevice};
use elinvar_distributed::Group;
use elinvar_driver::{Cuda, Driver};
use elinvar_gpu::{Gpu, GpuDevice};
use elinvar_io::weights_hash;
use elinvar_nn::data::{Loader, digits};
use elinvar_nn::models::{DigitsMlp, digit_pairs};
use elinvar_nn::optim::AdamW;
use elinvar_nn::train::{Callback, Classification, Step, Trainer};
use elinvar_nn::{Backend, Generator, Module, Tensor};
use std::env;
use std::net::TcpListener;
use std::ops::ControlFlow;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// What a worker does, by this variable; without it, this process is no worker.
const ROLE: &str = "WORKER_DOES";

/// What a worker of this test does: not a test of its own.
#[test]
fn worker() {
    let Ok(role) = env::var(ROLE) else { return };
    let on_cuda = || {
        let device = GpuDevice::new(Cuda::open(0)?, 0);
        let g = Group::init()?;
        works::<Gpu<Cuda>>(&role, &g, &device).inspect_err(|e| g.fail(e))
    };
    let on_cpu = || {
        let g = Group::init()?;
        works::<Cpu>(&role, &g, &CpuDevice::default()).inspect_err(|e| g.fail(e))
    };
    let said = if env::var("WORKER_DEVICE").as_deref() == Ok("cpu") { on_cpu() } else { on_cuda() };
    match said {
        Ok(said) => println!("SAID {said}"),
        Err(e) => {
            println!("ERROR {e}");
            std::process::exit(1);
        }
    }
}

fn works<B: Backend>(role: &str, g: &Group, d: &B::Device) -> Result<String> {
    match role {
        "train" => train::<B>(g, d, false),
        "zero" => train::<B>(g, d, true),
        "sum" => calls::<B>(g, d),
        "dtype" => {
            let dtype = if g.rank() == 1 { DType::F64 } else { DType::F32 };
            g.all_reduce(&Tensor::<B>::zeros([3], dtype, d)).map(|_| String::new())
        }
        "shape" => {
            let shape = if g.rank() == 1 { [2, 3] } else { [3, 2] };
            g.all_reduce(&Tensor::<B>::zeros(shape, DType::F32, d)).map(|_| String::new())
        }
        "order" => {
            let x = Tensor::<B>::zeros([3], DType::F32, d);
            g.barrier()?;
            if g.rank() == 1 {
                g.broadcast(&x, 0)?
            } else {
                g.all_reduce(&x)?
            };
            Ok(String::new())
        }
        "wait" => {
            let x = Tensor::<B>::ones([20_000], DType::F32, d);
            println!("READY");
            // Until one of them is gone.
            loop {
                g.all_reduce(&x)?;
            }
        }
        role => Err(Error::argument(format!("{role}?"))),
    }
}

/// Ends a run after a step.
struct StopAt(u64);

impl<B: Backend> Callback<B> for StopAt {
    fn step(&mut self, step: &Step<'_, B>) -> Result<ControlFlow<()>> {
        Ok(if step.step == self.0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

/// The hash of the weights after a few steps, and how messages went.
fn train<B: Backend>(g: &Group, d: &B::Device, zero1: bool) -> Result<String> {
    let (train, _) = digits()?.split(0, 0.05)?;
    let loader = Loader::new(Arc::new(digit_pairs(&train)?), 16)?.shuffle(0).drop_last(true);
    let net = DigitsMlp::<B>::new(&mut Generator::new(0), d);
    let mut adam = AdamW::new(3e-3);
    let mut trainer = Trainer::new(&net, &mut adam, &loader, Classification::new())
        .epochs(1)
        .shards(4)
        .bucket_bytes(4096)
        .clip_grad_norm(1.0)
        .callback(StopAt(3))
        .group(g);
    if zero1 {
        trainer = trainer.zero1();
    }
    trainer.run(d)?;
    let hash = weights_hash(&net.state_dict()?);
    Ok(format!("{hash} {}", way(g)))
}

fn way(g: &Group) -> &'static str {
    if g.transport().contains("; NCCL 2.23.4 between devices") { "by NCCL" } else { "through the host" }
}

/// The tree of all workers' terms, on the host.
fn tree(terms: &[f32]) -> f32 {
    match terms {
        [one] => *one,
        all => {
            let half = all.len().next_power_of_two() / 2;
            tree(&all[..half]) + tree(&all[half..])
        }
    }
}

fn term(worker: usize, i: usize) -> f32 {
    1.0 / (1.0 + (worker * 7919 + i) as f32)
}

/// All calls with tensors, of vectors that go in one round and in two.
fn calls<B: Backend>(g: &Group, d: &B::Device) -> Result<String> {
    let all = 0..g.size();
    for n in [3usize, 20_000] {
        let own: Vec<f32> = (0..n).map(|i| term(g.rank(), i)).collect();
        let want: Vec<f32> =
            (0..n).map(|i| tree(&all.clone().map(|w| term(w, i)).collect::<Vec<_>>())).collect();
        let x = Tensor::<B>::from_vec(own, &[n], d);
        assert_eq!(g.all_reduce(&x)?.to_vec::<f32>()?, want);
        // A view whose elements are apart.
        let pairs = Tensor::<B>::from_vec((0..2 * n).map(|i| i as f32).collect(), &[n, 2], d);
        let sum = g.all_reduce(&pairs.transpose(0, 1))?.to_vec::<f32>()?;
        let want_pairs: Vec<f32> = (0..2 * n).map(|i| ((i % n * 2 + i / n) * g.size()) as f32).collect();
        assert_eq!(sum, want_pairs);
        let mine = g.reduce_scatter(&x)?.to_vec::<f32>()?;
        assert_eq!(mine, want[g.part(n, g.rank())]);
        let gathered = g.all_gather(&x)?.to_vec::<f32>()?;
        let each: Vec<f32> = all.clone().flat_map(|w| (0..n).map(move |i| term(w, i))).collect();
        assert_eq!(gathered, each);
        for root in all.clone() {
            let theirs: Vec<f32> = (0..n).map(|i| term(root, i)).collect();
            assert_eq!(g.broadcast(&x, root)?.to_vec::<f32>()?, theirs);
        }
        let count = |dtype| Tensor::<B>::full([n], g.rank() as f64 + 1.0, dtype, d);
        let total = (g.size() * (g.size() + 1) / 2) as f64;
        for dtype in [DType::F64, DType::F16, DType::BF16, DType::I64, DType::I32] {
            let y = g.all_reduce(&count(dtype))?;
            assert_eq!(y.dtype(), dtype);
            assert_eq!(y.to_dtype(DType::F64).to_vec::<f64>()?, vec![total; n], "{dtype}");
        }
        let bytes = g.all_gather(&count(DType::U8))?.to_vec::<u8>()?;
        assert_eq!(bytes, all.clone().flat_map(|w| vec![w as u8 + 1; n]).collect::<Vec<_>>());
    }
    let nothing = g.all_reduce(&Tensor::<B>::zeros([0], DType::F32, d))?;
    assert_eq!(nothing.numel(), 0);
    Ok(way(g).into())
}

/// Starts workers that meet on this machine; `change` may set more variables for each.
fn start(role: &str, workers: usize, change: impl Fn(usize, &mut Command)) -> Vec<Child> {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let there = "it was built for this test";
    let one = |rank: usize| {
        let mut c = Command::new(env::current_exe().unwrap());
        c.args(["--exact", "worker", "--nocapture"]).env(ROLE, role).env("ELINVAR_TIME_LIMIT", "60");
        c.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
        c.env("ELINVAR_CUDA_LIBRARY", emulated_cuda::library().expect(there));
        c.env("ELINVAR_NCCL_LIBRARY", emulated_nccl::library().expect(there));
        c.env("ELINVAR_THREADS", "1");
        c.env("RANK", rank.to_string()).env("WORLD_SIZE", workers.to_string());
        c.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", &port);
        change(rank, &mut c);
        c.spawn().unwrap()
    };
    (0..workers).map(one).collect()
}

/// What each said, by its exit.
fn ended(children: Vec<Child>) -> Vec<(Option<i32>, String)> {
    let told = |c: Child| {
        let o = c.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&o.stdout);
        let at = ["SAID ", "ERROR "].iter().filter_map(|word| text.find(word)).min();
        let line = at.and_then(|at| text[at..].lines().next()).map(str::to_owned);
        let all = || format!("{text}{}", String::from_utf8_lossy(&o.stderr));
        (o.status.code(), line.unwrap_or_else(all))
    };
    children.into_iter().map(told).collect()
}

fn all_say(children: Vec<Child>, want: &str) {
    for (code, said) in ended(children) {
        assert_eq!((code, said.as_str()), (Some(0), want));
    }
}

#[test]
fn one_hash_for_any_number_of_devices() {
    let alone = ended(start("train", 1, |_, _| {})).remove(0);
    assert_eq!(alone.0, Some(0), "{}", alone.1);
    let hash = alone.1.strip_suffix(" through the host").expect("one worker sends nothing").to_owned();
    for workers in [2, 3, 4] {
        all_say(start("train", workers, |_, _| {}), &format!("{hash} by NCCL"));
    }
    all_say(start("zero", 3, |_, _| {}), &format!("{hash} by NCCL"));
    // One whose device is another goes the same way as all others.
    let mixed = start("train", 2, |rank, c| {
        if rank == 1 {
            c.env("WORKER_DEVICE", "cpu");
        }
    });
    all_say(mixed, &format!("{hash} through the host"));
    let without = start("train", 2, |rank, c| {
        if rank == 1 {
            c.env("ELINVAR_NCCL", "0");
        }
    });
    all_say(without, &format!("{hash} through the host"));
}

#[test]
fn all_calls_with_tensors() {
    for workers in [2, 3, 4] {
        all_say(start("sum", workers, |_, _| {}), "SAID by NCCL");
    }
}

#[test]
fn workers_that_call_something_else_are_told() {
    let rows = [
        (
            "dtype",
            "calls all_reduce of 3 f64 from 2 shards (its call 2) where this one calls all_reduce of 3 f32 from 2 shards",
        ),
        ("shape", "calls all_reduce of 6 f32 from 2 shards with a tensor of another shape"),
        (
            "order",
            "calls broadcast of 3 f32 of worker 0 (its call 3) where this one calls all_reduce of 3 f32",
        ),
    ];
    for (role, sentence) in rows {
        let said = ended(start(role, 2, |_, _| {}));
        assert!(said[0].0 == Some(1) && said[0].1.contains(sentence), "{role}: {said:?}");
        assert!(said[1].0 == Some(1) && said[1].1.starts_with("ERROR "), "{role}: {said:?}");
    }
}

#[test]
fn no_one_waits_for_a_worker_that_is_killed() {
    let mut workers = start("wait", 3, |_, _| {});
    // In the middle of its calls.
    thread::sleep(Duration::from_secs(3));
    workers[1].kill().unwrap();
    let since = Instant::now();
    let said = ended(workers);
    for rank in [0, 2] {
        let (code, told) = &said[rank];
        assert!(*code == Some(1) && told.starts_with("ERROR distributed: worker "), "{rank}: {said:?}");
    }
    assert!(since.elapsed() < Duration::from_secs(30), "{:?}", since.elapsed());
}

#[test]
fn no_one_waits_beyond_the_time_limit() {
    let since = Instant::now();
    let said = ended(start("wait", 2, |rank, c| {
        c.env("ELINVAR_TIME_LIMIT", "4");
        if rank == 1 {
            c.env("ELINVAR_EMULATED_NCCL", "silent");
        }
    }));
    let is_told = |(code, told): &(Option<i32>, String)| *code == Some(1) && told.starts_with("ERROR ");
    assert!(said.iter().all(is_told), "{said:?}");
    let late = "what a worker sends by NCCL has not come within the time limit";
    assert!(said.iter().any(|(_, told)| told.contains(late)), "{said:?}");
    assert!(since.elapsed() < Duration::from_secs(30), "{:?}", since.elapsed());
}

#[test]
fn a_library_that_is_missing_or_fails() {
    let nowhere = |asked: bool| {
        start("sum", 2, move |_, c| {
            c.env("ELINVAR_NCCL_LIBRARY", "/nowhere/libnccl.so.2");
            if asked {
                c.env("ELINVAR_NCCL", "1");
            }
        })
    };
    all_say(nowhere(false), "SAID through the host");
    for (code, said) in ended(nowhere(true)) {
        let sentence = "distributed: no NCCL: /nowhere/libnccl.so.2 cannot be loaded";
        assert!(
            code == Some(1) && said.contains(sentence) && said.contains("ELINVAR_NCCL_LIBRARY"),
            "{said}"
        );
    }
    // Another library under its name.
    let other = ended(start("sum", 2, |_, c| {
        c.env("ELINVAR_NCCL_LIBRARY", emulated_cuda::library().unwrap()).env("ELINVAR_NCCL", "1");
    }));
    assert!(
        other.iter().all(|(code, said)| *code == Some(1) && said.contains("has no function nccl")),
        "{other:?}"
    );
    // A worker that does not get to the others.
    let failing = |asked: bool| {
        start("sum", 2, move |_, c| {
            c.env("ELINVAR_EMULATED_NCCL", "join");
            if asked {
                c.env("ELINVAR_NCCL", "1");
            }
        })
    };
    all_say(failing(false), "SAID through the host");
    for (code, said) in ended(failing(true)) {
        assert!(code == Some(1) && said.contains("ncclCommInitRank: unhandled system error"), "{said}");
    }
    // Asked for, and the device of one is another.
    let said = ended(start("sum", 2, |rank, c| {
        c.env("ELINVAR_NCCL", "1");
        if rank == 1 {
            c.env("WORKER_DEVICE", "cpu");
        }
    }));
    assert!(said[0].1.contains("worker 1 cannot use it"), "{said:?}");
    assert!(
        said[1].1.contains("NCCL sends what CUDA devices have, and this worker's device is cpu"),
        "{said:?}"
    );
}
