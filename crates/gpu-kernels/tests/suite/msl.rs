//! MSL of the library's kernels: emitted or refused, compiled as C++, and a sample of each family
//! run with the interpreter's bits.

use crate::backend::{Device, Interpreted};
use crate::metal::{Case, compile, run, there};
use crate::words::difference;
use elinvar_conformance::equal::{Plan, equal};
use elinvar_conformance::twist::Work;
use elinvar_core::DType;
use elinvar_gpu_kernels::ComputeUnits;
use elinvar_gpu_kernels::attention::AttentionPath;
use elinvar_gpu_kernels::gemm::mma_sync::{self, MmaTile, WorkgroupLimits};
use elinvar_gpu_kernels::gemm::{CatalogueEpilogue, GemmProblem, SimtTile};
use elinvar_kernel::Kernel;
use elinvar_kernel::emit::msl::{Target, emit};
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

/// The text of a kernel, or which of the reasons it is refused for.
///
/// # Panics
/// If it is refused for another one.
fn emitted(k: &Kernel, target: &Target) -> Result<String, &'static str> {
    emit(k, target).map_err(|e| {
        let why = REFUSALS.into_iter().find(|why| e.0.contains(why));
        why.unwrap_or_else(|| panic!("{e}"))
    })
}

/// One of every file and dtype, and products by matrix units.
#[test]
fn every_kernel_is_emitted_or_refused_with_a_reason() {
    let mut all = crate::spirv::library();
    all.extend([DType::F16, DType::BF16, DType::F32].into_iter().flat_map(crate::spirv::units));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut texts = Vec::new();
    for (i, k) in all.iter().enumerate() {
        match emitted(k, &Target::APPLE) {
            Ok(text) => {
                *counts.entry("emitted").or_default() += 1;
                texts.push((k, text));
            }
            Err(why) => *counts.entry(why).or_default() += 1,
        }
        // What a device may turn out to do: each is a part of the others' texts.
        let other = [Target::EXACT, Target { shared: 64 << 10, ..Target::BARE }][i % 2];
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
            0 => Target::APPLE,
            1 => Target { subgroup: None, shared: 64 << 10, ..Target::EXACT },
            _ => Target::EXACT,
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
const FAMILIES: [(&[Work], usize); 5] = [
    (&[Work::Map, Work::MapInt, Work::Copy, Work::Fill, Work::Random, Work::Assemble, Work::Update], 5),
    (&[Work::Fold, Work::ArgFold, Work::Rows, Work::Scan, Work::Sort], 4),
    (&[Work::Gather, Work::Scatter, Work::Nonzero, Work::Pool, Work::AvgPoolGrad], 3),
    (&[Work::Contract, Work::Conv, Work::ConvInputGrad, Work::ConvWeightGrad], 3),
    (&[Work::Attention, Work::AttentionGrad], 2),
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
                let plan = Plan { seed, rounds, largest: 250, works: works.to_vec() };
                assert!(equal::<Interpreted>(device, &plan).is_empty());
            }
        }
        mma();
    });
    let names: BTreeSet<&str> =
        cases.iter().map(|c| c.kernel.name.split(['_', '-', '.']).next().unwrap_or("")).collect();
    println!("{} launches of {names:?}", cases.len());
    assert!(cases.len() > 60, "{names:?}");
    same(&cases);
}

/// Products by `simdgroup_matrix`, of numbers whose products and sums are exact.
fn mma() {
    let limits = WorkgroupLimits {
        invocations: 1024,
        shared: 32 << 10,
        cp_async: false,
        compute_units: ComputeUnits::default(),
    };
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        let unit = MmaShape { elem: dtype.into(), shape: [8, 8, 8] };
        let case = crate::gemm::Case {
            sizes: [1, 24, 24, 40],
            along: [true, dtype == DType::F16],
            room: 0,
            own: true,
        };
        let tile = MmaTile::of(unit, 32, 1, [24, 40], limits).expect("there is room");
        let ([x, w, bias], numbers) = (case.layouts(), case.numbers(dtype, &crate::gemm::whole));
        let epilogue = CatalogueEpilogue(Some(&Compiled::<_, 1>(AddBias)));
        let extra = [(&bias, dtype)];
        let p = GemmProblem::new(&epilogue, dtype, &x, &w, &extra);
        let work = mma_sync::contract(&p, tile).expect("there are elements");
        // Not by way of other targets, which have other shapes.
        let kernel = work.kernel();
        let mut buffers: Vec<Memory> = numbers.iter().map(Memory::from_host).collect();
        buffers.push(Memory::of(dtype, p.len()));
        if let Some(args) = &work.args {
            let elem = kernel.buffers.last().expect("numbers have a buffer").elem;
            buffers.push(Memory { elem, cells: args.iter().map(|c| c.bits).collect() });
        }
        let before = buffers.clone();
        interp::run(&kernel, &work.launch, &mut buffers).unwrap_or_else(|e| panic!("{e}"));
        let got = buffers[3].to_host().expect("it has a dtype");
        assert_eq!(got, case.want(dtype, &crate::gemm::whole), "{dtype}");
        record(&kernel, &work.launch, &before, &buffers);
    }
}
