//! Files written by NumPy (see `make_data.py`), and files that it can read.

use elinvar_core::ErrorKind::{self, Format, InvalidArgument, Unsupported};
use elinvar_core::{DType, Error, HostData, HostTensor, Shape, bf16, f16};
use elinvar_io::{
    NpyFile, NpzFile, StoredType, load_npy, load_npz, read_npy, read_npz, save_npy, save_npz,
    save_npz_compressed, write_npy, write_npz,
};
use std::collections::BTreeMap;
use std::path::PathBuf;

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(data(name)).unwrap()
}

fn tensor(shape: &[usize], data: HostData) -> HostTensor {
    HostTensor::new(Shape::new(shape).unwrap(), data).unwrap()
}

#[test]
fn arrays_that_numpy_wrote() {
    let half = |v: &[f32]| HostData::F16(v.iter().map(|x| f16::from_f32(*x)).collect());
    let rows = [
        ("c", tensor(&[2, 3], HostData::F32([1.5, -0.0, f32::INFINITY, 1e-45, 2.0, -3.0].into()))),
        // Column-major.
        ("fortran", tensor(&[2, 3, 4], HostData::I32((0..24).collect()))),
        // Big-endian.
        ("big", tensor(&[3], HostData::I64([1, -2, 1 << 40].into()))),
        ("fortran_big", tensor(&[2, 3], half(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]))),
        ("scalar", tensor(&[], HostData::F64([5e-324].into()))),
        ("empty", tensor(&[2, 0, 3], HostData::Bool([].into()))),
        // Four bytes for the header's length.
        ("v2", tensor(&[3], HostData::U8([1, 2, 255].into()))),
        ("v3", tensor(&[3], HostData::U8([1, 2, 255].into()))),
    ];
    for (name, want) in rows {
        let path = data(&format!("{name}.npy"));
        assert_eq!(load_npy(&path).unwrap(), want, "{name}");
        let file = NpyFile::open(&path).unwrap();
        assert_eq!(file.tensor().unwrap(), want, "{name}");
        let info = file.info();
        assert_eq!((info.name.as_str(), &info.shape), (name, want.shape()));
        assert_eq!(info.dtype, StoredType::Known(want.dtype()));
        assert_eq!(info.bytes, want.data().to_le_bytes().len() as u64, "{name}");
    }
}

/// -0.0 == 0.0, so this one is compared by its bytes.
#[test]
fn written_bytes_are_those_of_numpy() {
    for name in ["c", "scalar", "empty"] {
        let mut written = Vec::new();
        write_npy(&mut written, &load_npy(data(&format!("{name}.npy"))).unwrap()).unwrap();
        assert_eq!(
            String::from_utf8_lossy(&written),
            String::from_utf8_lossy(&bytes(&format!("{name}.npy")))
        );
        assert_eq!(written, bytes(&format!("{name}.npy")));
    }
}

fn all() -> BTreeMap<String, HostTensor> {
    let rows: [(&str, &[usize], HostData); 9] = [
        ("f32", &[2, 2], HostData::F32([-0.0, f32::INFINITY, 1e-45, 1.5].into())),
        ("f64", &[1], HostData::F64([5e-324].into())),
        ("f16", &[3], HostData::F16([f16::MAX, f16::NEG_ZERO, f16::from_bits(1)].into())),
        ("i64", &[2], HostData::I64([i64::MIN, i64::MAX].into())),
        ("i32", &[2], HostData::I32([i32::MIN, -1].into())),
        ("dir/u8", &[3], HostData::U8([0, 7, 255].into())),
        ("bool", &[2], HostData::Bool([true, false].into())),
        ("zeros", &[100, 100], HostData::F32(vec![0.0; 10_000].into())),
        ("Größe 1", &[4, 0, 3], HostData::F32([].into())),
    ];
    rows.into_iter().map(|(n, s, d)| (n.to_string(), tensor(s, d))).collect()
}

