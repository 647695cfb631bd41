//! Cosines and sines, computed on the host in f64 by the functions of `elinvar-lane`, so that all
//! machines have the same, and kept for the next transform of the same length.

use super::plan::{Plan, plan};
use crate::lane::Lane;
use std::collections::HashMap;
use std::f64::consts::{FRAC_1_SQRT_2, PI};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// cos and sin of 2 pi k / n, for k < n. The angle is reduced to an eighth of a turn in whole
/// numbers first, so that multiples of an eighth are exact and the rest is symmetric.
pub fn root_of_unity(k: usize, n: usize) -> [f64; 2] {
    debug_assert!(k < n, "an angle within one turn");
    // Fractions of a turn a / b, in steps of which each is one reflection.
    let (mut a, mut b) = (k as u128, n as u128);
    let lower_half = 2 * a > b;
    if lower_half {
        a = b - a;
    }
    let left_half = 4 * a > b;
    if left_half {
        (a, b) = (b - 2 * a, 2 * b);
    }
    let steep = 8 * a > b;
    if steep {
        (a, b) = (b - 4 * a, 4 * b);
    }
    // Sine and cosine of an eighth are one number, which both functions may miss by an ulp.
    let [mut cos, mut sin] = if 8 * a == b {
        [FRAC_1_SQRT_2; 2]
    } else {
        let angle = 2.0 * PI * a as f64 / b as f64;
        [Lane::cos(angle), Lane::sin(angle)]
    };
    if steep {
        (cos, sin) = (sin, cos);
    }
    if left_half {
        cos = -cos;
    }
    if lower_half {
        sin = -sin;
    }
    [cos, sin]
}

/// All n of [`root_of_unity`]. Where an eighth of a turn is a whole number of steps, the
/// reflections of one eighth: their fractions are the same numbers times powers of two.
fn roots_of_unity(n: usize) -> Vec<[f64; 2]> {
    if !n.is_multiple_of(8) {
        return (0..n).map(|k| root_of_unity(k, n)).collect();
    }
    let eighth: Vec<_> = (0..=n / 8).map(|k| root_of_unity(k, n)).collect();
    let reflected = |k: usize| {
        let half = k.min(n - k);
        let quarter = half.min(n / 2 - half);
        let [a, b] = eighth[quarter.min(n / 4 - quarter)];
        let [cos, sin] = if quarter > n / 8 { [b, a] } else { [a, b] };
        [if half > n / 4 { -cos } else { cos }, if k > n / 2 { -sin } else { sin }]
    };
    (0..n).map(reflected).collect()
}

/// What a table holds; the key under which it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Table {
    /// `[2, n, 2, n]`: (re', k) from (re, j), the matrix of a transform of two planes.
    Planes {
        /// Its length.
        n: usize,
    },
    /// `[radix, l]`: cos of 2 pi t k / (radix l).
    TwiddleCos {
        /// Numbers t.
        radix: usize,
        /// Numbers k.
        l: usize,
    },
    /// `[2, radix, l]`: what the other plane is multiplied by for a product with
    /// exp(-2 pi i t k / (radix l)).
    TwiddleSin {
        /// Numbers t.
        radix: usize,
        /// Numbers k.
        l: usize,
    },
    /// `[n, 1]`: cos(pi j^2 / n).
    ChirpCos {
        /// Its length.
        n: usize,
    },
    /// `[n, 2]`: what the other of a pair is multiplied by for a product with exp(-pi i j^2 / n).
    ChirpSin {
        /// Its length.
        n: usize,
    },
    /// `[m, 1]`: the real part of the transform of exp(pi i j^2 / n) / m for |j| < n, in a circle
    /// of m, computed in f64.
    SpectrumRe {
        /// The length that is transformed.
        n: usize,
        /// That of the convolution.
        m: usize,
    },
    /// `[m, 2]`: what the other of a pair is multiplied by for a product with that transform.
    SpectrumCross {
        /// The length that is transformed.
        n: usize,
        /// That of the convolution.
        m: usize,
    },
    /// `[n / 2 + 1, 2]`: cos of 2 pi k / n for one part, minus that for the other; the real part's
    /// is negative if `inverse`.
    HalfCos {
        /// The length of the real numbers.
        n: usize,
        /// From half a spectrum?
        inverse: bool,
    },
    /// `[n / 2 + 1, 1]`: -sin of 2 pi k / n.
    HalfSin {
        /// The length of the real numbers.
        n: usize,
    },
}

