//! Argmax and argmin: `y[row]` = the index of the first largest (smallest) element of the row; the
//! first NaN wins; zeros are equal.
//!
//! Which of two elements wins is a total order (value, then index), so nothing depends on the order
//! of comparisons. A few long rows are cut into pieces: a first launch finds the winner of each
//! piece, a second one the winner among them.

use super::block_reduce::{elem, lanes};
use super::plan::{PIECE_ELEMENTS, ReducePath};
use crate::formula::Compute;
use crate::launch::args::{self, LaunchArgs};
use crate::launch::sequence::{BufferSlot, BufferSpec, LaunchSequence};
use crate::launch::{Key, Work, grid, linear_group_id};
use crate::layout::indexing::{self, Axes, is_wide};
use elinvar_core::{DType, Layout};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Access, Builtin, Compare, Elem, Kernel, Scalar};
use elinvar_ops::backend::ArgFold;

/// What a kernel is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArgFoldConfig {
    /// Which element wins.
    pub f: ArgFold,
    /// The dtype of the operand.
    pub dtype: DType,
    /// Invocations of a piece.
    pub lanes: u32,
    /// Pieces of a workgroup.
    pub pieces: u32,
    /// Do the elements that compete stand in a buffer, as indices into the row?
    pub named: bool,
    /// Joined axes of the rows, and in a row.
    pub ranks: [usize; 2],
    /// Are there positions beyond 2^30?
    pub wide: bool,
}

/// The work of an arg-fold. Operand: x. Result: the indices (i64).
pub fn arg_fold(
    f: ArgFold,
    x: &Layout,
    dtype: DType,
    kept: usize,
    path: ReducePath,
) -> LaunchSequence<'static> {
    let rows: usize = x.shape()[..kept].iter().product();
    let n: usize = x.shape()[kept..].iter().product();
    let mut all =
        LaunchSequence { results: vec![BufferSpec::of(Elem::I64, rows)], ..LaunchSequence::default() };
    if rows == 0 {
        return all;
    }
    if path == ReducePath::WholeRows {
        all.push(launch(f, x, dtype, kept, [n, n], false), &[BufferSlot::Operand(0), BufferSlot::Result(0)]);
        return all;
    }
    let pieces = n.div_ceil(PIECE_ELEMENTS);
    all.scratch = vec![BufferSpec::of(Elem::I64, rows * pieces)];
    all.push(
        launch(f, x, dtype, kept, [n, PIECE_ELEMENTS], false),
        &[BufferSlot::Operand(0), BufferSlot::Scratch(0)],
    );
    let buffers = [BufferSlot::Operand(0), BufferSlot::Scratch(0), BufferSlot::Result(0)];
    all.push(launch(f, x, dtype, kept, [pieces, pieces], true), &buffers);
    all
}

/// One launch, over `n` elements (or names of elements) of a row in pieces of `piece`.
fn launch(
    f: ArgFold,
    x: &Layout,
    dtype: DType,
    kept: usize,
    [n, piece]: [usize; 2],
    named: bool,
) -> Work<'static> {
    let rows: usize = x.shape()[..kept].iter().product();
    let [outer, inner] = [indexing::join(&[x], 0, kept), indexing::join(&[x], kept, x.rank())];
    let lanes = lanes(piece);
    let config = ArgFoldConfig {
        f,
        dtype,
        lanes,
        pieces: 128 / lanes,
        named,
        ranks: [outer.dims.len(), inner.dims.len()],
        wide: is_wide(x),
    };
    let pieces = n.div_ceil(piece);
    let mut all = vec![rows as i64, n as i64, piece as i64, pieces as i64, x.offset() as i64];
    for j in [&outer, &inner] {
        all.extend(indexing::sizes(&j.dims, config.wide));
        all.extend(j.strides[0].iter().map(|&s| s as i64));
    }
    let groups = grid((rows * pieces).div_ceil(config.pieces as usize) as u64);
    let key = Key::of("arg_fold").with(&config);
    args::work(key, move || build(&config), groups, indexing::scalar(config.wide), &all)
}

/// Does `a` win against `b`, wherever they stand?
pub(crate) fn beats<'k>(f: ArgFold, a: Val<'k>, b: Val<'k>) -> Val<'k> {
    let further = match f {
        ArgFold::Max => a.compare(Compare::Gt, b),
        ArgFold::Min => a.lt(b),
    };
    if a.scalar().is_float() { further | (a.compare(Compare::Ne, a) & b.eq(b)) } else { further }
}

