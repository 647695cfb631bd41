//! Results of layers, their gradients, and the effect of the mode.

use elinvar_core::{DType, ErrorKind, Result};
use elinvar_nn::init::{self, Fan, Gain};
use elinvar_nn::layers::*;
use elinvar_nn::loss::{self, Reduction};
use elinvar_nn::{Backend, Generator, Layer, Module, Sequential, Tensor};
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::{check_gradient, numerical_gradient, try_run};

const D: ReferenceDevice = ReferenceDevice;
type B = Reference;
type T = Tensor<B>;

fn randn(sizes: &[usize], seed: u64) -> T {
    Generator::new(seed).normal(0.0, 1.0, sizes, DType::F64, &D)
}

/// The gradients of every parameter, against central differences.
fn check_parameters(layer: &dyn Layer<B>, x: &T) -> Result<()> {
    let weigh = randn(layer.forward(x).dims(), 99);
    let y = |l: &dyn Layer<B>| l.forward(x) * &weigh;
    for (name, p) in layer.named_parameters() {
        let exact = y(layer).sum().backward().get(&p.get()).expect("a gradient").to_vec::<f64>()?;
        let start = p.get().detach();
        let moved = |v: &[T]| p.set(&v[0]).map(|()| y(layer));
        let numerical = numerical_gradient(moved, std::slice::from_ref(&start), 0, 1e-5)?;
        p.set(&start)?;
        for (i, (e, n)) in exact.iter().zip(&numerical).enumerate() {
            assert!((e - n).abs() <= 1e-6 * (1.0 + n.abs()), "{name}[{i}]: {e}, differences say {n}");
        }
    }
    Ok(())
}

#[test]
fn gradients_agree_with_differences() {
    let g = &mut Generator::new(3);
    let rows: Vec<(&str, Box<dyn Layer<B>>, &[usize])> = vec![
        ("linear", Box::new(Linear::new(3, 2, g, &D)), &[4, 3]),
        ("linear on a sequence, no bias", Box::new(Linear::without_bias(3, 2, g, &D)), &[2, 2, 3]),
        ("conv2d", Box::new(Conv2dOptions::new(2, 3, [2, 3]).padding(1).init(g, &D)), &[2, 2, 4, 3]),
        (
            "conv2d, strided, dilated, in groups",
            Box::new(Conv2dOptions::new(2, 4, 2).stride([2, 1]).dilation(2).groups(2).init(g, &D)),
            &[1, 2, 5, 4],
        ),
        (
            "conv2d, same",
            Box::new(Conv2dOptions::new(1, 2, [2, 3]).same().bias(false).init(g, &D)),
            &[1, 1, 3, 3],
        ),
        ("batch_norm1d", Box::new(BatchNorm1d::new(3, &D)), &[5, 3]),
        ("batch_norm2d", Box::new(BatchNorm2d::new(2, &D)), &[3, 2, 2, 2]),
        ("layer_norm", Box::new(LayerNorm::new([2, 3], &D)), &[2, 2, 3]),
        ("rms_norm", Box::new(RMSNorm::new(4, &D).eps(1e-5)), &[3, 4]),
        ("group_norm", Box::new(GroupNorm::new(2, 4, &D)), &[2, 4, 3]),
        (
            "pools",
            Box::new(Sequential::new().with(MaxPool2d::new(2).stride(1)).with(AvgPool2d::new(2))),
            &[1, 2, 5, 5],
        ),
        ("adaptive pool", Box::new(AdaptiveAvgPool2d::new([2, 3])), &[1, 1, 5, 4]),
        (
            "flatten",
            Box::new(Sequential::new().with(Flatten::new()).with(Linear::new(6, 1, g, &D))),
            &[2, 2, 3],
        ),
        ("relu", Box::new(ReLU), &[7]),
        ("leaky_relu", Box::new(LeakyReLU::new(0.1)), &[7]),
        ("elu", Box::new(ELU::new(1.5)), &[7]),
        ("selu", Box::new(SELU), &[7]),
        ("gelu", Box::new(GELU::new()), &[7]),
        ("gelu by tanh", Box::new(GELU::tanh()), &[7]),
        ("silu", Box::new(SiLU), &[7]),
        ("mish", Box::new(Mish), &[7]),
        ("tanh", Box::new(Tanh), &[7]),
        ("sigmoid", Box::new(Sigmoid), &[7]),
        ("log_sigmoid", Box::new(LogSigmoid), &[7]),
        ("softplus", Box::new(Softplus::new().beta(2.0)), &[7]),
        ("softsign", Box::new(Softsign), &[7]),
        ("hardswish", Box::new(Hardswish), &[7]),
        ("softmax", Box::new(Softmax::new(-1)), &[2, 3]),
        ("log_softmax", Box::new(LogSoftmax::new(0)), &[2, 3]),
    ];
    for (what, layer, sizes) in rows {
        layer.to_dtype(DType::F64).unwrap();
        let x = randn(sizes, 5);
        let weigh = randn(layer.forward(&x).dims(), 98);
        check_gradient(|x| Ok(layer.forward(&x[0]) * &weigh), std::slice::from_ref(&x), 1e-5, 1e-6)
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        check_parameters(&*layer, &x).unwrap_or_else(|e| panic!("{what}: {e}"));
    }
}

