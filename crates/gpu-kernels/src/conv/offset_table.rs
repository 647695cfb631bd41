//! Offset tables of implicit GEMM: the addresses of a chunk's terms, computed once per workgroup
//! (precomputed im2col indices).
//!
//! An element of the right factor is where its column begins plus an offset of its term; whether it
//! is inside of the tensor is one test: the column has a bit for each tap (of each axis by
//! itself) that would be outside, and the term has the bits of its taps. In the gradient by w,
//! where columns are taps and terms are positions, it is the other way round. Two more bits say
//! that a column, or a term, is past the last.
//!
//! A workgroup computes offsets and bits of all terms of a chunk, a few in each invocation, into
//! shared memory. The loads of terms then need no division, no coordinates and no comparison with
//! sizes.

use super::problem::{ConvArgs, ConvConfig, ConvPass, OutputColumn, StagingConfig};
use crate::gemm::StridedMatrix;
use crate::gemm::smem_load::{self, ElementLocation, ElementRequest, TileLoader, TileSource};
use elinvar_core::order;
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Constant, Elem, Place, Scalar};

/// The terms that tables know at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TableSpan {
    /// How many are found out together: a power of two.
    pub window: u32,
    /// How many windows there is room for.
    pub windows: u32,
    /// Neighbouring terms that are contiguous in both factors, and inside or outside together: they
    /// have one entry. A power of two.
    pub grain: u32,
}

impl TableSpan {
    /// Chunks of the order of sums.
    pub fn chunks(windows: u32) -> TableSpan {
        TableSpan { window: order::CHUNK as u32, windows, grain: 1 }
    }
    fn entries(self) -> u32 {
        self.window / self.grain
    }
    /// Elements of shared memory, of four bytes each.
    pub fn elements(self, words: u8, matrix: bool) -> u32 {
        self.entries() * self.windows * (entry(words) + u32::from(!matrix))
    }
}

/// The bit of a column beyond the last, and of a term beyond the last, in the last word.
const OUT_OF_RANGE_BIT: [u32; 2] = [31, 30];

/// How many taps, of all axes together, so many words have bits for.
pub const fn most_taps(words: u8) -> usize {
    32 * words as usize - 2
}

/// Numbers of a term in the table of the right factor: its offset, and words.
const fn entry(words: u8) -> u32 {
    1 + words as u32
}

/// The tables.
pub(super) struct OffsetTable<'k, 'h> {
    k: &'k Builder,
    h: &'h ConvArgs<'k>,
    of: ConvPass,
    words: u8,
    padded: bool,
    channels_last: bool,
    span: TableSpan,
    /// Offsets and words for the right factor, and offsets for the left one, unless it is a matrix.
    right: Place,
    left: Option<Place>,
}

impl<'k, 'h> OffsetTable<'k, 'h> {
    /// Room for so many terms.
    pub fn new(
        k: &'k Builder,
        h: &'h ConvArgs<'k>,
        config: &ConvConfig,
        staged: &StagingConfig,
        span: TableSpan,
    ) -> Self {
        let capacity = span.entries() * span.windows;
        let right = k.shared("right_terms", Elem::I32, capacity * entry(staged.words));
        let left = (!staged.matrix).then(|| k.shared("left_terms", Elem::I32, capacity));
        let ConvConfig { of, padded, channels_last, .. } = *config;
        OffsetTable { k, h, of, words: staged.words, padded, channels_last, span, right, left }
    }

