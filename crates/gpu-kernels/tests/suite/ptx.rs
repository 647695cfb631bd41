//! PTX of the library's kernels: what the assembler says, what spills, and that nothing is left to
//! the compiler's taste.

use crate::ptxas::{LATER, Usage, assemble, nothing_is_left_open};
use crate::spirv::{library, units};
use elinvar_core::{DType, Layout, Precision, Shape};
use elinvar_gpu_kernels::ComputeUnits;
use elinvar_gpu_kernels::attention;
use elinvar_gpu_kernels::conv::{self, ConvPass, ConvPath, ConvProblem, TensorCores, WorkgroupLimits};
use elinvar_gpu_kernels::gemm::{self, CatalogueEpilogue, GemmProblem, SimtTile, f64_tensor_core as chains};
use elinvar_gpu_kernels::gemm::{mma_sync, tma_wgmma};
use elinvar_kernel::Kernel;
use elinvar_kernel::emit::ptx::{SM75, SM80_MMA, SM90A_WGMMA, Target, emit, target};
use elinvar_kernel::ir::MmaShape;
use elinvar_ops::backend::{Attention, Conv};

/// Bytes that a kernel of the library may have beside registers. Scans of 64-bit integers hold 16
/// of them, and ptxas 13.5 keeps one of sm_75's apart, and of a convolution on tensor cores a
/// number that is needed after its loop; all others have none.
const SPILLED: u32 = 8;

/// The same of convolutions: ptxas 13.5 keeps a few of the numbers apart that come before the loop
/// and are needed after it, so that more workgroups of small tiles fit.
const SPILLED_BEFORE: u32 = 24;

/// The same of kernels of which several workgroups are to fit: the totals of 64 sums wait apart,
/// and what belongs to a chunk alone.
const SPILLED_FOR_ROOM: u32 = 640;

/// Bytes that a kernel may have beside registers, where others may have so many.
fn may_spill(k: &Kernel, others: u32) -> u32 {
    if k.min_blocks_per_sm.is_some() { SPILLED_FOR_ROOM } else { others }
}

/// Bytes that a kernel has beside registers and should not, its registers, its name.
fn beyond(k: &Kernel, usage: &Usage) -> (u32, u32, String) {
    (usage.spilled.saturating_sub(may_spill(k, 0)), usage.registers, k.name.clone())
}

/// Products whose sums fill the registers: large tiles in shared memory.
fn tiled() -> Vec<Kernel> {
    let e = CatalogueEpilogue(None);
    let matrix = Layout::contiguous(Shape::new(&[1, 512, 512]).expect("small"));
    let tile = |each, depth, slots| SimtTile { group: [16, 16], each, depth, slots };
    let mut all = Vec::new();
    let tiles = [
        tile([4, 4], 16, 0),
        tile([8, 4], 16, 0),
        tile([8, 8], 8, 0),
        tile([8, 4], 8, 4),
        tile([8, 8], 8, 3),
        tile([8, 8], 8, 4),
    ];
    for tile in tiles {
        for w in [matrix.clone(), matrix.transpose(1, 2)] {
            let work = gemm::contract(&GemmProblem::new(&e, DType::F32, &matrix, &w, &[]), tile);
            all.push(work.expect("there are elements").kernel());
        }
    }
    all
}

/// Products of f64 on tensor cores: with copies and without, of one chunk and of several, and of
/// chunks in parallel.
fn by_chains() -> Vec<Kernel> {
    let e = CatalogueEpilogue(None);
    let layout = |dims: &[usize]| Layout::contiguous(Shape::new(dims).expect("small"));
    let mut all = Vec::new();
    for tile in chains::F64MmaTile::ALL {
        for (m, k, n) in [(2048, 512, 2048), (2048, 1024, 2048), (2047, 1024, 2047), (64, 2048, 64)] {
            let straight = (layout(&[1, m, k]), layout(&[1, k, n]));
            let turned = (layout(&[1, k, m]).transpose(1, 2), layout(&[1, n, k]).transpose(1, 2));
            for (x, w) in [straight, turned] {
                let steps = chains::steps(
                    &GemmProblem::new(&e, DType::F64, &x, &w, &[]),
                    tile,
                    ComputeUnits::default(),
                );
                all.push(steps.steps[0].work.kernel());
            }
        }
    }
    all
}

/// Kernels that networks spend their time in, but for those by tensor cores.
pub fn hot() -> Vec<Kernel> {
    tiled().into_iter().chain(convolutions()).collect()
}

