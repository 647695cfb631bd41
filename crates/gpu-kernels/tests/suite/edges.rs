//! Calls around edges that random ones do not reach: several chunks, blocks of a fold, merges,
//! workgroups along a result.

use crate::backend::{Device, Interpreted, start};
use elinvar_conformance::compare::bits;
use elinvar_conformance::equal::dice::{Dice, Values};
use elinvar_conformance::equal::{Call, Operand};
use elinvar_core::{DType, HostData, HostTensor, Layout, Precision, Result, Scalar, Shape};
use elinvar_gpu_kernels::ComputeUnits;
use elinvar_gpu_kernels::layout::copy;
use elinvar_gpu_kernels::pool;
use elinvar_gpu_kernels::reduce::block_reduce::{RegisterBudget, RowTile};
use elinvar_gpu_kernels::{conv as convs, gemm};
use elinvar_ops::backend::{
    Attention, Compute, Conv, Fold, Memory, Placed, Pool, PoolKind, Random, Scan, Scatter, View, Windows,
};
use elinvar_ops::catalogue::softmax::Softmax;
use elinvar_ops::map::Compiled;
use elinvar_reference::Reference;

/// That a call gives the reference's bits.
fn same(call: &Call) {
    same_on(&Device::default(), call);
}

/// The same, whatever invocations hold of rows.
fn same_however_held(call: &Call) {
    for hold in [RegisterBudget::One, RegisterBudget::Many] {
        same_on(&Device { hold, ..Device::default() }, call);
    }
}

pub fn same_on(device: &Device, call: &Call) {
    let got = call.run::<Interpreted>(device).unwrap_or_else(|e| panic!("{call:?}: {e}"));
    let want = call.run::<Reference>(&Default::default()).unwrap_or_else(|e| panic!("{call:?}: {e}"));
    assert_eq!(got.len(), want.len(), "{call:?}");
    for (i, (got, want)) in got.iter().zip(&want).enumerate() {
        bits(got, want).unwrap_or_else(|m| panic!("{call:?}: result {i}: {m}"));
    }
}

/// An operand of these sizes, with gaps or without, as the dice say.
pub fn operand(dice: &mut Dice, dtype: DType, shape: &[usize], values: Values) -> Operand {
    let (layout, len) = dice.layout(shape);
    Operand { data: dice.data(dtype, len, values), layout }
}

fn tame(dice: &mut Dice, shape: &[usize]) -> Operand {
    operand(dice, DType::F32, shape, Values::Tame)
}

pub fn conv(stride: &[usize], padding: &[usize], dilation: &[usize], groups: usize) -> Conv {
    Conv {
        stride: stride.into(),
        padding: padding.into(),
        dilation: dilation.into(),
        groups,
        precision: Precision::Exact,
    }
}

