//! Llama (Touvron and others, 2023) and models of the same architecture, with the names of
//! transformers' `LlamaForCausalLM`.

use super::hf::{self, Floats};
use super::source::Source;
use crate::generate::CausalLm;
use crate::layers::attention::WeightDropout;
use crate::layers::{
    Attention, AttentionContext, Embedding, KvCache, Linear, MlpActivation, RMSNorm, Rotary, RotaryScaling,
};
use crate::{Layer, Module, StateDict};
use elinvar_core::{Error, Result};
use elinvar_ops::Backend;
use elinvar_ops::catalogue as op;
use elinvar_tensor::{Generator, OrFail, Tensor};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The settings of a [`Llama`], by the names of its config.json.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Json", into = "Json")]
pub struct LlamaConfig {
    /// Size of the vocabulary.
    pub vocab_size: usize,
    /// Features of a token.
    pub hidden_size: usize,
    /// Width of the feed-forward blocks.
    pub intermediate_size: usize,
    /// Blocks.
    pub num_hidden_layers: usize,
    /// Heads of queries.
    pub num_attention_heads: usize,
    /// Heads of keys and values.
    pub num_key_value_heads: usize,
    /// Size of a head.
    pub head_dim: usize,
    /// Maximal number of positions in training.
    pub max_position_embeddings: usize,
    /// The eps of the norms.
    pub rms_norm_eps: f64,
    /// Base of the rotary positions.
    pub rope_theta: f64,
    /// Scaling of the rotary positions.
    pub rope_scaling: RotaryScaling,
    /// Do the projections of attention have biases?
    pub attention_bias: bool,
    /// Do those of the feed-forward blocks have biases?
    pub mlp_bias: bool,
    /// Dropout of attention weights.
    pub attention_dropout: f64,
    /// Activation of the feed-forward blocks.
    pub hidden_act: String,
    /// Standard deviation of the initial weights.
    pub initializer_range: f64,
    /// Is the output layer's weight tied to the embedding?
    pub tie_word_embeddings: bool,
}

/// The raw config.json: either rope_theta and rope_scaling (transformers before 5), or
/// rope_parameters.
#[derive(Serialize, Deserialize)]
struct Json {
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    num_key_value_heads: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    head_dim: Option<usize>,
    max_position_embeddings: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    rms_norm_eps: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rope_theta: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rope_scaling: Option<Rope>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rope_parameters: Option<Rope>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partial_rotary_factor: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attention_bias: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mlp_bias: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attention_dropout: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hidden_act: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    initializer_range: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tie_word_embeddings: Option<bool>,
}

/// Either `rope_type` or the older `type`.
#[derive(Default, Serialize, Deserialize)]
struct Rope {
    #[serde(skip_serializing_if = "Option::is_none")]
    rope_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rope_theta: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    factor: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    low_freq_factor: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    high_freq_factor: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    original_max_position_embeddings: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partial_rotary_factor: Option<f64>,
}

impl Rope {
    fn scaling(&self) -> Result<RotaryScaling> {
        let need = |field: &str, value: Option<f64>| {
            value.ok_or_else(|| Error::format(format!("the scaling of rotary positions lacks {field}")))
        };
        if self.partial_rotary_factor.is_some_and(|f| f != 1.0) {
            return Err(Error::unsupported("config: rotary positions of a part of a head"));
        }
        match self.rope_type.as_ref().or(self.r#type.as_ref()).map(String::as_str) {
            None | Some("default") => Ok(RotaryScaling::None),
            Some("linear") => Ok(RotaryScaling::Linear { factor: need("factor", self.factor)? }),
            Some("llama3") => Ok(RotaryScaling::Llama3 {
                factor: need("factor", self.factor)?,
                low_freq_factor: need("low_freq_factor", self.low_freq_factor)?,
                high_freq_factor: need("high_freq_factor", self.high_freq_factor)?,
                original_positions: self.original_max_position_embeddings.ok_or_else(|| {
                    Error::format("the scaling of rotary positions lacks original_max_position_embeddings")
                })?,
            }),
            Some(other) => Err(Error::unsupported(format!(
                "config: rotary positions scaled as \"{other}\"; there are default, linear and llama3"
            ))),
        }
    }
}

