//! The gradient of attention by TMA tiles: near the definition, computed in f64.

use crate::attention_mma_backward::{Sizes, check, layout};
use elinvar_core::DType;
use elinvar_gpu_kernels::attention::wgmma_forward::WgmmaAttentionTile;
use elinvar_gpu_kernels::attention::{BackwardInputs, wgmma_backward};
use elinvar_ops::backend::Attention;

/// Bytes of shared memory of a device that has TMA tiles.
const SHARED: u32 = 227 << 10;

#[test]
fn the_gradient_is_near_the_definition() {
    let rows: [(Sizes, bool, f64); 7] = [
        ([1, 1, 1, 1, 1, 64], false, 0.3),
        ([2, 2, 1, 70, 70, 64], true, 0.2),
        ([1, 1, 1, 40, 110, 64], false, -0.2),
        ([1, 4, 2, 33, 140, 64], false, 0.125),
        ([1, 2, 1, 150, 150, 128], true, 0.09),
        ([1, 1, 1, 200, 90, 128], false, 0.09),
        // Keys that no query sees.
        ([1, 1, 1, 20, 150, 64], true, 0.125),
    ];
    for (n, (sizes, causal, scale)) in rows.into_iter().enumerate() {
        let dtype = [DType::F16, DType::BF16][n % 2];
        check(wgmma_backward::attention_grad, dtype, sizes, &Attention::exact(scale, causal), 4 * n as u64);
    }
}

/// Blocks and tiles of other sizes than those that are taken: more blocks than slots, of which
/// several are not seen whole.
#[test]
fn tiles_may_be_others() {
    let (dtype, a) = (DType::F16, Attention::exact(0.125, true));
    let of = |a: &Attention, dtype: DType, x: &BackwardInputs<'_>| {
        let by_queries = WgmmaAttentionTile { groups: 2, block: 64, slots: 2 };
        wgmma_backward::steps_by(
            a,
            dtype,
            x,
            [by_queries, WgmmaAttentionTile { groups: 1, block: 128, slots: 2 }],
        )
    };
    check(of, dtype, [1, 2, 1, 300, 300, 64], &a, 7);
}

#[test]
fn what_does_not_fit() {
    let (good, lse, a) = (layout(&[1, 2, 8, 64]), layout(&[1, 2, 8]), Attention::exact(0.125, false));
    let given = BackwardInputs { q: &good, k: &good, v: &good, o: &good, lse: &lse, g: &good, mask: None };
    let fits = |x: BackwardInputs<'_>| wgmma_backward::grad_fits(&a, DType::F16, &x, SHARED);
    assert!(fits(given));
    let turned = layout(&[1, 2, 64, 8]).transpose(2, 3);
    assert!(!fits(BackwardInputs { g: &turned, ..given }), "a gradient that lies across");
    assert!(!fits(BackwardInputs { mask: Some((&lse, DType::F16)), ..given }), "a mask");
    assert!(!wgmma_backward::grad_fits(&a, DType::F16, &given, 100 << 10), "little shared memory");
}
