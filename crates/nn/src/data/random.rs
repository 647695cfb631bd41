//! Random numbers of one sample in one epoch.

use elinvar_core::philox::{Stream, unit_f32};

/// First stream of augmentations: above those of generators, below those of epoch orders.
const AUGMENTS: u64 = 1 << 62;

/// Random numbers that are a function of seed, epoch and sample: the same on every machine,
/// independent of the number of threads and of the position where a run begins.
///
/// A sample has 2^32 numbers of its own in an epoch, for data sets of up to 2^32 samples.
#[derive(Clone, Debug)]
pub struct SampleRandom {
    stream: Stream,
    next: u64,
}

impl SampleRandom {
    /// The numbers of this sample in this epoch.
    pub fn new(seed: u64, epoch: u64, sample: usize) -> Self {
        SampleRandom { stream: Stream { seed, stream: AUGMENTS | epoch }, next: (sample as u64) << 32 }
    }
    /// 32 random bits.
    pub fn word(&mut self) -> u32 {
        let word = self.stream.word(self.next);
        self.next = self.next.wrapping_add(1);
        word
    }
    /// A number in 0..1.
    pub fn unit(&mut self) -> f32 {
        unit_f32(self.word())
    }
    /// An integer in `0..n`; 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        let word = u64::from(self.word()) | u64::from(self.word()) << 32;
        // Lemire's multiplication; its bias is below 2^-64 * n.
        ((u128::from(word) * n as u128) >> 64) as usize
    }
    /// True with this probability.
    pub fn chance(&mut self, p: f32) -> bool {
        self.unit() < p
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_from_seed_epoch_and_sample() {
        let first = |seed, epoch, sample| {
            let mut r = SampleRandom::new(seed, epoch, sample);
            [r.word(), r.word(), r.word(), r.word(), r.word()]
        };
        // Pinned: another stream would change the training data.
        assert_eq!(first(1, 2, 3), PINNED);
        for (seed, epoch, sample) in [(0, 2, 3), (1, 3, 3), (1, 2, 4)] {
            assert_ne!(first(seed, epoch, sample), PINNED, "{seed} {epoch} {sample}");
        }
        let mut r = SampleRandom::new(0, 0, 0);
        assert!((0..1000).all(|_| r.below(7) < 7 && (0.0..1.0).contains(&r.unit())));
        assert_eq!(r.below(0), 0);
        let heads = (0..10_000).filter(|_| r.chance(0.25)).count();
        // 2,500 on average; the standard deviation is 43.
        assert!((2300..2700).contains(&heads), "{heads}");
        assert!(!r.chance(0.0) && r.chance(1.0));
    }
    const PINNED: [u32; 5] = [2724043312, 3021314245, 1332816511, 3759741338, 1349651735];
}
