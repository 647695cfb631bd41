//! From lines to instructions. Unknown ones are refused, with the line.

mod arith;

use super::files::{File, Files, number};
use emulated_gpu::inst::*;
use emulated_gpu::program::{PARAM_WINDOW, Param};
use std::collections::HashMap;

/// The module as read so far.
#[derive(Default)]
pub struct Decoder {
    pub files: Files,
    pub insts: Vec<Inst>,
    pub lines: Vec<u32>,
    /// The instruction index of each label.
    pub labels: HashMap<String, u32>,
    /// Branches to labels: the instruction and the label.
    pub branches: Vec<(usize, String)>,
    pub granule: usize,
    pub capability: u32,
    /// Is the target architecture-specific (`sm_90a`)?
    pub alone: bool,
    /// Operand lists of instructions with many operands.
    pub lists: Vec<Vec<Column>>,
}

impl Decoder {
    /// Decodes a label or an instruction; `n` is its line number.
    pub fn line(&mut self, line: &str, n: u32) -> Result<(), String> {
        if let Some(label) = line.strip_suffix(':') {
            self.labels.insert(label.to_string(), self.insts.len() as u32);
            self.push(Inst::Join, n);
            return Ok(());
        }
        let (guard, line) = match line.strip_prefix('@') {
            Some(rest) => {
                let (name, rest) = rest.split_once(' ').ok_or("an instruction after its guard")?;
                let (name, wanted) = name.strip_prefix('!').map_or((name, true), |r| (r, false));
                (Some((self.files.source(File::Predicate, name)?, wanted)), rest)
            }
            None => (None, line),
        };
        let (op, rest) = line.split_once(' ').unwrap_or((line, ""));
        let operands = split(rest);
        let o: Vec<&str> = operands.iter().map(String::as_str).collect();
        let parts: Vec<&str> = op.split('.').collect();
        if let (["bra"] | ["bra", "uni"], [label]) = (&parts[..], &o[..]) {
            self.branches.push((self.insts.len(), (*label).to_string()));
            self.push(Inst::Branch { to: 0, guard }, n);
            return Ok(());
        }
        if guard.is_some() {
            return Err("only branches may be guarded".into());
        }
        let inst = self.inst(&parts, &o)?;
        self.push(inst, n);
        Ok(())
    }
    fn push(&mut self, inst: Inst, line: u32) {
        self.insts.push(inst);
        self.lines.push(line);
    }

    pub fn gives32(&mut self, text: &str) -> Result<Column, String> {
        self.files.target(File::Narrow, text)
    }
    fn gives64(&mut self, text: &str) -> Result<Column, String> {
        self.files.target(File::Wide, text)
    }
    pub fn p(&mut self, text: &str) -> Result<Column, String> {
        self.files.source(File::Predicate, text)
    }
    pub fn gives_p(&mut self, text: &str) -> Result<Column, String> {
        self.files.target(File::Predicate, text)
    }
    pub fn n(&mut self, text: &str) -> Result<Column, String> {
        self.files.source(File::Narrow, text)
    }
    pub fn w(&mut self, text: &str) -> Result<Column, String> {
        self.files.source(File::Wide, text)
    }
    /// Requires a target of at least this capability.
    pub fn needs(&self, capability: u32) -> Result<(), String> {
        if self.capability >= capability { Ok(()) } else { Err(format!("needs .target sm_{capability}")) }
    }

