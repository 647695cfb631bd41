//! Devices built with settings: what each kind takes, what is refused, who wins over the
//! environment.
//!
//! What a process does once, opening a GPU or reading the environment, is done in a child of the
//! test.

#![cfg(all(feature = "cuda", feature = "vulkan"))]

use elinvar_core::{Autotune, DType, DeviceKind, Error, ErrorKind, Precision, Setting, Settings, Validation};
use elinvar_devices::{Any, Device, DeviceBuilder, Exactness};
use elinvar_tensor::{Pinned, Stream, Tensor, try_run};
use std::process::Command;

const MIB: u64 = 1 << 20;

/// Runs a test of this file, which is ignored otherwise, in a process of its own, with these
/// variables, on an emulated CUDA device of 64 MiB.
fn alone(test: &str, vars: &[(&str, &str)]) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([test, "--exact", "--ignored", "--nocapture", "--test-threads", "1"]);
    child.env("ELINVAR_CUDA_LIBRARY", emulated_cuda::library().expect("it was built for this test"));
    child.env("ELINVAR_EMULATED_CUDA_MEMORY", (64 * MIB).to_string());
    let o = child.envs(vars.iter().copied()).output().unwrap();
    let said = String::from_utf8_lossy(&o.stdout).into_owned() + &String::from_utf8_lossy(&o.stderr);
    assert!(o.status.success() && said.contains("1 passed"), "{said}");
}

fn refused(b: DeviceBuilder) -> (ErrorKind, String) {
    let e: Error = b.build().unwrap_err();
    (e.kind(), e.message().to_string())
}

fn cpu_of(d: &Device) -> &elinvar_cpu::CpuDevice {
    match d {
        Device::Cpu(d) => d,
        d => panic!("{d} is no processor"),
    }
}

fn zeros(d: &Device, bytes: u64) -> Result<(), Error> {
    try_run(|| drop(Tensor::<Any>::zeros([bytes as usize], DType::U8, d)))
}

#[test]
fn what_a_device_has_not_is_refused() {
    let of_gpu = "memory_limit, pool_initial, pool_maximum, pool_growth, precision, autotune, tune_cache";
    let of_cpu = "memory_limit, threads, isa, fuse_from, pack_up_to, precision";
    let b = Device::builder;
    let rows = [
        (b("reference").threads(2), "reference: no setting threads; it has: none".to_string()),
        (b("reference").precision(Precision::Exact), "reference: no setting precision; it has: none".into()),
        (b("cpu").pool_initial(1), format!("cpu: no setting pool_initial; it has: {of_cpu}")),
        (b("cpu:0").autotune(true), format!("cpu: no setting autotune; it has: {of_cpu}")),
        (b("cuda:0").threads(2), format!("cuda: no setting threads; it has: {of_gpu}")),
        (b("cuda").validation(Validation::Calls), format!("cuda: no setting validation; it has: {of_gpu}")),
        (b("vulkan:7").isa("avx2"), format!("vulkan: no setting isa; it has: {of_gpu}, validation")),
    ];
    for (builder, want) in rows {
        assert_eq!(refused(builder), (ErrorKind::Unsupported, want));
    }
}

#[test]
fn contradictions_are_refused() {
    let b = Device::builder;
    let rows = [
        (b("cpu").threads(0), "cpu: threads is 0, and work needs one thread at least"),
        (
            b("vulkan").pool_initial(2).pool_maximum(1),
            "vulkan: pool_initial is 2 bytes, and pool_maximum only 1",
        ),
        (b("cuda:0").pool_growth(2).pool_maximum(1), "cuda: pool_growth is 2 bytes, and pool_maximum only 1"),
        (
            b("cuda:0").pool_initial(2).memory_limit(1),
            "cuda: pool_initial is 2 bytes, and memory_limit only 1",
        ),
        (
            b("best").precision(Precision::Fast),
            "best: a builder needs the name of a device, such as cpu, cuda:0 or vulkan:0",
        ),
    ];
    for (builder, want) in rows {
        assert_eq!(refused(builder), (ErrorKind::InvalidArgument, want.to_string()));
    }
    assert_eq!(refused(b("abacus")).0, ErrorKind::UnknownDevice);
    let (kind, text) = refused(b("cpu").isa("mmx"));
    assert_eq!(kind, ErrorKind::InvalidArgument);
    assert!(
        text.starts_with("cpu: there is no instruction set \"mmx\" on this processor; it has: plain"),
        "{text}"
    );
}

