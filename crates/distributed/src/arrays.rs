//! What workers do together with what their devices have, from device to device: the same sums in
//! the same tree as of numbers in host memory, so the same bits.

use crate::Group;
use crate::devices::swap;
use crate::exchange::Exchange;
use crate::message::{Call, Kind};
use crate::shares::Shares;
use crate::slices::ONE_ROUND;
use crate::tree::{Node, Runs, TreeSum, part};
use elinvar_core::{DType, Error, Result, Shape};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use elinvar_ops::catalogue::{add, concat, narrow};
use std::ops::Range;

/// Sums of subtrees, as vectors on a device.
type Sums<B> = Vec<(Node, Array<B>)>;

fn flat<B: Backend>(x: &Array<B>) -> Result<Array<B>> {
    x.reshape(&Shape::new(&[x.shape().numel()])?)
}

fn cut<B: Backend>(x: &Array<B>, to: Range<usize>) -> Result<Array<B>> {
    if to == (0..x.shape().numel()) {
        return Ok(x.clone());
    }
    narrow(x, 0, to.start as isize, to.len())
}

fn joined<B: Backend>(parts: &[Array<B>]) -> Result<Array<B>> {
    match parts {
        [one] => Ok(one.clone()),
        all => concat(&all.iter().collect::<Vec<_>>(), 0),
    }
}

/// The other workers, beginning with the right neighbour, so that not all of them send to one.
fn others(all: &Exchange<'_>) -> impl Iterator<Item = usize> + use<> {
    let (rank, size) = (all.rank, all.size);
    (1..size).map(move |k| (rank + k) % size)
}

/// The sum over the shards of all workers, of those elements that are this worker's by `of`.
fn sum_of<B: Backend>(
    all: &mut Exchange<'_>,
    runs: Runs,
    mine: &Sums<B>,
    of: impl Fn(usize) -> Range<usize>,
) -> Result<Array<B>> {
    let first = &mine[0].1;
    let (device, dtype, here) = (first.device().clone(), first.dtype(), of(all.rank));
    let mut sends = vec![];
    for worker in others(all) {
        for (_, x) in mine {
            sends.push((worker, cut(x, of(worker))?));
        }
    }
    let from = |worker: usize| runs.nodes(worker).into_iter().map(move |node| (worker, node));
    let come: Vec<(usize, Node)> = (0..all.size).filter(|w| *w != all.rank).flat_map(from).collect();
    let receives: Vec<(usize, usize)> = come.iter().map(|(worker, _)| (*worker, here.len())).collect();
    let got = swap(all, &device, dtype, &sends, &receives)?;
    let mut sum = TreeSum::new(0);
    let mut push = |node: Node, x: Array<B>| sum.push_node(node, x, |a, b| add(&a, &b));
    let (mut before, mut after): (Vec<_>, Vec<_>) = (vec![], vec![]);
    for ((worker, node), x) in come.into_iter().zip(got) {
        if worker < all.rank { before.push((node, x)) } else { after.push((node, x)) }
    }
    before.into_iter().try_for_each(|(node, x)| push(node, x))?;
    mine.iter().try_for_each(|(node, x)| push(*node, cut(x, here.clone())?))?;
    after.into_iter().try_for_each(|(node, x)| push(node, x))?;
    let sum = sum.root(|a, b| add(&a, &b))?;
    sum.ok_or_else(|| Error::argument("distributed: a sum over no shards"))
}

/// The elements of all workers as one vector, of which each has those of `of`.
fn gather_parts<B: Backend>(
    all: &mut Exchange<'_>,
    x: &Array<B>,
    of: impl Fn(usize) -> Range<usize>,
) -> Result<Array<B>> {
    let (device, rank, size) = (x.device().clone(), all.rank, all.size);
    let sends: Vec<_> = others(all).map(|worker| (worker, x.clone())).collect();
    let receives: Vec<_> = (0..size).filter(|w| *w != rank).map(|w| (w, of(w).len())).collect();
    let mut parts = swap(all, &device, x.dtype(), &sends, &receives)?;
    parts.insert(rank, x.clone());
    joined(&parts)
}

