//! The WGSL emitter, for WebGPU: text for naga (wgpu) or for Tint (Dawn, Chromium).
//!
//! The kernel is verified, optimised and lowered first; what is left maps to WGSL statement by
//! statement, in files of the same names as those of other targets. An instruction is a `let`, what
//! branches yield and loops carry is a `var`. No value is a const-expression, not even a constant,
//! so that whatever a compiler folds is folded by the rules of run time: there is no shift,
//! quotient or overflow that it could refuse a module for.
//!
//! **What WGSL has not is lowered** (see `pass::lower`): 64-bit integers are pairs of words, memory
//! is words that f16, bf16, bytes and truth values are packed into, copies are loads and stores,
//! and subgroup operations go through shared memory unless the device has subgroups of the kernel's
//! size. There is no f64 and there are no fragments: kernels that have them are refused.
//!
//! **What WGSL does not promise is built**, as [`Target`] says: a fused multiply-add, correctly
//! rounded quotients and roots, subnormals. These are functions of the module
//! (`helper`).
//! Implementations may assume that no number is NaN or infinite, so nothing here asks a float:
//! comparisons, minima, magnitudes and conversions to integers work on bits, and constants that are
//! not finite, or subnormal, are bits whose value no compiler knows, because a word of the
//! parameters that is always 0 was added to them.
//!
//! **Bindings**, all of group 0: buffer `i` of the kernel is binding `i`, a storage buffer; the
//! parameters are a uniform buffer behind them, at binding number `buffers.len()`. It is a sequence
//! of words of 4 bytes: each parameter one, or two if it has 64 bits, the low word first; then one
//! that must be 0 ([`param_words`]). Uniform, because the storage buffers of a stage are few (8, if
//! more is not asked for), and because what is read from it is known to be the same for all
//! invocations, which barriers depend on. The entry point is `main`.

mod arith;
mod control;
mod convert;
pub(super) mod helper;
mod memory;
mod subgroup;
mod target;

use crate::ir::{Builtin, Constant, Elem, Kernel, Op, Region, Scalar, Type, Value};
use crate::pass::{self, Unsupported};
use helper::Helper;
use std::collections::BTreeMap;
use std::fmt::Write;
pub use target::{Dialect, Fma, Target};

/// The uniform buffer of a launch: words of 4 bytes.
pub fn param_words(params: &[Constant]) -> Vec<u32> {
    let words = params.iter().flat_map(|p| {
        let both = [p.bits as u32, (p.bits >> 32) as u32];
        both.into_iter().take(if p.scalar.bits() == 64 { 2 } else { 1 })
    });
    // The zero that no compiler knows.
    words.chain([0]).collect()
}

/// The kernel as it is emitted: optimised, and with what the target lacks built, but for what
/// becomes a function of the module.
///
/// # Errors
/// [`Unsupported`] if the kernel is not valid, or needs what the target lacks and nothing is built
/// from, or exceeds its limits.
pub fn legal(kernel: &Kernel, target: &Target) -> Result<Kernel, Unsupported> {
    crate::verify::verify(kernel).map_err(|e| Unsupported(e.0))?;
    let lacks = |what: &str| Err(Unsupported(format!("{}: WGSL has no {what}", kernel.name)));
    let features = kernel.features();
    if features.tma {
        return lacks("TMA and wgmma");
    }
    if features.fragments {
        return lacks("matrix fragments");
    }
    if features.f64 {
        return lacks("64-bit floats");
    }
    let mut k = kernel.clone();
    pass::optimize(&mut k);
    let lanes = k.subgroup;
    pass::lower(&mut k, target.legalize(lanes));
    pass::optimize(&mut k);
    // Exchanges through shared memory have barriers, and what they bring is not known to be the
    // same for all: a kernel may have been valid and not be so any more.
    crate::verify::verify(&k).map_err(|e| Unsupported(e.0))?;
    check_limits(&k, target)?;
    Ok(k)
}

fn check_limits(k: &Kernel, target: &Target) -> Result<(), Unsupported> {
    let exceeds = |what: String, most: String| {
        Err(Unsupported(format!("{}: {what}, and the device has {most} at most", k.name)))
    };
    let buffers = k.buffers.len() as u32;
    if buffers > target.buffers {
        return exceeds(format!("{buffers} storage buffers"), target.buffers.to_string());
    }
    if k.shared_bytes() > u64::from(target.shared) {
        return exceeds(format!("{} bytes of shared memory", k.shared_bytes()), target.shared.to_string());
    }
    if k.invocations() > target.invocations {
        let most = target.invocations.to_string();
        return exceeds(format!("workgroups of {} invocations", k.invocations()), most);
    }
    if k.group.iter().zip(&target.group).any(|(n, most)| n > most) {
        let [x, y, z] = k.group;
        let [a, b, c] = target.group;
        return exceeds(format!("workgroups of {x} x {y} x {z}"), format!("{a} x {b} x {c}"));
    }
    Ok(())
}

/// The text of a module with the entry point `main`.
///
/// # Errors
/// As [`legal`].
pub fn emit(kernel: &Kernel, target: &Target) -> Result<String, Unsupported> {
    let k = legal(kernel, target)?;
    let mut e = Printer::new(&k, target);
    e.region(&k.body)?;
    e.module()
}

/// The name of a type.
fn scalar_name(s: Scalar) -> &'static str {
    match s {
        Scalar::Bool => "bool",
        Scalar::I32 => "i32",
        Scalar::U32 => "u32",
        Scalar::F32 => "f32",
        Scalar::I64 | Scalar::U64 | Scalar::F64 => unreachable!("lowered or refused"),
    }
}

