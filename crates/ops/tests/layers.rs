//! Edge cases of layers and losses: windows at the end of an axis, rows with no element, targets
//! out of range, sizes beyond memory. Common results are checked by the conformance suite.

#[path = "layers/losses.rs"]
mod losses;
#[path = "layers/norms.rs"]
mod norms;

use elinvar_core::philox::Stream;
use elinvar_core::{Element, ErrorKind, Result};
use elinvar_ops::Array;
use elinvar_ops::catalogue::conv::Padding;
use elinvar_ops::catalogue::interpolate::{Interpolation, Target};
use elinvar_ops::catalogue::multi_head_attention::{HeadWeights, MhaWeights};
use elinvar_ops::catalogue::recurrent::{RnnOptions, RnnWeights};
use elinvar_ops::catalogue::reduction::Reduction;
use elinvar_ops::catalogue::*;
use elinvar_ops::prelude::{Context, Fold, Lane, RowFormula, RowOut, Rows, Value, rows};
use elinvar_ops::{compile_rows, rows::STATS};
use elinvar_reference::{Reference, ReferenceDevice};
use norms::Unscaled;

type A = Array<Reference>;

const INF: f32 = f32::INFINITY;
const NAN: f32 = f32::NAN;
const HUGE: usize = usize::MAX;

fn array<T: Element>(v: &[T], shape: &[usize]) -> A {
    A::from_vec(&ReferenceDevice, v.to_vec(), shape).unwrap()
}
fn f(v: &[f32]) -> A {
    array(v, &[v.len()])
}
fn i(v: &[i64]) -> A {
    array(v, &[v.len()])
}
/// 0, 1, 2, .. in this shape.
fn count(shape: &[usize]) -> A {
    array(&(0..shape.iter().product()).map(|i: usize| i as f32).collect::<Vec<_>>(), shape)
}
fn ones(shape: &[usize]) -> A {
    array(&vec![1f32; shape.iter().product()], shape)
}
/// Shape, dtype and elements, as text.
fn show(a: &A) -> String {
    format!("{} {} {:?}", a.dtype(), a.shape(), a.to_host().unwrap().to_f64_vec())
}
fn check(rows: Vec<(&str, Result<A>, A)>) {
    for (what, got, want) in rows {
        assert_eq!(show(&got.unwrap_or_else(|e| panic!("{what}: {e}"))), show(&want), "{what}");
    }
}
/// Each call must fail with this kind, in a message that contains these words.
fn refuse<T>(rows: Vec<(Result<T>, ErrorKind, &str)>) {
    for (got, kind, words) in rows {
        match got {
            Ok(_) => panic!("{words}: it ran"),
            Err(e) => {
                assert!(e.kind() == kind && e.message().contains(words), "wanted {kind:?} {words}, got {e:?}")
            }
        }
    }
}
fn conv(
    x: &A,
    w: &A,
    stride: &[usize],
    padding: impl Into<Padding>,
    dilation: &[usize],
    groups: usize,
) -> Result<A> {
    conv2d(x, w, None, stride, &padding.into(), dilation, groups)
}

