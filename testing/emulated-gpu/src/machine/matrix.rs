//! Warp-level matrix products and operand loads, with the lane layouts of "PTX ISA", 9.7.15
//! (mma.m16n8k16, ldmatrix) and 9.7.9.25 (cp.async).

use super::access::{lanes, word};
use super::shared::Touch;
use super::{Fault, FaultKind, Group, LANES, Warp, full};
use crate::inst::{Column, Factor};
use half::{bf16, f16};
use std::collections::VecDeque;

/// A copy that was issued: destination, bytes, issuing lane.
#[derive(Clone, Debug)]
struct Copy {
    to: usize,
    bytes: Vec<u8>,
    thread: u16,
}

/// Copies that were issued and not waited for.
#[derive(Clone, Debug, Default)]
pub struct Copies {
    open: Vec<Copy>,
    groups: VecDeque<Vec<Copy>>,
}

pub fn number(factor: Factor, bits: u32) -> f32 {
    match factor {
        Factor::F16 => f16::from_bits(bits as u16).to_f32(),
        Factor::BF16 => bf16::from_bits(bits as u16).to_f32(),
        // A device ignores the bits below.
        Factor::Tf32 => f32::from_bits(bits & 0xffff_e000),
    }
}

/// Rounded to ten fraction bits, ties away from zero.
pub fn tf32(bits: u32) -> u32 {
    if f32::from_bits(bits).is_nan() { 0x7fff_ffff } else { bits.wrapping_add(0x1000) & 0xffff_e000 }
}

/// Rounded to the nearest 16-bit float.
pub fn narrowed(factor: Factor, bits: u32) -> u32 {
    let x = f32::from_bits(bits);
    match factor {
        _ if x.is_nan() => 0x7fff,
        Factor::F16 => u32::from(f16::from_f32(x).to_bits()),
        Factor::BF16 => u32::from(bf16::from_f32(x).to_bits()),
        Factor::Tf32 => unreachable!("not of 16 bits"),
    }
}

impl<const L: usize> Warp<L> {
    /// d[16, 8] = a[16, 16] * b[16, 8] + c[16, 8]; for 32-bit operands, k is 8 instead of 16
    ///
    /// With g = lane / 4 and t = lane % 4, a lane holds: of a, two neighbours each of
    /// (row g, column 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8); of b, two neighbours along k
    /// each of (row 2t, column g), (2t + 8, g); of c and d, (row g, column 2t), (g, 2t + 1),
    /// (g + 8, 2t), (g + 8, 2t + 1). Of 32-bit operands one each: of a (g, t), (g + 8, t),
    /// (g, t + 4), (g + 8, t + 4), of b (t, g), (t + 4, g). The order in which a device adds is
    /// unspecified; here products are added in the order of k, each sum rounded.
    pub fn mma(
        &mut self,
        factor: Factor,
        d: [Column; 4],
        a: [Column; 4],
        b: [Column; 2],
        c: [Column; 4],
    ) -> Result<(), Fault> {
        self.whole("a product of matrices")?;
        let mut x = [[0.0f32; 16]; 16];
        let mut y = [[0.0f32; 8]; 16];
        let mut sums = [[0.0f32; 8]; 16];
        for lane in 0..LANES {
            let (g, t) = (lane / 4, lane % 4);
            for (i, &column) in a.iter().enumerate() {
                let both = self.narrow[column as usize][lane];
                let row = g + 8 * (i % 2);
                if factor == Factor::Tf32 {
                    x[row][t + 4 * (i / 2)] = number(factor, both);
                    continue;
                }
                let from = 2 * t + 8 * (i / 2);
                (x[row][from], x[row][from + 1]) = (number(factor, both), number(factor, both >> 16));
            }
            for (i, &column) in b.iter().enumerate() {
                let both = self.narrow[column as usize][lane];
                if factor == Factor::Tf32 {
                    y[t + 4 * i][g] = number(factor, both);
                    continue;
                }
                let from = 2 * t + 8 * i;
                (y[from][g], y[from + 1][g]) = (number(factor, both), number(factor, both >> 16));
            }
            for (i, &column) in c.iter().enumerate() {
                sums[g + 8 * (i / 2)][2 * t + i % 2] = f32::from_bits(self.narrow[column as usize][lane]);
            }
        }
        let terms = if factor == Factor::Tf32 { 8 } else { 16 };
        for (row, sums) in x.iter().zip(&mut sums) {
            for (k, &v) in row[..terms].iter().enumerate() {
                for (sum, &w) in sums.iter_mut().zip(&y[k]) {
                    // The product of two such operands is exact.
                    *sum += v * w;
                }
            }
        }
        for lane in 0..LANES {
            let (g, t) = (lane / 4, lane % 4);
            for (i, &column) in d.iter().enumerate() {
                let v = sums[g + 8 * (i / 2)][2 * t + i % 2];
                self.narrow[column as usize][lane] = if v.is_nan() { 0x7fff_ffff } else { v.to_bits() };
            }
        }
        Ok(())
    }