/// All tables together hold at most this many numbers (32 MiB); beyond it they are made again.
const MOST_KEPT: usize = 1 << 22;

static KEPT: LazyLock<Mutex<HashMap<Table, Arc<[f64]>>>> = LazyLock::new(Mutex::default);

impl Table {
    /// The numbers, row-major.
    pub fn numbers(self) -> Arc<[f64]> {
        let kept = || KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(all) = kept().get(&self) {
            return all.clone();
        }
        let all: Arc<[f64]> = self.make().into();
        if all.len() <= MOST_KEPT / 2 {
            let mut kept = kept();
            if kept.values().map(|t| t.len()).sum::<usize>() + all.len() > MOST_KEPT {
                kept.clear();
            }
            kept.insert(self, all.clone());
        }
        all
    }

    fn make(self) -> Vec<f64> {
        match self {
            // (re + i im)(cos - i sin) = (re cos + im sin) + i (im cos - re sin)
            Table::Planes { n } => matrix([2, n], [2, n], |[c, k], [d, j]| {
                let root = root_of_unity(j * k % n, n);
                if c == d { root[0] } else { crossed(c, root) }
            }),
            Table::TwiddleCos { radix, l } => {
                let roots = roots_of_unity(radix * l);
                matrix([radix, l], [1, 1], |[t, k], _| roots[t * k][0])
            }
            Table::TwiddleSin { radix, l } => {
                let roots = roots_of_unity(radix * l);
                matrix([2, radix], [l, 1], |[c, t], [k, _]| crossed(c, roots[t * k]))
            }
            Table::ChirpCos { n } => matrix([n, 1], [1, 1], |[j, _], _| chirp(j, n)[0]),
            Table::ChirpSin { n } => matrix([n, 2], [1, 1], |[j, c], _| crossed(c, chirp(j, n))),
            Table::SpectrumRe { n, m } => {
                let [re, _] = chirp_spectrum(n, m);
                re
            }
            Table::SpectrumCross { n, m } => {
                let [_, im] = chirp_spectrum(n, m);
                im.iter().flat_map(|&im| [-im, im]).collect()
            }
            Table::HalfCos { n, inverse } => {
                let roots = roots_of_unity(n);
                matrix(
                    [n / 2 + 1, 2],
                    [1, 1],
                    |[k, c], _| {
                        if (c == 0) == inverse { -roots[k][0] } else { roots[k][0] }
                    },
                )
            }
            Table::HalfSin { n } => {
                let roots = roots_of_unity(n);
                roots[..=n / 2].iter().map(|root| -root[1]).collect()
            }
        }
    }
}

/// What the other part of a number is multiplied by for part c of its product with cos - i sin.
fn crossed(c: usize, [_, sin]: [f64; 2]) -> f64 {
    if c == 0 { sin } else { -sin }
}

/// cos and sin of pi j^2 / n.
fn chirp(j: usize, n: usize) -> [f64; 2] {
    let turns = (j as u128 * j as u128) % (2 * n as u128);
    root_of_unity(turns as usize, 2 * n)
}

