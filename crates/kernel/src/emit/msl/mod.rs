//! The MSL emitter, for Metal: text of the Metal Shading Language, version 3.0 or later.
//!
//! The kernel is verified, optimised and lowered first; what is left maps to statements of C++, in
//! files of the same names as those of other targets. An instruction is a constant, what branches
//! yield and loops carry is a variable.
//!
//! **What Metal has**: 64-bit integers, memory of bytes and of 16 bits, a fused `fma`,
//! SIMD-groups, threadgroup memory, `simdgroup_matrix`. **What it lacks**: f64 (kernels that
//! compute with it are refused), which lane has which number of a matrix, TMA.
//!
//! **What it promises** (Metal Shading Language Specification, "Numerical Compliance", with fast
//! math off): sums, products, `fma`, quotients and square roots correctly rounded, infinities and
//! NaN; but subnormal f32 may be flushed, and Apple's GPUs do flush them, and rounding may be
//! towards zero. So [`MslTarget`] says what was found, and the rest is built as functions of the
//! module, as for WGSL (`emit/wgsl/helper.rs`). The text forbids contraction itself, which
//! compilers otherwise do with fast math off, too; a driver compiles it with the math mode "safe"
//! and precise functions.
//!
//! **Bindings**: buffer `i` of the kernel is `[[buffer(i)]]`; the parameters are a struct behind
//! them, number `buffers.len()`, whose bytes [`param_bytes`] makes. Threadgroup memory is declared
//! in the kernel. The function is [`ENTRY`].

mod arith;
mod control;
mod convert;
mod fragment;
mod functions;
mod memory;
mod subgroup;
mod target;

use super::wgsl::helper::Helper;
use crate::ir::{Builtin, Constant, Kernel, Op, Region, Scalar, Type, Value};
use crate::pass::{self, Unsupported};
use functions::Function;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
pub use target::MslTarget;

/// The name of the kernel function.
pub const ENTRY: &str = "entry";

/// The struct of a launch's parameters: each at a multiple of its size, then a word that must be 0.
pub fn param_bytes(params: &[Constant]) -> Vec<u8> {
    let mut all = Vec::new();
    let mut most = 4;
    for p in params {
        let size = (p.scalar.bits() / 8) as usize;
        all.resize(all.len().next_multiple_of(size), 0);
        all.extend(&p.bits.to_le_bytes()[..size]);
        most = most.max(size);
    }
    // The zero that no compiler knows, and the end of the struct.
    all.resize((all.len() + 4).next_multiple_of(most), 0);
    all
}

/// The kernel as it is emitted: optimised, and with what the target lacks built, but for what
/// becomes a function of the module.
///
/// # Errors
/// [`Unsupported`] if the kernel is not valid, or needs what the target lacks and nothing is built
/// from, or exceeds its limits.
pub fn legal(kernel: &Kernel, target: &MslTarget) -> Result<Kernel, Unsupported> {
    crate::verify::verify(kernel).map_err(|e| Unsupported(e.0))?;
    let lacks = |what: &str| Err(Unsupported(format!("{}: Metal has no {what}", kernel.name)));
    let features = kernel.features();
    if features.tma {
        return lacks("TMA and wgmma");
    }
    if features.f64 {
        return lacks("64-bit floats");
    }
    let mut k = kernel.clone();
    pass::optimize(&mut k);
    let lanes = k.subgroup;
    pass::lower(&mut k, target.of(features).legalize(lanes));
    pass::optimize(&mut k);
    // Exchanges through shared memory have barriers, and what they bring is not known to be the
    // same for all: a kernel may have been valid and not be so any more.
    crate::verify::verify(&k).map_err(|e| Unsupported(e.0))?;
    check_limits(&k, target)?;
    Ok(k)
}

fn check_limits(k: &Kernel, target: &MslTarget) -> Result<(), Unsupported> {
    let exceeds = |what: String, most: u32| {
        Err(Unsupported(format!("{}: {what}, and the device has {most} at most", k.name)))
    };
    if k.buffers.len() as u64 > u64::from(target.buffers) {
        return exceeds(format!("{} buffers", k.buffers.len()), target.buffers);
    }
    if k.shared_bytes() > u64::from(target.shared) {
        return exceeds(format!("{} bytes of shared memory", k.shared_bytes()), target.shared);
    }
    if k.invocations() > target.invocations {
        return exceeds(format!("workgroups of {} invocations", k.invocations()), target.invocations);
    }
    Ok(())
}