/// Kernels that are written for tensor cores.
pub fn by_tensor_cores() -> Vec<Kernel> {
    let all = [
        by_chains(),
        convolutions_by_units(),
        large_units(),
        of_boxes(),
        attention_boxes(),
        attention_units(),
    ];
    all.into_iter().flatten().collect()
}

#[test]
fn the_assembler_takes_products_by_chains() {
    for k in by_chains() {
        for capability in [80, 90, 100] {
            let target = target(&k, capability);
            let text = emit(&k, target).unwrap_or_else(|e| panic!("{e}"));
            let word = if capability == 80 { "m8n8k4" } else { "m16n8k8" };
            assert!(text.contains(&format!("mma.sync.aligned.{word}.row.col.f64")), "{}", k.name);
            let Some(usage) = assemble(&k.name, &text, target) else {
                return println!("skipped: there is no ptxas; ELINVAR_PTXAS may name one");
            };
            let usage = usage.unwrap_or_else(|said| panic!("{}: {said}", k.name));
            println!("{} sm_{}: {usage:?}", k.name, target.capability);
        }
    }
}

/// Convolutions as they occur in networks, and their gradients, with terms that come through
/// registers and by copies.
fn convolutions() -> Vec<Kernel> {
    let layout = |dims: &[usize]| Layout::contiguous(Shape::new(dims).expect("small"));
    // n, channels, filters, size, taps, stride, dtype
    let cases = [
        (32, 64, 64, 56, 3, 1, DType::F32),
        (32, 256, 128, 28, 1, 1, DType::F32),
        (32, 3, 64, 112, 7, 2, DType::F32),
        (32, 128, 256, 28, 3, 2, DType::F32),
        (4, 16, 32, 28, 3, 1, DType::F32),
        (8, 64, 64, 28, 3, 1, DType::F64),
        (8, 64, 64, 28, 3, 1, DType::BF16),
    ];
    let mut all = Vec::new();
    // One channel in a group.
    for (taps, stride) in [(3, 1), (3, 2), (7, 1)] {
        let c = Conv { groups: 144, ..square(taps, stride, Precision::Exact) };
        let (x, w) = (layout(&[8, 144, 56, 56]), layout(&[144, 1, taps, taps]));
        let e = &CatalogueEpilogue(None);
        let out = [(56 - 1) / stride + 1; 2];
        let steps =
            conv::steps(&ConvProblem::forward(e, &c, DType::F32, [&x, &w], &out, &[]), ConvPath::Direct);
        all.extend(steps.steps.iter().map(|s| s.work.kernel()));
    }
    for (n, channels, filters, size, taps, stride, dtype) in cases {
        let c = square(taps, stride, Precision::Exact);
        let out = (size - 1) / stride + 1;
        let (x, w) = (layout(&[n, channels, size, size]), layout(&[filters, channels, taps, taps]));
        let g = layout(&[n, filters, out, out]);
        for cp_async in [true, false] {
            let how = ConvPath::Auto(WorkgroupLimits {
                invocations: 1024,
                shared: 48 << 10,
                cp_async,
                compute_units: ComputeUnits::default(),
            });
            let e = &CatalogueEpilogue(None);
            let steps = [
                conv::steps(&ConvProblem::forward(e, &c, dtype, [&x, &w], &[out, out], &[]), how),
                conv::steps(
                    &ConvProblem::gradient(ConvPass::GradInput, &c, dtype, [&g, &w], &[size, size]),
                    how,
                ),
                conv::steps(
                    &ConvProblem::gradient(ConvPass::GradWeight, &c, dtype, [&x, &g], &[taps, taps]),
                    how,
                ),
            ];
            for k in steps.iter().flat_map(|s| &s.steps).map(|s| s.work.kernel()) {
                // Not the sums of chunks, and not a gradient of three rows.
                if k.features().shared > 0 {
                    // Those of 16 bits become f32 on their way.
                    let may_copy = cp_async && dtype != DType::BF16;
                    assert!(may_copy || !k.features().cp_async, "{}", k.name);
                    all.push(k);
                }
            }
        }
    }
    let cp_async = all.iter().filter(|k| k.features().cp_async).count();
    assert!(cp_async > 0 && cp_async < all.len() / 2, "{cp_async} of {}", all.len());
    all
}

