//! Formulas over contiguous operands, in windows: so many elements that the compiler makes straight vector code of them.
//!
//! An operand is elements that lie one after the other, or one number for all. Both are one loop: a number is a window of
//! copies, and the loop stays on it where it would go on to the next. So a formula is compiled once, and no row of copies is
//! written for a number. Rows of one length that share an operand, or have a number each, are done in one call.
//!
//! How it can be wrong: at the end, where there is no whole window. What is left goes through a small window that is filled up
//! with zeros, and what comes of those is thrown away.

use crate::LINE;
use crate::dispatch::{
    LaneKernel, PlainElement, ReduceLanes, SimdFloat, SimdLanes, are_small_angles, run_lanes,
};
#[cfg(target_arch = "x86_64")]
use crate::isa::Level;
use crate::isa::{Isa, Kernel, dispatch_formula};
use crate::prefetch::prefetch_l1;
use crate::scalar_lane::SmallAngleLane;
use crate::uninit::UninitSlice;
#[cfg(target_arch = "x86_64")]
use crate::x86::ends;
use elinvar_core::Element;
use elinvar_lane::formula::{IntMap, Map};
use elinvar_lane::int::Int;
use elinvar_lane::lane::Lane;
use std::mem::MaybeUninit;

/// Elements of a window, twice what the broadest reading takes: what a formula costs anew for each (its constants come to
/// registers) is little beside them. With 64, tanh and gelu took a tenth longer.
pub const WINDOW: usize = 192;
/// Elements of a window behind the last whole one, of readings that take several at once.
const SMALL: usize = 64;
/// Elements of a window at the end: one register of AVX-512 of f32.
const FEW: usize = 16;
/// Elements of a row of which it is worth to begin stores with a cache line: a column and 1024 x 1024 took 64.8 microseconds on two threads
/// so, and 70.0 otherwise; rows of 256 a twentieth less.
const LONG: usize = 128;
/// How far ahead of a light formula its results are fetched, in elements: a store waits for its line, which nothing else asks for as early.
/// On an Intel Xeon a sum of 16 million numbers took 5.3 milliseconds, and takes 4.6; of 16384 and of 65536 numbers it takes a twentieth less.
/// Four times as far ahead gained no more.
const AHEAD: usize = 8 * FEW;
/// Operands of a light formula from which those that are numbers are loaded once for a row.
const MANY: usize = 4;

/// An operand of a formula, for one row of elements or several of the same length.
#[derive(Clone, Copy)]
pub struct Piece<'a, T> {
    /// The elements, a window of copies, or the numbers of rows.
    data: &'a [T],
    kind: Kind,
    /// Elements of a row, if there are several.
    len: usize,
    /// From a row to the next, in `data`.
    step: usize,
}

/// A word, like all of a piece: where it is copied, a byte and what lies beside it are read as one, and that waits until all stores before it,
/// results among them, have reached the cache. (Of four maps in one pass that was a tenth.)
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
enum Kind {
    /// Elements.
    Elements,
    /// A window of copies of one number.
    Copies,
    /// A number for each row.
    Numbers,
}

/// Rows that a formula is called on at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Elements of each.
    pub len: usize,
    pub count: usize,
}

impl<'a, T: Element> Piece<'a, T> {
    /// Nothing.
    pub const EMPTY: Piece<'a, T> = Piece { data: &[], kind: Kind::Elements, len: usize::MAX, step: 0 };
    /// Elements.
    pub fn of(data: &'a [T]) -> Self {
        Piece { data, ..Piece::EMPTY }
    }
    /// One number for all elements: as many copies as [`copies`] says, or more.
    pub fn number(copies: &'a [T]) -> Self {
        Piece { data: copies, kind: Kind::Copies, ..Piece::EMPTY }
    }
    /// Some of these elements, which are no rows.
    pub fn part(&self, start: usize, n: usize) -> Self {
        match self.kind {
            Kind::Elements => Piece::of(&self.data[start..][..n]),
            Kind::Copies | Kind::Numbers => *self,
        }
    }
    /// Rows that start `step` apart in `data`.
    pub fn rows(data: &'a [T], rows: Rows, step: usize) -> Self {
        Piece { data, kind: Kind::Elements, len: rows.len, step }
    }
    /// A number for each row, `step` apart in `data`.
    pub fn numbers(data: &'a [T], rows: Rows, step: usize) -> Self {
        Piece { data, kind: Kind::Numbers, len: rows.len, step }
    }
    /// The same number for all elements of rows.
    pub fn number_of(copies: &'a [T], rows: Rows) -> Self {
        Piece { len: rows.len, ..Piece::number(copies) }
    }
    /// The `n` elements of a row: `copies` is room for those of its number.
    #[inline(always)]
    fn row<'b, const W: usize>(
        &self,
        row: usize,
        n: usize,
        copies: &'b mut MaybeUninit<Copies<T, W>>,
    ) -> Line<'b, T>
    where
        'a: 'b,
    {
        match self.kind {
            Kind::Elements => Line { data: &self.data[row * self.step..][..n], step: 1 },
            Kind::Copies => Line { data: self.data, step: 0 },
            Kind::Numbers => {
                let copies = copies.write(Copies([self.data[row * self.step]; W]));
                Line { data: &copies.0, step: 0 }
            }
        }
    }
}

