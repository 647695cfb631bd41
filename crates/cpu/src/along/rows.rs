//! Row-wise formulas: the terms of a statistic, their fold, the next statistic; then the result.
//!
//! What depends on the formula is one loop over contiguous elements, compiled once for each instruction set and float
//! type: it writes terms (or results) to a block that stays in the first-level cache. Folding the terms is shared code.
//! Blocks are padded to whole vectors, so that no loop has a slow end; what is computed of the padding is thrown away.

use super::float::{Float, each_float};
use super::stage::{Stage, either, turned};
use crate::CpuDevice;
use crate::View;
use crate::isa::{Isa, Kernel, formula};
use crate::lane::V;
use crate::memory::filled;
use crate::parallel::try_pieces;
use crate::simd::room::{Room, fresh_pieces};
use elinvar_core::order::{BLOCK, LANES};
use elinvar_core::{DType, Error, HostData, Result};
use elinvar_ops::rows::{RowOut, Rows, STATS};

/// Elements that are staged at a time: four operands and the terms are 20 KiB of f32.
const PART: usize = 1024;
/// Blocks are padded to a multiple of this: four AVX-512 registers of f32, which is how far loops are unrolled.
const PAD: usize = 64;
/// Nanoseconds for an element of one statistic, at least: a guess between a sum and an exponential.
const NS: f64 = 0.5;

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
    let dims = x[0].layout.shape().dims();
    let (rows, n): (usize, usize) = (dims[..kept].iter().product(), dims[kept..].iter().product());
    let each = R::OUT == RowOut::Each;
    let width = if each { n } else { 1 };
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
                        *y = work.block(k, row * n, (first + b) * BLOCK, s, &mut scratch, None);
                    }
                    Ok::<(), Error>(())
                })?;
                s[k] = work.finish(k, &blocks, s);
            }
        }
        if !each {
            return Ok(all.iter().map(|s| work.once(s)).collect());
        }
        return fresh_pieces(d, rows * n, 4 * BLOCK, NS, &|mut at, room| {
            let mut scratch = Scratch::new()?;
            while room.left() > 0 {
                let some = (n - at % n).min(room.left());
                room.part(some, |room| work.write(at, &all[at / n], room, &mut scratch));
                at += some;
            }
            Ok(())
        });
    }
    let together = (16 * PART / n.max(1)).max(1);
    let ns = passes * NS * n as f64 / width as f64;
    fresh_pieces(d, rows * width, together * width, ns, &|first, room| {
        let mut scratch = Scratch::new()?;
        let mut row = first / width;
        // Several short rows are staged at once.
        let group = (PART / n.max(1)).max(1);
        while room.left() > 0 {
            if n > PART {
                work.long(row, room, &mut scratch)?;
                row += 1;
            } else {
                let some = group.min(room.left() / width);
                work.short(row, room.zeroed(some * width, C::NOTHING), &mut scratch);
                row += some;
            }
        }
        Ok(())
    })
}

/// Buffers of a thread.
struct Scratch<C, const N: usize> {
    /// Operands that do not lie in memory as they are read.
    x: [Vec<C>; N],
    /// The row whose one element fills an operand's buffer.
    repeated: [Option<usize>; N],
    /// Terms, or results that have no room behind them.
    terms: Vec<C>,
}

