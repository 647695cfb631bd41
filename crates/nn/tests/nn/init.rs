//! Initialisation: distributions, and structured matrices.

use elinvar_core::{DType, ErrorKind, Result};
use elinvar_nn::init::{self, Gain};
use elinvar_nn::layers::{Conv2dOptions, Linear};
use elinvar_nn::{Generator, Layer, Tensor};
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::try_run;

const D: ReferenceDevice = ReferenceDevice;
type B = Reference;
type T = Tensor<B>;

fn numbers(t: &T) -> Vec<f64> {
    t.to_host().unwrap().to_f64_vec()
}

/// Moments of truncated normal distributions, by summing the density at two million points in
/// numpy: `w = exp(-((x - mean) / std) ** 2 / 2); m = (w * x).sum() / w.sum(); s = ((w * (x - m) **
/// 2).sum() / w.sum()) ** 0.5`
#[test]
fn truncated_normal_numbers_have_the_moments_of_their_distribution() {
    let rows = [
        // mean, std, low, high; expected mean and standard deviation
        ([0.0, 1.0, -2.0, 2.0], 0.0, 0.879_626),
        ([0.0, 0.02, -2.0, 2.0], 0.0, 0.02),    // bounds that never matter
        ([1.0, 2.0, 0.0, 2.0], 1.0, 0.567_765), // nearly uniform
        ([0.0, 1.0, 1.0, 3.0], 1.510_049, 0.416_477), // one side
        ([0.0, 1.0, 6.0, 9.0], 6.158_482, 0.154_879), // far out, where nearly nothing is
        ([0.0, 1.0, -9.0, -6.0], -6.158_482, 0.154_879),
    ];
    const N: usize = 4000;
    for ([mean, std, low, high], m, s) in rows {
        let t = init::trunc_normal::<B>([40, N / 40], mean, std, low, high, &mut Generator::new(3), &D);
        assert_eq!((t.dims(), t.dtype()), (&[40, N / 40][..], DType::F32));
        let v = numbers(&t);
        let got_m = v.iter().sum::<f64>() / N as f64;
        let got_s = (v.iter().map(|x| (x - got_m).powi(2)).sum::<f64>() / N as f64).sqrt();
        // Five standard errors of a mean; a standard deviation's is about 1.1% here.
        assert!((got_m - m).abs() < 5.0 * s / (N as f64).sqrt(), "{low}..{high}: mean {got_m}, not {m}");
        assert!((got_s / s - 1.0).abs() < 0.05, "{low}..{high}: deviation {got_s}, not {s}");
        let inside = |x: &f64| (low as f32..=high as f32).contains(&(*x as f32));
        assert!(v.iter().all(inside), "{low}..{high}");
    }
}

/// An element depends on the generator and its index alone, and a draw takes one stream,
/// independent of rejections.
#[test]
fn truncated_normal_numbers_depend_on_seed_and_index() {
    let draw = |n: usize, g: &mut Generator| numbers(&init::trunc_normal(n, 0.0, 1.0, -1.0, 1.0, g, &D));
    let (mut a, mut b) = (Generator::new(1), Generator::new(1));
    let (long, short) = (draw(100, &mut a), draw(7, &mut b));
    assert_eq!(long[..7], short);
    assert_eq!(a.state(), b.state());
    assert_ne!(draw(7, &mut a), short);
    assert_ne!(draw(7, &mut Generator::new(2)), short);
}

#[test]
fn orthogonal_matrices_have_orthonormal_rows_or_columns() {
    for (sizes, gain) in [
        (&[4, 4][..], Gain::Linear),
        (&[3, 7], Gain::Relu),
        (&[7, 3], Gain::Tanh),
        (&[6, 2, 2, 2], Gain::Linear), // a convolution, as [6, 8]
        (&[1, 5], Gain::Linear),
        (&[0, 3], Gain::Linear),
    ] {
        let t = init::orthogonal::<B>(sizes, gain, &mut Generator::new(5), &D);
        assert_eq!(t.dims(), sizes);
        let (rows, columns) = (sizes[0], sizes[1..].iter().product::<usize>());
        let flat = t.to_dtype(DType::F64).reshape([rows as isize, columns as isize]);
        let product = if rows <= columns { flat.matmul(&flat.t()) } else { flat.t().matmul(&flat) };
        let k = rows.min(columns);
        for (i, v) in numbers(&product).into_iter().enumerate() {
            let want = if i / k == i % k { gain.factor().powi(2) } else { 0.0 };
            // The numbers are rounded to f32.
            assert!((v - want).abs() < 1e-6, "{sizes:?}: {v} at {i}, not {want}");
        }
    }
    let draw = |seed| numbers(&init::orthogonal::<B>([5, 5], Gain::Linear, &mut Generator::new(seed), &D));
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
}

