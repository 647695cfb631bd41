//! Captured work: recorded once, replayed without its overhead.

use super::{Memory, View};
use elinvar_core::Result;
use std::fmt::Debug;

/// Work to be captured: it passes each result buffer to the callback that it gets.
pub type Recorded<'a, B> = dyn FnMut(&mut dyn FnMut(&<B as Memory>::Buffer) -> Result<()>) -> Result<()> + 'a;

/// Captures work and replays it. See [the rules](super).
pub trait Capture: Memory {
    /// Captured work, to be replayed. Keeps everything it needs alive until it is dropped.
    type Graph: Debug + Send + Sync + 'static;

    /// Runs `work` and captures the work that it submits to this device in this thread, without
    /// running it. `None`, and `work` was not run, if replaying would save nothing on this backend:
    /// the caller then runs the function each time.
    ///
    /// `work` creates inputs by [`Capture::input`], and passes each result buffer to the callback
    /// that it gets.
    ///
    /// # Errors
    /// Those of `work`; `Unsupported` if it reads values; `InvalidArgument` if tensors outlive it
    /// that are not results.
    fn record(d: &Self::Device, work: &mut Recorded<'_, Self>) -> Result<Option<Self::Graph>>;
    /// A contiguous copy of `x`, for captured work to read. `before`: the buffer of the same input
    /// in an earlier capture, so that known properties of the values hold for both.
    fn input(d: &Self::Device, x: View<'_, Self>, before: Option<&Self::Buffer>) -> Result<Self::Buffer>;
    /// Replays captured work, after each input was overwritten by a view of its size. `false`, and
    /// nothing was done, if the capture depends on other values (such as the range of an index).
    fn replay(d: &Self::Device, g: &Self::Graph, inputs: &[(View<'_, Self>, &Self::Buffer)]) -> Result<bool>;
    /// An identifier of this memory, unique as long as it is held by this buffer or by captured
    /// work.
    fn memory_id(d: &Self::Device, buffer: &Self::Buffer) -> Result<usize>;
    /// Prepares memory that captured work changes in place, each time before it is captured or
    /// replayed: deferred work that would read it later keeps a copy of the elements, and nothing
    /// is known of their values any more. The elements may move to other memory.
    ///
    /// # Errors
    /// `OutOfMemory`, after which the buffer is as it was.
    fn make_unique(d: &Self::Device, buffer: &mut Self::Buffer) -> Result<()>;
}

/// Writes [`Capture`] for a backend on which replaying saves nothing, or would pass by what it does
/// with results: `impl [generics] Backend`.
#[macro_export]
macro_rules! without_capture {
    (impl [$($g:tt)*] $backend:ty) => {
        impl<$($g)*> $crate::backend::Capture for $backend {
            type Graph = std::convert::Infallible;
            fn record(_: &Self::Device, _: &mut $crate::t::Recorded<'_, Self>) -> $crate::t::Result<Option<Self::Graph>> {
                Ok(None)
            }
            fn input(
                d: &Self::Device,
                x: $crate::t::View<'_, Self>,
                _: Option<&Self::Buffer>,
            ) -> $crate::t::Result<Self::Buffer> {
                <Self as $crate::backend::Memory>::copy(d, x)
            }
            fn replay(
                _: &Self::Device,
                g: &Self::Graph,
                _: &[($crate::t::View<'_, Self>, &Self::Buffer)],
            ) -> $crate::t::Result<bool> {
                match *g {}
            }
            fn memory_id(_: &Self::Device, buffer: &Self::Buffer) -> $crate::t::Result<usize> {
                Ok(std::ptr::from_ref(buffer).addr())
            }
            fn make_unique(_: &Self::Device, _: &mut Self::Buffer) -> $crate::t::Result<()> {
                Ok(())
            }
        }
    };
}
