//! `y[b, m, n] = epilogue(sum over k of x[b, m, k] * w[b, k, n])`, in the order of `elinvar_core::order::contract`.
//!
//! An invocation holds a few rows by a few columns of y in registers, and runs their chains of fma side by side. In the plain
//! form it reads x and w from device memory; the other forms (`shared.rs`) go through shared memory: what is staged comes there
//! through registers, or by copies that go on meanwhile (`flow.rs`). The chunks of the order are a multiple of any depth, so no
//! tile crosses two.
//!
//! Where a tile reaches beyond k, x is padded with -0 and w with +0: their product is -0, and adding that changes no bit of
//! any sum (+0 would turn a sum of -0, which an underflow can leave, into +0). Rows and columns beyond m and n are
//! computed and thrown away.

pub(super) mod flow;
pub(super) mod micro;
mod shared;
pub(super) mod stage;

use super::chunks;
use super::formula::{Compute, Formula};
use super::index;
use super::numbers::{self, Numbers};
use super::steps::{Room, Slot, Steps};
use super::{Key, Work, grid, group_number};
use crate::build::{Builder, Val};
use crate::ir::{Access, Builtin, Elem, Kernel, Place};
use crate::lane::{Float, Term, W32, W64};
use elinvar_core::{DType, Layout, order};
use elinvar_ops::backend::{Epilogue, Plain};
use elinvar_ops::map::Out;
use micro::{Chunks, Micro};
use stage::Stage;

/// How y is cut into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Invocations of a workgroup along m and n.
    pub group: [u32; 2],
    /// Rows and columns of an invocation.
    pub each: [u32; 2],
    /// Terms that are brought into shared memory at a time, a power of two up to 64; 0 for the plain form.
    pub depth: u32,
    /// Steps of so many terms that have room in shared memory at a time, brought there by copies that go on while others are
    /// computed with: at least 2. 0: through registers, as also where operands do not lie in pieces of 16 bytes.
    pub slots: u32,
}

impl Tile {
    /// Without shared memory: little to set up, for few rows or columns.
    pub const PLAIN: Tile = Tile { group: [8, 8], each: [4, 4], depth: 0, slots: 0 };
    /// 64 by 64 with 256 invocations: 16 sums each, for 8 loads from shared memory.
    pub const SHARED: Tile = Tile { group: [16, 16], each: [4, 4], depth: 16, slots: 0 };

    /// Rows (side 0) or columns (side 1) of a workgroup.
    pub(super) fn size(self, side: usize) -> u32 {
        self.group[side] * self.each[side]
    }
    pub(super) fn invocations(self) -> u32 {
        self.group[0] * self.group[1]
    }
}

/// An epilogue of the catalogue as a formula whose first operand is the sum.
#[derive(Clone, Copy, Debug)]
pub struct OfEpilogue<E, const N: usize>(pub E);

