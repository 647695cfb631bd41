//! Reductions (sum, product, maximum, minimum, all, any) over axes: `y[row]` = the row's elements
//! combined, in the order of `elinvar_core::order::fold`.
//!
//! The first axes of the operand are the rows, the others are a row, in row-major order. One
//! workgroup folds one or several rows (`block_reduce`); rows that are contiguous in memory are
//! read across (column reduction). A few long rows are cut into the blocks of the order: a
//! workgroup folds a block, and then blocks are joined as neighbours, 256 at a time.

use super::block_reduce::{BlockRow, RegisterBudget, RowLength, RowTile, combine, elem, lanes, start};
use super::plan::ReducePath;
use crate::formula::Compute;
use crate::launch::args::{self, LaunchArgs};
use crate::launch::sequence::{BufferSlot, BufferSpec, LaunchSequence};
use crate::launch::{Key, Work, grid, linear_group_id};
use crate::layout::indexing::{self, Axes, JoinedAxes, is_wide};
use elinvar_core::{DType, Layout, order};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Access, Elem, Kernel, Scalar};
use elinvar_ops::backend::Fold;

/// What a kernel is built for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FoldConfig {
    /// How elements are combined.
    pub fold: Fold,
    /// What the operand holds.
    pub elem: Elem,
    /// What the result holds.
    pub to: Elem,
    /// In which type it is computed.
    pub scalar: Scalar,
    /// How rows are given to invocations.
    pub tile: RowTile,
    /// How long rows are, or the blocks of them that stand apart.
    pub length: RowLength,
    /// Does each block of a row have a workgroup of its own, and its result a place of its own?
    pub multi_block: bool,
    /// Joined axes of the rows, and in a row.
    pub ranks: [usize; 2],
    /// Are there positions beyond 2^30?
    pub wide: bool,
}

/// The type in which elements are combined: sums and products of integers in i64, u8 and bool in
/// u32.
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

/// Invocations of a workgroup that joins blocks.
const JOIN_THREADS: usize = 256;
/// Blocks that each of them joins where there are more than that: a launch that waits for another
/// one takes as long.
const BLOCKS_PER_THREAD: usize = 16;

/// The work of a fold. Operand: x. Result: the fold of each row.
pub fn steps(
    f: Fold,
    x: &Layout,
    dtype: DType,
    kept: usize,
    to: DType,
    path: ReducePath,
    budget: RegisterBudget,
) -> LaunchSequence<'static> {
    let rows: usize = x.shape()[..kept].iter().product();
    let n: usize = x.shape()[kept..].iter().product();
    let mut all =
        LaunchSequence { results: vec![BufferSpec::of(to.into(), rows)], ..LaunchSequence::default() };
    if path == ReducePath::WholeRows {
        if let Some(work) = fold(f, x, dtype, kept, to, FoldChoice { tile: None, budget }) {
            all.push(work, &[BufferSlot::Operand(0), BufferSlot::Result(0)]);
        }
        return all;
    }
    let scalar = scalar(f, dtype);
    let between = elem(scalar);
    let Some(work) = launch(f, x, dtype, kept, between, FoldChoice { tile: None, budget }, true) else {
        return all;
    };
    let (from, count) = (BufferSlot::Scratch(0), n.div_ceil(order::BLOCK));
    all.scratch.push(BufferSpec::of(between, rows * count));
    all.push(work, &[BufferSlot::Operand(0), from]);
    joins(&mut all, (f, scalar), to.into(), [rows, count], from, BufferSlot::Result(0));
    all
}

/// Adds the launches that join `count` blocks of each row.
pub(crate) fn joins(
    all: &mut LaunchSequence<'_>,
    (f, scalar): (Fold, Scalar),
    to: Elem,
    [rows, mut count]: [usize; 2],
    mut from: BufferSlot,
    result: BufferSlot,
) {
    loop {
        let each = if count > JOIN_THREADS { BLOCKS_PER_THREAD } else { 1 };
        let joined = count.div_ceil(JOIN_THREADS * each);
        let last = joined == 1;
        let into = if last { result } else { BufferSlot::Scratch(all.scratch.len()) };
        if !last {
            all.scratch.push(BufferSpec::of(elem(scalar), rows * joined));
        }
        let to = if last { to } else { elem(scalar) };
        let wide = indexing::are_many(rows * count);
        let work = args::work(
            Key::of("fold_join").with(&(f, scalar, to, each, wide)),
            move || join(f, scalar, to, each, wide),
            grid((rows * joined) as u64),
            indexing::scalar(wide),
            &[rows as i64, count as i64, joined as i64],
        );
        all.push(work, &[from, into]);
        if last {
            return;
        }
        (from, count) = (into, joined);
    }
}