#[test]
fn convolutions() {
    let w = array(&[1f32, 10.0], &[1, 1, 2]);
    let line = |x: &A, padding| conv1d(x, &w, None, &[1], &padding, &[1], 1);
    let none = array::<f32>(&[], &[1, 0, 2]);
    check(vec![
        ("no batch", line(&count(&[1, 3]), Padding::Valid), array(&[10f32, 21.0], &[1, 2])),
        (
            "the odd zero is the last",
            line(&count(&[1, 1, 3]), Padding::Same),
            array(&[10f32, 21.0, 2.0], &[1, 1, 3]),
        ),
        ("no batches", line(&array::<f32>(&[], &[0, 1, 3]), Padding::Valid), array::<f32>(&[], &[0, 1, 2])),
        (
            "no channels leave the bias",
            conv1d(&array::<f32>(&[], &[1, 0, 3]), &none, Some(&f(&[7.0])), &[1], &Padding::Valid, &[1], 1),
            array(&[7f32, 7.0], &[1, 1, 2]),
        ),
        (
            "a stride beyond the input",
            conv1d(&count(&[1, 3]), &w, None, &[1 << 30], &Padding::Valid, &[1], 1),
            array(&[10f32], &[1, 1]),
        ),
        (
            "transposed, with a size that the stride leaves open",
            conv_transpose1d(
                &f(&[1.0, 2.0]).reshape(ones(&[1, 2]).shape()).unwrap(),
                &w,
                None,
                &[3],
                &[0],
                &[2],
                1,
                &[1],
            ),
            array(&[1f32, 10.0, 0.0, 2.0, 20.0, 0.0, 0.0], &[1, 7]),
        ),
    ]);
    let (x, w) = (ones(&[2, 3, 8, 8]), ones(&[16, 3, 3, 3]));
    let one = [1, 1];
    let turned = |stride: &[usize], padding: &[usize], extra: &[usize]| {
        conv_transpose2d(&x, &ones(&[3, 2, 3, 3]), None, stride, padding, extra, 1, &one)
    };
    use ErrorKind::{DTypeMismatch, InvalidArgument, OutOfMemory, ShapeMismatch};
    refuse(vec![
        (
            conv(&x, &ones(&[16, 4, 3, 3]), &one, [0, 0], &one, 1),
            ShapeMismatch,
            "conv2d: input [2, 3, 8, 8] has 3 channels, weight [16, 4, 3, 3] expects 4 (times 1 groups)",
        ),
        (conv(&x, &ones(&[16, 1 << 50, 0, 3]), &one, [0, 0], &one, 1 << 20), ShapeMismatch, "has 3 channels"),
        (conv(&x, &w, &[0], [0, 0], &one, 1), InvalidArgument, "conv2d: stride 0 is not in 1..="),
        (conv(&x, &w, &[HUGE], [0, 0], &one, 1), InvalidArgument, "stride"),
        (conv(&x, &w, &one, [HUGE, 0], &one, 1), InvalidArgument, "padding"),
        (conv(&x, &w, &one, [0, 0], &[HUGE], 1), InvalidArgument, "dilation"),
        (conv(&x, &w, &one, [0, 0], &[1 << 30], 1), ShapeMismatch, "the kernel reaches over 2147483649"),
        (conv(&x, &w, &one, [0, 0, 0], &one, 1), InvalidArgument, "1 or 2 would fit"),
        (conv(&x, &w, &one, [0, 0], &one, 0), InvalidArgument, "groups is 0"),
        (conv(&x, &ones(&[16, 1, 3, 3]), &one, [0, 0], &one, 3), ShapeMismatch, "16 output channels"),
        (conv(&x, &ones(&[1, 3, 9, 9]), &one, [0, 0], &one, 1), ShapeMismatch, "reaches over 9"),
        (
            conv(&x, &array::<f32>(&[], &[1, 3, 0, 3]), &one, [0, 0], &one, 1),
            ShapeMismatch,
            "kernel of size 0",
        ),
        (conv(&x, &w, &one, [1 << 30, 1 << 30], &one, 1), OutOfMemory, "more elements than can be addressed"),
        (conv(&x, &w, &[2], Padding::Same, &one, 1), InvalidArgument, "padding same needs stride 1"),
        (conv(&count(&[8, 8]), &w, &one, [0, 0], &one, 1), ShapeMismatch, "without a batch"),
        (
            conv(&x, &i(&[1; 81]).reshape(ones(&[3, 3, 3, 3]).shape()).unwrap(), &one, [0, 0], &one, 1),
            DTypeMismatch,
            "f32, i64",
        ),
        (
            conv2d(&x, &w, Some(&ones(&[3])), &one, &Padding::Valid, &one, 1),
            ShapeMismatch,
            "bias [3] should be [16]",
        ),
        (turned(&[2], &[0], &[2]), InvalidArgument, "output_padding 2 must be below the stride 2"),
        (turned(&[1], &[9], &[0]), ShapeMismatch, "give an output of size -8"),
        (turned(&[i32::MAX as usize], &[0], &[0]), OutOfMemory, ""),
    ]);
}

