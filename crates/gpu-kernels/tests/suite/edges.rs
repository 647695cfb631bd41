//! Calls around edges that random ones do not reach: several chunks, blocks of a fold, merges,
//! workgroups along a result.

mod windows;

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
            same(&Call::Random { r: Random::Bernoulli { p }, seed: 3, in_memory: false, dtype, len: 9 });
        }
        for (low, high) in [(0, 1), (i64::MIN, i64::MAX), (-5, 1 << 40)] {
            same(&Call::Random { r: Random::Int { low, high }, seed: 4, in_memory: true, dtype, len: 9 });
        }
    }
}
