//! First, second and third derivatives of the ops that are not elementwise, against finite
//! differences.
//!
//! Higher derivatives are right only if every step of a gradient is recorded; a step that is not
//! shows here as a derivative that is 0 or wrong.

use elinvar_core::{Element, HostTensor, Result, Scalar, Shape};
use elinvar_ops::catalogue as op;
use elinvar_ops::catalogue::lstsq::Driver;
use elinvar_ops::catalogue::matrix_norm::MatrixOrd;
use elinvar_ops::catalogue::pad::Mode;
use elinvar_ops::catalogue::qr::QrMode;
use elinvar_ops::catalogue::slice::Range;
use elinvar_ops::catalogue::unfold::Patches;
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::{Backward, Tensor, backward, check_gradient, enable_grad};

type T = Tensor<Reference>;
type Function = Box<dyn Fn(&[T]) -> Result<T>>;

fn of<E: Element>(v: Vec<E>, shape: &[usize]) -> T {
    let host = HostTensor::from_vec(v, Shape::new(shape).unwrap()).unwrap();
    Tensor::from_host(host, &ReferenceDevice).unwrap()
}

/// Distinct numbers in -2..2 without a pattern.
fn some(shape: &[usize], seed: usize) -> T {
    let n: usize = shape.iter().product();
    of((0..n).map(|i| ((i * 37 + seed * 101) as f64 * 0.618_033_988_75).fract() * 4.0 - 2.0).collect(), shape)
}

/// The gradients of sum(w f(x)), multiplied with fixed numbers and summed: a function of x again.
fn derived(f: impl Fn(&[T]) -> Result<T>, x: &[T]) -> Result<T> {
    enable_grad(|| {
        let variable = |v: &T| if v.is_tracked() { v.clone() } else { v.requires_grad() };
        let x: Vec<T> = x.iter().map(variable).collect();
        let y = f(&x)?;
        let options = Backward { retain_graph: true, create_graph: true };
        let gradients = backward(&[(&y, Some(&some(y.shape(), 7)))], options)?;
        let mut total = of(vec![0.0], &[]);
        for (i, v) in x.iter().enumerate() {
            if let Some(g) = gradients.get(v) {
                total = op::add(&total, &op::sum(&op::mul(g, &some(g.shape(), i + 11))?, None, false)?)?;
            }
        }
        Ok(total)
    })
}

/// Checks each function, its gradient, and the gradient of that.
fn check(rows: Vec<(&str, Vec<T>, Function)>) {
    for (name, x, f) in rows {
        let second = |x: &[T]| derived(&f, x);
        let third = |x: &[T]| derived(second, x);
        let checks = [
            check_gradient(&f, &x, 1e-5, 1e-7),
            check_gradient(second, &x, 1e-5, 1e-6),
            check_gradient(third, &x, 1e-5, 1e-5),
        ];
        for (order, result) in checks.into_iter().enumerate() {
            result.unwrap_or_else(|e| panic!("{name}, derivative {}: {e}", order + 1));
        }
    }
}

/// A nonlinear function, so that a view has a second derivative.
fn square(x: T) -> Result<T> {
    op::mul(&x, &x)
}

fn on(f: impl Fn(&T) -> Result<T> + 'static) -> Function {
    Box::new(move |x| square(f(&x[0])?))
}

fn just(f: impl Fn(&T) -> Result<T> + 'static) -> Function {
    Box::new(move |x| f(&x[0]))
}

fn pair(f: impl Fn(&T, &T) -> Result<T> + 'static) -> Function {
    Box::new(move |x| f(&x[0], &x[1]))
}

fn triple(f: impl Fn(&T, &T, &T) -> Result<T> + 'static) -> Function {
    Box::new(move |x| f(&x[0], &x[1], &x[2]))
}

const LAST: Option<&[isize]> = Some(&[-1]);
const FIRST: Option<&[isize]> = Some(&[0]);