/// The same by tensor cores, with what turns operands for them.
fn convolutions_by_units() -> Vec<Kernel> {
    let layout = |dims: &[usize]| Layout::contiguous(Shape::new(dims).expect("small"));
    let cases = [
        (32, 64, 64, 56, 3, 1, DType::BF16),
        (32, 256, 128, 28, 1, 1, DType::F16),
        (32, 3, 64, 112, 7, 2, DType::BF16),
        (32, 128, 256, 28, 3, 2, DType::F32),
        (1, 16, 24, 14, 3, 1, DType::BF16),
    ];
    let mut all = Vec::new();
    for (n, channels, filters, size, taps, stride, dtype) in cases {
        let c = square(taps, stride, Precision::Fast);
        let out = (size - 1) / stride + 1;
        let (x, w) = (layout(&[n, channels, size, size]), layout(&[filters, channels, taps, taps]));
        let g = layout(&[n, filters, out, out]);
        let unit = MmaShape { elem: dtype.into(), shape: [16, 16, if dtype == DType::F32 { 8 } else { 16 }] };
        let limits = WorkgroupLimits {
            invocations: 1024,
            shared: 48 << 10,
            cp_async: true,
            compute_units: ComputeUnits::default(),
        };
        let how = ConvPath::TensorCore(TensorCores { unit, lanes: 32, limits });
        let e = &CatalogueEpilogue(None);
        let steps = [
            conv::steps(&ConvProblem::forward(e, &c, dtype, [&x, &w], &[out, out], &[]), how),
            conv::steps(&ConvProblem::gradient(ConvPass::GradInput, &c, dtype, [&g, &w], &[size, size]), how),
            conv::steps(
                &ConvProblem::gradient(ConvPass::GradWeight, &c, dtype, [&x, &g], &[taps, taps]),
                how,
            ),
        ];
        // A gradient by x of three rows is left to others.
        all.extend(
            steps.iter().flat_map(|s| &s.steps).map(|s| s.work.kernel()).filter(|k| k.subgroup.is_some()),
        );
    }
    assert_eq!(all.len(), 14);
    all
}

#[test]
fn the_assembler_takes_convolutions_by_units() {
    for k in convolutions_by_units() {
        for target in [SM80_MMA, LATER[1], LATER[2], LATER[3]] {
            let text = emit(&k, target).unwrap_or_else(|e| panic!("{e}"));
            assert!(text.contains("mma.sync") && text.contains("cp.async"), "{}", k.name);
            let Some(usage) = assemble(&k.name, &text, target) else {
                return println!("skipped: there is no ptxas; ELINVAR_PTXAS may name one");
            };
            let usage = usage.unwrap_or_else(|said| panic!("{}: {said}", k.name));
            println!("{} sm_{}: {usage:?}", k.name, target.capability);
            assert!(usage.spilled <= SPILLED, "{}", k.name);
        }
    }
}

/// A convolution of two axes that keeps the size, but for the stride.
fn square(taps: usize, stride: usize, precision: Precision) -> Conv {
    Conv { stride: vec![stride; 2], padding: vec![taps / 2; 2], dilation: vec![1; 2], groups: 1, precision }
}

#[test]
fn the_assembler_takes_convolutions() {
    for k in convolutions() {
        for &target in [SM75].iter().chain(&LATER) {
            let text = emit(&k, target).unwrap_or_else(|e| panic!("{e}"));
            nothing_is_left_open(&k, &text);
            let Some(usage) = assemble(&k.name, &text, target) else {
                return println!("skipped: there is no ptxas; ELINVAR_PTXAS may name one");
            };
            let usage = usage.unwrap_or_else(|said| panic!("{}: {said}", k.name));
            println!("{} sm_{}: {usage:?}", k.name, target.capability);
            assert!(usage.spilled <= may_spill(&k, SPILLED_BEFORE), "{}", k.name);
        }
    }
}

