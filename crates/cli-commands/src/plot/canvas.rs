//! A sheet to draw on: rectangles, lines and text, saved as SVG.
//!
//! Coordinates are in points from the upper left corner.

use elinvar::Result;
use std::fmt::Write;
use std::path::Path;

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
}

impl std::fmt::Display for Ink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "#{:06x}", self.0)
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

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        }
    }
}

/// A sheet of paper.
pub struct Canvas {
    width: f32,
    height: f32,
    shapes: String,
}

impl Canvas {
    /// An empty sheet of this size, in points.
    pub fn new(width: f32, height: f32) -> Canvas {
        let mut sheet = Canvas { width, height, shapes: String::new() };
        sheet.rect(0.0, 0.0, width, height, Ink::PAPER);
        sheet
    }

    /// A filled rectangle. Those that touch leave no gap, at any size of the picture.
    pub fn rect(&mut self, x: f32, y: f32, width: f32, height: f32, ink: Ink) {
        let [x, y, width, height] = [x, y, width, height].map(number);
        self.add(format_args!(
            r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{ink}" shape-rendering="crispEdges"/>"#
        ));
    }

    /// Straight lines from point to point.
    pub fn line(&mut self, points: &[(f32, f32)], width: f32, ink: Ink) {
        let points: Vec<String> =
            points.iter().map(|(x, y)| format!("{},{}", number(*x), number(*y))).collect();
        let (points, width) = (points.join(" "), number(width));
        self.add(format_args!(
            r#"<polyline points="{points}" fill="none" stroke="{ink}" stroke-width="{width}"/>"#
        ));
    }

    /// A filled circle.
    pub fn dot(&mut self, x: f32, y: f32, radius: f32, ink: Ink) {
        let [x, y, radius] = [x, y, radius].map(number);
        self.add(format_args!(r#"<circle cx="{x}" cy="{y}" r="{radius}" fill="{ink}"/>"#));
    }

    /// One line of text; `y` is its baseline.
    pub fn text(&mut self, x: f32, y: f32, size: f32, anchor: Anchor, ink: Ink, text: &str) {
        self.words(x, y, size, anchor, &format!(r#"<tspan fill="{ink}">{}</tspan>"#, escaped(text)));
    }

    /// Names, each behind a stroke of its colour; the last ends at `x`, and `y` is their baseline.
    pub fn legend(&mut self, x: f32, y: f32, size: f32, names: &[(Ink, &str)]) {
        let mut spans = String::new();
        for (i, (ink, name)) in names.iter().enumerate() {
            // Some viewers shift a whole text by the distance of its first span.
            let apart = if i > 0 { r#" dx="20""# } else { "" };
            let (text, name) = (Ink::TEXT, escaped(name));
            spans.push_str(&format!(
                r#"<tspan{apart} fill="{ink}">━━</tspan><tspan dx="6" fill="{text}">{name}</tspan>"#
            ));
        }
        self.words(x, y, size, Anchor::End, &spans);
    }

    fn words(&mut self, x: f32, y: f32, size: f32, anchor: Anchor, spans: &str) {
        let ([x, y, size], anchor) = ([x, y, size].map(number), anchor.name());
        self.add(format_args!(
            r#"<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}">{spans}</text>"#
        ));
    }

    fn add(&mut self, shape: std::fmt::Arguments<'_>) {
        // A string takes all that is written to it.
        let _ = writeln!(self.shapes, "{shape}");
    }

    /// The sheet as the contents of an SVG file.
    pub fn svg(&self) -> String {
        let [width, height] = [self.width, self.height].map(number);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"DejaVu Sans, Verdana, sans-serif\" stroke-linecap=\"round\" stroke-linejoin=\"round\">\n\
             {}</svg>\n",
            self.shapes
        )
    }

    /// Saves the sheet as an SVG file, as a whole or not at all.
    ///
    /// # Errors
    /// `Io` with the path, if it cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        elinvar::io::atomic_write(path, |w| Ok(w.write_all(self.svg().as_bytes())?))
    }
}

/// To a hundredth of a point, in few characters.
pub fn number(v: f32) -> String {
    let text = format!("{v:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_written_as_svg() {
        let mut c = Canvas::new(200.0, 30.5);
        c.rect(1.0, 2.0, 3.25, 4.0, Ink::grey(1.0));
        c.line(&[(0.0, 1.5), (2.0, 100.0)], 2.0, Ink(0x00_00_ff));
        c.dot(1.0, 2.0, 3.0, Ink::grey(0.0));
        c.text(7.0, 8.0, 12.0, Anchor::Middle, Ink::TEXT, "a < b & c");
        c.legend(100.0, 8.0, 12.0, &[(Ink(0xff_00_00), "x"), (Ink(0x00_ff_00), "y")]);
        let want = [
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="200" height="30.5" viewBox="0 0 200 30.5" font-family="DejaVu Sans, Verdana, sans-serif" stroke-linecap="round" stroke-linejoin="round">"##,
            r##"<rect x="0" y="0" width="200" height="30.5" fill="#ffffff" shape-rendering="crispEdges"/>"##,
            r##"<rect x="1" y="2" width="3.25" height="4" fill="#000000" shape-rendering="crispEdges"/>"##,
            r##"<polyline points="0,1.5 2,100" fill="none" stroke="#0000ff" stroke-width="2"/>"##,
            r##"<circle cx="1" cy="2" r="3" fill="#ffffff"/>"##,
            r##"<text x="7" y="8" font-size="12" text-anchor="middle"><tspan fill="#4b5563">a &lt; b &amp; c</tspan></text>"##,
            r##"<text x="100" y="8" font-size="12" text-anchor="end"><tspan fill="#ff0000">━━</tspan><tspan dx="6" fill="#4b5563">x</tspan><tspan dx="20" fill="#00ff00">━━</tspan><tspan dx="6" fill="#4b5563">y</tspan></text>"##,
            "</svg>\n",
        ];
        assert_eq!(c.svg(), want.join("\n"));
    }

    #[test]
    fn numbers_are_short() {
        for (v, text) in
            [(0.0, "0"), (10.0, "10"), (0.125, "0.12"), (-1.5, "-1.5"), (1e3, "1000"), (2.999, "3")]
        {
            assert_eq!(number(v), text);
        }
    }
}