#[test]
fn reductions() {
    let x = || vec![some(&[3, 4], 1)];
    let zeros = |v: [f64; 10]| vec![of(v.to_vec(), &[2, 5])];
    let (some_zeros, one_zero) = (
        [1.5, 0.0, 2.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 3.0, 1.0, 2.0, -1.0, 1.0, 2.0, 3.0, -4.0, 0.0],
    );
    check(vec![
        ("sum", x(), on(|x| op::sum(x, FIRST, false))),
        ("mean", x(), on(|x| op::mean(x, LAST, false))),
        ("prod", x(), just(|x| op::prod(x, LAST, false))),
        ("prod of all", x(), just(|x| op::prod(x, None, false))),
        ("prod with zeros", zeros(some_zeros), just(|x| op::prod(x, LAST, true))),
        ("prod with a zero", zeros(one_zero), just(|x| op::prod(x, LAST, false))),
        ("cumprod", x(), just(|x| op::cumprod(x, 1))),
        ("cumprod of columns", x(), just(|x| op::cumprod(x, 0))),
        ("cumprod with zeros", zeros(some_zeros), just(|x| op::cumprod(x, 1))),
        ("cumprod with a zero", zeros(one_zero), just(|x| op::cumprod(x, 1))),
        ("cumsum", x(), on(|x| op::cumsum(x, 0))),
        ("amax", x(), on(|x| op::amax(x, LAST, true))),
        ("amin", x(), on(|x| op::amin(x, None, false))),
        ("max", x(), on(|x| Ok(op::max(x, 1, false)?.0))),
        ("min", x(), on(|x| Ok(op::min(x, 0, true)?.0))),
        ("median", x(), on(|x| Ok(op::median(x, 1, true)?.0))),
        ("var", x(), on(|x| op::var(x, LAST, 1.0, false))),
        ("std", x(), on(|x| op::std_(x, FIRST, 0.0, false))),
        ("std of all", x(), just(|x| op::std_(x, None, 1.0, false))),
        ("logsumexp", x(), just(|x| op::logsumexp(x, LAST, false))),
        ("softmax", x(), just(|x| op::softmax(x, 1))),
        ("log_softmax", x(), just(|x| op::log_softmax(x, 0))),
        ("norm 1", x(), on(|x| op::norm(x, 1.0, LAST, false))),
        ("norm 2", x(), on(|x| op::norm(x, 2.0, LAST, false))),
        ("norm 2.5", x(), on(|x| op::norm(x, 2.5, LAST, false))),
        ("norm 3", x(), on(|x| op::norm(x, 3.0, None, false))),
        ("norm inf", x(), on(|x| op::norm(x, f64::INFINITY, LAST, false))),
        ("norm -inf", x(), on(|x| op::norm(x, f64::NEG_INFINITY, FIRST, false))),
    ]);
}

#[test]
fn products() {
    check(vec![
        ("matmul", vec![some(&[2, 1, 2, 3], 1), some(&[2, 3, 2], 2)], pair(op::matmul)),
        ("matmul by one matrix", vec![some(&[2, 3, 4], 1), some(&[4, 2], 2)], pair(op::matmul)),
        ("matmul of a vector", vec![some(&[4], 1), some(&[2, 4, 3], 2)], pair(op::matmul)),
        (
            "linear",
            vec![some(&[2, 2, 3], 1), some(&[4, 3], 2), some(&[4], 3)],
            triple(|x, w, b| op::linear(x, w, Some(b))),
        ),
        (
            "linear without bias",
            vec![some(&[3, 4], 1), some(&[2, 4], 2)],
            pair(|x, w| op::linear(x, w, None)),
        ),
        (
            "addmm",
            vec![some(&[3, 1], 1), some(&[3, 4], 2), some(&[4, 2], 3)],
            triple(|i, x, y| op::addmm(i, x, y, 0.5, -2.0)),
        ),
        (
            "einsum",
            vec![some(&[2, 2, 3], 1), some(&[3, 4], 2), some(&[4], 3)],
            triple(|x, y, z| op::einsum("iij,jk,k->ik", &[x, y, z])),
        ),
        (
            "einsum to a number",
            vec![some(&[2, 3], 1), some(&[2, 3], 2)],
            pair(|x, y| op::einsum("ij,ij", &[x, y])),
        ),
        ("kron", vec![some(&[2, 2], 1), some(&[3], 2)], pair(op::kron)),
        (
            "tensordot",
            vec![some(&[2, 3, 2], 1), some(&[2, 2, 2], 2)],
            pair(|x, y| op::tensordot(x, y, &[2, 0], &[1, 2])),
        ),
    ]);
}