/// Threads and instruction sets change no bit; all of the processor's devices are one memory.
#[test]
fn processors_with_settings() {
    let shared = Device::cpu();
    let plain = Device::builder("cpu").threads(3).isa("plain").fuse_from(64).pack_up_to(0).build().unwrap();
    let d = cpu_of(&plain);
    let got = (d.threads(), d.isa().to_string(), d.fuses_from(), d.packs_up_to());
    assert_eq!(got, (3, "plain".into(), 64, 0));
    let fast = Device::builder("cpu").precision(Precision::Fast).build().unwrap();
    assert_eq!(cpu_of(&fast).precision(), Precision::Fast);
    assert_eq!(cpu_of(&fast).threads(), cpu_of(&shared).threads());
    let product = |d: &Device| {
        let x: Vec<f32> = (0..64 * 64).map(|i| (i % 37) as f32 / 37.0 - 0.5).collect();
        let x = Tensor::<Any>::from_vec(x, &[64, 64], d);
        x.matmul(&x).exp().to_vec::<f32>().unwrap()
    };
    assert_eq!(product(&plain), product(&shared));
    assert_eq!(plain, shared);
}

#[test]
fn a_processors_limit_is_all_processors() {
    alone("limits_of_processors", &[]);
}

#[test]
#[ignore = "a child of another test"]
fn limits_of_processors() {
    let d = Device::builder("cpu").memory_limit(8 * MIB).build().unwrap();
    zeros(&Device::cpu(), 9 * MIB).unwrap_err();
    zeros(&d, 7 * MIB).unwrap();
    // The same again, and another, which changes nothing.
    Device::builder("cpu").threads(2).memory_limit(8 * MIB).build().unwrap();
    let want = "cpu: memory_limit is 9437184 bytes, and a device was built with 8388608; the processor's devices share \
                one memory, whose limit `set_memory_limit` changes for all of them";
    let other = Device::builder("cpu").memory_limit(9 * MIB);
    assert_eq!(refused(other.clone()), (ErrorKind::InvalidArgument, want.to_string()));
    zeros(&d, 9 * MIB).unwrap_err();
    d.set_memory_limit(None).unwrap();
    zeros(&d, 9 * MIB).unwrap();
    other.build().unwrap();
    assert_eq!(d.memory_stats().unwrap().limit, Some(9 * MIB));
}

#[test]
fn a_gpu_is_opened_once() {
    alone("settings_of_a_gpu", &[]);
}

#[test]
#[ignore = "a child of another test"]
fn settings_of_a_gpu() {
    let b = || Device::builder("cuda:0");
    // What is refused opens nothing.
    let (kind, text) = refused(b().pool_initial(65 * MIB));
    assert_eq!(kind, ErrorKind::InvalidArgument);
    assert!(
        text.starts_with("cuda:0: pool_initial is 68157440 bytes, more than the 67108864 of the device "),
        "{text}"
    );
    assert_eq!(refused(Device::builder("cuda:1")).0, ErrorKind::UnknownDevice);

    let pool = b().pool_initial(8 * MIB).pool_maximum(16 * MIB).pool_growth(4 * MIB);
    let d = pool.clone().memory_limit(12 * MIB).build().unwrap();
    let stats = d.memory_stats().unwrap();
    assert_eq!((stats.cached, stats.limit, stats.from_system), (8 * MIB, Some(12 * MIB), 1), "{stats}");
    zeros(&d, 13 * MIB).unwrap_err();
    // It is one device, by all of its names.
    assert_eq!(pool.build().unwrap(), d);
    let fast = b().precision(Precision::Fast).build().unwrap();
    assert_eq!((&fast, &Device::parse("cuda").unwrap()), (&d, &d));
    match (&fast, &d) {
        (Device::Cuda(fast), Device::Cuda(d)) => {
            assert_eq!((fast.precision(), d.precision()), (Precision::Fast, Precision::Exact));
        }
        _ => panic!("these are CUDA devices"),
    }
    let rows = [
        (
            b().pool_growth(MIB),
            "cuda:0 is open with pool_growth 4194304 bytes, and a process opens a device once; ask for pool_growth \
             1048576 bytes before its first use",
        ),
        (
            b().autotune(Autotune::On),
            "cuda:0 is open with autotune off, and a process opens a device once; ask for autotune on before its first \
             use",
        ),
        (
            b().memory_limit(MIB),
            "cuda:0: memory_limit is 1048576 bytes, and the device was built with 12582912; `set_memory_limit` changes \
             it for all that use it",
        ),
    ];
    for (builder, want) in rows {
        assert_eq!(refused(builder), (ErrorKind::InvalidArgument, want.to_string()));
    }
    b().autotune(false).build().unwrap();
    d.set_memory_limit(None).unwrap();
    b().memory_limit(20 * MIB).build().unwrap();
    let e = zeros(&d, 17 * MIB).unwrap_err();
    assert!(e.kind() == ErrorKind::OutOfMemory && e.message().contains("pool_maximum"), "{e}");
    zeros(&d, 16 * MIB).unwrap_err();
    zeros(&d, 8 * MIB).unwrap();
}

