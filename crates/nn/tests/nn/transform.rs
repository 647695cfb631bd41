//! Transforms of images: by definition, and against PyTorch.

use elinvar_core::{ErrorKind, HostTensor, Shape};
use elinvar_nn::data::SampleRandom;
use elinvar_nn::data::transform::*;

fn image(v: &[f32], dims: [usize; 3]) -> HostTensor {
    HostTensor::from_vec(v.to_vec(), Shape::new(&dims).unwrap()).unwrap()
}

/// Pixel (i, j) of channel c is 100 c + 10 i + j.
fn numbered([c, h, w]: [usize; 3]) -> HostTensor {
    let pixel = |n: usize| (n / (h * w) * 100 + n / w % h * 10 + n % w) as f32;
    image(&(0..c * h * w).map(pixel).collect::<Vec<_>>(), [c, h, w])
}

fn pixels(t: &HostTensor) -> &[f32] {
    t.as_slice().unwrap()
}

#[test]
fn an_image_is_resized_as_pytorch_does() {
    // x = torch.tensor([[[[0.,1,4,9,16],[1,3,2,0,5],[7,7,1,2,8]]]], dtype=torch.float64)
    // F.interpolate(x, size=s, mode='bilinear', antialias=True, align_corners=False)
    let x = image(&[0.0, 1.0, 4.0, 9.0, 16.0, 1.0, 3.0, 2.0, 0.0, 5.0, 7.0, 7.0, 1.0, 2.0, 8.0], [1, 3, 5]);
    let rows: [((usize, usize), &[f32]); 4] = [
        // Smaller, by a fractional factor.
        ((2, 2), &[1.8295454545454541, 6.8977272727272725, 4.1306818181818175, 3.261363636363636]),
        // To one row: every pixel contributes.
        ((1, 3), &[2.9183673469387754, 2.761904761904762, 6.489795918367349]),
        // Larger one way, smaller the other.
        (
            (6, 3),
            &[
                0.4285714285714289,
                4.444444444444445,
                13.000000000000002,
                0.7857142857142859,
                3.777777777777778,
                10.464285714285717,
                1.5,
                2.4444444444444446,
                5.392857142857144,
                3.1428571428571423,
                1.9722222222222225,
                3.500000000000001,
                5.7142857142857135,
                2.3611111111111116,
                4.7857142857142865,
                6.999999999999999,
                2.5555555555555562,
                5.42857142857143,
            ],
        ),
        // The same size: the same image.
        ((3, 5), &[0.0, 1.0, 4.0, 9.0, 16.0, 1.0, 3.0, 2.0, 0.0, 5.0, 7.0, 7.0, 1.0, 2.0, 8.0]),
    ];
    for (size, want) in rows {
        let y = resize(&x, size).unwrap();
        assert_eq!(y.shape().dims(), [1, size.0, size.1]);
        for (a, b) in pixels(&y).iter().zip(want) {
            // PyTorch adds in another order; in f64 the difference is far below one rounding to
            // f32.
            assert!((a - b).abs() <= b.abs() * f32::EPSILON, "{size:?}: {a} {b}");
        }
    }
    let two = resize(&numbered([2, 4, 4]), (2, 2)).unwrap();
    assert!(pixels(&two)[..4].iter().zip(&pixels(&two)[4..]).all(|(a, b)| (b - a - 100.0).abs() < 1e-4));
    assert_eq!(resize(&x, (0, 3)).unwrap().shape().dims(), [1, 0, 3]);
    assert_eq!(resize(&image(&[], [1, 0, 3]), (2, 2)).unwrap_err().kind(), ErrorKind::ShapeMismatch);
    assert_eq!(resize(&x, (1 << 40, 1 << 40)).unwrap_err().kind(), ErrorKind::OutOfMemory);
}

