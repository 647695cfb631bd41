//! A state dict written by PyTorch for each layer loads by name without conversion, and gives the
//! same outputs and gradients.
//!
//! The cases are in `tests/data/layers.safetensors.gz`, written by `make_layers.py` next to it,
//! which also documents the names of tensors and the purpose of each case; here are the same layers
//! again.

use elinvar_core::{DType, HostTensor};
use elinvar_io::read_safetensors;
use elinvar_nn::layers::recurrent::Kind;
use elinvar_nn::layers::*;
use elinvar_nn::loss::{self, Reduction};
use elinvar_nn::models::{LeNetOptions, LstmLm, LstmLmOptions, ResNetOptions};
use elinvar_nn::{Generator, Layer, Module, StateDict, Strict, Tensor};
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::{Backward, backward};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::rc::Rc;

const D: ReferenceDevice = ReferenceDevice;
type B = Reference;
type T = Tensor<B>;

struct Row {
    name: &'static str,
    module: Rc<dyn Module<B>>,
    run: Box<dyn Fn(&[T]) -> Vec<T>>,
}

fn layer(name: &'static str, l: impl Layer<B> + 'static) -> Row {
    let l = Rc::new(l);
    let m = l.clone();
    Row { name, module: l, run: Box::new(move |x| vec![m.forward(&x[0])]) }
}

/// A row without weights.
fn plain(name: &'static str, run: impl Fn(&[T]) -> Vec<T> + 'static) -> Row {
    Row { name, module: Rc::new(()), run: Box::new(run) }
}

fn one(name: &'static str, run: impl Fn(&[T]) -> T + 'static) -> Row {
    plain(name, move |x| vec![run(x)])
}

fn lstm(name: &'static str, l: LSTM<B>) -> Row {
    let l = Rc::new(l);
    let m = l.clone();
    let run = move |x: &[T]| {
        let state = (x.len() > 1).then(|| (x[1].clone(), x[2].clone()));
        let (y, (h, c)) = m.forward(&x[0], state.as_ref());
        vec![y, h, c]
    };
    Row { name, module: l, run: Box::new(run) }
}

fn net<K: Kind<State<B> = T>>(name: &'static str, l: Recurrent<B, K>) -> Row {
    let l = Rc::new(l);
    let m = l.clone();
    let run = move |x: &[T]| {
        let (y, h) = m.forward(&x[0], x.get(1));
        vec![y, h]
    };
    Row { name, module: l, run: Box::new(run) }
}

fn lstm_cell(name: &'static str, l: LSTMCell<B>) -> Row {
    let l = Rc::new(l);
    let m = l.clone();
    let run = move |x: &[T]| {
        let state = (x.len() > 1).then(|| (x[1].clone(), x[2].clone()));
        let (h, c) = m.forward(&x[0], state.as_ref());
        vec![h, c]
    };
    Row { name, module: l, run: Box::new(run) }
}

fn cell<K: Kind<State<B> = T>>(name: &'static str, l: Cell<B, K>) -> Row {
    let l = Rc::new(l);
    let m = l.clone();
    Row { name, module: l, run: Box::new(move |x| vec![m.forward(&x[0], x.get(1))]) }
}

fn heads() -> MultiheadAttentionOptions {
    MultiheadAttentionOptions::new(4, 2)
}

fn attention(name: &'static str, l: MultiheadAttention<B>) -> Row {
    let l = Rc::new(l);
    let m = l.clone();
    let run = move |x: &[T]| pair(m.forward_weights(&x[0], &x[1], &x[2], &AttentionMasks::none()));
    Row { name, module: l, run: Box::new(run) }
}

fn model(name: &'static str, l: LstmLm<B>) -> Row {
    let l = Rc::new(l);
    let m = l.clone();
    let run = move |x: &[T]| {
        let (y, (h, c)) = m.forward(&x[0], None);
        vec![y, h, c]
    };
    Row { name, module: l, run: Box::new(run) }
}

fn pair((y, at): (T, T)) -> Vec<T> {
    vec![y, at]
}

