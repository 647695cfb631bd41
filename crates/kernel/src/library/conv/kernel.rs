//! The kernel of convolutions: see the table in `mod.rs`.

use crate::build::{Builder, Val};
use crate::ir::{Access, Builtin, Constant, Elem, Kernel, Place, Scalar};
use crate::library::contract::Tile;
use crate::library::formula::{Compute, Formula};
use crate::library::index::{self, Axes};
use crate::library::numbers::Numbers;
use crate::library::{chunks, group_number};
use elinvar_core::{DType, order};

/// Which of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Of {
    /// The convolution.
    Forward,
    /// Its gradient by x.
    Input,
    /// Its gradient by w.
    Weight,
}

/// What a kernel is built for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Form {
    /// Which of the three.
    pub of: Of,
    /// The dtype of both factors and of the result.
    pub dtype: DType,
    /// What further operands hold.
    pub extra: Vec<Elem>,
    /// How the result is cut into pieces: rows and columns. The depth is not looked at.
    pub tile: Tile,
    /// Spatial axes.
    pub rank: usize,
    /// May a coordinate lie outside?
    pub padded: bool,
    /// Are the axes of a term at most 32 taps? Then which of them lie inside is found out once for each column, and not
    /// again for each channel.
    pub masked: bool,
    /// Has the right factor no elements? Then it is +0 everywhere.
    pub void: bool,
    /// May there be several chunks of terms?
    pub many: bool,
    /// Does each chunk have a workgroup of its own, and its sums a place of their own?
    pub apart: bool,
    /// Are there positions beyond 2^30?
    pub wide: bool,
}

impl Form {
    fn name(&self, epilogue: &dyn Formula) -> String {
        let Tile { group: [a, b], each: [c, d], .. } = self.tile;
        let of = match self.of {
            Of::Forward => "conv",
            Of::Input => "conv_input_grad",
            Of::Weight => "conv_weight_grad",
        };
        let extra: String = self.extra.iter().map(|e| format!("_{e}")).collect();
        let flags = [
            (self.padded, "_padded"),
            (self.masked, "_masked"),
            (self.void, "_void"),
            (self.many, "_many"),
            (self.apart, "_apart"),
            (self.wide, "_wide"),
        ];
        let flags: String = flags.iter().filter(|f| f.0).map(|f| f.1).collect();
        let name = epilogue.name();
        format!("{of}{}d_{name}_{}{extra}_{a}x{b}of{c}x{d}{flags}", self.rank, self.dtype)
    }
    fn count(&self) -> usize {
        let r = self.rank;
        let classes = if self.of == Of::Input { 5 * r } else { 0 };
        let factors = 2 + self.extra.len();
        6 + index::count(r + 1, self.wide)
            + (1 + r)
            + 4 * r
            + classes
            + (3 + r)
            + usize::from(self.apart)
            + factors * (4 + r)
    }
}

/// A factor, or the result: where it begins, and its strides (group, row or outer column, outer term, axes).
struct Strided<'k> {
    first: Val<'k>,
    group: Val<'k>,
    one: Val<'k>,
    two: Val<'k>,
    axes: Vec<Val<'k>>,
}

impl<'k> Strided<'k> {
    fn read(numbers: &Numbers<'k>, name: &str, rank: usize) -> Self {
        let get = |what: &str| numbers.get(&format!("{name}_{what}"));
        let (first, group, one, two) = (get("offset"), get("group"), get("one"), get("two"));
        Strided { first, group, one, two, axes: index::strides(numbers, &format!("{name}_axis"), rank) }
    }
}

impl<'k> Strided<'k> {
    fn at(&self, [group, one, two]: [Val<'k>; 3], axes: &[Val<'k>]) -> Val<'k> {
        index::position(self.first + group * self.group + one * self.one + two * self.two, axes, &self.axes)
    }
}

/// A column: its outer part, its place along each axis, and whether it exists.
struct Column<'k> {
    outer: Val<'k>,
    axes: Vec<Val<'k>>,
    there: Val<'k>,
    /// Where the coordinate of term 0 lies, along each axis.
    start: Vec<Val<'k>>,
    /// Where the right factor of that lies.
    base: Val<'k>,
}

/// The terms of all columns of a workgroup.
struct Terms<'k> {
    /// How many along each part.
    counts: Vec<Val<'k>>,
    /// Per axis: the first of the left factor's places, from one to the next, and what a step moves the coordinate by.
    axes: Vec<[Val<'k>; 3]>,
    /// Per axis: the size of the right factor.
    sizes: Vec<Val<'k>>,
}

