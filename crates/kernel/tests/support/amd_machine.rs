//! Emitted LLVM IR on this processor: retargeted, compiled by clang-19, and run by
//! `amd_machine.c`, which knows of AMD's devices what their documents say.

use elinvar_kernel::Kernel;
use elinvar_kernel::emit::llvm::{WaveTarget, emit, kernarg};
use elinvar_kernel::interp::{Launch, Memory};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;

/// How texts are compiled: nothing contracts, and fma and conversions of f16 are instructions.
pub const EXACT: [&str; 5] = ["-O2", "-ffp-contract=off", "-mfma", "-mf16c", "-mavx2"];

/// A text that is run.
pub struct Case {
    pub kernel: Kernel,
    pub text: String,
    /// Lanes of a wave.
    pub wave: u32,
    pub launch: Launch,
    pub buffers: Vec<Memory>,
}

impl Case {
    /// A kernel for a target.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn new(
        kernel: &Kernel,
        target: WaveTarget,
        launch: &Launch,
        buffers: &[Memory],
    ) -> Result<Case, String> {
        let text = emit(kernel, target).map_err(|e| e.0)?;
        let (kernel, launch, buffers) = (kernel.clone(), launch.clone(), buffers.to_vec());
        Ok(Case { kernel, text, wave: target.wave, launch, buffers })
    }

    /// What `amd_machine.c` reads.
    fn input(&self) -> Vec<u8> {
        let (places, len) = kernarg(&self.kernel);
        let mut params = vec![0; len];
        let numbers = self.launch.params.iter().map(|p| (p.bits, p.scalar.bits() as usize / 8));
        let counts = self.launch.groups.iter().map(|&n| (u64::from(n), 4));
        for (at, (bits, size)) in places[self.buffers.len()..].iter().zip(numbers.chain(counts)) {
            params[*at..at + size].copy_from_slice(&bits.to_le_bytes()[..size]);
        }
        let data: Vec<Vec<u8>> = self.buffers.iter().map(bytes).collect();
        let mut head = vec![u64::from(self.wave)];
        head.extend(self.kernel.group.iter().chain(&self.launch.groups).map(|&n| u64::from(n)));
        head.extend([data.len() as u64, len as u64]);
        head.extend(data.iter().map(|d| d.len() as u64));
        let head = head.iter().flat_map(|w| w.to_le_bytes());
        head.chain(params).chain(data.into_iter().flatten()).collect()
    }
    fn output(&self, all: &[u8]) -> Vec<Memory> {
        let mut rest = all;
        let read = |old: &Memory| {
            let size = old.elem.size() as usize;
            let (mine, after) = rest.split_at(size * old.cells.len());
            rest = after;
            let cell = |c: &[u8]| c.iter().rev().fold(0, |word, &b| word << 8 | u64::from(b));
            Memory { elem: old.elem, cells: mine.chunks_exact(size).map(cell).collect() }
        };
        self.buffers.iter().map(read).collect()
    }
}

fn bytes(m: &Memory) -> Vec<u8> {
    let size = m.elem.size() as usize;
    m.cells.iter().flat_map(|c| c.to_le_bytes().into_iter().take(size)).collect()
}

/// The words of a matrix instruction, and its number in `amd_machine.c`.
const MATRIX: [(&str, u32); 7] = [
    ("mfma.f32.16x16x16f16", 0),
    ("mfma.f32.16x16x16bf16.1k", 1),
    ("mfma.f32.16x16x4f32", 2),
    ("wmma.f32.16x16x16.f16.v8f32.v16f16", 3),
    ("wmma.f32.16x16x16.bf16.v8f32.v16i16", 4),
    ("wmma.f32.16x16x16.f16.v8f32.v8f16", 5),
    ("wmma.f32.16x16x16.bf16.v8f32.v8i16", 6),
];

/// A declaration for this processor. Operands of matrix instructions go through memory: how vectors
/// of halves are handed over is no business of C.
fn declared(line: &str) -> String {
    let plain = line.replace("@llvm.amdgcn.", "@amdgcn.").replace(" immarg", "");
    let Some((name, number)) = MATRIX.iter().find(|(name, _)| line.contains(&format!(".{name}("))) else {
        return plain;
    };
    let (result, rest) = plain["declare ".len()..].split_once(" @").expect("a name");
    let list = rest.split_once('(').expect("operands").1.trim_end_matches(')');
    let mut types = Vec::new();
    // Vectors hold no commas.
    types.extend(list.split(", "));
    let operands: Vec<String> = types.iter().enumerate().map(|(i, t)| format!("{t} %x{i}")).collect();
    let mut all = format!("define internal {result} @amdgcn.{name}({}) {{\n", operands.join(", "));
    for (i, t) in types[..3].iter().enumerate() {
        let _ = writeln!(all, "  %p{i} = alloca {t}, align 64\n  store {t} %x{i}, ptr %p{i}, align 64");
    }
    let _ = writeln!(all, "  %d = alloca {result}, align 64");
    let _ = writeln!(all, "  call void @amd.matrix(i32 {number}, ptr %p0, ptr %p1, ptr %p2, ptr %d)");
    all + &format!("  %r = load {result}, ptr %d, align 64\n  ret {result} %r\n}}")
}

