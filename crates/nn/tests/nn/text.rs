//! Text in memory, its tokens in blocks, and the tokenizers that need no file.

use elinvar_core::ErrorKind;
use elinvar_nn::data::{Bytes, Chars, Dataset, Encoded, Loader, Padding, Text, Tokenize, Tokens};
use std::sync::Arc;

#[test]
fn a_text_file_is_read_or_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.txt");
    let open = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        Text::open(&path)
    };
    assert_eq!(open("grün".as_bytes()).unwrap().as_str(), "grün");
    let name = path.display();
    let e = open(b"abc\xffdef").unwrap_err();
    assert_eq!((e.kind(), e.message()), (ErrorKind::Format, &*format!("{name}: text: not UTF-8 at byte 3")));
    // An incomplete character.
    assert!(open(b"ab\xc3").unwrap_err().message().ends_with("not UTF-8 at byte 2"));
    let e = open(b"").unwrap_err();
    assert_eq!(e.message(), format!("{name}: text: it is empty; there is nothing to learn from"));
    assert_eq!(Text::open(dir.path()).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(Text::open("/dev/zero").unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn blocks_have_their_targets() {
    let tokens = Tokens::new((0..11).collect::<Vec<u32>>());
    let blocks = |t, stride| -> Vec<(Vec<i64>, Vec<i64>)> {
        let b = tokens.blocks_by(t, stride).unwrap();
        let both =
            |i| b.get(i).map(|(x, y)| (x.as_slice().unwrap().to_vec(), y.as_slice().unwrap().to_vec()));
        (0..b.len()).map(|i| both(i).unwrap()).collect()
    };
    assert_eq!(
        blocks(3, 3),
        [(vec![0, 1, 2], vec![1, 2, 3]), (vec![3, 4, 5], vec![4, 5, 6]), (vec![6, 7, 8], vec![7, 8, 9]),]
    );
    // The last token is a target only.
    assert_eq!(blocks(10, 10), [((0..10).collect(), (1..11).collect())]);
    assert_eq!(blocks(5, 5).len(), 2);
    assert_eq!(blocks(3, 1).len(), 8);
    assert_eq!(blocks(3, 1)[7], (vec![7, 8, 9], vec![8, 9, 10]));
    for (t, stride) in [(0, 1), (3, 0), (11, 1), (usize::MAX, 1)] {
        assert_eq!(tokens.blocks_by(t, stride).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let loader = Loader::new(Arc::new(tokens.blocks(3).unwrap()), 2).unwrap();
    let batch = loader.host_epoch(0, 0).next().unwrap().unwrap();
    assert_eq!(batch.data.0.shape().dims(), [2, 3]);
    assert_eq!(batch.data.1.as_slice::<i64>().unwrap(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(tokens.blocks(3).unwrap().get(3).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn tokens_are_split_by_position() {
    let tokens = Tokens::new((0..10).collect::<Vec<u32>>());
    let (learn, test) = tokens.split(0.75).unwrap();
    assert_eq!((learn.as_slice(), test.as_slice()), (&[0, 1, 2, 3, 4, 5, 6][..], &[7, 8, 9][..]));
    let (a, b) = test.split(0.5).unwrap();
    assert_eq!((a.as_slice(), b.as_slice()), (&[7][..], &[8, 9][..]));
    assert_eq!(b.blocks(1).unwrap().get(0).unwrap().1.as_slice::<i64>().unwrap(), [9]);
    for fraction in [0.0, 0.05, 1.0, 2.0, -1.0, f64::NAN] {
        assert_eq!(tokens.split(fraction).unwrap_err().kind(), ErrorKind::InvalidArgument, "{fraction}");
    }
}

#[test]
fn bytes_and_characters_are_tokens() {
    for text in ["", "plain", "grün 🦀\n", "\u{0}\u{7f}"] {
        assert_eq!(Bytes.decode(&Bytes.encode(text).unwrap()).unwrap(), text);
        let chars = Chars::new(text);
        assert_eq!(chars.decode(&chars.encode(text).unwrap()).unwrap(), text);
    }
    assert_eq!(Bytes.decode(&[104, 195]).unwrap(), "h\u{fffd}");
    assert_eq!(
        Bytes.decode(&[256]).unwrap_err().message(),
        "tokens: there is no token 256, only 256 of them"
    );
    assert_eq!(
        (Bytes.vocab_size(), Bytes.token(195), Bytes.id("<0xC3>")),
        (256, Some("<0xC3>".into()), Some(195))
    );
    assert_eq!((Bytes.id("a"), Bytes.id("ab"), Bytes.token(256)), (Some(97), None, None));

    let chars = Chars::new("banane");
    assert_eq!((chars.alphabet(), chars.vocab_size()), ("aben".into(), 4));
    assert_eq!(chars.encode("nab").unwrap(), [3, 0, 1]);
    assert_eq!(Chars::new(chars.alphabet()), chars);
    assert_eq!(
        (chars.token(2), chars.id("e"), chars.id("x"), chars.id("ab")),
        (Some("e".into()), Some(2), None, None)
    );
    assert_eq!(
        chars.encode("naß").unwrap_err().message(),
        "chars: 'ß' at byte 2 is none of the 4 characters"
    );
    assert_eq!(chars.decode(&[4]).unwrap_err().message(), "tokens: there is no token 4, only 4 of them");
    assert_eq!(
        chars.decode_ids(&[-1]).unwrap_err().message(),
        "tokens: there is no token -1, only 4 of them"
    );
    assert_eq!(chars.decode_ids(&[1, 0]).unwrap(), "ba");
}

#[test]
fn texts_become_one_tensor() {
    let batch = Bytes.encode_batch(&["ab", "", "c"], &Padding::new(0)).unwrap();
    assert_eq!(batch.ids.shape().dims(), [3, 2]);
    assert_eq!(batch.ids.as_slice::<i64>().unwrap(), [97, 98, 0, 0, 99, 0]);
    assert_eq!(batch.mask.as_slice::<bool>().unwrap(), [true, true, false, false, true, false]);
    let left = Bytes.encode_batch(&["ab", "c"], &Padding::new(7).left(true).multiple_of(4)).unwrap();
    assert_eq!(left.ids.as_slice::<i64>().unwrap(), [7, 7, 97, 98, 7, 7, 7, 99]);
    assert_eq!(left.mask.as_slice::<bool>().unwrap()[..4], [false, false, true, true]);
    let fixed = Bytes.encode_batch(&["abc"], &Padding::new(0).length(2)).unwrap_err();
    assert_eq!(
        fixed.message(),
        "tokens: text 0 has 3 tokens, and padding is to 2; truncation to 2 would fit"
    );
    assert_eq!(Encoded::new(&[], &Padding::new(0)).unwrap().ids.shape().dims(), [0, 0]);
    let e = Encoded::new(&[vec![1]], &Padding::new(0).length(usize::MAX / 32)).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::OutOfMemory);
    assert!(
        Chars::new("a")
            .encode_batch(&["a", "b"], &Padding::new(0))
            .unwrap_err()
            .message()
            .starts_with("text 1: ")
    );
}
