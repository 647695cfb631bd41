//! Random numbers: Philox counter blocks in vector lanes, then the values of the distribution.
//!
//! An element depends on its index alone, so a block of results is computed from exactly its own
//! words of the stream, whichever thread does it.

use super::convert::ComputeElement;
use super::real::{Real, word64};
use crate::runtime::output::parallel_fill::{CostHint, FillFrom, parallel_fill};
use crate::view::misuse_error;
use crate::{CpuDevice, Isa};
use elinvar_core::philox::{Stream, philox4x32};
use elinvar_core::{DType, HostData, Result, Scalar, each_dtype, storage};
use elinvar_ops::backend::Random;
use elinvar_ops::lane::Lane;
use elinvar_ops::math;
use elinvar_ops::random::{Interval, uniform};
use elinvar_reference::Cell;
use elinvar_simd::isa::{Kernel, dispatch};
use elinvar_simd::scalar_lane::ScalarLane;
use elinvar_simd::uninit::{BLOCK_ELEMENTS, UninitSlice};

/// Words of a stream: those of [`BLOCK_ELEMENTS`] elements of 64 bits.
type BlockWords = [u32; 2 * BLOCK_ELEMENTS];

/// `len` random numbers.
pub(crate) fn random(d: &CpuDevice, r: Random, s: Stream, dtype: DType, len: usize) -> Result<HostData> {
    match r {
        Random::Uniform { low, high } => match (dtype, Interval::of(low, high, dtype).numbers()) {
            (DType::F32 | storage!(DType), interval) => {
                floats::<f32>(d, s, dtype, len, Distribution::Uniform(interval.map(|v| v as f32)))
            }
            (DType::F64, interval) => floats::<f64>(d, s, dtype, len, Distribution::Uniform(interval)),
            (DType::I64 | DType::I32 | DType::U8 | DType::Bool, _) => {
                Err(misuse_error("a uniform number", dtype))
            }
        },
        Random::Normal { mean, std } => match dtype {
            DType::F32 | storage!(DType) => {
                floats::<f32>(d, s, dtype, len, Distribution::Normal { mean: mean as f32, std: std as f32 })
            }
            DType::F64 => floats::<f64>(d, s, dtype, len, Distribution::Normal { mean, std }),
            DType::I64 | DType::I32 | DType::U8 | DType::Bool => Err(misuse_error("a normal number", dtype)),
        },
        Random::Bernoulli { p } => each_dtype!(dtype, T => flips::<T>(d, p, s, len)),
        Random::Int { low, high } => each_dtype!(dtype, T => whole::<T>(d, low, high, s, len)),
    }
}

/// The words from number `first`, a multiple of 4, on.
struct PhiloxKernel<'a> {
    s: Stream,
    first: u64,
    words: &'a mut [u32],
}

/// Blocks of Philox that are computed together: those of as many words as a block has elements.
const PHILOX_BLOCKS_PER_STEP: usize = BLOCK_ELEMENTS / 4;

impl Kernel for PhiloxKernel<'_> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let key = [self.s.seed as u32, (self.s.seed >> 32) as u32];
        let stream = [self.s.stream as u32, (self.s.stream >> 32) as u32];
        // Word by word first, then in their order: so both loops become vector code.
        let [mut w0, mut w1, mut w2, mut w3] = [[0; PHILOX_BLOCKS_PER_STEP]; 4];
        for (group, out) in self.words.chunks_exact_mut(BLOCK_ELEMENTS).enumerate() {
            let first = self.first / 4 + (group * PHILOX_BLOCKS_PER_STEP) as u64;
            for i in 0..PHILOX_BLOCKS_PER_STEP {
                let j = first + i as u64;
                let four = philox4x32([j as u32, (j >> 32) as u32, stream[0], stream[1]], key);
                [w0[i], w1[i], w2[i], w3[i]] = four;
            }
            for (i, four) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                *four = [w0[i], w1[i], w2[i], w3[i]];
            }
        }
    }
}

/// How numbers are made from words, a whole block at a time.
#[derive(Clone, Copy)]
enum Distribution<C> {
    /// The numbers of an [`Interval`].
    Uniform([C; 4]),
    Normal {
        mean: C,
        std: C,
    },
}

