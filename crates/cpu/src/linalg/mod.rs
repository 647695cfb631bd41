//! Fused steps of factorisations: what the ops compose of a few maps for each column or round, as
//! one pass over each matrix, in a thread's caches.

mod kernels;
mod lu;
mod plan;
mod rotations;
mod row;
mod schedule;
mod triangular;

pub(crate) use lu::lu_factor;
pub(crate) use rotations::rotations;
pub(crate) use triangular::triangular_inverse;
