//! Runtime: the device, thread pool, parallel loops, pooled tensor memory, scratch buffers, and
//! partitions of uninitialised output.

pub(crate) mod device;
mod huge_pages;
mod job_board;
pub(crate) mod memory;
pub(crate) mod memory_limit;
pub(crate) mod output;
pub(crate) mod parallel;
pub(crate) mod plan;
pub(crate) mod scratch;
pub(crate) mod thread_pool;
mod wait;
