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
//! module, as for WGSL (`emit/statements`). The text forbids contraction itself, which
//! compilers otherwise do with fast math off, too; a driver compiles it with the math mode "safe"
//! and precise functions.
//!
//! **Bindings**: buffer `i` of the kernel is `[[buffer(i)]]`; the parameters are a struct behind
//! them, number `buffers.len()`, whose bytes [`param_bytes`] makes. Threadgroup memory is declared
//! in the kernel. The function is [`ENTRY`].

mod arith;
mod convert;
mod fragment;
mod functions;
mod memory;
mod subgroup;
mod target;

use super::statements::{self, Declared, Helper, Language, Printer};
use crate::ir::{Constant, Fragment, Kernel, Op, Scalar, Value};
use crate::pass::{Legalize, Unsupported};
use functions::{Called, Function};
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
    let features = kernel.features();
    let lacks = [(features.tma, "TMA and wgmma"), (features.f64, "64-bit floats")];
    let legalize = target.of(features).legalize(kernel.subgroup);
    let k = statements::legal(kernel, "Metal", &lacks, legalize)?;
    statements::check_limits(&k, (target.buffers, "buffers"), target.shared, target.invocations)?;
    Ok(k)
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
    p.region(&k.body);
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

type MslPrinter<'a> = Printer<'a, MslTarget>;

impl MslPrinter<'_> {
    fn module(self) -> String {
        let k = self.k;
        let mut all = "#include <metal_stdlib>\nusing namespace metal;\n".to_string();
        // What fast math off leaves on.
        all += "#pragma METAL fp contract(off)\n";
        let _ = writeln!(all, "// {}", k.name);
        self.state.functions.iter().for_each(|f| all += f.text());
        self.helpers.values().chain(self.state.reductions.values()).for_each(|text| all += text);
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

    /// A function of fixed text is used.
    fn calls(&mut self, f: Function) {
        self.state.functions.insert(f);
        self.state.functions.extend(f.calls());
    }
}

impl Language for MslTarget {
    type State = Called;
    const BITCAST: &'static str = "as_type";
    const NOT: [&'static str; 2] = ["(!", ")"];

    fn type_name(s: Scalar, width: u8) -> String {
        vector_name(s, width)
    }
    fn matrices(f: Fragment) -> (usize, String) {
        (fragment::count(f), fragment::type_name(f))
    }
    fn declaration(what: Declared, ty: &str, name: &str) -> String {
        match what {
            Declared::Constant => format!("const {ty} {name}"),
            Declared::Variable | Declared::Counter => format!("{ty} {name}"),
        }
    }
    fn constant(&self, c: Constant) -> String {
        arith::constant(c)
    }
    fn helper_body(&self, helper: Helper) -> Option<Legalize> {
        self.builds(helper).then(|| self.legalize_helper())
    }
    fn helper_head(&self, helper: Helper) -> String {
        let ty = vector_name(helper.types().1, 1);
        let mut params: Vec<String> = (0..helper.operands()).map(|i| format!("{ty} x{i}")).collect();
        if self.contracts {
            params.push("uint zero".to_string());
        }
        format!("static inline {ty} {}({})", helper.name(), params.join(", "))
    }
    fn helper_extra(&self) -> Option<&'static str> {
        self.contracts.then_some(statements::ZERO)
    }
    fn op(p: &mut MslPrinter<'_>, op: &Op, results: &[Value]) -> Option<String> {
        Some(match *op {
            Op::Unary(op, a) => p.unary(op, a),
            Op::Binary(op, a, b) => p.binary(op, a, b),
            Op::Compare(op, a, b) => p.compare(op, a, b),
            Op::Select(c, a, b) => p.select(c, a, b),
            Op::Convert(to, a) => p.convert(to, a),
            Op::FpToSi(a) => p.convert(Scalar::I32, a),
            Op::Load(from, at, w) => p.load(from, at, w),
            Op::Atomic(op, to, at, v) => p.atomic(op, to, at, v),
            Op::Shuffle(v, lane) => p.shuffle(v, lane),
            Op::Broadcast(v, lane) => p.broadcast(v, lane),
            Op::Reduce(op, v) => p.reduce(op, v),
            _ => {
                p.statement(op, results);
                return None;
            }
        })
    }
}

impl MslPrinter<'_> {
    /// What is more than an expression.
    fn statement(&mut self, op: &Op, results: &[Value]) {
        match *op {
            Op::Store(p, at, v) => self.store(p, at, v),
            Op::Barrier => self.barrier(),
            Op::FragmentLoad(_, l, p, at, stride) => self.fragment_load(results[0], l, p, [at, stride]),
            Op::FragmentFill(_, v) => self.fragment_fill(results[0], v),
            Op::FragmentMulAdd(a, b, c) => self.fragment_mul_add(results[0], [a, b, c]),
            Op::FragmentStore(l, p, at, stride, v) => self.fragment_store(l, p, [at, stride], v),
            Op::FragmentExtract(..) | Op::FragmentCompose(..) => unreachable!("refused: which lane has what"),
            _ => unreachable!("printed by `statements`"),
        }
    }
}