impl TryFrom<Json> for LlamaConfig {
    type Error = Error;
    fn try_from(j: Json) -> Result<Self> {
        if j.partial_rotary_factor.is_some_and(|f| f != 1.0) {
            return Err(Error::unsupported("config: rotary positions of a part of a head"));
        }
        let heads = hf::size("num_attention_heads", j.num_attention_heads)?;
        let head_dim = j
            .head_dim
            .map_or_else(|| hf::share("hidden_size", j.hidden_size, "num_attention_heads", heads), Ok)?;
        let rope = j.rope_parameters.as_ref().or(j.rope_scaling.as_ref());
        Ok(LlamaConfig {
            vocab_size: j.vocab_size,
            hidden_size: j.hidden_size,
            intermediate_size: j.intermediate_size,
            num_hidden_layers: j.num_hidden_layers,
            num_attention_heads: heads,
            num_key_value_heads: j.num_key_value_heads.unwrap_or(heads),
            head_dim,
            max_position_embeddings: j.max_position_embeddings,
            rms_norm_eps: j.rms_norm_eps.unwrap_or(1e-6),
            rope_theta: rope.and_then(|r| r.rope_theta).or(j.rope_theta).unwrap_or(10000.0),
            rope_scaling: rope.map_or(Ok(RotaryScaling::None), Rope::scaling)?,
            attention_bias: j.attention_bias.unwrap_or(false),
            mlp_bias: j.mlp_bias.unwrap_or(false),
            attention_dropout: j.attention_dropout.unwrap_or(0.0),
            hidden_act: j.hidden_act.unwrap_or_else(|| "silu".into()),
            initializer_range: j.initializer_range.unwrap_or(0.02),
            tie_word_embeddings: j.tie_word_embeddings.unwrap_or(false),
        })
    }
}

impl From<LlamaConfig> for Json {
    /// In the form of transformers before 5, which all versions read.
    fn from(c: LlamaConfig) -> Self {
        let rope = |kind: &str, factor: f64| Rope {
            rope_type: Some(kind.into()),
            factor: Some(factor),
            ..Rope::default()
        };
        Json {
            vocab_size: c.vocab_size,
            hidden_size: c.hidden_size,
            intermediate_size: c.intermediate_size,
            num_hidden_layers: c.num_hidden_layers,
            num_attention_heads: c.num_attention_heads,
            num_key_value_heads: Some(c.num_key_value_heads),
            head_dim: Some(c.head_dim),
            max_position_embeddings: c.max_position_embeddings,
            rms_norm_eps: Some(c.rms_norm_eps),
            rope_theta: Some(c.rope_theta),
            rope_scaling: match c.rope_scaling {
                RotaryScaling::None => None,
                RotaryScaling::Linear { factor } => Some(rope("linear", factor)),
                RotaryScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_positions } => {
                    Some(Rope {
                        low_freq_factor: Some(low_freq_factor),
                        high_freq_factor: Some(high_freq_factor),
                        original_max_position_embeddings: Some(original_positions),
                        ..rope("llama3", factor)
                    })
                }
            },
            rope_parameters: None,
            partial_rotary_factor: None,
            attention_bias: Some(c.attention_bias),
            mlp_bias: Some(c.mlp_bias),
            attention_dropout: Some(c.attention_dropout),
            hidden_act: Some(c.hidden_act),
            initializer_range: Some(c.initializer_range),
            tie_word_embeddings: Some(c.tie_word_embeddings),
        }
    }
}

impl LlamaConfig {
    /// These sizes, with as many key heads as query heads, and Llama's other settings.
    pub fn new(
        layers: usize,
        heads: usize,
        hidden_size: usize,
        intermediate_size: usize,
        positions: usize,
        vocab_size: usize,
    ) -> Self {
        LlamaConfig {
            vocab_size,
            hidden_size,
            intermediate_size,
            num_hidden_layers: layers,
            num_attention_heads: heads,
            num_key_value_heads: heads,
            head_dim: hidden_size.checked_div(heads).unwrap_or(0),
            max_position_embeddings: positions,
            rms_norm_eps: 1e-6,
            rope_theta: 10000.0,
            rope_scaling: RotaryScaling::None,
            attention_bias: false,
            mlp_bias: false,
            attention_dropout: 0.0,
            hidden_act: "silu".into(),
            initializer_range: 0.02,
            tie_word_embeddings: false,
        }
    }
    fn check(&self) -> Result<()> {
        hf::size("vocab_size", self.vocab_size)?;
        hf::size("hidden_size", self.hidden_size)?;
        hf::size("intermediate_size", self.intermediate_size)?;
        hf::size("num_hidden_layers", self.num_hidden_layers)?;
        hf::size("head_dim", self.head_dim)?;
        hf::size("max_position_embeddings", self.max_position_embeddings)?;
        hf::share(
            "num_attention_heads",
            self.num_attention_heads,
            "num_key_value_heads",
            self.num_key_value_heads,
        )?;
        hf::probability("attention_dropout", self.attention_dropout)?;
        Ok(())
    }
}

