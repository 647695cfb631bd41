//! The PTX emitter, for NVIDIA's driver to compile.
//!
//! The kernel is verified, optimised and lowered first; what is left maps to PTX instruction by
//! instruction, in files of the same names as those of other targets. Every rounding is written out
//! (`.rn`) and nothing flushes (`.ftz`), so the compiler neither contracts nor reorders: products
//! and sums without `.rn` would become fma. Additions, products, quotients, roots and fma of both
//! float types are correctly rounded by the instructions themselves.
//!
//! A value is a register for each of its elements, so vectors, and taking them apart, cost nothing.
//! Registers may be written twice, so what branches and loops yield is copied at their ends.
//!
//! Parameters of the entry `main`: a tensor map for each view, the address of each buffer, in the
//! kernel's order, then the kernel's parameters.

mod arith;
mod control;
mod convert;
mod fragment;
mod memory;
mod subgroup;
mod target;
mod tma_wgmma;

use super::index_analysis::IndexAnalysis;
use crate::ir::{Builtin, Fragment, Kernel, Op, Region, Scalar, SharedLayout, Type, Value};
use crate::pass::{self, Legalize, Unsupported};
use std::collections::HashMap;
use std::fmt::Write;
use target::SM80_MINMAX_NAN;
pub use target::{SM75, SM80_CP_ASYNC, SM80_MMA, SM90_F64_MMA, SM90A_WGMMA, Target, target};

/// Bytes of shared memory from which a kernel of so large workgroups is one that computes much on
/// what it has brought there. For such a kernel, NVIDIA's assembler is told that one workgroup at a
/// time on a multiprocessor will do; it would aim at 1024 threads, with 64 registers each, and keep
/// the rest of a tile's sums in memory (seen with ptxas 13.5: 16 bytes of 4 x 4 sums, and none with
/// 80 registers). Kernels of smaller workgroups take the registers that they need without being
/// told, but for those that hold something beside fragments, terms on their way through registers
/// or what they take out of them: it would have some more workgroups at the price of 12 bytes.
const LARGE_SHARED_BYTES: u64 = 4096;
const LARGE_GROUP: u32 = 256;

/// Lanes of a warp.
const WARP_LANES: u32 = 32;

/// Bytes of a tensor map, which the driver makes of a view.
pub const TENSOR_MAP_BYTES: usize = 128;

/// Bytes of shared memory that a text may declare. A workgroup that needs more gets all of it from
/// its launch, which has to be told how much it is ([`dynamic_shared`]).
const MAX_STATIC_SHARED: u64 = 48 << 10;

/// Bytes of shared memory that a launch of a kernel has to ask for beside those that its text
/// declares.
pub fn dynamic_shared(kernel: &Kernel) -> u32 {
    let bytes = kernel.shared_bytes();
    // TMA tiles begin at places of their own.
    let declared = bytes <= MAX_STATIC_SHARED && kernel.mbarriers == 0;
    // The verifier knows a limit far below this type's.
    if declared { 0 } else { u32::try_from(bytes).unwrap_or(u32::MAX) }
}