#[test]
fn pools() {
    let x = count(&[1, 5]);
    let max = |x: &A, k, s, p, d, ceil| max_pool1d(x, &[k], &[s], &[p], &[d], ceil);
    let avg = |k, s, p, ceil, pad| avg_pool1d(&x, &[k], &[s], &[p], ceil, pad);
    check(vec![
        ("a window that hangs over", max(&x, 2, 2, 0, 1, true), array(&[1f32, 3.0, 4.0], &[1, 3])),
        ("a window that would begin in the padding", max(&x, 2, 3, 1, 1, true), array(&[0f32, 3.0], &[1, 2])),
        ("a kernel larger than the input", max(&x, 6, 6, 0, 1, true), array(&[4f32], &[1, 1])),
        (
            "no stride is the kernel's",
            max_pool1d(&x, &[2], &[], &[0], &[1], false),
            array(&[1f32, 3.0], &[1, 2]),
        ),
        ("NaN wins", max(&array(&[1f32, NAN, 3.0], &[1, 3]), 3, 1, 0, 1, false), array(&[NAN], &[1, 1])),
        ("-inf stays", max(&array(&[-INF; 2], &[1, 2]), 2, 1, 1, 1, false), array(&[-INF; 3], &[1, 3])),
        (
            "the first of equals",
            max_pool2d::with_indices(&ones(&[1, 3, 3]), &[2], &[1], &[0], &[1], false).map(|r| r.1),
            array(&[0i64, 1, 3, 4], &[1, 2, 2]),
        ),
        ("padding counts", avg(2, 5, 1, false, true), array(&[0f32, 2.0], &[1, 2])),
        ("padding does not count", avg(4, 3, 2, false, false), array(&[0.5f32, 2.5], &[1, 2])),
        ("padding counts as far as it goes", avg(4, 4, 1, true, true), array(&[0.75f32, 7.0 / 3.0], &[1, 2])),
        (
            "more windows than elements",
            adaptive_max_pool1d(&count(&[1, 2]), &[3]),
            array(&[0f32, 1.0, 1.0], &[1, 3]),
        ),
        ("no windows", adaptive_avg_pool1d(&x, &[0]), array::<f32>(&[], &[1, 0])),
    ]);
    use ErrorKind::{DTypeMismatch, InvalidArgument, ShapeMismatch};
    refuse(vec![
        (max(&x, 0, 1, 0, 1, false), InvalidArgument, "max_pool1d: kernel_size 0 is not in 1..="),
        (max(&x, 2, 0, 0, 1, false), InvalidArgument, "stride 0"),
        (max(&x, 2, 1, 2, 1, false), InvalidArgument, "padding 2 is more than half of the kernel's 2 taps"),
        (max(&x, 2, 1, 0, HUGE, false), InvalidArgument, "dilation"),
        (max(&x, 6, 1, 0, 1, false), ShapeMismatch, "reaches over 6 elements"),
        (max(&x, 2, 1, 1, 6, false), ShapeMismatch, "window 0 lies wholly in the padding"),
        (max(&array::<f32>(&[], &[1, 0]), 1, 1, 0, 1, true), ShapeMismatch, "the input has 0"),
        (max(&f(&[1.0]), 1, 1, 0, 1, false), ShapeMismatch, "should have 3 axes, or 2 without a batch"),
        (max(&array(&[1i64], &[1, 1]), 1, 1, 0, 1, false), DTypeMismatch, "not defined for i64"),
        (adaptive_avg_pool1d(&array::<f32>(&[], &[1, 0]), &[1]), ShapeMismatch, "is empty"),
        (adaptive_avg_pool1d(&x, &[HUGE]), InvalidArgument, "output_size"),
    ]);
}

