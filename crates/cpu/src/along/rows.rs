//! Row-wise formulas: the terms of a statistic, their fold, the next statistic; then the result.
//!
//! All that a row needs is done by one kernel, compiled for each formula, instruction set and float type. It takes several
//! short rows at a time, or one statistic of a block of a long row; terms go through a block that stays in the first-level
//! cache, and are folded there by code that is the same for all formulas. What it reads may be followed by anything up to whole windows, so that no loop has a slow end.

use super::float::{Float, each_float};
use super::stage::{Stage, either, turned};
use super::terms::{self, Terms, WINDOW};
use crate::CpuDevice;
use crate::View;
use crate::isa::{Isa, Kernel, formula};
use crate::lane::V;
use crate::memory::{filled, with_capacity};
use crate::parallel::try_pieces;
use crate::simd::room::{Room, fresh_pieces};
use elinvar_core::order::BLOCK;
use elinvar_core::{DType, Error, HostData, Result};
use elinvar_ops::rows::{RowOut, Rows, STATS};

/// Elements of the short rows that a kernel takes at a time: results of 8 KiB of f32 are in a first-level cache from the
/// zeros to the last change.
const PART: usize = 2048;
/// Nanoseconds for an element of one statistic, at least: a guess between a sum and an exponential.
const NS: f64 = 0.3;

