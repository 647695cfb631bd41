//! The forward pass of a sentence-embedding model of MiniLM's size, up to the last hidden state.

use super::forward;
use crate::data::Data;
use crate::harness::done;
use crate::row::{Group, Row};
use elinvar::nn::Module;
use elinvar::nn::models::{Bert, BertConfig};
use elinvar::{Any, DType, Device, Graph};

const LAYERS: usize = 6;
const FEATURES: usize = 384;
const HEADS: usize = 12;
const INNER: usize = 1536;
const POSITIONS: usize = 512;
const TOKENS: usize = 30522;

/// b sentences of t tokens; as loaded, or with prepacked weights, as in serving.
fn bert([b, t]: [usize; 2], prepacked: bool) -> Row {
    let workload = if prepacked { "bert_fwd_prepacked" } else { "bert_fwd" };
    let weights = LAYERS * (4 * FEATURES * FEATURES + 2 * FEATURES * INNER);
    let shape = format!("L{LAYERS}_d{FEATURES}_h{HEADS}_ff{INNER}_b{b}_s{t}");
    let net = move |data: &mut Data<Device>| {
        let config = BertConfig::new(LAYERS, HEADS, FEATURES, INNER, POSITIONS, TOKENS);
        let net = Bert::<Any>::new(config, &mut data.generator, &data.device).expect("BERT has these sizes");
        net.eval();
        if prepacked {
            net.prepack().expect("its weights fit twice");
        }
        (net, data.numbers(&[b, t], TOKENS as i64))
    };
    let row = Row::new(Group::Inference, workload, shape, DType::F32, move |data| {
        let (net, x) = net(data);
        forward(move || net.forward(&x, None, None))
    });
    // Weights are packed for CPUs only.
    let row = if prepacked {
        row
    } else {
        row.also_graph(move |data| {
            let (net, x) = net(data);
            let graph = Graph::record(&[&x], move |x| Ok(vec![net.forward(&x[0], None, None)]))?;
            Ok(move || done(&graph.run(&[&x])?[0]))
        })
    };
    row.flops(2 * b * t * weights + LAYERS * 4 * b * t * t * FEATURES).bytes(4 * weights)
}

pub(super) fn rows() -> Vec<Row> {
    let all = [[1, 16], [1, 128], [32, 64]];
    [false, true].into_iter().flat_map(|prepacked| all.map(|sizes| bert(sizes, prepacked))).collect()
}