/// The name of a vector type.
fn vector_name(s: Scalar, width: u8) -> String {
    match width {
        1 => scalar_name(s).to_string(),
        w => format!("vec{w}<{}>", scalar_name(s)),
    }
}

/// The letters of a vector's numbers.
const LETTERS: [&str; 4] = ["x", "y", "z", "w"];

struct Printer<'a> {
    k: &'a Kernel,
    target: &'a Target,
    /// Is it a function of a module? Its operations are the target's own.
    is_helper: bool,
    /// What a value is called.
    names: Vec<String>,
    /// The bits of values that are constants.
    constants: Vec<Option<Constant>>,
    /// Functions that are called.
    helpers: BTreeMap<Helper, String>,
    /// Which memory has atomics: buffers, then shared memory.
    atomic: [Vec<bool>; 2],
    out: String,
    depth: usize,
}

impl<'a> Printer<'a> {
    fn new(k: &'a Kernel, target: &'a Target) -> Self {
        Printer {
            k,
            target,
            is_helper: false,
            names: vec![String::new(); k.values.len()],
            constants: vec![None; k.values.len()],
            helpers: BTreeMap::new(),
            atomic: memory::places_with_atomics(k),
            out: String::new(),
            depth: 1,
        }
    }

    fn module(self) -> Result<String, Unsupported> {
        let mut all = String::new();
        if self.k.subgroup.is_some() && self.target.dialect == Dialect::Tint {
            // That all lanes come to them is what the verifier has seen.
            all += "enable subgroups;\ndiagnostic(off, subgroup_uniformity);\n";
        }
        let _ = writeln!(all, "// {}", self.k.name);
        all += &self.memory();
        self.helpers.values().for_each(|text| all += text);
        let [x, y, z] = self.k.group;
        let _ = writeln!(
            all,
            "@compute @workgroup_size({x}, {y}, {z})\nfn main(\n  \
             @builtin(workgroup_id) group_id: vec3<u32>,\n  \
             @builtin(num_workgroups) group_count: vec3<u32>,\n  \
             @builtin(local_invocation_id) local_id: vec3<u32>,\n  \
             @builtin(local_invocation_index) local_index: u32,\n) {{\n{}}}",
            self.out
        );
        Ok(all)
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
        self.line(&format!("let {name} = {text};"));
        self.call(v, name);
    }
    fn ty(&self, v: Value) -> String {
        match self.k.ty(v) {
            Type::Vector(s, w) => vector_name(s, w),
            Type::Fragment(_) => unreachable!("kernels with fragments are refused"),
        }
    }
    fn scalar(&self, v: Value) -> Scalar {
        self.k.ty(v).scalar().expect("kernels with fragments are refused")
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

    /// The call of a function, number by number.
    fn helper(&mut self, helper: Helper, operands: &[Value]) -> Result<String, Unsupported> {
        if !self.helpers.contains_key(&helper) {
            self.helpers.insert(helper, function(helper, self.target)?);
        }
        let a = operands[0];
        Ok(self.each(self.scalar(a), self.width(a), |i| {
            let all: Vec<String> = operands.iter().map(|&v| self.element(v, i)).collect();
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
            Op::Store(_, _, v) if self.is_helper => {
                self.line(&format!("return {};", self.names[v.0 as usize]));
                return Ok(());
            }
            Op::Store(p, at, v) => {
                self.store(*p, *at, *v);
                return Ok(());
            }
            Op::Atomic(op, p, at, v) => self.atomic(*op, *p, *at, *v),
            Op::Barrier => {
                self.barrier();
                return Ok(());
            }
            Op::Shuffle(v, lane) => self.shuffle(*v, *lane),
            Op::Broadcast(v, lane) => self.broadcast(*v, *lane),
            Op::Reduce(op, v) => self.reduce(*op, *v),
            Op::If(c, then, other) => return self.branch(*c, [then, other], results),
            Op::For { start, end, step, init, body } => {
                return self.repeat([*start, *end, *step], init, body, results);
            }
            Op::CpAsync { .. } | Op::CpAsyncCommit | Op::CpAsyncWait(_) => {
                unreachable!("copies are lowered before")
            }
            Op::FragmentLoad(..)
            | Op::FragmentFill(..)
            | Op::FragmentMulAdd(..)
            | Op::FragmentExtract(..)
            | Op::FragmentCompose(..)
            | Op::FragmentStore(..)
            | Op::TmaLoad { .. }
            | Op::MbarrierWait(..)
            | Op::WgmmaSs { .. }
            | Op::WgmmaRs { .. }
            | Op::WgmmaWait(_) => unreachable!("kernels with fragments are refused"),
        };
        self.define(results[0], &text);
        Ok(())
    }
}

/// The function that stands for an operation.
fn function(helper: Helper, target: &Target) -> Result<String, Unsupported> {
    let mut k = helper.kernel();
    pass::lower(&mut k, target.legalize_helper());
    pass::optimize(&mut k);
    let mut e = Printer::new(&k, target);
    e.is_helper = true;
    e.region(&k.body)?;
    let ty = scalar_name(helper.types().1);
    let params: Vec<String> = (0..helper.operands()).map(|i| format!("x{i}: {ty}")).collect();
    Ok(format!("fn {}({}) -> {ty} {{\n{}}}\n", helper.name(), params.join(", "), e.out))
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

/// The name of what a place of memory holds.
fn elem_name(e: Elem) -> &'static str {
    match e {
        Elem::I32 | Elem::U32 | Elem::F32 => scalar_name(e.scalar()),
        Elem::Bool | Elem::U8 | Elem::F8(_) | Elem::F16 | Elem::BF16 | Elem::I64 | Elem::U64 | Elem::F64 => {
            unreachable!("lowered or refused")
        }
    }
}
