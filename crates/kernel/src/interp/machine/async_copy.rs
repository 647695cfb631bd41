//! Interpreter: cp.async, asynchronous copies to shared memory.
//!
//! A copy reads its source when it begins, which cannot be observed, because its source is
//! read-only. It arrives when it is waited for and not before, which on a device is the latest
//! moment; an earlier access to its target is a fault.

use super::{Checked, Fault, Machine, Problem};
use crate::interp::race::{AccessKind, Accessor};
use crate::ir::{Op, Place};
use std::collections::VecDeque;

/// A copy that was begun: for whom, to which shared memory, its elements.
struct PendingCopy {
    lane: usize,
    to: u32,
    at: usize,
    cells: Vec<u64>,
}

/// What is under way.
#[derive(Default)]
pub struct CpAsyncState {
    open: Vec<PendingCopy>,
    groups: VecDeque<Vec<PendingCopy>>,
}

impl Machine<'_> {
    pub(super) fn begin_cp_async(&mut self, op: &Op, lanes: &[usize]) -> Checked {
        let &Op::CpAsync { to: Place::Shared(to), at, from, index, count, there } = op else {
            unreachable!("the verifier has seen that it goes to shared memory")
        };
        let n = usize::from(count);
        for &lane in lanes {
            let at = self.reach(Place::Shared(to), at, lane, n, n)?;
            let cells = if self.slot(there)[lane] != 0 {
                let first = self.reach(from, index, lane, n, n)?;
                for i in first..first + n {
                    self.touch(from, i, lane, AccessKind::Load)?;
                }
                self.memory(from).cells[first..first + n].to_vec()
            } else {
                vec![0; n]
            };
            let who = self.who(lane);
            for i in at..at + n {
                if let Some(what) = self.shared_traces[to as usize][i].begin(who) {
                    return Err(Problem { lane, what: format!("element {i}: {what}") });
                }
            }
            self.cp_async.open.push(PendingCopy { lane, to, at, cells });
        }
        Ok(())
    }
    pub(super) fn cp_async_commit(&mut self) {
        let open = std::mem::take(&mut self.cp_async.open);
        self.cp_async.groups.push_back(open);
    }
    pub(super) fn cp_async_wait(&mut self, open: usize) {
        while self.cp_async.groups.len() > open {
            for PendingCopy { lane, to, at, cells } in self.cp_async.groups.pop_front().unwrap_or_default() {
                let who = self.who(lane);
                for (i, cell) in (at..).zip(cells) {
                    self.shared_traces[to as usize][i].arrive(who);
                    self.shared[to as usize].cells[i] = cell;
                }
            }
        }
    }
    /// That nothing is under way where a workgroup ends.
    pub(super) fn no_copies(&mut self) -> Result<(), Fault> {
        let CpAsyncState { open, groups } = std::mem::take(&mut self.cp_async);
        match open.iter().chain(groups.iter().flatten()).next() {
            None => Ok(()),
            Some(flight) => Err(Fault(format!(
                "{}: the kernel ends while copies are under way, one of invocation {}",
                self.kernel.name, flight.lane
            ))),
        }
    }
    pub(super) fn who(&self, lane: usize) -> Accessor {
        Accessor { group: self.group_number, lane: lane as u32, epoch: self.epoch }
    }
}
