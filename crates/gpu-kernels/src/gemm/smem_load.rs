//! Loads to shared memory through registers: terms of rows or columns, loaded ahead (register
//! prefetch) and stored when their slot is free.

use super::StridedMatrix;
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Constant, Place};

/// Where a side's numbers are.
pub(crate) trait TileSource<'k> {
    /// The memory that they are in.
    fn place(&self) -> Place;
    /// The number of a row (or column) and a term that an invocation brings in one of its rounds.
    fn find(&self, stage: &TileLoader<'k, Self>, of: ElementRequest<'k>) -> ElementLocation<'k>
    where
        Self: Sized;
}

/// What is asked for: the round, the row (or column) counted from the workgroup's first, the term,
/// and where terms end.
#[derive(Clone, Copy)]
pub(crate) struct ElementRequest<'k> {
    pub round: usize,
    pub place: Val<'k>,
    pub term: Val<'k>,
    pub end: Val<'k>,
}

/// Where it is; and whether it is there, by its row or column, and by its term. Without a
/// condition, it is.
pub(crate) struct ElementLocation<'k> {
    pub at: Val<'k>,
    pub of_side: Option<Val<'k>>,
    pub of_terms: Option<Val<'k>>,
}

impl<'k> TileSource<'k> for StridedMatrix<'k> {
    fn place(&self) -> Place {
        self.place
    }
    fn find(&self, stage: &TileLoader<'k>, of: ElementRequest<'k>) -> ElementLocation<'k> {
        let i = stage.corner + of.place.to(stage.limit.scalar());
        ElementLocation {
            at: if stage.side == 0 { self.at(i, of.term) } else { self.at(of.term, i) },
            of_side: Some(i.lt(stage.limit)),
            of_terms: Some(of.term.lt(of.end)),
        }
    }
}

/// How a workgroup brings terms of its rows (side 0) or columns (side 1).
pub(crate) struct TileLoader<'k, S = StridedMatrix<'k>> {
    pub k: &'k Builder,
    pub side: usize,
    /// Which invocation of the workgroup, and how many there are.
    pub index: Val<'k>,
    pub invocations: u32,
    /// Rows or columns of the workgroup, and terms of a step.
    pub size: u32,
    pub depth: u32,
    /// Do neighbouring terms are contiguous? They are read along, so many at once.
    pub k_major: bool,
    pub width: u8,
    /// Where from, the first row or column, and how many there are.
    pub from: S,
    pub corner: Val<'k>,
    pub limit: Val<'k>,
    /// What stands where nothing is.
    pub padding: Constant,
}

/// What an invocation brings in a round: which row or column and which term, and whether it brings
/// something at all.
pub(crate) type LoadRound<'k> = (Val<'k>, Val<'k>, Option<Val<'k>>);

/// The rounds of a step of `depth` terms of `size` rows or columns, `width` at a time.
pub(crate) fn rounds<'k>(
    index: Val<'k>,
    invocations: u32,
    [size, depth]: [u32; 2],
    k_major: bool,
    width: u8,
) -> Vec<LoadRound<'k>> {
    let (k, width) = (index.builder(), u32::from(width));
    // Vectors, and how many of them make a line.
    let count = size * depth / width;
    let line = if k_major { depth } else { size } / width;
    let [outer, inner] = [index / i64::from(line), index % i64::from(line) * i64::from(width)];
    let round = |r: u32| {
        let e = index + i64::from(r * invocations);
        // The last round may have more invocations than elements.
        let has = ((r + 1) * invocations > count).then(|| e.lt(k.u32(count)));
        let (outer, inner) = if invocations.is_multiple_of(line) {
            // The same places, in later lines.
            (outer + i64::from(r * (invocations / line)), inner)
        } else {
            (e / i64::from(line), e % i64::from(line) * i64::from(width))
        };
        // Contiguous elements are read by neighbouring invocations (coalesced).
        let (place, term) = if k_major { (outer, inner) } else { (inner, outer) };
        (place, term, has)
    };
    (0..count.div_ceil(invocations)).map(round).collect()
}

impl<'k, S: TileSource<'k>> TileLoader<'k, S> {
    pub(super) fn rounds(&self) -> Vec<LoadRound<'k>> {
        rounds(self.index, self.invocations, [self.size, self.depth], self.k_major, self.width)
    }

    /// Loads terms from `first` on; what is not there is padding.
    pub fn load(&self, first: Val<'k>, end: Val<'k>) -> Vec<Val<'k>> {
        let (k, number, scalar) = (self.k, self.limit.scalar(), self.padding.scalar);
        let one = |(round, (place, term, has)): (usize, LoadRound<'k>)| {
            let asked = ElementRequest { round, place, term: first + term.to(number), end };
            let found = self.from.find(self, asked);
            // Sizes along which several are read are multiples of so many: all of them are there,
            // or none.
            let all = [found.of_side, found.of_terms, has];
            let load = || k.load(self.from.place(), found.at, self.width).to(scalar);
            match all.into_iter().flatten().reduce(|a, b| a & b) {
                None => load(),
                Some(there) => {
                    k.if_else(there, || vec![load()], || vec![k.constant(self.padding).splat(self.width)])[0]
                }
            }
        };
        self.rounds().into_iter().enumerate().map(one).collect()
    }

    /// Hands what was loaded to `put`, with the row or column and the term of its first number.
    pub fn store(&self, loaded: &[Val<'k>], put: &dyn Fn(Val<'k>, Val<'k>, Val<'k>)) {
        for ((place, term, has), &v) in self.rounds().into_iter().zip(loaded) {
            match has {
                Some(has) => self.k.if_(has, || put(place, term, v)),
                None => put(place, term, v),
            }
        }
    }
}

/// Goes through the terms `start..padded_end` step by step, of which those from `end` on are
/// padding: `bring` stores a step's terms of a side, and `compute` makes the new sums of the old
/// ones, while the next step's terms are on their way. Gives the last sums.
pub(crate) fn steps<'k, S: TileSource<'k>>(
    stages: &[TileLoader<'k, S>; 2],
    [start, padded_end]: [Val<'k>; 2],
    end: Val<'k>,
    none: &[Val<'k>],
    bring: &dyn Fn(usize, &[Val<'k>]),
    compute: &dyn Fn(&[Val<'k>]) -> Vec<Val<'k>>,
) -> Vec<Val<'k>> {
    let k = stages[0].k;
    let load = |first: Val<'k>| stages.each_ref().map(|s| s.load(first, end));
    let [x, w] = load(start);
    let (count, loads) = (none.len(), x.len());
    let carried = [none, &x, &w].concat();
    let step = start.like(i64::from(stages[0].depth));
    let all = k.for_(start, padded_end, step, &carried, |first, carried| {
        let (sums, loaded) = carried.split_at(count);
        let (x, w) = loaded.split_at(loads);
        bring(0, x);
        bring(1, w);
        k.barrier();
        let [x, w] = load(first + step);
        let sums = compute(sums);
        // The next terms are written over these.
        k.barrier();
        [sums, x, w].concat()
    });
    all[..count].to_vec()
}
