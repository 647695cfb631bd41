//! The messages of one call, and what is made of them.

use crate::devices::link::DeviceLink;
use crate::element::{Element, Number, add, elements};
use crate::message::{HEAD, Head};
use crate::transport::Transport;
use crate::tree::{Node, Runs, TreeSum, part};
use elinvar_core::Result;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Instant;

/// What was sent to other workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages.
    pub messages: u64,
    /// Bytes of numbers, without the heads of messages.
    pub bytes: u64,
}

/// The messages of one call.
pub struct Exchange<'a> {
    pub rank: usize,
    pub size: usize,
    pub head: Head,
    pub until: Instant,
    pub transport: Option<&'a mut (dyn Transport + 'static)>,
    /// The way between devices, if there is one.
    pub devices: Option<&'a DeviceLink>,
    pub sent: &'a mut Traffic,
}

impl Exchange<'_> {
    pub fn transport(&mut self) -> &mut (dyn Transport + 'static) {
        self.transport.as_deref_mut().expect("a group of several has a transport")
    }
    /// Sends the head of the call, and these bytes one after the other.
    pub fn send(&mut self, to: usize, parts: &[&[u8]]) -> Result<()> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        self.sent.messages += 1;
        self.sent.bytes += bytes as u64;
        let mut message = Vec::with_capacity(HEAD + bytes);
        message.extend_from_slice(&self.head.bytes());
        parts.iter().for_each(|part| message.extend_from_slice(part));
        self.transport().send(to, message)
    }
    /// A whole message, with its head, of which `bytes` follow.
    pub fn receive(&mut self, from: usize, bytes: usize) -> Result<Vec<u8>> {
        let until = self.until;
        let message = self.transport().receive(from, until)?;
        self.head.check(from, &message, bytes)?;
        Ok(message)
    }
    /// Sends each other worker something. Each begins with its right neighbour, so that not all of
    /// them send to one.
    fn send_all<'g>(&mut self, give: impl Fn(usize) -> Vec<&'g [u8]>) -> Result<()> {
        for k in 1..self.size {
            let to = (self.rank + k) % self.size;
            self.send(to, &give(to))?;
        }
        Ok(())
    }
    /// Receives something of a known number of bytes from each other worker.
    fn receive_all(&mut self, bytes: impl Fn(usize) -> usize) -> Result<Received> {
        let mut got: Vec<Vec<u8>> = (0..self.size).map(|_| Vec::new()).collect();
        for k in 1..self.size {
            let from = (self.rank + self.size - k) % self.size;
            got[from] = self.receive(from, bytes(from))?;
        }
        Ok(Received(got))
    }
    /// Both: all are sent before one is waited for.
    pub fn exchange<'g>(
        &mut self,
        give: impl Fn(usize) -> Vec<&'g [u8]>,
        bytes: impl Fn(usize) -> usize,
    ) -> Result<Received> {
        self.send_all(give)?;
        self.receive_all(bytes)
    }
}

/// What came from each other worker; nothing from itself.
pub struct Received(Vec<Vec<u8>>);

impl Received {
    /// The bytes behind the head.
    pub fn of(&self, worker: usize) -> &[u8] {
        self.0[worker].get(HEAD..).unwrap_or_default()
    }
}

/// Sums of subtrees, which a worker has.
pub type Terms<'x, T> = [(Node, &'x [T])];

/// Sends each other worker the elements of sums that are its own by `of`.
fn give_parts<T: Number>(
    all: &mut Exchange<'_>,
    mine: &Terms<'_, T>,
    of: impl Fn(usize) -> Range<usize>,
) -> Result<()> {
    all.send_all(|worker| mine.iter().map(|(_, x)| bytemuck::cast_slice(&x[of(worker)])).collect())
}

