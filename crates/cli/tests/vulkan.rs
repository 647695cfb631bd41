//! Vulkan as a user meets it: no driver, no such device.

use std::process::{Command, Output, Stdio};

fn elinvar(args: &[&str], vars: &[(&str, &str)]) -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_elinvar"));
    c.args(args).envs(vars.iter().copied()).stdin(Stdio::null());
    c
}

fn run(args: &[&str], vars: &[(&str, &str)]) -> (Output, String) {
    let o = elinvar(args, vars).output().expect("the program starts");
    let said = String::from_utf8_lossy(&o.stderr).into_owned();
    (o, said)
}

/// Variables that hide every driver from the loader.
const HIDDEN: [(&str, &str); 2] =
    [("VK_DRIVER_FILES", "/nowhere/none.json"), ("VK_ICD_FILENAMES", "/nowhere/none.json")];

#[test]
fn without_a_driver_it_says_what_to_install() {
    let (o, said) = run(&["train", "digits", "--device", "vulkan"], &HIDDEN);
    assert_eq!(o.status.code(), Some(1), "{said}");
    assert!(said.contains("vulkan: ") && said.contains("mesa-vulkan-drivers"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    // The other devices are not disturbed.
    let (o, said) = run(&["devices"], &HIDDEN);
    assert!(o.status.success(), "{said}");
    let listed = String::from_utf8_lossy(&o.stdout).into_owned();
    assert!(
        listed.contains("cpu") && listed.contains("reference") && !listed.contains("vulkan:0"),
        "{listed}"
    );
    assert!(listed.contains("no vulkan: "), "{listed}");
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let (o, said) = run(&["eval", "none.safetensors", "--device", "vulkan:99"], &[]);
    assert_eq!(o.status.code(), Some(1), "{said}");
    assert!(said.contains("vulkan"), "{said}");
    let (_, said) = run(&["train", "digits", "--device", "vulkan:x"], &[]);
    assert!(said.contains("there is no device called \"vulkan:x\""), "{said}");
}