/// The text of a library with the function [`ENTRY`].
///
/// # Errors
/// As [`legal`], and for fragments that the language has not.
pub fn emit(kernel: &Kernel, target: &MslTarget) -> Result<String, Unsupported> {
    let fast = target.of(kernel.features());
    let unlowered = MslPrinter::new(kernel, &fast);
    unlowered.check_fragments()?;
    let k = legal(kernel, target)?;
    let mut p = MslPrinter::new(&k, &fast);
    p.region(&k.body)?;
    Ok(p.module())
}

/// The name of a type.
fn vector_name(s: Scalar, width: u8) -> String {
    let name = match s {
        Scalar::Bool => "bool",
        Scalar::I32 => "int",
        Scalar::U32 => "uint",
        Scalar::I64 => "long",
        Scalar::U64 => "ulong",
        Scalar::F32 => "float",
        Scalar::F64 => unreachable!("refused"),
    };
    if width == 1 { name.to_string() } else { format!("{name}{width}") }
}

/// The unsigned integer of a width.
fn unsigned(s: Scalar) -> Scalar {
    if s.bits() == 64 { Scalar::U64 } else { Scalar::U32 }
}

/// The letters of a vector's numbers.
const LETTERS: [&str; 4] = ["x", "y", "z", "w"];

struct MslPrinter<'a> {
    k: &'a Kernel,
    target: &'a MslTarget,
    /// Is it a function of a module? Its operations are the target's own.
    is_helper: bool,
    /// What a value is called.
    names: Vec<String>,
    /// The bits of values that are constants.
    constants: Vec<Option<Constant>>,
    /// Functions that are called: built ones, those of fixed text, reductions.
    helpers: BTreeMap<Helper, String>,
    functions: BTreeSet<Function>,
    reductions: BTreeMap<String, String>,
    out: String,
    depth: usize,
}

impl<'a> MslPrinter<'a> {
    fn new(k: &'a Kernel, target: &'a MslTarget) -> Self {
        MslPrinter {
            k,
            target,
            is_helper: false,
            names: vec![String::new(); k.values.len()],
            constants: vec![None; k.values.len()],
            helpers: BTreeMap::new(),
            functions: BTreeSet::new(),
            reductions: BTreeMap::new(),
            out: String::new(),
            depth: 1,
        }
    }