/// The text of a module with the entry `main`.
///
/// # Errors
/// [`Unsupported`] if the kernel is not valid, or needs what this emitter has not.
pub fn emit(kernel: &Kernel, target: Target) -> Result<String, Unsupported> {
    crate::verify::verify(kernel).map_err(|e| Unsupported(e.0))?;
    let mut k = kernel.clone();
    pass::optimize(&mut k);
    let legalize = Legalize {
        division: true,
        shifts: true,
        extremes: target.capability < SM80_MINMAX_NAN.capability,
        wide_extremes: true,
        // NaN to 64 bits is not 0.
        saturation: true,
        copy_sign: true,
        reductions: true,
        wide: true,
        cp_async: target.capability < SM80_CP_ASYNC.capability,
        ..Legalize::default()
    };
    pass::lower(&mut k, legalize);
    pass::optimize(&mut k);
    if let Some(lanes) = k.subgroup.filter(|&lanes| lanes != WARP_LANES) {
        return Err(Unsupported(format!("{}: subgroups of {lanes} lanes; a warp has {WARP_LANES}", k.name)));
    }
    if k.features().tma && !(target.arch_specific && target.capability == SM90A_WGMMA.capability) {
        return Err(Unsupported(format!(
            "{}: TMA and wgmma are for sm_{}a alone",
            k.name, SM90A_WGMMA.capability
        )));
    }
    if k.features().fragments && target.capability < SM80_MMA.capability {
        return Err(Unsupported(format!(
            "{}: tensor cores are used from sm_{} on",
            k.name, SM80_MMA.capability
        )));
    }
    let mut e = Emitter {
        k: &k,
        places: k.shared_places(),
        dynamic: dynamic_shared(&k) > 0,
        own: vec![false; k.values.len()],
        indices: IndexAnalysis::of(&k),
        rounds_bf16: target.capability >= SM80_MMA.capability,
        has_extremes: target.capability >= SM80_MINMAX_NAN.capability,
        f64_mma: target.capability >= SM90_F64_MMA.capability,
        blank: vec![false; k.values.len()],
        zero: vec![false; k.values.len()],
        body: String::new(),
        registers: [0; 6],
        values: vec![Vec::new(); k.values.len()],
        labels: 0,
        made: HashMap::new(),
        in_sight: Vec::new(),
    };
    let region = &k.body;
    e.init_mbarriers();
    e.region(region)?;
    Ok(e.module(target))
}

/// A class of registers: the letters of its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Predicate,
    Half,
    Word,
    Long,
    Float,
    Double,
}

impl Class {
    const ALL: [Class; 6] =
        [Class::Predicate, Class::Half, Class::Word, Class::Long, Class::Float, Class::Double];

    fn of(s: Scalar) -> Class {
        match s {
            Scalar::Bool => Class::Predicate,
            Scalar::I32 | Scalar::U32 => Class::Word,
            Scalar::I64 | Scalar::U64 => Class::Long,
            Scalar::F32 => Class::Float,
            Scalar::F64 => Class::Double,
        }
    }
    /// The letters of a register, and the type it is declared with.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Class::Predicate => ("%p", "pred"),
            Class::Half => ("%h", "b16"),
            Class::Word => ("%r", "b32"),
            Class::Long => ("%rd", "b64"),
            Class::Float => ("%f", "f32"),
            Class::Double => ("%fd", "f64"),
        }
    }
}

/// The type of an instruction on a scalar.
fn ty(s: Scalar) -> &'static str {
    match s {
        Scalar::Bool => "pred",
        Scalar::I32 => "s32",
        Scalar::U32 => "u32",
        Scalar::I64 => "s64",
        Scalar::U64 => "u64",
        Scalar::F32 => "f32",
        Scalar::F64 => "f64",
    }
}

/// The type of an instruction that does not look at numbers.
fn raw(s: Scalar) -> &'static str {
    match s.bits() {
        1 => "pred",
        32 => "b32",
        _ => "b64",
    }
}

type Register = String;

struct Emitter<'a> {
    k: &'a Kernel,
    /// Where shared memory is, if launches give it.
    places: SharedLayout,
    dynamic: bool,
    /// Which values own their registers: what is changed in place has to.
    own: Vec<bool>,
    /// What indices are made of.
    indices: IndexAnalysis<'a>,
    /// Has the target an instruction that rounds to bf16?
    rounds_bf16: bool,
    /// Has it a smaller and a larger f32?
    has_extremes: bool,
    /// Has it one instruction for fragments of f64?
    f64_mma: bool,
    /// Which values are sums of nothing: products that begin with these need no zeros in registers.
    blank: Vec<bool>,
    /// Which values are the constant 0.
    zero: Vec<bool>,
    body: String,
    /// How many of each class there are.
    registers: [u32; 6],
    /// The registers of a value.
    values: Vec<Vec<Register>>,
    labels: u32,
    /// Instructions whose results are in sight, by their text without the result; and these texts,
    /// the last ones at the end.
    made: HashMap<String, Register>,
    in_sight: Vec<String>,
}