/// The type in which elements are compared.
pub(crate) fn compared(dtype: DType) -> Scalar {
    match Compute::from(dtype) {
        Compute::Bool => Scalar::U32,
        c @ (Compute::F32 | Compute::F64 | Compute::I64 | Compute::I32 | Compute::U8) => c.scalar(),
    }
}

/// The kernel of a form.
pub fn build(config: &ArgFoldConfig) -> Kernel {
    let word = match config.f {
        ArgFold::Max => "max",
        ArgFold::Min => "min",
    };
    let [a, b] = config.ranks;
    let named = if config.named { "_named" } else { "" };
    let wide = if config.wide { "_wide" } else { "" };
    let name = format!("arg_{word}_{}_l{}_{a}_{b}{named}{wide}", config.dtype, config.lanes);
    let k = Builder::new(&name, [config.lanes * config.pieces, 1, 1]);
    let x = k.buffer("x", config.dtype.into(), Access::Read);
    let names = config.named.then(|| k.buffer("names", Elem::I64, Access::Read));
    let y = k.buffer("y", Elem::I64, Access::Write);
    let number = indexing::scalar(config.wide);
    let count = 5 + config.ranks.iter().map(|&r| indexing::count(r, config.wide) + r).sum::<usize>();
    let args = LaunchArgs::new(&k, number, count);
    let [rows, n, piece, pieces, offset] = ["rows", "n", "piece", "pieces", "offset"].map(|n| args.get(n));
    let [outer, inner] = [("row", a), ("in", b)].map(|(name, rank)| {
        let axes = Axes::read(&args, name, rank, config.wide);
        (axes, indexing::strides(&args, &format!("{name}_stride"), rank))
    });
    let scalar = compared(config.dtype);
    let values = k.shared("values", elem(scalar), config.lanes * config.pieces);
    let places = k.shared("places", elem(number), config.lanes * config.pieces);

    let mine = k.builtin(Builtin::LocalIndex);
    let lane = mine % i64::from(config.lanes);
    let asked =
        linear_group_id(&k, number) * i64::from(config.pieces) + (mine / i64::from(config.lanes)).to(number);
    // Pieces past the last one are the last one, and are not stored.
    let unit = asked.min(rows * pieces - 1);
    let (row, number_in_row) = (unit / pieces, unit % pieces);
    let first = indexing::position(offset, &outer.0.index(row), &outer.1);
    let begin = number_in_row * piece;
    let end = (begin + piece).min(n);
    let none = [k.int(scalar, 0), k.int(number, -1)];
    let step = n.like(i64::from(config.lanes));
    let best = k.for_(begin + lane.to(number), end, step, &none, |i, best| {
        let i = match names {
            Some(names) => k.load(names, row * n + i, 1).to(number),
            None => i,
        };
        let v = k.load(x, indexing::position(first, &inner.0.index(i), &inner.1), 1).to(scalar);
        let wins = best[1].lt(best[1].like(0)) | beats(config.f, v, best[0]);
        vec![wins.select(v, best[0]), wins.select(i, best[1])]
    });
    k.store(values, mine, best[0]);
    k.store(places, mine, best[1]);
    k.barrier();
    let mut half = config.lanes / 2;
    while half > 0 {
        k.if_(lane.lt(k.u32(half)), || {
            let other = mine + i64::from(half);
            let [a, b] = [mine, other].map(|at| (k.load(values, at, 1), k.load(places, at, 1)));
            let zero = a.1.like(0);
            let sooner = !beats(config.f, a.0, b.0) & b.1.lt(a.1);
            let wins = !b.1.lt(zero) & (a.1.lt(zero) | beats(config.f, b.0, a.0) | sooner);
            if half > 1 {
                k.store(values, mine, wins.select(b.0, a.0));
            }
            k.store(places, mine, wins.select(b.1, a.1));
        });
        half /= 2;
        // What is left in the end is the invocation's own.
        if half > 0 {
            k.barrier();
        }
    }
    let leads = lane.eq(k.u32(0)) & asked.lt(rows * pieces);
    k.if_(leads, || k.store(y, asked, k.load(places, mine, 1).to(Scalar::I64)));
    k.finish()
}
