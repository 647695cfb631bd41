//! Models from Hugging Face's files: transformers' results, the same bits with a cache, and errors
//! for bad files.

use elinvar_core::{DType, ErrorKind, HostData, HostTensor, Shape};
use elinvar_io::{load_safetensors, save_safetensors};
use elinvar_nn::generate::CausalLm;
use elinvar_nn::loss;
use elinvar_nn::models::{Bert, BertConfig, Floats, Gpt2, Gpt2Config, Llama, LlamaConfig};
use elinvar_nn::optim::{Adam, Optimizer};
use elinvar_nn::{Generator, Layer, Module, StateDict, Strict, Tensor};
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::{no_grad, try_run};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const D: ReferenceDevice = ReferenceDevice;
type B = Reference;
type T = Tensor<B>;

/// A directory written by data/make_hf.py.
fn dir(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/hf").join(name)
}

fn expected(name: &str) -> BTreeMap<String, T> {
    let all = load_safetensors(dir(name).join("expected.safetensors")).unwrap().tensors;
    all.into_iter().map(|(k, v)| (k, T::from_host(v, &D).unwrap())).collect()
}

fn bits(x: &T) -> Vec<u32> {
    x.to_vec::<f32>().unwrap().iter().map(|v| v.to_bits()).collect()
}

fn distance(x: &T, y: &T) -> f64 {
    assert_eq!(x.dims(), y.dims());
    (x - y).abs().amax().item::<f64>()
}

/// Logits are of size 1 to 10, from two layers of f32 sums in another order: measured, they differ
/// by at most 2e-6.
const TOLERANCE: f64 = 1e-5;

/// Compares logits with transformers', and decoding token by token with the whole sequence.
fn check<M: CausalLm<B>>(name: &str, model: &M) {
    let want = expected(name);
    let ids = &want["ids"];
    let all = model.forward(ids);
    let far = distance(&all, &want["logits"]);
    println!("{name}: logits differ from transformers' by {far:e}");
    assert!(far <= TOLERANCE, "{name}: logits differ by {far}");
    let mut state = model.start();
    let mut at = 0;
    for t in [3, 1, 1, 2, 1] {
        let y = no_grad(|| model.advance(&ids.narrow(1, at as isize, t), &mut state));
        at += t;
        assert_eq!(bits(&y), bits(&all.select(1, at as isize - 1)), "{name}: {at} tokens");
    }
}

#[test]
fn gpt2_matches_transformers() {
    check("gpt2", &Gpt2::<B>::from_pretrained(dir("gpt2"), &D).unwrap());
}

#[test]
fn llama_matches_transformers() {
    // Grouped-query attention, biases, llama3 scaling, an untied head.
    check("llama", &Llama::<B>::from_pretrained(dir("llama"), &D).unwrap());
    // The older config, linear scaling, tied embeddings, weights in bf16.
    let wide = Llama::<B>::from_pretrained(dir("llama_linear"), &D).unwrap();
    assert_eq!(wide.model.norm.weight.as_ref().unwrap().get().dtype(), DType::F32);
    check("llama_linear", &wide);
    let kept = Llama::<B>::from_pretrained_as(dir("llama_linear"), Floats::Kept, &D).unwrap();
    let y = kept.forward(&expected("llama_linear")["ids"]);
    assert_eq!(y.dtype(), DType::BF16);
    // bf16 has 8 bits of precision; dozens of roundings, on logits of up to 10.
    let far = distance(&y.to_dtype(DType::F32), &expected("llama_linear")["logits"]);
    assert!(far > TOLERANCE && far < 0.3, "{far}");
}

#[test]
fn bert_matches_transformers() {
    let model = Bert::<B>::from_pretrained(dir("bert"), &D).unwrap();
    let want = expected("bert");
    let (ids, mask) = (&want["ids"], &want["mask"]);
    let hidden = model.forward(ids, Some(&want["token_types"]), Some(mask));
    // Transformers computes features of padding too, which are undefined.
    let keep = |x: &T| x * mask.to_dtype(DType::F32).unsqueeze(-1);
    let far = distance(&keep(&hidden), &keep(&want["hidden"]));
    println!("bert: features differ from transformers' by {far:e}");
    assert!(far <= TOLERANCE);
    assert!(distance(&model.pooled(&hidden), &want["pooled"]) <= TOLERANCE);
    let sentence = elinvar_nn::models::mean_pooled(&hidden, mask).normalize(2.0, -1, 1e-12);
    assert!(distance(&sentence, &want["sentence"]) <= TOLERANCE);
}

