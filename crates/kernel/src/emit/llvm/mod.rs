//! The LLVM IR emitter, for AMD's compiler library (comgr) to compile.
//!
//! The kernel is verified, optimised and lowered first; what is left maps to LLVM IR instruction by
//! instruction, in files of the same names as those of other targets. The text is read by LLVM 15
//! and all later ones: opaque pointers, no attribute and no word that came after. (Fragments of
//! RDNA 4 are for LLVM 18 and later, which know it.)
//!
//! What the IR promises, LLVM keeps where it is not told otherwise: no instruction carries a flag,
//! so products and sums are not contracted (clang's `-ffp-contract` is for languages, not for
//! texts), subnormals are kept by `denormal-fp-math`, nothing is poison.
//!
//! A value is an operand for each of its numbers (a fragment is one vector). Parameters of the
//! kernel `main`, each at the next multiple of its size: the address of each buffer, in the
//! kernel's order, the kernel's parameters, and how many workgroups there are along each axis
//! ([`kernarg`]).

mod arith;
mod control;
mod convert;
mod fragment;
mod memory;
mod subgroup;
mod target;

use super::index_analysis::IndexAnalysis;
use crate::ir::{Access, Builtin, Fragment, Kernel, Op, Region, Scalar, Type, Value};
use crate::pass::{self, Legalize, Unsupported};
use std::collections::BTreeMap;
use std::fmt::Write;
pub use target::{Arch, GROUP_LIMIT, LDS_BYTES, MatrixUnits, WaveTarget, target};

/// The triple of all targets.
pub const TRIPLE: &str = "amdgcn-amd-amdhsa";

/// What no kernel needs of its launch, so that nothing is prepared for it. (Attributes that a
/// compiler does not know are not looked at.)
const NEEDS_NOTHING: [&str; 10] = [
    "completion-action",
    "default-queue",
    "dispatch-id",
    "dispatch-ptr",
    "heap-ptr",
    "hostcall-ptr",
    "implicitarg-ptr",
    "lds-kernel-id",
    "multigrid-sync-arg",
    "queue-ptr",
];

/// Where the parameters of a kernel are in its block, in bytes: buffers, parameters, and the three
/// counts of workgroups; and how long it is.
pub fn kernarg(kernel: &Kernel) -> (Vec<usize>, usize) {
    let sizes = (std::iter::repeat_n(8, kernel.buffers.len()))
        .chain(kernel.params.iter().map(|p| p.scalar.bits() as usize / 8))
        .chain([4; 3]);
    let mut end = 0usize;
    let places = sizes.map(|size| {
        let at = end.next_multiple_of(size);
        end = at + size;
        at
    });
    (places.collect(), end)
}

/// The kernel as it is emitted: optimised, and with what the target lacks built.
///
/// # Errors
/// [`Unsupported`] if the kernel is not valid, or needs what no AMD device has.
pub fn legal(kernel: &Kernel) -> Result<Kernel, Unsupported> {
    crate::verify::verify(kernel).map_err(|e| Unsupported(e.0))?;
    if kernel.features().tma {
        return Err(Unsupported(format!("{}: AMD has no TMA and wgmma", kernel.name)));
    }
    let mut k = kernel.clone();
    pass::optimize(&mut k);
    let legalize = Legalize {
        division: true,
        shifts: true,
        extremes: true,
        wide_extremes: true,
        saturation: true,
        root: true,
        wide_root: true,
        reductions: true,
        wide: true,
        cp_async: true,
        ..Legalize::default()
    };
    pass::lower(&mut k, legalize);
    pass::optimize(&mut k);
    Ok(k)
}