#[test]
fn a_linear_layer_is_a_product_and_a_sum() {
    let w: T = [[1.0f32, 2.0, 3.0], [-1.0, 0.0, 0.5]].into();
    let layer = Linear::from_weights(&w, Some(&[10.0f32, 20.0].into())).unwrap();
    let y = layer.forward(&[[1.0f32, 1.0, 2.0]].into());
    assert_eq!(y.to_vec::<f32>().unwrap(), [19.0, 20.0]);
    let bad: [(Result<Linear<B>>, ErrorKind); 3] = [
        (Linear::from_weights(&[1.0f32].into(), None), ErrorKind::ShapeMismatch),
        (Linear::from_weights(&w, Some(&[1.0f32].into())), ErrorKind::ShapeMismatch),
        (Linear::from_weights(&w, Some(&[1.0f64, 2.0].into())), ErrorKind::DTypeMismatch),
    ];
    for (result, kind) in bad {
        assert_eq!(result.unwrap_err().kind(), kind);
    }
}

#[test]
fn a_convolution_of_existing_weights() {
    let w: T = [[[1.0f32, -1.0]]].into();
    let options = || Conv1dOptions::new(1, 1, 2);
    let layer = options().bias(false).from_weights(&w, Some(&[0.5f32].into())).unwrap();
    assert_eq!(layer.forward(&[[[3.0f32, 1.0, 5.0]]].into()).to_vec::<f32>().unwrap(), [2.5, -3.5]);
    assert_eq!(layer.to_string(), "Conv1d(1, 1, 2)");
    assert_eq!(options().from_weights(&w, None).unwrap().to_string(), "Conv1d(1, 1, 2, no bias)");
    let bad: [(Result<Conv1d<B>>, ErrorKind); 5] = [
        (Conv1dOptions::new(1, 1, 3).from_weights(&w, None), ErrorKind::ShapeMismatch),
        (options().from_weights(&w, Some(&[1.0f32, 2.0].into())), ErrorKind::ShapeMismatch),
        (options().from_weights(&w, Some(&[1.0f64].into())), ErrorKind::DTypeMismatch),
        (options().from_weights(&[[[1i64, 2]]].into(), None), ErrorKind::DTypeMismatch),
        (options().groups(2).from_weights(&w, None), ErrorKind::InvalidArgument),
    ];
    for (result, kind) in bad {
        assert_eq!(result.unwrap_err().kind(), kind);
    }
}

