//! Depthwise 3 x 3 kernel, stride 1, over planes in place; also its gradient by input.
//!
//! A few registers side by side go down the plane once. Each row is loaded under the three taps of
//! a row and is part of the chains of three output rows. Rows outside of the plane are a row of
//! zeros; lanes past the ends of a row are masked. The loop over rows is not unrolled: unrolled,
//! the compiler orders the fma chain by chain and spills the weights.
//!
//! How it can be wrong: by reading outside of the planes, where a register starts before the first
//! row or ends behind the last. A plane that close to an end of its memory is copied with padding.
#![allow(unsafe_code, reason = "vector loads and stores without a check for each")]
#![allow(clippy::needless_range_loop, reason = "registers are counted, so that the loops unroll")]

use elinvar_core::Element;
use elinvar_ops::lane::LaneInt;
use elinvar_simd::LINE;
use elinvar_simd::isa::Isa;
use elinvar_simd::quad::GatherVector;
use elinvar_simd::uninit::UninitSlice;
use elinvar_simd::vector::{
    SimdElement, Vector, VectorKernel, dispatch_half_vectors, dispatch_vectors, half_lanes, lanes, low_lanes,
};
use std::mem::MaybeUninit;

/// Taps along an axis.
pub(crate) const TAPS_PER_AXIS: usize = 3;
/// Bytes of the plane that are on their way to the first-level cache, and as many of the result:
/// processors foresee no farther than a page of 4 KiB, which is a third of a plane of 56 x 56.
const PREFETCH_DISTANCE_BYTES: usize = 7 << 10;

/// Where windows are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DepthwiseWindows {
    /// Rows and columns of a plane, at least one, and of the result.
    pub(crate) plane: [usize; 2],
    pub(crate) out: [usize; 2],
    /// Which row of the plane the first tap sees at row 0 of the result; the next taps see the next
    /// rows.
    pub(crate) row: isize,
    /// Do they see the rows before it instead?
    pub(crate) up: bool,
    /// Which column each tap sees at column 0.
    pub(crate) columns: [isize; TAPS_PER_AXIS],
}

/// Windows made ready for an instruction set.
pub(crate) struct DepthwisePlanes<T> {
    isa: Isa,
    /// In the widest registers?
    wide: bool,
    windows: DepthwiseWindows,
    /// Numbers that are reached before and behind a row's first.
    before: usize,
    behind: usize,
    /// Zeros, as many as are reached.
    nothing: Vec<T>,
    /// The first columns of the registers that make up a row.
    starts: Vec<usize>,
    /// Is the last of them a [`Vector::Low`]?
    low: bool,
    /// For each of them and each tap, a number for each lane: all bits where it sees the plane.
    masks: Vec<T>,
    /// Does each of them see the plane under all taps?
    inside: Vec<bool>,
}

impl<T: SimdElement> DepthwisePlanes<T> {
    /// Ready for all planes of a size.
    pub(crate) fn new(isa: Isa, windows: DepthwiseWindows) -> DepthwisePlanes<T> {
        let width = windows.out[1];
        let wide = width >= lanes::<T>(isa);
        let lanes = if wide { lanes::<T>(isa) } else { half_lanes::<T>(isa) };
        // The last register ends where the row does: what two of them compute is the same. Where
        // half of one is enough, that is all: of 56 columns a register of 16 does a seventh for
        // nothing.
        let (mut starts, rest): (Vec<usize>, _) =
            ((0..width / lanes).map(|i| i * lanes).collect(), width % lanes);
        let low = wide && rest > 0 && rest <= low_lanes::<T>(isa) && low_lanes::<T>(isa) < lanes;
        if rest > 0 {
            starts.push(width.saturating_sub(if low { low_lanes::<T>(isa) } else { lanes }));
        }
        let reach = width.max(lanes);
        let before = windows.columns.iter().map(|c| (-c).max(0) as usize).max().unwrap_or(0);
        let behind = windows.columns.iter().map(|c| (*c).max(0) as usize).max().unwrap_or(0) + reach;
        let behind = behind.max(windows.plane[1]);
        let seen = |column: isize| (0..windows.plane[1] as isize).contains(&column);
        let mask = |column| if seen(column) { T::from_bits(LaneInt::lit(-1)) } else { <T as Element>::ZERO };
        let masks = starts
            .iter()
            .flat_map(|j| windows.columns.map(|c| (0..lanes).map(move |l| (j + l) as isize + c)))
            .flatten()
            .map(mask)
            .collect();
        let last = |j: usize| (j + lanes - 1).min(width.max(lanes) - 1);
        let sees =
            |j: usize| windows.columns.iter().all(|c| [j, last(j)].iter().all(|l| seen(*l as isize + c)));
        let inside = starts.iter().map(|j| sees(*j)).collect();
        let nothing = vec![<T as Element>::ZERO; before + behind];
        DepthwisePlanes { isa, wide, windows, before, behind, nothing, starts, low, masks, inside }
    }

