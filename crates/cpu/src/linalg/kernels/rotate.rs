//! Jacobi rotations of pairs of rows.
//!
//! Sums of several pairs are left as registers of lanes, which are then added across pairs: so no
//! sum waits for the shuffles of its own, and the angles of these pairs are computed together.
#![allow(unsafe_code, reason = "vector loads and stores without a check for each")]

use crate::linalg::row::{GROUP, Row};
use crate::linalg::schedule::Task;
use crate::reduce::float::Float;
use elinvar_core::order::LANES;
use elinvar_ops::factor_steps::rotation::{cosine, sine, tangent};
use elinvar_simd::quad::GatherVector;
use elinvar_simd::vector::VectorKernel;

/// Pairs whose angles are computed together: a multiple of the lanes of each register.
const PAIRS: usize = 16;

/// A number for each of these pairs.
type EachPair<C> = [C; PAIRS];

/// The rounds of a task, which notes whether anything but sums was computed.
pub(in crate::linalg) struct Rounds<'t, 'a, 'r, C> {
    pub(in crate::linalg) task: &'t mut Task<'a, 'r, C>,
    /// Groups of a row that are made orthogonal: one at least.
    pub(in crate::linalg) data: usize,
}

impl<C: Float> VectorKernel for Rounds<'_, '_, '_, C> {
    type T = C;
    #[inline(always)]
    unsafe fn run<V: GatherVector<T = C>>(self) {
        for round in self.task.rounds() {
            let pairs = self.task.pairs(round);
            for pairs in self.task.rows[pairs].chunks_mut(2 * PAIRS) {
                // SAFETY: the processor has the instructions of `V`.
                self.task.changed |= unsafe { turn::<C, V>(pairs, self.data) };
            }
        }
    }
}

/// Turns at most [`PAIRS`] pairs of rows; says whether any element was computed.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
unsafe fn turn<C: Float, V: GatherVector<T = C>>(rows: &mut [Row<'_, C>], data: usize) -> bool {
    let (mut places, mut count) = ([0; PAIRS], 0);
    for i in 0..rows.len() / 2 {
        let [x, y] = pair(rows, i);
        if x.is_settled_with(y) {
            std::mem::swap(x, y);
        } else {
            places[count] = i;
            count += 1;
        }
    }
    if count == 0 {
        return false;
    }
    let places = &places[..count];
    // SAFETY: as above.
    let [a, b, c] = unsafe { sums::<C, V>(rows, places, data) };
    let mut t = [C::POSITIVE_ZERO; PAIRS];
    for i in 0..PAIRS {
        t[i] = tangent([a[i], b[i], c[i]]);
    }
    let (mut cos, mut sin) = (t, t);
    for i in 0..PAIRS {
        (cos[i], sin[i]) = (cosine(t[i]), sine(t[i]));
    }
    let mut changed = false;
    for (i, &place) in places.iter().enumerate() {
        let [x, y] = pair(rows, place);
        if t[i] == C::POSITIVE_ZERO && x.is_plain() && y.is_plain() {
            x.settle_with(y);
            std::mem::swap(x, y);
        } else {
            changed = true;
            // SAFETY: as above.
            unsafe { rotate::<C, V>(x.changed(), y.changed(), [cos[i], sin[i]]) };
        }
    }
    changed
}

/// Two neighbours.
#[inline(always)]
fn pair<'a, 'r, C>(rows: &'a mut [Row<'r, C>], i: usize) -> &'a mut [Row<'r, C>; 2] {
    rows[2 * i..].first_chunk_mut().expect("pairs are whole")
}

