//! The vector loop of elementwise formulas over contiguous operands, in chunks of constant length
//! that compile to straight vector code.
//!
//! An operand is a slice, or one scalar for all elements. Both are one loop: a scalar is a chunk of
//! copies with step 0. So a formula is compiled once, and a scalar is never expanded to a row. Rows
//! of one length that share an operand, or have a scalar each, are done in one call.
//!
//! How it can be wrong: at the tail, where there is no whole chunk. The rest goes through a small
//! chunk padded with zeros, or masked loads and stores, and results of the padding are dropped.

use crate::runtime::output::uninit::UninitSlice;
use crate::simd::LINE;
use crate::simd::dispatch::{
    LaneKernel, PlainElement, ReduceLanes, SimdFloat, SimdLanes, are_small_angles, run_lanes,
};
#[cfg(target_arch = "x86_64")]
use crate::simd::isa::Level;
use crate::simd::isa::{Isa, Kernel, dispatch_formula};
use crate::simd::prefetch::prefetch_l1;
use crate::simd::scalar_lane::SmallAngleLane;
#[cfg(target_arch = "x86_64")]
use crate::simd::x86::tail_copy;
use elinvar_core::Element;
use elinvar_ops::int::Int;
use elinvar_ops::lane::Lane;
use elinvar_ops::map::{IntMap, Map};
use std::mem::MaybeUninit;

/// Elements of a window, twice what the broadest reading takes: what a formula costs anew for each (its constants come to
/// registers) is little beside them. With 64, tanh and gelu took a tenth longer.
pub(crate) const VECTOR_CHUNK: usize = 192;
/// Elements of a window behind the last whole one, of readings that take several at once.
const SMALL_CHUNK: usize = 64;
/// Elements of a window at the end: one register of AVX-512 of f32.
const TAIL_CHUNK: usize = 16;
/// Elements of a row of which it is worth to begin stores with a cache line: a column and 1024 x 1024 took 64.8 microseconds on two threads
/// so, and 70.0 otherwise; rows of 256 a twentieth less.
const ALIGN_STORES_MIN_ELEMENTS: usize = 128;
/// How far ahead of a light formula its results are fetched, in elements: a store waits for its line, which nothing else asks for as early.
/// On an Intel Xeon a sum of 16 million numbers took 5.3 milliseconds, and takes 4.6; of 16384 and of 65536 numbers it takes a twentieth less.
/// Four times as far ahead gained no more.
const PREFETCH_DISTANCE_ELEMENTS: usize = 8 * TAIL_CHUNK;
/// Operands of a light formula from which those that are numbers are loaded once for a row.
const HOIST_SCALARS_MIN_OPERANDS: usize = 4;

/// An operand of a formula, for one row of elements or several of the same length.
#[derive(Clone, Copy)]
pub(crate) struct OperandSlice<'a, T> {
    /// The elements, a window of copies, or the numbers of rows.
    data: &'a [T],
    kind: SliceKind,
    /// Elements of a row, if there are several.
    len: usize,
    /// From a row to the next, in `data`.
    step: usize,
}

/// A word, like all of a piece: where it is copied, a byte and what lies beside it are read as one, and that waits until all stores before it,
/// results among them, have reached the cache. (Of four maps in one pass that was a tenth.)
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
enum SliceKind {
    /// Elements.
    Elements,
    /// A window of copies of one number.
    Splat,
    /// A number for each row.
    RowScalars,
}

/// Rows that a formula is called on at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowsShape {
    /// Elements of each.
    pub(crate) len: usize,
    pub(crate) count: usize,
}

