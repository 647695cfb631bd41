//! MSL of the library's kernels: emitted or refused, compiled as C++, and a sample of each family
//! run with the interpreter's bits.

use crate::backend::{Device, Interpreted};
use crate::gemm;
use crate::metal::{Case, compile, run, there};
use crate::words::difference;
use elinvar_conformance::equal::{Plan, equal};
use elinvar_conformance::twist::Work as Kind;
use elinvar_core::DType;
use elinvar_gpu_kernels::ComputeUnits;
use elinvar_gpu_kernels::attention::AttentionPath;
use elinvar_gpu_kernels::gemm::mma_sync::{self, MmaTile, WorkgroupLimits};
use elinvar_gpu_kernels::gemm::{CatalogueEpilogue, GemmProblem, SimtTile};
use elinvar_gpu_kernels::launch::Work;
use elinvar_kernel::Kernel;
use elinvar_kernel::emit::msl::{MslTarget, emit};
use elinvar_kernel::interp::{self, Launch, Memory};
use elinvar_kernel::ir::MmaShape;
use elinvar_ops::backend::AddBias;
use elinvar_ops::map::Compiled;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// Why kernels are refused.
const REFUSALS: [&str; 4] = [
    "Metal has no 64-bit floats",
    "Metal has no TMA and wgmma",
    "MSL does not say which lane has which number of a fragment",
    "only a part of the workgroup may come here",
];

/// Kernels that are listed elsewhere may share more memory than Apple's GPUs have.
const SHARED: u32 = 64 << 10;
const APPLE: MslTarget = MslTarget { shared: SHARED, ..MslTarget::APPLE };
const EXACT: MslTarget = MslTarget { shared: SHARED, ..MslTarget::EXACT };

/// The text of a kernel, or which of the reasons it is refused for.
///
/// # Panics
/// If it is refused for another one.
fn emitted(k: &Kernel, target: &MslTarget) -> Result<String, &'static str> {
    emit(k, target).map_err(|e| {
        let why = REFUSALS.into_iter().find(|why| e.0.contains(why));
        why.unwrap_or_else(|| panic!("{e}"))
    })
}

/// One of every file and dtype, and products by matrix units.
#[test]
fn every_kernel_is_emitted_or_refused_with_a_reason() {
    let mut all = crate::spirv::library();
    all.extend(products().into_iter().map(|(_, _, work)| work.kernel()));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut texts = Vec::new();
    for (i, k) in all.iter().enumerate() {
        match emitted(k, &APPLE) {
            Ok(text) => {
                *counts.entry("emitted").or_default() += 1;
                texts.push((k, text));
            }
            Err(why) => *counts.entry(why).or_default() += 1,
        }
        // What a device may turn out to do: each is a part of the others' texts.
        let other = [EXACT, MslTarget { shared: SHARED, ..MslTarget::BARE }][i % 2];
        if i % 3 == 0
            && !k.features().fragments
            && let Ok(text) = emitted(k, &other)
        {
            texts.push((k, text));
        }
    }
    println!("{counts:?}");
    assert!(counts["emitted"] > 270, "{counts:?}");
    assert_eq!(counts.len(), 2, "f64 alone is refused: {counts:?}");
    if there() {
        compile(texts);
    }
}

thread_local! {
    /// Launches of this thread, while they are asked for.
    static RECORD: RefCell<Option<Vec<Case>>> = const { RefCell::new(None) };
}

/// Threads of a launch that is run, and bytes of its buffers.
const MAX_THREADS: u64 = 6000;
const MAX_BYTES: usize = 1 << 18;

/// Keeps a launch with what the interpreter gave, if launches are asked for.
pub fn record(kernel: &Kernel, launch: &Launch, before: &[Memory], want: &[Memory]) {
    RECORD.with_borrow_mut(|record| {
        let Some(all) = record else { return };
        let threads: u64 =
            launch.groups.iter().map(|&n| u64::from(n)).product::<u64>() * u64::from(kernel.invocations());
        let bytes: usize = before.iter().map(|m| m.cells.len() * m.elem.size() as usize).sum();
        let known = all.iter().filter(|c| c.kernel.name == kernel.name).count();
        if threads > MAX_THREADS || bytes > MAX_BYTES || known >= 2 {
            return;
        }
        // Most of them as exact devices have them, which is the shortest text.
        let target = match all.len() % 6 {
            _ if kernel.features().fragments => APPLE,
            0 => APPLE,
            1 => MslTarget { subgroup: None, ..EXACT },
            _ => EXACT,
        };
        if emitted(kernel, &target).is_ok() {
            let (before, want) = (before.to_vec(), want.to_vec());
            all.push(Case { kernel: kernel.clone(), target, launch: launch.clone(), before, want });
        }
    });
}

/// The launches of some calls.
fn recorded(calls: impl FnOnce()) -> Vec<Case> {
    RECORD.set(Some(Vec::new()));
    calls();
    RECORD.take().expect("it was just put there")
}

fn same(cases: &[Case]) {
    for (case, got) in cases.iter().zip(run(cases)) {
        let text = || emit(&case.kernel, &case.target).expect("it was emitted");
        let ir = || elinvar_kernel::text::print(&case.kernel);
        let got = got.unwrap_or_else(|e| panic!("{}: {e}\n{}\n{}", case.kernel.name, ir(), text()));
        for (i, (got, want)) in got.iter().zip(&case.want).enumerate() {
            if let Some(at) = difference(got, want) {
                let (got, want) = (got.cells[at], want.cells[at]);
                let name = &case.kernel.name;
                panic!("{name}: buffer {i}, element {at} is {got:#x}, not {want:#x}\n{}\n{}", ir(), text());
            }
        }
    }
}