/// The sums of the squares of the first rows of these pairs, of the second ones, and of their
/// products, in the order of a fold.
///
/// # Safety
/// As for [`turn`].
#[inline(always)]
unsafe fn sums<C: Float, V: GatherVector<T = C>>(
    rows: &mut [Row<'_, C>],
    places: &[usize],
    data: usize,
) -> [EachPair<C>; 3] {
    let mut lanes = [[[C::POSITIVE_ZERO; GROUP]; PAIRS]; 3];
    for (i, &place) in places.iter().enumerate() {
        let [x, y] = pair(rows, place);
        let both = [&x.groups[..data], &y.groups[..data]];
        // SAFETY: a group has room for a register; the instructions are our caller's.
        unsafe {
            if x.square.is_some() && y.square.is_some() {
                let [c] = folded::<C, V, 1>(both);
                c.store(lanes[2][i].as_mut_ptr());
            } else {
                let all = folded::<C, V, 3>(both);
                for k in 0..3 {
                    all[k].store(lanes[k][i].as_mut_ptr());
                }
            }
        }
    }
    let mut sums = [[C::POSITIVE_ZERO; PAIRS]; 3];
    for (sums, lanes) in sums.iter_mut().zip(&lanes) {
        for first in (0..PAIRS).step_by(V::LANES) {
            // SAFETY: from `first` on there are `LANES` pairs, each of `GROUP` lanes, and as many
            // sums; the instructions are our caller's.
            unsafe {
                let mut lane = V::square(lanes[first..].as_ptr().cast(), GROUP as isize);
                let mut half = V::LANES / 2;
                while half > 0 {
                    for i in 0..half {
                        lane[i] = lane[i].add(lane[i + half]);
                    }
                    half /= 2;
                }
                lane[0].store(sums[first..][..V::LANES].as_mut_ptr());
            }
        }
    }
    for (i, &place) in places.iter().enumerate() {
        let [x, y] = pair(rows, place);
        if let (Some(a), Some(b)) = (x.square, y.square) {
            (sums[0][i], sums[1][i]) = (a, b);
        } else {
            (x.square, y.square) = (Some(sums[0][i]), Some(sums[1][i]));
        }
    }
    sums
}

/// (x, y) becomes (s x + c y, c x - s y): [`rotated`](elinvar_ops::factor_steps::rotation::rotated)
/// in registers.
///
/// # Safety
/// As for [`turn`].
#[inline(always)]
unsafe fn rotate<C: Float, V: GatherVector<T = C>>(
    x: &mut [[C; GROUP]],
    y: &mut [[C; GROUP]],
    [cos, sin]: [C; 2],
) {
    // SAFETY: groups are a whole number of registers; the instructions are our caller's.
    unsafe {
        let (cos, sin, minus) = (V::splat(cos), V::splat(sin), V::splat(-sin));
        for (x, y) in x.iter_mut().zip(y) {
            for i in (0..GROUP).step_by(V::LANES) {
                let (x, y) = (x.as_mut_ptr().add(i), y.as_mut_ptr().add(i));
                let (a, b) = (V::load(x), V::load(y));
                b.fma(cos, a.mul(sin)).store(x);
                a.fma(cos, b.mul(minus)).store(y);
            }
        }
    }
}

/// Of two rows the sum of their products, or (`K` is 3) those of their squares before it: the
/// lanes that remain when a fold has added whole registers. Lanes begin with their first terms, not
/// with zero: a sum of zeros may be -0, which no angle depends on.
///
/// # Safety
/// As for [`turn`].
#[inline(always)]
unsafe fn folded<C: Float, V: GatherVector<T = C>, const K: usize>(rows: [&[[C; GROUP]]; 2]) -> [V; K] {
    let rows = rows.map(<[_]>::as_flattened);
    // SAFETY: as above.
    unsafe {
        match const { LANES / V::LANES } {
            8 => all_of_8::<V, K>(rows, 0),
            16 => all_of_16::<V, K>(rows, 0),
            32 => all_of_32::<V, K>(rows, 0),
            64 => all_of_64::<V, K>(rows, 0),
            _ => unreachable!("registers of 2 to 16 lanes"),
        }
    }
}

/// A level of the tree of additions, down to the chains of terms: the registers of lanes from
/// `first` on, as many apart as the root has parts.
macro_rules! level {
    ($($name:ident $below:ident $parts:literal;)*) => {$(
        /// # Safety
        /// As for [`turn`].
        #[inline(always)]
        unsafe fn $name<V: GatherVector, const K: usize>(rows: [&[V::T]; 2], first: usize) -> [V; K] {
            let other = first + LANES / V::LANES / $parts;
            // SAFETY: as above.
            unsafe {
                let mut all = $below::<V, K>(rows, first);
                // Lanes without a term are left out.
                if other * V::LANES < rows[0].len() {
                    let more = $below::<V, K>(rows, other);
                    for k in 0..K {
                        all[k] = all[k].add(more[k]);
                    }
                }
                all
            }
        }
    )*};
}
level! {
    all_of_64 all_of_32 64;
    all_of_32 all_of_16 32;
    all_of_16 all_of_8 16;
    all_of_8 all_of_4 8;
    all_of_4 all_of_2 4;
    all_of_2 chain 2;
}

/// The sums of the terms of a register of lanes.
///
/// # Safety
/// As for [`turn`].
#[inline(always)]
unsafe fn chain<V: GatherVector, const K: usize>([x, y]: [&[V::T]; 2], first: usize) -> [V; K] {
    let mut at = first * V::LANES;
    // SAFETY: as above; `terms` checks the place.
    unsafe {
        let mut sums = terms::<V, K>(x, y, at);
        loop {
            at += LANES;
            if at >= x.len() {
                return sums;
            }
            let more = terms::<V, K>(x, y, at);
            for k in 0..K {
                sums[k] = sums[k].add(more[k]);
            }
        }
    }
}

/// # Safety
/// As for [`turn`].
#[inline(always)]
unsafe fn terms<V: GatherVector, const K: usize>(x: &[V::T], y: &[V::T], at: usize) -> [V; K] {
    let (x, y) = (&x[at..][..V::LANES], &y[at..][..V::LANES]);
    // SAFETY: both have as many elements as a register; the instructions are our caller's.
    unsafe {
        let (x, y) = (V::load(x.as_ptr()), V::load(y.as_ptr()));
        let mut all = [x.mul(y); K];
        if K == 3 {
            (all[0], all[1]) = (x.mul(x), y.mul(y));
        }
        all
    }
}
