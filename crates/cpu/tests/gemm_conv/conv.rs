//! Convolutions and their gradients against the reference, by bits.

mod paths;

use crate::tools::{Dice, Operand, devices, rounds, same};
use elinvar_core::{DType, HostData, Precision, bf16};
use elinvar_cpu::{Cpu, CpuDevice, Isa};
use elinvar_ops::backend::Compute;
use elinvar_ops::backend::{AddBias, CompiledEpilogue, Conv};
use elinvar_ops::map::Compiled;
use elinvar_reference::{Reference, ReferenceDevice};

/// Sizes of a convolution.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub images: usize,
    /// Channels in and out, of each group.
    pub channels: usize,
    pub outs: usize,
    pub plane: Vec<usize>,
    pub taps: Vec<usize>,
    pub c: Conv,
}

impl Case {
    pub(crate) fn out(&self) -> Vec<usize> {
        let c = &self.c;
        (0..self.plane.len())
            .map(|a| {
                let reach = c.dilation[a] * (self.taps[a] - 1) + 1;
                (self.plane[a] + 2 * c.padding[a] - reach) / c.stride[a] + 1
            })
            .collect()
    }
    /// Forward and both gradients on all devices. `awkward`: any strides, and numbers that are not
    /// finite.
    pub fn check(&self, dice: &mut Dice, on: &[CpuDevice], dtype: DType, awkward: bool) {
        self.check_of(on, |shape| {
            if awkward {
                let wild = dice.once_in(2);
                dice.operand(dtype, shape, wild)
            } else {
                Operand::contiguous(dice.data(dtype, shape.iter().product(), false), shape)
            }
        });
    }
    /// The same, of any operands.
    pub(crate) fn check_of(&self, on: &[CpuDevice], mut make: impl FnMut(&[usize]) -> Operand) {
        let (c, out, groups) = (&self.c, self.out(), self.c.groups);
        let sizes = |a: usize, b: usize, rest: &[usize]| [&[a, b], rest].concat();
        let xs = sizes(self.images, groups * self.channels, &self.plane);
        let ws = sizes(groups * self.outs, self.channels, &self.taps);
        let ys = sizes(self.images, groups * self.outs, &out);
        let (x, w, g, bias) = (make(&xs), make(&ws), make(&ys), make(&ys));
        let dtype = x.data.dtype();
        macro_rules! run {
            ($backend:ident, $device:expr, $view:ident) => {
                [
                    $backend::conv($device, c, x.$view(), w.$view(), &out, None, &[]),
                    $backend::conv(
                        $device,
                        c,
                        x.$view(),
                        w.$view(),
                        &out,
                        Some(AddBias::object(&Compiled(AddBias))),
                        &[bias.$view()],
                    ),
                    $backend::conv_input_grad($device, c, g.$view(), w.$view(), &self.plane),
                    $backend::conv_weight_grad($device, c, x.$view(), g.$view(), &self.taps),
                ]
                .map(|y| y.unwrap())
            };
        }
        let want = run!(Reference, &ReferenceDevice, reference);
        for d in on {
            for (i, (got, want)) in run!(Cpu, d, cpu).iter().zip(&want).enumerate() {
                let what = ["y", "y + bias", "dx", "dw"][i];
                same(got, want, &format!("{what} on {d:?}, {dtype}: {self:?} {:?} {:?}", x.layout, w.layout));
            }
        }
    }
}

/// Any sizes over one to three axes.
pub(crate) fn draw(dice: &mut Dice) -> Case {
    let rank = 1 + dice.below(3);
    let groups = dice.pick(&[1, 1, 2, 3]);
    let mut case = Case {
        images: 1 + dice.below(3),
        channels: dice.pick(&[1, 2, 3, 17]),
        outs: dice.pick(&[1, 2, 5, 16, 33]),
        plane: vec![],
        taps: vec![],
        c: Conv { stride: vec![], padding: vec![], dilation: vec![], groups, precision: Precision::Exact },
    };
    for _ in 0..rank {
        let (tap, stride, dilation) = (1 + dice.below(3), 1 + dice.below(3), 1 + dice.below(2));
        let padding = dice.below(4);
        let reach = dilation * (tap - 1) + 1;
        case.plane.push(reach.saturating_sub(2 * padding).max(1) + dice.below([60, 9, 4][rank - 1]));
        case.taps.push(tap);
        case.c.stride.push(stride);
        case.c.padding.push(padding);
        case.c.dilation.push(dilation);
    }
    case
}