fn with_weights(g: &mut Generator) -> Vec<Row> {
    vec![
        layer("linear", Linear::new(3, 2, g, &D)),
        layer("linear_no_bias", Linear::without_bias(3, 2, g, &D)),
        layer("conv1d", Conv1dOptions::new(2, 4, 3).stride(2).padding(2).dilation(2).groups(2).init(g, &D)),
        layer("conv1d_same", Conv1dOptions::new(2, 3, 4).same().init(g, &D)),
        layer(
            "conv1d_reflect",
            Conv1dOptions::new(1, 2, 4).same().padding_mode(PaddingMode::Reflect).init(g, &D),
        ),
        layer("conv2d", Conv2dOptions::new(2, 3, [2, 3]).stride([2, 1]).padding([0, 1]).init(g, &D)),
        layer(
            "conv2d_circular",
            Conv2dOptions::new(1, 2, 3).padding((1, 2)).padding_mode(PaddingMode::Circular).init(g, &D),
        ),
        layer(
            "conv2d_replicate",
            Conv2dOptions::new(1, 2, 3).stride(2).padding(1).padding_mode(PaddingMode::Replicate).init(g, &D),
        ),
        layer("conv3d", Conv3dOptions::new(1, 2, (1, 2, 3)).padding([1, 0, 2]).bias(false).init(g, &D)),
        layer(
            "conv_transpose1d",
            ConvTranspose1dOptions::new(4, 2, 3)
                .stride(3)
                .padding(1)
                .output_padding(2)
                .groups(2)
                .dilation(2)
                .init(g, &D),
        ),
        layer(
            "conv_transpose2d",
            ConvTranspose2dOptions::new(2, 3, [2, 3])
                .stride([2, 1])
                .padding([1, 0])
                .output_padding([1, 0])
                .init(g, &D),
        ),
        layer("conv_transpose3d", ConvTranspose3dOptions::new(1, 2, 2).bias(false).init(g, &D)),
        layer("embedding", Embedding::new(5, 2, g, &D).padding(1)),
        layer("layer_norm", LayerNorm::new([2, 3], &D)),
        layer("rms_norm", RMSNorm::new(4, &D).eps(1e-5)),
        layer("group_norm", GroupNorm::new(2, 4, &D)),
        layer("batch_norm1d", BatchNorm1d::new(3, &D)),
        layer("batch_norm1d_cumulative", BatchNorm1d::new(2, &D).cumulative()),
        layer("batch_norm2d", BatchNorm2d::new(2, &D).momentum(0.3).eps(1e-3)),
        layer("batch_norm2d_eval", BatchNorm2d::new(2, &D)),
        layer("batch_norm3d", BatchNorm3d::new(2, &D).without_affine()),
        layer("instance_norm1d", InstanceNorm1d::new(2)),
        layer("instance_norm1d_alone", InstanceNorm1d::new(2).affine(&D)),
        layer("instance_norm2d", InstanceNorm2d::new(2).affine(&D).running(&D)),
        layer("instance_norm2d_eval", InstanceNorm2d::new(2).running(&D)),
        layer("local_response_norm", LocalResponseNorm::new(2).alpha(0.5).beta(0.6).k(0.8)),
        layer("prelu", PReLU::new(1, &D)),
        layer("prelu_channels", PReLU::new(3, &D)),
        net("rnn", RNN::new(2, 3, g, &D)),
        net("rnn_2_layers_both", RNNOptions::new(2, 2).layers(2).bidirectional(true).init(g, &D)),
        net("rnn_batch_first", RNNOptions::new(3, 2).batch_first(true).bias(false).init(g, &D)),
        cell("rnn_cell", RNNCell::new(3, 2, g, &D)),
        cell("rnn_cell_from_zeros", RNNCell::without_bias(2, 2, g, &D)),
        lstm("lstm", LSTM::new(2, 3, g, &D)),
        lstm("lstm_2_layers_both", LSTMOptions::new(2, 2).layers(2).bidirectional(true).init(g, &D)),
        lstm("lstm_batch_first", LSTMOptions::new(3, 2).batch_first(true).bias(false).init(g, &D)),
        lstm_cell("lstm_cell", LSTMCell::new(3, 2, g, &D)),
        lstm_cell("lstm_cell_from_zeros", LSTMCell::without_bias(2, 2, g, &D)),
        net("gru", GRU::new(2, 3, g, &D)),
        net("gru_2_layers_both", GRUOptions::new(2, 2).layers(2).bidirectional(true).init(g, &D)),
        net("gru_batch_first", GRUOptions::new(3, 2).batch_first(true).bias(false).init(g, &D)),
        cell("gru_cell", GRUCell::new(3, 2, g, &D)),
        cell("gru_cell_from_zeros", GRUCell::without_bias(2, 2, g, &D)),
        layer("resnet_basic", ResNetOptions::basic([2, 1, 0, 0]).inputs(1).width(2).classes(3).init(g, &D)),
        layer(
            "resnet_bottleneck",
            ResNetOptions::bottleneck([2, 1, 0, 0]).inputs(1).width(1).classes(2).init(g, &D),
        ),
        layer(
            "lenet",
            LeNetOptions::new().inputs(2).side(16).channels(1, 2).hidden(3, 4).classes(2).init(g, &D),
        ),
        model("lstm_lm", LstmLmOptions::new(4, 3, 3).init(g, &D)),
        model("lstm_lm_tied", LstmLmOptions::new(4, 2, 2).tied(true).init(g, &D)),
        net("rnn_relu", ReluRNN::new(2, 3, g, &D)),
        net("rnn_relu_2_layers_both", ReluRNNOptions::new(2, 2).layers(2).bidirectional(true).init(g, &D)),
        cell("rnn_relu_cell", ReluRNNCell::new(3, 2, g, &D)),
        lstm("lstm_projected", LSTMOptions::new(2, 4).proj_size(2).init(g, &D)),
        lstm(
            "lstm_projected_2_layers_both",
            LSTMOptions::new(3, 3).proj_size(2).layers(2).bidirectional(true).batch_first(true).init(g, &D),
        ),
        attention("attention_kdim_vdim", heads().kdim(5).vdim(3).init(g, &D)),
        attention("attention_bias_kv", heads().add_bias_kv(true).init(g, &D)),
        attention("attention_zero", heads().add_zero_attn(true).batch_first(true).init(g, &D)),
        attention(
            "attention_all_added",
            heads().kdim(3).add_bias_kv(true).add_zero_attn(true).bias(false).init(g, &D),
        ),
    ]
}

