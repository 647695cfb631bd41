//! Convolutions with non-overlapping windows (patch embeddings), and those that nearly are.

use crate::conv::Case;
use crate::tools::{Dice, devices};
use elinvar_core::{DType, Precision};
use elinvar_ops::backend::Conv;

#[test]
fn windows_that_lie_apart() {
    let (mut dice, on) = (Dice::new(31), devices());
    // Planes, taps, strides, dilations; what is behind the last window.
    type Sizes<'a> = (&'a [usize], &'a [usize], &'a [usize], &'a [usize]);
    let cases: [Sizes<'_>; 12] = [
        (&[48, 32], &[16, 16], &[16, 16], &[1, 1]),
        (&[18, 27], &[9, 9], &[9, 9], &[1, 1]),
        (&[6, 10], &[2, 2], &[2, 2], &[1, 1]),
        // Gaps between windows, and behind the last one.
        (&[15, 36], &[2, 8], &[3, 12], &[1, 1]),
        (&[40], &[9], &[10], &[1]),
        (&[39], &[9], &[10], &[1]),
        (&[9, 9], &[1, 1], &[2, 2], &[1, 1]),
        // Taps with gaps between them.
        (&[12, 25], &[2, 3], &[3, 5], &[2, 2]),
        (&[4, 6, 16], &[2, 2, 8], &[2, 2, 8], &[1, 1, 1]),
        (&[3, 9, 4], &[1, 3, 2], &[1, 3, 2], &[1, 1, 1]),
        // Another window would begin with elements behind the last one; windows have elements in
        // common.
        (&[50, 33], &[16, 16], &[16, 16], &[1, 1]),
        (&[21, 16], &[4, 8], &[3, 8], &[1, 1]),
    ];
    for (round, (plane, taps, stride, dilation)) in cases.into_iter().cycle().take(48).enumerate() {
        let case = Case {
            images: 1 + dice.below(3),
            channels: dice.pick(&[1, 2, 3, 5]),
            outs: dice.pick(&[1, 4, 17, 40]),
            plane: plane.to_vec(),
            taps: taps.to_vec(),
            c: Conv {
                stride: stride.to_vec(),
                padding: vec![0; plane.len()],
                dilation: dilation.to_vec(),
                groups: dice.pick(&[1, 1, 2]),
                precision: Precision::Exact,
            },
        };
        let dtype = dice.pick(&[DType::F32, DType::F32, DType::F64, DType::BF16]);
        let awkward = dice.once_in(2);
        let d = [on[round % on.len()].clone(), on[round * 7 % on.len()].clone()];
        case.check(&mut dice, &d, dtype, awkward);
    }
}
