//! Names, state dicts, loading.

use elinvar_core::{DType, ErrorKind, HostTensor, Shape};
use elinvar_nn::layers::*;
use elinvar_nn::{
    Backend, Buffer, Generator, Layer, Mode, Module, Param, RandomState, Rename, Sequential, StateDict,
    Strict, Tensor,
};
use elinvar_reference::{Reference, ReferenceDevice};
use std::collections::BTreeMap;

const D: ReferenceDevice = ReferenceDevice;
type B = Reference;
type Net<T> = Box<dyn Fn(&mut Generator) -> T>;

fn param(sizes: &[usize]) -> Param<B> {
    Param::new(Tensor::zeros(sizes, DType::F32, &D))
}
fn names(m: &dyn Module<B>) -> Vec<String> {
    m.state_dict().unwrap().into_keys().collect()
}

/// Every kind of field.
#[derive(Module)]
struct Everything<B: Backend> {
    own: Param<B>,
    layer: Linear<B>,
    maybe: Option<Linear<B>>,
    nothing: Option<Linear<B>>,
    list: Vec<Linear<B>>,
    pair: (Param<B>, Buffer<B>),
    array: [Param<B>; 2],
    by_name: BTreeMap<String, Param<B>>,
    boxed: Box<dyn Layer<B>>,
    choice: Choice<B>,
    newtype: Newtype<B>,
    #[module(rename = "other")]
    renamed: Param<B>,
    // Not a module: visiting it would be a compile error.
    #[module(skip)]
    _skipped: std::time::Duration,
    r#type: Param<B>,
    _numbers: (usize, f64, [usize; 2], Option<bool>, Vec<i64>),
    _words: (String, &'static str, DType),
}

#[derive(Module)]
enum Choice<B: Backend> {
    None,
    Alone(Linear<B>),
    Several { a: Param<B>, b: Linear<B> },
}

#[derive(Module)]
struct Newtype<B: Backend>(Param<B>, usize);

#[test]
fn names_are_those_of_the_fields() {
    let g = &mut Generator::new(1);
    let linear = |g: &mut Generator| Linear::without_bias(2, 3, g, &D);
    let all = Everything::<B> {
        own: param(&[1]),
        layer: Linear::new(2, 3, g, &D),
        maybe: Some(linear(g)),
        nothing: None,
        list: vec![linear(g), linear(g)],
        pair: (param(&[1]), Buffer::new(&Tensor::zeros([1], DType::I64, &D))),
        array: [param(&[1]), param(&[1])],
        by_name: BTreeMap::from([("query".to_owned(), param(&[1]))]),
        boxed: Box::new(linear(g)),
        choice: Choice::Several { a: param(&[1]), b: linear(g) },
        newtype: Newtype(param(&[1]), 3),
        renamed: param(&[1]),
        _skipped: std::time::Duration::ZERO,
        r#type: param(&[1]),
        _numbers: (1, 2.0, [3, 4], None, vec![5]),
        _words: (String::new(), "", DType::F32),
    };
    let want = [
        "array.0",
        "array.1",
        "boxed.weight",
        "by_name.query",
        "choice.a",
        "choice.b.weight",
        "layer.bias",
        "layer.weight",
        "list.0.weight",
        "list.1.weight",
        "maybe.weight",
        "newtype.0",
        "other",
        "own",
        "pair.0",
        "pair.1",
        "type",
    ];
    assert_eq!(names(&all), want);
    // In the order of the fields, on which random weights and optimisers depend.
    let ordered: Vec<String> = all.named_parameters().into_iter().map(|(n, _)| n).collect();
    assert_eq!(ordered[..5], ["own", "layer.weight", "layer.bias", "maybe.weight", "list.0.weight"]);
    for (choice, want) in [(Choice::Alone(linear(g)), vec!["c.weight"]), (Choice::None, vec![])] {
        #[derive(Module)]
        struct Outer {
            c: Choice<Reference>,
        }
        assert_eq!(names(&Outer { c: choice }), want);
    }
}

/// PyTorch's keys and shapes, layer by layer.
#[test]
fn state_dicts_have_pytorchs_keys_and_shapes() {
    type Row = (&'static str, Box<dyn Module<B>>, &'static [(&'static str, &'static [usize])]);
    let g = &mut Generator::new(1);
    let rows: Vec<Row> = vec![
        ("linear", Box::new(Linear::new(2, 3, g, &D)), &[("bias", &[3]), ("weight", &[3, 2])]),
        ("linear without bias", Box::new(Linear::without_bias(2, 3, g, &D)), &[("weight", &[3, 2])]),
        ("conv2d", Box::new(Conv2d::new(4, 6, [3, 5], g, &D)), &[("bias", &[6]), ("weight", &[6, 4, 3, 5])]),
        (
            "conv2d in groups",
            Box::new(Conv2dOptions::new(4, 6, 3).groups(2).bias(false).init(g, &D)),
            &[("weight", &[6, 2, 3, 3])],
        ),
        (
            "batch_norm1d",
            Box::new(BatchNorm1d::new(5, &D)),
            &[
                ("bias", &[5]),
                ("num_batches_tracked", &[]),
                ("running_mean", &[5]),
                ("running_var", &[5]),
                ("weight", &[5]),
            ],
        ),
        (
            "batch_norm2d without affine",
            Box::new(BatchNorm2d::new(5, &D).without_affine()),
            &[("num_batches_tracked", &[]), ("running_mean", &[5]), ("running_var", &[5])],
        ),
        (
            "batch_norm3d without running",
            Box::new(BatchNorm3d::new(5, &D).without_running()),
            &[("bias", &[5]), ("weight", &[5])],
        ),
        ("layer_norm", Box::new(LayerNorm::new([2, 3], &D)), &[("bias", &[2, 3]), ("weight", &[2, 3])]),
        ("layer_norm without bias", Box::new(LayerNorm::new(3, &D).without_bias()), &[("weight", &[3])]),
        ("rms_norm", Box::new(RMSNorm::new(4, &D)), &[("weight", &[4])]),
        ("group_norm", Box::new(GroupNorm::new(2, 4, &D)), &[("bias", &[4]), ("weight", &[4])]),
        ("embedding", Box::new(Embedding::new(7, 2, g, &D)), &[("weight", &[7, 2])]),
        ("dropout", Box::new(Dropout::new(0.5, g)), &[]),
        ("pools", Box::new((MaxPool2d::new(2), AvgPool2d::new([2, 3]), AdaptiveAvgPool2d::new(1))), &[]),
        ("relu", Box::new(ReLU), &[]),
        (
            "sequential",
            Box::new(
                Sequential::new()
                    .with(Linear::new(2, 3, g, &D))
                    .with(ReLU)
                    .with(Linear::without_bias(3, 1, g, &D)),
            ),
            &[("0.bias", &[3]), ("0.weight", &[3, 2]), ("2.weight", &[1, 3])],
        ),
    ];
    for (what, module, want) in rows {
        let dict = module.state_dict().unwrap();
        let got: Vec<(&str, &[usize])> = dict.iter().map(|(k, v)| (k.as_str(), v.shape().dims())).collect();
        assert_eq!(got, want, "{what}");
        let counts = |k: &str| k == "num_batches_tracked";
        assert!(
            dict.iter().all(|(k, v)| v.dtype() == if counts(k) { DType::I64 } else { DType::F32 }),
            "{what}"
        );
    }
}

fn host(values: &[f32], sizes: &[usize]) -> HostTensor {
    HostTensor::from_vec(values.to_vec(), Shape::new(sizes).unwrap()).unwrap()
}
/// A linear layer's state dict for 2 inputs and 1 output.
fn dict(rows: &[(&str, HostTensor)]) -> StateDict {
    rows.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect()
}

#[test]
fn a_loaded_model_computes_with_the_loaded_weights() {
    let m = Linear::<B>::new(2, 1, &mut Generator::new(1), &D);
    let from = dict(&[("weight", host(&[2.0, 3.0], &[1, 2])), ("bias", host(&[0.5], &[1]))]);
    let report = m.load_state_dict(&from, Strict::Yes).unwrap();
    assert_eq!((report.missing.len(), report.unexpected.len()), (0, 0));
    assert_eq!(m.forward(&[[10.0f32, 1.0]].into()).item::<f64>(), 23.5);
    assert_eq!(m.state_dict().unwrap(), from);
    assert!(m.weight.get().is_variable());
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let w = || host(&[2.0, 3.0], &[1, 2]);
    let bias = || host(&[0.5], &[1]);
    let long = (0..12).map(|i| (format!("extra{i:02}"), bias())).collect::<StateDict>();
    let rows: Vec<(StateDict, Strict, ErrorKind, &str)> = vec![
        (
            dict(&[("weight", host(&[2.0, 3.0], &[2, 1])), ("bias", bias())]),
            Strict::No,
            ErrorKind::ShapeMismatch,
            "load_state_dict: weight: this part of the model has shape [1, 2], and the new value [2, 1]",
        ),
        (
            dict(&[
                ("weight", w()),
                ("bias", HostTensor::from_vec(vec![0.5f64], Shape::new(&[1]).unwrap()).unwrap()),
            ]),
            Strict::Yes,
            ErrorKind::DTypeMismatch,
            "load_state_dict: bias: this part of the model is of f32, and the new value of f64",
        ),
        (
            dict(&[("weight", w())]),
            Strict::Yes,
            ErrorKind::InvalidArgument,
            "load_state_dict: the state dict lacks \"bias\"; load with Strict::No to take what fits",
        ),
        (
            dict(&[("weight", w()), ("bias", bias()), ("fc.bias", bias())]),
            Strict::Yes,
            ErrorKind::InvalidArgument,
            "load_state_dict: the model has no \"fc.bias\"; load with Strict::No to take what fits",
        ),
        (
            long,
            Strict::Yes,
            ErrorKind::InvalidArgument,
            "load_state_dict: the state dict lacks \"weight\", \"bias\", and the model has no \"extra00\", \"extra01\", \
             \"extra02\", \"extra03\", \"extra04\", \"extra05\", \"extra06\", \"extra07\" and 4 more; load with Strict::No \
             to take what fits",
        ),
    ];
    let m = Linear::<B>::new(2, 1, &mut Generator::new(1), &D);
    let before = m.state_dict().unwrap();
    for (from, strict, kind, sentence) in rows {
        let e = m.load_state_dict(&from, strict).unwrap_err();
        assert_eq!((e.kind(), e.message()), (kind, sentence));
        assert_eq!(m.state_dict().unwrap(), before, "{sentence}");
    }
    let report = m.load_state_dict(&dict(&[("bias", bias()), ("x", bias())]), Strict::No).unwrap();
    assert_eq!((report.missing, report.unexpected), (vec!["weight".to_owned()], vec!["x".to_owned()]));
    assert_eq!(m.bias.as_ref().unwrap().get().item::<f64>(), 0.5);
}

#[test]
fn two_parts_of_one_name_are_an_error() {
    let clash: BTreeMap<String, Box<dyn Module<B>>> = BTreeMap::from([
        ("a".to_owned(), Box::new(BTreeMap::from([("b".to_owned(), param(&[1]))])) as Box<dyn Module<B>>),
        ("a.b".to_owned(), Box::new(param(&[1]))),
    ]);
    let e = clash.state_dict().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument);
    assert!(e.message().contains("\"a.b\""), "{e}");
    assert!(clash.load_state_dict(&StateDict::new(), Strict::No).is_err());
}

