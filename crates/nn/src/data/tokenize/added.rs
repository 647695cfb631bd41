//! The added tokens of a `tokenizer.json`: found in a text before the model sees it, and put back
//! as they are into a decoded one.
//!
//! The crate `tokenizers` gives added tokens new ids where the file leaves ids free, and decodes
//! them as if the model had spelled them: a byte-level decoder takes the letter č for byte 13, one
//! of SentencePiece the sign ▁ for a space. So the crate never sees them. They keep the file's ids,
//! and where its decoder would change one, a character stands in for it that the decoder leaves
//! alone.

use aho_corasick::{AhoCorasick, Input, MatchKind};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use tokenizers::normalizer::Range as In;
use tokenizers::{Decoder, DecoderWrapper, Model, NormalizedString, Normalizer, NormalizerWrapper};
use tokenizers::{PreTokenizedString, Result, Token};

/// An added token, with the fields that the file has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AddedToken {
    pub id: u32,
    pub content: String,
    /// Is it found only where no letter, digit, mark or underscore is next to it?
    single_word: bool,
    /// Does it take the white space before it?
    lstrip: bool,
    /// And that after it?
    rstrip: bool,
    /// Is it found in the normalized text, by its normalized content?
    normalized: bool,
    /// Is it skipped when decoding?
    pub special: bool,
}

/// How an added token is encoded and decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spelling {
    /// It goes through the decoder, which leaves it as it is.
    Kept,
    /// The decoder would change it: a stand-in goes through it.
    StandIn,
    /// It is a token that the model makes of other text: the byte-level token `č` of byte 13. It is
    /// the model's, in both directions.
    Models,
}

/// The added tokens of a tokenizer.
#[derive(Clone)]
pub(super) struct Added {
    tokens: BTreeMap<u32, AddedToken>,
    spelling: HashMap<u32, Spelling>,
    ids: HashMap<String, u32>,
    /// Those that are found in the text, and those that are found in the normalized text.
    raw: Option<Finder>,
    normalized: Option<Finder>,
}

impl Added {
    /// The added tokens of a file, beside its other parts. The error is a sentence about the file.
    pub fn new(tokens: Vec<AddedToken>, parts: &tokenizers::Tokenizer) -> Result<Self> {
        let mut added = Added {
            tokens: BTreeMap::new(),
            spelling: HashMap::new(),
            ids: HashMap::new(),
            raw: None,
            normalized: None,
        };
        let (mut raw, mut normalized) = (vec![], vec![]);
        for token in tokens {
            let (id, content) = (token.id, &token.content);
            if let Some(other) = added.tokens.get(&id) {
                if *other == token {
                    continue;
                }
                return Err(
                    format!("two added tokens have id {id}: {:?} and {content:?}", other.content).into()
                );
            }
            if let Some(other) = added.ids.insert(content.clone(), id) {
                return Err(format!("the added token {content:?} is there twice, as {other} and {id}").into());
            }
            if let Some(other) = parts.get_model().id_to_token(id).filter(|other| other != content) {
                let sentence = format!("id {id} is {content:?} as an added token and {other:?} in the model");
                return Err(sentence.into());
            }
            let spelling = spelling(&token, parts)?;
            if spelling != Spelling::Models {
                match parts.get_normalizer().filter(|_| token.normalized) {
                    Some(n) => {
                        let mut content = NormalizedString::from(content.as_str());
                        n.normalize(&mut content)?;
                        normalized.push((content.get().to_owned(), id));
                    }
                    None if token.normalized => normalized.push((content.clone(), id)),
                    None => raw.push((content.clone(), id)),
                }
            }
            added.spelling.insert(id, spelling);
            added.tokens.insert(id, token);
        }
        added.raw = Finder::new(raw)?;
        added.normalized = Finder::new(normalized)?;
        Ok(added)
    }

    /// By ascending id.
    pub fn tokens(&self) -> impl Iterator<Item = &AddedToken> {
        self.tokens.values()
    }

    pub fn get(&self, id: u32) -> Option<&AddedToken> {
        self.tokens.get(&id)
    }

    pub fn id(&self, content: &str) -> Option<u32> {
        self.ids.get(content).copied()
    }

    /// The text in pieces: an added token with its id, or a normalized stretch between such tokens.
    pub fn split(&self, text: &str, normalizer: Option<&NormalizerWrapper>) -> Result<PreTokenizedString> {
        let mut text = PreTokenizedString::from(text);
        text.split(|_, stretch| self.cut(stretch, self.raw.as_ref()))?;
        text.split(|_, mut stretch| {
            if let Some(n) = normalizer {
                n.normalize(&mut stretch)?;
            }
            self.cut(stretch, self.normalized.as_ref())
        })?;
        Ok(text)
    }

    fn cut(&self, text: NormalizedString, finder: Option<&Finder>) -> Result<Vec<Piece>> {
        let Some(finder) = finder else { return Ok(vec![(text, None)]) };
        let piece = |(id, at): (Option<u32>, Range<usize>)| {
            let slice = text.slice(In::Normalized(at.clone())).ok_or("an added token splits a character")?;
            Ok((slice, id.map(|id| vec![Token::new(id, text.get()[at.clone()].to_owned(), (0, at.len()))])))
        };
        finder.find(text.get(), &self.tokens).into_iter().map(piece).collect()
    }

