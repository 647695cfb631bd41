//! CUDA as a user meets it: no driver, an old one, one that fails; and, on an emulated device, the
//! same bits.

use std::process::{Command, Stdio};

/// Runs the program with the emulated library and these variables: its exit status, output and
/// errors.
fn run(args: &[&str], vars: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let cache = tempfile::tempdir().unwrap();
    let mut c = Command::new(env!("CARGO_BIN_EXE_elinvar-lab"));
    c.env("ELINVAR_CUDA_LIBRARY", emulated_cuda::library().expect("it was built for this test"));
    c.env("ELINVAR_CACHE_DIR", cache.path());
    let o =
        c.args(args).envs(vars.iter().copied()).stdin(Stdio::null()).output().expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (o.status.code(), text(&o.stdout), text(&o.stderr))
}

const SOME: [&str; 5] = ["conformance", "--device", "cuda:0", "--op", "exp"];

#[test]
fn the_first_device_has_the_references_bits() {
    let (status, said, errors) = run(&SOME, &[]);
    assert_eq!(status, Some(0), "{said}{errors}");
    let (_, listed, _) = run(&["devices"], &[]);
    let line = listed.lines().find(|l| l.starts_with("cuda:0")).unwrap_or_else(|| panic!("{listed}"));
    assert!(line.contains("exact") && !line.contains("approximate") && line.contains("software"), "{line}");
}

#[test]
fn what_is_missing_is_one_line() {
    let rows: [(&str, &str, &str, &[&str]); 5] = [
        (
            "ELINVAR_CUDA_LIBRARY",
            "/nowhere/libcuda.so.1",
            "cuda",
            &["cannot be loaded", "nvidia-driver", "ELINVAR_CUDA_LIBRARY"],
        ),
        ("ELINVAR_EMULATED_CUDA_VERSION", "9000", "cuda:0", &["CUDA 9.0", "PTX up to 7.0", "CUDA 11.0"]),
        ("ELINVAR_EMULATED_CUDA_DEVICES", "0", "cuda", &["finds no NVIDIA GPU"]),
        ("ELINVAR_EMULATED_CUDA_CAPABILITY", "61", "cuda", &["compute capability 6.1", "7.5"]),
        ("ELINVAR_EMULATED_CUDA_REFUSE", ".entry", "cuda", &["CUDA_ERROR_INVALID_PTX", "are refused"]),
    ];
    for (name, value, device, parts) in rows {
        let mut args = SOME;
        args[2] = device;
        let (status, said, errors) = run(&args, &[(name, value)]);
        let said = said + &errors;
        assert!(status != Some(0), "{name}={value}");
        for part in parts {
            assert!(said.contains(part), "{name}={value}: {said}\nshould say: {part}");
        }
        // The other devices are listed, and a line says why this one is not.
        let (status, listed, errors) = run(&["devices"], &[(name, value)]);
        assert_eq!(status, Some(0), "{errors}");
        assert!(listed.contains("\nreference ") && !listed.contains("\ncuda:0"), "{listed}");
        let no = if name.ends_with("REFUSE") || name.ends_with("CAPABILITY") {
            "no cuda:0: "
        } else {
            "no cuda: "
        };
        let why: Vec<&str> = listed.lines().filter(|l| l.starts_with(no)).collect();
        assert_eq!(why.len(), 1, "{listed}");
        assert!(why[0].contains(parts[0]), "{listed}");
    }
    // Of several, each has its line.
    let both = [("ELINVAR_EMULATED_CUDA_DEVICES", "2"), ("ELINVAR_EMULATED_CUDA_REFUSE", ".entry")];
    let (status, listed, errors) = run(&["devices"], &both);
    assert_eq!(status, Some(0), "{errors}");
    assert!(listed.contains("\nno cuda:0: ") && listed.contains("\nno cuda:1: "), "{listed}");
}

/// `best` is a discrete GPU if there is one, with its error if that does not work; software devices
/// are not chosen.
#[test]
fn best_is_a_card_that_works() {
    let best = ["conformance", "--device", "best", "--op", "exp"];
    let refuse = ("ELINVAR_EMULATED_CUDA_REFUSE", ".entry");
    let (status, said, errors) = run(&best, &[refuse]);
    assert_eq!(status, Some(0), "the processor: {said}{errors}");
    let card = ("ELINVAR_EMULATED_CUDA_AS", "discrete");
    let (status, said, errors) = run(&best, &[card]);
    assert_eq!(status, Some(0), "{said}{errors}");
    let (status, _, errors) = run(&best, &[card, refuse]);
    assert!(status != Some(0) && errors.contains("CUDA_ERROR_INVALID_PTX"), "{errors}");
}

/// A trace has the device's kernels on its queue, each with the op that it is for.
#[test]
fn a_trace_has_the_kernels() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.json");
    let (status, said, errors) = run(&SOME, &[("ELINVAR_PROFILE", path.to_str().expect("UTF-8"))]);
    assert_eq!(status, Some(0), "{said}{errors}");
    let text = std::fs::read_to_string(&path).unwrap();
    let trace: serde_json::Value = serde_json::from_str(&text).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let queue = events.iter().find(|e| e["name"] == "process_name" && e["args"]["name"] == "cuda:0");
    let queue = queue.unwrap_or_else(|| panic!("{text}"))["pid"].clone();
    let kernels = events.iter().filter(|e| e["cat"] == "kernel");
    assert!(kernels.clone().all(|e| e["pid"] == queue));
    assert!(kernels.clone().any(|e| e["args"]["op"] == "exp"), "{text}");
    assert!(events.iter().any(|e| e["cat"] == "copy" && e["pid"] == queue));
    assert!(events.iter().any(|e| e["ph"] == "C" && e["name"] == "memory of cuda:0"));
}