/// The text of a module with the kernel `main`.
///
/// # Errors
/// [`Unsupported`] if the kernel is not valid, or needs what the target lacks or this emitter has
/// not.
pub fn emit(kernel: &Kernel, target: WaveTarget) -> Result<String, Unsupported> {
    let k = legal(kernel)?;
    let mut e = Assembler {
        k: &k,
        target,
        indices: IndexAnalysis::of(&k),
        body: String::new(),
        values: vec![Vec::new(); k.values.len()],
        names: 0,
        labels: 0,
        block: "entry".to_string(),
        declared: BTreeMap::new(),
    };
    e.check()?;
    e.region(&k.body)?;
    Ok(e.module())
}

/// The type of a scalar; integers have no sign.
fn ty(s: Scalar) -> &'static str {
    match s {
        Scalar::Bool => "i1",
        Scalar::I32 | Scalar::U32 => "i32",
        Scalar::I64 | Scalar::U64 => "i64",
        Scalar::F32 => "float",
        Scalar::F64 => "double",
    }
}

/// A name or a constant, as it is written where it is used.
type Operand = String;

struct Assembler<'a> {
    k: &'a Kernel,
    target: WaveTarget,
    /// What indices are made of.
    indices: IndexAnalysis<'a>,
    body: String,
    /// The operands of a value.
    values: Vec<Vec<Operand>>,
    names: u32,
    labels: u32,
    /// The block that is being written.
    block: String,
    /// Functions of LLVM that are called, with their declarations.
    declared: BTreeMap<String, String>,
}