#[test]
fn save_and_load_round_trip() {
    let dir = tempfile::tempdir().unwrap();
    let tensors = all();
    for (name, t) in &tensors {
        let path = dir.path().join("x.npy");
        save_npy(&path, t).unwrap();
        assert_eq!(&load_npy(&path).unwrap(), t, "{name}");
    }
    let (plain, packed) = (dir.path().join("plain.npz"), dir.path().join("packed.npz"));
    save_npz(&plain, &tensors).unwrap();
    save_npz_compressed(&packed, &tensors).unwrap();
    for path in [&plain, &packed] {
        assert_eq!(load_npz(path).unwrap(), tensors);
        let file = NpzFile::open(path).unwrap();
        let listed: Vec<_> = file.tensors().map(|t| t.name.clone()).collect();
        assert!(listed.iter().eq(tensors.keys()), "{listed:?}");
        assert_eq!(file.tensor("f64").unwrap(), tensors["f64"]);
        let e = file.tensor("x").unwrap_err();
        assert_eq!(e.message(), "there is no tensor `x`; there are 9, the first is `Größe 1`");
    }
    let size = |path| std::fs::metadata(path).unwrap().len();
    assert!(size(&packed) < size(&plain) / 10, "zeros are packed");
    save_npz(&packed, &BTreeMap::new()).unwrap();
    assert!(load_npz(&packed).unwrap().is_empty());
}

#[test]
fn the_same_tensors_give_the_same_archive() {
    for deflate in [false, true] {
        let write = || {
            let mut bytes = Vec::new();
            write_npz(&mut bytes, &all(), deflate).unwrap();
            bytes
        };
        assert_eq!(write(), write());
    }
}

#[test]
fn archives_that_numpy_wrote() {
    let mut want = BTreeMap::from([
        ("w".to_string(), tensor(&[2, 3], HostData::F32([0.0, 1.0, 2.0, 3.0, 4.0, 5.0].into()))),
        ("b/bias".to_string(), tensor(&[2], HostData::Bool([true, false].into()))),
        ("n".to_string(), tensor(&[], HostData::I64([3].into()))),
    ]);
    assert_eq!(load_npz(data("stored.npz")).unwrap(), want);
    want.insert("zeros".into(), tensor(&[100, 10], HostData::F64(vec![0.0; 1000].into())));
    assert_eq!(load_npz(data("deflated.npz")).unwrap(), want);
    assert_eq!(read_npz(&bytes("deflated.npz")).unwrap(), want);
}

/// An array of an unknown type does not prevent reading the others.
#[test]
fn foreign_types_are_listed() {
    let file = NpzFile::open(data("mixed.npz")).unwrap();
    let listed: Vec<_> = file.tensors().map(|t| (t.name.as_str(), t.dtype.to_string(), t.bytes)).collect();
    assert_eq!(listed, [("foreign", "<c8".to_string(), 8), ("good", "f16".to_string(), 2)]);
    assert_eq!(file.tensor("good").unwrap(), tensor(&[1], HostData::F16([f16::ONE].into())));
    let e = file.tensor("foreign").unwrap_err();
    assert_eq!(e.kind(), Unsupported);
    assert!(e.message().starts_with("tensor `foreign` has elements of type \"<c8\"; the types that"), "{e}");
    for (name, dtype) in [("int16", "<i2"), ("struct", "[('x', '<f4', (2,)), ('y)', '|u1')]")] {
        let file = NpyFile::open(data(&format!("{name}.npy"))).unwrap();
        assert_eq!(file.info().dtype, StoredType::Other(dtype.into()));
        assert_eq!(file.tensor().unwrap_err().kind(), Unsupported);
    }
}

#[test]
fn bf16_is_not_written() {
    let half = tensor(&[1], HostData::BF16([bf16::ONE].into()));
    assert_eq!(half.dtype(), DType::BF16);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    let one = |name: &str, t: &HostTensor| BTreeMap::from([(name.to_string(), t.clone())]);
    let byte = tensor(&[1], HostData::U8([1].into()));
    let rows = [
        (save_npy(&path, &half), Unsupported, "NumPy has no bf16; convert the tensor to f32"),
        (save_npz(&path, &one("x", &half)), Unsupported, "NumPy has no bf16"),
        (save_npz(&path, &one("../x", &byte)), InvalidArgument, "a tensor named \"../x\" cannot be written"),
        (save_npz(&path, &one("/x", &byte)), InvalidArgument, "it is no file name that an archive keeps"),
        (save_npz(&path, &one(&"x".repeat(65_532), &byte)), InvalidArgument, "no file name"),
    ];
    for (result, kind, sentence) in rows {
        let e = result.unwrap_err();
        assert!(e.kind() == kind && e.message().contains(sentence), "{e:?}");
        assert!(e.message().starts_with(&path.display().to_string()), "{e}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// A version 1.0 file with this header and `data` bytes of elements.
fn npy(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 1);
    bytes
}

fn entries(descr: &str, fortran: &str, shape: &str) -> String {
    format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}}}")
}

