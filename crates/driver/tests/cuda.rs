//! CUDA's driver on an emulated device: work in order, large copies, what is missing, what is
//! refused, what is lost.
//!
//! What the library is, is read once in a process; so what depends on it is tried in children of
//! this test.

mod doubles;

use doubles::{doubles, slice};
use elinvar_core::{DType, ErrorKind, Layout, Shape};
use elinvar_driver::cuda::{Graph, use_library};
use elinvar_driver::{Call, CallGraph, Cuda, Driver, Kind, PendingCopy};
use elinvar_gpu_kernels::gemm::tma_wgmma;
use elinvar_gpu_kernels::gemm::{CatalogueEpilogue, GemmProblem};
use elinvar_kernel::Kernel;
use elinvar_kernel::builder::Builder;
use elinvar_kernel::interp::Launch;
use elinvar_kernel::ir::{Access, Constant, Elem, Scalar};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

fn emulated() -> PathBuf {
    emulated_cuda::library().expect("the emulated library was built for this test")
}

fn device() -> Cuda {
    use_library(&emulated()).unwrap();
    Cuda::open(0).unwrap()
}

#[test]
fn work_is_done_in_order() {
    let d = device();
    assert_eq!((d.info().kind, d.capability()), (Kind::Software, 90), "{:?}", d.info());
    doubles(&d);
    // Another device of the same card has a stream of its own.
    doubles(&device());
}

/// More than the pieces that go up and come down at a time, at odd places.
#[test]
fn large_copies() {
    let d = device();
    let bytes = (19 << 20) + 12;
    let memory = d.allocate(bytes + 64).unwrap();
    let all: Vec<u8> = (0..bytes).map(|i| (i * 31 + i / 255) as u8).collect();
    d.write(slice::<Cuda>(&memory, 16, bytes), &all).unwrap();
    let other = d.allocate(bytes).unwrap();
    d.copy(slice::<Cuda>(&memory, 16, bytes), slice::<Cuda>(&other, 0, bytes)).unwrap();
    drop(memory);
    let mut got = vec![0; bytes as usize];
    d.read(slice::<Cuda>(&other, 0, bytes), &mut got).unwrap();
    assert!(got == all);
    d.read(slice::<Cuda>(&other, 5 << 20, 100), &mut got[..100]).unwrap();
    assert!(got[..100] == all[5 << 20..][..100]);
}

/// y[i] = x[i] * 2 + p + q, for n elements; q is a number that is too many for a parameter.
fn twice() -> Kernel {
    let k = Builder::new("twice", [64, 1, 1]);
    let (x, y) = (k.buffer("x", Elem::U32, Access::Read), k.buffer("y", Elem::U32, Access::Write));
    let q = k.buffer("q", Elem::U32, Access::Read);
    let (p, n) = (k.param("p", Scalar::U32), k.param("n", Scalar::I64));
    let i = k.global_id(0);
    k.if_(i.to(Scalar::I64).lt(n), || k.store(y, i, k.load(x, i, 1) * 2 + p + k.load(q, k.u32(0), 1)));
    k.finish()
}

/// y[i] = x[n - 1 - i], by way of shared memory that a workgroup has to ask for.
fn turned(n: u32) -> Kernel {
    let k = Builder::new("turned", [256, 1, 1]);
    let (x, y) = (k.buffer("x", Elem::U32, Access::Read), k.buffer("y", Elem::U32, Access::Write));
    let first = k.shared("first", Elem::U32, 64);
    let s = k.shared("s", Elem::U32, n);
    let i = k.local_id(0);
    k.if_(i.lt(k.u32(64)), || k.store(first, i, k.u32(0)));
    k.each(i, k.u32(n), k.u32(256), |i| k.store(s, i, k.load(x, i, 1)));
    k.barrier();
    let none = k.load(first, i % 64, 1);
    k.each(i, k.u32(n), k.u32(256), |i| k.store(y, i, k.load(s, k.u32(n - 1) - i, 1) + none));
    k.finish()
}

