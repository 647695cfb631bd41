//! Row-wise formulas (softmax, norms) over strided rows, column-wise: one row per lane.

use super::{
    ColumnOperand, HELD_ELEMENTS_OF_LONG_ROWS, HalveLanes, MAX_HELD_ELEMENTS, MIN_ROWS, RowGrid, RowGroup,
    RowLanes, RowLanesVec, SHORT_ROW_MAX_ELEMENTS, combine_lanes, join_block_lanes,
};
use crate::CpuDevice;
use crate::reduce::float::Float;
use crate::reduce::rowwise::kernel::keeps_terms;
use crate::reduce::rowwise::term_loop::TERM_CHUNK;
use crate::runtime::memory::filled;
use crate::runtime::output::column_blocks::{ColumnBlocks, fill_column_blocks};
use crate::runtime::parallel::try_for_each_piece;
use crate::view::View;
use elinvar_core::order::{BLOCK, LANES};
use elinvar_core::{HostVec, Result};
use elinvar_ops::backend::Placed;
use elinvar_ops::lane::Lane;
use elinvar_ops::rows::{RowFormula, RowOut, STATS};
use elinvar_simd::dispatch::{LaneKernel, ReduceLanes, SimdLanes, run_lanes};
use elinvar_simd::isa::Isa;

/// Nanoseconds for a term, at least.
const NS_PER_ELEMENT: f64 = 0.2;
/// Elements of rows that are read several times, at most: a window of each stays in a second-level cache.
const MAX_ELEMENTS: usize = 4096;

/// The results of a formula, if the rows, which are the first `kept` axes, had better go side by side.
pub(crate) fn rowwise<C: Float, R: RowFormula<N>, const N: usize>(
    d: &CpuDevice,
    r: &R,
    x: &[View<'_>; N],
    kept: usize,
) -> Result<Option<Placed<HostVec<C>>>> {
    let Some((grid, x)) = RowGrid::new::<C>(R::NAME, x, kept, MIN_ROWS)? else { return Ok(None) };
    let once = R::FOLDS.len() == 1 && R::OUT == RowOut::Once;
    if grid.n > MAX_ELEMENTS && !once {
        return Ok(None);
    }
    let work = ColumnWork {
        isa: d.isa(),
        r,
        x: std::array::from_fn(|k| &x[k]),
        grid: &grid,
        n: C::lit(grid.n as f64),
    };
    if once
        && (grid.n > BLOCK
            || grid.n > MAX_HELD_ELEMENTS && grid.matrices * grid.columns < 2 * TERM_CHUNK * d.threads())
    {
        return Ok(Some(work.by_blocks(d)?.into()));
    }
    let ns = (R::FOLDS.len() + 1) as f64 * NS_PER_ELEMENT;
    let width = (R::OUT != RowOut::Each).then(|| R::OUT.width(grid.n, R::FOLDS.len()));
    let ns = ns * grid.n as f64 / width.unwrap_or(grid.n) as f64;
    let buffer = fill_column_blocks(d, grid.column_blocks(width), ns, &|column_blocks| {
        let mut scratch = ColumnScratch::new::<R>(grid.n)?;
        while let Some(column_block) = column_blocks.next() {
            let width = if grid.upright && width.is_none() { 1 } else { width.unwrap_or(grid.n) };
            work.group(grid.group(column_block, width), column_blocks, &mut scratch)?;
        }
        Ok(())
    })?;
    Ok(Some(Placed { buffer, layout: if width.is_none() { grid.layout()? } else { None } }))
}

/// A formula and its operands.
struct ColumnWork<'a, C, R, const N: usize> {
    isa: Isa,
    r: &'a R,
    x: [&'a ColumnOperand<'a, C>; N],
    grid: &'a RowGrid,
    n: C,
}