#[test]
fn a_mistake_is_a_sentence_that_can_be_caught() {
    let g = &mut Generator::new(1);
    let fc = Linear::<B>::new(3, 2, g, &D);
    let norm = BatchNorm2d::<B>::new(3, &D);
    let ones = |sizes: &[usize]| T::ones(sizes, DType::F32, &D);
    let rows: Vec<(Result<()>, ErrorKind, &str)> = vec![
        (try_run(|| drop(fc.forward(&ones(&[2, 4])))), ErrorKind::ShapeMismatch, "linear: "),
        (
            try_run(|| drop(norm.forward(&ones(&[2, 3])))),
            ErrorKind::ShapeMismatch,
            "batch_norm: input [2, 3]; it should be [n, c, h, w]",
        ),
        (try_run(|| drop(norm.forward(&ones(&[2, 4, 1, 1])))), ErrorKind::ShapeMismatch, "batch_norm: "),
        (
            try_run(|| drop(Conv2dOptions::new(3, 4, 1).groups(2).init::<B>(g, &D))),
            ErrorKind::InvalidArgument,
            "conv2d: 3 input and 4 output channels do not divide into 2 groups",
        ),
        (
            try_run(|| drop(Conv2dOptions::new(3, 4, 1).groups(0).init::<B>(g, &D))),
            ErrorKind::InvalidArgument,
            "conv2d: ",
        ),
        (
            try_run(|| {
                drop(
                    Conv1dOptions::new(1, 1, 2)
                        .same()
                        .stride(2)
                        .padding_mode(PaddingMode::Circular)
                        .init::<B>(g, &D)
                        .forward(&ones(&[1, 1, 4])),
                )
            }),
            ErrorKind::InvalidArgument,
            "conv1d: padding same with stride [2]",
        ),
        (
            try_run(|| {
                drop(
                    Conv1dOptions::new(1, 1, 9)
                        .same()
                        .padding_mode(PaddingMode::Reflect)
                        .init::<B>(g, &D)
                        .forward(&ones(&[1, 1, 4])),
                )
            }),
            ErrorKind::InvalidArgument,
            "conv1d: pad: ",
        ),
        (
            try_run(|| drop(ConvTranspose2dOptions::new(3, 4, 1).groups(2).init::<B>(g, &D))),
            ErrorKind::InvalidArgument,
            "conv_transpose2d: 3 input and 4 output channels do not divide into 2 groups",
        ),
        (
            try_run(|| drop(InstanceNorm2d::<B>::new(3).forward(&ones(&[2, 4, 2, 2])))),
            ErrorKind::ShapeMismatch,
            "instance_norm: input [2, 4, 2, 2]; it should be [n, 3, spatial..]",
        ),
        (
            try_run(|| drop(PReLU::<B>::new(3, &D).forward(&ones(&[2, 4])))),
            ErrorKind::ShapeMismatch,
            "prelu: input [2, 4]; with 3 weights it should be [n, 3, ..]",
        ),
        (try_run(|| drop(GLU::new(1).forward(&ones(&[2, 3])))), ErrorKind::ShapeMismatch, "glu: axis 1 of"),
        (try_run(|| drop(swiglu(&ones(&[2, 4]), 2))), ErrorKind::ShapeMismatch, "swiglu: axis 2 of"),
        (
            try_run(|| drop(Unflatten::new(2, [2, 2]).forward(&ones(&[2, 4])))),
            ErrorKind::InvalidArgument,
            "unflatten: axis 2 of",
        ),
        (
            try_run(|| drop(PixelShuffle::new(2).forward(&ones(&[1, 6, 1, 1])))),
            ErrorKind::ShapeMismatch,
            "pixel_shuffle: 6 channels",
        ),
        (
            try_run(|| drop(PixelUnshuffle::new(0).forward(&ones(&[1, 1, 2, 2])))),
            ErrorKind::ShapeMismatch,
            "pixel_unshuffle: height 2",
        ),
        (
            try_run(|| {
                drop(loss::multi_margin_loss(
                    &ones(&[2, 3]),
                    &[0i64, 1].into(),
                    3,
                    1.0,
                    None,
                    Reduction::Mean,
                ))
            }),
            ErrorKind::InvalidArgument,
            "multi_margin_loss: p is 3",
        ),
        (try_run(|| _ = Dropout::new(1.5, g)), ErrorKind::InvalidArgument, "dropout: probability 1.5"),
        (try_run(|| _ = Dropout::new(f64::NAN, g)), ErrorKind::InvalidArgument, "dropout: "),
        (
            try_run(|| drop(Embedding::<B>::new(3, 2, g, &D).forward(&[0i64, 3].into()))),
            ErrorKind::InvalidArgument,
            "embedding: ",
        ),
        (
            try_run(|| drop(LSTMOptions::new(1, 1).layers(1 << 63).bidirectional(true).init::<B>(g, &D))),
            ErrorKind::OutOfMemory,
            "LSTM: out of memory",
        ),
        (
            try_run(|| drop(GRUOptions::new(1, 1).layers(usize::MAX).init::<B>(g, &D))),
            ErrorKind::OutOfMemory,
            "GRU: out of memory",
        ),
        (
            try_run(|| drop(LSTM::<B>::new(1, 1 << 62, g, &D))),
            ErrorKind::OutOfMemory,
            "recurrent: a state of 4611686018427387904",
        ),
        (try_run(|| drop(LSTMCell::<B>::new(1, 1 << 62, g, &D))), ErrorKind::OutOfMemory, "recurrent: "),
        (
            KvCache::new(1 << 40).append(1 << 40, &ones(&[1, 1, 1, 1]), &ones(&[1, 1, 1, 1])).map(drop),
            ErrorKind::InvalidArgument,
            "kv_cache: layer 1099511627776 of a cache for 1099511627776",
        ),
        (
            KvCache::new(1 << 60).append(1 << 59, &ones(&[1, 1, 1, 1]), &ones(&[1, 1, 1, 1])).map(drop),
            ErrorKind::OutOfMemory,
            "kv_cache: ",
        ),
        (
            try_run(|| {
                let (x, v) = (ones(&[2]), T::new([1.0f32, -1.0], &D));
                drop(loss::gaussian_nll_loss(&x, &x, &v, false, 1e-6, Reduction::Mean))
            }),
            ErrorKind::InvalidArgument,
            "gaussian_nll_loss: an element of the variance is not in its range; all should be 0 or more",
        ),
        (
            try_run(|| {
                let x = ones(&[2]);
                drop(loss::gaussian_nll_loss(&x, &x, &x, false, f64::NAN, Reduction::Mean))
            }),
            ErrorKind::InvalidArgument,
            "gaussian_nll_loss: eps is NaN",
        ),
        (
            try_run(|| drop(loss::soft_margin_loss(&ones(&[2]), &ones(&[2]), Reduction::BatchMean))),
            ErrorKind::InvalidArgument,
            "soft_margin_loss: there is no reduction batchmean",
        ),
        (
            try_run(|| drop(init::kaiming_normal::<B>([3], Fan::In, Gain::Relu, g, &D))),
            ErrorKind::ShapeMismatch,
            "init: ",
        ),
    ];
    for (result, kind, sentence) in rows {
        let e = result.expect_err(sentence);
        assert!(e.kind() == kind && e.message().starts_with(sentence), "{e:?}, not {sentence}");
    }
}

