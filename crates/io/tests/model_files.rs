//! Safetensors tensor by tensor, models in several files, and files of any kind.

use elinvar_core::ErrorKind::{self, Format, InvalidArgument, Io, Unsupported};
use elinvar_core::{HostData, HostTensor, Result, Shape};
use elinvar_io::{
    ModelFiles, SafetensorsFile, StoredType, TensorFile, load_safetensors, save_npy, save_npz,
    save_safetensors, save_sharded, weights_hash,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

type Tensors = BTreeMap<String, HostTensor>;

fn tensor(shape: &[usize], data: HostData) -> HostTensor {
    HostTensor::new(Shape::new(shape).unwrap(), data).unwrap()
}

fn tensors() -> Tensors {
    let rows: [(&str, &[usize], HostData); 4] = [
        ("a", &[2, 2], HostData::F32([1.0, -0.0, f32::INFINITY, 4.0].into())),
        ("b", &[3], HostData::I64([1, 2, i64::MIN].into())),
        ("c", &[], HostData::Bool([true].into())),
        ("d", &[0, 5], HostData::F64([].into())),
    ];
    rows.into_iter().map(|(n, s, d)| (n.to_string(), tensor(s, d))).collect()
}

fn metadata() -> BTreeMap<String, String> {
    BTreeMap::from([("format".to_string(), "pt".to_string())])
}

fn read(file: &ModelFiles) -> Tensors {
    file.tensors().map(|t| (t.name.clone(), file.tensor(&t.name).unwrap())).collect()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn told<T>(result: Result<T>, kind: ErrorKind, sentence: &str) {
    let e = result.err().unwrap_or_else(|| panic!("no error; expected: {sentence}"));
    assert_eq!(e.kind(), kind, "{e}");
    assert!(e.message().contains(sentence) && !e.message().contains('\n'), "{e}\nexpected: {sentence}");
}

#[test]
fn a_file_tensor_by_tensor() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("w.safetensors");
    save_safetensors(&path, &tensors(), &metadata()).unwrap();
    let bytes = fs::read(&path).unwrap();
    for file in [SafetensorsFile::open(&path).unwrap(), SafetensorsFile::from_bytes(bytes).unwrap()] {
        let listed: Vec<_> =
            file.tensors().map(|t| (t.name.as_str(), t.dtype.to_string(), t.bytes)).collect();
        let want = [("a", "f32", 16), ("b", "i64", 24), ("c", "bool", 1), ("d", "f64", 0)];
        assert_eq!(listed, want.map(|(n, d, b)| (n, d.to_string(), b)));
        assert_eq!(file.metadata(), &metadata());
        assert_eq!(file.info("d").unwrap().shape.dims(), [0, 5]);
        for (name, want) in tensors() {
            assert_eq!(file.tensor(&name).unwrap(), want);
        }
        told(file.tensor("e"), InvalidArgument, "there is no tensor `e`; there are 4, the first is `a`");
    }
    told(SafetensorsFile::from_bytes(vec![0; 7]).map(drop), Format, "7 bytes are no safetensors file");
}

/// A tensor of an unknown type does not prevent reading the others.
#[test]
fn foreign_types_are_listed() {
    let header = concat!(
        r#"{"x":{"dtype":"F8_E8M0","shape":[4],"data_offsets":[0,4]},"#,
        r#""y":{"dtype":"U8","shape":[2],"data_offsets":[4,6]},"#,
        r#""z":{"dtype":"FUTURE","shape":[],"data_offsets":[6,9]}}"#
    );
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let file = SafetensorsFile::from_bytes(bytes.clone()).unwrap();
    assert_eq!(file.info("z").unwrap().dtype, StoredType::Other("FUTURE".into()));
    assert_eq!(file.info("z").unwrap().bytes, 3);
    assert_eq!(file.tensor("y").unwrap(), tensor(&[2], HostData::U8([5, 6].into())));
    told(
        file.tensor("x"),
        Unsupported,
        "tensor `x` has elements of type \"F8_E8M0\"; the types that can be read",
    );
    // Its offsets must fit the file all the same.
    bytes.pop();
    told(
        SafetensorsFile::from_bytes(bytes),
        Format,
        "tensor `z`: bytes 6 to 9 are asked for, but the file holds 8",
    );
    let backwards = r#"{"z":{"dtype":"FUTURE","shape":[],"data_offsets":[6,3]}}"#;
    let bytes = [&(backwards.len() as u64).to_le_bytes(), backwards.as_bytes()].concat();
    told(SafetensorsFile::from_bytes(bytes), Format, "tensor `z`: bytes 6 to 3 end before they begin");
}

/// Opening and listing read no elements, and a tensor is read without the others: this file is
/// larger than any memory. (It is sparse.)
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_is_larger_than_the_memory() {
    let tib = 1_u64 << 40;
    let header = format!(
        r#"{{"large":{{"dtype":"U8","shape":[{tib}],"data_offsets":[0,{tib}]}},"small":{{"dtype":"I64","shape":[1],"data_offsets":[{tib},{}]}}}}"#,
        tib + 8
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.safetensors");
    fs::write(&path, [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat()).unwrap();
    let file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.set_len(8 + header.len() as u64 + tib).unwrap();
    std::io::Write::write_all(&mut &file, &7_i64.to_le_bytes()).unwrap();
    let model = ModelFiles::open(dir.path()).unwrap();
    assert_eq!(model.tensors().map(|t| t.bytes).sum::<u64>(), tib + 8);
    assert_eq!(model.tensor("small").unwrap(), tensor(&[1], HostData::I64([7].into())));
}

#[test]
fn a_model_is_distributed() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("made/here");
    // The largest takes 24 bytes: with 1 each has its own file, with 16 only those of 1 and 0 bytes
    // share one, with 41 all fit.
    for (max, files) in [(1, 3), (16, 3), (39, 2), (40, 2), (41, 1)] {
        save_sharded(&out, &tensors(), &metadata(), max).unwrap();
        for path in [out.clone(), out.join("model.safetensors.index.json")] {
            let model = ModelFiles::open(&path).unwrap();
            assert_eq!(read(&model), tensors(), "{max}");
            assert_eq!(weights_hash(&read(&model)), weights_hash(&tensors()));
            let told: Vec<_> = model.metadata().iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            assert_eq!(told, [("format", "pt"), ("total_size", "41")]);
        }
        let last = format!("model-{files:05}-of-{files:05}.safetensors");
        assert!(names(&out).contains(&last), "{max}: {:?}", names(&out));
        assert_eq!(load_safetensors(out.join(&last)).unwrap().metadata, metadata());
        fs::remove_dir_all(&out).unwrap();
    }
    save_sharded(&out, &Tensors::new(), &BTreeMap::new(), 1).unwrap();
    assert!(read(&ModelFiles::open(&out).unwrap()).is_empty());
    told(save_sharded(&out, &tensors(), &metadata(), 0), InvalidArgument, "a file for 0 bytes");
    let reserved = BTreeMap::from([("total_size".to_string(), "1".to_string())]);
    told(save_sharded(&out, &tensors(), &reserved, 9), InvalidArgument, "cannot have the key `total_size`");
}

/// A directory in which the writing was interrupted has no index over files of two models.
#[test]
fn an_interrupted_save_leaves_no_index() {
    let dir = tempfile::tempdir().unwrap();
    save_sharded(dir.path(), &tensors(), &metadata(), 1).unwrap();
    // A directory in the place of the second file, which cannot be replaced.
    let second = dir.path().join("model-00002-of-00003.safetensors");
    fs::remove_file(&second).unwrap();
    fs::create_dir(&second).unwrap();
    told(save_sharded(dir.path(), &tensors(), &metadata(), 1), Io, "exists and is not a regular file");
    told(ModelFiles::open(dir.path()), Io, "has neither model.safetensors.index.json nor model.safetensors");
}

#[test]
fn an_invalid_index_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let index = dir.path().join("model.safetensors.index.json");
    save_safetensors(dir.path().join("m.safetensors"), &tensors(), &metadata()).unwrap();
    let map = |name: &str, file: &str| format!(r#"{{"weight_map": {{"{name}": "{file}"}}}}"#);
    let rows = [
        (map("x", "m.safetensors"), Format, "tensor `x` is said to be in "),
        (map("a", "n.safetensors"), Io, "n.safetensors: No such file"),
        (map("a", "../m.safetensors"), Format, "it must be the name of a file beside the index"),
        (map("a", "model.safetensors.index.json"), Format, "a header of "),
        ("{".to_string(), Format, "the index is damaged"),
    ];
    for (json, kind, sentence) in rows {
        fs::write(&index, json).unwrap();
        let e = ModelFiles::open(dir.path()).map(drop).unwrap_err();
        assert!(e.message().starts_with(&index.display().to_string()), "{e}");
        told(Err::<(), _>(e), kind, sentence);
    }
    // The tensors are those of the index.
    fs::write(&index, map("b", "m.safetensors")).unwrap();
    let model = ModelFiles::open(dir.path()).unwrap();
    assert_eq!(read(&model).into_keys().collect::<Vec<_>>(), ["b"]);
    told(model.tensor("a"), InvalidArgument, "there is no tensor `a`; there are 1, the first is `b`");
}

#[test]
fn a_directory_with_one_file() {
    let dir = tempfile::tempdir().unwrap();
    told(ModelFiles::open(dir.path()), Io, "has neither");
    save_safetensors(dir.path().join("model.safetensors"), &tensors(), &metadata()).unwrap();
    let model = ModelFiles::open(dir.path()).unwrap();
    assert_eq!((read(&model), model.metadata()), (tensors(), &metadata()));
}

#[test]
fn file_types_are_detected_by_first_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    save_safetensors(at("s"), &tensors(), &metadata()).unwrap();
    save_npz(at("z"), &tensors()).unwrap();
    save_npz(at("none"), &Tensors::new()).unwrap();
    save_npy(at("n"), &tensors()["b"]).unwrap();
    save_sharded(at("dir"), &tensors(), &metadata(), 16).unwrap();
    for name in ["s", "z", "dir"] {
        let file = TensorFile::open(at(name)).unwrap();
        let read: Tensors =
            file.tensors().into_iter().map(|t| (t.name.clone(), file.tensor(&t.name).unwrap())).collect();
        assert_eq!(read, tensors(), "{name}");
    }
    assert!(matches!(TensorFile::open(at("none")).unwrap(), TensorFile::Npz(f) if f.tensors().len() == 0));
    let one = TensorFile::open(at("n")).unwrap();
    assert_eq!((one.tensors()[0].name.as_str(), one.tensor("n").unwrap()), ("n", tensors()["b"].clone()));
    told(one.tensor("m"), InvalidArgument, "there is no tensor `m`; there are 1, the first is `n`");
    assert!(one.metadata().is_empty());
    told(TensorFile::open(at("missing")), Io, "missing: No such file");
    fs::write(at("short"), "PK").unwrap();
    told(TensorFile::open(at("short")), Format, "2 bytes are no safetensors file");
}
