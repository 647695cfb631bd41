//! What workers do together with numbers in host memory.

use crate::Group;
use crate::element::{Element, Number, elements};
use crate::exchange::{Terms, gather_parts, sum_for_all, sum_of};
use crate::message::{Call, HEAD, Kind};
use crate::tree::{Node, Runs, TreeSum, part};
use elinvar_core::host::filled;
use elinvar_core::{DType, Error, Result};
use sha2::{Digest, Sha256};
use std::ops::Range;

/// Bytes of a sum up to which each worker sends all that it has to each other one, in one round.
/// More goes in two rounds, of which each sends a part: fewer bytes, but twice the latency. So
/// many take a network of 10 Gbit/s about as long as a round trip.
pub(crate) const ONE_ROUND: usize = 32 << 10;

/// Sums of subtrees as they are sent.
pub(crate) fn slices<T>(sums: &[(Node, Vec<T>)]) -> Vec<(Node, &[T])> {
    sums.iter().map(|(node, x)| (*node, &x[..])).collect()
}

impl Group {
    /// Waits until all workers have come here.
    ///
    /// # Errors
    /// `Io` if a worker is gone or does not come in time; `InvalidArgument` if one makes another
    /// call.
    pub fn barrier(&self) -> Result<()> {
        self.call(Call { kind: Kind::Barrier, dtype: DType::U8, count: 0, with: 0, shape: 0 }, |all| {
            all.exchange(|_| Vec::new(), |_| 0).map(drop)
        })
    }
    /// Is something the same for all: data, a model, settings? Sends a digest of it.
    ///
    /// # Errors
    /// `InvalidArgument`, on every worker, with `what` and the workers that have another one;
    /// otherwise as [`Group::barrier`].
    pub fn agree(&self, what: &str, value: &[u8]) -> Result<()> {
        let mut digest = Sha256::new();
        digest.update((what.len() as u64).to_le_bytes());
        digest.update(what);
        digest.update(value);
        let mine: [u8; 32] = digest.finalize().into();
        let call = Call { kind: Kind::Agree, dtype: DType::U8, count: 32, with: 0, shape: 0 };
        let rank = self.rank;
        self.call(call, |all| {
            let got = all.exchange(|_| vec![&mine], |_| mine.len())?;
            let of = |worker: usize| if worker == rank { &mine[..] } else { got.of(worker) };
            match (1..all.size).find(|w| of(*w) != of(0)) {
                None => Ok(()),
                Some(w) => Err(Error::argument(format!(
                    "distributed: worker {w} has another {what} than worker 0; it must be the same for all"
                ))),
            }
        })
    }
    /// The elements of `root`, for all.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such worker; as [`Group::barrier`].
    pub fn broadcast_slice<T: Element>(&self, x: &mut [T], root: usize) -> Result<()> {
        self.bytes_of_root(T::DTYPE, x.len(), 0, bytemuck::cast_slice_mut(x), root)
    }
    /// The bytes of `root`, for all, which need not know how many they are.
    ///
    /// # Errors
    /// As [`Group::broadcast_slice`]; `OutOfMemory`.
    pub fn broadcast_bytes(&self, bytes: Vec<u8>, root: usize) -> Result<Vec<u8>> {
        let mut count = [bytes.len() as i64];
        self.broadcast_slice(&mut count, root)?;
        let mut all = bytes;
        if self.rank != root {
            all = filled(usize::try_from(count[0]).unwrap_or(usize::MAX), 0)?;
        }
        self.broadcast_slice(&mut all, root)?;
        Ok(all)
    }
    pub(crate) fn bytes_of_root(
        &self,
        dtype: DType,
        count: usize,
        shape: u64,
        bytes: &mut [u8],
        root: usize,
    ) -> Result<()> {
        self.is_worker("broadcast", root)?;
        let call = Call { kind: Kind::Broadcast, dtype, count: count as u64, with: root as u64, shape };
        let rank = self.rank;
        self.call(call, |all| {
            // Workers as seen from the root: the k-th is given by the one without k's highest bit.
            let (me, size) = ((rank + all.size - root) % all.size, all.size);
            let real = |k: usize| (k + root) % size;
            let mut bit = 1;
            if me != 0 {
                bit = 1 << me.ilog2();
                let message = all.receive(real(me - bit), bytes.len())?;
                bytes.copy_from_slice(&message[HEAD..]);
                bit *= 2;
            }
            while me + bit < size {
                all.send(real(me + bit), &[bytes])?;
                bit *= 2;
            }
            Ok(())
        })
    }
    pub(crate) fn is_worker(&self, call: &str, root: usize) -> Result<()> {
        if root < self.size {
            return Ok(());
        }
        Err(Error::argument(format!(
            "distributed: {call} of worker {root}; the last of {} is {}",
            self.size,
            self.size - 1
        )))
    }
    /// The elements of all workers, one after the other; each has as many.
    ///
    /// # Errors
    /// As [`Group::barrier`]; also if workers have different numbers of elements.
    pub fn all_gather_slice<T: Element>(&self, x: &[T]) -> Result<Vec<T>> {
        self.gathered(T::DTYPE, x.len(), 0, bytemuck::cast_slice(x))
            .map(|bytes| elements(&bytes).into_owned())
    }
    pub(crate) fn gathered(&self, dtype: DType, count: usize, shape: u64, bytes: &[u8]) -> Result<Vec<u8>> {
        let call = Call { kind: Kind::AllGather, dtype, count: count as u64, with: 0, shape };
        let rank = self.rank;
        self.call(call, |all| {
            let got = all.exchange(|_| vec![bytes], |_| bytes.len())?;
            let mut y = Vec::with_capacity(bytes.len() * all.size);
            for worker in 0..all.size {
                y.extend_from_slice(if worker == rank { bytes } else { got.of(worker) });
            }
            Ok(y)
        })
    }
    /// The sum over all workers, for all: their balanced tree, neighbours first.
    ///
    /// # Errors
    /// As [`Group::all_gather_slice`].
    pub fn all_reduce_slice<T: Number>(&self, x: &[T]) -> Result<Vec<T>> {
        self.sum(Runs::one_each(self.size), &self.own(x), x.len(), 0)
    }
    /// This worker's part, [`Group::part`], of the sum over all workers.
    ///
    /// # Errors
    /// As [`Group::all_gather_slice`].
    pub fn reduce_scatter_slice<T: Number>(&self, x: &[T]) -> Result<Vec<T>> {
        self.sum_part(Runs::one_each(self.size), &self.own(x), [x.len(), 1], 0)
    }
    /// What a worker has where each has one shard.
    pub(crate) fn own<X>(&self, x: X) -> Vec<(Node, X)> {
        vec![(Node { level: 0, index: self.rank }, x)]
    }
    /// The sum over all shards, for all: their balanced tree, neighbours first, whatever
    /// worker has them.
    /// `sums` are those of this worker's run ([`Runs::of`]), of `n` elements each.
    ///
    /// # Errors
    /// `InvalidArgument` if the run is not this worker's; as [`Group::all_gather_slice`].
    pub fn all_reduce_shards<T: Number>(
        &self,
        runs: Runs,
        sums: TreeSum<Vec<T>>,
        n: usize,
    ) -> Result<Vec<T>> {
        self.sum(runs, &slices(&self.checked(runs, sums, n, Vec::len)?), n, 0)
    }
    /// This worker's part, [`Group::part`], of [`Group::all_reduce_shards`]: for optimisers of
    /// which each worker has a part.
    ///
    /// # Errors
    /// As [`Group::all_reduce_shards`].
    pub fn reduce_scatter_shards<T: Number>(
        &self,
        runs: Runs,
        sums: TreeSum<Vec<T>>,
        n: usize,
    ) -> Result<Vec<T>> {
        self.sum_part(runs, &slices(&self.checked(runs, sums, n, Vec::len)?), [n, 1], 0)
    }
    /// The part of `n` elements that is a worker's in [`Group::reduce_scatter_slice`].
    #[must_use]
    pub fn part(&self, n: usize, worker: usize) -> Range<usize> {
        part(n, self.size, worker)
    }
    /// The parts of all workers ([`Group::part`]) as one, from this worker's.
    ///
    /// # Errors
    /// `InvalidArgument` if it is no such part of `n`; as [`Group::barrier`].
    pub fn all_gather_parts<T: Element>(&self, x: &[T], n: usize) -> Result<Vec<T>> {
        let (rank, size) = (self.rank, self.size);
        if x.len() != self.part(n, rank).len() {
            return Err(Error::argument(format!(
                "distributed: worker {rank} has {} of {n} elements; its part has {}",
                x.len(),
                self.part(n, rank).len()
            )));
        }
        let call = Call { kind: Kind::AllGather, dtype: T::DTYPE, count: n as u64, with: 1, shape: 0 };
        self.call(call, |all| gather_parts(all, x, |worker| part(n, size, worker)))
    }

