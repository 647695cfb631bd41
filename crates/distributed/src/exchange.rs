//! The messages of one call, and what is made of them.

use crate::element::{Element, Number, add, elements};
use crate::message::{HEAD, Head};
use crate::transport::Transport;
use crate::tree::{Node, Runs, TreeSum};
use elinvar_core::Result;
use std::ops::Range;
use std::time::Instant;
use zerocopy::IntoBytes;

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
    pub sent: &'a mut Traffic,
}

impl Exchange<'_> {
    fn transport(&mut self) -> &mut (dyn Transport + 'static) {
        self.transport.as_deref_mut().expect("a group of several has a transport")
    }
    pub fn send(&mut self, to: usize, bytes: &[u8]) -> Result<()> {
        self.sent.messages += 1;
        self.sent.bytes += bytes.len() as u64;
        let mut message = Vec::with_capacity(HEAD + bytes.len());
        message.extend_from_slice(&self.head.bytes());
        message.extend_from_slice(bytes);
        self.transport().send(to, message)
    }
    /// A whole message, with its head, of which `bytes` follow.
    pub fn receive(&mut self, from: usize, bytes: usize) -> Result<Vec<u8>> {
        let until = self.until;
        let message = self.transport().receive(from, until)?;
        self.head.check(from, &message, bytes)?;
        Ok(message)
    }
    /// Sends each other worker something, and receives something of a known number of bytes from
    /// each: by worker, without heads; nothing from itself. All are sent before one is waited for,
    /// and each worker begins with its right neighbour, so that not all of them send to one.
    pub fn exchange(
        &mut self,
        give: impl Fn(usize) -> Vec<u8>,
        bytes: impl Fn(usize) -> usize,
    ) -> Result<Vec<Vec<u8>>> {
        for k in 1..self.size {
            let to = (self.rank + k) % self.size;
            self.send(to, &give(to))?;
        }
        let mut got: Vec<Vec<u8>> = (0..self.size).map(|_| Vec::new()).collect();
        for k in 1..self.size {
            let from = (self.rank + self.size - k) % self.size;
            let mut message = self.receive(from, bytes(from))?;
            message.drain(..HEAD);
            got[from] = message;
        }
        Ok(got)
    }
}

/// The sum over the shards of all workers, of those elements that are this worker's by `of`.
pub fn sum_of<T: Number>(
    all: &mut Exchange<'_>,
    runs: Runs,
    mine: Vec<(Node, Vec<T>)>,
    of: impl Fn(usize) -> Range<usize>,
) -> Result<Vec<T>> {
    let here = of(all.rank);
    let length = here.len() * size_of::<T>();
    let give = |worker: usize| {
        let parts: Vec<&[u8]> = mine.iter().map(|(_, x)| x[of(worker)].as_bytes()).collect();
        parts.concat()
    };
    let got = all.exchange(give, |worker| runs.nodes(worker).len() * length)?;
    let mut sum = TreeSum::new(0);
    let mut mine = Some(mine);
    for (worker, bytes) in got.iter().enumerate() {
        if worker == all.rank {
            for (node, x) in mine.take().into_iter().flatten() {
                let x = if x.len() == here.len() { x } else { x[here.clone()].to_vec() };
                sum.push_node(node, x, |a, b| Ok(add(a, b)))?;
            }
            continue;
        }
        for (k, node) in runs.nodes(worker).into_iter().enumerate() {
            sum.push_node(node, elements(&bytes[k * length..][..length]), |a, b| Ok(add(a, b)))?;
        }
    }
    Ok(sum.root(|a, b| Ok(add(a, b)))?.unwrap_or_default())
}

/// The elements of all workers as one vector, of which each has those of `of`.
pub fn gather_parts<T: Element>(
    all: &mut Exchange<'_>,
    x: &[T],
    of: impl Fn(usize) -> Range<usize>,
) -> Result<Vec<T>> {
    let rank = all.rank;
    let got = all.exchange(|_| x.as_bytes().to_vec(), |worker| of(worker).len() * size_of::<T>())?;
    let mut y = Vec::with_capacity(of(all.size - 1).end);
    for (worker, bytes) in got.iter().enumerate() {
        if worker == rank { y.extend_from_slice(x) } else { y.extend(elements::<T>(bytes)) }
    }
    Ok(y)
}
