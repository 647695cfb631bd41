//! Workers that are threads of one process, as for several devices of one machine.

use super::{Transport, Watch};
use elinvar_core::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Instant;

/// The ends of all channels of a worker; None to itself.
#[derive(Debug)]
pub struct Local {
    rank: usize,
    to: Vec<Option<Sender<Vec<u8>>>>,
    from: Vec<Option<Receiver<Vec<u8>>>>,
    /// Who has left by an error.
    failed: Arc<[AtomicBool]>,
}

impl Local {
    /// For so many workers.
    pub fn all(workers: usize) -> Vec<Local> {
        let failed: Arc<[AtomicBool]> = (0..workers).map(|_| AtomicBool::default()).collect();
        let none = |rank| Local {
            rank,
            to: (0..workers).map(|_| None).collect(),
            from: (0..workers).map(|_| None).collect(),
            failed: failed.clone(),
        };
        let mut all: Vec<Local> = (0..workers).map(none).collect();
        for from in 0..workers {
            for to in (0..workers).filter(|to| *to != from) {
                let (sender, receiver) = channel();
                all[from].to[to] = Some(sender);
                all[to].from[from] = Some(receiver);
            }
        }
        all
    }
}

fn gone(worker: usize) -> Error {
    Error::io(format!("distributed: worker {worker} has left"))
}

impl Transport for Local {
    fn send(&mut self, to: usize, message: Vec<u8>) -> Result<()> {
        let sender = self.to[to].as_ref().expect("a worker sends nothing to itself");
        sender.send(message).map_err(|_| gone(to))
    }
    fn receive(&mut self, from: usize, until: Instant) -> Result<Vec<u8>> {
        let receiver = self.from[from].as_ref().expect("a worker receives nothing from itself");
        let wait = until.saturating_duration_since(Instant::now());
        receiver.recv_timeout(wait).map_err(|e| match e {
            RecvTimeoutError::Timeout => super::tcp::late(from),
            RecvTimeoutError::Disconnected => gone(from),
        })
    }
    fn flush(&mut self, _: Instant) -> Result<()> {
        Ok(())
    }
    fn library_sum(&mut self, _: &mut [f32]) -> Result<()> {
        Err(Error::unsupported("distributed: only an MPI library has a sum of its own"))
    }
    fn is_for_any_thread(&self) -> bool {
        true
    }
    fn watch(&self) -> Watch {
        let (failed, rank) = (self.failed.clone(), self.rank);
        Arc::new(move || {
            let mut others = failed.iter().enumerate().filter(|(worker, _)| *worker != rank);
            others.find(|(_, failed)| failed.load(Relaxed)).map(|(worker, _)| gone(worker))
        })
    }
    fn abandon(self: Box<Self>) {
        self.failed[self.rank].store(true, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_failed_is_told_of_and_who_has_ended_is_not() {
        let mut all = Local::all(3);
        let watch = all[0].watch();
        drop(all.pop());
        assert!(watch().is_none());
        Box::new(all.pop().expect("worker 1")).abandon();
        assert!(watch().expect("worker 1 has failed").message().contains("worker 1 has left"));
    }
}
