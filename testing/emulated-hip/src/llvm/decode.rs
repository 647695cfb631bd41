//! From lines to instructions: blocks, branches, vectors.

use super::cursor::{Cursor, File, Ty};
use super::lifetime::Lifetimes;
use super::names::{Named, Names};
use emulated_gpu::inst::{Column, Inst, Narrow1, Wide1};
use emulated_gpu::program::Special;
use std::collections::HashMap;

/// How far a barrier is written: a fence, the barrier, another fence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Barrier {
    #[default]
    None,
    Released,
    Reached,
}

/// The function as read so far.
#[derive(Default)]
pub struct Decoder<'a> {
    pub names: Names,
    pub life: Lifetimes<'a>,
    pub insts: Vec<Inst>,
    pub lines: Vec<u32>,
    /// The number of the line in the text.
    pub number: u32,
    pub specials: Vec<(Column, Special)>,
    pub lists: Vec<Vec<Column>>,
    pub granule: usize,
    /// The architecture.
    pub arch: &'a str,
    /// Lanes of a wave.
    pub wave: usize,
    /// Lanes that `ds_bpermute` reaches.
    pub bpermute: u8,
    labels: HashMap<String, u32>,
    branches: Vec<(usize, String)>,
    block: &'a str,
    barrier: Barrier,
}

impl<'a> Decoder<'a> {
    /// For an architecture whose `ds_bpermute` reaches this many lanes.
    pub fn new(arch: &'a str, bpermute: u8) -> Decoder<'a> {
        Decoder { granule: 8, arch, bpermute, ..Decoder::default() }
    }
    pub fn push(&mut self, inst: Inst) {
        self.insts.push(inst);
        self.lines.push(self.number);
    }
    /// The column of a result.
    pub fn to(&mut self, name: &str, ty: Ty) -> Result<Column, String> {
        let c = self.names.fresh(ty.file());
        self.names.set(name, Named::One(ty, c))?;
        Ok(c)
    }
    /// A register list.
    pub fn list(&mut self, columns: Vec<Column>) -> u32 {
        self.lists.push(columns);
        self.lists.len() as u32 - 1
    }

    /// Decodes a line of the body; `next` is the one behind it.
    pub fn line(&mut self, n: usize, line: &'a str, next: &str) -> Result<(), String> {
        let before = std::mem::take(&mut self.barrier);
        match (line, before) {
            ("fence syncscope(\"workgroup\") release", Barrier::None) => self.barrier = Barrier::Released,
            ("call void @llvm.amdgcn.s.barrier()", Barrier::Released) => {
                self.push(Inst::Barrier);
                self.barrier = Barrier::Reached;
            }
            ("fence syncscope(\"workgroup\") acquire", Barrier::Reached) => {}
            (_, Barrier::Released | Barrier::Reached) => return Err("a barrier without its fences".into()),
            (_, Barrier::None) => self.statement(line, next)?,
        }
        for name in self.life.ends.remove(&n).unwrap_or_default() {
            self.names.end(name);
        }
        Ok(())
    }

    fn statement(&mut self, line: &'a str, next: &str) -> Result<(), String> {
        if let Some(label) = line.strip_suffix(':') {
            self.block = label;
            self.labels.insert(label.to_string(), self.insts.len() as u32);
            self.push(Inst::Join);
            return Ok(());
        }
        let mut c = Cursor::new(line);
        match line.split(' ').next().unwrap_or("") {
            "ret" => {
                c.wants("ret void")?;
                self.push(Inst::Return);
            }
            "br" => self.branch(&mut c, next)?,
            "store" => self.store(&mut c)?,
            name if name.starts_with("%v") => {
                c.word();
                c.wants("=")?;
                match c.word() {
                    "phi" if self.names.is_known(name) => return Ok(()),
                    "phi" => return Err("a phi that no block before it has written".into()),
                    op => self.value(name, op, &mut c)?,
                }
            }
            _ => return Err("this is not known".into()),
        }
        c.ends()
    }

    fn value(&mut self, name: &str, op: &str, c: &mut Cursor<'_>) -> Result<(), String> {
        match op {
            "call" => self.call(name, c),
            "load" => self.load(name, c),
            "getelementptr" => self.address(name, c),
            "atomicrmw" => self.atomic(name, c),
            "extractelement" => {
                let (of, v) = self.vector_operand(c)?;
                c.wants(", i32")?;
                let i = c.number()? as usize;
                let all = self.names.vector(of, v)?;
                let column = all.get(i).copied().flatten().ok_or("an element that is not there")?;
                self.names.set(name, Named::One(of.0, column))
            }
            "insertelement" => {
                let (of, v) = self.vector_operand(c)?;
                c.wants(",")?;
                let ty = c.ty()?;
                let one = self.names.one(ty, c.word())?;
                c.wants(", i32")?;
                let i = c.number()? as usize;
                let mut all = self.names.vector(of, v)?;
                *all.get_mut(i).filter(|_| ty == of.0).ok_or("an element that is not there")? = Some(one);
                self.names.set(name, Named::Vector(ty, all))
            }
            _ => self.arithmetic(name, op, c),
        }
    }
    fn vector_operand<'c>(&mut self, c: &mut Cursor<'c>) -> Result<((Ty, usize), &'c str), String> {
        match c.vector()? {
            (ty, Some(count)) => Ok(((ty, count), c.word())),
            (_, None) => Err("a vector is expected".into()),
        }
    }

