//! PTX: what the assembler says, what is refused, and that nothing is left to the compiler's taste.

use crate::ptx_machine;
use crate::random::{Dice, kernel};
use crate::spirv::{library, units};
use elinvar_core::{DType, Layout, Precision, Shape};
use elinvar_kernel::Kernel;
use elinvar_kernel::build::Builder;
use elinvar_kernel::emit::ptx::{BOXES, MATRIX_UNITS, OLDEST, Target, emit, target};
use elinvar_kernel::interp::{Launch, Memory, run};
use elinvar_kernel::ir::{Access, Builtin, Elem, Layout as Order, MatrixUnit, Op, Role, Unary};
use elinvar_kernel::library::contract::{self, OfEpilogue, Product, Tile, units as chains};
use elinvar_kernel::library::conv::{self, Asked, How, Limits, Of, Units};
use elinvar_kernel::library::{attention, boxes, matrix_units};
use elinvar_kernel::text::{parse, print};
use elinvar_ops::backend::{Attention, Conv, Plain};
use std::collections::BTreeSet;
use std::process::Command;

/// Later devices than the oldest, with the first version of PTX that knows them.
const LATER: [Target; 4] = [
    Target { capability: 80, version: (7, 0), alone: false },
    Target { capability: 90, version: (7, 8), alone: false },
    Target { capability: 100, version: (8, 6), alone: false },
    Target { capability: 120, version: (8, 7), alone: false },
];

/// What a kernel needs of a device, as NVIDIA's assembler says.
#[derive(Debug)]
struct Usage {
    registers: u32,
    /// Bytes that did not find room in registers.
    spilled: u32,
}

