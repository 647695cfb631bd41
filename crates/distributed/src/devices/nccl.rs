//! By NCCL: it gives its sends and receives to the device's queue.

use super::{Lent, lent};
use crate::exchange::Exchange;
use crate::transport::Piece;
use crate::transport::nccl::{ID_BYTES, Library, Nccl, UniqueId};
use elinvar_core::{DType, Error, Result};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use std::time::{Duration, Instant};

/// Time for all to meet.
const MEETING: Duration = Duration::from_secs(60);

/// The library, if this device can be used with it, and on worker 0 an id for all.
pub(super) fn offer<B: Backend>(
    all: &Exchange<'_>,
    device: &B::Device,
) -> Result<(&'static Library, UniqueId)> {
    match lent::<B>(device)? {
        Some(Lent { driver: "cuda", .. }) => {}
        _ => {
            return Err(Error::unsupported(format!(
                "distributed: NCCL sends what CUDA devices have, and this worker's device is {device}"
            )));
        }
    }
    let library = Library::load()?;
    let id = if all.rank == 0 { library.unique_id()? } else { UniqueId([0; ID_BYTES]) };
    Ok((library, id))
}

/// Meets all others, with the id that worker 0 has made.
pub(super) fn join<B: Backend>(
    all: &mut Exchange<'_>,
    device: &B::Device,
    library: &'static Library,
    id: UniqueId,
) -> Result<Nccl> {
    let until = all.until.min(Instant::now() + MEETING);
    let (own, gone) = (device.clone(), all.transport().watch());
    let enter = move || lent::<B>(&own).map(drop);
    Nccl::join(library, id, [all.rank, all.size], enter, gone, until)
}

/// See [`super::swap`].
pub(super) fn swap<B: Backend>(
    nccl: &Nccl,
    until: Instant,
    device: &B::Device,
    reads: &[&Array<B>],
    writes: &[(DType, usize)],
    [sends, receives]: [&[Piece]; 2],
) -> Result<Vec<Array<B>>> {
    nccl.within(until, || {
        let mut give = |queue: elinvar_core::NativeQueue<'_>| nccl.give(queue, sends, receives);
        let lent = Array::lend(device, reads, writes, &mut give)?;
        let y = lent.ok_or_else(|| Error::unsupported("distributed: the device is no longer lent"))?;
        // A device that waits for a worker that is gone would wait without end; who watches sees
        // only what is waited for.
        B::current_stream(device)?.record()?.wait()?;
        Ok(y)
    })
}