#[test]
fn sizes_of_images() {
    let x = count(&[1, 1, 3]);
    let near = |target| interpolate(&x, &target, Interpolation::Nearest);
    let linear = |target, align_corners| interpolate(&x, &target, Interpolation::Linear { align_corners });
    let bright = array(&[0f32, INF, 0.0], &[1, 1, 3]);
    check(vec![
        // f32: 5 * (3 / 5) rounds to less than 3 in some types, which selects another element.
        ("the nearest", near(Target::Size(vec![5])), array(&[0f32, 0.0, 1.0, 1.0, 2.0], &[1, 1, 5])),
        ("a scale that keeps the size", near(Target::Scale(vec![1.2])), array(&[0f32, 0.0, 1.0], &[1, 1, 3])),
        ("lines that keep their size", linear(Target::Scale(vec![1.2]), false), x.clone()),
        ("to one, aligned", linear(Target::Size(vec![1]), true), array(&[0f32], &[1, 1, 1])),
        ("to one", linear(Target::Size(vec![1]), false), array(&[1f32], &[1, 1, 1])),
        (
            "an infinity that keeps its size",
            interpolate(&bright, &Target::Size(vec![3]), Interpolation::Linear { align_corners: false }),
            bright.clone(),
        ),
    ]);
    let square = count(&[1, 1, 3, 3]);
    let resized = |x: &_, mode| interpolate(x, &Target::Size(vec![2]), mode);
    check(vec![
        // (0.5 * 1.5) and (1.5 * 1.5), where `Nearest` takes 0 and 1.5.
        ("the nearest centre", resized(&x, Interpolation::NearestExact), array(&[0f32, 2.0], &[1, 1, 2])),
        ("averages", resized(&x, Interpolation::Area), array(&[0.5f32, 1.5], &[1, 1, 2])),
        (
            "cubics through the corners",
            resized(&square, Interpolation::Cubic { align_corners: true }),
            array(&[0f32, 2.0, 6.0, 8.0], &[1, 1, 2, 2]),
        ),
    ]);
    refuse(vec![
        (resized(&x, Interpolation::Cubic { align_corners: true }), ErrorKind::InvalidArgument, "for images"),
        (near(Target::Size(vec![0])), ErrorKind::ShapeMismatch, "from 3 to 0 elements"),
        (near(Target::Scale(vec![0.2])), ErrorKind::ShapeMismatch, "from 3 to 0 elements"),
        (near(Target::Scale(vec![f64::NAN])), ErrorKind::InvalidArgument, "must be above 0"),
        (near(Target::Scale(vec![1e300])), ErrorKind::OutOfMemory, ""),
        (near(Target::Size(vec![HUGE / 64])), ErrorKind::OutOfMemory, ""),
        (near(Target::Size(vec![1, 2])), ErrorKind::InvalidArgument, "2 sizes or factors for 1 spatial axes"),
    ]);
}

#[test]
fn positions_of_images() {
    use ErrorKind::{DTypeMismatch, InvalidArgument, OutOfMemory, ShapeMismatch};
    use elinvar_ops::catalogue::grid_sample::{Padding as Outside, Sampling};
    let x = count(&[1, 1, 2, 2]);
    let grid = array(&[-1f32, -1.0, 1.0, 1.0, 3.0, 0.0], &[1, 1, 3, 2]);
    let read = |sampling, outside, align| grid_sample(&x, &grid, sampling, outside, align);
    let nearest = |outside| read(Sampling::Nearest, outside, true);
    let volume = count(&[1, 1, 2, 2, 2]);
    let places = array(&[0f32; 3], &[1, 1, 1, 1, 3]);
    check(vec![
        ("corners and outside", nearest(Outside::Zeros), array(&[0f32, 3.0, 0.0], &[1, 1, 1, 3])),
        // Halves go to the even row.
        ("the border", nearest(Outside::Border), array(&[0f32, 3.0, 1.0], &[1, 1, 1, 3])),
        ("a mirror", nearest(Outside::Reflection), array(&[0f32, 3.0, 0.0], &[1, 1, 1, 3])),
        (
            "a quarter of a corner",
            read(Sampling::Linear, Outside::Zeros, false),
            array(&[0f32, 0.75, 0.0], &[1, 1, 1, 3]),
        ),
        (
            "the middle of a volume",
            grid_sample(&volume, &places, Sampling::Linear, Outside::Zeros, true),
            array(&[3.5f32], &[1, 1, 1, 1, 1]),
        ),
        (
            "the places of an image",
            affine_grid(&array(&[1f32, 0.0, 0.0, 0.0, 1.0, 0.5], &[1, 2, 3]), &[1, 1, 1, 2], false),
            array(&[-0.5f32, 0.5, 0.5, 0.5], &[1, 1, 2, 2]),
        ),
    ]);
    let by = |x: &_, grid: &_, sampling| grid_sample(x, grid, sampling, Outside::Zeros, false);
    refuse(vec![
        (by(&x, &places, Sampling::Linear), ShapeMismatch, "they should be [n, c, h, w]"),
        (by(&count(&[2, 1, 2, 2]), &grid, Sampling::Linear), ShapeMismatch, "they should be"),
        (by(&volume, &places, Sampling::Cubic), InvalidArgument, "for images"),
        (
            by(&array::<f32>(&[], &[1, 1, 0, 2]), &grid, Sampling::Nearest),
            ShapeMismatch,
            "no elements to read",
        ),
        (by(&array(&[1f64], &[1, 1, 1, 1]), &grid, Sampling::Nearest), DTypeMismatch, "one float type"),
        (affine_grid(&array(&[0f32; 6], &[1, 2, 3]), &[1, 1, 0, 2], false), InvalidArgument, "above 0"),
        (affine_grid(&array(&[0f32; 6], &[1, 2, 3]), &[], false), ShapeMismatch, "without axes"),
        (affine_grid(&array(&[0f32; 6], &[1, 2, 3]), &[1, 2, 3, HUGE], false), OutOfMemory, ""),
    ]);
}

