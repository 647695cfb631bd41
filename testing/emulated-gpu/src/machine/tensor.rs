//! Tensor maps: the TMA unit's description of a tensor. NVIDIA does not document the layout of its
//! 128 bytes; this one is the emulator's own.

use super::{Fault, FaultKind};

/// Bytes of a map.
pub const BYTES: usize = 128;
/// Maximum rank; higher ranks are not emulated.
pub const RANK: usize = 3;
/// Magic number at the start of a map.
const MARK: u64 = 0x7465_6e73_6f72_6d61;
/// Bytes of a line of a tile: those of the one swizzle that is emulated.
pub const LINE: usize = 128;

/// A tensor and the tiles that are copied from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// Address of its first element.
    pub address: u64,
    /// Bytes of an element.
    pub element: u64,
    /// Are f32 elements rounded to TF32 by the copy?
    pub rounds: bool,
    /// Elements along each axis, the innermost first.
    pub sizes: [u64; RANK],
    /// Bytes between neighbours along the other axes.
    pub strides: [u64; RANK - 1],
    /// Elements of a tile along each axis.
    pub shape: [u64; RANK],
}

impl TensorMap {
    /// The map, if the driver's manual allows it.
    ///
    /// # Errors
    /// A sentence on what is wrong with it.
    pub fn check(self) -> Result<TensorMap, String> {
        let Self { address, element, sizes, strides, shape, .. } = self;
        if !address.is_multiple_of(16) {
            return Err(format!("a tensor at address {address:#x}, no multiple of 16"));
        }
        if sizes.iter().any(|&n| n == 0 || n > 1 << 32) {
            return Err(format!("a tensor of {sizes:?}"));
        }
        if strides.iter().any(|&s| !s.is_multiple_of(16) || s >= 1 << 40) {
            return Err(format!("strides of {strides:?} bytes, which are multiples of 16 below 2^40"));
        }
        if shape.iter().any(|&n| n == 0 || n > 256) || shape[0] * element != LINE as u64 {
            return Err(format!(
                "boxes of {shape:?} elements of {element} bytes, whose lines have {LINE} bytes"
            ));
        }
        Ok(self)
    }
    /// Bytes of a tile.
    pub fn box_bytes(&self) -> usize {
        (self.shape.iter().product::<u64>() * self.element) as usize
    }
    fn words(&self) -> [u64; 12] {
        let ([a, b, c], [d, e], [f, g, h]) = (self.sizes, self.strides, self.shape);
        [MARK, self.address, self.element, u64::from(self.rounds), a, b, c, d, e, f, g, h]
    }
    /// Its representation in memory.
    pub fn bytes(&self) -> [u8; BYTES] {
        let mut all = [0; BYTES];
        for (to, word) in all.chunks_mut(8).zip(self.words()) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        all
    }
    /// Decodes it from memory.
    pub fn of(bytes: &[u8]) -> Result<TensorMap, Fault> {
        let words: Vec<u64> =
            bytes.chunks_exact(8).map(|c| c.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b))).collect();
        match words[..] {
            [MARK, address, element, rounds, a, b, c, d, e, f, g, h, ..] => Ok(TensorMap {
                address,
                element,
                rounds: rounds != 0,
                sizes: [a, b, c],
                strides: [d, e],
                shape: [f, g, h],
            }),
            _ => Err(Fault::new(FaultKind::Illegal, "what is no tensor map is used as one")),
        }
    }
    /// The address of the elements from an index on, and how many of a line of a tile are in
    /// bounds; the others are zeros.
    pub fn line(&self, [i, line, plane]: [i64; RANK]) -> Line {
        let inside = |i: i64, n: u64| i >= 0 && (i as u64) < n;
        if !inside(line, self.sizes[1]) || !inside(plane, self.sizes[2]) {
            return Line { address: self.address, before: 0, there: 0 };
        }
        let (first, end) = (i.max(0), (i + self.shape[0] as i64).min(self.sizes[0] as i64));
        let at = self.address + line as u64 * self.strides[0] + plane as u64 * self.strides[1];
        Line {
            address: at + first as u64 * self.element,
            before: ((first - i) as u64 * self.element) as usize,
            there: ((end - first).max(0) as u64 * self.element) as usize,
        }
    }
}

/// A line of a tile: zeros, bytes from an address on, zeros.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// The address of the first byte that is there.
    pub address: u64,
    /// Zeros before it.
    pub before: usize,
    /// How many bytes are there.
    pub there: usize,
}

/// The swizzled address of bytes of a tile: pieces of 16 bytes are permuted inside of a line, by
/// the number of the line (modulo 8).
pub fn swizzled(address: u32) -> u32 {
    address ^ (address >> 7 & 7) << 4
}
