//! What kernels run on: threads and the jobs that they share, memory for tensors and for use in between, and results that are written once.

mod huge_pages;
mod job_board;
pub(crate) mod memory;
pub(crate) mod output;
pub(crate) mod parallel;
pub(crate) mod scratch;
pub(crate) mod thread_pool;
