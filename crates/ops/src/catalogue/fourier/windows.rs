//! Window functions, in f64 on the host: PyTorch's, with its names.

use super::tables::root_of_unity;
use crate::prelude::*;
use elinvar_core::host;

/// A function that is multiplied with the windows of a short-time transform.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Window {
    /// 1 - |2 k / n - 1|
    Bartlett,
    /// 0.42 - 0.5 cos(2 pi k / n) + 0.08 cos(4 pi k / n)
    Blackman,
    /// alpha - beta cos(2 pi k / n)
    Hamming {
        /// 0.54 in PyTorch.
        alpha: f64,
        /// 0.46 in PyTorch.
        beta: f64,
    },
    /// 0.5 - 0.5 cos(2 pi k / n)
    Hann,
    /// I0(beta sqrt(1 - (2 k / n - 1)^2)) / I0(beta), with the modified Bessel function I0.
    Kaiser {
        /// 12 in PyTorch.
        beta: f64,
    },
}

/// I0(x), by its power series (Abramowitz and Stegun, 9.6.10), whose terms are all positive.
fn bessel_i0(x: f64) -> f64 {
    let quarter = x * x / 4.0;
    let (mut term, mut sum, mut k) = (1.0, 1.0, 1.0);
    while term > sum * 1e-17 {
        term *= quarter / (k * k);
        sum += term;
        k += 1.0;
    }
    sum
}

impl Window {
    /// Its `length` values: n is `length` for a `periodic` window, as transforms want it, and
    /// `length - 1` for a symmetric one.
    ///
    /// # Errors
    /// `InvalidArgument` if beta of a Kaiser window is not in 0..=700, beyond which I0 overflows.
    pub fn values(self, length: usize, periodic: bool) -> Result<Vec<f64>> {
        if let Window::Kaiser { beta } = self
            && !(0.0..=700.0).contains(&beta)
        {
            return Err(Error::argument(format!("kaiser_window: beta {beta}; it must be in 0..=700")));
        }
        if length == 1 {
            return Ok(vec![1.0]);
        }
        let n = if periodic { length } else { length.saturating_sub(1) };
        let cos = |k: usize| root_of_unity(k % n, n)[0];
        host::collected((0..length).map(|k| {
            let from_middle = 2.0 * k as f64 / n as f64 - 1.0;
            match self {
                Window::Bartlett => 1.0 - from_middle.abs(),
                Window::Blackman => 0.42 - 0.5 * cos(k) + 0.08 * cos(2 * k),
                Window::Hamming { alpha, beta } => alpha - beta * cos(k),
                Window::Hann => 0.5 - 0.5 * cos(k),
                Window::Kaiser { beta } => {
                    bessel_i0(beta * (1.0 - from_middle * from_middle).max(0.0).sqrt()) / bessel_i0(beta)
                }
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From scipy.signal.get_window and numpy.kaiser, rounded to ten digits.
    #[test]
    fn values() {
        let near = |w: Window, periodic, expected: &[f64]| {
            let got = w.values(expected.len(), periodic).unwrap();
            for (g, e) in got.iter().zip(expected) {
                assert!((g - e).abs() < 1e-9, "{w:?}: {got:?}, expected {expected:?}");
            }
        };
        near(Window::Hann, true, &[0.0, 0.5, 1.0, 0.5]);
        near(Window::Hann, false, &[0.0, 0.5, 1.0, 0.5, 0.0]);
        near(Window::Hamming { alpha: 0.54, beta: 0.46 }, true, &[0.08, 0.54, 1.0, 0.54]);
        near(Window::Bartlett, true, &[0.0, 0.5, 1.0, 0.5]);
        near(Window::Blackman, true, &[0.0, 0.34, 1.0, 0.34]);
        near(Window::Kaiser { beta: 0.0 }, true, &[1.0, 1.0, 1.0, 1.0]);
        assert_eq!(Window::Hann.values(1, true).unwrap(), [1.0]);
        assert_eq!(Window::Hann.values(0, true).unwrap(), []);
        assert!(Window::Kaiser { beta: -1.0 }.values(3, true).is_err());
    }
}
