//! Row-wise formulas of rows side by side.

use super::{FEW, Grid, Group, HELD, Halves, Lines, SHORT, SOME, Window, Windows, joined_blocks, two};
use crate::CpuDevice;
use crate::lazy::buffer::View;
use crate::reduce::float::Float;
use crate::reduce::rowwise::kernel::keeps;
use crate::reduce::rowwise::term_loop::WINDOW;
use crate::runtime::memory::filled;
use crate::runtime::output::column_blocks::{ColumnBlocks, fill_column_blocks};
use crate::runtime::parallel::try_for_each_piece;
use elinvar_core::order::{BLOCK, LANES};
use elinvar_core::{HostVec, Result};
use elinvar_ops::backend::Placed;
use elinvar_ops::lane::Lane;
use elinvar_ops::rows::{RowFormula, RowOut, STATS};
use elinvar_simd::dispatch::{LaneKernel, ReduceLanes, SimdLanes, run_lanes};
use elinvar_simd::isa::Isa;

/// Nanoseconds for a term, at least.
const NS: f64 = 0.2;
/// Elements of rows that are read several times, at most: a window of each stays in a second-level cache.
const LONG: usize = 4096;

/// The results of a formula, if the rows, which are the first `kept` axes, had better go side by side.
pub(crate) fn rows<C: Float, R: RowFormula<N>, const N: usize>(
    d: &CpuDevice,
    r: &R,
    x: &[View<'_>; N],
    kept: usize,
) -> Result<Option<Placed<HostVec<C>>>> {
    let Some((grid, x)) = Grid::new::<C>(R::NAME, x, kept, FEW)? else { return Ok(None) };
    let once = R::FOLDS.len() == 1 && R::OUT == RowOut::Once;
    if grid.n > LONG && !once {
        return Ok(None);
    }
    let work =
        Work { isa: d.isa(), r, x: std::array::from_fn(|k| &x[k]), grid: &grid, n: C::lit(grid.n as f64) };
    if once && (grid.n > BLOCK || grid.n > HELD && grid.matrices * grid.columns < 2 * WINDOW * d.threads()) {
        return Ok(Some(work.by_blocks(d)?.into()));
    }
    let ns = (R::FOLDS.len() + 1) as f64 * NS;
    let width = (R::OUT != RowOut::Each).then(|| R::OUT.width(grid.n, R::FOLDS.len()));
    let ns = ns * grid.n as f64 / width.unwrap_or(grid.n) as f64;
    let buffer = fill_column_blocks(d, grid.stripes(width), ns, &|stripes| {
        let mut scratch = Scratch::new::<R>(grid.n)?;
        while let Some(stripe) = stripes.next() {
            let width = if grid.upright && width.is_none() { 1 } else { width.unwrap_or(grid.n) };
            work.group(grid.group(stripe, width), stripes, &mut scratch)?;
        }
        Ok(())
    })?;
    Ok(Some(Placed { buffer, layout: if width.is_none() { grid.layout()? } else { None } }))
}

/// A formula and its operands.
struct Work<'a, C, R, const N: usize> {
    isa: Isa,
    r: &'a R,
    x: [&'a Lines<'a, C>; N],
    grid: &'a Grid,
    n: C,
}

/// Buffers of a thread.
struct Scratch<C, const N: usize> {
    x: [Windows<C>; N],
    lanes: Windows<C>,
    /// Terms that are kept, and then results.
    y: Windows<C>,
    /// The folds of blocks.
    blocks: Windows<C>,
    s: [Window<C>; STATS],
}

impl<C: Float, const N: usize> Scratch<C, N> {
    fn new<R: RowFormula<N>>(n: usize) -> Result<Self> {
        let held = if n <= HELD { n } else { SOME };
        let mut x = [const { Windows(HostVec::new()) }; N];
        for x in &mut x {
            *x = Windows::new(held)?;
        }
        Ok(Scratch {
            x,
            lanes: Windows::new(n.min(LANES))?,
            y: Windows::new(if R::OUT == RowOut::Each { held.next_multiple_of(SHORT) } else { STATS })?,
            blocks: Windows::new(n.div_ceil(BLOCK))?,
            s: [[C::NOTHING; WINDOW]; STATS],
        })
    }
}

