//! GPT-2 of 124 million parameters: a step of training in each precision, and a token that is
//! written. They take gigabytes and, on a processor, minutes; run only when asked for by name.
//!
//! `ELINVAR_BENCH_TINY=1` makes the same rows of a model that any device runs in a moment, so that
//! what measures them can be tried.

use super::boxed;
use super::training::{Kind, Made, step};
use crate::data::Data;
use crate::harness::done;
use crate::row::{Group, Row, Task};
use elinvar::nn::Module;
use elinvar::nn::decoder::Decoder;
use elinvar::nn::generate::CausalLm;
use elinvar::nn::loss::cross_entropy;
use elinvar::nn::models::{Gpt2, Gpt2Config};
use elinvar::nn::{Layer, layers::KvCache};
use elinvar::{Any, DType, Device, Precision, Result, Tensor, no_grad, try_run};
use std::sync::Arc;

/// Sizes of a model, and of its batch.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    layers: usize,
    heads: usize,
    width: usize,
    context: usize,
    vocabulary: usize,
    batch: usize,
}

/// The vocabulary is padded to a multiple of 128, as it is usual in training.
const GPT2: Sizes = Sizes { layers: 12, heads: 12, width: 768, context: 1024, vocabulary: 50304, batch: 8 };
const TINY: Sizes = Sizes { layers: 2, heads: 2, width: 16, context: 32, vocabulary: 64, batch: 2 };

impl Sizes {
    fn of_environment() -> Sizes {
        if std::env::var_os("ELINVAR_BENCH_TINY").is_some_and(|v| v == "1") { TINY } else { GPT2 }
    }
    fn net(self, data: &mut Data<Device>) -> Result<Gpt2<Any>> {
        let config =
            Gpt2Config::new(self.layers, self.heads, self.width, self.context, self.vocabulary).dropout(0.0);
        Gpt2::new(config, &mut data.generator, &data.device)
    }
    fn name(self) -> String {
        let Sizes { layers, heads, width, context, vocabulary, .. } = self;
        format!("L{layers}_d{width}_h{heads}_s{context}_v{vocabulary}")
    }
    /// Weights of products.
    fn weights(self) -> usize {
        self.layers * 12 * self.width * self.width + self.width * self.vocabulary
    }
}

/// A step of training with AdamW.
fn train(name: &'static str, amp: Option<DType>, precision: Precision) -> Row {
    let s = Sizes::of_environment();
    let make = move |made: Made, data: &mut Data<Device>| -> Result<Task> {
        let tokens = s.batch * s.context;
        let net = s.net(data)?;
        let x = data.numbers(&[s.batch, s.context], s.vocabulary as i64);
        let y = data.numbers(&[tokens], s.vocabulary as i64);
        let kind = Kind { made, amp, decays: true };
        let mut task = step(kind, net, vec![x, y], |net: &Gpt2<Any>, xy| {
            Ok(cross_entropy(&net.forward(&xy[0]).flatten(0, -2), &xy[1]))
        })?;
        Ok(boxed(move || precision.scope(&mut task)))
    };
    let shape = format!("{}_b{}", s.name(), s.batch);
    let (tokens, attention) = (s.batch * s.context, s.layers * 4 * s.batch * s.context * s.context * s.width);
    Row::new_task(Group::Models, name, shape, amp.unwrap_or(DType::F32), move |data| make(Made::Plain, data))
        .also_graph(move |data| make(Made::Captured, data))
        .recorded()
        .flops(3 * (2 * tokens * s.weights() + attention / 2))
}

/// The token that is read each time.
const NEXT: i64 = 7;

/// A token of one sequence, in the second half of the context.
fn decode() -> Row {
    let s = Sizes::of_environment();
    // A model, and half a context.
    let begin = move |data: &mut Data<Device>| -> Result<(Arc<Gpt2<Any>>, Vec<i64>)> {
        let net = s.net(data)?;
        net.eval();
        let first = data.numbers(&[s.context / 2], s.vocabulary as i64);
        Ok((Arc::new(net), first.to_vec()?))
    };
    let make = move |data: &mut Data<Device>| -> Result<Task> {
        let (net, first) = begin(data)?;
        let mut cache = net.start();
        let device = data.device.clone();
        let read = move |x: &[i64], cache: &mut KvCache<Any>| {
            let x = || Tensor::from_vec(x.to_vec(), [1, x.len()], &device);
            no_grad(|| try_run(|| net.advance(&x(), cache)))
        };
        read(&first, &mut cache)?;
        Ok(boxed(move || {
            if cache.len() == s.context {
                cache.truncate(s.context / 2);
            }
            done(&read(&[NEXT], &mut cache)?)
        }))
    };
    Row::new_task(Group::Models, "decode_gpt2", format!("{}_b1", s.name()), DType::F32, make)
        .also_graph(move |data| {
            let (net, first) = begin(data)?;
            let mut decoder = Decoder::new(net, s.context)?;
            decoder.read(&[&first])?;
            Ok(move || {
                if decoder.len() == s.context {
                    decoder.truncate(s.context / 2);
                }
                done(&decoder.read(&[&[NEXT]])?)
            })
        })
        .flops(2 * s.weights())
        .bytes(4 * s.weights())
}

pub(super) fn rows() -> Vec<Row> {
    let half = Some(DType::BF16);
    vec![
        train("train_gpt2", None, Precision::Exact),
        train("train_gpt2_fast", None, Precision::Fast),
        train("train_gpt2_amp", half, Precision::Exact),
        train("train_gpt2_amp_fast", half, Precision::Fast),
        decode(),
    ]
}