/// Also where the driver keeps the calls.
fn turns(d: &Cuda, n: u32) -> elinvar_core::Result<()> {
    let module = d.compile(&turned(n))?;
    let bytes = u64::from(n) * 4;
    let memory = d.allocate(2 * bytes)?;
    let [x, y] = [0, 1].map(|i| slice::<Cuda>(&memory, i * bytes, bytes));
    let launch = Launch { groups: [1, 1, 1], params: Vec::new() };
    let graph = Graph::capture(
        d,
        &[Call::Launch { module: &module, buffers: vec![x, y], launch: &launch, args: None }],
    )?;
    for (round, graph) in [None, graph].into_iter().enumerate() {
        let number = |i: u32| i * 3 + round as u32;
        d.write(x, &(0..n).flat_map(|i| number(i).to_le_bytes()).collect::<Vec<u8>>())?;
        match graph {
            None => d.launch(&module, &[x, y], &launch, None)?,
            Some(graph) => graph.replay(d)?,
        }
        let mut got = vec![0; bytes as usize];
        d.read(y, &mut got)?;
        let want: Vec<u8> = (0..n).rev().flat_map(|i| number(i).to_le_bytes()).collect();
        assert!(got == want, "{n} numbers");
    }
    Ok(())
}

/// y = x w of f16, through a kernel that fetches TMA tiles, if the device has such; also where the
/// driver keeps the calls.
fn multiplies(d: &Cuda) -> elinvar_core::Result<()> {
    let (m, k, n) = (40, 72, 48);
    let layout = |rows, columns| Layout::contiguous(Shape::new(&[1, rows, columns]).expect("small"));
    let plain = CatalogueEpilogue(None);
    let tile = tma_wgmma::WgmmaTile::ALL[3];
    let work =
        tma_wgmma::contract(&GemmProblem::new(&plain, DType::F16, &layout(m, k), &layout(k, n), &[]), tile)
            .expect("it fits");
    let module = d.compile(&work.kernel())?;
    let memory = d.allocate(3 << 14)?;
    let [x, w, y] = [0, 1, 2].map(|i| slice::<Cuda>(&memory, i << 14, 1 << 14));
    let number = |i: usize| (i % 7) as f32 - 3.0;
    let bytes = |n: usize, from: usize| -> Vec<u8> {
        (0..n).flat_map(|i| half::f16::from_f32(number(i + from)).to_le_bytes()).collect()
    };
    let call = Call::Launch { module: &module, buffers: vec![x, w, y], launch: &work.launch, args: None };
    let graph = Graph::capture(d, &[call])?.expect("this driver keeps calls");
    for from in [0, 3] {
        d.write(x, &bytes(m * k, from))?;
        d.write(w, &bytes(k * n, 1))?;
        if from == 0 {
            d.launch(&module, &[x, w, y], &work.launch, None)?;
        } else {
            graph.replay(d)?;
        }
        let mut got = vec![0; m * n * 2];
        d.read(y, &mut got)?;
        for (at, got) in got.chunks(2).enumerate() {
            let (i, j) = (at / n, at % n);
            let want: f32 = (0..k).map(|t| number(i * k + t + from) * number(t * n + j + 1)).sum();
            assert_eq!(half::f16::from_le_bytes([got[0], got[1]]).to_f32(), want, "row {i}, column {j}");
        }
    }
    Ok(())
}