#[test]
fn any_window_strides_dtypes_and_values() {
    let (mut dice, on) = (Dice::new(11), devices());
    for round in 0..250 {
        let case = draw(&mut dice);
        let dtype = dice.pick(&DType::FLOATS);
        let awkward = dice.once_in(2);
        let d = [on[round % on.len()].clone(), on[round * 7 % on.len()].clone()];
        case.check(&mut dice, &d, dtype, awkward);
    }
}

/// Two dimensions, all sizes the same along both, and padding of half a window.
pub(crate) fn two(
    images: usize,
    channels: usize,
    outs: usize,
    plane: usize,
    taps: usize,
    stride: usize,
) -> Case {
    let c = Conv {
        stride: vec![stride; 2],
        padding: vec![taps / 2; 2],
        dilation: vec![1; 2],
        groups: 1,
        precision: Precision::Exact,
    };
    Case { images, channels, outs, plane: vec![plane; 2], taps: vec![taps; 2], c }
}

#[test]
fn long_sums() {
    let mut dice = Dice::new(12);
    let on: Vec<_> = devices().into_iter().filter(|d| d.isa() == Isa::best() || d.threads() == 2).collect();
    // 57 channels of 9 taps are 513 terms, 114 are 1026; 3 images of 16 by 16 are 768.
    two(3, 57, 9, 16, 3, 1).check(&mut dice, &on, DType::F32, false);
    two(1, 114, 60, 6, 3, 2).check(&mut dice, &on, DType::F32, false);
    two(2, 10, 114, 5, 3, 2).check(&mut dice, &on, DType::F64, false);
    two(9, 3, 2, 8, 1, 1).check(&mut dice, &on, DType::F32, false);
    two(2, 513, 3, 4, 1, 1).check(&mut dice, &on, DType::F32, false);
}

#[test]
fn every_run_edge() {
    // Rows of all lengths around a register and a panel; with 2 images there are terms of both in a
    // chunk.
    let mut dice = Dice::new(13);
    let on: Vec<_> = Isa::with_kernels().into_iter().map(|isa| CpuDevice::new(isa, 2).unwrap()).collect();
    for n in (1..=35).chain([63, 64, 65, 300]) {
        for stride in [1, 2] {
            let c = Conv {
                stride: vec![1, stride],
                padding: vec![1, 2],
                dilation: vec![1, 1],
                groups: 1,
                precision: Precision::Exact,
            };
            let case = Case { images: 2, channels: 2, outs: 3, plane: vec![3, n], taps: vec![3, 3], c };
            case.check(&mut dice, &on, DType::F32, false);
        }
    }
}

#[test]
fn registers_of_one_row_and_of_two() {
    // Enough results for tiles, and rows that end anywhere in a register; the last ones are of a
    // plane too large to be read so.
    let mut dice = Dice::new(19);
    let on: Vec<_> = Isa::with_kernels().into_iter().map(|isa| CpuDevice::new(isa, 2).unwrap()).collect();
    for n in (14..=36).chain([47, 48, 49, 63, 64, 65, 130]) {
        let c = Conv {
            stride: vec![1, 1 + n % 2],
            padding: vec![1, n % 3],
            dilation: vec![1, 1 + n % 4 / 2],
            groups: 1 + n % 5 / 4,
            precision: Precision::Exact,
        };
        let case = Case { images: 2, channels: 3, outs: 4 + n % 13, plane: vec![7, n], taps: vec![3, 3], c };
        case.check(&mut dice, &on, if n % 7 == 0 { DType::F64 } else { DType::F32 }, n % 6 == 0);
    }
    let c = Conv {
        stride: vec![1; 3],
        padding: vec![1; 3],
        dilation: vec![1; 3],
        groups: 1,
        precision: Precision::Exact,
    };
    let case = Case { images: 1, channels: 2, outs: 5, plane: vec![3, 4, 21], taps: vec![3; 3], c };
    case.check(&mut dice, &on, DType::F32, true);
    two(1, 62, 16, 40, 3, 1).check(&mut dice, &on[on.len() - 1..], DType::F32, false);
    two(1, 300, 4, 17, 3, 1).check(&mut dice, &on[on.len() - 1..], DType::F32, false);
    two(1, 520, 4, 17, 3, 1).check(&mut dice, &on[on.len() - 1..], DType::F32, false);
}

