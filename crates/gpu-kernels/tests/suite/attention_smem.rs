//! Exact attention whose rows go through shared memory: the reference's bits around the edges of
//! tiles, blocks and rows.

use crate::backend::{Device, Interpreted};
use elinvar_conformance::compare::bits;
use elinvar_conformance::equal::dice::{Dice, Values};
use elinvar_conformance::equal::{Call, Operand};
use elinvar_core::{DType, Layout, Shape};
use elinvar_gpu_kernels::attention::{self, AttentionPath};
use elinvar_ops::backend::Attention;
use elinvar_reference::Reference;

/// Room for rows of 128 f64.
const ROOM: AttentionPath = AttentionPath::Smem(180 << 10);

/// The layout of operands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lies {
    /// One number after the other.
    Whole,
    /// As heads do that were the columns of a matrix.
    Heads,
    /// With gaps and steps, as the dice say.
    Anyhow,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mask {
    No,
    Bool,
    Float,
}

fn contiguous(shape: &[usize]) -> Layout {
    Layout::contiguous(Shape::new(shape).expect("small"))
}

fn operand(dice: &mut Dice, dtype: DType, [b, h, l, d]: [usize; 4], lies: Lies) -> Operand {
    let (layout, len) = match lies {
        Lies::Whole => (contiguous(&[b, h, l, d]), b * h * l * d),
        Lies::Heads => (contiguous(&[b, l, h, d]).transpose(1, 2), b * h * l * d),
        Lies::Anyhow => dice.layout(&[b, h, l, d]),
    };
    Operand { data: dice.data(dtype, len, Values::Tame), layout }
}

fn same(call: &Call) {
    let device = Device { attention: Some(ROOM), ..Device::default() };
    let got = call.run::<Interpreted>(&device).unwrap_or_else(|e| panic!("{call:?}: {e}"));
    let want = call.run::<Reference>(&Default::default()).unwrap_or_else(|e| panic!("{call:?}: {e}"));
    for (i, (got, want)) in got.iter().zip(&want).enumerate() {
        bits(got, want).unwrap_or_else(|m| panic!("{call:?}: result {i}: {m}"));
    }
}

/// Forward and gradient of an attention of b, h, j, l, s, d, e.
fn check(dtype: DType, [b, h, j, l, s, d, e]: [usize; 7], causal: bool, mask: Mask, lies: Lies) {
    let mut dice = Dice::new(23, (l * 1000 + s) as u64);
    let a = Attention::exact(0.3, causal);
    let q = operand(&mut dice, dtype, [b, h, l, d], lies);
    let k = operand(&mut dice, dtype, [b, j, s, d], lies);
    let v = operand(&mut dice, dtype, [b, j, s, e], lies);
    let mask = match mask {
        Mask::No => None,
        Mask::Bool => Some(operand(&mut dice, DType::Bool, [b, h, l, s], lies)),
        Mask::Float => Some(operand(&mut dice, dtype, [b, h, l, s], lies)),
    };
    let call = Call::Attention { a, q: q.clone(), k: k.clone(), v: v.clone(), mask: mask.clone() };
    same(&call);
    let forward = call.run::<Reference>(&Default::default()).expect("it runs");
    let held =
        |t: usize, shape: &[usize]| Operand { data: forward[t].data().clone(), layout: contiguous(shape) };
    let (o, lse) = (held(0, &[b, h, l, e]), held(1, &[b, h, l]));
    let g = operand(&mut dice, dtype, [b, h, l, e], lies);
    same(&Call::AttentionGrad { a, q, k, v, mask, o, lse, g });
}

// Most of the time goes into looking at each kernel anew, so few are built: a row has many edges.

#[test]
fn staged_attention_of_all_lengths() {
    // Tiles of 32 queries and blocks of 64 keys, full and not.
    for (l, s) in [(31, 65), (32, 64), (33, 63), (65, 1), (33, 0)] {
        check(DType::F32, [1, 1, 1, l, s, 4, 4], false, Mask::No, Lies::Whole);
    }
    check(DType::F32, [1, 1, 1, 65, 130, 3, 2], true, Mask::No, Lies::Anyhow);
}

#[test]
fn staged_attention_of_all_widths() {
    // Rows that are filled up or not, of which an invocation has 1 to 8 columns; of 130 they have
    // no room.
    for (d, e) in [(1, 20), (64, 80), (130, 4), (0, 4), (4, 0)] {
        check(DType::F32, [1, 1, 1, 2, 66, d, e], false, Mask::No, Lies::Whole);
    }
}

#[test]
fn staged_attention_of_grouped_heads_and_masks() {
    check(DType::F32, [2, 4, 2, 35, 67, 8, 12], false, Mask::Bool, Lies::Heads);
    check(DType::F32, [1, 4, 2, 70, 70, 8, 4], true, Mask::Float, Lies::Whole);
    // A list of queries of two chunks; keys of two chunks.
    check(DType::F32, [1, 4, 1, 150, 9, 4, 4], true, Mask::No, Lies::Heads);
    check(DType::F32, [1, 1, 1, 5, 600, 4, 4], false, Mask::No, Lies::Heads);
}

#[test]
fn staged_attention_of_other_numbers() {
    check(DType::F64, [1, 2, 1, 33, 70, 6, 20], true, Mask::Float, Lies::Heads);
    check(DType::F16, [1, 2, 1, 33, 70, 8, 8], true, Mask::Float, Lies::Whole);
    check(DType::BF16, [1, 1, 1, 17, 3, 5, 3], false, Mask::Bool, Lies::Anyhow);
}

#[test]
fn rows_go_through_shared_memory_where_they_have_room() {
    let a = Attention::exact(0.5, false);
    let name = |dtype, d: usize, how| {
        let l = contiguous(&[1, 40, 2, d]).transpose(1, 2);
        let work = attention::attention(&a, dtype, [&l; 3], None, how).expect("there are queries");
        work.kernel().name
    };
    assert!(name(DType::F32, 64, ROOM).ends_with("smem_64_64_cp_async"));
    assert!(name(DType::F64, 6, ROOM).ends_with("smem_6_6_cp_async"));
    // What is converted on its way is not copied, nor what is in no pieces of 16 bytes.
    assert!(name(DType::F16, 64, ROOM).ends_with("smem_64_64"));
    assert!(name(DType::F32, 6, ROOM).ends_with("smem_6_6"));
    for (d, how) in [(64, AttentionPath::Direct), (130, ROOM), (64, AttentionPath::Smem(48 << 10))] {
        assert!(!name(DType::F32, d, how).contains("smem"));
    }
}