    /// d = a * b + c of f64: 16 x 8 x 8, or 8 x 8 x 4, with half as many registers of c and d, and
    /// one each of a and b
    ///
    /// Register i of a is (row g + 8 (i % 2), column t + 4 (i / 2)), of b (t + 4 i, g), of c and d
    /// (g + 8 (i / 2), 2t + i % 2). A sum is the chain of fma over k, which begins with c. An H100
    /// gives the same bits with either shape (checked on 262,144 and 524,288 sums, for each of six
    /// kinds of operands: of equal magnitude, of all magnitudes, with subnormal products, specials,
    /// overflow, zeros of both signs). both signs).
    pub fn mma_double(
        &mut self,
        d: &[Column],
        a: &[Column],
        b: &[Column],
        c: &[Column],
    ) -> Result<(), Fault> {
        self.whole("a product of matrices")?;
        let mut x = [[0.0f64; 8]; 16];
        let mut y = [[0.0f64; 8]; 8];
        let mut sums = [[0.0f64; 8]; 16];
        for lane in 0..LANES {
            let (g, t) = (lane / 4, lane % 4);
            let number = |column: Column| f64::from_bits(self.wide[column as usize][lane]);
            for (i, &column) in a.iter().enumerate() {
                x[g + 8 * (i % 2)][t + 4 * (i / 2)] = number(column);
            }
            for (i, &column) in b.iter().enumerate() {
                y[t + 4 * i][g] = number(column);
            }
            for (i, &column) in c.iter().enumerate() {
                sums[g + 8 * (i / 2)][2 * t + i % 2] = number(column);
            }
        }
        let terms = 4 * b.len();
        for (row, sums) in x.iter().zip(&mut sums) {
            let mut all: Vec<usize> = (0..terms).collect();
            if self.backwards {
                all.reverse();
            }
            for k in all {
                for (sum, &w) in sums.iter_mut().zip(&y[k]) {
                    *sum = row[k].mul_add(w, *sum);
                }
            }
        }
        for lane in 0..LANES {
            let (g, t) = (lane / 4, lane % 4);
            for (i, &column) in d.iter().enumerate() {
                let v = sums[g + 8 * (i / 2)][2 * t + i % 2];
                self.wide[column as usize][lane] =
                    if v.is_nan() { 0x7fff_ffff_ffff_ffff } else { v.to_bits() };
            }
        }
        Ok(())
    }

