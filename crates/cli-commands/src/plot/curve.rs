//! The learning curve: panels below one another that share the horizontal axis.

use super::canvas::{Anchor, Canvas, Ink};
use super::ticks::Scale;
use elinvar::Result;
use std::path::Path;

const WIDTH: f32 = 760.0;
/// Height of a panel's plot.
const PLOT: f32 = 210.0;
/// Above a plot: the panel's title and legend. Below the last: the horizontal axis.
const HEAD: f32 = 46.0;
const TITLE: f32 = 44.0;
const FOOT: f32 = 52.0;
const LEFT: f32 = 64.0;
const RIGHT: f32 = 24.0;

/// A line in a panel.
pub struct Series {
    /// What it shows, for the legend.
    pub name: &'static str,
    /// Its colour.
    pub ink: Ink,
    /// How thick it is drawn.
    pub width: f32,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// A plot with its own vertical axis.
pub struct Panel {
    /// What the vertical axis shows.
    pub label: &'static str,
    /// A logarithmic vertical axis, on which values that are not positive do not appear.
    pub log: bool,
    /// The lines, the first at the bottom.
    pub series: Vec<Series>,
}

impl Panel {
    fn shows(&self, (x, y): (f64, f64)) -> bool {
        x.is_finite() && y.is_finite() && (!self.log || y > 0.0)
    }