/// All texts as one module for this processor: `kernels`, a table of functions that take a block of
/// parameters.
fn retargeted(all: &[Case]) -> String {
    let mut declarations = BTreeSet::from(["declare void @amd.matrix(i32, ptr, ptr, ptr, ptr)".to_string()]);
    let mut module = String::new();
    for (i, case) in all.iter().enumerate() {
        for line in case.text.lines() {
            let mut line = line.replace(" addrspace(1)", "").replace(" addrspace(3)", "");
            if line.starts_with("declare") {
                declarations.insert(declared(&line));
                continue;
            }
            if ["target", "attributes", "!"].iter().any(|w| line.starts_with(w)) {
                continue;
            }
            for s in (0..case.kernel.shared.len()).rev() {
                line = line.replace(&format!("@s{s} "), &format!("@k{i}s{s} "));
                line = line.replace(&format!("@s{s},"), &format!("@k{i}s{s},"));
            }
            line = line
                .replace("@llvm.amdgcn.", "@amdgcn.")
                .replace(" amdgpu_kernel void @main(", &format!(" void @k{i}("));
            line = line.replace(" !reqd_work_group_size !1", "");
            module += &line;
            module.push('\n');
        }
        let (places, _) = kernarg(&case.kernel);
        let types = std::iter::repeat_n("ptr", case.kernel.buffers.len())
            .chain(case.kernel.params.iter().map(|p| match p.scalar.name() {
                "f32" => "float",
                "f64" => "double",
                "i64" | "u64" => "i64",
                _ => "i32",
            }))
            .chain(["i32"; 3]);
        let _ = writeln!(module, "define void @run{i}(ptr %block) #0 {{");
        let mut list = Vec::new();
        for (n, (t, at)) in types.zip(places).enumerate() {
            let _ = writeln!(module, "  %a{n} = getelementptr i8, ptr %block, i64 {at}");
            let _ = writeln!(module, "  %x{n} = load {t}, ptr %a{n}, align 4");
            list.push(format!("{t} %x{n}"));
        }
        let _ = writeln!(module, "  call void @k{i}({})\n  ret void\n}}", list.join(", "));
    }
    let table: Vec<String> = (0..all.len()).map(|i| format!("ptr @run{i}")).collect();
    let _ = writeln!(module, "@kernels = constant [{} x ptr] [{}]", all.len(), table.join(", "));
    module += "attributes #0 = { nounwind \"denormal-fp-math\"=\"ieee,ieee\" }\n!0 = !{}\n";
    declarations.into_iter().collect::<Vec<_>>().join("\n") + "\n" + &module
}

/// What each text makes of its buffers, with its invocations in both orders, or what is wrong with
/// it. `None`, and a sentence, where there is no clang-19 or this is another processor.
pub fn run_all(all: &[Case], flags: &[&str]) -> Option<Vec<Result<Vec<Memory>, String>>> {
    if !cfg!(target_arch = "x86_64") || Command::new("clang-19").arg("--version").output().is_err() {
        println!("skipped: LLVM IR is run on x86-64 by clang-19 (apt-get install clang-19 lld-19 llvm-19)");
        return None;
    }
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("elinvar-amd-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("the temporary directory can be written to");
    let [module, machine, program, input, output] =
        ["k.ll", "machine.c", "machine", "input", "output"].map(|name| dir.join(name));
    let text = retargeted(all);
    std::fs::write(&module, &text).expect("the directory can be written to");
    std::fs::write(&machine, include_str!("amd_machine.c")).expect("the directory can be written to");
    let files: [&PathBuf; 2] = [&module, &machine];
    let said = Command::new("clang-19")
        .args(flags)
        .args(["-Wno-override-module", "-lm", "-o"])
        .arg(&program)
        .args(files)
        .output()
        .expect("it was there");
    assert!(said.status.success(), "{}\n{}", String::from_utf8_lossy(&said.stderr), dir.display());
    let mut results = Vec::new();
    for (i, case) in all.iter().enumerate() {
        std::fs::write(&input, case.input()).expect("the directory can be written to");
        let run = |order: &str| {
            let said = Command::new(&program)
                .args([&i.to_string(), order])
                .args([&input, &output])
                .output()
                .map_err(|e| e.to_string())?;
            let words = String::from_utf8_lossy(&said.stderr).into_owned();
            if !said.status.success() {
                return Err(format!("{}: {} {words}", case.kernel.name, said.status));
            }
            Ok(case.output(&std::fs::read(&output).map_err(|e| e.to_string())?))
        };
        results.push(run("0").and_then(|first| {
            let second = run("1")?;
            let same = first == second;
            let differ = || format!("{}: the order of invocations makes a difference", case.kernel.name);
            if same { Ok(first) } else { Err(differ()) }
        }));
    }
    std::fs::remove_dir_all(&dir).expect("it was just written");
    Some(results)
}
