//! `y[b, m, n] = epilogue(sum over k of x[b, m, k] * w[b, k, n])` by a device's matrix units: `Precision::Fast`.
//!
//! Factors are f16 or bf16; their products are exact, and are added in f32. A workgroup brings `depth` terms of its rows and
//! columns into shared memory; each of its subgroups multiplies fragments of them, and keeps its sums in fragments. How a unit
//! adds is the device's business; the order around it is fixed: terms go through the units from the first to the last, a
//! whole fragment at a time, and the sums of a row know nothing of other rows. What reaches beyond m, n or k is zeros.
//!
//! In the end each subgroup hands its fragments one by one through shared memory, where its invocations find the elements
//! that the epilogue is for.

use super::contract::stage::{self, Stage};
use super::contract::{Matrix, numbers_of};
use super::formula::{Compute, Formula};
use super::index;
use super::numbers::{self, Numbers};
use super::{Key, Work, grid, group_number};
use crate::build::{Builder, Val};
use crate::ir::{Access, Builtin, Constant, Elem, Kernel, Layout as Order, MatrixUnit, Place, Role, Scalar};
use elinvar_core::{DType, Layout};

/// How y is cut into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// What the device multiplies.
    pub unit: MatrixUnit,
    /// Invocations of a subgroup.
    pub lanes: u32,
    /// Subgroups of a workgroup along m and n.
    pub subgroups: [u32; 2],
    /// Fragments of a subgroup along m and n.
    pub each: [u32; 2],
    /// Terms that are brought into shared memory at a time: a multiple of the unit's.
    pub depth: u32,
}

impl Tile {
    /// A tile for a product of m by n sums, if the device has room for it.
    pub fn of(unit: MatrixUnit, lanes: u32, sums: [usize; 2], invocations: u32, shared: u32) -> Option<Tile> {
        let depth = 2 * u32::from(unit.shape[2]).max(8);
        let tile = |subgroups, each| Tile { unit, lanes, subgroups, each, depth };
        // The largest whose rows and columns are not mostly beyond the ends of y.
        let all = [tile([2, 2], [4, 4]), tile([2, 2], [2, 2]), tile([1, 4], [1, 1]), tile([1, 1], [1, 1])];
        let fits = |t: &Tile| {
            t.invocations() <= invocations
                && t.shared_bytes() <= shared
                && (0..2).all(|side| t.size(side) as usize <= sums[side].next_multiple_of(32))
        };
        all.into_iter().find(fits).or_else(|| {
            let least = all[3];
            (least.invocations() <= invocations && least.shared_bytes() <= shared).then_some(least)
        })
    }

    /// Rows (side 0) or columns (side 1) of a workgroup.
    fn size(self, side: usize) -> u32 {
        self.subgroups[side] * self.each[side] * u32::from(self.unit.shape[side])
    }
    fn invocations(self) -> u32 {
        self.subgroups[0] * self.subgroups[1] * self.lanes
    }
    /// From row to row of what is staged: rows an odd number of 16 bytes apart lie in different banks.
    fn pitch(self, inner: u32) -> u32 {
        inner + 8
    }
    /// Elements of a fragment of sums.
    fn sums(self) -> u32 {
        u32::from(self.unit.shape[0]) * u32::from(self.unit.shape[1])
    }
    fn shared_bytes(self) -> u32 {
        // Whichever way the rows lie, this is enough.
        let staged = |side| (self.size(side) + 8) * (self.depth + 8) * 2;
        staged(0) + staged(1) + self.subgroups[0] * self.subgroups[1] * self.sums() * 4
    }
}

/// What a kernel is built for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Form {
    /// f16 or bf16: the dtype of x, w and y.
    pub dtype: DType,
    /// What further operands hold.
    pub extra: Vec<Elem>,
    /// How y is cut into pieces.
    pub tile: Tile,
    /// Do neighbouring terms lie side by side in x, and in w? They are read along.
    pub along: [bool; 2],
    /// Elements of x, and of w, that are read at once, in that direction.
    pub width: [u8; 2],
    /// Are there positions beyond 2^30?
    pub wide: bool,
}