    fn module(self) -> String {
        let k = self.k;
        let mut all = "#include <metal_stdlib>\nusing namespace metal;\n".to_string();
        // What fast math off leaves on.
        all += "#pragma METAL fp contract(off)\n";
        let _ = writeln!(all, "// {}", k.name);
        self.functions.iter().for_each(|f| all += f.text());
        self.helpers.values().chain(self.reductions.values()).for_each(|text| all += text);
        all += &self.params();
        let _ = writeln!(
            all,
            "[[max_total_threads_per_threadgroup({})]]\nkernel void {ENTRY}(\n{}  \
             uint3 group_id [[threadgroup_position_in_grid]],\n  \
             uint3 group_count [[threadgroups_per_grid]],\n  \
             uint3 local_id [[thread_position_in_threadgroup]],\n  \
             uint local_index [[thread_index_in_threadgroup]]) {{\n{}{}}}",
            k.invocations(),
            self.buffers(),
            self.shared(),
            self.out
        );
        all
    }

    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{}{text}", "  ".repeat(self.depth));
    }
    fn name(&self, v: Value) -> &str {
        &self.names[v.0 as usize]
    }
    fn call(&mut self, v: Value, name: String) {
        self.names[v.0 as usize] = name;
    }
    /// Gives a value its name and what it is.
    fn define(&mut self, v: Value, text: &str) {
        let name = format!("v{}", v.0);
        self.line(&format!("const {} {name} = {text};", self.ty(v)));
        self.call(v, name);
    }
    /// The names of the variables that a value is: one, or the matrices of a fragment.
    fn parts(&self, v: Value) -> Vec<String> {
        let name = self.name(v);
        match self.k.ty(v) {
            Type::Vector(..) => vec![name.to_string()],
            Type::Fragment(f) => (0..fragment::count(f)).map(|i| format!("{name}_{i}")).collect(),
        }
    }
    /// The type of each of them.
    fn ty(&self, v: Value) -> String {
        match self.k.ty(v) {
            Type::Vector(s, w) => vector_name(s, w),
            Type::Fragment(f) => fragment::type_name(f),
        }
    }
    fn scalar(&self, v: Value) -> Scalar {
        self.k.ty(v).scalar().expect("no operation on numbers has fragments")
    }
    fn width(&self, v: Value) -> u8 {
        self.k.ty(v).width()
    }
    /// A number of a vector, or the one number that there is.
    fn element(&self, v: Value, i: u8) -> String {
        match self.width(v) {
            1 => self.name(v).to_string(),
            _ => format!("{}.{}", self.name(v), LETTERS[usize::from(i)]),
        }
    }

    /// A vector of what `f` gives for each number, or that one number.
    fn each(&self, s: Scalar, width: u8, f: impl Fn(u8) -> String) -> String {
        if width == 1 {
            return f(0);
        }
        let all: Vec<String> = (0..width).map(f).collect();
        format!("{}({})", vector_name(s, width), all.join(", "))
    }

    /// A function of fixed text is used.
    fn calls(&mut self, f: Function) {
        self.functions.insert(f);
        self.functions.extend(f.calls());
    }
    /// The call of a function, number by number.
    fn helper(&mut self, helper: Helper, operands: &[Value]) -> Result<String, Unsupported> {
        if !self.helpers.contains_key(&helper) {
            self.helpers.insert(helper, function(helper, self.target)?);
        }
        let a = operands[0];
        Ok(self.each(self.scalar(a), self.width(a), |i| {
            let mut all: Vec<String> = operands.iter().map(|&v| self.element(v, i)).collect();
            if self.target.contracts {
                all.push("params.zero".to_string());
            }
            format!("{}({})", helper.name(), all.join(", "))
        }))
    }
    /// Is an operation built as a function, and is this not the function itself?
    fn builds(&self, helper: Helper) -> bool {
        !self.is_helper && self.target.builds(helper)
    }

    fn region(&mut self, r: &Region) -> Result<(), Unsupported> {
        for inst in &r.insts {
            self.op(&inst.op, &inst.results)?;
        }
        Ok(())
    }

    fn op(&mut self, op: &Op, results: &[Value]) -> Result<(), Unsupported> {
        let text = match op {
            Op::Const(c) => {
                self.constants[results[0].0 as usize] = Some(*c);
                self.constant(*c)
            }
            Op::Param(i) => {
                let name = if self.is_helper { format!("x{i}") } else { format!("params.p{i}") };
                self.call(results[0], name);
                return Ok(());
            }
            Op::Builtin(b) => {
                self.call(results[0], builtin(*b));
                return Ok(());
            }
            Op::Unary(op, a) => self.unary(*op, *a)?,
            Op::Binary(op, a, b) => self.binary(*op, *a, *b)?,
            Op::Compare(op, a, b) => self.compare(*op, *a, *b),
            Op::Fma(a, b, c) => self.fma(*a, *b, *c)?,
            Op::Select(c, a, b) => self.select(*c, *a, *b),
            Op::Convert(to, a) => self.convert(*to, *a),
            Op::FpToSi(a) => self.convert(Scalar::I32, *a),
            Op::Bitcast(to, a) => self.bitcast(*to, *a),
            Op::Splat(w, a) => {
                self.constants[results[0].0 as usize] = self.constants[a.0 as usize];
                format!("{}({})", vector_name(self.scalar(*a), *w), self.name(*a))
            }
            Op::Compose(all) => {
                self.each(self.scalar(all[0]), all.len() as u8, |i| self.name(all[usize::from(i)]).into())
            }
            Op::Extract(a, i) => self.element(*a, *i),
            Op::Load(p, at, w) => self.load(*p, *at, *w),
            Op::Atomic(op, p, at, v) => self.atomic(*op, *p, *at, *v),
            Op::Shuffle(v, lane) => self.shuffle(*v, *lane),
            Op::Broadcast(v, lane) => self.broadcast(*v, *lane),
            Op::Reduce(op, v) => self.reduce(*op, *v),
            _ => return self.statement(op, results),
        };
        self.define(results[0], &text);
        Ok(())
    }

    /// What is more than an expression.
    fn statement(&mut self, op: &Op, results: &[Value]) -> Result<(), Unsupported> {
        match op {
            Op::Store(_, _, v) if self.is_helper => {
                self.line(&format!("return {};", self.names[v.0 as usize]));
            }
            Op::Store(p, at, v) => self.store(*p, *at, *v),
            Op::Barrier => self.barrier(),
            Op::If(c, then, other) => self.branch(*c, [then, other], results)?,
            Op::For { start, end, step, init, body } => {
                self.repeat([*start, *end, *step], init, body, results)?;
            }
            Op::FragmentLoad(_, l, p, at, stride) => self.fragment_load(results[0], *l, *p, [*at, *stride]),
            Op::FragmentFill(_, v) => self.fragment_fill(results[0], *v),
            Op::FragmentMulAdd(a, b, c) => self.fragment_mul_add(results[0], [*a, *b, *c]),
            Op::FragmentStore(l, p, at, stride, v) => self.fragment_store(*l, *p, [*at, *stride], *v),
            Op::FragmentExtract(..) | Op::FragmentCompose(..) => unreachable!("refused: which lane has what"),
            Op::CpAsync { .. } | Op::CpAsyncCommit | Op::CpAsyncWait(_) => {
                unreachable!("copies are lowered before")
            }
            Op::TmaLoad { .. }
            | Op::MbarrierWait(..)
            | Op::WgmmaSs { .. }
            | Op::WgmmaRs { .. }
            | Op::WgmmaWait(_) => unreachable!("kernels with TMA and wgmma are refused"),
            Op::Const(_)
            | Op::Param(_)
            | Op::Builtin(_)
            | Op::Unary(..)
            | Op::Binary(..)
            | Op::Compare(..)
            | Op::Fma(..)
            | Op::Select(..)
            | Op::Convert(..)
            | Op::FpToSi(_)
            | Op::Bitcast(..)
            | Op::Splat(..)
            | Op::Compose(_)
            | Op::Extract(..)
            | Op::Load(..)
            | Op::Atomic(..)
            | Op::Shuffle(..)
            | Op::Broadcast(..)
            | Op::Reduce(..) => unreachable!("an expression"),
        }
        Ok(())
    }
}

