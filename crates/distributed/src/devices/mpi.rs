//! By an MPI library that takes addresses of devices.
//!
//! It is called by the host and knows nothing of queues, so the device's is waited for before: what
//! is sent has been computed then, and no work that was given before writes where it will write.

use super::{Lent, lent};
use crate::exchange::Exchange;
use crate::transport::{Piece, Swap};
use elinvar_core::{DType, Error, Result};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use std::sync::Arc;

/// Says why this device cannot be used with the transport.
pub(super) fn offer<B: Backend>(all: &mut Exchange<'_>, device: &B::Device) -> Result<()> {
    let Some(Lent { driver, is_shareable }) = lent::<B>(device)? else {
        return Err(Error::unsupported(format!(
            "distributed: MPI sends from device to device what CUDA devices have, and this worker's device is {device}"
        )));
    };
    all.transport().takes_memory_of(driver)?;
    if !is_shareable {
        return Err(Error::unsupported(format!(
            "distributed: memory of {device} is allocated in a stream's order, and MPI libraries cannot share such memory between processes; ELINVAR_CUDA_POOLS=0 allocates other memory"
        )));
    }
    Ok(())
}

/// See [`super::swap`].
pub(super) fn swap<B: Backend>(
    all: &mut Exchange<'_>,
    device: &B::Device,
    reads: &[&Array<B>],
    writes: &[(DType, usize)],
    [sends, receives]: [&[Piece]; 2],
) -> Result<Vec<Array<B>>> {
    // A copy that only the call has would be gone behind it.
    let reads: Vec<Array<B>> = reads.iter().map(|x| x.contiguous()).collect::<Result<_>>()?;
    let mut addresses = vec![];
    let lent = Array::lend(device, &reads.iter().collect::<Vec<_>>(), writes, &mut |queue| {
        addresses = queue.addresses.to_vec();
        Ok(())
    })?;
    let y = lent.ok_or_else(|| Error::unsupported("distributed: the device is no longer lent"))?;
    B::current_stream(device)?.record()?.wait()?;
    let (until, kept) = (all.until, Arc::new((reads, y.clone())));
    let swap = Swap { sends, receives, addresses: &addresses, kept };
    // SAFETY: the addresses were lent for these arrays, in this order, of as many bytes as their
    // pieces have; they are theirs as long as the arrays are kept, which `kept` does. Arrays that
    // are held more than once are not written in place, so what is sent stays as it is, and what is
    // received is shown to no one before this returns. The queue has done all that it was given
    // before, behind all others' work on this memory; asking it has made the device the thread's.
    #[allow(unsafe_code)]
    unsafe { all.transport().swap_memory(swap, until) }?;
    Ok(y)
}
