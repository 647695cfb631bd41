//! BERT's encoder (Devlin and others, 2018), with the names of transformers' `BertModel`; and
//! sentence embeddings of it.

use super::hf::{self, Floats};
use super::source::Source;
use crate::layers::attention::{WeightDropout, attend, join_heads, split_heads};
use crate::layers::positions::places;
use crate::layers::{Dropout, Embedding, LayerNorm, Linear, MlpActivation};
use crate::{Layer, Module, StateDict};
use elinvar_core::{DType, Error, Result};
use elinvar_ops::Backend;
use elinvar_tensor::{Generator, OrFail, Tensor};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The settings of a [`Bert`], by the names of its config.json.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BertConfig {
    /// Size of the vocabulary.
    pub vocab_size: usize,
    /// Features of a token.
    pub hidden_size: usize,
    /// Layers.
    pub num_hidden_layers: usize,
    /// Heads of each attention.
    pub num_attention_heads: usize,
    /// Width of the feed-forward blocks.
    pub intermediate_size: usize,
    /// Maximal number of positions.
    pub max_position_embeddings: usize,
    /// Number of segment types.
    #[serde(default = "two")]
    pub type_vocab_size: usize,
    /// Activation of the feed-forward blocks.
    #[serde(default = "gelu")]
    pub hidden_act: String,
    /// Dropout of embeddings and of residual branches.
    #[serde(default = "tenth")]
    pub hidden_dropout_prob: f64,
    /// Dropout of attention weights.
    #[serde(default = "tenth")]
    pub attention_probs_dropout_prob: f64,
    /// The eps of the norms.
    #[serde(default = "eps")]
    pub layer_norm_eps: f64,
    /// Standard deviation of the initial weights.
    #[serde(default = "std")]
    pub initializer_range: f64,
    #[serde(default)]
    position_embedding_type: Option<String>,
    #[serde(default)]
    is_decoder: bool,
}

fn two() -> usize {
    2
}
fn gelu() -> String {
    "gelu".into()
}
fn tenth() -> f64 {
    0.1
}
fn eps() -> f64 {
    1e-12
}
fn std() -> f64 {
    0.02
}

impl BertConfig {
    /// These sizes, and BERT's other settings.
    pub fn new(
        layers: usize,
        heads: usize,
        hidden_size: usize,
        intermediate_size: usize,
        positions: usize,
        vocab_size: usize,
    ) -> Self {
        BertConfig {
            vocab_size,
            hidden_size,
            num_hidden_layers: layers,
            num_attention_heads: heads,
            intermediate_size,
            max_position_embeddings: positions,
            type_vocab_size: two(),
            hidden_act: gelu(),
            hidden_dropout_prob: tenth(),
            attention_probs_dropout_prob: tenth(),
            layer_norm_eps: eps(),
            initializer_range: std(),
            position_embedding_type: None,
            is_decoder: false,
        }
    }
    fn check(&self) -> Result<()> {
        hf::size("vocab_size", self.vocab_size)?;
        hf::size("num_hidden_layers", self.num_hidden_layers)?;
        hf::size("intermediate_size", self.intermediate_size)?;
        hf::size("max_position_embeddings", self.max_position_embeddings)?;
        hf::size("type_vocab_size", self.type_vocab_size)?;
        hf::share("hidden_size", self.hidden_size, "num_attention_heads", self.num_attention_heads)?;
        hf::probability("hidden_dropout_prob", self.hidden_dropout_prob)?;
        hf::probability("attention_probs_dropout_prob", self.attention_probs_dropout_prob)?;
        let absolute = self.position_embedding_type.as_ref().is_none_or(|t| t == "absolute");
        if !absolute || self.is_decoder {
            return Err(Error::unsupported("config: a BERT with relative positions, or as a decoder"));
        }
        Ok(())
    }
}

/// The sum of three embeddings, normed.
#[derive(Debug, Module)]
pub struct BertEmbeddings<B: Backend> {
    /// [vocab_size, hidden_size]
    pub word_embeddings: Embedding<B>,
    /// [max_position_embeddings, hidden_size]
    pub position_embeddings: Embedding<B>,
    /// [type_vocab_size, hidden_size]
    pub token_type_embeddings: Embedding<B>,
    /// The norm of the sum.
    #[module(rename = "LayerNorm")]
    pub norm: LayerNorm<B>,
    dropout: Dropout,
}

