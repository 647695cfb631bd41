//! The kernel of convolutions by matrix units: as a product by them, with tables in place of strides. What is staged comes by
//! copies of 16 bytes, of which several steps are under way.

use super::head::{self, Column, Head};
use super::table::{Gather, Span, Table};
use super::tiled::each;
use crate::build::{Builder, Val};
use crate::ir::{Builtin, Constant, Elem, Kernel, Layout as Order, MatrixUnit, Place, Role, Scalar};
use crate::library::contract::Matrix;
use crate::library::contract::flow::Flow;
use crate::library::contract::stage::{self, Stage};
use crate::library::formula::Formula;
use crate::library::matrix_units::Tile;

/// What a kernel is built for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Form {
    /// As of other convolutions.
    pub base: head::Form,
    pub tile: Tile,
    /// What tables know at a time.
    pub span: Span,
}

/// As many terms go through units in all tiles: zeros behind the last one, which make a sum of -0 another.
pub(super) fn whole_terms(unit: MatrixUnit) -> usize {
    2 * usize::from(unit.shape[2])
}

/// The parts of a kernel.
struct Plan<'k, 'f> {
    k: &'k Builder,
    form: &'f Form,
    /// Where the terms of rows and columns are staged.
    staged: [Place; 2],
}

/// The kernel of a form.
pub(super) fn build(epilogue: &dyn Formula, form: &Form) -> Kernel {
    let (t, base) = (form.tile, &form.base);
    let staged = base.staged.as_ref().expect("terms are staged");
    let [m, n, terms] = t.unit.shape;
    let name = format!("{}_units_{m}x{n}x{terms}_{}", base.name(epilogue), t.lanes);
    let k = Builder::new(&name, [t.invocations(), 1, 1]);
    k.subgroup(t.lanes);
    let (h, length) = Head::read_with(&k, base, base.apart.then_some("length"));
    let index = k.builtin(Builtin::LocalIndex);
    let corner = [0, 1].map(|side| h.tile[side] * i64::from(t.size(side)));
    let counts = &h.terms.counts;
    let all = counts[1..].iter().fold(counts[0], |n, &c| n * c);
    let p = Plan { k: &k, form, staged: [0, 1].map(|side| form.room(&k, side)) };
    let table = Table::new(&k, &h, base, staged, form.span);

    let places = |side: usize| -> Vec<Val> {
        let size = [t.size(side), t.depth];
        let all = stage::rounds(index, t.invocations(), size, staged.along[side], staged.width[side]);
        all.into_iter().map(|(place, ..)| place).collect()
    };
    let left = if staged.matrix {
        Gather::Matrix(Matrix::new(h.places[0], h.left_group(), [h.left.one, h.left_step()]))
    } else {
        Gather::Left(&table, each(&places(0), |r| h.first_of_row(corner[0] + r.to(h.number))), !staged.whole)
    };
    let right = Gather::Right(
        &table,
        each(&places(1), |c| {
            let column = h.column(corner[1] + c.to(h.number));
            (column.base, table.column(&column))
        }),
    );
    let stage = |side: usize, from| Stage {
        k: &k,
        side,
        index,
        invocations: t.invocations(),
        size: t.size(side),
        depth: t.depth,
        along: staged.along[side],
        width: staged.width[side],
        from,
        corner: corner[side],
        limit: [h.rows, h.columns][side],
        padding: Constant::float(Scalar::F32, 0.0),
    };
    let begin = length.map_or(all.like(0), |length| h.outer_number * length);
    let end = length.map_or(all, |length| (begin + length).min(all));
    let most = whole_terms(t.unit) as i64;
    let flow = Flow {
        stages: [stage(0, left), stage(1, right)],
        to: p.staged,
        pitch: [0, 1].map(|side| form.staged(side).1),
        slots: t.slots,
        end,
        upto: begin + (end - begin + (most - 1)) / most * most,
    };
    let sums = p.sums(&flow, begin, &|start| table.fill(start, [index, all], t.invocations()));
    p.store(&h, epilogue, corner, &sums);
    k.finish()
}

impl Form {
    /// What is staged of a side at a time: how many lines, and from one to the next.
    fn staged(&self, side: usize) -> (u32, u32) {
        let (t, along) = (self.tile, self.base.staged.as_ref().is_some_and(|s| s.along[side]));
        let (lines, inner) = if along { (t.size(side), t.depth) } else { (t.depth, t.size(side)) };
        (lines, t.pitch(inner, along))
    }
    fn room(&self, k: &Builder, side: usize) -> Place {
        let (lines, pitch) = self.staged(side);
        let elem = Elem::from(self.base.dtype);
        k.shared(["rows", "columns"][side], elem, lines * pitch * self.tile.slots)
    }
}

