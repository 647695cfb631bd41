//! GPT-2 (Radford and others, 2019), with the names of transformers' `GPT2Model` and
//! `GPT2LMHeadModel`.

use super::hf::{self, Floats};
use super::source::{Source, Start};
use crate::generate::CausalLm;
use crate::layers::attention::{WeightDropout, attend, join_heads, split_heads};
use crate::layers::positions::places;
use crate::layers::{Dropout, Embedding, KvCache, LayerNorm, Linear, MlpActivation};
use crate::module::Visit;
use crate::{Layer, Module, Param};
use elinvar_core::{Error, Result};
use elinvar_ops::Backend;
use elinvar_ops::catalogue as op;
use elinvar_tensor::{Generator, OrFail, Tensor};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// The settings of a [`Gpt2`], by the names of its config.json.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gpt2Config {
    /// Size of the vocabulary.
    pub vocab_size: usize,
    /// Maximal number of positions.
    pub n_positions: usize,
    /// Features of a token.
    pub n_embd: usize,
    /// Blocks.
    pub n_layer: usize,
    /// Heads of each attention.
    pub n_head: usize,
    /// Width of the feed-forward blocks; 4 * n_embd if not given.
    #[serde(default)]
    pub n_inner: Option<usize>,
    /// The eps of the norms.
    #[serde(default = "eps")]
    pub layer_norm_epsilon: f64,
    /// Activation of the feed-forward blocks.
    #[serde(default = "gelu_new")]
    pub activation_function: String,
    /// Dropout of the embeddings.
    #[serde(default = "tenth")]
    pub embd_pdrop: f64,
    /// Dropout of attention weights.
    #[serde(default = "tenth")]
    pub attn_pdrop: f64,
    /// Dropout of residual branches.
    #[serde(default = "tenth")]
    pub resid_pdrop: f64,
    /// Standard deviation of the initial weights.
    #[serde(default = "std")]
    pub initializer_range: f64,
    /// Is the output layer's weight tied to the embedding?
    #[serde(default = "yes")]
    pub tie_word_embeddings: bool,
    #[serde(default = "yes")]
    scale_attn_weights: bool,
    #[serde(default)]
    scale_attn_by_inverse_layer_idx: bool,
    #[serde(default)]
    add_cross_attention: bool,
}

fn eps() -> f64 {
    1e-5
}
fn gelu_new() -> String {
    "gelu_new".into()
}
fn tenth() -> f64 {
    0.1
}
fn std() -> f64 {
    0.02
}
fn yes() -> bool {
    true
}

impl Gpt2Config {
    /// These sizes, and GPT-2's other settings.
    pub fn new(n_layer: usize, n_head: usize, n_embd: usize, n_positions: usize, vocab_size: usize) -> Self {
        Gpt2Config {
            vocab_size,
            n_positions,
            n_embd,
            n_layer,
            n_head,
            n_inner: None,
            layer_norm_epsilon: eps(),
            activation_function: gelu_new(),
            embd_pdrop: tenth(),
            attn_pdrop: tenth(),
            resid_pdrop: tenth(),
            initializer_range: std(),
            tie_word_embeddings: true,
            scale_attn_weights: true,
            scale_attn_by_inverse_layer_idx: false,
            add_cross_attention: false,
        }
    }
    /// Sets all three dropout probabilities.
    #[must_use]
    pub fn dropout(mut self, p: f64) -> Self {
        (self.embd_pdrop, self.attn_pdrop, self.resid_pdrop) = (p, p, p);
        self
    }
    fn check(&self) -> Result<()> {
        hf::size("vocab_size", self.vocab_size)?;
        hf::size("n_positions", self.n_positions)?;
        hf::size("n_layer", self.n_layer)?;
        hf::size("n_inner", self.inner())?;
        hf::share("n_embd", self.n_embd, "n_head", self.n_head)?;
        hf::probability("embd_pdrop", self.embd_pdrop)?;
        hf::probability("attn_pdrop", self.attn_pdrop)?;
        hf::probability("resid_pdrop", self.resid_pdrop)?;
        if !self.scale_attn_weights || self.scale_attn_by_inverse_layer_idx || self.add_cross_attention {
            return Err(Error::unsupported(
                "config: a GPT-2 with unscaled attention, attention scaled by layer, or cross attention",
            ));
        }
        Ok(())
    }
    fn inner(&self) -> usize {
        self.n_inner.unwrap_or_else(|| self.n_embd.saturating_mul(4))
    }
}

/// y[.., o] = sum over i of x[.., i] * weight[i, o], + bias\[o\]: a `Linear` with a transposed
/// weight.
#[derive(Debug)]
pub struct Conv1D<B: Backend> {
    /// [in, out]
    pub weight: Param<B>,
    /// \[out\]
    pub bias: Param<B>,
}

impl<B: Backend> Conv1D<B> {
    fn build(s: &mut Source<B>, name: &str, [i, o]: [usize; 2], std: f64) -> Result<Self> {
        let weight = s.weight(&format!("{name}.weight"), &[i, o], Start::Normal(std))?;
        Ok(Conv1D { weight, bias: s.weight(&format!("{name}.bias"), &[o], Start::Zeros)? })
    }
}

