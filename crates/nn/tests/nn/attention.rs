//! Attention, its cache, positions and transformer layers: PyTorch's results and gradients, and the
//! same bits for a whole sequence and token by token.

use elinvar_core::{DType, ErrorKind, Result};
use elinvar_io::load_safetensors;
use elinvar_nn::layers::*;
use elinvar_nn::{Backend, Generator, Layer, Module, Param, StateDict, Strict, Tensor};
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::{check_gradient, try_run};

const D: ReferenceDevice = ReferenceDevice;
type B = Reference;
type T = Tensor<B>;

fn randn(sizes: &[usize], seed: u64) -> T {
    Generator::new(seed).normal(0.0, 1.0, sizes, DType::F32, &D)
}

fn bits(x: &T) -> Vec<u32> {
    x.to_vec::<f32>().unwrap().iter().map(|v| v.to_bits()).collect()
}

/// A case of data/make_torch.py: state, inputs, outputs and gradients of a layer of PyTorch, in
/// f64.
struct Case {
    all: StateDict,
    name: &'static str,
}

/// The file has f64, and the sums have at most 32 terms of size 1: rounding errors are far below
/// 1e-14, while a wrong formula shows in the second digit.
const TOLERANCE: f64 = 1e-12;

impl Case {
    fn new(name: &'static str) -> Self {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/attention.safetensors");
        Case { all: load_safetensors(path).unwrap().tensors, name }
    }
    fn get(&self, what: &str) -> T {
        let key = format!("{}/{what}", self.name);
        T::from_host(self.all.get(&key).unwrap_or_else(|| panic!("no {key}")).clone(), &D).unwrap()
    }
    /// Loads the state by name, strictly.
    fn load(&self, layer: &dyn Module<B>) {
        layer.to_dtype(DType::F64).unwrap();
        let prefix = format!("{}/state/", self.name);
        let state: StateDict = self
            .all
            .iter()
            .filter_map(|(k, v)| Some((k.strip_prefix(&prefix)?.to_owned(), v.clone())))
            .collect();
        layer.load_state_dict(&state, Strict::Yes).unwrap_or_else(|e| panic!("{}: {e}", self.name));
    }
    fn close(&self, what: &str, got: &T) {
        let want = self.get(what);
        assert_eq!(got.dims(), want.dims(), "{}: {what}", self.name);
        let both = got.to_vec::<f64>().unwrap().into_iter().zip(want.to_vec::<f64>().unwrap());
        for (i, (got, want)) in both.enumerate() {
            assert!((got - want).abs() <= TOLERANCE, "{}: {what}[{i}] is {got}, not {want}", self.name);
        }
    }
    /// Compares a layer's result and its gradients with respect to inputs and parameters.
    fn check(&self, layer: &dyn Module<B>, inputs: &[&str], run: impl Fn(&[T]) -> T) {
        self.load(layer);
        let x: Vec<T> = inputs.iter().map(|i| self.get(&format!("in/{i}")).requires_grad()).collect();
        let y = run(&x);
        self.close("out/y", &y);
        let gradients = (y * self.get("weigh")).sum().backward();
        for (name, x) in inputs.iter().zip(&x) {
            self.close(&format!("grad/{name}"), gradients.get(x).unwrap());
        }
        for (name, p) in layer.named_parameters() {
            let g = gradients.get(&p.get()).unwrap_or_else(|| panic!("{}: no gradient by {name}", self.name));
            self.close(&format!("grad/{name}"), g);
        }
    }
}

fn g() -> Generator {
    Generator::new(1)
}

/// True: masked out. The second sequence is shorter by one.
fn padding() -> T {
    [[false, false, false], [false, false, true]].into()
}

