//! Single numbers beside tensors, and random numbers: what a dtype cannot hold is an error, and a
//! comparison is right all the same.

use elinvar_core::{DType, ErrorKind};
use elinvar_ops::catalogue::pad::Mode;
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::{Generator, Tensor, try_run};

type T = Tensor<Reference>;

const D: ReferenceDevice = ReferenceDevice;
const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

fn values(x: &T) -> Vec<f64> {
    x.to_host().unwrap().to_f64_vec()
}
fn u8s(v: &[u8]) -> T {
    T::from_vec(v.to_vec(), v.len(), &D)
}

#[test]
fn integers_are_compared_with_numbers_exactly() {
    type F = fn() -> T;
    let rows: [(&str, F, &[f64]); 20] = [
        ("u8 == 300", || u8s(&[44, 0]).eq(300), &[0.0, 0.0]),
        ("u8 != 300", || u8s(&[44]).ne(300), &[1.0]),
        ("u8 == -1", || u8s(&[255]).eq(-1), &[0.0]),
        ("u8 > -1", || u8s(&[100, 0]).gt(-1), &[1.0, 1.0]),
        ("u8 > -1.0", || u8s(&[100]).gt(-1.0), &[1.0]),
        ("u8 < 300", || u8s(&[100, 255]).lt(300), &[1.0, 1.0]),
        ("u8 >= 255.5", || u8s(&[255]).ge(255.5), &[0.0]),
        ("u8 <= 2.5", || u8s(&[2, 3]).le(2.5), &[1.0, 0.0]),
        ("u8 > 2.5", || u8s(&[2, 3]).gt(2.5), &[0.0, 1.0]),
        ("u8 < 2.5", || u8s(&[2, 3]).lt(2.5), &[1.0, 0.0]),
        ("u8 == 2.5", || u8s(&[2, 3]).eq(2.5), &[0.0, 0.0]),
        ("u8 < inf", || u8s(&[255]).lt(INF), &[1.0]),
        ("u8 < NaN", || u8s(&[255]).lt(NAN), &[0.0]),
        ("u8 != NaN", || u8s(&[255]).ne(NAN), &[1.0]),
        ("i32 == 2^32 + 3", || T::new([3i32], &D).eq((1i64 << 32) + 3), &[0.0]),
        ("i64 < 2^63", || T::new([i64::MAX], &D).lt(2f64.powi(63)), &[1.0]),
        ("i64 == 2^63", || T::new([i64::MAX], &D).eq(2f64.powi(63)), &[0.0]),
        ("i64 >= -2^63", || T::new([i64::MIN], &D).ge(-(2f64.powi(63))), &[1.0]),
        ("bool == 2", || T::new([true, false], &D).eq(2), &[0.0, 0.0]),
        ("f32 == 0.1", || T::new([0.1f32], &D).eq(0.1), &[1.0]),
    ];
    for (what, f, want) in rows {
        let y = f();
        assert_eq!((y.dtype(), &values(&y)[..]), (DType::Bool, want), "{what}");
    }
    assert!(T::zeros([0, 3], DType::U8, &D).eq(300).dims() == [0, 3]);
}