#[derive(Module)]
struct Tied<B: Backend> {
    embedding: Embedding<B>,
    head: Linear<B>,
}

fn tied() -> Tied<B> {
    let g = &mut Generator::new(1);
    let embedding = Embedding::new(3, 2, g, &D);
    let head = Linear { weight: embedding.weight.share(), bias: None };
    Tied { embedding, head }
}

#[test]
fn tied_weights_are_one_parameter_with_two_names() {
    let m = tied();
    assert_eq!(names(&m), ["embedding.weight", "head.weight"]);
    assert_eq!((m.parameters().len(), m.num_parameters()), (1, 6));
    assert!(m.embedding.weight.is_shared_with(&m.head.weight));
    let (a, b) = (host(&[1.0; 6], &[3, 2]), host(&[2.0; 6], &[3, 2]));
    // One name is sufficient, and both change.
    let report = m.load_state_dict(&dict(&[("embedding.weight", a.clone())]), Strict::Yes).unwrap();
    assert!(report.missing.is_empty());
    assert_eq!(m.head.weight.get().to_host().unwrap(), a);
    let both =
        |x: &HostTensor, y: &HostTensor| dict(&[("embedding.weight", x.clone()), ("head.weight", y.clone())]);
    m.load_state_dict(&both(&b, &b), Strict::Yes).unwrap();
    assert_eq!(m.embedding.weight.get().to_host().unwrap(), b);
    let e = m.load_state_dict(&both(&a, &b), Strict::Yes).unwrap_err();
    assert!(e.message().contains("have different values"), "{e}");
    assert_eq!(m.embedding.weight.get().to_host().unwrap(), b);
    let nan = host(&[f32::NAN; 6], &[3, 2]);
    m.load_state_dict(&both(&nan, &nan), Strict::Yes).unwrap();
}

