//! Fourier transforms of many lengths against their definition, in f64 and f32, and what is
//! refused.

use elinvar_core::{DType, ErrorKind};
use elinvar_ops::catalogue::fourier::Norm;
use elinvar_ops::catalogue::fourier::tables::root_of_unity;
use elinvar_ops::catalogue::pad::Mode;
use elinvar_ops::catalogue::stft::Frames;
use elinvar_ops::{Array, Door};
use elinvar_reference::{Reference, ReferenceDevice};

type A = Array<Reference>;

/// Of every kind of plan: levels of twos, of other primes, of both, convolutions; even and odd.
const LENGTHS: [usize; 18] = [1, 2, 3, 5, 8, 17, 64, 65, 66, 67, 75, 96, 134, 135, 201, 256, 1000, 1331];

fn signal(n: usize, seed: usize) -> Vec<f64> {
    (0..n).map(|i| root_of_unity((i * i * 7 + i * 3 + seed) % 1009, 1009)[0]).collect()
}

/// By the definition: pairs to pairs.
fn defined(x: &[f64], sign: f64) -> Vec<f64> {
    let n = x.len() / 2;
    let roots: Vec<[f64; 2]> = (0..n).map(|k| root_of_unity(k, n)).collect();
    (0..n)
        .flat_map(|k| {
            let (mut re, mut im) = (0.0, 0.0);
            for j in 0..n {
                let [c, s] = roots[j * k % n];
                let (a, b, s) = (x[2 * j], x[2 * j + 1], s * sign);
                re += a * c - b * s;
                im += a * s + b * c;
            }
            [re, im]
        })
        .collect()
}

fn near(got: &A, expected: &[f64], what: &str) {
    // The definition, in f64 too, has as many terms as the transform is long.
    let bound = match got.dtype() {
        DType::F64 => f64::EPSILON * (4.0 + 2.0 * (expected.len() as f64).sqrt()),
        _ => f64::from(f32::EPSILON) * 8.0,
    };
    let got = Reference::to_vec::<f64>(&got.cast(DType::F64).unwrap()).unwrap();
    assert_eq!(got.len(), expected.len(), "{what}");
    let size = (expected.iter().map(|e| e * e).sum::<f64>() / expected.len() as f64).sqrt();
    let bound = bound * size;
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        assert!((g - e).abs() <= bound, "{what}: element {i} is {g}, should be {e}; bound {bound}");
    }
}

fn array(v: &[f64], shape: &[usize], dtype: DType) -> A {
    Array::from_f64s(&ReferenceDevice, v.to_vec(), shape, dtype).unwrap()
}

#[test]
fn every_kind_of_length() {
    for n in LENGTHS {
        for dtype in [DType::F64, DType::F32] {
            // What is stored is what is transformed.
            let x = array(&signal(2 * n, n), &[1, n, 2], dtype);
            let stored = Reference::to_vec::<f64>(&x.cast(DType::F64).unwrap()).unwrap();
            let (forward, inverse) = (defined(&stored, -1.0), defined(&stored, 1.0));
            near(
                &Reference::fft(&x, None, -1, Norm::Backward).unwrap(),
                &forward,
                &format!("fft {n} {dtype}"),
            );
            near(
                &Reference::ifft(&x, None, -1, Norm::Forward).unwrap(),
                &inverse,
                &format!("ifft {n} {dtype}"),
            );

            let x = array(&signal(n, n), &[1, n], dtype);
            let stored = Reference::to_vec::<f64>(&x.cast(DType::F64).unwrap()).unwrap();
            let wide: Vec<f64> = stored.iter().flat_map(|&v| [v, 0.0]).collect();
            let half = Reference::rfft(&x, None, -1, Norm::Backward).unwrap();
            near(&half, &defined(&wide, -1.0)[..2 * (n / 2 + 1)], &format!("rfft {n} {dtype}"));
            let back = Reference::irfft(&half, Some(n), -1, Norm::Backward).unwrap();
            near(&back, &stored, &format!("irfft of rfft {n} {dtype}"));
        }
    }
}

#[test]
fn short_time_transforms_invert() {
    let x = array(&signal(200, 1), &[2, 100], DType::F64);
    let frames = Frames { win_length: 12, hop_length: 5, ..Frames::new(16) };
    let window = array(&signal(12, 3).iter().map(|v| v + 1.5).collect::<Vec<_>>(), &[12], DType::F64);
    let y = Reference::stft(&x, Some(&window), &frames, Mode::Reflect).unwrap();
    assert_eq!(y.shape().dims(), [2, 9, 21, 2]);
    let back = Reference::istft(&y, Some(&window), &frames, Some(100)).unwrap();
    near(&back, &Reference::to_vec::<f64>(&x).unwrap(), "istft of stft");
}

#[test]
fn refused() {
    let pairs = array(&[0.0; 12], &[2, 3, 2], DType::F32);
    let real = array(&[0.0; 6], &[2, 3], DType::F32);
    let whole = Array::<Reference>::from_vec(&ReferenceDevice, vec![1i64, 2], &[1, 2]).unwrap();
    let kind = |r: elinvar_core::Result<A>| r.unwrap_err().kind();
    let b = Norm::Backward;
    assert_eq!(kind(Reference::fft(&real, None, -1, b)), ErrorKind::ShapeMismatch);
    assert_eq!(kind(Reference::fft(&whole, None, -1, b)), ErrorKind::DTypeMismatch);
    assert_eq!(kind(Reference::rfft(&whole, None, -1, b)), ErrorKind::DTypeMismatch);
    assert_eq!(kind(Reference::fft(&pairs, Some(0), -1, b)), ErrorKind::InvalidArgument);
    assert_eq!(kind(Reference::fft(&pairs, None, 2, b)), ErrorKind::InvalidArgument);
    assert_eq!(kind(Reference::irfft(&pairs, Some(0), -1, b)), ErrorKind::InvalidArgument);
    assert_eq!(kind(Reference::fftn(&pairs, Some(&[1]), Some(&[0, 1]), b)), ErrorKind::InvalidArgument);
    assert_eq!(kind(Reference::fftn(&pairs, None, Some(&[0, 0]), b)), ErrorKind::InvalidArgument);
    assert_eq!(kind(Reference::fft(&pairs, Some(usize::MAX), -1, b)), ErrorKind::InvalidArgument);
    // A length of 0 is seen before an axis is transformed, which here is not possible either.
    let told = |r: elinvar_core::Result<A>| r.unwrap_err().message().contains("a transform of 0 elements");
    for s in [[0, usize::MAX], [usize::MAX, 0]] {
        assert!(told(Reference::fftn(&pairs, Some(&s), None, b)), "{s:?}");
        assert!(told(Reference::ifftn(&pairs, Some(&s), None, b)), "{s:?}");
        assert!(told(Reference::rfftn(&real, Some(&s), None, b)), "{s:?}");
        assert!(told(Reference::irfftn(&pairs, Some(&s), None, b)), "{s:?}");
    }
    let one = array(&[0.0; 4], &[2, 1, 2], DType::F32);
    assert!(told(Reference::irfftn(&one, None, None, b)));
    let frames = Frames { hop_length: 0, ..Frames::new(2) };
    assert_eq!(kind(Reference::stft(&real, None, &frames, Mode::Reflect)), ErrorKind::InvalidArgument);
    let frames = Frames { center: false, ..Frames::new(4) };
    assert_eq!(kind(Reference::stft(&real, None, &frames, Mode::Reflect)), ErrorKind::InvalidArgument);
}
