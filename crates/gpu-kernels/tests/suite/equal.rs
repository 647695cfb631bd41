//! Every kind of work that the library has, on random shapes, strides, dtypes and values: the
//! reference's bits.

use crate::backend::{Device, Interpreted, run_steps, start};
use elinvar_conformance::equal::{Plan, equal};
use elinvar_conformance::filter::Filter;
use elinvar_conformance::part::Part;
use elinvar_conformance::run::{Outcome, run_beside};
use elinvar_conformance::sample;
use elinvar_conformance::twist::Work;
use elinvar_core::philox::{Stream, unit_f32};
use elinvar_core::{DType, HostData, Layout, Precision, Shape};
use elinvar_gpu_kernels::ComputeUnits;
use elinvar_gpu_kernels::attention::AttentionPath;
use elinvar_gpu_kernels::elementwise::map::{self, MapChoice};
use elinvar_gpu_kernels::formula::{ChainInput, ChainStep, FloatFormula, MapChain};
use elinvar_gpu_kernels::gemm;
use elinvar_gpu_kernels::gemm::{CatalogueEpilogue, GemmProblem};
use elinvar_gpu_kernels::layout::indexing;
use elinvar_gpu_kernels::reduce::block_reduce::{RegisterBudget, RowTile};
use elinvar_ops::View;
use elinvar_ops::backend::ArgFold;
use elinvar_ops::backend::{Compute, Memory};
use elinvar_ops::casting::All;
use elinvar_ops::catalogue::{add::Add, exp::Exp, lt::Lt, mul::Mul};
use elinvar_ops::map::{Compiled, MapObject};
use elinvar_reference::{Reference, ReferenceDevice};

pub fn check(device: &Device, work: Work, rounds: usize, largest: usize) {
    let plan = Plan { rounds: 0..rounds, largest, works: vec![work], ..Plan::default() };
    let differences = equal::<Interpreted>(device, &plan);
    let shown: Vec<&str> = differences.iter().map(|d| d.what.as_str()).collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
}

#[test]
fn maps() {
    check(&Device::default(), Work::Map, 60, 600);
    check(&Device { map: MapChoice { most: 1, wide: false }, ..Device::default() }, Work::Map, 20, 600);
}

#[test]
fn maps_with_numbers_of_64_bits() {
    let map = MapChoice { most: 4, wide: true };
    check(&Device { map, ..Device::default() }, Work::Map, 20, 400);
}

#[test]
fn maps_of_integers() {
    check(&Device::default(), Work::MapInt, 60, 600);
    check(&Device { map: MapChoice { most: 4, wide: true }, ..Device::default() }, Work::MapInt, 20, 600);
}

#[test]
fn folds() {
    check(&Device::default(), Work::Fold, 30, 5000);
    let many = Device { hold: RegisterBudget::Many, ..Device::default() };
    check(&many, Work::Fold, 30, 5000);
    // The lanes of a row in one invocation, in a few, in all; side by side and across.
    for (lanes, rows) in [(1, 3), (2, 1), (16, 4), (64, 2)] {
        for crossed in [false, true] {
            let tile = Some(RowTile { lanes, rows, crossed });
            check(&Device { tile, ..Device::default() }, Work::Fold, 3, 3000);
            check(&Device { tile, ..many.clone() }, Work::Fold, 3, 3000);
        }
    }
}

#[test]
fn row_wise_ops() {
    check(&Device::default(), Work::Rows, 20, 4500);
    check(&Device { hold: RegisterBudget::Many, ..Device::default() }, Work::Rows, 20, 4500);
}

#[test]
fn contractions() {
    let tiles = [
        ([8, 8], [4, 4], 0),
        ([1, 1], [1, 1], 0),
        ([2, 4], [3, 1], 0),
        ([4, 2], [1, 3], 1),
        ([2, 2], [2, 4], 8),
        ([8, 1], [1, 5], 16),
        ([16, 16], [4, 4], 16),
        ([4, 2], [8, 4], 16),
        ([2, 4], [8, 8], 8),
    ];
    check(&Device::default(), Work::Contract, 20, 300);
    for (group, each, depth) in tiles {
        let product = Some(gemm::SimtTile { group, each, depth, slots: 0 });
        check(&Device { product, ..Device::default() }, Work::Contract, 3, 100);
    }
}

