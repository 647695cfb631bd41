//! Norms: values, and rows of large numbers.

use super::*;

#[test]
fn norms() {
    let x = array(&[1000f32, 1001.0, 1002.0, 1003.0], &[1, 4]);
    let y = layer_norm(&x, &[4], None, None, 0.0).unwrap().to_host().unwrap().to_f64_vec();
    // (x - 1001.5) / sqrt(1.25)
    for (y, want) in y.iter().zip([-1.5, -0.5, 0.5, 1.5]) {
        assert!((y - want / 1.25f64.sqrt()).abs() < 1e-6, "far from zero: {y}");
    }
    check(vec![
        ("a constant row", layer_norm(&ones(&[2, 3]), &[3], None, Some(&f(&[1.0, 2.0, 3.0])), 1e-5), {
            array(&[1f32, 2.0, 3.0, 1.0, 2.0, 3.0], &[2, 3])
        }),
        ("zeros", rms_norm(&array(&[0f32; 3], &[3]), &[3], None, None), array(&[0f32; 3], &[3])),
        (
            "one sample",
            {
                let running = (f(&[1.0, 2.0]), f(&[4.0, 9.0]));
                let (w, b) = (f(&[2.0, 6.0]), f(&[0.5, 0.0]));
                let pair = Some((&running.0, &running.1));
                batch_norm(&f(&[3.0, 5.0]), pair, Some(&w), Some(&b), false, 0.1, 0.0).map(|b| b.y)
            },
            f(&[2.5, 6.0]),
        ),
        (
            "no channels",
            {
                let none = f(&[]);
                batch_norm(&none, Some((&none, &none)), None, None, true, 0.1, 1e-5).map(|b| b.y)
            },
            f(&[]),
        ),
        ("no rows", group_norm(&array::<f32>(&[], &[0, 4]), 2, None, None, 1e-5), array::<f32>(&[], &[0, 4])),
    ]);
    let batch = |x: &A, training| batch_norm(x, None, None, None, training, 0.1, 1e-5).map(|b| b.y);
    use ErrorKind::{InvalidArgument, ShapeMismatch};
    refuse(vec![
        (layer_norm(&x, &[3], None, None, 0.0), ShapeMismatch, "layer_norm: input [1, 4] should end in"),
        (layer_norm(&x, &[], None, None, 0.0), ShapeMismatch, "of one axis at least"),
        (
            layer_norm(&x, &[4], Some(&ones(&[1])), None, 0.0),
            ShapeMismatch,
            "weight [1] should have shape [4]",
        ),
        (group_norm(&x, 0, None, None, 0.0), InvalidArgument, "do not divide into 0 groups"),
        (group_norm(&x, 3, None, None, 0.0), InvalidArgument, "do not divide into 3 groups"),
        (instance_norm(&ones(&[2, 2, 1]), None, None, 0.0), InvalidArgument, "one element"),
        (batch(&ones(&[1, 2]), true), InvalidArgument, "one element"),
        (batch(&ones(&[4, 2]), false), InvalidArgument, "running statistics"),
        (batch(&ones(&[4]), true), InvalidArgument, "one element"),
        (batch(&ones(&[]), true), ShapeMismatch, "[n, c, spatial..]"),
        (
            instance_norm(&ones(&[2, 3, 4]), Some(&ones(&[2])), None, 0.0),
            ShapeMismatch,
            "input [2, 3, 4] has 3 channels, weight has shape [2]; both must have as many",
        ),
    ]);
    for eps in [-1e-5, f64::NAN, f64::INFINITY] {
        let image = ones(&[2, 2, 2]);
        let normal = |training| {
            let (mean, var) = (f(&[0.0; 2]), f(&[1.0; 2]));
            batch_norm(&image, Some((&mean, &var)), None, None, training, 0.1, eps).map(|b| b.y)
        };
        refuse(vec![
            (layer_norm(&x, &[4], None, None, eps), InvalidArgument, "layer_norm: eps is"),
            (rms_norm(&x, &[4], None, Some(eps)), InvalidArgument, "rms_norm: eps is"),
            (group_norm(&x, 2, None, None, eps), InvalidArgument, "group_norm: eps is"),
            (instance_norm(&image, None, None, eps), InvalidArgument, "instance_norm: eps is"),
            (normal(true), InvalidArgument, "batch_norm: eps is"),
            (normal(false), InvalidArgument, "batch_norm: eps is"),
            (cosine_similarity(&x, &x, 1, eps), InvalidArgument, "cosine_similarity: eps is"),
        ]);
    }
}

/// Statistics as they would be without the power of two: mean, then 1 / sqrt(variance + eps).
#[derive(Clone, Copy, Debug)]
pub(super) struct Unscaled {
    pub(super) eps: f64,
}

impl RowFormula<1> for Unscaled {
    const NAME: &'static str = "unscaled";
    const FOLDS: &'static [Fold] = &[Fold::Sum, Fold::Sum];
    const OUT: RowOut = RowOut::Each;
    fn term<L: Lane>(&self, k: usize, [x]: [L; 1], s: [L; STATS], _: L) -> L {
        if k == 0 { x } else { (x - s[0]) * (x - s[0]) }
    }
    fn finish<L: Lane>(&self, k: usize, folded: L, _: [L; STATS], n: L) -> L {
        if k == 0 { folded / n } else { (folded / n + L::lit(self.eps)).rsqrt() }
    }
    fn out<L: Lane>(&self, [x]: [L; 1], s: [L; STATS], _: L) -> L {
        (x - s[0]) * s[1]
    }
}

