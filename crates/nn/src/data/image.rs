//! Folders of images, one class per directory; PNG and JPEG, by the crate `image`.
//!
//! PNG is lossless, and its pixels are the same everywhere. The pixels of a JPEG depend on the
//! decoder: the standard leaves some roundings open.

use crate::data::prefetch::guarded;
use crate::data::{Dataset, dataset::exists, file, transform};
use ::image::{ColorType, DynamicImage, ImageReader as Decoder, Limits};
use elinvar_core::{Error, HostTensor, Result, Shape, host};
use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// The extensions of image files, case-insensitive.
const EXTENSIONS: [&str; 3] = ["png", "jpg", "jpeg"];

/// How an image is brought to the requested size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Resized without keeping the aspect ratio.
    Stretch,
    /// Resized to the smallest size that covers the requested one, then center-cropped.
    Cover,
}

/// Reads images: decodes, resizes, and normalises.
#[derive(Clone, Debug)]
pub struct ImageReader {
    gray: bool,
    size: Option<(usize, usize, Fit)>,
    normalize: Option<(Vec<f32>, Vec<f32>)>,
    side: u32,
    bytes: u64,
}

impl Default for ImageReader {
    fn default() -> Self {
        ImageReader::new()
    }
}

impl ImageReader {
    /// Colour images, [3, h, w] from 0 to 1, in their own size; at most 16,384 pixels a side, and
    /// 512 MiB to decode.
    pub fn new() -> Self {
        ImageReader { gray: false, size: None, normalize: None, side: 1 << 14, bytes: 512 << 20 }
    }
    /// Grayscale images: [1, h, w].
    #[must_use]
    pub fn gray(mut self) -> Self {
        self.gray = true;
        self
    }
    /// Resizes images to this height and width by [`transform::resize`].
    #[must_use]
    pub fn size(mut self, height: usize, width: usize, fit: Fit) -> Self {
        self.size = Some((height, width, fit));
        self
    }
    /// Normalises at the end: `(x - mean) / std`, by channel.
    #[must_use]
    pub fn normalize(mut self, mean: impl Into<Vec<f32>>, std: impl Into<Vec<f32>>) -> Self {
        self.normalize = Some((mean.into(), std.into()));
        self
    }
    /// Rejects images with more pixels a side, or that need more bytes to decode.
    #[must_use]
    pub fn limits(mut self, side: u32, bytes: u64) -> Self {
        (self.side, self.bytes) = (side, bytes);
        self
    }

    /// Reads a file; its format is detected by content, not by name.
    ///
    /// # Errors
    /// `Io`, `Format` if it is not an image, `OutOfMemory` if it exceeds the limits; with the
    /// file's name.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<HostTensor> {
        let path = path.as_ref();
        let file = BufReader::new(file::open(path)?);
        guarded(|| self.decode(Decoder::new(file))).map_err(|e| e.at(path.display()))
    }

    fn decode(&self, mut decoder: Decoder<BufReader<fs::File>>) -> Result<HostTensor> {
        let mut limits = Limits::default();
        limits.max_image_width = Some(self.side);
        limits.max_image_height = Some(self.side);
        limits.max_alloc = Some(self.bytes);
        decoder.limits(limits);
        let image = decoder.with_guessed_format()?.decode().map_err(|e| match e {
            ::image::ImageError::IoError(e) if e.kind() != std::io::ErrorKind::UnexpectedEof => {
                Error::from(e)
            }
            ::image::ImageError::Limits(e) => Error::memory(format!(
                "image: {e}; at most {} pixels a side and {} bytes are allowed",
                self.side, self.bytes
            )),
            e => Error::format(format!("image: {e}")),
        })?;
        let mut x = self.planes(&image)?;
        drop(image);
        if let Some((h, w, fit)) = self.size {
            x = match fit {
                Fit::Stretch => transform::resize(&x, (h, w))?,
                Fit::Cover => transform::center_crop(&transform::resize(&x, cover(&x, (h, w)))?, (h, w))?,
            };
        }
        match &self.normalize {
            Some((mean, std)) => transform::normalize(&x, mean, std),
            None => Ok(x),
        }
    }

    /// Planar channels, from 0 to 1. Transparency is ignored.
    fn planes(&self, image: &DynamicImage) -> Result<HostTensor> {
        let (w, h) = (image.width() as usize, image.height() as usize);
        let c = if self.gray { 1 } else { 3 };
        let shape = Shape::new(&[c, h, w])?;
        let mut out = host::with_capacity::<f32>(shape.numel())?;
        let deep =
            !matches!(image.color(), ColorType::L8 | ColorType::La8 | ColorType::Rgb8 | ColorType::Rgba8);
        let bytes = |out: &mut Vec<f32>, v: &[u8], i: usize| {
            out.extend(v.iter().skip(i).step_by(c).map(|p| f32::from(*p) / 255.0));
        };
        let words = |out: &mut Vec<f32>, v: &[u16], i: usize| {
            out.extend(v.iter().skip(i).step_by(c).map(|p| f32::from(*p) / 65535.0));
        };
        match (self.gray, deep) {
            (true, false) => bytes(&mut out, &image.to_luma8(), 0),
            (true, true) => words(&mut out, &image.to_luma16(), 0),
            (false, false) => {
                let v = image.to_rgb8();
                (0..c).for_each(|i| bytes(&mut out, &v, i));
            }
            (false, true) => {
                let v = image.to_rgb16();
                (0..c).for_each(|i| words(&mut out, &v, i));
            }
        }
        HostTensor::from_vec(out, shape)
    }
}