/// The work of a contraction: x, w, further operands of the epilogue, then the result. `None` if y has no elements.
pub fn contract<'a>(
    epilogue: &'a dyn Formula,
    dtype: DType,
    x: &Layout,
    w: &Layout,
    extra: &[(&Layout, DType)],
    tile: Tile,
) -> Option<Work<'a>> {
    let (b, m, n) = (x.shape()[0], x.shape()[1], w.shape()[2]);
    if b * m * n == 0 {
        return None;
    }
    let along = [x.strides()[2] == 1, w.strides()[1] == 1];
    let form = Form {
        dtype,
        extra: extra.iter().map(|(_, d)| Elem::from(*d)).collect(),
        tile,
        along,
        width: [
            index::vector(x, if along[0] { 2 } else { 1 }),
            index::vector(w, if along[1] { 1 } else { 2 }),
        ],
        wide: [x, w].into_iter().chain(extra.iter().map(|(l, _)| *l)).any(index::is_wide)
            || index::are_many(b * m * n),
    };
    let (all, tiles) = numbers_of(x, w, extra, [tile.size(0), tile.size(1)]);
    let groups = grid(tiles as u64);
    let (key, scalar) = (epilogue.key(Key::of("matrix units").with(&form)), index::scalar(form.wide));
    Some(numbers::work(key, move || build(epilogue, &form), groups, scalar, &all))
}

impl Form {
    fn name(&self, epilogue: &dyn Formula) -> String {
        let Tile { unit: MatrixUnit { shape: [m, n, k], .. }, lanes, subgroups: [a, b], each: [c, d], depth } =
            self.tile;
        let along: String = self.along.iter().map(|&a| if a { "k" } else { "x" }).collect();
        let extra: String = self.extra.iter().map(|e| format!("_{e}")).collect();
        let [vx, vw] = self.width;
        let wide = if self.wide { "_wide" } else { "" };
        let name = epilogue.name();
        format!(
            "units_{name}_{}{extra}_{m}x{n}x{k}_{lanes}of{a}x{b}of{c}x{d}d{depth}_{along}_w{vx}{vw}{wide}",
            self.dtype
        )
    }
}

