//! Training of a byte-level BPE.
//!
//! Sennrich, Haddow, Birch, "Neural machine translation of rare words with subword units", 2016, on
//! bytes as in GPT-2: the most frequent pair of adjacent tokens is merged to a new token, until
//! there are enough. Ties are broken towards smaller ids, and all occurrences are merged at once;
//! no step depends on the order of a hash map, so the same texts give the same tokens.

use elinvar_core::{Error, Result};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer};

/// Texts are split into pieces of about this many bytes, at line ends: splitting into words takes
/// 30 times the memory of its input.
const PIECE: usize = 1 << 20;

/// Settings of a byte-level BPE.
#[derive(Clone, Debug)]
pub struct BpeOptions {
    vocab: usize,
    special: Vec<String>,
    min_count: u64,
}

impl BpeOptions {
    /// A vocabulary of this size: 256 bytes, the special tokens, the rest learned. It is smaller if
    /// the texts have too few pairs.
    pub fn new(vocab: usize) -> Self {
        BpeOptions { vocab, special: vec![], min_count: 2 }
    }
    /// Special tokens: they have the smallest ids, are matched in texts before all others, and are
    /// skipped when decoding.
    #[must_use]
    pub fn special<S: Into<String>>(mut self, tokens: impl IntoIterator<Item = S>) -> Self {
        self.special = tokens.into_iter().map(Into::into).collect();
        self
    }
    /// The minimal frequency of a pair to be merged. Default: 2.
    #[must_use]
    pub fn min_count(mut self, min_count: u64) -> Self {
        self.min_count = min_count.max(1);
        self
    }
}

type Pair = (u32, u32);

/// Trains on the texts; returns the contents of a `tokenizer.json`.
pub(super) fn train(texts: &[&str], options: &BpeOptions) -> Result<Value> {
    let alphabet = alphabet();
    let special = &options.special;
    if options.vocab < special.len() + alphabet.len() {
        return Err(Error::argument(format!(
            "bpe: a vocabulary of {} does not hold 256 bytes and {} special tokens",
            options.vocab,
            special.len()
        )));
    }
    for (i, token) in special.iter().enumerate() {
        if token.is_empty() || special[..i].contains(token) || alphabet.iter().any(|c| token == c) {
            return Err(Error::argument(format!(
                "bpe: '{token}' as special token {i}; it should not be empty, a single byte, or there twice"
            )));
        }
    }
    let mut vocab = Vocab { ids: HashMap::new(), tokens: vec![], special: special.len() };
    special.iter().chain(&alphabet).for_each(|t| {
        vocab.add(t.clone());
    });
    let merges = merges(words(texts)?, &mut vocab, options);
    let merges: Vec<[&str; 2]> =
        merges.iter().map(|(a, b)| [*a, *b].map(|i| vocab.tokens[i as usize].as_str())).collect();
    let added: Vec<Value> = (special.iter().enumerate())
        .map(|(id, content)| {
            json!({
                "id": id, "content": content, "special": true,
                "single_word": false, "lstrip": false, "rstrip": false, "normalized": false
            })
        })
        .collect();
    let bytes =
        json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true });
    Ok(json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": null, "pre_tokenizer": bytes, "post_processor": null, "decoder": bytes,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocab.ids, "merges": merges
        }
    }))
}

/// The 256 characters that represent bytes, in the order of Unicode.
fn alphabet() -> Vec<String> {
    let mut chars: Vec<char> = ByteLevel::alphabet().into_iter().collect();
    chars.sort_unstable();
    chars.into_iter().map(String::from).collect()
}

/// The frequency of each word.
fn words(texts: &[&str]) -> Result<BTreeMap<String, u64>> {
    let split = ByteLevel::new(false, true, true);
    let mut words = BTreeMap::new();
    for piece in texts.iter().flat_map(|t| pieces(t)) {
        let mut piece = PreTokenizedString::from(piece);
        split.pre_tokenize(&mut piece).map_err(|e| Error::argument(format!("bpe: {e}")))?;
        for (word, ..) in piece.get_splits(OffsetReferential::Normalized, OffsetType::None) {
            match words.get_mut(word) {
                Some(count) => *count += 1,
                None => {
                    words.insert(word.to_owned(), 1);
                }
            }
        }
    }
    Ok(words)
}

