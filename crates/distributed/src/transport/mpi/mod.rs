//! Workers of an MPI library, which their launcher (`mpirun`, `srun`) started.
//!
//! Of MPI only messages between two workers are used. Its sums are not: their order is the
//! library's, and differs with its version, settings and number of workers.

#[cfg(unix)]
mod abi;
#[cfg(unix)]
mod memory;
#[cfg(unix)]
mod sys;

#[cfg(unix)]
pub use on_unix::MpiTransport;

#[cfg(unix)]
mod on_unix {
    use super::memory::{swap, takes_memory_of};
    use super::sys::{Handle, Mpi, Tag};
    use crate::transport::{Kept, Swap, Transport, Watch, tcp};
    use elinvar_core::{Error, Result};
    use std::hint;
    use std::sync::Arc;
    use std::thread::{self, ThreadId};
    use std::time::{Duration, Instant};

    /// Bytes of a message at most: more go in several.
    pub(super) const PIECE: usize = 1 << 30;
    /// How often it is asked before the processor is given away: a neighbour on the same core would
    /// otherwise wait for this one.
    const SPINS: u32 = 200;
    /// How often without that: a neighbour that runs answers within so many, and giving it away
    /// takes longer than a short message.
    const AT_ONCE: u32 = 50;
    /// How often a message is looked for before the clock, and what was sent, are looked at.
    const BETWEEN: u32 = 16;
    const PAUSE: Duration = Duration::from_micros(50);

    /// A worker of an MPI library.
    #[derive(Debug)]
    pub struct MpiTransport {
        pub(super) mpi: Mpi,
        rank: usize,
        workers: usize,
        /// The one that started it.
        thread: ThreadId,
        /// What is being sent or received, with its memory.
        pub(super) pending: Vec<(Handle, Kept)>,
    }

    impl MpiTransport {
        /// Loads and initialises the library.
        ///
        /// # Errors
        /// `DriverMissing` without one; `Unsupported`, `Io` if it cannot be used.
        pub fn start(named: Option<&str>) -> Result<MpiTransport> {
            let mpi = Mpi::start(named)?;
            let [rank, workers] = mpi.rank_and_size()?;
            let thread = thread::current().id();
            Ok(MpiTransport { mpi, rank, workers, thread, pending: Vec::new() })
        }
        /// This worker.
        pub fn rank(&self) -> usize {
            self.rank
        }
        /// All of them.
        pub fn workers(&self) -> usize {
            self.workers
        }
        /// The library, its version, and how it is spoken to.
        pub fn name(&self) -> String {
            format!("{} ({})", self.mpi.name(), self.mpi.family())
        }
        /// Lets go of what has been sent or received.
        fn progress(&mut self) -> Result<()> {
            let mut error = None;
            self.pending.retain_mut(|(request, _)| match self.mpi.is_done(request) {
                Ok(done) => !done,
                Err(e) => {
                    error = Some(e);
                    true
                }
            });
            error.map_or(Ok(()), Err)
        }
        /// The bytes of a worker's next message, once it is there.
        pub(super) fn wait_for(&mut self, from: usize, tag: Tag, until: Instant) -> Result<usize> {
            let mut turns = 0;
            loop {
                if let Some(bytes) = self.mpi.next(from, tag)? {
                    return Ok(bytes);
                }
                turns += 1;
                pause(turns);
                // Looking for a message drives the library, too.
                if !turns.is_multiple_of(BETWEEN) {
                    continue;
                }
                self.progress()?;
                if Instant::now() >= until {
                    return Err(tcp::late(from));
                }
            }
        }
        fn message(&mut self, from: usize, until: Instant) -> Result<Vec<u8>> {
            let bytes = self.wait_for(from, Tag::Host, until)?;
            self.mpi.receive(from, bytes)
        }
        /// Waits until nothing is being sent or received.
        pub(super) fn finish(&mut self, until: Instant) -> Result<()> {
            let mut turns = 0;
            while !self.pending.is_empty() {
                self.progress()?;
                turns += 1;
                pause(turns);
                if Instant::now() >= until {
                    return Err(Error::io("distributed: a worker takes no messages within the time limit"));
                }
            }
            Ok(())
        }
    }

