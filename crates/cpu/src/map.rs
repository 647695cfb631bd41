//! Elementwise work: a formula at every element.
//!
//! A program has hundreds of formulas, so little is compiled for each: one loop over contiguous slices per instruction set
//! and type of computation ([`Formula`]). Everything else is shared. An operand that is not such a slice (strided,
//! broadcast, of 16 bits, bool) goes through blocks that stay in the first-level cache; so does a result that is
//! stored as another type than it is computed in.

use crate::copy;
use crate::isa::formula;
use crate::lane::V;
use crate::operand::{Number, Operand, misuse};
use crate::simd::room::{At, BLOCK, Block, Compute, Room};
use crate::{Cpu, CpuDevice};
use elinvar_core::{DType, Element, HostData, Layout, Result};
use elinvar_ops::View;
use elinvar_ops::int::Int;
use elinvar_ops::lane::Lane;
use elinvar_ops::map::{IntMap, Map, Out};

/// A formula over contiguous operands: fills the room with the results.
type Formula<'a, T, const N: usize> = dyn Fn([&[T]; N], &mut Room<'_, T>) + Sync + 'a;

/// A float formula at every element.
pub(crate) fn map<M: Map<N>, const N: usize>(
    d: &CpuDevice,
    m: &M,
    x: &[View<'_, Cpu>; N],
    dtype: DType,
) -> Result<HostData> {
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => floats::<f32, M, N>(d, m, x, dtype),
        DType::F64 => floats::<f64, M, N>(d, m, x, dtype),
        DType::I64 | DType::I32 | DType::U8 | DType::Bool => Err(misuse(M::NAME, dtype)),
    }
}

/// An integer formula at every element.
pub(crate) fn map_int<M: IntMap<N>, const N: usize>(
    d: &CpuDevice,
    m: &M,
    x: &[View<'_, Cpu>; N],
    dtype: DType,
) -> Result<HostData> {
    match dtype {
        DType::I64 => ints::<i64, M, N>(d, m, x),
        DType::I32 => ints::<i32, M, N>(d, m, x),
        DType::U8 => ints::<u8, M, N>(d, m, x),
        DType::Bool => ints::<bool, M, N>(d, m, x),
        DType::F32 | DType::F64 | DType::F16 | DType::BF16 => Err(misuse(M::NAME, dtype)),
    }
}

/// Element `i` of each operand.
#[inline(always)]
fn operands<T: Element, const N: usize>(x: &[&[T]; N], i: usize) -> [T; N] {
    let mut all = [T::ZERO; N];
    for (a, x) in all.iter_mut().zip(x) {
        *a = x[i];
    }
    all
}

/// A float formula and its operands. The formula is held by value: attributes behind a reference would be read anew for
/// each element.
#[derive(Clone, Copy)]
struct Floats<'a, M, T, const N: usize>(M, [&'a [T]; N]);

impl<M: Map<N>, T: Lane + Element, const N: usize> At<T> for Floats<'_, M, T, N> {
    #[inline(always)]
    fn at(&self, i: usize) -> T {
        self.0.lane(operands(&self.1, i).map(V)).0
    }
    #[inline(always)]
    fn cut(self, n: usize) -> Self {
        Floats(self.0, self.1.map(|x| &x[..n]))
    }
}

fn floats<T: Number + Lane, M: Map<N>, const N: usize>(
    d: &CpuDevice,
    m: &M,
    x: &[View<'_, Cpu>; N],
    dtype: DType,
) -> Result<HostData> {
    blocks::<T, N>(d, x, stored(M::OUT, dtype), &|x, room| {
        formula::<T, _>(d.isa(), Compute(Floats(*m, x), room))
    })
}

/// An integer formula and its operands.
#[derive(Clone, Copy)]
struct Ints<'a, M, T, const N: usize>(M, [&'a [T]; N]);

impl<M: IntMap<N>, T: Int + Element, const N: usize> At<T> for Ints<'_, M, T, N> {
    #[inline(always)]
    fn at(&self, i: usize) -> T {
        self.0.int(operands(&self.1, i))
    }
    #[inline(always)]
    fn cut(self, n: usize) -> Self {
        Ints(self.0, self.1.map(|x| &x[..n]))
    }
}

fn ints<T: Number + Int, M: IntMap<N>, const N: usize>(
    d: &CpuDevice,
    m: &M,
    x: &[View<'_, Cpu>; N],
) -> Result<HostData> {
    blocks::<T, N>(d, x, stored(M::OUT, T::DTYPE), &|x, room| {
        formula::<T, _>(d.isa(), Compute(Ints(*m, x), room))
    })
}

fn stored(out: Out, dtype: DType) -> DType {
    match out {
        Out::Same => dtype,
        Out::Bool => DType::Bool,
    }
}

/// A formula at every element of views of any kind.
fn blocks<T: Number, const N: usize>(
    d: &CpuDevice,
    x: &[View<'_, Cpu>; N],
    to: DType,
    f: &Formula<'_, T, N>,
) -> Result<HostData> {
    let len = x[0].shape().numel();
    // A transposed operand is copied in tiles first: block by block it would fetch a cache line for each element.
    let mut straight = [const { None }; N];
    for (straight, v) in straight.iter_mut().zip(x) {
        if copy::is_crossed(&v.layout) {
            *straight = Some(copy::own(d, v)?);
        }
    }
    let mut operands = [const { Operand::<T>::Slice(&[]) }; N];
    for ((operand, v), straight) in operands.iter_mut().zip(x).zip(&straight) {
        *operand = match straight {
            None => Operand::new(v, len)?,
            Some(buffer) => {
                let layout = Layout::contiguous(v.shape().clone());
                Operand::new(&View { buffer, layout, dtype: v.dtype }, len)?
            }
        };
    }
    let in_place = operands.iter().all(|operand| matches!(operand, Operand::Slice(_)));
    T::stored(d, len, to, &|mut start, room| {
        if in_place {
            let n = room.left();
            f(
                operands
                    .each_ref()
                    .map(|x| if let Operand::Slice(x) = x { &x[start..start + n] } else { &[] }),
                room,
            );
            return Ok(());
        }
        let mut held = [const { Block::<T>::new() }; N];
        while room.left() > 0 {
            let n = room.left().min(BLOCK);
            let mut parts: [&[T]; N] = [&[]; N];
            for ((part, operand), block) in parts.iter_mut().zip(&operands).zip(&mut held) {
                *part = operand.part(d.isa(), block, start, n);
            }
            room.part(n, |room| f(parts, room));
            start += n;
        }
        Ok(())
    })
}