/// The kernel of a form: left, right, further operands, result.
pub fn build(epilogue: &dyn Formula, form: &Form) -> Kernel {
    let Tile { group: [down, across], each, .. } = form.tile;
    let k = Builder::new(&form.name(epilogue), [down * across, 1, 1]);
    // Operands are bound in the order of the work: what comes first is said there.
    let elem = Elem::from(form.dtype);
    let names = match form.of {
        Of::Forward => ["x", "w"],
        Of::Input | Of::Weight => ["left", "right"],
    };
    let places = names.map(|name| k.buffer(name, elem, Access::Read));
    let [left_place, right_place] = match form.of {
        Of::Forward => [places[1], places[0]],
        Of::Input | Of::Weight => places,
    };
    let extras: Vec<Place> =
        (form.extra.iter().enumerate()).map(|(i, &e)| k.buffer(&format!("e{i}"), e, Access::Read)).collect();
    let out = if form.apart { chunks::elem(form.dtype) } else { elem };
    let y = k.buffer("y", out, Access::Write);
    let number = index::scalar(form.wide);
    let rank = form.rank;
    let numbers = Numbers::new(&k, number, form.count());
    let [outermost, groups, tiles_m, tiles_n, rows, columns] =
        ["outermost", "groups", "tiles_m", "tiles_n", "rows", "columns"].map(|n| numbers.get(n));
    let column_axes = Axes::read_any(&numbers, "column", rank + 1, form.wide);
    let term_counts: Vec<Val> = (0..=rank).map(|a| numbers.get(&format!("terms{a}"))).collect();
    let windows: Vec<[Val; 4]> = (0..rank)
        .map(|a| ["by", "from", "move", "size"].map(|what| numbers.get(&format!("{what}{a}"))))
        .collect();
    let classes: Vec<[Val; 5]> = (0..if form.of == Of::Input { rank } else { 0 })
        .map(|a| {
            let names = ["stride", "dilation", "padding", "spatial", "every"];
            names.map(|what| numbers.get(&format!("{what}{a}")))
        })
        .collect();
    let result = {
        let [group, one, outer] = ["y_group", "y_row", "y_outer"].map(|n| numbers.get(n));
        let axes = index::strides(&numbers, "y_axis", rank);
        Strided { first: group.like(0), group, one, two: outer, axes }
    };
    let len = form.apart.then(|| numbers.get("len"));
    let left = Strided::read(&numbers, "left", rank);
    let right = Strided::read(&numbers, "right", rank);
    let further: Vec<Strided> =
        (0..extras.len()).map(|i| Strided::read(&numbers, &format!("e{i}"), rank)).collect();

    // Which piece. The last row of a grid may have workgroups too many: they go along, and store nothing.
    let unit = group_number(&k, number);
    let in_group = tiles_m * tiles_n;
    let asked = unit / (in_group * groups);
    let outer_number = asked.min(outermost - 1);
    let group = unit / in_group % groups;
    let tile = unit % in_group;
    let index = k.builtin(Builtin::LocalIndex);
    let local = [index / i64::from(across), index % i64::from(across)].map(|l| l.to(number));
    let first_row = (tile / tiles_n) * i64::from(down * each[0]) + local[0];
    let first_column = (tile % tiles_n) * i64::from(across * each[1]) + local[1];

    // What a class says.
    let mut terms = Terms { counts: vec![term_counts[0]], axes: Vec::new(), sizes: Vec::new() };
    let mut starts: Vec<(Val, Val)> = Vec::new();
    let mut results: Vec<(Val, Val, Option<Val>)> = Vec::new();
    let mut digits = outer_number;
    for a in (0..rank).rev() {
        let [by, from, step, size] = windows[a];
        terms.sizes.push(size);
        let zero = by.like(0);
        if form.of != Of::Input {
            terms.counts.push(term_counts[a + 1]);
            terms.axes.push([zero, by.like(1), step]);
            starts.push((by, from));
            results.push((zero, by.like(1), None));
            continue;
        }
        let [stride, dilation, padding, spatial, every] = classes[a];
        let s0 = digits % stride;
        digits = digits / stride;
        let residue = (s0 + padding) % stride;
        // The first tap that meets the grid, and how many do.
        let taps = term_counts[a + 1];
        let found = k.for_(zero, taps, by.like(1), &[taps, zero], |t, c| {
            let meets = (t * dilation % stride).eq(residue);
            vec![(meets & c[0].eq(taps)).select(t, c[0]), meets.select(c[1] + 1, c[1])]
        });
        terms.counts.push(found[1]);
        terms.axes.push([found[0], every, step]);
        // Whole, if a tap meets the grid.
        starts.push((by, (s0 + padding - found[0] * dilation) / stride));
        results.push((s0, stride, Some(spatial)));
    }
    terms.counts[1..].reverse();
    terms.axes.reverse();
    terms.sizes.reverse();
    starts.reverse();
    results.reverse();

    let row_at: Vec<Val> = (0..i64::from(each[0])).map(|u| first_row + u * i64::from(down)).collect();
    let column_at: Vec<Val> = (0..i64::from(each[1])).map(|v| first_column + v * i64::from(across)).collect();
    // Rows and columns past the last one are the last one.
    let left_group = left.first + group * left.group;
    let row_base: Vec<Val> = row_at.iter().map(|&r| left_group + r.min(rows - 1) * left.one).collect();
    let right_group = right.first + group * right.group;
    let column: Vec<Column> = (column_at.iter())
        .map(|&c| {
            let mut at = column_axes.index(c.min(columns - 1));
            let axes = at.split_off(1);
            let start: Vec<Val> = axes.iter().zip(&starts).map(|(&i, &(by, from))| i * by + from).collect();
            let base = index::position(right_group + at[0] * right.one, &start, &right.axes);
            Column { outer: at[0], axes, there: c.lt(columns), start, base }
        })
        .collect();

    let scalar = Compute::from(form.dtype).scalar();
    let (left, right) = ((left_place, &left), (right_place, &right));
    let mut chain = Chain { k: &k, form, scalar, terms: &terms, left, right, masks: Vec::new() };
    chain.masks = chain.masks(&column);
    let sums = chain.sums(&row_base, &column, form.apart.then_some(outer_number));
    let c = Compute::from(form.dtype);
    for (u, &r) in row_at.iter().enumerate() {
        for (v, col) in column.iter().enumerate() {
            let axes: Vec<Val> =
                col.axes.iter().zip(&results).map(|(&i, &(from, by, _))| from + i * by).collect();
            let mut there = r.lt(rows) & col.there & asked.lt(outermost);
            for (&s, (_, _, size)) in axes.iter().zip(&results) {
                if let Some(size) = *size {
                    there = there & s.lt(size);
                }
            }
            k.if_(there, || {
                let place = [group, r, col.outer];
                let sum = sums[u * column.len() + v];
                if let Some(len) = len {
                    return k.store(y, outer_number * len + result.at(place, &axes), sum);
                }
                let mut given = vec![sum];
                given.extend(
                    extras.iter().zip(&further).map(|(&e, s)| c.enter(k.load(e, s.at(place, &axes), 1))),
                );
                k.store(y, result.at(place, &axes), epilogue.emit(&k, c, &given));
            });
        }
    }
    k.finish()
}