    fn inst(&mut self, parts: &[&str], o: &[&str]) -> Result<Inst, String> {
        let ty = *parts.last().unwrap_or(&"");
        Ok(match (parts, o) {
            (["ret"], []) => Inst::Return,
            (["bar", "sync"], ["0"]) => Inst::Barrier,
            (["ld", "param", _], [to, place]) => return self.load_param(ty, to, place),
            (["ld", space @ .., _], [to, place]) => Inst::Load(self.access(space, ty, place, to, true)?),
            (["st", space @ .., _], [place, from]) => {
                Inst::Store(self.access(space, ty, place, from, false)?)
            }
            (["atom", space, what, _], [to, place, v]) => {
                let space = self.space(space)?;
                let (address, offset) = self.address(space, place)?;
                let what = match (*what, ty) {
                    ("add", "u32" | "s32") => Atomic::Add,
                    ("min", "s32") => Atomic::MinS,
                    ("min", "u32") => Atomic::MinU,
                    ("max", "s32") => Atomic::MaxS,
                    ("max", "u32") => Atomic::MaxU,
                    ("and", "b32") => Atomic::And,
                    ("or", "b32") => Atomic::Or,
                    ("xor", "b32") => Atomic::Xor,
                    ("exch", "b32") => Atomic::Exchange,
                    _ => return Err(format!("an atomic {what}.{ty}")),
                };
                self.touches(space, 4);
                let v = self.n(v)?;
                Inst::Atomic(what, space, [self.gives32(to)?, address, v], offset)
            }
            (["cvta", "to", "global", "u64"], [to, a]) => {
                let a = self.w(a)?;
                Inst::Wide1(Wide1::Mov, self.gives64(to)?, a)
            }
            (["shfl", "sync", mode, "b32"], [to, v, lane, "31", "0xFFFFFFFF"]) => {
                let butterfly = match *mode {
                    "bfly" => true,
                    "idx" => false,
                    other => return Err(format!("a shuffle {other}")),
                };
                let (v, lane) = (self.n(v)?, self.n(lane)?);
                Inst::Shuffle(butterfly, [self.gives32(to)?, v, lane])
            }
            (["mov", "b64"], [to, from]) if from.starts_with('{') => {
                let [low, high] = self.list(from, Self::n)?;
                Inst::Pack([self.gives64(to)?, low, high])
            }
            (["mov", "b64"], [to, from]) if to.starts_with('{') => {
                let from = self.w(from)?;
                let [low, high] = self.list(to, Self::gives32)?;
                Inst::Unpack([low, high, from])
            }
            (["mov", "b32"], [to, from]) if from.starts_with('{') => {
                let [low, high] = self.list(from, Self::n)?;
                Inst::Halves([self.gives32(to)?, low, high])
            }
            (["mov", "pred"], [to, from]) => {
                let from = self.p(from)?;
                Inst::MovPredicate(self.gives_p(to)?, from)
            }
            (["cvt", "rn", halves @ ("f16x2" | "bf16x2"), "f32"], [to, high, low]) => {
                self.needs(80)?;
                let factor = if *halves == "f16x2" { Factor::F16 } else { Factor::BF16 };
                let (high, low) = (self.n(high)?, self.n(low)?);
                Inst::HalvesOf(factor, [self.gives32(to)?, high, low])
            }
            (["cvt", how @ .., to_ty, from_ty], [to, from]) => {
                return self.convert(how, to_ty, from_ty, to, from);
            }
            (["setp", how, _], [to, a, b]) => return self.compare(how, ty, to, a, b),
            (["selp", _], [to, a, b, c]) => {
                let c = self.p(c)?;
                if is_wide(ty) {
                    let (a, b) = (self.w(a)?, self.w(b)?);
                    Inst::Select64([self.gives64(to)?, a, b, c])
                } else {
                    let (a, b) = (self.n(a)?, self.n(b)?);
                    Inst::Select32([self.gives32(to)?, a, b, c])
                }
            }
            ([_, "pred"], _) => return self.predicate(parts[0], o),
            (["shl" | "shr", _], [to, a, amount]) if is_wide(ty) => {
                let how = match (parts[0], &ty[..1]) {
                    ("shl", _) => Shift::Left,
                    (_, "s") => Shift::RightS,
                    _ => Shift::RightU,
                };
                let (a, amount) = (self.w(a)?, self.n(amount)?);
                Inst::Shift(how, [self.gives64(to)?, a, amount])
            }
            (["mad", "wide", "u32" | "s32"], [to, a, b, c]) => {
                let (a, b, c) = (self.n(a)?, self.n(b)?, self.w(c)?);
                Inst::MadWide(ty == "s32", [self.gives64(to)?, a, b, c])
            }
            (["mad", "lo", _], [to, a, b, c]) => return self.three(Three::Mad, is_wide(ty), [to, a, b, c]),
            (["fma", "rn", _], [to, a, b, c]) => return self.three(Three::FmaF, is_wide(ty), [to, a, b, c]),
            (["cvta", "param", "u64"], [to, a]) => {
                // The window is not a multiple of the addresses in it, so that using one without
                // the other is detected.
                let (a, window) = (self.w(a)?, self.w(&PARAM_WINDOW.to_string())?);
                Inst::Wide2(Wide2::Add, [self.gives64(to)?, a, window])
            }
            (["mbarrier" | "fence" | "wgmma", ..] | ["cp", "async", "bulk", ..], _) => {
                return self.boxes(parts, o);
            }
            (["mma" | "ldmatrix" | "cp", ..], _) => return self.matrix(parts, o),
            (_, [to, a]) => return self.one(parts, ty, to, a),
            (_, [to, a, b]) => return self.two(parts, ty, to, a, b),
            _ => return Err("this instruction is not known".into()),
        })
    }
}

