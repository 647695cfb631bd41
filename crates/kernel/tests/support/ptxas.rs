//! NVIDIA's assembler, where it is installed, and what every text has to be.

use elinvar_kernel::Kernel;
use elinvar_kernel::emit::ptx::Target;
use elinvar_kernel::ir::{Op, Unary};
use std::process::Command;

/// Later devices than the oldest, with the first version of PTX that knows them.
pub const LATER: [Target; 4] = [
    Target { capability: 80, version: (7, 0), arch_specific: false },
    Target { capability: 90, version: (7, 8), arch_specific: false },
    Target { capability: 100, version: (8, 6), arch_specific: false },
    Target { capability: 120, version: (8, 7), arch_specific: false },
];

/// What a kernel needs of a device, as NVIDIA's assembler says.
#[derive(Debug)]
pub struct Usage {
    pub registers: u32,
    /// Bytes that did not find room in registers.
    pub spilled: u32,
}

impl Usage {
    /// From lines as `0 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads` and `Used 32
    /// registers, ...`.
    fn of(said: &str) -> Usage {
        let before = |word: &str| -> u32 {
            let all = said
                .match_indices(word)
                .filter_map(|(at, _)| said[..at].split_whitespace().last()?.parse().ok());
            all.max().unwrap_or_else(|| panic!("no {word} in {said}"))
        };
        Usage { registers: before("registers"), spilled: before("bytes spill stores") }
    }
}

/// What NVIDIA's assembler makes of a text, or says of it; `None` if it is not there.
/// `ELINVAR_PTXAS` names it, if it is not on the path. With `ELINVAR_PTX_DIR` set, the texts are
/// written there, too, so that its output can be inspected.
pub fn assemble(name: &str, text: &str, target: Target) -> Option<Result<Usage, String>> {
    let ptxas = std::env::var_os("ELINVAR_PTXAS").unwrap_or_else(|| "ptxas".into());
    let path = std::env::temp_dir().join(format!("elinvar-{}-{name}.ptx", std::process::id()));
    std::fs::write(&path, text).expect("the temporary directory can be written to");
    // Hopper's cards are all sm_90a, which takes what is for sm_90.
    let all_of_it = if target.capability == 90 { "a" } else { "" };
    let arch = format!("-arch=sm_{}{all_of_it}", target.capability);
    if let Some(dir) = std::env::var_os("ELINVAR_PTX_DIR") {
        let path = std::path::Path::new(&dir).join(format!("{name}.sm_{}.ptx", target.capability));
        std::fs::write(path, text).expect("the directory can be written to");
    }
    let said = Command::new(ptxas).args([&arch, "-v", "-o", "/dev/null"]).arg(&path).output();
    std::fs::remove_file(&path).expect("it was just written");
    let said = said.ok()?;
    let both = format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    Some(if said.status.success() { Ok(Usage::of(&both)) } else { Err(format!("{both}\n{text}")) })
}

/// Every rounding is written out, and nothing flushes: the compiler may not make an fma of a
/// product and a sum.
pub fn nothing_is_left_open(k: &Kernel, text: &str) {
    let mut has_exp2 = false;
    k.body.each_inst(&mut |inst| has_exp2 |= matches!(inst.op, Op::Unary(Unary::Exp2, _)));
    for line in text.lines() {
        let op = line.split_whitespace().next().unwrap_or("");
        let float = op.ends_with(".f32") || op.ends_with(".f64");
        let rounds =
            ["add", "sub", "mul", "div", "fma", "sqrt"].iter().any(|w| op.starts_with(&format!("{w}.")));
        assert!(!(float && rounds) || op.contains(".rn."), "{}: {line}", k.name);
        // But what a kernel asks for by name.
        let near = op == "ex2.approx.ftz.f32" && has_exp2;
        assert!(near || (!op.contains("ftz") && !op.contains("approx")), "{}: {line}", k.name);
    }
}
