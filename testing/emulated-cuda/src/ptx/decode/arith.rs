//! Arithmetic, comparisons and conversions.

use super::{Decoder, is_wide};
use emulated_gpu::inst::*;

impl Decoder {
    pub(super) fn three(&mut self, op: Three, wide: bool, [to, a, b, c]: [&str; 4]) -> Result<Inst, String> {
        Ok(if wide {
            let (a, b, c) = (self.w(a)?, self.w(b)?, self.w(c)?);
            Inst::Wide3(op, [self.gives64(to)?, a, b, c])
        } else {
            let (a, b, c) = (self.n(a)?, self.n(b)?, self.n(c)?);
            Inst::Narrow3(op, [self.gives32(to)?, a, b, c])
        })
    }

    pub(super) fn one(&mut self, parts: &[&str], ty: &str, to: &str, a: &str) -> Result<Inst, String> {
        let float = ty.starts_with('f');
        macro_rules! pick {
            ($Set:ident) => {
                match parts {
                    ["mov", _] => $Set::Mov,
                    ["not", _] if !float => $Set::Not,
                    ["neg", _] if float => $Set::NegF,
                    ["neg", _] => $Set::Neg,
                    ["abs", _] if float => $Set::AbsF,
                    ["sqrt", "rn", _] if float => $Set::SqrtF,
                    _ => return Err("this instruction is not known".into()),
                }
            };
        }
        if is_wide(ty) {
            let a = self.w(a)?;
            let op = pick!(Wide1);
            return Ok(Inst::Wide1(op, self.gives64(to)?, a));
        }
        let a = self.n(a)?;
        let op = match parts {
            ["ex2", "approx", "ftz", "f32"] => Narrow1::Exp2F,
            _ => pick!(Narrow1),
        };
        Ok(Inst::Narrow1(op, self.gives32(to)?, a))
    }

    pub(super) fn two(
        &mut self,
        parts: &[&str],
        ty: &str,
        to: &str,
        a: &str,
        b: &str,
    ) -> Result<Inst, String> {
        let signed = ty.starts_with('s');
        let float = ty.starts_with('f');
        macro_rules! pick {
            ($Set:ident) => {
                match parts {
                    ["add", "rn", _] if float => $Set::AddF,
                    ["sub", "rn", _] if float => $Set::SubF,
                    ["mul", "rn", _] if float => $Set::MulF,
                    ["div", "rn", _] if float => $Set::DivF,
                    _ if float => return Err("a rounding has to be said".into()),
                    ["add", _] => $Set::Add,
                    ["sub", _] => $Set::Sub,
                    ["mul", "lo", _] => $Set::Mul,
                    ["mul", "hi", _] if signed => $Set::MulHighS,
                    ["mul", "hi", _] => $Set::MulHighU,
                    ["div", _] if signed => $Set::DivS,
                    ["div", _] => $Set::DivU,
                    ["rem", _] if signed => $Set::RemS,
                    ["rem", _] => $Set::RemU,
                    ["min", _] if signed => $Set::MinS,
                    ["min", _] => $Set::MinU,
                    ["max", _] if signed => $Set::MaxS,
                    ["max", _] => $Set::MaxU,
                    ["and", _] => $Set::And,
                    ["or", _] => $Set::Or,
                    ["xor", _] => $Set::Xor,
                    _ => return Err("this instruction is not known".into()),
                }
            };
        }
        if is_wide(ty) {
            let (a, b) = (self.w(a)?, self.w(b)?);
            let op = pick!(Wide2);
            return Ok(Inst::Wide2(op, [self.gives64(to)?, a, b]));
        }
        let (a, b) = (self.n(a)?, self.n(b)?);
        let op = match parts {
            ["shl", _] => Narrow2::Shl,
            ["shr", _] if signed => Narrow2::ShrS,
            ["shr", _] => Narrow2::ShrU,
            [most @ ("min" | "max"), "NaN", "f32"] => {
                self.needs(80)?;
                if *most == "min" { Narrow2::MinF } else { Narrow2::MaxF }
            }
            _ => pick!(Narrow2),
        };
        Ok(Inst::Narrow2(op, [self.gives32(to)?, a, b]))
    }

    pub(super) fn predicate(&mut self, op: &str, o: &[&str]) -> Result<Inst, String> {
        let how = match (op, o) {
            ("not", [to, a]) => {
                let a = self.p(a)?;
                return Ok(Inst::NotPredicate(self.gives_p(to)?, a));
            }
            ("and", [..]) => Predicate::And,
            ("or", [..]) => Predicate::Or,
            ("xor", [..]) => Predicate::Xor,
            _ => return Err("this instruction is not known".into()),
        };
        let [to, a, b] = o else { return Err("two operands".into()) };
        let (a, b) = (self.p(a)?, self.p(b)?);
        Ok(Inst::Predicate(how, [self.gives_p(to)?, a, b]))
    }

