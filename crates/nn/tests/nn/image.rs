//! Folders of images, and hostile files.

use elinvar_core::ErrorKind;
use elinvar_nn::data::{Dataset, Fit, ImageFolder, ImageReader, Loader, Prefetch};
use image::{GrayImage, ImageBuffer, Luma, Rgb, RgbImage};
use std::path::Path;
use std::sync::Arc;

/// Pixel (x, y) is [x, y, 51].
fn write(path: &Path, w: u32, h: u32) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    RgbImage::from_fn(w, h, |x, y| Rgb([x as u8, y as u8, 51])).save(path).unwrap();
}

#[test]
fn classes_are_directories() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("b/2.png"), 2, 3);
    write(&dir.path().join("b/1.PNG"), 2, 3);
    write(&dir.path().join("a/x.png"), 2, 3);
    write(&dir.path().join(".hidden/x.png"), 2, 3);
    std::fs::write(dir.path().join("a/notes.txt"), "no image").unwrap();
    std::fs::write(dir.path().join("README"), "no class").unwrap();
    let folder = ImageFolder::open(dir.path(), ImageReader::new()).unwrap();
    assert_eq!(folder.classes(), ["a", "b"]);
    let names = |f: &ImageFolder| -> Vec<(String, i64)> {
        let name = |p: &Path| p.file_name().unwrap().to_str().unwrap().to_owned();
        f.files().iter().map(|(p, c)| (name(p), *c)).collect()
    };
    assert_eq!(names(&folder), [("x.png".into(), 0), ("1.PNG".into(), 1), ("2.png".into(), 1)]);
    let (x, class) = folder.get(1).unwrap();
    assert_eq!((x.shape().dims(), class), (&[3, 3, 2][..], 1));
    let at = |v: u8| f32::from(v) / 255.0;
    assert_eq!(x.as_slice::<f32>().unwrap()[..6], [0, 1, 0, 1, 0, 1].map(at));
    assert_eq!(x.as_slice::<f32>().unwrap()[6..12], [0, 0, 1, 1, 2, 2].map(at));
    assert!(x.as_slice::<f32>().unwrap()[12..].iter().all(|p| *p == 0.2));
    assert_eq!(folder.get(3).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let loader = Loader::new(Arc::new(folder), 2).unwrap().prefetch(Prefetch::new(2));
    let batches: Vec<_> = loader.host_epoch(0, 0).map(|b| b.unwrap().data).collect();
    assert_eq!(
        (batches[0].0.shape().dims(), batches[1].1.as_slice::<i64>().unwrap()),
        (&[2, 3, 3, 2][..], &[1][..])
    );

    std::fs::create_dir(dir.path().join("empty")).unwrap();
    let e = ImageFolder::open(dir.path(), ImageReader::new()).unwrap_err();
    assert!(
        e.message()
            .ends_with("empty: images: no .png, .jpg or .jpeg is in this directory, which would be a class")
    );
    let e = ImageFolder::open(dir.path().join("a"), ImageReader::new()).unwrap_err();
    assert!(e.message().ends_with("a: images: no directory is in it; one for each class would fit"));
    assert_eq!(
        ImageFolder::open(dir.path().join("missing"), ImageReader::new()).unwrap_err().kind(),
        ErrorKind::Io
    );
}

#[test]
fn images_come_to_the_size_and_range_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.png");
    write(&path, 8, 4);
    let read = |r: ImageReader| r.read(&path).unwrap();
    let plain = read(ImageReader::new());
    assert_eq!(plain.shape().dims(), [3, 4, 8]);
    let y = read(ImageReader::new().size(2, 4, Fit::Stretch).normalize([0.2; 3], [0.5; 3]));
    assert_eq!(y.shape().dims(), [3, 2, 4]);
    let blue = &y.as_slice::<f32>().unwrap()[16..];
    // The triangle's weights add up to 1 up to a rounding in f64.
    assert!(blue.iter().all(|p| p.abs() < 1e-6), "{blue:?}");
    for (h, w) in [(4, 4), (2, 2), (3, 8), (5, 7), (1, 1), (16, 1)] {
        assert_eq!(read(ImageReader::new().size(h, w, Fit::Cover)).shape().dims(), [3, h, w]);
    }
    // The centre: columns 2 to 5.
    let middle = read(ImageReader::new().size(4, 4, Fit::Cover));
    assert_eq!(middle.as_slice::<f32>().unwrap()[..4], [2, 3, 4, 5].map(|v| v as f32 / 255.0));
    let gray = dir.path().join("g.png");
    GrayImage::from_fn(2, 1, |x, _| Luma([x as u8 * 51])).save(&gray).unwrap();
    assert_eq!(ImageReader::new().gray().read(&gray).unwrap().as_slice::<f32>().unwrap(), [0.0, 0.2]);
    assert_eq!(
        ImageReader::new().read(&gray).unwrap().as_slice::<f32>().unwrap(),
        [0.0, 0.2, 0.0, 0.2, 0.0, 0.2]
    );
    // A depth of 16 bits is not truncated to 8.
    let deep = dir.path().join("d.png");
    ImageBuffer::from_fn(1, 1, |_, _| Luma([257u16 * 2 + 1])).save(&deep).unwrap();
    assert_eq!(ImageReader::new().gray().read(&deep).unwrap().as_slice::<f32>().unwrap(), [515.0 / 65535.0]);
    // A JPEG, whatever its name says.
    let jpeg = dir.path().join("j.png");
    RgbImage::from_pixel(16, 16, Rgb([128; 3])).save_with_format(&jpeg, image::ImageFormat::Jpeg).unwrap();
    let x = ImageReader::new().read(&jpeg).unwrap();
    assert!(x.as_slice::<f32>().unwrap().iter().all(|p| (p - 128.0 / 255.0).abs() < 0.02));
}

#[test]
fn hostile_files_are_errors_with_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.png");
    write(&path, 40, 30);
    let good = std::fs::read(&path).unwrap();
    let read = |bytes: &[u8], reader: &ImageReader| {
        std::fs::write(&path, bytes).unwrap();
        reader.read(&path)
    };
    let plain = ImageReader::new();
    let mut huge = good.clone();
    // Width and height of the header: 2^31 - 1 pixels a side.
    huge[16..24].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]);
    let damaged: [&[u8]; 6] =
        [b"", b"\x89PNG\r\n\x1a\n", b"GIF89a", &good[..40], &good[..good.len() / 2], &huge];
    for bytes in damaged {
        let e = read(bytes, &plain).unwrap_err();
        assert!(e.message().starts_with(&format!("{}: ", path.display())), "{e:?}");
        assert!(matches!(e.kind(), ErrorKind::Format | ErrorKind::OutOfMemory), "{e:?}");
    }
    for limits in [plain.clone().limits(39, 1 << 20), plain.clone().limits(100, 1000)] {
        assert_eq!(read(&good, &limits).unwrap_err().kind(), ErrorKind::OutOfMemory);
    }
    // Each byte of the file damaged in turn: an image or an error, no panic.
    for i in 0..good.len() {
        let mut bytes = good.clone();
        bytes[i] ^= 0x41;
        if let Ok(x) = read(&bytes, &plain) {
            assert!(x.shape().numel() <= 3 << 28);
        }
    }
}
