//! SPIR-V of the library's kernels: what the validator says.

use crate::spirv_val::validate;
use crate::vulkan_device::FULL;
use elinvar_core::philox::Stream;
use elinvar_core::{DType, Layout, Precision, Shape};
use elinvar_gpu_kernels::ComputeUnits;
use elinvar_gpu_kernels::conv::{ConvPass, ConvProblem};
use elinvar_gpu_kernels::elementwise::random::{self, StreamSource};
use elinvar_gpu_kernels::elementwise::{fill, map};
use elinvar_gpu_kernels::formula::{FloatFormula, IntFormula};
use elinvar_gpu_kernels::gemm::mma_sync;
use elinvar_gpu_kernels::gemm::{self, CatalogueEpilogue, GemmProblem, SimtTile};
use elinvar_gpu_kernels::index::{gather, nonzero, scatter, sort};
use elinvar_gpu_kernels::launch::LaunchSequence;
use elinvar_gpu_kernels::layout::copy;
use elinvar_gpu_kernels::reduce::plan::ReducePath;
use elinvar_gpu_kernels::reduce::{arg_fold, fold, scan};
use elinvar_gpu_kernels::{attention, conv};
use elinvar_kernel::Kernel;
use elinvar_kernel::emit::spirv::emit;
use elinvar_kernel::ir::MmaShape;
use elinvar_ops::backend::{AddBias, ArgFold, Attention, Conv, Fold, Random, Scan, Scatter};
use elinvar_ops::catalogue::{add::Add, pow::Pow};
use elinvar_ops::map::Compiled;
use std::process::Command;

fn layout(dims: &[usize]) -> Layout {
    Layout::contiguous(Shape::new(dims).expect("small"))
}

/// A kernel of every file of the library, and of every dtype where it matters.
pub fn library() -> Vec<Kernel> {
    let (l, t) = (layout(&[6, 4]), layout(&[4, 6]).transpose(0, 1));
    let e = CatalogueEpilogue(Some(&Compiled::<_, 1>(AddBias)));
    let (pow, add) =
        (FloatFormula(Box::new(Compiled::<_, 2>(Pow))), FloatFormula(Box::new(Compiled::<_, 2>(Add))));
    let int_pow = IntFormula(Box::new(Compiled::<_, 2>(Pow)));
    let mut all = Vec::new();
    for d in DType::ALL {
        all.push(copy::copy(&t, d, DType::F32));
        all.push(copy::copy(&l, DType::F64, d));
        all.push(gather::gather(&l, d, 0, &layout(&[2, 4])));
        if d.is_float() {
            all.push(map::map(&pow, d, &[(&l, d), (&l, DType::Bool)]));
            all.push(map::map(&add, d, &[(&l, d), (&t, d)]));
            let m = layout(&[1, 6, 4]);
            for tile in [SimtTile::PLAIN, SimtTile::SHARED] {
                all.push(gemm::contract(
                    &GemmProblem::new(&e, d, &m, &m.transpose(1, 2), &[(&layout(&[1, 6, 6]), d)]),
                    tile,
                ));
            }
        } else {
            all.push(map::map(&int_pow, d, &[(&l, d), (&l, d)]));
        }
        let to = if d.is_float() { d } else { DType::I64 };
        all.push(fold::fold(Fold::Sum, &layout(&[2, 5000]), d, 1, to, fold::FoldChoice::default()));
        all.push(fold::fold(Fold::Max, &t, d, 1, d, fold::FoldChoice::default()));
        all.push(scan::scan(Scan::Sum, &l, d, to));
        all.push(fill::fill(1.into(), d, 9));
        all.push(copy::copy_into(&t, d, &l));
        for s in [StreamSource::Given(Stream { seed: 1, stream: 2 }), StreamSource::Memory(4)] {
            all.push(random::random(Random::Int { low: 0, high: 2 }, s, d, 9));
        }
    }
    let mut all: Vec<Kernel> = all.into_iter().map(|w| w.expect("there are elements").kernel()).collect();
    all.extend(several().iter().flat_map(|s| &s.steps).map(|s| s.work.kernel()));
    all
}