#[test]
fn other_ops_take_what_the_dtype_holds() {
    let u = || u8s(&[2, 43, 254]);
    type F = Box<dyn Fn() -> T>;
    let rows: Vec<(&str, F)> = vec![
        ("u8 + 300.0", Box::new(move || u() + 300.0)),
        ("u8 + 300", Box::new(move || u() + 300)),
        ("u8 - 1 by -1", Box::new(move || u() + (-1))),
        ("-1.0 * u8", Box::new(move || -1.0 * u())),
        ("u8 ^ -1", Box::new(move || u() ^ -1)),
        ("u8 to the power of -1", Box::new(move || u().pow(-1))),
        ("the larger of u8 and 256", Box::new(move || u().maximum(256))),
        ("i32 + 3e9", Box::new(|| T::new([1i32], &D) + 3e9)),
        ("i64 + 1e19", Box::new(|| T::new([1i64], &D) + 1e19)),
        ("bool & 2", Box::new(|| T::new([true], &D) & 2)),
        ("full NaN", Box::new(|| T::full([1], NAN, DType::I64, &D))),
        ("full 0.5", Box::new(|| T::full([1], 0.5, DType::I64, &D))),
        ("full 300", Box::new(|| T::full([1], 300, DType::U8, &D))),
        ("full -1", Box::new(|| T::full([1], -1, DType::Bool, &D))),
        ("full inf", Box::new(|| T::full([0], INF, DType::I32, &D))),
        ("full_like", Box::new(move || u().full_like(256))),
        ("masked_fill", Box::new(move || u().masked_fill(&T::new([true, false, true], &D), 300))),
        ("index_fill", Box::new(move || u().index_fill(0, &T::new([0i64], &D), -1))),
        ("scatter_value", Box::new(move || u().scatter_value(0, &T::new([0i64], &D), 300))),
        ("pad", Box::new(move || u().pad([1, 0], Mode::Constant(300.into())))),
        ("pad of nothing", Box::new(move || u().pad([0, 0], Mode::Constant(300.into())))),
        ("index_add", Box::new(move || u().index_add(0, &T::new([0i64], &D), &u8s(&[1]), -1))),
        ("clamp to 256 and more", Box::new(move || u().clamp(Some(256.into()), None))),
        ("clamp to less than 0", Box::new(move || u().clamp(None, Some((-1).into())))),
        ("clamp to a fraction", Box::new(move || u().clamp(Some(0.5.into()), None))),
    ];
    for (what, f) in rows {
        let e = try_run(f).map(|y| values(&y)).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::DTypeMismatch, "{what}: {e}");
        assert!(e.message().contains("does not fit a tensor of"), "{what}: {e}");
    }
    assert_eq!(values(&u().clamp(Some((-5).into()), Some(300.into()))), [2.0, 43.0, 254.0]);
    assert_eq!(values(&(u() + 1.0)), [3.0, 44.0, 255.0]);
    assert_eq!(values(&(T::new([true, false], &D) & 1)), [1.0, 0.0]);
    assert_eq!(values(&T::full([1], usize::MAX, DType::F64, &D)), [2f64.powi(64)]);
    // Floats round.
    assert_eq!(values(&T::full([1], 1e300, DType::F32, &D)), [INF]);
    assert_eq!(values(&(T::zeros([1], DType::BF16, &D) + 257)), [256.0]);
    assert_eq!(values(&T::full([1], 1e300, DType::F8E5M2, &D)), [INF]);
    assert!(values(&T::full([1], 1e300, DType::F8E4M3, &D))[0].is_nan());
    assert_eq!(values(&(T::zeros([1], DType::F8E4M3, &D) + 17)), [16.0]);
}

#[test]
fn uniform_numbers_stay_in_their_half_open_interval() {
    let mut r = Generator::new(1);
    let rows = [
        (0.0, 1.0, DType::BF16),
        (0.0, 1.0, DType::F16),
        (0.0, 1.0, DType::F32),
        (0.0, 1.0, DType::F64),
        (-1.0, 0.0, DType::F16),
        (-1.0, 0.0, DType::BF16),
        (1e6, 1e6 + 1.0, DType::F32),
        (1000.0, 1001.0, DType::F16),
        (0.1, 0.3, DType::F16),
        (0.1, 0.3, DType::BF16),
        (0.0, 1.0, DType::F8E4M3),
        (-448.0, 448.0, DType::F8E4M3),
        (0.1, 0.3, DType::F8E5M2),
        (0.1, 0.1000001, DType::F32),
        (-65504.0, 65504.0, DType::F16),
        (1.0, 1.0f64.next_up(), DType::F64),
    ];
    for (low, high, dtype) in rows {
        let v = values(&r.uniform(low, high, 100_000, dtype, &D));
        assert!(v.iter().all(|x| low <= *x && *x < high), "{low}..{high} {dtype}");
    }
    // Of an interval that is one number, it is that number.
    assert_eq!(values(&r.uniform(0.0, 0.0, 3, DType::F32, &D)), [0.0; 3]);
    // What was inside of it already has the bits that it had.
    let state = r.state();
    let half = values(&r.uniform(0.0, 1.0, 100_000, DType::F16, &D));
    let wide = Generator::from_state(state).uniform(0.0, 1.0, 100_000, DType::F32, &D);
    let rounded = values(&wide.to_dtype(DType::F16));
    assert!(rounded.contains(&1.0));
    assert!(rounded.iter().zip(&half).all(|(r, h)| r == h || (*r == 1.0 && *h == 1.0 - 2f64.powi(-11))));
}