impl Emitter<'_> {
    fn module(self, target: Target) -> String {
        let Target { capability, version: (major, minor), arch_specific } = target;
        let arch_specific = if arch_specific { "a" } else { "" };
        let mut all = format!(
            "// {}\n.version {major}.{minor}\n.target sm_{capability}{arch_specific}\n.address_size 64\n\n",
            self.k.name
        );
        if self.dynamic {
            all += ".extern .shared .align 1024 .b8 dynamic[];\n";
        }
        let maps = (0..self.k.views.len()).map(|i| format!(".param .align 64 .b8 t{i}[{TENSOR_MAP_BYTES}]"));
        let buffers = (0..self.k.buffers.len()).map(|i| format!(".param .u64 b{i}"));
        let params = self.k.params.iter().enumerate().map(|(i, p)| format!(".param .{} p{i}", ty(p.scalar)));
        let list: Vec<String> = maps.chain(buffers).chain(params).collect();
        let [x, y, z] = self.k.group;
        let _ = writeln!(all, ".visible .entry main(\n  {}\n)\n.reqntid {x}, {y}, {z}", list.join(",\n  "));
        let needs = self.k.features();
        let mut takes_out = false;
        self.k.body.each_inst(&mut |inst| takes_out |= matches!(inst.op, Op::FragmentExtract(..)));
        let holds = self.k.invocations() == LARGE_GROUP || takes_out || (needs.fragments && !needs.cp_async);
        let tiled = (self.k.shared_bytes() >= LARGE_SHARED_BYTES && holds).then_some(1);
        if let Some(workgroups) = self.k.min_blocks_per_sm.or(tiled) {
            let _ = writeln!(all, ".minnctapersm {workgroups}");
        }
        all += "{\n";
        for (class, &count) in Class::ALL.iter().zip(&self.registers).filter(|(_, n)| **n > 0) {
            let (name, ty) = class.names();
            let _ = writeln!(all, "  .reg .{ty} {name}<{count}>;");
        }
        for (i, s) in self.k.shared.iter().enumerate().filter(|_| !self.dynamic) {
            let _ = writeln!(all, "  .shared .align 16 .b8 s{i}[{}];", s.elem.size() * s.len);
        }
        all + &self.body + "  ret;\n}\n"
    }

    fn line(&mut self, text: &str) {
        let _ = writeln!(self.body, "  {text};");
    }
    fn place(&mut self, label: &str) {
        let _ = writeln!(self.body, "{label}:");
    }
    fn label(&mut self) -> String {
        self.labels += 1;
        format!("L{}", self.labels)
    }
    fn register(&mut self, c: Class) -> Register {
        let count = &mut self.registers[c as usize];
        *count += 1;
        format!("{}{}", c.names().0, *count - 1)
    }
    fn scalar_register(&mut self, s: Scalar) -> Register {
        self.register(Class::of(s))
    }
    /// An instruction with a new register as its result: `op` has everything up to the operands.
    fn inst(&mut self, s: Scalar, op: &str, operands: &[&str]) -> Register {
        let to = self.scalar_register(s);
        self.line(&format!("{op} {to}, {}", operands.join(", ")));
        to
    }
    fn copy(&mut self, s: Scalar, to: &str, from: &str) {
        self.line(&format!("mov.{} {to}, {from}", ty(s)));
    }
    fn scalar(&self, v: Value) -> Scalar {
        self.k.ty(v).scalar().expect("a fragment is no number")
    }
    fn fragment(&self, v: Value) -> Fragment {
        match self.k.ty(v) {
            Type::Fragment(f) => f,
            Type::Vector(..) => unreachable!("the verifier has seen that it is a fragment"),
        }
    }
    /// The type of a value's registers, and how many there are.
    fn registers_of(&self, v: Value) -> (Scalar, usize) {
        match self.k.ty(v) {
            Type::Vector(s, width) => (s, usize::from(width)),
            Type::Fragment(f) => Self::fragment_registers(f),
        }
    }
    fn all(&self, v: Value) -> Vec<Register> {
        self.values[v.0 as usize].clone()
    }
    /// The register of a value that is one number.
    fn one(&self, v: Value) -> Register {
        self.values[v.0 as usize][0].clone()
    }

    fn region(&mut self, r: &Region) -> Result<(), Unsupported> {
        let before = self.in_sight.len();
        for inst in &r.insts {
            self.op(&inst.op, &inst.results)?;
        }
        self.forget(before);
        Ok(())
    }
    /// The result of an instruction that has it from its operands alone: the one of before, if that
    /// is in sight.
    fn once(&mut self, s: Scalar, op: &str, operands: &[&str]) -> Register {
        let text = format!("{op} {}", operands.join(", "));
        if let Some(known) = self.made.get(&text) {
            return known.clone();
        }
        let made = self.inst(s, op, operands);
        self.in_sight.push(text.clone());
        self.made.insert(text, made.clone());
        made
    }
    /// What was made since so many instructions were in sight is out of it.
    fn forget(&mut self, before: usize) {
        for text in self.in_sight.drain(before..) {
            self.made.remove(&text);
        }
    }

    /// One instruction for each number of the operands.
    fn each<const N: usize>(
        &mut self,
        operands: [Value; N],
        mut f: impl FnMut(&mut Self, [&str; N]) -> Register,
    ) -> Vec<Register> {
        let all = operands.map(|v| self.all(v));
        (0..all[0].len()).map(|i| f(self, std::array::from_fn(|j| all[j][i].as_str()))).collect()
    }

    fn op(&mut self, op: &Op, results: &[Value]) -> Result<(), Unsupported> {
        let made = match op {
            Op::Const(c) => {
                self.zero[results[0].0 as usize] = c.bits == 0;
                vec![self.constant(*c)]
            }
            Op::Param(i) => {
                let s = self.k.params[*i as usize].scalar;
                vec![self.inst(s, &format!("ld.param.{}", ty(s)), &[&format!("[p{i}]")])]
            }
            Op::Builtin(b) => vec![self.builtin(*b)],
            Op::Unary(op, a) => {
                let s = self.scalar(*a);
                self.each([*a], |e, [a]| e.unary(*op, s, a))
            }
            Op::Binary(op, a, b) => {
                let s = self.scalar(*a);
                self.each([*a, *b], |e, [a, b]| e.binary(*op, s, a, b))
            }
            Op::Compare(op, a, b) => {
                let s = self.scalar(*a);
                self.each([*a, *b], |e, [a, b]| e.compare(*op, s, a, b))
            }
            Op::Fma(a, b, c) => {
                let s = self.scalar(*a);
                self.each([*a, *b, *c], |e, [a, b, c]| e.inst(s, &format!("fma.rn.{}", ty(s)), &[a, b, c]))
            }
            Op::Select(c, a, b) => {
                let s = self.scalar(*a);
                self.each([*c, *a, *b], |e, [c, a, b]| e.select(s, c, a, b))
            }
            Op::Convert(to, a) => {
                let s = self.scalar(*a);
                self.each([*a], |e, [a]| e.convert(*to, s, a))
            }
            Op::FpToSi(a) => {
                let s = self.scalar(*a);
                let to = if s == Scalar::F64 { Scalar::I64 } else { Scalar::I32 };
                self.each([*a], |e, [a]| e.inst(to, &format!("cvt.rzi.{}.{}", ty(to), ty(s)), &[a]))
            }
            Op::Bitcast(to, a) => self.each([*a], |e, [a]| e.inst(*to, &format!("mov.{}", raw(*to)), &[a])),
            Op::Splat(w, a) => vec![self.one(*a); usize::from(*w)],
            Op::Compose(all) => all.iter().map(|&v| self.one(v)).collect(),
            Op::Extract(a, i) => vec![self.values[a.0 as usize][usize::from(*i)].clone()],
            Op::Load(p, at, w) => self.load(*p, *at, *w),
            Op::Store(p, at, v) => {
                self.store(*p, *at, *v);
                Vec::new()
            }
            Op::Atomic(op, p, at, v) => vec![self.atomic(*op, *p, *at, *v)],
            Op::Barrier => {
                self.line("bar.sync 0");
                Vec::new()
            }
            Op::CpAsync { to, at, from, index, count, there } => {
                self.begin_cp_async((*to, *at), (*from, *index), *count, *there);
                Vec::new()
            }
            Op::CpAsyncCommit => {
                self.line("cp.async.commit_group");
                Vec::new()
            }
            Op::CpAsyncWait(open) => {
                self.line(&format!("cp.async.wait_group {open}"));
                Vec::new()
            }
            Op::Shuffle(v, lane) => {
                let (s, lane) = (self.scalar(*v), self.one(*lane));
                self.each([*v], |e, [v]| e.shuffle(s, v, &lane))
            }
            Op::Broadcast(v, lane) => {
                let s = self.scalar(*v);
                self.each([*v], |e, [v]| e.shuffle(s, v, &lane.to_string()))
            }
            Op::Reduce(op, v) => {
                let s = self.scalar(*v);
                self.each([*v], |e, [v]| e.reduce(*op, s, v))
            }
            Op::FragmentLoad(f, order, p, at, stride) => self.fragment_load(*f, *order, *p, *at, *stride)?,
            Op::FragmentFill(f, v) => {
                self.blank[results[0].0 as usize] = self.zero[v.0 as usize];
                self.fragment_fill(*f, *v)?
            }
            Op::FragmentMulAdd(a, b, c) => self.fragment_mul_add(*a, *b, *c)?,
            Op::FragmentExtract(v, i) => {
                let first = 4 * usize::from(*i);
                self.values[v.0 as usize][first..first + 4].to_vec()
            }
            Op::FragmentCompose(f, all) => self.fragment_compose(*f, all)?,
            Op::FragmentStore(order, p, at, stride, v) => {
                self.fragment_store(*order, *p, *at, *stride, *v);
                Vec::new()
            }
            Op::TmaLoad { mbarrier, tiles } => {
                self.tma_load(*mbarrier, tiles);
                Vec::new()
            }
            Op::MbarrierWait(mbarrier, phase) => {
                self.mbarrier_wait(*mbarrier, *phase);
                Vec::new()
            }
            Op::WgmmaSs { a, b, sums } => {
                self.wgmma_ss([a, b], sums, results);
                return Ok(());
            }
            Op::WgmmaRs { a, b, sums } => {
                self.wgmma_rs(*a, b, sums, results);
                return Ok(());
            }
            Op::WgmmaWait(open) => {
                self.line(&format!("wgmma.wait_group.sync.aligned {open}"));
                Vec::new()
            }
            Op::If(c, then, other) => return self.branch(*c, then, other, results),
            Op::For { start, end, step, init, body } => {
                return self.repeat([*start, *end, *step], init, body, results);
            }
        };
        if let Some(v) = results.first() {
            self.values[v.0 as usize] = made;
        }
        Ok(())
    }

    fn builtin(&mut self, b: Builtin) -> Register {
        let axis = |a: u8| ["x", "y", "z"][usize::from(a)];
        let mut read = |name: String| self.inst(Scalar::U32, "mov.u32", &[&name]);
        match b {
            Builtin::GroupId(a) => read(format!("%ctaid.{}", axis(a))),
            Builtin::GroupCount(a) => read(format!("%nctaid.{}", axis(a))),
            Builtin::LocalId(a) => read(format!("%tid.{}", axis(a))),
            Builtin::LocalIndex => self.local_index(),
            Builtin::SubgroupLane => {
                let i = self.local_index();
                self.inst(Scalar::U32, "and.b32", &[&i, "31"])
            }
            Builtin::SubgroupId => {
                let i = self.local_index();
                self.inst(Scalar::U32, "shr.u32", &[&i, "5"])
            }
        }
    }
    /// x + X (y + Y z): warps are neighbours in this order.
    fn local_index(&mut self) -> Register {
        let [x, y, _] = self.k.group;
        let [tx, ty, tz] =
            ["x", "y", "z"].map(|a| self.once(Scalar::U32, "mov.u32", &[&format!("%tid.{a}")]));
        let plane = self.once(Scalar::U32, "mad.lo.u32", &[&tz, &y.to_string(), &ty]);
        self.once(Scalar::U32, "mad.lo.u32", &[&plane, &x.to_string(), &tx])
    }
}
