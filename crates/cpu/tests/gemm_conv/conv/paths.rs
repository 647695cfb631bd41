//! Shapes that take each path of a convolution.

use super::*;

#[test]
fn windows_as_rows() {
    // Enough terms and output channels for tiles whose rows are windows: rows of windows of all
    // lengths around a tile's height.
    let mut dice = Dice::new(15);
    // The two best instruction sets, of which each has a height of its own.
    let best = Isa::with_kernels().into_iter().rev().take(2);
    let on: Vec<_> = best.flat_map(|isa| [1, 2, 3, 8].map(|n| CpuDevice::new(isa, n).unwrap())).collect();
    for round in 0..rounds(48) {
        let rank = dice.pick(&[1, 2, 2, 2, 3]);
        let taps: usize = dice.pick(&[1, 2, 3, 3]);
        let stride = dice.pick(&[1, 1, 2, 3]);
        let plain = taps == 1 && dice.once_in(2);
        let c = Conv {
            stride: vec![if plain { 1 } else { stride }; rank],
            padding: vec![if plain { 0 } else { dice.below(3) }; rank],
            dilation: vec![1 + dice.below(2); rank],
            groups: dice.pick(&[1, 1, 2]),
            precision: Precision::Exact,
        };
        let size = [33, 17, 5][rank - 1];
        let case = Case {
            images: 1 + dice.below(3),
            channels: 256_usize.div_ceil(taps.pow(rank as u32)) + dice.below(5),
            outs: dice.pick(&[32, 48, 64, 80]),
            plane: (0..rank).map(|_| 5 + dice.below(size)).collect(),
            taps: vec![taps; rank],
            c,
        };
        let dtype = dice.pick(&[DType::F32, DType::F32, DType::F64, DType::BF16]);
        let awkward = dice.once_in(3);
        case.check(&mut dice, &on[round % on.len()..][..1], dtype, awkward);
    }
}

#[test]
fn padding_that_is_left_out() {
    // Windows at the edges of planes as tiles of their own, side by side and one below the other,
    // of one plane and of several along a third axis: what is left out must not show, also where
    // sums underflow to -0, or weights are not finite.
    let mut dice = Dice::new(31);
    let best = Isa::with_kernels().into_iter().rev().take(2);
    let on: Vec<_> = best.flat_map(|isa| [1, 2, 3].map(|n| CpuDevice::new(isa, n).unwrap())).collect();
    for round in 0..rounds(40) {
        let rank = dice.pick(&[2, 2, 2, 3]);
        let taps: usize = if rank == 3 { 3 } else { dice.pick(&[3, 3, 4, 5]) };
        let c = Conv {
            stride: vec![dice.pick(&[1, 1, 1, 2]); rank],
            padding: (0..rank).map(|_| dice.below(taps + 1)).collect(),
            dilation: vec![dice.pick(&[1, 1, 2]); rank],
            groups: 1,
            precision: Precision::Exact,
        };
        let enough = 256_usize.div_ceil(taps.pow(rank as u32)) + dice.below(40);
        let case = Case {
            images: 1,
            channels: enough.max(dice.pick(&[0, 32])),
            outs: dice.pick(&[32, 48]),
            plane: (0..rank).map(|a| taps * 2 + dice.below([1, 8, 16][3 - rank + a])).collect(),
            taps: vec![taps; rank],
            c,
        };
        let dtype = if round % 5 == 4 { DType::F64 } else { DType::F32 };
        let (tiny, special) = if dtype == DType::F64 { (1e-170, 1e-310) } else { (1e-25, 1e-40) };
        // Of products of tiny numbers none is left, but a sign; rarely there is a number that is
        // not tiny.
        let rare = dice.pick(&[usize::MAX, 400, 40]);
        let values = [tiny, -tiny, 0.0, -0.0, special];
        case.check_of(&on[round % on.len()..][..1], |shape| {
            let mut number = || match () {
                () if dice.once_in(rare) => dice.pick(&[1.0, -0.75]),
                () => dice.pick(&values),
            };
            let mut v: Vec<f64> = (0..shape.iter().product()).map(|_| number()).collect();
            // In a third of all cases one number that is not finite.
            if round % 3 == 1 {
                let at = dice.below(v.len());
                v[at] = dice.pick(&[f64::INFINITY, f64::NAN]);
            }
            let data = match dtype {
                DType::F64 => HostData::F64(v.into()),
                _ => HostData::F32(v.iter().map(|x| *x as f32).collect()),
            };
            Operand::contiguous(data, shape)
        });
    }
    // Planes and output channels of networks.
    for (channels, outs, plane) in [(64, 64, 14), (40, 48, 28), (70, 32, 56), (64, 64, 7)] {
        two(2, channels, outs, plane, 3, 1).check(&mut dice, &on[..2], DType::F32, false);
    }
}