#[test]
fn taps_as_rows() {
    // Rows of windows long enough for taps that are read in place: planes with padding and
    // without, terms of several images in a chunk, panels that are not whole, and as many rows as
    // make tiles of all heights.
    let mut dice = Dice::new(22);
    let on: Vec<_> = Isa::with_kernels().into_iter().map(|isa| CpuDevice::new(isa, 2).unwrap()).collect();
    for (i, n) in [12, 13, 14, 16, 24, 30, 33, 64].into_iter().enumerate() {
        for padding in [0, 1, 2] {
            let c = Conv {
                stride: vec![1; 2],
                padding: vec![i % 3, padding],
                dilation: vec![1 + i % 2, 1],
                groups: 1,
                precision: Precision::Exact,
            };
            let plane = vec![4 + (i + padding) % 7, n + 2 - 2 * padding];
            let taps = vec![1 + (i + padding) % 3, 3];
            let (channels, outs) = (1 + (5 * i + 3 * padding) % 19, [3, 17, 32, 40, 65][(i + padding) % 5]);
            let case = Case { images: 1 + i % 4 * 2, channels, outs, plane, taps, c };
            case.check(&mut dice, &on, if i == 3 { DType::F64 } else { DType::F32 }, i % 4 == 1);
        }
    }
}

#[test]
fn small_planes() {
    // A few columns more or less than a panel; 60 channels of 9 taps are two chunks.
    let mut dice = Dice::new(21);
    let on: Vec<_> = Isa::with_kernels().into_iter().map(|isa| CpuDevice::new(isa, 2).unwrap()).collect();
    for (images, channels, outs, plane, taps) in [
        (5, 60, 13, 7, 3),
        (9, 3, 33, 3, 3),
        (40, 7, 4, 1, 1),
        (3, 530, 6, 7, 1),
        (4, 4, 17, 14, 3),
        (2, 5, 16, 9, 2),
    ] {
        two(images, channels, outs, plane, taps, 1).check(&mut dice, &on, DType::F32, images == 4);
    }
    two(5, 2, 9, 5, 3, 2).check(&mut dice, &on, DType::F64, true);
}

#[test]
fn planes_as_they_lie() {
    // Three by three taps, one channel in a group: any heights, widths around one register to nine,
    // and any padding, also such that registers in the midst of a row see what is beside the plane.
    let mut dice = Dice::new(20);
    let on: Vec<_> = Isa::with_kernels().into_iter().map(|isa| CpuDevice::new(isa, 2).unwrap()).collect();
    for (i, h) in (1..=5).chain([9, 16]).enumerate() {
        for (j, w) in [1, 2, 3, 7, 8, 9, 15, 16, 17, 24, 33, 48, 56, 65, 113, 140].into_iter().enumerate() {
            let beside = if w > 16 && (i + j) % 3 == 2 { 17 } else { (i + 2 * j) % 5 };
            let padding = vec![(i + j) % 4, beside];
            if h + 2 * padding[0] < 3 || w + 2 * padding[1] < 5 {
                continue;
            }
            let c = Conv {
                stride: vec![1; 2],
                padding,
                dilation: vec![1, 1 + (i + j) % 2],
                groups: 3,
                precision: Precision::Exact,
            };
            let case =
                Case { images: 2, channels: 1, outs: 1 + j % 2, plane: vec![h, w], taps: vec![3; 2], c };
            case.check(&mut dice, &on, if i == 4 { DType::F64 } else { DType::F32 }, j % 3 == 0);
        }
    }
}

#[test]
fn one_channel_for_each_group() {
    let (mut dice, on) = (Dice::new(14), devices());
    for (groups, outs, plane, stride) in [(5, 1, 20, 1), (3, 2, 33, 2), (70, 1, 5, 1)] {
        let c = Conv {
            stride: vec![stride; 2],
            padding: vec![1; 2],
            dilation: vec![1; 2],
            groups,
            precision: Precision::Exact,
        };
        let case = Case { images: 2, channels: 1, outs, plane: vec![plane; 2], taps: vec![3; 2], c };
        case.check(&mut dice, &on, DType::F32, true);
        case.check(&mut dice, &on, DType::F64, false);
    }
}

