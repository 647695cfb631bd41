//! 1,797 handwritten digits of 8 x 8 pixels, inside the program.
//!
//! The data is E. Alpaydin and C. Kaynak's, from the UCI repository, under CC BY 4.0; see
//! `data/README.md`. It is checked line by line each time it is read, so a damaged copy is an error
//! and not a badly trained model.

use elinvar_core::philox::{Stream, permutation};
use elinvar_core::{Error, Result};
use flate2::read::GzDecoder;

const FILE: &[u8] = include_bytes!("../../data/digits.csv.gz");
/// Images in the file.
const COUNT: usize = 1797;
/// The darkest pixel.
const DARKEST: u8 = 16;
/// The stream of the shuffle, distinct from those of weights and batches under the same seed.
const SPLIT_STREAM: u64 = 0x6469_6769_7473;

/// Images and their labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Digits {
    /// Brightness from 0 to 1, image after image, row after row: [`Digits::PIXELS`] numbers each.
    pub pixels: Vec<f32>,
    /// The digit, 0 to 9, of each image.
    pub labels: Vec<i64>,
}

/// The data set, in the order of its publication.
///
/// # Errors
/// `Format` if the copy inside the program is damaged.
pub fn digits() -> Result<Digits> {
    let digits = parse(FILE).map_err(|e| e.at("digits"))?;
    if digits.len() != COUNT {
        return Err(Error::format(format!("digits: {} images instead of {COUNT}", digits.len())));
    }
    Ok(digits)
}

/// Lines of comma-separated numbers, compressed: the pixels of an image and its label.
fn parse(gzip: &[u8]) -> Result<Digits> {
    let mut digits = Digits { pixels: Vec::new(), labels: Vec::new() };
    let mut lines =
        csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(GzDecoder::new(gzip));
    for (i, line) in lines.deserialize::<Vec<u8>>().enumerate() {
        let wrong = |what: String| Error::format(format!("line {}: {what}", i + 1));
        let line = line.map_err(|e| wrong(e.to_string()))?;
        let [pixels @ .., label] = &line[..] else { return Err(wrong("it is empty".into())) };
        if pixels.len() != Digits::PIXELS {
            return Err(wrong(format!("{} pixels instead of {}", pixels.len(), Digits::PIXELS)));
        }
        if let Some(p) = pixels.iter().find(|p| **p > DARKEST) {
            return Err(wrong(format!("pixel {p} is above {DARKEST}")));
        }
        if *label > 9 {
            return Err(wrong(format!("label {label} is no digit")));
        }
        // Sixteenths are exact in f32.
        digits.pixels.extend(pixels.iter().map(|p| f32::from(*p) / f32::from(DARKEST)));
        digits.labels.push(i64::from(*label));
    }
    Ok(digits)
}

impl Digits {
    /// Pixels along each side of an image.
    pub const SIDE: usize = 8;
    /// Pixels of an image.
    pub const PIXELS: usize = Self::SIDE * Self::SIDE;

