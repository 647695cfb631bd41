//! Lowering (legalisation): what a target does not have, built exactly from what it has.
//!
//! Targets have much in common that differs from the IR: an integer division by zero is undefined,
//! a shift beyond the width too, the smaller of two floats forgets NaN or the sign of zero. Each of
//! these is written here once, as instructions; after lowering, an instruction is only reached by
//! operands for which every target agrees. The meaning stays, so the interpreter gives the same
//! before and after, and that is how it is tested.

mod async_copy;
mod comparisons;
mod division;
mod edge_cases;
mod exp2;
mod float8;
mod fma_by_f64;
mod fma_by_integers;
mod high_product;
mod int64;
mod lanes;
mod rounding;
mod storage;
mod subnormals;
mod writer;

use super::renumber;
use crate::ir::{Binary, Elem, Inst, Kernel, Op, Reduce, Scalar, Type, Unary, Value};
use std::fmt;
pub(super) use writer::{Rewrite, Writer};

/// What a target needs to have built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Legalize {
    /// Integer division and remainder: no divisor 0, no divisor -1.
    pub division: bool,
    /// Shifts: amounts below the width.
    pub shifts: bool,
    /// Minimum and maximum of f32: comparisons, selects and bits.
    pub extremes: bool,
    /// The same of f64.
    pub wide_extremes: bool,
    /// 2^x: a polynomial.
    pub exp2: bool,
    /// Float to integer: only numbers that fit.
    pub saturation: bool,
    /// The magnitude of one float with the sign of another: bits.
    pub copy_sign: bool,
    /// A fused fma. Of f32: in f64, rounded to odd; of f64, or without f64: in integers.
    pub fused: bool,
    /// Nothing that is built: the target has f64 to build from.
    pub wide: bool,
    /// A correctly rounded quotient of f32, from one that is wrong by some units in the last place.
    pub quotient: bool,
    /// The same of f64.
    pub wide_quotient: bool,
    /// A correctly rounded square root of f32, from one that is wrong by some units in the last
    /// place.
    pub root: bool,
    /// The same of f64.
    pub wide_root: bool,
    /// Comparisons of f32, and what changes only its sign: integers, which keep subnormals.
    pub comparisons: bool,
    /// The same of f64.
    pub wide_comparisons: bool,
    /// Sums, differences and products of f32 that keep subnormals: in f64, or without it in
    /// integers.
    pub sums: bool,
    /// A fused fma of f32 that keeps subnormals, from one that is right for normal numbers.
    pub fma: bool,
    /// The same of f64, in integers.
    pub wide_fma: bool,
    /// Rounding of f32 to whole numbers, from sums and integers.
    pub rounding: bool,
    /// The same of f64.
    pub wide_rounding: bool,
    /// Conversions between f32 and f64 that keep the subnormals of f32.
    pub conversions: bool,
    /// The largest or smallest float of a subgroup: exchanges between lanes.
    pub reductions: bool,
    /// Copies to shared memory: loads and stores where they are begun.
    pub cp_async: bool,
    /// 64-bit integers: pairs of 32-bit ones.
    pub int64: bool,
    /// The upper half of a product of 32-bit integers.
    pub high_products: bool,
    /// f32 from integers of 32 bits, rounded to nearest even.
    pub int_to_float: bool,
    /// f32 rounded to f16 and bf16.
    pub half_rounding: bool,
    /// Memory of less than a word: words.
    pub storage: bool,
    /// Subgroup operations: exchanges through shared memory.
    pub lanes: Lanes,
}

/// What becomes of subgroup operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lanes {
    /// All stay.
    #[default]
    Native,
    /// Exchanges stay; the numbers of lanes and of subgroups are computed from `LocalIndex`.
    Numbered,
    /// None stays: exchanges go through shared memory.
    Shared,
}

impl Legalize {
    fn extremes_of(self, s: Scalar) -> bool {
        match s {
            Scalar::F32 => self.extremes,
            Scalar::F64 => self.wide_extremes,
            Scalar::Bool | Scalar::I32 | Scalar::U32 | Scalar::I64 | Scalar::U64 => false,
        }
    }
    fn comparisons_of(self, s: Scalar) -> bool {
        match s {
            Scalar::F32 => self.comparisons,
            Scalar::F64 => self.wide_comparisons,
            Scalar::Bool | Scalar::I32 | Scalar::U32 | Scalar::I64 | Scalar::U64 => false,
        }
    }
}

/// Something that the target lacks, and that cannot be built from what it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported(pub String);

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for Unsupported {}

/// Builds what the target wants. Floats of one byte become bytes for all targets.
pub fn lower(k: &mut Kernel, legalize: Legalize) {
    if legalize.int64 {
        int64::split(k);
        renumber(k);
    }
    pass(k, Legalize { conversions: false, ..legalize });
    // Much of what was built compares floats, or goes through f64.
    let Legalize { comparisons, wide_comparisons, conversions, .. } = legalize;
    if comparisons || wide_comparisons || conversions {
        pass(k, Legalize { comparisons, wide_comparisons, conversions, ..Legalize::default() });
    }
    renumber(k);
    if legalize.storage {
        storage::pack(k);
        renumber(k);
    }
    match legalize.lanes {
        Lanes::Native => {}
        Lanes::Numbered => lanes::exchange(k, true),
        Lanes::Shared => lanes::exchange(k, false),
    }
    renumber(k);
}

fn pass(k: &mut Kernel, legalize: Legalize) {
    let float8 = float8::FloatPlaces::take(k);
    let w = Writer::new(std::mem::take(&mut k.values));
    let shared = k.shared.iter().map(|s| s.elem).collect();
    Lower { legalize, lanes: k.subgroup.unwrap_or(1), shared, float8, w }.rewrite(k);
}