impl<C: Real> Distribution<C> {
    #[inline(always)]
    fn numbers(self, words: &[u32], out: &mut [C; BLOCK_ELEMENTS]) {
        let words = &words[..BLOCK_ELEMENTS * C::RANDOM_WORDS];
        match self {
            Distribution::Uniform(interval) => {
                for (i, y) in out.iter_mut().enumerate() {
                    *y = uniform(C::unit(words, i), interval);
                }
            }
            Distribution::Normal { mean, std } => {
                let (mean, std) = (ScalarLane(mean), ScalarLane(std));
                for (j, y) in out.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                    let first = ScalarLane(C::unit(words, 2 * j));
                    let second = ScalarLane(C::unit(words, 2 * j + 1));
                    let radius = (ScalarLane::lit(-2.0) * (ScalarLane::lit(1.0) - first).log()).sqrt();
                    // Below 2 pi, where the moderate functions have the bits of the others.
                    let angle = ScalarLane::lit(std::f64::consts::TAU) * second;
                    *y = [math::cos_moderate(angle), math::sin_moderate(angle)]
                        .map(|transposed| (radius * transposed).fma(std, mean).0);
                }
            }
        }
    }
}

struct DistributionKernel<'a, C> {
    numbers: Distribution<C>,
    words: &'a [u32],
    out: &'a mut [C; BLOCK_ELEMENTS],
}
impl<C: Real> Kernel for DistributionKernel<'_, C> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        self.numbers.numbers(self.words, self.out);
    }
}

/// Calls `f(words, number of elements, dst)` for blocks of elements that take `each` words.
fn blocks<T: Copy>(
    isa: Isa,
    s: Stream,
    each: usize,
    start: usize,
    dst: &mut UninitSlice<'_, T>,
    mut f: impl FnMut(&[u32], usize, &mut UninitSlice<'_, T>),
) {
    let mut words: BlockWords = [0; 2 * BLOCK_ELEMENTS];
    let mut first = start;
    while dst.remaining() > 0 {
        let n = dst.remaining().min(BLOCK_ELEMENTS);
        let words = &mut words[..BLOCK_ELEMENTS * each];
        dispatch(isa, PhiloxKernel { s, first: (first * each) as u64, words: &mut *words });
        f(words, n, dst);
        first += n;
    }
}

fn floats<C: ComputeElement + Real>(
    d: &CpuDevice,
    s: Stream,
    dtype: DType,
    len: usize,
    numbers: Distribution<C>,
) -> Result<HostData> {
    let make: &FillFrom<'_, C> = &|start, dst| {
        let mut out = [C::ZERO; BLOCK_ELEMENTS];
        blocks(d.isa(), s, C::RANDOM_WORDS, start, dst, |words, n, dst| {
            dispatch(d.isa(), DistributionKernel { numbers, words, out: &mut out });
            dst.copy(&out[..n]);
        });
        Ok(())
    };
    C::stored(d, len, CostHint::Unknown, dtype, make)
}

/// 1 with probability p.
fn flips<T: Cell>(d: &CpuDevice, p: f64, s: Stream, len: usize) -> Result<HostData> {
    // Read by number: a branch would be mispredicted as often as a coin surprises.
    let values = [T::nearest(Scalar::Bool(false)), T::nearest(Scalar::Bool(true))];
    // u < p, as whole numbers: both sides times a power of two.
    let (each, limit) = if T::DTYPE == DType::F64 {
        (2, (p * 2f64.powi(53)).ceil() as u64)
    } else {
        (1, (p * 2f64.powi(24)).ceil() as u64)
    };
    let v = parallel_fill(d, len, BLOCK_ELEMENTS, &|start, dst| {
        blocks(d.isa(), s, each, start, dst, |words, n, dst| {
            // Cut to what is read, so that no check is left in the loops.
            let words = &words[..n * each];
            if each == 1 {
                let limit = limit.min(1 << 24) as u32;
                dst.extend(n, |i| values[usize::from(words[i] >> 8 < limit)]);
            } else {
                dst.extend(n, |i| values[usize::from(word64(words, i) >> 11 < limit)]);
            }
        });
        Ok(())
    })?;
    Ok(T::wrap(v))
}

/// Whole numbers in `low..high`.
fn whole<T: Cell>(d: &CpuDevice, low: i64, high: i64, s: Stream, len: usize) -> Result<HostData> {
    let span = u128::from(high.wrapping_sub(low) as u64);
    let v = parallel_fill(d, len, BLOCK_ELEMENTS, &|start, dst| {
        blocks(d.isa(), s, 2, start, dst, |words, n, dst| {
            dst.extend(n, |i| {
                let drawn = low.wrapping_add(((u128::from(word64(words, i)) * span) >> 64) as i64);
                T::nearest(Scalar::Int(drawn))
            });
        });
        Ok(())
    })?;
    Ok(T::wrap(v))
}