/// Padding does not change an embedding: the same bits with more of it, and with a bool mask
/// instead of i64.
#[test]
fn padding_changes_no_bit_of_a_sentence() {
    let model = Bert::<B>::from_pretrained(dir("bert"), &D).unwrap();
    let (short, long): (T, T) = ([[3i64, 1, 4]].into(), [[3i64, 1, 4, 7, 7, 0]].into());
    let all = model.sentence_embeddings(&short, &[[1i64, 1, 1]].into());
    let padded = model.sentence_embeddings(&long, &[[true, true, true, false, false, false]].into());
    assert_eq!(bits(&all), bits(&padded));
    let none = model.sentence_embeddings(&short, &[[0i64, 0, 0]].into());
    assert!(none.to_vec::<f32>().unwrap().iter().all(|v| *v == 0.0));
}

/// A copy of a model's directory with another config or other weights.
fn changed(
    name: &str,
    config: impl Fn(&str) -> String,
    weights: impl Fn(&mut StateDict),
) -> tempfile::TempDir {
    let new = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(dir(name).join("config.json")).unwrap();
    std::fs::write(new.path().join("config.json"), config(&text)).unwrap();
    let mut tensors = load_safetensors(dir(name).join("model.safetensors")).unwrap().tensors;
    weights(&mut tensors);
    save_safetensors(new.path().join("model.safetensors"), &tensors, &BTreeMap::new()).unwrap();
    new
}

fn rename(tensors: &mut StateDict, f: impl Fn(&str) -> String) {
    *tensors = std::mem::take(tensors).into_iter().map(|(k, v)| (f(&k), v)).collect();
}

fn zeros(sizes: &[usize]) -> HostTensor {
    let shape = Shape::new(sizes).unwrap();
    HostTensor::new(shape.clone(), HostData::F32(vec![0.0; shape.numel()].into())).unwrap()
}

/// Round trip: the same config, the same bits.
#[test]
fn a_model_is_saved_as_it_was() {
    let new = tempfile::tempdir().unwrap();
    let at = |name: &str| new.path().join("made").join(name);
    let ids: T = [[1i64, 2, 3]].into();
    let gpt2 = Gpt2::<B>::from_pretrained(dir("gpt2"), &D).unwrap();
    gpt2.save_pretrained(at("gpt2")).unwrap();
    check("gpt2", &Gpt2::<B>::from_pretrained(at("gpt2"), &D).unwrap());
    // Names and values of the weights are those of the file that it came from.
    let weights = |d: PathBuf| load_safetensors(d.join("model.safetensors")).unwrap();
    assert_eq!(weights(at("gpt2")), weights(dir("gpt2")));
    let mut config = gpt2.config().clone();
    (config.tie_word_embeddings, config.n_inner) = (false, Some(5));
    // Shortest digits whose last bit a fast float parser gets wrong.
    config.initializer_range = 0.1 + 0.2;
    config.layer_norm_epsilon = 1.1e-5 / 3.0;
    let untied = Gpt2::<B>::new(config, &mut Generator::new(1), &D).unwrap();
    untied.save_pretrained(at("untied")).unwrap();
    let back = Gpt2::<B>::from_pretrained(at("untied"), &D).unwrap();
    untied.eval();
    assert_eq!((back.config(), bits(&back.forward(&ids))), (untied.config(), bits(&untied.forward(&ids))));
    for name in ["llama", "llama_linear"] {
        let llama = Llama::<B>::from_pretrained(dir(name), &D).unwrap();
        llama.save_pretrained(at(name)).unwrap();
        let back = Llama::<B>::from_pretrained(at(name), &D).unwrap();
        assert_eq!(back.config(), llama.config());
        check(name, &back);
    }
    let bert = Bert::<B>::from_pretrained(dir("bert"), &D).unwrap();
    bert.save_pretrained(at("bert")).unwrap();
    let back = Bert::<B>::from_pretrained(at("bert"), &D).unwrap();
    assert_eq!(back.config(), bert.config());
    assert_eq!(weights(at("bert")), weights(dir("bert")));
}

