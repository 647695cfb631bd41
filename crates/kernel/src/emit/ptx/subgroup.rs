//! PTX: warp operations (shuffles and reductions between the lanes of a warp).

use super::{Emitter, Register, WARP_LANES};
use crate::ir::{Binary, Reduce, Scalar};

/// All lanes take part.
const FULL_MASK: &str = "0xFFFFFFFF";

impl Emitter<'_> {
    /// The number of another lane, by its number (modulo the warp).
    pub(super) fn shuffle(&mut self, s: Scalar, v: &str, lane: &str) -> Register {
        self.exchange(s, v, "idx", lane)
    }

    fn exchange(&mut self, s: Scalar, v: &str, mode: &str, lane: &str) -> Register {
        let word = |e: &mut Self, v: &str| {
            e.inst(Scalar::U32, &format!("shfl.sync.{mode}.b32"), &[v, lane, "31", FULL_MASK])
        };
        match s {
            Scalar::Bool => {
                let number = self.inst(Scalar::U32, "selp.u32", &["1", "0", v]);
                let got = word(self, &number);
                self.inst(s, "setp.ne.u32", &[&got, "0"])
            }
            Scalar::I32 | Scalar::U32 => word(self, v),
            Scalar::F32 => {
                let bits = self.inst(Scalar::U32, "mov.b32", &[v]);
                let got = word(self, &bits);
                self.inst(s, "mov.b32", &[&got])
            }
            Scalar::I64 | Scalar::U64 | Scalar::F64 => {
                let [low, high] = [0, 1].map(|_| self.scalar_register(Scalar::U32));
                self.line(&format!("mov.b64 {{{low}, {high}}}, {v}"));
                let (low, high) = (word(self, &low), word(self, &high));
                self.inst(s, "mov.b64", &[&format!("{{{low}, {high}}}")])
            }
        }
    }

    /// All lanes combined: in five steps, each with the lane whose number differs in one bit.
    pub(super) fn reduce(&mut self, op: Reduce, s: Scalar, v: &str) -> Register {
        assert!(!s.is_float(), "{}: a reduction of floats is lowered before", self.k.name);
        let op = match op {
            Reduce::Add => Binary::Add,
            Reduce::Min => Binary::Min,
            Reduce::Max => Binary::Max,
            Reduce::And => Binary::And,
            Reduce::Or => Binary::Or,
        };
        let mut all = v.to_string();
        let mut apart = WARP_LANES / 2;
        while apart > 0 {
            let other = self.exchange(s, &all, "bfly", &apart.to_string());
            all = self.binary(op, s, &all, &other);
            apart /= 2;
        }
        all
    }
}