impl<B: Backend> Module<B> for Conv1D<B> {
    fn visit<'a>(&'a self, name: &str, visit: &mut Visit<'a, '_, B>) {
        visit.module(name, self, |visit| {
            visit.param("weight", &self.weight);
            visit.factor(&self.weight, false);
            visit.param("bias", &self.bias);
        });
    }
}

impl<B: Backend> Layer<B> for Conv1D<B> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        op::linear(x, &self.weight.get().t(), Some(&self.bias.get())).or_fail()
    }
}

impl<B: Backend> fmt::Display for Conv1D<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weight = self.weight.get();
        write!(f, "Conv1D({}, {})", weight.size(0), weight.size(1))
    }
}

/// Attention of a block.
#[derive(Debug, Module)]
pub struct Gpt2Attention<B: Backend> {
    /// Queries, keys and values.
    pub c_attn: Conv1D<B>,
    /// The output projection.
    pub c_proj: Conv1D<B>,
    attn_dropout: WeightDropout,
    resid_dropout: Dropout,
    heads: usize,
}

impl<B: Backend> Gpt2Attention<B> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>, cache: Option<(&mut KvCache<B>, usize)>) -> Tensor<B> {
        let qkv = self.c_attn.forward(x).chunk(3, -1);
        let found = (|| {
            let [q, k, v] = [0, 1, 2].map(|i| split_heads(&qkv[i], self.heads));
            let (q, k, v) = (q?, k?, v?);
            let ([k, v], mask) = match cache {
                Some((cache, layer)) => (cache.append(layer, &k, &v)?, cache.seen()),
                None => ([k, v], None),
            };
            join_heads(&attend(&q, &k, &v, mask.as_ref(), true, self.attn_dropout.active())?)
        })();
        self.resid_dropout.forward(&self.c_proj.forward(&found.or_fail()))
    }
}

/// The feed-forward part of a block.
#[derive(Debug, Module)]
pub struct Gpt2Mlp<B: Backend> {
    /// To the inner width.
    pub c_fc: Conv1D<B>,
    /// Back to the features.
    pub c_proj: Conv1D<B>,
    dropout: Dropout,
    #[module(skip)]
    activation: MlpActivation,
}

impl<B: Backend> Layer<B> for Gpt2Mlp<B> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        let wide = self.activation.apply(&self.c_fc.forward(x));
        self.dropout.forward(&self.c_proj.forward(&wide))
    }
}

/// A pre-norm block: attention and a feed-forward part, each with a residual connection.
#[derive(Debug, Module)]
pub struct Gpt2Block<B: Backend> {
    /// The norm before the attention.
    pub ln_1: LayerNorm<B>,
    /// The attention.
    pub attn: Gpt2Attention<B>,
    /// The norm before the feed-forward part.
    pub ln_2: LayerNorm<B>,
    /// The feed-forward part.
    pub mlp: Gpt2Mlp<B>,
}

/// GPT-2 with a head that gives logits of the next token.
///
/// x: [b, t] of i64   y: [b, t, vocab_size]
///
/// Names are those of transformers' `GPT2Model`; `lm_head` exists if it is not tied to `wte`.
#[derive(Debug, Module)]
pub struct Gpt2<B: Backend> {
    /// [vocab_size, n_embd]
    pub wte: Embedding<B>,
    /// [n_positions, n_embd]
    pub wpe: Embedding<B>,
    drop: Dropout,
    /// The blocks.
    pub h: Vec<Gpt2Block<B>>,
    /// Norm after the last layer.
    pub ln_f: LayerNorm<B>,
    /// The output layer, if its weight is not tied.
    pub lm_head: Option<Linear<B>>,
    #[module(skip)]
    config: Gpt2Config,
}

