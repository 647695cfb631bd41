//! Whole steps of training: forward, cross entropy, backward, Adam. The batch is on the device.
//! Each step as it is, and captured (`TrainStep`).

use super::boxed;
use crate::data::Data;
use crate::harness::done;
use crate::models::{Cnn, CnnSizes, Gpt, GptSizes};
use crate::row::{Group, Row, Task};
use elinvar::nn::loss::cross_entropy;
use elinvar::nn::models::{Bert, BertConfig, Mlp};
use elinvar::nn::optim::{Adam, AdamW, Optimizer};
use elinvar::nn::train::{Measured, TrainStep};
use elinvar::nn::{Layer, Module};
use elinvar::ops::Backend;
use elinvar::{DType, DeviceOf, Result, Tensor, autocast};

/// Small enough that training on random labels, repeated over and over, does not diverge.
const LR: f64 = 1e-4;

/// A network whose step is measured, or counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Four linear layers.
    Mlp,
    /// Two convolutions and two linear layers.
    Cnn,
    /// A small GPT-2.
    Gpt,
    /// A sentence encoder of six layers.
    Bert,
}

impl Model {
    /// All of them.
    pub const ALL: [Model; 4] = [Model::Mlp, Model::Cnn, Model::Gpt, Model::Bert];
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Model::Mlp => "mlp",
            Model::Cnn => "cnn",
            Model::Gpt => "gpt",
            Model::Bert => "bert",
        }
    }
    /// A step of it, on any device.
    ///
    /// # Errors
    /// The device's errors.
    pub(crate) fn step<D: DeviceOf + Clone + 'static>(
        self,
        kind: impl Into<Kind>,
        data: &mut Data<D>,
    ) -> Result<Task> {
        self.step_of(Sizes::Usual, kind, data)
    }
    /// The same of these sizes. BERT has the usual ones only.
    pub(crate) fn step_of<D: DeviceOf + Clone + 'static>(
        self,
        sizes: Sizes,
        kind: impl Into<Kind>,
        data: &mut Data<D>,
    ) -> Result<Task> {
        let kind = kind.into();
        let is_usual = sizes == Sizes::Usual;
        match self {
            Model::Mlp if is_usual => mlp_step(kind, &MLP_SIZES, MLP_BATCH, data),
            Model::Mlp => mlp_step(kind, &[2; 4], 1, data),
            Model::Cnn => cnn_step(kind, if is_usual { CNN_SIZES } else { CnnSizes::LEAST }, data),
            Model::Gpt if is_usual => gpt_step(kind, GPT_SIZES, GPT_BATCH, data),
            Model::Gpt => {
                let least = GptSizes { features: 2, heads: 1, context: 2, vocabulary: 2, ..GPT_SIZES };
                gpt_step(kind, least, 1, data)
            }
            Model::Bert => bert_step(kind, data),
        }
    }
}

/// How large the tensors of a step are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sizes {
    /// As measured.
    Usual,
    /// As small as the network allows: the same calls, and next to nothing to compute.
    Least,
}

/// How a step is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// Call by call.
    Plain,
    /// Recorded once, and replayed.
    Captured,
}

/// What differs between steps of one network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// How it is made.
    pub made: Made,
    /// Automatic mixed precision.
    pub amp: Option<DType>,
    /// With AdamW instead of Adam.
    pub decays: bool,
}

impl Kind {
    /// The kinds that are counted: plain and captured, of f32 and in mixed precision.
    pub const COUNTED: [Kind; 4] = {
        let half = Some(DType::BF16);
        [
            Kind { made: Made::Plain, amp: None, decays: false },
            Kind { made: Made::Captured, amp: None, decays: false },
            Kind { made: Made::Plain, amp: half, decays: false },
            Kind { made: Made::Captured, amp: half, decays: false },
        ]
    };
}

impl From<Made> for Kind {
    fn from(made: Made) -> Kind {
        Kind { made, amp: None, decays: false }
    }
}

/// A step of a network; `loss` is that of the batch.
pub(crate) fn step<B: Backend, M: Module<B> + 'static>(
    kind: impl Into<Kind>,
    net: M,
    batch: Vec<Tensor<B>>,
    loss: impl Fn(&M, &[Tensor<B>]) -> Result<Tensor<B>> + Sync + 'static,
) -> Result<Task> {
    let Kind { made, amp, decays } = kind.into();
    let mut adam: Box<dyn Optimizer<B>> =
        if decays { Box::new(AdamW::new(LR)) } else { Box::new(Adam::new(LR)) };
    let finish = |net: &M| net.parameters().iter().try_for_each(|p| done(&p.get()));
    Ok(match made {
        Made::Plain => boxed(move || {
            let loss = match amp {
                Some(half) => autocast(half, || loss(&net, &batch))?,
                None => loss(&net, &batch)?,
            };
            adam.step(&net, &loss.backward())?;
            finish(&net)
        }),
        Made::Captured => {
            // A captured step borrows its network, and a task lives as long as it likes: this one
            // is never freed. A process measures a few.
            let net: &'static M = Box::leak(Box::new(net));
            let objective = move |net: &M, batch: &Vec<Tensor<B>>| {
                Ok(Measured { loss: loss(net, batch)?, samples: 1, metrics: vec![] })
            };
            let mut step = TrainStep::new(net, objective).capture();
            if let Some(half) = amp {
                step = step.amp(half);
            }
            boxed(move || {
                step.run(&mut *adam, std::slice::from_ref(&batch))?;
                finish(net)
            })
        }
    })
}