#[test]
fn gradients_by_numbers_most_of_which_are_zero() {
    // As a max pool gives them back. Chunks end within the taps of an output channel and within an
    // image; channels fill registers or not. Where zeros are left out must not show, also where
    // sums underflow to -0, or a factor is not finite.
    let mut dice = Dice::new(37);
    let on = devices();
    for round in 0..rounds(60) {
        let taps = dice.pick(&[[3, 3], [3, 3], [1, 3], [2, 3], [5, 3]]);
        let c = Conv {
            stride: vec![1, 1],
            padding: vec![dice.below(3), dice.below(4)],
            dilation: vec![1 + dice.below(2), 1],
            groups: 1,
            precision: Precision::Exact,
        };
        let case = Case {
            images: dice.pick(&[1, 2, 5]),
            channels: dice.pick(&[16, 20, 33]),
            outs: dice.pick(&[3, 16, 60]),
            plane: vec![9 + dice.below(9), 4 + dice.below(30)],
            taps: taps.to_vec(),
            c,
        };
        let dtype = dice.pick(&[DType::F32, DType::F32, DType::F64, DType::BF16]);
        let is_tiny = dtype != DType::BF16 && round % 2 == 1;
        let (tiny, special) = if dtype == DType::F64 { (1e-170, 1e-310) } else { (1e-25, 1e-40) };
        let density = dice.pick(&[0, 1, 10, 25]);
        let wild = if round % 3 == 2 { dice.below(3) } else { 3 };
        let mut operand = 0;
        case.check_of(&on[round * 5 % on.len()..][..1], |shape| {
            let mut v: Vec<f64> = (0..shape.iter().product())
                .map(|_| match () {
                    // x, w, and then g.
                    () if operand == 2 && dice.below(100) >= density => dice.pick(&[0.0, 0.0, -0.0]),
                    () if is_tiny => dice.pick(&[tiny, -tiny, 0.0, -0.0, special]),
                    () => dice.below(2001) as f64 / 1000.0 - 1.0,
                })
                .collect();
            if operand == wild {
                let at = dice.below(v.len());
                v[at] = dice.pick(&[f64::INFINITY, f64::NAN]);
            }
            operand += 1;
            let data = match dtype {
                DType::F64 => HostData::F64(v.into()),
                DType::BF16 => HostData::BF16(v.iter().map(|x| bf16::from_f64(*x)).collect()),
                _ => HostData::F32(v.iter().map(|x| *x as f32).collect()),
            };
            Operand::contiguous(data, shape)
        });
    }
}

#[test]
fn channels_as_columns() {
    // Gradients by x whose columns are channels, of which weights have the taps of each side by
    // side.
    let mut dice = Dice::new(23);
    let best = Isa::with_kernels().into_iter().rev().take(2);
    let on: Vec<_> = best.flat_map(|isa| [1, 2, 3].map(|n| CpuDevice::new(isa, n).unwrap())).collect();
    for round in 0..rounds(24) {
        let taps: usize = dice.pick(&[1, 2, 3, 5]);
        let c = Conv {
            stride: vec![1, 1],
            padding: vec![dice.below(taps), dice.below(taps)],
            dilation: vec![1, 1 + dice.below(2)],
            groups: dice.pick(&[1, 1, 2]),
            precision: Precision::Exact,
        };
        let case = Case {
            images: 1 + dice.below(2),
            channels: dice.pick(&[16, 32, 48, 64, 80]),
            // Chunks end within the taps of an output channel.
            outs: 256_usize.div_ceil(taps * taps) + dice.below(70),
            plane: vec![9 + dice.below(8), 9 + dice.below(8)],
            taps: vec![taps; 2],
            c,
        };
        let dtype = dice.pick(&[DType::F32, DType::F32, DType::F64, DType::BF16]);
        let awkward = dice.once_in(3);
        case.check(&mut dice, &on[round % on.len()..][..1], dtype, awkward);
    }
}

#[test]
fn weights_that_are_read_often() {
    let mut dice = Dice::new(29);
    let on: Vec<_> = Isa::with_kernels().into_iter().map(|isa| CpuDevice::new(isa, 2).unwrap()).collect();
    for (channels, outs, dtype) in
        [(70, 48, DType::F32), (30, 80, DType::F32), (29, 32, DType::F64), (64, 64, DType::BF16)]
    {
        let c = two(2, channels, outs, 15, 3, 1).c;
        for (i, d) in on.iter().enumerate() {
            let mut make =
                |shape: &[usize]| Operand::contiguous(dice.data(dtype, shape.iter().product(), false), shape);
            let x = make(&[2, channels, 15, 15]);
            let w = make(&[outs, channels, 3, 3]);
            let bias = make(&[2, outs, 15, 15]);
            let out = [15, 15];
            let (views, bias_view) = ((x.reference(), w.reference()), bias.reference());
            let want = Reference::conv(
                &ReferenceDevice,
                &c,
                views.0,
                views.1,
                &out,
                Some(AddBias::object(&Compiled(AddBias))),
                &[bias_view],
            );
            let want = want.unwrap();
            // They are packed at some time; another instruction set does not read the copy.
            for (time, d) in std::iter::repeat_n(d, 10).chain([&on[(i + 1) % on.len()]]).enumerate() {
                let got = Cpu::conv(
                    d,
                    &c,
                    x.cpu(),
                    w.cpu(),
                    &out,
                    Some(AddBias::object(&Compiled(AddBias))),
                    &[bias.cpu()],
                )
                .unwrap();
                same(&got, &want, &format!("time {time} on {d:?}, {dtype}, {channels} to {outs}"));
            }
        }
    }
}
