//! The ways from device to device: when there is one, and a round of sends and receives over it.
//!
//! All workers must find the same: so each tells the others what it can, and only what all can is
//! used. What a call is, and that all make the same, is checked over the group's transport.

pub(crate) mod link;
mod mpi;
mod nccl;
pub(crate) mod wish;

use crate::Group;
use crate::exchange::Exchange;
use crate::message::{Call, Kind};
use crate::transport::Piece;
use crate::transport::nccl::{ID_BYTES, Library, Nccl, UniqueId};
use elinvar_core::explain::explain;
use elinvar_core::{DType, Error, Result};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use link::{DeviceLink, Way};
use sha2::{Digest, Sha256};
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use wish::{Wish, Wishes};

/// What libraries of its vendor can do with a device.
struct Lent {
    driver: &'static str,
    is_shareable: bool,
}

/// Makes the device the calling thread's. `None` if there are no such libraries for it.
fn lent<B: Backend>(device: &B::Device) -> Result<Option<Lent>> {
    let mut found = None;
    Array::<B>::lend(device, &[], &[], &mut |queue| {
        found = Some(Lent { driver: queue.driver, is_shareable: queue.is_shareable });
        Ok(())
    })?;
    Ok(found)
}

impl Group {
    /// Finds out, once, whether the workers' devices can send each other what they have, and is a
    /// call as all others: each worker makes it with its own device. Calls with tensors make it by
    /// themselves. If all devices are CUDA's, and all workers find NCCL or have an MPI library that
    /// takes their addresses, numbers of this device do not pass through host memory.
    /// `ELINVAR_NCCL` and `ELINVAR_MPI_CUDA` forbid a way (0), or make it an error that a worker
    /// cannot use it (1).
    ///
    /// # Errors
    /// As [`Group::barrier`]; `DriverMissing` or `Unsupported`, with the reason, if a way is asked
    /// for and cannot be used; `InvalidArgument` if the variables make no sense.
    pub fn meet_devices<B: Backend>(&self, device: &B::Device) -> Result<()> {
        let Some(wishes) = self.take_wishes() else { return Ok(()) };
        let wishes = wishes.inspect_err(|e| self.fail(e))?;
        let call = Call { kind: Kind::Devices, dtype: DType::U8, count: 0, with: 0, shape: 0 };
        let met = self.call(call, |all| meet::<B>(all, device, wishes));
        match met? {
            Some(link) => {
                explain(|| format!("distributed: {device} sends by {}", link.name));
                self.set_devices(link);
            }
            None => explain(|| format!("distributed: what {device} has is sent through host memory")),
        }
        Ok(())
    }
    /// Does this device send to those of other workers by itself?
    #[must_use]
    pub fn is_linked<B: Backend>(&self, device: &B::Device) -> bool {
        self.of_devices(|link| link.is_of::<B>(device)) == Some(true)
    }
}

/// What a worker says of a way: can it use it, and does it insist?
#[derive(Clone, Copy)]
struct Offer {
    can: bool,
    asks: bool,
}

/// What a worker says before.
struct Hello {
    nccl: Offer,
    mpi: Offer,
    /// Which device of which process.
    place: [u8; PLACE],
    /// Worker 0's, for all.
    id: [u8; ID_BYTES],
}

const PLACE: usize = 16;
const HELLO: usize = 4 + PLACE + ID_BYTES;

impl Hello {
    fn bytes(&self) -> Vec<u8> {
        let ways = [self.nccl.can, self.nccl.asks, self.mpi.can, self.mpi.asks].map(u8::from);
        [&ways[..], &self.place, &self.id].concat()
    }
    fn of(bytes: &[u8]) -> Hello {
        let way = |i: usize| Offer { can: bytes[i] == 1, asks: bytes[i + 1] == 1 };
        let (place, id) = bytes[4..].split_at(PLACE);
        Hello {
            nccl: way(0),
            mpi: way(2),
            place: std::array::from_fn(|i| place[i]),
            id: std::array::from_fn(|i| id[i]),
        }
    }
}

/// Tells the devices of a process apart, and from those of other processes.
fn place(device: &impl ToString) -> [u8; PLACE] {
    static PROCESS: OnceLock<u64> = OnceLock::new();
    let process = PROCESS.get_or_init(|| RandomState::new().hash_one(0));
    let mut digest = Sha256::new();
    digest.update(process.to_le_bytes());
    digest.update(device.to_string());
    let digest: [u8; 32] = digest.finalize().into();
    std::array::from_fn(|i| digest[i])
}

/// What this process allows of a way, and then what the way says itself.
fn offered<T>(
    wish: Wish,
    [name, variable]: [&str; 2],
    offer: impl FnOnce() -> Result<T>,
) -> (Offer, Result<T>) {
    let found = match wish {
        Wish::Never => Err(Error::argument(format!("distributed: {variable}=0 does not allow {name} here"))),
        Wish::IfThere | Wish::Always => offer(),
    };
    (Offer { can: found.is_ok(), asks: wish == Wish::Always }, found)
}