#[test]
fn contractions_of_several_chunks() {
    let noise = |n: usize, stream: u64| {
        let s = Stream { seed: 7, stream };
        HostData::F32((0..n as u64).map(|i| unit_f32(s.word(i)) * 2.0 - 1.0).collect())
    };
    let layout = |dims: &[usize]| Layout::contiguous(Shape::new(dims).expect("small"));
    let (m, n) = (3, 5);
    for (k, depth) in [(511, 8), (512, 8), (513, 0), (513, 8), (1030, 16), (1536, 0)] {
        let (x, w) = (noise(m * k, 1), noise(n * k, 2));
        let (xl, wl) = (layout(&[1, m, k]), layout(&[1, n, k]).transpose(1, 2));
        let product = Some(gemm::SimtTile { group: [2, 2], each: [2, 2], depth, slots: 0 });
        let device = Device { product, ..Device::default() };
        let view = |buffer, layout| View { buffer, layout, dtype: DType::F32 };
        let e = Precision::Exact;
        let got =
            Interpreted::contract(&device, e, view(&x, &xl), view(&w, &wl), None, &[]).expect("it runs");
        let same = |buffer, layout| View { buffer, layout, dtype: DType::F32 };
        let want = Reference::contract(&ReferenceDevice, e, same(&x, &xl), same(&w, &wl), None, &[]);
        assert_eq!(got, want.expect("it runs"), "k = {k}, depth {depth}");
    }
}

/// Terms that copies bring while others are computed with: whole chunks and parts, factors that are
/// along and across, tiles beyond the ends. Some products underflow to -0, which padding must not
/// change.
#[test]
fn contractions_by_copies() {
    let noise = |dtype: DType, n: usize, stream: u64| {
        let s = Stream { seed: 9, stream };
        let number = |i: usize| match i % 3 {
            0 => unit_f32(s.word(i as u64)) * 2.0 - 1.0,
            _ => 1e-30 * if stream == 1 { -1.0 } else { 1.0 },
        };
        match dtype {
            DType::F64 => HostData::F64((0..n).map(|i| f64::from(number(i)) * 1e-160).collect()),
            _ => HostData::F32((0..n).map(number).collect()),
        }
    };
    let layout = |dims: &[usize]| Layout::contiguous(Shape::new(dims).expect("small"));
    let (m, n) = (12, 20);
    let tiles = [
        ([2, 2], [2, 2], 8, 3),
        ([2, 4], [4, 4], 4, 2),
        ([4, 8], [2, 4], 8, 4),
        ([8, 8], [4, 2], 16, 2),
        ([4, 16], [1, 1], 8, 3),
    ];
    for (round, k) in [4, 8, 12, 36, 512, 516, 1036].into_iter().enumerate() {
        for (turned, dtype) in (0..4).flat_map(|t| [(t, DType::F32), (t, DType::F64)]) {
            // Long ones take long.
            if k > 100 && (dtype == DType::F64 || turned != round % 4) {
                continue;
            }
            let (x, w) = (noise(dtype, 2 * m * k, 1), noise(dtype, 2 * n * k, 2));
            let side = |lies: bool, rows: usize, columns: usize| {
                if lies { layout(&[2, rows, columns]) } else { layout(&[2, columns, rows]).transpose(1, 2) }
            };
            let (xl, wl) = (side(turned & 1 == 0, m, k), side(turned & 2 == 0, k, n));
            let (group, each, depth, slots) = tiles[(round + turned) % tiles.len()];
            let tile = gemm::SimtTile { group, each, depth, slots };
            let e = CatalogueEpilogue(None);
            let work = gemm::contract(&GemmProblem::new(&e, dtype, &xl, &wl, &[]), tile)
                .expect("there are elements");
            assert!(work.kernel().features().cp_async, "{}", work.kernel().name);
            let device = Device { product: Some(tile), ..Device::default() };
            let view = |buffer, layout| View { buffer, layout, dtype };
            let e = Precision::Exact;
            let got =
                Interpreted::contract(&device, e, view(&x, &xl), view(&w, &wl), None, &[]).expect("it runs");
            let same = |buffer, layout| View { buffer, layout, dtype };
            let want = Reference::contract(&ReferenceDevice, e, same(&x, &xl), same(&w, &wl), None, &[]);
            assert_eq!(got, want.expect("it runs"), "{dtype}, k = {k}, turned {turned}, {tile:?}");
        }
    }
    // Chunks in parallel.
    let tile = gemm::SimtTile { group: [2, 4], each: [2, 2], depth: 8, slots: 3 };
    let (xl, wl) = (layout(&[1, m, 1036]), layout(&[1, 1036, n]));
    let (x, w) = (noise(DType::F32, m * 1036, 1), noise(DType::F32, n * 1036, 2));
    let e = CatalogueEpilogue(None);
    let all = gemm::steps(&GemmProblem::new(&e, DType::F32, &xl, &wl, &[]), tile, ComputeUnits::default());
    assert_eq!(all.steps.len(), 2);
    let got = run_steps(&all, &[&x, &w]).remove(0).to_host().expect("f32");
    let view = |buffer, layout| View { buffer, layout, dtype: DType::F32 };
    let want =
        Reference::contract(&ReferenceDevice, Precision::Exact, view(&x, &xl), view(&w, &wl), None, &[]);
    assert_eq!(got, want.expect("it runs"));
}

