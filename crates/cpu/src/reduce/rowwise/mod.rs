//! Row-wise formulas (softmax, layer norm, RMS norm and their gradients): terms of a statistic,
//! their fold, the next statistic, then the result.
//!
//! One kernel per formula, instruction set and float type does all that a row needs. It takes
//! several short rows at a time, or one statistic of a block of a long row; terms go through a
//! block that stays in L1 and are folded there by code that all formulas share.

mod in_register;
pub(super) mod kernel;
pub(super) mod term_loop;
pub(super) mod with_column_sums;

use super::columns;
use super::float::{Float, each_float};
use super::source::{StagedView, row_major_copy, staged};
use crate::CpuDevice;
use crate::runtime::memory::{filled, with_capacity};
use crate::runtime::parallel::try_for_each_piece;
use crate::view::View;
use elinvar_core::order::BLOCK;
use elinvar_core::{DType, Error, HostData, HostVec, Result};
use elinvar_ops::backend::{Fold, Placed};
use elinvar_ops::rows::{RowFormula, RowOut, STATS};
use elinvar_simd::LINE;
use elinvar_simd::dispatch::{folds_in_registers, run_lanes};
use elinvar_simd::isa::Isa;
use elinvar_simd::uninit::UninitSlice;
use in_register::LaneSums;
use kernel::{RowwiseTask, interleaved_rows, keeps_terms};
use std::ops::RangeInclusive;
use term_loop::TERM_CHUNK;

/// Elements of the short rows that a kernel takes at a time: what operands that do not lie in memory as they are read are copied
/// to has room for a block.
const SHORT_ROWS_ELEMENTS: usize = BLOCK;
/// Elements that a task has, at least and at most.
const TASK_ELEMENTS: RangeInclusive<usize> = 1 << 14..=1 << 17;
/// Nanoseconds for an element of one statistic, at least: a guess between a sum and an exponential.
const NS_PER_ELEMENT: f64 = 0.3;

