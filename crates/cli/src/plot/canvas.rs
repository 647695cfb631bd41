//! A sheet to draw on: rectangles, lines and text, saved as PNG.
//!
//! Coordinates are in points from the upper left corner; a point is [`SCALE`] pixels wide, so that
//! the picture is sharp on dense screens.

use elinvar::{Error, Result};
use std::path::Path;
use tiny_skia::{
    Color, FillRule, LineCap, LineJoin, Paint, PathBuilder, Pixmap, Rect, Shader, Stroke, Transform,
};
use ttf_parser::{Face, OutlineBuilder};

/// Pixels per point.
const SCALE: f32 = 2.0;

/// A colour as 0xRRGGBB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ink(pub u32);

impl Ink {
    pub const PAPER: Ink = Ink(0xff_ff_ff);
    /// Titles.
    pub const BLACK: Ink = Ink(0x11_18_27);
    /// Labels and captions.
    pub const TEXT: Ink = Ink(0x4b_55_63);
    /// Axes and frames.
    pub const AXIS: Ink = Ink(0x9c_a3_af);
    /// Grid lines.
    pub const GRID: Ink = Ink(0xe5_e7_eb);

    /// The grey of this darkness, from 0 (paper) to 1 (black).
    pub fn grey(darkness: f32) -> Ink {
        let g = 255 - (darkness.clamp(0.0, 1.0) * 255.0).round() as u32;
        Ink(g << 16 | g << 8 | g)
    }

    fn color(self) -> Color {
        let [_, r, g, b] = self.0.to_be_bytes();
        Color::from_rgba8(r, g, b, 255)
    }

    fn paint(self) -> Paint<'static> {
        Paint { shader: Shader::SolidColor(self.color()), ..Paint::default() }
    }
}

/// Where a text stands relative to its coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// Its middle is there.
    Middle,
    /// It ends there.
    End,
}

/// A sheet of paper.
pub struct Canvas {
    pixels: Pixmap,
    font: Face<'static>,
}

impl Canvas {
    /// An empty sheet of this size, in points.
    pub fn new(width: f32, height: f32) -> Result<Canvas> {
        let mut pixels = Pixmap::new((width * SCALE) as u32, (height * SCALE) as u32)
            .ok_or_else(|| Error::memory(format!("a picture of {width} x {height} points is too large")))?;
        pixels.fill(Ink::PAPER.color());
        let font = Face::parse(include_bytes!("../../assets/DejaVuSans-ascii.ttf"), 0);
        Ok(Canvas { pixels, font: font.expect("the font inside the program is whole") })
    }

    /// A filled rectangle.
    pub fn rect(&mut self, x: f32, y: f32, width: f32, height: f32, ink: Ink) {
        if let Some(rect) = Rect::from_xywh(x, y, width, height) {
            self.pixels.fill_rect(rect, &ink.paint(), Self::scale(), None);
        }
    }

    /// Straight lines from point to point.
    pub fn line(&mut self, points: &[(f32, f32)], width: f32, ink: Ink) {
        let mut path = PathBuilder::new();
        for (i, &(x, y)) in points.iter().enumerate() {
            if i == 0 { path.move_to(x, y) } else { path.line_to(x, y) }
        }
        let stroke =
            Stroke { width, line_cap: LineCap::Round, line_join: LineJoin::Round, ..Stroke::default() };
        if let Some(path) = path.finish() {
            self.pixels.stroke_path(&path, &ink.paint(), &stroke, Self::scale(), None);
        }
    }

    /// A filled circle.
    pub fn dot(&mut self, x: f32, y: f32, radius: f32, ink: Ink) {
        if let Some(path) = PathBuilder::from_circle(x, y, radius) {
            self.pixels.fill_path(&path, &ink.paint(), FillRule::Winding, Self::scale(), None);
        }
    }