/// A row-wise formula over views of one shape, of which the first `kept` axes are the rows.
pub(crate) fn rows<R: Rows<N>, const N: usize>(
    d: &CpuDevice,
    r: &R,
    x: &[View<'_>; N],
    kept: usize,
    dtype: DType,
) -> Result<HostData> {
    each_float!(R::NAME, dtype, C => C::stored(compute::<C, R, N>(d, r, x, kept)?, dtype))
}

fn compute<C: Float, R: Rows<N>, const N: usize>(
    d: &CpuDevice,
    r: &R,
    x: &[View<'_>; N],
    kept: usize,
) -> Result<Vec<C>> {
    debug_assert!(!R::PLAIN || says_the_truth::<C, R, N>(r), "{}: its first terms are no operand", R::NAME);
    let dims = x[0].layout.shape().dims();
    let (rows, n): (usize, usize) = (dims[..kept].iter().product(), dims[kept..].iter().product());
    let each = R::OUT == RowOut::Each;
    let width = R::OUT.width(n, R::FOLDS.len());
    if rows * width == 0 {
        return Ok(Vec::new());
    }
    let copies: Vec<_> = x.iter().map(|x| turned::<C>(d, R::NAME, x)).collect::<Result<_>>()?;
    let x: Vec<Stage<'_, C>> =
        x.iter().zip(&copies).map(|(x, copy)| either(R::NAME, x, copy)).collect::<Result<_>>()?;
    let work = Work { isa: d.isa(), r, x: std::array::from_fn(|k| &x[k]), n };
    let passes = (R::FOLDS.len() + usize::from(each)) as f64;
    if n > 2 * BLOCK && rows < 4 * d.threads() {
        // Few long rows: threads share the blocks of each.
        let mut all = elinvar_core::host::filled(rows, [C::NOTHING; STATS])?;
        for (row, s) in all.iter_mut().enumerate() {
            for k in 0..R::FOLDS.len() {
                let mut blocks = filled(n.div_ceil(BLOCK), C::NOTHING)?;
                try_pieces(d, &mut blocks, 4, BLOCK as f64 * NS, |first, part| {
                    let mut scratch = Scratch::new()?;
                    for (b, y) in part.iter_mut().enumerate() {
                        *y = work.fold(k, row * n, (first + b) * BLOCK, s, &mut scratch, 0)?;
                    }
                    Ok::<(), Error>(())
                })?;
                s[k] = work.finish(k, &blocks, s);
            }
        }
        if !each {
            let mut y = with_capacity(rows * width)?;
            for s in &all {
                y.extend_from_slice(&work.of_row(s)[..width]);
            }
            return Ok(y);
        }
        return fresh_pieces(d, rows * n, 4 * BLOCK, NS, &|mut at, room| {
            let mut scratch = Scratch::new()?;
            while room.left() > 0 {
                let some = (n - at % n).min(room.left());
                work.write(at, some, &all[at / n], None, room, &mut scratch)?;
                at += some;
            }
            Ok(())
        });
    }
    // Several tasks for each thread, as one that is late should not be waited for; each makes buffers of its own.
    let task = (rows * n / (8 * d.threads())).clamp(8 * PART, 64 * PART);
    let together = (task / n.max(1)).max(1);
    let ns = passes * NS * n as f64 / width as f64;
    fresh_pieces(d, rows * width, together * width, ns, &|first, room| {
        let mut scratch = Scratch::new()?;
        let mut row = first / width;
        // Several short rows are taken at once.
        let group = (PART / n.max(1)).max(1);
        while room.left() > 0 {
            if n > BLOCK {
                work.long(row, room, &mut scratch)?;
                row += 1;
            } else {
                let some = group.min(room.left() / width);
                work.short(row, some, room, &mut scratch)?;
                row += some;
            }
        }
        Ok(())
    })
}

/// Are a plain formula's first terms its first operand?
fn says_the_truth<C: Float, R: Rows<N>, const N: usize>(r: &R) -> bool {
    let x: [C; N] = std::array::from_fn(|i| C::lit(i as f64 + 2.0));
    r.term(0, x, [C::lit(0.5); STATS], C::lit(3.0)) == x[0]
}

/// Buffers of a thread.
struct Scratch<C, const N: usize> {
    /// Operands that do not lie in memory as they are read.
    x: [Vec<C>; N],
    /// The row whose one element fills an operand's buffer; the first row, if all rows are that one.
    held: [Option<usize>; N],
    /// Terms on their way to a fold.
    terms: Vec<C>,
    /// Terms that are read again for the results.
    kept: Vec<C>,
}

impl<C: Float, const N: usize> Scratch<C, N> {
    fn new() -> Result<Self> {
        Ok(Scratch { x: [const { Vec::new() }; N], held: [None; N], terms: Vec::new(), kept: Vec::new() })
    }
}

/// A buffer with room for a block and what is read behind it; made when it is needed first.
fn room<C: Float>(buffer: &mut Vec<C>) -> Result<&mut [C]> {
    room_for(buffer, BLOCK)
}

/// The same for `len` elements.
fn room_for<C: Float>(buffer: &mut Vec<C>, len: usize) -> Result<&mut [C]> {
    if buffer.len() < len + WINDOW {
        *buffer = filled(len + WINDOW, C::NOTHING)?;
    }
    Ok(buffer)
}

/// A formula and its operands.
struct Work<'a, C, R, const N: usize> {
    isa: Isa,
    r: &'a R,
    x: [&'a Stage<'a, C>; N],
    /// Elements of a row.
    n: usize,
}

impl<C: Float, R: Rows<N>, const N: usize> Work<'_, C, R, N> {
    fn length(&self) -> C {
        C::lit(self.n as f64)
    }
    fn run(&self, task: Task<'_, '_, C, R, N>) {
        formula::<C, _>(self.isa, task);
    }
    /// How many of `len` elements from `start` on all operands have one after the other; all, if these are too few to be
    /// worth a part of their own.
    fn stretch(&self, start: usize, len: usize) -> usize {
        /// Elements that are copied in about the time that a part takes to begin.
        const FEW: usize = 256;
        let some = self.x.iter().map(|x| x.stretch(start)).min().unwrap_or(len);
        if some < FEW { len } else { len.min(some) }
    }
    /// The operands at `len` elements of one row from `start` on, and what stands behind them up to whole windows.
    fn part<'b>(
        &self,
        start: usize,
        len: usize,
        buffers: &'b mut [Vec<C>; N],
        held: &mut [Option<usize>; N],
    ) -> Result<[&'b [C]; N]>
    where
        Self: 'b,
    {
        let (row, padded) = (start / self.n, len.next_multiple_of(WINDOW));
        let mut all: [&[C]; N] = [&[]; N];
        for (((x, stage), buffer), held) in all.iter_mut().zip(&self.x).zip(buffers).zip(held) {
            if !stage.repeats(self.n) {
                *x = match stage.padded(start, len, padded) {
                    Some(all) => all,
                    None => {
                        let buffer = room(buffer)?;
                        stage.read(start, &mut buffer[..len]);
                        &buffer[..padded]
                    }
                };
                continue;
            }
            // A number for each row, such as the weight of a channel: written once for all parts and passes.
            let buffer = room(buffer)?;
            if *held != Some(row) {
                stage.read(start, &mut buffer[..1]);
                let value = buffer[0];
                buffer.fill(value);
                *held = Some(row);
            }
            *x = &buffer[..padded];
        }
        Ok(all)
    }
    /// The fold of a block of a row's terms. Where the formula keeps the last statistic's, they go to the buffer of kept
    /// ones, from `keep_at` on.
    fn fold(
        &self,
        k: usize,
        row: usize,
        start: usize,
        s: &[C; STATS],
        scratch: &mut Scratch<C, N>,
        keep_at: usize,
    ) -> Result<C> {
        let len = BLOCK.min(self.n - start);
        if R::PLAIN
            && k == 0
            && let Some(terms) = self.x[0].padded(row + start, len, len)
        {
            return Ok(C::block(self.isa, R::FOLDS[k], terms));
        }
        let stays = keeps::<R, N>() && k + 1 == R::FOLDS.len();
        let terms = if stays {
            &mut room_for(&mut scratch.kept, keep_at + BLOCK)?[keep_at..]
        } else {
            room(&mut scratch.terms)?
        };
        let mut at = 0;
        while at < len {
            let some = self.stretch(row + start + at, len - at);
            self.run(Task {
                r: self.r,
                n: self.length(),
                len: some,
                rows: 1,
                x: self.part(row + start + at, some, &mut scratch.x, &mut scratch.held)?,
                step: [0; N],
                s: *s,
                folds: k..k + 1,
                whole: false,
                terms: &mut terms[at..],
                kept: &mut [],
                y: None,
                isa: self.isa,
            });
            at += some;
        }
        Ok(C::block(self.isa, R::FOLDS[k], &terms[..len]))
    }
    /// Statistic `k` from the folds of blocks.
    fn finish(&self, k: usize, blocks: &[C], s: &[C; STATS]) -> C {
        self.r.finish(k, C::join(R::FOLDS[k], blocks), *s, self.length())
    }
    /// The values of a row, the first of these, unless there is one for each element.
    fn of_row(&self, s: &[C; STATS]) -> [C; STATS] {
        match R::OUT {
            RowOut::Statistics => *s,
            RowOut::Each | RowOut::Once => {
                [self.r.out([C::lit(f64::NAN); N], *s, self.length()), C::ZERO, C::ZERO, C::ZERO]
            }
        }
    }
    /// The results of `len` elements from `start` on, all of one row. If the formula keeps terms, they are kept from `kept` on,
    /// or they are to be made anew.
    fn write(
        &self,
        start: usize,
        len: usize,
        s: &[C; STATS],
        kept: Option<usize>,
        y: &mut Room<'_, C>,
        scratch: &mut Scratch<C, N>,
    ) -> Result<()> {
        let last = R::FOLDS.len();
        let mut at = 0;
        while at < len {
            let some = self.stretch(start + at, BLOCK.min(len - at));
            let anew = keeps::<R, N>() && kept.is_none();
            self.run(Task {
                r: self.r,
                n: self.length(),
                len: some,
                rows: 1,
                x: self.part(start + at, some, &mut scratch.x, &mut scratch.held)?,
                step: [0; N],
                s: *s,
                folds: if anew { last - 1..last } else { last..last },
                whole: false,
                terms: room(&mut scratch.terms)?,
                kept: match kept {
                    Some(from) => &mut scratch.kept[from + at..],
                    None if anew => room(&mut scratch.kept)?,
                    None => &mut [],
                },
                y: Some(&mut *y),
                isa: self.isa,
            });
            at += some;
        }
        Ok(())
    }
    /// A row of several blocks.
    fn long(&self, row: usize, room: &mut Room<'_, C>, scratch: &mut Scratch<C, N>) -> Result<()> {
        let (n, first) = (self.n, row * self.n);
        let mut s = [C::NOTHING; STATS];
        let mut blocks = filled(n.div_ceil(BLOCK), C::NOTHING)?;
        if keeps::<R, N>() {
            room_for(&mut scratch.kept, n.next_multiple_of(BLOCK))?;
        }
        for k in 0..R::FOLDS.len() {
            for (b, folded) in blocks.iter_mut().enumerate() {
                *folded = self.fold(k, first, b * BLOCK, &s, scratch, b * BLOCK)?;
            }
            s[k] = self.finish(k, &blocks, &s);
        }
        match R::OUT {
            RowOut::Once => room.copy(&self.of_row(&s)[..1]),
            RowOut::Statistics => room.copy(&s[..R::FOLDS.len()]),
            RowOut::Each => self.write(first, n, &s, keeps::<R, N>().then_some(0), room, scratch)?,
        }
        Ok(())
    }
    /// Some rows of at most a block each, and no more than fit into a buffer, from `first` on.
    fn short(
        &self,
        first: usize,
        rows: usize,
        y: &mut Room<'_, C>,
        scratch: &mut Scratch<C, N>,
    ) -> Result<()> {
        let n = self.n;
        let (padded, reach) = (n.next_multiple_of(WINDOW), rows.saturating_sub(1) * n);
        let (mut x, mut step): ([&[C]; N], _) = ([&[]; N], [n; N]);
        let operands = x.iter_mut().zip(&mut step).zip(&self.x).zip(&mut scratch.x).zip(&mut scratch.held);
        for ((((x, step), stage), buffer), held) in operands {
            if n == 0 {
                continue;
            }
            if let Some(all) = stage.padded(first * n, rows * n, reach + padded) {
                *x = all;
                continue;
            }
            let buffer = room(buffer)?;
            if stage.is_one_row(n) {
                // The same for all rows, such as weights: read once.
                if held.is_none() {
                    stage.read(first * n, &mut buffer[..n]);
                    *held = Some(first);
                }
                (*x, *step) = (&buffer[..padded], 0);
            } else {
                stage.read(first * n, &mut buffer[..rows * n]);
                *x = &buffer[..reach + padded];
            }
        }
        let task = Task {
            r: self.r,
            n: self.length(),
            len: n,
            rows,
            x,
            step,
            s: [C::NOTHING; STATS],
            folds: 0..R::FOLDS.len(),
            whole: true,
            terms: room_for(&mut scratch.terms, n)?,
            kept: if keeps::<R, N>() {
                room_for(&mut scratch.kept, side::<R, N>(n) * padded)?
            } else {
                &mut []
            },
            y: Some(y),
            isa: self.isa,
        };
        self.run(task);
        Ok(())
    }
}

