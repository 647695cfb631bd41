//! WGSL: conversions and bit casts.

use super::{Printer, vector_name};
use crate::ir::{Scalar, Value};

impl Printer<'_> {
    pub(super) fn convert(&self, to: Scalar, a: Value) -> String {
        let x = self.name(a);
        match to {
            Scalar::Bool => format!("{x} != {}()", self.ty(a)),
            // What does not fit was taken care of.
            Scalar::I32 | Scalar::U32 | Scalar::F32 => format!("{}({x})", vector_name(to, self.width(a))),
            Scalar::I64 | Scalar::U64 | Scalar::F64 => unreachable!("lowered or refused"),
        }
    }

    pub(super) fn bitcast(&self, to: Scalar, a: Value) -> String {
        format!("bitcast<{}>({})", vector_name(to, self.width(a)), self.name(a))
    }
}
