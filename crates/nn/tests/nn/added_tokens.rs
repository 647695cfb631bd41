//! Added tokens of a `tokenizer.json`: what they are found in, which ids they have, and what they
//! are decoded to. Where the crate `tokenizers` is right, our ids are its.

use elinvar_core::{ErrorKind, Result};
use elinvar_nn::data::{BpeOptions, Tokenize, Tokenizer};
use serde_json::{Value, json};

/// A byte-level BPE of 256 bytes, with these added tokens.
fn bytes(added: Value) -> Value {
    let t = Tokenizer::train_bpe(&[], &BpeOptions::new(256)).unwrap();
    let mut file: Value = serde_json::from_str(&t.to_json().unwrap()).unwrap();
    file["added_tokens"] = added;
    file
}

fn load(file: &Value) -> Result<Tokenizer> {
    Tokenizer::from_json(file.to_string().as_bytes())
}

/// An added token without flags.
fn plain(id: u32, content: &str) -> Value {
    token(id, content, "")
}

/// An added token with the flags whose first letters are in `flags`.
fn token(id: u32, content: &str, flags: &str) -> Value {
    json!({ "id": id, "content": content, "single_word": flags.contains('w'), "lstrip": flags.contains('l'),
            "rstrip": flags.contains('r'), "normalized": flags.contains('n'), "special": flags.contains('s') })
}

/// Every letter of Unicode.
fn letters() -> impl Iterator<Item = char> {
    ('\0'..=char::MAX).filter(|c| c.is_alphabetic())
}

#[test]
fn byte_level_added_tokens_are_decoded_to_their_content() {
    let words =
        ["Začnimo", "kuća", "međa", "đem", "ilÖveyou", "Ġx", "č", "ÿ", "▁", "<0x41>", "a b", "日本", " "];
    for flags in ["", "n"] {
        for word in words {
            let t = load(&bytes(json!([token(1000, word, flags)]))).unwrap();
            let ids = t.encode(word).unwrap();
            assert_eq!((&ids[..], t.decode(&ids).unwrap().as_str()), (&[1000][..], word), "{flags}");
            assert_eq!((t.token(1000).as_deref(), t.id(word)), (Some(word), Some(1000)));
            // Within a text, also one that has the characters that stand in for added tokens.
            for text in [format!("x{word}{word} \u{10ffff}y{word}"), format!("\u{10000}č{word}\r\u{fffd}")] {
                assert_eq!(t.decode(&t.encode(&text).unwrap()).unwrap(), text, "{word}");
            }
        }
    }
    // Incomplete characters around an added token do not join.
    let t = load(&bytes(json!([plain(1000, "č")]))).unwrap();
    let ids = t.encode("\u{10ffff}").unwrap();
    assert_eq!(t.decode(&[&ids[..2], &[1000], &ids[2..]].concat()).unwrap(), "\u{fffd}č\u{fffd}\u{fffd}");
    // What the model itself spells this way is the model's: byte 13.
    let byte = t.encode("\r").unwrap();
    let t = load(&bytes(json!([plain(byte[0], "č")]))).unwrap();
    assert_eq!(t.encode("\r").unwrap(), byte);
    assert_eq!(t.decode(&t.encode("č\r").unwrap()).unwrap(), "č\r");
}

#[test]
fn every_letter_is_a_byte_level_text_and_an_added_token() {
    let all: String = letters().collect();
    let t = load(&bytes(json!([]))).unwrap();
    assert_eq!(t.decode(&t.encode(&all).unwrap()).unwrap(), all);
    // Words of letters that follow one another, and each letter that stands for a byte.
    let letters: Vec<char> = letters().collect();
    let words = letters.chunks(7).map(|word| word.iter().collect::<String>());
    let alone = letters.iter().filter(|c| **c < '\u{250}').map(char::to_string);
    let words: Vec<String> = words.chain(alone).collect();
    let added: Vec<Value> = words.iter().enumerate().map(|(i, w)| plain(300 + 2 * i as u32, w)).collect();
    let t = load(&bytes(added.into())).unwrap();
    let ids: Vec<u32> = (0..words.len() as u32).map(|i| 300 + 2 * i).collect();
    assert_eq!(t.decode(&ids).unwrap(), words.concat());
    for (id, word) in ids.iter().zip(&words) {
        assert_eq!((&t.encode(word).unwrap()[..], t.id(word)), (&[*id][..], Some(*id)), "{word}");
    }
    assert_eq!(t.vocab_size(), 300 + 2 * words.len() - 1);
}

