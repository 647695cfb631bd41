//! Attention by TMA tiles: near the definition, computed in f64, and equal to it where nothing is
//! rounded.

use crate::attention_mma::{Case, Sizes, floats, layout, noise};
use crate::backend::run_work;
use elinvar_core::{DType, HostData, Layout};
use elinvar_gpu_kernels::attention::wgmma_forward::{self, WgmmaAttentionTile};
use elinvar_kernel::interp::Memory;
use elinvar_ops::backend::Attention;

/// Bytes of shared memory of a device that has TMA tiles.
const SHARED: u32 = 227 << 10;

fn by_wgmma(c: &Case, tile: WgmmaAttentionTile) -> [HostData; 2] {
    let layouts = c.layouts();
    assert!(wgmma_forward::fits(&c.a, c.dtype, layouts.each_ref(), false, SHARED));
    c.by(&wgmma_forward::attention(&c.a, c.dtype, layouts.each_ref(), tile).expect("there are queries"))
}

#[test]
fn attention_is_near_the_definition() {
    let rows: [(Sizes, bool, f64); 7] = [
        ([1, 1, 1, 1, 1, 64], false, 0.2),
        ([2, 2, 1, 70, 70, 64], true, 0.3),
        ([1, 2, 2, 33, 290, 64], false, -0.125),
        ([1, 1, 1, 150, 300, 128], true, 0.09),
        ([1, 1, 1, 20, 400, 128], false, 0.09),
        ([1, 1, 1, 3, 65, 128], true, -0.2),
        // Queries before which there are more keys than they see, and after which there are none.
        ([1, 1, 1, 140, 30, 64], true, 0.5),
    ];
    for (n, (sizes, causal, scale)) in rows.into_iter().enumerate() {
        let dtype = [DType::F16, DType::BF16][n % 2];
        let [b, h, j, l, s, d] = sizes;
        let numbers = [
            noise(3 * n as u64, b * h * l * d, 2.0),
            noise(3 * n as u64 + 1, b * j * s * d, 2.0),
            noise(3 * n as u64 + 2, b * j * s * d, 3.0),
        ];
        let c = Case { dtype, sizes, a: Attention::exact(scale, causal), numbers };
        let got = by_wgmma(&c, WgmmaAttentionTile::of(d as u32));
        c.is_near(got);
    }
}

/// Equal weights of a power of two keys, of whole values: nothing is rounded but the logarithm,
/// which is the definition's.
#[test]
fn a_mean_is_the_definitions() {
    for (dtype, d, s) in [(DType::F16, 64, 64), (DType::BF16, 128, 8)] {
        let v = (0..s * d).map(|i| (i * 7 % 16) as f32 - 8.0).collect();
        let numbers = [vec![0.0; 40 * d], noise(1, s * d, 1.0), v];
        let c = Case { dtype, sizes: [1, 1, 1, 40, s, d], a: Attention::exact(0.5, false), numbers };
        assert_eq!(by_wgmma(&c, WgmmaAttentionTile::of(d as u32)), c.by_definition(), "{dtype} {d} {s}");
    }
}

/// A row has the bits that it has alone, also in a causal tile, where there are blocks that it sees
/// nothing of; and however many rows a tile has. What is not a number stays none, in its row.
#[test]
fn rows_know_nothing_of_each_other() {
    let (d, small) = (64, WgmmaAttentionTile { groups: 1, block: 64, slots: 2 });
    let numbers = [noise(1, 150 * d, 2.0), noise(2, 150 * d, 2.0), noise(3, 150 * d, 1.0)];
    let case = |queries: std::ops::Range<usize>, keys: usize, causal, tile| {
        let part = |i: usize, r: std::ops::Range<usize>| numbers[i][r.start * d..r.end * d].to_vec();
        let sizes = [1, 1, 1, queries.len(), keys, d];
        let numbers = [part(0, queries), part(1, 0..keys), part(2, 0..keys)];
        let c = Case { dtype: DType::F16, sizes, a: Attention::exact(0.125, causal), numbers };
        by_wgmma(&c, tile).each_ref().map(floats)
    };
    let [one_y, one_lse] = case(77..78, 150, false, small);
    let [y, lse] = case(0..150, 150, false, WgmmaAttentionTile { groups: 2, slots: 3, ..small });
    assert_eq!((&y[77 * d..78 * d], lse[77]), (&one_y[..], one_lse[0]));
    let [y, lse] = case(0..150, 150, true, WgmmaAttentionTile { groups: 2, ..small });
    let [one_y, one_lse] = case(77..78, 78, false, small);
    assert_eq!((&y[77 * d..78 * d], lse[77]), (&one_y[..], one_lse[0]));

    let mut bad = numbers.clone();
    bad[0][5 * d + 3] = f32::NAN;
    let c = Case {
        dtype: DType::F16,
        sizes: [1, 1, 1, 150, 150, d],
        a: Attention::exact(0.125, false),
        numbers: bad,
    };
    let [y, lse] = by_wgmma(&c, small).each_ref().map(floats);
    for i in 0..150 {
        assert_eq!(lse[i].is_nan(), i == 5);
        assert!(y[i * d..(i + 1) * d].iter().all(|v| v.is_nan() == (i == 5)), "row {i}");
    }
}