/// Over all orthogonal matrices, an element is as often positive as negative; without the signs of
/// the triangular factor's diagonal, the first would always have the same sign.
#[test]
fn orthogonal_matrices_are_distributed_evenly() {
    let g = &mut Generator::new(9);
    let positive =
        (0..200).filter(|_| numbers(&init::orthogonal::<B>([3, 3], Gain::Linear, g, &D))[0] > 0.0).count();
    // Five standard deviations of a binomial distribution.
    assert!((65..=135).contains(&positive), "{positive} of 200");
}

#[test]
fn dirac_and_eye_are_identities() -> Result<()> {
    let g = &mut Generator::new(1);
    let x = g.randn([2, 4, 3, 5], &D);
    // Two groups of two channels; the third output of each group is zero.
    let conv = Conv2dOptions::new(4, 6, 3).padding(1).groups(2).bias(false).init::<B>(g, &D);
    conv.weight.set(&init::dirac([6, 2, 3, 3], 2, &D))?;
    let y = conv.forward(&x);
    for (from, to) in [(0, 0), (1, 1), (2, 3), (3, 4)] {
        assert_eq!(numbers(&y.select(1, to)), numbers(&x.select(1, from)), "{from} to {to}");
    }
    assert!(numbers(&y.select(1, 2)).iter().chain(&numbers(&y.select(1, 5))).all(|v| *v == 0.0));
    assert_eq!(numbers(&init::eye::<B>(2, 3, &D)), [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    assert_eq!(numbers(&init::constant::<B>(2, 0.5, &D)), [0.5, 0.5]);
    Ok(())
}

#[test]
fn init_apply_visits_every_parameter() -> Result<()> {
    let g = &mut Generator::new(1);
    let net = (Linear::<B>::new(2, 2, g, &D), Linear::<B>::new(2, 1, g, &D));
    net.1.weight.freeze();
    let kept = numbers(&net.0.bias.as_ref().unwrap().get());
    let mut names = vec![];
    init::apply(&net, |name, p| {
        names.push(name.to_owned());
        name.ends_with("weight").then(|| init::constant(p.shape(), 3.0, &D))
    })?;
    assert_eq!(names, ["0.weight", "0.bias", "1.weight", "1.bias"]);
    assert_eq!(numbers(&net.0.weight.get()), [3.0; 4]);
    assert_eq!(numbers(&net.0.bias.as_ref().unwrap().get()), kept);
    assert!(net.1.weight.is_frozen() && !net.0.weight.is_frozen());
    let e = init::apply(&net, |_, _| Some(init::zeros(7, &D))).unwrap_err();
    assert!(e.kind() == ErrorKind::ShapeMismatch && e.message().starts_with("0.weight: "), "{e}");
    Ok(())
}

#[test]
fn a_mistake_is_a_sentence() {
    let g = &mut Generator::new(1);
    let trunc = |mean, std, low, high, g: &mut Generator| {
        try_run(|| drop(init::trunc_normal::<B>(3, mean, std, low, high, g, &D))).unwrap_err()
    };
    let rows = [
        (
            trunc(0.0, 0.0, -1.0, 1.0, g),
            ErrorKind::InvalidArgument,
            "trunc_normal: mean 0, standard deviation 0",
        ),
        (trunc(0.0, 1.0, 1.0, 1.0, g), ErrorKind::InvalidArgument, "trunc_normal: "),
        (trunc(f64::NAN, 1.0, 0.0, 1.0, g), ErrorKind::InvalidArgument, "trunc_normal: "),
        (trunc(0.0, 1e-300, 1.0, 2.0, g), ErrorKind::InvalidArgument, "trunc_normal: "),
        (
            trunc(0.0, 1e-20, 1.0, 2.0, g),
            ErrorKind::InvalidArgument,
            "trunc_normal: 1..=2 is so far from mean 0",
        ),
        (
            try_run(|| drop(init::orthogonal::<B>(3, Gain::Linear, g, &D))).unwrap_err(),
            ErrorKind::ShapeMismatch,
            "orthogonal: shape [3]",
        ),
        (
            try_run(|| drop(init::dirac::<B>([3, 2], 2, &D))).unwrap_err(),
            ErrorKind::InvalidArgument,
            "dirac: 3 outputs do not divide into 2 groups",
        ),
    ];
    for (e, kind, sentence) in rows {
        assert!(e.kind() == kind && e.message().starts_with(sentence), "{e:?}, not {sentence}");
    }
}

/// The bits of every machine and release. An independent implementation in Python (Philox,
/// rejection, Box-Muller, `numpy.linalg.qr` with the signs of its diagonal), in f64 and rounded,
/// gives the same.
#[test]
fn the_same_seed_gives_the_same_bits_everywhere() {
    let g = &mut Generator::new(42);
    let bits = |t: T| t.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect::<Vec<_>>();
    assert_eq!(bits(init::trunc_normal(3, 0.0, 1.0, -2.0, 2.0, g, &D)), [1071013476, 1032268219, 3206389918]);
    assert_eq!(
        bits(init::orthogonal([2, 2], Gain::Linear, g, &D)),
        [3195312224, 3212351221, 3212351221, 1047828576]
    );
}
