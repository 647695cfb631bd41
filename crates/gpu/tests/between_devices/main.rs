//! Workers whose CUDA devices send each other what they have: on emulated devices, by stand-ins for
//! the libraries. This program starts itself, once for each process.

mod mpi;
mod nccl;
mod threads;
mod work;

use elinvar_core::Result;
use elinvar_cpu::{Cpu, CpuDevice};
use elinvar_distributed::Group;
use elinvar_driver::{Cuda, Driver};
use elinvar_gpu::{Gpu, GpuDevice};
use std::env;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread;
use work::works;

/// What a worker does, by this variable; without it, this process is no worker.
const ROLE: &str = "WORKER_DOES";
/// Numbers of devices, of which each is a thread's of this process.
const THREADS: &str = "WORKER_THREADS";

/// What a worker of these tests does: not a test of its own.
#[test]
fn worker() {
    let Ok(role) = env::var(ROLE) else { return };
    let said = match (env::var(THREADS), env::var("WORKER_DEVICE").as_deref()) {
        (Ok(devices), _) => on_threads(&role, &devices),
        (_, Ok("cpu")) => Group::init()
            .and_then(|g| works::<Cpu>(&role, &g, &CpuDevice::default()).inspect_err(|e| g.fail(e))),
        _ => Group::init().and_then(|g| on_cuda(&role, &g, 0)),
    };
    match said {
        Ok(said) => println!("SAID {said}"),
        Err(e) => {
            println!("ERROR {e}");
            std::process::exit(1);
        }
    }
}

fn on_cuda(role: &str, g: &Group, number: usize) -> Result<String> {
    let work = || works::<Gpu<Cuda>>(role, g, &GpuDevice::new(Cuda::open(number)?, number));
    work().inspect_err(|e| g.fail(e))
}

/// What all threads say, or the first error.
fn on_threads(role: &str, devices: &str) -> Result<String> {
    let devices: Vec<usize> = devices.split(',').map(|number| number.parse().unwrap()).collect();
    let all: Vec<Result<String>> = thread::scope(|s| {
        let one = |(g, number): (Group, &usize)| {
            let number = *number;
            s.spawn(move || on_cuda(role, &g, number))
        };
        let all: Vec<_> = Group::threads(devices.len()).into_iter().zip(&devices).map(one).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let said: Vec<String> = all.into_iter().collect::<Result<_>>()?;
    assert!(said.iter().all(|one| *one == said[0]), "{said:?}");
    Ok(said[0].clone())
}

/// This program as a worker, with stand-ins for all libraries.
fn worker_does(role: &str) -> Vec<(&'static str, String)> {
    let library = |path: Option<std::path::PathBuf>| {
        path.expect("it was built for this test").into_os_string().into_string().unwrap()
    };
    vec![
        (ROLE, role.into()),
        ("ELINVAR_CUDA_LIBRARY", library(emulated_cuda::library())),
        ("ELINVAR_NCCL_LIBRARY", library(emulated_nccl::library())),
        ("ELINVAR_MPI_LIBRARY", library(emulated_mpi::library())),
        ("ELINVAR_TIME_LIMIT", "60".into()),
        ("ELINVAR_THREADS", "1".into()),
    ]
}

/// What makes this program a worker.
const ONLY_WORKER: [&str; 3] = ["--exact", "worker", "--nocapture"];

/// Starts workers that meet on this machine; `change` may set more variables for each.
fn start(role: &str, workers: usize, change: impl Fn(usize, &mut Command)) -> Vec<Child> {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let one = |rank: usize| {
        let mut c = Command::new(env::current_exe().unwrap());
        c.args(ONLY_WORKER).envs(worker_does(role));
        c.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
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

/// What a training of one worker says in front of how messages went.
fn hash_alone() -> String {
    let (code, said) = ended(start("train", 1, |_, _| {})).remove(0);
    assert_eq!(code, Some(0), "{said}");
    said.strip_suffix(" through the host").expect("one worker sends nothing").to_owned()
}