/// Heads that stand side by side in lines, as projections leave them, give the bits of heads that
/// follow one another.
#[test]
fn heads_may_stand_in_lines() {
    let (b, h, l, d) = (2, 2, 70, 64);
    let n = b * h * l * d;
    let a = Attention::exact(0.125, true);
    let numbers = [noise(1, n, 2.0), noise(2, n, 2.0), noise(3, n, 1.0)];
    let tile = WgmmaAttentionTile { groups: 1, block: 64, slots: 2 };
    let want =
        by_wgmma(&Case { dtype: DType::F16, sizes: [b, h, h, l, l, d], a, numbers: numbers.clone() }, tile);
    // q, k and v of a position side by side.
    let mut all = vec![0.0; 3 * n];
    for (i, x) in numbers.iter().enumerate() {
        for (at, v) in x.iter().enumerate() {
            let [batch, head, row, e] = [at / (h * l * d), at / (l * d) % h, at / d % l, at % d];
            all[(((batch * l + row) * 3 + i) * h + head) * d + e] = *v;
        }
    }
    let packed = layout(&[b, l, 3 * h, d]);
    let part = |i: usize| packed.slice(2, i * h, h, 1).transpose(1, 2);
    let layouts = [0, 1, 2].map(part);
    assert!(wgmma_forward::fits(&a, DType::F16, layouts.each_ref(), false, SHARED));
    let work = wgmma_forward::attention(&a, DType::F16, layouts.each_ref(), tile).expect("there are queries");
    let all = HostData::F16(all.into_iter().map(half::f16::from_f32).collect());
    let mut buffers = vec![Memory::from_host(&all); 3];
    buffers.extend([Memory::of(DType::F16, n), Memory::of(DType::F32, b * h * l)]);
    run_work(&work, &mut buffers);
    assert_eq!([3, 4].map(|i| buffers[i].to_host().expect("it has a dtype")), want);
}

#[test]
fn what_does_not_fit() {
    let of = |dims: &[usize]| layout(dims);
    let (good, a) = (of(&[1, 2, 8, 64]), Attention::exact(0.125, false));
    let fits = |all: [&Layout; 3]| wgmma_forward::fits(&a, DType::F16, all, false, SHARED);
    assert!(fits([&good; 3]));
    assert!(!wgmma_forward::fits(&a, DType::F16, [&good; 3], true, SHARED), "a mask");
    assert!(!wgmma_forward::fits(&a, DType::F16, [&good; 3], false, 48 << 10), "little shared memory");
    assert!(!wgmma_forward::fits(&a, DType::F32, [&good; 3], false, SHARED), "another type");
    assert!(
        !wgmma_forward::fits(&Attention::exact(0.0, false), DType::F16, [&good; 3], false, SHARED),
        "no scale"
    );
    assert!(!fits([&of(&[1, 2, 8, 32]); 3]), "a width of 32");
    assert!(!fits([&good, &good, &of(&[1, 2, 8, 128])]), "wide values");
    assert!(!fits([&good, &of(&[1, 2, 0, 64]), &of(&[1, 2, 0, 64])]), "nothing to see");
    let turned = of(&[1, 2, 64, 8]).transpose(2, 3);
    assert!(!fits([&good, &turned, &good]), "keys that lie across");
    let shifted = of(&[1, 2, 8, 72]).slice(3, 4, 64, 1);
    assert!(!fits([&good, &shifted, &good]), "keys that do not begin at multiples of 16 bytes");
    assert!(fits([&good, &of(&[1, 2, 8, 72]).slice(3, 8, 64, 1), &good]), "some numbers between keys");
}