#[test]
fn boxes_are_fetched() {
    multiplies(&device()).unwrap();
    // What is no view is an error of who launches.
    let d = device();
    let layout = Layout::contiguous(Shape::new(&[1, 64, 64]).expect("small"));
    let plain = CatalogueEpilogue(None);
    let tile = tma_wgmma::WgmmaTile::ALL[3];
    let work = tma_wgmma::contract(&GemmProblem::new(&plain, DType::F16, &layout, &layout, &[]), tile)
        .expect("it fits");
    let module = d.compile(&work.kernel()).unwrap();
    let memory = d.allocate(3 << 14).unwrap();
    let all = [0, 1, 2].map(|i| slice::<Cuda>(&memory, i << 14, 1 << 14));
    let mut launch = work.launch.clone();
    let line = work.kernel().views[0].strides[0] as usize;
    launch.params[line] = Constant::int(Scalar::I32, 60);
    let e = d.launch(&module, &all, &launch, None).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    assert!(e.message().contains("x_view") && e.message().contains("16 bytes apart"), "{e}");
}

#[test]
fn a_workgroup_may_share_as_much_as_the_device_has() {
    let d = device();
    assert_eq!(d.info().shared, 227 << 10);
    // As much as a text declares, one number more, and all that there is.
    for bytes in [48 << 10, (48 << 10) + 16, 227 << 10] {
        turns(&d, bytes / 4 - 64).unwrap_or_else(|e| panic!("{bytes}: {e}"));
    }
}

/// Calls that the device keeps are made each time, in their order, with the numbers that they had;
/// others' work between them stays where it is.
#[test]
fn kept_calls_are_made_again() {
    let d = device();
    let module = d.compile(&twice()).unwrap();
    let memory = d.allocate(3 * 4096).unwrap();
    let [a, b, c] = [0, 1, 2].map(|i| slice::<Cuda>(&memory, i * 4096, 400));
    let launch =
        |p: u32| Launch { groups: [2, 1, 1], params: vec![p.into(), Constant::int(Scalar::I64, 100)] };
    let (first, second) = (launch(1), launch(5));
    let (q, r) = (7u32.to_le_bytes(), 100u32.to_le_bytes());
    let calls = [
        Call::Launch { module: &module, buffers: vec![a, b], launch: &first, args: Some(&q) },
        Call::Launch { module: &module, buffers: vec![b, c], launch: &second, args: Some(&r) },
        Call::Copy { from: c, to: a },
    ];
    d.write(a, &3u32.to_le_bytes().repeat(100)).unwrap();
    let graph = Graph::capture(&d, &calls).unwrap().expect("this driver keeps calls");
    // Numbers of other launches come between.
    d.launch(&module, &[b, c], &first, Some(&r)).unwrap();
    let mut want = 3u32;
    for _ in 0..3 {
        graph.replay(&d).unwrap();
        want = (want * 2 + 1 + 7) * 2 + 5 + 100;
        let mut got = vec![0; 400];
        d.read(a, &mut got).unwrap();
        assert!(got.chunks(4).all(|v| v == want.to_le_bytes()), "{want}: {got:?}");
    }
    graph.replay(&d).unwrap();
    // It goes when it is done, and memory after it.
    drop(graph);
    drop(memory);
    d.wait().unwrap();
    assert!(Graph::capture(&d, &[]).unwrap().is_some());
}

/// y[i] = the number of passes, by so many of them.
fn passes() -> Kernel {
    let k = Builder::new("passes", [32, 1, 1]);
    let y = k.buffer("y", Elem::U32, Access::ReadWrite);
    let n = k.param("n", Scalar::U32);
    let i = k.local_id(0);
    k.store(y, i, k.u32(0));
    k.each(k.u32(0), n, k.u32(1), |_| k.store(y, i, k.load(y, i, 1) + 1));
    k.finish()
}

