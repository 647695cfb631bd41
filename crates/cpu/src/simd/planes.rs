//! Windows of three by three over a plane as it lies, one step apart: depthwise convolutions, and their gradients by x.
//!
//! A tile is a few rows of the result, one register wide. It goes down the rows of the plane once: each is loaded under the three
//! taps of a row, and is part of the chains of up to three rows of the result. Nothing is copied: a row beside the plane is a row
//! of zeros, and what a register sees beside a row, which is the end of another, becomes zeros by a mask.
//!
//! How it can be wrong: by reading beside the planes, where a register begins before the first row or ends behind the last. So a
//! plane that is so close to an end of its memory is copied, with room around it.
#![allow(unsafe_code, reason = "vector loads and stores without a check for each")]
#![allow(clippy::needless_range_loop, reason = "rows of a tile are counted, so that the loops unroll")]

use super::isa::Isa;
use super::room::Room;
use super::vector::{InRegisters, Registers, Vector, in_short_registers, short_lanes};
use elinvar_core::Element;
use elinvar_ops::lane::LaneInt;
use std::mem::MaybeUninit;

/// Taps along an axis.
pub(crate) const TAPS: usize = 3;
/// Rows of a tile: eight chains, which is how many keep two multipliers busy.
const ROWS: usize = 8;

/// Registers of which one begins a cache line, more or less.
const LINE: usize = 2;

/// Where windows lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    /// Rows and columns of a plane, at least one, and of the result.
    pub(crate) plane: [usize; 2],
    pub(crate) out: [usize; 2],
    /// Which row of the plane the first tap sees at row 0 of the result; the next taps see the next rows.
    pub(crate) row: isize,
    /// Do they see the rows before it instead?
    pub(crate) up: bool,
    /// Which column each tap sees at column 0.
    pub(crate) columns: [isize; TAPS],
}

/// Windows made ready for an instruction set.
pub(crate) struct Planes<T> {
    isa: Isa,
    windows: Windows,
    /// Numbers that are reached before and behind a row's first.
    before: usize,
    behind: usize,
    /// Zeros, as many as are reached.
    nothing: Vec<T>,
    /// The first columns of the registers that make up a row.
    starts: Vec<usize>,
    /// For each of them and each tap, a number for each lane: all bits where it sees the plane.
    masks: Vec<T>,
}

