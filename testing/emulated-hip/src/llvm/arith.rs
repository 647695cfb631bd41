//! Arithmetic, comparisons, conversions.

use super::cursor::{Cursor, File, Ty};
use super::decode::Decoder;
use super::names::Named;
use emulated_gpu::inst::*;

impl Decoder<'_> {
    pub fn arithmetic(&mut self, name: &str, op: &str, c: &mut Cursor<'_>) -> Result<(), String> {
        match op {
            "icmp" | "fcmp" => return self.compare(name, op, c),
            "select" => return self.select(name, c),
            _ => {}
        }
        let ty = c.ty()?;
        let a = c.word();
        match op {
            "fneg" => {
                let a = self.names.one(ty, a)?;
                let to = self.to(name, ty)?;
                self.push(match ty {
                    Ty::Float => Inst::Narrow1(Narrow1::NegF, to, a),
                    Ty::Double => Inst::Wide1(Wide1::NegF, to, a),
                    other => return Err(format!("fneg of {other:?}")),
                });
                Ok(())
            }
            "freeze" => {
                let a = self.names.one(ty, a)?;
                self.names.set(name, Named::One(ty, a))
            }
            "zext" | "sext" | "trunc" | "fptrunc" | "fpext" | "fptosi" | "fptoui" | "sitofp" | "uitofp"
            | "bitcast" => {
                c.wants("to")?;
                let to = c.ty()?;
                self.convert(name, op, [ty, to], a)
            }
            _ => {
                c.wants(",")?;
                let b = c.word();
                self.binary(name, op, ty, [a, b])
            }
        }
    }

    fn binary(&mut self, name: &str, op: &str, ty: Ty, [a, b]: [&str; 2]) -> Result<(), String> {
        if ty == Ty::I128 {
            return self.high(name, op, [a, b]);
        }
        let [x, y] = [self.names.one(ty, a)?, self.names.one(ty, b)?];
        if matches!(op, "shl" | "ashr" | "lshr") {
            return self.shift(name, op, ty, [x, y], b);
        }
        if matches!(op, "sdiv" | "udiv") {
            let (signed, all) = (op == "sdiv", [x, y]);
            self.push(if ty.is_wide() {
                Inst::Divides64 { signed, all }
            } else {
                Inst::Divides32 { signed, all }
            });
        }
        let to = self.to(name, ty)?;
        let all = [to, x, y];
        macro_rules! pick {
            ($Set:ident) => {
                match op {
                    "fadd" if ty.is_float() => $Set::AddF,
                    "fsub" if ty.is_float() => $Set::SubF,
                    "fmul" if ty.is_float() => $Set::MulF,
                    "fdiv" if ty.is_float() => $Set::DivF,
                    _ if ty.is_float() => return Err(format!("{op} of {ty:?}")),
                    "add" => $Set::Add,
                    "sub" => $Set::Sub,
                    "mul" => $Set::Mul,
                    "sdiv" => $Set::DivS,
                    "udiv" => $Set::DivU,
                    "and" => $Set::And,
                    "or" => $Set::Or,
                    "xor" => $Set::Xor,
                    _ => return Err(format!("{op} of {ty:?}")),
                }
            };
        }
        let inst = match ty {
            Ty::I32 | Ty::Float => Inst::Narrow2(pick!(Narrow2), all),
            Ty::I64 | Ty::Double => Inst::Wide2(pick!(Wide2), all),
            Ty::I1 => Inst::Predicate(
                match op {
                    "and" => Predicate::And,
                    "or" => Predicate::Or,
                    "xor" => Predicate::Xor,
                    _ => return Err(format!("{op} of truth values")),
                },
                all,
            ),
            Ty::I8 | Ty::I16 | Ty::I128 | Ty::Half | Ty::Global | Ty::Lds => {
                return Err(format!("{op} of {ty:?}"));
            }
        };
        self.push(inst);
        Ok(())
    }

    fn shift(&mut self, name: &str, op: &str, ty: Ty, [a, b]: [Column; 2], text: &str) -> Result<(), String> {
        let width: u8 = match ty {
            Ty::I32 => 32,
            Ty::I64 => 64,
            other => return Err(format!("{op} of {other:?}")),
        };
        let known = text.parse::<u64>().ok();
        if known.is_some_and(|n| n >= width.into()) {
            return Err("all bits are shifted out".into());
        }
        let mut held = None;
        let amount = match (ty, known) {
            (Ty::I64, Some(n)) => self.names.constant(File::Narrow, n),
            (Ty::I64, None) => {
                let low = *held.insert(self.names.fresh(File::Narrow));
                self.push(Inst::Narrow(Narrowing::Low, low, b));
                low
            }
            _ => b,
        };
        if known.is_none() {
            self.push(Inst::Amount(width, amount));
        }
        let to = self.to(name, ty)?;
        let all = [to, a, amount];
        self.push(match (ty, op) {
            (Ty::I32, "shl") => Inst::Narrow2(Narrow2::Shl, all),
            (Ty::I32, "ashr") => Inst::Narrow2(Narrow2::ShrS, all),
            (Ty::I32, _) => Inst::Narrow2(Narrow2::ShrU, all),
            (_, "shl") => Inst::Shift(Shift::Left, all),
            (_, "ashr") => Inst::Shift(Shift::RightS, all),
            (_, _) => Inst::Shift(Shift::RightU, all),
        });
        if let Some(low) = held {
            self.names.release(File::Narrow, low);
        }
        Ok(())
    }

    /// Numbers of 128 bits are only there to be products of two of 64, and to lose their lower
    /// half.
    fn high(&mut self, name: &str, op: &str, [a, b]: [&str; 2]) -> Result<(), String> {
        let named = match (op, self.names.named(a)?) {
            ("mul", Named::Extended(signed, x)) => match self.names.named(b)? {
                Named::Extended(other, y) if signed == other => Named::Product(*signed, [*x, *y]),
                other => return Err(format!("a product with {other:?}")),
            },
            ("lshr", Named::Product(signed, both)) if b == "64" => Named::High(*signed, *both),
            (_, other) => return Err(format!("{op} of {other:?}")),
        };
        self.names.set(name, named)
    }

    fn compare(&mut self, name: &str, op: &str, c: &mut Cursor<'_>) -> Result<(), String> {
        let word = c.word();
        let ty = c.ty()?;
        let (a, b) = {
            let a = c.word();
            c.wants(",")?;
            (a, c.word())
        };
        let [a, b] = [self.names.one(ty, a)?, self.names.one(ty, b)?];
        let to = self.to(name, Ty::I1)?;
        if ty == Ty::I1 {
            return self.compare_truths(word, [to, a, b]);
        }
        let (kind, how) = match (op, word) {
            ("fcmp", "une") => (Kind::Float, Compare::Ne),
            ("fcmp", "uno") => (Kind::Float, Compare::Nan),
            ("fcmp", _) => (Kind::Float, order(word.strip_prefix('o'))?),
            ("icmp", "ne") => (Kind::Unsigned, Compare::Ne),
            ("icmp", "eq") => (Kind::Unsigned, Compare::Eq),
            _ if word.starts_with('s') => (Kind::Signed, order(word.strip_prefix('s'))?),
            _ => (Kind::Unsigned, order(word.strip_prefix('u'))?),
        };
        if (kind == Kind::Float) != ty.is_float() || ty == Ty::Half {
            return Err(format!("{op} of {ty:?}"));
        }
        let all = [to, a, b];
        self.push(if ty.is_wide() {
            Inst::Compare64(how, kind, all)
        } else {
            Inst::Compare32(how, kind, all)
        });
        Ok(())
    }

    /// Of truth values, true is the larger.
    fn compare_truths(&mut self, word: &str, [to, a, b]: [Column; 3]) -> Result<(), String> {
        let (how, turned, [a, b]) = match word {
            "ne" => (Predicate::Xor, None, [a, b]),
            "eq" => (Predicate::Xor, Some(b), [a, b]),
            "ugt" => (Predicate::And, Some(b), [a, b]),
            "uge" => (Predicate::Or, Some(b), [a, b]),
            "ult" => (Predicate::And, Some(a), [b, a]),
            "ule" => (Predicate::Or, Some(a), [b, a]),
            other => return Err(format!("icmp {other} of truth values")),
        };
        let held = self.names.fresh(File::Predicate);
        self.push(match turned {
            Some(column) => Inst::NotPredicate(held, column),
            None => Inst::MovPredicate(held, b),
        });
        self.push(Inst::Predicate(how, [to, a, held]));
        self.names.release(File::Predicate, held);
        Ok(())
    }

    fn select(&mut self, name: &str, c: &mut Cursor<'_>) -> Result<(), String> {
        c.wants("i1")?;
        let p = self.names.one(Ty::I1, c.word())?;
        c.wants(",")?;
        let ty = c.ty()?;
        let a = self.names.one(ty, c.word())?;
        c.wants(",")?;
        c.wants(&words(ty))?;
        let b = self.names.one(ty, c.word())?;
        let to = self.to(name, ty)?;
        match ty.file() {
            File::Narrow => self.push(Inst::Select32([to, a, b, p])),
            File::Wide => self.push(Inst::Select64([to, a, b, p])),
            File::Predicate => {
                // Where the condition holds, what differs is turned over.
                let differ = self.names.fresh(File::Predicate);
                self.push(Inst::Predicate(Predicate::Xor, [differ, a, b]));
                self.push(Inst::Predicate(Predicate::And, [differ, differ, p]));
                self.push(Inst::Predicate(Predicate::Xor, [to, differ, b]));
                self.names.release(File::Predicate, differ);
            }
        }
        Ok(())
    }

    fn convert(&mut self, name: &str, op: &str, [from, to]: [Ty; 2], a: &str) -> Result<(), String> {
        if let (Ty::I128, Named::High(signed, [x, y])) =
            (from, self.names.named(a).unwrap_or(&NOTHING).clone())
        {
            if (op, to) != ("trunc", Ty::I64) {
                return Err(format!("{op} of 128 bits"));
            }
            let c = self.to(name, Ty::I64)?;
            self.push(Inst::Wide2(if signed { Wide2::MulHighS } else { Wide2::MulHighU }, [c, x, y]));
            return Ok(());
        }
        let a = self.names.one(from, a)?;
        let same = match (op, from, to) {
            ("bitcast", ..) => from.bytes() == to.bytes() && from.file() == to.file(),
            // Upper bits of these are zeros.
            ("zext", Ty::I8 | Ty::I16, Ty::I32) => true,
            _ => false,
        };
        if same {
            return self.names.set(name, Named::One(to, a));
        }
        if let ("zext" | "sext", Ty::I64, Ty::I128) = (op, from, to) {
            return self.names.set(name, Named::Extended(op == "sext", a));
        }
        let c = self.to(name, to)?;
        let one = |bits: u64| [(to.file(), bits), (to.file(), 0)];
        let inst = match (op, from, to) {
            ("zext" | "uitofp", Ty::I1, _) => {
                let bits = match to {
                    Ty::Float => u64::from(1f32.to_bits()),
                    Ty::Double => 1f64.to_bits(),
                    _ => 1,
                };
                let [yes, no] = one(bits).map(|(file, bits)| self.names.constant(file, bits));
                if to.is_wide() { Inst::Select64([c, yes, no, a]) } else { Inst::Select32([c, yes, no, a]) }
            }
            ("trunc", Ty::I32, Ty::I8 | Ty::I16) => {
                let mask = self.names.constant(File::Narrow, if to == Ty::I8 { 0xff } else { 0xffff });
                Inst::Narrow2(Narrow2::And, [c, a, mask])
            }
            ("trunc", Ty::I64, Ty::I32) => Inst::Narrow(Narrowing::Low, c, a),
            ("zext", Ty::I32, Ty::I64) => Inst::Widen(Widen::Unsigned, c, a),
            ("sext", Ty::I32, Ty::I64) => Inst::Widen(Widen::Signed, c, a),
            ("fptrunc", Ty::Float, Ty::Half) => Inst::Narrow1(Narrow1::FToHalf, c, a),
            ("fptrunc", Ty::Double, Ty::Float) => Inst::Narrow(Narrowing::FToF, c, a),
            ("fpext", Ty::Half, Ty::Float) => Inst::Narrow1(Narrow1::HalfToF, c, a),
            ("fpext", Ty::Float, Ty::Double) => Inst::Widen(Widen::FToF, c, a),
            ("fptosi", Ty::Float, Ty::I32) => Inst::Narrow1(Narrow1::FToS, c, a),
            ("fptoui", Ty::Float, Ty::I32) => Inst::Narrow1(Narrow1::FToU, c, a),
            ("fptosi", Ty::Float, Ty::I64) => Inst::Widen(Widen::FToS, c, a),
            ("fptoui", Ty::Float, Ty::I64) => Inst::Widen(Widen::FToU, c, a),
            ("fptosi", Ty::Double, Ty::I32) => Inst::Narrow(Narrowing::FToS, c, a),
            ("fptoui", Ty::Double, Ty::I32) => Inst::Narrow(Narrowing::FToU, c, a),
            ("fptosi", Ty::Double, Ty::I64) => Inst::Wide1(Wide1::FToS, c, a),
            ("fptoui", Ty::Double, Ty::I64) => Inst::Wide1(Wide1::FToU, c, a),
            ("sitofp", Ty::I32, Ty::Float) => Inst::Narrow1(Narrow1::SToF, c, a),
            ("uitofp", Ty::I32, Ty::Float) => Inst::Narrow1(Narrow1::UToF, c, a),
            ("sitofp", Ty::I32, Ty::Double) => Inst::Widen(Widen::SToF, c, a),
            ("uitofp", Ty::I32, Ty::Double) => Inst::Widen(Widen::UToF, c, a),
            ("sitofp", Ty::I64, Ty::Float) => Inst::Narrow(Narrowing::SToF, c, a),
            ("uitofp", Ty::I64, Ty::Float) => Inst::Narrow(Narrowing::UToF, c, a),
            ("sitofp", Ty::I64, Ty::Double) => Inst::Wide1(Wide1::SToF, c, a),
            ("uitofp", Ty::I64, Ty::Double) => Inst::Wide1(Wide1::UToF, c, a),
            _ => return Err(format!("{op} from {from:?} to {to:?}")),
        };
        self.push(inst);
        Ok(())
    }
}

/// What a constant is as a name.
static NOTHING: Named = Named::One(Ty::I1, 0);

fn order(word: Option<&str>) -> Result<Compare, String> {
    Ok(match word {
        Some("eq") => Compare::Eq,
        Some("lt") => Compare::Lt,
        Some("le") => Compare::Le,
        Some("gt") => Compare::Gt,
        Some("ge") => Compare::Ge,
        _ => return Err("a comparison that is not known".into()),
    })
}

fn words(ty: Ty) -> String {
    match ty {
        Ty::Global => "ptr addrspace(1)".into(),
        Ty::Lds => "ptr addrspace(3)".into(),
        Ty::I1 | Ty::I8 | Ty::I16 | Ty::I32 | Ty::I64 | Ty::I128 | Ty::Half | Ty::Float | Ty::Double => {
            format!("{ty:?}").to_lowercase()
        }
    }
}
