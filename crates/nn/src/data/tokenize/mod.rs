//! Tokenizers: bytes, characters, and with the feature `tokenizers` those of a `tokenizer.json`.

#[cfg(feature = "tokenizers")]
mod added;
#[cfg(feature = "tokenizers")]
mod bpe;
#[cfg(feature = "tokenizers")]
mod json;
mod plain;

#[cfg(feature = "tokenizers")]
pub use bpe::BpeOptions;
#[cfg(feature = "tokenizers")]
pub use json::Tokenizer;
pub use plain::{Bytes, Chars};

use elinvar_core::{Error, HostTensor, Result, Shape, host};

/// Text to token ids and back.
pub trait Tokenize: Send + Sync {
    /// The tokens of a text.
    ///
    /// # Errors
    /// `InvalidArgument` if the text has characters that are not in the vocabulary.
    fn encode(&self, text: &str) -> Result<Vec<u32>>;

    /// The text of tokens.
    ///
    /// # Errors
    /// `InvalidArgument` if a token does not exist.
    fn decode(&self, ids: &[u32]) -> Result<String>;

    /// Size of the vocabulary; token ids are below it.
    fn vocab_size(&self) -> usize;

    /// The token of an id, as spelled in the vocabulary.
    fn token(&self, id: u32) -> Option<String>;

    /// The id of a token.
    fn id(&self, token: &str) -> Option<u32>;

    /// The text of the tokens of a tensor.
    ///
    /// # Errors
    /// `InvalidArgument` if a token does not exist.
    fn decode_ids(&self, ids: &[i64]) -> Result<String> {
        let small = |id: &i64| u32::try_from(*id).map_err(|_| unknown(*id, self.vocab_size()));
        self.decode(&ids.iter().map(small).collect::<Result<Vec<_>>>()?)
    }

    /// The tokens of several texts as one tensor.
    ///
    /// # Errors
    /// Those of [`encode`](Tokenize::encode) and [`Encoded::new`].
    fn encode_batch(&self, texts: &[&str], padding: &Padding) -> Result<Encoded> {
        let rows =
            texts.iter().enumerate().map(|(i, t)| self.encode(t).map_err(|e| e.at(format!("text {i}"))));
        Encoded::new(&rows.collect::<Result<Vec<_>>>()?, padding)
    }
}

/// The error of an id that is not in the vocabulary.
pub(crate) fn unknown(id: i64, vocab: usize) -> Error {
    Error::argument(format!("tokens: there is no token {id}, only {vocab} of them"))
}

/// Padding of token sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Padding {
    id: u32,
    length: Option<usize>,
    multiple: usize,
    left: bool,
}

impl Padding {
    /// To the longest of a batch, at the end, with this token.
    pub fn new(id: u32) -> Self {
        Padding { id, length: None, multiple: 1, left: false }
    }
    /// To this length.
    #[must_use]
    pub fn length(mut self, length: usize) -> Self {
        self.length = Some(length);
        self
    }
    /// To a multiple of this; 0 counts as 1.
    #[must_use]
    pub fn multiple_of(mut self, multiple: usize) -> Self {
        self.multiple = multiple.max(1);
        self
    }
    /// At the front instead of the end (left padding), for text generation.
    #[must_use]
    pub fn left(mut self, left: bool) -> Self {
        self.left = left;
        self
    }
    /// The padding token.
    pub fn id(&self) -> u32 {
        self.id
    }
}

/// Several texts as tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoded {
    /// [n, t] of i64.
    pub ids: HostTensor,
    /// [n, t] of bool: true for tokens, false for padding.
    pub mask: HostTensor,
}

impl Encoded {
    /// Pads sequences of tokens to equal length.
    ///
    /// # Errors
    /// `ShapeMismatch` if one of them is longer than the padding's length; `OutOfMemory`.
    pub fn new(rows: &[Vec<u32>], padding: &Padding) -> Result<Self> {
        let longest = rows.iter().map(Vec::len).max().unwrap_or(0);
        let t = padding.length.unwrap_or(longest);
        if let Some(i) = rows.iter().position(|r| r.len() > t) {
            return Err(Error::shape(format!(
                "tokens: text {i} has {} tokens, and padding is to {t}; truncation to {t} would fit",
                rows[i].len()
            )));
        }
        let t = t.checked_next_multiple_of(padding.multiple).ok_or_else(|| {
            Error::memory(format!("tokens: no multiple of {} can be addressed", padding.multiple))
        })?;
        let shape = Shape::new(&[rows.len(), t])?;
        let mut ids = host::filled(shape.numel(), i64::from(padding.id))?;
        let mut mask = host::filled(shape.numel(), false)?;
        for (i, row) in rows.iter().enumerate() {
            let from = i * t + if padding.left { t - row.len() } else { 0 };
            ids[from..].iter_mut().zip(row).for_each(|(to, id)| *to = i64::from(*id));
            mask[from..][..row.len()].fill(true);
        }
        Ok(Encoded {
            ids: HostTensor::from_vec(ids, shape.clone())?,
            mask: HostTensor::from_vec(mask, shape)?,
        })
    }
}