/// Kinds of work, and how many calls of each.
const FAMILIES: [(&[Kind], usize); 5] = [
    (&[Kind::Map, Kind::MapInt, Kind::Copy, Kind::Fill, Kind::Random, Kind::Assemble, Kind::Update], 5),
    (&[Kind::Fold, Kind::ArgFold, Kind::Rows, Kind::Scan, Kind::Sort], 4),
    (&[Kind::Gather, Kind::Scatter, Kind::Nonzero, Kind::Pool, Kind::AvgPoolGrad], 3),
    (&[Kind::Contract, Kind::Conv, Kind::ConvInputGrad, Kind::ConvWeightGrad], 3),
    (&[Kind::Attention, Kind::AttentionGrad], 2),
];

/// Random calls of every kind of work.
#[test]
fn every_family_has_the_interpreters_bits() {
    if !there() {
        return;
    }
    let plain = Device::default();
    let tiled = Device {
        product: Some(SimtTile { group: [4, 4], each: [2, 2], depth: 4, slots: 2 }),
        attention: Some(AttentionPath::Smem(32 << 10)),
        ..Device::default()
    };
    let cases = recorded(|| {
        for (works, rounds) in FAMILIES {
            for (device, seed) in [(&plain, 0), (&tiled, 1)] {
                let plan = Plan { seed, rounds: 0..rounds, largest: 250, works: works.to_vec() };
                assert!(equal::<Interpreted>(device, &plan).is_empty());
            }
        }
        mma();
    });
    let kernels: BTreeSet<&str> = cases.iter().map(|c| &*c.kernel.name).collect();
    println!("{} launches of {} kernels", cases.len(), kernels.len());
    // Every family of the library is among them, and every kind of statement that threads do not
    // run by themselves.
    let library = crate::spirv::library();
    let emitted: BTreeSet<&str> = library.iter().filter(|k| emitted(k, &APPLE).is_ok()).map(family).collect();
    let run: BTreeSet<&str> = cases.iter().map(|c| family(&c.kernel)).collect();
    let missing: Vec<&&str> = emitted.difference(&run).collect();
    println!("{} of {} families: {run:?}; not {missing:?}", emitted.len() - missing.len(), emitted.len());
    assert!(missing.is_empty(), "{missing:?}");
    let texts: Vec<String> =
        cases.iter().map(|c| emit(&c.kernel, &c.target).expect("it was emitted")).collect();
    for part in TOGETHER {
        let count = texts.iter().filter(|t| t.contains(part)).count();
        println!("{part} in {count} texts");
        assert!(count > 0, "no text has {part}");
    }
    same(&cases);
}

/// What is seen of threads that work together. Functions of SIMD-groups are in no kernel that a
/// Metal device is given: `kernel/tests/suite/msl.rs` runs them.
const TOGETHER: [&str; 6] = [
    "threadgroup_barrier(mem_flags::mem_threadgroup)",
    "threadgroup_barrier(mem_flags::mem_device",
    "alignas(16) threadgroup ",
    "atomic_fetch_",
    "simdgroup_multiply_accumulate(",
    "simdgroup_store(",
];

/// The first word of a kernel's name.
fn family(k: &Kernel) -> &str {
    k.name.split(['_', '-', '.']).next().unwrap_or("")
}

/// Numbers of which no product and no sum is rounded, and products of them by matrix units: of one
/// `simdgroup_matrix`, and of several.
fn products() -> Vec<(gemm::Case, DType, Work<'static>)> {
    let limits = WorkgroupLimits {
        invocations: 1024,
        shared: 32 << 10,
        cp_async: false,
        compute_units: ComputeUnits::default(),
    };
    let mut all = Vec::new();
    for (dtype, terms) in [(DType::F16, 16), (DType::BF16, 16), (DType::F32, 8)] {
        for shape in [[8, 8, 8], [16, 16, terms], [16, 8, terms]] {
            for along in [[true, false], [false, true]] {
                let case = gemm::Case { sizes: [1, 24, 24, 40], along, room: 0, own: true };
                let unit = MmaShape { elem: dtype.into(), shape };
                let tile = MmaTile::of(unit, 32, 1, [24, 40], limits).expect("there is room");
                let [x, w, bias] = case.layouts();
                const EPILOGUE: CatalogueEpilogue<'static> =
                    CatalogueEpilogue(Some(&Compiled::<_, 1>(AddBias)));
                let extra = [(&bias, dtype)];
                let p = GemmProblem::new(&EPILOGUE, dtype, &x, &w, &extra);
                all.push((case, dtype, mma_sync::contract(&p, tile).expect("there are elements")));
            }
        }
    }
    all
}

/// Runs them by the interpreter. Not by way of other targets, which have other shapes.
fn mma() {
    for (case, dtype, work) in products() {
        let kernel = work.kernel();
        let mut buffers: Vec<Memory> =
            case.numbers(dtype, &gemm::whole).iter().map(Memory::from_host).collect();
        let [_, m, _, n] = case.sizes;
        buffers.push(Memory::of(dtype, m * n));
        if let Some(args) = &work.args {
            let elem = kernel.buffers.last().expect("numbers have a buffer").elem;
            buffers.push(Memory { elem, cells: args.iter().map(|c| c.bits).collect() });
        }
        let before = buffers.clone();
        interp::run(&kernel, &work.launch, &mut buffers).unwrap_or_else(|e| panic!("{e}"));
        let got = buffers[3].to_host().expect("it has a dtype");
        assert_eq!(got, case.want(dtype, &gemm::whole), "{dtype}");
        record(&kernel, &work.launch, &before, &buffers);
    }
}
