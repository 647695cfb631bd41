//! Which devices there are, and `Any`: the backend that is chosen at run time.
//!
//! [`Any`] is an enum over the backends of this build. It implements [`Backend`](elinvar_ops::Backend) by matching
//! on the device once per kind of work, so `Tensor<Any>` runs everything that `Tensor<Reference>` does.

mod any;
mod device;
mod probe;

pub use any::{Any, AnyBuffer, Device};
pub use device::{DeviceInfo, devices};
pub use probe::{Exactness, probe};