/// A row-wise formula over views of one shape, of which the first `kept` axes are the rows.
pub(crate) fn rowwise<R: RowFormula<N>, const N: usize>(
    d: &CpuDevice,
    r: &R,
    x: &[View<'_>; N],
    kept: usize,
    dtype: DType,
) -> Result<Placed<HostData>> {
    each_float!(R::NAME, dtype, C => compute::<C, R, N>(d, r, x, kept, dtype))
}

fn compute<C: Float, R: RowFormula<N>, const N: usize>(
    d: &CpuDevice,
    r: &R,
    x: &[View<'_>; N],
    kept: usize,
    dtype: DType,
) -> Result<Placed<HostData>> {
    debug_assert!(
        !R::PLAIN || first_term_is_first_operand::<C, R, N>(r),
        "{}: its first terms are no operand",
        R::NAME
    );
    let dims = x[0].layout.shape().dims();
    let (rows, n): (usize, usize) = (dims[..kept].iter().product(), dims[kept..].iter().product());
    if rows * R::OUT.width(n, R::FOLDS.len()) == 0 {
        return Ok(HostData::full(dtype, 0, 0.into())?.into());
    }
    if let Some(y) = sum_columns_directly(d, r, x, kept)? {
        return Ok(C::stored(d, y, dtype)?.into());
    }
    if let Some(Placed { buffer, layout }) = columns::rowwise(d, r, x, kept)? {
        return Ok(Placed { buffer: C::stored(d, buffer, dtype)?, layout });
    }
    one_by_one::<C, R, N>(d, r, x, kept, dtype).map(Placed::from)
}

/// The sums of columns, if that is what the formula is: what they are folded of need not be copied.
fn sum_columns_directly<C: Float, R: RowFormula<N>, const N: usize>(
    d: &CpuDevice,
    r: &R,
    x: &[View<'_>; N],
    kept: usize,
) -> Result<Option<HostVec<C>>> {
    if const { !(R::PLAIN && matches!((R::FOLDS, R::OUT), ([Fold::Sum], RowOut::Once))) } {
        return Ok(None);
    }
    let shape = x[0].layout.shape();
    let n: usize = shape[kept..].iter().product();
    let Some(mut sums) = C::sums_abreast(d, R::NAME, &x[0], kept)? else { return Ok(None) };
    let (nan, length) = ([C::lit(f64::NAN); N], C::lit(n as f64));
    for sum in &mut sums {
        let mut s = [C::POSITIVE_ZERO; STATS];
        s[0] = r.finish(0, *sum, s, length);
        *sum = r.out(nan, s, length);
    }
    Ok(Some(sums))
}

/// The results, row by row.
fn one_by_one<C: Float, R: RowFormula<N>, const N: usize>(
    d: &CpuDevice,
    r: &R,
    x: &[View<'_>; N],
    kept: usize,
    dtype: DType,
) -> Result<HostData> {
    let dims = x[0].layout.shape().dims();
    let (rows, n): (usize, usize) = (dims[..kept].iter().product(), dims[kept..].iter().product());
    let each = R::OUT == RowOut::Each;
    let width = R::OUT.width(n, R::FOLDS.len());
    let copies: Vec<_> = x.iter().map(|x| row_major_copy::<C>(d, R::NAME, x)).collect::<Result<_>>()?;
    let x: Vec<StagedView<'_, C>> =
        x.iter().zip(&copies).map(|(x, copy)| staged(R::NAME, x, copy)).collect::<Result<_>>()?;
    let work =
        RowwiseWork { isa: d.isa(), r, x: std::array::from_fn(|k| &x[k]), n, length: C::lit(n as f64) };
    let passes = (R::FOLDS.len() + usize::from(each)) as f64;
    if n > 2 * BLOCK && rows < 4 * d.threads() {
        // Few long rows: threads share the blocks of each.
        let mut all = elinvar_core::host::filled(rows, [C::POSITIVE_ZERO; STATS])?;
        for (row, s) in all.iter_mut().enumerate() {
            for k in 0..R::FOLDS.len() {
                let mut blocks = filled(n.div_ceil(BLOCK), C::POSITIVE_ZERO)?;
                try_for_each_piece(d, &mut blocks, 4, BLOCK as f64 * NS_PER_ELEMENT, &|first, part| {
                    let mut scratch = RowScratch::new();
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
            return C::stored(d, y, dtype);
        }
        return C::pieces(d, rows * n, (1, 4 * BLOCK), NS_PER_ELEMENT, dtype, &|mut at, dst| {
            let mut scratch = RowScratch::new();
            while dst.remaining() > 0 {
                let some = (n - at % n).min(dst.remaining());
                work.write(at, some, &all[at / n], None, dst, &mut scratch)?;
                at += some;
            }
            Ok(())
        });
    }
    // Several tasks for each thread, as one that is late should not be waited for; each makes buffers of its own.
    let task = (rows * n / (8 * d.threads())).clamp(*TASK_ELEMENTS.start(), *TASK_ELEMENTS.end());
    let together = (task / n.max(1)).max(1);
    let ns = passes * NS_PER_ELEMENT * n as f64 / width as f64;
    C::pieces(d, rows * width, (width, together * width), ns, dtype, &|first, dst| {
        let mut scratch = RowScratch::new();
        let mut row = first / width;
        // Several short rows are taken at once.
        let group = (SHORT_ROWS_ELEMENTS / n.max(1)).max(1);
        while dst.remaining() > 0 {
            if n > BLOCK {
                work.long(row, dst, &mut scratch)?;
                row += 1;
            } else {
                let some = group.min(dst.remaining() / width);
                work.short(row, some, dst, &mut scratch)?;
                row += some;
            }
        }
        Ok(())
    })
}

/// Are a plain formula's first terms its first operand?
fn first_term_is_first_operand<C: Float, R: RowFormula<N>, const N: usize>(r: &R) -> bool {
    let x: [C; N] = std::array::from_fn(|i| C::lit(i as f64 + 2.0));
    r.term(0, x, [C::lit(0.5); STATS], C::lit(3.0)) == x[0]
}

/// Buffers of a thread.
struct RowScratch<C, const N: usize> {
    x: [CopiedOperand<C>; N],
    /// Terms on their way to a fold.
    terms: HostVec<C>,
    /// Terms that are read again for the results.
    kept: HostVec<C>,
}

/// Elements of an operand that do not lie in memory as they are read.
struct CopiedOperand<C> {
    buffer: HostVec<C>,
    /// The name of the element that fills a window of the buffer; the first row, if all rows are that one.
    held: Option<usize>,
}

impl<C: Float, const N: usize> RowScratch<C, N> {
    fn new() -> RowScratch<C, N> {
        let x = [const { CopiedOperand { buffer: HostVec::new(), held: None } }; N];
        RowScratch { x, terms: HostVec::new(), kept: HostVec::new() }
    }
}

/// A buffer with room for a block and what is read behind it; made when it is needed first.
fn block_buffer<C: Float>(buffer: &mut HostVec<C>) -> Result<&mut [C]> {
    buffer_for(buffer, BLOCK)
}

/// The same for `len` elements. It begins with a cache line: what lies across two is stored and loaded twice.
fn buffer_for<C: Float>(buffer: &mut HostVec<C>, len: usize) -> Result<&mut [C]> {
    let line = LINE / size_of::<C>();
    if buffer.len() < len + TERM_CHUNK + line {
        *buffer = filled(len + TERM_CHUNK + line, C::POSITIVE_ZERO)?;
    }
    let before = buffer.as_ptr().align_offset(LINE);
    Ok(&mut buffer[before.min(line)..])
}

/// A formula and its operands.
struct RowwiseWork<'a, C, R, const N: usize> {
    isa: Isa,
    r: &'a R,
    x: [&'a StagedView<'a, C>; N],
    /// Elements of a row as it is read.
    n: usize,
    /// Elements of a row, as formulas take it.
    length: C,
}

impl<C: Float, R: RowFormula<N>, const N: usize> RowwiseWork<'_, C, R, N> {
    fn run(&self, task: RowwiseTask<'_, '_, C, R, N>) {
        run_lanes(self.isa, task);
    }
    /// How many of `len` elements from `start` on all operands have one after the other, or as one that is repeated; all, if these are too few to
    /// be worth a part of their own. `even`: the next ones are to begin with a window.
    ///
    /// (Weights of channels in groups of several, each repeated for a plane, were a quarter of a group norm as copies.)
    fn stretch(&self, start: usize, len: usize, even: bool) -> usize {
        /// Elements that are copied in about the time that a part takes to begin.
        const COPY_MIN_ELEMENTS: usize = 256;
        let some = self.x.iter().map(|x| x.stretch(start)).min().unwrap_or(len);
        let mut some = if some < COPY_MIN_ELEMENTS { len } else { len.min(some) };
        for run in self.x.iter().filter_map(|x| x.run()) {
            let left = run - start % run.max(1);
            if left >= COPY_MIN_ELEMENTS && (!even || run.is_multiple_of(TERM_CHUNK)) {
                some = some.min(left);
            }
        }
        some
    }
    /// The operands at `len` elements of one row from `start` on, and what stands behind them up to whole windows; of one that is
    /// a number, a window.
    fn part<'b>(
        &self,
        start: usize,
        len: usize,
        copies: &'b mut [CopiedOperand<C>; N],
    ) -> Result<[&'b [C]; N]>
    where
        Self: 'b,
    {
        let padded = len.next_multiple_of(TERM_CHUNK);
        let mut all: [&[C]; N] = [&[]; N];
        for ((x, stage), CopiedOperand { buffer, held }) in all.iter_mut().zip(&self.x).zip(copies) {
            let Some(number) = stage.number(start, len) else {
                *x = match stage.padded(start, len, padded) {
                    Some(all) => all,
                    None => {
                        *held = None;
                        let buffer = block_buffer(buffer)?;
                        stage.read(self.isa, start, &mut buffer[..len]);
                        &buffer[..padded]
                    }
                };
                continue;
            };
            // A number for each row or part of one, such as the weight of a channel: a window of it, for all parts and passes.
            let buffer = &mut buffer_for(buffer, 0)?[..TERM_CHUNK];
            if *held != Some(number) {
                stage.read(self.isa, start, &mut buffer[..1]);
                let value = buffer[0];
                buffer.fill(value);
                *held = Some(number);
            }
            *x = buffer;
        }
        Ok(all)
    }
    /// The terms of statistic `k` at `len` elements of one row from `start` on, to `terms`, and anything up to whole windows; or to the sums,
    /// if there are such.
    fn terms(
        &self,
        k: usize,
        start: usize,
        len: usize,
        s: &[C; STATS],
        copies: &mut [CopiedOperand<C>; N],
        terms: &mut [C],
        mut sums: Option<&mut LaneSums<C>>,
    ) -> Result<()> {
        let mut at = 0;
        while at < len {
            let some = self.stretch(start + at, len - at, sums.is_some());
            self.run(RowwiseTask {
                r: self.r,
                n: self.length,
                len: some,
                rows: 1,
                x: self.part(start + at, some, copies)?,
                step: [0; N],
                s: *s,
                folds: k..k + 1,
                whole: false,
                terms: if sums.is_some() { &mut [] } else { &mut terms[at..] },
                kept: &mut [],
                sums: sums.as_deref_mut().map(|sums| (sums, at + some == len)),
                next: self.next(k, start + at, some),
                y: None,
                isa: self.isa,
            });
            at += some;
        }
        Ok(())
    }
    /// Where the next row has these elements, if this is a row's last statistic but not its first: so the row is in a cache, and memory has
    /// nothing to do.
    fn next(&self, k: usize, start: usize, len: usize) -> Option<*const C> {
        if k == 0 || k + 1 < R::FOLDS.len() {
            return None;
        }
        self.x[0].padded(start + self.n, len, len).map(<[C]>::as_ptr)
    }
    /// The fold of a block of a row's terms. Where the formula keeps the last statistic's, they go to the buffer of kept
    /// ones, from `keep_at` on.
    fn fold(
        &self,
        k: usize,
        row: usize,
        start: usize,
        s: &[C; STATS],
        scratch: &mut RowScratch<C, N>,
        keep_at: usize,
    ) -> Result<C> {
        let len = BLOCK.min(self.n - start);
        if R::PLAIN
            && k == 0
            && let Some(folded) = C::in_place(self.isa, R::FOLDS[k], self.x[0], row + start, len)
        {
            return Ok(folded);
        }
        let stays = keeps_terms::<R, N>() && k + 1 == R::FOLDS.len();
        // Terms that stay are written anyway, and a plain formula's first ones are its operand, copied.
        let written = stays || R::PLAIN && k == 0;
        let sums = matches!(R::FOLDS[k], Fold::Sum | Fold::Prod) && folds_in_registers::<C>(self.isa);
        if sums && !written && self.x.iter().all(|x| x.is_even(self.n, TERM_CHUNK)) {
            let mut sums = LaneSums::empty(R::FOLDS[k]);
            self.terms(k, row + start, len, s, &mut scratch.x, &mut [], Some(&mut sums))?;
            return Ok(sums.folded());
        }
        let terms = if stays {
            &mut buffer_for(&mut scratch.kept, keep_at + BLOCK)?[keep_at..]
        } else {
            block_buffer(&mut scratch.terms)?
        };
        self.terms(k, row + start, len, s, &mut scratch.x, terms, None)?;
        Ok(C::block(self.isa, R::FOLDS[k], &terms[..len]))
    }
    /// Statistic `k` from the folds of blocks.
    fn finish(&self, k: usize, blocks: &[C], s: &[C; STATS]) -> C {
        self.r.finish(k, C::join(R::FOLDS[k], blocks), *s, self.length)
    }
    /// The values of a row, the first of these, unless there is one for each element.
    fn of_row(&self, s: &[C; STATS]) -> [C; STATS] {
        match R::OUT {
            RowOut::Statistics => *s,
            RowOut::Each | RowOut::Once => {
                [self.r.out([C::lit(f64::NAN); N], *s, self.length), C::ZERO, C::ZERO, C::ZERO]
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
        y: &mut UninitSlice<'_, C>,
        scratch: &mut RowScratch<C, N>,
    ) -> Result<()> {
        let last = R::FOLDS.len();
        let mut at = 0;
        while at < len {
            let some = self.stretch(start + at, BLOCK.min(len - at), false);
            let anew = keeps_terms::<R, N>() && kept.is_none();
            self.run(RowwiseTask {
                r: self.r,
                n: self.length,
                len: some,
                rows: 1,
                x: self.part(start + at, some, &mut scratch.x)?,
                step: [0; N],
                s: *s,
                folds: if anew { last - 1..last } else { last..last },
                whole: false,
                terms: block_buffer(&mut scratch.terms)?,
                kept: match kept {
                    Some(from) => &mut buffer_for(&mut scratch.kept, 0)?[from + at..],
                    None if anew => block_buffer(&mut scratch.kept)?,
                    None => &mut [],
                },
                sums: None,
                next: None,
                y: Some(&mut *y),
                isa: self.isa,
            });
            at += some;
        }
        Ok(())
    }
    /// A row of several blocks.
    fn long(&self, row: usize, dst: &mut UninitSlice<'_, C>, scratch: &mut RowScratch<C, N>) -> Result<()> {
        let (n, first) = (self.n, row * self.n);
        let mut s = [C::POSITIVE_ZERO; STATS];
        let mut blocks = filled(n.div_ceil(BLOCK), C::POSITIVE_ZERO)?;
        if keeps_terms::<R, N>() {
            buffer_for(&mut scratch.kept, n.next_multiple_of(BLOCK))?;
        }
        for k in 0..R::FOLDS.len() {
            for (b, folded) in blocks.iter_mut().enumerate() {
                *folded = self.fold(k, first, b * BLOCK, &s, scratch, b * BLOCK)?;
            }
            s[k] = self.finish(k, &blocks, &s);
        }
        match R::OUT {
            RowOut::Once => dst.copy(&self.of_row(&s)[..1]),
            RowOut::Statistics => dst.copy(&s[..R::FOLDS.len()]),
            RowOut::Each => self.write(first, n, &s, keeps_terms::<R, N>().then_some(0), dst, scratch)?,
        }
        Ok(())
    }
    /// Some rows of at most a block each, and no more than fit into a buffer, from `first` on.
    fn short(
        &self,
        first: usize,
        rows: usize,
        y: &mut UninitSlice<'_, C>,
        scratch: &mut RowScratch<C, N>,
    ) -> Result<()> {
        let n = self.n;
        let (padded, reach) = (n.next_multiple_of(TERM_CHUNK), rows.saturating_sub(1) * n);
        let (mut x, mut step): ([&[C]; N], _) = ([&[]; N], [n; N]);
        let operands = x.iter_mut().zip(&mut step).zip(&self.x).zip(&mut scratch.x);
        for (((x, step), stage), CopiedOperand { buffer, held }) in operands {
            if n == 0 {
                continue;
            }
            if let Some(all) = stage.padded(first * n, rows * n, reach + padded) {
                *x = all;
                continue;
            }
            if stage.is_one_row(n) {
                // The same for all rows, such as weights: read once, to where lines begin.
                let buffer = buffer_for(buffer, n)?;
                if held.is_none() {
                    stage.read(self.isa, first * n, &mut buffer[..n]);
                    *held = Some(first);
                }
                (*x, *step) = (&buffer[..padded], 0);
            } else {
                let buffer = block_buffer(buffer)?;
                stage.read(self.isa, first * n, &mut buffer[..rows * n]);
                *x = &buffer[..reach + padded];
            }
        }
        let task = RowwiseTask {
            r: self.r,
            n: self.length,
            len: n,
            rows,
            x,
            step,
            s: [C::POSITIVE_ZERO; STATS],
            folds: 0..R::FOLDS.len(),
            whole: true,
            terms: buffer_for(&mut scratch.terms, n)?,
            kept: if keeps_terms::<R, N>() {
                buffer_for(&mut scratch.kept, interleaved_rows(n) * padded)?
            } else {
                &mut []
            },
            sums: None,
            next: None,
            y: Some(y),
            isa: self.isa,
        };
        self.run(task);
        Ok(())
    }
}
