//! IDX files, valid and damaged.

use elinvar_core::{ErrorKind, HostData};
use elinvar_nn::data::idx;
use flate2::{Compression, write::GzEncoder};
use std::io::Write;

fn file(kind: u8, dims: &[u32], data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, kind, dims.len() as u8];
    dims.iter().for_each(|d| bytes.extend(d.to_be_bytes()));
    bytes.extend(data);
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut w = GzEncoder::new(Vec::new(), Compression::fast());
    w.write_all(bytes).unwrap();
    w.finish().unwrap()
}

#[test]
fn every_element_type_is_read() {
    let rows: Vec<(u8, &[u32], Vec<u8>, HostData)> = vec![
        (0x08, &[2, 2], vec![0, 1, 127, 255], HostData::U8([0, 1, 127, 255].into())),
        (0x09, &[2], vec![1, 255], HostData::I32([1, -1].into())),
        (0x0B, &[2], vec![1, 0, 255, 254], HostData::I32([256, -2].into())),
        (0x0C, &[1], vec![255, 255, 255, 253], HostData::I32([-3].into())),
        (0x0D, &[1], 1.5f32.to_be_bytes().into(), HostData::F32([1.5].into())),
        (0x0E, &[1, 1], (-2.25f64).to_be_bytes().into(), HostData::F64([-2.25].into())),
        (0x08, &[], vec![9], HostData::U8([9].into())),
        (0x08, &[0, 5], vec![], HostData::U8([].into())),
    ];
    for (kind, dims, data, want) in rows {
        let bytes = file(kind, dims, &data);
        for bytes in [gzip(&bytes), bytes] {
            let t = idx::read_from(&bytes[..], 100).unwrap();
            assert_eq!(t.data(), &want, "{kind:#x}");
            assert!(t.shape().iter().eq(dims.iter().map(|d| *d as usize).collect::<Vec<_>>().iter()));
        }
    }
}

#[test]
fn damaged_files_are_errors() {
    let zeros = gzip(&[file(8, &[3], &[0; 3]), vec![0; 10 << 20]].concat());
    let rows: Vec<(Vec<u8>, ErrorKind, &str)> = vec![
        (vec![], ErrorKind::Format, "idx: the file ends too early"),
        (b"\0\0\x08".to_vec(), ErrorKind::Format, "idx: the file ends too early"),
        (
            b"%PDF-1.4".to_vec(),
            ErrorKind::Format,
            "idx: the file does not begin with two bytes of 0: it is no IDX file",
        ),
        (file(7, &[1], &[0]), ErrorKind::Format, "idx: element type 0x07 does not exist"),
        (vec![0, 0, 8, 255, 0, 0], ErrorKind::Format, "idx: the file ends too early"),
        (
            file(8, &[3], &[0; 2]),
            ErrorKind::Format,
            "idx: the elements of [3] are 3 bytes, and the file has 2",
        ),
        (
            file(8, &[3], &[0; 4]),
            ErrorKind::Format,
            "idx: the elements of [3] are 3 bytes, and the file has more",
        ),
        (zeros, ErrorKind::Format, "idx: the elements of [3] are 3 bytes, and the file has more"),
        (
            file(8, &[u32::MAX; 4], &[0]),
            ErrorKind::Format,
            "idx: shape [4294967295, 4294967295, 4294967295, 4294967295]",
        ),
        (file(8, &[u32::MAX, 0, u32::MAX, u32::MAX], &[]), ErrorKind::Format, "idx: shape "),
        (
            file(14, &[1 << 20, 1 << 10], &[0]),
            ErrorKind::OutOfMemory,
            "idx: [1048576, 1024] has 8589934592 bytes of elements, more than the 1000000000 that are allowed",
        ),
        // The header claims the maximal size without data: nothing of that size is allocated.
        (
            file(8, &[1_000_000_000], &[0]),
            ErrorKind::Format,
            "idx: the elements of [1000000000] are 1000000000 bytes, and the file has 1",
        ),
        (gzip(&file(8, &[3], &[0; 3]))[..20].to_vec(), ErrorKind::Format, "idx: "),
        (b"\x1f\x8bnothing".to_vec(), ErrorKind::Format, "idx: "),
    ];
    for (bytes, kind, sentence) in rows {
        let e = idx::read_from(&bytes[..], 1_000_000_000).unwrap_err();
        assert!(e.kind() == kind && e.message().starts_with(sentence), "{e:?}\n{sentence}");
    }
}

#[test]
fn images_and_labels_become_pairs() {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let images = put("images.gz", &gzip(&file(8, &[2, 1, 2], &[0, 255, 51, 102])));
    let labels = put("labels", &file(8, &[2], &[7, 3]));
    let pairs = idx::pairs(&images, &labels).unwrap();
    assert_eq!(pairs.x().shape().dims(), [2, 1, 1, 2]);
    assert_eq!(pairs.x().as_slice::<f32>().unwrap(), [0.0, 1.0, 0.2, 0.4]);
    assert_eq!(pairs.y().as_slice::<i64>().unwrap(), [7, 3]);
    let e = idx::pairs(&labels, &images).unwrap_err();
    assert_eq!(e.message(), format!("{}: idx: [2] of u8; u8 of [n, h, w] would fit", labels.display()));
    assert!(idx::pairs(&images, put("three", &file(8, &[3], &[1, 2, 3]))).is_err());
    assert_eq!(idx::read(dir.path()).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(idx::read_up_to(&labels, 1).unwrap_err().kind(), ErrorKind::OutOfMemory);
}