#[test]
fn movement() {
    let x = || vec![some(&[3, 4], 1)];
    let two = || vec![some(&[3, 4], 1), some(&[3, 4], 2)];
    let patches = Patches { kernel: [2, 2], dilation: [1, 1], padding: [1, 0], stride: [1, 1] };
    let backwards = [Range { start: None, stop: None, step: -2 }];
    let constant = Mode::Constant(Scalar::Float(3.0));
    check(vec![
        ("slice", x(), on(move |x| op::slice(x, &backwards))),
        ("select", x(), on(|x| op::select(x, 1, -1))),
        ("flip", x(), on(|x| op::flip(x, &[0]))),
        ("roll", x(), on(|x| op::roll(x, &[1], Some(&[1])))),
        ("permute", x(), on(|x| op::permute(x, &[1, 0]))),
        ("diagonal", x(), on(|x| op::diagonal(x, 1, 0, 1))),
        ("diag", vec![some(&[3], 1)], on(|x| op::diag(x, -1))),
        ("trace", x(), on(op::trace)),
        ("tril", x(), on(|x| op::tril(x, 0))),
        ("triu", x(), on(|x| op::triu(x, 1))),
        ("repeat", x(), on(|x| op::repeat(x, &[2, 2, 1]))),
        ("repeat_interleave", x(), on(|x| op::repeat_interleave(x, 2, Some(1)))),
        ("expand", x(), on(|x| op::expand(x, &Shape::new(&[2, 3, 4])?))),
        ("pad", x(), on(move |x| op::pad(x, &[1, -1, 2, 0], constant))),
        ("pad by reflection", x(), on(|x| op::pad(x, &[1, 3, 2, 0], Mode::Reflect))),
        ("unfold_dim", x(), on(|x| op::unfold_dim(x, 1, 3, 1))),
        ("unfold", vec![some(&[1, 2, 3, 3], 1)], on(move |x| op::unfold(x, &patches))),
        ("fold", vec![some(&[1, 8, 8], 1)], on(move |x| op::fold(x, [3, 3], &patches))),
        ("split, one part used", x(), on(|x| Ok(op::split(x, 3, 1)?.remove(1)))),
        ("unbind, two parts used", x(), just(|x| op::unbind(x, 0).and_then(|p| op::mul(&p[0], &p[2])))),
        ("concat", two(), pair(|x, y| square(op::concat(&[x, y, x], 1)?))),
        ("stack", two(), pair(|x, y| square(op::stack(&[x, y, x], 1)?))),
        (
            "meshgrid",
            vec![some(&[3], 1), some(&[2], 2)],
            pair(|x, y| {
                let grid = op::meshgrid(&[x, y], true)?;
                op::mul(&grid[0], &grid[1])
            }),
        ),
    ]);
}

#[test]
fn derivatives_of_indexing() {
    let x = || vec![some(&[3, 4], 1)];
    let two = || vec![some(&[3, 4], 1), some(&[2, 5], 2)];
    let repeated = of(vec![0i64, 2, 2, 1, 0, 0], &[2, 3]);
    let distinct = of(vec![0i64, 2, 1, 1, 0, 2], &[2, 3]);
    let line = of(vec![1i64, 1, 0], &[3]);
    let mask = of(vec![true, false, true, true], &[4]);
    let ([r0, r1], [d0, d1]) = ([repeated.clone(), repeated], [distinct.clone(), distinct]);
    let [l0, l1, l2, l3, l4] = std::array::from_fn(|_| line.clone());
    check(vec![
        ("gather", x(), on(move |x| op::gather(x, 0, &r0))),
        ("scatter_add", two(), pair(move |x, y| square(op::scatter_add(x, 0, &r1, y)?))),
        ("scatter", two(), pair(move |x, y| square(op::scatter(x, 0, &d0, y)?))),
        ("scatter of a value", x(), on(move |x| op::scatter::value(x, 0, &d1, Scalar::Int(2)))),
        ("index_select", x(), on(move |x| op::index_select(x, 1, &l0))),
        (
            "index_add",
            vec![some(&[3, 2], 1), some(&[3, 3], 2)],
            pair(move |x, y| square(op::index_add(x, 1, &l1, y, 0.7)?)),
        ),
        ("index_fill", x(), on(move |x| op::index_fill(x, 1, &l2, 0.7))),
        ("embedding", x(), on(move |x| op::embedding(&l3, x, None))),
        ("masked_select", x(), on(move |x| op::masked_select(x, &mask))),
        ("sort", x(), on(|x| Ok(op::sort(x, 1, true)?.0))),
        ("topk", x(), on(|x| Ok(op::topk(x, 2, 0, false)?.0))),
    ]);
    // The row padding_idx is left out of the gradient, though the result depends on it.
    let f = |x: &[T]| square(op::embedding(&l4, &x[0], Some(1))?);
    let w = some(&[2, 3], 1).requires_grad();
    let y = f(std::slice::from_ref(&w)).unwrap();
    let g = backward(&[(&y, Some(&y.ones_like()))], Backward::default()).unwrap();
    let got = g.get(&w).unwrap().to_vec::<f64>().unwrap();
    let row: Vec<f64> = w.to_vec::<f64>().unwrap()[..3].iter().map(|v| 2.0 * v).collect();
    assert_eq!(got, [&row[..], &[0.0; 3]].concat());
}