#[test]
fn convolutions_of_several_chunks() {
    let mut dice = Dice::new(11, 1);
    // 60 channels by 9 taps are 540 terms; so are the taps of the gradient by x, of which strides
    // leave some.
    let rows = [
        (conv(&[1, 1], &[1, 1], &[1, 1], 1), [2, 60, 5], vec![4, 5], vec![3, 3], vec![4, 5]),
        (conv(&[2, 1], &[1, 0], &[1, 2], 2), [1, 64, 60], vec![7, 8], vec![3, 3], vec![4, 4]),
        (conv(&[3], &[2], &[2], 1), [1, 3, 300], vec![13], vec![4], vec![4]),
        // More taps than a mask has bits.
        (conv(&[2, 2], &[3, 3], &[1, 1], 1), [1, 3, 9], vec![9, 10], vec![7, 7], vec![5, 5]),
        // Many positions: the gradient by w takes its chunks apart.
        (conv(&[1, 1], &[0, 0], &[1, 1], 1), [2, 2, 3], vec![21, 22], vec![2, 2], vec![20, 21]),
    ];
    for (c, [n, channels, outs], spatial, taps, out) in rows {
        let sizes = |a: usize, b: usize, rest: &[usize]| [&[a, b], rest].concat();
        let x = tame(&mut dice, &sizes(n, channels, &spatial));
        let w = tame(&mut dice, &sizes(outs, channels / c.groups, &taps));
        let g = tame(&mut dice, &sizes(n, outs, &out));
        // Chunks in parallel, and one after the other.
        let product = Some(gemm::SimtTile { group: [2, 8], each: [2, 3], depth: 0, slots: 0 });
        let large = Some(gemm::SimtTile { group: [1, 16], each: [8, 4], depth: 0, slots: 0 });
        let staged = |slots| Some(gemm::SimtTile { group: [4, 8], each: [4, 2], depth: 8, slots });
        for product in [None, product, large, staged(0), staged(3)] {
            let device = Device { product, ..Device::default() };
            let (c, x, w, g) = (c.clone(), x.clone(), w.clone(), g.clone());
            let bias = Some(g.clone());
            same_on(
                &device,
                &Call::Conv { c: c.clone(), x: x.clone(), w: w.clone(), out: out.clone(), bias },
            );
            let spatial = spatial.clone();
            same_on(&device, &Call::ConvInputGrad { c: c.clone(), g: g.clone(), w, spatial });
            same_on(&device, &Call::ConvWeightGrad { c, x, g, taps: taps.clone() });
        }
    }
}

/// One channel in a group: several filters for each, strips beyond the last result, windows beyond
/// both ends.
#[test]
fn depthwise_convolutions() {
    let mut dice = Dice::new(11, 5);
    let rows = [
        (conv(&[1, 1], &[1, 1], &[1, 1], 5), 5, vec![9, 7], vec![3, 3], vec![9, 7]),
        (conv(&[2, 1], &[2, 0], &[1, 2], 3), 6, vec![8, 9], vec![5, 3], vec![4, 5]),
        (conv(&[1, 1], &[0, 3], &[2, 1], 2), 2, vec![6, 2], vec![2, 5], vec![4, 4]),
        (conv(&[1], &[4], &[1], 4), 8, vec![70], vec![9], vec![70]),
        (conv(&[1, 1, 2], &[1, 0, 1], &[1, 1, 1], 2), 2, vec![3, 4, 5], vec![3, 2, 3], vec![3, 3, 3]),
        // More taps than are written out.
        (conv(&[1, 1], &[3, 4], &[1, 1], 2), 2, vec![6, 5], vec![7, 8], vec![6, 6]),
    ];
    for (c, outs, spatial, taps, out) in rows {
        let sizes = |a: usize, b: usize, rest: &[usize]| [&[a, b], rest].concat();
        for dtype in [DType::F32, DType::BF16] {
            let mut make = |dims: Vec<usize>| operand(&mut dice, dtype, &dims, Values::Tame);
            let (x, w) = (make(sizes(2, c.groups, &spatial)), make(sizes(outs, 1, &taps)));
            let g = make(sizes(2, outs, &out));
            let (c, bias) = (c.clone(), Some(g.clone()));
            same(&Call::Conv { c: c.clone(), x: x.clone(), w: w.clone(), out: out.clone(), bias });
            same(&Call::ConvInputGrad { c: c.clone(), g: g.clone(), w, spatial: spatial.clone() });
            same_on(&roomy(), &Call::ConvWeightGrad { c, x, g, taps: taps.clone() });
        }
    }
}

/// A device with room for staged terms.
pub fn roomy() -> Device {
    let limits = convs::WorkgroupLimits {
        invocations: 1024,
        shared: 48 << 10,
        cp_async: true,
        compute_units: ComputeUnits::default(),
    };
    Device { conv: Some(convs::ConvPath::Auto(limits)), ..Device::default() }
}

