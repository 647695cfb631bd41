//! Fused steps of factorisations against their definition, element by element, and factorisations
//! against the reference, which composes them of other work.

use crate::common::{Operand, devices, same};
use crate::dice::{Dice, Values};
use elinvar_core::order::fold;
use elinvar_core::{DType, Element, HostData, HostTensor, HostVec, Result, Shape};
use elinvar_cpu::{Cpu, CpuBuffer};
use elinvar_ops::backend::{Compute, Fused, Memory, Placed};
use elinvar_ops::catalogue::qr::QrMode;
use elinvar_ops::factor_steps::rotation::{cosine, rotated, sine, tangent};
use elinvar_ops::lane::Lane;
use elinvar_ops::{Array, Backend, Door};
use elinvar_reference::{Reference, ReferenceDevice};

/// What rounds of rotations are by definition.
fn turned<T: Element + Lane>(x: &Operand, [b, n, w]: [usize; 3], r: usize, rounds: usize) -> HostData {
    let x = Reference::copy(&ReferenceDevice, x.reference()).unwrap();
    let mut x = T::slice(&x).unwrap().to_vec();
    for x in x.chunks_mut((n * w).max(1)).take(b) {
        for round in 0..rounds {
            for i in (round % 2..n.saturating_sub(1)).step_by(2) {
                let (p, q) = x[i * w..][..2 * w].split_at_mut(w);
                let sum = |x: &[T], y: &[T]| fold(r, T::lit(0.0), |k| x[k] * y[k], |x, y| x + y);
                let t = tangent([sum(p, p), sum(q, q), sum(p, q)]);
                for (p, q) in p.iter_mut().zip(q) {
                    (*p, *q) = (rotated(*p, *q, cosine(t), sine(t)), rotated(*q, *p, cosine(t), -sine(t)));
                }
            }
        }
    }
    T::wrap(HostVec::from(x))
}

fn one(all: Result<Option<Vec<Placed<CpuBuffer>>>>) -> Option<Result<CpuBuffer>> {
    all.transpose().map(|all| all.map(|all| all.into_iter().next().expect("a result").buffer))
}

#[test]
fn rotations() {
    for round in 0..120 {
        let mut dice = Dice::new(52, round);
        let dtype = dice.pick(&[DType::F32, DType::F64]);
        let b = dice.pick(&[0, 1, 1, 2, 5]);
        let n = dice.pick(&[1, 2, 3, 8, 17, 33]);
        let r = dice.pick(&[1, 2, 5, 16, 31, 64, 129, 300]);
        let (w, rounds) = (r + dice.pick(&[0, 0, 3, 20]), dice.pick(&[0, 1, 2, 7, 40, 90]));
        let values = dice.pick(&[Values::Wild, Values::Tame, Values::Sparse, Values::Few]);
        let x = Operand::draw(&mut dice, dtype, &[b, n, w], values);
        let want = match dtype {
            DType::F32 => turned::<f32>(&x, [b, n, w], r, rounds),
            _ => turned::<f64>(&x, [b, n, w], r, rounds),
        };
        for d in devices() {
            let Some(got) = one(Cpu::fused(&d, &Fused::Rotations { r, rounds }, &[x.cpu()])) else {
                assert!(!d.isa().has_kernels(), "{d:?}");
                continue;
            };
            same(&got, &Ok(want.clone()), &format!("{dtype} [{b}, {n}, {w}] {r} {rounds} on {d:?}"));
        }
    }
}

/// All factorisations of matrices [b, m, n], and of square ones those that have no others.
fn factorisations<B: Backend>(x: &Array<B>) -> Vec<(&'static str, Result<Vec<Array<B>>>)> {
    let square = B::matmul(x, &B::transpose(x, -1, -2).unwrap()).unwrap();
    let none = B::narrow(x, -1, 0, 1).unwrap();
    vec![
        ("lu_factor", B::lu_factor(x, true).map(|(lu, pivots)| vec![lu, pivots])),
        ("lu_factor in place", B::lu_factor(x, false).map(|(lu, pivots)| vec![lu, pivots])),
        ("qr", B::qr(x, QrMode::Complete).map(|(q, r)| vec![q, r])),
        ("svd", B::svd(x, true).map(|(u, s, vt)| vec![u, s, vt])),
        ("svdvals", B::svdvals(x).map(|s| vec![s])),
        ("eigh", B::eigh(&square, false).map(|(l, v)| vec![l, v])),
        ("cholesky", B::cholesky(&square, false).map(|l| vec![l])),
        ("solve", B::solve(&square, &none, true).map(|x| vec![x])),
    ]
}

