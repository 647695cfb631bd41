//! Factorisations of many sizes against what defines them, matrices that are hard, and what is
//! refused.

use elinvar_core::{DType, ErrorKind};
use elinvar_ops::catalogue::lstsq::Driver;
use elinvar_ops::catalogue::matrix_norm::MatrixOrd;
use elinvar_ops::catalogue::qr::QrMode;
use elinvar_ops::{Array, Door};
use elinvar_reference::{Reference as R, ReferenceDevice};

type A = Array<R>;

/// Of one leaf, of halves, of several blocks of a system; odd and even.
const SIZES: [usize; 10] = [1, 2, 3, 5, 8, 9, 16, 17, 33, 70];

/// Numbers between -1 and 1 without a pattern.
fn noise(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / f64::from(1u32 << 30) - 1.0
    };
    (0..n).map(|_| next()).collect()
}

fn array(v: &[f64], shape: &[usize], dtype: DType) -> A {
    Array::from_f64s(&ReferenceDevice, v.to_vec(), shape, dtype).unwrap()
}

fn matrix(m: usize, n: usize, dtype: DType) -> A {
    array(&noise(2 * m * n, (m * 1000 + n) as u64), &[2, m, n], dtype)
}

fn numbers(x: &A) -> Vec<f64> {
    R::to_vec::<f64>(&x.cast(DType::F64).unwrap()).unwrap()
}

fn turned(x: &A) -> A {
    R::transpose(x, -1, -2).unwrap()
}

fn times(x: &A, y: &A) -> A {
    R::matmul(x, y).unwrap()
}

fn unit(n: usize, dtype: DType) -> A {
    R::eye(&ReferenceDevice, n, dtype).unwrap()
}

/// Is each element of x within `units` of rounding of the size of the largest one of y?
#[track_caller]
fn near(x: &A, y: &A, units: f64, what: &str) {
    let eps = if x.dtype() == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let y = R::broadcast_to(y, x.shape()).unwrap();
    let (x, y) = (numbers(x), numbers(&y));
    let size = y.iter().fold(0.0f64, |a, b| a.max(b.abs())).max(1e-300);
    let worst = x.iter().zip(&y).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(worst <= units * eps * size, "{what}: {} units of {size}", worst / eps / size);
    assert!(x.iter().all(|v| v.is_finite()), "{what}");
}

fn each(f: impl Fn(usize, DType)) {
    for n in SIZES {
        for dtype in [DType::F64, DType::F32] {
            f(n, dtype);
        }
    }
}

#[test]
fn positive_definite() {
    each(|n, dtype| {
        let x = matrix(n, n, dtype);
        let a = R::add(&times(&x, &turned(&x)), &unit(n, dtype)).unwrap();
        let l = R::cholesky(&a, false).unwrap();
        near(&times(&l, &turned(&l)), &a, 8.0, &format!("cholesky {n} {dtype}"));
        assert_eq!(numbers(&R::triu(&l, 1).unwrap()), vec![0.0; 2 * n * n]);
        let (_, info) = R::cholesky_ex(&a, false).unwrap();
        assert_eq!(R::to_vec::<i32>(&info).unwrap(), [0, 0]);
    });
}

#[test]
fn systems() {
    each(|n, dtype| {
        let a = R::add(
            &matrix(n, n, dtype),
            &R::mul(&unit(n, dtype), &array(&[(n as f64).sqrt()], &[1], dtype)).unwrap(),
        );
        let (a, y) = (a.unwrap(), matrix(n, 3, dtype));
        let what = format!("{n} {dtype}");
        near(&times(&a, &R::solve(&a, &y, true).unwrap()), &y, 500.0, &format!("solve {what}"));
        near(&times(&a, &R::inv(&a).unwrap()), &unit(n, dtype), 500.0, &format!("inv {what}"));
        let (p, l, u) = R::lu(&a, true).unwrap();
        near(&times(&p, &times(&l, &u)), &a, 16.0, &format!("lu {what}"));
        assert!(numbers(&l).iter().all(|v| v.abs() <= 1.0), "{what}");
        let (sign, log) = R::slogdet(&a).unwrap();
        let det = R::mul(&sign, &R::exp(&log).unwrap()).unwrap();
        // Beyond that size some leave the range of f32.
        if n <= 33 {
            near(&det, &R::det(&a).unwrap(), 1000.0, &format!("det {what}"));
        }
        for upper in [false, true] {
            let t = if upper { R::triu(&a, 0) } else { R::tril(&a, 0) }.unwrap();
            let x = R::solve_triangular(&a, &y, upper, true, false).unwrap();
            near(&times(&t, &x), &y, 1000.0, &format!("solve_triangular {upper} {what}"));
            let x = R::solve_triangular(&a, &turned(&y), upper, false, false).unwrap();
            near(&times(&x, &t), &turned(&y), 1000.0, &format!("solve_triangular right {upper} {what}"));
        }
    });
}