/// All results in one row.
fn in_a_row(all: &[&T]) -> Result<T> {
    let rows = all.iter().map(|v| op::reshape(*v, &[-1])).collect::<Result<Vec<T>>>()?;
    op::concat(&rows.iter().collect::<Vec<_>>(), 0)
}

/// Matrices with `n` added to the diagonal.
fn with_diagonal(shape: &[usize], seed: usize, n: f64) -> T {
    let (m, k) = (shape[shape.len() - 2], shape[shape.len() - 1]);
    let unit =
        (0..m * k).map(|i| if i / k == i % k { n * (1.0 + (i / k) as f64 / 4.0) } else { 0.0 }).collect();
    op::add(&some(shape, seed), &of(unit, &[m, k])).unwrap()
}

fn symmetric(x: &T) -> Result<T> {
    op::add(x, &op::transpose(x, -1, -2)?)
}

#[test]
fn factorisations() {
    let square = |n| move || vec![with_diagonal(&[n, n], 1, 5.0)];
    let rest = |m: usize, n: usize| vec![with_diagonal(&[m, n], 1, 3.0)];
    let (three, two) = (square(3), vec![with_diagonal(&[2, 2, 2], 3, 5.0)]);
    check(vec![
        ("cholesky", three(), just(|x| op::cholesky(&symmetric(x)?, false))),
        ("cholesky, upper", two.clone(), just(|x| op::cholesky(&symmetric(x)?, true))),
        ("inv", three(), just(op::inv)),
        ("det", three(), just(op::det)),
        ("slogdet", two.clone(), just(|x| Ok(op::slogdet(x)?.1))),
        ("lu", three(), just(|x| op::lu(x, true).and_then(|(_, l, u)| in_a_row(&[&l, &u])))),
        ("lu of a tall matrix", rest(4, 2), just(|x| Ok(op::lu_factor(x, true)?.0))),
        ("lu of a wide matrix", rest(2, 4), just(|x| Ok(op::lu_factor(x, true)?.0))),
        ("lu without pivots", three(), just(|x| Ok(op::lu_factor(x, false)?.0))),
        ("lu of a tall matrix without pivots", rest(3, 2), just(|x| Ok(op::lu_factor(x, false)?.0))),
        ("lu of a wide matrix without pivots", rest(2, 3), just(|x| Ok(op::lu_factor(x, false)?.0))),
        ("qr", three(), just(|x| op::qr(x, QrMode::Reduced).and_then(|(q, r)| in_a_row(&[&q, &r])))),
        ("qr, tall", rest(4, 2), just(|x| op::qr(x, QrMode::Reduced).and_then(|(q, r)| in_a_row(&[&q, &r])))),
        (
            "qr, wide",
            rest(2, 4),
            just(|x| op::qr(x, QrMode::Complete).and_then(|(q, r)| in_a_row(&[&q, &r]))),
        ),
        ("eigh", three(), just(|x| op::eigh(&symmetric(x)?, false).and_then(|(l, v)| in_a_row(&[&l, &v])))),
        ("eigvalsh", two.clone(), just(|x| op::eigvalsh(&symmetric(x)?, true))),
        ("svd", three(), just(|x| op::svd(x, false).and_then(|(u, s, v)| in_a_row(&[&u, &s, &v])))),
        ("svd, tall", rest(4, 2), just(|x| op::svd(x, false).and_then(|(u, s, v)| in_a_row(&[&u, &s, &v])))),
        ("svd, wide", rest(2, 4), just(|x| op::svd(x, false).and_then(|(u, s, v)| in_a_row(&[&u, &s, &v])))),
        ("svdvals", rest(3, 2), just(op::svdvals)),
        ("pinv, tall", rest(3, 2), just(|x| op::pinv(x, None, None, false))),
        ("pinv, wide", rest(2, 3), just(|x| op::pinv(x, None, None, false))),
        ("matrix_exp", vec![op::mul(&some(&[2, 2], 2), &of(vec![0.5], &[1])).unwrap()], just(op::matrix_exp)),
        ("matrix_power", two.clone(), just(|x| op::matrix_power(x, 3))),
        ("matrix_power of the inverse", two, just(|x| op::matrix_power(x, -2))),
        ("matrix_norm", rest(3, 2), just(|x| op::matrix_norm(x, MatrixOrd::Nuc, [-2, -1], false))),
    ]);
}