#[test]
fn batch_norm_follows_the_batch_and_then_its_running_statistics() {
    let norm = BatchNorm1d::<B>::new(1, &D);
    let x: T = [[1.0f32], [3.0]].into();
    let scale = 1.0 / (1.0f32 + 1e-5).sqrt();
    let near = |got: Vec<f32>, want: &[f32]| {
        assert!(
            got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-6) && got.len() == want.len(),
            "{got:?} {want:?}"
        );
    };
    near(norm.forward(&x).to_vec().unwrap(), &[-scale, scale]);
    // The batch has mean 2 and unbiased variance 2.
    let running = |norm: &BatchNorm1d<B>| {
        let value = |b: &Option<elinvar_nn::Buffer<B>>| b.as_ref().unwrap().get().to_vec::<f32>().unwrap()[0];
        (value(&norm.running_mean), value(&norm.running_var))
    };
    let (mean, var) = running(&norm);
    near(vec![mean, var], &[0.2, 1.1]);
    let count = |n: &BatchNorm1d<B>| n.num_batches_tracked.as_ref().unwrap().get().item::<f64>();
    assert_eq!(count(&norm), 1.0);
    norm.eval();
    let y = norm.forward(&x).to_vec::<f32>().unwrap();
    near(y, &[0.8 / (1.1f32 + 1e-5).sqrt(), 2.8 / (1.1f32 + 1e-5).sqrt()]);
    assert_eq!((running(&norm), count(&norm)), ((mean, var), 1.0), "evaluation changes nothing");
    // In evaluation a sample does not depend on the others.
    let alone = norm.forward(&[[3.0f32]].into()).item::<f64>();
    assert_eq!(alone, f64::from(norm.forward(&x).to_vec::<f32>().unwrap()[1]));
    norm.train();
    norm.forward(&x);
    assert_eq!(count(&norm), 2.0);
    assert!(!norm.running_mean.as_ref().unwrap().get().is_tracked());
    // Without running statistics the batch's are used in either mode.
    let bare = BatchNorm1d::<B>::new(1, &D).without_running();
    bare.eval();
    near(bare.forward(&x).to_vec().unwrap(), &[-scale, scale]);
}

