//! An LSTM language model, with the weight names of PyTorch's example `word_language_model`.

use crate::layers::{Dropout, Embedding, LSTM, LSTMOptions, Linear};
use crate::{Layer, Module, Param, init};
use elinvar_core::{Error, Result};
use elinvar_ops::Backend;
use elinvar_tensor::{Generator, OrFail, Tensor};

/// The settings of an [`LstmLm`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LstmLmOptions {
    vocabulary: usize,
    embedding: usize,
    hidden: usize,
    layers: usize,
    dropout: f64,
    tied: bool,
}

impl LstmLmOptions {
    /// A vocabulary, embeddings and a state of these sizes; two layers, no dropout.
    pub fn new(vocabulary: usize, embedding: usize, hidden: usize) -> Self {
        LstmLmOptions { vocabulary, embedding, hidden, layers: 2, dropout: 0.0, tied: false }
    }
    /// Layers of the LSTM. Default: 2.
    #[must_use]
    pub fn layers(mut self, layers: usize) -> Self {
        self.layers = layers;
        self
    }
    /// Dropout in training: of the embedding, between the layers and before the decoder.
    /// Default: 0.
    #[must_use]
    pub fn dropout(mut self, p: f64) -> Self {
        self.dropout = p;
        self
    }
    /// Is the decoder's weight tied to the embedding's? Needs a state as large as the embedding.
    /// Default: no.
    #[must_use]
    pub fn tied(mut self, yes: bool) -> Self {
        self.tied = yes;
        self
    }
    /// A model of f32 with these settings, with random weights from `g`: embedding and decoder
    /// uniform in +-0.1.
    ///
    /// # Panics
    /// If tied weights do not fit, the dropout is not in 0..=1, or memory is exhausted.
    #[track_caller]
    pub fn init<B: Backend>(self, g: &mut Generator, device: &B::Device) -> LstmLm<B> {
        self.check().or_fail();
        let table = init::uniform([self.vocabulary, self.embedding], 0.1, g, device);
        let encoder = Embedding::from_pretrained(&table).or_fail();
        let rnn = LSTMOptions::new(self.embedding, self.hidden)
            .layers(self.layers)
            .dropout(self.dropout)
            .init(g, device);
        let weight = if self.tied {
            encoder.weight.share()
        } else {
            Param::new(init::uniform([self.vocabulary, self.hidden], 0.1, g, device))
        };
        let bias = Some(Param::new(init::zeros(self.vocabulary, device)));
        LstmLm { drop: Dropout::new(self.dropout, g), encoder, rnn, decoder: Linear { weight, bias } }
    }
    fn check(&self) -> Result<()> {
        if self.tied && self.embedding != self.hidden {
            return Err(Error::argument(format!(
                "lstm_lm: tied weights with an embedding of {} and a state of {}; they should be equal",
                self.embedding, self.hidden
            )));
        }
        Ok(())
    }
}

/// Embedding, LSTM, decoder: the logits of the next token at every time step.
///
/// tokens: [t, n] of i64   state (h, c): [layers, n, hidden]   y: [t, n, vocabulary] logits
#[derive(Debug, Module)]
pub struct LstmLm<B: Backend> {
    drop: Dropout,
    encoder: Embedding<B>,
    rnn: LSTM<B>,
    decoder: Linear<B>,
}

impl<B: Backend> LstmLm<B> {
    /// The logits, and the state after the last token, from which to continue. The default state is
    /// zeros.
    ///
    /// # Panics
    /// If the tokens or the state do not fit; [`elinvar_tensor::try_run`] returns the error
    /// instead.
    #[track_caller]
    pub fn forward(
        &self,
        tokens: &Tensor<B>,
        state: Option<&(Tensor<B>, Tensor<B>)>,
    ) -> (Tensor<B>, (Tensor<B>, Tensor<B>)) {
        let x = self.drop.forward(&self.encoder.forward(tokens));
        let (y, state) = self.rnn.forward(&x, state);
        (self.decoder.forward(&self.drop.forward(&y)), state)
    }
}