    pub(super) fn compare(
        &mut self,
        how: &str,
        ty: &str,
        to: &str,
        a: &str,
        b: &str,
    ) -> Result<Inst, String> {
        let float = ty.starts_with('f');
        let how = match how {
            "eq" => Compare::Eq,
            // Without the u, false for NaN.
            "ne" if !float => Compare::Ne,
            "neu" if float => Compare::Ne,
            "lt" => Compare::Lt,
            "le" => Compare::Le,
            "gt" => Compare::Gt,
            "ge" => Compare::Ge,
            "nan" if float => Compare::Nan,
            _ => return Err(format!("a comparison {how}")),
        };
        let kind = match &ty[..1] {
            "f" => Kind::Float,
            "s" => Kind::Signed,
            _ => Kind::Unsigned,
        };
        if is_wide(ty) {
            let (a, b) = (self.w(a)?, self.w(b)?);
            return Ok(Inst::Compare64(how, kind, [self.gives_p(to)?, a, b]));
        }
        let (a, b) = (self.n(a)?, self.n(b)?);
        Ok(Inst::Compare32(how, kind, [self.gives_p(to)?, a, b]))
    }

    pub(super) fn convert(
        &mut self,
        how: &[&str],
        to_ty: &str,
        from_ty: &str,
        to: &str,
        a: &str,
    ) -> Result<Inst, String> {
        let unknown = || Err(format!("a conversion {how:?} from {from_ty} to {to_ty}"));
        macro_rules! whole {
            ($Set:ident) => {
                match how {
                    ["rmi"] => $Set::FloorF,
                    ["rpi"] => $Set::CeilF,
                    ["rzi"] => $Set::TruncF,
                    ["rni"] => $Set::RoundF,
                    _ => return unknown(),
                }
            };
        }
        let (narrow_to, narrow_from) = (!is_wide(to_ty), !is_wide(from_ty));
        if narrow_to && narrow_from {
            let op = match (to_ty, from_ty, how) {
                ("f32", "f32", _) => whole!(Narrow1),
                ("f16", "f32", ["rn"]) => Narrow1::FToHalf,
                ("bf16", "f32", ["rn"]) => {
                    self.needs(80)?;
                    Narrow1::FToBf16
                }
                ("tf32", "f32", ["rna"]) => {
                    self.needs(80)?;
                    Narrow1::FToTf32
                }
                ("f32", "f16", []) => Narrow1::HalfToF,
                ("s32", "f32", ["rzi"]) => Narrow1::FToS,
                ("u32", "f32", ["rzi"]) => Narrow1::FToU,
                ("f32", "s32", ["rn"]) => Narrow1::SToF,
                ("f32", "u32", ["rn"]) => Narrow1::UToF,
                ("u32", "u16", []) | ("u16", "u32", []) => Narrow1::Low16,
                _ => return unknown(),
            };
            let a = self.n(a)?;
            return Ok(Inst::Narrow1(op, self.gives32(to)?, a));
        }
        if narrow_from {
            let op = match (to_ty, from_ty, how) {
                ("f64", "f32", []) => Widen::FToF,
                ("f64", "s32", ["rn"]) => Widen::SToF,
                ("f64", "u32", ["rn"]) => Widen::UToF,
                ("s64", "f32", ["rzi"]) => Widen::FToS,
                ("u64", "f32", ["rzi"]) => Widen::FToU,
                ("s64" | "u64", "s32", []) => Widen::Signed,
                ("s64" | "u64", "u32", []) => Widen::Unsigned,
                _ => return unknown(),
            };
            let a = self.n(a)?;
            return Ok(Inst::Widen(op, self.gives64(to)?, a));
        }
        let a = self.w(a)?;
        if narrow_to {
            let op = match (to_ty, from_ty, how) {
                ("f32", "f64", ["rn"]) => Narrowing::FToF,
                ("f32", "s64", ["rn"]) => Narrowing::SToF,
                ("f32", "u64", ["rn"]) => Narrowing::UToF,
                ("s32", "f64", ["rzi"]) => Narrowing::FToS,
                ("u32", "f64", ["rzi"]) => Narrowing::FToU,
                ("s32" | "u32", "s64" | "u64", []) => Narrowing::Low,
                _ => return unknown(),
            };
            return Ok(Inst::Narrow(op, self.gives32(to)?, a));
        }
        let op = match (to_ty, from_ty, how) {
            ("f64", "f64", _) => whole!(Wide1),
            ("s64", "f64", ["rzi"]) => Wide1::FToS,
            ("u64", "f64", ["rzi"]) => Wide1::FToU,
            ("f64", "s64", ["rn"]) => Wide1::SToF,
            ("f64", "u64", ["rn"]) => Wide1::UToF,
            _ => return unknown(),
        };
        Ok(Inst::Wide1(op, self.gives64(to)?, a))
    }
}
