//! LLVM's functions, those of AMD's devices among them.

use super::cursor::{Cursor, File, Ty};
use super::decode::Decoder;
use super::names::Named;
use emulated_gpu::inst::*;
use emulated_gpu::program::Special;

impl Decoder<'_> {
    /// `call float @llvm.fma.f32(float %v1, float %v2, float 0.0)`
    pub fn call(&mut self, name: &str, c: &mut Cursor<'_>) -> Result<(), String> {
        let result = c.vector()?;
        c.wants("@llvm.")?;
        let function = c.word();
        c.wants("(")?;
        let mut operands = Vec::new();
        while !c.takes(")") {
            operands.push((c.vector()?, c.word()));
            c.takes(",");
        }
        if let Some(device) = function.strip_prefix("amdgcn.") {
            return self.device_call(name, device, result, &operands);
        }
        let (what, of) = function.rsplit_once('.').ok_or("a function of a type")?;
        let ty = match of {
            "f32" => Ty::Float,
            "f64" => Ty::Double,
            "i32" => Ty::I32,
            "i64" => Ty::I64,
            _ => return Err(format!("llvm.{function} is not known")),
        };
        if result != (ty, None) || operands.iter().any(|(t, _)| *t != (ty, None)) {
            return Err(format!("operands of llvm.{function} of another type"));
        }
        let columns: Vec<Column> =
            operands.iter().map(|(_, v)| self.names.one(ty, v)).collect::<Result<_, _>>()?;
        let unknown = || format!("llvm.{function} is not known");
        if let ("copysign", [a, b]) = (what, &columns[..]) {
            return self.copy_sign(name, ty, [*a, *b]);
        }
        let to = self.to(name, ty)?;
        macro_rules! one {
            ($Set:ident) => {
                match what {
                    "fabs" => $Set::AbsF,
                    "floor" => $Set::FloorF,
                    "ceil" => $Set::CeilF,
                    "trunc" => $Set::TruncF,
                    "rint" => $Set::RoundF,
                    _ => return Err(unknown()),
                }
            };
        }
        macro_rules! two {
            ($Set:ident) => {
                match what {
                    "smin" => $Set::MinS,
                    "umin" => $Set::MinU,
                    "smax" => $Set::MaxS,
                    "umax" => $Set::MaxU,
                    _ => return Err(unknown()),
                }
            };
        }
        let inst = match (&columns[..], ty) {
            ([a], Ty::Float) if what == "exp2" => Inst::Narrow1(Narrow1::Exp2F, to, *a),
            ([a], Ty::Float) => Inst::Narrow1(one!(Narrow1), to, *a),
            ([a], Ty::Double) => Inst::Wide1(one!(Wide1), to, *a),
            ([a, b], Ty::I32) => Inst::Narrow2(two!(Narrow2), [to, *a, *b]),
            ([a, b], Ty::I64) => Inst::Wide2(two!(Wide2), [to, *a, *b]),
            ([a, b, x], Ty::Float) if what == "fma" => Inst::Narrow3(Three::FmaF, [to, *a, *b, *x]),
            ([a, b, x], Ty::Double) if what == "fma" => Inst::Wide3(Three::FmaF, [to, *a, *b, *x]),
            _ => return Err(unknown()),
        };
        self.push(inst);
        Ok(())
    }

    fn copy_sign(&mut self, name: &str, ty: Ty, [a, b]: [Column; 2]) -> Result<(), String> {
        let (file, top) = (ty.file(), if ty == Ty::Float { 1u64 << 31 } else { 1 << 63 });
        let [sign, rest] = [self.names.constant(file, top), self.names.constant(file, top - 1)];
        let held = self.names.fresh(file);
        let to = self.to(name, ty)?;
        let inst = |narrow, wide, all| match file {
            File::Narrow => Inst::Narrow2(narrow, all),
            _ => Inst::Wide2(wide, all),
        };
        self.push(inst(Narrow2::And, Wide2::And, [held, b, sign]));
        self.push(inst(Narrow2::And, Wide2::And, [to, a, rest]));
        self.push(inst(Narrow2::Or, Wide2::Or, [to, to, held]));
        self.names.release(file, held);
        Ok(())
    }

    fn device_call(
        &mut self,
        name: &str,
        function: &str,
        (result, count): (Ty, Option<usize>),
        operands: &[((Ty, Option<usize>), &str)],
    ) -> Result<(), String> {
        if count.is_some() {
            return self.matrix(name, function, (result, count), operands);
        }
        let texts: Vec<&str> = operands.iter().map(|(_, v)| *v).collect();
        let number = |text: &str| text.parse::<u32>().map_err(|_| format!("{text} is no known number"));
        if let [of @ ("workgroup" | "workitem"), "id", axis] = function.split('.').collect::<Vec<_>>()[..] {
            let axis = ["x", "y", "z"].iter().position(|a| *a == axis).ok_or("an axis")? as u8;
            let special = if of == "workgroup" { Special::Group(axis) } else { Special::Thread(axis) };
            let c = match self.specials.iter().find(|(_, s)| *s == special) {
                Some((c, _)) => *c,
                None => {
                    let c = self.names.lasting(File::Narrow);
                    self.specials.push((c, special));
                    c
                }
            };
            return self.names.set(name, Named::One(Ty::I32, c));
        }
        let inst = match (function, &texts[..]) {
            ("sqrt.f32", [a]) => {
                let a = self.names.one(Ty::Float, a)?;
                Inst::Narrow1(Narrow1::SqrtNear, self.to(name, Ty::Float)?, a)
            }
            ("sqrt.f64", [a]) => {
                let a = self.names.one(Ty::Double, a)?;
                Inst::Wide1(Wide1::SqrtNear, self.to(name, Ty::Double)?, a)
            }
            ("ds.bpermute", [bytes, v]) => {
                let [bytes, v] = [self.names.one(Ty::I32, bytes)?, self.names.one(Ty::I32, v)?];
                Inst::Permute(self.bpermute.min(self.wave as u8), [self.to(name, Ty::I32)?, v, bytes])
            }
            ("ds.swizzle", [v, pattern]) => {
                let (v, pattern) = (self.names.one(Ty::I32, v)?, number(pattern)?);
                if pattern >= 1 << 15 {
                    return Err("a swizzle of another kind".into());
                }
                let [and, or, xor] = [0, 5, 10].map(|at| (pattern >> at & 31) as u8);
                Inst::Route(Route::Swizzle { and, or, xor }, self.to(name, Ty::I32)?, v)
            }
            ("readlane", [v, lane]) => {
                let (v, lane) = (self.names.one(Ty::I32, v)?, number(lane)?);
                Inst::Route(Route::Lane(lane as u8), self.to(name, Ty::I32)?, v)
            }
            ("update.dpp.i32", [old, v, control, "15", "15", "true"]) if old == v => {
                let (v, control) = (self.names.one(Ty::I32, v)?, number(control)?);
                let route = match control {
                    0..0x100 => Route::Quad(control as u8),
                    0x140 => Route::Mirror(16),
                    0x141 => Route::Mirror(8),
                    _ => return Err(format!("DPP {control:#x}")),
                };
                Inst::Route(route, self.to(name, Ty::I32)?, v)
            }
            _ => return Err(format!("llvm.amdgcn.{function} is not known")),
        };
        self.push(inst);
        Ok(())
    }

    /// Operands of matrix instructions, as many numbers as a lane has of each.
    fn matrix(
        &mut self,
        name: &str,
        function: &str,
        sums: (Ty, Option<usize>),
        operands: &[((Ty, Option<usize>), &str)],
    ) -> Result<(), String> {
        let [a, b, c, modes @ ..] = operands else { return Err("three operands are expected".into()) };
        let factor = a.0.0;
        let (unit, each, of_sums) = match function {
            "mfma.f32.16x16x16f16" => (Unit::Mfma(Ty::Half.factor()?), (Ty::Half, Some(4)), 4),
            "mfma.f32.16x16x16bf16.1k" => (Unit::Mfma(Ty::I16.factor()?), (Ty::I16, Some(4)), 4),
            "mfma.f32.16x16x4f32" => (Unit::MfmaF32, (Ty::Float, None), 4),
            "wmma.f32.16x16x16.f16.v8f32.v16f16" | "wmma.f32.16x16x16.bf16.v8f32.v16i16" => {
                let of = if function.contains(".bf16.") { Ty::I16 } else { Ty::Half };
                (Unit::Wmma(of.factor()?), (of, Some(16)), 8)
            }
            "wmma.f32.16x16x16.f16.v8f32.v8f16" | "wmma.f32.16x16x16.bf16.v8f32.v8i16" => {
                let of = if function.contains(".bf16.") { Ty::I16 } else { Ty::Half };
                (Unit::WmmaHalves(of.factor()?), (of, Some(8)), 8)
            }
            _ => return Err(format!("llvm.amdgcn.{function} is not known")),
        };
        let has = match unit {
            Unit::Mfma(_) | Unit::MfmaF32 => matches!(self.arch, "gfx90a" | "gfx942"),
            Unit::Wmma(_) => self.arch == "gfx1100",
            Unit::WmmaHalves(_) => self.arch == "gfx1201",
        };
        if !has {
            return Err(format!("{} has no llvm.amdgcn.{function}", self.arch));
        }
        let fits = [a.0, b.0] == [each; 2] && [c.0, sums] == [(Ty::Float, Some(of_sums)); 2];
        let wanted = if function.starts_with("mfma") { 3 } else { 0 };
        if !fits || modes.len() != wanted || modes.iter().any(|(t, v)| *t != (Ty::I32, None) || *v != "0") {
            return Err(format!("operands of llvm.amdgcn.{function}"));
        }
        let mut columns = Vec::new();
        for (of, text) in [a, b] {
            columns.push(match of.1 {
                Some(count) => self.names.whole((factor, count), text)?,
                None => vec![self.names.one(factor, text)?],
            });
        }
        columns.push(self.names.whole((Ty::Float, of_sums), c.1)?);
        let to: Vec<Column> = (0..of_sums).map(|_| self.names.fresh(File::Narrow)).collect();
        self.names.set(name, Named::Vector(Ty::Float, to.iter().copied().map(Some).collect()))?;
        columns.insert(0, to);
        let lists: Vec<u32> = columns.into_iter().map(|all| self.list(all)).collect();
        self.push(Inst::Matrix(unit, [lists[0], lists[1], lists[2], lists[3]]));
        Ok(())
    }
}
