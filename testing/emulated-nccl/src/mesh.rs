//! Connections between all workers of a communicator, on one machine.
//!
//! Worker 0 listens at the port that its id names. All others tell it where they listen themselves,
//! and are told where the others do; each then connects to those with lower numbers.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

/// How often is looked whether the communicator was aborted.
const TURN: Duration = Duration::from_millis(20);

/// The connections of a worker; None to itself.
#[derive(Debug)]
pub struct Mesh {
    peers: Vec<Option<TcpStream>>,
    pub aborted: AtomicBool,
}

/// A listener of this machine, and its port.
pub fn listen() -> io::Result<(TcpListener, u16)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    Ok((listener, port))
}

fn put(stream: &mut TcpStream, numbers: &[u32]) -> io::Result<()> {
    numbers.iter().try_for_each(|n| stream.write_all(&n.to_le_bytes()))
}

fn get(stream: &mut TcpStream) -> io::Result<u32> {
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes).map(|()| u32::from_le_bytes(bytes))
}

fn connect(port: u16) -> io::Result<TcpStream> {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port))
}

impl Mesh {
    /// Meets all others, and waits for them without end. Worker 0 has the listener of its id.
    pub fn meet(rank: usize, workers: usize, port: u16, listener: Option<TcpListener>) -> io::Result<Mesh> {
        let mut peers: Vec<Option<TcpStream>> = (0..workers).map(|_| None).collect();
        if let Some(listener) = listener {
            let mut ports = vec![0; workers];
            for _ in 1..workers {
                let mut stream = listener.accept()?.0;
                let other = get(&mut stream)? as usize;
                if other == 0 || other >= workers || peers[other].is_some() {
                    return Err(ErrorKind::InvalidData.into());
                }
                ports[other] = get(&mut stream)?;
                peers[other] = Some(stream);
            }
            peers.iter_mut().flatten().try_for_each(|stream| put(stream, &ports))?;
        } else {
            let (own, own_port) = listen()?;
            let mut first = connect(port)?;
            put(&mut first, &[rank as u32, u32::from(own_port)])?;
            let ports = (0..workers).map(|_| get(&mut first)).collect::<io::Result<Vec<_>>>()?;
            peers[0] = Some(first);
            for lower in 1..rank {
                let mut stream = connect(ports[lower] as u16)?;
                put(&mut stream, &[rank as u32])?;
                peers[lower] = Some(stream);
            }
            for _ in rank + 1..workers {
                let mut stream = own.accept()?.0;
                let higher = get(&mut stream)? as usize;
                if higher <= rank || higher >= workers {
                    return Err(ErrorKind::InvalidData.into());
                }
                peers[higher] = Some(stream);
            }
        }
        for stream in peers.iter().flatten() {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(TURN))?;
            stream.set_write_timeout(Some(TURN))?;
        }
        Ok(Mesh { peers, aborted: AtomicBool::new(false) })
    }
    fn peer(&self, worker: usize) -> io::Result<&TcpStream> {
        self.peers.get(worker).and_then(Option::as_ref).ok_or_else(|| ErrorKind::InvalidInput.into())
    }
    /// Goes on until `some` has done all of it, or the communicator is aborted, or the other is
    /// gone: then as long as no one aborts, as a device does.
    fn all(&self, length: usize, mut some: impl FnMut(usize) -> io::Result<usize>) -> io::Result<()> {
        let (mut done, mut gone) = (0, false);
        while done < length {
            if self.aborted.load(SeqCst) {
                return Err(ErrorKind::Interrupted.into());
            }
            if gone {
                thread::sleep(TURN);
                continue;
            }
            match some(done) {
                Ok(0) => gone = true,
                Ok(n) => done += n,
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => gone = true,
            }
        }
        Ok(())
    }
    /// Sends bytes, with their number in front.
    pub fn send(&self, worker: usize, bytes: &[u8]) -> io::Result<()> {
        let mut stream = self.peer(worker)?;
        let length = (bytes.len() as u64).to_le_bytes();
        self.all(length.len(), |at| stream.write(&length[at..]))?;
        self.all(bytes.len(), |at| stream.write(&bytes[at..]))
    }
    /// Receives as many bytes as were sent: `InvalidData` if that are others than are expected.
    pub fn receive(&self, worker: usize, bytes: &mut [u8]) -> io::Result<()> {
        let mut stream = self.peer(worker)?;
        let mut length = [0; 8];
        self.all(length.len(), |at| stream.read(&mut length[at..]))?;
        if u64::from_le_bytes(length) != bytes.len() as u64 {
            return Err(ErrorKind::InvalidData.into());
        }
        self.all(bytes.len(), |at| stream.read(&mut bytes[at..]))
    }
}
