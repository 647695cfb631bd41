//! Emitted MSL as C++: compiled by clang with `testing/metal-stdlib`, and run.

use crate::words::{from_words, words};
use elinvar_kernel::Kernel;
use elinvar_kernel::emit::msl::{MslTarget, emit, legal, param_bytes};
use elinvar_kernel::interp::{Launch, Memory};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const CLANG: &str = "clang++-19";
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testing/metal-stdlib");
/// Everything that is said about the text is an error, but that clang does not know Metal's
/// attributes and pragmas, and that results of atomics and loops may be left alone, and that
/// a number is told from NaN by comparing it with itself.
const FLAGS: [&str; 11] = [
    "-std=c++17",
    "-ffp-contract=off",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unknown-attributes",
    "-Wno-unknown-pragmas",
    "-Wno-unused-parameter",
    "-Wno-unused-variable",
    "-Wno-tautological-compare",
    "-Wno-unused-but-set-variable",
];
/// Loads and stores are seen, and integer operations that C++ leaves undefined are traps.
const CHECKS: [&str; 7] = [
    "-O1",
    "-fsanitize=thread",
    "-fsanitize=signed-integer-overflow,shift,integer-divide-by-zero",
    "-fsanitize-trap=signed-integer-overflow,shift,integer-divide-by-zero",
    "-fno-sanitize-recover=all",
    "-mllvm",
    "-tsan-instrument-func-entry-exit=0",
];
/// Of SIMD-groups.
const LANES: u32 = 32;

/// Can texts be compiled here? Otherwise a sentence says why not.
pub fn there() -> bool {
    let version = Command::new(CLANG).arg("--version").stdout(Stdio::null()).status();
    let why = match version {
        Ok(s) if s.success() && cfg!(target_arch = "x86_64") => return true,
        Ok(s) if s.success() => "fibers of testing/metal-stdlib are written for x86-64".to_string(),
        _ => format!("there is no {CLANG}; Debian's package clang-19 has it"),
    };
    println!("skipped: {why}");
    false
}

/// A launch of a kernel for a target, what its buffers hold before, and what they must after.
pub struct Case {
    pub kernel: Kernel,
    pub target: MslTarget,
    pub launch: Launch,
    pub before: Vec<Memory>,
    pub want: Vec<Memory>,
}

/// A kernel as C++ in a namespace of this number.
fn unit(number: usize, kernel: &Kernel, text: &str) -> String {
    // Memory that a threadgroup shares is memory of the program: groups run one after the other.
    let text = text
        .replace("#include <metal_stdlib>\n", "")
        .replace("alignas(16) threadgroup ", "alignas(16) static ");
    let buffers: String = (0..kernel.buffers.len()).map(|i| format!("b[{i}], ")).collect();
    format!(
        "namespace k{number} {{\n{text}\n}}\n\
         static void run{number}(const StandinPointer* b, const void* p, uint3 g, uint3 n, uint3 l, uint i) {{\n  \
         (void)b;\n  k{number}::entry({buffers}*(const k{number}::Params*)p, g, n, l, i);\n}}\n"
    )
}

/// A file of several kernels.
fn file(units: &[String], numbers: impl Iterator<Item = usize>) -> String {
    let mut all = "#include \"metal_stdlib\"\n".to_string();
    units.iter().for_each(|u| all += u);
    all += "extern \"C\" const StandinEntry standin_entries[] = {";
    numbers.for_each(|n| write!(all, "run{n}, ").expect("there is memory"));
    all + "nullptr};\n"
}

