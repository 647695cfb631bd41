//! A communicator that a thread watches.

use super::UniqueId;
use super::sys::{Communicator, Library};
use crate::transport::{Piece, Watch};
use elinvar_core::{Error, NativeQueue, Result};
use std::fmt;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often is asked whether a worker is gone.
const TURN: Duration = Duration::from_millis(100);
/// A worker that is gone may have sent all that was asked of it, so there is time for it to arrive.
const GRACE: Duration = Duration::from_secs(2);
/// After so long a call that was about to begin has begun.
const BEGUN: Duration = Duration::from_secs(1);
/// Time for the end of a communicator, which may wait for other workers.
const LAST: Duration = Duration::from_secs(10);

/// A communicator of all workers of a group.
#[derive(Debug)]
pub struct Nccl {
    watched: Arc<Watched>,
}

struct Watched {
    library: &'static Library,
    comm: Communicator,
    /// Tells that a worker is gone.
    gone: Watch,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// When what is done now must be over; None if nothing is done.
    until: Option<Instant>,
    /// A call of the communicator is about to begin, or under way.
    calls: bool,
    /// Why the communicator was aborted, or is about to be.
    failed: Option<Error>,
    /// It is not used any more.
    over: bool,
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("library", &self.library).finish_non_exhaustive()
    }
}

fn late() -> Error {
    Error::io(
        "distributed: what a worker sends by NCCL has not come within the time limit; it is slow, or it waits for something else",
    )
}

/// Is a worker gone for so long that nothing of it is on its way any more?
struct Gone<'w> {
    watch: &'w Watch,
    since: Option<Instant>,
}

impl Gone<'_> {
    fn error(&mut self) -> Option<Error> {
        let error = (self.watch)()?;
        let since = *self.since.get_or_insert_with(Instant::now);
        (since.elapsed() >= GRACE).then_some(error)
    }
}

