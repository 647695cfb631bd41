//! Workers on one machine or several, each connected with each by TCP.
//!
//! Every connection has a thread that writes, so that sending never waits, and one that reads, so
//! that a worker whose neighbour is busy does not block it. A message is its length and its bytes.
//! In between a worker gives signs of life; one that gives none for [`SILENCE`] is taken for dead.
//!
//! How it can be wrong: a message that was cut short and is taken for whole (the length goes
//! first), memory that a stranger makes it allocate (strangers do not get past the hello), a thread
//! that waits for ever (all reads and writes have a limit).

use super::rendezvous::{self, Meeting};
use super::{Transport, Watch};
use elinvar_core::{Error, Result};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often a worker that has nothing to send gives a sign of life.
const SIGN: Duration = Duration::from_secs(4);
/// After how long without one a worker is taken for dead.
pub const SILENCE: Duration = Duration::from_secs(20);
/// Time for what was sent before an error.
const LAST: Duration = Duration::from_secs(2);
/// In place of a length: a sign of life, and the end.
const ALIVE: u64 = u64::MAX;
const END: u64 = u64::MAX - 1;
/// Bytes for which memory is made at once.
const PIECE: u64 = 64 << 20;

/// The connections of a worker; None to itself.
#[derive(Debug)]
pub struct Tcp {
    peers: Vec<Option<Peer>>,
    pending: Arc<Pending>,
    gone: Arc<Gone>,
}

/// Why the first worker that is gone is not there any more.
type Gone = Mutex<Option<Error>>;

/// Messages that no socket has taken yet.
#[derive(Debug, Default)]
struct Pending {
    messages: AtomicUsize,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Pending {
    fn less(&self) {
        self.messages.fetch_sub(1, SeqCst);
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }
}

#[derive(Debug)]
struct Peer {
    /// None when it is dropped.
    out: Option<Sender<Vec<u8>>>,
    inbox: Receiver<Result<Vec<u8>>>,
    stream: TcpStream,
    threads: Vec<JoinHandle<()>>,
}

/// The error of a worker that has sent nothing in time.
pub fn late(worker: usize) -> Error {
    Error::io(format!(
        "distributed: worker {worker} has sent nothing within the time limit; it is slow, or it waits for something else"
    ))
}

impl Tcp {
    /// Meets all others.
    ///
    /// # Errors
    /// `Io` if they do not come in time; `InvalidArgument` if one has the same rank, another number
    /// of workers or another version.
    pub fn connect(meeting: &Meeting, until: Instant) -> Result<Tcp> {
        let streams = rendezvous::meet(meeting, until)?;
        let (pending, gone) = (Arc::<Pending>::default(), Arc::<Gone>::default());
        let open = |(worker, stream): (usize, Option<TcpStream>)| {
            stream.map(|s| Peer::new(worker, s, &pending, &gone)).transpose()
        };
        let peers = streams.into_iter().enumerate().map(open).collect::<io::Result<_>>();
        let peers = peers.map_err(|e| Error::io(format!("distributed: a connection: {e}")))?;
        Ok(Tcp { peers, pending, gone })
    }
}

impl Peer {
    fn new(worker: usize, stream: TcpStream, pending: &Arc<Pending>, gone: &Arc<Gone>) -> io::Result<Peer> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(SILENCE))?;
        let (out, messages) = channel();
        let (deliver, inbox) = channel();
        let (reader, writer) = (stream.try_clone()?, stream.try_clone()?);
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            thread::Builder::new().name(format!("elinvar {name} {worker}")).spawn(run)
        };
        let (pending, gone) = (pending.clone(), gone.clone());
        let threads = vec![
            spawn("to", Box::new(move || write_all(writer, &messages, &pending)))?,
            spawn("from", Box::new(move || read_all(worker, reader, &deliver, &gone)))?,
        ];
        Ok(Peer { out: Some(out), inbox, stream, threads })
    }
}

/// Writes messages until there is no more sender; then the end.
fn write_all(mut stream: TcpStream, messages: &Receiver<Vec<u8>>, pending: &Pending) {
    let mut put = |length: u64, bytes: &[u8]| -> io::Result<()> {
        stream.write_all(&length.to_le_bytes())?;
        stream.write_all(bytes)
    };
    loop {
        let written = match messages.recv_timeout(SIGN) {
            Ok(message) => {
                let written = put(message.len() as u64, &message);
                pending.less();
                written
            }
            Err(RecvTimeoutError::Timeout) => put(ALIVE, &[]),
            Err(RecvTimeoutError::Disconnected) => {
                // Whether it arrives or not: this worker leaves.
                let _ = put(END, &[]);
                return;
            }
        };
        if written.is_err() {
            // Reading tells why. A caller that sends on must not wait for it.
            while messages.recv().is_ok() {
                pending.less();
            }
            return;
        }
    }
}