/// Gradients by w of few filters in a group.
#[test]
fn convolutions_of_few_rows() {
    let mut dice = Dice::new(11, 15);
    let rows = [
        // More groups than a workgroup has, several chunks.
        (conv(&[1, 1], &[1, 1], &[1, 1], 31), [3, 31, 31], vec![14, 14], vec![3, 3], vec![14, 14]),
        // Several filters and channels, strides and dilations, windows beyond both ends.
        (conv(&[2, 1], &[2, 3], &[1, 2], 3), [2, 6, 21], vec![9, 13], vec![3, 2], vec![6, 17]),
        // More columns than a workgroup has, and more taps than a word has bits.
        (conv(&[2], &[20], &[1], 1), [2, 8, 2], vec![50], vec![40], vec![26]),
        (conv(&[1, 2, 1], &[1, 0, 1], &[1, 1, 2], 2), [2, 2, 2], vec![5, 9, 7], vec![3, 2, 2], vec![5, 4, 7]),
    ];
    for (c, [n, channels, outs], spatial, taps, out) in rows {
        let sizes = |a: usize, b: usize, rest: &[usize]| [&[a, b], rest].concat();
        for dtype in [DType::F32, DType::F16, DType::F64] {
            let mut make = |dims: Vec<usize>| operand(&mut dice, dtype, &dims, Values::Tame);
            let (x, g) = (make(sizes(n, channels, &spatial)), make(sizes(n, outs, &out)));
            same_on(&roomy(), &Call::ConvWeightGrad { c: c.clone(), x, g, taps: taps.clone() });
        }
    }
}

#[test]
fn a_window_over_nothing_but_padding() {
    let mut dice = Dice::new(11, 2);
    // x has no positions; all taps are in the padding.
    let c = conv(&[1], &[2], &[1], 1);
    let (x, w) = (tame(&mut dice, &[1, 2, 0]), operand(&mut dice, DType::F32, &[3, 2, 2], Values::Few));
    same(&Call::Conv { c, x, w, out: vec![3], bias: None });
}

/// Windows without gaps that cover `size` in `count` pieces.
fn pieces(size: usize, count: usize) -> Windows {
    let bound = |i: usize| i * size / count;
    let len: Vec<usize> = (0..count).map(|i| bound(i + 1) - bound(i)).collect();
    let start = (0..count).map(|i| bound(i) as isize).collect();
    Windows { start, divisor: len.clone(), len, dilation: 1 }
}

#[test]
fn pools_with_large_windows() {
    let mut dice = Dice::new(11, 3);
    // One block of a fold, several, a few lanes, and windows of different sizes.
    for (h, w, down, across) in [(70, 71, 1, 1), (7, 7, 1, 1), (9, 11, 2, 3), (40, 5, 3, 5), (4, 4, 1, 1)] {
        let axes = vec![pieces(h, down), pieces(w, across)];
        let x = tame(&mut dice, &[2, 3, h, w]);
        for kind in [PoolKind::Max, PoolKind::Avg] {
            same(&Call::Pool { p: Pool { kind, axes: axes.clone() }, x: x.clone() });
        }
        let g = tame(&mut dice, &[2, 3, down, across]);
        let p = Pool { kind: PoolKind::Avg, axes };
        same(&Call::AvgPoolGrad { p, g, spatial: vec![h, w] });
    }
    let x = operand(&mut dice, DType::I32, &[1, 3, 12], Values::Few);
    same(&Call::Pool { p: Pool { kind: PoolKind::Max, axes: vec![pieces(12, 5)] }, x });
}

/// Windows of `len` taps, `by` apart, over an axis of `size` with `padding` on its left.
fn windows(size: usize, count: usize, [len, by, padding, dilation]: [usize; 4]) -> Windows {
    let start: Vec<isize> = (0..count).map(|i| (i * by) as isize - padding as isize).collect();
    let inside =
        |&s: &isize| (0..len).filter(move |t| (0..size as isize).contains(&(s + (t * dilation) as isize)));
    let divisor = start.iter().map(|s| inside(s).count().max(1)).collect();
    Windows { start, len: vec![len; count], divisor, dilation }
}

