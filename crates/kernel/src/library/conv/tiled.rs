//! Convolutions as products whose terms a workgroup brings to shared memory together: the tiles and the order of `contract`, with
//! addresses and paddings from tables (`table.rs`) in place of strides.

use super::head::{Column, Form, Head};
use super::table::{Gather, Span, Table};
use crate::build::{Builder, Val};
use crate::ir::{Builtin, Kernel};
use crate::library::contract::Matrix;
use crate::library::contract::micro::{Chunks, Micro};
use crate::library::contract::stage::{self, Stage};
use crate::library::formula::Formula;

/// The kernel of a form whose terms are staged.
pub fn build(epilogue: &dyn Formula, form: &Form) -> Kernel {
    let tile = form.tile;
    let staged = form.staged.as_ref().expect("a form of this kernel says how terms are staged");
    let k = Builder::new(&form.name(epilogue), [tile.invocations(), 1, 1]);
    let h = Head::read(&k, form);
    let index = k.builtin(Builtin::LocalIndex);
    let corner = [0, 1].map(|side| h.tile[side] * i64::from(tile.size(side)));
    let counts = &h.terms.counts;
    let terms = counts[1..].iter().fold(counts[0], |n, &c| n * c);
    let micro = Micro { k: &k, dtype: form.dtype, tile, along: staged.along, index };
    let none = micro.none();
    let to = micro.shared();
    let flows = tile.slots > 0;
    let span = Span::chunks(if flows && form.many { 2 } else { 1 });
    let table = Table::new(&k, &h, form, staged, span);

    let places = |side: usize| -> Vec<Val> {
        let size = [tile.size(side), tile.depth];
        let all = stage::rounds(index, tile.invocations(), size, staged.along[side], staged.width[side]);
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
        invocations: tile.invocations(),
        size: tile.size(side),
        depth: tile.depth,
        along: staged.along[side],
        width: staged.width[side],
        from,
        corner: corner[side],
        limit: [h.rows, h.columns][side],
        padding: micro.padding(side),
    };
    let stages = [stage(0, left), stage(1, right)];
    let fill = |start: Val| table.fill(start, [index, terms], tile.invocations());
    let fill: &dyn Fn(Val<'_>) = &|start| fill(start);
    let chunks =
        Chunks { terms, many: form.many, of: form.apart.then_some(h.outer_number), before: Some(fill) };
    let sums = if flows {
        micro.flowing(stages, to, &chunks, &none)
    } else {
        micro.staged(&stages, to, &chunks, &none)
    };

    let rows = micro.places(0, corner[0]);
    let columns: Vec<Column> = micro.places(1, corner[1]).into_iter().map(|c| h.column(c)).collect();
    for (u, &r) in rows.iter().enumerate() {
        for (v, some) in columns.chunks(usize::from(staged.stores)).enumerate() {
            let first = u * columns.len() + v * usize::from(staged.stores);
            h.store(&k, epilogue, r, some, &sums[first..][..some.len()]);
        }
    }
    k.finish()
}

/// Something of each place; of equal ones once.
pub(super) fn each<'k, T: Clone>(places: &[Val<'k>], of: impl Fn(Val<'k>) -> T) -> Vec<T> {
    let mut known: Vec<(Val<'k>, T)> = Vec::new();
    for &place in places {
        let made = known.iter().find(|(p, _)| p.id == place.id).map(|(_, t)| t.clone());
        let made = made.unwrap_or_else(|| of(place));
        known.push((place, made));
    }
    known.into_iter().map(|(_, t)| t).collect()
}