/// Buffers of a thread.
struct ColumnScratch<C, const N: usize> {
    x: [RowLanesVec<C>; N],
    lanes: RowLanesVec<C>,
    /// Terms that are kept, and then results.
    y: RowLanesVec<C>,
    /// The folds of blocks.
    blocks: RowLanesVec<C>,
    s: [RowLanes<C>; STATS],
}

impl<C: Float, const N: usize> ColumnScratch<C, N> {
    fn new<R: RowFormula<N>>(n: usize) -> Result<Self> {
        let held = if n <= MAX_HELD_ELEMENTS { n } else { HELD_ELEMENTS_OF_LONG_ROWS };
        let mut x = [const { RowLanesVec(HostVec::new()) }; N];
        for x in &mut x {
            *x = RowLanesVec::new(held)?;
        }
        Ok(ColumnScratch {
            x,
            lanes: RowLanesVec::new(n.min(LANES))?,
            y: RowLanesVec::new(if R::OUT == RowOut::Each {
                held.next_multiple_of(SHORT_ROW_MAX_ELEMENTS)
            } else {
                STATS
            })?,
            blocks: RowLanesVec::new(n.div_ceil(BLOCK))?,
            s: [[C::POSITIVE_ZERO; TERM_CHUNK]; STATS],
        })
    }
}