/// The feed-forward part of a block: down(act(gate(x)) * up(x)).
#[derive(Debug, Module)]
pub struct LlamaMlp<B: Backend> {
    /// [intermediate_size, hidden_size]
    pub gate_proj: Linear<B>,
    /// [intermediate_size, hidden_size]
    pub up_proj: Linear<B>,
    /// [hidden_size, intermediate_size]
    pub down_proj: Linear<B>,
    #[module(skip)]
    activation: MlpActivation,
}

impl<B: Backend> Layer<B> for LlamaMlp<B> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        let gate = self.activation.apply(&self.gate_proj.forward(x));
        self.down_proj.forward(&(gate * self.up_proj.forward(x)))
    }
}

/// A pre-norm block: attention and a feed-forward part, each with a residual connection.
#[derive(Debug, Module)]
pub struct LlamaBlock<B: Backend> {
    /// The attention.
    pub self_attn: Attention<B>,
    /// The feed-forward part.
    pub mlp: LlamaMlp<B>,
    /// The norm before the attention.
    pub input_layernorm: RMSNorm<B>,
    /// The norm before the feed-forward part.
    pub post_attention_layernorm: RMSNorm<B>,
}

/// A Llama without its head.
#[derive(Debug, Module)]
pub struct LlamaModel<B: Backend> {
    /// [vocab_size, hidden_size]
    pub embed_tokens: Embedding<B>,
    /// The blocks.
    pub layers: Vec<LlamaBlock<B>>,
    /// Norm after the last layer.
    pub norm: RMSNorm<B>,
}

/// A Llama with a head that gives logits of the next token.
///
/// x: [b, t] of i64   y: [b, t, vocab_size]
#[derive(Debug, Module)]
pub struct Llama<B: Backend> {
    /// The model without the head.
    pub model: LlamaModel<B>,
    /// The output layer, if its weight is not tied.
    pub lm_head: Option<Linear<B>>,
    #[module(skip)]
    rotary: Rotary,
    #[module(skip)]
    config: LlamaConfig,
}