impl Usage {
    /// From lines as `0 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads` and `Used 32 registers, ...`.
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

/// Bytes that a kernel of the library may have beside registers. Scans of 64-bit integers hold 16 of them, and ptxas 13.5 keeps one
/// of sm_75's apart, and of a convolution by units a number that is needed after its loop; all others have none. (Random kernels may have
/// any.)
const SPILLED: u32 = 8;

/// The same of convolutions: ptxas 13.5 keeps a few of the numbers apart that come before the loop and are needed after it, so that
/// more workgroups of small tiles fit.
const SPILLED_BEFORE: u32 = 24;

/// The same of kernels of which several workgroups are to fit: the totals of 64 sums wait apart, and what belongs to a chunk alone.
const SPILLED_FOR_ROOM: u32 = 640;

/// Bytes that a kernel may have beside registers, where others may have so many.
fn may_spill(k: &Kernel, others: u32) -> u32 {
    if k.resident.is_some() { SPILLED_FOR_ROOM } else { others }
}

/// Bytes that a kernel has beside registers and should not, its registers, its name.
fn beyond(k: &Kernel, usage: &Usage) -> (u32, u32, String) {
    (usage.spilled.saturating_sub(may_spill(k, 0)), usage.registers, k.name.clone())
}

/// What NVIDIA's assembler makes of a text, or says of it; `None` if it is not there. `ELINVAR_PTXAS` names it, if it is not on
/// the path. With `ELINVAR_PTX_DIR` set, the texts are written there, too, for whoever wants to see what becomes of them.
fn assemble(name: &str, text: &str, target: Target) -> Option<Result<Usage, String>> {
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

/// Every rounding is written out, and nothing flushes: the compiler may not make an fma of a product and a sum.
fn nothing_is_left_open(k: &Kernel, text: &str) {
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

/// Products whose sums fill the registers: large tiles in shared memory.
fn tiled() -> Vec<Kernel> {
    let e = OfEpilogue::<Plain, 0>(Plain);
    let matrix = Layout::contiguous(Shape::new(&[1, 512, 512]).expect("small"));
    let tile = |each, depth, slots| Tile { group: [16, 16], each, depth, slots };
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
            let work = contract::contract(&Product::new(&e, DType::F32, &matrix, &w, &[]), tile);
            all.push(work.expect("there are elements").kernel());
        }
    }
    all
}

/// Products of f64 by units: with copies and without, of one chunk and of several, and of chunks side by side.
fn by_chains() -> Vec<Kernel> {
    let e = OfEpilogue::<Plain, 0>(Plain);
    let layout = |dims: &[usize]| Layout::contiguous(Shape::new(dims).expect("small"));
    let mut all = Vec::new();
    for tile in chains::Tile::ALL {
        for (m, k, n) in [(2048, 512, 2048), (2048, 1024, 2048), (2047, 1024, 2047), (64, 2048, 64)] {
            let straight = (layout(&[1, m, k]), layout(&[1, k, n]));
            let turned = (layout(&[1, k, m]).transpose(1, 2), layout(&[1, n, k]).transpose(1, 2));
            for (x, w) in [straight, turned] {
                let steps = chains::steps(&Product::new(&e, DType::F64, &x, &w, &[]), tile);
                all.push(steps.steps[0].work.kernel());
            }
        }
    }
    all
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

/// Convolutions as they occur in networks, and their gradients, with terms that come through registers and by copies.
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
        let e = &OfEpilogue::<Plain, 0>(Plain);
        let out = [(56 - 1) / stride + 1; 2];
        let steps = conv::steps(&Asked::forward(e, &c, DType::F32, [&x, &w], &out, &[]), How::Plain);
        all.extend(steps.steps.iter().map(|s| s.work.kernel()));
    }
    for (n, channels, filters, size, taps, stride, dtype) in cases {
        let c = square(taps, stride, Precision::Exact);
        let out = (size - 1) / stride + 1;
        let (x, w) = (layout(&[n, channels, size, size]), layout(&[filters, channels, taps, taps]));
        let g = layout(&[n, filters, out, out]);
        for asynchronous in [true, false] {
            let how = How::Within(Limits { invocations: 1024, shared: 48 << 10, asynchronous });
            let e = &OfEpilogue::<Plain, 0>(Plain);
            let steps = [
                conv::steps(&Asked::forward(e, &c, dtype, [&x, &w], &[out, out], &[]), how),
                conv::steps(&Asked::gradient(Of::Input, &c, dtype, [&g, &w], &[size, size]), how),
                conv::steps(&Asked::gradient(Of::Weight, &c, dtype, [&x, &g], &[taps, taps]), how),
            ];
            for k in steps.iter().flat_map(|s| &s.steps).map(|s| s.work.kernel()) {
                // Not the sums of chunks, and not a gradient of three rows.
                if k.features().shared > 0 {
                    // Those of 16 bits become f32 on their way.
                    let may_copy = asynchronous && dtype != DType::BF16;
                    assert!(may_copy || !k.features().copies, "{}", k.name);
                    all.push(k);
                }
            }
        }
    }
    let copies = all.iter().filter(|k| k.features().copies).count();
    assert!(copies > 0 && copies < all.len() / 2, "{copies} of {}", all.len());
    all
}