#[test]
fn multihead_attention_is_pytorchs() {
    let case = Case::new("mha");
    let mha = MultiheadAttentionOptions::new(4, 2).batch_first(true).init::<B>(&mut g(), &D);
    let masks = AttentionMasks::none().padding(&padding());
    // need_weights=True uses PyTorch's composed path; both of elinvar's paths have to agree with
    // it.
    case.check(&mha, &["query", "key", "value"], |x| mha.forward(&x[0], &x[1], &x[2], &masks));
    case.check(&mha, &["query", "key", "value"], |x| mha.forward_weights(&x[0], &x[1], &x[2], &masks).0);
    let (q, k, v) = (case.get("in/query"), case.get("in/key"), case.get("in/value"));
    case.close("out/weights", &mha.forward_weights(&q, &k, &v, &masks).1.mean_dim(1, false));

    let case = Case::new("mha_causal");
    let mha = MultiheadAttentionOptions::new(4, 2).bias(false).init::<B>(&mut g(), &D);
    let lower: T = [[false, true, true], [false, false, true], [false, false, false]].into();
    for masks in [AttentionMasks::causal(), AttentionMasks::none().attn(&lower)] {
        case.check(&mha, &["x"], |x| mha.forward(&x[0], &x[0], &x[0], &masks));
        case.check(&mha, &["x"], |x| mha.forward_weights(&x[0], &x[0], &x[0], &masks).0);
    }
}

#[test]
fn transformer_layers_are_pytorchs() {
    let o = TransformerOptions::new(4, 2).feedforward(5).dropout(0.0);
    let first = o.clone().batch_first(true);
    let pre = o.clone().norm_first(true).activation(MlpActivation::Gelu);
    let padded = AttentionMasks::none().padding(&padding());

    let layer = first.encoder_layer::<B>(&mut g(), &D);
    Case::new("encoder_layer").check(&layer, &["x"], |x| layer.forward_masked(&x[0], &padded));
    let layer = pre.clone().bias(false).encoder_layer::<B>(&mut g(), &D);
    let causal = AttentionMasks::causal();
    Case::new("encoder_layer_pre").check(&layer, &["x"], |x| layer.forward_masked(&x[0], &causal));
    let stack = first.encoder::<B>(2, true, &mut g(), &D);
    Case::new("encoder").check(&stack, &["x"], |x| stack.forward(&x[0]));

    let layer = first.decoder_layer::<B>(&mut g(), &D);
    Case::new("decoder_layer")
        .check(&layer, &["tgt", "memory"], |x| layer.forward(&x[0], &x[1], &causal, &padded));
    let stack = pre.decoder::<B>(2, false, &mut g(), &D);
    let none = AttentionMasks::none();
    Case::new("decoder").check(&stack, &["tgt", "memory"], |x| stack.forward(&x[0], &x[1], &none, &none));
}

#[test]
fn dropped_weights_scale_the_others() {
    let mha = MultiheadAttentionOptions::new(4, 2).dropout(0.5).batch_first(true).init::<B>(&mut g(), &D);
    let x = randn(&[2, 6, 4], 3);
    let none = AttentionMasks::none();
    let (_, dropped) = mha.forward_weights(&x, &x, &x, &none);
    mha.eval();
    let (y, kept) = mha.forward_weights(&x, &x, &x, &none);
    let pairs = || dropped.to_vec::<f32>().unwrap().into_iter().zip(kept.to_vec::<f32>().unwrap());
    assert!(pairs().all(|(d, k)| d == 0.0 || d == 2.0 * k));
    let zeros = pairs().filter(|(d, _)| *d == 0.0).count();
    assert!((40..104).contains(&zeros), "{zeros} of 144 weights dropped, with probability 1/2");
    // Evaluation uses the fused path, with other roundings.
    let fused = mha.forward(&x, &x, &x, &none);
    let far = (fused - y).abs().amax().item::<f64>();
    assert!(far < 1e-6, "{far}");
    mha.train();
    assert_ne!(bits(&mha.forward(&x, &x, &x, &none)), bits(&mha.forward(&x, &x, &x, &none)));
}