#[test]
fn headers_that_other_writers_make() {
    let rows = [
        // Key order, blanks, kind of quotes and trailing commas do not matter.
        "{\"shape\":(2,),\"descr\":\"|u1\",\"fortran_order\":True,}\n",
        " { 'descr' : '|u1' , 'fortran_order' : False , 'shape' : ( 2 , ) } ",
        // Python 2.
        "{'descr': '|u1', 'fortran_order': False, 'shape': (2L,), }",
        // Types of one byte have no byte order.
        "{'descr': '>u1', 'fortran_order': False, 'shape': (2,), }",
    ];
    for header in rows {
        assert_eq!(read_npy(&npy(header, 2)).unwrap(), tensor(&[2], HostData::U8([1, 1].into())), "{header}");
    }
}

#[test]
fn each_damage_of_an_array_has_its_error() {
    let u1 = |shape: &str| entries("'|u1'", "False", shape);
    let version = |major: u8, minor: u8| [b"\x93NUMPY", &[major, minor][..], &[0; 20]].concat();
    let rows: Vec<(Vec<u8>, ErrorKind, &str)> = vec![
        (vec![], Format, "this is no .npy file: it does not begin with \"\\x93NUMPY\""),
        (b"\x93NUMPY\x01".to_vec(), Format, "this is no .npy file"),
        (version(4, 0), Unsupported, ".npy version 4.0; those that can be read are 1.0, 2.0 and 3.0"),
        (version(1, 1), Unsupported, ".npy version 1.1"),
        (npy("{}", 0)[..9].to_vec(), Format, "the header of the .npy file is cut off"),
        (npy("{}", 0)[..11].to_vec(), Format, "the header of the .npy file is cut off"),
        (
            b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec(),
            Format,
            "a .npy header of 4294967295 bytes is announced; the longest that is read has 1048576",
        ),
        (npy("", 0), Format, "'{' is missing at byte 0"),
        (npy("{}", 0), Format, "'descr', 'fortran_order' and 'shape' must all be there"),
        (npy("{'descr': '|u1', 'descr': '|u1'}", 0), Format, "the key \"descr\" is there twice"),
        (npy("{'order': 1}", 0), Format, "the key \"order\" is unknown"),
        (npy("{'descr", 0), Format, "the string at byte 1 has no end"),
        (npy("{'de\\'scr': 1}", 0), Format, "the string at byte 1 has no end"),
        (npy(&entries("'|u1'", "Maybe", "()"), 0), Format, "True or False is missing"),
        (npy(&entries("[('a', '<f4'", "False", "()"), 0), Format, "the list at byte 10 has no end"),
        (npy(&format!("{{'descr': {}", "[".repeat(60_000)), 0), Format, "the list at byte 10 has no end"),
        (npy(&u1("(2"), 2), Format, "')' is missing"),
        (npy(&u1("(-2,)"), 2), Format, "is not a number that can be addressed"),
        (npy(&u1("(99999999999999999999,)"), 2), Format, "is not a number that can be addressed"),
        (npy(&u1("(4294967296, 4294967296)"), 2), Format, "has more elements than can be addressed"),
        (npy(&u1("(0, 4294967296, 4294967296)"), 0), Format, "has more elements than can be addressed"),
        (npy(&(u1("(2,)") + "x"), 2), Format, "something follows the dictionary"),
        (
            npy(&u1("(1000000000000,)"), 2),
            Format,
            "takes 1000000000000 bytes, and 2 follow the header: it was cut",
        ),
        (
            npy(&u1("(1,)"), 2),
            Format,
            "u8 [1] takes 1 bytes, and 2 follow the header: there is something after",
        ),
        (npy(&entries("'=f4'", "False", "(1,)"), 4), Unsupported, "has elements of type \"=f4\""),
        (npy(&entries("'|O'", "False", "(1,)"), 4), Unsupported, "has elements of type \"|O\""),
        (npy(&entries("'é'", "False", "(1,)"), 4), Unsupported, "has elements of type \"é\""),
    ];
    for (bytes, kind, sentence) in rows {
        let e = read_npy(&bytes).unwrap_err();
        assert_eq!(e.kind(), kind, "{e}");
        assert!(e.message().contains(sentence) && !e.message().contains('\n'), "{e}\nexpected: {sentence}");
    }
}

