//! A task of row-wise work: rows by the formula's loops, operands in place or copied to scratch
//! memory.

use super::super::float::Float;
use super::super::source::StagedView;
use super::{
    GROUP_ELEMENTS, GROUP_ELEMENTS_OF_TERMS, PREFETCH_DISTANCE_BYTES, SHORT_ROWS_ELEMENTS, no_statistics,
};
use crate::runtime::memory::filled;
use elinvar_core::order::BLOCK;
use elinvar_core::{HostVec, Result};
use elinvar_ops::backend::Fold;
use elinvar_ops::rows::{RowOut, STATS};
use elinvar_simd::LINE;
use elinvar_simd::dispatch::folds_in_registers;
use elinvar_simd::isa::Isa;
use elinvar_simd::row_loop::{
    GroupOut, LaneSums, MAX_GROUP_ROWS, MAX_ROW_OPERANDS, Prefetch, RowBlock, RowLoops, RowSlice, Statistics,
    TERM_CHUNK, TermsOut,
};
use elinvar_simd::uninit::UninitSlice;

/// Buffers of a thread.
pub(super) struct RowScratch<C> {
    pub(super) x: [CopiedOperand<C>; MAX_ROW_OPERANDS],
    /// Terms on their way to a fold.
    terms: HostVec<C>,
    /// Terms of a long row that are read again for the results.
    pub(super) kept: HostVec<C>,
}

/// Elements of an operand that are not in memory as they are read.
pub(super) struct CopiedOperand<C> {
    pub(super) buffer: HostVec<C>,
    /// The name of the element that fills a chunk of the buffer; the first row, if all rows are
    /// that one.
    held: Option<usize>,
}

impl<C: Float> RowScratch<C> {
    pub(super) fn new() -> RowScratch<C> {
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
pub(super) struct RowwiseWork<'a, C> {
    pub(super) isa: Isa,
    pub(super) f: &'a dyn RowLoops<C>,
    /// What the formula says of itself.
    pub(super) folds: &'static [Fold],
    pub(super) out: RowOut,
    pub(super) is_plain: bool,
    pub(super) keeps_terms: bool,
    pub(super) x: &'a [StagedView<'a, C>],
    /// Elements of a row as it is read.
    pub(super) n: usize,
    /// Elements of a row, as formulas take it.
    pub(super) length: C,
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
    pub(super) fn part<'b>(
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
    pub(super) fn fold(
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
    pub(super) fn finish(&self, k: usize, blocks: &[C], s: &mut Statistics<C>) {
        let mut folded = [C::POSITIVE_ZERO; TERM_CHUNK];
        folded[0] = C::join(self.folds[k], blocks);
        self.f.finish(self.isa, k, 1, &folded, s, self.length);
    }
    /// The values of a row, the first of these, unless there is one for each element.
    pub(super) fn of_row(&self, s: &Statistics<C>) -> [C; STATS] {
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
    pub(super) fn write(
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
    pub(super) fn long(
        &self,
        row: usize,
        dst: &mut UninitSlice<'_, C>,
        scratch: &mut RowScratch<C>,
    ) -> Result<()> {
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
    pub(super) fn short(
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
        // A plain formula's first terms are its operand.
        let written = !in_registers && (!self.is_plain || self.folds.len() > 1) || self.keeps_terms;
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
                // While exponentials are computed, or rows read again from the first-level cache,
                // memory has nothing to do: it fetches what comes next.
                let is_idle = self.is_plain && k + 1 == self.folds.len() && (self.keeps_terms || k > 0);
                let (next, step) = match rows {
                    1 => (x.data.as_ptr().wrapping_byte_add(PREFETCH_DISTANCE_BYTES), 0),
                    _ => (x.data.as_ptr().wrapping_add(rows * x.step), x.step),
                };
                let prefetch = match self.out {
                    _ if !is_idle => Prefetch::Nothing,
                    RowOut::Each => Prefetch::Both([next, y.place()], [step, n]),
                    RowOut::Once | RowOut::Statistics => Prefetch::One(next, step),
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
