//! Rows of a transform: read into planes, transformed, and written.
//!
//! How it can be wrong: by an operation more or less than the composed form has. A product by 1 or
//! -1 is exact, so it may be a sum or difference instead; a product by +0 is not nothing.
#![allow(unsafe_code, reason = "rows that are written whole")]

use super::abreast;
use super::job::Job;
use super::lines::{self, Memory, plane};
use crate::fft::plan::Cut;
use crate::fft::tables::{Half, Turns};
use elinvar_ops::backend::FourierKind;
use elinvar_ops::catalogue::fourier::Direction;
use elinvar_simd::quad::GatherVector;
use elinvar_simd::uninit::UninitSlice;
use elinvar_simd::vector::{SimdElement, VectorKernel};
use std::mem::MaybeUninit;

/// Fills a room with the results of rows from `first` on.
pub(in crate::fft) struct RowsKernel<'a, 'm, 'd, T> {
    pub(in crate::fft) job: &'a Job<'a, T>,
    pub(in crate::fft) first: usize,
    pub(in crate::fft) memory: Memory<'m, T>,
    /// A line more, for half a spectrum.
    pub(in crate::fft) spare: &'m mut [T],
    pub(in crate::fft) dst: &'m mut UninitSlice<'d, T>,
}

impl<T: SimdElement> VectorKernel for RowsKernel<'_, '_, '_, T> {
    type T = T;
    #[inline(always)]
    unsafe fn run<V: GatherVector<T = T>>(self) {
        let RowsKernel { job, first, mut memory, spare, dst } = self;
        let (mut row, step) = (first, plane(job.transform.levels.n));
        let most = if job.is_abreast() { V::LANES } else { 1 };
        let side_by_side = job.cut == Cut::Lines && abreast::fits(job, V::LANES);
        while dst.remaining() > 0 {
            let count = most.min(dst.remaining() / job.row_len());
            if count == V::LANES && side_by_side {
                // SAFETY: the caller's instruction set.
                unsafe { abreast::rows::<V>(job, row, &mut memory, dst) };
                row += count;
                continue;
            }
            job.read(row, &mut memory.lines[..2 * step * count], step, spare);
            // SAFETY: the caller's instruction set.
            unsafe { lines::transform::<V>(job.isa, &job.transform.levels, job.cut, count, &mut memory) };
            if let Some(convolution) = &job.transform.convolution {
                for line in memory.lines.chunks_exact_mut(2 * step).take(count) {
                    let (re, im) = line.split_at_mut(step);
                    turn(&convolution.spectrum, [re, im]);
                    re.swap_with_slice(im);
                }
                // SAFETY: as above.
                unsafe { lines::transform::<V>(job.isa, &job.transform.levels, job.cut, count, &mut memory) };
            }
            for line in memory.lines.chunks_exact_mut(2 * step).take(count) {
                job.write(line.split_at_mut(step).into(), dst);
            }
            row += count;
        }
    }
}

/// Each number times its factor.
#[inline(always)]
fn turn<T: SimdElement>(by: &Turns<T>, [re, im]: [&mut [T]; 2]) {
    let n = by.cos.len();
    let (re, im) = (&mut re[..n], &mut im[..n]);
    let [from_im, from_re] = [&by.sin[0][..n], &by.sin[1][..n]];
    for i in 0..n {
        let (a, b, cos) = (re[i], im[i], by.cos[i]);
        re[i] = b.fma(from_im[i], a * cos);
        im[i] = a.fma(from_re[i], b * cos);
    }
}

/// Element `k` of a spectrum of real numbers, from that of the pairs; or the other way round.
#[inline(always)]
fn joined<T: SimdElement>([a, b]: [T; 2], [c, d]: [T; 2], [sin, re, im]: [T; 3]) -> [T; 2] {
    // a + i b is the element, c + i d its mirror.
    let (e, o) = ([a + c, b - d], [a - c, b + d]);
    [e[0] + o[1].fma(re, o[0] * sin), e[1] + o[0].fma(im, o[1] * sin)]
}