    /// 8 x 8 matrices of 16-bit elements: lanes 8 i to 8 i + 7 hold the row addresses of the i-th,
    /// and lane l gets two neighbours of row l / 4 from column 2 (l % 4) on; transposed, of column
    /// l / 4 from row 2 (l % 4) on.
    pub fn load_matrix(
        &mut self,
        transposed: bool,
        count: u8,
        to: [Column; 4],
        address: Column,
        offset: u32,
        group: &mut Group<'_>,
    ) -> Result<(), Fault> {
        self.whole("a load of matrices")?;
        let rows = self.narrow[address as usize].map(|a| a.wrapping_add(offset));
        for (i, &column) in to.iter().enumerate().take(usize::from(count)) {
            let mut m = [[0u32; 8]; 8];
            for (r, row) in m.iter_mut().enumerate() {
                let at = rows[8 * i + r];
                if !at.is_multiple_of(16) {
                    let why = format!("a row of a matrix at byte {at} of shared memory, no multiple of 16");
                    return Err(Fault::new(FaultKind::Misaligned, why));
                }
                for (c, v) in row.iter_mut().enumerate() {
                    // The reading thread is the lane that gets the element.
                    let lane = if transposed { c * 4 + r / 2 } else { r * 4 + c / 2 };
                    let thread = self.first + lane as u16;
                    let place = group.shared.touch(at + 2 * c as u32, 2, thread, Touch::Read)?;
                    *v = group.shared.get(place, 2) as u32;
                }
            }
            for lane in 0..LANES {
                let (g, t) = (lane / 4, lane % 4 * 2);
                let (low, high) = if transposed { (m[t][g], m[t + 1][g]) } else { (m[g][t], m[g][t + 1]) };
                self.narrow[column as usize][lane] = low | high << 16;
            }
        }
        Ok(())
    }

    fn whole(&self, what: &str) -> Result<(), Fault> {
        if self.mask() == full(L) {
            return Ok(());
        }
        Err(Fault::new(
            FaultKind::Illegal,
            format!("{what} that a part of the lanes reaches ({:08x})", self.mask()),
        ))
    }

    /// Issues copies from global to shared memory. The source is read now; the destination is
    /// undefined until the copy is waited for.
    pub fn copy_async(
        &mut self,
        [to, from]: [Column; 2],
        [to_offset, from_offset]: [u32; 2],
        bytes: u8,
        read: Column,
        group: &mut Group<'_>,
    ) -> Result<(), Fault> {
        for lane in lanes(self.mask()) {
            let from = self.wide[from as usize][lane].wrapping_add(u64::from(from_offset));
            let to = self.narrow[to as usize][lane].wrapping_add(to_offset);
            if !from.is_multiple_of(u64::from(bytes)) || !to.is_multiple_of(u32::from(bytes)) {
                let why = format!("a copy of {bytes} bytes from {from:#x} to byte {to} of shared memory");
                return Err(Fault::new(FaultKind::Misaligned, why));
            }
            let thread = self.first + lane as u16;
            let read = self.narrow[read as usize][lane];
            if read > u32::from(bytes) || !read.is_multiple_of(4) {
                let why = format!("a copy of {bytes} bytes of which {read} are read");
                return Err(Fault::new(FaultKind::Illegal, why));
            }
            let mut all = Vec::with_capacity(usize::from(bytes));
            for i in 0..u32::from(bytes) / 4 {
                group.shared.touch(to + 4 * i, 4, thread, Touch::Begin)?;
                let word = if 4 * i < read { word(group.memory, from + u64::from(4 * i))? } else { 0 };
                all.extend(word.to_le_bytes());
            }
            self.copies.open.push(Copy { to: to as usize, bytes: all, thread });
        }
        Ok(())
    }
    pub fn commit_copies(&mut self) -> Result<(), Fault> {
        self.together("the end of a group of copies")?;
        let open = std::mem::take(&mut self.copies.open);
        self.copies.groups.push_back(open);
        Ok(())
    }
    pub fn wait_copies(&mut self, open: u32, group: &mut Group<'_>) -> Result<(), Fault> {
        self.together("a wait for copies")?;
        while self.copies.groups.len() > open as usize {
            for copy in self.copies.groups.pop_front().unwrap_or_default() {
                group.shared.arrived(copy.to, &copy.bytes, copy.thread);
            }
        }
        Ok(())
    }
}