/// Works of several launches.
fn several() -> Vec<LaunchSequence<'static>> {
    let l = layout(&[2, 700]);
    let (x, w, g) = (layout(&[1, 2, 40, 20]), layout(&[3, 2, 3, 3]), layout(&[1, 3, 40, 20]));
    let c = Conv {
        stride: vec![1, 1],
        padding: vec![1, 1],
        dilation: vec![1, 1],
        groups: 1,
        precision: Precision::Exact,
    };
    let (q, mask, lse) = (layout(&[1, 2, 9, 4]), layout(&[1, 2, 9, 9]), layout(&[1, 2, 9]));
    let a = Attention::exact(0.5, true);
    let mut all = Vec::new();
    for d in DType::ALL {
        all.push(arg_fold::arg_fold(ArgFold::Max, &layout(&[9000]), d, 0, ReducePath::MultiBlock));
        all.push(sort::sort(&l, d, true));
        all.push(nonzero::nonzero(&l, d));
        for how in [Scatter::Set, Scatter::Add] {
            all.push(scatter::scatter(how, d, &l, 1, &l, &l));
        }
        if d.is_float() {
            let tile = SimtTile { group: [8, 8], each: [2, 2], depth: 4, slots: 2 };
            for how in [conv::ConvPath::Direct, conv::ConvPath::ImplicitGemm(tile)] {
                all.push(conv::steps(
                    &ConvProblem::gradient(ConvPass::GradInput, &c, d, [&g, &w], &[40, 20]),
                    how,
                ));
                all.push(conv::steps(
                    &ConvProblem::gradient(ConvPass::GradWeight, &c, d, [&x, &g], &[3, 3]),
                    how,
                ));
            }
            let mask = Some((&mask, d));
            for how in [attention::AttentionPath::Direct, attention::AttentionPath::Smem(48 << 10)] {
                let given = attention::BackwardInputs { q: &q, k: &q, v: &q, o: &q, lse: &lse, g: &q, mask };
                all.push(attention::attention_grad(&a, d, given, how));
            }
        }
    }
    all
}

#[test]
fn the_validator_has_nothing_to_say() {
    for k in &library() {
        let words = emit(k, &FULL).unwrap_or_else(|e| panic!("{e}"));
        match validate(&k.name, &words) {
            Some(said) => assert_eq!(said, "", "{}:\n{}", k.name, elinvar_kernel::text::print(k)),
            None => eprintln!("spirv-val is not installed; {} was emitted and not validated", k.name),
        }
    }
}

/// As much as every device has.
const LIMITS: mma_sync::WorkgroupLimits = mma_sync::WorkgroupLimits {
    invocations: 1024,
    shared: 32 << 10,
    cp_async: false,
    compute_units: ComputeUnits(132),
};

/// Products by tensor cores, as other devices have them.
pub fn units(elem: DType) -> Vec<Kernel> {
    let e = CatalogueEpilogue(Some(&Compiled::<_, 1>(AddBias)));
    let m = layout(&[1, 40, 24]);
    let all = [([8, 8, 8], 8), ([16, 16, 16], 32), ([16, 8, 16], 32)].map(|(shape, lanes)| {
        let unit = MmaShape { elem: elem.into(), shape };
        let tile = mma_sync::MmaTile::of(unit, lanes, 64, [40, 40], LIMITS).expect("it fits");
        let row = layout(&[1, 40, 40]);
        let work = |x, w| mma_sync::contract(&GemmProblem::new(&e, elem, x, w, &[(&row, elem)]), tile);
        let turned = layout(&[1, 24, 40]).transpose(1, 2);
        [work(&m, &m.transpose(1, 2)), work(&turned, &layout(&[1, 24, 40]))]
    });
    all.into_iter().flatten().map(|w| w.expect("there are elements").kernel()).collect()
}

#[test]
fn the_validator_knows_fragments() {
    let version = Command::new("spirv-val").arg("--version").output();
    let version = version.map_or(String::new(), |o| String::from_utf8_lossy(&o.stdout).into_owned());
    let knows = version.split_whitespace().find_map(|w| w.strip_prefix('v')).is_some_and(|v| v >= "2023.6");
    for k in units(DType::F16) {
        let words = emit(&k, &FULL).unwrap_or_else(|e| panic!("{e}"));
        match knows.then(|| validate(&k.name, &words)).flatten() {
            Some(said) => assert_eq!(said, "", "{}:\n{}", k.name, elinvar_kernel::text::print(&k)),
            None => eprintln!("no spirv-val since 2023.6; {} was emitted and not validated", k.name),
        }
    }
}