impl<C: Float, R: RowFormula<N>, const N: usize> ColumnWork<'_, C, R, N> {
    /// Elements that are held at once.
    fn held(&self) -> usize {
        if self.grid.n <= MAX_HELD_ELEMENTS { self.grid.n } else { HELD_ELEMENTS_OF_LONG_ROWS }
    }
    /// Copies elements of all operands.
    fn load(&self, group: RowGroup, start: usize, count: usize, scratch: &mut ColumnScratch<C, N>) {
        for (x, into) in self.x.iter().zip(&mut scratch.x) {
            // An element that is repeated is needed once.
            let count = if x.repeats() { 1 } else { count };
            x.read(self.isa, group, start, &mut into.all_mut()[..count]);
        }
    }
    /// The operands, as a kernel reads them.
    fn task<'b>(
        &'b self,
        count: usize,
        x: &'b [RowLanesVec<C>; N],
        s: &'b mut [RowLanes<C>; STATS],
        step_kind: ColumnStep<'b, C>,
    ) -> ColumnTask<'b, C, R, N> {
        let (mut chunks, mut step): ([&[RowLanes<C>]; N], _) = ([&[]; N], [1; N]);
        for k in 0..N {
            let repeats = self.x[k].repeats();
            chunks[k] = &x[k].all()[..if repeats { 1 } else { count }];
            step[k] = usize::from(!repeats);
        }
        ColumnTask { r: self.r, n: self.n, count, x: chunks, step, s, step_kind }
    }
    /// The fold of a block, window by window, as the first of the lanes.
    fn fold(&self, k: usize, group: RowGroup, block: usize, scratch: &mut ColumnScratch<C, N>) {
        let (start, held) = (block * BLOCK, self.held());
        let len = BLOCK.min(self.grid.n - start);
        for at in (0..len).step_by(held) {
            let count = held.min(len - at);
            if self.grid.n > MAX_HELD_ELEMENTS {
                self.load(group, start + at, count, scratch);
            }
            let ColumnScratch { x, lanes, y, s, .. } = scratch;
            let (lanes, terms) = (lanes.all_mut(), y.all_mut());
            run_lanes(self.isa, self.task(count, x, s, ColumnStep::Fold { k, at, lanes, terms }));
        }
        run_lanes(self.isa, HalveLanes { f: R::FOLDS[k], n: len.min(LANES), lanes: scratch.lanes.all_mut() });
    }
    /// All statistics of a group, whose operands are held if they are short.
    fn statistics(&self, group: RowGroup, scratch: &mut ColumnScratch<C, N>) {
        if self.grid.n <= MAX_HELD_ELEMENTS {
            self.load(group, 0, self.grid.n, scratch);
        }
        let blocks = self.grid.n.div_ceil(BLOCK);
        for k in 0..R::FOLDS.len() {
            for b in 0..blocks {
                self.fold(k, group, b, scratch);
                scratch.blocks.all_mut()[b] = scratch.lanes.all()[0];
            }
            join_block_lanes(self.isa, R::FOLDS[k], &mut scratch.blocks.all_mut()[..blocks]);
            self.finish(k, scratch);
        }
    }
    /// Statistic `k` from the first of the blocks' folds.
    fn finish(&self, k: usize, scratch: &mut ColumnScratch<C, N>) {
        let ColumnScratch { x, blocks, s, .. } = scratch;
        run_lanes(self.isa, self.task(0, x, s, ColumnStep::Finish { k, folded: &blocks.all()[0] }));
    }
    /// Whatever comes of a group.
    fn group(
        &self,
        group: RowGroup,
        column_blocks: &mut ColumnBlocks<'_, C>,
        scratch: &mut ColumnScratch<C, N>,
    ) -> Result<()> {
        let n = self.grid.n;
        self.statistics(group, scratch);
        match R::OUT {
            RowOut::Statistics => {
                column_blocks.row(|dst| group.transposed(self.isa, &scratch.s, R::FOLDS.len(), dst));
            }
            RowOut::Once => {
                let ColumnScratch { x, y, s, .. } = scratch;
                run_lanes(self.isa, self.task(0, x, s, ColumnStep::Once(&mut y.all_mut()[0])));
                column_blocks.row(|dst| dst.copy(group.own(&y.all()[0])));
            }
            RowOut::Each => {
                let held = self.held();
                for start in (0..n).step_by(held) {
                    let count = held.min(n - start);
                    if n > MAX_HELD_ELEMENTS {
                        self.load(group, start, count, scratch);
                    }
                    let ColumnScratch { x, y, s, .. } = scratch;
                    let y = &mut y.all_mut()[..count];
                    let step_kind = if keeps_terms::<R, N>() && n <= MAX_HELD_ELEMENTS {
                        ColumnStep::OfTerms(y)
                    } else {
                        ColumnStep::Each(y)
                    };
                    run_lanes(self.isa, self.task(count, x, s, step_kind));
                    group.write(self.isa, self.grid, scratch.y.all(), count, column_blocks);
                }
            }
        }
        Ok(())
    }
    /// One value for each row, from one statistic: threads share the blocks of long ones.
    fn by_blocks(&self, d: &CpuDevice) -> Result<HostVec<C>> {
        let grid = self.grid;
        let (groups, blocks) = (grid.matrices * grid.columns.div_ceil(TERM_CHUNK), grid.n.div_ceil(BLOCK));
        let mut all = filled(groups * blocks * TERM_CHUNK, C::POSITIVE_ZERO)?;
        try_for_each_piece(
            d,
            &mut all,
            TERM_CHUNK,
            BLOCK.min(grid.n) as f64 * NS_PER_ELEMENT,
            &|at, part| {
                let mut scratch = ColumnScratch::new::<R>(grid.n)?;
                let number = at / TERM_CHUNK;
                self.fold(0, grid.numbered(number / blocks), number % blocks, &mut scratch);
                part.copy_from_slice(&scratch.lanes.all()[0]);
                Ok(())
            },
        )?;
        let mut y = crate::runtime::memory::with_capacity(grid.matrices * grid.columns)?;
        let mut scratch = ColumnScratch::<C, N>::new::<R>(grid.n)?;
        for (number, folded) in all.chunks_exact(blocks * TERM_CHUNK).enumerate() {
            scratch.blocks.all_mut()[..blocks].copy_from_slice(folded.as_chunks().0);
            join_block_lanes(self.isa, R::FOLDS[0], &mut scratch.blocks.all_mut()[..blocks]);
            self.finish(0, &mut scratch);
            let ColumnScratch { x, y: once, s, .. } = &mut scratch;
            run_lanes(self.isa, self.task(0, x, s, ColumnStep::Once(&mut once.all_mut()[0])));
            y.extend_from_slice(grid.numbered(number).own(&once.all()[0]));
        }
        Ok(y)
    }
}