    fn pause(turns: u32) {
        match turns {
            ..AT_ONCE => hint::spin_loop(),
            AT_ONCE..SPINS => thread::yield_now(),
            _ => thread::sleep(PAUSE),
        }
    }

    impl Transport for MpiTransport {
        /// A message of several pieces begins with its length.
        fn send(&mut self, to: usize, message: Vec<u8>) -> Result<()> {
            let length = (message.len() as u64).to_le_bytes().to_vec();
            let pieces: Vec<Vec<u8>> = match message.len() <= PIECE {
                true => vec![message],
                false => message.chunks(PIECE).map(<[u8]>::to_vec).collect(),
            };
            let first = if pieces.len() > 1 { Some(length) } else { None };
            for bytes in first.into_iter().chain(pieces) {
                // SAFETY: the vector's memory has so many bytes, and is neither moved nor changed
                // while it is in the list, from which only `progress` takes it, when it is sent.
                #[allow(unsafe_code)]
                let request = unsafe { self.mpi.send(to, bytes.as_ptr().cast(), bytes.len(), Tag::Host) }?;
                self.pending.push((request, Arc::new(bytes)));
            }
            self.progress()
        }
        fn receive(&mut self, from: usize, until: Instant) -> Result<Vec<u8>> {
            let first = self.message(from, until)?;
            // A message has a head, so it is longer than a length.
            let Ok(length) = <[u8; 8]>::try_from(&first[..]) else { return Ok(first) };
            let length = u64::from_le_bytes(length);
            let mut message = Vec::new();
            while (message.len() as u64) < length {
                let piece = self.message(from, until)?;
                (message.try_reserve(piece.len()))
                    .map_err(|_| Error::memory(format!("distributed: a message of {length} bytes")))?;
                message.extend_from_slice(&piece);
            }
            Ok(message)
        }
        fn flush(&mut self, until: Instant) -> Result<()> {
            self.finish(until)
        }
        fn library_sum(&mut self, x: &mut [f32]) -> Result<()> {
            self.mpi.sum(x)
        }
        fn takes_memory_of(&self, driver: &str) -> Result<()> {
            takes_memory_of(driver, self.mpi.takes_cuda(), self.mpi.name())
        }
        #[allow(unsafe_code)]
        unsafe fn swap_memory(&mut self, memory: Swap<'_>, until: Instant) -> Result<()> {
            self.takes_memory_of("cuda")?;
            // SAFETY: by this function's contract, and addresses of CUDA devices are taken.
            unsafe { swap(self, memory, until) }
        }
        fn is_for_any_thread(&self) -> bool {
            self.mpi.is_for_any_thread()
        }
        fn watch(&self) -> Watch {
            // Its launcher ends all workers when one is gone.
            Arc::new(|| None)
        }
        /// MPI ends in all workers or in none: their launcher ends those that are left.
        fn abandon(self: Box<Self>) {
            std::mem::forget(self);
        }
    }

    impl Drop for MpiTransport {
        fn drop(&mut self) {
            // Only the thread that started it may end it then.
            if !self.mpi.is_for_any_thread() && thread::current().id() != self.thread {
                self.pending.drain(..).for_each(std::mem::forget);
                return;
            }
            // What is still being sent would be read from freed memory; a worker that never takes
            // it would keep this one for ever, so the memory is left in place then.
            if self.finish(Instant::now() + tcp::SILENCE).is_err() {
                self.pending.drain(..).for_each(std::mem::forget);
                return;
            }
            // It waits for the others. After a panic they may never come: their launcher ends them.
            if !thread::panicking() {
                self.mpi.finish();
            }
        }
    }
}
