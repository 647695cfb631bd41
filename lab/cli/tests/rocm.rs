//! ROCm as a user meets it: no driver, no compiler, an old one, one that fails; and, on emulated
//! devices of both widths of waves, the same bits.

use std::process::{Command, Stdio};

/// Runs the program with the emulated library and these variables: its exit status, output and
/// errors.
fn run(args: &[&str], vars: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let cache = tempfile::tempdir().unwrap();
    let library = emulated_hip::library().expect("it was built for this test");
    let mut c = Command::new(env!("CARGO_BIN_EXE_elinvar-lab"));
    c.env("ELINVAR_HIP_LIBRARY", &library).env("ELINVAR_COMGR_LIBRARY", &library);
    c.env("ELINVAR_CACHE_DIR", cache.path());
    let o =
        c.args(args).envs(vars.iter().copied()).stdin(Stdio::null()).output().expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (o.status.code(), text(&o.stdout), text(&o.stderr))
}

const SOME: [&str; 5] = ["conformance", "--device", "rocm:0", "--op", "exp"];

#[test]
fn devices_of_both_widths_have_the_references_bits() {
    for arch in ["gfx942", "gfx1100"] {
        let vars = [("ELINVAR_EMULATED_HIP_ARCH", arch)];
        let (status, said, errors) = run(&SOME, &vars);
        assert_eq!(status, Some(0), "{arch}: {said}{errors}");
        let (_, listed, _) = run(&["devices"], &vars);
        let line = listed.lines().find(|l| l.starts_with("rocm:0")).unwrap_or_else(|| panic!("{listed}"));
        assert!(line.contains("exact") && line.contains("software") && line.contains(arch), "{line}");
    }
}

#[test]
fn what_is_missing_is_one_line() {
    let rows: [(&str, &str, &[&str]); 6] = [
        (
            "ELINVAR_HIP_LIBRARY",
            "/nowhere/libamdhip64.so.6",
            &["cannot be loaded", "ROCm", "ELINVAR_HIP_LIBRARY"],
        ),
        (
            "ELINVAR_COMGR_LIBRARY",
            "/nowhere/libamd_comgr.so.2",
            &["cannot be loaded", "ELINVAR_COMGR_LIBRARY"],
        ),
        ("ELINVAR_EMULATED_HIP_VERSION", "40300000", &["ROCm 4.3", "5.0 is needed"]),
        ("ELINVAR_EMULATED_HIP_DEVICES", "0", &["finds no AMD GPU"]),
        ("ELINVAR_EMULATED_HIP_ARCH", "gfx803", &["of gfx803", "gfx906"]),
        ("ELINVAR_EMULATED_HIP_REFUSE", "define", &["comgr 2.8 says", "are refused"]),
    ];
    for (name, value, parts) in rows {
        let (status, said, errors) = run(&SOME, &[(name, value)]);
        let said = said + &errors;
        assert!(status != Some(0), "{name}={value}");
        for part in parts {
            assert!(said.contains(part), "{name}={value}: {said}\nshould say: {part}");
        }
        // The other devices are listed, and a line says why this one is not.
        let (status, listed, errors) = run(&["devices"], &[(name, value)]);
        assert_eq!(status, Some(0), "{errors}");
        assert!(listed.contains("\nreference ") && !listed.contains("\nrocm:0"), "{listed}");
        assert!(listed.contains("no rocm"), "{listed}");
    }
}