/// The input is what does not fit, not the weights.
#[test]
fn a_wrong_input_is_told_as_such() {
    let net = LSTM::<B>::new(3, 2, &mut Generator::new(1), &D);
    let cell = GRUCell::<B>::new(3, 2, &mut Generator::new(1), &D);
    let x = |shape: &[usize]| T::ones(shape, DType::F32, &D);
    let rows = [
        (
            try_run(|| BatchNorm2d::<B>::new(3, &D).forward(&x(&[1, 2, 2, 2]))),
            "batch_norm: input [1, 2, 2, 2] has 2 channels, the layer 3",
        ),
        (
            try_run(|| GroupNorm::<B>::new(1, 3, &D).forward(&x(&[1, 2, 2]))),
            "group_norm: input [1, 2, 2] has 2 channels, weight has shape [3]; both must have as many",
        ),
        (
            try_run(|| net.forward(&x(&[2, 1, 4]), None).0),
            "lstm: input [2, 1, 4] has 4 features, and the weights are for 3",
        ),
        (
            try_run(|| cell.forward(&x(&[1, 4]), None)),
            "gru: input [1, 1, 4] has 4 features, and the weights are for 3",
        ),
    ];
    for (got, want) in rows {
        assert_eq!(got.unwrap_err().message(), want);
    }
}

#[test]
fn an_empty_batch_leaves_running_statistics_as_they_are() {
    let full: T = [[[1.0f32, 2.0], [3.0, 5.0]], [[0.0, 4.0], [1.0, 1.0]]].into();
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        let of = |layer: &dyn Layer<B>, batches: &[usize]| {
            layer.to_dtype(dtype).unwrap();
            for &n in batches {
                let y = layer.forward(&full.to_dtype(dtype).narrow(0, 0, n));
                assert_eq!(y.dims(), [n, 2, 2]);
            }
            let state = layer.state_dict().unwrap();
            state.iter().map(|(name, t)| (name.clone(), t.to_f64_vec())).collect::<Vec<_>>()
        };
        let rows: [(&str, fn() -> Box<dyn Layer<B>>); 4] = [
            ("batch norm", || Box::new(BatchNorm1d::<B>::new(2, &D))),
            ("its cumulative average", || Box::new(BatchNorm1d::<B>::new(2, &D).cumulative())),
            ("without weight and bias", || Box::new(BatchNorm1d::<B>::new(2, &D).without_affine())),
            ("instance norm", || Box::new(InstanceNorm1d::<B>::new(2).running(&D))),
        ];
        for (what, layer) in rows {
            assert_eq!(of(&*layer(), &[0, 2, 0, 2]), of(&*layer(), &[2, 2]), "{what} of {dtype}");
            let untouched = of(&*layer(), &[0]);
            assert_eq!(untouched, of(&*layer(), &[]), "{what} of {dtype}");
        }
    }
}

#[test]
fn dropout_drops_with_its_probability() {
    let n = 20_000;
    let x = T::ones([n], DType::F32, &D).requires_grad();
    for p in [0.0, 0.1, 0.5, 0.9, 1.0] {
        let layer = Dropout::new(p, &mut Generator::new(11));
        let y = layer.forward(&x);
        let values = y.to_vec::<f32>().unwrap();
        let dropped = values.iter().filter(|v| **v == 0.0).count() as f64 / n as f64;
        // Five standard deviations of a binomial distribution.
        assert!((dropped - p).abs() <= 5.0 * (p * (1.0 - p) / n as f64).sqrt(), "{p}: {dropped}");
        let kept = if p == 1.0 { 0.0 } else { (1.0 / (1.0 - p)) as f32 };
        assert!(values.iter().all(|v| *v == 0.0 || *v == kept), "{p}");
        // The gradient passes where x is not dropped.
        assert_eq!(y.sum().backward().get(&x).unwrap().to_vec::<f32>().unwrap(), values, "{p}");
        Module::<B>::eval(&layer);
        assert_eq!(layer.forward(&x).to_vec::<f32>().unwrap(), vec![1.0; n], "{p}");
    }
}

