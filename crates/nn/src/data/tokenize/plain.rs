//! Tokenizers that need no file: a token is a byte, or a character.

use crate::data::Tokenize;
use crate::data::tokenize::unknown;
use elinvar_core::{Error, Result};

/// Each byte of UTF-8 is a token: 256 of them; every text can be encoded.
///
/// ```
/// use elinvar_nn::data::{Bytes, Tokenize};
///
/// assert_eq!(Bytes.encode("hé")?, [104, 195, 169]);
/// assert_eq!(Bytes.decode(&[104, 195, 169])?, "hé");
/// # Ok::<(), elinvar_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes;

impl Tokenize for Bytes {
    fn encode(&self, text: &str) -> Result<Vec<u32>> {
        Ok(text.bytes().map(u32::from).collect())
    }
    /// Invalid UTF-8 becomes U+FFFD, one for each invalid sequence.
    fn decode(&self, ids: &[u32]) -> Result<String> {
        let byte = |id: &u32| u8::try_from(*id).map_err(|_| unknown(i64::from(*id), 256));
        let bytes: Vec<u8> = ids.iter().map(byte).collect::<Result<_>>()?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
    fn vocab_size(&self) -> usize {
        256
    }
    /// The character of an ASCII byte, `<0xE2>` of others.
    fn token(&self, id: u32) -> Option<String> {
        let byte = u8::try_from(id).ok()?;
        Some(if byte.is_ascii() { char::from(byte).to_string() } else { format!("<{byte:#04X}>") })
    }
    fn id(&self, token: &str) -> Option<u32> {
        (0..256).find(|id| self.token(*id).is_some_and(|t| t == token))
    }
}

/// Each character of a text is a token, numbered in the order of Unicode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chars {
    chars: Vec<char>,
}

impl Chars {
    /// The characters of a text. The text of [`alphabet`](Chars::alphabet) gives the same tokenizer
    /// again.
    pub fn new(text: impl AsRef<str>) -> Self {
        let chars: std::collections::BTreeSet<char> = text.as_ref().chars().collect();
        Chars { chars: chars.into_iter().collect() }
    }
    /// All characters, by id.
    pub fn alphabet(&self) -> String {
        self.chars.iter().collect()
    }
}

impl Tokenize for Chars {
    fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let id = |(at, c): (usize, char)| match self.chars.binary_search(&c) {
            Ok(i) => Ok(i as u32),
            Err(_) => Err(Error::argument(format!(
                "chars: {c:?} at byte {at} is none of the {} characters",
                self.chars.len()
            ))),
        };
        text.char_indices().map(id).collect()
    }
    fn decode(&self, ids: &[u32]) -> Result<String> {
        let char = |id: &u32| {
            let c = usize::try_from(*id).ok().and_then(|i| self.chars.get(i));
            c.copied().ok_or_else(|| unknown(i64::from(*id), self.chars.len()))
        };
        ids.iter().map(char).collect()
    }
    fn vocab_size(&self) -> usize {
        self.chars.len()
    }
    fn token(&self, id: u32) -> Option<String> {
        self.chars.get(id as usize).map(char::to_string)
    }
    fn id(&self, token: &str) -> Option<u32> {
        let mut chars = token.chars();
        match (chars.next(), chars.next()) {
            (Some(c), None) => self.chars.binary_search(&c).ok().map(|i| i as u32),
            _ => None,
        }
    }
}