impl Decoder {
    fn load_param(&mut self, ty: &str, to: &str, place: &str) -> Result<Inst, String> {
        let name = place.trim_start_matches('[').trim_end_matches(']');
        let Some(&(_, file, Param { column, .. })) = self.files.params.iter().find(|p| p.0 == name) else {
            return Err(format!("there is no parameter {name}"));
        };
        match (file, is_wide(ty)) {
            (File::Wide, true) => Ok(Inst::Wide1(Wide1::Mov, self.gives64(to)?, column)),
            (File::Narrow, false) => Ok(Inst::Narrow1(Narrow1::Mov, self.gives32(to)?, column)),
            _ => Err(format!("{name} is of another size")),
        }
    }

    fn space(&self, word: &str) -> Result<Space, String> {
        match word {
            "global" => Ok(Space::Global),
            "shared" => Ok(Space::Shared),
            _ => Err(format!("memory {word}")),
        }
    }
    /// Records that shared memory is accessed in pieces of this size.
    pub fn touches(&mut self, space: Space, size: usize) {
        if space == Space::Shared {
            self.granule = self.granule.min(size);
        }
    }
    /// `[%rd1+16]`
    pub fn address(&mut self, space: Space, text: &str) -> Result<(Column, u32), String> {
        let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).ok_or("an address")?;
        let (base, more) = inner.split_once('+').unwrap_or((inner, "0"));
        let offset = number(more).and_then(|n| u32::try_from(n).ok()).ok_or("bytes after an address")?;
        let base = match space {
            Space::Global => self.w(base)?,
            Space::Shared => self.n(base)?,
        };
        Ok((base, offset))
    }
    fn access(
        &mut self,
        space: &[&str],
        ty: &str,
        place: &str,
        all: &str,
        load: bool,
    ) -> Result<Access, String> {
        let (space, rest) = space.split_first().ok_or("where memory is")?;
        let space = self.space(space)?;
        let rest = match rest {
            ["nc", rest @ ..] if load && space == Space::Global => rest,
            rest => rest,
        };
        let count: usize = match rest {
            [] => 1,
            ["v2"] => 2,
            ["v4"] => 4,
            _ => return Err(format!("an access {rest:?}")),
        };
        let size = match ty {
            "u8" | "b8" => 1,
            "b16" | "u16" => 2,
            "b32" | "u32" | "s32" | "f32" => 4,
            "b64" | "u64" | "s64" | "f64" => 8,
            _ => return Err(format!("an access of {ty}")),
        };
        if size * count > 16 {
            return Err("an access has at most 16 bytes".into());
        }
        let (address, offset) = self.address(space, place)?;
        let names: Vec<&str> =
            all.trim_start_matches('{').trim_end_matches('}').split(',').map(str::trim).collect();
        if names.len() != count {
            return Err(format!("{count} registers"));
        }
        let (mut columns, wide) = ([0; 4], size == 8);
        for (to, name) in columns.iter_mut().zip(names) {
            *to = match (load, wide) {
                (true, true) => self.gives64(name)?,
                (true, false) => self.gives32(name)?,
                (false, true) => self.w(name)?,
                (false, false) => self.n(name)?,
            };
        }
        self.touches(space, size);
        // A vector is aligned to its size.
        let aligned = (size * count) as u8;
        Ok(Access { space, address, offset, aligned, size: size as u8, wide, count: count as u8, columns })
    }

    /// `{%r1, %r2}`
    pub fn list<const N: usize>(
        &mut self,
        text: &str,
        each: fn(&mut Self, &str) -> Result<Column, String>,
    ) -> Result<[Column; N], String> {
        let names = text.trim_start_matches('{').trim_end_matches('}').split(',');
        let all: Vec<Column> = names.map(|n| each(self, n.trim())).collect::<Result<_, _>>()?;
        all.try_into().map_err(|_| format!("{N} registers"))
    }

    /// Matrix products and their operand loads.
    fn matrix(&mut self, parts: &[&str], o: &[&str]) -> Result<Inst, String> {
        Ok(match (parts, o) {
            (["mma", "sync", "aligned", shape, "row", "col", "f32", x, y, "f32"], [d, a, b, c]) => {
                let factor = match (*shape, *x, *y) {
                    ("m16n8k16", "f16", "f16") => Factor::F16,
                    ("m16n8k16", "bf16", "bf16") => Factor::BF16,
                    ("m16n8k8", "tf32", "tf32") => Factor::Tf32,
                    _ => return Err(format!("a product {shape} of {x} and {y}")),
                };
                self.needs(80)?;
                let (a, b, c) = (self.list(a, Self::n)?, self.list(b, Self::n)?, self.list(c, Self::n)?);
                Inst::Mma(factor, self.list(d, Self::gives32)?, a, b, c)
            }
            (["mma", "sync", "aligned", shape, "row", "col", "f64", "f64", "f64", "f64"], [d, a, b, c]) => {
                match *shape {
                    "m16n8k8" => {
                        self.needs(90)?;
                        let (a, b, c) =
                            (self.list(a, Self::w)?, self.list(b, Self::w)?, self.list(c, Self::w)?);
                        Inst::MmaDouble(self.list(d, Self::gives64)?, a, b, c)
                    }
                    "m8n8k4" => {
                        self.needs(80)?;
                        let ([a], [b]) = (self.list(a, Self::w)?, self.list(b, Self::w)?);
                        let c = self.list(c, Self::w)?;
                        Inst::MmaSmall(self.list(d, Self::gives64)?, a, b, c)
                    }
                    _ => return Err(format!("a product {shape} of f64")),
                }
            }
            (["ldmatrix", "sync", "aligned", "m8n8", count, rest @ .., "shared", "b16"], [to, place]) => {
                let transposed = match rest {
                    [] => false,
                    ["trans"] => true,
                    _ => return Err(format!("a form {rest:?}")),
                };
                let (address, offset) = self.address(Space::Shared, place)?;
                self.touches(Space::Shared, 2);
                let mut columns = [0; 4];
                let count = match *count {
                    "x1" => 1,
                    "x2" => {
                        columns[..2].copy_from_slice(&self.list::<2>(to, Self::gives32)?);
                        2
                    }
                    "x4" => {
                        columns = self.list(to, Self::gives32)?;
                        4
                    }
                    _ => return Err(format!("{count} matrices")),
                };
                if count == 1 {
                    columns[0] = self.list::<1>(to, Self::gives32)?[0];
                }
                Inst::LoadMatrix { transposed, count, to: columns, address, offset }
            }
            (["cp", "async", "ca" | "cg", "shared", "global"], [to, from, bytes, rest @ ..]) => {
                self.needs(80)?;
                let bytes: u8 = bytes.parse().map_err(|_| "a number of bytes")?;
                if !(bytes == 16 || (parts[2] == "ca" && matches!(bytes, 4 | 8))) {
                    return Err(format!("a copy of {bytes} bytes"));
                }
                let (to, to_offset) = self.address(Space::Shared, to)?;
                let (from, from_offset) = self.address(Space::Global, from)?;
                self.touches(Space::Shared, 4);
                let read = match rest {
                    [] => self.n(&bytes.to_string())?,
                    [read] => self.n(read)?,
                    _ => return Err("a copy of more operands than are known".into()),
                };
                Inst::CopyAsync { to, to_offset, from, from_offset, bytes, read }
            }
            (["cp", "async", "commit_group"], []) => Inst::CommitCopies,
            (["cp", "async", "wait_group"], [n]) => {
                Inst::WaitCopies(n.parse().map_err(|_| "a number of groups")?)
            }
            _ => return Err("this instruction is not known".into()),
        })
    }
}

fn is_wide(ty: &str) -> bool {
    ty.ends_with("64")
}

/// Operands between commas; braces and brackets are kept whole.
fn split(text: &str) -> Vec<String> {
    let (mut all, mut depth, mut from) = (Vec::new(), 0, 0);
    for (i, c) in text.char_indices() {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            ',' if depth == 0 => {
                all.push(text[from..i].trim().to_string());
                from = i + 1;
            }
            _ => {}
        }
    }
    if !text[from..].trim().is_empty() {
        all.push(text[from..].trim().to_string());
    }
    all
}