#[test]
fn dropout_depends_on_its_seed_alone() {
    let x = T::ones([256], DType::F32, &D);
    let draw = |l: &Dropout| l.forward(&x).to_vec::<f32>().unwrap();
    let make = |seed| {
        let g = &mut Generator::new(seed);
        (Dropout::new(0.5, g), Dropout::new(0.5, g))
    };
    let ((a, b), (c, d), (other, _)) = (make(1), make(1), make(2));
    let first = draw(&a);
    // Draws from `b` do not affect `a`.
    let (noise, second) = (draw(&b), draw(&a));
    assert_eq!((draw(&c), draw(&c)), (first.clone(), second.clone()));
    assert_eq!(draw(&d), noise);
    assert!(first != second && first != noise && first != draw(&other));
    let twice = (x.requires_grad(), Dropout::new(0.5, &mut Generator::new(1)));
    let y = twice.1.forward(&twice.0);
    let first_order = (&y * &y).sum().grad(&[&twice.0])[0].clone().unwrap();
    let second_order = first_order.sum().backward();
    let kept = second_order.get(&twice.0).unwrap().to_vec::<f32>().unwrap();
    assert!(kept.iter().zip(&first).all(|(k, f)| *k == if *f == 0.0 { 0.0 } else { 8.0 }));
}

#[test]
fn an_embedding_gives_rows_and_leaves_its_padding_alone() {
    let g = &mut Generator::new(1);
    let layer = Embedding::<B>::new(4, 2, g, &D).padding(-1);
    let table = layer.weight.get().to_vec2::<f32>().unwrap();
    assert_eq!(table[3], [0.0, 0.0]);
    assert!(table[..3].iter().flatten().all(|v| *v != 0.0));
    let y = layer.forward(&[[2i64, 3], [2, 0]].into());
    assert_eq!(y.dims(), [2, 2, 2]);
    assert_eq!(
        y.to_vec::<f32>().unwrap(),
        [table[2].clone(), table[3].clone(), table[2].clone(), table[0].clone()].concat()
    );
    let grad = y.sum().backward().get(&layer.weight.get()).unwrap().to_vec2::<f32>().unwrap();
    assert_eq!(grad, [[1.0, 1.0], [0.0, 0.0], [2.0, 2.0], [0.0, 0.0]]);
}

#[test]
fn pretrained_and_tied_embeddings() {
    let table: T = [[1.0f32, 2.0], [3.0, 4.0]].into();
    let layer = Embedding::<B>::from_pretrained(&table).unwrap();
    assert_eq!(layer.forward(&[1i64, 0].into()).to_vec::<f32>().unwrap(), [3.0, 4.0, 1.0, 2.0]);
    let tied = Embedding::tied(&layer.weight);
    layer.weight.set(&[[5.0f32, 6.0], [7.0, 8.0]].into()).unwrap();
    assert_eq!(tied.forward(&[0i64].into()).to_vec::<f32>().unwrap(), [5.0, 6.0]);
    for (bad, kind) in [
        (Embedding::<B>::from_pretrained(&[1.0f32].into()), ErrorKind::ShapeMismatch),
        (Embedding::<B>::from_pretrained(&[[1i64]].into()), ErrorKind::DTypeMismatch),
    ] {
        assert_eq!(bad.unwrap_err().kind(), kind);
    }
}

#[test]
fn the_scale_of_channels_is_not_rounded_to_16_bits() {
    // 7 / 0.9 is 7.78125 in bf16; by a factor of bf16 it would be 7.75.
    let x = T::full([1, 64, 1, 1], 7.0, DType::BF16, &D);
    let y = Dropout2d::new(0.1, &mut Generator::new(4)).forward(&x);
    assert_eq!(y.dtype(), DType::BF16);
    let v = y.to_host().unwrap().to_f64_vec();
    assert!(v.iter().all(|v| [0.0, 7.78125].contains(v)) && v.contains(&7.78125), "{v:?}");
}