impl<B: Backend> Llama<B> {
    /// A model with random weights: normal with standard deviation `initializer_range`, biases 0.
    ///
    /// # Errors
    /// `InvalidArgument`, `Unsupported` if the config is invalid or not implemented.
    ///
    /// # Panics
    /// If memory is exhausted.
    pub fn new(config: LlamaConfig, g: &mut Generator, device: &B::Device) -> Result<Self> {
        Self::build(config, &mut Source::random(g, device))
    }
    /// Reads `config.json` and `model.safetensors` of a directory, as f32. The model is in
    /// evaluation mode; `train()` switches to training.
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
    /// As [`Llama::from_pretrained`].
    pub fn from_pretrained_as(dir: impl AsRef<Path>, floats: Floats, device: &B::Device) -> Result<Self> {
        let names = |config: &LlamaConfig, mut tensors: StateDict| {
            if tensors.contains_key("embed_tokens.weight") {
                // A checkpoint of LlamaModel, without the head.
                tensors = tensors.into_iter().map(|(name, t)| (format!("model.{name}"), t)).collect();
            }
            if config.tie_word_embeddings {
                hf::tie(&mut tensors, "lm_head.weight", "model.embed_tokens.weight")?;
            }
            Ok(tensors)
        };
        hf::load(dir.as_ref(), "llama", (floats, device), names, Self::build, &[".rotary_emb.inv_freq"])
    }
    fn build(config: LlamaConfig, s: &mut Source<B>) -> Result<Self> {
        config.check()?;
        let activation = hf::activation(&config.hidden_act)?;
        let (e, inner, std) = (config.hidden_size, config.intermediate_size, config.initializer_range);
        let (heads, kv_heads) = (config.num_attention_heads, config.num_key_value_heads);
        // Sizes are at most 2^31 each, so the products fit into 64 bits.
        let (wide, narrow) = (heads * config.head_dim, kv_heads * config.head_dim);
        let (bias, eps) = (config.attention_bias, config.rms_norm_eps);
        let embed_tokens = s.embedding("model.embed_tokens", config.vocab_size, e, std)?;
        let mut layers = vec![];
        for i in 0..config.num_hidden_layers {
            let at = |part: &str| format!("model.layers.{i}.{part}");
            let q = s.linear(&at("self_attn.q_proj"), [e, wide], bias, std)?;
            let k = s.linear(&at("self_attn.k_proj"), [e, narrow], bias, std)?;
            let v = s.linear(&at("self_attn.v_proj"), [e, narrow], bias, std)?;
            let o = s.linear(&at("self_attn.o_proj"), [wide, e], bias, std)?;
            let dropout = WeightDropout::new(config.attention_dropout, s.generator);
            layers.push(LlamaBlock {
                self_attn: Attention::of(q, k, v, o, heads, kv_heads, dropout)?,
                mlp: LlamaMlp {
                    gate_proj: s.linear(&at("mlp.gate_proj"), [e, inner], config.mlp_bias, std)?,
                    up_proj: s.linear(&at("mlp.up_proj"), [e, inner], config.mlp_bias, std)?,
                    down_proj: s.linear(&at("mlp.down_proj"), [inner, e], config.mlp_bias, std)?,
                    activation,
                },
                input_layernorm: s.rms_norm(&at("input_layernorm"), e, eps)?,
                post_attention_layernorm: s.rms_norm(&at("post_attention_layernorm"), e, eps)?,
            });
        }
        let norm = s.rms_norm("model.norm", e, eps)?;
        let untied = !config.tie_word_embeddings;
        let lm_head = untied.then(|| s.linear("lm_head", [e, config.vocab_size], false, std)).transpose()?;
        let rotary = Rotary::new(config.head_dim, config.rope_theta, config.rope_scaling)?;
        Ok(Llama { model: LlamaModel { embed_tokens, layers, norm }, lm_head, rotary, config })
    }
    /// Writes `config.json` and `model.safetensors` into a directory, which is created if it is
    /// missing: for [`Llama::from_pretrained`], and for transformers as a `LlamaForCausalLM`.
    ///
    /// # Errors
    /// `Io` with the path; what the device reports.
    pub fn save_pretrained(&self, dir: impl AsRef<Path>) -> Result<()> {
        hf::save(dir.as_ref(), ("llama", "LlamaForCausalLM"), &self.config, self, "", &[])
    }
    /// The settings.
    pub fn config(&self) -> &LlamaConfig {
        &self.config
    }
    /// The output of the last norm: [b, t, hidden_size]. With a cache, for tokens that follow those
    /// in the cache.
    ///
    /// # Panics
    /// If a token is not in the vocabulary.
    #[track_caller]
    pub fn hidden(&self, ids: &Tensor<B>, mut cache: Option<&mut KvCache<B>>) -> Tensor<B> {
        let past = cache.as_mut().map_or(0, |c| c.settle());
        let t = super::tokens("llama", ids, past, None).or_fail();
        let mut x = self.model.embed_tokens.forward(ids);
        let rotary = match cache.as_ref().and_then(|c| c.fixed()) {
            None => self.rotary.table(past, t, x.dtype(), x.device()),
            Some((rows, at)) => {
                self.rotary.table(0, rows, x.dtype(), x.device()).and_then(|table| table.at(at))
            }
        };
        let rotary = Some(rotary.or_fail());
        let context = AttentionContext { mask: None, causal: true, rotary };
        for (i, block) in self.model.layers.iter().enumerate() {
            let cache = cache.as_mut().map(|c| (&mut **c, i));
            x = &x + block.self_attn.forward(&block.input_layernorm.forward(&x), &context, cache);
            x = &x + block.mlp.forward(&block.post_attention_layernorm.forward(&x));
        }
        self.model.norm.forward(&x)
    }
    fn output(&self, x: &Tensor<B>) -> Tensor<B> {
        match &self.lm_head {
            Some(head) => head.forward(x),
            None => op::linear(x, &self.model.embed_tokens.weight.get(), None).or_fail(),
        }
    }
}

impl<B: Backend> Layer<B> for Llama<B> {
    #[track_caller]
    fn forward(&self, ids: &Tensor<B>) -> Tensor<B> {
        self.output(&self.hidden(ids, None))
    }
}

impl<B: Backend> CausalLm<B> for Llama<B> {
    type State = KvCache<B>;
    fn start(&self) -> KvCache<B> {
        KvCache::new(self.model.layers.len())
    }
    fn context(&self) -> Option<usize> {
        Some(self.config.max_position_embeddings)
    }
    fn device(&self) -> B::Device {
        self.model.embed_tokens.weight.get().device().clone()
    }
    #[track_caller]
    fn advance(&self, ids: &Tensor<B>, state: &mut KvCache<B>) -> Tensor<B> {
        self.output(&self.hidden(ids, Some(state)).select(1, -1))
    }
}