compile_rows! { 1 Unscaled; }

/// What `docs/reference/numerics.md` promises of statistics, against f64.
#[test]
fn statistics_far_from_zero() {
    let (u, eps) = (2f64.powi(-24), 1e-5);
    let centres = [
        (0.0, 1.0),
        (1.0, 1.0),
        (1e4, 0.3),
        (1e6, 1.0),
        (1e8, 100.0),
        (-1e8, 3.0),
        (3e20, 1e15),
        (1e-20, 1e-24),
    ];
    for (centre, deviation, n) in centres.into_iter().flat_map(|(m, d)| [7, 300, 5000].map(|n| (m, d, n))) {
        let s = Stream { seed: 4, stream: n as u64 };
        let unit = |i: usize| f64::from(s.word(i as u64)) / 2f64.powi(31) - 1.0;
        let x: Vec<f32> = (0..n).map(|i| (centre + deviation * unit(i)) as f32).collect();
        let wide: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        let average = |v: &mut dyn Iterator<Item = f64>| v.sum::<f64>() / n as f64;
        let m = average(&mut wide.iter().copied());
        let variance = average(&mut wide.iter().map(|x| (x - m).powi(2)));
        let d = n.min(4096).div_ceil(128) as f64 + 6.0 + (n as f64 / 4096.0).log2().ceil().max(0.0);
        let e = (d + 1.0) * u * average(&mut wide.iter().map(|x| x.abs()));
        let what = format!("{n} of {centre:e} and {deviation:e}");
        let one = |y: Result<A>| y.unwrap().to_host().unwrap().to_f64_vec();

        let got = one(mean(&f(&x), None, false))[0];
        assert!((got - m).abs() <= e, "mean of {what}: {got:e}, not {m:e}");
        let got = one(var(&f(&x), None, 0.0, false))[0];
        let least = 2f64.powi(-149) * (1.0 + n as f64);
        let bound = e * e + (d + 5.0) * u * (variance + e * e) + least;
        assert!((got - variance).abs() <= bound, "variance of {what}: {got:e}, not {variance:e}");
        let spread = (variance + eps).sqrt();
        let of_itself = e * e / (2.0 * spread * spread) + (d / 2.0 + 5.0) * u;
        for (got, x) in one(layer_norm(&f(&x), &[n], None, None, eps)).iter().zip(&wide) {
            let want = (x - m) / spread;
            let bound = (e / spread + want.abs() * of_itself) * (1.0 + 1e-4);
            assert!((got - want).abs() <= bound, "{x:e} of {what}: {got:e}, not {want:e} +- {bound:e}");
        }
    }
    let sum = f(&[3e38, 3e38]);
    assert_eq!(show(&layer_norm(&sum, &[2], None, None, eps).unwrap()), "f32 [2] [NaN, NaN]");
    assert_eq!(show(&var(&sum, None, 1.0, false).unwrap()), "f32 [] [inf]");
}