    /// One line of text; `y` is its baseline. A sign that the font lacks is drawn as an empty box.
    pub fn text(&mut self, x: f32, y: f32, size: f32, anchor: Anchor, ink: Ink, text: &str) {
        let left = match anchor {
            Anchor::Start => x,
            Anchor::Middle => x - self.width(size, text) / 2.0,
            Anchor::End => x - self.width(size, text),
        };
        let mut outline = Outline { path: PathBuilder::new(), x: left, y, scale: self.em(size) };
        for c in text.chars() {
            let glyph = self.font.glyph_index(c).unwrap_or_default();
            self.font.outline_glyph(glyph, &mut outline);
            outline.x += self.advance(c) * outline.scale;
        }
        if let Some(path) = outline.path.finish() {
            self.pixels.fill_path(&path, &ink.paint(), FillRule::Winding, Self::scale(), None);
        }
    }

    /// How wide a text is, in points.
    pub fn width(&self, size: f32, text: &str) -> f32 {
        text.chars().map(|c| self.advance(c)).sum::<f32>() * self.em(size)
    }

    /// Saves the sheet as a PNG file, as a whole or not at all.
    ///
    /// # Errors
    /// `Io` with the path, if it cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let png = self.png()?;
        elinvar::io::atomic_write(path, |w| Ok(w.write_all(&png)?))
    }

    fn png(&self) -> Result<Vec<u8>> {
        self.pixels.encode_png().map_err(|e| Error::io(format!("a picture could not be encoded: {e}")))
    }

    fn scale() -> Transform {
        Transform::from_scale(SCALE, SCALE)
    }

    /// Points per unit of the font.
    fn em(&self, size: f32) -> f32 {
        size / f32::from(self.font.units_per_em())
    }

    fn advance(&self, c: char) -> f32 {
        let glyph = self.font.glyph_index(c).unwrap_or_default();
        f32::from(self.font.glyph_hor_advance(glyph).unwrap_or(0))
    }

    /// The colour at a place, for tests.
    #[cfg(test)]
    pub fn at(&self, x: f32, y: f32) -> Ink {
        let p = self.pixels.pixel((x * SCALE) as u32, (y * SCALE) as u32).expect("on the sheet");
        Ink(u32::from_be_bytes([0, p.red(), p.green(), p.blue()]))
    }

    /// How many pixels have a colour, for tests.
    #[cfg(test)]
    pub fn count(&self, ink: Ink) -> usize {
        let [_, r, g, b] = ink.0.to_be_bytes();
        self.pixels.pixels().iter().filter(|p| (p.red(), p.green(), p.blue()) == (r, g, b)).count()
    }
}

/// Puts a glyph, whose y axis points upwards, into a path.
struct Outline {
    path: PathBuilder,
    x: f32,
    y: f32,
    scale: f32,
}

impl Outline {
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        (self.x + x * self.scale, self.y - y * self.scale)
    }
}

impl OutlineBuilder for Outline {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.move_to(x, y);
    }
    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.line_to(x, y);
    }
    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.path.quad_to(x1, y1, x, y);
    }
    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }
    fn close(&mut self) {
        self.path.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_drawn_where_it_is_asked_for() {
        let ink = Ink(0xff0000);
        let drawn = |anchor| {
            let mut c = Canvas::new(200.0, 30.0).unwrap();
            c.text(100.0, 20.0, 12.0, anchor, ink, "HIH");
            let xs: Vec<f32> = (0..400)
                .map(|i| i as f32 / 2.0)
                .filter(|x| (0..60).any(|j| c.at(*x, j as f32 / 2.0) != Ink::PAPER))
                .collect();
            (xs[0], xs[xs.len() - 1])
        };
        let width = Canvas::new(1.0, 1.0).unwrap().width(12.0, "HIH");
        assert!((15.0..30.0).contains(&width), "{width}");
        for (anchor, left) in
            [(Anchor::Start, 100.0), (Anchor::Middle, 100.0 - width / 2.0), (Anchor::End, 100.0 - width)]
        {
            let (from, to) = drawn(anchor);
            assert!(from >= left && from < left + 3.0, "{anchor:?}: from {from}, not {left}");
            assert!(
                to <= left + width && to > left + width - 3.0,
                "{anchor:?}: to {to}, not {}",
                left + width
            );
        }
    }

    #[test]
    fn a_sheet_too_large_is_an_error() {
        assert!(Canvas::new(1e9, 1e9).is_err() && Canvas::new(0.0, 10.0).is_err());
    }
}