impl<C: Float, const N: usize> Scratch<C, N> {
    fn new() -> Result<Self> {
        let mut x = [const { Vec::new() }; N];
        for x in &mut x {
            *x = filled(PART + PAD, C::NOTHING)?;
        }
        Ok(Scratch { x, repeated: [None; N], terms: filled(PART + PAD, C::NOTHING)? })
    }
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
    /// The operands at `len` elements from `start` on, and what is behind them up to `reach` elements.
    fn stage<'b>(&self, start: usize, len: usize, reach: usize, buffers: &'b mut [Vec<C>; N]) -> [&'b [C]; N]
    where
        Self: 'b,
    {
        let mut all: [&[C]; N] = [&[]; N];
        for ((x, stage), buffer) in all.iter_mut().zip(&self.x).zip(buffers) {
            *x = stage.block(start, len, reach, buffer);
        }
        all
    }
    /// The operands at `len` elements of one row from `start` on, padded.
    fn part<'b>(
        &self,
        start: usize,
        len: usize,
        buffers: &'b mut [Vec<C>; N],
        repeated: &mut [Option<usize>; N],
    ) -> [&'b [C]; N]
    where
        Self: 'b,
    {
        let (row, padded) = (start / self.n, len.next_multiple_of(PAD));
        let mut all: [&[C]; N] = [&[]; N];
        for (((x, stage), buffer), repeated) in all.iter_mut().zip(&self.x).zip(buffers).zip(repeated) {
            if !stage.repeats(self.n) {
                *x = stage.block(start, len, padded, buffer);
                continue;
            }
            // A number for each row, such as the weight of a channel: written once for all parts and passes.
            if *repeated != Some(row) {
                stage.read(start, &mut buffer[..1]);
                let value = buffer[0];
                buffer.fill(value);
                *repeated = Some(row);
            }
            *x = &buffer[..padded];
        }
        all
    }
    /// Terms of statistic `k` (results, for `k` = [`STATS`]) of contiguous operands, padded.
    fn formula(&self, k: usize, x: [&[C]; N], s: &[C; STATS], out: &mut [C]) {
        formula::<C, _>(self.isa, Formula { r: self.r, k, x, s: *s, n: self.length(), out });
    }
    fn length(&self) -> C {
        C::lit(self.n as f64)
    }
    /// The fold of a block of a row's terms; they stay in `kept`, which has the block's size, if there is one.
    fn block(
        &self,
        k: usize,
        row: usize,
        start: usize,
        s: &[C; STATS],
        scratch: &mut Scratch<C, N>,
        mut kept: Option<&mut [C]>,
    ) -> C {
        let f = R::FOLDS[k];
        let len = BLOCK.min(self.n - start);
        let mut lanes = [C::start(f); LANES];
        for at in (0..len).step_by(PART) {
            let some = PART.min(len - at);
            let x = self.part(row + start + at, some, &mut scratch.x, &mut scratch.repeated);
            let terms = &mut scratch.terms[..some.next_multiple_of(PAD)];
            self.formula(k, x, s, terms);
            C::accumulate(self.isa, f, &mut lanes, &terms[..some]);
            if let Some(kept) = &mut kept {
                kept[at..at + some].copy_from_slice(&terms[..some]);
            }
        }
        C::halved(self.isa, f, lanes, len)
    }
    /// Statistic `k` from the folds of blocks.
    fn finish(&self, k: usize, blocks: &[C], s: &[C; STATS]) -> C {
        self.r.finish(k, C::join(R::FOLDS[k], blocks), *s, self.length())
    }
    fn once(&self, s: &[C; STATS]) -> C {
        self.r.out([C::lit(f64::NAN); N], *s, self.length())
    }
    /// Fills the room with the results of the elements from `start` on, all of one row.
    fn write(&self, start: usize, s: &[C; STATS], room: &mut Room<'_, C>, scratch: &mut Scratch<C, N>) {
        let mut at = start;
        while room.left() > 0 {
            let some = PART.min(room.left());
            let x = self.part(at, some, &mut scratch.x, &mut scratch.repeated);
            self.results(x, some, s, room.zeroed(some, C::NOTHING), &mut scratch.terms);
            at += some;
        }
    }
    /// Results of `len` elements. What follows them in `y` may be overwritten.
    fn results(&self, x: [&[C]; N], len: usize, s: &[C; STATS], y: &mut [C], spare: &mut [C]) {
        let padded = len.next_multiple_of(PAD);
        if let Some(y) = y.get_mut(..padded) {
            return self.formula(STATS, x, s, y);
        }
        self.formula(STATS, x, s, &mut spare[..padded]);
        y[..len].copy_from_slice(&spare[..len]);
    }
    /// A row of several parts.
    fn long(&self, row: usize, room: &mut Room<'_, C>, scratch: &mut Scratch<C, N>) -> Result<()> {
        let mut s = [C::NOTHING; STATS];
        let mut blocks = filled(self.n.div_ceil(BLOCK), C::NOTHING)?;
        // The last statistic's terms stay where the results will be.
        let mut y: &mut [C] = &mut [];
        if R::OUT == RowOut::Each && R::KEEPS {
            y = room.zeroed(self.n, C::NOTHING);
        }
        for k in 0..R::FOLDS.len() {
            let keep = !y.is_empty() && k + 1 == R::FOLDS.len();
            for (b, folded) in blocks.iter_mut().enumerate() {
                let start = b * BLOCK;
                let kept = keep.then(|| &mut y[start..self.n.min(start + BLOCK)]);
                *folded = self.block(k, row * self.n, start, &s, scratch, kept);
            }
            s[k] = self.finish(k, &blocks, &s);
        }
        match R::OUT {
            RowOut::Each if R::KEEPS => y.chunks_mut(PART).for_each(|y| self.out_of_terms(&s, y)),
            RowOut::Each => room.part(self.n, |room| self.write(row * self.n, &s, room, scratch)),
            RowOut::Once => room.copy(&[self.once(&s)]),
        }
        Ok(())
    }
    /// Terms of the last statistic become results.
    fn out_of_terms(&self, s: &[C; STATS], terms: &mut [C]) {
        formula::<C, _>(self.isa, FromTerms::<C, R, N> { r: self.r, s: *s, n: self.length(), terms });
    }
    /// Several rows that fit into a part together, from `first` on.
    fn short(&self, first: usize, y: &mut [C], scratch: &mut Scratch<C, N>) {
        let n = self.n;
        let each = R::OUT == RowOut::Each;
        let rows = if each { y.len() / n } else { y.len() };
        let padded = n.next_multiple_of(PAD);
        let x = match n {
            0 => [&[] as &[C]; N],
            _ => self.stage(first * n, rows * n, (rows - 1) * n + padded, &mut scratch.x),
        };
        for i in 0..rows {
            let x = x.map(|x| &x[i * n..]);
            let mut s = [C::NOTHING; STATS];
            for (k, &f) in R::FOLDS.iter().enumerate() {
                self.formula(k, x, &s, &mut scratch.terms[..padded]);
                let folded = C::block(self.isa, f, &scratch.terms[..n]);
                s[k] = self.r.finish(k, folded, s, self.length());
            }
            if each && R::KEEPS {
                self.out_of_terms(&s, &mut scratch.terms[..padded]);
                y[i * n..(i + 1) * n].copy_from_slice(&scratch.terms[..n]);
            } else if each {
                self.results(x, n, &s, &mut y[i * n..], &mut scratch.terms);
            } else {
                y[i] = self.once(&s);
            }
        }
    }
}

