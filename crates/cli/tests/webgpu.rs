//! WebGPU as a user meets it: no adapter, no such device.

#![cfg(feature = "webgpu")]

use std::process::{Command, Stdio};

/// Variables that hide every Vulkan driver, and so every adapter where WebGPU is over Vulkan.
const HIDDEN: [(&str, &str); 2] =
    [("VK_DRIVER_FILES", "/nowhere/none.json"), ("VK_ICD_FILENAMES", "/nowhere/none.json")];

/// The status, and what is printed and said.
fn run(args: &[&str], vars: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let mut c = Command::new(env!("CARGO_BIN_EXE_elinvar"));
    let o = c.args(args).envs(vars.iter().copied()).stdin(Stdio::null()).output();
    let o = o.expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (o.status.code(), text(&o.stdout), text(&o.stderr))
}

#[test]
#[cfg(target_os = "linux")]
fn without_an_adapter_it_says_what_to_install() {
    let (code, _, said) = run(&["train", "digits", "--device", "webgpu:0"], &HIDDEN);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("webgpu: this machine has no adapter; install"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    // The other devices are not disturbed.
    let (code, listed, said) = run(&["devices"], &HIDDEN);
    assert_eq!(code, Some(0), "{said}");
    assert!(listed.contains("no webgpu: ") && !listed.contains("webgpu:0"), "{listed}");
    assert!(listed.contains("cpu") && listed.contains("reference"), "{listed}");
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let (code, _, said) = run(&["train", "digits", "--device", "webgpu:99"], &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("webgpu"), "{said}");
    let (_, _, said) = run(&["train", "digits", "--device", "webgpu:x"], &[]);
    assert!(said.contains("there is no device called \"webgpu:x\""), "{said}");
}