/// By the factors, as they are, and by the right-hand sides.
#[test]
fn systems_of_known_factors() {
    let (a, y) = (with_diagonal(&[3, 3], 1, 3.0), some(&[3, 2], 2));
    let pivots = || of(vec![3i32, 2, 3], &[3]);
    let left = some(&[2, 3], 4);
    check(vec![
        (
            "lu_solve",
            vec![a.clone(), y.clone()],
            pair(move |a, y| op::lu_solve(a, &pivots(), y, true, false)),
        ),
        (
            "lu_solve, transposed",
            vec![a.clone(), y.clone()],
            pair(move |a, y| op::lu_solve(a, &pivots(), y, true, true)),
        ),
        (
            "lu_solve, right",
            vec![a.clone(), left],
            pair(move |a, y| op::lu_solve(a, &pivots(), y, false, false)),
        ),
        ("ldl_solve", vec![a, y], pair(|a, y| op::ldl_solve(a, &of(vec![2i32, -3, -3], &[3]), y))),
    ]);
}

#[test]
fn systems() {
    let (a, y) = (with_diagonal(&[2, 3, 3], 1, 5.0), some(&[2, 3, 2], 2));
    let left = some(&[2, 2, 3], 4);
    check(vec![
        ("solve", vec![a.clone(), y.clone()], pair(|a, y| op::solve(a, y, true))),
        ("solve, right", vec![a.clone(), left.clone()], pair(|a, y| op::solve(a, y, false))),
        (
            "triangular",
            vec![a.clone(), y.clone()],
            pair(|a, y| op::solve_triangular(a, y, false, true, false)),
        ),
        ("triangular, unit", vec![a.clone(), y], pair(|a, y| op::solve_triangular(a, y, true, true, true))),
        ("triangular, right", vec![a, left], pair(|a, y| op::solve_triangular(a, y, true, false, false))),
        (
            "lstsq",
            vec![with_diagonal(&[4, 2], 1, 3.0), some(&[4, 1], 2)],
            pair(|a, y| op::lstsq(a, y, None, Driver::Gels).and_then(|(x, r, ..)| in_a_row(&[&x, &r]))),
        ),
        (
            "lstsq, wide",
            vec![with_diagonal(&[2, 4], 1, 3.0), some(&[2, 1], 2)],
            pair(|a, y| Ok(op::lstsq(a, y, None, Driver::Gels)?.0)),
        ),
        (
            "lstsq by singular values",
            vec![with_diagonal(&[3, 2], 1, 3.0), some(&[3, 1], 2)],
            pair(|a, y| Ok(op::lstsq(a, y, None, Driver::Gelsd)?.0)),
        ),
        (
            "lstsq by singular values, wide",
            vec![with_diagonal(&[2, 3], 1, 3.0), some(&[2, 1], 2)],
            pair(|a, y| Ok(op::lstsq(a, y, None, Driver::Gelsy)?.0)),
        ),
        ("householder_product", vec![some(&[4, 3], 1), some(&[2], 5)], pair(op::householder_product)),
        (
            "multi_dot",
            vec![some(&[2, 3], 1), some(&[3, 4], 2), some(&[4, 2], 3)],
            triple(|x, y, z| op::multi_dot(&[x, y, z])),
        ),
    ]);
}