/// The kernel that joins neighbouring blocks of a row, `each` an invocation: what is missing at the
/// end is what a fold starts from.
pub fn join(f: Fold, scalar: Scalar, to: Elem, each: usize, wide: bool) -> Kernel {
    let word = word(f);
    let name = format!("fold_join_{word}_{scalar}_{to}_e{each}{}", if wide { "_wide" } else { "" });
    let k = Builder::new(&name, [JOIN_THREADS as u32, 1, 1]);
    let x = k.buffer("x", elem(scalar), Access::Read);
    let y = k.buffer("y", to, Access::Write);
    let s = indexing::scalar(wide);
    let args = LaunchArgs::new(&k, s, 3);
    let [rows, count, joined] = ["rows", "count", "joined"].map(|n| args.get(n));
    let shared = k.shared("blocks", elem(scalar), JOIN_THREADS as u32);
    let unit = linear_group_id(&k, s);
    // The last row of a grid may have workgroups too many: they go along, and store nothing.
    let inside = unit.min(rows * joined - 1);
    let (row, piece) = (inside / joined, inside % joined);
    let t = k.local_id(0);
    let first = (piece * JOIN_THREADS as i64 + t.to(s)) * each as i64;
    let none = k.constant(start(f, scalar));
    // Loads that wait for no condition are under way together.
    let mut own: Vec<Val> = (0..each as i64)
        .map(|e| {
            let i = first + e;
            i.lt(count).select(k.load(x, row * count + i.min(count - 1), 1), none)
        })
        .collect();
    while own.len() > 1 {
        own = own.chunks(2).map(|pair| pair[0].binary(combine(f), pair[1])).collect();
    }
    let mine = own[0];
    k.store(shared, t, mine);
    k.barrier();
    let mut offset_of = 1;
    while offset_of < JOIN_THREADS as i64 {
        k.if_((t & (2 * offset_of - 1)).eq(k.u32(0)), || {
            let (left, right) = (k.load(shared, t, 1), k.load(shared, t + offset_of, 1));
            k.store(shared, t, left.binary(combine(f), right));
        });
        offset_of *= 2;
        if offset_of < JOIN_THREADS as i64 {
            k.barrier();
        }
    }
    let leads = t.eq(k.u32(0)) & unit.lt(rows * joined);
    k.if_(leads, || k.store(y, unit, k.load(shared, t, 1).to(to.scalar())));
    k.finish()
}

/// What may be chosen about a fold; its bits do not depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoldChoice {
    /// How rows are given to invocations; no more lanes are taken than rows have.
    pub tile: Option<RowTile>,
    /// What an invocation may hold.
    pub budget: RegisterBudget,
}

/// The work of a fold in one launch: the operand, then the result. `None` if there are no rows.
pub fn fold(
    f: Fold,
    x: &Layout,
    dtype: DType,
    kept: usize,
    to: DType,
    choice: FoldChoice,
) -> Option<Work<'static>> {
    launch(f, x, dtype, kept, to.into(), choice, false)
}

fn launch(
    f: Fold,
    x: &Layout,
    dtype: DType,
    kept: usize,
    to: Elem,
    choice: FoldChoice,
    multi_block: bool,
) -> Option<Work<'static>> {
    let rows: usize = x.shape()[..kept].iter().product();
    let n: usize = x.shape()[kept..].iter().product();
    if rows == 0 {
        return None;
    }
    let [outer, inner] = [indexing::join(&[x], 0, kept), indexing::join(&[x], kept, x.rank())];
    let tile = choice.tile.map_or_else(
        || RowTile::of(n, crossed(&outer, &inner), choice.budget),
        |t| RowTile { lanes: t.lanes.min(lanes(n)), ..t },
    );
    let of_one = if multi_block { n.min(order::BLOCK) } else { n };
    let config = FoldConfig {
        fold: f,
        elem: dtype.into(),
        to,
        scalar: scalar(f, dtype),
        tile,
        length: RowLength::of(of_one, choice.budget).parallel_blocks(of_one, tile, choice.budget),
        multi_block,
        ranks: [outer.dims.len(), inner.dims.len()],
        wide: is_wide(x),
    };
    let mut all = vec![rows as i64, n as i64, x.offset() as i64];
    let mut groups = rows;
    if multi_block {
        let blocks = n.div_ceil(order::BLOCK);
        all.push(blocks as i64);
        groups *= blocks;
    }
    for j in [&outer, &inner] {
        all.extend(indexing::sizes(&j.dims, config.wide));
        all.extend(j.strides[0].iter().map(|&s| s as i64));
    }
    let groups = grid(groups.div_ceil(config.tile.rows as usize) as u64);
    let scalar = indexing::scalar(config.wide);
    Some(args::work(Key::of("fold").with(&config), move || build(&config), groups, scalar, &all))
}