impl Group {
    /// As [`Group::all_reduce_shards`], of vectors of a device that [is linked](Group::is_linked).
    ///
    /// # Errors
    /// As [`Group::all_reduce_shards`]; what the device reports.
    pub fn all_reduce_arrays<B: Backend>(
        &self,
        runs: Runs,
        sums: TreeSum<Array<B>>,
        n: usize,
    ) -> Result<Array<B>> {
        self.sum_arrays(runs, self.checked_arrays(runs, sums, n)?, n, 0)
    }
    /// As [`Group::reduce_scatter_shares`], of vectors of a device that
    /// [is linked](Group::is_linked).
    ///
    /// # Errors
    /// As [`Group::reduce_scatter_shares`]; what the device reports.
    pub fn reduce_scatter_array_shares<B: Backend>(
        &self,
        runs: Runs,
        sums: TreeSum<Array<B>>,
        shares: &Shares,
    ) -> Result<Array<B>> {
        self.one_for_each(shares)?;
        let mine = self.checked_arrays(runs, sums, shares.total())?;
        let (count, with, shape) = (shares.total() as u64, runs.shards() as u64, shares.digest());
        let call = Call { kind: Kind::ReduceScatter, dtype: mine[0].1.dtype(), count, with, shape };
        self.on_devices(call, |all| sum_of(all, runs, &mine, |worker| shares.of(worker)))
    }
    /// As [`Group::all_gather_shares`], of a vector of a device that [is linked](Group::is_linked).
    ///
    /// # Errors
    /// As [`Group::all_gather_shares`]; what the device reports.
    pub fn all_gather_array_shares<B: Backend>(&self, x: &Array<B>, shares: &Shares) -> Result<Array<B>> {
        self.one_for_each(shares)?;
        let mine = shares.of(self.rank).len();
        self.has_share(x.shape().numel(), mine)?;
        let (count, shape) = (shares.total() as u64, shares.digest());
        let call = Call { kind: Kind::AllGather, dtype: x.dtype(), count, with: 1, shape };
        self.on_devices(call, |all| gather_parts(all, x, |worker| shares.of(worker)))
    }

    /// Makes a call in the order of the way between devices.
    fn on_devices<T>(&self, call: Call, make: impl FnOnce(&mut Exchange<'_>) -> Result<T>) -> Result<T> {
        self.call_on_devices(call, |all| match all.devices {
            Some(link) => link.scope(|| make(all)),
            None => Err(Error::unsupported("distributed: the workers' devices have no way to each other")),
        })
    }
    fn checked_arrays<B: Backend>(&self, runs: Runs, sums: TreeSum<Array<B>>, n: usize) -> Result<Sums<B>> {
        self.checked(runs, sums, n, |x| x.shape().numel())
    }
    pub(crate) fn sum_arrays<B: Backend>(
        &self,
        runs: Runs,
        mine: Sums<B>,
        n: usize,
        shape: u64,
    ) -> Result<Array<B>> {
        let (dtype, with) = (mine[0].1.dtype(), runs.shards() as u64);
        let call = Call { kind: Kind::AllReduce, dtype, count: n as u64, with, shape };
        self.on_devices(call, |all| {
            if n * dtype.size() <= ONE_ROUND {
                return sum_of(all, runs, &mine, |_| 0..n);
            }
            let size = all.size;
            let mine = sum_of(all, runs, &mine, |worker| part(n, size, worker))?;
            gather_parts(all, &mine, |worker| part(n, size, worker))
        })
    }
    /// The part of `rows` rows of `width` numbers that is this worker's.
    pub(crate) fn sum_array_part<B: Backend>(
        &self,
        runs: Runs,
        mine: Sums<B>,
        [rows, width]: [usize; 2],
        shape: u64,
    ) -> Result<Array<B>> {
        let (count, with) = ((rows * width) as u64, runs.shards() as u64);
        let call = Call { kind: Kind::ReduceScatter, dtype: mine[0].1.dtype(), count, with, shape };
        let size = self.size;
        let of = |worker: usize| {
            let rows = part(rows, size, worker);
            rows.start * width..rows.end * width
        };
        self.on_devices(call, |all| sum_of(all, runs, &mine, of))
    }
    /// The elements of all workers, one after the other; each has as many.
    pub(crate) fn gathered_array<B: Backend>(&self, x: &Array<B>, shape: u64) -> Result<Array<B>> {
        let (x, n) = (flat(x)?, x.shape().numel());
        let call = Call { kind: Kind::AllGather, dtype: x.dtype(), count: n as u64, with: 0, shape };
        self.on_devices(call, |all| gather_parts(all, &x, |worker| worker * n..(worker + 1) * n))
    }
    /// The elements of `root`, for all.
    pub(crate) fn array_of_root<B: Backend>(
        &self,
        x: &Array<B>,
        shape: u64,
        root: usize,
    ) -> Result<Array<B>> {
        self.is_worker("broadcast", root)?;
        let (x, n, dtype) = (flat(x)?, x.shape().numel(), x.dtype());
        let call = Call { kind: Kind::Broadcast, dtype, count: n as u64, with: root as u64, shape };
        self.on_devices(call, |all| {
            let (me, size) = ((all.rank + all.size - root) % all.size, all.size);
            let device = x.device().clone();
            let (mut has, mut bit) = (x.clone(), 1);
            if me != 0 {
                bit = 1 << me.ilog2();
                let from = (me - bit + root) % size;
                has = swap(all, &device, dtype, &[], &[(from, n)])?.remove(0);
                bit *= 2;
            }
            let children =
                std::iter::successors(Some(bit), |bit| Some(bit * 2)).take_while(|bit| me + bit < size);
            let sends: Vec<_> = children.map(|bit| ((me + bit + root) % size, has.clone())).collect();
            swap(all, &device, dtype, &sends, &[])?;
            Ok(has)
        })
    }
    /// Of numbers whose sums are made on the device.
    pub(crate) fn own_array<B: Backend>(&self, x: &Array<B>, wide: DType) -> Result<Sums<B>> {
        Ok(self.own(flat(&x.cast(wide)?)?))
    }
}
