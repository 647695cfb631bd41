//! Losses, and sequences in time.

use super::*;

#[test]
fn losses() {
    let entropy = |x: &A, t: &A, ignore, r, smoothing| cross_entropy(x, t, None, ignore, r, smoothing);
    let x = array(&[0f32, 0.0, -INF, 0.0, 0.0, 0.0, 1e4, 0.0, 0.0], &[3, 3]);
    let scalar = |v: f32| array(&[v], &[]);
    check(vec![
        ("certain and impossible", entropy(&x, &i(&[2, 5, 0]), 5, Reduction::None, 0.0), f(&[INF, 0.0, 0.0])),
        ("all left out", entropy(&x, &i(&[5, 5, 5]), 5, Reduction::Mean, 0.0), scalar(NAN)),
        ("all left out, summed", entropy(&x, &i(&[5, 5, 5]), 5, Reduction::Sum, 0.0), scalar(0.0)),
        (
            "a vector",
            nll_loss(&f(&[-1.0, -2.0]), &array(&[1i64], &[]), None, -100, Reduction::Mean),
            scalar(2.0),
        ),
        ("no samples", entropy(&array::<f32>(&[], &[0, 3]), &i(&[]), -100, Reduction::None, 0.0), f(&[])),
        (
            "small integers",
            nll_loss(&f(&[-1.0, -2.0]), &array(&[0u8], &[]), None, -100, Reduction::Sum),
            scalar(1.0),
        ),
        ("nothing at all", mse_loss(&f(&[]), &f(&[]), Reduction::Mean), scalar(NAN)),
        ("nothing, summed", mse_loss(&f(&[]), &f(&[]), Reduction::Sum), scalar(0.0)),
        ("a sharp corner", smooth_l1_loss(&f(&[1.0]), &f(&[1.0]), Reduction::None, 0.0), f(&[0.0])),
        (
            "small losses keep their digits",
            binary_cross_entropy_with_logits(&f(&[-30.0]), &f(&[0.0]), None, None, Reduction::None),
            f(&[(-30f64).exp() as f32]),
        ),
        (
            "batchmean",
            kl_div(&array(&[-1f32; 4], &[2, 2]), &ones(&[2, 2]), Reduction::BatchMean, false),
            scalar(2.0),
        ),
        (
            "zeros have no direction",
            cosine_similarity(&f(&[0.0, 0.0]), &f(&[1.0, 2.0]), 0, 1e-8),
            scalar(0.0),
        ),
        ("large rows", cosine_similarity(&f(&[1e15, 0.0]), &f(&[1e15, 0.0]), 0, 1e-8), scalar(1.0)),
    ]);
    use ErrorKind::{DTypeMismatch, InvalidArgument, ShapeMismatch};
    let triplet = |x: &A, margin| triplet_margin_loss(x, x, x, margin, 2.0, 1e-6, false, Reduction::Mean);
    refuse(vec![
        (
            entropy(&x, &i(&[0, 3, 0]), -100, Reduction::Mean, 0.0),
            InvalidArgument,
            "cross_entropy: a target for",
        ),
        (
            entropy(&x, &i(&[0, -1, 0]), -100, Reduction::Mean, 0.1),
            InvalidArgument,
            "cross_entropy: a target for",
        ),
        (
            nll_loss(&x, &i(&[0, 3, 0]), None, -100, Reduction::Mean),
            InvalidArgument,
            "nll_loss: a target for",
        ),
        (entropy(&x, &i(&[0, 1]), -100, Reduction::Mean, 0.0), ShapeMismatch, "should have shape [3]"),
        (entropy(&x, &x, 1, Reduction::Mean, 0.0), InvalidArgument, "which have no class to leave out"),
        (entropy(&x, &i(&[0, 1, 2]), -100, Reduction::Mean, 1.5), InvalidArgument, "label_smoothing is 1.5"),
        (entropy(&x, &i(&[0, 1, 2]), -100, Reduction::BatchMean, 0.0), InvalidArgument, "batchmean"),
        (
            cross_entropy(&x, &i(&[0, 1, 2]), Some(&f(&[1.0])), -100, Reduction::Mean, 0.0),
            ShapeMismatch,
            "weight [1] should be [3]",
        ),
        (mse_loss(&f(&[1.0]), &i(&[1]), Reduction::Mean), DTypeMismatch, ""),
        (mse_loss(&f(&[1.0; 2]), &f(&[1.0; 3]), Reduction::Mean), ShapeMismatch, "mse_loss"),
        (huber_loss(&f(&[1.0]), &f(&[1.0]), Reduction::Mean, 0.0), InvalidArgument, "delta is 0"),
        (smooth_l1_loss(&f(&[1.0]), &f(&[1.0]), Reduction::Mean, -1.0), InvalidArgument, "beta is -1"),
        (
            binary_cross_entropy(&f(&[0.5; 2]), &f(&[1.0]), None, Reduction::Mean),
            ShapeMismatch,
            "should have the shape of the input, [2]",
        ),
        (
            binary_cross_entropy(&f(&[0.5, 1.5]), &f(&[1.0; 2]), None, Reduction::Mean),
            InvalidArgument,
            "binary_cross_entropy: an element of x is not in its range; all should be in 0..=1",
        ),
        (
            binary_cross_entropy(&f(&[-1e-30]), &f(&[1.0]), None, Reduction::None),
            InvalidArgument,
            "binary_cross_entropy: an element",
        ),
        (
            mse_loss(&x, &x, Reduction::BatchMean),
            InvalidArgument,
            "mse_loss: there is no reduction batchmean",
        ),
        (l1_loss(&x, &x, Reduction::BatchMean), InvalidArgument, "l1_loss: there is no reduction batchmean"),
        (
            nll_loss(&x, &i(&[0, 1, 2]), None, -100, Reduction::BatchMean),
            InvalidArgument,
            "nll_loss: there is no reduction batchmean",
        ),
        (triplet(&x, 0.0), InvalidArgument, "triplet_margin_loss: margin is 0; it must be above 0"),
        (triplet(&x, -1.0), InvalidArgument, "triplet_margin_loss: margin is -1"),
        (triplet(&x, f64::NAN), InvalidArgument, "triplet_margin_loss: margin is NaN"),
        (softshrink(&x, -0.5), InvalidArgument, "softshrink: lambd is -0.5; it must not be negative"),
        (softshrink(&x, f64::NAN), InvalidArgument, "softshrink: lambd is NaN"),
        (hardshrink(&x, -0.5), InvalidArgument, "hardshrink: lambd is -0.5"),
        (hardtanh(&x, f64::NAN, 1.0), InvalidArgument, "hardtanh: min_val NaN"),
        (celu(&x, 0.0), InvalidArgument, "celu: alpha is 0"),
        (Reduction::parse("mse_loss", "median").map(|_| scalar(0.0)), InvalidArgument, "no reduction median"),
    ]);
}