#[test]
fn the_environment_sets_what_the_builder_does_not() {
    let vars = [
        ("ELINVAR_THREADS", "1"),
        ("ELINVAR_CPU_ISA", "plain"),
        ("ELINVAR_MEMORY_LIMIT", "16MiB"),
        ("ELINVAR_POOL_INITIAL", "2MiB"),
        ("ELINVAR_POOL_MAXIMUM", "8MiB"),
        ("ELINVAR_PRECISION", "fast"),
    ];
    alone("variables_of_devices", &vars);
    alone("variables_that_are_wrong", &[("ELINVAR_THREADS", "many"), ("ELINVAR_TUNE", "yes")]);
}

#[test]
#[ignore = "a child of another test"]
fn variables_of_devices() {
    let d = Device::parse("cpu").unwrap();
    let cpu = cpu_of(&d);
    assert_eq!((cpu.threads(), cpu.isa().to_string(), cpu.precision()), (1, "plain".into(), Precision::Fast));
    assert_eq!(d.memory_stats().unwrap().limit, Some(16 * MIB));
    let d =
        Device::builder("cpu").threads(2).precision(Precision::Exact).memory_limit(32 * MIB).build().unwrap();
    let cpu = cpu_of(&d);
    assert_eq!(
        (cpu.threads(), cpu.isa().to_string(), cpu.precision()),
        (2, "plain".into(), Precision::Exact)
    );
    assert_eq!(d.memory_stats().unwrap().limit, Some(32 * MIB));

    // The builder's maximum and the environment's beginning.
    let (_, text) = refused(Device::builder("cuda:0").pool_maximum(MIB));
    assert_eq!(text, "cuda: pool_initial is 2097152 bytes, and pool_maximum only 1048576");
    let d = Device::builder("cuda:0").pool_initial(4 * MIB).build().unwrap();
    let stats = d.memory_stats().unwrap();
    assert_eq!((stats.cached, stats.limit), (4 * MIB, Some(16 * MIB)), "{stats}");
    zeros(&d, 9 * MIB).unwrap_err();
    Device::builder("reference").build().unwrap();
}

#[test]
#[ignore = "a child of another test"]
fn variables_that_are_wrong() {
    let wrong = |name: &str| Device::parse(name).unwrap_err().message().to_string();
    assert_eq!(wrong("cpu"), "ELINVAR_THREADS is \"many\", and should be a number of threads");
    assert_eq!(wrong("cuda"), "ELINVAR_TUNE is \"yes\", and should be 0, 1 or 2");
    Device::parse("reference").unwrap();
}

#[test]
fn vulkan_with_settings() {
    alone("settings_of_vulkan", &[]);
}

#[test]
#[ignore = "a child of another test"]
fn settings_of_vulkan() {
    let b = || Device::builder("vulkan:0");
    let d = match b().pool_initial(4 * MIB).pool_growth(MIB).validation(Validation::Off).build() {
        Ok(d) => d,
        Err(e) if e.kind() == ErrorKind::DriverMissing => return println!("skipped: {e}"),
        Err(e) => panic!("{e}"),
    };
    let stats = d.memory_stats().unwrap();
    assert_eq!((stats.cached, stats.from_system), (4 * MIB, 1), "{stats}");
    let x = Tensor::<Any>::ones([1 << 10], DType::F32, &d);
    assert_eq!(x.sum().to_vec::<f32>().unwrap(), [1024.0]);
    let (kind, text) = refused(b().validation(Validation::Calls));
    assert_eq!(kind, ErrorKind::InvalidArgument);
    assert_eq!(
        text,
        "vulkan: validation is off for all devices of this process, and cannot become calls; ask for it before the \
         first use"
    );
    let (kind, text) = refused(b().pool_maximum(1 << 60));
    assert_eq!(kind, ErrorKind::InvalidArgument);
    assert!(text.starts_with("vulkan:0 is open without pool_maximum"), "{text}");
}