#[test]
fn orthogonal_factors() {
    each(|n, dtype| {
        for (m, n) in [(n, n), (n + 7, n), (n, n + 7)] {
            let (a, k, what) = (matrix(m, n, dtype), m.min(n), format!("{m} {n} {dtype}"));
            for mode in [QrMode::Reduced, QrMode::Complete] {
                let (q, r) = R::qr(&a, mode).unwrap();
                near(&times(&q, &r), &a, 60.0, &format!("qr {what}"));
                let columns = q.shape()[2];
                assert_eq!(columns, if mode == QrMode::Complete { m } else { k });
                near(&times(&turned(&q), &q), &unit(columns, dtype), 60.0, &format!("Q {what}"));
                assert_eq!(numbers(&R::tril(&r, -1).unwrap()).iter().filter(|v| **v != 0.0).count(), 0);
            }
            let y = matrix(m, 2, dtype);
            let (x, ..) = R::lstsq(&a, &y, None, Driver::Gels).unwrap();
            let normal = times(&turned(&a), &R::sub(&times(&a, &x), &y).unwrap());
            let size = times(&R::abs(&turned(&a)).unwrap(), &R::abs(&times(&a, &x)).unwrap());
            let sum = R::add(&normal, &size).unwrap();
            near(&sum, &size, 5000.0, &format!("lstsq {what}"));
        }
    });
}

#[track_caller]
fn check_svd(a: &A, what: &str) {
    let dtype = a.dtype();
    let (m, n) = (a.shape()[1], a.shape()[2]);
    for full in [false, true] {
        let (u, s, vt) = R::svd(a, full).unwrap();
        let k = m.min(n);
        let (left, right) = (R::narrow(&u, 2, 0, k).unwrap(), R::narrow(&vt, 1, 0, k).unwrap());
        let scaled = R::mul(&left, &R::unsqueeze(&s, 1).unwrap()).unwrap();
        near(&times(&scaled, &right), a, 100.0, &format!("svd {what}"));
        near(&times(&turned(&u), &u), &unit(u.shape()[2], dtype), 60.0, &format!("U {what}"));
        near(&times(&vt, &turned(&vt)), &unit(vt.shape()[1], dtype), 60.0, &format!("V {what}"));
        for row in numbers(&s).chunks(k) {
            assert!(row.windows(2).all(|p| p[0] >= p[1]) && row[k - 1] >= 0.0, "{what}: {row:?}");
        }
        assert_eq!(numbers(&R::svdvals(a).unwrap()), numbers(&s), "{what}");
    }
}

#[track_caller]
fn check_eigh(a: &A, what: &str) {
    let n = a.shape()[1];
    let (l, v) = R::eigh(a, false).unwrap();
    near(&times(&turned(&v), &v), &unit(n, a.dtype()), 60.0, &format!("V {what}"));
    let back = times(&R::mul(&v, &R::unsqueeze(&l, 1).unwrap()).unwrap(), &turned(&v));
    near(&back, a, 100.0, &format!("eigh {what}"));
    for row in numbers(&l).chunks(n) {
        assert!(row.windows(2).all(|p| p[0] <= p[1]), "{what}: {row:?}");
    }
}