/// Small windows are written out, large ones are not; some are at edges, have gaps, or are in no
/// order.
#[test]
fn gradients_of_pools() {
    let mut dice = Dice::new(11, 16);
    let shuffled =
        Windows { start: vec![4, 0, 2, 0], len: vec![3, 2, 1, 5], divisor: vec![3, 2, 1, 5], dilation: 1 };
    let rows: [(Vec<usize>, Vec<Windows>); 8] = [
        (vec![8, 6], vec![windows(8, 4, [2, 2, 0, 1]), windows(6, 3, [2, 2, 0, 1])]),
        (vec![9, 7], vec![windows(9, 5, [3, 2, 1, 1]), windows(7, 4, [3, 2, 1, 1])]),
        // Elements that no window holds.
        (vec![9, 5], vec![windows(9, 3, [2, 3, 0, 1]), windows(5, 2, [1, 2, 0, 1])]),
        (vec![20], vec![windows(20, 14, [3, 1, 1, 3])]),
        (vec![30], vec![windows(30, 12, [19, 1, 0, 1])]),
        (vec![5, 4, 6], [5, 4, 6].map(|n| windows(n, n, [3, 1, 1, 1])).to_vec()),
        (vec![7], vec![shuffled]),
        (vec![7, 11], vec![pieces(7, 3), pieces(11, 4)]),
    ];
    for (spatial, axes) in rows {
        for dtype in [DType::F32, DType::BF16] {
            let outs: Vec<usize> = axes.iter().map(|a| a.start.len()).collect();
            let p = |kind| Pool { kind, axes: axes.clone() };
            let sizes = |rest: &[usize]| [&[2, 3], rest].concat();
            let mut make = |dims: Vec<usize>, v| operand(&mut dice, dtype, &dims, v);
            // Many are equally large.
            let x = make(sizes(&spatial), Values::Few);
            let call = Call::Pool { p: p(PoolKind::Max), x };
            same(&call);
            let g = make(sizes(&outs), Values::Tame);
            same(&Call::AvgPoolGrad { p: p(PoolKind::Avg), g: g.clone(), spatial: spatial.clone() });
            let won = call.run::<Reference>(&Default::default()).expect("it runs").remove(1);
            let flat = |rest: &[usize]| sizes(&[rest.iter().product()]);
            let base = make(flat(&spatial), Values::Tame);
            let g = make(flat(&outs), Values::Tame);
            let index = Operand {
                data: won.data().clone(),
                layout: Layout::contiguous(Shape::new(&flat(&outs)).expect("small")),
            };
            let layouts = [&index.layout, &g.layout];
            let work = pool::backward::maximum(&p(PoolKind::Max), dtype, &base.layout, layouts, &spatial);
            let work = work.expect("there are elements");
            let outs = [(dtype, base.layout.shape().numel())];
            let got = start(&work, &[&base.data, &index.data, &g.data], &outs).remove(0);
            let flat = Shape::new(&[outs[0].1]).expect("small");
            let got = HostTensor::new(flat, got).expect("as many");
            let call = Call::Scatter { how: Scatter::Add, base, axis: 2, index, src: g };
            let want = call.run::<Reference>(&Default::default()).expect("it runs");
            bits(&got, &want[0]).unwrap_or_else(|m| panic!("{spatial:?} {axes:?}: {m}"));
        }
    }
}

#[test]
fn attention_of_several_blocks() {
    // b, h, j, l, s, d, e, causal
    attentions(&[
        ([1, 2, 1, 70, 70, 3, 5], true),  // a diagonal over two blocks
        ([1, 1, 1, 130, 40, 2, 3], true), // queries behind the last key
        ([1, 1, 1, 5, 600, 2, 3], false), // keys of two chunks
        ([1, 4, 1, 150, 9, 2, 1], false), // a list of queries of two chunks
    ]);
}

