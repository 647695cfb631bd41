//! Regions: memory that a pool takes from the device in large steps, and cuts into pieces.
//!
//! Free ranges of a region are merged with their neighbours, so that pieces of other sizes can be
//! cut from them. How it can be wrong: a range that is free twice, or in no region; a test compares
//! with a map of bytes.

use super::{Block, BlockOffset};
use crate::uses::UseList;
use elinvar_driver::Driver;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The free ranges of a region: where they begin, and how many bytes they have. No two touch.
#[derive(Debug)]
struct FreeRanges(BTreeMap<u64, u64>);

impl FreeRanges {
    /// So many bytes, all free.
    fn new(bytes: u64) -> FreeRanges {
        FreeRanges(BTreeMap::from([(0, bytes)]))
    }
    /// So many bytes of the smallest range that has them: where they begin.
    fn take(&mut self, bytes: u64) -> Option<u64> {
        let fits = self.0.iter().filter(|(_, has)| **has >= bytes);
        let (&at, &has) = fits.min_by_key(|(_, has)| **has)?;
        self.0.remove(&at);
        if has > bytes {
            self.0.insert(at + bytes, has - bytes);
        }
        Some(at)
    }
    /// So many bytes are free again.
    fn give(&mut self, at: u64, bytes: u64) {
        let after = self.0.remove(&(at + bytes)).unwrap_or(0);
        let bytes = bytes + after;
        match self.0.range_mut(..at).next_back() {
            Some((before, has)) if before + *has == at => *has += bytes,
            Some(_) | None => {
                self.0.insert(at, bytes);
            }
        }
    }
    fn is_whole(&self, bytes: u64) -> bool {
        self.0.get(&0) == Some(&bytes)
    }
}

/// One of them.
#[derive(Debug)]
struct Region<D: Driver> {
    block: Arc<Block<D>>,
    bytes: u64,
    free: FreeRanges,
    /// Is it kept as long as the pool is there?
    stays: bool,
    /// Of all that is free in it.
    uses: UseList,
}

/// All of a pool.
#[derive(Debug)]
pub(super) struct Regions<D: Driver> {
    all: Vec<Region<D>>,
    /// Bytes that are free.
    free: u64,
}

impl<D: Driver> Default for Regions<D> {
    fn default() -> Self {
        Regions { all: Vec::new(), free: 0 }
    }
}

impl<D: Driver> Regions<D> {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
    /// Bytes that are free.
    pub(super) fn free(&self) -> u64 {
        self.free
    }
    /// One more, all of it free.
    pub(super) fn add(&mut self, block: Arc<Block<D>>, bytes: u64, stays: bool, uses: UseList) {
        self.free += bytes;
        self.all.push(Region { block, bytes, free: FreeRanges::new(bytes), stays, uses });
    }
    /// So many bytes, if one of them has so many in one range: of one that is free for the caller,
    /// or else of any.
    pub(super) fn take(
        &mut self,
        bytes: u64,
        free: impl Fn(&UseList) -> bool,
    ) -> Option<(BlockOffset<D>, UseList)> {
        let mut of = |any: bool| {
            self.all.iter_mut().filter(|r| any || free(&r.uses)).find_map(|r| {
                let offset = r.free.take(bytes)?;
                Some((BlockOffset { block: r.block.clone(), offset }, r.uses.clone()))
            })
        };
        let found = of(false).or_else(|| of(true))?;
        self.free -= bytes;
        Some(found)
    }
    /// A piece is free again.
    pub(super) fn give(&mut self, block: &Arc<Block<D>>, offset: u64, bytes: u64, uses: &UseList) {
        let home = self.all.iter_mut().find(|r| Arc::ptr_eq(&r.block, block));
        let home = home.expect("a region outlives its pieces");
        home.free.give(offset, bytes);
        home.uses.join(uses);
        self.free += bytes;
    }
    /// Takes out those that are free as a whole, but for what stays. The caller drops them.
    pub(super) fn take_free(&mut self) -> Vec<Arc<Block<D>>> {
        let free = |r: &mut Region<D>| !r.stays && r.free.is_whole(r.bytes);
        let gone: Vec<Region<D>> = self.all.extract_if(.., free).collect();
        self.free -= gone.iter().map(|r| r.bytes).sum::<u64>();
        gone.into_iter().map(|r| r.block).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against one flag for each byte.
    #[test]
    fn ranges_are_free_once_and_merged() {
        const BYTES: u64 = 200;
        let mut seed = 1u64;
        let mut next = |below: u64| {
            // Numbers of a linear congruential generator (Knuth, MMIX): their upper bits.
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let mut ranges = FreeRanges::new(BYTES);
        let mut used = [false; BYTES as usize];
        let mut pieces: Vec<(u64, u64)> = Vec::new();
        for _ in 0..5_000 {
            if next(2) == 0 || pieces.is_empty() {
                let bytes = 1 + next(40);
                // The largest free run says whether there is room.
                let runs = used.split(|u| *u).map(<[bool]>::len).max().unwrap_or(0) as u64;
                match ranges.take(bytes) {
                    None => assert!(runs < bytes, "{bytes} of {runs}"),
                    Some(at) => {
                        let range = &mut used[at as usize..(at + bytes) as usize];
                        assert!(range.iter().all(|u| !u));
                        range.fill(true);
                        pieces.push((at, bytes));
                    }
                }
            } else {
                let (at, bytes) = pieces.swap_remove(next(pieces.len() as u64) as usize);
                used[at as usize..(at + bytes) as usize].fill(false);
                ranges.give(at, bytes);
            }
            let free = used.iter().filter(|u| !**u).count() as u64;
            assert_eq!(ranges.0.values().sum::<u64>(), free);
        }
        pieces.into_iter().for_each(|(at, bytes)| ranges.give(at, bytes));
        assert!(ranges.is_whole(BYTES));
    }
}
