//! Direct convolution: an invocation reads each term where it is needed, without shared memory. For
//! few rows, and for devices on which a barrier is expensive.

use super::problem::{ConvArgs, ConvConfig, ConvStrides, KTerms, OutputColumn};
use crate::formula::{Compute, Formula};
use crate::gemm::SimtTile;
use crate::layout::indexing;
use elinvar_core::order;
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Builtin, Constant, Kernel, Place, Scalar};

/// The kernel of a form: left, right, further operands, result.
pub fn build(epilogue: &dyn Formula, config: &ConvConfig) -> Kernel {
    let SimtTile { group: [down, across], each, .. } = config.tile;
    let k = Builder::new(&config.name(epilogue), [down * across, 1, 1]);
    let h = ConvArgs::read(&k, config);
    let index = k.builtin(Builtin::LocalIndex);
    let local = [index / i64::from(across), index % i64::from(across)].map(|l| l.to(h.number));
    let first_row = h.tile[0] * i64::from(down * each[0]) + local[0];
    let first_column = h.tile[1] * i64::from(across * each[1]) + local[1];
    let row_at: Vec<Val> = (0..i64::from(each[0])).map(|u| first_row + u * i64::from(down)).collect();
    let column_at: Vec<Val> = (0..i64::from(each[1])).map(|v| first_column + v * i64::from(across)).collect();
    let row_base: Vec<Val> = row_at.iter().map(|&r| h.row(r)).collect();
    let column: Vec<OutputColumn> = column_at.iter().map(|&c| h.column(c)).collect();

    let scalar = Compute::from(config.dtype).scalar();
    let (left, right) = ((h.places[0], &h.left), (h.places[1], &h.right));
    let mut chain = DirectMainloop { k: &k, config, scalar, terms: &h.terms, left, right, masks: Vec::new() };
    chain.masks = chain.masks(&column);
    let sums = chain.sums(&row_base, &column, config.split_k.then_some(h.outer_number));
    for (u, &r) in row_at.iter().enumerate() {
        for (v, col) in column.iter().enumerate() {
            h.store(&k, epilogue, r, std::slice::from_ref(col), &[sums[u * column.len() + v]]);
        }
    }
    k.finish()
}

/// The chains of an invocation.
struct DirectMainloop<'k, 'f> {
    k: &'k Builder,
    config: &'f ConvConfig,
    scalar: Scalar,
    terms: &'f KTerms<'k>,
    left: (Place, &'f ConvStrides<'k>),
    right: (Place, &'f ConvStrides<'k>),
    /// For each column, which taps are inside, a bit for each; none if that is found out for each
    /// term. A term then has one more part: the number of its tap.
    masks: Vec<Val<'k>>,
}

