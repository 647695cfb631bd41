//! The plan of split-K: do the chunks of a product or of a convolution have workgroups of their
//! own, and how are their sums joined?

use crate::launch::ComputeUnits;
use elinvar_core::{DType, order};

/// Workgroups of a tile of 256 invocations that keep a compute unit busy: with as many, chunks
/// follow one another instead of having workgroups of their own.
pub(in crate::gemm) const SIMT_GROUPS_PER_UNIT: u32 = 4;
/// The same of f64 tensor cores, whose registers leave room for one.
pub(in crate::gemm) const F64_MMA_GROUPS_PER_UNIT: u32 = 1;
/// Subgroups that keep the tensor cores of a compute unit busy: one for each of its four
/// schedulers.
pub(crate) const SUBGROUPS_PER_UNIT: u32 = 4;
/// Invocations of split-K's reduction that keep the memory of a compute unit busy.
const REDUCE_THREADS_PER_UNIT: u32 = 256;
/// Elements of the sums of chunks, at most: what may be taken for a while to be faster.
const MAX_PARTIAL_SUM_ELEMENTS: usize = 1 << 25;

/// The chunks of a product `[b, m, n, k]` that have workgroups of their own, in tiles of so many
/// rows and columns of which so many keep each compute unit busy; `None`: they follow one another.
pub(in crate::gemm) fn split_k_chunks(
    [b, m, n, k]: [usize; 4],
    dtype: DType,
    size: [u32; 2],
    (units, per_unit): (ComputeUnits, u32),
) -> Option<usize> {
    let groups = b * m.div_ceil(size[0] as usize) * n.div_ceil(size[1] as usize);
    let (chunks, len) = (k.div_ceil(order::CHUNK), b * m * n);
    let is_worth = dtype.is_float() && worth_split_k(groups, units.filled_by(per_unit), chunks, len);
    is_worth.then_some(chunks)
}

/// Is it worth while to give each of `chunks` of `len` elements workgroups of its own, if the work
/// without has `groups`, and so many of them keep a device busy?
pub(crate) fn worth_split_k(groups: usize, busy: usize, chunks: usize, len: usize) -> bool {
    chunks > 1 && groups < busy && can_split_k(chunks, len)
}

/// Is there memory for the sums of chunks?
pub(crate) fn can_split_k(chunks: usize, len: usize) -> bool {
    chunks.saturating_mul(len) <= MAX_PARTIAL_SUM_ELEMENTS
}

/// Elements of the sums of chunks that an invocation of their reduction takes: four, where the
/// device is busy with fewer invocations.
pub(in crate::gemm) fn reduce_width(len: usize, units: ComputeUnits) -> u8 {
    let fills =
        |width: usize| len.is_multiple_of(width) && len / width >= units.filled_by(REDUCE_THREADS_PER_UNIT);
    if fills(4) { 4 } else { 1 }
}