    /// Sums of this worker's run, of `n` elements each.
    pub(crate) fn checked<X>(
        &self,
        runs: Runs,
        sums: TreeSum<X>,
        n: usize,
        len: impl Fn(&X) -> usize,
    ) -> Result<Vec<(Node, X)>> {
        let nodes = sums.into_nodes();
        let fits =
            nodes.iter().map(|x| x.0).eq(runs.nodes(self.rank)) && nodes.iter().all(|x| len(&x.1) == n);
        if runs.workers() == self.size && fits {
            return Ok(nodes);
        }
        Err(Error::argument(format!(
            "distributed: worker {} of {} has sums of other shards than {:?} of {}, or of other sizes than {n}",
            self.rank,
            self.size,
            runs.of(self.rank),
            runs.shards()
        )))
    }
    pub(crate) fn sum<T: Number>(
        &self,
        runs: Runs,
        mine: &Terms<'_, T>,
        n: usize,
        shape: u64,
    ) -> Result<Vec<T>> {
        let with = runs.shards() as u64;
        let call = Call { kind: Kind::AllReduce, dtype: T::DTYPE, count: n as u64, with, shape };
        self.call(call, |all| {
            if all.size == 1 || n * size_of::<T>() <= ONE_ROUND {
                return sum_of(all, runs, mine, |_| 0..n);
            }
            sum_for_all(all, runs, mine, n)
        })
    }
    /// The part of `rows` rows of `width` numbers that is this worker's.
    pub(crate) fn sum_part<T: Number>(
        &self,
        runs: Runs,
        mine: &Terms<'_, T>,
        [rows, width]: [usize; 2],
        shape: u64,
    ) -> Result<Vec<T>> {
        let (count, with) = ((rows * width) as u64, runs.shards() as u64);
        let call = Call { kind: Kind::ReduceScatter, dtype: T::DTYPE, count, with, shape };
        let size = self.size;
        let of = |worker: usize| {
            let rows = part(rows, size, worker);
            rows.start * width..rows.end * width
        };
        self.call(call, |all| sum_of(all, runs, mine, of))
    }
}