#[test]
fn a_sequence_without_a_batch_is_a_batch_of_one() {
    for batch_first in [false, true] {
        let mha = MultiheadAttentionOptions::new(4, 2).batch_first(batch_first).init::<B>(&mut g(), &D);
        let (axis, q, k) = (isize::from(!batch_first), randn(&[3, 4], 1), randn(&[5, 4], 2));
        let hidden: T = [true, false, false, false, true].into();
        let (y, p) = mha.forward_weights(&q, &k, &k, &AttentionMasks::none().padding(&hidden));
        let (wide_q, wide_k) = (q.unsqueeze(axis), k.unsqueeze(axis));
        let masks = AttentionMasks::none().padding(&hidden.unsqueeze(0));
        let (wide_y, wide_p) = mha.forward_weights(&wide_q, &wide_k, &wide_k, &masks);
        assert_eq!((y.dims(), p.dims()), (&[3, 4][..], &[2, 3, 5][..]));
        assert_eq!(y.to_vec::<f32>().unwrap(), wide_y.to_vec::<f32>().unwrap());
        assert_eq!(p.to_vec::<f32>().unwrap(), wide_p.to_vec::<f32>().unwrap());
        let alone = mha.forward(&q, &k, &k, &AttentionMasks::none());
        let batch = mha.forward(&wide_q, &wide_k, &wide_k, &AttentionMasks::none());
        assert_eq!(alone.to_vec::<f32>().unwrap(), batch.to_vec::<f32>().unwrap());
    }
}

/// A query without keys: the bias of the output, no NaN, and a gradient of zeros.
#[test]
fn a_query_without_keys_is_no_nan() {
    let mha = MultiheadAttentionOptions::new(4, 2).dropout(0.5).batch_first(true).init::<B>(&mut g(), &D);
    mha.out_proj.bias.as_ref().unwrap().set(&[1.0f32, 2.0, 3.0, 4.0].into()).unwrap();
    let x = randn(&[1, 2, 4], 3).requires_grad();
    let hidden: T = [[true, true]].into();
    let added = T::full([2, 2], f64::NEG_INFINITY, DType::F32, &D);
    for masks in [AttentionMasks::none().padding(&hidden), AttentionMasks::none().attn(&added)] {
        for training in [true, false] {
            if training {
                mha.train()
            } else {
                mha.eval()
            }
            let y = mha.forward(&x, &x, &x, &masks);
            assert_eq!(y.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0]);
            let dx = y.sum().backward();
            assert!(dx.get(&x).unwrap().to_vec::<f32>().unwrap().iter().all(|v| *v == 0.0));
        }
    }
}

#[test]
fn wrong_masks_are_errors() {
    let mha = MultiheadAttention::<B>::new(4, 2, &mut g(), &D);
    let (x, short) = (randn(&[3, 2, 4], 1), randn(&[2, 2, 4], 2));
    let bad = |masks: AttentionMasks<B>, k: &T| {
        try_run(|| mha.forward(&x, k, k, &masks)).unwrap_err().message().to_owned()
    };
    let mask = |sizes: &[usize]| T::zeros(sizes, DType::Bool, &D);
    let rows = [
        (
            bad(AttentionMasks::causal(), &short),
            "multihead_attention: 3 queries and 2 keys; is_causal needs as many",
        ),
        (
            bad(AttentionMasks::none().padding(&mask(&[3, 2])), &x),
            "multihead_attention: key_padding_mask [3, 2]; it should be [2, 3]",
        ),
        (
            bad(AttentionMasks::none().attn(&mask(&[3, 2])), &x),
            "multihead_attention: attn_mask [3, 2]; it should be [3, 3] or [4, 3, 3]",
        ),
        (
            bad(AttentionMasks::none(), &randn(&[3, 2, 5], 1)),
            "multihead_attention: key [3, 2, 5]; it should be",
        ),
        (
            bad(AttentionMasks::none(), &randn(&[3, 1, 4], 1)),
            "multihead_attention: query [3, 2, 4], key [3, 1, 4]",
        ),
    ];
    for (got, want) in rows {
        assert!(got.starts_with(want), "{got}");
    }
    let odd = try_run(|| MultiheadAttention::<B>::new(5, 2, &mut g(), &D)).unwrap_err();
    assert_eq!(odd.message(), "attention: 5 features do not divide among 2 heads");
    let odd = try_run(|| AttentionOptions::new(4, 4).kv_heads(3).init::<B>(&mut g(), &D)).unwrap_err();
    assert_eq!(odd.message(), "attention: 4 query heads do not divide among 3 key heads");
}