    /// How many registers, at most `most`, go down together from start number `unit` on: only the
    /// first and the last may see what is beside the plane, as masks take registers, too.
    #[inline(always)]
    fn side_by_side(&self, unit: usize, most: usize) -> usize {
        let side = (self.starts.len() - unit).min(most);
        let between = unit + 1..(unit + side).saturating_sub(1).max(unit + 1);
        if self.inside[between].iter().all(|inside| *inside) { side } else { 1 }
    }

    /// Fills the next numbers of a room with y[i, j] = the chain over the taps of x[row, column] *
    /// w[tap], for the plane that begins at `at`.
    ///
    /// # Panics
    /// If the plane is not in `x`, or the room is too small.
    pub(crate) fn fill(
        &self,
        x: &[T],
        at: usize,
        w: &[T; TAPS_PER_AXIS * TAPS_PER_AXIS],
        dst: &mut UninitSlice<'_, T>,
    ) {
        let [rows, columns] = self.windows.plane;
        let n = self.windows.out.iter().product();
        let plane = &x[at..at + rows * columns];
        let mut copied = Vec::new();
        let reached = at >= self.before && at + (rows - 1) * columns + self.behind <= x.len();
        let (x, at, pitch) = if reached {
            (x, at, columns)
        } else {
            let pitch = self.before + self.behind;
            copied.resize(rows * pitch, <T as Element>::ZERO);
            for (to, from) in copied.chunks_exact_mut(pitch).zip(plane.chunks_exact(columns)) {
                to[self.before..self.before + columns].copy_from_slice(from);
            }
            (&copied[..], self.before, pitch)
        };
        let y = &mut dst.unwritten()[..n];
        if n > 0 {
            let walk = DepthwiseKernel { planes: self, x: &x[at - self.before..], pitch, w, y };
            if self.wide { dispatch_vectors(self.isa, walk) } else { dispatch_half_vectors(self.isa, walk) }
        }
        // SAFETY: `DepthwiseKernel` writes each of the `n` results of the plane.
        unsafe { dst.count(n) };
    }
}

/// A plane and its result, whose sizes `fill` has checked: from `x` on there are, for each row of
/// the plane, `before + behind` numbers, `pitch` apart; `y` has the size of the result.
struct DepthwiseKernel<'a, 'r, T> {
    planes: &'a DepthwisePlanes<T>,
    x: &'a [T],
    pitch: usize,
    w: &'a [T; TAPS_PER_AXIS * TAPS_PER_AXIS],
    y: &'r mut [MaybeUninit<T>],
}

impl<T: SimdElement> VectorKernel for DepthwiseKernel<'_, '_, T> {
    type T = T;
    #[inline(always)]
    unsafe fn run<V: GatherVector<T = T>>(mut self) {
        // SAFETY: the caller's.
        unsafe { self.all::<V>() }
    }
}

