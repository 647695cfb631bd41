//! Tokenizers of a `tokenizer.json`, by the crate `tokenizers`.
//!
//! The file is untrusted, and the crate trusts it in places, so it is checked first, and panics of
//! the crate are caught and become errors. Of the crate we use the parts, normalizer to decoder;
//! the added tokens between them are ours (`added`).

use crate::data::prefetch::message;
use crate::data::tokenize::added::{Added, AddedToken};
use crate::data::tokenize::unknown;
use crate::data::{BpeOptions, Padding, Tokenize, file, tokenize};
use elinvar_core::{Error, Result};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use tokenizers::{
    DecoderWrapper, Model, ModelWrapper, NormalizedString, NormalizerWrapper, OffsetType, PaddingDirection,
    PaddingParams, PaddingStrategy, PostProcessor, PostProcessorWrapper, PreTokenizer, PreTokenizerWrapper,
    Token, TruncationDirection, TruncationParams, TruncationStrategy,
};

/// The crate writes a vocabulary by counting up to its largest id.
const MODEL_IDS: u32 = 1 << 24;

/// A tokenizer of a `tokenizer.json`: WordPiece (BERT), byte-level BPE (GPT-2, Llama 3), Unigram
/// and others.
///
/// Encoding adds the file's special tokens and truncates to its length; padding is an argument of
/// [`encode_batch`](Tokenize::encode_batch), and [`padding`](Tokenizer::padding) gives the file's.
/// BPE dropout is off: the same text has the same tokens.
///
/// Added tokens have the ids of the file, also where those leave others free, and are decoded to
/// their very content. They are found as their flags say: `normalized` ones in the normalized text,
/// others before; the leftmost first, of those the longest; `single_word` only between what is no
/// letter, digit, mark or underscore; `lstrip` and `rstrip` with the white space around them.
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
    /// All parts but the added tokens.
    inner: tokenizers::Tokenizer,
    added: Added,
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
        let read = || {
            let added = value.as_object_mut().and_then(|file| file.remove("added_tokens"));
            let added: Vec<AddedToken> = added.map_or(Ok(vec![]), serde_json::from_value)?;
            let mut inner: tokenizers::Tokenizer = serde_json::from_value(value)?;
            let padding = inner.get_padding().cloned();
            inner.with_padding(None);
            let largest = largest_id(inner.get_model())?;
            let added = Added::new(added, &inner)?;
            let largest = largest.max(added.tokens().last().map(|t| t.id));
            let vocab = largest.map_or(0, |id| id as usize + 1);
            Ok(Tokenizer { inner, added, padding, special: true, vocab })
        };
        let tokenizer = guarded(read).map_err(|e| Error::format(e.message()))?;
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
        let file = File {
            version: "1.0",
            truncation: self.inner.get_truncation(),
            padding: self.padding.as_ref(),
            added_tokens: self.added.tokens().collect(),
            normalizer: self.inner.get_normalizer(),
            pre_tokenizer: self.inner.get_pre_tokenizer(),
            post_processor: self.inner.get_post_processor(),
            decoder: self.inner.get_decoder(),
            model: self.inner.get_model(),
        };
        guarded(|| Ok(serde_json::to_string_pretty(&file)?)).map_err(|e| Error::format(e.message()))
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
        guarded(|| {
            let mut text = self.added.split(text, self.inner.get_normalizer())?;
            if let Some(words) = self.inner.get_pre_tokenizer() {
                words.pre_tokenize(&mut text)?;
            }
            let model = self.inner.get_model();
            let tokens = |word: &NormalizedString| whole(word.get(), model);
            match self.inner.get_truncation() {
                // What is cut off anyway need not be encoded.
                Some(t) => text.tokenize_with_limit(tokens, t.max_length, t.direction)?,
                None => text.tokenize(tokens)?,
            }
            let tokens = text.into_encoding(None, 0, OffsetType::None)?;
            Ok(self.inner.post_process(tokens, None, self.special)?.get_ids().to_vec())
        })
    }
    /// Special tokens are skipped.
    fn decode(&self, ids: &[u32]) -> Result<String> {
        let model = self.inner.get_model();
        let mut text = Vec::with_capacity(ids.len());
        for id in ids {
            match self.added.get(*id) {
                Some(token) if token.special => {}
                None if model.id_to_token(*id).is_none() => {
                    return Err(unknown(i64::from(*id), self.vocab_size()));
                }
                Some(_) | None => text.push(*id),
            }
        }
        guarded(|| self.added.decode(&text, &self.inner))
    }
    /// One more than the largest id: a file may have gaps.
    fn vocab_size(&self) -> usize {
        self.vocab
    }
    fn token(&self, id: u32) -> Option<String> {
        let added = self.added.get(id).map(|token| token.content.clone());
        added.or_else(|| self.inner.get_model().id_to_token(id))
    }
    fn id(&self, token: &str) -> Option<u32> {
        self.added.id(token).or_else(|| self.inner.get_model().token_to_id(token))
    }
}

/// A `tokenizer.json`, with its fields in the crate's order.
#[derive(Serialize)]
struct File<'a> {
    version: &'static str,
    truncation: Option<&'a TruncationParams>,
    padding: Option<&'a PaddingParams>,
    added_tokens: Vec<&'a AddedToken>,
    normalizer: Option<&'a NormalizerWrapper>,
    pre_tokenizer: Option<&'a PreTokenizerWrapper>,
    post_processor: Option<&'a PostProcessorWrapper>,
    decoder: Option<&'a DecoderWrapper>,
    model: &'a ModelWrapper,
}

/// The largest id of the model; an error if two of its tokens share one, of which decoding would
/// choose any.
fn largest_id(model: &ModelWrapper) -> tokenizers::Result<Option<u32>> {
    let mut tokens = BTreeMap::new();
    for (token, id) in model.get_vocab() {
        if let Some(other) = tokens.insert(id, token) {
            let (token, other) = (&tokens[&id], &other);
            let (a, b) = (token.min(other), token.max(other));
            return Err(format!("two tokens of the model have id {id}: {a:?} and {b:?}").into());
        }
    }
    let largest = tokens.last_key_value().map(|(id, _)| *id);
    match largest {
        Some(id) if id >= MODEL_IDS => Err(format!("id {id} of the model is not below {MODEL_IDS}").into()),
        other => Ok(other),
    }
}

/// The model's tokens of a word: of all of it, in its order. A BPE drops characters that it has no
/// tokens for, and puts the bytes of one before an unknown one that they follow.
fn whole(word: &str, model: &ModelWrapper) -> tokenizers::Result<Vec<Token>> {
    let tokens = model.tokenize(word)?;
    if tokens.last().map_or(0, |last| last.offsets.1) != word.len() {
        let lost = |c: &char| model.tokenize(&c.to_string()).is_ok_and(|t| t.is_empty());
        return Err(match word.chars().find(lost) {
            Some(c) => format!("the model has no token for {c:?}").into(),
            None => "the model has no tokens for all of the text".into(),
        });
    }
    if let ModelWrapper::BPE(bpe) = model
        && bpe.byte_fallback
        && bpe.unk_token.is_some()
    {
        for token in &tokens {
            let text = &word.as_bytes()[token.offsets.0..token.offsets.1];
            if let Some(byte) = byte(&token.value)
                && text != [byte]
                && text != token.value.as_bytes()
            {
                return Err("the model has tokens for some bytes only, and would change their order".into());
            }
        }
    }
    Ok(tokens)
}

/// The byte of a token `<0x41>`.
fn byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    u8::from_str_radix(digits, 16).ok()
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