impl<E: Epilogue<N>, const N: usize> Formula for OfEpilogue<E, N> {
    fn name(&self) -> String {
        E::NAME.to_string()
    }
    fn key(&self, around: Key) -> Key {
        around.with_formula(&self.0)
    }
    fn arity(&self) -> usize {
        N + 1
    }
    fn out(&self) -> Out {
        Out::Same
    }
    fn emit<'k>(&self, k: &'k Builder, c: Compute, x: &[Val<'k>]) -> Val<'k> {
        let t = |i: usize| Term::Value(x[i]);
        match c {
            Compute::F32 => {
                let extra: [Float<'k, W32>; N] = std::array::from_fn(|i| Float::new(t(i + 1)));
                self.0.lane(Float::<W32>::new(t(0)), extra).0.value(k)
            }
            Compute::F64 => {
                let extra: [Float<'k, W64>; N] = std::array::from_fn(|i| Float::new(t(i + 1)));
                self.0.lane(Float::<W64>::new(t(0)), extra).0.value(k)
            }
            Compute::I64 | Compute::I32 | Compute::U8 | Compute::Bool => {
                assert_eq!(N, 0, "{}: integers take no epilogue", E::NAME);
                x[0]
            }
        }
    }
}

/// What a kernel is built for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Form {
    /// The dtype of x, w and y.
    pub dtype: DType,
    /// What further operands hold.
    pub extra: Vec<Elem>,
    /// How y is cut into pieces.
    pub tile: Tile,
    /// Do neighbouring terms lie side by side in x, and in w? They are read along.
    pub along: [bool; 2],
    /// Elements of x, and of w, that the shared form reads at once, in that direction.
    pub width: [u8; 2],
    /// Columns of y that it stores at once.
    pub stores: u8,
    /// May there be several chunks of terms?
    pub many: bool,
    /// Does each chunk have workgroups of its own, and its sums a place of their own?
    pub apart: bool,
    /// Are there positions beyond 2^30?
    pub wide: bool,
}

/// So many workgroups keep a large device busy.
const BUSY: usize = 512;

/// The work of a contraction. Operands: x, w, further operands of the epilogue. Result: y. Where y has few tiles and each of
/// them several chunks of terms, the chunks are computed side by side, and joined afterwards.
pub fn steps<'a>(
    epilogue: &'a dyn Formula,
    dtype: DType,
    x: &Layout,
    w: &Layout,
    extra: &[(&Layout, DType)],
    tile: Tile,
) -> Steps<'a> {
    const PLAIN: OfEpilogue<Plain, 0> = OfEpilogue(Plain);
    let (b, m, k) = (x.shape()[0], x.shape()[1], x.shape()[2]);
    let n = w.shape()[2];
    let len = b * m * n;
    let mut all = Steps { results: vec![Room::of(dtype.into(), len)], ..Steps::default() };
    let others: Vec<Slot> = (0..extra.len()).map(|i| Slot::Operand(2 + i)).collect();
    let factors = [Slot::Operand(0), Slot::Operand(1)];
    let units = b * m.div_ceil(tile.size(0) as usize) * n.div_ceil(tile.size(1) as usize);
    let chunks = k.div_ceil(order::CHUNK);
    if !dtype.is_float() || !chunks::are_apart(units, BUSY, chunks, len) {
        if let Some(work) = contract(epilogue, dtype, x, w, extra, tile) {
            all.push(work, &[&factors, &others[..], &[Slot::Result(0)]].concat());
        }
        return all;
    }
    if let Some(work) = launch(&PLAIN, dtype, x, w, &[], tile, Some(chunks)) {
        let sums = Slot::Scratch(0);
        all.scratch.push(Room::of(chunks::elem(dtype), chunks * len));
        all.push(work, &[factors[0], factors[1], sums]);
        let join = chunks::join(epilogue, dtype, chunks, len, extra);
        all.push(join, &[&[sums], &others[..], &[Slot::Result(0)]].concat());
    }
    all
}

/// The work of a contraction in one launch: x, w, further operands of the epilogue, then the result. `None` if y has no
/// elements.
pub fn contract<'a>(
    epilogue: &'a dyn Formula,
    dtype: DType,
    x: &Layout,
    w: &Layout,
    extra: &[(&Layout, DType)],
    tile: Tile,
) -> Option<Work<'a>> {
    launch(epilogue, dtype, x, w, extra, tile, None)
}

/// One launch. With `apart`, the sums of so many chunks come out instead.
fn launch<'a>(
    epilogue: &'a dyn Formula,
    dtype: DType,
    x: &Layout,
    w: &Layout,
    extra: &[(&Layout, DType)],
    tile: Tile,
    apart: Option<usize>,
) -> Option<Work<'a>> {
    let (b, m, k, n) = (x.shape()[0], x.shape()[1], x.shape()[2], w.shape()[2]);
    if b * m * n == 0 {
        return None;
    }
    let along = [x.strides()[2].unsigned_abs() == 1, w.strides()[1].unsigned_abs() == 1];
    let tile = tile.for_layouts(dtype, [x, w], along);
    let form = Form {
        dtype,
        extra: extra.iter().map(|(_, d)| Elem::from(*d)).collect(),
        tile,
        along,
        width: [tile.vector(0, x, along[0]), tile.vector(1, w, along[1])],
        stores: [4, 2, 1]
            .into_iter()
            .find(|&p| {
                tile.neighbours(1, along[1]).is_multiple_of(u32::from(p)) && n.is_multiple_of(usize::from(p))
            })
            .expect("1 divides all"),
        many: k > order::CHUNK && apart.is_none(),
        apart: apart.is_some(),
        wide: [x, w].into_iter().chain(extra.iter().map(|(l, _)| *l)).any(index::is_wide)
            || index::are_many(b * m * n * apart.unwrap_or(1)),
    };
    let (mut all, tiles) = numbers_of(x, w, extra, [tile.size(0), tile.size(1)]);
    let groups = grid((apart.unwrap_or(1) * tiles) as u64);
    if let Some(chunks) = apart {
        all.push(chunks as i64);
    }
    let (key, scalar) = (epilogue.key(Key::of("contract").with(&form)), index::scalar(form.wide));
    Some(numbers::work(key, move || build(epilogue, &form), groups, scalar, &all))
}