/// With dropout the weights have to be computed, and attention is composed; at probability 0 that
/// is the same function with the same gradient: with shared key heads, a cache, and every kind of
/// mask.
#[test]
fn composed_attention_is_the_fused_one() {
    let nothing = Dropout::new(0.0, &mut g());
    let wide = |sizes: &[usize], seed| randn(sizes, seed).to_dtype(DType::F64).requires_grad();
    let (q, k, v) = (wide(&[2, 4, 3, 5], 1), wide(&[2, 2, 7, 5], 2), wide(&[2, 2, 7, 6], 3));
    let keep = randn(&[2, 1, 3, 7], 4).gt(-0.5);
    let add = randn(&[4, 3, 7], 5).to_dtype(DType::F64).masked_fill(&keep.select(0, 0), f64::NEG_INFINITY);
    let weigh = randn(&[2, 4, 3, 6], 6).to_dtype(DType::F64);
    for (i, mask) in [None, Some(&keep), Some(&add)].into_iter().enumerate() {
        for causal in [false, true] {
            let both = [None, Some(&nothing)].map(|dropout| {
                let y = attend(&q, &k, &v, mask, causal, dropout).unwrap();
                let gradients = (&y * &weigh).sum().backward();
                [Some(&y), gradients.get(&q), gradients.get(&k), gradients.get(&v)]
                    .map(|x| x.unwrap().detach())
            });
            for (what, (fused, composed)) in ["y", "dq", "dk", "dv"].iter().zip(both[0].iter().zip(&both[1]))
            {
                let far = (fused - composed).abs().amax().item::<f64>();
                assert!(far <= 1e-13, "mask {i}, causal {causal}: {what} differs by {far}");
            }
        }
    }
}

/// The contract that a KV cache needs: a query gives the same bits alone as among all, at lengths
/// around the blocks of 64 keys of attention.
#[test]
fn one_query_alone_has_the_bits_that_it_has_among_all() {
    let s = 131;
    let (q, k, v) = (randn(&[1, 4, s, 6], 1), randn(&[1, 2, s, 6], 2), randn(&[1, 2, s, 5], 3));
    let all = attend(&q, &k, &v, None, true, None).unwrap();
    let part = |x: &T, from: usize, n: usize| x.narrow(2, from as isize, n);
    // One token, and several at once after a cache, where a mask replaces the op's causal flag.
    for (from, n) in
        [(0, 1), (1, 1), (62, 1), (63, 1), (64, 1), (65, 1), (127, 1), (128, 1), (130, 1), (60, 9), (3, 128)]
    {
        let (k, v) = (part(&k, 0, from + n), part(&v, 0, from + n));
        let some = attend(&part(&q, from, n), &k, &v, None, true, None).unwrap();
        assert_eq!(bits(&some), bits(&part(&all, from, n)), "tokens {from}..{}", from + n);
    }
    let late = attend(&q, &part(&k, 0, 5), &part(&v, 0, 5), None, true, None).unwrap_err();
    assert_eq!(
        late.message(),
        "attention: 131 queries and 5 keys; causal queries are the last of the keys' tokens"
    );
}

#[test]
fn a_layer_with_a_cache_has_the_bits_of_the_whole() {
    let layer = AttentionOptions::new(8, 4).kv_heads(2).head_dim(6).bias(true).init::<B>(&mut g(), &D);
    let rotary = Rotary::new(4, 100.0, RotaryScaling::None).unwrap();
    let x = randn(&[2, 67, 8], 5);
    let context = |start: usize, t: usize| AttentionContext {
        mask: None,
        causal: true,
        rotary: Some(rotary.table(start, t, DType::F32, &D).unwrap()),
    };
    let all = layer.forward(&x, &context(0, 67), None);
    let mut cache = KvCache::new(1);
    let mut at = 0;
    // The second step is undone and repeated in another way.
    for (t, truncate) in [(60, None), (3, Some(60)), (1, None), (5, None), (1, None)] {
        let part = layer.forward(&x.narrow(1, at as isize, t), &context(at, t), Some((&mut cache, 0)));
        assert_eq!(bits(&part), bits(&all.narrow(1, at as isize, t)), "tokens {at}..{}", at + t);
        at += t;
        assert_eq!(cache.len(), at);
        if let Some(len) = truncate {
            cache.truncate(len);
            at = len;
        }
    }
    cache.reset();
    assert!(cache.is_empty());
    let wrong = cache.append(1, &x, &x).unwrap_err();
    assert_eq!(wrong.message(), "kv_cache: layer 1 of a cache for 1");
    let k = randn(&[2, 2, 1, 6], 1);
    cache.append(0, &k, &k).unwrap();
    let wrong = cache.append(0, &k.narrow(0, 0, 1), &k.narrow(0, 0, 1)).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::ShapeMismatch);
    // The effect of padding masks on single sequences.
    let keep: T = [[true, false, true], [true, true, true]].into();
    let masked = |x: &T, keep: &T| {
        let mask = Some(keep.unsqueeze(1).unsqueeze(1));
        layer.forward(x, &AttentionContext { mask, causal: false, rotary: None }, None)
    };
    let x = x.narrow(1, 0, 3);
    let one = masked(&x.narrow(0, 1, 1), &keep.narrow(0, 1, 1));
    assert_eq!(bits(&masked(&x, &keep).narrow(0, 1, 1)), bits(&one));
}

