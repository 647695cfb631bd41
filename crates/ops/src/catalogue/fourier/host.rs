//! The levels of a transform in plain loops, in f64: for tables that are themselves transforms.

use super::tables::Table;

/// The transform of (re, im), whose length has the levels `levels`: the arithmetic of
/// [`Fused::Fourier`](crate::backend::Fused::Fourier) in f64.
pub(super) fn transform(re: &mut Vec<f64>, im: &mut Vec<f64>, levels: &[usize]) {
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