/// The transform of exp(pi i j^2 / n) / m for |j| < n, in a circle of m.
fn chirp_spectrum(n: usize, m: usize) -> [Vec<f64>; 2] {
    let Plan::Levels(levels) = plan(m) else { unreachable!("the length of a convolution has levels") };
    let part =
        |c: usize| (0..m).map(|j| j.min(m - j)).map(|j| if j < n { chirp(j, n)[c] } else { 0.0 }).collect();
    let (mut re, mut im) = (part(0), part(1));
    transform(&mut re, &mut im, &levels);
    [re, im].map(|v| v.iter().map(|x| x / m as f64).collect())
}

/// f of all pairs of two-part indices, the second running faster.
fn matrix(rows: [usize; 2], columns: [usize; 2], f: impl Fn([usize; 2], [usize; 2]) -> f64) -> Vec<f64> {
    let pairs = |n: [usize; 2]| (0..n[0]).flat_map(move |a| (0..n[1]).map(move |b| [a, b]));
    pairs(rows).flat_map(|r| pairs(columns).map(move |c| (r, c))).map(|(r, c)| f(r, c)).collect()
}

/// The transform of (re, im), whose length has the levels `levels`: the arithmetic of
/// [`Fused::Fourier`](crate::backend::Fused::Fourier) in f64.
fn transform(re: &mut Vec<f64>, im: &mut Vec<f64>, levels: &[usize]) {
    let (n, mut l) = (re.len(), 1);
    for &r in levels {
        let m = n / (r * l);
        let matrix = Table::Planes { n: r }.numbers();
        let (cos, sin) =
            (Table::TwiddleCos { radix: r, l }.numbers(), Table::TwiddleSin { radix: r, l }.numbers());
        let (mut to_re, mut to_im) = (vec![0.0; n], vec![0.0; n]);
        let mut terms = vec![0.0; 2 * r];
        for j in 0..m {
            for k in 0..l {
                for t in 0..r {
                    let (at, w) = ((j + m * t) * l + k, t * l + k);
                    let (a, b) = (re[at], im[at]);
                    let turned = [b.mul_add(sin[w], a * cos[w]), a.mul_add(sin[r * l + w], b * cos[w])];
                    [terms[t], terms[r + t]] = if l > 1 { turned } else { [a, b] };
                }
                for q in 0..r {
                    let at = (j * r + q) * l + k;
                    let part = |c: usize| {
                        if r == 2 {
                            let sign = if q == 0 { 1.0 } else { -1.0 };
                            return terms[2 * c + 1].mul_add(sign, terms[2 * c]);
                        }
                        let row = &matrix[(c * r + q) * 2 * r..][..2 * r];
                        row.iter().zip(&terms).fold(0.0, |sum: f64, (w, x)| w.mul_add(*x, sum))
                    };
                    (to_re[at], to_im[at]) = (part(0), part(1));
                }
            }
        }
        (*re, *im) = (to_re, to_im);
        l *= r;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eighths_are_exact_and_the_rest_is_symmetric() {
        let half = root_of_unity(1, 8);
        assert_eq!(half, [FRAC_1_SQRT_2; 2]);
        assert_eq!(
            [root_of_unity(0, 8), root_of_unity(2, 8), root_of_unity(4, 8), root_of_unity(6, 8)],
            [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]
        );
        for n in [1, 2, 3, 5, 8, 12, 24, 40, 97, 1000, 1024] {
            let bits = |r: [f64; 2]| r.map(f64::to_bits);
            for (k, &root) in roots_of_unity(n).iter().enumerate() {
                assert_eq!(bits(root), bits(root_of_unity(k, n)), "{k} / {n}");
            }
            for k in 1..n {
                let ([c, s], [d, t]) = (root_of_unity(k, n), root_of_unity(n - k, n));
                assert_eq!((c, s), (d, -t), "{k} / {n}");
                let angle = 2.0 * PI * k as f64 / n as f64;
                assert!((c - angle.cos()).abs() < 1e-15 && (s - angle.sin()).abs() < 1e-15, "{k} / {n}");
            }
        }
    }
}
