//! Cosines and sines, computed on the host in f64 by the functions of `elinvar-lane`, so that all
//! machines have the same, and kept for the next transform of the same length.

use super::Direction;
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

/// What a table holds; the key under which it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Table {
    /// `[2, n, 2, n]`: (re', k) from (re, j), the matrix of a transform of two planes.
    Planes { n: usize, direction: Direction, scale: u64 },
    /// `[n, 2, n, 2]`: from (j, re) to (k, re'), of pairs.
    Pairs { n: usize, direction: Direction, scale: u64 },
    /// `[2, n, 2, n]`: from (re, j) to (re', k); as `Planes`, to be multiplied from the right.
    PlanesRight { n: usize, direction: Direction, scale: u64 },
    /// `[n, n / 2 + 1, 2]`: from real numbers to the pairs of half their spectrum.
    RealToPairs { n: usize, scale: u64 },
    /// `[n / 2 + 1, 2, n]`: the inverse.
    PairsToReal { n: usize, scale: u64 },
    /// `[first, rest]`: cos of 2 pi k j / (first rest).
    TwiddleCos { first: usize, rest: usize },
    /// `[first, 2, rest]`: what the other plane is multiplied by.
    TwiddleSin { first: usize, rest: usize, direction: Direction },
    /// `[n, 1]`: cos(pi j^2 / n).
    ChirpCos { n: usize },
    /// `[n, 2]`: what the other of a pair is multiplied by, with exp(direction pi i j^2 / n).
    ChirpSin { n: usize, direction: Direction },
    /// `[n]` pairs: exp(direction pi i j^2 / n) for |j| < n, in a circle of `m`.
    Chirp { n: usize, m: usize, direction: Direction },
    /// `[n / 2 + 1, 1]`: `scale * cos`, then..
    HalfCos { n: usize, signs: [i8; 2], scale: u64 },
    /// .. `scale * sin` of 2 pi k / n.
    HalfSin { n: usize, scale: u64 },
}

/// All tables together hold at most this many numbers (32 MiB); beyond it they are made again.
const MOST_KEPT: usize = 1 << 22;

static KEPT: LazyLock<Mutex<HashMap<Table, Arc<[f64]>>>> = LazyLock::new(Mutex::default);

impl Table {
    /// The numbers, row-major.
    pub(super) fn numbers(self) -> Arc<[f64]> {
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
            // (re + i im)(cos + s i sin) = (re cos - s im sin) + i (im cos + s re sin)
            Table::Planes { n, direction, scale } => matrix([2, n], [2, n], |[c, k], [d, j]| {
                entry(c, d, root_of_unity(j * k % n, n), direction, f64::from_bits(scale))
            }),
            Table::PlanesRight { n, direction, scale } => matrix([2, n], [2, n], |[d, j], [c, k]| {
                entry(c, d, root_of_unity(j * k % n, n), direction, f64::from_bits(scale))
            }),
            Table::Pairs { n, direction, scale } => matrix([n, 2], [n, 2], |[j, d], [k, c]| {
                entry(c, d, root_of_unity(j * k % n, n), direction, f64::from_bits(scale))
            }),
            Table::RealToPairs { n, scale } => matrix([n, 1], [n / 2 + 1, 2], |[j, _], [k, c]| {
                entry(c, 0, root_of_unity(j * k % n, n), Direction::Forward, f64::from_bits(scale))
            }),
            Table::PairsToReal { n, scale } => matrix([n / 2 + 1, 2], [n, 1], |[k, d], [j, _]| {
                // All but the first element, and the middle one of an even length, occur twice in
                // the whole spectrum.
                let alone = k == 0 || 2 * k == n;
                if alone && d == 1 {
                    return 0.0;
                }
                let scale = f64::from_bits(scale) * if alone { 1.0 } else { 2.0 };
                entry(0, d, root_of_unity(j * k % n, n), Direction::Inverse, scale)
            }),
            Table::TwiddleCos { first, rest } => {
                matrix([first, 1], [rest, 1], |[k, _], [j, _]| root_of_unity(k * j, first * rest)[0])
            }
            Table::TwiddleSin { first, rest, direction } => {
                matrix([first, 2], [rest, 1], |[k, c], [j, _]| {
                    crossed(c, root_of_unity(k * j, first * rest), direction)
                })
            }
            Table::ChirpCos { n } => matrix([n, 1], [1, 1], |[j, _], _| chirp(j, n)[0]),
            Table::ChirpSin { n, direction } => {
                matrix([n, 2], [1, 1], |[j, c], _| crossed(c, chirp(j, n), direction))
            }
            Table::Chirp { n, m, direction } => matrix([m, 2], [1, 1], |[j, c], _| match j.min(m - j) {
                j if j < n && c == 0 => chirp(j, n)[0],
                j if j < n => direction.sign() * chirp(j, n)[1],
                _ => 0.0,
            }),
            Table::HalfCos { n, signs, scale } => matrix([n / 2 + 1, 2], [1, 1], |[k, c], _| {
                f64::from(signs[c]) * f64::from_bits(scale) * root_of_unity(k, n)[0]
            }),
            Table::HalfSin { n, scale } => {
                matrix([n / 2 + 1, 1], [1, 1], |[k, _], _| f64::from_bits(scale) * root_of_unity(k, n)[1])
            }
        }
    }
}

/// What part d of an element contributes to part c of the result (0: re, 1: im).
fn entry(c: usize, d: usize, [cos, sin]: [f64; 2], direction: Direction, scale: f64) -> f64 {
    let sign = direction.sign();
    scale
        * match (c, d) {
            (0, 1) => -sign * sin,
            (1, 0) => sign * sin,
            _ => cos,
        }
}

/// What the other part of a number is multiplied by for part c of its product with
/// cos + direction i sin.
fn crossed(c: usize, [_, sin]: [f64; 2], direction: Direction) -> f64 {
    if c == 0 { -direction.sign() * sin } else { direction.sign() * sin }
}

/// cos and sin of pi j^2 / n.
fn chirp(j: usize, n: usize) -> [f64; 2] {
    let turns = (j as u128 * j as u128) % (2 * n as u128);
    root_of_unity(turns as usize, 2 * n)
}

/// f of all pairs of two-part indices, the second running faster.
fn matrix(rows: [usize; 2], columns: [usize; 2], f: impl Fn([usize; 2], [usize; 2]) -> f64) -> Vec<f64> {
    let pairs = |n: [usize; 2]| (0..n[0]).flat_map(move |a| (0..n[1]).map(move |b| [a, b]));
    pairs(rows).flat_map(|r| pairs(columns).map(move |c| (r, c))).map(|(r, c)| f(r, c)).collect()
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
        for n in [3, 5, 12, 97, 1024] {
            for k in 1..n {
                let ([c, s], [d, t]) = (root_of_unity(k, n), root_of_unity(n - k, n));
                assert_eq!((c, s), (d, -t), "{k} / {n}");
                let angle = 2.0 * PI * k as f64 / n as f64;
                assert!((c - angle.cos()).abs() < 1e-15 && (s - angle.sin()).abs() < 1e-15, "{k} / {n}");
            }
        }
    }
}