impl Assembler<'_> {
    fn unsupported<T>(&self, what: &str) -> Result<T, Unsupported> {
        Err(Unsupported(format!("{}: {what}", self.k.name)))
    }

    /// What a device refuses, said before.
    fn check(&self) -> Result<(), Unsupported> {
        let (needs, WaveTarget { arch, wave }) = (self.k.features(), self.target);
        if !arch.waves().contains(&wave) {
            return self.unsupported(&format!("{} has no waves of {wave} lanes", arch.name()));
        }
        if let Some(lanes) = self.k.subgroup.filter(|&lanes| lanes > wave) {
            return self.unsupported(&format!("subgroups of {lanes} lanes; a wave has {wave}"));
        }
        if needs.shared > LDS_BYTES {
            let bytes = needs.shared;
            return self
                .unsupported(&format!("{bytes} bytes of shared memory; a workgroup has {LDS_BYTES} of LDS"));
        }
        if needs.invocations > GROUP_LIMIT {
            return self
                .unsupported(&format!("{} invocations; a workgroup has {GROUP_LIMIT}", needs.invocations));
        }
        Ok(())
    }

    fn module(self) -> String {
        let (k, WaveTarget { arch, wave }) = (self.k, self.target);
        let mut all =
            format!("; {} for {}, waves of {wave}\ntarget triple = \"{TRIPLE}\"\n\n", k.name, arch.name());
        for (i, s) in k.shared.iter().enumerate() {
            let t = memory::elem_type(s.elem);
            let _ = writeln!(all, "@s{i} = internal addrspace(3) global [{} x {t}] undef, align 16", s.len);
        }
        for declaration in self.declared.values() {
            let _ = writeln!(all, "{declaration}");
        }
        let buffers = k.buffers.iter().enumerate().map(|(i, b)| {
            let access = match b.access {
                Access::Read => " readonly",
                Access::Write | Access::ReadWrite => "",
            };
            format!("ptr addrspace(1) noalias{access} %b{i}")
        });
        let params = k.params.iter().enumerate().map(|(i, p)| format!("{} %p{i}", ty(p.scalar)));
        let counts = (0..3).map(|axis| format!("i32 %g{axis}"));
        let list: Vec<String> = buffers.chain(params).chain(counts).collect();
        let _ = writeln!(
            all,
            "\ndefine amdgpu_kernel void @main(\n  {}\n) #0 !reqd_work_group_size !1 {{\nentry:\n{}  ret void\n}}\n",
            list.join(",\n  "),
            self.body
        );
        let threads = k.invocations();
        let mut words = format!(
            "nounwind \"amdgpu-flat-work-group-size\"=\"{threads},{threads}\" \
             \"denormal-fp-math\"=\"ieee,ieee\" \"denormal-fp-math-f32\"=\"ieee,ieee\" \
             \"uniform-work-group-size\"=\"true\""
        );
        if wave != arch.waves()[0] {
            let _ = write!(words, " \"target-features\"=\"+wavefrontsize{wave}\"");
        }
        for what in NEEDS_NOTHING {
            let _ = write!(words, " \"amdgpu-no-{what}\"");
        }
        let [x, y, z] = k.group;
        let _ = writeln!(all, "attributes #0 = {{ {words} }}");
        let _ = writeln!(all, "!0 = !{{}}\n!1 = !{{i32 {x}, i32 {y}, i32 {z}}}");
        all
    }

    fn line(&mut self, text: &str) {
        let _ = writeln!(self.body, "  {text}");
    }
    fn label(&mut self) -> String {
        self.labels += 1;
        format!("L{}", self.labels)
    }
    /// Begins a block.
    fn begin(&mut self, label: &str) {
        let _ = writeln!(self.body, "{label}:");
        self.block = label.to_string();
    }
    fn fresh(&mut self, count: usize) -> Vec<Operand> {
        (0..count)
            .map(|_| {
                self.names += 1;
                format!("%v{}", self.names)
            })
            .collect()
    }
    /// An instruction with a result.
    fn inst(&mut self, text: &str) -> Operand {
        self.names += 1;
        let _ = writeln!(self.body, "  %v{} = {text}", self.names);
        format!("%v{}", self.names)
    }
    /// A call of one of LLVM's functions: types (with `immarg` where only constants may stand) and
    /// operands.
    fn call(&mut self, name: &str, result: &str, operands: &[(&str, &str)]) -> Operand {
        let types: Vec<&str> = operands.iter().map(|(t, _)| *t).collect();
        let declaration = || format!("declare {result} @{name}({})", types.join(", "));
        self.declared.entry(name.to_string()).or_insert_with(declaration);
        let list: Vec<String> =
            operands.iter().map(|(t, v)| format!("{} {v}", t.trim_end_matches(" immarg"))).collect();
        self.inst(&format!("call {result} @{name}({})", list.join(", ")))
    }
    fn call_void(&mut self, name: &str) {
        self.declared.entry(name.to_string()).or_insert_with(|| format!("declare void @{name}()"));
        self.line(&format!("call void @{name}()"));
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
    /// The type of a value's operands.
    fn part_type(&self, v: Value) -> String {
        match self.k.ty(v) {
            Type::Vector(s, _) => ty(s).to_string(),
            Type::Fragment(f) => self.fragment_type(f),
        }
    }
    fn all(&self, v: Value) -> Vec<Operand> {
        self.values[v.0 as usize].clone()
    }
    /// The operand of a value that is one number, or a fragment.
    fn one(&self, v: Value) -> Operand {
        self.values[v.0 as usize][0].clone()
    }
    /// Lanes of a subgroup.
    fn subgroup(&self) -> u32 {
        self.k.subgroup.expect("the verifier has seen to it")
    }

    fn region(&mut self, r: &Region) -> Result<(), Unsupported> {
        r.insts.iter().try_for_each(|inst| self.op(&inst.op, &inst.results))
    }

    /// One instruction for each number of the operands.
    fn each<const N: usize>(
        &mut self,
        operands: [Value; N],
        mut f: impl FnMut(&mut Self, [&str; N]) -> Operand,
    ) -> Vec<Operand> {
        let all = operands.map(|v| self.all(v));
        (0..all[0].len()).map(|i| f(self, std::array::from_fn(|j| all[j][i].as_str()))).collect()
    }

    fn op(&mut self, op: &Op, results: &[Value]) -> Result<(), Unsupported> {
        let made = match op {
            Op::Const(c) => vec![Self::constant(*c)],
            Op::Param(i) => vec![format!("%p{i}")],
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
                self.each([*a, *b, *c], |e, all| e.fma(s, all))
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
                self.each([*a], |e, [a]| e.float_to_int(s, a))
            }
            Op::Bitcast(to, a) => {
                let s = self.scalar(*a);
                self.each([*a], |e, [a]| e.bitcast(*to, s, a))
            }
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
                self.barrier();
                Vec::new()
            }
            Op::CpAsync { .. } | Op::CpAsyncCommit | Op::CpAsyncWait(_) => {
                unreachable!("copies are lowered before")
            }
            Op::Shuffle(v, lane) => {
                let (s, lane) = (self.scalar(*v), self.one(*lane));
                self.all(*v).iter().map(|v| self.shuffle(s, v, &lane)).collect::<Result<_, _>>()?
            }
            Op::Broadcast(v, lane) => {
                let s = self.scalar(*v);
                self.each([*v], |e, [v]| e.broadcast(s, v, *lane))
            }
            Op::Reduce(op, v) => {
                let s = self.scalar(*v);
                self.each([*v], |e, [v]| e.reduce(*op, s, v))
            }
            Op::FragmentLoad(f, order, p, at, stride) => {
                vec![self.fragment_load(*f, *order, *p, [*at, *stride])?]
            }
            Op::FragmentFill(f, v) => vec![self.fragment_fill(*f, *v)?],
            Op::FragmentMulAdd(a, b, c) => vec![self.fragment_mul_add(*a, *b, *c)],
            Op::FragmentExtract(..) | Op::FragmentCompose(..) => {
                return self.unsupported(
                    "lanes hold the numbers of a fragment otherwise than kernels for warps of 32 count on",
                );
            }
            Op::FragmentStore(order, p, at, stride, v) => {
                self.fragment_store(*order, *p, [*at, *stride], *v);
                Vec::new()
            }
            Op::TmaLoad { .. }
            | Op::MbarrierWait(..)
            | Op::WgmmaSs { .. }
            | Op::WgmmaRs { .. }
            | Op::WgmmaWait(_) => unreachable!("refused before"),
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

    fn builtin(&mut self, b: Builtin) -> Operand {
        match b {
            Builtin::GroupId(a) => self.id("workgroup", a),
            Builtin::GroupCount(a) => format!("%g{a}"),
            Builtin::LocalId(a) => self.local_id(a),
            Builtin::LocalIndex => self.local_index(),
            Builtin::SubgroupLane => {
                let (i, mask) = (self.local_index(), self.subgroup() - 1);
                self.inst(&format!("and i32 {i}, {mask}"))
            }
            Builtin::SubgroupId => {
                let (i, places) = (self.local_index(), self.subgroup().ilog2());
                self.inst(&format!("lshr i32 {i}, {places}"))
            }
        }
    }
    fn id(&mut self, of: &str, axis: u8) -> Operand {
        let axis = ["x", "y", "z"][usize::from(axis)];
        self.call(&format!("llvm.amdgcn.{of}.id.{axis}"), "i32", &[])
    }
    fn local_id(&mut self, axis: u8) -> Operand {
        match self.k.group[usize::from(axis)] {
            1 => "0".to_string(),
            _ => self.id("workitem", axis),
        }
    }
    /// x + X (y + Y z): lanes of a wave are neighbours in this order ("HSA Platform System
    /// Architecture", flattened work-item ids).
    fn local_index(&mut self) -> Operand {
        let [x, y, z] = self.k.group;
        let mut index = self.local_id(0);
        if y > 1 || z > 1 {
            let [ty, tz] = [1, 2].map(|axis| self.local_id(axis));
            let plane = self.inst(&format!("mul i32 {tz}, {y}"));
            let line = self.inst(&format!("add i32 {plane}, {ty}"));
            let before = self.inst(&format!("mul i32 {line}, {x}"));
            index = self.inst(&format!("add i32 {before}, {index}"));
        }
        index
    }
}
