//! Tokenizers of a `tokenizer.json`. Expected numbers come from the Python package `tokenizers`
//! 0.23.

use elinvar_core::ErrorKind;
use elinvar_nn::data::{BpeOptions, Padding, Text, Tokenize, Tokenizer};
use serde_json::{Value, json};

fn load(value: &Value) -> elinvar_core::Result<Tokenizer> {
    Tokenizer::from_json(value.to_string().as_bytes())
}

fn special(tokens: &[&str]) -> Vec<Value> {
    let token = |(id, content): (usize, &&str)| {
        json!({ "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true })
    };
    tokens.iter().enumerate().map(token).collect()
}

/// As in BERT, with a small vocabulary.
fn word_piece() -> Value {
    let tokens = [
        "[PAD]", "[UNK]", "[CLS]", "[SEP]", "hello", "cr", "##eme", "##e", "##m", "the", "world", "##s", ",",
        "!", "中", "un", "##aff", "##able", "naive",
    ];
    let vocab: serde_json::Map<_, _> =
        tokens.iter().enumerate().map(|(i, t)| (t.to_string(), json!(i))).collect();
    json!({
        "version": "1.0",
        "truncation": { "direction": "Right", "max_length": 6, "strategy": "LongestFirst", "stride": 0 },
        "padding": { "strategy": { "Fixed": 6 }, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0,
                     "pad_type_id": 0, "pad_token": "[PAD]" },
        "added_tokens": special(&tokens[..4]),
        "normalizer": { "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                        "strip_accents": null, "lowercase": true },
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{ "SpecialToken": { "id": "[CLS]", "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } },
                       { "SpecialToken": { "id": "[SEP]", "type_id": 0 } }],
            "pair": [{ "Sequence": { "id": "A", "type_id": 0 } }, { "Sequence": { "id": "B", "type_id": 1 } }],
            "special_tokens": { "[CLS]": { "id": "[CLS]", "ids": [2], "tokens": ["[CLS]"] },
                                "[SEP]": { "id": "[SEP]", "ids": [3], "tokens": ["[SEP]"] } }
        },
        "decoder": { "type": "WordPiece", "prefix": "##", "cleanup": true },
        "model": { "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                   "max_input_chars_per_word": 100, "vocab": vocab }
    })
}

/// The fields of a byte-level BPE that matter here.
fn bpe(prefix: Value, dropout: Value, merges: Value) -> Value {
    json!({ "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
            "pre_tokenizer": null, "post_processor": null, "decoder": null,
            "model": { "type": "BPE", "dropout": dropout, "unk_token": null, "continuing_subword_prefix": prefix,
                       "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
                       "vocab": { "a": 0, "b": 1, "é": 2, "ab": 3, "#b": 4 }, "merges": merges } })
}

#[test]
fn word_piece_of_bert() {
    let t = load(&word_piece()).unwrap();
    let crab: &[u32] = &[2, 15, 16, 17, 1, 3];
    for (text, ids, back) in [
        ("Hello, worlds!", WORLDS, "hello, worlds"),
        ("Crème 中hello", &[2, 5, 6, 14, 4, 3][..], "creme 中 hello"),
        // Not in the vocabulary.
        ("unaffable 🦀", crab, "unaffable"),
        ("", &[2, 3], ""),
        // Truncated.
        (&"hello ".repeat(20), &[2, 4, 4, 4, 4, 3], "hello hello hello hello"),
        ("NAÏVE", &[2, 18, 3], "naive"),
    ] {
        assert_eq!(t.encode(text).unwrap(), ids, "{text}");
        assert_eq!(t.decode(ids).unwrap(), back);
    }
    let batch = t.encode_batch(&["NAÏVE", ""], &t.padding()).unwrap();
    assert_eq!(batch.ids.as_slice::<i64>().unwrap(), [2, 18, 3, 0, 0, 0, 2, 3, 0, 0, 0, 0]);
    let mask: Vec<u8> = batch.mask.as_slice::<bool>().unwrap().iter().map(|m| u8::from(*m)).collect();
    assert_eq!(mask, [1, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0]);
    assert_eq!(
        (t.vocab_size(), t.token(14), t.id("##able"), t.id("x")),
        (19, Some("中".into()), Some(17), None)
    );
    assert_eq!(t.decode(&[19]).unwrap_err().message(), "tokens: there is no token 19, only 19 of them");
    assert_eq!((t.truncation(), t.padding()), (Some(6), Padding::new(0).length(6)));
    let long = t.clone().truncate(None).unwrap();
    assert_eq!(long.encode(&"hello ".repeat(20)).unwrap().len(), 22);
    assert_eq!(long.special(false).encode("hello").unwrap(), [4]);
    assert_eq!(t.clone().truncate(Some(2)).unwrap().encode("hello").unwrap(), [2, 3]);
    assert_eq!(
        t.clone().truncate(Some(1)).unwrap_err().message(),
        "tokenizer: truncation to 1 tokens with a stride of 0 leaves no room for 2 special ones"
    );
}
const WORLDS: &[u32] = &[2, 4, 12, 10, 11, 3];

#[test]
fn saved_tokenizers_equal_the_read_ones() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokenizer.json");
    let t = load(&word_piece()).unwrap();
    t.save(&path).unwrap();
    let again = Tokenizer::open(&path).unwrap();
    assert_eq!(again.to_json().unwrap(), t.to_json().unwrap());
    assert_eq!((again.truncation(), again.padding()), (t.truncation(), t.padding()));
    assert_eq!(again.encode("Hello, worlds!").unwrap(), WORLDS);
    let none = dir.path().join("no/tokenizer.json");
    assert!(t.save(&none).unwrap_err().message().contains("tokenizer.json"));
    assert_eq!(Tokenizer::open(&none).unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn hostile_files_are_errors() {
    let change = |path: &str, value: Value| {
        let mut v = word_piece();
        *v.pointer_mut(path).unwrap() = value;
        v.to_string()
    };
    let rows = [
        (String::new(), "tokenizer: this is no JSON: "),
        ("[".repeat(100_000), "tokenizer: this is no JSON: "),
        ("[1]".into(), "tokenizer: it has no `model`"),
        ("{\"model\":{\"type\":\"Magic\"}}".into(), "tokenizer: "),
        (change("/truncation/max_length", json!(1)), "tokenizer: truncation to 1 tokens with a stride of 0"),
        (change("/truncation/stride", json!(9)), "tokenizer: truncation to 6 tokens with a stride of 9"),
        (change("/model/vocab", json!({ "[UNK]": -1 })), "tokenizer: "),
        (
            change(
                "/pre_tokenizer",
                json!({ "type": "Split", "pattern": { "Regex": "(" }, "behavior": "Isolated",
                                           "invert": false }),
            ),
            "tokenizer: ",
        ),
        (bpe(Value::Null, Value::Null, json!([["a", "c"]])).to_string(), "tokenizer: "),
        // A prefix that would end inside of a character of the merge.
        (
            bpe(json!("#"), Value::Null, json!([["a", "é"]])).to_string(),
            "tokenizer: a merge's second part Some(\"é\") does not",
        ),
        (
            bpe(json!("##"), Value::Null, json!(["a b"])).to_string(),
            "tokenizer: a merge's second part Some(\"b\") does not",
        ),
    ];
    for (text, sentence) in rows {
        let e = Tokenizer::from_json(text.as_bytes()).unwrap_err();
        assert!(e.kind() == ErrorKind::Format && e.message().starts_with(sentence), "{e:?}\n{sentence}");
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("t"), b"\xff").unwrap();
    assert!(Tokenizer::open(dir.path().join("t")).unwrap_err().message().contains("/t: tokenizer: "));
    assert_eq!(Tokenizer::open(dir.path()).unwrap_err().kind(), ErrorKind::Io);
    // Dropout would make tokens random.
    let dropout = load(&bpe(Value::Null, json!(1.0), json!([["a", "b"]]))).unwrap();
    assert_eq!(dropout.encode("abab").unwrap(), [3, 3]);
    assert_eq!(dropout.padding(), Padding::new(0));
}

#[test]
fn llama_falls_back_to_bytes() {
    let mut vocab = serde_json::Map::new();
    let bytes = (0..256).map(|b| format!("<{b:#04X}>"));
    let rest = ["▁", "h", "i", "▁h", "▁hi"].map(String::from);
    let tokens = ["<unk>", "<s>", "</s>"].map(String::from).into_iter().chain(bytes).chain(rest);
    tokens.enumerate().for_each(|(i, t)| {
        vocab.insert(t, json!(i));
    });
    let t = load(&json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": special(&["<unk>", "<s>", "</s>"]),
        "normalizer": { "type": "Sequence", "normalizers": [
            { "type": "Prepend", "prepend": "▁" },
            { "type": "Replace", "pattern": { "String": " " }, "content": "▁" }] },
        "pre_tokenizer": null,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{ "SpecialToken": { "id": "<s>", "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } }],
            "pair": [{ "Sequence": { "id": "A", "type_id": 0 } }, { "Sequence": { "id": "B", "type_id": 1 } }],
            "special_tokens": { "<s>": { "id": "<s>", "ids": [1], "tokens": ["<s>"] } }
        },
        "decoder": { "type": "Sequence", "decoders": [
            { "type": "Replace", "pattern": { "String": "▁" }, "content": " " }, { "type": "ByteFallback" },
            { "type": "Fuse" }, { "type": "Strip", "content": " ", "start": 1, "stop": 0 }] },
        "model": { "type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
                   "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "vocab": vocab,
                   "merges": ["▁ h", "▁h i"] }
    }))
    .unwrap();
    let ids = t.encode("hi 🦀hi").unwrap();
    assert_eq!(ids, LLAMA);
    assert_eq!(t.decode(&ids).unwrap(), "hi 🦀hi");
}
const LLAMA: &[u32] = &[1, 263, 259, 243, 162, 169, 131, 260, 261];

const TEXT: &str = "the cat sat on the mat. the cat ate the rat.
that fat cat sat on that mat, and then the cat slept on the mat.
low lower lowest, new newer newest; wide wider widest  naïve café
";

#[test]
fn a_byte_level_bpe_is_learned_as_the_package_does() {
    // t = Tokenizer(models.BPE()); t.pre_tokenizer = ByteLevel(add_prefix_space=False)
    // t.train_from_iterator([TEXT], BpeTrainer(vocab_size=300, min_frequency=2,
    // special_tokens=["<end>"], initial_alphabet=ByteLevel.alphabet()))
    let options = BpeOptions::new(300).special(["<end>"]);
    let t = Tokenizer::train_bpe(&[TEXT], &options).unwrap();
    let learned: Vec<String> = (257..t.vocab_size()).map(|i| t.token(i as u32).unwrap()).collect();
    let want = [
        "at", "th", "Ġth", "Ġthe", "Ġc", "we", "Ġn", "Ġcat", "de", "ide", "lo", "mat", "on", "st", "wide",
        "Ġs", "Ġmat", "Ġon", "Ġwide", "Ġne", "Ġlo", "wer", "west", "Ġsat",
    ];
    assert_eq!(learned, want);
    let ids = t.encode("the newest cat<end> sat naïve").unwrap();
    assert_eq!(ids, [258, 69, 276, 279, 264, 0, 280, 263, 65, 128, 108, 86, 69]);
    assert_eq!(t.decode(&ids).unwrap(), "the newest cat sat naïve");
    for text in ["", "🦀 never seen 日本\r\n\t\0", TEXT] {
        assert_eq!(t.decode(&t.encode(text).unwrap()).unwrap(), text);
    }
    // The same texts give the same file, also with other seeds of hash maps.
    let json = t.to_json().unwrap();
    for _ in 0..5 {
        let again = std::thread::spawn(|| {
            Tokenizer::train_bpe(&[TEXT], &BpeOptions::new(300).special(["<end>"]))
                .unwrap()
                .to_json()
                .unwrap()
        });
        assert_eq!(again.join().unwrap(), json);
    }
    assert_eq!(elinvar_hash(&json), HASH, "the same on every machine");

    let tokens = Text::new(TEXT).unwrap().tokens(&t).unwrap();
    assert_eq!(tokens.len(), t.encode(TEXT).unwrap().len());
    let small = Tokenizer::train_bpe(&[TEXT], &BpeOptions::new(260)).unwrap();
    assert_eq!(small.vocab_size(), 260);
    // Pairs that occur once are learned if requested.
    let once = Tokenizer::train_bpe(&["xyxz"], &BpeOptions::new(300).min_count(1)).unwrap();
    assert_eq!(once.encode("xyxz").unwrap().len(), 1);
    // Without texts, tokens are bytes.
    assert_eq!(Tokenizer::train_bpe(&[], &BpeOptions::new(300)).unwrap().encode("ab").unwrap().len(), 2);
    // A run of one letter, where pairs overlap.
    let run = Tokenizer::train_bpe(&["aaaaaaa aaaaaaa"], &BpeOptions::new(400)).unwrap();
    assert_eq!(run.decode(&run.encode("aaaaaaaaaaa").unwrap()).unwrap(), "aaaaaaaaaaa");
    // A special token is not spelled by merges.
    let apart = Tokenizer::train_bpe(&["abab abab"], &BpeOptions::new(300).special(["ab"])).unwrap();
    let json: Value = serde_json::from_str(&apart.to_json().unwrap()).unwrap();
    let merges = json["model"]["merges"].as_array().unwrap();
    assert!(merges.contains(&json!(["b", "a"])) && !merges.contains(&json!(["a", "b"])), "{merges:?}");
    assert_eq!(apart.id("ab"), Some(0));
}

/// FNV-1a of a text, to pin it.
fn elinvar_hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}
const HASH: u64 = 9_656_611_888_450_281_192;

#[test]
fn a_vocabulary_that_cannot_be_learned_is_refused() {
    for (options, sentence) in [
        (BpeOptions::new(255), "bpe: a vocabulary of 255 does not hold 256 bytes and 0 special tokens"),
        (
            BpeOptions::new(256).special(["x1"]),
            "bpe: a vocabulary of 256 does not hold 256 bytes and 1 special tokens",
        ),
        (
            BpeOptions::new(300).special([""]),
            "bpe: '' as special token 0; it should not be empty, a single byte, or there twice",
        ),
        (
            BpeOptions::new(300).special(["<a>", "<a>"]),
            "bpe: '<a>' as special token 1; it should not be empty",
        ),
        (
            BpeOptions::new(300).special(["a"]),
            "bpe: 'a' as special token 0; it should not be empty, a single byte",
        ),
    ] {
        let e = Tokenizer::train_bpe(&["text"], &options).unwrap_err();
        assert!(e.kind() == ErrorKind::InvalidArgument && e.message().starts_with(sentence), "{e:?}");
    }
}
