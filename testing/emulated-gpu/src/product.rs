//! Matrix products, as in cuBLASLt and hipBLASLt: sums in f32, in one of the many orders that are
//! allowed.

use crate::machine::Memory;
use crate::sys::raw::Raw;
use half::{bf16, f16};
use std::sync::Arc;

/// Multiplications that count as one instruction: more than a tensor core has, so that the library
/// is the faster choice.
const AT_ONCE: u64 = 1 << 16;

/// Element types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// 32 bits.
    F32,
    /// IEEE 754, 16 bits.
    F16,
    /// The upper half of an f32.
    BF16,
}

impl Element {
    fn size(self) -> u64 {
        match self {
            Element::F32 => 4,
            Element::F16 | Element::BF16 => 2,
        }
    }
}

/// Matrices of a batch, column-major.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    /// Type of its elements.
    pub elem: Element,
    /// Rows of each.
    pub rows: u64,
    /// Columns of each.
    pub columns: u64,
    /// Leading dimension: from a column to the next, in elements.
    pub leading: i64,
    /// How many.
    pub count: i32,
    /// From a matrix to the next, in elements.
    pub batch: i64,
}

/// d = op(a) op(b)
#[derive(Clone, Copy, Debug)]
pub struct Multiply {
    /// Are f32 operands rounded to TF32?
    pub tf32: bool,
    /// Is a factor transposed?
    pub transposed: [bool; 2],
    /// Both factors and the result.
    pub stored: [Stored; 3],
    /// Their addresses.
    pub at: [u64; 3],
}

/// Rounded to 10 fraction bits, ties away from zero, as `cvt.rna.tf32` does.
fn tf32(v: f32) -> f32 {
    if v.is_finite() { f32::from_bits(v.to_bits().wrapping_add(1 << 12) & !((1 << 13) - 1)) } else { v }
}

impl Stored {
    /// Rows and columns of the operand.
    pub fn seen(&self, transposed: bool) -> [u64; 2] {
        if transposed { [self.columns, self.rows] } else { [self.rows, self.columns] }
    }
    /// Bytes from the first element to the end of the last one; `None` for negative strides.
    fn bytes(&self) -> Option<u64> {
        let last = |n: u64, step: i64| u64::try_from(step).ok()?.checked_mul(n - 1);
        let batches = last(self.count.max(1) as u64, self.batch)?;
        Some((batches + last(self.columns, self.leading)? + self.rows) * self.elem.size())
    }
    fn place(&self, batch: u64, row: u64, column: u64) -> u64 {
        (batch * self.batch as u64 + column * self.leading as u64 + row) * self.elem.size()
    }
}

impl Multiply {
    /// Do the sizes match?
    pub fn fits(&self) -> bool {
        let [a, b, d] = &self.stored;
        let ([m, k], [l, n]) = (a.seen(self.transposed[0]), b.seen(self.transposed[1]));
        let wide =
            |s: &Stored| s.rows > 0 && s.columns > 0 && s.leading >= s.rows as i64 && s.count == d.count;
        k == l && [d.rows, d.columns] == [m, n] && self.stored.iter().all(wide)
    }
    /// Computes it; returns the number of instructions it counts as.
    ///
    /// # Errors
    /// Accesses out of bounds of its memory.
    pub fn run(&self, memory: &Memory) -> Result<u64, String> {
        let piece = |i: usize| -> Result<(&Arc<Raw>, u64), String> {
            let bytes = self.stored[i].bytes().ok_or("a matrix goes backwards")?;
            let found = memory.range(self.at[i], bytes);
            let (raw, at) = found.ok_or_else(|| format!("a matrix of {bytes} bytes at {:#x}", self.at[i]))?;
            Ok((raw, at as u64))
        };
        let pieces = [piece(0)?, piece(1)?, piece(2)?];
        let read = |i: usize, batch: u64, [row, column]: [u64; 2]| -> f32 {
            let (s, (raw, first)) = (&self.stored[i], pieces[i]);
            let [row, column] = if self.transposed[i] { [column, row] } else { [row, column] };
            let place = raw.place(first + s.place(batch, row, column), s.elem.size());
            let place = place.expect("bounds were checked, and alignment when it was given");
            match s.elem {
                Element::F32 if self.tf32 => tf32(f32::from_bits(raw.load32(place))),
                Element::F32 => f32::from_bits(raw.load32(place)),
                Element::F16 => f16::from_bits(raw.load16(place)).to_f32(),
                Element::BF16 => bf16::from_bits(raw.load16(place)).to_f32(),
            }
        };
        let [_, terms] = self.stored[0].seen(self.transposed[0]);
        let (d, (raw, first)) = (&self.stored[2], pieces[2]);
        let mut sums = vec![0f32; d.rows as usize];
        for batch in 0..d.count as u64 {
            // Operands are read once, and rows are vectorised: tests run many products.
            let a = (0..terms).flat_map(|k| (0..d.rows).map(move |row| [row, k]));
            let a: Vec<f32> = a.map(|at| read(0, batch, at)).collect();
            for column in 0..d.columns {
                sums.fill(0.0);
                for (k, a) in (0..terms).zip(a.chunks_exact(sums.len().max(1))) {
                    let b = read(1, batch, [k, column]);
                    // As an fma: the product of two 16-bit or TF32 operands is exact.
                    sums.iter_mut().zip(a).for_each(|(sum, a)| *sum += a * b);
                }
                for (row, &sum) in (0..d.rows).zip(&sums) {
                    let place = raw.place(first + d.place(batch, row, column), d.elem.size());
                    let place = place.expect("as above");
                    match d.elem {
                        Element::F32 => raw.store32(place, sum.to_bits()),
                        Element::F16 => raw.store16(place, f16::from_f32(sum).to_bits()),
                        Element::BF16 => raw.store16(place, bf16::from_f32(sum).to_bits()),
                    }
                }
            }
        }
        Ok(d.count as u64 * d.rows * d.columns * terms / AT_ONCE)
    }
}