#[test]
fn attention_of_long_rows() {
    attentions(&[
        ([1, 1, 1, 3, 5, 520, 4], false),   // numbers of two chunks
        ([1, 1, 1, 3, 5, 4, 520], false),   // values of two chunks, and several workgroups
        ([2, 1, 1, 2, 65, 140, 131], true), // several workgroups along a row
    ]);
}

fn attentions(rows: &[([usize; 7], bool)]) {
    let mut dice = Dice::new(11, 4);
    for &([b, h, j, l, s, d, e], causal) in rows {
        let a = Attention::exact(0.3, causal);
        let q = tame(&mut dice, &[b, h, l, d]);
        let k = tame(&mut dice, &[b, j, s, d]);
        let v = tame(&mut dice, &[b, j, s, e]);
        let call = Call::Attention { a, q: q.clone(), k: k.clone(), v: v.clone(), mask: None };
        same(&call);
        let forward = call.run::<Reference>(&Default::default()).expect("it runs");
        let held = |t: usize, shape: &[usize]| Operand {
            data: forward[t].data().clone(),
            layout: Layout::contiguous(Shape::new(shape).expect("small")),
        };
        let (o, lse) = (held(0, &[b, h, l, e]), held(1, &[b, h, l]));
        let g = tame(&mut dice, &[b, h, l, e]);
        same(&Call::AttentionGrad { a, q, k, v, mask: None, o, lse, g });
    }
}

#[test]
fn attention_without_keys_or_numbers() {
    let mut dice = Dice::new(11, 5);
    for [l, s, d, e] in [[3, 0, 2, 2], [3, 4, 0, 2], [3, 4, 2, 0], [0, 4, 2, 2]] {
        let a = Attention::exact(1.0, false);
        let q = tame(&mut dice, &[1, 2, l, d]);
        let (k, v) = (tame(&mut dice, &[1, 2, s, d]), tame(&mut dice, &[1, 2, s, e]));
        same(&Call::Attention { a, q: q.clone(), k: k.clone(), v: v.clone(), mask: None });
        let (o, lse) = (tame(&mut dice, &[1, 2, l, e]), tame(&mut dice, &[1, 2, l]));
        let g = tame(&mut dice, &[1, 2, l, e]);
        same(&Call::AttentionGrad { a, q, k, v, mask: None, o, lse, g });
    }
}

#[test]
fn sorts_of_several_merges() {
    let mut dice = Dice::new(11, 6);
    for (dtype, shape) in [
        (DType::F32, vec![2, 513]),
        (DType::F64, vec![1, 1024]),
        (DType::I64, vec![3, 1025]),
        (DType::U8, vec![5000]),
        (DType::BF16, vec![2, 2049]),
        (DType::Bool, vec![700]),
        (DType::I32, vec![40, 33]),
    ] {
        let x = operand(&mut dice, dtype, &shape, Values::Few);
        for descending in [false, true] {
            let first = *shape.last().expect("a row");
            same(&Call::Sort { x: x.clone(), descending, first });
        }
    }
}

#[test]
fn scatters_of_long_lines() {
    let mut dice = Dice::new(11, 7);
    for (dtype, size, n, inner) in [
        (DType::F32, 7, 1200, 3),
        (DType::F16, 2000, 700, 2),
        (DType::I64, 3, 600, 1),
        (DType::U8, 1, 30, 40),
    ] {
        let index: Vec<i64> = (0..n).map(|_| dice.below(size) as i64).collect();
        // The same indices for all lines, as the gradient of an embedding has them, and once for
        // each.
        let one = Layout::contiguous(Shape::new(&[n, 1]).expect("small"));
        let shared = one.broadcast_to(&Shape::new(&[n, inner]).expect("small"), "t").expect("it fits");
        let own: Vec<i64> = (0..n * inner).map(|_| dice.below(size) as i64).collect();
        let own = (own, Layout::contiguous(Shape::new(&[n, inner]).expect("small")));
        for (index, layout) in [(index, shared), own] {
            let index = Operand { data: HostData::I64(index.into()), layout };
            for how in [Scatter::Set, Scatter::Add] {
                let base = operand(&mut dice, dtype, &[size, inner], Values::Tame);
                let src = operand(&mut dice, dtype, &[n, inner], Values::Tame);
                same(&Call::Scatter { how, base, axis: 0, index: index.clone(), src });
            }
        }
    }
}