/// The sum over the shards of all workers, of elements `here`, which all of them send.
fn take_sum<T: Number>(
    all: &mut Exchange<'_>,
    runs: Runs,
    mine: &Terms<'_, T>,
    here: Range<usize>,
) -> Result<Vec<T>> {
    let length = here.len() * size_of::<T>();
    let got = all.receive_all(|worker| runs.nodes(worker).len() * length)?;
    let mut sum = TreeSum::new(0);
    for worker in 0..all.size {
        if worker == all.rank {
            for (node, x) in mine {
                sum.push_node(*node, Cow::Borrowed(&x[here.clone()]), |a, b| Ok(add(a, b)))?;
            }
            continue;
        }
        for (k, node) in runs.nodes(worker).into_iter().enumerate() {
            let term = elements(&got.of(worker)[k * length..][..length]);
            sum.push_node(node, term, |a, b| Ok(add(a, b)))?;
        }
    }
    Ok(sum.root(|a, b| Ok(add(a, b)))?.unwrap_or_default().into_owned())
}

/// The sum over the shards of all workers, of those elements that are this worker's by `of`.
pub fn sum_of<T: Number>(
    all: &mut Exchange<'_>,
    runs: Runs,
    mine: &Terms<'_, T>,
    of: impl Fn(usize) -> Range<usize>,
) -> Result<Vec<T>> {
    give_parts(all, mine, &of)?;
    let here = of(all.rank);
    take_sum(all, runs, mine, here)
}

/// Bytes of a vector that are summed at once: a quarter, so that something is on its way while
/// something is added, but as few as memory of this size is used again and stays in caches, and as
/// many as make messages long.
const BLOCK: Range<usize> = 128 << 10..512 << 10;

/// The sum of `n` elements over the shards of all workers, for all, in blocks. Of each, every
/// worker sums a part and sends it to the others; while messages of one block are on their way,
/// those of the next are sent.
pub fn sum_for_all<T: Number>(
    all: &mut Exchange<'_>,
    runs: Runs,
    mine: &Terms<'_, T>,
    n: usize,
) -> Result<Vec<T>> {
    let (rank, size) = (all.rank, all.size);
    let block = (n * size_of::<T>() / 4).clamp(BLOCK.start, BLOCK.end) / size_of::<T>();
    let blocks = n.div_ceil(block);
    let of = |b: usize, worker: usize| {
        let begin = b * block;
        let part = part(block.min(n - begin), size, worker);
        begin + part.start..begin + part.end
    };
    let (mut sums, mut y) = (VecDeque::new(), Vec::with_capacity(n));
    for turn in 0..blocks + 2 {
        if turn < blocks {
            give_parts(all, mine, |worker| of(turn, worker))?;
        }
        if let Some(b) = turn.checked_sub(1).filter(|b| *b < blocks) {
            let sum = take_sum(all, runs, mine, of(b, rank))?;
            all.send_all(|_| vec![bytemuck::cast_slice(&sum)])?;
            sums.push_back(sum);
        }
        if let Some(b) = turn.checked_sub(2) {
            let got = all.receive_all(|worker| of(b, worker).len() * size_of::<T>())?;
            let own = sums.pop_front().unwrap_or_default();
            for worker in 0..size {
                if worker == rank {
                    y.extend_from_slice(&own);
                } else {
                    y.extend_from_slice(&elements(got.of(worker)));
                }
            }
        }
    }
    Ok(y)
}

/// The elements of all workers as one vector, of which each has those of `of`.
pub fn gather_parts<T: Element>(
    all: &mut Exchange<'_>,
    x: &[T],
    of: impl Fn(usize) -> Range<usize>,
) -> Result<Vec<T>> {
    let got = all.exchange(|_| vec![bytemuck::cast_slice(x)], |worker| of(worker).len() * size_of::<T>())?;
    let mut y = Vec::with_capacity(of(all.size - 1).end);
    for worker in 0..all.size {
        if worker == all.rank {
            y.extend_from_slice(x);
        } else {
            y.extend_from_slice(&elements(got.of(worker)));
        }
    }
    Ok(y)
}
