//! Whole steps of training: forward, cross entropy, backward, Adam. The batch is on the device.

use crate::harness::done;
use crate::models::{Cnn, Gpt, GptSizes};
use crate::row::{Group, Row};
use elinvar::nn::loss::cross_entropy;
use elinvar::nn::models::Mlp;
use elinvar::nn::optim::{Adam, Optimizer};
use elinvar::nn::{Layer, Module};
use elinvar::{Any, DType, Result, Tensor};

/// Small enough that training on random labels, repeated over and over, does not diverge.
const LR: f64 = 1e-4;

/// A step of a network; `loss` is that of the batch.
fn step<M: Module<Any> + 'static>(net: M, loss: impl Fn(&M) -> Result<Tensor>) -> impl FnMut() -> Result<()> {
    let mut adam = Adam::new(LR);
    move || {
        adam.step(&net, &loss(&net)?.backward())?;
        net.parameters().iter().try_for_each(|p| done(&p.get()))
    }
}

fn mlp() -> Row {
    const SIZES: [usize; 4] = [784, 512, 512, 10];
    const BATCH: usize = 128;
    let weights: usize = SIZES.windows(2).map(|s| s[0] * s[1]).sum();
    Row::new(Group::Training, "train_mlp", "784-512-512-10_b128", DType::F32, |data| {
        let net = Mlp::new(&SIZES, &mut data.generator, &data.device).expect("there are two sizes and more");
        let (x, y) = (data.floats(&[BATCH, SIZES[0]]), data.numbers(&[BATCH], 10));
        step(net, move |net| Ok(cross_entropy(&net.forward(&x), &y)))
    })
    // The first layer's input needs no gradient.
    .flops(2 * BATCH * (3 * weights - SIZES[0] * SIZES[1]))
    .recorded()
}

fn cnn() -> Row {
    const BATCH: usize = 64;
    let first = 2 * BATCH * 26 * 26 * 32 * 9;
    let second = 2 * BATCH * 24 * 24 * 64 * 32 * 9;
    let linear = 2 * BATCH * (9216 * 128 + 128 * 10);
    Row::new(Group::Training, "train_cnn", "conv32-conv64-pool-fc128_b64_28x28", DType::F32, |data| {
        let net = Cnn::new(&mut data.generator, &data.device);
        let (x, y) = (data.floats(&[BATCH, 1, 28, 28]), data.numbers(&[BATCH], 10));
        step(net, move |net| Ok(cross_entropy(&net.forward(&x), &y)))
    })
    .flops(2 * first + 3 * second + 3 * linear)
    .recorded()
}

fn gpt() -> Row {
    const SIZES: GptSizes = GptSizes { layers: 4, features: 256, heads: 8, context: 128, vocabulary: 512 };
    const BATCH: usize = 8;
    let GptSizes { layers, features: e, heads, context: t, vocabulary } = SIZES;
    let linear = 2 * BATCH * t * (layers * 12 * e * e + e * vocabulary);
    let attention = layers * 4 * BATCH * heads * t * t * (e / heads);
    Row::new(Group::Training, "train_gpt", "L4_d256_h8_s128_v512_b8", DType::F32, move |data| {
        let net = Gpt::new(SIZES, &mut data.generator, &data.device);
        let x = data.numbers(&[BATCH, t], vocabulary as i64);
        let y = data.numbers(&[BATCH * t], vocabulary as i64);
        step(net, move |net: &Gpt<Any>| Ok(cross_entropy(&net.forward(&x)?.flatten(0, -2), &y)))
    })
    .flops(3 * (linear + attention))
    .recorded()
}

pub(super) fn rows() -> Vec<Row> {
    vec![mlp(), cnn(), gpt()]
}
