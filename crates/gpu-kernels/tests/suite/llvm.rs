//! LLVM IR of the library's kernels: emitted or refused, verified by LLVM 15 and 19, compiled by
//! clang and by AMD's own library, and run on this processor with the interpreter's bits.
//!
//! With `ELINVAR_AMD` set, all kernels are compiled for all architectures, what they need is
//! printed as a table, and every kernel of the suite is run; without, some of them.

use crate::amd_machine::{Case, EXACT, run_all};
use crate::equal::check;
use crate::hip_machine;
use crate::llvm_tools::{Usage, VERSIONS, compiled, joined, nothing_is_left_open, verified};
use crate::mutations;
use crate::spirv::library;
use crate::words::difference;
use elinvar_conformance::twist::Work;
use elinvar_core::{DType, Layout, Shape};
use elinvar_driver::hip;
use elinvar_gpu_kernels::ComputeUnits;
use elinvar_gpu_kernels::gemm::{CatalogueEpilogue, GemmProblem, mma_sync};
use elinvar_kernel::Kernel;
use elinvar_kernel::emit::llvm::{Arch, emit, target};
use elinvar_kernel::interp::{Launch, Memory};
use elinvar_kernel::ir::Elem;
use elinvar_kernel::text::print;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

/// Are all checks made?
fn all_of_it() -> bool {
    std::env::var_os("ELINVAR_AMD").is_some()
}

/// Why kernels are refused.
const REFUSALS: [&str; 6] = [
    "AMD has no TMA and wgmma",
    "has no matrix units",
    "multiplies fragments by waves of",
    "has no fragment.",
    "lanes hold the numbers of a fragment otherwise",
    "bytes of shared memory; a workgroup has 65536 of LDS",
];

/// The text of a kernel, or which of the reasons it is refused for.
///
/// # Panics
/// If it is refused for another one.
fn emitted(k: &Kernel, arch: Arch) -> Result<String, &'static str> {
    let text = emit(k, target(k, arch)).map_err(|e| {
        let why = REFUSALS.into_iter().find(|why| e.0.contains(why));
        why.unwrap_or_else(|| panic!("{e}"))
    })?;
    nothing_is_left_open(k, &text);
    Ok(text)
}

/// Lanes that multiply fragments together.
fn lanes(arch: Arch) -> u32 {
    arch.waves()[0]
}

/// As much as every device has.
const LIMITS: mma_sync::WorkgroupLimits = mma_sync::WorkgroupLimits {
    invocations: 1024,
    shared: 64 << 10,
    cp_async: false,
    compute_units: ComputeUnits(132),
};

/// Products by an architecture's matrix units.
fn units(arch: Arch, [m, k, n]: [usize; 3]) -> Vec<elinvar_gpu_kernels::launch::Work<'static>> {
    const PLAIN: CatalogueEpilogue<'static> = CatalogueEpilogue(None);
    let layout = |dims: &[usize]| Layout::contiguous(Shape::new(dims).expect("small"));
    let mut all = Vec::new();
    for &unit in arch.mma_shapes() {
        let dtype = match unit.elem {
            Elem::F16 => DType::F16,
            Elem::BF16 => DType::BF16,
            _ => DType::F32,
        };
        let tile = mma_sync::MmaTile::of(unit, lanes(arch), 64, [m, n], LIMITS).expect("it fits");
        let straight = (layout(&[1, m, k]), layout(&[1, k, n]));
        let turned = (layout(&[1, k, m]).transpose(1, 2), layout(&[1, n, k]).transpose(1, 2));
        for (x, w) in [straight, turned] {
            let work = mma_sync::contract(&GemmProblem::new(&PLAIN, dtype, &x, &w, &[]), tile);
            all.push(work.expect("there are elements"));
        }
    }
    all
}

/// Vector registers that a kernel may keep in memory: none. But gradients of attention in f64 have
/// more numbers than gfx906 has registers, which has no accumulators beside them; LLVM 19 puts 18
/// aside.
fn may_spill(k: &Kernel, arch: Arch) -> u32 {
    let many = k.name.starts_with("attention_backward") && k.name.contains("f64");
    if many && arch == Arch::Gfx906 { 24 } else { 0 }
}