#[test]
fn one_switch_sets_every_mode() {
    #[derive(Module)]
    struct Modes {
        a: Mode,
        b: Vec<Dropout>,
        c: (Mode, Mode),
    }
    let g = &mut Generator::new(1);
    let m = Modes { a: Mode::new(), b: vec![Dropout::new(0.1, g)], c: (Mode::new(), Mode::new()) };
    let seen = |m: &Modes| Module::<B>::leaves(m).modes.iter().map(|m| m.is_training()).collect::<Vec<_>>();
    assert_eq!(seen(&m), [true; 4]);
    Module::<B>::eval(&m);
    assert_eq!(seen(&m), [false; 4]);
    assert!(!m.a.is_training() && !m.c.1.is_training());
    Module::<B>::train(&m);
    assert_eq!(seen(&m), [true; 4]);
}

#[test]
fn frozen_parameters_have_no_gradients() {
    let m = Linear::<B>::new(2, 1, &mut Generator::new(1), &D);
    m.weight.freeze();
    let g = m.forward(&[[1.0f32, 2.0]].into()).sum().backward();
    assert_eq!(g.len(), 1);
    assert!(g.get(&m.bias.as_ref().unwrap().get()).is_some() && g.get(&m.weight.get()).is_none());
    // A new value does not unfreeze it.
    m.weight.set(&[[5.0f32, 6.0]].into()).unwrap();
    assert!(m.weight.is_frozen());
    m.freeze();
    assert!(!m.forward(&[[1.0f32, 2.0]].into()).is_tracked());
    m.unfreeze();
    assert_eq!(m.forward(&[[1.0f32, 2.0]].into()).sum().backward().len(), 2);
}