/// The smallest size with the image's aspect ratio that covers `size`, rounded to the nearest
/// pixel.
fn cover(x: &HostTensor, (h, w): (usize, usize)) -> (usize, usize) {
    let (rows, columns) = (x.shape()[1].max(1), x.shape()[2].max(1));
    let scaled = |a: usize, b: usize, c: usize| {
        let exact = (a as u128 * b as u128 + c as u128 / 2) / c as u128;
        usize::try_from(exact).unwrap_or(usize::MAX)
    };
    // h / rows >= w / columns: the height decides.
    if h as u128 * columns as u128 >= w as u128 * rows as u128 {
        (h, scaled(columns, h, rows).max(w))
    } else {
        (scaled(rows, w, columns).max(h), w)
    }
}

/// Images in directories: each directory in a folder is a class; classes, and the images of a
/// class, are sorted by name. Sample `i` is the image and its class.
///
/// ```no_run
/// use elinvar_nn::data::{Fit, ImageFolder, ImageReader, Loader, Prefetch};
/// use std::sync::Arc;
///
/// let reader = ImageReader::new().size(64, 64, Fit::Cover).normalize([0.5; 3], [0.25; 3]);
/// let flowers = ImageFolder::open("flowers", reader)?;
/// println!("{} images of {:?}", flowers.files().len(), flowers.classes());
/// let loader = Loader::new(Arc::new(flowers), 32)?.shuffle(1).prefetch(Prefetch::new(4));
/// # Ok::<(), elinvar_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ImageFolder {
    reader: ImageReader,
    classes: Vec<String>,
    files: Vec<(PathBuf, i64)>,
}

impl ImageFolder {
    /// Lists the images of this folder; they are read later.
    ///
    /// # Errors
    /// `Io` if a directory cannot be read; `Format` if there is no directory, or one without
    /// images, or a name is not UTF-8.
    pub fn open(folder: impl AsRef<Path>, reader: ImageReader) -> Result<Self> {
        let folder = folder.as_ref();
        let none =
            |path: &Path, what: &str| Err(Error::format(format!("{}: images: {what}", path.display())));
        let (mut classes, mut files) = (vec![], vec![]);
        for (name, path) in sorted(folder)? {
            if !path.is_dir() || name.starts_with('.') {
                continue;
            }
            let before = files.len();
            for (file, path) in sorted(&path)? {
                let end = file.rsplit_once('.').map(|(_, end)| end.to_ascii_lowercase());
                if end.is_some_and(|end| EXTENSIONS.contains(&end.as_str())) && !file.starts_with('.') {
                    files.push((path, classes.len() as i64));
                }
            }
            if files.len() == before {
                return none(&path, "no .png, .jpg or .jpeg is in this directory, which would be a class");
            }
            classes.push(name);
        }
        if classes.is_empty() {
            return none(folder, "no directory is in it; one for each class would fit");
        }
        Ok(ImageFolder { reader, classes, files })
    }
    /// Names of the classes, by number.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }
    /// The files with their classes, by sample index.
    pub fn files(&self) -> &[(PathBuf, i64)] {
        &self.files
    }
}

/// The entries of a directory, sorted by name.
fn sorted(path: &Path) -> Result<Vec<(String, PathBuf)>> {
    let failed = |e: std::io::Error| Error::from(e).at(path.display());
    let mut all = vec![];
    for entry in fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().into_string().map_err(|name| {
            Error::format(format!("{}: images: the name {name:?} is not UTF-8", path.display()))
        })?;
        file::push(&mut all, (name, entry.path()))?;
    }
    all.sort_unstable();
    Ok(all)
}

impl Dataset for ImageFolder {
    type Item = (HostTensor, i64);
    fn len(&self) -> usize {
        self.files.len()
    }
    fn get(&self, i: usize) -> Result<Self::Item> {
        exists(i, self.len())?;
        let (path, class) = &self.files[i];
        Ok((self.reader.read(path)?, *class))
    }
}