#[test]
fn other_names_of_the_same_weights() {
    // GPT-2 of the hub: no prefix, and buffers of masks.
    let hub = changed("gpt2", str::to_owned, |w| {
        rename(w, |k| k.trim_start_matches("transformer.").to_owned());
        w.insert("h.0.attn.bias".into(), zeros(&[1, 1, 12, 12]));
        w.insert("h.1.attn.masked_bias".into(), zeros(&[]));
        w.insert("lm_head.weight".into(), w["wte.weight"].clone());
    });
    check("gpt2", &Gpt2::<B>::from_pretrained(hub.path(), &D).unwrap());
    // BERT saved with a head, with the old names of norms, and without a pooler.
    let old = changed("bert", str::to_owned, |w| {
        w.retain(|k, _| !k.starts_with("pooler."));
        rename(w, |k| {
            let k =
                k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta");
            format!("bert.{k}")
        });
        w.insert("cls.predictions.bias".into(), zeros(&[11]));
        w.insert("bert.embeddings.position_ids".into(), zeros(&[1, 9]));
    });
    let (old, new) = (
        Bert::<B>::from_pretrained(old.path(), &D).unwrap(),
        Bert::<B>::from_pretrained(dir("bert"), &D).unwrap(),
    );
    let ids = &expected("bert")["ids"];
    assert_eq!(bits(&old.forward(ids, None, None)), bits(&new.forward(ids, None, None)));
    let y = try_run(|| old.pooled(&old.forward(ids, None, None))).unwrap_err();
    assert_eq!(y.message(), "bert: this model has no pooler");
    // A Llama without `model.`, tied.
    let bare = changed("llama_linear", str::to_owned, |w| {
        rename(w, |k| k.trim_start_matches("model.").to_owned());
        w.insert("layers.0.self_attn.rotary_emb.inv_freq".into(), zeros(&[2]));
    });
    check("llama_linear", &Llama::<B>::from_pretrained(bare.path(), &D).unwrap());
}