/// Projections of an attention's queries, keys and values.
#[derive(Debug, Module)]
pub struct BertSelfAttention<B: Backend> {
    /// [hidden_size, hidden_size]
    pub query: Linear<B>,
    /// [hidden_size, hidden_size]
    pub key: Linear<B>,
    /// [hidden_size, hidden_size]
    pub value: Linear<B>,
    dropout: WeightDropout,
    heads: usize,
}

/// The end of a block: a product, the residual connection, a norm.
#[derive(Debug, Module)]
pub struct BertOutput<B: Backend> {
    /// Back to hidden_size.
    pub dense: Linear<B>,
    /// The norm of the sum.
    #[module(rename = "LayerNorm")]
    pub norm: LayerNorm<B>,
    dropout: Dropout,
}

/// Attention of a layer.
#[derive(Debug, Module)]
pub struct BertAttention<B: Backend> {
    /// `self`
    #[module(rename = "self")]
    pub inner: BertSelfAttention<B>,
    /// The output projection and norm.
    pub output: BertOutput<B>,
}

/// The first layer of a feed-forward block.
#[derive(Debug, Module)]
pub struct BertIntermediate<B: Backend> {
    /// [intermediate_size, hidden_size]
    pub dense: Linear<B>,
    #[module(skip)]
    activation: MlpActivation,
}

/// Attention, then a feed-forward block.
#[derive(Debug, Module)]
pub struct BertLayer<B: Backend> {
    /// The attention.
    pub attention: BertAttention<B>,
    /// The first layer of the feed-forward block.
    pub intermediate: BertIntermediate<B>,
    /// The second layer of the feed-forward block.
    pub output: BertOutput<B>,
}

/// The layers.
#[derive(Debug, Module)]
pub struct BertEncoder<B: Backend> {
    /// One after the other.
    pub layer: Vec<BertLayer<B>>,
}

/// The pooler: tanh of a projection of the first token.
#[derive(Debug, Module)]
pub struct BertPooler<B: Backend> {
    /// [hidden_size, hidden_size]
    pub dense: Linear<B>,
}

/// BERT's encoder.
#[derive(Debug, Module)]
pub struct Bert<B: Backend> {
    /// The embeddings of tokens.
    pub embeddings: BertEmbeddings<B>,
    /// The layers.
    pub encoder: BertEncoder<B>,
    /// The pooler, which some models lack.
    pub pooler: Option<BertPooler<B>>,
    #[module(skip)]
    config: BertConfig,
}

