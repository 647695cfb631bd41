//! Reading many tensors: at once for callers that may wait for a device, and as a future for those
//! that may not.
//!
//! What reads is written once, with the reading left to a function ([`Reader`]). As a future it
//! runs twice: to tell what it reads, and with what was read. So it reads the same tensors in the
//! same order each time, and changes nothing.

use elinvar_core::{Error, HostData, HostTensor, Result};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use elinvar_tensor::Tensor;

/// Gives the elements of a tensor.
pub type Reader<'r, B> = dyn FnMut(&Array<B>) -> Result<HostTensor> + 'r;

/// How elements come to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    /// They are waited for: a future of this is ready at once.
    Waited,
    /// As futures of the device.
    Awaited,
}

impl Reads {
    /// What `read` makes of the tensors that it reads.
    ///
    /// # Errors
    /// Those of `read`; what a device reports.
    pub async fn all<B: Backend, T>(self, read: impl Fn(&mut Reader<'_, B>) -> Result<T>) -> Result<T> {
        if self == Reads::Waited {
            return read(&mut |x| x.to_host());
        }
        let mut wanted = Vec::new();
        read(&mut |x| {
            wanted.push(x.clone());
            let zeros = HostData::full(x.dtype(), x.shape().numel(), 0.into())?;
            HostTensor::new(x.shape().clone(), zeros)
        })?;
        let mut got = Vec::with_capacity(wanted.len());
        for x in wanted {
            got.push(Tensor::from_array(x).to_host_async().await?);
        }
        let mut got = got.into_iter();
        read(&mut |_| got.next().ok_or_else(|| Error::argument("reading: more tensors than the first time")))
    }
}
