//! Memory of a device: buffers, transfers, copies.

use super::{DeviceOf, View};
use crate::casting::Casting;
use elinvar_core::{DType, HostData, Layout, MemoryStats, Result, Scalar, Shape};
use std::fmt::{Debug, Display};

/// Where tensors are stored. See [the rules](super).
pub trait Memory: Sized + Clone + Copy + Debug + Default + Send + Sync + 'static {
    /// A device of this backend, as a handle. Cheap to clone.
    type Device: DeviceOf<Backend = Self>
        + Clone
        + Debug
        + Display
        + PartialEq
        + Default
        + Send
        + Sync
        + 'static;
    /// Device memory that holds elements of one dtype. Freed when dropped.
    type Buffer: Debug + Send + Sync + 'static;
    /// The backend's name, as in `--device NAME`.
    const NAME: &'static str;

    /// Copies host memory to the device.
    fn upload(d: &Self::Device, data: HostData) -> Result<Self::Buffer>;
    /// Copies a view to the host, in row-major order, and waits for it.
    fn download(d: &Self::Device, x: View<'_, Self>) -> Result<HostData>;
    /// Copies a view on one device, made contiguous, to another device of this backend, without
    /// passing through the host. `None` if devices of this backend cannot do that, or if it is the
    /// same device.
    fn receive(d: &Self::Device, from: &Self::Device, x: View<'_, Self>) -> Result<Option<Self::Buffer>>;
    /// Waits until this buffer is computed. Work that a backend has deferred until its result is
    /// read is run here.
    fn finish(d: &Self::Device, buffer: &Self::Buffer) -> Result<()>;
    /// Waits until all work submitted to the device is done.
    fn synchronize(d: &Self::Device) -> Result<()>;
    /// Memory used by this device's tensors.
    ///
    /// # Errors
    /// `Unsupported` if the backend does not count it.
    fn memory_stats(d: &Self::Device) -> Result<MemoryStats>;
    /// Limits the memory of this device's tensors, in bytes; allocations beyond it fail with
    /// `OutOfMemory`.
    ///
    /// # Errors
    /// `Unsupported` if the backend does not count it.
    fn set_memory_limit(d: &Self::Device, limit: Option<u64>) -> Result<()>;
    /// Returns cached memory that no tensor uses to the system.
    fn release_memory(d: &Self::Device) -> Result<()>;
    /// Prepacks a matrix \[k, n\]: keeps a copy of it, packed in the order in which products read
    /// their right operand, until its memory is freed or changed. Products with a view of the same
    /// elements at the same addresses then read the copy; no bit of them changes. Returns whether
    /// there is such a copy now: a backend need not keep one.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn prepack(d: &Self::Device, w: View<'_, Self>) -> Result<bool>;
    /// `len` copies of a value.
    fn fill(d: &Self::Device, value: Scalar, dtype: DType, len: usize) -> Result<Self::Buffer>;
    /// The view, contiguous, bit for bit.
    fn copy(d: &Self::Device, x: View<'_, Self>) -> Result<Self::Buffer>;
    /// The view, contiguous, as another (or the same) dtype. Floats round once to nearest even
    /// (also i64 to bf16 and f64 to f16, which must not pass through a rounded f32), and overflow
    /// to infinity; float to integer truncates towards zero and saturates (NaN: 0); integer to
    /// integer wraps; to bool: `x != 0`. The same dtype keeps every bit.
    ///
    /// # Errors
    /// `OutOfMemory`; a backend may refuse conversions that `C` does not include.
    fn cast<C: Casting>(d: &Self::Device, x: View<'_, Self>, to: DType) -> Result<Self::Buffer>;
    /// A new tensor of `shape` filled with `fill`, into which the parts are written one after the
    /// other; each part's layout is a view into the new tensor, of the part's shape.
    fn assemble(
        d: &Self::Device,
        fill: Scalar,
        dtype: DType,
        shape: &Shape,
        parts: &[(View<'_, Self>, Layout)],
    ) -> Result<Self::Buffer>;
    /// Copies a view into memory that is there, in place, bit for bit: its elements become those of
    /// `at`, a layout in `to` of the view's shape that reaches no element twice. `to` holds
    /// elements of the view's dtype and is not shared: this `&mut` is the only access to it. Its
    /// other elements stay what they are.
    ///
    /// # Errors
    /// `OutOfMemory`; what the device reports. After an error the elements of `at` are old or new.
    fn write(d: &Self::Device, to: &mut Self::Buffer, at: &Layout, x: View<'_, Self>) -> Result<()>;
}

/// How a backend hands this work on, for [`delegate`](super::delegate): for each method its kind if
/// it has values, its operands (`view`, `views`, `maybe`, `buffer`, or the type of another value)
/// and its results with dtype and number of elements (`one`, `two`, ...), or their type if they are
/// passed as they are (`plain`) or by a function of that module (`hand`).
#[doc(hidden)]
#[macro_export]
macro_rules! memory_table {
    ([$($then:tt)*] $($given:tt)*) => {
        $($then)*! {
            ($($given)*)
            values {
                Upload upload [] (data: ($crate::t::HostData)) -> hand ($crate::t::Result<Self::Buffer>);
                Download download [] (x: view) -> hand ($crate::t::Result<$crate::t::HostData>);
                Fill fill [] (value: ($crate::t::Scalar), dtype: ($crate::t::DType), len: (usize))
                    -> one [(dtype, len)];
                Copy copy [] (x: view) -> one [(x.dtype, x.shape().numel())];
                Assemble assemble [] (
                    fill: ($crate::t::Scalar), dtype: ($crate::t::DType), shape: (&$crate::t::Shape),
                    parts: (&[($crate::t::View<'_, Self>, $crate::t::Layout)])
                ) -> hand ($crate::t::Result<Self::Buffer>);
            }
            others {
                cast [C: $crate::t::Casting] (x: view, to: ($crate::t::DType))
                    -> hand ($crate::t::Result<Self::Buffer>);
                finish [] (x: buffer) -> plain ($crate::t::Result<()>);
                synchronize [] () -> plain ($crate::t::Result<()>);
                memory_stats [] () -> plain ($crate::t::Result<$crate::t::MemoryStats>);
                set_memory_limit [] (limit: (Option<u64>)) -> plain ($crate::t::Result<()>);
                release_memory [] () -> plain ($crate::t::Result<()>);
                prepack [] (w: view) -> plain ($crate::t::Result<bool>);
                write [] (to: (&mut Self::Buffer), at: (&$crate::t::Layout), x: view)
                    -> hand ($crate::t::Result<()>);
            }
        }
    };
}