    /// Computes what is to be known of the terms of the window that begins with a term.
    pub fn fill(&self, start: Val<'k>, [index, terms]: [Val<'k>; 2], invocations: u32) {
        let (k, h) = (self.k, self.h);
        let entries = self.span.entries();
        for round in 0..entries.div_ceil(invocations) {
            let e = index + i64::from(round * invocations);
            let one = || {
                let t = start + e.to(h.number) * i64::from(self.span.grain);
                let at = self.digits(t);
                let moved = |a: usize| at[a + 1] * h.terms.axes[a][2];
                let axes = 0..h.terms.axes.len();
                let offset = axes.clone().fold(at[0] * h.right.two, |o, a| o + moved(a) * h.right.axes[a]);
                let beyond = !t.lt(terms);
                let words = match self.of {
                    ConvPass::Forward | ConvPass::GradInput => self.taps(&at[1..]),
                    ConvPass::GradWeight => {
                        let start = axes.clone().map(|a| h.start(a) + moved(a)).collect::<Vec<_>>();
                        self.outside(&start)
                    }
                };
                let words = self.with_ends(words, 1, beyond);
                let slot = self.slot(t);
                let mut all = vec![offset];
                all.extend(words.iter().map(|w| w.bitcast(Scalar::I32)));
                k.store(self.right, slot * i64::from(entry(self.words)), k.compose(&all));
                if let Some(left) = self.left {
                    let offset = axes
                        .fold(at[0] * h.left.two, |o, a| o + at[a + 1] * h.terms.axes[a][1] * h.left.axes[a]);
                    // Who brings terms of the next step need not know whether there is one.
                    k.store(left, slot, beyond.select(offset.like(0), offset));
                }
            };
            if (round + 1) * invocations > entries {
                k.if_(e.lt(k.u32(entries)), one);
            } else {
                one();
            }
        }
    }

    /// Which term a number is: its outer part, then its place along each axis.
    fn digits(&self, t: Val<'k>) -> Vec<Val<'k>> {
        let counts = &self.h.terms.counts;
        // From the innermost part to the one that needs no division.
        let inner: Vec<usize> = match (self.channels_last, self.of) {
            (true, ConvPass::Forward | ConvPass::GradInput) => {
                std::iter::once(0).chain((2..counts.len()).rev()).collect()
            }
            (true, ConvPass::GradWeight) | (false, _) => (1..counts.len()).rev().collect(),
        };
        let mut at = vec![t; counts.len()];
        let mut left = t;
        for &part in &inner {
            let q = left / counts[part];
            at[part] = left - q * counts[part];
            left = q;
        }
        let outermost = (0..counts.len()).find(|part| !inner.contains(part));
        at[outermost.expect("one part is left")] = left;
        at
    }

    /// How many taps there are along each axis, and what a step from one to the next moves the
    /// coordinate by.
    fn steps(&self) -> Vec<(Val<'k>, Val<'k>)> {
        let h = self.h;
        let axes = 0..h.terms.axes.len();
        match self.of {
            ConvPass::Forward | ConvPass::GradInput => {
                axes.map(|a| (h.terms.counts[a + 1], h.terms.axes[a][2])).collect()
            }
            ConvPass::GradWeight => axes.map(|a| (h.column_axes.size(a + 1), h.by(a))).collect(),
        }
    }

    /// A bit for each tap of each axis that is outside, from coordinates under the first ones.
    fn outside(&self, start: &[Val<'k>]) -> Vec<Val<'k>> {
        let k = self.k;
        let mut words = vec![k.u32(0); usize::from(self.words)];
        if !self.padded {
            return words;
        }
        let mut before = start[0].like(0);
        for (a, (count, step)) in self.steps().into_iter().enumerate() {
            let size = self.h.terms.sizes[a];
            words = k.for_(before.like(0), count, before.like(1), &words, |tap, words| {
                // Below 0 is far above as unsigned.
                let inside = (start[a] + tap * step).bitcast(Scalar::U32).lt(size.bitcast(Scalar::U32));
                self.set(words, before + tap, !inside)
            });
            before = before + count;
        }
        words
    }

    /// The bits of taps, one of each axis.
    fn taps(&self, at: &[Val<'k>]) -> Vec<Val<'k>> {
        let k = self.k;
        let mut words = vec![k.u32(0); usize::from(self.words)];
        if !self.padded {
            return words;
        }
        let mut before = at[0].like(0);
        for (&tap, (count, _)) in at.iter().zip(self.steps()) {
            words = self.set(&words, before + tap, k.constant(true.into()));
            before = before + count;
        }
        words
    }

    /// Words with one more bit, if a condition holds.
    fn set(&self, words: &[Val<'k>], bit: Val<'k>, cond: Val<'k>) -> Vec<Val<'k>> {
        let k = self.k;
        let bit = bit.to(Scalar::U32);
        // The amount of a shift is taken modulo 32.
        let one = cond.to(Scalar::U32) << bit;
        if let [word] = words {
            return vec![*word | one];
        }
        let which = bit >> 5;
        let each = |(i, &w): (usize, &Val<'k>)| w | which.eq(k.u32(i as u32)).select(one, k.u32(0));
        words.iter().enumerate().map(each).collect()
    }

    /// Words of a column (side 0) or a term (1), with the two bits of those beyond the last: each
    /// has the other's.
    fn with_ends(&self, mut words: Vec<Val<'k>>, side: usize, beyond: Val<'k>) -> Vec<Val<'k>> {
        let last = words.last_mut().expect("there is a word");
        let other = self.k.u32(1 << OUT_OF_RANGE_BIT[1 - side]);
        *last = *last | other | (beyond.to(Scalar::U32) << i64::from(OUT_OF_RANGE_BIT[side]));
        words
    }

    /// The words of a column.
    pub fn column(&self, c: &OutputColumn<'k>) -> Vec<Val<'k>> {
        let words = match self.of {
            ConvPass::Forward | ConvPass::GradInput => self.outside(&c.start),
            ConvPass::GradWeight => self.taps(&c.axes),
        };
        self.with_ends(words, 0, !c.there)
    }

    fn slot(&self, t: Val<'k>) -> Val<'k> {
        let capacity = self.span.entries() * self.span.windows;
        (t.bitcast(Scalar::U32) >> i64::from(self.span.grain.ilog2())) & i64::from(capacity - 1)
    }
}

/// What a workgroup brings at a time, by side where it is an array.
pub(super) struct StagingJob<'k> {
    /// Which invocation, and how many there are.
    pub index: Val<'k>,
    pub invocations: u32,
    /// Rows and columns of the workgroup, and terms of a step.
    pub size: [u32; 2],
    pub depth: u32,
    /// The first row and column.
    pub corner: [Val<'k>; 2],
    /// What stands where nothing is.
    pub padding: [Constant; 2],
}

impl<'k> OffsetTable<'k, '_> {
    /// How terms of rows and of columns are brought.
    pub fn stages<'t>(
        &'t self,
        staged: &StagingConfig,
        b: &StagingJob<'k>,
    ) -> [TileLoader<'k, TableSource<'k, 't>>; 2] {
        let h = self.h;
        let places = |side: usize| -> Vec<Val<'k>> {
            let size = [b.size[side], b.depth];
            let all =
                smem_load::rounds(b.index, b.invocations, size, staged.k_major[side], staged.width[side]);
            all.into_iter().map(|(place, ..)| place).collect()
        };
        let left = if staged.matrix {
            TableSource::Matrix(StridedMatrix::new(h.places[0], h.left_group(), [h.left.one, h.left_step()]))
        } else {
            let first = |r: Val<'k>| h.first_of_row(b.corner[0] + r.to(h.number));
            TableSource::Left(self, each(&places(0), first), !staged.whole)
        };
        let of_column = |c: Val<'k>| {
            let column = h.column(b.corner[1] + c.to(h.number));
            (column.base, self.column(&column))
        };
        let right = TableSource::Right(self, each(&places(1), of_column));
        let stage = |side: usize, from| TileLoader {
            k: self.k,
            side,
            index: b.index,
            invocations: b.invocations,
            size: b.size[side],
            depth: b.depth,
            k_major: staged.k_major[side],
            width: staged.width[side],
            from,
            corner: b.corner[side],
            limit: [h.rows, h.columns][side],
            padding: b.padding[side],
        };
        [stage(0, left), stage(1, right)]
    }
}

/// Something of each place; of equal ones once.
fn each<'k, T: Clone>(places: &[Val<'k>], of: impl Fn(Val<'k>) -> T) -> Vec<T> {
    let mut known: Vec<(Val<'k>, T)> = Vec::new();
    for &place in places {
        let made = known.iter().find(|(p, _)| p.is(place)).map(|(_, t)| t.clone());
        let made = made.unwrap_or_else(|| of(place));
        known.push((place, made));
    }
    known.into_iter().map(|(_, t)| t).collect()
}

/// A side's numbers.
pub(super) enum TableSource<'k, 't> {
    /// Rows of terms with one stride.
    Matrix(StridedMatrix<'k>),
    /// Rows whose terms the table knows: where they begin, for each round; and whether there may be
    /// terms beyond the last.
    Left(&'t OffsetTable<'k, 't>, Vec<Val<'k>>, bool),
    /// Columns: where they begin, and their words, for each round.
    Right(&'t OffsetTable<'k, 't>, Vec<(Val<'k>, Vec<Val<'k>>)>),
}

impl<'k> TileSource<'k> for TableSource<'k, '_> {
    fn place(&self) -> Place {
        match self {
            TableSource::Matrix(m) => m.place,
            TableSource::Left(table, ..) => table.h.places[0],
            TableSource::Right(table, _) => table.h.places[1],
        }
    }
    fn find(&self, stage: &TileLoader<'k, Self>, of: ElementRequest<'k>) -> ElementLocation<'k> {
        let k = stage.k;
        match self {
            TableSource::Matrix(m) => {
                let i = stage.corner + of.place.to(stage.limit.scalar());
                ElementLocation {
                    at: m.at(i, of.term),
                    of_side: Some(i.lt(stage.limit)),
                    of_terms: Some(of.term.lt(of.end)),
                }
            }
            TableSource::Left(table, rows, ends) => {
                let left = table.left.expect("what is not a matrix has a table");
                let offset = k.load(left, table.slot(of.term), 1);
                ElementLocation {
                    at: rows[of.round] + offset,
                    of_side: None,
                    of_terms: ends.then(|| of.term.lt(of.end)),
                }
            }
            TableSource::Right(table, columns) => {
                let (base, words) = &columns[of.round];
                let width = entry(table.words) as u8;
                let entry = k.load(table.right, table.slot(of.term) * i64::from(width), width);
                let meets = |(i, &w): (usize, &Val<'k>)| {
                    (w & entry.extract(i as u8 + 1).bitcast(Scalar::U32)).eq(k.u32(0))
                };
                let inside = words.iter().enumerate().map(meets).reduce(|a, b| a & b);
                ElementLocation { at: *base + entry.extract(0), of_side: inside, of_terms: None }
            }
        }
    }
}