/// Large products by tensor cores, whose terms come through registers and by copies.
fn large_units() -> Vec<Kernel> {
    let e = CatalogueEpilogue(None);
    let matrix = Layout::contiguous(Shape::new(&[1, 512, 512]).expect("small"));
    let mut all = Vec::new();
    for (dtype, terms) in [(DType::F16, 16), (DType::BF16, 16), (DType::F32, 8)] {
        let unit = MmaShape { elem: dtype.into(), shape: [16, 16, terms] };
        // As much shared memory as all devices have, and as those have that have copies.
        for (cp_async, shared, count) in [(false, 48 << 10, 4), (true, 99 << 10, 7)] {
            let limits = WorkgroupLimits {
                invocations: 1024,
                shared,
                cp_async,
                compute_units: ComputeUnits::default(),
            };
            let tiles = mma_sync::MmaTile::tried(unit, 32, [512, 512], limits);
            assert_eq!(tiles.len(), count, "{tiles:?}");
            for (_, tile) in tiles {
                for w in [matrix.clone(), matrix.transpose(1, 2)] {
                    let work = mma_sync::contract(&GemmProblem::new(&e, dtype, &matrix, &w, &[]), tile);
                    let k = work.expect("there are elements").kernel();
                    assert_eq!(k.features().cp_async, cp_async, "{}", k.name);
                    all.push(k);
                }
            }
        }
    }
    all
}

/// Products of wgmma: all tiles, factors of all layouts.
fn of_boxes() -> Vec<Kernel> {
    let e = CatalogueEpilogue(None);
    let matrix = Layout::contiguous(Shape::new(&[1, 512, 512]).expect("small"));
    let mut all = Vec::new();
    for (i, tile) in tma_wgmma::WgmmaTile::ALL.into_iter().enumerate() {
        for turned in 0..4 {
            let [x, w] = [turned & 1, turned & 2]
                .map(|turned| if turned == 0 { matrix.clone() } else { matrix.transpose(1, 2) });
            let dtype = if (i + turned) % 2 == 0 { DType::F16 } else { DType::BF16 };
            let work = tma_wgmma::contract(&GemmProblem::new(&e, dtype, &x, &w, &[]), tile);
            all.push(work.expect("it can be done so").kernel());
        }
        let work = tma_wgmma::contract(
            &GemmProblem::new(&e, DType::F32, &matrix, &matrix.transpose(1, 2), &[]),
            tile,
        );
        all.push(work.expect("it can be done so").kernel());
    }
    all
}

/// Attention by TMA tiles, of all widths.
fn attention_boxes() -> Vec<Kernel> {
    let forms = [64, 128].map(|d| [(DType::F16, true, d), (DType::BF16, false, d)]).concat();
    let kernel = |(dtype, causal, d): (DType, bool, usize)| {
        let l = Layout::contiguous(Shape::new(&[1, 4, 512, d]).expect("small"));
        let (a, tile) =
            (Attention::exact(0.125, causal), attention::wgmma_forward::WgmmaAttentionTile::of(d as u32));
        attention::wgmma_forward::attention(&a, dtype, [&l; 3], tile).expect("there are queries").kernel()
    };
    let gradient = |(dtype, causal, d): (DType, bool, usize)| {
        let (l, lse) = ([1, 4, 512, d], [1, 4, 512]);
        let [l, lse] = [&l[..], &lse].map(|dims| Layout::contiguous(Shape::new(dims).expect("small")));
        let given = attention::BackwardInputs { q: &l, k: &l, v: &l, o: &l, lse: &lse, g: &l, mask: None };
        let all = attention::wgmma_backward::attention_grad(&Attention::exact(0.125, causal), dtype, &given);
        all.steps.into_iter().skip(1).map(|s| s.work.kernel()).collect::<Vec<_>>()
    };
    let gradients = forms.iter().copied().flat_map(gradient).collect::<Vec<_>>();
    forms.into_iter().map(kernel).chain(gradients).collect()
}

/// Attention of few queries to many keys: parts of all widths, and the join.
fn attention_parts() -> [Vec<Kernel>; 2] {
    let kernels = |(dtype, d): (DType, usize)| {
        let layout = |l: usize| Layout::contiguous(Shape::new(&[1, 4, l, d]).expect("small"));
        let (q, kv) = (layout(3), layout(2000));
        let all = attention::split_kv::steps(&Attention::exact(0.125, false), dtype, [&q, &kv, &kv]);
        let [part, join] = &all.steps[..] else { panic!("a launch for the parts, and the join") };
        [part.work.kernel(), join.work.kernel()]
    };
    let all = [(DType::F16, 32), (DType::BF16, 64), (DType::F16, 128)].map(kernels);
    let [a, b, c] = all;
    let ([a, x], [b, y], [c, _]) = (a, b, c);
    [vec![a, b, c], vec![x, y]]
}