#[test]
fn parameters_freeze_by_name() {
    let g = &mut Generator::new(1);
    let net = (Linear::<B>::new(2, 3, g, &D), Linear::<B>::new(3, 1, g, &D));
    let frozen = |m: &dyn Module<B>| -> Vec<String> {
        m.named_parameters().into_iter().filter(|(_, p)| p.is_frozen()).map(|(n, _)| n).collect()
    };
    net.freeze_where(&|name| !name.starts_with("1."));
    assert_eq!(frozen(&net), ["0.weight", "0.bias"]);
    net.unfreeze_where(&|name| name.ends_with("bias"));
    assert_eq!(frozen(&net), ["0.weight"]);
    // Any of its names matches a shared parameter.
    let tied = tied();
    tied.freeze_where(&|name| name == "head.weight");
    assert_eq!(frozen(&tied), ["embedding.weight"]);
}

#[test]
fn parts_know_their_weights() {
    let g = &mut Generator::new(1);
    let net = (Linear::<B>::new(2, 3, g, &D), vec![Linear::<B>::without_bias(3, 1, g, &D)], ReLU);
    net.0.weight.freeze();
    let rows: Vec<(String, String, usize, usize, usize)> = Module::<B>::parts(&net)
        .into_iter()
        .map(|p| (p.name, p.shown, p.depth, p.weights, p.frozen))
        .collect();
    let want = [
        ("", "", 0, 12, 6),
        ("0", "Linear(2, 3)", 1, 9, 6),
        ("1", "", 1, 3, 0),
        ("1.0", "Linear(3, 1, no bias)", 2, 3, 0),
        ("2", "ReLU", 1, 0, 0),
    ];
    assert_eq!(rows, want.map(|(n, s, d, w, f)| (n.to_owned(), s.to_owned(), d, w, f)));
    // A shared weight counts once in a module with both handles, and once in each submodule.
    let tied = tied();
    let of = |name: &str| tied.parts().into_iter().find(|p| p.name == name).unwrap().weights;
    assert_eq!(of(""), tied.num_parameters());
    assert_eq!((of(""), of("embedding"), of("head")), (6, 6, 6));
}