impl<B: Backend> Bert<B> {
    /// A model with random weights: normal with standard deviation `initializer_range`, biases 0.
    ///
    /// # Errors
    /// `InvalidArgument`, `Unsupported` if the config is invalid or not implemented.
    ///
    /// # Panics
    /// If memory is exhausted.
    pub fn new(config: BertConfig, g: &mut Generator, device: &B::Device) -> Result<Self> {
        Self::build(config, &mut Source::random(g, device))
    }
    /// Reads `config.json` and `model.safetensors` of a directory, as f32. The model is in
    /// evaluation mode; `train()` switches to training.
    ///
    /// Names may have the prefix `bert.`; then names without it are a task's head and are ignored.
    /// A buffer `embeddings.position_ids` is ignored, and the pooler may be missing.
    ///
    /// # Errors
    /// `Io`, `Format`, `ShapeMismatch`, `DTypeMismatch`, `InvalidArgument`, `Unsupported`,
    /// `OutOfMemory`.
    pub fn from_pretrained(dir: impl AsRef<Path>, device: &B::Device) -> Result<Self> {
        Self::from_pretrained_as(dir, Floats::F32, device)
    }
    /// The same, with a choice of the dtype of weights that are stored in 16 bits.
    ///
    /// # Errors
    /// As [`Bert::from_pretrained`].
    pub fn from_pretrained_as(dir: impl AsRef<Path>, floats: Floats, device: &B::Device) -> Result<Self> {
        let names = |_: &BertConfig, mut tensors: StateDict| {
            if tensors.keys().any(|name| name.starts_with("bert.")) {
                tensors.retain(|name, _| name.starts_with("bert."));
            }
            Ok(hf::without_prefix(tensors, "bert.", "embeddings.word_embeddings.weight"))
        };
        hf::load(dir.as_ref(), "bert", (floats, device), names, Self::build, &["embeddings.position_ids"])
    }
    fn build(config: BertConfig, s: &mut Source<B>) -> Result<Self> {
        config.check()?;
        let activation = hf::activation(&config.hidden_act)?;
        let (e, inner, std) = (config.hidden_size, config.intermediate_size, config.initializer_range);
        let (eps, p) = (config.layer_norm_eps, config.hidden_dropout_prob);
        let embeddings = BertEmbeddings {
            word_embeddings: s.embedding("embeddings.word_embeddings", config.vocab_size, e, std)?,
            position_embeddings: s.embedding(
                "embeddings.position_embeddings",
                config.max_position_embeddings,
                e,
                std,
            )?,
            token_type_embeddings: s.embedding(
                "embeddings.token_type_embeddings",
                config.type_vocab_size,
                e,
                std,
            )?,
            norm: s.layer_norm("embeddings.LayerNorm", e, eps)?,
            dropout: Dropout::new(p, s.generator),
        };
        let mut layer = vec![];
        for i in 0..config.num_hidden_layers {
            let at = |part: &str| format!("encoder.layer.{i}.{part}");
            let output = |s: &mut Source<B>, part: &str, inputs: usize| {
                Ok::<_, Error>(BertOutput {
                    dense: s.linear(&at(&format!("{part}.dense")), [inputs, e], true, std)?,
                    norm: s.layer_norm(&at(&format!("{part}.LayerNorm")), e, eps)?,
                    dropout: Dropout::new(p, s.generator),
                })
            };
            layer.push(BertLayer {
                attention: BertAttention {
                    inner: BertSelfAttention {
                        query: s.linear(&at("attention.self.query"), [e, e], true, std)?,
                        key: s.linear(&at("attention.self.key"), [e, e], true, std)?,
                        value: s.linear(&at("attention.self.value"), [e, e], true, std)?,
                        dropout: WeightDropout::new(config.attention_probs_dropout_prob, s.generator),
                        heads: config.num_attention_heads,
                    },
                    output: output(s, "attention.output", e)?,
                },
                intermediate: BertIntermediate {
                    dense: s.linear(&at("intermediate.dense"), [e, inner], true, std)?,
                    activation,
                },
                output: output(s, "output", inner)?,
            });
        }
        let pooler = s
            .has("pooler.dense.weight")
            .then(|| Ok::<_, Error>(BertPooler { dense: s.linear("pooler.dense", [e, e], true, std)? }))
            .transpose()?;
        Ok(Bert { embeddings, encoder: BertEncoder { layer }, pooler, config })
    }
    /// Writes `config.json` and `model.safetensors` into a directory, which is created if it is
    /// missing: for [`Bert::from_pretrained`], and for transformers as a `BertModel`.
    ///
    /// # Errors
    /// `Io` with the path; what the device reports.
    pub fn save_pretrained(&self, dir: impl AsRef<Path>) -> Result<()> {
        hf::save(dir.as_ref(), ("bert", "BertModel"), &self.config, self, "", &[])
    }
    /// The settings.
    pub fn config(&self) -> &BertConfig {
        &self.config
    }
    /// The features of every token.
    ///
    /// ids: [b, t] of i64   token_types: as ids, 0 if not given
    /// mask: [b, t] of i64 or bool, 0 or false for padding   y: [b, t, hidden_size]
    ///
    /// # Panics
    /// If there are more tokens than positions, a token is not in the vocabulary, or shapes do not
    /// fit.
    #[track_caller]
    pub fn forward(
        &self,
        ids: &Tensor<B>,
        token_types: Option<&Tensor<B>>,
        mask: Option<&Tensor<B>>,
    ) -> Tensor<B> {
        let t = super::tokens("bert", ids, 0, Some(self.config.max_position_embeddings)).or_fail();
        let keep = mask.map(|m| kept(ids, m).or_fail().unsqueeze(1).unsqueeze(1));
        let zeros = || ids.zeros_like();
        let e = &self.embeddings;
        let types = e.token_type_embeddings.forward(&token_types.cloned().unwrap_or_else(zeros));
        let places = e.position_embeddings.forward(&places(0, t, ids.device()));
        let x = e.word_embeddings.forward(ids) + types + places;
        let x = e.dropout.forward(&e.norm.forward(&x));
        self.encoder.layer.iter().fold(x, |x, layer| layer.forward(&x, keep.as_ref()))
    }
    /// tanh of a projection of the first token's features: [b, t, hidden_size] to [b, hidden_size].
    ///
    /// # Panics
    /// If the model has no pooler, or shapes do not fit.
    #[track_caller]
    pub fn pooled(&self, hidden: &Tensor<B>) -> Tensor<B> {
        match &self.pooler {
            Some(pooler) => pooler.dense.forward(&hidden.select(1, 0)).tanh(),
            None => Err(Error::unsupported("bert: this model has no pooler")).or_fail(),
        }
    }
    /// Sentence embeddings of length 1, in Sentence Transformers' order: the mean over the tokens
    /// without padding, then normalised. The amount of padding in a batch does not change a bit.
    ///
    /// ids, mask: [b, t]   y: [b, hidden_size]
    ///
    /// # Panics
    /// As [`Bert::forward`].
    #[track_caller]
    pub fn sentence_embeddings(&self, ids: &Tensor<B>, mask: &Tensor<B>) -> Tensor<B> {
        mean_pooled(&self.forward(ids, None, Some(mask)), mask).normalize(2.0, -1, 1e-12)
    }
}