    /// The text of tokens, which exist and are not special.
    pub fn decode(&self, ids: &[u32], parts: &tokenizers::Tokenizer) -> Result<String> {
        let token = |id: &u32| match self.tokens.get(id) {
            Some(token) => Some(token.content.clone()),
            None => parts.get_model().id_to_token(*id),
        };
        let stands_in = |id: &&u32| self.spelling.get(id) == Some(&Spelling::StandIn);
        let decode = |tokens: Vec<String>| decode(tokens, parts.get_decoder());
        if !ids.iter().any(|id| stands_in(&id)) {
            return decode(ids.iter().filter_map(token).collect());
        }
        // Characters that the rest of the text does not have.
        let rest = decode(ids.iter().filter(|id| !stands_in(id)).filter_map(token).collect())?;
        let taken: HashSet<char> = rest.chars().filter(|c| STAND_INS.contains(c)).collect();
        let mut free = STAND_INS.rev().filter(|c| !taken.contains(c));
        let (mut of_id, mut contents) = (HashMap::new(), HashMap::new());
        for id in ids.iter().filter(stands_in) {
            if !of_id.contains_key(id) {
                let c = free.next().ok_or("too many different added tokens to decode at once")?;
                of_id.insert(*id, c);
                contents.insert(c, self.tokens[id].content.as_str());
            }
        }
        let token = |id: &u32| of_id.get(id).map(char::to_string).or_else(|| token(id));
        let text = decode(ids.iter().filter_map(token).collect())?;
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            match contents.get(&c) {
                Some(content) => out.push_str(content),
                None => out.push(c),
            }
        }
        Ok(out)
    }
}

/// A piece of a text, with its token if it is an added one.
type Piece = (NormalizedString, Option<Vec<Token>>);

/// The characters that stand in for added tokens: beyond all letters that decoders know.
const STAND_INS: std::ops::RangeInclusive<char> = '\u{10000}'..=char::MAX;

fn decode(tokens: Vec<String>, decoder: Option<&DecoderWrapper>) -> Result<String> {
    match decoder {
        // Decoders of the crate count on a first token.
        _ if tokens.is_empty() => Ok(String::new()),
        Some(decoder) => decoder.decode(tokens),
        None => Ok(tokens.join(" ")),
    }
}

fn spelling(token: &AddedToken, parts: &tokenizers::Tokenizer) -> Result<Spelling> {
    let content = &token.content;
    let decoder = parts.get_decoder();
    let end = char::MAX.to_string();
    let alone = decode(vec![content.clone()], decoder)?;
    let between = decode(vec![end.clone(), content.clone(), end.clone()], decoder)?;
    let between = between.strip_prefix(&end).and_then(|text| text.strip_suffix(&end));
    if content.is_empty() || alone == *content && between.is_some_and(|text| text.contains(content)) {
        return Ok(Spelling::Kept);
    }
    let model = parts.get_model();
    let models = model.token_to_id(content) == Some(token.id)
        && matches!(&model.tokenize(content)?[..], [only] if only.id == token.id);
    Ok(if models { Spelling::Models } else { Spelling::StandIn })
}

/// Finds added tokens in a text: the leftmost first, of those the longest.
#[derive(Clone)]
struct Finder {
    patterns: AhoCorasick,
    /// The token of each pattern.
    ids: Vec<u32>,
}

impl Finder {
    fn new(mut tokens: Vec<(String, u32)>) -> Result<Option<Self>> {
        // Normalized contents may be equal, where the smallest id is found, or empty.
        tokens.retain(|(content, _)| !content.is_empty());
        tokens.sort_unstable();
        tokens.dedup_by(|b, a| a.0 == b.0);
        if tokens.is_empty() {
            return Ok(None);
        }
        let patterns = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(tokens.iter().map(|(content, _)| content))?;
        Ok(Some(Finder { patterns, ids: tokens.into_iter().map(|(_, id)| id).collect() }))
    }

    /// The whole text in pieces, those of added tokens with an id.
    fn find(&self, text: &str, tokens: &BTreeMap<u32, AddedToken>) -> Vec<(Option<u32>, Range<usize>)> {
        let mut pieces = vec![];
        let (mut from, mut done) = (0, 0);
        while let Some(found) = self.patterns.find(Input::new(text).span(from..text.len())) {
            let id = self.ids[found.pattern()];
            let token = &tokens[&id];
            let (mut start, mut end) = (found.start(), found.end());
            from = end;
            let word = |c: Option<char>| c.is_some_and(regex_syntax::is_word_character);
            if token.single_word
                && (word(text[..start].chars().next_back()) || word(text[end..].chars().next()))
            {
                continue;
            }
            if token.lstrip {
                // White space that the token before has taken stays with that.
                start = text[..start].trim_end().len().max(done);
            }
            if token.rstrip {
                end = text.len() - text[end..].trim_start().len();
                from = end;
            }
            if done < start {
                pieces.push((None, done..start));
            }
            pieces.push((Some(id), start..end));
            done = end;
        }
        if done < text.len() {
            pieces.push((None, done..text.len()));
        }
        pieces
    }
}