/// LU factors and what is found by them.
fn eliminations<B: Backend>(x: &Array<B>) -> Vec<(&'static str, Result<Vec<Array<B>>>)> {
    let square = B::matmul(&B::transpose(x, -1, -2).unwrap(), x).unwrap();
    let none = B::narrow(&B::transpose(x, -1, -2).unwrap(), -1, 0, 1).unwrap();
    let solved = |upper, unit| B::solve_triangular(&square, &none, upper, true, unit).map(|x| vec![x]);
    vec![
        ("lu_factor", B::lu_factor(x, true).map(|(lu, pivots)| vec![lu, pivots])),
        ("lower", solved(false, false)),
        ("unit lower", solved(false, true)),
        ("upper", solved(true, false)),
        ("inv", B::inv(&square).map(|x| vec![x])),
    ]
}

/// Random matrices [b, m, n], some with rows that are there before, as each device factors them.
fn check(
    seed: u64,
    rounds: u64,
    sizes: [&[usize]; 2],
    reference: impl Fn(&Array<Reference>) -> Vec<(&'static str, Result<Vec<Array<Reference>>>)>,
    cpu: impl Fn(&Array<Cpu>) -> Vec<(&'static str, Result<Vec<Array<Cpu>>>)>,
) {
    for round in 0..rounds {
        let mut dice = Dice::new(seed, round);
        let dtype = dice.pick(&[DType::F32, DType::F64]);
        let b = dice.pick(&[1, 2, 3, 4]);
        let (m, n) = (dice.pick(sizes[0]), dice.pick(sizes[1]));
        let values = dice.pick(&[Values::Tame, Values::Tame, Values::Few, Values::Sparse, Values::Wild]);
        let x = Operand::draw(&mut dice, dtype, &[b, m, n], values);
        let mut x = Reference::copy(&ReferenceDevice, x.reference()).unwrap();
        let rank = if dice.once_in(3) { dice.between(0, m.min(n)) } else { m };
        match &mut x {
            HostData::F32(x) => repeat(x, [m, n], rank),
            HostData::F64(x) => repeat(x, [m, n], rank),
            _ => unreachable!("floats"),
        }
        let what = format!("{dtype} [{b}, {m}, {n}] {values:?} of rank {rank}, round {round}");
        let x = HostTensor::new(Shape::new(&[b, m, n]).unwrap(), x).unwrap();
        let want = reference(&Array::from_host(&ReferenceDevice, x.clone()).unwrap());
        for d in devices() {
            let got = cpu(&Array::from_host(&d, x.clone()).unwrap());
            for ((name, got), (_, want)) in got.iter().zip(&want) {
                let what = format!("{name}: {what} on {d:?}");
                let (got, want) = (got.as_ref().expect(&what), want.as_ref().expect(&what));
                for (got, want) in got.iter().zip(want) {
                    let (got, want) = (Cpu::to_host(got).unwrap(), Reference::to_host(want).unwrap());
                    same(&Ok(got.data().clone()), &Ok(want.data().clone()), &what);
                }
            }
        }
    }
}

#[test]
fn factorisations_of_random_matrices() {
    let sizes: [&[usize]; 2] = [&[1, 2, 7, 9, 17, 40], &[1, 3, 8, 9, 16, 20]];
    check(53, 16, sizes, factorisations, factorisations);
}

#[test]
fn eliminations_of_random_matrices() {
    let sizes: [&[usize]; 2] = [&[1, 3, 8, 20, 64, 130], &[2, 9, 16, 17, 31, 33, 50, 64, 65, 100]];
    check(54, 40, sizes, eliminations, eliminations);
}

/// Rows beyond the rank are those before them again.
fn repeat<T: Copy>(x: &mut [T], [m, n]: [usize; 2], rank: usize) {
    for x in x.chunks_mut(m * n) {
        for i in rank.max(1)..m {
            let (done, row) = x.split_at_mut(i * n);
            row[..n].copy_from_slice(&done[(i % rank.max(1)) * n..][..n]);
        }
    }
}
