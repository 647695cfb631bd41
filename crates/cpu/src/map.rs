//! Elementwise work: a formula at every element.
//!
//! A program has hundreds of formulas, so little is compiled for each: one loop over contiguous slices per instruction set
//! and type of computation ([`Formula`]). Everything else is shared. An operand that is not such a slice (strided,
//! broadcast, of 16 bits, bool) goes through blocks that stay in the first-level cache; so does a result that is
//! stored as another type than it is computed in.

use crate::convert;
use crate::isa::formula;
use crate::lane::V;
use crate::simd::room::{At, BLOCK, Block, Compute, Room, fresh};
use crate::walk::{Walk, gather};
use crate::{Cpu, CpuDevice, Isa};
use elinvar_core::{DType, Element, Error, HostData, Result, bf16, f16};
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

/// Work asked for in a dtype that it does not have. Callers check dtypes, so this is a mistake of elinvar.
pub(crate) fn misuse(what: &str, dtype: DType) -> Error {
    Error::dtype(format!("cpu: {what} is not defined for {dtype}; the op should have converted it first"))
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
    blocks::<T, N>(d, x, stored(M::OUT, dtype), &|x, room| formula::<T, _>(d.isa(), Compute(Floats(*m, x), room)))
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
    blocks::<T, N>(d, x, stored(M::OUT, T::DTYPE), &|x, room| formula::<T, _>(d.isa(), Compute(Ints(*m, x), room)))
}

fn stored(out: Out, dtype: DType) -> DType {
    match out {
        Out::Same => dtype,
        Out::Bool => DType::Bool,
    }
}

/// A type in which is computed: f32, f64, the integers and bool.
pub(crate) trait Number: Element {
    /// Writes elements number `start` to `start + n` of memory of another type (n at most [`BLOCK`]): 16-bit floats
    /// exactly, bool as 0 or 1.
    fn load(isa: Isa, data: &HostData, walk: &Walk, start: usize, n: usize, room: &mut Room<'_, Self>);
    /// Does [`Number::load`] know the type?
    fn loads(dtype: DType) -> bool;
    /// Results through `make`, stored as `to`.
    fn stored(d: &CpuDevice, len: usize, to: DType, make: &Make<'_, Self>) -> Result<HostData>;
}

/// Fills a room with the results from a number on.
type Make<'a, T> = dyn Fn(usize, &mut Room<'_, T>) -> Result<()> + Sync + 'a;

/// Results that are made as `T` and stored as `S`, in blocks.
fn narrow<T: Number, S: Element>(
    d: &CpuDevice,
    len: usize,
    make: &Make<'_, T>,
    store: impl Fn(Isa, &[T], &mut Room<'_, S>) + Sync,
) -> Result<HostData> {
    let v = fresh(d, len, &|mut start, room: &mut Room<'_, S>| {
        let mut block = Block::new();
        while room.left() > 0 {
            let n = room.left().min(BLOCK);
            let mut made = Ok(());
            let results = block.fill(n, |room| made = make(start, room));
            made?;
            store(d.isa(), results, room);
            start += n;
        }
        Ok(())
    })?;
    Ok(S::wrap(v))
}

impl Number for f32 {
    fn load(isa: Isa, data: &HostData, walk: &Walk, start: usize, n: usize, room: &mut Room<'_, f32>) {
        match data {
            HostData::F16(v) => {
                let mut block = Block::new();
                convert::from_f16(block.fill(n, |room| gather(v, walk, start, n, room)), room);
            }
            HostData::BF16(v) => {
                let mut block = Block::new();
                convert::from_bf16(isa, block.fill(n, |room| gather(v, walk, start, n, room)), room);
            }
            other => flags(isa, other, walk, start, n, room),
        }
    }
    fn loads(dtype: DType) -> bool {
        dtype.is_half() || dtype == DType::Bool
    }
    fn stored(d: &CpuDevice, len: usize, to: DType, make: &Make<'_, f32>) -> Result<HostData> {
        match to {
            DType::F32 => Ok(HostData::F32(fresh(d, len, make)?)),
            DType::F16 => narrow(d, len, make, |_, x, room: &mut Room<'_, f16>| convert::to_f16(x, room)),
            DType::BF16 => {
                narrow(d, len, make, |isa, x, room: &mut Room<'_, bf16>| convert::to_bf16(isa, x, room))
            }
            DType::Bool => narrow(d, len, make, convert::simple::<f32, bool>),
            DType::F64 | DType::I64 | DType::I32 | DType::U8 => Err(misuse("storing f32", to)),
        }
    }
}

/// bool as 0 or 1.
fn flags<T: Number + convert::Simple>(
    isa: Isa,
    data: &HostData,
    walk: &Walk,
    start: usize,
    n: usize,
    room: &mut Room<'_, T>,
) {
    let v = bool::slice(data).expect("the types of operands were looked at");
    let mut block = Block::new();
    convert::simple(isa, block.fill(n, |room| gather(v, walk, start, n, room)), room);
}

macro_rules! number {
    ($($t:ty),*) => {$(
        impl Number for $t {
            fn load(isa: Isa, data: &HostData, walk: &Walk, start: usize, n: usize, room: &mut Room<'_, $t>) {
                flags(isa, data, walk, start, n, room);
            }
            fn loads(dtype: DType) -> bool {
                dtype == DType::Bool
            }
            fn stored(d: &CpuDevice, len: usize, to: DType, make: &Make<'_, $t>) -> Result<HostData> {
                match to {
                    t if t == <$t>::DTYPE => Ok(<$t>::wrap(fresh(d, len, make)?)),
                    DType::Bool => narrow(d, len, make, convert::simple::<$t, bool>),
                    _ => Err(misuse("storing a number of another type", to)),
                }
            }
        }
    )*};
}
number!(f64, i64, i32, u8, bool);

/// How an operand gets to the formula.
enum Operand<'a, T> {
    /// It lies there as the formula reads it.
    Slice(&'a [T]),
    /// One element for all: a block of copies is made once.
    One(&'a HostData, Walk),
    /// Through blocks.
    Blocks(&'a HostData, Walk),
}

impl<'a, T: Number> Operand<'a, T> {
    fn new(v: &View<'a, Cpu>, len: usize) -> Result<Self> {
        let dtype = v.buffer.dtype();
        match T::slice(v.buffer) {
            Some(_) if len == 0 => return Ok(Operand::Slice(&[])),
            Some(x) if v.layout.is_contiguous() => {
                return Ok(Operand::Slice(&x[v.layout.offset()..v.layout.offset() + len]));
            }
            None if !T::loads(dtype) => return Err(misuse("an operand of another type", dtype)),
            _ => {}
        }
        let walk = Walk::new(&v.layout);
        Ok(if walk.is_one() { Operand::One(v.buffer, walk) } else { Operand::Blocks(v.buffer, walk) })
    }
    /// The elements number `start` to `start + n`; `block` is this operand's own.
    fn part<'b>(&'b self, isa: Isa, block: &'b mut Block<T>, start: usize, n: usize) -> &'b [T] {
        match self {
            Operand::Slice(x) => &x[start..start + n],
            Operand::One(..) if block.held().len() >= n => &block.held()[..n],
            Operand::One(data, walk) | Operand::Blocks(data, walk) => {
                block.fill(n, |room| match T::slice(data) {
                    Some(x) => gather(x, walk, start, n, room),
                    None => T::load(isa, data, walk, start, n, room),
                })
            }
        }
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
    let mut operands = [const { Operand::<T>::Slice(&[]) }; N];
    for (operand, v) in operands.iter_mut().zip(x) {
        *operand = Operand::new(v, len)?;
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