#[test]
fn attention() {
    let attend = |q: &A, k: &A, v: &A, mask: Option<&A>| {
        scaled_dot_product_attention(q, k, v, mask, false, None, false)
    };
    let (q, k) = (ones(&[2, 1]), ones(&[2, 1]));
    let v = array(&[2f32, 4.0], &[2, 1]);
    check(vec![
        (
            "a query that sees no key",
            attend(&q, &k, &v, Some(&array(&[true, true, false, false], &[2, 2]))),
            array(&[3f32, 0.0], &[2, 1]),
        ),
        (
            "no keys",
            attend(&q, &array::<f32>(&[], &[0, 1]), &array::<f32>(&[], &[0, 1]), None),
            array(&[0f32; 2], &[2, 1]),
        ),
        (
            "the first query sees the first key",
            scaled_dot_product_attention(&q, &k, &v, None, true, None, false),
            { array(&[2f32, 3.0], &[2, 1]) },
        ),
        ("batches broadcast", attend(&ones(&[2, 3, 2, 1]), &k, &v, None), array(&[3f32; 12], &[2, 3, 2, 1])),
        ("no batches", attend(&ones(&[0, 3, 2, 1]), &k, &v, None), array::<f32>(&[], &[0, 3, 2, 1])),
    ]);
    let heads = |q, k, gqa| {
        let (q, k) = (ones(&[1, q, 2, 1]), ones(&[1, k, 2, 1]));
        scaled_dot_product_attention(&q, &k, &k, None, false, None, gqa)
    };
    let many = |heads, features| {
        let e = array(&vec![1f32; features], &[1, 1, features]);
        let (w, o) = (ones(&[3 * features, features]), ones(&[features, features]));
        let weights = MhaWeights { in_proj: &w, in_bias: None, out_proj: &o, out_bias: None };
        multi_head_attention(&e, &e, &e, weights, None, None, heads, true, HeadWeights::None).map(|r| r.0)
    };
    // One sequence is a batch of one, whatever the order of the axes.
    let (x, w) = (count(&[3, 4]), count(&[12, 4]));
    let (o, hidden) = (count(&[4, 4]), array(&[false, true, false], &[3]));
    let weights = MhaWeights { in_proj: &w, in_bias: None, out_proj: &o, out_bias: None };
    let run = |x: &A, padding: &A, first, give| {
        multi_head_attention(x, x, x, weights, Some(padding), None, 2, first, give)
    };
    for give in [HeadWeights::None, HeadWeights::Averaged, HeadWeights::Each] {
        let (y, seen) = run(&x, &hidden, false, give).unwrap();
        let (x, hidden) = (unsqueeze(&x, 0).unwrap(), unsqueeze(&hidden, 0).unwrap());
        let (batch, all) = run(&x, &hidden, true, give).unwrap();
        let alone = |v: &A| select(v, 0, 0).unwrap();
        assert_eq!(show(&y), show(&alone(&batch)), "{give:?}");
        assert_eq!(seen.as_ref().map(show), all.as_ref().map(alone).as_ref().map(show), "{give:?}");
    }
    use ErrorKind::{DTypeMismatch, InvalidArgument, ShapeMismatch};
    refuse(vec![
        (
            attend(&q, &k, &v, Some(&array(&[true; 3], &[3]))),
            ShapeMismatch,
            "mask [3] does not broadcast to the scores [1, 2, 2]",
        ),
        (heads(4, 2, false), ShapeMismatch, "enable_gqa was not asked for"),
        (heads(3, 2, true), ShapeMismatch, "3 query heads do not divide among 2 key heads"),
        (attend(&q, &ones(&[2, 3]), &v, None), ShapeMismatch, "must agree in the last size"),
        (attend(&q, &ones(&[3, 1]), &v, None), ShapeMismatch, "must agree in the last size"),
        (attend(&f(&[1.0]), &k, &v, None), ShapeMismatch, "each should be [.., heads, length, size]"),
        (attend(&q, &k, &v, Some(&i(&[1, 1]))), DTypeMismatch, "the mask is i64"),
        (attend(&q, &k, &v, Some(&ones(&[3, 2]))), ShapeMismatch, ""),
        (many(0, 4), InvalidArgument, "4 features do not divide among 0 heads"),
        (many(3, 4), InvalidArgument, "4 features do not divide among 3 heads"),
    ]);
    assert_eq!(show(&many(2, 2).unwrap()), show(&array(&[4f32, 4.0], &[1, 1, 2])));
}

