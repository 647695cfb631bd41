//! The way from device to device: when there is one, and a round of sends and receives over it.
//!
//! All workers must find the same: so each tells the others whether it can, and only if all can is
//! it used. What a call is, and that all make the same, is checked over the other transport.

use crate::Group;
use crate::device_link::DeviceLink;
use crate::exchange::Exchange;
use crate::group::Wish;
use crate::message::{Call, Kind};
use crate::transport::nccl::{ID_BYTES, Library, Nccl, Piece, UniqueId};
use elinvar_core::explain::explain;
use elinvar_core::{DType, Error, Result};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use std::time::{Duration, Instant};

/// Time for all to meet by NCCL.
const MEETING: Duration = Duration::from_secs(60);
/// What a worker says before: can it, does it insist, and worker 0's id.
const HELLO: usize = 2 + ID_BYTES;

/// The library, if this device can be used with it.
fn library<B: Backend>(device: &B::Device) -> Result<&'static Library> {
    let mut driver = "";
    let lent = Array::<B>::lend(device, &[], &[], &mut |queue| {
        driver = queue.driver;
        Ok(())
    })?;
    if lent.is_none() || driver != "cuda" {
        return Err(Error::unsupported(format!(
            "distributed: NCCL sends what CUDA devices have, and this worker's device is {device}"
        )));
    }
    Library::load()
}

impl Group {
    /// Finds out, once, whether the workers' devices can send each other what they have, and is a
    /// call as all others: each worker makes it with its own device. Calls with tensors make it by
    /// themselves. It is NCCL if all devices are CUDA's, and all workers find the library; then
    /// numbers of this device do not pass through host memory. `ELINVAR_NCCL=0` goes without,
    /// `ELINVAR_NCCL=1` makes it an error that a worker cannot.
    ///
    /// # Errors
    /// As [`Group::barrier`]; `DriverMissing` or `Unsupported`, with the reason, if it is asked for
    /// and cannot be used.
    pub fn meet_devices<B: Backend>(&self, device: &B::Device) -> Result<()> {
        let Some(wish) = self.take_wish() else { return Ok(()) };
        let call = Call { kind: Kind::Devices, dtype: DType::U8, count: 0, with: 0, shape: 0 };
        let met = self.call(call, |all| meet::<B>(all, device, wish));
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

fn meet<B: Backend>(all: &mut Exchange<'_>, device: &B::Device, wish: Wish) -> Result<Option<DeviceLink>> {
    let library = match wish {
        Wish::Never => Err(Error::argument("distributed: ELINVAR_NCCL=0 does not allow NCCL here")),
        Wish::IfThere | Wish::Always => library::<B>(device),
    };
    let id = match &library {
        Ok(library) if all.rank == 0 => library.unique_id(),
        _ => Ok(UniqueId([0; ID_BYTES])),
    };
    let found = library.and_then(|library| Ok((library, id?)));
    let mut hello = vec![u8::from(found.is_ok()), u8::from(wish == Wish::Always)];
    hello.extend(found.as_ref().map_or([0; ID_BYTES], |(_, id)| id.0));
    let others = all.exchange(|_| vec![&hello], |_| HELLO)?;
    let (rank, size) = (all.rank, all.size);
    let of = |worker: usize| if worker == rank { &hello[..] } else { others.of(worker) };
    let is_asked_for = (0..size).any(|worker| of(worker)[1] == 1);
    if let Some(worker) = (0..size).find(|worker| of(*worker)[0] == 0) {
        return without(is_asked_for, worker, found.err());
    }
    let (library, _) = found?;
    let id = UniqueId(std::array::from_fn(|i| of(0)[2 + i]));
    let until = all.until.min(Instant::now() + MEETING);
    let (own, gone) = (device.clone(), all.transport().watch());
    let enter = move || Array::<B>::lend(&own, &[], &[], &mut |_| Ok(())).map(drop);
    let joined = Nccl::join(library, id, [rank, size], enter, gone, until);
    // Those for which it failed know why; the others are to go the same way.
    let mine = [u8::from(joined.is_ok())];
    let done = all.exchange(|_| vec![&mine], |_| mine.len())?;
    let failed = (0..size).find(|worker| *worker != rank && done.of(*worker)[0] == 0);
    match (joined, failed) {
        (Ok(nccl), None) => {
            let (name, device, stream) = (library.name(), Box::new(device.clone()), B::stream(device)?);
            Ok(Some(DeviceLink { nccl, name, device, stream }))
        }
        (Ok(nccl), Some(worker)) => {
            nccl.abandon();
            without(is_asked_for, worker, None)
        }
        (Err(e), _) => without(is_asked_for, rank, Some(e)),
    }
}

/// There is no way between devices, because of a worker, which knows why.
fn without(is_asked_for: bool, worker: usize, why: Option<Error>) -> Result<Option<DeviceLink>> {
    let why = why.unwrap_or_else(|| {
        Error::unsupported(format!(
            "distributed: ELINVAR_NCCL=1 asks for NCCL, and worker {worker} cannot use it; it tells why"
        ))
    });
    if is_asked_for {
        return Err(why);
    }
    explain(|| format!("{why}"));
    Ok(None)
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
    let bytes = |n: usize| n * dtype.size();
    let piece = |worker: usize, n: usize| Piece { worker, bytes: bytes(n) };
    let out: Vec<Piece> = sends.iter().map(|(w, x)| piece(*w, x.shape().numel())).collect();
    let into: Vec<Piece> = receives.iter().map(|(w, n)| piece(*w, *n)).collect();
    let reads: Vec<&Array<B>> = sends.iter().map(|(_, x)| x).collect();
    let writes: Vec<(DType, usize)> = receives.iter().map(|(_, n)| (dtype, *n)).collect();
    all.sent.messages += out.iter().filter(|p| p.bytes > 0).count() as u64;
    all.sent.bytes += out.iter().map(|p| p.bytes as u64).sum::<u64>();
    link.nccl.within(all.until, || {
        let mut give = |queue: elinvar_core::NativeQueue<'_>| link.nccl.give(queue, &out, &into);
        let lent = Array::lend(device, &reads, &writes, &mut give)?;
        let y = lent.ok_or_else(|| Error::unsupported("distributed: the device is no longer lent"))?;
        // A device that waits for a worker that is gone would wait without end; who watches sees
        // only what is waited for.
        B::current_stream(device)?.record()?.wait()?;
        Ok(y)
    })
}
