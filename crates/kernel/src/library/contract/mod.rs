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
mod shared;
pub(super) mod stage;

use super::chunks;
use super::formula::{Compute, Formula};
use super::index;
use super::numbers::{self, Numbers};
use super::row::elem;
use super::steps::{Room, Slot, Steps};
use super::{Key, Work, grid, group_number};
use crate::build::{Builder, Val};
use crate::ir::{Access, Builtin, Constant, Elem, Kernel, Place, Scalar};
use crate::lane::{Float, Term, W32, W64};
use elinvar_core::{DType, Layout, order};
use elinvar_ops::backend::{Epilogue, Plain};
use elinvar_ops::map::Out;

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

    fn rows(self) -> u32 {
        self.group[0] * self.each[0]
    }
    fn columns(self) -> u32 {
        self.group[1] * self.each[1]
    }
    fn invocations(self) -> u32 {
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
    let units = b * m.div_ceil(tile.rows() as usize) * n.div_ceil(tile.columns() as usize);
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
    let (mut all, tiles) = numbers_of(x, w, extra, [tile.rows(), tile.columns()]);
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
    /// The type of sums. bool is 0 or 1 in a u32.
    fn scalar(&self) -> Scalar {
        match Compute::from(self.dtype) {
            Compute::Bool => Scalar::U32,
            c @ (Compute::F32 | Compute::F64 | Compute::I64 | Compute::I32 | Compute::U8) => c.scalar(),
        }
    }
    /// sum + a * b: floats round once, integers wrap, bool is or and and.
    fn chain<'k>(&self, a: Val<'k>, b: Val<'k>, sum: Val<'k>) -> Val<'k> {
        match Compute::from(self.dtype) {
            Compute::F32 | Compute::F64 => a.fma(b, sum),
            Compute::I64 | Compute::I32 | Compute::U8 => sum + a * b,
            Compute::Bool => sum | (a & b),
        }
    }
    fn plus<'k>(&self, a: Val<'k>, b: Val<'k>) -> Val<'k> {
        match Compute::from(self.dtype) {
            Compute::F32 | Compute::F64 | Compute::I64 | Compute::I32 | Compute::U8 => a + b,
            Compute::Bool => a | b,
        }
    }
    /// What x is padded with; w is padded with 0.
    fn padding(&self) -> Constant {
        let s = self.scalar();
        if s.is_float() { Constant::float(s, -0.0) } else { Constant::int(s, 0) }
    }
}

/// An operand with three axes, in a kernel.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'k> {
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
    /// Sizes: rows, columns, terms.
    m: Val<'k>,
    n: Val<'k>,
    terms: Val<'k>,
    x: Matrix<'k>,
    w: Matrix<'k>,
    /// The first row and column of the workgroup.
    corner: [Val<'k>; 2],
    /// Which invocation along m and n, and of all.
    local: [Val<'k>; 2],
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
        [tile / tiles_n * i64::from(form.tile.rows()), tile % tiles_n * i64::from(form.tile.columns())];
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
    let local = form.tile.local(index).map(|v| v.to(number));
    let p = Plan { k: &k, form, m, n, terms, x, w, corner, local, index };

    let sums = p.sums(chunk.map(|(c, chunks)| c.min(chunks - 1)));
    let c = Compute::from(form.dtype);
    let [rows, columns] = [0, 1].map(|side| p.places(side));
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
    /// The rows (side 0) or columns (side 1) of an invocation: neighbours of a workgroup have neighbours, or pieces of some.
    fn places(&self, side: usize) -> Vec<Val<'k>> {
        let Tile { group, each, .. } = self.form.tile;
        let p = self.form.tile.neighbours(side, self.form.along[side]);
        let first = self.corner[side] + self.local[side] * i64::from(p);
        (0..each[side]).map(|u| first + i64::from(u / p * p * group[side] + u % p)).collect()
    }

    /// The sums of an invocation, row by row. `of`: of this chunk alone.
    fn sums(&self, of: Option<Val<'k>>) -> Vec<Val<'k>> {
        let k = self.k;
        let Tile { each, depth, .. } = self.form.tile;
        let zero = k.constant(Constant::int(self.form.scalar(), 0));
        let none = vec![zero; (each[0] * each[1]) as usize];
        let staged = (depth > 0).then(|| {
            let scalar = elem(self.form.scalar());
            [(0, "rows"), (1, "columns")].map(|(side, name)| k.shared(name, scalar, self.form.staged(side)))
        });
        if let (Some(places), true) = (staged, self.form.tile.slots > 0) {
            return self.flowing(of, &none, places);
        }
        let chunk = |start: Val<'k>, end: Val<'k>| match staged {
            None => self.plain(start, end, &none),
            Some(places) => self.shared(start, end, &none, places),
        };
        let begin = self.terms.like(0);
        if let Some(of) = of {
            let start = of * order::CHUNK as i64;
            return chunk(start, (start + order::CHUNK as i64).min(self.terms));
        }
        if !self.form.many {
            return chunk(begin, self.terms);
        }
        let length = order::CHUNK as i64;
        k.for_(begin, self.terms, self.terms.like(length), &none, |start, totals| {
            let sums = chunk(start, (start + length).min(self.terms));
            self.join(start, totals, &sums)
        })
    }

    /// The totals after the chunk that begins with a term.
    fn join(&self, start: Val<'k>, totals: &[Val<'k>], sums: &[Val<'k>]) -> Vec<Val<'k>> {
        let is_first = start.eq(start.like(0));
        let join = |(&total, &sum): (&Val<'k>, &Val<'k>)| is_first.select(sum, self.form.plus(total, sum));
        totals.iter().zip(sums).map(join).collect()
    }

    /// One more term for every sum.
    fn chains(&self, a: &[Val<'k>], b: &[Val<'k>], sums: &[Val<'k>]) -> Vec<Val<'k>> {
        let each = |(i, &sum): (usize, &Val<'k>)| self.form.chain(a[i / b.len()], b[i % b.len()], sum);
        sums.iter().enumerate().map(each).collect()
    }

    /// The terms `start..end` from device memory.
    fn plain(&self, start: Val<'k>, end: Val<'k>, none: &[Val<'k>]) -> Vec<Val<'k>> {
        let k = self.k;
        // Rows and columns past the last one are the last one.
        let rows: Vec<Val> = self.places(0).iter().map(|i| i.min(self.m - 1)).collect();
        let columns: Vec<Val> = self.places(1).iter().map(|j| j.min(self.n - 1)).collect();
        k.for_(start, end, start.like(1), none, |t, sums| {
            let a: Vec<Val> = rows.iter().map(|&i| self.load(&self.x, i, t)).collect();
            let b: Vec<Val> = columns.iter().map(|&j| self.load(&self.w, t, j)).collect();
            self.chains(&a, &b, sums)
        })
    }

    fn load(&self, from: &Matrix<'k>, i: Val<'k>, j: Val<'k>) -> Val<'k> {
        self.k.load(from.place, from.at(i, j), 1).to(self.form.scalar())
    }
}
