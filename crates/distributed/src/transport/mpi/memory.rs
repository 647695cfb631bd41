//! Memory of devices, by an MPI library that takes its addresses as those of the host.
//!
//! How it can be wrong: the library reads or writes memory as long as a message is under way, also
//! after an error here. So a message holds what keeps its memory until the library says that it is
//! done, and for ever if it never does.

use super::MpiTransport;
use super::on_unix::PIECE;
use super::sys::Tag;
use crate::transport::{Piece, Swap};
use elinvar_core::{Error, Result};
use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};
use std::time::Instant;

/// Which drivers' memory a library takes, by what it says.
pub fn takes_memory_of(driver: &str, says_cuda: Option<bool>, library: &str) -> Result<()> {
    let why = match (driver, says_cuda) {
        ("cuda", Some(true)) => return Ok(()),
        ("cuda", Some(false)) => format!("{library} says that it takes no addresses of CUDA devices"),
        ("cuda", None) => format!("{library} does not say whether it takes addresses of CUDA devices"),
        _ => format!("MPI is given no addresses of devices of {driver}"),
    };
    Err(Error::unsupported(format!("distributed: {why}")))
}

/// What goes in one message: of which worker, its address, its bytes.
fn messages(pieces: &[Piece], addresses: &[u64]) -> Vec<(usize, usize, usize)> {
    let mut all = vec![];
    for (piece, at) in pieces.iter().zip(addresses) {
        for from in (0..piece.bytes).step_by(PIECE) {
            all.push((piece.worker, *at as usize + from, PIECE.min(piece.bytes - from)));
        }
    }
    all
}

/// See [`Transport::swap_memory`](crate::transport::Transport::swap_memory).
///
/// # Safety
/// That function's, and the library takes addresses of the device.
#[allow(unsafe_code)]
pub unsafe fn swap(mpi: &mut MpiTransport, memory: Swap<'_>, until: Instant) -> Result<()> {
    let Swap { sends, receives, addresses, kept } = memory;
    let (out, into) = addresses.split_at(sends.len());
    for (worker, at, bytes) in messages(sends, out) {
        // SAFETY: the bytes are those of a piece or of a part of it, which stay as they are while
        // `kept` is there: so long as the request is in the list, from which it is taken when it is
        // done.
        let request = unsafe { mpi.mpi.send(worker, with_exposed_provenance(at), bytes, Tag::Device) }?;
        mpi.pending.push((request, kept.clone()));
    }
    for (worker, at, bytes) in messages(receives, into) {
        let came = mpi.wait_for(worker, Tag::Device, until)?;
        if came != bytes {
            return Err(Error::io(format!(
                "distributed: worker {worker} sends {came} bytes of its device where {bytes} are expected"
            )));
        }
        // SAFETY: as above; nothing else touches what is received.
        let request = unsafe { mpi.mpi.begin_receive(worker, with_exposed_provenance_mut(at), bytes) }?;
        mpi.pending.push((request, kept.clone()));
    }
    mpi.finish(until)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_library_says_that_it_takes_is_given_to_it() {
        let said =
            |driver, says| takes_memory_of(driver, says, "Some MPI 3").map_err(|e| e.message().to_owned());
        assert_eq!(said("cuda", Some(true)), Ok(()));
        let rows = [
            ("cuda", Some(false), "distributed: Some MPI 3 says that it takes no addresses of CUDA devices"),
            ("cuda", None, "distributed: Some MPI 3 does not say whether it takes addresses of CUDA devices"),
            ("rocm", Some(true), "distributed: MPI is given no addresses of devices of rocm"),
        ];
        for (driver, says, sentence) in rows {
            assert_eq!(said(driver, says), Err(sentence.to_owned()));
        }
    }

    #[test]
    fn what_is_longer_than_a_message_goes_in_several() {
        let pieces =
            [(1, 0), (2, 3), (0, PIECE), (3, 2 * PIECE + 5)].map(|(worker, bytes)| Piece { worker, bytes });
        let at = [1 << 40, 2 << 40, 3 << 40, 4 << 40];
        let last = 4 << 40;
        assert_eq!(
            messages(&pieces, &at),
            [
                (2, 2 << 40, 3),
                (0, 3 << 40, PIECE),
                (3, last, PIECE),
                (3, last + PIECE, PIECE),
                (3, last + 2 * PIECE, 5)
            ]
        );
    }
}
