//! All workers of a run, and what they do together.

use crate::devices::link::DeviceLink;
use crate::devices::wish::Wishes;
use crate::exchange::{Exchange, Traffic};
use crate::launcher::{Launch, launch, local_rank};
use crate::message::{Call, Head};
use crate::transport::Transport;
use crate::transport::local::Local;
#[cfg(unix)]
use crate::transport::mpi::MpiTransport;
use crate::transport::rendezvous::Meeting;
use crate::transport::tcp::Tcp;
use elinvar_core::{Error, Result};
use sha2::{Digest, Sha256};
use std::env;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// How long a worker waits for another one, unless `ELINVAR_TIME_LIMIT` says otherwise: as long as
/// PyTorch's for NCCL.
const TIME_LIMIT: Duration = Duration::from_secs(600);

/// All workers of a run. Clones are the same group.
///
/// Each worker makes the same calls in the same order; one that makes another is told so, as are
/// its neighbours. After an error the group is of no more use: all calls return it.
///
/// A group of one, which [`Group::init`] gives without a launcher, does nothing in all of them, so
/// a program needs no other code for it.
#[derive(Clone, Debug)]
pub struct Group {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    local_rank: usize,
    limit: Duration,
    link: Arc<Mutex<Link>>,
}

#[derive(Debug)]
struct Link {
    /// None in a group of one, and after an error.
    transport: Option<Box<dyn Transport>>,
    by: String,
    /// Between the devices of all workers, if they have met and there is such a way.
    devices: Option<DeviceLink>,
    /// Which ways are allowed and asked for; None once they have met.
    wishes: Option<Result<Wishes>>,
    /// The only thread that may call, if there is such a rule.
    thread: Option<ThreadId>,
    calls: u64,
    failed: Option<Error>,
    sent: Traffic,
}