#[test]
fn recurrent_nets() {
    let (w_ih, w_hh) = (ones(&[4, 3]), array(&[0f32; 4], &[4, 1]));
    let w = RnnWeights { w_ih: &w_ih, w_hh: &w_hh, b_ih: None, b_hh: None };
    let run = |x: &A, n, both| {
        let o = RnnOptions { batch_first: false, bidirectional: both };
        lstm(x, None, &vec![w; n], o).map(|r| r.0)
    };
    let (one, two) = (run(&ones(&[5, 3]), 1, false), run(&ones(&[5, 1, 3]), 1, false));
    assert_eq!(one.unwrap().to_host().unwrap().data(), two.unwrap().to_host().unwrap().data());
    use ErrorKind::{InvalidArgument, ShapeMismatch};
    refuse(vec![
        (run(&array::<f32>(&[], &[0, 2, 3]), 1, false), ShapeMismatch, "no time steps"),
        (run(&ones(&[5, 2, 3]), 0, false), InvalidArgument, "0 sets of weights"),
        (run(&ones(&[5, 2, 3]), 1, true), InvalidArgument, "1 sets of weights for layers of 2 directions"),
        (run(&ones(&[5, 2, 3]), 2, false), ShapeMismatch, "w_ih [4, 3] of layer 1 should have shape [4, 1]"),
        (
            run(&ones(&[5, 2, 4]), 1, false),
            ShapeMismatch,
            "input [5, 2, 4] has 4 features, and the weights are for 3",
        ),
        (run(&f(&[1.0]), 1, false), ShapeMismatch, "should be [time, batch, features]"),
    ]);
}

#[test]
fn dropped_elements() {
    let stream = |stream| Stream { seed: 7, stream };
    let x = ones(&[100, 100]);
    let drop = |p, s| dropout(&x, p, stream(s), true);
    let kept = drop(0.25, 1).unwrap().to_host().unwrap().to_f64_vec();
    let zeros = kept.iter().filter(|&&v| v == 0.0).count();
    // 2500 are expected, with a standard deviation of 43.
    assert!((2250..2750).contains(&zeros), "{zeros} of 10000 dropped");
    assert!(kept.iter().all(|&v| v == 0.0 || v == f64::from(1f32 / 0.75)));
    assert_eq!(show(&drop(0.25, 1).unwrap()), show(&drop(0.25, 1).unwrap()));
    assert_ne!(show(&drop(0.25, 1).unwrap()), show(&drop(0.25, 2).unwrap()));
    check(vec![
        ("nothing", drop(0.0, 1), x.clone()),
        ("everything", dropout(&f(&[1.0, INF, NAN]), 1.0, stream(1), true), f(&[0.0; 3])),
        ("not in training", dropout(&x, 1.0, stream(1), false), x.clone()),
    ]);
    refuse(vec![
        (drop(1.5, 1), ErrorKind::InvalidArgument, "dropout: p is 1.5"),
        (drop(f64::NAN, 1), ErrorKind::InvalidArgument, "dropout: p is NaN"),
    ]);
}

#[test]
fn linear_layers() {
    let (x, w) = (count(&[2, 3, 2]), f(&[1.0, 10.0]));
    let (xi, wi) = (array(&[1i64, 2, 3, 4], &[2, 2]), array(&[1i64, 1, 0, 2], &[2, 2]));
    check(vec![
        (
            "a weight of one output",
            linear(&x, &w, Some(&array(&[0.5f32], &[]))),
            array(&[10.5f32, 32.5, 54.5, 76.5, 98.5, 120.5], &[2, 3]),
        ),
        ("a vector by a vector", linear(&f(&[2.0, 3.0]), &w, None), array(&[32f32], &[])),
        ("integers", linear(&xi, &wi, Some(&i(&[10, 20]))), array(&[13i64, 24, 17, 28], &[2, 2])),
    ]);
    use ErrorKind::{DTypeMismatch, ShapeMismatch};
    refuse(vec![
        (linear(&x, &f(&[1.0; 3]), None), ShapeMismatch, "the last sizes are 2 and 3"),
        (linear(&x, &w, Some(&f(&[1.0]))), ShapeMismatch, "bias [1] for weight [2]; it must be []"),
        (
            linear(&array(&[true; 2], &[2]), &array(&[true; 2], &[2]), None),
            DTypeMismatch,
            "linear: matmul: operands are bool and bool",
        ),
    ]);
}