#[test]
fn channels_are_dropped_whole() {
    let x = Generator::new(1).uniform(1.0, 2.0, [8, 50, 3, 2], DType::F32, &D).requires_grad();
    let layer = Dropout2d::new(0.3, &mut Generator::new(4));
    let y = layer.forward(&x);
    let (before, after) = (x.to_vec::<f32>().unwrap(), y.to_vec::<f32>().unwrap());
    let scale = 1.0 / (1.0 - 0.3f32);
    let mut dropped = 0;
    for (x, y) in before.chunks(6).zip(after.chunks(6)) {
        let all_gone = y.iter().all(|v| *v == 0.0);
        dropped += usize::from(all_gone);
        assert!(all_gone || x.iter().zip(y).all(|(x, y)| *y == x * scale), "{x:?} {y:?}");
    }
    // Five standard deviations of a binomial distribution around 120 of 400.
    assert!((75..=165).contains(&dropped), "{dropped}");
    let slopes = y.sum().backward().get(&x).unwrap().to_vec::<f32>().unwrap();
    assert!(slopes.iter().zip(&after).all(|(s, y)| *s == if *y == 0.0 { 0.0 } else { scale }));
    // Without a batch axis the first axis is that of the channels.
    let one = layer.forward(&T::ones([40, 2, 2], DType::F32, &D)).to_vec::<f32>().unwrap();
    assert!(one.chunks(4).all(|c| c.iter().all(|v| v == &c[0])) && one.contains(&0.0));
    Module::<B>::eval(&layer);
    assert_eq!(layer.forward(&x).to_vec::<f32>().unwrap(), before);
    let e = try_run(|| drop(layer.forward(&T::ones([2, 2], DType::F32, &D)))).unwrap_err();
    assert!(e.message().starts_with("dropout2d: input [2, 2]"), "{e}");
}

/// `F.alpha_dropout(torch.zeros(99, dtype=torch.float64), 0.5, True).min()`
const ALPHA_DROPPED: f64 = -0.7791939305180315;

/// Mean 0 and variance 1 are preserved for any dropout probability.
#[test]
fn alpha_dropout_keeps_mean_and_variance() {
    let n = 20_000;
    let x = Generator::new(1).normal(0.0, 1.0, n, DType::F64, &D).requires_grad();
    for p in [0.1, 0.5] {
        let layer = AlphaDropout::new(p, &mut Generator::new(2));
        let y = layer.forward(&x);
        let (mean, std) = (y.mean().item::<f64>(), y.std().item::<f64>());
        assert!(mean.abs() < 0.03 && (std - 1.0).abs() < 0.03, "{p}: {mean} {std}");
        // Dropped elements have one value and no gradient.
        let slopes = y.sum().backward().get(&x).unwrap().to_vec::<f64>().unwrap();
        let values = y.to_vec::<f64>().unwrap();
        let gone: Vec<f64> =
            values.iter().zip(&slopes).filter(|(_, s)| **s == 0.0).map(|(v, _)| *v).collect();
        assert!(gone.iter().all(|v| *v == gone[0]));
        assert!((gone.len() as f64 / n as f64 - p).abs() < 0.02, "{p}: {}", gone.len());
        if p == 0.5 {
            assert!((gone[0] - ALPHA_DROPPED).abs() < 1e-12, "{}", gone[0]);
        }
        Module::<B>::eval(&layer);
        assert_eq!(layer.forward(&x).to_vec::<f64>().unwrap(), x.to_vec::<f64>().unwrap());
    }
    assert!(try_run(|| _ = AlphaDropout::new(1.0, &mut Generator::new(2))).is_err());
}

