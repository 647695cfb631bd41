//! `Decoder`: one token after another by a step that is recorded once.
//!
//! Decoding a token is some ten small kernels in each layer, and starting them takes longer than
//! running them. A recorded step has fixed sizes: so keys and values have the capacity of a number
//! of tokens from the beginning, rows behind the last token are masked, and where the next one goes
//! is a number in device memory. The step gives the token's own rows, which are written behind it.
//!
//! How it can be wrong: the recording reads the rows where they were when it was made. If they
//! move, because something else holds them, the [`Graph`] sees that and records again.

use crate::Buffer;
use crate::capture::compute;
use crate::generate::{CausalLm, Limits, Sampler, write_on};
use crate::layers::KvCache;
use elinvar_core::order::ATTENTION_BLOCK;
use elinvar_core::{Error, Result, Shape};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use elinvar_ops::catalogue as op;
use elinvar_tensor::{Graph, Tensor, no_grad, try_run};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, PoisonError};

/// Decodes with a model whose state is a [`KvCache`], each single token by a recorded step: on a
/// GPU one launch of a graph instead of hundreds of calls. Backends without a queue (`cpu`) call
/// the model.
///
/// Logits have the bits of [`CausalLm::advance`] with a cache, but that a result of zero may have
/// the other sign: a masked key adds 0. A step reads the whole capacity, so ask for no more
/// than is needed. The model must be in evaluation mode: a step that draws random numbers cannot be
/// recorded.
///
/// ```
/// use elinvar_nn::decoder::Decoder;
/// use elinvar_nn::models::{Gpt2, Gpt2Config};
/// use elinvar_nn::{Generator, Module};
/// use elinvar_reference::{Reference, ReferenceDevice};
/// use std::sync::Arc;
///
/// let net = Gpt2::<Reference>::new(Gpt2Config::new(1, 2, 8, 16, 32), &mut Generator::new(0), &ReferenceDevice)?;
/// net.eval();
/// let mut decoder = Decoder::new(Arc::new(net), 16)?;
/// decoder.read(&[&[3, 1, 4]])?;
/// let logits = decoder.read(&[&[1]])?;
/// assert_eq!((logits.dims(), decoder.len()), (&[1, 32][..], 4));
/// # Ok::<(), elinvar_core::Error>(())
/// ```
pub struct Decoder<B: Backend, M> {
    model: Arc<M>,
    capacity: usize,
    /// Tokens that were read.
    len: usize,
    /// Tokens that there are, once some were read.
    vocabulary: usize,
    /// Keys and values of all layers, [layers, 2, b, j, capacity, d]; none before the first tokens.
    rows: Option<Arc<Buffer<B>>>,
    step: Option<Graph<B>>,
    /// Are there rows behind the last token, of others that were forgotten?
    is_stale: bool,
}

/// [layers, 2, b, j, t, d] of the rows of each layer.
fn joined<B: Backend>(layers: &[[Tensor<B>; 2]]) -> Result<Tensor<B>> {
    let all: Vec<&Tensor<B>> = layers.iter().flatten().collect();
    let Some((first, rest)) = all.split_first() else {
        return Err(Error::unsupported("decoder: a model without layers that have keys"));
    };
    if rest.iter().any(|x| x.shape() != first.shape() || x.dtype() != first.dtype()) {
        return Err(Error::unsupported(
            "decoder: layers whose keys and values have different shapes or types",
        ));
    }
    let mut sizes = vec![layers.len() as isize, 2];
    sizes.extend(first.dims().iter().map(|&n| n as isize));
    op::reshape(&op::stack(&all, 0)?, &sizes)
}

/// Keys and values of each layer of these rows, up to `len`.
fn layers<B: Backend>(rows: &Tensor<B>, len: usize) -> Result<Vec<[Tensor<B>; 2]>> {
    let seen = op::narrow(rows, 4, 0, len)?;
    let of = |layer: usize, i: isize| op::select(&op::select(&seen, 0, layer as isize)?, 0, i);
    (0..rows.dims()[0]).map(|layer| Ok([of(layer, 0)?, of(layer, 1)?])).collect()
}