#[test]
fn folds_of_a_few_long_rows() {
    let mut dice = Dice::new(11, 9);
    let all = [Fold::Sum, Fold::Prod, Fold::Max, Fold::Min];
    for (dtype, to, rows, n) in [
        (DType::F32, DType::F32, 2, 3 * 4096 + 1),
        (DType::BF16, DType::F32, 1, 5 * 4096),
        (DType::F64, DType::F64, 1, 7 * 4096 - 1),
        (DType::Bool, DType::I64, 3, 10_000),
    ] {
        let x = operand(&mut dice, dtype, &[rows, n], Values::Tame);
        for f in all {
            let to = if matches!(f, Fold::Max | Fold::Min) { dtype } else { to };
            same_however_held(&Call::Fold { f, x: x.clone(), kept: 1, to });
        }
    }
    // More blocks than are joined at a time.
    let x = operand(&mut dice, DType::F32, &[4096 * 258 + 7], Values::Tame);
    same_however_held(&Call::Fold { f: Fold::Sum, x, kept: 0, to: DType::F32 });
}

#[test]
fn row_wise_ops_on_a_few_long_rows() {
    let mut dice = Dice::new(11, 10);
    for (dtype, shape, kept) in [
        (DType::F32, vec![2, 3 * 4096 + 5], 1),
        (DType::BF16, vec![1, 8200], 1),
        (DType::F64, vec![9001], 0),
        (DType::F32, vec![3, 2, 100, 90], 2),
    ] {
        let x = operand(&mut dice, dtype, &shape, Values::Tame);
        let y = operand(&mut dice, dtype, &shape, Values::Tame);
        for once in [false, true] {
            same_however_held(&Call::Rows { once, x: [x.clone(), y.clone()], kept, dtype });
        }
    }
}

/// Lengths around turns, around what is loaded at once, around blocks, and around what is held at
/// most.
const LENGTHS: [usize; 26] = [
    1, 3, 31, 32, 33, 64, 65, 127, 128, 129, 255, 257, 384, 600, 896, 1023, 1024, 1025, 1153, 2048, 2049,
    4095, 4096, 4097, 8192, 8193,
];

/// Rows of special values, of which one is all -0 and one all -inf, from a place that is a multiple
/// of nothing.
pub fn special_rows(dice: &mut Dice, dtype: DType, n: usize) -> Operand {
    let rows = 5;
    let layout = Layout::contiguous(Shape::new(&[rows, n + 3]).expect("small")).slice(1, 3, n, 1);
    let values = [Values::Wild, Values::Sparse][n % 2];
    let mut data = dice.data(dtype, rows * (n + 3), values);
    if let HostData::F32(all) = &mut data {
        let mut new = all.to_vec();
        new[n + 3..2 * (n + 3)].fill(-0.0);
        new[2 * (n + 3)..3 * (n + 3)].fill(f32::NEG_INFINITY);
        *all = new.into();
    }
    Operand { data, layout }
}

