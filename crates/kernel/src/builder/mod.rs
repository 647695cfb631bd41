//! Writing kernels in Rust.
//!
//! ```
//! use elinvar_kernel::builder::Builder;
//! use elinvar_kernel::ir::{Access, Elem, Scalar};
//!
//! let k = Builder::new("square", [64, 1, 1]);
//! let x = k.buffer("x", Elem::F32, Access::Read);
//! let y = k.buffer("y", Elem::F32, Access::Write);
//! let n = k.param("n", Scalar::U32);
//! let i = k.global_id(0);
//! k.if_(i.lt(n), || {
//!     let v = k.load(x, i, 1);
//!     k.store(y, i, v * v);
//! });
//! let kernel = k.finish();
//! assert_eq!(kernel.buffers.len(), 2);
//! ```
//!
//! A mistake in the types of operands is a mistake of the program that builds the kernel: it panics
//! with the kernel's name and what was seen.

mod subgroup;
mod val;

pub use val::Val;

use crate::arith;
use crate::ir::{
    Access, Atomic, Buffer, Builtin, Constant, Elem, FragmentLayout, Inst, Kernel, Op, Param, Place, Region,
    Scalar, Shared, TensorView, TmaTile, Type, Value,
};
use std::cell::RefCell;

/// A kernel that is being written.
#[derive(Debug)]
pub struct Builder {
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    kernel: Kernel,
    /// The regions that are open, the innermost last; the kernel's body is the first.
    open: Vec<Region>,
}

impl Builder {
    /// A kernel with workgroups of this size.
    pub fn new(name: &str, group: [u32; 3]) -> Builder {
        let kernel = Kernel {
            name: name.to_string(),
            group,
            subgroup: None,
            min_blocks_per_sm: None,
            buffers: Vec::new(),
            params: Vec::new(),
            views: Vec::new(),
            shared: Vec::new(),
            mbarriers: 0,
            values: Vec::new(),
            body: Region::default(),
        };
        Builder { state: RefCell::new(State { kernel, open: vec![Region::default()] }) }
    }
    /// The kernel.
    pub fn finish(self) -> Kernel {
        let State { mut kernel, mut open } = self.state.into_inner();
        kernel.body = open.pop().expect("the body is open");
        assert!(open.is_empty(), "{}: a region is still open", kernel.name);
        crate::pass::renumber(&mut kernel);
        kernel
    }
    /// Says that subgroups have this many lanes.
    pub fn subgroup(&self, lanes: u32) {
        self.state.borrow_mut().kernel.subgroup = Some(lanes);
    }
    /// Says that so many workgroups should have room on a multiprocessor at a time.
    pub fn min_blocks_per_sm(&self, workgroups: u32) {
        self.state.borrow_mut().kernel.min_blocks_per_sm = Some(workgroups);
    }

    // What the kernel is given