#[test]
fn singular_values_and_eigenvalues() {
    each(|n, dtype| {
        if n > 33 {
            return;
        }
        check_svd(&matrix(n, n, dtype), &format!("{n} {dtype}"));
        let a = matrix(n, n, dtype);
        check_eigh(&R::add(&a, &turned(&a)).unwrap(), &format!("{n} {dtype}"));
    });
    check_svd(&matrix(9, 4, DType::F64), "tall");
    check_svd(&matrix(3, 12, DType::F64), "wide");
}

/// Matrices whose values are equal, vanish, or span many orders of magnitude; and large ones.
#[test]
fn hard_matrices() {
    let n = 24;
    let of = |f: &dyn Fn(usize, usize) -> f64, dtype| {
        let all: Vec<f64> = (0..n * n).map(|i| f(i / n, i % n)).collect();
        array(&all, &[1, n, n], dtype)
    };
    let hilbert = |i: usize, j: usize| 1.0 / (i + j + 1) as f64;
    let ones = |_: usize, _: usize| 1.0;
    let graded = |i: usize, j: usize| 10f64.powi(-((i + j) as i32) / 2);
    let second = |i: usize, j: usize| if i == j { 2.0 } else { -f64::from(i.abs_diff(j) == 1) };
    let wilkinson = |i: usize, j: usize| match i.abs_diff(j) {
        0 => (i as f64 - 11.0).abs(),
        1 => 1.0,
        _ => 0.0,
    };
    let zero = |_: usize, _: usize| 0.0;
    let signed = |i: usize, j: usize| f64::from(i + j == n - 1);
    let huge = |i: usize, j: usize| 1e30 * hilbert(i, j);
    let tiny = |i: usize, j: usize| 1e-30 * hilbert(i, j);
    for dtype in [DType::F64, DType::F32] {
        let all: [(&str, &dyn Fn(usize, usize) -> f64); 9] = [
            ("hilbert", &hilbert),
            ("ones", &ones),
            ("graded", &graded),
            ("second differences", &second),
            ("wilkinson", &wilkinson),
            ("zero", &zero),
            ("exchange", &signed),
            ("huge", &huge),
            ("tiny", &tiny),
        ];
        for (name, f) in all {
            let a = of(f, dtype);
            if name != "zero" {
                check_svd(&a, &format!("{name} {dtype}"));
                check_eigh(&a, &format!("{name} {dtype}"));
                let (q, r) = R::qr(&a, QrMode::Reduced).unwrap();
                near(&times(&q, &r), &a, 60.0, &format!("qr {name} {dtype}"));
            } else {
                assert_eq!(numbers(&R::svdvals(&a).unwrap()), vec![0.0; n]);
                let (u, _, vt) = R::svd(&a, false).unwrap();
                near(&times(&u, &turned(&u)), &unit(n, dtype), 8.0, "U of zeros");
                near(&times(&vt, &turned(&vt)), &unit(n, dtype), 8.0, "V of zeros");
            }
        }
    }
}

