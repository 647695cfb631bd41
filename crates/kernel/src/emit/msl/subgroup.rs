//! MSL: subgroup operations, where the device's SIMD-groups have the size that the kernel asks for.
//! Elsewhere there are none left.
//!
//! The functions of SIMD-groups take no 64-bit integers: those are combined as pairs of words, lane
//! by lane.

use super::{MslPrinter, unsigned, vector_name};
use crate::ir::{Reduce, Scalar, Value};

impl MslPrinter<'_> {
    /// An exchange, which truth values take part in as numbers.
    fn exchange(&self, v: Value, f: impl Fn(&str) -> String) -> String {
        let (s, width) = (self.scalar(v), self.width(v));
        if s != Scalar::Bool {
            return f(self.name(v));
        }
        let word = vector_name(Scalar::U32, width);
        format!("{} != {word}(0)", f(&self.number(v)))
    }
    /// A truth value as a number.
    fn number(&self, v: Value) -> String {
        let word = vector_name(Scalar::U32, self.width(v));
        match self.width(v) {
            1 => format!("uint({})", self.name(v)),
            _ => format!("select({word}(0), {word}(1), {})", self.name(v)),
        }
    }

    pub(super) fn shuffle(&self, v: Value, lane: Value) -> String {
        let size = self.k.subgroup.expect("the verifier has seen to it");
        let lane = format!("ushort({} & {}u)", self.name(lane), size - 1);
        self.exchange(v, |x| format!("simd_shuffle({x}, {lane})"))
    }

    pub(super) fn broadcast(&self, v: Value, lane: u8) -> String {
        self.exchange(v, |x| format!("simd_broadcast({x}, ushort({lane}))"))
    }

    pub(super) fn reduce(&mut self, op: Reduce, v: Value) -> String {
        let (s, width) = (self.scalar(v), self.width(v));
        assert!(!s.is_float(), "{}: a reduction of floats is lowered before", self.k.name);
        if s.bits() == 64 {
            let f = reduction(op, s);
            let name = f.0.clone();
            self.state.reductions.insert(f.0, f.1);
            return self.each(s, width, |i| format!("{name}({})", self.element(v, i)));
        }
        // Of truth values, as of numbers 0 and 1.
        let name = match op {
            Reduce::Add => "simd_sum",
            Reduce::Min => "simd_min",
            Reduce::Max => "simd_max",
            Reduce::And => "simd_and",
            Reduce::Or => "simd_or",
        };
        // Sums wrap.
        match op {
            Reduce::Add if s.is_signed() => {
                let word = vector_name(Scalar::U32, width);
                format!("as_type<{}>({name}(as_type<{word}>({})))", self.ty(v), self.name(v))
            }
            _ => self.exchange(v, |x| format!("{name}({x})")),
        }
    }
}

/// The name and the text of a function that combines 64-bit integers: each lane takes the other
/// half's, quarter's, and so on.
fn reduction(op: Reduce, s: Scalar) -> (String, String) {
    let (word, y) = match op {
        Reduce::Add => ("sum", "x + y"),
        Reduce::Min => ("min", "y < x ? y : x"),
        Reduce::Max => ("max", "y > x ? y : x"),
        Reduce::And => ("and", "x & y"),
        Reduce::Or => ("or", "x | y"),
    };
    let ty = vector_name(s, 1);
    // Sums wrap.
    let inner = if op == Reduce::Add { vector_name(unsigned(s), 1) } else { ty.clone() };
    let name = format!("simd_{word}_{ty}");
    let text = format!(
        "static inline {ty} {name}({ty} v) {{
  {inner} x = as_type<{inner}>(v);
  for (ushort far = 16; far > 0; far >>= 1) {{
    const {inner} y = as_type<{inner}>(simd_shuffle_xor(as_type<uint2>(x), far));
    x = {y};
  }}
  return as_type<{ty}>(x);
}}
"
    );
    (name, text)
}