impl<'k> DirectMainloop<'k, '_> {
    /// The sums, row by row. `chunk`: of this chunk alone.
    fn sums(&self, rows: &[Val<'k>], columns: &[OutputColumn<'k>], chunk: Option<Val<'k>>) -> Vec<Val<'k>> {
        let k = self.k;
        let counts = &self.terms.counts;
        let all = counts[1..].iter().fold(counts[0], |n, &c| n * c);
        let zero = all.like(0);
        let none = vec![k.constant(Constant::int(self.scalar, 0)); rows.len() * columns.len()];
        let size = order::CHUNK as i64;
        if let Some(chunk) = chunk {
            let start = chunk * size;
            // The term with this number.
            let mut left = start;
            let mut at: Vec<Val> = Vec::new();
            for &n in counts[1..].iter().rev() {
                at.push(left % n);
                left = left / n;
            }
            at.push(left);
            at.reverse();
            if self.config.masked {
                at.push(start % self.taps());
            }
            let mut done = self.chunk(start, (start + size).min(all), &none, &at, rows, columns);
            done.truncate(none.len());
            return done;
        }
        let begin = self.first(zero);
        if !self.config.multi_chunk {
            let mut done = self.chunk(zero, all, &none, &begin, rows, columns);
            done.truncate(none.len());
            return done;
        }
        let init = [&none[..], &begin].concat();
        let mut done = k.for_(zero, all, all.like(size), &init, |start, carried| {
            let (totals, at) = carried.split_at(none.len());
            let mut next = self.chunk(start, (start + size).min(all), &none, at, rows, columns);
            let is_first = start.eq(zero);
            for (sum, &total) in next.iter_mut().zip(totals) {
                *sum = is_first.select(*sum, total + *sum);
            }
            next
        });
        done.truncate(none.len());
        done
    }

    /// The sums of the terms `start..end`, of which the first is `at`; behind them the term after
    /// the last.
    fn chunk(
        &self,
        start: Val<'k>,
        end: Val<'k>,
        none: &[Val<'k>],
        at: &[Val<'k>],
        rows: &[Val<'k>],
        columns: &[OutputColumn<'k>],
    ) -> Vec<Val<'k>> {
        let init = [none, at].concat();
        self.k.for_(start, end, start.like(1), &init, |_, carried| {
            let (sums, at) = carried.split_at(none.len());
            let (a, b) = (self.lefts(rows, at), self.rights(columns, at));
            let each = |(i, &sum): (usize, &Val<'k>)| b[i % b.len()].fma(a[i / b.len()], sum);
            let mut next: Vec<Val> = sums.iter().enumerate().map(each).collect();
            next.extend(self.after(at));
            next
        })
    }

    /// The first term.
    fn first(&self, zero: Val<'k>) -> Vec<Val<'k>> {
        vec![zero; self.terms.counts.len() + usize::from(self.config.masked)]
    }

    /// The term after a term.
    fn after(&self, at: &[Val<'k>]) -> Vec<Val<'k>> {
        let mut next = at.to_vec();
        let mut more = at[0].like(1);
        let mut over = None;
        for a in (1..self.terms.counts.len()).rev() {
            let moved = at[a] + more;
            let wraps = moved.eq(self.terms.counts[a]);
            next[a] = wraps.select(moved.like(0), moved);
            more = wraps.to(moved.scalar());
            over = Some(wraps);
        }
        next[0] = at[0] + more;
        if self.config.masked {
            let tap = self.terms.counts.len();
            let moved = at[tap] + 1;
            next[tap] = over.expect("there is an axis").select(moved.like(0), moved);
        }
        next
    }

    /// How many taps there are.
    fn taps(&self) -> Val<'k> {
        let counts = &self.terms.counts[1..];
        counts[1..].iter().fold(counts[0], |n, &c| n * c)
    }

    /// The taps that are inside, for each column.
    fn masks(&self, columns: &[OutputColumn<'k>]) -> Vec<Val<'k>> {
        if !self.config.masked {
            return Vec::new();
        }
        let k = self.k;
        let taps = self.taps();
        let mut init = vec![k.u32(0); columns.len()];
        init.extend(self.first(taps.like(0)));
        let mut all = k.for_(taps.like(0), taps, taps.like(1), &init, |tap, carried| {
            let (masks, at) = carried.split_at(columns.len());
            let moved = self.moved(at);
            let set = |(&mask, c): (&Val<'k>, &OutputColumn<'k>)| {
                mask | (self.inside(c, &moved).to(Scalar::U32) << tap.to(Scalar::U32))
            };
            let mut next: Vec<Val> = masks.iter().zip(columns).map(set).collect();
            next.extend(self.after(at));
            next
        });
        all.truncate(columns.len());
        all
    }

    /// What a term moves the coordinate by, along each axis.
    fn moved(&self, at: &[Val<'k>]) -> Vec<Val<'k>> {
        at[1..].iter().zip(&self.terms.axes).map(|(&t, &[_, _, by])| t * by).collect()
    }

    /// Is the coordinate of a column inside? Below 0 is far above as unsigned.
    fn inside(&self, c: &OutputColumn<'k>, moved: &[Val<'k>]) -> Val<'k> {
        let unsigned =
            |v: Val<'k>| v.bitcast(if v.scalar() == Scalar::I64 { Scalar::U64 } else { Scalar::U32 });
        let mut all = (c.start.iter().zip(moved).zip(&self.terms.sizes))
            .map(|((&start, &by), &size)| unsigned(start + by).lt(unsigned(size)));
        let first = all.next().expect("there is an axis");
        all.fold(first, |a, b| a & b)
    }

    fn lefts(&self, rows: &[Val<'k>], at: &[Val<'k>]) -> Vec<Val<'k>> {
        let (place, s) = self.left;
        let mut offset = at[0] * s.two;
        for ((&t, &[first, by, _]), &stride) in at[1..].iter().zip(&self.terms.axes).zip(&s.axes) {
            offset = offset + (first + t * by) * stride;
        }
        rows.iter().map(|&r| self.k.load(place, r + offset, 1)).collect()
    }

    fn rights(&self, columns: &[OutputColumn<'k>], at: &[Val<'k>]) -> Vec<Val<'k>> {
        let (place, s) = self.right;
        let k = self.k;
        let zero = k.constant(Constant::int(self.scalar, 0));
        if self.config.void {
            return vec![zero; columns.len()];
        }
        let moved = self.moved(at);
        let offset = indexing::position(at[0] * s.two, &moved, &s.axes);
        let bit = self.config.masked.then(|| k.u32(1) << at[self.terms.counts.len()].to(Scalar::U32));
        let one = |(i, c): (usize, &OutputColumn<'k>)| {
            let from = c.base + offset;
            if !self.config.padded {
                return k.load(place, from, 1);
            }
            let inside = match bit {
                Some(bit) => !(self.masks[i] & bit).eq(k.u32(0)),
                None => self.inside(c, &moved),
            };
            // What is outside reads some element, and is 0 whatever that is.
            inside.select(k.load(place, inside.select(from, s.first), 1), zero)
        };
        columns.iter().enumerate().map(one).collect()
    }
}
