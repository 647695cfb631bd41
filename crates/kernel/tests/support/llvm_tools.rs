//! LLVM's own tools, where they are installed: the verifier of two versions, and clang for AMD's
//! devices, with what the kernels need of them.

use elinvar_kernel::Kernel;
use elinvar_kernel::emit::llvm::{Arch, TRIPLE};
use elinvar_kernel::ir::{Op, Unary};
use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

/// The oldest version that reads the texts, and a new one.
pub const VERSIONS: [u32; 2] = [15, 19];

/// Texts as one module: `main` of the i-th is `main_i`, and so on.
pub fn joined(all: &[String]) -> String {
    let mut declarations = BTreeSet::new();
    let mut module = String::new();
    for (i, text) in all.iter().enumerate() {
        for line in text.lines() {
            if line.starts_with("declare") {
                declarations.insert(line.to_string());
            } else if !line.starts_with("target") && !line.starts_with("!0") {
                let line = line.replace("@main(", &format!("@main_{i}("));
                let line = line.replace("@s", &format!("@k{i}s")).replace(" #0 ", &format!(" #{i} "));
                let line = line.replace("attributes #0 ", &format!("attributes #{i} "));
                module += &line.replace(" !1 ", &format!(" !{} ", i + 1));
                module.push('\n');
            } else if i == 0 && line.starts_with("!0") {
                module += &format!("{line}\n");
            }
        }
    }
    // A definition of metadata begins its line.
    for i in (0..all.len()).rev() {
        if let Some(at) = module.rfind("\n!1 = ") {
            module.replace_range(at + 1..at + 3, &format!("!{}", i + 1));
        }
    }
    let declarations: Vec<String> = declarations.into_iter().collect();
    format!("target triple = \"{TRIPLE}\"\n{}\n{module}", declarations.join("\n"))
}

/// What a program says that gets a text; `None` if it is not installed.
fn piped(program: &str, args: &[&str], text: &str) -> Option<Result<String, String>> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let mut pipe = child.stdin.take().expect("it is a pipe");
    let said = std::thread::scope(|s| {
        // A program that has seen enough ends before all was written.
        s.spawn(move || pipe.write_all(text.as_bytes()).is_ok());
        child.wait_with_output().expect("it was started")
    });
    let words = String::from_utf8_lossy(&said.stderr).into_owned();
    Some(if said.status.success() {
        Ok(String::from_utf8_lossy(&said.stdout).into_owned())
    } else {
        Err(words)
    })
}

/// What the verifier of a version says of a module; `None` if it is not installed.
pub fn verified(version: u32, module: &str) -> Option<Result<(), String>> {
    let said = piped(&format!("opt-{version}"), &["-passes=verify", "-disable-output", "-"], module)?;
    Some(said.map(|_| ()))
}

/// What a kernel needs of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub vector_registers: u32,
    pub scalar_registers: u32,
    /// Vector registers that did not find room, and so are in memory.
    pub spilled: u32,
    /// Scalar registers that did not, and so are in lanes of vector registers.
    pub in_lanes: u32,
    /// Bytes of LDS.
    pub lds: u32,
    /// Lanes of a wave.
    pub wave: u32,
}

/// What the kernels of a module need, as clang-19 says; `None` if it is not installed.
pub fn compiled(arch: Arch, module: &str) -> Option<Result<Vec<Usage>, String>> {
    let target = [format!("--target={TRIPLE}"), format!("-mcpu={}", arch.name())];
    let mut args: Vec<&str> = target.iter().map(String::as_str).collect();
    args.extend([
        "-x",
        "ir",
        "-O2",
        "-ffp-contract=off",
        "-nogpulib",
        "-Wno-override-module",
        "-S",
        "-o",
        "-",
        "-",
    ]);
    Some(piped("clang-19", &args, module)?.map(|text| usages(&text)))
}

/// From the description of kernels at the end of an assembly.
fn usages(text: &str) -> Vec<Usage> {
    let from = text.rfind(".amdgpu_metadata").expect("there is a description");
    let mut all: Vec<Usage> = Vec::new();
    for line in text[from..].lines() {
        let line = line.trim_start();
        // The first key of a kernel has a dash before it.
        if line.starts_with("- .agpr_count") || line.starts_with("- .args") {
            all.push(Usage::default());
        }
        let Some((key, value)) = line.trim_start_matches("- ").split_once(':') else { continue };
        let (Some(u), Ok(value)) = (all.last_mut(), value.trim().parse::<u32>()) else { continue };
        match key {
            ".vgpr_count" => u.vector_registers = value,
            ".sgpr_count" => u.scalar_registers = value,
            ".vgpr_spill_count" => u.spilled = value,
            ".sgpr_spill_count" => u.in_lanes = value,
            ".group_segment_fixed_size" => u.lds = value,
            ".wavefront_size" => u.wave = value,
            _ => {}
        }
    }
    all
}

/// No flag lets the compiler contract, reorder or assume: of the words behind an operation, none is
/// one of these.
pub fn nothing_is_left_open(k: &Kernel, text: &str) {
    let mut has_exp2 = false;
    k.body.each_inst(&mut |inst| has_exp2 |= matches!(inst.op, Op::Unary(Unary::Exp2, _)));
    let flags = [
        "fast", "nnan", "ninf", "nsz", "arcp", "contract", "afn", "reassoc", "nsw", "nuw", "exact",
        "inbounds",
    ];
    for line in text.lines() {
        let open = line.split_whitespace().any(|w| flags.contains(&w)) || line.contains("!fpmath");
        assert!(!open, "{}: {line}", k.name);
        assert!(!line.contains("poison"), "{}: {line}", k.name);
        assert!(has_exp2 || !line.contains("llvm.exp2"), "{}: {line}", k.name);
        assert!(!line.contains("llvm.fmuladd") && !line.contains("llvm.sqrt"), "{}: {line}", k.name);
    }
    assert!(text.contains("\"denormal-fp-math\"=\"ieee,ieee\" \"denormal-fp-math-f32\"=\"ieee,ieee\""));
}