impl<'a, T: Element> OperandSlice<'a, T> {
    /// Nothing.
    pub(crate) const EMPTY: OperandSlice<'a, T> =
        OperandSlice { data: &[], kind: SliceKind::Elements, len: usize::MAX, step: 0 };
    /// Elements.
    pub(crate) fn of(data: &'a [T]) -> Self {
        OperandSlice { data, ..OperandSlice::EMPTY }
    }
    /// One number for all elements: as many copies as [`copies`] says, or more.
    pub(crate) fn number(copies: &'a [T]) -> Self {
        OperandSlice { data: copies, kind: SliceKind::Splat, ..OperandSlice::EMPTY }
    }
    /// Some of these elements, which are no rows.
    pub(crate) fn part(&self, start: usize, n: usize) -> Self {
        match self.kind {
            SliceKind::Elements => OperandSlice::of(&self.data[start..][..n]),
            SliceKind::Splat | SliceKind::RowScalars => *self,
        }
    }
    /// Rows that start `step` apart in `data`.
    pub(crate) fn rows(data: &'a [T], rows: RowsShape, step: usize) -> Self {
        OperandSlice { data, kind: SliceKind::Elements, len: rows.len, step }
    }
    /// A number for each row, `step` apart in `data`.
    pub(crate) fn numbers(data: &'a [T], rows: RowsShape, step: usize) -> Self {
        OperandSlice { data, kind: SliceKind::RowScalars, len: rows.len, step }
    }
    /// The same number for all elements of rows.
    pub(crate) fn number_of(copies: &'a [T], rows: RowsShape) -> Self {
        OperandSlice { len: rows.len, ..OperandSlice::number(copies) }
    }
    /// The `n` elements of a row: `copies` is room for those of its number.
    #[inline(always)]
    fn row<'b, const W: usize>(
        &self,
        row: usize,
        n: usize,
        copies: &'b mut MaybeUninit<Splat<T, W>>,
    ) -> RowSlice<'b, T>
    where
        'a: 'b,
    {
        match self.kind {
            SliceKind::Elements => RowSlice { data: &self.data[row * self.step..][..n], step: 1 },
            SliceKind::Splat => RowSlice { data: self.data, step: 0 },
            SliceKind::RowScalars => {
                let copies = copies.write(Splat([self.data[row * self.step]; W]));
                RowSlice { data: &copies.0, step: 0 }
            }
        }
    }
}

/// A window of copies of a number. It begins with a cache line: what lies across two is loaded twice, and of four such operands
/// that was half of the time of a batch norm's values.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Splat<T, const W: usize = VECTOR_CHUNK>(pub(crate) [T; W]);

/// An operand in one row.
#[derive(Clone, Copy)]
struct RowSlice<'a, T> {
    /// The elements, or a window of copies.
    data: &'a [T],
    /// From a window to the next: 1, or 0 for a number.
    step: usize,
}

impl<'a, T: Element> RowSlice<'a, T> {
    const EMPTY: RowSlice<'a, T> = RowSlice { data: &[], step: 1 };
    #[inline(always)]
    fn chunk(&self, number: usize) -> &'a [T; VECTOR_CHUNK] {
        &self.data.as_chunks().0[number * self.step]
    }
    /// Where the elements from `at` on lie, which are so many registers, and the distance of registers.
    #[inline(always)]
    fn registers(&self, at: usize, count: usize) -> (*const T, usize) {
        let all = &self.data[at * self.step..];
        let reach = if count == 0 { 0 } else { (count - 1) * TAIL_CHUNK * self.step + TAIL_CHUNK };
        assert!(reach <= all.len(), "an operand is shorter than its row");
        (all.as_ptr(), TAIL_CHUNK * self.step)
    }
    /// The elements from `at` on.
    #[inline(always)]
    fn small(&self, at: usize) -> &'a [T; SMALL_CHUNK] {
        self.data[at * self.step..].first_chunk().expect("a window lies in the row")
    }
    /// The `n` elements from `at` on, in `dst` unless there are so many behind them that they can be read where they lie.
    #[inline(always)]
    fn few<'b>(
        &self,
        at: usize,
        n: usize,
        dst: &'b mut [T; TAIL_CHUNK],
        ends: TailCopy,
    ) -> &'b [T; TAIL_CHUNK]
    where
        'a: 'b,
    {
        let rest = &self.data[at * self.step..];
        match rest.first_chunk() {
            Some(all) => all,
            None => {
                ends.load(&rest[..n], dst);
                dst
            }
        }
    }
}

/// How fewer elements than [`TAIL_CHUNK`] are copied.
#[derive(Clone, Copy)]
enum TailCopy {
    /// By a loop.
    Plain,
    /// By masks of AVX2.
    #[cfg(target_arch = "x86_64")]
    Masks256,
    /// By masks of AVX-512.
    #[cfg(target_arch = "x86_64")]
    Masks512,
}