/// A folder that is removed at the end.
struct Folder(PathBuf);
impl Folder {
    fn new() -> Folder {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("elinvar-metal-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary directory can be written to");
        Folder(path)
    }
}
impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// # Panics
/// With what clang says, if it is not silent.
fn clang(args: &[&str], files: &[&Path]) {
    let out = Command::new(CLANG).arg(format!("-I{FOLDER}")).args(args).args(files).output();
    let out = out.expect("clang is there");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

/// Parts of about the same length, one for each processor.
fn parts<T>(all: Vec<T>, length: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let count = thread::available_parallelism().map_or(1, usize::from).min(8);
    let mut parts: Vec<(usize, Vec<T>)> = (0..count).map(|_| (0, Vec::new())).collect();
    for item in all {
        let part = parts.iter_mut().min_by_key(|p| p.0).expect("there is a processor");
        part.0 += length(&item);
        part.1.push(item);
    }
    parts.into_iter().map(|p| p.1).filter(|p| !p.is_empty()).collect()
}

/// Texts that clang takes as C++.
///
/// # Panics
/// With what it says, if it does not.
pub fn compile(kernels: Vec<(&Kernel, String)>) {
    let folder = Folder::new();
    thread::scope(|s| {
        for (n, part) in parts(kernels, |(_, text)| text.len()).into_iter().enumerate() {
            let path = folder.0.join(format!("{n}.cpp"));
            s.spawn(move || {
                let units: Vec<String> =
                    part.iter().enumerate().map(|(i, (k, text))| unit(i, k, text)).collect();
                std::fs::write(&path, file(&units, 0..units.len())).expect("the folder is there");
                clang(&[&FLAGS[..], &["-fsyntax-only"]].concat(), &[&path]);
            });
        }
    });
}

/// Runs all cases; gives what each program's buffers hold afterwards, or what it says.
///
/// # Panics
/// If clang does not take a text.
pub fn run(cases: &[Case]) -> Vec<Result<Vec<Memory>, String>> {
    let folder = Folder::new();
    let host = folder.0.join("host.o");
    let source = Path::new(FOLDER).join("host.cpp");
    clang(&[&FLAGS[..], &["-O2", "-c", "-o", host.to_str().expect("a word")]].concat(), &[source.as_path()]);
    // Each text once.
    let mut texts: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (i, case) in cases.iter().enumerate() {
        let text = emit(&case.kernel, &case.target).unwrap_or_else(|e| panic!("{e}"));
        texts.entry(text).or_default().push(i);
    }
    let parts = parts(texts.into_iter().collect(), |(text, _)| text.len());
    let mut results: Vec<Option<Result<Vec<Memory>, String>>> = cases.iter().map(|_| None).collect();
    let done = thread::scope(|s| {
        let running: Vec<_> = (parts.into_iter().enumerate())
            .map(|(n, part)| {
                let (folder, host) = (&folder.0, &host);
                s.spawn(move || run_part(folder, host, n, &part, cases))
            })
            .collect();
        running.into_iter().flat_map(|r| r.join().unwrap_or_else(|e| std::panic::resume_unwind(e))).collect()
    });
    let done: Vec<(usize, Result<Vec<Memory>, String>)> = done;
    done.into_iter().for_each(|(i, result)| results[i] = Some(result));
    results.into_iter().map(|r| r.expect("every case was run")).collect()
}

fn run_part(
    folder: &Path,
    host: &Path,
    n: usize,
    part: &[(String, Vec<usize>)],
    cases: &[Case],
) -> Vec<(usize, Result<Vec<Memory>, String>)> {
    let units: Vec<String> =
        part.iter().enumerate().map(|(i, (text, all))| unit(i, &cases[all[0]].kernel, text)).collect();
    let [source, object, program] = ["cpp", "o", "exe"].map(|word| folder.join(format!("{n}.{word}")));
    std::fs::write(&source, file(&units, 0..units.len())).expect("the folder is there");
    let [to, made] = [&object, &program].map(|p| p.to_str().expect("a word"));
    clang(&[&FLAGS[..], &CHECKS, &["-c", "-o", to]].concat(), &[&source]);
    clang(&["-o", made], &[&object, host]);
    let mut child =
        Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    let order: Vec<(usize, usize)> =
        part.iter().enumerate().flat_map(|(k, (_, all))| all.iter().map(move |&i| (k, i))).collect();
    let mut input = child.stdin.take().expect("it was asked for");
    let said = thread::scope(|s| {
        s.spawn(|| {
            for &(k, i) in &order {
                input.write_all(&message(k as u32, &cases[i])).expect("the program reads");
            }
            drop(input);
        });
        let mut said = Vec::new();
        let mut output = child.stdout.take().expect("it was asked for");
        std::io::Read::read_to_end(&mut output, &mut said).expect("the program writes");
        said
    });
    assert!(child.wait().expect("it was started").success(), "the program ended early");
    let mut said = &said[..];
    order.iter().map(|&(_, i)| (i, answer(&mut said, &cases[i]))).collect()
}

/// The bytes of a buffer: whole words where memory was packed into words.
fn bytes(case: &Case, i: usize) -> Vec<u8> {
    let m = &case.before[i];
    let lowered = legal(&case.kernel, &case.target).expect("it was emitted").buffers[i].elem;
    let len = (m.cells.len() * m.elem.size() as usize).next_multiple_of(lowered.size() as usize);
    let mut all: Vec<u8> = words(m).iter().flat_map(|w| w.to_le_bytes()).collect();
    all.truncate(len);
    all
}

fn message(kernel: u32, case: &Case) -> Vec<u8> {
    let params = param_bytes(&case.launch.params);
    let buffers: Vec<Vec<u8>> = (0..case.before.len()).map(|i| bytes(case, i)).collect();
    let mut head = vec![kernel];
    head.extend(case.launch.groups);
    head.extend(case.kernel.group);
    head.extend([LANES, params.len() as u32, buffers.len() as u32]);
    head.extend(buffers.iter().map(|b| b.len() as u32));
    let mut all: Vec<u8> = head.iter().flat_map(|w| w.to_le_bytes()).collect();
    all.extend(params);
    all.extend(buffers.concat());
    all
}

/// The next bytes.
fn take<'a>(said: &mut &'a [u8], n: usize) -> &'a [u8] {
    let (now, rest) = said.split_at(n);
    *said = rest;
    now
}

fn answer(said: &mut &[u8], case: &Case) -> Result<Vec<Memory>, String> {
    if take(said, 1) == [1] {
        let n = u32::from_le_bytes(take(said, 4).try_into().expect("of four"));
        return Err(String::from_utf8_lossy(take(said, n as usize)).into_owned());
    }
    let memory = (0..case.before.len()).map(|i| {
        let m = &case.before[i];
        let mut all = take(said, bytes(case, i).len()).to_vec();
        all.resize(all.len().next_multiple_of(4), 0);
        let words: Vec<u32> =
            all.chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().expect("of four"))).collect();
        from_words(m.elem, m.cells.len(), &words)
    });
    Ok(memory.collect())
}