/// What the kernel is to do with some rows, or with a part of one.
struct Task<'a, 'r, C, R, const N: usize> {
    r: &'a R,
    /// Elements of a whole row.
    n: C,
    /// Elements here of a row.
    len: usize,
    rows: usize,
    /// The operands, and how far a row is from the one before.
    x: [&'a [C]; N],
    step: [usize; N],
    /// Statistics that are there.
    s: [C; STATS],
    /// Statistics whose terms are wanted.
    folds: std::ops::Range<usize>,
    /// Are these whole rows, whose terms are to be folded, too?
    whole: bool,
    /// Room for terms.
    terms: &'a mut [C],
    /// Room for, or with, the terms that are kept; if empty, they are terms as others.
    kept: &'a mut [C],
    /// Room for results, if they are wanted.
    y: Option<&'a mut Room<'r, C>>,
    isa: Isa,
}

impl<C: Float, R: Rows<N>, const N: usize> Task<'_, '_, C, R, N> {
    /// Whole short rows of two statistics, of which the first is plain, and the terms of the second are kept. Each step of a
    /// row waits for the one before, most of all a fold for the last of its terms; as that is not little beside a short row,
    /// the steps of several rows fill the gaps.
    #[inline(always)]
    fn side_by_side(self) {
        let Task { x, step, kept, y, .. } = self;
        let Some(y) = y else { return };
        let (r, n, len) = (*self.r, V(self.n), self.len);
        let (padded, side) = (len.next_multiple_of(WINDOW), side::<R, N>(len));
        for first in (0..self.rows).step_by(side) {
            let rows = first..self.rows.min(first + side);
            let mut all = [self.s; SIDE];
            for (s, row) in all.iter_mut().zip(rows.clone()) {
                let x = &x[0][row * step[0]..];
                let folded = C::block(self.isa, R::FOLDS[0], &x[..len]);
                s[0] = r.finish(0, V(folded), s.map(V), n).0;
            }
            for ((s, terms), row) in all.iter().zip(kept.chunks_exact_mut(padded)).zip(rows.clone()) {
                let s = s.map(V);
                let x = windows(&x, &step, row, padded);
                terms::write(Statistic::<C, R, N, 1> { r, x, s, n }, terms, &[]);
            }
            for (s, terms) in all.iter_mut().zip(kept.chunks_exact(padded)).take(rows.len()) {
                let folded = C::block(self.isa, R::FOLDS[1], &terms[..len]);
                s[1] = r.finish(1, V(folded), s.map(V), n).0;
            }
            for (s, terms) in all.iter().zip(kept.chunks_exact(padded)).take(rows.len()) {
                terms::finish(OfTerms { r, terms: terms.as_chunks().0, s: s.map(V), n }, len, y);
            }
        }
    }
}

/// A row of each operand, in windows.
#[inline(always)]
fn windows<'a, C, const N: usize>(
    all: &[&'a [C]; N],
    step: &[usize; N],
    row: usize,
    padded: usize,
) -> [&'a [[C; WINDOW]]; N] {
    let mut x: [&[[C; WINDOW]]; N] = [&[]; N];
    for ((x, all), step) in x.iter_mut().zip(all).zip(step) {
        *x = all[row * step..][..padded].as_chunks().0;
    }
    x
}

/// Short rows that go side by side, at most.
const SIDE: usize = 8;

/// Is it a formula whose short rows do?
const fn goes_side_by_side<R: Rows<N>, const N: usize>() -> bool {
    R::PLAIN && keeps::<R, N>() && R::FOLDS.len() == 2
}

/// How many rows of `n` elements go side by side.
fn side<R: Rows<N>, const N: usize>(n: usize) -> usize {
    /// Elements of their terms, 4 KiB of f32: they are read twice more.
    const ALL: usize = 1024;
    let many = goes_side_by_side::<R, N>() && n > 0;
    if many { (ALL / n.next_multiple_of(WINDOW)).clamp(1, SIDE) } else { 1 }
}

impl<C: Float, R: Rows<N>, const N: usize> Kernel for Task<'_, '_, C, R, N> {
    type Out = ();
    #[inline(always)]
    fn run(mut self) {
        if const { goes_side_by_side::<R, N>() } && self.whole && side::<R, N>(self.len) > 1 {
            return self.side_by_side();
        }
        let (r, n, len) = (*self.r, V(self.n), self.len);
        let folds = R::FOLDS.len();
        let padded = len.next_multiple_of(WINDOW);
        for row in 0..self.rows {
            let x = windows(&self.x, &self.step, row, padded);
            let mut s = self.s;
            let mut k = self.folds.start;
            while k < self.folds.end {
                let v = s.map(V);
                if R::PLAIN && k == 0 && self.whole {
                    let folded = C::block(self.isa, R::FOLDS[k], &x[0].as_flattened()[..len]);
                    s[k] = r.finish(k, V(folded), v, n).0;
                    k += 1;
                    continue;
                }
                let stays = keeps::<R, N>() && k + 1 == folds && !self.kept.is_empty();
                let all = if stays { &mut self.kept[..padded] } else { &mut self.terms[..padded] };
                // While exponentials are computed, memory has nothing to do: it fetches what comes next. With cheaper terms
                // that costs more than it gains.
                let places = match &self.y {
                    Some(y) if const { goes_side_by_side::<R, N>() } && self.whole && stays => {
                        &[x[0].as_ptr().cast(), y.place()][..]
                    }
                    Some(_) | None => &[],
                };
                match k {
                    0 if folds > 0 => terms::write(Statistic::<C, R, N, 0> { r, x, s: v, n }, all, places),
                    1 if folds > 1 => terms::write(Statistic::<C, R, N, 1> { r, x, s: v, n }, all, places),
                    2 if folds > 2 => terms::write(Statistic::<C, R, N, 2> { r, x, s: v, n }, all, places),
                    3 if folds > 3 => terms::write(Statistic::<C, R, N, 3> { r, x, s: v, n }, all, places),
                    _ => unreachable!("a formula has no more statistics than it says"),
                }
                if self.whole {
                    let folded = C::block(self.isa, R::FOLDS[k], &all[..len]);
                    s[k] = r.finish(k, V(folded), v, n).0;
                }
                k += 1;
            }
            if let Some(y) = &mut self.y {
                let v = s.map(V);
                if R::OUT == RowOut::Once {
                    y.copy(&[r.out([V(C::lit(f64::NAN)); N], v, n).0]);
                } else if R::OUT == RowOut::Statistics {
                    y.copy(&s[..R::FOLDS.len()]);
                } else if keeps::<R, N>() {
                    let terms = self.kept[..padded].as_chunks().0;
                    terms::finish(OfTerms { r, terms, s: v, n }, len, y);
                } else {
                    terms::finish(Results { r, x, s: v, n }, len, y);
                }
            }
        }
    }
}

/// Does the formula make its results from the last statistic's terms?
const fn keeps<R: Rows<N>, const N: usize>() -> bool {
    R::KEEPS && matches!(R::OUT, RowOut::Each) && !R::FOLDS.is_empty()
}

/// Terms of statistic `K`.
#[derive(Clone, Copy)]
struct Statistic<'a, C, R, const N: usize, const K: usize> {
    r: R,
    x: [&'a [[C; WINDOW]]; N],
    s: [V<C>; STATS],
    n: V<C>,
}

impl<'a, C: Float, R: Rows<N>, const N: usize, const K: usize> Terms<C> for Statistic<'a, C, R, N, K> {
    type Window = [&'a [C; WINDOW]; N];
    #[inline(always)]
    fn window(&self, number: usize) -> Self::Window {
        self.x.map(|x| &x[number])
    }
    #[inline(always)]
    fn at(&self, w: &Self::Window, j: usize) -> C {
        self.r.term(K, w.map(|x| V(x[j])), self.s, self.n).0
    }
}

/// Results.
#[derive(Clone, Copy)]
struct Results<'a, C, R, const N: usize> {
    r: R,
    x: [&'a [[C; WINDOW]]; N],
    s: [V<C>; STATS],
    n: V<C>,
}

impl<'a, C: Float, R: Rows<N>, const N: usize> Terms<C> for Results<'a, C, R, N> {
    type Window = [&'a [C; WINDOW]; N];
    #[inline(always)]
    fn window(&self, number: usize) -> Self::Window {
        self.x.map(|x| &x[number])
    }
    #[inline(always)]
    fn at(&self, w: &Self::Window, j: usize) -> C {
        self.r.out(w.map(|x| V(x[j])), self.s, self.n).0
    }
}

/// Results of terms that were kept.
#[derive(Clone, Copy)]
struct OfTerms<'a, C, R, const N: usize> {
    r: R,
    terms: &'a [[C; WINDOW]],
    s: [V<C>; STATS],
    n: V<C>,
}

impl<'a, C: Float, R: Rows<N>, const N: usize> Terms<C> for OfTerms<'a, C, R, N> {
    type Window = &'a [C; WINDOW];
    #[inline(always)]
    fn window(&self, number: usize) -> Self::Window {
        &self.terms[number]
    }
    #[inline(always)]
    fn at(&self, w: &Self::Window, j: usize) -> C {
        self.r.out_of_term(V(w[j]), self.s, self.n).0
    }
}