/// Factors by which systems are solved, with every kind of pivot: of random matrices those of LDL
/// are blocks of both sizes.
#[test]
fn systems_of_known_factors() {
    each(|n, dtype| {
        let (a, y, what) = (matrix(n, n, dtype), matrix(n, 2, dtype), format!("{n} {dtype}"));
        let ones = array(&[(n as f64).sqrt()], &[1], dtype);
        let a = R::add(&a, &R::mul(&unit(n, dtype), &ones).unwrap()).unwrap();
        let (lu, pivots) = R::lu_factor(&a, true).unwrap();
        for (left, adjoint) in [(true, false), (true, true), (false, false), (false, true)] {
            let of = if adjoint { turned(&a) } else { a.clone() };
            let y = if left { y.clone() } else { turned(&y) };
            let x = R::lu_solve(&lu, &pivots, &y, left, adjoint).unwrap();
            let back = if left { times(&of, &x) } else { times(&x, &of) };
            near(&back, &y, 500.0, &format!("lu_solve {left} {adjoint} {what}"));
        }
        let (p, l, u) = R::lu(&a, false).unwrap();
        near(&times(&l, &u), &a, 300.0, &format!("lu without pivots {what}"));
        assert_eq!(p.shape()[..], [0]);

        let symmetric = R::add(&a, &turned(&a)).unwrap();
        let (ld, pivots) = R::ldl_factor(&symmetric).unwrap();
        let x = R::ldl_solve(&ld, &pivots, &y).unwrap();
        near(&times(&symmetric, &x), &y, 5000.0, &format!("ldl_solve {what}"));
        assert_eq!(numbers(&R::triu(&ld, 1).unwrap()), vec![0.0; 2 * n * n], "{what}");
        let noise = matrix(n, n, dtype);
        let noise = R::add(&noise, &turned(&noise)).unwrap();
        let (ld, pivots) = R::ldl_factor(&noise).unwrap();
        let x = R::ldl_solve(&ld, &pivots, &y).unwrap();
        let (back, size) = (times(&noise, &x), times(&R::abs(&noise).unwrap(), &R::abs(&x).unwrap()));
        near(&R::add(&back, &size).unwrap(), &R::add(&y, &size).unwrap(), 100.0, &format!("ldl {what}"));
        if n == 70 {
            let negative = R::to_vec::<i32>(&pivots).unwrap().iter().filter(|p| **p < 0).count();
            assert!(negative > 10 && negative < 2 * n - 10, "{negative} of {what}");
        }
    });
}

/// The reflections of qr, as LAPACK stores them, and what they make.
#[test]
fn reflections() {
    // H1 H2 with H1 = I - tau (1, v) (1, v)^T in three dimensions.
    let x = array(&[9.0, 9.0, 0.5, 9.0, -0.25, 2.0], &[1, 3, 2], DType::F64);
    let tau = array(&[1.5, 0.4], &[1, 2], DType::F64);
    let reflection = |tau: f64, v: [f64; 3]| {
        let all: Vec<f64> = (0..9).map(|i| f64::from(i / 3 == i % 3) - tau * v[i / 3] * v[i % 3]).collect();
        array(&all, &[1, 3, 3], DType::F64)
    };
    let both = times(&reflection(1.5, [1.0, 0.5, -0.25]), &reflection(0.4, [0.0, 1.0, 2.0]));
    let got = R::householder_product(&x, &tau).unwrap();
    near(&got, &R::narrow(&both, 2, 0, 2).unwrap(), 4.0, "two reflections");
    let one = R::narrow(&tau, 1, 0, 1).unwrap();
    let got = R::householder_product(&x, &one).unwrap();
    near(&got, &R::narrow(&reflection(1.5, [1.0, 0.5, -0.25]), 2, 0, 2).unwrap(), 4.0, "one reflection");
    let kind = |x: &A, tau: &A| R::householder_product(x, tau).unwrap_err().kind();
    assert_eq!(kind(&turned(&x), &tau), ErrorKind::ShapeMismatch);
    assert_eq!(kind(&x, &array(&[1.0; 3], &[1, 3], DType::F64)), ErrorKind::ShapeMismatch);
    assert_eq!(kind(&x, &array(&[1.0; 2], &[2], DType::F64)), ErrorKind::ShapeMismatch);
    assert_eq!(kind(&x, &one.cast(DType::F32).unwrap()), ErrorKind::DTypeMismatch);
}

/// The solution of least norm of matrices that lack rank, and what counts for 0.
#[test]
fn least_squares_of_any_rank() {
    let (a, b) = (matrix(9, 2, DType::F64), matrix(2, 6, DType::F64));
    let (y, a) = (matrix(9, 3, DType::F64), times(&a, &b));
    for (a, y) in [(a.clone(), y), (turned(&a), matrix(6, 3, DType::F64))] {
        for driver in [Driver::Gelsy, Driver::Gelsd, Driver::Gelss] {
            let (x, residuals, rank, s) = R::lstsq(&a, &y, None, driver).unwrap();
            near(&x, &times(&R::pinv(&a, None, None, false).unwrap(), &y), 500.0, &format!("{driver:?}"));
            assert_eq!(R::to_vec::<i64>(&rank).unwrap(), [2, 2]);
            let plain = driver == Driver::Gelsy;
            assert_eq!(s.shape()[..], if plain { vec![0] } else { vec![2, 6] });
            let tall = a.shape()[1] > 6;
            assert_eq!(residuals.shape()[..], if plain || !tall { vec![0] } else { vec![2, 3] });
        }
        let rank = R::lstsq(&a, &y, Some(1.0), Driver::Gelsd).unwrap().2;
        assert_eq!(R::to_vec::<i64>(&rank).unwrap(), [0, 0]);
    }
}

