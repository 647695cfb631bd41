//! LLVM IR: operations between the lanes of a subgroup, which is a wave or a part of one.
//!
//! Which instruction reaches how far: DPP 16 lanes, `ds_swizzle` 32, `ds_bpermute` a wave (since
//! RDNA a half of a wave of 64), `readlane` a wave. Source: "AMDGPU Usage" and the ISA documents,
//! "Data Parallel Processing", "LDS instructions".

use super::{Assembler, Operand};
use crate::ir::{Binary, Reduce, Scalar};
use crate::pass::Unsupported;

/// DPP: an order of the four lanes of a quad, two bits each, the first lane's lowest.
const SWAP_NEIGHBOURS: u32 = 0b10_11_00_01;
const SWAP_PAIRS: u32 = 0b01_00_11_10;
/// DPP: 8 lanes, and 16, in reverse. Once all lanes of a quad (of 8) agree, that is as good as an
/// exchange with the other quad (the other 8).
const REVERSE_8: u32 = 0x141;
const REVERSE_16: u32 = 0x140;

impl Assembler<'_> {
    /// The number of a lane in its wave.
    pub(super) fn lane_of_wave(&mut self) -> Operand {
        let index = self.local_index();
        self.inst(&format!("and i32 {index}, {}", self.target.wave - 1))
    }

    /// A number of 32 bits as an integer, what `f` makes of it, and back.
    fn as_word(&mut self, s: Scalar, v: &str, f: impl FnOnce(&mut Self, &str) -> Operand) -> Operand {
        match s {
            Scalar::F32 => {
                let bits = self.inst(&format!("bitcast float {v} to i32"));
                let got = f(self, &bits);
                self.inst(&format!("bitcast i32 {got} to float"))
            }
            _ => f(self, v),
        }
    }

    /// The number of another lane, by its number (modulo the subgroup).
    pub(super) fn shuffle(&mut self, s: Scalar, v: &str, lane: &str) -> Result<Operand, Unsupported> {
        let size = self.subgroup();
        if size == 64 && !self.target.arch.permutes_waves() {
            return self.unsupported(&format!(
                "ds_bpermute of {} stays in 32 lanes, and the subgroup has 64",
                self.target.arch.name()
            ));
        }
        let mut from = self.inst(&format!("and i32 {lane}, {}", size - 1));
        if size < self.target.wave {
            let own = self.lane_of_wave();
            let first = self.inst(&format!("and i32 {own}, {}", (self.target.wave - 1) & !(size - 1)));
            from = self.inst(&format!("or i32 {first}, {from}"));
        }
        let bytes = self.inst(&format!("shl i32 {from}, 2"));
        Ok(self
            .as_word(s, v, |e, v| e.call("llvm.amdgcn.ds.bpermute", "i32", &[("i32", &bytes), ("i32", v)])))
    }

    /// The number of a lane that is known.
    pub(super) fn broadcast(&mut self, s: Scalar, v: &str, lane: u8) -> Operand {
        let size = self.subgroup();
        self.as_word(s, v, |e, v| match size {
            64 => e.read_lane(v, u32::from(lane)),
            _ => e.swizzle(v, 31 & !(size - 1), u32::from(lane), 0),
        })
    }

    /// For each lane of 32 that of ((lane & and) | or) ^ xor.
    fn swizzle(&mut self, v: &str, and: u32, or: u32, xor: u32) -> Operand {
        let pattern = and | or << 5 | xor << 10;
        self.call("llvm.amdgcn.ds.swizzle", "i32", &[("i32", v), ("i32 immarg", &pattern.to_string())])
    }
    fn read_lane(&mut self, v: &str, lane: u32) -> Operand {
        self.call("llvm.amdgcn.readlane", "i32", &[("i32", v), ("i32", &lane.to_string())])
    }
    fn dpp(&mut self, v: &str, control: u32) -> Operand {
        let control = control.to_string();
        let all = "15";
        self.call(
            "llvm.amdgcn.update.dpp.i32",
            "i32",
            &[
                ("i32", v),
                ("i32", v),
                ("i32 immarg", &control),
                ("i32 immarg", all),
                ("i32 immarg", all),
                ("i1 immarg", "true"),
            ],
        )
    }

    /// All lanes combined: each step with as many others as are combined already.
    pub(super) fn reduce(&mut self, op: Reduce, s: Scalar, v: &str) -> Operand {
        assert!(!s.is_float(), "{}: a reduction of floats is lowered before", self.k.name);
        let op = match op {
            Reduce::Add => Binary::Add,
            Reduce::Min => Binary::Min,
            Reduce::Max => Binary::Max,
            Reduce::And => Binary::And,
            Reduce::Or => Binary::Or,
        };
        let (size, mut all, mut apart) = (self.subgroup(), v.to_string(), 1);
        while apart < size {
            if apart == 32 {
                // Both halves agree, so a lane of each has all there is.
                let halves = [0, 32].map(|lane| self.in_words(s, &all, |e, v| e.read_lane(v, lane)));
                return self.binary(op, s, &halves[0], &halves[1]);
            }
            let other = self.in_words(s, &all, |e, v| match apart {
                1 => e.dpp(v, SWAP_NEIGHBOURS),
                2 => e.dpp(v, SWAP_PAIRS),
                4 => e.dpp(v, REVERSE_8),
                8 => e.dpp(v, REVERSE_16),
                _ => e.swizzle(v, 31, 0, 16),
            });
            all = self.binary(op, s, &all, &other);
            apart *= 2;
        }
        all
    }

    /// An integer or a truth value of another lane, handed over in words.
    fn in_words(&mut self, s: Scalar, v: &str, f: impl Fn(&mut Self, &str) -> Operand) -> Operand {
        match s.bits() {
            1 => {
                let word = self.inst(&format!("zext i1 {v} to i32"));
                let got = f(self, &word);
                self.inst(&format!("icmp ne i32 {got}, 0"))
            }
            32 => f(self, v),
            _ => {
                let low = self.inst(&format!("trunc i64 {v} to i32"));
                let high = self.inst(&format!("lshr i64 {v}, 32"));
                let high = self.inst(&format!("trunc i64 {high} to i32"));
                let [low, high] = [low, high].map(|word| {
                    let got = f(self, &word);
                    self.inst(&format!("zext i32 {got} to i64"))
                });
                let high = self.inst(&format!("shl i64 {high}, 32"));
                self.inst(&format!("or i64 {high}, {low}"))
            }
        }
    }
}
