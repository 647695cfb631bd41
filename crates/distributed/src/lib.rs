//! Several workers that compute one result, with bits that do not depend on how many there are.
//!
//! A run fixes a number of shards, a power of two. The sum over shards is a balanced binary tree,
//! neighbours first; workers have contiguous runs of shards and send sums of whole subtrees
//! ([`tree`]). No sum is left to a library.
//!
//! What CUDA devices have goes from one to the other by NCCL, or by an MPI library that takes their
//! addresses, where all workers can ([`Group::meet_devices`]); the sums are then made on the
//! devices, in the same tree. Messages go by an MPI library that is loaded at run time, by TCP, or
//! between threads (`transport`); a process learns from its launcher's variables which worker it is
//! ([`Group::init`]).

mod arrays;
mod devices;
mod element;
mod exchange;
mod group;
mod launcher;
mod message;
mod shares;
mod slices;
mod tensors;
mod transport;
pub mod tree;

pub use element::{Element, Number};
pub use exchange::Traffic;
pub use group::Group;
pub use launcher::{Launch, launch, local_rank};
pub use shares::Shares;
pub use tree::{Runs, TreeSum};