    /// The smallest and the largest of a coordinate, if anything is shown.
    fn range(&self, of: impl Fn((f64, f64)) -> f64) -> Option<(f64, f64)> {
        let shown = self.series.iter().flat_map(|s| &s.points).filter(|p| self.shows(**p));
        shown.map(|p| of(*p)).fold(None, |r, v| match r {
            None => Some((v, v)),
            Some((low, high)) => Some((low.min(v), high.max(v))),
        })
    }
}

/// Draws the panels into an SVG file. Points that are not finite leave a gap.
///
/// # Errors
/// `Io` with the path, if the file cannot be written.
pub fn learning_curve(path: &Path, title: &str, x_label: &str, panels: &[Panel]) -> Result<()> {
    draw(title, x_label, panels).save(path)
}

fn draw(title: &str, x_label: &str, panels: &[Panel]) -> Canvas {
    let mut c = Canvas::new(WIDTH, TITLE + panels.len() as f32 * (HEAD + PLOT) + FOOT);
    c.text(LEFT, 32.0, 17.0, Anchor::Start, Ink::BLACK, title);
    let ranges = panels.iter().filter_map(|p| p.range(|(x, _)| x));
    let (low, high) = ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or((0.0, 1.0));
    // Steps and epochs count from the start of the training.
    let x = Scale::linear(low.min(0.0), high, 8);
    for (i, panel) in panels.iter().enumerate() {
        draw_panel(&mut c, panel, &x, TITLE + i as f32 * (HEAD + PLOT) + HEAD);
    }
    let bottom = TITLE + panels.len() as f32 * (HEAD + PLOT);
    for (v, label) in &x.ticks {
        c.text(across(&x, *v), bottom + 17.0, 11.0, Anchor::Middle, Ink::TEXT, label);
    }
    c.text((LEFT + WIDTH - RIGHT) / 2.0, bottom + 38.0, 12.0, Anchor::Middle, Ink::TEXT, x_label);
    c
}

fn across(x: &Scale, v: f64) -> f32 {
    LEFT + x.place(v) * (WIDTH - RIGHT - LEFT)
}

fn draw_panel(c: &mut Canvas, panel: &Panel, x: &Scale, top: f32) {
    let (right, bottom) = (WIDTH - RIGHT, top + PLOT);
    c.text(LEFT, top - 12.0, 12.0, Anchor::Start, Ink::TEXT, panel.label);
    // At the right edge, so that the data is never covered.
    let names: Vec<_> = panel.series.iter().map(|s| (s.ink, s.name)).collect();
    c.legend(right, top - 12.0, 12.0, &names);
    let Some((low, high)) = panel.range(|(_, y)| y) else {
        c.rect(LEFT, top, right - LEFT, PLOT, Ink::GRID);
        let middle = ((LEFT + right) / 2.0, top + PLOT / 2.0);
        c.text(middle.0, middle.1, 12.0, Anchor::Middle, Ink::TEXT, "no value can be shown");
        return;
    };
    let y = if panel.log { Scale::log(low, high) } else { Scale::linear_to_ticks(low, high, 5) };
    let up = |v: f64| bottom - y.place(v) * PLOT;
    for (v, label) in &y.ticks {
        c.line(&[(LEFT, up(*v)), (right, up(*v))], 1.0, Ink::GRID);
        c.text(LEFT - 9.0, up(*v) + 4.0, 11.0, Anchor::End, Ink::TEXT, label);
    }
    for (v, _) in &x.ticks {
        c.line(&[(across(x, *v), bottom), (across(x, *v), bottom + 4.0)], 1.0, Ink::AXIS);
    }
    c.line(&[(LEFT, top), (LEFT, bottom), (right, bottom)], 1.0, Ink::AXIS);
    for series in &panel.series {
        for run in series.points.split(|p| !panel.shows(*p)) {
            let run: Vec<_> = run.iter().map(|(a, b)| (across(x, *a), up(*b))).collect();
            match run[..] {
                [] => {}
                // A line needs two points; one alone is still a result.
                [(a, b)] => c.dot(a, b, 3.0, series.ink),
                _ => c.line(&thinned(&run), series.width, series.ink),
            }
        }
    }
}

/// What is seen of a line from left to right: of the points in a quarter of a point's width, the
/// first, the lowest, the highest and the last. A training has a million steps.
fn thinned(run: &[(f32, f32)]) -> Vec<(f32, f32)> {
    let column = |p: &(f32, f32)| (p.0 * 4.0) as i32;
    let mut seen = vec![];
    for points in run.chunk_by(|a, b| column(a) == column(b)) {
        match points {
            [first, middle @ .., last] if middle.len() > 2 => {
                let by_height = |a: &&(f32, f32), b: &&(f32, f32)| a.1.total_cmp(&b.1);
                seen.push(*first);
                seen.extend(middle.iter().min_by(by_height));
                seen.extend(middle.iter().max_by(by_height));
                seen.push(*last);
            }
            few => seen.extend(few),
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::super::canvas::number;
    use super::*;

    const A: Ink = Ink(0x2563eb);
    const B: Ink = Ink(0xea580c);

    fn series(ink: Ink, points: &[(f64, f64)]) -> Series {
        Series { name: "", ink, width: 2.0, points: points.to_vec() }
    }

    fn panel(log: bool, series: Vec<Series>) -> Panel {
        Panel { label: "", log, series }
    }

    #[test]
    fn lines_pass_through_their_points() {
        let up = series(A, &[(0.0, 0.0), (10.0, 100.0)]);
        let flat = series(B, &[(0.0, 1.0), (10.0, 1.0)]);
        let svg = draw("t", "x", &[panel(false, vec![up]), panel(true, vec![flat])]).svg();
        let (left, right, top) = (number(LEFT), number(WIDTH - RIGHT), TITLE + HEAD);
        let bottom = number(top + PLOT);
        let middle = number(top + HEAD + PLOT + PLOT / 2.0);
        for line in [
            format!("points=\"{left},{bottom} {right},{}\" fill=\"none\" stroke=\"{A}\"", number(top)),
            format!("points=\"{left},{middle} {right},{middle}\" fill=\"none\" stroke=\"{B}\""),
        ] {
            assert!(svg.contains(&line), "{line}\n{svg}");
        }
    }

    /// A single point, a gap, nothing to show at all, nothing given: each gives a picture.
    #[test]
    fn odd_data_gives_a_picture() {
        let nan = f64::NAN;
        let rows: [(bool, &[(f64, f64)], bool); 7] = [
            (false, &[(1.0, 2.0)], true),
            (true, &[(1.0, 2.0)], true),
            (false, &[(0.0, 1.0), (1.0, nan), (2.0, 1.0)], true),
            (true, &[(0.0, 0.0), (1.0, -1.0)], false),
            (false, &[(0.0, nan), (1.0, f64::INFINITY)], false),
            (false, &[], false),
            (true, &[(0.0, 1e-300), (1.0, 1e300)], true),
        ];
        for (log, points, shown) in rows {
            let svg = draw("t", "x", &[panel(log, vec![series(A, points)])]).svg();
            let drawn = svg.contains(&format!("stroke=\"{A}\"")) || svg.contains("<circle");
            assert_eq!(drawn, shown, "{log} {points:?}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{log} {points:?}");
        }
        draw("t", "x", &[]);
    }

    #[test]
    fn a_long_run_is_thinned_to_what_is_seen() {
        let few = [(0.0, 1.0), (0.1, 5.0), (0.2, -3.0), (0.24, 2.0), (0.25, 9.0)];
        assert_eq!(thinned(&few), few);
        let many: Vec<_> = (0..250).map(|i| (i as f32 / 1000.0, (i % 7) as f32)).collect();
        assert_eq!(thinned(&many), [many[0], (0.007, 0.0), (0.244, 6.0), many[249]]);
        let long: Vec<_> = (0..1_000_000).map(|i| (i as f32 / 1500.0, 0.0)).collect();
        assert!(thinned(&long).len() < 12_000);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("missing/curve.svg");
        let e = learning_curve(&path, "t", "x", &[]).unwrap_err();
        assert!(e.message().starts_with(&path.display().to_string()), "{e}");
    }
}