#[test]
fn folds_around_what_is_loaded_at_once() {
    let mut dice = Dice::new(11, 20);
    for n in LENGTHS {
        for (dtype, f) in [(DType::F32, Fold::Sum), (DType::F32, Fold::Max), (DType::U8, Fold::Min)] {
            let x = special_rows(&mut dice, dtype, n);
            same_however_held(&Call::Fold { f, x, kept: 1, to: dtype });
        }
        // Rows side by side.
        let data = dice.data(DType::F32, 5 * n, Values::Tame);
        let x =
            Operand { layout: Layout::contiguous(Shape::new(&[n, 5]).expect("small")).transpose(0, 1), data };
        same_however_held(&Call::Fold { f: Fold::Sum, x, kept: 1, to: DType::F32 });
    }
}

/// Of rows that have a workgroup each, blocks go side by side: a last one with few terms, one with
/// none, several rounds.
#[test]
fn blocks_side_by_side() {
    let mut dice = Dice::new(11, 18);
    let tile = Some(RowTile { lanes: 128, rows: 1, crossed: false });
    let device = Device { tile, hold: RegisterBudget::Many, ..Device::default() };
    for n in [2 * 4096 + 1, 3 * 4096, 4 * 4096 + 70, 11 * 4096 + 200] {
        for f in [Fold::Sum, Fold::Max] {
            let x = special_rows(&mut dice, DType::F32, n);
            same_on(&device, &Call::Fold { f, x, kept: 1, to: DType::F32 });
        }
    }
    let [x, y] = [0, 1].map(|_| tame(&mut dice, &[32, 2 * 4096 + 3]));
    for once in [false, true] {
        let x = [x.clone(), y.clone()];
        same_on(
            &Device { hold: RegisterBudget::Many, ..Device::default() },
            &Call::Rows { once, x, kept: 1, dtype: DType::F32 },
        );
    }
}

#[test]
fn row_wise_ops_around_what_is_held() {
    let mut dice = Dice::new(11, 21);
    for n in LENGTHS {
        for dtype in [DType::F32, DType::F16] {
            let [x, y] = [0, 1].map(|_| special_rows(&mut dice, dtype, n));
            // One operand is the same for all rows.
            let one = dice.data(dtype, n, Values::Tame);
            let row = Layout::contiguous(Shape::new(&[1, n]).expect("small"));
            let row = row.broadcast_to(x.layout.shape(), "test").expect("it fits");
            let row = Operand { data: one, layout: row };
            for once in [false, true] {
                same_however_held(&Call::Rows { once, x: [x.clone(), y.clone()], kept: 1, dtype });
                same_however_held(&Call::Rows { once, x: [x.clone(), row.clone()], kept: 1, dtype });
            }
            // Where the result at an element comes from its last term.
            let (buffer, layout) = (&x.data, &x.layout);
            let tensor = |y: Result<Placed<HostData>>| {
                HostTensor::new(layout.shape().clone(), y.expect("it runs").buffer).expect("it fits")
            };
            let want = tensor(Reference::rows(
                &Default::default(),
                &Compiled::<_, 1>(Softmax),
                &[View { buffer, layout, dtype }],
                1,
                dtype,
            ));
            for hold in [RegisterBudget::One, RegisterBudget::Many] {
                let d = Device { hold, ..Device::default() };
                let got = tensor(Interpreted::rows(
                    &d,
                    &Compiled::<_, 1>(Softmax),
                    &[View { buffer, layout, dtype }],
                    1,
                    dtype,
                ));
                bits(&got, &want).unwrap_or_else(|m| panic!("softmax of {n}, {dtype}, {hold:?}: {m}"));
            }
        }
    }
}

#[test]
fn scans_of_a_few_long_rows() {
    let mut dice = Dice::new(11, 12);
    for (dtype, to, shape) in [
        (DType::F32, DType::F32, vec![2, 9 * 1024]),
        (DType::F16, DType::F16, vec![9 * 1024 + 1]),
        (DType::I32, DType::I64, vec![3, 10_000]),
        // More blocks than are chained at a time.
        (DType::F32, DType::F32, vec![1024 * 257 + 9]),
    ] {
        let x = operand(&mut dice, dtype, &shape, Values::Tame);
        same(&Call::Scan { f: Scan::Sum, x: x.clone(), to });
        if shape.len() > 1 {
            same(&Call::Scan { f: Scan::Prod, x, to });
        }
    }
}