    /// Number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }
    /// Is it empty?
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }
    /// The pixels of image `i`.
    ///
    /// # Panics
    /// If there is no such image.
    pub fn image(&self, i: usize) -> &[f32] {
        &self.pixels[i * Self::PIXELS..][..Self::PIXELS]
    }

    /// Shuffles by the seed and splits into `(train, test)`, the test part rounded up to whole
    /// images.
    ///
    /// The same seed gives the same split on every machine: the shuffle is `philox::permutation`,
    /// and the test part is its beginning.
    ///
    /// # Errors
    /// `InvalidArgument` if `test_fraction` is not between 0 and 1 or leaves one of the parts
    /// without images.
    pub fn split(&self, seed: u64, test_fraction: f64) -> Result<(Digits, Digits)> {
        let test = (self.len() as f64 * test_fraction).ceil();
        // Negated so that NaN fails too.
        if !(test >= 1.0 && test < self.len() as f64) {
            return Err(Error::argument(format!(
                "digits: a test part of {test_fraction} of {} images leaves one of the parts empty; 0.2 is usual",
                self.len()
            )));
        }
        let order = permutation(self.len(), Stream { seed, stream: SPLIT_STREAM })?;
        let (test, train) = order.split_at(test as usize);
        Ok((self.pick(train), self.pick(test)))
    }

    /// The images at these indices, in this order.
    fn pick(&self, indices: &[usize]) -> Digits {
        Digits {
            pixels: indices.iter().flat_map(|&i| self.image(i)).copied().collect(),
            labels: indices.iter().map(|&i| self.labels[i]).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use elinvar_core::ErrorKind;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    #[test]
    fn the_data_is_the_published_data() {
        let d = digits().unwrap();
        assert_eq!((d.len(), d.pixels.len()), (1797, 1797 * 64));
        assert_eq!(d.labels[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        // The class counts, as published with the data.
        let count: Vec<_> = (0..10).map(|c| d.labels.iter().filter(|l| **l == c).count()).collect();
        assert_eq!(count, [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]);
        assert_eq!(d.image(0)[..8], [0.0, 0.0, 0.3125, 0.8125, 0.5625, 0.0625, 0.0, 0.0]);
        assert!(d.pixels.iter().all(|p| (0.0..=1.0).contains(p)) && d.pixels.contains(&1.0));
    }

    #[test]
    fn a_split_has_every_image_once() {
        let all = digits().unwrap();
        let (train, test) = all.split(1, 0.2).unwrap();
        assert_eq!((train.len(), test.len()), (1437, 360));
        let sorted = |parts: &[&Digits]| {
            let mut v: Vec<_> = parts
                .iter()
                .flat_map(|d| {
                    (0..d.len()).map(|i| (d.image(i).iter().map(|p| p.to_bits()).collect(), d.labels[i]))
                })
                .collect::<Vec<(Vec<u32>, i64)>>();
            v.sort();
            v
        };
        assert_eq!(sorted(&[&train, &test]), sorted(&[&all]));
        assert_eq!(all.split(1, 0.2).unwrap(), (train, test.clone()));
        assert_ne!(all.split(2, 0.2).unwrap().1, test);
        // Pinned: another split would make accuracies of different versions incomparable.
        assert_eq!(test.labels[..12], [0, 2, 9, 0, 8, 2, 8, 3, 6, 0, 1, 4]);
    }

    #[test]
    fn a_split_without_a_part_is_refused() {
        let all = digits().unwrap();
        for fraction in [0.0, -0.5, 1.0, 1.5, f64::NAN, f64::INFINITY] {
            let e = all.split(1, fraction).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{fraction}: {e}");
        }
        assert_eq!(all.split(1, 1e-9).unwrap().1.len(), 1);
    }

    #[test]
    fn damaged_data_is_an_error() {
        let gzip = |text: &str| {
            let mut w = GzEncoder::new(Vec::new(), Compression::fast());
            w.write_all(text.as_bytes()).unwrap();
            w.finish().unwrap()
        };
        let line =
            |pixels: usize, pixel: &str, label: &str| gzip(&(format!("{pixel},").repeat(pixels) + label));
        assert_eq!(parse(&line(64, "16", "9")).unwrap(), Digits { pixels: vec![1.0; 64], labels: vec![9] });
        let rows = [
            (line(63, "0", "1"), "line 1: 63 pixels instead of 64"),
            (line(64, "17", "1"), "line 1: pixel 17 is above 16"),
            (line(64, "0", "10"), "line 1: label 10 is no digit"),
            (line(64, "-1", "1"), "line 1: "),
            (line(64, "x", "1"), "line 1: "),
            (b"no gzip".to_vec(), "line 1: "),
            (FILE[..FILE.len() / 2].to_vec(), "line "),
        ];
        for (bytes, sentence) in rows {
            let e = parse(&bytes).unwrap_err();
            assert!(e.kind() == ErrorKind::Format && e.message().starts_with(sentence), "{e:?}\n{sentence}");
        }
    }
}
