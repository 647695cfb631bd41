//! Which bytes were touched since the last barrier: what decides whether there is another.
//!
//! Pieces of one memory may be cut anew, larger or smaller, as soon as they are dropped, so it is
//! ranges that are compared, and not places. How it can be wrong: a range that overlaps and is not
//! found is a race on the device; a test compares with one flag for each byte.

use std::collections::BTreeMap;

/// Some bytes of a memory, by its number, and are they written?
#[derive(Clone, Copy, Debug)]
pub struct Touch {
    pub memory: u64,
    pub offset: u64,
    pub len: u64,
    pub writes: bool,
}

/// What was touched.
#[derive(Debug, Default)]
pub struct Touched {
    /// By memory and first byte: the end of the longest range that begins there, and was any of
    /// them written?
    ranges: BTreeMap<(u64, u64), (u64, bool)>,
    /// Bytes of the longest range.
    longest: u64,
}

impl Touched {
    /// Does it touch what was written, or write what was touched?
    pub fn clashes(&self, t: &Touch) -> bool {
        // A range that begins before this reaches into no later one.
        let first = (t.offset + 1).saturating_sub(self.longest);
        let mut near = self.ranges.range((t.memory, first)..(t.memory, t.offset + t.len));
        near.any(|(_, &(end, written))| end > t.offset && (written || t.writes))
    }
    pub fn add(&mut self, t: &Touch) {
        let (end, written) = self.ranges.entry((t.memory, t.offset)).or_insert((0, false));
        *end = (*end).max(t.offset + t.len);
        *written |= t.writes;
        self.longest = self.longest.max(t.len);
    }
    #[cfg(not(target_arch = "wasm32"))]
    pub fn clear(&mut self) {
        self.ranges.clear();
        self.longest = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_overlap_is_found() {
        const BYTES: u64 = 64;
        let mut seed = 1u64;
        let mut next = |below: u64| {
            // Numbers of a linear congruential generator (Knuth, MMIX): their upper bits.
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let (mut touched, mut barriers) = (Touched::default(), 0);
        // Of each byte of two memories: was it read, and written?
        let mut flags = [[[false; 2]; BYTES as usize]; 2];
        for _ in 0..20_000 {
            let offset = next(BYTES);
            let most = (BYTES - offset).min(1 + next(BYTES));
            let len = 1 + next(most);
            let t = Touch { memory: next(2), offset, len, writes: next(4) == 0 };
            let bytes = t.offset as usize..(t.offset + t.len) as usize;
            let mut here = flags[t.memory as usize][bytes.clone()].iter();
            let must = here.any(|[read, written]| *written || (t.writes && *read));
            // A range that begins where another does counts as written if that was: a barrier too
            // many is no fault, but there are few.
            if must {
                assert!(touched.clashes(&t), "{t:?}");
            }
            if touched.clashes(&t) {
                barriers += u32::from(!must);
                touched.clear();
                flags = [[[false; 2]; BYTES as usize]; 2];
            }
            touched.add(&t);
            for [read, written] in &mut flags[t.memory as usize][bytes] {
                *read = true;
                *written |= t.writes;
            }
        }
        assert!(barriers < 1_000, "{barriers} barriers that were not needed");
    }
}