impl<T: SimdElement> DepthwiseKernel<'_, '_, T> {
    /// All columns.
    ///
    /// # Safety
    /// The processor has the registers.
    #[inline(always)]
    unsafe fn all<V: Vector<T = T>>(&mut self) {
        let (units, mut unit) = (self.planes.starts.len(), 0);
        while unit < units {
            // Beside nine weights, three sums for each register side by side: four where there are
            // 32 registers.
            let side = self.planes.side_by_side(unit, (V::TILE_ROWS / 3).max(1));
            // SAFETY: the caller's; there are so many starts, and those between see nothing beside
            // the plane. A row that is narrower than a register has one start.
            unsafe {
                match side {
                    _ if self.planes.windows.out[1] < V::LANES => self.down::<V, 1, 1, false>(unit),
                    _ if self.planes.low && unit + side == units => self.down_to_low::<V>(unit, side),
                    4.. => self.down::<V, 4, 4, true>(unit),
                    3 => self.down::<V, 3, 3, true>(unit),
                    2 => self.down::<V, 2, 2, true>(unit),
                    _ => self.down::<V, 1, 1, true>(unit),
                }
            }
            unit += side;
        }
    }

    /// The last registers of all rows, of which the very last is low.
    ///
    /// # Safety
    /// As for `down`.
    #[inline(always)]
    unsafe fn down_to_low<V: Vector<T = T>>(&mut self, unit: usize, side: usize) {
        if const { V::Low::LANES == V::LANES } {
            unreachable!("no row ends with half of a register that has none");
        }
        // SAFETY: the caller's.
        unsafe {
            match side {
                4.. => self.down::<V, 4, 3, true>(unit),
                3 => self.down::<V, 3, 2, true>(unit),
                2 => self.down::<V, 2, 1, true>(unit),
                _ => self.down::<V, 1, 0, true>(unit),
            }
        }
    }