#[test]
fn ids_are_those_of_the_file() {
    let file = bytes(json!([plain(300, "<a>"), token(7_000_000, "<b>", "s"), plain(u32::MAX, "<c>")]));
    let t = load(&file).unwrap();
    assert_eq!(t.encode("<a><b><c>").unwrap(), [300, 7_000_000, u32::MAX]);
    assert_eq!(t.decode(&[300, 7_000_000, u32::MAX]).unwrap(), "<a><c>");
    assert_eq!((t.vocab_size(), t.id("<b>"), t.token(301)), (1 << 32, Some(7_000_000), None));
    assert_eq!(
        t.decode(&[301]).unwrap_err().message(),
        "tokens: there is no token 301, only 4294967296 of them"
    );
    // Saved and read again, they are the same.
    let again = Tokenizer::from_json(t.to_json().unwrap().as_bytes()).unwrap();
    assert_eq!(again.encode("<a><b><c>").unwrap(), [300, 7_000_000, u32::MAX]);
    let saved: Value = serde_json::from_str(&t.to_json().unwrap()).unwrap();
    assert_eq!(saved["added_tokens"], file["added_tokens"]);
    // A model whose ids leave some free, too, and an added token among them.
    let file = json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
        "added_tokens": [plain(5, "<a>"), plain(9, "x"), plain(3, "")],
        "pre_tokenizer": { "type": "Whitespace" }, "decoder": null,
        "model": { "type": "WordLevel", "vocab": { "x": 9, "y": 2, "?": 0 }, "unk_token": "?" }
    });
    let t = load(&file).unwrap();
    assert_eq!(t.encode("y<a>x z").unwrap(), [2, 5, 9, 0]);
    assert_eq!(t.decode(&[2, 5, 9, 3]).unwrap(), "y <a> x ");
    assert_eq!(t.vocab_size(), 10);

    let rows = [
        (json!([plain(300, "<a>"), plain(300, "<b>")]), "two added tokens have id 300: \"<a>\" and \"<b>\""),
        (
            json!([plain(300, "<a>"), plain(301, "<a>")]),
            "the added token \"<a>\" is there twice, as 300 and 301",
        ),
        (json!([plain(0, "<a>")]), "id 0 is \"<a>\" as an added token and \"!\" in the model"),
        (json!([{ "id": 300, "content": "<a>" }]), "missing field `single_word`"),
        (json!(null), "invalid type: null, expected a sequence"),
    ];
    for (added, sentence) in rows {
        let e = load(&bytes(added)).unwrap_err();
        assert_eq!((e.kind(), e.message()), (ErrorKind::Format, &*format!("tokenizer: {sentence}")));
    }
    // The same token twice is one.
    assert!(load(&bytes(json!([plain(300, "<a>"), plain(300, "<a>")]))).is_ok());
    let model = |vocab: Value| {
        let mut file = file.clone();
        file["model"]["vocab"] = vocab;
        load(&file).unwrap_err().message().to_owned()
    };
    assert_eq!(
        model(json!({ "?": 0, "b": 2, "a": 2 })),
        "tokenizer: two tokens of the model have id 2: \"a\" and \"b\""
    );
    assert_eq!(
        model(json!({ "?": u32::MAX })),
        "tokenizer: id 4294967295 of the model is not below 16777216"
    );
}