impl<T: Registers> Planes<T> {
    /// Ready for all planes of a size.
    pub(crate) fn new(isa: Isa, windows: Windows) -> Planes<T> {
        let (lanes, width) = (short_lanes::<T>(isa), windows.out[1]);
        // The last register ends where the row does: what two of them compute is the same.
        let mut starts: Vec<usize> = (0..width / lanes).map(|i| i * lanes).collect();
        if !width.is_multiple_of(lanes) {
            starts.push(width.saturating_sub(lanes));
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
        let nothing = vec![<T as Element>::ZERO; before + behind];
        Planes { isa, windows, before, behind, nothing, starts, masks }
    }

    /// Fills the next numbers of a room with y[i, j] = the chain over the taps of x[row, column] * w[tap], for the plane that begins
    /// at `at`.
    ///
    /// # Panics
    /// If the plane is not in `x`, or the room is too small.
    pub(crate) fn fill(&self, x: &[T], at: usize, w: &[T; TAPS * TAPS], room: &mut Room<'_, T>) {
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
        let y = &mut room.unwritten()[..n];
        if n > 0 {
            in_short_registers(self.isa, Tiles { planes: self, x: &x[at - self.before..], pitch, w, y });
        }
        room.count(n);
    }
}

/// A plane and its result, whose sizes `fill` has checked: from `x` on there are, for each row of the plane, `before + behind`
/// numbers, `pitch` apart; `y` has the size of the result.
struct Tiles<'a, 'r, T> {
    planes: &'a Planes<T>,
    x: &'a [T],
    pitch: usize,
    w: &'a [T; TAPS * TAPS],
    y: &'r mut [MaybeUninit<T>],
}

impl<T: Registers> InRegisters for Tiles<'_, '_, T> {
    type T = T;
    #[inline(always)]
    unsafe fn run<V: Vector<T = T>>(mut self) {
        // SAFETY: the caller's.
        unsafe {
            match self.planes.windows.out[0] {
                ROWS.. => self.rows::<V, ROWS, { ROWS + TAPS - 1 }>(),
                4.. => self.rows::<V, 4, { 4 + TAPS - 1 }>(),
                _ => self.rows::<V, 1, TAPS>(),
            }
        }
    }
}

impl<T: Registers> Tiles<'_, '_, T> {
    /// All rows, `R` at a time, which see `S` rows of the plane.
    ///
    /// # Safety
    /// The processor has the registers; there are `R` rows.
    #[inline(always)]
    unsafe fn rows<V: Vector<T = T>, const R: usize, const S: usize>(&mut self) {
        let Windows { out: [height, width], plane: [rows, _], row, up, .. } = self.planes.windows;
        // SAFETY: the processor has the registers.
        let w = unsafe { self.w.map(|w| V::splat(w)) };
        let mut next = 0;
        while next < height {
            // The last tile ends where the plane does: what two of them compute is the same.
            let first = next.min(height - R);
            let direction = if up { -1 } else { 1 };
            let start = if up { first + R - 1 } else { first };
            // Where the rows that are seen begin, less the numbers that are reached before them.
            let seen: [*const T; S] = std::array::from_fn(|s| {
                match usize::try_from(start as isize + row + direction * s as isize) {
                    Ok(i) if i < rows => self.x[i * self.pitch..].as_ptr(),
                    _ => self.planes.nothing.as_ptr(),
                }
            });
            for (unit, &j) in self.planes.starts.iter().enumerate() {
                // Where row r of the tile begins in the result.
                let place = |r: usize| if up { start - r } else { start + r } * width + j;
                // The next plane and its result follow these: they are on their way while this one is computed.
                if unit % LINE == 0 {
                    for r in 0..R {
                        let (x, y) = (seen[r + 1].wrapping_add(j + rows * self.pitch), self.y.as_ptr());
                        // SAFETY: hints; any address will do. The processor has them, as it has the registers.
                        unsafe {
                            V::soon(x.cast());
                            V::soon(y.wrapping_add(place(r) + self.y.len()).cast());
                        }
                    }
                }
                // SAFETY: `new` made masks for each of the starts, and so that `before + behind` numbers are reached from where
                // a row of `seen` begins; so many are there, see `Tiles` and `nothing`. The tile's rows are rows of the result,
                // and `width` columns are, or a register of them from `j` on. No register has more than sixteen numbers.
                unsafe {
                    let sums = self.tile::<V, R, S>(&seen, unit, j, &w);
                    if width >= V::LANES {
                        for r in 0..R {
                            sums[r].store(self.y.as_mut_ptr().add(place(r)).cast());
                        }
                    } else {
                        for r in 0..R {
                            let mut all = [<T as Element>::ZERO; 16];
                            sums[r].store(all.as_mut_ptr());
                            self.y[place(r)..][..width].write_copy_of_slice(&all[..width]);
                        }
                    }
                }
            }
            next += R;
        }
    }

    /// `R` rows from column `j` on, the start number `unit`.
    ///
    /// # Safety
    /// The processor has the registers; from each of `seen` on there are `before + behind` numbers.
    #[inline(always)]
    unsafe fn tile<V: Vector<T = T>, const R: usize, const S: usize>(
        &self,
        seen: &[*const T; S],
        unit: usize,
        j: usize,
        w: &[V; TAPS * TAPS],
    ) -> [V; R] {
        let planes = self.planes;
        // SAFETY: the caller's; a tap's column is at least `-before` away from `j`, and so that a register from there on ends
        // within `behind`; there are three masks of a register for each start.
        unsafe {
            let masks = planes.masks.as_ptr().add(unit * TAPS * V::LANES);
            let mut sums = [V::splat(<T as Element>::ZERO); R];
            let mut mask = [V::splat(<T as Element>::ZERO); TAPS];
            let mut from = [0; TAPS];
            for t in 0..TAPS {
                mask[t] = V::load(masks.add(t * V::LANES));
                from[t] = (j + planes.before).wrapping_add_signed(planes.windows.columns[t]);
            }
            for s in 0..S {
                for t in 0..TAPS {
                    let x = V::load(seen[s].add(from[t])).keep(mask[t]);
                    // It is row s - r of the window of row r.
                    for i in 0..TAPS {
                        if let Some(r) = s.checked_sub(i)
                            && r < R
                        {
                            sums[r] = x.fma(w[i * TAPS + t], sums[r]);
                        }
                    }
                }
            }
            sums
        }
    }
}
