//! Tokenizers of a `tokenizer.json`, by the crate `tokenizers`.
//!
//! The file is untrusted, and the crate trusts it in places, so it is checked first, and panics of
//! the crate are caught and become errors.

use crate::data::prefetch::message;
use crate::data::tokenize::unknown;
use crate::data::{BpeOptions, Padding, Tokenize, file, tokenize};
use elinvar_core::{Error, Result};
use serde_json::Value;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use tokenizers::{
    PaddingDirection, PaddingParams, PaddingStrategy, PostProcessor, TruncationDirection, TruncationParams,
    TruncationStrategy,
};

/// A tokenizer of a `tokenizer.json`: WordPiece (BERT), byte-level BPE (GPT-2, Llama 3), Unigram
/// and others.
///
/// Encoding adds the file's special tokens and truncates to its length; padding is an argument of
/// [`encode_batch`](Tokenize::encode_batch), and [`padding`](Tokenizer::padding) gives the file's.
/// BPE dropout is off: the same text has the same tokens.
///
/// ```
/// use elinvar_nn::data::{BpeOptions, Tokenize, Tokenizer};
///
/// let text = "she sells sea shells by the sea shore";
/// let t = Tokenizer::train_bpe(&[text], &BpeOptions::new(260).special(["<end>"]))?;
/// let ids = t.encode("sea shells<end>")?;
/// assert_eq!(*ids.last().unwrap(), t.id("<end>").unwrap());
/// assert_eq!(t.decode(&ids)?, "sea shells");
/// # Ok::<(), elinvar_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// The file's padding; the crate itself does not pad.
    padding: Option<PaddingParams>,
    special: bool,
    vocab: usize,
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer")
            .field("vocab_size", &self.vocab_size())
            .field("truncation", &self.truncation())
            .field("padding", &self.padding())
            .finish_non_exhaustive()
    }
}

impl Tokenizer {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// `Io`, or `Format` if it is not a tokenizer, with the file's name; `OutOfMemory`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::from_json(&file::read(path)?).map_err(|e| e.at(path.display()))
    }

    /// Reads a tokenizer from the contents of a `tokenizer.json`.
    ///
    /// # Errors
    /// `Format` if they are not a tokenizer.
    pub fn from_json(bytes: &[u8]) -> Result<Self> {
        let value = serde_json::from_slice(bytes)
            .map_err(|e| Error::format(format!("tokenizer: this is no JSON: {e}")))?;
        Self::from_value(value)
    }

    pub(crate) fn from_value(mut value: Value) -> Result<Self> {
        look(&mut value)?;
        let read = || serde_json::from_value(value).map_err(Into::into);
        let mut inner: tokenizers::Tokenizer = guarded(read).map_err(|e| Error::format(e.message()))?;
        let padding = inner.get_padding().cloned();
        inner.with_padding(None);
        let vocab = inner.get_vocab(true).values().max().map_or(0, |largest| *largest as usize + 1);
        let tokenizer = Tokenizer { inner, padding, special: true, vocab };
        match tokenizer.inner.get_truncation().cloned() {
            Some(t) => tokenizer.truncated(t).map_err(|e| Error::format(e.message())),
            None => Ok(tokenizer),
        }
    }

    /// Trains a byte-level BPE as in GPT-2: the same texts give the same tokenizer, on every
    /// machine.
    ///
    /// # Errors
    /// `InvalidArgument` if the vocabulary is smaller than 256 bytes and the special tokens, or a
    /// special token is empty or duplicate.
    pub fn train_bpe(texts: &[&str], options: &BpeOptions) -> Result<Self> {
        tokenize::bpe::train(texts, options).and_then(Self::from_value)
    }

    /// Are special tokens added when encoding? Default: yes.
    #[must_use]
    pub fn special(mut self, special: bool) -> Self {
        self.special = special;
        self
    }

    /// Truncates to this many tokens, including special tokens; `None`: no truncation.
    ///
    /// # Errors
    /// `InvalidArgument` if the special tokens do not fit.
    pub fn truncate(mut self, length: Option<usize>) -> Result<Self> {
        let Some(max_length) = length else {
            self.inner.with_truncation(None).map_err(|e| Error::argument(e.to_string()))?;
            return Ok(self);
        };
        let direction = self.inner.get_truncation().map_or(TruncationDirection::Right, |t| t.direction);
        self.truncated(TruncationParams {
            direction,
            max_length,
            strategy: TruncationStrategy::LongestFirst,
            stride: 0,
        })
    }

    fn truncated(mut self, t: TruncationParams) -> Result<Self> {
        let added = self.inner.get_post_processor().map_or(0, |p| p.added_tokens(false));
        // The crate subtracts these without a check.
        if t.max_length < added || t.max_length - added < t.stride {
            return Err(Error::argument(format!(
                "tokenizer: truncation to {} tokens with a stride of {} leaves no room for {added} special ones",
                t.max_length, t.stride
            )));
        }
        self.inner.with_truncation(Some(t)).map_err(|e| Error::argument(e.to_string()))?;
        Ok(self)
    }

    /// The number of tokens to which texts are truncated.
    pub fn truncation(&self) -> Option<usize> {
        self.inner.get_truncation().map(|t| t.max_length)
    }

    /// The file's padding; by default, to the longest of a batch by a token named `[PAD]`, `<pad>`
    /// or `<|endoftext|>`, or token 0.
    pub fn padding(&self) -> Padding {
        let Some(p) = &self.padding else {
            let id = ["[PAD]", "<pad>", "<|endoftext|>"].into_iter().find_map(|t| self.id(t));
            return Padding::new(id.unwrap_or(0));
        };
        let padding = Padding::new(p.pad_id)
            .multiple_of(p.pad_to_multiple_of.unwrap_or(1))
            .left(matches!(p.direction, PaddingDirection::Left));
        match p.strategy {
            PaddingStrategy::BatchLongest => padding,
            PaddingStrategy::Fixed(length) => padding.length(length),
        }
    }

    /// The tokenizer as the contents of a `tokenizer.json`: the same tokenizer gives the same
    /// bytes.
    ///
    /// # Errors
    /// `Format` if the crate cannot write it.
    pub fn to_json(&self) -> Result<String> {
        let mut whole = self.inner.clone();
        whole.with_padding(self.padding.clone());
        guarded(|| whole.to_string(true)).map_err(|e| Error::format(e.message()))
    }

    /// Writes a `tokenizer.json`; an older file is replaced as a whole or not at all.
    ///
    /// # Errors
    /// `Io` with the path.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let json = self.to_json()?;
        elinvar_io::atomic_write(path, |out| Ok(out.write_all(json.as_bytes())?))
    }
}

