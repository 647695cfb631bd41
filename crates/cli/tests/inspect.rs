//! `elinvar inspect` as a user meets it.

use elinvar::io::{save_npy, save_npz, save_safetensors, save_sharded};
use elinvar::{HostData, HostTensor, Shape};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Exit status, standard output, standard error.
fn inspect(args: &[&str], dir: &Path) -> (Option<i32>, String, String) {
    let o = Command::new(env!("CARGO_BIN_EXE_elinvar")).arg("inspect").args(args).current_dir(dir).output();
    let o = o.expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (o.status.code(), text(o.stdout), text(o.stderr))
}

fn tensor(shape: &[usize], data: HostData) -> HostTensor {
    HostTensor::new(Shape::new(shape).unwrap(), data).unwrap()
}

fn tensors() -> BTreeMap<String, HostTensor> {
    BTreeMap::from([
        ("fc.weight".into(), tensor(&[2, 2], HostData::F32([1.0, -0.1, f32::NAN, 0.5].into()))),
        ("steps".into(), tensor(&[], HostData::I64([i64::MAX].into()))),
        ("none".into(), tensor(&[0, 3], HostData::U8([].into()))),
    ])
}

#[test]
fn every_kind_of_file_is_listed() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let metadata = BTreeMap::from([("note".to_string(), "two\nlines".to_string())]);
    save_safetensors(at("a.safetensors"), &tensors(), &metadata).unwrap();
    save_sharded(at("dir"), &tensors(), &metadata, 8).unwrap();
    save_npz(at("a.npz"), &tensors()).unwrap();
    save_npy(at("steps.npy"), &tensors()["steps"]).unwrap();
    let list = "\
name       dtype  shape   bytes
fc.weight  f32    [2, 2]     16
none       u8     [0, 3]      0
steps      i64    []          8
total: 3 tensors, 5 parameters, 24 bytes
";
    let note = "metadata note: two\\nlines\n";
    let rows: [(&[&str], String); 6] = [
        (&["a.safetensors"], format!("{list}{note}")),
        (&["dir"], format!("{list}{note}metadata total_size: 24\n")),
        (&["dir/model.safetensors.index.json"], format!("{list}{note}metadata total_size: 24\n")),
        (&["a.npz"], list.to_string()),
        (
            &["steps.npy"],
            "name   dtype  shape  bytes\nsteps  i64    []         8\ntotal: 1 tensors, 1 parameters, 8 bytes\n".into(),
        ),
        (
            &["a.npz", "--stats"],
            "\
name       dtype  shape   bytes                  min                  max        mean  NaN
fc.weight  f32    [2, 2]     16                 -0.1                  1.0    0.466667    1
none       u8     [0, 3]      0                    -                    -           -    0
steps      i64    []          8  9223372036854775807  9223372036854775807  9.22337e18    0
total: 3 tensors, 5 parameters, 24 bytes
"
            .into(),
        ),
    ];
    for (args, want) in rows {
        assert_eq!(inspect(args, dir.path()), (Some(0), want, String::new()), "{args:?}");
    }
    let (_, lines, _) = inspect(&["dir", "--json", "--stats"], dir.path());
    let lines: Vec<serde_json::Value> = lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["shape"], serde_json::json!([2, 2]));
    assert_eq!((&lines[0]["max"], &lines[0]["nan"]), (&1.0.into(), &1.into()));
    assert_eq!(
        lines[2],
        serde_json::json!({"name": "steps", "dtype": "i64", "shape": [], "bytes": 8,
            "min": i64::MAX, "max": i64::MAX, "mean": i64::MAX as f64, "nan": 0})
    );
    let (_, lines, _) = inspect(&["steps.npy", "--json"], dir.path());
    assert_eq!(lines, "{\"name\":\"steps\",\"dtype\":\"i64\",\"shape\":[],\"bytes\":8}\n");
}

/// What elinvar cannot compute with can be looked at all the same.
#[test]
fn foreign_types_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let header = r#"{"q":{"dtype":"F8_E8M0","shape":[3],"data_offsets":[0,3]}}"#;
    let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[1, 2, 3]].concat();
    std::fs::write(dir.path().join("q"), bytes).unwrap();
    let (status, out, _) = inspect(&["q", "--stats"], dir.path());
    assert_eq!(status, Some(0));
    assert_eq!(out.lines().nth(1), Some("q     F8_E8M0  [3]        3    -    -     -    -"), "{out}");
}

#[test]
fn what_fails_is_told_in_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "text").unwrap();
    for (args, sentence) in [
        (["missing"], "elinvar: missing: No such file or directory"),
        (["file"], "elinvar: file: 4 bytes are no safetensors file"),
        (["."], "elinvar: .: has neither model.safetensors.index.json nor model.safetensors"),
    ] {
        let (status, out, told) = inspect(&args, dir.path());
        assert_eq!((status, out.as_str()), (Some(1), ""), "{told}");
        assert!(told.starts_with(sentence) && told.lines().count() == 1, "{told}");
    }
}