#[test]
fn bad_files_are_errors() {
    let gpt2 = |d: &Path| Gpt2::<B>::from_pretrained(d, &D).map(drop).unwrap_err();
    let llama = |d: &Path| Llama::<B>::from_pretrained(d, &D).map(drop).unwrap_err();
    let bert = |d: &Path| Bert::<B>::from_pretrained(d, &D).map(drop).unwrap_err();
    let swap = |name: &'static str, from: &'static str, to: &'static str| {
        changed(
            name,
            move |c| {
                assert!(c.contains(from), "{from}");
                c.replacen(from, to, 1)
            },
            |_| {},
        )
    };
    let weights = |name: &str, f: &dyn Fn(&mut StateDict)| changed(name, str::to_owned, f);
    use ErrorKind::*;
    type Load<'a> = &'a dyn Fn(&Path) -> elinvar_core::Error;
    let rows: Vec<(tempfile::TempDir, Load, ErrorKind, &str)> = vec![
        (tempfile::tempdir().unwrap(), &gpt2, Io, "config.json: No such file"),
        (swap("gpt2", "{", "["), &gpt2, Format, "config.json: "),
        (swap("gpt2", "\"n_embd\": 8,", ""), &gpt2, Format, "missing field `n_embd`"),
        (swap("gpt2", "\"n_embd\": 8", "\"n_embd\": -8"), &gpt2, Format, "invalid value: integer `-8`"),
        (swap("gpt2", "\"n_embd\": 8", "\"n_embd\": 9"), &gpt2, InvalidArgument, "n_embd is 9 and n_head 2"),
        (
            swap("gpt2", "\"n_head\": 2", "\"n_head\": 0"),
            &gpt2,
            InvalidArgument,
            "n_head is 0; it should be in",
        ),
        (
            swap("gpt2", "\"attn_pdrop\": 0.1", "\"attn_pdrop\": 2"),
            &gpt2,
            InvalidArgument,
            "attn_pdrop is 2;",
        ),
        (swap("gpt2", "gelu_new", "tanh"), &gpt2, Unsupported, "activation \"tanh\"; there are"),
        (
            swap("gpt2", "\"model_type\": \"gpt2\"", "\"model_type\": \"bert\""),
            &gpt2,
            Format,
            "model_type is \"bert\"",
        ),
        // 10^12 weights: detected before anything is allocated.
        (
            swap("gpt2", "\"vocab_size\": 11", "\"vocab_size\": 125000000000"),
            &gpt2,
            InvalidArgument,
            "vocab_size is 125000000000; it should be in 1..=2^31",
        ),
        (
            swap("gpt2", "\"vocab_size\": 11", "\"vocab_size\": 2000000000"),
            &gpt2,
            ShapeMismatch,
            "\"wte.weight\" has shape [11, 8], and the config asks for [2000000000, 8]",
        ),
        (
            swap("gpt2", "\"n_layer\": 2", "\"n_layer\": 2000000000"),
            &gpt2,
            Format,
            "the weights lack \"h.2.ln_1.weight\", which the config asks for",
        ),
        (
            swap("gpt2", "\"n_layer\": 2", "\"n_layer\": 1"),
            &gpt2,
            Format,
            "the file has \"h.1.attn.c_attn.bias\", for which this architecture",
        ),
        (
            weights("gpt2", &|w| drop(w.insert("lm_head.weight".into(), zeros(&[11, 8])))),
            &gpt2,
            Format,
            "(tie_word_embeddings), but the weights differ",
        ),
        (
            weights("gpt2", &|w| {
                let shape = Shape::new(&[8]).unwrap();
                w.insert(
                    "transformer.ln_f.bias".into(),
                    HostTensor::new(shape, HostData::I64(vec![0; 8].into())).unwrap(),
                );
            }),
            &gpt2,
            DTypeMismatch,
            "\"ln_f.bias\" is of i64; weights are floats",
        ),
        (
            weights("bert", &|w| drop(w.remove("embeddings.LayerNorm.bias"))),
            &bert,
            Format,
            "lack \"embeddings.Lay",
        ),
        (
            weights("bert", &|w| drop(w.insert("embeddings.LayerNorm.beta".into(), zeros(&[8])))),
            &bert,
            Format,
            "a norm has both gamma and weight, or beta and bias",
        ),
        (swap("bert", "\"is_decoder\": false", "\"is_decoder\": true"), &bert, Unsupported, "as a decoder"),
        (
            swap("llama", "llama3", "yarn"),
            &llama,
            Format,
            "scaled as \"yarn\"; there are default, linear and llama3",
        ),
        (
            swap("llama", "\"factor\": 8.0,", ""),
            &llama,
            Format,
            "the scaling of rotary positions lacks factor",
        ),
        (
            swap("llama", "\"factor\": 8.0", "\"factor\": 0"),
            &llama,
            InvalidArgument,
            "rotary: factor is 0; it should",
        ),
        (
            swap("llama", "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3"),
            &llama,
            InvalidArgument,
            "num_attention_heads is 4 and num_key_value_heads 3",
        ),
        (
            swap("llama", "\"head_dim\": 4", "\"head_dim\": 2147483648"),
            &llama,
            ShapeMismatch,
            "q_proj.weight\" has shape",
        ),
    ];
    for (d, load, kind, sentence) in rows {
        let e = load(d.path());
        assert!(e.message().contains(sentence), "{e:?}, not {sentence}");
        assert_eq!(e.kind(), kind, "{e}");
    }
    let mixed =
        changed("llama_linear", str::to_owned, |w| drop(w.insert("model.norm.weight".into(), zeros(&[8]))));
    let e = Llama::<B>::from_pretrained_as(mixed.path(), Floats::Kept, &D).map(drop).unwrap_err();
    assert!(e.message().contains("load them as f32 (Floats::F32)"), "{e}");
    assert!(Llama::<B>::from_pretrained(mixed.path(), &D).is_ok());
}

#[test]
fn too_many_tokens_are_an_error() {
    let model = Gpt2::<B>::from_pretrained(dir("gpt2"), &D).unwrap();
    let fail = |ids: &T| try_run(|| model.forward(ids)).unwrap_err().message().to_owned();
    assert_eq!(
        fail(&T::zeros([1, 13], DType::I64, &D)),
        "gpt2: 13 tokens after 0, and the model has 12 positions"
    );
    assert_eq!(
        fail(&T::zeros([1, 0], DType::I64, &D)),
        "gpt2: sequences of no tokens; there should be at least one"
    );
    assert_eq!(fail(&T::zeros([3], DType::I64, &D)), "gpt2: tokens of shape [3]; they should be [b, t]");
    assert_eq!(fail(&T::zeros([1, 3], DType::F32, &D)), "gpt2: tokens of f32; they should be i64");
    assert!(fail(&[[11i64]].into()).contains("11"));
    // An aborted pass does not change the cache.
    let mut state = model.start();
    model.advance(&[[1i64, 2]].into(), &mut state);
    assert!(try_run(|| model.advance(&[[99i64]].into(), &mut state)).is_err());
    assert_eq!(state.len(), 2);
}

