//! The digits that were read wrongly, enlarged, each with what it is and what was read.

use super::canvas::{Anchor, Canvas, Ink};
use elinvar::{Error, Result};
use std::path::Path;

/// Pixels along each side of a digit.
const SIDE: usize = 8;
/// Points along each side of one of its pixels.
const DOT: f32 = 10.0;
const COLUMNS: usize = 8;
/// More are not worth a look; an untrained model reads hundreds wrongly.
const MOST: usize = 96;
/// From one digit to the next, so that a caption fits below it.
const STEP_X: f32 = SIDE as f32 * DOT + 28.0;
const STEP_Y: f32 = SIDE as f32 * DOT + 42.0;
const MARGIN: f32 = 30.0;
const HEAD: f32 = 74.0;

/// Draws the digits whose prediction differs from the label into an SVG file; if there are none, it
/// says so.
///
/// images: [n, 64] from 0 (paper) to 1 (ink), row by row   labels, predictions: [n]
///
/// # Errors
/// `InvalidArgument` if the three lengths do not belong together; `Io` with the path, if the file
/// cannot be written.
pub fn digit_sheet(path: &Path, images: &[f32], labels: &[i64], predictions: &[i64]) -> Result<()> {
    draw(images, labels, predictions)?.save(path)
}

fn draw(images: &[f32], labels: &[i64], predictions: &[i64]) -> Result<Canvas> {
    if labels.len() != predictions.len() || images.len() != labels.len() * SIDE * SIDE {
        return Err(Error::argument(format!(
            "digit sheet: {} pixels, {} labels and {} predictions; every label needs {} pixels and a prediction",
            images.len(),
            labels.len(),
            predictions.len(),
            SIDE * SIDE
        )));
    }
    let wrong: Vec<usize> = (0..labels.len()).filter(|&i| labels[i] != predictions[i]).collect();
    let rows = wrong.len().min(MOST).div_ceil(COLUMNS);
    let width = 2.0 * MARGIN + COLUMNS as f32 * STEP_X - (STEP_X - SIDE as f32 * DOT);
    let mut c = Canvas::new(width, HEAD + rows as f32 * STEP_Y + MARGIN / 2.0);
    c.text(MARGIN, 34.0, 17.0, Anchor::Start, Ink::BLACK, &title(wrong.len(), labels.len()));
    c.text(MARGIN, 54.0, 12.0, Anchor::Start, Ink::TEXT, &subtitle(wrong.len(), labels.len()));
    for (at, &i) in wrong.iter().take(MOST).enumerate() {
        let (x, y) = corner(at);
        draw_digit(&mut c, x, y, &images[i * SIDE * SIDE..][..SIDE * SIDE]);
        let caption = format!("true {}, read {}", labels[i], predictions[i]);
        let middle = x + SIDE as f32 * DOT / 2.0;
        c.text(middle, y + SIDE as f32 * DOT + 17.0, 12.0, Anchor::Middle, Ink::TEXT, &caption);
    }
    Ok(c)
}

fn title(wrong: usize, all: usize) -> String {
    match wrong {
        0 => format!("No digit of {all} was read wrongly"),
        1 => format!("1 digit of {all} was read wrongly"),
        n => format!("{n} digits of {all} were read wrongly"),
    }
}

fn subtitle(wrong: usize, all: usize) -> String {
    let right = 100.0 * (all - wrong) as f64 / all.max(1) as f64;
    let shown = if wrong > MOST { format!("; the first {MOST} are shown") } else { String::new() };
    format!("test accuracy {right:.2} %{shown}")
}

/// The upper left corner of a digit in the grid.
fn corner(at: usize) -> (f32, f32) {
    (MARGIN + (at % COLUMNS) as f32 * STEP_X, HEAD + (at / COLUMNS) as f32 * STEP_Y)
}

fn draw_digit(c: &mut Canvas, x: f32, y: f32, pixels: &[f32]) {
    let side = SIDE as f32 * DOT;
    c.rect(x - 1.0, y - 1.0, side + 2.0, side + 2.0, Ink::AXIS);
    c.rect(x, y, side, side, Ink::PAPER);
    for (i, darkness) in pixels.iter().enumerate().filter(|(_, darkness)| **darkness > 0.0) {
        let (row, column) = ((i / SIDE) as f32, (i % SIDE) as f32);
        c.rect(x + column * DOT, y + row * DOT, DOT, DOT, Ink::grey(*darkness));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use elinvar::ErrorKind;

    #[test]
    fn wrong_digits_are_drawn_and_right_ones_are_not() {
        // Image 0 is right; image 1 is a ramp, image 2 all ink.
        let mut images = vec![0.5; 64];
        images.extend((0..64).map(|i| i as f32 / 64.0));
        images.extend([1.0; 64]);
        let svg = draw(&images, &[1, 2, 3], &[1, 7, 8]).unwrap().svg();
        let pixel = |at: usize, i: usize, ink: Ink| {
            let (x, y) = corner(at);
            let (x, y) = (x + (i % 8) as f32 * DOT, y + (i / 8) as f32 * DOT);
            let rect = format!("<rect x=\"{x}\" y=\"{y}\" width=\"{DOT}\" height=\"{DOT}\" fill=\"{ink}\"");
            svg.matches(&rect).count()
        };
        assert_eq!(pixel(0, 0, Ink::PAPER), 0, "paper is not drawn over");
        for i in [1, 5, 8, 63] {
            assert_eq!(pixel(0, i, Ink::grey(i as f32 / 64.0)), 1, "pixel {i}");
            assert_eq!(pixel(1, i, Ink(0)), 1, "pixel {i}");
        }
        assert_eq!(svg.matches("true ").count(), 2, "there are only two");
        assert!(svg.contains("true 2, read 7") && svg.contains("true 3, read 8"));
    }

    #[test]
    fn titles() {
        let rows = [
            (0, 360, "No digit of 360 was read wrongly", "test accuracy 100.00 %"),
            (1, 360, "1 digit of 360 was read wrongly", "test accuracy 99.72 %"),
            (6, 360, "6 digits of 360 were read wrongly", "test accuracy 98.33 %"),
            (97, 100, "97 digits of 100 were read wrongly", "test accuracy 3.00 %; the first 96 are shown"),
            (0, 0, "No digit of 0 was read wrongly", "test accuracy 0.00 %"),
        ];
        for (wrong, all, big, small) in rows {
            assert_eq!((title(wrong, all).as_str(), subtitle(wrong, all).as_str()), (big, small));
        }
    }

    #[test]
    fn any_number_of_digits_fits() {
        for n in [0, 1, 8, 9, 96, 300] {
            let svg = draw(&vec![1.0; n * 64], &vec![1; n], &vec![2; n]).unwrap().svg();
            assert_eq!(svg.matches("fill=\"#000000\"").count(), 64 * n.min(MOST), "{n} digits");
        }
    }

    #[test]
    fn lengths_must_agree() {
        let rows: [(usize, &[i64], &[i64]); 3] = [(64, &[1], &[]), (63, &[1], &[1]), (64, &[1, 2], &[1, 2])];
        for (pixels, labels, predictions) in rows {
            let e = draw(&vec![0.0; pixels], labels, predictions).err().unwrap();
            assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
        }
    }
}