/// What a kernel does.
enum ColumnStep<'a, C> {
    /// The terms of statistic `k` join the lanes, of which the first is that of the block's term `at`. Those of a last statistic that is kept
    /// are written as well.
    Fold { k: usize, at: usize, lanes: &'a mut [RowLanes<C>], terms: &'a mut [RowLanes<C>] },
    /// Statistic `k`, from its fold.
    Finish { k: usize, folded: &'a RowLanes<C> },
    /// The result at each element.
    Each(&'a mut [RowLanes<C>]),
    /// The same from the last statistic's terms, which it is written over.
    OfTerms(&'a mut [RowLanes<C>]),
    /// The result of each row.
    Once(&'a mut RowLanes<C>),
}

/// A kernel: compiled for each formula.
struct ColumnTask<'a, C, R, const N: usize> {
    r: &'a R,
    /// Elements of a row.
    n: C,
    /// Elements here.
    count: usize,
    /// The operands' windows, and from one to the next: 1, or 0 if there is but one.
    x: [&'a [RowLanes<C>]; N],
    step: [usize; N],
    s: &'a mut [RowLanes<C>; STATS],
    step_kind: ColumnStep<'a, C>,
}

impl<C: Float, R: RowFormula<N>, const N: usize> LaneKernel for ColumnTask<'_, C, R, N> {
    type T = C;
    const AVX512_F64: bool = false;
    #[inline(always)]
    fn run<L: SimdLanes<C> + Lane, M: ReduceLanes<C>, S: SimdLanes<C> + Lane>(self) {
        macro_rules! statistic {
            ($number:expr, $K:ident => $body:expr) => {
                statistic!(@ $number, $K, $body, 0 1 2 3)
            };
            (@ $number:expr, $K:ident, $body:expr, $($k:literal)*) => {
                match $number {
                    $($k if $k < R::FOLDS.len() => {
                        const $K: usize = $k;
                        $body
                    })*
                    _ => unreachable!("a formula has no more statistics than it says"),
                }
            };
        }
        let ColumnTask { r, n, count, x, step, s, step_kind } = self;
        let x = ColumnOperands { r, n, x, step };
        match step_kind {
            ColumnStep::Fold { k, at, lanes, terms } => {
                statistic!(k, K => x.fold::<M, K>(s, at, count, lanes, terms))
            }
            ColumnStep::Finish { k, folded } => statistic!(k, K => x.finish::<M, K>(s, folded)),
            ColumnStep::Each(y) => x.results::<M>(s, y),
            ColumnStep::OfTerms(y) => x.of_terms::<M>(s, y),
            ColumnStep::Once(y) => x.once::<M>(s, y),
        }
    }
}

/// What the kernel reads.
struct ColumnOperands<'a, C, R, const N: usize> {
    r: &'a R,
    n: C,
    x: [&'a [RowLanes<C>]; N],
    step: [usize; N],
}

/// (Loops and functions, because closures would not be inlined.)
impl<'a, C: Float, R: RowFormula<N>, const N: usize> ColumnOperands<'a, C, R, N> {
    /// The operands at element `i`.
    #[inline(always)]
    fn chunks(&self, i: usize) -> [&'a RowLanes<C>; N] {
        let mut all = [&self.x[0][i * self.step[0]]; N];
        for ((all, x), step) in all.iter_mut().zip(&self.x).zip(&self.step) {
            *all = &x[i * step];
        }
        all
    }
    #[inline(always)]
    fn term<M: ReduceLanes<C>, const K: usize>(
        &self,
        x: &[&RowLanes<C>; N],
        s: &[RowLanes<C>; STATS],
        c: usize,
    ) -> M {
        self.r.term(K, at::<C, M, N>(x, c), statistics(s, c), M::splat(self.n))
    }
    #[inline(always)]
    fn fold<M: ReduceLanes<C>, const K: usize>(
        &self,
        s: &[RowLanes<C>; STATS],
        at: usize,
        count: usize,
        lanes: &mut [RowLanes<C>],
        terms: &mut [RowLanes<C>],
    ) {
        let keep = const { keeps_terms::<R, N>() && K + 1 == R::FOLDS.len() };
        let start = M::splat(C::init(R::FOLDS[K]));
        for i in 0..count {
            let (x, lane) = (self.chunks(i), &mut lanes[(at + i) % LANES]);
            let (begins, mut c) = (at + i < LANES, 0);
            while c < TERM_CHUNK {
                let term = self.term::<M, K>(&x, s, c);
                if keep {
                    term.store(&mut terms[i][c..]);
                }
                let before = if begins { start } else { M::load(&lane[c..]) };
                combine_lanes(R::FOLDS[K], before, term).store(&mut lane[c..]);
                c += M::WIDTH;
            }
        }
    }
    #[inline(always)]
    fn finish<M: ReduceLanes<C>, const K: usize>(&self, s: &mut [RowLanes<C>; STATS], folded: &RowLanes<C>) {
        let mut c = 0;
        while c < TERM_CHUNK {
            let s_k = self.r.finish(K, M::load(&folded[c..]), statistics(s, c), M::splat(self.n));
            s_k.store(&mut s[K][c..]);
            c += M::WIDTH;
        }
    }
    #[inline(always)]
    fn results<M: ReduceLanes<C>>(&self, s: &[RowLanes<C>; STATS], y: &mut [RowLanes<C>]) {
        for (i, y) in y.iter_mut().enumerate() {
            let (x, mut c) = (self.chunks(i), 0);
            while c < TERM_CHUNK {
                self.r.out(at::<C, M, N>(&x, c), statistics(s, c), M::splat(self.n)).store(&mut y[c..]);
                c += M::WIDTH;
            }
        }
    }
    #[inline(always)]
    fn of_terms<M: ReduceLanes<C>>(&self, s: &[RowLanes<C>; STATS], y: &mut [RowLanes<C>]) {
        for y in y {
            let mut c = 0;
            while c < TERM_CHUNK {
                let term = M::load(&y[c..]);
                self.r.out_of_term(term, statistics(s, c), M::splat(self.n)).store(&mut y[c..]);
                c += M::WIDTH;
            }
        }
    }
    #[inline(always)]
    fn once<M: ReduceLanes<C>>(&self, s: &[RowLanes<C>; STATS], y: &mut RowLanes<C>) {
        let mut c = 0;
        while c < TERM_CHUNK {
            let nan = [M::splat(C::lit(f64::NAN)); N];
            self.r.out(nan, statistics(s, c), M::splat(self.n)).store(&mut y[c..]);
            c += M::WIDTH;
        }
    }
}

/// Elements `c` and after of each operand.
#[inline(always)]
fn at<C: Float, M: SimdLanes<C>, const N: usize>(x: &[&RowLanes<C>; N], c: usize) -> [M; N] {
    let mut all = [M::splat(C::POSITIVE_ZERO); N];
    for (a, x) in all.iter_mut().zip(x) {
        *a = M::load(&x[c..]);
    }
    all
}

/// Of each statistic those of rows `c` and after.
#[inline(always)]
fn statistics<C: Float, M: SimdLanes<C>>(s: &[RowLanes<C>; STATS], c: usize) -> [M; STATS] {
    let mut all = [M::splat(C::POSITIVE_ZERO); STATS];
    for (a, s) in all.iter_mut().zip(s) {
        *a = M::load(&s[c..]);
    }
    all
}