#[test]
fn a_checkpoint_of_another_float_type_is_converted_if_asked() {
    let layer = Linear::<B>::without_bias(1, 3, &mut Generator::new(1), &D);
    // 1 + 2^-30 is not an f32: rounded once, to 1.
    let wide = HostTensor::from_vec(
        vec![1.0 + f64::powi(2.0, -30), -2.5, f64::INFINITY],
        Shape::new(&[3, 1]).unwrap(),
    )
    .unwrap();
    let given = dict(&[("weight", wide)]);
    let e = layer.load_state_dict(&given, Strict::Yes).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::DTypeMismatch);
    layer.load_state_dict_cast(&given, Strict::Yes).unwrap();
    assert_eq!(layer.weight.get().to_vec::<f32>().unwrap(), [1.0, -2.5, f32::INFINITY]);
    // Integers are not converted to weights, and shapes are not converted.
    let whole =
        dict(&[("weight", HostTensor::from_vec(vec![1i64, 2, 3], Shape::new(&[3, 1]).unwrap()).unwrap())]);
    let e = layer.load_state_dict_cast(&whole, Strict::Yes).unwrap_err();
    assert!(e.kind() == ErrorKind::DTypeMismatch && e.message().contains("weight"), "{e}");
    let e = layer.load_state_dict_cast(&dict(&[("weight", host(&[1.0], &[1, 1]))]), Strict::Yes).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ShapeMismatch);
    assert_eq!(layer.weight.get().to_vec::<f32>().unwrap(), [1.0, -2.5, f32::INFINITY]);
}

#[test]
fn state_dicts_are_renamed() {
    let one = || host(&[1.0], &[1]);
    let names = |d: StateDict| d.into_keys().collect::<Vec<_>>();
    let all = dict(&[("net.fc.weight", one()), ("net.fc.bias", one()), ("netto", one()), ("step", one())]);
    // The prefix ends at a dot: "netto" is no part of "net".
    assert_eq!(names(all.clone().strip_prefix("net")), ["fc.bias", "fc.weight"]);
    assert_eq!(names(all.clone().strip_prefix("net.fc")), ["bias", "weight"]);
    assert_eq!(
        names(all.clone().strip_prefix("net").add_prefix("module")),
        ["module.fc.bias", "module.fc.weight"]
    );
    let head = |n: &str| n.contains('.').then(|| n.replace("net.fc", "head"));
    assert_eq!(names(all.clone().rename(head).unwrap()), ["head.bias", "head.weight"]);
    let e = all.rename(|_| Some("same".to_owned())).unwrap_err();
    assert!(
        e.kind() == ErrorKind::InvalidArgument
            && e.message().starts_with("rename: \"net.fc.weight\" would become"),
        "{e}"
    );
}

#[test]
fn cells_keep_their_shape_and_dtype() {
    let p = param(&[2]);
    let b = Buffer::<B>::new(&Tensor::zeros([2], DType::I64, &D));
    for (e, kind) in [
        (p.set(&Tensor::zeros([3], DType::F32, &D)), ErrorKind::ShapeMismatch),
        (p.set(&Tensor::zeros([2], DType::F64, &D)), ErrorKind::DTypeMismatch),
        (b.set(&Tensor::zeros([2, 1], DType::I64, &D)), ErrorKind::ShapeMismatch),
        (b.set(&Tensor::zeros([2], DType::F32, &D)), ErrorKind::DTypeMismatch),
    ] {
        assert_eq!(e.unwrap_err().kind(), kind);
    }
    p.set(&[1.0f32, 2.0].into()).unwrap();
    assert_eq!(p.get().to_vec::<f32>().unwrap(), [1.0, 2.0]);
    // A buffer drops the history of its value: otherwise it would keep the graphs of all steps.
    let b = Buffer::<B>::new(&p.get());
    b.set(&(p.get() * 2.0)).unwrap();
    assert!(!b.get().is_tracked());
    let e = elinvar_tensor::try_run(|| Param::<B>::new([1i64, 2].into()));
    assert_eq!(e.unwrap_err().kind(), ErrorKind::Autograd);
}

#[test]
fn a_model_becomes_f64_as_a_whole() {
    let m = (BatchNorm1d::<B>::new(2, &D), Linear::new(2, 1, &mut Generator::new(1), &D));
    Module::<B>::to_dtype(&m, DType::F64).unwrap();
    let dtypes: Vec<DType> = m.state_dict().unwrap().values().map(HostTensor::dtype).collect();
    let f = DType::F64;
    // 0.bias 0.num_batches_tracked 0.running_mean 0.running_var 0.weight 1.bias 1.weight
    assert_eq!(dtypes, [f, DType::I64, f, f, f, f, f]);
    assert!(m.1.weight.get().is_variable());
    let e = Module::<B>::to_dtype(&m, DType::I32).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::DTypeMismatch);
    m.to_device(&D).unwrap();
}

