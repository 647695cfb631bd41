//! Text, and blocks of its tokens for next-token prediction.

use crate::data::dataset::exists;
use crate::data::{Dataset, Tokenize, file};
use elinvar_core::{Error, HostTensor, Result, Shape, host};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A text in memory.
///
/// ```
/// use elinvar_nn::data::{Chars, Dataset, Text};
///
/// let text = Text::new("to be or not to be")?;
/// let chars = Chars::new(&text);
/// let (learn, _test) = text.tokens(&chars)?.split(0.8)?;
/// let blocks = learn.blocks(4)?;
/// let (x, y) = blocks.get(0)?;
/// assert_eq!(chars.decode_ids(x.as_slice()?)?, "to b");
/// assert_eq!(chars.decode_ids(y.as_slice()?)?, "o be");
/// # use elinvar_nn::data::Tokenize;
/// # Ok::<(), elinvar_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(Arc<str>);

impl Text {
    /// This text.
    ///
    /// # Errors
    /// `Format` if it is empty.
    pub fn new(text: impl Into<Arc<str>>) -> Result<Self> {
        let text = text.into();
        if text.is_empty() {
            return Err(Error::format("text: it is empty; there is nothing to learn from"));
        }
        Ok(Text(text))
    }
    /// The text of a file in UTF-8.
    ///
    /// # Errors
    /// `Io`, or `Format` if it is empty or not UTF-8, with the file's name; `OutOfMemory`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = String::from_utf8(file::read(path)?).map_err(|e| {
            let at = e.utf8_error().valid_up_to();
            Error::format(format!("{}: text: not UTF-8 at byte {at}", path.display()))
        })?;
        Text::new(text).map_err(|e| e.at(path.display()))
    }
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
    /// The tokens of the whole text.
    ///
    /// # Errors
    /// Those of the tokenizer.
    pub fn tokens(&self, tokenizer: &dyn Tokenize) -> Result<Tokens> {
        Ok(Tokens::new(tokenizer.encode(&self.0)?))
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// A sequence of tokens, or a part of one.
#[derive(Clone, Debug)]
pub struct Tokens {
    all: Arc<[u32]>,
    part: Range<usize>,
}

impl Tokens {
    /// These tokens.
    pub fn new(tokens: impl Into<Arc<[u32]>>) -> Self {
        let all = tokens.into();
        Tokens { part: 0..all.len(), all }
    }
    /// The tokens.
    pub fn as_slice(&self) -> &[u32] {
        &self.all[self.part.clone()]
    }
    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.part.len()
    }
    /// Is it empty?
    pub fn is_empty(&self) -> bool {
        self.part.is_empty()
    }
    /// The first part of this fraction, rounded down to whole tokens, and the rest. By position,
    /// not shuffled: blocks of one part have no token of the other.
    ///
    /// # Errors
    /// `InvalidArgument` if one of the parts would have no tokens.
    pub fn split(&self, fraction: f64) -> Result<(Tokens, Tokens)> {
        let first = (self.len() as f64 * fraction).floor();
        // Negated so that NaN fails too.
        if !(first >= 1.0 && first < self.len() as f64) {
            return Err(Error::argument(format!(
                "tokens: a first part of {fraction} of {} tokens leaves one of the parts empty; 0.9 is usual",
                self.len()
            )));
        }
        let at = self.part.start + first as usize;
        let part = |part| Tokens { all: self.all.clone(), part };
        Ok((part(self.part.start..at), part(at..self.part.end)))
    }
    /// Blocks of `t` tokens, one after the other.
    ///
    /// # Errors
    /// `InvalidArgument` if there are not `t + 1` tokens, or `t` is 0.
    pub fn blocks(&self, t: usize) -> Result<TokenBlocks> {
        self.blocks_by(t, t)
    }
    /// Blocks of `t` tokens that begin every `stride` tokens; with 1, all blocks.
    ///
    /// # Errors
    /// `InvalidArgument` if there are not `t + 1` tokens, or `t` or `stride` is 0.
    pub fn blocks_by(&self, t: usize, stride: usize) -> Result<TokenBlocks> {
        if t == 0 || stride == 0 {
            return Err(Error::argument(format!(
                "tokens: blocks of {t} by {stride}; 1 at least would fit both"
            )));
        }
        if self.len() <= t {
            return Err(Error::argument(format!(
                "tokens: {} of them hold no block of {t} with the token that follows; blocks of {} would fit",
                self.len(),
                self.len().saturating_sub(1)
            )));
        }
        Ok(TokenBlocks { tokens: self.clone(), t, stride })
    }
}

/// Blocks of a sequence of tokens, each with the tokens that follow: x: \[t\], y: \[t\] of i64,
/// `y[j]` comes after `x[j]`.
#[derive(Clone, Debug)]
pub struct TokenBlocks {
    tokens: Tokens,
    t: usize,
    stride: usize,
}

impl TokenBlocks {
    /// The tokens of each block from offset `skip` on, as rows.
    fn rows(&self, blocks: &[usize], skip: usize) -> Result<Vec<i64>> {
        let mut out = host::with_capacity(blocks.len().saturating_mul(self.t))?;
        for i in blocks {
            exists(*i, self.len())?;
            let from = i * self.stride + skip;
            out.extend(self.tokens.as_slice()[from..from + self.t].iter().map(|t| i64::from(*t)));
        }
        Ok(out)
    }
}

impl Dataset for TokenBlocks {
    type Item = (HostTensor, HostTensor);
    fn len(&self) -> usize {
        (self.tokens.len() - self.t - 1) / self.stride + 1
    }
    fn get(&self, i: usize) -> Result<Self::Item> {
        let row = |skip| HostTensor::from_vec(self.rows(&[i], skip)?, Shape::new(&[self.t])?);
        Ok((row(0)?, row(1)?))
    }
    fn stacked(&self, samples: &[usize]) -> Option<Result<Self::Item>> {
        let rows =
            |skip| HostTensor::from_vec(self.rows(samples, skip)?, Shape::new(&[samples.len(), self.t])?);
        Some(rows(0).and_then(|x| Ok((x, rows(1)?))))
    }
}