#[test]
fn flags_are_those_of_the_file() {
    // Bytes are below 256; 'a' is 64 there, 'b' 65, '_' 62, the space 220, the line end 198.
    let (a, b, line, space, end) = (64, 65, 62, 220, 198);
    assert_eq!(load(&bytes(json!([]))).unwrap().encode("ab_ \n").unwrap(), [a, b, line, space, end]);
    let rows: &[(&str, &str, &[u32])] = &[
        // Wherever it is.
        ("", "a<t>b", &[a, 300, b]),
        ("", " <t> ", &[space, 300, space]),
        // Only as a word of its own.
        ("w", "a<t>", &[a, 27, 83, 29]),
        ("w", "<t>_", &[27, 83, 29, line]),
        ("w", "<t>\u{301}", &[27, 83, 29, 136, 223]),
        ("w", " <t>-", &[space, 300, 12]),
        ("w", "<t><t>", &[300, 300]),
        // With the white space before it, after it, or both.
        ("l", "a \n<t> b", &[a, 300, space, b]),
        ("l", " <t>", &[300]),
        ("r", "a <t> \nb", &[a, space, 300, b]),
        ("r", "<t>\u{3000} ", &[300]),
        ("lr", "a <t> b", &[a, 300, b]),
        ("lr", "<t> <t>", &[300, 300]),
        ("wlr", "a <t> b", &[a, 300, b]),
    ];
    for (flags, text, ids) in rows {
        for more in ["", "n", "s"] {
            let t = load(&bytes(json!([token(300, "<t>", &format!("{flags}{more}"))]))).unwrap();
            assert_eq!(t.encode(text).unwrap(), *ids, "{flags}{more} {text:?}");
        }
    }
    let several = |added: Value, text: &str| load(&bytes(added)).unwrap().encode(text).unwrap();
    // The leftmost, and of those the longest.
    assert_eq!(several(json!([plain(300, "ab"), plain(301, "abb"), plain(302, "bb")]), "abbab"), [301, 300]);
    // One that is no word hides what is in it.
    assert_eq!(several(json!([token(300, "ab", "w"), plain(301, "b")]), "abb"), [a, b, 301]);
    // White space belongs to one token.
    assert_eq!(several(json!([token(300, "<t>", "r"), plain(301, "  ")]), "<t>   a"), [300, a]);
    assert_eq!(several(json!([token(300, "<t>", "r"), token(301, "<u>", "l")]), "<t>  <u>"), [300, 301]);
    // Tokens of the text come before those of the normalized text.
    assert_eq!(several(json!([token(300, "abb", "n"), plain(301, "bb")]), "abb"), [a, 301]);

    // Normalized tokens are found in the normalized text, others in the text.
    let lower = |added: Value, text: &str| {
        let mut file = bytes(added);
        file["normalizer"] = json!({ "type": "Lowercase" });
        let t = load(&file).unwrap();
        let ids = t.encode(text).unwrap();
        (t.decode(&ids).unwrap(), ids)
    };
    assert_eq!(lower(json!([token(300, "Ab", "n")]), "aB AB"), ("Ab Ab".into(), vec![300, space, 300]));
    assert_eq!(lower(json!([token(300, "Ab", "")]), "aB Ab"), ("ab Ab".into(), vec![a, b, space, 300]));
    // Two that are normalized to the same: the first.
    assert_eq!(lower(json!([token(301, "ab", "n"), token(300, "AB", "n")]), "Ab"), ("AB".into(), vec![300]));
    assert_eq!(lower(json!([token(300, "Č", "n")]), "č"), ("Č".into(), vec![300]));
    // Special ones are skipped, whatever the normalizer makes of them.
    assert_eq!(lower(json!([token(300, "AB", "ns")]), "xAb"), ("x".into(), vec![87, 300]));
}

#[test]
fn ids_are_the_crates_where_it_is_right() {
    let contents = ["ab", "<t>", "b a", " ", "čb", "A_"];
    let flags = ["", "w", "l", "n", "wn", "ln", "s", "wlr"];
    let alphabet = ["a", "b", " ", "<t>", "č", "_", "A", "\n"];
    let mut state = 1u32;
    let mut next = |n: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as usize % n
    };
    for _ in 0..100 {
        // No id is free, and no content is a token of the model: there the crate takes other ids.
        let mut added = vec![];
        for content in contents {
            if next(2) == 0 {
                added.push(token(256 + added.len() as u32, content, flags[next(flags.len())]));
            }
        }
        let file = bytes(added.into());
        let ours = load(&file).unwrap();
        let theirs: tokenizers::Tokenizer = file.to_string().parse().unwrap();
        for _ in 0..30 {
            let text: String = (0..next(12)).map(|_| alphabet[next(alphabet.len())]).collect();
            let ids = ours.encode(&text).unwrap();
            let theirs = theirs.encode_fast(&*text, true).unwrap();
            assert_eq!(ids, theirs.get_ids(), "{text:?} {}", file["added_tokens"]);
        }
    }
}

