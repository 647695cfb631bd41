//! `y[row]` = the row's elements combined, in the order of `elinvar_core::order::fold`.
//!
//! The first axes of the operand are the rows, the others are a row, in row-major order. One workgroup folds one or
//! several rows (see `row`); rows that lie side by side in memory are read across.

use super::formula::Compute;
use super::index::{self, Axes, Joined, is_wide};
use super::numbers::{self, Numbers};
use super::row::{Row, Tile, lanes};
use super::{Key, Work, grid, group_number};
use crate::build::{Builder, Val};
use crate::ir::{Access, Elem, Kernel, Scalar};
use elinvar_core::{DType, Layout, order};
use elinvar_ops::backend::Fold;

/// What a kernel is built for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Form {
    /// How elements are combined.
    pub fold: Fold,
    /// What the operand holds.
    pub elem: Elem,
    /// What the result holds.
    pub to: Elem,
    /// In which type it is computed.
    pub scalar: Scalar,
    /// How rows are given to invocations.
    pub tile: Tile,
    /// Lanes that can have a term.
    pub lanes: u32,
    /// May rows be longer than a block?
    pub many: bool,
    /// Joined axes of the rows, and in a row.
    pub ranks: [usize; 2],
    /// Are there positions beyond 2^30?
    pub wide: bool,
}

/// The type in which elements are combined: sums and products of integers in i64, u8 and bool in u32.
fn scalar(fold: Fold, dtype: DType) -> Scalar {
    match (Compute::from(dtype), fold) {
        (Compute::F32, _) => Scalar::F32,
        (Compute::F64, _) => Scalar::F64,
        (Compute::I64 | Compute::I32 | Compute::U8 | Compute::Bool, Fold::Sum | Fold::Prod) => Scalar::I64,
        (Compute::I64, Fold::Max | Fold::Min) => Scalar::I64,
        (Compute::I32, Fold::Max | Fold::Min) => Scalar::I32,
        (Compute::U8 | Compute::Bool, Fold::Max | Fold::Min) => Scalar::U32,
    }
}

/// The work of a fold: the operand, then the result. `None` if there are no rows. A tile that is asked for gets no more
/// lanes than rows have.
pub fn fold(
    f: Fold,
    x: &Layout,
    dtype: DType,
    kept: usize,
    to: DType,
    tile: Option<Tile>,
) -> Option<Work<'static>> {
    let rows: usize = x.shape()[..kept].iter().product();
    let n: usize = x.shape()[kept..].iter().product();
    if rows == 0 {
        return None;
    }
    let [outer, inner] = [index::join(&[x], 0, kept), index::join(&[x], kept, x.rank())];
    let form = Form {
        fold: f,
        elem: dtype.into(),
        to: to.into(),
        scalar: scalar(f, dtype),
        tile: tile.map_or_else(
            || Tile::of(n, crossed(&outer, &inner)),
            |t| Tile { lanes: t.lanes.min(lanes(n)), ..t },
        ),
        lanes: lanes(n),
        many: n > order::BLOCK,
        ranks: [outer.dims.len(), inner.dims.len()],
        wide: is_wide(x),
    };
    let mut all = vec![rows as i64, n as i64, x.offset() as i64];
    for j in [&outer, &inner] {
        all.extend(index::sizes(&j.dims, form.wide));
        all.extend(j.strides[0].iter().map(|&s| s as i64));
    }
    let groups = grid(rows.div_ceil(form.tile.rows as usize) as u64);
    let scalar = index::scalar(form.wide);
    Some(numbers::work(Key::of("fold").with(&form), move || build(&form), groups, scalar, &all))
}

/// Do rows lie side by side, and the elements of a row apart?
pub fn crossed(outer: &Joined, inner: &Joined) -> bool {
    let near = |j: &Joined| j.strides[0].last().is_some_and(|s| s.unsigned_abs() == 1);
    near(outer) && !near(inner)
}

impl Form {
    fn name(&self) -> String {
        let Tile { lanes, rows, crossed } = self.tile;
        let fold = match self.fold {
            Fold::Sum => "sum",
            Fold::Prod => "prod",
            Fold::Max => "max",
            Fold::Min => "min",
        };
        let [a, b] = self.ranks;
        let crossed = if crossed { "_crossed" } else { "" };
        let many = if self.many { "_many" } else { "" };
        let wide = if self.wide { "_wide" } else { "" };
        format!(
            "fold_{fold}_{}_{}_l{lanes}of{}r{rows}_{a}_{b}{crossed}{many}{wide}",
            self.elem, self.to, self.lanes
        )
    }
}

/// The axes of an operand's rows, or of its elements in a row.
struct Part<'k> {
    axes: Axes<'k>,
    strides: Vec<Val<'k>>,
}

/// The kernel of a form.
pub fn build(form: &Form) -> Kernel {
    let k = Builder::new(&form.name(), [form.tile.invocations(), 1, 1]);
    let x = k.buffer("x", form.elem, Access::Read);
    let y = k.buffer("y", form.to, Access::Write);
    let count = 3 + form.ranks.iter().map(|&r| index::count(r, form.wide) + r).sum::<usize>();
    let numbers = Numbers::new(&k, index::scalar(form.wide), count);
    let (rows, n, offset) = (numbers.get("rows"), numbers.get("n"), numbers.get("offset"));
    let [outer, inner] = [("row", form.ranks[0]), ("in", form.ranks[1])].map(|(name, rank)| Part {
        axes: Axes::read(&numbers, name, rank, form.wide),
        strides: index::strides(&numbers, &format!("{name}_stride"), rank),
    });
    let r = Row::new(&k, form.tile, form.lanes, n, form.scalar, form.many);
    let row = group_number(&k, rows.scalar()) * i64::from(form.tile.rows) + r.row.to(rows.scalar());
    // Rows past the last one are the last one, and nobody stores them: the whole workgroup has to go along.
    let here = row.min(rows - 1);
    let first = index::position(offset, &outer.axes.index(here), &outer.strides);
    let result = r.fold(form.fold, &|i| {
        k.load(x, index::position(first, &inner.axes.index(i), &inner.strides), 1).to(form.scalar)
    });
    k.if_(row.lt(rows), || {
        k.if_(r.lane.eq(r.lane.like(0)), || k.store(y, row, result.to(form.to.scalar())));
    });
    k.finish()
}