fn without_weights() -> Vec<Row> {
    vec![
        layer("relu", ReLU),
        layer("relu6", ReLU6),
        layer("leaky_relu", LeakyReLU::new(0.1)),
        layer("elu", ELU::new(1.5)),
        layer("celu", CELU::new(1.5)),
        layer("selu", SELU),
        layer("gelu", GELU::new()),
        layer("gelu_tanh", GELU::tanh()),
        layer("silu", SiLU),
        layer("mish", Mish),
        layer("softplus", Softplus::new().beta(2.0)),
        layer("softsign", Softsign),
        layer("tanh", Tanh),
        layer("sigmoid", Sigmoid),
        layer("log_sigmoid", LogSigmoid),
        layer("hardtanh", Hardtanh::new(-3.0, 0.5)),
        layer("hardswish", Hardswish),
        layer("hardsigmoid", Hardsigmoid),
        layer("hardshrink", Hardshrink::new(0.6)),
        layer("softshrink", Softshrink::new(0.6)),
        layer("tanhshrink", Tanhshrink),
        layer("threshold", Threshold::new(0.5, -4.0)),
        layer("softmax", Softmax::new(-1)),
        layer("log_softmax", LogSoftmax::new(0)),
        layer("glu", GLU::new(1)),
        one("swiglu", |x| swiglu(&x[0], -1)),
        plain("max_pool1d", |x| pair(MaxPool1d::new(3).stride(2).padding(1).with_indices(&x[0]))),
        plain("max_pool2d", |x| {
            pair(MaxPool2d::new([2, 3]).stride(1).ceil_mode(true).dilation([2, 1]).with_indices(&x[0]))
        }),
        plain("max_pool3d", |x| pair(MaxPool3d::new([1, 2, 2]).with_indices(&x[0]))),
        layer("avg_pool1d", AvgPool1d::new(2).padding(1)),
        layer("avg_pool2d", AvgPool2d::new(3).stride([2, 1]).padding(1).count_include_pad(false)),
        layer("avg_pool3d", AvgPool3d::new([2, 1, 3]).stride(1)),
        layer("adaptive_avg_pool1d", AdaptiveAvgPool1d::new(3)),
        layer("adaptive_avg_pool2d", AdaptiveAvgPool2d::new([2, 3])),
        layer("adaptive_avg_pool3d", AdaptiveAvgPool3d::new([2, 1, 3])),
        plain("adaptive_max_pool1d", |x| pair(AdaptiveMaxPool1d::new(3).with_indices(&x[0]))),
        plain("adaptive_max_pool2d", |x| pair(AdaptiveMaxPool2d::new([2, 3]).with_indices(&x[0]))),
        plain("adaptive_max_pool3d", |x| pair(AdaptiveMaxPool3d::new([2, 1, 3]).with_indices(&x[0]))),
        layer("upsample_nearest", Upsample::size([7, 3])),
        layer("upsample_linear", Upsample::factor(&[1.7]).linear()),
        layer("upsample_bilinear", Upsample::factor(&[2.0, 1.5]).linear_with_aligned_corners()),
        layer("flatten", Flatten::axes(2, -1)),
        layer("unflatten", Unflatten::new(1, [2, -1, 1])),
        layer("pixel_shuffle", PixelShuffle::new(2)),
        layer("pixel_unshuffle", PixelUnshuffle::new(2)),
        layer("pad_zeros", Pad::zeros([1, 0, -1, 2])),
        layer("pad_constant", Pad::constant([2, 1], 0.5)),
        layer("pad_reflect", Pad::reflect([1, 2, 0, 3])),
        layer("pad_replicate", Pad::replicate([1, 0, 2, 0, 0, 1])),
        layer("pad_circular", Pad::circular([2, 1])),
    ]
}

