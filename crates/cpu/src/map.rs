//! Elementwise work: a formula at every element.
//!
//! A program has hundreds of formulas, so little is compiled for each: one loop over contiguous slices per instruction set
//! and type of computation ([`Formula`]). Everything else is shared. An operand that is not such a slice (strided,
//! broadcast, of 16 bits, bool) goes through blocks that stay in the first-level cache; so does a result that is
//! stored as another type than it is computed in.

use crate::buffer::{CpuBuffer, View};
use crate::isa::formula;
use crate::lane::V;
use crate::memory::Held;
use crate::operand::{Number, Operand, misuse};
use crate::simd::room::{At, BLOCK, Block, Compute, Room, fresh};
use crate::{Cpu, CpuDevice, Isa, chain, copy, host};
use elinvar_core::{DType, Element, Layout, Result};
use elinvar_ops::backend;
use elinvar_ops::int::Int;
use elinvar_ops::lane::Lane;
use elinvar_ops::map::{IntMap, Map, Out};
use smallvec::SmallVec;

/// A formula over contiguous operands: fills the room with the results.
type Formula<'a, T> = dyn Fn(&[&[T]], &mut Room<'_, T>) + Sync + 'a;

/// A float formula at every element.
pub(crate) fn map<M: Map<N>, const N: usize>(
    d: &CpuDevice,
    m: &M,
    x: &[backend::View<'_, Cpu>; N],
    dtype: DType,
) -> Result<CpuBuffer> {
    if (dtype, M::OUT) == (DType::F32, Out::Same)
        && let Some(y) = chain::put_off(d, &|| Box::new(floats::<f32, M, N>(d.isa(), *m)), x)?
    {
        return Ok(y);
    }
    let to = stored(M::OUT, dtype);
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => blocks(d, x, to, &floats::<f32, M, N>(d.isa(), *m)),
        DType::F64 => blocks(d, x, to, &floats::<f64, M, N>(d.isa(), *m)),
        DType::I64 | DType::I32 | DType::U8 | DType::Bool => Err(misuse(M::NAME, dtype)),
    }
}

/// An integer formula at every element.
pub(crate) fn map_int<M: IntMap<N>, const N: usize>(
    d: &CpuDevice,
    m: &M,
    x: &[backend::View<'_, Cpu>; N],
    dtype: DType,
) -> Result<CpuBuffer> {
    let to = stored(M::OUT, dtype);
    match dtype {
        DType::I64 => blocks(d, x, to, &ints::<i64, M, N>(d.isa(), *m)),
        DType::I32 => blocks(d, x, to, &ints::<i32, M, N>(d.isa(), *m)),
        DType::U8 => blocks(d, x, to, &ints::<u8, M, N>(d.isa(), *m)),
        DType::Bool => blocks(d, x, to, &ints::<bool, M, N>(d.isa(), *m)),
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
    isa: Isa,
    m: M,
) -> impl Fn(&[&[T]], &mut Room<'_, T>) + Send + Sync + 'static {
    move |x, room| formula::<T, _>(isa, Compute(Floats(m, all(x)), room))
}

/// The operands of a formula of `N`.
fn all<'a, T, const N: usize>(x: &[&'a [T]]) -> [&'a [T]; N] {
    x.try_into().expect("a formula is given as many operands as it has")
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
    isa: Isa,
    m: M,
) -> impl Fn(&[&[T]], &mut Room<'_, T>) + Send + Sync + 'static {
    move |x, room| formula::<T, _>(isa, Compute(Ints(m, all(x)), room))
}

fn stored(out: Out, dtype: DType) -> DType {
    match out {
        Out::Same => dtype,
        Out::Bool => DType::Bool,
    }
}

/// The operands, if they lie in memory as a formula reads them: what most of the small ones do.
fn straight<'a, T: Element>(x: &[backend::View<'a, Cpu>]) -> Result<Option<SmallVec<[&'a [T]; 6]>>> {
    let mut all = SmallVec::new();
    for v in x {
        if !v.layout.is_contiguous() {
            return Ok(None);
        }
        let Some(data) = T::slice(v.buffer.data()?) else { return Ok(None) };
        let len = v.shape().numel();
        all.push(if len == 0 { &[] } else { &data[v.layout.offset()..][..len] });
    }
    Ok(Some(all))
}

/// A formula at every element of views of any kind.
fn blocks<T: Number>(
    d: &CpuDevice,
    x: &[backend::View<'_, Cpu>],
    to: DType,
    f: &Formula<'_, T>,
) -> Result<CpuBuffer> {
    if to == T::DTYPE
        && let Some(x) = straight::<T>(x)?
    {
        let y = fresh(d, x[0].len(), BLOCK, &|start, room| {
            let n = room.left();
            let part: SmallVec<[&[T]; 6]> = x.iter().map(|x| &x[start..start + n]).collect();
            f(&part, room);
            Ok(())
        })?;
        return Ok(CpuBuffer::new(T::wrap(y)));
    }
    let x: SmallVec<[View<'_>; 3]> = x.iter().map(host).collect::<Result<_>>()?;
    let len = x[0].shape().numel();
    // A transposed operand is copied in tiles first: block by block it would fetch a cache line for each element.
    let straight: SmallVec<[Option<Held>; 3]> = x
        .iter()
        .map(|v| copy::is_crossed(v.layout).then(|| copy::own(d, v).map(Held::new)).transpose())
        .collect::<Result<_>>()?;
    let operands: SmallVec<[Operand<'_, T>; 3]> = x
        .iter()
        .zip(&straight)
        .map(|(v, straight)| match straight {
            None => Operand::new(v.buffer, v.layout, len),
            Some(buffer) => Operand::new(buffer, &Layout::contiguous(v.shape().clone()), len),
        })
        .collect::<Result<_>>()?;
    let y = T::stored(d, len, to, &|mut start, room| {
        let mut held: SmallVec<[Block<T>; 3]> = operands.iter().map(|_| Block::new()).collect();
        while room.left() > 0 {
            let n = room.left().min(BLOCK);
            let parts: SmallVec<[&[T]; 6]> = operands
                .iter()
                .zip(&mut held)
                .map(|(operand, block)| operand.part(d.isa(), block, start, n))
                .collect();
            room.part(n, |room| f(&parts, room));
            start += n;
        }
        Ok(())
    })?;
    Ok(CpuBuffer::new(y))
}
