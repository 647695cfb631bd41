//! Row-wise formulas (softmax, layer norm, RMS norm and their gradients): terms of a statistic,
//! their fold, the next statistic, then the result.
//!
//! The formula's own loops ([`RowLoops`]) are called once for a statistic of a group of short rows,
//! or of a block of a long one. Where terms are not folded in registers, they go through a block
//! that stays in L1 and are folded there by code that all formulas share.

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
use elinvar_ops::rows::{RowObject, RowOut, STATS};
use elinvar_simd::LINE;
use elinvar_simd::dispatch::folds_in_registers;
use elinvar_simd::isa::Isa;
use elinvar_simd::row_loop::{
    GroupOut, LaneSums, MAX_GROUP_ROWS, MAX_ROW_OPERANDS, Prefetch, RowBlock, RowLoops, RowSlice, Statistics,
    TERM_CHUNK, TermsOut,
};
use elinvar_simd::uninit::UninitSlice;
use std::ops::RangeInclusive;

/// Elements of the short rows that are taken at a time: what operands that are not in memory as
/// they are read are copied to has room for a block.
const SHORT_ROWS_ELEMENTS: usize = BLOCK;
/// Elements that a task has, at least and at most.
const TASK_ELEMENTS: RangeInclusive<usize> = 1 << 14..=1 << 17;
/// Nanoseconds for an element of one statistic, at least: a guess between a sum and an exponential.
const NS_PER_ELEMENT: f64 = 0.3;
/// Elements of a group of rows whose terms are in memory, 8 KiB of f32: they are read twice more,
/// from the first-level cache. Each group costs a few calls, so it has several rows.
const GROUP_ELEMENTS_OF_TERMS: usize = 2048;
/// Elements of a group of rows whose terms are not, 16 KiB of f32: they stay in the first-level
/// cache until they are read last, and the next group's come beside them. The lines of results come
/// there, too: then half as many.
const GROUP_ELEMENTS: usize = 4096;
/// How far ahead memory is fetched, in bytes: the next row of a thousand f32, or some short ones.
/// The processor foresees what follows within a page, and pages are as long.
const PREFETCH_DISTANCE_BYTES: usize = 4096;