#[test]
fn many_groups_side_by_side() {
    // Groups around a register of them; three images of 13 by 17 are 663 terms of a weight, a chunk
    // ends within a line.
    let (mut dice, on) = (Dice::new(16), devices());
    for (groups, channels, outs) in [(4, 1, 1), (15, 1, 2), (16, 2, 1), (17, 2, 2), (33, 1, 1), (34, 1, 4)] {
        for stride in [1, 2, 3] {
            let c = Conv {
                stride: vec![1, stride],
                padding: vec![1, 2],
                dilation: vec![1, stride],
                groups,
                precision: Precision::Exact,
            };
            let case = Case { images: 3, channels, outs, plane: vec![13, 17], taps: vec![3, 3], c };
            case.check(&mut dice, &on[..on.len().min(4 + stride)], DType::F32, stride == 2);
            case.check(&mut dice, &on[on.len() - 2..], DType::F64, false);
        }
    }
}

#[test]
fn groups_of_some_channels() {
    // Passes of three and four channels over rows that units fill, or nearly; more terms than a
    // chunk has.
    let (mut dice, on) = (Dice::new(23), devices());
    for (outs, channels, groups, width) in
        [(4, 4, 3, 14), (5, 2, 2, 30), (8, 8, 2, 14), (7, 58, 1, 16), (16, 3, 1, 12), (9, 6, 2, 13)]
    {
        for stride in [1, 2] {
            let c = Conv {
                stride: vec![stride; 2],
                padding: vec![1; 2],
                dilation: vec![1; 2],
                groups,
                precision: Precision::Exact,
            };
            let plane = vec![5 * stride, width * stride];
            let case = Case { images: 2, channels, outs, plane, taps: vec![3; 2], c };
            for dtype in [DType::F32, DType::F64] {
                let awkward = dice.once_in(2);
                let d = [on[dice.below(on.len())].clone(), on[dice.below(on.len())].clone()];
                case.check(&mut dice, &d, dtype, awkward);
            }
        }
    }
}

#[test]
fn few_results_of_many_terms() {
    // Forward with one to four results, and with as many channels the gradient by x; 64 channels of
    // 9 taps are 576 terms, and several bands of rows.
    let (mut dice, on) = (Dice::new(17), devices());
    let on: Vec<_> = on.into_iter().filter(|d| d.threads() == 2).collect();
    for few in 1..=4 {
        for stride in [1, 2] {
            let c = Conv {
                stride: vec![stride; 2],
                padding: vec![1, 0],
                dilation: vec![1; 2],
                groups: 1,
                precision: Precision::Exact,
            };
            for (channels, outs) in [(64, few), (few, 64)] {
                let plane = vec![24, 37];
                let case = Case { images: 1, channels, outs, plane, taps: vec![3, 3], c: c.clone() };
                case.check(&mut dice, &on, if few == 2 { DType::F64 } else { DType::F32 }, few == 3);
            }
        }
    }
}

#[test]
fn long_lines() {
    // Lines that are padded part by part.
    let mut dice = Dice::new(18);
    let on: Vec<_> = Isa::with_kernels().into_iter().map(|isa| CpuDevice::new(isa, 2).unwrap()).collect();
    for (channels, outs, plane, stride) in
        [(2, 5, vec![2100], 1), (3, 4, vec![4200], 2), (32, 2, vec![2500], 1), (1, 1, vec![2, 2050], 1)]
    {
        let rank = plane.len();
        let c = Conv {
            stride: vec![stride; rank],
            padding: vec![1; rank],
            dilation: vec![2; rank],
            groups: 1,
            precision: Precision::Exact,
        };
        let case = Case { images: 2, channels, outs, plane, taps: vec![2; rank], c };
        case.check(&mut dice, &on, DType::F32, false);
    }
}

#[test]
fn nothing_to_convolve() {
    let (mut dice, on) = (Dice::new(15), devices());
    for (images, channels, outs) in [(0, 2, 3), (2, 0, 3), (2, 3, 0)] {
        let mut case = two(images, channels, outs, 5, 3, 1);
        case.check(&mut dice, &on, DType::F32, false);
        case.c.stride = vec![2, 3];
        case.check(&mut dice, &on, DType::F16, false);
    } // Planes without elements, whose windows see padding alone.
    for (channels, outs) in [(3, 2), (3, 64), (70, 9), (30, 64)] {
        let mut case = two(2, channels, outs, 5, 3, 1);
        case.plane = vec![0, 5];
        case.c.padding = vec![2, 1];
        case.check(&mut dice, &on, DType::F32, false);
        case.c.stride = vec![1, 2];
        case.check(&mut dice, &on, DType::F32, false);
    }
    let mut depthwise = two(2, 1, 1, 5, 3, 1);
    (depthwise.plane, depthwise.c.padding, depthwise.c.groups) = (vec![0, 5], vec![2, 1], 40);
    depthwise.check(&mut dice, &on, DType::F32, false);
}
