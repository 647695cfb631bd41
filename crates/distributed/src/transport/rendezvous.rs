//! How workers find each other: worker 0 listens at an address that all know; the others come,
//! say who they are, and are told where the rest is.

use elinvar_core::{Error, Result};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

/// What a hello begins with: the protocol and its version.
const MAGIC: [u8; 8] = *b"elinvar1";
/// Bytes of a hello: the above, rank, workers, port, the job's key.
const HELLO: usize = 8 + 4 + 4 + 2 + 32;
/// Bytes of a place: family, address, port.
const PLACE: usize = 1 + 16 + 2;
/// Time for a hello, which a worker sends as soon as it is connected.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(25);

/// Where and as what to meet.
#[derive(Clone, Debug)]
pub struct Meeting {
    /// The host of worker 0.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// This worker.
    pub rank: usize,
    /// All of them.
    pub workers: usize,
    /// The same for all workers of a job: version and what the user sets.
    pub key: [u8; 32],
}

#[derive(Clone, Copy, Debug)]
struct Hello {
    rank: usize,
    workers: usize,
    port: u16,
    key: [u8; 32],
}

impl Hello {
    fn write(self, stream: &mut TcpStream) -> io::Result<()> {
        let mut b = Vec::with_capacity(HELLO);
        b.extend_from_slice(&MAGIC);
        b.extend_from_slice(&(self.rank as u32).to_le_bytes());
        b.extend_from_slice(&(self.workers as u32).to_le_bytes());
        b.extend_from_slice(&self.port.to_le_bytes());
        b.extend_from_slice(&self.key);
        stream.write_all(&b)
    }
    /// None if it is not one.
    fn read(stream: &mut TcpStream) -> Option<Hello> {
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let mut b = [0; HELLO];
        stream.read_exact(&mut b).ok()?;
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| b[at + i])) as usize;
        (b[..8] == MAGIC).then(|| Hello {
            rank: word(8),
            workers: word(12),
            port: u16::from_le_bytes([b[16], b[17]]),
            key: std::array::from_fn(|i| b[18 + i]),
        })
    }
}

/// Connections to all others, by rank; None to itself.
///
/// # Errors
/// `Io` if they do not come until then; `InvalidArgument` if one does not belong to this run.
pub fn meet(m: &Meeting, until: Instant) -> Result<Vec<Option<TcpStream>>> {
    let mut streams: Vec<Option<TcpStream>> = (0..m.workers).map(|_| None).collect();
    let at = resolve(m)?;
    if m.rank == 0 {
        let listener = listen(at)?;
        let places = gather(m, &listener, &mut streams, 1, until)?;
        let all: Vec<u8> = places.iter().flat_map(|p| place_bytes(own_address(*p, at))).collect();
        for stream in streams.iter_mut().flatten() {
            stream.write_all(&all).map_err(|e| Error::io(format!("distributed: worker 0: {e}")))?;
        }
        return Ok(streams);
    }
    let anywhere = if at.ip().is_loopback() { at.ip() } else { IpAddr::V4(Ipv4Addr::UNSPECIFIED) };
    let listener = listen(SocketAddr::new(anywhere, 0))?;
    let here = listener.local_addr().map_err(|e| Error::io(format!("distributed: {e}")))?;
    let hello = Hello { rank: m.rank, workers: m.workers, port: here.port(), key: m.key };
    let mut first = greet(at, hello, 0, until)?;
    let places = told(&mut first, m.workers, until)?;
    streams[0] = Some(first);
    for (rank, place) in places.iter().enumerate().take(m.rank).skip(1) {
        streams[rank] = Some(greet(*place, hello, rank, until)?);
    }
    gather(m, &listener, &mut streams, m.rank + 1, until)?;
    Ok(streams)
}

fn resolve(m: &Meeting) -> Result<SocketAddr> {
    let place = format!("{}:{}", m.host, m.port);
    let found = (m.host.as_str(), m.port).to_socket_addrs().map(|mut all| {
        // The family that `anywhere` is of.
        let all: Vec<_> = all.by_ref().collect();
        all.iter().find(|a| a.is_ipv4()).or(all.first()).copied()
    });
    match found {
        Ok(Some(at)) => Ok(at),
        Ok(None) => Err(Error::argument(format!("distributed: {place}: there is no such address"))),
        Err(e) => Err(Error::argument(format!("distributed: {place}, the address of worker 0: {e}"))),
    }
}

fn listen(at: SocketAddr) -> Result<TcpListener> {
    let listener = TcpListener::bind(at).and_then(|l| l.set_nonblocking(true).map(|()| l));
    listener.map_err(|e| {
        Error::io(format!("distributed: {at}: {e}; MASTER_ADDR must be this machine's address where worker 0 runs, and MASTER_PORT free"))
    })
}