#[test]
fn copies_scans_and_gathers() {
    check(&Device::default(), Work::Copy, 40, 400);
    check(&Device::default(), Work::Scan, 15, 2500);
    check(&Device::default(), Work::Gather, 30, 400);
}

#[test]
fn new_tensors() {
    check(&Device::default(), Work::Fill, 30, 3000);
    check(&Device::default(), Work::Random, 60, 3000);
    check(&Device::default(), Work::Assemble, 40, 400);
}

#[test]
fn updates() {
    check(&Device::default(), Work::Update, 30, 2000);
}

#[test]
fn arg_folds() {
    check(&Device::default(), Work::ArgFold, 40, 3000);
    // Long rows, in pieces; elements are often equal.
    for (rows, n) in [(1, 8193), (2, 12288), (3, 20000)] {
        let s = Stream { seed: 5, stream: n };
        let x = HostData::U8((0..rows * n).map(|i| (s.word(i) % 7) as u8).collect());
        let layout = Layout::contiguous(Shape::new(&[rows as usize, n as usize]).expect("small"));
        for f in [ArgFold::Max, ArgFold::Min] {
            let view = View { buffer: &x, layout: &layout, dtype: DType::U8 };
            let got = Interpreted::arg_fold(&Device::default(), f, view, 1).expect("it runs");
            let view = View { buffer: &x, layout: &layout, dtype: DType::U8 };
            let want = Reference::arg_fold(&ReferenceDevice, f, view, 1).expect("it runs");
            assert_eq!(got, want, "{f:?}, {n}");
        }
    }
}

#[test]
fn convolutions() {
    for work in [Work::Conv, Work::ConvInputGrad, Work::ConvWeightGrad] {
        check(&Device::default(), work, 25, 300);
        for (group, each) in [([1, 1], [1, 1]), ([2, 8], [3, 2]), ([8, 1], [1, 5])] {
            let product = Some(gemm::SimtTile { group, each, depth: 0, slots: 0 });
            check(&Device { product, ..Device::default() }, work, 3, 300);
        }
        // Terms that are staged, through registers and by copies.
        for (group, each, depth, slots) in STAGED {
            let product = Some(gemm::SimtTile { group, each, depth, slots });
            check(&Device { product, ..Device::default() }, work, 6, 300);
        }
    }
}

/// Tiles of convolutions whose terms are staged: workgroups of more and of fewer invocations than a
/// step has lines.
const STAGED: [([u32; 2], [u32; 2], u32, u32); 5] = [
    ([2, 2], [2, 4], 8, 0),
    ([4, 4], [4, 2], 4, 3),
    ([4, 8], [1, 4], 8, 2),
    ([8, 8], [2, 2], 8, 3),
    ([2, 4], [3, 5], 4, 4),
];

#[test]
fn pools() {
    check(&Device::default(), Work::Pool, 40, 300);
    check(&Device::default(), Work::AvgPoolGrad, 30, 300);
}

#[test]
fn attentions() {
    check(&Device::default(), Work::Attention, 5, 300);
    check(&Device::default(), Work::AttentionGrad, 3, 300);
    let staged = Device { attention: Some(AttentionPath::Smem(180 << 10)), ..Device::default() };
    check(&staged, Work::Attention, 5, 300);
    check(&staged, Work::AttentionGrad, 3, 300);
}

#[test]
fn scatters_and_nonzeros() {
    check(&Device::default(), Work::Scatter, 60, 400);
    check(&Device::default(), Work::Nonzero, 30, 3000);
}

#[test]
fn sorts() {
    check(&Device::default(), Work::Sort, 40, 3000);
}

