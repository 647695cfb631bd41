//! What a piece of memory was used for, and by which queues: what has to be waited for before it is
//! used again.
//!
//! A use is a queue and a ticket. Tickets of a queue are counted after its work was given, so a
//! wait for an event that was recorded when the count was n is a wait for all tickets up to n.
//! How it can be wrong: a use that is forgotten is a race between two queues; the emulated CUDA
//! device, whose queues run as late as they can, shows it as wrong numbers.

use smallvec::SmallVec;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Work of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) queue: usize,
    pub(crate) ticket: u64,
}

/// The last uses of memory, at most one of each queue: who wrote it, and who read it since.
#[derive(Clone, Debug, Default)]
pub(crate) struct UseList {
    written: SmallVec<[Use; 1]>,
    read: SmallVec<[Use; 1]>,
}

fn add(list: &mut SmallVec<[Use; 1]>, one: Use) {
    match list.iter_mut().find(|u| u.queue == one.queue) {
        Some(known) => known.ticket = known.ticket.max(one.ticket),
        None => list.push(one),
    }
}

impl UseList {
    /// Memory that a queue alone may use, until others have waited for it.
    pub(crate) fn written(by: Use) -> UseList {
        UseList { written: SmallVec::from([by]), read: SmallVec::new() }
    }
    /// What has to come before a use of this kind.
    pub(crate) fn before(&self, writes: bool) -> impl Iterator<Item = &Use> {
        self.written.iter().chain(self.read.iter().filter(move |_| writes))
    }
    /// Adds a use that came behind all that it had to.
    pub(crate) fn add(&mut self, one: Use, writes: bool) {
        if writes {
            self.written.clear();
            self.read.clear();
            self.written.push(one);
        } else {
            add(&mut self.read, one);
        }
    }
    /// Those of both, as of memory that is one from now on.
    pub(crate) fn join(&mut self, other: &UseList) {
        other.written.iter().for_each(|u| add(&mut self.written, *u));
        other.read.iter().for_each(|u| add(&mut self.read, *u));
    }
}

/// Uses of memory that several threads may use.
#[derive(Debug, Default)]
pub(crate) struct Uses(Mutex<UseList>);

impl Uses {
    pub(crate) fn new(list: UseList) -> Uses {
        Uses(Mutex::new(list))
    }
    pub(crate) fn lock(&self) -> MutexGuard<'_, UseList> {
        // A panic inside leaves uses that were there.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_to_be_waited_for() {
        let at = |queue, ticket| Use { queue, ticket };
        let before = |l: &UseList, writes| l.before(writes).copied().collect::<Vec<_>>();
        let mut list = UseList::default();
        assert_eq!(before(&list, true), []);
        list.add(at(0, 3), true);
        list.add(at(1, 7), false);
        list.add(at(1, 9), false);
        list.add(at(2, 1), false);
        // Readers do not wait for each other; a writer waits for all of them.
        assert_eq!(before(&list, false), [at(0, 3)]);
        assert_eq!(before(&list, true), [at(0, 3), at(1, 9), at(2, 1)]);
        let mut both = UseList::written(at(2, 5));
        both.join(&list);
        assert_eq!(before(&both, false), [at(2, 5), at(0, 3)]);
        assert_eq!(before(&both, true), [at(2, 5), at(0, 3), at(1, 9), at(2, 1)]);
        list.add(at(2, 2), true);
        assert_eq!(before(&list, true), [at(2, 2)]);
    }
}
