//! Convolutions, pools and batch norm.

use super::{both_ways, forward};
use crate::Data;
use crate::row::{Group, Row};
use elinvar::nn::layers::BatchNorm2d;
use elinvar::nn::{Layer, Param};
use elinvar::{Any, DType, Device, Tensor};

/// n images of c channels and h x h pixels, to k channels with a kernel of r x r.
#[derive(Clone, Copy)]
struct Conv {
    n: usize,
    c: usize,
    k: usize,
    h: usize,
    r: usize,
    stride: usize,
    padding: usize,
    groups: usize,
}

impl Conv {
    const fn new([c, k, h, r, stride, padding, groups]: [usize; 7]) -> Conv {
        Conv { n: 8, c, k, h, r, stride, padding, groups }
    }
    fn shape(&self) -> String {
        let Conv { n, c, k, h, r, stride, padding, groups } = self;
        format!("n{n}_c{c}_k{k}_h{h}_r{r}_s{stride}_p{padding}_g{groups}")
    }
    fn input(&self) -> [usize; 4] {
        [self.n, self.c, self.h, self.h]
    }
    fn weight(&self) -> [usize; 4] {
        [self.k, self.c / self.groups, self.r, self.r]
    }
    fn output(&self) -> [usize; 4] {
        let side = (self.h + 2 * self.padding - self.r) / self.stride + 1;
        [self.n, self.k, side, side]
    }
    fn flops(&self) -> usize {
        let taps: usize = self.weight()[1..].iter().product();
        2 * taps * self.output().iter().product::<usize>()
    }
    fn bytes(&self) -> usize {
        let size = |s: [usize; 4]| s.iter().product::<usize>();
        4 * (size(self.input()) + size(self.weight()) + size(self.output()))
    }
    fn run(&self, x: &Tensor, w: &Tensor) -> Tensor {
        x.conv2d(w, None, self.stride, self.padding, 1, self.groups)
    }
    fn rows(self) -> [Row; 2] {
        let forwards = Row::new(Group::Conv, "conv2d_f", self.shape(), DType::F32, move |data| {
            let (x, w) = (data.floats(&self.input()), data.floats(&self.weight()));
            forward(move || self.run(&x, &w))
        });
        let both = Row::new(Group::Conv, "conv2d_fb", self.shape(), DType::F32, move |data| {
            let (x, w) = (data.variable(&self.input()), data.variable(&self.weight()));
            let variables = vec![x.clone(), w.clone()];
            both_ways(move || self.run(&x, &w), variables)
        });
        [
            forwards.flops(self.flops()).bytes(self.bytes()),
            both.flops(3 * self.flops()).bytes(3 * self.bytes()).recorded(),
        ]
    }
}

/// The first layer of a ResNet, two layers of its middle, one of its 1 x 1 layers, and a depthwise
/// one of MobileNet: c, k, h, r, stride, padding, groups.
const CONVS: [Conv; 5] = [
    Conv::new([3, 64, 224, 7, 2, 3, 1]),
    Conv::new([64, 64, 56, 3, 1, 1, 1]),
    Conv::new([256, 256, 14, 3, 1, 1, 1]),
    Conv::new([256, 1024, 14, 1, 1, 0, 1]),
    Conv::new([144, 144, 56, 3, 1, 1, 144]),
];

const POOLED: [usize; 4] = [8, 64, 112, 112];
const NORMED: [usize; 4] = [8, 64, 56, 56];

/// Max pool with windows of `kernel`, `stride` apart; half as many pixels a side.
fn pool(x: &Tensor, [kernel, stride, padding]: [usize; 3]) -> Tensor {
    x.max_pool2d([kernel], [stride], [padding], [1], false)
}

fn pool_bytes() -> usize {
    let n: usize = POOLED.iter().product();
    4 * (n + n / 4)
}

fn pool_forward(shape: &'static str, window: [usize; 3]) -> Row {
    Row::new(Group::Conv, "maxpool_f", shape, DType::F32, move |data| {
        let x = data.floats(&POOLED);
        forward(move || pool(&x, window))
    })
    .bytes(pool_bytes())
}

fn pool_both() -> Row {
    Row::new(Group::Conv, "maxpool_fb", "8x64x112x112_k2s2", DType::F32, |data| {
        let x = data.variable(&POOLED);
        let variables = vec![x.clone()];
        both_ways(move || pool(&x, [2, 2, 0]), variables)
    })
    .bytes(2 * pool_bytes())
    .recorded()
}

/// A layer in training mode, which updates its running statistics.
fn norm(data: &mut Data<Device>) -> BatchNorm2d<Any> {
    let mut layer = BatchNorm2d::new(NORMED[1], &data.device);
    layer.weight = Some(Param::new(data.floats(&NORMED[1..2])));
    layer.bias = Some(Param::new(data.floats(&NORMED[1..2])));
    layer
}

fn norms() -> [Row; 2] {
    let n: usize = NORMED.iter().product();
    let forwards = Row::new(Group::Conv, "batchnorm_f", "8x64x56x56", DType::F32, |data| {
        let (x, layer) = (data.floats(&NORMED), norm(data));
        forward(move || layer.forward(&x))
    });
    let both = Row::new(Group::Conv, "batchnorm_fb", "8x64x56x56", DType::F32, |data| {
        let (x, layer) = (data.variable(&NORMED), norm(data));
        let weights = [&layer.weight, &layer.bias].map(|p| p.as_ref().map(Param::get));
        let variables = weights.into_iter().flatten().chain([x.clone()]).collect();
        both_ways(move || layer.forward(&x), variables)
    });
    [forwards.bytes(8 * n), both.bytes(20 * n).recorded()]
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = CONVS.into_iter().flat_map(Conv::rows).collect();
    rows.push(pool_forward("8x64x112x112_k2s2", [2, 2, 0]));
    rows.push(pool_both());
    rows.push(pool_forward("8x64x112x112_k3s2p1", [3, 2, 1]));
    rows.extend(norms());
    rows
}