const MLP_SIZES: [usize; 4] = [784, 512, 512, 10];
const MLP_BATCH: usize = 128;

/// A step of an mlp of these sizes, the last of which are classes.
fn mlp_step<D: DeviceOf + Clone + 'static>(
    kind: impl Into<Kind>,
    sizes: &[usize],
    batch: usize,
    data: &mut Data<D>,
) -> Result<Task> {
    let net = Mlp::new(sizes, &mut data.generator, &data.device)?;
    let classes = sizes.last().map_or(0, |&n| n as i64);
    let batch = vec![data.floats(&[batch, sizes[0]]), data.numbers(&[batch], classes)];
    step(kind, net, batch, |net: &Mlp<D::Backend>, xy| Ok(cross_entropy(&net.forward(&xy[0]), &xy[1])))
}

const CNN_BATCH: usize = 64;
const CNN_SIZES: CnnSizes = CnnSizes { side: 28, channels: [32, 64], inner: 128, batch: CNN_BATCH };

fn cnn_step<D: DeviceOf + Clone + 'static>(kind: Kind, s: CnnSizes, data: &mut Data<D>) -> Result<Task> {
    let net = Cnn::new(s, &mut data.generator, &data.device);
    let batch = vec![data.floats(&[s.batch, 1, s.side, s.side]), data.numbers(&[s.batch], 10)];
    step(kind, net, batch, |net: &Cnn<D::Backend>, xy| Ok(cross_entropy(&net.forward(&xy[0]), &xy[1])))
}

const GPT_SIZES: GptSizes = GptSizes { layers: 4, features: 256, heads: 8, context: 128, vocabulary: 512 };
const GPT_BATCH: usize = 8;

fn gpt_step<D: DeviceOf + Clone + 'static>(
    kind: Kind,
    sizes: GptSizes,
    batch: usize,
    data: &mut Data<D>,
) -> Result<Task> {
    let GptSizes { context: t, vocabulary, .. } = sizes;
    let net = Gpt::new(sizes, &mut data.generator, &data.device);
    let x = data.numbers(&[batch, t], vocabulary as i64);
    let y = data.numbers(&[batch * t], vocabulary as i64);
    step(kind, net, vec![x, y], |net: &Gpt<D::Backend>, xy| {
        Ok(cross_entropy(&net.forward(&xy[0])?.flatten(0, -2), &xy[1]))
    })
}

/// Towards the zero vector, so that the encoder has a gradient.
fn bert_step<D: DeviceOf + Clone + 'static>(kind: Kind, data: &mut Data<D>) -> Result<Task> {
    const TOKENS: usize = 1024;
    let (layers, heads, features, inner) = (6, 12, 384, 1536);
    let config = BertConfig::new(layers, heads, features, inner, 512, TOKENS);
    let net = Bert::<D::Backend>::new(config, &mut data.generator, &data.device)?;
    let x = data.numbers(&[8, 64], TOKENS as i64);
    step(kind, net, vec![x], |net: &Bert<D::Backend>, x| Ok(net.forward(&x[0], None, None).square().mean()))
}

fn row(model: Model, shape: &str) -> Row {
    Row::new_task(Group::Training, format!("train_{}", model.word()), shape, DType::F32, move |data| {
        model.step(Made::Plain, data)
    })
    .also_graph(move |data| model.step(Made::Captured, data))
    .recorded()
}

fn mlp() -> Row {
    let weights: usize = MLP_SIZES.windows(2).map(|s| s[0] * s[1]).sum();
    // The first layer's input needs no gradient.
    row(Model::Mlp, "784-512-512-10_b128").flops(2 * MLP_BATCH * (3 * weights - MLP_SIZES[0] * MLP_SIZES[1]))
}

fn cnn() -> Row {
    let first = 2 * CNN_BATCH * 26 * 26 * 32 * 9;
    let second = 2 * CNN_BATCH * 24 * 24 * 64 * 32 * 9;
    let linear = 2 * CNN_BATCH * (9216 * 128 + 128 * 10);
    row(Model::Cnn, "conv32-conv64-pool-fc128_b64_28x28").flops(2 * first + 3 * second + 3 * linear)
}

fn gpt() -> Row {
    let GptSizes { layers, features: e, heads, context: t, vocabulary } = GPT_SIZES;
    let linear = 2 * GPT_BATCH * t * (layers * 12 * e * e + e * vocabulary);
    let attention = layers * 4 * GPT_BATCH * heads * t * t * (e / heads);
    row(Model::Gpt, "L4_d256_h8_s128_v512_b8").flops(3 * (linear + attention))
}

pub(super) fn rows() -> Vec<Row> {
    vec![mlp(), cnn(), gpt()]
}