fn losses() -> Vec<Row> {
    let (mean, sum, each) = (Reduction::Mean, Reduction::Sum, Reduction::None);
    // Constants in the dtype of the operands.
    let signs = |x: &[T]| T::from([1.0f64, -1.0, 1.0]).to_dtype(x[0].dtype());
    let counts = |x: &[T]| T::from([[0.0f64, 1.0], [2.0, 5.0], [1.0, 3.0]]).to_dtype(x[0].dtype());
    let weight = |x: &[T]| T::from([0.5f64, 2.0]).to_dtype(x[0].dtype());
    let classes = || T::from([1i64, 0, 1]);
    vec![
        one("gaussian_nll_loss", move |x| loss::gaussian_nll_loss(&x[0], &x[1], &x[2], true, 1e-2, mean)),
        one("gaussian_nll_loss_sum", move |x| loss::gaussian_nll_loss(&x[0], &x[1], &x[2], false, 1e-6, sum)),
        one("poisson_nll_loss", move |x| loss::poisson_nll_loss(&x[0], &counts(x), true, false, 1e-8, mean)),
        one("poisson_nll_loss_full", move |x| {
            loss::poisson_nll_loss(&x[0], &counts(x), false, true, 1e-8, each)
        }),
        one("margin_ranking_loss", move |x| loss::margin_ranking_loss(&x[0], &x[1], &signs(x), 0.5, mean)),
        one("soft_margin_loss", move |x| loss::soft_margin_loss(&x[0], &signs(x), mean)),
        one("cosine_embedding_loss", move |x| {
            loss::cosine_embedding_loss(&x[0], &x[1], &signs(x), -0.5, each)
        }),
        one("multi_margin_loss", move |x| {
            loss::multi_margin_loss(&x[0], &classes(), 2, 0.7, Some(&weight(x)), mean)
        }),
        one("multi_margin_loss_none", move |x| {
            loss::multi_margin_loss(&x[0], &classes(), 1, 1.0, None, each)
        }),
        one("multilabel_soft_margin_loss", move |x| {
            let target = counts(x).gt(1.0).to_dtype(x[0].dtype());
            loss::multilabel_soft_margin_loss(&x[0], &target, Some(&weight(x)), mean)
        }),
        one("triplet_margin_loss", move |x| {
            loss::triplet_margin_loss(&x[0], &x[1], &x[2], 0.8, 2.0, 1e-6, true, mean)
        }),
        one("ctc_loss", move |x| {
            let x = LogSoftmax::new(-1).forward(&x[0]);
            let (labels, lengths, label_lengths) =
                (T::from([[1i64, 2], [2, 2]]), T::from([4i64, 3]), T::from([2i64, 1]));
            loss::ctc_loss(&x, &labels, &lengths, &label_lengths, 0, false, sum)
        }),
    ]
}

/// The file's tensors by case.
fn cases() -> BTreeMap<String, StateDict> {
    let mut all = vec![];
    let packed = &include_bytes!("../data/layers.safetensors.gz")[..];
    flate2::read::GzDecoder::new(packed).read_to_end(&mut all).unwrap();
    let file = read_safetensors(&mut &all[..], all.len() as u64).unwrap();
    let mut cases: BTreeMap<String, StateDict> = BTreeMap::new();
    for (name, tensor) in file.tensors {
        let (case, part) = name.split_once('/').unwrap();
        cases.entry(case.to_owned()).or_default().insert(part.to_owned(), tensor);
    }
    cases
}

/// The dtype of a run, and the tolerance to PyTorch's results, which were computed in f64 and
/// rounded to f32: relative to an element and, where terms cancel, to the largest one.
#[derive(Clone, Copy)]
struct Accuracy {
    dtype: DType,
    relative: f64,
    of_largest: f64,
}

/// Half a unit of an f32 is 2^-24, 6e-8, of a number.
const IN_F64: Accuracy = Accuracy { dtype: DType::F64, relative: 6e-8, of_largest: 1e-9 };
/// The worst seen is 3.7e-6 of the largest number: the gradient of a bias of an RNN of two layers
/// in both directions.
const IN_F32: Accuracy = Accuracy { dtype: DType::F32, relative: 1e-5, of_largest: 4e-6 };