#[test]
fn singular_matrices_say_so() {
    let a = array(&[1.0, 2.0, 2.0, 4.0], &[2, 2], DType::F64);
    let one = |x: &A| R::to_vec::<i32>(x).unwrap();
    assert_eq!(one(&R::lu_factor_ex(&a, true).unwrap().2), [2]);
    assert_eq!(one(&R::inv_ex(&a).unwrap().1), [2]);
    assert_eq!(numbers(&R::det(&a).unwrap()), [0.0]);
    assert!(numbers(&R::inv(&a).unwrap()).iter().all(|v| !v.is_finite()));
    let negative = array(&[4.0, 2.0, 2.0, -1.0], &[2, 2], DType::F64);
    let (l, info) = R::cholesky_ex(&negative, false).unwrap();
    assert_eq!(one(&info), [2]);
    let l = numbers(&l);
    assert!(l[0] == 2.0 && l[2] == 1.0 && l[3].is_nan(), "{l:?}");
    let zero = array(&[0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0], &[2, 2, 2], DType::F64);
    assert_eq!(one(&R::ldl_factor_ex(&zero).unwrap().2), [0, 1]);
    assert_eq!(one(&R::lu_factor_ex(&zero, false).unwrap().2), [1, 1]);
    let l = numbers(&R::lu_factor(&zero, false).unwrap().0);
    assert!(l[2] == f64::INFINITY && l[6] == 0.0, "{l:?}");
    let p = R::pinv(&a, None, None, false).unwrap();
    near(&times(&times(&a, &p), &a), &a, 16.0, "pinv of a singular matrix");
}

#[test]
fn exponentials() {
    // exp of a rotation's generator, of norms from tiny to 300.
    for t in [1e-9, 0.3, 1.0, 5.0, 300.0] {
        let a = array(&[0.0, -t, t, 0.0], &[2, 2], DType::F64);
        let expected = array(&[t.cos(), -t.sin(), t.sin(), t.cos()], &[2, 2], DType::F64);
        near(&R::matrix_exp(&a).unwrap(), &expected, 8.0 + 16.0 * t, &format!("{t}"));
    }
    let far = array(&[0.0, 1e6, 0.0, 0.0], &[2, 2], DType::F64);
    assert!(numbers(&R::matrix_exp(&far).unwrap()).iter().all(|v| v.is_nan()));
}

