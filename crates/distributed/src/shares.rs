//! Vectors of which each worker has a share of its own length: the parameters that it updates, say.

use crate::Group;
use crate::element::{Element, Number};
use crate::exchange::{gather_parts, sum_of};
use crate::message::{Call, HEAD, Kind, digest};
use crate::slices::slices;
use crate::tree::{Runs, TreeSum};
use elinvar_core::{DType, Error, Result};
use std::ops::Range;

/// Contiguous shares of a vector, one for each worker in their order. One may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Where each begins, and where the last one ends.
    bounds: Vec<usize>,
}

impl Shares {
    /// Of these lengths.
    #[must_use]
    pub fn of_lengths(lengths: impl IntoIterator<Item = usize>) -> Shares {
        let mut bounds = vec![0];
        for length in lengths {
            bounds.push(bounds[bounds.len() - 1] + length);
        }
        Shares { bounds }
    }
    /// Of items that have sizes and are not cut, dealt to workers in their order so that the sizes
    /// of all are about the same.
    #[must_use]
    pub fn balanced(sizes: &[usize], workers: usize) -> Shares {
        let total: u128 = sizes.iter().map(|n| *n as u128).sum();
        let mut bounds = vec![0];
        let (mut items, mut done) = (0, 0u128);
        for worker in 1..workers {
            let want = total * worker as u128 / workers as u128;
            // An item belongs to the side on which more of it is.
            while let Some(next) = sizes.get(items).map(|n| *n as u128)
                && done + next / 2 < want
            {
                (items, done) = (items + 1, done + next);
            }
            bounds.push(items);
        }
        bounds.push(sizes.len());
        Shares { bounds }
    }
    /// The number of workers.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.bounds.len() - 1
    }
    /// The share of a worker.
    #[must_use]
    pub fn of(&self, worker: usize) -> Range<usize> {
        self.bounds[worker]..self.bounds[worker + 1]
    }
    /// All of the vector.
    #[must_use]
    pub fn total(&self) -> usize {
        self.bounds[self.workers()]
    }
    /// Tells cuts of one vector apart.
    pub(crate) fn digest(&self) -> u64 {
        digest(&self.bounds)
    }
    /// The shares of what the items of these consist of: so many elements each.
    #[must_use]
    pub fn elements(&self, of_item: impl Fn(usize) -> usize) -> Shares {
        Shares::of_lengths((0..self.workers()).map(|w| self.of(w).map(&of_item).sum()))
    }
}

impl Group {
    /// This worker's share of [`Group::all_reduce_shards`].
    ///
    /// # Errors
    /// As [`Group::all_reduce_shards`]; `InvalidArgument` if there is not a share for each worker;
    /// `ShapeMismatch` if another one cuts the vector at other places.
    pub fn reduce_scatter_shares<T: Number>(
        &self,
        runs: Runs,
        sums: TreeSum<Vec<T>>,
        shares: &Shares,
    ) -> Result<Vec<T>> {
        self.one_for_each(shares)?;
        let (n, with) = (shares.total(), runs.shards() as u64);
        let mine = self.checked(runs, sums, n, Vec::len)?;
        let shape = shares.digest();
        let call = Call { kind: Kind::ReduceScatter, dtype: T::DTYPE, count: n as u64, with, shape };
        self.call(call, |all| sum_of(all, runs, &slices(&mine), |worker| shares.of(worker)))
    }
    /// The shares of all workers as one vector.
    ///
    /// # Errors
    /// `InvalidArgument` if there is not a share for each worker, or this is not this one's; as
    /// [`Group::reduce_scatter_shares`].
    pub fn all_gather_shares<T: Element>(&self, x: &[T], shares: &Shares) -> Result<Vec<T>> {
        self.one_for_each(shares)?;
        let mine = shares.of(self.rank).len();
        self.has_share(x.len(), mine)?;
        let (count, shape) = (shares.total() as u64, shares.digest());
        let call = Call { kind: Kind::AllGather, dtype: T::DTYPE, count, with: 1, shape };
        self.call(call, |all| gather_parts(all, x, |worker| shares.of(worker)))
    }
    /// The bytes of all workers, for `root` alone; each may have another number of them.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such worker; as [`Group::barrier`].
    pub fn gather_bytes(&self, bytes: Vec<u8>, root: usize) -> Result<Option<Vec<Vec<u8>>>> {
        self.is_worker("gather", root)?;
        let lengths = self.all_gather_slice(&[bytes.len() as i64])?;
        let count = lengths.iter().sum::<i64>() as u64;
        let call = Call { kind: Kind::Gather, dtype: DType::U8, count, with: root as u64, shape: 0 };
        self.call(call, |all| {
            if all.rank != root {
                return all.send(root, &[&bytes]).map(|()| None);
            }
            let mut got = Vec::with_capacity(all.size);
            for (worker, length) in lengths.iter().enumerate() {
                if worker == root {
                    got.push(bytes.clone());
                    continue;
                }
                let mut message = all.receive(worker, *length as usize)?;
                message.drain(..HEAD);
                got.push(message);
            }
            Ok(Some(got))
        })
    }
    pub(crate) fn has_share(&self, has: usize, share: usize) -> Result<()> {
        if has == share {
            return Ok(());
        }
        Err(Error::argument(format!(
            "distributed: worker {} has {has} elements; its share is {share}",
            self.rank
        )))
    }
    pub(crate) fn one_for_each(&self, shares: &Shares) -> Result<()> {
        if shares.workers() == self.size {
            return Ok(());
        }
        Err(Error::argument(format!(
            "distributed: shares of {} workers; there are {}",
            shares.workers(),
            self.size
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_dealt_by_size() {
        let rows: [(&[usize], usize, &[usize]); 6] = [
            (&[], 2, &[0, 0, 0]),
            (&[5], 1, &[0, 1]),
            (&[1, 1, 1, 1], 2, &[0, 2, 4]),
            // The second is more than half of all, and more of it is in the first half.
            (&[1, 9, 1, 1], 2, &[0, 2, 4]),
            (&[9, 1, 1, 1], 3, &[0, 0, 1, 4]),
            (&[0, 4, 4, 4], 4, &[0, 2, 2, 3, 4]),
        ];
        for (sizes, workers, bounds) in rows {
            let shares = Shares::balanced(sizes, workers);
            assert_eq!(shares.bounds, bounds, "{sizes:?}");
            let elements = shares.elements(|i| sizes[i]);
            assert_eq!(elements.total(), sizes.iter().sum(), "{sizes:?}");
            assert_eq!(elements.workers(), workers);
        }
    }
}
