//! A counter-based random number generator: Philox4x32-10.
//!
//! Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011. The counter
//! is the element's index, the key is the seed, so any element can be computed alone and on any
//! device.

use crate::Result;
use crate::host::with_capacity;

/// Four random words for a 128-bit counter under a 64-bit key. Branch-free and always inlined, so
/// that a loop over counters is vectorised.
#[inline(always)]
pub fn philox4x32(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    /// Multipliers and Weyl steps of the paper's section 3.3.
    const M: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
    const W: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
    let (mut c, mut k) = (counter, key);
    for _ in 0..10 {
        let p0 = u64::from(M[0]) * u64::from(c[0]);
        let p1 = u64::from(M[1]) * u64::from(c[2]);
        c = [(p1 >> 32) as u32 ^ c[1] ^ k[0], p1 as u32, (p0 >> 32) as u32 ^ c[3] ^ k[1], p0 as u32];
        k = [k[0].wrapping_add(W[0]), k[1].wrapping_add(W[1])];
    }
    c
}

/// The stream of random words of a seed and a stream number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream {
    /// The user's seed.
    pub seed: u64,
    /// Which of the seed's streams: one per random tensor.
    pub stream: u64,
}

impl Stream {
    /// As four words in memory: the low and high halves of the seed, then of the number.
    pub fn to_words(self) -> [i32; 4] {
        [self.seed, self.seed >> 32, self.stream, self.stream >> 32].map(|half| half as i32)
    }
    /// The stream of such words.
    pub fn from_words(words: [i32; 4]) -> Self {
        let [a, b, c, d] = words.map(|word| u64::from(word as u32));
        Stream { seed: a | b << 32, stream: c | d << 32 }
    }
    /// Word `i` of the stream. Words `4 j .. 4 j + 4` are one call of Philox with counter
    /// `(j, stream)`.
    #[inline]
    pub fn word(self, i: u64) -> u32 {
        self.block(i / 4)[(i % 4) as usize]
    }
    /// The four words of block `j`.
    #[inline]
    pub fn block(self, j: u64) -> [u32; 4] {
        let counter = [j as u32, (j >> 32) as u32, self.stream as u32, (self.stream >> 32) as u32];
        philox4x32(counter, [self.seed as u32, (self.seed >> 32) as u32])
    }
    /// Words `2 i` and `2 i + 1` as one 64-bit number.
    #[inline]
    pub fn word64(self, i: u64) -> u64 {
        let b = self.block(i / 2);
        let at = (i % 2) as usize * 2;
        u64::from(b[at]) | u64::from(b[at + 1]) << 32
    }
}

/// A uniform number in 0..1 from 24 random bits: k / 2^24, exact in f32.
#[inline]
pub fn unit_f32(word: u32) -> f32 {
    (word >> 8) as f32 * (1.0 / 16_777_216.0)
}

/// A uniform number in 0..1 from 53 random bits: k / 2^53, exact in f64.
#[inline]
pub fn unit_f64(word: u64) -> f64 {
    (word >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
}

/// A permutation of `0..n`, the same on every machine: a Fisher-Yates shuffle, from the last
/// element down.
///
/// # Errors
/// `OutOfMemory` if the allocation is refused.
pub fn permutation(n: usize, stream: Stream) -> Result<Vec<usize>> {
    let mut p = with_capacity(n)?;
    p.extend(0..n);
    for i in (1..n).rev() {
        // Lemire's multiplication maps 64 bits to 0..=i; its bias is below 2^-64 * n.
        let j = ((u128::from(stream.word64(i as u64)) * (i as u128 + 1)) >> 64) as usize;
        p.swap(i, j);
    }
    Ok(p)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers_of_the_paper() {
        // From kat_vectors of Random123, the authors' library.
        let all = u32::MAX;
        assert_eq!(philox4x32([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox4x32([all; 4], [all; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            philox4x32([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn a_stream_is_four_words() {
        let s = Stream { seed: 0x8123_4567_f9ab_cdef, stream: 0xffff_ffff_0000_0001 };
        assert_eq!(s.to_words(), [0xf9ab_cdef_u32 as i32, 0x8123_4567_u32 as i32, 1, -1]);
        assert_eq!(Stream::from_words(s.to_words()), s);
    }

    #[test]
    fn a_permutation_has_every_number_once() {
        let mut p = permutation(1000, Stream { seed: 7, stream: 3 }).unwrap();
        assert_ne!(p[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        p.sort_unstable();
        assert!(p.into_iter().eq(0..1000));
    }
}