impl<'k> Plan<'k, '_> {
    /// The first row and column of the subgroup, from the corner.
    fn firsts(&self) -> [Val<'k>; 2] {
        let t = self.form.tile;
        let subgroup = self.k.builtin(Builtin::SubgroupId);
        let across = i64::from(t.subgroups[1]);
        let place = [subgroup / across, subgroup % across];
        [0, 1].map(|side| place[side] * i64::from(t.each[side] * u32::from(t.unit.shape[side])))
    }

    /// The sums of a subgroup: fragments, row by row. `fill` makes the tables of a window.
    fn sums(&self, flow: &Flow<'k, Gather<'k, '_>>, begin: Val<'k>, fill: &dyn Fn(Val<'k>)) -> Vec<Val<'k>> {
        let (k, t, span) = (self.k, self.form.tile, self.form.span);
        let zero = k.constant(Constant::float(Scalar::F32, 0.0));
        let none = k.fragment_fill(t.unit.fragment(Role::C), zero);
        let none = vec![none; (t.each[0] * t.each[1]) as usize];
        let firsts = self.firsts();
        let compute = |_: Val<'k>, bases: [Val<'k>; 2], sums: &[Val<'k>]| {
            let mut sums = sums.to_vec();
            for part in 0..t.depth / u32::from(t.unit.shape[2]) {
                let at = part * u32::from(t.unit.shape[2]);
                let [a, b] = [(0, Role::A), (1, Role::B)].map(|(side, role)| -> Vec<Val<'k>> {
                    let first = bases[side];
                    (0..t.each[side])
                        .map(|u| self.fragment(side, role, (first, firsts[side]), [u, at]))
                        .collect()
                });
                for (f, sum) in sums.iter_mut().enumerate() {
                    *sum = k.fragment_mul_add(a[f / b.len()], b[f % b.len()], *sum);
                }
            }
            sums
        };
        fill(begin);
        k.barrier();
        flow.open(begin);
        let window = begin.like(i64::from(span.window));
        if span.windows == 1 {
            return flow.steps([begin, flow.upto], k.u32(0), &none, &compute).1;
        }
        let carried = [&[k.u32(0)][..], &none].concat();
        let done = k.for_(begin, flow.upto, window, &carried, |start, carried| {
            let next = start + window;
            // Its terms are begun a few steps before this window's end; since those of the window before this one were, all have met.
            k.if_(next.lt(flow.upto), || fill(next));
            let (slot, sums) = flow.steps([start, next.min(flow.upto)], carried[0], &carried[1..], &compute);
            [&[slot][..], &sums].concat()
        });
        done[1..].to_vec()
    }

    /// Fragment `u` of a side, from term `at` of what is staged; where that begins, and the subgroup's first row or column in it.
    fn fragment(
        &self,
        side: usize,
        role: Role,
        (base, first): (Val<'k>, Val<'k>),
        [u, at]: [u32; 2],
    ) -> Val<'k> {
        let (k, t) = (self.k, self.form.tile);
        let pitch = i64::from(self.form.staged(side).1);
        let place = first + i64::from(u * u32::from(t.unit.shape[side]));
        let along = self.form.base.staged.as_ref().is_some_and(|s| s.along[side]);
        let begin = base + if along { place * pitch + i64::from(at) } else { place + i64::from(at) * pitch };
        // Rows of the left factor run over terms, and rows of the right one over columns.
        let order = if along == (role == Role::A) { Order::Rows } else { Order::Columns };
        k.fragment_load(t.unit.fragment(role), order, self.staged[side], begin, k.u32(pitch as u32))
    }

    /// Hands sums over to the epilogue through shared memory, some fragments side by side at a time.
    fn store(&self, h: &Head<'k>, epilogue: &dyn Formula, corner: [Val<'k>; 2], sums: &[Val<'k>]) {
        let (k, t) = (self.k, self.form.tile);
        let handing = t.handing();
        let out = k.shared("sums", Elem::F32, handing.elements());
        let (columns, pitch) = handing.handed();
        let lane = k.builtin(Builtin::SubgroupLane);
        let mine = k.builtin(Builtin::SubgroupId) * i64::from(handing.sums());
        let firsts = self.firsts();
        let width = u32::from(self.form.base.staged.as_ref().map_or(1, |s| s.stores));
        // Pieces of a row of fragments, and of all of their rows.
        let row = columns / width;
        let pieces = u32::from(t.unit.shape[0]) * row;
        for (f, sums) in sums.chunks(handing.together as usize).enumerate() {
            let f = f as u32 * handing.together;
            let at = [f / t.each[1], f % t.each[1]];
            if f > 0 {
                // What was handed over before has been taken.
                k.barrier();
            }
            for (i, &sum) in sums.iter().enumerate() {
                let first = mine + i as i64 * i64::from(t.unit.shape[1]);
                k.fragment_store(Order::Rows, out, first, k.u32(pitch), sum);
            }
            k.barrier();
            let place = |side: usize, cell: Val<'k>| {
                let within = firsts[side] + i64::from(at[side] * u32::from(t.unit.shape[side])) + cell;
                corner[side] + within.to(h.number)
            };
            // Where a lane has the same columns in all rounds, they are found once.
            let same = t.lanes.is_multiple_of(row);
            let found = |cell: Val<'k>| -> Vec<Column<'k>> {
                let first = place(1, cell);
                (0..width).map(|v| h.column(first + i64::from(v))).collect()
            };
            let fixed = lane % i64::from(row) * i64::from(width);
            let always = same.then(|| found(fixed));
            for round in 0..pieces.div_ceil(t.lanes) {
                let e = lane + i64::from(round * t.lanes);
                let (down, across) = if same {
                    (lane / i64::from(row) + i64::from(round * (t.lanes / row)), fixed)
                } else {
                    (e / i64::from(row), e % i64::from(row) * i64::from(width))
                };
                let other;
                let columns = match &always {
                    Some(columns) => columns,
                    None => {
                        other = found(across);
                        &other
                    }
                };
                let store = || {
                    let v = k.load(out, mine + down * i64::from(pitch) + across, width as u8);
                    h.store(k, epilogue, place(0, down), columns, &[v]);
                };
                if (round + 1) * t.lanes > pieces {
                    k.if_(e.lt(k.u32(pieces)), store);
                } else {
                    store();
                }
            }
        }
    }
}