/// Two streams: without an event they overlap, by the device's clock, and with one the second
/// begins when the first is done. The emulated device, whose streams run as late as they can, shows
/// what is read without waiting.
fn two_streams(d: &Cuda, n: u32) -> elinvar_core::Result<()> {
    let other = d.queue()?.expect("it has several");
    let module = d.compile(&passes())?;
    let memory = d.allocate(2 * 4096)?;
    let [x, y] = [0, 1].map(|i| slice::<Cuda>(&memory, i * 4096, 128));
    let first = |q: &Cuda, at| -> elinvar_core::Result<u32> {
        let mut got = [0; 4];
        q.read(at, &mut got)?;
        Ok(u32::from_le_bytes(got))
    };
    let launch = |n: u32| Launch { groups: [1, 1, 1], params: vec![n.into()] };
    d.write(x, &[7; 128])?;
    d.write(y, &[7; 128])?;
    d.wait()?;
    if d.info().kind == Kind::Software {
        d.launch(&module, &[x], &launch(1), None)?;
        assert_ne!(first(&other, x)?, 1, "no queue waits for it");
        assert_eq!(first(d, x)?, 1);
    }
    d.launch(&module, &[x], &launch(n), None)?;
    let event = d.record()?;
    other.after(&event)?;
    assert_eq!(first(&other, x)?, n);
    assert!(d.reached(&event)?);

    let time = |waits: bool| -> elinvar_core::Result<[Duration; 2]> {
        d.wait()?;
        other.wait()?;
        let from = d.mark()?;
        d.launch(&module, &[x], &launch(n), None)?;
        let (middle, event) = (d.mark()?, d.record()?);
        if waits {
            other.after(&event)?;
        }
        other.launch(&module, &[y], &launch(n), None)?;
        let to = other.mark()?;
        Ok([d.between(&from, &middle)?, d.between(&from, &to)?])
    };
    let ([one, beside], [alone, behind]) = (time(false)?, time(true)?);
    println!("one: {one:?}, two side by side: {beside:?}, two in a row: {behind:?}");
    assert!(beside < one * 3 / 2, "{one:?} {beside:?}");
    assert!(behind > alone * 9 / 5, "{alone:?} {behind:?}");
    Ok(())
}

/// The same on NVIDIA's own driver.
#[test]
#[ignore = "needs a GPU"]
fn streams_overlap_on_a_card() {
    two_streams(&Cuda::open(0).unwrap(), 20_000_000).unwrap();
}

/// Calls that were kept for one stream, made in another: behind what wrote their numbers.
fn graph_in_another_stream(d: &Cuda) -> elinvar_core::Result<()> {
    let other = d.queue()?.expect("it has several");
    let module = d.compile(&twice())?;
    let memory = d.allocate(2 * 4096)?;
    let [a, b] = [0, 1].map(|i| slice::<Cuda>(&memory, i * 4096, 400));
    other.after(&d.record()?)?;
    other.write(a, &3u32.to_le_bytes().repeat(100))?;
    let launch = Launch { groups: [2, 1, 1], params: vec![1u32.into(), Constant::int(Scalar::I64, 100)] };
    let q = 7u32.to_le_bytes();
    let call = Call::Launch { module: &module, buffers: vec![a, b], launch: &launch, args: Some(&q) };
    let graph = Graph::capture(d, &[call])?.expect("this driver keeps calls");
    graph.replay(&other)?;
    let mut got = vec![0; 400];
    other.read(b, &mut got)?;
    assert!(got.chunks(4).all(|v| v == 14u32.to_le_bytes()), "{got:?}");
    Ok(())
}

/// Pinned memory goes up and down without a wait between; a copy that is dropped is waited for.
#[test]
fn pinned_memory_is_copied() {
    let (d, elsewhere) = (device(), device());
    let memory = d.allocate(1 << 20).unwrap();
    let whole = slice::<Cuda>(&memory, 16, (1 << 20) - 16);
    let mut pinned = d.pin(whole.len as usize).unwrap();
    assert!(pinned.as_ref().iter().all(|b| *b == 0));
    pinned.as_mut().iter_mut().zip(0..).for_each(|(b, i)| *b = (i % 251) as u8);
    let up = d.upload(pinned, whole).unwrap();
    let down = d.download(whole, d.pin(1 << 20).unwrap()).unwrap();
    let (sent, got) = (up.wait().unwrap(), down.wait().unwrap());
    assert!(got.as_ref()[..sent.as_ref().len()] == *sent.as_ref());
    drop(d.download(whole, sent).unwrap());
    // No bytes, and memory of another device.
    d.upload(d.pin(0).unwrap(), slice::<Cuda>(&memory, 0, 0)).unwrap().wait().unwrap();
    let e = d.upload(elsewhere.pin(64).unwrap(), slice::<Cuda>(&memory, 0, 64)).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
}