/// A window of copies of a number. It begins with a cache line: what lies across two is loaded twice, and of four such operands
/// that was half of the time of a batch norm's values.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Copies<T, const W: usize = WINDOW>(pub [T; W]);

/// An operand in one row.
#[derive(Clone, Copy)]
struct Line<'a, T> {
    /// The elements, or a window of copies.
    data: &'a [T],
    /// From a window to the next: 1, or 0 for a number.
    step: usize,
}

impl<'a, T: Element> Line<'a, T> {
    const EMPTY: Line<'a, T> = Line { data: &[], step: 1 };
    #[inline(always)]
    fn window(&self, number: usize) -> &'a [T; WINDOW] {
        &self.data.as_chunks().0[number * self.step]
    }
    /// Where the elements from `at` on lie, which are so many registers, and the distance of registers.
    #[inline(always)]
    fn registers(&self, at: usize, count: usize) -> (*const T, usize) {
        let all = &self.data[at * self.step..];
        let reach = if count == 0 { 0 } else { (count - 1) * FEW * self.step + FEW };
        assert!(reach <= all.len(), "an operand is shorter than its row");
        (all.as_ptr(), FEW * self.step)
    }
    /// The elements from `at` on.
    #[inline(always)]
    fn small(&self, at: usize) -> &'a [T; SMALL] {
        self.data[at * self.step..].first_chunk().expect("a window lies in the row")
    }
    /// The `n` elements from `at` on, in `room` unless there are so many behind them that they can be read where they lie.
    #[inline(always)]
    fn few<'b>(&self, at: usize, n: usize, room: &'b mut [T; FEW], ends: Ends) -> &'b [T; FEW]
    where
        'a: 'b,
    {
        let rest = &self.data[at * self.step..];
        match rest.first_chunk() {
            Some(all) => all,
            None => {
                ends.load(&rest[..n], room);
                room
            }
        }
    }
}

/// How fewer elements than [`FEW`] are copied.
#[derive(Clone, Copy)]
enum Ends {
    /// By a loop.
    Plain,
    /// By masks of AVX2.
    #[cfg(target_arch = "x86_64")]
    Masks256,
    /// By masks of AVX-512.
    #[cfg(target_arch = "x86_64")]
    Masks512,
}

