//! Arrays that a library of the device's vendor reads and writes.

use super::{Array, one_device};
use crate::backend::{Backend, View};
use crate::recording;
use elinvar_core::{DType, NativeWork, Result, Shape};

impl<B: Backend> Array<B> {
    /// Has `work` give work to this thread's stream by another library: see
    /// [`Streams::lend`](crate::backend::Streams::lend). Gives what it writes: vectors of so many
    /// elements of a dtype. The work may still be under way.
    ///
    /// # Errors
    /// Those of `work`; `DeviceMismatch`; `Unsupported` in a function that is recorded;
    /// `OutOfMemory`, `DeviceLost`.
    pub fn lend(
        device: &B::Device,
        reads: &[&Array<B>],
        writes: &[(DType, usize)],
        work: NativeWork<'_>,
    ) -> Result<Option<Vec<Array<B>>>> {
        recording::refuse("work of another library")?;
        if !reads.is_empty() {
            one_device("lend", reads)?;
        }
        let views: Vec<View<'_, B>> = reads.iter().map(|x| x.view()).collect();
        let Some(buffers) = B::lend(device, &views, writes, work)? else { return Ok(None) };
        let one = |(buffer, &(dtype, n)): (B::Buffer, &(DType, usize))| {
            Ok(Array::new(device, buffer, Shape::new(&[n])?, dtype))
        };
        buffers.into_iter().zip(writes).map(one).collect::<Result<_>>().map(Some)
    }
}
