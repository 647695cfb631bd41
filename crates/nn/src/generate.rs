//! Text generation: [`generate`], with any [`CausalLm`] and a [`Sampler`].
//!
//! Sampling is computed on the host in f64 by IEEE operations and the project's own exp, with
//! random numbers of Philox: the same logits and seed give the same tokens everywhere.

use crate::{Layer, Mode, Module};
use elinvar_core::philox::{Stream, unit_f64};
use elinvar_core::{Error, Result};
use elinvar_ops::Backend;
use elinvar_ops::lane::Lane;
use elinvar_tensor::{Tensor, no_grad, try_run};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// A causal language model. As a [`Layer`] it computes logits [b, t, vocabulary] from tokens [b, t]
/// of i64, where those at t depend on the tokens up to t alone.
pub trait CausalLm<B: Backend>: Layer<B> {
    /// The state of the tokens so far: a KV cache, a recurrent state.
    type State: Send;
    /// The empty state.
    fn start(&self) -> Self::State;
    /// The maximal context in tokens; `None` if there is no limit.
    fn context(&self) -> Option<usize>;
    /// The device of its weights.
    fn device(&self) -> B::Device;
    /// The logits after the last of these tokens, which follow those in `state` and are added to
    /// it.
    ///
    /// ids: [b, t] of i64   y: [b, vocabulary]
    ///
    /// # Panics
    /// If a token is not in the vocabulary, or there are more than the context.
    fn advance(&self, ids: &Tensor<B>, state: &mut Self::State) -> Tensor<B>;
}

/// Chooses a token by its logits.
///
/// In this order, as in transformers: the penalty for repetition, the temperature, top k, top p,
/// min p, and a draw from the rest. Equal logits are ordered by token id, smallest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampler {
    temperature: f64,
    top_k: Option<usize>,
    top_p: f64,
    min_p: f64,
    repetition_penalty: f64,
    stream: Stream,
    drawn: u64,
}