impl<T: SimdElement> Job<'_, T> {
    /// The complex numbers that rows from `row` on stand for, as what is transformed forward.
    #[inline(always)]
    fn read(&self, row: usize, lines: &mut [T], plane: usize, spare: &mut [T]) {
        let (m, swapped) = (self.transform.n, self.is_inverse());
        match self.kind {
            FourierKind::Complex(_) => self.source.parts(row, m, lines, plane, swapped),
            FourierKind::Real if self.half.is_some() => {
                self.source.paired().parts(row, m, lines, plane, false);
            }
            FourierKind::Real | FourierKind::InverseReal => {
                for (i, line) in lines.chunks_exact_mut(2 * plane).enumerate() {
                    let (x, y) = line.split_at_mut(plane);
                    self.read_reals(row + i, if swapped { [y, x] } else { [x, y] }, spare);
                }
            }
        }
        if let Some(convolution) = &self.transform.convolution {
            for line in lines.chunks_exact_mut(2 * plane) {
                let (re, im) = line.split_at_mut(plane);
                turn(&convolution.chirp, [&mut *re, &mut *im]);
                re[m..].fill(T::ZERO);
                im[m..].fill(T::ZERO);
            }
        }
    }
    /// Real numbers of odd length, or those of which a row has half the spectrum.
    #[inline(always)]
    fn read_reals(&self, row: usize, [x, y]: [&mut [T]; 2], spare: &mut [T]) {
        let m = self.transform.n;
        if self.kind == FourierKind::Real {
            self.source.reals(row, &mut x[..m]);
            y[..m].fill(T::ZERO);
            return;
        }
        let h = self.n / 2 + 1;
        self.source.parts(row, h, spare, spare.len() / 2, false);
        let (a, b) = spare.split_at_mut(spare.len() / 2);
        let (a, b) = (&a[..h], &mut b[..h]);
        b[0] = T::ZERO;
        if let Some(half) = self.half {
            b[m] = T::ZERO;
            self.split(half, [a, b], [&mut x[..m], &mut y[..m]]);
            return;
        }
        x[..h].copy_from_slice(a);
        y[..h].copy_from_slice(b);
        for (i, (x, y)) in x[h..m].iter_mut().zip(&mut y[h..m]).enumerate() {
            [*x, *y] = [a[h - 1 - i], -b[h - 1 - i]];
        }
    }
    /// The numbers whose transform has the halves' sum and difference in neighbours.
    #[inline(always)]
    fn split(&self, half: &Half<T>, [a, b]: [&[T]; 2], [x, y]: [&mut [T]; 2]) {
        let m = x.len();
        let (mirror_a, mirror_b) = (a[1..].iter().rev(), b[1..].iter().rev());
        let tables = half.cos.iter().zip(&half.sin[0]).zip(&half.sin[1]);
        let own = a[..m].iter().zip(&b[..m]).zip(mirror_a.zip(mirror_b));
        for ((to, own), table) in x.iter_mut().zip(y).zip(own).zip(tables) {
            let ((a, b), (c, d)) = own;
            let z = joined([*a, *b], [*c, *d], [*table.0.0, *table.0.1, *table.1]);
            (*to.0, *to.1) = (z[0], z[1]);
        }
    }
    /// A row of the result.
    #[inline(always)]
    fn write(&self, [mut re, mut im]: [&mut [T]; 2], dst: &mut UninitSlice<'_, T>) {
        let m = self.transform.n;
        if let Some(convolution) = &self.transform.convolution {
            // The transform back gave parts swapped.
            std::mem::swap(&mut re, &mut im);
            turn(&convolution.chirp, [&mut *re, &mut *im]);
        }
        let len = self.row_len();
        let slots = &mut dst.unwritten()[..len];
        match (self.kind, self.half) {
            (FourierKind::Complex(Direction::Forward), _) => {
                write_pairs(self.scale, [&re[..m], &im[..m]], slots)
            }
            (FourierKind::Complex(Direction::Inverse), _) | (FourierKind::InverseReal, Some(_)) => {
                write_pairs(self.scale, [&im[..m], &re[..m]], slots);
            }
            (FourierKind::Real, None) => write_pairs(self.scale, [&re[..len / 2], &im[..len / 2]], slots),
            (FourierKind::InverseReal, None) => {
                for (slot, &x) in slots.iter_mut().zip(&im[..m]) {
                    slot.write(self.scale.map_or(x, |scale| x * scale));
                }
            }
            (FourierKind::Real, Some(half)) => {
                // Element m is element 0.
                let end = [re[0], im[0]];
                let (tail, slots) =
                    slots.as_chunks_mut::<2>().0.split_last_mut().expect("two elements at least");
                let (tables, last) = ([&half.cos, &half.sin[0], &half.sin[1]], m);
                let at = |i: usize| tables.map(|t| t[i]);
                put(tail, joined(end, end, at(last)), self.scale);
                put(&mut slots[0], joined(end, end, at(0)), self.scale);
                let mirror = re[1..m].iter().rev().zip(im[1..m].iter().rev());
                let own = re[1..m].iter().zip(&im[1..m]).zip(mirror);
                let table = half.cos[1..m].iter().zip(&half.sin[0][1..m]).zip(&half.sin[1][1..m]);
                for ((slot, own), table) in slots[1..].iter_mut().zip(own).zip(table) {
                    let ((a, b), (c, d)) = own;
                    let z = joined([*a, *b], [*c, *d], [*table.0.0, *table.0.1, *table.1]);
                    put(slot, z, self.scale);
                }
            }
        }
        // SAFETY: each arm wrote as many slots as a row has: pairs of m or len / 2 elements, m
        // numbers, or the first, the last and m - 1 pairs between.
        unsafe { dst.count(len) };
    }
}

/// A pair, scaled.
#[inline(always)]
fn put<T: SimdElement>(slot: &mut [MaybeUninit<T>; 2], z: [T; 2], scale: Option<T>) {
    let z = scale.map_or(z, |scale| z.map(|x| x * scale));
    slot[0].write(z[0]);
    slot[1].write(z[1]);
}

/// Pairs of elements of two planes, which are as many as there are slots for.
#[inline(always)]
fn write_pairs<T: SimdElement>(scale: Option<T>, [re, im]: [&[T]; 2], slots: &mut [MaybeUninit<T>]) {
    assert_eq!(slots.len(), 2 * re.len(), "cpu: a row of another length");
    for ((slot, &re), &im) in slots.as_chunks_mut::<2>().0.iter_mut().zip(re).zip(im) {
        put(slot, [re, im], scale);
    }
}