    /// All rows of `U` registers side by side, from start number `unit` on, of which the first `F`
    /// are full ones, and another is low; `WHOLE`: a row has room for a register.
    ///
    /// # Safety
    /// The processor has the registers; there are so many starts, and the registers between the
    /// first and the last of them see the plane under each tap; `WHOLE` says the truth.
    #[inline(always)]
    unsafe fn down<V: Vector<T = T>, const U: usize, const F: usize, const WHOLE: bool>(
        &mut self,
        unit: usize,
    ) {
        let planes = self.planes;
        let DepthwiseWindows { out: [height, width], plane: [rows, _], row, up, columns } = planes.windows;
        let (start, last) = (planes.starts[unit], planes.starts[unit + U - 1]);
        // Register `u` begins so far behind the first.
        let at = |u: usize| if u + 1 == U { last - start } else { u * V::LANES };
        // SAFETY: the processor has the registers, here and below; `new` made three masks of a
        // register for each start.
        let zero = unsafe { V::splat(<T as Element>::ZERO) };
        let (mut w, mut first_mask, mut last_mask) =
            ([zero; TAPS_PER_AXIS * TAPS_PER_AXIS], [zero; TAPS_PER_AXIS], [zero; TAPS_PER_AXIS]);
        let mut from = [0; TAPS_PER_AXIS];
        for t in 0..TAPS_PER_AXIS {
            from[t] = (start + planes.before).wrapping_add_signed(columns[t]);
            // SAFETY: as above.
            unsafe {
                let masks = planes.masks.as_ptr();
                first_mask[t] = V::load(masks.add((unit * TAPS_PER_AXIS + t) * V::LANES));
                last_mask[t] = V::load(masks.add(((unit + U - 1) * TAPS_PER_AXIS + t) * V::LANES));
            }
        }
        for (w, number) in w.iter_mut().zip(self.w) {
            // SAFETY: as above.
            *w = unsafe { V::splat(*number) };
        }
        // Where the row that is seen begins, less the numbers that are reached before it, and that
        // of the result for which it is the first. Both may be beside the plane.
        let (pitch, wide) = (self.pitch as isize, width as isize);
        let (top, step) = if up { (height as isize - 1, -1) } else { (0, 1) };
        let mut x = self.x.as_ptr().wrapping_offset((top + row) * pitch);
        let mut y = self.y.as_mut_ptr().wrapping_offset(top * wide + start as isize);
        // What is needed soon: later rows, or, where rows are walked up, the same row of the next
        // plane, which is behind this one.
        let prefetch_at = (PREFETCH_DISTANCE_BYTES / (width * size_of::<T>())).max(1);
        let soon_x = if up { rows } else { prefetch_at } * self.pitch + start;
        let soon_y = if up { height } else { prefetch_at } * width;
        // The sums of the rows of the result that have seen two rows of taps, and one.
        let (mut two, mut one) = ([zero; F], [zero; F]);
        // SAFETY: as above.
        let zero_low = unsafe { zero.low() };
        let (mut two_low, mut one_low) = (zero_low, zero_low);
        for s in 0..height + TAPS_PER_AXIS - 1 {
            for u in 0..U {
                // One of those that share a line; the last may be over the one before it, and is
                // left to the processor.
                if u == 0 || u + 1 < U && (u * V::LANES * size_of::<T>()).is_multiple_of(LINE) {
                    // SAFETY: hints; any address will do.
                    unsafe {
                        V::prefetch_l1(x.wrapping_add(soon_x + at(u)));
                        V::prefetch_l1(y.wrapping_add(soon_y + at(u)).cast());
                    }
                }
            }
            let seen = match usize::try_from(top + row + step * s as isize) {
                Ok(i) if i < rows => x,
                _ => planes.nothing.as_ptr(),
            };
            let (mut none, mut none_low) = ([zero; F], zero_low);
            for u in 0..F {
                for t in 0..TAPS_PER_AXIS {
                    // SAFETY: a tap's column is at least `-before` away from a start, and so that a
                    // register from there on ends within `behind`; from `seen` on there are
                    // `before + behind` numbers, see `DepthwiseKernel` and `nothing`.
                    let mut x = unsafe { V::load(seen.add(from[t] + at(u))) };
                    // SAFETY: the processor has the registers.
                    unsafe {
                        if u == 0 {
                            x = x.and(first_mask[t]);
                        } else if u + 1 == U {
                            x = x.and(last_mask[t]);
                        }
                        two[u] = x.fma(w[2 * TAPS_PER_AXIS + t], two[u]);
                        one[u] = x.fma(w[TAPS_PER_AXIS + t], one[u]);
                        none[u] = x.fma(w[t], none[u]);
                    }
                }
            }
            if F < U {
                for t in 0..TAPS_PER_AXIS {
                    // SAFETY: as above.
                    unsafe {
                        let x = V::Low::load(seen.add(from[t] + at(F))).and(last_mask[t].low());
                        two_low = x.fma(w[2 * TAPS_PER_AXIS + t].low(), two_low);
                        one_low = x.fma(w[TAPS_PER_AXIS + t].low(), one_low);
                        none_low = x.fma(w[t].low(), none_low);
                    }
                }
            }
            // Behind all sums of the row: stores between them took a quarter longer.
            if s >= TAPS_PER_AXIS - 1 {
                let y = y.wrapping_offset((1 - TAPS_PER_AXIS as isize) * step * wide);
                if F < U {
                    // SAFETY: as below.
                    unsafe { two_low.store(y.add(at(F)).cast()) }
                }
                for u in 0..F {
                    // SAFETY: row s - 2 of the walk is a row of the result, and of its `width`
                    // columns there is a register from each start on; where there is not, `width`
                    // numbers are copied. No register has more than sixteen.
                    unsafe {
                        if WHOLE {
                            two[u].store(y.add(at(u)).cast());
                        } else {
                            let mut all = [<T as Element>::ZERO; 16];
                            two[u].store(all.as_mut_ptr());
                            std::slice::from_raw_parts_mut(y, width).write_copy_of_slice(&all[..width]);
                        }
                    }
                }
            }
            ((two, one), (two_low, one_low)) = ((one, none), (one_low, none_low));
            x = x.wrapping_offset(step * pitch);
            y = y.wrapping_offset(step * wide);
        }
    }
}