/// The function that stands for an operation.
fn function(helper: Helper, target: &MslTarget) -> Result<String, Unsupported> {
    let mut k = helper.kernel();
    pass::lower(&mut k, target.legalize_helper());
    pass::optimize(&mut k);
    let mut p = MslPrinter::new(&k, target);
    p.is_helper = true;
    p.region(&k.body)?;
    assert!(p.functions.is_empty() && p.helpers.is_empty(), "{}: it calls no other one", helper.name());
    let ty = vector_name(helper.types().1, 1);
    let mut params: Vec<String> = (0..helper.operands()).map(|i| format!("{ty} x{i}")).collect();
    if target.contracts {
        params.push("uint zero".to_string());
    }
    Ok(format!("static inline {ty} {}({}) {{\n{}}}\n", helper.name(), params.join(", "), p.out))
}

/// What an invocation knows of itself.
fn builtin(b: Builtin) -> String {
    let axis = |name: &str, a: u8| format!("{name}.{}", LETTERS[usize::from(a)]);
    match b {
        Builtin::GroupId(a) => axis("group_id", a),
        Builtin::GroupCount(a) => axis("group_count", a),
        Builtin::LocalId(a) => axis("local_id", a),
        Builtin::LocalIndex => "local_index".to_string(),
        Builtin::SubgroupLane | Builtin::SubgroupId => unreachable!("computed from the local index"),
    }
}