impl<C: Float, R: RowFormula<N>, const N: usize> Work<'_, C, R, N> {
    /// Elements that are held at once.
    fn held(&self) -> usize {
        if self.grid.n <= HELD { self.grid.n } else { SOME }
    }
    /// Copies elements of all operands.
    fn load(&self, group: Group, start: usize, count: usize, scratch: &mut Scratch<C, N>) {
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
        x: &'b [Windows<C>; N],
        s: &'b mut [Window<C>; STATS],
        what: What<'b, C>,
    ) -> Task<'b, C, R, N> {
        let (mut windows, mut step): ([&[Window<C>]; N], _) = ([&[]; N], [1; N]);
        for k in 0..N {
            let repeats = self.x[k].repeats();
            windows[k] = &x[k].all()[..if repeats { 1 } else { count }];
            step[k] = usize::from(!repeats);
        }
        Task { r: self.r, n: self.n, count, x: windows, step, s, what }
    }
    /// The fold of a block, window by window, as the first of the lanes.
    fn fold(&self, k: usize, group: Group, block: usize, scratch: &mut Scratch<C, N>) {
        let (start, held) = (block * BLOCK, self.held());
        let len = BLOCK.min(self.grid.n - start);
        for at in (0..len).step_by(held) {
            let count = held.min(len - at);
            if self.grid.n > HELD {
                self.load(group, start + at, count, scratch);
            }
            let Scratch { x, lanes, y, s, .. } = scratch;
            let (lanes, terms) = (lanes.all_mut(), y.all_mut());
            run_lanes(self.isa, self.task(count, x, s, What::Fold { k, at, lanes, terms }));
        }
        run_lanes(self.isa, Halves { f: R::FOLDS[k], n: len.min(LANES), lanes: scratch.lanes.all_mut() });
    }
    /// All statistics of a group, whose operands are held if they are short.
    fn statistics(&self, group: Group, scratch: &mut Scratch<C, N>) {
        if self.grid.n <= HELD {
            self.load(group, 0, self.grid.n, scratch);
        }
        let blocks = self.grid.n.div_ceil(BLOCK);
        for k in 0..R::FOLDS.len() {
            for b in 0..blocks {
                self.fold(k, group, b, scratch);
                scratch.blocks.all_mut()[b] = scratch.lanes.all()[0];
            }
            joined_blocks(self.isa, R::FOLDS[k], &mut scratch.blocks.all_mut()[..blocks]);
            self.finish(k, scratch);
        }
    }
    /// Statistic `k` from the first of the blocks' folds.
    fn finish(&self, k: usize, scratch: &mut Scratch<C, N>) {
        let Scratch { x, blocks, s, .. } = scratch;
        run_lanes(self.isa, self.task(0, x, s, What::Finish { k, folded: &blocks.all()[0] }));
    }
    /// Whatever comes of a group.
    fn group(
        &self,
        group: Group,
        stripes: &mut ColumnBlocks<'_, C>,
        scratch: &mut Scratch<C, N>,
    ) -> Result<()> {
        let n = self.grid.n;
        self.statistics(group, scratch);
        match R::OUT {
            RowOut::Statistics => {
                stripes.row(|room| group.turned(self.isa, &scratch.s, R::FOLDS.len(), room));
            }
            RowOut::Once => {
                let Scratch { x, y, s, .. } = scratch;
                run_lanes(self.isa, self.task(0, x, s, What::Once(&mut y.all_mut()[0])));
                stripes.row(|room| room.copy(group.own(&y.all()[0])));
            }
            RowOut::Each => {
                let held = self.held();
                for start in (0..n).step_by(held) {
                    let count = held.min(n - start);
                    if n > HELD {
                        self.load(group, start, count, scratch);
                    }
                    let Scratch { x, y, s, .. } = scratch;
                    let y = &mut y.all_mut()[..count];
                    let what = if keeps::<R, N>() && n <= HELD { What::OfTerms(y) } else { What::Each(y) };
                    run_lanes(self.isa, self.task(count, x, s, what));
                    group.write(self.isa, self.grid, scratch.y.all(), count, stripes);
                }
            }
        }
        Ok(())
    }
    /// One value for each row, from one statistic: threads share the blocks of long ones.
    fn by_blocks(&self, d: &CpuDevice) -> Result<HostVec<C>> {
        let grid = self.grid;
        let (groups, blocks) = (grid.matrices * grid.columns.div_ceil(WINDOW), grid.n.div_ceil(BLOCK));
        let mut all = filled(groups * blocks * WINDOW, C::NOTHING)?;
        try_for_each_piece(d, &mut all, WINDOW, BLOCK.min(grid.n) as f64 * NS, &|at, part| {
            let mut scratch = Scratch::new::<R>(grid.n)?;
            let number = at / WINDOW;
            self.fold(0, grid.numbered(number / blocks), number % blocks, &mut scratch);
            part.copy_from_slice(&scratch.lanes.all()[0]);
            Ok(())
        })?;
        let mut y = crate::runtime::memory::with_capacity(grid.matrices * grid.columns)?;
        let mut scratch = Scratch::<C, N>::new::<R>(grid.n)?;
        for (number, folded) in all.chunks_exact(blocks * WINDOW).enumerate() {
            scratch.blocks.all_mut()[..blocks].copy_from_slice(folded.as_chunks().0);
            joined_blocks(self.isa, R::FOLDS[0], &mut scratch.blocks.all_mut()[..blocks]);
            self.finish(0, &mut scratch);
            let Scratch { x, y: once, s, .. } = &mut scratch;
            run_lanes(self.isa, self.task(0, x, s, What::Once(&mut once.all_mut()[0])));
            y.extend_from_slice(grid.numbered(number).own(&once.all()[0]));
        }
        Ok(y)
    }
}

