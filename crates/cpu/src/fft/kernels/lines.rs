//! Forward transforms of complex numbers whose real and imaginary parts are in planes.
//!
//! Lanes of registers are different lines where these are short. A long line is cut (Bailey,
//! "FFTs in external or hierarchical memory", 1990): the first levels take lanes that are
//! neighbours, which have all the same factors; after them lanes are turned to be results of one
//! transform each, of which the other levels take neighbours again. So a register is always full,
//! and what a pass works on is in the first-level cache.
//!
//! How it can be wrong: at the ends of planes. Lanes of the last register of a cut line overlap
//! those of the one before, and are computed twice; lines are as far apart as whole registers.
#![allow(unsafe_code, reason = "vector registers at places that were checked")]

use super::levels::{Place, run};
use crate::fft::plan::Cut;
use crate::fft::tables::Levels;
use elinvar_simd::isa::Isa;
use elinvar_simd::quad::GatherVector;

/// Numbers between the planes of a line: whole registers, and one more, so that lines of a power of
/// two are not all in the same sets of a cache.
pub(crate) const fn plane(n: usize) -> usize {
    n.next_multiple_of(16) + 16
}

/// Memory of a thread, each as large as [`sizes`] says.
pub(in crate::fft) struct Memory<'m, T> {
    /// Lines: for each a plane of real and one of imaginary parts.
    pub(in crate::fft) lines: &'m mut [T],
    /// A cut line between its two parts.
    pub(in crate::fft) between: &'m mut [T],
    /// Elements of as many transforms as a register has lanes.
    pub(in crate::fft) lanes: [&'m mut [T]; 2],
}

/// Elements of the slices of a [`Memory`], for registers of so many lanes and so many lines.
pub(in crate::fft) fn sizes(n: usize, cut: Cut, [lanes, lines]: [usize; 2]) -> [usize; 4] {
    let line = 2 * plane(n);
    // Half a spectrum has an element more.
    let across = 2 * lanes * plane(n + 1);
    match cut {
        Cut::Lines => [lanes * line, 0, across, across],
        Cut::Within { first, .. } => {
            let most = 2 * lanes * first.max(n / first);
            [lines * line, line, most, most]
        }
    }
}

/// Transforms the first `lines`, at most as many as a register has lanes.
///
/// # Safety
/// The processor has the registers `V`, which are those of `dispatch_vectors` for `isa`.
#[inline(always)]
pub(in crate::fft) unsafe fn transform<V: GatherVector>(
    isa: Isa,
    levels: &Levels<V::T>,
    cut: Cut,
    lines: usize,
    memory: &mut Memory<'_, V::T>,
) {
    let n = levels.n;
    let have = [memory.lines.len(), memory.between.len(), memory.lanes[0].len(), memory.lanes[1].len()];
    let least = sizes(n, cut, [V::LANES, lines]);
    assert!(least.iter().zip(have).all(|(&least, have)| have >= least), "cpu: a short buffer");
    // SAFETY: the caller's instruction set, and the sizes above.
    unsafe {
        match cut {
            Cut::Lines => abreast::<V>(isa, levels, memory),
            Cut::Within { levels: count, first } => {
                for i in 0..lines {
                    within::<V>(isa, levels, [count, first], i, memory);
                }
            }
        }
    }
}

/// A line in each lane.
///
/// # Safety
/// As for [`transform`].
#[inline(always)]
unsafe fn abreast<V: GatherVector>(isa: Isa, levels: &Levels<V::T>, memory: &mut Memory<'_, V::T>) {
    let (n, step) = (levels.n, plane(levels.n));
    let lines = memory.lines.as_mut_ptr();
    let [a, b] = [0, 1].map(|i| memory.lanes[i].as_mut_ptr());
    // SAFETY: planes are `step` long, a multiple of 16, and `lanes` have as many elements.
    unsafe {
        for part in 0..2 {
            for i in (0..n).step_by(4) {
                let four = V::quad(lines.add(part * step + i), 2 * step as isize);
                for (t, x) in four.into_iter().enumerate() {
                    x.store(a.add((2 * (i + t) + part) * V::LANES));
                }
            }
        }
        let y = run::<V::T, false>(isa, &levels.all, Place { l: 1, k: 0 }, n, [a, b]);
        for part in 0..2 {
            for i in (0..n).step_by(V::LANES) {
                turned::<V>(y, [2 * i + part, 2], lines.add(part * step + i), 2 * step);
            }
        }
    }
}

/// Registers from number `first` on, each `every`-th, turned: `LANES` of each lane become
/// neighbours at `to`, those of the next lane `step` further.
///
/// # Safety
/// As for [`transform`]; these registers are in memory, and room for the numbers.
#[inline(always)]
pub(super) unsafe fn turned<V: GatherVector>(
    from: *const V::T,
    [first, every]: [usize; 2],
    to: *mut V::T,
    step: usize,
) {
    // SAFETY: the caller's.
    unsafe {
        let from = from.add(first * V::LANES);
        if V::LANES < 4 {
            for lane in 0..V::LANES {
                for i in 0..V::LANES {
                    *to.add(lane * step + i) = *from.add(every * i * V::LANES + lane);
                }
            }
            return;
        }
        for lane in (0..V::LANES).step_by(4) {
            let four = V::quad(from.add(lane), (every * V::LANES) as isize);
            for (i, x) in four.into_iter().enumerate() {
                x.store(to.add((lane + i) * step));
            }
        }
    }
}

/// Line number `i`: `count` levels, whose product is `first`, of neighbours, then the others.
///
/// # Safety
/// As for [`transform`]; `first` and `n / first` are at least `LANES`.
#[inline(always)]
unsafe fn within<V: GatherVector>(
    isa: Isa,
    levels: &Levels<V::T>,
    [count, first]: [usize; 2],
    i: usize,
    memory: &mut Memory<'_, V::T>,
) {
    let (n, step) = (levels.n, plane(levels.n));
    let rest = n / first;
    assert!(first.min(rest) >= V::LANES, "cpu: a line that is cut too short");
    let (line, between) = (memory.lines[2 * step * i..].as_mut_ptr(), memory.between.as_mut_ptr());
    let [a, b] = [0, 1].map(|i| memory.lanes[i].as_mut_ptr());
    let (before, after) = levels.all.split_at(count);
    // SAFETY: elements and registers are within planes and `lanes`, as the sizes say.
    unsafe {
        for j in (0..rest).step_by(V::LANES) {
            let j = j.min(rest - V::LANES);
            for t in 0..first {
                for part in 0..2 {
                    V::load(line.add(part * step + t * rest + j)).store(a.add((2 * t + part) * V::LANES));
                }
            }
            let y = run::<V::T, false>(isa, before, Place { l: 1, k: 0 }, first, [a, b]);
            for part in 0..2 {
                for k in (0..first).step_by(V::LANES) {
                    let k = k.min(first - V::LANES);
                    turned::<V>(y, [2 * k + part, 2], between.add(part * step + j * first + k), first);
                }
            }
        }
        for k in (0..first).step_by(V::LANES) {
            let k = k.min(first - V::LANES);
            for t in 0..rest {
                for part in 0..2 {
                    V::load(between.add(part * step + t * first + k)).store(a.add((2 * t + part) * V::LANES));
                }
            }
            let y = run::<V::T, true>(isa, after, Place { l: first, k }, rest, [a, b]);
            for t in 0..rest {
                for part in 0..2 {
                    V::load(y.add((2 * t + part) * V::LANES)).store(line.add(part * step + t * first + k));
                }
            }
        }
    }
}