/// The definition, for each pair, in f64; features beyond the pairs pass through.
#[test]
fn rotary_positions_turn_pairs() {
    let x = randn(&[1, 2, 3, 6], 9);
    let rotary = Rotary::new(4, 50.0, RotaryScaling::None).unwrap();
    assert_eq!(rotary.size(), 4);
    let y = rotary.table::<B>(7, 3, DType::F32, &D).unwrap().turn(&x).to_vec::<f32>().unwrap();
    let x = x.to_vec::<f32>().unwrap();
    for (row, (x, y)) in x.chunks(6).zip(y.chunks(6)).enumerate() {
        let position = (7 + row % 3) as f64;
        for i in 0..2 {
            // std's functions suffice for a tolerance.
            let (sin, cos) = (position * 50f64.powf(-(i as f64) / 2.0)).sin_cos();
            let (a, b) = (f64::from(x[i]), f64::from(x[i + 2]));
            assert!((f64::from(y[i]) - (a * cos - b * sin)).abs() < 2e-6);
            assert!((f64::from(y[i + 2]) - (b * cos + a * sin)).abs() < 2e-6);
        }
        assert_eq!(y[4..], x[4..]);
    }
    for (bad, sentence) in [
        (Rotary::new(3, 10.0, RotaryScaling::None), "rotary: 3 numbers are not pairs"),
        (Rotary::new(2, 0.0, RotaryScaling::None), "rotary: base is 0; it should be above 0"),
        (Rotary::new(2, 10.0, RotaryScaling::Linear { factor: f64::NAN }), "rotary: factor is NaN"),
    ] {
        assert!(bad.unwrap_err().message().starts_with(sentence), "{sentence}");
    }
}

/// Large angles are sensitive to the rounding of frequencies: these are transformers' numbers.
///
/// ```python
/// from transformers import LlamaConfig
/// from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding as R
/// p = dict(rope_type="llama3", rope_theta=5e5, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
///          original_max_position_embeddings=8192)
/// cos, sin = R(LlamaConfig(hidden_size=16, num_attention_heads=1, rope_parameters=p))(torch.ones(1), torch.tensor([[12345]]))
/// cos[0, 0, :8].tolist(), sin[0, 0, :8].tolist()
/// ```
#[test]
fn rotary_tables_are_those_of_transformers() {
    let scaling = RotaryScaling::Llama3 {
        factor: 8.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_positions: 8192,
    };
    let table = Rotary::new(16, 5e5, scaling).unwrap().table::<B>(12345, 1, DType::F32, &D).unwrap();
    // Rotating (1, 0) gives (cos, sin).
    let unit: T = [[[[1f32, 1., 1., 1., 1., 1., 1., 1., 0., 0., 0., 0., 0., 0., 0., 0.]]]].into();
    let got = table.turn(&unit).to_vec::<f32>().unwrap();
    let want = LLAMA3_AT_12345;
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((got - want).abs() <= 1e-6, "{i}: {got}, not {want}");
    }
}

#[rustfmt::skip]
const LLAMA3_AT_12345: [f32; 16] = [
    0.111435786, 0.99656075, 0.7588487, -0.47288617,
    0.98084587, 0.91177976, 0.9966343, 0.99987334,
    -0.9937716, 0.082865335, -0.65126693, 0.88112354,
    0.19478564, 0.41067955, 0.08197586, 0.01591417,
];