/// The device's own clock goes on, and knows marks of one device only.
#[test]
fn marks_have_a_time_between_them() {
    let (d, other) = (device(), device());
    let memory = d.allocate(1 << 20).unwrap();
    let from = d.mark().unwrap();
    d.write(slice::<Cuda>(&memory, 0, 1 << 20), &vec![7; 1 << 20]).unwrap();
    let to = d.mark().unwrap();
    assert!(d.between(&from, &to).unwrap() > Duration::ZERO);
    let e = d.between(&from, &other.mark().unwrap()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
}

/// Bytes may be changed as soon as they were given; many small ones go around the ring.
#[test]
fn bytes_are_taken_at_once() {
    let d = device();
    let memory = d.allocate(4096 * 4096).unwrap();
    let mut bytes = vec![0u8; 4096];
    for i in 0..4096u64 {
        bytes.fill((i % 251) as u8);
        d.write(slice::<Cuda>(&memory, i * 4096, 4096), &bytes).unwrap();
    }
    bytes.fill(255);
    let mut got = vec![0; 4096 * 4096];
    d.read(slice::<Cuda>(&memory, 0, 4096 * 4096), &mut got).unwrap();
    assert!(got.chunks(4096).enumerate().all(|(i, c)| c.iter().all(|&b| b == (i % 251) as u8)));
}

#[test]
fn what_cannot_be_is_an_error() {
    let d = device();
    assert_eq!(Cuda::open(99).unwrap_err().kind(), ErrorKind::UnknownDevice);
    let too_large = d.allocate(d.info().largest + 1).unwrap_err();
    assert_eq!(too_large.kind(), ErrorKind::OutOfMemory, "{too_large}");
    let some = d.allocate(4096).unwrap();
    let whole = d.allocate(d.info().largest).unwrap_err();
    drop(some);
    assert_eq!(whole.kind(), ErrorKind::OutOfMemory, "{whole}");
    let other = use_library(Path::new("another")).unwrap_err();
    assert_eq!(other.kind(), ErrorKind::InvalidArgument, "{other}");
    let k = Builder::new("wide", [2048, 1, 1]);
    k.store(k.buffer("y", Elem::U32, Access::Write), k.u32(0), k.u32(0));
    let e = d.compile(&k.finish()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(e.message().contains("2048 invocations"), "{e}");
}

/// Opens the first device, and uses it in the way that `ELINVAR_TEST_CUDA` names; prints how it
/// went.
#[test]
#[ignore = "a child of the other tests"]
fn child() {
    let how = std::env::var("ELINVAR_TEST_CUDA").expect("a parent");
    match tried(&how) {
        Ok(()) => println!("outcome: fine"),
        Err(e) => println!("outcome: {e:?}"),
    }
}

fn tried(how: &str) -> elinvar_core::Result<()> {
    let d = Cuda::open(0)?;
    let memory = d.allocate(4096)?;
    let store = |at: i64| {
        let k = Builder::new("puts", [32, 1, 1]);
        k.store(k.buffer("y", Elem::U32, Access::Write), k.local_id(0) + at, k.u32(7));
        d.compile(&k.finish())
    };
    let launch = Launch { groups: [1, 1, 1], params: Vec::new() };
    let y = slice::<Cuda>(&memory, 0, 4096);
    match how {
        "use" => {
            d.launch(&store(0)?, &[y], &launch, None)?;
            let mut got = [0; 4];
            d.read(y, &mut got)?;
            assert_eq!(u32::from_le_bytes(got), 7);
        }
        "two streams" => two_streams(&d, 2_000)?,
        "graph in another stream" => graph_in_another_stream(&d)?,
        "free what another stream uses" => {
            let other = d.queue()?.expect("it has several");
            let large = other.allocate(40 << 20)?;
            let part = slice::<Cuda>(&large, 0, 4096);
            other.write(part, &[1; 4096])?;
            other.copy(part, slice::<Cuda>(&large, 8192, 4096))?;
            drop(large);
            // There is room for it only when the other stream is done with it.
            d.allocate(40 << 20)?;
            other.wait()?;
        }
        "share 64 KiB" => turns(&d, (64 << 10) / 4 - 64)?,
        "share 65 KiB" => turns(&d, (65 << 10) / 4 - 64)?,
        "multiply" => multiplies(&d)?,
        "reach beyond" => {
            d.launch(&store(1020)?, &[y], &launch, None)?;
            let lost = d.wait();
            assert_eq!(d.write(y, &[1; 4]).unwrap_err().kind(), ErrorKind::DeviceLost, "it stays lost");
            lost?;
        }
        "fill memory" => {
            let mut all = Vec::new();
            let full = loop {
                match d.allocate(8 << 20) {
                    Ok(m) => all.push(m),
                    Err(e) => break e,
                }
            };
            assert_eq!(all.len(), 7, "of 64 MiB, a piece of 4 KiB is taken");
            all.truncate(5);
            // What was given back is there again, and the device goes on.
            all.push(d.allocate(8 << 20)?);
            d.launch(&store(0)?, &[y], &launch, None)?;
            d.wait()?;
            return Err(full);
        }
        _ => unreachable!("{how}"),
    }
    Ok(())
}

/// The outcome of a child with these variables.
fn outcome(how: &str, vars: &[(&str, &str)]) -> String {
    let cache = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "child", "--ignored", "--nocapture"]).env("ELINVAR_CUDA_LIBRARY", emulated());
    child.env("ELINVAR_TEST_CUDA", how).env("ELINVAR_CACHE_DIR", cache.path()).envs(vars.iter().copied());
    let o = child.output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&o.stdout), String::from_utf8_lossy(&o.stderr));
    assert!(o.status.success(), "{said}{errors}");
    let line = said.lines().find_map(|l| Some(l.split_once("outcome: ")?.1.to_string()));
    line.unwrap_or_else(|| panic!("{said}{errors}"))
}