fn meet<B: Backend>(
    all: &mut Exchange<'_>,
    device: &B::Device,
    wishes: Wishes,
) -> Result<Option<DeviceLink>> {
    let rank = all.rank;
    let (nccl, by_nccl) = offered(wishes.nccl, ["NCCL", Wishes::NCCL], || nccl::offer::<B>(all, device));
    let (mpi, by_mpi) = offered(wishes.mpi, ["MPI", Wishes::MPI], || mpi::offer::<B>(all, device));
    let id = by_nccl.as_ref().map_or([0; ID_BYTES], |(_, id)| id.0);
    let hello = Hello { nccl, mpi, place: place(device), id }.bytes();
    let others = all.exchange(|_| vec![&hello], |_| HELLO)?;
    let of = |worker: usize| Hello::of(if worker == rank { &hello } else { others.of(worker) });
    let hellos: Vec<Hello> = (0..all.size).map(of).collect();
    let [asks_nccl, asks_mpi] =
        [|h: &Hello| h.nccl.asks, |h: &Hello| h.mpi.asks].map(|f| hellos.iter().position(f));
    if let (Some(one), Some(other)) = (asks_nccl, asks_mpi) {
        return Err(Error::argument(format!(
            "distributed: worker {one} has ELINVAR_NCCL=1 and worker {other} ELINVAR_MPI_CUDA=1: devices send by one of both"
        )));
    }
    let link = |way: Way, name: String| -> Result<Option<DeviceLink>> {
        let (device, stream) = (Box::new(device.clone()), B::stream(device)?);
        Ok(Some(DeviceLink { way, name, device, stream }))
    };
    // What is asked for comes first; without that NCCL, which works beside the host.
    if asks_mpi.is_none() {
        match join::<B>(all, device, &hellos, by_nccl)? {
            Ok((nccl, name)) => return link(Way::Nccl(nccl), name),
            Err(why) if asks_nccl.is_some() => return Err(why),
            Err(why) => explain(|| format!("{why}")),
        }
    }
    match cannot("MPI", rank, by_mpi, hellos.iter().position(|h| !h.mpi.can)) {
        Ok(()) => link(Way::Mpi, "MPI".into()),
        Err(why) if asks_mpi.is_some() => Err(why),
        Err(why) => {
            explain(|| format!("{why}"));
            Ok(None)
        }
    }
}

/// Why a way is not used: this worker's own reason, or that another one cannot, which knows why.
fn cannot<T>(way: &str, rank: usize, found: Result<T>, other: Option<usize>) -> Result<T> {
    match other {
        Some(worker) if worker != rank && found.is_ok() => Err(Error::unsupported(format!(
            "distributed: devices do not send by {way}: worker {worker} cannot use it; it tells why"
        ))),
        _ => found,
    }
}

/// Meets all others by NCCL; the reason if one of them cannot.
fn join<B: Backend>(
    all: &mut Exchange<'_>,
    device: &B::Device,
    hellos: &[Hello],
    found: Result<(&'static Library, UniqueId)>,
) -> Result<Result<(Nccl, String)>> {
    let rank = all.rank;
    let library = match cannot("NCCL", rank, found, hellos.iter().position(|h| !h.nccl.can)) {
        Ok((library, _)) => library,
        Err(why) => return Ok(Err(why)),
    };
    let first_of = |h: &Hello| hellos.iter().position(|other| other.place == h.place).unwrap_or(0);
    if let Some((other, worker)) =
        hellos.iter().enumerate().map(|(i, h)| (first_of(h), i)).find(|(first, i)| first != i)
    {
        return Ok(Err(Error::unsupported(format!(
            "distributed: workers {other} and {worker} have one device, and NCCL sends from one to another"
        ))));
    }
    let joined = nccl::join::<B>(all, device, library, UniqueId(hellos[0].id));
    // Those for which it failed know why; the others are to go the same way.
    let mine = [u8::from(joined.is_ok())];
    let done = all.exchange(|_| vec![&mine], |_| mine.len())?;
    let failed = (0..all.size).find(|worker| *worker != rank && done.of(*worker)[0] == 0);
    Ok(joined.and_then(|nccl| match cannot("NCCL", rank, Ok(()), failed) {
        Ok(()) => Ok((nccl, library.name())),
        Err(why) => {
            nccl.abandon();
            Err(why)
        }
    }))
}

/// Vectors for other workers, and of how many elements each comes from which: the latter, in their
/// order. All are sent and have come when this returns.
pub(crate) fn swap<B: Backend>(
    all: &mut Exchange<'_>,
    device: &B::Device,
    dtype: DType,
    sends: &[(usize, Array<B>)],
    receives: &[(usize, usize)],
) -> Result<Vec<Array<B>>> {
    let link = all.devices.expect("workers have met");
    let piece = |worker: usize, n: usize| Piece { worker, bytes: n * dtype.size() };
    let out: Vec<Piece> = sends.iter().map(|(w, x)| piece(*w, x.shape().numel())).collect();
    let into: Vec<Piece> = receives.iter().map(|(w, n)| piece(*w, *n)).collect();
    let reads: Vec<&Array<B>> = sends.iter().map(|(_, x)| x).collect();
    let writes: Vec<(DType, usize)> = receives.iter().map(|(_, n)| (dtype, *n)).collect();
    all.sent.messages += out.iter().filter(|p| p.bytes > 0).count() as u64;
    all.sent.bytes += out.iter().map(|p| p.bytes as u64).sum::<u64>();
    match &link.way {
        Way::Nccl(nccl) => nccl::swap(nccl, all.until, device, &reads, &writes, [&out, &into]),
        Way::Mpi => mpi::swap(all, device, &reads, &writes, [&out, &into]),
    }
}