/// What a kernel does.
enum What<'a, C> {
    /// The terms of statistic `k` join the lanes, of which the first is that of the block's term `at`. Those of a last statistic that is kept
    /// are written as well.
    Fold { k: usize, at: usize, lanes: &'a mut [Window<C>], terms: &'a mut [Window<C>] },
    /// Statistic `k`, from its fold.
    Finish { k: usize, folded: &'a Window<C> },
    /// The result at each element.
    Each(&'a mut [Window<C>]),
    /// The same from the last statistic's terms, which it is written over.
    OfTerms(&'a mut [Window<C>]),
    /// The result of each row.
    Once(&'a mut Window<C>),
}

/// A kernel: compiled for each formula.
struct Task<'a, C, R, const N: usize> {
    r: &'a R,
    /// Elements of a row.
    n: C,
    /// Elements here.
    count: usize,
    /// The operands' windows, and from one to the next: 1, or 0 if there is but one.
    x: [&'a [Window<C>]; N],
    step: [usize; N],
    s: &'a mut [Window<C>; STATS],
    what: What<'a, C>,
}

impl<C: Float, R: RowFormula<N>, const N: usize> LaneKernel for Task<'_, C, R, N> {
    type T = C;
    const WIDE: bool = false;
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
        let Task { r, n, count, x, step, s, what } = self;
        let x = Operands { r, n, x, step };
        match what {
            What::Fold { k, at, lanes, terms } => {
                statistic!(k, K => x.fold::<M, K>(s, at, count, lanes, terms))
            }
            What::Finish { k, folded } => statistic!(k, K => x.finish::<M, K>(s, folded)),
            What::Each(y) => x.results::<M>(s, y),
            What::OfTerms(y) => x.of_terms::<M>(s, y),
            What::Once(y) => x.once::<M>(s, y),
        }
    }
}

/// What the kernel reads.
struct Operands<'a, C, R, const N: usize> {
    r: &'a R,
    n: C,
    x: [&'a [Window<C>]; N],
    step: [usize; N],
}

/// (Loops and functions, because closures would not be inlined.)
impl<'a, C: Float, R: RowFormula<N>, const N: usize> Operands<'a, C, R, N> {
    /// The operands at element `i`.
    #[inline(always)]
    fn windows(&self, i: usize) -> [&'a Window<C>; N] {
        let mut all = [&self.x[0][i * self.step[0]]; N];
        for ((all, x), step) in all.iter_mut().zip(&self.x).zip(&self.step) {
            *all = &x[i * step];
        }
        all
    }
    #[inline(always)]
    fn term<M: ReduceLanes<C>, const K: usize>(
        &self,
        x: &[&Window<C>; N],
        s: &[Window<C>; STATS],
        c: usize,
    ) -> M {
        self.r.term(K, at::<C, M, N>(x, c), statistics(s, c), M::splat(self.n))
    }
    #[inline(always)]
    fn fold<M: ReduceLanes<C>, const K: usize>(
        &self,
        s: &[Window<C>; STATS],
        at: usize,
        count: usize,
        lanes: &mut [Window<C>],
        terms: &mut [Window<C>],
    ) {
        let keep = const { keeps::<R, N>() && K + 1 == R::FOLDS.len() };
        let start = M::splat(C::start(R::FOLDS[K]));
        for i in 0..count {
            let (x, lane) = (self.windows(i), &mut lanes[(at + i) % LANES]);
            let (begins, mut c) = (at + i < LANES, 0);
            while c < WINDOW {
                let term = self.term::<M, K>(&x, s, c);
                if keep {
                    term.store(&mut terms[i][c..]);
                }
                let before = if begins { start } else { M::load(&lane[c..]) };
                two(R::FOLDS[K], before, term).store(&mut lane[c..]);
                c += M::WIDTH;
            }
        }
    }
    #[inline(always)]
    fn finish<M: ReduceLanes<C>, const K: usize>(&self, s: &mut [Window<C>; STATS], folded: &Window<C>) {
        let mut c = 0;
        while c < WINDOW {
            let s_k = self.r.finish(K, M::load(&folded[c..]), statistics(s, c), M::splat(self.n));
            s_k.store(&mut s[K][c..]);
            c += M::WIDTH;
        }
    }
    #[inline(always)]
    fn results<M: ReduceLanes<C>>(&self, s: &[Window<C>; STATS], y: &mut [Window<C>]) {
        for (i, y) in y.iter_mut().enumerate() {
            let (x, mut c) = (self.windows(i), 0);
            while c < WINDOW {
                self.r.out(at::<C, M, N>(&x, c), statistics(s, c), M::splat(self.n)).store(&mut y[c..]);
                c += M::WIDTH;
            }
        }
    }
    #[inline(always)]
    fn of_terms<M: ReduceLanes<C>>(&self, s: &[Window<C>; STATS], y: &mut [Window<C>]) {
        for y in y {
            let mut c = 0;
            while c < WINDOW {
                let term = M::load(&y[c..]);
                self.r.out_of_term(term, statistics(s, c), M::splat(self.n)).store(&mut y[c..]);
                c += M::WIDTH;
            }
        }
    }
    #[inline(always)]
    fn once<M: ReduceLanes<C>>(&self, s: &[Window<C>; STATS], y: &mut Window<C>) {
        let mut c = 0;
        while c < WINDOW {
            let nan = [M::splat(C::lit(f64::NAN)); N];
            self.r.out(nan, statistics(s, c), M::splat(self.n)).store(&mut y[c..]);
            c += M::WIDTH;
        }
    }
}

/// Elements `c` and after of each operand.
#[inline(always)]
fn at<C: Float, M: SimdLanes<C>, const N: usize>(x: &[&Window<C>; N], c: usize) -> [M; N] {
    let mut all = [M::splat(C::NOTHING); N];
    for (a, x) in all.iter_mut().zip(x) {
        *a = M::load(&x[c..]);
    }
    all
}

/// Of each statistic those of rows `c` and after.
#[inline(always)]
fn statistics<C: Float, M: SimdLanes<C>>(s: &[Window<C>; STATS], c: usize) -> [M; STATS] {
    let mut all = [M::splat(C::NOTHING); STATS];
    for (a, s) in all.iter_mut().zip(s) {
        *a = M::load(&s[c..]);
    }
    all
}
