//! Windows: convolutions and pools.

use super::*;

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
