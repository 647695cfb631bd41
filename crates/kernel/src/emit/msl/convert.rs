//! MSL: conversions.

use super::functions::Function;
use super::{MslPrinter, vector_name};
use crate::ir::{Scalar, Value};

impl MslPrinter<'_> {
    pub(super) fn convert(&mut self, to: Scalar, a: Value) -> String {
        let (from, width) = (self.scalar(a), self.width(a));
        let x = self.name(a).to_string();
        let ty = vector_name(to, width);
        match (from, to) {
            (_, Scalar::Bool) => format!("{x} != {}(0)", self.ty(a)),
            // Vectors of truth values are not converted to all others.
            (Scalar::Bool, _) if width > 1 => format!("select({ty}(0), {ty}(1), {x})"),
            // The specification does not say how these are rounded, and not all compilers do it
            // alike.
            (Scalar::I64 | Scalar::U64, Scalar::F32) => {
                let f = if from == Scalar::I64 { Function::FloatOfLong } else { Function::FloatOfUlong };
                self.calls(f);
                self.each(to, width, |i| format!("{}({})", f.name(), self.element(a, i)))
            }
            // What does not fit was taken care of.
            _ => format!("{ty}({x})"),
        }
    }
}