#[test]
fn devices_tell_what_they_are() {
    alone("properties_of_devices", &[]);
}

#[test]
#[ignore = "a child of another test"]
fn properties_of_devices() {
    let all = Device::list().unwrap();
    let of = |name: &str| {
        let found = all.iter().find(|d| d.device.to_string() == name);
        found.unwrap_or_else(|| panic!("there is no {name}"))
    };
    let cpu = &of("cpu").properties;
    let d = Device::cpu();
    assert_eq!(cpu.compute_units, Some(cpu_of(&d).threads() as u32));
    assert_eq!(
        (cpu.subgroup, &*cpu.driver),
        ([cpu_of(&d).lanes() as u32; 2], &*cpu_of(&d).isa().to_string())
    );
    assert_eq!(
        (&*of("reference").properties.class, of("reference").properties.subgroup),
        ("plain loops", [1, 1])
    );
    let cuda = of("cuda:0");
    assert_eq!(cuda.exactness, Exactness::Exact);
    let p = &cuda.properties;
    assert_eq!((p.memory, p.largest_allocation, p.subgroup), (Some(64 * MIB), Some(64 * MIB), [32, 32]));
    assert_eq!(p.class, "software");
    let units: Vec<String> = p.matrix_units.iter().map(ToString::to_string).collect();
    assert_eq!(units, ["f16 16x16x16", "bf16 16x16x16", "f32 16x16x8", "f64 16x8x8"]);
    assert!(p.to_string().contains("sm_90") && p.to_string().contains("matrix units: f16"), "{p}");
    for d in &all {
        assert!(!d.properties.to_string().contains('\n'), "{}", d.properties);
        // The same program runs on each, in the order of its calls where there is one queue.
        assert_eq!(d.properties.parallel_streams, d.device.to_string().starts_with("cuda"), "{}", d.device);
        streams(&d.device).unwrap_or_else(|e| panic!("{}: {e}", d.device));
    }
}

/// A device that is chosen at run time has streams like any other, and takes its own events alone.
fn streams(d: &Device) -> Result<(), Error> {
    let stream = Stream::new(d)?;
    let mut pinned = Pinned::new(&[3], DType::I32, d)?;
    pinned.fill_from(&[1i32, 2, 3])?;
    let (x, copy) = stream.scope(|| pinned.upload())?;
    let event = stream.record()?;
    Stream::new(d)?.wait(&event)?;
    assert_eq!((&x * 2).to_vec::<i32>()?, [2, 4, 6]);
    assert_eq!(copy.wait()?.download(&x)?.wait()?.bytes(), [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]);
    let other = if *d == Device::reference() { Device::cpu() } else { Device::reference() };
    let e = Stream::new(&other)?.wait(&event).unwrap_err();
    let want = format!("{other}: an event of {d}; a stream takes those of its own device");
    assert_eq!((e.kind(), e.message()), (ErrorKind::DeviceMismatch, &*want));
    let e = Pinned::new(&[3], DType::I32, &other)?.download(&x).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::DeviceMismatch, "{e}");
    Ok(())
}

/// The table in the guide, and the variables in the reference.
#[test]
fn the_table_of_settings_is_as_the_code() {
    let guide = include_str!("../../../docs/guide/devices.md");
    let reference = include_str!("../../../docs/reference/environment.md");
    let mut rows = Vec::new();
    for s in Setting::ALL {
        let has = DeviceKind::ALL.map(|kind| if s.is_of(kind) { "yes" } else { "-" });
        rows.push(format!("| `{s}` | `{}` | {} |", s.variable(), has.join(" | ")));
        let line = format!("| `{}` |", s.variable());
        assert!(reference.contains(&line), "docs/reference/environment.md has no row {line}");
    }
    let kinds = DeviceKind::ALL.map(|kind| format!("`{kind}`")).join(" | ");
    let line = "---|".repeat(2 + DeviceKind::ALL.len());
    let table = format!("| setting | variable | {kinds} |\n|{line}\n{}\n", rows.join("\n"));
    assert!(guide.contains(&table), "docs/guide/devices.md should have this table:\n{table}");
}

/// A builder takes all settings at once, too.
#[test]
fn settings_are_one_plain_struct() {
    let settings = Settings { threads: Some(1), ..Settings::default() };
    let d = Device::builder("cpu").threads(4).settings(settings).build().unwrap();
    assert_eq!(cpu_of(&d).threads(), 1);
}