/// The chains of an invocation.
struct Chain<'k, 'f> {
    k: &'k Builder,
    form: &'f Form,
    scalar: Scalar,
    terms: &'f Terms<'k>,
    left: (Place, &'f Strided<'k>),
    right: (Place, &'f Strided<'k>),
    /// For each column, which taps lie inside, a bit for each; none if that is found out for each term. A term then has
    /// one more part: the number of its tap.
    masks: Vec<Val<'k>>,
}

impl<'k> Chain<'k, '_> {
    /// The sums, row by row. `chunk`: of this chunk alone.
    fn sums(&self, rows: &[Val<'k>], columns: &[Column<'k>], chunk: Option<Val<'k>>) -> Vec<Val<'k>> {
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
            if self.form.masked {
                at.push(start % self.taps());
            }
            let mut done = self.chunk(start, (start + size).min(all), &none, &at, rows, columns);
            done.truncate(none.len());
            return done;
        }
        let begin = self.first(zero);
        if !self.form.many {
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

    /// The sums of the terms `start..end`, of which the first is `at`; behind them the term after the last.
    fn chunk(
        &self,
        start: Val<'k>,
        end: Val<'k>,
        none: &[Val<'k>],
        at: &[Val<'k>],
        rows: &[Val<'k>],
        columns: &[Column<'k>],
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
        vec![zero; self.terms.counts.len() + usize::from(self.form.masked)]
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
        if self.form.masked {
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

    /// The taps that lie inside, for each column.
    fn masks(&self, columns: &[Column<'k>]) -> Vec<Val<'k>> {
        if !self.form.masked {
            return Vec::new();
        }
        let k = self.k;
        let taps = self.taps();
        let mut init = vec![k.u32(0); columns.len()];
        init.extend(self.first(taps.like(0)));
        let mut all = k.for_(taps.like(0), taps, taps.like(1), &init, |tap, carried| {
            let (masks, at) = carried.split_at(columns.len());
            let moved = self.moved(at);
            let set = |(&mask, c): (&Val<'k>, &Column<'k>)| {
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

    /// Does the coordinate of a column lie inside? Below 0 is far above as unsigned.
    fn inside(&self, c: &Column<'k>, moved: &[Val<'k>]) -> Val<'k> {
        let unsigned = |v: Val<'k>| v.bits(if v.scalar() == Scalar::I64 { Scalar::U64 } else { Scalar::U32 });
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

    fn rights(&self, columns: &[Column<'k>], at: &[Val<'k>]) -> Vec<Val<'k>> {
        let (place, s) = self.right;
        let k = self.k;
        let zero = k.constant(Constant::int(self.scalar, 0));
        if self.form.void {
            return vec![zero; columns.len()];
        }
        let moved = self.moved(at);
        let offset = index::position(at[0] * s.two, &moved, &s.axes);
        let bit = self.form.masked.then(|| k.u32(1) << at[self.terms.counts.len()].to(Scalar::U32));
        let one = |(i, c): (usize, &Column<'k>)| {
            let from = c.base + offset;
            if !self.form.padded {
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