    fn branch(&mut self, c: &mut Cursor<'_>, next: &str) -> Result<(), String> {
        c.wants("br")?;
        if c.takes("label %") {
            let to = c.word().to_string();
            self.moves(&to)?;
            if next.strip_suffix(':') != Some(&to[..]) {
                self.goes(to, None);
            }
            return Ok(());
        }
        c.wants("i1")?;
        let condition = self.names.one(Ty::I1, c.word())?;
        c.wants(", label %")?;
        let yes = c.word().to_string();
        c.wants(", label %")?;
        let no = c.word().to_string();
        if self.life.phis.contains_key(&yes[..]) || self.life.phis.contains_key(&no[..]) {
            return Err("a phi behind a branch with two ways".into());
        }
        if next.strip_suffix(':') == Some(&yes[..]) {
            self.goes(no, Some((condition, false)));
        } else {
            self.goes(yes, Some((condition, true)));
            self.goes(no, None);
        }
        Ok(())
    }
    fn goes(&mut self, to: String, guard: Option<(Column, bool)>) {
        self.branches.push((self.insts.len(), to));
        self.push(Inst::Branch { to: 0, guard });
    }
    /// Branches get the numbers of their labels.
    pub fn link(&mut self) -> Result<(), String> {
        for (at, label) in &self.branches {
            let to = *self.labels.get(label).ok_or_else(|| format!("there is no block {label}"))?;
            if let Inst::Branch { to: place, .. } = &mut self.insts[*at] {
                *place = to;
            }
        }
        Ok(())
    }

    /// The phis of a block get what they are when coming from this one, all at once.
    fn moves(&mut self, to: &str) -> Result<(), String> {
        let Some(phis) = self.life.phis.get(to).cloned() else { return Ok(()) };
        let mut all: Vec<(File, Column, Column)> = Vec::new();
        for phi in phis.iter() {
            let from = phi.from.iter().find(|(_, block)| *block == self.block);
            let (value, _) = from.ok_or_else(|| format!("{} has nothing for this block", phi.name))?;
            let file = phi.ty.file();
            let sources = match phi.count {
                None => vec![self.names.one(phi.ty, value)?],
                Some(count) => self.names.whole((phi.ty, count), value)?,
            };
            let targets = match self.names.is_known(phi.name) {
                true => match self.names.named(phi.name)? {
                    Named::One(_, c) => vec![*c],
                    Named::Vector(_, all) => all.iter().flatten().copied().collect(),
                    other => return Err(format!("a phi of {other:?}")),
                },
                false => {
                    let fresh: Vec<Column> = sources.iter().map(|_| self.names.fresh(file)).collect();
                    let named = match phi.count {
                        None => Named::One(phi.ty, fresh[0]),
                        Some(_) => Named::Vector(phi.ty, fresh.iter().copied().map(Some).collect()),
                    };
                    self.names.set(phi.name, named)?;
                    fresh
                }
            };
            all.extend(targets.into_iter().zip(sources).map(|(t, s)| (file, t, s)));
        }
        let overwritten = |i: usize| {
            let (file, target, _) = all[i];
            all[i + 1..].iter().any(|(f, _, source)| *f == file && *source == target)
        };
        let held: Vec<bool> = (0..all.len()).map(overwritten).collect();
        if held.contains(&true) {
            let kept: Vec<Column> = all
                .iter()
                .map(|&(file, _, source)| {
                    let kept = self.names.fresh(file);
                    self.insts.push(mov(file, kept, source));
                    self.lines.push(self.number);
                    kept
                })
                .collect();
            for ((_, _, source), &kept) in all.iter_mut().zip(&kept) {
                *source = kept;
            }
            all.iter().for_each(|&(file, _, kept)| self.names.release(file, kept));
        }
        for (file, target, source) in all.into_iter().filter(|(_, t, s)| t != s) {
            self.push(mov(file, target, source));
        }
        Ok(())
    }
}

fn mov(file: File, to: Column, from: Column) -> Inst {
    match file {
        File::Narrow => Inst::Narrow1(Narrow1::Mov, to, from),
        File::Wide => Inst::Wide1(Wide1::Mov, to, from),
        File::Predicate => Inst::MovPredicate(to, from),
    }
}