#[test]
fn refused() {
    let kind = |r: elinvar_core::Result<A>| r.map(|_| ()).unwrap_err().kind();
    let (a, wide) = (matrix(3, 3, DType::F32), matrix(2, 3, DType::F32));
    let half = a.cast(DType::F16).unwrap();
    for op in [R::inv, R::det, |x: &A| R::cholesky(x, false), |x: &A| R::eigvalsh(x, false)] {
        assert_eq!(kind(op(&wide)), ErrorKind::ShapeMismatch);
        assert_eq!(kind(op(&half)), ErrorKind::DTypeMismatch);
        assert_eq!(kind(op(&array(&[1.0], &[1], DType::F32))), ErrorKind::ShapeMismatch);
    }
    assert_eq!(kind(R::svdvals(&half)), ErrorKind::DTypeMismatch);
    assert_eq!(kind(R::solve(&a, &wide, true)), ErrorKind::ShapeMismatch);
    assert_eq!(kind(R::solve(&a, &matrix(3, 1, DType::F64), true)), ErrorKind::DTypeMismatch);
    assert_eq!(kind(R::solve_triangular(&a, &wide, true, true, false)), ErrorKind::ShapeMismatch);
    assert_eq!(kind(R::multi_dot(&[&a])), ErrorKind::InvalidArgument);
    assert_eq!(kind(R::matrix_power(&wide, 2)), ErrorKind::ShapeMismatch);
    assert_eq!(kind(R::matrix_norm(&a, MatrixOrd::Number(3.0), [-2, -1], false)), ErrorKind::InvalidArgument);
    assert_eq!(kind(R::matrix_norm(&a, MatrixOrd::Fro, [1, 1], false)), ErrorKind::InvalidArgument);
    let pivots = array(&[1.0, 2.0, 3.0], &[3], DType::F32).cast(DType::I32).unwrap();
    let pivots = R::broadcast_to(&pivots, &elinvar_core::Shape::new(&[2, 3]).unwrap()).unwrap();
    let one = R::narrow(&pivots, 1, 0, 1).unwrap();
    for solve in
        [|x: &A, p: &A, y: &A| R::lu_solve(x, p, y, true, false), |x: &A, p: &A, y: &A| R::ldl_solve(x, p, y)]
    {
        assert_eq!(kind(solve(&a, &pivots, &wide)), ErrorKind::ShapeMismatch);
        assert_eq!(kind(solve(&a, &one, &a)), ErrorKind::ShapeMismatch);
        assert_eq!(kind(solve(&a, &pivots.cast(DType::I64).unwrap(), &a)), ErrorKind::DTypeMismatch);
        // A row that there is not.
        for wrong in [-7.0, 9.0] {
            let wrong = array(&[1.0, wrong, 3.0, 1.0, 2.0, 3.0], &[2, 3], DType::F32);
            let x = solve(&a, &wrong.cast(DType::I32).unwrap(), &a).and_then(|x| x.to_host());
            assert_eq!(x.unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
    }
    assert_eq!(kind(R::lstsq(&a, &wide, None, Driver::Gelsy).map(|all| all.0)), ErrorKind::ShapeMismatch);
}

#[test]
fn empty_matrices() {
    let none = array(&[], &[2, 0, 0], DType::F32);
    assert_eq!(numbers(&R::det(&none).unwrap()), [1.0, 1.0]);
    assert_eq!(R::inv(&none).unwrap().shape()[..], [2, 0, 0]);
    let wide = array(&[], &[2, 0, 3], DType::F32);
    let (u, s, vt) = R::svd(&wide, true).unwrap();
    assert_eq!(
        (&u.shape()[..], &s.shape()[..], &vt.shape()[..]),
        (&[2, 0, 0][..], &[2, 0][..], &[2, 3, 3][..])
    );
    assert_eq!(numbers(&R::narrow(&vt, 0, 0, 1).unwrap()), numbers(&unit(3, DType::F32)));
    let (q, r) = R::qr(&turned(&wide), QrMode::Complete).unwrap();
    assert_eq!((&q.shape()[..], &r.shape()[..]), (&[2, 3, 3][..], &[2, 3, 0][..]));
    let vectors = array(&[], &[2, 0], DType::F32);
    assert_eq!(R::ldl_factor_ex(&none).unwrap().2.shape()[..], [2]);
    let pivots = vectors.cast(DType::I32).unwrap();
    assert_eq!(R::lu_solve(&none, &pivots, &wide, true, false).unwrap().shape()[..], [2, 0, 3]);
    assert_eq!(R::ldl_solve(&none, &pivots, &wide).unwrap().shape()[..], [2, 0, 3]);
    assert_eq!(numbers(&R::householder_product(&turned(&wide), &vectors).unwrap()).len(), 0);
    let (x, _, rank, s) = R::lstsq(&wide, &wide, None, Driver::Gelsd).unwrap();
    assert_eq!((numbers(&x), numbers(&rank), &s.shape()[..]), (vec![0.0; 18], vec![0.0; 2], &[2, 0][..]));
    let (p, l, u) = R::lu(&turned(&wide), true).unwrap();
    assert_eq!(
        (&p.shape()[..], &l.shape()[..], &u.shape()[..]),
        (&[2, 3, 3][..], &[2, 3, 0][..], &[2, 0, 0][..])
    );
    assert_eq!(numbers(&R::pinv(&wide, None, None, false).unwrap()).len(), 0);
}
