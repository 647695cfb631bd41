//! What AMD's waves do together: exchanges between lanes, and matrix instructions.
//!
//! Sources: "AMDGPU Usage" of LLVM and the ISA documents of RDNA 2 to 4 ("Data Parallel
//! Processing", `ds_swizzle_b32`, `ds_bpermute_b32`), those of CDNA 3 ("Matrix Arithmetic
//! Instructions") and of RDNA 3 and 4 ("Wave Matrix Multiply Accumulate"), and AMD's matrix
//! instruction calculator.

use super::access::lanes;
use super::matrix::number;
use super::{Fault, FaultKind, Warp, full};
use crate::inst::{Column, Factor, Route, Unit};
use crate::program::Program;

fn wrong<T>(what: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::new(FaultKind::Illegal, what))
}

impl<const L: usize> Warp<L> {
    /// What each lane reads. Of a lane that does not take part a device gives zero, or what is left
    /// in its register; here it is a fault, for nothing that is emitted wants it.
    fn exchanged(&self, v: Column, from: impl Fn(usize) -> usize) -> Result<[u32; L], Fault> {
        let (v, mask) = (&self.narrow[v as usize], self.mask());
        let mut out = [0; L];
        for lane in lanes(mask) {
            let other = from(lane);
            if other >= L || mask >> other & 1 == 0 {
                return wrong(format!("lane {lane} reads lane {other}, which does not take part ({mask:x})"));
            }
            out[lane] = v[other];
        }
        Ok(out)
    }

    pub fn routed(&self, route: Route, v: Column) -> Result<[u32; L], Fault> {
        self.exchanged(v, |lane| match route {
            Route::Swizzle { and, or, xor } => {
                let own = lane as u8 & 31;
                lane & !31 | usize::from(((own & and) | or) ^ xor)
            }
            Route::Quad(order) => lane & !3 | usize::from(order >> (2 * (lane & 3)) & 3),
            Route::Mirror(among) => lane ^ usize::from(among - 1),
            Route::Lane(lane) => usize::from(lane),
        })
    }
    /// By addresses of words: four times a number, of which only the bits within `among` count.
    pub fn permuted(&self, among: u8, v: Column, bytes: Column) -> Result<[u32; L], Fault> {
        let (bytes, inside) = (&self.narrow[bytes as usize], usize::from(among) - 1);
        self.exchanged(v, |lane| lane & !inside | bytes[lane] as usize >> 2 & inside)
    }

    /// A division by zero, or one whose quotient is no number of its type, may do anything.
    pub fn divides32(&self, signed: bool, [a, b]: [Column; 2]) -> Result<(), Fault> {
        let (a, b) = (&self.narrow[a as usize], &self.narrow[b as usize]);
        let bad = |lane: usize| b[lane] == 0 || (signed && b[lane] == u32::MAX && a[lane] == 1 << 31);
        match lanes(self.mask()).find(|&lane| bad(lane)) {
            Some(lane) => wrong(format!("lane {lane} divides {:#x} by {:#x}", a[lane], b[lane])),
            None => Ok(()),
        }
    }
    pub fn divides64(&self, signed: bool, [a, b]: [Column; 2]) -> Result<(), Fault> {
        let (a, b) = (&self.wide[a as usize], &self.wide[b as usize]);
        let bad = |lane: usize| b[lane] == 0 || (signed && b[lane] == u64::MAX && a[lane] == 1 << 63);
        match lanes(self.mask()).find(|&lane| bad(lane)) {
            Some(lane) => wrong(format!("lane {lane} divides {:#x} by {:#x}", a[lane], b[lane])),
            None => Ok(()),
        }
    }
    pub fn amount(&self, below: u8, amount: Column) -> Result<(), Fault> {
        let amount = &self.narrow[amount as usize];
        match lanes(self.mask()).find(|&lane| amount[lane] >= u32::from(below)) {
            Some(lane) => wrong(format!("lane {lane} shifts {below} bits by {}", amount[lane])),
            None => Ok(()),
        }
    }

    /// d[16, 16] = a[16, k] * b[k, 16] + c[16, 16]
    ///
    /// A lane has elements of row lane % 16 of a, of column lane % 16 of b, and of column lane % 16
    /// of c and d. The order in which a device adds is unspecified; here products are added in the
    /// order of k, each sum rounded.
    pub fn multiply_wave(&mut self, unit: Unit, lists: [u32; 4], program: &Program) -> Result<(), Fault> {
        let of_unit = if matches!(unit, Unit::Mfma(_) | Unit::MfmaF32) { 64 } else { 32 };
        if L != of_unit {
            return wrong(format!("a matrix instruction for waves of {of_unit} in one of {L}"));
        }
        if self.mask() != full(L) {
            return wrong(format!("a matrix instruction of a part of a wave ({:x})", self.mask()));
        }
        let [d, a, b, c] = lists.map(|list| &program.lists[list as usize]);
        let mut x = [[None::<f32>; 16]; 16];
        let mut y = [[None::<f32>; 16]; 16];
        let mut sums = [[0.0f32; 16]; 16];
        for lane in 0..L {
            for (factors, columns, word) in [(&mut x, a, "left"), (&mut y, b, "right")] {
                for (e, &column) in columns.iter().enumerate() {
                    let value = factor(unit, self.narrow[column as usize][lane]);
                    let place = &mut factors[lane % 16][term(unit, lane, e)];
                    if place.is_some_and(|other| other.to_bits() != value.to_bits()) {
                        return wrong(format!(
                            "halves of a wave disagree in the {word} factor (lane {lane})"
                        ));
                    }
                    *place = Some(value);
                }
            }
            for (e, &column) in c.iter().enumerate() {
                sums[row_of_sum(unit, lane, e)][lane % 16] =
                    f32::from_bits(self.narrow[column as usize][lane]);
            }
        }
        for (row, sums) in x.iter().zip(&mut sums) {
            for (column, sum) in y.iter().zip(sums) {
                for (v, w) in row.iter().zip(column) {
                    if let (Some(v), Some(w)) = (v, w) {
                        // The product of two such operands is exact.
                        *sum += v * w;
                    }
                }
            }
        }
        for lane in 0..L {
            for (e, &column) in d.iter().enumerate() {
                let v = sums[row_of_sum(unit, lane, e)][lane % 16];
                self.narrow[column as usize][lane] = if v.is_nan() { 0x7fff_ffff } else { v.to_bits() };
            }
        }
        Ok(())
    }
}

fn factor(unit: Unit, bits: u32) -> f32 {
    match unit {
        Unit::MfmaF32 => f32::from_bits(bits),
        Unit::Mfma(f) | Unit::Wmma(f) | Unit::WmmaHalves(f) => {
            debug_assert!(f != Factor::Tf32, "no unit multiplies these");
            number(f, bits)
        }
    }
}
/// The term of an element of a factor.
fn term(unit: Unit, lane: usize, e: usize) -> usize {
    match unit {
        Unit::Mfma(_) => lane / 16 * 4 + e,
        Unit::MfmaF32 => lane / 16,
        Unit::Wmma(_) => e,
        Unit::WmmaHalves(_) => lane / 16 * 8 + e,
    }
}
/// The row of an element of c and d.
fn row_of_sum(unit: Unit, lane: usize, e: usize) -> usize {
    match unit {
        Unit::Mfma(_) | Unit::MfmaF32 => lane / 16 * 4 + e,
        Unit::Wmma(_) => 2 * e + lane / 16,
        Unit::WmmaHalves(_) => lane / 16 * 8 + e,
    }
}