/// GPT-2's initialisation: 0.02 for weights, smaller by sqrt(2 * layers) for residual projections,
/// biases 0, norms 1.
#[test]
fn a_new_gpt2_starts_as_gpt2_does() {
    let config = Gpt2Config::new(2, 2, 32, 16, 40);
    let model = Gpt2::<B>::new(config, &mut Generator::new(5), &D).unwrap();
    let std = |p: &T| p.square().mean().item::<f64>().sqrt();
    for (name, p) in model.named_parameters() {
        let p = p.get();
        let want = match () {
            () if name.ends_with("bias") => 0.0,
            () if name.contains("ln_") => 1.0,
            () if name.ends_with("c_proj.weight") => 0.01,
            () => 0.02,
        };
        // 512 to 4096 numbers: the deviation of a standard deviation is at most want /
        // sqrt(2 * 512).
        assert!((std(&p) - want).abs() <= 0.12 * want, "{name}: {} and not {want}", std(&p));
    }
    // The output layer is tied to the embedding, so there is one parameter less, and its gradient
    // has two parts.
    assert_eq!(model.num_parameters(), 40 * 32 + 16 * 32 + 2 * (12 * 32 * 32 + 13 * 32) + 2 * 32);
    assert!(!model.state_dict().unwrap().contains_key("lm_head.weight"));
    // Initial logits are near 0, so the loss is that of a uniform distribution.
    let ids = T::from_vec((0..16).map(|i| i * 7 % 40).collect::<Vec<i64>>(), [1, 16], &D);
    model.eval();
    let loss =
        loss::cross_entropy(&model.forward(&ids).reshape([16, 40]), &ids.roll([-1], None).reshape([16]));
    assert!((loss.item::<f64>() - 40f64.ln()).abs() < 0.2, "{}", loss.item::<f64>());
}

/// Every model overfits a short text in a few steps, reproducibly.
#[test]
fn models_learn_reproducibly() {
    fn learn<M: Layer<B>>(model: &M, steps: usize) -> (f64, f64) {
        let text: Vec<i64> = vec![1, 5, 2, 7, 3, 3, 0, 6, 4];
        let x = T::from_vec(text[..8].to_vec(), [1, 8], &D);
        let y = T::from_vec(text[1..].to_vec(), [8], &D);
        let mut optim = Adam::new(0.02);
        let mut losses = vec![];
        for _ in 0..steps {
            let logits = model.forward(&x).reshape([8, 8]);
            let loss = loss::cross_entropy(&logits, &y);
            optim.step(model, &loss.backward()).unwrap();
            losses.push(loss.item::<f64>());
        }
        (losses[0], losses[steps - 1])
    }
    let gpt2 =
        || Gpt2::<B>::new(Gpt2Config::new(1, 2, 8, 8, 8).dropout(0.05), &mut Generator::new(1), &D).unwrap();
    let llama = || Llama::<B>::new(LlamaConfig::new(1, 2, 8, 16, 8, 8), &mut Generator::new(1), &D).unwrap();
    let (a, b) = (learn(&gpt2(), 40), learn(&llama(), 40));
    assert!(a.1 < 0.5 * a.0 && b.1 < 0.5 * b.0, "{a:?} {b:?}");
    assert_eq!((a, b), (learn(&gpt2(), 40), learn(&llama(), 40)));
}

#[test]
fn a_new_bert_has_transformers_names() {
    let config = BertConfig::new(2, 2, 8, 12, 9, 11);
    let model = Bert::<B>::new(config, &mut Generator::new(1), &D).unwrap();
    let weights = load_safetensors(dir("bert").join("model.safetensors")).unwrap().tensors;
    model.load_state_dict(&weights, Strict::Yes).unwrap();
    assert_eq!(model.state_dict().unwrap(), weights);
}