/// A row-wise formula over views of one shape, of which the first `kept` axes are the rows.
pub(crate) fn rowwise(
    d: &CpuDevice,
    f: &dyn RowObject,
    x: &[View<'_>],
    kept: usize,
    dtype: DType,
) -> Result<Placed<HostData>> {
    each_float!(f.name(), dtype, C => compute::<C>(d, f, x, kept, dtype))
}

fn compute<C: Float>(
    d: &CpuDevice,
    f: &dyn RowObject,
    x: &[View<'_>],
    kept: usize,
    dtype: DType,
) -> Result<Placed<HostData>> {
    debug_assert!(
        !f.is_plain() || first_term_is_first_operand::<C>(f),
        "{}: its first terms are no operand",
        f.name()
    );
    let dims = x[0].layout.shape().dims();
    let (rows, n): (usize, usize) = (dims[..kept].iter().product(), dims[kept..].iter().product());
    if rows * f.out().width(n, f.folds().len()) == 0 {
        return Ok(HostData::full(dtype, 0, 0.into())?.into());
    }
    if let Some(y) = sum_columns_directly(d, f, x, kept)? {
        return Ok(C::stored(d, y, dtype)?.into());
    }
    if let Some(Placed { buffer, layout }) = columns::rowwise(d, f, x, kept)? {
        return Ok(Placed { buffer: C::stored(d, buffer, dtype)?, layout });
    }
    one_by_one::<C>(d, f, x, kept, dtype).map(Placed::from)
}

/// Statistics of no row.
pub(super) fn no_statistics<C: Float>() -> Statistics<C> {
    [[C::POSITIVE_ZERO; TERM_CHUNK]; STATS]
}

/// The sums of columns, if that is what the formula is: what they are folded of need not be copied.
fn sum_columns_directly<C: Float>(
    d: &CpuDevice,
    f: &dyn RowObject,
    x: &[View<'_>],
    kept: usize,
) -> Result<Option<HostVec<C>>> {
    if !(f.is_plain() && matches!((f.folds(), f.out()), ([Fold::Sum], RowOut::Once))) {
        return Ok(None);
    }
    let shape = x[0].layout.shape();
    let n: usize = shape[kept..].iter().product();
    let Some(mut sums) = C::sums_abreast(d, f.name(), &x[0], kept)? else { return Ok(None) };
    let (loops, length) = (C::loops(f), C::lit(n as f64));
    let (mut folded, mut s) = ([C::POSITIVE_ZERO; TERM_CHUNK], no_statistics());
    for sums in sums.chunks_mut(TERM_CHUNK) {
        folded[..sums.len()].copy_from_slice(sums);
        s[0].fill(C::POSITIVE_ZERO);
        loops.finish(d.isa(), 0, sums.len(), &folded, &mut s, length);
        loops.once(d.isa(), sums.len(), &s, length, &mut folded);
        sums.copy_from_slice(&folded[..sums.len()]);
    }
    Ok(Some(sums))
}

/// The results, row by row.
fn one_by_one<C: Float>(
    d: &CpuDevice,
    f: &dyn RowObject,
    x: &[View<'_>],
    kept: usize,
    dtype: DType,
) -> Result<HostData> {
    let dims = x[0].layout.shape().dims();
    let (rows, n): (usize, usize) = (dims[..kept].iter().product(), dims[kept..].iter().product());
    let (folds, out) = (f.folds(), f.out());
    let each = out == RowOut::Each;
    let width = out.width(n, folds.len());
    let copies: Vec<_> = x.iter().map(|x| row_major_copy::<C>(d, f.name(), x)).collect::<Result<_>>()?;
    let x: Vec<StagedView<'_, C>> =
        x.iter().zip(&copies).map(|(x, copy)| staged(f.name(), x, copy)).collect::<Result<_>>()?;
    let work = RowwiseWork {
        isa: d.isa(),
        f: C::loops(f),
        folds,
        out,
        is_plain: f.is_plain(),
        keeps_terms: f.keeps_terms(),
        x: &x,
        n,
        length: C::lit(n as f64),
    };
    let passes = (folds.len() + usize::from(each)) as f64;
    if n > 2 * BLOCK && rows < 4 * d.threads() {
        // Few long rows: threads share the blocks of each.
        let mut all = elinvar_core::host::filled(rows, no_statistics::<C>())?;
        for (row, s) in all.iter_mut().enumerate() {
            for k in 0..folds.len() {
                let mut blocks = filled(n.div_ceil(BLOCK), C::POSITIVE_ZERO)?;
                let of = &*s;
                try_for_each_piece(d, &mut blocks, 4, BLOCK as f64 * NS_PER_ELEMENT, &|first, part| {
                    let (mut s, mut scratch) = (*of, RowScratch::new());
                    for (b, y) in part.iter_mut().enumerate() {
                        *y = work.fold(k, row * n, (first + b) * BLOCK, &mut s, &mut scratch, 0)?;
                    }
                    Ok::<(), Error>(())
                })?;
                work.finish(k, &blocks, s);
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
    // Several tasks for each thread, as one that is late should not be waited for; each makes
    // buffers of its own.
    let task = (rows * n / (8 * d.threads())).clamp(*TASK_ELEMENTS.start(), *TASK_ELEMENTS.end());
    let together = (task / n.max(1)).max(1);
    let ns = passes * NS_PER_ELEMENT * n as f64 / width as f64;
    C::pieces(d, rows * width, (width, together * width), ns, dtype, &|first, dst| {
        let mut scratch = RowScratch::new();
        let mut row = first / width;
        while dst.remaining() > 0 {
            if n > BLOCK {
                work.long(row, dst, &mut scratch)?;
                row += 1;
            } else {
                row += work.short(row, dst.remaining() / width, dst, &mut scratch)?;
            }
        }
        Ok(())
    })
}

/// Are a plain formula's first terms its first operand?
fn first_term_is_first_operand<C: Float>(f: &dyn RowObject) -> bool {
    let x: [[C; 1]; MAX_ROW_OPERANDS] = std::array::from_fn(|i| [C::lit(i as f64 + 2.0)]);
    let x: Vec<&[C]> = x[..f.arity()].iter().map(|x| &x[..]).collect();
    let mut term = [C::POSITIVE_ZERO];
    C::plain_rows(f).term(0, &x, [C::lit(0.5); STATS], C::lit(3.0), &mut term);
    term[0] == x[0][0]
}

/// Buffers of a thread.
struct RowScratch<C> {
    x: [CopiedOperand<C>; MAX_ROW_OPERANDS],
    /// Terms on their way to a fold.
    terms: HostVec<C>,
    /// Terms of a long row that are read again for the results.
    kept: HostVec<C>,
}

/// Elements of an operand that are not in memory as they are read.
struct CopiedOperand<C> {
    buffer: HostVec<C>,
    /// The name of the element that fills a chunk of the buffer; the first row, if all rows are
    /// that one.
    held: Option<usize>,
}

impl<C: Float> RowScratch<C> {
    fn new() -> RowScratch<C> {
        let x = [const { CopiedOperand { buffer: HostVec::new(), held: None } }; MAX_ROW_OPERANDS];
        RowScratch { x, terms: HostVec::new(), kept: HostVec::new() }
    }
}

/// A buffer with room for a block and what is read behind it; made when it is needed first.
fn block_buffer<C: Float>(buffer: &mut HostVec<C>) -> Result<&mut [C]> {
    buffer_for(buffer, BLOCK)
}

/// The same for `len` elements. It begins with a cache line: a register across two lines is stored
/// and loaded twice.
fn buffer_for<C: Float>(buffer: &mut HostVec<C>, len: usize) -> Result<&mut [C]> {
    let line = LINE / size_of::<C>();
    if buffer.len() < len + TERM_CHUNK + line {
        *buffer = filled(len + TERM_CHUNK + line, C::POSITIVE_ZERO)?;
    }
    let before = buffer.as_ptr().align_offset(LINE);
    Ok(&mut buffer[before.min(line)..])
}

/// A formula and its operands.
struct RowwiseWork<'a, C> {
    isa: Isa,
    f: &'a dyn RowLoops<C>,
    /// What the formula says of itself.
    folds: &'static [Fold],
    out: RowOut,
    is_plain: bool,
    keeps_terms: bool,
    x: &'a [StagedView<'a, C>],
    /// Elements of a row as it is read.
    n: usize,
    /// Elements of a row, as formulas take it.
    length: C,
}

impl<C: Float> RowwiseWork<'_, C> {
    /// How many of `len` elements from `start` on all operands have one after the other, or as one
    /// that is repeated; all, if these are too few to be worth a part of their own. `even`: the
    /// next ones are to begin with a chunk.
    ///
    /// (Weights of channels in groups of several, each repeated for a plane, were a quarter of a
    /// group norm as copies.)
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
    /// The operands at `len` elements of one row from `start` on, and what stands behind them up to
    /// whole chunks; of one that is a number, a chunk.
    fn part<'b>(
        &self,
        start: usize,
        len: usize,
        copies: &'b mut [CopiedOperand<C>; MAX_ROW_OPERANDS],
    ) -> Result<RowBlock<'b, C>>
    where
        Self: 'b,
    {
        let padded = len.next_multiple_of(TERM_CHUNK);
        let mut all = [RowSlice::EMPTY; MAX_ROW_OPERANDS];
        for ((x, stage), CopiedOperand { buffer, held }) in all.iter_mut().zip(self.x).zip(copies) {
            let Some(number) = stage.number(start, len) else {
                x.data = match stage.padded(start, len, padded) {
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
            // A number for each row or part of one, such as the weight of a channel: a chunk of it,
            // for all parts and passes.
            let buffer = &mut buffer_for(buffer, 0)?[..TERM_CHUNK];
            if *held != Some(number) {
                stage.read(self.isa, start, &mut buffer[..1]);
                let value = buffer[0];
                buffer.fill(value);
                *held = Some(number);
            }
            *x = RowSlice { data: buffer, step: 0, repeats: true };
        }
        Ok(RowBlock::new(&all[..self.x.len()], 1, len))
    }
    /// The terms of statistic `k` at `len` elements of one row from `start` on, to `terms`, and
    /// anything up to whole chunks; or to the sums, if there are such.
    fn terms(
        &self,
        k: usize,
        start: usize,
        len: usize,
        s: &mut Statistics<C>,
        copies: &mut [CopiedOperand<C>; MAX_ROW_OPERANDS],
        terms: &mut [C],
        mut sums: Option<&mut LaneSums<C>>,
    ) -> Result<()> {
        let mut at = 0;
        while at < len {
            let some = self.stretch(start + at, len - at, sums.is_some());
            let out = TermsOut {
                terms: if sums.is_some() { &mut [] } else { &mut terms[at..] },
                step: 0,
                sums: sums.as_deref_mut(),
                prefetch: self.next(k, start + at, some),
            };
            self.f.terms(self.isa, k, &self.part(start + at, some, copies)?, s, self.length, out);
            at += some;
        }
        Ok(())
    }
    /// Where the next row has these elements, if this is a row's last statistic but not its first:
    /// so the row is in a cache, and memory has nothing to do.
    fn next(&self, k: usize, start: usize, len: usize) -> Prefetch<C> {
        if k == 0 || k + 1 < self.folds.len() {
            return Prefetch::Nothing;
        }
        let next = self.x[0].padded(start + self.n, len, len);
        next.map_or(Prefetch::Nothing, |next| Prefetch::Later(next.as_ptr()))
    }
    /// The fold of a block of a row's terms. Where the formula keeps the last statistic's, they go
    /// to the buffer of kept ones, from `keep_at` on.
    fn fold(
        &self,
        k: usize,
        row: usize,
        start: usize,
        s: &mut Statistics<C>,
        scratch: &mut RowScratch<C>,
        keep_at: usize,
    ) -> Result<C> {
        let len = BLOCK.min(self.n - start);
        if self.is_plain
            && k == 0
            && let Some(folded) = C::in_place(self.isa, self.folds[k], &self.x[0], row + start, len)
        {
            return Ok(folded);
        }
        let stays = self.keeps_terms && k + 1 == self.folds.len();
        // Terms that stay are written anyway, and a plain formula's first ones are its operand,
        // copied.
        let written = stays || self.is_plain && k == 0;
        let sums = matches!(self.folds[k], Fold::Sum | Fold::Prod) && folds_in_registers::<C>(self.isa);
        if sums && !written && self.x.iter().all(|x| x.is_even(self.n, TERM_CHUNK)) {
            let mut sums = LaneSums::empty(self.folds[k]);
            self.terms(k, row + start, len, s, &mut scratch.x, &mut [], Some(&mut sums))?;
            return Ok(sums.folded(self.isa, self.folds[k]));
        }
        let terms = if stays {
            &mut buffer_for(&mut scratch.kept, keep_at + BLOCK)?[keep_at..]
        } else {
            block_buffer(&mut scratch.terms)?
        };
        self.terms(k, row + start, len, s, &mut scratch.x, terms, None)?;
        Ok(C::block(self.isa, self.folds[k], &terms[..len]))
    }
    /// Statistic `k` of a row from the folds of blocks.
    fn finish(&self, k: usize, blocks: &[C], s: &mut Statistics<C>) {
        let mut folded = [C::POSITIVE_ZERO; TERM_CHUNK];
        folded[0] = C::join(self.folds[k], blocks);
        self.f.finish(self.isa, k, 1, &folded, s, self.length);
    }
    /// The values of a row, the first of these, unless there is one for each element.
    fn of_row(&self, s: &Statistics<C>) -> [C; STATS] {
        match self.out {
            RowOut::Statistics => s.map(|s| s[0]),
            RowOut::Each | RowOut::Once => {
                let mut y = [C::POSITIVE_ZERO; TERM_CHUNK];
                self.f.once(self.isa, 1, s, self.length, &mut y);
                [y[0], C::ZERO, C::ZERO, C::ZERO]
            }
        }
    }
    /// The results of `len` elements from `start` on, all of one row; from terms, if these were
    /// kept, from `kept` on.
    fn write(
        &self,
        start: usize,
        len: usize,
        s: &Statistics<C>,
        kept: Option<usize>,
        y: &mut UninitSlice<'_, C>,
        scratch: &mut RowScratch<C>,
    ) -> Result<()> {
        if let Some(from) = kept {
            let data = &buffer_for(&mut scratch.kept, 0)?[from..];
            let b = RowBlock::new(&[RowSlice { data, ..RowSlice::EMPTY }], 1, len);
            self.f.results_of_terms(self.isa, &b, s, self.length, y);
            return Ok(());
        }
        let mut at = 0;
        while at < len {
            let some = self.stretch(start + at, BLOCK.min(len - at), false);
            let b = self.part(start + at, some, &mut scratch.x)?;
            self.f.results(self.isa, &b, s, self.length, y);
            at += some;
        }
        Ok(())
    }
    /// A row of several blocks.
    fn long(&self, row: usize, dst: &mut UninitSlice<'_, C>, scratch: &mut RowScratch<C>) -> Result<()> {
        let (n, first) = (self.n, row * self.n);
        let mut s = no_statistics();
        let mut blocks = filled(n.div_ceil(BLOCK), C::POSITIVE_ZERO)?;
        if self.keeps_terms {
            buffer_for(&mut scratch.kept, n.next_multiple_of(BLOCK))?;
        }
        for k in 0..self.folds.len() {
            for (b, folded) in blocks.iter_mut().enumerate() {
                *folded = self.fold(k, first, b * BLOCK, &mut s, scratch, b * BLOCK)?;
            }
            self.finish(k, &blocks, &mut s);
        }
        match self.out {
            RowOut::Once | RowOut::Statistics => {
                dst.copy(&self.of_row(&s)[..self.out.width(n, self.folds.len())]);
            }
            RowOut::Each => self.write(first, n, &s, self.keeps_terms.then_some(0), dst, scratch)?,
        }
        Ok(())
    }
    /// At most `rows` rows of at most a block each, from `first` on: as many as are in memory as
    /// they are read, or fit into a buffer. Returns how many.
    fn short(
        &self,
        first: usize,
        rows: usize,
        y: &mut UninitSlice<'_, C>,
        scratch: &mut RowScratch<C>,
    ) -> Result<usize> {
        let n = self.n;
        let padded = n.next_multiple_of(TERM_CHUNK);
        let in_place = |x: &StagedView<'_, C>| {
            x.is_one_row(n) || x.padded(first * n, rows * n, (rows - 1) * n + padded).is_some()
        };
        let rows = match n > 0 && self.x.iter().all(in_place) {
            true => rows,
            false => rows.min((SHORT_ROWS_ELEMENTS / n.max(1)).max(1)),
        };
        let reach = (rows - 1) * n;
        let mut x = [RowSlice { step: n, ..RowSlice::EMPTY }; MAX_ROW_OPERANDS];
        for ((x, stage), CopiedOperand { buffer, held }) in x.iter_mut().zip(self.x).zip(&mut scratch.x) {
            if n == 0 {
                continue;
            }
            if let Some(all) = stage.padded(first * n, rows * n, reach + padded) {
                x.data = all;
                continue;
            }
            if stage.is_one_row(n) {
                // The same for all rows, such as weights: read once, to where lines begin.
                let buffer = buffer_for(buffer, n)?;
                if held.is_none() {
                    stage.read(self.isa, first * n, &mut buffer[..n]);
                    *held = Some(first);
                }
                (x.data, x.step) = (&buffer[..padded], 0);
            } else {
                let buffer = block_buffer(buffer)?;
                stage.read(self.isa, first * n, &mut buffer[..rows * n]);
                x.data = &buffer[..reach + padded];
            }
        }
        let in_registers = folds_in_registers::<C>(self.isa);
        let written = !in_registers || self.keeps_terms;
        let group = if written {
            GROUP_ELEMENTS_OF_TERMS / padded.max(TERM_CHUNK)
        } else if self.folds.len() == 1 && self.out != RowOut::Each {
            // Nothing is read twice.
            MAX_GROUP_ROWS
        } else {
            self.group_elements() / n.max(TERM_CHUNK)
        };
        let group = group.clamp(1, MAX_GROUP_ROWS);
        let terms = match written {
            true => &mut buffer_for(&mut scratch.terms, group * padded)?[..group * padded],
            false => &mut [],
        };
        let mut s = no_statistics();
        let mut once = [C::POSITIVE_ZERO; MAX_GROUP_ROWS];
        let all = RowBlock::new(&x[..self.x.len()], rows, n);
        let mut row = 0;
        while row < rows {
            let some = group.min(rows - row);
            let b = all.group(row, some);
            let first = RowSlice { data: &x[0].data[row * x[0].step..], ..x[0] };
            s.iter_mut().for_each(|s| s[..MAX_GROUP_ROWS].fill(C::POSITIVE_ZERO));
            if in_registers {
                self.statistics_in_registers(&first, some, &b, &mut s, (terms, &mut once), y);
            } else {
                self.statistics(&first, some, &b, &mut s, terms, y);
                if self.out == RowOut::Once {
                    let mut all = [C::POSITIVE_ZERO; TERM_CHUNK];
                    self.f.once(self.isa, some, &s, self.length, &mut all);
                    once.copy_from_slice(&all[..MAX_GROUP_ROWS]);
                }
            }
            self.results(some, &b, &s, (terms, &once), y);
            row += some;
        }
        Ok(rows)
    }
    /// Elements of a group of rows whose terms are not in memory.
    fn group_elements(&self) -> usize {
        if self.out == RowOut::Each { GROUP_ELEMENTS / 2 } else { GROUP_ELEMENTS }
    }
    /// Of a group of short rows, of which `x` is the first operand, all statistics, and the rows'
    /// results if they have one; terms are folded while they are in registers.
    fn statistics_in_registers(
        &self,
        x: &RowSlice<'_, C>,
        rows: usize,
        b: &RowBlock<'_, C>,
        s: &mut Statistics<C>,
        (terms, once): (&mut [C], &mut [C; MAX_GROUP_ROWS]),
        y: &UninitSlice<'_, C>,
    ) {
        let (n, each) = (self.n, self.out == RowOut::Each);
        let mut prefetch = [Prefetch::Nothing; STATS];
        if let Some(last) = self.folds.len().checked_sub(1)
            && (self.keeps_terms || last > 0 && rows * n <= self.group_elements())
        {
            // Memory has nothing to do while exponentials are computed, or while rows are read
            // again from the first-level cache: it fetches the next group's rows, and the lines of
            // this one's results, which are written next.
            let next = x.data.as_ptr().wrapping_add(rows * x.step);
            prefetch[last] = match each {
                true => Prefetch::Both([next, y.place()], [x.step, n]),
                false => Prefetch::One(next, x.step),
            };
        }
        let terms = if self.keeps_terms && each { terms } else { &mut [] };
        let mut out = GroupOut { terms, step: n.next_multiple_of(TERM_CHUNK), prefetch: &prefetch, once };
        self.f.statistics(self.isa, b, s, self.length, &mut out);
    }
    /// The same, whose terms are written to memory and folded there.
    fn statistics(
        &self,
        x: &RowSlice<'_, C>,
        rows: usize,
        b: &RowBlock<'_, C>,
        s: &mut Statistics<C>,
        terms: &mut [C],
        y: &UninitSlice<'_, C>,
    ) {
        let (n, padded) = (self.n, self.n.next_multiple_of(TERM_CHUNK));
        let mut folded = [C::POSITIVE_ZERO; TERM_CHUNK];
        for (k, &fold) in self.folds.iter().enumerate() {
            let (terms, step) = if self.is_plain && k == 0 {
                (x.data, x.step)
            } else {
                // While exponentials are computed, memory has nothing to do: it fetches what comes
                // next.
                let prefetch = if rows == 1 && self.is_plain && self.keeps_terms && k + 1 == self.folds.len()
                {
                    let x = x.data.as_ptr().wrapping_byte_add(PREFETCH_DISTANCE_BYTES);
                    Prefetch::Both([x, y.place()], [0, 0])
                } else {
                    Prefetch::Nothing
                };
                let out = TermsOut::written(&mut *terms, padded, prefetch);
                self.f.terms(self.isa, k, b, s, self.length, out);
                (&*terms, padded)
            };
            for (row, folded) in folded[..rows].iter_mut().enumerate() {
                *folded = C::block(self.isa, fold, &terms[row * step..][..n]);
            }
            self.f.finish(self.isa, k, rows, &folded, s, self.length);
        }
    }
    /// What comes out of a group of short rows.
    fn results(
        &self,
        rows: usize,
        b: &RowBlock<'_, C>,
        s: &Statistics<C>,
        (terms, once): (&[C], &[C; MAX_GROUP_ROWS]),
        y: &mut UninitSlice<'_, C>,
    ) {
        match self.out {
            RowOut::Once => y.copy(&once[..rows]),
            RowOut::Statistics => {
                for row in 0..rows {
                    y.copy(&s.map(|s| s[row])[..self.folds.len()]);
                }
            }
            RowOut::Each if self.keeps_terms => {
                let step = self.n.next_multiple_of(TERM_CHUNK);
                let b = RowBlock::new(&[RowSlice { data: terms, step, repeats: false }], rows, self.n);
                self.f.results_of_terms(self.isa, &b, s, self.length, y);
            }
            RowOut::Each => self.f.results(self.isa, b, s, self.length, y),
        }
    }
}
