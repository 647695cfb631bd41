//! Epilogues of products as objects: compiled once, in the crate that defines them, for the reasons
//! of [`crate::compiled`].

use crate::compiled::{Compiled, FormulaKey, first};
use crate::dispatch::{LaneKernel, ReduceLanes, SimdFloat, SimdLanes, run_lanes};
use crate::isa::Isa;
use elinvar_lane::formula::{AddBias, Epilogue};
use elinvar_lane::lane::Lane;
use elinvar_lane::recorded::{Expression, Recorded};
use std::fmt::Debug;

/// The loop of an epilogue over contiguous elements of one type.
pub trait EpilogueRow<T>: Send + Sync {
    /// Applies it to elements `y` of the result, with as many of each operand.
    ///
    /// # Panics
    /// If an operand has fewer elements, or there are not as many operands as it has.
    fn row(&self, isa: Isa, x: &[&[T]], y: &mut [T]);
    /// The definition: the formula at each element, one after the other.
    fn plain_row(&self, x: &[&[T]], y: &mut [T]);
}

/// An epilogue as an object.
pub trait EpilogueObject: EpilogueRow<f32> + EpilogueRow<f64> + Debug {
    /// Name for kernels.
    fn name(&self) -> &'static str;
    /// How many operands there are besides the sum.
    fn arity(&self) -> usize;
    /// What tells it from others.
    fn key(&self) -> FormulaKey;
    /// The epilogue on recorded numbers: the sum, then the operands.
    fn recorded(&self, x: &[Recorded]) -> Recorded;
}

impl dyn EpilogueObject + '_ {
    /// The operations, of (sum, operands..), for floats of `bits`: 32 or 64.
    pub fn record(&self, bits: u32) -> Expression {
        Expression::record_one(bits, self.arity() + 1, &|x| self.recorded(x))
    }
}

/// An epilogue that is compiled where [`compile_epilogue!`](crate::compile_epilogue) names it.
pub trait CompiledEpilogue<const N: usize>: Epilogue<N> {
    /// The epilogue as an object.
    fn object(f: &Compiled<Self, N>) -> &dyn EpilogueObject;
}

/// `compile_epilogue! { 1 AddBias; }`: compiles these epilogues of so many operands here.
#[macro_export]
macro_rules! compile_epilogue {
    ($($n:literal $e:ty;)*) => {$(
        impl $crate::compiled_epilogue::CompiledEpilogue<$n> for $e {
            // Inlined, it would be compiled once more wherever it is called.
            #[inline(never)]
            fn object(
                f: &$crate::compiled::Compiled<Self, $n>,
            ) -> &dyn $crate::compiled_epilogue::EpilogueObject {
                f
            }
        }
    )*};
}

compile_epilogue! { 1 AddBias; }

/// Elements that go through the formula together.
const CHUNK_ELEMENTS: usize = 64;
/// As many of the last ones.
const TAIL_ELEMENTS: usize = 16;

/// The formula on a chunk.
#[inline(always)]
fn apply_chunk<T: SimdFloat, R: SimdLanes<T> + Lane, E: Epilogue<N>, const N: usize, const W: usize>(
    e: &E,
    y: &mut [T; W],
    x: [&[T; W]; N],
) {
    let mut j = 0;
    while j < W {
        // First, as in a loop over blocks (`vector_loop`).
        let y = &mut y[j..j + R::WIDTH];
        let mut all = [R::splat(T::ZERO); N];
        for (a, x) in all.iter_mut().zip(&x) {
            *a = R::load(&x[j..]);
        }
        e.lane(R::load(y), all).store(y);
        j += R::WIDTH;
    }
}

struct RowKernel<'a, T, E, const N: usize> {
    e: &'a E,
    x: [&'a [T]; N],
    y: &'a mut [T],
}

impl<T: SimdFloat, E: Epilogue<N>, const N: usize> LaneKernel for RowKernel<'_, T, E, N> {
    type T = T;
    const AVX512_F64: bool = false;
    #[inline(always)]
    fn run<M: ReduceLanes<T>, S: SimdLanes<T> + Lane>(self) {
        let RowKernel { e, x, y } = self;
        let zeros = [T::ZERO; CHUNK_ELEMENTS];
        let (whole, rest) = y.as_chunks_mut::<CHUNK_ELEMENTS>();
        let mut at = 0;
        for y in whole {
            let mut all = [&zeros; N];
            for (all, x) in all.iter_mut().zip(&x) {
                *all = x[at..].first_chunk().expect("an operand is as long as the result");
            }
            apply_chunk::<T, M, E, N, CHUNK_ELEMENTS>(e, y, all);
            at += CHUNK_ELEMENTS;
        }
        for y in rest.chunks_mut(TAIL_ELEMENTS) {
            let mut staged = [[T::ZERO; TAIL_ELEMENTS]; N];
            for (staged, x) in staged.iter_mut().zip(&x) {
                staged[..y.len()].copy_from_slice(&x[at..][..y.len()]);
            }
            let mut few = [T::ZERO; TAIL_ELEMENTS];
            few[..y.len()].copy_from_slice(y);
            apply_chunk::<T, S, E, N, TAIL_ELEMENTS>(e, &mut few, staged.each_ref());
            y.copy_from_slice(&few[..y.len()]);
            at += TAIL_ELEMENTS;
        }
    }
}

/// The operands of an epilogue of `N`, each as long as the result.
fn operands<'a, T, const N: usize>(x: &[&'a [T]], n: usize) -> [&'a [T]; N] {
    let x: [&[T]; N] = x.try_into().expect("an epilogue is given as many operands as it has");
    x.map(|x| &x[..n])
}

impl<T: SimdFloat, E: Epilogue<N>, const N: usize> EpilogueRow<T> for Compiled<E, N> {
    fn row(&self, isa: Isa, x: &[&[T]], y: &mut [T]) {
        // Where formulas are not compiled, they are called.
        if !isa.has_kernels() {
            return self.plain_row(x, y);
        }
        let x = operands::<T, N>(x, y.len());
        run_lanes(isa, RowKernel { e: &self.0, x, y });
    }
    fn plain_row(&self, x: &[&[T]], y: &mut [T]) {
        let x = operands::<T, N>(x, y.len());
        for (i, y) in y.iter_mut().enumerate() {
            *y = self.0.lane(*y, x.map(|x| x[i]));
        }
    }
}

impl<E: Epilogue<N>, const N: usize> EpilogueObject for Compiled<E, N> {
    fn name(&self) -> &'static str {
        E::NAME
    }
    fn arity(&self) -> usize {
        N
    }
    fn key(&self) -> FormulaKey {
        FormulaKey::of(&self.0)
    }
    fn recorded(&self, x: &[Recorded]) -> Recorded {
        self.0.lane(x[0], first(&x[1..]))
    }
}

/// A type in which epilogues are computed.
pub trait EpilogueFloat: SimdFloat {
    /// The epilogue's loop.
    fn epilogue_row(e: &dyn EpilogueObject) -> &dyn EpilogueRow<Self>;
}

macro_rules! epilogue_float {
    ($($t:ty)*) => {$(
        impl EpilogueFloat for $t {
            fn epilogue_row(e: &dyn EpilogueObject) -> &dyn EpilogueRow<$t> {
                e
            }
        }
    )*};
}
epilogue_float! { f32 f64 }