struct Lower {
    legalize: Legalize,
    /// Of a subgroup.
    lanes: u32,
    /// What shared memory holds.
    shared: Vec<Elem>,
    /// What memory held before it became bytes.
    float8: float8::FloatPlaces,
    w: Writer,
}

impl Rewrite for Lower {
    fn writer(&mut self) -> &mut Writer {
        &mut self.w
    }

    fn inst(&mut self, mut inst: Inst) -> Option<Value> {
        if self.legalize.cp_async && async_copy::lower(&mut self.w, &self.shared, &inst.op) {
            return None;
        }
        if let Op::Store(p, _, v) = &mut inst.op
            && let Some(format) = self.float8.format(*p)
        {
            *v = float8::encode(&mut self.w, *v, format);
        }
        let new = self.one(&inst);
        if new.is_none() {
            self.w.out.push(inst);
        }
        new
    }
}

impl Lower {
    /// What stands for the result of an instruction; `None` if it stays as it is.
    fn one(&mut self, inst: &Inst) -> Option<Value> {
        let (w, l) = (&mut self.w, self.legalize);
        match inst.op {
            Op::Load(p, at, width) => self.float8.format(p).map(|format| {
                let code = w.push(Op::Load(p, at, width), Type::Vector(Scalar::U32, width));
                float8::decode(w, code, format)
            }),
            Op::Binary(op, a, b) => {
                let s = w.scalar(a);
                match op {
                    Binary::Div if s == Scalar::F32 && l.quotient => Some(division::divide(w, a, b)),
                    Binary::Div if s == Scalar::F64 && l.wide_quotient => Some(division::divide(w, a, b)),
                    Binary::Div if s.is_int() && l.division => Some(edge_cases::divide(w, a, b)),
                    Binary::Rem if l.division => Some(edge_cases::remainder(w, a, b)),
                    Binary::Shl | Binary::Shr if l.shifts => Some(edge_cases::shift(w, op, a, b)),
                    Binary::Min | Binary::Max if l.extremes_of(s) => Some(edge_cases::extreme(w, op, a, b)),
                    Binary::Add | Binary::Sub | Binary::Mul if s == Scalar::F32 && l.sums => {
                        Some(subnormals::sum(w, op, a, b, l.wide))
                    }
                    Binary::MulHigh if s.bits() == 32 && l.high_products => {
                        Some(high_product::mul_high(w, a, b))
                    }
                    Binary::CopySign if l.copy_sign => Some(edge_cases::copy_sign(w, a, b)),
                    // As it is, or not asked for.
                    _ => None,
                }
            }
            Op::Convert(to, a) if to.is_int() && w.scalar(a).is_float() && l.saturation => {
                Some(edge_cases::saturate(w, a, to))
            }
            Op::Unary(Unary::Sqrt, a) => {
                let built = if w.scalar(a) == Scalar::F64 { l.wide_root } else { l.root };
                built.then(|| division::root(w, a))
            }
            Op::Unary(op @ (Unary::Abs | Unary::Neg), a) if l.comparisons_of(w.scalar(a)) => {
                Some(comparisons::sign(w, op, a))
            }
            Op::Compare(op, a, b) if l.comparisons_of(w.scalar(a)) => Some(comparisons::compare(w, op, a, b)),
            Op::Convert(Scalar::Bool, a) if l.comparisons_of(w.scalar(a)) => Some(comparisons::truth(w, a)),
            Op::Convert(Scalar::F64, a) if w.scalar(a) == Scalar::F32 && l.conversions => {
                Some(subnormals::widen(w, a))
            }
            Op::Convert(Scalar::F32, a) if w.scalar(a) == Scalar::F64 && l.conversions => {
                Some(subnormals::narrow(w, a))
            }
            Op::Unary(op @ (Unary::Floor | Unary::Ceil | Unary::Trunc | Unary::Round), a) => {
                let built = if w.scalar(a) == Scalar::F64 { l.wide_rounding } else { l.rounding };
                built.then(|| rounding::round(w, op, a))
            }
            Op::Convert(Scalar::F32, a)
                if matches!(w.scalar(a), Scalar::I32 | Scalar::U32) && l.int_to_float =>
            {
                Some(storage::int_to_float(w, a))
            }
            Op::Unary(Unary::RoundF16, a) if l.half_rounding => Some(storage::round_f16(w, a)),
            Op::Unary(Unary::RoundBF16, a) if l.half_rounding => Some(storage::round_bf16(w, a)),
            Op::Unary(Unary::Exp2, a) if l.exp2 => Some(exp2::exp2(w, a)),
            Op::Fma(a, b, c) if l.fused => match w.scalar(a) {
                Scalar::F32 if l.wide => Some(fma_by_f64::fused(w, a, b, c)),
                _ => Some(fma_by_integers::fused(w, a, b, c)),
            },
            Op::Fma(a, b, c) => match w.scalar(a) {
                Scalar::F32 if l.fma => Some(subnormals::fma(w, a, b, c, l.wide)),
                Scalar::F64 if l.wide_fma => Some(fma_by_integers::fused(w, a, b, c)),
                _ => None,
            },
            Op::Reduce(op, a) if w.scalar(a).is_float() && l.reductions => {
                let op = if op == Reduce::Max { Binary::Max } else { Binary::Min };
                let built = l.extremes_of(w.scalar(a));
                Some(edge_cases::reduce(w, op, a, self.lanes, built))
            }
            // The same everywhere, not asked for, or the emitters' business: they leave no
            // instruction out.
            _ => None,
        }
    }
}
