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
//! rounded quotients and roots, subnormals. These are functions of the module (`emit/statements`).
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
mod convert;
mod memory;
mod subgroup;
mod target;

use super::statements::{self, Declared, Helper, Language, Printer};
use crate::ir::{Constant, Elem, Fragment, Kernel, Op, Scalar, Value};
use crate::pass::{Legalize, Unsupported};
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
    let features = kernel.features();
    let lacks = [
        (features.tma, "TMA and wgmma"),
        (features.fragments, "matrix fragments"),
        (features.f64, "64-bit floats"),
    ];
    let k = statements::legal(kernel, "WGSL", &lacks, target.legalize(kernel.subgroup))?;
    statements::check_limits(&k, (target.buffers, "storage buffers"), target.shared, target.invocations)?;
    if k.group.iter().zip(&target.group).any(|(n, most)| n > most) {
        let [x, y, z] = k.group;
        let [a, b, c] = target.group;
        let what = format!("workgroups of {x} x {y} x {z}");
        return Err(statements::exceeds(&k, &what, format!("{a} x {b} x {c}")));
    }
    Ok(k)
}

/// The text of a module with the entry point `main`.
///
/// # Errors
/// As [`legal`].
pub fn emit(kernel: &Kernel, target: &Target) -> Result<String, Unsupported> {
    let k = legal(kernel, target)?;
    let mut p = WgslPrinter::new(&k, target);
    p.state = memory::places_with_atomics(&k);
    p.region(&k.body);
    Ok(p.module())
}

/// The name of a type.
fn scalar_name(s: Scalar) -> &'static str {
    match s {
        Scalar::Bool => "bool",
        Scalar::I32 => "i32",
        Scalar::U32 => "u32",
        Scalar::F32 => "f32",
        // In functions that are built of them.
        Scalar::I64 => "i64",
        Scalar::U64 => "u64",
        Scalar::F64 => "f64",
    }
}

/// The name of a vector type.
fn vector_name(s: Scalar, width: u8) -> String {
    match width {
        1 => scalar_name(s).to_string(),
        w => format!("vec{w}<{}>", scalar_name(s)),
    }
}

type WgslPrinter<'a> = Printer<'a, Target>;

impl WgslPrinter<'_> {
    fn module(self) -> String {
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
        all
    }
}

impl Language for Target {
    /// Which memory has atomics: buffers, then shared memory.
    type State = [Vec<bool>; 2];
    const BITCAST: &'static str = "bitcast";
    const NOT: [&'static str; 2] = ["!", ""];

    fn type_name(s: Scalar, width: u8) -> String {
        vector_name(s, width)
    }
    fn matrices(_: Fragment) -> (usize, String) {
        unreachable!("kernels with fragments are refused")
    }
    fn declaration(what: Declared, ty: &str, name: &str) -> String {
        match what {
            Declared::Constant => format!("let {name}"),
            Declared::Variable => format!("var {name}: {ty}"),
            Declared::Counter => format!("var {name}"),
        }
    }
    fn constant(&self, c: Constant) -> String {
        self.literal(c)
    }
    fn helper_body(&self, helper: Helper) -> Option<Legalize> {
        self.builds(helper).then(|| self.legalize_helper())
    }
    fn helper_head(&self, helper: Helper) -> String {
        let ty = scalar_name(helper.types().1);
        let params: Vec<String> = (0..helper.operands()).map(|i| format!("x{i}: {ty}")).collect();
        format!("fn {}({}) -> {ty}", helper.name(), params.join(", "))
    }
    fn op(p: &mut WgslPrinter<'_>, op: &Op, _: &[Value]) -> Option<String> {
        Some(match *op {
            Op::Unary(op, a) => p.unary(op, a),
            Op::Binary(op, a, b) => p.binary(op, a, b),
            Op::Compare(_, a, _) if p.scalar(a) == Scalar::F32 => unreachable!("they are lowered before"),
            Op::Compare(op, a, b) => p.compare(op, a, b),
            Op::Select(c, a, b) => p.select(c, a, b),
            Op::Convert(to, a) => p.convert(to, a),
            Op::FpToSi(a) => p.convert(Scalar::I32, a),
            Op::Load(from, at, w) => p.load(from, at, w),
            Op::Atomic(op, to, at, v) => p.atomic(op, to, at, v),
            Op::Shuffle(v, lane) => p.shuffle(v, lane),
            Op::Broadcast(v, lane) => p.broadcast(v, lane),
            Op::Reduce(op, v) => p.reduce(op, v),
            Op::Store(to, at, v) => {
                p.store(to, at, v);
                return None;
            }
            Op::Barrier => {
                p.barrier();
                return None;
            }
            _ => unreachable!("printed by `statements`, or refused"),
        })
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