impl Sampler {
    /// Always the largest logit (after the penalty for repetition); ties go to the smallest id.
    pub fn greedy() -> Self {
        Self::new(0).temperature(0.0)
    }
    /// Draws from the model's own distribution, by random numbers of this seed.
    pub fn new(seed: u64) -> Self {
        Sampler {
            temperature: 1.0,
            top_k: None,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            stream: Stream { seed, stream: 0 },
            drawn: 0,
        }
    }
    /// Temperature, the divisor of the logits: below 1 likely tokens become likelier; 0 is greedy.
    /// Default: 1.
    #[must_use]
    pub fn temperature(mut self, temperature: f64) -> Self {
        self.temperature = temperature;
        self
    }
    /// Top-k: only the k likeliest tokens. Default: all.
    #[must_use]
    pub fn top_k(mut self, k: usize) -> Self {
        self.top_k = Some(k);
        self
    }
    /// Top-p: only the smallest set of likeliest tokens with at least this total probability.
    /// Default: 1, all.
    #[must_use]
    pub fn top_p(mut self, p: f64) -> Self {
        self.top_p = p;
        self
    }
    /// Min-p: only tokens at least this times as likely as the likeliest. Default: 0, all.
    #[must_use]
    pub fn min_p(mut self, p: f64) -> Self {
        self.min_p = p;
        self
    }
    /// Repetition penalty: divides positive and multiplies negative logits of previous tokens
    /// (Keskar and others, 2019). Default: 1.
    #[must_use]
    pub fn repetition_penalty(mut self, penalty: f64) -> Self {
        self.repetition_penalty = penalty;
        self
    }
    fn check(&self) -> Result<()> {
        let rows = [
            ("temperature", self.temperature, self.temperature >= 0.0, "0 or more"),
            ("top_p", self.top_p, self.top_p > 0.0 && self.top_p <= 1.0, "above 0, at most 1"),
            ("min_p", self.min_p, (0.0..=1.0).contains(&self.min_p), "in 0..=1"),
            ("repetition_penalty", self.repetition_penalty, self.repetition_penalty > 0.0, "above 0"),
        ];
        if let Some((what, value, _, fit)) = rows.into_iter().find(|r| !r.2 || !r.1.is_finite()) {
            return Err(Error::argument(format!("sampler: {what} is {value}; it should be {fit}")));
        }
        match self.top_k {
            Some(0) => Err(Error::argument("sampler: top_k is 0; it should be 1 or more")),
            Some(_) | None => Ok(()),
        }
    }
    /// Samples the next token from the logits of all tokens and the previous tokens. Draws one
    /// random number, or none at temperature 0.
    ///
    /// # Errors
    /// `InvalidArgument` if a setting is out of its range, a logit is NaN or +inf, or all are -inf.
    pub fn pick(&mut self, logits: &[f64], before: &[u32]) -> Result<u32> {
        self.check()?;
        let mut all: Vec<(u32, f64)> = (0..).zip(logits.iter().copied()).collect();
        if let Some((token, l)) = all.iter().find(|(_, l)| l.is_nan() || *l == f64::INFINITY) {
            return Err(Error::argument(format!("sampler: the logit of token {token} is {l}")));
        }
        for &token in &before.iter().copied().collect::<BTreeSet<_>>() {
            if let Some((_, l)) = all.get_mut(token as usize) {
                *l = if *l > 0.0 { *l / self.repetition_penalty } else { *l * self.repetition_penalty };
            }
        }
        all.retain(|(_, l)| *l > f64::NEG_INFINITY);
        let likelier = |a: &(u32, f64), b: &(u32, f64)| {
            b.1.partial_cmp(&a.1).unwrap_or(Ordering::Equal).then(a.0.cmp(&b.0))
        };
        let Some(&(best, most)) = all.iter().min_by(|a, b| likelier(a, b)) else {
            return Err(Error::argument(format!("sampler: of {} logits none is finite", logits.len())));
        };
        if self.temperature == 0.0 {
            return Ok(best);
        }
        if let Some(k) = self.top_k.filter(|&k| k < all.len()) {
            all.select_nth_unstable_by(k - 1, likelier);
            all.truncate(k);
        }
        all.sort_unstable_by(likelier);
        // Unnormalised probabilities from here on.
        for (_, l) in &mut all {
            *l = Lane::exp((*l - most) / self.temperature);
        }
        let whole: f64 = all.iter().map(|(_, p)| p).sum();
        let mut sum = 0.0;
        let enough = all.iter().position(|(_, p)| {
            sum += p;
            sum >= self.top_p * whole
        });
        all.truncate(enough.map_or(all.len(), |last| last + 1));
        all.retain(|(_, p)| *p >= self.min_p);
        let whole: f64 = all.iter().map(|(_, p)| p).sum();
        let at = unit_f64(self.stream.word64(self.drawn)) * whole;
        self.drawn += 1;
        let mut sum = 0.0;
        let chosen = all.iter().find(|(_, p)| {
            sum += p;
            at < sum
        });
        Ok(chosen.map_or(best, |(token, _)| *token))
    }
}

/// Stop conditions of [`generate`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximal number of new tokens.
    pub max_new_tokens: usize,
    /// Tokens that end the text. They are not part of the result.
    pub stop: Vec<u32>,
}