impl<B: Backend> Gpt2<B> {
    /// A model with random weights: normal with standard deviation 0.02, those of residual
    /// projections smaller by sqrt(2 n_layer), biases 0.
    ///
    /// # Errors
    /// `InvalidArgument`, `Unsupported` if the config is invalid or not implemented.
    ///
    /// # Panics
    /// If memory is exhausted.
    pub fn new(config: Gpt2Config, g: &mut Generator, device: &B::Device) -> Result<Self> {
        Self::build(config, &mut Source::random(g, device))
    }
    /// Reads `config.json` and `model.safetensors` of a directory, as f32. The model is in
    /// evaluation mode; `train()` switches to training.
    ///
    /// Names may have the prefix `transformer.`; the buffers `attn.bias` and `attn.masked_bias` of
    /// old files are ignored.
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
    /// As [`Gpt2::from_pretrained`].
    pub fn from_pretrained_as(dir: impl AsRef<Path>, floats: Floats, device: &B::Device) -> Result<Self> {
        let names = |config: &Gpt2Config, tensors| {
            let mut tensors = hf::without_prefix(tensors, "transformer.", "wte.weight");
            if config.tie_word_embeddings {
                hf::tie(&mut tensors, "lm_head.weight", "wte.weight")?;
            }
            Ok(tensors)
        };
        hf::load(
            dir.as_ref(),
            "gpt2",
            (floats, device),
            names,
            Self::build,
            &[".attn.bias", ".attn.masked_bias"],
        )
    }
    fn build(config: Gpt2Config, s: &mut Source<B>) -> Result<Self> {
        config.check()?;
        let activation = hf::activation(&config.activation_function)?;
        let (e, inner, std) = (config.n_embd, config.inner(), config.initializer_range);
        let last = std / (2.0 * config.n_layer as f64).sqrt();
        let eps = config.layer_norm_epsilon;
        let wte = s.embedding("wte", config.vocab_size, e, std)?;
        let wpe = s.embedding("wpe", config.n_positions, e, std)?;
        let drop = Dropout::new(config.embd_pdrop, s.generator);
        let mut h = vec![];
        for i in 0..config.n_layer {
            h.push(Gpt2Block {
                ln_1: s.layer_norm(&format!("h.{i}.ln_1"), e, eps)?,
                attn: Gpt2Attention {
                    c_attn: Conv1D::build(s, &format!("h.{i}.attn.c_attn"), [e, 3 * e], std)?,
                    c_proj: Conv1D::build(s, &format!("h.{i}.attn.c_proj"), [e, e], last)?,
                    attn_dropout: WeightDropout::new(config.attn_pdrop, s.generator),
                    resid_dropout: Dropout::new(config.resid_pdrop, s.generator),
                    heads: config.n_head,
                },
                ln_2: s.layer_norm(&format!("h.{i}.ln_2"), e, eps)?,
                mlp: Gpt2Mlp {
                    c_fc: Conv1D::build(s, &format!("h.{i}.mlp.c_fc"), [e, inner], std)?,
                    c_proj: Conv1D::build(s, &format!("h.{i}.mlp.c_proj"), [inner, e], last)?,
                    dropout: Dropout::new(config.resid_pdrop, s.generator),
                    activation,
                },
            });
        }
        let ln_f = s.layer_norm("ln_f", e, eps)?;
        let untied = !config.tie_word_embeddings;
        let lm_head = untied.then(|| s.linear("lm_head", [e, config.vocab_size], false, std)).transpose()?;
        Ok(Gpt2 { wte, wpe, drop, h, ln_f, lm_head, config })
    }
    /// Writes `config.json` and `model.safetensors` into a directory, which is created if it is
    /// missing: for [`Gpt2::from_pretrained`], and for transformers as a `GPT2LMHeadModel`.
    ///
    /// # Errors
    /// `Io` with the path; what the device reports.
    pub fn save_pretrained(&self, dir: impl AsRef<Path>) -> Result<()> {
        hf::save(dir.as_ref(), ("gpt2", "GPT2LMHeadModel"), &self.config, self, "transformer.", &["lm_head."])
    }
    /// The settings.
    pub fn config(&self) -> &Gpt2Config {
        &self.config
    }
    /// The output of the last norm: [b, t, n_embd]. With a cache, for tokens that follow those in
    /// the cache.
    ///
    /// # Panics
    /// If there are more tokens than positions, or a token is not in the vocabulary.
    #[track_caller]
    pub fn hidden(&self, ids: &Tensor<B>, mut cache: Option<&mut KvCache<B>>) -> Tensor<B> {
        let past = cache.as_mut().map_or(0, |c| c.settle());
        let t = super::tokens("gpt2", ids, past, Some(self.config.n_positions)).or_fail();
        let at =
            cache.as_ref().map_or_else(|| places(past, t, ids.device()), |c| c.places(past, t, ids.device()));
        let positions = self.wpe.forward(&at);
        let mut x = self.drop.forward(&(self.wte.forward(ids) + positions));
        for (i, block) in self.h.iter().enumerate() {
            let cache = cache.as_mut().map(|c| (&mut **c, i));
            x = &x + block.attn.forward(&block.ln_1.forward(&x), cache);
            x = &x + block.mlp.forward(&block.ln_2.forward(&x));
        }
        self.ln_f.forward(&x)
    }
    fn output(&self, x: &Tensor<B>) -> Tensor<B> {
        match &self.lm_head {
            Some(head) => head.forward(x),
            None => op::linear(x, &self.wte.weight.get(), None).or_fail(),
        }
    }
}

impl<B: Backend> Layer<B> for Gpt2<B> {
    #[track_caller]
    fn forward(&self, ids: &Tensor<B>) -> Tensor<B> {
        self.output(&self.hidden(ids, None))
    }
}

impl<B: Backend> CausalLm<B> for Gpt2<B> {
    type State = KvCache<B>;
    fn start(&self) -> KvCache<B> {
        KvCache::new(self.h.len())
    }
    fn context(&self) -> Option<usize> {
        Some(self.config.n_positions)
    }
    fn device(&self) -> B::Device {
        self.wte.weight.get().device().clone()
    }
    #[track_caller]
    fn advance(&self, ids: &Tensor<B>, state: &mut KvCache<B>) -> Tensor<B> {
        self.output(&self.hidden(ids, Some(state)).select(1, -1))
    }
}
