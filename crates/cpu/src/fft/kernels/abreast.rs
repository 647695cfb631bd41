//! As many short rows as a register has lanes, from where they are to where they go: numbers of a
//! row become registers across rows by transposing loads, and back. Nothing is in planes between.
#![allow(unsafe_code, reason = "vector registers at places that were checked")]

use super::job::Job;
use super::levels::{Place, run};
use super::lines::{Memory, turned};
use crate::fft::tables::Half;
use elinvar_core::Element;
use elinvar_lane::lane::Lane;
use elinvar_ops::backend::FourierKind;
use elinvar_simd::quad::GatherVector;
use elinvar_simd::uninit::UninitSlice;
use elinvar_simd::vector::{SimdElement, Vector};

/// Numbers that a transposing load takes of each row.
const QUAD: usize = 4;

/// Can rows of this work go side by side?
pub(super) fn fits<T: SimdElement>(job: &Job<'_, T>, lanes: usize) -> bool {
    let has_pairs = job.transform.convolution.is_none() && job.source.neighbours_are_pairs(job.kind);
    let is_even = matches!(job.kind, FourierKind::Complex(_)) || job.half.is_some();
    has_pairs && is_even && lanes >= QUAD && job.row_len() >= lanes && numbers(job) >= QUAD
}

/// Numbers of a row of the operand.
fn numbers<T: SimdElement>(job: &Job<'_, T>) -> usize {
    match job.kind {
        FourierKind::Complex(_) | FourierKind::Real => 2 * job.transform.n,
        FourierKind::InverseReal => 2 * (job.transform.n + 1),
    }
}

/// The results of `V::LANES` rows from `row` on, which [`fits`].
///
/// # Safety
/// The processor has the registers `V`.
#[inline(always)]
pub(super) unsafe fn rows<V: GatherVector>(
    job: &Job<'_, V::T>,
    row: usize,
    memory: &mut Memory<'_, V::T>,
    dst: &mut UninitSlice<'_, V::T>,
) {
    let (m, count, len) = (job.transform.n, numbers(job), job.row_len());
    let (first, step) = job.source.block(row, V::LANES, count);
    let registers = V::LANES * count.max(len).max(2 * m);
    assert!(fits(job, V::LANES), "cpu: rows that do not go side by side");
    assert!(memory.lanes.iter().all(|lanes| lanes.len() >= registers), "cpu: a short buffer");
    let slots = &mut dst.unwritten()[..V::LANES * len];
    let to = slots.as_mut_ptr().cast::<V::T>();
    let [a, b] = [0, 1].map(|i| memory.lanes[i].as_mut_ptr());
    let is_swapped = job.is_inverse();
    // SAFETY: the caller's instruction set; `block` checked the rows' numbers, of which there are
    // `QUAD` at least, and the assertion above that both buffers have as many registers as rows of
    // the operand, of the transform or of the result have numbers.
    unsafe {
        let swapped = usize::from(is_swapped && job.kind != FourierKind::InverseReal);
        for i in (0..count).step_by(QUAD) {
            let i = i.min(count - QUAD);
            let four = V::quad(first.add(i), step);
            for (t, x) in four.into_iter().enumerate() {
                x.store(a.add(((i + t) ^ swapped) * V::LANES));
            }
        }
        let [from, other] = match (job.kind, job.half) {
            (FourierKind::InverseReal, Some(half)) => {
                let zero = V::splat(V::T::ZERO);
                zero.store(a.add(V::LANES));
                zero.store(a.add((2 * m + 1) * V::LANES));
                for k in 0..m {
                    let [re, im] = joined::<V>(load(a, k), load(a, m - k), half, k);
                    store(b, k, [im, re]);
                }
                [b, a]
            }
            _ => [a, b],
        };
        let mut y =
            run::<V::T, false>(job.isa, &job.transform.levels.all, Place { l: 1, k: 0 }, m, [from, other]);
        let scale = V::splat(job.scale.unwrap_or(V::T::lit(1.0)));
        let scaled = |x: [V; 2]| if job.scale.is_some() { x.map(|x| x.mul(scale)) } else { x };
        match (job.kind, job.half) {
            (FourierKind::Real, Some(half)) => {
                let to = if y == a { b } else { a };
                store(to, m, scaled(joined::<V>(load(y, 0), load(y, 0), half, m)));
                store(to, 0, scaled(joined::<V>(load(y, 0), load(y, 0), half, 0)));
                for k in 1..m {
                    store(to, k, scaled(joined::<V>(load(y, k), load(y, m - k), half, k)));
                }
                y = to;
            }
            _ if is_swapped || job.scale.is_some() => {
                for k in 0..m {
                    let [re, im] = scaled(load::<V>(y, k));
                    store(y, k, if is_swapped { [im, re] } else { [re, im] });
                }
            }
            _ => {}
        }
        for i in (0..len).step_by(V::LANES) {
            let i = i.min(len - V::LANES);
            turned::<V>(y, [i, 1], to.add(i), len);
        }
        // Rows of `len` numbers, each written from its first register to its last.
        dst.count(V::LANES * len);
    }
}

#[inline(always)]
unsafe fn load<V: Vector>(from: *const V::T, k: usize) -> [V; 2] {
    // SAFETY: the caller's: element k is in memory.
    unsafe {
        let p = from.add(2 * k * V::LANES);
        [V::load(p), V::load(p.add(V::LANES))]
    }
}

#[inline(always)]
unsafe fn store<V: Vector>(to: *mut V::T, k: usize, [re, im]: [V; 2]) {
    // SAFETY: as above.
    unsafe {
        let p = to.add(2 * k * V::LANES);
        re.store(p);
        im.store(p.add(V::LANES));
    }
}

/// As `rows::joined`, of element `k` and its mirror.
#[inline(always)]
unsafe fn joined<V: Vector>([a, b]: [V; 2], [c, d]: [V; 2], half: &Half<V::T>, k: usize) -> [V; 2] {
    // SAFETY: the caller's instruction set.
    unsafe {
        let [sin, re, im] = [half.cos[k], half.sin[0][k], half.sin[1][k]].map(|x| V::splat(x));
        let (e, o) = ([a.add(c), b.sub(d)], [a.sub(c), b.add(d)]);
        [e[0].add(o[1].fma(re, o[0].mul(sin))), e[1].add(o[0].fma(im, o[1].mul(sin)))]
    }
}