/// Waits for all workers from this rank on; where they listen.
fn gather(
    m: &Meeting,
    listener: &TcpListener,
    streams: &mut [Option<TcpStream>],
    first: usize,
    until: Instant,
) -> Result<Vec<SocketAddr>> {
    let nowhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
    let mut places = vec![nowhere; m.workers];
    while streams[first.min(m.workers)..].iter().any(Option::is_none) {
        let (mut stream, from) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                if Instant::now() >= until {
                    let missing: Vec<String> = (first..m.workers)
                        .filter(|r| streams[*r].is_none())
                        .take(8)
                        .map(|r| r.to_string())
                        .collect();
                    return Err(Error::io(format!(
                        "distributed: of {} workers these have not come within the time limit: {}",
                        m.workers,
                        missing.join(", ")
                    )));
                }
                thread::sleep(PAUSE);
                continue;
            }
            Err(e) => return Err(Error::io(format!("distributed: waiting for workers: {e}"))),
        };
        // Accepted sockets inherit it on some systems.
        let blocking = stream.set_nonblocking(false);
        // One that says something else is a stranger, and no worker.
        let Some(hello) = blocking.ok().and_then(|()| Hello::read(&mut stream)) else { continue };
        belongs(m, hello, first, streams)?;
        places[hello.rank] = SocketAddr::new(from.ip(), hello.port);
        streams[hello.rank] = Some(stream);
    }
    Ok(places)
}

/// Is it a worker of this run, that is still missing?
fn belongs(m: &Meeting, hello: Hello, first: usize, streams: &[Option<TcpStream>]) -> Result<()> {
    let Hello { rank, workers, key, .. } = hello;
    let why = if key != m.key {
        "runs another version of elinvar, or has another ELINVAR_JOB".into()
    } else if workers != m.workers {
        format!("was told of {workers} workers, and this one of {}", m.workers)
    } else if rank >= m.workers || rank < first {
        format!("is none of those that are waited for, {first} to {}", m.workers - 1)
    } else if streams[rank].is_some() {
        "has come twice; each worker needs a rank of its own".into()
    } else {
        return Ok(());
    };
    Err(Error::argument(format!("distributed: worker {rank} {why}")))
}

/// Connects, as often as it takes.
fn greet(at: SocketAddr, hello: Hello, rank: usize, until: Instant) -> Result<TcpStream> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::io(format!(
                "distributed: worker {rank} does not answer at {at} within the time limit; is it running, and is MASTER_ADDR right?"
            )));
        }
        let connected = TcpStream::connect_timeout(&at, left.min(PATIENCE));
        if let Ok(mut stream) = connected
            && hello.write(&mut stream).is_ok()
        {
            return Ok(stream);
        }
        thread::sleep(PAUSE.min(left));
    }
}

/// An address of worker 0's own machine as others see it.
fn own_address(place: SocketAddr, master: SocketAddr) -> SocketAddr {
    if place.ip().is_loopback() { SocketAddr::new(master.ip(), place.port()) } else { place }
}

fn place_bytes(place: SocketAddr) -> [u8; PLACE] {
    let mut b = [0; PLACE];
    match place.ip() {
        IpAddr::V4(ip) => {
            b[0] = 4;
            b[1..5].copy_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            b[0] = 6;
            b[1..17].copy_from_slice(&ip.octets());
        }
    }
    b[17..].copy_from_slice(&place.port().to_le_bytes());
    b
}

fn place_of(b: &[u8; PLACE]) -> SocketAddr {
    let octets: [u8; 16] = std::array::from_fn(|i| b[1 + i]);
    let ip = match b[0] {
        4 => IpAddr::from([octets[0], octets[1], octets[2], octets[3]]),
        _ => IpAddr::from(octets),
    };
    SocketAddr::new(ip, u16::from_le_bytes([b[17], b[18]]))
}

/// Where all are, as worker 0 says.
fn told(stream: &mut TcpStream, workers: usize, until: Instant) -> Result<Vec<SocketAddr>> {
    let left = until.saturating_duration_since(Instant::now()).max(PAUSE);
    let mut all = vec![0; workers * PLACE];
    let read = stream.set_read_timeout(Some(left)).and_then(|()| stream.read_exact(&mut all));
    read.map_err(|e| {
        Error::io(format!(
            "distributed: worker 0 does not say where the others are ({e}); it has ended, or it still waits for one of them"
        ))
    })?;
    Ok(all.as_chunks().0.iter().map(place_of).collect())
}