impl Tokenize for Tokenizer {
    fn encode(&self, text: &str) -> Result<Vec<u32>> {
        Ok(guarded(|| self.inner.encode_fast(text, self.special))?.get_ids().to_vec())
    }
    /// Special tokens are skipped.
    fn decode(&self, ids: &[u32]) -> Result<String> {
        if let Some(id) = ids.iter().find(|id| self.inner.id_to_token(**id).is_none()) {
            return Err(unknown(i64::from(*id), self.vocab_size()));
        }
        guarded(|| self.inner.decode(ids, true))
    }
    /// One more than the largest id: a file may have gaps.
    fn vocab_size(&self) -> usize {
        self.vocab
    }
    fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }
    fn id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }
}

/// Runs the crate; its errors and panics become one sentence.
fn guarded<T>(f: impl FnOnce() -> tokenizers::Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(e)) => Err(Error::argument(format!("tokenizer: {e}"))),
        Err(panic) => Err(Error::argument(format!("tokenizer: it panicked: {}", message(&*panic)))),
    }
}

/// Removes settings that would make tokens random, and rejects merges for which the crate would
/// split a character.
fn look(value: &mut Value) -> Result<()> {
    let Some(model) = value.get_mut("model").and_then(Value::as_object_mut) else {
        return Err(Error::format("tokenizer: it has no `model`; a tokenizer.json has one"));
    };
    if model.contains_key("dropout") {
        model.insert("dropout".into(), Value::Null);
    }
    let prefix = model.get("continuing_subword_prefix").and_then(Value::as_str).unwrap_or("");
    let merges = model.get("merges").and_then(Value::as_array);
    for merge in merges.into_iter().flatten().filter(|_| !prefix.is_empty()) {
        // A merge is ["a", "##b"], in older files "a ##b".
        let second = match merge {
            Value::String(both) => both.split_once(' ').map(|(_, second)| second),
            other => other.get(1).and_then(Value::as_str),
        };
        if !second.is_some_and(|s| s.starts_with(prefix)) {
            return Err(Error::format(format!(
                "tokenizer: a merge's second part {second:?} does not begin with the prefix '{prefix}'"
            )));
        }
    }
    Ok(())
}