impl Ends {
    #[cfg(target_arch = "x86_64")]
    fn of<T>(isa: Isa) -> Ends {
        match isa.level() {
            Level::Avx512 if size_of::<T>() == 4 => Ends::Masks512,
            Level::Avx2 if size_of::<T>() == 4 => Ends::Masks256,
            Level::Plain | Level::Avx2 | Level::Avx512 => Ends::Plain,
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    fn of<T>(_: Isa) -> Ends {
        Ends::Plain
    }
    #[inline(always)]
    #[allow(unsafe_code, reason = "instructions that not every processor has")]
    fn load<T: Element>(self, from: &[T], to: &mut [T; FEW]) {
        match self {
            Ends::Plain => to[..from.len()].copy_from_slice(from),
            // SAFETY: `of` makes it only from an `Isa` that has the instructions.
            #[cfg(target_arch = "x86_64")]
            Ends::Masks256 => unsafe { ends::load_256(from, to) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Ends::Masks512 => unsafe { ends::load_512(from, to) },
        }
    }
    #[inline(always)]
    #[allow(unsafe_code, reason = "instructions that not every processor has")]
    fn store<T: Element>(self, from: &[MaybeUninit<T>; FEW], to: &mut [MaybeUninit<T>]) {
        match self {
            Ends::Plain => to.copy_from_slice(&from[..to.len()]),
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Ends::Masks256 => unsafe { ends::store_256(from, to) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Ends::Masks512 => unsafe { ends::store_512(from, to) },
        }
    }
}

/// How many copies of a number a formula on `n` elements reads.
pub fn copies(n: usize) -> usize {
    n.clamp(FEW, WINDOW)
}

/// A formula in a reading. Unlike a closure, `lane` can be `#[inline(always)]`, and must be: in a function of its own it
/// would be compiled without the kernel's instruction set.
trait Lanes<T: Element, R: SimdLanes<T>, const N: usize>: Copy {
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
struct Floats<M>(M);

impl<T: SimdFloat, M: Map<N>, L: SimdLanes<T> + Lane, const N: usize> Lanes<T, L, N> for Floats<M> {
    const LIGHT: bool = M::LIGHT;
    const SLIM: bool = M::SLIM;
    #[inline(always)]
    fn lane(&self, x: [L; N]) -> L {
        self.0.lane(x)
    }
    #[inline(always)]
    fn near<const W: usize>(&self, x: &[&[T; W]; N], y: &mut [MaybeUninit<T>; W]) -> bool {
        if const { M::ANGLES && L::WIDTH == 1 } && are_small_angles(x[0]) {
            window::<T, SmallAngleLane<T>, Self, N, W>(*self, *x, y);
            return true;
        }
        false
    }
}

/// An integer formula.
#[derive(Clone, Copy)]
struct Ints<M>(M);

impl<M: IntMap<N>, T: Element + Int, const N: usize> Lanes<T, PlainElement<T>, N> for Ints<M> {
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
struct Windows<'a, 'r, T, F, const N: usize> {
    f: F,
    x: &'a [Piece<'a, T>; N],
    room: &'a mut UninitSlice<'r, T>,
    ends: Ends,
}

/// Fills the room with a float formula's results.
#[inline]
pub fn floats<T: SimdFloat, M: Map<N>, const N: usize>(
    isa: Isa,
    m: M,
    x: &[Piece<'_, T>; N],
    room: &mut UninitSlice<'_, T>,
) {
    run_lanes(isa, Windows { f: Floats(m), x, room, ends: Ends::of::<T>(isa) });
}

/// Fills the room with an integer formula's results.
#[inline]
pub fn ints<T: Element + Int, M: IntMap<N>, const N: usize>(
    isa: Isa,
    m: M,
    x: &[Piece<'_, T>; N],
    room: &mut UninitSlice<'_, T>,
) {
    dispatch_formula::<T, _>(isa, Windows { f: Ints(m), x, room, ends: Ends::of::<T>(isa) });
}

impl<T: SimdFloat, F: Map<N>, const N: usize> LaneKernel for Windows<'_, '_, T, Floats<F>, N> {
    type T = T;
    // A million numbers of exp took 640 microseconds with AVX2 on two threads of an Intel Xeon, and take 375; log 874 and 508, tanh 1443 and 940.
    const WIDE: bool = !F::LIGHT;
    #[inline(always)]
    fn run<L: SimdLanes<T> + Lane, M: ReduceLanes<T>, S: SimdLanes<T> + Lane>(self) {
        self.fill::<L, M, S>();
    }
}

impl<T: Element + Int, M: IntMap<N>, const N: usize> Kernel for Windows<'_, '_, T, Ints<M>, N> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        self.fill::<PlainElement<T>, PlainElement<T>, PlainElement<T>>();
    }
}

/// A window of results. A function of its own, because what is written is known to be apart from what is read by being an
/// argument.
#[inline(always)]
fn window<T: Element, R: SimdLanes<T>, F: Lanes<T, R, N>, const N: usize, const W: usize>(
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
fn by_angle<T: Element, R: SimdLanes<T>, F: Lanes<T, R, N>, const N: usize, const W: usize>(
    f: F,
    x: [&[T; W]; N],
    y: &mut [MaybeUninit<T>; W],
) {
    if !f.near(&x, y) {
        window::<T, R, F, N, W>(f, x, y);
    }
}

/// The operands in row `i`, of `n` elements: `copies` is room for those of a row's number.
#[inline(always)]
fn lines<'a, T: Element, const N: usize, const W: usize>(
    x: &[Piece<'a, T>; N],
    i: usize,
    n: usize,
    copies: &'a mut [MaybeUninit<Copies<T, W>>; N],
) -> [Line<'a, T>; N] {
    let mut lines = [Line::EMPTY; N];
    for ((line, x), copies) in lines.iter_mut().zip(x).zip(copies) {
        *line = x.row(i, n, copies);
    }
    lines
}

impl<T: Element, F: Copy, const N: usize> Windows<'_, '_, T, F, N> {
    #[inline(always)]
    fn fill<L: SimdLanes<T>, M: SimdLanes<T>, S: SimdLanes<T>>(self)
    where
        F: Lanes<T, L, N> + Lanes<T, M, N> + Lanes<T, S, N>,
    {
        let Windows { f, x, room, ends } = self;
        let n = room.remaining();
        if n == 0 {
            return;
        }
        // Loops, and no closures, which would be compiled without the instruction set of the kernel.
        for (i, y) in room.unwritten().chunks_mut(x[0].len.min(n)).enumerate() {
            if const { L::WIDTH > 1 && <F as Lanes<T, L, N>>::LIGHT } {
                let mut copies = [const { MaybeUninit::<Copies<T, FEW>>::uninit() }; N];
                light::<T, S, F, N>(f, &lines(x, i, y.len(), &mut copies), y, ends);
                continue;
            }
            let mut copies = [const { MaybeUninit::<Copies<T>>::uninit() }; N];
            let x = lines(x, i, y.len(), &mut copies);
            if const { <F as Lanes<T, L, N>>::SLIM } {
                row::<T, L, M, S, F, N>(f, &x, y, ends);
            } else {
                row::<T, M, M, S, F, N>(f, &x, y, ends);
            }
        }
        // SAFETY: `light` and `row` write all of the part that they are given, and the parts are all `n` slots that were left.
        #[allow(unsafe_code, reason = "slots that were written here")]
        unsafe {
            room.count(n);
        }
    }
}

/// A row of results.
#[inline(always)]
fn row<T: Element, L: SimdLanes<T>, M: SimdLanes<T>, S: SimdLanes<T>, F, const N: usize>(
    f: F,
    x: &[Line<'_, T>; N],
    y: &mut [MaybeUninit<T>],
    ends: Ends,
) where
    F: Lanes<T, L, N> + Lanes<T, M, N> + Lanes<T, S, N>,
{
    let (whole, mut rest) = y.as_chunks_mut::<WINDOW>();
    for (number, y) in whole.iter_mut().enumerate() {
        let mut all = [x[0].window(number); N];
        for (all, x) in all.iter_mut().zip(x) {
            *all = x.window(number);
        }
        by_angle::<T, L, F, N, WINDOW>(f, all, y);
    }
    let mut at = whole.len() * WINDOW;
    if const { L::WIDTH > 1 } {
        let (whole, few) = rest.as_chunks_mut::<SMALL>();
        for y in whole {
            let mut all = [x[0].small(at); N];
            for (all, x) in all.iter_mut().zip(x) {
                *all = x.small(at);
            }
            by_angle::<T, M, F, N, SMALL>(f, all, y);
            at += SMALL;
        }
        rest = few;
    }
    for y in rest.chunks_mut(FEW) {
        few::<T, S, F, N>(f, x, at, y, ends);
        at += FEW;
    }
}

/// At most [`FEW`] results of a row, from `at` on.
#[inline(always)]
fn few<T: Element, S: SimdLanes<T>, F: Lanes<T, S, N>, const N: usize>(
    f: F,
    x: &[Line<'_, T>; N],
    at: usize,
    y: &mut [MaybeUninit<T>],
    ends: Ends,
) {
    let zeros = [T::ZERO; FEW];
    let (mut staged, mut all) = ([zeros; N], [&zeros; N]);
    for ((all, x), staged) in all.iter_mut().zip(x).zip(&mut staged) {
        *all = x.few(at, y.len(), staged, ends);
    }
    let mut results = [MaybeUninit::uninit(); FEW];
    by_angle::<T, S, F, N, FEW>(f, all, &mut results);
    ends.store(&results, y);
}

/// A row of results of a light formula: what it reads goes by in ascending order, a register at a time. Of several registers the
/// compiler reads one operand forwards and the other backwards, and what comes from the second-level cache so takes half as long again.
/// Stores begin with a cache line; what is before the first and behind the last whole register is done once more.
#[inline(always)]
fn light<T: Element, S: SimdLanes<T>, F: Lanes<T, S, N>, const N: usize>(
    f: F,
    x: &[Line<'_, T>; N],
    y: &mut [MaybeUninit<T>],
    ends: Ends,
) {
    let n = y.len();
    let Some(last) = n.checked_sub(FEW) else { return few::<T, S, F, N>(f, x, 0, y, ends) };
    let head = if n < LONG { 0 } else { y.as_ptr().align_offset(LINE).min(FEW) };
    if head > 0 {
        some::<T, S, F, N>(f, x, 0, y);
    }
    let (whole, rest) = y[head..].as_chunks_mut::<FEW>();
    let count = whole.len();
    if const { N >= MANY && S::WIDTH == FEW } && x[0].step == 1 && x[1..].iter().all(|x| x.step == 0) {
        // Many numbers stay in registers: a load for each would take as long as memory does.
        let numbers = x.map(|x| S::load(x.data));
        let elements = x[0].data[head..].as_chunks::<FEW>().0;
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
            prefetch_l1(y.as_ptr().wrapping_add(AHEAD));
            window::<T, S, F, N, FEW>(f, all, y);
        }
    }
    if !rest.is_empty() {
        some::<T, S, F, N>(f, x, last, y);
    }
}

/// A register of results, from `at` on.
#[inline(always)]
fn some<T: Element, S: SimdLanes<T>, F: Lanes<T, S, N>, const N: usize>(
    f: F,
    x: &[Line<'_, T>; N],
    at: usize,
    y: &mut [MaybeUninit<T>],
) {
    let all = x.each_ref().map(|x| x.data[at * x.step..].first_chunk().expect("a register lies in the row"));
    let y = y[at..].first_chunk_mut().expect("a register lies in the row");
    window::<T, S, F, N, FEW>(f, all, y);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug)]
    struct Add;
    impl Map<2> for Add {
        const NAME: &'static str = "add";
        const LIGHT: bool = true;
        #[inline(always)]
        fn lane<L: Lane>(&self, [x, y]: [L; 2]) -> L {
            x + y
        }
    }
    #[derive(Clone, Copy, Debug)]
    struct Fma;
    impl Map<3> for Fma {
        const NAME: &'static str = "fma";
        const LIGHT: bool = true;
        #[inline(always)]
        fn lane<L: Lane>(&self, [x, y, z]: [L; 3]) -> L {
            x.fma(y, z)
        }
    }

    #[test]
    fn a_light_formula_reads_elements_and_numbers_in_their_places() {
        let data: Vec<f32> = (0..1300).map(|i| i as f32).collect();
        let copies = [0.5f32; WINDOW];
        for isa in Isa::all().into_iter().filter(|isa| isa.has_formulas()) {
            // Registers before and behind the whole ones, and places that begin anywhere in a line.
            for n in [1, 15, 16, 17, 127, 128, 129, 143, 144, 145, 192, 193, 500, 1024] {
                for from in [0, 1, 15, 16, 100] {
                    let (x, number) = (Piece::of(&data[from..][..n]), Piece::number(&copies));
                    let made = |f: &dyn Fn(&mut UninitSlice<'_, f32>)| {
                        let mut y = Vec::with_capacity(n + from);
                        y.resize(from, -1.0);
                        let mut room = UninitSlice::new(&mut y.spare_capacity_mut()[..n]);
                        f(&mut room);
                        room.assert_full();
                        // SAFETY: the room over them is full.
                        #[allow(unsafe_code, reason = "a vector of what was written")]
                        unsafe {
                            y.set_len(from + n);
                        }
                        y.split_off(from)
                    };
                    let at = |i: usize| (from + i) as f32;
                    let sums = made(&|room| floats(isa, Add, &[x, number], room));
                    assert!(
                        sums.iter().enumerate().all(|(i, &y)| y == at(i) + 0.5),
                        "{isa}, {n} from {from}"
                    );
                    let sums = made(&|room| floats(isa, Fma, &[number, x, x], room));
                    assert!(
                        sums.iter().enumerate().all(|(i, &y)| y == at(i) * 1.5),
                        "{isa}, {n} from {from}"
                    );
                }
            }
        }
    }
}