#[test]
fn weights_start_in_their_bounds() {
    let g = &mut Generator::new(5);
    let spread = |t: &T| {
        let v = t.to_host().unwrap().to_f64_vec();
        let mean = v.iter().sum::<f64>() / v.len() as f64;
        let largest = v.iter().fold(0.0f64, |m, x| m.max(x.abs()));
        ((v.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / v.len() as f64).sqrt(), largest)
    };
    // Bound (or none), standard deviation. A uniform distribution of bound b has b / sqrt(3).
    let rows: Vec<(&str, T, Option<f64>, f64)> = vec![
        ("linear", Linear::<B>::new(100, 80, g, &D).weight.get(), Some(0.1), 0.1 / 3f64.sqrt()),
        ("bias", Linear::<B>::new(100, 4000, g, &D).bias.unwrap().get(), Some(0.1), 0.1 / 3f64.sqrt()),
        (
            "conv",
            Conv2dOptions::new(16, 64, 5).groups(4).init::<B>(g, &D).weight.get(),
            Some(0.1),
            0.1 / 3f64.sqrt(),
        ),
        ("embedding", Embedding::<B>::new(100, 80, g, &D).weight.get(), None, 1.0),
        (
            "kaiming in",
            init::kaiming_uniform([80, 50], Fan::In, Gain::Relu, g, &D),
            Some(0.12f64.sqrt()),
            0.2,
        ),
        (
            "kaiming out",
            init::kaiming_normal([80, 50], Fan::Out, Gain::Linear, g, &D),
            None,
            1.0 / 80f64.sqrt(),
        ),
        ("xavier", init::xavier_uniform([80, 120], Gain::Tanh, g, &D), Some(3f64.sqrt() / 6.0), 1.0 / 6.0),
        ("xavier normal", init::xavier_normal([60, 68], Gain::Selu, g, &D), None, 0.75 / 8.0),
    ];
    for (what, t, bound, std) in rows {
        let (got, largest) = spread(&t);
        assert!((got / std - 1.0).abs() < 0.05, "{what}: {got}, not {std}");
        if let Some(bound) = bound {
            assert!(
                largest <= bound * (1.0 + 1e-6) && largest > 0.98 * bound,
                "{what}: {largest}, not {bound}"
            );
        }
    }
    let mut again = Generator::new(5);
    let first = Linear::<B>::new(100, 80, &mut again, &D).weight.get();
    let same = Linear::<B>::new(100, 80, &mut Generator::new(5), &D).weight.get();
    assert_eq!(first.to_vec::<f32>().unwrap(), same.to_vec::<f32>().unwrap());
}

#[test]
fn losses_are_those_of_the_catalogue() {
    let (x, t): (T, T) = ([1.0f32, 3.0].into(), [0.0f32, 0.0].into());
    let logits: T = [[0.0f32, 0.0], [0.0, 0.0]].into();
    let (classes, ln2): (T, f64) = ([0i64, 1].into(), std::f64::consts::LN_2);
    let two = loss::CrossEntropy::new();
    let weighted = two.clone().weight(&[1.0f32, 3.0].into()).reduction(Reduction::Sum);
    for (what, got, want) in [
        ("mse", loss::mse_loss(&x, &t, Reduction::Mean), 5.0),
        ("l1", loss::l1_loss(&x, &t, Reduction::Sum), 4.0),
        ("huber", loss::huber_loss(&x, &t, 1.0, Reduction::Sum), 3.0),
        ("smooth l1", loss::smooth_l1_loss(&x, &t, 2.0, Reduction::Sum), 0.25 + 2.0),
        ("cross entropy", loss::cross_entropy(&logits, &classes), ln2),
        ("weighted", weighted.of(&logits, &classes), 4.0 * ln2),
        ("one left out", weighted.clone().ignore_index(1).of(&logits, &classes), ln2),
        ("smoothed", two.label_smoothing(0.5).of(&[[100.0f32, 0.0]].into(), &[0i64].into()), 25.0),
        ("nll", loss::nll_loss(&logits, &classes, None, -100, Reduction::Mean), 0.0),
        (
            "logits",
            loss::binary_cross_entropy_with_logits(&x, &t, None, None, Reduction::Sum),
            1.313_261_7 + 3.048_587_4,
        ),
    ] {
        assert!((got.item::<f64>() - want).abs() < 1e-5, "{what}: {}, not {want}", got.item::<f64>());
    }
}

/// A network is generic over its backend without additional bounds.
#[expect(dead_code, reason = "compiling it is the test")]
fn generic<X: Backend>(g: &mut Generator, device: &X::Device) -> Sequential<X> {
    Sequential::new()
        .with(Linear::new(2, 2, g, device))
        .with(ReLU)
        .with(Dropout::new(0.1, g))
        .with(Softmax::new(-1))
}
