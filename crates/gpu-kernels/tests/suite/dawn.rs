//! WGSL for Tint, the compiler of Dawn and of Chromium: every text of the library is taken, and a
//! sample runs with the interpreter's bits. Dawn is the module `webgpu` of Node, looked for in
//! `ELINVAR_NODE_MODULES`, or else in `node_modules` at the root of the project.

use crate::backend::{Device, Interpreted};
use crate::wgsl::{BARE, emitted};
use crate::words::{difference, from_words, words};
use elinvar_conformance::Part;
use elinvar_conformance::equal::{Plan, equal};
use elinvar_kernel::Kernel;
use elinvar_kernel::emit::wgsl::{Dialect, Target, param_words};
use elinvar_kernel::interp::{Launch, Memory};
use elinvar_kernel::ir::Access;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// No more than the specification promises, for Tint.
const TINT: Target = Target { dialect: Dialect::Tint, ..BARE };
/// Words of all buffers of a kernel that is run.
const MAX_WORDS: usize = 1 << 15;

/// Kernels that are run, and random calls of each kind of work that they are taken of: a sample, or
/// with `ELINVAR_DAWN` set each that is met.
fn extent() -> (usize, usize) {
    if std::env::var_os("ELINVAR_DAWN").is_some() { (usize::MAX, 24) } else { (48, 2) }
}

/// Is this one of the kernels that `ELINVAR_DAWN` asks for, as K/N the K-th of every N?
fn is_chosen(number: usize) -> bool {
    const VARIABLE: &str = "ELINVAR_DAWN";
    let is_part = std::env::var(VARIABLE).is_ok_and(|text| text.contains('/'));
    !is_part || Part::of_variable(VARIABLE).is_some_and(|part| part.has(number))
}

/// A launch, and the buffers before and after it.
struct Sample {
    text: String,
    data: String,
    want: Vec<Memory>,
}

/// Samples by the name of the kernel, while they are collected.
static SAMPLES: Mutex<Option<BTreeMap<String, Sample>>> = Mutex::new(None);

fn samples() -> MutexGuard<'static, Option<BTreeMap<String, Sample>>> {
    SAMPLES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a launch of a kernel, if samples are collected and this is one more.
pub fn sample(kernel: &Kernel, launch: &Launch, before: &[Memory], want: &[Memory]) {
    let mut all = samples();
    let Some(all) = all.as_mut().filter(|all| all.len() < extent().0 && !all.contains_key(&kernel.name))
    else {
        return;
    };
    let buffers: Vec<Vec<u32>> = before.iter().map(words).collect();
    if buffers.iter().map(Vec::len).sum::<usize>() > MAX_WORDS {
        return;
    }
    let Ok(text) = emitted(kernel, &TINT) else { return };
    let reads: Vec<bool> = kernel.buffers.iter().map(|b| b.access == Access::Read).collect();
    let (groups, params) = (launch.groups, param_words(&launch.params));
    let data = format!(
        "{{\"groups\":{groups:?},\"params\":{params:?},\"reads\":{reads:?},\"buffers\":{buffers:?}}}"
    );
    all.insert(kernel.name.clone(), Sample { text, data, want: want.to_vec() });
}

/// Node's modules, if Dawn is one of them, and Node is there.
fn modules() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../node_modules");
    let modules = std::env::var_os("ELINVAR_NODE_MODULES").map_or(root, PathBuf::from);
    if !modules.join("webgpu").is_dir() {
        return Err(format!("{} has no module `webgpu`; npm install webgpu", modules.display()));
    }
    match Command::new("node").arg("--version").output() {
        Ok(o) if o.status.success() => Ok(modules),
        Ok(o) => Err(format!("node --version: {}", o.status)),
        Err(e) => Err(format!("node: {e}")),
    }
}

#[test]
fn dawn_takes_all_and_runs_a_sample() {
    let modules = match modules() {
        Ok(modules) => modules,
        Err(why) => return println!("skipped: {why}"),
    };
    let dir = tempfile::tempdir().expect("a folder for texts");
    let write = |name: &str, ending: &str, text: &str| {
        std::fs::write(dir.path().join(format!("{name}.{ending}")), text)
            .expect("the folder can be written to");
    };
    for k in &crate::spirv::library() {
        for (word, subgroup) in [("", None), (".lanes", k.subgroup)] {
            if (word.is_empty() || subgroup.is_some())
                && let Ok(text) = emitted(k, &Target { subgroup, ..TINT })
            {
                write(&format!("{}{word}", k.name), "wgsl", &text);
            }
        }
    }
    *samples() = Some(BTreeMap::new());
    let differences = equal::<Interpreted>(
        &Device::default(),
        &Plan { rounds: 0..extent().1, largest: 300, ..Plan::default() },
    );
    assert!(differences.is_empty());
    let all = samples().take().expect("nothing else takes them");
    let all: BTreeMap<String, Sample> =
        all.into_iter().enumerate().filter(|(number, _)| is_chosen(*number)).map(|(_, one)| one).collect();
    for (name, s) in &all {
        write(name, "wgsl", &s.text);
        write(name, "json", &s.data);
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dawn/run.mjs");
    let o = Command::new("node").arg(script).arg(modules).arg(dir.path()).output().expect("node starts");
    let (said, errors) = (String::from_utf8_lossy(&o.stdout), String::from_utf8_lossy(&o.stderr));
    println!("{said}");
    assert!(o.status.success(), "{said}{errors}");
    if said.contains("skipped") {
        return;
    }
    let mut wrong = Vec::new();
    for (name, s) in &all {
        let bytes = std::fs::read(dir.path().join(format!("{name}.out"))).expect("it was run");
        let mut got = bytes.chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().expect("of four")));
        for (i, want) in s.want.iter().enumerate() {
            let words: Vec<u32> = got.by_ref().take(words(want).len()).collect();
            let got = from_words(want.elem, want.cells.len(), &words);
            if let Some(at) = difference(&got, want) {
                let (got, want) = (got.cells[at], want.cells[at]);
                wrong.push(format!("{name}: buffer {i}, element {at} is {got:#x}, not {want:#x}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(all.len() > 20, "{} samples", all.len());
}
