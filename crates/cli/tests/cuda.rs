//! CUDA as a user meets it: no such device, too little memory.

use std::process::{Command, Stdio};

/// Runs the program with the emulated library and these variables: its exit status, output and
/// errors.
fn run(args: &[&str], vars: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let cache = tempfile::tempdir().unwrap();
    let mut c = Command::new(env!("CARGO_BIN_EXE_elinvar"));
    c.env("ELINVAR_CUDA_LIBRARY", emulated_cuda::library().expect("it was built for this test"));
    c.env("ELINVAR_CACHE_DIR", cache.path());
    let o =
        c.args(args).envs(vars.iter().copied()).stdin(Stdio::null()).output().expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (o.status.code(), text(&o.stdout), text(&o.stderr))
}

const TRAIN: [&str; 10] =
    ["train", "digits", "--quiet", "--epochs", "1", "--batch", "64", "--device", "cuda", "--out"];

#[test]
fn a_device_that_is_not_there_is_named() {
    let (_, _, said) = run(&["eval", "none.safetensors", "--device", "cuda:7"], &[]);
    assert!(said.trim_end().ends_with("there is no cuda:7; this machine has cuda:0"), "{said}");
    let (_, _, said) = run(&["eval", "none.safetensors", "--device", "cuda:x"], &[]);
    assert!(said.contains("there is no device called \"cuda:x\""), "{said}");
}

/// Steps that are recorded and replayed come to the weights of steps that are not.
#[cfg(feature = "tokenizers")]
#[test]
fn captured_steps_have_the_same_weights() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_owned();
    let text = path("cat.txt");
    std::fs::write(&text, "the cat sat on the mat, and the dog sat on the cat. ".repeat(8)).unwrap();
    let settings = ["--vocab", "256", "--width", "4", "--heads", "1", "--layers", "1", "--context", "4"];
    let train = |out: &str, more: &[&str]| {
        let args = ["train", "text", &text, "--device", "cuda", "--quiet", "--steps", "4", "--batch", "2"];
        let out = path(out);
        let more = [&args, &settings[..], &["--sample", "0", "--out", &out], more].concat();
        let (status, told, said) = run(&more, &[]);
        assert_eq!(status, Some(0), "{said}");
        told.lines().last().map(str::to_owned)
    };
    let plain = train("plain", &[]);
    assert!(plain.as_ref().is_some_and(|line| line.starts_with("weights sha256 ")), "{plain:?}");
    assert_eq!(train("captured", &["--capture"]), plain);
}

/// Memory runs out in the middle of a training: a sentence, and no wrong weights.
#[test]
fn too_little_memory_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let args = [&TRAIN[..], &[dir.path().to_str().expect("UTF-8")]].concat();
    let (status, _, said) = run(&args, &[("ELINVAR_EMULATED_CUDA_MEMORY", "3000000")]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("cuda") && said.contains("CUDA_ERROR_OUT_OF_MEMORY"), "{said}");
}