impl<B: Backend, M: CausalLm<B, State = KvCache<B>> + Send + Sync + 'static> Decoder<B, M> {
    /// With the capacity of this many tokens.
    ///
    /// # Errors
    /// `InvalidArgument` if that is none, or more than the model's context.
    pub fn new(model: Arc<M>, capacity: usize) -> Result<Self> {
        match model.context() {
            _ if capacity == 0 => Err(Error::argument("decoder: a capacity of no tokens")),
            Some(context) if capacity > context => Err(Error::argument(format!(
                "decoder: a capacity of {capacity} tokens, and the model has {context} positions"
            ))),
            _ => Ok(Decoder {
                model,
                capacity,
                len: 0,
                vocabulary: 0,
                rows: None,
                step: None,
                is_stale: false,
            }),
        }
    }
    /// The number of tokens that were read.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Was no token read?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Forgets the tokens. The recording stays.
    pub fn reset(&mut self) {
        self.truncate(0);
    }
    /// Forgets the tokens from `len` on, if there are more. The recording stays.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len {
            (self.len, self.is_stale) = (len, true);
        }
    }

    /// The logits after the last of these tokens, of one sequence or several, which follow those
    /// that were read. Several at once, and the first, are read by the model without a recording.
    ///
    /// ids: [b, t]   y: [b, vocabulary]
    ///
    /// # Errors
    /// `InvalidArgument` if the capacity is exceeded, or a token is not in the vocabulary;
    /// `ShapeMismatch` if sequences differ in length, or are not as many as before; what the device
    /// reports. Nothing was read then.
    pub fn read(&mut self, ids: &[&[i64]]) -> Result<Tensor<B>> {
        let (b, t) = (ids.len(), ids.first().map_or(0, |ids| ids.len()));
        if let Some(other) = ids.iter().find(|ids| ids.len() != t) {
            return Err(Error::shape(format!(
                "decoder: sequences of {t} and {} tokens; they should be of one length",
                other.len()
            )));
        }
        if t > self.capacity - self.len {
            let (len, capacity) = (self.len, self.capacity);
            return Err(Error::argument(format!(
                "decoder: {t} tokens after {len}, and the capacity is {capacity}"
            )));
        }
        let (logits, new) = match &self.rows {
            Some(rows) if self.len > 0 => {
                let before = rows.get().dims()[2];
                if b != before {
                    return Err(Error::shape(format!(
                        "decoder: tokens of {b} sequences after those of {before}"
                    )));
                }
                if t == 1 { self.replayed(rows.clone(), ids)? } else { self.plain(Some(rows), ids)? }
            }
            _ => self.plain(None, ids)?,
        };
        self.write(&new, t)?;
        (self.vocabulary, self.len) = (logits.dims()[1], self.len + t);
        Ok(logits)
    }

    /// Logits and new rows, by the model.
    fn plain(&self, rows: Option<&Arc<Buffer<B>>>, ids: &[&[i64]]) -> Result<(Tensor<B>, Tensor<B>)> {
        let t = ids.first().map_or(0, |ids| ids.len());
        let ids = try_run(|| Tensor::from_vec(ids.concat(), [ids.len(), t], &self.model.device()))?;
        no_grad(|| {
            let mut state = match rows {
                Some(rows) => KvCache::of(layers(&rows.get(), self.len)?),
                None => self.model.start(),
            };
            let logits = try_run(|| self.model.advance(&ids, &mut state))?;
            let all = state.into_layers().unwrap_or_default();
            let last = |x: &Tensor<B>| op::narrow(x, 2, -(t as isize), t);
            let new: Result<Vec<_>> = all.iter().map(|[k, v]| Ok([last(k)?, last(v)?])).collect();
            Ok((logits, joined(&new?)?))
        })
    }
    /// The same of one token, by the recorded step.
    fn replayed(&mut self, rows: Arc<Buffer<B>>, ids: &[&[i64]]) -> Result<(Tensor<B>, Tensor<B>)> {
        // A recording holds for indices of the range that it was made with: so each input has the
        // smallest and the largest index that there may be behind its own.
        let ranged = |mut own: Vec<i64>, count: usize| {
            own.extend([0, count as i64 - 1]);
            let n = own.len();
            try_run(|| Tensor::from_vec(own, [n], &self.model.device()))
        };
        let (x, at) = (ranged(ids.concat(), self.vocabulary)?, ranged(vec![self.len as i64], self.capacity)?);
        let step = match self.step.take() {
            Some(step) => step,
            None => {
                let (model, capacity, b) = (self.model.clone(), self.capacity, ids.len());
                Graph::record(&[&x, &at], move |x| {
                    no_grad(|| {
                        let at = op::narrow(&x[1], 0, 0, 1)?;
                        let mut state = KvCache::with_capacity(layers(&rows.get(), capacity)?, at)?;
                        let ids = op::unsqueeze(&op::narrow(&x[0], 0, 0, b)?, 1)?;
                        let logits = model.advance(&ids, &mut state);
                        Ok(vec![logits, joined(&state.into_new())?])
                    })
                })?
            }
        };
        let done = self.step.insert(step).run(&[&x, &at])?;
        let Ok([logits, new]) = <[_; 2]>::try_from(done) else { unreachable!("it gives two") };
        Ok((logits, new))
    }
    /// Writes rows of the next `t` tokens.
    fn write(&mut self, new: &Tensor<B>, t: usize) -> Result<()> {
        // What is deferred would read rows that have changed.
        compute(new.array())?;
        let is_other = |rows: &Arc<Buffer<B>>| {
            let old = rows.get();
            old.dims()[..4] != new.dims()[..4] || old.device() != new.device() || old.dtype() != new.dtype()
        };
        let mut sizes = new.dims().to_vec();
        sizes[4] = self.capacity;
        let zeros = || Array::full(new.device(), &Shape::new(&sizes)?, 0i64.into(), new.dtype());
        let is_new = self.rows.as_ref().is_none_or(is_other);
        if is_new {
            (self.rows, self.step) = (Some(Arc::new(Buffer::new(&Tensor::from_array(zeros()?)))), None);
        }
        let rows = self.rows.as_ref().expect("they were just made");
        let mut cell = rows.cell().write().unwrap_or_else(PoisonError::into_inner);
        let all = cell.array_mut();
        all.own()?;
        if self.is_stale && !is_new {
            // 0 times what is infinite there would be NaN.
            let rest = all.layout().slice(4, self.len, self.capacity - self.len, 1);
            let zeros = zeros()?;
            let zeros = zeros.with_layout(zeros.layout().slice(4, self.len, self.capacity - self.len, 1));
            all.write(&rest, &zeros)?;
        }
        self.is_stale = false;
        let at = all.layout().slice(4, self.len, t, 1);
        all.write(&at, new.array())
    }
}

