//! Round numbers along an axis.

/// An axis: which values it spans, and how they are spread over it.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    log: bool,
    /// The values that are marked, with their labels.
    pub ticks: Vec<(f64, String)>,
}

impl Scale {
    /// A linear axis that spans these values, with about so many ticks.
    pub fn linear(low: f64, high: f64, about: usize) -> Scale {
        // An axis needs some length, even if all values are the same.
        let pad = if low == high { low.abs().max(1.0) / 2.0 } else { 0.0 };
        let (low, high) = (low - pad, high + pad);
        let step = round_step((high - low) / about as f64);
        let first = (low / step - 1e-9).ceil() as i64;
        let digits = (-step.log10().floor()).max(0.0) as usize;
        let ticks = (first..)
            .map(|i| i as f64 * step)
            .take_while(|v| *v <= high + step * 1e-9)
            .map(|v| (v, format!("{v:.digits$}")))
            .collect();
        Scale { low, high, log: false, ticks }
    }

    /// A linear axis whose ends are ticks.
    pub fn linear_to_ticks(low: f64, high: f64, about: usize) -> Scale {
        let inner = Scale::linear(low, high, about);
        let step = round_step((inner.high - inner.low) / about as f64);
        Scale::linear(
            (inner.low / step + 1e-9).floor() * step,
            (inner.high / step - 1e-9).ceil() * step,
            about,
        )
    }

    /// A logarithmic axis that spans these positive values; ticks at 1, 2 and 5 times the powers of
    /// ten, or at the powers alone if there are many.
    pub fn log(low: f64, high: f64) -> Scale {
        let (low, high) = (low / 1.15, high * 1.15);
        let decades = low.log10().floor() as i32..=high.log10().floor() as i32;
        let wide = (high / low).log10() > 3.0;
        let marks: &[i32] = if wide { &[1] } else { &[1, 2, 5] };
        let ticks = decades
            .flat_map(|d| marks.iter().map(move |m| (f64::from(*m) * 10f64.powi(d), d)))
            .filter(|(v, _)| (low..=high).contains(v))
            .map(|(v, d)| match d {
                -4..5 => (v, format!("{v:.*}", (-d).max(0) as usize)),
                _ => (v, format!("{v:e}")),
            })
            .collect::<Vec<_>>();
        // So short an axis is almost linear.
        let ticks = if ticks.len() < 2 { Scale::linear(low, high, 6).ticks } else { ticks };
        Scale { low, high, log: true, ticks }
    }

    /// Where a value is along the axis, from 0 to 1.
    pub fn place(&self, v: f64) -> f32 {
        let at = |v: f64| if self.log { v.ln() } else { v };
        ((at(v) - at(self.low)) / (at(self.high) - at(self.low))) as f32
    }
}

/// The smallest of 1, 2 and 5 times a power of ten that is not below `step`.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0].map(|m| m * power).into_iter().find(|s| *s >= step * (1.0 - 1e-9)).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        let rows = [
            (Scale::linear(0.0, 10.0, 5), "0 2 4 6 8 10"),
            (Scale::linear(0.0, 9.7, 5), "0 2 4 6 8"),
            (Scale::linear(1.0, 30.0, 8), "5 10 15 20 25 30"),
            (Scale::linear(0.0, 0.3, 3), "0.0 0.1 0.2 0.3"),
            (Scale::linear(7.0, 7.0, 4), "4 6 8 10"),
            (Scale::linear(0.0, 0.0, 4), "-0.5 0.0 0.5"),
            (Scale::linear_to_ticks(83.4, 98.3, 4), "80 85 90 95 100"),
            (Scale::linear_to_ticks(8.0, 98.3, 4), "0 50 100"),
            (Scale::log(0.0021, 2.4), "0.01 0.1 1"),
            (Scale::log(0.02, 2.4), "0.02 0.05 0.1 0.2 0.5 1 2"),
            (Scale::log(1e-9, 1e-2), "1e-9 1e-8 1e-7 1e-6 1e-5 0.0001 0.001 0.01"),
            (Scale::log(3.0, 3.0), "2.8 3.0 3.2 3.4"),
        ];
        for (scale, want) in rows {
            let labels: Vec<_> = scale.ticks.iter().map(|t| t.1.as_str()).collect();
            assert_eq!(labels.join(" "), want, "{scale:?}");
        }
    }

    #[test]
    fn places_run_from_0_to_1() {
        let s = Scale::linear(2.0, 6.0, 4);
        assert_eq!([2.0, 3.0, 6.0].map(|v| s.place(v)), [0.0, 0.25, 1.0]);
        let s = Scale::log(0.01, 1.0);
        assert!(s.place(0.01) > 0.0 && s.place(1.0) < 1.0 && (s.place(0.1) - 0.5).abs() < 1e-6);
    }
}