impl Rows<1> for Unscaled {
    fn backward<V: Value>(&self, _: &[usize], _: &Context<V>, _: &V) -> Result<Vec<Option<V>>> {
        unreachable!("nothing is recorded here")
    }
}

#[test]
fn norms_of_large_numbers() {
    let values = |y: Result<A>| y.unwrap().to_host().unwrap().to_f64_vec();
    // 1, 2, 3, 4 of mean 0 and variance 1, and of mean square 1.
    let normal: [f64; 4] = [-1.5, -0.5, 0.5, 1.5].map(|v| v / 1.25f64.sqrt());
    let rms = [1.0, 2.0, 3.0, 4.0].map(|v| v / 7.5f64.sqrt());
    for scale in [1.0f32, 1e9, 1e19, 1e25, 1e30] {
        let v: Vec<f32> = (1..5).map(|i| i as f32 * scale).collect();
        let (line, two) = (array(&v, &[1, 1, 4]), array(&v, &[4, 1]));
        let (w, b) = (ones(&[4]), array(&[0f32; 4], &[4]));
        let rows = [
            ("layer_norm", values(layer_norm(&line, &[4], None, None, 1e-5)), normal),
            ("layer_norm, weight", values(layer_norm(&line, &[4], Some(&w), None, 1e-5)), normal),
            ("layer_norm, bias", values(layer_norm(&line, &[4], Some(&w), Some(&b), 1e-5)), normal),
            ("group_norm", values(group_norm(&line, 1, None, None, 1e-5)), normal),
            ("instance_norm", values(instance_norm(&line, None, None, 1e-5)), normal),
            ("batch_norm", values(batch_norm(&two, None, None, None, true, 0.1, 1e-5).map(|b| b.y)), normal),
            ("rms_norm", values(rms_norm(&line, &[4], None, None)), rms),
            ("rms_norm, weight", values(rms_norm(&line, &[4], Some(&w), Some(1e-6))), rms),
        ];
        for (what, got, want) in rows {
            for (got, want) in got.iter().zip(want) {
                assert!((got - want).abs() < 1e-5, "{what} of {scale:e}: {got}, not {want}");
            }
        }
    }
    for scale in [1e150, 1e200, 1e290] {
        let v: Vec<f64> = (1..5).map(|i| f64::from(i) * scale).collect();
        for (got, want) in values(layer_norm(&array(&v, &[4]), &[4], None, None, 1e-5)).iter().zip(normal) {
            assert!((got - want).abs() < 1e-14, "{scale:e}: {got}, not {want}");
        }
    }
    // What overflows all the same is no number, and not 0.
    let beyond = f(&[-3e38, 3e38]);
    let row = array(&[1e38f32, 2e38], &[2, 1]);
    for y in [
        layer_norm(&beyond, &[2], None, None, 1e-5),
        layer_norm(&f(&[-1e19, 1e20]), &[2], None, None, 0.0),
        rms_norm(&beyond, &[2], None, None),
        batch_norm(&row, None, None, None, true, 0.1, 1e-5).map(|b| b.y),
        cosine_similarity(&beyond, &beyond, 0, 1e-8),
    ] {
        assert!(values(y).iter().all(|v| v.is_nan()));
    }
    // Numbers that were right keep their bits.
    let some = |n: usize, scale: f64| -> Vec<f32> {
        (0..n).map(|i| (((i * 37) as f64 * 0.618).fract() * 9.0 - 4.0) as f32 * scale as f32).collect()
    };
    for eps in [0.0, 1e-12, 1e-6, 1e-5, 1e-3, 1.0] {
        for scale in [1e-6, 1e-3, 0.1, 1.0, 1e3, 1e9] {
            let x = array(&some(300, scale), &[3, 100]);
            let plain = rows(Unscaled { eps }, &[1], [&x]).unwrap();
            let normal = layer_norm(&x, &[100], None, None, eps).unwrap();
            assert_eq!(show(&normal), show(&plain), "eps {eps:e}, scale {scale:e}");
        }
    }
    for scale in [1e-30f32, 1e-10, 1e-3, 1.0, 1e9, 1e18, 1e25, 1e37] {
        let x = f(&[1.0, 2.0, 3.0, 4.0].map(|v| v * scale));
        let exact = 1.25f64.sqrt() * f64::from(scale);
        let deviation = values(std_(&x, None, 0.0, false))[0];
        assert!((deviation / exact - 1.0).abs() < 3e-7, "std of {scale:e}: {deviation:e}");
        // Of the least and of the largest ones f32 has no variance.
        if (1e-20..1e19).contains(&scale) {
            let variance = values(var(&x, None, 0.0, false))[0];
            assert!((variance / (exact * exact) - 1.0).abs() < 6e-7, "var of {scale:e}: {variance:e}");
        }
    }
    assert_eq!(values(std_(&ones(&[3]), None, 0.0, false)), [0.0]);
    assert!(values(std_(&f(&[]), None, 0.0, false))[0].is_nan());
    assert!(values(var(&f(&[1e30, -1e30]), None, 0.0, false))[0] == f64::INFINITY);
    let angle = |scale: f32| values(cosine_similarity(&f(&[scale, scale]), &f(&[0.0, scale]), 0, 1e-8))[0];
    for scale in [1e-3, 1.0, 1e19, 1e25] {
        assert!((angle(scale) - 0.5f64.sqrt()).abs() < 1e-6, "{scale:e}: {}", angle(scale));
    }
}