#[test]
fn draws_that_do_not_exist_are_errors() {
    fn r() -> Generator {
        Generator::new(1)
    }
    fn uniform(low: f64, high: f64, dtype: DType) -> Box<dyn Fn() -> T> {
        Box::new(move || r().uniform(low, high, 4, dtype, &D))
    }
    fn normal(mean: f64, std: f64) -> Box<dyn Fn() -> T> {
        Box::new(move || r().normal(mean, std, 4, DType::F32, &D))
    }
    fn bernoulli(p: f64) -> Box<dyn Fn() -> T> {
        Box::new(move || r().bernoulli(p, 4, DType::F32, &D))
    }
    fn randint(low: i64, high: i64, dtype: DType) -> Box<dyn Fn() -> T> {
        Box::new(move || r().randint(low, high, 4, dtype, &D))
    }
    let rows: [(Box<dyn Fn() -> T>, &str); 22] = [
        (uniform(1.0, 0.0, DType::F32), "uniform: the bounds are 1 and 0"),
        (uniform(NAN, 1.0, DType::F32), "uniform: the bounds"),
        (uniform(0.0, NAN, DType::F64), "uniform: the bounds"),
        (uniform(0.0, INF, DType::F64), "uniform: the bounds"),
        (uniform(0.0, 1e5, DType::F16), "f16 cannot hold"),
        (uniform(-1e300, 0.0, DType::F32), "f32 cannot hold"),
        (uniform(-3e38, 3e38, DType::F32), "f32 cannot hold"),
        (uniform(-1e308, 1e308, DType::F64), "f64 cannot hold"),
        (uniform(1.0001, 1.0002, DType::F16), "f16 has no number"),
        (normal(0.0, -1.0), "normal: mean 0 and standard deviation -1"),
        (normal(NAN, 1.0), "normal: mean"),
        (normal(0.0, NAN), "normal: mean"),
        (normal(0.0, INF), "normal: mean"),
        (bernoulli(2.0), "bernoulli: p is 2"),
        (bernoulli(-0.1), "bernoulli: p"),
        (bernoulli(NAN), "bernoulli: p"),
        (randint(0, 0, DType::I64), "randint: there is no whole number in 0..0"),
        (randint(5, 3, DType::I64), "randint: there is no"),
        (randint(-5, 0, DType::U8), "u8 cannot hold -5..0"),
        (randint(0, 1000, DType::U8), "u8 cannot hold"),
        (randint(0, 1 << 40, DType::I32), "i32 cannot hold"),
        (randint(i64::MIN, 0, DType::I32), "i32 cannot hold"),
    ];
    for (f, says) in rows {
        let e = try_run(f).map(|y| values(&y)).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
        assert!(e.message().contains(says), "{says}: {e}");
    }
    assert!(values(&r().randint(0, 256, 1000, DType::U8, &D)).contains(&255.0));
}

/// PyTorch's `dtype`: the elements are converted before anything is computed.
#[test]
fn results_of_another_dtype() {
    let d = ReferenceDevice;
    let x = Tensor::<Reference>::from_vec(vec![1i64, 2, 3, 4], (2, 2), &d);
    let (f32, f64) = (DType::F32, DType::F64);
    assert_eq!(x.sum_as(0, false, f32).to_vec::<f32>().unwrap(), [4.0, 6.0]);
    assert_eq!(x.mean_as(1, false, f64).to_vec::<f64>().unwrap(), [1.5, 3.5]);
    assert_eq!(x.prod_as(1, false, f32).to_vec::<f32>().unwrap(), [2.0, 12.0]);
    assert_eq!(x.nansum_as(1, false, f32).to_vec::<f32>().unwrap(), [3.0, 7.0]);
    assert_eq!(x.nanmean_as(1, false, f32).to_vec::<f32>().unwrap(), [1.5, 3.5]);
    assert_eq!(x.cumsum_as(0, f32).to_vec::<f32>().unwrap(), [1.0, 2.0, 4.0, 6.0]);
    assert_eq!(x.cumprod_as(0, f32).to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 8.0]);
    assert!(x.softmax_as(1, f64).same_bits(&x.to_dtype(f64).softmax(1)));
    assert!(x.log_softmax_as(1, f32).same_bits(&x.to_dtype(f32).log_softmax(1)));
}
