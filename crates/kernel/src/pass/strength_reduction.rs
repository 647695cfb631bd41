//! Strength reduction: quotients and remainders by powers of two become shifts and masks.
//!
//! Compilers of devices do not all do it: NVIDIA's assembler divides by a 32 in a register, in some
//! thirty instructions.

use super::lower::{Rewrite, Writer};
use super::renumber;
use crate::ir::{Binary, Constant, Inst, Kernel, Op, Scalar, Value};
use rustc_hash::FxHashMap;

/// Divides by shifts.
pub fn strength_reduce(k: &mut Kernel) {
    let w = Writer::new(std::mem::take(&mut k.values));
    StrengthReduction { known: FxHashMap::default(), w }.rewrite(k);
    renumber(k);
}

struct StrengthReduction {
    /// Values that are one number, or a vector of the same number.
    known: FxHashMap<Value, Constant>,
    w: Writer,
}

impl Rewrite for StrengthReduction {
    fn writer(&mut self) -> &mut Writer {
        &mut self.w
    }

    fn inst(&mut self, inst: Inst) -> Option<Value> {
        match inst.op {
            Op::Const(c) => _ = self.known.insert(inst.results[0], c),
            Op::Splat(_, a) => {
                if let Some(&c) = self.known.get(&a) {
                    self.known.insert(inst.results[0], c);
                }
            }
            Op::Binary(op @ (Binary::Div | Binary::Rem), a, b) => {
                if let Some(bits) = self.known.get(&b).and_then(exponent) {
                    return Some(self.divided(op, a, b, bits));
                }
            }
            _ => {}
        }
        self.w.out.push(inst);
        None
    }
}

impl StrengthReduction {
    /// a by b = 2^bits. Quotients are cut towards zero, so what is negative goes up by b - 1 first.
    fn divided(&mut self, op: Binary, a: Value, b: Value, bits: u32) -> Value {
        let w = &mut self.w;
        let s = w.scalar(a);
        let below = w.int(b, (1 << bits) - 1);
        if !s.is_signed() {
            if op == Binary::Rem {
                return w.binary(Binary::And, a, below);
            }
            let amount = w.int(b, i64::from(bits));
            return w.binary(Binary::Shr, a, amount);
        }
        let last = w.int(b, i64::from(s.bits()) - 1);
        let sign = w.binary(Binary::Shr, a, last);
        let up = w.binary(Binary::And, sign, below);
        let raised = w.binary(Binary::Add, a, up);
        let amount = w.int(b, i64::from(bits));
        let quotient = w.binary(Binary::Shr, raised, amount);
        if op == Binary::Div {
            return quotient;
        }
        let product = w.binary(Binary::Shl, quotient, amount);
        w.binary(Binary::Sub, a, product)
    }
}

/// The exponent of a power of two that is a positive number of an integer type.
fn exponent(c: &Constant) -> Option<u32> {
    let positive = match c.scalar {
        Scalar::U32 | Scalar::U64 => true,
        Scalar::I32 => (c.bits as u32 as i32) > 0,
        Scalar::I64 => (c.bits as i64) > 0,
        Scalar::Bool | Scalar::F32 | Scalar::F64 => false,
    };
    // A u64 of 2^63 has no mask that an i64 holds.
    (positive && c.bits.is_power_of_two() && c.bits.ilog2() < 63).then(|| c.bits.ilog2())
}