/// The loop that depends on the formula.
struct Formula<'a, C, R, const N: usize> {
    r: &'a R,
    /// Which statistic's terms; [`STATS`] for the results.
    k: usize,
    x: [&'a [C]; N],
    s: [C; STATS],
    n: C,
    /// A multiple of [`PAD`] elements.
    out: &'a mut [C],
}

impl<C: Float, R: Rows<N>, const N: usize> Kernel for Formula<'_, C, R, N> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let (r, s, n) = (*self.r, self.s.map(V), V(self.n));
        let folds = R::FOLDS.len();
        let (x, out) = (self.x, self.out);
        match self.k {
            0 if folds > 0 => each(x, out, |x| r.term(0, x, s, n)),
            1 if folds > 1 => each(x, out, |x| r.term(1, x, s, n)),
            2 if folds > 2 => each(x, out, |x| r.term(2, x, s, n)),
            3 if folds > 3 => each(x, out, |x| r.term(3, x, s, n)),
            _ if R::OUT == RowOut::Each => each(x, out, |x| r.out(x, s, n)),
            _ => unreachable!("a formula has no more than it says"),
        }
    }
}

/// Results from the terms of the last statistic.
struct FromTerms<'a, C, R, const N: usize> {
    r: &'a R,
    s: [C; STATS],
    n: C,
    terms: &'a mut [C],
}

impl<C: Float, R: Rows<N>, const N: usize> Kernel for FromTerms<'_, C, R, N> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        if R::KEEPS {
            let (r, s, n) = (*self.r, self.s.map(V), V(self.n));
            for y in self.terms {
                *y = r.out_of_term(V(*y), s, n).0;
            }
        }
    }
}

#[inline(always)]
fn each<C: Copy, const N: usize>(x: [&[C]; N], out: &mut [C], f: impl Fn([V<C>; N]) -> V<C>) {
    // Known to be whole vectors: no loop for what is left over is compiled.
    let len = out.len() / PAD * PAD;
    let out = &mut out[..len];
    let x = x.map(|x| &x[..len]);
    for (i, y) in out.iter_mut().enumerate() {
        *y = f(std::array::from_fn(|k| V(x[k][i]))).0;
    }
}