impl<B: Backend, M> fmt::Debug for Decoder<B, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Decoder({} of {} tokens)", self.len, self.capacity)
    }
}

/// [`generate`](crate::generate::generate) by a [`Decoder`]: each token but the prompt by a step
/// that is recorded once and replayed. There is capacity for prompt and new tokens, in whole blocks
/// of attention, or for the context.
///
/// # Errors
/// As [`generate`](crate::generate::generate); `Unsupported` if the model's step cannot be
/// recorded.
pub fn generate_captured<B: Backend, M>(
    model: &Arc<M>,
    prompt: &[u32],
    limits: &Limits,
    sampler: &mut Sampler,
    on_token: &mut dyn FnMut(u32) -> ControlFlow<()>,
) -> Result<Vec<u32>>
where
    M: CausalLm<B, State = KvCache<B>> + Send + Sync + 'static,
{
    let all = prompt.len().saturating_add(limits.max_new_tokens).max(1);
    let capacity = all.checked_next_multiple_of(ATTENTION_BLOCK).unwrap_or(all);
    let mut decoder =
        Decoder::new(model.clone(), model.context().map_or(capacity, |context| context.min(capacity)))?;
    write_on(&**model, prompt, limits, sampler, on_token, &mut |ids, is_first| {
        if is_first {
            decoder.reset();
        }
        decoder.read(&[ids])
    })
}