impl TailCopy {
    #[cfg(target_arch = "x86_64")]
    fn of<T>(isa: Isa) -> TailCopy {
        match isa.level() {
            Level::Avx512 if size_of::<T>() == 4 => TailCopy::Masks512,
            Level::Avx2 if size_of::<T>() == 4 => TailCopy::Masks256,
            Level::Plain | Level::Avx2 | Level::Avx512 => TailCopy::Plain,
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    fn of<T>(_: Isa) -> TailCopy {
        TailCopy::Plain
    }
    #[inline(always)]
    #[allow(unsafe_code, reason = "instructions that not every processor has")]
    fn load<T: Element>(self, from: &[T], to: &mut [T; TAIL_CHUNK]) {
        match self {
            TailCopy::Plain => to[..from.len()].copy_from_slice(from),
            // SAFETY: `of` makes it only from an `Isa` that has the instructions.
            #[cfg(target_arch = "x86_64")]
            TailCopy::Masks256 => unsafe { tail_copy::load_256(from, to) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            TailCopy::Masks512 => unsafe { tail_copy::load_512(from, to) },
        }
    }
    #[inline(always)]
    #[allow(unsafe_code, reason = "instructions that not every processor has")]
    fn store<T: Element>(self, from: &[MaybeUninit<T>; TAIL_CHUNK], to: &mut [MaybeUninit<T>]) {
        match self {
            TailCopy::Plain => to.copy_from_slice(&from[..to.len()]),
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            TailCopy::Masks256 => unsafe { tail_copy::store_256(from, to) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            TailCopy::Masks512 => unsafe { tail_copy::store_512(from, to) },
        }
    }
}

/// How many copies of a number a formula on `n` elements reads.
pub(crate) fn copies(n: usize) -> usize {
    n.clamp(TAIL_CHUNK, VECTOR_CHUNK)
}

/// A formula in a reading. Unlike a closure, `lane` can be `#[inline(always)]`, and must be: in a function of its own it
/// would be compiled without the kernel's instruction set.
trait LaneFormula<T: Element, R: SimdLanes<T>, const N: usize>: Copy {
    /// Is it computed as fast as its numbers come from memory?
    const LIGHT: bool;
    /// Are so few of its values alive at once that more elements go side by side?
    const SLIM: bool;
    /// From the operands to the result.
    fn lane(&self, x: [R; N]) -> R;
    /// A window of results in the reading for moderate angles, if there is one and they all are; or says that it does not. What goes by
    /// registers looks at each register itself ([`Lane::are_moderate`]).
    fn near<const W: usize>(&self, x: &[&[T; W]; N], y: &mut [MaybeUninit<T>; W]) -> bool;
}

/// A float formula.
#[derive(Clone, Copy)]
struct FloatFormula<M>(M);

impl<T: SimdFloat, M: Map<N>, L: SimdLanes<T> + Lane, const N: usize> LaneFormula<T, L, N>
    for FloatFormula<M>
{
    const LIGHT: bool = M::LIGHT;
    const SLIM: bool = M::SLIM;
    #[inline(always)]
    fn lane(&self, x: [L; N]) -> L {
        self.0.lane(x)
    }
    #[inline(always)]
    fn near<const W: usize>(&self, x: &[&[T; W]; N], y: &mut [MaybeUninit<T>; W]) -> bool {
        if const { M::ANGLES && L::WIDTH == 1 } && are_small_angles(x[0]) {
            chunk::<T, SmallAngleLane<T>, Self, N, W>(*self, *x, y);
            return true;
        }
        false
    }
}

/// An integer formula.
#[derive(Clone, Copy)]
struct IntFormula<M>(M);

impl<M: IntMap<N>, T: Element + Int, const N: usize> LaneFormula<T, PlainElement<T>, N> for IntFormula<M> {
    const LIGHT: bool = true;
    const SLIM: bool = true;
    #[inline(always)]
    fn lane(&self, x: [PlainElement<T>; N]) -> PlainElement<T> {
        PlainElement(self.0.int(x.map(|x| x.0)))
    }
    #[inline(always)]
    fn near<const W: usize>(&self, _: &[&[T; W]; N], _: &mut [MaybeUninit<T>; W]) -> bool {
        false
    }
}

/// A kernel that fills the room with a formula's results. The formula is held by value: attributes behind a reference would
/// be read anew for each element.
struct VectorLoop<'a, 'r, T, F, const N: usize> {
    f: F,
    x: &'a [OperandSlice<'a, T>; N],
    dst: &'a mut UninitSlice<'r, T>,
    ends: TailCopy,
}

/// Fills the room with a float formula's results.
#[inline]
pub(crate) fn floats<T: SimdFloat, M: Map<N>, const N: usize>(
    isa: Isa,
    m: M,
    x: &[OperandSlice<'_, T>; N],
    dst: &mut UninitSlice<'_, T>,
) {
    run_lanes(isa, VectorLoop { f: FloatFormula(m), x, dst, ends: TailCopy::of::<T>(isa) });
}

/// Fills the room with an integer formula's results.
#[inline]
pub(crate) fn ints<T: Element + Int, M: IntMap<N>, const N: usize>(
    isa: Isa,
    m: M,
    x: &[OperandSlice<'_, T>; N],
    dst: &mut UninitSlice<'_, T>,
) {
    dispatch_formula::<T, _>(isa, VectorLoop { f: IntFormula(m), x, dst, ends: TailCopy::of::<T>(isa) });
}

impl<T: SimdFloat, F: Map<N>, const N: usize> LaneKernel for VectorLoop<'_, '_, T, FloatFormula<F>, N> {
    type T = T;
    // A million numbers of exp took 640 microseconds with AVX2 on two threads of an Intel Xeon, and take 375; log 874 and 508, tanh 1443 and 940.
    const AVX512_F64: bool = !F::LIGHT;
    #[inline(always)]
    fn run<L: SimdLanes<T> + Lane, M: ReduceLanes<T>, S: SimdLanes<T> + Lane>(self) {
        self.fill::<L, M, S>();
    }
}

impl<T: Element + Int, M: IntMap<N>, const N: usize> Kernel for VectorLoop<'_, '_, T, IntFormula<M>, N> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        self.fill::<PlainElement<T>, PlainElement<T>, PlainElement<T>>();
    }
}

/// A window of results. A function of its own, because what is written is known to be apart from what is read by being an
/// argument.
#[inline(always)]
fn chunk<T: Element, R: SimdLanes<T>, F: LaneFormula<T, R, N>, const N: usize, const W: usize>(
    f: F,
    x: [&[T; W]; N],
    y: &mut [MaybeUninit<T>; W],
) {
    let mut j = 0;
    while j < W {
        let mut all = [R::splat(T::ZERO); N];
        for (a, x) in all.iter_mut().zip(&x) {
            *a = R::load(&x[j..]);
        }
        f.lane(all).write(&mut y[j..]);
        j += R::WIDTH;
    }
}

/// A window of results, in the reading for moderate angles where that fits.
#[inline(always)]
fn by_angle<T: Element, R: SimdLanes<T>, F: LaneFormula<T, R, N>, const N: usize, const W: usize>(
    f: F,
    x: [&[T; W]; N],
    y: &mut [MaybeUninit<T>; W],
) {
    if !f.near(&x, y) {
        chunk::<T, R, F, N, W>(f, x, y);
    }
}

/// The operands in row `i`, of `n` elements: `copies` is room for those of a row's number.
#[inline(always)]
fn lines<'a, T: Element, const N: usize, const W: usize>(
    x: &[OperandSlice<'a, T>; N],
    i: usize,
    n: usize,
    copies: &'a mut [MaybeUninit<Splat<T, W>>; N],
) -> [RowSlice<'a, T>; N] {
    let mut lines = [RowSlice::EMPTY; N];
    for ((line, x), copies) in lines.iter_mut().zip(x).zip(copies) {
        *line = x.row(i, n, copies);
    }
    lines
}

impl<T: Element, F: Copy, const N: usize> VectorLoop<'_, '_, T, F, N> {
    #[inline(always)]
    fn fill<L: SimdLanes<T>, M: SimdLanes<T>, S: SimdLanes<T>>(self)
    where
        F: LaneFormula<T, L, N> + LaneFormula<T, M, N> + LaneFormula<T, S, N>,
    {
        let VectorLoop { f, x, dst, ends } = self;
        let n = dst.remaining();
        if n == 0 {
            return;
        }
        // Loops, and no closures, which would be compiled without the instruction set of the kernel.
        for (i, y) in dst.unwritten().chunks_mut(x[0].len.min(n)).enumerate() {
            if const { L::WIDTH > 1 && <F as LaneFormula<T, L, N>>::LIGHT } {
                let mut copies = [const { MaybeUninit::<Splat<T, TAIL_CHUNK>>::uninit() }; N];
                light::<T, S, F, N>(f, &lines(x, i, y.len(), &mut copies), y, ends);
                continue;
            }
            let mut copies = [const { MaybeUninit::<Splat<T>>::uninit() }; N];
            let x = lines(x, i, y.len(), &mut copies);
            if const { <F as LaneFormula<T, L, N>>::SLIM } {
                row::<T, L, M, S, F, N>(f, &x, y, ends);
            } else {
                row::<T, M, M, S, F, N>(f, &x, y, ends);
            }
        }
        // SAFETY: `light` and `row` write all of the part that they are given, and the parts are all `n` slots that were left.
        #[allow(unsafe_code, reason = "slots that were written here")]
        unsafe {
            dst.count(n);
        }
    }
}

/// A row of results.
#[inline(always)]
fn row<T: Element, L: SimdLanes<T>, M: SimdLanes<T>, S: SimdLanes<T>, F, const N: usize>(
    f: F,
    x: &[RowSlice<'_, T>; N],
    y: &mut [MaybeUninit<T>],
    ends: TailCopy,
) where
    F: LaneFormula<T, L, N> + LaneFormula<T, M, N> + LaneFormula<T, S, N>,
{
    let (whole, mut rest) = y.as_chunks_mut::<VECTOR_CHUNK>();
    for (number, y) in whole.iter_mut().enumerate() {
        let mut all = [x[0].chunk(number); N];
        for (all, x) in all.iter_mut().zip(x) {
            *all = x.chunk(number);
        }
        by_angle::<T, L, F, N, VECTOR_CHUNK>(f, all, y);
    }
    let mut at = whole.len() * VECTOR_CHUNK;
    if const { L::WIDTH > 1 } {
        let (whole, few) = rest.as_chunks_mut::<SMALL_CHUNK>();
        for y in whole {
            let mut all = [x[0].small(at); N];
            for (all, x) in all.iter_mut().zip(x) {
                *all = x.small(at);
            }
            by_angle::<T, M, F, N, SMALL_CHUNK>(f, all, y);
            at += SMALL_CHUNK;
        }
        rest = few;
    }
    for y in rest.chunks_mut(TAIL_CHUNK) {
        few::<T, S, F, N>(f, x, at, y, ends);
        at += TAIL_CHUNK;
    }
}

/// At most [`TAIL_CHUNK`] results of a row, from `at` on.
#[inline(always)]
fn few<T: Element, S: SimdLanes<T>, F: LaneFormula<T, S, N>, const N: usize>(
    f: F,
    x: &[RowSlice<'_, T>; N],
    at: usize,
    y: &mut [MaybeUninit<T>],
    ends: TailCopy,
) {
    let zeros = [T::ZERO; TAIL_CHUNK];
    let (mut staged, mut all) = ([zeros; N], [&zeros; N]);
    for ((all, x), staged) in all.iter_mut().zip(x).zip(&mut staged) {
        *all = x.few(at, y.len(), staged, ends);
    }
    let mut results = [MaybeUninit::uninit(); TAIL_CHUNK];
    by_angle::<T, S, F, N, TAIL_CHUNK>(f, all, &mut results);
    ends.store(&results, y);
}

/// A row of results of a light formula: what it reads goes by in ascending order, a register at a time. Of several registers the
/// compiler reads one operand forwards and the other backwards, and what comes from the second-level cache so takes half as long again.
/// Stores begin with a cache line; what is before the first and behind the last whole register is done once more.
#[inline(always)]
fn light<T: Element, S: SimdLanes<T>, F: LaneFormula<T, S, N>, const N: usize>(
    f: F,
    x: &[RowSlice<'_, T>; N],
    y: &mut [MaybeUninit<T>],
    ends: TailCopy,
) {
    let n = y.len();
    let Some(last) = n.checked_sub(TAIL_CHUNK) else { return few::<T, S, F, N>(f, x, 0, y, ends) };
    let head = if n < ALIGN_STORES_MIN_ELEMENTS { 0 } else { y.as_ptr().align_offset(LINE).min(TAIL_CHUNK) };
    if head > 0 {
        some::<T, S, F, N>(f, x, 0, y);
    }
    let (whole, rest) = y[head..].as_chunks_mut::<TAIL_CHUNK>();
    let count = whole.len();
    if const { N >= HOIST_SCALARS_MIN_OPERANDS && S::WIDTH == TAIL_CHUNK }
        && x[0].step == 1
        && x[1..].iter().all(|x| x.step == 0)
    {
        // Many numbers stay in registers: a load for each would take as long as memory does.
        let numbers = x.map(|x| S::load(x.data));
        let elements = x[0].data[head..].as_chunks::<TAIL_CHUNK>().0;
        for (y, elements) in whole.iter_mut().zip(&elements[..count]) {
            let mut all = numbers;
            all[0] = S::load(elements);
            f.lane(all).write(y);
        }
    } else {
        let (mut places, mut steps) = ([std::ptr::null(); N], [0; N]);
        for i in 0..N {
            (places[i], steps[i]) = x[i].registers(head, count);
        }
        // Nothing is counted up but the number of the register: places that go on for themselves were kept in memory in a program that is
        // compiled in many parts, and each waited for its last store. A sum of 65536 numbers took 6.9 microseconds there, and takes 4.3.
        for (number, y) in whole.iter_mut().enumerate() {
            // SAFETY: `registers` checked that there are `count` of them, and this is one.
            #[allow(unsafe_code, reason = "a check for each register would take as long as the formula")]
            let all = std::array::from_fn(|i| unsafe { &*places[i].wrapping_add(number * steps[i]).cast() });
            prefetch_l1(y.as_ptr().wrapping_add(PREFETCH_DISTANCE_ELEMENTS));
            chunk::<T, S, F, N, TAIL_CHUNK>(f, all, y);
        }
    }
    if !rest.is_empty() {
        some::<T, S, F, N>(f, x, last, y);
    }
}

/// A register of results, from `at` on.
#[inline(always)]
fn some<T: Element, S: SimdLanes<T>, F: LaneFormula<T, S, N>, const N: usize>(
    f: F,
    x: &[RowSlice<'_, T>; N],
    at: usize,
    y: &mut [MaybeUninit<T>],
) {
    let all = x.each_ref().map(|x| x.data[at * x.step..].first_chunk().expect("a register lies in the row"));
    let y = y[at..].first_chunk_mut().expect("a register lies in the row");
    chunk::<T, S, F, N, TAIL_CHUNK>(f, all, y);
}

#[cfg(test)]
mod tests {
    use super::*;
    use elinvar_ops::catalogue::{add::Add, fma::Fma};

    #[test]
    fn a_light_formula_reads_elements_and_numbers_in_their_places() {
        let data: Vec<f32> = (0..1300).map(|i| i as f32).collect();
        let copies = [0.5f32; VECTOR_CHUNK];
        for isa in Isa::all().into_iter().filter(|isa| isa.has_formulas()) {
            // Registers before and behind the whole ones, and places that begin anywhere in a line.
            for n in [1, 15, 16, 17, 127, 128, 129, 143, 144, 145, 192, 193, 500, 1024] {
                for from in [0, 1, 15, 16, 100] {
                    let (x, number) = (OperandSlice::of(&data[from..][..n]), OperandSlice::number(&copies));
                    let made = |f: &dyn Fn(&mut UninitSlice<'_, f32>)| {
                        let mut y = Vec::with_capacity(n + from);
                        y.resize(from, -1.0);
                        let mut dst = UninitSlice::new(&mut y.spare_capacity_mut()[..n]);
                        f(&mut dst);
                        dst.assert_full();
                        // SAFETY: the room over them is full.
                        #[allow(unsafe_code, reason = "a vector of what was written")]
                        unsafe {
                            y.set_len(from + n);
                        }
                        y.split_off(from)
                    };
                    let at = |i: usize| (from + i) as f32;
                    let sums = made(&|dst| floats(isa, Add, &[x, number], dst));
                    assert!(
                        sums.iter().enumerate().all(|(i, &y)| y == at(i) + 0.5),
                        "{isa}, {n} from {from}"
                    );
                    let sums = made(&|dst| floats(isa, Fma, &[number, x, x], dst));
                    assert!(
                        sums.iter().enumerate().all(|(i, &y)| y == at(i) * 1.5),
                        "{isa}, {n} from {from}"
                    );
                }
            }
        }
    }
}
