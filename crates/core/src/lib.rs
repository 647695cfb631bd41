//! The types that every other crate of elinvar shares: element types, shapes and layouts, host
//! memory, errors, random numbers, and the order of summation. Nothing here computes on tensors.

pub mod clock;
pub mod dtype;
pub mod error;
pub mod explain;
pub mod host;
pub mod host_vec;
pub mod layout;
pub mod memory;
pub mod native;
pub mod order;
pub mod philox;
pub mod precision;
pub mod profile;
pub mod ready;
pub mod rounding;
pub mod scalar;
pub mod settings;
pub mod shape;
pub mod small;
pub mod storage;

pub use dtype::{DType, Element};
pub use error::{Error, ErrorKind, Result};
pub use half::{bf16, f16};
pub use host::{HostData, HostTensor};
pub use host_vec::HostVec;
pub use layout::Layout;
pub use memory::MemoryStats;
pub use native::{NativeQueue, NativeWork};
pub use precision::Precision;
pub use scalar::Scalar;
pub use settings::{Autotune, DeviceKind, Setting, Settings, Validation};
pub use shape::{Dims, Shape};
pub use small::Small;
pub use storage::types::*;
pub use storage::{Format, Storage};
