//! WGSL: subgroup operations, where the device's subgroups have the size that the kernel asks for.
//! Elsewhere there are none left.

use super::{WgslPrinter, vector_name};
use crate::ir::{Reduce, Scalar, Value};

impl WgslPrinter<'_> {
    /// An exchange, which truth values take part in as numbers.
    fn exchange(&self, v: Value, f: impl Fn(&str) -> String) -> String {
        if self.scalar(v) != Scalar::Bool {
            return f(self.name(v));
        }
        let word = vector_name(Scalar::U32, self.width(v));
        format!("{} != {word}()", f(&format!("{word}({})", self.name(v))))
    }

    pub(super) fn shuffle(&self, v: Value, lane: Value) -> String {
        let size = self.k.subgroup.expect("the verifier has seen to it");
        let lane = format!("{} & {}u", self.name(lane), size - 1);
        self.exchange(v, |x| format!("subgroupShuffle({x}, {lane})"))
    }

    pub(super) fn broadcast(&self, v: Value, lane: u8) -> String {
        self.exchange(v, |x| format!("subgroupBroadcast({x}, {lane}u)"))
    }

    pub(super) fn reduce(&self, op: Reduce, v: Value) -> String {
        let s = self.scalar(v);
        assert!(!s.is_float(), "{}: a reduction of floats is lowered before", self.k.name);
        // Of truth values, as of numbers 0 and 1.
        let name = match op {
            Reduce::And if s == Scalar::Bool => "subgroupMin",
            Reduce::Or if s == Scalar::Bool => "subgroupMax",
            Reduce::Add => "subgroupAdd",
            Reduce::Min => "subgroupMin",
            Reduce::Max => "subgroupMax",
            Reduce::And => "subgroupAnd",
            Reduce::Or => "subgroupOr",
        };
        self.exchange(v, |x| format!("{name}({x})"))
    }
}
