//! Invalid golden directories: an error with a sentence, never a panic.

use elinvar_conformance::filter::Filter;
use elinvar_conformance::golden::{self, Case};
use elinvar_conformance::{Options, conformance};
use elinvar_core::{Error, ErrorKind, Result};
use std::path::Path;

/// One case of `neg`, with a gradient and a view, and its tensors.
const INDEX: &str = r#"{"format":1,"cases":[{"op":"neg","id":"neg/00-strided","dtype":"F32","attrs":{},
"roles":["x"],"inputs":["00.x"],"views":{"0":{"base":"00.x.base","steps":[{"op":"slice","dim":0,"start":1,"stop":null,"step":2}],
"base_grad":"00.grad.x.base","rtol":0.0,"atol":0.0}},"diff":[0],"outputs":["00.out0"],"out_dtypes":["F32"],
"grad_outputs":["00.gout0"],"grads":["00.grad.x"],"ref":"exact","rtol":[0.0,0.0],"atol":[0.0,0.0],
"torch_f32_max_abs_err":[0.0,0.0],"tags":["strided"]}]}"#;

/// A safetensors file, written by hand: name, dtype, shape, bytes.
fn tensors(list: &[(&str, &str, &[usize], Vec<u8>)]) -> Vec<u8> {
    let (mut header, mut data) = (Vec::new(), Vec::new());
    for (name, dtype, shape, bytes) in list {
        let from = data.len();
        data.extend(bytes);
        let to = data.len();
        header.push(format!(
            r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{from},{to}]}}"#
        ));
    }
    let header = format!("{{{}}}", header.join(","));
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}

fn f32s(v: &[f32]) -> Vec<u8> {
    v.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn f64s(v: &[f64]) -> Vec<u8> {
    v.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn good() -> Vec<u8> {
    tensors(&[
        ("00.x", "F32", &[2], f32s(&[2.0, 4.0])),
        ("00.x.base", "F32", &[5], f32s(&[1.0, 2.0, 3.0, 4.0, 5.0])),
        ("00.out0", "F64", &[2], f64s(&[-2.0, -4.0])),
        ("00.gout0", "F32", &[2], f32s(&[1.0, 3.0])),
        ("00.grad.x", "F64", &[2], f64s(&[-1.0, -3.0])),
        ("00.grad.x.base", "F64", &[5], f64s(&[0.0, -1.0, 0.0, -3.0, 0.0])),
    ])
}

fn open(index: &str, tensors: &[u8]) -> Result<Vec<Case>> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("index.json"), index).unwrap();
    std::fs::write(dir.path().join("neg.safetensors"), tensors).unwrap();
    golden::open(dir.path(), &Filter::default())
}

fn is_sentence(e: &Error, kind: ErrorKind, part: &str) {
    assert_eq!(e.kind(), kind, "{e:?}");
    assert!(e.message().contains(part), "{e:?} should contain {part:?}");
    assert!(e.message().starts_with("golden") && !e.message().contains('\n'), "{e:?}");
}

#[test]
fn a_good_directory_is_read_and_passes() {
    let cases = open(INDEX, &good()).unwrap();
    assert_eq!(cases.len(), 1);
    assert_eq!(cases[0].inputs[0].view.as_ref().unwrap().layout.positions().collect::<Vec<_>>(), [1, 3]);
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("index.json"), INDEX).unwrap();
    std::fs::write(dir.path().join("neg.safetensors"), good()).unwrap();
    let run = |only: &[&str]| {
        let only = only.iter().map(|s| s.to_string()).collect();
        let options = Options { golden: Some(dir.path().to_owned()), only, ..Options::default() };
        let mut out = Vec::new();
        let summary = conformance(&options, &mut out).unwrap();
        assert!(summary.is_good());
        String::from_utf8(out).unwrap()
    };
    assert_eq!(run(&["neg"]), "neg   1 passed\n1 passed, 0 failed, 0 skipped\n");
    // The project's own cases of an op that the directory does not have; by its exact name, as
    // parts of ids do not select them.
    let beside = run(&["neg", "fold"]);
    let lines: Vec<&str> = beside.lines().map(|l| l.split(' ').next().unwrap()).collect();
    assert_eq!(lines[..2], ["neg", "fold"], "{beside}");
    assert_eq!(lines.len(), 3, "{beside}");
}

#[test]
fn missing_files_are_io_errors() {
    let nowhere = golden::open(Path::new("/no/such/directory"), &Filter::default()).unwrap_err();
    is_sentence(&nowhere, ErrorKind::Io, "index.json cannot be read");
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("index.json"), INDEX).unwrap();
    let half = golden::open(dir.path(), &Filter::default()).unwrap_err();
    is_sentence(&half, ErrorKind::Io, "neg.safetensors cannot be read");
}