/// Attention by tensor cores, of all widths.
fn attention_units() -> Vec<Kernel> {
    let forms = [32, 64, 128].map(|d| [(DType::F16, true, d), (DType::BF16, false, d)]).concat();
    let kernel = |(dtype, causal, d)| {
        let l = Layout::contiguous(Shape::new(&[1, 4, 512, d]).expect("small"));
        let a = Attention::exact(0.125, causal);
        attention::mma_forward::attention(&a, dtype, [&l; 3]).expect("there are queries").kernel()
    };
    let gradient = |(dtype, causal, d)| {
        let (l, lse) = ([1, 4, 512, d], [1, 4, 512]);
        let [l, lse] = [&l[..], &lse].map(|dims| Layout::contiguous(Shape::new(dims).expect("small")));
        let given = attention::BackwardInputs { q: &l, k: &l, v: &l, o: &l, lse: &lse, g: &l, mask: None };
        let a = Attention::exact(0.125, causal);
        let all = attention::mma_backward::attention_grad(&a, dtype, &given);
        all.steps.into_iter().skip(1).map(|s| s.work.kernel()).collect::<Vec<_>>()
    };
    let gradients = forms.iter().copied().flat_map(gradient).collect::<Vec<_>>();
    forms.iter().copied().map(kernel).chain(gradients).collect()
}

#[test]
fn the_assembler_takes_every_kernel() {
    let [by_parts, joins] = attention_parts();
    let mut all = library();
    all.extend(joins);
    let mut most = Vec::new();
    for (i, k) in all.iter().enumerate() {
        let text = emit(k, SM75).unwrap_or_else(|e| panic!("{e}"));
        nothing_is_left_open(k, &text);
        // Later devices now and then: the text differs in two lines.
        let others: &[Target] = if i % 25 == 0 { &LATER } else { &[] };
        for &target in [SM75].iter().chain(others) {
            let text = emit(k, target).unwrap_or_else(|e| panic!("{e}"));
            match assemble(&k.name, &text, target) {
                Some(Ok(usage)) => most.push(beyond(k, &usage)),
                Some(Err(said)) => panic!("{}: {said}", k.name),
                None => return println!("skipped: there is no ptxas; ELINVAR_PTXAS may name one"),
            }
        }
    }
    for k in tiled() {
        for &target in [SM75].iter().chain(&LATER) {
            let text = emit(&k, target).unwrap_or_else(|e| panic!("{e}"));
            let usage = assemble(&k.name, &text, target).expect("it was there before");
            let usage = usage.unwrap_or_else(|said| panic!("{}: {said}", k.name));
            println!("{} sm_{}: {usage:?}", k.name, target.capability);
            most.push(beyond(&k, &usage));
        }
    }
    for k in of_boxes().into_iter().chain(attention_boxes()) {
        let text = emit(&k, SM90A_WGMMA).unwrap_or_else(|e| panic!("{e}"));
        nothing_is_left_open(&k, &text);
        assert!(text.contains("wgmma.mma_async") && text.contains("cp.async.bulk.tensor"), "{}", k.name);
        let usage = assemble(&k.name, &text, SM90A_WGMMA).expect("it was there before");
        let usage = usage.unwrap_or_else(|said| panic!("{}: {said}", k.name));
        println!("{} sm_90a: {usage:?}", k.name);
        assert_eq!(usage.spilled, 0, "{}", k.name);
        most.push(beyond(&k, &usage));
    }
    let units = [DType::F16, DType::BF16].into_iter().flat_map(units).filter(|k| k.subgroup == Some(32));
    for k in units.chain(large_units()).chain(attention_units()).chain(by_parts) {
        let text = emit(&k, SM80_MMA).unwrap_or_else(|e| panic!("{e}"));
        nothing_is_left_open(&k, &text);
        // What is staged is loaded a matrix at a time.
        assert!(text.contains("ldmatrix") && text.contains("mma.sync"), "{}", k.name);
        for target in [SM80_MMA, LATER[1], LATER[2], LATER[3]] {
            let text = emit(&k, target).unwrap_or_else(|e| panic!("{e}"));
            let usage = assemble(&k.name, &text, target).expect("it was there before");
            let usage = usage.unwrap_or_else(|said| panic!("{}: {said}", k.name));
            println!("{} sm_{}: {usage:?}", k.name, target.capability);
            most.push(beyond(&k, &usage));
        }
    }
    most.sort();
    most.reverse();
    println!("{} kernels; bytes spilled, registers:\n{:#?}", all.len(), &most[..10]);
    let spilling: Vec<_> = most.iter().filter(|(spilled, ..)| *spilled > SPILLED).collect();
    assert!(spilling.is_empty(), "{spilling:#?}");
}
