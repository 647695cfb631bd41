//! The header, and a C program that calls all of it.

// The library is built because its tests name it.
use elinvar_c::Status;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The directory of the library, beside the test program.
fn library() -> PathBuf {
    let name = format!("{}elinvar_c{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let program = std::env::current_exe().unwrap();
    let beside = program.parent().unwrap();
    let all = [beside.to_path_buf(), beside.join("deps"), beside.parent().unwrap().to_path_buf()];
    all.into_iter().find(|dir| dir.join(&name).is_file()).expect("it was built for this test")
}

#[test]
fn a_c_program_calls_every_function() {
    let dir = tempfile::tempdir().unwrap();
    let (program, library) = (dir.path().join("program"), library());
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let mut cc = Command::new(&compiler);
    cc.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"]).arg(here().join("include"));
    cc.arg(here().join("tests/program.c")).arg("-o").arg(&program);
    cc.arg("-L").arg(&library).arg("-lelinvar_c").arg(format!("-Wl,-rpath,{}", library.display()));
    match cc.output() {
        Ok(done) => assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr)),
        Err(e) if e.kind() == ErrorKind::NotFound => {
            println!("skipped: there is no C compiler \"{compiler}\"");
            return;
        }
        Err(e) => panic!("{compiler}: {e}"),
    }
    for device in ["cpu", "reference"] {
        let done = Command::new(&program).arg(device).output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success() && said.contains("all is well"), "{device}: {said}");
    }
}

/// Name and number of arguments of every function: what follows `start` up to the closing bracket.
fn functions(text: &str, start: &str) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for (at, _) in text.match_indices(start) {
        let rest = &text[at + start.len()..];
        let (name, rest) = rest.split_once('(').unwrap();
        let arguments = rest.split_once(')').unwrap().0;
        let count = arguments.split(',').filter(|a| !a.trim().is_empty() && a.trim() != "void").count();
        assert!(all.insert(format!("elinvar_{name}"), count).is_none(), "{name} is there twice");
    }
    all
}

#[test]
fn the_header_declares_what_there_is() {
    let header = std::fs::read_to_string(here().join("include/elinvar.h")).unwrap();
    let source = std::fs::read_to_string(here().join("src/sys/mod.rs")).unwrap();
    // In the header a function begins a line.
    let mut declared = functions(&header, "\nint elinvar_");
    declared.extend(functions(&header, "\nconst char *elinvar_"));
    assert_eq!(declared, functions(&source, "extern \"C\" fn elinvar_"));
    let statuses = [
        ("OK", Status::Ok),
        ("UNSUPPORTED", Status::Unsupported),
        ("DEVICE_ERROR", Status::DeviceError),
        ("INVALID_ARGUMENT", Status::InvalidArgument),
        ("OUT_OF_MEMORY", Status::OutOfMemory),
        ("NOT_INITIALIZED", Status::NotInitialized),
        ("PANIC", Status::Panic),
    ];
    for (name, status) in statuses {
        assert!(header.contains(&format!("ELINVAR_{name} = {}", status as i32)), "{name}");
    }
    // Enums are numbered as ours are listed.
    let numbers = |names: Vec<String>| {
        for (i, name) in names.into_iter().enumerate() {
            assert!(header.contains(&format!("ELINVAR_{} = {i}", name.to_uppercase())), "{name}");
        }
    };
    numbers(elinvar_compute::ReduceOp::ALL.iter().map(ToString::to_string).collect());
    numbers(elinvar_compute::UnaryOp::ALL.iter().map(ToString::to_string).collect());
    let binary = elinvar_compute::BinaryOp::ALL.iter().map(|op| match op.to_string().as_str() {
        // The names of a reduction are taken.
        "max" => "maximum".into(),
        "min" => "minimum".into(),
        other => other.to_string(),
    });
    numbers(binary.collect());
}