#[test]
fn sinusoids_are_the_papers() {
    let layer = SinusoidalPositions::<B>::new(5, 6, &D);
    let y = layer.forward(&T::zeros([2, 4, 6], DType::F32, &D)).to_vec::<f32>().unwrap();
    for (i, got) in y.iter().enumerate() {
        let (t, i) = ((i / 6 % 4) as f64, i % 6);
        let angle = t / 10000f64.powf((i - i % 2) as f64 / 6.0);
        let want = if i % 2 == 0 { angle.sin() } else { angle.cos() };
        assert!((f64::from(*got) - want).abs() < 1e-7, "{t}, {i}: {got}, not {want}");
    }
    let long = try_run(|| layer.forward(&T::zeros([1, 6, 6], DType::F32, &D))).unwrap_err();
    assert_eq!(long.message(), "positions: 6 positions, and the table has 5");
}

#[test]
fn gradients_go_through_rotary_positions_and_grouped_heads() -> Result<()> {
    let layer = AttentionOptions::new(4, 2).kv_heads(1).init::<B>(&mut g(), &D);
    layer.to_dtype(DType::F64)?;
    let rotary = Rotary::new(2, 10.0, RotaryScaling::Linear { factor: 2.0 })?;
    let context =
        AttentionContext { mask: None, causal: true, rotary: Some(rotary.table(2, 3, DType::F64, &D)?) };
    let x = randn(&[1, 3, 4], 4).to_dtype(DType::F64);
    let weigh = randn(&[1, 3, 4], 5).to_dtype(DType::F64);
    check_gradient(
        |x| Ok(layer.forward(&x[0], &context, None) * &weigh),
        std::slice::from_ref(&x),
        1e-5,
        1e-6,
    )
}

/// All parameters of a layer have distinct names, and so have the generators of dropout.
#[test]
fn a_transformers_parts_have_names() {
    let stack = TransformerOptions::new(4, 2).feedforward(3).decoder::<B>(1, true, &mut g(), &D);
    let names: Vec<String> = stack.state_dict().unwrap().into_keys().collect();
    assert_eq!(names.len(), 8 + 4 + 6 + 2);
    assert!(names.contains(&"layers.0.multihead_attn.in_proj_weight".to_string()));
    assert!(names.contains(&"norm.bias".to_string()));
    let leaves = stack.leaves();
    let mut randoms: Vec<&str> = leaves.randoms.iter().map(|(n, _)| &n[..]).collect();
    randoms.dedup();
    assert_eq!(randoms.len(), 6);
    fn is_module<M: Module<B>, B: Backend>(_: &M) {}
    is_module::<Param<B>, B>(&stack.layers[0].self_attn.in_proj_weight);
}

/// Keys that a layer adds to those of a sequence.
#[test]
fn no_mask_hides_added_keys() {
    let options = MultiheadAttentionOptions::new(4, 2).add_bias_kv(true).add_zero_attn(true);
    let mha = options.batch_first(true).init::<B>(&mut g(), &D);
    let x = Generator::new(3).randn([2, 3, 4], &D);
    let all = Tensor::<B>::full((2, 3), true, DType::Bool, &D);
    let (_, weights) = mha.forward_weights(&x, &x, &x, &AttentionMasks::none().padding(&all));
    assert_eq!(weights.dims(), [2, 2, 3, 5]);
    assert_eq!(weights.narrow(3, 0, 3).sum().item::<f32>(), 0.0);
    assert!(
        weights
            .narrow(3, 3, 2)
            .sum_dim(-1, false)
            .to_vec::<f32>()
            .unwrap()
            .iter()
            .all(|v| (v - 1.0).abs() < 1e-6)
    );
    // A causal mask as such, and as a tensor.
    let later = Tensor::<B>::full((3, 3), true, DType::Bool, &D).triu(1);
    let causal = mha.forward(&x, &x, &x, &AttentionMasks::causal());
    assert!(causal.same_bits(&mha.forward(&x, &x, &x, &AttentionMasks::none().attn(&later))));
    let names: Vec<String> = mha.named_parameters().into_iter().map(|(name, _)| name).collect();
    let want = ["in_proj_weight", "in_proj_bias", "bias_k", "bias_v", "out_proj.weight", "out_proj.bias"];
    assert_eq!(names, want);
}