#[test]
fn other_decoders_leave_added_tokens_alone_too() {
    let file = |decoder: Value, added: Value| {
        json!({
            "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
            "added_tokens": added, "pre_tokenizer": null, "decoder": decoder,
            "model": { "type": "BPE", "unk_token": "?", "vocab": { "?": 0, "▁a": 1, "##b": 2, "a</w>": 3, "<0x41>": 4, "c": 5 },
                       "merges": [] }
        })
    };
    let llama = json!({ "type": "Sequence", "decoders": [
        { "type": "Replace", "pattern": { "String": "▁" }, "content": " " }, { "type": "ByteFallback" },
        { "type": "Fuse" }, { "type": "Strip", "content": " ", "start": 1, "stop": 0 }] });
    let metaspace =
        json!({ "type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true });
    let word_piece = json!({ "type": "WordPiece", "prefix": "##", "cleanup": true });
    let suffix = json!({ "type": "BPEDecoder", "suffix": "</w>" });
    let ctc = json!({ "type": "CTC", "pad_token": "c", "word_delimiter_token": "|", "cleanup": true });
    // Token 9 is the added one.
    let rows: &[(&Value, &str, &[u32], &str)] = &[
        (&llama, "▁x▁", &[1, 9, 1, 4, 9], "a▁x▁ aA▁x▁"),
        (&llama, "<0x42>", &[4, 9, 4], "A<0x42>A"),
        (&llama, " x", &[9, 1], " x a"),
        (&llama, "x", &[9, 1], "x a"),
        (&metaspace, "▁x", &[9, 1, 9], "▁x a▁x"),
        (&word_piece, "##x", &[5, 9, 2], "c ##xb"),
        (&word_piece, "we do not .", &[5, 9], "c we do not ."),
        // A word as any other to this decoder, which puts no space before a comma.
        (&word_piece, ",", &[5, 9, 5], "c, c"),
        (&suffix, "x</w>", &[3, 9, 3], "a x</w>a"),
        (&ctc, "c|x", &[9, 9, 5, 9, 2], "c|xc|x##b"),
        (&Value::Null, "▁x", &[1, 9], "▁a ▁x"),
    ];
    for (decoder, content, ids, text) in rows {
        let t = load(&file((*decoder).clone(), json!([plain(9, content)]))).unwrap();
        assert_eq!(t.decode(ids).unwrap(), *text, "{decoder} {content}");
        assert_eq!(t.encode(content).unwrap(), [9]);
        assert_eq!(t.decode(&[]).unwrap(), "");
    }
}

#[test]
fn a_bpe_loses_and_moves_nothing() {
    let file = |vocab: Value, unk: Value, fallback: bool| {
        json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
            "pre_tokenizer": null, "post_processor": null, "decoder": null,
            "model": { "type": "BPE", "unk_token": unk, "byte_fallback": fallback, "vocab": vocab, "merges": [] }
        })
    };
    let vocab = json!({ "a": 0, "?": 1, "<0xC3>": 2, "<0xA4>": 3 });
    let encode = |unk: Value, fallback, text: &str| {
        load(&file(vocab.clone(), unk, fallback)).unwrap().encode(text).map_err(|e| e.message().to_owned())
    };
    assert_eq!(encode(json!("?"), true, "aä!").unwrap(), [0, 2, 3, 1]);
    assert_eq!(encode(json!("?"), true, "!aä").unwrap(), [1, 0, 2, 3]);
    assert_eq!(
        encode(json!("?"), true, "!ä").unwrap_err(),
        "tokenizer: the model has tokens for some bytes only, and would change their order"
    );
    assert_eq!(encode(json!("?"), false, "!ä").unwrap(), [1, 1]);
    for text in ["a!", "!a", "a!a", "!"] {
        assert_eq!(encode(Value::Null, true, text).unwrap_err(), "tokenizer: the model has no token for '!'");
    }
    assert_eq!(encode(Value::Null, true, "aä").unwrap(), [0, 2, 3]);
}
