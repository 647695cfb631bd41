//! Scaled dot-product attention.

use super::{both_ways, forward};
use crate::row::{Group, Row};
use elinvar::{DType, Tensor};

fn attend([q, k, v]: &[Tensor; 3], causal: bool) -> Tensor {
    q.scaled_dot_product_attention(k, v, None, causal, None, false)
}

/// q, k, v: [b, h, t, d]. Causal work is counted as half.
fn pair([b, h, t, d]: [usize; 4], causal: bool) -> [Row; 2] {
    let shape = format!("{b}x{h}x{t}x{d}{}", if causal { "_causal" } else { "" });
    let dims = [b, h, t, d];
    let (flops, bytes) = (4 * b * h * t * t * d / if causal { 2 } else { 1 }, 16 * b * h * t * d);
    let forwards = Row::new(Group::Attention, "attn_f", &*shape, DType::F32, move |data| {
        let qkv = [(); 3].map(|()| data.floats(&dims));
        forward(move || attend(&qkv, causal))
    });
    let both = Row::new(Group::Attention, "attn_fb", &*shape, DType::F32, move |data| {
        let qkv = [(); 3].map(|()| data.variable(&dims));
        let variables = qkv.to_vec();
        both_ways(move || attend(&qkv, causal), variables)
    });
    // The backward pass takes five products where the forward pass takes two.
    [forwards.flops(flops).bytes(bytes), both.flops(flops / 2 * 7).bytes(2 * bytes).recorded()]
}

pub(super) fn rows() -> Vec<Row> {
    [pair([8, 12, 128, 64], false), pair([1, 16, 1024, 64], true)].into_iter().flatten().collect()
}