/// Compiles texts for an architecture, and looks at what they need. Gives those that spill and
/// should not.
///
/// # Panics
/// If one is not taken.
fn table(arch: Arch, kernels: &[(&Kernel, String)], wide: bool) -> Vec<(Usage, String)> {
    let texts: Vec<String> = kernels.iter().map(|(_, text)| text.clone()).collect();
    let mut all: Vec<(Usage, &Kernel)> = Vec::new();
    for (kernels, texts) in kernels.chunks(40).zip(texts.chunks(40)) {
        let Some(said) = compiled(arch, &joined(texts)) else {
            println!("skipped: there is no clang-19 (apt-get install clang-19 lld-19 llvm-19)");
            return Vec::new();
        };
        let usages = said.unwrap_or_else(|e| panic!("{}: {e}", arch.name()));
        assert_eq!(usages.len(), texts.len(), "{}", arch.name());
        all.extend(usages.into_iter().zip(kernels.iter().map(|(k, _)| *k)));
    }
    if wide {
        println!("arch wave vgprs sgprs spilled sgprs_in_lanes lds kernel");
        for (u, k) in &all {
            let Usage { vector_registers, scalar_registers, spilled, in_lanes, lds, wave } = u;
            let arch = arch.name();
            println!(
                "{arch} {wave} {vector_registers} {scalar_registers} {spilled} {in_lanes} {lds} {}",
                k.name
            );
        }
    }
    let worst = all.iter().map(|(u, k)| (u.spilled, u.vector_registers, &k.name)).max();
    println!("{}: {} kernels; most spilled, registers: {worst:?}", arch.name(), all.len());
    assert!(all.iter().all(|(u, _)| arch.waves().contains(&u.wave)), "{}", arch.name());
    let bad = all.into_iter().filter(|(u, k)| u.spilled > may_spill(k, arch));
    bad.map(|(u, k)| (u, format!("{} {}", arch.name(), k.name))).collect()
}