/// Do rows are contiguous, and the elements of a row apart?
pub fn crossed(outer: &JoinedAxes, inner: &JoinedAxes) -> bool {
    let near = |j: &JoinedAxes| j.strides[0].last().is_some_and(|s| s.unsigned_abs() == 1);
    near(outer) && !near(inner)
}

fn word(f: Fold) -> &'static str {
    match f {
        Fold::Sum => "sum",
        Fold::Prod => "prod",
        Fold::Max => "max",
        Fold::Min => "min",
    }
}

impl FoldConfig {
    fn name(&self) -> String {
        let RowTile { lanes, rows, crossed } = self.tile;
        let fold = word(self.fold);
        let [a, b] = self.ranks;
        let crossed = if crossed { "_crossed" } else { "" };
        let multi_block = if self.multi_block { "_multi_block" } else { "" };
        let wide = if self.wide { "_wide" } else { "" };
        format!(
            "fold_{fold}_{}_{}_l{lanes}of{}r{rows}_{a}_{b}{crossed}{multi_block}{wide}",
            self.elem,
            self.to,
            self.length.words()
        )
    }
}

/// The axes of an operand's rows, or of its elements in a row.
struct AxisGroup<'k> {
    axes: Axes<'k>,
    strides: Vec<Val<'k>>,
}

/// The kernel of a form.
pub fn build(config: &FoldConfig) -> Kernel {
    let k = Builder::new(&config.name(), [config.length.invocations(config.tile), 1, 1]);
    let x = k.buffer("x", config.elem, Access::Read);
    let y = k.buffer("y", config.to, Access::Write);
    let count = 3
        + usize::from(config.multi_block)
        + config.ranks.iter().map(|&r| indexing::count(r, config.wide) + r).sum::<usize>();
    let args = LaunchArgs::new(&k, indexing::scalar(config.wide), count);
    let (rows, n, offset) = (args.get("rows"), args.get("n"), args.get("offset"));
    let blocks = config.multi_block.then(|| args.get("blocks"));
    let [outer, inner] = [("row", config.ranks[0]), ("in", config.ranks[1])].map(|(name, rank)| AxisGroup {
        axes: Axes::read(&args, name, rank, config.wide),
        strides: indexing::strides(&args, &format!("{name}_stride"), rank),
    });
    // What a row of the workgroup is: a row, or a block of one.
    let size = order::BLOCK as i64;
    let groups = blocks.map_or(rows, |blocks| rows * blocks);
    let r = BlockRow::new(&k, config.tile, config.length, n.scalar(), config.scalar);
    let unit = linear_group_id(&k, rows.scalar()) * i64::from(config.tile.rows) + r.row.to(rows.scalar());
    // Rows past the last one are the last one, and are not stored: the whole workgroup has to reach
    // the barriers.
    let here = unit.min(groups - 1);
    let (row, begin, count) = match blocks {
        Some(blocks) => {
            let begin = here % blocks * size;
            // The last block may be shorter.
            (here / blocks, begin, (n - begin).min(n.like(size)))
        }
        None => (here, n.like(0), n),
    };
    let first = indexing::position(offset, &outer.axes.index(row), &outer.strides);
    let result = r.fold(config.fold, count, &|i| {
        let at = indexing::position(first, &inner.axes.index(begin + i), &inner.strides);
        k.load(x, at, 1).to(config.scalar)
    });
    k.if_(unit.lt(groups), || {
        k.if_(r.leads(), || k.store(y, unit, result.to(config.to.scalar())));
    });
    k.finish()
}