/// The numbers of a launch over tiles of so many rows and columns, as a kernel asks for them: sizes, how many tiles there are
/// along each side, offset and strides of each operand. Gives the number of all tiles, too.
pub(super) fn numbers_of(
    x: &Layout,
    w: &Layout,
    extra: &[(&Layout, DType)],
    tile: [u32; 2],
) -> (Vec<i64>, usize) {
    let (b, m, k, n) = (x.shape()[0], x.shape()[1], x.shape()[2], w.shape()[2]);
    let tiles = [m.div_ceil(tile[0] as usize), n.div_ceil(tile[1] as usize)];
    let mut all: Vec<i64> = [b, m, n, k, tiles[0], tiles[1]].map(|v| v as i64).to_vec();
    for l in [x, w].into_iter().chain(extra.iter().map(|(l, _)| *l)) {
        all.push(l.offset() as i64);
        // Of an axis of one there is no second, and its stride may be anything. A copy that brings zeros in its place still has an
        // address, which should be a multiple of 16 bytes as others are.
        all.extend(l.shape().iter().zip(l.strides()).map(|(&n, &s)| if n == 1 { 0 } else { s as i64 }));
    }
    (all, b * tiles[0] * tiles[1])
}

impl Form {
    fn name(&self, epilogue: &dyn Formula) -> String {
        let Tile { group: [a, b], each: [c, d], depth, slots } = self.tile;
        let along: String = self.along.iter().map(|&a| if a { "k" } else { "x" }).collect();
        let extra: String = self.extra.iter().map(|e| format!("_{e}")).collect();
        let ([vx, vw], vy) = (self.width, self.stores);
        let vectors = if depth > 0 { format!("_v{vx}{vw}{vy}") } else { String::new() };
        let slots = if slots > 0 { format!("s{slots}") } else { String::new() };
        let many = if self.many { "_many" } else { "" };
        let many = if self.apart { "_apart" } else { many };
        let wide = if self.wide { "_wide" } else { "" };
        let name = epilogue.name();
        format!(
            "contract_{name}_{}{extra}_{a}x{b}of{c}x{d}d{depth}{slots}_{along}{vectors}{many}{wide}",
            self.dtype
        )
    }
}

/// An operand with three axes, in a kernel.
#[derive(Clone, Copy)]
pub(in crate::library) struct Matrix<'k> {
    pub place: Place,
    /// Where this batch begins.
    first: Val<'k>,
    strides: [Val<'k>; 2],
}

impl<'k> Matrix<'k> {
    pub fn read(numbers: &Numbers<'k>, name: &str, place: Place, batch: Val<'k>) -> Self {
        let offset = numbers.get(&format!("{name}_offset"));
        let [b, row, column] = std::array::from_fn(|a| numbers.get(&format!("{name}_stride{a}")));
        Matrix { place, first: offset + batch * b, strides: [row, column] }
    }
    /// A matrix that begins somewhere, with strides from row to row and from column to column.
    pub fn new(place: Place, first: Val<'k>, strides: [Val<'k>; 2]) -> Self {
        Matrix { place, first, strides }
    }
    /// Rows that begin somewhere, of numbers side by side.
    pub fn rows(place: Place, first: Val<'k>, stride: Val<'k>) -> Self {
        Matrix { place, first, strides: [stride, stride.like(1)] }
    }
    pub fn at(&self, i: Val<'k>, j: Val<'k>) -> Val<'k> {
        self.first + i * self.strides[0] + j * self.strides[1]
    }
}

