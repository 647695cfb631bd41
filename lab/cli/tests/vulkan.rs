//! Vulkan's caches: damaged, shared, and none.

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn lab(args: &[&str], vars: &[(&str, &str)]) -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_elinvar-lab"));
    c.args(args).envs(vars.iter().copied()).stdin(Stdio::null());
    c
}

fn run(args: &[&str], vars: &[(&str, &str)]) -> (Output, String) {
    let o = lab(args, vars).output().expect("the program starts");
    let said = String::from_utf8_lossy(&o.stderr).into_owned();
    (o, said)
}

/// A pipeline cache that is damaged, or written by several processes at a time, costs time but
/// changes no result.
#[test]
fn caches_may_be_damaged_and_shared() {
    let dir = tempfile::tempdir().unwrap();
    let vars = [("ELINVAR_CACHE_DIR", dir.path().to_str().expect("UTF-8"))];
    let suite = ["conformance", "--device", "vulkan:0", "--op", "exp"];
    let files =
        |dir: &Path| -> Vec<_> { std::fs::read_dir(dir).unwrap().map(|f| f.unwrap().path()).collect() };
    let (o, said) = run(&suite, &vars);
    if said.contains("mesa-vulkan-drivers") {
        return println!("skipped: {said}");
    }
    assert!(o.status.success(), "{said}");
    for file in files(dir.path()) {
        std::fs::write(file, b"not a cache").unwrap();
    }
    let both = [0, 1].map(|_| lab(&suite, &vars).stdout(Stdio::null()).spawn().expect("the program starts"));
    for mut child in both {
        assert!(child.wait().unwrap().success());
    }
    // A directory that cannot be written to is treated as none.
    let (o, said) = run(&suite, &[("ELINVAR_CACHE_DIR", "/proc/none")]);
    assert!(o.status.success(), "{said}");
    for file in files(dir.path()) {
        assert!(!file.to_string_lossy().ends_with(".part"), "{}", file.display());
    }
}
