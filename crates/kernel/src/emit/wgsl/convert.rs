//! WGSL: conversions.

use super::{WgslPrinter, vector_name};
use crate::ir::{Scalar, Value};

impl WgslPrinter<'_> {
    pub(super) fn convert(&self, to: Scalar, a: Value) -> String {
        let x = self.name(a);
        match to {
            Scalar::Bool => format!("{x} != {}()", self.ty(a)),
            // What does not fit was taken care of.
            Scalar::I32 | Scalar::U32 | Scalar::F32 | Scalar::I64 | Scalar::U64 | Scalar::F64 => {
                format!("{}({x})", vector_name(to, self.width(a)))
            }
        }
    }
}