impl Accuracy {
    fn near(self, what: &str, got: &T, want: &HostTensor) -> Result<(), String> {
        let dtype = if want.dtype().is_float() { self.dtype } else { want.dtype() };
        if got.shape() != want.shape() || got.dtype() != dtype {
            return Err(format!(
                "{what}: {} of {}, not {} of {dtype}",
                got.shape(),
                got.dtype(),
                want.shape()
            ));
        }
        let (got, want) = (got.to_host().unwrap().to_f64_vec(), want.to_f64_vec());
        let largest = want.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        let fits = |g: f64, w: f64| (g - w).abs() <= self.relative * w.abs() + self.of_largest * largest;
        match got.iter().zip(&want).find(|(g, w)| !fits(**g, **w)) {
            Some((g, w)) => Err(format!("{what}: {g}, not {w}\n  {got:?}\n  {want:?}")),
            None => Ok(()),
        }
    }

    fn check(self, row: &Row, case: &StateDict) -> Result<(), String> {
        let under = |prefix: &str| -> StateDict {
            case.iter().filter_map(|(k, t)| Some((k.strip_prefix(prefix)?.to_owned(), t.clone()))).collect()
        };
        let numbered = |prefix: &str| -> Vec<&HostTensor> {
            (0..).map_while(|i| case.get(&format!("{prefix}{i}"))).collect()
        };
        let say = |e: elinvar_core::Error| e.to_string();
        row.module.load_state_dict(&under("w/"), Strict::Yes).map_err(say)?;
        row.module.to_dtype(self.dtype).map_err(say)?;
        let after = under("a/");
        if after.is_empty() {
            row.module.eval();
        }
        let upload = |t: &HostTensor| {
            let t = T::from_host(t.clone(), &D).unwrap();
            if t.dtype().is_float() { t.to_dtype(self.dtype).requires_grad() } else { t }
        };
        let xs: Vec<T> = numbered("x").into_iter().map(upload).collect();
        let ys = (row.run)(&xs);
        let want = numbered("y");
        if ys.len() != want.len() {
            return Err(format!("{} outputs, not {}", ys.len(), want.len()));
        }
        for (i, (y, want)) in ys.iter().zip(want).enumerate() {
            self.near(&format!("output {i}"), y, want)?;
        }
        for (name, b) in row.module.leaves().buffers {
            if let Some(want) = after.get(&name) {
                self.near(&format!("{name} afterwards"), &b.get(), want)?;
            }
        }
        let weigh: Vec<T> = numbered("v").into_iter().map(|v| upload(v).detach()).collect();
        if weigh.is_empty() {
            return Ok(());
        }
        let seeds: Vec<(&T, Option<&T>)> = ys.iter().zip(&weigh).map(|(y, v)| (y, Some(v))).collect();
        let gradients = backward(&seeds, Backward::default()).map_err(say)?;
        let gradient = |name: &str, of: &T, want: &HostTensor| match gradients.get(of) {
            Some(g) => self.near(&format!("gradient of {name}"), g, want),
            None => Err(format!("{name} has no gradient")),
        };
        for (i, x) in xs.iter().enumerate().filter(|(_, x)| x.is_variable()) {
            gradient(&format!("x{i}"), x, &case[&format!("gx{i}")])?;
        }
        let want = under("g/");
        let params = row.module.named_parameters();
        let names: BTreeSet<&String> = params.iter().map(|(n, _)| n).collect();
        if names != want.keys().collect() {
            return Err(format!("parameters {names:?}, not {:?}", want.keys()));
        }
        params.iter().try_for_each(|(name, p)| gradient(name, &p.get(), &want[name]))
    }
}

#[test]
fn state_dicts_of_pytorch_give_its_outputs_and_gradients() {
    let cases = cases();
    let mut rows = with_weights(&mut Generator::new(7));
    rows.extend(without_weights());
    rows.extend(losses());
    let covered: BTreeSet<&str> = rows.iter().map(|r| r.name).collect();
    let given: BTreeSet<&str> = cases.keys().map(String::as_str).collect();
    assert_eq!(covered, given, "a row for each case, and the other way round");
    let mut wrong = vec![];
    for row in &rows {
        // f32 first, the dtype of the written weights.
        for accuracy in [IN_F32, IN_F64] {
            if let Err(e) = accuracy.check(row, &cases[row.name]) {
                wrong.push(format!("{} in {}: {e}", row.name, accuracy.dtype));
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases differ:\n{}", wrong.len(), wrong.join("\n"));
}