/// The same by matrix units, with what turns operands for them.
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
        let unit =
            MatrixUnit { elem: dtype.into(), shape: [16, 16, if dtype == DType::F32 { 8 } else { 16 }] };
        let limits = Limits { invocations: 1024, shared: 48 << 10, asynchronous: true };
        let how = How::Fast(Units { unit, lanes: 32, limits });
        let e = &OfEpilogue::<Plain, 0>(Plain);
        let steps = [
            conv::steps(&Asked::forward(e, &c, dtype, [&x, &w], &[out, out], &[]), how),
            conv::steps(&Asked::gradient(Of::Input, &c, dtype, [&g, &w], &[size, size]), how),
            conv::steps(&Asked::gradient(Of::Weight, &c, dtype, [&x, &g], &[taps, taps]), how),
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
        for target in [MATRIX_UNITS, LATER[1], LATER[2], LATER[3]] {
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
        for &target in [OLDEST].iter().chain(&LATER) {
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

/// Large products by matrix units, whose terms come through registers and by copies.
fn large_units() -> Vec<Kernel> {
    let e = OfEpilogue::<Plain, 0>(Plain);
    let matrix = Layout::contiguous(Shape::new(&[1, 512, 512]).expect("small"));
    let mut all = Vec::new();
    for (dtype, terms) in [(DType::F16, 16), (DType::BF16, 16), (DType::F32, 8)] {
        let unit = MatrixUnit { elem: dtype.into(), shape: [16, 16, terms] };
        // As much shared memory as all devices have, and as those have that have copies.
        for (asynchronous, shared, count) in [(false, 48 << 10, 4), (true, 99 << 10, 7)] {
            let limits = Limits { invocations: 1024, shared, asynchronous };
            let tiles = matrix_units::Tile::tried(unit, 32, [512, 512], limits);
            assert_eq!(tiles.len(), count, "{tiles:?}");
            for (_, tile) in tiles {
                for w in [matrix.clone(), matrix.transpose(1, 2)] {
                    let work = matrix_units::contract(&Product::new(&e, dtype, &matrix, &w, &[]), tile);
                    let k = work.expect("there are elements").kernel();
                    assert_eq!(k.features().copies, asynchronous, "{}", k.name);
                    all.push(k);
                }
            }
        }
    }
    all
}

/// Products of boxes: all tiles, factors that lie in all ways.
fn of_boxes() -> Vec<Kernel> {
    let e = OfEpilogue::<Plain, 0>(Plain);
    let matrix = Layout::contiguous(Shape::new(&[1, 512, 512]).expect("small"));
    let mut all = Vec::new();
    for (i, tile) in boxes::Tile::ALL.into_iter().enumerate() {
        for turned in 0..4 {
            let [x, w] = [turned & 1, turned & 2]
                .map(|turned| if turned == 0 { matrix.clone() } else { matrix.transpose(1, 2) });
            let dtype = if (i + turned) % 2 == 0 { DType::F16 } else { DType::BF16 };
            let work = boxes::contract(&Product::new(&e, dtype, &x, &w, &[]), tile);
            all.push(work.expect("it can be done so").kernel());
        }
        let work =
            boxes::contract(&Product::new(&e, DType::F32, &matrix, &matrix.transpose(1, 2), &[]), tile);
        all.push(work.expect("it can be done so").kernel());
    }
    all
}

/// Attention by boxes, of all widths.
fn attention_boxes() -> Vec<Kernel> {
    let forms = [64, 128].map(|d| [(DType::F16, true, d), (DType::BF16, false, d)]).concat();
    let kernel = |(dtype, causal, d): (DType, bool, usize)| {
        let l = Layout::contiguous(Shape::new(&[1, 4, 512, d]).expect("small"));
        let (a, tile) = (Attention::exact(0.125, causal), attention::boxes::Tile::of(d as u32));
        attention::boxes::attention(&a, dtype, [&l; 3], tile).expect("there are queries").kernel()
    };
    let gradient = |(dtype, causal, d): (DType, bool, usize)| {
        let (l, lse) = ([1, 4, 512, d], [1, 4, 512]);
        let [l, lse] = [&l[..], &lse].map(|dims| Layout::contiguous(Shape::new(dims).expect("small")));
        let given = attention::Given { q: &l, k: &l, v: &l, o: &l, lse: &lse, g: &l, mask: None };
        let all = attention::boxes_grad::attention_grad(&Attention::exact(0.125, causal), dtype, &given);
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
        let all = attention::parts::steps(&Attention::exact(0.125, false), dtype, [&q, &kv, &kv]);
        let [part, join] = &all.steps[..] else { panic!("a launch for the parts, and the join") };
        [part.work.kernel(), join.work.kernel()]
    };
    let all = [(DType::F16, 32), (DType::BF16, 64), (DType::F16, 128)].map(kernels);
    let [a, b, c] = all;
    let ([a, x], [b, y], [c, _]) = (a, b, c);
    [vec![a, b, c], vec![x, y]]
}

/// Attention by matrix units, of all widths.
fn attention_units() -> Vec<Kernel> {
    let forms = [32, 64, 128].map(|d| [(DType::F16, true, d), (DType::BF16, false, d)]).concat();
    let kernel = |(dtype, causal, d)| {
        let l = Layout::contiguous(Shape::new(&[1, 4, 512, d]).expect("small"));
        let a = Attention::exact(0.125, causal);
        attention::units::attention(&a, dtype, [&l; 3]).expect("there are queries").kernel()
    };
    let gradient = |(dtype, causal, d)| {
        let (l, lse) = ([1, 4, 512, d], [1, 4, 512]);
        let [l, lse] = [&l[..], &lse].map(|dims| Layout::contiguous(Shape::new(dims).expect("small")));
        let given = attention::Given { q: &l, k: &l, v: &l, o: &l, lse: &lse, g: &l, mask: None };
        let a = Attention::exact(0.125, causal);
        let all = attention::units_grad::attention_grad(&a, dtype, &given);
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
    all.extend((0..60).map(|seed| kernel(&mut Dice::new(seed))));
    let mut most = Vec::new();
    for (i, k) in all.iter().enumerate() {
        let text = emit(k, OLDEST).unwrap_or_else(|e| panic!("{e}"));
        nothing_is_left_open(k, &text);
        // Later devices now and then: the text differs in two lines.
        let others: &[Target] = if i % 25 == 0 { &LATER } else { &[] };
        for &target in [OLDEST].iter().chain(others) {
            let text = emit(k, target).unwrap_or_else(|e| panic!("{e}"));
            match assemble(&k.name, &text, target) {
                Some(Ok(usage)) => most.push(beyond(k, &usage)),
                Some(Err(said)) => panic!("{}: {said}", k.name),
                None => return println!("skipped: there is no ptxas; ELINVAR_PTXAS may name one"),
            }
        }
    }
    for k in tiled() {
        for &target in [OLDEST].iter().chain(&LATER) {
            let text = emit(&k, target).unwrap_or_else(|e| panic!("{e}"));
            let usage = assemble(&k.name, &text, target).expect("it was there before");
            let usage = usage.unwrap_or_else(|said| panic!("{}: {said}", k.name));
            println!("{} sm_{}: {usage:?}", k.name, target.capability);
            most.push(beyond(&k, &usage));
        }
    }
    for k in of_boxes().into_iter().chain(attention_boxes()) {
        let text = emit(&k, BOXES).unwrap_or_else(|e| panic!("{e}"));
        nothing_is_left_open(&k, &text);
        assert!(text.contains("wgmma.mma_async") && text.contains("cp.async.bulk.tensor"), "{}", k.name);
        let usage = assemble(&k.name, &text, BOXES).expect("it was there before");
        let usage = usage.unwrap_or_else(|said| panic!("{}: {said}", k.name));
        println!("{} sm_90a: {usage:?}", k.name);
        assert_eq!(usage.spilled, 0, "{}", k.name);
        most.push(beyond(&k, &usage));
    }
    let units = [DType::F16, DType::BF16].into_iter().flat_map(units).filter(|k| k.subgroup == Some(32));
    for k in units.chain(large_units()).chain(attention_units()).chain(by_parts) {
        let text = emit(&k, MATRIX_UNITS).unwrap_or_else(|e| panic!("{e}"));
        nothing_is_left_open(&k, &text);
        // What is staged is loaded a matrix at a time.
        assert!(text.contains("ldmatrix") && text.contains("mma.sync"), "{}", k.name);
        for target in [MATRIX_UNITS, LATER[1], LATER[2], LATER[3]] {
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
    let is_ours = |name: &str| !name.starts_with("random");
    let spilling: Vec<_> = most.iter().filter(|(spilled, _, n)| *spilled > SPILLED && is_ours(n)).collect();
    assert!(spilling.is_empty(), "{spilling:#?}");
}

/// Products of fragments that lie in every way, in buffers and in shared memory, at indices that are and are not known to be
/// multiples: the interpreter's bits, for numbers whose sums are exact in any order.
#[test]
fn fragments_are_where_they_should_be() {
    let mut texts = BTreeSet::new();
    for (elem, terms) in [(Elem::F16, 16), (Elem::BF16, 16), (Elem::F32, 8)] {
        for shape in [[16, 16, terms], [16, 8, terms]] {
            for (rows_a, rows_b, rows_c) in
                [(true, true, true), (false, true, false), (true, false, true), (false, false, false)]
            {
                // From row to row, and where the first element lies.
                for (pitch, first) in [(24, 0), (24, 8), (20, 4), (26, 2), (27, 3)] {
                    for shared in [false, true] {
                        let k = product(elem, shape, [rows_a, rows_b, rows_c], pitch, first, shared);
                        let text = print(&k);
                        let emitted = emit(&k, MATRIX_UNITS).unwrap_or_else(|e| panic!("{e}"));
                        texts.extend(
                            emitted
                                .lines()
                                .filter_map(|l| l.trim().strip_prefix("ldmatrix"))
                                .map(|l| l.split_whitespace().next().unwrap_or("").to_string()),
                        );
                        let launch = Launch { groups: [1, 1, 1], params: Vec::new() };
                        let of = |elem, i: u64| match elem {
                            Elem::F16 => half::f16::from_f32((i * 7 % 9) as f32 - 4.0).to_bits().into(),
                            Elem::BF16 => half::bf16::from_f32((i * 5 % 11) as f32 - 5.0).to_bits().into(),
                            _ => u64::from(((i % 13) as f32).to_bits()),
                        };
                        let numbers = || -> Vec<Memory> {
                            let all = k.buffers.iter().enumerate();
                            let cells =
                                |b: usize, elem| (0..1024).map(|i| of(elem, i + 3 * b as u64)).collect();
                            all.map(|(b, buffer)| Memory { elem: buffer.elem, cells: cells(b, buffer.elem) })
                                .collect()
                        };
                        let (mut got, mut want) = (numbers(), numbers());
                        run(&k, &launch, &mut want).unwrap_or_else(|e| panic!("{e}\n{text}"));
                        ptx_machine::run(&k, &emitted, &launch, &mut got);
                        assert!(got == want, "{text}\n{emitted}");
                    }
                }
            }
        }
    }
    let all: Vec<&str> = texts.iter().map(String::as_str).collect();
    let form = |count, trans| format!(".sync.aligned.m8n8.{count}{trans}.shared.b16");
    assert_eq!(all, [form("x2", ""), form("x2", ".trans"), form("x4", ""), form("x4", ".trans")]);
}

/// y = z + 2 * x * w, with the sums carried around a loop; two warps with a product each.
fn product(elem: Elem, shape: [u8; 3], rows: [bool; 3], pitch: u32, first: i64, shared: bool) -> Kernel {
    let k = Builder::new("product", [64, 1, 1]);
    k.subgroup(32);
    let [ra, rb, rc] = rows.map(|r| if r { Order::Rows } else { Order::Columns });
    let unit = MatrixUnit { elem, shape };
    let [x, w] = ["x", "w"].map(|name| k.buffer(name, elem, Access::Read));
    let (z, y) = (k.buffer("z", Elem::F32, Access::Read), k.buffer("y", Elem::F32, Access::Write));
    let [x, w] = [(x, "staged_x"), (w, "staged_w")].map(|(from, name)| {
        if !shared {
            return from;
        }
        let to = k.shared(name, elem, 1024);
        k.for_(k.u32(0), k.u32(1024), k.u32(64), &[], |i, _| {
            let i = i + k.local_id(0);
            k.store(to, i, k.load(from, i, 1));
            Vec::new()
        });
        to
    });
    k.barrier();
    let warp = k.builtin(Builtin::SubgroupId);
    let (from, to, pitch) = (warp * 8 + first, warp * 512 + first, k.u32(pitch));
    let sums = k.fragment_load(unit.fragment(Role::C), rc, z, to, pitch);
    let sums = k.for_(k.u32(0), k.u32(2), k.u32(1), &[sums], |_, sums| {
        let a = k.fragment_load(unit.fragment(Role::A), ra, x, from, pitch);
        let b = k.fragment_load(unit.fragment(Role::B), rb, w, from, pitch);
        vec![k.fragment_mul_add(a, b, sums[0])]
    });
    k.fragment_store(rc, y, to, pitch, sums[0]);
    k.finish()
}

#[test]
fn a_kernel_as_text() {
    let k = parse(
        "kernel t group 32 1 1 { buffer x f32 read buffer y f16 write param n u32
         %0: u32 = local_id.x %1: u32 = param n %2: bool = lt %0, %1
         if %2 { %3: f32 = load x[%0] %4: f32 = mul %3, %3 %5: f32 = add %4, %3 store y[%0] = %5 } }",
    )
    .unwrap();
    let text = emit(&k, OLDEST).unwrap();
    for part in [
        ".version 6.3",
        ".target sm_75",
        ".visible .entry main(\n  .param .u64 b0,\n  .param .u64 b1,\n  .param .u32 p0\n)",
        ".reqntid 32, 1, 1",
        "ld.global.nc.f32",
        "mul.rn.f32",
        "add.rn.f32",
        "cvt.rn.f16.f32",
        "st.global.b16",
        "@!%p0 bra L1;",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

/// The machine that runs PTX sees what the text says: another instruction, another address, a barrier that is gone.
#[test]
fn a_wrong_text_gives_wrong_numbers() {
    let k = parse(
        "kernel t group 32 1 1 { buffer x f32 read buffer y f32 write shared s f32 32
         %0: u32 = local_id.x %1: u32 = const 31 %2: u32 = sub %1, %0
         %3: f32 = load x[%0] %4: f32 = mul %3, %3 %5: f32 = add %4, %3 store s[%0] = %5
         barrier %6: f32 = load s[%2] store y[%0] = %6 }",
    )
    .unwrap_or_else(|e| panic!("{e}"));
    let x: Vec<u64> = (0..32u32).map(|i| u64::from((i as f32 * 0.3 - 1.0).to_bits())).collect();
    let launch = Launch { groups: [1, 1, 1], params: Vec::new() };
    let numbers = || [Memory { elem: Elem::F32, cells: x.clone() }, Memory::zeros(Elem::F32, 32)];
    let text = emit(&k, OLDEST).unwrap();
    let machine = |text: &str| {
        let mut b = numbers();
        ptx_machine::run(&k, text, &launch, &mut b);
        b
    };
    let mut want = numbers();
    run(&k, &launch, &mut want).unwrap();
    assert!(machine(&text) == want);
    // The first store goes to shared memory.
    for (from, to) in [("add.rn", "sub.rn"), ("+0], %f", "+4], %f"), ("  bar.sync 0;\n", "")] {
        assert!(text.contains(from), "{from} is not in\n{text}");
        let wrong = text.replacen(from, to, 1);
        let seen = std::panic::catch_unwind(|| machine(&wrong) != want).unwrap_or(true);
        assert!(seen, "{from} became {to}, and nobody saw it:\n{wrong}");
    }
}

#[test]
fn what_cannot_be_is_named() {
    let rows = [
        (
            "kernel t group 16 1 1 { subgroup 16 buffer y u32 write %0: u32 = local_id.x %1: u32 = reduce.add %0 store y[%0] = %1 }",
            "subgroups of 16 lanes",
        ),
        (
            "kernel t group 32 1 1 { subgroup 32 buffer y f32 write %0: u32 = group_id.x %1: f32 = const 0.0
          %2: fragment.c.f32.16x16x16 = fragment_fill %1 fragment_store rows y[%0], %0 = %2 }",
            "matrix units are used from sm_80 on",
        ),
    ];
    for (text, want) in rows {
        let k = parse(text).unwrap_or_else(|e| panic!("{e}"));
        let got = emit(&k, OLDEST).err().map_or("emitted".to_string(), |e| e.0);
        assert!(got.contains(want), "{got}\nshould say: {want}");
    }
}