impl Nccl {
    /// Meets all others, of which this is one. `enter` makes the device the calling thread's.
    ///
    /// # Errors
    /// What the library reports; `Io` if a worker is gone, or they do not come until then.
    pub fn join(
        library: &'static Library,
        id: UniqueId,
        [rank, workers]: [usize; 2],
        enter: impl FnOnce() -> Result<()> + Send + 'static,
        gone: Watch,
        until: Instant,
    ) -> Result<Nccl> {
        let (done, joined) = channel();
        let join = move || {
            let comm = enter().and_then(|()| library.join(id, rank, workers));
            // One that no one waits for any more is left as it is: the others never came.
            drop(done.send(comm));
        };
        spawn("elinvar nccl", join)?;
        let mut is_gone = Gone { watch: &gone, since: None };
        let comm = loop {
            match joined.recv_timeout(TURN) {
                Ok(comm) => break comm?,
                Err(RecvTimeoutError::Disconnected) => return Err(late()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some(e) = is_gone.error() {
                return Err(e);
            }
            if Instant::now() >= until {
                return Err(late());
            }
        };
        let watched =
            Arc::new(Watched { library, comm, gone, state: Mutex::default(), changed: Condvar::new() });
        let nccl = Nccl { watched: watched.clone() };
        spawn("elinvar nccl watch", move || watched.watch())?;
        Ok(nccl)
    }
    /// Runs `f`, which gives work and waits for it, until then at most: if it takes longer, or a
    /// worker is gone, the communicator is aborted, by which all that it waits for ends.
    ///
    /// # Errors
    /// Those of `f`; `Io`.
    pub fn within<T>(&self, until: Instant, f: impl FnOnce() -> Result<T>) -> Result<T> {
        let set = |until| -> Result<()> {
            let mut state = self.watched.lock();
            state.until = until;
            self.watched.changed.notify_all();
            state.failed.clone().map_or(Ok(()), Err)
        };
        set(Some(until))?;
        let done = f();
        set(None)?;
        done.map_err(|e| {
            // The library may see that a worker is gone before the other transport tells which.
            let begin = Instant::now();
            while begin.elapsed() < GRACE {
                if let Some(cause) = (self.watched.gone)() {
                    return cause;
                }
                thread::sleep(Duration::from_millis(10));
            }
            e
        })
    }
    /// Gives sends and receives to a queue, within [`Nccl::within`].
    ///
    /// # Errors
    /// What the library reports; `InvalidArgument` if the queue does not have their addresses.
    pub fn give(&self, queue: NativeQueue<'_>, sends: &[Piece], receives: &[Piece]) -> Result<()> {
        if queue.addresses.len() != sends.len() + receives.len() {
            return Err(Error::argument("distributed: NCCL: other pieces were lent than are sent"));
        }
        {
            let mut state = self.watched.lock();
            if let Some(e) = &state.failed {
                return Err(e.clone());
            }
            state.calls = true;
        }
        let Watched { library, comm, .. } = &*self.watched;
        // SAFETY: the caller has lent the pieces with these sizes. The communicator is destroyed by
        // `drop` alone. Nothing has failed, so it is not aborted yet, and who aborts it now sees
        // that a call begins and lets it begin: an abort ends it.
        #[allow(unsafe_code)]
        let given = unsafe { library.give(*comm, queue, sends, receives) };
        self.watched.lock().calls = false;
        self.watched.changed.notify_all();
        given
    }
    /// Leaves after an error, without waiting for others.
    pub fn abandon(self) {
        let is_first = {
            let mut state = self.watched.lock();
            let first = state.failed.is_none();
            state.failed.get_or_insert_with(|| Error::io("distributed: the group has failed before"));
            first
        };
        if is_first {
            self.watched.abort();
        }
    }
}

impl Drop for Nccl {
    fn drop(&mut self) {
        let failed = {
            let mut state = self.watched.lock();
            state.over = true;
            self.watched.changed.notify_all();
            state.failed.is_some()
        };
        if failed {
            return;
        }
        let (done, ended) = channel::<()>();
        let watched = self.watched.clone();
        let end = move || {
            // SAFETY: it was not aborted; `over` keeps the watch from it, and `drop` comes once,
            // after all that `within` has waited for.
            #[allow(unsafe_code)]
            unsafe {
                watched.library.destroy(watched.comm);
            }
            drop(done);
        };
        if spawn("elinvar nccl end", end).is_ok() {
            // Others may never come to their end: the thread is then left to the process's.
            let _ = ended.recv_timeout(LAST);
        }
    }
}

impl Watched {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn watch(&self) {
        let mut gone = Gone { watch: &self.gone, since: None };
        let mut state = self.lock();
        while !state.over {
            let Some(until) = state.until else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let failed = match Instant::now() >= until {
                true => Some(late()),
                // SAFETY: it is not aborted, as nothing has failed, and not destroyed, as it is not
                // over: the lock is held.
                #[allow(unsafe_code)]
                false => gone.error().or_else(|| unsafe { self.library.check(self.comm) }.err()),
            };
            if failed.is_some() && state.failed.is_none() {
                state.failed = failed;
                drop(state);
                self.abort();
                return;
            }
            if state.failed.is_some() {
                return;
            }
            let wait = until.saturating_duration_since(Instant::now()).min(TURN);
            state = self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
    /// Who has set `failed` aborts, and no one else.
    fn abort(&self) {
        let begin = Instant::now();
        let mut state = self.lock();
        while state.calls && begin.elapsed() < BEGUN {
            state = self.changed.wait_timeout(state, TURN).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        // SAFETY: it is called once, by the one that has set `failed`, after which no call of the
        // communicator begins.
        #[allow(unsafe_code)]
        unsafe {
            self.library.abort(self.comm);
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
    let spawned = thread::Builder::new().name(name.into()).spawn(run);
    spawned.map(drop).map_err(|e| Error::io(format!("distributed: a thread for NCCL: {e}")))
}