/// As for tensors of more than 2^30 elements.
#[test]
fn all_work_with_numbers_of_64_bits() {
    indexing::all_wide(|| {
        for work in [Work::Fill, Work::Random, Work::Assemble, Work::Copy, Work::Update, Work::Map] {
            check(&Device::default(), work, 8, 300);
        }
        for work in [Work::Fold, Work::ArgFold, Work::Scan, Work::Rows, Work::Sort, Work::Contract] {
            check(&Device::default(), work, 6, 600);
        }
        for work in [Work::Conv, Work::ConvInputGrad, Work::ConvWeightGrad, Work::Pool, Work::AvgPoolGrad] {
            check(&Device::default(), work, 5, 200);
        }
        for work in [Work::Gather, Work::Scatter, Work::Nonzero] {
            check(&Device::default(), work, 12, 300);
        }
        for work in [Work::Attention, Work::AttentionGrad] {
            check(&Device::default(), work, 2, 200);
            let staged = Device { attention: Some(AttentionPath::Smem(180 << 10)), ..Device::default() };
            check(&staged, work, 2, 200);
        }
    });
}

/// exp(x * y) < z and then some, in one kernel: a value between two maps is rounded, or is a
/// bool, as if it had been stored.
#[test]
fn a_chain_of_maps_has_the_bits_of_the_maps_one_by_one() {
    let layout = Layout::contiguous(Shape::new(&[7, 5]).expect("small"));
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        let s = |stream| Stream { seed: 3, stream };
        let operands: Vec<HostData> = (0..3)
            .map(|i| {
                let v = (0..35u64).map(|j| unit_f32(s(i).word(j)) * 4.0 - 2.0).collect();
                let f = HostData::F32(v);
                let view = View { buffer: &f, layout: &layout, dtype: DType::F32 };
                Reference::cast::<All>(&ReferenceDevice, view, dtype).expect("it runs")
            })
            .collect();
        let view = |buffer, dtype| View::<Reference> { buffer, layout: &layout, dtype };
        let d = &ReferenceDevice;
        let [x, y, z] = [0, 1, 2].map(|i| &operands[i]);
        let product = Reference::map(d, &Compiled::<_, 2>(Mul), &[view(x, dtype), view(y, dtype)], dtype)
            .expect("it runs");
        let power =
            Reference::map(d, &Compiled::<_, 1>(Exp), &[view(&product, dtype)], dtype).expect("it runs");
        let less = Reference::map(d, &Compiled::<_, 2>(Lt), &[view(&power, dtype), view(z, dtype)], dtype)
            .expect("it runs");
        let want = Reference::map(
            d,
            &Compiled::<_, 2>(Add),
            &[view(&less, DType::Bool), view(&power, dtype)],
            dtype,
        )
        .expect("it runs");

        let (mul, exp) = (&Compiled::<_, 2>(Mul), &Compiled::<_, 1>(Exp));
        let (lt, add) = (&Compiled::<_, 2>(Lt), &Compiled::<_, 2>(Add));
        let formulas: [&dyn MapObject; 4] = [mul, exp, lt, add];
        let [mul, exp, lt, add] = formulas.map(|f| FloatFormula(f.boxed()));
        let steps = vec![
            ChainStep {
                formula: &mul,
                operands: vec![ChainInput::Operand(0), ChainInput::Operand(1)],
                dtype,
            },
            ChainStep { formula: &exp, operands: vec![ChainInput::Step(0)], dtype },
            ChainStep { formula: &lt, operands: vec![ChainInput::Step(1), ChainInput::Operand(2)], dtype },
            ChainStep { formula: &add, operands: vec![ChainInput::Step(2), ChainInput::Step(1)], dtype },
        ];
        let chain = MapChain { steps, compute: dtype.into(), keeps: vec![3, 1] };
        for most in [1, 4] {
            let operands = [(&layout, dtype); 3];
            let choice = MapChoice { most, wide: false };
            let work = map::work(&chain, &chain.outs(), &operands, choice).expect("not empty");
            let got = start(&work, &[x, y, z], &[(dtype, 35), (dtype, 35)]);
            assert_eq!(got, [want.clone(), power.clone()], "{dtype}, {most}");
        }
    }
}

/// The small cases of every op that the conformance suite carries: outputs and gradients. So every
/// formula of the catalogue, and every gradient of one, has been a kernel.
#[test]
fn every_op_of_the_catalogue() {
    let cases = sample::cases(&Filter::default()).expect("the sample is in order");
    let mut failed = Vec::new();
    let of_tests = Part::of_tests();
    for (_, case) in cases.iter().enumerate().filter(|(place, _)| of_tests.has(*place)) {
        match run_beside::<Interpreted, Reference>(case, &Device::default(), &ReferenceDevice) {
            Outcome::Passed | Outcome::Skipped(_) => {}
            Outcome::Failed(why) => failed.push(format!("{}: {why}", case.id)),
        }
    }
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), cases.len(), failed.join("\n"));
}