/// Splits a text at the first line end after each [`PIECE`] bytes.
fn pieces(mut text: &str) -> Vec<&str> {
    let mut pieces = vec![];
    while !text.is_empty() {
        let end = text.as_bytes().iter().skip(PIECE).position(|b| *b == b'\n');
        let (piece, rest) = text.split_at(end.map_or(text.len(), |at| PIECE + at + 1));
        pieces.push(piece);
        text = rest;
    }
    pieces
}

/// Tokens and their ids. The first `special` ones are special tokens.
struct Vocab {
    ids: HashMap<String, u32>,
    tokens: Vec<String>,
    special: usize,
}

impl Vocab {
    fn add(&mut self, token: String) -> u32 {
        let next = self.tokens.len() as u32;
        let id = *self.ids.entry(token.clone()).or_insert(next);
        if id == next {
            self.tokens.push(token);
        }
        id
    }
}

/// The occurrences of pairs.
#[derive(Default)]
struct Pairs {
    /// The frequency in the texts.
    counts: HashMap<Pair, u64>,
    /// The words with the pair; a word may be listed twice, or no longer have the pair.
    words: HashMap<Pair, Vec<usize>>,
}

impl Pairs {
    fn add(&mut self, pair: Pair, word: usize, count: u64) {
        *self.counts.entry(pair).or_default() += count;
        let words = self.words.entry(pair).or_default();
        if words.last() != Some(&word) {
            words.push(word);
        }
    }
    fn take(&mut self, pair: Pair, count: u64) {
        // Only pairs that occur are removed.
        if let Some(c) = self.counts.get_mut(&pair) {
            *c -= count;
        }
    }
}

fn merges(words: BTreeMap<String, u64>, vocab: &mut Vocab, options: &BpeOptions) -> Vec<Pair> {
    let number = |c: char| vocab.ids[&c.to_string()];
    let mut words: Vec<(Vec<u32>, u64)> =
        words.into_iter().map(|(word, count)| (word.chars().map(number).collect(), count)).collect();
    let mut pairs = Pairs::default();
    for (i, (word, count)) in words.iter().enumerate() {
        word.windows(2).for_each(|w| pairs.add((w[0], w[1]), i, *count));
    }
    let mut queue: BinaryHeap<(u64, Reverse<Pair>)> =
        pairs.counts.iter().map(|(pair, count)| (*count, Reverse(*pair))).collect();
    let mut merges = vec![];
    while vocab.tokens.len() < options.vocab {
        let Some((count, Reverse(pair))) = queue.pop() else { break };
        let now = pairs.counts.get(&pair).copied().unwrap_or(0);
        if now != count {
            // The queued count is outdated; the pair is queued again with the current one.
            if now > 0 && now < count {
                queue.push((now, Reverse(pair)));
            }
            continue;
        }
        if count < options.min_count {
            break;
        }
        let token = format!("{}{}", vocab.tokens[pair.0 as usize], vocab.tokens[pair.1 as usize]);
        if vocab.ids.get(&token).is_some_and(|id| (*id as usize) < vocab.special) {
            // A merge that would spell a special token is skipped.
            continue;
        }
        let id = vocab.add(token);
        merges.push(pair);
        let mut changed = vec![];
        for i in pairs.words.remove(&pair).unwrap_or_default() {
            let (word, count) = &mut words[i];
            merge(word, pair, id, |new, p| match new {
                true => {
                    pairs.add(p, i, *count);
                    changed.push(p);
                }
                false => pairs.take(p, *count),
            });
        }
        pairs.counts.remove(&pair);
        changed.sort_unstable();
        changed.dedup();
        queue.extend(changed.iter().filter_map(|p| Some((*pairs.counts.get(p)?, Reverse(*p)))));
    }
    merges
}

/// Replaces the pair by `id`; reports pairs that appear (true) and disappear (false).
fn merge(word: &mut Vec<u32>, pair: Pair, id: u32, mut tell: impl FnMut(bool, Pair)) {
    let mut out: Vec<u32> = Vec::with_capacity(word.len());
    let mut i = 0;
    while i < word.len() {
        if i + 1 == word.len() || (word[i], word[i + 1]) != pair {
            out.push(word[i]);
            i += 1;
            continue;
        }
        // Tokens before `i` are merged, tokens after it are not yet.
        tell(false, pair);
        if let Some(before) = out.last() {
            tell(false, (*before, pair.0));
            tell(true, (*before, id));
        }
        if let Some(after) = word.get(i + 2) {
            tell(false, (pair.1, *after));
            tell(true, (id, *after));
        }
        out.push(id);
        i += 2;
    }
    *word = out;
}