#[test]
fn parts_of_an_image() {
    let x = numbered([2, 3, 4]);
    assert_eq!(pixels(&flip(&x).unwrap())[..8], [3.0, 2.0, 1.0, 0.0, 13.0, 12.0, 11.0, 10.0]);
    assert_eq!(flip(&flip(&x).unwrap()).unwrap(), x);
    assert_eq!(flip(&image(&[], [1, 2, 0])).unwrap().shape().dims(), [1, 2, 0]);
    assert_eq!(pixels(&center_crop(&x, (2, 2)).unwrap()), [1.0, 2.0, 11.0, 12.0, 101.0, 102.0, 111.0, 112.0]);
    assert_eq!(center_crop(&x, (4, 2)).unwrap_err().kind(), ErrorKind::ShapeMismatch);
    let z = 0.0;
    for (at, size, want) in [
        ((0, 0), (1, 2), vec![0.0, 1.0, 100.0, 101.0]),
        ((-1, -1), (2, 3), vec![z, z, z, z, 0.0, 1.0, z, z, z, z, 100.0, 101.0]),
        ((2, 3), (2, 2), vec![23.0, z, z, z, 123.0, z, z, z]),
        // Wider than the image on both sides.
        ((1, -1), (1, 6), vec![z, 10.0, 11.0, 12.0, 13.0, z, z, 110.0, 111.0, 112.0, 113.0, z]),
        // Outside.
        ((9, 0), (1, 1), vec![z; 2]),
        ((0, 4), (1, 1), vec![z; 2]),
        ((0, -1), (1, 1), vec![z; 2]),
        ((isize::MAX, isize::MAX), (2, 1), vec![z; 4]),
        ((isize::MIN, isize::MIN), (1, 2), vec![z; 4]),
        ((0, 0), (0, 2), vec![]),
    ] {
        assert_eq!(pixels(&crop(&x, at, size).unwrap()), want, "{at:?} {size:?}");
    }
    let y = normalize(&x, &[1.0, 100.0], &[2.0, 4.0]).unwrap();
    assert_eq!((pixels(&y)[1], pixels(&y)[23]), (0.0, (123.0 - 100.0) / 4.0));
    assert_eq!(normalize(&x, &[1.0], &[2.0, 4.0]).unwrap_err().kind(), ErrorKind::ShapeMismatch);
    for std in [0.0, -1.0, f32::NAN] {
        assert_eq!(normalize(&x, &[0.0; 2], &[1.0, std]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let flat = HostTensor::from_vec(vec![1i64], Shape::new(&[1]).unwrap()).unwrap();
    assert_eq!(flip(&flat).unwrap_err().message(), "flip: [1] of i64; an image [c, h, w] of f32 would fit");
}

#[test]
fn chance_comes_from_seed_epoch_and_sample() {
    let x = numbered([1, 4, 4]);
    let draw = |epoch, sample| {
        let mut r = SampleRandom::new(3, epoch, sample);
        let y = random_crop(&x, (4, 4), 2, &mut r).unwrap();
        let y = random_flip(&y, 0.5, &mut r).unwrap();
        cutout(&y, 2, &mut r).unwrap()
    };
    assert_eq!(draw(1, 5), draw(1, 5));
    let different = (0..20).filter(|i| draw(1, *i) != draw(2, *i)).count();
    assert!(different > 15, "{different}");

    let mut r = SampleRandom::new(0, 0, 0);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..400 {
        let y = random_crop(&x, (3, 3), 1, &mut r).unwrap();
        assert_eq!(y.shape().dims(), [1, 3, 3]);
        seen.insert(pixels(&y).iter().map(|p| *p as i32).collect::<Vec<_>>());
    }
    // A border of 1 gives 6 x 6 pixels: 4 x 4 positions of a 3 x 3 crop.
    assert_eq!(seen.len(), 16);
    assert_eq!(random_crop(&x, (4, 4), 0, &mut r).unwrap(), x);
    assert_eq!(random_crop(&x, (7, 4), 1, &mut r).unwrap_err().kind(), ErrorKind::ShapeMismatch);
    assert_eq!(random_crop(&x, (4, 4), usize::MAX, &mut r).unwrap_err().kind(), ErrorKind::ShapeMismatch);
    assert_eq!(random_flip(&x, 1.0, &mut r).unwrap(), flip(&x).unwrap());
    assert_eq!(random_flip(&x, 0.0, &mut r).unwrap(), x);

    let ones = image(&[1.0; 50], [2, 5, 5]);
    let mut sizes = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let y = cutout(&ones, 3, &mut r).unwrap();
        let gone = |c: usize| pixels(&y)[c * 25..][..25].iter().filter(|p| **p == 0.0).count();
        assert_eq!(gone(0), gone(1), "the same square in every channel");
        sizes.insert(gone(0));
    }
    // 3 x 3 inside, 2 x 3 at an edge, 2 x 2 in a corner.
    assert_eq!(sizes.into_iter().collect::<Vec<_>>(), [4, 6, 9]);
    assert_eq!(cutout(&ones, 0, &mut r).unwrap(), ones);
    assert!(pixels(&cutout(&ones, usize::MAX, &mut r).unwrap()).iter().all(|p| *p == 0.0));
    assert_eq!(cutout(&image(&[], [1, 0, 3]), 2, &mut r).unwrap().shape().dims(), [1, 0, 3]);
}