impl Link {
    /// The other workers are to learn of an error: those that wait find this one gone.
    fn fail(&mut self, why: &Error) {
        self.failed.get_or_insert_with(|| why.clone());
        if let Some(devices) = self.devices.take() {
            devices.abandon();
        }
        if let Some(transport) = self.transport.take() {
            transport.abandon();
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // A worker that panics is not expected to come to the end, nor are those that wait for it.
        if !thread::panicking() {
            // While the other transport is there, and tells who is gone.
            self.devices = None;
            return;
        }
        if let Some(devices) = self.devices.take() {
            devices.abandon();
        }
        if let Some(transport) = self.transport.take() {
            transport.abandon();
        }
    }
}

impl Group {
    fn new(
        rank: usize,
        size: usize,
        local_rank: usize,
        limit: Duration,
        link: Option<Box<dyn Transport>>,
    ) -> Group {
        let thread = link.as_ref().is_some_and(|t| !t.is_for_any_thread()).then(|| thread::current().id());
        Group {
            rank,
            size,
            local_rank,
            limit,
            link: Arc::new(Mutex::new(Link {
                transport: link,
                by: String::new(),
                devices: None,
                wishes: None,
                thread,
                calls: 0,
                failed: None,
                sent: Traffic::default(),
            })),
        }
    }
    /// A group of one.
    #[must_use]
    pub fn alone() -> Group {
        Group::new(0, 1, 0, TIME_LIMIT, None)
    }
    /// The group that this process was started for: by `mpirun`, `srun`, torchrun or `elinvar
    /// launch`; a group of one without a launcher.
    ///
    /// # Errors
    /// `InvalidArgument` if the launcher's variables make no sense, or a worker runs another
    /// version or was told of another number of workers; `DriverMissing` without an MPI library
    /// where MPI's launcher is used; `Io` if workers do not come within the time limit.
    pub fn init() -> Result<Group> {
        let get = |name: &str| env::var(name).ok();
        let limit = time_limit(get("ELINVAR_TIME_LIMIT"))?;
        let (wishes, local) = (Wishes::read(get)?, local_rank(get));
        let (rank, size, by, transport): (_, _, _, Box<dyn Transport>) = match launch(get)? {
            Launch::Alone => return Ok(Group::new(0, 1, local, limit, None)),
            Launch::Tcp { rank, workers, host, port } => {
                let key = key(get("ELINVAR_JOB").as_deref());
                let by = format!("TCP, {host}:{port}");
                let meeting = Meeting { host, port, rank, workers, key };
                (rank, workers, by, Box::new(Tcp::connect(&meeting, after(limit))?))
            }
            #[cfg(unix)]
            Launch::Mpi => {
                let mpi = MpiTransport::start(get("ELINVAR_MPI_LIBRARY").as_deref())?;
                (mpi.rank(), mpi.workers(), mpi.name(), Box::new(mpi))
            }
            #[cfg(not(unix))]
            Launch::Mpi => {
                return Err(Error::unsupported(
                    "distributed: MPI is used on Linux and macOS; ELINVAR_TRANSPORT=tcp needs none",
                ));
            }
        };
        let group = Group::new(rank, size, local, limit, Some(transport));
        {
            let mut link = group.lock();
            (link.by, link.wishes) = (by, Some(Ok(wishes)));
        }
        group.agree("version of elinvar", env!("CARGO_PKG_VERSION").as_bytes())?;
        Ok(group)
    }
    /// A group of threads of this process, one for each of its devices: each takes one of these.
    #[must_use]
    pub fn threads(workers: usize) -> Vec<Group> {
        let wishes = Wishes::read(|name| env::var(name).ok());
        let one = |(rank, link): (usize, Local)| {
            let group = Group::new(rank, workers, rank, TIME_LIMIT, Some(Box::new(link)));
            {
                let mut link = group.lock();
                (link.by, link.wishes) = ("threads".into(), Some(wishes.clone()));
            }
            group
        };
        Local::all(workers).into_iter().enumerate().map(one).collect()
    }
    /// The same group, whose calls on this worker wait so long for another one.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Group {
        self.limit = limit;
        self
    }
    /// This worker, from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }
    /// The number of workers.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }
    /// This worker among those of its machine: the number of the device that it takes.
    #[must_use]
    pub fn local_rank(&self) -> usize {
        self.local_rank
    }
    /// How messages go, for a line of the log.
    #[must_use]
    pub fn transport(&self) -> String {
        let link = self.lock();
        match (&link.transport, &link.devices) {
            (None, _) => "none".into(),
            (Some(_), None) => link.by.clone(),
            (Some(_), Some(devices)) => format!("{}; {} between devices", link.by, devices.name),
        }
    }
    /// May other threads call than the one that has made the group? Not with an MPI library that
    /// takes calls from one alone.
    #[must_use]
    pub fn is_for_any_thread(&self) -> bool {
        self.lock().thread.is_none()
    }
    /// What this worker has sent.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.lock().sent
    }
    /// The sum over all workers by the MPI library's own means, in whatever order it adds: to
    /// compare times with. Its bits depend on the library and on the number of workers; nothing
    /// else here uses it.
    ///
    /// # Errors
    /// `Unsupported` without an MPI library; `Io` if it fails.
    #[doc(hidden)]
    pub fn library_sum(&self, x: &mut [f32]) -> Result<()> {
        match &mut self.lock().transport {
            Some(transport) => transport.library_sum(x),
            None => Err(Error::unsupported("distributed: a group of one has no library that sums")),
        }
    }
    /// Leaves the group because of an error that is this worker's own, so that the others learn of
    /// it at once. All later calls return it.
    pub fn fail(&self, why: &Error) {
        self.lock().fail(why);
    }
    /// Takes what this process wishes of ways between devices: it is there until they have met.
    pub(crate) fn take_wishes(&self) -> Option<Result<Wishes>> {
        self.lock().wishes.take()
    }
    /// From now on devices send each other what they have.
    pub(crate) fn set_devices(&self, devices: DeviceLink) {
        self.lock().devices = Some(devices);
    }
    /// Something of the way between devices, if there is one.
    pub(crate) fn of_devices<T>(&self, f: impl FnOnce(&DeviceLink) -> T) -> Option<T> {
        self.lock().devices.as_ref().map(f)
    }
    fn lock(&self) -> std::sync::MutexGuard<'_, Link> {
        // A panic inside leaves messages half sent; the call after it fails by its number.
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call, which has a number that is the same for all workers.
    pub(crate) fn call<T>(&self, call: Call, make: impl FnOnce(&mut Exchange<'_>) -> Result<T>) -> Result<T> {
        self.call_by(false, call, make)
    }
    /// Makes a call of which the numbers go from device to device, once all workers have been seen
    /// to make it.
    pub(crate) fn call_on_devices<T>(
        &self,
        call: Call,
        make: impl FnOnce(&mut Exchange<'_>) -> Result<T>,
    ) -> Result<T> {
        self.call_by(true, call, |all| {
            all.exchange(|_| Vec::new(), |_| 0)?;
            make(all)
        })
    }
    fn call_by<T>(
        &self,
        on_devices: bool,
        call: Call,
        make: impl FnOnce(&mut Exchange<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut link = self.lock();
        let link = &mut *link;
        if let Some(failed) = &link.failed {
            return Err(failed.clone());
        }
        if link.thread.is_some_and(|only| only != thread::current().id()) {
            return Err(Error::unsupported(format!(
                "distributed: {} takes calls only from the thread that has made the group",
                link.by
            )));
        }
        let head = Head { number: link.calls, call, on_devices };
        link.calls += 1;
        let until = after(self.limit);
        let mut exchange = Exchange {
            rank: self.rank,
            size: self.size,
            head,
            until,
            transport: link.transport.as_deref_mut(),
            devices: link.devices.as_ref(),
            sent: &mut link.sent,
        };
        let result = make(&mut exchange);
        result.inspect_err(|e| link.fail(e))
    }
}

/// So long from now; a limit beyond what a clock counts is a year.
fn after(limit: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(limit).unwrap_or_else(|| now + Duration::from_secs(365 * 24 * 3600))
}

fn time_limit(text: Option<String>) -> Result<Duration> {
    let Some(text) = text else { return Ok(TIME_LIMIT) };
    match text.parse() {
        Ok(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds)),
        _ => {
            Err(Error::argument(format!("distributed: ELINVAR_TIME_LIMIT: {text:?} is no number of seconds")))
        }
    }
}

/// What all workers of a job have in common, and others do not.
fn key(job: Option<&str>) -> [u8; 32] {
    let mut digest = Sha256::new();
    digest.update(concat!("elinvar ", env!("CARGO_PKG_VERSION"), "\n"));
    digest.update(job.unwrap_or_default());
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Watch;
    use elinvar_core::ErrorKind;

    /// A transport for one thread, as some MPI libraries are.
    #[derive(Debug)]
    struct OneThread(Local);

    impl Transport for OneThread {
        fn send(&mut self, to: usize, message: Vec<u8>) -> Result<()> {
            self.0.send(to, message)
        }
        fn receive(&mut self, from: usize, until: Instant) -> Result<Vec<u8>> {
            self.0.receive(from, until)
        }
        fn flush(&mut self, until: Instant) -> Result<()> {
            self.0.flush(until)
        }
        fn library_sum(&mut self, x: &mut [f32]) -> Result<()> {
            self.0.library_sum(x)
        }
        fn is_for_any_thread(&self) -> bool {
            false
        }
        fn watch(&self) -> Watch {
            self.0.watch()
        }
        fn abandon(self: Box<Self>) {}
    }

    #[test]
    fn calls_of_another_thread_than_a_library_takes_are_refused_and_harm_nothing() {
        let (mut all, limit) = (Local::all(2), Duration::from_secs(20));
        let other = Group::new(1, 2, 0, limit, all.pop().map(|l| Box::new(l) as Box<dyn Transport>));
        let strict = all.pop().map(|l| Box::new(OneThread(l)) as Box<dyn Transport>);
        let group = Group::new(0, 2, 0, limit, strict);
        assert!(other.is_for_any_thread() && !group.is_for_any_thread());
        thread::scope(|s| {
            let elsewhere = s.spawn(|| group.barrier().unwrap_err()).join().unwrap();
            assert_eq!(elsewhere.kind(), ErrorKind::Unsupported);
            assert!(elsewhere.message().contains("only from the thread that has made the group"));
            let waits = s.spawn(|| other.barrier());
            group.barrier().unwrap();
            waits.join().unwrap().unwrap();
        });
    }
}