#[test]
fn sequences_in_time() {
    // Three classes of equal probability: every layout has probability 3^-t.
    let even = |t: usize, n: usize| array(&vec![-(3f32.ln()); t * n * 3], &[t, n, 3]);
    let loss = |t: usize, targets: &A, times: &[i64], counts: &[i64], zero| {
        ctc_loss(&even(t, times.len()), targets, &i(times), &i(counts), 0, Reduction::None, zero)
    };
    let labels = array(&[1i64, 1, 1, 2], &[2, 2]);
    let near = |what: &str, got: Result<A>, want: &[f64]| {
        for (got, want) in got.unwrap().to_host().unwrap().to_f64_vec().iter().zip(want) {
            assert!(got == want || (got - want).abs() < 1e-5, "{what}: {got} instead of {want}");
        }
    };
    // 1 and 1 need a blank between them: one layout in 3 steps. 1 and 2: five layouts in 3 steps.
    near("layouts", loss(3, &labels, &[3, 3], &[2, 2], false), &[27f64.ln(), (27f64 / 5.0).ln()]);
    near("time that is left", loss(3, &labels, &[3, 2], &[2, 2], false), &[27f64.ln(), 9f64.ln()]);
    near("too little time", loss(3, &labels, &[2, 3], &[2, 0], false), &[f64::INFINITY, 27f64.ln()]);
    near("taken out", loss(3, &labels, &[2, 3], &[2, 0], true), &[0.0, 27f64.ln()]);
    near("no time", loss(3, &labels, &[0, 0], &[0, 1], false), &[0.0, f64::INFINITY]);
    near(
        "one after the other",
        loss(3, &i(&[1, 1, 2]), &[3, 3], &[1, 2], false),
        &[(27f64 / 6.0).ln(), (27f64 / 5.0).ln()],
    );
    let alone = |lengths: &[usize]| {
        let (times, count) = (array(&vec![3i64; lengths.iter().product()], lengths), array(&[2i64], &[]));
        let x = reshape(&even(3, 1), &[3, 3])?;
        ctc_loss(&x, &i(&[1, 2]), &times, &count, 0, Reduction::None, false)
    };
    for lengths in [&[][..], &[1]] {
        assert_eq!(alone(lengths).unwrap().shape().rank(), 0, "a loss without a batch");
        near("one sample without a batch", alone(lengths), &[(27f64 / 5.0).ln()]);
    }
    use ErrorKind::{DTypeMismatch, InvalidArgument, ShapeMismatch};
    refuse(vec![
        (alone(&[2]), ShapeMismatch, "input lengths [2] should be [], as there is no batch"),
        (
            loss(3, &labels, &[4, 3], &[2, 2], false),
            InvalidArgument,
            "4 among the input lengths is not in 0..=3",
        ),
        (
            loss(3, &labels, &[3, 3], &[3, 2], false),
            InvalidArgument,
            "3 among the target lengths is not in 0..=2",
        ),
        (loss(3, &labels, &[3, 3], &[-1, 2], false), InvalidArgument, "-1 among the target lengths"),
        (
            loss(3, &array(&[1i64, 3, 1, 2], &[2, 2]), &[3, 3], &[2, 2], false),
            InvalidArgument,
            "target 3 of sample 0",
        ),
        (loss(3, &i(&[1, 1, 2]), &[3, 3], &[1, 1], false), ShapeMismatch, "should be [2, s], or [2]"),
        (loss(3, &f(&[1.0]), &[3], &[1], false), DTypeMismatch, "targets are f32"),
        (
            ctc_loss(&even(3, 1), &i(&[1]), &i(&[3]), &i(&[1]), 3, Reduction::Mean, false),
            InvalidArgument,
            "blank 3 is not in 0..3",
        ),
    ]);
}
