//! Convolution of bf16 on processors with bf16 dot products: `Precision::Fast`.
//!
//! Two neighbouring channels become a pair in the bits of an f32, and from there on a pair of
//! channels is a channel: the same tiles and threads, with a register whose fma takes both terms.
//! Each element of the result is still one chain, whose order is a function of shapes; a chunk has
//! twice as many terms. For the gradient by weight, whose terms are positions of all images, two
//! neighbouring images become one.

use super::plan::PAIRING_TASK_ELEMENTS;
use crate::CpuDevice;
use crate::elementwise::real::{Real, StoredElements, stored_elements};
use crate::gemm::bf16_pair;
use crate::layout::copy::elements;
use crate::runtime::memory::PooledVec;
use crate::runtime::output::parallel_fill::fill_pieces;
use crate::view::View;
use elinvar_core::host::filled;
use elinvar_core::{HostVec, Result, bf16};
use elinvar_ops::lane::LaneInt;
use elinvar_simd::isa::{IsaTargets, Kernel, dispatch};

/// Writes what two planes have side by side.
struct PairPlanes<'a, T, S, F> {
    first: &'a [S],
    second: &'a [S],
    pair: F,
    to: &'a mut [T],
}

impl<T, S: Copy, F: Fn(S, S) -> T> Kernel for PairPlanes<'_, T, S, F> {
    type Out = ();
    const TARGETS: IsaTargets = IsaTargets::Avx512Bf16;
    #[inline(always)]
    fn run(self) {
        for ((to, first), second) in self.to.iter_mut().zip(self.first).zip(self.second) {
            *to = (self.pair)(*first, *second);
        }
    }
}

/// Batches of `planes` planes of `size` elements, as half as many of pairs; the last plane of an
/// odd number has zeros beside it.
fn pair_planes<T: Real, S: Copy + Sync>(
    d: &CpuDevice,
    x: &[S],
    (planes, size): (usize, usize),
    zero: S,
    pair: impl Fn(S, S) -> T + Copy + Sync,
) -> Result<HostVec<T>> {
    let half = planes.div_ceil(2);
    let zeros = if planes.is_multiple_of(2) { Vec::new() } else { filled(size, zero)? };
    let len = x.len() / (planes * size).max(1) * half * size;
    fill_pieces(d, len, size * (PAIRING_TASK_ELEMENTS / size.max(1)).max(1), 0.3, &|start, dst| {
        let first = start / size;
        for plane in first..first + dst.remaining() / size {
            let at = (plane / half * planes + plane % half * 2) * size;
            let is_last = 2 * (plane % half) + 1 == planes;
            let first = &x[at..at + size];
            let second = if is_last { &zeros } else { &x[at + size..at + 2 * size] };
            dispatch(d.isa(), PairPlanes { first, second, pair, to: dst.zeroed(size, T::ZERO) });
        }
        Ok(())
    })
}

/// A view of bf16 as batches of planes of pairs.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn of_view<T: Real>(
    d: &CpuDevice,
    v: &View<'_>,
    planes: usize,
    size: usize,
) -> Result<PooledVec<T>> {
    let StoredElements::BF16(data) = stored_elements::<T>(v.buffer)? else {
        unreachable!("the plan saw that they are bf16");
    };
    let bits = |x: bf16| i64::from(x.to_bits());
    let pair = |a, b| T::from_bits(LaneInt::lit(bits(a) | bits(b) << 16));
    pair_planes(d, &elements(d, data, v.layout)?, (planes, size), bf16::ZERO, pair).map(PooledVec::of)
}

/// Numbers that are bf16, in the upper halves of f32, as batches of planes of pairs.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn of_numbers<T: Real>(
    d: &CpuDevice,
    x: &[T],
    planes: usize,
    size: usize,
) -> Result<PooledVec<T>> {
    pair_planes(d, x, (planes, size), T::ZERO, bf16_pair::<T>).map(PooledVec::of)
}