fn archive(tensors: &[(&str, HostData)], deflate: bool) -> Vec<u8> {
    let tensors = tensors.iter().map(|(n, d)| (n.to_string(), tensor(&[d.len()], d.clone()))).collect();
    let mut bytes = Vec::new();
    write_npz(&mut bytes, &tensors, deflate).unwrap();
    bytes
}

/// Replaces every occurrence of some bytes by as many others.
fn patched(mut bytes: Vec<u8>, from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let found: Vec<_> = (0..bytes.len()).filter(|&i| bytes[i..].starts_with(from)).collect();
    assert!(!found.is_empty());
    found.into_iter().for_each(|i| bytes[i..i + to.len()].copy_from_slice(to));
    bytes
}

#[test]
fn each_damage_of_an_archive_has_its_error() {
    let one = archive(&[("a", HostData::U8([1, 2, 3].into()))], false);
    let two = archive(&[("a", HostData::U8([1, 2, 3].into())), ("b", HostData::U8([4, 5, 6].into()))], false);
    let packed = archive(&[("a", HostData::U8(vec![0; 9999].into()))], true);
    // The directory's entry: after its signature come 6 bytes of versions and flags, then the
    // method.
    let at = |bytes: &[u8], back: usize| bytes.windows(4).rposition(|w| w == b"PK\x01\x02").unwrap() + back;
    let set = |bytes: &[u8], back: usize, to: &[u8]| {
        let (mut bytes, at) = (bytes.to_vec(), at(bytes, back));
        bytes[at..at + to.len()].copy_from_slice(to);
        bytes
    };
    let count = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        let end = bytes.len() - 22;
        bytes[end + 10] = 7;
        bytes
    };
    let size = u32::try_from(packed.len()).unwrap() * 2000;
    let rows: Vec<(Vec<u8>, ErrorKind, &str)> = vec![
        (vec![], Format, "this is no zip archive that can be read"),
        (one[..one.len() - 1].to_vec(), Format, "this is no zip archive that can be read"),
        (count(&one), Format, "the archive should have 7 entries, and it has 1: it is damaged"),
        (patched(two.clone(), b"b.npy", b"a.npy"), Format, "array \"a.npy\": it is there twice"),
        (patched(one.clone(), b"a.npy", b"a.txt"), Format, "none of its 1 entries is an array (*.npy)"),
        (patched(one.clone(), b"a.npy", b"\xff.npy"), Format, "its name is not UTF-8"),
        (patched(one.clone(), &[1, 2, 3], &[1, 2, 4]), Format, "array `a`: its checksum is not the one"),
        (set(&one, 10, &[12, 0]), Unsupported, "array \"a.npy\": it is packed with method 12"),
        (set(&one, 8, &[9, 0]), Unsupported, "it is encrypted"),
        (set(&one, 24, &[1, 0, 0, 0]), Format, "131 bytes cannot be unpacked to 1"),
        (set(&packed, 24, &size.to_le_bytes()), Format, "cannot be unpacked to"),
        // An array whose header gives more elements than the archive's entry has.
        (patched(one.clone(), b"(3,)", b"(4,)"), Format, "u8 [4] takes 4 bytes, and 3 follow the header"),
        // The second entry's data are the first one's.
        (set(&two, 42, &[0; 4]), Format, "two arrays share bytes of the archive"),
        (set(&one, 42, &[0xff; 4]), Format, "array \"a.npy\": this is no zip archive that can be read"),
    ];
    for (bytes, kind, sentence) in rows {
        let e: Error = read_npz(&bytes).unwrap_err();
        assert_eq!(e.kind(), kind, "{e}\nexpected: {sentence}");
        assert!(e.message().contains(sentence) && !e.message().contains('\n'), "{e}\nexpected: {sentence}");
    }
    // A stream that decompresses to fewer or more bytes than the archive's entry gives.
    for wrong in [9999 + 127, 9999 + 129_u32] {
        assert_eq!(read_npz(&set(&packed, 24, &wrong.to_le_bytes())).unwrap_err().kind(), Format);
    }
}

#[test]
fn errors_name_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("text");
    std::fs::write(&text, "text").unwrap();
    let missing = dir.path().join("missing");
    for path in [&text, &missing, &dir.path().to_path_buf()] {
        for result in [
            load_npy(path).map(drop),
            load_npz(path).map(drop),
            NpyFile::open(path).map(drop),
            NpzFile::open(path).map(drop),
        ] {
            let e = result.unwrap_err();
            assert!(e.message().starts_with(&path.display().to_string()), "{e}");
        }
    }
}