/// Generates tokens after a prompt; returns the new ones. `on_token` is called with each, and may
/// stop.
///
/// The model runs in evaluation mode; afterwards its modes are restored.
///
/// **A full context.** A model has a context of at most [`CausalLm::context`] tokens. When the next
/// token or the prompt would exceed it, the state is reset, and the last context / 2 tokens
/// (at least one) are read again, at positions from 0 on. So a long text costs two such prefills
/// per context, and the context is always at least half full.
///
/// ```no_run
/// # use elinvar_nn::generate::{Limits, Sampler, generate};
/// # use elinvar_nn::models::Gpt2;
/// # use elinvar_reference::{Reference, ReferenceDevice};
/// # use std::ops::ControlFlow;
/// let model = Gpt2::<Reference>::from_pretrained("models/gpt2", &ReferenceDevice)?;
/// let limits = Limits { max_new_tokens: 20, stop: vec![50256] };
/// let mut sampler = Sampler::new(1).temperature(0.8).top_p(0.95);
/// let tokens = generate(&model, &[464, 3280, 318], &limits, &mut sampler, &mut |_| ControlFlow::Continue(()))?;
/// # Ok::<(), elinvar_core::Error>(())
/// ```
///
/// # Errors
/// `InvalidArgument` if the prompt is empty, has a token outside of the vocabulary, or the
/// sampler's settings or the logits are invalid; what the device reports.
pub fn generate<B: Backend, M: CausalLm<B> + ?Sized>(
    model: &M,
    prompt: &[u32],
    limits: &Limits,
    sampler: &mut Sampler,
    on_token: &mut dyn FnMut(u32) -> ControlFlow<()>,
) -> Result<Vec<u32>> {
    let mut state = model.start();
    write_on(model, prompt, limits, sampler, on_token, &mut |ids, is_first| {
        if is_first {
            state = model.start();
        }
        let ids = || Tensor::from_vec(ids.to_vec(), [1, ids.len()], &model.device());
        no_grad(|| try_run(|| model.advance(&ids(), &mut state)))
    })
}

/// Gives the logits after tokens; true if these are the first.
pub(crate) type Advance<'a, B> = dyn FnMut(&[i64], bool) -> Result<Tensor<B>> + 'a;

pub(crate) fn write_on<B: Backend, M: CausalLm<B> + ?Sized>(
    model: &M,
    prompt: &[u32],
    limits: &Limits,
    sampler: &mut Sampler,
    on_token: &mut dyn FnMut(u32) -> ControlFlow<()>,
    advance: &mut Advance<'_, B>,
) -> Result<Vec<u32>> {
    sampler.check()?;
    if prompt.is_empty() {
        return Err(Error::argument(
            "generate: the prompt is empty; it should begin with one token at least",
        ));
    }
    let _evaluating = Evaluating::begin::<B, M>(model);
    let mut text = prompt.to_vec();
    // The number of tokens of the text that were read, and the number in the state.
    let (mut read, mut held) = (0, 0);
    for _ in 0..limits.max_new_tokens {
        if model.context().is_some_and(|context| held + text.len() - read > context) {
            let keep = model.context().map_or(1, |context| (context / 2).max(1));
            (held, read) = (0, text.len() - keep.min(text.len()));
        }
        let new: Vec<i64> = text[read..].iter().map(|&t| i64::from(t)).collect();
        let (n, is_first) = (new.len(), held == 0);
        (held, read) = (held + n, text.len());
        let logits = advance(&new, is_first)?;
        let token = sampler.pick(&logits.to_host()?.to_f64_vec(), &text)?;
        if limits.stop.contains(&token) {
            break;
        }
        text.push(token);
        if on_token(token).is_break() {
            break;
        }
    }
    Ok(text.split_off(prompt.len()))
}

/// A guard of evaluation mode; on drop, the mode of each part is restored.
struct Evaluating<'a> {
    before: Vec<(&'a Mode, bool)>,
}

impl<'a> Evaluating<'a> {
    fn begin<B: Backend, M: Module<B> + ?Sized>(model: &'a M) -> Self {
        let before: Vec<_> = model.leaves().modes.into_iter().map(|m| (m, m.is_training())).collect();
        before.iter().for_each(|(m, _)| m.set_training(false));
        Evaluating { before }
    }
}

impl Drop for Evaluating<'_> {
    fn drop(&mut self) {
        self.before.iter().for_each(|(m, training)| m.set_training(*training));
    }
}