/// What all parts of a kernel know.
struct Plan<'k, 'f> {
    k: &'k Builder,
    form: &'f Form,
    /// Sizes of the result, by side, and how many terms.
    sizes: [Val<'k>; 2],
    terms: Val<'k>,
    /// x and w.
    factors: [Matrix<'k>; 2],
    /// Where the terms of rows and columns are staged.
    staged: [Place; 2],
    /// The first row and column of the workgroup.
    corner: [Val<'k>; 2],
    /// Which invocation.
    index: Val<'k>,
}

/// The kernel of a form.
pub fn build(epilogue: &dyn Formula, form: &Form) -> Kernel {
    let t = form.tile;
    let k = Builder::new(&form.name(epilogue), [t.invocations(), 1, 1]);
    k.subgroup(t.lanes);
    let elem = Elem::from(form.dtype);
    let places = ["x", "w"].map(|name| k.buffer(name, elem, Access::Read));
    let extras: Vec<Place> =
        (form.extra.iter().enumerate()).map(|(i, &e)| k.buffer(&format!("e{i}"), e, Access::Read)).collect();
    let y = k.buffer("y", elem, Access::Write);
    let number = index::scalar(form.wide);
    let numbers = Numbers::new(&k, number, 6 + 4 * (2 + extras.len()));
    let [batches, m, n, terms, tiles_m, tiles_n] =
        ["b", "m", "n", "k", "tiles_m", "tiles_n"].map(|name| numbers.get(name));
    let group = group_number(&k, number);
    let in_batch = tiles_m * tiles_n;
    // A grid that is cut into rows has a few workgroups too many: they go along, and store nothing.
    let asked = group / in_batch;
    let (batch, exists) = (asked.min(batches - 1), asked.lt(batches));
    let tile = group % in_batch;
    let corner = [tile / tiles_n * i64::from(t.size(0)), tile % tiles_n * i64::from(t.size(1))];
    let factors =
        [("x", places[0]), ("w", places[1])].map(|(name, p)| Matrix::read(&numbers, name, p, batch));
    let extra: Vec<Matrix> = (extras.iter().enumerate())
        .map(|(i, &p)| Matrix::read(&numbers, &format!("e{i}"), p, batch))
        .collect();
    let staged = [0, 1].map(|side| {
        let (lines, inner) = form.staged(side);
        k.shared(["rows", "columns"][side], elem, lines * t.pitch(inner))
    });
    let index = k.builtin(Builtin::LocalIndex);
    let p = Plan { k: &k, form, sizes: [m, n], terms, factors, staged, corner, index };

    let sums = p.sums();
    // Each subgroup has room for one fragment.
    let out = k.shared("sums", Elem::F32, t.subgroups[0] * t.subgroups[1] * t.sums());
    let [_, columns] = t.unit.shape.map(i64::from)[..2] else { unreachable!("three sizes") };
    let lane = k.builtin(Builtin::SubgroupLane);
    let mine = k.builtin(Builtin::SubgroupId) * i64::from(t.sums());
    let firsts = p.firsts();
    let c = Compute::from(form.dtype);
    for (f, &sum) in sums.iter().enumerate() {
        let at = [f as i64 / i64::from(t.each[1]), f as i64 % i64::from(t.each[1])];
        k.barrier();
        k.fragment_store(Order::Rows, out, mine, k.u32(columns as u32), sum);
        k.barrier();
        for round in 0..t.sums().div_ceil(t.lanes) {
            let e = lane + i64::from(round * t.lanes);
            let cell = [e / columns, e % columns];
            let [i, j] = [0, 1].map(|side| {
                let within = firsts[side] + at[side] * i64::from(t.unit.shape[side]) + cell[side];
                corner[side] + within.to(number)
            });
            let mut there = i.lt(m) & j.lt(n) & exists;
            if (round + 1) * t.lanes > t.sums() {
                there = there & e.lt(k.u32(t.sums()));
            }
            k.if_(there, || {
                let mut given = vec![k.load(out, mine + e, 1)];
                given.extend(extra.iter().map(|e| c.enter(k.load(e.place, e.at(i, j), 1))));
                k.store(y, (batch * m + i) * n + j, epilogue.emit(&k, c, &given));
            });
        }
    }
    k.finish()
}

impl Form {
    /// What is staged of a side: how many lines, and how long each is.
    fn staged(&self, side: usize) -> (u32, u32) {
        let (size, depth) = (self.tile.size(side), self.tile.depth);
        if self.along[side] { (size, depth) } else { (depth, size) }
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

    /// The sums of a subgroup: fragments, row by row.
    fn sums(&self) -> Vec<Val<'k>> {
        let (k, t) = (self.k, self.form.tile);
        let none = k.fragment_fill(t.unit.fragment(Role::C), k.constant(Constant::float(Scalar::F32, 0.0)));
        let none = vec![none; (t.each[0] * t.each[1]) as usize];
        let firsts = self.firsts();
        let stages = [0, 1].map(|side| Stage {
            k,
            side,
            index: self.index,
            invocations: t.invocations(),
            size: t.size(side),
            depth: t.depth,
            along: self.form.along[side],
            width: self.form.width[side],
            from: self.factors[side],
            corner: self.corner[side],
            limit: self.sizes[side],
            padding: Constant::float(Scalar::F32, 0.0),
        });
        // As it lies in memory.
        let bring = |side: usize, loaded: &[Val<'k>]| {
            let pitch = i64::from(t.pitch(self.form.staged(side).1));
            stages[side].store(loaded, &|place, term, v| {
                let at = if self.form.along[side] { place * pitch + term } else { term * pitch + place };
                k.store(self.staged[side], at, v);
            });
        };
        stage::steps(&stages, [self.terms.like(0), self.terms], &none, &bring, &|sums| {
            let mut sums = sums.to_vec();
            for part in 0..t.depth / u32::from(t.unit.shape[2]) {
                let at = part * u32::from(t.unit.shape[2]);
                let [a, b] = [(0, Role::A), (1, Role::B)].map(|(side, role)| -> Vec<Val<'k>> {
                    (0..t.each[side]).map(|u| self.fragment(side, role, firsts[side], u, at)).collect()
                });
                for (f, sum) in sums.iter_mut().enumerate() {
                    *sum = k.fragment_mul_add(a[f / b.len()], b[f % b.len()], *sum);
                }
            }
            sums
        })
    }

    /// Fragment `u` of a side, from term `at` of what is staged.
    fn fragment(&self, side: usize, role: Role, first: Val<'k>, u: u32, at: u32) -> Val<'k> {
        let (k, t) = (self.k, self.form.tile);
        let pitch = i64::from(t.pitch(self.form.staged(side).1));
        let place = first + i64::from(u * u32::from(t.unit.shape[side]));
        let along = self.form.along[side];
        let begin = if along { place * pitch + i64::from(at) } else { place + i64::from(at) * pitch };
        // Rows of x run over terms, and rows of w over columns.
        let order = if along == (role == Role::A) { Order::Rows } else { Order::Columns };
        k.fragment_load(t.unit.fragment(role), order, self.staged[side], begin, k.u32(pitch as u32))
    }
}
