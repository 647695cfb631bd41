//! AMD's driver on libraries of the test's own, which run kernels on this processor: work in order,
//! numbers, what is missing.
//!
//! What the libraries are is read once in a process; so all of it is tried in children of this
//! test.

mod doubles;

use doubles::{doubles, slice};
use elinvar_driver::{Driver, Hip, PendingCopy, hip};
use elinvar_kernel::builder::Builder;
use elinvar_kernel::interp::Launch;
use elinvar_kernel::ir::{Access, Builtin, Elem};
use std::path::Path;
use std::process::Command;

/// Opens the first device, and uses it; prints how it went.
#[test]
#[ignore = "a child of the other tests"]
fn child() {
    match tried() {
        Ok(()) => println!("outcome: fine"),
        Err(e) => println!("outcome: {e:?}"),
    }
}

fn tried() -> elinvar_core::Result<()> {
    let d = Hip::open(0)?;
    let info = d.info().clone();
    println!("{info:?}");
    doubles(&d);
    // Another stream of the device, behind this one.
    let other = d.queue()?.expect("there are events");
    other.after(&d.record()?)?;
    doubles(&other);
    let k = Builder::new("counts", [32, 1, 1]);
    let y = k.buffer("y", Elem::U32, Access::Write);
    let count = k.builtin(Builtin::GroupCount(0));
    k.store(y, k.global_id(0), k.builtin(Builtin::GroupCount(1)) * 100 + count);
    let module = d.compile(&k.finish())?;
    let memory = d.allocate(4096)?;
    d.launch(
        &module,
        &[slice::<Hip>(&memory, 0, 4096)],
        &Launch { groups: [3, 1, 1], params: Vec::new() },
        None,
    )?;
    let pinned = d.download(slice::<Hip>(&memory, 0, 384), d.pin(384)?)?.wait()?;
    assert!(pinned.as_ref().chunks(4).all(|c| c == 103u32.to_le_bytes()), "{:?}", pinned.as_ref());
    assert!(d.allocate(1 << 29).is_err_and(|e| e.message().starts_with("rocm: ")));
    Ok(())
}

/// The outcome of a child with these variables.
fn outcome(vars: &[(&str, &Path)]) -> String {
    let cache = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "child", "--ignored", "--nocapture"]).env("ELINVAR_CACHE_DIR", cache.path());
    let o = child.envs(vars.iter().copied()).output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&o.stdout), String::from_utf8_lossy(&o.stderr));
    assert!(o.status.success(), "{said}{errors}");
    let line = said.lines().find_map(|l| Some(l.split_once("outcome: ")?.1.to_string()));
    line.unwrap_or_else(|| panic!("{said}{errors}"))
}

/// Compiles a C file; `false` without a compiler, or on another processor.
fn compiled(from: &Path, flags: &[&str], to: &Path) -> bool {
    let there = cfg!(target_arch = "x86_64") && Command::new("clang-19").arg("--version").output().is_ok();
    if !there {
        println!("skipped: kernels are run on x86-64 by clang-19 (apt-get install clang-19 lld-19 llvm-19)");
        return false;
    }
    let done = Command::new("clang-19").args(flags).arg(from).arg("-o").arg(to).status().unwrap();
    assert!(done.success(), "{}", from.display());
    true
}

#[test]
fn work_is_done_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let (library, machine) = (dir.path().join("stub.so"), dir.path().join("machine.o"));
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/hip_stub.c");
    let of_kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernel/tests/support/amd_machine.c");
    let flags = ["-O1", "-fPIC", "-c", "-DAMD_LIBRARY", "-mfma", "-mf16c", "-mavx2"];
    if !compiled(&tests, &["-O1", "-shared", "-fPIC"], &library) || !compiled(&of_kernels, &flags, &machine) {
        return;
    }
    let run = |arch: &str| {
        outcome(&[
            ("ELINVAR_HIP_LIBRARY", &library),
            ("ELINVAR_COMGR_LIBRARY", &library),
            ("STUB_DIR", dir.path()),
            ("STUB_MACHINE", &machine),
            ("STUB_ARCH", Path::new(arch)),
        ])
    };
    for (arch, want) in [
        ("gfx942", "fine"),
        ("gfx1100", "fine"),
        ("gfx90a", "comgr 2.4 does not know amdgcn-amd-amdhsa--gfx90a"),
        ("gfx803", "is of gfx803:sramecc+:xnack-, and kernels are emitted for gfx906, gfx90a, gfx942"),
    ] {
        let got = run(arch);
        assert!(got.contains(want), "{arch}: {got}\nshould say: {want}");
    }
}

#[test]
fn what_a_machine_may_lack() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/hip_stub.c");
    let got = outcome(&[("ELINVAR_HIP_LIBRARY", Path::new("/nowhere/libamdhip64.so"))]);
    for part in [
        "DriverMissing",
        "/nowhere/libamdhip64.so cannot be loaded",
        "install AMD's ROCm runtime",
        "ELINVAR_HIP_LIBRARY",
    ] {
        assert!(got.contains(part), "{got}\nshould say: {part}");
    }
    let got = outcome(&[("ELINVAR_HIP_LIBRARY", &here)]);
    assert!(got.contains("DriverMissing"), "{got}");
    // Only the first name counts.
    hip::use_library(Path::new("/nowhere/a.so")).unwrap();
    assert!(hip::use_library(Path::new("/nowhere/b.so")).is_err());
}