/// Reads messages until the end or an error, which is the last one delivered.
fn read_all(worker: usize, mut stream: TcpStream, deliver: &Sender<Result<Vec<u8>>>, gone: &Gone) {
    loop {
        let message = match read_one(worker, &mut stream) {
            Ok(Some(message)) => Ok(message),
            Ok(None) => Err(left(worker)),
            Err(e) => {
                gone.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| e.clone());
                Err(e)
            }
        };
        let last = message.is_err();
        if deliver.send(message).is_err() || last {
            return;
        }
    }
}

fn left(worker: usize) -> Error {
    Error::io(format!("distributed: worker {worker} has left"))
}

/// The next message; None at the end.
fn read_one(worker: usize, stream: &mut TcpStream) -> Result<Option<Vec<u8>>> {
    let failed = |e: io::Error| {
        Error::io(match e.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => format!(
                "distributed: worker {worker} has given no sign of life for {} s; its machine or the network hangs",
                SILENCE.as_secs()
            ),
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => {
                format!("distributed: worker {worker} has ended in the middle of the run")
            }
            _ => format!("distributed: worker {worker}: {e}"),
        })
    };
    loop {
        let mut length = [0; 8];
        stream.read_exact(&mut length).map_err(failed)?;
        match u64::from_le_bytes(length) {
            ALIVE => {}
            END => return Ok(None),
            length => {
                let mut message = Vec::new();
                while (message.len() as u64) < length {
                    let (had, piece) = (message.len(), PIECE.min(length - message.len() as u64));
                    let more = piece as usize;
                    message.try_reserve_exact(more).map_err(|_| {
                        Error::memory(format!("distributed: a message of {length} bytes of worker {worker}"))
                    })?;
                    message.resize(had + more, 0);
                    stream.read_exact(&mut message[had..]).map_err(failed)?;
                }
                return Ok(Some(message));
            }
        }
    }
}

impl Transport for Tcp {
    fn send(&mut self, to: usize, message: Vec<u8>) -> Result<()> {
        let peer = self.peers[to].as_ref().expect("a worker sends nothing to itself");
        self.pending.messages.fetch_add(1, SeqCst);
        let out = peer.out.as_ref().expect("it is there until it is dropped");
        out.send(message).map_err(|_| {
            self.pending.less();
            left(to)
        })
    }
    fn receive(&mut self, from: usize, until: Instant) -> Result<Vec<u8>> {
        let peer = self.peers[from].as_ref().expect("a worker receives nothing from itself");
        let wait = until.saturating_duration_since(Instant::now());
        match peer.inbox.recv_timeout(wait) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => Err(late(from)),
            Err(RecvTimeoutError::Disconnected) => Err(left(from)),
        }
    }
    fn flush(&mut self, until: Instant) -> Result<()> {
        let mut locked = self.pending.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while self.pending.messages.load(SeqCst) > 0 {
            let wait = until.saturating_duration_since(Instant::now());
            if wait.is_zero() {
                return Err(Error::io("distributed: a worker takes no messages within the time limit"));
            }
            locked =
                (self.pending.changed.wait_timeout(locked, wait)).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
    fn library_sum(&mut self, _: &mut [f32]) -> Result<()> {
        Err(Error::unsupported("distributed: only an MPI library has a sum of its own"))
    }
    fn is_for_any_thread(&self) -> bool {
        true
    }
    fn watch(&self) -> Watch {
        let gone = self.gone.clone();
        Arc::new(move || gone.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
    fn abandon(mut self: Box<Self>) {
        // What was sent may be what the others need to find the same error.
        let _ = self.flush(Instant::now() + LAST);
        // Without the word that says that it leaves: the others are to know that something failed.
        for peer in self.peers.iter().flatten() {
            let _ = peer.stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Tcp {
    fn drop(&mut self) {
        // All writers end at once, each after what it still has to write.
        for peer in self.peers.iter_mut().flatten() {
            peer.out = None;
        }
        for peer in self.peers.iter_mut().flatten() {
            let mut threads = peer.threads.drain(..);
            let writer = threads.next().map(JoinHandle::join);
            // The reader waits for the other side, which may have more to say.
            let _ = peer.stream.shutdown(Shutdown::Both);
            let reader = threads.next().map(JoinHandle::join);
            // A thread that panicked has nothing left to do.
            drop((writer, reader));
        }
    }
}