#[test]
fn what_a_machine_may_lack() {
    let rows: [(&str, &[(&str, &str)], &[&str]); 24] = [
        ("use", &[], &["fine"]),
        ("two streams", &[], &["fine"]),
        ("graph in another stream", &[], &["fine"]),
        ("free what another stream uses", &[("ELINVAR_EMULATED_CUDA_MEMORY", "67108864")], &["fine"]),
        (
            "free what another stream uses",
            &[("ELINVAR_EMULATED_CUDA_MEMORY", "67108864"), ("ELINVAR_EMULATED_CUDA_POOLS", "0")],
            &["fine"],
        ),
        ("use", &[("ELINVAR_EMULATED_CUDA_CAPABILITY", "75")], &["fine"]),
        ("multiply", &[("ELINVAR_EMULATED_CUDA_GUESSES", "0")], &["fine"]),
        (
            "multiply",
            &[("ELINVAR_EMULATED_CUDA_CAPABILITY", "100")],
            &["Unsupported", "gemm_wgmma_", "no TMA and wgmma"],
        ),
        ("multiply", &[("ELINVAR_EMULATED_CUDA_VERSION", "11080")], &["Unsupported", "no TMA and wgmma"]),
        ("multiply", &[("ELINVAR_CUDA_BOXES", "0")], &["Unsupported", "no TMA and wgmma"]),
        ("share 64 KiB", &[("ELINVAR_EMULATED_CUDA_CAPABILITY", "75")], &["fine"]),
        (
            "share 65 KiB",
            &[("ELINVAR_EMULATED_CUDA_CAPABILITY", "75")],
            &["Unsupported", "turned", "66560 bytes of shared memory"],
        ),
        ("use", &[("ELINVAR_EMULATED_CUDA_POOLS", "0")], &["fine"]),
        ("use", &[("ELINVAR_EMULATED_CUDA_VERSION", "11000")], &["fine"]),
        (
            "use",
            &[("ELINVAR_EMULATED_CUDA_VERSION", "9020")],
            &["Unsupported", "CUDA 9.2", "PTX up to 7.0", "CUDA 11.0"],
        ),
        ("use", &[("ELINVAR_EMULATED_CUDA_CAPABILITY", "70")], &["Unsupported", "7.0", "7.5"]),
        ("use", &[("ELINVAR_EMULATED_CUDA_DEVICES", "0")], &["DriverMissing", "finds no NVIDIA GPU"]),
        (
            "use",
            &[("ELINVAR_EMULATED_CUDA_REFUSE", "// puts")],
            &["Unsupported", "puts", "INVALID_PTX", "are refused"],
        ),
        (
            "use",
            &[("ELINVAR_CUDA_LIBRARY", "/nowhere/libcuda.so")],
            &["DriverMissing", "/nowhere", "nvidia-driver"],
        ),
        (
            "use",
            &[("ELINVAR_CUDA_LIBRARY", "libm.so.6")],
            &["DriverMissing", "libm.so.6 has no function cuDriverGetVersion"],
        ),
        ("reach beyond", &[], &["DeviceLost", "ILLEGAL_ADDRESS"]),
        ("reach beyond", &[("ELINVAR_EMULATED_CUDA_POOLS", "0")], &["DeviceLost", "ILLEGAL_ADDRESS"]),
        ("fill memory", &[("ELINVAR_EMULATED_CUDA_MEMORY", "67108864")], &["OutOfMemory", "8388608 bytes"]),
        (
            "fill memory",
            &[("ELINVAR_EMULATED_CUDA_MEMORY", "67108864"), ("ELINVAR_EMULATED_CUDA_POOLS", "0")],
            &["OutOfMemory", "8388608 bytes"],
        ),
    ];
    for (how, vars, parts) in rows {
        let got = outcome(how, vars);
        for part in parts {
            assert!(got.contains(part), "{how} with {vars:?}: {got}\nshould say: {part}");
        }
    }
}