#[test]
fn random_states_can_be_put_back() {
    #[derive(Module)]
    struct Noisy {
        a: Dropout,
        b: RandomState,
    }
    let g = &mut Generator::new(7);
    let m = Noisy { a: Dropout::new(0.5, g), b: RandomState::fork(g) };
    let x = Tensor::<B>::ones([64], DType::F32, &D);
    let saved: Vec<_> = Module::<B>::leaves(&m).randoms.iter().map(|(n, r)| (n.clone(), r.state())).collect();
    assert_eq!(saved.iter().map(|s| s.0.as_str()).collect::<Vec<_>>(), ["a.random", "b"]);
    let draw = |m: &Noisy| m.a.forward(&x).to_vec::<f32>().unwrap();
    let first = draw(&m);
    assert_ne!(draw(&m), first, "two draws");
    Module::<B>::leaves(&m).randoms.iter().zip(&saved).for_each(|((_, r), (_, s))| r.set_state(*s));
    assert_eq!(draw(&m), first, "put back");
    assert_eq!(m.b.state(), saved[1].1);
}

#[test]
fn a_summary_names_the_parts_and_counts_their_weights() {
    #[derive(Module)]
    struct Small<B: Backend> {
        body: Sequential<B>,
        blocks: Vec<Linear<B>>,
        sizes: [usize; 2],
        head: Linear<B>,
    }
    let net: Net<Small<B>> = Box::new(|g| Small {
        body: Sequential::new()
            .with(Conv2dOptions::new(1, 8, 3).padding(1).stride(2).bias(false).init(g, &D))
            .with(BatchNorm2d::new(8, &D))
            .with(ReLU)
            .with(MaxPool2d::new(2)),
        blocks: vec![Linear::new(32, 32, g, &D)],
        sizes: [1, 2],
        head: Linear::without_bias(32, 10, g, &D),
    });
    let m = net(&mut Generator::new(1));
    m.head.freeze();
    let want = "\
part      layer                                              weights
--------------------------------------------------------------------
          Small
body      Sequential
  0       Conv2d(1, 8, 3x3, stride 2x2, padding 1x1, no bias)       72
";
    let got = m.summary();
    // Spaces are compared only at the beginning of lines: the widths depend on the longest line.
    let squeeze = |s: &str| s.split_whitespace().collect::<Vec<_>>().join(" ").replace('-', "");
    assert!(squeeze(&got).starts_with(&squeeze(want)), "{got}");
    let lines: Vec<String> = got.lines().map(squeeze).collect();
    assert_eq!(
        lines[5..],
        [
            "1 BatchNorm2d(8, momentum 0.1, eps 1e5) 16",
            "2 ReLU",
            "3 MaxPool2d(2x2)",
            "blocks",
            "0 Linear(32, 32) 1 056",
            "head Linear(32, 10, no bias) 320",
            "1 464 weights (1 144 trained, 320 frozen), 5 928 bytes with buffers",
        ],
        "{got}"
    );
    assert_eq!(m.sizes, [1, 2]);
}

#[test]
fn a_network_of_one_backend_needs_no_parameter() {
    #[derive(Module)]
    struct Fixed {
        fc: Linear<Reference>,
    }
    impl Layer<Reference> for Fixed {
        fn forward(&self, x: &Tensor<Reference>) -> Tensor<Reference> {
            self.fc.forward(x)
        }
    }
    /// Generic over its layer, which determines the backend.
    #[derive(Module)]
    struct Residual<L> {
        inside: L,
    }
    impl<B: Backend, L: Layer<B>> Layer<B> for Residual<L> {
        fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
            x + self.inside.forward(x)
        }
    }
    let m = Residual { inside: Fixed { fc: Linear::without_bias(1, 1, &mut Generator::new(1), &D) } };
    m.inside.fc.weight.set(&[[3.0f32]].into()).unwrap();
    assert_eq!(m.forward(&[[2.0f32]].into()).item::<f64>(), 8.0);
    assert_eq!(names(&m), ["inside.fc.weight"]);
}