    /// A buffer.
    pub fn buffer(&self, name: &str, elem: Elem, access: Access) -> Place {
        let buffers = &mut self.state.borrow_mut().kernel.buffers;
        buffers.push(Buffer { name: name.to_string(), elem, access });
        Place::Buffer(buffers.len() as u32 - 1)
    }
    /// A parameter.
    pub fn param(&self, name: &str, scalar: Scalar) -> Val<'_> {
        let number = {
            let params = &mut self.state.borrow_mut().kernel.params;
            params.push(Param { name: name.to_string(), scalar });
            params.len() as u32 - 1
        };
        self.push(Op::Param(number), scalar.into())
    }
    /// Shared memory.
    pub fn shared(&self, name: &str, elem: Elem, len: u32) -> Place {
        let shared = &mut self.state.borrow_mut().kernel.shared;
        shared.push(Shared { name: name.to_string(), elem, len });
        Place::Shared(shared.len() as u32 - 1)
    }

    /// A buffer as a tensor of which TMA tiles of so many lines are fetched: where its first
    /// element is, its sizes and strides, all of them parameters. Gives its number.
    ///
    /// # Panics
    /// If one of the numbers is no parameter.
    pub fn view(
        &self,
        name: &str,
        buffer: Place,
        lines: u32,
        offset: Val<'_>,
        sizes: [Val<'_>; 3],
        strides: [Val<'_>; 2],
    ) -> u32 {
        let number = |v: Val<'_>| {
            let state = self.state.borrow();
            let mut all = state.open.iter().flat_map(|r| &r.insts);
            let found = all.find_map(|inst| match inst.op {
                Op::Param(i) if inst.results == [v.id] => Some(i),
                _ => None,
            });
            found.unwrap_or_else(|| panic!("{}: a number of {name} is no parameter", state.kernel.name))
        };
        let Place::Buffer(buffer) = buffer else { panic!("{}: {name} is of a buffer", self.name()) };
        let (offset, sizes, strides) = (number(offset), sizes.map(number), strides.map(number));
        let views = &mut self.state.borrow_mut().kernel.views;
        views.push(TensorView { name: name.to_string(), buffer, lines, offset, sizes, strides });
        views.len() as u32 - 1
    }
    /// So many mbarriers.
    pub fn mbarriers(&self, count: u32) {
        self.state.borrow_mut().kernel.mbarriers = count;
    }

    // Numbers

    /// A number.
    #[inline(never)]
    pub fn constant(&self, c: Constant) -> Val<'_> {
        self.push(Op::Const(c), c.scalar.into())
    }
    /// A whole number of any scalar type.
    #[inline(never)]
    pub fn int(&self, s: Scalar, v: i64) -> Val<'_> {
        self.constant(Constant::int(s, v))
    }
    /// A u32.
    #[inline(never)]
    pub fn u32(&self, v: u32) -> Val<'_> {
        self.constant(v.into())
    }
    /// The nearest number of a float type.
    #[inline(never)]
    pub fn float(&self, s: Scalar, v: f64) -> Val<'_> {
        self.constant(Constant::float(s, v))
    }
    /// What an invocation knows about itself.
    #[inline(never)]
    pub fn builtin(&self, b: Builtin) -> Val<'_> {
        self.push(Op::Builtin(b), Type::U32)
    }
    /// Which workgroup.
    pub fn group_id(&self, axis: u8) -> Val<'_> {
        self.builtin(Builtin::GroupId(axis))
    }
    /// Which invocation of its workgroup.
    pub fn local_id(&self, axis: u8) -> Val<'_> {
        self.builtin(Builtin::LocalId(axis))
    }
    /// Which invocation of all, along an axis.
    pub fn global_id(&self, axis: u8) -> Val<'_> {
        let size = self.state.borrow().kernel.group[usize::from(axis)];
        self.group_id(axis) * self.u32(size) + self.local_id(axis)
    }
    /// A vector of scalars.
    #[inline(never)]
    pub fn compose(&self, all: &[Val<'_>]) -> Val<'_> {
        let s = self.scalar(all[0].id);
        self.push(Op::Compose(all.iter().map(|v| v.id).collect()), Type::Vector(s, all.len() as u8))
    }

    /// One scalar as it is, several as a vector.
    pub fn join<'k>(&'k self, all: &[Val<'k>]) -> Val<'k> {
        if let [one] = all { *one } else { self.compose(all) }
    }

    // Memory

    /// What a place holds.
    pub fn elem(&self, p: Place) -> Elem {
        let k = &self.state.borrow().kernel;
        match p {
            Place::Buffer(i) => k.buffers[i as usize].elem,
            Place::Shared(i) => k.shared[i as usize].elem,
        }
    }
    /// Elements at an index: one, or a vector of 2 or 4.
    #[inline(never)]
    pub fn load(&self, p: Place, index: Val<'_>, width: u8) -> Val<'_> {
        self.push(Op::Load(p, index.id, width), Type::Vector(self.elem(p).scalar(), width))
    }
    /// Stores a value at an index.
    #[inline(never)]
    pub fn store(&self, p: Place, index: Val<'_>, v: Val<'_>) {
        self.push_none(Op::Store(p, index.id, v.id));
    }
    /// Changes an integer in memory as if alone; gives what was there.
    #[inline(never)]
    pub fn atomic(&self, op: Atomic, p: Place, index: Val<'_>, v: Val<'_>) -> Val<'_> {
        self.push(Op::Atomic(op, p, index.id, v.id), self.elem(p).scalar().into())
    }
    /// Waits for the workgroup.
    pub fn barrier(&self) {
        self.push_none(Op::Barrier);
    }
    /// Begins to copy so many elements of a buffer to shared memory; zeros where the condition is
    /// false.
    pub fn cp_async(
        &self,
        (to, at): (Place, Val<'_>),
        (from, index): (Place, Val<'_>),
        count: u8,
        there: Val<'_>,
    ) {
        self.push_none(Op::CpAsync { to, at: at.id, from, index: index.id, count, there: there.id });
    }
    /// Makes a group of the copies that were begun.
    pub fn cp_async_commit(&self) {
        self.push_none(Op::CpAsyncCommit);
    }
    /// Waits until at most so many of the last groups are under way.
    pub fn cp_async_wait(&self, open: u8) {
        self.push_none(Op::CpAsyncWait(open));
    }

    // TMA tiles

    /// Begins to bring TMA tiles to shared memory, under a mbarrier.
    pub fn tma_load(&self, mbarrier: Val<'_>, tiles: Vec<TmaTile>) {
        self.push_none(Op::TmaLoad { mbarrier: mbarrier.id, tiles });
    }
    /// A TMA tile of a view, for [`Builder::tma_load`].
    pub fn tma_tile(&self, to: Place, at: Val<'_>, view: u32, from: [Val<'_>; 3]) -> TmaTile {
        TmaTile { to, at: at.id, view, from: from.map(|v| v.id) }
    }
    /// Waits until a phase of a mbarrier is over.
    pub fn mbarrier_wait(&self, mbarrier: Val<'_>, phase: Val<'_>) {
        self.push_none(Op::MbarrierWait(mbarrier.id, phase.id));
    }
    /// Begins c + a * b of blocks in shared memory.
    pub fn wgmma_ss<'k>(
        &'k self,
        (a_lies, a, a_at): (FragmentLayout, Place, Val<'k>),
        (b_lies, b, b_at): (FragmentLayout, Place, Val<'k>),
        sums: &[Val<'k>],
    ) -> Vec<Val<'k>> {
        let sums: Vec<Value> = sums.iter().map(|v| v.id).collect();
        let types = self.types(&sums);
        self.push_many(Op::WgmmaSs { a: (a_lies, a, a_at.id), b: (b_lies, b, b_at.id), sums }, &types)
    }
    /// The same with rows in fragments, four for the terms of a block; see [`Op::WgmmaRs`].
    ///
    /// # Panics
    /// If there are not four.
    pub fn wgmma_rs<'k>(
        &'k self,
        a: &[Val<'k>],
        (b_lies, b, b_at): (FragmentLayout, Place, Val<'k>),
        sums: &[Val<'k>],
    ) -> Vec<Val<'k>> {
        let a: [Val<'k>; 4] = a.try_into().expect("a block has four fragments of terms");
        let sums: Vec<Value> = sums.iter().map(|v| v.id).collect();
        let types = self.types(&sums);
        self.push_many(Op::WgmmaRs { a: a.map(|v| v.id), b: (b_lies, b, b_at.id), sums }, &types)
    }
    /// Waits until at most so many of the last products are under way.
    pub fn wgmma_wait(&self, open: u8) {
        self.push_none(Op::WgmmaWait(open));
    }

    // Subgroups and fragments
}

impl Builder {
    /// Does something where a condition is true.
    pub fn if_(&self, cond: Val<'_>, then: impl FnOnce()) {
        self.open(Vec::new());
        then();
        self.branched(cond, self.close(Vec::new()), Region::default());
    }
    /// Does one of two things.
    pub fn if_or(&self, cond: Val<'_>, then: impl FnOnce(), other: impl FnOnce()) {
        self.open(Vec::new());
        then();
        let then = self.close(Vec::new());
        self.open(Vec::new());
        other();
        self.branched(cond, then, self.close(Vec::new()));
    }
    /// The values of one of two regions.
    pub fn if_else<'k>(
        &'k self,
        cond: Val<'_>,
        then: impl FnOnce() -> Vec<Val<'k>>,
        other: impl FnOnce() -> Vec<Val<'k>>,
    ) -> Vec<Val<'k>> {
        let then = self.region(Vec::new(), |_| then());
        let other = self.region(Vec::new(), |_| other());
        self.branched(cond, then, other)
    }
    fn branched(&self, cond: Val<'_>, then: Region, other: Region) -> Vec<Val<'_>> {
        let types = self.types(&then.yields);
        self.push_many(Op::If(cond.id, then, other), &types)
    }
    /// A counted loop: the body gets the index and what is carried, and gives what the next turn
    /// gets.
    pub fn for_<'k>(
        &'k self,
        start: Val<'k>,
        end: Val<'k>,
        step: Val<'k>,
        init: &[Val<'k>],
        body: impl FnOnce(Val<'k>, &[Val<'k>]) -> Vec<Val<'k>>,
    ) -> Vec<Val<'k>> {
        let args = self.turn(start, init);
        let body = self.close(body(args[0], &args[1..]));
        self.looped([start, end, step], init, body)
    }
    /// Opens the body of a loop: the index, and what is carried.
    fn turn<'k>(&'k self, start: Val<'k>, init: &[Val<'k>]) -> Vec<Val<'k>> {
        self.open(std::iter::once(start).chain(init.iter().copied()).map(|v| v.ty()).collect())
    }
    fn looped<'k>(
        &'k self,
        [start, end, step]: [Val<'k>; 3],
        init: &[Val<'k>],
        body: Region,
    ) -> Vec<Val<'k>> {
        let init: Vec<Value> = init.iter().map(|v| v.id).collect();
        assert_eq!(body.yields.len(), init.len(), "{}: a turn yields as much as it carries", self.name());
        let types = self.types(&init);
        self.push_many(Op::For { start: start.id, end: end.id, step: step.id, init, body }, &types)
    }
    /// A counted loop that carries nothing.
    pub fn each<'k>(&'k self, start: Val<'k>, end: Val<'k>, step: Val<'k>, body: impl FnOnce(Val<'k>)) {
        let args = self.turn(start, &[]);
        body(args[0]);
        self.looped([start, end, step], &[], self.close(Vec::new()));
    }

    // Below: making instructions

    fn name(&self) -> String {
        self.state.borrow().kernel.name.clone()
    }
    fn ty(&self, v: Value) -> Type {
        self.state.borrow().kernel.values[v.0 as usize]
    }
    fn types(&self, all: &[Value]) -> Vec<Type> {
        all.iter().map(|&v| self.ty(v)).collect()
    }
    #[inline(never)]
    fn scalar(&self, v: Value) -> Scalar {
        let t = self.ty(v);
        t.scalar().unwrap_or_else(|| panic!("{}: arithmetic on a {t}", self.name()))
    }
    #[inline(never)]
    fn define(&self, ty: Type) -> Value {
        let values = &mut self.state.borrow_mut().kernel.values;
        values.push(ty);
        Value(values.len() as u32 - 1)
    }
    fn handle(&self, id: Value) -> Val<'_> {
        Val { k: self, id }
    }
    #[inline(never)]
    pub(crate) fn push(&self, op: Op, ty: Type) -> Val<'_> {
        let id = self.define(ty);
        self.append(Inst { op, results: vec![id] });
        self.handle(id)
    }
    #[inline(never)]
    fn push_none(&self, op: Op) {
        self.append(Inst { op, results: Vec::new() });
    }
    #[inline(never)]
    fn push_many(&self, op: Op, types: &[Type]) -> Vec<Val<'_>> {
        let results: Vec<Value> = types.iter().map(|&t| self.define(t)).collect();
        self.append(Inst { op, results: results.clone() });
        results.into_iter().map(|id| self.handle(id)).collect()
    }
    #[inline(never)]
    fn append(&self, inst: Inst) {
        self.state.borrow_mut().open.last_mut().expect("a region is open").insts.push(inst);
    }
    // Regions are written by hundreds of closures, each of which compiles what it goes through: so
    // what goes before one and after it stands apart, here and in `turn` and `looped`.
    fn region<'k>(&'k self, args: Vec<Type>, f: impl FnOnce(&[Val<'k>]) -> Vec<Val<'k>>) -> Region {
        let handles = self.open(args);
        self.close(f(&handles))
    }
    fn open(&self, args: Vec<Type>) -> Vec<Val<'_>> {
        let args: Vec<Value> = args.into_iter().map(|t| self.define(t)).collect();
        let handles = args.iter().map(|&id| self.handle(id)).collect();
        self.state.borrow_mut().open.push(Region { args, ..Region::default() });
        handles
    }
    fn close(&self, yields: Vec<Val<'_>>) -> Region {
        let mut region = self.state.borrow_mut().open.pop().expect("a region was opened");
        region.yields = yields.iter().map(|v| v.id).collect();
        region
    }
    #[inline(never)]
    pub(crate) fn unary(&self, op: crate::ir::Unary, a: Val<'_>) -> Val<'_> {
        let (t, s) = (a.ty(), self.scalar(a.id));
        assert!(arith::unary(op, s).is_some(), "{}: {op:?} of a {t}", self.name());
        self.push(Op::Unary(op, a.id), t)
    }
    /// Two operands of one type; a scalar is repeated for a vector.
    fn pair<'k>(&'k self, what: &dyn std::fmt::Debug, a: Val<'k>, b: Val<'k>) -> (Val<'k>, Val<'k>) {
        let (a, b) = (self.widen(a, b.ty()), self.widen(b, a.ty()));
        assert_eq!(a.ty(), b.ty(), "{}: the operands of {what:?} have different types", self.name());
        (a, b)
    }
    /// A scalar as a vector of a type's width.
    pub(crate) fn widen<'k>(&'k self, v: Val<'k>, to: Type) -> Val<'k> {
        match (v.ty(), to) {
            (Type::Vector(s, 1), Type::Vector(_, w)) if w > 1 => {
                self.push(Op::Splat(w, v.id), Type::Vector(s, w))
            }
            (Type::Vector(..) | Type::Fragment(_), _) => v,
        }
    }
    #[inline(never)]
    pub(crate) fn binary<'k>(&'k self, op: crate::ir::Binary, a: Val<'k>, b: Val<'k>) -> Val<'k> {
        let (a, b) = self.pair(&op, a, b);
        let (t, s) = (a.ty(), self.scalar(a.id));
        assert!(arith::binary(op, s).is_some(), "{}: {op:?} of a {t}", self.name());
        self.push(Op::Binary(op, a.id, b.id), t)
    }
    #[inline(never)]
    pub(crate) fn compare<'k>(&'k self, op: crate::ir::Compare, a: Val<'k>, b: Val<'k>) -> Val<'k> {
        let (a, b) = self.pair(&op, a, b);
        self.push(Op::Compare(op, a.id, b.id), a.ty().of(Scalar::Bool))
    }
    #[inline(never)]
    pub(crate) fn select<'k>(&'k self, c: Val<'k>, a: Val<'k>, b: Val<'k>) -> Val<'k> {
        let (a, b) = self.pair(&"select", self.widen(a, c.ty()), b);
        let c = self.widen(c, a.ty());
        self.push(Op::Select(c.id, a.id, b.id), a.ty())
    }
    #[inline(never)]
    pub(crate) fn fma<'k>(&'k self, a: Val<'k>, b: Val<'k>, c: Val<'k>) -> Val<'k> {
        let (a, b) = self.pair(&"fma", a, b);
        let (a, c) = self.pair(&"fma", a, c);
        let b = self.widen(b, a.ty());
        self.push(Op::Fma(a.id, b.id, c.id), a.ty())
    }
}
