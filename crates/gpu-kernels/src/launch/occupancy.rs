//! Occupancy: how many workgroups fill a device, from its number of compute units.
//!
//! Tiles and split-K are chosen by it. It changes how fast a kernel is, and no bit of a result: no
//! order of a sum may depend on it.
//!
//! How it can be wrong: a device that tells a wrong number gets tiles that are too large (idle
//! units) or too small (more loads for each product). One that tells none is taken for the device
//! that the other thresholds were measured on.

/// The number of compute units of a device: streaming multiprocessors of NVIDIA's, compute units of
/// AMD's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ComputeUnits(pub u32);

impl Default for ComputeUnits {
    /// Those of an H100, on which the thresholds were measured.
    fn default() -> Self {
        ComputeUnits(132)
    }
}

impl ComputeUnits {
    /// How many workgroups (or subgroups) fill the device with `per_unit` of them on each compute
    /// unit.
    ///
    /// Rounded down to a power of two, as the numbers of tiles of most problems are powers of two:
    /// 128 tiles fill 132 units.
    pub fn filled_by(self, per_unit: u32) -> usize {
        let all = u64::from(self.0.max(1)) * u64::from(per_unit);
        1 << all.ilog2()
    }
    /// How many workgroups, of which a compute unit holds one, are as good as a full wave: a tile
    /// is not made smaller for the sake of one idle unit in eleven, because smaller tiles load more
    /// for each product.
    pub fn full_wave(self) -> usize {
        (self.0 - self.0 / 11).max(1) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the thresholds were when they were constants, measured on 132 units; and on other
    /// devices they follow.
    #[test]
    fn thresholds_follow_the_device() {
        let h100 = ComputeUnits::default();
        assert_eq!([1, 2, 4, 8].map(|n| h100.filled_by(n)), [128, 256, 512, 1024]);
        assert_eq!(h100.full_wave(), 120);
        for (units, one, wave) in
            [(0, 1, 1), (1, 1, 1), (20, 16, 19), (68, 64, 62), (108, 64, 99), (148, 128, 135)]
        {
            assert_eq!(ComputeUnits(units).filled_by(1), one, "{units}");
            assert_eq!(ComputeUnits(units).full_wave(), wave, "{units}");
        }
    }
}