/// What all parts of a kernel know.
struct Plan<'k, 'f> {
    k: &'k Builder,
    form: &'f Form,
    micro: Micro<'k>,
    /// Sizes: rows, columns, terms.
    m: Val<'k>,
    n: Val<'k>,
    terms: Val<'k>,
    x: Matrix<'k>,
    w: Matrix<'k>,
    /// The first row and column of the workgroup.
    corner: [Val<'k>; 2],
    /// Which invocation.
    index: Val<'k>,
}

/// The kernel of a form.
pub fn build(epilogue: &dyn Formula, form: &Form) -> Kernel {
    let k = Builder::new(&form.name(epilogue), [form.tile.invocations(), 1, 1]);
    let places = ["x", "w"].map(|name| k.buffer(name, form.dtype.into(), Access::Read));
    let extras: Vec<Place> =
        (form.extra.iter().enumerate()).map(|(i, &e)| k.buffer(&format!("e{i}"), e, Access::Read)).collect();
    let out = if form.apart { chunks::elem(form.dtype) } else { form.dtype.into() };
    let y = k.buffer("y", out, Access::Write);
    let number = index::scalar(form.wide);
    let numbers = Numbers::new(&k, number, 6 + 4 * (2 + extras.len()) + usize::from(form.apart));
    let [batches, m, n, terms, tiles_m, tiles_n] =
        ["b", "m", "n", "k", "tiles_m", "tiles_n"].map(|name| numbers.get(name));
    let group = group_number(&k, number);
    let in_batch = tiles_m * tiles_n;
    // A grid that is cut into rows has a few workgroups too many: they go along, and store nothing.
    let asked = group / in_batch;
    let batch = if form.apart { asked % batches } else { asked.min(batches - 1) };
    let tile = group % in_batch;
    let corner =
        [tile / tiles_n * i64::from(form.tile.size(0)), tile % tiles_n * i64::from(form.tile.size(1))];
    let x = Matrix::read(&numbers, "x", places[0], batch);
    let w = Matrix::read(&numbers, "w", places[1], batch);
    let extra: Vec<Matrix> = (extras.iter().enumerate())
        .map(|(i, &p)| Matrix::read(&numbers, &format!("e{i}"), p, batch))
        .collect();
    // Which chunk, and how many there are.
    let chunk = form.apart.then(|| (asked / batches, numbers.get("chunks")));
    let exists = match chunk {
        Some((chunk, chunks)) => chunk.lt(chunks),
        None => asked.lt(batches),
    };
    let index = k.builtin(Builtin::LocalIndex);
    let micro = Micro { k: &k, dtype: form.dtype, tile: form.tile, along: form.along, index };
    let p = Plan { k: &k, form, micro, m, n, terms, x, w, corner, index };

    let sums = p.sums(chunk.map(|(c, chunks)| c.min(chunks - 1)));
    let c = Compute::from(form.dtype);
    let [rows, columns] = [0, 1].map(|side| p.micro.places(side, p.corner[side]));
    // Neighbours of a row are stored at once where all of them are there, or none.
    let width = form.stores;
    for (u, &i) in rows.iter().enumerate() {
        for (v, some) in columns.chunks(usize::from(width)).enumerate() {
            let j = some[0];
            let there = i.lt(m) & j.lt(n) & exists;
            k.if_(there, || {
                let first = u * columns.len() + v * usize::from(width);
                let sums: Vec<Val> = sums[first..][..some.len()].iter().map(|s| s.to(c.scalar())).collect();
                let sum = k.join(&sums);
                if let Some((chunk, _)) = chunk {
                    return k.store(y, ((chunk * batches + batch) * m + i) * n + j, sum);
                }
                let mut given = vec![sum];
                given.extend(extra.iter().map(|e| {
                    let each: Vec<Val> = some.iter().map(|&j| k.load(e.place, e.at(i, j), 1)).collect();
                    c.enter(k.join(&each))
                }));
                let result = epilogue.emit(&k, c, &given).splat(width);
                k.store(y, (batch * m + i) * n + j, result);
            });
        }
    }
    k.finish()
}

impl<'k> Plan<'k, '_> {
    /// The sums of an invocation, row by row. `of`: of this chunk alone.
    fn sums(&self, of: Option<Val<'k>>) -> Vec<Val<'k>> {
        let Tile { depth, slots, .. } = self.form.tile;
        let none = self.micro.none();
        let chunks = Chunks { terms: self.terms, many: self.form.many, of, before: None };
        if depth == 0 {
            return self.micro.chunks(&chunks, &none, &|start, end| self.plain(start, end, &none));
        }
        let places = self.micro.shared();
        let stages = [0, 1].map(|side| self.stage(side));
        if slots > 0 {
            return self.micro.flowing(stages, places, &chunks, &none);
        }
        self.micro.staged(&stages, places, &chunks, &none)
    }

    fn stage(&self, side: usize) -> Stage<'k> {
        let Form { tile, along, width, .. } = self.form;
        Stage {
            k: self.k,
            side,
            index: self.index,
            invocations: tile.invocations(),
            size: tile.group[side] * tile.each[side],
            depth: tile.depth,
            along: along[side],
            // Of f64, two are 16 bytes.
            width: if tile.slots > 0 {
                (flow::BYTES / self.form.dtype.size() as u32) as u8
            } else {
                width[side]
            },
            from: [self.x, self.w][side],
            corner: self.corner[side],
            limit: [self.m, self.n][side],
            padding: self.micro.padding(side),
        }
    }

    /// The terms `start..end` from device memory.
    fn plain(&self, start: Val<'k>, end: Val<'k>, none: &[Val<'k>]) -> Vec<Val<'k>> {
        let k = self.k;
        let places = |side: usize, last: Val<'k>| -> Vec<Val<'k>> {
            // Rows and columns past the last one are the last one.
            self.micro.places(side, self.corner[side]).iter().map(|i| i.min(last - 1)).collect()
        };
        let (rows, columns) = (places(0, self.m), places(1, self.n));
        k.for_(start, end, start.like(1), none, |t, sums| {
            let a: Vec<Val> = rows.iter().map(|&i| self.load(&self.x, i, t)).collect();
            let b: Vec<Val> = columns.iter().map(|&j| self.load(&self.w, t, j)).collect();
            self.micro.chains(&a, &b, sums)
        })
    }

    fn load(&self, from: &Matrix<'k>, i: Val<'k>, j: Val<'k>) -> Val<'k> {
        self.k.load(from.place, from.at(i, j), 1).to(self.micro.scalar())
    }
}