/// Compiled kernels are kept; what is damaged is compiled again.
#[test]
fn kept_kernels_may_be_damaged() {
    let cache = tempfile::tempdir().unwrap();
    let vars = [("ELINVAR_CACHE_DIR", cache.path().to_str().expect("UTF-8"))];
    let files = || -> Vec<PathBuf> {
        let dirs = std::fs::read_dir(cache.path()).unwrap().map(|d| d.unwrap().path());
        dirs.flat_map(|d| std::fs::read_dir(d).unwrap()).map(|f| f.unwrap().path()).collect()
    };
    assert_eq!(outcome("use", &vars), "fine");
    let [file] = &files()[..] else { panic!("one kernel, one file: {:?}", files()) };
    let whole = std::fs::read(file).unwrap();
    // A device that finds the file compiles nothing.
    let refuse = ("ELINVAR_EMULATED_CUDA_REFUSE_COMPILING", "1");
    assert_eq!(outcome("use", &[vars[0], refuse]), "fine");
    for damaged in [
        &b""[..],
        b"not a module",
        &whole[..whole.len() - 1],
        &[&whole[..40], &[0; 9], &whole[49..]].concat(),
    ] {
        std::fs::write(file, damaged).unwrap();
        assert!(outcome("use", &[vars[0], refuse]).contains("INVALID_PTX"), "it is not what was kept");
        assert_eq!(outcome("use", &vars), "fine");
        assert!(std::fs::read(file).unwrap() == whole, "it was written again");
    }
    // An unwritable directory is treated as none.
    assert_eq!(outcome("use", &[("ELINVAR_CACHE_DIR", "/proc/none")]), "fine");
}