#[test]
fn an_index_that_is_not_in_order_is_a_format_error() {
    for (from, to, part) in [
        ("{\"format\":1", "", "not an index"),
        ("\"format\":1", "\"format\":2", "format 2"),
        ("\"format\":1", "\"format\":\"one\"", "not an index"),
        ("\"cases\":[{", "\"cases\":[7,{", "not an index"),
        ("\"op\":\"neg\",", "", "missing field `op`"),
        ("\"op\":\"neg\"", "\"op\":\"../neg\"", "is no name of an op"),
        ("\"op\":\"neg\"", "\"op\":\"\"", "is no name of an op"),
        ("\"id\":\"neg/00-strided\"", "\"id\":\"abs/00\"", "the id is not"),
        ("\"dtype\":\"F32\"", "\"dtype\":\"F33\"", "F33 is no dtype"),
        ("\"attrs\":{}", "\"attrs\":{\"a\":{\"b\":1}}", "attribute a"),
        ("\"attrs\":{}", "\"attrs\":{\"a\":18446744073709551615}", "does not fit into i64"),
        ("\"attrs\":{}", "\"attrs\":[1]", "not an index"),
        ("\"roles\":[\"x\"]", "\"roles\":[]", "0 entries in roles instead of 1"),
        ("\"inputs\":[\"00.x\"]", "\"inputs\":[\"00.y\"]", "holds no tensor 00.y"),
        ("\"views\":{\"0\"", "\"views\":{\"1\"", "a view of input 1"),
        ("\"views\":{\"0\"", "\"views\":{\"x\"", "a view of input x"),
        ("\"start\":1", "\"start\":0", "do not lead to the input"),
        ("\"dim\":0", "\"dim\":3", "axis 3"),
        ("\"step\":2", "\"step\":0", "step 0"),
        ("\"op\":\"slice\"", "\"op\":\"roll\"", "unknown variant"),
        ("\"base\":\"00.x.base\"", "\"base\":\"00.base\"", "holds no tensor 00.base"),
        ("00.grad.x.base\",\"rtol", "00.grad.x\",\"rtol", "a gradient of shape"),
        ("\"diff\":[0]", "\"diff\":[1]", "a gradient of input 1"),
        ("\"diff\":[0]", "\"diff\":[-1]", "not an index"),
        ("\"diff\":[0]", "\"diff\":[]", "entries in grad_outputs instead of 0"),
        ("\"outputs\":[\"00.out0\"]", "\"outputs\":[\"00.x\"]", "stored as f32 instead of f64"),
        ("\"out_dtypes\":[\"F32\"]", "\"out_dtypes\":[\"I64\"]", "stored as f64 instead of i64"),
        ("\"out_dtypes\":[\"F32\"]", "\"out_dtypes\":[]", "entries in out_dtypes"),
        ("\"grad_outputs\":[\"00.gout0\"]", "\"grad_outputs\":[\"00.x.base\"]", "a grad_output of shape [5]"),
        (
            "\"grad_outputs\":[\"00.gout0\"]",
            "\"grad_outputs\":[\"00.grad.x\"]",
            "a grad_output of shape [2] and dtype f64",
        ),
        ("\"grads\":[\"00.grad.x\"]", "\"grads\":[\"00.grad.x.base\"]", "a gradient of shape"),
        ("\"rtol\":[0.0,0.0]", "\"rtol\":[0.0]", "1 entries in rtol instead of 2"),
        ("\"atol\":[0.0,0.0]", "\"atol\":[0.0,null]", "not an index"),
    ] {
        let index = INDEX.replacen(from, to, 1);
        assert_ne!(index, INDEX, "{from}");
        let e = open(&index, &good()).expect_err(to);
        is_sentence(&e, ErrorKind::Format, part);
    }
}

#[test]
fn tensors_that_are_not_in_order_are_format_errors() {
    let with =
        |name: &str, dtype: &str, shape: &[usize], bytes: Vec<u8>| tensors(&[(name, dtype, shape, bytes)]);
    for bytes in [
        vec![],
        vec![0; 7],
        b"not a safetensors file at all".to_vec(),
        u64::MAX.to_le_bytes().to_vec(),
        good()[..good().len() - 1].to_vec(),
        [&good()[..], &[0]].concat(),
        with("00.x", "F32", &[3], f32s(&[2.0, 4.0])),
        with("00.x", "F32", &[usize::MAX, usize::MAX], vec![]),
        with("00.x", "F8_E8M0", &[2], vec![0, 0]),
        with("00.x", "I16", &[2], vec![0; 4]),
        with("00.x", "F32", &[2, 0, 1 << 62, 1 << 62], vec![]),
    ] {
        let e = open(INDEX, &bytes).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::Format | ErrorKind::OutOfMemory), "{e:?}");
        assert!(e.message().starts_with("golden"), "{e:?}");
    }
}

/// Every truncation and many flipped bytes: read in full or refused, but never a panic, nor
/// unbounded memory.
#[test]
fn damaged_files_never_panic() {
    let (index, tensors) = (INDEX.as_bytes(), good());
    let read = |index: &[u8], tensors: &[u8]| {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("index.json"), index).unwrap();
        std::fs::write(dir.path().join("neg.safetensors"), tensors).unwrap();
        golden::open(dir.path(), &Filter::default()).is_ok()
    };
    for cut in 0..index.len() {
        assert!(!read(&index[..cut], &tensors), "an index cut at {cut}");
    }
    for cut in 0..tensors.len() {
        assert!(!read(index, &tensors[..cut]), "tensors cut at {cut}");
    }
    let mut refused = 0;
    for at in 0..index.len() {
        for flip in [1, 2, 16] {
            let mut damaged = index.to_vec();
            damaged[at] ^= flip;
            refused += usize::from(!read(&damaged, &tensors));
        }
    }
    for at in 0..tensors.len() {
        for flip in [1, 2, 16] {
            let mut damaged = tensors.clone();
            damaged[at] ^= flip;
            refused += usize::from(!read(index, &damaged));
        }
    }
    assert!(refused > 1000, "{refused}");
}

#[test]
fn a_filter_that_matches_nothing_is_an_error() {
    let options = Options { only: vec!["no_such_op".to_owned()], ..Options::default() };
    let e = conformance(&options, &mut Vec::new()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument);
    assert!(e.message().contains("no_such_op"));
}