/// The mask as bool.
fn kept<B: Backend>(ids: &Tensor<B>, mask: &Tensor<B>) -> Result<Tensor<B>> {
    if mask.shape() == ids.shape() {
        elinvar_ops::value::cast(mask, DType::Bool)
    } else {
        Err(Error::shape(format!(
            "bert: ids {} and mask {}; both should be [b, t]",
            ids.shape(),
            mask.shape()
        )))
    }
}

impl<B: Backend> BertLayer<B> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>, keep: Option<&Tensor<B>>) -> Tensor<B> {
        let a = &self.attention.inner;
        let (q, k, v) = (a.query.forward(x), a.key.forward(x), a.value.forward(x));
        let found = (|| {
            let (q, k, v) = (split_heads(&q, a.heads)?, split_heads(&k, a.heads)?, split_heads(&v, a.heads)?);
            join_heads(&attend(&q, &k, &v, keep, false, a.dropout.active())?)
        })();
        let x = self.attention.output.forward(&found.or_fail(), x);
        let wide = self.intermediate.activation.apply(&self.intermediate.dense.forward(&x));
        self.output.forward(&wide, &x)
    }
}

impl<B: Backend> BertOutput<B> {
    #[track_caller]
    fn forward(&self, inner: &Tensor<B>, x: &Tensor<B>) -> Tensor<B> {
        self.norm.forward(&(self.dropout.forward(&self.dense.forward(inner)) + x))
    }
}

/// The mean over the tokens without padding: [b, e] from [b, t, e] and mask [b, t].
///
/// # Panics
/// If the shapes do not fit.
#[track_caller]
pub fn mean_pooled<B: Backend>(hidden: &Tensor<B>, mask: &Tensor<B>) -> Tensor<B> {
    let mask = mask.to_dtype(DType::Bool);
    let mean = |[hidden]: [&Tensor<B>; 1]| {
        let mask = mask.to_dtype(hidden.dtype()).unsqueeze(-1);
        // 0 and not NaN if all tokens are padding.
        let n = mask.sum_dim(1, false).clamp(Some(1e-9.into()), None);
        Ok((hidden * &mask).sum_dim(1, false) / n)
    };
    // f16 holds neither the bound nor the sums of many tokens, bf16 no count above 256.
    elinvar_ops::value::widen([hidden], mean).or_fail()
}
