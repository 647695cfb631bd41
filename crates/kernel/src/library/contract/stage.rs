//! Terms of rows or columns on their way into shared memory: loaded into registers first, and stored when there is room.

use super::Matrix;
use crate::build::{Builder, Val};
use crate::ir::Constant;

/// How a workgroup brings terms of its rows (side 0) or columns (side 1).
pub(in crate::library) struct Stage<'k> {
    pub k: &'k Builder,
    pub side: usize,
    /// Which invocation of the workgroup, and how many there are.
    pub index: Val<'k>,
    pub invocations: u32,
    /// Rows or columns of the workgroup, and terms of a step.
    pub size: u32,
    pub depth: u32,
    /// Do neighbouring terms lie side by side? They are read along, so many at once.
    pub along: bool,
    pub width: u8,
    /// Where from, the first row or column, and how many there are.
    pub from: Matrix<'k>,
    pub corner: Val<'k>,
    pub limit: Val<'k>,
    /// What stands where nothing is.
    pub padding: Constant,
}

impl<'k> Stage<'k> {
    /// The loads of a step: for each, which row or column and which term the invocation has, and whether it has one at all.
    pub(super) fn rounds(&self) -> Vec<(Val<'k>, Val<'k>, Option<Val<'k>>)> {
        let width = u32::from(self.width);
        // Vectors, and how many of them make a line.
        let count = self.size * self.depth / width;
        let line = if self.along { self.depth } else { self.size } / width;
        let round = |r: u32| {
            let e = self.index + i64::from(r * self.invocations);
            // The last round may have more invocations than elements.
            let has = ((r + 1) * self.invocations > count).then(|| e.lt(self.k.u32(count)));
            let (outer, inner) = (e / i64::from(line), e % i64::from(line) * i64::from(width));
            // What lies side by side in memory is read by neighbours.
            let (place, term) = if self.along { (outer, inner) } else { (inner, outer) };
            (place, term, has)
        };
        (0..count.div_ceil(self.invocations)).map(round).collect()
    }

    /// Loads terms from `first` on; what is not there is padding.
    pub fn load(&self, first: Val<'k>, end: Val<'k>) -> Vec<Val<'k>> {
        let (k, number, scalar) = (self.k, self.limit.scalar(), self.padding.scalar);
        let one = |(place, term, has): (Val<'k>, Val<'k>, Option<Val<'k>>)| {
            let (i, t) = (self.corner + place.to(number), first + term.to(number));
            // Sizes along which several are read are multiples of so many: all of them are there, or none.
            let mut there = i.lt(self.limit) & t.lt(end);
            if let Some(has) = has {
                there = there & has;
            }
            let at = || if self.side == 0 { self.from.at(i, t) } else { self.from.at(t, i) };
            let load = || vec![k.load(self.from.place, at(), self.width).to(scalar)];
            k.if_else(there, load, || vec![k.constant(self.padding).splat(self.width)])[0]
        };
        self.rounds().into_iter().map(one).collect()
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

/// Goes through the terms `start..end` step by step: `bring` stores a step's terms of a side, and `compute` makes the new sums of
/// the old ones, while the next step's terms are on their way. Gives the last sums.
pub(in crate::library) fn steps<'k>(
    stages: &[Stage<'k>; 2],
    [start, end]: [Val<'k>; 2],
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
    let all = k.for_(start, end, step, &carried, |first, carried| {
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