#[test]
fn every_kernel_is_emitted_or_refused() {
    let all = all_of_it();
    let mut kernels = library();
    if all {
        kernels.extend(crate::ptx::hot());
        kernels.extend(crate::ptx::by_tensor_cores());
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut spilling = Vec::new();
    for arch in if all { &Arch::ALL[..] } else { &[Arch::Gfx90a, Arch::Gfx1100] } {
        let by_units: Vec<Kernel> = units(*arch, [40, 24, 40]).iter().map(|w| w.kernel()).collect();
        let mut taken = Vec::new();
        // Texts of architectures differ little: a part of them is enough.
        let step = if all || *arch == Arch::Gfx1100 { 1 } else { 8 };
        for k in kernels.iter().step_by(step).chain(&by_units) {
            match emitted(k, *arch) {
                Ok(text) => taken.push((k, text)),
                Err(why) => *counts.entry(format!("{}: {why}", arch.name())).or_default() += 1,
            }
        }
        *counts.entry(format!("{}: emitted", arch.name())).or_default() += taken.len();
        for version in VERSIONS {
            // LLVM 15 does not know matrix units of RDNA 4.
            let unknown = |text: &str| version == 15 && *arch == Arch::Gfx1201 && text.contains(".wmma.");
            let texts = taken.iter().map(|(_, text)| text.clone()).filter(|text| !unknown(text));
            match verified(version, &joined(&texts.collect::<Vec<_>>())) {
                Some(said) => said.unwrap_or_else(|e| panic!("{}: {e}", arch.name())),
                None => println!("skipped: there is no opt-{version} (apt-get install llvm-{version})"),
            }
        }
        let thinned: Vec<(&Kernel, String)> = taken.into_iter().step_by(if all { 1 } else { 16 }).collect();
        spilling.extend(table(*arch, &thinned, all));
    }
    println!("{counts:#?}");
    assert!(spilling.is_empty(), "{spilling:#?}");
    assert!(counts["gfx1100: emitted"] >= 326, "{counts:#?}");
}

#[test]
fn amds_compiler_takes_what_is_emitted() {
    let (name, isas) = match hip::compiler() {
        Ok(found) => found,
        Err(e) => return println!("skipped: {e}"),
    };
    println!("{name}: {} instruction sets", isas.len());
    let kernels = library();
    for arch in Arch::ALL {
        let isa = format!("{}--{}", elinvar_kernel::emit::llvm::TRIPLE, arch.name());
        if !isas.contains(&isa) {
            let said = hip::compile(&kernels[0], arch).expect_err("it is not known").to_string();
            assert!(said.contains("does not know") && said.contains(arch.name()), "{said}");
            continue;
        }
        if !all_of_it() && !matches!(arch, Arch::Gfx90a | Arch::Gfx1030) {
            continue;
        }
        let by_units: Vec<Kernel> = units(arch, [40, 24, 40]).iter().map(|w| w.kernel()).collect();
        let step = if all_of_it() { 1 } else { 50 };
        for k in kernels.iter().step_by(step).chain(by_units.iter().step_by(step.min(4))) {
            let code = hip::compile(k, arch).unwrap_or_else(|e| panic!("{}: {e}", k.name));
            assert!(code.starts_with(b"\x7fELF"), "{}", k.name);
        }
    }
}

/// A kernel that was run, and the buffers before and after.
struct Run {
    kernel: Kernel,
    launch: Launch,
    before: Vec<Memory>,
    after: Vec<Memory>,
}

thread_local! {
    /// What is run, if a test asked for it.
    static RUNS: RefCell<Option<Vec<Run>>> = const { RefCell::new(None) };
}

/// Invocations of a launch that is run.
const MAX_THREADS: u64 = 4096;

/// Looks at a launch that was interpreted. The first time that a kernel is met, it is run on the
/// emulated device, in waves of both widths; with `ELINVAR_AMD` set, on this processor, too.
pub fn as_llvm(kernel: &Kernel, launch: &Launch, before: &[Memory], after: &[Memory]) {
    static SEEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let threads: u64 =
        launch.groups.iter().map(|&n| u64::from(n)).product::<u64>() * u64::from(kernel.invocations());
    if threads > MAX_THREADS {
        return;
    }
    let one = || Run {
        kernel: kernel.clone(),
        launch: launch.clone(),
        before: before.to_vec(),
        after: after.to_vec(),
    };
    let wanted = RUNS.with_borrow_mut(|runs| runs.as_mut().map(|runs| runs.push(one())).is_some());
    if wanted || !SEEN.lock().expect("no thread panics while it holds the lock").insert(kernel.name.clone()) {
        return;
    }
    for arch in [Arch::Gfx942, Arch::Gfx1100] {
        emulated(&one(), arch);
    }
    if all_of_it() {
        same(&[one()], &[Arch::Gfx942, Arch::Gfx1100]);
    }
}

/// Runs a kernel on the emulated device, unless it is refused: the same bits.
fn emulated(run: &Run, arch: Arch) {
    let Ok(text) = emitted(&run.kernel, arch) else { return };
    let mut got = run.before.clone();
    hip_machine::run(&run.kernel, &text, arch, &run.launch, &mut got)
        .unwrap_or_else(|e| panic!("{}: {e}\n{text}", arch.name()));
    for (i, (got, want)) in got.iter().zip(&run.after).enumerate() {
        if let Some(at) = difference(got, want) {
            let (got, want) = (got.cells[at], want.cells[at]);
            let (name, arch, ir) = (&run.kernel.name, arch.name(), print(&run.kernel));
            panic!("{name}, {arch}: buffer {i}, element {at} is {got:#x}, not {want:#x}\n{ir}\n{text}");
        }
    }
}

/// What is run meanwhile, of each kernel the first launch.
fn recorded(f: impl FnOnce()) -> Vec<Run> {
    RUNS.set(Some(Vec::new()));
    f();
    let mut names = BTreeSet::new();
    let runs = RUNS.take().unwrap_or_default();
    runs.into_iter().filter(|run| names.insert(run.kernel.name.clone())).collect()
}

/// Runs kernels as texts for architectures: the same bits. Gives how many were run.
fn same(runs: &[Run], archs: &[Arch]) -> usize {
    let mut cases = Vec::new();
    let mut wants = Vec::new();
    for run in runs {
        for &arch in archs {
            if let Err(why) = emitted(&run.kernel, arch) {
                println!("{} refused {}: {why}", arch.name(), run.kernel.name);
                continue;
            }
            let case = Case::new(&run.kernel, target(&run.kernel, arch), &run.launch, &run.before);
            cases.push(case.unwrap_or_else(|e| panic!("{e}")));
            wants.push(&run.after);
        }
    }
    if cases.is_empty() {
        return 0;
    }
    let Some(results) = run_all(&cases, &EXACT) else { return 0 };
    for ((result, want), case) in results.into_iter().zip(wants).zip(&cases) {
        let got = result.unwrap_or_else(|e| panic!("{e}\n{}\n{}", print(&case.kernel), case.text));
        for (i, (got, want)) in got.iter().zip(want).enumerate() {
            if let Some(at) = difference(got, want) {
                let (got, want) = (got.cells[at], want.cells[at]);
                let (name, ir) = (&case.kernel.name, print(&case.kernel));
                panic!("{name}: buffer {i}, element {at} is {got:#x}, not {want:#x}\n{ir}\n{}", case.text);
            }
        }
    }
    cases.len()
}

/// Kernels of a family that are run where not all are.
const OF_A_FAMILY: usize = 2;

/// A sample of every family, by waves of 64 and of 32 in turn.
#[test]
fn every_family_has_the_same_bits() {
    let mut runs = Vec::new();
    let device = crate::backend::Device::default();
    let works = [
        Work::Fill,
        Work::Random,
        Work::Copy,
        Work::Update,
        Work::Map,
        Work::MapInt,
        Work::Fold,
        Work::ArgFold,
        Work::Scan,
        Work::Rows,
        Work::Sort,
        Work::Contract,
        Work::Conv,
        Work::ConvInputGrad,
        Work::ConvWeightGrad,
        Work::Pool,
        Work::AvgPoolGrad,
        Work::Gather,
        Work::Scatter,
        Work::Nonzero,
        Work::Attention,
    ];
    for work in works {
        let mut of_family = recorded(|| check(&device, work, 3, 200));
        of_family.truncate(OF_A_FAMILY);
        assert!(!of_family.is_empty(), "{work:?}");
        runs.extend(of_family);
    }
    let (even, odd): (Vec<_>, Vec<_>) = runs.into_iter().enumerate().partition(|(i, _)| i % 2 == 0);
    let plain = |all: Vec<(usize, Run)>| all.into_iter().map(|(_, run)| run).collect::<Vec<Run>>();
    let count = same(&plain(even), &[Arch::Gfx942]) + same(&plain(odd), &[Arch::Gfx1100]);
    println!("{count} kernels were run");
}

/// Kernels with barriers, exchanges and shared memory, and products by matrix units.
#[test]
fn workgroups_have_the_same_bits() {
    let runs = recorded(|| {
        for (work, buffers) in mutations::works() {
            crate::backend::run_work(&work, &mut buffers.clone());
        }
    });
    let count = if all_of_it() { runs.len() } else { 16 };
    same(&runs[..count.min(runs.len())], &[Arch::Gfx942]);
    for run in &runs {
        [Arch::Gfx942, Arch::Gfx1100].into_iter().for_each(|arch| emulated(run, arch));
    }
    for arch in [Arch::Gfx942, Arch::Gfx1100, Arch::Gfx1201] {
        let runs = recorded(|| {
            for work in units(arch, [24, 40, 40]).into_iter().step_by(if all_of_it() { 1 } else { 3 }) {
                let kernel = work.kernel();
                let elems: Vec<Elem> = kernel.buffers.iter().map(|b| b.elem).collect();
                let factor = |elem, n: u64| Memory {
                    elem,
                    cells: (0..n)
                        .map(|i| {
                            let x = ((i * 2_654_435_761) % 1_009) as f32 / 300.0 - 1.5;
                            match elem {
                                Elem::F16 => half::f16::from_f32(x).to_bits().into(),
                                Elem::BF16 => half::bf16::from_f32(x).to_bits().into(),
                                _ => u64::from(x.to_bits()),
                            }
                        })
                        .collect(),
                };
                let mut buffers =
                    vec![factor(elems[0], 960), factor(elems[1], 1600), Memory::zeros(elems[2], 960)];
                crate::backend::run_work(&work, &mut buffers);
            }
        });
        assert!(!runs.is_empty(), "{}", arch.name());
        runs.iter().for_each(|run| emulated(run, arch));
        same(&runs, &[arch]);
    }
}