/// Transposing copies through shared memory.
#[test]
fn turned_copies() {
    let mut dice = Dice::new(11, 19);
    for (dtype, dims, step) in [
        (DType::F32, [1, 70, 36], 1),
        (DType::F16, [3, 33, 40], 1),
        (DType::BF16, [2, 100, 32], 1),
        (DType::I32, [2, 64, 68], 2_usize),
    ] {
        let [outer, p, c] = dims;
        let layout = Layout::contiguous(Shape::new(&[outer, c * step, p]).expect("small"));
        let layout = layout.slice(1, 0, c, step as isize).transpose(1, 2);
        let data = dice.data(dtype, outer * c * step * p, Values::Tame);
        let work = copy::transposing_copy(&layout, dtype).expect("it lies across");
        let got = start(&work, &[&data], &[(dtype, outer * p * c)]).remove(0);
        let view = View { buffer: &data, layout: &layout, dtype };
        let want = Reference::copy(&Default::default(), view).expect("it runs");
        let tensor = |data| HostTensor::new(layout.shape().clone(), data).expect("as many");
        bits(&tensor(got), &tensor(want)).unwrap_or_else(|m| panic!("{dtype} {dims:?}: {m}"));
    }
    let plain = Layout::contiguous(Shape::new(&[64, 64]).expect("small"));
    assert!(copy::transposing_copy(&plain, DType::F32).is_none());
    assert!(copy::transposing_copy(&plain.transpose(0, 1), DType::I64).is_none());
}

/// Rows that are contiguous, and several in a workgroup.
#[test]
fn scans_of_many_rows() {
    let mut dice = Dice::new(11, 17);
    for (dtype, to) in [(DType::F32, DType::F32), (DType::BF16, DType::BF16), (DType::U8, DType::I64)] {
        for (n, rows, more) in [(1030, 5, 1), (2060, 3, 1), (20, 70, 2), (5, 3, 50), (90, 9, 3)] {
            for crossed in [false, true] {
                let sizes = if crossed { [more, n, rows] } else { [more, rows, n] };
                let layout = Layout::contiguous(Shape::new(&sizes).expect("small"));
                let data = dice.data(dtype, more * rows * n, Values::Tame);
                let layout = if crossed { layout.transpose(1, 2) } else { layout };
                same(&Call::Scan { f: Scan::Sum, x: Operand { data, layout }, to });
            }
        }
    }
}

#[test]
fn many_blocks_of_what_is_not_zero() {
    let mut dice = Dice::new(11, 8);
    // More blocks than the workgroup that adds them up has invocations.
    let x = operand(&mut dice, DType::U8, &[263_000], Values::Few);
    same(&Call::Nonzero { x });
}

#[test]
fn numbers_at_the_ends_of_their_types() {
    let values = [
        Scalar::Float(1e300),
        Scalar::Float(-1.9),
        Scalar::Float(f64::NAN),
        Scalar::Float(-0.0),
        Scalar::Int(i64::MIN),
        Scalar::Int((1 << 62) + (1 << 54) + 1),
        Scalar::Int(-1),
        Scalar::Bool(true),
    ];
    for dtype in DType::ALL {
        for value in values {
            same(&Call::Fill { value, dtype, len: 5 });
        }
        for p in [0.0, 1.0, 0.5, 1e-300, 2.0, -1.0, f64::NAN] {
            same(&Call::Random { r: Random::Bernoulli { p }, seed: 3, dtype, len: 9 });
        }
        for (low, high) in [(0, 1), (i64::MIN, i64::MAX), (-5, 1 << 40)] {
            same(&Call::Random { r: Random::Int { low, high }, seed: 4, dtype, len: 9 });
        }
    }
}
